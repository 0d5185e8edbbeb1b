"""Write `writes_after_ops.json`: whether PyTorch's backward refuses a write that follows an op.

Run it with PyTorch: `python record_writes_after_ops.py`. `autograd/test_writes_after_ops.py` asks the same.
"""

import json
import pathlib

OTHER = "modified by an inplace operation"


def cases(torch):
    """Return the calls by name: the operands, and a function of them."""
    F = torch.nn.functional

    def t(*shape):
        n = torch.Size(shape).numel()
        return (torch.arange(float(n)) * 7 % 11 / 5 - 0.93).reshape(shape)

    def p(*shape):
        return t(*shape).abs() + 0.3

    def u(*shape):
        return p(*shape) / 4

    def i(*values):
        return torch.tensor(values)

    spd = torch.tensor([[3.0, 0.5, 0.2], [0.5, 2.0, 0.1], [0.2, 0.1, 1.5]])
    a, b, c = t(2, 3), p(2, 3), t(2, 3) + 0.05
    found = {}
    one = (
        "abs neg exp exp2 expm1 sin cos tan sinh cosh tanh atan asinh sigmoid relu relu6 selu elu celu softplus "
        "softsign silu mish hardtanh hardsigmoid hardswish leaky_relu logsigmoid tanhshrink softshrink hardshrink gelu "
        "erf erfc square sgn sign floor ceil round trunc frac deg2rad rad2deg sinc i0 positive nan_to_num cumsum:0 "
        "cumprod:0 logcumsumexp:0 cummax:0 softmax:0 log_softmax:0 softmin:0 sum mean prod amax amin max min "
        "logsumexp:0 var std norm median nanmedian sum:0 prod:0 amax:0 max:0 var:0 std_mean var_mean std_mean:1 "
        "var_mean:1 aminmax t fliplr flatten roll:1 tril triu diag trace diff clone normalize:0 glu:0 dropout:0"
    ).split()

    def of_one(name, *dim):
        """Return a function of one operand, of `torch`, of its functional module, or a method."""
        if name == "dropout":
            return lambda x: F.dropout(x, 0.0)
        if hasattr(torch, name):
            return lambda x: getattr(torch, name)(x, *dim)
        return lambda x: getattr(F, name)(x, dim=dim[0]) if dim else getattr(F, name)(x)

    for name in one:
        base, _, dim = name.partition(":")
        found[name] = ((t(2, 4) if base == "glu" else a,), of_one(base, *([int(dim)] if dim else [])))
    for name in "log log2 log10 log1p sqrt rsqrt reciprocal lgamma digamma acosh".split():
        found[name] = ((b + (1 if name == "acosh" else 0),), getattr(torch, name))
    for name in "asin acos atanh logit erfinv".split():
        found[name] = ((u(2, 3),), getattr(torch, name))
    for name in (
        "add sub mul div atan2 hypot maximum minimum fmax fmin remainder fmod copysign logaddexp logaddexp2 xlogy "
        "ldexp pow float_power true_divide dist polar complex"
    ).split():
        x, y = (b, b + 0.1) if name in ("pow", "float_power", "xlogy", "polar") else (a, b)
        found[name] = ((x, y), getattr(torch, name))
        found[f"{name} (2, 1)"] = ((x, y[:, :1].clone()), getattr(torch, name)) if name != "complex" else found[name]
    found |= {
        "x + 2": ((a,), lambda x: x + 2),
        "2 - x": ((a,), lambda x: 2 - x),
        "x * 2": ((a,), lambda x: x * 2),
        "x / 2": ((a,), lambda x: x / 2),
        "2 / x": ((b,), lambda x: 2 / x),
        "0.3 / x": ((b,), lambda x: 0.3 / x),
        "x ** 2": ((a,), lambda x: x**2),
        "x ** 3": ((a,), lambda x: x**3),
        "x ** -1": ((b,), lambda x: x**-1),
        "x ** 0.5": ((b,), lambda x: x**0.5),
        "2 ** x": ((a,), lambda x: 2**x),
        "x % 2": ((b,), lambda x: x % 2),
        "clamp": ((a,), lambda x: x.clamp(-0.5, 0.5)),
        "clamp of tensors": ((a, t(3) - 1, t(3) + 1), torch.clamp),
        "where": ((a > 0, a, b), torch.where),
        "masked_fill": ((a, b > 1), lambda x, m: x.masked_fill(m, 0.5)),
        "masked_select": ((a, b > 1), torch.masked_select),
        "masked_scatter": ((a, b > 1, p(2, 3)), torch.masked_scatter),
        "lerp": ((a, b, u(2, 3)), torch.lerp),
        "lerp of a number": ((a, b), lambda x, y: torch.lerp(x, y, 0.3)),
        "addcmul": ((a, b, c), torch.addcmul),
        "addcdiv": ((a, c, b), torch.addcdiv),
        "mm": ((a, t(3, 2)), torch.mm),
        "bmm": ((t(2, 2, 3), t(2, 3, 2)), torch.bmm),
        "mv": ((a, t(3)), torch.mv),
        "dot": ((t(3), p(3)), torch.dot),
        "outer": ((t(3), p(2)), torch.outer),
        "addmm": ((t(2, 2), a, t(3, 2)), torch.addmm),
        "baddbmm": ((t(2, 2, 2), t(2, 2, 3), t(2, 3, 2)), torch.baddbmm),
        "linear": ((a, t(4, 3), t(4)), F.linear),
        "bilinear": ((a, t(2, 2), t(3, 3, 2)), F.bilinear),
        "einsum": ((a, t(3, 2)), lambda x, y: torch.einsum("ij,jk->ik", x, y)),
        "conv1d": ((t(1, 2, 5), t(3, 2, 2), t(3)), F.conv1d),
        "conv2d": ((t(1, 2, 4, 4), t(3, 2, 2, 2), t(3)), F.conv2d),
        "conv_transpose2d": ((t(1, 2, 3, 3), t(2, 3, 2, 2), t(3)), F.conv_transpose2d),
        "avg_pool2d": ((t(1, 1, 4, 4),), lambda x: F.avg_pool2d(x, 2)),
        "max_pool2d": ((t(1, 1, 4, 4),), lambda x: F.max_pool2d(x, 2)),
        "adaptive_avg_pool1d": ((t(1, 2, 4),), lambda x: F.adaptive_avg_pool1d(x, 2)),
        "adaptive_max_pool1d": ((t(1, 2, 4),), lambda x: F.adaptive_max_pool1d(x, 2)),
        "lp_pool1d": ((t(1, 2, 4),), lambda x: F.lp_pool1d(x, 2, 2)),
        "interpolate": ((t(1, 1, 3),), lambda x: F.interpolate(x, scale_factor=2, mode="linear")),
        "pad": ((a,), lambda x: F.pad(x, (1, 1))),
        "reflect": ((t(1, 1, 4),), lambda x: F.pad(x, (1, 1), mode="reflect")),
        "batch_norm": (
            (t(3, 2), t(2), p(2), p(2), t(2)),
            lambda x, m, v, w, b: F.batch_norm(x, m.detach(), v.detach(), w, b, True),
        ),
        "layer_norm": ((a, p(3), t(3)), lambda x, w, b: F.layer_norm(x, (3,), w, b)),
        "rms_norm": ((a, p(3)), lambda x, w: F.rms_norm(x, (3,), w)),
        "group_norm": ((t(2, 4), p(4), t(4)), lambda x, w, b: F.group_norm(x, 2, w, b)),
        "instance_norm": ((t(2, 2, 3),), F.instance_norm),
        "embedding": ((i(0, 2), t(3, 2)), F.embedding),
        "cross_entropy": ((a, i(0, 2)), F.cross_entropy),
        "nll_loss": ((a, i(0, 2)), F.nll_loss),
        "mse_loss": ((a, b), F.mse_loss),
        "l1_loss": ((a, b), F.l1_loss),
        "smooth_l1_loss": ((a, b), F.smooth_l1_loss),
        "huber_loss": ((a, b), F.huber_loss),
        "kl_div": ((a, u(2, 3)), lambda x, y: F.kl_div(x, y, reduction="sum")),
        "binary_cross_entropy": ((u(2, 3), u(2, 3)), F.binary_cross_entropy),
        "binary_cross_entropy_with_logits": ((a, u(2, 3)), F.binary_cross_entropy_with_logits),
        "cosine_similarity": ((a, b), F.cosine_similarity),
        "pairwise_distance": ((a, b), F.pairwise_distance),
        "cdist": ((a, b), torch.cdist),
        "triplet_margin_loss": ((a, b, c), F.triplet_margin_loss),
        "attention": ((t(1, 1, 3, 2), t(1, 1, 3, 2) + 0.1, p(1, 1, 3, 2)), F.scaled_dot_product_attention),
        "prelu": ((a, p(1)), F.prelu),
        "gather": ((a, i([0, 1], [2, 0])), lambda x, n: x.gather(1, n)),
        "index": ((a, i(0, 1, 1)), lambda x, n: x[n]),
        "index_select": ((a, i(0, 2)), lambda x, n: x.index_select(1, n)),
        "index_add": ((a, i(0, 2), t(2, 2)), lambda x, n, s: x.index_add(1, n, s)),
        "index_copy": ((a, i(0, 2), t(2, 2)), lambda x, n, s: x.index_copy(1, n, s)),
        "index_fill": ((a, i(0, 2)), lambda x, n: x.index_fill(1, n, 2.0)),
        "index_put": ((a, i(0, 1), t(2, 3)), lambda x, n, s: x.index_put((n,), s)),
        "scatter": ((a, i([0, 1], [2, 0]), t(2, 2)), lambda x, n, s: x.scatter(1, n, s)),
        "scatter_add": ((a, i([0, 1], [2, 0]), t(2, 2)), lambda x, n, s: x.scatter_add(1, n, s)),
        "take": ((a, i(0, 4)), torch.take),
        "sort": ((a,), torch.sort),
        "topk": ((a,), lambda x: torch.topk(x, 2)),
        "kthvalue": ((a,), lambda x: torch.kthvalue(x, 2)),
        "cat": ((a, b), lambda x, y: torch.cat([x, y])),
        "stack": ((a, b), lambda x, y: torch.stack([x, y])),
        "kron": ((a, t(2, 2)), torch.kron),
        "cross": ((a, b), lambda x, y: torch.linalg.cross(x, y)),
        "inv": ((spd,), torch.linalg.inv),
        "det": ((spd,), torch.linalg.det),
        "slogdet": ((spd,), torch.linalg.slogdet),
        "cholesky": ((spd,), torch.linalg.cholesky),
        "solve": ((spd, t(3, 2)), torch.linalg.solve),
        "qr": ((spd,), torch.linalg.qr),
        "qr of a wide matrix": ((a,), torch.linalg.qr),
        "qr of a tall matrix": ((t(3, 2) + torch.eye(3, 2),), torch.linalg.qr),
        "eigh": ((spd,), torch.linalg.eigh),
        "svd": ((a,), lambda x: torch.linalg.svd(x, full_matrices=False)),
        "svdvals": ((a,), torch.linalg.svdvals),
        "pinv": ((a,), torch.linalg.pinv),
        "matrix_exp": ((spd,), torch.matrix_exp),
        "matrix_power": ((spd,), lambda x: torch.linalg.matrix_power(x, 3)),
        "solve_triangular": ((spd, t(3, 2)), lambda x, y: torch.linalg.solve_triangular(x, y, upper=True)),
        "vector_norm": ((a,), torch.linalg.vector_norm),
        "matrix_norm": ((a,), torch.linalg.matrix_norm),
        "masked.sum": ((a, b > 0.8), lambda x, m: torch.masked.sum(x, 1, mask=m)),
        "masked.softmax": ((a, b > 0.5), lambda x, m: torch.masked.softmax(x, 1, mask=m)),
        "masked.var": ((a, b > 0.5), lambda x, m: torch.masked.var(x, 1, unbiased=False, mask=m)),
        "fft": ((a,), lambda x: torch.fft.fft(x).real),
        "renorm": ((a,), lambda x: x.renorm(2, 0, 0.5)),
        "unfold": ((a,), lambda x: x.unfold(1, 2, 1)),
        "grid_sample": (
            (t(1, 1, 3, 3), u(1, 2, 2, 2)),
            lambda x, g: F.grid_sample(x, g, mode="bilinear", align_corners=False),
        ),
    }
    return found


