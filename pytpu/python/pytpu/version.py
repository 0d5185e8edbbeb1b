"""`torch.version`: versions of PyTorch's interface, of this package, and of the platforms it was built for."""

from . import _C
from .torch_version import TorchVersion

#: The version of this package.
pytpu = _C.__version__
#: The version of PyTorch that the package follows, so that scripts which ask for one find it. This package's version
#: comes behind the plus.
__version__ = TorchVersion(f"2.15.0+pytpu.{pytpu}")

debug = False
cuda = hip = xpu = None
git_version = "Unknown"
