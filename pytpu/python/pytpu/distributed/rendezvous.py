"""How the processes of a job find each other: a URL gives each its rank, the number of ranks, and a store."""

import datetime
import numbers
import os
import time
from collections.abc import Callable, Iterator
from urllib.parse import urlparse, urlunparse

from .. import _C
from .constants import default_pg_timeout

__all__ = ["register_rendezvous_handler", "rendezvous"]

Rendezvous = Iterator[tuple[_C.Store, int, int]]

_handlers: dict[str, Callable[..., Rendezvous]] = {}


def register_rendezvous_handler(scheme: str, handler: Callable[..., Rendezvous]) -> None:
    """Let `rendezvous` call `handler` for URLs of a scheme.

    Args:
        scheme: the start of the URL, without `://`.
        handler: a generator function of the URL, which yields a store, this process's rank and the number of ranks.

    Raises:
        RuntimeError: if the scheme has a handler.
    """
    if scheme in _handlers:
        raise RuntimeError(f"Rendezvous handler for {scheme}:// already registered")
    _handlers[scheme] = handler


def rendezvous(url: str, rank: int = -1, world_size: int = -1, **kwargs) -> Rendezvous:
    """Find the other processes of the job.

    Args:
        url: `env://`, `tcp://host:port`, `file:///path`, or a URL of a registered scheme. `rank` and
            `world_size` may stand in its query.
        rank: this process's rank. -1 takes it from the URL or the environment.
        world_size: the number of ranks. -1 takes it from the URL or the environment.
        **kwargs: arguments of the handler, such as `timeout`, a `datetime.timedelta`.

    Returns:
        An iterator, which yields a store, the rank and the number of ranks.

    Raises:
        RuntimeError: if the scheme has no handler.
        ValueError: if the URL or the environment is incomplete.
        DistStoreError: in rank 0 of `env://` and `tcp://`, with the ranks that have not come in time.
    """
    if not isinstance(url, (str, bytes)):
        raise RuntimeError(f"`url` must be a string. {type(url)}: {url!r}")
    if not isinstance(rank, numbers.Integral):
        raise RuntimeError(f"`rank` must be an integer. {rank}")
    if not isinstance(world_size, numbers.Integral):
        raise RuntimeError(f"`world_size` must be an integer. {world_size}")
    return _rendezvous_helper(url, rank, world_size, **kwargs)


def _rendezvous_helper(url, rank, world_size, **kwargs):
    parts = urlparse(os.fsdecode(url))
    # Without a world size the group may grow: the environment is then only a hint.
    may_grow = world_size is None
    if may_grow:
        world_size = -1
        if parts.scheme == "env":
            rank = int(os.environ.get("RANK", rank))
            world_size = int(os.environ.get("WORLD_SIZE", world_size))
    if rank != -1 or world_size != -1 or may_grow:
        query = _query_to_dict(parts.query)
        if "rank" in query or "world_size" in query:
            raise AssertionError(f"The url: {url} has node-specific arguments(rank, world_size) already.")
        if rank != -1:
            query["rank"] = str(rank)
        if world_size != -1 or may_grow:
            query["world_size"] = str(world_size)
        parts = parts._replace(query="&".join(f"{name}={value}" for name, value in query.items()))
    if parts.scheme not in _handlers:
        raise RuntimeError(f"No rendezvous handler for {parts.scheme}://")
    return _handlers[parts.scheme](urlunparse(parts), **kwargs)


def _query_to_dict(query: str) -> dict[str, str]:
    pairs = (pair.partition("=") for pair in query.split("&") if pair)
    return {name: value for name, _, value in pairs}


def _error(scheme: str, text: str) -> ValueError:
    return ValueError(f"Error initializing torch.distributed using {scheme}:// rendezvous: {text}")


def _place(query: dict[str, str], scheme: str) -> tuple[int, int]:
    for name, words in (("rank", "rank parameter missing"), ("world_size", "world size parameter missing")):
        if name not in query:
            raise _error(scheme, words)
    return int(query["rank"]), int(query["world_size"])


def _file_handler(url: str, **kwargs) -> Rendezvous:
    parts = urlparse(url)
    if not parts.path:
        raise _error("file", "path missing")
    rank, world_size = _place(_query_to_dict(parts.query), "file")
    store = _C.FileStore(parts.path, world_size)
    if "timeout" in kwargs:
        store.set_timeout(kwargs["timeout"])
    _C._rendezvous_announce(store, rank)
    yield store, rank, world_size
    raise RuntimeError("Unable to perform rerendezvous using file:// method")


def _agent_serves(host: str, port: int) -> bool:
    """Whether the agent of `torchrun` runs the server at this address."""
    named = (os.environ.get("MASTER_ADDR"), os.environ.get("MASTER_PORT"))
    return os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True" and named == (host, str(port))


def _meet_over_tcp(
    host: str, port: int, rank: int, world_size: int, timeout: datetime.timedelta, query: dict[str, str]
) -> _C.Store:
    if not 0 <= port < 2**16:
        raise ValueError(f"port must have value from 0 to 65535 but was {port}.")
    begin = time.monotonic()
    has_agent = _agent_serves(host, port)
    is_server = rank == 0 and not has_agent
    use_libuv = query.get("use_libuv", os.environ.get("USE_LIBUV", "1")) == "1"
    store: _C.Store = _C.TCPStore(
        host,
        port,
        is_master=is_server,
        timeout=timeout,
        wait_for_workers=False,
        multi_tenant=True,
        use_libuv=use_libuv,
    )
    if has_agent:
        # The agent's store keeps the keys of workers that failed before these.
        # The agents of pytpu make a new store for each round. Their counts of restarts differ: a restart because of
        # another node does not count.
        if os.environ.get("PYTPU_STORE_IS_NEW") != "1":
            store = _C.PrefixStore(f"/worker/attempt_{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
    _C._rendezvous_announce(store, rank)
    if is_server and world_size > 0:
        if timeout:
            left = timeout - datetime.timedelta(seconds=time.monotonic() - begin)
            # Zero would mean: for ever.
            timeout = max(left, datetime.timedelta(milliseconds=1))
        _C._rendezvous_wait(store, world_size, timeout)
    return store


def _tcp_handler(url: str, timeout: datetime.timedelta = default_pg_timeout, **kwargs) -> Rendezvous:
    parts = urlparse(url)
    if parts.port is None:
        raise _error("tcp", "port number missing")
    query = _query_to_dict(parts.query)
    rank, world_size = _place(query, "tcp")
    if parts.hostname is None:
        raise AssertionError("hostname cannot be None")
    yield _meet_over_tcp(parts.hostname, parts.port, rank, world_size, timeout, query), rank, world_size
    raise RuntimeError("Unable to perform re-rendezvous using tcp:// method")


def _env_handler(url: str, timeout: datetime.timedelta = default_pg_timeout, **kwargs) -> Rendezvous:
    query = _query_to_dict(urlparse(url).query)

    def variable(name):
        if not os.environ.get(name):
            raise _error("env", f"environment variable {name} expected, but not set")
        return os.environ[name]

    rank = int(query["rank"] if "rank" in query else variable("RANK"))
    world_size = int(query["world_size"] if "world_size" in query else variable("WORLD_SIZE"))
    host, port = variable("MASTER_ADDR"), int(variable("MASTER_PORT"))
    yield _meet_over_tcp(host, port, rank, world_size, timeout, query), rank, world_size
    raise RuntimeError("Unable to perform re-rendezvous using env:// method")


register_rendezvous_handler("tcp", _tcp_handler)
register_rendezvous_handler("env", _env_handler)
register_rendezvous_handler("file", _file_handler)
