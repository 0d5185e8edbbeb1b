"""Distributions. Draws on `cpu`, densities, moments and divergences equal PyTorch's.

`goldens/distributions.json` holds them, and `goldens/record_distributions.py` writes it.
"""

import copy
import json
import math
import pathlib
import pickle
import warnings

import pytest

import pytpu as torch
from pytpu import distributions as D
from pytpu.distributions import constraints, transforms

GOLDENS = json.loads((pathlib.Path(__file__).parents[1] / "goldens" / "distributions.json").read_text())
CASES = GOLDENS["cases"]
MATRICES = ("MultivariateNormal", "LowRankMultivariateNormal", "Wishart")
has_cholesky = hasattr(torch.linalg, "cholesky_ex")
needs_cholesky = pytest.mark.skipif(not has_cholesky, reason="factors of matrices are not there yet")


def name_of(case):
    return f"{case['name']}-{'-'.join(case['args'])}"


def runs(case):
    marks = [needs_cholesky] if case["name"] in MATRICES else []
    return pytest.param(case, id=name_of(case), marks=marks)


def arguments(args, device, dtype=torch.float32):
    return {k: v if isinstance(v, int) else torch.tensor(v, dtype=dtype, device=device) for k, v in args.items()}


def made(name, args, device, dtype=torch.float32):
    return getattr(D, name)(**arguments(args, device, dtype))


@pytest.fixture(params=[runs(case) for case in CASES])
def case(request):
    return request.param


# ---- against PyTorch


def test_draws_equal_pytorchs(case, close):
    d = made(case["name"], case["args"], "cpu")
    torch.manual_seed(3)
    x = d.sample((3,))
    assert not x.requires_grad
    # Logarithms may differ in the last place.
    exact = case["name"] in (
        "Bernoulli",
        "Binomial",
        "Categorical",
        "Geometric",
        "Multinomial",
        "Poisson",
        "Normal",
        "Gamma",
    )
    want = torch.tensor(case["sample"]).numpy()
    close(x, want, rtol=0 if exact else 2e-5, atol=0 if exact else 1e-6)


def test_reparameterized_draws_and_their_gradients_equal_pytorchs(case, close):
    if "rsample" not in case:
        assert not made(case["name"], case["args"], "cpu").has_rsample or case["name"] == "Wishart"
        return
    args = arguments(case["args"], "cpu")
    leaves = {k: args[k].requires_grad_() for k in case["slopes"]}
    d = getattr(D, case["name"])(**args)
    torch.manual_seed(3)
    y = d.rsample((3,))
    close(y, case["rsample"], rtol=2e-5)
    weights = torch.arange(1.0, y.numel() + 1).reshape(y.shape)
    slopes = torch.autograd.grad((y * weights).sum(), list(leaves.values()), allow_unused=True)
    # PyTorch's derivatives of gamma draws have four correct digits.
    for name, slope in zip(leaves, slopes, strict=True):
        close(slope, case["slopes"][name], rtol=2e-3, atol=2e-4)


def test_densities_and_moments_equal_pytorchs(case, device, close):
    d = made(case["name"], case["args"], device)
    assert repr(d) == case["repr"]
    assert repr(d.support).replace(", device='tpu:0'", "") == case["support"]
    dtype = torch.int64 if case["name"] == "Categorical" else torch.float32
    x = torch.tensor(case["sample"], dtype=dtype, device=device)
    assert d.support.check(x).all()
    close(d.log_prob(x), case["log_prob"], rtol=5e-5, atol=2e-5)
    for name in ("mean", "mode", "variance", "entropy"):
        if name in case:
            value = getattr(d, name)
            close(value() if name == "entropy" else value, case[name], rtol=1e-4)
    if "variance" in case:
        close(d.stddev, torch.tensor(case["variance"]).sqrt().numpy(), rtol=1e-4)
    if "cdf" in case:
        close(d.cdf(x), case["cdf"], rtol=5e-5)
    if "icdf" in case:
        close(d.icdf(torch.tensor(0.3, device=device)), case["icdf"], rtol=5e-5)
    if "values" in case:
        close(d.enumerate_support(), case["values"])
        assert d.enumerate_support(expand=False).shape[1:] == torch.Size([1] * len(d.batch_shape)) + d.event_shape


def test_expanded_distributions(case, device):
    d = made(case["name"], case["args"], device)
    wide = d.expand((4, *d.batch_shape))
    assert type(wide) is type(d) and wide.batch_shape == (4, *d.batch_shape) and wide.event_shape == d.event_shape
    x = wide.sample((3,))
    assert x.shape == (3, 4) + d.batch_shape + d.event_shape and x.device.type == device
    assert wide.support.check(x).all()
    assert torch.allclose(wide.log_prob(x), d.log_prob(x), equal_nan=True)
    again = pickle.loads(pickle.dumps(copy.deepcopy(d)))
    assert torch.allclose(again.log_prob(x), d.log_prob(x), equal_nan=True)


