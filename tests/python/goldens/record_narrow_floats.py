"""Write `narrow_floats.json`: results and gradients of functions at large and tiny values, computed by PyTorch in
`float64` from operands that were rounded to `float16`, `bfloat16` or `float32`.

Run it with PyTorch: `python record_narrow_floats.py`. `ops/test_narrow_floats.py` runs the same functions in the narrow
dtypes, and compares.
"""

import json
import math
import pathlib

A = [[0.9, -1.3, 0.4, 2.1], [-0.2, 0.7, -1.9, 0.6]]
B = [[-0.8, 1.1, 0.3, -1.7], [1.4, -0.5, 0.9, 0.2]]
C = [[0.6, 1.5, -0.7, 1.2], [-1.1, 0.8, 0.5, -1.6]]
SCALES = {
    "float16": [1e-4, 1e-2, 1.0, 60.0, 600.0],
    "bfloat16": [1.0, 600.0, 1e19, 1e-21],
    "float32": [1e19, 1e-21],
}
# Functions that need no square in `float32`, the others are infinite or zero at the scales that are not ordinary.
WITHOUT_SQUARES = [
    *["std", "std of rows", "std of columns", "std_mean", "div", "div_", "true_divide", "number / x", "reciprocal"],
    *["x / sum", "x / max", "normalize of order 1", "addcdiv", "addr", "lerp", "hypot", "logaddexp", "logsumexp"],
    *["power 1/3", "power 0.1", "scatter_add", "mean of scatter_reduce", "index_add"],
]


def cases(torch):
    """Return the functions of one, two or three operands of shape (2, 4)."""
    F = torch.nn.functional
    classes = [1, 0]

    def image(x):
        return x.reshape(1, 2, 2, 2)

    def normal(x):
        return torch.distributions.Normal(x, x.abs() + 1, validate_args=False)

    def long(values, like):
        return torch.tensor(values, device=like.device)

    return {
        "std": lambda a: a.std(),
        "std of rows": lambda a: a.std(1),
        "std of columns": lambda a: a.std(0, correction=0),
        "std_mean": lambda a: torch.stack(torch.std_mean(a, 1)),
        "var": lambda a: (a / 8).var(1),
        "var_mean": lambda a: torch.var_mean(a / 8, 0)[0],
        "norm": lambda a: a.norm(dim=1),
        "norm of order 3": lambda a: a.norm(3),
        "norm of order 1.7": lambda a: a.norm(1.7),
        "dist": lambda a, b: torch.dist(a, b),
        "div": lambda a, b: a / b,
        "div_": lambda a, b: a.clone().div_(b),
        "true_divide": lambda a, b: torch.true_divide(a, b[:, :1]),
        "number / x": lambda a: 2.5 / a,
        "reciprocal": lambda a: a.reciprocal(),
        "rsqrt": lambda a: a.abs().rsqrt(),
        "x / sum": lambda a: a.abs() / a.abs().sum(1, keepdim=True),
        "x / max": lambda a: a / a.abs().amax(1, keepdim=True),
        "x / norm": lambda a: a / a.norm(dim=1, keepdim=True),
        "normalize": lambda a: F.normalize(a),
        "normalize of order 1": lambda a: F.normalize(a, p=1),
        "normalize of order 1.7": lambda a: F.normalize(a, p=1.7),
        "renorm": lambda a: a.renorm(2, 0, 1.0),
        "softsign": F.softsign,
        "addcdiv": lambda a, b, c: torch.addcdiv(a, b, c, value=0.5),
        "addcmul": lambda a, b, c: torch.addcmul(a, b, c, value=1e-3),
        "addr": lambda a, b: torch.addr(a[:, :2], b[0, :2], b[1, :2], beta=0.5, alpha=1e-3),
        "lerp": lambda a, b: torch.lerp(a, b, 0.3),
        "hypot": torch.hypot,
        "logaddexp": torch.logaddexp,
        "logsumexp": lambda a: a.logsumexp(1),
        "logcumsumexp": lambda a: a.logcumsumexp(1),
        "softmax": lambda a: (a / 128).softmax(1),
        "layer_norm": lambda a: F.layer_norm(a, (4,)),
        "rms_norm": lambda a: F.rms_norm(a, (4,), eps=1e-5),
        "group_norm": lambda a: F.group_norm(image(a), 2),
        "batch_norm": lambda a: F.batch_norm(image(a), None, None, training=True),
        "instance_norm": lambda a: F.instance_norm(image(a)),
        "local_response_norm": lambda a: F.local_response_norm(image(a), 2),
        "lp_pool": lambda a: F.lp_pool1d(a.abs()[None], 2.0, 2),
        "cosine_similarity": lambda a, b: F.cosine_similarity(a, b),
        "cosine_embedding_loss": lambda a, b: F.cosine_embedding_loss(a, b, long([1, -1], a)),
        "pairwise_distance": F.pairwise_distance,
        "triplet_margin_loss": lambda a, b, c: F.triplet_margin_loss(a, b, c, reduction="none"),
        "trapezoid": lambda a, b: torch.trapezoid(a, b / 60),
        "cov": lambda a: torch.cov(a / 8),
        "corrcoef": torch.corrcoef,
        "mse_loss": lambda a, b: F.mse_loss(a / 4, b / 4),
        "smooth_l1_loss": F.smooth_l1_loss,
        "gaussian_nll_loss": lambda a, b, c: F.gaussian_nll_loss(a, b, c.abs() * 8),
        "log_prob of Normal": lambda a: normal(a / 8).log_prob(a / 4),
        "multi_margin_loss": lambda a: F.multi_margin_loss(a / 4, long(classes, a), p=2),
        "cross_entropy": lambda a: F.cross_entropy(a, long(classes, a), label_smoothing=0.1),
        "power 1/3": lambda a: a.abs() ** (1 / 3),
        "power 0.1": lambda a: a.abs() ** 0.1,
        "power 1.1": lambda a: a.abs() ** 1.1,
        "power -1": lambda a: a**-1,
        "power of tensors": lambda a, b: a.abs() ** (b.detach() * 0 + 0.7),
        "square": lambda a: (a / 4).square(),
        "tanh": torch.tanh,
        "asinh": torch.asinh,
        "acosh": lambda a: a.abs().clamp(min=2).acosh(),
        "atan": torch.atan,
        "log1p": lambda a: a.abs().log1p(),
        "prod": lambda a: (a / 16).prod(1),
        "cumprod": lambda a: (a / 64).cumprod(1),
        "scatter_add": lambda a, b: a.scatter_add(0, long([[0, 1, 1, 0], [0, 0, 1, 0]], a), b),
        "mean of scatter_reduce": lambda a, b: a.scatter_reduce(0, long([[0, 0, 0, 0]] * 2, a), b, "mean"),
        "product of scatter_reduce": lambda a, b: (a / 16).scatter_reduce(0, long([[1] * 4] * 2, a), b / 16, "prod"),
        "index_add": lambda a, b: a.index_add(0, long([1, 1], a), b, alpha=0.3),
    }


