"""The kinds of rendezvous of this package and of installed packages."""

from __future__ import annotations

from ..utils.logging import get_logger
from .api import (
    RendezvousHandler,
    RendezvousParameters,
    rendezvous_handler_registry as handler_registry,
)

__all__ = ["get_rendezvous_handler"]

logger = get_logger(__name__)


def _create_static_handler(params: RendezvousParameters) -> RendezvousHandler:
    from .static_tcp_rendezvous import create_rdzv_handler

    return create_rdzv_handler(params)


def _create_c10d_handler(params: RendezvousParameters) -> RendezvousHandler:
    from .c10d_rendezvous_backend import create_backend
    from .dynamic_rendezvous import create_handler

    backend, store = create_backend(params)
    return create_handler(store, backend, params)


def _create_etcd_handler(params: RendezvousParameters) -> RendezvousHandler:
    raise NotImplementedError(
        f"The rendezvous backend '{params.backend}' is not part of this package. note: use --rdzv-backend=c10d"
    )


def _register_default_handlers() -> None:
    handler_registry.register("etcd", _create_etcd_handler)
    handler_registry.register("etcd-v2", _create_etcd_handler)
    handler_registry.register("c10d", _create_c10d_handler)
    handler_registry.register("static", _create_static_handler)


def _register_out_of_tree_handlers() -> None:
    from importlib.metadata import entry_points

    for point in entry_points(group="torchrun.handlers"):
        try:
            handler_registry.register(point.name, point.load()())
        except Exception:  # Of another package: a job that does not use it must start.
            logger.warning("cannot load the rendezvous backend '%s'", point.name, exc_info=True)


def get_rendezvous_handler(params: RendezvousParameters) -> RendezvousHandler:
    """Return the handler of a rendezvous. Its kind is registered, or an entry point ``torchrun.handlers`` of a package.

    Args:
        params: the settings.

    Raises:
        ValueError: if there is no such kind.
    """
    if params.backend not in handler_registry._registry:
        # Installed packages are searched only if they are needed: this takes some 30 ms.
        _register_out_of_tree_handlers()
    return handler_registry.create_handler(params)
