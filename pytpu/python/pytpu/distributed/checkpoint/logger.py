"""`torch.distributed.checkpoint.logger`: the log of checkpoints."""

import logging

__all__: list[str] = []

#: Nothing is written unless a program adds a handler.
_dcp_logger = logging.getLogger("torch.distributed.checkpoint")
_dcp_logger.addHandler(logging.NullHandler())
