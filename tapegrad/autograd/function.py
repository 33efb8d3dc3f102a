"""Custom functions: a forward and a derivative of one's own, as one entry of the tape.

``Function.apply`` runs ``forward`` with recording off and hands what came out to the native core,
which makes the call an entry; when a sweep reaches it, the entry calls ``_run_backward`` of the
context.
"""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tapegrad import _C
from tapegrad._C import Tensor

__all__ = ["Function", "FunctionCtx", "InplaceFunction", "NestedIOFunction", "once_differentiable"]


class FunctionCtx:
    """What a custom function's forward leaves for its backward."""

    needs_input_grad: tuple[bool, ...] = ()
    materialize_grads = True
    # With False, backward gets None for outputs that were marked as not differentiable.
    _materialize_non_diff_grads = True
    _saves_sparse = False
    _to_save: tuple[Tensor | None, ...] = ()
    _to_save_forward: tuple[Tensor | None, ...] = ()
    _dirty: tuple[Tensor, ...] = ()
    _non_differentiable: tuple[Tensor, ...] = ()

    if TYPE_CHECKING:  # what the ctx of a call has, and the attributes that forward may give it

        @property
        def saved_tensors(self) -> tuple[Tensor, ...]: ...

        def __getattr__(self, name: str) -> Any: ...

        def __setattr__(self, name: str, value: Any) -> None: ...

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Save tensors for backward, where ``ctx.saved_tensors`` gives them back.

        What is saved this way is checked for later in-place writes; attributes of ctx are not.
        """
        for index, tensor in enumerate(tensors):
            if tensor is None or type(tensor) is Tensor:
                continue
            if not isinstance(tensor, Tensor):
                raise TypeError(
                    "save_for_backward can only save variables, but argument "
                    f"{index} is of type {type(tensor).__name__}; keep it as an attribute of ctx"
                )
            if isinstance(tensor, _C._SparseBase):
                self._saves_sparse = True
        self._to_save = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Save tensors for jvp, where ``ctx.saved_tensors`` gives them back."""
        self._to_save_forward = tensors

    def mark_dirty(self, *args: Tensor) -> None:
        """Say which inputs forward wrote to in place. They must be returned as outputs."""
        for index, value in enumerate(args):
            if not isinstance(value, Tensor):
                raise TypeError(
                    f"mark_dirty can only accept variables, but argument {index} is of type "
                    f"{type(value).__name__}"
                )
        self._dirty = args

    def mark_non_differentiable(self, *args: Tensor) -> None:
        """Say which outputs have no gradient."""
        for value in args:
            if not isinstance(value, Tensor):
                raise TypeError(
                    "mark_non_differentiable only accepts variable arguments, but got "
                    f"{type(value).__name__}"
                )
        self._non_differentiable = args

    def set_materialize_grads(self, value: bool) -> None:
        """With False, backward gets None for the gradient of an unused output instead of zeros."""
        self.materialize_grads = value


