"""PowerSGD: gradients are sent as products of two thin matrices (Vogels et al. 2019, arXiv:1905.13727).

A gradient `m` of shape `(n, k)` is replaced by `p @ q.T` with `p` of shape `(n, r)`. One step of subspace
iteration, whose sums run over all ranks, finds the factors. The error is added to the next gradient.
"""

from __future__ import annotations

import math

import pytpu as torch
from pytpu import distributed as dist

from .default_hooks import allreduce_hook

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ....futures import Future
    from ... import GradBucket, ProcessGroup

__all__ = ["PowerSGDState", "batched_powerSGD_hook", "powerSGD_hook"]


class PowerSGDState:
    """Settings and memory of the PowerSGD hooks.

    Args:
        process_group: the group. `None` means the default one.
        matrix_approximation_rank: the number of columns of the thin matrices.
        start_powerSGD_iter: the number of steps before, which average the whole gradients.
        min_compression_rate: gradients are compressed if they become this much smaller.
        use_error_feedback: whether the error is added to the next gradient.
        warm_start: whether the search begins with the matrices of the step before.
        orthogonalization_epsilon: a number that is added to norms.
        random_seed: the seed of the first matrices, equal on all ranks.
        compression_stats_logging_frequency: not used.
        batch_tensors_with_same_shape: not used.
    """

    def __init__(
        self,
        process_group: ProcessGroup | None,
        matrix_approximation_rank: int = 1,
        start_powerSGD_iter: int = 1_000,
        min_compression_rate: float = 2,
        use_error_feedback: bool = True,
        warm_start: bool = True,
        orthogonalization_epsilon: float = 0,
        random_seed: int = 0,
        compression_stats_logging_frequency: int = 10_000,
        batch_tensors_with_same_shape: bool = False,
    ) -> None:
        if (use_error_feedback or warm_start) and start_powerSGD_iter <= 1:
            raise ValueError(
                "Expect `start_powerSGD_iter` > 1 if `use_error_feedback` or `warm_start` is enabled, because PowerSGD "
                "can only be applied after the first two iterations in DDP."
            )
        self.process_group = process_group
        self.matrix_approximation_rank = matrix_approximation_rank
        self.start_powerSGD_iter = start_powerSGD_iter
        self.min_compression_rate = min_compression_rate
        self.use_error_feedback, self.warm_start = use_error_feedback, warm_start
        self.orthogonalization_epsilon = orthogonalization_epsilon
        self.random_seed = random_seed
        self.compression_stats_logging_frequency = compression_stats_logging_frequency
        self.batch_tensors_with_same_shape = batch_tensors_with_same_shape
        self.iter = 0
        #: Errors of the last step, and right matrices, by the number of the bucket.
        self.error_dict: dict[int, torch.Tensor] = {}
        self.q_memory_dict: dict[int, list[torch.Tensor]] = {}
        self._generator = torch.Generator().manual_seed(random_seed)

    def __getstate__(self) -> dict[str, object]:
        state = dict(self.__dict__, _generator=self._generator.get_state())
        del state["process_group"]
        return state

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state, process_group=dist.group.WORLD)
        self._generator = torch.Generator()
        self._generator.set_state(state["_generator"])

    def _count_step(self, bucket: GradBucket) -> bool:
        """Note that a bucket is reduced, and return whether it is compressed."""
        is_compressed = self.iter >= self.start_powerSGD_iter
        self.iter += bucket.is_last()
        return is_compressed

    def _first_right(self, like: torch.Tensor, columns: int) -> torch.Tensor:
        """Return random numbers that are the same on all ranks, `(like.shape[1], columns)`."""
        drawn = torch.randn(like.shape[1], columns, generator=self._generator)
        return drawn.to(like.device, like.dtype)

    def _with_error(self, bucket: GradBucket) -> torch.Tensor:
        """Return the gradients of a bucket and the error of the last step, added."""
        error = self.error_dict.get(bucket.index())
        buffer = bucket.buffer()
        if error is not None and error.shape == buffer.shape:
            buffer.add_(error)
        return buffer

    def _rights(self, bucket: GradBucket, matrices: list[torch.Tensor]) -> list[torch.Tensor]:
        """Return the matrices with which the search begins, for each gradient."""
        shapes = [(m.shape[1], _columns(m, self.matrix_approximation_rank)) for m in matrices]
        known = self.q_memory_dict.get(bucket.index(), [])
        if self.warm_start and [tuple(q.shape) for q in known] == shapes:
            return known
        return [self._first_right(m, columns) for m, (_, columns) in zip(matrices, shapes, strict=True)]

    def _approximate(self, bucket: GradBucket, matrices: list[torch.Tensor]) -> list[torch.Tensor]:
        """Return the averaged approximations of matrices."""
        rights = [_orthogonal(q, self.orthogonalization_epsilon) for q in self._rights(bucket, matrices)]
        lefts = _means(self.process_group, [m @ q for m, q in zip(matrices, rights, strict=True)])
        lefts = [_orthogonal(p, self.orthogonalization_epsilon) for p in lefts]
        rights = _means(self.process_group, [m.T @ p for m, p in zip(matrices, lefts, strict=True)])
        if self.warm_start:
            self.q_memory_dict[bucket.index()] = rights
        return [p @ q.T for p, q in zip(lefts, rights, strict=True)]


