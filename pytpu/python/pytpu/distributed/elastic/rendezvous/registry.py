"""The kinds of rendezvous of this package and of installed packages."""

from __future__ import annotations

from ..utils.logging import get_logger
from .api import RendezvousHandler, RendezvousParameters, rendezvous_handler_registry

__all__ = ["get_rendezvous_handler"]

logger = get_logger(__name__)


# The modules are imported when they are needed: a job uses one of them.
def _static(params: RendezvousParameters) -> RendezvousHandler:
    from .static import StaticRendezvous

    return StaticRendezvous(params)


def _c10d(params: RendezvousParameters) -> RendezvousHandler:
    from .c10d_rendezvous_backend import create_backend
    from .dynamic_rendezvous import create_handler

    state, store = create_backend(params)
    return create_handler(store, state, params)


def _refuse(params: RendezvousParameters) -> RendezvousHandler:
    raise NotImplementedError(
        f"The rendezvous backend '{params.backend}' is not part of this package. note: use --rdzv-backend=c10d"
    )


for _name, _create in {"static": _static, "c10d": _c10d, "etcd": _refuse, "etcd-v2": _refuse}.items():
    rendezvous_handler_registry.register(_name, _create)


def _add_installed_kinds() -> None:
    """Register the entry points `torchrun.handlers` of installed packages."""
    from importlib.metadata import entry_points

    for point in entry_points(group="torchrun.handlers"):
        try:
            rendezvous_handler_registry.register(point.name, point.load()())
        except Exception:  # Of another package: a job that does not use it must start.
            logger.warning("cannot load the rendezvous backend '%s'", point.name, exc_info=True)


def get_rendezvous_handler(params: RendezvousParameters) -> RendezvousHandler:
    """Return the handler of a rendezvous. Its kind is registered, or an entry point `torchrun.handlers` of a package.

    Args:
        params: the settings.

    Raises:
        ValueError: if there is no such kind.
    """
    if params.backend not in rendezvous_handler_registry:
        # Installed packages are searched only if they are needed: this takes some 30 ms.
        _add_installed_kinds()
    return rendezvous_handler_registry.create_handler(params)
