"""Messages between two ranks, and collectives on objects."""

import datetime

import pytest
from test_collectives import DTYPES, LAYOUTS, SHAPES, laid_out, same, value

import pytpu as torch
import pytpu.distributed as dist


class Point:
    """An object that can be pickled."""

    def __init__(self, x):
        self.x = x

    def __eq__(self, other):
        return type(other) is Point and self.x == other.x


def check_send_and_receive():
    rank, size = dist.get_rank(), dist.get_world_size()
    after, before = (rank + 1) % size, (rank - 1) % size
    for dtype in DTYPES:
        for shape in SHAPES:
            for layout in LAYOUTS:
                x, y = laid_out(value(rank, dtype, shape), layout), laid_out(torch.zeros(shape, dtype=dtype), layout)
                if rank % 2 == 0:
                    dist.send(x, after)
                    assert dist.recv(y, before) == before
                else:
                    assert dist.recv(y, before) == before
                    dist.send(x, after)
                same(y, value(before, dtype, shape), (dtype, shape, layout))


def test_send_and_receive(pool):
    pool.run(check_send_and_receive)


def check_tags():
    rank, size = dist.get_rank(), dist.get_world_size()
    if rank == 0:
        for peer in range(1, size):
            for tag in (0, 1, 2**31 - 1):
                dist.send(torch.tensor([peer * 10.0 + tag % 10]), peer, tag=tag)
        seen = []
        for _ in range(1, size):
            x = torch.zeros(2)
            source = dist.recv(x, tag=5)
            assert x.tolist() == [source, 5.0]
            seen.append(source)
        assert sorted(seen) == list(range(1, size))
    else:
        # Later tags may be asked for first.
        for tag in (2**31 - 1, 0, 1):
            x = torch.zeros(1)
            dist.recv(x, 0, tag=tag)
            assert x.item() == rank * 10.0 + tag % 10
        dist.send(torch.tensor([rank, 5.0]), 0, tag=5)
    dist.barrier()


def test_tags_and_any_source(pool):
    pool.run(check_tags)


def check_works():
    rank, size = dist.get_rank(), dist.get_world_size()
    others = [peer for peer in range(size) if peer != rank]
    places = {peer: torch.zeros(1000, dtype=torch.int64) for peer in others}
    receiving = [dist.irecv(places[peer], peer, tag=7) for peer in others]
    sending = [dist.isend(torch.full((1000,), 100 * rank + peer), peer, tag=7) for peer in others]
    for work in sending + receiving:
        assert work.wait(datetime.timedelta(seconds=60)) and work.is_completed()
    assert [work.source_rank() for work in receiving] == others
    assert all(receiving[i].result()[0] is places[peer] for i, peer in enumerate(others))
    assert all((places[peer] == 100 * peer + rank).all() for peer in others)
    # A message that was copied is the sender's no more.
    x = torch.ones(4)
    works = [dist.isend(x, peer) for peer in others]
    x.zero_()
    y = torch.zeros(4)
    for _ in others:
        dist.recv(y)
        assert y.tolist() == [1.0] * 4
    for work in works:
        work.wait()
    future = dist.irecv(y, (rank - 1) % size, tag=9).get_future().then(lambda done: done.value()[0].sum().item())
    dist.isend(torch.full((4,), 2.0), (rank + 1) % size, tag=9).wait()
    assert future.wait() == 8.0
    dist.barrier()


def test_works_of_messages(pool):
    pool.run(check_works)


def check_batch():
    rank, size = dist.get_rank(), dist.get_world_size()
    after, before = (rank + 1) % size, (rank - 1) % size
    x, y = torch.full((5,), float(rank)), torch.zeros(5)
    ops = [dist.P2POp(dist.isend, x, after), dist.P2POp(dist.irecv, y, before)]
    assert repr(ops[0]).startswith(f"P2POp(isend pg=0, group_src={rank}, group_dst={after},")
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    assert (y == before).all()
    pair = dist.new_group([0, 1])
    if rank < 2:
        op = dist.P2POp(dist.isend if rank == 0 else dist.irecv, y, group=pair, group_peer=1 - rank)
        assert op.peer == 1 - rank
        dist.batch_isend_irecv([op])[0].wait()
        assert (y == size - 1).all()


def test_batches(pool):
    pool.run(check_batch)


def check_subgroup():
    rank, size = dist.get_rank(), dist.get_world_size()
    group = dist.new_group([size - 1, 0], sort_ranks=False)
    if rank not in (0, size - 1):
        return
    assert group.rank() == (0 if rank == size - 1 else 1)
    x = torch.zeros(1)
    if rank == 0:
        dist.send(torch.tensor([3.0]), size - 1, group)
        assert dist.recv(x, group=group, group_src=0) == size - 1 and x.item() == 4.0
    else:
        assert dist.recv(x, group=group) == 0 and x.item() == 3.0
        dist.send(torch.tensor([4.0]), group=group, group_dst=1)


def test_messages_of_a_group(pool):
    pool.run(check_subgroup)


