"""`torch._functorch.compilers`: compilers for `aot_function` that run graphs as they are."""

from __future__ import annotations

from typing import Any

from .aot_autograd import make_boxed_compiler

__all__ = ["nop", "print_compile"]


@make_boxed_compiler
def nop(fx_g: Any, _: Any) -> Any:
    """Return the graph as a function."""
    return fx_g


@make_boxed_compiler
def print_compile(fx_g: Any, _: Any) -> Any:
    """Print the code of the graph, and return it as a function."""
    print(fx_g.code)
    return fx_g
