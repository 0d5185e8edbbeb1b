"""The start and end of process groups, and questions about them."""

import datetime
import os
import subprocess
import sys
import warnings

import pytest
from rank_pool import LIMIT, RankPool

import pytpu as torch
import pytpu.distributed as dist


@pytest.fixture
def alone():
    """Make a group of this process."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    if dist.is_initialized():
        dist.destroy_process_group()


def test_calls_without_a_process_group_raise():
    assert dist.is_available() and not dist.is_initialized() and dist.group.WORLD is None
    x = torch.ones(1)
    for call in (
        dist.get_rank,
        dist.get_world_size,
        dist.get_backend,
        dist.barrier,
        lambda: dist.all_reduce(x),
        lambda: dist.send(x, 0),
        lambda: dist.new_group([0]),
        lambda: dist.all_gather_object([None], 1),
    ):
        with pytest.raises(ValueError, match="Default process group has not been initialized, please make sure to"):
            call()
    with pytest.raises(AssertionError, match="Process group cannot be None"):
        dist.destroy_process_group()


def test_arguments_of_the_start_are_checked():
    store = dist.HashStore()
    for arguments, kind, text in [
        ({"backend": "ucc"}, RuntimeError, "Distributed package doesn't have UCC built in"),
        ({"backend": "ucc"}, RuntimeError, "Distributed package doesn't have UCC built in"),
        ({"backend": "other"}, ValueError, "Unknown c10d backend type OTHER"),
        ({"backend": "cpu:gloo,cpu:gloo"}, ValueError, "Duplicate device type cpu in backend string"),
        ({"backend": "cpu:gloo:x"}, ValueError, "Invalid device:backend pairing: cpu:gloo:x"),
        ({"backend": 3}, ValueError, "Backend constructor parameter must be string-ish"),
        ({"init_method": "env://", "store": store}, AssertionError, "Cannot specify both init_method and store."),
        ({"store": store}, AssertionError, "world_size must be positive if using store"),
        ({"store": store, "world_size": 1}, AssertionError, "rank must be non-negative if using store"),
        ({"timeout": 3, "store": store, "world_size": 1, "rank": 0}, TypeError, "Expected timeout argument to be of"),
        ({"device_id": torch.device("tpu")}, ValueError, "Please use a device_id with index."),
        ({"init_method": "other://"}, RuntimeError, "No rendezvous handler for other://"),
    ]:
        with pytest.raises(kind, match=text):
            dist.init_process_group(**arguments)
        assert not dist.is_initialized()


@pytest.mark.parametrize(
    ("backend", "name", "config"),
    [
        (None, "undefined", "cpu:gloo,tpu:xla"),
        ("gloo", "gloo", "cpu:gloo,tpu:gloo"),
        ("GLOO", "gloo", "cpu:gloo,tpu:gloo"),
        ("xla", "xla", "cpu:gloo,tpu:xla"),
        ("tpu_dist", "tpu_dist", "cpu:gloo,tpu:tpu_dist"),
        ("cpu:gloo,tpu:xla", "cpu:gloo,tpu:xla", "cpu:gloo,tpu:xla"),
        ("cpu:gloo,cuda:nccl", "cpu:gloo,cuda:nccl", "cpu:gloo,tpu:xla"),
        ("cpu:gloo", "cpu:gloo", "cpu:gloo"),
    ],
)
def test_backends(backend, name, config):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
    try:
        assert dist.get_backend() == name and dist.get_backend_config() == config
        assert dist.group.WORLD.name() == ("gloo" if ":" in name or name == "undefined" else name)
        x = torch.ones(2)
        dist.all_reduce(x)
        assert x.tolist() == [1.0, 1.0]
        if "tpu" not in config:
            with pytest.raises(RuntimeError, match="No backend type associated with device type tpu"):
                dist.all_reduce(torch.ones(2, device="tpu"))
    finally:
        dist.destroy_process_group()


def test_nccl_warns_once():
    program = """
import warnings, pytpu.distributed as dist
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    for _ in range(2):
        dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
        assert dist.get_backend() == dist.group.WORLD.name() == "nccl"
        assert dist.get_backend_config() == "cpu:gloo,tpu:xla"
        dist.destroy_process_group()
