"""The older name of ``torch.distributed.tensor``."""

from ..tensor import *  # noqa: F403
from ..tensor import DeviceMesh as DeviceMesh, DTensor as DTensor, init_device_mesh as init_device_mesh
