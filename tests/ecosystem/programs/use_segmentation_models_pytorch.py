"""segmentation_models_pytorch: a Unet and an FPN train on Dice loss; its metrics rate the result."""

import segmentation_models_pytorch as smp
import torch
from reporting import check_on, device, report

where = device()
torch.manual_seed(0)
images = torch.randn(2, 3, 64, 64).to(where)
masks = (torch.rand(2, 1, 64, 64) > 0.5).long().to(where)
dice = smp.losses.DiceLoss(mode="binary")
focal = smp.losses.FocalLoss(mode="binary")
numbers = {}
for name, options in {
    "Unet": {"decoder_channels": (32, 16, 16), "encoder_depth": 3},
    "FPN": {"decoder_dropout": 0.0},
}.items():
    torch.manual_seed(0)
    model = getattr(smp, name)("resnet18", encoder_weights=None, in_channels=3, classes=1, **options).to(where)
    check_on(model, where)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for step in range(2):
        loss = dice(model(images), masks) + focal(model(images), masks)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        numbers[f"{name} loss {step}"] = loss
    if name == "Unet":  # The FPN blows up rounding errors before its statistics have settled.
        model.eval()
        with torch.no_grad():
            numbers["Unet scores"] = model(images).square().mean()
guesses = torch.rand(2, 1, 64, 64).to(where)
counts = smp.metrics.get_stats(guesses, masks, mode="binary", threshold=0.5)
numbers["iou"] = smp.metrics.iou_score(*counts, reduction="micro")
numbers["f1"] = smp.metrics.f1_score(*counts, reduction="micro-imagewise")
kink = (1e-3, "a value next to zero passes ReLU or does not: one such pixel moves a gradient by 1e-4")
report(numbers, less_exact={"Unet scores": kink, "FPN loss 1": kink})
