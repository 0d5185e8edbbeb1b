"""Switches of CUDA, which is absent: the device is `tpu`."""

from __future__ import annotations

import enum
import warnings
from contextlib import contextmanager

from . import _precision
from ._absent import is_built, linked  # noqa: F401

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextlib import AbstractContextManager


def _allow_tf32(_, allowed):
    if not isinstance(allowed, bool):
        raise RuntimeError(f"set_allow_tf32_cublas expects a bool, but got {type(allowed).__name__}")
    _precision.allow_matmul_tf32(allowed)


matmul = linked(
    allow_tf32=property(lambda _: _precision.matmul_allows_tf32(), _allow_tf32),
    fp32_precision=_precision.attribute("cuda", "matmul"),
)(
    {"allow_fp16_accumulation": "set_allow_fp16_accumulation_cublas"},
    allow_fp16_reduced_precision_reduction=True,
    allow_bf16_reduced_precision_reduction=True,
    allow_fp16_accumulation=False,
)
_attention = {"flash": True, "mem_efficient": True, "math": True, "cudnn": True}


def _pair(kind):
    def enabled():
        """Return whether this implementation of attention is allowed."""
        return _attention[kind]

    def enable(enabled):
        """Allow or forbid it. There is only one implementation of attention here."""
        _attention[kind] = bool(enabled)

    return enabled, enable


flash_sdp_enabled, enable_flash_sdp = _pair("flash")
mem_efficient_sdp_enabled, enable_mem_efficient_sdp = _pair("mem_efficient")
math_sdp_enabled, enable_math_sdp = _pair("math")
cudnn_sdp_enabled, enable_cudnn_sdp = _pair("cudnn")


class _Preferred(enum.Enum):
    """A library of CUDA that programs may prefer."""

    Default, Cublas, Cublaslt, Ck, Cusolver, Magma = range(6)


_preferred = {"linalg": _Preferred.Default, "blas": _Preferred.Cublas}


def _prefer(kind, backend, known):
    if isinstance(backend, _Preferred):
        _preferred[kind] = backend
    elif isinstance(backend, str):
        if backend not in known:
            raise RuntimeError(f"Unknown input value. Choose from: {', '.join(known)}.")
        _preferred[kind] = _Preferred[backend.capitalize()]
    elif backend is not None:
        raise RuntimeError(f"Unknown input value type: {type(backend)}")
    return _preferred[kind]


def preferred_linalg_library(backend: str | _Preferred | None = None) -> _Preferred:
    """Set, or only return, which library of CUDA decomposes matrices. It has no effect: this build has no CUDA."""
    return _prefer("linalg", backend, ("default", "cusolver", "magma"))


def preferred_blas_library(backend: str | _Preferred | None = None) -> _Preferred:
    """Set, or only return, which library of CUDA multiplies matrices. It has no effect: this build has no CUDA."""
    return _prefer("blas", backend, ("default", "cublas", "cublaslt", "ck"))


def sdp_kernel(
    enable_flash: bool = True, enable_math: bool = True, enable_mem_efficient: bool = True, enable_cudnn: bool = True
) -> AbstractContextManager[dict[str, bool]]:
    """Context manager that allows or forbids implementations of attention."""
    warnings.warn(
        "`torch.backends.cuda.sdp_kernel()` is deprecated. In the future, this context manager will be removed. "
        "Please see `torch.nn.attention.sdpa_kernel()` for the new context manager, with updated signature.",
        FutureWarning,
        stacklevel=2,
    )
    return _allowing(enable_flash, enable_math, enable_mem_efficient, enable_cudnn)


@contextmanager
def _allowing(enable_flash, enable_math, enable_mem_efficient, enable_cudnn):
    before = dict(_attention)
    _attention.update(flash=enable_flash, math=enable_math, mem_efficient=enable_mem_efficient, cudnn=enable_cudnn)
    try:
        yield {}
    finally:
        _attention.update(before)
