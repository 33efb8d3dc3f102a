"""Checkpoints that PyTorch wrote: what they hold, and what in them is refused."""

import collections
import io
import itertools
import pickle
import pickletools
import struct
import zipfile

import numpy as np
import pytest

from . import states
from .states import FILES, OPTIMIZERS, SCHEDULERS, expect_same, model_of, train


def rewritten(path, change=None, pickled=None, method=zipfile.ZIP_STORED):
    """Return an archive again, with its entries changed."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    if pickled is not None:
        members[next(name for name in members if name.endswith("/data.pkl"))] = pickled
    if change is not None:
        members = change(members)
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return stream.getvalue()


def with_pickle(data):
    """Return an archive around a pickle."""
    return io.BytesIO(rewritten(FILES / "state.pt", pickled=data))


# ---- what is read


@pytest.mark.parametrize("name", ["state.pt", "protocol4.pt"])
@pytest.mark.parametrize("mapped", [False, True])
def test_one_of_everything(ours, name, mapped):
    state = ours.load(FILES / name, mmap=mapped)
    for dtype in states.DTYPES:
        wanted = ours.arange(4).to(getattr(ours, dtype))
        states.expect_same_tensor(state["tensors"][dtype], wanted, dtype)
    matrix, row, turned = state["shared"]
    assert turned.stride() == (1, 4)
    row.zero_()
    assert matrix[1].tolist() == turned[:, 1].tolist() == [0, 0, 0, 0]
    assert state["zero_size"].shape == (0, 3) and state["zero_dim"].item() == 2.5
    assert state["expanded"].stride() == (0,)
    assert type(state["parameter"]) is type(state["frozen"]) is ours.nn.Parameter
    assert state["parameter"].requires_grad and not state["frozen"].requires_grad
    assert state["parameter"].note == "kept" and state["plain"].note == [1, 2]
    assert state["leaf"].requires_grad and state["leaf"].is_leaf
    expect_same(state["numbers"], states.numbers())
    assert state["text"] == ["", "é", "\ud800", b"", b"\x00\xff", bytearray(b"ab")]
    types = [ours.float32, ours.device("cpu"), ours.device("cuda", 1), ours.strided]
    assert state["types"] == types
    containers = state["containers"]
    assert containers[:4] == [(), (1, (2,)), {1, 2}, frozenset([3])]
    assert type(containers[4]) is ours.Size
    assert containers[5:7] == [collections.OrderedDict(a=1), collections.Counter("aab")]
    assert containers[7]["new"] == []
    assert containers[8] == {
        1: "int", 2.5: "float", None: "none", (1, "a"): "tuple", False: "bool",
    }  # fmt: skip


def test_a_model_gives_the_same_outputs(ours):
    state = ours.load(FILES / "training.pt")
    model = model_of(ours, 1)
    assert str(model.load_state_dict(state["model"])) == "<All keys matched successfully>"
    model.eval()
    output = model(ours.arange(5))
    np.testing.assert_allclose(output.tolist(), state["output"].tolist(), rtol=1e-5, atol=1e-6)
    optimizer = OPTIMIZERS["Adam"](ours, model.parameters())
    optimizer.load_state_dict(state["optimizer"])
    scheduler = SCHEDULERS["MultiStepLR"](ours.optim.lr_scheduler, optimizer)
    scheduler.load_state_dict(state["scheduler"])
    assert train(ours, model, optimizer, scheduler, 2)


@pytest.mark.parametrize(
    ("optimizer", "scheduler"),
    list(zip(itertools.cycle(OPTIMIZERS), SCHEDULERS, strict=False)),
)
def test_training_begun_in_pytorch_goes_on_here(ours, pytorch, tmp_path, optimizer, scheduler):
    def start(library, seed):
        model = model_of(library, seed).double()
        made = OPTIMIZERS[optimizer](library, model.parameters())
        return model, made, SCHEDULERS[scheduler](library.optim.lr_scheduler, made)

    theirs, mine = start(pytorch, 0), start(ours, 1)
    train(pytorch, *theirs, 3)
    pytorch.save([part.state_dict() for part in theirs], tmp_path / "file.pth")
    for part, state in zip(mine, ours.load(tmp_path / "file.pth"), strict=True):
        part.load_state_dict(state)
    expected = train(pytorch, *theirs, 4)
    np.testing.assert_allclose(train(ours, *mine, 4), expected, rtol=1e-9)
    theirs[0].eval(), mine[0].eval()
    outputs = [part[0](library.arange(5)) for part, library in ((theirs, pytorch), (mine, ours))]
    np.testing.assert_allclose(outputs[1].tolist(), outputs[0].tolist(), rtol=1e-9)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_every_protocol(ours, pytorch, protocol):
    state = {"x": pytorch.arange(3), "l": [1.5, "a", None, (1, 2, 3, 4)], "b": b"x" * 300}
    stream = io.BytesIO()
    pytorch.save(state, stream, pickle_protocol=protocol)
    stream.seek(0)
    expect_same(ours.load(stream), state)


def test_a_file_of_the_other_byte_order(ours):
    def swap(members):
        changed = {}
        for name, content in members.items():
            if name.endswith("/byteorder"):
                content = b"big"
            changed[name] = content
        return changed

    with zipfile.ZipFile(FILES / "state.pt") as archive:
        assert archive.read("state/byteorder") == b"little"
    plain = ours.load(FILES / "state.pt")["tensors"]
    swapped = ours.load(io.BytesIO(rewritten(FILES / "state.pt", swap)))["tensors"]
    for name in states.DTYPES:
        if name == "bfloat16":
            continue
        wanted = plain[name].numpy().byteswap().tobytes()
        assert swapped[name].numpy().tobytes() == wanted, name


def test_our_files_are_not_mistaken_for_pytorchs(ours, tmp_path):
    ours.save({"x": ours.ones(1)}, tmp_path / "model.pt")  # the suffix says nothing
    assert ours.load(tmp_path / "model.pt")["x"].tolist() == [1]


# ---- what is refused


class Evil:
    """Would run a function when it is unpickled."""

    def __init__(self, function, *args):
        self.reduced = function, args

    def __reduce__(self):
        return self.reduced


def test_nothing_is_called(ours, tmp_path):
    marker = tmp_path / "marker"
    for function, name in ((open, "io.open"), (eval, "builtins.eval"), (__import__, "__import__")):
        data = pickle.dumps({"a": Evil(function, str(marker), "w")}, 2)
        with pytest.raises(pickle.UnpicklingError, match=rf"refused \S*{name}"):
            ours.load(with_pickle(data))
    assert not marker.exists()
    data = pickle.dumps({"a": Evil(open, str(marker), "w")}, 2)
    ours.load(with_pickle(data), weights_only=False)["a"].close()  # whoever says so trusts it
    assert marker.exists()


REFUSED = {
    "a whole module": (b"\x80\x02ctorch.nn.modules.linear\nLinear\n.", r"linear\.Linear"),
    "a class by newer name": (b"\x80\x04\x8c\x02os\x8c\x06system\x93.", "refused os.system"),
    "a nested name": (b"\x80\x04\x8c\x05torch\x8c\x0aload.thing\x93.", "refused torch.load.thing"),
    "a function as a value": (b"\x80\x02]c_codecs\nencode\na.", "_codecs.encode as a value"),
    "a class as a value": (b"\x80\x02ctorch\nFloatStorage\n.", "a class as a value"),
    "attributes": (b"\x80\x02ccollections\nOrderedDict\n)R}X\x05\x00\x00\x00itemsK\x01sb.",
                   "attributes .*items"),
    "state of a list": (b"\x80\x02]}b.", "state for an object of type list"),
    "a factory": (b"\x80\x02ccollections\ndefaultdict\nc_codecs\nencode\n\x85R.", "a function"),
    "a class of Python's called": (b"\x80\x02c__builtin__\ndict\n)R.", "a class of Python's"),
}  # fmt: skip


@pytest.mark.parametrize(("data", "text"), REFUSED.values(), ids=REFUSED)
def test_refused_by_name(ours, data, text):
    with pytest.raises(ours.serialization.RefusedError, match=text) as caught:
        ours.load(with_pickle(data))
    assert isinstance(caught.value, pickle.UnpicklingError)
    assert isinstance(caught.value, RuntimeError)


def test_a_module_that_pytorch_pickled(ours, pytorch):
    stream = io.BytesIO()
    pytorch.save(pytorch.nn.Linear(1, 1), stream)
    stream.seek(0)
    with pytest.raises(
        pickle.UnpicklingError, match=r"torch\.nn\.modules\.linear\.Linear.*state_dict"
    ):
        ours.load(stream)


def test_the_legacy_format_says_how_to_save_again(ours):
    with pytest.raises(
        ours.serialization.CheckpointError, match=r"before release 1\.6.*torch\.save"
    ):
        ours.load(FILES / "legacy.pt")
    tar = bytearray(1024)
    tar[257:262] = b"ustar"
    with pytest.raises(ours.serialization.CheckpointError, match=r"before release 1\.6"):
        ours.load(io.BytesIO(bytes(tar)))
    with pytest.raises(ours.serialization.CheckpointError, match="a bare pickle"):
        ours.load(io.BytesIO(pickle.dumps({"a": list(range(100))})))


def test_other_archives(ours):
    def no_pickle(members):
        return {"a/readme": b""}

    def script(members):
        return {**members, "state/constants.pkl": b""}

    with pytest.raises(ours.serialization.CheckpointError, match=r"no data\.pkl in it"):
        ours.load(io.BytesIO(rewritten(FILES / "state.pt", no_pickle)))
    with pytest.raises(ours.serialization.RefusedError, match="TorchScript"):
        ours.load(io.BytesIO(rewritten(FILES / "state.pt", script)))
    with pytest.raises(ours.serialization.CheckpointError, match="compressed or encrypted"):
        ours.load(io.BytesIO(rewritten(FILES / "state.pt", method=zipfile.ZIP_DEFLATED)))


# ---- pickles made to harm


def text(value):
    data = value.encode()
    return b"X" + struct.pack("<I", len(data)) + data


def nested_tuples(depth):
    return b")" + b"2\x86" * depth  # (t, t) of (t, t) of ...


HOSTILE = {
    "a length beyond the end": b"\x80\x04B" + struct.pack("<I", 2**32 - 1) + b"x.",
    "a huge length of eight bytes": b"\x80\x04\x8e" + struct.pack("<Q", 2**63) + b"x.",
    "a huge int": b"\x80\x02\x8b" + struct.pack("<I", 2**31 - 1) + b"x.",
    "a huge bytearray": b"\x80\x05\x96" + struct.pack("<Q", 2**40) + b".",
    "a huge text": b"\x80\x04\x8d" + struct.pack("<Q", 2**40) + b".",
    "no stop": b"\x80\x02" + b"N" * 1000,
    "an empty stack": b"\x80\x02.",
    "nothing": b"",
    "pops": b"\x80\x02000.",
    "no such memo": b"\x80\x02h\x05.",
    "keys that hash for ever": b"\x80\x02}" + nested_tuples(60) + b"K\x01s.",
    "a key that is deep": b"\x80\x02})" + b"\x85" * 100_000 + b"K\x01s.",
    "a list as a key": b"\x80\x02}]K\x01s.",
    "members that hash for ever": b"\x80\x04\x8f(" + nested_tuples(60) + b"\x90.",
    "colliding keys": b"\x80\x02}("
    + b"".join(
        b"\x8b" + struct.pack("<I", 16) + (number * (2**61 - 1)).to_bytes(16, "little") + b"N"
        for number in range(1 << 20, (1 << 20) + 1000)
    )
    + b"u.",
    "copies without end": b"\x80\x02](c_codecs\nencode\nq\x00"
    + text("x" * 100_000)
    + text("latin1")
    + b"\x86q\x01R"
    + b"h\x00h\x01R" * 20_000
    + b"e.",
    "sets without end": b"\x80\x02](c__builtin__\nset\nq\x00](" + b"K\x01" * 20_000
    + b"e\x85q\x01R" + b"h\x00h\x01R" * 20_000 + b"e.",
    "an attribute of everything": b"\x80\x02\x82\x01.",
    "a name without end": b"\x80\x02c" + b"x" * 5000,
    "a name in another alphabet": b"\x80\x02c\xff\xfe\nx\n.",
    "protocol 0": b"(lp0\nI1\naI2\na.",
    "an unknown protocol": b"\x80\x09N.",
}  # fmt: skip


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_hostile_pickles(ours, data):
    with pytest.raises(ours.serialization.CheckpointError, match=r"data\.pkl is damaged|refused"):
        ours.load(with_pickle(data))


def test_memo_numbers_cost_nothing(ours):
    data = b"\x80\x02]r" + struct.pack("<I", 2**32 - 1) + b"K\x01a."
    assert ours.load(with_pickle(data)) == [1]


def test_deep_states_and_states_that_contain_themselves(ours):
    assert ours.load(with_pickle(b"\x80\x02" + b"]" * 10_000 + b"a" * 9_999 + b"."))
    back = ours.load(with_pickle(b"\x80\x02]q\x00h\x00a."))
    assert back[0] is back


def tensor_pickle(key="0", count=4, shape=b"K\x04\x85", stride=b"K\x01\x85", offset=b"K\x00",
                  kind=b"torch\nFloatStorage\n", location="cpu"):  # fmt: skip
    number = b"J" + struct.pack("<i", count)
    return (
        b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n((" + text("storage") + b"c" + kind + text(key)
        + text(location) + number + b"tQ" + offset + shape + stride + b"\x89N" + b"tR."
    )  # fmt: skip


def archive_with(data, storages):
    def change(members):
        return {"a/data.pkl": data, **{f"a/data/{key}": value for key, value in storages.items()}}

    return io.BytesIO(rewritten(FILES / "state.pt", change))


def test_a_tensor_by_hand(ours):
    pickletools.dis(tensor_pickle(), out=io.StringIO())
    sixteen = np.arange(4, dtype="f4").tobytes()
    assert ours.load(archive_with(tensor_pickle(), {"0": sixteen})).tolist() == [0, 1, 2, 3]


SIXTY_FOUR = b"\x8a\x08" + (1 << 62).to_bytes(8, "little")
BAD_TENSORS = {
    "more elements than bytes": {"count": 5},
    "fewer elements than bytes": {"count": 3},
    "a negative count": {"count": -1},
    "sizes beyond the storage": {"shape": b"K\x05\x85"},
    "an offset beyond the storage": {"offset": b"K\x01"},
    "strides beyond the storage": {"stride": b"K\x02\x85"},
    "a negative stride": {"stride": b"J\xff\xff\xff\xff\x85"},
    "a negative offset": {"offset": b"J\xff\xff\xff\xff"},
    "sizes that overflow": {"shape": SIXTY_FOUR * 2 + b"\x86", "stride": b"K\x00K\x00\x86"},
    "sizes that are no ints": {"shape": b"N\x85"},
    "bools as sizes": {"shape": b"\x88\x85"},
    "too many dimensions": dict.fromkeys(("shape", "stride"), b"(" + b"K\x01" * 65 + b"t"),
    "no such storage": {"key": "1"},
    "a way out of the archive": {"key": "../data.pkl"},
    "no storage type": {"kind": b"collections\nOrderedDict\n"},
    "a device that there is not": {"location": "cuda:40"},
    "a device of no kind": {"location": "moon"},
}  # fmt: skip


@pytest.mark.parametrize("options", BAD_TENSORS.values(), ids=BAD_TENSORS)
def test_tensors_that_do_not_fit_their_storage(ours, options):
    with pytest.raises(ours.serialization.CheckpointError):
        ours.load(archive_with(tensor_pickle(**options), {"0": bytes(16)}))


def test_bools_are_0_or_1(ours):
    data = tensor_pickle(kind=b"torch\nBoolStorage\n")
    with pytest.raises(ours.serialization.CheckpointError, match="neither 0 nor 1"):
        ours.load(archive_with(data, {"0": b"\x00\x01\x02\x01"}))


# ---- where tensors go


def on_cuda():
    """Return a file from a device that no machine has, whether it has a GPU or not."""
    return archive_with(tensor_pickle(location="cuda:40"), {"0": bytes(16)})


def test_map_location_of_what_was_on_another_device(ours):
    with pytest.raises(
        RuntimeError, match=r"Attempting to deserialize .*CUDA device.*map_location"
    ):
        ours.load(on_cuda())
    seen = []

    def keep(storage, location):
        seen.append((storage.nbytes(), location))
        return storage

    for place in ("cpu", ours.device("cpu"), {"cuda:40": "cpu"}, keep):
        assert ours.load(on_cuda(), map_location=place).tolist() == [0, 0, 0, 0]
    assert seen == [(16, "cuda:40")]
    for place in ({"cuda:1": "cpu"}, lambda storage, location: None):
        with pytest.raises(RuntimeError, match="CUDA device"):
            ours.load(on_cuda(), map_location=place)
