"""Chains of pointwise calls that run tile by tile: the same bits, whatever shows which memory."""

import pytest
from library import IS_TORCH, torch

from compile.pairs import same

if IS_TORCH:
    pytest.skip("traces are tapegrad's own", allow_module_level=True)

from tapegrad.compiler import _build
from tapegrad.compiler._recording import Recording, record_call
from tapegrad.compiler.passes import PASSES, check_groups, check_layout, find_groups, lay_out

LARGE = 3 * 16384 * 3 + 17  # not a number of whole tiles


def groups_of(function, *args):
    _, recording = record_call(function, "function", args, {})
    assert isinstance(recording, Recording), recording
    text = _build.text_of(recording)
    for each in PASSES:
        each(text)
    groups = find_groups(text)
    check_groups(text, groups)
    check_layout(text, lay_out(text, groups), groups)
    return [[step.name for step in text.steps[g.begin : g.end]] for g in groups], groups


def check(function, *args, calls=4):
    compiled = torch.compile(function)
    for call in range(calls):
        given = [[each.clone() * (call + 1) for each in args] for _ in range(2)]
        expected, found = function(*given[0]), compiled(*given[1])
        assert same((expected, given[0]), (found, given[1]))
    assert len(torch.compiler.explain(compiled).traces) == 1


def test_a_chain_is_one_group():
    x = torch.randn(LARGE)
    names, (group,) = groups_of(lambda x: (x.sin() * x + 1).tanh(), x)
    assert names == [["sin", "mul", "add", "tanh"]]
    assert len(group.inner) == 3, "all but the result"
    check(lambda x: (x.sin() * x + 1).tanh(), x)


@pytest.mark.parametrize("numel", [65536, 65537, 131072, 16384 * 7 - 1, 300_000])
def test_sizes(numel):
    check(
        lambda x, y: ((x * y).exp().clamp(max=3) - y).abs().sqrt(),
        torch.randn(numel),
        torch.randn(numel),
    )


def test_small_tensors_are_no_groups():
    assert groups_of(lambda x: x.sin().cos(), torch.randn(1000))[0] == []


def test_threads():
    before = torch.get_num_threads()
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        check(lambda x: (x.sin() * x).exp().neg(), torch.randn(4, LARGE))
    torch.set_num_threads(before)


def test_dtypes_and_comparisons():
    def function(x, y):
        positive = (x > 0) & (y < 1)
        return torch.where(positive, x.double(), y.double()).float().to(
            torch.bfloat16
        ) * 2, positive

    check(function, torch.randn(LARGE), torch.randn(LARGE))


def test_numbers_and_tensors_of_one_element():
    scale = torch.tensor(1.5)
    check(lambda x: (x * scale + 2.0) / scale.exp(), torch.randn(LARGE))


def test_broadcasting_of_a_row():
    bias = torch.randn(300)
    x = torch.randn(300, 300)
    names, _ = groups_of(lambda x: ((x.sin().cos()) + bias).exp().neg(), x)
    assert names == [["sin", "cos", "add", "exp", "neg"]]
    check(lambda x: ((x.sin().cos()) + bias).exp().neg(), x)


def test_transposed_operands_end_a_group():
    x = torch.randn(300, 300)
    check(lambda x: ((x.t() * 2).contiguous() * x).sin().cos(), x)
    check(lambda x: (x.t().sin() * x).cos(), x)


def test_memory_that_is_shown_in_two_ways():
    """Each element of the second call depends on a neighbour of the first one's result."""

    def shifted(x):
        y = x * 2
        z = y[1:].sin()
        y[:-1].add_(z)
        return y[1:] * y[:-1]

    check(shifted, torch.randn(LARGE))

    def overwritten(x):
        x.mul_(2)
        y = x + 1
        x.add_(y)
        return y * x

    check(overwritten, torch.randn(LARGE))


def test_arguments_that_share_memory():
    def function(x, y):
        x.add_(1)
        return (x * y).sin()

    compiled = torch.compile(function)
    for call in range(8):
        results = []
        for each in (function, compiled):
            memory = torch.arange(float(LARGE + 1))
            other = memory[1:] if call % 2 else memory[1:].clone()
            results.append((each(memory[:-1], other), memory))
        assert same(*results)


def test_results_in_the_middle_are_kept():
    def function(x):
        y = x.sin()
        z = y.exp()
        return y, z.sum(), z * 2

    check(function, torch.randn(LARGE))


def test_a_training_step():
    def make():
        torch.manual_seed(0)
        weight = torch.randn(400, 300, requires_grad=True)
        optimizer = torch.optim.SGD([weight], lr=0.1)

        def step(x):
            optimizer.zero_grad()
            y = (x * weight).tanh().square() * torch.sigmoid(weight)
            loss = y.mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step, weight

    (eager, one), (function, other) = make(), make()
    compiled = torch.compile(function)
    for seed in range(6):
        torch.manual_seed(seed)
        x = torch.randn(400, 300)
        assert same((eager(x), one.detach(), one.grad), (compiled(x), other.detach(), other.grad))
    assert len(torch.compiler.explain(compiled).traces) == 1


def test_memory_of_a_chain():
    compiled = torch.compile(lambda x: x.sin().cos().exp().tanh().neg().sum())
    x = torch.randn(1 << 20)
    for _ in range(3):
        compiled(x)
    (trace,) = torch.compiler.explain(compiled).traces
    assert trace.arena_bytes <= 4 << 20 < trace.made_bytes
    assert trace.groups == [["sin", "cos", "exp", "tanh", "neg"]]
    assert "tile by tile: sin, cos" in str(torch.compiler.explain(compiled))


def test_a_group_that_fails_midway():
    """Integers have no negative powers: kernels that find one out fail as eager ones do."""
    total = torch.zeros(LARGE, dtype=torch.int64)

    def function(x, y):
        total.add_(1)
        return (x + 1).pow(y) * 2

    compiled = torch.compile(function)
    for call in range(6):
        x, y = torch.ones(LARGE, dtype=torch.int64), torch.ones(LARGE, dtype=torch.int64)
        if call == 4:
            y[LARGE // 2] = -1
        found = []
        for each in (function, compiled):
            total.fill_(0)
            try:
                found.append((each(x, y), total.clone()))
            except RuntimeError as error:
                found.append((str(error), total.clone()))
        assert same(*found)
