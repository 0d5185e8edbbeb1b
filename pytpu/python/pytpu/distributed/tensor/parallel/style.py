"""`torch.distributed.tensor.parallel.style`: ways to shard a module, its inputs and its outputs."""

from __future__ import annotations

import abc

from .... import Tensor, nn
from ...device_mesh import DeviceMesh
from .._api import DTensor, distribute_module, distribute_tensor
from ..placement_types import Placement, Replicate, Shard

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = [
    "ColwiseParallel",
    "ParallelStyle",
    "PrepareModuleInput",
    "PrepareModuleInputOutput",
    "PrepareModuleOutput",
    "RowwiseParallel",
    "SequenceParallel",
]


class ParallelStyle(abc.ABC):
    """A way to shard a module."""

    src_data_rank: int | None = 0
    #: The names of the arguments that the text of a style shows.
    _shown: tuple[str, ...] = ()

    @abc.abstractmethod
    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        """Shard the module, and return it."""

    def _arguments(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._shown}

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={value!r}" for name, value in self._arguments().items())
        return f"{type(self).__name__}({arguments})" if arguments else super().__repr__()


def _shard(x: Any, mesh: DeviceMesh, now: Sequence[Placement], wanted: Sequence[Placement]) -> Any:
    """Return a sharded tensor with placements `wanted`. A plain tensor is a part with placements `now`."""
    if not isinstance(x, DTensor):
        x = DTensor.from_local(x, mesh, now)
    return x if x.placements == tuple(wanted) else x.redistribute(placements=wanted)


def _register(module: nn.Module, key: str, mesh: DeviceMesh, placement: Placement, source: int | None) -> None:
    """Shard a parameter of a module."""
    parameter = module._parameters.get(key)
    if parameter is not None:
        sharded = distribute_tensor(parameter.detach(), mesh, [placement], src_data_rank=source)
        module.register_parameter(key, nn.Parameter(sharded, parameter.requires_grad))


class _Partition(ParallelStyle):
    """A style for modules with one input and one output."""

    input_layouts: tuple[Placement, ...]
    desired_input_layouts: tuple[Placement, ...]
    output_layouts: tuple[Placement, ...]
    use_local_output: bool
    _shown = ("input_layouts", "output_layouts", "use_local_output")

    def _partition(self, name: str, module: nn.Module, mesh: DeviceMesh) -> None:
        raise NotImplementedError

    def _inputs(self, module: nn.Module, inputs: Any, mesh: DeviceMesh) -> Any:
        return (_shard(inputs[0], mesh, self.input_layouts, self.desired_input_layouts), *inputs[1:])

    def _outputs(self, module: nn.Module, outputs: Any, mesh: DeviceMesh) -> Any:
        if outputs.placements != self.output_layouts:
            outputs = outputs.redistribute(placements=self.output_layouts)
        return outputs.to_local() if self.use_local_output else outputs

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        return distribute_module(module, device_mesh, self._partition, self._inputs, self._outputs)


class ColwiseParallel(_Partition):
    """Shard the outputs of a `torch.nn.Linear`, or the features of a `torch.nn.Embedding`.

    Args:
        input_layouts: the placement of an input that is a plain tensor. The default is replicated.
        output_layouts: the placement of the output. The default is sharded in the last dimension.
        use_local_output: whether the output is the part of this rank, a plain tensor.
    """

    def __init__(
        self,
        *,
        input_layouts: Placement | None = None,
        output_layouts: Placement | None = None,
        use_local_output: bool = True,
    ) -> None:
        self.input_layouts = (input_layouts or Replicate(),)
        self.output_layouts = (output_layouts or Shard(-1),)
        self.desired_input_layouts = (Replicate(),)
        self.use_local_output = use_local_output

    def _partition(self, name: str, module: nn.Module, mesh: DeviceMesh) -> None:
        if isinstance(module, nn.Linear):
            for key in ("weight", "bias"):
                _register(module, key, mesh, Shard(0), self.src_data_rank)
        elif isinstance(module, nn.Embedding):
            _register(module, "weight", mesh, Shard(1), self.src_data_rank)
        else:
            raise NotImplementedError("ColwiseParallel currently only support nn.Linear and nn.Embedding!")


