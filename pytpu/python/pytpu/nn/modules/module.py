"""`Module`: a tree of parameters, buffers and submodules with a `forward`."""

from __future__ import annotations

import itertools
import weakref
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Iterator, Mapping

import pytpu as torch
from pytpu import Tensor
from pytpu.nn.parameter import Buffer, Parameter, clear_gradient, is_lazy
from pytpu.utils.hooks import BackwardHook, RemovableHandle, call_node_hooks

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any, TypeVar, overload

    from typing_extensions import Self

    from pytpu.types import Device

    T = TypeVar("T", bound="Module")
    T_destination = TypeVar("T_destination", bound=dict[str, Any])


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

_EXTRA_STATE_KEY_SUFFIX = "_extra_state"


class _IncompatibleKeys(namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    __slots__ = ()

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__()

    __str__ = __repr__


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

    def __init__(self, hook: Callable[..., Any], module: Module | None = None) -> None:
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


def _takes_persistent(register_buffer):
    """Return whether a `register_buffer` method has the parameter `persistent`. Subclasses may override it without."""
    if getattr(register_buffer, "__func__", None) is Module.register_buffer:
        return True
    import inspect

    return "persistent" in inspect.signature(register_buffer).parameters


def _typename(value):
    return torch.typename(value)


def _addindent(text, spaces):
    first, *rest = text.split("\n")
    if not rest:
        return text
    return first + "\n" + "\n".join(" " * spaces + line if line.strip() else "" for line in rest)


def _forward_unimplemented(self: Module, *input: Any) -> None:
    """Raise an error: the subclass does not define `forward`."""
    raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')


class Module:
    """Hold parameters, buffers and submodules, and compute something from them.

    Subclasses define `forward` and call `super().__init__()` first. Assigning a `Parameter`, a `Buffer` or a
    `Module` to an attribute registers it. Calling the module runs `forward` and the hooks.

    Args:
        *args: Must be empty, unless `call_super_init` is set.
        **kwargs: Must be empty, unless `call_super_init` is set.

    Attributes:
        training: Whether the module is in training mode.
        call_super_init: Class attribute. Whether the arguments go on to the next class in the method resolution
            order.

    Raises:
        TypeError: There are arguments, and `call_super_init` is not set.

    Example:
        >>> import pytpu as torch
        >>> class Scale(torch.nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.factor = torch.nn.Parameter(torch.tensor(2.0))
        ...
        ...     def forward(self, x):
        ...         return self.factor * x
        >>> model = Scale()
        >>> model(torch.tensor([1.0, 3.0])).tolist()
        [2.0, 6.0]
        >>> [name for name, _ in model.named_parameters()]
        ['factor']
    """

    dump_patches: bool = False
    _version: int = 1
    training: bool
    call_super_init: bool = False
    if TYPE_CHECKING:
        # Libraries call `typing.get_type_hints` on modules. It needs the names of the annotations that Python keeps.
        _compiled_call_impl: Callable[..., Any] | None
        forward: Callable[..., Any]
        _parameters: dict[str, Parameter | None]
        _buffers: dict[str, Tensor | None]
        _modules: dict[str, Any]
        _non_persistent_buffers_set: set[str]
        _backward_pre_hooks: OrderedDict[int, Callable[..., Any]]
        _backward_hooks: OrderedDict[int, Callable[..., Any]]
        _is_full_backward_hook: bool | None
        _forward_hooks: OrderedDict[int, Callable[..., Any]]
        _forward_hooks_with_kwargs: OrderedDict[int, bool]
        _forward_hooks_always_called: OrderedDict[int, bool]
        _forward_pre_hooks: OrderedDict[int, Callable[..., Any]]
        _forward_pre_hooks_with_kwargs: OrderedDict[int, bool]
        _state_dict_hooks: OrderedDict[int, Callable[..., Any]]
        _state_dict_pre_hooks: OrderedDict[int, Callable[..., Any]]
        _load_state_dict_pre_hooks: OrderedDict[int, Callable[..., Any]]
        _load_state_dict_post_hooks: OrderedDict[int, Callable[..., Any]]
    _compiled_call_impl = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not self.call_super_init and kwargs:
            raise TypeError(
                f"{type(self).__name__}.__init__() got an unexpected keyword argument '{next(iter(kwargs))}'"
            )
        if not self.call_super_init and args:
            raise TypeError(
                f"{type(self).__name__}.__init__() takes 1 positional argument but {len(args) + 1} were given"
            )
        # Write to `__dict__`: `__setattr__` would search the tables, which do not exist yet.
        self.__dict__.update(
            training=True,
            _parameters={},
            _buffers={},
            _non_persistent_buffers_set=set(),
            _backward_pre_hooks=OrderedDict(),
            _backward_hooks=OrderedDict(),
            _is_full_backward_hook=None,
            _forward_hooks=OrderedDict(),
            _forward_hooks_with_kwargs=OrderedDict(),
            _forward_hooks_always_called=OrderedDict(),
            _forward_pre_hooks=OrderedDict(),
            _forward_pre_hooks_with_kwargs=OrderedDict(),
            _state_dict_hooks=OrderedDict(),
            _state_dict_pre_hooks=OrderedDict(),
            _load_state_dict_pre_hooks=OrderedDict(),
            _load_state_dict_post_hooks=OrderedDict(),
            _modules={},
        )
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    forward = _forward_unimplemented

    # ---- registration

    def _check_new_name(self, kind, table, name):
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {_typename(name)}")
        if "." in name:
            raise KeyError(
                f'module name can\'t contain ".", got: {name}'
                if kind == "module"
                else f'{kind} name can\'t contain "."'
            )
        if name == "":
            raise KeyError(
                'module name can\'t be empty string ""'
                if kind == "module"
                else f'{kind} name can\'t be empty string ""'
            )
        if hasattr(self, name) and name not in table:
            raise KeyError(f"attribute '{name}' already exists")

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Register a tensor that is saved and moved with the module but not trained.

        Args:
            name: Name of the attribute.
            tensor: The buffer. `None` reserves the name.
            persistent: Whether `state_dict` includes the buffer.

        Raises:
            TypeError: `name` is not a string, or `tensor` is not a tensor.
            KeyError: `name` is empty, has a dot, or is an attribute already.
            AttributeError: `Module.__init__` has not run.

        Example:
            >>> import pytpu as torch
            >>> module = torch.nn.Module()
            >>> module.register_buffer("mean", torch.zeros(3))
            >>> list(module.state_dict())
            ['mean']
        """
        if "_buffers" not in self.__dict__:
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        self._check_new_name("buffer", self._buffers, name)
        if tensor is not None and not isinstance(tensor, torch.Tensor):
            raise TypeError(
                f"cannot assign '{_typename(tensor)}' object to buffer '{name}' (torch Tensor or None required)"
            )
        for hook in _global_buffer_registration_hooks.values():
            replaced = hook(self, name, tensor)
            if replaced is not None:
                tensor = replaced
        if tensor is not None:
            torch._C._mark_state(tensor)
        self._buffers[name] = tensor
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Register a parameter.

        Args:
            name: Name of the attribute.
            param: The parameter. `None` reserves the name.

        Raises:
            TypeError: `name` is not a string, or `param` is not a `Parameter`.
            ValueError: `param` is not a leaf.
            KeyError: `name` is empty, has a dot, or is an attribute already.
            AttributeError: `Module.__init__` has not run.

        Example:
            >>> import pytpu as torch
            >>> module = torch.nn.Module()
            >>> module.register_parameter("scale", torch.nn.Parameter(torch.ones(3)))
            >>> module.scale.requires_grad
            True
        """
        if "_parameters" not in self.__dict__:
            raise AttributeError("cannot assign parameter before Module.__init__() call")
        self._check_new_name("parameter", self._parameters, name)
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{_typename(param)}' object to parameter '{name}' (torch.nn.Parameter or None required)"
            )
        if param is not None and param.grad_fn is not None:
            raise ValueError(
                f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created explicitly. "
                f"To express '{name}' as a function of another Tensor, compute the value in the forward() method."
            )
        if param is not None:
            for hook in _global_parameter_registration_hooks.values():
                replaced = hook(self, name, param)
                if replaced is not None:
                    param = replaced
        self._parameters[name] = param

    def add_module(self, name: str, module: Module | None) -> None:
        """Register a submodule.

        Args:
            name: Name of the attribute. It may be a number, as `Sequential` uses.
            module: The submodule. `None` reserves the name.

        Raises:
            TypeError: `name` is not a string, or `module` is not a `Module`.
            KeyError: `name` is empty, has a dot, or is an attribute already.

        Example:
            >>> import pytpu as torch
            >>> net = torch.nn.Module()
            >>> net.add_module("layer", torch.nn.Linear(2, 3))
            >>> net.layer
            Linear(in_features=2, out_features=3, bias=True)
        """
        if not isinstance(module, Module) and module is not None:
            raise TypeError(f"{_typename(module)} is not a Module subclass")
        self._check_new_name("module", self._modules, name)
        for hook in _global_module_registration_hooks.values():
            replaced = hook(self, name, module)
            if replaced is not None:
                module = replaced
        self._modules[name] = module

    def register_module(self, name: str, module: Module | None) -> None:
        """Register a submodule. The same as `add_module`.

        Args:
            name: Name of the attribute.
            module: The submodule. `None` reserves the name.
        """
        self.add_module(name, module)

    def __getattr__(self, name: str) -> Tensor | Module:
        attributes = self.__dict__
        for table in ("_parameters", "_buffers", "_modules"):
            entries = attributes.get(table)
            if entries is not None and name in entries:
                return entries[name]
        text = f"'{type(self).__name__}' object has no attribute '{name}'"
        if "_is_scripted" in self.__dict__:
            from ...jit import missing_member

            text += missing_member(name)
        raise AttributeError(text)

    def __setattr__(self, name: str, value: Any) -> None:
        attributes = self.__dict__
        parameters = attributes.get("_parameters")
        if isinstance(value, Parameter):
            if parameters is None:
                raise AttributeError("cannot assign parameters before Module.__init__() call")
            self._forget(name, attributes, attributes["_buffers"], attributes["_modules"])
            attributes["_non_persistent_buffers_set"].discard(name)
            self.register_parameter(name, value)
            return
        if parameters is not None and name in parameters:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{_typename(value)}' as parameter '{name}' (torch.nn.Parameter or None expected)"
                )
            self.register_parameter(name, value)
            return
        modules = attributes.get("_modules")
        if isinstance(value, Module):
            if modules is None:
                raise AttributeError("cannot assign module before Module.__init__() call")
            self._forget(name, attributes, parameters, attributes["_buffers"])
            attributes["_non_persistent_buffers_set"].discard(name)
            for hook in _global_module_registration_hooks.values():
                replaced = hook(self, name, value)
                if replaced is not None:
                    value = replaced
            modules[name] = value
            return
        if modules is not None and name in modules:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{_typename(value)}' as child module '{name}' (torch.nn.Module or None expected)"
                )
            modules[name] = value
            return
        buffers = attributes.get("_buffers")
        known_buffer = buffers is not None and name in buffers
        if not known_buffer and not (isinstance(value, torch.Tensor) and isinstance(value, Buffer)):
            object.__setattr__(self, name, value)
            return
        if value is not None and not isinstance(value, torch.Tensor):
            raise TypeError(
                f"cannot assign '{_typename(value)}' as buffer '{name}' (torch.nn.Buffer, torch.Tensor or None "
                "expected)"
            )
        if buffers is None:
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        if isinstance(value, Buffer):
            persistent = value.persistent
        else:
            persistent = name not in attributes["_non_persistent_buffers_set"]
        if not known_buffer:
            self._forget(name, attributes, parameters, modules)
        if _takes_persistent(self.register_buffer):
            self.register_buffer(name, value, persistent)
        elif persistent:
            self.register_buffer(name, value)
        else:
            raise RuntimeError(
                "Registering a non-persistent buffer on a Module subclass that implements register_buffer() without "
                "the persistent argument is not allowed."
            )

    @staticmethod
    def _forget(name, *tables):
        for table in tables:
            table.pop(name, None)

    def __delattr__(self, name: str) -> None:
        if name in self._parameters:
            del self._parameters[name]
        elif name in self._buffers:
            del self._buffers[name]
            self._non_persistent_buffers_set.discard(name)
        elif name in self._modules:
            del self._modules[name]
        else:
            super().__delattr__(name)

    def __dir__(self) -> list[str]:
        names = [*dir(type(self)), *self.__dict__, *self._parameters, *self._modules, *self._buffers]
        return sorted({name for name in names if not name[:1].isdigit()})

    # ---- finding parts by a dotted path

    def get_submodule(self, target: str) -> Module:
        """Return the submodule at a path.

        Args:
            target: Names joined by dots, such as `"encoder.0"`. The empty path is the module itself.

        Returns:
            The submodule.

        Raises:
            AttributeError: There is no such attribute, or it is not a module.

        Example:
            >>> import pytpu as torch
            >>> net = torch.nn.Sequential(torch.nn.Sequential(torch.nn.ReLU()))
            >>> net.get_submodule("0.0")
            ReLU()
        """
        module = self
        for part in target.split(".") if target else ():
            if not hasattr(module, part):
                raise AttributeError(f"{module._get_name()} has no attribute `{part}`")
            module = getattr(module, part)
            if not isinstance(module, Module):
                raise AttributeError(f"`{part}` is not an nn.Module")
        return module

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Put a submodule at a path.

        Args:
            target: Names joined by dots, such as `"encoder.0"`.
            module: The new submodule.
            strict: Whether there must be a submodule already.

        Raises:
            ValueError: `target` is empty, or `module` is not a module.
            AttributeError: The path does not exist, or its end is not a module.

        Example:
            >>> import pytpu as torch
            >>> net = torch.nn.Sequential(torch.nn.Sequential(torch.nn.ReLU()))
            >>> net.set_submodule("0.0", torch.nn.Tanh())
            >>> net[0][0]
            Tanh()
        """
        if target == "":
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, Module):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        parent_path, _, name = target.rpartition(".")
        parent = self.get_submodule(parent_path)
        if strict and not hasattr(parent, name):
            raise AttributeError(f"{parent._get_name()} has no attribute `{name}`")
        if hasattr(parent, name) and not isinstance(getattr(parent, name), Module):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """Return the parameter at a path.

        Args:
            target: Names joined by dots, such as `"encoder.0"`.

        Returns:
            The parameter.

        Raises:
            AttributeError: There is no such attribute, or it is not a parameter.
        """
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
        param = getattr(module, name)
        if not isinstance(param, Parameter):
            raise AttributeError(f"`{name}` is not an nn.Parameter")
        return param

    def get_buffer(self, target: str) -> Tensor:
        """Return the buffer at a path.

        Args:
            target: Names joined by dots, such as `"encoder.0"`.

        Returns:
            The buffer.

        Raises:
            AttributeError: There is no such attribute, or it is not a buffer.
        """
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
        if name not in module._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        buffer: Any = module._buffers[name]
        return buffer

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

    # ---- walking the tree

    def _named_members(self, get_members, prefix="", recurse=True, remove_duplicate=True):
        seen = set()
        modules = self.named_modules(prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]
        for path, module in modules:
            for name, value in get_members(module):
                if value is None or value in seen:
                    continue
                if remove_duplicate:
                    seen.add(value)
                yield (f"{path}.{name}" if path else name), value

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Yield the parameters, each once.

        Args:
            recurse: Whether to include the submodules.

        Yields:
            The parameters in the order of registration, those of the module first.

        Example:
            >>> import pytpu as torch
            >>> sum(p.numel() for p in torch.nn.Linear(2, 3).parameters())
            9
        """
        for _, param in self.named_parameters(recurse=recurse):
            yield param

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Yield the parameters with their dotted names.

        Args:
            prefix: Text in front of the names.
            recurse: Whether to include the submodules.
            remove_duplicate: Whether to yield shared objects only once.

        Yields:
            Pairs of name and parameter.

        Example:
            >>> import pytpu as torch
            >>> net = torch.nn.Sequential(torch.nn.Linear(2, 3))
            >>> [name for name, _ in net.named_parameters()]
            ['0.weight', '0.bias']
        """
        yield from self._named_members(lambda m: m._parameters.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Yield the buffers, each once.

        Args:
            recurse: Whether to include the submodules.

        Yields:
            The buffers in the order of registration, those of the module first.
        """
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Yield the buffers with their dotted names.

        Args:
            prefix: Text in front of the names.
            recurse: Whether to include the submodules.
            remove_duplicate: Whether to yield shared objects only once.

        Yields:
            Pairs of name and buffer.

        Example:
            >>> import pytpu as torch
            >>> [name for name, _ in torch.nn.BatchNorm1d(3).named_buffers()]
            ['running_mean', 'running_var', 'num_batches_tracked']
        """
        yield from self._named_members(lambda m: m._buffers.items(), prefix, recurse, remove_duplicate)

    def children(self) -> Iterator[Module]:
        """Yield the direct submodules, each once.

        Yields:
            The submodules.
        """
        for _, module in self.named_children():
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Yield the direct submodules with their names, each once.

        Yields:
            Pairs of name and submodule.

        Example:
            >>> import pytpu as torch
            >>> [name for name, _ in torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Tanh()).named_children()]
            ['0', '1']
        """
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def modules(self) -> Iterator[Module]:
        """Yield the module and all modules in it, each once.

        Yields:
            The modules, parents before children.
        """
        for _, module in self.named_modules():
            yield module

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """Yield the module and all modules in it, with their dotted names.

        Args:
            memo: Modules to leave out. The call adds to it.
            prefix: Text in front of the names.
            remove_duplicate: Whether to yield shared objects only once.

        Yields:
            Pairs of name and module, parents before children.

        Example:
            >>> import pytpu as torch
            >>> net = torch.nn.Sequential(torch.nn.Sequential(torch.nn.ReLU()))
            >>> [name for name, _ in net.named_modules()]
            ['', '0', '0.0']
        """
        # `_named_members` passes the prefix first, and so may other callers.
        if isinstance(memo, str):
            memo, prefix = None, memo
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(memo, f"{prefix}.{name}" if prefix else name, remove_duplicate)

    # ---- whole-tree changes

    def apply(self, fn: Callable[[Module], None]) -> Self:
        """Call a function on every module in this one, then on this one.

        Args:
            fn: Function of a module. Its result is not used.

        Returns:
            This module.

        Example:
            >>> import pytpu as torch
            >>> def clear(module):
            ...     if isinstance(module, torch.nn.Linear):
            ...         torch.nn.init.zeros_(module.weight)
            >>> net = torch.nn.Sequential(torch.nn.Linear(2, 2, bias=False)).apply(clear)
            >>> net[0].weight.sum().item()
            0.0
        """
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True, _seen: set[int] | None = None) -> Self:
        # Keep each parameter object and replace its data: a tied layer or an optimizer that refers to the object then
        # sees the change. `_seen` prevents transforming a shared parameter twice.
        seen = set() if _seen is None else _seen

        def exchange(tensor, new):
            if new is tensor:
                return
            if (tensor.device.type == "meta") == (new.device.type == "meta"):
                tensor.data = new
            else:
                # An assignment of `.data` does not cross to `meta` or back.
                torch._C._swap_tensor(tensor, new.detach())

        if recurse:
            for module in self.children():
                if type(module)._apply is Module._apply:
                    module._apply(fn, True, seen)
                else:
                    module._apply(fn)
        with torch.no_grad():
            for param in self._parameters.values():
                if param is None or id(param) in seen:
                    continue
                seen.add(id(param))
                # `fn` gets the parameter itself, whose class may override `to` and other methods.
                exchange(param, fn(param))
                grad = param.grad
                if grad is not None:
                    exchange(grad, fn(grad))
        for name, buffer in self._buffers.items():
            if buffer is not None:
                buffer = self._buffers[name] = fn(buffer)
                torch._C._mark_state(buffer)
        return self

    if TYPE_CHECKING:

        @overload
        def to(self, device: Device = ..., dtype: torch.dtype | None = ..., non_blocking: bool = ...) -> Self: ...

        @overload
        def to(self, dtype: torch.dtype, non_blocking: bool = ...) -> Self: ...

        @overload
        def to(self, tensor: Tensor, non_blocking: bool = ...) -> Self: ...

        @overload
        def to(self, *, memory_format: torch.memory_format) -> Self: ...

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Move parameters and buffers to a device, or cast them to a dtype, in place.

        A call is `to(device, dtype, non_blocking)`, `to(dtype, non_blocking)`, `to(tensor, non_blocking)` or
        `to(memory_format=...)`. Only floating-point and complex tensors are cast.

        Args:
            device: Device to move to.
            dtype: Floating-point or complex dtype to cast to.
            tensor: Tensor whose device and dtype to take.
            non_blocking: Whether the host need not wait for the copies.
            memory_format: Memory format of tensors with 4 and 5 dimensions.

        Returns:
            This module.

        Raises:
            TypeError: An argument is unknown, or `dtype` is neither floating point nor complex.
            NotImplementedError: A tensor is on device `meta`, and has no values to copy.

        Example:
            >>> import pytpu as torch
            >>> layer = torch.nn.Linear(2, 3).to(torch.float64)
            >>> layer.weight.dtype
            torch.float64
        """
        device, dtype, non_blocking, memory_format = _parse_to(args, kwargs)
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(
                f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}"
            )
        if dtype is not None and dtype.is_complex:
            import warnings

            warnings.warn(
                "Complex modules are a new feature under active development whose design may change, and some modules "
                "might not work as expected when using complex tensors as parameters or buffers. Please file an issue "
                "at https://github.com/pytorch/pytorch/issues/new?template=bug-report.yml if a complex module does "
                "not work as expected.",
                stacklevel=2,
            )

        def convert(t):
            target = dtype if t.is_floating_point() or t.is_complex() else None
            # Call `to` even if nothing changes: the class of a parameter may override it.
            if memory_format is not None and t.dim() in (4, 5):
                return t.to(device, target, non_blocking, memory_format=memory_format)
            return t.to(device, target, non_blocking)

        def converted(t):
            try:
                return convert(t)
            except NotImplementedError as error:
                if not str(error).startswith("Cannot copy out of meta tensor; no data!"):
                    raise
                raise NotImplementedError(
                    "Cannot copy out of meta tensor; no data! Please use torch.nn.Module.to_empty() instead of "
                    "torch.nn.Module.to() when moving module from meta to a different device."
                ) from None

        return self._apply(converted)

    def to_empty(self, *, device: Device, recurse: bool = True) -> Self:
        """Move parameters and buffers to a device without their values, in place.

        Args:
            device: Device to move to.
            recurse: Whether to include the submodules.

        Returns:
            This module.

        Example:
            >>> import pytpu as torch
            >>> layer = torch.nn.Linear(2, 3, device="meta").to_empty(device="cpu")
            >>> layer.weight.device
            device(type='cpu')
        """
        return self._apply(lambda t: torch.empty_like(t, device=device), recurse=recurse)

    def cpu(self) -> Self:
        """Move parameters and buffers to the host, in place.

        Returns:
            This module.
        """
        return self._apply(lambda t: t.cpu())

    def tpu(self, device: Device = None) -> Self:
        """Move parameters and buffers to the accelerator, in place.

        Args:
            device: Device to move to. `None` means `"tpu"`.

        Returns:
            This module.
        """
        return self.to("tpu" if device is None else device)

    def cuda(self, device: int | torch.device | None = None) -> Self:
        """Move parameters and buffers to a CUDA device, in place.

        Args:
            device: Device to move to. `None` means the current one.

        Returns:
            This module.
        """
        return self._apply(lambda t: t.cuda(device))

    def type(self, dst_type: torch.dtype | str) -> Self:
        """Cast all parameters and buffers to a dtype, in place.

        Args:
            dst_type: A dtype, or the name of a tensor type.

        Returns:
            This module.
        """
        return self._apply(lambda t: t.type(dst_type))

    def float(self) -> Self:
        """Cast floating-point parameters and buffers to `float32`, in place.

        Returns:
            This module.
        """
        return self._apply(lambda t: t.float() if t.is_floating_point() else t)

    def double(self) -> Self:
        """Cast floating-point parameters and buffers to `float64`, in place.

        Returns:
            This module.
        """
        return self._apply(lambda t: t.double() if t.is_floating_point() else t)

    def half(self) -> Self:
        """Cast floating-point parameters and buffers to `float16`, in place.

        Returns:
            This module.
        """
        return self._apply(lambda t: t.half() if t.is_floating_point() else t)

    def bfloat16(self) -> Self:
        """Cast floating-point parameters and buffers to `bfloat16`, in place.

        Returns:
            This module.
        """
        return self._apply(lambda t: t.bfloat16() if t.is_floating_point() else t)

    def share_memory(self) -> Self:
        """Move parameters and buffers to shared memory, in place.

        Returns:
            This module.
        """
        return self._apply(lambda t: t.share_memory_())

    def train(self, mode: bool = True) -> Self:
        """Set training or evaluation mode, here and in all submodules.

        Args:
            mode: `True` for training mode, and `False` for evaluation mode.

        Returns:
            This module.

        Raises:
            ValueError: `mode` is not a `bool`.

        Example:
            >>> import pytpu as torch
            >>> net = torch.nn.Sequential(torch.nn.Dropout()).train(False)
            >>> net[0].training
            False
        """
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Self:
        """Set evaluation mode, here and in all submodules.

        Returns:
            This module.

        Example:
            >>> import pytpu as torch
            >>> torch.nn.Dropout().eval()(torch.ones(3))
            tensor([1., 1., 1.])
        """
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Set whether the parameters require gradients.

        Args:
            requires_grad: The new value.

        Returns:
            This module.
        """
        for p in self.parameters():
            p.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Remove the gradients of all parameters, or set them to zero.

        Args:
            set_to_none: Whether to remove them.
        """
        for p in self.parameters():
            clear_gradient(p, set_to_none)

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile the forward, in place, by `torch.compile`.

        Args:
            *args: Arguments of `torch.compile` after the function.
            **kwargs: Keyword arguments of `torch.compile`.
        """
        object.__setattr__(self, "_compiled_call_impl", torch.compile(self._call_impl, *args, **kwargs))

    # ---- hooks

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

    def register_state_dict_pre_hook(self, hook: Callable[[T, str, bool], None]) -> RemovableHandle:
        """Call a hook before `state_dict` reads the module.

        Args:
            hook: `hook(module, prefix, keep_vars)`.

        Returns:
            A handle whose `remove` method takes the hook away.
        """
        return _register(self._state_dict_pre_hooks, hook)

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
        return _register(self._state_dict_hooks, marked)

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError(
                "Cannot register the same function as the state dict post hook that was "
                "previously registered via register_state_dict_post_hook"
            )
        return _register(self._state_dict_hooks, hook)

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
        return _register(self._load_state_dict_pre_hooks, _WrappedHook(hook, self) if with_module else hook)

    def register_load_state_dict_post_hook(self, hook: Callable[[T, _IncompatibleKeys], None]) -> RemovableHandle:
        """Call a hook after `load_state_dict` has written to the module and its submodules.

        Args:
            hook: `hook(module, incompatible_keys)`. It may change the two lists in place, and returns `None`.

        Returns:
            A handle whose `remove` method takes the hook away.
        """
        return _register(self._load_state_dict_post_hooks, hook)

    # ---- calling

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        compiled = self._compiled_call_impl
        if compiled is not None:
            return compiled(*args, **kwargs)
        return self._call_impl(*args, **kwargs)

    def _call_impl(self, *args, **kwargs):
        if not (
            self._forward_hooks
            or self._forward_pre_hooks
            or self._backward_hooks
            or self._backward_pre_hooks
            or _global_forward_hooks
            or _global_forward_pre_hooks
            or _global_backward_hooks
            or _global_backward_pre_hooks
        ):
            return self.forward(*args, **kwargs)
        return self._call_with_hooks(args, kwargs)

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

    # ---- saving and loading

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
        if type(self).get_extra_state is not Module.get_extra_state:
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
        if type(self).set_extra_state is not Module.set_extra_state:
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

    # ---- printing

    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """Return the text between the parentheses of the repr. Subclasses override it.

        Returns:
            One or several lines.
        """
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        extra_lines = extra.split("\n") if extra else []
        child_lines = [f"({name}): " + _addindent(repr(module), 2) for name, module in self._modules.items()]
        lines = extra_lines + child_lines
        if not lines:
            return f"{self._get_name()}()"
        if len(extra_lines) == 1 and not child_lines:
            return f"{self._get_name()}({extra_lines[0]})"
        return f"{self._get_name()}(\n  " + "\n  ".join(lines) + "\n)"

    def _replicate_for_data_parallel(self):
        replica = self.__new__(type(self))
        replica.__dict__ = self.__dict__.copy()
        # The caller sets the parameters of a replica as attributes, because they need not be leaves.
        replica.__dict__["_parameters"] = {}
        for table in ("_buffers", "_modules"):
            replica.__dict__[table] = replica.__dict__[table].copy()
        replica._is_replica = True
        return replica


