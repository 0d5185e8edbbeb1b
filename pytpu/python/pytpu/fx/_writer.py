"""The Python code of a graph, written node by node."""

from __future__ import annotations

import enum
import inspect
import math
import pprint
import re
import types
import typing
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytpu as torch

from ._names import _custom_builtins, _is_from_torch, _Namespace
from .node import (
    Argument,
    Node,
    _dtype_abbreviation,
    _get_qualified_name,
    _legal_ops as _all_ops,
    _sizes,
    _type_repr,
)
from .tensor_type import TensorType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._codegen import CodeGen
    from .graph import _node_list


# Classes of the builtins, and the names that old annotations have for them.
_origin_type_map: dict[Any, Any] = {
    builtin: getattr(typing, name)
    for builtin, name in (
        (list, "List"),
        (dict, "Dict"),
        (set, "Set"),
        (frozenset, "FrozenSet"),
        (tuple, "Tuple"),
    )
}


_legal_ops = dict.fromkeys(op for op in _all_ops if op != "root")


def _format_target(base: str, target: str) -> str:
    """Return the code that reads a dotted path from an expression."""
    for part in target.split("."):
        base = f"{base}.{part}" if part.isidentifier() else f'getattr({base}, "{part}")'
    return base


@dataclass(frozen=True)
class _ParsedStackTrace:
    """The innermost line of a stack trace."""

    file: str
    lineno: str
    name: str
    code: str

    def get_summary_str(self) -> str:
        return f"File: {self.file}:{self.lineno} in {self.name}, code: {self.code}"


_frame_regex = re.compile(r'^File "(.+)", line (\d+), in (.+)$')


def _parse_stack_trace(
    stack_trace: str | None, filter_fn: Callable[[str, str, str], bool] | None = None
) -> _ParsedStackTrace | None:
    """Return the innermost frame of a stack trace for which `filter_fn(file, name, code)` holds."""
    lines = stack_trace.strip().split("\n") if stack_trace else []
    for line, code in reversed(list(zip(lines, lines[1:]))):
        frame = _frame_regex.match(line.strip())
        if frame:
            file, number, name = frame.groups()
            if filter_fn is None or filter_fn(file, name, code.strip()):
                return _ParsedStackTrace(file, number, name, code.strip())
    return None


def _identity(x: str) -> str:
    return x


def _make_color_fn(code: str) -> Callable[[str], str]:
    return lambda text: f"{code}{text}\033[0m"


_color_codes = {
    "yellow": "\033[33m",
    "cyan": "\033[36m",
    "green": "\033[32m",
    "blue": "\033[34m",
    "red": "\033[31m",
    "dim": "\033[2m",
    "dim_blue": "\033[2m\033[34m",
    "dim_green": "\033[2m\033[32m",
}


_color_fns = {name: _make_color_fn(code) for name, code in _color_codes.items()}


_counter_regexp = re.compile(r"# COUNTER: (\d+)")


reflectable_magic_methods = {
    "add": "{} + {}",
    "sub": "{} - {}",
    "mul": "{} * {}",
    "floordiv": "{} // {}",
    "truediv": "{} / {}",
    "div": "{} / {}",
    "mod": "{} % {}",
    "pow": "{} ** {}",
    "lshift": "{} << {}",
    "rshift": "{} >> {}",
    "and_": "{} & {}",
    "or_": "{} | {}",
    "xor": "{} ^ {}",
    "getitem": "{}[{}]",
    "matmul": "{} @ {}",
}


magic_methods = {
    "eq": "{} == {}",
    "ne": "{} != {}",
    "lt": "{} < {}",
    "gt": "{} > {}",
    "le": "{} <= {}",
    "ge": "{} >= {}",
    "pos": "+{}",
    "neg": "-{}",
    "invert": "~{}",
    **reflectable_magic_methods,
}


inplace_methods = {
    **{
        f"i{name.rstrip('_')}": text[:-3] + "= {}"
        for name, text in reflectable_magic_methods.items()
        if name not in ("div", "getitem")
    },
    "setitem": "{}[{}] = {}",
}


