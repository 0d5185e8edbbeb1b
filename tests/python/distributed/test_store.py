"""Tests of the stores of `torch.distributed`, between threads and processes, and of `rendezvous`."""

import concurrent.futures
import datetime
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

import pytpu as torch

dist = torch.distributed
SHORT = datetime.timedelta(milliseconds=60)
LONG = datetime.timedelta(seconds=60)


def free_port():
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return probe.getsockname()[1]


class DictStore(dist.Store):
    """A store of Python's, with what a `PrefixStore` needs."""

    def __init__(self):
        super().__init__()
        self.values = {}

    def set(self, key, value):
        assert type(key) is str and type(value) is bytes
        self.values[key] = value

    def get(self, key):
        return self.values[key]

    def add(self, key, amount):
        self.values[key] = str(int(self.values.get(key, b"0")) + amount).encode()
        return int(self.values[key])

    def compare_set(self, key, expected, desired):
        if self.values.get(key, b"") == expected:
            self.values[key] = desired
        return self.values.get(key, expected)

    def check(self, keys):
        return all(key in self.values for key in keys)


@pytest.fixture(params=["hash", "file", "tcp", "client", "prefix"])
def store(request, tmp_path):
    if request.param == "hash":
        yield dist.HashStore()
    elif request.param == "file":
        yield dist.FileStore(str(tmp_path / "store"))
    else:
        server = dist.TCPStore("localhost", 0, is_master=True, timeout=LONG)
        if request.param == "tcp":
            yield server
        else:
            client = dist.TCPStore("localhost", server.port, timeout=LONG)
            yield client if request.param == "client" else dist.PrefixStore("a", client)


def test_values(store):
    store.set("text", "ä")
    store.set("bytes", b"\xff\x00")
    store.set(b"key", bytearray(b"array"))
    assert [store.get(key) for key in ("text", "bytes", "key")] == ["ä".encode(), b"\xff\x00", b"array"]
    assert store.add("n", 2) == 2 and store.add("n", -3) == -1 and store.get("n") == b"-1"
    assert store.compare_set("c", "old", "new") == b"old" and store.compare_set("c", "", "new") == b"new"
    store.append("c", "er")
    store.multi_set(["a", "b"], ["1", b"2"])
    assert store.multi_get(["b", "a", "c"]) == [b"2", b"1", b"newer"]
    assert store.check(["a", "b"]) and not store.check(["a", "absent"])
    assert store.delete_key("a") and not store.check(["a"])
    assert sorted(store.list_keys()) == ["b", "bytes", "c", "key", "n", "text"]
    assert store.num_keys() >= 6
    assert store.clone().get("b") == b"2" and type(store.clone()) is type(store)


def test_timeouts(store):
    store.set("here", "")
    with pytest.raises(dist.DistStoreError, match=r"^wait timeout after 60ms, keys: \S*absent$"):
        store.wait(["here", "absent"], SHORT)
    store.set_timeout(SHORT)
    assert store.timeout == SHORT
    for wait in (lambda: store.get("absent"), lambda: store.wait(["absent"]), lambda: store.multi_get(["absent"])):
        with pytest.raises(RuntimeError, match="wait timeout after 60ms"):
            wait()
    with pytest.raises(dist.DistStoreError, match="timeout after 60ms"):
        store.barrier("b", 2)
    store.barrier("alone", 1)
    assert store.get("here") == b""


def test_queues(store):
    if isinstance(store, dist.FileStore):
        with pytest.raises(NotImplementedError, match="queue support is not implemented"):
            store.queue_push("q", "1")
        return
    with pytest.raises(dist.QueueEmptyError, match="queue is empty"):
        store.queue_pop("q", block=False)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        popped = pool.submit(store.queue_pop, "q")
        time.sleep(0.02)
        store.queue_push("q", "1")
        assert popped.result(60) == b"1"
    store.queue_push("q", b"2")
    assert store.queue_len("q") == 1 and store.check(["q"]) and store.queue_pop("q") == b"2"


