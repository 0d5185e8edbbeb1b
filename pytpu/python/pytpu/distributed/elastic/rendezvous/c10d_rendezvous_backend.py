"""The state of a rendezvous in a `TCPStore` or a `FileStore`."""

from __future__ import annotations

import binascii
import os
import tempfile
from base64 import b64decode, b64encode
from datetime import timedelta
from typing import Any

from .... import _C
from ..utils.logging import get_logger
from .api import RendezvousConnectionError, RendezvousError, RendezvousParameters, RendezvousStateError
from .dynamic_rendezvous import RendezvousBackend, Token
from .utils import _matches_machine_hostname, parse_rendezvous_endpoint

logger = get_logger(__name__)

DEFAULT_PORT = 29400
_LOST = "The connection to the C10d store has failed. See inner exception for details."


class C10dRendezvousBackend(RendezvousBackend):
    """The state of a rendezvous under one key of a store.

    Args:
        store: the store.
        run_id: name of the job.
    """

    # The value of the key without a state. It is no text that Base64 gives for a state.
    _NULL_SENTINEL = "none"

    def __init__(self, store: _C.Store, run_id: str) -> None:
        if not run_id:
            raise ValueError("The run id must be a non-empty string.")
        self._store = store
        self._key = "torch.rendezvous." + run_id
        self._call_store("compare_set", self._key, "", self._NULL_SENTINEL)

    @property
    def name(self) -> str:
        """The name of this kind of rendezvous."""
        return "c10d"

    def get_state(self) -> tuple[bytes, Token] | None:
        """Return the state and its version, or `None` without a state."""
        return self._decode_state(self._call_store("get", self._key))

    def set_state(self, state: bytes, token: Token | None = None) -> tuple[bytes, Token, bool] | None:
        """Write the state, if nobody has written since ``token`` was read.

        Args:
            state: the new state.
            token: the version that this process has read. `None` if there was no state.

        Returns:
            The state and the version that the store has now, and whether they are the new ones.
        """
        if token and not isinstance(token, bytes):
            current = self.get_state()
            return None if current is None else (*current, False)
        before = token.decode() if token else self._NULL_SENTINEL
        after = self._call_store("compare_set", self._key, before, b64encode(state).decode())
        current = self._decode_state(after)
        return None if current is None else (*current, current[0] == state)

    def _call_store(self, method: str, *arguments: Any) -> Any:
        try:
            return getattr(self._store, method)(*arguments)
        except (ValueError, RuntimeError, TimeoutError) as error:
            raise RendezvousConnectionError(_LOST) from error

    def _decode_state(self, text: bytes) -> tuple[bytes, Token] | None:
        if text == self._NULL_SENTINEL.encode():
            return None
        try:
            return b64decode(text), text
        except binascii.Error as error:
            raise RendezvousStateError("The state object is corrupt. See inner exception for details.") from error


def _create_tcp_store(params: RendezvousParameters) -> _C.TCPStore:
    host, port = parse_rendezvous_endpoint(params.endpoint, default_port=DEFAULT_PORT)
    is_told = params.get_as_bool("is_host")
    is_host = is_told if is_told is not None else _matches_machine_hostname(host)
    read_timeout = params.get_as_int("read_timeout", 60) or 0
    if read_timeout <= 0:
        raise ValueError("The read timeout must be a positive integer.")
    timeout = timedelta(seconds=read_timeout)
    if is_host:
        try:
            return _C.TCPStore(host, port, None, True, timeout, multi_tenant=True)
        except (ValueError, RuntimeError, TimeoutError) as error:
            if is_told is not None:
                raise RendezvousConnectionError(_LOST) from error
            # Another agent of this machine runs the server.
            logger.info("no server at %s:%s: %s", host, port, error)
    try:
        return _C.TCPStore(host, port, None, False, timeout, multi_tenant=True)
    except (ValueError, RuntimeError, TimeoutError) as error:
        raise RendezvousConnectionError(_LOST) from error


def _create_file_store(params: RendezvousParameters) -> _C.FileStore:
    path = params.endpoint
    if not path:
        try:
            file, path = tempfile.mkstemp()
            os.close(file)
        except OSError as error:
            raise RendezvousError(
                "The file creation for C10d store has failed. See inner exception for details."
            ) from error
    try:
        return _C.FileStore(path)
    except (ValueError, RuntimeError) as error:
        raise RendezvousConnectionError(_LOST) from error


def create_backend(params: RendezvousParameters) -> tuple[C10dRendezvousBackend, _C.Store]:
    """Return the state of a rendezvous, and the store that has it.

    Args:
        params: the settings. ``store_type`` is ``tcp`` or ``file``. For ``tcp``, ``is_host`` says whether this process
            runs the server, by default the first one on the host that the endpoint names; ``read_timeout`` is in
            seconds.

    Raises:
        RendezvousConnectionError: if the store does not answer.
    """
    kind = params.get("store_type", "tcp").strip().lower()
    store: _C.Store
    if kind == "file":
        store = _create_file_store(params)
    elif kind == "tcp":
        store = _create_tcp_store(params)
    else:
        raise ValueError("Invalid store type given. Currently only supports file and tcp.")
    return C10dRendezvousBackend(store, params.run_id), store
