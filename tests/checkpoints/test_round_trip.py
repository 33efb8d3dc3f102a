"""What save() takes and load() gives back, the same in both libraries."""

import collections
import copy
import io
import pickle

import numpy as np
import pytest

from .states import (
    DTYPES,
    OPTIMIZERS,
    SCHEDULERS,
    bits_of,
    expect_same,
    expect_same_tensor,
    model_of,
    numbers,
    through_bytes,
    through_file,
    train,
)

# ---- tensors


@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype(torch, name):
    values = torch.tensor([[0.0, 1.0, -2.5], [100.0, 3.0, 0.5]]).abs().to(getattr(torch, name))
    expect_same_tensor(through_bytes(torch, values), values)
    expect_same(
        through_bytes(torch, [values, values[0], values.t()]), [values, values[0], values.t()]
    )


def test_special_values_keep_their_bits(torch):
    bits = torch.tensor([0x7FC00001, -0x400000, 0x7F800000, -0x800000, 1, -(1 << 31)])
    values = bits.to(torch.int32).view(torch.float32)
    assert bits_of(through_bytes(torch, values)) == bits.tolist()


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (3, 0, 2), (1,), (1, 1, 1), (2, 3, 4)])
def test_every_shape(torch, shape):
    values = torch.randn(shape)
    back = through_bytes(torch, {"x": values})["x"]
    expect_same_tensor(back, values)


def test_requires_grad_and_parameters(torch):
    state = {
        "leaf": torch.ones(2, requires_grad=True),
        "parameter": torch.nn.Parameter(torch.ones(2)),
        "frozen": torch.nn.Parameter(torch.ones(2), requires_grad=False),
        "plain": torch.ones(2),
    }
    back = through_bytes(torch, state)
    expect_same(back, state)
    assert type(back["parameter"]) is torch.nn.Parameter
    (back["parameter"] * 2).sum().backward()
    assert back["parameter"].grad.tolist() == [2, 2]
    back["plain"].add_(1)  # An ordinary tensor, a view of nobody.
    assert not back["plain"]._is_view()


def test_a_result_is_saved_as_a_leaf(torch):
    result = torch.ones(2, requires_grad=True) * 3
    back = through_bytes(torch, result)
    assert back.requires_grad and back.is_leaf and back.tolist() == [3, 3]


@pytest.mark.parametrize("name", ["complex64", "complex128"])
def test_complex_tensors(ours, name):
    """They are loaded once there are complex dtypes; until then the error names the dtype."""
    array = np.array([[1 + 2j, -0.5j], [3, 4]], name)
    file = io.BytesIO()
    ours.save({"x": array}, file)
    data = file.getvalue().replace(b"tapegrad", b"tapegraf")  # a file without our document
    try:
        x = ours.zeros(2, 2, dtype=getattr(ours, name))
    except NotImplementedError:
        if name == "complex64":
            with pytest.raises(ours.serialization.CheckpointError, match="'complex64'"):
                ours.load(io.BytesIO(data))
        return
    x.copy_(ours.from_numpy(array))
    state = {"x": x, "row": x[1], "turned": x.t(), "alone": x.clone().t(), "item": x[0, 0].clone()}
    back = through_bytes(ours, state)
    for key, tensor in state.items():
        assert back[key].dtype is tensor.dtype and back[key].tolist() == tensor.tolist(), key


def test_element_types_that_are_stored_in_pairs(ours, monkeypatch):
    """As complex128 is, shown with int64 as pairs of I32."""
    from tapegrad.serialization import _dtypes

    pairs = _dtypes.Code("I32", pairs=True)
    monkeypatch.setitem(_dtypes._CODE_OF, ours.int64, pairs)
    base = ours.arange(12).reshape(3, 4) << 40
    flat = base.clone().view(-1)
    state = {"base": base, "row": base[1], "turned": base.t(), "alone": base.clone().t(),
             "left": flat[:5], "right": flat[7:], "item": base[2, 3].clone(),
             "none": base[:0].clone(), "wide": base[0, :1].clone().expand(5)}  # fmt: skip
    file = io.BytesIO()
    ours.save(state, file)
    assert b'"I32"' in file.getvalue() and b'"I64"' not in file.getvalue()
    file.seek(0)
    back = ours.load(file)
    expect_same(back, state)
    back["base"].zero_()
    assert back["row"].tolist() == [0, 0, 0, 0]


