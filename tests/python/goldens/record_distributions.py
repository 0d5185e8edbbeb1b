"""Write `distributions.json`, which `distributions/test_distributions.py` compares with. Run it with PyTorch."""

import json
import pathlib
import warnings

import torch
from torch import distributions as D

COVARIANCE = [[2.0, 0.5], [0.5, 1.0]]
TRIANGLE = [[1.5, 0.0], [-0.5, 0.75]]
CASES = [
    ("Bernoulli", {"probs": [0.2, 0.5]}),
    ("Bernoulli", {"logits": [-1.5, 0.75]}),
    ("Beta", {"concentration1": [0.5, 3.0], "concentration0": [0.75, 2.0]}),
    ("Binomial", {"total_count": 10, "probs": [0.2, 0.75]}),
    ("Binomial", {"total_count": [100.0, 7.0], "logits": [-0.5, 1.0]}),
    ("Categorical", {"probs": [[0.1, 0.2, 0.7], [0.5, 0.25, 0.25]]}),
    ("Categorical", {"logits": [[1.0, 0.0, -1.0], [0.5, 0.25, 3.0]]}),
    ("Cauchy", {"loc": [-1.0, 0.5], "scale": [0.5, 2.0]}),
    ("Chi2", {"df": [0.5, 6.0]}),
    ("ContinuousBernoulli", {"probs": [0.2, 0.5002]}),
    ("ContinuousBernoulli", {"logits": [-1.5, 0.75]}),
    ("Dirichlet", {"concentration": [[0.3, 1.0, 2.5], [4.0, 2.0, 3.0]]}),
    ("Exponential", {"rate": [0.5, 3.0]}),
    ("FisherSnedecor", {"df1": [3.0, 8.0], "df2": [5.0, 9.0]}),
    ("Gamma", {"concentration": [0.25, 4.0], "rate": [0.5, 3.0]}),
    ("GeneralizedPareto", {"loc": [-1.0, 0.5], "scale": [0.5, 2.0], "concentration": [-0.25, 0.0]}),
    ("Geometric", {"probs": [0.2, 0.75]}),
    ("Geometric", {"logits": [-1.5, 0.75]}),
    ("Gumbel", {"loc": [-1.0, 0.5], "scale": [0.5, 2.0]}),
    ("HalfCauchy", {"scale": [0.5, 2.0]}),
    ("HalfNormal", {"scale": [0.5, 2.0]}),
    ("InverseGamma", {"concentration": [1.5, 4.0], "rate": [0.5, 3.0]}),
    ("Kumaraswamy", {"concentration1": [0.5, 3.0], "concentration0": [0.75, 2.0]}),
    ("LKJCholesky", {"dim": 3, "concentration": [0.5, 4.0]}),
    ("Laplace", {"loc": [-1.0, 0.5], "scale": [0.5, 2.0]}),
    ("LogNormal", {"loc": [-1.0, 0.5], "scale": [0.5, 1.0]}),
    ("LogisticNormal", {"loc": [[-1.0, 0.5], [0.0, 0.0]], "scale": [[0.5, 2.0], [1.0, 1.0]]}),
    (
        "LowRankMultivariateNormal",
        {"loc": [[-1.0, 0.5], [1.0, 2.0]], "cov_factor": [[1.0], [-0.5]], "cov_diag": [0.5, 2.0]},
    ),
    ("Multinomial", {"total_count": 6, "probs": [[0.1, 0.2, 0.7], [0.5, 0.25, 0.25]]}),
    ("Multinomial", {"total_count": 3, "logits": [[1.0, 0.0, -1.0], [0.5, 0.25, 3.0]]}),
    ("MultivariateNormal", {"loc": [[-1.0, 0.5], [1.0, 2.0]], "covariance_matrix": COVARIANCE}),
    ("MultivariateNormal", {"loc": [[-1.0, 0.5], [1.0, 2.0]], "precision_matrix": COVARIANCE}),
    ("MultivariateNormal", {"loc": [[-1.0, 0.5], [1.0, 2.0]], "scale_tril": TRIANGLE}),
    ("NegativeBinomial", {"total_count": [3.0, 5.5], "probs": [0.2, 0.75]}),
    ("NegativeBinomial", {"total_count": 5, "logits": [-1.5, 0.75]}),
    ("Normal", {"loc": [-1.0, 0.5], "scale": [0.5, 2.0]}),
    ("OneHotCategorical", {"probs": [[0.1, 0.2, 0.7], [0.5, 0.25, 0.25]]}),
    ("OneHotCategoricalStraightThrough", {"logits": [[1.0, 0.0, -1.0], [0.5, 0.25, 3.0]]}),
    ("Pareto", {"scale": [0.5, 2.0], "alpha": [1.5, 4.0]}),
    ("Poisson", {"rate": [0.75, 25.0]}),
    ("RelaxedBernoulli", {"temperature": 0.7, "probs": [0.2, 0.5]}),
    ("RelaxedBernoulli", {"temperature": 0.7, "logits": [-1.5, 0.75]}),
    ("RelaxedOneHotCategorical", {"temperature": 0.7, "probs": [[0.1, 0.2, 0.7], [0.5, 0.25, 0.25]]}),
    ("StudentT", {"df": [1.5, 6.0], "loc": [-1.0, 0.5], "scale": [0.5, 2.0]}),
    ("Uniform", {"low": [-1.0, 0.5], "high": [0.5, 2.0]}),
    ("VonMises", {"loc": [-1.0, 0.5], "concentration": [0.5, 8.0]}),
    ("Weibull", {"scale": [0.5, 2.0], "concentration": [0.75, 3.0]}),
    ("Wishart", {"df": [3.0, 4.5], "covariance_matrix": COVARIANCE}),
    ("Wishart", {"df": [3.0, 4.5], "precision_matrix": COVARIANCE}),
    ("Wishart", {"df": [3.0, 4.5], "scale_tril": TRIANGLE}),
]
# The second arguments of divergences.
OTHERS = {
    "Normal": {"loc": [0.0, 1.0], "scale": [1.0, 1.5]},
    "Beta": {"concentration1": [1.5, 1.0], "concentration0": [1.0, 3.0]},
    "Gamma": {"concentration": [1.5, 1.0], "rate": [1.0, 3.0]},
    "Bernoulli": {"probs": [0.6, 0.1]},
    "Binomial": {"total_count": 10, "probs": [0.6, 0.1]},
    "Categorical": {"probs": [[0.3, 0.4, 0.3], [0.2, 0.7, 0.1]]},
    "OneHotCategorical": {"probs": [[0.3, 0.4, 0.3], [0.2, 0.7, 0.1]]},
    "Cauchy": {"loc": [0.0, 1.0], "scale": [1.0, 1.5]},
    "ContinuousBernoulli": {"probs": [0.6, 0.1]},
    "Dirichlet": {"concentration": [[1.5, 2.0, 1.0], [3.0, 1.0, 1.0]]},
    "Exponential": {"rate": [2.0, 1.0]},
    "Geometric": {"probs": [0.6, 0.1]},
    "Gumbel": {"loc": [0.0, 1.0], "scale": [1.0, 1.5]},
    "HalfNormal": {"scale": [1.0, 1.5]},
    "Laplace": {"loc": [0.0, 1.0], "scale": [1.0, 1.5]},
    "Pareto": {"scale": [0.25, 3.0], "alpha": [2.0, 1.0]},
    "Poisson": {"rate": [2.0, 20.0]},
    "Uniform": {"low": [-2.0, 0.75], "high": [1.25, 3.0]},
    "LogNormal": {"loc": [0.0, 1.0], "scale": [1.0, 1.5]},
    "MultivariateNormal": {"loc": [0.0, 1.0], "scale_tril": [[1.0, 0.0], [0.5, 1.0]]},
    "LowRankMultivariateNormal": {"loc": [0.0, 1.0], "cov_factor": [[0.5], [1.0]], "cov_diag": [1.0, 1.5]},
}