@pytest.mark.parametrize("p, q, want", GOLDENS["divergences"], ids=lambda v: v if isinstance(v, str) else "")
def test_divergences(p, q, want, device, close):
    if not has_cholesky and (p in MATRICES or q in MATRICES):
        pytest.skip("factors of matrices are not there yet")
    bounds = {"Unit": {"low": [0.125, 0.25], "high": [0.5, 0.75]}, "Late": {"low": [0.75, 2.25], "high": [1.5, 3.0]}}
    if p in bounds:
        name, args = "Uniform", bounds[p]
    else:
        name, args = next((c["name"], c["args"]) for c in CASES if c["name"] == p)
    got = D.kl_divergence(made(name, args, device), made(q, GOLDENS["others"][q], device))
    close(got, want, rtol=2e-4, atol=2e-5)


# ---- draws on a device

MANY = 20000


@pytest.mark.parametrize(
    "name, args",
    [
        ("Poisson", {"rate": [0.5, 4.0, 30.0]}),
        ("Binomial", {"total_count": [6.0, 40.0, 300.0], "probs": [0.3, 0.9, 0.5]}),
        ("Gamma", {"concentration": [0.2, 1.0, 20.0], "rate": [1.0, 2.0, 0.5]}),
        ("Dirichlet", {"concentration": [[0.2, 1.0, 3.0]]}),
        ("Beta", {"concentration1": [0.3, 5.0], "concentration0": [2.0, 0.5]}),
        ("Multinomial", {"total_count": 5, "probs": [[0.2, 0.3, 0.5]]}),
        ("Geometric", {"probs": [0.2, 0.7]}),
        ("NegativeBinomial", {"total_count": [3.0, 9.0], "probs": [0.2, 0.6]}),
        ("Laplace", {"loc": [1.0], "scale": [2.0]}),
        ("Gumbel", {"loc": [1.0], "scale": [2.0]}),
        ("Weibull", {"scale": [1.0, 2.0], "concentration": [1.5, 3.0]}),
        ("StudentT", {"df": [9.0, 30.0]}),
    ],
)
def test_moments_of_draws(name, args, device):
    d = made(name, args, device, dtype=torch.float64)
    x = d.sample((MANY,))
    assert x.device.type == device and d.support.check(x).all()
    error = (x.mean(0) - d.mean).abs() / (d.variance / MANY).sqrt()
    assert (error < 5).all(), error
    fourth = ((x - d.mean) ** 4).mean(0)
    error = (x.var(0) - d.variance).abs() / ((fourth - d.variance**2) / MANY).clamp(min=1e-9).sqrt()
    assert (error < 5).all(), error


def test_probabilities_of_counts(device):
    for d in (
        D.Poisson(torch.tensor(3.0, device=device)),
        D.Poisson(torch.tensor(15.0, device=device)),
        D.Binomial(9, torch.tensor(0.4, device=device)),
        D.Binomial(50, torch.tensor(0.65, device=device)),
    ):
        x = d.sample((MANY,)).cpu()
        values = torch.arange(60.0)
        if isinstance(d, D.Binomial):
            values = values[: int(d.total_count) + 1]
        p = d.log_prob(values.to(device)).exp().cpu().double()
        counted = torch.bincount(x.long(), minlength=60)[: len(values)].double()
        common = p * MANY > 10
        errors = ((counted - p * MANY) ** 2 / (p * MANY))[common]
        assert errors.sum() < common.sum() + 5 * math.sqrt(2 * common.sum()), d


def test_gradients_through_draws_of_gamma_variables(device):
    """The mean of a function's gradient over draws is the gradient of its mean."""
    a = torch.tensor([0.5, 3.0], dtype=torch.float64, device=device, requires_grad=True)
    x = D.Gamma(a, torch.ones_like(a)).rsample((MANY,))
    (slope,) = torch.autograd.grad(x.mean(0).sum(), a)
    assert (slope - 1).abs().max() < 0.1  # the mean of x is a
    (slope,) = torch.autograd.grad(D.Gamma(a, torch.ones_like(a)).rsample((MANY,)).log().mean(0).sum(), a)
    assert (slope / torch.polygamma(1, a) - 1).abs().max() < 0.1  # the mean of log(x) is digamma(a)
    c = torch.tensor([0.5, 3.0, 1.5], dtype=torch.float64, device=device, requires_grad=True)
    (slope,) = torch.autograd.grad(D.Dirichlet(c).rsample((MANY,)).mean(0)[0], c)
    (want,) = torch.autograd.grad((c / c.sum())[0], c)
    assert (slope - want).abs().max() < 0.01


