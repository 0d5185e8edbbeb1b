"""Steps of random programs for ``programs.py``: views, writes in place, ops, hooks and backward.

A step is one line of Python, made for the tensors that the program has so far. The tensors are PyTorch's: this file is
imported only where PyTorch records programs.
"""

import math

SHAPES = [[], [1], [3], [4], [6], [2, 3], [3, 2], [4, 4], [1, 4], [3, 1], [3, 3], [2, 3, 4], [2, 2, 2], [1, 3, 2]]
SHAPES += [[2, 1, 3, 2], [1, 2, 4, 4], [2, 2, 2, 2, 1], [0], [2, 0, 3], [5, 2]]
FLOATS = ["float64", "float64", "float64", "float32", "float32", "float16", "bfloat16", "complex128", "complex64"]
EXACT = ["float64", "float64", "float32", "int64", "int64", "int32", "int16", "int8", "uint8", "bool", "complex128"]
SMOOTH = """sin cos tanh sigmoid exp neg square atan asinh expm1 erf sinh exp2 abs sqrt rsqrt log log1p log2 reciprocal
    sinc erfc digamma lgamma erfinv asin acos acosh atanh positive sgn cosh tan i0 logit angle nan_to_num""".split()
ACTIVATIONS = """softplus gelu silu mish elu selu celu hardtanh hardswish hardsigmoid logsigmoid softsign tanhshrink
    relu leaky_relu relu6 hardshrink softshrink""".split()
STEPPED = "floor ceil round trunc sign frac isnan isfinite isinf signbit logical_not".split()
UNARY_EXACT = "abs sign floor round neg square positive clone relu logical_not isnan".split()
BINARY = """add sub mul div true_divide maximum minimum fmax fmin atan2 hypot logaddexp pow xlogy dist fmod remainder
    floor_divide copysign eq ne lt le gt ge logical_and logical_xor heaviside rsub""".split()
BINARY_EXACT = "add sub mul maximum minimum eq ne lt le gt ge logical_or fmax bitwise_and bitwise_xor".split()
SAFE_DTYPES = ["float64", "float32", "bfloat16", "float16", "complex128", "int64", "int32", "bool"]


