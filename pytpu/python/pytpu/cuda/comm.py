"""``torch.cuda.comm``: copies between devices of CUDA, of which there are none."""

from ..nn.parallel.comm import (
    broadcast as broadcast,
    broadcast_coalesced as broadcast_coalesced,
    gather as gather,
    reduce_add as reduce_add,
    reduce_add_coalesced as reduce_add_coalesced,
    scatter as scatter,
)