def test_slopes_of_gamma_and_dirichlet_draws(device):
    """Compare with differences of the distribution functions."""
    a = torch.tensor([0.1, 0.5, 2.0, 10.0, 100.0], dtype=torch.float64)
    x = torch.tensor([0.01, 4.0, 3.0, 12.0, 90.0], dtype=torch.float64)
    h = a * 1e-5
    change = (torch.special.gammainc(a + h, x) - torch.special.gammainc(a - h, x)) / (2 * h)
    want = -change / ((a - 1) * x.log() - x - torch.lgamma(a)).exp()
    got = torch._standard_gamma_grad(a.to(device), x.to(device)).cpu()
    assert torch.allclose(got, want, rtol=1e-6)
    # For uniform u, u^(1/a) is a beta variable of a and 1, so its derivative has a formula.
    x, a = torch.tensor([0.2, 0.6, 0.99], dtype=torch.float64), torch.tensor([0.3, 2.0, 40.0], dtype=torch.float64)
    got = torch._dirichlet_grad(x.to(device), a.to(device), (a + 1).to(device)).cpu()
    assert torch.allclose(got, -x * x.log() / a / (1 - x), rtol=1e-9)
    # Another formula is used for concentrations from 10,000. Both sides must agree.
    a, x = torch.tensor([9999.0, 10001.0], device=device), torch.tensor([10099.0, 10101.0], device=device)
    got = torch._standard_gamma_grad(a, x)
    assert abs(got[0] - got[1]) < 1e-5 and abs(got[0] - 1.005) < 1e-4


def test_one_choice_is_drawn_alike_with_and_without_replacement():
    """One choice uses the algorithm for draws without replacement, as in PyTorch."""
    p = torch.tensor([[0.1, 0.2, 0.3, 0.4], [0.5, 0.3, 0.1, 0.1], [0.2, 0.2, 0.3, 0.3]])
    torch.manual_seed(3)
    one = torch.multinomial(p, 1, True)
    assert one.tolist() == [[0], [2], [2]] and torch.rand(()).item() == pytest.approx(0.1808772087097168)


def test_refused_draws(device):
    bad = torch.tensor([2.0, -1.0], device=device)
    with pytest.raises(RuntimeError, match="invalid Poisson rate, expected rate to be non-negative"):
        torch.poisson(bad).cpu()
    with pytest.raises(NotImplementedError, match="\"poisson_cpu\" not implemented for 'Long'"):
        torch.poisson(torch.ones(2, dtype=torch.int64, device=device))
    for function, name in ((torch._standard_gamma, "gamma_cpu"), (torch._sample_dirichlet, "dirichlet")):
        with pytest.raises(NotImplementedError, match=f"\"{name}\" not implemented for 'Half'"):
            function(torch.ones(2, dtype=torch.float16, device=device))
    with pytest.raises(ValueError, match="binomial only supports floating-point dtypes for count, got: Long"):
        torch.binomial(torch.ones(2, dtype=torch.int64, device=device), torch.ones(2, device=device))
    with pytest.raises(RuntimeError, match="Found dtype Double but expected Float"):
        torch.binomial(torch.ones(2, device=device), torch.ones(2, dtype=torch.float64, device=device))
    n, p = torch.tensor([-1.0, 3.0, 3.0, 3.0], device=device), torch.tensor([0.5, 1.5, -1.0, math.nan], device=device)
    assert torch.binomial(n, p).tolist()[:3] == [0, 3, 0] and torch.binomial(n, p)[3].isnan()
    tiny = torch.finfo(torch.float32).tiny
    assert torch._standard_gamma(torch.tensor([0.0, math.nan, -2.0], device=device)).tolist() == [tiny] * 3
    assert torch.poisson(torch.zeros(3, device=device)).tolist() == [0, 0, 0]


# ---- checks of parameters and values


def test_parameters_and_values_are_checked(device):
    here = {"device": device}
    with pytest.raises(ValueError) as error:
        D.Normal(torch.zeros(2, **here), torch.tensor([1.0, -2.0], **here))
    assert str(error.value).startswith(
        "Expected parameter scale (Tensor of shape (2,)) of distribution Normal(loc: torch.Size([2]), scale: "
        "torch.Size([2])) to satisfy the constraint GreaterThan(lower_bound=0.0), but found invalid values:\ntensor([ "
        "1., -2.]"
    )
    d = D.Bernoulli(torch.tensor(0.5, **here))
    with pytest.raises(ValueError) as error:
        d.log_prob(torch.tensor(2.0, **here))
    assert str(error.value).startswith(
        "Expected value argument (Tensor of shape ()) to be within the support (Boolean()) of the distribution "
        "Bernoulli(probs: 0.5), but found invalid values:\n2.0"
    )
    assert D.Bernoulli(torch.tensor(0.5, **here), validate_args=False).log_prob(torch.tensor(2.0, **here)).isfinite()
    assert D.Normal(0.0, -1.0, validate_args=False).scale == -1
    D.Distribution.set_default_validate_args(False)
    try:
        assert D.Normal(0.0, -1.0).scale == -1
    finally:
        D.Distribution.set_default_validate_args(True)
    with pytest.raises(ValueError):
        D.Distribution.set_default_validate_args(3)


