"""gpytorch: an exact Gaussian process and a variational one are fitted to a noisy sine."""

import gpytorch
import torch
from reporting import check_on, device, report

where = device()


class Exact(gpytorch.models.ExactGP):
    """The regression of the library's first tutorial."""

    def __init__(self, x, y, likelihood):
        super().__init__(x, y, likelihood)
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


class Sparse(gpytorch.models.ApproximateGP):
    """The same with eight inducing points."""

    def __init__(self, points):
        distribution = gpytorch.variational.CholeskyVariationalDistribution(points.size(0))
        super().__init__(gpytorch.variational.VariationalStrategy(self, points, distribution))
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.MaternKernel(nu=1.5))

    forward = Exact.forward


def fit(model, parameters, loss_of, x, y):
    """Train ten steps. Return the first and the last loss."""
    optimizer = torch.optim.Adam(parameters, lr=0.1)
    losses = []
    for _ in range(10):
        optimizer.zero_grad()
        loss = -loss_of(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses[0], losses[-1]


torch.manual_seed(0)
x = torch.linspace(0, 1, 24)
y = (torch.sin(6 * x) + 0.1 * torch.randn(24)).to(where)
x = x.to(where)
likelihood = gpytorch.likelihoods.GaussianLikelihood().to(where)
model = Exact(x, y, likelihood).to(where)
check_on(model, where)
first, last = fit(model, model.parameters(), gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model), x, y)
model.eval()
likelihood.eval()
with torch.no_grad():
    predicted = likelihood(model(torch.linspace(0.1, 0.9, 7, device=where)))
numbers = {"first loss": first, "last loss": last, "mean": predicted.mean.sum(), "variance": predicted.variance.sum()}

torch.manual_seed(1)
likelihood = gpytorch.likelihoods.GaussianLikelihood().to(where)
model = Sparse(torch.linspace(0, 1, 8)).to(where)
# The library draws the first means on the device. Start from the prior's instead.
model.variational_strategy._variational_distribution.mean_init_std = 0
parameters = [*model.parameters(), *likelihood.parameters()]
numbers["sparse first loss"], numbers["sparse last loss"] = fit(
    model, parameters, gpytorch.mlls.VariationalELBO(likelihood, model, num_data=24), x, y
)
numbers["length scale"] = model.covar_module.base_kernel.lengthscale
report(
    numbers,
    less_exact={
        "length scale": (
            1e-3,
            "the kernel matrix of close inducing points is nearly singular: in float64 the number is 0.69",
        ),
    },
)
