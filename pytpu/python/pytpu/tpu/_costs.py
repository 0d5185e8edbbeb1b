"""Costs of single ops: each is compiled alone, forward and, if asked, backward, for a TPU that is not here."""

import math

from ._plan import plan


class Cost:
    """The compiler's report about an op alone: `cycles`, `memory_bytes`, `temp_bytes` and `seconds`.

    `seconds` is the larger of cycles over the clock and `memory_bytes` over the bandwidth. These are operands and
    results once, and temporary values twice. The compiler's own count of bytes is not used here: it counts operands
    again that it copies to fast memory ahead of their use.
    """

    def __init__(self, report):
        self.cycles, self.temp_bytes = report.cycles, report.temp_bytes
        self.memory_bytes = report.argument_bytes + report.output_bytes + 2 * report.temp_bytes
        seconds_a_byte = report.memory_seconds / report.bytes_accessed if report.bytes_accessed else 0.0
        self.seconds = max(report.compute_seconds, self.memory_bytes * seconds_a_byte)


class Costs:
    """A compiler of single ops that remembers their costs.

    Args:
        topology (str): the machine, such as `"v5e:2x2"`.
        hbm (int, optional): bytes of device memory to reckon with.
        options (dict, optional): options of the compiler.

    Attributes: `compiled` (how many programs were asked for).
    """

    def __init__(self, topology, *, hbm=None, options=None):
        self._topology, self._hbm, self._options = topology, hbm, options
        self._known = {}
        self.compiled = 0

    def of(self, op):
        """Return the `Cost` of an op, one of the classes below, or `None` if the compiler refuses it."""
        if op not in self._known:
            self._known[op] = self._measure(op)
        return self._known[op]

    def _measure(self, op):
        import pytpu as torch

        with plan(self._topology, hbm=self._hbm, options=self._options) as planned, torch.enable_grad():
            operands = op.operands()
            # The operands are in memory before the op begins, since another program makes them.
            torch.tpu.mark_step()
            before = len(planned.programs)
            results = op.run(operands)
            torch.tpu.mark_step()
            del results
        self.compiled += 1
        (program,) = planned.programs[before:]
        report = program.reports.get(self._topology)
        return None if report is None else Cost(report)


class _Op:
    """An op with sizes. Equal ops have equal keys."""

    def __eq__(self, other):
        return type(self) is type(other) and self.key == other.key

    def __hash__(self):
        return hash((type(self), self.key))

    def __repr__(self):
        return f"{type(self).__name__}{self.key}"

    def run(self, operands):
        """Compute the op and its gradients, and return all results."""
        import pytpu as torch

        if not any(x.requires_grad for x in operands):
            return self.forward(*operands)
        *operands, g = operands
        y = self.forward(*operands)
        return y, torch.autograd.grad(y, [x for x in operands if x.requires_grad], g)


def _empty(shape, dtype, requires_grad=False):
    import pytpu as torch

    x = torch.empty(shape, dtype=getattr(torch, dtype), device="tpu")
    return x.requires_grad_() if requires_grad else x


class Product(_Op):
    """A product `(rows, k) @ (k, n)`. If `is_linear`, the second operand is stored as `(n, k)`.

    `gradients` selects the operands whose gradients are computed.
    """

    def __init__(self, rows, k, n, dtype, *, is_linear=True, gradients=(False, False)):
        self.rows, self.k, self.n, self.dtype, self.is_linear, self.gradients = (
            rows,
            k,
            n,
            dtype,
            is_linear,
            tuple(gradients),
        )
        self.key = (rows, k, n, dtype, is_linear, self.gradients)

    def with_sizes(self, rows=None, k=None, n=None):
        """Return the same product with other sizes."""
        return Product(
            rows or self.rows, k or self.k, n or self.n, self.dtype, is_linear=self.is_linear, gradients=self.gradients
        )

    def operations(self):
        """Multiplications of the forward product."""
        return self.rows * self.k * self.n

    def operands(self):
        x = _empty((self.rows, self.k), self.dtype, self.gradients[0])
        w = _empty((self.n, self.k) if self.is_linear else (self.k, self.n), self.dtype, self.gradients[1])
        return [x, w, _empty((self.rows, self.n), self.dtype)] if any(self.gradients) else [x, w]

    def forward(self, x, w):
        import pytpu as torch

        return torch.nn.functional.linear(x, w) if self.is_linear else x @ w


