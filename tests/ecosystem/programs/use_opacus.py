"""opacus: training with clipped gradients of each sample by hooks, without and with noise; accountants; a validator."""

import torch
from opacus import PrivacyEngine
from opacus.accountants import RDPAccountant
from opacus.validators import ModuleValidator
from reporting import check_on, device, report
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

where = device()
torch.manual_seed(0)
images, labels = torch.randn(32, 1, 8, 8), torch.randint(3, (32,))
numbers = {}


def network():
    """Return a small network with the same weights at each call."""
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 8), nn.ReLU(), nn.Linear(8, 3)
    )


for name, noise in (("clipped", 0.0), ("cpu.noisy", 1.0)):
    model = network().to(where)
    check_on(model, where)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    model, optimizer, loader = PrivacyEngine().make_private(
        module=model,
        optimizer=optimizer,
        data_loader=DataLoader(TensorDataset(images, labels), batch_size=8),
        noise_multiplier=noise,
        max_grad_norm=0.5,
        poisson_sampling=False,
        noise_generator=torch.Generator(where).manual_seed(2),
    )
    for step, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x.to(where)), y.to(where))
        loss.backward()
        if step == 0:
            samples = next(model.parameters()).grad_sample
            numbers[f"{name} norms"] = samples.flatten(1).norm(dim=1).sum()
        optimizer.step()
        numbers[f"{name} loss {step}"] = loss

accountant = RDPAccountant()
for _ in range(100):
    accountant.step(noise_multiplier=1.1, sample_rate=0.02)
numbers["epsilon"] = accountant.get_epsilon(1e-5)
torch.manual_seed(3)
wrong = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4))
numbers["errors"] = len(ModuleValidator.validate(wrong, strict=False))
fixed = ModuleValidator.fix(wrong).to(where)
numbers["fixed"] = fixed(images[:2].to(where)).square().mean()
report(numbers)
