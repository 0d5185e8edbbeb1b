"""`torch.distributed.rpc`: calls of functions in other processes.

`init_rpc` makes this process a worker with a name. Then `rpc_sync` and `rpc_async` call functions in the other workers.
Arguments and results are pickled, tensors by their values. Values that stay in another process (`remote` and
`RRef`) are not part of this package, so `is_available` returns `False`.

Each worker listens on a TCP port. Only processes that can read the job's store know the key that a connection needs. A
worker runs any function that another worker asks for.
"""

from __future__ import annotations

import datetime
import enum

from .. import _WHY
from ..rendezvous import rendezvous

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ...futures import Future
    from ..distributed_c10d import Store
    from ._worker import WorkerInfo, _Worker

__all__ = [
    "BackendType",
    "RRef",
    "RpcBackendOptions",
    "TensorPipeRpcBackendOptions",
    "WorkerInfo",
    "get_worker_info",
    "init_rpc",
    "is_available",
    "rpc_async",
    "rpc_sync",
    "shutdown",
]

#: The worker of this process, between `init_rpc` and `shutdown`.
_current: _Worker | None = None
#: The store of the last `init_rpc`. A file store removes its file when it is dropped, and programs expect the file to
#: be there after `shutdown`.
_store: Store | None = None


class BackendType(enum.Enum):
    """The way in which workers are connected."""

    TENSORPIPE = "TENSORPIPE"


class RpcBackendOptions:
    """Options of `init_rpc`.

    Args:
        rpc_timeout: the default limit of a call, in seconds. 0 means no limit.
        init_method: where the workers meet, as in `init_process_group`.
    """

    def __init__(self, rpc_timeout: float = 60.0, init_method: str = "env://") -> None:
        self.rpc_timeout, self.init_method = rpc_timeout, init_method


class TensorPipeRpcBackendOptions(RpcBackendOptions):
    """Options of `init_rpc`, by PyTorch's name.

    Args:
        num_worker_threads: how many calls of other workers run at the same time.
        rpc_timeout: the default limit of a call, in seconds. 0 means no limit.
        init_method: where the workers meet, as in `init_process_group`.
        device_maps: must be empty: tensors keep their devices.
        devices: accepted, and has no effect.
        _transports: accepted, and has no effect: connections are TCP.
        _channels: accepted, and has no effect.

    Raises:
        NotImplementedError: if `device_maps` is not empty.
    """

    def __init__(
        self,
        *,
        num_worker_threads: int = 16,
        rpc_timeout: float = 60.0,
        init_method: str = "env://",
        device_maps: dict[str, Any] | None = None,
        devices: list[Any] | None = None,
        _transports: list[str] | None = None,
        _channels: list[str] | None = None,
    ) -> None:
        if device_maps:
            raise NotImplementedError("TensorPipeRpcBackendOptions: device_maps: tensors keep their devices")
        super().__init__(rpc_timeout, init_method)
        self.num_worker_threads = num_worker_threads


class RRef:
    """A value in another process. Making one raises `NotImplementedError`."""

    def __init__(self, *args, **kwargs):
        raise NotImplementedError(f"torch.distributed.rpc.RRef: {_WHY}")

    def __class_getitem__(cls, item):
        return cls


def is_available() -> bool:
    """Return `False`: `remote` and `RRef` are missing, though calls work."""
    return False


def _this_worker() -> _Worker:
    if _current is None:
        raise RuntimeError(
            "RPC has not been initialized. Call torch.distributed.rpc.init_rpc to initialize the RPC framework."
        )
    return _current


def init_rpc(
    name: str,
    backend: BackendType | None = None,
    rank: int = -1,
    world_size: int | None = None,
    rpc_backend_options: RpcBackendOptions | None = None,
) -> None:
    """Make this process a worker, and wait for the other ones.

    Args:
        name: the name of this worker. It is unique in the job.
        backend: accepted, and has no effect: there is one way to connect workers.
        rank: the number of this worker. -1 takes it from the URL or the environment.
        world_size: the number of workers. `None` takes it from the URL or the environment.
        rpc_backend_options: where the workers meet, and the limit of calls.

    Raises:
        RuntimeError: if this process is a worker already, or if a name occurs twice.

    Example:
        >>> from pytpu.distributed import rpc
        >>> options = rpc.TensorPipeRpcBackendOptions(init_method="tcp://127.0.0.1:0")
        >>> rpc.init_rpc("alone", rank=0, world_size=1, rpc_backend_options=options)
        >>> rpc.rpc_sync("alone", pow, args=(2, 5))
        32
        >>> rpc.shutdown()
    """
    global _current, _store
    if _current is not None:
        raise RuntimeError("RPC is already initialized")
    from ._worker import _Worker

    options = TensorPipeRpcBackendOptions() if rpc_backend_options is None else rpc_backend_options
    size = -1 if world_size is None else world_size
    _store, rank, size = next(rendezvous(options.init_method, rank, size))
    _current = _Worker(name, rank, size, _store, options)


def get_worker_info(worker_name: str | None = None) -> WorkerInfo:
    """Return the name and the number of a worker. The default is this one."""
    return _this_worker().find(worker_name)


def rpc_async(
    to: str | int | WorkerInfo,
    func: Callable[..., Any],
    args: tuple[Any, ...] | None = None,
    kwargs: dict[str, Any] | None = None,
    timeout: float = -1.0,
) -> Future:
    """Start a call of a function in a worker.

    Args:
        to: the worker, its name or its number.
        func: a function that can be pickled, such as one of a module.
        args: its arguments.
        kwargs: its keyword arguments.
        timeout: the limit in seconds. 0 means no limit, -1 the default of `init_rpc`.

    Returns:
        A future of the result. It has the error of the function, of the connection, or of the limit.
    """
    return _this_worker().call(to, func, args or (), kwargs or {}, timeout)


def rpc_sync(
    to: str | int | WorkerInfo,
    func: Callable[..., Any],
    args: tuple[Any, ...] | None = None,
    kwargs: dict[str, Any] | None = None,
    timeout: float = -1.0,
) -> Any:
    """Call a function in a worker, and return its result.

    Args:
        to: the worker, its name or its number.
        func: a function that can be pickled, such as one of a module.
        args: its arguments.
        kwargs: its keyword arguments.
        timeout: the limit in seconds. 0 means no limit, -1 the default of `init_rpc`.
    """
    return rpc_async(to, func, args, kwargs, timeout).wait()


def shutdown(graceful: bool = True, timeout: float = 0) -> None:
    """End this worker.

    Args:
        graceful: whether to wait until all workers are here and their calls are done.
        timeout: the limit of this wait in seconds. 0 means the store's limit.
    """
    global _current
    worker = _this_worker()
    try:
        if graceful:
            worker.wait_for_all(datetime.timedelta(seconds=timeout) if timeout else None)
    finally:
        worker.close()
        _current = None


def __getattr__(name: str) -> Any:
    if name == "WorkerInfo":
        from ._worker import WorkerInfo

        return WorkerInfo
    raise AttributeError(f"module 'torch.distributed.rpc' has no attribute '{name}'")
