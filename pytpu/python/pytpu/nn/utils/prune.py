"""Pruning of parameters, as in `torch.nn.utils.prune`.

A pruned `weight` is not a parameter. Before each forward, a hook computes it as the product of the parameter
`weight_orig` and the buffer `weight_mask` of zeros and ones.
"""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import pytpu as torch
from pytpu import Tensor

from ..modules.module import Module
from .convert_parameters import parameters_to_vector

_M = TypeVar("_M", bound=Module)


def _hook_of(module, name):
    """Return the number and the hook of the pruning of a tensor, or two `None`."""
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
    """Return the scores, or the tensor itself without scores."""
    if importance_scores is None:
        return tensor
    if importance_scores.shape != tensor.shape:
        raise AssertionError(
            f"importance_scores should have the same shape as {what}, got {importance_scores.shape} vs {tensor.shape}"
        )
    return importance_scores


class BasePruningMethod(ABC):
    """Define a way to prune a parameter, and be the hook that applies it.

    Subclasses define `compute_mask` and `PRUNING_TYPE`. The type selects the entries of a pruned tensor that another
    pruning gets: `"unstructured"` the remaining entries, `"structured"` the channels along `dim` that are not empty,
    and `"global"` all.
    """

    PRUNING_TYPE: str
    _tensor_name: Any = None

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask after pruning. Subclasses define it.

        Args:
            t: Tensor to prune, or its scores.
            default_mask: Mask before, of the same shape.

        Returns:
            Mask of zeros and ones.
        """

    def apply_mask(self, module: Module) -> Tensor:
        """Return the pruned tensor.

        Args:
            module: Owner of the parameter `name_orig` and the buffer `name_mask`.

        Returns:
            Their product.

        Raises:
            AssertionError: The hook is not on a parameter yet.
        """
        if self._tensor_name is None:
            raise AssertionError(f"Module {module} has to be pruned")
        mask, original = (getattr(module, f"{self._tensor_name}_{part}") for part in ("mask", "orig"))
        return mask.to(original.dtype) * original

    @classmethod
    def apply(
        cls, module: Module, name: str, *args: Any, importance_scores: Tensor | None = None, **kwargs: Any
    ) -> BasePruningMethod:
        """Prune a parameter of a module, in addition to earlier prunings.

        The module does not change if an error is raised.

        Args:
            module: Module to change.
            name: Name of the parameter to prune.
            *args: Arguments of the class.
            importance_scores: Numbers to compare in place of the entries, in their shape.
            **kwargs: Keyword arguments of the class.

        Returns:
            The hook on the module.

        Raises:
            AssertionError: The scores have another shape.
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

    def prune(self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None) -> Tensor:
        """Return a tensor with the pruned entries set to zero. No module changes.

        Args:
            t: Tensor to prune.
            default_mask: Mask to start with. `None` means ones.
            importance_scores: Numbers to compare in place of the entries, in their shape.

        Returns:
            A new tensor.

        Raises:
            AssertionError: The scores have another shape.
        """
        scores = _scores(importance_scores, t, "tensor t")
        return t * self.compute_mask(scores, default_mask=torch.ones_like(t) if default_mask is None else default_mask)

    def remove(self, module: Module) -> None:
        """Make the tensor a parameter again, with the pruned entries set to zero.

        The caller removes the hook.

        Args:
            module: Module to change.

        Raises:
            AssertionError: The hook is not on a parameter yet.
        """
        if self._tensor_name is None:
            raise AssertionError(f"Module {module} has to be pruned before pruning can be removed")
        name = self._tensor_name
        pruned = self.apply_mask(module)
        if hasattr(module, name):
            delattr(module, name)
        parameter: Any = module._parameters.pop(f"{name}_orig")
        del module._buffers[f"{name}_mask"]
        parameter.data = pruned.data
        setattr(module, name, parameter)


