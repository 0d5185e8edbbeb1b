"""pytorch_optimizer: ten of its optimizers, a wrapper and a loss of it each train the same small network."""

import torch
from pytorch_optimizer import FocalLoss, Lookahead, create_optimizer, get_supported_optimizers, load_optimizer
from reporting import check_on, device, report

where = device()
names = ["adabelief", "adamp", "adan", "came", "lamb", "lion", "prodigy", "radam", "ranger21", "tiger"]


def network():
    """Return the network that each optimizer starts from, with its data."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 3)).to(where)
    check_on(model, where)
    return model, torch.randn(32, 8).to(where), torch.randint(3, (32,)).to(where)


def train(make, loss_of=torch.nn.functional.cross_entropy):
    """Train five steps. Return the last loss."""
    model, x, y = network()
    optimizer = make(model)
    for _ in range(5):
        optimizer.zero_grad()
        loss_of(model(x), y).backward()
        optimizer.step()
    return loss_of(model(x), y)


numbers = {"supported": len(get_supported_optimizers()) > 80}
for name in names:
    options = {"num_iterations": 5} if name == "ranger21" else {}
    numbers[name] = train(lambda model: load_optimizer(name)(model.parameters(), lr=1e-2, **options))
numbers["lookahead"] = train(lambda model: Lookahead(load_optimizer("adamw")(model.parameters(), lr=1e-2), k=2))
numbers["created"] = train(lambda model: create_optimizer(model, "adabelief", lr=1e-2, weight_decay=1e-3))
focal = FocalLoss()
numbers["focal"] = train(
    lambda model: load_optimizer("lion")(model.parameters(), lr=1e-2),
    lambda scores, y: focal(scores, torch.nn.functional.one_hot(y, 3).float()),
)
report(numbers)
