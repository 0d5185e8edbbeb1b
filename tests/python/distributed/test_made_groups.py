"""Groups whose collectives are Python's: backends of programs, backend ``fake``, and ranks that are threads."""

import copy
import datetime
import importlib.metadata
import pickle
import threading

import pytest

import pytpu as torch
import pytpu.distributed as dist
from pytpu.distributed import _functional_collectives as functional, distributed_c10d as c10d
from pytpu.distributed.tensor import Shard, distribute_tensor


@pytest.fixture(autouse=True)
def backends_are_restored(monkeypatch):
    """Forget the backends that a test adds, and its groups."""
    for name in ("_plugins", "backend_list", "backend_capability", "backend_type_map", "default_device_backend_map"):
        monkeypatch.setattr(dist.Backend, name, copy.copy(getattr(dist.Backend, name)))
    names = set(vars(dist.Backend))
    yield
    if dist.is_initialized():
        dist.destroy_process_group()
    for name in set(vars(dist.Backend)) - names:
        delattr(dist.Backend, name)


class Done(dist.Work):
    """A work that was done at once."""

    def wait(self, timeout=None):
        return True


class Named(dist.ProcessGroup):
    """A group that notes its calls."""

    def __init__(self, rank, size):
        super().__init__(rank, size)
        self.calls = []

    def _note(self, name, *what):
        self.calls.append((name, *what))
        return Done()

    def allreduce(self, tensors, opts=None):
        for tensor in tensors:
            tensor.mul_(self.size())
        return self._note("allreduce", opts.reduceOp.op, opts.timeout)

    def broadcast(self, tensors, opts=None):
        return self._note("broadcast", opts.rootRank)

    def reduce(self, tensors, opts=None):
        return self._note("reduce", opts.rootRank)

    def allgather(self, outputs, inputs, opts=None):
        for output in outputs[0]:
            output.copy_(inputs[0])
        return self._note("allgather")

    def all_gather_single(self, output, input, opts=None):
        output.view(self.size(), -1).copy_(input.reshape(1, -1))
        return self._note("all_gather_single")

    def reduce_scatter_single(self, output, input, opts=None):
        output.copy_(input.chunk(self.size())[self.rank()])
        return self._note("reduce_scatter_single")

    def gather(self, outputs, inputs, opts=None):
        return self._note("gather", len(outputs))

    def scatter(self, outputs, inputs, opts=None):
        return self._note("scatter", len(inputs))

    def barrier(self, opts=None):
        return self._note("barrier")

    def send(self, tensors, to, tag=0):
        return self._note("send", to, tag)

    def recv(self, tensors, source, tag=0):
        return self._note("recv", source, tag)

    def abort(self):
        self._note("abort")

    def shutdown(self):
        self._note("shutdown")


def test_functions_call_the_methods_of_a_class():
    dist.Backend.register_backend("named", lambda store, rank, size, timeout: Named(rank, size), devices=["cpu"])
    assert dist.Backend.NAMED == "named" and dist.is_backend_available("named")
    assert str(dist.BackendConfig("named")) == "cpu:named"
    dist.init_process_group("named", store=dist.HashStore(), rank=1, world_size=3)
    world = dist.group.WORLD
    assert isinstance(world, Named) and dist.get_backend() == "named" and dist.get_rank() == 1
    assert dist.get_backend_impl() is world
    x = torch.ones(2)
    dist.all_reduce(x, dist.ReduceOp.MAX)
    assert x.tolist() == [3, 3]
    assert dist.broadcast(x, 2, async_op=True).wait()
    dist.reduce(x, 0)
    parts = [torch.zeros(2) for _ in range(3)]
    dist.all_gather(parts, x)
    assert all(part.tolist() == [3, 3] for part in parts)
    dist.gather(x, None, dst=0)
    dist.scatter(x, None, src=0)
    dist.send(x, 2, tag=7)
    assert dist.recv(x, 0) == 0
    dist.barrier()
    unset = datetime.timedelta(milliseconds=-1)
    assert world.calls == [
        ("allreduce", dist.ReduceOp.MAX, unset),
        ("broadcast", 2),
        ("reduce", 0),
        ("allgather",),
        ("gather", 0),
        ("scatter", 0),
        ("send", 2, 7),
        ("recv", 0, 0),
        ("barrier",),
    ]
    with pytest.raises(RuntimeError, match="does not support alltoall"):
        dist.all_to_all(parts, parts)
    dist.destroy_process_group()
    assert world.calls[-1] == ("shutdown",)


