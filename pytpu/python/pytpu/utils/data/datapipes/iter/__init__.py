"""`torch.utils.data.datapipes.iter`: a name of the package that `combinatorics` is in."""
