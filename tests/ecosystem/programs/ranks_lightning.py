"""lightning on two ranks: a module is trained with ``strategy="ddp"``, checked, saved and loaded. On tpu it is then
trained with ``"fsdp"``, which Lightning does not allow on cpu. The numbers are those of ``"ddp"``.

A launcher starts the ranks. Lightning finds them by itself.
"""

import tempfile

import lightning as L
import torch
import torch.distributed as dist
from lightning.pytorch.callbacks import ModelCheckpoint
from reporting import check_on, device, report

where = device()


class Classifier(L.LightningModule):
    """A network of two layers with batch normalization, and logged numbers."""

    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Linear(8, 16, bias=False), torch.nn.BatchNorm1d(16), torch.nn.ReLU(), torch.nn.Linear(16, 3)
        )

    def training_step(self, batch, index):
        loss = torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1])
        self.log("train_loss", loss, on_step=False, on_epoch=True, sync_dist=True)
        return loss

    def validation_step(self, batch, index):
        check_on(self, where)
        loss = torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1])
        self.log("val_loss", loss, sync_dist=True)
        self.log("examples", float(self.all_gather(batch[1]).numel()), reduce_fx="sum")

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-2)


L.seed_everything(0)
data = torch.utils.data.TensorDataset(torch.randn(48, 8), torch.randint(3, (48,)))
train = torch.utils.data.DataLoader(data, batch_size=4, shuffle=True)
check = torch.utils.data.DataLoader(data, batch_size=8)
with tempfile.TemporaryDirectory() as folder:
    saver = ModelCheckpoint(folder, monitor="val_loss")
    trainer = L.Trainer(
        accelerator=where.type,
        devices=2,
        strategy="ddp",
        max_epochs=3,
        accumulate_grad_batches=2,
        gradient_clip_val=1.0,
        enable_progress_bar=False,
        logger=False,
        callbacks=[saver],
    )
    trainer.fit(Classifier(), train, check)
    assert dist.get_world_size() == 2 == trainer.world_size
    numbers = {name: trainer.callback_metrics[name] for name in ("train_loss", "val_loss", "examples")}
    numbers["steps"] = trainer.global_step
    numbers["best"] = saver.best_model_score
    loaded = Classifier.load_from_checkpoint(saver.best_model_path, map_location="cpu")
    numbers["weights"] = sum(p.detach().square().sum() for p in loaded.parameters())
    dist.barrier()


class Plain(Classifier):
    """The network without batch normalization, whose statistics ``"fsdp"`` would keep on each rank."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))

    def validation_step(self, batch, index):
        self.log("val_loss", torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1]), sync_dist=True)


trainer = L.Trainer(
    accelerator=where.type,
    devices=2,
    strategy="ddp" if where.type == "cpu" else "fsdp",
    max_epochs=3,
    enable_progress_bar=False,
    enable_checkpointing=False,
    logger=False,
)
trainer.fit(Plain(), train, check)
numbers |= {f"fsdp {name}": trainer.callback_metrics[name] for name in ("train_loss", "val_loss")}
if dist.get_rank() == 0:
    report(numbers)
dist.destroy_process_group()
