"""vit-pytorch: four vision transformers are trained."""

import torch
from reporting import check_on, device, report
from vit_pytorch import ViT
from vit_pytorch.cct import CCT
from vit_pytorch.na_vit import NaViT
from vit_pytorch.simple_vit import SimpleViT

where = device()
torch.manual_seed(0)
images, labels = torch.randn(4, 3, 32, 32).to(where), torch.tensor([0, 1, 2, 3], device=where)
sizes = {"image_size": 32, "patch_size": 8, "num_classes": 4, "dim": 32, "depth": 2, "heads": 2, "mlp_dim": 48}
numbers = {}
for name, make in {
    "vit": lambda: ViT(**sizes),
    "simple": lambda: SimpleViT(**sizes),
    "cct": lambda: CCT(
        img_size=(32, 32), embedding_dim=32, n_conv_layers=1, kernel_size=3, stride=2, padding=1, num_layers=2,
        num_heads=2, mlp_ratio=1.0, num_classes=4, positional_embedding="learnable", dropout_rate=0.0,
        attention_dropout=0.0, stochastic_depth_rate=0.0,
    ),
}.items():  # fmt: skip
    torch.manual_seed(1)
    model = make().to(where)
    check_on(model, where)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(2):
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        numbers[f"{name} loss {step}"] = loss
torch.manual_seed(2)
model = NaViT(**sizes).to(where)
check_on(model, where)
batch = [[images[0], images[1, :, :16, :24]], [images[2, :, :24, :16]]]
numbers["navit"] = model(batch).square().mean()
report(numbers)