def _accepted(method: Callable[..., Any], keywords: dict[str, Any]) -> dict[str, Any]:
    """Return the keywords that a method has. Methods written for older versions have fewer."""
    parameters = inspect.signature(method).parameters
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()):
        return keywords
    return {name: value for name, value in keywords.items() if name in parameters}


def _commented(values: Argument, descs: Sequence[str] | None, repr_fn: Callable[[Any], str]) -> str:
    if descs is None or not isinstance(values, (list, tuple)):
        return repr_fn(values)
    left, right = ("(", ")") if isinstance(values, tuple) else ("[", "]")
    lines = [f"    {repr_fn(value)},  # {desc}\n" for value, desc in zip(values, descs)]
    return f"{left}\n{''.join(lines)}{right}"


class _Writer:
    """The text of one graph while it is written."""

    verbose = expanded_def = record_func = include_stride = include_device = include_meta = False

    def __init__(self, codegen: CodeGen, root: str, namespace: _Namespace, colored: bool) -> None:
        self.codegen, self.root, self.namespace = codegen, root, namespace
        self.color = _color_fns if colored else defaultdict(lambda: _identity)
        self.additional_meta: list[str] = []
        self.body: list[str] = []
        self.parameters: list[str] = []
        self.globals: dict[str, Any] = {}
        self.wrapped: dict[str, None] = {}
        self.return_annotation = ""
        self.last_uses: dict[Node, list[Node]] = {}
        self.summary: str | None = None
        for name, (_, obj) in _custom_builtins.items():
            self.add_global(name, obj)

    def add_global(self, name_hint: str, obj: Any) -> str:
        """Return the expression that reads an object, and list the object if it is not part of `torch`."""
        if _is_from_torch(obj) and obj != torch.device:
            return _get_qualified_name(obj)
        name = self.namespace.create_name(name_hint, obj)
        if self.globals.setdefault(name, obj) is not obj and self.globals[name] != obj:
            raise AssertionError(f"Global name {name} already assigned to different object")
        return name

    def type_text(self, o: Any) -> str:
        """Return the text of an annotation."""
        if o == ():
            return "()"
        text = _type_repr(o)
        if isinstance(o, types.UnionType) and "|" in text:
            name = self.add_global(_type_repr(typing.Union), typing.Union)
            return f"{name}[{','.join(self.type_text(part) for part in typing.get_args(o))}]"
        origin = getattr(o, "__origin__", None)
        if not origin:
            return self.add_global(text, o)
        if not isinstance(o, types.GenericAlias):  # `typing.List[int]`, and not `list[int]`
            origin = _origin_type_map.get(origin, origin)
        name = self.add_global(_type_repr(origin), origin)
        parts = o.dims if isinstance(o, TensorType) else typing.get_args(o)
        return f"{name}[{','.join(self.type_text(part) for part in parts)}]" if parts else name

    def text(self, arg: Any) -> str:
        """Return the expression of an argument."""
        if isinstance(arg, Node):
            return repr(arg)
        if isinstance(arg, tuple):
            if hasattr(arg, "_fields"):
                cls = type(arg)
                return f"{self.add_global(_get_qualified_name(cls), cls)}{tuple(arg)!r}"
            items = ", ".join(self.text(item) for item in arg)
            return f"({items},)" if len(arg) == 1 else f"({items})"
        if isinstance(arg, list):
            return f"[{', '.join(self.text(item) for item in arg)}]"
        if isinstance(arg, slice):
            return f"slice({self.text(arg.start)}, {self.text(arg.stop)}, {self.text(arg.step)})"
        if isinstance(arg, torch._ops.OpOverload):
            return self.add_global(_get_qualified_name(arg), arg)
        if isinstance(arg, enum.Enum):
            return f"{self.add_global(type(arg).__name__, type(arg))}.{arg.name}"
        if isinstance(arg, torch.Tensor):
            return f"torch.Tensor(size={list(arg.size())}, dtype={str(arg.dtype).split('.')[-1]})"
        if isinstance(arg, complex):
            parts = (arg.real, arg.imag)
            # The usual text loses the sign of a zero, and names of other values for NaN and infinity.
            if not all(math.isfinite(part) and part != 0.0 for part in parts):
                return f"complex({self.text(parts[0])}, {self.text(parts[1])})"
        return self.color["blue"](repr(arg))

    def arguments(self, args: Sequence[Argument], kwargs: dict[str, Argument]) -> str:
        """Return the text between the parentheses of a call."""
        return ", ".join([*(self.text(a) for a in args), *(f"{k} = {self.text(v)}" for k, v in kwargs.items())])

    def write(self, nodes: _node_list) -> tuple[str, dict[str, Any], dict[int, int | None], int]:
        """Return the fields of the `PythonCode` of the nodes."""
        seen = set()
        for user in reversed(nodes):
            for used in user._input_nodes:
                if used not in seen:
                    seen.add(used)
                    self.last_uses.setdefault(user, []).append(used)
        if self.record_func:
            self.body.append(
                "_rf = torch.profiler.record_function('## ENTER_GRAPH_PLACEHOLDER_KEY ##'); _rf.__enter__()\n"
            )
        for i, node in enumerate(nodes):
            if self.verbose:
                self.write_summary(node)
            self.body.append(f"# COUNTER: {i}\n")
            is_recorded = self.record_func and node.op in ("call_function", "call_method", "call_module")
            if is_recorded:
                self.body.append(
                    f"_rf_{node.name} = torch.profiler.record_function('## {i} ##'); _rf_{node.name}.__enter__()\n"
                )
            self.write_node(node)
            self.release(node)
            if is_recorded:
                self.body.append(f"_rf_{node.name}.__exit__(None, None, None)\n")
        if self.record_func:
            self.body.append("_rf.__exit__(None, None, None)\n")
        return self.complete()

    def complete(self) -> tuple[str, dict[str, Any], dict[int, int | None], int]:
        """Put the parts together, and count lines."""
        body = self.body or ["pass\n"]
        wraps = ""
        if self.wrapped:
            wrap = self.add_global("wrap", torch.fx.wrap)
            wraps = "\n".join(f'{wrap}("{name}")' for name in self.wrapped)
        if self.codegen._body_transformer:
            body = self.codegen._body_transformer(body)
        for name, value in self.codegen.additional_globals():
            self.add_global(name, value)
        define = self.codegen.gen_fn_def
        keywords = _accepted(define, {"expanded_def": self.expanded_def})
        prologue = define(self.parameters, self.return_annotation, **keywords)
        first = prologue.count("\n") + 1
        node_of_line: dict[int, int | None] = {}
        lines: list[str] = []
        current = None
        for line in "".join(body).split("\n"):
            counter = _counter_regexp.search(line)
            if counter:
                current = int(counter.group(1))
            else:
                node_of_line[first + len(lines)] = current
                lines.append(line)
        code = "\n".join("    " + line for line in "\n".join(lines).lstrip("\n").split("\n"))
        # Two empty lines and the calls of `wrap` are before the function.
        return f"\n{wraps}\n\n{prologue}\n{code}", self.globals, node_of_line, wraps.count("\n") + 4

    def release(self, user: Node) -> None:
        """Write the deletion of the values that are not used after a node."""
        if user.op == "placeholder":
            return
        dead = [] if user.op == "output" else self.last_uses.get(user, [])
        if user.op != "output" and not user.users:
            dead = [*dead, user]
        if dead:
            text = " = ".join([*(repr(node) for node in dead), "None"])
            self.body.append(f";  {self.color['dim'](text)}\n")
        else:
            self.body.append("\n")

    def write_summary(self, node: Node) -> None:
        """Write a comment: notes of the node, and the line of the program that it is from."""
        if node.op in ("placeholder", "output"):
            return
        notes = ", ".join(f"{key}: {node.meta[key]}" for key in self.additional_meta if key in node.meta)
        notes = f"# {notes} " if notes else ""
        custom = {
            key: f"{str(value)[:40]}..." if len(str(value)) > 40 else value
            for key, value in (node.meta.get("custom") or {}).items()
        }
        annotation = f" Annotation: {custom}" if custom else ""
        place = "No stacktrace found for following nodes"
        frame = _parse_stack_trace(node.stack_trace)
        if frame:
            place = frame.get_summary_str()
            if node.meta.get("autograd_backward", False):
                place = f"Backward of forward node: {place}"
        summary = "\n" + self.color["dim"](f"{notes}#{annotation} {place}") + "\n"
        if summary != self.summary:
            self.summary = summary
            self.body.append(summary)

    def annotation(self, node: Node) -> str:
        """Return the annotation of a node: its type, or in verbose code dtype and sizes of its value."""
        written = "" if node.type is None else f" : {self.type_text(node.type)}"
        if not self.verbose:
            return written
        from .passes.shape_prop import TensorMetadata

        meta = node.meta
        value = meta.get("val", meta.get("tensor_meta", meta.get("example_value")))
        if isinstance(value, torch.Tensor):
            core = self.color["red"](_dtype_abbreviation(value.dtype)) + self.color["blue"](_sizes(value.shape))
            core += self.color["dim_blue"](_sizes(value.stride()) if self.include_stride else "")
            core += self.color["dim_green"](str(value.device) if self.include_device else "")
            is_plain = type(value) is torch.Tensor or torch._C._is_fake(value)
            return f': "{core}"' if is_plain else f': "{type(value).__name__}({core})"'
        if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            return f': "Sym({type(self.codegen)._sym_repr(value)})"'
        if isinstance(value, TensorMetadata):
            return f': "{_dtype_abbreviation(value.dtype)}{_sizes(value.shape)}"'
        return written

    def write_node(self, node: Node) -> None:
        """Write the statement of a node, without the end of the line."""
        annotation = self.annotation(node)
        if self.include_meta and node.meta:
            notes = "".join(
                f"{key}: {pprint.pformat(str(value), width=80, compact=True)}\n" for key, value in node.meta.items()
            )
            self.body.append(f'"""\n{notes}"""\n')
        if node.op not in _legal_ops:
            raise NotImplementedError(f"node: {node.op} {node.target}")
        getattr(self, f"write_{node.op}")(node, annotation)

    def assign(self, node: Node, annotation: str, value: str) -> None:
        """Write an assignment."""
        self.body.append(f"{node!r}{annotation} = {value}")

    def write_placeholder(self, node: Node, annotation: str) -> None:
        target = str(node.target)
        default = f" = {self.text(node.args[0])}" if node.args else ""
        desc = node.meta.get("desc") if self.expanded_def else None
        self.parameters.append(f"{target}{annotation}{default}" + (f"  # {desc}" if desc is not None else ""))
        name = target.replace("*", "")
        if name != repr(node):
            self.body.append(f"{node!r} = {name}\n")

    def write_get_attr(self, node: Node, annotation: str) -> None:
        self.assign(node, annotation, _format_target(self.root, str(node.target)))

    def write_call_module(self, node: Node, annotation: str) -> None:
        module = _format_target(self.root, str(node.target))
        self.assign(node, annotation, f"{module}({self.arguments(node.args, node.kwargs)})")

    def write_call_method(self, node: Node, annotation: str) -> None:
        method = _format_target(self.text(node.args[0]), str(node.target))
        self.assign(node, annotation, f"{method}({self.arguments(node.args[1:], node.kwargs)})")

    def write_call_function(self, node: Node, annotation: str) -> None:
        target: Any = node.target
        if getattr(target, "__module__", "") == "_operator":
            operands = [self.text(arg) for arg in node.args]
            if target.__name__ in magic_methods:
                self.assign(node, annotation, magic_methods[target.__name__].format(*operands))
                return
            if target.__name__ in inplace_methods:
                self.body.append(f"{inplace_methods[target.__name__].format(*operands)};  ")
                self.assign(node, annotation, operands[0])
                return
        name = self.add_global(_get_qualified_name(target), target)
        args = node.args
        if name == "getattr" and len(args) == 2 and isinstance(args[1], str) and args[1].isidentifier():
            self.assign(node, annotation, _format_target(self.text(args[0]), args[1]))
            return
        self.assign(node, annotation, f"{name}({self.arguments(args, node.kwargs)})")
        if node.meta.get("is_wrapped", False):
            self.wrapped[name] = None

    def write_output(self, node: Node, annotation: str) -> None:
        if node.type is not None:
            self.return_annotation = f" -> {self.type_text(node.type)}"
        generate = self.codegen.generate_output
        descs = node.meta.get("desc") if self.expanded_def else None
        keywords = _accepted(generate, {"descs": descs, "repr_fn": self.text})
        self.body.append(generate(node.args[0], **keywords))
