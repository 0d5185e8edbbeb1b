"""Names of backends, and the backend of each kind of device."""

from __future__ import annotations

import warnings
from collections import namedtuple

from .. import accelerator, device as _device
from ._process_group import ProcessGroup

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

#: The group of entry points by which packages add backends.
_ENTRY_POINTS = "torch.distributed.backends"

#: A function that makes the engine of a backend, and whether it takes options instead of a store.
_BackendPlugin = namedtuple("_BackendPlugin", ["creator_fn", "extended_api"])


def is_gloo_available() -> bool:
    """Return `True`: `"gloo"` is the name of this library's engine for device `cpu`."""
    return True


def is_nccl_available() -> bool:
    """Return `False`: NCCL is not part of this package."""
    return False


def is_mpi_available() -> bool:
    """Return whether a library with the standard ABI of MPI is found, in which the backend `"mpi"` works."""
    from ._mpi import _library

    return _library() is not None


def is_ucc_available() -> bool:
    """Return `False`: UCC is not part of this package."""
    return False


def is_xccl_available() -> bool:
    """Return `False`: XCCL is not part of this package."""
    return False


class Backend(str):
    """Return the name of a backend, in lower case.

    Args:
        name: a name such as `gloo`, or pairs such as `cpu:gloo,tpu:xla`.
    """

    UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI, FAKE = "undefined", "gloo", "nccl", "xccl", "ucc", "mpi", "fake"
    XLA, TPU_DIST = "xla", "tpu_dist"
    backend_list = [UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI, FAKE, XLA, TPU_DIST]
    #: The backend of each kind of device, if none is given.
    default_device_backend_map = {"cpu": GLOO, "tpu": XLA}
    #: The kinds of device that each backend serves.
    backend_capability: dict[str, list[str]] = {
        GLOO: ["cpu", "tpu"],
        MPI: ["cpu", "tpu"],
        XLA: ["tpu"],
        TPU_DIST: ["tpu"],
        FAKE: ["cpu", "tpu"],
    }
    #: The number of each backend.
    backend_type_map = {
        UNDEFINED: ProcessGroup.BackendType.UNDEFINED,
        GLOO: ProcessGroup.BackendType.GLOO,
        NCCL: ProcessGroup.BackendType.NCCL,
        XCCL: ProcessGroup.BackendType.XCCL,
        UCC: ProcessGroup.BackendType.UCC,
        MPI: ProcessGroup.BackendType.MPI,
        FAKE: ProcessGroup.BackendType.CUSTOM,
        XLA: ProcessGroup.BackendType.CUSTOM,
        TPU_DIST: ProcessGroup.BackendType.CUSTOM,
    }
    #: Backends that programs have added, by their names in upper case.
    _plugins: dict[str, _BackendPlugin] = {}

    def __new__(cls, name: str) -> Backend:
        """Return the name in lower case."""
        if not isinstance(name, str):
            raise ValueError("Backend constructor parameter must be string-ish")
        return str.__new__(cls, name.lower())

    @classmethod
    def register_backend(
        cls,
        name: str,
        func: Callable[..., Any],
        extended_api: bool = False,
        devices: str | list[str] | None = None,
    ) -> None:
        """Add a backend, whose engine is a Python object.

        Args:
            name: the name for `init_process_group` and `new_group`. `Backend.NAME` is the same.
            func: returns the engine of a group: a `ProcessGroup`, or an object with its methods. It is called with a
                store, this rank, the number of ranks and the timeout.
            extended_api: whether `func` is called with one object with these values, and the options of the group.
            devices: kinds of device that it serves. The default is `cpu` and `tpu`.

        Example:
            >>> import pytpu as torch
            >>> import torch.distributed as dist
            >>> class Alone(dist.ProcessGroup):
            ...     def allreduce(self, tensors, opts=None):
            ...         return dist.distributed_c10d._create_work_from_future(done)
            >>> done = torch.futures.Future()
            >>> done.set_result(None)
            >>> dist.Backend.register_backend("alone", lambda store, rank, size, timeout: Alone(rank, size))
            >>> dist.init_process_group("alone", store=dist.HashStore(), rank=0, world_size=1)
            >>> x = torch.ones(2)
            >>> dist.all_reduce(x)
            >>> dist.destroy_process_group()
        """
        lower = name.lower()
        setattr(cls, name.upper(), lower)
        if lower not in cls.backend_list:
            cls.backend_list.append(lower)
        if devices is None:
            current = accelerator._device()
            devices = ["cpu"] if current is None else ["cpu", current.type]
        elif isinstance(devices, str):
            devices = [devices]
        for kind in devices:
            cls.default_device_backend_map.setdefault(kind, lower)
        cls.backend_capability[lower] = list(devices)
        cls.backend_type_map.setdefault(lower, ProcessGroup.BackendType.CUSTOM)
        cls._plugins[name.upper()] = _BackendPlugin(func, extended_api)

    @classmethod
    def _ensure_backend_registered(cls, name: str) -> bool:
        """Return whether a backend was added, by the program or by an entry point of a package."""
        if name.lower() in (cls.GLOO, cls.MPI, cls.XLA, cls.TPU_DIST, cls.NCCL):
            return False
        if name.lower() == cls.FAKE and "FAKE" not in cls._plugins:
            from ._made_groups import _make_fake

            cls._plugins["FAKE"] = _BackendPlugin(_make_fake, True)
        if name.upper() not in cls._plugins:
            import importlib.metadata

            for point in importlib.metadata.entry_points(group=_ENTRY_POINTS):
                if point.name.lower() == name.lower():
                    point.load()()
                    break
        return name.upper() in cls._plugins


