"""Post-local SGD (Lin et al. 2018, arXiv:1808.07217): gradients are averaged within small groups of ranks.

A model averager, see `torch.distributed.algorithms.model_averaging`, then averages the parameters now and then.
"""

from __future__ import annotations

import pytpu as torch
from pytpu import distributed as dist

from .default_hooks import allreduce_hook

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ....futures import Future
    from ... import GradBucket, ProcessGroup

__all__ = ["PostLocalSGDState", "post_localSGD_hook"]


class PostLocalSGDState:
    """Settings of `post_localSGD_hook`.

    Args:
        process_group: the group of the first steps. `None` means the default one.
        subgroup: the group of the later steps. `None` means the ranks of this host.
        start_localSGD_iter: the number of first steps.
        post_local_gradient_allreduce: whether later steps average gradients at all.
    """

    def __init__(
        self,
        process_group: ProcessGroup | None,
        subgroup: ProcessGroup | None,
        start_localSGD_iter: int,
        post_local_gradient_allreduce: bool = True,
    ) -> None:
        self.process_group, self.subgroup = process_group, subgroup
        self.start_localSGD_iter = start_localSGD_iter
        self.post_local_gradient_allreduce = post_local_gradient_allreduce
        self.iter = 0


def post_localSGD_hook(state: PostLocalSGDState, bucket: GradBucket) -> Future:
    """Average gradients over all ranks in the first steps, and over the ranks of a subgroup later.

    Args:
        state: the settings.
        bucket: the gradients.

    Returns:
        A future of the averaged buffer.
    """
    is_first = state.iter < state.start_localSGD_iter
    state.iter += bucket.is_last()
    if is_first:
        return allreduce_hook(state.process_group, bucket)
    if state.post_local_gradient_allreduce:
        if state.subgroup is None:
            state.subgroup, _ = dist.new_subgroups()
        return allreduce_hook(state.subgroup, bucket)
    future: Future = torch.futures.Future()
    future.set_result(bucket.buffer())
    return future
