"""Modules, losses and initialisation, as in `torch.nn`."""

from __future__ import annotations

from . import functional as functional, init as init, modules as modules, parameter as parameter
from .modules import *  # noqa: F403
from .parameter import (
    Buffer as Buffer,
    Parameter as Parameter,
    UninitializedBuffer as UninitializedBuffer,
    UninitializedParameter as UninitializedParameter,
)

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

    from . import (
        attention as attention,
        common_types as common_types,
        grad as grad,
        parallel as parallel,
        utils as utils,
    )
    from .parallel import DataParallel as DataParallel


def factory_kwargs(kwargs: dict[str, Any] | None) -> dict[str, Any]:
    """Return `device`, `dtype` and `memory_format` out of the keyword arguments of a constructor.

    Args:
        kwargs: Keyword arguments, which may hold a mapping `factory_kwargs` with the same names. `None` means
            none.

    Returns:
        A new dictionary of those that are given.

    Raises:
        TypeError: Another name is given, or a name is given twice.

    Example:
        >>> import pytpu as torch
        >>> torch.nn.factory_kwargs({"dtype": torch.float64})
        {'dtype': torch.float64}
    """
    if kwargs is None:
        return {}
    simple = {"device", "dtype", "memory_format"}
    unexpected = kwargs.keys() - simple - {"factory_kwargs"}
    if unexpected:
        raise TypeError(f"unexpected kwargs {unexpected}")
    picked = dict(kwargs.get("factory_kwargs", {}))
    for key in simple & kwargs.keys():
        if key in picked:
            raise TypeError(f"{key} specified twice, in **kwargs and in factory_kwargs")
        picked[key] = kwargs[key]
    return picked


def __getattr__(name: str) -> Any:
    # Rarely used parts are imported on first use.
    from importlib import import_module

    if name == "DataParallel":
        return import_module(f"{__package__}.parallel").DataParallel
    if name in ("attention", "common_types", "grad", "parallel", "utils"):
        try:
            return import_module(f"{__package__}.{name}")
        except ModuleNotFoundError as missing:
            if missing.name != f"{__package__}.{name}":
                raise
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


# `from torch.nn import *` takes all names.
del TYPE_CHECKING, annotations
