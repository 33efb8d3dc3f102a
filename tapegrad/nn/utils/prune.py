"""Weights set to zero and kept there, by masks.

A pruned parameter ``weight`` becomes ``weight_orig``, beside a buffer ``weight_mask``; ``weight``
is their product, computed again before every forward by a hook, which is the pruning method itself.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad.nn.modules.module import Module
from tapegrad.nn.utils._pre_hooks import find_hook, pop_hook
from tapegrad.nn.utils.convert_parameters import parameters_to_vector

__all__ = [
    "BasePruningMethod",
    "CustomFromMask",
    "Identity",
    "L1Unstructured",
    "LnStructured",
    "PruningContainer",
    "RandomStructured",
    "RandomUnstructured",
    "custom_from_mask",
    "global_unstructured",
    "identity",
    "is_pruned",
    "l1_unstructured",
    "ln_structured",
    "random_structured",
    "random_unstructured",
    "remove",
]

_Amount = int | float


class BasePruningMethod(ABC):
    """What all methods share. A subclass sets PRUNING_TYPE and defines compute_mask()."""

    PRUNING_TYPE: str
    _tensor_name: str

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return a mask of zeros and ones.

        Args:
            t: the importance of every element.
            default_mask: the mask so far.
        """

    def apply_mask(self, module: Module) -> Tensor:
        """Return the parameter of a module with the mask applied."""
        if not hasattr(self, "_tensor_name"):
            raise AssertionError(f"Module {module} has to be pruned")
        mask: Tensor = getattr(module, self._tensor_name + "_mask")
        original: Tensor = getattr(module, self._tensor_name + "_orig")
        return mask.to(original.dtype) * original

    @classmethod
    def apply(
        cls,
        module: Module,
        name: str,
        *args: Any,
        importance_scores: Tensor | None = None,
        **kwargs: Any,
    ) -> Any:
        """Prune a parameter; one that is pruned already is pruned further.

        Args:
            module: the module.
            name: the name of the parameter.
            args: arguments of the method.
            importance_scores: of the parameter's shape; its values if None.
            kwargs: keyword arguments of the method.

        Returns:
            The method that is in charge now.
        """
        method: BasePruningMethod = cls(*args, **kwargs)
        method._tensor_name = name
        found = find_hook(module, BasePruningMethod, name, "_tensor_name")
        value: Tensor = getattr(module, name)
        if importance_scores is None:
            importance_scores = value
        elif importance_scores.shape != value.shape:
            raise AssertionError(
                f"importance_scores should have the same shape as parameter {name} of {module}, "
                f"got {importance_scores.shape} vs {value.shape}"
            )
        scores = importance_scores.detach()
        if found is None:
            mask = method.compute_mask(scores, _C.ones_like(value.detach()))
            original = module._parameters[name]
            del module._parameters[name]
            module.register_parameter(name + "_orig", original)
        else:
            key, older = found
            container = older if isinstance(older, PruningContainer) else PruningContainer(older)
            container.add_pruning_method(method)
            method = container
            so_far = getattr(module, name + "_mask").detach().clone()
            mask = method.compute_mask(scores, so_far)
            pop_hook(module, key)
        module.register_buffer(name + "_mask", mask)
        setattr(module, name, method.apply_mask(module))
        module.register_forward_pre_hook(method)
        return method

    def prune(
        self,
        t: Tensor,
        default_mask: Tensor | None = None,
        importance_scores: Tensor | None = None,
    ) -> Tensor:
        """Return a pruned copy of a tensor.

        Args:
            t: the tensor.
            default_mask: a mask that it has already.
            importance_scores: of the tensor's shape; its values if None.

        Example:
            >>> from tapegrad.nn.utils import prune
            >>> prune.L1Unstructured(2).prune(torch.tensor([1.0, -3.0, 2.0, 0.5]))
            tensor([ 0., -3.,  2.,  0.])
        """
        scores = t if importance_scores is None else importance_scores
        if scores.shape != t.shape:
            raise AssertionError(
                "importance_scores should have the same shape as tensor t, got "
                f"{scores.shape} vs {t.shape}"
            )
        mask = _C.ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(scores.detach(), mask.detach())

    def remove(self, module: Module) -> None:
        """Make the pruned parameter of a module a plain one, with its zeros.

        Args:
            module: the module.
        """
        name = self._tensor_name
        if not hasattr(module, name + "_orig"):
            raise AssertionError(f"Module {module} has to be pruned before pruning can be removed")
        original = module._parameters[name + "_orig"]
        assert original is not None
        original.data = self.apply_mask(module).detach()
        delattr(module, name)
        del module._parameters[name + "_orig"]
        del module._buffers[name + "_mask"]
        setattr(module, name, original)


