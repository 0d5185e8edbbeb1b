"""diffusers: a small UNet learns to remove noise and samples with DDIM; an autoencoder trains."""

import torch
from diffusers import AutoencoderKL, DDIMScheduler, DDPMScheduler, UNet2DModel
from diffusers.training_utils import EMAModel
from reporting import check_on, device, report

where = device()
torch.manual_seed(0)
model = UNet2DModel(
    sample_size=16,
    in_channels=1,
    out_channels=1,
    layers_per_block=1,
    block_out_channels=(16, 32),
    norm_num_groups=8,
    down_block_types=("DownBlock2D", "AttnDownBlock2D"),
    up_block_types=("AttnUpBlock2D", "UpBlock2D"),
).to(where)
check_on(model, where)
average = EMAModel(model.parameters(), decay=0.9)
schedule = DDPMScheduler(num_train_timesteps=100)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
images = torch.rand(4, 1, 16, 16)
numbers = {}
for step in range(3):
    noise, steps = torch.randn(4, 1, 16, 16), torch.randint(100, (4,))
    noisy = schedule.add_noise(images, noise, steps).to(where)
    loss = torch.nn.functional.mse_loss(model(noisy, steps.to(where)).sample, noise.to(where))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    average.step(model.parameters())
    numbers[f"loss {step}"] = loss

average.copy_to(model.parameters())
sampler = DDIMScheduler.from_config(schedule.config)
sampler.set_timesteps(4)
sample = torch.randn(1, 1, 16, 16).to(where)
model.eval()
with torch.no_grad():
    for step in sampler.timesteps:
        sample = sampler.step(model(sample, step.to(where)).sample, step, sample).prev_sample
numbers["sample"] = sample.square().mean()

torch.manual_seed(1)
encoder = AutoencoderKL(
    in_channels=1, out_channels=1, block_out_channels=(16,), latent_channels=2, norm_num_groups=8, sample_size=16
).to(where)
code = encoder.encode(images.to(where)).latent_dist
loss = torch.nn.functional.mse_loss(encoder.decode(code.mode()).sample, images.to(where)) + 1e-3 * code.kl().mean()
loss.backward()
numbers["autoencoder loss"] = loss
numbers["autoencoder gradient"] = encoder.encoder.conv_in.weight.grad.norm()
report(numbers)
