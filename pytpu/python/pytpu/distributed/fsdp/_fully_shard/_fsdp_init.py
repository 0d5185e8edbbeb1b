"""The place where programs look for the function that describes a mesh."""

from .._mesh import _get_mesh_info as _get_mesh_info
