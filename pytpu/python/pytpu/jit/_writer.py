"""Archives of TorchScript: the code of traced modules, and the objects of all modules."""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import pytpu as torch

from .. import _archive, fx
from .._ops import HigherOrderOperator, OpOverload
from ..utils import _pytree as pytree
from ._builtins import DTYPES, MEMORY_FORMATS
from ._modules import RecursiveScriptModule
from ._text import ScriptedObject

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..export import ExportedProgram

# ---- pickles


class _Pickle:
    """Writes objects as the pickles of TorchScript, and collects the storages of their tensors."""

    def __init__(self) -> None:
        self.out = bytearray(b"\x80\x02")
        self.storages: list[torch.Tensor] = []
        self._keys: dict[int, int] = {}
        self._modules: dict[int, int] = {}

    def finish(self) -> bytes:
        """Return the pickle."""
        return bytes(self.out + b".")

    def _global(self, qualified: str) -> None:
        module, _, name = qualified.rpartition(".")
        self.out += f"c{module}\n{name}\n".encode()

    def _text(self, text: str) -> None:
        data = text.encode("utf-8", "surrogatepass")
        self.out += b"X" + struct.pack("<I", len(data)) + data

    def write(self, value: Any) -> None:
        """Write an object.

        Raises:
            NotImplementedError: It is none that TorchScript has.
        """
        if value is None:
            self.out += b"N"
        elif isinstance(value, bool):
            self.out += b"\x88" if value else b"\x89"
        elif isinstance(value, int):
            self._int(value)
        elif isinstance(value, float):
            self.out += b"G" + struct.pack(">d", value)
        elif isinstance(value, str):
            self._text(value)
        elif isinstance(value, torch.Tensor):
            self._tensor(value)
        elif isinstance(value, RecursiveScriptModule):
            self._module(value)
        elif isinstance(value, ScriptedObject):
            self._object(value._class.qualified, value._attributes)
        elif isinstance(value, torch.device):
            self._global("torch.device")
            self.out += b"("
            self._text(value.type)
            if value.index is not None:
                self._int(value.index)
            self.out += b"tR"
        elif isinstance(value, tuple):
            self.out += b"("
            for item in value:
                self.write(item)
            self.out += b"t"
        elif isinstance(value, list):
            self._list(value)
        elif isinstance(value, dict):
            self.out += b"}("
            for key, item in value.items():
                self.write(key)
                self.write(item)
            self.out += b"u"
        else:
            raise NotImplementedError(f"torch.jit.save: an attribute of {type(value)} cannot be written")

    def _int(self, value: int) -> None:
        if 0 <= value < 1 << 8:
            self.out += b"K" + struct.pack("<B", value)
        elif -(1 << 31) <= value < 1 << 31:
            self.out += b"J" + struct.pack("<i", value)
        else:
            self.out += b"\x8a\x08" + struct.pack("<q", value)

    def _list(self, values: list[Any]) -> None:
        kinds = {bool: "bool", int: "int", float: "double"}
        kind = next((name for cls, name in kinds.items() if values and all(type(v) is cls for v in values)), None)
        if values and all(isinstance(v, torch.Tensor) for v in values):
            kind = "tensor"
        if kind is not None:
            self._global(f"torch.jit._pickle.build_{kind}list")
        self.out += b"]("
        for value in values:
            self.write(value)
        self.out += b"e"
        if kind is not None:
            self.out += b"\x85R"

    def _tensor(self, tensor: torch.Tensor) -> None:
        host = tensor.detach().cpu()
        storage = host.untyped_storage()
        key = storage.data_ptr() if storage.nbytes() and tensor.device.type == "cpu" else -1 - len(self.storages)
        if key not in self._keys:
            self._keys[key] = len(self.storages)
            self.storages.append(host)
        count = storage.nbytes() // tensor.element_size()
        self._global("torch._utils._rebuild_tensor_v2")
        self.out += b"(("
        self._text("storage")
        self._global(f"torch.{_STORAGES[tensor.dtype]}Storage")
        self._text(str(self._keys[key]))
        self._text("cpu")
        self._int(count)
        self.out += b"tQ"
        self._int(host.storage_offset())
        self.write(tuple(int(n) for n in host.shape))
        self.write(tuple(int(n) for n in host.stride()))
        self.write(bool(tensor.requires_grad))
        self._global("collections.OrderedDict")
        self.out += b")RtR"

    def _object(self, qualified: str, state: Mapping[str, Any]) -> None:
        self._global(qualified)
        self.out += b")\x81"
        self.write(dict(state))
        self.out += b"b"

    def _module(self, module: RecursiveScriptModule) -> None:
        if id(module) in self._modules:
            self.out += b"j" + struct.pack("<I", self._modules[id(module)])
            return
        cls = module.__dict__["_scripted"]
        state: dict[str, Any] = {}
        for name in cls.types:
            if name == "_is_full_backward_hook":
                state[name] = None
            elif name == "training":
                state[name] = module.training
            elif name not in cls.values:
                state[name] = getattr(module, name)
        self._object(cls.qualified, state)
        self._modules[id(module)] = len(self._modules)
        self.out += b"r" + struct.pack("<I", self._modules[id(module)])


