"""Write checkpoints of PyTorch into this folder. Run it with PyTorch: `python record.py`.

`one` was saved by one process and `two` by two, `safetensors` by the writer for Hugging Face. The tests import `values`
and `sharded`.
"""

import datetime
import pathlib
import shutil
import warnings

HERE = pathlib.Path(__file__).parent


def values(torch):
    """Return the state dict of `one`."""
    return {
        "model": {
            "weight": torch.arange(12, dtype=torch.float32).reshape(3, 4),
            "transposed": torch.arange(6, dtype=torch.float32).reshape(2, 3).t(),
            "part": torch.arange(10, dtype=torch.float64)[2:5],
            "bias": torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
            "count": torch.tensor(7),
            "none": torch.zeros(0, 3),
        },
        "list": [torch.ones(2), {"name": "x"}],
        "step": 3,
        "text": "straße",
        "nothing": None,
        "pair": (1, 2.5),
    }


def sharded(torch):
    """Return the tensor that is sharded by rows in `two`."""
    return torch.arange(10, dtype=torch.float32).reshape(5, 2)


def _save_one(path):
    import torch
    import torch.distributed.checkpoint as dcp

    dcp.save(values(torch), checkpoint_id=path, no_dist=True)
    state = {"a": torch.arange(6, dtype=torch.float32).reshape(2, 3), "b": torch.tensor([1, 2, 3])}
    # PyTorch needs the package `safetensors` for these files.
    dcp.save(state, storage_writer=dcp.HuggingFaceStorageWriter(str(HERE / "safetensors")), no_dist=True)


def _save_two(rank, path, store):
    import torch
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp
    from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh

    timeout = datetime.timedelta(seconds=60)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2, timeout=timeout)
    mesh = init_device_mesh("cpu", (2,))
    state = {
        "rows": distribute_tensor(sharded(torch), mesh, [Shard(0)]),
        "columns": distribute_tensor(sharded(torch), mesh, [Shard(1)]),
        "same": torch.full((3,), 2.0),
        "step": 5,
    }
    dcp.save(state, checkpoint_id=path)
    dist.destroy_process_group()


if __name__ == "__main__":
    import tempfile

    import torch.multiprocessing as mp

    warnings.simplefilter("ignore")
    for name in ("one", "two", "safetensors"):
        shutil.rmtree(HERE / name, ignore_errors=True)
    # The metadata has the path of the folder.
    folder = pathlib.Path(tempfile.mkdtemp())
    _save_one(folder / "one")
    mp.spawn(_save_two, (folder / "two", folder / "store"), nprocs=2)
    for name in ("one", "two"):
        shutil.copytree(folder / name, HERE / name)
    shutil.rmtree(folder)
