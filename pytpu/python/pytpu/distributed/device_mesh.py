"""``torch.distributed.device_mesh``: names of functions that spread tensors over processes."""

from .._absent import absent_class, absent_function
from . import _WHY

DeviceMesh = absent_class("torch.distributed.device_mesh.DeviceMesh", _WHY)
init_device_mesh = absent_function("torch.distributed.device_mesh.init_device_mesh", _WHY)
