"""Devices of other processes."""

from __future__ import annotations

from .. import device as _device

__all__: list[str] = []


class _remote_device:
    """A device of a rank or of a named worker.

    Args:
        remote_device: `rank:<rank>/<device>`, `<worker>/<device>`, `<worker>`, `<device>`, or a
            `torch.device`. Without a device it is `cpu`.

    Raises:
        ValueError: if the text has another form.
    """

    def __init__(self, remote_device: str | _device) -> None:
        bad = ValueError(f"Could not parse remote_device: {remote_device}. The valid format is '<workername>/<device>'")
        owner: str | None = None
        if isinstance(remote_device, _device):
            kind = str(remote_device)
        elif not isinstance(remote_device, str):
            raise TypeError(f"remote_device must be of type str or torch.device, got {type(remote_device)}")
        else:
            first, *rest = remote_device.split("/")
            if len(rest) > 1 or not first or rest == [""]:
                raise bad
            if rest:
                owner, kind = first, rest[0]
            else:
                owner, kind = (None, first) if self._is_device(first) else (first, "cpu")
        self._device, self._rank, self._worker_name = _device(kind), None, owner
        if owner is not None and owner.startswith("rank:"):
            text = owner.removeprefix("rank:")
            if not text.isdigit():
                raise bad
            self._rank, self._worker_name = int(text), None

    @staticmethod
    def _is_device(text: str) -> bool:
        try:
            _device(text)
        except RuntimeError:
            return False
        return True

    def worker_name(self) -> str | None:
        """Return the name of the worker, if it was given."""
        return self._worker_name

    def rank(self) -> int | None:
        """Return the rank, if it was given."""
        return self._rank

    def device(self) -> _device:
        """Return the device in that process."""
        return self._device

    def __repr__(self) -> str:
        if self._rank is not None:
            return f"rank:{self._rank}/{self._device}"
        return f"{self._worker_name}/{self._device}" if self._worker_name is not None else str(self._device)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _remote_device) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))
