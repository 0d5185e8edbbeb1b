"""Linear maps."""

from __future__ import annotations

import math

import pytpu as torch
from pytpu import _C, Tensor
from pytpu.nn import init
from pytpu.nn.parameter import Parameter, UninitializedParameter

from .lazy import LazyModuleMixin
from .module import Module

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

    from pytpu.types import Device


_ops = _C._ops


class Identity(Module):
    """Return the input unchanged.

    The constructor takes any arguments and ignores them, so that the class can replace another module.

    Args:
        *args: Ignored.
        **kwargs: Ignored.

    Shape:
        Input `(*)`; output `(*)`, the same tensor.

    Example:
        >>> import pytpu as torch
        >>> layer = torch.nn.Identity(54, unused=True)
        >>> x = torch.randn(2, 3)
        >>> layer(x) is x
        True
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        """Return `input` itself."""
        return input


class Linear(Module):
    """Apply an affine map to the last dimension: `y = x W^T + b`.

    Args:
        in_features: Size of the last dimension of the input.
        out_features: Size of the last dimension of the output.
        bias: Whether to add a learned bias.
        device: Device of the parameters. `None` means the default device.
        dtype: Dtype of the parameters. `None` means the default dtype.

    Attributes:
        weight: Parameter `(out_features, in_features)`. Initial values are uniform in `[-k, k]` with
            `k = 1 / sqrt(in_features)`.
        bias: Parameter `(out_features,)` with initial values from the same range, or `None`.

    Shape:
        Input `(*, in_features)`; output `(*, out_features)`.

    Example:
        >>> import pytpu as torch
        >>> layer = torch.nn.Linear(20, 30)
        >>> layer(torch.randn(128, 20)).shape
        torch.Size([128, 30])
    """

    weight: Parameter
    bias: Parameter | None

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter(torch.empty((out_features, in_features), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(torch.empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new values for `weight` and `bias`, uniform in `[-k, k]` with `k = 1 / sqrt(in_features)`."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            bound = 1 / math.sqrt(fan_in) if fan_in > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        """Return `input W^T + b`, of shape `(*, out_features)`."""
        return _ops.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Return the sizes and the bias flag for the repr."""
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class NonDynamicallyQuantizableLinear(Linear):
    """Apply an affine map, as `Linear` does.

    `MultiheadAttention` uses this class for its output projection, because reprs and pickles of PyTorch name
    it.

    Args:
        in_features: Size of the last dimension of the input.
        out_features: Size of the last dimension of the output.
        bias: Whether to add a learned bias.
        device: Device of the parameters. `None` means the default device.
        dtype: Dtype of the parameters. `None` means the default dtype.
    """


class Bilinear(Module):
    """Apply a bilinear map: `y_o = x1^T A_o x2 + b_o`.

    Args:
        in1_features: Size of the last dimension of the first input. Positive.
        in2_features: Size of the last dimension of the second input.
        out_features: Size of the last dimension of the output.
        bias: Whether to add a learned bias.
        device: Device of the parameters. `None` means the default device.
        dtype: Dtype of the parameters. `None` means the default dtype.

    Attributes:
        weight: Parameter `(out_features, in1_features, in2_features)`. Initial values are uniform in `[-k, k]`
            with `k = 1 / sqrt(in1_features)`.
        bias: Parameter `(out_features,)` with initial values from the same range, or `None`.

    Shape:
        Inputs `(*, in1_features)` and `(*, in2_features)` with equal leading dimensions; output
            `(*, out_features)`.

    Raises:
        ValueError: `in1_features` is not positive.

    Example:
        >>> import pytpu as torch
        >>> layer = torch.nn.Bilinear(20, 30, 40)
        >>> layer(torch.randn(128, 20), torch.randn(128, 30)).shape
        torch.Size([128, 40])
    """

    weight: Parameter
    bias: Parameter | None

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if in1_features <= 0:
            raise ValueError(f"in1_features must be > 0, but got {in1_features}")
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        self.weight = Parameter(torch.empty((out_features, in1_features, in2_features), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(torch.empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new values for `weight` and `bias`, uniform in `[-k, k]` with `k = 1 / sqrt(in1_features)`."""
        bound = 1 / math.sqrt(self.weight.size(1))
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        """Return the bilinear form of `input1` and `input2`, of shape `(*, out_features)`."""
        return _ops.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Return the sizes and the bias flag for the repr."""
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )


class LazyLinear(LazyModuleMixin, Linear):
    """Apply an affine map whose `in_features` is the last size of the first input.

    The first call makes the parameters and turns the module into a `Linear`.

    Args:
        out_features: Size of the last dimension of the output.
        bias: Whether to add a learned bias.
        device: Device of the parameters. `None` means the default device.
        dtype: Dtype of the parameters. `None` means the default dtype.

    Shape:
        Input `(*, in_features)`; output `(*, out_features)`.

    Example:
        >>> import pytpu as torch
        >>> layer = torch.nn.LazyLinear(30)
        >>> layer(torch.randn(128, 20)).shape
        torch.Size([128, 30])
        >>> layer
        Linear(in_features=20, out_features=30, bias=True)
    """

    cls_to_become = Linear
    weight: UninitializedParameter
    bias: UninitializedParameter | None

    def __init__(
        self, out_features: int, bias: bool = True, device: Device = None, dtype: torch.dtype | None = None
    ) -> None:
        super().__init__(0, 0, False)
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_features = out_features
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draw new values, as `Linear` does. Do nothing while the parameters have no shape."""
        if not self.has_uninitialized_params() and self.in_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        """Give the parameters the shapes that fit `input`, and draw their values."""
        if self.has_uninitialized_params():
            with torch.no_grad():
                self.in_features = input.shape[-1]
                self.weight.materialize((self.out_features, self.in_features))
                if self.bias is not None:
                    self.bias.materialize((self.out_features,))
                self.reset_parameters()
        if self.in_features == 0:
            self.in_features = self.weight.shape[-1]
