"""Kullback-Leibler divergences of pairs of distributions."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable

import pytpu as torch
from pytpu.nn.functional import softplus

from .bernoulli import Bernoulli
from .beta import Beta
from .binomial import Binomial
from .categorical import Categorical
from .cauchy import Cauchy
from .continuous_bernoulli import ContinuousBernoulli
from .dirichlet import Dirichlet
from .distribution import Distribution
from .exp_family import ExponentialFamily
from .exponential import Exponential
from .gamma import Gamma
from .geometric import Geometric
from .gumbel import Gumbel
from .half_normal import HalfNormal
from .independent import Independent
from .laplace import Laplace
from .lowrank_multivariate_normal import LowRankMultivariateNormal, _batch_lowrank_logdet, _batch_lowrank_mahalanobis
from .multivariate_normal import MultivariateNormal, _batch_mahalanobis
from .normal import Normal
from .one_hot_categorical import OneHotCategorical
from .pareto import Pareto
from .poisson import Poisson
from .transformed_distribution import TransformedDistribution
from .uniform import Uniform
from .utils import _sum_rightmost, euler_constant

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pytpu import Tensor


__all__ = ["kl_divergence", "register_kl"]

_REGISTRY: dict[tuple[type, type], Callable] = {}
# tensordict names it so.
_KL_REGISTRY = _REGISTRY
_FOUND: dict[tuple[type, type], Callable] = {}


def register_kl(type_p: type[Distribution], type_q: type[Distribution]) -> Callable[[Any], Any]:
    """Return a decorator that registers a function for `kl_divergence`.

    The function of the nearest classes is called, where the class of `p` decides first.

    Args:
        type_p: Class of `p`. Subclasses are included.
        type_q: Class of `q`. Subclasses are included.

    Raises:
        TypeError: If an argument is not a class.

    Example:
        >>> import pytpu as torch
        >>> class Dice(torch.distributions.Categorical):
        ...     pass
        >>> @torch.distributions.register_kl(Dice, torch.distributions.Normal)
        ... def kl_dice_normal(p, q):
        ...     return torch.tensor(7.0)
        >>> d = Dice(torch.ones(6))
        >>> torch.distributions.kl_divergence(d, torch.distributions.Normal(0.0, 1.0))
        tensor(7.)
    """
    if not isinstance(type_p, type) and issubclass(type_p, Distribution):
        raise TypeError(f"Expected type_p to be a Distribution subclass but got {type_p}")
    if not isinstance(type_q, type) and issubclass(type_q, Distribution):
        raise TypeError(f"Expected type_q to be a Distribution subclass but got {type_q}")

    def decorator(function):
        _REGISTRY[type_p, type_q] = function
        _FOUND.clear()
        return function

    return decorator


def _distance(of, ancestor):
    return of.__mro__.index(ancestor)


def _find(type_p, type_q):
    """Return the function for two classes, or `NotImplemented`."""
    fitting = [(p, q) for p, q in _REGISTRY if issubclass(type_p, p) and issubclass(type_q, q)]
    if not fitting:
        return NotImplemented
    by_p = min(fitting, key=lambda pair: (_distance(type_p, pair[0]), _distance(type_q, pair[1])))
    by_q = min(fitting, key=lambda pair: (_distance(type_q, pair[1]), _distance(type_p, pair[0])))
    if _REGISTRY[by_p] is not _REGISTRY[by_q]:
        left, right = by_p[0].__name__, by_q[1].__name__
        warnings.warn(
            f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}). Please register_kl({left}, {right})",
            RuntimeWarning,
            stacklevel=3,
        )
    return _REGISTRY[by_p]


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """Return the Kullback-Leibler divergence `E[log p(x) - log q(x)]` with `x` from `p`.

    Args:
        p: First distribution.
        q: Second distribution.

    Returns:
        A tensor of shape `batch_shape`.

    Raises:
        NotImplementedError: If none is registered for the classes.

    Example:
        >>> import pytpu as torch
        >>> p, q = torch.distributions.Normal(0.0, 1.0), torch.distributions.Normal(1.0, 1.0)
        >>> torch.distributions.kl_divergence(p, q)
        tensor(0.5000)
    """
    pair = type(p), type(q)
    function = _FOUND.get(pair)
    if function is None:
        function = _FOUND[pair] = _find(*pair)
    if function is NotImplemented:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}"
        )
    return function(p, q)


def _infinite_like(tensor):
    return torch.full_like(tensor, torch.inf)


def _x_log_x(x):
    return torch.special.xlogy(x, x)


def _trace_of_square(matrix):
    """Return the trace of `matrix @ matrix.mT`."""
    return matrix.pow(2).sum((-2, -1))


def _entry(p):
    """Return a parameter with the shape of the batch."""
    for name in ("rate", "probs", "loc", "low", "concentration", "concentration1", "scale"):
        if hasattr(p, name):
            return getattr(p, name)
    raise AssertionError(f"{type(p).__name__} has none of the expected parameters")


# The divergence is infinite if p has values that q does not have.
for _p, _qs in {
    Beta: (Pareto,),
    ContinuousBernoulli: (Pareto,),
    Exponential: (Beta, ContinuousBernoulli, Pareto, Uniform),
    Gamma: (Beta, ContinuousBernoulli, Pareto, Uniform),
    Gumbel: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Laplace: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Normal: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Pareto: (Beta, ContinuousBernoulli, Uniform),
    Poisson: (Bernoulli, Binomial),
}.items():
    for _q in _qs:
        register_kl(_p, _q)(lambda p, q: _infinite_like(_entry(p)))
del _p, _q, _qs


@register_kl(Bernoulli, Bernoulli)
def _bernoulli_bernoulli(p, q):
    ones = p.probs * (softplus(-q.logits) - softplus(-p.logits))
    ones = torch.where(p.probs == 0, 0, torch.where(q.probs == 0, torch.inf, ones))
    zeros = (1 - p.probs) * (softplus(q.logits) - softplus(p.logits))
    zeros = torch.where(p.probs == 1, 0, torch.where(q.probs == 1, torch.inf, zeros))
    return ones + zeros


@register_kl(Beta, Beta)
def _beta_beta(p, q):
    p_sum, q_sum = p.concentration1 + p.concentration0, q.concentration1 + q.concentration0
    log_norms = (
        q.concentration1.lgamma()
        + q.concentration0.lgamma()
        + p_sum.lgamma()
        - p.concentration1.lgamma()
        - p.concentration0.lgamma()
        - q_sum.lgamma()
    )
    return (
        log_norms
        + (p.concentration1 - q.concentration1) * torch.digamma(p.concentration1)
        + (p.concentration0 - q.concentration0) * torch.digamma(p.concentration0)
        + (q_sum - p_sum) * torch.digamma(p_sum)
    )


@register_kl(Binomial, Binomial)
def _binomial_binomial(p, q):
    if (p.total_count < q.total_count).any():
        raise NotImplementedError("KL between Binomials where q.total_count > p.total_count is not implemented")
    kl = p.total_count * (p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p())
    return torch.where(p.total_count > q.total_count, torch.inf, kl)


@register_kl(Categorical, Categorical)
def _categorical_categorical(p, q):
    parts = p.probs * (p.logits - q.logits)
    parts = torch.where((q.probs == 0).expand_as(parts), torch.inf, parts)
    return torch.where((p.probs == 0).expand_as(parts), 0, parts).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot_one_hot(p, q):
    return _categorical_categorical(p._categorical, q._categorical)


@register_kl(Cauchy, Cauchy)
def _cauchy_cauchy(p, q):
    # Chyzak and Nielsen, 2019.
    return ((p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)).log() - (4 * p.scale * q.scale).log()


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoulli_continuous_bernoulli(p, q):
    return (
        p.mean * (p.logits - q.logits)
        + p._cont_bern_log_norm()
        + torch.log1p(-p.probs)
        - q._cont_bern_log_norm()
        - torch.log1p(-q.probs)
    )


@register_kl(Dirichlet, Dirichlet)
def _dirichlet_dirichlet(p, q):
    a, b = p.concentration, q.concentration
    log_norms = a.sum(-1).lgamma() - b.sum(-1).lgamma() - (a.lgamma() - b.lgamma()).sum(-1)
    return log_norms + ((a - b) * (a.digamma() - a.sum(-1, True).digamma())).sum(-1)


@register_kl(Exponential, Exponential)
def _exponential_exponential(p, q):
    ratio = q.rate / p.rate
    return -ratio.log() + ratio - 1


@register_kl(ExponentialFamily, ExponentialFamily)
def _expfamily_expfamily(p, q):
    # A Bregman divergence of log normalizers.
    if type(p) is not type(q):
        raise NotImplementedError(
            "The cross KL-divergence between different exponential families cannot be computed using Bregman "
            "divergences"
        )
    p_params = [param.detach().requires_grad_() for param in p._natural_params]
    p_norm = p._log_normalizer(*p_params)
    slopes = torch.autograd.grad(p_norm.sum(), p_params, create_graph=True)
    kl = q._log_normalizer(*q._natural_params) - p_norm
    for q_param, p_param, slope in zip(q._natural_params, p_params, slopes, strict=True):
        change = (q_param - p_param) * slope
        kl = kl - _sum_rightmost(change, change.dim() - len(p.batch_shape))
    return kl


@register_kl(Gamma, Gamma)
def _gamma_gamma(p, q):
    return (
        q.concentration * (p.rate / q.rate).log()
        + torch.lgamma(q.concentration)
        - torch.lgamma(p.concentration)
        + (p.concentration - q.concentration) * torch.digamma(p.concentration)
        + (q.rate - p.rate) * (p.concentration / p.rate)
    )


@register_kl(Gumbel, Gumbel)
def _gumbel_gumbel(p, q):
    ratio, shift, own = p.scale / q.scale, q.loc / q.scale, p.loc / q.scale
    moment = torch.exp(shift + (1 + ratio).lgamma() - own)
    return own - ratio.log() - shift + ratio * euler_constant + moment - (1 + euler_constant)


@register_kl(Geometric, Geometric)
def _geometric_geometric(p, q):
    return -p.entropy() - torch.log1p(-q.probs) / p.probs - q.logits


@register_kl(HalfNormal, HalfNormal)
def _half_normal_half_normal(p, q):
    return _normal_normal(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _laplace_laplace(p, q):
    ratio, away = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + away / q.scale + ratio * torch.exp(-away / p.scale) - 1


def _check_events(p, q, what):
    if p.event_shape != q.event_shape:
        raise ValueError(f"KL-divergence between two {what} with different event shapes cannot be computed")


def _root_of_normal(q):
    return q._unbroadcasted_scale_tril


def _square_of_roots(tril, *roots):
    """Return the sum of `|tril^-1 root|^2`, a trace of products of covariances, for batches that broadcast."""
    return sum(_trace_of_square(torch.linalg.solve_triangular(tril, root, upper=False)) for root in roots)


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _lowrank_lowrank(p, q):
    _check_events(p, q, "Low Rank Multivariate Normals")
    log_det = _lowrank_log_det(q) - _lowrank_log_det(p)
    square = _lowrank_square(q, p)
    # tr(inv(W W^T + D) (V V^T + E)) by Woodbury's identity: of each root R of p, |R|^2 / D less |C^-1 W^T D^-1 R|^2.
    scaled = q._unbroadcasted_cov_factor.mT / q._unbroadcasted_cov_diag.unsqueeze(-2)
    weights = q._unbroadcasted_cov_diag
    own = (p._unbroadcasted_cov_diag / weights).sum(-1)
    low = _trace_of_square(p._unbroadcasted_cov_factor / weights.sqrt().unsqueeze(-1))
    less = _square_of_roots(
        q._capacitance_tril,
        scaled * p._unbroadcasted_cov_diag.sqrt().unsqueeze(-2),
        scaled @ p._unbroadcasted_cov_factor,
    )
    return 0.5 * (log_det + square + own + low - less - p.event_shape[0])


def _lowrank_log_det(p):
    return _batch_lowrank_logdet(p._unbroadcasted_cov_diag, p._capacitance_tril)


def _lowrank_square(q, p):
    """Return the squared distance of two means, by the covariance of `q`."""
    return _batch_lowrank_mahalanobis(
        q._unbroadcasted_cov_factor, q._unbroadcasted_cov_diag, q.loc - p.loc, q._capacitance_tril
    )


def _log_det(p):
    return 2 * _root_of_normal(p).diagonal(dim1=-2, dim2=-1).log().sum(-1)


@register_kl(MultivariateNormal, LowRankMultivariateNormal)
def _multivariate_lowrank(p, q):
    _check_events(p, q, "(Low Rank) Multivariate Normals")
    log_det = _lowrank_log_det(q) - _log_det(p)
    scaled = q._unbroadcasted_cov_factor.mT / q._unbroadcasted_cov_diag.unsqueeze(-2)
    root = _root_of_normal(p)
    own = _trace_of_square(root / q._unbroadcasted_cov_diag.sqrt().unsqueeze(-1))
    less = _square_of_roots(q._capacitance_tril, scaled @ root)
    return 0.5 * (log_det + _lowrank_square(q, p) + own - less - p.event_shape[0])


@register_kl(LowRankMultivariateNormal, MultivariateNormal)
def _lowrank_multivariate(p, q):
    _check_events(p, q, "(Low Rank) Multivariate Normals")
    tril = _root_of_normal(q)
    roots = p._unbroadcasted_cov_factor, torch.diag_embed(p._unbroadcasted_cov_diag.sqrt())
    log_det = _log_det(q) - _lowrank_log_det(p)
    square = _batch_mahalanobis(tril, q.loc - p.loc)
    return 0.5 * (log_det + square + _square_of_roots(tril, *roots) - p.event_shape[0])


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate_multivariate(p, q):
    _check_events(p, q, "Multivariate Normals")
    tril = _root_of_normal(q)
    square = _batch_mahalanobis(tril, q.loc - p.loc)
    return 0.5 * (_log_det(q) - _log_det(p) + square + _square_of_roots(tril, _root_of_normal(p)) - p.event_shape[0])


@register_kl(Normal, Normal)
def _normal_normal(p, q):
    ratio = (p.scale / q.scale).pow(2)
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).pow(2) - 1 - ratio.log())


@register_kl(Pareto, Pareto)
def _pareto_pareto(p, q):
    ratio = q.alpha / p.alpha
    kl = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return torch.where(p.support.lower_bound < q.support.lower_bound, torch.inf, kl)


@register_kl(Poisson, Poisson)
def _poisson_poisson(p, q):
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed_transformed(p, q):
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Uniform, Uniform)
def _uniform_uniform(p, q):
    kl = ((q.high - q.low) / (p.high - p.low)).log()
    return torch.where((q.low > p.low) | (q.high < p.high), torch.inf, kl)


@register_kl(Independent, Independent)
def _independent_independent(p, q):
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


# Two families: minus the entropy of p, less the expected log density of q.


@register_kl(Bernoulli, Poisson)
def _bernoulli_poisson(p, q):
    return -p.entropy() - (p.probs * q.rate.log() - q.rate)


@register_kl(Beta, ContinuousBernoulli)
def _beta_continuous_bernoulli(p, q):
    return -p.entropy() - p.mean * q.logits - torch.log1p(-q.probs) - q._cont_bern_log_norm()


@register_kl(Beta, Exponential)
def _beta_exponential(p, q):
    return -p.entropy() - q.rate.log() + q.rate * (p.concentration1 / (p.concentration1 + p.concentration0))


@register_kl(Beta, Gamma)
def _beta_gamma(p, q):
    log_mean = p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma()
    log_norm = q.concentration.lgamma() - q.concentration * q.rate.log()
    return -p.entropy() + log_norm - (q.concentration - 1) * log_mean + q.rate * p.mean


def _expected_normal(q, mean, variance):
    """Return minus the mean log-density of the normal `q`."""
    away = (variance + (mean - q.loc).pow(2)) / q.scale.pow(2)
    return 0.5 * (2 * math.pi * q.scale.pow(2)).log() + 0.5 * away


@register_kl(Beta, Normal)
@register_kl(ContinuousBernoulli, Normal)
@register_kl(Exponential, Normal)
@register_kl(Gamma, Normal)
@register_kl(Gumbel, Normal)
@register_kl(Laplace, Normal)
@register_kl(Uniform, Normal)
def _any_normal(p, q):
    return -p.entropy() + _expected_normal(q, p.mean, p.variance)


@register_kl(Pareto, Normal)
def _pareto_normal(p, q):
    return torch.where(p.alpha <= 2, torch.inf, _any_normal(p, q))


@register_kl(Beta, Uniform)
def _beta_uniform(p, q):
    kl = -p.entropy() + (q.high - q.low).log()
    inside = (q.low <= p.support.lower_bound) & (q.high >= p.support.upper_bound)
    return torch.where(inside, kl, torch.inf)


_continuous_bernoulli_uniform = register_kl(ContinuousBernoulli, Uniform)(_beta_uniform)


@register_kl(ContinuousBernoulli, Exponential)
def _continuous_bernoulli_exponential(p, q):
    return -p.entropy() - torch.log(q.rate) + q.rate * p.mean


@register_kl(Exponential, Gamma)
def _exponential_gamma(p, q):
    ratio = q.rate / p.rate
    log_norm = q.concentration.lgamma() - q.concentration * ratio.log()
    return log_norm + ratio + euler_constant * (q.concentration - 1) - 1


@register_kl(Exponential, Gumbel)
def _exponential_gumbel(p, q):
    width, shift = p.rate * q.scale, q.loc / q.scale
    return width.log() - 1 - shift + width.reciprocal() + torch.exp(shift) * (width / (width + 1))


@register_kl(Gamma, Exponential)
def _gamma_exponential(p, q):
    return -p.entropy() - q.rate.log() + q.rate * p.concentration / p.rate


@register_kl(Gamma, Gumbel)
def _gamma_gumbel(p, q):
    width, shift = p.rate * q.scale, q.loc / q.scale
    # E[exp(-x / scale)] is (1 + 1 / width)^-concentration.
    moment = torch.exp(shift) * (1 + width.reciprocal()).pow(-p.concentration)
    return -p.entropy() + q.scale.log() + p.concentration / width - shift + moment


@register_kl(Normal, Gumbel)
def _normal_gumbel(p, q):
    mean, spread = (p.loc - q.loc) / q.scale, (p.scale / q.scale).pow(2)
    return -p.entropy() + q.scale.log() + mean + torch.exp(-mean + 0.5 * spread)


@register_kl(Normal, Laplace)
def _normal_laplace(p, q):
    # The mean of a folded normal variable.
    away = p.loc - q.loc
    root = away / (p.scale * math.sqrt(2))
    folded = p.scale * math.sqrt(2 / math.pi) * torch.exp(-root.pow(2)) + away * torch.erf(root)
    return -p.entropy() + (2 * q.scale).log() + folded / q.scale


@register_kl(Pareto, Exponential)
def _pareto_exponential(p, q):
    kl = -p.entropy() - q.rate.log() + q.rate * p.mean
    return torch.where(p.alpha <= 1, torch.inf, kl)


@register_kl(Pareto, Gamma)
def _pareto_gamma(p, q):
    log_mean = p.scale.log() + p.alpha.reciprocal()
    log_norm = q.concentration.lgamma() - q.concentration * q.rate.log()
    kl = -p.entropy() + log_norm - (q.concentration - 1) * log_mean + q.rate * p.mean
    return torch.where(p.alpha <= 1, torch.inf, kl)


@register_kl(Uniform, Beta)
def _uniform_beta(p, q):
    # E[log x] and E[log(1 - x)] of a uniform variable.
    width = p.high - p.low
    log_mean = (_x_log_x(p.high) - _x_log_x(p.low)) / width - 1
    log_other = (_x_log_x(1 - p.low) - _x_log_x(1 - p.high)) / width - 1
    log_norm = q.concentration1.lgamma() + q.concentration0.lgamma() - (q.concentration1 + q.concentration0).lgamma()
    kl = -p.entropy() + log_norm - (q.concentration1 - 1) * log_mean - (q.concentration0 - 1) * log_other
    inside = (p.low >= q.support.lower_bound) & (p.high <= q.support.upper_bound)
    return torch.where(inside, kl, torch.inf)


@register_kl(Uniform, ContinuousBernoulli)
def _uniform_continuous_bernoulli(p, q):
    kl = -p.entropy() - p.mean * q.logits - torch.log1p(-q.probs) - q._cont_bern_log_norm()
    inside = (p.low >= q.support.lower_bound) & (p.high <= q.support.upper_bound)
    return torch.where(inside, kl, torch.inf)


@register_kl(Uniform, Exponential)
def _uniform_exponential(p, q):
    kl = q.rate * (p.high + p.low) / 2 - ((p.high - p.low) * q.rate).log()
    return torch.where(p.low < q.support.lower_bound, torch.inf, kl)


@register_kl(Uniform, Gamma)
def _uniform_gamma(p, q):
    log_mean = (_x_log_x(p.high) - _x_log_x(p.low)) / (p.high - p.low) - 1
    log_norm = q.concentration.lgamma() - q.concentration * q.rate.log()
    kl = -p.entropy() + log_norm - (q.concentration - 1) * log_mean + q.rate * p.mean
    return torch.where(p.low < q.support.lower_bound, torch.inf, kl)


@register_kl(Uniform, Gumbel)
def _uniform_gumbel(p, q):
    low, high = (p.low - q.loc) / q.scale, (p.high - q.loc) / q.scale
    moment = (torch.exp(-low) - torch.exp(-high)) / (high - low)
    return -p.entropy() + q.scale.log() + 0.5 * (high + low) + moment


@register_kl(Uniform, Pareto)
def _uniform_pareto(p, q):
    log_mean = (_x_log_x(p.high) - _x_log_x(p.low)) / (p.high - p.low) - 1
    kl = -p.entropy() - (q.alpha * q.scale.pow(q.alpha)).log() + (q.alpha + 1) * log_mean
    return torch.where(p.low < q.support.lower_bound, torch.inf, kl)
