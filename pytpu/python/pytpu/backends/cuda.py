"""Switches of CUDA, which is not here; it is used through the device ``tpu``."""

from contextlib import contextmanager

from ._absent import Switches, is_built  # noqa: F401

matmul = Switches(
    allow_tf32=False,
    allow_fp16_reduced_precision_reduction=True,
    allow_bf16_reduced_precision_reduction=True,
    allow_fp16_accumulation=False,
)
_attention = {"flash": True, "mem_efficient": True, "math": True, "cudnn": True}


def _pair(kind):
    def enabled():
        """Whether this way of computing attention may be chosen."""
        return _attention[kind]

    def enable(enabled):
        """Allows or forbids it; attention here is computed in one way."""
        _attention[kind] = bool(enabled)

    return enabled, enable


flash_sdp_enabled, enable_flash_sdp = _pair("flash")
mem_efficient_sdp_enabled, enable_mem_efficient_sdp = _pair("mem_efficient")
math_sdp_enabled, enable_math_sdp = _pair("math")
cudnn_sdp_enabled, enable_cudnn_sdp = _pair("cudnn")


@contextmanager
def sdp_kernel(enable_flash=True, enable_math=True, enable_mem_efficient=True, enable_cudnn=True):
    """Allows or forbids ways of computing attention inside of a block."""
    before = dict(_attention)
    _attention.update(flash=enable_flash, math=enable_math, mem_efficient=enable_mem_efficient, cudnn=enable_cudnn)
    try:
        yield {}
    finally:
        _attention.update(before)
