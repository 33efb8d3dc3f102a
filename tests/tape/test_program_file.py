"""Files of programs: written whole, and refused in words when anything is wrong with them."""

import copy
import random

import pytest
from library import IS_TORCH, torch

if IS_TORCH:
    pytest.skip("the tape is tapegrad's own", allow_module_level=True)

from tapegrad import tape
from tapegrad.serialization import CheckpointError

from .program_files import parts, written

functional = torch.nn.functional


def recorded():
    """Return a program with calls, a guard, a constant, literals and attributes of all kinds."""
    x, w, total = torch.ones(1, 2, 4, 4), torch.ones(2, 2, 3, 3), torch.zeros(2)
    with tape.record(replay=True) as t:
        y = functional.conv2d(x, w, padding=1).clamp(max=float("inf"))
        if y.sum().item() > 0:
            total += (y * torch.tensor([1.0, 2.0, 3.0, 4.0]) * 2.5).mean((0, 2, 3))
        z = functional.dropout(total.softmax(0), 0.5)
    return t.program(names={"x": x, "w": w, "total": total}, outputs={"z": z})


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    path = tmp_path_factory.mktemp("programs") / "whole"
    recorded().save(path)
    return path.read_bytes()


def test_what_is_saved_comes_back(tmp_path):
    program = recorded()
    program.save(tmp_path / "program")
    loaded = tape.load_program(str(tmp_path / "program"))
    assert loaded == program and str(loaded) == str(program)
    assert loaded.tensors == {}
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "program").read_bytes()


def test_saving_replaces_the_file_in_one_step(tmp_path):
    path = tmp_path / "program"
    path.write_bytes(b"before")
    recorded().save(path)
    assert [each.name for each in tmp_path.iterdir()] == ["program"]
    with pytest.raises(IsADirectoryError):
        recorded().save(tmp_path)
    with pytest.raises(OSError, match="No such file"):
        recorded().save(tmp_path / "nowhere" / "program")
    with pytest.raises(FileNotFoundError):
        tape.load_program(tmp_path / "nothing")


def test_a_file_that_is_cut_short(content, tmp_path):
    path = tmp_path / "short"
    for length in [*range(50), *range(50, len(content), 37), len(content) - 1]:
        path.write_bytes(content[:length])
        with pytest.raises(CheckpointError, match=r"load_program: .*(cut short|damaged)"):
            tape.load_program(path)


def test_a_byte_that_has_changed(content, tmp_path):
    path = tmp_path / "changed"
    for place in range(0, len(content), 41):
        damaged = bytearray(content)
        damaged[place] ^= 1
        path.write_bytes(damaged)
        with pytest.raises(CheckpointError, match=r"load_program: .*(cut short|damaged)"):
            tape.load_program(path)


def test_other_files(tmp_path):
    for header in ({"format": "other"}, [], {}):
        with pytest.raises(CheckpointError, match=r"that Program.save wrote, got another file"):
            tape.load_program(written(tmp_path / "other", header))
    torch.save({"x": torch.ones(100)}, tmp_path / "checkpoint")
    with pytest.raises(CheckpointError, match="damaged"):
        tape.load_program(tmp_path / "checkpoint")
    with pytest.raises(CheckpointError, match="no program that could have been recorded"):
        tape.load_program(written(tmp_path / "text", b"[" * 100_000))


def changed(**places):
    """Return a change of the first call of a header."""

    def change(header):
        call = next(step for step in header["steps"] if step.get("op") == "conv")
        for key, value in places.items():
            call[key] = value(call[key])

    return change


