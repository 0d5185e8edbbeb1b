"""`Upsample`, `UpsamplingBilinear2d` and `UpsamplingNearest2d`, under PyTorch's name for the module."""

from .shape import Upsample, UpsamplingBilinear2d, UpsamplingNearest2d

__all__ = ["Upsample", "UpsamplingBilinear2d", "UpsamplingNearest2d"]
