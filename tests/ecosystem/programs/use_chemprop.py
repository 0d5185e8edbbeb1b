"""chemprop: a message passing network is trained on the graphs of molecules."""

import numpy as np
import torch
from chemprop import data, featurizers, models, nn
from reporting import check_on, device, report

where = device()
smiles = ["CCO", "CC(=O)O", "c1ccccc1", "CCN(CC)CC", "O=C=O", "CC(C)CC", "C1CCCCC1", "CCOC(=O)C"]
targets = np.array([[len(s) / 4.0] for s in smiles], dtype=np.float32)
points = [data.MoleculeDatapoint.from_smi(s, y) for s, y in zip(smiles, targets)]
dataset = data.MoleculeDataset(points, featurizers.SimpleMoleculeMolGraphFeaturizer())
scaler = dataset.normalize_targets()
torch.manual_seed(0)
model = models.MPNN(
    nn.BondMessagePassing(d_h=16, depth=2),
    nn.MeanAggregation(),
    nn.RegressionFFN(input_dim=16, hidden_dim=16, output_transform=nn.UnscaleTransform.from_standard_scaler(scaler)),
    batch_norm=True,
).to(where)
check_on(model, where)
batch = next(iter(data.build_dataloader(dataset, batch_size=8, shuffle=False)))
graphs, wanted = batch.bmg, batch.Y.to(where)
graphs.to(where)
numbers = {"atoms": graphs.V.shape[0], "features": graphs.V.sum() + graphs.E.sum()}
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(3):
    features = model.fingerprint(graphs)
    loss = (model.predictor.train_step(features) - wanted).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    numbers[f"loss {step}"] = loss
model.eval()
with torch.no_grad():
    numbers["predictions"] = model(graphs).sum()
report(numbers)
