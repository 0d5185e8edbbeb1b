"""accelerate on two ranks: accumulated gradients, batches of unequal number, gathered metrics, a saved state."""

import tempfile

import torch
import torch.distributed as dist
from accelerate import Accelerator
from accelerate.utils import broadcast_object_list, gather_object, set_seed
from reporting import check_on, device, report

where = device()
set_seed(0)
accelerator = Accelerator(cpu=where.type == "cpu", gradient_accumulation_steps=2)
assert accelerator.num_processes == dist.get_world_size() == 2 and accelerator.device.type == where.type
data = torch.utils.data.TensorDataset(torch.randn(42, 8), torch.randint(3, (42,)))
model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 3))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
loader = torch.utils.data.DataLoader(data, batch_size=4, shuffle=True)
model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
check_on(model, where)
assert isinstance(model, torch.nn.parallel.DistributedDataParallel)


def epoch():
    """Train over all batches once. Return the mean of the losses of both ranks."""
    losses = []
    for x, y in loader:
        with accelerator.accumulate(model):
            loss = torch.nn.functional.cross_entropy(model(x), y)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        losses.append(loss.detach())
    return accelerator.reduce(torch.stack(losses).mean(), "mean").item()


numbers = {"first epoch": epoch()}
folders = broadcast_object_list([tempfile.mkdtemp() if accelerator.is_main_process else None])
accelerator.save_state(folders[0])
numbers["second epoch"] = epoch()
accelerator.load_state(folders[0])
numbers["second epoch again"] = epoch()
model.eval()
correct = seen = 0
for x, y in loader:
    with torch.no_grad():
        guesses, labels = accelerator.gather_for_metrics((model(x).argmax(-1), y))
    correct, seen = correct + (guesses == labels).sum().item(), seen + len(labels)
numbers |= {"correct": correct, "seen": seen, "rate": schedule.get_last_lr()[0]}
assert gather_object([accelerator.process_index]) == [0, 1]
with accelerator.split_between_processes(list(range(5))) as part:
    numbers["part"] = len(part)
if accelerator.is_main_process:
    report(numbers)
accelerator.end_training()
