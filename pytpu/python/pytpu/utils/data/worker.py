"""Worker processes of a `DataLoader`.

Workers start as `multiprocessing` starts processes: before Python 3.14 they are forked on Linux, so a dataset may be
anything, a lambda too, and a script needs no main guard. Nothing is left at work on a device while a process forks, and
a forked worker computes on the host. Batches travel as NumPy arrays, which pickle without help and without
shared-memory handles that could leak.
"""

from __future__ import annotations

import copy
import os
import queue
import random
import sys
import threading
import time

from ..._utils import ExceptionWrapper
from .iteration import _BaseDataLoaderIter, _DatasetKind, fetch, fetch_stream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .dataloader import DataLoader


_worker_info = None


class WorkerInfo:
    """Describe the worker process that a dataset runs in.

    Attributes:
        id: Number of the worker, in `[0, num_workers)`.
        num_workers: Number of workers.
        seed: Seed of the random number generators of this worker.
        dataset: Copy of the dataset in this worker.
    """

    def __init__(self, **kwargs: Any) -> None:
        self.__dict__.update(kwargs)

    def __repr__(self) -> str:
        return f"WorkerInfo({', '.join(f'{k}={v}' for k, v in self.__dict__.items())})"


class ManagerWatchdog:
    """Check whether the process that started a worker is alive."""

    def __init__(self) -> None:
        self.manager_pid = os.getppid()

    def is_alive(self) -> bool:
        """Return whether the parent process is alive."""
        return os.getppid() == self.manager_pid


def get_worker_info() -> WorkerInfo | None:
    """Return the `WorkerInfo` of this process, or `None` outside a worker.

    Example:
        >>> import pytpu as torch
        >>> torch.utils.data.get_worker_info() is None
        True
    """
    return _worker_info


class _Packed:
    """A tensor on the way between processes: bytes, dtype, shape and, if it is not contiguous, strides.

    It has bytes instead of a NumPy array: unpickling an array imports NumPy. An interrupt during that import leaves a
    process that cannot import NumPy again.
    """

    def __init__(self, tensor):
        import pytpu as torch

        tensor = tensor.detach().resolve_conj().resolve_neg().cpu()
        self.dtype = str(tensor.dtype).rpartition(".")[2]
        self.shape = tuple(tensor.shape)
        self.stride = None if tensor.is_contiguous() else torch.empty_like(tensor).stride()
        self.bytes = torch._C._to_bytes(tensor)

    def unpack(self):
        """Return the tensor."""
        import pytpu as torch

        dtype = getattr(torch, self.dtype)
        tensor = torch._C._from_bytes(self.bytes, dtype).view(self.shape)
        return (
            tensor if self.stride is None else torch.empty_strided(self.shape, self.stride, dtype=dtype).copy_(tensor)
        )


def like(batch: Any, values: Any) -> Any:
    """Return a dictionary of `values`, of the type of `batch` if possible."""
    try:
        made = copy.copy(batch)
        made.update(values)
        return made
    except Exception:
        return values


def _map_values(batch, kind, fn):
    if isinstance(batch, kind):
        return fn(batch)
    if isinstance(batch, dict):
        return like(batch, {k: _map_values(v, kind, fn) for k, v in batch.items()})
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(_map_values(v, kind, fn) for v in batch))
    if type(batch) in (tuple, list):
        return type(batch)(_map_values(v, kind, fn) for v in batch)
    return batch


def _generate_state(base_seed, worker_id):
    """Return four numbers of 32 bits that seed NumPy in a worker."""
    import numpy

    words = [worker_id, base_seed & 0xFFFFFFFF, base_seed >> 32, 0]
    return numpy.random.SeedSequence(words).generate_state(4)


def _seed_numpy(base_seed, worker_id):
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(_generate_state(base_seed, worker_id))


class _IterableDatasetStopIteration:
    """A message of loaders of other packages: the stream of a worker has ended."""

    def __init__(self, worker_id: int) -> None:
        self.worker_id = worker_id


