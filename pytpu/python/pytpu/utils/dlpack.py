"""Tensors exchanged with other libraries without a copy, by DLPack."""

from __future__ import annotations

import enum

import pytpu as torch
from pytpu import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["DLDeviceType", "from_dlpack", "to_dlpack"]


class DLDeviceType(enum.IntEnum):
    """Kinds of devices, by DLPack's numbers."""

    kDLCPU = 1
    kDLCUDA = 2
    kDLCUDAHost = 3
    kDLOpenCL = 4
    kDLVulkan = 7
    kDLMetal = 8
    kDLVPI = 9
    kDLROCM = 10
    kDLROCMHost = 11
    kDLExtDev = 12
    kDLCUDAManaged = 13
    kDLOneAPI = 14
    kDLWebGPU = 15
    kDLHexagon = 16
    kDLMAIA = 17


def to_dlpack(tensor: torch.Tensor) -> Any:
    """Return a capsule for the memory of `tensor`. A consumer takes it once."""
    return _C._to_dlpack(torch.Tensor.detach(tensor), False, None, None)


def export(tensor, stream=None, max_version=None, dl_device=None, copy=None):
    """Return a capsule, as `Tensor.__dlpack__` does."""
    versioned = max_version is not None and max_version[0] >= 1
    capsule = _C._to_dlpack(tensor, versioned, None if dl_device is None else tuple(dl_device), copy)
    if stream is not None:
        # Only memory of the host can be exported.
        raise AssertionError("stream should be None on cpu.")
    return capsule


def tensor_device(tensor):
    """Return the type and index of the device, as `Tensor.__dlpack_device__` does."""
    kind, index = _C._dlpack_device(tensor)
    return DLDeviceType(kind), index


def from_dlpack(ext_tensor: Any, *, device: torch.device | str | None = None, copy: bool | None = None) -> torch.Tensor:
    """Return a tensor on the memory of another library's array or capsule."""
    if hasattr(ext_tensor, "__dlpack__"):
        arguments = {"max_version": (1, 0)}
        if copy is not None:
            arguments["copy"] = copy
        if device is not None:
            target = torch.device(device)
            if target.type == "cpu":
                arguments["dl_device"] = (int(DLDeviceType.kDLCPU), 0)
        elif ext_tensor.__dlpack_device__()[0] not in (DLDeviceType.kDLCPU, 1) and isinstance(ext_tensor, torch.Tensor):
            # A tensor of this library keeps its device, so no capsule is needed.
            return ext_tensor.clone() if copy else ext_tensor.detach()
        try:
            capsule = ext_tensor.__dlpack__(**arguments)
        except TypeError:
            # The producer has only the first form of the protocol.
            if arguments.pop("copy", None) is not None:
                raise
            capsule = ext_tensor.__dlpack__()
    else:
        capsule = ext_tensor
    tensor = _C._from_dlpack(capsule)
    return tensor if device is None else tensor.to(device)
