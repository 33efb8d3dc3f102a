"""Saved values in fewer bytes: quantised where derivatives bear it, exact where they do not.

The codes are made and read in the native core (csrc/ops/compress.cpp says which value becomes
what). A `compress` block puts a policy in force on its thread; policies for modules are kept by
hooks that change the policy's codec as the modules of a model begin and end.
"""

import threading
from collections.abc import Callable, Iterable, Mapping
from types import EllipsisType
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad.autograd.grad_mode import _GradMode
from tapegrad.tape._ops import ops_named
from tapegrad.utils._units import parse_bytes

__all__ = ["compress"]

_CODECS = ("int8", "int4", "bf16", "exact")
_BLOCKS = {"int8": 256, "int4": 64}
_LARGEST_BLOCK = 4096
_MOST = 2**62  # bytes, more than there are

_Choose = Callable[[str], str | EllipsisType | None]
_ByPath = Mapping[str, str | None] | _Choose


class compress(_GradMode):
    """Keep what operations save for backward in fewer bytes, inside a block or a function.

    Activations become 8-bit or 4-bit numbers with a scale per block, rounded at random so that
    their mean is right, or bfloat16. What a derivative only tests (ReLU), masks of dropout, bool
    tensors, places of maxima and small integers become bits or bytes, without loss. Parameters,
    small values and the program's own data stay as they are. docs/tape/compress.md has the rules
    and the errors.

    Args:
        codec: ``"int8"``, ``"int4"``, ``"bf16"``, or ``"exact"`` for the lossless codings alone;
            None switches an outer block off.
        model: the model whose modules `modules` names.
        modules: codecs by path of a module, for it and what is inside it: a dict, or a function
            of the path that returns a codec, None, or ``...`` to leave things as they are outside.
        ops: codecs by name of an op (``"mm"`` for ``MmBackward0``), which go before those of
            modules; or the names of the only ops whose values are coded. A name that no entry can
            have is an error; a custom function must be defined before.
        min_bytes: smaller values stay as they are: an int, or text such as "4 KiB".
        block: values that share a scale, a multiple of 32 up to 4096; 256 for int8, 64 for int4.
        inputs: whether floats without a history that Python holds (a batch of data) are coded, too.

    Example:
        >>> x = torch.ones(64, 64, requires_grad=True)
        >>> with torch.tape.compress("int8") as c:
        ...     y = (x * 2).relu().sum()
        >>> y.backward()
        >>> x.grad[0, 0].item()
        2.0
        >>> c.by_codec()
        {'bits': {'values': 1, 'saved_bytes': 512}}
    """

    def __init__(
        self,
        codec: str | None = "int8",
        *,
        model: Any = None,
        modules: _ByPath | None = None,
        ops: Mapping[str, str | None] | Iterable[str] | None = None,
        min_bytes: int | str = 1024,
        block: int | None = None,
        inputs: bool = False,
    ) -> None:
        _expect_codec(codec)
        least = min(parse_bytes(min_bytes, "compress: min_bytes"), _MOST)
        if least < 0:
            raise ValueError(f"compress: expected min_bytes of at least 0, got {min_bytes}")
        if block is not None:
            _expect_block(block)
        if not isinstance(inputs, bool):
            raise TypeError(f"compress: expected inputs to be a bool, got {type(inputs).__name__}")
        self.codec = codec
        base, by_op = _codecs_of_ops(codec, ops)
        block8, block4 = block or _BLOCKS["int8"], block or _BLOCKS["int4"]
        self._policy = _C._CodingPolicy(_native(base), least, block8, block4, inputs, by_op)
        self._is_off = codec is None and not by_op and modules is None
        self._modules = _ModulePolicies(self._policy, model, modules) if modules else None
        self._blocks = threading.local()  # of each thread: the policies outside, and the codecs

    def __enter__(self) -> "compress":  # type: ignore[override]
        if self._modules is not None:
            self._modules.start()
        outer = _C._set_coding(None if self._is_off else self._policy)
        self._entered().append((outer, self._policy.codec))
        return self

    def __exit__(self, *exception: object) -> None:
        if not self._entered():
            raise RuntimeError("compress: expected to leave a block that this thread has entered")
        outer, codec = self._entered().pop()
        _C._set_coding(outer)
        if self._modules is not None:
            self._modules.stop()
            self._policy.codec = codec

    def _entered(self) -> list[tuple[Any, str]]:
        blocks = self._blocks
        if not hasattr(blocks, "entered"):
            blocks.entered = []
        entered: list[tuple[Any, str]] = blocks.entered
        return entered

    def _copy(self) -> "compress":
        """Return what a decorated function enters: the same policy, with a state of its own."""
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__, _blocks=threading.local())
        if self._modules is not None:
            copy._modules = self._modules.copy()
        return copy

    # ---- what it brought

    @property
    def full_bytes(self) -> int:
        """Bytes that the values saved in the block would have kept alive."""
        return self._policy.full_bytes

    @property
    def saved_bytes(self) -> int:
        """Bytes that they were saved in; a value that several entries saved counts once."""
        return self._policy.saved_bytes

    @property
    def ratio(self) -> float:
        """Saved bytes over full bytes; 1 where nothing was saved."""
        return self.saved_bytes / self.full_bytes if self.full_bytes else 1.0

    def by_codec(self) -> dict[str, dict[str, int]]:
        """Return how many values became what, and in how many bytes.

        ``"bits"``, ``"narrow"`` (integers), ``"places"`` (of maxima) are exact; ``"whole"`` are the
        values that stayed as they are.
        """
        counts = self._policy.counts()
        return {
            name: {"values": values, "saved_bytes": saved}
            for name, (values, saved) in counts.items()
        }

    def __repr__(self) -> str:
        from tapegrad.utils._units import human_bytes

        sizes = f"{human_bytes(self.full_bytes)} in {human_bytes(self.saved_bytes)}"
        return f"compress({self.codec!r}): {sizes}, ratio {self.ratio:.3f}"

    def round_trip(self, input: Tensor) -> Tensor:
        """Return what a derivative that reads a value smoothly would find of it.

        Args:
            input: a tensor of any size.

        Returns:
            The tensor coded and decoded; itself where it would be kept.

        Example:
            >>> x = torch.linspace(-1, 1, 1000)
            >>> error = (torch.tape.compress("int8").round_trip(x) - x).abs().max().item()
            >>> 0 < error < 1.01 / 127
            True
        """
        if not isinstance(input, Tensor):
            raise TypeError(f"round_trip: expected a tensor, got {type(input).__name__}")
        return input if self._is_off else _C._coded_and_decoded(input, self._policy)


