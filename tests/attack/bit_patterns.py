"""All 65,536 numbers of `float16` and of `bfloat16` through every function of one operand: values and gradients.

The reference is the same function in `float64`, of the same number. A value may differ from it by one rounding. A
gradient may differ by two, and by the change that the rounding of a result makes from which it is computed:

    python tests/attack/bit_patterns.py
    python tests/attack/bit_patterns.py --devices cpu --functions tanh,erf

A short form runs in `make test`, with a part of the functions.
"""

import argparse
import sys

import pytpu as torch

DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16}
RANDOM = ("bernoulli", "poisson", "rand_like", "randn_like", "rrelu")

# Functions whose gradient is computed from the rounded result, as PyTorch's is.
OF_RESULT = set(
    """elu celu selu erfinv exp exp2 expm1 hardtanh logit ndtri reciprocal rsqrt sigmoid sqrt tan tanh special_erfinv
    special_exp2 special_expit special_expm1 special_ndtri relu relu6""".split()
)

# Numbers that are not compared, by the reason.
VALUES_LEFT_OUT = {
    "tanhshrink": lambda x, y: x.abs() < 2**-5,  # two numbers cancel in `float32`
    "hardswish": lambda x, y: x.abs() > 2.0**124,  # six times the number is infinite in `float32`, as in PyTorch
    "sinc": lambda x, y: x == x.round(),  # zero, and not in `float64`, which rounds the angle
}
GRADIENTS_LEFT_OUT = {
    "tanhshrink": lambda x, y: x.abs() < 2**-5,
    "sinc": lambda x, y: x.abs() > 2.0**20,  # `float64` has few digits of the angle left
}
for table in (VALUES_LEFT_OUT, GRADIENTS_LEFT_OUT):
    table["special_sinc"] = table["sinc"]


def is_elementwise(function):
    """Return whether the function of one tensor gives a number of the same dtype for each number."""
    x = torch.tensor([0.5, 0.25, 0.75, 0.3], dtype=torch.float64)
    try:
        y = function(x)
        parts = torch.cat([function(x[2:]), function(x[:2])])
    except (RuntimeError, TypeError, IndexError, NotImplementedError, ValueError):
        return False
    is_tensor = isinstance(y, torch.Tensor) and y.shape == x.shape and y.dtype == x.dtype
    return is_tensor and torch.equal(y, torch.cat([parts[2:], parts[:2]]))


def functions():
    """Return functions of one floating-point operand by their names: the rows of the op table whose further parameters
    have defaults.
    """
    found = {}
    for name in sorted(dir(torch._C._ops)):
        if name.endswith("_") or name in RANDOM:
            continue
        for schema in torch._C._schemas(name):
            parameters = schema.partition("(")[2].partition(") ->")[0].split(", ")
            rest = [p for p in parameters[1:] if p != "*"]
            if parameters[0].startswith("Tensor") and all("=" in p for p in rest):
                function = getattr(torch._C._ops, name)
                if is_elementwise(function):
                    found[name] = function
    return found


def patterns(dtype, device):
    """Return all numbers of a 16-bit dtype."""
    return torch.arange(-(2**15), 2**15, dtype=torch.int16).view(dtype).to(device)


def outcome(function, x, second=False):
    """Return the value, the gradient and, on request, the second gradient, as tensors on `cpu`. `None` stands for a
    gradient that does not exist.
    """
    x = x.detach().requires_grad_()
    y = function(x)
    found = [y, None, None]
    if y.requires_grad:
        (found[1],) = torch.autograd.grad(y, x, torch.ones_like(y), create_graph=second, allow_unused=True)
        if second and found[1] is not None and found[1].requires_grad:
            g = found[1]
            (found[2],) = torch.autograd.grad(g, x, torch.ones_like(g), allow_unused=True)
    return [None if t is None else t.detach().cpu() for t in found]


def wrong(got, want, allowed, dtype):
    """Return where `got` is neither the number `want`, up to an error `allowed`, nor what the dtype has instead."""
    info = torch.finfo(dtype)
    # Numbers whose size `float32` does not hold, as a factor of them may leave its range.
    least = info.tiny if dtype is torch.float16 else 2.0**-117
    is_close = (got - want).abs() <= allowed
    is_tiny = (want.abs() < least) & (got.abs() <= 2 * least)
    # From half a rounding below the largest number on, a number may round to infinity.
    is_large = (want.abs() + allowed >= info.max) & (got.abs() + allowed >= info.max) & (got.sign() == want.sign())
    # Where the reference is not a number, a gradient may be one.
    return ~(is_close | is_tiny | is_large | want.isnan() & got.isnan() | (got == want))


def check(name, function, dtype, device, step=1):
    """Return texts about wrong values and gradients of a function. Each `step`-th number is tried."""
    x = patterns(dtype, device)[::step]
    wide = x.cpu().double()
    got, want = outcome(function, x), outcome(function, wide, second=name in OF_RESULT)
    if got[0].dtype is not dtype:
        return []  # a cast
    rounding = torch.finfo(dtype).eps / 2
    found = []
    for label, i, count, left_out in (("value", 0, 1.01, VALUES_LEFT_OUT), ("gradient", 1, 2.02, GRADIENTS_LEFT_OUT)):
        if got[i] is None or want[i] is None:
            if (got[i] is None) != (want[i] is None):
                found.append(f"{name} of {dtype} on {device}: no {label}")
            continue
        g, w = got[i].double(), want[i]
        allowed = count * rounding * w.abs()
        if dtype is torch.float16:
            # Numbers below the normal ones have a distance of their own.
            allowed = allowed + torch.finfo(dtype).tiny * torch.finfo(dtype).eps * count / 2
        if i == 1 and want[2] is not None:
            change = (1.5 * rounding * want[0] * want[2] / w).abs().nan_to_num(torch.inf)
            allowed = allowed + torch.where(got[0].isinf().logical_and(want[0].isfinite()), torch.inf, change)
        bad = wrong(g, w, allowed, dtype)
        if i == 1:
            bad &= ~w.isnan()
        if name in left_out:
            bad &= ~left_out[name](wide, want[0])
        at = bad.nonzero().flatten().tolist()
        if at:
            some = ", ".join(f"{wide[k]:g}: {g[k]:g} instead of {w[k]:g}" for k in at[:: -(-len(at) // 4)])
            found.append(f"{name} of {dtype} on {device}: {len(at)} {label}s: {some}")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", default="cpu,tpu")
    parser.add_argument("--functions", help="their names; by default all")
    args = parser.parse_args()
    chosen = args.functions.split(",") if args.functions else None
    count, findings = 0, []
    for name, function in functions().items():
        if chosen is not None and name not in chosen:
            continue
        for device in args.devices.split(","):
            for dtype in DTYPES.values():
                found = check(name, function, dtype, device)
                count += 1
                findings += found
                for text in found:
                    print(text, flush=True)
    print(f"{count} functions, dtypes and devices, {len(findings)} findings")
    return 1 if findings or not count else 0


if __name__ == "__main__":
    sys.exit(main())
