"""``torch._functorch``: names that torchtitan and `spmd_types` use without the compiler that they belong to."""
