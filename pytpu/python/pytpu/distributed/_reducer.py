"""Parts of `DistributedDataParallel` as objects and functions of their own."""

from __future__ import annotations

from .._C import _Reducer
from ._methods import _on_device
from ._process_group import ProcessGroup

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from .. import Tensor

#: Size in bytes of the first bucket of gradients. It is small, so that its reduction starts early in backward.
_DEFAULT_FIRST_BUCKET_BYTES = 2**20


class Reducer:
    """Averages gradients of parameters over the ranks of a group, while backward goes on.

    `DistributedDataParallel` does this for a module. Buckets are filled by size, in the order of `bucket_indices`
    read backwards, and follow the order of the gradients after the first step.

    Args:
        params: the parameters, the same ones on all ranks.
        bucket_indices: lists of indices of parameters. The parameters of a list have one dtype.
        per_bucket_size_limits: size in bytes of each bucket. The first and the largest are used.
        process_group: the ranks.
        expect_sparse_gradients: accepted, and not used.
        bucket_bytes_cap: size in bytes of a bucket, if no size is given for each.
        find_unused_parameters: whether a step may leave parameters without gradients.
        gradient_as_bucket_view: whether gradients are views of the buckets.
        param_to_name_mapping: names of the parameters by their indices, for errors.
        first_bucket_bytes_cap: size in bytes of the first bucket, if no size is given for each.

    Raises:
        RuntimeError: if a list has parameters of several dtypes, or if the lists do not name each parameter once.
    """

    def __init__(
        self,
        params: Sequence[Tensor],
        bucket_indices: Sequence[Sequence[int]],
        per_bucket_size_limits: Sequence[int],
        process_group: ProcessGroup,
        expect_sparse_gradients: Sequence[bool] = (),
        bucket_bytes_cap: int = 25 * 2**20,
        find_unused_parameters: bool = False,
        gradient_as_bucket_view: bool = False,
        param_to_name_mapping: dict[int, str] | None = None,
        first_bucket_bytes_cap: int = _DEFAULT_FIRST_BUCKET_BYTES,
    ) -> None:
        if sorted(i for bucket in bucket_indices for i in bucket) != list(range(len(params))):
            raise RuntimeError("Expected bucket_indices to have each parameter once")
        for bucket in bucket_indices:
            if len({params[i].dtype for i in bucket}) > 1:
                raise RuntimeError("All parameters in a bucket must have the same dtype")
        limits = list(per_bucket_size_limits) or [first_bucket_bytes_cap, bucket_bytes_cap]
        names = param_to_name_mapping or {}
        on_tpu = any(parameter.device.type == "tpu" for parameter in params)
        self._finds_unused = find_unused_parameters
        self._reducer = _Reducer(
            process_group._engine,
            process_group._tensor_group() if on_tpu else None,
            [(names.get(i, str(i)), parameter) for i, parameter in enumerate(params)],
            limits[0],
            max(limits),
            find_unused_parameters,
            False,
            gradient_as_bucket_view,
        )

    def prepare_for_forward(self) -> None:
        """Begin a step."""
        self._reducer.begin()

    def prepare_for_backward(self, output: Tensor | Sequence[Tensor]) -> None:
        """Expect the gradients of parameters that `output` depends on. Call it between forward and backward."""
        outputs = [output] if not isinstance(output, (list, tuple)) else list(output)
        self._reducer.expect(outputs if self._finds_unused else None)


def _broadcast_coalesced(process_group: Any, tensors: list[Tensor], buffer_size: int, src: int = 0) -> None:
    """Copy tensors of a rank to all ranks, those of one dtype together.

    Args:
        process_group: the ranks.
        tensors: the tensors, in place.
        buffer_size: accepted, and not used.
        src: the rank in the group.
    """
    alike: dict[Any, list[Tensor]] = {}
    for tensor in tensors:
        alike.setdefault((tensor.dtype, tensor.device), []).append(tensor)
    for group in alike.values():
        _on_device(process_group, group[0]).broadcast(group, src, (False, None, None))


def _compute_bucket_assignment_by_size(
    tensors: Sequence[Tensor],
    bucket_size_limits: Sequence[int],
    expect_sparse_gradient: Sequence[bool] = (),
    tensor_indices: Sequence[int] = (),
) -> tuple[list[list[int]], list[int]]:
    """Divide tensors into buckets of one dtype each, and return the indices and the size limit of each bucket.

    A bucket is full when it reaches its limit. The first buckets of a dtype have the first limits, and further ones the
    last.

    Args:
        tensors: the tensors.
        bucket_size_limits: sizes in bytes.
        expect_sparse_gradient: accepted, and not used.
        tensor_indices: the indices to return. The default is the order of `tensors`.
    """
    full: list[tuple[list[int], int]] = []
    open_buckets: dict[Any, tuple[list[int], int]] = {}
    made: dict[Any, int] = {}
    for place, tensor in enumerate(tensors):
        kind = (tensor.dtype, tensor.device)
        limit = bucket_size_limits[min(made.get(kind, 0), len(bucket_size_limits) - 1)]
        indices, size = open_buckets.pop(kind, ([], 0))
        indices.append(tensor_indices[place] if tensor_indices else place)
        size += tensor.numel() * tensor.element_size()
        if size >= limit:
            full.append((indices, limit))
            made[kind] = made.get(kind, 0) + 1
        else:
            open_buckets[kind] = (indices, size)
    for kind, (indices, _) in open_buckets.items():
        full.append((indices, bucket_size_limits[min(made.get(kind, 0), len(bucket_size_limits) - 1)]))
    if not tensor_indices:
        full.sort(key=lambda bucket: bucket[0][0])
    return [indices for indices, _ in full], [limit for _, limit in full]
