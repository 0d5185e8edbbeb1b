"""Write ``model.pickle`` and ``conjugated.pickle``: pickled objects of PyTorch. Run it with PyTorch."""

import pathlib
import pickle

import torch
from torch import nn

HERE = pathlib.Path(__file__).parent

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(2, 3), nn.Unflatten(1, (3, 1)), nn.Flatten(), nn.LayerNorm(3), nn.GELU())
optimizer = torch.optim.AdamW(model.parameters())
x = torch.randn(4, 2)
model(x).square().sum().backward()
optimizer.step()
optimizer.zero_grad()
out = model(x).detach()
things = {"model": model, "optimizer": optimizer, "x": x, "out": out, "function": torch.relu, "dtype": torch.float32}
(HERE / "model.pickle").write_bytes(pickle.dumps(things, 2))
views = [torch.view_as_complex(torch.tensor([[1.0, 2.0]])).conj(), torch.ones(2)._neg_view()]
(HERE / "conjugated.pickle").write_bytes(pickle.dumps(views, 2))
