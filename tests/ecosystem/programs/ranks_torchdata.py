"""torchdata on two ranks: accelerate loads batches by `StatefulDataLoader`, in this process and in workers. Training
stops within an epoch, and goes on from the saved state of the loader.
"""

import tempfile

import torch
from accelerate import Accelerator, DataLoaderConfiguration
from accelerate.utils import broadcast_object_list
from reporting import check_on, device, report
from torchdata.stateful_dataloader import StatefulDataLoader

where = device()
accelerator = Accelerator(
    cpu=where.type == "cpu", dataloader_config=DataLoaderConfiguration(use_stateful_dataloader=True)
)
torch.manual_seed(0)
data = torch.utils.data.TensorDataset(torch.randn(44, 8), torch.randint(3, (44,)))


def train(workers):
    """Train two epochs, stop within the first, and go on. Return the losses of all steps, twice after the stop."""
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    loader = torch.utils.data.DataLoader(data, batch_size=4, num_workers=workers)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    check_on(model, where)
    assert isinstance(loader.base_dataloader, StatefulDataLoader)
    folders = broadcast_object_list([tempfile.mkdtemp() if accelerator.is_main_process else None])
    losses = []

    def epoch(stop=None):
        for step, (x, y) in enumerate(loader):
            loss = torch.nn.functional.cross_entropy(model(x), y)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            losses.append(accelerator.reduce(loss.detach(), "mean").item())
            if step == stop:
                accelerator.save_state(folders[0])

    epoch(stop=2)
    epoch()
    accelerator.load_state(folders[0])
    # The rest of the first epoch.
    epoch()
    accelerator.free_memory()
    return losses


numbers = {}
for workers in 0, 2:
    losses = train(workers)
    # Six steps an epoch, two epochs, and the last three of the first again.
    assert len(losses) == 15
    numbers |= {f"loss {step} with {workers} workers": loss for step, loss in enumerate(losses)}
if accelerator.is_main_process:
    report(numbers)
accelerator.end_training()
