"""The older place of ``torch.distributed.device_mesh``."""

from ..device_mesh import (
    DeviceMesh as DeviceMesh,
    _mesh_resources as _mesh_resources,
    init_device_mesh as init_device_mesh,
)
