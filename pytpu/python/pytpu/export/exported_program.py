"""``torch.export.exported_program``: a program as a graph of operators, with its weights."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import pytpu as torch

from .. import fx
from ..utils import _pytree as pytree
from ._verifier import Verifier
from .graph_signature import ArgumentSpec, ConstantArgument, ExportGraphSignature, InputKind, OutputKind

if TYPE_CHECKING:
    from .._expressions import Expr, ValueRanges

__all__ = ["ExportedProgram", "ModuleCallEntry", "ModuleCallSignature", "default_decompositions"]


@dataclasses.dataclass
class ModuleCallSignature:
    """How a module of the program was called.

    Attributes:
        inputs: the nodes of its arguments.
        outputs: the nodes of its results.
        in_spec: the tree of its arguments: a tuple and a dict.
        out_spec: the tree of its result.
        forward_arg_names: the names of its parameters.
    """

    inputs: list[ArgumentSpec]
    outputs: list[ArgumentSpec]
    in_spec: pytree.TreeSpec
    out_spec: pytree.TreeSpec
    forward_arg_names: list[str] | None = None

    def replace_all_uses_with(self, original_node: fx.Node, new_node: fx.Node) -> None:
        """Replace the name of a node by that of another."""
        for arg in (*self.inputs, *self.outputs):
            if arg.name == original_node.name:
                arg.name = new_node.name


@dataclasses.dataclass
class ModuleCallEntry:
    """One module of the program. The first entry is the program itself, with an empty name."""

    fqn: str
    signature: ModuleCallSignature | None = None


class CallSpec(NamedTuple):
    """The trees of the arguments and of the result."""

    in_spec: pytree.TreeSpec | None
    out_spec: pytree.TreeSpec | None


class ExportedProgram:
    """A program as a graph of operators, with its weights and the sizes for which it is right.

    `torch.export.export` and `torch.export.load` make programs. `module` gives a module that runs.

    Args:
        root: the module with the graphs that operators of the graph call.
        graph: the graph. Weights are its first parameters.
        graph_signature: what the parameters and results are.
        state_dict: parameters and persistent buffers by name.
        range_constraints: the range of each size that may change.
        module_call_graph: the modules of the program. The first is the program.
        example_inputs: arguments, and arguments by keyword.
        constants: constant tensors and other buffers by name.
        verifiers: the checks of the graph.
    """

    def __init__(
        self,
        root: torch.nn.Module | dict[str, Any],
        graph: fx.Graph,
        graph_signature: ExportGraphSignature,
        state_dict: dict[str, Any],
        range_constraints: dict[Expr, ValueRanges],
        module_call_graph: list[ModuleCallEntry],
        example_inputs: tuple[tuple[Any, ...], dict[str, Any]] | None = None,
        constants: dict[str, Any] | None = None,
        *,
        verifiers: list[type[Verifier]] | None = None,
    ) -> None:
        from ._verifier import TrainingIRVerifier

        graph._codegen = fx.graph.CodeGen()
        self._graph_module = fx.GraphModule(root, graph)
        if isinstance(root, fx.GraphModule):
            self._graph_module.meta.update(root.meta)
        self._graph_signature = graph_signature
        self._state_dict = state_dict
        self._range_constraints = range_constraints
        self._module_call_graph = module_call_graph
        self._example_inputs = example_inputs
        self._constants = constants or {}
        self._verifiers = verifiers or [TrainingIRVerifier]
        #: Conditions of inputs as Python code, in the form of PyTorch.
        self._guards_code: list[str] = []
        self.validate()

    @property
    def graph_module(self) -> fx.GraphModule:
        """The graph as a module that takes weights and leaves of the inputs."""
        return self._graph_module

    @property
    def graph(self) -> fx.Graph:
        """The graph."""
        return self._graph_module.graph

    @property
    def graph_signature(self) -> ExportGraphSignature:
        """What the parameters and results of the graph are."""
        return self._graph_signature

    @property
    def state_dict(self) -> dict[str, Any]:
        """Parameters and persistent buffers by name."""
        return self._state_dict

    @property
    def constants(self) -> dict[str, Any]:
        """Constant tensors and non-persistent buffers by name."""
        return self._constants

    tensor_constants = constants

    @property
    def range_constraints(self) -> dict[Expr, ValueRanges]:
        """The range of each size that may change."""
        return self._range_constraints

    @property
    def module_call_graph(self) -> list[ModuleCallEntry]:
        """The modules of the program. The first is the program."""
        return self._module_call_graph

    @property
    def example_inputs(self) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """Arguments, and arguments by keyword."""
        return self._example_inputs

    @example_inputs.setter
    def example_inputs(self, value: tuple[tuple[Any, ...], dict[str, Any]] | None) -> None:
        if value is None:
            self._example_inputs = None
            return
        if not (isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], tuple)):
            raise ValueError(
                "Example inputs should be a tuple containing example arguments (as a tuple), and example "
                "kwargs (as a dictionary)."
            )
        self._check_inputs(*value)
        self._example_inputs = value

    @property
    def call_spec(self) -> CallSpec:
        """The trees of the arguments and of the result."""
        if not self._module_call_graph:
            return CallSpec(None, None)
        signature = self._module_call_graph[0].signature
        assert signature is not None  # the first entry is the program
        return CallSpec(signature.in_spec, signature.out_spec)

    @property
    def verifier(self) -> type[Verifier]:
        """The first check of the graph."""
        return self._verifiers[0]

    @property
    def verifiers(self) -> list[type[Verifier]]:
        """The checks of the graph."""
        return self._verifiers

    @property
    def dialect(self) -> str:
        """The name of the first check: ``TRAINING`` or ``ATEN``."""
        return self._verifiers[0].dialect

    def parameters(self) -> Iterator[torch.nn.Parameter]:
        """Return the parameters."""
        for _, parameter in self.named_parameters():
            yield parameter

    def named_parameters(self) -> Iterator[tuple[str, torch.nn.Parameter]]:
        """Return the parameters with their names."""
        for name in self.graph_signature.parameters:
            yield name, self.state_dict[name]

    def buffers(self) -> Iterator[torch.Tensor]:
        """Return the buffers."""
        for _, buffer in self.named_buffers():
            yield buffer

    def named_buffers(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Return the buffers with their names."""
        others = set(self.graph_signature.non_persistent_buffers)
        for name in self.graph_signature.buffers:
            yield name, (self.constants if name in others else self.state_dict)[name]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Raise ``RuntimeError``: `module` gives a module that can be called."""
        raise RuntimeError(
            "Unable to call ExportedProgram directly. You should use `exported_program.module()` instead."
        )

    def __str__(self) -> str:
        module = self.graph_module.print_readable(print_output=False, colored=False).replace("\n", "\n    ")
        signature = str(self.graph_signature).replace("\n", "\n    ")
        ranges = f"Range constraints: {self.range_constraints}"
        return f"ExportedProgram:\n    {module}\nGraph signature:{signature}\n{ranges}\n"

    def module(self, check_guards: bool = True) -> fx.GraphModule:
        """Return a module that runs the program, with the weights as parameters and buffers.

        Args:
            check_guards: check at each call that the sizes and constants of the inputs are those that the program is
                right for.

        Raises:
            NotImplementedError: A condition of the program is not understood. ``check_guards=False`` leaves it out.
        """
        from ._unlift import unlifted

        return unlifted(self, check_guards)

    def run_decompositions(
        self, decomp_table: Mapping[Any, Any] | None = None, decompose_custom_triton_ops: bool = False
    ) -> ExportedProgram:
        """Return the program with operators taken apart into others.

        Args:
            decomp_table: functions that compute operators with others. ``None`` is `default_decompositions()`.
            decompose_custom_triton_ops: Accepted for compatibility. There are none.
        """
        from ._decompositions import decomposed

        return decomposed(self, default_decompositions() if decomp_table is None else decomp_table)

    def _check_inputs(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        from ._unlift import check_inputs, leaves_of

        spec = self.call_spec.in_spec
        assert spec is not None  # a program has a first entry
        found = leaves_of(args, kwargs, spec)
        names = {s.arg.name for s in self.graph_signature.input_specs if s.kind == InputKind.USER_INPUT}
        nodes = [node for node in self.graph.nodes if node.op == "placeholder" and node.name in names]
        check_inputs(nodes, found, self.range_constraints)
        return [leaf for _, leaf in found]

    def _get_flat_args_with_check(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        leaves = self._check_inputs(args, kwargs)
        return tuple(leaves), pytree.tree_structure((args, kwargs))

    def _graph_module_flat_inputs(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        return (*self._weights(), *self._check_inputs(args, kwargs))

    def _weights(self) -> list[Any]:
        """Return the values of the parameters of the graph that are no inputs of the user."""
        found = []
        for spec in self.graph_signature.input_specs:
            if spec.kind == InputKind.USER_INPUT:
                continue
            is_state = spec.target in self.state_dict and spec.persistent is not False
            found.append((self.state_dict if is_state else self.constants)[spec.target])
        return found

    def validate(self) -> None:
        """Check that graph, signature and weights fit.

        Raises:
            SpecViolationError: If they do not.
        """
        for verifier in self._verifiers:
            verifier().check(self)

    def _update(
        self,
        graph_module: fx.GraphModule,
        graph_signature: ExportGraphSignature,
        *,
        state_dict: dict[str, Any] | None = None,
        constants: dict[str, Any] | None = None,
        verifiers: list[type[Verifier]] | None = None,
    ) -> ExportedProgram:
        made = ExportedProgram(
            graph_module,
            graph_module.graph,
            graph_signature,
            dict(self._state_dict if state_dict is None else state_dict),
            copy.deepcopy(self._range_constraints),
            copy.deepcopy(self._module_call_graph),
            self._example_inputs,
            self._constants if constants is None else constants,
            verifiers=self._verifiers if verifiers is None else verifiers,
        )
        made._guards_code = list(self._guards_code)
        return made


def default_decompositions() -> Mapping[Any, Any]:
    """Return the functions that `ExportedProgram.run_decompositions` uses."""
    from .decomp_utils import CustomDecompTable

    return CustomDecompTable()


def argument_of(value: Any) -> ArgumentSpec:
    """Return the specification of a result of the graph."""
    from .graph_signature import CustomObjArgument, SymBoolArgument, SymFloatArgument, SymIntArgument, TensorArgument

    if not isinstance(value, fx.Node):
        return ConstantArgument("", value)
    described = value.meta.get("val")
    if isinstance(described, torch.Tensor):
        return TensorArgument(value.name)
    if isinstance(described, bool):
        return SymBoolArgument(value.name)
    if isinstance(described, int):
        return SymIntArgument(value.name)
    if isinstance(described, float):
        return SymFloatArgument(value.name)
    if isinstance(described, CustomObjArgument):
        return described
    raise AssertionError(f"{value} has no description of its value")


_MUTATIONS = (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION, OutputKind.USER_INPUT_MUTATION)
