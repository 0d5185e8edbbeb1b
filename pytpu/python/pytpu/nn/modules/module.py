"""`Module`: a tree of parameters, buffers and submodules with a `forward`.

Hooks, state and moves are parts of the class in files of their own.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from types import FunctionType

import pytpu as torch
from pytpu import Tensor
from pytpu.nn.parameter import Buffer, Parameter, clear_gradient
from pytpu.utils.hooks import BackwardHook as BackwardHook, RemovableHandle as RemovableHandle

from . import _module_hooks
from ._module_hooks import (
    _global_backward_hooks as _global_backward_hooks,
    _global_backward_pre_hooks as _global_backward_pre_hooks,
    _global_buffer_registration_hooks as _global_buffer_registration_hooks,
    _global_forward_hooks as _global_forward_hooks,
    _global_forward_hooks_always_called as _global_forward_hooks_always_called,
    _global_forward_hooks_with_kwargs as _global_forward_hooks_with_kwargs,
    _global_forward_pre_hooks as _global_forward_pre_hooks,
    _global_module_registration_hooks as _global_module_registration_hooks,
    _global_parameter_registration_hooks as _global_parameter_registration_hooks,
    _ModuleHooks,
    _register as _register,
    _WrappedHook as _WrappedHook,
    register_module_backward_hook as register_module_backward_hook,
    register_module_buffer_registration_hook as register_module_buffer_registration_hook,
    register_module_forward_hook as register_module_forward_hook,
    register_module_forward_pre_hook as register_module_forward_pre_hook,
    register_module_full_backward_hook as register_module_full_backward_hook,
    register_module_full_backward_pre_hook as register_module_full_backward_pre_hook,
    register_module_module_registration_hook as register_module_module_registration_hook,
    register_module_parameter_registration_hook as register_module_parameter_registration_hook,
)
from ._module_moves import _ModuleMoves, _parse_to as _parse_to
from ._module_state import (
    _EXTRA_STATE_KEY_SUFFIX as _EXTRA_STATE_KEY_SUFFIX,
    _IncompatibleKeys as _IncompatibleKeys,
    _ModuleState,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    from typing_extensions import Self

    T = TypeVar("T", bound="Module")
    T_destination = TypeVar("T_destination", bound=dict[str, Any])


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


class Module(_ModuleHooks, _ModuleState, _ModuleMoves):
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


for _part in (_ModuleHooks, _ModuleState, _ModuleMoves):
    for _value in vars(_part).values():
        # Pickles and errors name the method of `Module`.
        if isinstance(_value, FunctionType):
            _value.__qualname__ = f"Module.{_value.__name__}"
del _part, _value


def __getattr__(name: str) -> Any:
    if name == "_global_is_full_backward_hook":
        return _module_hooks._global_is_full_backward_hook
    raise AttributeError(f"module 'torch.nn.modules.module' has no attribute '{name}'")
