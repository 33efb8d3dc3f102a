"""CUDA graphs: work of a device that is captured once, and then put into a stream by one call.

A capture writes down the kernels, copies and fills that are put into a stream, with the addresses
that they use, and runs none of them. `CUDAGraph.replay` runs them all, on the same memory: new
inputs are copied into the tensors that were captured, and results are read from those that the
capture gave. Random numbers are drawn anew in each replay, those that the program would have drawn.
"""

import gc
import warnings
from collections.abc import Callable
from typing import Any, ClassVar

import tapegrad
from tapegrad import _C
from tapegrad._C import Generator, Tensor
from tapegrad.cuda.devices import synchronize
from tapegrad.cuda.memory import empty_cache
from tapegrad.cuda.streams import Stream, current_stream, stream

__all__ = [
    "CUDAGraph",
    "graph",
    "graph_pool_handle",
    "is_current_stream_capturing",
    "make_graphed_callables",
]

Pool = tuple[int, int]


def is_current_stream_capturing() -> bool:
    """Return whether what is put into the current stream is captured in a CUDA graph."""
    return _C._cuda_is_capturing()


def graph_pool_handle() -> Pool:
    """Return a handle of a memory pool, for several graphs to share.

    Graphs that share a pool must be replayed in the order in which they were captured, and not at
    the same time: a later one may use the memory that an earlier one has finished with.
    """
    return _C._cuda_new_pool()


class CUDAGraph(_C._CudaGraph):
    """Work of a device that is captured, to be run again and again. `graph` captures it.

    Its memory is a pool of its own, which stays reserved as long as the graph lives. Tensors that
    were made before the capture must be kept by the program as long as they are used in replays.

    Args:
        keep_graph: keep what is captured, for `instantiate` and `raw_cuda_graph`.

    Example:
        >>> if torch.cuda.is_available():
        ...     x = torch.zeros(4, device="cuda")
        ...     g = torch.cuda.CUDAGraph()
        ...     with torch.cuda.graph(g):
        ...         y = x * 2
        ...     for number in (1.0, 2.0):
        ...         _ = x.copy_(torch.full((4,), number))
        ...         g.replay()
        ...         assert y.tolist() == [2 * number] * 4
    """

    def __init__(self, keep_graph: bool = False) -> None:
        super().__init__(keep_graph)
        self._generators: list[Generator] = []

    def capture_begin(self, pool: Pool | None = None, capture_error_mode: str = "global") -> None:
        """Begin to capture what is put into the current stream, which is not the default stream.

        Args:
            pool: the pool of another graph (`pool`) or a handle of `graph_pool_handle`; one of its
                own if left out.
            capture_error_mode: whose calls of the driver are refused meanwhile: those of all
                threads (``"global"``), of this one (``"thread_local"``) or nobody's
                (``"relaxed"``).
        """
        self._begin(pool, capture_error_mode)

    def capture_end(self) -> None:
        """End the capture. The graph can be replayed from now on."""
        self._end()
        if self._node_count == 0:
            warnings.warn(
                "The CUDA Graph is empty. This usually means that the graph was attempted to be "
                "captured on wrong device or stream.",
                stacklevel=2,
            )

    def register_generator_state(self, generator: Generator) -> None:
        """Let draws from a generator of one's own be new in each replay. Call before the capture.

        Args:
            generator: of the device; its default generator is known already.
        """
        self._register_generator(generator)
        self._generators.append(generator)


class graph:
    """Capture what a block puts into a stream.

    The block runs on a stream of its own, unless one is given. If it raises, the capture is ended,
    the graph is as it was before, and everything else goes on working.

    Args:
        cuda_graph: the graph that is captured into.
        pool: the pool of another graph or a handle of `graph_pool_handle`, to share memory.
        stream: the stream that is captured.
        capture_error_mode: as in `CUDAGraph.capture_begin`.
    """

    _streams: ClassVar[dict[int, Stream]] = {}  # by device

    def __init__(
        self,
        cuda_graph: CUDAGraph,
        pool: Pool | None = None,
        stream: Stream | None = None,
        capture_error_mode: str = "global",
    ) -> None:
        if stream is None:
            index = _C._cuda_current_device()
            if index not in graph._streams:
                graph._streams[index] = Stream(index)
            stream = graph._streams[index]
        self.cuda_graph = cuda_graph
        self.pool = pool
        self.capture_stream = stream
        self.capture_error_mode = capture_error_mode

    def __enter__(self) -> None:
        synchronize()
        gc.collect()  # what is freed now can be used by the graph, and is not freed meanwhile
        empty_cache()
        self._block = stream(self.capture_stream)
        self._block.__enter__()
        try:
            self.cuda_graph.capture_begin(self.pool, self.capture_error_mode)
        except BaseException:
            self._block.__exit__()
            raise

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        try:
            if kind is None:
                self.cuda_graph.capture_end()
            else:
                self.cuda_graph._abort()
        finally:
            if self.cuda_graph._is_capturing:
                self.cuda_graph._abort()
            self._block.__exit__()


