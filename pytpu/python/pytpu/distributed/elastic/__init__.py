"""``torch.distributed.elastic``: nothing is started by it yet."""
