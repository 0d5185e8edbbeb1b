"""``torch.export.graph_signature``: what the parameters and results of an exported graph are."""

from __future__ import annotations

import dataclasses
import enum
import typing
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any

__all__ = [
    "ConstantArgument",
    "CustomObjArgument",
    "ExportBackwardSignature",
    "ExportGraphSignature",
    "InputKind",
    "InputSpec",
    "OutputKind",
    "OutputSpec",
    "SymBoolArgument",
    "SymFloatArgument",
    "SymIntArgument",
    "TensorArgument",
    "TokenArgument",
]


@dataclasses.dataclass
class TensorArgument:
    """A tensor: the node with this name."""

    name: str


@dataclasses.dataclass
class TokenArgument:
    """A token that orders operators with effects."""

    name: str


@dataclasses.dataclass
class SymIntArgument:
    """An int that may change: the node with this name."""

    name: str


@dataclasses.dataclass
class SymFloatArgument:
    """A float that may change: the node with this name."""

    name: str


@dataclasses.dataclass
class SymBoolArgument:
    """A bool that may change: the node with this name."""

    name: str


@dataclasses.dataclass
class CustomObjArgument:
    """An object of a registered class."""

    name: str
    class_fqn: str
    fake_val: Any = None


@dataclasses.dataclass
class ConstantArgument:
    """A value that is part of the program. An input must equal it."""

    name: str
    value: int | float | bool | str | None


ArgumentSpec = typing.Union[  # noqa: UP007
    TensorArgument,
    SymIntArgument,
    SymFloatArgument,
    SymBoolArgument,
    ConstantArgument,
    CustomObjArgument,
    TokenArgument,
]
_ARGUMENTS = typing.get_args(ArgumentSpec)


class InputKind(enum.Enum):
    """What a parameter of the graph is."""

    USER_INPUT = enum.auto()
    PARAMETER = enum.auto()
    BUFFER = enum.auto()
    CONSTANT_TENSOR = enum.auto()
    CUSTOM_OBJ = enum.auto()
    TOKEN = enum.auto()


class OutputKind(enum.Enum):
    """What a result of the graph is."""

    USER_OUTPUT = enum.auto()
    LOSS_OUTPUT = enum.auto()
    BUFFER_MUTATION = enum.auto()
    PARAMETER_MUTATION = enum.auto()
    GRADIENT_TO_PARAMETER = enum.auto()
    GRADIENT_TO_USER_INPUT = enum.auto()
    USER_INPUT_MUTATION = enum.auto()
    TOKEN = enum.auto()


@dataclasses.dataclass
class InputSpec:
    """One parameter of the graph.

    Attributes:
        kind: what it is.
        arg: the node.
        target: the name of the parameter, buffer or constant, or ``None`` for an input of the user.
        persistent: whether a buffer is part of the state dict.
    """

    kind: InputKind
    arg: ArgumentSpec
    target: str | None
    persistent: bool | None = None

    def __post_init__(self) -> None:
        if self.kind == InputKind.BUFFER and self.persistent is None:
            raise AssertionError("Failed to specify persistent flag on BUFFER.")
        if not isinstance(self.arg, _ARGUMENTS):
            raise AssertionError(f"expected valid arg type, got {type(self.arg)}")

    def __str__(self) -> str:
        target = "" if self.target is None else f" target='{self.target}'"
        persistent = "" if self.persistent is None else f" persistent={self.persistent}"
        return f"{self.arg.name}: {self.kind.name}{target}{persistent}"


@dataclasses.dataclass
class OutputSpec:
    """One result of the graph.

    Attributes:
        kind: what it is.
        arg: the node, or a constant.
        target: the name of what the result is written to, or ``None``.
    """

    kind: OutputKind
    arg: ArgumentSpec
    target: str | None

    def __post_init__(self) -> None:
        if not isinstance(self.arg, _ARGUMENTS):
            raise AssertionError(f"expected valid arg type, got {self.arg}")

    def __str__(self) -> str:
        target = "" if self.target is None else f" target='{self.target}'"
        return f"{self.arg.name}: {self.kind.name}{target}"


@dataclasses.dataclass
class ExportBackwardSignature:
    """The results of a graph that are gradients, and the loss."""

    gradients_to_parameters: dict[str, str]
    gradients_to_user_inputs: dict[str, str]
    loss_output: str


def _name_or_value(arg: ArgumentSpec) -> Any:
    return arg.value if isinstance(arg, ConstantArgument) else arg.name


