"""A name that torchao imports: an elementwise op in the assembly language of a GPU, which is not there."""

from .._absent import absent_function

inline_asm_elementwise = absent_function(
    "torch._higher_order_ops.inline_asm_elementwise.inline_asm_elementwise", "there is no GPU assembly here"
)