def _expect_codec(codec: object) -> None:
    if codec is not None and codec not in _CODECS:
        raise ValueError(
            f"compress: expected a codec of {', '.join(map(repr, _CODECS))}, or None, got {codec!r}"
        )


def _expect_block(block: object) -> None:
    if isinstance(block, bool) or not isinstance(block, int):
        raise TypeError(f"compress: expected block to be an int, got {type(block).__name__}")
    if not (block % 32 == 0 and 32 <= block <= _LARGEST_BLOCK):
        raise ValueError(
            f"compress: expected a block of 32 to {_LARGEST_BLOCK} values, a multiple of 32, "
            f"got {block}"
        )


def _native(codec: str | None) -> str:
    return "whole" if codec is None else codec


def _codecs_of_ops(
    codec: str | None, ops: Mapping[str, str | None] | Iterable[str] | None
) -> tuple[str | None, list[tuple[str, str]]]:
    """Return the codec of all other ops, and (name, codec) of those that are named."""
    if ops is None:
        return codec, []
    if isinstance(ops, str | bytes) or not isinstance(ops, Iterable):
        kind = type(ops).__name__
        raise TypeError(f"compress: expected a dict or a list of op names, got the {kind} {ops!r}")
    if not isinstance(ops, Mapping):
        return None, [(name, _native(codec)) for name in ops_named("compress", ops)]
    names = ops_named("compress", ops)
    for each in ops.values():
        _expect_codec(each)
    return codec, [(name, _native(each)) for name, each in zip(names, ops.values(), strict=True)]


class _ModulePolicies:
    """Changes a policy's codec while modules of a model run, on one thread at a time."""

    def __init__(self, policy: Any, model: Any, modules: _ByPath) -> None:
        if model is None:
            raise ValueError("compress: modules= names parts of a model: pass it as model=")
        if not hasattr(model, "named_modules"):
            raise TypeError(f"compress: expected model to be a Module, got {type(model).__name__}")
        self._policy = policy
        self._model = model
        self._choose = modules if callable(modules) else _chooser(model, modules)
        self._paths: dict[int, tuple[str, Any]] = {}  # with the module, whose id is its own then
        self._running: list[tuple[Any, str]] = []  # modules that run, and the codec outside them
        self._handles: list[Any] = []
        self._threads: list[int] = []  # one for each block, of copies, too: all change one policy

    def copy(self) -> "_ModulePolicies":
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__, _running=[], _handles=[])
        return copy

    def start(self) -> None:
        from tapegrad.nn.modules import module as hooks

        thread = threading.get_ident()
        if any(each != thread for each in self._threads):
            raise RuntimeError(
                "compress: expected a block with modules= to be left before another thread enters "
                "it; make one for each thread"
            )
        self._paths = {id(each): (path, each) for path, each in self._model.named_modules()}
        self._threads.append(thread)
        self._handles += [
            hooks.register_module_forward_pre_hook(self._begin),
            hooks.register_module_forward_hook(self._end, always_call=True),
        ]

    def stop(self) -> None:
        for _ in range(2):
            self._handles.pop().remove()
        self._running.clear()
        self._threads.pop()
        if not self._handles:
            self._paths = {}

    def _is_here(self, module: Any) -> bool:
        return id(module) in self._paths and threading.get_ident() in self._threads

    def _begin(self, module: Any, args: Any) -> None:
        if not self._is_here(module):
            return
        codec = self._choose(self._paths[id(module)][0])
        if codec is not ...:
            _expect_codec(codec)
        self._running.append((module, self._policy.codec))
        if codec is not ...:
            self._policy.codec = _native(codec)

    def _end(self, module: Any, args: Any, output: Any) -> None:
        # Also called for a module whose own _begin failed, while those around it go on.
        if not self._is_here(module) or all(each is not module for each, _ in self._running):
            return
        while self._running:
            ended, self._policy.codec = self._running.pop()
            if ended is module:  # those above it never reached their own end
                return


def _chooser(model: Any, modules: Mapping[str, str | None]) -> _Choose:
    if not isinstance(modules, Mapping):
        kind = type(modules).__name__
        raise TypeError(f"compress: expected modules to be a dict or a function, got {kind}")
    known = {path for path, _ in model.named_modules()}
    for path, codec in modules.items():
        _expect_codec(codec)
        if path not in known:
            import difflib

            near = difflib.get_close_matches(str(path), known, 3)
            hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
            raise ValueError(f"compress: the model has no module {path!r}{hint}")
    return lambda path: modules.get(path, ...)
