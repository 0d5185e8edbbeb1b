"""``torch.fx.graph``: a list of nodes, and the Python code that computes them."""

from __future__ import annotations

import builtins
import contextlib
import copy
import enum
import inspect
import keyword
import logging
import math
import os
import pprint
import re
import types
import typing
import warnings
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import pytpu as torch

from ..utils import _pytree as pytree
from . import _pytree as fx_pytree
from ._compatibility import compatibility
from .immutable_collections import immutable_dict
from .node import (
    Argument,
    Node,
    Target,
    _dtype_abbreviation,
    _get_qualified_name,
    _legal_ops as _all_ops,
    _sizes,
    _type_repr,
    map_arg,
)
from .tensor_type import TensorType

if TYPE_CHECKING:
    from ._symbolic_trace import Tracer
    from .graph_module import GraphModule

__all__ = ["CodeGen", "Graph", "PythonCode"]

log = logging.getLogger(__name__)

# Classes of the builtins, and the names that old annotations have for them.
_origin_type_map: dict[Any, Any] = {
    list: typing.List,  # noqa: UP006
    dict: typing.Dict,  # noqa: UP006
    set: typing.Set,  # noqa: UP006
    frozenset: typing.FrozenSet,  # noqa: UP006
    tuple: typing.Tuple,  # noqa: UP006
}
_legal_ops = dict.fromkeys(op for op in _all_ops if op != "root")
TransformCodeFunc = Callable[[list[str]], list[str]]


# ---- names


class _CustomBuiltin(NamedTuple):
    """A name that all generated code can use: the statement that makes it, and its value."""

    import_str: str
    obj: Any


_custom_builtins: dict[str, _CustomBuiltin] = {}
# Names that values cannot have, and the only objects that can.
_illegal_names: dict[str, Any] = {**{word: object() for word in keyword.kwlist}, **vars(builtins)}


def _register_custom_builtin(name: str, import_str: str, obj: Any) -> None:
    _custom_builtins[name] = _CustomBuiltin(import_str, obj)
    _illegal_names[name] = obj


_register_custom_builtin("inf", "from math import inf", math.inf)
_register_custom_builtin("nan", "from math import nan", math.nan)
_register_custom_builtin("NoneType", "NoneType = type(None)", type(None))
_register_custom_builtin("torch", "import torch", torch)
_register_custom_builtin("device", "from torch import device", torch.device)
_register_custom_builtin("fx_pytree", "import torch.fx._pytree as fx_pytree", fx_pytree)
_register_custom_builtin("pytree", "import torch.utils._pytree as pytree", pytree)

_hump = re.compile(r"(?<=[a-z])([A-Z])")
_illegal_char_regex = re.compile("[^0-9a-zA-Z_]+")
# A name, and the number at its end.
_name_regex = re.compile(r"^([a-zA-Z_][0-9a-zA-Z_]*?)(?:_(\d+))?$")
# Modules of this package, as `pytpu` or as `torch`. Those of the compiler are left out.
_own_module = re.compile(r"^(?:torch|pytpu)(?:\.(?!_dynamo\.|_inductor\.)[^.]+)*$")


def _snake_case(s: str) -> str:
    """Return a name in lower case: ``pascalCase`` becomes ``pascal_case``."""
    return _hump.sub(r"_\1", s).lower()


def _is_magic(x: str) -> bool:
    return x.startswith("__") and x.endswith("__")


def _is_from_torch(obj: Any) -> bool:
    """Return whether code reads an object by its dotted name within ``torch``."""
    module = getattr(obj, "__module__", None)
    if module is not None:
        return _own_module.match(module) is not None
    name = getattr(obj, "__name__", None)
    if name is None or name == "torch":
        return False
    return any(getattr(guess, name, None) is obj for guess in (torch, torch.nn.functional))


