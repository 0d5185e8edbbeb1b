"""The example of data parallel training, in two processes."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

pytest.importorskip("sklearn")
PATH = pathlib.Path(__file__).resolve().parents[3] / "examples" / "ddp.py"


def run(size, device):
    """Run the example, and return what rank 0 prints."""
    import pytpu.distributed as dist

    server = dist.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    own = {"MASTER_ADDR": "localhost", "MASTER_PORT": str(server.port), "WORLD_SIZE": str(size)}
    own["TORCHELASTIC_USE_AGENT_STORE"] = "True"
    ranks = [
        subprocess.Popen(
            [sys.executable, str(PATH), "--device", device],
            env=os.environ | own | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(size)
    ]
    try:
        texts = [rank.communicate(timeout=300)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert [rank.returncode for rank in ranks] == [0] * size, texts
    return texts[0]


@pytest.mark.parametrize("device", ["cpu", "tpu"])
def test_two_ranks_train(device):
    text = run(2, device)
    losses = [float(loss) for loss in re.findall(r"loss ([0-9.]+)", text)]
    assert len(losses) == 5
    assert losses[-1] < losses[0]
    assert float(re.search(r"accuracy  ([0-9.]+) %", text)[1]) > 80
