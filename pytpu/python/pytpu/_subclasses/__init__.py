"""`torch._subclasses`: fake tensors."""

from .fake_tensor import (
    DynamicOutputShapeException as DynamicOutputShapeException,
    FakeTensor as FakeTensor,
    FakeTensorMode as FakeTensorMode,
    UnsupportedFakeTensorException as UnsupportedFakeTensorException,
)
