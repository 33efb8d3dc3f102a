"""Row ops, random draws and sums over rows in groups: the bits of whole calls, on tiles of rows."""

import pytest
from library import IS_TORCH, torch

from compile.pairs import same

if IS_TORCH:
    pytest.skip("traces are tapegrad's own", allow_module_level=True)

from tapegrad import _C
from tapegrad.compiler import _build
from tapegrad.compiler._recording import Recording, record_call
from tapegrad.compiler.passes import PASSES, check_groups, check_layout, find_groups, lay_out, tiles
from tapegrad.compiler.passes import rows as rules

functional = torch.nn.functional
TILES = (None, 256)  # elements: None is what is used, the other makes some rows a tile


def leaf(*shape, dtype=torch.float32):
    return torch.randn(*shape, dtype=dtype, requires_grad=True)


def groups_of(function, *args):
    """Return the calls of each group, which are checked."""
    _, recording = record_call(function, "function", args, {})
    assert isinstance(recording, Recording), recording
    text = _build.text_of(recording)
    for each in PASSES:
        each(text)
    before = list(text.steps)
    groups = find_groups(text)
    check_groups(text, groups)
    check_layout(text, lay_out(text, groups), groups)
    check_order(before, text.steps)
    return [[step.name for step in text.steps[g.begin : g.end]] for g in groups]


def check_order(before, after):
    """Steps that were moved have not passed one that they depend on."""
    place = {id(step): number for number, step in enumerate(after)}
    kept = [step for step in before if id(step) in place]
    for number, one in enumerate(kept):
        for other in kept[number + 1 :]:
            meets = {*one.writes()} & {*other.reads(), *other.writes()}
            if meets or {*one.reads()} & {*other.writes()}:
                assert place[id(one)] < place[id(other)], (one.name, other.name)


def check(function, make, calls=4):
    """Compare results, arguments and gradients; return the groups of the trace."""
    compiled = torch.compile(function)
    for call in range(calls):
        found = []
        for each in (function, compiled):
            torch.manual_seed(call)
            args = make()
            result = each(*args)
            found.append((result, [arg.detach() for arg in args], [arg.grad for arg in args]))
            found[-1] += (torch.get_rng_state(),)
        assert same(*found), call
    (trace,) = torch.compiler.explain(compiled).traces
    return trace.groups


def backward(result):
    result.sum().backward()
    return result.detach()


@pytest.fixture(params=TILES, ids=["tiles", "few rows"], autouse=True)
def tile(request, monkeypatch):
    if request.param:
        monkeypatch.setattr(tiles, "_TILE", request.param)
    return request.param


def test_the_block_of_a_transformer():
    """Forward and backward are one group, and all that is between them stays in tiles."""

    def block(x, weight, bias, grad):
        y = functional.gelu(functional.layer_norm(x, (128,), weight, bias))
        y = x + functional.dropout(y, 0.1)
        y.backward(grad)
        return y.detach()

    def make():
        return leaf(4, 256, 128), leaf(128), leaf(128), torch.randn(4, 256, 128)

    (group,) = check(block, make)
    assert group[:2] == ["layer_norm", "gelu"] and "random_bernoulli" in group
    assert group[-2:] == ["layer_norm_backward", "add"]
    assert groups_of(block, *make()) == [group]


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads(threads):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:

        def function(x, weight):
            y = functional.rms_norm(x * 2, (96,), weight).relu()
            return backward(functional.dropout(y, 0.5))

        assert check(function, lambda: (leaf(3, 301, 96), leaf(96)))
    finally:
        torch.set_num_threads(before)


def test_sums_over_rows_do_not_depend_on_threads():
    before = torch.get_num_threads()
    found = []
    for threads in (1, 2, 3, 5):
        torch.set_num_threads(threads)
        torch.manual_seed(0)
        x, weight, bias = leaf(1003, 70), leaf(70), leaf(70)
        functional.layer_norm(x, (70,), weight, bias).square().sum().backward()
        found.append([each.grad for each in (x, weight, bias)])
    torch.set_num_threads(before)
    assert all(same(found[0], each) for each in found[1:])