def test_abort_reaches_the_class():
    dist.Backend.register_backend("named", lambda store, rank, size, timeout: Named(rank, size))
    dist.init_process_group("named", store=dist.HashStore(), rank=0, world_size=1)
    world = dist.group.WORLD
    c10d._abort_process_group()
    assert [call[0] for call in world.calls] == ["abort", "shutdown"]


def test_collectives_with_results_and_gradients_of_a_class():
    dist.Backend.register_backend("named", lambda store, rank, size, timeout: Named(rank, size))
    dist.init_process_group("named", store=dist.HashStore(), rank=1, world_size=2)
    x = torch.arange(4.0, requires_grad=True)
    functional.all_reduce(x, "sum", dist.group.WORLD).sum().backward()
    assert x.grad.tolist() == [2] * 4
    assert functional.all_gather_tensor(x, 0, dist.group.WORLD).tolist() == [0, 1, 2, 3] * 2
    x.grad = None
    part = functional.reduce_scatter_tensor(x, "sum", 0, dist.group.WORLD)
    assert part.tolist() == [2, 3]
    part.sum().backward()
    assert x.grad.tolist() == [1] * 4
    with pytest.raises(NotImplementedError, match="gradient of a collective with RedOpType.MAX"):
        functional.all_reduce(x, "max", dist.group.WORLD).sum().backward()


class Engine(dist._Backend):
    """An engine for one kind of device."""

    def __init__(self, rank, size, options=None):
        super().__init__(rank, size)
        self.options = options or dist._Backend.Options("engine", datetime.timedelta(seconds=11))

    def allreduce(self, tensors, opts=None):
        tensors[0].add_(10)
        return Done()

    def split(self, store, ranks, options):
        return Engine(ranks.index(self.rank()), len(ranks), options)


def test_engines_are_made_with_options():
    asked = []

    def make(options, given):
        asked.append((options.group_rank, options.group_size, options.global_ranks_in_group, options.timeout, given))
        return Engine(options.group_rank, options.group_size)

    dist.Backend.register_backend("engine", make, extended_api=True, devices="cpu")
    limit = datetime.timedelta(seconds=5)
    dist.init_process_group("engine", store=dist.HashStore(), rank=0, world_size=1, timeout=limit, pg_options="mine")
    assert asked == [(0, 1, [0], limit, "mine")]
    x = torch.zeros(1)
    dist.all_reduce(x)
    assert x.item() == 10 and dist.group.WORLD.name() == "custom"
    assert isinstance(dist.group.WORLD.get_backend("cpu"), Engine)
    with pytest.raises(RuntimeError, match="Backend custom does not support broadcast"):
        dist.broadcast(x, 0)


def test_own_engine_beside_one_of_a_program():
    dist.Backend.register_backend("engine", lambda store, rank, size, timeout: Engine(rank, size))
    dist.init_process_group("cpu:gloo,tpu:engine", store=dist.HashStore(), rank=0, world_size=1)
    x = torch.ones(1)
    dist.all_reduce(x)
    assert x.item() == 1
    assert isinstance(dist.group.WORLD.get_backend("cpu"), dist.ProcessGroupGloo)


def test_split_of_a_group_keeps_the_options_of_its_engines():
    group = dist.ProcessGroup(dist.HashStore(), 1, 2)
    assert group.name() == "undefined" and group._device_types == []
    with pytest.raises(RuntimeError, match="No backend type associated with device type cpu"):
        dist.all_reduce(torch.ones(1), group=group)
    engine = Engine(1, 2)
    group._register_backend("cpu", dist.ProcessGroup.BackendType.CUSTOM, engine)
    part = group.split_group([1], timeout=datetime.timedelta(seconds=2), group_name="part")
    made = part.get_backend("cpu").options
    assert (made.group_name, made._timeout.seconds) == ("part", 2)
    assert (engine.options.group_name, engine.options._timeout.seconds) == ("", 11)
    assert part.size() == 1 and part.rank() == 0 and part.group_name == "part"
    assert group.split_group([0]) is None