def tensors(value):
    if isinstance(value, (tuple, list)):
        return [t for v in value for t in tensors(v)]
    return [value]


def answers(torch, operands, f, device="cpu"):
    """Write each operand, and each result, after the call. Return whether backward refuses each of the writes, and
    `None` where it gives another gradient than without the write.
    """

    def run(write):
        leaves = [x.to(device).detach() for x in operands]
        for x in leaves:
            if x.is_floating_point():
                x.requires_grad_()
        # A copy, because a leaf is written without a version for its users.
        xs = [x.clone() for x in leaves]
        ys = tensors(f(*xs))
        results = [y.real.sum() if y.is_complex() else y.sum() for y in ys if y.requires_grad]
        if write is not None:
            with torch.no_grad():
                (xs + ys)[write].zero_()
        wanted = [x for x in leaves if x.requires_grad]
        return torch.autograd.grad(results, wanted, allow_unused=True), len(xs) + len(ys)

    want, count = run(None)
    found = []
    for write in range(count):
        try:
            got, _ = run(write)
        except RuntimeError as error:
            assert OTHER in str(error), error
            found.append(True)
            continue
        # A gradient that is not refused is that of the values before the write.
        # A program rounds otherwise when it has been compiled.
        close = {"rtol": 1e-4, "atol": 1e-6, "equal_nan": True}
        same = [g is w or torch.allclose(g, w, **close) for g, w in zip(got, want, strict=True)]
        found.append(False if all(same) else None)
    return found


def main():
    import torch

    torch.manual_seed(0)
    all_answers = {name: answers(torch, operands, f) for name, (operands, f) in cases(torch).items()}
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(found)}" for name, found in all_answers.items())
    pathlib.Path(__file__).with_name("writes_after_ops.json").write_text(f"{{\n{lines}\n}}\n")


if __name__ == "__main__":
    main()
