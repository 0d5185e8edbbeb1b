"""Recurrent layers and cells."""

from __future__ import annotations

import math

import pytpu as torch
from pytpu import _C, Tensor
from pytpu.nn import init
from pytpu.nn.parameter import Parameter

from .module import Module

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any, overload

    from pytpu.nn.utils.rnn import PackedSequence
    from pytpu.types import Device


_ops = _C._ops
_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


class RNNBase(Module):
    """Hold the parameters and checks that `RNN`, `GRU` and `LSTM` share.

    Args:
        mode: `"RNN_TANH"`, `"RNN_RELU"`, `"GRU"` or `"LSTM"`.
        input_size: Number of features of the input.
        hidden_size: Number of features `h` of the hidden state.
        num_layers: Number of layers. Each one after the first reads the output of the one before.
        bias: Whether to learn the biases `b_ih` and `b_hh`.
        batch_first: Whether inputs and outputs are `(n, t, *)` instead of `(t, n, *)`. Hidden states are not
            concerned.
        dropout: Probability of dropping an output of a layer, but not of the last one, in training mode.
        bidirectional: Whether a second direction reads the sequence backward. Both outputs are joined.
        proj_size: Size of a learned projection of the hidden state. 0 means none. Below `hidden_size`.
        device: Device of the parameters. `None` means the default device.
        dtype: Dtype of the parameters. `None` means the default dtype.

    Raises:
        ValueError: A setting is out of range.
        TypeError: `hidden_size` is not an integer.
    """

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if mode not in _GATES:
            raise ValueError("Unrecognized RNN mode: " + mode)
        if isinstance(dropout, bool) or not isinstance(dropout, (int, float)) or not 0 <= dropout <= 1:
            raise ValueError(
                "dropout should be a number in range [0, 1] representing the probability of an element being zeroed"
            )
        if dropout > 0 and num_layers == 1:
            import warnings

            warnings.warn(
                "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects "
                f"num_layers greater than 1, but got dropout={dropout} and num_layers={num_layers}",
                stacklevel=2,
            )
        if not isinstance(hidden_size, int):
            raise TypeError(f"hidden_size should be of type int, got: {type(hidden_size).__name__}")
        if input_size <= 0:
            raise ValueError("input_size must be greater than zero")
        if hidden_size <= 0:
            raise ValueError("hidden_size must be greater than zero")
        if num_layers <= 0:
            raise ValueError("num_layers must be greater than zero")
        if proj_size < 0:
            raise ValueError("proj_size should be a positive integer or zero to disable projections")
        if proj_size >= hidden_size:
            raise ValueError("proj_size has to be smaller than hidden_size")
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        directions = 2 if bidirectional else 1
        gates = _GATES[mode] * hidden_size
        real_hidden = proj_size if proj_size > 0 else hidden_size
        self._flat_weights_names = []
        self._all_weights = []
        for layer in range(num_layers):
            for direction in range(directions):
                layer_input = input_size if layer == 0 else real_hidden * directions
                shapes: list[tuple[str, tuple[int, ...]]] = [
                    ("weight_ih", (gates, layer_input)),
                    ("weight_hh", (gates, real_hidden)),
                ]
                if bias:
                    shapes += [("bias_ih", (gates,)), ("bias_hh", (gates,))]
                if proj_size > 0:
                    shapes += [("weight_hr", (proj_size, hidden_size))]
                suffix = f"_l{layer}" + ("_reverse" if direction else "")
                names = []
                for name, shape in shapes:
                    names.append(name + suffix)
                    setattr(self, name + suffix, Parameter(torch.empty(shape, device=device, dtype=dtype)))
                self._flat_weights_names += names
                self._all_weights.append(names)
        self.reset_parameters()

    def __getstate__(self) -> dict[str, Any]:
        # PyTorch needs this list when it reads the pickle.
        return {
            **super().__getstate__(),
            "_flat_weights": [getattr(self, name, None) for name in self._flat_weights_names],
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({k: v for k, v in state.items() if k != "_flat_weights"})

    @property
    def _flat_weights(self):
        return [getattr(self, name) for name in self._flat_weights_names]

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The parameters: one list for each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    def flatten_parameters(self) -> None:
        """Do nothing. Parameters need no common memory here."""

    def reset_parameters(self) -> None:
        """Draw new values, uniform in `[-k, k]` with `k = 1 / sqrt(hidden_size)`."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def extra_repr(self) -> str:
        """Return the sizes and the settings that are not defaults for the repr."""
        text = f"{self.input_size}, {self.hidden_size}"
        if self.proj_size != 0:
            text += f", proj_size={self.proj_size}"
        if self.num_layers != 1:
            text += f", num_layers={self.num_layers}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        if self.batch_first is not False:
            text += f", batch_first={self.batch_first}"
        if self.dropout != 0:
            text += f", dropout={self.dropout}"
        if self.bidirectional is not False:
            text += f", bidirectional={self.bidirectional}"
        return text

    def _check_hidden(self, hidden, size, message="Expected hidden size {}, got {}"):
        if tuple(hidden.size()) != size:
            raise RuntimeError(message.format(size, list(hidden.size())))

    def _check_input(self, input, packed):
        if input.dtype != self._flat_weights[0].dtype and not torch.is_autocast_enabled(input.device.type):
            raise ValueError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({self._flat_weights[0].dtype}). "
                f"Convert input: input.to({self._flat_weights[0].dtype}), or convert model: "
                f"model.to({input.dtype})"
            )
        dims = (2,) if packed else (2, 3)
        if input.dim() not in dims:
            name = type(self).__name__
            raise ValueError(f"{name}: Expected input to be 2D or 3D, got {input.dim()}D instead")
        if self.input_size != input.size(-1):
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {input.size(-1)}"
            )

    def _run(self, input, batch_sizes, hidden):
        """Call the op, and return the outputs and the hidden states."""
        raise NotImplementedError

    def _flags(self):
        return self.bias, self.num_layers, self.dropout, self.training, self.bidirectional

    def forward(
        self, input: Tensor | PackedSequence, hx: Tensor | tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor | PackedSequence, Tensor | tuple[Tensor, Tensor]]:
        """Return the output of each step, and the last hidden state. See the class for shapes.

        Args:
            input: Sequences, padded or packed.
            hx: Hidden state before the first step; a pair for `LSTM`. `None` means zeros.

        Returns:
            The outputs, and the hidden state after the last step.

        Raises:
            ValueError: The dtype or the number of dimensions of the input does not fit.
            RuntimeError: A size does not fit.
        """
        from pytpu.nn.utils.rnn import PackedSequence

        packed = isinstance(input, PackedSequence)
        steps: Any = input
        directions = 2 if self.bidirectional else 1
        if packed:
            steps, batch_sizes, sorted_indices, unsorted_indices = steps
            batch = int(batch_sizes[0])
            batched = True
        else:
            batch_sizes = sorted_indices = unsorted_indices = None
            if steps.dim() not in (2, 3):
                # The message of PyTorch differs from class to class.
                kind = "D tensor" if self.mode.startswith("RNN") else "D"
                raise ValueError(
                    f"{type(self).__name__}: Expected input to be 2D or 3D, got {steps.dim()}{kind} instead"
                )
            batched = steps.dim() == 3
            batch_dim = 0 if self.batch_first else 1
            if not batched:
                steps = steps.unsqueeze(batch_dim)
                hx = self._with_batch(hx, directions)
            elif hx is not None:
                self._check_batched(hx)
            batch = steps.size(batch_dim)
        if hx is None:
            hx = self._zeros(directions, batch, steps)
        elif packed:
            hx = self._permute(hx, sorted_indices)
        self._check_input(steps, packed)
        self._check_states(hx, directions, batch)
        output, hidden = self._run(steps, batch_sizes, hx)
        if packed:
            output = PackedSequence(output, batch_sizes, sorted_indices, unsorted_indices)
            return output, self._permute(hidden, unsorted_indices)
        if not batched:
            output = output.squeeze(0 if self.batch_first else 1)
            hidden = self._without_batch(hidden)
        return output, hidden

    # The hidden state is one tensor. `LSTM` overrides these methods for its pair.

    def _zeros(self, directions, batch, like):
        return torch.zeros(self.num_layers * directions, batch, self.hidden_size, dtype=like.dtype, device=like.device)

    def _with_batch(self, hx, directions):
        if hx is None:
            return None
        if hx.dim() != 2:
            raise RuntimeError(f"For unbatched 2-D input, hx should also be 2-D but got {hx.dim()}-D tensor")
        return hx.unsqueeze(1)

    def _without_batch(self, hidden):
        return hidden.squeeze(1)

    def _check_batched(self, hx):
        if hx.dim() != 3:
            raise RuntimeError(f"For batched 3-D input, hx should also be 3-D but got {hx.dim()}-D tensor")

    def _check_states(self, hx, directions, batch):
        self._check_hidden(hx, (self.num_layers * directions, batch, self.hidden_size))

    def _permute(self, hx, indices):
        return hx if indices is None else hx.index_select(1, indices)


class RNN(RNNBase):
    """Apply a simple recurrent network to sequences.

    `h_t = tanh(W_ih x_t + b_ih + W_hh h_(t-1) + b_hh)`, or `relu` in place of `tanh`.

    Args:
        input_size: Number of features of the input.
        hidden_size: Number of features `h` of the hidden state.
        num_layers: Number of layers. Each one after the first reads the output of the one before.
        nonlinearity: `"tanh"` or `"relu"`.
        bias: Whether to learn the biases `b_ih` and `b_hh`.
        batch_first: Whether inputs and outputs are `(n, t, *)` instead of `(t, n, *)`. Hidden states are not
            concerned.
        dropout: Probability of dropping an output of a layer, but not of the last one, in training mode.
        bidirectional: Whether a second direction reads the sequence backward. Both outputs are joined.
        device: Device of the parameters. `None` means the default device.
        dtype: Dtype of the parameters. `None` means the default dtype.

    Attributes:
        weight_ih_l{k}: Parameter `(h, input_size)` of layer `k`, or `(h, d * h)` after the first layer.
            Backward directions end in `_reverse`.
        weight_hh_l{k}: Parameter `(h, h)`.
        bias_ih_l{k}: Parameter `(h,)`.
        bias_hh_l{k}: Parameter `(h,)`.

    Shape:
        `d` is 2 if `bidirectional`, else 1.
        Input `(t, n, input_size)`, `(n, t, input_size)` if `batch_first`, `(t, input_size)`, or a
            `PackedSequence`.
        Output of the same kind with `d * h` features. Hidden state `(d * num_layers, n, h)` or
            `(d * num_layers, h)`.

    Raises:
        ValueError: A setting is out of range, or the dtype or number of dimensions of the input does not fit.
        RuntimeError: A size does not fit.

    Example:
        >>> import pytpu as torch
        >>> rnn = torch.nn.RNN(10, 20, num_layers=2)
        >>> output, hidden = rnn(torch.randn(5, 3, 10))
        >>> output.shape, hidden.shape
        (torch.Size([5, 3, 20]), torch.Size([2, 3, 20]))
    """

    if TYPE_CHECKING:

        @overload
        def __init__(
            self,
            input_size: int,
            hidden_size: int,
            num_layers: int = 1,
            nonlinearity: str = "tanh",
            bias: bool = True,
            batch_first: bool = False,
            dropout: float = 0.0,
            bidirectional: bool = False,
            device: Device = None,
            dtype: torch.dtype | None = None,
        ) -> None: ...

        @overload
        def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        if len(args) > 3:
            self.nonlinearity = args[3]
            args = args[:3] + args[4:]
        else:
            self.nonlinearity = kwargs.pop("nonlinearity", "tanh")
        if self.nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{self.nonlinearity}'. Select from 'tanh' or 'relu'.")
        super().__init__("RNN_" + self.nonlinearity.upper(), *args, **kwargs)

    def _run(self, input, batch_sizes, hidden):
        op = getattr(_ops, f"rnn_{self.nonlinearity}")
        if batch_sizes is None:
            return op(input, hidden, self._flat_weights, *self._flags(), self.batch_first)
        return op(input, batch_sizes, hidden, self._flat_weights, *self._flags())


class GRU(RNNBase):
    """Apply a gated recurrent network to sequences.

    A step takes the hidden state `h` to `h'`:

        r = sigmoid(W_ir x + b_ir + W_hr h + b_hr)
        z = sigmoid(W_iz x + b_iz + W_hz h + b_hz)
        n = tanh(W_in x + b_in + r * (W_hn h + b_hn))
        h' = (1 - z) * n + z * h

    The parameters hold the rows of the gates `r`, `z` and `n`, in this order.

    Args:
        input_size: Number of features of the input.
        hidden_size: Number of features `h` of the hidden state.
        num_layers: Number of layers. Each one after the first reads the output of the one before.
        bias: Whether to learn the biases `b_ih` and `b_hh`.
        batch_first: Whether inputs and outputs are `(n, t, *)` instead of `(t, n, *)`. Hidden states are not
            concerned.
        dropout: Probability of dropping an output of a layer, but not of the last one, in training mode.
        bidirectional: Whether a second direction reads the sequence backward. Both outputs are joined.
        device: Device of the parameters. `None` means the default device.
        dtype: Dtype of the parameters. `None` means the default dtype.

    Attributes:
        weight_ih_l{k}: Parameter `(3 * h, input_size)` of layer `k`, or `(3 * h, d * h)` after the first layer.
            Backward directions end in `_reverse`.
        weight_hh_l{k}: Parameter `(3 * h, h)`.
        bias_ih_l{k}: Parameter `(3 * h,)`.
        bias_hh_l{k}: Parameter `(3 * h,)`.

    Shape:
        `d` is 2 if `bidirectional`, else 1.
        Input `(t, n, input_size)`, `(n, t, input_size)` if `batch_first`, `(t, input_size)`, or a
            `PackedSequence`.
        Output of the same kind with `d * h` features. Hidden state `(d * num_layers, n, h)` or
            `(d * num_layers, h)`.

    Raises:
        ValueError: A setting is out of range, or the dtype or number of dimensions of the input does not fit.
        RuntimeError: A size does not fit.

    Example:
        >>> import pytpu as torch
        >>> rnn = torch.nn.GRU(10, 20, num_layers=2)
        >>> output, hidden = rnn(torch.randn(5, 3, 10))
        >>> output.shape, hidden.shape
        (torch.Size([5, 3, 20]), torch.Size([2, 3, 20]))
    """

    if TYPE_CHECKING:

        @overload
        def __init__(
            self,
            input_size: int,
            hidden_size: int,
            num_layers: int = 1,
            bias: bool = True,
            batch_first: bool = False,
            dropout: float = 0.0,
            bidirectional: bool = False,
            device: Device = None,
            dtype: torch.dtype | None = None,
        ) -> None: ...

        @overload
        def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        super().__init__("GRU", *args, **kwargs)

    def _run(self, input, batch_sizes, hidden):
        if batch_sizes is None:
            return _ops.gru(input, hidden, self._flat_weights, *self._flags(), self.batch_first)
        return _ops.gru(input, batch_sizes, hidden, self._flat_weights, *self._flags())


class LSTM(RNNBase):
    """Apply a long short-term memory network to sequences.

    A step takes the hidden state `h` and the cell state `c` to `h'` and `c'`:

        i = sigmoid(W_ii x + b_ii + W_hi h + b_hi)
        f = sigmoid(W_if x + b_if + W_hf h + b_hf)
        g = tanh(W_ig x + b_ig + W_hg h + b_hg)
        o = sigmoid(W_io x + b_io + W_ho h + b_ho)
        c' = f * c + i * g
        h' = o * tanh(c')

    The parameters hold the rows of the gates `i`, `f`, `g` and `o`, in this order.

    Args:
        input_size: Number of features of the input.
        hidden_size: Number of features `h` of the hidden state.
        num_layers: Number of layers. Each one after the first reads the output of the one before.
        bias: Whether to learn the biases `b_ih` and `b_hh`.
        batch_first: Whether inputs and outputs are `(n, t, *)` instead of `(t, n, *)`. Hidden states are not
            concerned.
        dropout: Probability of dropping an output of a layer, but not of the last one, in training mode.
        bidirectional: Whether a second direction reads the sequence backward. Both outputs are joined.
        proj_size: Size of a learned projection of the hidden state. 0 means none. Below `hidden_size`.
        device: Device of the parameters. `None` means the default device.
        dtype: Dtype of the parameters. `None` means the default dtype.

    Attributes:
        weight_ih_l{k}: Parameter `(4 * h, input_size)` of layer `k`, or `(4 * h, d * h)` after the first layer.
            Backward directions end in `_reverse`.
        weight_hh_l{k}: Parameter `(4 * h, h)`.
        bias_ih_l{k}: Parameter `(4 * h,)`.
        bias_hh_l{k}: Parameter `(4 * h,)`.
        weight_hr_l{k}: Parameter `(proj_size, h)`, where `proj_size` is set. Hidden states and outputs then
            have `proj_size` features instead of `h`.

    Shape:
        `d` is 2 if `bidirectional`, else 1.
        Input `(t, n, input_size)`, `(n, t, input_size)` if `batch_first`, `(t, input_size)`, or a
            `PackedSequence`.
        Output of the same kind with `d * h` features. States: a pair of the hidden state,
            `(d * num_layers, n, h)` or with `proj_size` features, and the cell state `(d * num_layers, n, h)`.
            Both lack `n` for inputs without a batch.

    Raises:
        ValueError: A setting is out of range, or the dtype or number of dimensions of the input does not fit.
        RuntimeError: A size does not fit.

    Example:
        >>> import pytpu as torch
        >>> rnn = torch.nn.LSTM(10, 20, num_layers=2)
        >>> output, (hidden, cell) = rnn(torch.randn(5, 3, 10))
        >>> output.shape, hidden.shape, cell.shape
        (torch.Size([5, 3, 20]), torch.Size([2, 3, 20]), torch.Size([2, 3, 20]))
    """

    if TYPE_CHECKING:

        @overload
        def __init__(
            self,
            input_size: int,
            hidden_size: int,
            num_layers: int = 1,
            bias: bool = True,
            batch_first: bool = False,
            dropout: float = 0.0,
            bidirectional: bool = False,
            proj_size: int = 0,
            device: Device = None,
            dtype: torch.dtype | None = None,
        ) -> None: ...

        @overload
        def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)

    def _run(self, input, batch_sizes, hidden):
        if batch_sizes is None:
            result = _ops.lstm(input, hidden, self._flat_weights, *self._flags(), self.batch_first)
        else:
            result = _ops.lstm(input, batch_sizes, hidden, self._flat_weights, *self._flags())
        return result[0], (result[1], result[2])

    def _zeros(self, directions, batch, like):
        rows = self.num_layers * directions
        real_hidden = self.proj_size if self.proj_size > 0 else self.hidden_size
        return (
            torch.zeros(rows, batch, real_hidden, dtype=like.dtype, device=like.device),
            torch.zeros(rows, batch, self.hidden_size, dtype=like.dtype, device=like.device),
        )

    def _with_batch(self, hx, directions):
        if hx is None:
            return None
        if hx[0].dim() != 2 or hx[1].dim() != 2:
            raise RuntimeError(
                f"For unbatched 2-D input, hx and cx should also be 2-D but got ({hx[0].dim()}-D, {hx[1].dim()}-D) "
                "tensors"
            )
        return hx[0].unsqueeze(1), hx[1].unsqueeze(1)

    def _without_batch(self, hidden):
        return hidden[0].squeeze(1), hidden[1].squeeze(1)

    def _check_batched(self, hx):
        if hx[0].dim() != 3 or hx[1].dim() != 3:
            raise RuntimeError(
                f"For batched 3-D input, hx and cx should also be 3-D but got ({hx[0].dim()}-D, {hx[1].dim()}-D) "
                "tensors"
            )

    def _check_states(self, hx, directions, batch):
        rows = self.num_layers * directions
        real_hidden = self.proj_size if self.proj_size > 0 else self.hidden_size
        self._check_hidden(hx[0], (rows, batch, real_hidden), "Expected hidden[0] size {}, got {}")
        self._check_hidden(hx[1], (rows, batch, self.hidden_size), "Expected hidden[1] size {}, got {}")

    def _permute(self, hx, indices):
        if indices is None:
            return hx
        return hx[0].index_select(1, indices), hx[1].index_select(1, indices)


class RNNCellBase(Module):
    """Hold the parameters and checks that the recurrent cells share.

    Args:
        input_size: Number of features of the input.
        hidden_size: Number of features `h` of the hidden state.
        bias: Whether to learn the biases `b_ih` and `b_hh`.
        num_chunks: Number of gates, each of `hidden_size` rows.
        device: Device of the parameters. `None` means the default device.
        dtype: Dtype of the parameters. `None` means the default dtype.
    """

    weight_ih: Parameter
    weight_hh: Parameter
    bias_ih: Parameter | None
    bias_hh: Parameter | None

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        rows = num_chunks * hidden_size
        self.weight_ih = Parameter(torch.empty((rows, input_size), device=device, dtype=dtype))
        self.weight_hh = Parameter(torch.empty((rows, hidden_size), device=device, dtype=dtype))
        if bias:
            self.bias_ih = Parameter(torch.empty(rows, device=device, dtype=dtype))
            self.bias_hh = Parameter(torch.empty(rows, device=device, dtype=dtype))
        else:
            self.register_parameter("bias_ih", None)
            self.register_parameter("bias_hh", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new values, uniform in `[-k, k]` with `k = 1 / sqrt(hidden_size)`."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def extra_repr(self) -> str:
        """Return the sizes and the settings that are not defaults for the repr."""
        text = f"{self.input_size}, {self.hidden_size}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        if getattr(self, "nonlinearity", "tanh") != "tanh":
            text += f", nonlinearity={self.nonlinearity}"
        return text

    def _checked(self, input, states):
        name = type(self).__name__
        if input.dim() not in (1, 2):
            raise ValueError(f"{name}: Expected input to be 1D or 2D, got {input.dim()}D instead")
        for hx in states:
            if hx is not None and hx.dim() not in (1, 2):
                raise ValueError(f"{name}: Expected hidden to be 1D or 2D, got {hx.dim()}D instead")
        batched = input.dim() == 2
        if not batched:
            input = input.unsqueeze(0)
        zeros = None
        rows = []
        for hx in states:
            if hx is None:
                if zeros is None:
                    zeros = torch.zeros(input.size(0), self.hidden_size, dtype=input.dtype, device=input.device)
                rows.append(zeros)
            else:
                rows.append(hx if batched else hx.unsqueeze(0))
        return input, rows, batched

    def _weights(self):
        return self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh


class RNNCell(RNNCellBase):
    """Apply one step of a simple recurrent network.

    `h' = tanh(W_ih x + b_ih + W_hh h + b_hh)`, or `relu` in place of `tanh`.

    Args:
        input_size: Number of features of the input.
        hidden_size: Number of features `h` of the hidden state.
        bias: Whether to learn the biases `b_ih` and `b_hh`.
        nonlinearity: `"tanh"` or `"relu"`.
        device: Device of the parameters. `None` means the default device.
        dtype: Dtype of the parameters. `None` means the default dtype.

    Attributes:
        weight_ih: Parameter `(h, input_size)`.
        weight_hh: Parameter `(h, h)`.
        bias_ih: Parameter `(h,)`, or `None`.
        bias_hh: Parameter `(h,)`, or `None`.

    Shape:
        Input `(n, input_size)` or `(input_size,)`; hidden state and output `(n, h)` or `(h,)`.

    Raises:
        ValueError: The input or a state has other than 1 or 2 dimensions.
        RuntimeError: A size does not fit.

    Example:
        >>> import pytpu as torch
        >>> cell = torch.nn.RNNCell(10, 20)
        >>> cell(torch.randn(3, 10), torch.randn(3, 20)).shape
        torch.Size([3, 20])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """Return the hidden state after `input`. `hx` is the state before it, and `None` means zeros."""
        input, (hx,), batched = self._checked(input, (hx,))
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        h = getattr(_ops, f"rnn_{self.nonlinearity}_cell")(input, hx, *self._weights())
        return h if batched else h.squeeze(0)


