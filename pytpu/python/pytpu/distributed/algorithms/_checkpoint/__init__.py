"""``torch.distributed.algorithms._checkpoint``: wrappers of activation checkpointing."""
