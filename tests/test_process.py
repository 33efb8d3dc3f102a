"""What a call may never do to the process: end it, hang it, or show it the C++ runtime's texts."""

import resource
import signal
import subprocess
import sys
import textwrap

import pytest
from library import IS_SANITIZED, IS_TORCH, torch

pytestmark = pytest.mark.skipif(IS_TORCH, reason="about tapegrad's own promises")


def run_script(script, tmp_path, seconds=60, stack=None):
    """Run a script in a process of its own and return what it printed; it must end well."""

    def limit():
        if stack:
            resource.setrlimit(resource.RLIMIT_STACK, (stack, stack))

    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=seconds,
        cwd=tmp_path,
        preexec_fn=limit,
        check=False,
    )
    assert done.returncode == 0, f"exit code {done.returncode}\n{done.stderr[-2000:]}"
    errors = done.stderr.splitlines()
    if IS_SANITIZED:  # The sanitizer tells of memory that it could not get, which may be the test.
        errors = [line for line in errors if "AddressSanitizer failed to allocate" not in line]
    assert errors == []
    return done.stdout


# ---- the end of the interpreter ----------------------------------------------------------------

START_DAEMONS = """
import threading, time, tapegrad as torch
started = threading.Barrier(4)
def forever(body):
    body()
    started.wait()
    while True:
        body()
def run(body):
    for _ in range(3):
        threading.Thread(target=forever, args=(body,), daemon=True).start()
    started.wait()
    time.sleep(DELAY)
"""

DAEMONS = {
    "products": """
        x = torch.rand(300, 300)
        run(lambda: x @ x)
    """,
    "kernels_on_the_pool": """
        x = torch.rand(400_000)
        run(lambda: (x.exp().sort(), x.cumsum(0), x.softmax(0), x.sum()))
    """,
    "backward_with_a_hook": """
        def body():
            x = torch.rand(1000, requires_grad=True)
            y = x.exp()
            y.register_hook(lambda g: sum(range(3000)) and g)
            x.register_post_accumulate_grad_hook(lambda p: sum(range(3000)) and None)
            y.sum().backward()
        run(body)
    """,
    "function_backward": """
        class F(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2
            @staticmethod
            def backward(ctx, g):
                sum(range(3000))
                return g * 2
        run(lambda: F.apply(torch.rand(1000, requires_grad=True)).sum().backward())
    """,
    "saved_tensor_hooks": """
        def body():
            with torch.autograd.graph.saved_tensors_hooks(
                lambda x: (sum(range(3000)), x)[1], lambda x: (sum(range(3000)), x)[1]
            ):
                torch.rand(1000, requires_grad=True).exp().sum().backward()
        run(body)
    """,
    "checkpoint": """
        from tapegrad.utils.checkpoint import checkpoint
        def body():
            x = torch.rand(50_000, requires_grad=True)
            checkpoint(lambda x: x.exp().sin(), x, use_reentrant=False).sum().backward()
        run(body)
    """,
    "data_loader": """
        data = torch.utils.data.TensorDataset(torch.rand(64, 3))
        run(lambda: list(torch.utils.data.DataLoader(data, batch_size=4)))
    """,
}


@pytest.mark.parametrize("name", DAEMONS)
def test_daemon_threads_at_interpreter_exit(name, tmp_path):
    """The interpreter ends its daemon threads wherever they are: inside ops and sweeps too."""
    for delay in (0, 0.003, 0.01, 0.03, 0.05):
        start = START_DAEMONS.replace("DELAY", str(delay))
        run_script(start + textwrap.dedent(DAEMONS[name]), tmp_path)


def test_offload_threads_at_interpreter_exit(tmp_path):
    """The threads that write saved values to disk are still busy when the program ends."""
    script = """
        import tapegrad as torch
        from tapegrad import tape
        with tape.offload("disk"):
            x = torch.rand(400, 400, requires_grad=True)
            y = x
            for _ in range(20):
                y = (y @ x).tanh()
    """
    for _ in range(3):
        run_script(script, tmp_path)


# ---- small stacks ------------------------------------------------------------------------------