@pytest.mark.parametrize(
    "make, text",
    [
        (
            lambda: D.Normal("a", 1.0),
            "Input arguments must all be instances of Number, torch.Tensor or objects implementing",
        ),
        (lambda: D.Bernoulli(0.1, 0.2), "Either `probs` or `logits` must be specified, but not both."),
        (lambda: D.Categorical(), "Either `probs` or `logits` must be specified, but not both."),
        (lambda: D.Categorical(torch.tensor(1.0)), "`probs` parameter must be at least one-dimensional."),
        (lambda: D.Categorical(torch.tensor([1.0, -1.0])), "to satisfy the constraint Simplex()"),
        (lambda: D.Dirichlet(torch.tensor(1.0)), "`concentration` parameter must be at least one-dimensional."),
        (lambda: D.Uniform(1.0, 0.0), "to satisfy the constraint LessThan(upper_bound=0.0)"),
        (lambda: D.Geometric(0.0), "to be positive but found invalid values:\ntensor([0.])"),
        (lambda: D.Binomial(2.5, torch.tensor(0.5)), "to satisfy the constraint IntegerGreaterThan(lower_bound=0)"),
        (lambda: D.LKJCholesky(1), "Expected dim to be an integer greater than or equal to 2. Found dim=1."),
        (
            lambda: D.Independent(D.Normal(0.0, 1.0), 1),
            "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), actual 1 vs 0",
        ),
        (
            lambda: D.MultivariateNormal(torch.zeros(2)),
            "Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.",
        ),
        (lambda: D.MultivariateNormal(torch.tensor(0.0), torch.eye(1)), "loc must be at least one-dimensional."),
        (
            lambda: D.LowRankMultivariateNormal(torch.zeros(2), torch.ones(3, 1), torch.ones(2)),
            "cov_factor must be a batch of matrices with shape 2 x m",
        ),
        (
            lambda: D.Wishart(torch.tensor(1.0), torch.eye(3)),
            "Value of df=1.0 expected to be greater than ndim - 1 = 2.",
        ),
        (lambda: D.TransformedDistribution(D.Normal(0.0, 1.0), 3), "transforms must be a Transform or list, but was 3"),
        (
            lambda: D.TransformedDistribution(D.Normal(0.0, 1.0), [D.StickBreakingTransform()]),
            "base_distribution needs to have shape with size at least 1, but got torch.Size([]).",
        ),
        (
            lambda: D.MixtureSameFamily(D.Normal(0.0, 1.0), D.Normal(0.0, 1.0)),
            " The Mixture distribution needs to be an  instance of",
        ),
        (
            lambda: D.MixtureSameFamily(D.Categorical(torch.ones(3)), D.Normal(torch.zeros(2), 1.0)),
            "`mixture_distribution component` (3) does not equal `component_distribution.batch_shape[-1]` (2)",
        ),
        (lambda: D.Normal(0.0, 1.0).log_prob(1.0), "The value argument to log_prob must be a Tensor"),
        (
            lambda: D.Normal(torch.zeros(2), 1.0).log_prob(torch.zeros(3)),
            "Value is not broadcastable with batch_shape+event_shape: torch.Size([3]) vs torch.Size([2]).",
        ),
        (
            lambda: D.Dirichlet(torch.ones(2)).log_prob(torch.ones(3)),
            "The right-most size of value must match event_shape: torch.Size([3]) vs torch.Size([2]).",
        ),
    ],
)
def test_what_is_refused(make, text):
    with pytest.raises(ValueError) as error:
        make()
    assert text in str(error.value)


def test_missing_methods_raise_not_implemented_error():
    for call in (
        lambda: D.Poisson(1.0).rsample(),
        lambda: D.Beta(1.0, 1.0).cdf(torch.tensor(0.5)),
        lambda: D.Normal(0.0, 1.0).enumerate_support(),
        lambda: D.LKJCholesky(3).entropy(),
        lambda: D.Multinomial(torch.tensor([1]), torch.ones(2)),
    ):
        with pytest.raises(NotImplementedError):
            call()
    with pytest.raises(NotImplementedError, match="No KL.p .. q. is implemented for p type Normal and q type Cauchy"):
        D.kl_divergence(D.Normal(0.0, 1.0), D.Cauchy(0.0, 1.0))
    with pytest.raises(NotImplementedError, match="Inhomogeneous total count not supported by `enumerate_support`"):
        D.Binomial(torch.tensor([1, 2]), torch.tensor(0.5)).enumerate_support()


# ---- user-defined classes


def test_subclasses():
    class Centred(D.Normal):
        def __init__(self, scale):
            super().__init__(torch.zeros_like(scale), scale)

    with pytest.raises(
        NotImplementedError, match="Subclass Centred of Normal that defines a custom __init__ method must also"
    ):
        Centred(torch.ones(2)).expand((3, 2))

    class Shifted(D.Normal):
        def __init__(self, shift):
            self.shift = shift
            super().__init__(shift, 1.0)

        def expand(self, batch_shape, _instance=None):
            new = self._get_checked_instance(Shifted, _instance)
            new.shift = self.shift.expand(batch_shape)
            return super().expand(batch_shape, _instance=new)

    wide = Shifted(torch.zeros(2)).expand((3, 2))
    assert wide.shift.shape == (3, 2) == wide.batch_shape and type(wide) is Shifted

    class Bare(D.Distribution):
        pass

    with pytest.warns(UserWarning, match="does not define `arg_constraints`"), pytest.raises(NotImplementedError):
        Bare()
    with pytest.raises(NotImplementedError):
        Bare(validate_args=False).expand((2,))


