"""Processes that end without `destroy_process_group`. Nothing that they have sent is lost."""

import subprocess
import sys

import pytest
from patience import HANG_SECONDS

START = """
import multiprocessing, os, sys, time
import pytpu as torch
import pytpu.distributed as dist

def begin(rank, folder):
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    return torch.full((3,), float(rank + 1))
"""

SENDS = """
def work(rank, folder):
    x = begin(rank, folder)
    if rank == 1:
        dist.isend(x, 0)
        dist.all_reduce(x, async_op=True)
        return
    time.sleep(0.5)
    y = torch.zeros(3)
    dist.recv(y, 1)
    dist.all_reduce(x)
    assert y.tolist() == [2, 2, 2] and x.tolist() == [3, 3, 3]
"""

TWO_GROUPS = """
def work(rank, folder):
    x = begin(rank, folder)
    groups = [dist.new_group(), dist.new_group()]
    dist.barrier()
    dist.isend(x, 1 - rank, groups[1 - rank])
    # It leaves groups in another order than the end of a process does.
    if rank == 0:
        dist.destroy_process_group()
"""

RAISES = """
def work(rank, folder):
    x = begin(rank, folder)
    if rank == 1:
        dist.broadcast(x, 1, async_op=True)
        dist.all_reduce(x, async_op=True)
        raise KeyError("the data is gone")
    try:
        dist.recv(torch.zeros(3), 1)
    except dist.DistBackendError as error:
        assert "KeyError: 'the data is gone'" in str(error), error
    else:
        raise AssertionError("rank 1 sends nothing")
"""

RUN = """
if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[2])
    children = [context.Process(target=work, args=(rank, sys.argv[1])) for rank in range(2)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    print([child.exitcode for child in children])
"""

IN_FLIGHT = """
def work(rank, folder):
    x = begin(rank, folder)
    groups = [dist.new_group(), dist.new_group()]
    dist.barrier()
    if rank == 0:
        dist.all_reduce(x, group=groups[0], async_op=True)
        return
    try:
        dist.all_reduce(x, group=groups[1])
    except dist.DistBackendError as error:
        assert "Rank 0 has left the group" in str(error), error
    else:
        raise AssertionError("rank 0 does not call it")
"""

FORKS = """
x = begin(int(sys.argv[2]), sys.argv[1])
child = os.fork()
if child == 0:
    sys.stderr = open(os.devnull, "w")
    exec(sys.argv[3])
os.waitpid(child, 0)
dist.barrier()
time.sleep(0.2 * dist.get_rank())
dist.all_reduce(x)
print(x.tolist())
"""


def run(text, folder, *arguments):
    script = folder / "script.py"
    script.write_text(text)
    return subprocess.Popen([sys.executable, script, folder, *arguments], stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_what_a_process_has_sent_arrives_after_its_end(tmp_path, method):
    assert run(START + SENDS + RUN, tmp_path, method).communicate(timeout=HANG_SECONDS)[0] == "[0, 0]\n"


def test_ranks_that_leave_several_groups_do_not_wait_for_each_other(tmp_path):
    assert run(START + TWO_GROUPS + RUN, tmp_path, "spawn").communicate(timeout=HANG_SECONDS)[0] == "[0, 0]\n"


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_child_tells_the_other_ranks_its_exception_and_ends_at_once(tmp_path, method):
    assert run(START + RAISES + RUN, tmp_path, method).communicate(timeout=HANG_SECONDS)[0] == "[0, 1]\n"


def test_a_group_without_works_is_left_before_those_of_another_group_end(tmp_path):
    assert run(START + IN_FLIGHT + RUN, tmp_path, "spawn").communicate(timeout=HANG_SECONDS)[0] == "[0, 0]\n"


@pytest.mark.parametrize(
    "end", ["sys.exit()", "raise KeyError('only a helper fails')", "dist.destroy_process_group(); sys.exit()"]
)
def test_the_end_of_a_fork_does_not_end_the_groups_of_its_parent(tmp_path, end):
    ranks = [run(START + FORKS, tmp_path, str(rank), end) for rank in range(2)]
    assert [rank.communicate(timeout=HANG_SECONDS)[0] for rank in ranks] == ["[3.0, 3.0, 3.0]\n"] * 2
