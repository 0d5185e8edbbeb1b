"""Names of backends, and the backend of each kind of device."""

from __future__ import annotations

import warnings

from .. import device as _device

TYPE_CHECKING = False  # As in `typing`, without the cost of importing it.
if TYPE_CHECKING:
    from typing import Any


def is_gloo_available() -> bool:
    """Return ``True``: ``"gloo"`` is the name of this library's engine for device ``cpu``."""
    return True


def is_nccl_available() -> bool:
    """Return ``False``: NCCL is not part of this package."""
    return False


def is_mpi_available() -> bool:
    """Return ``False``: MPI is not part of this package."""
    return False


def is_ucc_available() -> bool:
    """Return ``False``: UCC is not part of this package."""
    return False


def is_xccl_available() -> bool:
    """Return ``False``: XCCL is not part of this package."""
    return False


class Backend(str):
    """Return the name of a backend, in lower case.

    Args:
        name: a name such as ``gloo``, or pairs such as ``cpu:gloo,tpu:xla``.
    """

    UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI, FAKE = "undefined", "gloo", "nccl", "xccl", "ucc", "mpi", "fake"
    XLA, TPU_DIST = "xla", "tpu_dist"
    backend_list = [UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI, FAKE, XLA, TPU_DIST]
    #: The backend of each kind of device, if none is given.
    default_device_backend_map = {"cpu": GLOO, "tpu": XLA}
    #: The kinds of device that each backend serves.
    backend_capability = {GLOO: ["cpu", "tpu"], XLA: ["tpu"], TPU_DIST: ["tpu"], FAKE: ["cpu", "tpu"]}

    def __new__(cls, name: str) -> Backend:
        """Return the name in lower case."""
        if not isinstance(name, str):
            raise ValueError("Backend constructor parameter must be string-ish")
        return str.__new__(cls, name.lower())

    @classmethod
    def register_backend(
        cls, name: str, func: Any, extended_api: bool = False, devices: str | list[str] | None = None
    ) -> None:
        """Raise ``NotImplementedError``: backends of others are not implemented."""
        raise NotImplementedError(
            f"torch.distributed.Backend.register_backend: the backend {name} cannot be added. "
            "Backends are gloo for device cpu, and xla for device tpu."
        )


#: Backends of PyTorch's that this package does not have.
_ABSENT = {"mpi": "MPI", "ucc": "UCC", "xccl": "XCCL"}
_has_warned_of_nccl = False


def _check(name: str) -> str:
    """Return the backend behind a name."""
    global _has_warned_of_nccl
    if name in _ABSENT:
        raise RuntimeError(f"Distributed package doesn't have {_ABSENT[name]} built in")
    if name == Backend.NCCL:
        if not _has_warned_of_nccl:
            _has_warned_of_nccl = True
            text = "NCCL is not part of this package. Backend nccl counts as xla, the backend of device tpu."
            warnings.warn(text, stacklevel=4)
        return Backend.XLA
    if name not in (Backend.GLOO, Backend.XLA, Backend.TPU_DIST, Backend.FAKE):
        names = "gloo, xla, tpu_dist, nccl, fake"
        raise ValueError(f"Unknown c10d backend type {name.upper()}. Known backends are {names}.")
    return name


class BackendConfig:
    """The backend of each kind of device.

    Args:
        backend: a name such as ``gloo``, or pairs such as ``cpu:gloo,tpu:xla``. ``undefined`` takes the defaults.
    """

    def __init__(self, backend: str) -> None:
        name = str(backend).lower()
        if name == Backend.UNDEFINED:
            self.device_backend_map = dict(Backend.default_device_backend_map)
        elif ":" in name:
            self.device_backend_map = self._of_pairs(name)
        else:
            kind = _check(name)
            # The ranks' hosts exchange tensors of device cpu also if the program is about another device.
            self.device_backend_map = {"cpu": Backend.FAKE if kind == Backend.FAKE else Backend.GLOO, "tpu": kind}

    @staticmethod
    def _of_pairs(text: str) -> dict[str, str]:
        expected = (
            f"The custom backend string argument is invalid: {text}. It must be in the format "
            '"<device_type1>:<backend1>,<device_type2>:<backend2>...", e.g. "cpu:gloo,tpu:xla".'
        )
        pairs: dict[str, str] = {}
        for part in text.split(","):
            kind, colon, name = part.strip().partition(":")
            if not colon or ":" in name:
                raise ValueError(f"Invalid device:backend pairing: {part}. {expected}")
            # Programs for CUDA name their accelerator so.
            kind = "tpu" if kind == "cuda" else kind
            if kind in pairs:
                raise ValueError(f"Duplicate device type {kind} in backend string: {text}. {expected}")
            pairs[kind] = _check(name)
        return pairs

    def get_device_backend_map(self) -> dict[str, str]:
        """Return the backend of each kind of device."""
        return self.device_backend_map

    def __repr__(self) -> str:
        return ",".join(f"{kind}:{name}" for kind, name in self.device_backend_map.items())


def is_backend_available(backend: str) -> bool:
    """Return whether a backend, or each of pairs such as ``cpu:gloo,tpu:xla``, can be used."""
    names = [part.rpartition(":")[2].strip() for part in backend.lower().split(",")]
    return all(name in (Backend.GLOO, Backend.XLA, Backend.TPU_DIST, Backend.FAKE) for name in names)


def get_default_backend_for_device(device: str | _device) -> str:
    """Return the backend that serves a device, if none is given.

    Raises:
        ValueError: if there is none.
    """
    kind = (device if isinstance(device, _device) else _device(device)).type
    if kind not in Backend.default_device_backend_map:
        raise ValueError(f"Default backend not registered for device : {device}")
    return Backend.default_device_backend_map[kind]