def _columns(matrix: torch.Tensor, rank: int) -> int:
    return min(rank, *matrix.shape)


def _orthogonal(matrix: torch.Tensor, epsilon: float) -> torch.Tensor:
    """Return a matrix whose columns are orthonormal and span those of `matrix`."""
    wide = matrix.float()
    if epsilon == 0:
        return torch.linalg.qr(wide)[0].to(matrix.dtype)
    # Gram-Schmidt. With `epsilon`, columns that depend on others become small instead of being replaced.
    columns: list[torch.Tensor] = []
    for column in wide.unbind(1):
        for other in columns:
            column = column - (other @ column) * other
        columns.append(column / (column.norm() + epsilon))
    return torch.stack(columns, 1).to(matrix.dtype)


def _means(group: ProcessGroup | None, matrices: list[torch.Tensor]) -> list[torch.Tensor]:
    """Average matrices over the ranks, by one collective."""
    if not matrices:
        return []
    row = torch.cat([m.reshape(-1) for m in matrices])
    dist.all_reduce(row, dist.ReduceOp.AVG, group=group)
    return [part.view(m.shape) for part, m in zip(row.split([m.numel() for m in matrices]), matrices, strict=True)]


def _finish(state: PowerSGDState, bucket: GradBucket, wanted: torch.Tensor) -> Future:
    """Keep the error of this rank, and return a future of the reduced buffer."""
    if state.use_error_feedback:
        state.error_dict[bucket.index()] = wanted - bucket.buffer()
    future: Future = torch.futures.Future()
    future.set_result(bucket.buffer())
    return future


def powerSGD_hook(state: PowerSGDState, bucket: GradBucket) -> Future:
    """Average gradients whose matrices are approximated by thin ones. Vectors are averaged as they are.

    Args:
        state: the settings and the memory.
        bucket: the gradients.

    Returns:
        A future of the averaged buffer.
    """
    if not state._count_step(bucket):
        return allreduce_hook(state.process_group, bucket)
    buffer = state._with_error(bucket)
    compressed, others = [], []
    for gradient in bucket.gradients():
        matrix = gradient.view(gradient.shape[0], -1) if gradient.dim() > 1 else gradient.view(1, -1)
        sent = sum(matrix.shape) * _columns(matrix, state.matrix_approximation_rank)
        is_smaller = gradient.dim() > 1 and sent * state.min_compression_rate < matrix.numel()
        (compressed if is_smaller else others).append(matrix)
    _write(others, _means(state.process_group, others))
    # Gradients that are averaged as they are have no error.
    wanted = buffer.clone()
    _write(compressed, state._approximate(bucket, compressed))
    return _finish(state, bucket, wanted)


def _write(matrices: list[torch.Tensor], values: list[torch.Tensor]) -> None:
    for matrix, value in zip(matrices, values, strict=True):
        matrix.copy_(value)


def batched_powerSGD_hook(state: PowerSGDState, bucket: GradBucket) -> Future:
    """Average gradients whose bucket is one square matrix, which is approximated by thin ones.

    Args:
        state: the settings and the memory.
        bucket: the gradients.

    Returns:
        A future of the averaged buffer.
    """
    if not state._count_step(bucket):
        return allreduce_hook(state.process_group, bucket)
    buffer = state._with_error(bucket)
    wanted, side = buffer.clone(), math.ceil(math.sqrt(buffer.numel()))
    square = torch.nn.functional.pad(wanted, (0, side * side - buffer.numel())).view(side, side)
    (found,) = state._approximate(bucket, [square])
    buffer.copy_(found.view(-1)[: buffer.numel()])
    return _finish(state, bucket, wanted)
