"""Pickling of tensors with the functions that PyTorch's pickles name, so that each library reads the other's files.

`pickle` writes a storage as the bytes of a file in PyTorch's format before 1.6, for
`torch.storage._load_from_bytes`.

`cpu_count` and `ExceptionWrapper`, which have nothing to do with pickles, are in the same private module of PyTorch.
"""

import collections
import functools
import os
import pickle
import sys
import traceback

from . import _C

# The constant parts of such a file: a magic number, the version of the format, the sizes of C's types.
_HEAD = b"".join(
    pickle.dumps(part, 2)
    for part in (
        0x1950A86A20F9469CFC6C,
        1001,
        {"protocol_version": 1001, "little_endian": True, "type_sizes": {"short": 2, "int": 4, "long": 4}},
    )
)


_KEYS = pickle.dumps(["0"], 2)
_START = _HEAD + b"\x80\x02(X\x07\x00\x00\x00storagectorch\n"


def storage_bytes(flat, is_untyped=False):
    """Return the file of a storage. `flat` is a one-dimensional tensor of all of its elements."""
    if is_untyped:
        kind, count = b"ctorch.storage\nUntypedStorage\n", flat.numel() * flat.element_size()
    else:
        kind, count = f"ctorch\n{flat.dtype._scalar_type}Storage\n".encode(), flat.numel()
    location = pickle.dumps(str(flat.device), 2)[2:-3]
    # protocol 2, a tuple ("storage", kind, "0", location, count, None), which is used as a persistent id
    object_ = (
        b"\x80\x02(X\x07\x00\x00\x00storage"
        + kind
        + b"X\x01\x00\x00\x000"
        + location
        + pickle.dumps(count, 2)[2:-1]
        + b"NtQ."
    )
    return b"".join((_HEAD, object_, _KEYS, count.to_bytes(8, "little"), _C._to_bytes(flat)))


@functools.cache
def _dtypes():
    return {f"{d._scalar_type}Storage".encode(): d for d in vars(_C).values() if isinstance(d, _C.dtype)}


def read_storage(data):
    """Return the elements and the location of a storage that `storage_bytes` wrote.

    Return `None` for a file of another form. PyTorch writes the same with references between its parts, which
    `torch.load` reads.
    """
    if not data.startswith(_START):
        return None
    end = data.index(b"\n", len(_START))
    dtype = _dtypes().get(data[len(_START) : end])
    at = end + 1 + len(b"X\x01\x00\x00\x000X")
    if dtype is None or data[end + 1 : at] != b"X\x01\x00\x00\x000X":
        return None
    size = int.from_bytes(data[at : at + 4], "little")
    location = data[at + 4 : at + 4 + size].decode()
    stop = data.find(b"NtQ." + _KEYS, at + 4 + size, at + 4 + size + 32)
    start = stop + len(b"NtQ.") + len(_KEYS) + 8
    if stop < 0 or int.from_bytes(data[start - 8 : start], "little") * dtype.itemsize != len(data) - start:
        return None
    return _C._from_bytes(data[start:], dtype), location


class _PickledStorage:
    """The memory of a tensor that is being pickled."""

    def __init__(self, flat):
        self.flat = flat

    def __reduce__(self):
        from .storage import _load_from_bytes

        return _load_from_bytes, (storage_bytes(self.flat),)


def reduce_tensor(t):
    """Return the function and arguments that rebuild a tensor, with its class and attributes."""
    from .nn.parameter import Parameter

    hooks = collections.OrderedDict()
    state = dict(t.__dict__)
    if type(t) is Parameter:
        data = _plain(t)
        if state:
            return _rebuild_parameter_with_state, (data, t.requires_grad, hooks, state)
        return _rebuild_parameter, (data, t.requires_grad, hooks)
    plain, args = _reduce_plain(t, hooks)
    if type(t) is not _C.Tensor or state:
        from ._tensor import _rebuild_from_type_v2

        return _rebuild_from_type_v2, (plain, type(t), args, state)
    return plain, args


def _plain(t):
    d = t.detach()
    return d if type(d) is _C.Tensor else d.as_subclass(_C.Tensor)


def _reduce_plain(t, hooks):
    from .serialization import _without_bits

    d, metadata = _without_bits(_plain(t))
    size, stride = tuple(d.shape), tuple(d.stride())
    if d.is_meta:
        return _rebuild_meta_tensor_no_storage, (d.dtype, size, stride, t.requires_grad)
    count = d._storage_bytes() // d.element_size()
    offset = d.storage_offset()
    if d.is_contiguous() and d.numel() == count:
        flat = d.reshape(-1)
    else:
        flat = _C._strided(d.detach(), 0, [count], [1])
    return _rebuild_tensor_v2, (_PickledStorage(flat), offset, size, stride, t.requires_grad, hooks, *metadata)


def _window(storage, dtype, offset, size, stride):
    from . import _file_globals

    if dtype is not None and storage._tensor.dtype != dtype:
        storage._tensor = storage._flat().view(dtype)
    return _file_globals._window(storage, offset, tuple(size), tuple(stride))


def _rebuild_tensor(storage, storage_offset, size, stride):
    """Make a tensor from a part of a storage."""
    return _window(storage, None, storage_offset, size, stride)


def _rebuild_tensor_v2(storage, storage_offset, size, stride, requires_grad, backward_hooks, metadata=None):
    """Make a tensor from a part of a storage: a leaf that may require a gradient."""
    t = _window(storage, None, storage_offset, size, stride)
    if metadata:
        # The storage has the values of the base of this view.
        t = t.conj() if metadata.get("conj") else t
        t = t._neg_view() if metadata.get("neg") else t
    return t.requires_grad_() if requires_grad else t


