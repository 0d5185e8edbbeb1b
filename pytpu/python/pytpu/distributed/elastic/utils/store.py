"""Exchanges between agents through a store."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .... import _C

__all__ = ["barrier", "get_all", "store_timeout", "synchronize"]

# Rank 0 names at most this many missing ranks.
_MAX_MISSING = 16


@contextmanager
def store_timeout(store: _C.Store, timeout: float) -> Iterator[None]:
    """Set the timeout of a store inside a `with` block.

    Args:
        store: the store.
        timeout: seconds.
    """
    before = store.timeout
    store.set_timeout(datetime.timedelta(seconds=timeout))
    try:
        yield
    finally:
        store.set_timeout(before)


def _arrive(store: Any, world_size: int, key_prefix: str) -> str:
    """Count this process in. Return the key that the last process sets."""
    last = f"{key_prefix}/last_member"
    if store.add(f"{key_prefix}/num_members", 1) == world_size:
        store.set(last, "1")
    return last


def get_all(store: _C.Store, rank: int, prefix: str, world_size: int) -> list[bytes]:
    """Return the values of the keys `{prefix}{rank}` of all ranks. Wait until all are set.

    Args:
        store: the store.
        rank: rank of this process. Rank 0, which may run the server of the store, waits until all ranks have read.
        prefix: beginning of the keys. It serves one exchange.
        world_size: number of ranks.
    """
    values = store.multi_get([f"{prefix}{i}" for i in range(world_size)])
    last = _arrive(store, world_size, f"{prefix}/finished")
    if rank == 0:
        store.wait([last])
    return values


def synchronize(
    store: _C.Store, data: bytes, rank: int, world_size: int, key_prefix: str, timeout: float = 300
) -> list[bytes]:
    """Exchange `data` with all ranks. Return the data of all ranks, in their order.

    Args:
        store: the store.
        data: bytes of this rank.
        rank: rank of this process.
        world_size: number of ranks.
        key_prefix: beginning of the keys. It serves one exchange.
        timeout: seconds to wait for the others.
    """
    with store_timeout(store, timeout):
        store.set(f"{key_prefix}{rank}", data)
        return get_all(store, rank, key_prefix, world_size)


def barrier(
    store: _C.Store,
    world_size: int,
    key_prefix: str,
    barrier_timeout: float = 300,
    rank: int | None = None,
    rank_tracing_decoder: Callable[[int], str] | None = None,
    trace_timeout: float = 10,
) -> None:
    """Wait until all processes have called this function.

    Args:
        store: the store.
        world_size: number of processes.
        key_prefix: beginning of the keys. It serves one barrier.
        barrier_timeout: seconds to wait.
        rank: rank of this process. With it, the error names the missing ranks.
        rank_tracing_decoder: a function that describes a rank in the error.
        trace_timeout: seconds to look for missing ranks.

    Raises:
        DistStoreError: if a process has not come in time.
    """
    if rank is None and rank_tracing_decoder is not None:
        raise AssertionError("Tracing requires rank information")
    with store_timeout(store, barrier_timeout):
        last = _arrive(store, world_size, key_prefix)
        try:
            store.wait([last])
        except _C._DistStoreError as error:
            if rank is None:
                raise
            missing = _missing_ranks(store, world_size, key_prefix, rank, rank_tracing_decoder or str, trace_timeout)
            if missing is None:
                raise
            raise _C._DistStoreError(
                f"Timed out waiting on barrier on rank {rank}, for key prefix: {key_prefix} (world_size={world_size}, "
                f"missing_ranks=[{', '.join(missing)}], timeout={barrier_timeout})"
            ) from error


def _missing_ranks(store, world_size, key_prefix, rank, describe, timeout):
    """Rank 0 looks for the ranks that have not timed out as well. The others refer to rank 0."""
    store.set(f"{key_prefix}{rank}/TRACE", "1")
    gate = f"{key_prefix}/TRACING_GATE"
    if rank != 0:
        try:
            store.wait([gate])
        except _C._DistStoreError:  # Rank 0 is missing, or slow.
            return None
        return [f"[<check rank 0 ({describe(0)}) for missing rank info>]"]
    missing = []
    for other in range(1, world_size):
        if len(missing) >= _MAX_MISSING:
            break
        # The first missing rank has used up the time of all.
        patience = datetime.timedelta(seconds=timeout) if not missing else datetime.timedelta(milliseconds=1)
        try:
            store.wait([f"{key_prefix}{other}/TRACE"], patience)
        except _C._DistStoreError:
            missing.append(describe(other))
    store.set(gate, "1")
    return missing