class PruningContainer(BasePruningMethod):
    """Hold the prunings of one tensor, first to last.

    Args:
        *args: Prunings of the same tensor.
    """

    def __init__(self, *args: BasePruningMethod) -> None:
        self._pruning_methods: tuple[Any, ...] = ()
        if args and self._tensor_name is None:
            self._tensor_name = getattr(args[0], "_tensor_name", None)
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: BasePruningMethod | None) -> None:
        """Add a pruning.

        Args:
            method: Pruning of the same tensor.

        Raises:
            TypeError: `method` is not a pruning.
            ValueError: It is of another tensor.
        """
        if method is not None:
            if not isinstance(method, BasePruningMethod):
                raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
            if method._tensor_name != self._tensor_name:
                raise ValueError(
                    f"Can only add pruning methods acting on the parameter named '{self._tensor_name}' to "
                    f"PruningContainer {self}. Found '{method._tensor_name}'"
                )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, idx: Any) -> Any:
        return self._pruning_methods[idx]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask after the last pruning.

        Args:
            t: Tensor to prune, or its scores.
            default_mask: Mask before, of the same shape.

        Returns:
            Mask of zeros and ones.
        """
        return _mask_of_rest(self[-1], t, default_mask)


def _mask_of_rest(method, t, mask):
    """Prune the entries of `t` that a mask has kept, and return the new mask."""
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
    """Return an index of `t` that is `index` along `dim` and takes all of the other dimensions."""
    return tuple(index if d == dim % t.dim() else slice(None) for d in range(t.dim()))


def _check_amount(amount):
    if not isinstance(amount, numbers.Real):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    most = float("inf") if isinstance(amount, numbers.Integral) else 1.0
    if not 0 <= amount <= most:
        raise ValueError(f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer")


def _count(amount, size):
    """Return the number of entries to prune among `size`. `amount` is the number or the share."""
    count = amount if isinstance(amount, numbers.Integral) else round(amount * size)
    if count > size:
        raise ValueError(f"amount={count} should be smaller than the number of parameters to prune={size}")
    return count


def _without(mask, indices):
    """Return the mask with some entries set to zero. `indices` count the entries of the flattened mask."""
    mask = mask.clone(memory_format=torch.contiguous_format)
    mask.view(-1)[indices] = 0
    return mask


def _channels(t, dim, kept, default_mask):
    """Return a mask that keeps some of the channels that `default_mask` keeps."""
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


# As in PyTorch, `apply` of each class below takes the arguments of that class only. mypy objects to such overrides.


class Identity(BasePruningMethod):
    """Prune nothing, but make the mask and the hook.

    Example:
        >>> import pytpu as torch
        >>> prune = torch.nn.utils.prune
        >>> prune.Identity().prune(torch.tensor([3.0, 1.0, 2.0, 4.0])).tolist()
        [3.0, 1.0, 2.0, 4.0]
    """

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask after pruning.

        Args:
            t: Tensor to prune, or its scores.
            default_mask: Mask before, of the same shape.

        Returns:
            Mask of zeros and ones.
        """
        return default_mask

    @classmethod
    def apply(cls, module: Module, name: str) -> BasePruningMethod:  # type: ignore[override]
        """Make the mask and the hook for a parameter.

        Args:
            module: Module to change.
            name: Name of the parameter to prune.

        Returns:
            The hook on the module.
        """
        return super().apply(module, name)


class RandomUnstructured(BasePruningMethod):
    """Prune entries at random.

    Args:
        amount: Number of entries to prune, or their share as a float in `[0, 1]`.

    Raises:
        TypeError: `amount` is not a number.
        ValueError: `amount` is negative, or a float above 1.

    Example:
        >>> import pytpu as torch
        >>> prune = torch.nn.utils.prune
        >>> prune.RandomUnstructured(5).prune(torch.ones(3, 4)).sum()
        tensor(7.)
    """

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount: int | float) -> None:
        _check_amount(amount)
        self.amount = amount

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask after pruning.

        Args:
            t: Tensor to prune, or its scores.
            default_mask: Mask before, of the same shape.

        Returns:
            Mask of zeros and ones.
        """
        count = _count(self.amount, t.numel())
        if count == 0:
            return default_mask.clone(memory_format=torch.contiguous_format)
        return _without(default_mask, torch.rand_like(t).view(-1).topk(count).indices)

    @classmethod
    def apply(cls, module: Module, name: str, amount: int | float) -> BasePruningMethod:  # type: ignore[override]
        """Prune entries of a parameter at random.

        Args:
            module: Module to change.
            name: Name of the parameter to prune.
            amount: Number of entries to prune, or their share as a float in `[0, 1]`.

        Returns:
            The hook on the module.
        """
        return super().apply(module, name, amount=amount)


class L1Unstructured(BasePruningMethod):
    """Prune the entries of the smallest absolute value.

    Args:
        amount: Number of entries to prune, or their share as a float in `[0, 1]`.

    Raises:
        TypeError: `amount` is not a number.
        ValueError: `amount` is negative, or a float above 1.

    Example:
        >>> import pytpu as torch
        >>> prune = torch.nn.utils.prune
        >>> prune.L1Unstructured(2).prune(torch.tensor([3.0, 1.0, 2.0, 4.0])).tolist()
        [3.0, 0.0, 0.0, 4.0]
    """

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount: int | float) -> None:
        _check_amount(amount)
        self.amount = amount

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask after pruning.

        Args:
            t: Tensor to prune, or its scores.
            default_mask: Mask before, of the same shape.

        Returns:
            Mask of zeros and ones.
        """
        count = _count(self.amount, t.numel())
        if count == 0:
            return default_mask.clone(memory_format=torch.contiguous_format)
        return _without(default_mask, t.abs().reshape(-1).topk(count, largest=False).indices)

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: Module, name: str, amount: int | float, importance_scores: Tensor | None = None
    ) -> BasePruningMethod:
        """Prune the entries of a parameter of the smallest absolute value.

        Args:
            module: Module to change.
            name: Name of the parameter to prune.
            amount: Number of entries to prune, or their share as a float in `[0, 1]`.
            importance_scores: Numbers to compare in place of the entries, in their shape.

        Returns:
            The hook on the module.
        """
        return super().apply(module, name, amount=amount, importance_scores=importance_scores)


