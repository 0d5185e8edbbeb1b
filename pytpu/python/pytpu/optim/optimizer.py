"""`Optimizer`: parameters in groups with options, and state per parameter."""

from __future__ import annotations

import functools
import itertools
import typing
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Iterable
from copy import deepcopy

import pytpu as torch
from pytpu import _C
from pytpu.nn.parameter import clear_gradient
from pytpu.utils.hooks import RemovableHandle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias, TypeVar

    from typing_extensions import Self

    from pytpu import Tensor

    _Step = TypeVar("_Step", bound=Callable[..., Any])
    GlobalOptimizerPreHook: TypeAlias = Callable[
        ["Optimizer", tuple[Any, ...], dict[str, Any]],
        tuple[tuple[Any, ...], dict[str, Any]] | None,
    ]
    GlobalOptimizerPostHook: TypeAlias = Callable[["Optimizer", tuple[Any, ...], dict[str, Any]], None]


_global_optimizer_pre_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
_global_optimizer_post_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()


class _RequiredParameter:
    """Value of an option that has no default."""

    def __repr__(self):
        return "<required parameter>"


required = _RequiredParameter()


def _register(hooks, hook, prepend=False):
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def register_optimizer_step_pre_hook(hook: GlobalOptimizerPreHook) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` before each step of every optimizer.

    Args:
        hook: Function to call. If it returns a tuple `(args, kwargs)`, these replace the arguments of `step`.

    Returns:
        A handle whose `remove()` removes the hook.
    """
    return _register(_global_optimizer_pre_hooks, hook)


def register_optimizer_step_post_hook(hook: GlobalOptimizerPostHook) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` after each step of every optimizer.

    Args:
        hook: Function to call. Its result is ignored.

    Returns:
        A handle whose `remove()` removes the hook.
    """
    return _register(_global_optimizer_post_hooks, hook)


# The lazy engine ends a program at the end of a training step. New state of a step is computed by another program.
_step_begins = _C._step_begins
_step_boundary = _C._step_boundary


def _wrap_step(step):
    """Wrap `step`: call hooks, and notify the lazy engine."""

    @functools.wraps(step)
    def wrapper(self, *args, **kwargs):
        for hook in (*_global_optimizer_pre_hooks.values(), *self._optimizer_step_pre_hooks.values()):
            result = hook(self, args, kwargs)
            if result is not None:
                if not (isinstance(result, tuple) and len(result) == 2):
                    raise RuntimeError(
                        f"{step} must return None or a tuple of (new_args, new_kwargs), but got {result}."
                    )
                args, kwargs = result
        # `step` of a subclass may call `step` of its base. The engine is notified of the outer call.
        is_told = self._on_accelerator() and not self.__dict__.get("_is_stepping")
        if is_told:
            self._is_stepping = True
            # Tensors that a closure fills are not state.
            is_checked = _step_begins(id(self), not (args or kwargs))
        try:
            if is_told and is_checked:
                self._read_gradients()
            out = step(self, *args, **kwargs)
            for hook in (*self._optimizer_step_post_hooks.values(), *_global_optimizer_post_hooks.values()):
                hook(self, args, kwargs)
        finally:
            if is_told:
                self._is_stepping = False
                _step_boundary()
        if is_told and is_checked:
            _C._step_errors()
        return out

    wrapper.hooked = True
    return wrapper


def without_grad(step: _Step) -> _Step:
    """Return `step` with gradients disabled, unless the option `differentiable` is set."""

    @functools.wraps(step)
    def wrapper(self, *args, **kwargs):
        with torch.set_grad_enabled(bool(self.defaults.get("differentiable", False))):
            return step(self, *args, **kwargs)

    return typing.cast("_Step", wrapper)


# Options that older versions of PyTorch did not have, and the values that replace a missing option.
_ADDED_OPTIONS = {
    "amsgrad": False,
    "nesterov": False,
    "maximize": False,
    "foreach": None,
    "capturable": False,
    "differentiable": False,
    "fused": None,
    "decoupled_weight_decay": False,
}
_TENSOR_ENTRIES = ("step", "mu_product", "eta", "mu")


class Optimizer:
    """Base class of all optimizers: parameters in groups, and state for each parameter.

    A subclass defines `step`. `param_groups` is a list of dicts: `"params"` holds the tensors, and the other keys
    are options. `state` maps each parameter to a dict.

    Args:
        params: The parameters to optimize, as tensors, as `(name, tensor)` pairs, or as dicts that each hold a list
            `"params"` and options for that group.
        defaults: Values of the options that a group does not set itself.

    Raises:
        TypeError: If `params` is one tensor, or holds something that is not a tensor.
        ValueError: If `params` is empty, holds a tensor that is not a leaf, or holds a parameter in two groups.

    Example:
        >>> import pytpu as torch
        >>> w = torch.ones(2, requires_grad=True)
        >>> optimizer = torch.optim.SGD([w], lr=0.1)
        >>> optimizer.zero_grad()
        >>> (w * w).sum().backward()
        >>> optimizer.step()
        >>> w.detach()
        tensor([0.8000, 0.8000])
    """

    if TYPE_CHECKING:
        defaults: dict[str, Any]
        state: defaultdict[Tensor, Any]
        param_groups: list[dict[str, Any]]
        _optimizer_step_pre_hooks: OrderedDict[int, Callable[..., Any]]
        _optimizer_step_post_hooks: OrderedDict[int, Callable[..., Any]]
        _optimizer_state_dict_pre_hooks: OrderedDict[int, Callable[..., Any]]
        _optimizer_state_dict_post_hooks: OrderedDict[int, Callable[..., Any]]
        _optimizer_load_state_dict_pre_hooks: OrderedDict[int, Callable[..., Any]]
        _optimizer_load_state_dict_post_hooks: OrderedDict[int, Callable[..., Any]]
    _opt_called: bool  # Set by learning-rate schedules, which warn when `step` was not called before them.

    def __init__(self, params: ParamsT, defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        self._make_hook_tables()
        if isinstance(params, torch.Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, but got "
                + torch.typename(params)
            )
        if isinstance(params, set):
            warnings.warn(
                "optimizer parameters need to be organized in ordered collections, but the ordering of tensors in "
                "sets will "
                "change between runs. Please use a list instead. This will be an error in a future release.",
                FutureWarning,
                stacklevel=3,
            )
        self.state = defaultdict(dict)
        self.param_groups = []
        groups: list[Any] = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)
        self._made_state()

    def _made_state(self):
        """Launch the ops that make parameters and state, so that the first step has the program of later steps."""
        if self._on_accelerator():
            _C._tpu_mark_step()

    def _patch_step_function(self):
        """Let `step` call hooks. Wrappers of optimizers call this by PyTorch's name when they skip `__init__`."""
        cls = type(self)
        if not getattr(cls.step, "hooked", False):
            cls.step = _wrap_step(cls.step)

    def _make_hook_tables(self):
        self._patch_step_function()
        for name in (
            "_optimizer_step_pre_hooks",
            "_optimizer_step_post_hooks",
            "_optimizer_state_dict_pre_hooks",
            "_optimizer_state_dict_post_hooks",
            "_optimizer_load_state_dict_pre_hooks",
            "_optimizer_load_state_dict_post_hooks",
        ):
            self.__dict__.setdefault(name, OrderedDict())

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._make_hook_tables()
        self.defaults.setdefault("differentiable", False)
        self._upgrade()

    def _upgrade(self):
        """Complete groups and state that an older version saved."""
        for group in self.param_groups:
            for name, value in _ADDED_OPTIONS.items():
                if name in self.defaults:
                    group.setdefault(name, value)
            for p in group["params"]:
                entry = self.state.get(p) if isinstance(p, torch.Tensor) else None
                if not isinstance(entry, dict):
                    continue
                for name in _TENSOR_ENTRIES:
                    # Older versions kept these as Python numbers.
                    if name in entry and isinstance(entry[name], (int, float)):
                        number = torch.tensor(float(entry[name]), dtype=torch.float32)
                        entry[name] = number.to(_device_of_steps(group, p))

    def __repr__(self) -> str:
        text = type(self).__name__ + " ("
        for i, group in enumerate(self.param_groups):
            text += f"\nParameter Group {i}\n"
            for key in sorted(group.keys()):
                if key != "params":
                    text += f"    {key}: {group[key]}\n"
        return text + ")"

    def _on_accelerator(self):
        for group in self.param_groups:
            for p in group["params"]:
                return p.device.type == "tpu"
        return False

    def _read_gradients(self):
        """Raise the error of a gradient that depends on a check that failed, before anything is updated.

        If it is known later, the step keeps the old values.
        """
        grads = [p.grad for group in self.param_groups for p in group["params"] if p.grad is not None]
        grads = [getattr(g, "_local_tensor", g) for g in grads]
        _C._step_reads([g for g in grads if g.device.type == "tpu"])

    # ---- hooks

    def register_step_pre_hook(
        self,
        hook: Callable[[Self, tuple[Any, ...], dict[str, Any]], tuple[tuple[Any, ...], dict[str, Any]] | None],
    ) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` before each `step` of this optimizer.

        Args:
            hook: Function to call. If it returns a tuple `(args, kwargs)`, these replace the arguments of `step`.

        Returns:
            A handle whose `remove()` removes the hook.
        """
        return _register(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(
        self,
        hook: Callable[[Self, tuple[Any, ...], dict[str, Any]], None],
    ) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` after each `step` of this optimizer.

        Args:
            hook: Function to call. Its result is ignored.

        Returns:
            A handle whose `remove()` removes the hook.

        Example:
            >>> import pytpu as torch
            >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
            >>> handle = optimizer.register_step_post_hook(lambda optimizer, args, kwargs: print("stepped"))
            >>> optimizer.step()
            stepped
        """
        return _register(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Callable[[Optimizer], None], prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer)` at the start of `state_dict`.

        Args:
            hook: Function to call. Its result is ignored.
            prepend: If `True`, call this hook before the hooks that are registered already.

        Returns:
            A handle whose `remove()` removes the hook.
        """
        return _register(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(
        self, hook: Callable[[Self, dict[str, Any]], dict[str, Any] | None], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` at the end of `state_dict`.

        Args:
            hook: Function to call. If it returns a dict, `state_dict` returns that dict.
            prepend: If `True`, call this hook before the hooks that are registered already.

        Returns:
            A handle whose `remove()` removes the hook.
        """
        return _register(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(
        self, hook: Callable[[Self, dict[str, Any]], dict[str, Any] | None], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` at the start of `load_state_dict`.

        Args:
            hook: Function to call. It gets a shallow copy of the dict. If it returns a dict, that dict is loaded.
            prepend: If `True`, call this hook before the hooks that are registered already.

        Returns:
            A handle whose `remove()` removes the hook.
        """
        return _register(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(
        self, hook: Callable[[Optimizer], None], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer)` at the end of `load_state_dict`.

        Args:
            hook: Function to call. Its result is ignored.
            prepend: If `True`, call this hook before the hooks that are registered already.

        Returns:
            A handle whose `remove()` removes the hook.
        """
        return _register(self._optimizer_load_state_dict_post_hooks, hook, prepend)

    # ---- state

    def state_dict(self) -> dict[str, Any]:
        """Return the state and the options as a dict that can be saved.

        Returns:
            A dict with two keys. `"state"` maps the number of a parameter to its state. `"param_groups"` lists the
            groups, with numbers in place of the parameters. The tensors are not copied.

        Example:
            >>> import pytpu as torch
            >>> optimizer = torch.optim.SGD([torch.zeros(2, requires_grad=True)], lr=0.1)
            >>> optimizer.state_dict()["param_groups"][0]["params"]
            [0]
        """
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        numbers: dict[int, int] = {}
        groups = []
        for group in self.param_groups:
            packed = {k: v for k, v in group.items() if k != "params"}
            for p in group["params"]:
                numbers.setdefault(id(p), len(numbers))
            packed["params"] = [numbers[id(p)] for p in group["params"]]
            groups.append(packed)
        state = {(numbers[id(k)] if isinstance(k, torch.Tensor) else k): v for k, v in self.state.items()}
        result = {"state": state, "param_groups": groups}
        for hook in self._optimizer_state_dict_post_hooks.values():
            replaced = hook(self, result)
            if replaced is not None:
                result = replaced
        return result

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what `state_dict` returned.

        Each tensor of the state moves to the device of its parameter. If the parameter is floating point, the tensor
        also takes its dtype. The step count keeps its own dtype.

        Args:
            state_dict: State of an optimizer with groups of the same sizes.

        Raises:
            ValueError: If the number of groups, or the number of parameters of a group, differs.

        Example:
            >>> import pytpu as torch
            >>> w = torch.zeros(2, requires_grad=True)
            >>> state = torch.optim.SGD([w], lr=0.5).state_dict()
            >>> optimizer = torch.optim.SGD([w], lr=0.1)
            >>> optimizer.load_state_dict(state)
            >>> optimizer.param_groups[0]["lr"]
            0.5
        """
        state_dict = state_dict.copy()
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            replaced = hook(self, state_dict)
            if replaced is not None:
                state_dict = replaced
        groups = self.param_groups
        saved_groups = deepcopy(state_dict["param_groups"])
        if len(groups) != len(saved_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        if any(len(g["params"]) != len(s["params"]) for g, s in zip(groups, saved_groups)):
            raise ValueError(
                "loaded state dict contains a parameter group that doesn't match the size of optimizer's group"
            )
        by_number = dict(
            zip(
                itertools.chain.from_iterable(g["params"] for g in saved_groups),
                itertools.chain.from_iterable(g["params"] for g in groups),
            )
        )

        def cast(param, value, number, key=None):
            if isinstance(value, torch.Tensor):
                return self._process_value(param, value, number, saved_groups, key)
            if isinstance(value, dict):
                return {k: cast(param, v, number, k) for k, v in value.items()}
            if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
                return type(value)(cast(param, v, number) for v in value)
            return value

        state: defaultdict[Any, Any] = defaultdict(dict)
        for key, value in state_dict["state"].items():
            if key in by_number:
                state[by_number[key]] = cast(by_number[key], value, key)
            else:
                state[key] = value
        for group, saved in zip(groups, saved_groups):
            saved["params"] = group["params"]
            if "param_names" in group:
                saved["param_names"] = group["param_names"]
        self.__setstate__({"state": state, "param_groups": saved_groups})
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)

    @staticmethod
    def _process_value(param, value, number, groups, key):
        group = next((g for g in groups if number in g["params"]), {})
        if key == "step":
            if group.get("capturable") or group.get("fused"):
                return value.to(dtype=torch.float32, device=_device_of_steps(group, param))
            return value
        if param.is_floating_point():
            return value.to(dtype=param.dtype, device=param.device)
        return value.to(device=param.device)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Reset the gradients of all parameters.

        Args:
            set_to_none: If `True`, set each `grad` to `None`. If `False`, fill it with zeros.

        Example:
            >>> import pytpu as torch
            >>> w = torch.ones(2, requires_grad=True)
            >>> w.sum().backward()
            >>> torch.optim.SGD([w], lr=0.1).zero_grad()
            >>> w.grad is None
            True
        """
        for group in self.param_groups:
            for p in group["params"]:
                clear_gradient(p, set_to_none)

    def step(self, closure: Callable[[], Tensor | float] | None = None) -> Tensor | float | None:
        """Update all parameters that have a gradient.

        Args:
            closure: Function that computes the loss again, calls `backward`, and returns the loss. It runs with
                gradients enabled.

        Returns:
            The result of `closure`, or `None` without a closure.
        """
        raise NotImplementedError

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group of parameters, for example layers that are unfrozen during training.

        Args:
            param_group: Dict with the parameters under `"params"`, and the options of this group. An option that is
                missing takes the default of the optimizer.

        Raises:
            TypeError: If `param_group` is not a dict, or `"params"` is a set or holds something that is not a tensor.
            ValueError: If a parameter is not a leaf or is in another group, or a required option is missing.

        Example:
            >>> import pytpu as torch
            >>> optimizer = torch.optim.SGD([torch.zeros(2, requires_grad=True)], lr=0.1)
            >>> optimizer.add_param_group({"params": [torch.zeros(3, requires_grad=True)], "lr": 0.01})
            >>> [group["lr"] for group in optimizer.param_groups]
            [0.1, 0.01]
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        params = param_group["params"]
        if isinstance(params, torch.Tensor):
            param_group["params"] = [params]
        elif isinstance(params, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the ordering of tensors in sets "
                "will change between runs. Please use a list instead."
            )
        else:
            param_group["params"] = list(params)
        names, tensors = [], []
        for param in param_group["params"]:
            if isinstance(param, tuple):
                names.append(param[0])
                tensors.append(param[1])
            else:
                tensors.append(param)
        if names and len(names) != len(tensors):
            raise ValueError("all optimizer params should be with/without names. Some param names are missing")
        param_group["params"] = tensors
        if names:
            param_group["param_names"] = names
        for param in tensors:
            if not isinstance(param, torch.Tensor):
                raise TypeError(
                    "optimizer can only optimize Tensors, but one of the params is " + torch.typename(param)
                )
            if not self.defaults.get("differentiable", None) and not (param.is_leaf or param.retains_grad):
                raise ValueError("can't optimize a non-leaf Tensor")
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError(f"parameter group didn't specify a value of required optimization parameter {name}")
            param_group.setdefault(name, default)
        if len({id(p) for p in tensors}) != len(tensors):
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters; in future, this will cause an error; "
                "see github.com/pytorch/pytorch/issues/40967 for more information",
                stacklevel=3,
            )
        known = {id(p) for group in self.param_groups for p in group["params"]}
        if any(id(p) in known for p in tensors):
            raise ValueError("some parameters appear in more than one parameter group")
        if self.param_groups and ("param_names" in param_group) != ("param_names" in self.param_groups[0]):
            has = "with names" if "param_names" in self.param_groups[0] else "without names"
            adds = "with names" if "param_names" in param_group else "without names"
            raise ValueError(
                "all optimizer param groups should be with/without names. "
                f"cannot add param group {adds} to the optimizer {has}"
            )
        self.param_groups.append(param_group)

    # ---- for the steps of most optimizers

    def _loss(self, closure):
        if closure is None:
            return None
        with torch.enable_grad():
            loss = closure()
        if self._on_accelerator() and _step_begins(id(self), True):
            self._read_gradients()
        return loss

    def _collect(self, group, sparse_error=None):
        """Return the parameters of a group that have a gradient, and the gradients."""
        params, grads = [], []
        for p in group["params"]:
            if p.grad is None:
                continue
            if sparse_error is not None and getattr(p.grad, "is_sparse", False):
                raise RuntimeError(sparse_error)
            if group.get("fused") and not (p.is_floating_point() and p.device.type in ("cpu", "tpu")):
                raise RuntimeError(
                    "`fused=True` requires all the params to be floating point Tensors of supported devices: ['cpu', "
                    "'tpu'] but "
                    f"{p.dtype} and {p.device.type}"
                )
            params.append(p)
            grads.append(p.grad)
        return params, grads


def _real(*tensors):
    """Return complex tensors as real ones with one more dimension of size 2. Others, and `None`, stay."""
    return tuple(torch.view_as_real(t) if t is not None and t.is_complex() else t for t in tensors)


def _descent(group, p, grad):
    """Return the gradient to descend along, with the sign of `maximize` and with weight decay."""
    if group["maximize"]:
        grad = -grad
    decay = group.get("weight_decay", 0)
    if decay != 0:
        if group.get("decoupled_weight_decay"):
            p.mul_(1 - group["lr"] * decay)
        else:
            grad = grad.add(p, alpha=decay)
    return grad


def _update_moments(exp_avg, exp_avg_sq, grad, beta1, beta2):
    """Update Adam's running means of the gradient and of its square."""
    exp_avg.lerp_(grad, 1 - beta1)
    exp_avg_sq.mul_(beta2).addcmul_(grad, grad, value=_scalar(1 - beta2))


class PerParameter(Optimizer):
    """Base class of optimizers that update one parameter after the other."""

    # Names of tensors of the state that start as zeros.
    _zeros: tuple[str, ...] = ()

    def _start(self, group, p, state):
        """Make the state of a parameter."""
        for name in self._zeros:
            state[name] = torch.zeros_like(p)

    def _update(self, group, p, grad, state, views):
        """Update one parameter. `views` is the state with complex tensors as real ones."""
        raise NotImplementedError

    @without_grad
    def step(self, closure: Callable[[], Tensor | float] | None = None) -> Tensor | float | None:
        """Update all parameters that have a gradient.

        Args:
            closure: Function that computes the loss again, calls `backward`, and returns the loss. It runs with
                gradients enabled.

        Returns:
            The result of `closure`, or `None` without a closure.
        """
        loss = self._loss(closure)
        for group in self.param_groups:
            params, grads = self._collect(group, f"{type(self).__name__} does not support sparse gradients")
            for p, grad in zip(params, grads):
                state = self.state[p]
                if len(state) == 0:
                    state["step"] = _step_tensor(group, p)
                    self._start(group, p, state)
                state["step"].add_(1)
                grad = _descent(group, p, grad)
                views = {k: _real(v)[0] if isinstance(v, torch.Tensor) and k != "step" else v for k, v in state.items()}
                p, grad = _real(p, grad)
                self._update(group, p, grad, state, views)
        return loss


def _check(name, value, ok):
    """Raise `ValueError` with PyTorch's wording, unless the option is in its range."""
    if not ok:
        raise ValueError(f"Invalid {name}: {value}")


def _check_not_negative(**options):
    for name, value in options.items():
        _check("epsilon value" if name == "eps" else f"{name} value", value, 0.0 <= value)


def _check_betas(betas):
    for i, beta in enumerate(betas):
        _check(f"beta parameter at index {i}", beta, 0.0 <= beta < 1.0)


def _check_forms(foreach, fused, differentiable):
    """Refuse forms of the update that exclude each other."""
    if fused and differentiable:
        raise RuntimeError("`fused` does not support `differentiable`")
    if fused and foreach:
        raise RuntimeError("`fused` and `foreach` cannot be `True` together.")


def _check_lr(lr):
    if isinstance(lr, torch.Tensor):
        if lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        return
    _check("learning rate", lr, 0.0 <= lr)


def _scalar(value):
    """Return an option as a number. It may be a one-element tensor."""
    return value.item() if isinstance(value, torch.Tensor) else value


def _step_tensor(group=None, param=None):
    """Return a new `float32` step count."""
    device = "cpu" if group is None else _device_of_steps(group, param)
    return torch.zeros((), dtype=torch.float32, device=device)


def _device_of_steps(group, param):
    """Return the device of step counts: the CPU, unless the update runs on the device alone.

    Ops of sharded parameters take plain numbers of the CPU only.
    """
    is_alone = (group.get("capturable") or group.get("fused")) and not hasattr(param, "device_mesh")
    return param.device if is_alone else "cpu"


# Names that optimizers of other libraries import.

ParamsT: typing.TypeAlias = (
    Iterable[torch.Tensor] | Iterable[dict[str, typing.Any]] | Iterable[tuple[str, torch.Tensor]]
)
_params_doc = "params: iterable of parameters or of dictionaries of groups"
_foreach_doc = "foreach: accepted, without an effect"
_capturable_doc = "capturable: accepted, without an effect"
_differentiable_doc = "differentiable: whether autograd records the step"
_maximize_doc = "maximize: whether the objective is maximized"
_fused_doc = "fused: accepted, without an effect"


def _is_answered(tensors):
    """Whether a mode or the class of a tensor answers calls below autograd, so that the step is made of plain calls."""
    return bool(torch._C._torch_dispatch_modes()) or any(torch._C._is_foreign(t) for t in tensors)


def _use_grad_for_differentiable(func):
    """Decorate `step`: autograd records it if the option `differentiable` is set."""

    @functools.wraps(func)
    def step(self, *args, **kwargs):
        with torch.set_grad_enabled(self.defaults.get("differentiable", False)):
            return func(self, *args, **kwargs)

    return step


def _get_value(x):
    """Return the number of a tensor of one element, or the number itself."""
    return x.item() if isinstance(x, torch.Tensor) else x


def _stack_if_compiling(x):
    """Return the value itself: nothing is traced."""
    return x


def _disable_dynamo_if_unsupported(single_tensor_fn=None):
    """Return a decorator that gives the function itself."""
    return lambda func: func


def _get_scalar_dtype(is_fused=None):
    """Return the dtype of a step count."""
    return torch.float64 if torch.get_default_dtype() == torch.float64 and not is_fused else torch.float32


def _default_to_fused_or_foreach(params, differentiable, use_fused=False):
    """Return whether to use a fused step, and whether to use ops over lists."""
    from ..utils._foreach_utils import _has_foreach_support

    return False, not differentiable and all(
        p is None or _has_foreach_support([p], p.device) and p.device.type != "cpu" for p in params
    )


def _get_capturable_supported_devices(supports_xla=True):
    """Return the names of devices for which PyTorch supports `capturable`."""
    return ["cuda", "xpu", "hpu", "tpu"] + (["xla"] if supports_xla else [])


def _view_as_real(params, *state_and_grads):
    """Replace complex tensors in the lists by views as real numbers, in place."""
    for i, p in enumerate(params):
        if torch.is_complex(p):
            params[i] = torch.view_as_real(p)
            for values in state_and_grads:
                values[i] = torch.view_as_real(values[i])


def _to_scalar(x):
    """Return a tensor of one element without dimensions, or the number itself."""
    return x.squeeze() if isinstance(x, torch.Tensor) and x.dim() != 0 else x
