"""One native call updates a group, with the results of the composed functions."""

import warnings

import numpy as np
import pytest

from .algorithms import CASES, name_of

WITHOUT_NATIVE = ("Adafactor", "LBFGS")
NATIVE_CASES = [case for case in CASES if case[0] not in WITHOUT_NATIVE]
SHAPES = ((), (1,), (7,), (0,), (3, 5), (64,), (33, 65), (2, 0, 3), (9000,), (23456,))

each_case = pytest.mark.parametrize("case", NATIVE_CASES, ids=name_of)


@pytest.fixture
def torch(tapegrad):
    return tapegrad


@pytest.fixture
def calls(torch, monkeypatch):
    """Count the native steps that were taken and those that were left to Python."""
    counts = {True: 0, False: 0}
    step = torch._C._optimizer_step

    def counted(*args):
        taken = step(*args)
        counts[taken] += 1
        return taken

    monkeypatch.setattr(torch._C, "_optimizer_step", counted)
    return counts


def values(shapes, count, seed=5):
    generator = np.random.default_rng(seed)
    return [[generator.normal(size=shape) for shape in shapes] for _ in range(count)]


def run(torch, case, dtype, steps=6, native=True, shapes=SHAPES):
    """Take some steps with given gradients; return the parameters and the state."""
    start, *grads = values(shapes, steps + 1)
    params = [torch.tensor(x, dtype=dtype, requires_grad=True) for x in start]
    kind, options = case
    optimizer = getattr(torch.optim, kind)(params, **options)
    if not native:
        optimizer._native = lambda group: None
    for row in grads:
        for param, grad in zip(params, row, strict=True):
            param.grad = torch.tensor(grad, dtype=dtype)
        optimizer.step()
    return params, [optimizer.state[param] for param in params if param in optimizer.state]


def assert_same(ours, theirs, rtol):
    for x, y in zip(ours, theirs, strict=True):
        x, y = x.detach().double().numpy(), y.detach().double().numpy()
        scale = np.abs(y).max() if y.size else 0
        np.testing.assert_allclose(x, y, rtol=rtol, atol=rtol * scale)


@each_case
@pytest.mark.parametrize(("dtype", "rtol"), [("float64", 1e-12), ("float32", 2e-5)])
def test_native_and_composed_steps_agree(torch, calls, case, dtype, rtol):
    """Tails, empty tensors and blocks that threads share are among the shapes."""
    dtype = getattr(torch, dtype)
    params, states = run(torch, case, dtype)
    assert calls[True] >= 5
    expected, expected_states = run(torch, case, dtype, native=False)
    assert_same(params, expected, rtol)
    for state, other in zip(states, expected_states, strict=True):
        assert list(state) == list(other)
        assert [x.dtype for x in state.values()] == [x.dtype for x in other.values()]
        assert_same(state.values(), other.values(), rtol)


@each_case
@pytest.mark.parametrize(("dtype", "rtol"), [("bfloat16", 2.0**-8), ("float16", 2.0**-11)])
def test_half_types_are_computed_in_float32(torch, calls, case, dtype, rtol):
    """One step is rounded once: it is float32's step on the same values."""
    dtype = getattr(torch, dtype)
    start, grad = values([(1500,)], 2)
    results = []
    for compute in (dtype, torch.float32):
        param = torch.tensor(start[0]).to(dtype).to(compute).requires_grad_()
        param.grad = torch.tensor(grad[0]).to(dtype).to(compute)
        options = (
            {"eps": 1e-4, **case[1]} if case[0] in ("Adam", "AdamW", "NAdam", "RAdam") else case[1]
        )
        optimizer = getattr(torch.optim, case[0])([param], **options)
        optimizer.step()
        results.append(param)
    assert results[0].dtype is dtype
    x, y = (result.detach().double().numpy() for result in results)
    np.testing.assert_allclose(x, y, rtol=2 * rtol, atol=2 * rtol)


def test_one_group_may_mix_dtypes_and_steps(torch, calls):
    def train(native):
        params = [
            torch.linspace(-1, 1, n, dtype=dtype).requires_grad_()
            for n, dtype in ((5, torch.float64), (70, torch.float32), (9, torch.float64))
        ]
        optimizer = torch.optim.Adam(params, lr=0.1)
        if not native:
            optimizer._native = lambda group: None
        for i in range(4):
            for k, param in enumerate(params):
                late = k == 2 and i < 2  # begins later, and counts its own steps
                param.grad = None if late else (param.detach() * (i + 1)).cos()
            optimizer.step()
        return params, [optimizer.state[param]["step"].item() for param in params]

    params, steps = train(True)
    expected, expected_steps = train(False)
    assert calls[True] == 4
    assert steps == expected_steps == [4.0, 4.0, 2.0]
    assert_same(params, expected, 1e-6)


def test_parameters_without_gradient_are_left_alone(torch, calls):
    params = [torch.ones(3, requires_grad=True) for _ in range(3)]
    optimizer = torch.optim.SGD(params, lr=0.5)
    params[1].grad = torch.ones(3)
    versions = [param._version for param in params]
    optimizer.step()
    assert [param.tolist() for param in params] == [[1.0] * 3, [0.5] * 3, [1.0] * 3]
    assert [param._version - v for param, v in zip(params, versions, strict=True)] == [0, 1, 0]
    assert calls == {True: 1, False: 0}


