"""kornia: filters, colours, geometry, morphology, augmentations and losses; the gradient of a warp."""

import kornia
import torch
from kornia import augmentation
from reporting import device, report

where = device()
torch.manual_seed(0)
image = torch.rand(2, 3, 24, 24)
numbers = {}
x = image.to(where)
numbers["blur"] = kornia.filters.gaussian_blur2d(x, (5, 5), (1.2, 1.2)).square().sum()
numbers["median"] = kornia.filters.median_blur(x, (3, 3)).square().sum()
numbers["sobel"] = kornia.filters.sobel(x).sum()
numbers["hsv"] = kornia.color.rgb_to_hsv(x).sum()
numbers["lab"] = kornia.color.rgb_to_lab(x).abs().sum()
numbers["grey"] = kornia.color.rgb_to_grayscale(x).sum()
kernel = torch.ones(3, 3, device=where)
numbers["dilation"] = kornia.morphology.dilation(x, kernel).sum()
numbers["opening"] = kornia.morphology.opening(x, kernel).sum()
angle = torch.tensor([10.0, -25.0], device=where, requires_grad=True)
turned = kornia.geometry.transform.rotate(x, angle)
turned.square().mean().backward()
numbers["turned"], numbers["angle gradient"] = turned.square().sum(), angle.grad.sum()
points = torch.tensor([[[2.0, 2.0], [20.0, 3.0], [21.0, 20.0], [3.0, 22.0]]], device=where).expand(2, 4, 2)
corners = torch.tensor([[[0.0, 0.0], [23.0, 0.0], [23.0, 23.0], [0.0, 23.0]]], device=where).expand(2, 4, 2)
matrix = kornia.geometry.transform.get_perspective_transform(points, corners)
numbers["matrix"] = matrix.sum()
numbers["warped"] = kornia.geometry.transform.warp_perspective(x, matrix, (24, 24)).square().sum()
numbers["ssim"] = kornia.metrics.ssim(x, x.flip(-1), 5).mean()
numbers["total variation"] = kornia.losses.total_variation(x).sum()
pipeline = augmentation.AugmentationSequential(
    augmentation.RandomAffine(15.0, translate=(0.1, 0.1), p=1.0),
    augmentation.RandomHorizontalFlip(p=0.5),
    augmentation.ColorJitter(0.2, 0.2, 0.2, 0.1, p=1.0),
    data_keys=["input"],
)
torch.manual_seed(1)
numbers["cpu.augmented"] = pipeline(image).square().sum()
numbers["harris"] = kornia.feature.harris_response(x).abs().sum()
report(numbers, {"median": (1e-4, "sorted values are equal within rounding")})
