"""Logs for TensorBoard: `SummaryWriter` writes event files with the package `tensorboard`, which must be installed."""

try:
    import tensorboard
except ImportError as error:
    raise ImportError(
        "torch.utils.tensorboard writes its files with the package `tensorboard`, which is not installed: pip install "
        "tensorboard"
    ) from error

from tensorboard.summary.writer.record_writer import RecordWriter

from . import summary, writer
from .writer import FileWriter, SummaryWriter

__all__ = ["FileWriter", "RecordWriter", "SummaryWriter", "summary", "writer"]
