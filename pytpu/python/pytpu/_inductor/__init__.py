"""`torch._inductor`: settings of PyTorch's compiler, for scripts that set them. StableHLO's compiler has its own."""

from . import config as config