class _ResumeIteration:
    """A message of loaders of other packages: a worker begins a new epoch, with a seed for random data pipes."""

    def __init__(self, seed: int | None = None) -> None:
        self.seed = seed


def _failure(worker_id):
    """Return the exception that is being handled, to be raised in the process of the loader."""
    return ExceptionWrapper(where=f"in DataLoader worker process {worker_id}")


def _worker_main(worker_id, num_workers, base_seed, job, requests, results):
    import pytpu as torch

    global _worker_info
    dataset, auto_collate, collate_fn, drop_last, streams, init_fn = job
    seed = base_seed + worker_id
    random.seed(seed)
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    _seed_numpy(base_seed, worker_id)
    _worker_info = WorkerInfo(id=worker_id, num_workers=num_workers, seed=seed, dataset=dataset)
    failure = None
    try:
        if init_fn is not None:
            init_fn(worker_id)
    except Exception:
        failure = _failure(worker_id)
    stream = None
    parent = os.getppid()
    # Do not block exit on results that the parent will not read.
    results.cancel_join_thread()
    while True:
        try:
            request = requests.get(timeout=5)
        except queue.Empty:
            if os.getppid() != parent:
                return  # The parent has ended without a message.
            continue
        if request is None:
            return
        epoch, number, indices = request
        if number is None:
            stream = None  # A new epoch starts the stream again.
            continue
        try:
            if failure is not None:
                answer = failure
            elif streams:
                if stream is None:
                    stream = iter(dataset)
                answer = fetch_stream(stream, indices, auto_collate, collate_fn, drop_last)
            else:
                answer = fetch(dataset, indices, auto_collate, collate_fn)
            if not isinstance(answer, ExceptionWrapper):
                answer = _map_values(answer, torch.Tensor, _Packed)
        except StopIteration:
            # `StopIteration` from a dataset with indices is an error like any other.
            answer = StopIteration if streams else _failure(worker_id)
        except Exception:
            answer = _failure(worker_id)
        results.put((epoch, number, worker_id, answer))


