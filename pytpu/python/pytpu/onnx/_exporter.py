"""ONNX models from exported programs, through the package `onnx`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import _torch_dispatch
from ..export import ExportedProgram, default_decompositions
from ..ops import OpOverload

# Importing them fills the table of rules.
from . import _layers as _layers, _pointwise as _pointwise, _shapes as _shapes
from ._builder import Builder as Builder, _rule_of


class _Table(dict[Any, Any]):
    """A table for `run_decompositions` under which other operators stay whole."""

    keeps_compositions = True


def _parts(target: Any) -> Callable[..., Any]:
    """Return a function that runs the operators of a composed one."""
    running = False

    def run(*args: Any, **kwargs: Any) -> Any:
        nonlocal running
        mode = _torch_dispatch._innermost()
        if running or mode is None:
            return NotImplemented
        running, mode.keeps_compositions = True, False
        try:
            return target(*args, **kwargs)
        finally:
            running, mode.keeps_compositions = False, True

    return run


def functional(program: ExportedProgram) -> ExportedProgram:
    """Return the program without writes to its inputs. Operators without a rule are replaced by their parts."""
    known = default_decompositions()
    table = _Table()
    while True:
        found = program.run_decompositions(table)
        missing = {
            target
            for target in (node.target for node in found.graph.nodes if node.op == "call_function")
            if isinstance(target, OpOverload) and target not in table
            and _rule_of(target) is None and target.namespace == "aten"
        }  # fmt: skip
        if not missing:
            return found
        table.update({target: known.get(target) or _parts(target) for target in missing})
