"""Imports of a script for several devices."""

import subprocess
import sys

IMAGENET = """
import torch
import torch.backends.cudnn as cudnn
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.parallel
import torch.optim
import torch.utils.data
import torch.utils.data.distributed
from torch.nn.modules.utils import _pair
from torch.nn.common_types import _size_2_t
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import Subset
from torch.utils.data._utils.collate import default_collate
from torch.types import Device, Number

cudnn.benchmark = True
cudnn.deterministic = True
torch.backends.cuda.matmul.allow_tf32 = True
assert torch.backends.cudnn.benchmark and dist.is_available() and not dist.is_initialized()
model = nn.DataParallel(nn.Linear(2, 1)).to("tpu")
loss = model(torch.ones(4, 2, device="tpu")).sum()
loss.backward()
assert list(model.state_dict()) == ["module.weight", "module.bias"]
assert model.module.weight.grad.tolist() == [[4.0, 4.0]] and _pair(3) == (3, 3)
print("ran")
"""


def test_imports_of_a_script_for_several_devices_exist(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(IMAGENET)
    out = subprocess.run([sys.executable, "-m", "pytpu", script], capture_output=True, text=True, timeout=120)
    assert out.stdout == "ran\n", out.stderr