class WorkerPool:
    """The worker processes of a loader, and the queues to and from them."""

    def __init__(self, loader: DataLoader[Any], base_seed: int) -> None:
        import multiprocessing

        context: Any = loader.multiprocessing_context or multiprocessing.get_context()
        self._results = context.Queue()
        self._requests = []
        self._processes = []
        self._owner = os.getpid()
        self._epoch = 0
        job = (
            loader.dataset,
            loader._auto_collation,
            loader.collate_fn,
            loader.drop_last,
            loader._dataset_kind == _DatasetKind.Iterable,
            loader.worker_init_fn,
        )
        for worker_id in range(loader.num_workers):
            requests = context.Queue()
            # When the parent exits, it ends its daemons.
            process = context.Process(
                target=_worker_main,
                args=(worker_id, loader.num_workers, base_seed, job, requests, self._results),
                daemon=True,
            )
            process.start()
            self._requests.append(requests)
            self._processes.append(process)

    def next_epoch(self) -> int:
        """Begin an epoch, and return its number. Answers of earlier ones are dropped."""
        self._epoch += 1
        return self._epoch

    def send(self, worker_id: int, request: tuple[Any, ...]) -> None:
        """Ask a worker for a batch."""
        self._requests[worker_id].put(request)

    def receive(self, timeout: float) -> Any:
        """Return the next answer of any worker.

        Args:
            timeout: Seconds to wait. `0` waits without a limit.

        Raises:
            RuntimeError: If the time is over, or a worker has died.
        """
        from multiprocessing import connection

        arrived = self._results._reader
        ready = connection.wait([arrived, *(p.sentinel for p in self._processes)], timeout or None)
        if arrived in ready:
            return self._results.get()
        if not ready:
            raise RuntimeError(f"DataLoader timed out after {timeout} seconds")
        dead = [str(p.pid) for p in self._processes if p.sentinel in ready]
        raise RuntimeError(f"DataLoader worker (pid(s) {', '.join(dead)}) exited unexpectedly")

    def close(self) -> None:
        """End the workers. Terminate those that are still running after 5 seconds."""
        processes, self._processes = self._processes, []
        if not processes:
            return
        for requests in self._requests:
            requests.put(None)
            requests.close()
        deadline = time.monotonic() + 5
        for process in processes:
            process.join(timeout=max(0, deadline - time.monotonic()))
            if process.is_alive():
                process.terminate()
                process.join()
        self._results.close()

    def __del__(self) -> None:
        # A forked process has a copy of this object. The workers belong to the process that started them.
        if self._processes and self._owner == os.getpid() and threading.main_thread().is_alive():
            self.close()


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    """Iterator over the batches of one epoch, in order unless the loader says otherwise."""

    def __init__(self, loader):
        is_kept = loader.persistent_workers
        kept = getattr(loader, "_pool", None) if is_kept else None
        if kept is None:
            super().__init__(loader)
            kept = WorkerPool(loader, self._base_seed)
            if is_kept:
                loader._pool = kept
        else:
            # The workers have their seeds already, so none is drawn.
            self._take_attributes(loader)
            self._reset(loader)
        self._pool = pool = kept
        self._workers = pool._processes
        self._pin_memory = loader.pin_memory
        self._prefetch_factor = loader.prefetch_factor
        self._in_order = loader.in_order
        self._epoch = epoch = pool.next_epoch()
        self._close_at_end = not is_kept
        self._active = list(range(loader.num_workers))
        self._turn = 0
        self._sent = 0
        self._next = 0
        self._arrived = {}
        self._pending = set()
        if self._dataset_kind == _DatasetKind.Iterable:
            for worker_id in self._active:
                pool.send(worker_id, (epoch, None, None))
        for _ in range(loader.prefetch_factor * loader.num_workers):
            self._request()

    def _request(self):
        if not self._active:
            return
        try:
            indices = self._next_index()
        except StopIteration:
            return
        worker_id = self._active[self._turn % len(self._active)]
        self._turn += 1
        self._pool.send(worker_id, (self._epoch, self._sent, indices))
        self._pending.add(self._sent)
        self._sent += 1

    def _retire(self, worker_id):
        # The worker's stream has ended, so it gets no more requests.
        if worker_id in self._active:
            self._turn = self._active.index(worker_id)
            self._active.remove(worker_id)

    def _next_data(self):
        while True:
            if self._in_order:
                ready = self._next if self._next in self._arrived else None
            else:
                ready = next(iter(self._arrived), None)
            if ready is not None:
                answer = self._arrived.pop(ready)
                self._next += 1
                self._request()
                if answer is StopIteration:
                    continue
                if isinstance(answer, ExceptionWrapper):
                    answer.reraise()
                return self._unpacked(answer)
            if not self._pending:
                self._finish()
                raise StopIteration
            epoch, number, worker_id, answer = self._pool.receive(self._timeout)
            if epoch != self._epoch:
                continue  # It is left over from an epoch that was not finished.
            self._pending.discard(number)
            if answer is StopIteration:
                self._retire(worker_id)
            self._arrived[number] = answer

    def _unpacked(self, answer):
        from .dataloader import pinned

        batch = _map_values(answer, _Packed, _Packed.unpack)
        return pinned(batch) if self._pin_memory else batch

    def _shutdown_workers(self):
        """End the workers, also those of a loader that keeps them."""
        self._close_at_end = False
        if self._pool is not None and self._pool._owner == os.getpid():
            self._pool.close()

    def _finish(self):
        if self._close_at_end:
            self._close_at_end = False
            self._pool.close()

    def __del__(self):
        if (
            getattr(self, "_close_at_end", False)
            and self._pool._owner == os.getpid()
            and threading.main_thread().is_alive()
        ):
            self._finish()