def test_the_nearest_divergence_is_called():
    class A(D.Normal):
        pass

    class B(A):
        pass

    before = dict(D.kl._REGISTRY)
    try:

        @D.register_kl(A, D.Normal)
        def first(p, q):
            return "first"

        assert D.kl_divergence(A(0.0, 1.0), D.Normal(0.0, 1.0)) == "first" == D.kl_divergence(B(0.0, 1.0), B(0.0, 1.0))
        D.register_kl(D.Normal, A)(lambda p, q: "second")
        with pytest.warns(RuntimeWarning, match=r"Ambiguous kl_divergence\(B, A\). Please register_kl\(A, A\)"):
            assert D.kl_divergence(B(0.0, 1.0), A(0.0, 1.0)) == "first"
        D.register_kl(A, A)(lambda p, q: "both")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert D.kl_divergence(B(0.0, 1.0), A(0.0, 1.0)) == "both"
    finally:
        D.kl._REGISTRY.clear()
        D.kl._REGISTRY.update(before)
        D.kl._FOUND.clear()


def test_entropies_of_exponential_families_follow_from_their_normalizers():
    class Rate(D.ExponentialFamily):
        arg_constraints = {}
        _natural_params = property(lambda self: (-self.rate,))
        _mean_carrier_measure = 0

        def __init__(self, rate):
            self.rate = rate
            super().__init__(rate.shape)

        def _log_normalizer(self, x):
            return -torch.log(-x)

    rate = torch.tensor([0.5, 2.0])
    assert torch.allclose(Rate(rate).entropy(), D.Exponential(rate).entropy())
    assert torch.allclose(
        D.kl_divergence(Rate(rate), Rate(rate * 2)), D.kl_divergence(D.Exponential(rate), D.Exponential(rate * 2))
    )


# ---- distributions made of other distributions


def test_independent_dimensions(device):
    base = D.Normal(torch.zeros(2, 3, device=device), torch.ones(2, 3, device=device))
    d = D.Independent(base, 1)
    assert d.batch_shape == (2,) and d.event_shape == (3,) and d.has_rsample and not d.has_enumerate_support
    x = d.rsample((5,))
    assert torch.allclose(d.log_prob(x), base.log_prob(x).sum(-1)) and d.entropy().shape == (2,)
    assert repr(d.support) == "IndependentConstraint(Real(), 1)"
    assert D.kl_divergence(d, D.Independent(D.Normal(base.loc, base.scale * 2), 1)).shape == (2,)
    assert d.expand((4, 2)).sample().shape == (4, 2, 3)


def test_mixtures(device, close):
    weights = D.Categorical(torch.tensor([0.25, 0.75], device=device))
    d = D.MixtureSameFamily(
        weights, D.Normal(torch.tensor([-1.0, 2.0], device=device), torch.tensor([0.5, 1.0], device=device))
    )
    assert repr(d).startswith("MixtureSameFamily(\n  Categorical(probs: torch.Size([2])")
    close(d.mean, 1.25)
    close(d.variance, 0.25 * (0.25 + 1) + 0.75 * (1 + 4) - 1.25**2)
    x = torch.tensor([0.0, 1.0], device=device)

    def normal(x, m, s):
        return math.exp(-((x - m) ** 2) / (2 * s * s)) / (s * math.sqrt(2 * math.pi))

    close(d.log_prob(x), [math.log(0.25 * normal(v, -1, 0.5) + 0.75 * normal(v, 2, 1)) for v in (0.0, 1.0)])
    many = d.sample((MANY,))
    assert (
        abs(many.mean() - 1.25) < 0.07
        and abs((many < 0).float().mean() - d.cdf(torch.tensor(0.0, device=device))) < 0.02
    )
    vectors = D.Independent(D.Normal(torch.zeros(3, 2, 4, device=device), torch.ones(3, 2, 4, device=device)), 1)
    d = D.MixtureSameFamily(weights, vectors)
    assert d.batch_shape == (3,) and d.event_shape == (4,) and d.mean.shape == (3, 4)
    assert d.log_prob(torch.zeros(5, 3, 4, device=device)).shape == (5, 3)
    # One set of weights for a batch of components. PyTorch cannot draw from this mixture.
    assert d.sample().shape == (3, 4) and d.sample((5,)).shape == (5, 3, 4)