class RandomStructured(BasePruningMethod):
    """Prune channels at random.

    Args:
        amount: Number of channels to prune, or their share as a float in `[0, 1]`.
        dim: Dimension of the channels.

    Raises:
        TypeError: `amount` is not a number.
        ValueError: `amount` is negative, or a float above 1.

    Example:
        >>> import pytpu as torch
        >>> prune = torch.nn.utils.prune
        >>> prune.RandomStructured(1, dim=0).prune(torch.ones(3, 4)).sum()
        tensor(8.)
    """

    PRUNING_TYPE = "structured"

    def __init__(self, amount: int | float, dim: int = -1) -> None:
        _check_amount(amount)
        self.amount = amount
        self.dim = dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask after pruning.

        Args:
            t: Tensor to prune, or its scores.
            default_mask: Mask before, of the same shape.

        Returns:
            Mask of zeros and ones.
        """
        _check_structure(t, self.dim)
        size = t.shape[self.dim]
        count = _count(self.amount, size)
        if count == 0:
            return default_mask
        # Draw on the CPU, so that the choice is the same on all devices.
        numbers = torch.rand(size, device="cpu")
        kept = (numbers > numbers.kthvalue(count).values).to(t.device)
        return _channels(t, self.dim, kept, default_mask)

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: Module, name: str, amount: int | float, dim: int = -1
    ) -> BasePruningMethod:
        """Prune channels of a parameter at random.

        Args:
            module: Module to change.
            name: Name of the parameter to prune.
            amount: Number of channels to prune, or their share as a float in `[0, 1]`.
            dim: Dimension of the channels.

        Returns:
            The hook on the module.
        """
        return super().apply(module, name, amount=amount, dim=dim)


def _channel_norms(t, n, dim):
    """Return norms over all dimensions but one."""
    dims = [d for d in range(t.dim()) if d != dim % t.dim()]
    if n == "nuc" or (n == "fro" and len(dims) == 2):
        return torch.linalg.matrix_norm(t, n, dim=dims if len(dims) == 2 else (-2, -1))
    return torch.linalg.vector_norm(t, 2 if n == "fro" else n, dim=dims)


class LnStructured(BasePruningMethod):
    """Prune the channels of the smallest norm.

    Args:
        amount: Number of channels to prune, or their share as a float in `[0, 1]`.
        n: Exponent of the norm, or `"fro"` or `"nuc"`.
        dim: Dimension of the channels.

    Raises:
        TypeError: `amount` is not a number.
        ValueError: `amount` is negative, or a float above 1.

    Example:
        >>> import pytpu as torch
        >>> prune = torch.nn.utils.prune
        >>> prune.LnStructured(1, n=2, dim=1).prune(torch.ones(3, 4)).sum()
        tensor(9.)
    """

    PRUNING_TYPE = "structured"

    def __init__(self, amount: int | float, n: int | float | str, dim: int = -1) -> None:
        _check_amount(amount)
        self.amount = amount
        self.n = n
        self.dim = dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask after pruning.

        Args:
            t: Tensor to prune, or its scores.
            default_mask: Mask before, of the same shape.

        Returns:
            Mask of zeros and ones.
        """
        _check_structure(t, self.dim)
        size = t.shape[self.dim]
        count = _count(self.amount, size)
        if count == 0:
            return default_mask
        kept = _channel_norms(t, self.n, self.dim).topk(size - count).indices
        return _channels(t, self.dim, kept, default_mask)

    @classmethod
    def apply(  # type: ignore[override]
        cls,
        module: Module,
        name: str,
        amount: int | float,
        n: int | float | str,
        dim: int,
        importance_scores: Tensor | None = None,
    ) -> BasePruningMethod:
        """Prune the channels of a parameter of the smallest norm.

        Args:
            module: Module to change.
            name: Name of the parameter to prune.
            amount: Number of channels to prune, or their share as a float in `[0, 1]`.
            n: Exponent of the norm, or `"fro"` or `"nuc"`.
            dim: Dimension of the channels.
            importance_scores: Numbers to compare in place of the entries, in their shape.

        Returns:
            The hook on the module.
        """
        return super().apply(module, name, amount=amount, n=n, dim=dim, importance_scores=importance_scores)