WRONG = {
    "version": (lambda h: h.update(version=2), "program of version 1, got version 2, written by"),
    "op": (changed(op=lambda _: "konv"), "there is no op 'konv' in this build"),
    "fewer attributes": (changed(attributes=lambda a: a[:-1]), r"expected attributes \(.*groups\)"),
    "renamed attribute": (
        changed(attributes=lambda a: [*a[:-1], ["sets", 1]]),
        r"expected attributes \(.*groups\) of conv, got \(stride, padding, dilation, sets\)",
    ),
    "too few for each dimension": (
        changed(attributes=lambda a: [["stride", {"each": [1]}], *a[1:]]),
        "5 attributes|attributes do not fit",
    ),
    "kind of attribute": (
        changed(attributes=lambda a: [*a[:-1], ["groups", {"dtype": "float32"}]]),
        "attribute 6 is of the wrong kind",
    ),
    "no outputs": (changed(outputs=lambda _: []), "conv: expected an output, got none"),
    "a literal that is written": (changed(outputs=lambda _: [2.0]), "no program that could"),
    "unknown value": (
        changed(outputs=lambda o: [[99, *o[0][1:]]]),
        r"expected one of \d+ values, got 99",
    ),
    "negative value": (changed(outputs=lambda o: [[-1, *o[0][1:]]]), "values, got -1"),
    "beyond its memory": (
        changed(outputs=lambda o: [[o[0][0], 1, *o[0][2:]]]),
        "and offset 1 does not lie within the 128 bytes of value",
    ),
    "before its memory": (
        changed(outputs=lambda o: [[o[0][0], -1, *o[0][2:]]]),
        "does not lie within the 128 bytes",
    ),
    "size": (
        changed(outputs=lambda o: [[o[0][0], 0, [2**62, 4, 1, 1], [1, 1, 1, 1], o[0][4]]]),
        "conv",
    ),
    "negative size": (
        changed(outputs=lambda o: [[o[0][0], 0, [-1, 2], [2, 1], o[0][4]]]),
        "conv",
    ),
    "strides": (
        changed(outputs=lambda o: [[o[0][0], 0, [2, 2], [2**62, 2**62], o[0][4]]]),
        "does not lie within",
    ),
    "number of strides": (
        changed(outputs=lambda o: [[o[0][0], 0, [2, 2], [1], o[0][4]]]),
        "with as many strides, got 2 and 1",
    ),
    "rank": (
        changed(outputs=lambda o: [[o[0][0], 0, [1] * 70, [1] * 70, o[0][4]]]),
        "at most 64 dimensions",
    ),
    "dtype": (changed(outputs=lambda o: [[*o[0][:4], "float8"]]), "float8"),
    "kind of size": (changed(outputs=lambda o: [[o[0][0], 0, [True], [1], o[0][4]]]), "whole"),
    "device": (lambda h: h["values"][0].__setitem__(1, "tpu"), "expected device 'cpu', 'meta' or"),
    "nbytes": (lambda h: h["values"][0].__setitem__(0, 2**63), "larger than can be addressed"),
    "infinite nbytes": (lambda h: h["values"][0].__setitem__(0, 10**30), "no program that could"),
    "no steps": (lambda h: h.pop("steps"), "'steps'"),
    "step": (lambda h: h["steps"].append({}), "no program that could"),
    "bytes": (
        lambda h: next(s for s in h["steps"] if "read" in s).update(bytes=[0, 999]),
        "expected bytes among 20, got 0 to 999",
    ),
    "too few bytes": (
        lambda h: next(s for s in h["steps"] if "read" in s).update(bytes=[0, 3]),
        "read: expected 4 bytes, got 3",
    ),
    "an input without a name": (lambda h: h["inputs"].pop(0), "value 0 is read and is no input"),
    "two of a name": (lambda h: h["inputs"].append(h["inputs"][0]), "have the same name"),
    "an output beyond its memory": (
        lambda h: h["outputs"][0][1].__setitem__(1, 10**9),
        "a tensor of shape .* does not lie within",
    ),
    "an output that nobody computes": (
        lambda h: (h["values"].append([8, "cpu", True]), h["outputs"].append(
            ["more", [len(h["values"]) - 1, 0, [2], [1], "float32"], False, False])),
        "output 'more' is never computed",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_no_recording_gives(name, content, tmp_path):
    change, words = WRONG[name]
    header, data = parts(content)
    assert tape.load_program(written(tmp_path / "same", copy.deepcopy(header), data))
    change(header)
    with pytest.raises(CheckpointError, match=words):
        tape.load_program(written(tmp_path / "wrong", header, data))


def test_pointwise_operands_must_fit(tmp_path):
    x = torch.ones(2, 3)
    with tape.record(replay=True) as t:
        y = x.exp()
    t.program(names={"x": x}, outputs=y).save(tmp_path / "program")
    header, data = parts((tmp_path / "program").read_bytes())
    header["steps"][0]["inputs"][0][2:4] = [[4], [1]]
    with pytest.raises(CheckpointError, match=r"exp: an operand of shape \[4\] does not fit"):
        tape.load_program(written(tmp_path / "wrong", header, data))


NONSENSE = (
    None,
    True,
    -1,
    2**31,
    2**64,
    1e308,
    "x",
    "",
    [],
    {},
    [[]],
    {"each": []},
    {"float": "x"},
)


def spoiled(tree, rng):
    """Put nonsense in one place of a tree, or leave something out."""
    node = tree
    while True:
        keys = list(node) if isinstance(node, dict) else range(len(node))
        if not keys:
            return
        key = rng.choice(list(keys))
        child = node[key]
        if isinstance(child, dict | list) and child and rng.random() < 0.85:
            node = child
            continue
        if rng.random() < 0.2:
            del node[key]
        else:
            node[key] = rng.choice(NONSENSE)
        return


def test_nonsense_is_refused_or_harmless(content, tmp_path):
    """Loading either gives a program or says what is wrong, whatever stands in the header."""
    header, data = parts(content)
    refused = 0
    for seed in range(1500):
        wrong = copy.deepcopy(header)
        spoiled(wrong, random.Random(seed))
        try:
            str(tape.load_program(written(tmp_path / "wrong", wrong, data)))
        except CheckpointError as error:
            assert str(error).startswith("load_program: ")
            refused += 1
    assert refused > 1000