class Attention(_Op):
    """Scaled dot product attention with `heads` heads that share `kv_heads` pairs of keys and values.

    Operands are stored as layers make them: `(batch, rows, heads, head_dim)`.
    """

    def __init__(
        self,
        batch,
        rows,
        columns,
        heads,
        kv_heads,
        head_dim,
        dtype,
        *,
        is_causal=False,
        has_mask=False,
        has_gradient=False,
    ):
        self.key = (batch, rows, columns, heads, kv_heads, head_dim, dtype, is_causal, has_mask, has_gradient)
        (
            self.batch,
            self.rows,
            self.columns,
            self.heads,
            self.kv_heads,
            self.head_dim,
            self.dtype,
            self.is_causal,
            self.has_mask,
            self.has_gradient,
        ) = self.key

    def with_head_dim(self, head_dim):
        """Return attention of equal width with another number of heads, or `None` if the width is not a multiple."""
        width, kv_width = self.heads * self.head_dim, self.kv_heads * self.head_dim
        if width % head_dim or kv_width % head_dim:
            return None
        return Attention(
            self.batch,
            self.rows,
            self.columns,
            width // head_dim,
            kv_width // head_dim,
            head_dim,
            self.dtype,
            is_causal=self.is_causal,
            has_mask=self.has_mask,
            has_gradient=self.has_gradient,
        )

    def operands(self):
        shapes = [(self.rows, self.heads), (self.columns, self.kv_heads), (self.columns, self.kv_heads)]
        made = [_empty((self.batch, s, h, self.head_dim), self.dtype, self.has_gradient) for s, h in shapes]
        if self.has_mask:
            made.append(_empty((self.batch, 1, self.rows, self.columns), self.dtype))
        if self.has_gradient:
            made.append(_empty((self.batch, self.rows, self.heads, self.head_dim), self.dtype))
        return made

    def forward(self, q, k, v, mask=None):
        import pytpu as torch

        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        y = torch.nn.functional.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, is_causal=self.is_causal, enable_gqa=self.heads != self.kv_heads
        )
        return y.transpose(1, 2)


class Convolution(_Op):
    """A convolution of one group. `gradients` says whether the gradients of the input and of the weight are computed.

    Inputs have channels last, as the compiler lays out the activations of a network. The kernel has the layout of
    layers.
    """

    def __init__(
        self, batch, channels, size, out_channels, kernel, dtype, *, stride, padding, dilation, gradients=(False, False)
    ):
        self.key = (
            batch,
            channels,
            tuple(size),
            out_channels,
            tuple(kernel),
            dtype,
            tuple(stride),
            tuple(padding),
            tuple(dilation),
            tuple(gradients),
        )
        (
            self.batch,
            self.channels,
            self.size,
            self.out_channels,
            self.kernel,
            self.dtype,
            self.stride,
            self.padding,
            self.dilation,
            self.gradients,
        ) = self.key

    def with_channels(self, channels, out_channels):
        """Return the same convolution with other channels."""
        return Convolution(
            self.batch,
            channels,
            self.size,
            out_channels,
            self.kernel,
            self.dtype,
            stride=self.stride,
            padding=self.padding,
            dilation=self.dilation,
            gradients=self.gradients,
        )

    def operations(self):
        """Multiplications of the forward convolution."""
        return self.batch * math.prod(self._results()) * self.channels * self.out_channels * math.prod(self.kernel)

    def _results(self):
        return [
            (n + 2 * p - d * (k - 1) - 1) // s + 1
            for n, p, d, k, s in zip(self.size, self.padding, self.dilation, self.kernel, self.stride)
        ]

    def operands(self):
        x = _empty((self.batch, *self.size, self.channels), self.dtype, self.gradients[0])
        w = _empty((self.out_channels, self.channels, *self.kernel), self.dtype, self.gradients[1])
        return (
            [x, w, _empty((self.batch, *self._results(), self.out_channels), self.dtype)]
            if any(self.gradients)
            else [x, w]
        )

    def forward(self, x, w):
        import pytpu as torch

        convolve = getattr(torch.nn.functional, f"conv{len(self.size)}d")
        y = convolve(x.movedim(-1, 1), w, stride=self.stride, padding=self.padding, dilation=self.dilation)
        return y.movedim(1, -1)
