"""``torch._dynamo.config``: settings with PyTorch's defaults.

`recompile_limit`, which is also `cache_size_limit`, `suppress_errors`, `error_on_recompile`,
`fail_on_recompile_limit_hit` and `disable` have an effect. The others are settings of a tracer, which is not here.
"""

import functools
import sys
import types
from typing import Any

accumulated_recompile_limit = 256
allow_ignore_mark_dynamic = False
allow_unspec_int_on_nn_module = False
assume_static_by_default = automatic_dynamic_shapes = True
capture_dynamic_output_shape_ops = capture_scalar_outputs = False
compiled_autograd = False
disable = False
error_on_recompile = fail_on_recompile_limit_hit = False
force_parameter_static_shapes = True
guard_nn_modules = True
inline_inbuilt_nn_modules = True
log_file_name = None
optimize_ddp: Any = True
recompile_limit = 8
specialize_float = specialize_int = False
suppress_errors = False
trace_numpy = True
verbose = False

_ALIASES = {"cache_size_limit": "recompile_limit", "accumulated_cache_size_limit": "accumulated_recompile_limit"}


class _Patch:
    """A block, or a decorator, with other settings."""

    def __init__(self, changes: dict[str, Any], module: Any = None) -> None:
        self.changes, self.module = changes, module or sys.modules[__name__]
        self.before: list[dict[str, Any]] = []

    def __enter__(self) -> None:
        self.before.append({name: getattr(self.module, name) for name in self.changes})
        for name, value in self.changes.items():
            setattr(self.module, name, value)

    def __exit__(self, *error: object) -> None:
        for name, value in self.before.pop().items():
            setattr(self.module, name, value)

    def __call__(self, f: Any) -> Any:
        @functools.wraps(f)
        def call(*args: Any, **kwargs: Any) -> Any:
            with _Patch(self.changes, self.module):
                return f(*args, **kwargs)

        return call


def patch(arg1: Any = None, arg2: Any = None, **kwargs: Any) -> _Patch:
    """Return a block, or a decorator, with other settings: ``patch("name", value)``, ``patch(name=value)``."""
    if isinstance(arg1, str):
        kwargs = {arg1: arg2, **kwargs}
    elif arg1 is not None:
        kwargs = {**arg1, **kwargs}
    return _Patch(kwargs)


def limit() -> int:
    """Return how many graphs one place of a function may have."""
    return int(min(recompile_limit, accumulated_recompile_limit))


class _Settings(types.ModuleType):
    """The module, with the other names of its settings."""

    def __getattr__(self, name: str) -> Any:
        if name in _ALIASES:
            return getattr(self, _ALIASES[name])
        raise AttributeError(f"module 'torch._dynamo.config' has no attribute '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(_ALIASES.get(name, name), value)


sys.modules[__name__].__class__ = _Settings
