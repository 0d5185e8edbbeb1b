"""Switches of oneDNN, which is not here."""

from ._absent import Switches, is_available, scope  # noqa: F401

enabled = False
deterministic = False
allow_tf32 = True
matmul = Switches(fp32_precision="none")
flags = scope(globals())
