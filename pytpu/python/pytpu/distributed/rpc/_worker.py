"""A worker: the calls that it sends, and the calls that it runs for others."""

from __future__ import annotations

import itertools
import json
import os
import pickle
import secrets
import socket
import struct
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener
from urllib.parse import urlsplit

from ...futures import Future
from ..distributed_c10d import PrefixStore

TYPE_CHECKING = False
if TYPE_CHECKING:
    import datetime
    from collections.abc import Callable
    from typing import Any

    from ..distributed_c10d import Store
    from . import RpcBackendOptions

#: The number of a call, in front of each message.
_NUMBER = struct.Struct("<Q")


@dataclass(frozen=True)
class WorkerInfo:
    """A worker.

    Args:
        name: its name.
        id: its number.
    """

    name: str
    id: int


class _Link:
    """A connection on which messages are sent whole."""

    def __init__(self, connection: Connection) -> None:
        self.connection, self._lock = connection, threading.Lock()

    def send(self, number: int, content: bytes) -> None:
        with self._lock:
            self.connection.send_bytes(_NUMBER.pack(number) + content)

    def receive(self) -> tuple[int, bytes]:
        message = self.connection.recv_bytes()
        return _NUMBER.unpack_from(message)[0], message[_NUMBER.size :]

    def end(self) -> None:
        """Let the thread that receives, on both sides, find the end. That thread closes the connection."""
        try:
            with socket.socket(fileno=os.dup(self.connection.fileno())) as same:
                same.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # It is closed.


class _Peer:
    """The calls of this worker to another one."""

    def __init__(self, info: WorkerInfo, address: tuple[str, int], key: bytes) -> None:
        self.info = info
        self._link = _Link(Client(address, authkey=key))
        self._numbers = itertools.count()
        self._waiting: dict[int, tuple[Future, threading.Timer | None]] = {}
        self._changed = threading.Condition()
        self._is_open = True
        threading.Thread(target=self._read, name="rpc-answers", daemon=True).start()

    def call(self, content: bytes, timeout: float) -> Future:
        """Send a call, and return the future of its answer."""
        future, number, timer = Future(), next(self._numbers), None
        if timeout > 0:
            timer = threading.Timer(timeout, self._expire, (number, timeout))
            timer.daemon = True
        with self._changed:
            if not self._is_open:
                raise RuntimeError(f"the connection to {self.info} is closed")
            self._waiting[number] = future, timer
        if timer is not None:
            timer.start()
        try:
            self._link.send(number, content)
        except OSError as error:
            self._end(number, RuntimeError(f"the connection to {self.info} is closed: {error}"))
        return future

    def wait(self, seconds: float | None) -> None:
        """Wait until all answers are there."""
        with self._changed:
            if not self._changed.wait_for(lambda: not self._waiting, seconds):
                raise RuntimeError(f"{len(self._waiting)} calls to {self.info} have no answer after {seconds} seconds")

    def end(self) -> None:
        """Close the connection. Calls that wait for an answer get an error."""
        self._link.end()

    def _expire(self, number: int, timeout: float) -> None:
        text = f"RPC ran for more than set timeout ({timeout * 1000:.0f} ms) and will now be marked with an error"
        self._end(number, RuntimeError(text))

    def _end(self, number: int, error: Exception | None, value: Any = None) -> None:
        with self._changed:
            future, timer = self._waiting.get(number, (None, None))
        if future is None:
            return  # Its time is over.
        if timer is not None:
            timer.cancel()
        try:
            future.set_exception(error) if error is not None else future.set_result(value)
        except RuntimeError:
            pass  # The time was over in this moment.
        with self._changed:
            self._waiting.pop(number, None)
            self._changed.notify_all()

    def _read(self) -> None:
        try:
            while True:
                number, content = self._link.receive()
                try:
                    error, value = pickle.loads(content)
                    if error is not None:
                        kind, text = error
                        error = kind(text)
                except Exception as unreadable:
                    error, value = RuntimeError(f"cannot read the answer of {self.info}: {unreadable!r}"), None
                self._end(number, error, value)
        except (EOFError, OSError):
            self._link.connection.close()
            with self._changed:
                self._is_open, numbers = False, list(self._waiting)
            for number in numbers:
                self._end(number, RuntimeError(f"the connection to {self.info} was closed before the answer"))