class _Context(FunctionCtx):
    """The ctx of one call, made by Function.apply."""

    # Shape, dtype and device of each; no shape where zeros shall not stand for no gradient.
    _outputs: list[tuple[Any, Any, Any]]
    _output_places: list[int]  # where the tensors are among all that forward returned
    _output_count: int
    _is_tensor: tuple[bool, ...]
    _input_shapes: list[Any]
    # Sparse tensors among those saved, which the tape does not hold: by place, with their versions.
    _sparse_saved: dict[int, tuple[Any, tuple[int, int]]] | None = None

    def __init__(self, function: type["Function"]) -> None:
        self._function = function
        self._link = _C._EntryLink()
        self._in_jvp = False

    @property
    def saved_tensors(self) -> Any:
        """What save_for_backward() was given, after the check that nothing wrote to it."""
        if self._in_jvp:
            return self._to_save_forward or self._to_save
        saved = self._link.saved_tensors()
        if saved is None:
            return self._to_save
        return self._with_sparse(saved) if self._sparse_saved else saved

    saved_variables = saved_tensors

    def _keep_sparse(self) -> list[Tensor | None]:
        """Keep the sparse ones of the tensors to save, and return the others."""
        sparse = self._sparse_saved = {
            place: (tensor, _versions(tensor))
            for place, tensor in enumerate(self._to_save)
            if tensor is not None and isinstance(tensor, _C._SparseBase)
        }
        return [None if place in sparse else tensor for place, tensor in enumerate(self._to_save)]

    def _with_sparse(self, saved: tuple[Tensor | None, ...]) -> tuple[Tensor | None, ...]:
        tensors = list(saved)
        for place, (tensor, version) in (self._sparse_saved or {}).items():
            if _versions(tensor) != version:
                raise RuntimeError(
                    f"{self._name}: a sparse tensor that was saved has been modified by an inplace "
                    f"operation: it or its values are at version {_versions(tensor)}, expected "
                    f"{version}; save a .clone()"
                )
            tensors[place] = tensor
        return tuple(tensors)

    @property
    def _name(self) -> str:
        return self._function.__name__ + "Backward"

    def name(self) -> str:
        return self._name

    @property
    def next_functions(self) -> Any:
        node = self._link.node()
        return () if node is None else node.next_functions

    def _run_backward(self, grads: tuple[Tensor | None, ...]) -> tuple[Tensor | None, ...]:
        """Call the user's backward and return one gradient for each tensor argument."""
        if self.materialize_grads:
            grads = tuple(
                _C.zeros(shape, dtype=dtype, device=device)
                if grad is None and shape is not None
                else grad
                for grad, (shape, dtype, device) in zip(grads, self._outputs, strict=True)
            )
        given: list[Tensor | None] = [None] * self._output_count
        for place, grad in zip(self._output_places, grads, strict=True):
            given[place] = grad
        backward = _backward_of(self._function)
        results = backward(self, *given)
        if not isinstance(results, tuple):
            results = (results,)
        return self._check(results)

    def _check(self, results: tuple[Any, ...]) -> tuple[Tensor | None, ...]:
        expected = len(self._is_tensor)
        if len(results) > expected and all(extra is None for extra in results[expected:]):
            results = results[:expected]
        if len(results) != expected:
            raise RuntimeError(
                f"function {self._name} returned an incorrect number of gradients "
                f"(expected {expected}, got {len(results)}): backward must return one for each "
                "argument of forward, None for those that need none"
            )
        gradients: list[Tensor | None] = []
        for index, (result, is_tensor) in enumerate(zip(results, self._is_tensor, strict=True)):
            if result is not None and not isinstance(result, Tensor):
                raise TypeError(
                    f"{self._name}: expected Variable or None as the gradient of argument {index}, "
                    f"got {type(result).__name__}"
                )
            if not is_tensor:
                if result is not None:
                    raise RuntimeError(
                        f"function {self._name} returned a gradient different than None at "
                        f"position {index + 1}, but the corresponding forward input was not a "
                        "Variable"
                    )
                continue
            self._check_shape(index, result, self._input_shapes[len(gradients)])
            gradients.append(result)
        return tuple(gradients)

    def _argument_name(self, index: int) -> str:
        import inspect  # Slow to load, and needed for an error alone.

        names = list(inspect.signature(self._function.forward).parameters)
        if self._function.setup_context is Function.setup_context:
            names = names[1:]
        return names[index] if index < len(names) else str(index)

    def _check_shape(self, index: int, grad: Tensor | None, shape: Any) -> None:
        if grad is None or grad.shape == shape:
            return
        lead = grad.dim() - len(shape)
        fits = lead >= 0 and all(size in (1, grad.shape[lead + d]) for d, size in enumerate(shape))
        if not fits:
            raise RuntimeError(
                f"Function {self._name} returned an invalid gradient at index {index} - got "
                f"{list(grad.shape)} but expected shape compatible with {list(shape)}, that of "
                f"'{self._argument_name(index)}'"
            )


def _versions(tensor: Any) -> tuple[int, int]:
    """Return how often a sparse tensor was written to, and how often its values."""
    return tensor._version, tensor._values()._version


