"""`torch.distributed.checkpoint.stateful`: objects that give and take a state dict."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar, runtime_checkable

__all__ = ["Stateful", "StatefulT"]


@runtime_checkable
class Stateful(Protocol):
    """An object with `state_dict` and `load_state_dict`. `save` and `load` call them."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state that `save` writes."""
        ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take the state that `load` has read."""
        ...


StatefulT = TypeVar("StatefulT", bound=Stateful)
