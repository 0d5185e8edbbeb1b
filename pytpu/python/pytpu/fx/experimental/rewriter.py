"""`torch.fx.experimental.rewriter`: trace programs whose assertions become calls."""

from __future__ import annotations

import ast
import copy
import functools
import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any

import pytpu as torch

from .._symbolic_trace import Tracer
from ..graph import Graph


class AST_Rewriter(ast.NodeTransformer):
    """A change of the text of functions.

    `assert x, s` becomes `torch._assert(x, s)`, and `y: T = x` becomes `y = annotate(x, T)`.
    """

    def rewrite(self, fn: FunctionType) -> FunctionType:
        """Return the changed function, with the globals of the old one."""
        lines = inspect.getsource(fn).split("\n")
        # Lines of texts may have less indentation than the function.
        indent = lines[0][: len(lines[0]) - len(lines[0].lstrip())]
        source = "\n".join(line.removeprefix(indent) for line in lines)
        tree = ast.fix_missing_locations(self.visit(ast.parse(source)))
        space = dict(fn.__globals__)
        before = set(space)
        exec(compile(tree, "", "exec"), space)
        added = set(space) - before
        made = space[fn.__name__] if not added else space[added.pop()]
        code: Any = made
        result = FunctionType(code.__code__, fn.__globals__, code.__name__, code.__defaults__, code.__closure__)
        functools.update_wrapper(result, code)
        result.__kwdefaults__ = copy.copy(code.__kwdefaults__)
        return result

    def visit_Assert(self, node: ast.Assert) -> ast.Expr:
        """Replace an assertion by a call."""
        call = ast.parse("torch._assert()", mode="eval").body
        call.args = [node.test, node.msg or ast.Constant(value="", kind=None)]  # type: ignore[attr-defined]
        return ast.copy_location(ast.Expr(value=call), node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.Assign:
        """Replace an annotated assignment by one of an annotated value."""
        call = ast.Call(ast.Name("annotate", ast.Load()), [node.value, node.annotation], [])  # type: ignore[list-item]
        return ast.Assign(targets=[node.target], value=call)


class RewritingTracer(Tracer):
    """A tracer that rewrites the program first."""

    def trace(self, root: torch.nn.Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None) -> Graph:
        """Return the graph of the rewritten program."""
        return super().trace(_rewrite(root), concrete_args)


def _rewrite(fn: Any) -> Any:
    if not isinstance(fn, torch.nn.Module):
        return AST_Rewriter().rewrite(fn)

    class RewrittenModule(torch.nn.Module):
        forward = AST_Rewriter().rewrite(fn.forward)

        def __init__(self, orig: torch.nn.Module) -> None:
            super().__init__()
            for key, value in orig.__dict__.items():
                self.__dict__[key] = copy.copy(_rewrite(value) if isinstance(value, torch.nn.Module) else value)

    return RewrittenModule(fn)
