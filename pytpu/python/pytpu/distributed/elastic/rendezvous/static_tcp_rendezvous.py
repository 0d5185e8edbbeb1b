"""A rendezvous of a fixed number of nodes with fixed ranks."""

from __future__ import annotations

import datetime

from .... import _C
from ..utils.logging import get_logger
from .api import RendezvousHandler, RendezvousInfo, RendezvousParameters, RendezvousStoreInfo
from .utils import parse_rendezvous_endpoint

__all__ = ["StaticTCPRendezvous", "create_rdzv_handler"]

logger = get_logger(__name__)

_DEFAULT_TIMEOUT = 600


class StaticTCPRendezvous(RendezvousHandler):
    """A node with a fixed rank. Node 0 runs the store, which the workers use too.

    Args:
        master_addr: host of node 0.
        master_port: port of the store.
        rank: rank of this node.
        world_size: number of nodes.
        run_id: name of the job.
        timeout: seconds to wait for the other nodes.
    """

    def __init__(
        self, master_addr: str, master_port: int, rank: int, world_size: int, run_id: str, timeout: int
    ) -> None:
        self.master_addr = master_addr
        self.master_port = master_port
        self.rank = rank
        self.world_size = world_size
        self.run_id = run_id
        self.timeout = datetime.timedelta(seconds=timeout)
        self._store: _C.Store | None = None

    def get_backend(self) -> str:
        """Return ``static``."""
        return "static"

    @property
    def use_agent_store(self) -> bool:
        """Always true: node 0 runs the store of the workers."""
        return True

    @property
    def has_new_store(self) -> bool:
        """Whether the store of the workers has no keys of earlier rounds."""
        return self.world_size == 1

    def next_rendezvous(self) -> RendezvousInfo:
        """Wait for the other nodes, and return the result."""
        if self._store is None:
            logger.info("creating the store at %s:%s", self.master_addr, self.master_port)
            self._store = _C.TCPStore(
                self.master_addr,
                self.master_port,
                self.world_size,
                self.rank == 0,
                self.timeout,
                multi_tenant=True,
            )
        elif self.world_size == 1:
            # The keys of workers that failed would confuse the new ones. With several nodes the keys stay: the new
            # workers of another node may have written some of them.
            for key in self._store.list_keys():
                self._store.delete_key(key)
        store = _C.PrefixStore(self.run_id, self._store)
        address = RendezvousStoreInfo(self.master_addr, self.master_port)
        return RendezvousInfo(store, self.rank, self.world_size, address)

    def is_closed(self) -> bool:
        """Always return ``False``: the nodes are fixed."""
        return False

    def set_closed(self) -> None:
        """Do nothing: the nodes are fixed."""

    def num_nodes_waiting(self) -> int:
        """Return 0: the nodes are fixed."""
        return 0

    def get_run_id(self) -> str:
        """Return the name of the job."""
        return self.run_id

    def shutdown(self) -> bool:
        """Return ``True``: the store ends with the process."""
        return True


def create_rdzv_handler(params: RendezvousParameters) -> StaticTCPRendezvous:
    """Return a handler.

    Args:
        params: the settings. ``rank`` is required, ``timeout`` is in seconds.

    Raises:
        ValueError: if the rank, the host or the port is missing.
    """
    if "rank" not in params.config:
        raise ValueError("rank is absent in RendezvousParameters.Try add --node-rank to the cmd request")
    endpoint = params.endpoint.strip()
    if not endpoint:
        raise ValueError(
            "endpoint is absent in RendezvousParametersTry add --master-port and --master-addr to the cmd request"
        )
    master_addr, master_port = parse_rendezvous_endpoint(endpoint, -1)
    if master_port == -1:
        raise ValueError(f"Port is absent in endpoint: {endpoint}. Try launching with --master-port")
    timeout = int(params.get("timeout", _DEFAULT_TIMEOUT))
    return StaticTCPRendezvous(
        master_addr, master_port, int(params.config["rank"]), params.max_nodes, params.run_id, timeout
    )
