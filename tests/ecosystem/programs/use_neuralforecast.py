"""neuralforecast: NHITS and PatchTST are fitted to series, and forecast."""

import logging
import warnings

import numpy as np
import pandas as pd
from neuralforecast import NeuralForecast
from neuralforecast.models import NHITS, PatchTST
from reporting import device, report

warnings.simplefilter("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
where = device()
time = np.arange(60)
series = [pd.DataFrame({"unique_id": f"s{i}", "ds": time, "y": np.sin(time / (3 + i)) + 0.1 * i}) for i in range(2)]
frame = pd.concat(series, ignore_index=True)
common = {
    "h": 4,
    "input_size": 12,
    "max_steps": 3,
    "learning_rate": 1e-3,
    "random_seed": 1,
    "batch_size": 2,
    "windows_batch_size": 8,
    "accelerator": where.type,
    "devices": 1,
    "enable_progress_bar": False,
    "enable_model_summary": False,
    "logger": False,
    "enable_checkpointing": False,
}
models = [
    NHITS(stack_types=["identity"] * 2, n_blocks=[1, 1], mlp_units=[[16, 16]] * 2, n_pool_kernel_size=[2, 1],
          n_freq_downsample=[2, 1], dropout_prob_theta=0.0, **common),
    PatchTST(encoder_layers=1, n_heads=2, hidden_size=8, linear_hidden_size=16, patch_len=4, stride=2, dropout=0.0,
             fc_dropout=0.0, attn_dropout=0.0, head_dropout=0.0, **common),
]  # fmt: skip
forecast = NeuralForecast(models=models, freq=1)
forecast.fit(frame)
found = forecast.predict()
numbers = {}
for model in forecast.models:
    name = type(model).__name__
    numbers[f"{name} forecast"] = found[name].sum()
    numbers[f"{name} loss"] = model.train_trajectories[-1][1]
report(numbers, {"PatchTST forecast": (1e-3, "Adam divides gradients that are nearly zero")})
