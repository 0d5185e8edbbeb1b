"""The JSON of programs in ``.pt2`` archives. `_reader` reads it."""

from __future__ import annotations

import inspect
import json
import math
import operator
from collections.abc import Mapping
from typing import Any

import pytpu as torch

from .. import fx
from .._ops import HigherOrderOperator, OpOverload
from ..utils import _pytree as pytree
from . import graph_signature as _signature
from ._operators import NAMES, SYMBOLIC
from ._reader import DTYPES, MEMORY_FORMATS, SCHEMA_VERSION, STRIDED, SerializeError
from .exported_program import ExportedProgram, ModuleCallEntry
from .graph_signature import InputKind, OutputKind

_DTYPE_NUMBERS = {dtype: number for number, dtype in DTYPES.items()}
_MEMORY_FORMAT_NUMBERS = {memory_format: number for number, memory_format in MEMORY_FORMATS.items()}
_OPSET = {"aten": 10}


def _dtype(dtype: torch.dtype) -> int:
    if dtype not in _DTYPE_NUMBERS:
        raise SerializeError(f"tensors of {dtype} cannot be written")
    return _DTYPE_NUMBERS[dtype]


def _device(device: torch.device) -> dict[str, Any]:
    device = torch.device(device)
    return {"type": device.type, "index": device.index}


def size(value: Any) -> dict[str, Any]:
    """Return a size, which may be a symbol."""
    if isinstance(value, torch.SymInt):
        return {"as_expr": {"expr_str": value.node.expr.srepr(), "hint": {"as_int": value.node.hint}}}
    return {"as_int": int(value)}


def tensor_meta(tensor: torch.Tensor) -> dict[str, Any]:
    """Return the description of a tensor."""
    return {
        "dtype": _dtype(tensor.dtype),
        "sizes": [size(s) for s in tensor.shape],
        "requires_grad": tensor.requires_grad,
        "device": _device(tensor.device),
        "strides": [size(s) for s in tensor.stride()],
        "storage_offset": size(tensor.storage_offset()),
        "layout": STRIDED,
    }