class PruningContainer(BasePruningMethod):
    """Several methods, each of which prunes what the earlier ones left.

    Args:
        args: the methods, of one parameter.
    """

    PRUNING_TYPE = "container"

    def __init__(self, *args: Any) -> None:
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        several = args[0] if len(args) == 1 and isinstance(args[0], Iterable) else args
        for place, method in enumerate(several):
            if place == 0:
                self._tensor_name = method._tensor_name
            self.add_pruning_method(method)

    def add_pruning_method(self, method: BasePruningMethod | None) -> None:
        """Add a method.

        Args:
            method: the method, of the same parameter.
        """
        if not isinstance(method, BasePruningMethod) and method is not None:
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if method is not None and self._tensor_name != method._tensor_name:
            raise ValueError(
                "Can only add pruning methods acting on the parameter named "
                f"'{self._tensor_name}' to PruningContainer {self}. Found '{method._tensor_name}'"
            )
        if method is not None:
            self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Any:
        return iter(self._pruning_methods)

    def __getitem__(self, place: Any) -> Any:
        return self._pruning_methods[place]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask so far with that of the latest method applied to what is left."""
        method = self._pruning_methods[-1]
        default_mask = default_mask.to(t.dtype)
        if method.PRUNING_TYPE == "global":
            return method.compute_mask(t, default_mask)
        if method.PRUNING_TYPE == "unstructured":
            left = (default_mask.reshape(-1) == 1).nonzero().squeeze(1)
            inner = method.compute_mask(
                t.reshape(-1).index_select(0, left), default_mask.reshape(-1).index_select(0, left)
            )
            return default_mask.reshape(-1).index_copy(0, left, inner).reshape(t.shape)
        if method.PRUNING_TYPE == "structured":
            dim = method.dim % t.dim()  # type: ignore[attr-defined]
            others = [d for d in range(t.dim()) if d != dim]
            left = (default_mask.sum(others) != 0).nonzero().squeeze(1)
            inner = method.compute_mask(
                t.index_select(dim, left), default_mask.index_select(dim, left)
            )
            return default_mask.index_copy(dim, left, inner)
        raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")


# ---- amounts


def _check_amount(amount: _Amount) -> None:
    if isinstance(amount, bool) or not isinstance(amount, (int, float)):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    if amount < 0 or (isinstance(amount, float) and amount > 1):
        raise ValueError(
            f"amount={amount} should either be a float in the range [0, 1] or a non-negative "
            "integer"
        )


def _count_of(amount: _Amount, size: int) -> int:
    """Return how many of a number of elements or channels are to be pruned."""
    if isinstance(amount, int):
        if amount > size:
            raise ValueError(
                f"amount={amount} should be smaller than the number of parameters to prune={size}"
            )
        return amount
    return round(amount * size)


def _without_least(scores: Tensor, count: int) -> Tensor:
    """Return ones, and zeros for the least of one-dimensional scores."""
    mask = _C.ones_like(scores)
    if not count:
        return mask
    return mask.index_fill(0, scores.topk(count, largest=False)[1], 0)


def _channel_mask(t: Tensor, kept: Tensor, dim: int) -> Tensor:
    shape = [1] * t.dim()
    shape[dim] = t.shape[dim]
    return kept.reshape(shape)


def _check_structured(t: Tensor, dim: int) -> None:
    if t.dim() <= 1:
        raise ValueError(
            "Structured pruning can only be applied to multidimensional tensors. Found tensor of "
            f"shape {t.shape} with {t.dim()} dims"
        )
    if not -t.dim() <= dim < t.dim():
        raise IndexError(f"Invalid index {dim} for tensor of size {t.shape}")


# ---- methods


class Identity(BasePruningMethod):
    """Prunes nothing; the parameter gets a mask of ones."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask so far."""
        return default_mask