def test_threads_share_a_store(store):
    store.set_timeout(LONG)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        waiting = [pool.submit(store.get, f"key{i}") for i in range(3)]
        time.sleep(0.02)
        for i in range(3):
            store.set(f"key{i}", str(i))
        assert [value.result(60) for value in waiting] == [b"0", b"1", b"2"]
        barrier = [pool.submit(store.barrier, "all", 3) for _ in range(3)]
        assert [done.result(60) for done in barrier] == [None] * 3


def test_wrong_arguments(store):
    for call in (lambda: store.set("k", 3), lambda: store.get(3), lambda: store.wait(["k"], 5), lambda: store.set("k")):
        with pytest.raises(TypeError):
            call()
    with pytest.raises(ValueError):
        store.multi_set(["a", "b"], ["1"])
    with pytest.raises(ValueError, match="UTF-8"):
        store.get(b"\xff")


def test_classes():
    for name in ("TCPStore", "FileStore", "HashStore", "PrefixStore"):
        assert issubclass(getattr(dist, name), dist.Store)
    for error in (dist.DistStoreError, dist.DistNetworkError, dist.DistBackendError):
        assert issubclass(error, dist.DistError) and issubclass(error, RuntimeError)
        assert error.__module__ == "torch.distributed"
    assert issubclass(dist.QueueEmptyError, dist.DistStoreError)
    server = dist.TCPStore(host_name="localhost", port=0, world_size=1, is_master=True, timeout=LONG, use_libuv=False)
    assert server.host == "localhost" and server.port > 0 and not server.libuvBackend
    socket_of = r"client=TCPClient\(SocketImpl\(fd=\d+, addr=\[localhost\]:\d+, remote=\[localhost\]:\d+\)\)"
    assert re.fullmatch(rf"TCPStore\({socket_of}, server=TCPServer\(port={server.port}\)\)", repr(server))
    assert repr(server.clone()).endswith(", server=<nullptr>)")
    with pytest.raises(ValueError, match="TCPStore world size cannot be 0"):
        dist.TCPStore("localhost", 0, world_size=0)
    with pytest.raises(ValueError, match="store: None, must be a Store"):
        dist.PrefixStore("a", None)
    assert server.num_keys() == 1, "the workers' counter"
    prefix = dist.PrefixStore("b", dist.PrefixStore("a", server))
    assert prefix._underlying_non_prefix_store is server and prefix.underlying_store.underlying_store is server
    prefix.set("key", "value")
    assert server.get("a/b/key") == b"value"


def test_a_store_of_python():
    store = DictStore()
    prefix = dist.PrefixStore("p", store)
    prefix.set("a", "1")
    assert store.values == {"p/a": b"1"} and prefix.get("a") == b"1" and prefix.add("n", 2) == 2
    assert prefix.multi_get(["a", "n"]) == [b"1", b"2"] == store.multi_get(["p/a", "p/n"])
    prefix.multi_set(["x"], ["y"])
    assert store.values["p/x"] == b"y" and prefix.check(["x"])
    prefix.append("x", "z")
    store.append("p/x", "")
    prefix.append("new", "1")
    assert prefix.multi_get(["x", "new"]) == [b"yz", b"1"]
    with pytest.raises(KeyError, match="p/absent"):
        prefix.get("absent")
    assert not prefix.has_extended_api()
    for call in (prefix.num_keys, store.num_keys, lambda: prefix.wait(["a"])):
        with pytest.raises(RuntimeError, match="Not implemented."):
            call()
    store.set_timeout(SHORT)
    assert prefix.timeout == SHORT == store.timeout


