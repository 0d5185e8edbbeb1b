"""Settings of `torch.distributed`."""

#: Whether collectives run through PyTorch's TorchComms. It is not part of this package.
use_torchcomms: bool = False