class Draw:
    """What a step is made of: one tensor of the program, and random choices that suit its shape."""

    def __init__(self, rng, tensors, is_exact):
        self.rng = rng
        self.tensors = tensors
        self.is_exact = is_exact
        names = list(tensors)
        self.a = rng.choice(names[-4:] if rng.random() < 0.6 else names)
        self.x = tensors[self.a]
        self.rank = self.x.dim()
        self.is_complex = self.x.is_complex()
        self.is_float = self.x.is_floating_point()

    def pick(self, *options):
        return self.rng.choice(options)

    def dim(self):
        return self.rng.randrange(-self.rank, self.rank) if self.rank else self.pick(0, -1)

    def dims(self):
        return self.rng.sample(range(self.rank), self.rng.randint(1, self.rank)) if self.rank else []

    def number(self):
        return self.pick(2, -1, 3, 0, 1) if self.is_exact else self.pick(2, -1.5, 0.5, 3, 0, 1, 2.25, True)

    def is_broadcast(self, shape):
        pairs = zip(reversed(shape), reversed(self.x.shape), strict=False)
        return all(m in (n, 1) or n == 1 for m, n in pairs)

    def other(self, same_dtype=False):
        """Return the name of a tensor that broadcasts with `x`."""
        must = same_dtype or self.rng.random() < 0.7
        names = [n for n, t in self.tensors.items() if self.is_broadcast(t.shape)]
        names = [n for n in names if not must or self.tensors[n].dtype == self.x.dtype] or [self.a]
        return self.rng.choice(names)

    def operand(self):
        return self.pick(str(self.number()), self.other(), f"{self.other()} * 2")

    def indices(self, size, count=None, negative=True):
        count = self.pick(1, 2, 3, 4) if count is None else count
        if not size:
            return "torch.zeros(0, dtype=torch.int64, device=D)"
        return f"torch.tensor({[self.rng.randrange(-size if negative else 0, size) for _ in range(count)]}, device=D)"

    def subscript(self, size):
        p = self.rng.random()
        if p < 0.25:
            return ":"
        if p < 0.45 and size:
            return str(self.rng.randrange(-size, size))
        if p < 0.75:
            ends = [self.pick("", str(self.rng.randint(-size, size))) for _ in range(2)]
            return f"{ends[0]}:{ends[1]}:{self.pick('', '1', '2', '3')}"
        return self.pick("::2", "1:", "None", ":-1")

    def overlaps(self):
        """Whether two indices of `x` share an element."""
        places = {0}
        for n, stride in zip(self.x.shape, self.x.stride(), strict=True):
            places = {place + k * stride for place in places for k in range(n)}
        return len(places) < self.x.numel()

    def basic(self):
        if not self.rank:
            return self.pick("...", "None", "()")
        parts = [self.subscript(n) for n in self.x.shape[: self.rng.randint(1, self.rank)]]
        if self.rng.random() < 0.15:
            parts.insert(self.rng.randrange(len(parts) + 1), "...")
        return ", ".join(parts)

    def advanced(self):
        if not self.rank:
            return "torch.tensor(True, device=D)"
        sizes = self.x.shape
        forms = [self.indices(sizes[0])]
        if not self.x.requires_grad or self.is_exact:
            forms.append(f"{self.a}.real > 0" if self.is_complex else f"{self.a} > 0")
        if self.rank > 1:
            forms.append(f"{self.indices(sizes[0], 2)}, {self.indices(sizes[1], 2)}")
            forms.append(f"{self.subscript(sizes[0])}, {self.indices(sizes[1])}")
            forms.append(f"..., {self.indices(sizes[-1])}")
        if self.rank > 2:
            forms.append(f"{self.indices(sizes[0], 2)}, :, {self.indices(sizes[2], 2)}")
        if sizes[0]:
            forms.append(f"[{self.rng.randrange(sizes[0])}, {self.rng.randrange(-sizes[0], 0)}]")
        return self.rng.choice(forms)

    def shape(self):
        """Return another shape of as many elements, perhaps with a -1."""
        count = self.x.numel()
        if not count:
            return self.pick([0], [0, 2])
        factors = []
        while count > 1 and len(factors) < 4:
            factor = self.rng.choice([k for k in (2, 3, 4, 5, 7, count) if count % k == 0])
            factors.append(factor)
            count //= factor
        factors += [count] if count > 1 else []
        self.rng.shuffle(factors)
        if factors and self.rng.random() < 0.3:
            factors[self.rng.randrange(len(factors))] = -1
        if self.rng.random() < 0.2:
            factors.insert(self.rng.randrange(len(factors) + 1), 1)
        return factors


