"""Programs from the JSON of ``.pt2`` archives.

The form is PyTorch's. A value of several kinds is a dict with one key, the kind: ``{"as_int": 3}``.
"""

from __future__ import annotations

import json
import keyword
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

import pytpu as torch

from .. import _expressions, fx
from .._expressions import ValueRanges, int_oo
from .._ops import HigherOrderOperator, OpOverload
from .._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from ..utils import _pytree as pytree
from . import graph_signature as _signature
from ._operators import SYMBOLIC_NAMES
from ._verifier import load_verifier
from .exported_program import ExportedProgram, ModuleCallEntry, ModuleCallSignature

#: The version of the form.
SCHEMA_VERSION = (8, 20)

DTYPES = {
    1: torch.uint8,
    2: torch.int8,
    3: torch.int16,
    4: torch.int32,
    5: torch.int64,
    6: torch.float16,
    7: torch.float32,
    8: torch.float64,
    10: torch.complex64,
    11: torch.complex128,
    12: torch.bool,
    13: torch.bfloat16,
    28: torch.uint16,
    29: torch.float8_e4m3fn,
    30: torch.float8_e5m2,
    31: torch.float8_e4m3fnuz,
    32: torch.float8_e5m2fnuz,
    34: torch.uint32,
    35: torch.uint64,
}
MEMORY_FORMATS = {
    1: torch.contiguous_format,
    2: torch.channels_last,
    3: torch.channels_last_3d,
    4: torch.preserve_format,
}
STRIDED = 7


class SerializeError(RuntimeError):
    """A program cannot be written, or a file holds none."""


def union(written: Mapping[str, Any]) -> tuple[str, Any]:
    """Return the kind of a value, and the value."""
    found = [(key, value) for key, value in written.items() if value is not None or key == "as_none"]
    if len(found) != 1:
        raise SerializeError(f"a value has {len(found)} kinds")
    return found[0]


def device_of(written: Mapping[str, Any]) -> torch.device:
    """Return a device."""
    kind, index = written["type"], written.get("index")
    return torch.device(kind) if index is None or kind == "cpu" else torch.device(kind, index)


def dtype_of(written: int) -> torch.dtype:
    """Return a dtype.

    Raises:
        SerializeError: It is not there.
    """
    if written not in DTYPES:
        raise SerializeError(f"the dtype with the number {written} is not supported")
    return DTYPES[written]


def plain_size(written: Mapping[str, Any]) -> int:
    """Return a size that is a number."""
    kind, value = union(written)
    if kind != "as_int" or type(value) is not int:
        raise SerializeError(f"a size must be a number here, not {kind}")
    return value


_POSITIONAL_VALUES = ("as_int", "as_float", "as_bool", "as_string", "as_none")