#: Backends of PyTorch's that this package does not have.
_ABSENT = {"ucc": "UCC", "xccl": "XCCL"}
_has_warned_of_nccl = False


def _check(name: str) -> str:
    """Return the backend behind a name."""
    global _has_warned_of_nccl
    if Backend._ensure_backend_registered(name):
        return name
    if name in _ABSENT:
        raise RuntimeError(f"Distributed package doesn't have {_ABSENT[name]} built in")
    if name == Backend.NCCL:
        if not _has_warned_of_nccl:
            _has_warned_of_nccl = True
            text = "NCCL is not part of this package. Backend nccl counts as xla, the backend of device tpu."
            warnings.warn(text, stacklevel=4)
        return Backend.XLA
    if name not in (Backend.GLOO, Backend.MPI, Backend.XLA, Backend.TPU_DIST):
        names = "gloo, mpi, xla, tpu_dist, nccl"
        raise ValueError(f"Unknown c10d backend type {name.upper()}. Known backends are {names}.")
    return name


class BackendConfig:
    """The backend of each kind of device.

    Args:
        backend: a name such as `gloo`, or pairs such as `cpu:gloo,tpu:xla`. `undefined` takes the defaults.
    """

    def __init__(self, backend: str) -> None:
        name = str(backend).lower()
        if name == Backend.UNDEFINED:
            # A backend that was registered for `cuda` or `xpu` must not take part: no tensor is there.
            defaults = Backend.default_device_backend_map
            self.device_backend_map = {kind: defaults[kind] for kind in ("cpu", "tpu")}
        elif ":" in name:
            self.device_backend_map = self._of_pairs(name)
        elif Backend._ensure_backend_registered(name):
            self.device_backend_map = dict.fromkeys(Backend.backend_capability[name], name)
        else:
            kind = _check(name)
            # The ranks' hosts exchange tensors of device cpu also if the program is about another device.
            self.device_backend_map = {"cpu": kind if kind == Backend.MPI else Backend.GLOO, "tpu": kind}

    @staticmethod
    def _of_pairs(text: str) -> dict[str, str]:
        expected = (
            f"The custom backend string argument is invalid: {text}. It must be in the format "
            '"<device_type1>:<backend1>,<device_type2>:<backend2>...", e.g. "cpu:gloo,tpu:xla".'
        )
        pairs: dict[str, str] = {}
        for part in text.split(","):
            kind, colon, name = part.strip().partition(":")
            name = name.strip()
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
    """Return whether a backend, or each of pairs such as `cpu:gloo,tpu:xla`, can be used."""
    names = [part.rpartition(":")[2].strip() for part in backend.lower().split(",")]
    own = (Backend.GLOO, Backend.XLA, Backend.TPU_DIST)
    return all(
        name in own or (name == Backend.MPI and is_mpi_available()) or Backend._ensure_backend_registered(name)
        for name in names
    )


def get_default_backend_for_device(device: str | _device) -> str:
    """Return the backend that serves a device, if none is given.

    Raises:
        ValueError: if there is none.
    """
    kind = (device if isinstance(device, _device) else _device(device)).type
    if kind not in Backend.default_device_backend_map:
        raise ValueError(f"Default backend not registered for device : {device}")
    return Backend.default_device_backend_map[kind]
