"""torchvision: transforms, a data set, and a residual network that trains."""

import torch
from reporting import check_on, device, report
from torchvision import datasets, models, transforms, utils
from torchvision.transforms import v2

where = device()
torch.manual_seed(0)
classic = transforms.Compose(
    [
        transforms.RandomResizedCrop(32),
        transforms.RandomHorizontalFlip(),
        transforms.ColorJitter(0.2, 0.2, 0.2),
        transforms.ToTensor(),
        transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
    ]
)
data = datasets.FakeData(size=16, image_size=(3, 40, 40), num_classes=5, transform=classic)
loader = torch.utils.data.DataLoader(data, batch_size=8, shuffle=True)
batches = [(images.to(where), labels.to(where)) for images, labels in loader]
mix = v2.MixUp(num_classes=5)
mixed, soft = mix(batches[0][0].cpu(), batches[0][1].cpu())
modern = v2.Compose([v2.RandomRotation(20), v2.GaussianBlur(3), v2.RandomErasing(1.0)])(batches[0][0].cpu())

model = models.resnet.ResNet(models.resnet.BasicBlock, [1, 1, 1, 1], num_classes=5).to(where)
check_on(model, where)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
losses = []
for images, labels in batches * 2:
    loss = torch.nn.functional.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
model.eval()
with torch.no_grad():
    scores = model(batches[0][0])

report(
    {
        "images": batches[0][0].square().mean(),
        "mixed images": mixed.square().mean(),
        "mixed labels": (soft * torch.arange(5)).sum(),
        "transformed": modern.square().mean(),
        "grid": utils.make_grid(batches[0][0].cpu(), normalize=True).mean(),
        **{f"loss {i}": loss for i, loss in enumerate(losses)},
        "scores": scores.square().mean(),
    }
)
