"""``torch.distributed._mesh_layout``: dimensions of device meshes as sizes and strides of indices into their ranks."""

from .._C import _FlatLayout, _MeshLayout

__all__ = ["_FlatLayout", "_MeshLayout"]