assert [str(w.message) for w in seen] == [
    "NCCL is not part of this package. Backend nccl counts as xla, the backend of device tpu."
], seen
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=LIMIT)


def test_a_group_of_one_rank(alone):
    world = dist.group.WORLD
    assert dist.is_initialized() and world is dist.GroupMember.WORLD
    assert (dist.get_rank(), dist.get_world_size(), dist.get_pg_count()) == (0, 1, 1)
    assert isinstance(world, dist.ProcessGroup) and isinstance(world._get_backend("cpu"), dist.ProcessGroupGloo)
    assert (world.rank(), world.size(), world.name()) == (0, 1, "gloo")
    assert (world.group_name, world.group_desc) == ("0", "default_pg")
    assert world.timeout == datetime.timedelta(minutes=30)
    dist.set_timeout(datetime.timedelta(seconds=7))
    assert world.timeout == datetime.timedelta(seconds=7)
    assert dist.get_process_group_ranks(world) == dist.get_process_group_ranks(None) == [0]
    x, y = torch.tensor([1.0, 2.0]), torch.zeros(2)
    for op in (dist.ReduceOp.SUM, dist.ReduceOp.AVG, dist.ReduceOp.MAX):
        dist.all_reduce(x, op)
    dist.all_gather([y], x)
    assert y.tolist() == x.tolist() == [1.0, 2.0]
    dist.barrier()
    dist.monitored_barrier()
    with pytest.raises(ValueError, match="trying to initialize the default process group twice!"):
        dist.init_process_group()


def test_a_left_group_refuses_calls(alone):
    world = dist.group.WORLD
    dist.destroy_process_group()
    with pytest.raises(ValueError, match="Invalid process group specified or has been destroyed."):
        dist.all_reduce(torch.ones(1), group=world)
    with pytest.raises(ValueError, match="Invalid process group specified"):
        dist.destroy_process_group(world) if dist.is_initialized() else dist.set_timeout(
            datetime.timedelta(seconds=1), world
        )
    assert not dist.is_initialized() and dist.get_pg_count() == 0


def test_options_of_methods(alone):
    world, x = dist.group.WORLD, torch.ones(2)
    options = dist.AllreduceOptions()
    options.reduceOp, options.timeout = dist.ReduceOp.MAX, datetime.timedelta(seconds=60)
    assert world.allreduce([x], options).wait()
    work = world.allreduce(x, dist.ReduceOp.SUM)
    assert work.wait() and work.result()[0] is x and world.barrier().wait()
    assert world.broadcast([x], dist.BroadcastOptions(rootRank=0)).wait()
    assert world.allgather([[torch.zeros(2)]], [x]).wait()
    with pytest.raises(RuntimeError, match="ProcessGroupGloo::broadcast: invalid root rank: 1"):
        world.broadcast(x, 1)
    with pytest.raises(TypeError, match="unexpected keyword argument 'other'"):
        dist.BroadcastOptions(other=1)
    with pytest.raises(TypeError, match="takes a rank and a size"):
        dist.ProcessGroup()
    with pytest.raises(NotImplementedError, match="shrink_group"):
        dist.shrink_group([0])


def test_several_tensors_of_a_rank(alone):
    tensors = [torch.full((2,), float(i)) for i in (2, 3)]
    for op, want in ((dist.ReduceOp.SUM, 5.0), (dist.ReduceOp.MAX, 5.0), (dist.ReduceOp.MIN, 5.0)):
        dist.group.WORLD.allreduce(tensors, dist.AllreduceOptions(reduceOp=op)).wait()
        assert [x.tolist() for x in tensors] == [[want, want]] * 2
    tensors[1].fill_(7.0)
    dist.group.WORLD.broadcast(tensors, dist.BroadcastOptions(rootRank=0, rootTensor=1)).wait()
    assert [x.tolist() for x in tensors] == [[7.0, 7.0]] * 2


