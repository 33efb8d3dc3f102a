"""Ops of one's own: a Python function that autograd takes as one op, with a derivative by hand.

Example:
    >>> @torch.library.custom_op("docs::cube", mutates_args=())
    ... def cube(x: torch.Tensor) -> torch.Tensor:
    ...     return x**3
    >>> def keep(ctx, inputs, output):
    ...     ctx.save_for_backward(*inputs)
    >>> def backward(ctx, grad):
    ...     return 3 * ctx.saved_tensors[0] ** 2 * grad
    >>> cube.register_autograd(backward, setup_context=keep)
    >>> x = torch.tensor(2.0, requires_grad=True)
    >>> torch.ops.docs.cube(x).backward()
    >>> x.grad
    tensor(12.)

What the function does is computed, compiled and traced as what it is made of. Libraries of C++ ops
are not loaded: see docs/adding-an-op.md.
"""

import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._op_namespaces import CUSTOM_OPS
from tapegrad.autograd import Function
from tapegrad.utils._pytree import tree_leaves

__all__ = [
    "CustomOpDef",
    "custom_op",
    "register_autograd",
    "register_fake",
    "register_kernel",
]

_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*::[A-Za-z_]\w*")
# Functions for the meta device of ops that are not made yet, by name.
_WAITING_FAKES: dict[str, Callable[..., Any]] = {}
_WRITTEN = re.compile(r"Tensor\(\w*!\)(?:\[\])?\??\s+(\w+)")


