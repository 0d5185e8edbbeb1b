"""`torch.utils.cpp_extension`: C++ extensions of PyTorch need libtorch, which is not here. They cannot be built."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "BuildExtension",
    "CUDAExtension",
    "CppExtension",
    "SyclExtension",
    "get_default_build_root",
    "include_paths",
    "is_ninja_available",
    "load",
    "load_inline",
    "verify_ninja_availability",
]

CUDA_HOME = CUDNN_HOME = ROCM_HOME = HIP_HOME = SYCL_HOME = ROCM_VERSION = HIP_VERSION = None
IS_HIP_EXTENSION = False
IS_LINUX, IS_MACOS, IS_WINDOWS = sys.platform.startswith("linux"), sys.platform.startswith("darwin"), False
LIB_EXT, EXEC_EXT, CLIB_PREFIX, CLIB_EXT = ".so", "", "lib", ".so"
COMMON_NVCC_FLAGS: list[str] = []


def _refuse(name) -> NoReturn:
    raise RuntimeError(
        f"torch.utils.cpp_extension.{name}: C++ extensions need the headers and libraries of PyTorch, which pytpu does "
        "not have. Write the kernel in Python, JAX, Pallas or StableHLO. See docs/custom-kernels.md"
    )


def load(name: str, *args: Any, **kwargs: Any) -> NoReturn:
    """Raise `RuntimeError`: C++ extensions cannot be built."""
    _refuse("load")


def load_inline(name: str, *args: Any, **kwargs: Any) -> NoReturn:
    """Raise `RuntimeError`: C++ extensions cannot be built."""
    _refuse("load_inline")


def CppExtension(name: str, sources: list[str], *args: Any, **kwargs: Any) -> NoReturn:
    """Raise `RuntimeError`: C++ extensions cannot be built."""
    _refuse("CppExtension")


def CUDAExtension(name: str, sources: list[str], *args: Any, **kwargs: Any) -> NoReturn:
    """Raise `RuntimeError`: C++ extensions cannot be built."""
    _refuse("CUDAExtension")


def SyclExtension(name: str, sources: list[str], *args: Any, **kwargs: Any) -> NoReturn:
    """Raise `RuntimeError`: C++ extensions cannot be built."""
    _refuse("SyclExtension")


class BuildExtension:
    """The command of setuptools that builds extensions. Making one raises `RuntimeError`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refuse("BuildExtension")

    @classmethod
    def with_options(cls, **options: Any) -> type[BuildExtension]:
        """Return the class itself."""
        return cls


def include_paths(device_type: str = "cpu", torch_include_dirs: bool = True) -> list[str]:
    """Return the folders of PyTorch's headers: none."""
    return []


def library_paths(
    device_type: str = "cpu", torch_include_dirs: bool = True, cross_target_platform: str | None = None
) -> list[str]:
    """Return the folders of PyTorch's libraries: none."""
    return []


def get_default_build_root() -> str:
    """Return the folder in which PyTorch builds extensions."""
    cache = os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache"))
    return os.path.realpath(os.path.join(cache, "torch_extensions"))


def is_ninja_available() -> bool:
    """Return whether the program `ninja` can be found."""
    import shutil

    return shutil.which("ninja") is not None


def verify_ninja_availability() -> None:
    """Raise `RuntimeError` if the program `ninja` cannot be found."""
    if not is_ninja_available():
        raise RuntimeError("Ninja is required to load C++ extensions (pip install ninja to get it)")
