"""The ways in which a graph becomes a function."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from ..utils import _pytree as pytree
from ._compatibility import compatibility
from ._names import _Namespace
from ._writer import _commented, _Writer
from .node import Argument

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .graph import _node_list

TransformCodeFunc = Callable[[list[str]], list[str]]


@compatibility(is_backward_compatible=True)
@dataclass
class PythonCode:
    """The code of a graph.

    Attributes:
        src: The text of the function.
        globals: The global names in it, and their values.
        _lineno_map: The node of each line, both counted from zero at the `def`.
        _prologue_start: The line of the `def` in `src`, from one.
    """

    src: str
    globals: dict[str, Any]
    _lineno_map: dict[int, int | None] | None
    _prologue_start: int = 0


@compatibility(is_backward_compatible=False)
class CodeGen:
    """The way in which a graph becomes a function. Subclasses change its parameters and its return."""

    # Text of a symbolic size.
    _sym_repr: ClassVar[Callable[[Any], str]] = lambda x: repr(x)

    def __init__(self) -> None:
        self._body_transformer: TransformCodeFunc | None = None
        self._func_name: str = "forward"

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str, *, expanded_def: bool = False) -> str:
        """Return the first lines of the function.

        Args:
            free_vars: The parameters. `self` is inserted if it is not the first.
            maybe_return_annotation: A text such as `-> int` after a space, or an empty one.
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
        """Return names and values that the code uses, such as `[("List", typing.List)]`."""
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
        return PythonCode(*writer.write(nodes))


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
    CodeGen._sym_repr = override
    try:
        yield
    finally:
        CodeGen._sym_repr = before
