"""Programs whose graphs and code are recorded: `record_fx.py` runs them with PyTorch, and a test with this package."""

import math
import operator


def programs(torch):
    """Return programs and the arguments of `symbolic_trace` by name."""
    F, nn = torch.nn.functional, torch.nn
    constant = torch.ones(3)

    def operators(x, y):
        a = x + y - 2 * x / y // 3 % 4**x @ y
        b = (x & y) | (x ^ y), x << 1, x >> 1, -x, +x, ~x
        c = x == y, x != y, x < y, x <= y, x > y, x >= y
        return a, b, c, abs(x), x[0, 1:, None, ...], 2 - x, constant + x, constant * x, constant == x

    def functions(x, y):
        a = torch.relu(x), torch.cat([x, y], dim=1), torch.add(x, y, alpha=2), torch.sum(x, dim=(0, 1))
        b = F.relu(x), F.max_pool2d(x, 2), F.dropout(x, 0.1), F.softmax(x, dim=-1), F.gelu(x), F.layer_norm(x, (4,))
        c = F.scaled_dot_product_attention(x, x, x), F.interpolate(x, scale_factor=2), F.pad(x, (1, 1))
        d = torch.einsum("ij,jk->ik", x, y), torch.split(x, 2), torch.where(x > 0, x, y), torch.norm(x)
        e = torch.linalg.inv(x), torch.fft.fft(x), torch.special.erf(x), F.conv2d(x, y), F.linear(x, y)
        return a, b, c, d, e

    def methods(x):
        n, c, h, w = x.shape
        a = x.view(n, -1).transpose(0, 1).contiguous().to(torch.float64), x.size(0), x.T, x.add_(1)
        first, second = x.chunk(2)
        return a, first, second, c * h * w, x.mean(dim=[2, 3], keepdim=True)

    def values(x):
        a = torch.full_like(x, math.inf), x + float("nan"), x * complex(0.0, 1.0), x * 1.5e-7
        b = x.to(torch.device("cpu"), dtype=torch.bfloat16), x[::2], x.sum(dtype=torch.int64), x.reshape([1, -1])
        return {"a": a, "b": [b, None, ..., "text"], "c": slice(x, None, 2)}

    def defaults(x, y=3, *, z: float = 1.0, **others):
        return x * y + z

    def star(x, *more):
        return x + more[0]

    def operator_calls(x):
        return torch.ops.aten.relu(x), torch.ops.aten.relu.default(x), operator.getitem(x, 0), math.sqrt(x)

    def tree(x):
        return x["a"] + x["b"][0], {"c": x["b"][1]}

    def choice(x, flag):
        return x.relu() if flag else x.neg()

    class Inner(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(2, 3))
            self.register_buffer("buffer", torch.zeros(3))

        def forward(self, x):
            return x @ self.weight.T + self.buffer

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Inner()
            self.layers = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Sequential(nn.Dropout(0.5)))
            self.list = nn.ModuleList([nn.Identity(), Inner()])
            self.constant = torch.ones(2)

        def forward(self, x: torch.Tensor, count: int = 2) -> torch.Tensor:
            for _ in range(2):
                x = self.layers(self.inner(x))
            return self.list[0](x) + self.constant + torch.full((2,), 0.5) + self.list[1].weight.shape[0] * count

    PH = torch.fx.PH
    return {
        "operators": (operators, None),
        "functions": (functions, None),
        "methods": (methods, None),
        "values": (values, None),
        "defaults": (defaults, None),
        "star": (star, None),
        "operator_calls": (operator_calls, None),
        "tree": (tree, {"x": {"a": PH, "b": [PH, PH]}}),
        "choice": (choice, {"flag": True}),
        "linear": (nn.Linear(2, 3), None),
        "sequential": (nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU()), None),
        "outer": (Outer(), None),
    }


def texts(torch):
    """Return the texts of each program: its graph and its code, or the error."""
    found = {}
    for name, (program, concrete) in programs(torch).items():
        try:
            module = torch.fx.symbolic_trace(program, concrete_args=concrete)
            found[name] = {"graph": str(module.graph), "code": module.code}
        except Exception as error:
            found[name] = {"error": f"{type(error).__name__}: {error}"}
    return found
