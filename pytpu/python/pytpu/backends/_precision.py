"""Settings of the precision of `float32` products, linked as in PyTorch.

There are two interfaces. The old one is `torch.set_float32_matmul_precision` and `allow_tf32`. The new one is
`fp32_precision` of `torch.backends` and its parts, where `none` means the value of the part above. Both set the
precision of a TPU: see `docs/differences.md`.
"""

import threading
import warnings

from .. import _C

_CHOICES = {
    "generic": ("ieee", "tf32", "bf16", "none"),
    "cuda": ("ieee", "tf32", "none"),
    "mkldnn": ("ieee", "tf32", "bf16", "none"),
}
_LEGACY = ("highest", "high", "medium")
_SEE = "See also: https://pytorch.org/docs/main/notes/cuda.html#tensorfloat-32-tf32-on-ampere-and-later-devices"

_legacy = "highest"
_cudnn_allowed = True
# The place in `_LEGACY` of the precision of a TPU's products.
_number = 0
# The precision of a block of `torch.tpu.precision` that this thread is in.
_of_thread = threading.local()
# By backend and op. Convolutions and recurrent layers of CUDA default to "tf32".
_said = {}


def get(backend, op):
    """Return the precision of `op` of `backend`: the setting of the op, of the backend, or of all.

    Without a setting it is `none`.
    """
    for key in ((backend, op), (backend, "all"), ("generic", "all")):
        said = _said.get(key, "none")
        if said != "none":
            return said if said in _CHOICES[backend] else "none"
    return "tf32" if backend == "cuda" and op in ("conv", "rnn") and (backend, op) not in _said else "none"


def set(backend, op, precision):
    """Set the precision of `op` of `backend`."""
    if not isinstance(precision, str):
        raise TypeError(
            "_set_fp32_precision_setter(): incompatible function arguments. The following argument types are "
            "supported:\n"
            f"    1. (arg0: str, arg1: str, arg2: str) -> str\n\nInvoked with: {backend!r}, {op!r}, {precision!r}"
        )
    if precision not in _CHOICES["generic"]:
        raise RuntimeError(f"Unknown precision: {precision}")
    if precision not in _CHOICES[backend]:
        raise RuntimeError(f"backend '{backend}' does not support precision '{precision}'")
    _say({(backend, op): precision})


def effective():
    """Return the precision of a TPU's products: `highest`, `high` or `medium`, for any mix of both interfaces."""
    return _LEGACY[_number]


def of_thread():
    """Return the precision of the block of `torch.tpu.precision` that this thread is in, or `None`."""
    return getattr(_of_thread, "precision", None)


def set_of_thread(precision):
    """Set the precision of the ops that this thread calls, or end that with `None`."""
    _of_thread.precision = precision
    _C._tpu_set_thread_precision(None if precision is None else _LEGACY.index(precision))


def _say(settings):
    global _number
    _said.update(settings)
    said = get("cuda", "matmul")
    if said == "none" and _said.get(("generic", "all")) == "bf16":
        number = 2
    elif said == "none":
        number = _LEGACY.index(_legacy)
    else:
        number = 0 if said == "ieee" else max(1, _LEGACY.index(_legacy))
    _number = number
    _C._tpu_set_matmul_precision(number)


def set_float32_matmul_precision(precision):
    """See `torch.set_float32_matmul_precision`."""
    global _legacy
    if not isinstance(precision, str):
        raise RuntimeError(f"set_float32_matmul_precision expects a str, but got {type(precision).__name__}")
    if precision not in _LEGACY:
        warnings.warn(
            (
                f"{precision} is not one of 'highest', 'high', or 'medium'; the current setFloat32MatmulPrecision call "
                "has no effect."
            ),
            stacklevel=3,
        )
        return
    _legacy = precision
    place = _LEGACY.index(precision)
    _say({("cuda", "matmul"): ("ieee", "tf32", "tf32")[place], ("mkldnn", "matmul"): ("ieee", "tf32", "bf16")[place]})


def saved():
    """Return all settings, for `restore`."""
    return _legacy, dict(_said)


def restore(settings):
    """Restore the settings that `saved` returned."""
    global _legacy
    _legacy, said = settings
    _said.clear()
    _say(said)


def get_float32_matmul_precision():
    """See `torch.get_float32_matmul_precision`."""
    within = of_thread()
    if within is not None:
        return within
    cuda, mkldnn = get("cuda", "matmul"), get("mkldnn", "matmul")
    if (
        (cuda == "tf32" and _legacy == "highest")
        or (mkldnn == "bf16" and _legacy != "medium")
        or (mkldnn == "tf32" and _legacy != "high")
    ):
        raise RuntimeError(
            "PyTorch is checking the matmul precision without a specific backend name,Current status indicate that "
            "you have used mix of the legacy and new APIs to set the matmul precision. We suggest only using the new "
            "API for matmul precision. " + _SEE
        )
    return _legacy


def matmul_allows_tf32():
    """Return whether CUDA's products may be less precise than `float32`."""
    allowed = _legacy != "highest"
    if allowed != (get("cuda", "matmul") == "tf32"):
        raise RuntimeError(
            "PyTorch is checking whether allow_tf32_new is enabled for cuBlas matmul,Current status indicate that you "
            "have used mix of the legacy and new APIs to set the TF32 status for cublas matmul. We suggest only using "
            "the new API to set the TF32 flag. " + _SEE
        )
    return allowed


def allow_matmul_tf32(allowed):
    """Set it, and the precision of a TPU."""
    global _legacy
    _legacy = "high" if allowed else "highest"
    _say({("cuda", "matmul"): "tf32" if allowed else "ieee"})


def cudnn_allows_tf32():
    """Return whether cuDNN's convolutions may be less precise than `float32`."""
    conv, rnn = (get("cuda", op) == "tf32" for op in ("conv", "rnn"))
    if conv != rnn or conv != _cudnn_allowed:
        raise RuntimeError(
            "PyTorch is checking whether allow_tf32 is enabled for cuDNN without a specific operator name,but the "
            "current flag(s) indicate that cuDNN conv and cuDNN RNN have different TF32 flags.This combination "
            "indicates that you have used a mix of the legacy and new APIs to set the TF32 flags. We suggest only "
            "using the new API to set the TF32 flag(s). " + _SEE
        )
    return conv


def allow_cudnn_tf32(allowed):
    """Set it. A TPU's convolutions have the precision of matrix products."""
    global _cudnn_allowed
    _cudnn_allowed = allowed
    _say({("cuda", op): "tf32" if allowed else "none" for op in ("conv", "rnn")})


def attribute(backend, op):
    """A property `fp32_precision`, for the class of a part of `torch.backends`."""
    return property(lambda _: get(backend, op), lambda _, precision: set(backend, op, precision))
