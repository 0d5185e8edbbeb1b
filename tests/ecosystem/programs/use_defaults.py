"""Programs that name no device: accelerate, the `Trainer` of transformers, Lightning, Fabric and speechbrain choose it.

They use the current accelerator, and ``cpu`` where there is none.
"""

import tempfile

import lightning as L
import speechbrain
import torch
from accelerate import Accelerator
from reporting import check_on, device, report
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

where = device()
assert torch.accelerator.is_available() == (where.type != "cpu"), torch.accelerator.current_accelerator()
data = torch.utils.data.TensorDataset(
    torch.randn(32, 8, generator=torch.Generator().manual_seed(0)),
    torch.randint(3, (32,), generator=torch.Generator().manual_seed(1)),
)
numbers = {}


def network(seed):
    """Return a network of two layers on ``cpu``."""
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 3))


# accelerate
accelerator = Accelerator()
model = network(0)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = accelerator.prepare(model, optimizer, torch.utils.data.DataLoader(data, batch_size=8))
check_on(model, where)
for x, y in loader:
    assert x.device.type == where.type, x.device
    loss = torch.nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    accelerator.backward(loss)
    optimizer.step()
numbers["accelerate"] = loss

# transformers
torch.manual_seed(1)
model = LlamaForCausalLM(
    LlamaConfig(vocab_size=32, hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2)
)
tokens = torch.randint(32, (16, 8)).tolist()
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        output_dir=folder,
        max_steps=4,
        learning_rate=1e-2,
        logging_steps=1,
        per_device_train_batch_size=4,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
    )
    assert arguments.device.type == where.type, arguments.device
    trainer = Trainer(model, arguments, train_dataset=[{"input_ids": row, "labels": row} for row in tokens])
    trainer.train()
check_on(trainer.model, where)
numbers["Trainer"] = [line["loss"] for line in trainer.state.log_history if "loss" in line][-1]


# Lightning
class Classifier(L.LightningModule):
    """A network, with the losses of its steps."""

    def __init__(self):
        super().__init__()
        self.net = network(2)
        self.losses = []

    def training_step(self, batch, index):
        """Return the loss of a batch."""
        check_on(self, where)
        loss = torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1])
        self.losses.append(loss.detach())
        return loss

    def configure_optimizers(self):
        """Return the optimizer."""
        return torch.optim.SGD(self.parameters(), lr=0.1)


module = Classifier()
with tempfile.TemporaryDirectory() as folder:
    trainer = L.Trainer(
        max_epochs=1,
        default_root_dir=folder,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        devices=1,
    )
    assert trainer.strategy.root_device.type == where.type, trainer.strategy.root_device
    trainer.fit(module, torch.utils.data.DataLoader(data, batch_size=8))
numbers["Lightning"] = module.losses[-1]

fabric = L.Fabric(devices=1)
assert fabric.device.type == where.type, fabric.device
model = network(3)
model, optimizer = fabric.setup(model, torch.optim.SGD(model.parameters(), lr=0.1))
check_on(model, where)
for x, y in fabric.setup_dataloaders(torch.utils.data.DataLoader(data, batch_size=8)):
    loss = torch.nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    fabric.backward(loss)
    optimizer.step()
numbers["Fabric"] = loss


# speechbrain
class Brain(speechbrain.Brain):
    """A network, with the losses of its steps."""

    def compute_forward(self, batch, stage):
        """Return the scores of a batch."""
        return self.modules.net(batch[0].to(self.device))

    def compute_objectives(self, predictions, batch, stage):
        """Return the loss of a batch."""
        return torch.nn.functional.cross_entropy(predictions, batch[1].to(self.device))

    def on_stage_end(self, stage, stage_loss, epoch=None):
        """Keep the mean of the losses."""
        numbers[f"speechbrain {stage.name}"] = stage_loss


brain = Brain({"net": network(4)}, lambda weights: torch.optim.SGD(weights, lr=0.1), run_opts={"noprogressbar": True})
assert torch.device(brain.device).type == where.type, brain.device
check_on(brain.modules, where)
brain.fit(
    range(2),
    torch.utils.data.DataLoader(data, batch_size=8),
    torch.utils.data.DataLoader(data, batch_size=16),
)
report(numbers)