class _Namespace:
    """Unique names. An object has one of them, and no name hides a builtin."""

    def __init__(self) -> None:
        self._obj_to_name: dict[Any, str] = {}
        self._used_names: set[str] = set()
        # The highest number that a base name has got.
        self._base_count: dict[str, int] = {}

    def create_name(self, candidate: str, obj: Any | None) -> str:
        """Return a new name, or the name that the object has already.

        Args:
            candidate: The wish. Characters that identifiers do not have become ``_``, and a number is appended if the
                name is in use.
            obj: The object that gets the name, or ``None``.
        """
        if obj is not None and obj in self._obj_to_name:
            return self._obj_to_name[obj]
        parts = _name_regex.match(candidate)
        if parts is None:
            candidate = _illegal_char_regex.sub("_", candidate) or "_unnamed"
            if candidate[0].isdigit():
                candidate = f"_{candidate}"
            parts = _name_regex.match(candidate)
            assert parts is not None
        base, digits = parts.groups()
        if digits is not None and candidate not in self._used_names:
            number = int(digits)
        else:
            number = self._base_count.get(base, 0)
            if _illegal_names.get(candidate, obj) is not obj:
                number += 1
                candidate = f"{base}_{number}"
        while candidate in self._used_names:
            number += 1
            candidate = f"{base}_{number}"
        self._used_names.add(candidate)
        self._base_count[base] = number
        if obj is not None:
            self._obj_to_name[obj] = candidate
        return candidate

    def associate_name_with_obj(self, name: str, obj: Any) -> None:
        """Give a name to an object that has none."""
        if self._obj_to_name.setdefault(obj, name) is not name:
            raise AssertionError("obj is already associated")

    def _rename_object(self, obj: Any, name: str) -> None:
        if obj not in self._obj_to_name:
            raise AssertionError(f"Object {obj} is not in _obj_to_name")
        self._obj_to_name[obj] = name
        self._used_names.add(name)


def _format_target(base: str, target: str) -> str:
    """Return the code that reads a dotted path from an expression."""
    for part in target.split("."):
        base = f"{base}.{part}" if part.isidentifier() else f'getattr({base}, "{part}")'
    return base


# ---- code


@compatibility(is_backward_compatible=True)
@dataclass
class PythonCode:
    """The code of a graph.

    Attributes:
        src: The text of the function.
        globals: The global names in it, and their values.
        _lineno_map: The node of each line, both counted from zero at the ``def``.
        _prologue_start: The line of the ``def`` in ``src``, from one.
    """

    src: str
    globals: dict[str, Any]
    _lineno_map: dict[int, int | None] | None
    _prologue_start: int = 0


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
    """Return the innermost frame of a stack trace for which ``filter_fn(file, name, code)`` holds."""
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


@compatibility(is_backward_compatible=False)
class CodeGen:
    """The way in which a graph becomes a function. Subclasses change its parameters and its return."""

    # Text of a symbolic size.
    _sym_repr: Callable[[Any], str] = lambda x: repr(x)

    def __init__(self) -> None:
        self._body_transformer: TransformCodeFunc | None = None
        self._func_name: str = "forward"

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str, *, expanded_def: bool = False) -> str:
        """Return the first lines of the function.

        Args:
            free_vars: The parameters. ``self`` is inserted if it is not the first.
            maybe_return_annotation: A text such as `` -> int``, or an empty one.
            expanded_def: Write each parameter on its own line.
        """
        if not free_vars or free_vars[0] != "self":
            free_vars.insert(0, "self")
        if not expanded_def:
            return f"def {self._func_name}({', '.join(free_vars)}){maybe_return_annotation}:"
        lines = []
        for parameter in free_vars:
            code, sign, comment = parameter.partition("#")
            lines.append(f"    {code.rstrip()},  # {comment.lstrip()}\n" if sign else f"    {parameter},\n")
        return f"def {self._func_name}(\n{''.join(lines)}){maybe_return_annotation}:"

    def generate_output(
        self,
        output_args: Argument,
        *,
        descs: Sequence[str] | None = None,
        repr_fn: Callable[[Any], str] | None = None,
    ) -> str:
        """Return the return statement.

        Args:
            output_args: The value of the output node.
            descs: A comment for each item of a tuple or list, which then has its own line.
            repr_fn: The text of a value.
        """
        return f"return {_commented(output_args, descs, repr_fn or repr)}"

    def process_inputs(self, *args: Any) -> Any:
        """Return the values of the placeholders for the arguments of the function."""
        return args

    def process_outputs(self, outputs: Any) -> Any:
        """Return the result of the function for the value of the output node."""
        return outputs

    def additional_globals(self) -> list[tuple[str, Any]]:
        """Return names and values that the code uses, such as ``[("List", typing.List)]``."""
        return []

    def _gen_python_code(
        self,
        nodes: _node_list,
        root_module: str,
        namespace: _Namespace,
        *,
        verbose: bool = False,
        include_stride: bool = False,
        include_device: bool = False,
        colored: bool = False,
        expanded_def: bool = False,
        record_func: bool = False,
        additional_meta: list[str] | None = None,
    ) -> PythonCode:
        writer = _Writer(self, root_module, namespace, colored)
        writer.verbose, writer.expanded_def, writer.record_func = verbose, expanded_def, record_func
        writer.include_stride = include_stride or os.environ.get("FX_GRAPH_SHOW_STRIDE", "0") == "1"
        writer.include_device = include_device or os.environ.get("FX_GRAPH_SHOW_DEVICE", "0") == "1"
        writer.include_meta = os.environ.get("FX_GRAPH_SHOW_META", "0") == "1"
        writer.additional_meta = additional_meta or []
        return writer.write(nodes)


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
        """Return the expression that reads an object, and list the object if it is not part of ``torch``."""
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
        if isinstance(o, typing._GenericAlias):  # type: ignore[attr-defined]
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

    def write(self, nodes: _node_list) -> PythonCode:
        """Return the code of the nodes."""
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

    def complete(self) -> PythonCode:
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
        return PythonCode(f"\n{wraps}\n\n{prologue}\n{code}", self.globals, node_of_line, wraps.count("\n") + 4)

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
            return f': "Sym({CodeGen._sym_repr(value)})"'
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