# ---- callables


def make_graphed_callables(
    callables: Any,
    sample_args: Any,
    num_warmup_iters: int = 3,
    allow_unused_input: bool = False,
    pool: Pool | None = None,
) -> Any:
    """Return functions or modules whose forward and backward are replays of graphs.

    Each is run a few times, then its forward and its backward are captured. Later calls copy their
    arguments to where those of the capture were, and replay; the tape sees one entry for each.

    Args:
        callables: a function or module, or a tuple of them, in the order in which they will run.
        sample_args: a tuple of tensors for a callable, or a tuple of such tuples. Their shapes,
            dtypes and ``requires_grad`` are those of all later arguments.
        num_warmup_iters: how often each is run before it is captured.
        allow_unused_input: whether an input may have no gradient.
        pool: the memory pool, as in `graph`; one of its own if left out.

    Returns:
        The callables in their new form. Modules are changed and returned; they run graphs in the
        mode, training or not, in which they were captured, and their own forward in the other.

    Example:
        >>> if torch.cuda.is_available():
        ...     sample = torch.zeros(5, 3, device="cuda")
        ...     model = torch.cuda.make_graphed_callables(torch.nn.Linear(3, 2).cuda(), (sample,))
        ...     model(torch.ones(5, 3, device="cuda")).sum().backward()
        ...     assert model.bias.grad.tolist() == [5, 5]
    """
    if tapegrad.is_autocast_enabled("cuda") and tapegrad.is_autocast_cache_enabled():
        raise RuntimeError(
            "make_graphed_callables does not support the autocast caching. Please set "
            "`cache_enabled=False`."
        )
    is_one = not isinstance(callables, tuple)
    functions = (callables,) if is_one else callables
    samples = (sample_args,) if is_one else sample_args
    parts = [
        _Captured(function, args, allow_unused_input)
        for function, args in zip(functions, samples, strict=True)
    ]
    synchronize()
    side = Stream()
    side.wait_stream(current_stream())
    with stream(side):
        for part in parts:
            for _ in range(num_warmup_iters):
                part.run_once()
    current_stream().wait_stream(side)
    synchronize()
    pool = graph_pool_handle() if pool is None else pool
    for part in parts:
        part.capture_forward(pool)
    for part in reversed(parts):
        part.capture_backward(pool)
    graphed = tuple(part.finished() for part in parts)
    return graphed[0] if is_one else graphed


def _check_module(module: Any) -> None:
    """Refuse a module with hooks, or with buffers that are trained."""
    hooks = ("_backward_hooks", "_backward_pre_hooks", "_forward_hooks", "_forward_pre_hooks")
    if any(getattr(module, name) for name in hooks):
        raise RuntimeError(
            "Modules must not have hooks registered at the time they are passed. However, "
            "registering hooks on modules after passing them through make_graphed_callables is "
            "allowed."
        )
    if any(buffer.requires_grad for buffer in module.buffers()):
        raise RuntimeError(
            "In any :class:`~torch.nn.Module` passed to :func:`~make_graphed_callables`, only "
            "parameters may be trainable. All buffers must have ``requires_grad=False``."
        )


def _put(static: Tensor, given: Tensor) -> None:
    """Copy a tensor to where a graph reads it."""
    if static.shape != given.shape or static.dtype is not given.dtype:
        raise RuntimeError(
            f"make_graphed_callables: expected a tensor of shape {tuple(static.shape)} and dtype "
            f"{static.dtype}, as in the capture, got {tuple(given.shape)} and {given.dtype}"
        )
    if static.data_ptr() != given.data_ptr():
        static.detach().copy_(given)