def view(d):
    """Return an expression that is a view of a tensor, or looks like one."""
    a, x, rank, rng = d.a, d.x, d.rank, d.rng
    forms = [
        f"{a}[{d.basic()}]",
        f"{a}[{d.basic()}]",
        f"{a}.unsqueeze({rng.randint(-rank - 1, rank)})",
        f"{a}.squeeze({d.pick('', d.dim())})",
        f"{a}.reshape({d.shape()})",
        f"{a}.view({d.shape()})",
        f"{a}.expand({[d.pick(2, 3)] * d.pick(0, 1) + [-1 if n != 1 else d.pick(-1, 2, 3) for n in x.shape]})",
        f"{a}.{d.pick('detach()', 'view_as(' + a + ')', 'clone()', 'contiguous()')}",
        f"torch.broadcast_tensors({a}, {d.other()})[{d.pick(0, 1)}]",
        f"{a}.expand_as({d.other()})",
    ]
    if d.is_complex:
        forms += [f"torch.view_as_real({a})", f"{a}.conj()", f"{a}.imag", f"{a}.real", f"{a}.conj().imag"] * 2
    elif d.is_float and rank and x.shape[-1] == 2 and x.element_size() > 2:
        forms += [f"torch.view_as_complex({a})"] * 3
    if rank:
        i, n = d.dim(), 0
        n = x.shape[i]
        start = rng.randint(0, n)
        dims = d.dims()
        order = list(range(rank))
        rng.shuffle(order)
        forms += [
            f"{a}.narrow({i}, {start}, {rng.randint(0, n - start)})",
            f"{a}.transpose({i}, {d.dim()})",
            f"{a}.movedim({i}, {d.dim()})",
            f"{a}.permute({order})",
            f"{a}.flatten({min(dims)}, {max(dims)})",
            f"{a}.unfold({i}, {rng.randint(1, max(1, min(3, n)))}, {d.pick(1, 2)})",
            f"{a}.flip({dims})",
            f"{a}.roll({d.pick(1, -1, 2, 5)}, {i})",
            f"{a}.chunk({d.pick(2, 3)}, {i})[-1]",
            f"{a}.split({d.pick(1, 2)}, {i})[{d.pick(0, -1)}]",
            f"{a}.tensor_split({d.pick(2, [1], [1, 2])}, {i})[{d.pick(0, -1)}]",
            f"{a}.unbind({i})[{d.pick(0, -1)}]",
            f"{a}.unflatten({i}, {d.pick([-1, 1], [1, n], [2, -1] if n % 2 == 0 else [n, 1])})",
            f"{a}[{d.advanced()}]",
            f"{a}[{d.advanced()}]",
            f"{a}.repeat({[d.pick(1, 2) for _ in range(rank)]})",
            f"{a}.repeat_interleave({d.pick(1, 2)}, {i})",
        ]
        if n:
            forms += [f"{a}.select({i}, {rng.randrange(-n, n)})"] * 2
    if rank > 1:
        first, second = rng.sample(range(rank), 2)
        forms += [
            f"{a}.diagonal({d.pick(0, 0, 1, -1)}, {first}, {second})",
            f"{a}.{d.pick('mT', 'mH', 'adjoint()')}",
            f"{a}.{d.pick('tril', 'triu')}({d.pick(0, 1, -1)})",
            f"torch.rot90({a}, {d.pick(1, 2, -1)}, {[first, second]})",
        ]
    if rank == 4:
        forms.append(f"{a}.contiguous(memory_format=torch.channels_last)")
    if x.numel():
        sizes = [d.pick(1, 2, 3) for _ in range(d.pick(1, 2, 3))]
        steps = [d.pick(0, 1, 2, 3) for _ in sizes]
        last = sum((n - 1) * step for n, step in zip(sizes, steps, strict=True))
        # Beyond the tensor, PyTorch's gradient leaves out what lies in its base only.
        if last < x.numel() and x.is_contiguous():
            forms.append(f"{a}.as_strided({sizes}, {steps})")
    if d.is_exact and not x.requires_grad and not d.is_complex:
        forms.append(f"{a}.view(torch.{d.pick('int64', 'int32', 'uint8', 'int8', 'int16')})")
    return rng.choice(forms)