class RowwiseParallel(_Partition):
    """Shard the inputs of a `torch.nn.Linear`, or the rows of a `torch.nn.Embedding`.

    The output of a linear layer is a sum over ranks.

    Args:
        input_layouts: the placement of an input that is a plain tensor. The default is sharded in the last dimension.
        output_layouts: the placement of the output. The default is replicated.
        use_local_output: whether the output is the part of this rank, a plain tensor.
    """

    def __init__(
        self,
        *,
        input_layouts: Placement | None = None,
        output_layouts: Placement | None = None,
        use_local_output: bool = True,
    ) -> None:
        self.input_layouts = (input_layouts or Shard(-1),)
        self.output_layouts = (output_layouts or Replicate(),)
        self.use_local_output = use_local_output

    def _partition(self, name: str, module: nn.Module, mesh: DeviceMesh) -> None:
        if isinstance(module, nn.Linear):
            _register(module, "weight", mesh, Shard(1), self.src_data_rank)
            _register(module, "bias", mesh, Replicate(), self.src_data_rank)
        elif isinstance(module, nn.Embedding):
            _register(module, "weight", mesh, Shard(0), self.src_data_rank)
        else:
            raise NotImplementedError("RowwiseParallel currently only support nn.Linear and nn.Embedding!")

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        self.desired_input_layouts = (Replicate() if isinstance(module, nn.Embedding) else Shard(-1),)
        return super()._apply(module, device_mesh)


class SequenceParallel(_Partition):
    """Replicate the parameters, and shard the input in the dimension of the sequence.

    Args:
        sequence_dim: the dimension of the sequence.
        use_local_output: whether the output is the part of this rank, a plain tensor.
    """

    _shown = ("sequence_dim", "use_local_output")

    def __init__(self, *, sequence_dim: int = 1, use_local_output: bool = False) -> None:
        self.sequence_dim = sequence_dim
        self.sequence_sharding = (Shard(sequence_dim),)
        self.input_layouts = self.desired_input_layouts = self.sequence_sharding
        self.use_local_output = use_local_output

    def _partition(self, name: str, module: nn.Module, mesh: DeviceMesh) -> None:
        for key in list(module._parameters):
            _register(module, key, mesh, Replicate(), self.src_data_rank)

    def _outputs(self, module: nn.Module, outputs: Any, mesh: DeviceMesh) -> Any:
        return outputs.to_local() if self.use_local_output else outputs


def _tuple(layouts: Any) -> tuple[Any, ...] | None:
    return (layouts,) if isinstance(layouts, Placement) else layouts


class PrepareModuleInput(ParallelStyle):
    """Convert the inputs of a module to sharded tensors with the placements that it needs.

    Args:
        input_layouts: placements of inputs that are plain tensors. `None` leaves an input as it is.
        desired_input_layouts: placements that the inputs get.
        input_kwarg_layouts: placements of inputs by keyword.
        desired_input_kwarg_layouts: placements that the inputs by keyword get.
        use_local_output: whether the module gets the parts of this rank, plain tensors.

    Raises:
        AssertionError: if there are not as many desired placements as placements.
    """

    _shown = (
        "input_layouts",
        "desired_input_layouts",
        "input_kwarg_layouts",
        "desired_input_kwarg_layouts",
        "use_local_output",
    )

    def __init__(
        self,
        *,
        input_layouts: Placement | tuple[Placement | None, ...] | None = None,
        desired_input_layouts: Placement | tuple[Placement | None, ...] | None = None,
        input_kwarg_layouts: dict[str, Placement] | None = None,
        desired_input_kwarg_layouts: dict[str, Placement] | None = None,
        use_local_output: bool = False,
    ) -> None:
        self.input_layouts = _tuple(input_layouts)
        self.desired_input_layouts = _tuple(desired_input_layouts)
        self.input_kwarg_layouts = input_kwarg_layouts or {}
        self.desired_input_kwarg_layouts = desired_input_kwarg_layouts or {}
        self.use_local_output = use_local_output
        if self.input_layouts is not None:
            if self.desired_input_layouts is None:
                raise AssertionError("desired module inputs should not be None!")
            if len(self.input_layouts) != len(self.desired_input_layouts):
                raise AssertionError("input_layouts and desired_input_layouts should have same length!")
        if self.input_kwarg_layouts.keys() != self.desired_input_kwarg_layouts.keys():
            raise AssertionError("input_kwarg_layouts and desired_input_kwarg_layouts should have same length!")

    def _one(self, x: Any, mesh: DeviceMesh, now: Placement | None, wanted: Placement | None) -> Any:
        if now is None or not isinstance(x, Tensor):
            return x
        x = _shard(x, mesh, (now,), (wanted or now,))
        return x.to_local() if self.use_local_output else x

    def _inputs(self, inputs: Any, mesh: DeviceMesh) -> tuple[Any, ...]:
        if self.input_layouts is None or self.desired_input_layouts is None:
            return tuple(inputs)
        if len(inputs) != len(self.input_layouts):
            raise ValueError("module inputs and input_layouts should have same length!")
        layouts = zip(inputs, self.input_layouts, self.desired_input_layouts)
        return tuple(self._one(x, mesh, now, wanted) for x, now, wanted in layouts)

    def _keywords(self, given: dict[str, Any], mesh: DeviceMesh) -> dict[str, Any]:
        now, wanted = self.input_kwarg_layouts, self.desired_input_kwarg_layouts
        return {key: self._one(x, mesh, now.get(key), wanted.get(key)) for key, x in given.items()}

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        def convert(module: nn.Module, inputs: Any, keywords: dict[str, Any]) -> Any:
            return self._inputs(inputs, device_mesh), self._keywords(keywords, device_mesh)

        module.register_forward_pre_hook(convert, with_kwargs=True)
        return module


