"""`torch.distributed.device_mesh`: arrays of ranks, with a process group along each dimension."""

from __future__ import annotations

import os
import threading
import warnings

from .. import Tensor, int as _int, tensor as _tensor
from ._mesh_layout import _FlatLayout, _MeshLayout
from .distributed_c10d import (
    ProcessGroup,
    _get_default_group,
    _new_group_with_tag,
    _resolve_process_group,
    get_process_group_ranks,
    get_rank,
    get_world_size,
    init_process_group,
    is_initialized,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType
    from typing import Any

__all__ = ["DeviceMesh", "init_device_mesh"]

#: The name of a backend and its options, or `None` for those of the group of all ranks.
BackendConfig = tuple["str | None", "object | None"]


class _MeshEnv(threading.local):
    """The meshes that are active as context managers in this thread."""

    def __init__(self) -> None:
        self.mesh_stack: list[DeviceMesh] = []

    def get_current_mesh(self) -> DeviceMesh:
        """Return the innermost active mesh."""
        if not self.mesh_stack:
            raise RuntimeError("No device mesh is currently active!")
        return self.mesh_stack[-1]

    def get_root_mesh(self, device_mesh: DeviceMesh) -> DeviceMesh:
        """Return the mesh that `device_mesh` was sliced from, or itself."""
        return device_mesh._get_root_mesh()

    def get_root_mesh_dim(self, device_mesh: DeviceMesh) -> int | None:
        """Return the dimension of a slice with one dimension in the mesh it was sliced from."""
        return device_mesh._get_root_mesh_dim()

    def get_mesh_dim_by_name(self, device_mesh: DeviceMesh, mesh_dim_name: str) -> int:
        """Return the dimension of a mesh that has a name."""
        return device_mesh._get_mesh_dim_by_name(mesh_dim_name)


_mesh_resources = _MeshEnv()


class DeviceMesh:
    """Ranks as an array. Each dimension has a process group for each line of ranks along it.

    All ranks of the default group make the mesh, with the same array. A slice by names of dimensions shares the groups
    of the mesh. A mesh is also a context manager: it is the default mesh of `torch.distributed.tensor`.

    Args:
        device_type: the type of device of each rank, such as `"cpu"`.
        mesh: ranks of the default group, as an integer tensor or nested lists.
        mesh_dim_names: a name for each dimension.
        backend_override: a backend for the groups of each dimension.
        preserve_rank_order: whether ranks of a group are numbered by their place in `mesh` instead of by rank.

    Raises:
        RuntimeError: if there are more ranks than processes.
        AssertionError: if a rank occurs twice.

    Example:
        >>> import pytpu as torch
        >>> from pytpu.distributed.device_mesh import DeviceMesh
        >>> store = torch.distributed.HashStore()
        >>> torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
        >>> DeviceMesh("cpu", [[0]], mesh_dim_names=("dp", "tp"))
        DeviceMesh((dp=1, tp=1), 'cpu', stride=((), ()))
        >>> torch.distributed.destroy_process_group()
    """

    _rank: int
    _dim_group_names: list[str]

    def __init__(
        self,
        device_type: str,
        mesh: Tensor | Sequence[Any] | None = None,
        *,
        mesh_dim_names: tuple[str, ...] | None = None,
        backend_override: tuple[BackendConfig, ...] | None = None,
        preserve_rank_order: bool = False,
        _init_backend: bool = True,
        _rank: int | None = None,
        _layout: _MeshLayout | None = None,
        _rank_map: Tensor | None = None,
        _root_mesh: DeviceMesh | None = None,
    ) -> None:
        if mesh is not None:
            if _layout is not None or _rank_map is not None:
                raise TypeError("Cannot provide _layout and/or _rank_map if passing explicit mesh")
            ranks = (mesh.detach().cpu() if isinstance(mesh, Tensor) else _tensor(mesh, device="cpu")).to(_int)
            _layout = _MeshLayout.from_sizes_strides(tuple(ranks.shape))
            _rank_map = ranks.flatten()
        if _layout is None or _rank_map is None:
            raise TypeError("The mesh argument is required except for PRIVATE USAGE ONLY!")
        if not _layout.collapse().check_orthogonal():
            raise AssertionError("Please use a non-overlapping layout when creating a DeviceMesh.")
        if _rank_map.numel() < _layout.cosize():
            raise AssertionError(
                f"The rank map contains {_rank_map.numel()} element, which isn't large enough for layout {_layout}"
            )
        self._device_type = device_type
        self._layout = _layout
        self._rank_map = _rank_map
        self._flatten_rank_map: tuple[int, ...] = tuple(_rank_map.tolist())
        if mesh is not None and len(set(self._flatten_rank_map)) != len(self._flatten_rank_map):
            raise AssertionError("A rank occurs more than once in the mesh.")
        self._mesh_dim_names = tuple(mesh_dim_names) if mesh_dim_names else None
        self._root_mesh = _root_mesh
        self._preserve_rank_order = preserve_rank_order
        self._thread_id: int | None = None
        self._flatten_mapping: dict[str, DeviceMesh] = {}
        if backend_override is None:
            backend_override = ((None, None),) * len(_layout)
        elif len(backend_override) != len(_layout):
            raise ValueError(
                "backend_override should have the same length as the number of mesh dimensions, "
                f"but got {len(backend_override)} and {len(_layout)}."
            )
        if _init_backend:
            self._check_world_size()
            self._dim_group_names = self._init_process_groups(
                _layout, _rank_map, self._mesh_dim_names, backend_override, preserve_rank_order
            )
        self._rank = get_rank() if _rank is None else _rank
        self._coordinate_on_dim = self._compute_coordinate()

    def _check_world_size(self) -> None:
        """Make the group of all ranks if there is none."""
        if not is_initialized():
            init_process_group()
        if self._layout.numel() > get_world_size():
            raise RuntimeError(
                f"Mesh should not be bigger than default world size {get_world_size()}, but found "
                f"{self._layout.numel()} ranks!"
            )

    def _compute_coordinate(self) -> tuple[int, ...] | None:
        for ranks in self._all_ranks(self._layout.collapse()):
            if self._rank in ranks:
                at, coordinate = ranks.index(self._rank), list[int]()
                for size in reversed(self.shape):
                    at, place = divmod(at, size)
                    coordinate.insert(0, place)
                return tuple(coordinate)
        return None

    def _all_ranks(self, layout: _FlatLayout) -> list[list[int]]:
        """Return the ranks of every line, or every mesh, that has this layout."""
        ranks = self._flatten_rank_map
        return [[ranks[i] for i in line] for line in layout.global_ranks(len(ranks))]

    @staticmethod
    def _init_process_groups(
        layout: _MeshLayout,
        rank_map: Tensor,
        mesh_dim_names: tuple[str, ...] | None,
        backend_override: tuple[BackendConfig, ...],
        preserve_rank_order: bool = False,
    ) -> list[str]:
        """Make the groups of all dimensions, and return the names of those of this rank."""
        names: list[str] = []
        for dim, axis in enumerate(layout):
            lines: list[list[int]] = _MeshLayout([axis]).remap_to_tensor(rank_map).tolist()
            world = list(range(get_world_size()))
            is_world = len(lines) == 1 and (lines[0] == world or not preserve_rank_order and sorted(lines[0]) == world)
            backend, options = backend_override[dim]
            if is_world and backend is None and options is None:
                names.append(_get_default_group().group_name)
                continue
            name = mesh_dim_names[dim] if mesh_dim_names else f"dim_{dim}"
            for line in lines:
                made = _new_group_with_tag(
                    line,
                    backend=backend,
                    backend_options=options,
                    group_desc=f"mesh_{name}",
                    sort_ranks=not preserve_rank_order,
                    partition=lines,
                )
                if isinstance(made, ProcessGroup):
                    names.append(made.group_name)
        return names

    @property
    def device_type(self) -> str:
        """The type of device of each rank."""
        return self._device_type

    @property
    def mesh(self) -> Tensor:
        """The ranks as an integer tensor. That of a slice is the one that this rank is in."""
        meshes = self._layout.remap_to_tensor(self._rank_map)
        if meshes.shape[0] == 1:
            return meshes[0]
        for ranks in meshes:
            if self._rank in ranks.flatten().tolist():
                return ranks
        raise RuntimeError(
            "In order to get the mesh Tensor of a DeviceMesh it needs to either have all its original dimensions "
            "(e.g., no slicing) or it needs to contain the local rank"
        )

    @property
    def mesh_dim_names(self) -> tuple[str, ...] | None:
        """The names of the dimensions, or `None`."""
        return self._mesh_dim_names

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self._layout)

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each dimension."""
        return self._layout.top_level_sizes

    def size(self, mesh_dim: int | None = None) -> int:
        """Return the number of ranks, or that along a dimension."""
        return self._layout.numel() if mesh_dim is None else self._layout[mesh_dim].numel()

    def _get_root_mesh(self) -> DeviceMesh:
        return self if self._root_mesh is None else self._root_mesh

    def __enter__(self) -> DeviceMesh:
        _mesh_resources.mesh_stack.append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _mesh_resources.mesh_stack.pop()

    def __repr__(self) -> str:
        names = self._mesh_dim_names
        sizes = ", ".join(f"{n}={s}" for n, s in zip(names, self.shape)) if names else None
        stride = tuple(axis.stride[0] if len(axis.stride) == 1 else axis.stride for axis in self._layout)
        text = f"DeviceMesh({self.shape if sizes is None else f'({sizes})'}, '{self.device_type}', stride={stride}"
        if os.environ.get("TORCH_DISTRIBUTED_DEBUG") == "DETAIL":
            text += f", Mesh: {self.mesh.tolist()}"
        return f"{text})"

    def _key(self) -> tuple[Any, ...]:
        return (
            self._flatten_rank_map,
            self._layout,
            self._device_type,
            self._mesh_dim_names,
            self._thread_id,
            self._preserve_rank_order,
        )

    def __hash__(self) -> int:
        return hash(self._key())

    def __eq__(self, other: object) -> bool:
        return self is other or isinstance(other, DeviceMesh) and self._key() == other._key()

    def __getitem__(self, mesh_dim_names: str | tuple[str, ...]) -> DeviceMesh:
        """Return the slice along the dimensions with these names, in their order.

        Args:
            mesh_dim_names: names of dimensions, or that of a flattened mesh.

        Raises:
            KeyError: if a name is not known, or the names are not in order.
            RuntimeError: if the mesh has no names, or the dimensions overlap.
        """
        if not self._mesh_dim_names:
            raise RuntimeError("Cannot slice a DeviceMesh without mesh_dim_names!")
        names = (mesh_dim_names,) if isinstance(mesh_dim_names, str) else tuple(mesh_dim_names)
        if names == self._mesh_dim_names:
            return self
        layout = self._get_slice_mesh_layout(names)
        groups = [self._group_name(name) for name in names] if self._dim_group_names else []
        return self._part(layout, names, groups)

    def _group_name(self, name: str) -> str:
        """Return the name of this rank's group along a dimension, or of a flattened mesh."""
        if self._mesh_dim_names and name in self._mesh_dim_names:
            return self._dim_group_names[self._mesh_dim_names.index(name)]
        return self._get_root_mesh()._flatten_mapping[name]._dim_group_names[0]

    def _part(self, layout: _MeshLayout, names: tuple[str, ...], groups: list[str]) -> DeviceMesh:
        """Return a mesh of some ranks of the root mesh, with groups that exist."""
        root = self._get_root_mesh()
        part = DeviceMesh(
            self._device_type,
            mesh_dim_names=names,
            preserve_rank_order=root._preserve_rank_order,
            _init_backend=False,
            _rank=self._rank,
            _layout=layout,
            _rank_map=root._rank_map,
            _root_mesh=root,
        )
        part._dim_group_names = groups
        return part

    def _get_slice_mesh_layout(self, mesh_dim_names: tuple[str, ...]) -> _MeshLayout:
        own = dict(zip(self._mesh_dim_names or (), self._layout))
        flattened: dict[str, _FlatLayout] = {}
        if self is self._get_root_mesh():
            flattened = {name: mesh._layout[0] for name, mesh in self._flatten_mapping.items()}
        known = {**flattened, **own}
        if any(name not in known for name in mesh_dim_names):
            raise KeyError(
                f"Invalid mesh_dim_names {mesh_dim_names} specified. "
                f"Valid mesh_dim_names are {[*own, *(n for n in flattened if n not in own)]}."
            )
        if any(name not in own for name in mesh_dim_names):
            warnings.warn(
                "Slicing a flattened dim from root mesh will be deprecated in PT 2.11. "
                "Users need to bookkeep the flattened mesh directly. ",
                stacklevel=3,
            )
        layout = _MeshLayout([known[name] for name in mesh_dim_names])
        if not layout.collapse().check_sorted():
            raise KeyError(
                f"Invalid mesh_dim_names {mesh_dim_names} specified. Mesh dim indices should be in ascending order."
            )
        if not layout.collapse().check_orthogonal():
            raise RuntimeError(f"Slicing overlapping dim_names {mesh_dim_names} is not allowed.")
        return layout

    def _get_mesh_dim_by_name(self, mesh_dim_name: str) -> int:
        if not self._mesh_dim_names:
            raise KeyError("No `mesh_dim_names` found.")
        if mesh_dim_name not in self._mesh_dim_names:
            raise KeyError(
                f"Mesh dimension '{mesh_dim_name}' does not exist.",
                f"Available mesh dimensions are: mesh_dim_names={self._mesh_dim_names}",
            )
        return self._mesh_dim_names.index(mesh_dim_name)

    def _get_root_mesh_dim(self) -> int | None:
        names = self._mesh_dim_names
        if not names:
            return None
        if len(names) != 1:
            raise AssertionError("The submesh can only be a 1D mesh.")
        return self._get_root_mesh()._get_mesh_dim_by_name(names[0])

    def _get_all_submeshes(self, mesh_dim_name: str) -> list[DeviceMesh]:
        """Return a mesh for every line of ranks along a dimension."""
        dim = self._get_mesh_dim_by_name(mesh_dim_name)
        meshes = []
        for ranks in self._all_ranks(self._layout[dim]):
            line = DeviceMesh(
                self._device_type,
                ranks,
                mesh_dim_names=(mesh_dim_name,),
                preserve_rank_order=self._preserve_rank_order,
                _init_backend=False,
                _rank=self._rank,
            )
            line._dim_group_names = [self._dim_group_names[dim]] if self._rank in ranks else []
            meshes.append(line)
        return meshes

    def get_group(self, mesh_dim: int | str | None = None) -> ProcessGroup:
        """Return the group of this rank along a dimension, or that of a flattened mesh.

        Args:
            mesh_dim: the dimension or its name. `None` is the only dimension.

        Raises:
            RuntimeError: if `mesh_dim` is `None` and there are several dimensions.
            KeyError: if no dimension has this name.
        """
        if not hasattr(self, "_dim_group_names"):
            raise RuntimeError("DeviceMesh process groups not initialized!")
        if mesh_dim is None:
            if self.ndim > 1:
                raise RuntimeError(
                    f"Found the DeviceMesh have {self.ndim} dimensions",
                    "Optional kwarg `mesh_dim` needs to be specified when device_mesh.ndim > 1.",
                    "If you want to get the list of all the ProcessGroups in the DeviceMesh,"
                    "please use `get_all_groups()` instead.",
                )
            mesh_dim = 0
        if isinstance(mesh_dim, str):
            flattened = self._get_root_mesh()._flatten_mapping
            if mesh_dim not in flattened:
                mesh_dim = self._get_mesh_dim_by_name(mesh_dim)
            else:
                return _resolve_process_group(flattened[mesh_dim]._dim_group_names[0])
        return _resolve_process_group(self._dim_group_names[mesh_dim])

    def get_all_groups(self) -> list[ProcessGroup]:
        """Return the groups of this rank along all dimensions."""
        return [self.get_group(i) for i in range(self.ndim)]

    def abort(self) -> None:
        """Break the groups of all dimensions on all ranks.

        Raises:
            RuntimeError: for a slice.
        """
        if self._root_mesh is not None:
            raise RuntimeError("abort() is not supported on a submesh. Call abort() on the root mesh instead.")
        meshes = [self, *self._flatten_mapping.values()]
        names = {name: None for mesh in meshes for name in getattr(mesh, "_dim_group_names", ())}
        for name in names:
            _resolve_process_group(name).abort()

    @staticmethod
    def from_group(
        group: ProcessGroup | list[ProcessGroup],
        device_type: str,
        mesh: Tensor | Sequence[Any] | None = None,
        *,
        mesh_dim_names: tuple[str, ...] | None = None,
    ) -> DeviceMesh:
        """Make a mesh of groups that exist.

        Args:
            group: the group of this rank along the only dimension, or along each dimension.
            device_type: the type of device of each rank.
            mesh: the ranks. It may be left out for one group.
            mesh_dim_names: a name for each dimension. They may be left out for one group.

        Raises:
            ValueError: if `mesh` does not fit the groups, or an argument is missing.
        """
        if isinstance(group, ProcessGroup):
            ranks = get_process_group_ranks(group)
            if mesh is not None and (mesh.tolist() if isinstance(mesh, Tensor) else list(mesh)) != ranks:
                raise ValueError(f"Invalid mesh {mesh} for ProcessGroup with ranks {ranks}")
            line = DeviceMesh(device_type, ranks, mesh_dim_names=mesh_dim_names, _init_backend=False)
            line._dim_group_names = [group.group_name]
            return line
        groups = list(group)
        if not groups:
            raise ValueError("Expects at least one ProcessGroup to be passed")
        if mesh is None:
            raise ValueError("Must pass mesh if passing multiple ProcessGroups")
        if mesh_dim_names is None:
            raise ValueError("Must pass mesh_dim_names if passing multiple ProcessGroups")
        array = mesh if isinstance(mesh, Tensor) else _tensor(mesh)
        if array.ndim != len(groups):
            raise ValueError(
                "Expects mesh with ndim equal to number of ProcessGroups but got "
                f"mesh {array.tolist()} and {len(groups)} ProcessGroups"
            )
        made = DeviceMesh(device_type, array, mesh_dim_names=mesh_dim_names, _init_backend=False)
        made._dim_group_names = [each.group_name for each in groups]
        return made

    def get_rank(self) -> int:
        """Return the rank of this process in the default group."""
        return get_rank()

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """Return the rank of this process in its group along a dimension.

        Args:
            mesh_dim: the dimension or its name. `None` is the only dimension.

        Raises:
            RuntimeError: if `mesh_dim` is `None` and there are several dimensions.
        """
        if self.ndim > 1 and mesh_dim is None:
            raise RuntimeError(
                f"Found the DeviceMesh have {self.ndim} dimensions",
                "Optional kwarg `mesh_dim` needs to be specified when device_mesh.ndim > 1.",
            )
        return get_rank(self.get_group(0 if mesh_dim is None else mesh_dim))

    def get_coordinate(self) -> tuple[int, ...] | None:
        """Return the position of this rank along each dimension, or `None` if it is not in the mesh."""
        return self._coordinate_on_dim

    def _is_current_rank_part_of_mesh(self) -> bool:
        return self._coordinate_on_dim is not None

    def _sym_get_coordinate(self, index: int) -> int:
        if self._coordinate_on_dim is None:
            raise AssertionError("this rank is not in the mesh")
        return self._coordinate_on_dim[index]

    def _flatten(
        self, mesh_dim_name: str | None = None, backend_override: str | BackendConfig | None = None
    ) -> DeviceMesh:
        """Return the mesh with one dimension for all of this one's.

        Args:
            mesh_dim_name: the name of the dimension. The default joins the names of this mesh with `_`.
            backend_override: a backend for its groups.

        Raises:
            RuntimeError: if the mesh has no names.
            ValueError: if the name is that of a dimension, or of another flattened mesh.
        """
        if not self._mesh_dim_names:
            raise RuntimeError("Cannot flatten a DeviceMesh without mesh_dim_names!")
        name = mesh_dim_name or "_".join(self._mesh_dim_names)
        if self.ndim == 1 and name in self._mesh_dim_names:
            return self
        root = self._get_root_mesh()
        known = root._mesh_dim_names or ()
        if name in known:
            raise ValueError(
                f"{name} already exists for submesh of the {root}. ",
                f"The mesh_dim_names of submesh and flattened mesh are {known}. "
                "Please specify another valid mesh_dim_name.",
            )
        layout = _MeshLayout([self._layout.collapse()])
        found = root._flatten_mapping.get(name)
        if found is not None:
            if found._layout == layout:
                return found
            raise ValueError(
                f"Flatten mesh with mesh_dim_name {name} has been created before, "
                "Please specify another valid mesh_dim_name."
            )
        override = _normalize_backend_override({} if backend_override is None else {0: backend_override}, 1)
        flat = DeviceMesh(
            root._device_type,
            mesh_dim_names=(name,),
            backend_override=override,
            preserve_rank_order=root._preserve_rank_order,
            _layout=layout,
            _rank_map=root._rank_map,
            _root_mesh=root,
        )
        root._flatten_mapping[name] = flat
        return flat

    def _unflatten(
        self,
        dim: int | str,
        mesh_sizes: tuple[int, ...],
        mesh_dim_names: tuple[str, ...],
        backend_override: dict[int | str, str | BackendConfig] | None = None,
    ) -> DeviceMesh:
        """Return the mesh with a dimension taken apart into several.

        Args:
            dim: the dimension or its name.
            mesh_sizes: the sizes of the new dimensions. Their product is the size of `dim`.
            mesh_dim_names: the names of the new dimensions.
            backend_override: backends for groups of the new dimensions, by name or number.

        Raises:
            ValueError: if there is no such dimension, or the product is another.
            RuntimeError: if `mesh_dim_names` has another length than `mesh_sizes`.
        """
        names = list(self._mesh_dim_names or ())
        if isinstance(dim, str):
            if dim not in names:
                raise ValueError(f"dim {dim} specified in `_unflatten` is not in {self.mesh_dim_names}")
            dim = names.index(dim)
        elif dim >= self.ndim:
            raise ValueError(f"dim {dim} specified in `_unflatten` is out of range {self.ndim}")
        if len(mesh_sizes) != len(mesh_dim_names):
            raise RuntimeError("mesh_dim_names must have same length as mesh_sizes in _unflatten!")
        override = _normalize_backend_override(backend_override or {}, len(mesh_sizes), tuple(mesh_dim_names))
        inner = _MeshLayout.from_sizes_strides(tuple(mesh_sizes))
        if inner.numel() != self._layout[dim].numel():
            raise ValueError(
                f"The product of {mesh_sizes=} is {inner.numel()}, "
                f"but the original dimension at dim={dim} has size {self._layout[dim].numel()}. "
                "These must be equal for unflatten to work correctly."
            )
        parts = self._layout[dim].composition(inner)
        names[dim : dim + 1] = mesh_dim_names
        groups = list(self._dim_group_names)
        root = self._get_root_mesh()
        groups[dim : dim + 1] = self._init_process_groups(
            parts, root._rank_map, tuple(mesh_dim_names), override, root._preserve_rank_order
        )
        return self._part(self._layout.splice(dim, dim + 1, parts), tuple(names), groups)

    @staticmethod
    def _concatenate(device_mesh_list: list[DeviceMesh]) -> DeviceMesh:
        """Return the mesh with the dimensions of all these slices of one mesh.

        Raises:
            RuntimeError: if they are slices of different meshes, or overlap.
        """
        first = device_mesh_list[0]
        if any(mesh._flatten_rank_map != first._flatten_rank_map for mesh in device_mesh_list):
            raise RuntimeError("Cannot concatenate DeviceMeshes derived from different device meshes")
        layout = _MeshLayout([axis for mesh in device_mesh_list for axis in mesh._layout])
        if not layout.collapse().check_orthogonal():
            raise RuntimeError(f"Cannot concatenate overlapping meshes: {device_mesh_list}")
        names = tuple(name for mesh in device_mesh_list for name in mesh._mesh_dim_names or ())
        groups = [name for mesh in device_mesh_list for name in mesh._dim_group_names]
        return first._part(layout, names, groups)