def test_overridden_methods_are_called():
    calls = []

    class Extended(DictStore):
        def append(self, key, value):
            calls.append((key, value))

        def multi_get(self, keys):
            return [key.encode() for key in keys]

        def multi_set(self, keys, values):
            calls.append((keys, values))

        def has_extended_api(self):
            return True

    prefix = dist.PrefixStore("p", Extended())
    assert prefix.has_extended_api() and prefix.multi_get(["a", "b"]) == [b"p/a", b"p/b"]
    prefix.append("a", "1")
    prefix.multi_set(["a"], [b"2"])
    assert calls == [("p/a", b"1"), (["p/a"], [b"2"])]


def test_a_file_is_deleted_by_its_last_store(tmp_path):
    path = tmp_path / "store"
    first, second = dist.FileStore(str(path), 2), dist.FileStore(str(path), world_size=2)
    assert first.path == str(path)
    first.set("key", "value")
    del first
    assert second.get("key") == b"value"
    del second
    assert not path.exists()


def test_a_server_takes_over_a_bound_socket():
    bound = socket.socket()
    bound.bind(("localhost", 0))
    port = bound.getsockname()[1]
    server = dist.TCPStore("localhost", port, 1, True, LONG, master_listen_fd=bound.detach())
    assert server.port == port
    server.set("key", "value")
    assert dist.TCPStore("localhost", port, timeout=LONG).get("key") == b"value"


def test_servers_that_are_missing():
    port = free_port()
    with pytest.raises(
        dist.DistNetworkError, match=f"timed out after 60ms while trying to connect to .localhost, {port}"
    ):
        dist.TCPStore("localhost", port, timeout=SHORT)
    with pytest.raises(dist.DistStoreError, match="waiting for clients. 1/2 clients joined."):
        dist.TCPStore("localhost", 0, 2, True, SHORT)
    server = dist.TCPStore("localhost", 0, is_master=True)
    with pytest.raises(dist.DistNetworkError, match="^The server socket has failed to listen on any local"):
        dist.TCPStore("localhost", server.port, is_master=True)
    tenants = [dist.TCPStore("localhost", port, 1, True, LONG, multi_tenant=True) for _ in range(2)]
    tenants[0].set("key", "value")
    assert tenants[1].get("key") == b"value"


CLIENT = """
import datetime, sys
import pytpu as torch
store = torch.distributed.TCPStore("localhost", int(sys.argv[1]), 2, timeout=datetime.timedelta(seconds=60))
store.set("answer", store.get("question") + b"!")
print(store.add("n", 5))
"""


def test_two_processes():
    server = dist.TCPStore("localhost", 0, 2, True, LONG, wait_for_workers=False)
    client = subprocess.Popen([sys.executable, "-c", CLIENT, str(server.port)], stdout=subprocess.PIPE, text=True)
    try:
        server.add("n", 1)
        server.set("question", "who")
        assert server.get("answer") == b"who!"
        assert client.communicate(timeout=60)[0] == "6\n" and client.returncode == 0
    finally:
        client.kill()
        client.wait()


WAITING = """
import datetime, signal, sys
import pytpu as torch
signal.signal(signal.SIGINT, signal.default_int_handler)
kind = sys.argv[1]
if kind == "tcp":
    store = torch.distributed.TCPStore("localhost", 0, is_master=True)
elif kind == "file":
    store = torch.distributed.FileStore(sys.argv[2])
else:
    store = torch.distributed.HashStore()
print("waiting", flush=True)
try:
    store.get("never")
except KeyboardInterrupt:
    store.set("after", "works")
    print(store.get("after").decode())
"""


@pytest.mark.parametrize("kind", ["hash", "file", "tcp"])
def test_interrupts_end_a_wait(kind, tmp_path):
    command = [sys.executable, "-c", WAITING, kind, str(tmp_path / "store")]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline() == "waiting\n"
        time.sleep(0.05)
        child.send_signal(signal.SIGINT)
        assert child.communicate(timeout=60)[0] == "works\n" and child.returncode == 0
    finally:
        child.kill()
        child.wait()


