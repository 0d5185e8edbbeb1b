"""Write `jit_programs.zip`: archives of TorchScript, traced and scripted, with results. Run it with real PyTorch."""

import copy
import io
import pathlib
import re
import warnings
import zipfile

import export_programs
import torch
import torch.nn.functional as F
from torch import nn

TRACED = ("perceptron", "residual", "attention", "by_hand", "constants", "counter", "indices", "dtypes")


class Scripted(nn.Module):
    """Control flow, containers, and numbers."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.count = 3
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.ReLU()])
        self.names = {"a": 1}
        self.register_buffer("calls", torch.zeros(4))

    def forward(self, x: torch.Tensor, scale: float = 2.0, flag: bool = False, bias: torch.Tensor | None = None):
        y = self.linear(x)
        for i in range(self.count):
            y = torch.relu(y) * scale + i
        j = 0
        while j < 2:
            y = y - j
            j += 1
            if bool(y.sum() > 1000.0):
                break
        if flag:
            y = y * 2
        elif bias is not None:
            y = y + bias
        for layer in self.layers:
            y = layer(y)
        sizes: list[int] = []
        for n in x.shape:
            sizes.append(n)
        self.calls.add_(1.0)
        assert len(sizes) == 2, "two dimensions"
        text = f"rows: {x.size(0)}"
        shown = {"y": y, "z": F.softmax(y, -1), "d": F.dropout(y, 0.5, self.training)}
        return y, [n + self.names["a"] for n in sizes], shown, text

    @torch.jit.export
    def double(self, x: torch.Tensor) -> torch.Tensor:
        if x.dim() != 2:
            raise ValueError("two dimensions")
        return x * 2


class Layers(nn.Module):
    """Modules of torch.nn, whose code is long."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3, padding="same"), nn.BatchNorm2d(4)
        self.attention, self.lstm = nn.MultiheadAttention(4, 2, batch_first=True), nn.LSTM(4, 3)

    def forward(self, x: torch.Tensor):
        y = F.adaptive_avg_pool2d(F.gelu(self.norm(self.conv(x))), 1).flatten(1)
        a, _ = self.attention(y[:, None], y[:, None], y[:, None])
        o, (h, _) = self.lstm(a)
        more = x[..., 0:2, ::2], y.sum(dim=0, dtype=torch.float64), x.to(torch.float16), y.view(-1, 2).max(dim=1)[0]
        return a, o, h, more, torch.zeros_like(y, dtype=torch.int32), F.interpolate(x, scale_factor=2.0)


def archives():
    """Return modules of TorchScript with the arguments of calls, by name."""
    cases = export_programs.programs(torch)
    for name in TRACED:
        module, args, _, _ = cases[name]
        yield f"traced.{name}", torch.jit.trace(module, copy.deepcopy(args), check_trace=False), [args]
    torch.manual_seed(0)
    calls = [(torch.randn(2, 4),), (torch.randn(2, 4), 1.5, True), (torch.randn(3, 4), 1.0, False, torch.ones(4))]
    yield "scripted.flow", torch.jit.script(Scripted().eval()), calls
    yield "scripted.layers", torch.jit.script(Layers().eval()), [(torch.randn(2, 3, 6, 6),)]


def without_notes(data):
    """Leave out the files that say where the code came from."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(made, "w") as target:
        for name in source.namelist():
            if not re.search(r"debug_pkl$|traced_inputs", name):
                target.writestr(zipfile.ZipInfo(name), source.read(name))
    return made.getvalue()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    path = pathlib.Path(__file__).with_name("jit_programs.zip")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as made:
        for name, module, calls in archives():
            archive, values = io.BytesIO(), io.BytesIO()
            torch.jit.save(module, archive)
            torch.manual_seed(5)
            results = [module(*copy.deepcopy(args)) for args in calls]
            torch.save({"calls": calls, "results": results}, values)
            for file, data in ((f"{name}.pt", without_notes(archive.getvalue())), (f"{name}.io", values.getvalue())):
                made.writestr(zipfile.ZipInfo(file), data, zipfile.ZIP_DEFLATED)