class _BoxedCodeGen(CodeGen):
    """Functions that take one list, which they empty, so that arguments are freed after their last use."""

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str, *, expanded_def: bool = False) -> str:
        """Return the first lines of the function, which take the list apart."""
        names = [re.split("[:=]", var)[0].strip() for var in free_vars if var != "self"]
        lines = [f"def {self._func_name}(self, args_list){maybe_return_annotation}:"]
        if names:
            lines.append("    args_iter = iter(args_list)")
            lines += [f"    {name} = next(args_iter)" for name in names]
            lines.append("    args_list.clear()")
        return "\n".join(lines)


class _PyTreeInfo(NamedTuple):
    """The parameters of a function, and the forms of its arguments and its result."""

    orig_args: list[str]
    in_spec: pytree.TreeSpec
    out_spec: pytree.TreeSpec | None


class _PyTreeCodeGen(CodeGen):
    """Functions whose arguments and result are trees. The nodes are their leaves."""

    def __init__(self, pytree_info: _PyTreeInfo) -> None:
        super().__init__()
        self.pytree_info: _PyTreeInfo = pytree_info

    def process_inputs(self, *inputs: Any) -> Any:
        """Return the leaves of the arguments."""
        return pytree.arg_tree_leaves(*inputs)

    def process_outputs(self, out: Any) -> Any:
        """Return the tree of the results."""
        if self.pytree_info is None or self.pytree_info.out_spec is None:
            return out
        leaves = out if isinstance(out, (list, tuple)) else [out]
        return pytree.tree_unflatten(leaves, self.pytree_info.out_spec)

    def _format_annotations(self, free_vars: list[str], expanded_def: bool) -> str:
        # A statement that assigns several names cannot have annotations.
        annotated = [var for var in free_vars if ":" in var]
        if not annotated:
            return ""
        return "\n    " + ("\n    ".join(annotated) if expanded_def else "; ".join(annotated) + ";\n")

    def gen_var_bindings(self, fn_args: list[str], free_vars: list[str], expanded_def: bool) -> str:
        """Return the lines that take the arguments apart."""
        spec, names = self.pytree_info.in_spec, self.pytree_info.orig_args
        value = f"[{', '.join(fn_args)}]"
        kinds = [child.type for child in spec.children()] if spec.type is tuple else []
        if kinds == [tuple, dict]:
            # The tree of a call by position and keyword.
            count, keys = spec.child(0).num_children, spec.child(1).context
            keywords = ", ".join(f"'{key}':{name}" for key, name in zip(keys, names[count:]))
            value = f"([{', '.join(names[:count])}], {{{keywords}}})"
        leaves = ", ".join(re.split("[:#]", var)[0] for var in free_vars)
        bindings = self._format_annotations(free_vars, expanded_def)
        return f"{bindings}\n    {leaves}, = fx_pytree.tree_flatten_spec({value}, self._in_spec)"

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str, *, expanded_def: bool = False) -> str:
        """Return the first lines of the function: the parameters, and the leaves of their values."""
        if self.pytree_info is None:
            return super().gen_fn_def(free_vars, maybe_return_annotation, expanded_def=expanded_def)
        names = self.pytree_info.orig_args
        if names and names[0] == "self":
            free_vars.insert(0, "self")
        head = super().gen_fn_def(names[:], maybe_return_annotation, expanded_def=expanded_def)
        return head + (self.gen_var_bindings(names, free_vars, expanded_def) if free_vars else "")

    def generate_output(
        self,
        output_args: Argument,
        *,
        descs: Sequence[str] | None = None,
        repr_fn: Callable[[Any], str] | None = None,
    ) -> str:
        """Return the return statement, which builds the tree."""
        if not self.pytree_info or not self.pytree_info.out_spec:
            return super().generate_output(output_args, descs=descs, repr_fn=repr_fn)
        return f"return pytree.tree_unflatten({_commented(output_args, descs, repr_fn or repr)}, self._out_spec)"