def test_a_step_is_a_write(torch, calls):
    """Versions move on, and a value that the tape saved is known to be overwritten."""
    param = torch.ones(3, requires_grad=True)
    optimizer = torch.optim.Adam([param], lr=0.1)
    param.grad = torch.ones(3)
    optimizer.step()
    state = optimizer.state[param]
    before = [param._version, *(value._version for value in state.values())]
    loss = (param * param).sum()
    optimizer.step()
    after = [param._version, *(value._version for value in state.values())]
    assert all(new == old + 1 for new, old in zip(after, before, strict=True))
    with pytest.raises(RuntimeError, match="adam_step"):
        loss.backward()
    assert calls[True] == 2


def test_nothing_is_recorded(torch, calls):
    param = torch.ones(3, requires_grad=True)
    param.grad = torch.ones(3, requires_grad=True) * 2
    optimizer = torch.optim.SGD([param], lr=0.1, momentum=0.9)
    optimizer.step()
    optimizer.step()
    assert param.is_leaf
    assert param.grad_fn is None
    assert torch.is_grad_enabled()
    assert not optimizer.state[param]["momentum_buffer"].requires_grad


def test_dense_layouts_are_updated_in_place_of_memory(torch, calls):
    """A transposed parameter with gradients and state in the same order needs no copies."""
    param = torch.arange(12.0).view(3, 4).t().requires_grad_()
    param.grad = torch.ones(3, 4).t()
    torch.optim.SGD([param], lr=1.0).step()
    assert calls == {True: 1, False: 0}
    assert param[:, 0].tolist() == [-1.0, 0.0, 1.0, 2.0]


@pytest.mark.parametrize("kind", ["SGD", "Adam", "RMSprop"])
def test_odd_layouts_are_left_to_tensor_ops(torch, calls, kind):
    def train(native):
        whole = torch.arange(20.0).view(4, 5)
        param = whole[:, ::2].detach().requires_grad_()
        optimizer = getattr(torch.optim, kind)([param], lr=0.25)
        if not native:
            optimizer._native = lambda group: None
        for _ in range(3):
            param.grad = torch.ones(3, 4).t()
            optimizer.step()
        return whole

    assert_same([train(True)], [train(False)], 1e-6)
    assert calls[True] == 0
    assert calls[False] > 0


def test_shared_memory_is_left_to_tensor_ops(torch, calls):
    """One parameter after another, as they are listed."""
    memory = torch.ones(6)
    params = [memory[:4].detach().requires_grad_(), memory[2:].detach().requires_grad_()]
    for param in params:
        param.grad = torch.ones(4)
    torch.optim.SGD(params, lr=0.5).step()
    assert memory.tolist() == [0.5, 0.5, 0.0, 0.0, 0.5, 0.5]
    assert calls == {True: 0, False: 1}


def test_parts_of_one_buffer_are_no_obstacle(torch, calls):
    memory = torch.ones(6)
    params = [memory[:3].detach().requires_grad_(), memory[3:].detach().requires_grad_()]
    for param in params:
        param.grad = torch.ones(3)
    torch.optim.SGD(params, lr=0.5).step()
    assert memory.tolist() == [0.5] * 6
    assert calls == {True: 1, False: 0}


def test_a_gradient_that_is_the_parameter_is_left_to_tensor_ops(torch, calls):
    param = torch.ones(3, requires_grad=True)
    param.grad = param.detach()
    torch.optim.SGD([param], lr=0.25).step()
    assert param.tolist() == [0.75] * 3
    assert calls[True] == 0


def test_parameters_may_share_a_gradient(torch, calls):
    params = [torch.ones(3, requires_grad=True) for _ in range(2)]
    params[0].grad = params[1].grad = torch.ones(3)
    torch.optim.SGD(params, lr=0.25).step()
    assert [param.tolist() for param in params] == [[0.75] * 3] * 2
    assert calls == {True: 1, False: 0}