def test_other_threads_run_while_one_waits():
    store, turns = dist.HashStore(), 0
    waiting = threading.Thread(target=store.get, args=("key",))
    waiting.start()
    for _ in range(1000):
        turns += 1
    store.set("key", "value")
    waiting.join(60)
    assert turns == 1000 and not waiting.is_alive()


def test_rendezvous_over_tcp():
    url = f"tcp://localhost:{free_port()}?world_size=2"
    with concurrent.futures.ThreadPoolExecutor() as pool:
        ranks = [pool.submit(lambda rank: next(dist.rendezvous(f"{url}&rank={rank}", timeout=LONG)), i) for i in (0, 1)]
        (store0, rank0, size0), (store1, rank1, size1) = (rank.result(60) for rank in ranks)
    assert (rank0, size0, rank1, size1) == (0, 2, 1, 2)
    store0.set("key", "value")
    assert store1.get("key") == b"value"


def test_rendezvous_by_the_environment(monkeypatch):
    for name, value in {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "localhost"}.items():
        with pytest.raises(ValueError, match=f"environment variable {name} expected, but not set"):
            next(dist.rendezvous("env://"))
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MASTER_PORT", str(free_port()))
    store, rank, world_size = next(dist.rendezvous("env://"))
    assert (rank, world_size) == (0, 1)
    # With the agent of torchrun all ranks are clients, at the agent's address.
    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", "True")
    monkeypatch.setenv("MASTER_PORT", str(store.port))
    for attempt in range(2):
        monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", str(attempt))
        client, _, _ = next(dist.rendezvous("env://"))
        # Each attempt of the workers has keys of its own.
        store.set(f"/worker/attempt_{attempt}/key", str(attempt))
        assert client.get("key") == str(attempt).encode()
        assert "server=<nullptr>" in repr(client.underlying_store)


def test_rendezvous_at_a_file(tmp_path):
    url = f"file://{tmp_path}/meet?world_size=2"
    store0, rank0, _ = next(dist.rendezvous(f"{url}&rank=0"))
    store1, rank1, _ = next(dist.rendezvous(f"{url}&rank=1"))
    store0.set("key", "value")
    assert store1.get("key") == b"value" and (rank0, rank1) == (0, 1)


@pytest.mark.parametrize(
    "url, error, text",
    [
        ("invalid://", RuntimeError, "^No rendezvous handler for invalid://"),
        ("tcp://127.0.0.1?rank=0&world_size=1", ValueError, "tcp:// rendezvous: port number missing"),
        ("tcp://127.0.0.1:1?world_size=1", ValueError, "tcp:// rendezvous: rank parameter missing"),
        ("tcp://127.0.0.1:1?rank=0", ValueError, "tcp:// rendezvous: world size parameter missing"),
        ("file://?rank=0&world_size=1", ValueError, "file:// rendezvous: path missing"),
    ],
)
def test_incomplete_urls(url, error, text):
    with pytest.raises(error, match=text):
        next(dist.rendezvous(url))


def test_rendezvous_of_other_schemes():
    store = dist.HashStore()
    dist.register_rendezvous_handler("here", lambda url: iter([(store, 0, 1)]))
    assert next(dist.rendezvous("here://")) == (store, 0, 1)
    with pytest.raises(RuntimeError, match="already registered"):
        dist.register_rendezvous_handler("here", lambda url: iter([]))
    with pytest.raises(AssertionError, match="has node-specific arguments"):
        dist.rendezvous("file:///f?rank=1&world_size=2", 1, 2)
    with pytest.raises(RuntimeError, match="`rank` must be an integer"):
        dist.rendezvous("env://", "0")


def test_a_timeout_names_the_missing_ranks():
    url = f"tcp://localhost:{free_port()}?rank=0&world_size=4"
    with pytest.raises(dist.DistStoreError, match="ranks 1, 2, 3 have not joined, 1/4 ranks joined."):
        next(dist.rendezvous(url, timeout=datetime.timedelta(milliseconds=300)))
