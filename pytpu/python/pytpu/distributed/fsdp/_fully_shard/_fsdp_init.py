"""The place where programs look for what `fully_shard` takes, and for the function that describes a mesh."""

from .._managed import (
    _get_managed_modules as _get_managed_modules,
    _get_managed_states as _get_managed_states,
)
from .._mesh import _get_mesh_info as _get_mesh_info
