"""What can be compiled, by which names, and what is told about it."""

import copy
import gc
import pickle
import threading
import weakref

import pytest
from library import IS_TORCH, torch

from compile.pairs import same

if IS_TORCH:
    pytest.skip("traces are tapegrad's own", allow_module_level=True)

nn = torch.nn


def double(x):
    """Double."""
    return x * 2


def traces_of(compiled):
    return len(torch.compiler.explain(compiled).traces)


# ---- what is compiled


def test_functions_and_decorators():
    @torch.compile
    def first(x):
        return x + 1

    @torch.compile(mode="reduce-overhead", fullgraph=True, dynamic=False)
    def second(x):
        return x + 2

    for _ in range(4):
        assert (first(torch.ones(())) + second(torch.ones(()))).item() == 5
    assert traces_of(first) == traces_of(second) == 1
    compiled = torch.compile(double)
    assert compiled.__name__ == "double" and compiled.__doc__ == "Double."
    assert torch.compile(compiled) is compiled


def test_methods():
    class Scale:
        def __init__(self, factor):
            self.factor = factor

        @torch.compile
        def __call__(self, x):
            return x * self.factor

        @torch.compile
        def twice(self, x):
            return x * self.factor * 2

    one, other = Scale(2.0), Scale(5.0)
    for _ in range(4):
        assert one(torch.ones(())).item() == 2 and other(torch.ones(())).item() == 5
        assert one.twice(torch.ones(())).item() == 4 and other.twice(torch.ones(())).item() == 10
    one.factor = 7.0
    assert one(torch.ones(())).item() == 7
    bound = torch.compile(one.twice)
    for _ in range(4):
        assert bound(torch.ones(())).item() == 14


def test_modules():
    model = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 2))
    compiled = torch.compile(model)
    assert isinstance(compiled, nn.Module) and compiled._orig_mod is model
    assert list(compiled.state_dict()) == ["_orig_mod." + key for key in model.state_dict()]
    assert [id(p) for p in compiled.parameters()] == [id(p) for p in model.parameters()]
    compiled.eval()
    assert not model.training and not compiled.training
    x = torch.ones(2, 3)
    with torch.no_grad():
        for _ in range(4):
            assert torch.equal(compiled(x), model(x))
    assert traces_of(compiled) == 1, torch.compiler.explain(compiled)
    compiled.extra = 5
    assert model.extra == 5 and compiled.extra == 5
    calls = []
    handle = compiled.register_forward_hook(lambda *args: calls.append(1))
    with torch.no_grad():
        compiled(x)
    handle.remove()
    assert calls == [1]
    compiled.train()
    compiled(x).sum().backward()
    assert model[0].weight.grad is not None


def test_names_of_backends_and_modes():
    for backend in ("inductor", "cudagraphs"):
        assert torch.compile(double, backend=backend)(torch.ones(())).item() == 2
    for backend in ("eager", "aot_eager"):
        assert torch.compile(double, backend=backend) is double
    assert torch.compile(double, disable=True) is double
    assert "inductor" in torch.compiler.list_backends()
    with pytest.raises(RuntimeError, match=r"expected backend to be one of .*got 'tvm'"):
        torch.compile(double, backend="tvm")
    with pytest.raises(NotImplementedError, match="a function as backend"):
        torch.compile(double, backend=lambda graph, inputs: graph)
    with pytest.raises(RuntimeError, match=r"expected mode to be one of .*got 'fast'"):
        torch.compile(double, mode="fast")
    with pytest.raises(RuntimeError, match="expected no options, got epilogue_fusion"):
        torch.compile(double, options={"epilogue_fusion": True})
    with pytest.raises(RuntimeError, match="either mode or options"):
        torch.compile(double, mode="default", options={"a": 1})
    with pytest.raises(TypeError, match="expected a function or a module, got int"):
        torch.compile(3)


def test_fullgraph_refuses_what_runs_eagerly():
    compiled = torch.compile(lambda x: print(x.shape), fullgraph=True)
    with pytest.raises(RuntimeError, match=r"cannot be replayed, and fullgraph=True: .*print"):
        compiled(torch.ones(2))


# ---- values that are looked at


def test_a_branch_has_a_trace_for_each_way():
    @torch.compile
    def function(x):
        if x.sum() > 0:
            return x * 2
        return x - 1

    for value in (1.0, 1.0, 2.0, -1.0, -1.0, -2.0, 3.0, -3.0):
        expected = value * 2 if value > 0 else value - 1
        assert function(torch.tensor(value)).item() == expected
    told = torch.compiler.explain(function)
    assert [len(trace.guards) for trace in told.traces] == [1, 1]


