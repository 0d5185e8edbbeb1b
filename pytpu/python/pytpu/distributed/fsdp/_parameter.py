"""A parameter of which each rank has a shard."""

from __future__ import annotations

from ... import _C, Tensor, cat, no_grad, zeros
from ...autograd import backward
from ...nn import Module, Parameter
from ..tensor import DTensor, Placement, Replicate, Shard
from ..tensor._api import _number
from ..tensor.placement_types import _packed, _StridedShard
from ._annotations import read_annotations
from ._mesh import other_part

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ... import device as _device
    from ..device_mesh import DeviceMesh
    from ..distributed_c10d import ProcessGroup
    from ._mesh import FSDPMeshInfo
    from ._policies import DataParallelMeshDims, MixedPrecisionPolicy


def on_mesh(local: Tensor, mesh: Any, placements: tuple[Placement, ...], sizes: tuple[int, ...]) -> Any:
    """Return the sharded tensor whose part is `local`. It is differentiable."""
    number = _number(mesh, local.device)
    return _C._sharded_from_local(local, number, [_packed(p) for p in placements], list(sizes))


class ShardedParameter:
    """A parameter that is sharded over a mesh.

    Args:
        places: the modules that have the parameter, and its name in each.
        name: its name in the module that is sharded.
        parameter: the whole parameter, or its part on a mesh of tensor parallelism.
        info: the mesh to shard it over.
        shard_dim: the dimension to shard.
        device: the device of the shard.
        policy: the dtypes.
        dp_dims: the data parallel dimensions of the mesh of the parameter, if that has others too.
        root: the mesh that `dp_dims` names dimensions of.
    """

    def __init__(
        self,
        places: list[tuple[Module, str]],
        name: str,
        parameter: Parameter,
        info: FSDPMeshInfo,
        shard_dim: int,
        device: _device,
        policy: MixedPrecisionPolicy,
        dp_dims: DataParallelMeshDims | None = None,
        root: DeviceMesh | None = None,
    ) -> None:
        self.places, self.name, self.info, self.dim = places, name, info, shard_dim
        gathered = policy._gathered_dtype(parameter)
        #: The dtype that the policy converts to, if it does. The user may convert the sharded parameter later.
        self._converted_dtype = None if gathered == parameter.dtype else gathered
        #: The gradient of the whole that waits to be reduced.
        self.unreduced: Tensor | None = None
        #: The gradient of the shard that waits to be reduced over the replicas.
        self.partial: Tensor | None = None
        self.device_type, self.is_offloaded = device.type, device.type != info.mesh.device_type
        self.inner: tuple[Any, tuple[Placement, ...], tuple[int, ...]] | None = None
        self.mesh, whole = info.mesh, parameter.detach()
        self.sizes = tuple(parameter.shape)
        on_dp: Placement = Shard(shard_dim)
        self.placements: tuple[Placement, ...] = (on_dp,)
        if isinstance(parameter, DTensor):
            inner, placements = parameter.device_mesh, parameter.placements
            if dp_dims is not None:
                inner, placements = other_part(parameter, dp_dims)
            whole = parameter._local_tensor.detach()
            if inner is not None:
                on_dp = self._of_inner_mesh(inner, placements)
        #: The types of a parameter that the module computes with as a plain tensor.
        self.annotated = None
        if root is not None and not isinstance(parameter, DTensor):
            self.annotated = read_annotations(parameter, root, dp_dims)
        #: The groups of ranks outside the data parallel mesh whose gradients are summands.
        self.summed: list[ProcessGroup] = []
        if self.annotated is not None:
            self.summed, self.sizes = self.annotated.summed, self.annotated.sizes
            if self.annotated.mesh is not None:
                on_dp = self._of_inner_mesh(self.annotated.mesh, self.annotated.placements)
        replicated = (Replicate(),) if info.replicas is not None else ()
        self.placements = (*replicated, on_dp, *(self.inner[1] if self.inner else ()))
        self.whole_sizes = tuple(whole.shape)
        if not whole.is_contiguous():
            raise NotImplementedError(
                f"FSDP does not support non-contiguous parameters yet: param.shape={parameter.shape!r} "
                f"param.stride()={parameter.stride()!r}"
            )
        ranks, length = info.shard_mesh_size, self.whole_sizes[shard_dim]
        if shard_dim > 0 and length % ranks != 0:
            raise NotImplementedError(
                f"FSDP does not support uneven sharding on dim {shard_dim}: {whole.size()} (world size: {ranks})"
            )
        self.chunk = -(-length // ranks)
        start = min(info.shard_mesh_rank * self.chunk, length)
        self.length = min(self.chunk, length - start)
        #: Start and length of the shard of this rank.
        self.range = (start, self.length)
        with no_grad():
            part = whole.narrow(shard_dim, start, self.length)
            if part.device.type not in (device.type, "meta"):
                part = part.to(device)
            # A copy of its own, so that the memory of the whole is freed.
            part = part.clone().contiguous()
        self.sharded: Any = Parameter(on_mesh(part, self.mesh, self.placements, self.sizes), parameter.requires_grad)
        # Types describe the part on the inner mesh, and the sharded tensor has placements instead.
        if self.annotated is None:
            for key, value in parameter.__dict__.items():
                if key != "_is_param":
                    setattr(self.sharded, key, value)
        self.put(self.sharded)

    def _of_inner_mesh(self, inner: DeviceMesh, placements: tuple[Placement, ...]) -> Placement:
        """Set the mesh that joins FSDP's mesh and `inner`, the mesh of the model. Return the placement on FSDP's."""
        if inner.device_type != self.mesh.device_type:
            raise ValueError(
                "Requires DTensor to have mesh of the same type as the FSDP mesh but got "
                f"{inner.device_type} for DTensor and {self.mesh.device_type} for FSDP"
            )
        if inner._get_root_mesh() != self.mesh._get_root_mesh():
            raise AssertionError(
                "FSDP requires the DP and model parallel TP/EP mesh to have the same parent mesh but got: \n"
                f"DP's global mesh: {self.mesh._get_root_mesh()}\nTP/EP's global mesh: {inner._get_root_mesh()}"
            )
        if len(placements) > 2 or any(p.is_partial() for p in placements):
            raise NotImplementedError(f"FSDP only supports 1D TP/EP or 2D EP+TP, not {placements}")
        self.inner = (inner, placements, self.sizes)
        self.mesh = self.mesh._concatenate([self.mesh, inner])
        parts = 1
        for dim, placement in enumerate(placements):
            if placement.is_shard(self.dim):
                parts *= inner.size(dim)
        # The inner mesh has divided the dimension before this one does.
        return Shard(self.dim) if parts == 1 else _StridedShard(self.dim, split_factor=parts)

    @property
    def _param_fqn(self) -> str:
        """The name in the root, once that is known. PyTorch's tests read it."""
        return self.name

    @property
    def gathered_dtype(self) -> Any:
        """The dtype of the gathered parameter."""
        return self._converted_dtype or self.sharded.dtype

    def put(self, value: Any) -> None:
        """Make `value` the parameter in all modules that have it."""
        for module, name in self.places:
            module._parameters[name] = value

    def take_current(self) -> None:
        """Take over the parameter that the module has now. The user may have replaced it."""
        module, name = self.places[0]
        current: Any = module._parameters[name]
        if current is self.sharded:
            return
        if not isinstance(current, DTensor):
            current = Parameter(
                on_mesh(current.detach(), self.mesh, self.placements, self.sizes), self.sharded.requires_grad
            )
        self.sharded = current
        self.put(current)

    def local(self) -> Tensor:
        """Return the shard of this rank."""
        return self.sharded._local_tensor

    def to_gather(self) -> Tensor:
        """Return the shard in the gathered dtype, padded to the length of the first rank's."""
        part = self.local().detach()
        if part.dtype != self.gathered_dtype:
            part = part.to(self.gathered_dtype)
        return self._pad(part, self.chunk)

    def _pad(self, x: Tensor, length: int) -> Tensor:
        missing = length - x.shape[self.dim]
        if missing == 0:
            return x.contiguous()
        sizes = [*x.shape]
        sizes[self.dim] = missing
        return cat([x, zeros(sizes, dtype=x.dtype, device=x.device)], self.dim)

    def from_gathered(self, chunks: Tensor, ranks: int) -> Tensor:
        """Return the whole from the padded shards of so many ranks, `(ranks * chunk, ...)`."""
        if self.dim == 0:
            whole = self.whole_sizes[0]
            return chunks if chunks.shape[0] == whole else chunks.narrow(0, 0, whole)
        return cat(chunks.chunk(ranks, 0), self.dim)

    def kept_part(self, whole: Tensor, ranks: int, rank: int) -> Tensor:
        """Return a copy of the padded part that one of so many ranks keeps of a gathered value."""
        chunk = -(-self.whole_sizes[self.dim] // ranks)
        return self._pad(whole.detach(), ranks * chunk).narrow(self.dim, rank * chunk, chunk).clone()

    def to_reduce(self, gradient: Tensor) -> Tensor:
        """Return a gradient as padded shards for all ranks, `(ranks * chunk, ...)`."""
        ranks = self.info.shard_mesh_size
        padded = self._pad(gradient, ranks * self.chunk)
        return padded if self.dim == 0 else cat(padded.chunk(ranks, self.dim), 0)

    def chunk_sizes(self) -> list[int]:
        """The sizes of a padded shard."""
        return [self.chunk if dim == self.dim else n for dim, n in enumerate(self.whole_sizes)]

    def as_parameter(self, whole: Tensor) -> Any:
        """Return a gathered value as the parameter that the module computes with. It is differentiable."""
        placed = whole if self.inner is None or self.annotated is not None else on_mesh(whole, *self.inner)
        placed._is_param = True
        if self.annotated is not None:
            for key, value in self.annotated.attributes.items():
                setattr(placed, key, value)
        return placed

    def add_gradient(self, reduced: Tensor) -> None:
        """Add the reduced gradient of this rank's shard to `.grad`, and call hooks."""
        own = reduced.narrow(self.dim, 0, self.length)
        if own.dtype != self.sharded.dtype:
            own = own.to(self.sharded.dtype)
        target = self.local()
        if own.device != target.device:
            own = own.to(target.device)
        gradient = on_mesh(own.contiguous(), self.mesh, self.placements, self.sizes)
        # A pass of its own, so that hooks on the parameter and on its accumulated gradient are called.
        backward([self.sharded], [gradient])
