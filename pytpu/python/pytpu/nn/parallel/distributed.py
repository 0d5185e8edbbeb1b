"""Data parallel training in several processes."""

from __future__ import annotations

import contextlib
import dataclasses
import os

import pytpu as torch

from ..modules.batchnorm import SyncBatchNorm
from ..modules.module import Module
from .scatter_gather import scatter_kwargs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

    from ..._C import _Reducer
    from ...distributed import ProcessGroup
    from ...distributed._grad_bucket import BuiltinCommHookType, GradBucket
    from ...distributed.algorithms.join import JoinHook
    from ...distributed.device_mesh import DeviceMesh
    from ...futures import Future

    Device = str | int | torch.device | None

__all__ = ["DistributedDataParallel"]

_MB_TO_BYTES = 1 << 20
#: Size in MiB of a bucket, if none is given.
_DEFAULT_BUCKET_CAP_MB = 25
#: Size in bytes of the first bucket. It is small, so that its reduction starts early in backward.
_FIRST_BUCKET_BYTES = _MB_TO_BYTES


def _dump_DDP_relevant_env_vars() -> None:
    """Print the environment variables by which ranks find each other, and those that PyTorch prints."""
    launched = "RANK LOCAL_RANK WORLD_SIZE MASTER_PORT MASTER_ADDR CUDA_VISIBLE_DEVICES GLOO_SOCKET_IFNAME"
    detail = "TORCH_DISTRIBUTED_DEBUG NCCL_SOCKET_IFNAME NCCL_DEBUG NCCL_TOPO_DUMP_FILE TORCH_NCCL_ASYNC_ERROR_HANDLING"
    for name in f"{launched} {detail}".split():
        print(f"env:{name}={os.environ.get(name, 'N/A')}")


def _tensors_in(structure: Any) -> list[torch.Tensor]:
    """Return the tensors in the output of a module."""
    if isinstance(structure, torch.Tensor):
        return [structure]
    if isinstance(structure, dict):
        parts: Iterable[Any] = structure.values()
    elif isinstance(structure, (list, tuple)):
        parts = structure
    elif dataclasses.is_dataclass(structure) and not isinstance(structure, type):
        parts = [getattr(structure, field.name) for field in dataclasses.fields(structure)]
    else:
        return []
    return [tensor for part in parts for tensor in _tensors_in(part)]


def _by_kind(tensors: Iterable[torch.Tensor]) -> list[list[torch.Tensor]]:
    """Group tensors by device and dtype, so that one collective can take a group."""
    groups: dict[Any, list[torch.Tensor]] = {}
    for tensor in tensors:
        groups.setdefault((tensor.device, tensor.dtype), []).append(tensor.detach())
    return list(groups.values())


def _check_same_shapes(group: ProcessGroup, parameters: Sequence[torch.Tensor]) -> None:
    """Raise an error on all ranks if the parameters of rank 0 have other shapes than those of another rank."""
    from ...distributed import all_gather_object

    rank = group.rank()
    lists: list[Any] = [None] * group.size()
    all_gather_object(lists, [tuple(p.shape) for p in parameters], group=group)
    for other, shapes in enumerate(lists):
        if len(shapes) != len(lists[0]):
            raise RuntimeError(
                f"DDP expects same model across all ranks, but Rank {rank} has {len(lists[rank])} params, "
                f"while rank {other if rank == 0 else 0} has inconsistent "
                f"{len(shapes) if rank == 0 else len(lists[0])} params."
            )
    for other, shapes in enumerate(lists):
        for i, (first, own) in enumerate(zip(lists[0], shapes, strict=True)):
            if first != own:
                raise RuntimeError(
                    f"[{rank}]: params[{i}] of rank {other} with sizes {list(own)} appears not to match sizes "
                    f"{list(first)} of the same param in process 0."
                )


