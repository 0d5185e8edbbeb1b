"""`torch.__config__`: how this package was built, as text."""

from . import _C
from .version import __version__


def show():
    """Return a text about the build: the version of the interface, the device, and the instructions of the CPU."""
    lines = [
        "pytpu built with:",
        f"  - interface of PyTorch {__version__}",
        "  - CPU kernels in Rust, with the instructions that the CPU has",
        "  - device tpu through a PJRT plugin that is found at run time",
        (
            f"  - Build settings: TORCH_VERSION={str(__version__).partition('+')[0]}, USE_CUDA=0, USE_MKL=OFF, "
            "USE_MKLDNN=OFF, USE_NCCL=OFF"
        ),
    ]
    return "\n".join(lines) + "\n"


def parallel_info():
    """Return a text about threads."""
    import os

    return (
        f"ATen/Parallel:\n\tat::get_num_threads() : {_C._num_threads()}\n\tat::get_num_interop_threads() : "
        f"{_C._num_threads()}\n"
        f"std::thread::hardware_concurrency() : {os.cpu_count()}\nATen parallel backend: threads of pytpu\n"
    )


def _cxx_flags():
    """Return the empty string: no C++ is compiled."""
    return ""
