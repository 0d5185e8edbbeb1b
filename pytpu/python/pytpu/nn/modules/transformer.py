"""The layers of the original Transformer."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable

import pytpu as torch
from pytpu import Tensor
from pytpu.nn import functional as F, init

from .activation import GELU, MultiheadAttention, ReLU
from .container import ModuleList
from .dropout import Dropout
from .linear import Linear
from .module import Module
from .normalization import LayerNorm

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

    from pytpu.types import Device


def _copies(module, n):
    return ModuleList([copy.deepcopy(module) for _ in range(n)])


def _activation(activation):
    if not isinstance(activation, str):
        return activation
    if activation == "relu":
        return F.relu
    if activation == "gelu":
        return F.gelu
    raise RuntimeError(f"activation should be relu/gelu, not {activation}")


# timm imports it under PyTorch's name.
_get_activation_fn = _activation


def _causal_mask(size, device=None, dtype=None):
    return torch.triu(torch.full((size, size), float("-inf"), dtype=dtype, device=device), diagonal=1)


def _sequence_length(src, batch_first):
    if src.dim() == 2:
        return src.size(0)
    return src.size(1 if batch_first else 0)


def _is_causal(mask, is_causal, size):
    """Return whether `mask` is the causal mask. A given `is_causal` is the answer."""
    if is_causal is not None:
        return is_causal is True
    if mask is None or size is None or mask.dim() != 2 or tuple(mask.shape) != (size, size):
        return False
    causal = _causal_mask(size, mask.device, mask.dtype if mask.is_floating_point() else None)
    if mask.dtype == torch.bool:
        causal = causal == float("-inf")
    return bool((mask == causal).all())


class TransformerEncoderLayer(Module):
    """Apply self-attention and two linear layers, each with a residual connection and layer normalisation.

    `x = norm1(x + attention(x))`, then `y = norm2(x + linear2(activation(linear1(x))))`. With `norm_first`,
    `x + attention(norm1(x))` and likewise.

    Args:
        d_model: Number of features `e` of inputs and outputs. Divisible by `nhead`.
        nhead: Number of heads of attention.
        dim_feedforward: Number of features between the two linear layers.
        dropout: Probability of dropping in training mode.
        activation: `"relu"`, `"gelu"` or a function of a tensor, between the two linear layers.
        layer_norm_eps: Number that is added to the variance in layer normalisation.
        batch_first: Whether inputs and outputs are `(n, t, e)` instead of `(t, n, e)`.
        norm_first: Whether each part normalises its input instead of its result.
        bias: Whether linear layers and normalisations learn biases.
        device: Device of the parameters. `None` means the default device.
        dtype: Dtype of the parameters. `None` means the default dtype.

    Shape:
        Input `(t, n, e)`, `(n, t, e)` if `batch_first`, or `(t, e)`; output of the same shape.

    Raises:
        RuntimeError: `activation` is an unknown name.
        AssertionError: `nhead` does not divide `d_model`.

    Example:
        >>> import pytpu as torch
        >>> layer = torch.nn.TransformerEncoderLayer(d_model=16, nhead=4, batch_first=True)
        >>> layer(torch.randn(2, 10, 16)).shape
        torch.Size([2, 10, 16])
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        factory: dict[str, Any] = {"device": device, "dtype": dtype}
        super().__init__()
        self.self_attn = MultiheadAttention(
            d_model, nhead, dropout=dropout, bias=bias, batch_first=batch_first, **factory
        )
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, **factory)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, **factory)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **factory)
        self.norm2 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **factory)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.activation = _activation(activation)
        # PyTorch reads this attribute in a layer that it loads from a file.
        is_relu = self.activation is F.relu or isinstance(self.activation, ReLU)
        is_gelu = self.activation is F.gelu or isinstance(self.activation, GELU)
        self.activation_relu_or_gelu = 1 if is_relu else 2 if is_gelu else 0

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("activation", F.relu)

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """Return the output of the layer.

        Args:
            src: Sequences. See the class for shapes.
            src_mask: Mask `(t, t)` or `(n * nhead, t, t)` of pairs. `True` leaves a pair out; floats are added to
                the scores.
            src_key_padding_mask: Mask `(n, t)` or `(t,)` of keys. `True` leaves a key out; floats are added to the
                scores.
            is_causal: Hint that `src_mask` is the causal mask. The mask must still be given.

        Returns:
            Tensor of the shape of `src`.

        Raises:
            AssertionError: The dtype of a mask is neither boolean nor floating point.
        """
        src_key_padding_mask = F._attention_mask(
            src_key_padding_mask, "src_key_padding_mask", src.dtype, src_mask, other_name="src_mask"
        )
        src_mask = F._attention_mask(src_mask, "src_mask", src.dtype, check_other=False)
        x = src
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), src_mask, src_key_padding_mask, is_causal)
            return x + self._ff_block(self.norm2(x))
        x = self.norm1(x + self._sa_block(x, src_mask, src_key_padding_mask, is_causal))
        return self.norm2(x + self._ff_block(x))

    def _sa_block(self, x, attn_mask, key_padding_mask, is_causal):
        x = self.self_attn(
            x,
            x,
            x,
            attn_mask=attn_mask,
            key_padding_mask=key_padding_mask,
            need_weights=False,
            is_causal=is_causal,
        )[0]
        return self.dropout1(x)

    def _ff_block(self, x):
        return self.dropout2(self.linear2(self.dropout(self.activation(self.linear1(x)))))