def test_packages_add_backends_by_entry_points(monkeypatch):
    loads = []

    class Point:
        name = "of_a_package"

        def load(self):
            loads.append(self.name)
            return lambda: dist.Backend.register_backend(self.name, lambda *arguments: None, devices=["cpu"])

    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **choice: [Point()])
    assert dist.is_backend_available("of_a_package") and str(dist.BackendConfig("of_a_package")) == "cpu:of_a_package"
    assert loads == ["of_a_package"]


def test_new_groups_of_a_class_that_makes_its_own():
    class Making(Named):
        def new_group(self, ranks, timeout=None, backend=None, pg_options=None, group_name=None, group_desc=None):
            self._note("new_group", ranks, backend)
            return Named(ranks.index(self.rank()), len(ranks)) if self.rank() in ranks else None

    dist.Backend.register_backend("making", lambda store, rank, size, timeout: Making(rank, size))
    dist.init_process_group("making", store=dist.HashStore(), rank=1, world_size=4)
    group = dist.new_group([1, 3])
    assert group.size() == 2 and dist.get_process_group_ranks(group) == [1, 3]
    assert dist.new_group([0]) == dist.GroupMember.NON_GROUP_MEMBER
    assert dist.group.WORLD.calls == [("new_group", [1, 3], "making"), ("new_group", [0], "making")]


def test_a_backend_for_absent_devices_is_no_default():
    dist.Backend.register_backend("elsewhere", lambda *_: Named(0, 1), devices=["cpu", "cuda", "xpu"])
    assert dist.Backend.default_device_backend_map["cuda"] == "elsewhere"
    assert repr(dist.BackendConfig("undefined")) == "cpu:gloo,tpu:xla"
    dist.init_process_group(store=dist.HashStore(), rank=0, world_size=1)
    assert not isinstance(dist.group.WORLD, Named) and dist.get_backend() == "undefined"


def test_fake_groups_act_as_one_rank_of_many():
    with pytest.raises(RuntimeError, match=r"Cannot init process group where rank \(3\) >= world_size \(2\)"):
        dist.init_process_group("fake", rank=3, world_size=2)
    dist.init_process_group("fake", rank=1, world_size=4)
    x = torch.arange(8.0, requires_grad=True)
    row = torch.empty(32)
    dist.all_gather_into_tensor(row, x)
    assert row.tolist() == list(range(8)) * 4 and not row.requires_grad
    part = torch.empty(2)
    dist.reduce_scatter_tensor(part, x)
    assert part.tolist() == [2, 3]
    parts = [torch.empty(8) for _ in range(4)]
    dist.all_gather(parts, x)
    assert all(torch.equal(each, x) for each in parts)
    dist.reduce_scatter(part, [torch.full((2,), float(i)) for i in range(4)])
    assert part.tolist() == [1, 1]
    out = torch.zeros(8)
    dist.all_to_all_single(out, x)
    assert torch.equal(out, x)
    dist.scatter(part, None, src=0)
    assert part.tolist() == [1, 1]
    objects = [None] * 4
    dist.all_gather_object(objects, "one")
    assert objects == ["one"] * 4
    assert dist.all_reduce(part, async_op=True).wait()
    dist.barrier()
    group = dist.new_group([0, 1])
    assert group.size() == 2 and dist.get_rank(group) == 1
    assert functional.all_gather_tensor(torch.ones(3), 0, group).shape == (6,)
    uneven = torch.empty(8, 1)
    dist.all_to_all_single(uneven, torch.arange(4.0).view(4, 1), [2, 6, 0, 0], [1, 3, 0, 0])
    assert uneven.flatten().tolist() == [0, 1, 0, 1, 2, 3, 0, 1]
    with pytest.raises(RuntimeError, match="inputBuffer is empty"):
        dist.all_to_all_single(torch.empty(1, 1), torch.empty(0, 1), [1, 0, 0, 0], [0] * 4)


def test_sums_of_tensors_without_data_need_no_group():
    x = torch.ones(2, 3, device="meta")
    for result in (functional.all_reduce(x, "sum", "nobody"), functional.broadcast(x, 0, "nobody")):
        assert result.is_meta and result.shape == x.shape