def test_transformed_distributions(device, close):
    base = D.Normal(torch.zeros(3, device=device), torch.ones(3, device=device))
    d = D.TransformedDistribution(base, [D.AffineTransform(1.0, 2.0), D.ExpTransform()])
    same = D.LogNormal(torch.ones(3, device=device), torch.full((3,), 2.0, device=device))
    x = torch.tensor([0.5, 1.0, 4.0], device=device)
    assert torch.allclose(d.log_prob(x), same.log_prob(x)) and torch.allclose(d.cdf(x), same.cdf(x))
    assert torch.allclose(d.icdf(d.cdf(x)), x, rtol=1e-4)
    falling = D.TransformedDistribution(base, D.AffineTransform(0.0, -2.0))
    assert torch.allclose(falling.cdf(x), base.cdf(x / 2), atol=1e-6)
    wide = D.TransformedDistribution(base, [D.AffineTransform(torch.zeros(2, 3, device=device), 1.0)])
    assert wide.batch_shape == (2, 3) == wide.base_dist.batch_shape
    simplex = D.TransformedDistribution(base, [D.StickBreakingTransform()])
    assert simplex.batch_shape == () and simplex.event_shape == (4,) and isinstance(simplex.base_dist, D.Independent)
    assert D.kl_divergence(same, same).tolist() == [0, 0, 0]


# ---- transforms

ONES = [
    transforms.ExpTransform(),
    transforms.SigmoidTransform(),
    transforms.TanhTransform(),
    transforms.SoftplusTransform(),
    transforms.PowerTransform(torch.tensor(2.5, dtype=torch.float64)),
    transforms.AffineTransform(1.0, -2.0),
    transforms.AffineTransform(torch.tensor(1.0, dtype=torch.float64), torch.tensor(3.0, dtype=torch.float64)),
    transforms.CumulativeDistributionTransform(D.Normal(torch.tensor(0.0, dtype=torch.float64), 1.0)),
    transforms.ComposeTransform(
        [transforms.ExpTransform(), transforms.AffineTransform(0.0, 2.0), transforms.PowerTransform(0.5)]
    ),
    transforms.ExpTransform().inv,
]


@pytest.mark.parametrize("t", ONES, ids=repr)
def test_bijections_of_numbers(t):
    x = torch.tensor([0.25, 0.5, 1.0, 1.25], dtype=torch.float64, requires_grad=True)
    y = t(x)
    assert t.bijective and t.domain.check(x).all() and t.codomain.check(y).all()
    assert torch.allclose(t.inv(y), x) and t.inv.inv is t
    (slope,) = torch.autograd.grad(y.sum(), x)
    if not isinstance(t, transforms.CumulativeDistributionTransform):
        assert torch.allclose(t.log_abs_det_jacobian(x, y), slope.abs().log())
    assert torch.allclose(t.inv.log_abs_det_jacobian(y, x), -t.log_abs_det_jacobian(x, y))
    assert (torch.as_tensor(t.sign) == slope.sign()).all()
    assert t == t and t.forward_shape((4,)) == (4,) == t.inverse_shape((4,))


VECTORS = [
    (transforms.StickBreakingTransform(), (3,), (4,)),
    (transforms.CorrCholeskyTransform(), (6,), (4, 4)),
    (transforms.ReshapeTransform((6,), (2, 3)), (6,), (2, 3)),
    (transforms.IndependentTransform(transforms.ExpTransform(), 1), (3,), (3,)),
    (transforms.AffineTransform(1.0, 2.0, event_dim=1), (3,), (3,)),
]


@pytest.mark.parametrize("t, inside, outside", VECTORS, ids=[type(v[0]).__name__ for v in VECTORS])
def test_bijections_of_vectors(t, inside, outside):
    x = torch.randn(2, *inside, dtype=torch.float64, requires_grad=True)
    y = t(x)
    assert y.shape == (2, *outside) == tuple(t.forward_shape(x.shape)) and tuple(t.inverse_shape(y.shape)) == (
        2,
        *inside,
    )
    assert t.codomain.check(y).all() and torch.allclose(t.inv(y), x)
    # Compute the determinant of the Jacobian of as many entries of y as x has.
    flat = y.reshape(2, -1)
    if isinstance(t, transforms.StickBreakingTransform):
        flat = flat[:, :-1]
    elif isinstance(t, transforms.CorrCholeskyTransform):
        rows, columns = torch.tril_indices(4, 4, -1)
        flat = y[:, rows, columns]
    n = flat.shape[1]
    rows = [torch.autograd.grad(flat[:, i].sum(), x, retain_graph=True)[0].reshape(2, n) for i in range(n)]
    jacobian = torch.stack(rows, 1)
    want = []
    for matrix in jacobian.tolist():  # Gaussian elimination
        log_det = 0.0
        for i in range(n):
            pivot = max(range(i, n), key=lambda r: abs(matrix[r][i]))
            matrix[i], matrix[pivot] = matrix[pivot], matrix[i]
            log_det += math.log(abs(matrix[i][i]))
            for r in range(i + 1, n):
                factor = matrix[r][i] / matrix[i][i]
                matrix[r] = [a - factor * b for a, b in zip(matrix[r], matrix[i], strict=True)]
        want.append(log_det)
    assert torch.allclose(t.log_abs_det_jacobian(x, y), torch.tensor(want, dtype=torch.float64))


