"""``torch.utils.data.datapipes``: the base classes of data pipes. Pipes of their own are in the package ``torchdata``."""
