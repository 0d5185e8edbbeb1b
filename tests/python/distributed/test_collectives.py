"""Collectives between processes, compared with the same computation in one process."""

import threading

import pytest

import pytpu as torch
import pytpu.distributed as dist

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
COMPLEX = [torch.complex64, torch.complex128]
DTYPES = [*FLOATS, *INTEGERS, torch.bool, *COMPLEX]
SHAPES = [(), (0,), (1,), (5,), (2, 3), (4, 0, 2), (3, 700, 11)]
LAYOUTS = ["dense", "transposed", "strided"]


def value(rank, dtype, shape, salt=0):
    """Return the value of a rank: small whole numbers, whose sums and products are exact in all dtypes."""
    torch.manual_seed(1000 * salt + rank)
    x = torch.randint(0, 3, shape)
    if dtype in COMPLEX:
        return torch.complex(x.float(), torch.randint(0, 3, shape).float()).to(dtype)
    return x.to(dtype)


def laid_out(x, layout):
    """Return a tensor with the elements of ``x`` in another layout."""
    if layout == "transposed" and x.dim() > 1:
        return x.transpose(0, -1).contiguous().transpose(0, -1)
    if layout == "strided" and x.dim() > 0:
        wide = torch.zeros(*x.shape[:-1], 2 * x.shape[-1], dtype=x.dtype)
        part = wide[..., ::2]
        return part.copy_(x)
    return x.clone()


def expected(op, values):
    """Combine values in one process."""
    kind = op.name
    y = values[0].clone()
    for x in values[1:]:
        if kind in ("SUM", "AVG"):
            y = y | x if y.dtype is torch.bool else y + x
        elif kind == "PRODUCT":
            y = y & x if y.dtype is torch.bool else y * x
        else:
            y = {
                "MIN": torch.minimum,
                "MAX": torch.maximum,
                "BAND": torch.bitwise_and,
                "BOR": torch.bitwise_or,
                "BXOR": torch.bitwise_xor,
            }[kind](y, x)
    if kind == "AVG":
        y = torch.div(y, len(values), rounding_mode=None if y.dtype in FLOATS + COMPLEX else "trunc").to(y.dtype)
    return y


def reductions(dtype):
    kinds = ["SUM"]
    if dtype not in COMPLEX:
        kinds += ["PRODUCT", "MIN", "MAX"]
    if dtype is not torch.bool:
        kinds += ["AVG"]
    if dtype in INTEGERS or dtype is torch.bool:
        kinds += ["BAND", "BOR", "BXOR"]
    return [dist.ReduceOp.RedOpType[kind] for kind in kinds]


def cases():
    for dtype in DTYPES:
        for shape in SHAPES if dtype is torch.float32 else SHAPES[:5]:
            for layout in LAYOUTS if dtype in (torch.float32, torch.bool) else LAYOUTS[:1]:
                yield dtype, shape, layout


def values_of(dtype, shape, salt=0):
    return [value(rank, dtype, shape, salt) for rank in range(dist.get_world_size())]


def same(got, want, case):
    assert got.shape == want.shape and got.dtype is want.dtype, case
    assert torch.equal(got, want), (case, got, want)


def finish(work, asynchronous):
    assert (work is not None) == asynchronous
    if asynchronous:
        assert work.wait() and work.is_completed() and work.is_success() and work.exception() is None


def check_all_reduce(asynchronous):
    for dtype, shape, layout in cases():
        values = values_of(dtype, shape)
        for op in reductions(dtype):
            x = laid_out(values[dist.get_rank()], layout)
            strides = x.stride()
            finish(dist.all_reduce(x, op, async_op=asynchronous), asynchronous)
            same(x, expected(op, values), (op, dtype, shape, layout))
            assert x.stride() == strides


def check_broadcast(asynchronous):
    for root in range(dist.get_world_size()):
        for dtype, shape, layout in cases():
            values = values_of(dtype, shape)
            x = laid_out(values[dist.get_rank()], layout)
            finish(dist.broadcast(x, root, async_op=asynchronous), asynchronous)
            same(x, values[root], (root, dtype, shape, layout))


def check_reduce(asynchronous):
    for root in range(dist.get_world_size()):
        for dtype, shape, layout in cases():
            values = values_of(dtype, shape)
            for op in reductions(dtype):
                x = laid_out(values[dist.get_rank()], layout)
                finish(dist.reduce(x, root, op, async_op=asynchronous), asynchronous)
                want = expected(op, values) if dist.get_rank() == root else values[dist.get_rank()]
                same(x, want, (root, op, dtype, shape, layout))