def test_wrong_arguments_are_found_without_other_ranks():
    with pytest.raises(TypeError, match="No constructor defined"):
        torch._C._distributed_c10d.FakeProcessGroup(0, 2)
    dist.init_process_group("fake", rank=0, world_size=2)
    x = torch.ones(3, 2)
    with pytest.raises(RuntimeError, match="output tensor list size 1 does not match world size 2"):
        dist.all_to_all([x], [x, x])
    with pytest.raises(RuntimeError, match="requires input/output tensor lists to have the same length"):
        dist.group.WORLD.reduce_scatter([x, x], [[x, x]], dist.ReduceScatterOptions())
    with pytest.raises(RuntimeError, match="must be the same size as output size times world size"):
        dist.reduce_scatter_tensor(torch.empty(3, 2), x)


def test_fake_groups_can_fail():
    options = torch._C._distributed_c10d.FakeProcessGroup.Options()
    options.error_on_collective = True
    dist.init_process_group("fake", rank=0, world_size=2, pg_options=options)
    for call in (dist.barrier, lambda: dist.all_reduce(torch.ones(1)), lambda: dist.broadcast(torch.ones(1), 0)):
        with pytest.raises(RuntimeError, match="FakeProcessGroup collective operation error"):
            call()


def test_threads_are_ranks_with_a_world_of_each(device):
    """A program replaces the groups of the process by those of each thread. All threads share a device."""
    before, results = c10d._world, {}
    local = threading.local()

    class Worlds:
        def __getattr__(self, name):
            if not hasattr(local, "world"):
                local.world = c10d._World()
            return getattr(local.world, name)

        def __setattr__(self, name, value):
            self.default_pg  # The world of this thread is made.
            setattr(local.world, name, value)

    def work(rank, store):
        limit = datetime.timedelta(seconds=60)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=3, timeout=limit)
        x = torch.tensor([float(rank)], device=device)
        dist.all_reduce(x)
        pair = dist.new_group([0, 2])
        ranks = [None] * 2
        if rank != 1:
            dist.all_gather_object(ranks, dist.get_rank(), group=pair)
        mesh = dist.init_device_mesh(device, (3,))
        parts = distribute_tensor(torch.arange(6.0), mesh, [Shard(0)]).requires_grad_()
        total = (parts * parts).sum()
        total.backward()
        assert parts.grad.to_local().device.type == device
        results[rank] = (x.item(), ranks, total.full_tensor().item(), parts.grad.to_local().tolist())
        dist.destroy_process_group()

    c10d._world = Worlds()
    try:
        assert not dist.is_initialized()
        store = dist.HashStore()
        threads = [threading.Thread(target=work, args=(rank, store)) for rank in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    finally:
        c10d._world = before
    assert results == {
        0: (3, [0, 2], 55, [0, 2]),
        1: (3, [None] * 2, 55, [4, 6]),
        2: (3, [0, 2], 55, [8, 10]),
    }


def test_sharded_tensors_use_an_engine_of_this_library():
    dist.Backend.register_backend("named", lambda store, rank, size, timeout: Named(rank, size))
    dist.init_process_group("named", store=dist.HashStore(), rank=0, world_size=1)
    x = distribute_tensor(torch.arange(4.0), dist.init_device_mesh("cpu", (1,)), [Shard(0)])
    assert x.sum().full_tensor().item() == 6
    dist.destroy_process_group()
    dist.init_process_group("fake", rank=0, world_size=2)
    x = distribute_tensor(torch.arange(4.0), dist.init_device_mesh("cpu", (2,)), [Shard(0)])
    assert x.to_local().tolist() == [0, 1] and x.full_tensor().shape == (4,)


def test_futures_as_works():
    future = torch.futures.Future()
    work = c10d._create_work_from_future(future)
    assert not work.is_completed() and not work.is_success()
    future.set_result([1])
    assert work.wait() and work.is_success() and work.result() == [1] and work.get_future() is future
    failed = torch.futures.Future()
    failed.set_exception(ValueError("lost"))
    work = c10d._create_work_from_future(failed)
    assert work.is_completed() and not work.is_success() and str(work.exception()) == "lost"


def test_barrier_of_a_store():
    store = dist.HashStore()
    limit = datetime.timedelta(seconds=60)
    threads = [threading.Thread(target=c10d._store_based_barrier, args=(i, store, "a", 3, limit)) for i in range(2)]
    for thread in threads:
        thread.start()
    c10d._store_based_barrier(2, store, "a", 3, limit)
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    with pytest.raises(
        dist.DistStoreError, match="Timed out initializing process group in store based barrier on rank 0"
    ):
        c10d._store_based_barrier(0, store, "b", 2, datetime.timedelta(milliseconds=100))


def test_reductions_compare_and_are_copied():
    for kind in dist.ReduceOp.RedOpType:
        assert copy.deepcopy(dist.ReduceOp(kind)) == kind and pickle.loads(pickle.dumps(kind)) is kind
        assert isinstance(kind, dist.ReduceOp) and kind != "abc" and None not in (kind, dist.ReduceOp(kind))
    scaled = dist.ReduceOp.PREMUL_SUM(2.0)
    assert scaled.factor == 2.0 and pickle.loads(pickle.dumps(scaled)).factor == 2.0
    with pytest.raises(TypeError, match="takes no factor"):
        dist.ReduceOp.SUM(2.0)


def test_buckets_of_tensors_by_size():
    floats = [torch.empty(n) for n in (100, 200, 100, 50)]
    assign = dist._compute_bucket_assignment_by_size
    assert assign(floats, [400]) == ([[0], [1], [2], [3]], [400] * 4)
    mixed = [torch.empty(n, dtype=kind) for _ in range(3) for n, kind in ((50, torch.float), (25, torch.double))]
    assert assign(mixed, [400]) == ([[0, 2], [1, 3], [4], [5]], [400] * 4)
    assert assign(mixed, [200, 400]) == ([[0], [1], [2, 4], [3, 5]], [200, 200, 400, 400])
    assert assign([torch.empty(10)] * 4, [40, 80]) == ([[0], [1, 2], [3]], [40, 80, 80])


def test_reducers_average_gradients():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    a, b = torch.nn.Linear(2, 3), torch.nn.Linear(3, 1).double()
    parameters = [*a.parameters(), *b.parameters()]
    with pytest.raises(RuntimeError, match="must have the same dtype"):
        dist.Reducer(parameters, [[0, 1, 2, 3]], [2**20], dist.group.WORLD)
    with pytest.raises(RuntimeError, match="each parameter once"):
        dist.Reducer(parameters, [[0, 1]], [2**20], dist.group.WORLD)
    reducer = dist.Reducer(parameters, [[0, 1], [2, 3]], [2**20] * 2, dist.group.WORLD, find_unused_parameters=True)
    for uses_all in (False, True):
        reducer.prepare_for_forward()
        y = a(torch.ones(1, 2))
        out = b(y.double()) if uses_all else y
        reducer.prepare_for_backward(out)
        out.sum().backward()
        assert (b.weight.grad is not None) == uses_all
    assert a.bias.grad is not None


def test_tensors_are_copied_together():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    tensors = [torch.ones(2), torch.ones(3, dtype=torch.double), torch.ones(1)]
    dist._broadcast_coalesced(dist.group.WORLD, tensors, buffer_size=256, src=0)
    assert [x.sum().item() for x in tensors] == [2, 3, 1]


def test_names_of_the_blocks_of_collectives():
    name = torch._C._distributed_c10d._get_comm_profiling_name
    with dist.record_comm("outer"):
        with dist.record_comm("inner"):
            assert name() == "inner"
        assert name() == "outer"
    assert name() == ""


def test_stores_of_python_classes_are_called():
    class Own(dist.Store):
        def __init__(self):
            super().__init__()
            self.values = {}

        def set(self, key, value):
            self.values[key] = value

        def get(self, key):
            return self.values[key]

        def add(self, key, amount):
            self.values[key] = str(int(self.values.get(key, 0)) + amount).encode()
            return int(self.values[key])

    store = Own()
    dist._test_python_store(store)
    assert store.values == {"test/counter": b"6", "test/key": b"value"}
    Own.get = lambda self, key: b"lost"
    with pytest.raises(AssertionError, match="another value"):
        dist._test_python_store(store)
