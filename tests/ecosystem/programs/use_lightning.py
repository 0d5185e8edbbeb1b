"""lightning: a module is trained, checked, saved and loaded by the `Trainer`; a loop is run by `Fabric`.

Nothing is set but ``accelerator``. Its value "tpu" is registered when pytpu sees the library's import.
"""

import tempfile

import lightning as L
import torch
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from reporting import check_on, device, report

where = device()


class Classifier(L.LightningModule):
    """A network of two layers, with a schedule and logged numbers."""

    def __init__(self, width=16):
        super().__init__()
        self.save_hyperparameters()
        self.net = torch.nn.Sequential(torch.nn.Linear(8, width), torch.nn.ReLU(), torch.nn.Linear(width, 3))

    def training_step(self, batch, index):
        loss = torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1])
        self.log("train_loss", loss, on_step=False, on_epoch=True)
        return loss

    def validation_step(self, batch, index):
        check_on(self, where)
        self.log("val_loss", torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1]))

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-2)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)]


L.seed_everything(0)
data = torch.utils.data.TensorDataset(torch.randn(48, 8), torch.randint(3, (48,)))
train = torch.utils.data.DataLoader(data, batch_size=8, shuffle=True)
check = torch.utils.data.DataLoader(data, batch_size=16)
with tempfile.TemporaryDirectory() as folder:
    saver = ModelCheckpoint(folder, monitor="val_loss")
    trainer = L.Trainer(
        accelerator=where.type,
        max_epochs=3,
        accumulate_grad_batches=2,
        gradient_clip_val=1.0,
        enable_progress_bar=False,
        logger=CSVLogger(folder),
        log_every_n_steps=1,
        callbacks=[saver, EarlyStopping("val_loss")],
    )
    model = Classifier()
    trainer.fit(model, train, check)
    numbers = {name: trainer.callback_metrics[name] for name in ("train_loss", "val_loss")}
    numbers["steps"] = trainer.global_step
    numbers["best"] = saver.best_model_score
    loaded = Classifier.load_from_checkpoint(saver.best_model_path, map_location="cpu")
    numbers["weights"] = sum(p.detach().square().sum() for p in loaded.parameters())

fabric = L.Fabric(accelerator=where.type, devices=1)
network = Classifier(width=4).net
network, optimizer = fabric.setup(network, torch.optim.SGD(network.parameters(), lr=0.1))
check_on(network, where)
for x, y in fabric.setup_dataloaders(check):
    loss = torch.nn.functional.cross_entropy(network(x), y)
    optimizer.zero_grad()
    fabric.backward(loss)
    optimizer.step()
numbers["fabric loss"] = loss
for precision in ("bf16-mixed", "16-mixed"):
    mixed = L.Trainer(accelerator=where.type, precision=precision, logger=False).precision_plugin
    assert torch.device(mixed.device) == where, f"{precision} casts on {mixed.device}"
report(numbers)
