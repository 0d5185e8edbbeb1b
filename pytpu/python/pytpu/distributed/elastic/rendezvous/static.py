"""A rendezvous of a fixed number of nodes with fixed ranks."""

from __future__ import annotations

from datetime import timedelta

from .... import _C
from .api import RendezvousHandler, RendezvousInfo, RendezvousParameters, RendezvousStoreInfo
from .utils import parse_rendezvous_endpoint

__all__ = ["StaticRendezvous", "create_rdzv_handler"]

_TIMEOUT_SECONDS = 600


class StaticRendezvous(RendezvousHandler):
    """A node with a fixed rank. Node 0 runs the store, which the workers use too.

    Args:
        params: the settings. `rank` is required, `timeout` is in seconds.

    Raises:
        ValueError: if the rank, the host or the port is missing.
    """

    # Node 0 runs the store of the workers.
    use_agent_store = True

    def __init__(self, params: RendezvousParameters) -> None:
        rank = params.get_as_int("rank")
        if rank is None:
            raise ValueError("rank is absent in RendezvousParameters.Try add --node-rank to the cmd request")
        if not params.endpoint.strip():
            raise ValueError(
                "endpoint is absent in RendezvousParametersTry add --master-port and --master-addr to the cmd request"
            )
        host, port = parse_rendezvous_endpoint(params.endpoint, -1)
        if port < 0:
            raise ValueError(f"Port is absent in endpoint: {params.endpoint}. Try launching with --master-port")
        self._rank = rank
        self._params = params
        self._address = RendezvousStoreInfo(host, port)
        self._store: _C.TCPStore | None = None

    def get_backend(self) -> str:
        """Return `static`."""
        return "static"

    @property
    def has_new_store(self) -> bool:
        """Whether the store of the workers has no keys of earlier rounds."""
        return self._params.max_nodes == 1

    def next_rendezvous(self) -> RendezvousInfo:
        """Wait for the other nodes, and return the result."""
        host, port, nodes = self._address.master_addr, self._address.master_port, self._params.max_nodes
        if self._store is None:
            timeout = timedelta(seconds=self._params.get_as_int("timeout", _TIMEOUT_SECONDS) or 0)
            self._store = _C.TCPStore(host, port, nodes, self._rank == 0, timeout, multi_tenant=True)
        elif self.has_new_store:
            # The keys of workers that failed would confuse the new ones. With several nodes the keys stay: the new
            # workers of another node may have written some of them.
            for key in self._store.list_keys():
                self._store.delete_key(key)
        return RendezvousInfo(_C.PrefixStore(self._params.run_id, self._store), self._rank, nodes, self._address)

    def is_closed(self) -> bool:
        """Always return `False`: the nodes are fixed."""
        return False

    def set_closed(self) -> None:
        """Do nothing: the nodes are fixed."""

    def num_nodes_waiting(self) -> int:
        """Return 0: the nodes are fixed."""
        return 0

    def get_run_id(self) -> str:
        """Return the name of the job."""
        return self._params.run_id

    def shutdown(self) -> bool:
        """Return `True`: the store ends with the process."""
        return True


def create_rdzv_handler(params: RendezvousParameters) -> RendezvousHandler:
    """Return the rendezvous for settings."""
    return StaticRendezvous(params)