def test_loops_whose_length_depends_on_data():
    @torch.compile
    def halvings(x):
        count = 0
        while x.item() > 1:
            x = torch.floor(x / 2)
            count += 1
        return count

    for _ in range(3):
        for value in (1.0, 4.0, 8.0, 4.0):
            assert halvings(torch.tensor(value)) == int(torch.log2(torch.tensor(value)).item())
    assert traces_of(halvings) == 3


def test_writes_before_a_guard_that_fails_are_put_back():
    total = torch.zeros(())

    @torch.compile
    def function(x):
        total.add_(x)
        return x * 2 if total > 10 else x * 3

    results = [function(torch.ones(())).item() for _ in range(20)]
    assert results == [3.0] * 10 + [2.0] * 10
    assert total.item() == 20


def test_a_value_that_changes_every_time_runs_eagerly_in_the_end():
    @torch.compile
    def function(x):
        return x.sum().item()

    assert [function(torch.full((2,), float(i))) for i in range(30)] == [2.0 * i for i in range(30)]
    assert traces_of(function) == 0
    assert "no two calls" in torch.compiler.explain(function).eager_reason


# ---- surroundings


def test_observers_see_every_op():
    compiled = torch.compile(lambda x: x.sin() * 2)
    x = torch.ones(3)
    for _ in range(4):
        compiled(x)
    assert traces_of(compiled) == 1, torch.compiler.explain(compiled)
    with torch.profiler.profile() as profile:
        compiled(x)
    assert any("sin" in event.key for event in profile.key_averages())
    assert torch.equal(torch.vmap(compiled)(torch.ones(2, 3)), torch.ones(2, 3).sin() * 2)
    _, tangent = torch.func.jvp(compiled, (x,), (x,))
    assert torch.equal(tangent, x.cos() * 2)
    y = torch.ones(3, requires_grad=True)
    compiled(y).sum().backward()
    assert torch.equal(y.grad, y.detach().cos() * 2)
    program = torch._C.Program()
    with program:
        compiled(x)
    assert [step[0] for step in program.steps()] == ["sin", "mul"]


def test_transforms_and_checkpoints_of_compiled_functions():
    compiled = torch.compile(lambda x: (x**3).sum())
    for _ in range(3):
        compiled(torch.ones(2))
    x = torch.tensor([1.0, 2.0])
    assert torch.equal(torch.func.grad(compiled)(x), 3 * x**2)
    assert torch.equal(torch.func.hessian(compiled)(x), torch.diag(6 * x))
    y = x.clone().requires_grad_()
    torch.utils.checkpoint.checkpoint(compiled, y, use_reentrant=False).backward()
    assert torch.equal(y.grad, 3 * x**2)
    with torch.tape.budget("1 MiB"):
        y.grad = None
        compiled(y).backward()
    assert torch.equal(y.grad, 3 * x**2)


def test_threads_share_a_function():
    weight = torch.randn(64, 64)
    compiled = torch.compile(lambda x: (x @ weight).tanh().sum())
    inputs = [torch.randn(64, 64) for _ in range(4)]
    expected = [(x @ weight).tanh().sum() for x in inputs]
    for _ in range(3):
        compiled(inputs[0])
    assert traces_of(compiled) == 1, torch.compiler.explain(compiled)
    wrong = []

    def work(number):
        for _ in range(50):
            if not torch.equal(compiled(inputs[number]), expected[number]):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_nothing_is_kept_of_arguments_and_results():
    compiled = torch.compile(lambda x: [x * 2, x.sum()])
    gc.collect()
    before = torch._C.live_counts()[0]
    for _ in range(6):
        compiled(torch.ones(100))
    gc.collect()
    first = torch._C.live_counts()[0]
    for _ in range(6):
        compiled(torch.ones(100))
    assert torch._C.live_counts()[0] == first
    del compiled
    gc.collect()
    assert torch._C.live_counts()[0] == before


def test_a_capture_holds_no_more_than_the_calls_do():
    def chain(x):
        for _ in range(40):
            x = x + 1
        return x

    x = torch.zeros(1 << 18)  # a megabyte
    compiled = torch.compile(chain)
    for each in (chain, compiled, compiled):
        torch.reset_peak_memory_stats()
        before = torch.memory_stats()["live_bytes"]
        each(x)
        assert torch.memory_stats()["peak_bytes"] - before < 8 << 20


def test_a_model_and_its_compiled_step_are_collected_together():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(2, 2)
            self.step = torch.compile(self.run)

        def run(self, x):
            self.zero_grad()
            loss = self.layer(x).sum()
            loss.backward()
            return loss.detach()

    model = Model()
    for _ in range(5):
        model.step(torch.ones(3, 2))
    assert traces_of(model.step) == 1
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None


def test_copies_and_pickles():
    compiled = torch.compile(double)
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(compiled)
    assert copy.deepcopy(compiled)(torch.ones(())).item() == 2


# ---- telling