def check_all_gather(asynchronous):
    for dtype, shape, layout in cases():
        values = values_of(dtype, shape)
        outputs = [laid_out(torch.zeros(shape, dtype=dtype), layout) for _ in values]
        x = laid_out(values[dist.get_rank()], layout)
        finish(dist.all_gather(outputs, x, async_op=asynchronous), asynchronous)
        for got, want in zip(outputs, values, strict=True):
            same(got, want, (dtype, shape, layout))


def check_all_gather_into_tensor(asynchronous):
    for dtype, shape, layout in cases():
        values = values_of(dtype, shape)
        x = laid_out(values[dist.get_rank()], layout)
        stacked = laid_out(torch.zeros(len(values), *shape, dtype=dtype), layout)
        finish(dist.all_gather_into_tensor(stacked, x, async_op=asynchronous), asynchronous)
        same(stacked, torch.stack(values), (dtype, shape, layout))
        if shape:
            joined = torch.zeros(len(values) * shape[0], *shape[1:], dtype=dtype)
            finish(dist.all_gather_single(joined, x, async_op=asynchronous), asynchronous)
            same(joined, torch.cat(values), (dtype, shape, layout))


def check_gather(asynchronous):
    for root in range(dist.get_world_size()):
        for dtype, shape, layout in cases():
            values = values_of(dtype, shape)
            is_root = dist.get_rank() == root
            outputs = [laid_out(torch.zeros(shape, dtype=dtype), layout) for _ in values] if is_root else None
            x = laid_out(values[dist.get_rank()], layout)
            finish(dist.gather(x, outputs, root, async_op=asynchronous), asynchronous)
            for got, want in zip(outputs or [], values if is_root else [], strict=True):
                same(got, want, (root, dtype, shape, layout))
            stacked = torch.zeros(len(values), *shape, dtype=dtype) if is_root else None
            finish(dist.gather_single(x, stacked, root, async_op=asynchronous), asynchronous)
            if is_root:
                same(stacked, torch.stack(values), (root, dtype, shape, layout))


def check_scatter(asynchronous):
    for root in range(dist.get_world_size()):
        for dtype, shape, layout in cases():
            values = values_of(dtype, shape)
            parts = [laid_out(x, layout) for x in values] if dist.get_rank() == root else None
            x = laid_out(torch.zeros(shape, dtype=dtype), layout)
            finish(dist.scatter(x, parts, root, async_op=asynchronous), asynchronous)
            same(x, values[dist.get_rank()], (root, dtype, shape, layout))


def check_reduce_scatter(asynchronous):
    rank, size = dist.get_rank(), dist.get_world_size()
    for dtype, shape, layout in cases():
        parts = [values_of(dtype, shape, salt) for salt in range(size)]
        for op in reductions(dtype):
            inputs = [laid_out(parts[i][rank], layout) for i in range(size)]
            x = laid_out(torch.zeros(shape, dtype=dtype), layout)
            finish(dist.reduce_scatter(x, inputs, op, async_op=asynchronous), asynchronous)
            want = expected(op, parts[rank])
            same(x, want, (op, dtype, shape, layout))
            x.zero_()
            finish(dist.reduce_scatter_tensor(x, torch.stack(inputs), op, async_op=asynchronous), asynchronous)
            same(x, want, (op, dtype, shape, layout))


def check_all_to_all(asynchronous):
    rank, size = dist.get_rank(), dist.get_world_size()
    for dtype, shape, layout in cases():
        if not shape:
            continue
        # Rank `a` sends `a + 2 b` rows to rank `b`.
        part = {(a, b): value(a, dtype, (a + 2 * b, *shape), b) for a in range(size) for b in range(size)}
        inputs = [laid_out(part[rank, b], layout) for b in range(size)]
        outputs = [laid_out(torch.zeros_like(part[a, rank]), layout) for a in range(size)]
        finish(dist.all_to_all(outputs, inputs, async_op=asynchronous), asynchronous)
        for a in range(size):
            same(outputs[a], part[a, rank], (dtype, shape, layout))
        sent, received = [rank + 2 * b for b in range(size)], [a + 2 * rank for a in range(size)]
        x, y = torch.cat(inputs), laid_out(torch.zeros(sum(received), *shape, dtype=dtype), layout)
        finish(dist.all_to_all_single(y, x, received, sent, async_op=asynchronous), asynchronous)
        same(y, torch.cat(outputs), (dtype, shape, layout))
        x = torch.stack([value(rank, dtype, shape, b) for b in range(size)])
        y = torch.zeros_like(x)
        finish(dist.all_to_all_single(y, x, async_op=asynchronous), asynchronous)
        same(y, torch.stack([value(a, dtype, shape, rank) for a in range(size)]), (dtype, shape, layout))


