"""Tracing: modules and functions become modules of TorchScript."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytpu as torch

from ..utils import _pytree as pytree
from . import TracerWarning as TracerWarning
from ._modules import RecursiveScriptModule
from ._text import Program

_tracing = 0


def is_tracing() -> bool:
    """Return whether `trace` is running."""
    return _tracing > 0


def trace(
    func: Any,
    example_inputs: Any = None,
    optimize: Any = None,
    check_trace: bool = True,
    check_inputs: Any = None,
    check_tolerance: float = 1e-5,
    strict: bool = True,
    _force_outplace: bool = False,
    _module_class: Any = None,
    _compilation_unit: Any = None,
    example_kwarg_inputs: dict[str, Any] | None = None,
    _store_inputs: bool = True,
) -> Any:
    """Return the module of the operators that a module or function calls.

    The module shares its weights with the original, and `torch.jit.save` writes a file that PyTorch reads. Sizes
    of the inputs may change where the operators do not depend on them. Unlike in PyTorch, a program that reads an
    element of a tensor is refused, since its course depends on the values.

    Args:
        func: a module, or a function of tensors.
        example_inputs: a tensor, or a tuple of tensors.
        optimize: Accepted for compatibility.
        check_trace: compare the results with those of `func`.
        check_inputs: further arguments to compare with.
        check_tolerance: the tolerance of the comparison.
        strict: Accepted for compatibility.
        example_kwarg_inputs: arguments by keyword instead of `example_inputs`.

    Raises:
        RuntimeError: If there are no examples, or the course of the program depends on values.

    Example:
        >>> import pytpu as torch
        >>> traced = torch.jit.trace(torch.nn.Linear(3, 2), torch.ones(1, 3))
        >>> traced(torch.ones(4, 3)).shape
        torch.Size([4, 2])
    """
    global _tracing
    if isinstance(func, RecursiveScriptModule):
        return func
    if isinstance(func, torch.nn.Module):
        module, name = func, type(func).__name__
    elif callable(func):
        module, name = _Function(func), "PythonFunction"
    else:
        raise TypeError(f"torch.jit.trace takes a module or a function, got {type(func)}")
    if example_kwarg_inputs is not None:
        import inspect

        bound = inspect.signature(module.forward).bind(**example_kwarg_inputs)
        args: tuple[Any, ...] = bound.args
    elif example_inputs is None:
        raise RuntimeError("example_kwarg_inputs should be a dict")
    else:
        args = (
            example_inputs
            if isinstance(example_inputs, tuple)
            else (tuple(example_inputs) if isinstance(example_inputs, list) else (example_inputs,))
        )
    from ..export import Dim, export
    from ._writer import Code

    shapes = [pytree.tree_map(lambda v: [Dim.AUTO] * v.dim() if isinstance(v, torch.Tensor) else None, a) for a in args]
    _tracing += 1
    try:
        program = export(module, args, dynamic_shapes=_by_parameter(module, args, shapes))
    finally:
        _tracing -= 1
    code = Code(program, name)
    text = code.text()
    files = {"__torch__.py": text.encode()}
    scripted = Program(lambda path: files[path].decode() if path in files else None, code.constants)
    scripted.files = files
    made = _modules_of(code, scripted, module)
    made.train(module.training)
    if check_trace:
        for inputs in (args, *(check_inputs or ())):
            _compare(module, made, inputs if isinstance(inputs, tuple) else (inputs,), check_tolerance)
    return made


def _by_parameter(module: torch.nn.Module, args: tuple[Any, ...], shapes: list[Any]) -> Any:
    """Return specifications of sizes for the parameters of a module."""
    from ..export.dynamic_shapes import combine_args

    count = len(combine_args(module, args, None))
    if count == len(args):
        return tuple(shapes)
    # The last parameter is `*args`.
    return (*shapes[: count - 1], tuple(shapes[count - 1 :]))


class _Function(torch.nn.Module):
    """A module of a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.__dict__["_function"] = function
        import inspect

        self.__dict__["forward"] = function if inspect.isfunction(function) else self._call

    def _call(self, *args: Any) -> Any:
        return self.__dict__["_function"](*args)


def _modules_of(code: Any, program: Program, module: torch.nn.Module) -> RecursiveScriptModule:
    """Return the modules of the code, with the weights of a module."""
    made: dict[str, RecursiveScriptModule] = {}
    for path, qualified in code.qualified.items():
        made[path] = RecursiveScriptModule(program.find(qualified), program)
    for path, part in sorted(made.items(), key=lambda item: item[0].count(".")):
        if path:
            parent, _, last = path.rpartition(".")
            made[parent]._modules[last] = part
    for path, value in code._weights.items():
        parent, _, last = path.rpartition(".")
        table = made[parent]._parameters if isinstance(value, torch.nn.Parameter) else made[parent]._buffers
        table[last] = value
    return made[""]


def _compare(module: torch.nn.Module, made: Any, args: tuple[Any, ...], tolerance: float) -> None:
    """Warn if the traced module gives other results."""
    state = torch.get_rng_state()
    buffers = {name: value.detach().clone() for name, value in module.named_buffers()}

    def run(target: Any) -> list[Any]:
        torch.set_rng_state(state)
        values = pytree.tree_map_only(torch.Tensor, lambda t: t.detach().clone(), args)
        with torch.no_grad():
            found = pytree.tree_leaves(target(*values))
        for name, value in module.named_buffers():
            value.detach().copy_(buffers[name])
        return found

    try:
        for x, y in zip(run(module), run(made)):
            if isinstance(x, torch.Tensor):
                torch.testing.assert_close(y, x, rtol=tolerance, atol=tolerance, equal_nan=True)
    except AssertionError as error:
        warnings.warn(
            f"Output of the traced function does not match the corresponding output of the Python function: {error}",
            torch.jit.TracerWarning,
            stacklevel=3,
        )
    finally:
        torch.set_rng_state(state)


def trace_module(mod: torch.nn.Module, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
    """Return the module of the operators of `forward`.

    Args:
        mod: the module.
        inputs: the arguments of `forward`, by that name. Other methods are not traced.

    Raises:
        NotImplementedError: If there are other methods.
    """
    if set(inputs) != {"forward"}:
        raise NotImplementedError("torch.jit.trace_module: only forward is traced")
    return trace(mod, inputs["forward"], *args, **kwargs)
