"""`torch.tpu.optimizers`: torch_tpu's optimizers, which have no state of their own.

Parameters and state are in a `ParamGroup`. `optimizer(group, grads)` updates its tensors in place, and returns it.
"""

from __future__ import annotations

import abc
import dataclasses
import types

import pytpu as torch

from ..utils import _pytree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from pytpu import Tensor


__all__ = ["AdamW", "Optimizer", "Sgd"]


class Optimizer(abc.ABC):
    """Base class of the optimizers of this module.

    Args:
        lr: Learning rate.
        weight_decay: Factor of the weight decay.
    """

    _HYPERPARAMETERS: tuple[str, ...] = ("lr", "weight_decay")

    def __init__(self, lr: float = 1e-3, weight_decay: float = 0.0) -> None:
        self._lr, self._weight_decay = lr, weight_decay

    @property
    def defaults(self) -> Mapping[str, Any]:
        """The hyperparameters by name. They cannot be changed."""
        return types.MappingProxyType({name: getattr(self, f"_{name}") for name in self._HYPERPARAMETERS})

    @abc.abstractmethod
    def init_param_group(self, params: torch.nn.Module | Mapping[str, Tensor]) -> Any:
        """Return a group of the parameters with new state.

        Args:
            params: A module, whose parameters are named with "_" in place of ".", or tensors by name.
        """

    @abc.abstractmethod
    def step(self, param_group: Any, grads: Mapping[str, Tensor]) -> Any:
        """Update the parameters and the state in place, and return the group.

        Args:
            param_group: Group that `init_param_group` or `step` returned.
            grads: Gradient of each parameter, by its name.
        """

    def __call__(self, param_group: Any, grads: Mapping[str, Tensor]) -> Any:
        """Call `step`."""
        return self.step(param_group, grads)


def _by_name(params):
    if isinstance(params, torch.nn.Module):
        return {name.replace(".", "_"): p.detach() for name, p in params.named_parameters()}
    return params


def _zeros(params, dtype=None):
    return {name: torch.zeros_like(p, dtype=dtype) for name, p in params.items()}


def _steps(params):
    return {name: torch.zeros((), device=p.device) for name, p in params.items()}


class AdamW(Optimizer):
    """AdamW without state of its own.

    The formula is that of `torch.optim.AdamW`.

    Args:
        lr: Learning rate.
        weight_decay: Factor of the weight decay.
        beta1: Factor of the running mean of the gradient.
        beta2: Factor of the running mean of its square.
        eps: Number added to the denominator.
        use_bfloat16_moments: If `True`, keep the running means in `bfloat16`.
        amsgrad: Not supported.
        maximize: If `True`, maximize the objective.
        foreach: Accepted for compatibility.
        capturable: Accepted for compatibility.
        differentiable: Accepted for compatibility.
        fused: Accepted for compatibility.
        grad_scale: Tensor that gradients are divided by first.
        found_inf: Not supported.

    Example:
        >>> import pytpu as torch
        >>> from pytpu.tpu.optimizers import AdamW
        >>> optimizer = AdamW(lr=0.1, weight_decay=0.0)
        >>> group = optimizer.init_param_group({"w": torch.ones(2)})
        >>> group = optimizer(group, {"w": torch.ones(2)})
        >>> group.params["w"]
        tensor([0.9000, 0.9000])

    Source:
        Loshchilov and Hutter, "Decoupled Weight Decay Regularization", 2019.
    """

    @dataclasses.dataclass
    class ParamGroup:
        """Parameters, running means of gradients and of their squares, and numbers of steps, each by name."""

        params: dict
        opt_state_m: dict = dataclasses.field(default_factory=dict)
        opt_state_v: dict = dataclasses.field(default_factory=dict)
        opt_steps: dict = dataclasses.field(default_factory=dict)

    _HYPERPARAMETERS = (
        "lr",
        "weight_decay",
        "beta1",
        "beta2",
        "eps",
        "use_bfloat16_moments",
        "amsgrad",
        "maximize",
        "foreach",
        "capturable",
        "differentiable",
        "fused",
        "grad_scale",
        "found_inf",
    )

    def __init__(
        self,
        lr: float = 1e-3,
        weight_decay: float = 1e-2,
        beta1: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-8,
        use_bfloat16_moments: bool = True,
        amsgrad: bool = False,
        maximize: bool = False,
        foreach: bool = False,
        capturable: bool = True,
        differentiable: bool = False,
        fused: bool = False,
        grad_scale: Tensor | None = None,
        found_inf: Tensor | None = None,
    ) -> None:
        if amsgrad or found_inf is not None:
            raise NotImplementedError(
                "torch.tpu.optimizers.AdamW: amsgrad and found_inf are not supported; torch.optim.AdamW has them"
            )
        super().__init__(lr, weight_decay)
        self._beta1, self._beta2, self._eps, self._use_bfloat16_moments = beta1, beta2, eps, use_bfloat16_moments
        self._amsgrad, self._maximize, self._foreach, self._capturable = amsgrad, maximize, foreach, capturable
        self._differentiable, self._fused, self._grad_scale, self._found_inf = (
            differentiable,
            fused,
            grad_scale,
            found_inf,
        )

    def init_param_group(self, params: torch.nn.Module | Mapping[str, Tensor]) -> AdamW.ParamGroup:
        """Return a group of the parameters, with running means of zero.

        Args:
            params: A module, whose parameters are named with "_" in place of ".", or tensors by name.
        """
        named = _by_name(params)
        dtype = torch.bfloat16 if self._use_bfloat16_moments else None
        return self.ParamGroup(named, _zeros(named, dtype), _zeros(named, dtype), _steps(named))

    @torch.no_grad()
    def step(self, param_group: Any, grads: Mapping[str, Tensor]) -> Any:
        """Update the parameters and the state in place, and return the group.

        Args:
            param_group: Group that `init_param_group` or `step` returned.
            grads: Gradient of each parameter, by its name.
        """
        for name, p in param_group.params.items():
            g, m, v = grads[name], param_group.opt_state_m[name], param_group.opt_state_v[name]
            if self._grad_scale is not None:
                g = g / self._grad_scale
            if self._maximize:
                g = -g
            # Averages are computed in the dtype of the gradient, and rounded when they are stored.
            steps = param_group.opt_steps[name].add_(1)
            mean = torch.lerp(m.to(g.dtype), g, 1 - self._beta1)
            square = v.to(g.dtype) * self._beta2 + g * g * (1 - self._beta2)
            m.copy_(mean)
            v.copy_(square)
            p.mul_(1 - self._lr * self._weight_decay)
            root = (square / (1 - self._beta2**steps)).sqrt() + self._eps
            p.sub_(self._lr / (1 - self._beta1**steps) * mean / root)
        return param_group