def test_a_parameter_listed_twice_is_updated_twice(torch, calls):
    param = torch.ones(2, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        optimizer = torch.optim.SGD([param, param], lr=0.25)
    param.grad = torch.ones(2)
    optimizer.step()
    assert param.tolist() == [0.5, 0.5]
    assert calls[True] == 0


def test_integers_are_left_to_tensor_ops_and_inference_tensors_refused(torch, calls):
    with torch.inference_mode():
        param = torch.ones(2)
    grad = torch.ones(2)
    with pytest.raises(RuntimeError, match="inference"):
        optimizer = torch.optim.SGD([param], lr=0.5)
        param.grad = grad
        optimizer.step()


@pytest.mark.parametrize("option", ["lr", "betas", "weight_decay"])
def test_options_may_be_tensors_and_change(torch, calls, option):
    def train(wrap):
        param = torch.ones(4, dtype=torch.float64, requires_grad=True)
        optimizer = torch.optim.Adam([param], lr=0.1)
        for i in range(1, 4):
            value = (wrap(0.5 / i), wrap(0.75)) if option == "betas" else wrap(0.5 / i)
            optimizer.param_groups[0][option] = value
            param.grad = torch.full((4,), float(i), dtype=torch.float64)
            optimizer.step()
        return param

    wrapped = train(lambda value: torch.tensor(value, dtype=torch.float64))
    assert calls == {True: 3, False: 1}  # the first step finds no state
    assert_same([wrapped], [train(lambda value: value)], 1e-14)


@pytest.mark.parametrize("kind", ["Adam", "AdamW", "RMSprop", "NAdam", "RAdam", "Adamax", "ASGD"])
def test_capturable_is_still_refused(torch, kind):
    param = torch.ones(2, requires_grad=True)
    optimizer = getattr(torch.optim, kind)([param], capturable=True)
    param.grad = torch.ones(2)
    with pytest.raises(AssertionError, match="capturable"):
        optimizer.step()
    assert param.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("flags", [{"foreach": True}, {"foreach": False}, {"fused": True}])
def test_switches_of_implementation_change_nothing(torch, calls, flags):
    plain, _ = run(torch, ("AdamW", {}), torch.float32, shapes=((40,),))
    switched, _ = run(torch, ("AdamW", flags), torch.float32, shapes=((40,),))
    assert plain[0].tolist() == switched[0].tolist()


def test_replacing_state_or_groups_goes_the_long_way(torch, calls):
    """State is read anew at each step, so what somebody put there counts."""
    param = torch.ones(2, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.SGD([param], lr=0.5, momentum=0.5)
    param.grad = torch.ones(2, dtype=torch.float64)
    optimizer.step()
    optimizer.state[param]["momentum_buffer"] = torch.full((2,), 3.0)  # float32
    optimizer.step()
    assert param.tolist() == [1 - 0.5 - 0.5 * 2.5] * 2
    assert calls[True] == 0


def test_a_captured_step_counts_when_replayed(torch):
    """The count is part of what a step writes: a replay is the next step, not the same again."""
    params = [torch.ones(3, requires_grad=True) for _ in range(2)]
    for param in params:
        param.grad = torch.ones(3)
    optimizers = [torch.optim.Adam([param], lr=0.1) for param in params]
    for optimizer in optimizers:
        optimizer.step()
    program = torch._C.Program()
    with program:
        optimizers[0].step()
    assert [step[0] for step in program.steps()] == ["adam_step"]
    program.replay()
    optimizers[1].step()
    optimizers[1].step()
    assert params[0].tolist() == params[1].tolist()
    assert optimizers[0].state[params[0]]["step"].item() == 3.0


def test_the_result_does_not_depend_on_the_number_of_threads(torch):
    threads = torch.get_num_threads()
    results = []
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            params, _ = run(torch, ("Adam", {}), torch.float32, shapes=((30001,), (17,), (20000,)))
            results.append([param.tolist() for param in params])
    finally:
        torch.set_num_threads(threads)
    assert results[0] == results[1] == results[2]


def test_a_batch_somewhere_else_does_not_matter(torch, calls):
    """A tensor of a vmap that is over may outlive it."""
    kept = []
    torch.func.vmap(lambda x: kept.append(x * 2) or x)(torch.ones(3, 2))
    param = torch.ones(2, requires_grad=True)
    param.grad = torch.ones(2)
    torch.optim.SGD([param], lr=0.5).step()
    assert param.tolist() == [0.5, 0.5]
    assert calls == {True: 1, False: 0}


def test_zero_grad_drops_gradients(torch):
    params = [torch.ones(2, requires_grad=True) for _ in range(3)]
    optimizer = torch.optim.SGD(params)
    params[0].grad = torch.ones(2)
    kept = params[2].grad = torch.ones(2)
    optimizer.zero_grad()
    assert all(param.grad is None for param in params)
    assert kept.tolist() == [1.0, 1.0]
    assert not torch._C._drop_gradients((params[0],))  # a tuple is left to Python
    params[0].grad = torch.ones(2)
    sparse = torch.eye(2).to_sparse().requires_grad_(True)
    torch.optim.SGD([params[0], sparse]).zero_grad()
    assert params[0].grad is None and sparse.grad is None


@pytest.mark.parametrize("maximize", [[1, 2], ()])
def test_an_option_that_is_no_number_is_left_to_python(torch, calls, maximize):
    """Its numbers would be taken for those of the options after it."""
    param = torch.ones(2, requires_grad=True)
    param.grad = torch.ones(2)
    torch.optim.Adam([param], lr=0.5, maximize=maximize).step()
    assert param.tolist() == pytest.approx([1.5, 1.5] if maximize else [0.5, 0.5])
    assert calls[True] == 0


def test_an_option_that_contains_itself(torch, calls):
    loop = []
    loop.append(loop)
    param = torch.ones(2, requires_grad=True)
    param.grad = torch.ones(2)
    torch.optim.Adam([param], lr=0.5, maximize=loop).step()
    assert param.tolist() == pytest.approx([1.5, 1.5]) and calls[True] == 0
