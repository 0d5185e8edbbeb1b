"""Writes `edge_gradients.json`: values, gradients and second gradients of element-wise functions, losses and
activations at zeros, bounds, ties, infinities and NaN, as PyTorch computes them.

Run it with PyTorch: `python record_edge_gradients.py`. `autograd/test_edge_gradients.py` computes the same, and
compares.
"""

import json
import math
import pathlib

INF, NAN = math.inf, math.nan
FULL = ("float32", "float64")
DTYPES = ["float32", "float64", "bfloat16", "float16"]
TOLERANCE = {"float32": 2e-4, "float64": 2e-4, "bfloat16": 3e-2, "float16": 4e-3}

# One row of points for functions of one operand, and the pairs of another one for functions of two.
POINTS = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 6.0, 0.25, 20.5, -20.5, 100.0, -100.0]
POINTS += [1e-6, -1e-6, 1e-20, -1e-20, 1e10, -1e10, 1e20, -1e20, INF, -INF, NAN]
SIDES = [0.0, -0.0, 1.0, -1.0, 2.5, -20.5, 1e-20, 1e20, INF, -INF, NAN]
# Probabilities and their targets.
CHANCES = [0.0, 1.0, 0.5, 1e-20, 1e-6, 0.999]


def unary(torch):
    """Return functions of one operand by their names."""
    functional, special = torch.nn.functional, torch.special
    names = "abs acos acosh angle asin asinh atan atanh ceil cos cosh deg2rad digamma erf erfc erfinv exp exp2 expm1 "
    names += "floor frac i0 lgamma log log10 log1p log2 logit nan_to_num neg positive rad2deg reciprocal relu round "
    names += "rsqrt sgn sigmoid sign sin sinc sinh sqrt square tan tanh trunc"
    table = {n: getattr(torch, n) for n in names.split()}
    names = "entr erfcx i0e i1 i1e log_ndtr ndtr ndtri"
    table |= {n: getattr(special, n) for n in names.split()}
    names = "celu elu gelu hardshrink hardsigmoid hardswish hardtanh leaky_relu logsigmoid mish relu6 rrelu selu silu "
    names += "softplus softshrink softsign tanhshrink"
    table |= {n: getattr(functional, n) for n in names.split()}
    numbers = {
        "gelu(tanh)": lambda x: functional.gelu(x, approximate="tanh"),
        "softplus(2, 5)": lambda x: functional.softplus(x, 2.0, 5.0),
        "threshold(0.5, 7)": lambda x: functional.threshold(x, 0.5, 7.0),
        "elu(2)": lambda x: functional.elu(x, 2.0),
        "celu(0.5)": lambda x: functional.celu(x, 0.5),
        "hardtanh(-2, 3)": lambda x: functional.hardtanh(x, -2.0, 3.0),
        "hardshrink(1)": lambda x: functional.hardshrink(x, 1.0),
        "softshrink(1)": lambda x: functional.softshrink(x, 1.0),
        "leaky_relu(0)": lambda x: functional.leaky_relu(x, 0.0),
        "polygamma(1)": lambda x: torch.polygamma(1, x),
        "polygamma(2)": lambda x: torch.polygamma(2, x),
        "mvlgamma(2)": lambda x: torch.mvlgamma(x.abs() + 3, 2),
        "clamp(-1, 1)": lambda x: x.clamp(-1, 1),
        "clamp(min=0)": lambda x: x.clamp(min=0.0),
        "clamp(max=2)": lambda x: x.clamp(max=2.0),
        "clamp(2, 1)": lambda x: x.clamp(2, 1),
        "logit(0.1)": lambda x: torch.logit(x, 0.1),
        "nan_to_num(1, 2, 3)": lambda x: torch.nan_to_num(x, 1.0, 2.0, 3.0),
        "round(2)": lambda x: torch.round(x, decimals=2),
        "fmod(2)": lambda x: x.fmod(2.0),
        "remainder(2)": lambda x: x.remainder(2.0),
        "trunc_divide(2)": lambda x: torch.div(x, 2.0, rounding_mode="trunc"),
        "xlogy(x, 2)": lambda x: torch.xlogy(x, 2.0),
        "xlogy(2, x)": lambda x: torch.xlogy(2.0, x),
        "xlog1py(2, x)": lambda x: special.xlog1py(2.0, x),
        "where(x > 0, xlogy(x, x))": lambda x: torch.where(x > 0, torch.xlogy(x, x), x * 0 + 1),
    }
    numbers |= {f"x**{e}": lambda x, e=e: x**e for e in (0, 1, 2, 3, 0.5, -1, -0.5, -2)}
    numbers |= {f"{b}**x": lambda x, b=b: b**x for b in (0.0, 1.0, 2.0, -2.0)}
    return table | numbers


