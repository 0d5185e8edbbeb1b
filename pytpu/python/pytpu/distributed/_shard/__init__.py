"""Tensors of which each rank has some boxes, for checkpoints of older programs. `torch.distributed.tensor` has sharded
tensors that compute.
"""