ENDLESS = {
    "tensor_hook": """
        @torch.enable_grad()
        def once():
            x = torch.ones(2, requires_grad=True)
            y = x * 2
            y.register_hook(lambda g: once())
            y.sum().backward()
    """,
    "node_hook": """
        @torch.enable_grad()
        def once():
            y = torch.ones(2, requires_grad=True) * 2
            y.grad_fn.register_hook(lambda a, b: once())
            y.sum().backward()
    """,
    "node_pre_hook": """
        @torch.enable_grad()
        def once():
            y = torch.ones(2, requires_grad=True) * 2
            y.grad_fn.register_prehook(lambda a: once())
            y.sum().backward()
    """,
    "accumulate_hook": """
        @torch.enable_grad()
        def once():
            x = torch.ones(2, requires_grad=True)
            x.register_post_accumulate_grad_hook(lambda p: once())
            (x * 2).sum().backward()
    """,
    "function_backward": """
        class F(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2
            @staticmethod
            def backward(ctx, g):
                once()
                return g
        @torch.enable_grad()
        def once():
            F.apply(torch.ones(2, requires_grad=True)).sum().backward()
    """,
    "unpack_hook": """
        @torch.enable_grad()
        def once():
            def unpack(x):
                once()
                return x
            with torch.autograd.graph.saved_tensors_hooks(lambda x: x, unpack):
                y = torch.ones(2, requires_grad=True).exp()
            y.sum().backward()
    """,
    "pack_hook": """
        @torch.enable_grad()
        def once():
            def pack(x):
                once()
                return x
            with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
                torch.ones(2, requires_grad=True).exp()
    """,
}

RAISES_RECURSION_ERROR = """
import sys, threading, tapegrad as torch
{definitions}
def check():
    try:
        once()
    except RecursionError:
        print("RecursionError")
if {threaded}:
    threading.stack_size({stack})
    thread = threading.Thread(target=check)
    thread.start()
    thread.join()
else:
    check()
x = torch.ones(3, requires_grad=True)
x.exp().sum().backward()
print(x.grad.shape[0])
"""


@pytest.mark.skipif(IS_SANITIZED, reason="the sanitizers' frames are several times as large")
@pytest.mark.parametrize("threaded", [False, True], ids=["ulimit", "thread"])
@pytest.mark.parametrize("name", ENDLESS)
def test_endless_reentrant_backward_is_a_recursion_error(name, threaded, tmp_path):
    stack = 512 << 10
    script = RAISES_RECURSION_ERROR.format(
        definitions=textwrap.dedent(ENDLESS[name]), threaded=threaded, stack=stack
    )
    limit = None if threaded else stack
    assert run_script(script, tmp_path, stack=limit).split() == ["RecursionError", "3"]


def test_endless_reentrant_backward_without_a_limit_of_python(tmp_path):
    """Python's own count is out of the way: the stack decides."""
    script = "import sys\nsys.setrecursionlimit(10**6)\n" + RAISES_RECURSION_ERROR.format(
        definitions=textwrap.dedent(ENDLESS["tensor_hook"]), threaded=False, stack=0
    )
    assert run_script(script, tmp_path).split() == ["RecursionError", "3"]


# ---- requests without bound --------------------------------------------------------------------

UNBOUNDED = [
    "torch.tensor_split(torch.ones(3), 10**30)",
    "torch.tensor_split(torch.ones(3), 2**62)",
    "torch.tensor_split(torch.ones(3), sections=2**40)",
    "torch.hsplit(torch.ones(0), 2**40)",
    "torch.vsplit(torch.ones(0, 2), 2**40)",
    "torch.unbind(torch.empty(0, 2**40), 1)",
    "list(torch.empty(2**40, 0))",
    "torch.chunk(torch.empty(0), 2**40)",
    "torch.split(torch.empty(0, 2**40), 1, dim=1)",
    "torch.empty(2**40, 0).tolist()",
    "torch.nn.Sequential(torch.nn.ReLU()) * 10**30",
    "torch.nn.TransformerEncoder(torch.nn.Linear(2, 2), 2**40)",
    "torch.nn.LSTM(2, 2, num_layers=2**40)",
]