def write(d):
    """Return a statement that writes into a tensor, or into a view of one."""
    a, x, rank, rng = d.a, d.x, d.rank, d.rng
    arithmetic = ["add_", "sub_", "mul_"] if d.is_exact else ["add_", "sub_", "mul_", "div_", "hypot_", "atan2_"]
    simple = ["neg_", "square_", "zero_"] + ([] if d.is_complex else ["sgn_", "abs_", "relu_"])
    if not d.is_exact:
        simple += ["sin_", "tanh_", "sigmoid_", "exp_", "cos_", "erf_", "reciprocal_", "expm1_"]
    forms = [
        f"{a}.{rng.choice(simple)}()",
        f"{a}.{rng.choice(arithmetic)}({d.operand()})",
        f"{a}.{rng.choice(arithmetic)}({d.operand()})",
        f"{a}.{d.pick('fill_', 'add_', 'mul_')}({d.number()})",
        f"{a}.copy_({d.other()})",
        f"{a} {d.pick('+=', '-=', '*=')} {d.operand()}",
        f"{a}[{d.basic()}] = {d.operand()}",
        f"{a}[{d.basic()}] = {d.operand()}",
        f"{a}[{d.basic()}] {d.pick('+=', '-=', '*=')} {d.operand()}",
        f"{a}.addcmul_({d.other()}, {d.other()}, value={d.number()})",
        f"torch.{d.pick('add', 'mul', 'sub')}({a}, {d.other()}, out={a})",
        f"torch._foreach_{d.pick('add_', 'mul_', 'sub_')}([{a}, {d.other()}], {d.number()})",
        f"with torch.no_grad(): {a}.{d.pick('add_(1)', 'mul_(2)', 'zero_()', f'copy_({d.other()})')}",
        f"{a}.view(-1).{d.pick('add_(1)', 'neg_()', 'mul_(2)')}",
        f"{a}.detach().{d.pick('add_(1)', 'neg_()', f'copy_({d.other()})')}",
    ]
    if not d.is_complex:
        forms += [
            f"{a}.masked_fill_({d.other()}.real > {d.pick(0, 1)}, {d.number()})",
            f"{a}.clamp_({d.pick('-1, 1', 'min=0', 'max=1')})",
            f"{a}.masked_scatter_({a} > 0, {a}.detach().flatten() * 2)",
        ]
    if rank:
        i = d.dim()
        n = x.shape[i]
        count = d.pick(1, 2, 3)
        picked = d.indices(n, count, False)
        forms += [
            f"{a}[{d.advanced()}] = {d.operand()}",
            f"{a}[{d.advanced()}] = {d.number()}",
            f"{a}[{d.advanced()}] += {d.number()}",
            f"{a}.index_add_({i}, {picked}, {a}.detach().index_select({i}, {d.indices(n, count, False)}))",
            f"{a}.index_copy_({i}, {d.indices(n, 1, False)}, {a}.detach().index_select({i}, {d.indices(n, 1, False)}))",
            f"{a}.index_fill_({i}, {picked}, {d.number()})",
            f"{a}.cumsum_({i})" if not d.overlaps() else f"{a}.neg_()",
            f"{a}.transpose(0, -1).{d.pick('add_(1)', 'mul_(2)', 'neg_()')}",
            f"{a}.select({i}, 0).{d.pick('add_(1)', 'zero_()', 'mul_(3)')}",
            f"{a}.{d.pick(f'transpose_({i}, {d.dim()})', f'squeeze_({i})', f'unsqueeze_({i})')}",
            f"torch.cumsum({a}.clone(), 0, out={a})" if not d.overlaps() else f"{a}.zero_()",
            f"{a}.sub_({a}.{d.pick('sum', 'amax' if not d.is_complex else 'sum')}({i}, keepdim=True))",
        ]
        if x.numel() and n:
            where = f"(torch.arange({x.numel()}, device=D) % {n}).view({list(x.shape)})"
            forms += [
                f"{a}.scatter_add_({i}, {where}, {a}.detach() * 2)",
                f"{a}.scatter_reduce_({i}, {where}, {a}.detach() * 2, {d.pick('sum', 'amax', 'prod', 'mean')!r})",
                f"{a}.scatter_({i}, {where}[:1], {d.number()})",
            ]
        if x.shape[0]:
            value = f"torch.tensor({d.number()}, device=D).to({a}.dtype)"
            forms.append(f"{a}.index_put_(({d.indices(x.shape[0])},), {value}, accumulate={d.pick(True, False)})")
    if rank == 2 and x.numel():
        forms += [f"{a}.fill_diagonal_({d.number()})", f"{a}.t_()", f"{a}.tril_()"]
        if x.shape[0] == x.shape[1]:
            forms.append(f"{a}.addmm_({a}.detach().clone(), {a}.detach().mT.clone(), beta={d.pick(0, 1, 2)})")
    if rank > 1:
        forms += [f"{a}.diagonal(0, 0, -1).{d.pick('add_(1)', 'zero_()')}", f"{a}.mT.{d.pick('mul_(2)', 'add_(1)')}"]
    if not d.is_exact and d.is_float:
        forms += [f"{a}.lerp_({d.other(True)}, 0.25)", f"{a}.addcdiv_({d.other()}, {d.other()} + 4, value=0.5)"]
        forms += [f"{a} /= {d.pick(2, 3.0)}", f"{a}.pow_({d.pick(2, 3)})"]
    return rng.choice(forms)