@contextlib.contextmanager
def _override_sym_repr(override: Callable[[Any], str]) -> Generator[None, None, None]:
    before = CodeGen._sym_repr
    CodeGen._sym_repr = override  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        CodeGen._sym_repr = before  # type: ignore[method-assign]


# ---- the graph


class _InsertPoint:
    """The place of new nodes. Leaving a ``with`` block restores the place before."""

    def __init__(self, graph: Graph, new_insert: Callable[[Node], None]) -> None:
        self.graph, self.orig_insert = graph, graph._insert
        graph._insert = new_insert

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        self.graph._insert = self.orig_insert


class _node_list:
    """The nodes of a graph in order. Nodes can be inserted and erased while a loop runs over them."""

    def __init__(self, graph: Graph, direction: Literal["_prev", "_next"] = "_next") -> None:
        if direction not in ("_next", "_prev"):
            raise AssertionError(f"direction must be '_next' or '_prev', got {direction}")
        self.graph, self.direction = graph, direction

    def __len__(self) -> int:
        return self.graph._len

    def _walk(self, direction: str) -> Iterator[Any]:
        root = self.graph._root
        node = getattr(root, direction)
        while node is not root:
            if not node._erased:
                yield node
            node = getattr(node, direction)

    def __iter__(self) -> Iterator[Any]:
        return self._walk(self.direction)

    def __reversed__(self) -> Iterator[Any]:
        return self._walk("_next" if self.direction == "_prev" else "_prev")


class _FindNodesLookupTable:
    """The nodes of a graph by kind, and functions by target."""

    def __init__(self) -> None:
        self.table: dict[tuple[str, Any], dict[Node, None]] = defaultdict(dict)

    def _key(self, node: Node) -> tuple[str, Any]:
        return node.op, node.target if node.op == "call_function" else None

    def __contains__(self, node: Node) -> bool:
        return node in self.table.get(self._key(node), ())

    def insert(self, node: Node) -> None:
        self.table[self._key(node)][node] = None

    def remove(self, node: Node) -> None:
        self.table[self._key(node)].pop(node)

    def find_nodes(self, *, op: str, target: Target | None = None) -> list[Any]:
        if op == "call_function":
            if target is None:
                raise AssertionError("target must not be None for call_function op")
            return list(self.table[(op, target)])
        return [node for node in self.table[(op, None)] if target is None or node.target == target]


