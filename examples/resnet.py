"""Trains ResNet-18 on 1,797 real handwritten digits, upscaled to 64 x 64.

python examples/resnet.py                        # on "tpu": an accelerator, else XLA on this CPU
python examples/resnet.py --device cpu           # the native kernels
"""

import argparse
import time

from sklearn.datasets import load_digits

import pytpu as torch
from pytpu import nn
from pytpu.nn import functional as F
from pytpu.utils.data import DataLoader, TensorDataset, random_split


class BasicBlock(nn.Module):
    """Two 3 x 3 convolutions beside a shortcut."""

    def __init__(self, inside, outside, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outside)
        self.downsample = None
        if stride != 1 or inside != outside:
            self.downsample = nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet18(nn.Module):
    """torchvision's `resnet18`, parameter names included."""

    def __init__(self, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        inside = 64
        for i, outside in enumerate([64, 128, 256, 512], 1):
            stride = 1 if i == 1 else 2
            setattr(
                self, f"layer{i}", nn.Sequential(BasicBlock(inside, outside, stride), BasicBlock(outside, outside, 1))
            )
            inside = outside
        self.fc = nn.Linear(512, classes)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, stride=2, padding=1)
        for layer in (self.layer1, self.layer2, self.layer3, self.layer4):
            x = layer(x)
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))


def datasets(size):
    """(training set, held-out set) of images of `size` x `size`, three equal channels."""
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
    images = F.interpolate(images, (size, size), mode="bilinear", align_corners=False)
    images = ((images - 0.3) / 0.38).expand(-1, 3, -1, -1)
    labels = torch.tensor(digits.target, dtype=torch.int64)
    return random_split(TensorDataset(images, labels), [1437, 360])


def train(model, loader, optimizer, schedule, device):
    """One epoch; yields the loss of each step, which stays on the device."""
    model.train()
    for images, labels in loader:
        images, labels = images.to(device), labels.to(device)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        schedule.step()
        yield loss.detach()


@torch.no_grad()
def accuracy(model, loader, device):
    """The share of samples that the model gets right."""
    model.eval()
    right, total = torch.zeros((), device=device), 0
    for images, labels in loader:
        right += (model(images.to(device)).argmax(1) == labels.to(device)).sum()
        total += len(labels)
    return right.item() / total


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="tpu", choices=["cpu", "tpu"])
    parser.add_argument(
        "--mode", default="fused", choices=["fused", "strict", "debug"], help="how eager ops are run on tpu"
    )
    parser.add_argument("--size", type=int, default=64, help="height and width of the images")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=0.02)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    if args.device == "tpu":
        torch.tpu.set_eager_mode(args.mode)
    training, held_out = datasets(args.size)
    # A smaller last batch would be a second set of shapes to compile.
    loader = DataLoader(training, batch_size=args.batch_size, shuffle=True, drop_last=True)
    test_loader = DataLoader(held_out, batch_size=120)

    model = ResNet18(10).to(args.device)
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.1f} million parameters")
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, weight_decay=5e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs * len(loader))
    for epoch in range(1, args.epochs + 1):
        started = time.perf_counter()
        total = torch.zeros((), device=args.device)
        for loss in train(model, loader, optimizer, schedule, args.device):
            total += loss
        mean = total.item() / len(loader)
        elapsed = time.perf_counter() - started
        score = accuracy(model, test_loader, args.device)
        print(
            f"epoch {epoch}/{args.epochs}  loss {mean:.4f}  held-out accuracy {100 * score:.2f} %  "
            f"{1e3 * elapsed / len(loader):.0f} ms a step",
            flush=True,
        )


if __name__ == "__main__":
    main()