def _normalize_backend_override(
    backend_override: dict[Any, Any], ndim: int, mesh_dim_names: tuple[str, ...] = ()
) -> tuple[BackendConfig, ...]:
    """Return a backend and options for each dimension, from those for dimensions by number or name."""
    left, configs = dict(backend_override), list[BackendConfig]()
    for dim in range(ndim):
        name = mesh_dim_names[dim] if mesh_dim_names else None
        if name in left and dim in left:
            raise RuntimeError(f"Found redundant dim index {dim} and name {name} in backend_override")
        given = left.pop(name if name in left else dim, None)
        if isinstance(given, tuple):
            configs.append(given)
        else:
            configs.append((given, None) if given is None or isinstance(given, str) else (None, given))
    if left:
        raise RuntimeError(
            f"Found invalid keys in backend_override: got {list(left)}, "
            f"expected integers in range [0, {ndim}) or one of {mesh_dim_names}"
        )
    return tuple(configs)


def init_device_mesh(
    device_type: str,
    mesh_shape: tuple[int, ...],
    *,
    mesh_dim_names: tuple[str, ...] | None = None,
    backend_override: dict[int | str, str | BackendConfig] | None = None,
) -> DeviceMesh:
    """Make a mesh of the first ranks, in row-major order. All ranks call this.

    Args:
        device_type: the type of device of each rank, without an index.
        mesh_shape: the size of each dimension.
        mesh_dim_names: a name for each dimension.
        backend_override: backends for groups of some dimensions, by name or number.

    Returns:
        The `DeviceMesh`.

    Raises:
        RuntimeError: if names repeat or are not one for each dimension, `device_type` has an index, or there are more
            ranks than processes.

    Example:
        >>> import pytpu as torch
        >>> store = torch.distributed.HashStore()
        >>> torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
        >>> mesh = torch.distributed.init_device_mesh("cpu", (1, 1), mesh_dim_names=("dp", "tp"))
        >>> mesh["tp"].get_local_rank()
        0
        >>> torch.distributed.destroy_process_group()
    """
    if mesh_dim_names is not None:
        if len(set(mesh_dim_names)) != len(mesh_dim_names):
            raise RuntimeError(
                f"Each mesh_dim_name must be unique. Found repeated mesh_dim_name in mesh_dim_names {mesh_dim_names}",
            )
        if len(mesh_shape) != len(mesh_dim_names):
            raise RuntimeError(
                "mesh_shape and mesh_dim_names should have same length! "
                f"Found len(mesh_dim_names): {len(mesh_dim_names)} and len(mesh_shape):{len(mesh_shape)}.",
            )
    override = None
    if backend_override is not None:
        override = _normalize_backend_override(backend_override, len(mesh_shape), tuple(mesh_dim_names or ()))
    if device_type and not device_type.isalpha():
        raise RuntimeError(
            f"Device type with index is not supported but got {device_type}. ",
            "If you maintained a 'torch.device' object, it's recommended to pass in 'device.type'.",
        )
    layout = _MeshLayout.from_sizes_strides(tuple(mesh_shape))
    return DeviceMesh(
        device_type,
        mesh_dim_names=mesh_dim_names,
        backend_override=override,
        _layout=layout,
        # Also where the default device is another one.
        _rank_map=_tensor(list(range(layout.numel())), dtype=_int, device="cpu"),
    )