def test_transforms_that_are_no_bijections():
    x = torch.randn(2, 3, 3)
    lower = transforms.LowerCholeskyTransform()
    assert constraints.lower_cholesky.check(lower(x)).all() and torch.allclose(lower(lower.inv(lower(x))), lower(x))
    assert (
        not lower.bijective and not transforms.SoftmaxTransform().bijective and not transforms.AbsTransform().bijective
    )
    assert constraints.simplex.check(transforms.SoftmaxTransform()(x)).all()
    assert transforms.AbsTransform()(torch.tensor([-2.0])).tolist() == [2]
    with pytest.raises(NotImplementedError):
        _ = transforms.AbsTransform().sign


@needs_cholesky
def test_positive_definite_matrices():
    x = torch.randn(2, 3, 3)
    t = transforms.PositiveDefiniteTransform()
    assert constraints.positive_definite.check(t(x)).all() and torch.allclose(t(t.inv(t(x))), t(x), atol=1e-5)
    assert constraints.positive_definite.check(-t(x)).tolist() == [False, False]


def test_cat_and_stack_transforms_apply_to_pieces():
    x = torch.tensor([[0.5, 1.0, 2.0], [1.5, 3.0, 0.25]])
    cat = transforms.CatTransform(
        [transforms.ExpTransform(), transforms.AffineTransform(0.0, 2.0)], dim=-1, lengths=[1, 2]
    )
    y = cat(x)
    assert torch.allclose(y, torch.cat([x[:, :1].exp(), x[:, 1:] * 2], -1)) and torch.allclose(cat.inv(y), x)
    assert torch.allclose(cat.log_abs_det_jacobian(x, y), torch.cat([x[:, :1], torch.full((2, 2), math.log(2))], -1))
    assert cat.domain.check(x).all() and cat.length == 3
    stack = transforms.StackTransform([transforms.ExpTransform(), transforms.TanhTransform()], dim=0)
    y = stack(x)
    assert torch.allclose(y, torch.stack([x[0].exp(), x[1].tanh()])) and stack.codomain.check(y).all()
    assert torch.allclose(stack.log_abs_det_jacobian(x, y)[0], x[0])
    with pytest.raises(AssertionError, match="must equal length 3"):
        cat(x[:, :2])


def test_cached_transforms_return_the_same_object():
    t = transforms.TanhTransform(cache_size=1)
    x = torch.tensor([30.0])
    assert t.inv(t(x)) is x and transforms.TanhTransform().inv(transforms.TanhTransform()(x)).isinf()
    composed = transforms.ComposeTransform(
        [transforms.ExpTransform(), transforms.AffineTransform(1.0, 2.0)], cache_size=1
    )
    y = composed(x)
    assert composed.inv(y) is x and composed.with_cache(1) is composed
    again = pickle.loads(pickle.dumps(composed))
    assert torch.equal(again(x), y)
    with pytest.raises(ValueError, match="cache_size must be 0 or 1"):
        transforms.ExpTransform(cache_size=2)


REGISTERED = [
    constraints.real,
    constraints.positive,
    constraints.nonnegative,
    constraints.greater_than(2.0),
    constraints.less_than(-1.0),
    constraints.unit_interval,
    constraints.interval(1.0, 3.0),
    constraints.half_open_interval(0.0, 2.0),
    constraints.simplex,
    constraints.independent(constraints.positive, 1),
    constraints.cat([constraints.positive, constraints.real], -1, [1, 3]),
    constraints.stack([constraints.positive, constraints.real], 0),
]


@pytest.mark.parametrize("constraint", REGISTERED, ids=repr)
def test_transforms_to_constraints(constraint, device):
    x = torch.randn(2, 4, device=device)
    for registry in (D.transform_to, D.biject_to):
        assert constraint.check(registry(constraint)(x)).all()
    assert D.biject_to(constraint).bijective
    assert not constraint.check(torch.full((2, 4), math.nan, device=device)).any()


def test_the_registry_refuses():
    with pytest.raises(NotImplementedError, match="Cannot transform _Boolean constraints"):
        D.transform_to(constraints.boolean)
    with pytest.raises(NotImplementedError, match="Cannot transform _LowerCholesky constraints"):
        D.biject_to(constraints.lower_cholesky)
    with pytest.raises(TypeError, match="Expected constraint to be either a Constraint subclass or instance"):
        D.transform_to.register(int)(lambda c: None)