_STORAGES = {
    torch.float32: "Float",
    torch.float64: "Double",
    torch.float16: "Half",
    torch.bfloat16: "BFloat16",
    torch.int64: "Long",
    torch.int32: "Int",
    torch.int16: "Short",
    torch.int8: "Char",
    torch.uint8: "Byte",
    torch.bool: "Bool",
    torch.complex64: "ComplexFloat",
    torch.complex128: "ComplexDouble",
}


def write(module: RecursiveScriptModule, f: Any, extra_files: Mapping[str, Any]) -> None:
    """Write an archive.

    Args:
        module: the module.
        f: a path, or an object with `write`.
        extra_files: texts or bytes by name.
    """
    data, constants = _Pickle(), _Pickle()
    data.write(module)
    program = module.__dict__["_program"]
    constants.write(tuple(program.constants))
    root = "archive"
    if isinstance(f, (str, os.PathLike)):
        root = os.path.basename(os.fspath(f)).rpartition(".")[0] or root
    with open(f, "wb") if isinstance(f, (str, os.PathLike)) else contextlib.nullcontext(f) as file:
        writer = _archive.ZipWriter(file)
        digest = hashlib.sha256()

        def add(name: str, content: Any) -> None:
            digest.update(name.encode())
            writer.add(f"{root}/{name}", content)

        for name, found in (("data", data), ("constants", constants)):
            add(f"{name}.pkl", found.finish())
            for i, tensor in enumerate(found.storages):
                storage = tensor.untyped_storage()
                flat = torch.empty(0, dtype=torch.uint8).set_(storage) if storage.nbytes() else None
                add(f"{name}/{i}", b"" if flat is None else _archive.memory_of(flat))
        for name, text in program.files.items():
            add(f"code/{name}", text)
        for name, content in extra_files.items():
            add(f"extra/{name}", content.encode() if isinstance(content, str) else content)
        # The version whose operators the code names.
        add(".data/version", b"10\n")
        add("byteorder", b"little")
        add(".data/serialization_id", str(int(digest.hexdigest(), 16))[:40].encode())
        writer.close()


# ---- the code of a program


#: Names that code cannot give to values.
_TAKEN = frozenset(
    """self torch ops annotate unchecked_cast uninitialized CONSTANTS inf nan infj nanj int float bool complex str len
    range list dict getattr fork device print isinstance tuple min max abs None True False Tensor number List Dict Tuple
    Optional Future layout dtype super hasattr enumerate zip rangelist""".split()
)


