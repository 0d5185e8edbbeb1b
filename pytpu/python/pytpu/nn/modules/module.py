"""`Module`: a tree of parameters, buffers and submodules with a `forward`."""

import itertools
import weakref
from collections import OrderedDict, namedtuple

import pytpu as torch
from pytpu.nn.parameter import Buffer, Parameter, clear_gradient, is_lazy
from pytpu.utils.hooks import BackwardHook, RemovableHandle, call_node_hooks

_global_forward_pre_hooks = OrderedDict()
_global_forward_hooks = OrderedDict()
_global_forward_hooks_always_called = OrderedDict()
_global_forward_hooks_with_kwargs = OrderedDict()
_global_backward_pre_hooks = OrderedDict()
_global_backward_hooks = OrderedDict()
_global_is_full_backward_hook = None
_global_parameter_registration_hooks = OrderedDict()
_global_buffer_registration_hooks = OrderedDict()
_global_module_registration_hooks = OrderedDict()

_EXTRA_STATE_KEY_SUFFIX = "_extra_state"


class _IncompatibleKeys(namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    __slots__ = ()

    def __repr__(self):
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
    """A hook, given its module first where there is one. It does not keep it, and goes with it where that is copied or pickled.

    Its name and its state are PyTorch's, as files have them.
    """

    def __init__(self, hook, module=None):
        self.hook = hook
        self.with_module = module is not None
        self.module = weakref.ref(module) if self.with_module else None

    def __call__(self, *args):
        return self.hook(self.module(), *args) if self.with_module else self.hook(*args)

    def __getstate__(self):
        state = {"hook": self.hook, "with_module": self.with_module}
        return {**state, "module": self.module()} if self.with_module else state

    def __setstate__(self, state):
        self.__init__(state["hook"], state.get("module"))


def register_module_forward_pre_hook(hook):
    """Calls `hook(module, input)` before the forward of every module."""
    return _register(_global_forward_pre_hooks, hook)


def register_module_forward_hook(hook, *, with_kwargs=False, always_call=False):
    """Calls `hook(module, input, output)` after the forward of every module."""
    flags = []
    if with_kwargs:
        flags.append(_global_forward_hooks_with_kwargs)
    if always_call:
        flags.append(_global_forward_hooks_always_called)
    return _register(_global_forward_hooks, hook, flags=flags)


def register_module_full_backward_pre_hook(hook):
    """Calls `hook(module, grad_output)` before the backward of every module."""
    return _register(_global_backward_pre_hooks, hook)


def register_module_full_backward_hook(hook):
    """Calls `hook(module, grad_input, grad_output)` after the backward of every module."""
    return _register_global_backward_hook(hook, True)


def register_module_backward_hook(hook):
    """Call `hook(module, grad_input, grad_output)` after the backward of the last node of every module. Deprecated."""
    return _register_global_backward_hook(hook, False)


def _register_global_backward_hook(hook, full):
    global _global_is_full_backward_hook
    if _global_is_full_backward_hook is (not full):
        raise RuntimeError(
            "Cannot use both regular backward hooks and full backward hooks as a global Module hook. Please use only one of "
            "them."
        )
    _global_is_full_backward_hook = full
    return _register(_global_backward_hooks, hook)


def register_module_parameter_registration_hook(hook):
    """Calls `hook(module, name, param)` when a parameter is registered anywhere; it may return another one."""
    return _register(_global_parameter_registration_hooks, hook)


def register_module_buffer_registration_hook(hook):
    """Calls `hook(module, name, buffer)` when a buffer is registered anywhere; it may return another one."""
    return _register(_global_buffer_registration_hooks, hook)


def register_module_module_registration_hook(hook):
    """Calls `hook(module, name, submodule)` when a submodule is registered anywhere; it may return another one."""
    return _register(_global_module_registration_hooks, hook)


def _takes_persistent(register_buffer):
    """Whether a `register_buffer` method, which a subclass may override, has the parameter `persistent`."""
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
    return first + "\n" + "\n".join(" " * spaces + line for line in rest)


def _forward_unimplemented(self, *input):
    """What a call runs; every subclass defines its own."""
    raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')


class Module:
    """A tree of parameters, buffers and submodules with a `forward`.

    Parameters, buffers and modules are registered by assigning them as attributes.
    """

    dump_patches = False
    _version = 1
    training: bool
    call_super_init = False
    _compiled_call_impl = None

    def __init__(self, *args, **kwargs):
        if not self.call_super_init and kwargs:
            raise TypeError(
                f"{type(self).__name__}.__init__() got an unexpected keyword argument '{next(iter(kwargs))}'"
            )
        if not self.call_super_init and args:
            raise TypeError(
                f"{type(self).__name__}.__init__() takes 1 positional argument but {len(args) + 1} were given"
            )
        # Straight into __dict__: __setattr__ would search the tables that are being made here.
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

    def register_buffer(self, name, tensor, persistent=True):
        """Adds a buffer: state that is saved and moved with the module, but not trained."""
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
        self._buffers[name] = tensor
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def register_parameter(self, name, param):
        """Adds a parameter; `None` reserves the name."""
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

    def add_module(self, name, module):
        """Adds a submodule under `name`."""
        if not isinstance(module, Module) and module is not None:
            raise TypeError(f"{_typename(module)} is not a Module subclass")
        self._check_new_name("module", self._modules, name)
        for hook in _global_module_registration_hooks.values():
            replaced = hook(self, name, module)
            if replaced is not None:
                module = replaced
        self._modules[name] = module

    def register_module(self, name, module):
        """The same as `add_module`."""
        self.add_module(name, module)

    def __getattr__(self, name):
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

    def __setattr__(self, name, value):
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
                f"cannot assign '{_typename(value)}' as buffer '{name}' (torch.nn.Buffer, torch.Tensor or None expected)"
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
                "Registering a non-persistent buffer on a Module subclass that implements register_buffer() without the "
                "persistent argument is not allowed."
            )

    @staticmethod
    def _forget(name, *tables):
        for table in tables:
            table.pop(name, None)

    def __delattr__(self, name):
        if name in self._parameters:
            del self._parameters[name]
        elif name in self._buffers:
            del self._buffers[name]
            self._non_persistent_buffers_set.discard(name)
        elif name in self._modules:
            del self._modules[name]
        else:
            super().__delattr__(name)

    def __dir__(self):
        names = [*dir(type(self)), *self.__dict__, *self._parameters, *self._modules, *self._buffers]
        return sorted({name for name in names if not name[:1].isdigit()})

    # ---- finding parts by a dotted path

    def get_submodule(self, target):
        """The submodule at a dotted path; the module itself for an empty one."""
        module = self
        for part in target.split(".") if target else ():
            if not hasattr(module, part):
                raise AttributeError(f"{module._get_name()} has no attribute `{part}`")
            module = getattr(module, part)
            if not isinstance(module, Module):
                raise AttributeError(f"`{part}` is not an nn.Module")
        return module

    def set_submodule(self, target, module, strict=False):
        """Replaces (or, unless `strict`, adds) the submodule at a dotted path."""
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

    def get_parameter(self, target):
        """The parameter at a dotted path."""
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
        param = getattr(module, name)
        if not isinstance(param, Parameter):
            raise AttributeError(f"`{name}` is not an nn.Parameter")
        return param

    def get_buffer(self, target):
        """The buffer at a dotted path."""
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
        if name not in module._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        return module._buffers[name]

    def get_extra_state(self):
        """Override it to save more than tensors in the state dict."""
        raise RuntimeError(
            "Reached a code path in Module.get_extra_state() that should never be called. Please file an issue."
        )

    def set_extra_state(self, state):
        """Override it to load what `get_extra_state` saved."""
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

    def parameters(self, recurse=True):
        """The parameters, each once."""
        for _, param in self.named_parameters(recurse=recurse):
            yield param

    def named_parameters(self, prefix="", recurse=True, remove_duplicate=True):
        """(dotted name, parameter) pairs, each parameter once unless told otherwise."""
        yield from self._named_members(lambda m: m._parameters.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse=True):
        """The buffers, each once."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def named_buffers(self, prefix="", recurse=True, remove_duplicate=True):
        """(dotted name, buffer) pairs, each buffer once unless told otherwise."""
        yield from self._named_members(lambda m: m._buffers.items(), prefix, recurse, remove_duplicate)

    def children(self):
        """The direct submodules, each once."""
        for _, module in self.named_children():
            yield module

    def named_children(self):
        """(name, submodule) pairs of the direct submodules, each once."""
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def modules(self):
        """This module and all below it, each once."""
        for _, module in self.named_modules():
            yield module

    def named_modules(self, memo=None, prefix="", remove_duplicate=True):
        """(dotted name, module) pairs of this module and all below it."""
        # `_named_members` passes the prefix first, as callers of this method may have it by position.
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

    def apply(self, fn):
        """Calls `fn` on every submodule, children first, then on this module."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def _apply(self, fn, recurse=True, _seen=None):
        # Keep each parameter object and replace its data: a tied layer or an optimizer that refers to the object then sees the
        # change. `_seen` prevents transforming a shared parameter twice.
        seen = set() if _seen is None else _seen
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
                param.data = fn(param.data)
                if param.grad is not None:
                    requires_grad = param.grad.requires_grad
                    param.grad = fn(param.grad.data).requires_grad_(requires_grad)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def to(self, *args, **kwargs):
        """Moves parameters and buffers to a device and casts the floating-point ones to a dtype, in place."""
        device, dtype, non_blocking, memory_format = _parse_to(args, kwargs)
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(
                f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}"
            )
        if dtype is not None and dtype.is_complex:
            import warnings

            warnings.warn(
                "Complex modules are a new feature under active development whose design may change, and some modules might not "
                "work as expected when using complex tensors as parameters or buffers. Please file an issue at "
                "https://github.com/pytorch/pytorch/issues/new?template=bug-report.yml if a complex module does not work as "
                "expected.",
                stacklevel=2,
            )

        def convert(t):
            target = dtype if t.is_floating_point() or t.is_complex() else None
            if memory_format is not None and t.dim() in (4, 5):
                return t.to(device, target, non_blocking, memory_format=memory_format)
            if device is None:
                return t if target is None else t.to(target)
            return t.to(device, non_blocking=non_blocking) if target is None else t.to(device, target, non_blocking)

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

    def to_empty(self, *, device, recurse=True):
        """Moves to a device without copying the values."""
        return self._apply(lambda t: torch.empty_like(t, device=device), recurse=recurse)

    def cpu(self):
        """Moves everything to the host."""
        return self._apply(lambda t: t.cpu())

    def tpu(self, device=None):
        """Moves everything to the accelerator."""
        return self.to("tpu" if device is None else device)

    def cuda(self, device=None):
        """Moves everything to a CUDA device."""
        return self._apply(lambda t: t.cuda(device))

    def type(self, dst_type):
        """Casts everything to a type."""
        return self._apply(lambda t: t.type(dst_type))

    def float(self):
        """Casts floating-point parameters and buffers to float32."""
        return self._apply(lambda t: t.float() if t.is_floating_point() else t)

    def double(self):
        """Casts floating-point parameters and buffers to float64."""
        return self._apply(lambda t: t.double() if t.is_floating_point() else t)

    def half(self):
        """Casts floating-point parameters and buffers to float16."""
        return self._apply(lambda t: t.half() if t.is_floating_point() else t)

    def bfloat16(self):
        """Casts floating-point parameters and buffers to bfloat16."""
        return self._apply(lambda t: t.bfloat16() if t.is_floating_point() else t)

    def share_memory(self):
        """Moves the storage of everything to shared memory."""
        return self._apply(lambda t: t.share_memory_())

    def train(self, mode=True):
        """Sets training mode, here and below."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self):
        """Sets evaluation mode, here and below."""
        return self.train(False)

    def requires_grad_(self, requires_grad=True):
        """Switches gradients of all parameters on or off."""
        for p in self.parameters():
            p.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none=True):
        """Forgets (or zeroes) the gradients of all parameters."""
        for p in self.parameters():
            clear_gradient(p, set_to_none)

    def compile(self, *args, **kwargs):
        """Compiles the forward in place."""
        object.__setattr__(self, "_compiled_call_impl", torch.compile(self._call_impl, *args, **kwargs))

    # ---- hooks

    def register_forward_pre_hook(self, hook, *, prepend=False, with_kwargs=False):
        """Calls `hook(module, args)` before forward; what it returns replaces the arguments."""
        flags = [self._forward_pre_hooks_with_kwargs] if with_kwargs else []
        return _register(self._forward_pre_hooks, hook, prepend=prepend, flags=flags)

    def register_forward_hook(self, hook, *, prepend=False, with_kwargs=False, always_call=False):
        """Calls `hook(module, args, output)` after forward; what it returns replaces the output."""
        flags = []
        if with_kwargs:
            flags.append(self._forward_hooks_with_kwargs)
        if always_call:
            flags.append(self._forward_hooks_always_called)
        return _register(self._forward_hooks, hook, prepend=prepend, flags=flags)

    def register_full_backward_pre_hook(self, hook, prepend=False):
        """Calls `hook(module, grad_output)` when the gradients of the outputs are known."""
        return _register(self._backward_pre_hooks, hook, prepend=prepend)

    def register_full_backward_hook(self, hook, prepend=False):
        """Calls `hook(module, grad_input, grad_output)` when the gradients of the inputs are known."""
        if self._is_full_backward_hook is False:
            raise RuntimeError(
                "Cannot use both regular backward hooks and full backward hooks on a single Module. "
                "Please use only one of them."
            )
        self._is_full_backward_hook = True
        return _register(self._backward_hooks, hook, prepend=prepend)

    def register_backward_hook(self, hook):
        """Call `hook(module, grad_input, grad_output)` with the gradients of the last node of forward only. Deprecated.

        `register_full_backward_hook` sees the gradients of the module's inputs.
        """
        if self._is_full_backward_hook is True:
            raise RuntimeError(
                "Cannot use both regular backward hooks and full backward hooks on a single Module. "
                "Please use only one of them."
            )
        self._is_full_backward_hook = False
        return _register(self._backward_hooks, hook)

    def register_state_dict_pre_hook(self, hook):
        """Calls `hook(module, prefix, keep_vars)` before `state_dict`."""
        return _register(self._state_dict_pre_hooks, hook)

    def register_state_dict_post_hook(self, hook):
        """Calls `hook(module, state_dict, prefix, local_metadata)` after `state_dict`; changes are made in place."""
        hook._from_public_api = True
        return _register(self._state_dict_hooks, hook)

    def _register_state_dict_hook(self, hook):
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError(
                "Cannot register the same function as the state dict post hook that was "
                "previously registered via register_state_dict_post_hook"
            )
        return _register(self._state_dict_hooks, hook)

    def register_load_state_dict_pre_hook(self, hook):
        """Calls `hook(module, state_dict, prefix, metadata, strict, missing, unexpected, errors)` before loading."""
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def _register_load_state_dict_pre_hook(self, hook, with_module=False):
        return _register(self._load_state_dict_pre_hooks, _WrappedHook(hook, self) if with_module else hook)

    def register_load_state_dict_post_hook(self, hook):
        """Calls `hook(module, incompatible_keys)` after loading; it may edit the lists in place."""
        return _register(self._load_state_dict_post_hooks, hook)

    # ---- calling

    def __call__(self, *args, **kwargs):
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
            # Hooks registered with always_call run even so; their own failures must not hide the first one.
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

    def __getstate__(self):
        state = self.__dict__.copy()
        state.pop("_compiled_call_impl", None)
        return state

    def __setstate__(self, state):
        self.__dict__.update(state)
        # A module pickled by an older version may lack tables that were added later.
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

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        for name, param in self._parameters.items():
            if param is not None:
                destination[prefix + name] = param if keep_vars else param.detach()
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in self._non_persistent_buffers_set:
                destination[prefix + name] = buffer if keep_vars else buffer.detach()
        if type(self).get_extra_state is not Module.get_extra_state:
            destination[prefix + _EXTRA_STATE_KEY_SUFFIX] = self.get_extra_state()

    def state_dict(self, *args, destination=None, prefix="", keep_vars=False):
        """All parameters and persistent buffers by dotted name, detached but sharing memory."""
        if args:
            # The positional form is the older one: destination, prefix, keep_vars.
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
        self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
    ):
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
                    param.materialize(value.shape)
            if (not lazy or not is_lazy(value)) and param.is_meta and not value.is_meta and not assign:
                import warnings

                warnings.warn(
                    f"for {key}: copying from a non-meta parameter in the checkpoint to a meta parameter in the current "
                    "model, which is a no-op. (Did you mean to pass `assign=True` to assign items in the state "
                    "dictionary to their corresponding key in the module instead of copying them in place?)",
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

    def load_state_dict(self, state_dict, strict=True, assign=False):
        """Copies (or assigns) values by dotted name; `strict` demands that the names agree exactly."""
        from collections.abc import Mapping

        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        missing, unexpected, errors = [], [], []
        metadata = getattr(state_dict, "_metadata", None)
        state_dict = OrderedDict(state_dict)
        if metadata is not None:
            state_dict._metadata = metadata

        def load(module, local, prefix):
            local_metadata = {} if metadata is None else metadata.get(prefix[:-1], {})
            if assign:
                local_metadata["assign_to_params_buffers"] = True
            module._load_from_state_dict(local, prefix, local_metadata, True, missing, unexpected, errors)
            for name, child in module._modules.items():
                if child is not None:
                    child_prefix = f"{prefix}{name}."
                    load(child, {k: v for k, v in local.items() if k.startswith(child_prefix)}, child_prefix)
            keys = _IncompatibleKeys(missing, unexpected)
            for hook in module._load_state_dict_post_hooks.values():
                if hook(module, keys) is not None:
                    raise AssertionError(
                        "Hooks registered with ``register_load_state_dict_post_hook`` are not expected to return new "
                        "values, if incompatible_keys need to be modified, it should be done inplace."
                    )

        load(self, state_dict, "")
        # The function refers to itself: without this line, garbage collection alone would free what it holds.
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

    def _get_name(self):
        return type(self).__name__

    def extra_repr(self):
        """What the repr shows between the parentheses."""
        return ""

    def __repr__(self):
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
        # A replica's parameters are the caller's to set: as attributes that need not be leaves.
        replica.__dict__["_parameters"] = {}
        for table in ("_buffers", "_modules"):
            replica.__dict__[table] = replica.__dict__[table].copy()
        replica._is_replica = True
        return replica


def _parse_to(args, kwargs):
    """Sorts the arguments of `to` into (device, dtype, non_blocking, memory_format)."""
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
                f"to() received an invalid combination of arguments - got ({type(arg).__name__}), but expected one of:\n"
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


# Where libraries look for it.
torch._C._nn._parse_to = lambda *args, **kwargs: _parse_to(args, kwargs)