class RandomUnstructured(BasePruningMethod):
    """Prunes elements at random.

    Args:
        amount: how many, or which part of all.
    """

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount: _Amount) -> None:
        _check_amount(amount)
        self.amount = amount

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask so far with more zeros."""
        kept = _without_least(_C.rand_like(t.reshape(-1)), _count_of(self.amount, t.numel()))
        return default_mask * kept.reshape(t.shape).to(default_mask.dtype)


class L1Unstructured(BasePruningMethod):
    """Prunes the elements that are nearest to zero.

    Args:
        amount: how many, or which part of all.
    """

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount: _Amount) -> None:
        _check_amount(amount)
        self.amount = amount

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask so far with more zeros."""
        kept = _without_least(t.reshape(-1).abs(), _count_of(self.amount, t.numel()))
        return default_mask * kept.reshape(t.shape).to(default_mask.dtype)


class RandomStructured(BasePruningMethod):
    """Prunes whole channels at random.

    Args:
        amount: how many, or which part of all.
        dim: the dimension of the channels.
    """

    PRUNING_TYPE = "structured"

    def __init__(self, amount: _Amount, dim: int = -1) -> None:
        _check_amount(amount)
        self.amount = amount
        self.dim = dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask so far with more zeros."""
        _check_structured(t, self.dim)
        channels = t.shape[self.dim]
        drawn = _C.rand(channels, dtype=default_mask.dtype, device=t.device)
        kept = _without_least(drawn, _count_of(self.amount, channels))
        return default_mask * _channel_mask(t, kept, self.dim)


class LnStructured(BasePruningMethod):
    """Prunes the channels of the smallest norm.

    Args:
        amount: how many, or which part of all.
        n: the n of the norm.
        dim: the dimension of the channels.
    """

    PRUNING_TYPE = "structured"

    def __init__(self, amount: _Amount, n: Any, dim: int = -1) -> None:
        _check_amount(amount)
        self.amount = amount
        self.n = n
        self.dim = dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask so far with more zeros."""
        _check_structured(t, self.dim)
        count = _count_of(self.amount, t.shape[self.dim])
        others = [d for d in range(t.dim()) if d != self.dim % t.dim()]
        kept = _without_least(t.norm(self.n, others), count)
        return default_mask * _channel_mask(t, kept.to(default_mask.dtype), self.dim)


