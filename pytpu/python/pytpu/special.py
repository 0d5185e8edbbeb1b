"""``torch.special``: the ops of the table whose names begin with ``special_``, and others under their names there."""

from . import _C

_PREFIX = "special_"
_ELSEWHERE = {
    "digamma": "digamma", "gammainc": "igamma", "gammaincc": "igammac", "psi": "digamma", "erf": "erf", "erfc": "erfc", "erfinv": "erfinv", "exp2": "exp2",
    "expit": "sigmoid", "expm1": "expm1", "gammaln": "lgamma", "log1p": "log1p", "log_softmax": "log_softmax",
    "logit": "logit", "logsumexp": "logsumexp", "multigammaln": "mvlgamma", "polygamma": "polygamma", "round": "round", "sinc": "sinc",
    "softmax": "softmax", "xlogy": "xlogy",
}
globals().update({k: getattr(_C._ops, v) for k, v in _ELSEWHERE.items() if hasattr(_C._ops, v)})
globals().update({k[len(_PREFIX) :]: v for k, v in vars(_C._ops).items() if k.startswith(_PREFIX)})
