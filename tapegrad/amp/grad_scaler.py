"""Scaling of losses, so that small gradients in float16 do not become zero."""

import warnings
from collections import defaultdict
from collections.abc import Iterable
from enum import Enum
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad.autograd.grad_mode import no_grad

__all__ = ["GradScaler", "OptState"]


class OptState(Enum):
    """What has been done with the gradients of an optimizer since the last `GradScaler.update`."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


def _new_state() -> dict[str, Any]:
    return {"stage": OptState.READY, "found_inf_per_device": {}}


class _OnEachDevice:
    """A tensor of one number, and its copies on other devices, made when they are asked for."""

    def __init__(self, number: Tensor) -> None:
        self.number = number
        self.copies: dict[Any, Tensor] = {}

    def get(self, device: Any) -> Tensor:
        if device not in self.copies:
            self.copies[device] = self.number.to(device=device, non_blocking=True)
        return self.copies[device]


class GradScaler:
    """Multiplies losses by a scale, divides gradients by it, and finds the largest that works.

    Gradients that overflow are a sign that the scale is too large: the optimizer's step is left
    out, and `update` makes the scale smaller. After enough steps without one it becomes larger.

    Args:
        device: ``"cuda"`` or ``"cpu"``.
        init_scale: the scale at the beginning.
        growth_factor: what the scale is multiplied by after `growth_interval` steps in a row.
        backoff_factor: what it is multiplied by after gradients with infinities or NaN.
        growth_interval: so many steps in a row without these make the scale grow.
        enabled: whether anything is scaled. If not, `step` is the optimizer's own, and the rest
            does nothing.

    Example:
        >>> x = torch.tensor([1.0], requires_grad=True)
        >>> optimizer = torch.optim.SGD([x], lr=0.5)
        >>> scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        >>> scaler.scale((x * x).sum()).backward()
        >>> x.grad
        tensor([2048.])
        >>> scaler.step(optimizer)
        >>> scaler.update()
        >>> x.detach(), scaler.get_scale()
        (tensor([0.]), 1024.0)
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        self._device = device
        self._enabled = enabled
        if enabled and device == "cuda":
            from tapegrad import cuda

            if not cuda.is_available():
                warnings.warn(
                    "torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.",
                    stacklevel=2,
                )
                self._enabled = False
        if not self._enabled:
            return
        if growth_factor <= 1.0:
            raise AssertionError("The growth factor must be > 1.0.")
        if backoff_factor >= 1.0:
            raise AssertionError("The backoff factor must be < 1.0.")
        self._init_scale = init_scale
        self._init_growth_tracker = 0
        # Made by the first scale(), on the device of what is scaled.
        self._scale: Tensor | None = None
        self._growth_tracker: Tensor | None = None
        self._growth_factor = growth_factor
        self._backoff_factor = backoff_factor
        self._growth_interval = growth_interval
        self._per_optimizer_states: dict[int, dict[str, Any]] = defaultdict(_new_state)

    def _tensors(self, method: str) -> tuple[Tensor, Tensor]:
        """Return the scale and the count of steps, which the first scale() has made."""
        for name in ("_scale", "_growth_tracker"):
            if getattr(self, name) is None:
                raise AssertionError(
                    f"Attempted {method} but {name} is None.  This may indicate your script did "
                    "not use scaler.scale(loss or outputs) earlier in the iteration."
                )
        assert self._scale is not None and self._growth_tracker is not None
        return self._scale, self._growth_tracker

    def _scale_on(self, device: Any) -> Tensor:
        if self._scale is None:
            if _C._cuda_is_capturing():
                raise RuntimeError(
                    "GradScaler.scale: the scale cannot be made in a CUDA graph, which would make "
                    "it anew in every replay; run an iteration before the capture"
                )
            self._scale = _C.full((), self._init_scale, dtype=_C.float32, device=device)
            self._growth_tracker = _C.full(
                (), self._init_growth_tracker, dtype=_C.int32, device=device
            )
        return self._scale

    # ---- losses

    def scale(self, outputs: Any) -> Any:
        """Multiply a tensor, or tensors in lists, tuples and other iterables, by the scale.

        Args:
            outputs: the tensor or tensors.

        Returns:
            The same, scaled; as they are if nothing is enabled.
        """
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            device = outputs.device
            return outputs * self._scale_on(device).to(device=device, non_blocking=True)
        copies: list[_OnEachDevice] = []

        def scaled(value: Any) -> Any:
            if isinstance(value, Tensor):
                if not copies:
                    copies.append(_OnEachDevice(self._scale_on(value.device)))
                return value * copies[0].get(value.device)
            if isinstance(value, Iterable):
                items = map(scaled, value)
                return type(value)(items) if isinstance(value, (list, tuple)) else items  # type: ignore[call-arg]
            raise ValueError("outputs must be a Tensor or an iterable of Tensors")

        return scaled(outputs)

    # ---- gradients

    def _unscale_grads_(
        self, optimizer: Any, inv_scale: Tensor, found_inf: Tensor, allow_fp16: bool
    ) -> dict[Any, Tensor]:
        """Multiply all gradients, and note infinities; return what was found on each device."""
        factors, found = _OnEachDevice(inv_scale), _OnEachDevice(found_inf)
        groups: dict[Any, list[Tensor]] = defaultdict(list)
        for group in optimizer.param_groups:
            for param in group["params"]:
                if not isinstance(param, Tensor):
                    raise AssertionError(
                        f"expected param to be torch.Tensor, got {type(param).__name__}"
                    )
                grad = param.grad
                if grad is None:
                    continue
                if not allow_fp16 and grad.dtype is _C.float16:
                    raise ValueError("Attempting to unscale FP16 gradients.")
                groups[grad.device, grad.dtype].append(grad)
        for (device, _), grads in groups.items():
            _C._amp_foreach_non_finite_check_and_unscale_(
                grads, found.get(device), factors.get(device)
            )
        return found.copies

    def unscale_(self, optimizer: Any) -> None:
        """Divide the gradients of an optimizer's parameters by the scale.

        `step` does so unless it has been done; a call before it is for those who look at the
        gradients or clip them. It may be called once for each step, after the last backward.

        Args:
            optimizer: the optimizer.

        Example:
            >>> x = torch.tensor([3.0], requires_grad=True)
            >>> optimizer = torch.optim.SGD([x], lr=0.5)
            >>> scaler = torch.amp.GradScaler("cpu")
            >>> scaler.scale((x * x).sum()).backward()
            >>> scaler.unscale_(optimizer)
            >>> torch.nn.utils.clip_grad_norm_([x], 1.0)
            tensor(6.)
            >>> scaler.step(optimizer)
            >>> scaler.update()
            >>> x.detach()
            tensor([2.5000])
        """
        if not self._enabled:
            return
        scale, _ = self._tensors("unscale_")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.UNSCALED:
            raise RuntimeError(
                "unscale_() has already been called on this optimizer since the last update()."
            )
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        with no_grad():
            inv_scale = scale.double().reciprocal().float()
        found_inf = _C.zeros((), dtype=_C.float32, device=scale.device)
        state["found_inf_per_device"] = self._unscale_grads_(optimizer, inv_scale, found_inf, False)
        state["stage"] = OptState.UNSCALED

    # ---- steps

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """Let an optimizer take its step, unless a gradient is infinite or NaN.

        Gradients are divided by the scale first, where `unscale_` has not done it.

        Args:
            optimizer: the optimizer.
            args: further arguments of its step.
            kwargs: the same by name. A closure is refused.

        Returns:
            What the step returns; None where it is left out.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self._tensors("step")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if getattr(optimizer, "_step_supports_amp_scaling", False):
            return self._scaling_step(optimizer, state, args, kwargs)
        if state["stage"] is OptState.READY:
            self.unscale_(optimizer)
        if not state["found_inf_per_device"]:
            raise AssertionError("No inf checks were recorded for this optimizer.")
        if self._leaves_steps_out(optimizer):
            found = list(state["found_inf_per_device"].values())
            optimizer._found_inf = self._sum_of(found)
            try:
                result = optimizer.step(*args, **kwargs)
            finally:
                del optimizer._found_inf
        else:
            result = self._maybe_opt_step(optimizer, state, *args, **kwargs)
        state["stage"] = OptState.STEPPED
        return result

    @staticmethod
    def _leaves_steps_out(optimizer: Any) -> bool:
        """Whether the optimizer's kernels leave out a step, so that the host need not look."""
        takes = getattr(optimizer, "_takes_found_inf", None)
        return takes is not None and takes()

    def _sum_of(self, found: list[Tensor]) -> Tensor:
        scale, _ = self._tensors("step")
        moved = [each.to(device=scale.device, non_blocking=True) for each in found]
        return moved[0] if len(moved) == 1 else _C.stack(moved).sum()

    def _maybe_opt_step(
        self, optimizer: Any, optimizer_state: dict[str, Any], *args: Any, **kwargs: Any
    ) -> Any:
        if any(found.item() for found in optimizer_state["found_inf_per_device"].values()):
            return None
        return optimizer.step(*args, **kwargs)

    def _scaling_step(
        self, optimizer: Any, state: dict[str, Any], args: Any, kwargs: dict[str, Any]
    ) -> Any:
        """Take the step of an optimizer that divides by the scale, and looks for infinities."""
        import inspect  # slow to load, and few optimizers need it

        if "grad_scaler" in inspect.signature(optimizer.step).parameters:
            warnings.warn(
                "GradScaler is going to stop passing itself as a keyword argument to the passed "
                "optimizer. In the near future GradScaler registers `grad_scale: Tensor` and "
                "`found_inf: Tensor` to the passed optimizer and let the optimizer use them "
                "directly.",
                FutureWarning,
                stacklevel=3,
            )
            result = optimizer.step(*args, **kwargs, grad_scaler=self)
            state["stage"] = OptState.STEPPED
            return result
        if state["stage"] is OptState.READY:
            self._check_inf_per_device(optimizer)
        scale, _ = self._tensors("step")
        found = [
            each.to(scale.device, non_blocking=True)
            for each in state["found_inf_per_device"].values()
        ]
        given = getattr(optimizer, "grad_scale", None)
        if state["stage"] is OptState.READY:
            given = scale * (1 if given is None else given)
        optimizer.grad_scale, optimizer.found_inf = given, sum(found)
        result = optimizer.step(*args, **kwargs)
        state["stage"] = OptState.STEPPED
        del optimizer.grad_scale, optimizer.found_inf
        return result

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Make the scale smaller after infinities or NaN, and larger after enough steps without.

        Call it once at the end of an iteration, after the steps of all optimizers.

        Args:
            new_scale: the scale from now on, in place of that.
        """
        if not self._enabled:
            return
        scale, tracker = self._tensors("update")
        if new_scale is not None:
            self._set_scale(scale, new_scale)
        else:
            found = [
                each
                for state in self._per_optimizer_states.values()
                for each in state["found_inf_per_device"].values()
            ]
            if not found:
                raise AssertionError("No inf checks were recorded prior to update.")
            _C._amp_update_scale_(
                scale,
                tracker,
                self._sum_of(found),
                self._growth_factor,
                self._backoff_factor,
                self._growth_interval,
            )
        self._per_optimizer_states = defaultdict(_new_state)

    def _set_scale(self, scale: Tensor, new_scale: float | Tensor) -> None:
        if isinstance(new_scale, float):
            scale.fill_(new_scale)
            return
        fits = (
            isinstance(new_scale, Tensor)
            and new_scale.device.type == self._device
            and new_scale.numel() == 1
            and not new_scale.requires_grad
        )
        if not fits:
            raise AssertionError(
                "new_scale should be a float or a 1-element torch.cuda.FloatTensor or "
                "torch.FloatTensor with requires_grad=False."
            )
        scale.copy_(new_scale.reshape(()))

    # ---- settings

    def _get_scale_async(self) -> Tensor | None:
        return self._scale

    def get_scale(self) -> float:
        """Return the scale, 1.0 if nothing is enabled. Waits for the device."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else float(self._scale.item())

    def get_growth_factor(self) -> float:
        """Return what the scale is multiplied by when it grows."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Set what the scale is multiplied by when it grows.

        Args:
            new_factor: the factor.
        """
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """Return what the scale is multiplied by after infinities or NaN."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Set what the scale is multiplied by after infinities or NaN.

        Args:
            new_factor: the factor.
        """
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """Return after how many steps in a row the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Set after how many steps in a row the scale grows.

        Args:
            new_interval: the number of steps.
        """
        self._growth_interval = new_interval

    def _get_growth_tracker(self) -> int:
        if not self._enabled:
            return 0
        tracker = self._growth_tracker
        return self._init_growth_tracker if tracker is None else int(tracker.item())

    def is_enabled(self) -> bool:
        """Whether anything is scaled."""
        return self._enabled

    # ---- saving

    def state_dict(self) -> dict[str, Any]:
        """Return the state: scale, factors, interval, steps in a row. Call it after `update`.

        Returns:
            A dict of numbers; an empty one if nothing is enabled.
        """
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._get_growth_tracker(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` of another has returned.

        Args:
            state_dict: the state.
        """
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled "
                "instance of GradScaler."
            )
        self._init_scale = state_dict["scale"]
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._init_growth_tracker = state_dict["_growth_tracker"]
        if self._scale is not None:
            self._scale.fill_(self._init_scale)
        if self._growth_tracker is not None:
            self._growth_tracker.fill_(self._init_growth_tracker)

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        if self._enabled:
            if self._per_optimizer_states:
                raise AssertionError(
                    "A GradScaler instance may only be pickled at the beginning of an iteration, "
                    "or at the end after scaler.update()."
                )
            # The tensors are made again by the next scale().
            state["_init_scale"] = self.get_scale()
            state["_init_growth_tracker"] = self._get_growth_tracker()
            state["_scale"] = state["_growth_tracker"] = None
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    # ---- for optimizers that scale by themselves

    def _check_inf_per_device(self, optimizer: Any) -> dict[Any, Tensor]:
        scale, _ = self._tensors("_check_inf_per_device")
        one = _C.ones((), dtype=_C.float32, device=scale.device)
        found_inf = _C.zeros((), dtype=_C.float32, device=scale.device)
        state = self._per_optimizer_states[id(optimizer)]
        found: dict[Any, Tensor] = self._unscale_grads_(optimizer, one, found_inf, True)
        state["found_inf_per_device"] = found
        return found

    def _found_inf_per_device(self, optimizer: Any) -> dict[Any, Tensor]:
        found: dict[Any, Tensor] = self._per_optimizer_states[id(optimizer)]["found_inf_per_device"]
        return found
