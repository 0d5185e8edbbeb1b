"""Backend ``mpi``: processes of ``mpiexec``, and an MPI library with the standard ABI."""

import os
import pathlib
import re
import subprocess
import sys
import sysconfig

import pytest

import pytpu as torch
from pytpu import distributed as dist

MPIEXEC = pathlib.Path(sysconfig.get_path("scripts")) / "mpiexec"
# It is only reached when something is broken.
LIMIT = 120

needs_mpi = pytest.mark.skipif(not MPIEXEC.exists() or not dist.is_mpi_available(), reason="needs `pip install mpich`")


# `mpiexec` may lose what a rank prints at its end, so programs report with `say`.
START = """
import os
import pathlib
import pytpu as torch
from pytpu import distributed as dist

def say(text):
    pathlib.Path(os.environ["SAID"], str(os.getpid())).write_text(str(text))

"""


def run(folder, ranks, text):
    """Run a program on some ranks. Return its exit code, what the ranks said, sorted, and their errors."""
    command = [MPIEXEC, "-n", str(ranks), sys.executable, "-c", START + text]
    environment = os.environ | {"SAID": str(folder)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT)
    return done.returncode, sorted(path.read_text() for path in folder.iterdir()), done.stderr


@needs_mpi
def test_ranks_of_mpiexec_exchange_messages_of_all_sizes(tmp_path):
    code, said, err = run(
        tmp_path,
        3,
        """
dist.init_process_group("mpi")
rank, size = dist.get_rank(), dist.get_world_size()
assert (size, dist.get_backend()) == (3, "mpi")
# Messages in one piece, of one piece and a header, and in several pieces.
for n in (0, 1, 1000, 262144, 900_001):
    x = (torch.arange(n, dtype=torch.float32) % 1000) * (rank + 1)
    dist.all_reduce(x)
    assert torch.equal(x, (torch.arange(n, dtype=torch.float32) % 1000) * 6), n
pair = dist.new_group([0, 2])
if rank != 1:
    x = torch.full((3,), float(rank))
    dist.broadcast(x, 2, group=pair)
    assert x.tolist() == [2, 2, 2]
found = [None] * size
dist.all_gather_object(found, {"rank": rank})
assert found == [{"rank": 0}, {"rank": 1}, {"rank": 2}]
if rank == 0:
    dist.send(torch.arange(1_500_000), 1, tag=5)
if rank == 1:
    x = torch.empty(1_500_000, dtype=torch.int64)
    dist.recv(x, 0, tag=5)
    assert torch.equal(x, torch.arange(1_500_000))
x = torch.ones(4, device="tpu")
dist.all_reduce(x)
assert x.tolist() == [3, 3, 3, 3]
dist.destroy_process_group()
say(rank)
""",
    )
    assert (code, said) == (0, ["0", "1", "2"]), err


@needs_mpi
def test_a_mistake_is_an_error_on_both_ranks(tmp_path):
    code, _, err = run(
        tmp_path, 2, 'dist.init_process_group("mpi")\ndist.all_reduce(torch.ones(4 + 2 * dist.get_rank()))'
    )
    assert code != 0
    for rank in range(2):
        assert re.search(rf"\[rank{rank}\]: .*DistBackendError: Detected mismatch between collectives on ranks", err)


@needs_mpi
def test_a_rank_that_left_is_named(tmp_path):
    code, said, err = run(
        tmp_path,
        2,
        """
dist.init_process_group("mpi")
if dist.get_rank() == 1:
    dist.destroy_process_group()
else:
    try:
        dist.all_reduce(torch.ones(4))
    except dist.DistBackendError as error:
        say(str(error).splitlines()[0])
""",
    )
    assert (code, said) == (0, ["Rank 1 has left the group"]), err


@needs_mpi
def test_ranks_come_from_mpi(tmp_path):
    code, said, err = run(
        tmp_path,
        1,
        """
import warnings
with warnings.catch_warnings(record=True) as seen:
    dist.init_process_group("mpi", rank=3, world_size=9)
say((dist.get_rank(), dist.get_world_size(), str(seen[0].message)))
""",
    )
    warning = "For MPI backend, world_size (9) and rank (3) are ignored since they are assigned by the MPI runtime."
    assert (code, said) == (0, [str((0, 1, warning))]), err


def test_a_missing_library_says_what_to_install(monkeypatch, tmp_path):
    file = tmp_path / "libmpi_abi.so"
    for text in (None, "this is no library"):
        if text is not None:
            file.write_text(text)
        monkeypatch.setenv("TORCHTPU_MPI_LIBRARY", str(file))
        assert not dist.is_mpi_available() and not dist.is_backend_available("cpu:mpi")
        with pytest.raises(RuntimeError, match=r"(?s)doesn't have MPI built in.*pip install mpich"):
            torch.distributed.init_process_group("mpi")
    assert not dist.is_initialized()