class DistributedDataParallel(Module):
    """Average the gradients of a module over the processes of a group during backward.

    Each process computes with its own part of a batch. The parameters are those of rank 0 at first, and stay equal on
    all ranks because all apply the same gradients.

    On device `cpu`, gradients are reduced in buckets while backward goes on. On device `tpu`, each gradient has an
    all-reduce in the recorded program, and the compiler schedules it.

    Args:
        module: Module to wrap. It is attribute `module` of the result.
        device_ids: `None`, or a list with the device of the module if that is not `cpu`. Inputs are then
            moved to it.
        output_device: `None`, or the device of the module.
        dim: Not used.
        broadcast_buffers: Whether buffers are copied from rank 0 before each synchronised forward call.
        init_sync: Whether parameters are compared and copied from rank 0 now.
        process_group: Group of the ranks. `None` means the default group.
        bucket_cap_mb: Size in MiB of a bucket. `None` means 25. The first bucket has at most 1 MiB.
        find_unused_parameters: Whether a step may leave parameters without gradients.
        check_reduction: Not used.
        gradient_as_bucket_view: Whether gradients are views of the buckets, which saves a copy.
        static_graph: Whether all steps use the same parameters equally often. Parameters may then be used in several
            checkpointed blocks, or not at all.
        delay_all_reduce_named_params: Not supported.
        param_to_hook_all_reduce: Not supported.
        mixed_precision: Not supported.
        device_mesh: A mesh with one dimension, in place of `process_group`.

    Attributes:
        module: The wrapped module.

    Raises:
        ValueError: There is no process group, or `device_ids` do not fit.
        RuntimeError: No parameter requires a gradient, or the ranks have different parameters.
        NotImplementedError: An argument is not supported.

    Example:
        >>> import pytpu as torch
        >>> import torch.distributed as dist
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 3))
        >>> model(torch.randn(4, 2)).sum().backward()
        >>> model.module.bias.grad
        tensor([4., 4., 4.])
        >>> dist.destroy_process_group()
    """

    _is_ddp = True

    def __init__(
        self,
        module: Module,
        device_ids: Sequence[int | torch.device] | None = None,
        output_device: int | torch.device | None = None,
        dim: int = 0,
        broadcast_buffers: bool = True,
        init_sync: bool = True,
        process_group: ProcessGroup | None = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        delay_all_reduce_named_params: Iterable[tuple[str, torch.nn.Parameter]] | None = None,
        param_to_hook_all_reduce: torch.nn.Parameter | None = None,
        mixed_precision: Any = None,
        device_mesh: DeviceMesh | None = None,
    ) -> None:
        from ...distributed import distributed_c10d as c10d
        from ...distributed.algorithms.join import _JoinState

        super().__init__()
        self._join_state = _JoinState()
        #: The text of the last refused setting or communication hook.
        self._error = ""
        if process_group is not None and device_mesh is not None:
            raise RuntimeError("Cannot specify both process_group and device_mesh arguments.")
        for name, given in {
            "delay_all_reduce_named_params": delay_all_reduce_named_params,
            "param_to_hook_all_reduce": param_to_hook_all_reduce,
            "mixed_precision": mixed_precision,
        }.items():
            if given is not None:
                raise NotImplementedError(f"DistributedDataParallel: {name} is not implemented")
        if device_mesh is not None:
            if device_mesh.ndim != 1:
                raise RuntimeError(f"Only 1D device mesh is supported, but got {device_mesh}.")
            process_group = device_mesh.get_group(mesh_dim=0)
        self.device_mesh = device_mesh
        self.process_group = c10d._get_default_group() if process_group is None else process_group
        ignored = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        self.parameters_to_ignore = ignored
        trained = [(name, p) for name, p in module.named_parameters() if p.requires_grad and name not in ignored]
        if not trained:
            raise RuntimeError(
                "DistributedDataParallel is not needed when a module doesn't have any parameters that require a "
                "gradient."
            )
        if any(getattr(p, "_in_backward_optimizers", None) for _, p in trained):
            raise NotImplementedError(
                "DistributedDataParallel: parameters have optimizers that step within backward "
                "(_apply_optimizer_in_backward), before the gradients of all ranks are averaged. Step an optimizer "
                "after backward instead."
            )
        self.module = module
        self.device = trained[0][1].device
        self._check_devices(device_ids, output_device, {p.device for _, p in trained})
        self.dim, self.broadcast_buffers = dim, broadcast_buffers
        self.find_unused_parameters, self.static_graph = find_unused_parameters, static_graph
        self.gradient_as_bucket_view, self.bucket_cap_mb = (
            gradient_as_bucket_view,
            bucket_cap_mb or _DEFAULT_BUCKET_CAP_MB,
        )
        self.require_backward_grad_sync = self.require_forward_param_sync = True
        self._divides_by_all = True
        if init_sync:
            _check_same_shapes(self.process_group, [p for _, p in trained])
            state = [t for name, t in module.state_dict(keep_vars=True).items() if name not in ignored]
            self._copy_from(0, [t for t in state if isinstance(t, torch.Tensor)])
        self._make_reducer()

    def _check_devices(self, device_ids, output_device, devices):
        if len({device.type for device in devices}) > 1:
            kinds = {device.type for device in devices}
            raise ValueError(
                "DistributedDataParallel's input module must be on the same type of devices, but input module "
                f"parameters locate in {kinds}."
            )
        if device_ids is not None and len(device_ids) > 1:
            raise ValueError("device_ids can only be None or contain a single element.")
        if (device_ids or output_device is not None) and (self.device.type == "cpu" or len(devices) > 1):
            raise ValueError(
                "DistributedDataParallel device_ids and output_device arguments only work with "
                "single-device/multiple-device GPU modules or CPU modules, "
                f"but got device_ids {device_ids}, output_device {output_device}, and module parameters {devices}."
            )
        self.device_ids = [self.device.index or 0] if device_ids else None
        self.output_device = self.device.index or 0 if device_ids else None

    def _trained(self) -> list[tuple[str, torch.Tensor]]:
        """Return the parameters that are averaged, with their names."""
        named = self.module.named_parameters()
        return [(name, p) for name, p in named if p.requires_grad and name not in self.parameters_to_ignore]

    def _make_reducer(self) -> None:
        from ..._C import _Reducer

        trained = self._trained()
        self._parameters_by_number = [p for _, p in trained]
        self.reducer: _Reducer = _Reducer(
            self.process_group._engine,
            self.process_group._tensor_group() if self.device.type == "tpu" else None,
            trained,
            min(_FIRST_BUCKET_BYTES, int(self.bucket_cap_mb * _MB_TO_BYTES)),
            int(self.bucket_cap_mb * _MB_TO_BYTES),
            self.find_unused_parameters,
            self.static_graph,
            self.gradient_as_bucket_view,
        )

    def _copy_from(self, source: int, tensors: Iterable[torch.Tensor]) -> None:
        """Copy tensors of a rank of the group to all ranks."""
        from ...distributed._methods import _on_device

        for group in _by_kind(tensors):
            _on_device(self.process_group, group[0]).broadcast(group, source, (False, None, None))

    def _synchronised_buffers(self) -> list[torch.Tensor]:
        ignored = self.parameters_to_ignore
        return [buffer for name, buffer in self.module.named_buffers() if name not in ignored]

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Return the result of the wrapped module, whose backward averages gradients.

        Args:
            *inputs: Its arguments.
            **kwargs: Its keyword arguments.

        Returns:
            Its result.

        Raises:
            RuntimeError: Parameters got no gradient in the step before, although `find_unused_parameters` is off.
        """
        inputs, kwargs, is_step = self._begin_forward(inputs, kwargs)
        return self._end_forward(self.module(*inputs, **kwargs), is_step)

    def _begin_forward(self, inputs: Any, kwargs: Any) -> tuple[Any, Any, bool]:
        """Prepare a forward. Return its arguments on the device, and whether its backward averages gradients."""
        is_step = torch.is_grad_enabled() and self.require_backward_grad_sync
        if self._join_state.is_joined:
            self._tell_joined(is_step)
        if is_step:
            self.reducer.begin()
        if self.require_forward_param_sync and self.broadcast_buffers:
            source = self._buffer_source()
            if source is not None:
                self._copy_from(source, self._synchronised_buffers())
        if self.device_ids:
            (inputs,), (kwargs,) = scatter_kwargs(inputs, kwargs, self.device_ids)
        return inputs, kwargs, is_step

    def _end_forward(self, output: Any, is_step: bool) -> Any:
        """Prepare the backward of a forward, and return its output."""
        if torch.is_grad_enabled():
            self.require_forward_param_sync = self.require_backward_grad_sync
        if is_step:
            finds = self.find_unused_parameters and not self.static_graph
            self.reducer.expect(_tensors_in(output) if finds else None)
        return output

    def _buffer_source(self) -> int | None:
        """Return the rank whose buffers all ranks take, or `None` without buffers."""
        if not self._synchronised_buffers():
            return None
        return self._last_active(True) if self._join_state.is_joined else 0

    def _tell_joined(self, is_step: bool) -> None:
        """Tell ranks without data that a step begins, and whether it averages gradients."""
        from ...distributed import get_world_size
        from ...distributed.algorithms.join import Join

        work = Join.notify_join_context(self)
        if work is not None:
            work.wait()
        if not self._divides_by_all:
            self.reducer.set_divisor(int(self._sum(1).item()))
        else:
            self.reducer.set_divisor(get_world_size(self.process_group))
        self._sum(int(is_step))

    def _sum(self, number: int) -> torch.Tensor:
        from ...distributed import all_reduce

        total = torch.tensor([number], device=self.device)
        all_reduce(total, group=self.process_group)
        return total

    def _last_active(self, is_active: bool) -> int:
        """Return the highest rank of the group that is active."""
        from ...distributed import ReduceOp, all_reduce

        rank = torch.tensor([self.process_group.rank() if is_active else -1], device=self.device)
        all_reduce(rank, ReduceOp.MAX, group=self.process_group)
        return int(rank.item())

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Return a context in which backward only adds to the gradients of this process.

        The first synchronised step after it averages the sums. The forward call must be in the context, too.

        Example:
            >>> with model.no_sync():  # doctest: +SKIP
            ...     model(batch1).sum().backward()
            >>> model(batch2).sum().backward()  # doctest: +SKIP
        """
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def join(
        self, divide_by_initial_world_size: bool = True, enable: bool = True, throw_on_early_termination: bool = False
    ) -> Any:
        """Return a context in which ranks may have different numbers of batches. See `Join`.

        Args:
            divide_by_initial_world_size: Whether sums of gradients are divided by the number of ranks, instead of by
                the number of ranks that have data.
            enable: Whether the context does anything.
            throw_on_early_termination: Whether all ranks raise `RuntimeError` when the first has no more data.
        """
        from ...distributed.algorithms.join import Join

        return Join(
            [self], enable, throw_on_early_termination, divide_by_initial_world_size=divide_by_initial_world_size
        )

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """Return the hook with which `Join` stands in for this module.

        Args:
            **kwargs: `divide_by_initial_world_size`, see `join`.
        """
        self._divides_by_all = kwargs.get("divide_by_initial_world_size", True)
        return _make_join_hook(self)

    @property
    def join_device(self) -> torch.device:
        """The device of the parameters."""
        return self.device

    @property
    def join_process_group(self) -> ProcessGroup:
        """The group of the ranks."""
        return self.process_group

    def _stand_in(self) -> None:
        """Take part in the collectives of one step of the other ranks."""
        from ...distributed import get_world_size

        divisor = get_world_size(self.process_group) if self._divides_by_all else int(self._sum(0).item())
        self.reducer.set_divisor(divisor)
        is_step = int(self._sum(0).item()) > 0
        # As in `forward`: the buckets may follow the first step, before buffers are copied.
        follows = self.require_forward_param_sync and self.broadcast_buffers and bool(self._synchronised_buffers())
        if is_step:
            self.reducer.begin_shadow()
        if follows:
            self._copy_from(self._last_active(False), self._synchronised_buffers())
        self.require_forward_param_sync = is_step
        if is_step:
            self.reducer.shadow()

    def _take_last(self, is_last: bool) -> None:
        """Copy parameters and buffers from a rank that had data to the end."""
        source = self._last_active(is_last)
        tensors = [t for t in self.module.state_dict(keep_vars=True).values() if isinstance(t, torch.Tensor)]
        self._copy_from(source, tensors)

    def register_comm_hook(self, state: object, hook: Callable[[Any, GradBucket], Future]) -> None:
        """Reduce gradients by a function instead of averaging them.

        Args:
            state: First argument of `hook`.
            hook: A function of `state` and a `GradBucket` that returns a `torch.futures.Future` of a tensor like the
                buffer of the bucket. `torch.distributed.algorithms.ddp_comm_hooks` has some.

        Raises:
            TypeError: `hook` is no function.
            ValueError: `hook` states other types.
            RuntimeError: A hook is registered already.
        """
        from ...distributed._grad_bucket import GradBucket
        from ...futures import Future

        if not callable(hook):
            raise TypeError("Communication hook must be callable.")
        self._check_types_of(hook)
        if getattr(self, "_comm_hook", None) is not None:
            raise RuntimeError("register_comm_hook or register_builtin_comm_hook can only be called once.")
        self._comm_hook = (state, hook)
        parameters = self._parameters_by_number

        def start(index: int, is_last: bool, buffer: torch.Tensor, numbers: list[int]) -> Future:
            reduced = hook(state, GradBucket(index, is_last, buffer, [parameters[i] for i in numbers]))
            if not isinstance(reduced, Future):
                raise RuntimeError(
                    f"callback must return a torch.futures.Future object, but got {type(reduced).__name__}"
                )
            return reduced

        self.reducer.set_comm_hook(start)

    def _check_types_of(self, hook: Callable[..., Any]) -> None:
        """Raise `ValueError` if a communication hook is annotated with other types than its own."""
        import typing

        from ...distributed._grad_bucket import GradBucket
        from ...futures import Future

        try:
            types = typing.get_type_hints(hook)
        except (AttributeError, NameError, TypeError):
            return  # It is no function, or its annotations are names that only a type checker knows.
        result, wrong = types.get("return", Future), None
        if types.get("bucket", GradBucket) is not GradBucket:
            wrong = "Communication hook: bucket annotation should be dist.GradBucket."
        elif result is not Future and typing.get_origin(result) is not Future:
            wrong = "Communication hook: return annotation should be torch.futures.Future[torch.Tensor]."
        if wrong is not None:
            self._error = wrong
            raise ValueError(wrong)

    def _register_builtin_comm_hook(self, comm_hook_type: BuiltinCommHookType) -> None:
        """Reduce gradients by one of the named hooks."""
        from ...distributed.algorithms.ddp_comm_hooks import default_hooks

        hook = {"ALLREDUCE": default_hooks.allreduce_hook, "FP16_COMPRESS": default_hooks.fp16_compress_hook}
        self.register_comm_hook(self.process_group, hook[comm_hook_type.name])

    def _register_fused_optim(
        self, optim: type, *args: Any, optim_params: Iterable[torch.Tensor] | None = None, **kwargs: Any
    ) -> None:
        raise NotImplementedError("DistributedDataParallel: optimizers in communication hooks are not implemented")

    def _set_static_graph(self) -> None:
        """State that all steps use the same parameters equally often, as the argument `static_graph` does."""
        if self.static_graph:
            return
        if self.reducer.steps() > 0:
            self._error = (
                "set_static_graph() should be called before training loop starts and after DistributedDataParallel is "
                "constructed."
            )
            raise RuntimeError(self._error)
        self.static_graph = True
        self.reducer.remove_hooks()
        self._make_reducer()

    def _get_ddp_logging_data(self) -> dict[str, Any]:
        """Return the settings of this module and facts about its steps, by PyTorch's names."""
        sizes = [sum(self._parameters_by_number[i].numel() for i in bucket) for bucket in self.reducer.buckets()]
        item = self._parameters_by_number[0].element_size()
        return {
            "world_size": self.process_group.size(),
            "rank": self.process_group.rank(),
            "module_name": type(self.module).__name__,
            "dtypes": ", ".join(sorted({self._scalar_type(p) for p in self._parameters_by_number})),
            "is_multi_device_module": int(len({p.device for p in self._parameters_by_number}) > 1),
            "has_sync_bn": int(any(isinstance(module, SyncBatchNorm) for module in self.module.modules())),
            "device_ids": "" if self.device_ids is None else ", ".join(map(str, self.device_ids)),
            "output_device": -1 if self.output_device is None else self.output_device,
            "backend_name": self.process_group.name(),
            "broadcast_buffers": int(self.broadcast_buffers),
            "bucket_cap_bytes": int(self.bucket_cap_mb * _MB_TO_BYTES),
            "bucket_sizes": ", ".join(str(size * item) for size in sizes),
            "find_unused_parameters": int(self.find_unused_parameters),
            "gradient_as_bucket_view": int(self.gradient_as_bucket_view),
            "static_graph": int(self.static_graph),
            "has_rebuilt_buckets": int(self.reducer.has_rebuilt_buckets()),
            "num_parameter_tensors": len(self._parameters_by_number),
            "total_parameter_size_bytes": sum(p.numel() * p.element_size() for p in self._parameters_by_number),
            "iteration": self.reducer.steps(),
            "has_error": int(bool(self._error)),
            "error": self._error,
        }

    @staticmethod
    def _scalar_type(tensor: torch.Tensor) -> str:
        """Return the name of a dtype in PyTorch's logs, such as `float`."""
        return tensor.type().rpartition(".")[2].removesuffix("Tensor").lower()

    @staticmethod
    def _set_params_and_buffers_to_ignore_for_model(
        module: Module, params_and_buffers_to_ignore: Iterable[str]
    ) -> None:
        """Leave parameters and buffers of a module, named as in it, alone when it is wrapped later."""
        module._ddp_params_and_buffers_to_ignore = set(params_and_buffers_to_ignore)

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        for name in ("process_group", "reducer", "_parameters_by_number", "_comm_hook", "_join_state"):
            state.pop(name, None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        from ...distributed import distributed_c10d as c10d
        from ...distributed.algorithms.join import _JoinState

        super().__setstate__(state)
        self.process_group = c10d._get_default_group()
        self._join_state = _JoinState()
        self.require_backward_grad_sync = self.require_forward_param_sync = True
        self._make_reducer()


def _make_join_hook(model: DistributedDataParallel) -> JoinHook:
    from ...distributed.algorithms.join import JoinHook

    class Hook(JoinHook):
        def main_hook(self) -> None:
            model._stand_in()

        def post_hook(self, is_last_joiner: bool) -> None:
            model._take_last(is_last_joiner)

    return Hook()
