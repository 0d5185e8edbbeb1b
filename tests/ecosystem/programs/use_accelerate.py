"""accelerate: a training loop with accumulated gradients, clipping, a saved state, and metrics gathered over batches.

Nothing is set but ``cpu=True`` where the program runs on cpu.
"""

import tempfile

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from reporting import check_on, device, report

where = device()
set_seed(0)
accelerator = Accelerator(cpu=where.type == "cpu", gradient_accumulation_steps=2)
data = torch.utils.data.TensorDataset(torch.randn(32, 8), torch.randint(3, (32,)))
model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 3))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
loader = torch.utils.data.DataLoader(data, batch_size=4, shuffle=True)
model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
check_on(model, where)


def epoch():
    """Train over all batches once. Return the sum of the losses."""
    total = 0.0
    for x, y in loader:
        with accelerator.accumulate(model):
            loss = torch.nn.functional.cross_entropy(model(x), y)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        total += loss.item()
    return total


numbers = {"first epoch": epoch()}
with tempfile.TemporaryDirectory() as folder:
    accelerator.save_state(folder)
    numbers["second epoch"] = epoch()
    accelerator.load_state(folder)
    numbers["second epoch again"] = epoch()
model.eval()
correct = 0
for x, y in loader:
    with torch.no_grad():
        guesses, labels = accelerator.gather_for_metrics((model(x).argmax(-1), y))
    correct += (guesses == labels).sum().item()
numbers["correct"] = correct
numbers["rate"] = schedule.get_last_lr()[0]
report(numbers)
