"""Views and writes to parts of tensors: memory told as nodes."""

import itertools
import random

import pytest
from library import IS_TORCH, torch

if IS_TORCH:
    pytest.skip("PyTorch's exporter is its own", allow_module_level=True)
pytest.importorskip("onnx.checker")
pytest.importorskip("onnxruntime")

import numpy as np
import onnx.reference
from onnx_comparing import Calls, assert_agrees, checked, exported, exported_dynamic

from tapegrad.onnx._graph import Graph, Value
from tapegrad.onnx._memory import view
from tapegrad.onnx._paths import Place, find_path, flat_places
from tapegrad.onnx._program import Interface, ONNXProgram
from tapegrad.onnx._sizes import Size, in_order
from tapegrad.onnx.errors import SymbolicValueError, UnsupportedOperatorError

VIEWS = {
    "transpose": lambda x: x.transpose(0, 1),
    "permute": lambda x: x.permute(2, 0, 1),
    "slice": lambda x: x[1:, :3, 2:5],
    "steps": lambda x: x[::2, 1::3, ::5],
    "select": lambda x: x[1, :, -1],
    "flip": lambda x: x.flip(0, 2),
    "flatten": lambda x: x.flatten(1),
    "split": lambda x: x.view(3, 2, 2, 6),
    "flat": lambda x: x.view(-1)[3:64:7],
    "expand": lambda x: x[:, None].expand(3, 5, 4, 6),
    "diagonal": lambda x: x.diagonal(0, 1, 2),
    "unfold": lambda x: x.unfold(2, 4, 1),
    "windows": lambda x: x.unfold(1, 2, 2).unfold(2, 3, 2),
    "as_strided": lambda x: x.as_strided((3, 4, 2), (7, 2, 5), 4),
    "across": lambda x: x.transpose(1, 2).flatten(1)[:, ::5],
    "chunks": lambda x: x.chunk(2, 1)[1].unbind(0)[2],
    "newaxis": lambda x: x[None, ..., None].movedim(1, -1),
    "swapped": lambda x: x.transpose(0, 2)[1:4].reshape(3, 12),
    "squares": lambda x: x.view(3, 4, 2, 3).permute(0, 2, 1, 3)[:, 1],
    "empty": lambda x: x[2:2],
}
WRITES = {
    "row": lambda x: x[1].mul_(2),
    "column": lambda x: x[:, 2].neg_(),
    "block": lambda x: x[1:, 1:3, 2:5].fill_(3),
    "steps": lambda x: x[:, ::2, 1::2].tanh_(),
    "diagonal": lambda x: x.diagonal(0, 1, 2).zero_(),
    "transposed": lambda x: x.transpose(0, 2)[3].add_(1),
    "flat": lambda x: x.view(-1)[5:70:13].copy_(torch.zeros(5)),
    "element": lambda x: x[1, 2].__setitem__(3, 7.0),
    "copy": lambda x: x[0].copy_(x[1]),
    "shape": lambda x: x.view(3, 2, 12)[:, 1, 3:9].sub_(x.view(3, 2, 12)[:, 0, 3:9]),
    "all": lambda x: x.view(-1).sigmoid_(),
    "index": lambda x: x.index_add_(1, torch.tensor([0, 2]), torch.ones(3, 2, 6)),
    "put": lambda x: x.__setitem__((torch.tensor([0, 2]), slice(None), torch.tensor([1, 1])), 4.0),
    "mask": lambda x: x.masked_fill_(x > 0, -1),
}


@pytest.mark.parametrize("name", VIEWS)
def test_view(name):
    exported(lambda x: VIEWS[name](x) * 2, (torch.randn(3, 4, 6),))
    exported(lambda x: VIEWS[name](x), (torch.randn(3, 4, 6),))


@pytest.mark.parametrize("name", WRITES)
def test_write(name):
    def model(x):
        y = x * 1.5
        WRITES[name](y)
        return y, y.transpose(0, 1) + 1, y[1:, 1]

    exported(model, (torch.randn(3, 4, 6),))


