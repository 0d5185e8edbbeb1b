"""``torch.tpu.optimizers``: torch_tpu's optimisers, which keep nothing themselves.

Parameters and state are in a ``ParamGroup``. ``optimizer(group, grads)`` updates its tensors in place and returns it.

Example:
    >>> optimizer = torch.tpu.optimizers.AdamW(lr=1e-3)
    >>> group = optimizer.init_param_group(model)
    >>> loss.backward()
    >>> group = optimizer(group, {name: p.grad for name, p in zip(group.params, model.parameters())})
"""

import abc
import dataclasses
import types

import pytpu as torch

from ..utils import _pytree

__all__ = ["AdamW", "Optimizer", "Sgd"]


class Optimizer(abc.ABC):
    """What optimisers of this module have in common.

    Args:
        lr: learning rate.
        weight_decay: factor of the decay of weights.
    """

    _HYPERPARAMETERS = ("lr", "weight_decay")

    def __init__(self, lr=1e-3, weight_decay=0.0):
        self._lr, self._weight_decay = lr, weight_decay

    @property
    def defaults(self):
        """The hyperparameters by name. They cannot be changed."""
        return types.MappingProxyType({name: getattr(self, f"_{name}") for name in self._HYPERPARAMETERS})

    @abc.abstractmethod
    def init_param_group(self, params):
        """Return the group of the parameters with fresh state.

        Args:
            params: a module, whose parameters are named with "_" for ".", or tensors by name.
        """

    @abc.abstractmethod
    def step(self, param_group, grads):
        """Update the parameters and the state in place. Return the group.

        Args:
            param_group: what `init_param_group` or `step` returned.
            grads: gradient of each parameter by its name.
        """

    def __call__(self, param_group, grads):
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
    """AdamW, Decoupled Weight Decay Regularization, https://arxiv.org/abs/1711.05101.

    Args:
        lr: learning rate.
        weight_decay: factor of the decay of weights.
        beta1, beta2: what the averages of gradients and of their squares keep in a step.
        eps: added to the root of the average of squares.
        use_bfloat16_moments: whether the averages are kept in ``bfloat16``.
        amsgrad: not supported.
        maximize: whether to go up instead of down.
        foreach, capturable, differentiable, fused: accepted without an effect.
        grad_scale: gradients are divided by this tensor first.
        found_inf: not supported.
    """

    @dataclasses.dataclass
    class ParamGroup:
        """Parameters, averages of gradients and of their squares, numbers of steps, each by name."""

        params: dict
        opt_state_m: dict = dataclasses.field(default_factory=dict)
        opt_state_v: dict = dataclasses.field(default_factory=dict)
        opt_steps: dict = dataclasses.field(default_factory=dict)

    _HYPERPARAMETERS = (
        "lr", "weight_decay", "beta1", "beta2", "eps", "use_bfloat16_moments", "amsgrad", "maximize", "foreach", "capturable",
        "differentiable", "fused", "grad_scale", "found_inf",
    )  # fmt: skip

    def __init__(
        self, lr=1e-3, weight_decay=1e-2, beta1=0.9, beta2=0.999, eps=1e-8, use_bfloat16_moments=True, amsgrad=False,
        maximize=False, foreach=False, capturable=True, differentiable=False, fused=False, grad_scale=None, found_inf=None,
    ):  # fmt: skip
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

    def init_param_group(self, params):
        """Return the group of the parameters with averages of zero."""
        params = _by_name(params)
        dtype = torch.bfloat16 if self._use_bfloat16_moments else None
        return self.ParamGroup(params, _zeros(params, dtype), _zeros(params, dtype), _steps(params))

    @torch.no_grad()
    def step(self, param_group, grads):
        """Update the group in place and return it."""
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
    """Gradient descent, with or without momentum.

    Args:
        lr: learning rate.
        momentum: what the sum of gradients keeps in a step.
        dampening: part of a gradient that does not enter that sum.
        weight_decay: factor of the parameter that is added to its gradient.
        nesterov: whether the step looks ahead along the sum.
        maximize: whether to go up instead of down.
        foreach, fused: accepted without an effect.
    """

    @dataclasses.dataclass
    class ParamGroup:
        """Parameters, sums of gradients, numbers of steps, each by name."""

        params: dict
        opt_state_m: dict = dataclasses.field(default_factory=dict)
        opt_steps: dict = dataclasses.field(default_factory=dict)

    _HYPERPARAMETERS = ("lr", "weight_decay", "momentum", "dampening", "nesterov", "maximize", "foreach", "fused")

    def __init__(
        self,
        lr=1e-3,
        momentum=0.0,
        dampening=0.0,
        weight_decay=0.0,
        nesterov=False,
        maximize=False,
        foreach=False,
        fused=True,
    ):
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        super().__init__(lr, weight_decay)
        self._momentum, self._dampening, self._nesterov, self._maximize = momentum, dampening, nesterov, maximize
        self._foreach, self._fused = foreach, fused

    def init_param_group(self, params):
        """Return the group of the parameters; sums of gradients only with momentum."""
        params = _by_name(params)
        return self.ParamGroup(params, _zeros(params) if self._momentum else {}, _steps(params))

    @torch.no_grad()
    def step(self, param_group, grads):
        """Update the group in place and return it."""
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
