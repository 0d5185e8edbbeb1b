"""``torch.version``: of this package, and of the platforms it was built for."""

from pytpu import __version__ as __version__

debug = False
cuda = hip = xpu = None