class CustomOpDef:
    """An op that `custom_op` made; calling it runs it."""

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        mutates_args: str | Iterable[str],
        device_types: str | Sequence[str] | None,
    ) -> None:
        self._namespace, _, self._name = name.partition("::")
        self._qualname = name
        self._signature = inspect.signature(function)
        self.__name__, self.__doc__ = self._name, function.__doc__
        parameters = self._signature.parameters
        written = parameters if mutates_args == "unknown" else mutates_args
        if isinstance(written, str):
            raise ValueError(
                f"custom_op: mutates_args must be names of parameters or 'unknown', got {written!r}"
            )
        self._written = tuple(written)
        for each in self._written:
            if each not in parameters:
                raise ValueError(f"custom_op: mutates_args names {each!r}, which is no parameter")
        self._kernels: dict[str | None, Callable[..., Any]] = {}
        self.register_kernel(device_types, function)
        self._fake: Callable[..., Any] | None = _WAITING_FAKES.pop(name, None)
        self._backward: Callable[..., Any] | None = None
        self._setup_context: Callable[..., Any] | None = None
        # What the entries on the tape are called.
        kind = f"GeneratedBackwardFor_{self._namespace}_{self._name}_default"
        self._call = type(kind, (_Call,), {})

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    # ---- registering

    def register_kernel(
        self, device_types: str | Sequence[str] | None, func: Callable[..., Any] | None = None, /
    ) -> Callable[..., Any]:
        """Run another function for tensors on some devices.

        Args:
            device_types: ``"cpu"`` or ``"cuda"``, or several; None for all that have none.
            func: the function; without it, a decorator is returned.
        """

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            several = (device_types,) if isinstance(device_types, str) else device_types
            for each in (None,) if several is None else several:
                self._kernels[each] = function
            return function

        return register if func is None else register(func)

    def register_fake(self, fn: Callable[..., Any], /) -> Callable[..., Any]:
        """Run a function for tensors on the meta device: it makes results of the right shapes.

        Args:
            fn: takes what the op takes.
        """
        self._fake = fn
        return fn

    def register_autograd(
        self,
        backward: Callable[..., Any],
        /,
        *,
        setup_context: Callable[..., Any] | None = None,
    ) -> None:
        """Say what the derivative is.

        Args:
            backward: takes a context and the gradients of the results, and returns those of the
                arguments by position: None for what is no tensor, a list for a list of tensors.
            setup_context: keeps what `backward` needs: ``setup_context(ctx, inputs, output)``,
                with ``keyword_only_inputs`` as well where the op has such.

        Raises:
            RuntimeError: if the op writes to its arguments.
        """
        if self._written:
            raise RuntimeError(
                f"Cannot register autograd formula for non-functional operator {self!r}, which "
                f"writes to {', '.join(self._written)}. Please create a functional operator and "
                "register an autograd formula for that."
            )
        self._backward, self._setup_context = backward, setup_context

    def register_vmap(self, func: Any = None, /) -> Any:
        """Refuse: `vmap` batches what the function is made of."""
        raise NotImplementedError(
            "register_vmap: rules of one's own are not supported; vmap batches what the function "
            "is made of"
        )

    # ---- running

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        inputs, options = bound.args, bound.kwargs
        if any(_tensors(each) for each in options.values()):
            raise NotImplementedError(
                f"{self._qualname}: custom_op with kwarg-only Tensor args. Please make your "
                "tensors not kwarg-only"
            )
        leaves = [x for each in inputs for x in _tensors(each)]
        if _C.is_grad_enabled() and any(x.requires_grad for x in leaves):
            if self._written:
                self._refuse_writing(bound.arguments)
            lists: list[bool] = []
            result = self._call.apply(self, inputs, options, lists, *leaves)  # type: ignore[attr-defined]
            return list(result) if lists else result
        return self._run(inputs, options)

    def _refuse_writing(self, arguments: dict[str, Any]) -> None:
        for name in self._written:
            if any(x.requires_grad for x in _tensors(arguments[name])):
                raise RuntimeError(
                    f"{self._qualname}: it writes to {name!r}, which requires a gradient; call it "
                    "under torch.no_grad() or with a tensor that requires none"
                )

    def _run(self, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        tensors = [x for each in (inputs, options) for x in tree_leaves(each) if _is_tensor(x)]
        result = self._function_for(tensors)(*inputs, **options)
        outputs = [x for x in tree_leaves(result) if _is_tensor(x)]
        places = [_C._storage_id(x) for x in (*tensors, *outputs)]
        if any(place in places[:i] for i, place in enumerate(places) if i >= len(tensors)):
            raise RuntimeError(
                f"{self._qualname}: The output of this custom operator (1) must not also be an "
                "input to this custom operator and (2) may not alias any inputs to this custom "
                "operator or other returns. The most common way to trigger this error is if we "
                "have y = custom_op(x) and y and x are the same Tensor. Please instead return a "
                "clone of the offending output tensor(s)"
            )
        return result

    def _function_for(self, tensors: list[Tensor]) -> Callable[..., Any]:
        device = tensors[0].device.type if tensors else "cpu"
        if device == "meta":
            if self._fake is None:
                raise RuntimeError(
                    f"There was no fake impl registered for {self!r}. Please use register_fake to "
                    "add one."
                )
            return self._fake
        found = self._kernels.get(device) or self._kernels.get(None)
        if found is None:
            raise RuntimeError(
                f"{self._qualname} does not have a kernel registered for {device}. Please use "
                "register_kernel to do so."
            )
        return found


# ---- gradients


def _is_tensor(x: Any) -> bool:
    return isinstance(x, Tensor)


def _tensors(argument: Any) -> list[Tensor]:
    """Return what may have a gradient in an argument: itself, or the tensors of a list."""
    if isinstance(argument, Tensor):
        return [argument]
    if isinstance(argument, (list, tuple)):
        return [x for x in argument if isinstance(x, Tensor)]
    return []


_OPTIONS = 4  # arguments of `_Call.apply` before the tensors


def _members(place: Any) -> list[bool]:
    return place if isinstance(place, list) else [place]


class _Call(Function):
    """A call that is one entry of the tape. Tensors are given apart from the arguments they are in.

    `lists` is appended to if the result is a list, which comes out as a tuple.
    """

    @staticmethod
    def forward(
        ctx: Any, op: CustomOpDef, inputs: Any, options: Any, lists: list[bool], *tensors: Tensor
    ) -> Any:
        remaining = iter(tensors)

        def put(argument: Any) -> Any:
            if isinstance(argument, (list, tuple)) and _tensors(argument):
                return [next(remaining) if isinstance(x, Tensor) else x for x in argument]
            return next(remaining) if isinstance(argument, Tensor) else argument

        given = tuple(map(put, inputs))
        result = op._run(given, options)
        if op._setup_context is not None:
            more = {"keyword_only_inputs": options} if options else {}
            op._setup_context(ctx=ctx, inputs=given, output=result, **more)
        # Of each input, which members are tensors; True stands for a tensor itself.
        ctx._op, ctx._gives_list = op, isinstance(result, list)
        ctx._places = [
            [isinstance(x, Tensor) for x in each] if isinstance(each, list) else _is_tensor(each)
            for each in given
        ]
        if ctx._gives_list:
            lists.append(True)
            return tuple(result)
        return result

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        op = ctx._op
        if op._backward is None:
            raise RuntimeError(
                f"Trying to backward through {op._namespace}.{op._name}.default but no autograd "
                "formula was registered. Please use register_autograd to add one."
            )
        wanted = iter(ctx.needs_input_grad[_OPTIONS:])
        before, ctx.needs_input_grad = (
            ctx.needs_input_grad,
            tuple(
                [each and next(wanted) for each in place]
                if isinstance(place, list)
                else place and next(wanted)
                for place in ctx._places
            ),
        )
        try:
            found = op._backward(ctx, *([list(grads)] if ctx._gives_list else grads))
        finally:
            ctx.needs_input_grad = before
        given = found if isinstance(found, tuple) else (found,)
        if not any(any(_members(place)) for place in ctx._places[len(given) :]):
            given += (None,) * (len(ctx._places) - len(given))  # of what are no tensors
        if len(given) != len(ctx._places):
            raise RuntimeError(
                f"{op._qualname}: its backward returned {len(given)} gradients for "
                f"{len(ctx._places)} inputs"
            )
        flat: list[Any] = []
        for place, grad in zip(ctx._places, given, strict=True):
            if place is True:
                flat.append(grad)
            elif isinstance(place, list) and any(place):
                each = [None] * len(place) if grad is None else grad
                if not isinstance(each, (list, tuple)) or len(each) != len(place):
                    raise RuntimeError(
                        f"{op._qualname}: Expected the return from backward to be of the same "
                        "structure as the inputs: a list of gradients, or None, for a list of "
                        "tensors"
                    )
                flat += [g for g, wanted in zip(each, place, strict=True) if wanted]
        return (*(None,) * _OPTIONS, *flat)


# ---- by name


def custom_op(
    name: str,
    fn: Callable[..., Any] | None = None,
    /,
    *,
    mutates_args: str | Iterable[str],
    device_types: str | Sequence[str] | None = None,
    schema: str | None = None,
    tags: Any = None,
) -> Any:
    """Make an op of a function, which is then also ``torch.ops.namespace.name``.

    Args:
        name: ``"namespace::name"``.
        fn: the function; without it, a decorator is returned. What it returns shares no memory
            with its arguments.
        mutates_args: names of the parameters that it writes to, or ``"unknown"``.
        device_types: the devices that it is for, if not all.
        schema: the types as text; only what it says about writing is read.
        tags: not used.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(f"custom_op: expected a name such as 'namespace::name', got {name!r}")
    if schema is not None and mutates_args != "unknown":
        said = set(_WRITTEN.findall(schema.partition("->")[0]))
        if said != set(mutates_args):
            raise ValueError(
                f"Attempted to create a custom op with `mutates_args={mutates_args}` and "
                f"`schema={schema}. The schema suggests that the op mutates {sorted(said)}"
                "which is different from what was provided to us in `mutates_args`. "
                "Please make these consistent."
            )

    def define(function: Callable[..., Any]) -> CustomOpDef:
        op = CustomOpDef(name, function, mutates_args, device_types)
        CUSTOM_OPS[name] = op
        return op

    return define if fn is None else define(fn)


def _find(op: Any) -> CustomOpDef:
    if isinstance(op, CustomOpDef):
        return op
    name = op if isinstance(op, str) else getattr(op, "_qualified_op_name", None)
    if name is None and hasattr(op, "overloadpacket"):
        name = op.overloadpacket._qualified_op_name
    found = CUSTOM_OPS.get(name) if name is not None else None
    if not isinstance(found, CustomOpDef):
        raise RuntimeError(f"Could not find the operator {op}; custom_op makes one")
    return found


def register_autograd(
    op: Any,
    backward: Callable[..., Any],
    /,
    *,
    setup_context: Callable[..., Any] | None = None,
    lib: Any = None,
) -> None:
    """Say what the derivative of an op is: see `CustomOpDef.register_autograd`.

    Args:
        op: it or its name.
        backward: the derivative.
        setup_context: keeps what it needs.
        lib: not used.
    """
    _find(op).register_autograd(backward, setup_context=setup_context)


def register_fake(
    op: Any,
    func: Callable[..., Any] | None = None,
    /,
    *,
    lib: Any = None,
    _stacklevel: int = 1,
    allow_override: bool = True,
) -> Any:
    """Say what an op gives on the meta device: see `CustomOpDef.register_fake`.

    Packages say so of ops that are in a compiled library, which is not loaded: what is said of an
    op that is not there is kept for when it is made.

    Args:
        op: it or its name.
        func: the function; without it, a decorator is returned.
        lib: not used.
        allow_override: not used: ops of `custom_op` take another function at any time.
    """
    if not isinstance(op, str) or op in CUSTOM_OPS or not _NAME.fullmatch(op):
        register = _find(op).register_fake
        return register if func is None else register(func)

    def wait(function: Callable[..., Any]) -> Callable[..., Any]:
        _WAITING_FAKES[op] = function
        return function

    return wait if func is None else wait(func)


def register_kernel(
    op: Any,
    device_types: str | Sequence[str] | None,
    func: Callable[..., Any] | None = None,
    /,
    *,
    lib: Any = None,
) -> Any:
    """Run another function for tensors on some devices: see `CustomOpDef.register_kernel`.

    Args:
        op: it or its name.
        device_types: the devices.
        func: the function; without it, a decorator is returned.
        lib: not used.
    """
    return _find(op).register_kernel(device_types, func)
