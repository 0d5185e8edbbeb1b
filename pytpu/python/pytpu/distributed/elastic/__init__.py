"""``torch.distributed.elastic``: it cannot start processes yet."""
