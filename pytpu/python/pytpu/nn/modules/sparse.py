"""Embeddings."""

from __future__ import annotations

import pytpu as torch
from pytpu import Tensor
from pytpu.nn import functional as F, init
from pytpu.nn.parameter import Parameter

from .module import Module

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing_extensions import Self

    from pytpu.types import Device


def _refuse_sparse(sparse):
    if sparse:
        raise NotImplementedError(
            "sparse gradients are not implemented, because there are no sparse tensors yet; leave out sparse=True for "
            "a dense gradient"
        )


class Embedding(Module):
    """Look up rows of a learned table by index.

    `y[...] = weight[input[...]]`.

    Args:
        num_embeddings: Number of rows.
        embedding_dim: Size of a row.
        padding_idx: Index of a row that gets no gradient. It is initially zero. Negative indices count from the
            end.
        max_norm: Largest norm of a row. Rows that are looked up are scaled down to it in place. `None` leaves
            them as they are.
        norm_type: Exponent of that norm.
        scale_grad_by_freq: Whether to divide the gradient of a row by how often its index is in the batch.
        sparse: Must be false: there are no sparse gradients.
        _weight: Tensor to use as the table, as `from_pretrained` does.
        _freeze: Whether the table is not trained.
        device: Device of the parameters. `None` means the default device.
        dtype: Dtype of the parameters. `None` means the default dtype.

    Attributes:
        weight: Parameter `(num_embeddings, embedding_dim)`, initially from the standard normal distribution.

    Shape:
        Input `(*)` of integers; output `(*, embedding_dim)`.

    Raises:
        AssertionError: `padding_idx` is not a row, or `_weight` has another shape.
        NotImplementedError: `sparse` is true.
        IndexError: An index is not a row.

    Example:
        >>> import pytpu as torch
        >>> table = torch.nn.Embedding(10, 3, padding_idx=0)
        >>> table(torch.tensor([[1, 2, 4], [4, 3, 0]])).shape
        torch.Size([2, 3, 3])
        >>> table(torch.tensor(0)).tolist()
        [0.0, 0.0, 0.0]
    """

    weight: Parameter

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise AssertionError("Padding_idx must be within num_embeddings")
            padding_idx %= num_embeddings
        self.padding_idx = padding_idx
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        if _weight is None:
            self.weight = Parameter(
                torch.empty((num_embeddings, embedding_dim), device=device, dtype=dtype), requires_grad=not _freeze
            )
            self.reset_parameters()
        else:
            if list(_weight.shape) != [num_embeddings, embedding_dim]:
                raise AssertionError("Shape of weight does not match num_embeddings and embedding_dim")
            self.weight = Parameter(_weight, requires_grad=not _freeze)
        _refuse_sparse(sparse)
        self.sparse = sparse

    def reset_parameters(self: Embedding | EmbeddingBag) -> None:
        """Draw new values from the standard normal distribution, and set the padding row to zero."""
        init.normal_(self.weight)
        self._fill_padding_idx_with_zero()

    def _fill_padding_idx_with_zero(self: Embedding | EmbeddingBag) -> None:
        if self.padding_idx is not None:
            with torch.no_grad():
                self.weight[self.padding_idx].fill_(0)

    def forward(self, input: Tensor) -> Tensor:
        """Return the rows at the indices `input`, of shape `(*, embedding_dim)`."""
        return F.embedding(
            input,
            self.weight,
            self.padding_idx,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.sparse,
        )

    def extra_repr(self) -> str:
        """Return the sizes and the settings that are not defaults for the repr."""
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        if self.padding_idx is not None:
            text += f", padding_idx={self.padding_idx}"
        if self.max_norm is not None:
            text += f", max_norm={self.max_norm}"
        if self.norm_type != 2:
            text += f", norm_type={self.norm_type}"
        if self.scale_grad_by_freq is not False:
            text += f", scale_grad_by_freq={self.scale_grad_by_freq}"
        if self.sparse is not False:
            text += ", sparse=True"
        return text

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Self:
        """Make a module whose table is a given tensor.

        Args:
            embeddings: Table `(num_embeddings, embedding_dim)`. It is used without a copy.
            freeze: Whether the table is not trained.
            padding_idx: Index of a row that gets no gradient. Its values are kept.
            max_norm: Largest norm of a row. Rows that are looked up are scaled down to it in place. `None` leaves
                them as they are.
            norm_type: Exponent of that norm.
            scale_grad_by_freq: Whether to divide the gradient of a row by how often its index is in the batch.
            sparse: Must be false: there are no sparse gradients.

        Returns:
            The new module.

        Raises:
            AssertionError: `embeddings` does not have two dimensions.

        Example:
            >>> import pytpu as torch
            >>> table = torch.nn.Embedding.from_pretrained(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
            >>> table(torch.tensor([1]))
            tensor([[3., 4.]])
        """
        if embeddings.dim() != 2:
            raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
        rows, cols = embeddings.shape
        return cls(
            rows,
            cols,
            _weight=embeddings,
            _freeze=freeze,
            padding_idx=padding_idx,
            max_norm=max_norm,
            norm_type=norm_type,
            scale_grad_by_freq=scale_grad_by_freq,
            sparse=sparse,
        )