def binary(torch):
    """Return functions of two operands by their names."""
    functional, special = torch.nn.functional, torch.special
    names = "add atan2 copysign div float_power fmax fmin fmod hypot logaddexp logaddexp2 maximum minimum mul "
    names += "nextafter pow remainder sub xlogy ldexp"
    table = {n: getattr(torch, n) for n in names.split()} | {"xlog1py": special.xlog1py}
    table |= {
        "div(floor)": lambda a, b: torch.div(a, b, rounding_mode="floor"),
        "div(trunc)": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
        "lerp(0.3)": lambda a, b: torch.lerp(a, b, 0.3),
        "clamp(min=b)": lambda a, b: a.clamp(min=b),
        "clamp(max=b)": lambda a, b: a.clamp(max=b),
        "zeta": lambda a, b: special.zeta(a.detach(), b),
        "prelu": lambda a, b: torch.stack([functional.prelu(x, w[None]) for x, w in zip(a.unbind(), b.unbind())]),
    }
    losses = "mse_loss l1_loss smooth_l1_loss huber_loss kl_div binary_cross_entropy_with_logits "
    losses += "poisson_nll_loss"
    for name in losses.split():
        loss = getattr(functional, name)
        table[name] = lambda a, b, f=loss: f(a, b, reduction="none")
    for name in ("soft_margin_loss", "hinge_embedding_loss"):
        loss = getattr(functional, name)
        table[name] = lambda a, b, f=loss: f(a, b.detach(), reduction="none")
    table |= {
        "smooth_l1_loss(0)": lambda a, b: functional.smooth_l1_loss(a, b, reduction="none", beta=0.0),
        "huber_loss(0.5)": lambda a, b: functional.huber_loss(a, b, reduction="none", delta=0.5),
        "kl_div(log)": lambda a, b: functional.kl_div(a, b, reduction="none", log_target=True),
        "poisson_nll_loss(full)": lambda a, b: functional.poisson_nll_loss(a, b, reduction="none", full=True),
        "poisson_nll_loss(no log)": lambda a, b: functional.poisson_nll_loss(a, b, log_input=False, reduction="none"),
    }
    return table


def chances(torch):
    """Return functions of a probability and its target."""
    loss = torch.nn.functional.binary_cross_entropy
    return {
        "binary_cross_entropy": lambda a, b: loss(a, b, reduction="none"),
        "binary_cross_entropy(weight)": lambda a, b: loss(a, b, weight=b.detach() + 1, reduction="none"),
    }


def cases(torch):
    """Return name, function and operands of all cases."""
    pairs = [(a, b) for a in SIDES for b in SIDES]
    chance = [(a, b) for a in CHANCES for b in CHANCES]
    yield from ((name, f, [POINTS]) for name, f in unary(torch).items())
    yield from ((name, f, [list(v) for v in zip(*pairs)]) for name, f in binary(torch).items())
    yield from ((name, f, [list(v) for v in zip(*chance)]) for name, f in chances(torch).items())


def compute(torch, f, operands, dtype, device="cpu"):
    """Return the value, the gradients and the second gradients as tensors, `None` for each that does not exist.

    The second gradients are those of one times the first gradient plus three times the second one, so that equal terms
    do not cancel. 16-bit dtypes have none: after so many roundings they are noise.
    """
    # The largest numbers are infinite in `float16`, so they are kept below its bound.
    kept = [[math.copysign(min(abs(v), 6e4), v) if math.isfinite(v) else v for v in x] for x in operands]
    values = kept if dtype == "float16" else operands
    xs = [torch.tensor(v, dtype=getattr(torch, dtype), device=device).requires_grad_() for v in values]
    y = f(*xs)
    if not y.requires_grad:
        return [y] + [None] * (2 if dtype in FULL else 1) * len(xs)
    g = torch.autograd.grad(y, xs, torch.ones_like(y), create_graph=True, allow_unused=True)
    if dtype not in FULL:
        return [y, *g]
    recorded = [(d, torch.full_like(d, 1 + 2 * i)) for i, d in enumerate(g) if d is not None and d.requires_grad]
    second = [None] * len(xs)
    if recorded:
        try:
            outputs, weights = zip(*recorded)
            second = torch.autograd.grad(outputs, xs, weights, allow_unused=True)
        except RuntimeError:
            second = []  # not implemented
    return [y, *g, *second]


def listed(tensors):
    """Return tensors as lists of floats, with zeros for gradients that do not exist."""
    size = max(t.numel() for t in tensors if t is not None)
    return [[0.0] * size if t is None else t.detach().cpu().double().clone().flatten().tolist() for t in tensors]


def is_close(a, b, dtype):
    """Return whether two numbers agree: in kind, and up to the rounding of a few ops."""
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    if math.isinf(a) or math.isinf(b):
        return a == b
    smallest = {"float16": 1e-6, "bfloat16": 1e-36}.get(dtype, 1e-36)
    return abs(a - b) <= TOLERANCE[dtype] * max(abs(a), abs(b)) + smallest


if __name__ == "__main__":
    import torch

    recorded = {}
    for name, f, operands in cases(torch):
        try:
            plain = listed(compute(torch, f, operands, "float32"))
        except RuntimeError as error:
            recorded[name] = {"float32": str(error)}
            continue
        recorded[name] = {"float32": [[float(f"{v:.6g}") for v in row] for row in plain]}
        for dtype in DTYPES[1:]:
            try:
                rows = listed(compute(torch, f, operands, dtype))
            except RuntimeError as error:
                recorded[name][dtype] = str(error)
                continue
            # Only what differs from `float32` is kept.
            recorded[name][dtype] = [
                {i: float(f"{v:.6g}") for i, (v, w) in enumerate(zip(row, base)) if not is_close(v, w, dtype)}
                for row, base in zip(rows, plain)
            ]
    lines = [f'"{name}": {json.dumps(recorded[name])}' for name in recorded]
    target = pathlib.Path(__file__).with_name("edge_gradients.json")
    target.write_text("{\n" + ",\n".join(lines) + "\n}\n")
