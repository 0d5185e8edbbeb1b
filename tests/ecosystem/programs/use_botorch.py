"""botorch: a Gaussian process is fitted, acquisition functions are optimized; hypervolume, Sobol points."""

import torch
from botorch.acquisition import LogExpectedImprovement, qLogNoisyExpectedImprovement
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.optim import optimize_acqf
from botorch.sampling import SobolQMCNormalSampler
from botorch.utils.multi_objective.hypervolume import Hypervolume
from botorch.utils.sampling import draw_sobol_samples
from gpytorch.mlls import ExactMarginalLogLikelihood
from reporting import check_on, device, report

where = device()
bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
x = draw_sobol_samples(bounds, n=12, q=1, seed=3).squeeze(1)
y = -((x - 0.4) ** 2).sum(-1, keepdim=True) + 0.1 * torch.sin(9 * x[:, :1])
numbers = {"sobol": x.sum(), "y": y.sum()}
x, y, bounds = x.to(where), y.to(where), bounds.to(where)
model = SingleTaskGP(x, y).to(where)
check_on(model, where)
mll = fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
at = torch.tensor([[0.2, 0.7], [0.45, 0.4]], dtype=torch.float64, device=where)
posterior = model.posterior(at)
numbers |= {"mean": posterior.mean.sum(), "variance": posterior.variance.sum()}
improvement = LogExpectedImprovement(model, best_f=y.max())
numbers["log improvement"] = improvement(at.unsqueeze(1)).sum()
noisy = qLogNoisyExpectedImprovement(
    model, x, sampler=SobolQMCNormalSampler(torch.Size([32]), seed=5), prune_baseline=False
)
numbers["noisy improvement"] = noisy(at.unsqueeze(0)).sum()
candidate, value = optimize_acqf(
    improvement, bounds, q=1, num_restarts=1, raw_samples=8, batch_initial_conditions=at[1:].unsqueeze(0)
)
numbers |= {"candidate": candidate.sum(), "value": value}
front = torch.tensor([[1.0, 3.0], [2.0, 2.0], [3.0, 1.0]], device=where)
numbers["hypervolume"] = Hypervolume(torch.zeros(2, device=where)).compute(front)
reason = "an optimizer ends within its tolerance"
report(
    numbers,
    {
        name: (1e-3, reason)
        for name in ("mean", "variance", "log improvement", "noisy improvement", "candidate", "value")
    },
)
