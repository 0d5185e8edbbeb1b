"""Parameters that are functions of other tensors, as in `torch.nn.utils.parametrize`.

A module with a parametrized `weight` gets a class of its own, in which `weight` is a property. The property calls
`module.parametrizations.weight`, which computes the value from the tensors that it holds.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytpu as torch
from pytpu import Tensor

from ..modules.container import ModuleDict, ModuleList
from ..modules.module import Module
from ..parameter import Parameter

_depth = 0
_cache: dict[tuple[int, str], tuple[Any, Any]] = {}


@contextmanager
def cached() -> Iterator[None]:
    """Compute each parametrized tensor only once inside the block.

    The result is kept from the first time that the tensor is read.

    Example:
        >>> import pytpu as torch
        >>> with torch.nn.utils.parametrize.cached():
        ...     pass
    """
    global _depth
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1
        if _depth == 0:
            _cache.clear()


def _register(module, name, tensor):
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


def _inverse(parametrization, value):
    """Return `right_inverse(value)`, or `value` if the parametrization has no such method."""
    if hasattr(parametrization, "right_inverse"):
        try:
            return parametrization.right_inverse(value)
        except NotImplementedError:
            pass
    return value


class ParametrizationList(ModuleList):
    """Hold the parametrizations of one tensor, first to last, and the tensors it is computed from.

    These are `original`, or `original0`, `original1` and so on where `right_inverse` of the first
    parametrization gives several.

    Args:
        modules: The parametrizations. At least one.
        original: The tensor before.
        unsafe: Whether shape and dtype may change.

    Raises:
        ValueError: There is no parametrization, the shape or dtype changes, or `right_inverse` returns
            something else than tensors.
    """

    def __init__(self, modules: Sequence[Module], original: Tensor | Parameter, unsafe: bool = False) -> None:
        if len(modules) == 0:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        shape, dtype, before = original.shape, original.dtype, original.data
        with torch.no_grad():
            new = original
            for parametrization in reversed(self):
                new = _inverse(parametrization, new)
        if not isinstance(new, torch.Tensor) and not isinstance(new, Sequence):
            raise ValueError(
                "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                f"Got {type(new).__name__}"
            )
        self.is_tensor = isinstance(new, torch.Tensor)
        self.ntensors = 1 if self.is_tensor else len(new)
        if self.is_tensor:
            if new.dtype != dtype:
                raise ValueError(
                    "When `right_inverse` outputs one tensor, it may not change the dtype.\n"
                    f"original.dtype: {dtype}\nright_inverse(original).dtype: {new.dtype}"
                )
            # Keep the parameter object, since an optimizer may have it.
            if new is not original:
                original.data = new.detach()
            _register(self, "original", original)
        else:
            for i, tensor in enumerate(new):
                if not isinstance(tensor, torch.Tensor):
                    raise ValueError(
                        "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                        f"Got element {i} of the sequence with type {type(tensor).__name__}."
                    )
                if isinstance(original, Parameter):
                    tensor = Parameter(tensor.detach(), requires_grad=original.requires_grad)
                _register(self, f"original{i}", tensor)
        if not unsafe:
            try:
                self._check(shape, dtype)
            except BaseException:
                original.data = before
                raise

    def _check(self, shape, dtype):
        value = self()
        if not isinstance(value, torch.Tensor):
            raise ValueError(f"A parametrization must return a tensor. Got {type(value).__name__}.")
        for what, before, after in (("dtype", dtype, value.dtype), ("shape", shape, value.shape)):
            if before != after:
                raise ValueError(
                    f"Registering a parametrization may not change the {what} of the tensor, unless `unsafe` flag is "
                    f"enabled.\nunparametrized {what}: {before}\nparametrized {what}: {after}"
                )

    def _originals(self):
        names = ["original"] if self.is_tensor else [f"original{i}" for i in range(self.ntensors)]
        return [getattr(self, name) for name in names]

    def right_inverse(self, value: Tensor) -> None:
        """Set the tensors that the parametrized one is computed from.

        Args:
            value: Value that the parametrized tensor should have.

        Raises:
            RuntimeError: A parametrization has no `right_inverse`.
            ValueError: `right_inverse` returns another number of tensors, or other dtypes.
        """
        with torch.no_grad():
            for parametrization in reversed(self):
                if not hasattr(parametrization, "right_inverse"):
                    raise RuntimeError(
                        f"parametrization {type(parametrization).__name__} does not implement right_inverse."
                    )
                inverse: Any = parametrization.right_inverse
                value = inverse(value)
            if self.is_tensor and not isinstance(value, torch.Tensor):
                raise ValueError(f"`right_inverse` should return a tensor. Got {type(value).__name__}")
            values = [value] if self.is_tensor else value
            if not isinstance(values, Sequence):
                raise ValueError(f"'right_inverse' must return a sequence of tensors. Got {type(value).__name__}.")
            if len(values) != self.ntensors:
                raise ValueError(
                    "'right_inverse' must return a sequence of tensors of length "
                    f"{self.ntensors}. Got a sequence of length {len(values)}."
                )
            for original, new in zip(self._originals(), values):
                if original.dtype != new.dtype:
                    raise ValueError(
                        f"The tensor returned by `right_inverse` has dtype {new.dtype} while `original` has dtype "
                        f"{original.dtype}"
                    )
                original.data = new.detach()

    def forward(self) -> Tensor:
        """Return the parametrized tensor."""
        value = self[0](*self._originals())
        for i in range(1, len(self)):
            value = self[i](value)
        return value


def _refuse_to_pickle(self):
    raise RuntimeError(
        "Serialization of parametrized modules is only supported through state_dict(). See:\n"
        "https://pytorch.org/tutorials/beginner/saving_loading_models.html"
        "#saving-loading-a-general-checkpoint-for-inference-and-or-resuming-training"
    )


def _deepcopy(self, memo):
    if id(self) in memo:
        return memo[id(self)]
    twin = _class_of(type(self).__bases__[0], self.parametrizations)
    new = memo[id(self)] = twin.__new__(twin)
    new.__dict__.update(copy.deepcopy(self.__dict__, memo))
    return new


def _class_of(base, names):
    """Return a subclass of `base` for one module, with a property for each of `names`."""
    twin = type(f"Parametrized{base.__name__}", (base,), {"__getstate__": _refuse_to_pickle})
    if not hasattr(base, "__deepcopy__"):
        twin.__deepcopy__ = _deepcopy
    for name in names:
        setattr(twin, name, _property(name))
    return twin


def _property(name):
    def read(self):
        if not _depth:
            return self.parametrizations[name]()
        key = (id(self), name)
        if key not in _cache:
            # Keep the module alive, so that its id is not used again.
            _cache[key] = self, self.parametrizations[name]()
        return _cache[key][1]

    def write(self, value):
        self.parametrizations[name].right_inverse(value)

    return property(read, write)


def _all_of(module: Module) -> Any:
    """Return the `ModuleDict` of a parametrized module."""
    return module.parametrizations


def _list_of(module: Module, name: str) -> Any:
    """Return the `ParametrizationList` of a parametrized tensor."""
    return _all_of(module)[name]


def _check_next(module, name, parametrization):
    """Check that one more parametrization keeps shape and dtype in both directions."""
    before = getattr(module, name)
    after = parametrization(before)
    if not isinstance(after, torch.Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {type(after).__name__}.")
    for what in ("dtype", "shape"):
        old, new = getattr(before, what), getattr(after, what)
        if old != new:
            raise ValueError(
                f"Registering a parametrization may not change the {what} of the tensor, unless the `unsafe` flag is "
                f"enabled.\nmodule.{name}.{what}: {old}\nparametrization(module.{name}).{what}: {new}"
            )
    with torch.no_grad():
        back = _inverse(parametrization, after)
    if not isinstance(back, torch.Tensor):
        raise ValueError(f"parametrization.right_inverse must return a tensor. Got: {type(back).__name__}")
    for what in ("dtype", "shape"):
        old, new = getattr(before, what), getattr(back, what)
        if old != new:
            raise ValueError(
                f"The tensor returned by parametrization.right_inverse must have the same {what} as module.{name}, "
                f"unless the `unsafe` flag is enabled.\nmodule.{name}.{what}: {old}\nreturned {what}: {new}"
            )


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Make a parameter or buffer the result of a parametrization.

    Further parametrizations of the same tensor follow one another. The class of the module changes to one with
    a property for the tensor.

    Args:
        module: Module to change.
        tensor_name: Name of the parameter or buffer.
        parametrization: Module whose `forward` computes the tensor. Its `right_inverse`, if any, computes the
            original from an assigned value.
        unsafe: Whether shape and dtype may change.

    Returns:
        `module`.

    Raises:
        ValueError: There is no such tensor, or its shape or dtype changes.

    Example:
        >>> import pytpu as torch
        >>> class Symmetric(torch.nn.Module):
        ...     def forward(self, x):
        ...         return x.triu() + x.triu(1).T
        >>> layer = torch.nn.Linear(3, 3)
        >>> layer = torch.nn.utils.parametrize.register_parametrization(layer, "weight", Symmetric())
        >>> torch.equal(layer.weight, layer.weight.T)
        True
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        if not unsafe:
            _check_next(module, tensor_name, parametrization)
        kept = _list_of(module, tensor_name)
        kept.append(parametrization)
        kept.unsafe |= unsafe
    elif tensor_name in module._parameters or tensor_name in module._buffers:
        kept = ParametrizationList([parametrization], getattr(module, tensor_name), unsafe=unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            module.__class__ = _class_of(type(module), ())
            module.parametrizations = ModuleDict()
        setattr(type(module), tensor_name, _property(tensor_name))
        _all_of(module)[tensor_name] = kept
    else:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name "
            f"'{tensor_name}'"
        )
    return module


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Return whether a module has parametrized tensors.

    Args:
        module: The module.
        tensor_name: Name of one tensor. `None` asks for any.

    Returns:
        `True` if so.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.utils.parametrize.is_parametrized(torch.nn.Linear(2, 2))
        False
    """
    parametrizations = getattr(module, "parametrizations", None)
    if not isinstance(parametrizations, ModuleDict):
        return False
    return len(parametrizations) > 0 if tensor_name is None else tensor_name in parametrizations


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Make a parametrized tensor an ordinary one again.

    Args:
        module: Module to change.
        tensor_name: Name of the parameter or buffer.
        leave_parametrized: Whether the tensor keeps its present value, instead of that of the original.

    Returns:
        `module`.

    Raises:
        ValueError: The tensor is not parametrized, or it has several originals and `leave_parametrized` is
            false.

    Example:
        >>> import pytpu as torch
        >>> layer = torch.nn.utils.parametrizations.orthogonal(torch.nn.Linear(3, 3))
        >>> layer = torch.nn.utils.parametrize.remove_parametrizations(layer, "weight")
        >>> type(layer.weight).__name__
        'Parameter'
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    kept = _list_of(module, tensor_name)
    if kept.is_tensor:
        tensor = kept.original
        if leave_parametrized:
            with torch.no_grad():
                tensor.data = getattr(module, tensor_name).detach()
    elif leave_parametrized:
        value = getattr(module, tensor_name)
        tensor = Parameter(value.detach()) if value.requires_grad else value
    else:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in terms of a "
            "sequence of tensors."
        )
    delattr(type(module), tensor_name)
    del _all_of(module)[tensor_name]
    _register(module, tensor_name, tensor)
    if not is_parametrized(module):
        delattr(module, "parametrizations")
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module: Module) -> type[Module]:
    """Return the class that a module had before it was parametrized.

    Args:
        module: The module.

    Returns:
        Its class, if it is not parametrized.

    Example:
        >>> import pytpu as torch
        >>> layer = torch.nn.utils.parametrizations.orthogonal(torch.nn.Linear(3, 3))
        >>> torch.nn.utils.parametrize.type_before_parametrizations(layer).__name__
        'Linear'
    """
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Give a module the parametrizations of another one, and their originals. Both then share them.

    Args:
        from_module: Module to take from.
        to_module: Module to change.
        tensor_name: Name of one tensor. If it is not parametrized, the tensor itself is taken. `None` means all
            parametrized ones.

    Returns:
        `to_module`.

    Example:
        >>> import pytpu as torch
        >>> first = torch.nn.utils.parametrizations.orthogonal(torch.nn.Linear(3, 3))
        >>> second = torch.nn.utils.parametrize.transfer_parametrizations_and_params(first, torch.nn.Linear(3, 3))
        >>> torch.equal(first.weight, second.weight)
        True
    """
    if is_parametrized(from_module):
        names = list(_all_of(from_module)) if tensor_name is None else [tensor_name]
        for name in names:
            if not hasattr(to_module, name):
                setattr(to_module, name, Parameter(getattr(from_module, name).detach().clone()))
            source = _list_of(from_module, name)
            for parametrization in source:
                register_parametrization(to_module, name, parametrization, unsafe=source.unsafe)
            target = _list_of(to_module, name)
            for key in ["original"] if source.is_tensor else [f"original{i}" for i in range(source.ntensors)]:
                if hasattr(target, key):
                    delattr(target, key)
                _register(target, key, getattr(source, key))
    elif tensor_name is not None:
        setattr(to_module, tensor_name, getattr(from_module, tensor_name))
    return to_module


__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]