class PrepareModuleOutput(ParallelStyle):
    """Convert the outputs of a module to the placements that its caller needs.

    Args:
        output_layouts: placements of outputs that are plain tensors. `None` leaves an output as it is.
        desired_output_layouts: placements that the outputs get.
        use_local_output: whether the outputs are the parts of this rank, plain tensors.

    Raises:
        AssertionError: if there are not as many desired placements as placements.
    """

    _shown = ("output_layouts", "desired_output_layouts", "use_local_output")

    def __init__(
        self,
        *,
        output_layouts: Placement | tuple[Placement | None, ...],
        desired_output_layouts: Placement | tuple[Placement | None, ...],
        use_local_output: bool = True,
    ) -> None:
        self.output_layouts = _tuple(output_layouts) or ()
        self.desired_output_layouts = _tuple(desired_output_layouts) or ()
        self.use_local_output = use_local_output
        if len(self.output_layouts) != len(self.desired_output_layouts):
            raise AssertionError("output_layouts and desired_output_layouts should have same length!")

    def _outputs(self, outputs: Any, mesh: DeviceMesh) -> Any:
        given = outputs if isinstance(outputs, tuple) else (outputs,)
        if len(given) != len(self.output_layouts):
            raise ValueError("module outputs and output_layouts should have same length!")
        converted = []
        for x, now, wanted in zip(given, self.output_layouts, self.desired_output_layouts):
            if now is not None and isinstance(x, Tensor):
                x = _shard(x, mesh, (now,), (wanted or now,))
                x = x.to_local() if self.use_local_output else x
            converted.append(x)
        return tuple(converted) if isinstance(outputs, tuple) else converted[0]

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        module.register_forward_hook(lambda module, inputs, outputs: self._outputs(outputs, device_mesh))
        return module


class PrepareModuleInputOutput(ParallelStyle):
    """Convert the inputs of a module as `PrepareModuleInput`, and its outputs as `PrepareModuleOutput`.

    Args:
        input_layouts: see `PrepareModuleInput`.
        desired_input_layouts: see `PrepareModuleInput`.
        input_kwarg_layouts: see `PrepareModuleInput`.
        desired_input_kwarg_layouts: see `PrepareModuleInput`.
        use_local_input: whether the module gets the parts of this rank, plain tensors.
        output_layouts: see `PrepareModuleOutput`.
        desired_output_layouts: see `PrepareModuleOutput`.
        use_local_output: whether the outputs are the parts of this rank, plain tensors.
    """

    def __init__(
        self,
        *,
        input_layouts: Placement | tuple[Placement | None, ...] | None = None,
        desired_input_layouts: Placement | tuple[Placement | None, ...] | None = None,
        input_kwarg_layouts: dict[str, Placement] | None = None,
        desired_input_kwarg_layouts: dict[str, Placement] | None = None,
        use_local_input: bool = False,
        output_layouts: Placement | tuple[Placement | None, ...],
        desired_output_layouts: Placement | tuple[Placement | None, ...],
        use_local_output: bool = True,
    ) -> None:
        self.prepare_module_input = PrepareModuleInput(
            input_layouts=input_layouts,
            desired_input_layouts=desired_input_layouts,
            input_kwarg_layouts=input_kwarg_layouts,
            desired_input_kwarg_layouts=desired_input_kwarg_layouts,
            use_local_output=use_local_input,
        )
        self.prepare_module_output = PrepareModuleOutput(
            output_layouts=output_layouts,
            desired_output_layouts=desired_output_layouts,
            use_local_output=use_local_output,
        )

    def _arguments(self) -> dict[str, Any]:
        arguments = self.prepare_module_input._arguments()
        arguments["use_local_input"] = arguments.pop("use_local_output")
        return arguments | self.prepare_module_output._arguments()

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        self.prepare_module_input._apply(module, device_mesh)
        return self.prepare_module_output._apply(module, device_mesh)
