"""`torch.func`: modules as functions of their parameters, and derivatives of functions."""

from __future__ import annotations

from ._transforms import (
    grad as grad,
    grad_and_value as grad_and_value,
    hessian as hessian,
    jacfwd as jacfwd,
    jacrev as jacrev,
    jvp as jvp,
    linearize as linearize,
    vjp as vjp,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from pytpu import Tensor
    from pytpu.nn import Module


def _slots(module):
    """Return the place of each parameter and buffer: a table of a submodule, and the name in it.

    A module that contains itself is visited once on each path, under its shortest name.
    """
    slots = {}

    def visit(owner, prefix, above):
        for table in (owner._parameters, owner._buffers):
            for name, value in table.items():
                if value is not None:
                    slots[prefix + name] = (table, name)
        for name, child in owner._modules.items():
            if child is not None and child is not owner and child not in above:
                visit(child, f"{prefix}{name}.", (*above, owner))  # noqa: F821 (deleted after the call below)

    visit(module, "", ())
    # The function refers to itself: without this line, only garbage collection would free its objects.
    del visit
    return slots


def _join(dictionaries):
    """Return for each name its value, and the dict that it is from."""
    if isinstance(dictionaries, dict):
        dictionaries = [dictionaries]
    elif not isinstance(dictionaries, (list, tuple)):
        raise ValueError(
            f"Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got {type(dictionaries)}"
        )
    if not all(isinstance(d, dict) for d in dictionaries):
        raise ValueError("Expected all elements of parameter_and_buffer_dicts to be dictionaries")
    given, twice = {}, set()
    for d in dictionaries:
        twice |= given.keys() & d.keys()
        given.update({name: (value, d) for name, value in d.items()})
    if twice:
        raise ValueError(f"{sorted(twice)} appeared in multiple dictionaries; behavior of functional call is ambiguous")
    return given


_ABSENT = object()


def _owner(module, path):
    """Return the submodule at a dotted path."""
    from .nn import Module

    for name in path.split(".") if path else ():
        if not hasattr(module, name):
            raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
        below = getattr(module, name)
        if not isinstance(below, Module):
            raise TypeError(f"submodule `{path}`: {below} is not an instance of torch.nn.Module")
        module = below
    return module


def _exchange(module, name, value, restore=False):
    """Put `value` at a dotted name, and return the old value: a parameter, a buffer, an attribute, or `_ABSENT`.

    Raise `TypeError` if the old or the new value is not a tensor, except while a value is restored.
    """
    import pytpu as torch

    path, _, key = name.rpartition(".")
    owner = _owner(module, path)
    if not key:
        raise KeyError('tensor name can\'t be empty string ""')
    if not restore and value is not None and not isinstance(value, torch.Tensor):
        raise TypeError(f"{value} is not an instance of torch.Tensor")
    for table in (owner._parameters, owner._buffers):
        if key in table:
            before = table[key]
            if value is _ABSENT:
                # Remove a parameter that the call added.
                del table[key]
            else:
                table[key] = value
            return before
    before = getattr(owner, key, _ABSENT)
    if before is not None and before is not _ABSENT and not isinstance(before, torch.Tensor):
        raise TypeError(f"attribute `{key}`: {before} is not an instance of torch.Tensor")
    if value is _ABSENT:
        if before is not _ABSENT:
            delattr(owner, key)
    else:
        setattr(owner, key, value)
    return before


def _check_names(module, slots, given):
    missing, unexpected = sorted(slots.keys() - given.keys()), sorted(given.keys() - slots.keys())
    lines = [
        f"{what} key(s): {', '.join(map(repr, names))}."
        for what, names in (("Unexpected", unexpected), ("Missing", missing))
        if names
    ]
    if lines:
        raise RuntimeError(f"Error(s) in reparametrizing for {type(module).__name__}:\n\t" + "\n\t".join(lines))


def _with_tied(slots, given):
    """Add the names of tensors that are given under another name."""
    values = dict(given)
    names_of = {}
    for name, (table, key) in slots.items():
        names_of.setdefault(id(table[key]), []).append(name)
    for names in names_of.values():
        there = [name for name in names if name in given]
        if any(given[name][0] is not given[there[0]][0] for name in there):
            raise ValueError(
                f"functional_call got multiple values for keys {sorted(there)}, which are tied. "
                "Consider using tie_weights=False"
            )
        if there:
            values.update({name: (given[there[0]][0], None) for name in names if name not in given})
    return values


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: dict[str, Tensor] | Sequence[dict[str, Tensor]],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call a module with other parameters and buffers. The module keeps its own.

    A new value that `forward` assigns to a buffer goes into the dict of that buffer. A name that the module does not
    have is an attribute of it during the call. A tensor for a parametrized name is assigned to the attribute.

    Args:
        module: Module to call.
        parameter_and_buffer_dicts: Tensors by name, in one dict or several.
        args: One argument, or a tuple of arguments.
        kwargs: Arguments by name.
        tie_weights: If `True`, replace a tensor that the module has under several names under all of them.
        strict: If `True`, all parameters and buffers must be given, and no others.

    Returns:
        The result of the module.

    Raises:
        ValueError: If a name is given twice, or tied names have different values.
        AttributeError: If there is no such submodule.
        TypeError: If a value is not a tensor.
        RuntimeError: In strict mode: if names are missing or unknown.

    Example:
        >>> import pytpu as torch
        >>> model = torch.nn.Linear(2, 1, bias=False)
        >>> torch.func.functional_call(model, {"weight": torch.tensor([[1.0, 2.0]])}, torch.ones(2))
        tensor([3.])
    """
    slots = _slots(module)
    given = _join(parameter_and_buffer_dicts)
    if tie_weights:
        given = _with_tied(slots, given)
    if strict:
        _check_names(module, slots, given)
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    own = {}
    try:
        for name, (value, _) in given.items():
            own[name] = _exchange(module, name, value)
        return module(*args, **(kwargs or {}))
    finally:
        for name, value in own.items():
            if name in slots:
                table, key = slots[name]
                assigned, table[key] = table.get(key, _ABSENT), value
            else:
                assigned = _exchange(module, name, value, restore=True)
            given_value, source = given[name]
            if source is not None and assigned is not given_value and assigned is not _ABSENT:
                source[name] = assigned


def stack_module_state(models: Sequence[Module]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Stack the parameters and the buffers of modules along a new dimension 0.

    Args:
        models: Modules of one class.

    Returns:
        A dict of the parameters, and a dict of the buffers.

    Raises:
        RuntimeError: If there is no module, classes or training modes differ, or some of the same parameters do not
            require gradients.

    Example:
        >>> import pytpu as torch
        >>> params, buffers = torch.func.stack_module_state([torch.nn.Linear(2, 1) for _ in range(3)])
        >>> params["weight"].shape
        torch.Size([3, 1, 2])
    """
    import pytpu as torch

    if len(models) == 0:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if len({m.training for m in models}) > 1:
        raise RuntimeError("stack_module_state: Expected all models to have the same training/eval mode.")
    if len({type(m) for m in models}) > 1:
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")

    def stacked(tables, learn):
        result = {}
        for name in tables[0]:
            tensors = [table[name] for table in tables]
            if learn and len({t.requires_grad for t in tensors}) > 1:
                raise RuntimeError(f"Expected {name} from each model to have the same .requires_grad")
            y = torch.stack(tensors).detach()
            result[name] = y.requires_grad_(tensors[0].requires_grad) if learn else y
        return result

    return stacked([dict(m.named_parameters()) for m in models], True), stacked(
        [dict(m.named_buffers()) for m in models], False
    )


def replace_all_batch_norm_modules_(root: Module) -> Module:
    """Remove the running statistics of all batch norm layers, so that they use those of each batch.

    Args:
        root: Module to change, with its submodules.

    Returns:
        The module.
    """
    from .nn.modules.batchnorm import _BatchNorm

    for module in root.modules():
        if isinstance(module, _BatchNorm):
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root
