"""entmax: sparse relatives of softmax with gradients, their losses, and attention that is trained with one of them."""

import torch
from entmax import (
    Entmax15Loss,
    SparsemaxLoss,
    budget_bisect,
    entmax15,
    entmax_bisect,
    normmax_bisect,
    sparsemax,
    sparsemax_bisect,
)
from reporting import check_on, device, report

where = device()
torch.manual_seed(0)
scores = 2 * torch.randn(4, 9)
weights = torch.randn(4, 9).to(where)
functions = {
    "sparsemax": lambda x: sparsemax(x, dim=-1),
    "sparsemax of a few": lambda x: sparsemax(x, dim=-1, k=4),
    "entmax15": lambda x: entmax15(x, dim=-1),
    "sparsemax by halves": lambda x: sparsemax_bisect(x, dim=-1),
    "entmax 1.3": lambda x: entmax_bisect(x, alpha=1.3, dim=-1),
    "normmax": lambda x: normmax_bisect(x, alpha=2.0, dim=-1),
    "budget": lambda x: budget_bisect(x, budget=2.0, dim=-1),
}
numbers = {}
for name, function in functions.items():
    x = scores.to(where).detach().requires_grad_()
    y = function(x)
    (y * weights).sum().backward()
    numbers[name] = (y * weights).sum()
    numbers[f"{name} zeros"] = (y == 0).sum()
    numbers[f"{name} gradient"] = x.grad.square().sum()

# The exponent is learned too.
alpha = torch.tensor([[1.2], [1.5], [1.7], [1.9]], device=where, requires_grad=True)
(entmax_bisect(scores.to(where), alpha=alpha, dim=-1) * weights).sum().backward()
for row, value in enumerate(alpha.grad.flatten().tolist()):
    numbers[f"gradient of exponent {row}"] = value

labels = torch.tensor([1, 4, 8, 0], device=where)
for name, make in {"sparsemax loss": SparsemaxLoss, "entmax loss": Entmax15Loss}.items():
    x = scores.to(where).detach().requires_grad_()
    loss = make(reduction="sum")(x, labels)
    loss.backward()
    numbers[name], numbers[f"{name} gradient"] = loss, x.grad.square().sum()


class Attention(torch.nn.Module):
    """One head that looks at few positions."""

    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (torch.nn.Linear(6, 6) for _ in range(3))

    def forward(self, x):
        """Return the values that each position looks at."""
        attention = entmax15(self.query(x) @ self.key(x).mT, dim=-1)
        return attention @ self.value(x)


torch.manual_seed(1)
model = Attention().to(where)
check_on(model, where)
optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
x, wanted = torch.randn(2, 7, 6).to(where), torch.randn(2, 7, 6).to(where)
for step in range(4):
    loss = torch.nn.functional.mse_loss(model(x), wanted)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    numbers[f"attention loss {step}"] = loss
report(numbers)
