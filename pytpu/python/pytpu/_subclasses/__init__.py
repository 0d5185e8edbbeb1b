"""``torch._subclasses``: tensors of PyTorch's tracers. There are none here: ask device ``meta`` for shapes."""

from .fake_tensor import (
    FakeTensor as FakeTensor,
    FakeTensorMode as FakeTensorMode,
    UnsupportedFakeTensorException as UnsupportedFakeTensorException,
)
