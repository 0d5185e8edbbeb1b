"""`torch.classes`: C++ classes of extensions. None can be loaded."""

loaded_libraries = set()


def load_library(path):
    """Raise `OSError`: C++ extensions are made for PyTorch's library, which is absent."""
    from . import ops

    ops.load_library(path)


class _Namespace:
    def __init__(self, name):
        self.name = name

    def __getattr__(self, name):
        raise RuntimeError(
            f"Tried to instantiate class '{self.name}.{name}', but it does not exist! Ensure that it is registered "
            "via torch::class_"
        )


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(f"module 'torch.classes' has no attribute '{name}'")
    return _Namespace(name)
