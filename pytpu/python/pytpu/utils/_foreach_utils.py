"""`torch.utils._foreach_utils`: grouping of tensors for optimizers."""

from .. import _C


def _get_foreach_kernels_supported_devices():
    """Return the devices whose ops over lists are faster than loops."""
    return ["cuda", "xpu", "mtia", "tpu"]


def _get_fused_kernels_supported_devices():
    """Return the devices that have fused optimizers in PyTorch."""
    return ["mps", "cuda", "xpu", "hpu", "cpu", "mtia", "tpu"]


def _device_has_foreach_support(device):
    """Return whether ops over lists are used on a device."""
    return device.type in (*_get_foreach_kernels_supported_devices(), "cpu")


def _has_foreach_support(tensors, device):
    """Return whether ops over lists are used for these tensors."""
    return _device_has_foreach_support(device) and all(t is None or type(t) in _types() for t in tensors)


def _types():
    from ..nn.parameter import Parameter

    return (_C.Tensor, Parameter)


def _group_tensors_by_device_and_dtype(tensorlistlist, with_indices=False):
    """Group the positions in parallel lists by the device and the dtype of the first list's tensors.

    Returns:
        A dictionary from `(device, dtype)` to `(lists, indices)`.
    """
    groups = {}
    for i, first in enumerate(tensorlistlist[0]):
        key = (first.device, first.dtype) if first is not None else (None, None)
        lists, indices = groups.setdefault(key, ([[] for _ in tensorlistlist], []))
        for some, all_ in zip(lists, tensorlistlist):
            if i < len(all_):
                some.append(all_[i])
        indices.append(i)
    return {key: (lists, indices if with_indices else []) for key, (lists, indices) in groups.items()}
