"""pyro: a mixture is fitted by enumeration, a regression by stochastic variational inference and by NUTS.

The last two draw on the device of their model, so that their numbers are compared on cpu only.
"""

import pyro
import pyro.distributions as dist
import torch
from pyro.infer import MCMC, NUTS, SVI, Predictive, Trace_ELBO, TraceEnum_ELBO, config_enumerate
from pyro.infer.autoguide import AutoDelta, AutoNormal
from reporting import device, report

where = device()
torch.manual_seed(0)
points = torch.cat([torch.randn(12) - 2, torch.randn(12) + 3]).to(where)
numbers = {}


@config_enumerate
def mixture(points):
    """Two normal distributions with one scale."""
    weights = pyro.sample("weights", dist.Dirichlet(torch.ones(2, device=where)))
    with pyro.plate("components", 2):
        means = pyro.sample("means", dist.Normal(torch.zeros(2, device=where), 10.0))
    scale = pyro.sample("scale", dist.LogNormal(torch.zeros((), device=where), 1.0))
    with pyro.plate("data", len(points)):
        kind = pyro.sample("kind", dist.Categorical(weights))
        pyro.sample("point", dist.Normal(means[kind], scale), obs=points)


start = {"weights": [0.5, 0.5], "means": [-1.0, 1.0], "scale": 1.0}
guide = AutoDelta(
    pyro.poutine.block(mixture, hide=["kind"]),
    init_loc_fn=lambda site: torch.tensor(start[site["name"]], device=where),
)
pyro.clear_param_store()
svi = SVI(mixture, guide, pyro.optim.Adam({"lr": 0.1}), TraceEnum_ELBO(max_plate_nesting=1))
for step in range(8):
    numbers[f"mixture loss {step}"] = svi.step(points)
fitted = guide(points)
assert fitted["means"].device.type == where.type
numbers["lower mean"], numbers["upper mean"] = fitted["means"]
numbers["scale"] = fitted["scale"]


def regression(x, y=None):
    """A line with normal noise."""
    slope = pyro.sample("slope", dist.Normal(torch.zeros((), device=where), 5.0))
    offset = pyro.sample("offset", dist.Normal(torch.zeros((), device=where), 5.0))
    with pyro.plate("data", len(x)):
        return pyro.sample("y", dist.Normal(slope * x + offset, 0.5), obs=y)


pyro.clear_param_store()
pyro.set_rng_seed(0)
x = torch.linspace(-1, 1, 20)
y = (1.5 * x + 0.5 + 0.5 * torch.randn(20)).to(where)
x = x.to(where)
guide = AutoNormal(regression)
svi = SVI(regression, guide, pyro.optim.Adam({"lr": 0.05}), Trace_ELBO())
for _ in range(10):
    loss = svi.step(x, y)
numbers["cpu.regression loss"] = loss
numbers["cpu.slope"] = guide.median()["slope"]
numbers["cpu.predicted"] = Predictive(regression, guide=guide, num_samples=4)(x)["y"].mean()
if where.type == "cpu":
    chain = MCMC(NUTS(regression), num_samples=5, warmup_steps=5, disable_progbar=True)
    chain.run(x, y)
    numbers["cpu.nuts slope"] = chain.get_samples()["slope"].mean()
report(numbers)