class _Worker:
    """This process as a worker.

    Args:
        name: its name.
        rank: its number.
        size: the number of workers.
        store: the store in which the workers meet.
        options: the options of `init_rpc`.
    """

    def __init__(self, name: str, rank: int, size: int, store: Store, options: RpcBackendOptions) -> None:
        self.info, self._size, self._timeout = WorkerInfo(name, rank), size, options.rpc_timeout
        self._store = PrefixStore("rpc", store)
        if rank == 0:
            self._store.set("key", secrets.token_hex(32))
        self._key = self._store.get("key")
        self._listener = Listener((_own_address(options.init_method), 0), backlog=size + 1, authkey=self._key)
        self._pool = ThreadPoolExecutor(getattr(options, "num_worker_threads", 16), "rpc")
        self._peers: dict[int, _Peer] = {}
        self._served: set[_Link] = set()
        self._lock, self._is_closed = threading.Lock(), False
        threading.Thread(target=self._accept, name="rpc-listener", daemon=True).start()
        self._store.set(f"worker{rank}", json.dumps([name, *self._listener.address]))
        found = [json.loads(self._store.get(f"worker{each}")) for each in range(size)]
        self._infos = [WorkerInfo(each[0], number) for number, each in enumerate(found)]
        self._addresses = [(host, port) for _, host, port in found]
        for number, info in enumerate(self._infos):
            if any(info.name == other.name for other in self._infos[:number]):
                self.close()
                raise RuntimeError(f"RPC worker name {info.name} is not unique.")

    def find(self, which: str | int | WorkerInfo | None) -> WorkerInfo:
        """Return a worker by its name or number."""
        if which is None:
            return self.info
        for info in self._infos:
            if which in (info, info.name, info.id):
                return info
        raise RuntimeError(f"Unknown destination worker {which}")

    def call(
        self,
        to: str | int | WorkerInfo,
        func: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        timeout: float,
    ) -> Future:
        """Start a call."""
        info = self.find(to)
        content = pickle.dumps((func, args, kwargs))
        with self._lock:
            if info.id not in self._peers:
                self._peers[info.id] = _Peer(info, self._addresses[info.id], self._key)
            peer = self._peers[info.id]
        return peer.call(content, self._timeout if timeout < 0 else timeout)

    def wait_for_all(self, timeout: datetime.timedelta | None) -> None:
        """Wait until no worker waits for an answer."""
        limit = self._store.timeout if timeout is None else timeout
        with self._lock:
            peers = list(self._peers.values())
        for peer in peers:
            peer.wait(limit.total_seconds())
        if self._store.add("done", 1) == self._size:
            self._store.set("all done", "1")
        self._store.wait(["all done"], limit)
        # The store may be in another worker, which must not end before the last one has read.
        if self._store.add("read", 1) == self._size:
            self._store.set("all read", "1")
        if self.info.id == 0:
            self._store.wait(["all read"], limit)

    def close(self) -> None:
        """Close all connections. Calls that wait for an answer get an error."""
        self._is_closed = True
        try:
            # `accept` returns only for a connection.
            Client(self._listener.address, authkey=self._key).close()
        except (OSError, EOFError, AuthenticationError):
            pass  # The thread has ended.
        self._listener.close()
        with self._lock:
            ends: list[_Peer | _Link] = [*self._peers.values(), *self._served]
        for each in ends:
            each.end()
        self._pool.shutdown(wait=False)

    def _accept(self) -> None:
        while not self._is_closed:
            try:
                connection = self._listener.accept()
            except (AuthenticationError, EOFError, ConnectionError):
                continue  # Not a worker.
            except OSError:
                return  # The listener is closed.
            if self._is_closed:
                connection.close()
            else:
                threading.Thread(target=self._serve, args=(connection,), name="rpc-calls", daemon=True).start()

    def _serve(self, connection: Connection) -> None:
        link = _Link(connection)
        with self._lock:
            self._served.add(link)
        try:
            while True:
                self._pool.submit(self._answer, link, *link.receive())
        except (EOFError, OSError, RuntimeError):
            with self._lock:
                self._served.discard(link)
            connection.close()  # The other worker, or this one, has ended.

    def _answer(self, link: _Link, number: int, content: bytes) -> None:
        """Run a call, and send the result or the error."""
        try:
            func, args, kwargs = pickle.loads(content)
            answer = pickle.dumps((None, func(*args, **kwargs)))
        except Exception as error:
            text = f"On {self.info}:\n{error!r}\n{traceback.format_exc()}"
            try:
                answer = pickle.dumps(((type(error), text), None))
                pickle.loads(answer)[0][0](text)
            except Exception:  # A class that cannot be pickled, or has other arguments.
                answer = pickle.dumps(((RuntimeError, text), None))
        try:
            link.send(number, answer)
        except OSError:
            pass  # The caller has ended.


def _own_address(init_method: str) -> str:
    """Return the address at which the other workers reach this one: the one on the way to the meeting point."""
    parts = urlsplit(init_method)
    host = os.environ.get("MASTER_ADDR", "localhost") if parts.scheme == "env" else parts.hostname or "localhost"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((host, 1))  # No packet is sent.
        return probe.getsockname()[0]