CHECKS = [
    check_all_reduce,
    check_broadcast,
    check_reduce,
    check_all_gather,
    check_all_gather_into_tensor,
    check_gather,
    check_scatter,
    check_reduce_scatter,
    check_all_to_all,
]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
def test_collectives_equal_one_process(pool, check, asynchronous):
    pool.run(check, asynchronous)


def check_coalesced():
    rank, size = dist.get_rank(), dist.get_world_size()
    tensors = [torch.full((n,), float(rank + n)) for n in (1, 4, 0, 3)]
    dist.all_reduce_coalesced(tensors)
    for n, x in zip((1, 4, 0, 3), tensors, strict=True):
        same(x, torch.full((n,), float(sum(range(size)) + n * size)), n)
    future = dist.all_reduce_coalesced([torch.ones(2), torch.ones(3)], dist.ReduceOp.MAX, async_op=True)
    assert [x.tolist() for x in future.wait()] == [[1.0] * 2, [1.0] * 3]
    mixed = [torch.ones(2), torch.full((2,), 1 + 2j)]
    dist.all_reduce_coalesced(mixed)
    assert mixed[0].tolist() == [size] * 2 and mixed[1].tolist() == [size * (1 + 2j)] * 2
    inputs = [torch.full((2,), rank), torch.full((3, 1), 10 * rank)]
    outputs = [[torch.zeros_like(x) for x in inputs] for _ in range(size)]
    dist.all_gather_coalesced(outputs, inputs)
    for i in range(size):
        same(outputs[i][0], torch.full((2,), i), i)
        same(outputs[i][1], torch.full((3, 1), 10 * i), i)
    x, y = torch.ones(2), torch.ones(3)
    with dist._coalescing_manager() as manager:
        dist.all_reduce(x)
        dist.all_reduce(y)
        assert x.tolist() == [1.0, 1.0]
    assert not manager.works and x.tolist() == [size] * 2 and y.tolist() == [size] * 3
    gathered = [torch.zeros(size), torch.zeros(size, 2)]
    with dist._coalescing_manager(async_ops=True) as manager:
        held = dist.all_gather_into_tensor(gathered[0], torch.tensor([float(rank)]), async_op=True)
        dist.all_gather_into_tensor(gathered[1], torch.tensor([float(rank)] * 2), async_op=True)
    with pytest.raises(ValueError, match="Illegal to call wait on IllegalWork object"):
        held.wait()
    manager.wait()
    assert gathered[0].tolist() == list(range(size)) and gathered[1][:, 1].tolist() == list(range(size))
    part, parts = torch.zeros(1), torch.arange(float(size))
    with dist._coalescing_manager():
        dist.reduce_scatter_tensor(part, parts)
    assert part.tolist() == [rank * size]
    with pytest.raises(RuntimeError, match="requires all collectives to be the same type"), dist._coalescing_manager():
        dist.all_reduce(x)
        dist.all_gather_into_tensor(gathered[0], part)


def test_coalesced_collectives(pool):
    pool.run(check_coalesced)


def check_premultiplied_sum():
    x = torch.tensor([1.0, 2.0])
    dist.all_reduce(x, dist._make_nccl_premul_sum(3.0))
    assert x.tolist() == [3.0 * dist.get_world_size(), 6.0 * dist.get_world_size()]
    x = torch.tensor([1.0, 2.0])
    dist.reduce(x, 0, dist._make_nccl_premul_sum(torch.tensor(2.0)))
    assert x.tolist() == (
        [2.0 * dist.get_world_size(), 4.0 * dist.get_world_size()] if dist.get_rank() == 0 else [1, 2]
    )


def test_premultiplied_sum(pool):
    pool.run(check_premultiplied_sum)


