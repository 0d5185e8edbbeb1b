"""Exchange of memory by DLPack."""

import ctypes
import sys
import threading

import numpy as np
import pytest

import pytpu as torch
from pytpu.utils import dlpack

DTYPES = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.uint8,
    torch.bool,
]


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d != torch.bfloat16], ids=str)
def test_numpy_takes_our_memory_and_gives_its_own(dtype):
    x = torch.arange(6).reshape(2, 3).to(dtype)
    a = np.from_dlpack(x)
    assert a.tolist() == x.tolist() and a.ctypes.data == x.data_ptr()
    assert np.from_dlpack(x.T).tolist() == x.T.tolist()
    assert np.from_dlpack(x[:, 1:]).tolist() == x[:, 1:].tolist()
    b = np.arange(6).reshape(2, 3).astype(str(dtype).removeprefix("torch."))
    y = torch.from_dlpack(b)
    assert y.dtype == dtype and y.data_ptr() == b.ctypes.data and y.tolist() == b.tolist()
    y[0, 0] = 1
    assert b[0, 0] == 1
    assert torch.from_dlpack(b.T).stride() == (1, 3)


def test_memory_lives_as_long_as_it_is_used():
    y = torch.from_dlpack(np.full(100_000, 7.0))
    a = np.from_dlpack(torch.full((100_000,), 3.0))
    assert y.sum().item() == 700_000 and a.sum() == 300_000
    x = torch.ones(3)
    x.__dlpack__()  # a capsule that is never imported
    capsule = dlpack.to_dlpack(x)
    torch.from_dlpack(capsule)
    with pytest.raises(RuntimeError, match="DLTensor capsules can be consumed only once"):
        torch.from_dlpack(capsule)


def of_float128():
    """A capsule whose elements are floats of 128 bits."""
    capsule = torch.ones(4).__dlpack__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    # The bits of an element stand behind an address, a device of eight bytes, the rank, and the kind of number.
    ctypes.c_uint8.from_address(pointer(capsule, b"dltensor") + 21).value = 128
    return capsule


def test_tensors_that_cannot_be_exchanged():
    x = torch.ones(2, requires_grad=True)
    with pytest.raises(BufferError, match="Can't export tensors that require gradient, use tensor.detach()"):
        x.__dlpack__()
    with pytest.raises(BufferError, match="Cannot pack tensors on meta"):
        torch.ones(2, device="meta").__dlpack__()
    with pytest.raises(BufferError, match="negative strides"):
        torch.from_dlpack(np.arange(6)[::-1])
    with pytest.raises(BufferError, match="no dtype for DLPack code 2 with 128 bits"):
        torch.from_dlpack(of_float128())
    with pytest.raises(BufferError, match="Can't export tensors with the conjugate bit set"):
        torch.ones(2, dtype=torch.complex64).conj().__dlpack__()
    with torch.no_grad(), pytest.raises(BufferError, match="require gradient"):
        x.__dlpack__(copy=True)
    with pytest.raises(BufferError, match="cannot export a tensor on cpu to DLPack device .2, 0."):
        torch.ones(2).__dlpack__(dl_device=(dlpack.DLDeviceType.kDLCUDA, 0))
    with pytest.raises(AssertionError, match="stream should be None on cpu"):
        torch.ones(2).__dlpack__(stream=1)
    with pytest.raises(RuntimeError, match="invalid capsule"):
        torch.from_dlpack(3)
    a = np.arange(3.0)
    a.flags.writeable = False
    y = torch.from_dlpack(a)
    y[0] = 5
    assert a[0] == 0.0


def test_a_capsule_that_is_refused_keeps_its_memory():
    a = np.arange(6)
    capsule = a[::-1].__dlpack__()
    for _ in range(2):
        with pytest.raises(BufferError, match="negative strides"):
            torch.from_dlpack(capsule)
    count = sys.getrefcount(a)
    del capsule
    assert sys.getrefcount(a) == count - 1


def test_memory_is_freed_once():
    a = np.arange(6.0)
    count = sys.getrefcount(a)
    x = torch.from_dlpack(a)
    y = x[2:]
    assert sys.getrefcount(a) == count + 1
    del x
    assert sys.getrefcount(a) == count + 1 and y.tolist() == [2, 3, 4, 5]
    del y
    assert sys.getrefcount(a) == count
    dropped = threading.Thread(target=torch.from_dlpack, args=(a,))
    dropped.start()
    dropped.join()
    del dropped
    assert sys.getrefcount(a) == count


def test_the_plain_capsule_leaves_history_behind():
    x = torch.ones(2, requires_grad=True)
    y = torch.from_dlpack(dlpack.to_dlpack(x))
    assert y.data_ptr() == x.data_ptr() and not y.requires_grad
    with pytest.raises(TypeError):
        dlpack.to_dlpack(3)


def test_a_copy_on_the_host():
    x = torch.ones(3, device="tpu")
    with pytest.raises(BufferError, match="Cannot pack tensors on tpu"):
        x.__dlpack__()
    assert x.__dlpack_device__()[0] == dlpack.DLDeviceType.kDLExtDev
    assert torch.from_dlpack(x.__dlpack__(dl_device=(1, 0), max_version=(1, 0))).tolist() == [1.0] * 3
    assert torch.from_dlpack(x).device.type == "tpu"
    y = torch.ones(3)
    assert torch.from_dlpack(y, copy=True).data_ptr() != y.data_ptr()
    with pytest.raises(ValueError, match="without a copy"):
        x.__dlpack__(dl_device=(1, 0), copy=False)
