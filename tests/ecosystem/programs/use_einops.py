"""einops: a mixer made of `Rearrange`, `Reduce` and `EinMix` layers is trained on random images."""

import torch
from einops import einsum, pack, rearrange, reduce, repeat, unpack
from einops.layers.torch import EinMix, Rearrange, Reduce
from reporting import check_on, device, report

where = device()
torch.manual_seed(0)
images = torch.randn(8, 3, 16, 16).to(where)
labels = torch.randint(5, (8,)).to(where)

patches = rearrange(images, "b c (h p) (w q) -> b (h w) (c p q)", p=4, q=4)
means = reduce(patches, "b n c -> b c", "mean")
scores = einsum(patches, repeat(means, "b c -> b n c", n=16), "b n c, b m c -> b n m")
packed, shapes = pack([patches, scores], "b n *")
_, again = unpack(packed, shapes, "b n *")

model = torch.nn.Sequential(
    Rearrange("b c (h p) (w q) -> b (h w) (c p q)", p=4, q=4),
    EinMix("b n c -> b n d", weight_shape="c d", bias_shape="d", c=48, d=32),
    torch.nn.GELU(),
    EinMix("b n d -> b m d", weight_shape="n m", bias_shape="m", n=16, m=16),
    torch.nn.LayerNorm(32),
    Reduce("b n d -> b d", "mean"),
    torch.nn.Linear(32, 5),
).to(where)
check_on(model, where)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
losses = []
for _ in range(5):
    loss = torch.nn.functional.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())

report(
    {
        "patches": patches.square().mean(),
        "scores": scores.square().sum(),
        "unpacked": (again - scores).abs().sum(),
        "first loss": losses[0],
        "last loss": losses[-1],
    }
)
