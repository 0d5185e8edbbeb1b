"""Orders of contraction: ``torch.einsum`` contracts from left to right."""

from ._absent import is_available  # noqa: F401

enabled = False
strategy = None
