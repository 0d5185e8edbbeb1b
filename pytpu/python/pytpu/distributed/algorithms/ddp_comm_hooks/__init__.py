"""``torch.distributed.algorithms.ddp_comm_hooks``: names of hooks around collectives."""
