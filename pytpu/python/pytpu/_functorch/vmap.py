"""A name that `spmd_types` replaces while it checks types."""

from .._absent import absent_function

_flat_vmap = absent_function("torch._functorch.vmap._flat_vmap", "`vmap` is not there")