def _rebuild_tensor_v3(storage, storage_offset, size, stride, requires_grad, backward_hooks, dtype, metadata=None):
    """Make such a tensor of a dtype whose storage has no class of its own."""
    t = _window(storage, dtype, storage_offset, size, stride)
    return t.requires_grad_() if requires_grad else t


def _rebuild_meta_tensor_no_storage(dtype, size, stride, requires_grad):
    """Make a tensor on `meta`."""
    return _C._ops.empty_strided(list(size), list(stride), dtype=dtype, device="meta").requires_grad_(requires_grad)


def _rebuild_parameter(data, requires_grad, backward_hooks):
    """Make a parameter of a tensor."""
    from .nn.parameter import Parameter

    return Parameter(data, requires_grad)


def _rebuild_parameter_with_state(data, requires_grad, backward_hooks, state):
    """Make a parameter with attributes."""
    parameter = _rebuild_parameter(data, requires_grad, backward_hooks)
    return _set_state(parameter, state)


def _set_state(obj, state):
    if isinstance(state, tuple):
        state, slots = state
        for name, value in slots.items():
            setattr(obj, name, value)
    obj.__dict__.update(state or {})
    return obj


def cpu_count():
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _get_available_device_type():
    """Return the kind of the accelerator, or `None` without one. torchtitan asks."""
    return "tpu" if _C._tpu_is_available() else None


def _get_device_module(device_type):
    """Return the module of a kind of device, such as `torch.tpu`.

    Raises:
        RuntimeError: There is no such module.
    """
    import pytpu as torch

    module = getattr(torch, device_type, None)
    if module is None:
        raise RuntimeError(
            f"Device '{device_type}' does not have a corresponding module registered as 'torch.{device_type}'."
        )
    return module


class _PlainText(str):
    """A message whose repr is itself: `KeyError` shows the repr of its argument."""

    def __repr__(self):
        return str(self)


class ExceptionWrapper:
    """An exception that another thread or process raises again.

    Args:
        exc_info: what `sys.exc_info` returned. The default is the exception that is being handled.
        where: where it was caught, for the message.
    """

    def __init__(self, exc_info=None, where="in background"):
        exc_info = exc_info or sys.exc_info()
        self.exc_type, self.exc_msg, self.where = exc_info[0], "".join(traceback.format_exception(*exc_info)), where

    def reraise(self):
        """Raise it here, as the same type if that takes a message."""
        text = f"Caught {self.exc_type.__name__} {self.where}.\nOriginal {self.exc_msg}"
        try:
            error = self.exc_type(_PlainText(text) if self.exc_type is KeyError else text)
        except Exception:  # The class takes other arguments.
            error = RuntimeError(text)
        try:
            raise error
        finally:
            # The traceback holds this frame. Without `error` there is no cycle, so the workers end with the exception.
            del error


def _flatten_dense_tensors(tensors):
    """Return one contiguous tensor with the elements of all of `tensors`, which have one dtype."""
    return (
        _C._ops.cat([t.contiguous().view(-1) for t in tensors])
        if len(tensors) != 1
        else tensors[0].contiguous().view(-1)
    )


def _unflatten_dense_tensors(flat, tensors):
    """Return views of `flat` with the shapes of `tensors`, in a tuple."""
    found, start = [], 0
    for t in tensors:
        found.append(flat.narrow(0, start, t.numel()).view_as(t))
        start += t.numel()
    return tuple(found)


def _take_tensors(tensors, size_limit):
    """Yield lists of tensors of one dtype. A list ends when it has `size_limit` bytes."""
    buffers = {}
    for tensor in tensors:
        size = tensor.numel() * tensor.element_size()
        buffer = buffers.setdefault(tensor.type(), [[], 0])
        if buffer[1] + size > size_limit and buffer[1] > 0:
            yield buffer[0]
            buffer = buffers[tensor.type()] = [[], 0]
        buffer[0].append(tensor)
        buffer[1] += size
    for buffer, _ in buffers.values():
        if buffer:
            yield buffer


def _reorder_tensors_as(tensors, ordered_tensors):
    """Yield `tensors`, which are sorted by dtype, in the order of dtypes in `ordered_tensors`."""
    by_type = collections.defaultdict(list)
    for tensor in tensors:
        by_type[tensor.type()].append(tensor)
    iterators = {kind: iter(found) for kind, found in by_type.items()}
    for tensor in ordered_tensors:
        yield next(iterators[tensor.type()])


def _element_size(dtype):
    """Return the bytes of an element of a dtype."""
    return dtype.itemsize


def _get_device_index(device, optional=False, allow_cpu=False):
    """Return the index of a device.

    Args:
        device: a number, a device, or its name.
        optional: whether a device without an index means the current one.
        allow_cpu: whether `cpu` is a device, with the index -1.

    Raises:
        ValueError: If there is no index.
    """
    if isinstance(device, str):
        device = _C.device(device)
    if isinstance(device, _C.device):
        if not allow_cpu and device.type == "cpu":
            raise ValueError(f"Expected a non cpu device, but got: {device}")
        index = -1 if device.type == "cpu" else device.index
    else:
        index = device if isinstance(device, int) and not isinstance(device, bool) else None
    if index is None:
        if not optional:
            raise ValueError(f"Expected a torch.device with a specified index or an integer, but got:{device}")
        from .accelerator import current_device_index

        return current_device_index()
    return index


class _ClassPropertyDescriptor:
    """A property of a class."""

    def __init__(self, fget):
        self.fget = fget

    def __get__(self, instance, owner=None):
        return self.fget.__get__(instance, type(instance) if owner is None else owner)()


def classproperty(func):
    """Return a property that can be read from the class."""
    return _ClassPropertyDescriptor(func if isinstance(func, (classmethod, staticmethod)) else classmethod(func))
