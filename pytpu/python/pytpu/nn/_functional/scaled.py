"""Names of products of scaled matrices, which libraries import. The products need 8-bit floats, which are not there."""

from __future__ import annotations

import enum


class ScalingType(enum.IntEnum):
    """What one scale of a scaled product belongs to."""

    TensorWise = 0
    RowWise = 1
    BlockWise1x16 = 2
    BlockWise1x32 = 3
    BlockWise1x128 = 4
    BlockWise128x128 = 5


class SwizzleType(enum.IntEnum):
    """How the scales of a scaled product lie in memory."""

    NO_SWIZZLE = 0
    SWIZZLE_32_4_4 = 1
    SWIZZLE_32_8 = 2
