"""Support of `tpu` in the package `safetensors`.

Its compiled reader has a fixed list of device names, and refuses others before it asks `torch`. For any accelerator it
also takes a number. So `"tpu"` and `"tpu:N"` become numbers, in programs where `torch` is this package.
"""

import sys


def _number(device):
    """A device as the package takes it."""
    name = str(device) if type(device).__name__ == "device" else device
    torch = sys.modules.get("torch")
    if not isinstance(name, str) or torch is None or torch is not sys.modules.get("pytpu"):
        return device
    kind, _, index = name.partition(":")
    if kind == "tpu" and (not index or index.isdecimal()):
        return int(index) if index else torch.tpu.current_device()
    return name if kind == "cpu" else device


def _teach(package):
    safe_open = package.safe_open

    def opened(filename, framework, device="cpu", **kwargs):
        return safe_open(filename, framework, _number(device), **kwargs)

    opened.__name__ = opened.__qualname__ = "safe_open"
    opened.__doc__, opened.__wrapped__ = safe_open.__doc__, safe_open
    package.safe_open = opened


class _Loader:
    """A loader that runs the package as its own loader does, and then changes it."""

    def __init__(self, loader):
        self._loader = loader

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        self._loader.exec_module(module)
        _teach(module)

    def __getattr__(self, name):
        return getattr(self._loader, name)


class _Finder:
    def find_spec(self, name, path=None, target=None):
        if name != "safetensors":
            return None
        from importlib.machinery import PathFinder

        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


def install():
    """Change the package when it is imported, or now if it has been imported."""
    if any(type(finder) is _Finder for finder in sys.meta_path):
        return
    sys.meta_path.insert(0, _Finder())
    there = sys.modules.get("safetensors")
    if there is not None:
        _teach(there)
