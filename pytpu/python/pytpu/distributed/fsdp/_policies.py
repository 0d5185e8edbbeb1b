"""How `fully_shard` computes, and where it keeps parameters."""

from __future__ import annotations

from dataclasses import dataclass, field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ... import dtype as _dtype, nn


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """The dtypes that modules compute in. Sharded parameters and optimizers keep theirs.

    Args:
        param_dtype: the dtype that parameters are gathered in. `None` keeps that of each parameter.
        reduce_dtype: the dtype that gradients are reduced in. `None` keeps that of the gradients.
        output_dtype: the dtype of floating-point outputs of the module. `None` keeps it.
        cast_forward_inputs: whether floating-point inputs of the module become `param_dtype`.
        param_dtype_override_fn: a function from a parameter to the dtype that it is gathered in: `param_dtype`, its
            own dtype, or `None` for `param_dtype`.
    """

    param_dtype: _dtype | None = None
    reduce_dtype: _dtype | None = None
    output_dtype: _dtype | None = None
    cast_forward_inputs: bool = True
    param_dtype_override_fn: Callable[[nn.Parameter], _dtype | None] | None = field(default=None, kw_only=True)

    def _gathered_dtype(self, parameter: nn.Parameter) -> _dtype:
        """Return the dtype that a parameter is gathered in."""
        wanted = self.param_dtype
        if self.param_dtype_override_fn is not None:
            given = self.param_dtype_override_fn(parameter)
            if given is not None and type(given) is not type(parameter.dtype):
                raise ValueError(f"param_dtype_override_fn must return a torch.dtype or None but got {type(given)}")
            if given not in (None, self.param_dtype, parameter.dtype):
                raise ValueError(
                    "param_dtype_override_fn must return None, param_dtype, or the parameter's original dtype but got "
                    f"{given} for a parameter with dtype {parameter.dtype} and param_dtype {self.param_dtype}"
                )
            wanted = given or wanted
        return parameter.dtype if wanted is None or not parameter.is_floating_point() else wanted


@dataclass
class OffloadPolicy:
    """Keep sharded parameters on the device of the mesh."""


@dataclass
class CPUOffloadPolicy(OffloadPolicy):
    """Keep sharded parameters, their gradients and the states of optimizers on `cpu`.

    Args:
        pin_memory: accepted. The memory is ordinary.
    """

    pin_memory: bool = True


@dataclass(frozen=True)
class DataParallelMeshDims:
    """The names of mesh dimensions along which parameters are sharded, and along which they are replicated.

    Args:
        shard: a name, or several.
        replicate: a name, or several.

    Raises:
        ValueError: if there is no name.
    """

    shard: str | tuple[str, ...] | None = None
    replicate: str | tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.shard is None and self.replicate is None:
            raise ValueError("At least one of shard or replicate must be set in DataParallelMeshDims")

    @property
    def shard_names(self) -> tuple[str, ...]:
        """The names of `shard`, as a tuple."""
        return _as_names(self.shard)

    @property
    def replicate_names(self) -> tuple[str, ...]:
        """The names of `replicate`, as a tuple."""
        return _as_names(self.replicate)


def _as_names(given: str | tuple[str, ...] | None) -> tuple[str, ...]:
    if given is None:
        return ()
    return (given,) if isinstance(given, str) else tuple(given)
