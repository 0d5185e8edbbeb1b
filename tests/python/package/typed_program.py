"""A program as users of PyTorch write it, with types. `test_types.py` checks and runs it."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytpu as torch
import pytpu.nn.functional as F
from pytpu import Tensor, nn
from pytpu.optim.lr_scheduler import CosineAnnealingLR, LambdaLR, LRScheduler
from pytpu.utils.data import DataLoader, Dataset, TensorDataset, random_split


@dataclass
class Config:
    features: int = 8
    classes: int = 3
    width: int = 16
    layers: int = 2
    batch_size: int = 16
    epochs: int = 2
    lr: float = 1e-2
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    dtype: torch.dtype = torch.float32


class Blobs(Dataset[tuple[Tensor, Tensor]]):
    """Points around one center for each class."""

    def __init__(self, n: int, config: Config, generator: torch.Generator | None = None) -> None:
        centers = 3 * torch.randn(config.classes, config.features, generator=generator)
        self.labels = torch.randint(0, config.classes, (n,), generator=generator)
        self.points = centers[self.labels] + torch.randn(n, config.features, generator=generator)

    def __len__(self) -> int:
        return self.labels.shape[0]

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.points[index], self.labels[index]


class Block(nn.Module):
    """A residual block with a gate."""

    scale: Tensor

    def __init__(self, width: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.linear = nn.Linear(width, 2 * width)
        self.dropout = nn.Dropout(dropout)
        self.gate = nn.Parameter(torch.zeros(width))
        self.register_buffer("scale", torch.tensor(1 / math.sqrt(width)))

    def forward(self, x: Tensor) -> Tensor:
        a, b = self.linear(self.norm(x)).chunk(2, dim=-1)
        y = F.gelu(a) * torch.sigmoid(b)
        residual: Tensor = self.dropout(y)
        return x + residual * torch.tanh(self.gate) * self.scale


class Classifier(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.embed = nn.Linear(config.features, config.width)
        self.blocks = nn.ModuleList([Block(config.width) for _ in range(config.layers)])
        self.head = nn.Sequential(nn.LayerNorm(config.width), nn.ReLU(), nn.Linear(config.width, config.classes))
        self.apply(self._initialize)

    @staticmethod
    def _initialize(module: nn.Module) -> None:
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        x = self.embed(x)
        for block in self.blocks:
            x = block(x)
        if mask is not None:
            x = x.masked_fill(~mask.unsqueeze(-1), 0.0)
        logits: Tensor = self.head(x)
        return logits


def count(parameters: Iterator[nn.Parameter]) -> int:
    return sum(p.numel() for p in parameters if p.requires_grad)


def make_optimizer(model: nn.Module, config: Config, steps: int) -> tuple[torch.optim.Optimizer, LRScheduler]:
    decay = [p for p in model.parameters() if p.dim() >= 2]
    rest = [p for p in model.parameters() if p.dim() < 2]
    groups: list[dict[str, Any]] = [{"params": decay, "weight_decay": 0.01}, {"params": rest, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=config.lr, betas=(0.9, 0.98))
    scheduler: LRScheduler
    if steps > 8:
        scheduler = CosineAnnealingLR(optimizer, T_max=steps)
    else:
        scheduler = LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 4))
    return optimizer, scheduler


def train(model: Classifier, loader: DataLoader[tuple[Tensor, Tensor]], config: Config) -> list[float]:
    optimizer, scheduler = make_optimizer(model, config, config.epochs * len(loader))
    criterion = nn.CrossEntropyLoss(label_smoothing=0.05)
    history: list[float] = []
    model.train()
    for _ in range(config.epochs):
        total, seen = 0.0, 0
        for points, labels in loader:
            points, labels = points.to(config.device, config.dtype), labels.to(config.device)
            optimizer.zero_grad(set_to_none=True)
            loss: Tensor = criterion(model(points), labels)
            loss.backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
            if not torch.isfinite(norm):
                continue
            optimizer.step()
            scheduler.step()
            total += loss.item() * points.size(0)
            seen += len(points)
        history.append(total / max(seen, 1))
    return history


@torch.no_grad()
def accuracy(model: nn.Module, loader: DataLoader[tuple[Tensor, Tensor]]) -> float:
    model.eval()
    hits, n = torch.zeros((), dtype=torch.int64), 0
    for points, labels in loader:
        values, best = model(points).max(dim=-1)
        hits += (best == labels).sum()
        n += values.numel()
    return float(hits) / n


def save_and_load(model: Classifier, config: Config, path: Path) -> Classifier:
    torch.save({"model": model.state_dict(), "step": 3, "rng": torch.get_rng_state()}, path)
    state = torch.load(path, map_location="cpu", weights_only=True)
    copy = Classifier(config)
    missing = copy.load_state_dict(state["model"], strict=True)
    assert not missing.missing_keys and not missing.unexpected_keys
    return copy


def index(x: Tensor) -> tuple[Tensor, ...]:
    first, last = x[0], x[..., -1]
    rows = x[torch.tensor([0, 2])]
    positive = x[x > 0]
    new_axis = x[:, None, 1:3]
    x = x.clone()
    x[0] = 0
    x[:, 1] += 1.5
    x[x < 0] = x.abs().mean().item()
    ordered = x.sort(dim=1, descending=True)
    top = torch.topk(ordered.values, k=2, dim=-1)
    return first, last, rows, positive, new_axis, top.values, top.indices


def arithmetic(x: Tensor, y: Tensor, k: int = 2) -> Tensor:
    z = 2 * x - y / 3 + 1.0 - (1 - x) ** 2 + x**k % 4 - (-y) // 2
    z = torch.where(z > 0, z, 0.1 * z).clamp(min=-10.0, max=10)
    z = torch.maximum(z, torch.full_like(z, -1.0)).reshape(-1, z.shape[-1]).permute(1, 0)
    parts: Sequence[Tensor] = torch.cat([z, z.neg()], dim=0).split(4, dim=0)
    stacked = torch.stack([p.sum(dim=0, keepdim=True).squeeze(0) for p in parts])
    mean, std = stacked.mean(dim=0), stacked.std(dim=0, unbiased=False)
    return torch.einsum("ij,j->i", (stacked - mean) / (std + 1e-6), mean.softmax(dim=0))


def algebra(n: int) -> float:
    a = torch.randn(n, n, dtype=torch.float64)
    spd = a @ a.mT + n * torch.eye(n, dtype=torch.float64)
    u, s, vh = torch.linalg.svd(spd)
    lower = torch.linalg.cholesky(spd)
    solved = torch.linalg.solve(spd, torch.ones(n, 1, dtype=a.dtype))
    values, vectors = torch.linalg.eigh(spd)
    assert torch.allclose((u * s) @ vh, lower @ lower.T)
    assert torch.allclose(vectors @ torch.diag(values) @ vectors.T, spd)
    spectrum = torch.fft.rfft(solved.flatten()).abs()
    return float(spectrum.sum() + torch.special.expit(solved).mean() + torch.linalg.norm(spd))


def sample(logits: Tensor) -> Tensor:
    normal = torch.distributions.Normal(torch.zeros(3), torch.ones(3))
    draws = normal.rsample((5,))
    policy = torch.distributions.Categorical(logits=logits)
    entropy: Tensor = policy.entropy()
    kl = torch.distributions.kl_divergence(normal, torch.distributions.Normal(0.5, 2.0))
    return normal.log_prob(draws).sum(-1).mean() + policy.log_prob(policy.sample()).mean() + entropy.mean() + kl.sum()


def main() -> dict[str, float]:
    torch.manual_seed(0)
    config = Config()
    data = Blobs(96, config, torch.Generator().manual_seed(1))
    train_set, test_set = random_split(data, [64, 32])
    loader = DataLoader(train_set, batch_size=config.batch_size, shuffle=True, drop_last=True)
    test = DataLoader(test_set, batch_size=32)
    model = Classifier(config).to(config.device)
    history = train(model, loader, config)
    with tempfile.TemporaryDirectory() as folder:
        copy = save_and_load(model, config, Path(folder) / "model.pt")
    again = TensorDataset(data.points, data.labels)
    points, labels = next(iter(DataLoader(again, batch_size=8)))
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.inference_mode():
        logits = copy(points)
    x = torch.linspace(-1, 1, 12).view(3, 4).requires_grad_()
    y = arithmetic(x, torch.arange(12.0).reshape(3, 4)).sum()
    (gradient,) = torch.autograd.grad(y, [x])
    assert gradient.shape == x.shape and x.grad is None and labels.dtype is torch.int64
    return {
        "parameters": float(count(model.parameters())),
        "loss": history[-1],
        "accuracy": accuracy(model, test),
        "algebra": algebra(4),
        "sampled": float(sample(logits.float())),
        "indexed": float(sum(t.sum() for t in index(gradient))),
    }


if __name__ == "__main__":
    for name, value in main().items():
        print(f"{name} {value:.4f}")