# ---- memory that is shared


def test_tied_tensors_stay_tied(torch):
    weight = torch.nn.Parameter(torch.randn(3, 2))
    back = through_bytes(torch, {"embedding": weight, "head": weight})
    assert back["embedding"] is back["head"]


def test_views_share_memory_after_loading(torch):
    base = torch.arange(24.0).reshape(4, 6)
    state = {
        "base": base,
        "row": base[1],
        "turned": base.t(),
        "column": base[:, 2],
        "steps": base[::2, 1::2],
        "same": base.view(-1),
    }
    back = through_bytes(torch, state)
    for name, tensor in state.items():
        assert back[name].tolist() == tensor.tolist(), name
        assert back[name].stride() == tensor.stride(), name
        assert back[name].storage_offset() == tensor.storage_offset(), name
    with torch.no_grad():
        back["base"].mul_(-1)
    for name, tensor in state.items():
        assert back[name].tolist() == (-tensor).tolist(), name


def test_views_without_their_base_share_memory(torch):
    base = torch.arange(20.0)
    left, right, middle = base[2:10], base[8:18], base[4:16:3]
    back = through_bytes(torch, {"left": left, "right": right, "middle": middle})
    back["left"].zero_()
    assert back["right"].tolist() == [0, 0, *range(10, 18)]
    assert back["middle"].tolist() == [0, 0, 10, 13]


def test_neighbours_in_one_storage_stay_in_one(torch):
    vector = torch.arange(10.0)
    state = {"a": vector[:4].view(2, 2), "b": vector[4:9]}
    back = through_bytes(torch, state)
    expect_same(back, state)
    storages = [back[name].untyped_storage().data_ptr() for name in "ab"]
    assert storages[0] == storages[1]


def test_views_of_one_memory_as_two_dtypes(ours):
    numbers = ours.tensor([1.0, -2.0])
    back = through_bytes(ours, {"float": numbers, "bits": numbers.view(ours.int32)})
    back["float"][0] = 0
    assert back["bits"].tolist() == [0, -0x40000000]


def test_an_expanded_tensor_takes_the_space_of_what_it_repeats(torch):
    wide = torch.tensor([[1.5]]).expand(1000, 1000)
    file = io.BytesIO()
    torch.save(wide, file)
    assert file.tell() < 4000
    file.seek(0)
    back = torch.load(file)
    assert back.stride() == (0, 0) and back[999, 999].item() == 1.5


def test_a_small_view_does_not_drag_its_base_along(ours):
    """PyTorch writes the whole storage."""
    file = io.BytesIO()
    ours.save({"row": ours.randn(1000, 1000)[3]}, file)
    assert file.tell() < 8000


def test_the_order_of_memory_is_kept(torch):
    turned = torch.arange(24.0).reshape(2, 3, 4).permute(2, 0, 1)
    back = through_bytes(torch, turned)
    assert back.stride() == turned.stride()
    expect_same_tensor(back, turned)


def test_clones_stay_apart(torch):
    one = torch.ones(2)
    back = through_bytes(torch, [one, one.clone()])
    back[0].zero_()
    assert back[1].tolist() == [1, 1]


# ---- everything else


def test_numbers_are_exact(torch):
    expect_same(through_bytes(torch, numbers()), numbers())


def test_an_int_of_any_size(ours):
    huge = [7**20000, -(7**20000)]
    assert through_bytes(ours, huge) == huge


def test_texts_and_bytes(torch):
    texts = ["", "é€😀", '\x00\n"\\', "\ud800", "a" * 100_000]
    assert through_bytes(torch, texts) == texts
    data = [b"\x00\xff", bytes(range(256)) * 100, bytearray(b"xy"), bytearray(10_000)]
    expect_same(through_bytes(torch, data), data)


def test_containers(torch):
    state = [
        (), (1,), (1, (2, [3])), [], {}, {"a": {"b": {"c": (1, 2)}}},
        collections.OrderedDict(z=1, a=2), collections.Counter("aab"),
        {1: "int", "1": "str", 2.5: "float", None: "none", (1, "a"): "tuple", b"k": "bytes"},
        {True: "bool"}, torch.Size([2, 3]), torch.float16, torch.device("cpu"),
        torch.device("cuda:1"),
    ]  # fmt: skip
    back = through_bytes(torch, state)
    expect_same(back, state)
    assert through_bytes(torch, {3, (1, 2), "x"}) == {3, (1, 2), "x"}
    assert type(back[10]) is torch.Size