def pointwise(d):
    """Return an expression of one, two or three operands."""
    a, rng = d.a, d.rng
    if rng.random() < 0.4:
        if d.is_exact:
            return (
                f"torch.{rng.choice(UNARY_EXACT[4 * d.is_complex :])}({a})"
                if rng.random() < 0.9
                else f"{a}.contiguous() + 0"
            )
        p = rng.random()
        if p < 0.5:
            return f"torch.{rng.choice(SMOOTH)}({a})"
        return f"F.{rng.choice(ACTIVATIONS)}({a})" if p < 0.85 else f"torch.{rng.choice(STEPPED)}({a})"
    forms = [f"torch.{rng.choice(BINARY_EXACT if d.is_exact else BINARY)}({a}, {d.other()})"] * 4
    sign = rng.choice(["+", "-", "*"] + ([] if d.is_exact else ["/", "**"]))
    forms += [f"{a} {sign} {d.number()}", f"{d.number()} {sign} {a}", f"{a} {sign} {d.other()}"]
    forms += [
        f"torch.where({d.other()}.real > 0, {a}, {d.operand()})",
        f"torch.addcmul({a}, {d.other(True)}, {d.other(True)})",
        f"torch.{d.pick('cat', 'stack')}([{a}, {a} * 2, {a}], {d.dim()})",
        f"{a}.masked_fill({d.other()}.real > 0, {d.number()})",
    ]
    if not d.is_complex:
        forms.append(f"{a}.clamp({d.pick('-1, 1', 'min=0', 'max=1')})")
    if d.is_float and not d.is_exact:
        forms += [f"torch.lerp({a}, {d.other(True)}, 0.3)", f"torch.nn.functional.{rng.choice(ACTIVATIONS)}({a} * 0.5)"]
    return rng.choice(forms)


def reduction(d):
    """Return an expression that reduces or scans."""
    a, i, rng = d.a, d.dim(), d.rng
    keep = d.pick("", ", keepdim=True")
    forms = [f"{a}.sum({d.dims() or i}{keep})", f"{a}.sum()", f"{a}.cumsum({i})", f"{a}.count_nonzero({i})"]
    if not d.is_complex:
        forms += [f"{a}.{d.pick('amax', 'amin')}({i}{keep})", f"{a}.{d.pick('max', 'min')}({i}{keep})[0]"]
        forms += [f"{a}.{d.pick('max', 'min')}()", f"torch.sort({a}, dim={i}, stable=True)[{d.pick(0, 1)}]"]
        forms += [
            f"{a}.{d.pick('argmax', 'argmin', 'any', 'all')}({i}{keep})",
            f"{a}.{d.pick('cummax', 'cummin')}({i})[0]",
        ]
    if d.x.numel() < 30 and d.x.dtype.itemsize > 1:
        forms += [f"{a}.prod({i}{keep})", f"{a}.prod()", f"{a}.cumprod({i})"]
    if not d.is_exact:
        forms += [f"{a}.mean({i}{keep})", f"{a}.mean()", f"{a}.var({i}, correction=0{keep})"]
        if d.is_float:
            forms += [
                f"torch.{d.pick('softmax', 'log_softmax', 'logcumsumexp')}({a}, {i})",
                f"{a}.logsumexp({i}{keep})",
            ]
            forms += [f"{a}.norm({d.pick(1, 2, 3)}, {i})", f"{a}.std({i}, correction=0{keep})", f"{a}.median({i})[0]"]
            forms += [f"{a}.nansum({i})", f"{a}.quantile({d.pick(0.5, 0.25)}, {i})", f"F.normalize({a}, dim={i})"]
            forms += [f"torch.linalg.vector_norm({a}, {d.pick(1, 2, 3.5)}, {i}{keep})"]
    return rng.choice(forms)


