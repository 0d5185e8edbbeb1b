"""Tensors exchanged with other libraries without a copy, by DLPack."""

import enum

import pytpu as torch
from pytpu import _C

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


def to_dlpack(tensor):
    """A capsule that stands for the memory of ``tensor``, to be consumed once."""
    return _C._to_dlpack(tensor, False, False)


def export(tensor, stream=None, max_version=None, dl_device=None, copy=None):
    """What ``Tensor.__dlpack__`` does."""
    if tensor.requires_grad:
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
    copied = False
    if dl_device is not None and tuple(dl_device) != tensor_device(tensor):
        if tuple(dl_device) != (DLDeviceType.kDLCPU, 0):
            raise BufferError(f"cannot export a tensor on {tensor.device} to DLPack device {tuple(dl_device)}")
        if copy is False:
            raise ValueError(
                f"cannot move a tensor from {tensor.device} to the host without a copy. Set copy=None or copy=True"
            )
        tensor, copied = tensor.cpu(), True
    if tensor.device.type == "cpu" and stream is not None:
        raise AssertionError("stream should be None on cpu.")
    if copy and not copied:
        tensor, copied = tensor.clone(), True
    versioned = max_version is not None and max_version[0] >= 1
    return _C._to_dlpack(tensor, versioned, copied)


def tensor_device(tensor):
    """What ``Tensor.__dlpack_device__`` says."""
    kind = tensor.device.type
    if kind == "cpu":
        return DLDeviceType.kDLCPU, 0
    if kind == "tpu":
        # Memory of an accelerator behind PJRT: others know of it, and can ask for a copy on the host.
        return DLDeviceType.kDLExtDev, tensor.device.index or 0
    raise ValueError(f"Unknown device type {kind} for Dlpack")


def from_dlpack(ext_tensor, *, device=None, copy=None):
    """A tensor on the memory of another library's array or capsule."""
    if hasattr(ext_tensor, "__dlpack__"):
        arguments = {"max_version": (1, 0)}
        if copy is not None:
            arguments["copy"] = copy
        if device is not None:
            target = torch.device(device)
            if target.type == "cpu":
                arguments["dl_device"] = (int(DLDeviceType.kDLCPU), 0)
        elif ext_tensor.__dlpack_device__()[0] not in (DLDeviceType.kDLCPU, 1) and isinstance(ext_tensor, torch.Tensor):
            # A tensor of this library keeps its device; there is nothing to exchange.
            return ext_tensor.clone() if copy else ext_tensor.detach()
        try:
            capsule = ext_tensor.__dlpack__(**arguments)
        except TypeError:
            # A producer that knows the first form of the protocol only.
            if arguments.pop("copy", None) is not None:
                raise
            capsule = ext_tensor.__dlpack__()
    else:
        capsule = ext_tensor
    tensor, read_only = _C._from_dlpack(capsule)
    if read_only and not copy:
        # Nothing here could refuse a write later, so the memory is not shared.
        tensor = tensor.clone()
    if device is not None:
        tensor = tensor.to(device)
    return tensor
