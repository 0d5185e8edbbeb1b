"""mmengine: a Runner trains a network with hooks, saves and evaluates it; a config."""

import tempfile

import torch
from mmengine.config import Config
from mmengine.evaluator import BaseMetric
from mmengine.model import BaseModel
from mmengine.runner import Runner
from reporting import check_on, device, report
from torch.utils.data import DataLoader, TensorDataset

where = device()
numbers = {}


class Network(BaseModel):
    """Two linear layers with a loss."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))

    def forward(self, x, y, mode="tensor"):
        """Return a loss, or scores and labels."""
        place = next(self.parameters()).device
        scores = self.layers(x.to(place))
        if mode == "loss":
            return {"loss": torch.nn.functional.cross_entropy(scores, y.to(place))}
        return scores, y.to(place)


class Accuracy(BaseMetric):
    """Share of right answers."""

    def process(self, data_batch, data_samples):
        """Keep the right answers of a batch."""
        scores, y = data_samples
        self.results.append({"right": (scores.argmax(1) == y).sum().item(), "count": len(y)})

    def compute_metrics(self, results):
        """Return the share."""
        return {"accuracy": sum(r["right"] for r in results) / sum(r["count"] for r in results)}


torch.manual_seed(0)
x = torch.randn(32, 4)
data = TensorDataset(x, (x[:, 0] > 0).long())
model = Network().to(where)
check_on(model, where)
with tempfile.TemporaryDirectory() as folder:
    runner = Runner(
        model=model,
        work_dir=folder,
        train_dataloader=DataLoader(data, batch_size=8),
        val_dataloader=DataLoader(data, batch_size=16),
        train_cfg={"by_epoch": True, "max_epochs": 2, "val_interval": 1},
        val_cfg={},
        val_evaluator={"type": Accuracy},
        optim_wrapper={"optimizer": {"type": "SGD", "lr": 0.1, "momentum": 0.9}, "clip_grad": {"max_norm": 1.0}},
        param_scheduler={"type": "MultiStepLR", "milestones": [1], "gamma": 0.5},
        default_hooks={"checkpoint": {"type": "CheckpointHook", "interval": 1}},
        randomness={"seed": 1},
        experiment_name="small",
        log_level="ERROR",
    )
    check_on(runner.model, where)
    runner.train()
    numbers["loss"] = runner.message_hub.get_scalar("train/loss").data[0][-1]
    numbers["accuracy"] = runner.val()["accuracy"]
    numbers["weights"] = sum(p.detach().square().sum() for p in model.parameters())
    saved = torch.load(f"{folder}/epoch_2.pth", map_location="cpu", weights_only=False)["state_dict"]
    numbers["saved"] = sum(p.square().sum() for p in saved.values())
numbers["config"] = Config({"a": {"b": 3}}).a.b
report(numbers)
