"""Checks of exported graphs: which nodes a dialect has, and whether graph and signature agree."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from .. import fx
from .._ops import HigherOrderOperator, OpOverload
from ._operators import SYMBOLIC
from .graph_signature import ConstantArgument, InputKind, OutputKind, TokenArgument

if TYPE_CHECKING:
    from .exported_program import ExportedProgram


class SpecViolationError(Exception):
    """A graph is none of its dialect, or its signature does not fit."""


class Verifier:
    """The checks of one dialect. Subclasses have others.

    Attributes:
        dialect: the name that archives have.
    """

    dialect = "ATEN"

    def check_valid_op(self, op: Any) -> None:
        """Check one function of a graph. The functions of `check` are allowed before."""

    def check(self, program: ExportedProgram) -> None:
        """Check the graph and the signature of a program.

        Raises:
            SpecViolationError: If they are not valid.
        """
        _check_graph(self, program.graph_module)
        _check_signature(program)


class ATenVerifier(Verifier):
    """Graphs of functional operators."""

    def check_valid_op(self, op: Any) -> None:
        """Refuse operators that write to their operands."""
        if not isinstance(op, OpOverload):
            return
        try:
            is_mutable = op._schema.is_mutable
        except AttributeError:
            is_mutable = False
        if is_mutable and op.namespace == "aten":
            raise SpecViolationError(f"operator '{op}' is not functional")


class TrainingIRVerifier(Verifier):
    """Graphs as the program was written, with operators that write to their operands."""

    dialect = "TRAINING"


_VERIFIERS = {"ATEN": ATenVerifier, "TRAINING": TrainingIRVerifier}


def load_verifier(dialect: str) -> type[Verifier]:
    """Return the checks of a dialect. A dialect that is not known has those of all."""
    return _VERIFIERS.get(dialect) or type("Verifier", (Verifier,), {"dialect": str(dialect)})


def _check_graph(verifier: Verifier, module: fx.GraphModule) -> None:
    for part in module.modules():
        if not isinstance(part, fx.GraphModule):
            continue
        part.graph.lint()
        for node in part.graph.nodes:
            if node.op in ("call_module", "call_method"):
                raise SpecViolationError(f"call_module is not valid: got a class '{node.target}' ")
            if node.op == "get_attr" and not isinstance(getattr(part, str(node.target), None), fx.GraphModule):
                raise SpecViolationError(
                    f"Expected get_attr target '{node.target}' to be a graph: tensors are inputs of the graph"
                )
            if node.op == "call_function":
                target = node.target
                is_known = isinstance(target, (OpOverload, HigherOrderOperator)) or target in SYMBOLIC
                if not is_known and target is not operator.getitem:
                    raise SpecViolationError(
                        f"Operator '{target}' is not an allowed operator type: ('OpOverload', 'HigherOrderOperator')"
                    )
                verifier.check_valid_op(target)


def _check_signature(program: ExportedProgram) -> None:
    signature = program.graph_signature
    names = [node.name for node in program.graph.nodes if node.op == "placeholder"]
    if len(names) != len(signature.input_specs):
        raise SpecViolationError(
            f"Number of graph inputs ({len(names)}) does not match number of inputs in the graph signature "
            f"({len(signature.input_specs)})"
        )
    for name, spec in zip(names, signature.input_specs):
        if spec.arg.name != name and not isinstance(spec.arg, ConstantArgument):
            raise SpecViolationError(f"Input spec {spec} does not match the graph input {name}")
        if spec.kind == InputKind.PARAMETER and spec.target not in program.state_dict:
            raise SpecViolationError(f"Parameter {spec.target} is not in the state dict.")
        if spec.kind == InputKind.BUFFER:
            where = program.state_dict if spec.persistent else program.constants
            if spec.target not in where:
                raise SpecViolationError(f"Buffer {spec.target} is not in the {_PLACES[bool(spec.persistent)]}.")
        if spec.kind in (InputKind.CONSTANT_TENSOR, InputKind.CUSTOM_OBJ) and spec.target not in program.constants:
            raise SpecViolationError(f"Constant {spec.target} is not in the constants dictionary.")
    output = next(iter(reversed(program.graph.nodes)))
    if output.op != "output":
        raise SpecViolationError("the graph has no output")
    results = output.args[0] if isinstance(output.args[0], (list, tuple)) else [output.args[0]]
    if len(results) != len(signature.output_specs):
        raise SpecViolationError(
            f"Number of output nodes {len(results)} is different from the number of outputs in the graph signature: "
            f"{len(signature.output_specs)}"
        )
    for result, spec in zip(results, signature.output_specs):
        if isinstance(spec.arg, (ConstantArgument, TokenArgument)):
            continue
        if not isinstance(result, fx.Node) or result.name != spec.arg.name:
            raise SpecViolationError(f"Output spec {spec} does not match the graph output {result}")
    for spec in signature.output_specs:
        if spec.kind == OutputKind.BUFFER_MUTATION and spec.target not in signature.buffers:
            raise SpecViolationError(f"Buffer output {spec.target} does not point to a buffer that exists.")


_PLACES = {True: "state dict", False: "constants dictionary"}
