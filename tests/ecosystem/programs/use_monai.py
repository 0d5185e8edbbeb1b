"""monai: transforms, a three-dimensional UNet that trains on Dice loss, and inference by a sliding window."""

import numpy as np
import torch
from monai.data import DataLoader, Dataset, decollate_batch
from monai.inferers import sliding_window_inference
from monai.losses import DiceCELoss
from monai.metrics import DiceMetric
from monai.networks.nets import UNet
from monai.transforms import (
    Activations,
    AsDiscrete,
    Compose,
    EnsureChannelFirstd,
    RandFlipd,
    RandGaussianNoised,
    RandRotate90d,
    RandSpatialCropd,
    ScaleIntensityd,
)
from monai.utils import set_determinism
from reporting import check_on, device, report

where = device()
set_determinism(0)
draws = np.random.RandomState(0)
volumes = [draws.rand(20, 20, 20).astype("float32") for _ in range(4)]
samples = [{"image": volume, "label": (volume > 0.6).astype("float32")} for volume in volumes]
transform = Compose(
    [
        EnsureChannelFirstd(["image", "label"], channel_dim="no_channel"),
        ScaleIntensityd("image"),
        RandSpatialCropd(["image", "label"], roi_size=(16, 16, 16), random_size=False),
        RandFlipd(["image", "label"], prob=0.5, spatial_axis=0),
        RandRotate90d(["image", "label"], prob=0.5),
        RandGaussianNoised("image", prob=0.5),
    ]
)
transform.set_random_state(seed=0)
loader = DataLoader(Dataset(samples, transform), batch_size=2)

torch.manual_seed(0)
model = UNet(3, in_channels=1, out_channels=1, channels=(4, 8, 16), strides=(2, 2), num_res_units=1).to(where)
check_on(model, where)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
loss_of = DiceCELoss(sigmoid=True)
numbers = {}
for step, batch in enumerate(loader):
    images, labels = batch["image"].to(where), batch["label"].to(where)
    loss = loss_of(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    numbers[f"images {step}"], numbers[f"loss {step}"] = images.mean(), loss

model.eval()
finish = Compose([Activations(sigmoid=True), AsDiscrete(threshold=0.5)])
dice = DiceMetric()
with torch.no_grad():
    volume = torch.from_numpy(volumes[0])[None, None].to(where)
    scores = sliding_window_inference(volume, (16, 16, 16), sw_batch_size=2, predictor=model, overlap=0.25)
    dice([finish(score) for score in decollate_batch(scores)], [torch.from_numpy(samples[0]["label"])[None].to(where)])
numbers["scores"] = scores.square().mean()
numbers["dice"] = dice.aggregate()
report(numbers)
