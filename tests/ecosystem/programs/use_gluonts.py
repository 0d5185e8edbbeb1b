"""gluonts: DeepAR and a feed-forward forecaster are trained on series, by their modules and by an estimator."""

import numpy as np
import pandas as pd
import torch
from gluonts.dataset.pandas import PandasDataset
from gluonts.torch import SimpleFeedForwardEstimator
from gluonts.torch.model.deepar import DeepARModel
from reporting import check_on, device, report

where = device()
torch.manual_seed(0)
model = DeepARModel(
    freq="D",
    context_length=8,
    prediction_length=4,
    num_feat_dynamic_real=2,
    num_feat_static_real=1,
    num_feat_static_cat=1,
    cardinality=[3],
    num_layers=1,
    hidden_size=8,
    dropout_rate=0.0,
    lags_seq=[1, 2, 3],
).to(where)
check_on(model, where)
past = 8 + 3
given = {
    "feat_static_cat": torch.tensor([[0], [2]]),
    "feat_static_real": torch.tensor([[0.5], [1.5]]),
    "past_time_feat": torch.randn(2, past, 2),
    "past_target": torch.rand(2, past) + 1,
    "past_observed_values": torch.ones(2, past),
    "future_time_feat": torch.randn(2, 4, 2),
    "future_target": torch.rand(2, 4) + 1,
    "future_observed_values": torch.ones(2, 4),
}
given = {name: value.to(where) for name, value in given.items()}
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
numbers = {}
for step in range(3):
    loss = model.loss(**given).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    numbers[f"deepar loss {step}"] = loss
if where.type == "cpu":
    torch.manual_seed(1)
    days = pd.date_range("2024-01-01", periods=60, freq="D")
    frame = pd.DataFrame({"target": np.sin(np.arange(60) / 5).astype(np.float32) + 2}, index=days)
    estimator = SimpleFeedForwardEstimator(
        prediction_length=4,
        context_length=8,
        hidden_dimensions=[8],
        batch_size=4,
        num_batches_per_epoch=3,
        trainer_kwargs={
            "max_epochs": 1, "logger": False, "enable_progress_bar": False,
            "accelerator": "cpu", "enable_model_summary": False,
        },
    )  # fmt: skip
    np.random.seed(0)
    predictor = estimator.train(PandasDataset(frame, target="target"), cache_data=True)
    weights = list(predictor.prediction_net.parameters())
    numbers["cpu.weights"] = sum(w.detach().square().sum() for w in weights)
report(numbers)
