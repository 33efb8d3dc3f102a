"""The source line of an entry, as CPython's public calls would give it."""

import _thread
import functools
import itertools
import operator
import sys
import sysconfig
import threading
import time
import weakref
from pathlib import Path

import pytest
from library import IS_TORCH, torch

if IS_TORCH:
    pytest.skip("tapegrad's own lines", allow_module_level=True)

_C = torch._C
PACKAGE = str(Path(torch.__file__).parent)
FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))


def check(expected_name, line):
    """The line taken is the one that CPython's calls give, and that of the function named."""
    taken, public = line
    assert taken == public
    code, offset = taken
    assert code.co_name == expected_name
    assert 0 <= offset < len(code.co_code)
    return True


def last_entry(tensor):
    *_, last = torch.tape.of(tensor)
    return last


@pytest.mark.skipif(
    FREE_THREADED or sys.version_info >= (3, 15),
    reason="frames are read by the public calls there",
)
def test_frames_are_read_directly():
    assert _C._reads_frames_directly()


def test_a_function():
    def function():
        return _C._running_line()

    check("function", function())


def test_every_line_of_a_function_is_told_apart():
    def function():
        first = _C._running_line()
        second = _C._running_line()
        return first, second

    first, second = function()
    assert check("function", first) and check("function", second)
    assert first[0][1] < second[0][1]


def test_the_text_names_the_line_of_the_call():
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    here = sys._getframe().f_lineno - 1
    entry = last_entry(y)
    assert (entry.file, entry.line_number) == (__file__, here)
    assert entry.function == "test_the_text_names_the_line_of_the_call"


def test_comprehensions_and_lambdas():
    inside = "test_comprehensions_and_lambdas"
    lines = [_C._running_line() for _ in range(2)]
    for line in lines:
        # From 3.12 on, a list comprehension runs in the frame around it.
        check(inside if sys.version_info >= (3, 12) else "<listcomp>", line)
    check("<lambda>", (lambda: _C._running_line())())
    check("<genexpr>", next(_C._running_line() for _ in range(1)))


def test_generators_and_coroutines():
    def generator():
        yield _C._running_line()
        yield from inner()

    def inner():
        yield _C._running_line()

    async def coroutine():
        return _C._running_line()

    first, second = generator()
    assert check("generator", first) and check("inner", second)
    with pytest.raises(StopIteration) as stopped:
        coroutine().send(None)
    check("coroutine", stopped.value.value)


def test_code_that_was_made_at_run_time():
    scope = {"line": _C._running_line}
    exec("result = line()", scope)
    check("<module>", scope["result"])
    exec("class Body:\n    result = line()", scope)
    check("Body", scope["Body"].result)
    check("<module>", eval("line()", scope))


class Operand:
    def __init__(self):
        self.lines = []

    def __add__(self, other):
        self.lines.append(_C._running_line())
        return self

    def __lt__(self, other):
        self.lines.append(_C._running_line())
        return False


def test_python_that_c_calls():
    operand = Operand()
    operator.add(operand, 1)
    functools.reduce(operator.add, [operand, 1, 2])
    sorted([operand, operand])
    for line, name in zip(operand.lines, ["__add__", "__add__", "__add__", "__lt__"], strict=True):
        check(name, line)


def test_c_that_c_calls_runs_on_the_line_of_the_python_around_it():
    def function():
        return list(map(lambda *_: None, [])), functools.partial(_C._running_line)()

    check("function", function()[1])


def test_a_finalizer_runs_on_its_own_line():
    lines = []

    class Finalized:
        def __del__(self):
            lines.append(_C._running_line())

    Finalized()
    check("__del__", lines[0])
    owner = Operand()
    weakref.finalize(owner, lambda: lines.append(_C._running_line()))
    del owner
    check("<lambda>", lines[1])


def test_frames_of_the_library_are_skipped():
    class Layer(torch.nn.Module):
        def forward(self, x):
            return x * 2

    model = torch.nn.Sequential(Layer(), torch.nn.Softplus())
    seen = []
    model.register_forward_hook(lambda *_: seen.append(_C._running_line()))
    y = model(torch.ones(2, requires_grad=True))
    check("<lambda>", seen[0])
    functions = {entry.op: entry.function for entry in torch.tape.of(y)}
    assert functions["mul"] == "forward"
    # Softplus is the library's; what called the model is not.
    assert functions["softplus"] == "test_frames_of_the_library_are_skipped"


def test_a_shim_between_frames_of_the_library_and_the_user_is_skipped():
    # C calls the library's Python here, so that 3.12 and later have a shim in between.
    function = torch.nn.functional.cosine_embedding_loss
    assert function.__code__.co_filename.startswith(PACKAGE)
    x = torch.ones(2, 3, requires_grad=True)
    y = next(map(function, [x], [torch.zeros(2, 3)], [torch.ones(2)]))
    functions = {entry.function for entry in torch.tape.of(y)}
    assert functions == {"test_a_shim_between_frames_of_the_library_and_the_user_is_skipped"}


def test_a_thread_without_any_frame():
    # The thread runs nothing but native functions.
    results = []
    calls = itertools.starmap(_C._running_line, [()])
    x = torch.ones(2, requires_grad=True)
    products = map(operator.mul, [x], [x])
    _thread.start_new_thread(results.extend, (itertools.chain(calls, products),))
    deadline = time.monotonic() + 60
    while len(results) < 2 and time.monotonic() < deadline:
        time.sleep(0.001)
    line, product = results
    assert line == (None, None)
    assert last_entry(product).where == "unknown line"


def test_each_thread_has_its_own_frames():
    results = []

    def worker():
        results.append(_C._running_line())

    threads = [threading.Thread(target=worker) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    for line in results:
        check("worker", line)


def test_while_tracing_and_profiling():
    def function():
        return _C._running_line()

    traced = []
    before = sys.gettrace(), sys.getprofile()
    sys.settrace(lambda frame, event, arg: traced.append(event))
    sys.setprofile(lambda frame, event, arg: None)
    try:
        line = function()
    finally:
        sys.settrace(before[0])
        sys.setprofile(before[1])
    assert traced
    check("function", line)
