"""``torch.fx.operator_schemas``: a name that `spmd_types` imports."""

from .._absent import absent_function

normalize_function = absent_function(
    "torch.fx.operator_schemas.normalize_function", "graphs of Python code are not made here"
)