def check_objects(weights_only):
    rank, size = dist.get_rank(), dist.get_world_size()

    def thing(i):
        return {"rank": i, "text": "x" * (10 * i), "tensor": torch.arange(i)} if weights_only else [Point(i)] * (i + 1)

    def is_same(got, i):
        want = thing(i)
        if weights_only:
            return got["text"] == want["text"] and got["tensor"].tolist() == want["tensor"].tolist()
        return got == want

    got = [None] * size
    dist.all_gather_object(got, thing(rank), weights_only=weights_only)
    assert all(is_same(got[i], i) for i in range(size))
    for root in range(size):
        got = [None] * size if rank == root else None
        dist.gather_object(thing(rank), got, root, weights_only=weights_only)
        assert got is None or all(is_same(got[i], i) for i in range(size))
        got = [thing(i) for i in range(3)] if rank == root else [None] * 3
        dist.broadcast_object_list(got, root, weights_only=weights_only)
        assert all(is_same(got[i], i) for i in range(3))
        got = [None, "kept"]
        inputs = [thing(i) for i in range(size)] if rank == root else None
        dist.scatter_object_list(got, inputs, root, weights_only=weights_only)
        assert is_same(got[0], rank) and got[1] == "kept"
    after, before = (rank + 1) % size, (rank - 1) % size
    got = [None, None]
    if rank % 2 == 0:
        dist.send_object_list([thing(rank), thing(1)], after, weights_only=weights_only)
        assert dist.recv_object_list(got, before, weights_only=weights_only) == before
    else:
        assert dist.recv_object_list(got, before, weights_only=weights_only) == before
        dist.send_object_list([thing(rank), thing(1)], after, weights_only=weights_only)
    assert is_same(got[0], before) and is_same(got[1], 1)
    dist.barrier()


@pytest.mark.parametrize("weights_only", [False, True])
def test_objects(pool, weights_only):
    pool.run(check_objects, weights_only)


def raise_on_unpickling():
    raise RuntimeError("this was unpickled")


class Bomb:
    """An object that raises when it is unpickled."""

    def __reduce__(self):
        return raise_on_unpickling, ()


def check_refused_objects():
    with pytest.raises(Exception, match="[Ww]eights"):
        dist.all_gather_object([None] * dist.get_world_size(), Bomb(), weights_only=True)
    with pytest.raises(RuntimeError, match="this was unpickled"):
        dist.all_gather_object([None] * dist.get_world_size(), Bomb())


def test_objects_that_are_no_weights_are_refused(pool):
    pool.run(check_refused_objects)


def check_arguments():
    rank, size = dist.get_rank(), dist.get_world_size()
    x = torch.zeros(1)
    for call, kind, text in [
        (lambda: dist.send(x, rank), ValueError, "Invalid destination rank: destination rank should not be the same"),
        (lambda: dist.recv(x, rank), ValueError, "Invalid source rank: source rank should not be the same"),
        (lambda: dist.send(x), ValueError, "Must specify global_rank or group_rank"),
        (lambda: dist.send(x, 0, group_dst=1), ValueError, "Can't specify both group_rank and global_rank"),
        (lambda: dist.send(x, size), ValueError, f"send: rank: {size}, must be less than {size}"),
        (lambda: dist.irecv(x, size), ValueError, f"recv: rank: {size}, must be less than {size}"),
        (lambda: dist.send(x, 1 - min(rank, 1), tag=-1), RuntimeError, "Tag must be nonnegative"),
        (lambda: dist.send([x], 0), TypeError, "Expected parameter `tensor` of type torch.Tensor"),
        (lambda: dist.P2POp(dist.send, x, 0), ValueError, "Invalid ``op``. Expected ``op``"),
        (lambda: dist.batch_isend_irecv([x]), ValueError, "Invalid ``p2p_op_list``"),
        (lambda: dist.scatter_object_list([], [1]), ValueError, "scatter_object_output_list to be a list of size"),
    ]:
        if rank == 0 and text.startswith("Expected parameter"):
            continue
        with pytest.raises(kind, match=text):
            call()
    if rank == 0:
        with pytest.raises(ValueError, match="``gather_list`` must be specified on destination rank"):
            dist.gather_object(1)
    else:
        with pytest.raises(ValueError, match="``gather_list`` must NOT be specified on non-destination ranks"):
            dist.gather_object(1, [None] * size)
    dist.barrier()


def test_wrong_arguments_are_refused_before_anything_is_sent(pool):
    pool.run(check_arguments)


def receive_other_sizes():
    if dist.get_rank() == 0:
        dist.send(torch.ones(3), 1)
        dist.send(torch.ones(3), 1)
    elif dist.get_rank() == 1:
        with pytest.raises(dist.DistBackendError, match="has 12 bytes of float32, must be 16 bytes of float32"):
            dist.recv(torch.ones(4), 0)
        with pytest.raises(dist.DistBackendError, match="has 12 bytes of float32, must be 12 bytes of int32"):
            dist.recv(torch.ones(3, dtype=torch.int32), 0)
    dist.barrier()


def test_messages_of_other_sizes_are_errors(pool):
    pool.run(receive_other_sizes)


def wait_in_vain():
    group = dist.new_group(timeout=datetime.timedelta(milliseconds=200))
    if dist.get_rank() == 0:
        with pytest.raises(dist.DistBackendError, match="Timed out waiting for a message from rank 1 with tag 3"):
            dist.recv(torch.ones(1), 1, group, tag=3)
        work = dist.irecv(torch.ones(1), 1, tag=4)
        with pytest.raises(dist.DistBackendError, match="recv: wait timed out after 50 ms"):
            work.wait(datetime.timedelta(milliseconds=50))
        dist.barrier()
        work.wait()
    else:
        dist.barrier()
        if dist.get_rank() == 1:
            dist.send(torch.ones(1), 0, tag=4)
    dist.barrier()


def test_a_receive_ends_after_its_timeout(pool):
    pool.run(wait_in_vain)