class Sgd(Optimizer):
    """Stochastic gradient descent without state of its own.

    The formula is that of `torch.optim.SGD`.

    Args:
        lr: Learning rate.
        momentum: Factor of the buffer. `0` turns momentum off.
        dampening: Part of the gradient that does not enter the buffer.
        weight_decay: Factor of the L2 penalty.
        nesterov: If `True`, use Nesterov momentum.
        maximize: If `True`, maximize the objective.
        foreach: Accepted for compatibility.
        fused: Accepted for compatibility.

    Raises:
        ValueError: If Nesterov momentum is combined with dampening, or used without momentum.

    Example:
        >>> import pytpu as torch
        >>> from pytpu.tpu.optimizers import Sgd
        >>> optimizer = Sgd(lr=0.1)
        >>> group = optimizer.init_param_group({"w": torch.ones(2)})
        >>> optimizer(group, {"w": torch.ones(2)}).params["w"]
        tensor([0.9000, 0.9000])
    """

    @dataclasses.dataclass
    class ParamGroup:
        """Parameters, momentum buffers, and numbers of steps, each by name."""

        params: dict
        opt_state_m: dict = dataclasses.field(default_factory=dict)
        opt_steps: dict = dataclasses.field(default_factory=dict)

    _HYPERPARAMETERS = ("lr", "weight_decay", "momentum", "dampening", "nesterov", "maximize", "foreach", "fused")

    def __init__(
        self,
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        maximize: bool = False,
        foreach: bool = False,
        fused: bool = True,
    ) -> None:
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        super().__init__(lr, weight_decay)
        self._momentum, self._dampening, self._nesterov, self._maximize = momentum, dampening, nesterov, maximize
        self._foreach, self._fused = foreach, fused

    def init_param_group(self, params: torch.nn.Module | Mapping[str, Tensor]) -> Sgd.ParamGroup:
        """Return a group of the parameters. It has buffers only with momentum.

        Args:
            params: A module, whose parameters are named with "_" in place of ".", or tensors by name.
        """
        named = _by_name(params)
        return self.ParamGroup(named, _zeros(named) if self._momentum else {}, _steps(named))

    @torch.no_grad()
    def step(self, param_group: Any, grads: Mapping[str, Tensor]) -> Any:
        """Update the parameters and the state in place, and return the group.

        Args:
            param_group: Group that `init_param_group` or `step` returned.
            grads: Gradient of each parameter, by its name.
        """
        for name, p in param_group.params.items():
            g = -grads[name] if self._maximize else grads[name]
            if self._weight_decay:
                g = g + p * self._weight_decay
            if self._momentum:
                sum_of_gradients = param_group.opt_state_m[name]
                sum_of_gradients.mul_(self._momentum).add_(g, alpha=1 - self._dampening)
                g = g + sum_of_gradients * self._momentum if self._nesterov else sum_of_gradients
            p.sub_(g, alpha=self._lr)
            param_group.opt_steps[name].add_(1)
        return param_group


for _group, _fields in (
    (AdamW.ParamGroup, ("params", "opt_state_m", "opt_state_v", "opt_steps")),
    (Sgd.ParamGroup, ("params", "opt_state_m", "opt_steps")),
):
    _pytree.register_pytree_node(
        _group,
        lambda group, fields=_fields: ([getattr(group, name) for name in fields], None),
        lambda children, _, group=_group: group(*children),
    )
del _group, _fields
