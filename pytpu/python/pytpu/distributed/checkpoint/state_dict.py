"""`torch.distributed.checkpoint.state_dict`: states of models and optimizers under the names of a plain model.

The names do not depend on how a model is wrapped: by `DistributedDataParallel`, `FullyShardedDataParallel`,
`torch.compile` or `checkpoint_wrapper`. States of optimizers name parameters instead of numbering them. So a state
can be loaded by another number of ranks, and by a model that is wrapped in another way.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import pytpu as torch
import pytpu.distributed as dist
from pytpu import nn

from ..._compiled import OptimizedModule
from ...nn.modules.module import _EXTRA_STATE_KEY_SUFFIX, _IncompatibleKeys
from ...nn.parallel import DistributedDataParallel
from ...utils._pytree import tree_leaves
from .._state_dict_utils import (
    _broadcast_state_dict,
    _distribute_state_dict,
    _flatten_state_dict,
    _gather_state_dict,
    _offload_state_dict_to_cpu,
    _unflatten_state_dict,
)
from ..algorithms._checkpoint.checkpoint_wrapper import _PREFIX as _CHECKPOINT_WRAPPED
from ..fsdp import FullyShardedDataParallel, StateDictType
from ..tensor import DTensor
from ._pieces import device_of_group

__all__ = [
    "DictValueType",
    "FQNS_T",
    "ListDictValueType",
    "OptimizerStateType",
    "PrimitiveType",
    "StateDictOptions",
    "ValueType",
    "get_model_state_dict",
    "get_optimizer_state_dict",
    "get_state_dict",
    "set_model_state_dict",
    "set_optimizer_state_dict",
    "set_state_dict",
]

_STATE, _PG, _PARAMS = "state", "param_groups", "params"

FQNS_T = set[str]
PrimitiveType = DTensor | torch.Tensor | int | float | str
ValueType = Any
DictValueType = dict[str, ValueType]
ListDictValueType = list[DictValueType]
OptimizerStateType = dict[str, Any]

# Methods that `_patch_model_state_dict` and `_patch_optimizer_state_dict` have set.
_patched_state_dict: set[Callable[..., Any]] = set()


@dataclass
class StateDictOptions:
    """Options of the functions of this module.

    Args:
        full_state_dict: Whether tensors are whole instead of sharded.
        cpu_offload: Whether tensors are on `cpu`. Together with `full_state_dict`, only rank 0 gets a state.
        ignore_frozen_params: Whether parameters that require no gradients are left out of the state of a model.
        keep_submodule_prefixes: Deprecated. If `False`, names begin at the submodule.
        strict: Whether each name must be in the state and in the model.
        broadcast_from_rank0: Whether rank 0 alone has the state that is loaded. It requires `full_state_dict`.
        flatten_optimizer_state_dict: Whether the state of an optimizer is a dict with flat names. Then states of
            optimizers with different groups can be joined.
        dsd_fqn_modifiers: Name of a method of modules that returns attributes that names leave out.
    """

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False
    dsd_fqn_modifiers: str = "_fqn_modifiers"


# ---- names


# Wrappers, and the attribute of each that has the wrapped model.
_WRAPPERS = (
    (DistributedDataParallel, "module"),
    (OptimizedModule, "_orig_mod"),
    (FullyShardedDataParallel, "_fsdp_wrapped_module"),
)


def _plain_name(model: nn.Module, name: str, options: StateDictOptions | None = None) -> str:
    """Return the name of a parameter or buffer in the plain model.

    Args:
        model: The model.
        name: Name in the wrapped model.
        options: Options.
    """
    modifiers = (options or StateDictOptions()).dsd_fqn_modifiers
    path = name.replace(f"{_CHECKPOINT_WRAPPED}.", "").split(".")
    if _EXTRA_STATE_KEY_SUFFIX in path[:-1]:
        raise RuntimeError("Expect `_extra_state` to be the last obj name")
    kept: list[str] = []
    at: Any = model
    for position, part in enumerate(path, start=1):
        inner = next((attribute for kind, attribute in _WRAPPERS if isinstance(at, kind)), None)
        moved = getattr(at, modifiers)() if hasattr(at, modifiers) else {}
        if part != inner and part not in moved.values():
            kept.append(part)
            # The names of some modules leave an attribute out.
            between = inner or moved.get(part)
            at = getattr(at, between, at) if between else at
        if position < len(path):
            at = getattr(at, part)
    return ".".join(kept)


def _names_of_parameters(model: nn.Module, options: StateDictOptions) -> dict[torch.Tensor, list[str]]:
    """Return the names of each parameter. A parameter that modules share has several."""
    names: dict[torch.Tensor, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(parameter, []).append(_plain_name(model, name, options))
    return names


def _original(obj: nn.Module | torch.optim.Optimizer, method: str) -> Callable[..., Any]:
    """Return a method of an object, but not one that this module has set."""
    call = getattr(obj, method)
    return functools.partial(getattr(type(obj), method), obj) if call in _patched_state_dict else call


def _with_sharded_values(model: nn.Module) -> AbstractContextManager[None]:
    """Return a context in which state dicts have the sharded tensors of a model, and not whole ones."""
    return FullyShardedDataParallel.state_dict_type(model, StateDictType.SHARDED_STATE_DICT)


def _checked_options(options: StateDictOptions | None) -> StateDictOptions:
    options = options or StateDictOptions()
    if options.broadcast_from_rank0 and not options.full_state_dict:
        raise ValueError("full_state_dict must be True when broadcast_from_rank0 is True.")
    return options


def _as_optimizers(optimizers: Any) -> tuple[torch.optim.Optimizer, ...]:
    return (optimizers,) if isinstance(optimizers, torch.optim.Optimizer) else tuple(optimizers)


def _finish(state: dict[str, Any], options: StateDictOptions) -> dict[str, Any]:
    """Return a state with whole tensors or with tensors on `cpu`, as options say."""
    if options.full_state_dict:
        ranks = (0,) if options.cpu_offload and dist.is_available() and dist.is_initialized() else ()
        return _gather_state_dict(state, cpu_offload=options.cpu_offload, ranks_only=ranks)
    return _offload_state_dict_to_cpu(state) if options.cpu_offload else state


def _may_be_empty(options: StateDictOptions) -> bool:
    """Return whether another rank may have the state."""
    return (options.cpu_offload and options.full_state_dict) or options.broadcast_from_rank0


# ---- models


def _get_model_state(model: nn.Module, options: StateDictOptions, submodules: Any = None) -> dict[str, Any]:
    with torch.no_grad(), _with_sharded_values(model):
        state = {_plain_name(model, key, options): value for key, value in _original(model, "state_dict")().items()}
        if submodules:
            state = _of_submodules(model, state, options, submodules)
        if options.ignore_frozen_params:
            for name, parameter in model.named_parameters():
                if not parameter.requires_grad:
                    state.pop(_plain_name(model, name, options), None)
        state = _finish(state, options)
    if not state and not submodules and options.strict and not options.ignore_frozen_params:
        if not _may_be_empty(options):
            raise RuntimeError(_no_model_state())
    return state


def _no_model_state() -> str:
    rank = dist.get_rank() if dist.is_available() and dist.is_initialized() else 0
    return (
        "The option indicates that model state_dict is required to save or load, but model state_dict is empty."
        f"rank = dist.get_rank()={rank!r}."
    )


def _of_submodules(
    model: nn.Module, state: dict[str, Any], options: StateDictOptions, submodules: Iterable[nn.Module]
) -> dict[str, Any]:
    warnings.warn(
        "Getting submodules only model/optim state_dict is deprecated and will be removed in 2.5. This feature can be "
        "achieved by manually filtering out the state_dict returned from get_state_dict.",
        FutureWarning,
        stacklevel=4,
    )
    wanted = set(submodules)
    prefixes = [f"{_plain_name(model, name, options)}." for name, module in model.named_modules() if module in wanted]
    return {
        name if options.keep_submodule_prefixes else name[len(prefix) :]: value
        for name, value in state.items()
        for prefix in prefixes
        if name.startswith(prefix)
    }


def _with_names_of_model(model: nn.Module, state: Any) -> dict[str, Any]:
    """Return a state by names. The deprecated form has a dict for each submodule."""
    if not state or not isinstance(next(iter(state)), nn.Module):
        return state
    warnings.warn(
        "Passing model_state_dict as a ``Dict[nn.Module, Dict[str, Any]]``is deprecated and will be removed in 2.5. If "
        "you need this feature, please preprocess the model_state_dict to achieve the same functionality.",
        FutureWarning,
        stacklevel=3,
    )
    return {
        f"{_plain_name(model, name)}.{key}": value
        for name, module in model.named_modules()
        for key, value in state.get(module, {}).items()
    }


def _one_device(tensors: Iterable[Any], error: str) -> torch.device | None:
    """Return the device of all tensors with dimensions, or `None` if there are none."""
    devices = {t.device for t in tensors if torch.is_tensor(t) and t.dim() > 0 and t.device.type != "meta"}
    if len(devices) > 1:
        raise ValueError(error)
    return next(iter(devices), None)


def _load_model_state(model: nn.Module, state: dict[str, Any], options: StateDictOptions) -> _IncompatibleKeys:
    if not state and not options.broadcast_from_rank0:
        if options.strict and not options.ignore_frozen_params and not _may_be_empty(options):
            raise RuntimeError(_no_model_state())
        return _IncompatibleKeys({}, {})
    state = dict(state)
    local: dict[str, Any] = {}
    has_state = not options.broadcast_from_rank0 or dist.get_rank() == 0
    with torch.no_grad(), _with_sharded_values(model):
        # The keys that the model takes may have prefixes of its wrappers.
        for key, value in _original(model, "state_dict")().items():
            name = _plain_name(model, key, options)
            if has_state and name != key:
                if name in state:
                    state[key] = state.pop(name)
                elif options.strict:
                    raise RuntimeError(f"Missing key: {name}.")
            local[key] = value
        is_meta = False
        if options.full_state_dict:
            is_meta = any(torch.is_tensor(v) and v.dim() > 0 and v.device.type == "meta" for v in local.values())
            device = _one_device(local.values(), "Multiple devices found") or device_of_group()
            if options.broadcast_from_rank0:
                _broadcast_state_dict(
                    state, local, device=device, strict=options.strict, cpu_offload=options.cpu_offload
                )
            else:
                local = {name: value for name, value in local.items() if name in state}
                _distribute_state_dict(state, local, device=device)
            state.update(local)
        return _original(model, "load_state_dict")(state_dict=state, strict=options.strict, assign=is_meta)


# ---- optimizers


def _init_optim_state(optim: torch.optim.Optimizer) -> None:
    """Make the state of an optimizer that has not run: by a step with gradients of zero and a learning rate of zero."""
    parameters = [p for group in optim.param_groups for p in group[_PARAMS]]
    if optim.state or any(p.grad is not None for p in parameters):
        return
    for p in parameters:
        if p.requires_grad:
            p.grad = torch.zeros_like(p)
    rates = [group.get("lr") for group in optim.param_groups]
    for group, rate in zip(optim.param_groups, rates, strict=True):
        if rate is not None:
            group["lr"] = torch.zeros_like(rate) if isinstance(rate, torch.Tensor) else 0.0
    try:
        with torch.enable_grad():
            optim.step(closure=None)
    finally:
        for group, rate in zip(optim.param_groups, rates, strict=True):
            if rate is not None:
                group["lr"] = rate
        optim.zero_grad(set_to_none=True)


def _get_optimizer_state(
    model: nn.Module, optimizers: tuple[torch.optim.Optimizer, ...], options: StateDictOptions
) -> OptimizerStateType:
    joined: OptimizerStateType = {_STATE: {}, _PG: []}
    names = {p: found[0] for p, found in _names_of_parameters(model, options).items()}
    for optim in optimizers:
        _init_optim_state(optim)
        state = _original(optim, "state_dict")()
        numbers = [p for group in optim.param_groups for p in group[_PARAMS]]
        unknown = [i for i, p in enumerate(numbers) if p not in names]
        if unknown:
            raise RuntimeError(f"The parameters {unknown} of the optimizer are not parameters of the model.")
        joined[_STATE].update({names[numbers[i]]: value for i, value in state[_STATE].items()})
        joined[_PG] += [{**g, _PARAMS: [names[numbers[i]] for i in g[_PARAMS]]} for g in state[_PG]]
    if options.flatten_optimizer_state_dict:
        joined = _flatten_optimizer_state(joined)
    with torch.no_grad():
        joined = _finish(joined, options)
    if not joined and not _may_be_empty(options):
        raise RuntimeError(_no_optimizer_state(joined))
    return joined


def _no_optimizer_state(state: object) -> str:
    return (
        "The option indicates that model state_dict is required to save, or load but optim state_dict is empty. "
        f"{state}"
    )


def _flatten_optimizer_state(state: OptimizerStateType) -> dict[str, Any]:
    """Return the state of an optimizer by flat names, `state.NAME.KEY` and `param_groups.NAME.KEY`.

    Raises:
        NotImplementedError: If a value of the state is no tensor, number or dict.
    """
    flat: dict[str, Any] = {}

    def add(prefix: str, value: Any) -> None:
        if isinstance(value, dict):
            for key, item in value.items():
                add(f"{prefix}.{key}", item)
        elif isinstance(value, (torch.Tensor, int, float)):
            flat[prefix] = value
        else:
            raise NotImplementedError(
                "Flattening optimizer state_dict only supports tensor, int, float, dict states now. Type is "
                f"{type(value)}."
            )

    for name, values in state[_STATE].items():
        add(f"{_STATE}.{name}", values)
    for group in state[_PG]:
        for name in group[_PARAMS]:
            flat.update({f"{_PG}.{name}.{key}": value for key, value in group.items() if key != _PARAMS})
    return flat


def _missing_state(name: str) -> RuntimeError:
    return RuntimeError(
        f"Missing optimizer state for parameter '{name}' in checkpoint. The parameter requires gradients but has no "
        "saved optimizer state. To load anyway, use StateDictOptions(strict=False)."
    )


def _unflatten_optimizer_state(
    optim: torch.optim.Optimizer,
    flat: dict[str, Any],
    names: dict[torch.Tensor, list[str]],
    options: StateDictOptions,
) -> OptimizerStateType:
    """Return the state of one optimizer from a dict with flat names, which may have those of others too."""
    state: OptimizerStateType = {_STATE: {}, _PG: []}
    for group in optim.param_groups:
        keys = [key for key in group if key != _PARAMS]
        made: dict[str, Any] = {_PARAMS: []}
        for p in group[_PARAMS]:
            found = [n for n in names[p] if any(f"{_PG}.{n}.{key}" in flat for key in keys)]
            name = (found or names[p])[0]
            made[_PARAMS].append(name)
            for key in keys:
                value = flat[f"{_PG}.{name}.{key}"]
                if made.setdefault(key, value) != value:
                    raise RuntimeError(
                        "All the parameters in the same parameter group should have the same saved param_group value. "
                        f"But {name}.{key} is {value} while other(s) is {made[key]}."
                    )
            values = _values_below(flat, f"{_STATE}.{name}", optim.state.get(p, {}))
            if values:
                state[_STATE][name] = values
            elif p.requires_grad and optim.state.get(p) and options.strict:
                raise _missing_state(name)
        state[_PG].append(made)
    return state


def _values_below(flat: dict[str, Any], prefix: str, like: dict[str, Any]) -> dict[str, Any]:
    """Return the values with flat names below `prefix`, for the keys of `like`."""
    found: dict[str, Any] = {}
    for key, value in like.items():
        name = f"{prefix}.{key}"
        if isinstance(value, dict):
            found[key] = _values_below(flat, name, value)
        elif name in flat:
            found[key] = flat[name]
    return found


def _state_of_optimizer(
    optim: torch.optim.Optimizer,
    loaded: OptimizerStateType,
    names: dict[torch.Tensor, list[str]],
    options: StateDictOptions,
) -> OptimizerStateType:
    """Return the part of a state that belongs to one optimizer, with groups in its order."""
    if _STATE not in loaded:
        return _unflatten_optimizer_state(optim, loaded, names, options)
    saved_names = [name for group in loaded[_PG] for name in group[_PARAMS]]
    if loaded[_STATE] or saved_names:
        if all(isinstance(name, int) for name in (*loaded[_STATE], *saved_names)):
            # A state of `Optimizer.state_dict`.
            return loaded
    group_of = {name: group for group in loaded[_PG] for name in group[_PARAMS]}
    state: OptimizerStateType = {_STATE: {}, _PG: []}
    for group in optim.param_groups:
        made: dict[str, Any] = {_PARAMS: []}
        if not group[_PARAMS]:
            made.update(_only_empty_group(loaded, optim))
        for p in group[_PARAMS]:
            name = next((n for n in names[p] if n in group_of), names[p][0])
            made[_PARAMS].append(name)
            if p.requires_grad and name in loaded[_STATE]:
                state[_STATE][name] = loaded[_STATE][name]
            elif p.requires_grad and options.strict and loaded[_STATE]:
                raise _missing_state(name)
            made.update({k: v for k, v in group_of.get(name, {}).items() if k != _PARAMS})
        state[_PG].append(made)
    return state


def _only_empty_group(loaded: OptimizerStateType, optim: torch.optim.Optimizer) -> dict[str, Any]:
    empty = [group for group in loaded[_PG] if not group[_PARAMS]]
    if len(empty) != 1:
        raise ValueError(
            "There are param groups that have zero parameters. In such a case, DSD only support exactly one param "
            "group with zero parameters.But the loaded state_dict has zero or more than one param groups that have "
            "zero parameters."
        )
    if len(loaded[_PG]) != len(optim.param_groups):
        raise ValueError(
            "When there is a parameter group that has zero parameters, multiple optimizers are not supported."
        )
    return {key: value for key, value in empty[0].items() if key != _PARAMS}


def _load_optimizer_state(
    model: nn.Module,
    optimizers: tuple[torch.optim.Optimizer, ...],
    loaded: OptimizerStateType,
    options: StateDictOptions,
) -> None:
    if not loaded and not _may_be_empty(options):
        raise RuntimeError(_no_optimizer_state(loaded))
    names = _names_of_parameters(model, options)
    for optim in optimizers:
        _init_optim_state(optim)
        state = _state_of_optimizer(optim, loaded, names, options) if loaded else {}
        if options.full_state_dict:
            state = _sharded_as(model, optim, state, options)
        with torch.no_grad():
            _original(optim, "load_state_dict")(state_dict=state)


def _sharded_as(
    model: nn.Module, optim: torch.optim.Optimizer, full: OptimizerStateType, options: StateDictOptions
) -> OptimizerStateType:
    """Return a state with whole tensors in the form of the state that an optimizer has."""
    local = _get_optimizer_state(model, (optim,), StateDictOptions(dsd_fqn_modifiers=options.dsd_fqn_modifiers))
    device = _one_device(tree_leaves(local), "Device mismatch") or device_of_group()
    # The values of groups are not flattened: `betas` is a tuple.
    flat, paths = _flatten_state_dict({_STATE: full.get(_STATE, {})})
    flat_local, paths_local = _flatten_state_dict({_STATE: local[_STATE]})
    groups = [full.get(_PG)]
    if options.broadcast_from_rank0:
        dist.broadcast_object_list(groups, src=0)
        _broadcast_state_dict(flat, flat_local, device=device)
    else:
        _distribute_state_dict(flat, flat_local, device=device)
    for key in flat.keys() - paths_local.keys():
        flat_local[key], paths_local[key] = flat[key], paths[key]
    return {_STATE: {}, **_unflatten_state_dict(flat_local, paths_local), _PG: groups[0]}


# ---- the functions that programs call


def get_model_state_dict(
    model: nn.Module, *, submodules: set[nn.Module] | None = None, options: StateDictOptions | None = None
) -> dict[str, ValueType]:
    """Return the state dict of a model, with the names of the plain model.

    Args:
        model: The model.
        submodules: Deprecated. Only these submodules are in the result.
        options: Options.

    Example:
        >>> import pytpu as torch
        >>> from pytpu.distributed.checkpoint.state_dict import get_model_state_dict
        >>> sorted(get_model_state_dict(torch.compile(torch.nn.Linear(2, 1))))
        ['bias', 'weight']
    """
    return _get_model_state(model, _checked_options(options), submodules)


def get_optimizer_state_dict(
    model: nn.Module,
    optimizers: torch.optim.Optimizer | Iterable[torch.optim.Optimizer],
    *,
    submodules: set[nn.Module] | None = None,
    options: StateDictOptions | None = None,
) -> OptimizerStateType:
    """Return the joined state dict of optimizers, which names parameters instead of numbering them.

    An optimizer that has not run gets a state, by a step that changes no parameter.

    Args:
        model: The model whose parameters the optimizers have.
        optimizers: One optimizer or several.
        submodules: Accepted for compatibility.
        options: Options.

    Example:
        >>> import pytpu as torch
        >>> from pytpu.distributed.checkpoint.state_dict import get_optimizer_state_dict
        >>> model = torch.nn.Linear(2, 1)
        >>> state = get_optimizer_state_dict(model, torch.optim.Adam(model.parameters()))
        >>> sorted(state["state"]), sorted(state["state"]["bias"])
        (['bias', 'weight'], ['exp_avg', 'exp_avg_sq', 'step'])
    """
    found = _as_optimizers(optimizers)
    if not found:
        raise RuntimeError("Optimizers are not passed in but optim_only is set to True.")
    return _get_optimizer_state(model, found, _checked_options(options))


def get_state_dict(
    model: nn.Module,
    optimizers: torch.optim.Optimizer | Iterable[torch.optim.Optimizer],
    *,
    submodules: set[nn.Module] | None = None,
    options: StateDictOptions | None = None,
) -> tuple[dict[str, ValueType], OptimizerStateType]:
    """Return the state dicts of a model and of its optimizers.

    See `get_model_state_dict` and `get_optimizer_state_dict`.

    Args:
        model: The model.
        optimizers: One optimizer or several. With none, their state is empty.
        submodules: Deprecated. Only these submodules are in the state of the model.
        options: Options.
    """
    checked, found = _checked_options(options), _as_optimizers(optimizers)
    state = _get_model_state(model, checked, submodules)
    return state, _get_optimizer_state(model, found, checked) if found else {}


def set_model_state_dict(
    model: nn.Module, model_state_dict: dict[str, ValueType], *, options: StateDictOptions | None = None
) -> _IncompatibleKeys:
    """Load a state dict of `get_model_state_dict` into a model.

    Args:
        model: The model.
        model_state_dict: The state dict.
        options: Options.

    Returns:
        The names that are missing and those that are unexpected.
    """
    return _load_model_state(model, _with_names_of_model(model, model_state_dict), _checked_options(options))


def set_optimizer_state_dict(
    model: nn.Module,
    optimizers: torch.optim.Optimizer | Iterable[torch.optim.Optimizer],
    optim_state_dict: OptimizerStateType,
    *,
    options: StateDictOptions | None = None,
) -> None:
    """Load a state dict of `get_optimizer_state_dict` into optimizers.

    Args:
        model: The model whose parameters the optimizers have.
        optimizers: One optimizer or several.
        optim_state_dict: The state dict.
        options: Options.

    Raises:
        RuntimeError: If the state of a parameter is missing, and `strict` is true.
    """
    found = _as_optimizers(optimizers)
    if not found:
        raise RuntimeError("Optimizers are not passed in but optim_only is set to True.")
    _load_optimizer_state(model, found, optim_state_dict, _checked_options(options))


def set_state_dict(
    model: nn.Module,
    optimizers: torch.optim.Optimizer | Iterable[torch.optim.Optimizer],
    *,
    model_state_dict: dict[str, ValueType],
    optim_state_dict: OptimizerStateType,
    options: StateDictOptions | None = None,
) -> _IncompatibleKeys:
    """Load state dicts of `get_state_dict` into a model and its optimizers.

    Args:
        model: The model.
        optimizers: One optimizer or several.
        model_state_dict: The state dict of the model. If it is empty, the model stays as it is.
        optim_state_dict: The state dict of the optimizers.
        options: Options.

    Returns:
        The names that are missing and those that are unexpected.
    """
    checked, found = _checked_options(options), _as_optimizers(optimizers)
    named = _with_names_of_model(model, model_state_dict)
    if found:
        _load_optimizer_state(model, found, optim_state_dict, checked)
    if not named and not checked.broadcast_from_rank0:
        return _IncompatibleKeys({}, {})
    return _load_model_state(model, named, checked)


def _patch_model_state_dict(model: nn.Module, *, options: StateDictOptions | None = None) -> None:
    """Replace `state_dict` and `load_state_dict` of a model by the functions of this module."""

    def state_dict() -> dict[str, Any]:
        return get_model_state_dict(model, options=options)

    def load_state_dict(state_dict: dict[str, Any]) -> None:
        set_model_state_dict(model, state_dict, options=options)

    model.state_dict = state_dict  # type: ignore[method-assign,assignment]
    model.load_state_dict = load_state_dict  # type: ignore[method-assign,assignment]
    _patched_state_dict.update((state_dict, load_state_dict))


def _patch_optimizer_state_dict(
    model: nn.Module,
    *,
    optimizers: torch.optim.Optimizer | Iterable[torch.optim.Optimizer],
    options: StateDictOptions | None = None,
) -> None:
    """Replace `state_dict` and `load_state_dict` of optimizers by the functions of this module."""
    found = _as_optimizers(optimizers)

    def state_dict() -> dict[str, Any]:
        return get_optimizer_state_dict(model, found, options=options)

    def load_state_dict(state_dict: dict[str, Any]) -> None:
        set_optimizer_state_dict(model, found, state_dict, options=options)

    _patched_state_dict.update((state_dict, load_state_dict))
    for optim in found:
        optim.state_dict = state_dict  # type: ignore[method-assign]
        optim.load_state_dict = load_state_dict  # type: ignore[method-assign]