def made(name, args):
    return getattr(D, name)(**args)


def tensors(args, leaves=False):
    values = {k: v if isinstance(v, int) else torch.tensor(v) for k, v in args.items()}
    if leaves:
        values = {k: v.requires_grad_() if isinstance(v, torch.Tensor) else v for k, v in values.items()}
    return values


def numbers(x):
    def rounded(v):
        return [rounded(i) for i in v] if isinstance(v, list) else float(f"{v:.9g}") if isinstance(v, float) else v

    return rounded(x.detach().tolist())


def recorded(name, args):
    d = made(name, tensors(args))
    entry = {"name": name, "args": args, "repr": repr(d), "support": repr(d.support)}
    torch.manual_seed(3)
    x = d.sample((3,))
    entry["sample"] = numbers(x)
    # PyTorch's Wishart draws cannot be differentiated.
    if d.has_rsample and name != "Wishart":
        values = tensors(args, leaves=True)
        torch.manual_seed(3)
        y = made(name, values).rsample((3,))
        entry["rsample"] = numbers(y)
        weights = torch.arange(1.0, y.numel() + 1).reshape(y.shape)
        leaves = {k: v for k, v in values.items() if isinstance(v, torch.Tensor)}
        slopes = torch.autograd.grad((y * weights).sum(), list(leaves.values()), allow_unused=True)
        entry["slopes"] = {k: numbers(v) for k, v in zip(leaves, slopes, strict=True) if v is not None}
    questions = {
        "log_prob": lambda: d.log_prob(x),
        "mean": lambda: d.mean,
        "mode": lambda: d.mode,
        "variance": lambda: d.variance,
        "entropy": lambda: d.entropy(),
        "cdf": lambda: d.cdf(x),
        "icdf": lambda: d.icdf(torch.tensor(0.3)),
    }
    if name == "Kumaraswamy":
        del questions["mode"]  # NaN everywhere
    if d.has_enumerate_support and args.get("total_count", 10) == 10:
        questions["values"] = lambda: d.enumerate_support()
    for question, answer in questions.items():
        try:
            entry[question] = numbers(answer())
        except (NotImplementedError, AttributeError):
            pass
    return entry


def divergences():
    first = {name: made(name, tensors(args)) for name, args in reversed(CASES)}
    first["Unit"] = D.Uniform(torch.tensor([0.125, 0.25]), torch.tensor([0.5, 0.75]))
    first["Late"] = D.Uniform(torch.tensor([0.75, 2.25]), torch.tensor([1.5, 3.0]))
    for p, of_p in first.items():
        for q, args in OTHERS.items():
            try:
                yield p, q, numbers(D.kl_divergence(of_p, made(q, tensors(args))))
            except (NotImplementedError, ValueError):
                continue


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    lists = {"cases": [recorded(*case) for case in CASES], "divergences": list(divergences())}
    parts = [f'"{name}": [\n' + ",\n".join(map(json.dumps, entries)) + "\n]" for name, entries in lists.items()]
    parts.append('"others": ' + json.dumps(OTHERS))
    pathlib.Path(__file__).with_name("distributions.json").write_text("{" + ",\n".join(parts) + "}\n")
