"""Training steps of the `UNet2DModel` of diffusers' example of unconditional training (64 x 64), for the command that
plans scripts:

    python -m pytpu.aot benches/tpu_ratio/unet.py --topology v5e:2x2 --markdown

Needs diffusers. The images are zeros: only shapes matter to a plan.
"""

import torch
import torch.nn.functional as F
from diffusers import DDPMScheduler, UNet2DModel

BATCH, STEPS = 16, 4

model = UNet2DModel(
    sample_size=64,
    layers_per_block=2,
    block_out_channels=(128, 128, 256, 256, 512, 512),
    down_block_types=("DownBlock2D", "DownBlock2D", "DownBlock2D", "DownBlock2D", "AttnDownBlock2D", "DownBlock2D"),
    up_block_types=("UpBlock2D", "AttnUpBlock2D", "UpBlock2D", "UpBlock2D", "UpBlock2D", "UpBlock2D"),
).to("tpu")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.95, 0.999), weight_decay=1e-6)
schedule = DDPMScheduler(num_train_timesteps=1000)
for _ in range(STEPS):
    images = torch.zeros(BATCH, 3, 64, 64).to("tpu")
    noise = torch.randn(images.shape, device="tpu")
    times = torch.randint(0, 1000, (BATCH,), device="tpu")
    predicted = model(schedule.add_noise(images, noise, times), times).sample
    F.mse_loss(predicted, noise).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
