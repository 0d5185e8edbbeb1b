"""Modules whose parameters take their shapes from the first input."""

from __future__ import annotations

from pytpu.nn.parameter import is_lazy

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

    from .module import Module

    _Base = Module
else:
    _Base = object


class LazyModuleMixin(_Base):
    """Give a module parameters whose shapes come from its first input.

    A subclass makes `UninitializedParameter`s and defines `initialize_parameters`. The first call runs that
    method and turns the module into `cls_to_become`.

    Args:
        *args: Passed on to the module class.
        **kwargs: Passed on to the module class.

    Attributes:
        cls_to_become: Class of the module after the first call. `None` keeps its class.

    Example:
        >>> import pytpu as torch
        >>> layer = torch.nn.LazyLinear(3)
        >>> layer.has_uninitialized_params()
        True
        >>> out = layer(torch.randn(2, 5))
        >>> layer.weight.shape
        torch.Size([3, 5])
    """

    if TYPE_CHECKING:
        cls_to_become: type[Module] | None
    cls_to_become = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._initialize_hook = self.register_forward_pre_hook(self._infer_parameters, with_kwargs=True)
        self._load_hook = self._register_load_state_dict_pre_hook(self._lazy_load_hook)

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        # Save an uninitialised parameter itself: it has no data to detach.
        for name, param in self._parameters.items():
            if param is not None:
                destination[prefix + name] = param if is_lazy(param) or keep_vars else param.detach()
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in self._non_persistent_buffers_set:
                destination[prefix + name] = buffer if is_lazy(buffer) or keep_vars else buffer.detach()

    def _lazy_load_hook(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        import pytpu as torch

        for table in (self._parameters, self._buffers):
            for name, value in table.items():
                loaded = state_dict.get(prefix + name)
                if loaded is not None and value is not None and is_lazy(value) and not is_lazy(loaded):
                    with torch.no_grad():
                        value.materialize(loaded.shape)

    if TYPE_CHECKING:
        # The layer class, which comes later in the method resolution order, defines it.
        def reset_parameters(self) -> None: ...

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Give the parameters their shapes. Subclasses define it.

        Args:
            *args: Arguments of `forward`.
            **kwargs: Keyword arguments of `forward`.

        Raises:
            NotImplementedError: The subclass does not define it.
        """
        raise NotImplementedError(f"initialize_parameters is not implemented for {type(self).__name__}")

    def has_uninitialized_params(self) -> bool:
        """Return whether a parameter or buffer still has no shape."""
        return any(is_lazy(value) for value in (*self._parameters.values(), *self._buffers.values()))

    def _infer_parameters(self, module, args, kwargs=None):
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(f"module {self._get_name()} has not been fully initialized")
        module._initialize_hook.remove()
        module._load_hook.remove()
        del module._initialize_hook, module._load_hook
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become

    def _replicate_for_data_parallel(self):
        raise RuntimeError(
            "Modules with uninitialized parameters can't be used with `DataParallel`. Run a dummy forward pass to "
            "correctly initialize the modules"
        )