def check_output_shares_memory_with_input():
    rank, size = dist.get_rank(), dist.get_world_size()
    y = torch.zeros(size, 3)
    y[rank] = rank + 1.0
    dist.all_gather_into_tensor(y, y[rank])
    same(y, torch.arange(1.0, size + 1).unsqueeze(1).expand(size, 3), "all_gather")
    x = torch.arange(float(size)).repeat_interleave(2)
    dist.reduce_scatter_tensor(x[2 * rank : 2 * rank + 2], x)
    assert x[2 * rank : 2 * rank + 2].tolist() == [rank * size] * 2
    x = torch.arange(float(size)) + 10 * rank
    dist.all_to_all_single(x, x)
    assert x.tolist() == [10 * i + rank for i in range(size)]


def test_output_may_share_memory_with_input(pool):
    pool.run(check_output_shares_memory_with_input)


def check_lazy_conjugates():
    rank, size = dist.get_rank(), dist.get_world_size()
    x = torch.tensor([1 + 2j, 3 - 1j]) * (rank + 1)
    view = x.conj()
    assert view.is_conj()
    dist.all_reduce(view)
    scale = sum(range(1, size + 1))
    assert view.tolist() == [(1 - 2j) * scale, (3 + 1j) * scale] and x.tolist() == [(1 + 2j) * scale, (3 - 1j) * scale]


def test_views_of_conjugates(pool):
    pool.run(check_lazy_conjugates)


def check_versions_and_history():
    rank, size = dist.get_rank(), dist.get_world_size()
    for device in ("cpu", "tpu"):
        x, y = torch.ones(2, device=device), torch.ones(2, device=device)
        versions = x._version, y._version
        dist.all_reduce(x)
        dist.all_reduce(x, async_op=True).wait()
        dist.broadcast(x, 0)
        dist.all_gather_into_tensor(torch.zeros(size, 2, device=device), y)
        strided = torch.ones(2, 2, device=device)
        before = strided._version
        dist.all_reduce(strided[:, 0])
        if rank == 0:
            dist.send(x, 1)
        elif rank == 1:
            dist.recv(x, 0)
        assert (x._version, y._version, strided._version) == (*versions, before)
        assert x.tolist() == [size * size] * 2 and strided.tolist() == [[size, 1], [size, 1]]
        # Row-parallel code by hand: the collective is on an activation that backward needs.
        layer = torch.nn.Linear(2, 3).to(device)
        h = torch.relu(layer(torch.ones(1, 2, device=device)))
        dist.all_reduce(h)
        h.sum().backward()
        assert layer.weight.grad is not None
    leaf = torch.ones(2, requires_grad=True)
    (leaf * leaf).sum().backward()
    dist.all_reduce(leaf.grad)
    assert leaf.grad.tolist() == [2.0 * dist.get_world_size()] * 2
    dist.broadcast(leaf, 0)
    assert leaf.requires_grad and leaf.is_leaf


def test_collectives_are_no_writes_in_place(pool):
    pool.run(check_versions_and_history)


def check_work():
    rank, size = dist.get_rank(), dist.get_world_size()
    x = torch.full((1000,), float(rank))
    work = dist.all_reduce(x, async_op=True)
    future = work.get_future()
    assert work.get_future() is future
    seen = []
    following = future.then(lambda done: (seen.append(threading.current_thread()), done.value()[0].sum().item())[1])
    assert following.wait() == 1000 * sum(range(size))
    assert work.wait() is True and work.result()[0] is x and future.value()[0] is x and len(seen) == 1
    # A callback may start collectives and wait for them.
    nested = dist.all_reduce(torch.ones(1), async_op=True).get_future()
    chained = nested.then(lambda done: dist.all_reduce(done.value()[0], async_op=True).get_future().wait()[0])
    assert chained.wait().tolist() == [size * size]
    # Works end in the order of their calls.
    tensors = [torch.full((n,), 1.0) for n in (100_000, 1, 1000)]
    works = [dist.all_reduce(t, async_op=True) for t in tensors]
    dist.all_reduce(torch.ones(1))
    assert all(work.is_completed() for work in works)
    assert all((t == size).all() for t in tensors)
    # The memory of a tensor outlives the tensor.
    work = dist.all_reduce(torch.ones(300_000), async_op=True)
    assert work.wait() and (work.result()[0] == size).all()
    with pytest.raises(RuntimeError, match="sourceRank"):
        work.source_rank()
    outputs = [torch.zeros(1) for _ in range(size)]
    work = dist.all_gather(outputs, torch.ones(1), async_op=True)
    assert all(got is output for got, output in zip(work.get_future().wait(), outputs, strict=True))
    work = dist.barrier(async_op=True)
    assert work.wait() and work.result() == []


