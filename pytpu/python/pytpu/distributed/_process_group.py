"""Process groups."""

from __future__ import annotations

import copy
import datetime
import enum
import fcntl
import operator
import os
import socket
import struct

from .. import device as _device
from .._C import _ProcessGroup
from ._methods import (
    _Collectives,
    _is_native,
)
from .constants import default_pg_timeout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .._C import Store

    #: What has the methods of `_C._ProcessGroup` that run collectives.
    _Engine = Any


def _interface_address(name: str) -> str:
    """Return the IPv4 address of a network interface."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            answer = fcntl.ioctl(probe.fileno(), 0x8915, struct.pack("256s", name.encode()[:15]))
        except OSError as error:
            raise RuntimeError(f"GLOO_SOCKET_IFNAME: Unable to find address for: {name}") from error
    return socket.inet_ntoa(answer[20:24])


def _make_engine(
    store: Store,
    rank: int,
    size: int,
    name: str,
    timeout: datetime.timedelta,
    ranks: list[int],
    uses_mpi: bool = False,
    is_planned: bool = False,
) -> _ProcessGroup:
    if is_planned:
        return _ProcessGroup(store, rank, size, name, timeout, ranks, is_planned=True)
    interface = os.environ.get("GLOO_SOCKET_IFNAME", "").split(",")[0]
    address = _interface_address(interface) if interface else None
    # The address of this host on the way to the store reaches the other ranks, too.
    host, port = os.environ.get("MASTER_ADDR", "localhost"), os.environ.get("MASTER_PORT", "1")
    return _ProcessGroup(store, rank, size, name, timeout, ranks, address, f"{host}:{port}", uses_mpi)


class ProcessGroupGloo(_Collectives):
    """The engine of device `cpu` of a group: shared memory within a host, TCP between hosts.

    It has the name of PyTorch's engine, because it does the same; it is this library's own.

    Args:
        store: the store in which the ranks meet. No other group may use the same keys.
        rank: this rank.
        size: the number of ranks.
        timeout: the limit of each collective.
    """

    class Options:
        """Options of the engine: the timeout. `_devices` and `_threads` are accepted, and have no effect."""

        def __init__(self, timeout: datetime.timedelta = default_pg_timeout) -> None:
            self._limit, self._threads = timeout, 2
            self._devices: list[ProcessGroupGloo.Device] = []
            self.global_ranks_in_group: list[int] = []
            self.group_name = ""

        @property
        def _timeout(self) -> datetime.timedelta:
            """The limit of each collective. It may be set in seconds."""
            return self._limit

        @_timeout.setter
        def _timeout(self, limit: datetime.timedelta | float) -> None:
            self._limit = limit if isinstance(limit, datetime.timedelta) else datetime.timedelta(seconds=limit)

    _Options = Options

    class Device:
        """A network interface."""

        def __init__(self, text: str) -> None:
            self._text = text

        def __repr__(self) -> str:
            return self._text

    supports_splitting = True
    supports_coalescing = False

    def __init__(
        self,
        store: Store,
        rank: int,
        size: int,
        options: Options | datetime.timedelta | None = None,
        *,
        timeout: datetime.timedelta = default_pg_timeout,
    ) -> None:
        if isinstance(options, datetime.timedelta):
            options = self.Options(options)
        self.options = self.Options(timeout) if options is None else options
        self._engine = _make_engine(store, rank, size, "0", self.options._timeout, list(range(size)))
        self._rank, self._size, self._device_backends = rank, size, {"cpu": "gloo"}

    @classmethod
    def _of(cls, group: ProcessGroup) -> ProcessGroupGloo:
        """Return the engine of a group."""
        made = object.__new__(cls)
        made.options = cls.Options(group._engine.timeout)
        made._engine, made._rank, made._size = group._engine, group._rank, group._size
        made._device_backends = {"cpu": "gloo"}
        return made

    @staticmethod
    def create_device(hostname: str = "", interface: str = "", lazy_init: bool | None = None) -> Device:
        """Return a description of a network interface."""
        return ProcessGroupGloo.Device(f"tcp, {interface or hostname}")

    @staticmethod
    def create_default_device(lazy_init: bool | None = None) -> Device:
        """Return a description of the default network interface."""
        return ProcessGroupGloo.Device("tcp, default")

    def set_timeout(self, timeout: datetime.timedelta) -> None:
        """Set the limit of later collectives."""
        super().set_timeout(timeout)
        self.options._timeout = timeout

    _set_default_timeout = set_timeout

    def name(self) -> str:
        """Return `gloo`."""
        return "gloo"

    _get_backend_name = name


class _EveryDevice(dict):
    """A dict with the same value for every kind of device."""

    def __init__(self, value: Any = "custom") -> None:
        super().__init__(cpu=value)
        self.value = value

    def __contains__(self, kind: object) -> bool:
        return True

    def __missing__(self, kind: str) -> Any:
        return self.value


class ProcessGroup(_Collectives):
    """Ranks that run collectives together. `init_process_group` and `new_group` make them.

    The methods return a `Work` each. The functions of `torch.distributed` are easier to use. A subclass overrides the
    collectives that it offers, for `Backend.register_backend`. A group of the class itself gets engines by
    `_register_backend`.

    Args:
        store: the store of the group. It may be left out.
        rank: this rank.
        size: the number of ranks.
    """

    #: The device of this rank, if `init_process_group` was given one.
    bound_device_id: _device | None
    _name: str | None
    _description: str
    _store: Any
    #: The type and the object of each registered engine, by the kind of device.
    _backends: dict[str, tuple[ProcessGroup.BackendType, Any]] = {}
    _default_type: ProcessGroup.BackendType | None = None
    #: The groups made from this one, if it is the group of all ranks.
    _counts: Any = None
    #: The backend that was asked for, if it is one for all devices.
    _backend_name = ""

    class BackendType(enum.IntEnum):
        """Numbers of backends."""

        UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI, CUSTOM = range(7)

    def __init__(self, *arguments: Any) -> None:
        from ._made_groups import _MethodEngine

        if len(arguments) not in (2, 3):
            raise TypeError("ProcessGroup() takes a rank and a size, and may take a store before them")
        store, rank, size = (None, *arguments) if len(arguments) == 2 else arguments
        self._rank, self._size, self._store = operator.index(rank), operator.index(size), store
        self._name, self._description, self._default_type = None, "undefined", ProcessGroup.BackendType.UNDEFINED
        self._trace, self.bound_device_id = None, None
        self._device_backends, self._made_engines, self._backends = {}, {}, {}
        self._engine = _MethodEngine(self, self._rank, self._size)
        if type(self) is not ProcessGroup:
            # The class has collectives of its own, for all devices.
            self._device_backends = _EveryDevice()
            self._made_engines = _EveryDevice(self._engine)

    def _register_backend(
        self, device: _device | str, backend_type: ProcessGroup.BackendType, backend: Any = None
    ) -> None:
        """Let an engine serve a kind of device. The first one runs barriers, until `_set_default_backend` is called."""
        from ._made_groups import _MethodEngine

        kind = _device(device).type
        if isinstance(backend, _Collectives):
            engine: Any = backend._engine
        else:
            engine = _MethodEngine(backend, self._rank, self._size, self._engine.timeout)
        if self._engine is None or isinstance(self._engine, _MethodEngine) and self._engine.target is self:
            self._engine = engine
        name = backend.name() if backend is not None else "undefined"
        self._device_backends = {**self._device_backends, kind: name}
        self._made_engines = {**self._made_engines, kind: engine}
        self._backends = {**self._backends, kind: (backend_type, backend)}

    def _set_default_backend(self, backend_type: ProcessGroup.BackendType) -> None:
        """Choose the engine that runs barriers, by the type under which it was registered."""
        self._default_type = backend_type
        for kind, (each, _) in self._backends.items():
            if each == backend_type:
                self._engine = self._made_engines[kind]

    def split_group(
        self,
        ranks: list[int],
        timeout: datetime.timedelta | None = None,
        opts: Any = None,
        group_name: str | None = None,
        group_desc: str | None = None,
    ) -> ProcessGroup | None:
        """Return a group of some ranks, or `None` on the others. Each engine of this group makes a part of itself.

        Args:
            ranks: ranks of this group.
            timeout: the limit of each collective. The default is that of this group.
            opts: options of the default engine. The others have those of this group's engines.
            group_name: the name of the new group.
            group_desc: the description of the new group.
        """
        if self._rank not in ranks:
            return None
        name = group_name or f"{self._name}:split:{'_'.join(map(str, ranks))}"
        part = ProcessGroup(self._store, ranks.index(self._rank), len(ranks))
        for kind, (backend_type, backend) in self._backends.items():
            is_default = self._made_engines[kind] is self._engine
            chosen = copy.copy(opts if opts is not None and is_default else backend.options)
            chosen.group_name = name
            if timeout is not None:
                chosen._timeout = timeout
            part._register_backend(kind, backend_type, backend.split(self._store, ranks, chosen))
        part._set_default_backend(self._default_type)
        part._set_group_name(name)
        part._set_group_desc(group_desc or f"{self._description}:split")
        return part

    @classmethod
    def _make(
        cls,
        store: Store,
        rank: int,
        ranks: list[int],
        name: str,
        description: str,
        timeout: datetime.timedelta,
        device_backends: dict[str, str],
        device_id: _device | None,
        partition: list[list[int]] | None = None,
        is_planned: bool = False,
    ) -> ProcessGroup:
        group = object.__new__(cls)
        uses_mpi = device_backends.get("cpu") == "mpi"
        group._engine = _make_engine(store, rank, len(ranks), name, timeout, ranks, uses_mpi, is_planned)
        group._partition, group._is_planned = partition, is_planned
        group._rank, group._size = rank, len(ranks)
        group._name, group._description, group._store = name, description, store
        group._device_backends, group.bound_device_id = device_backends, device_id
        return group

    def name(self) -> str:
        """Return the backend that was asked for, else that of the first device. An engine in Python is `custom`."""
        own = getattr(type(self), "getBackendName", None)
        if own is not None:
            return own(self)
        if not _is_native(self._engine):
            return "custom" if self._backends else "undefined"
        return self._backend_name or next(iter(self._device_backends.values()), "undefined")

    @property
    def group_name(self) -> str:
        """The name of the group, the same on all ranks."""
        if self._name is None:
            raise RuntimeError("ProcessGroup name not set")
        return self._name

    def _set_group_name(self, name: str) -> None:
        self._name = name

    @property
    def group_desc(self) -> str:
        """The description that was given to `new_group`."""
        return self._description

    def _set_group_desc(self, description: str) -> None:
        self._description = description

    @property
    def _device_types(self) -> list[_device]:
        """The devices whose tensors the group takes."""
        return [_device(kind) for kind in self._device_backends]

    def _id(self) -> int:
        return id(self)

    def _get_backend(self, device: _device | str) -> Any:
        """Return the engine of a device."""
        kind = _device(device).type
        if kind not in self._device_backends:
            raise RuntimeError(f"Could not find the default backend type for device type {kind}")
        if kind in self._backends:
            return self._backends[kind][1]
        return self if self._made_engines else ProcessGroupGloo._of(self)

    def get_backend(self, device: _device | str) -> Any:
        """Return the engine of a device."""
        return self._get_backend(device)

    def _get_backend_name(self) -> str:
        return self.name()

    def get_group_store(self) -> Store:
        """Return the store in which the ranks meet."""
        return self._store

    @property
    def timeout(self) -> datetime.timedelta:
        """The limit of each collective."""
        return self._engine.timeout

    def _has_hooks(self) -> bool:
        return False