class Function:
    """A differentiable function with a derivative of one's own.

    Define ``forward`` and ``backward`` as static methods, either with ``forward(ctx, *args)``, or
    with ``forward(*args)`` and ``setup_context(ctx, inputs, output)``. Call it as
    ``Mine.apply(x)``.
    ``jvp(ctx, *tangents)`` gives forward mode; without it, the transpose of backward is used.

    Example:
        >>> class Exp(torch.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         result = x.exp()
        ...         ctx.save_for_backward(result)
        ...         return result
        ...
        ...     @staticmethod
        ...     def backward(ctx, grad):
        ...         (result,) = ctx.saved_tensors
        ...         return grad * result
        >>> x = torch.tensor(1.0, requires_grad=True)
        >>> Exp.apply(x).backward()
        >>> x.grad
        tensor(2.7183)
    """

    generate_vmap_rule = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Make an object that carries attributes alone: the methods are static."""
        import warnings

        warnings.warn(
            f"{type(self)} should not be instantiated. Methods on autograd functions are all "
            "static, so you should invoke them on the class itself. Instantiating an autograd "
            "function will raise an error in a future version of PyTorch.",
            DeprecationWarning,
            stacklevel=2,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Refuse: an object is not called, its class has `apply`."""
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated. Please use "
            f"new-style autograd function with static forward method: {type(self).__name__}.apply"
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the result. Must be given by the subclass."""
        raise NotImplementedError(
            "You must implement the forward function for custom autograd.Function."
        )

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Save for backward what the call needs, where forward takes no ctx."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        """Turn gradients of the outputs into gradients of the arguments."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom "
            "autograd.Function to use it with backward mode AD."
        )

    vjp = backward

    @staticmethod
    def jvp(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        """Turn tangents of the arguments into tangents of the outputs."""
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with "
            "forward mode AD."
        )

    @staticmethod
    def vmap(info: Any, in_dims: Any, *args: Any, **kwargs: Any) -> Any:
        """Compute the function on batched arguments; see `torch.func.vmap`."""
        raise NotImplementedError("vmap is not implemented.")

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run forward and record the call as one entry of the tape."""
        if cls.setup_context is not Function.setup_context:
            args, kwargs = _with_defaults(cls.forward, args, kwargs)
        elif kwargs:
            args, kwargs = _by_position(cls.forward, args, kwargs)
        if cls.vmap is not Function.vmap and _C._running_vmaps():
            from tapegrad.func.custom_vmap import apply_vmap_rule

            numbers = [number for number, _ in _C._running_vmaps()]
            for number in reversed(numbers):
                if any(isinstance(arg, Tensor) and _C._is_batched_at(arg, number) for arg in args):
                    return apply_vmap_rule(cls, number, args)
        context = _Context(cls)
        tensors = [arg for arg in args if isinstance(arg, Tensor)]
        context._is_tensor = tuple(isinstance(arg, Tensor) for arg in args)
        context._input_shapes = [tensor.shape for tensor in tensors]
        recording = _C.is_grad_enabled()
        # Without a jvp, forward mode transposes backward, which must not leave a tangent out.
        transposed = cls.jvp is Function.jvp
        context.needs_input_grad = tuple(
            isinstance(arg, Tensor)
            and (
                (recording and arg.requires_grad) or (transposed and bool(_C._tangent_levels(arg)))
            )
            for arg in args
        )
        output = _run_forward(cls, context, args, kwargs)
        return _record(cls, context, args, tensors, output)


class InplaceFunction(Function):
    """A `Function` that keeps whether it shall write to its input, for programs that name it."""

    def __init__(self, inplace: bool = False) -> None:
        self.inplace = inplace


class NestedIOFunction(Function):
    """Kept for programs that name it; a `Function` today."""


# No methods of Function: programs give their classes private helpers of any name.


def _backward_of(cls: type[Function]) -> Callable[..., Any]:
    if cls.backward is not Function.backward and cls.vjp is not Function.vjp:
        raise RuntimeError(
            f"{cls.__name__}: Implementing both 'backward' and 'vjp' for a custom Function is "
            "not allowed; keep one of them"
        )
    return cls.vjp if cls.backward is Function.backward else cls.backward


def _run_forward(cls: type[Function], context: _Context, args: tuple[Any, ...], kwargs: Any) -> Any:
    """Run forward with recording off and tangents out of sight."""
    recording = _C.is_grad_enabled()
    shown = _C._hide_dual_levels()
    _C.set_grad_enabled(False)
    try:
        if cls.setup_context is Function.setup_context:
            return cls.forward(context, *args, **kwargs)
        output = cls.forward(*args, **kwargs)
        cls.setup_context(context, args, output)
        return output
    finally:
        _C.set_grad_enabled(recording)
        _C._show_dual_levels(shown)


def _with_defaults(
    forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return all arguments, those that forward has defaults for included, for setup_context."""
    code = getattr(forward, "__code__", None)
    if code is not None and not kwargs and len(args) >= code.co_argcount:
        return args, kwargs
    import inspect  # Slow to load, and rarely needed.

    bound = inspect.signature(forward).bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.args, bound.kwargs


