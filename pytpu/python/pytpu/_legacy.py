"""`torch.FloatTensor` and similar types from before dtypes.

They make and recognize tensors of one dtype in host memory.

The types of `torch.cuda` have names only: nothing is an instance of them.
"""

import pytpu as torch

from . import _C
from ._size import Size


class tensortype(type):
    """The type of these types."""

    def __instancecheck__(cls, x):
        return isinstance(x, _C.Tensor) and x.dtype is cls.dtype and x.device.type == cls.device

    def __call__(cls, *args, device=None):
        if device is not None and _C.device(device).type != "cpu":
            raise RuntimeError(
                f"legacy constructor expects device type: cpu but device type: {_C.device(device).type} was passed"
            )
        if cls.is_cuda:
            raise AssertionError("Torch not compiled with CUDA enabled")
        if (
            len(args) == 1
            and not isinstance(args[0], Size)
            and (isinstance(args[0], bool) or not isinstance(args[0], int))
        ):
            return cls._of(args[0])
        sizes = args[0] if len(args) == 1 and isinstance(args[0], Size) else args or (0,)
        return torch.empty(*sizes, dtype=cls.dtype)

    def _of(cls, data):
        if isinstance(data, _C.Tensor):
            if not isinstance(data, cls):
                raise TypeError(f"expected torch.{cls.__name__} (got {data.type()})")
            return data.detach()
        if torch.is_storage(data):
            return torch.empty(0, dtype=cls.dtype).set_(data)
        if isinstance(data, str):
            raise TypeError("new(): invalid data type 'str'")
        if not hasattr(data, "__len__"):
            raise TypeError(f"new(): data must be a sequence (got {type(data).__name__})")
        return _C.tensor(data, dtype=cls.dtype)


_DTYPES = (
    *(_C.float32, _C.float64, _C.float16, _C.bfloat16),
    *(_C.uint8, _C.int8, _C.int16, _C.int32, _C.int64, _C.bool),
)


def types(device):
    """Types of tensors on "cpu" or "cuda", by name."""
    module = "torch" if device == "cpu" else f"torch.{device}"
    found = {}
    for dtype in _DTYPES:
        name = dtype._scalar_type + "Tensor"
        fixed = {"dtype": dtype, "device": device, "is_cuda": device == "cuda", "__module__": module}
        found[name] = tensortype(name, (), {**fixed, "__doc__": f"Tensors of {dtype} on {device}."})
    return found


globals().update(types("cpu"))