class CustomFromMask(BasePruningMethod):
    """Prune the entries for which a given mask is zero.

    Args:
        mask: Mask of the shape of the tensor.

    Example:
        >>> import pytpu as torch
        >>> prune = torch.nn.utils.prune
        >>> prune.CustomFromMask(torch.tensor([1.0, 0.0, 0.0, 0.0])).prune(torch.tensor([3.0, 1.0, 2.0, 4.0])).tolist()
        [3.0, 0.0, 0.0, 0.0]
    """

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask after pruning.

        Args:
            t: Tensor to prune, or its scores.
            default_mask: Mask before, of the same shape.

        Returns:
            Mask of zeros and ones.
        """
        if default_mask.shape != self.mask.shape:
            raise AssertionError(
                f"default_mask shape {default_mask.shape} must match self.mask shape {self.mask.shape}"
            )
        return default_mask * self.mask.to(default_mask.dtype)

    @classmethod
    def apply(cls, module: Module, name: str, mask: Tensor) -> BasePruningMethod:  # type: ignore[override]
        """Prune the entries of a parameter for which a mask is zero.

        Args:
            module: Module to change.
            name: Name of the parameter to prune.
            mask: Mask of the shape of the parameter.

        Returns:
            The hook on the module.
        """
        return super().apply(module, name, mask=mask)


def identity(module: _M, name: str) -> _M:
    """Make the mask and the hook for a parameter, but prune nothing.

    Args:
        module: Module to change.
        name: Name of the parameter to prune.

    Returns:
        `module`.

    Example:
        >>> import pytpu as torch
        >>> layer = torch.nn.Linear(4, 3)
        >>> layer = torch.nn.utils.prune.identity(layer, "weight")
        >>> layer.weight_mask.sum()
        tensor(12.)
    """
    Identity.apply(module, name)
    return module


def random_unstructured(module: _M, name: str, amount: int | float) -> _M:
    """Prune entries of a parameter at random.

    Args:
        module: Module to change.
        name: Name of the parameter to prune.
        amount: Number of entries to prune, or their share as a float in `[0, 1]`.

    Returns:
        `module`.

    Raises:
        TypeError: `amount` is not a number.
        ValueError: `amount` is negative, or a float above 1.

    Example:
        >>> import pytpu as torch
        >>> layer = torch.nn.Linear(4, 3)
        >>> layer = torch.nn.utils.prune.random_unstructured(layer, "weight", amount=5)
        >>> int((layer.weight == 0).sum())
        5
    """
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: _M, name: str, amount: int | float, importance_scores: Tensor | None = None) -> _M:
    """Prune the entries of a parameter of the smallest absolute value.

    Args:
        module: Module to change.
        name: Name of the parameter to prune.
        amount: Number of entries to prune, or their share as a float in `[0, 1]`.
        importance_scores: Numbers to compare in place of the entries, in their shape.

    Returns:
        `module`.

    Raises:
        TypeError: `amount` is not a number.
        ValueError: `amount` is negative, or a float above 1.

    Example:
        >>> import pytpu as torch
        >>> layer = torch.nn.Linear(4, 3)
        >>> layer = torch.nn.utils.prune.l1_unstructured(layer, "weight", amount=0.5)
        >>> int((layer.weight == 0).sum())
        6
    """
    L1Unstructured.apply(module, name, amount, importance_scores=importance_scores)
    return module


def random_structured(module: _M, name: str, amount: int | float, dim: int) -> _M:
    """Prune channels of a parameter at random.

    Args:
        module: Module to change.
        name: Name of the parameter to prune.
        amount: Number of channels to prune, or their share as a float in `[0, 1]`.
        dim: Dimension of the channels.

    Returns:
        `module`.

    Raises:
        TypeError: `amount` is not a number.
        ValueError: `amount` is negative, or a float above 1.

    Example:
        >>> import pytpu as torch
        >>> layer = torch.nn.Linear(4, 3)
        >>> layer = torch.nn.utils.prune.random_structured(layer, "weight", amount=1, dim=0)
        >>> int((layer.weight == 0).sum())
        4
    """
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: _M, name: str, amount: int | float, n: int | float | str, dim: int, importance_scores: Tensor | None = None
) -> _M:
    """Prune the channels of a parameter of the smallest norm.

    Args:
        module: Module to change.
        name: Name of the parameter to prune.
        amount: Number of channels to prune, or their share as a float in `[0, 1]`.
        n: Exponent of the norm, or `"fro"` or `"nuc"`.
        dim: Dimension of the channels.
        importance_scores: Numbers to compare in place of the entries, in their shape.

    Returns:
        `module`.

    Raises:
        TypeError: `amount` is not a number.
        ValueError: `amount` is negative, or a float above 1.

    Example:
        >>> import pytpu as torch
        >>> layer = torch.nn.Linear(4, 3)
        >>> layer = torch.nn.utils.prune.ln_structured(layer, "weight", amount=1, n=2, dim=1)
        >>> int((layer.weight == 0).sum())
        3
    """
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: _M, name: str, mask: Tensor) -> _M:
    """Prune the entries of a parameter for which a mask is zero.

    Args:
        module: Module to change.
        name: Name of the parameter to prune.
        mask: Mask of the shape of the parameter.

    Returns:
        `module`.

    Example:
        >>> import pytpu as torch
        >>> layer = torch.nn.Linear(4, 3)
        >>> layer = torch.nn.utils.prune.custom_from_mask(layer, "weight", mask=torch.zeros(3, 4))
        >>> int((layer.weight == 0).sum())
        12
    """
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Module, str]],
    pruning_method: type[BasePruningMethod],
    importance_scores: dict[tuple[Module, str], Tensor] | None = None,
    **kwargs: Any,
) -> None:
    """Prune several parameters as if they were one.

    Args:
        parameters: Pairs of a module and the name of its parameter.
        pruning_method: Class of an unstructured pruning.
        importance_scores: Scores for some of the pairs.
        **kwargs: Keyword arguments of the class.

    Raises:
        TypeError: An argument has the wrong type, or the pruning is not unstructured.

    Example:
        >>> import pytpu as torch
        >>> net = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 2))
        >>> prune = torch.nn.utils.prune
        >>> prune.global_unstructured([(net[0], "weight"), (net[1], "weight")], prune.L1Unstructured, amount=9)
        >>> sum(int((layer.weight == 0).sum()) for layer in net)
        9
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
            f'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method {pruning_method} of '
            "type "
            f"{method.PRUNING_TYPE}"
        )
    mask = _mask_of_rest(method, t, parameters_to_vector(masks))
    parts = mask.split([tensor.numel() for tensor in tensors])
    for (module, name), tensor, part in zip(parameters, tensors, parts):
        custom_from_mask(module, name, part.view_as(tensor))


def remove(module: _M, name: str) -> _M:
    """Make pruning permanent: the parameter loses its mask and its hook.

    Args:
        module: Module to change.
        name: Name of the parameter to prune.

    Returns:
        `module`.

    Raises:
        ValueError: The parameter is not pruned.

    Example:
        >>> import pytpu as torch
        >>> layer = torch.nn.utils.prune.random_unstructured(torch.nn.Linear(4, 3), "weight", amount=5)
        >>> layer = torch.nn.utils.prune.remove(layer, "weight")
        >>> sorted(name for name, _ in layer.named_parameters())
        ['bias', 'weight']
    """
    number, hook = _hook_of(module, name)
    if hook is None:
        raise ValueError(f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed")
    hook.remove(module)
    del module._forward_pre_hooks[number]
    return module


def is_pruned(module: Module) -> bool:
    """Return whether a parameter of a module, or of a module in it, is pruned.

    Args:
        module: The module.

    Returns:
        `True` if so.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.utils.prune.is_pruned(torch.nn.Linear(4, 3))
        False
    """
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