@pytest.mark.parametrize("seed", range(60))
def test_random_programs(seed):
    """Views of views, written to and read again in any order."""
    dice = random.Random(seed)
    plan = [(dice.choice([*VIEWS, *VIEWS, None]), dice.choice([*WRITES, None])) for _ in range(4)]

    def model(x):
        y = x * 2
        results = []
        for shown, write in plan:
            if write is not None:
                WRITES[write](y)
            if shown is not None:
                results.append(VIEWS[shown](y).sin())
        return [*results, y]

    exported(model, (torch.randn(3, 4, 6),))


def test_parts_put_together():
    """Memory that is written in parts, and never as a whole before."""

    def model(x):
        y = torch.empty(4, 6)
        y[:2] = x[:2]
        y[2:, ::2] = x[2:, :3]
        y[2:, 1::2] = x[2:, 3:]
        z = torch.empty(24)
        for i in range(4):
            z[i * 6 : i * 6 + 6] = x[3 - i]
        return y, z.view(2, 12), torch.stack([x[0], x[1]], 1), x.roll((1, 2), (0, 1))

    exported(model, (torch.randn(4, 6),))


def test_dynamic_views_and_writes():
    def model(x):
        batch, time, width = x.shape
        y = x * 2
        y[:, 1:] += x[:, :-1]
        y[:, 0] = 0
        heads = y.view(batch, time, 2, width // 2).transpose(1, 2)
        z = heads.reshape(batch * 2, time, width // 2).flip(1)
        windows = y.unfold(2, 3, 1)
        return heads, z, windows, y.flatten(0, 1), y[:, ::2] * 1, torch.arange(time) * y[..., 0]

    args, shapes = (torch.randn(3, 5, 6),), ({0: "batch", 1: "time"},)
    sizes = ({"batch": 1, "time": 2}, {"batch": 4, "time": 9}, {"batch": 7, "time": 4})
    exported_dynamic(model, args, shapes, *sizes)


def _shift(x):
    y = x.clone()
    y[:, 1:] = x[:, :-1]
    return y


def _first_and_rest(x):
    y = torch.zeros_like(x)
    y[:, 0] = x[:, -1]
    y[:, 1:].add_(x[:, 1:])
    return y


def _by_columns(x):
    y = torch.empty_like(x)
    y[..., ::2] = x[..., 1::2]
    y[..., 1::2] = x[..., ::2] * 3
    return y


# Functions of (batch, time, 12) of any batch and time, with results of the same shape.
STEPS = {
    "heads": lambda x: x.view(*x.shape[:2], 3, 4).transpose(1, 2).flip(3).transpose(1, 2)
    .flatten(2),
    "joined": lambda x: (x.flatten(0, 1) * 2).view(x.shape),
    "turned": lambda x: x.transpose(0, 1).contiguous().mul(2).transpose(0, 1),
    "middle": lambda x: x.transpose(1, 2).reshape(-1, x.shape[1]).softmax(1).view(
        x.shape[0], 12, x.shape[1]).transpose(1, 2),
    "shift": _shift,
    "first_and_rest": _first_and_rest,
    "by_columns": _by_columns,
    "rolled": lambda x: x.roll(1, 1),
    "flipped": lambda x: x.flip(1, 0),
    "around": lambda x: torch.cat([x[:, :1], x], 1)[:, 1:] + x[:, -1:],
    "mean": lambda x: x - x.mean(1, keepdim=True).expand_as(x),
    "places": lambda x: x + torch.arange(x.shape[1])[None, :, None],
    "rows": lambda x: x + torch.arange(x.shape[0] * x.shape[1]).view(*x.shape[:2], 1) / 7,
    "products": lambda x: (x @ x.transpose(1, 2)).tanh() @ x / x.shape[1],
    "triangle": lambda x: (torch.ones(x.shape[1], x.shape[1]).tril() @ x).sin(),
    "stacked": lambda x: torch.stack([x, x * 2], 2).flatten(1, 2)[:, ::2],
    "windows": lambda x: x + x.unfold(2, 3, 3).sum((2, 3))[..., None],
    "interleaved": lambda x: torch.stack(x.chunk(2, -1), -1).flatten(-2),
    "sums": lambda x: x.cumsum(1) / (torch.arange(x.shape[1]) + 1)[:, None],
    "sorted": lambda x: x.sort(1).values,
    "repeated": lambda x: x.repeat(1, 2, 1)[:, x.shape[1] :],
    "padded": lambda x: torch.nn.functional.pad(x, (0, 0, 2, 1), value=1.0)[:, 2:-1],
    "first": lambda x: x.index_fill(1, torch.tensor([0]), 2.0),
    "diagonal": lambda x: x + x.view(*x.shape[:2], 3, 4)[..., :3].diagonal(0, 2, 3)
    .sum(-1)[..., None],
}  # fmt: skip


@pytest.mark.parametrize("seed", range(40))
def test_random_programs_with_dynamic_axes(seed):
    dice = random.Random(seed)
    plan = [dice.choice([*STEPS]) for _ in range(4)]

    def model(x):
        for name in plan:
            x = STEPS[name](x)
        return x

    args, shapes = (torch.randn(2, 5, 12),), ({0: "batch", 1: "time"},)
    sizes = ({"batch": 1, "time": 1}, {"batch": 4, "time": 9}, {"batch": 7, "time": 2})
    exported_dynamic(model, args, shapes, *sizes, tolerance=1e-4)


@pytest.mark.parametrize("name", STEPS)
def test_step_with_dynamic_axes(name):
    args, shapes = (torch.randn(2, 5, 12),), ({0: "batch", 1: "time"},)
    sizes = ({"batch": 1, "time": 1}, {"batch": 4, "time": 9}, {"batch": 7, "time": 2})
    exported_dynamic(STEPS[name], args, shapes, *sizes, tolerance=1e-4)


def test_a_part_that_has_no_elements_at_size_one():
    """In all runs the last row lies in what was written, with one row it does not."""

    def model(x):
        y = _shift(x)
        return y[:, -1] * 2, _first_and_rest(y)

    args, shapes = (torch.randn(2, 5, 12),), ({0: "batch", 1: "time"},)
    exported_dynamic(model, args, shapes, {"batch": 1, "time": 1}, {"batch": 3, "time": 6})


def test_numbers_that_are_sizes():
    def model(x):
        time = x.shape[1]
        return x.sum(1) / time, x + torch.full((), time), torch.ones(time, time).tril() @ x

    args = (torch.randn(2, 5, 3),)
    exported_dynamic(model, args, ({1: "time"},), {"time": 1}, {"time": 11})


def test_writes_by_masks():
    def model(x, mask):
        y = x * 2
        y[mask] = -1.0
        z = x.clone()
        z[z > 0] = 0
        z[:, x[0] > 0.5] = 7.0
        w = x.clone()
        w[x.sum(1) > 0] = w[0, 0]
        changed = x > 0
        changed[0] = True
        y[changed] = 3
        return y, z, w

    args = (torch.randn(4, 6), torch.rand(4, 6) > 0.5)
    for scale in (1, -1, 0):
        program = checked(torch.onnx.export(model, args))
        assert_agrees(program, model, (args[0] * scale, args[1] == (scale == 1)))
    exported_dynamic(model, args, ({0: "n"}, {0: "n"}), {"n": 1}, {"n": 9})
    with pytest.raises(UnsupportedOperatorError, match="count_mask"):
        torch.onnx.export(lambda x, mask: x[mask].sum(), args)


def test_bits_of_another_dtype():
    with pytest.raises(UnsupportedOperatorError, match="written as float32 are read as int32"):
        torch.onnx.export(lambda x: (x * 2).view(torch.int32) + 1, (torch.randn(3),))


# ---- paths


def place(offset, sizes, strides):
    return Place(
        Size([offset]),
        tuple(Size([n]) for n in sizes),
        tuple(Size([s]) for s in strides),
        "float32",
    )


def addresses(where):
    grid = itertools.product(*(range(size.runs[0]) for size in where.sizes))
    strides = [stride.runs[0] for stride in where.strides]
    return [
        where.offset.runs[0] + sum(i * s for i, s in zip(index, strides, strict=True))
        for index in grid
    ]


def test_paths_lead_to_the_elements():
    """A path, read as nodes on numbers that are their own addresses, gives the view's."""
    dice = random.Random(1)
    found = 0
    for _ in range(150):
        shape = [dice.randint(1, 5) for _ in range(dice.randint(1, 4))]
        strides = np.cumprod([1, *shape[:0:-1]])[::-1].tolist()
        order = dice.sample(range(len(shape)), len(shape))
        base = place(0, [shape[i] for i in order], [strides[i] for i in order])
        x = np.arange(np.prod(shape)).reshape(shape)
        sub = x.transpose(order)
        for axis in range(sub.ndim):
            start, step = dice.randint(0, sub.shape[axis] - 1), dice.choice([1, 1, 2, 3, -1])
            taken = slice(start, None, step)
            sub = sub[(slice(None),) * axis + (taken,)]
        sub = sub.transpose(dice.sample(range(sub.ndim), sub.ndim))
        wanted = place(int(sub.ravel()[0]), sub.shape, [each // x.itemsize for each in sub.strides])
        assert addresses(wanted) == sub.ravel().tolist()
        assert flat_places(base, wanted) is not None
        path = find_path(base, wanted)
        if path is None:
            continue
        found += 1
        graph = Graph(1, 18)
        name = graph.name("x")
        result = view(graph, Value(name, "float32"), base, path, wanted)
        output = graph.output(result, "y")
        sizes = [[each.runs[0] for each in where.sizes] for where in (base, wanted)]
        program = ONNXProgram(
            graph, Interface([("x", "float32", sizes[0])], [(output.name, "float32", sizes[1])], [])
        )
        run = onnx.reference.ReferenceEvaluator(checked(program).model_proto)
        (elements,) = run.run(None, {"x": x.transpose(order).astype("float32")})
        assert np.array_equal(elements, sub)
    assert found > 140


def test_sizes():
    a, b = Size([2, 3]), Size([4, 9])
    assert a + 1 == Size([3, 4]) and 1 + a == a + 1 and 7 - a == Size([5, 4])
    assert a * b == Size([8, 27]) and b // a == Size([2, 3]) and b % 2 == Size([0, 1])
    assert a < b and a <= 3 and not a < 3 and not b < a and -a == Size([-2, -3])
    assert a.constant is None and Size([5, 5]).constant == 5 and Size([5, 5]) == 5
    assert a.divides(b) and not b.divides(a) and not Size([0, 1]).divides(a)
    assert hash(a) == hash(Size([2, 3])) and a != "a" and repr(a) == "(2 | 3)"
    assert in_order([a, b]) == [1, 0] and in_order([Size([1, 4]), Size([2, 3])]) is None


SHOWN = {
    "itself": lambda x, y: x,
    "other": lambda x, y: (y, x),
    "expanded": lambda x, y: x[:1].expand(x.shape[0], -1),
    "transposed": lambda x, y: x.t(),
    "rows": lambda x, y: x[:4],
    "last": lambda x, y: x[-1],
    "steps": lambda x, y: x[::2],
    "flat": lambda x, y: x.view(-1),
    "part": lambda x, y: x[:, 1:-1].unsqueeze(0),
}
ROWS = torch.arange(6.0).reshape(3, 2)
CHOICES = {
    "made": lambda x, y: x * 2 if x.shape[0] % 2 == 0 else x + 2,
    "argument": lambda x, y: x if x.shape[0] % 2 == 0 else y,
    "of two": lambda x, y: (lambda one, two: one if x.shape[0] % 2 == 0 else two)(x * 2, x * 3),
    "constant": lambda x, y: ROWS if x.shape[0] % 2 == 0 else ROWS + 0,
    "rows": lambda x, y: ROWS[: x.shape[0] % 2 + 1],
}


@pytest.mark.parametrize("size", [4, 6])
@pytest.mark.parametrize("name", SHOWN)
def test_results_that_no_call_touched_with_dynamic_axes(name, size):
    args = (torch.randn(4, size), torch.randn(4, size))
    shapes = ({0: "a", 1: "b"},) * 2
    sizes = [{"a": 4, "b": 4}, {"a": 4, "b": 6}, {"a": 5, "b": 7}, {"a": 9, "b": 12}]
    exported_dynamic(Calls(SHOWN[name]), args, shapes, *sizes)


@pytest.mark.parametrize("name", CHOICES)
def test_results_that_are_other_tensors_for_other_sizes_are_refused(name):
    args, shapes = (torch.randn(4, 6), torch.randn(4, 6)), ({0: "a", 1: "b"},) * 2
    with pytest.raises(SymbolicValueError, match=r"depends? on the sizes of dynamic axes"):
        torch.onnx.export(Calls(CHOICES[name]), args, dynamic_shapes=shapes)