def test_a_frozenset_and_a_defaultdict(ours):
    assert through_bytes(ours, frozenset([1, 2])) == frozenset([1, 2])
    back = through_bytes(ours, collections.defaultdict(list, a=[1]))
    assert back == {"a": [1]} and back["new"] == []


@pytest.mark.parametrize("root", [None, 3, "text", (), {}, [[]]])
def test_any_value_can_be_the_root(torch, root):
    expect_same(through_bytes(torch, root), root)


def test_the_order_of_keys_is_kept(torch):
    state = {name: torch.ones(1) for name in ("z", "a", "m", "B")}
    assert list(through_bytes(torch, state)) == ["z", "a", "m", "B"]


def test_a_container_in_two_places_is_one(torch):
    shared = [torch.ones(1)]
    back = through_bytes(torch, {"a": shared, "b": shared, "c": (shared, {"d": shared})})
    assert back["a"] is back["b"] is back["c"][0] is back["c"][1]["d"]


def test_sharing_does_not_multiply(ours):
    nested = ["leaf"]
    for _ in range(100):
        nested = [nested, nested]
    back = through_bytes(ours, nested)
    for _ in range(100):
        assert back[0] is back[1]
        back = back[0]
    assert back == ["leaf"]


def test_depth_is_no_matter(ours):
    nested = last = []
    for _ in range(20_000):
        last.append([])
        last = last[0]
    back = through_bytes(ours, nested)
    depth = 0
    while back:
        back = back[0]
        depth += 1
    assert depth == 20_000


def test_names_that_collide(ours):
    state = {"a.b": ours.ones(1), "a": {"b": ours.zeros(1)}, "a.b#2": ours.ones(2),
             "__metadata__": ours.ones(3), 1: ours.ones(4), "1": ours.zeros(4),
             "\ud800": ours.ones(5), "": ours.ones(6)}  # fmt: skip
    expect_same(through_bytes(ours, state), state)


def test_a_long_document(ours):
    """Beyond a megabyte it moves out of the header, which has a limit."""
    state = {"history": [float(number) / 7 for number in range(100_000)], "w": ours.ones(2)}
    expect_same(through_bytes(ours, state), state)


def test_numpy(ours):
    state = {
        "matrix": np.arange(6.0).reshape(2, 3), "turned": np.arange(6).reshape(2, 3).T,
        "zero_dim": np.array(3), "empty": np.zeros((0, 2), "f4"), "wide": np.ones(3, "c16"),
        "unsigned": np.array([2**64 - 1], "u8"), "mask": np.array([True, False]),
        "steps": np.arange(10, dtype="i2")[::3], "complex": np.ones(2, "c8"),
    }  # fmt: skip
    back = through_bytes(ours, state)
    for name, array in state.items():
        assert back[name].dtype == array.dtype and back[name].shape == array.shape, name
        assert (back[name] == array).all(), name
    back["matrix"][0, 0] = 9
    scalars = [np.float32(0.1), np.int64(-3), np.bool_(True), np.uint16(7), np.complex128(1j)]
    back = through_bytes(ours, scalars)
    assert [type(each) for each in back] == [type(each) for each in scalars]
    assert back == scalars
    assert through_bytes(ours, {np.int64(3): "key"}) == {3: "key"}


# ---- where it goes


def test_paths(torch, tmp_path):
    state = {"x": torch.ones(2)}
    for path in (tmp_path / "path", str(tmp_path / "text")):
        torch.save(state, path)
        expect_same(torch.load(path), state)


def test_open_files(torch, tmp_path):
    state = {"x": torch.ones(2)}
    with open(tmp_path / "file", "wb") as file:
        torch.save(state, file)
    with open(tmp_path / "file", "rb") as file:
        expect_same(torch.load(file), state)
    with open(tmp_path / "file", "rb", buffering=0) as file:
        expect_same(torch.load(f=file, map_location="cpu", weights_only=True), state)


