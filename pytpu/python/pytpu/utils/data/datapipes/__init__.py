"""`torch.utils.data.datapipes`: base classes of data pipes. Other pipes are in the package `torchdata`."""