def test_reset():
    compiled = torch.compile(double)
    for _ in range(3):
        compiled(torch.ones(2))
    assert traces_of(compiled) == 1, torch.compiler.explain(compiled)
    torch.compiler.reset()
    assert traces_of(compiled) == 0
    for _ in range(3):
        compiled(torch.ones(2))
    torch._dynamo.reset()
    assert traces_of(compiled) == 0 and not torch.compiler.is_compiling()


def test_explain():
    model = nn.Linear(2, 2)
    optimizer = torch.optim.Adam(model.parameters())

    @torch.compile
    def step(x):
        optimizer.zero_grad()
        model(x).square().sum().backward()
        optimizer.step()

    for _ in range(5):
        step(torch.ones(3, 2))
    told = torch.compiler.explain(step)
    (trace,) = told.traces
    assert "adam_step" in trace.calls and "lr of a group of an optimizer" in trace.lifted
    assert (
        trace.arena_bytes > 0 and trace.made_bytes > 0 and len(trace.calls) < trace.calls_captured
    )
    assert "1 traces" in str(told) and "read anew: lr" in str(told)
    with pytest.raises(TypeError, match="expected what compile"):
        torch.compiler.explain(double)


def test_why_a_function_was_captured_again():
    factor = [2.0]
    compiled = torch.compile(lambda x: x * factor[0])
    for i in range(9):
        if i == 3:
            factor[0] = 3.0
        compiled(torch.ones(2 if i < 6 else 3))
    told = torch.compiler.explain(compiled)
    assert told.misses["factor is not what it was"] == 2
    assert "times no trace held: argument 0 was float32[2]" in str(told)


def test_forward_of_a_module_that_is_replaced_by_a_compiled_one():
    model = nn.Linear(2, 2).requires_grad_(False)
    expected = model(torch.ones(2))
    model.forward = torch.compile(model.forward)
    for _ in range(5):
        assert torch.equal(model(torch.ones(2)), expected)
    assert traces_of(model.forward) == 1
    outer = torch.compile(nn.Sequential(torch.compile(model), nn.ReLU()))
    for _ in range(5):
        assert torch.equal(outer(torch.ones(2)), expected.relu())
    assert traces_of(outer) == 1


def test_very_long_lists_run_eagerly():
    numbers = [1.0] * 100_000
    compiled = torch.compile(lambda x: x * numbers[5])
    for i in range(4):
        numbers[5] = float(i)
        assert compiled(torch.ones(())).item() == i
    assert "takes too long" in str(torch.compiler.explain(compiled))


def test_verify_compares_every_call():
    weight = torch.ones(2)
    compiled = torch.compile(lambda x: x * weight + 1, verify=True)
    for value in range(6):
        assert compiled(torch.full((2,), float(value))).tolist() == [value + 1.0] * 2
    assert traces_of(compiled) == 1, torch.compiler.explain(compiled)


HIDDEN = [0]


def counting(x):
    HIDDEN[0] += 1
    return (x * 2).sin() if HIDDEN[0] < 4 else (x * 2).cos()


def test_verify_names_the_first_op_that_differs():
    """Code of the library is not followed: made to look so, this one changes unseen."""
    code = counting.__code__
    counting.__code__ = code.replace(co_filename=torch.nn.functional.__file__)
    compiled = torch.compile(lambda x: counting(x), verify=True)
    for _ in range(3):
        compiled(torch.ones(2))
    assert traces_of(compiled) == 1, torch.compiler.explain(compiled)
    with pytest.raises(RuntimeError, match="from step 1 on, sin here, cos now"):
        compiled(torch.ones(2))
    counting.__code__ = code


def test_results_are_equal_in_every_way():
    compiled = torch.compile(lambda x: {"a": (x * 2, [x.t()]), "b": 1})
    x = torch.ones(2, 3)
    for _ in range(4):
        assert same({"a": (x * 2, [x.t()]), "b": 1}, compiled(x))


# ---- what programs write around compile


def test_a_compiled_module_stands_for_the_module():
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5))
    for compiled in (torch.compile(model), torch.compile(model, backend="eager")):
        model.train()
        assert compiled.training and len(compiled) == 2 and compiled
        model.eval()
        assert not compiled.training
        compiled.training = True
        assert model.training and compiled.training and "training" not in vars(compiled)
        assert list(compiled.state_dict()) == ["_orig_mod.0.weight", "_orig_mod.0.bias"]
        for twin in (copy.deepcopy(compiled), pickle.loads(pickle.dumps(compiled))):
            assert type(twin) is type(compiled) and twin._orig_mod is not model
            twin.eval()
            assert model.training
            with torch.no_grad():
                model.eval()
                assert torch.equal(twin(torch.ones(1, 2)), model(torch.ones(1, 2)))
                model.train()
    with pytest.raises(TypeError, match=r"Linear does not support len\(\)"):
        len(torch.compile(model[0]))


