"""Pruned tensors, as in `torch.nn.utils.prune`.

A pruned `weight` is no longer a parameter: before each forward a hook computes it as the product of the parameter `weight_orig` and
the buffer `weight_mask`, of zeros and ones.
"""

import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterable

import pytpu as torch

from .convert_parameters import parameters_to_vector


def _hook_of(module, name):
    """The number and the hook of the pruning of a tensor; two `None` where it is not pruned."""
    found = [
        (number, hook)
        for number, hook in module._forward_pre_hooks.items()
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name
    ]
    if len(found) > 1:
        raise AssertionError(
            f"Avoid adding multiple pruning hooks to the same tensor {name} of module {module}. Use a PruningContainer."
        )
    return found[0] if found else (None, None)


def _scores(importance_scores, tensor, what):
    """What is compared: the scores if there are any, else the tensor itself."""
    if importance_scores is None:
        return tensor
    if importance_scores.shape != tensor.shape:
        raise AssertionError(
            f"importance_scores should have the same shape as {what}, got {importance_scores.shape} vs {tensor.shape}"
        )
    return importance_scores


class BasePruningMethod(ABC):
    """A way to prune, and the hook that does it; subclasses define `compute_mask` and `PRUNING_TYPE`.

    The type says what another pruning, of an already pruned tensor, is given: `"unstructured"` the entries that are left,
    `"structured"` the channels along `dim` of which something is left, `"global"` everything.
    """

    _tensor_name = None

    def __call__(self, module, inputs):
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t, default_mask):
        """The mask for a tensor that has `default_mask` so far."""

    def apply_mask(self, module):
        """The pruned tensor."""
        if self._tensor_name is None:
            raise AssertionError(f"Module {module} has to be pruned")
        mask, original = (getattr(module, f"{self._tensor_name}_{part}") for part in ("mask", "orig"))
        return mask.to(original.dtype) * original

    @classmethod
    def apply(cls, module, name, *args, importance_scores=None, **kwargs):
        """Prunes a parameter of `module`, more than it was; returns the hook.

        `args` and `kwargs` are those of the class. Where an error is raised, the module stays as it was.
        """
        number, earlier = _hook_of(module, name)
        method = cls(*args, **kwargs)
        method._tensor_name = name
        tensor = getattr(module, name)
        scores = _scores(importance_scores, tensor, f"parameter {name} of {module}")
        if earlier is None:
            hook = method
            mask = method.compute_mask(scores, default_mask=torch.ones_like(tensor))
            module.register_parameter(f"{name}_orig", tensor)
            del module._parameters[name]
        else:
            mask = _mask_of_rest(method, scores, getattr(module, f"{name}_mask").detach().clone())
            hook = earlier if isinstance(earlier, PruningContainer) else PruningContainer(earlier)
            hook.add_pruning_method(method)
            del module._forward_pre_hooks[number]
        module.register_buffer(f"{name}_mask", mask)
        setattr(module, name, hook.apply_mask(module))
        module.register_forward_pre_hook(hook)
        return hook

    def prune(self, t, default_mask=None, importance_scores=None):
        """A tensor with what this method prunes set to zero; no module is changed."""
        scores = _scores(importance_scores, t, "tensor t")
        return t * self.compute_mask(scores, default_mask=torch.ones_like(t) if default_mask is None else default_mask)

    def remove(self, module):
        """Makes the tensor the same parameter again that it was, with what is pruned set to zero. The hook is left to the caller."""
        if self._tensor_name is None:
            raise AssertionError(f"Module {module} has to be pruned before pruning can be removed")
        name = self._tensor_name
        pruned = self.apply_mask(module)
        if hasattr(module, name):
            delattr(module, name)
        parameter = module._parameters.pop(f"{name}_orig")
        del module._buffers[f"{name}_mask"]
        parameter.data = pruned.data
        setattr(module, name, parameter)


class PruningContainer(BasePruningMethod):
    """The prunings of one tensor, first to last."""

    def __init__(self, *args):
        self._pruning_methods = ()
        if args and self._tensor_name is None:
            self._tensor_name = getattr(args[0], "_tensor_name", None)
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method):
        """Adds one, which has to be of the same tensor."""
        if method is not None:
            if not isinstance(method, BasePruningMethod):
                raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
            if method._tensor_name != self._tensor_name:
                raise ValueError(
                    f"Can only add pruning methods acting on the parameter named '{self._tensor_name}' to "
                    f"PruningContainer {self}. Found '{method._tensor_name}'"
                )
        self._pruning_methods += (method,)

    def __len__(self):
        return len(self._pruning_methods)

    def __iter__(self):
        return iter(self._pruning_methods)

    def __getitem__(self, idx):
        return self._pruning_methods[idx]

    def compute_mask(self, t, default_mask):
        """The mask after the last method, where that before it was `default_mask`."""
        return _mask_of_rest(self[-1], t, default_mask)


