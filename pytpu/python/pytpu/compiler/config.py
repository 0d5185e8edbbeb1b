"""`torch.compiler.config`: settings of PyTorch's compiler. Those of `torch._dynamo.config` are the same here."""

import sys
import types
from typing import Any

#: Settings of caches and of sizes in PyTorch. They have no effect.
cache_key_tag = ""
compile_on_one_rank = False
dynamic_sources = dynamic_values = static_sources = unbacked_sources = ""
force_cudagraph_gc = force_disable_caches = False
job_id: Any = None
pgo_extra_read_key: Any = None
pgo_extra_write_key: Any = None

_SHARED = frozenset(
    "accumulated_recompile_limit allow_unspec_int_on_nn_module assume_static_by_default automatic_dynamic_shapes "
    "capture_dynamic_output_shape_ops capture_scalar_outputs fail_on_recompile_limit_hit log_file_name "
    "recompile_limit verbose".split()
)


def patch(arg1: Any = None, arg2: Any = None, **kwargs: Any) -> Any:
    """Return a block, or a decorator, with other settings: `patch("name", value)`, `patch(name=value)`."""
    from .._dynamo.config import _Patch

    if isinstance(arg1, str):
        kwargs = {arg1: arg2, **kwargs}
    elif arg1 is not None:
        kwargs = {**arg1, **kwargs}
    return _Patch(kwargs, sys.modules[__name__])


class _Settings(types.ModuleType):
    """The module, with the settings that it shares."""

    def __getattr__(self, name: str) -> Any:
        if name in _SHARED:
            from .._dynamo import config

            return getattr(config, name)
        raise AttributeError(f"module 'torch.compiler.config' has no attribute '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _SHARED:
            from .._dynamo import config

            setattr(config, name, value)
        else:
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Settings
