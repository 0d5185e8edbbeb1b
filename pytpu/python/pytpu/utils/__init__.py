"""Data loading, hooks and other things around training."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

    from . import (
        benchmark as benchmark,
        checkpoint as checkpoint,
        data as data,
        dlpack as dlpack,
        hooks as hooks,
        model_zoo as model_zoo,
    )


def __getattr__(name: str) -> ModuleType:
    # Submodules are imported on first use, so that `import pytpu` stays quick.
    if name in ("benchmark", "data", "hooks", "checkpoint", "dlpack", "model_zoo"):
        from importlib import import_module

        try:
            return import_module(f"{__package__}.{name}")
        except ModuleNotFoundError as missing:
            if missing.name != f"{__package__}.{name}":
                raise
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
