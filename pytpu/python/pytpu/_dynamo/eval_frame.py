"""The result of ``torch.compile`` for a module, in the module where libraries look for it."""

from .._compiled import OptimizedModule as OptimizedModule


def __getattr__(name):
    if name in ("explain", "optimize", "optimize_assert", "reset_code_caches"):
        import pytpu._dynamo as package

        return getattr(package, name)
    raise AttributeError(f"module 'torch._dynamo.eval_frame' has no attribute '{name}'")
