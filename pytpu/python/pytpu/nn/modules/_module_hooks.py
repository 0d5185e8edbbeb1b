"""Hooks of modules: functions that are called around forward and backward, of one module or of all."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable

from pytpu import Tensor
from pytpu.nn.parameter import Parameter
from pytpu.utils.hooks import BackwardHook, RemovableHandle, call_node_hooks

from ._module_tables import _ModuleTables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    from .module import Module

    T = TypeVar("T", bound="Module")

_global_forward_pre_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
_global_forward_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
_global_forward_hooks_always_called: OrderedDict[int, bool] = OrderedDict()
_global_forward_hooks_with_kwargs: OrderedDict[int, bool] = OrderedDict()
_global_backward_pre_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
_global_backward_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
_global_is_full_backward_hook: bool | None = None
_global_parameter_registration_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
_global_buffer_registration_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
_global_module_registration_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()


def _register(hooks, hook, *, prepend=False, flags=()):
    handle = RemovableHandle(hooks, extra_dict=list(flags))
    hooks[handle.id] = hook
    for flag in flags:
        flag[handle.id] = True
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


class _WrappedHook:
    """Call a hook with its module as the first argument, if it has one.

    It has a weak reference to the module. Copies and pickles have the module itself. Name and state are PyTorch's, so
    that files can be exchanged.
    """

    def __init__(self, hook: Callable[..., Any], module: _ModuleTables | None = None) -> None:
        self.hook = hook
        self.with_module = module is not None
        self.module: Any = None if module is None else weakref.ref(module)

    def __call__(self, *args: Any) -> Any:
        return self.hook(self.module(), *args) if self.with_module else self.hook(*args)

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = {"hook": self.hook, "with_module": self.with_module}
        return {**state, "module": self.module()} if self.with_module else state

    def __setstate__(self, state: dict[str, Any]) -> None:
        _WrappedHook.__init__(self, state["hook"], state.get("module"))


def register_module_forward_pre_hook(hook: Callable[[Module, tuple[Any, ...]], Any]) -> RemovableHandle:
    """Call a hook before the forward of every module.

    Args:
        hook: `hook(module, args)`. A result other than `None` replaces the positional arguments.

    Returns:
        A handle whose `remove` method takes the hook away.

    Example:
        >>> import pytpu as torch
        >>> names = []
        >>> handle = torch.nn.modules.module.register_module_forward_pre_hook(
        ...     lambda module, args: names.append(type(module).__name__)
        ... )
        >>> out = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())(torch.ones(1, 2))
        >>> handle.remove()
        >>> names
        ['Sequential', 'Linear', 'ReLU']
    """
    return _register(_global_forward_pre_hooks, hook)


def register_module_forward_hook(
    hook: Callable[[Module, tuple[Any, ...], Any], Any] | Callable[[Module, tuple[Any, ...], dict[str, Any], Any], Any],
    *,
    with_kwargs: bool = False,
    always_call: bool = False,
) -> RemovableHandle:
    """Call a hook after the forward of every module.

    Args:
        hook: `hook(module, args, output)`, or `hook(module, args, kwargs, output)` with `with_kwargs`. A result
            other than `None` replaces the output.
        with_kwargs: Whether the hook takes the keyword arguments too.
        always_call: Whether to call the hook after an exception too.

    Returns:
        A handle whose `remove` method takes the hook away.

    Example:
        >>> import pytpu as torch
        >>> handle = torch.nn.modules.module.register_module_forward_hook(lambda module, args, output: output + 1)
        >>> torch.nn.Identity()(torch.zeros(2))
        tensor([1., 1.])
        >>> handle.remove()
    """
    flags = []
    if with_kwargs:
        flags.append(_global_forward_hooks_with_kwargs)
    if always_call:
        flags.append(_global_forward_hooks_always_called)
    return _register(_global_forward_hooks, hook, flags=flags)


def register_module_full_backward_pre_hook(
    hook: Callable[[Module, tuple[Tensor, ...] | Tensor], tuple[Tensor, ...] | Tensor | None],
) -> RemovableHandle:
    """Call a hook when the gradients of the outputs of a module are known, for every module.

    Args:
        hook: `hook(module, grad_output)`. A result other than `None` replaces the gradients.

    Returns:
        A handle whose `remove` method takes the hook away.
    """
    return _register(_global_backward_pre_hooks, hook)


def register_module_full_backward_hook(
    hook: Callable[
        [Module, tuple[Tensor, ...] | Tensor, tuple[Tensor, ...] | Tensor], tuple[Tensor, ...] | Tensor | None
    ],
) -> RemovableHandle:
    """Call a hook when the gradients of the inputs of a module are known, for every module.

    Args:
        hook: `hook(module, grad_input, grad_output)`. A result other than `None` replaces `grad_input`.

    Returns:
        A handle whose `remove` method takes the hook away.
    """
    return _register_global_backward_hook(hook, True)


def register_module_backward_hook(
    hook: Callable[
        [Module, tuple[Tensor, ...] | Tensor, tuple[Tensor, ...] | Tensor], tuple[Tensor, ...] | Tensor | None
    ],
) -> RemovableHandle:
    """Call a hook with the gradients of the last node of each module. Deprecated.

    `register_module_full_backward_hook` sees the gradients of the inputs of the module.

    Args:
        hook: `hook(module, grad_input, grad_output)`.

    Returns:
        A handle whose `remove` method takes the hook away.
    """
    return _register_global_backward_hook(hook, False)


def _register_global_backward_hook(hook, full):
    global _global_is_full_backward_hook
    if _global_is_full_backward_hook is (not full):
        raise RuntimeError(
            "Cannot use both regular backward hooks and full backward hooks as a global Module hook. Please use only "
            "one of them."
        )
    _global_is_full_backward_hook = full
    return _register(_global_backward_hooks, hook)


def register_module_parameter_registration_hook(
    hook: Callable[[Module, str, Parameter], Parameter | None],
) -> RemovableHandle:
    """Call a hook when a parameter is registered in any module.

    Args:
        hook: `hook(module, name, param)`. A result other than `None` is registered instead.

    Returns:
        A handle whose `remove` method takes the hook away.

    Example:
        >>> import pytpu as torch
        >>> names = []
        >>> handle = torch.nn.modules.module.register_module_parameter_registration_hook(
        ...     lambda module, name, param: names.append(name)
        ... )
        >>> layer = torch.nn.Linear(2, 3)
        >>> handle.remove()
        >>> names
        ['weight', 'bias']
    """
    return _register(_global_parameter_registration_hooks, hook)


def register_module_buffer_registration_hook(
    hook: Callable[[Module, str, Tensor | None], Tensor | None],
) -> RemovableHandle:
    """Call a hook when a buffer is registered in any module.

    Args:
        hook: `hook(module, name, buffer)`. A result other than `None` is registered instead.

    Returns:
        A handle whose `remove` method takes the hook away.
    """
    return _register(_global_buffer_registration_hooks, hook)


def register_module_module_registration_hook(
    hook: Callable[[Module, str, Module | None], Module | None],
) -> RemovableHandle:
    """Call a hook when a module is registered in any module.

    Args:
        hook: `hook(module, name, submodule)`. A result other than `None` is registered instead.

    Returns:
        A handle whose `remove` method takes the hook away.
    """
    return _register(_global_module_registration_hooks, hook)


class _ModuleHooks(_ModuleTables):
    """The part of `Module` that registers and calls hooks."""

    def register_forward_pre_hook(
        self,
        hook: Callable[[T, tuple[Any, ...]], Any | None]
        | Callable[[T, tuple[Any, ...], dict[str, Any]], tuple[Any, dict[str, Any]] | None],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
    ) -> RemovableHandle:
        """Call a hook before each forward.

        Args:
            hook: `hook(module, args)`. A result other than `None` replaces the arguments. With `with_kwargs`,
                `hook(module, args, kwargs)`, whose result is `None` or a pair.
            prepend: Whether to call it before the other hooks of the module.
            with_kwargs: Whether the hook takes the keyword arguments too.

        Returns:
            A handle whose `remove` method takes the hook away.

        Example:
            >>> import pytpu as torch
            >>> layer = torch.nn.Identity()
            >>> handle = layer.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
            >>> layer(torch.zeros(2))
            tensor([1., 1.])
            >>> handle.remove()
        """
        flags = [self._forward_pre_hooks_with_kwargs] if with_kwargs else []
        return _register(self._forward_pre_hooks, hook, prepend=prepend, flags=flags)

    def register_forward_hook(
        self,
        hook: Callable[[T, tuple[Any, ...], Any], Any | None]
        | Callable[[T, tuple[Any, ...], dict[str, Any], Any], Any | None],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """Call a hook after each forward.

        Args:
            hook: `hook(module, args, output)`, or `hook(module, args, kwargs, output)` with `with_kwargs`. A result
                other than `None` replaces the output.
            prepend: Whether to call it before the other hooks of the module.
            with_kwargs: Whether the hook takes the keyword arguments too.
            always_call: Whether to call the hook after an exception too.

        Returns:
            A handle whose `remove` method takes the hook away.

        Example:
            >>> import pytpu as torch
            >>> layer = torch.nn.Identity()
            >>> handle = layer.register_forward_hook(lambda module, args, output: 2 * output)
            >>> layer(torch.ones(2))
            tensor([2., 2.])
            >>> handle.remove()
        """
        flags = []
        if with_kwargs:
            flags.append(self._forward_hooks_with_kwargs)
        if always_call:
            flags.append(self._forward_hooks_always_called)
        return _register(self._forward_hooks, hook, prepend=prepend, flags=flags)

    def register_full_backward_pre_hook(
        self,
        hook: Callable[[Module, tuple[Tensor, ...] | Tensor], tuple[Tensor, ...] | Tensor | None],
        prepend: bool = False,
    ) -> RemovableHandle:
        """Call a hook when the gradients of the outputs are known.

        Args:
            hook: `hook(module, grad_output)`. A result other than `None` replaces the gradients.
            prepend: Whether to call it before the other hooks of the module.

        Returns:
            A handle whose `remove` method takes the hook away.
        """
        return _register(self._backward_pre_hooks, hook, prepend=prepend)

    def register_full_backward_hook(
        self,
        hook: Callable[
            [Module, tuple[Tensor, ...] | Tensor, tuple[Tensor, ...] | Tensor], tuple[Tensor, ...] | Tensor | None
        ],
        prepend: bool = False,
    ) -> RemovableHandle:
        """Call a hook when the gradients of the inputs are known.

        Args:
            hook: `hook(module, grad_input, grad_output)` with tuples of gradients. A result other than `None`
                replaces `grad_input`.
            prepend: Whether to call it before the other hooks of the module.

        Returns:
            A handle whose `remove` method takes the hook away.

        Raises:
            RuntimeError: The module has a hook of `register_backward_hook`.

        Example:
            >>> import pytpu as torch
            >>> layer = torch.nn.Linear(2, 1, bias=False)
            >>> seen = []
            >>> handle = layer.register_full_backward_hook(lambda module, gx, gy: seen.append(gy[0].item()))
            >>> layer(torch.ones(1, 2, requires_grad=True)).sum().backward()
            >>> seen
            [1.0]
        """
        if self._is_full_backward_hook is False:
            raise RuntimeError(
                "Cannot use both regular backward hooks and full backward hooks on a single Module. "
                "Please use only one of them."
            )
        self._is_full_backward_hook = True
        return _register(self._backward_hooks, hook, prepend=prepend)

    def register_backward_hook(
        self,
        hook: Callable[
            [Module, tuple[Tensor, ...] | Tensor, tuple[Tensor, ...] | Tensor], tuple[Tensor, ...] | Tensor | None
        ],
    ) -> RemovableHandle:
        """Call a hook with the gradients of the last node of the forward. Deprecated.

        `register_full_backward_hook` sees the gradients of the inputs of the module.

        Args:
            hook: `hook(module, grad_input, grad_output)`.

        Returns:
            A handle whose `remove` method takes the hook away.

        Raises:
            RuntimeError: The module has a hook of `register_full_backward_hook`.
        """
        if self._is_full_backward_hook is True:
            raise RuntimeError(
                "Cannot use both regular backward hooks and full backward hooks on a single Module. "
                "Please use only one of them."
            )
        self._is_full_backward_hook = False
        return _register(self._backward_hooks, hook)

    def _call_with_hooks(self, args, kwargs):
        called = set()
        result = None
        try:
            for hook_id, hook in (*_global_forward_pre_hooks.items(), *self._forward_pre_hooks.items()):
                if hook_id in self._forward_pre_hooks_with_kwargs:
                    replaced = hook(self, args, kwargs)
                    if replaced is not None:
                        if not (isinstance(replaced, tuple) and len(replaced) == 2):
                            raise RuntimeError(
                                "forward pre-hook must return None or a tuple of (new_args, new_kwargs), "
                                f"but got {replaced}."
                            )
                        args, kwargs = replaced
                else:
                    replaced = hook(self, args)
                    if replaced is not None:
                        args = replaced if isinstance(replaced, tuple) else (replaced,)

            backward = None
            hooks, node_hooks = [], []
            (hooks if _global_is_full_backward_hook else node_hooks).extend(_global_backward_hooks.values())
            (hooks if self._is_full_backward_hook else node_hooks).extend(self._backward_hooks.values())
            pre_hooks = [*_global_backward_pre_hooks.values(), *self._backward_pre_hooks.values()]
            if hooks or pre_hooks:
                backward = BackwardHook(self, hooks, pre_hooks)
                args = backward.setup_input_hook(args)

            result = self.forward(*args, **kwargs)

            for hook_id, hook in (*_global_forward_hooks.items(), *self._forward_hooks.items()):
                called.add(hook_id)
                if hook_id in self._forward_hooks_with_kwargs or hook_id in _global_forward_hooks_with_kwargs:
                    replaced = hook(self, args, kwargs, result)
                else:
                    replaced = hook(self, args, result)
                if replaced is not None:
                    result = replaced

            if backward is not None:
                result = backward.setup_output_hook(result)
            if node_hooks:
                call_node_hooks(self, node_hooks, args, result)
            return result
        except Exception:
            # Hooks with `always_call` run after an exception too. Their own exceptions must not hide the first one.
            always = {**_global_forward_hooks_always_called, **self._forward_hooks_always_called}
            for hook_id, hook in (*_global_forward_hooks.items(), *self._forward_hooks.items()):
                if hook_id not in always or hook_id in called:
                    continue
                try:
                    if hook_id in self._forward_hooks_with_kwargs or hook_id in _global_forward_hooks_with_kwargs:
                        hook(self, args, kwargs, result)
                    else:
                        hook(self, args, result)
                except Exception as failed:
                    import warnings

                    warnings.warn(
                        "module forward hook with ``always_call=True`` raised an exception that was silenced as "
                        f"another error was raised in forward: {failed}",
                        stacklevel=2,
                    )
            raise