class TransformerEncoder(Module):
    """Apply a stack of encoder layers.

    Args:
        encoder_layer: Layer to copy `num_layers` times.
        num_layers: Number of layers.
        norm: Module to apply to the result. `None` means none.
        enable_nested_tensor: Whether padding gives zeros in evaluation mode without gradients, as PyTorch's
            nested tensors do. Some layers do not allow it; a warning then says why.
        mask_check: Whether to do so only where the padding is at the ends of the sequences.

    Shape:
        As the layer has them.

    Example:
        >>> import pytpu as torch
        >>> layer = torch.nn.TransformerEncoderLayer(d_model=16, nhead=4, batch_first=True)
        >>> encoder = torch.nn.TransformerEncoder(layer, num_layers=2)
        >>> encoder(torch.randn(2, 10, 16)).shape
        torch.Size([2, 10, 16])
    """

    def __init__(
        self,
        encoder_layer: TransformerEncoderLayer,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers = _copies(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor = enable_nested_tensor
        self.use_nested_tensor = enable_nested_tensor
        self.mask_check = mask_check
        reason = _why_not_nested(encoder_layer)
        if enable_nested_tensor and reason:
            warnings.warn(
                f"enable_nested_tensor is True, but self.use_nested_tensor is False because {reason}", stacklevel=2
            )
            self.use_nested_tensor = False

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        """Return the output of the last layer, normalised if there is a `norm`.

        Args:
            src: Sequences, as the layers take them.
            mask: Mask `(t, t)` or `(n * nhead, t, t)` of pairs. `True` leaves a pair out; floats are added to the
                scores.
            src_key_padding_mask: Mask `(n, t)` or `(t,)` of keys. `True` leaves a key out; floats are added to the
                scores.
            is_causal: Hint that `mask` is the causal mask. `None` compares it, which reads the mask.

        Returns:
            Tensor of the shape of `src`.

        Raises:
            AssertionError: The dtype of a mask is neither boolean nor floating point.
        """
        src_key_padding_mask = F._attention_mask(
            src_key_padding_mask, "src_key_padding_mask", src.dtype, mask, other_name="mask"
        )
        mask = F._attention_mask(mask, "mask", src.dtype, check_other=False)
        first = self.layers[0] if len(self.layers) else None
        batch_first = getattr(getattr(first, "self_attn", None), "batch_first", False)
        is_causal = _is_causal(mask, is_causal, _sequence_length(src, batch_first))
        output = src
        for layer in self.layers:
            output = layer(output, src_mask=mask, is_causal=is_causal, src_key_padding_mask=src_key_padding_mask)
        if mask is None and src_key_padding_mask is not None and self._drops_padding(src):
            output = _without_padding(output, src_key_padding_mask, self.mask_check)
        return output if self.norm is None else self.norm(output)

    def _drops_padding(self, src):
        """Return whether PyTorch would use nested tensors, whose padding has no elements.

        The results are then zero there.
        """
        return (
            self.use_nested_tensor
            and not self.layers[0].training
            and src.dim() == 3
            and not (torch.is_grad_enabled() and any(t.requires_grad for t in (src, *self.layers[0].parameters())))
        )


def _why_not_nested(layer):
    """Return why PyTorch would not use nested tensors for a layer, in its words. Empty if it would."""
    if not isinstance(layer, TransformerEncoderLayer):
        return "encoder_layer was not an instance of TransformerEncoderLayer"
    if layer.norm_first:
        return "encoder_layer.norm_first was True"
    if not layer.self_attn.batch_first:
        return "encoder_layer.self_attn.batch_first was not True(use batch_first for better inference performance)"
    if layer.self_attn.in_proj_bias is None:
        return "encoder_layer.self_attn was passed bias=False"
    if layer.activation not in (F.relu, F.gelu) and not isinstance(layer.activation, (ReLU, GELU)):
        return "encoder_layer.activation_relu_or_gelu was not True"
    if layer.norm1.eps != layer.norm2.eps:
        return "encoder_layer.norm1.eps was not equal to encoder_layer.norm2.eps"
    if layer.self_attn.num_heads % 2 == 1:
        return "encoder_layer.self_attn.num_heads is odd"
    return ""


def _without_padding(output, padding, check):
    """Return `output` with zeros where `padding` is not 0.

    With `check`, only if the padding of each sequence is at its end.
    """
    padded = padding != 0
    if check:
        # Decide on the device: reading the mask would wait for it.
        padded = padded & ~(padded[:, :-1] & ~padded[:, 1:]).any()
    return output.masked_fill(padded.unsqueeze(-1), 0.0)


class TransformerDecoderLayer(Module):
    """Apply self-attention, attention to a memory and two linear layers.

    `x = norm1(x + self_attention(x))`, `x = norm2(x + attention(x, memory))`, then
    `y = norm3(x + linear2(activation(linear1(x))))`. With `norm_first`, each part normalises its input instead.

    Args:
        d_model: Number of features `e` of inputs and outputs. Divisible by `nhead`.
        nhead: Number of heads of attention.
        dim_feedforward: Number of features between the two linear layers.
        dropout: Probability of dropping in training mode.
        activation: `"relu"`, `"gelu"` or a function of a tensor, between the two linear layers.
        layer_norm_eps: Number that is added to the variance in layer normalisation.
        batch_first: Whether inputs and outputs are `(n, t, e)` instead of `(t, n, e)`.
        norm_first: Whether each part normalises its input instead of its result.
        bias: Whether linear layers and normalisations learn biases.
        device: Device of the parameters. `None` means the default device.
        dtype: Dtype of the parameters. `None` means the default dtype.

    Shape:
        Target `(t, n, e)` and memory `(s, n, e)`, with `n` first if `batch_first`, or both without `n`; output
            of the shape of the target.

    Raises:
        RuntimeError: `activation` is an unknown name.
        AssertionError: `nhead` does not divide `d_model`.

    Example:
        >>> import pytpu as torch
        >>> layer = torch.nn.TransformerDecoderLayer(d_model=16, nhead=4, batch_first=True)
        >>> layer(torch.randn(2, 10, 16), torch.randn(2, 7, 16)).shape
        torch.Size([2, 10, 16])
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        factory: dict[str, Any] = {"device": device, "dtype": dtype}
        super().__init__()
        attention: dict[str, Any] = {"dropout": dropout, "batch_first": batch_first, "bias": bias, **factory}
        self.self_attn = MultiheadAttention(d_model, nhead, **attention)
        self.multihead_attn = MultiheadAttention(d_model, nhead, **attention)
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, **factory)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, **factory)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **factory)
        self.norm2 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **factory)
        self.norm3 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **factory)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.dropout3 = Dropout(dropout)
        self.activation = _activation(activation)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("activation", F.relu)

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Return the output of the layer.

        Args:
            tgt: Target sequences. See the class for shapes.
            memory: Output of the encoder.
            tgt_mask: Mask `(t, t)` or `(n * nhead, t, t)` of pairs of targets. `True` leaves a pair out; floats are
                added to the scores.
            memory_mask: Mask `(t, s)` or `(n * nhead, t, s)` of pairs of target and memory. `True` leaves a pair
                out; floats are added to the scores.
            tgt_key_padding_mask: Mask `(n, t)` or `(t,)` of targets as keys. `True` leaves a key out; floats are
                added to the scores.
            memory_key_padding_mask: Mask `(n, s)` or `(s,)` of the memory as keys. `True` leaves a key out; floats
                are added to the scores.
            tgt_is_causal: Hint that `tgt_mask` is the causal mask. The mask must still be given.
            memory_is_causal: Hint that `memory_mask` is the causal mask. The mask must still be given.

        Returns:
            Tensor of the shape of `tgt`.
        """
        x = tgt
        own = (tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        other = (memory_mask, memory_key_padding_mask, memory_is_causal)
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), *own)
            x = x + self._mha_block(self.norm2(x), memory, *other)
            return x + self._ff_block(self.norm3(x))
        x = self.norm1(x + self._sa_block(x, *own))
        x = self.norm2(x + self._mha_block(x, memory, *other))
        return self.norm3(x + self._ff_block(x))

    def _sa_block(self, x, attn_mask, key_padding_mask, is_causal):
        x = self.self_attn(
            x, x, x, attn_mask=attn_mask, key_padding_mask=key_padding_mask, is_causal=is_causal, need_weights=False
        )[0]
        return self.dropout1(x)

    def _mha_block(self, x, mem, attn_mask, key_padding_mask, is_causal):
        x = self.multihead_attn(
            x, mem, mem, attn_mask=attn_mask, key_padding_mask=key_padding_mask, is_causal=is_causal, need_weights=False
        )[0]
        return self.dropout2(x)

    def _ff_block(self, x):
        return self.dropout3(self.linear2(self.dropout(self.activation(self.linear1(x)))))


class TransformerDecoder(Module):
    """Apply a stack of decoder layers.

    Args:
        decoder_layer: Layer to copy `num_layers` times.
        num_layers: Number of layers.
        norm: Module to apply to the result. `None` means none.

    Shape:
        As the layer has them.

    Example:
        >>> import pytpu as torch
        >>> layer = torch.nn.TransformerDecoderLayer(d_model=16, nhead=4, batch_first=True)
        >>> decoder = torch.nn.TransformerDecoder(layer, num_layers=2)
        >>> decoder(torch.randn(2, 10, 16), torch.randn(2, 7, 16)).shape
        torch.Size([2, 10, 16])
    """

    def __init__(self, decoder_layer: TransformerDecoderLayer, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = _copies(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Return the output of the last layer, normalised if there is a `norm`.

        Args:
            tgt: Target sequences, as the layers take them.
            memory: Output of the encoder.
            tgt_mask: Mask `(t, t)` or `(n * nhead, t, t)` of pairs of targets. `True` leaves a pair out; floats are
                added to the scores.
            memory_mask: Mask `(t, s)` or `(n * nhead, t, s)` of pairs of target and memory. `True` leaves a pair
                out; floats are added to the scores.
            tgt_key_padding_mask: Mask `(n, t)` or `(t,)` of targets as keys. `True` leaves a key out; floats are
                added to the scores.
            memory_key_padding_mask: Mask `(n, s)` or `(s,)` of the memory as keys. `True` leaves a key out; floats
                are added to the scores.
            tgt_is_causal: Hint that `tgt_mask` is the causal mask. `None` compares it, which reads the mask.
            memory_is_causal: Hint that `memory_mask` is the causal mask. The mask must still be given.

        Returns:
            Tensor of the shape of `tgt`.
        """
        first = self.layers[0] if len(self.layers) else None
        batch_first = getattr(getattr(first, "self_attn", None), "batch_first", False)
        tgt_is_causal = _is_causal(tgt_mask, tgt_is_causal, _sequence_length(tgt, batch_first))
        output = tgt
        for layer in self.layers:
            output = layer(
                output,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=tgt_is_causal,
                memory_is_causal=memory_is_causal,
            )
        return output if self.norm is None else self.norm(output)


class Transformer(Module):
    """Apply an encoder to source sequences and a decoder to target sequences.

    Parameters of two and more dimensions start with Xavier uniform values.

    Args:
        d_model: Number of features `e` of inputs and outputs. Divisible by `nhead`.
        nhead: Number of heads of attention.
        num_encoder_layers: Number of encoder layers.
        num_decoder_layers: Number of decoder layers.
        dim_feedforward: Number of features between the two linear layers.
        dropout: Probability of dropping in training mode.
        activation: `"relu"`, `"gelu"` or a function of a tensor, between the two linear layers.
        custom_encoder: Module to use as the encoder.
        custom_decoder: Module to use as the decoder.
        layer_norm_eps: Number that is added to the variance in layer normalisation.
        batch_first: Whether inputs and outputs are `(n, t, e)` instead of `(t, n, e)`.
        norm_first: Whether each part normalises its input instead of its result.
        bias: Whether linear layers and normalisations learn biases.
        device: Device of the parameters. `None` means the default device.
        dtype: Dtype of the parameters. `None` means the default dtype.

    Attributes:
        encoder: The encoder.
        decoder: The decoder.

    Shape:
        Source `(s, n, e)` and target `(t, n, e)`, with `n` first if `batch_first`, or both without `n`; output
            of the shape of the target.

    Example:
        >>> import pytpu as torch
        >>> model = torch.nn.Transformer(16, 4, 1, 1, dim_feedforward=32, batch_first=True)
        >>> model(torch.randn(2, 7, 16), torch.randn(2, 10, 16)).shape
        torch.Size([2, 10, 16])
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = F.relu,
        custom_encoder: Any | None = None,
        custom_decoder: Any | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        factory: dict[str, Any] = {"device": device, "dtype": dtype}
        super().__init__()
        layer: tuple[Any, ...] = (
            d_model,
            nhead,
            dim_feedforward,
            dropout,
            activation,
            layer_norm_eps,
            batch_first,
            norm_first,
            bias,
        )
        if custom_encoder is not None:
            self.encoder = custom_encoder
        else:
            encoder_layer = TransformerEncoderLayer(*layer, **factory)
            norm = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **factory)
            self.encoder = TransformerEncoder(encoder_layer, num_encoder_layers, norm)
        if custom_decoder is not None:
            self.decoder = custom_decoder
        else:
            decoder_layer = TransformerDecoderLayer(*layer, **factory)
            norm = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **factory)
            self.decoder = TransformerDecoder(decoder_layer, num_decoder_layers, norm)
        for p in self.parameters():
            if p.dim() > 1:
                init.xavier_uniform_(p)
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Return the output of the decoder.

        Args:
            src: Source sequences. See the class for shapes.
            tgt: Target sequences.
            src_mask: Mask `(s, s)` or `(n * nhead, s, s)` of pairs of sources. `True` leaves a pair out; floats are
                added to the scores.
            tgt_mask: Mask `(t, t)` or `(n * nhead, t, t)` of pairs of targets. `True` leaves a pair out; floats are
                added to the scores.
            memory_mask: Mask `(t, s)` or `(n * nhead, t, s)` of pairs of target and memory. `True` leaves a pair
                out; floats are added to the scores.
            src_key_padding_mask: Mask `(n, s)` or `(s,)` of sources as keys. `True` leaves a key out; floats are
                added to the scores.
            tgt_key_padding_mask: Mask `(n, t)` or `(t,)` of targets as keys. `True` leaves a key out; floats are
                added to the scores.
            memory_key_padding_mask: Mask `(n, s)` or `(s,)` of the memory as keys. `True` leaves a key out; floats
                are added to the scores.
            src_is_causal: Hint that `src_mask` is the causal mask. `None` compares it, which reads the mask.
            tgt_is_causal: The same for `tgt_mask`.
            memory_is_causal: Hint that `memory_mask` is the causal mask. The mask must still be given.

        Returns:
            Tensor of the shape of `tgt`.

        Raises:
            RuntimeError: The batch sizes differ, or a number of features is not `d_model`.
        """
        batched = src.dim() == 3
        batch_dim = 0 if self.batch_first else 1
        if batched and src.size(batch_dim) != tgt.size(batch_dim):
            raise RuntimeError("the batch number of src and tgt must be equal")
        if src.size(-1) != self.d_model or tgt.size(-1) != self.d_model:
            raise RuntimeError("the feature number of src and tgt must be equal to d_model")
        memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal)
        return self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Device = None, dtype: torch.dtype | None = None) -> Tensor:
        """Return a mask that lets each position attend to itself and those before it.

        Args:
            sz: Length of the sequence.
            device: Device of the mask. `None` means the default device.
            dtype: Dtype of the mask. `None` means the default dtype.

        Returns:
            Mask `(sz, sz)`: 0 on and below the diagonal, negative infinity above it.

        Example:
            >>> import pytpu as torch
            >>> torch.nn.Transformer.generate_square_subsequent_mask(3)
            tensor([[0., -inf, -inf],
                    [0., 0., -inf],
                    [0., 0., 0.]])
        """
        return _causal_mask(sz, device, dtype)