class LSTMCell(RNNCellBase):
    """Apply one step of a long short-term memory network.

    A step takes the hidden state `h` and the cell state `c` to `h'` and `c'`:

        i = sigmoid(W_ii x + b_ii + W_hi h + b_hi)
        f = sigmoid(W_if x + b_if + W_hf h + b_hf)
        g = tanh(W_ig x + b_ig + W_hg h + b_hg)
        o = sigmoid(W_io x + b_io + W_ho h + b_ho)
        c' = f * c + i * g
        h' = o * tanh(c')

    The parameters hold the rows of the gates `i`, `f`, `g` and `o`, in this order.

    Args:
        input_size: Number of features of the input.
        hidden_size: Number of features `h` of the hidden state.
        bias: Whether to learn the biases `b_ih` and `b_hh`.
        device: Device of the parameters. `None` means the default device.
        dtype: Dtype of the parameters. `None` means the default dtype.

    Attributes:
        weight_ih: Parameter `(4 * h, input_size)`.
        weight_hh: Parameter `(4 * h, h)`.
        bias_ih: Parameter `(4 * h,)`, or `None`.
        bias_hh: Parameter `(4 * h,)`, or `None`.

    Shape:
        Input `(n, input_size)` or `(input_size,)`; states and outputs are pairs of `(n, h)` or `(h,)`.

    Raises:
        ValueError: The input or a state has other than 1 or 2 dimensions.
        RuntimeError: A size does not fit.

    Example:
        >>> import pytpu as torch
        >>> cell = torch.nn.LSTMCell(10, 20)
        >>> hidden, state = cell(torch.randn(3, 10))
        >>> hidden.shape, state.shape
        (torch.Size([3, 20]), torch.Size([3, 20]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        """Return hidden and cell state after `input`. `hx` is the pair before it, and `None` means zeros."""
        input, states, batched = self._checked(input, (None, None) if hx is None else hx)
        h, c = _ops.lstm_cell(input, states, *self._weights())
        return (h, c) if batched else (h.squeeze(0), c.squeeze(0))


class GRUCell(RNNCellBase):
    """Apply one step of a gated recurrent network.

    A step takes the hidden state `h` to `h'`:

        r = sigmoid(W_ir x + b_ir + W_hr h + b_hr)
        z = sigmoid(W_iz x + b_iz + W_hz h + b_hz)
        n = tanh(W_in x + b_in + r * (W_hn h + b_hn))
        h' = (1 - z) * n + z * h

    The parameters hold the rows of the gates `r`, `z` and `n`, in this order.

    Args:
        input_size: Number of features of the input.
        hidden_size: Number of features `h` of the hidden state.
        bias: Whether to learn the biases `b_ih` and `b_hh`.
        device: Device of the parameters. `None` means the default device.
        dtype: Dtype of the parameters. `None` means the default dtype.

    Attributes:
        weight_ih: Parameter `(3 * h, input_size)`.
        weight_hh: Parameter `(3 * h, h)`.
        bias_ih: Parameter `(3 * h,)`, or `None`.
        bias_hh: Parameter `(3 * h,)`, or `None`.

    Shape:
        Input `(n, input_size)` or `(input_size,)`; hidden state and output `(n, h)` or `(h,)`.

    Raises:
        ValueError: The input or a state has other than 1 or 2 dimensions.
        RuntimeError: A size does not fit.

    Example:
        >>> import pytpu as torch
        >>> cell = torch.nn.GRUCell(10, 20)
        >>> cell(torch.randn(3, 10)).shape
        torch.Size([3, 20])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """Return the hidden state after `input`. `hx` is the state before it, and `None` means zeros."""
        input, (hx,), batched = self._checked(input, (hx,))
        h = _ops.gru_cell(input, hx, *self._weights())
        return h if batched else h.squeeze(0)
