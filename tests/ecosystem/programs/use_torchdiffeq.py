"""torchdiffeq: solvers with fixed and adaptive steps, gradients through them and by the adjoint, an event."""

import torch
from reporting import check_on, device, report
from torchdiffeq import odeint, odeint_adjoint, odeint_event

where = device()
numbers = {}


class Field(torch.nn.Module):
    """A vector field with weights."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.net = torch.nn.Sequential(torch.nn.Linear(2, 12), torch.nn.Tanh(), torch.nn.Linear(12, 2))
        self.calls = 0

    def forward(self, t, y):
        """Return the derivative at `y`."""
        self.calls += 1
        return self.net(y) - 0.1 * t * y


field = Field().to(where)
check_on(field, where)
start = torch.tensor([[1.0, 0.0], [0.5, -0.5], [-1.0, 0.3]], device=where)
times = torch.linspace(0.0, 1.0, 5, device=where)
for method in ("euler", "midpoint", "rk4", "explicit_adams", "implicit_adams"):
    numbers[method] = odeint(field, start, times, method=method, options={"step_size": 0.1}).square().sum()
for method in ("dopri5", "bosh3", "adaptive_heun", "dopri8"):
    field.calls = 0
    numbers[method] = odeint(field, start, times, method=method, rtol=1e-3, atol=1e-4).square().sum()
    numbers[f"{method} calls"] = field.calls

# Both ways to a gradient, and a few steps of training.
target = torch.tensor([[0.0, 1.0], [0.5, 0.5], [1.0, -0.3]], device=where)
for name, solve in {"through": odeint, "adjoint": odeint_adjoint}.items():
    field = Field().to(where)
    optimizer = torch.optim.SGD(field.parameters(), lr=0.1)
    for step in range(3):
        end = solve(field, start, times[:2], method="rk4")[-1]
        loss = (end - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        numbers[f"{name} loss {step}"] = loss
    numbers[f"{name} gradient"] = field.net[0].weight.grad.norm()


# A ball that falls, as a tuple of states: the time of its first bounce has a gradient.
class Fall(torch.nn.Module):
    """A height and a velocity under gravity."""

    def forward(self, t, state):
        """Return their derivatives."""
        height, velocity = state
        return velocity, torch.full_like(velocity, -9.81)


height = torch.tensor([10.0], device=where, requires_grad=True)
state = (height, torch.zeros(1, device=where))
when, states = odeint_event(
    Fall(), state, torch.tensor(0.0, device=where), event_fn=lambda t, s: s[0].sum(), atol=1e-8, rtol=1e-8,
    odeint_interface=odeint,
)  # fmt: skip
when.backward()
numbers |= {"bounce": when, "speed": states[1][-1].detach(), "bounce by height": height.grad}
report(numbers)
