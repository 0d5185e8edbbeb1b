"""The state of a rendezvous in a `TCPStore` or a `FileStore`."""

from __future__ import annotations

import binascii
import os
import tempfile
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from .... import _C
from ..utils.logging import get_logger
from .api import RendezvousConnectionError, RendezvousError, RendezvousParameters, RendezvousStateError
from .dynamic_rendezvous import RendezvousBackend, Token
from .utils import is_this_machine, parse_rendezvous_endpoint

__all__ = ["C10dRendezvousBackend", "create_backend"]

logger = get_logger(__name__)

_PORT = 29400
# The value of the key without a state, as PyTorch's agents write it. It is no state in base64.
_NO_STATE = b"Y2FuaW1hZGFt"


@contextmanager
def _connection() -> Iterator[None]:
    """Raise `RendezvousConnectionError` for the errors of a store."""
    try:
        yield
    except (ValueError, RuntimeError, TimeoutError) as error:
        raise RendezvousConnectionError(
            "The connection to the C10d store has failed. See inner exception for details."
        ) from error


class C10dRendezvousBackend(RendezvousBackend):
    """The state of a rendezvous under one key of a store.

    Args:
        store: the store.
        run_id: name of the job.
    """

    def __init__(self, store: _C.Store, run_id: str) -> None:
        if not run_id:
            raise ValueError("The run id must be a non-empty string.")
        self._store = store
        self._key = f"torch.rendezvous.{run_id}"
        self._write("", _NO_STATE.decode())

    def _write(self, before: str, after: str) -> bytes:
        """Write a value if the key has the value `before`. Return the value that it has now."""
        with _connection():
            return self._store.compare_set(self._key, before, after)

    @property
    def name(self) -> str:
        """The name of this kind of rendezvous."""
        return "c10d"

    def get_state(self) -> tuple[bytes, Token] | None:
        """Return the state and its version, or `None` without a state."""
        with _connection():
            return _decode(self._store.get(self._key))

    def set_state(self, state: bytes, token: Token | None = None) -> tuple[bytes, Token, bool] | None:
        """Write the state, unless another process has written one since `token` was read.

        Args:
            state: the new state.
            token: the version that this process has read. `None` if there was no state.

        Returns:
            The state and the version that the store has now, and whether they are the new ones.
        """
        if isinstance(token, bytes) or not token:
            before = (token or _NO_STATE).decode()
            current = _decode(self._write(before, b64encode(state).decode()))
            return None if current is None else (*current, current[0] == state)
        # The token is not this class's, so the state has another version.
        current = self.get_state()
        return None if current is None else (*current, False)


def _decode(text: bytes) -> tuple[bytes, Token] | None:
    """Return the state that a value has, and the value as its version."""
    if text == _NO_STATE:
        return None
    try:
        return b64decode(text), text
    except binascii.Error as error:
        raise RendezvousStateError("The state object is corrupt. See inner exception for details.") from error


def _tcp_store(params: RendezvousParameters) -> _C.TCPStore:
    host, port = parse_rendezvous_endpoint(params.endpoint, _PORT)
    seconds = params.get_as_int("read_timeout", 60)
    if seconds is None or seconds <= 0:
        raise ValueError("The read timeout must be a positive integer.")

    def connect(is_server: bool) -> _C.TCPStore:
        with _connection():
            return _C.TCPStore(host, port, None, is_server, timedelta(seconds=seconds), multi_tenant=True)

    is_told = params.get_as_bool("is_host")
    if is_told is not None:
        return connect(is_told)
    if is_this_machine(host):
        try:
            return connect(True)
        except RendezvousConnectionError as error:
            # Another agent of this machine runs the server.
            logger.info("no server at %s:%s: %s", host, port, error.__cause__)
    return connect(False)


def _file_store(params: RendezvousParameters) -> _C.FileStore:
    path = params.endpoint
    if not path:
        try:
            file, path = tempfile.mkstemp()
        except OSError as error:
            raise RendezvousError(
                "The file creation for C10d store has failed. See inner exception for details."
            ) from error
        os.close(file)
    with _connection():
        return _C.FileStore(path)


def create_backend(params: RendezvousParameters) -> tuple[C10dRendezvousBackend, _C.Store]:
    """Return the state of a rendezvous, and the store that has it.

    Args:
        params: the settings. `store_type` is `tcp` or `file`. For `tcp`, `is_host` says whether this process
            runs the server, by default the first one on the host that the endpoint names; `read_timeout` is in
            seconds.

    Raises:
        RendezvousConnectionError: if the store does not answer.
    """
    kinds = {"tcp": _tcp_store, "file": _file_store}
    connect = kinds.get(params.get("store_type", "tcp").strip().lower())
    if connect is None:
        raise ValueError("Invalid store type given. Currently only supports file and tcp.")
    store = connect(params)
    return C10dRendezvousBackend(store, params.run_id), store