class Code:
    """The code of a program, with a class for each module that has weights.

    Args:
        program: the program.
        name: the name of the module's class.
    """

    def __init__(self, program: ExportedProgram, name: str) -> None:
        self.program = program
        self.constants: list[torch.Tensor] = []
        self.classes: list[str] = []
        #: The class of each path.
        self.qualified: dict[str, str] = {}
        self._name = name if name.isidentifier() and name not in _TAKEN else "Model"
        self._tree: dict[str, Any] = {}
        self._weights = self._collect()
        self._names: dict[fx.Node, str] = {}
        self._lines: list[str] = []
        self._taken: set[str] = set()

    def _collect(self) -> dict[str, Any]:
        """Return the weights by path, in a tree of modules."""
        found: dict[str, Any] = {}
        program = self.program
        others = program.graph_signature.non_persistent_buffers
        for name in (*program.graph_signature.parameters, *program.graph_signature.buffers):
            found[name] = (program.constants if name in others else program.state_dict)[name]
        return found

    def text(self) -> str:
        """Return the code of `__torch__.py`."""
        forward = self._forward()
        tree: dict[str, Any] = {}
        for path in self._weights:
            part = tree
            *parents, last = path.split(".")
            for parent in parents:
                part = part.setdefault(parent, {})
            part[last] = None
        self._class(tree, "", forward)
        return "".join(self.classes)

    def _class(self, tree: dict[str, Any], path: str, forward: str) -> str:
        """Add the class of a module, after those of its modules. Return its qualified name."""
        lines: dict[str, str] = {}
        parameters, buffers = [], []
        for name, inner in tree.items():
            full = f"{path}.{name}" if path else name
            if inner is None:
                is_parameter = isinstance(self._weights[full], torch.nn.Parameter)
                (parameters if is_parameter else buffers).append(name)
                lines[name] = "Tensor"
            else:
                lines[name] = self._class(inner, full, "")
        name = self._name if not path else f"Module_{len(self.classes)}"
        self.qualified[path] = f"__torch__.{name}"
        text = f"class {name}(Module):\n"
        text += f"  __parameters__ = [{''.join(f'{_quote(n)}, ' for n in parameters)}]\n"
        text += f"  __buffers__ = [{''.join(f'{_quote(n)}, ' for n in buffers)}]\n"
        plain = {n: kind for n, kind in lines.items() if _is_name(n)}
        text += "".join(f"  {n} : {kind}\n" for n, kind in plain.items())
        text += "  training : bool\n"
        text += "".join(f"  __annotations__[{_quote(n)}] = {kind}\n" for n, kind in lines.items() if n not in plain)
        self.classes.append(text + forward)
        return self.qualified[path]

    # ---- forward

    def _free(self, name: str) -> str:
        made, number = name, 0
        while made in self._taken or made in _TAKEN:
            number += 1
            made = f"{name}_{number}"
        self._taken.add(made)
        return made

    def _forward(self) -> str:
        from ..export.graph_signature import ConstantArgument, InputKind

        signature = self.program.graph_signature
        entry = self.program.module_call_graph[0].signature
        assert entry is not None  # the first entry is the program
        positional, by_name = entry.in_spec.children()
        if by_name.num_children or any(not child.is_leaf() for child in positional.children()):
            raise NotImplementedError(
                "torch.jit.trace: arguments must be tensors: lists, tuples and dicts of tensors are not written as "
                "TorchScript"
            )
        nodes = [node for node in self.program.graph.nodes if node.op == "placeholder"]
        parameters = []
        for node, spec in zip(nodes, signature.input_specs):
            if spec.kind == InputKind.USER_INPUT:
                if isinstance(spec.arg, ConstantArgument):
                    raise NotImplementedError("torch.jit.trace: arguments must be tensors")
                self._names[node] = self._free(node.name)
                parameters.append(self._names[node])
        for node, spec in zip(nodes, signature.input_specs):
            if spec.kind == InputKind.USER_INPUT or not node.users:
                continue
            if spec.target in self._weights:
                self._names[node] = self._read(str(spec.target))
            else:
                self.constants.append(self.program.constants[str(spec.target)])
                self._names[node] = f"CONSTANTS.c{len(self.constants) - 1}"
        self._nodes(self.program.graph_module)
        output = next(iter(reversed(self.program.graph.nodes)))
        results: Any = output.args[0]
        shown, kind = self._result(entry.out_spec, list(results))
        head = f"  def forward(self: __torch__.{self._name}"
        head += "".join(f",\n    {name}: Tensor" for name in parameters) + f") -> {kind}:\n"
        body = "".join(f"    {line}\n" for line in self._lines)
        return f"{head}{body}    return {shown}\n"

    def _read(self, path: str) -> str:
        value = "self"
        for part in path.split("."):
            value = f"{value}.{part}" if _is_name(part) else f"getattr({value}, {_quote(part)})"
        name = self._free(path.rpartition(".")[2] if _is_name(path.rpartition(".")[2]) else "weight")
        self._lines.append(f"{name} = {value}")
        return name

    def _result(self, spec: pytree.TreeSpec, leaves: list[Any]) -> tuple[str, str]:
        """Return the expression of a result, and its type."""
        if spec.is_leaf():
            value = leaves.pop(0)
            if isinstance(value, fx.Node):
                return self._names[value], "Tensor"
            kinds = {bool: "bool", int: "int", float: "float", str: "str", type(None): "NoneType"}
            return self._value(value, ""), kinds[type(value)]
        parts = [self._result(child, leaves) for child in spec.children()]
        if spec.type is tuple:
            comma = "," if len(parts) == 1 else ""
            return f"({', '.join(p for p, _ in parts)}{comma})", f"Tuple[{', '.join(kind for _, kind in parts)}]"
        kinds = {kind for _, kind in parts}
        if spec.type is list and len(kinds) == 1:
            return f"[{', '.join(p for p, _ in parts)}]", f"List[{kinds.pop()}]"
        if spec.type is dict and len(kinds) == 1 and all(isinstance(key, str) for key in spec.context):
            pairs = ", ".join(f"{_quote(key)}: {p}" for key, (p, _) in zip(spec.context, parts))
            return f"{{{pairs}}}", f"Dict[str, {kinds.pop()}]"
        raise NotImplementedError(
            f"torch.jit.trace: a result of the form {spec} is not written as TorchScript: lists and dicts have values "
            "of one type"
        )

    def _nodes(self, module: fx.GraphModule) -> None:
        import operator

        for node in module.graph.nodes:
            if node.op != "call_function":
                continue
            target: Any = node.target
            if target is operator.getitem and isinstance(node.args[0], fx.Node) and node in self._names:
                continue
            if isinstance(target, HigherOrderOperator):
                self._inline(module, node)
                continue
            call = self._call(node)
            if not node.users:
                self._lines.append(f"_ = {call}" if _has_result(target) else call)
                continue
            self._names[node] = self._free(node.name)
            self._lines.append(f"{self._names[node]} = {call}")

    def _inline(self, module: fx.GraphModule, node: fx.Node) -> None:
        """Write the operators of a block without gradients in place of its call."""
        if node.target is not torch.ops.higher_order.wrap_with_set_grad_enabled:
            raise NotImplementedError(f"torch.jit.trace: {node.target} is not written as TorchScript")
        _, read, *operands = node.args
        inner = module.get_submodule(str(read.target))  # type: ignore[union-attr]
        assert isinstance(inner, fx.GraphModule)
        for made, value in zip([n for n in inner.graph.nodes if n.op == "placeholder"], operands):
            self._names[made] = self._names[value]  # type: ignore[index]
        self._nodes(inner)
        results: Any = next(iter(reversed(inner.graph.nodes))).args[0]
        for user in node.users:
            self._names[user] = self._names[results[user.args[1]]]

    def _call(self, node: fx.Node) -> str:
        import operator

        target: Any = node.target
        if target is operator.getitem:
            owner, index = node.args
            return f"({self._names[owner]})[{index}]"  # type: ignore[index]
        if isinstance(target, OpOverload):
            space = target.namespace
            name = target.overloadpacket.__name__
            if name in ("sym_size", "sym_numel", "sym_stride"):
                name = name.removeprefix("sym_")
            head = f"torch.{name}" if space == "aten" else f"ops.{space}.{name}"
            arguments = target._schema.arguments
            kinds = {argument.name: argument._written for argument in arguments}
            positional = [argument._written for argument in arguments if not argument.kwarg_only]
            parts = [self._value(a, positional[i] if i < len(positional) else "") for i, a in enumerate(node.args)]
            parts += [f"{key}={self._value(a, kinds.get(key, ''))}" for key, a in node.kwargs.items()]
            return f"{head}({', '.join(parts)})"
        plain = {operator.add: "add", operator.sub: "sub", operator.mul: "mul", operator.floordiv: "floordiv"}
        plain |= {operator.mod: "remainder"}
        if target in plain:
            return f"torch.{plain[target]}({', '.join(self._value(a, 'int') for a in node.args)})"
        raise NotImplementedError(f"torch.jit.trace: {target} is not written as TorchScript")

    def _value(self, value: Any, kind: str) -> str:
        if isinstance(value, fx.Node):
            return self._names[value]
        if value is None or isinstance(value, bool):
            return str(value)
        if isinstance(value, int):
            return f"{value}." if kind.rstrip("?") == "float" else str(value)
        if isinstance(value, float):
            if not math.isfinite(value):
                return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
            text = f"{value:.17g}"
            return text if set(text) & set(".e") else f"{text}."
        if isinstance(value, complex):
            raise NotImplementedError("torch.jit.trace: complex numbers are not written as TorchScript")
        if isinstance(value, str):
            return _quote(value)
        if isinstance(value, torch.dtype):
            return str(DTYPES.index(value))
        if isinstance(value, torch.device):
            return f'torch.device("{value}")'
        if isinstance(value, torch.memory_format):
            return str(MEMORY_FORMATS.index(value))
        if isinstance(value, torch.layout):
            return "0"
        if isinstance(value, (list, tuple)):
            return self._list(value, kind)
        raise NotImplementedError(f"torch.jit.trace: a value of {type(value)} is not written as TorchScript")

    def _list(self, values: Sequence[Any], kind: str) -> str:
        inner = kind.rstrip("?").rpartition("[")[0]
        shown = f"[{', '.join(self._value(v, inner) for v in values)}]"
        if inner == "Tensor?":
            return f"annotate(List[Optional[Tensor]], {shown})"
        if not values:
            names = {"SymInt": "int", "Scalar": "number"}
            return f"annotate(List[{names.get(inner, inner)}], [])"
        return shown


def _has_result(target: Any) -> bool:
    return not isinstance(target, OpOverload) or bool(target._schema.returns)


def _is_name(text: str) -> bool:
    import keyword

    return text.isidentifier() and not keyword.iskeyword(text) and text not in _TAKEN


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