def _parse_to(args, kwargs):
    """Return the arguments of `to` as `(device, dtype, non_blocking, memory_format)`."""
    kwargs = dict(kwargs)
    device = kwargs.pop("device", None)
    dtype = kwargs.pop("dtype", None)
    non_blocking = kwargs.pop("non_blocking", False)
    memory_format = kwargs.pop("memory_format", None)
    if "copy" in kwargs:
        raise RuntimeError(".to() does not accept copy argument")
    tensor = kwargs.pop("tensor", None)
    if kwargs:
        raise TypeError(f"to() got an unexpected keyword argument '{next(iter(kwargs))}'")
    flags = []
    for arg in args:
        if isinstance(arg, torch.Tensor):
            tensor = arg
        elif isinstance(arg, torch.dtype):
            dtype = arg
        elif isinstance(arg, bool):
            flags.append(arg)
        elif isinstance(arg, (str, int, torch.device)):
            device = arg
        elif arg is not None:
            raise TypeError(
                f"to() received an invalid combination of arguments - got ({type(arg).__name__}), but expected one "
                "of:\n"
                " * (torch.device device, torch.dtype dtype, bool non_blocking, bool copy)\n"
                " * (torch.dtype dtype, bool non_blocking, bool copy)\n"
                " * (Tensor tensor, bool non_blocking, bool copy)"
            )
    if tensor is not None:
        device, dtype = tensor.device, tensor.dtype
    if flags:
        non_blocking = flags[0]
    if len(flags) > 1:
        raise RuntimeError(".to() does not accept copy argument")
    if device is not None and not isinstance(device, torch.device):
        device = torch.device(device)
    return device, dtype, non_blocking, memory_format


# Libraries call `_parse_to` at this place.
vars(torch._C._nn)["_parse_to"] = lambda *args, **kwargs: _parse_to(args, kwargs)