def test_works(pool):
    pool.run(check_work)


def check_subgroups():
    rank, size = dist.get_rank(), dist.get_world_size()
    halves = [list(range(0, size, 2)), list(range(1, size, 2))]
    groups = [dist.new_group(ranks) for ranks in halves]
    mine = groups[rank % 2]
    assert groups[1 - rank % 2] == dist.GroupMember.NON_GROUP_MEMBER
    x = torch.tensor([float(rank)])
    dist.all_reduce(x, group=mine)
    assert x.item() == sum(halves[rank % 2])
    outputs = [torch.zeros(1) for _ in halves[rank % 2]]
    dist.all_gather(outputs, torch.tensor([float(rank)]), mine)
    assert [y.item() for y in outputs] == halves[rank % 2]
    x = torch.tensor([float(rank)])
    dist.broadcast(x, halves[rank % 2][-1], mine)
    assert x.item() == halves[rank % 2][-1]
    x = torch.tensor([float(rank)])
    dist.broadcast(x, group=mine, group_src=0)
    assert x.item() == rank % 2
    with pytest.warns(UserWarning, match=f"Running all_reduce on global rank {rank} which does not belong"):
        assert dist.all_reduce(x, group=groups[1 - rank % 2]) is None
    for group in groups:
        dist.destroy_process_group(group)
    dist.barrier()


def test_subgroups(pool):
    pool.run(check_subgroups)


def check_many_steps():
    """Mix collectives of several groups for a while, and compare with the numbers that must come out."""
    rank, size = dist.get_rank(), dist.get_world_size()
    pairs = [dist.new_group([i, i + 1]) for i in range(0, size, 2)]
    mine = pairs[rank // 2]
    works = []
    for step in range(200):
        x = torch.full((1 + 37 * step,), float(step))
        works.append((x, step * size, dist.all_reduce(x, async_op=True)))
        y = torch.full((3,), float(rank + step))
        works.append((y, 2 * step + 4 * (rank // 2) + 1, dist.all_reduce(y, group=mine, async_op=True)))
        if step % 17 == 0:
            dist.barrier()
    for x, want, work in works:
        work.wait()
        assert (x == want).all()


def test_many_steps_of_several_groups(pool):
    pool.run(check_many_steps)


def operators():
    ops, name = torch.ops._c10d_functional, dist.group.WORLD.group_name
    rank, size = dist.get_rank(), dist.get_world_size()
    x = torch.arange(2.0 * size).reshape(2 * size, 1) + rank
    wait = ops.wait_tensor
    total = sum(torch.arange(2.0 * size).reshape(2 * size, 1) + r for r in range(size))
    assert torch.equal(wait(ops.all_reduce(x, "sum", name)), total)
    assert torch.equal(wait(ops.reduce_scatter_tensor(x, "sum", size, name)), total.chunk(size)[rank])
    assert torch.equal(wait(ops.all_gather_into_tensor(x, size, name))[:: 2 * size, 0], torch.arange(float(size)))
    assert torch.equal(wait(ops.broadcast(x, 1, name)), x - rank + 1)
    rows = [2] * size
    swapped = wait(ops.all_to_all_single(x, rows, rows, name))
    assert swapped[::2, 0].tolist() == [2.0 * rank + r for r in range(size)]
    assert ops.all_reduce.default(x, "max", name)[0].item() == size - 1


def mixed_numbers():
    """Complex numbers are sent as pairs, so they may be gathered as real numbers, and the other way round."""
    rank, size = dist.get_rank(), dist.get_world_size()
    pair = torch.tensor([1.0 + rank, 2.0])
    for value in (pair, torch.view_as_complex(pair)):
        outputs = [torch.zeros(2) for _ in range(size - 1)] + [torch.zeros((), dtype=torch.complex64)]
        dist.all_gather(outputs, value)
        assert [x.tolist() for x in outputs] == [[1.0 + r, 2.0] for r in range(size - 1)] + [complex(size, 2)]


def test_complex_numbers_are_gathered_as_pairs(pool):
    pool.run(mixed_numbers)


def test_operators_take_the_name_of_a_group(pool):
    pool.run(operators)