class GraphReader:
    """Reads one graph, and the graphs that its operators call."""

    def __init__(self, mode: FakeTensorMode) -> None:
        self.mode = mode
        self.graph = fx.Graph()
        self.module = torch.nn.Module()
        self.nodes: dict[str, fx.Node] = {}
        self.written: Mapping[str, Any] = {}

    # ---- descriptions of values

    def symbolic(self, written: Mapping[str, Any]) -> Any:
        """Return a size, which may be a symbol."""
        kind, value = union(written)
        if kind in ("as_int", "as_float", "as_bool"):
            return value
        if kind != "as_expr":
            raise SerializeError(f"a size is of an unknown kind {kind}")
        try:
            expr = _expressions.parse(value["expr_str"])
        except ValueError as error:
            raise SerializeError(str(error)) from None
        hint = value.get("hint")
        number = union(hint)[1] if hint else None
        if expr.is_constant and number is None:
            number = expr.value
        if number is None:
            # A size that depends on elements. Any number serves for a description.
            number = 2
        return torch.SymInt(int(number), expr) if type(number) is int else number

    def tensor(self, written: Mapping[str, Any]) -> torch.Tensor:
        """Return a fake tensor with a description."""
        if written["layout"] != STRIDED:
            raise SerializeError("tensors with another layout than torch.strided are not supported")
        sizes = [self.symbolic(s) for s in written["sizes"]]
        strides = [self.symbolic(s) for s in written["strides"]]
        plain = torch.empty_strided(
            [int(s) for s in sizes], [int(s) for s in strides], dtype=dtype_of(written["dtype"]), device="meta"
        )
        made = FakeTensor(self.mode, plain, device_of(written["device"]))
        if written["requires_grad"]:
            made.requires_grad_()
        offset = self.symbolic(written["storage_offset"])
        is_plain = not any(isinstance(s, torch.SymInt) for s in (*sizes, *strides, offset))
        if not is_plain or offset or made.stride() != tuple(strides):
            made._describe(sizes, strides, offset)
        return made

    def described(self, name: str) -> Any:
        """Return the description of the value with a name."""
        written = self.written
        if name in written["tensor_values"]:
            return self.tensor(written["tensor_values"][name])
        for table in ("sym_int_values", "sym_bool_values", "sym_float_values"):
            if name in (written.get(table) or {}):
                return self.symbolic(written[table][name])
        if name in (written.get("custom_obj_values") or {}):
            value = written["custom_obj_values"][name]
            return _signature.CustomObjArgument(value["name"], value["class_fqn"])
        raise SerializeError(f"the value {name!r} has no description")

    # ---- graphs

    def read(self, written: Mapping[str, Any], specs: list[_signature.InputSpec] | None = None) -> fx.Graph:
        """Return the graph that is written.

        Args:
            written: the JSON.
            specs: the parameters of the whole program. Graphs that operators call have none.
        """
        self.written = written
        for i, parameter in enumerate(written["inputs"]):
            self._placeholder(parameter, specs[i].arg.name if specs else f"arg{i}")
        for node in written["nodes"]:
            try:
                self._node(node)
            except (SerializeError, NotImplementedError):
                raise
            except (KeyError, TypeError, ValueError, AttributeError, IndexError, RuntimeError, AssertionError) as error:
                raise SerializeError(f"Failed deserializing node {str(node)[:500]}: {error}") from error
        results = [self.argument(value) for value in written["outputs"]]
        if written.get("is_single_tensor_return"):
            if len(results) != 1:
                raise SerializeError(f"a graph with one result has {len(results)}")
            output = self.graph.output(results[0])
        else:
            output = self.graph.output(tuple(results))
        output.meta["val"] = pytree.tree_map(
            lambda value: value.meta.get("val") if isinstance(value, fx.Node) else value, output.args[0]
        )
        return self.graph

    def _placeholder(self, written: Mapping[str, Any], name: str) -> None:
        kind, value = union(written)
        if kind in ("as_tensor", "as_custom_obj"):
            name = value["name"]
            described = self.described(name)
        elif kind == "as_sym_int":
            name = union(value)[1]
            described = self.described(name)
        elif kind in _POSITIONAL_VALUES:
            described = None if kind == "as_none" else value
        else:
            raise SerializeError(f"a parameter of a graph is of an unknown kind {kind}")
        _check_name(name)
        node = self.graph.placeholder(name)
        # `Graph` takes another name where a builtin has it, such as `input`.
        node.name = name
        node.meta["val"] = described
        self._note(name, node)

    def _note(self, name: str, node: fx.Node) -> None:
        if name in self.nodes:
            raise SerializeError(f"two values have the name {name!r}")
        self.nodes[name] = node

    def _node(self, written: Mapping[str, Any]) -> None:
        target = operator_of(written["target"])
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        schema_names = None
        if isinstance(target, OpOverload):
            schema_names = _positional_names(target)
        for named in written["inputs"]:
            value = self.argument(named["arg"])
            if named["name"]:
                _check_argument_name(named["name"])
            is_keyword = named.get("kind") == 2
            if named.get("kind") in (None, 0) and schema_names is not None:
                is_keyword = named["name"] not in schema_names
            if is_keyword:
                kwargs[named["name"]] = value
            elif (
                schema_names is not None and len(args) < len(schema_names) and schema_names[len(args)] != named["name"]
            ):
                kwargs[named["name"]] = value
            elif kwargs and schema_names is not None:
                kwargs[named["name"]] = value
            else:
                # Operators that call graphs have tuples of operands.
                is_list = isinstance(value, list) and isinstance(target, HigherOrderOperator)
                args.append(tuple(value) if is_list else value)
        outputs = [union(output) for output in written["outputs"]]
        name = written.get("name") or self._name_of(outputs, target)
        if name is not None:
            _check_name(name)
        node = self.graph.create_node("call_function", target, tuple(args), kwargs, name)
        if name is not None:
            node.name = name
        node.meta.update(self._metadata(written.get("metadata") or {}))
        node.meta.setdefault("nn_module_stack", {})
        is_tuple = written.get("is_hop_single_tensor_return") is False
        self._results(node, outputs, is_tuple)

    @staticmethod
    def _name_of(outputs: list[tuple[str, Any]], target: Any) -> str | None:
        if len(outputs) == 1 and outputs[0][0] == "as_tensor":
            return outputs[0][1]["name"]
        if len(outputs) == 1 and outputs[0][0] in ("as_sym_int", "as_sym_bool", "as_sym_float"):
            return union(outputs[0][1])[1]
        return None

    def _results(self, node: fx.Node, outputs: list[tuple[str, Any]], is_tuple: bool) -> None:
        if not outputs:
            node.meta["val"] = None
            return
        if len(outputs) == 1 and not is_tuple:
            kind, value = outputs[0]
            if kind == "as_tensor":
                node.meta["val"] = self.described(value["name"])
                self._note(value["name"], node)
                return
            if kind in ("as_sym_int", "as_sym_bool", "as_sym_float"):
                inner, name = union(value)
                if inner == "as_name":
                    node.meta["val"] = self.described(name)
                    self._note(name, node)
                else:
                    node.meta["val"] = name
                return
            if kind == "as_tensors":
                node.meta["val"] = [self._item(node, i, item["name"]) for i, item in enumerate(value)]
                return
            if kind == "as_none":
                node.meta["val"] = None
                return
        described = []
        for i, (kind, value) in enumerate(outputs):
            if kind == "as_tensor":
                described.append(self._item(node, i, value["name"]))
            elif kind == "as_none":
                described.append(None)
            elif kind in ("as_sym_int", "as_sym_bool", "as_sym_float"):
                described.append(self._item(node, i, union(value)[1]))
            elif kind == "as_tensors":
                inner = self.graph.create_node("call_function", operator.getitem, (node, i))
                inner.meta["val"] = [self._item(inner, j, item["name"]) for j, item in enumerate(value)]
                described.append(inner.meta["val"])
            else:
                raise SerializeError(f"a result is of an unknown kind {kind}")
        node.meta["val"] = tuple(described)

    def _item(self, node: fx.Node, index: int, name: str) -> Any:
        """Add the node of one result of several, and return its description."""
        _check_name(name)
        described = self.described(name)
        if name == f"{node.name}_unused_{index}":
            return described
        item = self.graph.create_node("call_function", operator.getitem, (node, index), name=name)
        item.name = name
        item.meta.update({key: value for key, value in node.meta.items() if key != "val"})
        item.meta["val"] = described
        self._note(name, item)
        return described

    # ---- arguments

    def _named(self, name: str) -> fx.Node:
        if name not in self.nodes:
            raise SerializeError(f"the value {name!r} is used before it is computed")
        return self.nodes[name]

    def _symbolic_argument(self, written: Mapping[str, Any]) -> Any:
        kind, value = union(written)
        return self._named(value) if kind == "as_name" else value

    def _optional(self, written: Mapping[str, Any]) -> Any:
        kind, value = union(written)
        return None if kind == "as_none" else self._named(value["name"])

    def argument(self, written: Mapping[str, Any]) -> Any:
        """Return the argument of an operator: a node, or a value."""
        kind, value = union(written)
        read = _ARGUMENTS.get(kind)
        if read is None:
            raise SerializeError(f"an argument is of an unknown kind {kind}")
        return read(self, value)

    def _graph(self, written: Mapping[str, Any]) -> fx.Node:
        name = written["name"]
        _check_name(name)
        inner = GraphReader(self.mode)
        graph = inner.read(written["graph"])
        existing = getattr(self.module, name, None)
        if existing is None:
            module = fx.GraphModule(inner.module, graph)
            self.module.add_module(name, module)
        node = self.graph.create_node("get_attr", name, name=name)
        return node

    def _metadata(self, written: Mapping[str, str]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in written.items():
            # Traces become comments of code, which end at the end of a line.
            value = "".join(c for c in value if c.isprintable() or c == "\n")
            if key == "nn_module_stack":
                found[key] = _module_stack(value)
            elif key == "torch_fn":
                found[key] = tuple(value.split(";"))
            elif key == "source_fn_stack":
                found[key] = [tuple(pair.split(",", 1)) for pair in value.split(";") if pair]
            elif key == "custom":
                found[key] = json.loads(value)
            elif key == "from_node":
                found["_written_from_node"] = value
            else:
                found[key] = value
        return found


def _module_stack(written: str) -> dict[str, tuple[str, str]]:
    """Return the modules around a node: names by keys, from ``key,path,type;...``."""
    found = {}
    for entry in _split_outside_brackets(written, ";"):
        parts = _split_outside_brackets(entry, ",")
        if len(parts) >= 3:
            found[parts[0]] = (",".join(parts[1:-1]), parts[-1])
    return found


def _split_outside_brackets(text: str, sign: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "([") - (c in ")]")
        if c == sign and not depth:
            parts.append(text[start:i])
            start = i + 1
    return [*parts, text[start:]]


_ARGUMENTS: dict[str, Callable[[GraphReader, Any], Any]] = {
    "as_none": lambda self, value: None,
    "as_tensor": lambda self, value: self._named(value["name"]),
    "as_tensors": lambda self, value: [self._named(item["name"]) for item in value],
    "as_nested_tensors": lambda self, value: [[self._named(item["name"]) for item in row] for row in value],
    "as_optional_tensor": lambda self, value: self._optional(value),
    "as_optional_tensors": lambda self, value: [self._optional(item) for item in value],
    "as_int": lambda self, value: value,
    "as_ints": lambda self, value: list(value),
    "as_int_lists": lambda self, value: [list(row) for row in value],
    "as_float": lambda self, value: float(value),
    "as_floats": lambda self, value: [float(item) for item in value],
    "as_float_lists": lambda self, value: [[float(item) for item in row] for row in value],
    "as_string": lambda self, value: value,
    "as_strings": lambda self, value: list(value),
    "as_bool": lambda self, value: value,
    "as_bools": lambda self, value: list(value),
    "as_complex": lambda self, value: complex(float(value["real"]), float(value["imag"])),
    "as_sym_int": lambda self, value: self._symbolic_argument(value),
    "as_sym_ints": lambda self, value: [self._symbolic_argument(item) for item in value],
    "as_sym_float": lambda self, value: self._symbolic_argument(value),
    "as_sym_floats": lambda self, value: [self._symbolic_argument(item) for item in value],
    "as_sym_bool": lambda self, value: self._symbolic_argument(value),
    "as_sym_bools": lambda self, value: [self._symbolic_argument(item) for item in value],
    "as_scalar_type": lambda self, value: dtype_of(value),
    "as_memory_format": lambda self, value: MEMORY_FORMATS[value],
    "as_layout": lambda self, value: _layout_of(value),
    "as_device": lambda self, value: device_of(value),
    "as_graph": lambda self, value: self._graph(value),
    "as_operator": lambda self, value: operator_of(value),
    "as_string_to_argument": lambda self, value: {key: self.argument(item) for key, item in value.items()},
}


def _layout_of(written: int) -> torch.layout:
    if written != STRIDED:
        raise SerializeError("other layouts than torch.strided are not supported")
    return torch.strided


def _check_name(name: str) -> None:
    """Refuse names that are no names: they become Python code."""
    if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
        raise SerializeError(f"{str(name)[:80]!r} is no name of a value")


def _check_argument_name(name: str) -> None:
    # `from` is the name of an argument, and a word of Python.
    if not isinstance(name, str) or not name.isidentifier():
        raise SerializeError(f"{str(name)[:80]!r} is no name of an argument")


def _positional_names(target: OpOverload) -> list[str] | None:
    try:
        schema = target._schema
    except AttributeError:
        return None
    return [argument.name for argument in schema.arguments if not argument.kwarg_only]


def operator_of(name: str) -> Any:
    """Return the operator with a name. Only operators are found.

    Raises:
        SerializeError: There is none.
    """
    if name in SYMBOLIC_NAMES:
        return SYMBOLIC_NAMES[name]
    parts = name.split(".")
    if not all(part.isidentifier() for part in parts) or any(part.startswith("__") for part in parts[:3]):
        parts = []
    if parts[:2] == ["torch", "ops"]:
        try:
            if parts[2:3] == ["higher_order"] and len(parts) == 4:
                found: Any = getattr(torch.ops.higher_order, parts[3])
            elif len(parts) == 5:
                found = getattr(getattr(getattr(torch.ops, parts[2]), parts[3]), parts[4])
            elif len(parts) == 4:
                found = getattr(getattr(torch.ops, parts[2]), parts[3])
                found = getattr(found, "default", found)
            else:
                found = None
        except AttributeError:
            found = None
        if isinstance(found, OpOverload) and found.namespace == "aten" and not found.overloadpacket._texts:
            # A method of tensors that is no operator, such as `numpy`.
            found = None
        if isinstance(found, (OpOverload, HigherOrderOperator)):
            return found
    raise SerializeError(
        f"We failed to resolve {name} to an operator. If it is a custom operator, import the module that registers it "
        "before the program is loaded"
    )


# ---- programs


def _arg_spec(written: Mapping[str, Any]) -> _signature.ArgumentSpec:
    kind, value = union(written)
    if kind == "as_tensor":
        return _signature.TensorArgument(value["name"])
    if kind in ("as_sym_int", "as_sym_float", "as_sym_bool"):
        inner, name = union(value)
        if inner != "as_name":
            return _signature.ConstantArgument("", name)
        cls = {
            "as_sym_int": _signature.SymIntArgument,
            "as_sym_float": _signature.SymFloatArgument,
            "as_sym_bool": _signature.SymBoolArgument,
        }[kind]
        return cls(name)
    if kind == "as_custom_obj":
        return _signature.CustomObjArgument(value["name"], value["class_fqn"])
    if kind in _POSITIONAL_VALUES:
        return _signature.ConstantArgument("", None if kind == "as_none" else value)
    raise SerializeError(f"an argument of the signature is of an unknown kind {kind}")


def _input_spec(written: Mapping[str, Any]) -> _signature.InputSpec:
    kinds = _signature.InputKind
    kind, value = union(written)
    if kind == "user_input":
        return _signature.InputSpec(kinds.USER_INPUT, _arg_spec(value["arg"]), None)
    if kind == "constant_input":
        inner, constant = union(value["value"])
        constant = None if inner == "as_none" else constant
        return _signature.InputSpec(kinds.USER_INPUT, _signature.ConstantArgument(value["name"], constant), None)
    if kind == "token":
        return _signature.InputSpec(kinds.TOKEN, _signature.TokenArgument(value["arg"]["name"]), None)
    if kind == "custom_obj":
        arg = _signature.CustomObjArgument(value["arg"]["name"], value["arg"]["class_fqn"])
        return _signature.InputSpec(kinds.CUSTOM_OBJ, arg, value["custom_obj_name"])
    arg = _signature.TensorArgument(value["arg"]["name"])
    if kind == "parameter":
        return _signature.InputSpec(kinds.PARAMETER, arg, _path(value["parameter_name"]))
    if kind == "buffer":
        return _signature.InputSpec(kinds.BUFFER, arg, _path(value["buffer_name"]), bool(value["persistent"]))
    if kind == "tensor_constant":
        return _signature.InputSpec(kinds.CONSTANT_TENSOR, arg, _path(value["tensor_constant_name"]))
    raise SerializeError(f"a parameter of the signature is of an unknown kind {kind}")


def _path(name: str) -> str:
    """Return a dotted path. Its parts become attributes of a module, and Python code."""
    if not isinstance(name, str) or not all(map(re.compile(r"(?!__)[\w -]+").fullmatch, name.split("."))):
        raise SerializeError(f"{str(name)[:80]!r} is no name of a weight")
    return name


_RESULTS = {
    "loss_output": ("LOSS_OUTPUT", None),
    "buffer_mutation": ("BUFFER_MUTATION", "buffer_name"),
    "parameter_mutation": ("PARAMETER_MUTATION", "parameter_name"),
    "gradient_to_parameter": ("GRADIENT_TO_PARAMETER", "parameter_name"),
    "gradient_to_user_input": ("GRADIENT_TO_USER_INPUT", "user_input_name"),
    "user_input_mutation": ("USER_INPUT_MUTATION", "user_input_name"),
}


def _output_spec(written: Mapping[str, Any]) -> _signature.OutputSpec:
    kind, value = union(written)
    kinds = _signature.OutputKind
    if kind == "user_output":
        return _signature.OutputSpec(kinds.USER_OUTPUT, _arg_spec(value["arg"]), None)
    if kind == "token":
        return _signature.OutputSpec(kinds.TOKEN, _signature.TokenArgument(value["arg"]["name"]), None)
    if kind not in _RESULTS:
        raise SerializeError(f"a result of the signature is of an unknown kind {kind}")
    name, target = _RESULTS[kind]
    arg = _signature.TensorArgument(value["arg"]["name"])
    return _signature.OutputSpec(kinds[name], arg, None if target is None else value[target])


def _call_entry(written: Mapping[str, Any]) -> ModuleCallEntry:
    signature = written.get("signature")
    if signature is None:
        return ModuleCallEntry(written["fqn"])
    in_spec = pytree.treespec_loads(signature["in_spec"])
    if in_spec.type is not tuple or [child.type for child in in_spec.children()] != [tuple, dict]:
        raise SerializeError("the tree of the arguments is no tuple of a tuple and a dict")
    names = signature.get("forward_arg_names") or None
    for name in (*in_spec.child(1).context, *(names or ())):
        _check_name(name)
    return ModuleCallEntry(
        written["fqn"],
        ModuleCallSignature(
            [_arg_spec(x) for x in signature["inputs"]],
            [_arg_spec(x) for x in signature["outputs"]],
            in_spec,
            pytree.treespec_loads(signature["out_spec"]),
            names,
        ),
    )


def program_of(
    written: Mapping[str, Any], state_dict: dict[str, Any], constants: dict[str, Any], example_inputs: Any
) -> ExportedProgram:
    """Return the program of a JSON object.

    Args:
        written: the JSON.
        state_dict: parameters and buffers by name.
        constants: constants by name.
        example_inputs: a pair of a tuple and a dict, or ``None``.

    Raises:
        SerializeError: It is damaged, or it has what is not supported.
    """
    version = written["schema_version"]
    if version["major"] != SCHEMA_VERSION[0]:
        raise SerializeError(
            f"Serialized schema version {version} does not match our current schema version {list(SCHEMA_VERSION)}."
        )
    module = written["graph_module"]
    signature = _signature.ExportGraphSignature(
        [_input_spec(spec) for spec in module["signature"]["input_specs"]],
        [_output_spec(spec) for spec in module["signature"]["output_specs"]],
    )
    reader = GraphReader(FakeTensorMode(allow_non_fake_inputs=True))
    with reader.mode:
        graph = reader.read(module["graph"], signature.input_specs)
    _name_constants(signature, graph)
    calls = [_call_entry(entry) for entry in module["module_call_graph"]]
    if not calls or calls[0].signature is None:
        raise SerializeError("the program has no tree of its arguments")
    program = ExportedProgram(
        reader.module,
        graph,
        signature,
        state_dict,
        _ranges(written["range_constraints"], graph),
        calls,
        example_inputs,
        constants,
        verifiers=[load_verifier(name) for name in written.get("verifiers") or ["TRAINING"]],
    )
    program._guards_code = [str(code) for code in written.get("guards_code") or ()]
    return program


def _name_constants(signature: _signature.ExportGraphSignature, graph: fx.Graph) -> None:
    """Give constant inputs without a name the name of their node."""
    nodes = [node for node in graph.nodes if node.op == "placeholder"]
    for spec, node in zip(signature.input_specs, nodes):
        if isinstance(spec.arg, _signature.ConstantArgument) and not spec.arg.name:
            spec.arg.name = node.name


def _ranges(written: Mapping[str, Any], graph: fx.Graph) -> dict[Any, Any]:
    """Return the ranges by expression. The file has the expressions as texts."""
    by_text: dict[str, Any] = {}
    for node in graph.nodes:
        for value in pytree.tree_leaves(node.meta.get("val")):
            sizes = value.shape if isinstance(value, torch.Tensor) else (value,)
            for size in sizes:
                if isinstance(size, torch.SymInt):
                    by_text.setdefault(str(size), size.node.expr)
                    for symbol in size.node.expr.free_symbols:
                        by_text.setdefault(str(symbol), symbol)
    found = {}
    for text, limits in written.items():
        key = by_text.get(text)
        if key is None:
            key = _expressions.symbol(text)
        lower, upper = limits.get("min_val"), limits.get("max_val")
        found[key] = ValueRanges(-int_oo if lower is None else lower, int_oo if upper is None else upper)
    return found
