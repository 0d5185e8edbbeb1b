"""Tensors on memory that other objects own: buffers and mapped files."""

from __future__ import annotations

import ctypes
import mmap
import os
import warnings

from . import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pytpu import Tensor


class _Buffer(ctypes.Structure):
    """`Py_buffer` of Python's C interface."""

    _fields_ = [
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.c_void_p),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        *((name, ctypes.c_void_p) for name in ("format", "shape", "strides", "suboffsets", "internal")),
    ]


_get = ctypes.pythonapi.PyObject_GetBuffer
_get.argtypes = [ctypes.py_object, ctypes.POINTER(_Buffer), ctypes.c_int]
_release = ctypes.pythonapi.PyBuffer_Release
_release.argtypes = [ctypes.POINTER(_Buffer)]


class _Bytes:
    """The bytes of an object with a buffer. They do not move while this object lives."""

    def __init__(self, owner):
        self._buffer = _Buffer()
        _get(owner, self._buffer, 0)
        self.nbytes, self.read_only = self._buffer.len, bool(self._buffer.readonly)

    def part(self, offset, size):
        """Return a `uint8` tensor on some of the bytes."""
        return _C.as_tensor(_Part(self, offset, size))

    def __del__(self, release=_release):
        release(self._buffer)


class _Part:
    """Bytes in the form of NumPy's interface. The object keeps them alive."""

    def __init__(self, owner, offset, size):
        self._owner, self._offset, self._size = owner, offset, size

    @property
    def __array_interface__(self):
        # A read-only object has been warned about before.
        data = (self._owner._buffer.buf + self._offset, False)
        return {"data": data, "shape": (self._size,), "typestr": "|u1", "version": 3}

    def __setitem__(self, index, value):
        raise TypeError("these bytes are for tensors to write to")


class _PartOfTensor:
    """Bytes of a tensor in the form of NumPy's interface. The object keeps the memory alive."""

    def __init__(self, flat, start, size):
        self._flat, self._start, self._size = flat, start, size

    @property
    def __array_interface__(self):
        data = (self._flat.data_ptr() + self._start, False)
        return {"data": data, "shape": (self._size,), "typestr": "|u1", "version": 3}

    def __setitem__(self, index, value):
        raise TypeError("these bytes are for tensors to write to")


def part(flat, start, size):
    """Return a `uint8` tensor on some bytes of a flat tensor in host memory, with a storage of its own."""
    if not _C._in_memory(flat):
        raise RuntimeError("the tensor has no elements in host memory")
    return _C.as_tensor(_PartOfTensor(flat, start, size)) if size else _C._ops.empty([0], dtype=_C.uint8)


_warned = False


def _warn_if(read_only):
    global _warned
    if read_only and not _warned:
        _warned = True
        warnings.warn(
            "The given buffer is not writable, and PyTorch does not support non-writable tensors. This means you can "
            "write to the underlying (supposedly non-writable) buffer using the tensor. You may want to copy the "
            "buffer to protect its data or make it writable before converting it to a tensor. This type of warning "
            "will be suppressed for the rest of this program.",
            stacklevel=3,
        )


def frombuffer(
    buffer: Any, *, dtype: _C.dtype, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Tensor:
    """Return a one-dimensional tensor on the memory of an object with the buffer protocol.

    The tensor shares the memory. The elements are copied if `offset` leaves them unaligned, or if `bool` elements
    have other bytes than 0 and 1. While memory is shared, the object cannot change its size.

    Args:
        count: number of elements; all there are, when it is negative.
        offset: bytes to leave out in front.

    Raises:
        ValueError: there is no buffer, or too little of it.
    """
    if isinstance(buffer, int) or not _has_buffer(buffer):
        raise ValueError("object does not implement Python buffer protocol.")
    try:
        memory = _Bytes(buffer)
    except BufferError:
        raise RuntimeError(
            "could not retrieve a contiguous buffer from the given object (non-contiguous buffers are not supported)"
        ) from None
    length, size = memory.nbytes, dtype.itemsize
    _warn_if(memory.read_only)
    if length == 0 or count == 0:
        raise ValueError(f"both buffer length ({length}) and count ({count}) must not be 0")
    if not 0 <= offset < length:
        raise ValueError(
            f"offset ({offset} bytes) must be non-negative and no greater than buffer length ({length} bytes) minus 1"
        )
    if count < 0:
        if (length - offset) % size:
            raise ValueError(
                f"buffer length ({length - offset} bytes) after offset ({offset} bytes) must be a multiple of element "
                f"size ({size})"
            )
        count = (length - offset) // size
    if offset + count * size > length:
        raise ValueError(
            f"requested buffer length ({count} * {size} bytes) after offset ({offset} bytes) must not be greater than "
            f"actual buffer length ({length} bytes)"
        )
    return _convert(memory.part(offset, count * size), dtype, requires_grad)


def _convert(t, dtype, requires_grad):
    if requires_grad and not (dtype.is_floating_point or dtype.is_complex):
        raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
    if dtype is _C.bool:
        t = t.view(dtype) if t.numel() == 0 or t.max() < 2 else t != 0
    else:
        t = (t.clone() if t.data_ptr() % dtype.itemsize else t).view(dtype)
    return t.requires_grad_() if requires_grad else t


def _has_buffer(x):
    try:
        memoryview(x).release()
        return True
    except TypeError:
        return False


def map_file(filename, shared, nbytes):
    """Return a `uint8` tensor on a file's first bytes.

    With `shared`, writes go to the file, which may grow. Otherwise they stay in memory.
    """
    if nbytes == 0:
        return _C._ops.empty([0], dtype=_C.uint8)
    try:
        descriptor = os.open(filename, os.O_RDWR | os.O_CREAT if shared else os.O_RDONLY, 0o600)
    except OSError as error:
        mode = "read-write" if shared else "read-only"
        raise RuntimeError(
            f"unable to open file <{filename}> in {mode} mode: {error.strerror} ({error.errno})"
        ) from None
    try:
        there = os.fstat(descriptor).st_size
        if there < nbytes:
            if not shared:
                raise RuntimeError(
                    f"file <{filename}> size <{there}> is smaller than the required mapping size <{nbytes}>"
                )
            os.ftruncate(descriptor, nbytes)
        mapped = mmap.mmap(descriptor, nbytes, access=mmap.ACCESS_WRITE if shared else mmap.ACCESS_COPY)
    finally:
        os.close(descriptor)
    return _Bytes(mapped).part(0, nbytes)


def from_file(
    filename: str,
    shared: bool | None = None,
    size: int | None = 0,
    *,
    dtype: _C.dtype | None = None,
    layout: _C.layout | None = None,
    device: _C.device | str | int | None = None,
    pin_memory: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return a tensor on the first `size` elements of a file. Writes to it reach the file only with `shared`.

    Raises:
        RuntimeError: the file cannot be opened, or is too short.
    """
    dtype = _C.get_default_dtype() if dtype is None else dtype
    return _convert(map_file(filename, bool(shared), size * dtype.itemsize), dtype, requires_grad)
