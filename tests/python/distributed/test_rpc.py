"""Calls of functions in other processes."""

import threading
import time

import pytest
from rank_pool import LIMIT

import pytpu as torch
import pytpu.distributed as dist
from pytpu.distributed import rpc


@pytest.fixture
def alone():
    """Make this process the only worker."""
    options = rpc.TensorPipeRpcBackendOptions(init_method="tcp://127.0.0.1:0", rpc_timeout=LIMIT)
    rpc.init_rpc("alone", rank=0, world_size=1, rpc_backend_options=options)
    yield
    rpc.shutdown()


class Broken(Exception):
    """An exception that cannot be made from a text."""

    def __init__(self, code, reason):
        super().__init__(code, reason)


def fail(kind, *arguments):
    raise kind(*arguments)


def count_down(n):
    """Call this function in the other worker, until `n` is 0."""
    if n == 0:
        return []
    return [rpc.get_worker_info().name, *rpc.rpc_sync(f"worker{n % 2}", count_down, args=(n - 1,))]


def calls(path):
    rank, size = dist.get_rank(), dist.get_world_size()
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{path}", rpc_timeout=LIMIT)
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=size, rpc_backend_options=options)
    other = rpc.get_worker_info(f"worker{(rank + 1) % size}")
    assert (other.name, other.id) == (f"worker{(rank + 1) % size}", (rank + 1) % size)
    for to in (other, other.name, other.id):
        assert (
            rpc.rpc_sync(to, torch.add, args=(torch.ones(2), rank), kwargs={"alpha": 2}).tolist()
            == [1 + 2.0 * rank] * 2
        )
    futures = [rpc.rpc_async(other, pow, args=(i, 2)) for i in range(100)]
    assert [future.wait() for future in futures] == [i * i for i in range(100)]
    with pytest.raises(ZeroDivisionError, match=rf"On WorkerInfo\(name='{other.name}', id={other.id}\):"):
        rpc.rpc_sync(other, divmod, args=(1, 0))
    if rank == 0:
        assert rpc.rpc_sync("worker1", count_down, args=(4,)) == ["worker1", "worker0", "worker1", "worker0"]
    rpc.shutdown(timeout=LIMIT)
    return rpc._current is None


def test_workers_call_each_other(pool, tmp_path):
    assert pool.run(calls, str(tmp_path / "meeting")) == [True] * pool.size


def wait_for_the_end(path):
    """Rank 1 ends while rank 0 waits for its answer."""
    rank = dist.get_rank()
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{path}", rpc_timeout=LIMIT)
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    text = ""
    if rank == 0:
        try:
            rpc.rpc_sync("worker1", end_worker)
        except RuntimeError as error:
            text = str(error)
    dist.barrier()
    if rank == 0:
        rpc.shutdown(graceful=False)
    return text


def end_worker():
    rpc.shutdown(graceful=False)
    time.sleep(1)


def test_a_call_of_a_worker_that_ends_has_an_error(pools, tmp_path):
    results = pools(2).run(wait_for_the_end, str(tmp_path / "meeting"))
    assert "the connection to WorkerInfo(name='worker1', id=1) was closed before the answer" in results[0]


def test_errors_come_back(alone):
    with pytest.raises(KeyError, match="no such"):
        rpc.rpc_sync("alone", fail, args=(KeyError, "no such"))
    with pytest.raises(RuntimeError, match=r"(?s)On WorkerInfo\(name='alone', id=0\):\nBroken\(3, 'x'\)\nTraceback"):
        rpc.rpc_sync("alone", fail, args=(Broken, 3, "x"))
    with pytest.raises(TypeError, match="cannot pickle"):
        rpc.rpc_sync("alone", threading.Lock)
    assert rpc.rpc_sync("alone", len, args=("abc",)) == 3


def test_a_call_has_a_limit(alone):
    future = rpc.rpc_async("alone", time.sleep, args=(1.0,), timeout=0.05)
    with pytest.raises(RuntimeError, match=r"RPC ran for more than set timeout \(50 ms\)"):
        future.wait()
    assert rpc.rpc_sync("alone", abs, args=(-1,), timeout=0) == 1


def test_wrong_calls_are_refused(alone):
    with pytest.raises(RuntimeError, match="Unknown destination worker nobody"):
        rpc.rpc_async("nobody", abs, args=(1,))
    with pytest.raises(RuntimeError, match="RPC is already initialized"):
        rpc.init_rpc("again", rank=0, world_size=1)
    assert rpc.get_worker_info() == rpc.get_worker_info("alone") == rpc.WorkerInfo("alone", 0)
    with pytest.raises(NotImplementedError, match="rpc.remote"):
        rpc.remote("alone", abs, args=(1,))
    assert not rpc.is_available()


def test_a_process_that_is_no_worker_cannot_call():
    with pytest.raises(RuntimeError, match="RPC has not been initialized"):
        rpc.rpc_sync("alone", abs, args=(1,))
    with pytest.raises(RuntimeError, match="RPC has not been initialized"):
        rpc.shutdown()
    with pytest.raises(NotImplementedError, match="device_maps"):
        rpc.TensorPipeRpcBackendOptions(device_maps={"alone": {0: 0}})


def test_a_connection_without_the_key_is_refused(alone):
    from multiprocessing import AuthenticationError
    from multiprocessing.connection import Client

    with pytest.raises(AuthenticationError):
        Client(rpc._current._addresses[0], authkey=b"guessed")
    assert rpc.rpc_sync("alone", abs, args=(-2,)) == 2


def test_groups_and_workers_meet_at_one_address(tmp_path):
    path = tmp_path / "meeting"
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{path}")
    rpc.init_rpc("alone", rank=0, world_size=1, rpc_backend_options=options)
    dist.init_process_group("gloo", rank=0, world_size=1, init_method=f"file://{path}")
    dist.destroy_process_group()
    assert path.exists()
    rpc.shutdown()
    assert path.exists()