def _mask_of_rest(method, t, mask):
    """Lets a method prune what a mask has left of `t`; returns the new mask."""
    if method.PRUNING_TYPE == "unstructured":
        rest = mask == 1
    elif method.PRUNING_TYPE == "structured":
        if not hasattr(method, "dim"):
            raise AttributeError(
                'Pruning methods of PRUNING_TYPE "structured" need to have the attribute `dim` defined.'
            )
        rank = t.dim()
        dim = method.dim + rank if method.dim < 0 else method.dim
        if dim < 0:
            raise IndexError(f"Index is out of bounds for tensor with dimensions {rank}")
        left = mask.sum(dim=[d for d in range(rank) if d != dim]) != 0
        rest = _at(t, dim, left)
    elif method.PRUNING_TYPE == "global":
        rest = ...
    else:
        raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
    new = mask.to(t.dtype, copy=True)
    new[rest] = method.compute_mask(t[rest], default_mask=mask[rest]).to(t.dtype)
    return new


def _at(t, dim, index):
    """An index of `t` that is `index` along `dim` and all of the rest."""
    return tuple(index if d == dim % t.dim() else slice(None) for d in range(t.dim()))


def _check_amount(amount):
    if not isinstance(amount, numbers.Real):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    most = float("inf") if isinstance(amount, numbers.Integral) else 1.0
    if not 0 <= amount <= most:
        raise ValueError(f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer")


def _count(amount, size):
    """How many of `size` to prune: so many, or this part of them."""
    count = amount if isinstance(amount, numbers.Integral) else round(amount * size)
    if count > size:
        raise ValueError(f"amount={count} should be smaller than the number of parameters to prune={size}")
    return count


def _without(mask, indices):
    """The mask with entries, counted as if it were flat, set to zero."""
    mask = mask.clone(memory_format=torch.contiguous_format)
    mask.view(-1)[indices] = 0
    return mask


def _channels(t, dim, kept, default_mask):
    """A mask that keeps some channels of what `default_mask` does."""
    mask = torch.zeros_like(t)
    mask[_at(t, dim, kept)] = 1
    return mask.mul_(default_mask.to(mask.dtype))


def _check_structure(t, dim):
    if t.dim() <= 1:
        raise ValueError(
            "Structured pruning can only be applied to multidimensional tensors. Found tensor of shape "
            f"{t.shape} with {t.dim()} dims"
        )
    if dim >= t.dim():
        raise IndexError(f"Invalid index {dim} for tensor of size {t.shape}")


class Identity(BasePruningMethod):
    """Prunes nothing, but makes the mask and the hook."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t, default_mask):
        return default_mask

    @classmethod
    def apply(cls, module, name):
        return super().apply(module, name)


class RandomUnstructured(BasePruningMethod):
    """Prunes entries at random: `amount` of them, or this part."""

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount):
        _check_amount(amount)
        self.amount = amount

    def compute_mask(self, t, default_mask):
        count = _count(self.amount, t.numel())
        if count == 0:
            return default_mask.clone(memory_format=torch.contiguous_format)
        return _without(default_mask, torch.rand_like(t).view(-1).topk(count).indices)

    @classmethod
    def apply(cls, module, name, amount):
        return super().apply(module, name, amount=amount)


class L1Unstructured(BasePruningMethod):
    """Prunes the entries of the smallest size: `amount` of them, or this part."""

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount):
        _check_amount(amount)
        self.amount = amount

    def compute_mask(self, t, default_mask):
        count = _count(self.amount, t.numel())
        if count == 0:
            return default_mask.clone(memory_format=torch.contiguous_format)
        return _without(default_mask, t.abs().reshape(-1).topk(count, largest=False).indices)

    @classmethod
    def apply(cls, module, name, amount, importance_scores=None):
        return super().apply(module, name, amount=amount, importance_scores=importance_scores)


class RandomStructured(BasePruningMethod):
    """Prunes channels along `dim` at random: `amount` of them, or this part."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount, dim=-1):
        _check_amount(amount)
        self.amount = amount
        self.dim = dim

    def compute_mask(self, t, default_mask):
        _check_structure(t, self.dim)
        size = t.shape[self.dim]
        count = _count(self.amount, size)
        if count == 0:
            return default_mask
        # Drawn on the CPU wherever the tensor is: the same choice on all devices.
        numbers = torch.rand(size, device="cpu")
        kept = (numbers > numbers.kthvalue(count).values).to(t.device)
        return _channels(t, self.dim, kept, default_mask)

    @classmethod
    def apply(cls, module, name, amount, dim=-1):
        return super().apply(module, name, amount=amount, dim=dim)


def _channel_norms(t, n, dim):
    """Norms over all dimensions but one."""
    dims = [d for d in range(t.dim()) if d != dim % t.dim()]
    if n == "nuc" or (n == "fro" and len(dims) == 2):
        return torch.linalg.matrix_norm(t, n, dim=dims if len(dims) == 2 else (-2, -1))
    return torch.linalg.vector_norm(t, 2 if n == "fro" else n, dim=dims)


class LnStructured(BasePruningMethod):
    """Prunes the channels along `dim` of the smallest `n`-norm: `amount` of them, or this part."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount, n, dim=-1):
        _check_amount(amount)
        self.amount = amount
        self.n = n
        self.dim = dim

    def compute_mask(self, t, default_mask):
        _check_structure(t, self.dim)
        size = t.shape[self.dim]
        count = _count(self.amount, size)
        if count == 0:
            return default_mask
        kept = _channel_norms(t, self.n, self.dim).topk(size - count).indices
        return _channels(t, self.dim, kept, default_mask)

    @classmethod
    def apply(cls, module, name, amount, n, dim, importance_scores=None):
        return super().apply(module, name, amount=amount, n=n, dim=dim, importance_scores=importance_scores)


class CustomFromMask(BasePruningMethod):
    """Prunes what a given mask has a zero for."""

    PRUNING_TYPE = "global"

    def __init__(self, mask):
        self.mask = mask

    def compute_mask(self, t, default_mask):
        if default_mask.shape != self.mask.shape:
            raise AssertionError(
                f"default_mask shape {default_mask.shape} must match self.mask shape {self.mask.shape}"
            )
        return default_mask * self.mask.to(default_mask.dtype)

    @classmethod
    def apply(cls, module, name, mask):
        return super().apply(module, name, mask=mask)


def identity(module, name):
    """Makes the mask and the hook, but prunes nothing; returns the module."""
    Identity.apply(module, name)
    return module


def random_unstructured(module, name, amount):
    """Prunes entries of a parameter at random, `amount` of them or this part; returns the module."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module, name, amount, importance_scores=None):
    """Prunes the smallest entries of a parameter, or those of the smallest score; returns the module."""
    L1Unstructured.apply(module, name, amount, importance_scores=importance_scores)
    return module


def random_structured(module, name, amount, dim):
    """Prunes channels of a parameter at random, `amount` of them or this part; returns the module."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(module, name, amount, n, dim, importance_scores=None):
    """Prunes the channels of a parameter, or of its scores, whose `n`-norm is smallest; returns the module."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module, name, mask):
    """Prunes what `mask` has a zero for; returns the module."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(parameters, pruning_method, importance_scores=None, **kwargs):
    """Prunes parameters, pairs of a module and a name, as if they were one.

    `importance_scores` has scores for some of the pairs; `kwargs` are those of the method.
    """
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    scores = {} if importance_scores is None else importance_scores
    if not isinstance(scores, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    parameters = list(parameters)
    tensors = [getattr(module, name) for module, name in parameters]
    masks = [getattr(module, f"{name}_mask", torch.ones_like(t)) for (module, name), t in zip(parameters, tensors)]
    t = parameters_to_vector([scores.get(pair, tensor) for pair, tensor in zip(parameters, tensors)])
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            f'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method {pruning_method} of type '
            f"{method.PRUNING_TYPE}"
        )
    mask = _mask_of_rest(method, t, parameters_to_vector(masks))
    parts = mask.split([tensor.numel() for tensor in tensors])
    for (module, name), tensor, part in zip(parameters, tensors, parts):
        custom_from_mask(module, name, part.view_as(tensor))


def remove(module, name):
    """Makes pruning permanent: `name` is a parameter again, without mask and hook; returns the module.

    Raises `ValueError` where it is not pruned.
    """
    number, hook = _hook_of(module, name)
    if hook is None:
        raise ValueError(f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed")
    hook.remove(module)
    del module._forward_pre_hooks[number]
    return module


def is_pruned(module):
    """Whether a parameter of `module`, or of a module in it, is pruned."""
    return any(
        isinstance(hook, BasePruningMethod) for inner in module.modules() for hook in inner._forward_pre_hooks.values()
    )


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
