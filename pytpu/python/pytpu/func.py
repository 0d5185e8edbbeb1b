"""Modules as functions of their parameters, and derivatives of functions as functions."""

from ._absent import absent_function
from ._transforms import grad as grad
from ._transforms import grad_and_value as grad_and_value
from ._transforms import hessian as hessian
from ._transforms import jacfwd as jacfwd
from ._transforms import jacrev as jacrev
from ._transforms import jvp as jvp
from ._transforms import linearize as linearize
from ._transforms import vjp as vjp

vmap = absent_function("torch.func.vmap", "functions are not mapped over a dimension yet")


def _slots(module):
    """Where each parameter and buffer is: a table of a submodule, and the name in it.

    A module that contains itself is visited once on each path, under its shortest name there.
    """
    slots = {}

    def visit(owner, prefix, above):
        for table in (owner._parameters, owner._buffers):
            for name, value in table.items():
                if value is not None:
                    slots[prefix + name] = (table, name)
        for name, child in owner._modules.items():
            if child is not None and child is not owner and child not in above:
                visit(child, f"{prefix}{name}.", (*above, owner))

    visit(module, "", ())
    # The function refers to itself: without this line, garbage collection alone would free what it holds.
    del visit
    return slots


def _joined(dictionaries):
    """For each name its value and the dictionary that it is from."""
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
    """The submodule at a dotted path."""
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
    """Puts `value` where a dotted name says, and gives what was there: a parameter, a buffer, an attribute, or nothing.

    Raises `TypeError` for what is not a tensor, there or given, unless it is restored.
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
                # A parameter that the call added goes with it.
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
    """Adds the names of tensors that are given under another name."""
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


def functional_call(module, parameter_and_buffer_dicts, args=None, kwargs=None, *, tie_weights=True, strict=False):
    """Calls `module` with other parameters and buffers, by their names; it keeps its own.

    `parameter_and_buffer_dicts` is a dictionary or several, `args` one argument or a tuple of them. A tensor that the module has under
    several names is replaced under all of them (`tie_weights`). What `forward` assigns to a buffer is put into its dictionary. A name
    that the module lacks is an attribute of it during the call, and a parametrized one is assigned to.

    Raises `ValueError` for a name that is given twice, `AttributeError` for one in a submodule that is not there, `TypeError` for
    what is not a tensor, and with `strict` `RuntimeError` for names that are missing or unknown.
    """
    slots = _slots(module)
    given = _joined(parameter_and_buffer_dicts)
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


def stack_module_state(models):
    """Parameters and buffers of modules of one kind, each stacked along a new first dimension: two dictionaries.

    Raises `RuntimeError` for no modules, for modules of several types, for those that are partly in training mode, and for
    parameters of which some learn.
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


def replace_all_batch_norm_modules_(root):
    """Has all batch norms in a module, and itself, use the statistics of each batch and keep none; returns it."""
    from .nn.modules.batchnorm import _BatchNorm

    for module in root.modules():
        if isinstance(module, _BatchNorm):
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root