def test_names_of_reductions():
    op = dist.ReduceOp
    assert repr(op.SUM) == "<RedOpType.SUM: 0>" and str(op.MAX) == "RedOpType.MAX" and int(op.PREMUL_SUM) == 8
    assert isinstance(op.SUM, op) and op(op.SUM) == op.SUM and op(op.SUM) != op.MAX
    scaled = dist._make_nccl_premul_sum(2.0)
    assert scaled == op.PREMUL_SUM and scaled.factor == 2.0
    assert scaled == dist._make_nccl_premul_sum(torch.tensor(3.0)) and scaled != op(op.SUM) and scaled != "PREMUL_SUM"
    assert [kind.name for kind in op.RedOpType if dist.supports_complex(kind)] == ["SUM", "AVG", "PREMUL_SUM", "UNUSED"]
    with pytest.warns(FutureWarning, match="`torch.distributed.reduce_op` is deprecated"):
        assert dist.reduce_op.SUM is op.SUM


def test_profiles_list_collectives(alone):
    x, out = torch.ones(2, 3), [torch.zeros(2, 3)]
    dist.all_reduce(x)
    with torch.autograd.profiler.profile() as profile:
        with torch.autograd.profiler.record_function("step"):
            dist.all_reduce(x)
            dist.all_gather(out, x, async_op=True).wait()
        dist.group.WORLD.broadcast([x], dist.BroadcastOptions(rootRank=0)).wait()
        dist.all_reduce(torch.zeros(4, dtype=torch.complex64))
    dist.all_reduce(x)
    events = profile.function_events
    names = ["step", "gloo:all_reduce", "gloo:all_gather", "gloo:broadcast", "gloo:all_reduce"]
    assert [event.name for event in events] == names
    assert all(event.is_async and event.input_shapes == [[2, 3]] for event in events[1:4])
    assert events[4].input_shapes == [[4, 2]]
    assert events[1].cpu_parent is events[0] and events[3].cpu_parent is None


def test_debug_level(monkeypatch):
    before = dist.get_debug_level()
    monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "DETAIL")
    try:
        dist.set_debug_level_from_env()
        assert dist.get_debug_level() is dist.DebugLevel.DETAIL
        monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "LOUD")
        with pytest.raises(ValueError, match="TORCH_DISTRIBUTED_DEBUG must be OFF, INFO, or DETAIL, not LOUD"):
            dist.set_debug_level_from_env()
    finally:
        dist.set_debug_level(before)


def test_local_rank(monkeypatch):
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    assert dist.get_node_local_rank(5) == 5
    with pytest.raises(RuntimeError, match="LOCAL_RANK is not in the environment"):
        dist.get_node_local_rank()
    monkeypatch.setenv("LOCAL_RANK", "3")
    assert dist.get_node_local_rank(5) == 3


def test_default_backends_of_devices():
    assert dist.get_default_backend_for_device("cpu") == "gloo"
    assert dist.get_default_backend_for_device(torch.device("tpu:0")) == "xla"
    with pytest.raises(ValueError, match="Default backend not registered for device : meta"):
        dist.get_default_backend_for_device("meta")
    assert dist.is_gloo_available() and dist.is_backend_available("gloo")
    assert dist.is_backend_available("cpu:gloo,tpu:xla") and not dist.is_backend_available("cpu:gloo,tpu:ucc")
    for name in ("nccl", "ucc", "xccl"):
        assert not getattr(dist, f"is_{name}_available")() and not dist.is_backend_available(name)


def test_devices_of_other_processes():
    device = dist.remote_device
    for text, worker, rank, kind in [
        ("rank:3/cpu", None, 3, "cpu"),
        ("trainer/tpu:0", "trainer", None, "tpu:0"),
        ("trainer", "trainer", None, "cpu"),
        ("cpu", None, None, "cpu"),
    ]:
        made = device(text)
        assert (made.worker_name(), made.rank(), str(made.device())) == (worker, rank, kind)
        assert made == device(str(made)) and hash(made) == hash(device(str(made)))
    for text in ("", "a/b/c", "a/", "rank:x/cpu"):
        with pytest.raises(ValueError, match="Could not parse remote_device"):
            device(text)