def test_constraints_check_membership():
    t = torch.tensor
    for constraint, value, want in [
        (constraints.boolean, t([0.0, 1.0, 0.5]), [True, True, False]),
        (constraints.one_hot, t([[0.0, 1.0], [1.0, 1.0], [0.5, 0.5]]), [True, False, False]),
        (constraints.integer_interval(0, 2), t([-1.0, 0.0, 1.5, 2.0, 3.0]), [False, True, False, True, False]),
        (constraints.nonnegative_integer, t([-1.0, 0.0, 0.5]), [False, True, False]),
        (constraints.real, t([1.0, math.nan, math.inf]), [True, False, True]),
        (constraints.positive, t([0.0, 1.0]), [False, True]),
        (constraints.half_open_interval(0.0, 1.0), t([0.0, 1.0]), [True, False]),
        (constraints.simplex, t([[0.25, 0.75], [0.5, 0.6], [1.5, -0.5]]), [True, False, False]),
        (constraints.multinomial(3), t([[1.0, 2.0], [2.0, 2.0], [-1.0, 2.0]]), [True, False, False]),
        (constraints.lower_triangular, t([[[1.0, 0.0], [2.0, 3.0]], [[1.0, 1.0], [0.0, 1.0]]]), [True, False]),
        (constraints.lower_cholesky, t([[[1.0, 0.0], [2.0, 3.0]], [[1.0, 0.0], [2.0, -3.0]]]), [True, False]),
        (constraints.corr_cholesky, t([[[1.0, 0.0], [0.6, 0.8]], [[1.0, 0.0], [0.6, 0.9]]]), [True, False]),
        (constraints.symmetric, t([[[1.0, 2.0], [2.0, 3.0]], [[1.0, 2.0], [0.0, 3.0]]]), [True, False]),
        (constraints.square, torch.ones(2, 3, 2), [False, False]),
        (constraints.independent(constraints.positive, 1), t([[1.0, 2.0], [1.0, 0.0]]), [True, False]),
    ]:
        assert constraint.check(value).tolist() == want, constraint
    with pytest.raises(ValueError, match="Cannot determine validity of dependent constraint"):
        constraints.dependent.check(torch.ones(1))
    with pytest.raises(NotImplementedError, match=".event_dim cannot be determined statically"):
        _ = constraints.dependent.event_dim
    assert constraints.is_dependent(D.Uniform.support) and D.Uniform.support.event_dim == 0


def test_triangles_as_vectors():
    m = torch.arange(9.0).reshape(3, 3)
    for diag, want in ((0, [0, 3, 4, 6, 7, 8]), (-1, [3, 6, 7]), (1, [0, 1, 3, 4, 5, 6, 7, 8])):
        v = D.utils.tril_matrix_to_vec(m, diag)
        assert v.tolist() == want and torch.equal(D.utils.vec_to_tril_matrix(v, diag), m.tril(diag))
    with pytest.raises(ValueError, match="cannot be expressed as the lower triangular part of a square D x D matrix"):
        D.utils.vec_to_tril_matrix(torch.ones(4))
    with pytest.raises(ValueError, match=r"diag \(5\) provided is outside \[-3, 2\]"):
        D.utils.tril_matrix_to_vec(m, 5)


# ---- programs


def test_a_policy_learns_the_rewarded_action(device):
    """Train by REINFORCE, as PyTorch's example does."""
    policy = torch.nn.Linear(2, 3, device=device)
    optimizer = torch.optim.Adam(policy.parameters(), 0.05)
    states = torch.eye(2, device=device).repeat(32, 1)
    best = torch.tensor([2, 0], device=device).repeat(32)
    for _ in range(60):
        chosen = D.Categorical(logits=policy(states))
        action = chosen.sample()
        reward = (action == best).float()
        loss = -(chosen.log_prob(action) * (reward - reward.mean())).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    probs = D.Categorical(logits=policy(torch.eye(2, device=device))).probs
    assert probs[0, 2] > 0.8 and probs[1, 0] > 0.8


def test_the_draws_of_a_policy_equal_pytorchs():
    """Draw as `select_action` of PyTorch's actor-critic example does, from fixed scores."""
    torch.manual_seed(543)
    drawn = []
    for scores in ([0.2, 0.8], [0.55, 0.45], [0.5, 0.5]) * 3:
        policy = D.Categorical(torch.tensor(scores))
        action = policy.sample()
        drawn.append(action.item())
        assert policy.log_prob(action).item() == pytest.approx(math.log(scores[action.item()]), rel=1e-6)
    assert drawn == [0, 1, 0, 0, 1, 0, 1, 1, 0]


def test_an_autoencoder_differentiates_through_its_draws(device):
    encoder = torch.nn.Linear(3, 4, device=device)
    mean, spread = encoder(torch.randn(5, 3, device=device)).chunk(2, -1)
    q = D.Normal(mean, spread.exp())
    z = q.rsample()
    loss = D.kl_divergence(q, D.Normal(torch.zeros_like(mean), torch.ones_like(spread))).sum() + (z**2).sum()
    loss.backward()
    assert encoder.weight.grad.isfinite().all() and encoder.weight.grad.abs().sum() > 0


def test_the_modules_of_pytorch():
    from pytpu.distributions.categorical import Categorical
    from pytpu.distributions.kl import kl_divergence
    from pytpu.distributions.studentT import StudentT

    assert D.Categorical is Categorical and D.kl_divergence is kl_divergence and D.StudentT is StudentT
    assert torch.distributions is D and set(D.__all__) <= set(dir(D))