@compatibility(is_backward_compatible=True)
class Graph:
    """A list of nodes that describes a function of Python.

    Args:
        owning_module: The module whose attributes the nodes name.
        tracer_cls: The class of the tracer that made the graph.
        tracer_extras: Further arguments of that tracer's ``trace``.

    Example:
        >>> import pytpu as torch
        >>> graph = torch.fx.Graph()
        >>> x = graph.placeholder("x")
        >>> end = graph.output(graph.call_function(torch.relu, (x,)))
        >>> print(torch.fx.GraphModule({}, graph).code.strip())
        def forward(self, x):
            relu = torch.relu(x);  x = None
            return relu
    """

    @compatibility(is_backward_compatible=True)
    def __init__(
        self,
        owning_module: GraphModule | None = None,
        tracer_cls: type[Tracer] | None = None,
        tracer_extras: dict[str, Any] | None = None,
    ) -> None:
        self._find_nodes_lookup_table = _FindNodesLookupTable()
        # Before the first and after the last node of the ring.
        self._root: Node = Node(self, "", "root", "", (), {})
        self._insert: Callable[[Node], None] = self._root.prepend
        self._len = 0
        self._graph_namespace = _Namespace()
        self._owning_module = owning_module
        self._tracer_cls = tracer_cls
        self._tracer_extras = tracer_extras
        self._codegen = CodeGen()
        self._co_fields: dict[str, Any] = {}

    @property
    def owning_module(self) -> GraphModule | None:
        """The module whose attributes the nodes name."""
        return self._owning_module

    @owning_module.setter
    def owning_module(self, mod: GraphModule | None) -> None:
        self._owning_module = mod

    @property
    def nodes(self) -> _node_list:
        """The nodes in order. Nodes can be inserted and erased while a loop runs over them."""
        return _node_list(self)

    @compatibility(is_backward_compatible=False)
    def output_node(self) -> Node:
        """Return the last node, which must be the output."""
        node = self._root._prev
        if node.op != "output":
            raise AssertionError(f"Expected output node, got op={node.op}")
        return node

    @compatibility(is_backward_compatible=False)
    def find_nodes(self, *, op: str, target: Target | None = None, sort: bool = True) -> list[Any]:
        """Return the nodes of a kind without a walk over the graph.

        Args:
            op: The kind.
            target: The target, which ``call_function`` needs.
            sort: Return them in the order of the graph.
        """
        found = self._find_nodes_lookup_table.find_nodes(op=op, target=target)
        return sorted(found) if sort else found

    def _hooks(self, kind: str) -> Sequence[Callable[[Node], Any]]:
        return getattr(self.owning_module, kind, None) or ()

    # New nodes

    @compatibility(is_backward_compatible=True)
    def create_node(
        self,
        op: str,
        target: Target,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        name: str | None = None,
        type_expr: Any | None = None,
    ) -> Node:
        """Insert a node at the place of new nodes, which is the end of the graph at first.

        Args:
            op: The kind: see ``Node``.
            target: A function, or a text for the other kinds.
            args: Positional arguments.
            kwargs: Keyword arguments.
            name: The wish for the name of the value.
            type_expr: The annotation of the value.
        """
        if args and not isinstance(args, tuple):
            raise AssertionError(f"args must be a tuple, got {type(args)}")
        if kwargs and not isinstance(kwargs, dict):
            raise AssertionError(f"kwargs must be a dict, got {type(kwargs)}")
        name = self._graph_namespace.create_name(self._target_to_str(target) if name is None else name, None)
        node = Node(self, name, op, target, args or (), kwargs or immutable_dict(), type_expr)
        for hook in self._hooks("_create_node_hooks"):
            hook(node)
        self._graph_namespace.associate_name_with_obj(name, node)
        self._insert(node)
        self._find_nodes_lookup_table.insert(node)
        self._len += 1
        return node

    def _target_to_str(self, target: Target | None) -> str:
        if callable(target):
            name = target.__name__
        else:
            if not isinstance(target, str):
                raise AssertionError(f"Expected target to be str, got {type(target)}")
            name = target[2:-2] if _is_magic(target) else target
        return _snake_case(name)

    @compatibility(is_backward_compatible=True)
    def placeholder(
        self, name: str, type_expr: Any | None = None, default_value: Any = inspect.Signature.empty
    ) -> Node:
        """Insert a parameter of the function, with its annotation and its default."""
        args = () if default_value is inspect.Signature.empty else (default_value,)
        return self.create_node("placeholder", name, args=args, type_expr=type_expr)

    @compatibility(is_backward_compatible=True)
    def get_attr(self, qualified_name: str, type_expr: Any | None = None) -> Node:
        """Insert an attribute of the module hierarchy. Warn if the owning module does not have it."""
        if self.owning_module is not None and not _has_member(self.owning_module, qualified_name):
            warnings.warn(
                "Attempted to insert a get_attr Node with no underlying reference in the owning GraphModule! Call "
                "GraphModule.add_submodule to add the necessary submodule, GraphModule.add_parameter to add the "
                "necessary Parameter, or nn.Module.register_buffer to add the necessary buffer",
                stacklevel=2,
            )
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    @compatibility(is_backward_compatible=True)
    def call_module(
        self,
        module_name: str,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Any | None = None,
    ) -> Node:
        """Insert a call of the module at a path. Warn if the owning module does not have it."""
        if self.owning_module is not None and self.owning_module.get_submodule(module_name) is None:
            warnings.warn(
                "Attempted to insert a call_module Node with no underlying reference in the owning GraphModule! Call "
                "GraphModule.add_submodule to add the necessary submodule",
                stacklevel=2,
            )
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    @compatibility(is_backward_compatible=True)
    def call_method(
        self,
        method_name: str,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Any | None = None,
    ) -> Node:
        """Insert a call of a method of ``args[0]``."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    @compatibility(is_backward_compatible=True)
    def call_function(
        self,
        the_function: Callable[..., Any],
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Any | None = None,
        name: str | None = None,
    ) -> Node:
        """Insert a call of a function."""
        return self.create_node("call_function", the_function, args, kwargs, name=name, type_expr=type_expr)

    @compatibility(is_backward_compatible=True)
    def output(self, result: Argument, type_expr: Any | None = None) -> Node:
        """Insert the return of a value."""
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def _query(self, node: Node, op: Any, args: tuple[Any, ...], method: str) -> Node:
        made = self.call_function(op, (node, *args))
        for key in ("val", "example_value"):
            if node.meta.get(key) is not None:
                made.meta[key] = getattr(node.meta[key], method)(*args)
                break
        return made

    @compatibility(is_backward_compatible=False)
    def create_size_node(self, tensor_node: Node, dim: int) -> Node:
        """Insert the size of a tensor along ``dim``."""
        return self._query(tensor_node, torch.ops.aten.sym_size.int, (dim,), "size")

    @compatibility(is_backward_compatible=False)
    def create_stride_node(self, tensor_node: Node, dim: int) -> Node:
        """Insert the stride of a tensor along ``dim``."""
        return self._query(tensor_node, torch.ops.aten.sym_stride.int, (dim,), "stride")

    @compatibility(is_backward_compatible=False)
    def create_storage_offset_node(self, tensor_node: Node) -> Node:
        """Insert the offset of a tensor in its storage."""
        return self._query(tensor_node, torch.ops.aten.sym_storage_offset.default, (), "storage_offset")

    # Places

    @compatibility(is_backward_compatible=True)
    def inserting_before(self, n: Node | None = None) -> _InsertPoint:
        """Insert new nodes before ``n``, or at the start of the graph: from now on, or in a ``with`` block."""
        if n is None:
            return self.inserting_after(self._root)
        if n.graph is not self:
            raise AssertionError("Node to insert before is not in graph.")
        return _InsertPoint(self, n.prepend)

    @compatibility(is_backward_compatible=True)
    def inserting_after(self, n: Node | None = None) -> _InsertPoint:
        """Insert new nodes after ``n``, or at the end of the graph: from now on, or in a ``with`` block."""
        if n is None:
            return self.inserting_before(self._root)
        if n.graph is not self:
            raise AssertionError("Node to insert after is not in graph.")
        return _InsertPoint(self, n.append)

    # Copies

    @compatibility(is_backward_compatible=True)
    def node_copy(self, node: Node, arg_transform: Callable[[Node], Argument] = lambda x: x) -> Node:
        """Copy a node of another graph into this one.

        Args:
            node: The node.
            arg_transform: A function from the nodes in its arguments to values of this graph.
        """
        args, kwargs = map_arg(node.args, arg_transform), map_arg(node.kwargs, arg_transform)
        if not isinstance(args, tuple):
            raise AssertionError(f"Expected args to be tuple, got {type(args)}")
        if not isinstance(kwargs, dict):
            raise AssertionError(f"Expected kwargs to be dict, got {type(kwargs)}")
        made = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        made.meta = copy.copy(node.meta)
        return made

    @compatibility(is_backward_compatible=True)
    def graph_copy(self, g: Graph, val_map: dict[Any, Any], return_output_node: bool = False) -> Any:
        """Copy the nodes of another graph into this one, without its output.

        Args:
            g: The other graph.
            val_map: A dictionary from nodes of ``g`` to values of this graph. Nodes in it are not copied, and copied
                nodes are added.
            return_output_node: Return the output node of ``g`` too.

        Returns:
            The value of this graph that ``g`` returns, or ``None``.
        """
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                value = map_arg(node.args[0], lambda n: val_map[n])
                return (value, node) if return_output_node else value
            val_map[node] = self.node_copy(node, lambda n: val_map[n])
        return None

    def __deepcopy__(self, memo: dict[Any, Any] | None = None) -> Graph:
        # Nodes are copied one by one: a copy along their links would be as deep as the graph is long.
        memo = memo or {}
        made = Graph(tracer_cls=self._tracer_cls)
        copied = made.graph_copy(self, memo, return_output_node=True)
        made._codegen = copy.deepcopy(self._codegen)
        if copied is not None:
            value, old = copied
            made.output(value, type_expr=getattr(old, "type", None)).meta = copy.copy(old.meta)
        return made

    # Changes

    @compatibility(is_backward_compatible=True)
    def erase_node(self, to_erase: Node) -> None:
        """Remove a node that has no users.

        Raises:
            RuntimeError: It has users, or belongs to another graph.
        """
        if to_erase.users:
            raise RuntimeError(
                f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in the graph: "
                f"{to_erase.users}!"
            )
        if to_erase.graph is not self:
            raise RuntimeError(f"Attempting to remove {to_erase} from wrong graph!")
        if to_erase._erased:
            warnings.warn(f"erase_node({to_erase}) on an already erased node", stacklevel=2)
            return
        for hook in self._hooks("_erase_node_hooks"):
            hook(to_erase)
        self._find_nodes_lookup_table.remove(to_erase)
        to_erase._remove_from_list()
        to_erase._erased = True
        self._len -= 1
        to_erase._update_args_kwargs(map_arg(to_erase._args, lambda n: None), map_arg(to_erase._kwargs, lambda n: None))

    def _clear_nodes(self) -> None:
        for node in reversed(self.nodes):
            node.meta.clear()
            self.erase_node(node)

    @compatibility(is_backward_compatible=True)
    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Remove all nodes whose values do not reach the output.

        Args:
            is_impure_node: A function that says which nodes stay in any case. Without it ``Node.is_impure`` does.

        Returns:
            Whether the graph changed.
        """
        self.lint()
        stays = is_impure_node or (lambda node: node.is_impure(True))
        removed = []
        for node in reversed(self.nodes):
            if not stays(node) and not node.users:
                self.erase_node(node)
                removed.append(node.name)
        changed = bool(removed)
        if changed:
            log.info("The following nodes were dead code eliminated: %s", removed)
        if self.owning_module is not None:
            from .graph_module import GraphModule

            read = {node.target for node in self.find_nodes(op="get_attr", sort=False)}
            for name, child in self.owning_module.named_children():
                if name in read and isinstance(child, GraphModule):
                    changed |= child.graph.eliminate_dead_code()
                    child.recompile()
        return changed

    @compatibility(is_backward_compatible=True)
    def lint(self) -> None:
        """Check the graph: its nodes belong to it, are defined before they are used, and name what exists.

        Raises:
            RuntimeError: A node does not.
            ValueError: A target has the wrong type.
        """
        names: set[str] = set()
        defined: set[Node] = set()
        for node in self.nodes:
            if node.op not in _legal_ops:
                raise RuntimeError(f"Node {node} had unknown opcode {node.op}!")
            if node.graph is not self:
                raise RuntimeError(f"Node '{node}' does not belong to this Graph!")
            if node not in self._find_nodes_lookup_table:
                raise RuntimeError(f"Node '{node}' is not added to the side table")
            for used in node._input_nodes:
                said = f"Argument '{used}' of Node '{node}' "
                if used.graph is not self:
                    raise RuntimeError(
                        f"{said}does not belong to this Graph, but was used as an argument! If you are copying nodes "
                        f"from another graph, make sure to use ``arg_transform`` on node_copy() to remap values\n{self}"
                    )
                if used not in defined:
                    raise RuntimeError(
                        f"{said}was used before it has been defined! Please check that Nodes in the graph are "
                        f"topologically ordered\n{self}"
                    )
            defined.add(node)
            if node.name in names:
                raise RuntimeError(f"Node redefined name {node.name}!")
            names.add(node.name)
        if self.owning_module is not None:
            for node in self.nodes:
                self._lint_target(node, self.owning_module)

    def _lint_target(self, node: Node, owner: Any) -> None:
        is_function = node.op == "call_function"
        if not (callable(node.target) if is_function else isinstance(node.target, str)):
            expected = "a Callable" if is_function else "a str"
            raise ValueError(
                f"Node {node} target {node.target} has type {torch.typename(node.target)} but {expected} is expected"
            )
        if node.op not in ("get_attr", "call_module"):
            return
        atoms = str(node.target).split(".")
        for i, atom in enumerate(atoms):
            said = f"Node {node} target {node.target} "
            path = ".".join(atoms[:i])
            owner = getattr(owner, atom, None)
            if owner is None:
                raise RuntimeError(f"{said}references nonexistent attribute {atom} of {path}")
            if node.op == "call_module" and not isinstance(owner, torch.nn.Module):
                raise RuntimeError(f"{said}{atom} of {path} does not reference an nn.Module")

    # Code

    @compatibility(is_backward_compatible=False)
    def process_inputs(self, *args: Any) -> Any:
        """Return the values of the placeholders for the arguments of the function."""
        return self._codegen.process_inputs(*args)

    @compatibility(is_backward_compatible=False)
    def process_outputs(self, out: Any) -> Any:
        """Return the result of the function for the value of the output node."""
        return self._codegen.process_outputs(out)

    @compatibility(is_backward_compatible=False)
    def set_codegen(self, codegen: CodeGen) -> None:
        """Change the way in which the graph becomes a function."""
        self._codegen = codegen

    @compatibility(is_backward_compatible=True)
    def python_code(
        self,
        root_module: str,
        *,
        verbose: bool = False,
        include_stride: bool = False,
        include_device: bool = False,
        colored: bool = False,
        expanded_def: bool = False,
        record_func: bool = False,
        additional_meta: list[str] | None = None,
    ) -> PythonCode:
        """Return the graph as a function of Python.

        Args:
            root_module: The name of the module whose attributes the nodes name, usually ``self``.
            verbose: Write dtypes, sizes, and the lines of the program that the nodes are from.
            include_stride: Write strides too.
            include_device: Write devices too.
            colored: Color the text for terminals.
            expanded_def: Write each parameter on its own line.
            record_func: Record each call with the profiler.
            additional_meta: Keys of ``Node.meta`` to write.
        """
        # Names of values and of global objects must differ, so this code has a namespace of its own. Tuples of nodes
        # are written by `repr`, so the names are given to the nodes while the code is written.
        namespace = _Namespace()
        nodes = list(self.nodes)
        before = [node._repr_fn for node in nodes]
        for node in nodes:
            node._repr_fn = lambda n: namespace.create_name(n.name, n)
        try:
            return self._python_code(
                root_module,
                namespace,
                verbose=verbose,
                include_stride=include_stride,
                include_device=include_device,
                colored=colored,
                expanded_def=expanded_def,
                record_func=record_func,
                additional_meta=additional_meta,
            )
        finally:
            for node, function in zip(nodes, before):
                node._repr_fn = function

    def _python_code(self, root_module: str, namespace: _Namespace, **options: Any) -> PythonCode:
        return self._codegen._gen_python_code(self.nodes, root_module, namespace, **options)

    @compatibility(is_backward_compatible=False)
    def on_generate_code(
        self, make_transformer: Callable[[TransformCodeFunc | None], TransformCodeFunc]
    ) -> contextlib.AbstractContextManager[None]:
        """Let a function change the lines of the code, from now on or in a ``with`` block.

        Args:
            make_transformer: A function from the one that is set, or ``None``, to the one to set. That one gets a
                list of texts and returns another one.
        """
        codegen, before = self._codegen, self._codegen._body_transformer
        codegen._body_transformer = make_transformer(before)

        @contextlib.contextmanager
        def restoring() -> Generator[None, None, None]:
            try:
                yield
            finally:
                self._codegen._body_transformer = before

        return restoring()

    # Texts

    def __str__(self) -> str:
        """Return a text with one node a line."""
        lines = [node.format_node() for node in self.nodes]
        return "\n    ".join(["graph():", *(line for line in lines if line)])

    @compatibility(is_backward_compatible=True)
    def print_tabular(self) -> None:
        """Print the nodes as a table, with the package ``tabulate``."""
        try:
            from tabulate import tabulate
        except ImportError:
            print(
                "`print_tabular` relies on the library `tabulate`, which could not be found on this machine. Run `pip "
                "install tabulate` to install the library."
            )
            raise
        rows = [[node.op, node.name, node.target, node.args, node.kwargs] for node in self.nodes]
        print(tabulate(rows, headers=["opcode", "name", "target", "args", "kwargs"]))


def _has_member(module: torch.nn.Module, qualified_name: str) -> bool:
    """Return whether a path leads to a module, parameter or buffer."""
    path, _, name = qualified_name.rpartition(".")
    try:
        owner = module.get_submodule(path)
    except AttributeError:
        warnings.warn(f"Failed to fetch module {path}!", stacklevel=3)
        return False
    found = getattr(owner, name, None)
    return isinstance(found, (torch.nn.Module, torch.nn.Parameter)) or (found is not None and name in owner._buffers)
