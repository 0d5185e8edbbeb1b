"""captum: attributions of a small convolutional network, by gradients, by reference and by perturbation."""

import torch
from captum.attr import (
    DeepLift,
    FeatureAblation,
    GuidedBackprop,
    InputXGradient,
    IntegratedGradients,
    LayerConductance,
    LayerGradCam,
    Occlusion,
    Saliency,
    ShapleyValueSampling,
)
from captum.metrics import infidelity
from reporting import check_on, device, report

where = device()
torch.manual_seed(0)
model = (
    torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(64, 5),
    )
    .to(where)
    .eval()
)
check_on(model, where)
images = torch.randn(2, 1, 8, 8).to(where)
target = torch.tensor([1, 3]).to(where)
base = torch.zeros_like(images)
position = torch.arange(1.0, 65, device=where).view(1, 1, 8, 8) / 64


def summary(attribution):
    """Weight an attribution by its position, so that a shifted one has another sum."""
    assert attribution.device.type == where.type
    return (attribution * position).sum().item()


gradients, error = IntegratedGradients(model).attribute(
    images, base, target=target, n_steps=16, return_convergence_delta=True
)
pieces = torch.arange(64, device=where).view(1, 1, 8, 8) // 16
numbers = {
    "integrated gradients": summary(gradients),
    "saliency": summary(Saliency(model).attribute(images, target=target)),
    "input x gradient": summary(InputXGradient(model).attribute(images, target=target)),
    "guided": summary(GuidedBackprop(model).attribute(images, target=target)),
    "deeplift": summary(DeepLift(model).attribute(images, base, target=target)),
    "occlusion": summary(Occlusion(model).attribute(images, (1, 4, 4), strides=(1, 4, 4), target=target)),
    "ablation": summary(FeatureAblation(model).attribute(images, feature_mask=pieces, target=target)),
    "conductance": LayerConductance(model, model[0]).attribute(images, base, target=target, n_steps=8).sum(),
    "grad-cam": LayerGradCam(model, model[0]).attribute(images, target=target).sum(),
    "converges": error.abs().max() < 0.1,
}
torch.manual_seed(1)
numbers["cpu.shapley"] = summary(
    ShapleyValueSampling(model).attribute(images, feature_mask=pieces, target=target, n_samples=4)
)
moved = 0.1 * torch.randn(2, 1, 8, 8).to(where)
numbers["infidelity"] = infidelity(
    model, lambda x, _: (moved, x - moved), images, gradients, baselines=base, target=target, n_perturb_samples=1
).sum()
report(numbers)