class _Captured:
    """A callable, the graphs of its forward and backward, and the tensors that they use."""

    def __init__(self, function: Any, args: Any, allow_unused: bool) -> None:
        from tapegrad.nn import Module
        from tapegrad.utils._pytree import tree_flatten

        self.function = function
        self.args = args
        self.allow_unused = allow_unused
        self.params: tuple[Tensor, ...] = ()
        if isinstance(function, Module):
            _check_module(function)
            self.params = tuple(function.parameters())
        flat, self.structure = tree_flatten(tuple(args))
        if not all(isinstance(arg, Tensor) for arg in flat):
            raise TypeError(
                "In the beta API, sample_args for each callable must contain only Tensors. Other "
                "types are not allowed."
            )
        self.inputs: tuple[Tensor, ...] = (*flat, *self.params)
        self.arg_count = len(flat)
        self.outputs: list[Tensor] = []
        self.output_structure: Any = None
        self.grad_outputs: list[Tensor | None] = []
        self.grad_inputs: list[Tensor | None] = []
        self.forward_graph, self.backward_graph = CUDAGraph(), CUDAGraph()

    def _gradients(self, outputs: list[Tensor], grads: list[Tensor]) -> list[Tensor | None]:
        """Return the gradient of each input; None for those that want none."""
        wanted = [x for x in self.inputs if x.requires_grad]
        found = iter(
            tapegrad.autograd.grad(
                [y for y in outputs if y.requires_grad],
                wanted,
                grads,
                allow_unused=self.allow_unused,
            )
            if wanted
            else ()
        )
        return [next(found) if x.requires_grad else None for x in self.inputs]

    def run_once(self) -> None:
        """Run forward and backward as they are, so that everything is loaded and chosen."""
        from tapegrad.utils._pytree import tree_flatten

        outputs, _ = tree_flatten(self.function(*self.args))
        grads = [tapegrad.empty_like(y) for y in outputs if y.requires_grad]
        if grads:
            self._gradients(outputs, grads)

    def capture_forward(self, pool: Pool) -> None:
        from tapegrad.utils._pytree import tree_flatten

        with graph(self.forward_graph, pool):
            outputs = self.function(*self.args)
        self.outputs, self.output_structure = tree_flatten(outputs)

    def capture_backward(self, pool: Pool) -> None:
        self.grad_outputs = [
            tapegrad.empty_like(y) if y.requires_grad else None for y in self.outputs
        ]
        grads = [grad for grad in self.grad_outputs if grad is not None]
        self.grad_inputs = [None] * len(self.inputs)
        if not grads:
            return
        with graph(self.backward_graph, pool):
            self.grad_inputs = self._gradients(self.outputs, grads)

    def check_gradients(self, args: list[Tensor]) -> None:
        """Refuse an argument whose gradient was not captured."""
        for number, (static, given) in enumerate(zip(self.inputs, args, strict=False)):
            if given.requires_grad and not static.requires_grad:
                raise RuntimeError(
                    f"make_graphed_callables: tensor {number} of the arguments requires grad, and "
                    "that of sample_args did not; give sample_args the same requires_grad, or "
                    "detach() it"
                )

    def finished(self) -> Any:
        """Return the callable in its new form."""
        from tapegrad.nn import Module

        graphed = self._graphed()
        if not isinstance(self.function, Module):
            return graphed
        module, original, training = self.function, self.function.forward, self.function.training

        def forward(*args: Any) -> Any:
            return graphed(*args) if module.training == training else original(*args)

        module.forward = forward  # type: ignore[method-assign]
        return module

    def _graphed(self) -> Callable[..., Any]:
        from tapegrad.autograd import Function
        from tapegrad.autograd.function import once_differentiable
        from tapegrad.utils._pytree import tree_flatten, tree_unflatten

        this = self

        class Graphed(Function):
            @staticmethod
            def forward(ctx: Any, *inputs: Tensor) -> tuple[Tensor, ...]:
                for static, given in zip(this.inputs[: this.arg_count], inputs, strict=False):
                    _put(static, given)
                this.forward_graph.replay()
                results = tuple(y.detach() for y in this.outputs)
                ctx.mark_non_differentiable(
                    *(
                        result
                        for result, y in zip(results, this.outputs, strict=True)
                        if not y.requires_grad
                    )
                )
                return results

            @staticmethod
            @once_differentiable
            def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
                for static, given in zip(this.grad_outputs, grads, strict=True):
                    if static is not None:
                        _put(static, given)
                this.backward_graph.replay()
                return tuple(None if grad is None else grad.detach() for grad in this.grad_inputs)

        def graphed(*args: Any) -> Any:
            flat, _ = tree_flatten(args)
            if len(flat) != this.arg_count:
                raise TypeError(
                    f"make_graphed_callables: expected {this.arg_count} tensors as when it was "
                    f"captured, got {len(flat)}"
                )
            if tapegrad.is_grad_enabled():
                this.check_gradients(flat)
            outputs = Graphed.apply(*flat, *this.params)
            return tree_unflatten(list(outputs), this.output_structure)

        return graphed
