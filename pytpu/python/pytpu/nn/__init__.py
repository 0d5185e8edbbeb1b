"""Modules, losses and initialisation, as in `torch.nn`."""

from . import functional, init, modules, parameter
from .modules import *  # noqa: F403
from .parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter


def factory_kwargs(kwargs):
    """Picks `device`, `dtype` and `memory_format` out of a constructor's keyword arguments."""
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


def __getattr__(name):
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