def number(value: float) -> float | str:
    """Return a float, or its name if JSON has no number for it."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def operator_name(target: Any) -> str:
    """Return the name of an operator.

    Raises:
        SerializeError: It is none that can be written.
    """
    if isinstance(target, OpOverload):
        return f"torch.ops.{target}"
    if isinstance(target, HigherOrderOperator):
        return f"torch.ops.higher_order.{target.name()}"
    if target in NAMES:
        return NAMES[target]
    raise SerializeError(f"Serializing {target} is not supported")


class GraphWriter:
    """Writes one graph, and the graphs that its operators call."""

    def __init__(self) -> None:
        self.tensors: dict[str, Any] = {}
        self.sym_ints: dict[str, Any] = {}
        self.sym_bools: dict[str, Any] = {}
        self.sym_floats: dict[str, Any] = {}
        self.objects: dict[str, Any] = {}
        # Further nodes of the same item of a result, by name, and the first one.
        self.same: dict[str, str] = {}

    def write(self, module: fx.GraphModule) -> dict[str, Any]:
        """Return the JSON of a graph."""
        inputs: list[Any] = []
        outputs: list[Any] = []
        nodes: list[Any] = []
        is_single = False
        for node in module.graph.nodes:
            try:
                if node.op == "placeholder":
                    inputs.append(self._placeholder(node))
                elif node.op == "call_function":
                    if node.target is not operator.getitem:
                        nodes.append(self._call(node))
                elif node.op == "output":
                    results = node.args[0]
                    is_single = isinstance(results, fx.Node)
                    outputs = [self.argument(value) for value in ([results] if is_single else results)]
                elif node.op != "get_attr":
                    raise SerializeError(f"nodes of the kind {node.op} cannot be written")
            except (AssertionError, AttributeError, KeyError, TypeError, ValueError) as error:
                raise SerializeError(
                    f"Failed serializing node {node} in graph: {node.format_node()}: {error}"
                ) from error
        return {
            "inputs": inputs,
            "outputs": outputs,
            "nodes": nodes,
            "tensor_values": self.tensors,
            "sym_int_values": self.sym_ints,
            "sym_bool_values": self.sym_bools,
            "is_single_tensor_return": is_single,
            "custom_obj_values": self.objects,
            "sym_float_values": self.sym_floats,
        }

    # ---- values

    def _tensor(self, name: str, tensor: torch.Tensor) -> dict[str, str]:
        if name in self.tensors:
            raise SerializeError(f"two values have the name {name!r}")
        self.tensors[name] = tensor_meta(tensor)
        return {"name": name}

    def _value(self, name: str, described: Any) -> dict[str, Any]:
        """Note the description of a value, and return the value."""
        if described is None:
            return {"as_none": True}
        if isinstance(described, torch.Tensor):
            return {"as_tensor": self._tensor(name, described)}
        if isinstance(described, bool):
            self.sym_bools[name] = {"as_bool": described}
            return {"as_sym_bool": {"as_name": name}}
        if isinstance(described, int):
            self.sym_ints[name] = size(described)
            return {"as_sym_int": {"as_name": name}}
        if isinstance(described, float):
            self.sym_floats[name] = {"as_float": described}
            return {"as_sym_float": {"as_name": name}}
        raise SerializeError(f"a value of {type(described)} cannot be written")

    def _placeholder(self, node: fx.Node) -> dict[str, Any]:
        described = node.meta["val"]
        if isinstance(described, (torch.Tensor, torch.SymInt)):
            return self._value(node.name, described)
        if isinstance(described, _signature.CustomObjArgument):
            raise SerializeError("objects of registered classes cannot be written")
        return self.argument(described)

    def _item(self, node: fx.Node, index: int) -> fx.Node | None:
        """Return the node that takes one item of a result."""
        first = None
        for user in node.users:
            if user.target is not operator.getitem:
                raise SerializeError(f"{user} is not a getitem node")
            if user.args[1] == index:
                if first is None:
                    first = user
                else:
                    self.same[user.name] = first.name
        return first

    def _item_name(self, node: fx.Node, index: int) -> str:
        item = self._item(node, index)
        return f"{node.name}_unused_{index}" if item is None else item.name

    def _items(self, node: fx.Node, described: Any) -> list[Any]:
        return [self._tensor(self._item_name(node, i), tensor) for i, tensor in enumerate(described)]

    def _outputs(self, node: fx.Node) -> list[Any]:
        described = node.meta.get("val")
        if isinstance(node.target, OpOverload):
            returns = node.target._schema.returns
            if not returns:
                return []
            if len(returns) == 1 and returns[0].type == "List[Tensor]":
                return [{"as_tensors": self._items(node, described)}]
            if len(returns) == 1:
                return [self._value(node.name, described)]
        elif not isinstance(described, (tuple, list)):
            return [self._value(node.name, described)]
        found: list[Any] = []
        for i, value in enumerate(described):
            if isinstance(value, list):
                inner = self._item(node, i)
                if inner is None:
                    names = [f"{node.name}_unused_{i}_{j}" for j in range(len(value))]
                    found.append({"as_tensors": [self._tensor(n, v) for n, v in zip(names, value)]})
                else:
                    found.append({"as_tensors": self._items(inner, value)})
            else:
                found.append(self._value(self._item_name(node, i), value))
        return found

    # ---- operators

    def _call(self, node: fx.Node) -> dict[str, Any]:
        target: Any = node.target
        is_single = None
        if target in SYMBOLIC:
            names = list(inspect.signature(target).parameters)
            inputs = [_named(n, self.argument(a), 1) for n, a in zip(names, node.args)]
        elif isinstance(target, OpOverload):
            inputs = self._arguments(target, node)
        elif isinstance(target, HigherOrderOperator):
            inputs = [_named("", self.argument(a), 1) for a in node.args]
            inputs += [_named(n, self.argument(a), 2) for n, a in node.kwargs.items()]
            is_single = isinstance(node.meta.get("val"), torch.Tensor)
        else:
            raise SerializeError(f"Serializing {target} is not supported")
        return {
            "target": operator_name(target),
            "inputs": inputs,
            "outputs": self._outputs(node),
            "metadata": _metadata(node),
            "is_hop_single_tensor_return": is_single,
            "name": node.name,
        }

    def _arguments(self, target: OpOverload, node: fx.Node) -> list[Any]:
        found = []
        for i, argument in enumerate(target._schema.arguments):
            if argument.name in node.kwargs:
                found.append(_named(argument.name, self.argument(node.kwargs[argument.name], argument.type), 2))
            elif not argument.kwarg_only and i < len(node.args):
                found.append(_named(argument.name, self.argument(node.args[i], argument.type), 1))
        known = {argument.name for argument in target._schema.arguments}
        if len(node.args) > len(known) or set(node.kwargs) - known:
            raise SerializeError(f"the arguments of {node.format_node()} are none of the schema of {target}")
        return found

    def argument(self, value: Any, kind: str = "") -> dict[str, Any]:
        """Return an argument.

        Args:
            value: a node, or a value.
            kind: the type in the schema, which tells what an empty list is of.
        """
        if isinstance(value, fx.Node):
            return self._node_argument(value)
        if value is None:
            return {"as_none": True}
        for cls, name in ((bool, "as_bool"), (str, "as_string"), (int, "as_int"), (float, "as_float")):
            if type(value) is cls:
                # A float of the schema may be given as an int.
                if cls is int and kind in ("float", "Optional[float]"):
                    return {"as_float": float(value)}
                return {name: number(value) if cls is float else value}
        if isinstance(value, torch.SymInt):
            raise SerializeError(f"the size {value} must be a node of the graph")
        if isinstance(value, complex):
            return {"as_complex": {"real": number(value.real), "imag": number(value.imag)}}
        if isinstance(value, dict):
            return {"as_string_to_argument": {str(key): self.argument(item) for key, item in value.items()}}
        if isinstance(value, (list, tuple)):
            return self._list(list(value), kind)
        if isinstance(value, torch.dtype):
            return {"as_scalar_type": _dtype(value)}
        if isinstance(value, torch.device):
            return {"as_device": _device(value)}
        if isinstance(value, torch.memory_format):
            return {"as_memory_format": _MEMORY_FORMAT_NUMBERS[value]}
        if isinstance(value, torch.layout):
            if value is not torch.strided:
                raise SerializeError(f"the layout {value} cannot be written")
            return {"as_layout": STRIDED}
        if isinstance(value, (OpOverload, HigherOrderOperator)):
            return {"as_operator": operator_name(value)}
        raise SerializeError(f"Unsupported argument type: {type(value)} with schema arg_type {kind}")

    def _node_argument(self, node: fx.Node) -> dict[str, Any]:
        if node.op == "get_attr":
            module = getattr(node.graph.owning_module, str(node.target))
            if not isinstance(module, fx.GraphModule):
                raise SerializeError("getattr nodes containing tensors should not appear in the graph")
            return {"as_graph": {"name": str(node.target), "graph": GraphWriter().write(module)}}
        if node.name in self.sym_ints:
            return {"as_sym_int": {"as_name": node.name}}
        if node.name in self.sym_floats:
            return {"as_sym_float": {"as_name": node.name}}
        if node.name in self.sym_bools:
            return {"as_sym_bool": {"as_name": node.name}}
        if isinstance(node.meta.get("val"), (int, float, str, bool)) and node.op == "placeholder":
            return self.argument(node.meta["val"])
        return {"as_tensor": {"name": self.same.get(node.name, node.name)}}

    def _list(self, values: list[Any], kind: str) -> dict[str, Any]:
        if not values:
            return _empty_list(kind)
        for cls, name in ((bool, "as_bools"), (int, "as_ints"), (float, "as_floats"), (str, "as_strings")):
            if all(type(value) is cls for value in values):
                return {name: [number(value) for value in values] if cls is float else values}
        for table, cls, name in (
            (self.sym_ints, int, "as_sym_ints"),
            (self.sym_floats, float, "as_sym_floats"),
            (self.sym_bools, bool, "as_sym_bools"),
        ):
            if all(type(v) is cls or (isinstance(v, fx.Node) and v.name in table) for v in values):
                plain = name.removeprefix("as_sym_")[:-1]
                return {name: [{"as_name": v.name} if isinstance(v, fx.Node) else {f"as_{plain}": v} for v in values]}
        if all(isinstance(value, fx.Node) for value in values):
            return {"as_tensors": [{"name": self.same.get(v.name, v.name)} for v in values]}
        if all(value is None or isinstance(value, fx.Node) for value in values):
            return {
                "as_optional_tensors": [
                    {"as_none": True} if v is None else {"as_tensor": {"name": self.same.get(v.name, v.name)}}
                    for v in values
                ]
            }
        if all(isinstance(value, (list, tuple)) for value in values):
            rows = [list(value) for value in values]
            if all(isinstance(item, fx.Node) for row in rows for item in row):
                return {"as_nested_tensors": [[{"name": item.name} for item in row] for row in rows]}
            if all(type(item) is int for row in rows for item in row):
                return {"as_int_lists": rows}
            if all(type(item) is float for row in rows for item in row):
                return {"as_float_lists": [[number(item) for item in row] for row in rows]}
        if all(type(value) in (int, float) for value in values) and "float" in kind:
            return {"as_floats": [float(value) for value in values]}
        raise SerializeError(f"Unsupported list/tuple argument type: {[type(value) for value in values]}")


_EMPTY = {"bool": "as_bools", "int": "as_ints", "float": "as_floats", "str": "as_strings", "number": "as_ints"}


def _empty_list(kind: str) -> dict[str, Any]:
    for name, found in _EMPTY.items():
        if f"List[{name}]" in kind:
            return {found: []}
    return {"as_tensors": []}


def _named(name: str, argument: Any, kind: int) -> dict[str, Any]:
    return {"name": name, "arg": argument, "kind": kind}


def _metadata(node: fx.Node) -> dict[str, str]:
    found: dict[str, str] = {}
    if node.meta.get("stack_trace"):
        found["stack_trace"] = node.meta["stack_trace"]
    stack = node.meta.get("nn_module_stack")
    if stack:
        found["nn_module_stack"] = ";".join(
            f"{key},{path},{kind if isinstance(kind, str) else f'{kind.__module__}.{kind.__qualname__}'}"
            for key, (path, kind) in stack.items()
        )
    if node.meta.get("torch_fn"):
        found["torch_fn"] = ";".join(node.meta["torch_fn"])
    if node.meta.get("custom"):
        try:
            found["custom"] = json.dumps(node.meta["custom"])
        except (TypeError, ValueError) as error:
            raise SerializeError(
                f"Failed to serialize custom metadata for node {node.name} with error {error}"
            ) from None
    if "_written_from_node" in node.meta:
        found["from_node"] = node.meta["_written_from_node"]
    return found


# ---- programs


def _argument_spec(spec: _signature.ArgumentSpec) -> dict[str, Any]:
    if isinstance(spec, _signature.TensorArgument):
        return {"as_tensor": {"name": spec.name}}
    if isinstance(spec, _signature.SymIntArgument):
        return {"as_sym_int": {"as_name": spec.name}}
    if isinstance(spec, _signature.SymFloatArgument):
        return {"as_sym_float": {"as_name": spec.name}}
    if isinstance(spec, _signature.SymBoolArgument):
        return {"as_sym_bool": {"as_name": spec.name}}
    if isinstance(spec, _signature.ConstantArgument):
        return GraphWriter().argument(spec.value)
    raise SerializeError(f"{spec} cannot be written")


_CONSTANTS = {int: "as_int", float: "as_float", str: "as_string", bool: "as_bool"}


def _input_spec(spec: _signature.InputSpec) -> dict[str, Any]:
    if spec.kind == InputKind.USER_INPUT:
        if isinstance(spec.arg, _signature.ConstantArgument):
            value = spec.arg.value
            written = {"as_none": True} if value is None else {_CONSTANTS[type(value)]: value}
            return {"constant_input": {"name": spec.arg.name, "value": written}}
        return {"user_input": {"arg": _argument_spec(spec.arg)}}
    arg = {"name": spec.arg.name}
    if spec.kind == InputKind.PARAMETER:
        return {"parameter": {"arg": arg, "parameter_name": spec.target}}
    if spec.kind == InputKind.BUFFER:
        return {"buffer": {"arg": arg, "buffer_name": spec.target, "persistent": spec.persistent}}
    if spec.kind == InputKind.CONSTANT_TENSOR:
        return {"tensor_constant": {"arg": arg, "tensor_constant_name": spec.target}}
    if spec.kind == InputKind.TOKEN:
        return {"token": {"arg": arg}}
    raise SerializeError("objects of registered classes cannot be written")


_RESULTS = {
    OutputKind.LOSS_OUTPUT: ("loss_output", None),
    OutputKind.BUFFER_MUTATION: ("buffer_mutation", "buffer_name"),
    OutputKind.PARAMETER_MUTATION: ("parameter_mutation", "parameter_name"),
    OutputKind.GRADIENT_TO_PARAMETER: ("gradient_to_parameter", "parameter_name"),
    OutputKind.GRADIENT_TO_USER_INPUT: ("gradient_to_user_input", "user_input_name"),
    OutputKind.USER_INPUT_MUTATION: ("user_input_mutation", "user_input_name"),
    OutputKind.TOKEN: ("token", None),
}


def _output_spec(spec: _signature.OutputSpec) -> dict[str, Any]:
    if spec.kind == OutputKind.USER_OUTPUT:
        return {"user_output": {"arg": _argument_spec(spec.arg)}}
    name, target = _RESULTS[spec.kind]
    written: dict[str, Any] = {"arg": {"name": spec.arg.name}}
    if target is not None:
        written[target] = spec.target
    return {name: written}


def _call_entry(entry: ModuleCallEntry, named_tuples: dict[str, Any]) -> dict[str, Any]:
    signature = entry.signature
    if signature is None:
        return {"fqn": entry.fqn, "signature": None}
    return {
        "fqn": entry.fqn,
        "signature": {
            "inputs": [_argument_spec(x) for x in signature.inputs],
            "outputs": [_argument_spec(x) for x in signature.outputs],
            "in_spec": _tree(signature.in_spec, named_tuples),
            "out_spec": _tree(signature.out_spec, named_tuples),
            "forward_arg_names": signature.forward_arg_names or None,
        },
    }


def _tree(spec: pytree.TreeSpec, named_tuples: dict[str, Any]) -> str:
    def note(part: pytree.TreeSpec) -> None:
        if pytree.is_namedtuple_class(part.context):
            known = pytree.SUPPORTED_SERIALIZED_TYPES.get(part.context)
            if known is not None:
                named_tuples[known.serialized_type_name] = {"field_names": list(part.context._fields)}
        for child in part.children():
            note(child)

    note(spec)
    return pytree.treespec_dumps(spec, 1)


def _limit(value: Any) -> int | None:
    return int(value) if abs(value) != float("inf") else None


def written_program(program: ExportedProgram, opset_version: Mapping[str, int] | None = None) -> dict[str, Any]:
    """Return the JSON of a program.

    Raises:
        SerializeError: It has what cannot be written.
    """
    program.validate()
    named_tuples: dict[str, Any] = {}
    calls = [_call_entry(entry, named_tuples) for entry in program.module_call_graph]
    signature = program.graph_signature
    return {
        "graph_module": {
            "graph": GraphWriter().write(program.graph_module),
            "signature": {
                "input_specs": [_input_spec(spec) for spec in signature.input_specs],
                "output_specs": [_output_spec(spec) for spec in signature.output_specs],
            },
            "module_call_graph": calls,
            "metadata": {},
            "treespec_namedtuple_fields": named_tuples,
        },
        "opset_version": {**_OPSET, **(opset_version or {})},
        "range_constraints": {
            str(key): {"min_val": _limit(found.lower), "max_val": _limit(found.upper)}
            for key, found in program.range_constraints.items()
        },
        "schema_version": {"major": SCHEMA_VERSION[0], "minor": SCHEMA_VERSION[1]},
        "verifiers": [verifier.dialect for verifier in program.verifiers],
        "torch_version": str(torch.__version__),
        "guards_code": list(program._guards_code),
    }
