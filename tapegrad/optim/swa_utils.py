"""Averages of a model's weights over the course of training (SWA and EMA)."""

import math
from collections.abc import Callable, Iterable
from typing import Any

import tapegrad
from tapegrad import Tensor, nn
from tapegrad.optim.lr_scheduler.scheduler import LRScheduler, one_per_group
from tapegrad.optim.optimizer import Optimizer, number

__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]

Tensors = list[Tensor]
_Module: Any = getattr(nn, "Module", object)


def _check_decay(decay: float) -> None:
    if not 0.0 <= decay <= 1.0:
        raise ValueError(
            f"get_ema_avg_fn: Invalid decay value {decay} provided. Please provide a value in "
            "[0,1] range."
        )


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable[[Tensors, Tensors, Any], None]:
    """Return a function that moves averages towards present values by ``1 - decay`` of the way.

    Args:
        decay: how much of the averages each update keeps.

    Returns:
        A function of a list of averages, which it changes, a list of values, and the number of
        updates so far, which it does not need.

    Example:
        >>> average, value = torch.tensor([0.0]), torch.tensor([1.0])
        >>> torch.optim.swa_utils.get_ema_multi_avg_fn(0.75)([average], [value], 1)
        >>> average
        tensor([0.2500])
    """
    _check_decay(decay)

    def ema_update(averages: Tensors, values: Tensors, num_averaged: Any) -> None:
        with tapegrad.no_grad():
            for average, value in zip(averages, values, strict=True):
                if average.is_floating_point():
                    average.lerp_(value, 1 - decay)
                else:
                    average.copy_(average * decay + value * (1 - decay))

    return ema_update


def get_swa_multi_avg_fn() -> Callable[[Tensors, Tensors, Any], None]:
    """Return a function that updates averages in which all values have the same weight.

    Returns:
        A function of a list of averages, which it changes, a list of values, and the number of
        values averaged so far.

    Example:
        >>> average, value = torch.tensor([1.0]), torch.tensor([4.0])
        >>> torch.optim.swa_utils.get_swa_multi_avg_fn()([average], [value], 2)
        >>> average
        tensor([2.])
    """

    def swa_update(averages: Tensors, values: Tensors, num_averaged: Any) -> None:
        share = 1 / (number(num_averaged) + 1)
        with tapegrad.no_grad():
            for average, value in zip(averages, values, strict=True):
                if average.is_floating_point():
                    average.lerp_(value, share)
                else:
                    average.copy_(average + (value - average) * share)

    return swa_update


def get_ema_avg_fn(decay: float = 0.999) -> Callable[[Tensor, Tensor, Any], Tensor]:
    """Return a function that computes an exponential moving average of one tensor.

    Args:
        decay: how much of the average each update keeps.

    Returns:
        A function of the average, the value and the number of updates so far, which returns the
        new average.

    Example:
        >>> torch.optim.swa_utils.get_ema_avg_fn(0.75)(torch.tensor(0.0), torch.tensor(1.0), 1)
        tensor(0.2500)
    """
    _check_decay(decay)

    def ema_update(average: Tensor, value: Tensor, num_averaged: Any) -> Tensor:
        with tapegrad.no_grad():
            return decay * average + (1 - decay) * value

    return ema_update


def get_swa_avg_fn() -> Callable[[Tensor, Tensor, Any], Tensor]:
    """Return a function that computes the equally weighted average of one tensor.

    Returns:
        A function of the average, the value and the number of values averaged so far, which returns
        the new average.

    Example:
        >>> torch.optim.swa_utils.get_swa_avg_fn()(torch.tensor(1.0), torch.tensor(4.0), 2)
        tensor(2.)
    """

    def swa_update(average: Tensor, value: Tensor, num_averaged: Any) -> Tensor:
        with tapegrad.no_grad():
            return average + (value - average) / (num_averaged + 1)

    return swa_update


class AveragedModel(_Module):
    """A copy of a model whose parameters are averages of the model's.

    Args:
        model: the model to average.
        device: where to keep the copy; by default where the model is.
        avg_fn: computes a new average of one parameter from the old one, the present value and the
            number of values so far.
        multi_avg_fn: updates lists of averages in place. By default all values have equal weights.
        use_buffers: average the buffers too; otherwise they are copied.
    """

    def __init__(
        self,
        model: Any,
        device: Any = None,
        avg_fn: Callable[[Tensor, Tensor, Any], Tensor] | None = None,
        multi_avg_fn: Callable[[Tensors, Tensors, Any], None] | None = None,
        use_buffers: bool = False,
    ) -> None:
        import copy

        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError(
                "AveragedModel: Only one of avg_fn and multi_avg_fn should be provided"
            )
        self.module = copy.deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", tapegrad.tensor(0, dtype=tapegrad.int64, device=device))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the averaged copy."""
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Any) -> None:
        """Take the present parameters of the model into the averages.

        Args:
            model: the model that is trained; it must have the parameters that the copy has.
        """
        averages, values = list(self.module.parameters()), list(model.parameters())
        own_buffers, buffers = list(self.module.buffers()), list(model.buffers())
        if self.use_buffers:
            averages, values = averages + own_buffers, values + buffers
        averages = [average.detach() for average in averages]
        pairs = zip(averages, values, strict=True)
        values = [value.detach().to(average.device) for average, value in pairs]
        update_averages(averages, values, self.n_averaged, self.avg_fn, self.multi_avg_fn)
        if not self.use_buffers:
            for own, buffer in zip(own_buffers, buffers, strict=True):
                own.detach().copy_(buffer.detach().to(own.device))
        self.n_averaged += 1