class CustomFromMask(BasePruningMethod):
    """Prunes what a given mask says.

    Args:
        mask: zeros and ones, of the parameter's shape.
    """

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the product of the two masks."""
        if default_mask.shape != self.mask.shape:
            raise AssertionError(
                f"default_mask shape {default_mask.shape} must match self.mask shape "
                f"{self.mask.shape}"
            )
        return default_mask * self.mask.to(default_mask.dtype)


# ---- functions


def identity(module: Module, name: str) -> Module:
    """Give a parameter a mask of ones.

    Args:
        module: the module.
        name: the name of the parameter.

    Returns:
        The module.
    """
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str, amount: _Amount) -> Module:
    """Prune elements at random.

    Args:
        module: the module.
        name: the name of the parameter.
        amount: how many, or which part of all.

    Returns:
        The module.

    Example:
        >>> from tapegrad.nn.utils import prune
        >>> layer = prune.random_unstructured(torch.nn.Linear(3, 4), "weight", 5)
        >>> (layer.weight == 0).sum()
        tensor(5)
    """
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(
    module: Module, name: str, amount: _Amount, importance_scores: Tensor | None = None
) -> Module:
    """Prune the elements that are nearest to zero.

    Args:
        module: the module.
        name: the name of the parameter.
        amount: how many, or which part of all.
        importance_scores: what is compared; the parameter's values if None.

    Returns:
        The module.

    Example:
        >>> from tapegrad.nn.utils import prune
        >>> layer = prune.l1_unstructured(torch.nn.Linear(2, 3), "weight", amount=0.5)
        >>> sorted(layer.state_dict())
        ['bias', 'weight_mask', 'weight_orig']
    """
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: Module, name: str, amount: _Amount, dim: int) -> Module:
    """Prune whole channels at random.

    Args:
        module: the module.
        name: the name of the parameter.
        amount: how many, or which part of all.
        dim: the dimension of the channels.

    Returns:
        The module.
    """
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Module,
    name: str,
    amount: _Amount,
    n: Any,
    dim: int,
    importance_scores: Tensor | None = None,
) -> Module:
    """Prune the channels of the smallest norm.

    Args:
        module: the module.
        name: the name of the parameter.
        amount: how many, or which part of all.
        n: the n of the norm.
        dim: the dimension of the channels.
        importance_scores: what is compared; the parameter's values if None.

    Returns:
        The module.
    """
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: Module, name: str, mask: Tensor) -> Module:
    """Prune what a given mask says.

    Args:
        module: the module.
        name: the name of the parameter.
        mask: zeros and ones, of the parameter's shape.

    Returns:
        The module.
    """
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Module, str]],
    pruning_method: Callable[..., Any],
    importance_scores: Mapping[tuple[Module, str], Tensor] | None = None,
    **kwargs: Any,
) -> None:
    """Prune several parameters as if they were one.

    Args:
        parameters: pairs of a module and the name of its parameter.
        pruning_method: a class of methods for elements, such as L1Unstructured.
        importance_scores: what is compared, by pair; the parameters' values where there is none.
        kwargs: arguments of the method.
    """
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    pairs = list(parameters)
    importance_scores = {} if importance_scores is None else importance_scores
    if not isinstance(importance_scores, Mapping):
        raise TypeError("global_unstructured(): importance_scores is not a Mapping")
    flat_scores = parameters_to_vector(
        [importance_scores.get(pair, getattr(*pair)).detach() for pair in pairs]
    )
    masks_so_far = [
        getattr(module, name + "_mask", _C.ones_like(getattr(module, name).detach()))
        for module, name in pairs
    ]
    container = PruningContainer()
    container._tensor_name = "temp"
    method = pruning_method(**kwargs)
    method._tensor_name = "temp"
    container.add_pruning_method(method)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method '
            f"{pruning_method} of type {method.PRUNING_TYPE}"
        )
    mask = container.compute_mask(flat_scores, parameters_to_vector(masks_so_far))
    start = 0
    for module, name in pairs:
        value = getattr(module, name)
        part = mask[start : start + value.numel()].reshape(value.shape)
        custom_from_mask(module, name, part.clone())
        start += value.numel()


def remove(module: Module, name: str) -> Module:
    """Make a pruned parameter a plain one, with its zeros.

    Args:
        module: the module.
        name: the name of the parameter.

    Returns:
        The module.
    """
    found = find_hook(module, BasePruningMethod, name, "_tensor_name")
    if found is None:
        raise ValueError(
            f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed"
        )
    key, method = found
    method.remove(module)
    pop_hook(module, key)
    return module


def is_pruned(module: Module) -> bool:
    """Whether any parameter of a module, or of one below it, is pruned.

    Args:
        module: the module.

    Example:
        >>> from tapegrad.nn.utils import prune
        >>> prune.is_pruned(torch.nn.Linear(2, 3))
        False
    """
    return any(
        isinstance(hook, BasePruningMethod)
        for part in module.modules()
        for hook in part._forward_pre_hooks.values()
    )
