"""Backend `mpi`: processes that `mpiexec` or `srun` started, and an MPI library that is loaded at run time."""

from __future__ import annotations

import atexit
import os
import socket
import sys

from .. import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    import datetime

    from .._C import Store

#: The environment variable that names the library.
_VARIABLE = "TORCHTPU_MPI_LIBRARY"


def _library() -> str | None:
    """Return the path of the MPI library, or `None` if there is none."""
    if given := os.environ.get(_VARIABLE):
        return _C._mpi_find([given])
    # Wheels such as `mpich` install beside the interpreter.
    names = ["libmpi_abi.so.1", "libmpi_abi.so"]
    return _C._mpi_find([*(os.path.join(sys.prefix, "lib", name) for name in names), *names])


def _start(timeout: datetime.timedelta) -> tuple[Store, int, int]:
    """Start MPI. Return a store that all ranks share, this rank and the number of ranks."""
    path = _library()
    if path is None:
        raise RuntimeError(
            "Distributed package doesn't have MPI built in. It loads a library with the standard ABI of MPI, such as "
            f"the one of `pip install mpich`. Set {_VARIABLE} to the path of libmpi_abi.so if it is not found."
        )
    rank, size = _C._mpi_start(path)
    atexit.register(_finalize)
    host, machine = os.environ.get("MASTER_ADDR") or socket.gethostname(), _machine()
    if rank == 0:
        store = _C.TCPStore("localhost", 0, size, True, timeout, False)
        _C._mpi_broadcast(f"{host}\n{store.port}\n{machine}".encode())
        return store, rank, size
    host, port, first_machine = bytes(_C._mpi_broadcast(b"")).decode().split("\n")
    # Not every machine can resolve its own name.
    return _C.TCPStore("localhost" if machine == first_machine else host, int(port), size, False, timeout), rank, size


def _machine() -> str:
    """Return a text that is the same in all processes which reach each other at localhost."""
    with open("/proc/sys/kernel/random/boot_id") as file:
        return f"{file.read().strip()} {os.readlink('/proc/self/ns/net')}"


def _finalize() -> None:
    """End MPI at the end of the program. It waits for all ranks, so not after an error, which they may not know of."""
    # A launcher may stop to read the output of a rank that has ended MPI.
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    if getattr(sys, "last_value", None) is None:
        _C._mpi_finalize()
