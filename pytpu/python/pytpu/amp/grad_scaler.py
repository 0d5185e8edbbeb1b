"""`GradScaler`: scale losses, so that `float16` gradients do not underflow."""

from __future__ import annotations

import collections
import enum
import warnings

import pytpu as torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from pytpu import Tensor
    from pytpu.optim import Optimizer


__all__ = ["GradScaler", "OptState"]


class OptState(enum.Enum):
    """Stages of an optimizer since the last `update`."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


def _refresh_per_optimizer_state():
    return {"stage": OptState.READY, "found_inf_per_device": {}}


def _device_type(device):
    try:
        return torch.device(device).type
    except RuntimeError:  # Not the name of a device.
        return str(device)


class GradScaler:
    """Scale losses, so that `float16` gradients do not underflow.

    The loss is multiplied by a factor, and the gradients are divided by it. A step with infinite or NaN gradients is
    left out, and the factor shrinks. After `growth_interval` steps without such gradients the factor grows. On `tpu`,
    each `step` reads one number from the device.

    Args:
        device: Device type, or a device of that type, with or without an index.
        init_scale: First factor.
        growth_factor: Ratio by which the factor grows, greater than 1.
        backoff_factor: Ratio by which the factor shrinks, less than 1.
        growth_interval: Number of steps after which the factor grows.
        enabled: If `False`, all methods pass their arguments through.

    Raises:
        AssertionError: If `growth_factor` or `backoff_factor` is out of its range.

    Example:
        >>> import pytpu as torch
        >>> w = torch.ones(2, requires_grad=True)
        >>> optimizer = torch.optim.SGD([w], lr=0.1)
        >>> scaler = torch.amp.GradScaler("cpu")
        >>> scaler.scale((w * w).sum()).backward()
        >>> scaler.step(optimizer)
        >>> scaler.update()
        >>> w.detach()
        tensor([0.8000, 0.8000])
    """

    def __init__(
        self,
        device: str | torch.device = "tpu",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        kind = _device_type(device)
        self._device = kind
        if enabled and kind not in ("cpu", "tpu"):
            warnings.warn(
                f"torch.{kind}.amp.GradScaler is enabled, but {kind.upper()} is not available.  Disabling.",
                stacklevel=2,
            )
            enabled = False
        self._enabled = enabled
        if enabled:
            assert growth_factor > 1.0, "The growth factor must be > 1.0."
            assert backoff_factor < 1.0, "The backoff factor must be < 1.0."
        self._init_scale = init_scale
        self._growth_factor = growth_factor
        self._backoff_factor = backoff_factor
        self._growth_interval = growth_interval
        self._init_growth_tracker = 0
        # Tensors, made when something is scaled for the first time.
        self._scale: Any = None
        self._growth_tracker: Any = None
        self._per_optimizer_states: dict[int, dict[str, Any]] = collections.defaultdict(_refresh_per_optimizer_state)

    def _needs_scale(self, function):
        fix = "This may indicate your script did not use scaler.scale(loss or outputs) earlier in the iteration."
        assert self._scale is not None, f"Attempted {function} but _scale is None.  {fix}"
        assert self._growth_tracker is not None, f"Attempted {function} but _growth_tracker is None.  {fix}"

    def _start(self, device):
        # Made on the host, so that they are arguments of the first program, as they are of later ones.
        self._scale = torch.full((), self._init_scale, dtype=torch.float32).to(device)
        self._growth_tracker = torch.full((), self._init_growth_tracker, dtype=torch.int32).to(device)

    def scale(self, outputs: Tensor | Iterable[Tensor]) -> Tensor | Iterable[Tensor]:
        """Multiply a loss, or each loss of an iterable, by the factor.

        Args:
            outputs: A tensor, or an iterable of tensors.

        Returns:
            The scaled loss. A list or tuple gives the same type, and another iterable an iterator.

        Raises:
            ValueError: If `outputs` is neither a tensor nor an iterable.
        """
        if not self._enabled:
            return outputs
        if isinstance(outputs, torch.Tensor):
            if self._scale is None:
                self._start(outputs.device)
            return outputs * self._scale.to(outputs.device, non_blocking=True)
        if isinstance(outputs, collections.abc.Iterable):
            scaled: Any = map(self.scale, outputs)
            return type(outputs)(scaled) if isinstance(outputs, (list, tuple)) else scaled
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    def _unscale(self, optimizer, allow_fp16):
        from ..nn.utils.clip_grad import placed_like

        by_kind = collections.defaultdict(list)
        for group in optimizer.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                if not allow_fp16 and p.grad.dtype == torch.float16:
                    raise ValueError("Attempting to unscale FP16 gradients.")
                by_kind[p.grad.device, getattr(p.grad, "device_mesh", None)].append(p.grad)
        found = {}
        with torch.no_grad():
            inverse = self._scale.double().reciprocal().float()
            for (device, mesh), grads in by_kind.items():
                overflow = (~torch.stack([g.isfinite().all() for g in grads]).all()).to(torch.float32)
                if mesh is not None:
                    overflow = overflow.full_tensor()
                found[device] = torch.maximum(found[device], overflow) if device in found else overflow
                torch._foreach_mul_(grads, placed_like(inverse, grads[0]))
        return found

    def unscale_(self, optimizer: Optimizer) -> None:
        """Divide the gradients of an optimizer by the factor, for example to clip them.

        Args:
            optimizer: Optimizer whose gradients are divided in place.

        Raises:
            AssertionError: If nothing has been scaled yet.
            RuntimeError: If it was called twice, or after `step`, since the last `update`.
            ValueError: If a gradient is `float16`.
        """
        if not self._enabled:
            return
        self._needs_scale("unscale_")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.UNSCALED:
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        state["found_inf_per_device"] = self._unscale(optimizer, False)
        state["stage"] = OptState.UNSCALED

    def step(self, optimizer: Optimizer, *args: Any, **kwargs: Any) -> Tensor | float | None:
        """Call `optimizer.step`, unless a gradient is infinite or NaN.

        The gradients are divided by the factor first, unless `unscale_` has done that.

        Args:
            optimizer: Optimizer to step.
            args: Arguments of `optimizer.step`.
            kwargs: Arguments of `optimizer.step`. A closure is not supported.

        Returns:
            The result of `optimizer.step`, or `None` if the step is left out.

        Raises:
            AssertionError: If nothing has been scaled, or the optimizer has no gradients.
            RuntimeError: If a closure is given, or it was called twice since the last `update`.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self._needs_scale("step")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if state["stage"] is OptState.READY:
            self.unscale_(optimizer)
        assert state["found_inf_per_device"], "No inf checks were recorded for this optimizer."
        result = None
        if not sum(v.item() for v in state["found_inf_per_device"].values()):
            result = optimizer.step(*args, **kwargs)
        state["stage"] = OptState.STEPPED
        return result

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Set the factor for the next step.

        Args:
            new_scale: New factor. `None` computes it from the steps since the last update.

        Raises:
            AssertionError: If nothing has been scaled, no step was taken, or `new_scale` is a tensor of the wrong kind.
        """
        if not self._enabled:
            return
        self._needs_scale("update")
        if new_scale is not None:
            if isinstance(new_scale, float):
                self._scale.fill_(new_scale)
            else:
                reason = (
                    "new_scale should be a float or a 1-element torch.tpu.FloatTensor or torch.FloatTensor with "
                    "requires_grad=False."
                )
                assert new_scale.device.type == self._device, reason
                assert new_scale.numel() == 1, reason
                assert new_scale.requires_grad is False, reason
                self._scale.copy_(new_scale)
        else:
            found = [
                v.to(self._scale.device, non_blocking=True)
                for state in self._per_optimizer_states.values()
                for v in state["found_inf_per_device"].values()
            ]
            assert found, "No inf checks were recorded prior to update."
            self._follow(sum(found[1:], found[0]) > 0)
        self._per_optimizer_states = collections.defaultdict(_refresh_per_optimizer_state)

    def _follow(self, overflowed):
        """Shrink the factor if gradients were not finite, and grow it after enough steps in which they were."""
        with torch.no_grad():
            tracker = torch.where(overflowed, 0, self._growth_tracker + 1)
            grows = tracker == self._growth_interval
            # The factors are `float64`, and are rounded once.
            exact = self._scale.double()
            grown = (exact * self._growth_factor).float()
            # Keep the factor if the new one would be infinite.
            grown = torch.where(grown.isfinite(), grown, self._scale)
            shrunk = (exact * self._backoff_factor).float()
            scale = torch.where(overflowed, shrunk, torch.where(grows, grown, self._scale))
            self._scale.copy_(scale)
            self._growth_tracker.copy_(torch.where(grows, 0, tracker))

    def get_scale(self) -> float:
        """Return the factor, or `1.0` if the scaler is disabled."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else self._scale.item()

    def get_growth_factor(self) -> float:
        """Return the ratio by which the factor grows."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Set the ratio by which the factor grows."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """Return the ratio by which the factor shrinks."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Set the ratio by which the factor shrinks."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """Return the number of steps after which the factor grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Set the number of steps after which the factor grows."""
        self._growth_interval = new_interval

    def _get_growth_tracker(self):
        if not self._enabled:
            return 0
        return self._init_growth_tracker if self._growth_tracker is None else self._growth_tracker.item()

    def is_enabled(self) -> bool:
        """Return whether the scaler is enabled."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """Return the state as a dict that can be saved. It is empty if the scaler is disabled."""
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
        """Load what `state_dict` returned.

        Args:
            state_dict: State of an enabled scaler.

        Raises:
            RuntimeError: If the dict is empty.
        """
        if not self._enabled:
            return
        if len(state_dict) == 0:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled instance of GradScaler."
            )
        self._init_scale = state_dict["scale"]
        if self._scale is not None:
            self._scale.fill_(state_dict["scale"])
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._init_growth_tracker = state_dict["_growth_tracker"]
        if self._growth_tracker is not None:
            self._growth_tracker.fill_(state_dict["_growth_tracker"])

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        if self._enabled:
            assert len(self._per_optimizer_states) == 0, (
                "A GradScaler instance may only be pickled at the beginning of an iteration, or at the end after "
                "scaler.update()."
            )
            state["_init_scale"] = self.get_scale()
            state["_init_growth_tracker"] = self._get_growth_tracker()
            state["_scale"] = None
            state["_growth_tracker"] = None
        return state
