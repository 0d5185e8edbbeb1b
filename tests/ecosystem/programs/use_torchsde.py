"""torchsde: stochastic differential equations are solved, and differentiated directly and by the adjoint equation."""

import torch
import torchsde
from reporting import check_on, device, report

where = device()


class Process(torch.nn.Module):
    """Drift and diffusion of a process in two dimensions."""

    def __init__(self, noise_type, sde_type):
        super().__init__()
        self.noise_type, self.sde_type = noise_type, sde_type
        torch.manual_seed(0)
        self.drift, self.spread = torch.nn.Linear(2, 2), torch.nn.Parameter(torch.tensor([0.3, 0.2]))

    def f(self, t, y):
        """Return the drift."""
        return torch.tanh(self.drift(y)) - 0.1 * t

    def g(self, t, y):
        """Return the diffusion."""
        return self.spread * torch.sigmoid(y)


times = torch.linspace(0, 1, 5).to(where)
start = torch.tensor([[0.1, -0.2], [0.5, 0.3], [-0.4, 0.2]], device=where)
numbers = {}


class Path:
    """A given path of the noise, the same on all devices."""

    def __init__(self):
        torch.manual_seed(4)
        self.at = torch.cat([torch.zeros(1, 3, 2), (0.1 * torch.randn(200, 3, 2)).cumsum(0)]).to(where)
        self.shape, self.dtype, self.device = (3, 2), torch.float32, where
        self.levy_area_approximation = "none"

    def __call__(self, ta, tb=None, return_U=False, return_A=False):
        """Return the change of the path between two times."""
        place = [0 if t is None else round(float(t) * 100) for t in (ta, tb)]
        return self.at[place[1]] - self.at[place[0]]


for kind, method in (("ito", "euler"), ("ito", "milstein"), ("stratonovich", "midpoint"), ("stratonovich", "heun")):
    process = Process("diagonal", kind).to(where)
    check_on(process, where)
    y = torchsde.sdeint(process, start, times, bm=Path(), method=method, dt=0.05)
    loss = y[-1].square().sum()
    loss.backward()
    numbers[f"{method}"] = loss
    numbers[f"{method} gradient"] = process.drift.weight.grad.square().sum() + process.spread.grad.sum()
torch.manual_seed(5)
process = Process("diagonal", "ito")
path = torchsde.BrownianInterval(0.0, 1.0, size=(3, 2), entropy=7, levy_area_approximation="space-time")
numbers["cpu.interval"] = torchsde.sdeint(process, start.cpu(), times.cpu(), bm=path, dt=0.05)[-1].sum()
process.zero_grad()
y = torchsde.sdeint_adjoint(process, start.cpu(), times.cpu(), bm=path, dt=0.05)
y[-1].square().sum().backward()
numbers["cpu.adjoint"] = process.drift.weight.grad.sum()
report(numbers)