def ask_about_groups():
    rank, size = dist.get_rank(), dist.get_world_size()
    last = dist.new_group([size - 1, 0], timeout=datetime.timedelta(seconds=50), group_desc="ends")
    assert dist.get_pg_count() == 2
    if rank in (0, size - 1):
        assert (last.group_name, last.group_desc) == ("1", "ends")
        assert last.timeout == datetime.timedelta(seconds=50)
        assert dist.get_process_group_ranks(last) == [0, size - 1]
        assert dist.get_rank(last) == (0 if rank == 0 else 1) == dist.get_group_rank(last, rank)
        assert dist.get_world_size(last) == 2 and dist.get_global_rank(last, 1) == size - 1
        with pytest.raises(ValueError, match="Group rank 2 is not part of group"):
            dist.get_global_rank(last, 2)
        with pytest.raises(ValueError, match=f"Global rank {size} is not part of group"):
            dist.get_group_rank(last, size)
        c10d = dist.distributed_c10d
        assert c10d._resolve_process_group("1") is last
        assert c10d._find_pg_by_ranks_and_tag("", [0, size - 1]) is (dist.group.WORLD if size == 2 else last)
        assert c10d._find_pg_by_ranks_and_tag("mine", [0, size - 1]) is None
        assert c10d._get_default_group() is c10d._resolve_process_group("0")
        assert c10d._world.pg_config_info[1]["pg_desc"] == "ends"
    else:
        assert last == dist.GroupMember.NON_GROUP_MEMBER
        assert dist.get_rank(last) == dist.get_world_size(last) == -1
        # As in PyTorch, it stands for the last group that the rank is not in.
        assert dist.get_process_group_ranks(last) == [0, size - 1] and dist.get_group_rank(last, size - 1) == 1
        with pytest.raises(ValueError, match="Invalid process group specified"):
            dist.get_backend(last)
        with pytest.raises(ValueError, match="Group -100 is not registered"):
            dist.split_group(last, [[0]])
        dist.destroy_process_group(last)
    with pytest.raises(RuntimeError, match="Could not resolve the process group registered under the name other"):
        dist.distributed_c10d._resolve_process_group("other")
    unsorted = dist.new_group(list(range(size))[::-1], sort_ranks=False)
    assert unsorted.rank() == size - 1 - rank and dist.get_global_rank(unsorted, 0) == size - 1
    mine, groups = dist.new_subgroups(2)
    assert dist.get_process_group_ranks(mine) == [rank // 2 * 2, rank // 2 * 2 + 1] and len(groups) == size // 2
    x = torch.tensor([rank])
    dist.all_reduce(x, group=mine)
    assert x.item() == rank // 2 * 4 + 1
    split = dist.split_group(split_ranks=[[0], list(range(1, size))])
    assert dist.get_process_group_ranks(split) == ([0] if rank == 0 else list(range(1, size)))
    x = torch.ones(1)
    dist.all_reduce(x, group=split)
    assert x.item() == (1 if rank == 0 else size - 1)
    nested = dist.split_group(unsorted, [[0, 1]])
    if rank >= size - 2:
        assert dist.get_process_group_ranks(nested) == [size - 1, size - 2]
    else:
        assert nested == dist.GroupMember.NON_GROUP_MEMBER
    if rank < 2:
        for _ in range(2):
            pair = dist.new_group([0, 1], use_local_synchronization=True)
            x = torch.ones(1)
            dist.all_reduce(x, group=pair)
            assert x.item() == 2
            dist.destroy_process_group(pair)
    else:
        assert dist.new_group([0, 1], use_local_synchronization=True) == dist.GroupMember.NON_GROUP_MEMBER
    # Ranks that made groups of their own agree with the others about the names of later groups.
    everyone = dist.new_group()
    x = torch.ones(1)
    dist.all_reduce(x, group=everyone)
    assert x.item() == size
    return dist.get_pg_count()


def test_groups_of_some_ranks(pool):
    pool.run(ask_about_groups)
    pool.stop()
    pool.start()


def pass_store(path, starts):
    """Make the group of all ranks several times in one store."""
    rank, size = dist.get_rank(), dist.get_world_size()
    dist.destroy_process_group()
    for i in range(starts):
        store = dist.FileStore(path, -1)
        limit = datetime.timedelta(seconds=LIMIT)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=limit)
        x = torch.tensor([float(i)])
        dist.all_reduce(x)
        assert x.item() == i * size
        dist.destroy_process_group()


