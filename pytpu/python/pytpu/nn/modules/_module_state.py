"""The state of modules: what is saved and loaded, by the names of `state_dict`."""

from __future__ import annotations

import itertools
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Mapping

import pytpu as torch
from pytpu.nn.parameter import Parameter, is_lazy
from pytpu.utils.hooks import RemovableHandle

from . import _module_hooks
from ._module_tables import _ModuleTables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar, overload

    from .module import Module

    T = TypeVar("T", bound="Module")
    T_destination = TypeVar("T_destination", bound=dict[str, Any])

_EXTRA_STATE_KEY_SUFFIX = "_extra_state"


class _IncompatibleKeys(namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    __slots__ = ()

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__()

    __str__ = __repr__


class _ModuleState(_ModuleTables):
    """The part of `Module` that is saved and loaded."""

    def get_extra_state(self) -> Any:
        """Return more state for `state_dict` than tensors.

        Subclasses that override it also override `set_extra_state`.

        Returns:
            An object that can be pickled.

        Raises:
            RuntimeError: The subclass does not override it.
        """
        raise RuntimeError(
            "Reached a code path in Module.get_extra_state() that should never be called. Please file an issue."
        )

    def set_extra_state(self, state: Any) -> None:
        """Load what `get_extra_state` returned.

        Args:
            state: Object from the state dict.

        Raises:
            RuntimeError: The subclass does not override it.
        """
        raise RuntimeError(
            "Reached a code path in Module.set_extra_state() that should never be called. Please file an issue."
        )

    def register_state_dict_pre_hook(self, hook: Callable[[T, str, bool], None]) -> RemovableHandle:
        """Call a hook before `state_dict` reads the module.

        Args:
            hook: `hook(module, prefix, keep_vars)`.

        Returns:
            A handle whose `remove` method takes the hook away.
        """
        return _module_hooks._register(self._state_dict_pre_hooks, hook)

    def register_state_dict_post_hook(
        self, hook: Callable[[T, dict[str, Any], str, dict[str, Any]], None]
    ) -> RemovableHandle:
        """Call a hook after `state_dict` has read the module and its submodules.

        Args:
            hook: `hook(module, state_dict, prefix, local_metadata)`. It changes `state_dict` in place and returns
                `None`.

        Returns:
            A handle whose `remove` method takes the hook away.
        """
        marked: Any = hook
        marked._from_public_api = True
        return _module_hooks._register(self._state_dict_hooks, marked)

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError(
                "Cannot register the same function as the state dict post hook that was "
                "previously registered via register_state_dict_post_hook"
            )
        return _module_hooks._register(self._state_dict_hooks, hook)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Call a hook before `load_state_dict` writes to the module.

        Args:
            hook: `hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
                error_msgs)`. It may change the dict and the lists in place.

        Returns:
            A handle whose `remove` method takes the hook away.
        """
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], with_module: bool = False
    ) -> RemovableHandle:
        return _module_hooks._register(
            self._load_state_dict_pre_hooks, _module_hooks._WrappedHook(hook, self) if with_module else hook
        )

    def register_load_state_dict_post_hook(self, hook: Callable[[T, _IncompatibleKeys], None]) -> RemovableHandle:
        """Call a hook after `load_state_dict` has written to the module and its submodules.

        Args:
            hook: `hook(module, incompatible_keys)`. It may change the two lists in place, and returns `None`.

        Returns:
            A handle whose `remove` method takes the hook away.
        """
        return _module_hooks._register(self._load_state_dict_post_hooks, hook)

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state.pop("_compiled_call_impl", None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        # A module that an older version pickled may lack newer tables.
        for name, kind in (
            ("_forward_pre_hooks", OrderedDict),
            ("_forward_pre_hooks_with_kwargs", OrderedDict),
            ("_forward_hooks_with_kwargs", OrderedDict),
            ("_forward_hooks_always_called", OrderedDict),
            ("_state_dict_hooks", OrderedDict),
            ("_state_dict_pre_hooks", OrderedDict),
            ("_load_state_dict_pre_hooks", OrderedDict),
            ("_load_state_dict_post_hooks", OrderedDict),
            ("_non_persistent_buffers_set", set),
            ("_backward_pre_hooks", OrderedDict),
        ):
            self.__dict__.setdefault(name, kind())
        self.__dict__.setdefault("_is_full_backward_hook", None)

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        for name, param in self._parameters.items():
            if param is not None:
                destination[prefix + name] = param if keep_vars else param.detach()
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in self._non_persistent_buffers_set:
                destination[prefix + name] = buffer if keep_vars else buffer.detach()
        if type(self).get_extra_state is not _ModuleState.get_extra_state:
            destination[prefix + _EXTRA_STATE_KEY_SUFFIX] = self.get_extra_state()

    if TYPE_CHECKING:

        @overload
        def state_dict(
            self, *, destination: T_destination, prefix: str = ..., keep_vars: bool = ...
        ) -> T_destination: ...

        @overload
        def state_dict(self, *, prefix: str = ..., keep_vars: bool = ...) -> dict[str, Any]: ...

    def state_dict(self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False) -> Any:
        """Return parameters and persistent buffers by their dotted names.

        The tensors are detached and share memory with the module.

        Args:
            *args: `destination`, `prefix` and `keep_vars` by position. Deprecated.
            destination: Mapping to write to. `None` means a new one.
            prefix: Text in front of the names.
            keep_vars: Whether to return the tensors themselves, not detached.

        Returns:
            The mapping. Its attribute `_metadata` has the version of each module.

        Example:
            >>> import pytpu as torch
            >>> list(torch.nn.Linear(2, 3).state_dict())
            ['weight', 'bias']
        """
        if args:
            # Older callers pass destination, prefix and keep_vars by position.
            destination = args[0] if destination is None else destination
            prefix = args[1] if len(args) > 1 and prefix == "" else prefix
            keep_vars = args[2] if len(args) > 2 and keep_vars is False else keep_vars
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = metadata
        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook in self._state_dict_hooks.values():
            replaced = hook(self, destination, prefix, metadata)
            if getattr(hook, "_from_public_api", False):
                if replaced is not None:
                    raise RuntimeError("state_dict post-hook must return None")
            elif replaced is not None:
                destination = replaced
        return destination

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        for hook in self._load_state_dict_pre_hooks.values():
            hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        own = itertools.chain(
            self._parameters.items(),
            ((k, v) for k, v in self._buffers.items() if k not in self._non_persistent_buffers_set),
        )
        assign = local_metadata.get("assign_to_params_buffers", False)
        for name, param in [(k, v) for k, v in own if v is not None]:
            key = prefix + name
            if key not in state_dict:
                if strict:
                    missing_keys.append(key)
                continue
            value = state_dict[key]
            if not isinstance(value, torch.Tensor):
                error_msgs.append(
                    f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like object from '
                    f"checkpoint but received {type(value)}"
                )
                continue
            lazy = is_lazy(param)
            if not lazy:
                if len(param.shape) == 0 and len(value.shape) == 1:
                    value = value[0]  # Scalars were saved with one dimension before PyTorch 0.4.
                if value.shape != param.shape:
                    error_msgs.append(
                        f"size mismatch for {key}: copying a param with shape {value.shape} from checkpoint, "
                        f"the shape in current model is {param.shape}."
                    )
                    continue
            elif not is_lazy(value):
                with torch.no_grad():
                    param.materialize(value.shape)  # type: ignore[attr-defined]  # It is lazy.
            if (not lazy or not is_lazy(value)) and param.is_meta and not value.is_meta and not assign:
                import warnings

                warnings.warn(
                    f"for {key}: copying from a non-meta parameter in the checkpoint to a meta parameter in the "
                    "current model, which is a no-op. (Did you mean to pass `assign=True` to assign items in the "
                    "state dictionary to their corresponding key in the module instead of copying them in place?)",
                    stacklevel=2,
                )
            try:
                with torch.no_grad():
                    if assign:
                        if isinstance(param, Parameter):
                            if not isinstance(value, Parameter):
                                value = Parameter(value, requires_grad=param.requires_grad)
                            else:
                                value.requires_grad_(param.requires_grad)
                        if torch.__future__.get_swap_module_params_on_conversion() and isinstance(param, Parameter):
                            param.data = value.data
                        else:
                            setattr(self, name, value)
                    elif not is_lazy(value):
                        param.copy_(value)
            except Exception as failed:
                action = "swapping" if assign else "copying"
                error_msgs.append(
                    f'While {action} the parameter named "{key}", whose dimensions in the model are {param.size()} and '
                    f"whose dimensions in the checkpoint are {value.size()}, an exception occurred : {failed.args}."
                )
        extra_key = prefix + _EXTRA_STATE_KEY_SUFFIX
        if type(self).set_extra_state is not _ModuleState.set_extra_state:
            if extra_key in state_dict:
                self.set_extra_state(state_dict[extra_key])
            elif strict:
                missing_keys.append(extra_key)
        elif strict and extra_key in state_dict:
            unexpected_keys.append(extra_key)
        if strict:
            for key in state_dict:
                if not key.startswith(prefix) or key == extra_key:
                    continue
                parts = key[len(prefix) :].split(".", 1)
                if len(parts) > 1:
                    if parts[0] not in self._modules:
                        unexpected_keys.append(key)
                elif parts[0] not in self._parameters and (
                    parts[0] not in self._buffers or parts[0] in self._non_persistent_buffers_set
                ):
                    unexpected_keys.append(key)

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> _IncompatibleKeys:
        """Copy tensors into parameters and buffers of the same dotted names.

        Args:
            state_dict: Mapping, as `state_dict` returns it.
            strict: Whether the names must be the same.
            assign: Whether to keep the given tensors instead of copying them.

        Returns:
            A named tuple of the lists `missing_keys` and `unexpected_keys`.

        Raises:
            TypeError: `state_dict` is not a mapping.
            RuntimeError: Names or shapes differ.

        Example:
            >>> import pytpu as torch
            >>> first, second = torch.nn.Linear(2, 3), torch.nn.Linear(2, 3)
            >>> second.load_state_dict(first.state_dict())
            <All keys matched successfully>
            >>> torch.equal(first.weight, second.weight)
            True
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        missing: list[str] = []
        unexpected: list[str] = []
        errors: list[str] = []
        metadata = getattr(state_dict, "_metadata", None)
        own: Any = OrderedDict(state_dict)
        if metadata is not None:
            own._metadata = metadata

        def load(module, local, prefix):
            local_metadata = {} if metadata is None else metadata.get(prefix[:-1], {})
            if assign:
                local_metadata["assign_to_params_buffers"] = True
            module._load_from_state_dict(local, prefix, local_metadata, True, missing, unexpected, errors)
            for name, child in module._modules.items():
                if child is not None:
                    child_prefix = f"{prefix}{name}."
                    of_child = {k: v for k, v in local.items() if k.startswith(child_prefix)}
                    load(child, of_child, child_prefix)  # noqa: F821 (deleted after the call below)
            keys = _IncompatibleKeys(missing, unexpected)
            for hook in module._load_state_dict_post_hooks.values():
                if hook(module, keys) is not None:
                    raise AssertionError(
                        "Hooks registered with ``register_load_state_dict_post_hook`` are not expected to return new "
                        "values, if incompatible_keys need to be modified, it should be done inplace."
                    )

        load(self, own, "")
        # The function refers to itself. Break the cycle, so that its tensors are freed at once.
        del load
        if strict:

            def listed(keys):
                return ", ".join(f'"{k}"' for k in keys)

            if unexpected:
                errors.insert(0, f"Unexpected key(s) in state_dict: {listed(unexpected)}. ")
            if missing:
                errors.insert(0, f"Missing key(s) in state_dict: {listed(missing)}. ")
        if errors:
            details = "\n\t".join(errors)
            raise RuntimeError(f"Error(s) in loading state_dict for {type(self).__name__}:\n\t{details}")
        return _IncompatibleKeys(missing, unexpected)