def _by_position(
    forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return arguments that were given by name in their places, where gradients are counted."""
    import inspect  # Slow to load, and rarely needed.

    signature = inspect.signature(forward)
    bound = signature.bind(None, *args, **kwargs)
    places = [
        parameter
        for parameter in signature.parameters.values()
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    last = max(place for place, each in enumerate(places) if each.name in bound.arguments)
    for parameter in places[:last]:  # a gap in front of what was given takes its default
        bound.arguments.setdefault(parameter.name, parameter.default)
    return bound.args[1:], bound.kwargs


def _record(
    cls: type[Function],
    context: _Context,
    args: tuple[Any, ...],
    inputs: list[Tensor],
    output: Any,
) -> Any:
    """Give the outputs their place in the graph, and their tangents."""
    outputs = list(output) if isinstance(output, tuple | list) else [output]
    places = [place for place, value in enumerate(outputs) if isinstance(value, Tensor)]
    results = [outputs[place] for place in places]
    for index, dirty in enumerate(context._dirty):
        if not any(dirty is result for result in results):
            raise RuntimeError(
                f"{context._name}: Some elements marked as dirty during the forward method were "
                f"not returned as output (number {index}); The inputs that are modified inplace "
                "must all be outputs of the Function."
            )
    differentiable = [
        not any(result is other for other in context._non_differentiable) for result in results
    ]
    fill = context._materialize_non_diff_grads
    context._outputs = [
        (result.shape if fill or has_gradient else None, result.dtype, result.device)
        for result, has_gradient in zip(results, differentiable, strict=True)
    ]
    context._output_places = places
    context._output_count = len(outputs)
    tangents = _tangents(context, args) if cls.jvp is not Function.jvp else {}
    shown = _C._hide_dual_levels() if tangents else None
    saved = context._keep_sparse() if context._saves_sparse else list(context._to_save)
    try:
        recorded = _C._record_function(
            context, context._name, context._link, inputs, results, differentiable,
            list(context._dirty), saved, bool(tangents),
        )  # fmt: skip
    finally:
        if shown is not None:
            _C._show_dual_levels(shown)
    written = set(map(id, context._dirty))
    for place, result, has_gradient in zip(places, recorded, differentiable, strict=True):
        if not has_gradient and result.requires_grad:  # an input as it is, or written to
            result = result.detach_() if id(result) in written else result.detach()
        outputs[place] = result
    if tangents:
        _apply_jvp(cls, context, outputs, tangents)
    # What the context still refers to would keep the graph alive that the context is part of.
    context._dirty = context._non_differentiable = context._to_save_forward = ()
    if context._link.node() is not None:
        context._to_save = ()
    if isinstance(output, tuple | list):
        return tuple(outputs)
    return outputs[0]


def _tangents(context: _Context, args: tuple[Any, ...]) -> dict[int, list[Tensor | None]]:
    """Return the tangent of each argument, for each level at which one has a tangent."""
    tensors = [arg for arg in args if isinstance(arg, Tensor)]
    levels = sorted({level for tensor in tensors for level in _C._tangent_levels(tensor)})
    for dirty in context._dirty if levels else ():
        if dirty._is_view():
            raise RuntimeError(
                f"{context._name}: a view is marked dirty by a function with a jvp of its own, of "
                "which the view's base would not know in forward mode; write to a .clone(), or "
                "leave jvp out"
            )
    return {level: [_tangent(arg, level, context) for arg in args] for level in levels}


def _tangent(arg: Any, level: int, context: _Context) -> Tensor | None:
    if not isinstance(arg, Tensor):
        return None
    tangent = _C._unpack_dual(arg, level)[1]
    if tangent is None and context.materialize_grads and arg.is_floating_point():
        return _C.zeros_like(arg.detach())
    return tangent


def _apply_jvp(
    cls: type[Function],
    context: _Context,
    outputs: list[Any],
    tangents: dict[int, list[Tensor | None]],
) -> None:
    """Attach the tangents that the user's jvp computes, level by level."""
    for level, given in tangents.items():
        shown = _C._limit_dual_levels(level)
        context._in_jvp = True
        try:
            results = cls.jvp(context, *given)
        finally:
            context._in_jvp = False
            _C._show_dual_levels(shown)
        results = results if isinstance(results, tuple) else (results,)
        if len(results) != len(outputs):
            raise RuntimeError(
                f"{cls.__name__}: jvp returned {len(results)} tangents for {len(outputs)} outputs"
            )
        for output, tangent in zip(outputs, results, strict=True):
            if isinstance(output, Tensor) and tangent is not None:
                _C._set_tangent(output, tangent, level)


def once_differentiable(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a backward that cannot itself be differentiated.

    It runs with recording off, and a second derivative through it raises an error.

    Example:
        >>> class Square(torch.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         ctx.save_for_backward(x)
        ...         return x * x
        ...
        ...     @staticmethod
        ...     @torch.autograd.function.once_differentiable
        ...     def backward(ctx, grad):
        ...         return 2 * ctx.saved_tensors[0] * grad
    """

    @functools.wraps(fn)
    def wrapper(ctx: Any, *grads: Any) -> Any:
        recording = _C.is_grad_enabled()
        _C.set_grad_enabled(False)
        try:
            results = fn(ctx, *grads)
        finally:
            _C.set_grad_enabled(recording)
        needs = any(isinstance(grad, Tensor) and grad.requires_grad for grad in grads)
        if not recording or not needs:
            return results
        single = not isinstance(results, tuple)
        values = (results,) if single else results
        guarded = tuple(
            _OnceOnly.apply(value, *[g for g in grads if isinstance(g, Tensor)])
            if isinstance(value, Tensor)
            else value
            for value in values
        )
        return guarded[0] if single else guarded

    return wrapper


class _OnceOnly(Function):
    """Marks a value whose derivative must not be asked for."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, *grads: Tensor) -> Tensor:
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError(
            "trying to differentiate twice a function that was marked with @once_differentiable"
        )
