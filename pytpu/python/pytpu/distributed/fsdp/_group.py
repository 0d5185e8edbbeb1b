"""Parameters that are gathered and reduced together."""

from __future__ import annotations

import contextlib
import math

from ... import (
    _C,
    Tensor,
    _optimization_barrier,
    cat,
    empty,
    enable_grad,
    float16,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    uint8,
    zeros,
)
from ...autograd import Function
from .. import ReduceOp, all_gather_into_tensor, all_reduce, reduce_scatter_tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from ..distributed_c10d import ProcessGroup
    from ._mesh import FSDPMeshInfo
    from ._parameter import ShardedParameter
    from ._policies import MixedPrecisionPolicy
    from ._state import State

#: Each shard in a message begins at a multiple of this number of bytes, so that it can be viewed in its dtype.
_ALIGNMENT = 16


def _begin_gather(
    parts: Sequence[Tensor], group: ProcessGroup, is_again: bool, after: Tensor | None
) -> Callable[[], list[Tensor]]:
    """Begin to gather the parts of all ranks. Return a function that waits, and returns them, `(ranks * n, ...)`.

    A program gathers parts again only when it has computed `after`.
    """
    ranks = group.size()
    if ranks == 1:
        return lambda: [part.detach() for part in parts]
    if parts[0].device.type == "tpu":
        # The compiler must not take the values of the first gather, which would have to be kept.
        barred = [_optimization_barrier(part, after) if is_again else part for part in parts]
        gathered = [group._tensor_group().all_gather(part) for part in barred]
        return lambda: gathered
    places, total = [], 0
    for part in parts:
        size = part.numel() * part.element_size()
        places.append((total, size))
        total += -(-size // _ALIGNMENT) * _ALIGNMENT
    own = empty(total, dtype=uint8)
    for part, (start, size) in zip(parts, places):
        if size:
            own[start : start + size] = part.reshape(-1).view(uint8)
    everything = empty(ranks * total, dtype=uint8)
    work: Any = all_gather_into_tensor(everything, own, group=group, async_op=True)

    def finish() -> list[Tensor]:
        work.wait()
        rows = everything.view(ranks, total)
        result = []
        for part, (start, size) in zip(parts, places):
            sizes = (ranks * part.shape[0], *part.shape[1:])
            taken = rows[:, start : start + size].reshape(-1)
            result.append(taken.view(part.dtype).view(sizes) if size else empty(sizes, dtype=part.dtype))
        return result

    return finish


def _sum_over(gradient: Tensor, groups: Sequence[ProcessGroup]) -> Tensor:
    """Return the sum of a gradient over the ranks of each group."""
    for group in groups:
        if gradient.device.type == "tpu":
            gradient = group._tensor_group().all_reduce(gradient, int(ReduceOp.SUM))
        else:
            gradient = gradient.clone().contiguous()
            all_reduce(gradient, ReduceOp.SUM, group)
    return gradient


class Reduction:
    """Gradients that are being reduced.

    Args:
        group: the group of the parameters.
        parameters: those that have gradients of one dtype.
        gradients: the gradients.
    """

    def __init__(self, group: ParameterGroup, parameters: list[ShardedParameter], gradients: list[Tensor]) -> None:
        self.group, self.parameters = group, parameters
        replicas, scattering = group.info.replicas, group.info.shard_process_group
        is_mean = group.divide_factor is None and not group.sums
        self.op = ReduceOp.AVG if is_mean else ReduceOp.SUM
        self.divisor: float | None = None
        if not is_mean:
            self.divisor = group.divide_factor or scattering.size() * (1 if replicas is None else replicas.size())
        if self.divisor is not None and gradients[0].dtype == float16:
            # A sum of such numbers may be too large.
            gradients, self.divisor = [g / self.divisor for g in gradients], None
        chunks = [p.to_reduce(_sum_over(g, p.summed)) for p, g in zip(parameters, gradients)]
        self.works: list[Any] = []
        self.awaits_replicas = replicas is not None
        if group.reduction is not None:
            self.awaits_replicas, self.divisor = False, None
            self._call(group.reduction, chunks)
        elif scattering.size() == 1:
            self.parts = chunks
        elif chunks[0].device.type == "tpu":
            engine = scattering._tensor_group()
            self.parts = [engine.reduce_scatter(chunk, int(self.op)) for chunk in chunks]
        else:
            message = cat([chunk.reshape(scattering.size(), -1) for chunk in chunks], 1)
            output = empty(message.shape[1], dtype=message.dtype)
            self.works = [reduce_scatter_tensor(output, message.view(-1), self.op, scattering, async_op=True)]
            self.parts = self._split(output)

    def _split(self, parts: Tensor) -> list[Tensor]:
        """Return the parts of the parameters that are one after another in `parts`."""
        sizes = [p.chunk_sizes() for p in self.parameters]
        return [part.view(n) for part, n in zip(parts.split([math.prod(n) for n in sizes]), sizes)]

    def _call(self, reduce: Callable[..., None], chunks: list[Tensor]) -> None:
        """Let the user's function reduce the gradients."""
        ranks = self.group.info.shard_mesh_size
        message = cat([chunk.reshape(ranks, -1) for chunk in chunks], 1)
        if ranks == 1:
            reduce(message.view(-1))
            self.parts = self._split(message.view(-1))
            return
        output = empty(message.shape[1], dtype=message.dtype, device=message.device)
        reduce(message.view(-1), output)
        self.parts = self._split(output)

    def advance(self) -> bool:
        """Wait for the collectives in flight, and begin the next. Return whether the gradients are written."""
        for work in self.works:
            work.wait()
        self.works = []
        if self.awaits_replicas:
            self.awaits_replicas = False
            return self._reduce_replicas()
        for parameter, part in zip(self.parameters, self.parts):
            if self.divisor is not None:
                part = part / self.divisor
            self.group.call_hook(part)
            parameter.add_gradient(part)
        return True

    def _reduce_replicas(self) -> bool:
        replicas = self.group.info.replicas
        for i, parameter in enumerate(self.parameters):
            if parameter.partial is not None:
                self.parts[i], parameter.partial = parameter.partial + self.parts[i], None
        if not self.group.reduces_replicas:
            for parameter, part in zip(self.parameters, self.parts):
                parameter.partial = part
            return True
        if replicas is None or replicas.size() == 1:
            return self.advance()
        if self.parts[0].device.type == "tpu":
            engine = replicas._tensor_group()
            self.parts = [engine.all_reduce(part, int(self.op)) for part in self.parts]
            return self.advance()
        self.parts = [part.contiguous() for part in self.parts]
        self.works = [all_reduce(part, self.op, replicas, async_op=True) for part in self.parts]
        return False


class _Use(Function):
    """Gathered parameters as a function of the shards. Its backward reduces the gradients."""

    @staticmethod
    def forward(
        ctx: Any, group: ParameterGroup, trained: list[ShardedParameter], values: list[Tensor], *shards: Tensor
    ) -> tuple[Tensor, ...]:
        """Return the gathered values."""
        ctx.group, ctx.trained = group, trained
        ctx.set_materialize_grads(False)
        return tuple(values)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[None, ...]:
        """Give the gradients to the group. Those of the shards are written when they are reduced."""
        ctx.group.after_backward(ctx.trained, gradients)
        return (None,) * (3 + len(ctx.trained))


class ParameterGroup:
    """Parameters that are gathered and reduced together.

    Args:
        parameters: the parameters.
        info: the mesh that they are sharded over.
        policy: the dtypes.
    """

    def __init__(self, parameters: list[ShardedParameter], info: FSDPMeshInfo, policy: MixedPrecisionPolicy) -> None:
        self.parameters, self.info, self.policy = parameters, info, policy
        self.tree: Tree | None = None
        #: The name of the module in the root, once that is known.
        self.module_name: str | None = None
        self.reshards_after_forward = self.reshards_after_backward = True
        #: The ranks that keep the parameters together after forward, if they are fewer than those of the mesh.
        self.keepers: ProcessGroup | None = None
        #: The parts of the parameters that this rank keeps after forward.
        self._kept: list[Tensor] | None = None
        self.syncs = self.reduces_replicas = self.unshards_in_backward = True
        self.reduces_unused = self.sums = False
        #: Whether the next group is gathered early. On device `tpu` the compiler decides.
        self.prefetches = info.mesh.device_type != "tpu"
        self.divide_factor: float | None = None
        #: The user's function that reduces gradients, if there is one.
        self.reduction: Callable[..., None] | None = None
        self.reduced_hook: Callable[[Tensor], None] | None = None
        #: The stream that is current while the hook runs.
        self.hook_stream: Any = None
        self.reductions_in_flight = 1
        #: Whether backward has reached the outputs, and not yet all parameters.
        self.is_in_backward = False
        self._finish_gather: Callable[[], list[Tensor]] | None = None
        self._values: list[Tensor] | None = None
        self._placed: list[Tensor] | None = None
        self._has_history = False
        #: The versions of the sharded parameters that were gathered.
        self._versions: list[int] = []
        self._is_inference = False

    # PyTorch's tests read these names.

    @property
    def _module_fqn(self) -> str | None:
        """The name of the module in the root, once that is known."""
        return self.module_name

    @property
    def fsdp_params(self) -> list[ShardedParameter]:
        """The parameters."""
        return self.parameters

    @property
    def is_sharded(self) -> bool:
        """Whether the modules have the sharded parameters."""
        return self._placed is None

    def call_hook(self, gradient: Tensor) -> None:
        """Call the user's function with the reduced gradient of a shard."""
        if self.reduced_hook is not None:
            with contextlib.nullcontext() if self.hook_stream is None else self.hook_stream:
                self.reduced_hook(gradient)

    def begin_gather(self) -> None:
        """Begin to gather the parameters, unless they are there."""
        if self._values is not None or self._finish_gather is not None or not self.parameters:
            return
        with no_grad():
            for parameter in self.parameters:
                parameter.take_current()
            self._check_device()
            self._is_inference = is_inference_mode_enabled()
            after = None if self.tree is None else self.tree.reduced_before(self.reductions_in_flight)
            if self._kept is not None and self.keepers is not None:
                self._finish_gather = _begin_gather(self._kept, self.keepers, self.is_in_backward, after)
                return
            self._versions = [parameter.sharded._version for parameter in self.parameters]
            parts = [parameter.to_gather() for parameter in self.parameters]
            device = self.info.mesh.device_type
            parts = [part if part.device.type == device else part.to(device) for part in parts]
            self._finish_gather = _begin_gather(parts, self.info.shard_process_group, self.is_in_backward, after)

    def _check_device(self) -> None:
        on_meta = [p.name for p in self.parameters if p.local().device.type == "meta"]
        if on_meta:
            raise RuntimeError(
                "FSDP parameters should be materialized from meta device before training, but the following were "
                f"still on meta device: {on_meta}\nFor example, call module.to_empty(device) to materialize to device "
                "and call module.reset_parameters() on each module to initialize values."
            )
        elsewhere = [(p.name, p.local().device) for p in self.parameters if p.local().device.type != p.device_type]
        if elsewhere and self.parameters[0].is_offloaded:
            raise RuntimeError(
                "FSDP parameters should be materialized on CPU when enabling CPU offloading. For example, load a CPU "
                'state dict or call module.to_empty(device="cpu"). Found following parameters on non-CPU device: '
                f"{elsewhere}\n"
            )

    def values(self) -> list[Tensor]:
        """Return the gathered values, without history."""
        if self._values is None:
            self.begin_gather()
            finish, self._finish_gather = self._finish_gather, None
            with no_grad():
                chunks = [] if finish is None else finish()
                keepers = self.keepers if self._kept is not None else None
                ranks = self.info.shard_mesh_size if keepers is None else keepers.size()
                self._values = [p.from_gathered(chunk, ranks) for p, chunk in zip(self.parameters, chunks)]
                self._kept = None
        return self._values

    def place(self) -> list[Tensor]:
        """Make the gathered values the parameters of the modules. They have history if it is recorded."""
        if self._placed is not None and (self._has_history or not is_grad_enabled()):
            return self._placed
        values = [value.detach() for value in self.values()]
        trained = [i for i, p in enumerate(self.parameters) if p.sharded.requires_grad]
        self._has_history = is_grad_enabled()
        if self._has_history and trained:
            shards = [self.parameters[i].sharded for i in trained]
            parameters = [self.parameters[i] for i in trained]
            used = _Use.apply(self, parameters, [values[i] for i in trained], *shards)
            for i, value in zip(trained, used):
                values[i] = value
        self._placed = [p.as_parameter(value) for p, value in zip(self.parameters, values)]
        for parameter, placed in zip(self.parameters, self._placed):
            parameter.put(placed)
        return self._placed

    def again(self, i: int) -> Tensor:
        """Return parameter `i` for a node that has saved it. It is gathered again if it is not there."""
        values = self.values()
        with no_grad():
            return self.parameters[i].as_parameter(values[i].detach())

    def reshard(self) -> None:
        """Give the modules the sharded parameters back, and free the gathered values."""
        if self._finish_gather is not None:
            self._finish_gather()
            self._finish_gather = None
        if self._placed is not None:
            for parameter in self.parameters:
                parameter.put(parameter.sharded)
        self._values = self._placed = self._kept = None
        self._has_history = False

    def reshard_after_forward(self) -> None:
        """Free the gathered values. Of parameters that fewer ranks keep, this rank keeps its part."""
        kept = None
        if self.keepers is not None and self._values is not None:
            ranks, rank = self.keepers.size(), self.keepers.rank()
            with no_grad():
                kept = [p.kept_part(value, ranks, rank) for p, value in zip(self.parameters, self._values)]
        self.reshard()
        self._kept = kept

    def drop_outdated(self) -> None:
        """Free gathered values that were made in inference mode, or before a write to the sharded parameters."""
        has_none = self._values is None and self._finish_gather is None and self._kept is None
        if self.is_in_backward or has_none:
            return
        versions = [parameter.sharded._version for parameter in self.parameters]
        if versions != self._versions or self._is_inference != is_inference_mode_enabled():
            self.reshard()

    def drop_unused(self) -> None:
        """Free gathered values that no module has. What is kept after forward stays."""
        if self._placed is None:
            kept = self._kept
            self.reshard()
            self._kept = kept

    def before_backward(self) -> None:
        """Gather the parameters, because backward has reached the outputs."""
        self.is_in_backward = True
        if self.unshards_in_backward:
            with enable_grad():
                self.place()

    def after_backward(self, trained: list[ShardedParameter], gradients: Sequence[Tensor | None]) -> None:
        """Reduce the gradients of the parameters with history, and reshard."""
        with no_grad():
            self._add(trained, gradients)
            self.is_in_backward = False
            # The history has been used. The next forward makes its own.
            self._has_history = False
            if self.reshards_after_backward:
                self.reshard()
            if self.tree is not None:
                self.tree.ends_backward()
            if self.syncs:
                self._reduce(trained)

    def _add(self, trained: list[ShardedParameter], gradients: Sequence[Tensor | None]) -> None:
        for parameter, gradient in zip(trained, gradients):
            if gradient is None:
                continue
            gradient = gradient.detach()
            dtype = self.policy.reduce_dtype
            if dtype is not None and gradient.dtype != dtype:
                gradient = gradient.to(dtype)
            before = parameter.unreduced
            parameter.unreduced = gradient if before is None else before + gradient

    def _reduce(self, trained: list[ShardedParameter]) -> None:
        by_dtype: dict[Any, list[ShardedParameter]] = {}
        for parameter in trained:
            if parameter.unreduced is None and self.reduces_unused:
                dtype = self.policy.reduce_dtype or parameter.gathered_dtype
                parameter.unreduced = zeros(parameter.whole_sizes, dtype=dtype, device=self.info.mesh.device_type)
            if parameter.unreduced is not None:
                by_dtype.setdefault(parameter.unreduced.dtype, []).append(parameter)
        for parameters in by_dtype.values():
            gradients: list[Any] = []
            for parameter in parameters:
                gradients.append(parameter.unreduced)
                parameter.unreduced = None
            reduction = Reduction(self, parameters, gradients)
            if self.tree is None or gradients[0].device.type == "tpu":
                while not reduction.advance():
                    pass
                if self.tree is not None:
                    self.tree.note_recorded(reduction)
            else:
                self.tree.add(reduction, self.reductions_in_flight)


class Tree:
    """The groups below one root module, and what they do in a step."""

    def __init__(self) -> None:
        self.groups: list[ParameterGroup] = []
        #: The states, the root first.
        self.all_states: list[State] = []
        self._reductions: list[Reduction] = []
        #: A gradient of each reduction of this backward pass that was recorded, on device `tpu`.
        self._recorded: list[Tensor] = []
        #: The groups in the order of their forwards, in this step and in the last.
        self._order: list[ParameterGroup] = []
        self._last_order: list[ParameterGroup] = []
        #: The groups whose backward is to come, in the order of their forwards.
        self._uses: list[ParameterGroup] = []
        self._is_scheduled = False
        #: Whether the user ends backward passes by a call.
        self.is_manual = False

    def add(self, reduction: Reduction, limit: int) -> None:
        """Let earlier reductions proceed, so that few gradients are kept, and add one."""
        self._reductions = [each for each in self._reductions if not each.advance()]
        while len(self._reductions) > limit:
            self._finish_first()
        self._reductions.append(reduction)

    def note_recorded(self, reduction: Reduction) -> None:
        """Remember a reduction in the recorded program."""
        self._recorded.append(reduction.parts[-1])

    def reduced_before(self, limit: int) -> Tensor | None:
        """Return a gradient of the reduction before the last `limit` ones.

        Gathers that wait for it keep the compiler from leaving gradients of many groups whole.
        """
        return self._recorded[-1 - limit] if len(self._recorded) > limit else None

    def _finish_first(self) -> None:
        first = self._reductions.pop(0)
        while not first.advance():
            pass

    def begins_forward(self) -> None:
        """Forget a backward pass that has failed, and the order of the last step."""
        if _C._current_graph_task_id() == -1:
            self._uses.clear()
            self._order.clear()
            if self._is_scheduled:
                self.forget()

    def forget(self) -> None:
        """Forget a backward pass, and gradients that are not reduced."""
        self._is_scheduled = False
        self._reductions.clear()
        self._recorded.clear()
        self._uses.clear()
        for group in self.groups:
            group.is_in_backward = False
            group.reshard()
            for parameter in group.parameters:
                parameter.unreduced = parameter.partial = None

    def enters(self, group: ParameterGroup) -> None:
        """Begin to gather the group that came next in the last step."""
        if group.is_in_backward:
            return
        at = len(self._order)
        self._order.append(group)
        if at + 1 < len(self._last_order) and self._last_order[at] is group and group.prefetches:
            self._last_order[at + 1].begin_gather()

    def leaves(self, group: ParameterGroup) -> None:
        """Remember that the backward of a group is to come."""
        if not group.is_in_backward:
            self._uses.append(group)

    def ends_forward(self) -> None:
        """Drop parameters that were gathered early and not used."""
        self._last_order, self._order = self._order, []
        for group in self.groups:
            group.drop_unused()

    def enters_backward(self, group: ParameterGroup, prefetches: bool) -> None:
        """Gather a group in backward, and if `prefetches`, begin to gather the one whose backward comes next."""
        self.ends_backward()
        group.before_backward()
        for at in range(len(self._uses) - 1, -1, -1):
            if self._uses[at] is group:
                del self._uses[at:]
                if at > 0 and prefetches and group.prefetches:
                    self._uses[-1].begin_gather()
                return

    def ends_backward(self) -> None:
        """Make sure that `finish` is called when the backward pass ends."""
        if not self._is_scheduled and _C._current_graph_task_id() != -1:
            self._is_scheduled = True
            if not self.is_manual:
                _C._at_end_of_backward(self.finish)

    def finish(self) -> None:
        """Write all gradients, and reshard the groups that backward did not come to an end of."""
        self._is_scheduled = False
        self._recorded.clear()
        while self._reductions:
            self._finish_first()
        for group in self.groups:
            group.is_in_backward = False
            if group.reshards_after_backward:
                group.reshard()
