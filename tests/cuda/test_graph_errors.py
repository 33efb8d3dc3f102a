"""What a CUDA graph cannot hold is refused with the op and the line, and everything goes on."""

import inspect
import re
import threading

import pytest
from library import torch

from .conftest import DEVICE
from .test_graphs import Training, adamw, capture

cuda, nn, F = torch.cuda, torch.nn, torch.nn.functional


def here(offset=0):
    """Return a pattern for a line of the caller."""
    frame = inspect.currentframe().f_back
    return re.escape(f"test_graph_errors.py:{frame.f_lineno + offset}")


def assert_works():
    """See that streams, the allocator, generators and captures work as if nothing had happened."""
    assert not cuda.is_current_stream_capturing()
    assert cuda.current_stream() == cuda.default_stream()
    cuda.synchronize()
    x = torch.arange(5.0, device="cuda")
    assert (x * 2).tolist() == [0, 2, 4, 6, 8]
    torch.manual_seed(1)
    drawn = torch.rand(3, device="cuda").tolist()
    g, y = capture(lambda: x + torch.rand(5, device="cuda") * 0)
    g.replay()
    assert y.tolist() == x.tolist()
    torch.manual_seed(1)
    assert torch.rand(3, device="cuda").tolist() == drawn


REFUSED = {
    "item": (lambda x: x.sum().item(), "item .*the host cannot wait for values"),
    "if": (lambda x: bool(x.sum() > 0), "item .*the host cannot wait for values"),
    "tolist": (lambda x: x.tolist(), "item .*tolist.*the host cannot wait for values"),
    "cpu": (lambda x: x.cpu(), "cpu.*the host cannot wait for values"),
    "print": (repr, "the host cannot wait for values"),
    "nonzero": (lambda x: x.nonzero(), "count_mask: the host cannot wait for values"),
    "mask": (lambda x: x[x > 1], "count_mask: the host cannot wait for values"),
    "unique": (lambda x: x.unique(), "run_numbers: the host cannot wait for values"),
    "tensor": (lambda x: torch.tensor(1.0, device="cuda"), "ordinary memory of the host"),
    "list": (lambda x: x[[0, 2]], "ordinary memory of the host"),
    "copy_": (lambda x: x.copy_(torch.ones(6)), "ordinary memory of the host"),
    "pinned": (
        lambda x: x.copy_(torch.ones(6).pin_memory()),
        "ordinary memory of the host",
    ),
    "device": (lambda x: cuda.synchronize(), r"cuda\.synchronize: the host cannot wait"),
    "stream": (
        lambda x: cuda.current_stream().synchronize(),
        r"Stream\.synchronize: the host cannot wait",
    ),
    "query": (lambda x: cuda.current_stream().query(), r"Stream\.query: a captured stream"),
    "event": (
        lambda x: cuda.current_stream().record_event().synchronize(),
        r"Event\.synchronize: the host cannot wait",
    ),
    "passed": (
        lambda x: cuda.current_stream().record_event().query(),
        r"Event\.query: a captured event",
    ),
    "outside": (
        lambda x: cuda.current_stream().wait_stream(cuda.default_stream()),
        "wait: a captured stream cannot wait for work that is not part of the graph",
    ),
    "default": (
        lambda x: cuda.default_stream().wait_stream(cuda.current_stream()),
        "wait: the default stream cannot wait for a captured one",
    ),
    "randperm": (lambda x: torch.randperm(5, device="cuda"), "randperm: the host makes"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_captured(case):
    x = torch.arange(6.0, device="cuda")
    function, text = REFUSED[case]
    g = cuda.CUDAGraph()
    with (
        pytest.raises(
            RuntimeError, match=f"(?s){text}.*while a CUDA graph is captured.*test_graph"
        ),
        cuda.graph(g),
    ):
        y = x * 2
        function(y)
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        g.replay()
    assert_works()
    with cuda.graph(g):  # the graph itself can be used as well
        y = x * 3
    g.replay()
    assert y.tolist() == (x * 3).tolist()


def test_the_line_of_an_error():
    x = torch.ones(3, device="cuda")
    with (
        pytest.raises(RuntimeError, match=here(4) + ", in test_the_line_of_an_error"),
        cuda.graph(cuda.CUDAGraph()),
    ):
        y = x * 2
        y.sum().item()


def test_an_error_that_is_caught_leaves_the_capture_whole():
    x = torch.ones(3, device="cuda")
    g = cuda.CUDAGraph()
    with cuda.graph(g):
        y = x * 2
        with pytest.raises(RuntimeError, match="the host cannot wait"):
            y.sum().item()
        z = y + 1
    g.replay()
    assert z.tolist() == [3.0] * 3


def test_other_graphs_while_one_is_captured():
    """One may go, and one may run, on a stream that is not captured."""
    x = torch.ones(3, device="cuda")
    old, _ = capture(lambda: x * 2)
    running, y = capture(lambda: x * 3)
    g, s = cuda.CUDAGraph(), cuda.Stream()
    with cuda.graph(g):
        z = x * 4
        with pytest.raises(RuntimeError, match="cannot be replayed into another one"):
            running.replay()
        del old
        with cuda.stream(s):
            running.replay()
        w = z + 1
    s.synchronize()
    assert y.tolist() == [3.0] * 3
    g.replay()
    assert w.tolist() == [5.0] * 3


def test_exceptions_of_the_program():
    x = torch.ones(3, device="cuda")
    for error in (KeyError, KeyboardInterrupt):
        with pytest.raises(error), cuda.graph(cuda.CUDAGraph()):
            y = (x * 2).requires_grad_()
            (y * y).sum().backward()
            raise error
    assert_works()
    with pytest.raises(RuntimeError, match="size of tensor"), cuda.graph(cuda.CUDAGraph()):
        x + torch.ones(4, device="cuda")
    assert_works()


def test_a_graph_that_is_dropped_while_it_is_captured():
    s = cuda.Stream()
    with cuda.stream(s):
        g = cuda.CUDAGraph()
        g.capture_begin()
        torch.ones(3, device="cuda")
        del g
    assert_works()
    with cuda.stream(s):
        g = cuda.CUDAGraph()
        g.capture_begin()
        torch.ones(3, device="cuda")
        g.reset()
    assert_works()


def test_a_stream_that_is_not_joined():
    s = cuda.Stream()
    with pytest.raises(RuntimeError, match="UNJOINED"), cuda.graph(cuda.CUDAGraph()):
        s.wait_stream(cuda.current_stream())
        with cuda.stream(s):
            torch.ones(3, device="cuda")
    assert_works()


def test_backward_of_what_was_recorded_before():
    x = torch.ones(3, device="cuda", requires_grad=True)
    y = (x * x).sum()
    with (
        pytest.raises(RuntimeError, match="record all that backward\\(\\) is called on within"),
        cuda.graph(cuda.CUDAGraph()),
    ):
        y.backward()
    assert_works()


# ---- kernels that report errors


def test_errors_of_kernels_are_told_at_each_replay():
    table, index = torch.ones(5, 2, device="cuda"), torch.tensor([1, 2], device="cuda")

    def look():
        return F.embedding(index, table)

    line = re.escape(f"test_graph_errors.py:{inspect.getsourcelines(look)[1] + 1}")
    g, y = capture(look)
    g.replay()
    cuda.synchronize()
    for _ in range(40):  # other calls get numbers meanwhile
        F.embedding(index, table)
    for wrong in (7, -1):
        index.fill_(wrong)
        g.replay()
        with pytest.raises(
            IndexError, match=rf"index {wrong} is out of bounds.*launched at .*{line}"
        ):
            cuda.synchronize()
        index.fill_(1)
        g.replay()
        cuda.synchronize()
    assert y.tolist() == [[1.0, 1.0]] * 2
    for _ in range(3):  # numbers of graphs that are gone are used again
        del g
        g, y = capture(look)
        index.fill_(9)
        g.replay()
        with pytest.raises(IndexError, match="index 9"):
            cuda.synchronize()
        index.fill_(0)


# ---- optimizers


def test_optimizers_that_count_on_the_host():
    for make, text in (
        (torch.optim.Adam, "Attempting CUDA graph capture of step.. for an instance of Adam but"),
        (torch.optim.AdamW, "param_groups' capturable is False"),
        (torch.optim.RMSprop, "param_groups' capturable is False"),
        (torch.optim.Adagrad, "adagrad_step: steps cannot be counted on the host"),
        (torch.optim.Adafactor, "steps are counted on the host"),
    ):
        training = Training("mlp", make, clip=False)
        training.step()
        with pytest.raises(RuntimeError, match=text):
            capture(training.step)
        training.step()
    assert_works()


def test_state_that_would_be_made_anew():
    for make in (adamw, lambda p: torch.optim.SGD(p, momentum=0.9)):
        training = Training("mlp", make)
        with pytest.raises(RuntimeError, match="take a step before the capture"):
            capture(training.step)
        training.step()
        capture(training.step)
    scaler = torch.amp.GradScaler()
    x = torch.ones((), device="cuda", requires_grad=True)
    with pytest.raises(RuntimeError, match="run an iteration before the capture"):
        capture(lambda: scaler.scale(x))


def test_options_on_the_cpu():
    training = Training("mlp", lambda p: torch.optim.Adam(p, lr=torch.tensor(0.1), capturable=True))
    training.step()
    with pytest.raises(RuntimeError, match="Adam: lr is a tensor on the CPU"):
        capture(training.step)


def test_codes_of_saved_values():
    w = torch.linspace(0, 1, 4096, device="cuda").requires_grad_()

    def step():
        with torch.tape.compress():
            y = (w * 2).sin().cos()
        y.sum().backward()

    step()
    with pytest.raises(RuntimeError, match="the host cannot wait for values"):
        capture(step)
    assert_works()
    step()


def test_a_scaler_that_has_to_look():
    training = Training("mlp", lambda p: torch.optim.SGD(p), scaler=torch.amp.GradScaler())
    training.step()
    with pytest.raises(RuntimeError, match="the host cannot wait"):
        capture(training.step)


# ---- the driver


def test_other_threads_go_on_meanwhile():
    """Their work is not captured, and what they ask the driver for does not end the capture."""
    x, results = torch.ones(3, device="cuda"), []
    began, ended = threading.Event(), threading.Event()

    def work():
        began.wait()
        try:
            big = torch.ones(6 << 20, device="cuda")  # a segment of its own
            results.append((big + 1).sum().item())
            del big
            cuda.empty_cache()
            results.append(torch.ones(3).pin_memory()[0].item())
        except RuntimeError as error:
            results.append(error)
        ended.set()

    thread = threading.Thread(target=work)
    thread.start()
    g = cuda.CUDAGraph()
    with cuda.graph(g):
        y = x + 1
        began.set()
        assert ended.wait(60)
        z = y * 2
    thread.join()
    assert results == [12582912.0, 1.0]
    g.replay()
    assert z.tolist() == [4.0] * 3


def test_a_capture_that_the_driver_ends(emulator):
    """Another library may do what is not allowed behind our back."""
    import ctypes
    import os

    driver = ctypes.CDLL(os.environ["TAPEGRAD_CUDA_DRIVER"])
    x = torch.ones(3, device="cuda")
    with (
        pytest.raises(RuntimeError, match="the capture was ended by a call of the driver"),
        cuda.graph(cuda.CUDAGraph()),
    ):
        x * 2
        assert driver.cuCtxSynchronize() == 900
    assert_works()
    with (
        pytest.raises(RuntimeError, match="STREAM_CAPTURE_INVALIDATED"),
        cuda.graph(cuda.CUDAGraph()),
    ):
        driver.cuCtxSynchronize()
        x * 2
    assert_works()


def test_kernels_are_compiled_while_a_graph_is_captured():
    x = torch.arange(6.0, device="cuda").view(2, 3)
    g, y = capture(lambda: torch.erfinv(x / 17).atan2(x.t().contiguous().t() + 1.25))
    g.replay()
    assert torch.equal(y, torch.erfinv(x / 17).atan2(x.t().contiguous().t() + 1.25))
    assert DEVICE