@dataclasses.dataclass
class ExportGraphSignature:
    """The parameters and results of an exported graph, in order.

    An exported graph reads nothing from a module. Parameters, buffers and constants come first among its parameters,
    then the leaves of the user's inputs. New values of what the program changes come first among its results, then the
    leaves of the user's result.

    Attributes:
        input_specs: the parameters.
        output_specs: the results.
    """

    input_specs: list[InputSpec]
    output_specs: list[OutputSpec]

    def _targets(self, kind: InputKind) -> tuple[str, ...]:
        return tuple(s.target for s in self.input_specs if s.kind == kind and s.target is not None)

    def _inputs_to(self, kind: InputKind) -> Mapping[str, str]:
        return MappingProxyType({s.arg.name: s.target for s in self.input_specs if s.kind == kind and s.target})

    def _outputs_to(self, kind: OutputKind) -> Mapping[str, str]:
        return MappingProxyType({s.arg.name: s.target for s in self.output_specs if s.kind == kind and s.target})

    @property
    def parameters(self) -> Collection[str]:
        """The names of the parameters."""
        return self._targets(InputKind.PARAMETER)

    @property
    def buffers(self) -> Collection[str]:
        """The names of the buffers."""
        return self._targets(InputKind.BUFFER)

    @property
    def non_persistent_buffers(self) -> Collection[str]:
        """The names of the buffers that the state dict does not have."""
        return tuple(s.target for s in self.input_specs if s.persistent is False and s.target is not None)

    @property
    def lifted_tensor_constants(self) -> Collection[str]:
        """The names of the constant tensors."""
        return self._targets(InputKind.CONSTANT_TENSOR)

    @property
    def lifted_custom_objs(self) -> Collection[str]:
        """The names of the objects of registered classes."""
        return self._targets(InputKind.CUSTOM_OBJ)

    @property
    def user_inputs(self) -> Collection[int | float | bool | str | None]:
        """The nodes of the user's inputs by name. A constant is itself."""
        return tuple(_name_or_value(s.arg) for s in self.input_specs if s.kind == InputKind.USER_INPUT)

    @property
    def user_outputs(self) -> Collection[int | float | bool | str | None]:
        """The nodes of the user's results by name. A constant is itself."""
        kinds = (OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT)
        return tuple(_name_or_value(s.arg) for s in self.output_specs if s.kind in kinds)

    @property
    def inputs_to_parameters(self) -> Mapping[str, str]:
        """The names of parameters by the names of nodes."""
        return self._inputs_to(InputKind.PARAMETER)

    @property
    def inputs_to_buffers(self) -> Mapping[str, str]:
        """The names of buffers by the names of nodes."""
        return self._inputs_to(InputKind.BUFFER)

    @property
    def inputs_to_lifted_tensor_constants(self) -> Mapping[str, str]:
        """The names of constant tensors by the names of nodes."""
        return self._inputs_to(InputKind.CONSTANT_TENSOR)

    @property
    def inputs_to_lifted_custom_objs(self) -> Mapping[str, str]:
        """The names of objects of registered classes by the names of nodes."""
        return self._inputs_to(InputKind.CUSTOM_OBJ)

    @property
    def buffers_to_mutate(self) -> Mapping[str, str]:
        """The names of buffers by the names of the nodes of their new values."""
        return self._outputs_to(OutputKind.BUFFER_MUTATION)

    @property
    def parameters_to_mutate(self) -> Mapping[str, str]:
        """The names of parameters by the names of the nodes of their new values."""
        return self._outputs_to(OutputKind.PARAMETER_MUTATION)

    @property
    def user_inputs_to_mutate(self) -> Mapping[str, str]:
        """The names of the user's inputs by the names of the nodes of their new values."""
        return self._outputs_to(OutputKind.USER_INPUT_MUTATION)

    @property
    def backward_signature(self) -> ExportBackwardSignature | None:
        """The results that are gradients, or ``None`` for a graph without a loss."""
        losses = [s.arg.name for s in self.output_specs if s.kind == OutputKind.LOSS_OUTPUT]
        if not losses:
            return None
        if len(losses) > 1:
            raise AssertionError("multiple LOSS_OUTPUT specs found")
        return ExportBackwardSignature(
            dict(self._outputs_to(OutputKind.GRADIENT_TO_PARAMETER)),
            dict(self._outputs_to(OutputKind.GRADIENT_TO_USER_INPUT)),
            losses[0],
        )

    @property
    def assertion_dep_token(self) -> Mapping[int, str] | None:
        """Always ``None``."""
        return None

    @property
    def input_tokens(self) -> Collection[str]:
        """The names of the tokens among the parameters."""
        return tuple(s.arg.name for s in self.input_specs if s.kind == InputKind.TOKEN)

    @property
    def output_tokens(self) -> Collection[str]:
        """The names of the tokens among the results."""
        return tuple(s.arg.name for s in self.output_specs if s.kind == OutputKind.TOKEN)

    def replace_all_uses(self, old: str, new: str) -> None:
        """Replace the name of a node."""
        for name in (old, new):
            if not isinstance(name, str):
                raise AssertionError(f"expected old and new to be str, got {type(name)}")
        for spec in (*self.output_specs, *self.input_specs):
            if not isinstance(spec.arg, ConstantArgument) and spec.arg.name == old:
                spec.arg.name = new

    def get_replace_hook(self, replace_inputs: bool = False) -> Any:
        """Return a hook of a graph that keeps the names of nodes right."""

        def hook(old: Any, new: str, user: Any) -> None:
            if user.op == "output" or (replace_inputs and old.op == "placeholder"):
                self.replace_all_uses(old.name, new)

        return hook

    def __str__(self) -> str:
        inputs = "\n".join(map(str, self.input_specs))
        outputs = "\n".join(map(str, self.output_specs))
        return f"\n# inputs\n{inputs}\n\n# outputs\n{outputs}\n"