def product(d):
    """Return an expression with a matrix product, a layer or a gather."""
    a, x, rank, rng = d.a, d.x, d.rank, d.rng
    # PyTorch's scatters into a copy of overlapping elements write into a copy that overlaps.
    if not rank or not x.numel() or d.overlaps():
        return f"torch.outer({a}.reshape(-1), {a}.reshape(-1))"
    i, last = d.dim(), x.shape[-1]
    n = x.shape[i]
    forms = [
        f"{a}.index_select({i}, {d.indices(n, None, False)})",
        f"torch.gather({a}, {i}, torch.zeros({[1] * rank}, dtype=torch.int64, device=D))",
        f"torch.take({a}, {d.indices(x.numel(), 3)})",
        f"torch.tensordot({a}, {a}, [[0], [0]])",
        f"torch.diff({a}, dim={i})" if n else f"{a}.flatten()",
        f"F.pad({a}, ({d.pick(0, 1)}, {d.pick(1, 2, -1)}), value={d.pick(0, 1)})",
        f"torch.index_add({a}, {i}, {d.indices(n, 2, False)}, {a}.index_select({i}, {d.indices(n, 2, False)}))",
    ]
    if rank > 1:
        forms += [f"{a} @ {a}.mT", f"{a}.mT @ {a}", f"torch.einsum('...i,...i->...', {a}, {a})"]
        forms += [f"torch.select_scatter({a}, {a}.select(0, 0) * 2, 0, -1)"]
        forms += [f"torch.diagonal_scatter({a}, {a}.diagonal() * 2)", f"torch.slice_scatter({a}, {a}[1:] * 2, 0, 1)"]
    else:
        forms += [f"torch.outer({a}, {a})", f"torch.dot({a}, {a}.flip(0))", f"torch.diag_embed({a})"]
    if d.is_float and last:
        weight = f"(torch.arange({2 * last}, device=D).view(2, {last}) % 5 - 2).to({a}.dtype)"
        forms += [f"F.linear({a}, {weight}{'' if d.is_exact else ' / 3'})"] * 2
    if d.is_float and not d.is_exact:
        forms += [f"F.layer_norm({a}, [{last}])", f"F.rms_norm({a}, [{last}])", f"F.glu({a}, {i})"]
        forms += [f"torch.nn.functional.{d.pick('mse_loss', 'smooth_l1_loss', 'l1_loss')}({a}, {a}.detach() * 0.5)"]
        forms += [f"torch.topk({a}, 1, {i})[0]", f"F.cosine_similarity({a}, {a}.flip(0) + 1, dim={i})"]
        forms += [f"torch.cdist({a}, {a} * 0.5 + 1)" if rank > 1 else f"torch.trapezoid({a})"]
        if rank == 2 and last:
            forms += [f"F.cross_entropy({a}, torch.arange({x.shape[0]}, device=D) % {last})"]
        if rank > 1 and x.shape[1] and x.numel():
            forms += [f"F.batch_norm({a}, None, None, training=True)", f"F.group_norm({a}, 1)"]
        if rank == 4:
            c = x.shape[1]
            kernel = f"(torch.arange({2 * c}, device=D).view(2, {c}, 1, 1) % 3 - 1).to({a}.dtype)"
            forms += [f"F.conv2d({a}, {kernel}, padding={d.pick(0, 1)}, stride={d.pick(1, 2)})"] * 3
            forms += [f"F.{d.pick('max_pool2d', 'avg_pool2d')}({a}, 2, 1)", f"F.interpolate({a}, scale_factor=2)"]
            forms += [f"F.scaled_dot_product_attention({a}, {a}, {a})"]
        if rank == 3:
            forms += [f"F.{d.pick('max_pool1d', 'avg_pool1d')}({a}, 2, 1)", f"F.interpolate({a}, scale_factor=2)"]
            forms += [f"F.scaled_dot_product_attention({a}, {a}, {a})"]
    return rng.choice(forms)


