"""The debugging server of a worker, which this package does not have."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["worker_main"]

TORCH_WORKER_SERVER_SOCKET = "TORCH_WORKER_SERVER_SOCKET"


@contextmanager
def worker_main() -> Iterator[None]:
    """Run the main function of a worker in a `with` block.

    Raises:
        NotImplementedError: if `TORCH_WORKER_SERVER_SOCKET` asks for a debugging server.
    """
    if TORCH_WORKER_SERVER_SOCKET in os.environ:
        raise NotImplementedError(
            f"torch.distributed.elastic.control_plane.worker_main: there is no debugging server. "
            f"note: unset {TORCH_WORKER_SERVER_SOCKET}"
        )
    yield
