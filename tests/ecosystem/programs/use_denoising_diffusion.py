"""denoising-diffusion-pytorch: a small U-Net learns to remove noise, and samples."""

import torch
from denoising_diffusion_pytorch import GaussianDiffusion, Unet
from reporting import check_on, device, report

where = device()
torch.manual_seed(0)
model = Unet(dim=16, dim_mults=(1, 2), flash_attn=False)
diffusion = GaussianDiffusion(model, image_size=16, timesteps=20, sampling_timesteps=4).to(where)
check_on(diffusion, where)
images = torch.rand(2, 3, 16, 16)
noise, times = torch.randn(2, 3, 16, 16).to(where), torch.tensor([3, 15], device=where)
optimizer = torch.optim.SGD(diffusion.parameters(), lr=0.01)
numbers = {}
for step in range(2):
    loss = diffusion.p_losses(diffusion.normalize(images.to(where)), times, noise=noise)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    numbers[f"loss {step}"] = loss
with torch.no_grad():
    numbers["noisy"] = diffusion.q_sample(images.to(where), times, noise=noise).square().mean()
    predicted = diffusion.model_predictions(noise, times)
    numbers |= {"noise": predicted.pred_noise.square().mean(), "start": predicted.pred_x_start.square().mean()}
    torch.manual_seed(1)
    if where.type == "cpu":
        numbers["cpu.sample"] = diffusion.sample(batch_size=1).square().mean()
report(numbers)