def test_groups_of_one_store_after_each_other(pool, tmp_path):
    pool.run(pass_store, str(tmp_path / "store"), 5)
    pool.start()


def test_a_rank_that_does_not_come_is_named():
    store = dist.HashStore()
    text = r"rendezvous: timed out after 100ms: ranks 0, 2 have not joined, 1/3 ranks joined."
    with pytest.raises(dist.DistStoreError, match=text):
        limit = datetime.timedelta(milliseconds=100)
        dist.init_process_group("gloo", store=store, rank=1, world_size=3, timeout=limit)
    assert not dist.is_initialized()


PROGRAM = """
import os, sys
import pytpu as torch, pytpu.distributed as dist
dist.init_process_group({arguments})
x = torch.tensor([float(dist.get_rank() + 1)])
dist.all_reduce(x)
print(x.item())
if dist.get_rank() == {failing}:
    raise KeyError("why")
dist.destroy_process_group()
"""


def launch(arguments, environment=None, failing=-1):
    """Run two ranks as programs of their own, and return what they print and their exit codes."""
    ranks = []
    for rank in range(2):
        variables = os.environ | (environment or {}) | {"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank)}
        program = PROGRAM.format(arguments=arguments.replace("RANK", str(rank)), failing=failing)
        command = [sys.executable, "-c", program]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        ranks.append(subprocess.Popen(command, env=variables, **pipes))
    try:
        return [(*rank.communicate(timeout=LIMIT), rank.returncode) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()


def free_port():
    import socket

    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return probe.getsockname()[1]


@pytest.mark.parametrize("way", ["env", "tcp", "file", "interface"])
def test_ranks_meet(way, tmp_path):
    environment = {"MASTER_ADDR": "localhost", "MASTER_PORT": str(free_port())}
    arguments = {
        "env": "'gloo'",
        "tcp": f"init_method='tcp://localhost:{free_port()}', rank=RANK, world_size=2",
        "file": f"init_method='file://{tmp_path}/store', rank=RANK, world_size=2",
        "interface": "'gloo'",
    }[way]
    if way == "interface":
        environment["GLOO_SOCKET_IFNAME"] = "lo"
    for out, error, code in launch(arguments, environment):
        assert (out, code) == ("3.0\n", 0), error


def test_an_unknown_interface_is_refused(monkeypatch):
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "nosuch0")
    with pytest.raises(RuntimeError, match="GLOO_SOCKET_IFNAME: Unable to find address for: nosuch0"):
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    assert not dist.is_initialized()


def test_tracebacks_say_the_rank():
    environment = {"MASTER_ADDR": "localhost", "MASTER_PORT": str(free_port())}
    results = launch("'gloo'", environment, failing=1)
    assert results[0][2] == 0 and results[1][2] == 1
    lines = results[1][1].strip().splitlines()
    assert lines[0] == "[rank1]: Traceback (most recent call last):" and lines[-1] == "[rank1]: KeyError: 'why'"


def test_an_attempt_of_the_agent_has_its_own_keys(monkeypatch):
    server = dist.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    monkeypatch.setenv("MASTER_ADDR", "localhost")
    monkeypatch.setenv("MASTER_PORT", str(server.port))
    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", "True")
    for attempt in range(2):
        monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", str(attempt))
        dist.init_process_group("gloo", rank=0, world_size=1)
        dist.destroy_process_group()
        assert any(key.startswith(f"/worker/attempt_{attempt}/default_pg/") for key in server.list_keys())


def test_every_public_name_of_pytorch_exists():
    for name in dist.__all__:
        assert getattr(dist, name) is not None or name == "group", name
    missing = [name for name in dist.__all__ if not getattr(dist, name).__doc__ and callable(getattr(dist, name))]
    assert not missing


def test_a_pool_reports_a_stuck_rank():
    pool = RankPool(1, __name__)
    try:
        assert pool.errors(raise_value_error)[0].kind is ValueError
    finally:
        pool.close()


def raise_value_error():
    raise ValueError("no")