def update_averages(
    averages: Tensors,
    values: Tensors,
    num_averaged: Any,
    avg_fn: Callable[[Tensor, Tensor, Any], Tensor] | None = None,
    multi_avg_fn: Callable[[Tensors, Tensors, Any], None] | None = None,
) -> None:
    """Take values into averages: the first are copied, the following go through a function."""
    if number(num_averaged) == 0:
        for average, value in zip(averages, values, strict=True):
            average.copy_(value)
    elif avg_fn is not None:
        for average, value in zip(averages, values, strict=True):
            average.copy_(avg_fn(average, value, num_averaged))
    else:
        update = multi_avg_fn or get_swa_multi_avg_fn()
        by_dtype: dict[Any, tuple[Tensors, Tensors]] = {}
        for average, value in zip(averages, values, strict=True):
            same = by_dtype.setdefault((average.device, average.dtype), ([], []))
            same[0].append(average)
            same[1].append(value)
        for same_averages, same_values in by_dtype.values():
            update(same_averages, same_values, num_averaged)


def update_bn(loader: Iterable[Any], model: Any, device: Any = None) -> None:
    """Recompute the running statistics of a model's batch norms in one pass over data.

    Args:
        loader: gives batches: tensors, or lists or tuples whose first element is the input.
        model: the model, such as an `AveragedModel`, which has never seen data itself.
        device: where to move the inputs first.
    """
    names = ("BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "SyncBatchNorm")
    kinds = tuple(getattr(nn, name) for name in names if hasattr(nn, name))
    norms = [module for module in model.modules() if isinstance(module, kinds)]
    if not norms:
        return
    momenta = [norm.momentum for norm in norms]
    training = model.training
    model.train()
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # a plain average over all batches
    with tapegrad.no_grad():
        for batch in loader:
            x = batch[0] if isinstance(batch, list | tuple) else batch
            model(x if device is None else x.to(device))
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
    model.train(training)


class SWALR(LRScheduler):
    """Takes the rates to a fixed value and leaves them there.

    Args:
        optimizer: its groups' learning rates are set.
        swa_lr: the value, or a list with one for each group.
        anneal_epochs: how many epochs the way takes.
        anneal_strategy: ``"cos"`` or ``"linear"``.
        last_epoch: the epoch that is behind; -1 starts afresh.

    Example:
        >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
        >>> scheduler = torch.optim.swa_utils.SWALR(
        ...     optimizer, swa_lr=0.5, anneal_epochs=2, anneal_strategy="linear"
        ... )
        >>> rates = []
        >>> for _ in range(3):
        ...     optimizer.step()
        ...     scheduler.step()
        ...     rates += scheduler.get_last_lr()
        >>> rates
        [0.75, 0.5, 0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | list[float],
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        lrs = one_per_group("swa_lr", optimizer, swa_lr)
        for lr, group in zip(lrs, optimizer.param_groups, strict=True):
            group["swa_lr"] = lr
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                "SWALR: anneal_strategy must be one of 'cos' or 'linear', instead got "
                f"{anneal_strategy}"
            )
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(
                f"SWALR: anneal_epochs must be equal or greater than 0, got {anneal_epochs}"
            )
        self._anneal_strategy = anneal_strategy
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _done(self, step: int) -> float:
        """Return how much of the way is done after some steps."""
        t = max(0.0, min(1.0, step / max(1, self.anneal_epochs)))
        return t if self._anneal_strategy == "linear" else (1 - math.cos(math.pi * t)) / 2

    def get_lr(self) -> list[Any]:
        """Return the rates that follow the present ones on the way to ``swa_lr``."""
        self._check_called_within_step()
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._done(step - 1), self._done(step)
        rates = []
        for group in self.optimizer.param_groups:
            end = group["swa_lr"]
            start = end if before == 1 else (group["lr"] - before * end) / (1 - before)
            rates.append(end * now + start * (1 - now))
        return rates
