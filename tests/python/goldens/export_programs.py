"""Programs that are exported: `record_export.py` exports them with PyTorch, and tests read them and export them too."""

import math


def programs(torch):
    """Return modules with their arguments, keywords and `dynamic_shapes`, by name."""
    F, nn = torch.nn.functional, torch.nn
    Dim = torch.export.Dim

    class Perceptron(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 3)

        def forward(self, x):
            return self.second(torch.relu(self.first(x)))

    class Block(nn.Module):
        def __init__(self, inputs, outputs, stride):
            super().__init__()
            self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
            self.norm1 = nn.BatchNorm2d(outputs)
            self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, groups=2)
            self.norm2 = nn.BatchNorm2d(outputs)
            self.relu = nn.ReLU(inplace=True)
            self.short = nn.Conv2d(inputs, outputs, 1, stride) if stride != 1 else None

        def forward(self, x):
            y = self.norm2(self.conv2(self.relu(self.norm1(self.conv1(x)))))
            y += x if self.short is None else self.short(x)
            return self.relu(y)

    class Residual(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 8, 3, 2, 1)
            self.pool = nn.MaxPool2d(3, 2, 1)
            self.blocks = nn.Sequential(Block(8, 8, 1), Block(8, 12, 2))
            self.drop, self.last = nn.Dropout(0.5), nn.Linear(12, 5)

        def forward(self, x):
            x = self.blocks(self.pool(F.relu(self.conv(x))))
            x = torch.flatten(F.adaptive_avg_pool2d(x, 1), 1)
            return F.log_softmax(self.last(self.drop(x)), -1)

    class Attention(nn.Module):
        """A layer of a language model, with weights that two modules share."""

        def __init__(self, width=16, heads=2):
            super().__init__()
            self.heads = heads
            self.tokens, self.places = nn.Embedding(20, width), nn.Embedding(12, width)
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
            self.head = nn.Linear(width, 20, bias=False)
            self.head.weight = self.tokens.weight

        def forward(self, ids):
            b, t = ids.shape
            x = self.tokens(ids) + self.places(torch.arange(t, device=ids.device))
            parts = self.qkv(self.norm1(x)).split(x.shape[-1], 2)
            q, k, v = (part.view(b, t, self.heads, -1).transpose(1, 2) for part in parts)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).contiguous().view(b, t, -1))
            return self.head(x + self.mlp(self.norm2(x)))

    class ByHand(nn.Module):
        """Attention in single operators, with a mask that is not saved."""

        def __init__(self):
            super().__init__()
            self.query, self.scale = nn.Linear(8, 8), nn.Parameter(torch.ones(8))
            self.register_buffer("mask", torch.tril(torch.ones(10, 10)).bool(), persistent=False)

        def forward(self, x):
            _, t, d = x.shape
            y = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.scale
            scores = (self.query(y) @ y.transpose(-1, -2)) / math.sqrt(d)
            scores = scores.masked_fill(~self.mask[:t, :t], float("-inf"))
            z = torch.einsum("bts,bsd->btd", torch.softmax(scores.float(), -1).type_as(x), x)
            z = torch.cat([-z[..., 4:], z[..., :4]], -1)
            return z[:, -1], z.argmax(-1), z.to(torch.bfloat16)

    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", torch.zeros(3))
            self.register_buffer("steps", torch.tensor(0))

        def forward(self, x):
            self.total.add_(x.sum(0))
            self.steps += 1
            return x * self.total + self.steps

    class WritesInput(nn.Module):
        def forward(self, x, y):
            x.mul_(2)
            return x + y

    class Trees(nn.Module):
        def forward(self, x, pair, *, k, factor=3):
            return {"sum": x + pair["a"][0] - k, "rest": [x * factor, (pair["b"], None, 5)]}

    class Constants(nn.Module):
        def forward(self, x):
            c, i = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([2, 0])
            return x[:, i] + c[i], torch.zeros(x.shape[0], 2, dtype=torch.int32), torch.full((2,), 7.5), x.new_ones(3)

    class WithoutGradient(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 3)

        def forward(self, x):
            with torch.no_grad():
                y = self.linear(x).sin()
            return y + self.linear(x)

    class Chosen(nn.Module):
        def forward(self, x):
            return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))

    class Indices(nn.Module):
        def forward(self, x, i):
            y = x.clone()
            y[i] = 0.5
            y[:, 1] = x[:, 0]
            values, places = y.topk(2, -1)
            parts = x.chunk(2, 1)
            most, where = y.max(-1)
            a = values, y.gather(1, places), torch.where(y > 0, y, y.exp()), F.pad(y, (1, 1)).unfold(1, 2, 1)
            b = torch.stack(parts), F.one_hot(i, 6), most, where, y.std(0), y.cumsum(0), y.sort(-1)[0]
            return a, b, F.interpolate(x[None, None], scale_factor=2.0, mode="bilinear")

    class Sizes(nn.Module):
        def forward(self, x):
            n = x.shape[0]
            a = x.reshape(-1, 2).sum(0), x.new_zeros(n * 2 + 1), x.expand(3, *x.shape).flatten(0, 1)
            return *a, x / n, torch.arange(n // 2 + 1)

    class Dtypes(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4).to(torch.bfloat16)
            for name, value in {
                "ints": torch.arange(3),
                "small": torch.tensor([0.5, -1.25], dtype=torch.float16),
                "pairs": torch.tensor([1 + 2j, -1j]),
                "columns": torch.arange(12.0).view(3, 4).t(),
                "flags": torch.tensor([True, False]),
            }.items():
                self.register_buffer(name, value)

        def forward(self, x):
            return self.linear(x), self.ints, self.small * 2, self.pairs.abs(), self.columns + 1, self.flags

    class Derived(nn.Module):
        def forward(self, x, y):
            return x[1:] + y

    batch = Dim("batch", min=2, max=64)
    n = Dim("n", min=3)
    torch.manual_seed(0)
    found = {
        "perceptron": (Perceptron(), (torch.randn(2, 4),), {}, {"x": {0: batch}}),
        "residual": (Residual().eval(), (torch.randn(2, 3, 17, 17),), {}, {"x": {0: Dim("b")}}),
        "residual_training": (Residual().train(), (torch.randn(2, 3, 17, 17),), {}, None),
        "attention": (
            Attention().eval(),
            (torch.randint(0, 20, (2, 7)),),
            {},
            {"ids": {0: batch, 1: Dim("t", max=12)}},
        ),
        "by_hand": (ByHand(), (torch.randn(2, 6, 8),), {}, {"x": {0: batch, 1: Dim("t", max=9)}}),
        "counter": (Counter(), (torch.randn(2, 3),), {}, None),
        "writes_input": (WritesInput(), (torch.randn(2, 3), torch.randn(2, 3)), {}, None),
        "trees": (
            Trees(),
            (torch.randn(2), {"a": [torch.randn(2)], "b": torch.randn(1)}),
            {"k": torch.randn(2), "factor": 4},
            None,
        ),
        "constants": (Constants(), (torch.randn(2, 3),), {}, None),
        "without_gradient": (WithoutGradient(), (torch.randn(2, 3),), {}, None),
        "chosen": (Chosen(), (torch.randn(2, 5),), {}, None),
        "indices": (Indices(), (torch.randn(4, 6), torch.tensor([0, 3])), {}, None),
        "sizes": (Sizes(), (torch.randn(4, 6),), {}, {"x": {0: n}}),
        "dtypes": (Dtypes(), (torch.randn(2, 4, dtype=torch.bfloat16),), {}, None),
        "derived": (Derived(), (torch.randn(5), torch.randn(4)), {}, {"x": {0: n + 1}, "y": {0: n}}),
    }
    return found