class EmbeddingBag(Module):
    """Reduce bags of rows of a learned table to one vector each.

    `y[i] = reduce(weight[j] for j in bag i)`, without storing the single rows.

    Args:
        num_embeddings: Number of rows.
        embedding_dim: Size of a row.
        max_norm: Largest norm of a row. Rows that are looked up are scaled down to it in place. `None` leaves
            them as they are.
        norm_type: Exponent of that norm.
        scale_grad_by_freq: Whether to divide the gradient of a row by how often its index is in the batch.
        mode: `"sum"`, `"mean"` or `"max"`.
        sparse: Must be false: there are no sparse gradients.
        _weight: Tensor to use as the table, as `from_pretrained` does.
        include_last_offset: Whether the last offset is the end of the last bag instead of the start of one
            more.
        padding_idx: Index of a row that bags leave out and that gets no gradient. It is initially zero.
            Negative indices count from the end.
        device: Device of the parameters. `None` means the default device.
        dtype: Dtype of the parameters. `None` means the default dtype.

    Attributes:
        weight: Parameter `(num_embeddings, embedding_dim)`, initially from the standard normal distribution.

    Shape:
        Input `(n, k)` of integers: `n` bags of `k` rows. Output `(n, embedding_dim)`.
        Input `(k,)` with offsets `(n,)` of integers: bag `i` goes from `offsets[i]` to `offsets[i + 1]`. Output
            `(n, embedding_dim)`.

    Raises:
        AssertionError: `padding_idx` is not a row, or `_weight` has another shape.
        NotImplementedError: `sparse` is true.

    Example:
        >>> import pytpu as torch
        >>> table = torch.nn.EmbeddingBag.from_pretrained(torch.tensor([[1.0], [2.0], [4.0]]), mode="sum")
        >>> table(torch.tensor([0, 1, 2]), torch.tensor([0, 2]))
        tensor([[3.],
                [4.]])
    """

    weight: Parameter

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise AssertionError("padding_idx must be within num_embeddings")
            padding_idx %= num_embeddings
        self.padding_idx = padding_idx
        if _weight is None:
            self.weight = Parameter(torch.empty((num_embeddings, embedding_dim), device=device, dtype=dtype))
            self.reset_parameters()
        else:
            if list(_weight.shape) != [num_embeddings, embedding_dim]:
                raise AssertionError("Shape of weight does not match num_embeddings and embedding_dim")
            self.weight = Parameter(_weight)
        self.mode = mode
        _refuse_sparse(sparse)
        self.sparse = sparse
        self.include_last_offset = include_last_offset

    reset_parameters = Embedding.reset_parameters
    _fill_padding_idx_with_zero = Embedding._fill_padding_idx_with_zero

    def forward(self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        """Return one vector per bag.

        Args:
            input: Indices `(n, k)`, or `(k,)` with `offsets`.
            offsets: Starts of the bags in a one-dimensional `input`, ascending from 0.
            per_sample_weights: Factors of the rows, in the shape of `input`. Only for mode `"sum"`.

        Returns:
            Vectors `(n, embedding_dim)`.

        Raises:
            ValueError: The shapes do not fit, or `offsets` is missing or too much.
            NotImplementedError: There are weights and the mode is not `"sum"`.
        """
        return F.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights,
            self.include_last_offset,
            self.padding_idx,
        )

    def extra_repr(self) -> str:
        """Return the sizes and the settings that are not defaults for the repr."""
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        if self.max_norm is not None:
            text += f", max_norm={self.max_norm}"
        if self.norm_type != 2:
            text += f", norm_type={self.norm_type}"
        if self.scale_grad_by_freq is not False:
            text += f", scale_grad_by_freq={self.scale_grad_by_freq}"
        text += f", mode={self.mode!r}"
        if self.padding_idx is not None:
            text += f", padding_idx={self.padding_idx}"
        return text

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> Self:
        """Make a module whose table is a given tensor.

        Args:
            embeddings: Table `(num_embeddings, embedding_dim)`. It is used without a copy.
            freeze: Whether the table is not trained.
            max_norm: Largest norm of a row. Rows that are looked up are scaled down to it in place. `None` leaves
                them as they are.
            norm_type: Exponent of that norm.
            scale_grad_by_freq: Whether to divide the gradient of a row by how often its index is in the batch.
            mode: `"sum"`, `"mean"` or `"max"`.
            sparse: Must be false: there are no sparse gradients.
            include_last_offset: Whether the last offset is the end of the last bag instead of the start of one
                more.
            padding_idx: Index of a row that bags leave out and that gets no gradient.

        Returns:
            The new module.

        Raises:
            AssertionError: `embeddings` does not have two dimensions.
        """
        if embeddings.dim() != 2:
            raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
        rows, cols = embeddings.shape
        bag = cls(
            rows,
            cols,
            _weight=embeddings,
            max_norm=max_norm,
            norm_type=norm_type,
            scale_grad_by_freq=scale_grad_by_freq,
            mode=mode,
            sparse=sparse,
            include_last_offset=include_last_offset,
            padding_idx=padding_idx,
        )
        bag.weight.requires_grad = not freeze
        return bag
