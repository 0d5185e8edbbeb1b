"""Ranks that are threads of one process, and tensors that are spread over them, for tests of checkpoints."""

import itertools
import math
import pickle
import threading

import pytpu as torch
from pytpu.distributed.checkpoint import state_dict_saver, utils
from pytpu.distributed.checkpoint.metadata import ChunkStorageMetadata

SECONDS = 60


class Sharded:
    """A tensor of which this rank has some chunks: the smallest class that takes part in checkpoints.

    Args:
        size: Size of the whole tensor.
        chunks: Pairs of the first index and the local memory of a chunk.
    """

    requires_grad = False

    def __init__(self, size, chunks):
        self._size = torch.Size(size)
        self.chunks = [(torch.Size(offset), tensor) for offset, tensor in chunks]

    def size(self):
        return self._size

    def __create_chunk_list__(self):
        return [ChunkStorageMetadata(offset, tensor.size()) for offset, tensor in self.chunks]

    def __get_tensor_shard__(self, index):
        return next(tensor for offset, tensor in self.chunks if offset == index.offset)


def boxes_of(size, parts):
    """Return the places of a grid: `parts[d]` pieces in dimension `d`, the last of which may be smaller or empty."""
    cuts = []
    for n, count in zip(size, parts):
        step = math.ceil(n / count)
        cuts.append([(min(i * step, n), max(0, min(step, n - i * step))) for i in range(count)])
    return [tuple(zip(*box)) for box in itertools.product(*cuts)]


def pieces(whole, parts, rank, world):
    """Return the pieces of a grid that a rank has, as a `Sharded` with memory of its own."""
    chunks = []
    for i, (offset, size) in enumerate(boxes_of(whole.size(), parts)):
        if i % world == rank:
            piece = whole
            for d, (start, n) in enumerate(zip(offset, size)):
                piece = piece.narrow(d, start, n)
            chunks.append((offset, piece.clone()))
    return Sharded(whole.size(), chunks)


class _Group:
    """The functions of `torch.distributed` that checkpoints call, for threads."""

    def __init__(self, world):
        self.world = world
        self.own = threading.local()
        self.barrier_of_threads = threading.Barrier(world, timeout=SECONDS)
        self.sent = [b""] * world

    def is_available(self):
        return True

    def is_initialized(self):
        return True

    def get_rank(self, group=None):
        return self.own.rank

    def get_world_size(self, group=None):
        return self.world

    def exchange(self, value):
        """Return the values of all ranks."""
        self.sent[self.own.rank] = pickle.dumps(value)
        self.barrier_of_threads.wait()
        received = [pickle.loads(data) for data in self.sent]
        self.barrier_of_threads.wait()
        return received

    def barrier(self, group=None):
        self.exchange(None)

    def all_gather_object(self, object_list, obj, group=None):
        object_list[:] = self.exchange(obj)

    def gather_object(self, obj, object_gather_list=None, dst=0, group=None):
        received = self.exchange(obj)
        if self.own.rank == dst:
            object_gather_list[:] = received

    def broadcast_object_list(self, object_list, src=0, group=None):
        object_list[:] = self.exchange(object_list)[src]

    def scatter_object_list(self, scatter_object_output_list, scatter_object_input_list=None, src=0, group=None):
        scatter_object_output_list[0] = self.exchange(scatter_object_input_list)[src][self.own.rank]


def run_ranks(monkeypatch, world, program):
    """Call ``program(rank)`` in `world` threads that form a group. Return the results or errors by rank."""
    group = _Group(world)
    for module in (utils, state_dict_saver):
        monkeypatch.setattr(module, "dist", group)
    results = [None] * world

    def run(rank):
        group.own.rank = rank
        try:
            results[rank] = program(rank)
        except BaseException as error:
            results[rank] = error

    threads = [threading.Thread(target=run, args=(rank,), daemon=True) for rank in range(world)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * SECONDS)
        assert not thread.is_alive()
    return results


def succeed(results):
    """Raise the first error among results."""
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results
