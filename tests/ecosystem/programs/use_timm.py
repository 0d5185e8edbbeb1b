"""timm: a vision transformer and a residual network train with the library's mixup, optimizer, schedule and average."""

import timm
import torch
from reporting import check_on, device, report
from timm.data import Mixup, create_transform
from timm.loss import SoftTargetCrossEntropy
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import ModelEmaV3

where = device()


def train(name, **options):
    """Train `name` for three steps on random images. Return its losses and the scores of its average."""
    torch.manual_seed(0)
    model = timm.create_model(name, pretrained=False, num_classes=10, **options).to(where)
    check_on(model, where)
    average = ModelEmaV3(model, decay=0.9)
    optimizer = create_optimizer_v2(model, opt="adamw", lr=1e-3, weight_decay=0.05)
    schedule = CosineLRScheduler(optimizer, t_initial=10, warmup_t=2, warmup_lr_init=1e-4)
    loss_of = SoftTargetCrossEntropy()
    losses = []
    for step in range(3):
        images, targets = torch.randn(4, 3, 32, 32), torch.nn.functional.one_hot(torch.arange(4), 10).float()
        images, targets = images.to(where), (0.9 * targets + 0.01).to(where)
        schedule.step(step)
        optimizer.zero_grad()
        loss = loss_of(model(images), targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        average.update(model)
        losses.append(loss.item())
    average.eval()
    with torch.no_grad():
        return losses, average(images).square().mean()


transformer, transformer_scores = train("vit_tiny_patch16_224", img_size=32, patch_size=8, depth=2)
residual, residual_scores = train("resnet10t")
torch.manual_seed(0)
mixed, soft = Mixup(mixup_alpha=0.8, num_classes=10, mode="batch")(torch.randn(4, 3, 8, 8), torch.arange(4))
features = timm.create_model("resnet10t", features_only=True, out_indices=(1, 2)).feature_info.channels()
report(
    {
        **{f"transformer loss {i}": loss for i, loss in enumerate(transformer)},
        "transformer scores": transformer_scores,
        **{f"residual loss {i}": loss for i, loss in enumerate(residual)},
        "residual scores": residual_scores,
        "mixed labels": soft.sum(),
        "channels": sum(features),
        "transforms": len(create_transform(224, is_training=True).transforms),
        "models": len(timm.list_models("vit_*")) > 100,
    }
)
