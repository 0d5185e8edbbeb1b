"""The older module of `torch.func.functional_call`."""

from __future__ import annotations

import warnings
from typing import Any

from pytpu import Tensor
from pytpu.nn.modules.module import Module

from ... import func as _func


def functional_call(
    module: Module,
    parameters_and_buffers: dict[str, Tensor],
    args: Any | tuple[Any, ...] | None = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call a module with other parameters and buffers. A deprecated name of `torch.func.functional_call`.

    Args:
        module: Module to call. It does not change.
        parameters_and_buffers: Tensors by dotted name. Others stay those of the module.
        args: Arguments of the call. One that is not a tuple is the only argument.
        kwargs: Keyword arguments of the call.
        tie_weights: Whether tensors that the module shares stay shared.
        strict: Whether all names must be given.

    Returns:
        The result of the module.
    """
    warnings.warn(
        "`torch.nn.utils.stateless.functional_call` is deprecated as of PyTorch 2.0 and will be removed in a future "
        "version of PyTorch. Please use `torch.func.functional_call` instead which is a drop-in replacement.",
        FutureWarning,
        stacklevel=2,
    )
    return _func.functional_call(module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict)
