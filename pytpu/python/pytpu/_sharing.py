"""Tensors in shared memory: it is mapped from a file without a name, whose descriptor goes to other processes.

Forked processes inherit the mapping. New processes, and queues and pipes of `multiprocessing`, get the descriptor
(`ForkingPickler` calls `reduce`) and map the same memory.
"""

import mmap
import os
import tempfile
import weakref
from multiprocessing.context import get_spawning_popen
from multiprocessing.reduction import DupFd, ForkingPickler

from . import _C
from ._C import Tensor

_by_address = weakref.WeakValueDictionary()
_by_file = weakref.WeakValueDictionary()


class _Memory(mmap.mmap):
    """A mapping that has the descriptor of its file, and closes it at the end."""

    def __new__(cls, fd, length):
        new = super().__new__(cls, fd, length)
        new.fd, new.bytes = fd, length
        weakref.finalize(new, os.close, fd).atexit = False
        return new


def _file(length):
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("pytpu")
    else:
        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    os.ftruncate(fd, length)
    return fd


def _of_file(fd, length):
    """Return the memory of a file, mapped once in a process. The function owns the descriptor."""
    status = os.fstat(fd)
    key = status.st_dev, status.st_ino
    memory = _by_file.get(key)
    if memory is None:
        memory = _by_file[key] = _Memory(fd, length)
    elif fd != memory.fd:
        os.close(fd)
    return memory


def _tensor(memory, dtype, shape, stride, offset):
    import numpy

    from . import from_numpy

    flat = from_numpy(numpy.frombuffer(memory, dtype=numpy.uint8)).view(dtype)
    _by_address[flat.data_ptr()] = memory
    return _C._strided(flat, offset, list(shape), list(stride))


def _memory_of(tensor):
    if tensor.device.type != "cpu" or not _by_address:
        return None
    return _by_address.get(tensor.data_ptr() - tensor.storage_offset() * tensor.element_size())


def is_shared(tensor):
    """Return whether a tensor of the host is in shared memory."""
    return _memory_of(tensor) is not None


def share(tensor):
    """Move a tensor of the host into shared memory, with all of the memory that it is a view of.

    Other tensors stay on the old memory.
    """
    n = tensor._storage_bytes() // tensor.element_size()
    source = tensor.detach()
    memory = _of_file(_file(n * tensor.element_size()), n * tensor.element_size())
    moved = _tensor(memory, tensor.dtype, [n], [1], 0)
    moved.copy_(_C._strided(source, 0, [n], [1]))
    tensor.data = _C._strided(moved, source.storage_offset(), list(source.shape), list(source.stride()))
    register(type(tensor))


def register(kind):
    """Register `reduce` with `ForkingPickler` for tensors of this class."""
    ForkingPickler.register(kind, reduce)


def _descriptor(fd):
    """A descriptor on the way to another process."""
    popen = get_spawning_popen()
    # A process that is being spawned takes each descriptor once.
    if popen is not None and popen.method == "spawn" and fd in popen._fds:
        return popen.DupFd(fd)
    return DupFd(fd)


def reduce(tensor):
    """Reduce a tensor for another process: by the descriptor of its shared memory, or else by its value.

    Raise `RuntimeError` for a tensor with a history, which stays in this process.
    """
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError(
            "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd does not support "
            "crossing process boundaries.  If you just want to transfer the data, call detach() on the tensor before "
            "serializing (e.g., putting it on the queue)."
        )
    memory = _memory_of(tensor)
    if memory is None or tensor.is_conj() or tensor.is_neg():
        return tensor.__reduce_ex__(2)
    data = tensor.detach()
    place = data.dtype, tuple(data.shape), tuple(data.stride()), data.storage_offset()
    attributes = dict(tensor.__dict__) or None
    kind = None if type(tensor) is Tensor else type(tensor)
    return _rebuild, (kind, _descriptor(memory.fd), memory.bytes, place, tensor.requires_grad, attributes)


def _rebuild(kind, descriptor, length, place, requires_grad, attributes):
    """Rebuild the tensor in another process."""
    register(kind or Tensor)
    tensor = _tensor(_of_file(descriptor.detach(), length), *place)
    if kind is not None:
        tensor = Tensor._make_subclass(kind, tensor, requires_grad)
    elif requires_grad:
        tensor.requires_grad_()
    if attributes:
        tensor.__dict__.update(attributes)
    return tensor