def test_a_module_that_is_compiled_in_place():
    model, calls = nn.Sequential(nn.Linear(2, 2), nn.ReLU()), []
    expected = model(torch.ones(2))
    model.compile(fullgraph=True)
    with torch.no_grad():
        for _ in range(4):
            assert torch.equal(model(torch.ones(2)), expected)
        assert traces_of(model._compiled_call_impl) == 1
        twin = pickle.loads(pickle.dumps(model))
        assert torch.equal(twin(torch.ones(2)), expected) and twin._compiled_call_impl is None
        assert list(model.state_dict()) == ["0.weight", "0.bias"]
        model.register_forward_hook(lambda module, args, output: output * 2)
        for _ in range(4):
            assert torch.equal(model(torch.ones(2)), expected * 2)
        model.register_forward_hook(lambda module, args, output: calls.append(1))
        model._compiled_call_impl = None
        model(torch.ones(2))
    assert calls == [1]


def test_a_class_whose_calls_are_compiled():
    @torch.compile
    class Scale:
        factor = 2.0

        def __call__(self, x):
            return x * self.factor

    @torch.compile(fullgraph=True)
    class Layer(nn.Module):
        def forward(self, x):
            return x * 3

    @torch.compile
    class Holder:
        value = 1

    assert all(isinstance(each, type) for each in (Scale, Layer, Holder))
    assert isinstance(Layer(), Layer) and Holder().value == 1 and not callable(Holder())
    scale, layer = Scale(), Layer()
    for factor in (2.0, 5.0):
        scale.factor = factor
        for _ in range(4):
            assert scale(torch.ones(())).item() == factor
            assert layer(torch.ones(())).item() == 3
    assert traces_of(Scale.__call__) == 2 and traces_of(Layer.__call__) == 1


def test_fullgraph_lets_a_first_call_make_state():
    model = nn.Linear(2, 1)
    optimizer = torch.optim.Adam(model.parameters())
    calls = []

    @torch.compile(fullgraph=True)
    def step(x):
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()

    for _ in range(5):
        step(torch.ones(2))
    assert traces_of(step) == 1
    counting = torch.compile(lambda x: calls.append(x.shape), fullgraph=True)
    counting(torch.ones(2))
    with pytest.raises(RuntimeError, match="it changes calls"):
        counting(torch.ones(2))


def test_other_arguments_of_compile():
    compiled = torch.compile(
        double, name="double", backend=None, recompile_limit=2, isolate_recompiles=True
    )
    for size in (1, 2, 3):
        for _ in range(3):
            assert compiled(torch.ones(size)).tolist() == [2.0] * size
    assert traces_of(compiled) == 2
    with pytest.raises(NotImplementedError, match="shapes_spec"):
        torch.compile(double, shapes_spec={})


def test_stances():
    calls, weight, scale = [], torch.ones(2), [2.0]
    compiled = torch.compile(lambda x: x * weight * scale[0])
    x = torch.ones(2)
    with torch.compiler.set_stance("force_eager"):
        for _ in range(4):
            compiled(x)
    assert traces_of(compiled) == 0
    with torch.compiler.set_stance("fail_on_recompile"):
        for _ in range(4):
            assert compiled(x).tolist() == [2.0, 2.0]
        assert traces_of(compiled) == 1
        with pytest.raises(RuntimeError, match=r"fail_on_recompile.*other arguments"):
            compiled(torch.ones(3))
        scale[0] = 3.0
        with pytest.raises(RuntimeError, match="scale is not what it was"):
            compiled(x)
    with torch.compiler.set_stance("eager_on_recompile"):
        for _ in range(4):
            assert compiled(x).tolist() == [3.0, 3.0]
    assert traces_of(compiled) == 1

    @torch.compiler.set_stance("force_eager")
    def outer(x):
        calls.append(torch.compiler._stance.current())
        return compiled(x)

    torch.compiler.set_stance("eager_then_compile")
    for _ in range(4):
        assert outer(x).tolist() == compiled(x).tolist() == [3.0, 3.0]
    torch.compiler.set_stance()
    assert traces_of(compiled) == 2 and calls == ["force_eager"] * 4
    with torch.compiler.set_stance(force_backend="eager"):
        assert torch.compiler._stance.current() == "force_eager"
    assert torch.compiler._stance.current() == "default"
    with pytest.raises(RuntimeError, match=r"expected stance to be one of .*'fast'"):
        torch.compiler.set_stance("fast")
    with pytest.raises(RuntimeError, match="cannot have force_backend"):
        torch.compiler.set_stance("force_eager", force_backend="inductor")
    sets = torch.compile(lambda x: (torch.compiler.set_stance("default"), x * 2)[1])
    for _ in range(4):
        sets(x)
    assert "effects" in str(torch.compiler.explain(sets))