NORMS = {
    "affine": lambda x, w, b: functional.layer_norm(x, x.shape[-1:], w, b),
    "weight": lambda x, w, b: functional.layer_norm(x, x.shape[-1:], w) + b,
    "bias": lambda x, w, b: functional.layer_norm(x, x.shape[-1:], None, b) * w,
    "neither": lambda x, w, b: functional.layer_norm(x, x.shape[-1:]) * w + b,
    "rms": lambda x, w, b: functional.rms_norm(x, x.shape[-1:], w) + b,
    "two": lambda x, w, b: functional.layer_norm(
        functional.layer_norm(x, x.shape[-1:], w, b).sin(), x.shape[-1:], w
    ),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", NORMS)
def test_norms(name, dtype):
    def function(x, weight, bias):
        return backward(NORMS[name](x * 2, weight, bias).tanh())

    groups = check(
        function,
        lambda: (leaf(1100, 64, dtype=dtype), leaf(64, dtype=dtype), leaf(64, dtype=dtype)),
    )
    assert any("layer_norm" in group for group in groups)
    assert any("layer_norm_backward" in group for group in groups)


def test_a_norm_over_two_dimensions():
    def function(x, weight):
        return functional.layer_norm(x * 2, (8, 16), weight).tanh()

    groups = check(torch.no_grad()(function), lambda: (torch.randn(700, 8, 16), torch.randn(8, 16)))
    assert groups == [["mul", "layer_norm", "tanh"]]


ROW_OPS = {
    "softmax": lambda x: x.softmax(-1),
    "log_softmax": lambda x: x.log_softmax(-1),
    "sum": lambda x: x.sum(-1, keepdim=True),
    "mean": lambda x: x.mean(-1, keepdim=True),
    "prod": lambda x: (x * 0.1 + 1).prod(-1, keepdim=True),
    "amax": lambda x: x.amax(-1, keepdim=True),
    "amin": lambda x: x.amin(-1, keepdim=True),
    "max": lambda x: x.max(-1, keepdim=True)[0],
    "min": lambda x: x.min(-1, keepdim=True)[0],
    "logsumexp": lambda x: x.logsumexp(-1, keepdim=True),
    "var": lambda x: x.var(-1, keepdim=True),
    "std": lambda x: x.std(-1, keepdim=True),
    "norm": lambda x: x.norm(dim=-1, keepdim=True),
    "norm of order one": lambda x: x.norm(1, dim=-1, keepdim=True),
    "standardized": lambda x: (x - x.mean(-1, True)) / (x.var(-1, keepdim=True) + 1e-5).sqrt(),
    "softmax by hand": lambda x: (lambda e: e / e.sum(-1, True))((x - x.amax(-1, True)).exp()),
    "cosine": lambda x: functional.cosine_similarity(x, x.sin(), dim=-1).unsqueeze(-1),
    "normalize": lambda x: functional.normalize(x, dim=-1),
}


@pytest.mark.parametrize("length", [33, 50, 64, 256])
@pytest.mark.parametrize("name", ROW_OPS)
def test_rows(name, length):
    def function(x):
        return backward((ROW_OPS[name](x * 2) * x).sin())

    groups = check(function, lambda: (leaf(4, (1 << 16) // length, length),))
    assert len(groups) <= 3, groups


INTEGERS = {
    "argmax": lambda x: x.argmax(-1, keepdim=True),
    "argmin": lambda x: x.argmin(-1, keepdim=True),
    "any": lambda x: (x > 3).any(-1, keepdim=True),
    "all": lambda x: (x > -3).all(-1, keepdim=True),
    "count_nonzero": lambda x: (x > 0).to(torch.float32).count_nonzero(-1).unsqueeze(-1),
}


@pytest.mark.parametrize("name", INTEGERS)
def test_rows_without_a_gradient(name):
    groups = check(
        torch.no_grad()(lambda x: (x * 2 + INTEGERS[name](x * 2)).sin()),
        lambda: (torch.randn(1200, 64),),
    )
    assert len(groups) == 1 and name in groups[0]


RANDOM = {
    "random_uniform": lambda x: torch.rand_like(x),
    "random_normal": lambda x: torch.randn_like(x),
    "random_log_normal": lambda x: torch.empty_like(x).log_normal_(),
    "random_exponential": lambda x: torch.empty_like(x).exponential_(),
    "random_cauchy": lambda x: torch.empty_like(x).cauchy_(),
    "random_geometric": lambda x: torch.empty_like(x).geometric_(0.3),
    "random_integers": lambda x: torch.randint_like(x, 10),
    "random_bernoulli": lambda x: torch.empty_like(x).bernoulli_(0.3),
    "random_bernoulli_each": lambda x: x.sigmoid().bernoulli(),
    "random_poisson": lambda x: torch.poisson(x.abs()),
}


@pytest.mark.parametrize("shape", [(1100, 64), (70001,), (300, 301)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", RANDOM)
def test_draws(name, dtype, shape, tile):
    function = torch.no_grad()(lambda x: (x.sin() + RANDOM[name](x) + torch.rand_like(x)).tanh())
    groups = check(function, lambda: (torch.randn(shape, dtype=dtype),))
    assert len(groups) == 1 and name in groups[0] and "random_uniform" in groups[0]


def test_draws_beside_rows_that_draws_do_not_divide(tile):
    """Random calls draw 64 elements together; few rows of 301 are no whole number of these."""
    function = torch.no_grad()(lambda x: functional.dropout((x * 2).softmax(-1), 0.3) + x)
    groups = check(function, lambda: (torch.randn(300, 301),))
    assert not any({"softmax", "random_bernoulli"} <= set(group) for group in groups)


def test_losses():
    def function(x, target):
        return backward(functional.cross_entropy(x * 2, target, ignore_index=3))

    groups = check(function, lambda: (leaf(1500, 64), torch.randint(0, 64, (1500,))))
    assert groups == [["cross_entropy_backward", "mul_backward_a"]]

    def by_lines(x, target, weight):
        losses = functional.cross_entropy(
            x * 2, target, weight, reduction="none", label_smoothing=0.1
        )
        return backward(losses.square())

    check(by_lines, lambda: (leaf(1500, 64), torch.randint(0, 64, (1500,)), torch.rand(64)))

    def distilled(x, y):
        loss = functional.kl_div(
            (x / 2).log_softmax(-1), (y / 2).softmax(-1), reduction="batchmean"
        )
        return backward(loss)

    assert check(distilled, lambda: (leaf(1500, 64), torch.randn(1500, 64)))


def test_every_rule_is_tested():
    names = {*rules._RANDOM} - {*RANDOM}
    assert not names
    assert not {*rules._REDUCTIONS} - {*ROW_OPS} - {*INTEGERS}


BROADCASTS = {
    "bias": lambda x, row, column: (x + row).tanh() * 2,
    "scale of a row": lambda x, row, column: (x * column).tanh() + row,
    "expanded": lambda x, row, column: (x * column.expand_as(x)).tanh() + row.expand_as(x),
    "parts of rows": lambda x, row, column: (x * 2)[:, :64] * (x * 3)[:, 64:],
    "in place": lambda x, row, column: (x * 2).add_(row).mul_(column).tanh_(),
    "halves": lambda x, row, column: functional.glu(x * 2 + row, -1).tanh(),
    "transposed": lambda x, row, column: (x * 2).t().contiguous().sin() + column.t(),
    "of another order": lambda x, row, column: (x.t() * 2).sin() + row.unsqueeze(1),
    "of some rows": lambda x, row, column: (x.view(2, -1, 128) + x[: len(x) // 2]).sin() * 2,
}


@pytest.mark.parametrize("name", BROADCASTS)
def test_broadcasting(name):
    def make():
        return torch.randn(1200, 128), torch.randn(128), torch.randn(1200, 1)

    check(torch.no_grad()(BROADCASTS[name]), make)
    check(
        lambda *args: backward(BROADCASTS[name](*args)),
        lambda: tuple(leaf(*each.shape) for each in make()),
    )


def test_a_value_that_is_shown_in_two_ways():
    """What is written by rows must not be read otherwise in the same group."""

    def shifted(x):
        y = x * 2
        return (y[1:] + y[:-1]).sin() * y.sum(0), y

    check(torch.no_grad()(shifted), lambda: (torch.randn(1100, 64),))

    def first_row(x):
        y = x * 2
        return ((x + y[0]).softmax(-1) * y).tanh()

    groups = check(torch.no_grad()(first_row), lambda: (torch.randn(1100, 64),))
    assert groups[-1] == ["add", "softmax", "mul", "tanh"]

    def overwritten(x):
        row = x.sum(-1, keepdim=True)
        x.mul_(2)
        z = x + row
        x.sub_(row)
        return z * x

    check(torch.no_grad()(overwritten), lambda: (torch.randn(1100, 64),))


def test_results_in_the_place_of_inputs():
    """A row may be written over one that was read, unless all rows are read by each tile."""
    weight = torch.randn(64, 64)

    def by_rows(x):
        y = x @ weight
        return ((y * 2).exp() @ weight).sum(0)

    def first_row(x):
        y = x @ weight
        z = (x + y[0]).sin()
        return ((y * 2).exp() @ weight).sum(0), z

    for function in (by_rows, first_row):
        groups_of(torch.no_grad()(function), torch.randn(1100, 64))
        check(torch.no_grad()(function), lambda: (torch.randn(1100, 64),))
    compiled = torch.compile(torch.no_grad()(by_rows))
    for _ in range(3):
        compiled(torch.randn(1100, 64))
    (trace,) = torch.compiler.explain(compiled).traces
    assert trace.groups == [["mul", "exp"]]
    assert trace.arena_bytes == 2 * 1100 * 64 * 4, "the second product lies beside the first"


def test_steps_in_between():
    """A product, a sum of all and a look at memory of outside do not end a group for nothing."""
    weight = torch.randn(64, 64)
    count = torch.zeros(1100, 64)

    def function(x):
        y = x.sin()
        product = y @ weight
        total = y.sum()
        z = (y * 2).softmax(-1)
        count.add_(z)
        count.mul_(0.5)
        return product, total, z * 3, count.clone()

    def make():
        count.zero_()
        return (torch.randn(1100, 64),)

    groups = check(torch.no_grad()(function), make)
    assert groups[0][:3] == ["sin", "mul", "softmax"]
    names = groups_of(torch.no_grad()(function), *make())
    assert names == groups


def test_verified():
    """What a verified function captures in every call is the program of its groups."""

    def block(x, weight):
        y = functional.dropout(functional.layer_norm(x, (64,), weight).relu(), 0.2) + x
        return backward(y)

    compiled = torch.compile(block, verify=True)
    for call in range(5):
        results = []
        for each in (block, compiled):
            torch.manual_seed(call)
            x, weight = leaf(1100, 64), leaf(64)
            results.append((each(x, weight), x.grad, weight.grad))
        assert same(*results)
    (trace,) = torch.compiler.explain(compiled).traces
    assert "layer_norm_backward" in trace.groups[0]


@pytest.mark.parametrize("kind", ["a step in between", "a step of the group"])
def test_errors_leave_what_they_leave_without_a_trace(kind):
    count = torch.zeros(1100, 64)

    def indexed(x, places, chances):
        y = x.sin()
        z = x[places]
        count.add_(y)
        return z, y * 2

    def drawn(x, places, chances):
        count.add_(x)
        y = (chances * 2).bernoulli()
        count.add_(y)
        return y * 2

    function = indexed if kind == "a step in between" else drawn
    compiled = torch.compile(torch.no_grad()(function))
    for call in range(6):
        places, chances = torch.arange(50), torch.full((1100, 64), 0.25)
        if call == 4:
            places[7], chances[500, 3] = 5000, 2.0
        found = []
        for each in (torch.no_grad()(function), compiled):
            torch.manual_seed(call)
            count.fill_(1)
            try:
                found.append((each(torch.ones(1100, 64), places, chances), count.clone()))
            except (IndexError, RuntimeError) as error:
                found.append((type(error).__name__, count.clone()))
        assert same(*found), call
    assert len(torch.compiler.explain(compiled).traces) == 1


def test_nothing_moves_across_a_guard():
    total = torch.zeros(1100, 64)

    def function(x):
        y = x.sin()
        total.add_(y)
        if y.sum() > 1e9:
            return y
        return (y * 2).softmax(-1) + total

    def make():
        total.zero_()
        return (torch.randn(1100, 64),)

    groups = check(torch.no_grad()(function), make)
    assert groups == [["sin", "add"], ["mul", "softmax", "add"]]


@pytest.mark.parametrize("shift", [0, 1, 7, 100])
def test_arguments_further_on_in_their_memory(shift):
    """A trace that was made with one slice of a tensor runs with another."""
    base = torch.randn(80_000)
    function = torch.no_grad()(lambda x: (x.view(-1, 64).softmax(-1) * 2).sin())
    compiled = torch.compile(function)
    for _ in range(3):
        compiled(base[:70400])
    given = base[shift : shift + 70400]
    assert same(function(given), compiled(given))


def test_lines_that_have_few_rows_are_left_to_whole_calls():
    """Kernels share few rows among threads, and take short ones together."""
    assert (
        groups_of(torch.no_grad()(lambda x: (x * 2).softmax(-1) * 3), torch.randn(40, 2000)) == []
    )
    assert (
        groups_of(torch.no_grad()(lambda x: (x * 2).sum(-1, True) * 3), torch.randn(9000, 8)) == []
    )


def test_the_checker_finds_what_a_plan_would_get_wrong():
    _, recording = record_call(
        torch.no_grad()(lambda x: (x.sin().softmax(-1) * 2).exp()),
        "f",
        (torch.randn(1100, 64),),
        {},
    )
    text = _build.text_of(recording)
    (group,) = find_groups(text)
    check_groups(text, [group])
    result = text.steps[-1].outputs[0][0]
    with pytest.raises(AssertionError, match="needed outside"):
        check_groups(text, [group._replace(inner={**group.inner, result: 4})])
    with pytest.raises(AssertionError, match="parts of the group"):
        check_groups(text, [group._replace(grid=group.grid._replace(part=3 * group.tile + 1))])
    views = [[rules.Shown("other", each.cut) for each in step] for step in group.shown]
    with pytest.raises(AssertionError, match="in two ways"):
        check_groups(text, [group._replace(shown=views)])
    layout = lay_out(text, [group])
    check_layout(text, layout, [group])
    with pytest.raises(AssertionError, match="share memory"):
        check_layout(text, layout._replace(offsets=dict.fromkeys(range(len(text.nbytes)), 0)))


def test_cuts_that_lie_outside_are_refused():
    program = _C.Program()
    program.add_value(256, "cpu", False)
    program.add_value(256, "cpu", True)
    operand = (0, (8, 8), (8, 1))
    shown = [(number, 0, *operand[1:], torch.float32, "cpu") for number in (0, 1)]
    program.add_step("neg", (shown[0],), (torch.float32,), (shown[1],), None, "")
    trace = _C._Trace(program, [(3, 0, None), (4, 0, None)], 0, _C._Watch(), _C._Environment(), -1)
    good = (8, 1, 0, (8,), (1,), 1)
    trace.add_group(0, 1, 8, 8, 2, 2, 0, [], [good, good])
    for bad in ((9, 1, 0, (8,), (1,), 1), (8, 1, 0, (9,), (1,), 1), (8, 1, 0, (8,), (-1,), 1)):
        with pytest.raises(ValueError, match="plan: "):
            trace.add_group(0, 1, 8, 8, 2, 2, 0, [], [bad, good])
    with pytest.raises(ValueError, match="is none"):
        trace.add_group(0, 1, 8, 8, 3, 2, 0, [], [good, good])