@pytest.mark.parametrize("call", UNBOUNDED)
def test_what_cannot_be_made_is_refused(call, tmp_path):
    """At once, and in words: not when memory or patience has run out."""
    script = f"""
        import resource, tapegrad as torch
        resource.setrlimit(resource.RLIMIT_CPU, (10, 10))
        try:
            {call}
        except RuntimeError as error:
            print(error)
    """
    text = run_script(script, tmp_path)
    assert "does not fit into the memory of this machine" in text


def test_padding_of_a_size_that_no_memory_has(tmp_path):
    """Refused by the allocator, not after a list of as many places was made in Python."""
    script = """
        import resource, tapegrad as torch
        resource.setrlimit(resource.RLIMIT_CPU, (10, 10))
        try:
            torch.nn.functional.pad(torch.ones(2, 3), (-1, 10**13), "replicate")
        except torch.OutOfMemoryError as error:
            print("could not get" in str(error))
    """
    assert run_script(script, tmp_path).strip() == "True"


@pytest.mark.parametrize(
    "call",
    [
        "(torch.empty(2**40, 0) < 0).any()",
        "torch.isnan(torch.empty(2**40, 0)).sum()",
        "torch.nanmean(torch.empty(2**40, 0))",
        "torch.nn.functional.gaussian_nll_loss(*[torch.empty(2**40, 0)] * 3)",
        "torch.nn.init.sparse_(torch.empty(0, 2**40), 0.5)",
    ],
)
def test_nothing_takes_no_time(call, tmp_path):
    """A tensor without elements is not walked along its other dimensions."""
    script = f"""
        import resource, tapegrad as torch
        resource.setrlimit(resource.RLIMIT_CPU, (10, 10))
        {call}
    """
    run_script(script, tmp_path)


def test_signals_are_handled_while_many_views_are_made():
    """Ctrl-C reaches a loop that makes tensors: handlers run inside the call, not after it."""
    inside = []
    previous = signal.signal(signal.SIGALRM, lambda *_: inside.append(finished))
    finished = False
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
        parts = torch.empty(3_000_000).unbind()
        finished = True
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    assert len(parts) == 3_000_000
    # One may be handled between the call and the next statement.
    assert inside.count(False) > 1


# ---- texts of the C++ runtime ------------------------------------------------------------------


class TestNoTextOfTheCxxRuntime:
    @pytest.mark.parametrize("name", ["std", "var", "std_mean", "var_mean"])
    @pytest.mark.parametrize("bad", ["text", 2, (1,), 0.5])
    def test_unbiased(self, name, bad):
        with pytest.raises(TypeError, match=f"{name}: expected unbiased to be a bool, got"):
            getattr(torch, name)(torch.ones(2, 3), 0, bad)

    def test_dlpack_stream(self):
        with pytest.raises(TypeError, match="__dlpack__: expected stream to be an int or None"):
            torch.ones(2).__dlpack__(stream=torch.ones(2))
        with pytest.raises(ValueError, match="stream should be None on the CPU"):
            torch.ones(2).__dlpack__(stream=10**30)

    def test_to_copy(self):
        with pytest.raises(TypeError, match="expected copy to be a bool, got 'yes'"):
            torch.ones(2).to(torch.float32, copy="yes")

    @pytest.mark.parametrize(
        "call",
        [
            lambda: torch.ones(2).to("\ud800"),
            lambda: torch.ones(2, device="\ud800"),
            lambda: torch.ones(2, layout="\ud800"),
            lambda: torch.ones(2, **{"\ud800": 1}),
            lambda: torch.add(1, 2, **{"\ud800": 1}),
            lambda: torch.div(torch.ones(1), 2, rounding_mode="\ud800"),
            lambda: torch.norm(torch.ones(1), p="\ud800"),
        ],
    )
    def test_text_that_has_no_utf8(self, call):
        with pytest.raises((TypeError, RuntimeError)) as info:
            call()
        assert "std::" not in str(info.value) and "C++" not in str(info.value)
        assert r"\ud800" in str(info.value)

    def test_a_memory_format_that_has_no_utf8(self):
        with pytest.raises(TypeError, match=r"must be torch\.memory_format, not str"):
            torch.ones_like(torch.ones(1), memory_format="\ud800")
