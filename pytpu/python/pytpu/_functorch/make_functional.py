"""`torch._functorch.make_functional`: modules as functions of their parameters, in the older form.

`torch.func.functional_call` is the newer form.
"""

import copy

from .. import _C
from ..func import functional_call
from ..nn.modules.module import Module


class FunctionalModule(Module):
    """A copy of a module that takes its parameters as arguments."""

    def __init__(self, stateless_model, param_names):
        super().__init__()
        self.stateless_model = stateless_model
        self.param_names = tuple(param_names)

    def forward(self, params, *args, **kwargs):
        """Run the module with `params`, in the order of `param_names`."""
        given = dict(zip(self.param_names, params))
        return functional_call(self.stateless_model, given, args, kwargs)


class FunctionalModuleWithBuffers(Module):
    """A copy of a module that takes its parameters and buffers as arguments."""

    def __init__(self, stateless_model, param_names, buffer_names):
        super().__init__()
        self.stateless_model = stateless_model
        self.param_names, self.buffer_names = tuple(param_names), tuple(buffer_names)

    def forward(self, params, buffers, *args, **kwargs):
        """Run the module with `params` and `buffers`, in the order of their names."""
        given = dict(zip((*self.param_names, *self.buffer_names), (*params, *buffers)))
        return functional_call(self.stateless_model, given, args, kwargs)


def make_functional(model, disable_autograd_tracking=False):
    """Return a function of parameters for a module, and the parameters.

    Raises:
        RuntimeError: If the module has buffers.
    """
    if any(True for _ in model.buffers()):
        raise RuntimeError(
            "make_functional(model): `model` has buffers. Please use make_functional_with_buffers(model) instead."
        )
    function, params, _ = make_functional_with_buffers(model, disable_autograd_tracking)
    return FunctionalModule(function.stateless_model, function.param_names), params


def make_functional_with_buffers(model, disable_autograd_tracking=False):
    """Return a function of parameters and buffers for a module, its parameters, and its buffers."""
    named, buffers = dict(model.named_parameters()), dict(model.named_buffers())
    params = tuple(named.values())
    if disable_autograd_tracking:
        params = tuple(p.detach() for p in params)
    function = FunctionalModuleWithBuffers(_tie(model), named, buffers)
    return function, params, tuple(buffers.values())


def _tie(model):
    # Tied tensors stay tied in a copy: each is made once.
    made, memo = copy.deepcopy(model), {}
    for module in made.modules():
        for table in (module._parameters, module._buffers):
            for name, tensor in table.items():
                if tensor is None:
                    continue
                if id(tensor) not in memo:
                    empty = _C._ops.empty_like(tensor.detach(), device="meta")
                    made_one = (
                        type(tensor)(empty, requires_grad=tensor.requires_grad) if _is_parameter(tensor) else empty
                    )
                    memo[id(tensor)] = tensor, made_one
                table[name] = memo[id(tensor)][1]
    return made


def _is_parameter(tensor):
    from ..nn.parameter import Parameter

    return isinstance(tensor, Parameter)


def combine_state_for_ensemble(models):
    """Return a function of stacked parameters and buffers for modules of one class, with these.

    Raises:
        RuntimeError: If there is no module, or they differ in class or mode.
    """
    if len(models) == 0:
        raise RuntimeError("combine_state_for_ensemble: Expected at least one model, got 0.")
    if not (all(m.training for m in models) or all(not m.training for m in models)):
        raise RuntimeError("combine_state_for_ensemble: Expected all models to have the same training/eval mode.")
    if not all(type(m) is type(models[0]) for m in models):
        raise RuntimeError("combine_state_for_ensemble: Expected all models to be of the same class.")
    made = [make_functional_with_buffers(m) for m in models]
    params = tuple(_C._ops.stack(list(p)).detach() for p in zip(*(m[1] for m in made)))
    buffers = tuple(_C._ops.stack(list(b)) for b in zip(*(m[2] for m in made)))
    return made[0][0], params, buffers
