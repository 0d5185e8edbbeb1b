"""`torch._inductor.decomposition`: a registry that libraries fill for PyTorch's compiler. Nothing here reads it."""

decompositions = {}


def register_decomposition(ops):
    """Return a decorator that keeps a function as the decomposition of operators."""

    def register(function):
        for op in ops if isinstance(ops, (list, tuple)) else [ops]:
            decompositions[op] = function
        return function

    return register