def test_several_checkpoints_in_one_stream(ours):
    stream = io.BytesIO()
    stream.write(b"before")
    states = [{"x": ours.ones(3)}, {}, [1, ours.zeros(0)], {"y": ours.arange(4)}]
    for state in states:
        ours.save(state, stream)
    stream.seek(6)
    for state in states:
        expect_same(ours.load(stream), state)


def test_files_that_take_and_give_little_at_a_time(ours):
    class Slow(io.BytesIO):
        def write(self, data):
            return super().write(data[:1000])

        def readinto(self, memory):
            return super().readinto(memoryview(memory)[:1000])

    state = {"x": ours.randn(5000)}
    stream = Slow()
    ours.save(state, stream)
    stream.seek(0)
    expect_same(ours.load(stream), state)


def test_files_with_read_alone(ours):
    class Plain:
        def __init__(self, data):
            self.inner = io.BytesIO(data)
            self.read, self.seek, self.tell = self.inner.read, self.inner.seek, self.inner.tell

    written = []

    class Sink:
        def write(self, data):
            written.append(data)  # and returns None

    state = {"x": ours.randn(5000), "y": b"z" * 5000}
    ours.save(state, Sink())
    expect_same(ours.load(Plain(b"".join(written))), state)


# ---- with the rest of the library


def test_a_module(torch, tmp_path):
    model, other = model_of(torch, 0), model_of(torch, 1)
    model(torch.arange(5))  # batch statistics
    state = through_file(torch, model.state_dict(), tmp_path / "model")
    assert type(state) is collections.OrderedDict
    assert state._metadata["norm"] == {"version": 2}
    assert str(other.load_state_dict(state)) == "<All keys matched successfully>"
    model.eval(), other.eval()
    x = torch.arange(5)
    assert torch.equal(model(x), other(x))


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_training_goes_on_as_if_never_interrupted(ours, tmp_path, optimizer, scheduler):
    def start(seed):
        model = model_of(ours, seed)
        made = OPTIMIZERS[optimizer](ours, model.parameters())
        return model, made, SCHEDULERS[scheduler](ours.optim.lr_scheduler, made)

    parts = start(0)
    train(ours, *parts, 4)
    ours.save([part.state_dict() for part in parts], tmp_path / "file")
    expected = train(ours, *parts, 4)
    others = start(1)
    for part, state in zip(others, ours.load(tmp_path / "file"), strict=True):
        part.load_state_dict(state)
    assert train(ours, *others, 4) == expected


def test_random_numbers_go_on(torch):
    generator = torch.Generator().manual_seed(3)
    torch.rand(5, generator=generator)
    state = {"own": generator.get_state(), "default": torch.get_rng_state()}
    expected = [torch.rand(3, generator=generator).tolist(), torch.rand(3).tolist()]
    back = through_bytes(torch, state)
    generator = torch.Generator()
    generator.set_state(back["own"])
    torch.set_rng_state(back["default"])
    assert [torch.rand(3, generator=generator).tolist(), torch.rand(3).tolist()] == expected


def test_pickle_and_deepcopy_work_on_what_was_loaded(torch):
    state = {"x": torch.randn(2), "p": torch.nn.Parameter(torch.ones(2)), "m": [model_of(torch)]}
    state["m"] = state["m"][0].state_dict()
    back = through_bytes(torch, state)
    expect_same(copy.deepcopy(back), state)
    expect_same(pickle.loads(pickle.dumps(back)), state)
    layer = torch.nn.Linear(2, 1)
    layer.load_state_dict(through_bytes(torch, layer.state_dict()))
    x = torch.ones(2)
    assert torch.equal(copy.deepcopy(layer)(x), layer(x))
    assert torch.equal(pickle.loads(pickle.dumps(layer))(x), layer(x))


def test_grad_modes_and_inference_do_not_matter(torch):
    state = {"p": torch.nn.Parameter(torch.ones(2)), "x": torch.ones(2, requires_grad=True)}
    with torch.no_grad():
        back = through_bytes(torch, state)
    expect_same(back, state)
    with torch.inference_mode():
        made = torch.ones(2)
        file = io.BytesIO()
        torch.save(made, file)
    file.seek(0)
    back = torch.load(file)
    assert not back.is_inference() and back.tolist() == [1, 1]