def convert(d):
    """Return an expression that changes the dtype."""
    if not d.is_exact:
        return f"{d.a}.to(torch.{d.rng.choice(SAFE_DTYPES[:5])})"
    return f"{d.a}.to(torch.{d.rng.choice(SAFE_DTYPES[:2] + SAFE_DTYPES[4:])})"


def differentiate(d):
    """Return a statement about autograd, with `NEW` for the name of its result; or None."""
    a, x, rng = d.a, d.x, d.rng
    if not (d.is_float or d.is_complex):
        return None
    smooth = "x * x" if d.is_exact else d.pick("x * x", "x.sin()", "x.sigmoid() * x")
    forms = [
        f"NEW = {d.pick('Square', 'Passing', 'Nothing', 'Two')}.apply({a})",
        f"NEW = {a}.clone(); NEW = Doubling.apply(NEW)",
        f"NEW = checkpoint(lambda x: {smooth}, {a}, use_reentrant={d.pick(True, False)})",
        f"NEW = {a}.detach().clone().requires_grad_()",
        f"NEW = copy.deepcopy({a}.detach())",
        f"with torch.no_grad(): NEW = {a} * 2",
    ]
    if x.requires_grad:
        forms += [
            f"{a}.register_hook(lambda g: note('NEW', g))",
            f"{a}.register_hook(lambda g: g * 2)",
            f"NEW = {a} * 1; NEW.retain_grad()",
            f"NEW = {a} * 1; NEW.register_hook(lambda g: note('NEW', g))",
            f"with torch.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t): NEW = {a} * {a}",
        ]
        leaves = [n for n, t in d.tensors.items() if t.is_leaf and t.requires_grad]
        if leaves and not d.is_complex:
            leaf = rng.choice(leaves)
            options = (
                f"retain_graph=True, allow_unused=True, create_graph={d.pick(True, False)}, materialize_grads=True"
            )
            forms += [f"NEW = torch.autograd.grad({a}.sum(), {leaf}, {options})[0]"] * 2
        if x.is_leaf:
            forms += [f"{a}.register_post_accumulate_grad_hook(lambda t: note('NEW', t.grad))"]
            forms += [f"torch.optim.{d.pick('SGD', 'Adam')}([{a}], lr=0.1).step()"]
    return rng.choice(forms)


def step(rng, tensors, is_exact, new):
    """Return one more line for a program with these tensors, or None where the draw has no use."""
    d = Draw(rng, tensors, is_exact)
    p = rng.random()
    if p < 0.22:
        return write(d)
    if p < 0.32:
        statement = differentiate(d)
        return statement and statement.replace("NEW", new)
    make = view if p < 0.6 else pointwise if p < 0.78 else reduction if p < 0.87 else product if p < 0.96 else convert
    expression = make(d)
    if expression.count("torch.broadcast") == 0 and math.prod(d.x.shape) > 600:
        return None
    return f"{new} = {expression}"


def inputs(rng, is_exact):
    """Return the lines that make the tensors of a program."""
    lines = []
    dtypes = EXACT if is_exact else FLOATS
    common = rng.choice(dtypes)
    for number in range(rng.choice([1, 2, 2, 3])):
        dtype = common if rng.random() < 0.75 else rng.choice(dtypes)
        shape = rng.choice(SHAPES)
        count = math.prod(shape) * (2 if dtype.startswith("complex") else 1)
        if is_exact:
            values = [rng.randint(0 if dtype in ("uint8", "bool") else -3, 3) for _ in range(count)]
        else:
            scale = rng.choice([1, 1, 3])
            values = [round(rng.gauss(0, scale), 3) for _ in range(count)]
        name = f"x{number}"
        lines.append(f"{name} = make({values}, {dtype!r}, {shape})")
        if dtype.startswith(("float", "bfloat", "complex")) and rng.random() < 0.7:
            lines[-1] += ".requires_grad_()"
            if rng.random() < 0.6:
                lines.append(f"{name}c = {name} * 1")
    return lines
