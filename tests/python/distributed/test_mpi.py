"""Backend ``mpi``: processes of ``mpiexec``, and an MPI library with the standard ABI."""

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


def run(ranks, text):
    """Run a program on some ranks. Return its exit code, output and errors."""
    program = f"import pytpu as torch\nfrom pytpu import distributed as dist\n{text}"
    command = [MPIEXEC, "-n", str(ranks), sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    return done.returncode, done.stdout, done.stderr


@needs_mpi
def test_ranks_of_mpiexec_exchange_messages_of_all_sizes():
    code, out, err = run(
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
print("done", rank)
""",
    )
    assert (code, sorted(re.findall(r"done \d", out))) == (0, ["done 0", "done 1", "done 2"]), err


@needs_mpi
def test_a_mistake_is_an_error_on_both_ranks():
    code, _, err = run(2, 'dist.init_process_group("mpi")\ndist.all_reduce(torch.ones(4 + 2 * dist.get_rank()))')
    assert code != 0
    for rank in range(2):
        assert re.search(rf"\[rank{rank}\]: .*DistBackendError: Detected mismatch between collectives on ranks", err)


@needs_mpi
def test_a_rank_that_left_is_named():
    code, out, err = run(
        2,
        """
dist.init_process_group("mpi")
if dist.get_rank() == 1:
    dist.destroy_process_group()
else:
    try:
        dist.all_reduce(torch.ones(4))
    except dist.DistBackendError as error:
        print(str(error).splitlines()[0])
""",
    )
    assert (code, out) == (0, "Rank 1 has left the group\n"), err


@needs_mpi
def test_ranks_come_from_mpi():
    code, out, err = run(
        1,
        """
import warnings
with warnings.catch_warnings(record=True) as seen:
    dist.init_process_group("mpi", rank=3, world_size=9)
print(dist.get_rank(), dist.get_world_size(), seen[0].message)
""",
    )
    expected = (
        "0 1 For MPI backend, world_size (9) and rank (3) are ignored since they are assigned by the MPI runtime.\n"
    )
    assert (code, out) == (0, expected), err


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