def run(torch, function, values, dtype, scale, wide=None, device="cpu"):
    """Return the result and the gradients, for operands of `dtype` that are then widened to `wide`."""
    operands = [(torch.tensor(v, dtype=torch.float64) * scale).to(getattr(torch, dtype)) for v in values]
    operands = [x.to(wide or x.dtype).to(device).requires_grad_() for x in operands]
    y = function(*operands)
    weights = torch.linspace(0.5, 1.5, y.numel(), dtype=torch.float64).reshape(y.shape)
    return [y, *torch.autograd.grad(y, operands, weights.to(y.dtype).to(device), allow_unused=True)]


def names(torch, scale):
    """Return the names of the functions that are tried at a scale."""
    return list(cases(torch)) if 1e-5 < scale < 1e5 else WITHOUT_SQUARES


def operand_count(name, function):
    """Return the number of operands of a case."""
    count = {"hypot": 2, "logaddexp": 2, "pairwise_distance": 2, "smooth_l1_loss": 2}.get(name)
    if count is None:
        count = function.__code__.co_argcount if function.__name__ == "<lambda>" else 1
    return count


def rounded(v):
    """Return a number with seven digits, or `None` for infinities and NaN."""
    return float(f"{v:.7g}") if math.isfinite(v) else None


def main():
    """Write the file."""
    import torch

    recorded = {}
    for name, function in cases(torch).items():
        for dtype, scales in SCALES.items():
            for scale in (s for s in scales if name in names(torch, s)):
                values = [A, B, C][: operand_count(name, function)]
                all_values = run(torch, function, values, dtype, scale, torch.float64)
                recorded[f"{name}/{dtype}/{scale:g}"] = [
                    [] if t is None else [rounded(v) for v in t.detach().flatten().tolist()] for t in all_values
                ]
    lines = ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in recorded.items())
    pathlib.Path(__file__).with_name("narrow_floats.json").write_text("{\n" + lines + "\n}\n")


if __name__ == "__main__":
    main()
