"""The older name of the place of ``DTensor``."""

from ..tensor import *  # noqa: F403
from ..tensor import DTensor as DTensor
