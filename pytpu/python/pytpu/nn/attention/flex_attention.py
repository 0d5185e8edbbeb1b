"""Attention with a function that changes the scores and a mask function, as in `torch.nn.attention.flex_attention`.

All `batch * heads * queries * keys` scores are computed. On device `tpu` the compiler fuses the changes to them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, overload

import pytpu as torch
from pytpu import Tensor
from pytpu.types import Device

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = [
    "AuxOutput",
    "AuxRequest",
    "BlockMask",
    "FlexKernelOptions",
    "and_masks",
    "create_block_mask",
    "create_mask",
    "flex_attention",
    "noop_mask",
    "or_masks",
]

_DEFAULT_SPARSE_BLOCK_SIZE = 128
FlexKernelOptions = dict
_score_mod_signature = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]
_mask_mod_signature = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


class AuxRequest(NamedTuple):
    """Additional results of `flex_attention`.

    Attributes:
        lse: Whether to return the logarithms of the sums of exponentials of the scores.
        max_scores: Whether to return the largest scores.

    Example:
        >>> import pytpu as torch
        >>> from pytpu.nn.attention.flex_attention import AuxRequest, flex_attention
        >>> q = torch.randn(1, 2, 4, 8)
        >>> out, aux = flex_attention(q, q, q, return_aux=AuxRequest(lse=True))
        >>> aux.lse.shape, aux.max_scores
        (torch.Size([1, 2, 4]), None)
    """

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """Hold what `flex_attention` returned besides its result.

    Attributes:
        lse: Tensor `(batch, heads, queries)`, or `None`.
        max_scores: Tensor `(batch, heads, queries)`, or `None`.
    """

    lse: Tensor | None = None
    max_scores: Tensor | None = None


def noop_mask(batch: Tensor, head: Tensor, token_q: Tensor, token_kv: Tensor) -> Tensor:
    """Let every query attend to every key. A mask function.

    Args:
        batch: Index of the batch.
        head: Index of the head.
        token_q: Index of the query.
        token_kv: Index of the key.

    Returns:
        `True`, as a tensor.
    """
    return batch.new_ones(size=(), dtype=torch.bool, device=batch.device)


def _combine(masks, start, join):
    if not all(callable(m) for m in masks):
        raise RuntimeError(f"All inputs should be callable mask_mods: {masks}")

    def mask(b, h, q_idx, kv_idx):
        result = b.new_full((), start, dtype=torch.bool)
        for m in masks:
            result = join(result, m(b, h, q_idx, kv_idx))
        return result

    return mask


def or_masks(*mask_mods: _mask_mod_signature) -> _mask_mod_signature:
    """Return a mask function that allows what any of the given ones allows.

    Args:
        *mask_mods: Mask functions `mask(b, h, q_idx, kv_idx)`.

    Returns:
        The new mask function.

    Raises:
        RuntimeError: An argument is not callable.

    Example:
        >>> import pytpu as torch
        >>> from pytpu.nn.attention.flex_attention import create_mask, or_masks
        >>> def causal(b, h, q_idx, kv_idx):
        ...     return q_idx >= kv_idx
        >>> def first(b, h, q_idx, kv_idx):
        ...     return kv_idx < 2
        >>> create_mask(or_masks(causal, first), None, None, 3, 3, device="cpu")[0, 0]
        tensor([[ True,  True, False],
                [ True,  True, False],
                [ True,  True,  True]])
    """
    return _combine(mask_mods, False, lambda x, y: x | y)


def and_masks(*mask_mods: _mask_mod_signature) -> _mask_mod_signature:
    """Return a mask function that allows what all of the given ones allow.

    Args:
        *mask_mods: Mask functions `mask(b, h, q_idx, kv_idx)`.

    Returns:
        The new mask function.

    Raises:
        RuntimeError: An argument is not callable.

    Example:
        >>> import pytpu as torch
        >>> from pytpu.nn.attention.flex_attention import and_masks, create_mask
        >>> def causal(b, h, q_idx, kv_idx):
        ...     return q_idx >= kv_idx
        >>> def near(b, h, q_idx, kv_idx):
        ...     return q_idx - kv_idx < 2
        >>> create_mask(and_masks(causal, near), None, None, 3, 3, device="cpu")[0, 0]
        tensor([[ True, False, False],
                [ True,  True, False],
                [False,  True,  True]])
    """
    return _combine(mask_mods, True, lambda x, y: x & y)


def _over_all(mod, scores, b, h, q_len, kv_len, device):
    """Call a function of a score and four indices, or of indices alone, once for all places."""
    sizes = (b, h, q_len, kv_len)
    places = []
    for i, n in enumerate(sizes):
        shape = [1, 1, 1, 1]
        shape[i] = n
        places.append(torch.arange(n, device=device, dtype=torch.int32).view(shape))
    found = mod(*(() if scores is None else (scores,)), *places)
    if found.dim() > 4:
        raise NotImplementedError(
            "flex_attention: a function of places gave more than one number for each. It is called once, with tensors "
            "of all places: instead of table[b][q_idx] write table[b, q_idx]"
        )
    return found.expand(sizes)


def _takes_scores(mod):
    """Return whether a function takes a score before the four indices."""
    import inspect

    try:
        parameters = inspect.signature(mod).parameters.values()
    except (TypeError, ValueError):
        return False
    needed = [p for p in parameters if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if len(needed) not in (4, 5):
        raise AssertionError(f"Unknown function signature: {len(needed)} positional arguments, expected 4 or 5")
    return len(needed) == 5


def _default_device(device):
    if device is not None:
        return device
    return torch.accelerator.current_accelerator() or torch.device("cpu")


def create_mask(
    mod_fn: _score_mod_signature | _mask_mod_signature,
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Device = None,
) -> Tensor:
    """Return the mask that a mask function or a score function makes.

    A score function masks where it makes negative infinity of a score of 0.

    Args:
        mod_fn: `mask(b, h, q_idx, kv_idx)` or `score(score, b, h, q_idx, kv_idx)`. It is called once, with
            integer tensors that broadcast.
        B: Number of batches. `None` means 1.
        H: Number of heads. `None` means 1.
        Q_LEN: Number of queries.
        KV_LEN: Number of keys.
        device: Device of the result. `None` means the accelerator, or `cpu` without one.

    Returns:
        Boolean tensor `(B, H, Q_LEN, KV_LEN)`.

    Raises:
        NotImplementedError: The function gives more than one number for a place.
        AssertionError: The function takes other than 4 or 5 arguments.

    Example:
        >>> import pytpu as torch
        >>> from pytpu.nn.attention.flex_attention import create_mask
        >>> def causal(b, h, q_idx, kv_idx):
        ...     return q_idx >= kv_idx
        >>> create_mask(causal, None, None, 2, 2, device="cpu")[0, 0]
        tensor([[ True, False],
                [ True,  True]])
    """
    device = _default_device(device)
    sizes = (1 if B is None else B, 1 if H is None else H, Q_LEN, KV_LEN)
    if not _takes_scores(mod_fn):
        return _over_all(mod_fn, None, *sizes, device)
    scores = _over_all(mod_fn, torch.zeros(sizes, device=device), *sizes, device)
    return torch.where(torch.isneginf(scores), False, True)


def _sort_blocks(blocks):
    """Return the number of true blocks in each row, and their columns, the true ones first."""
    blocks = blocks.to(torch.int32)
    return blocks.sum(dim=-1).to(torch.int32), torch.argsort(blocks, dim=-1, descending=True, stable=True).to(
        torch.int32
    )


def _table(counts, indices, columns):
    """Return the table of blocks that `_sort_blocks` was called with."""
    places = torch.arange(indices.shape[-1], device=counts.device, dtype=torch.int32)
    there = (places < counts.unsqueeze(-1)).to(torch.int32)
    table = torch.zeros(*counts.shape, columns, dtype=torch.int32, device=counts.device)
    return table.scatter_add_(-1, indices.to(torch.int64), there)


class BlockMask:
    """Hold which blocks of scores a mask function keeps in part, and which as a whole.

    Rows are blocks of queries, and columns are blocks of keys.

    Args:
        seq_lengths: Numbers of queries and keys.
        kv_num_blocks: Number of partial blocks of each row, `(B, H, rows)`.
        kv_indices: Columns of the partial blocks of each row, `(B, H, rows, columns)`, those that exist first.
        full_kv_num_blocks: The same for full blocks, or `None`.
        full_kv_indices: The same for full blocks, or `None`.
        q_num_blocks: Number of partial blocks of each column, or `None`.
        q_indices: Rows of the partial blocks of each column, or `None`.
        full_q_num_blocks: The same for full blocks, or `None`.
        full_q_indices: The same for full blocks, or `None`.
        BLOCK_SIZE: Numbers of queries and keys of a block.
        mask_mod: The mask function, which `flex_attention` calls.

    Raises:
        RuntimeError: `kv_indices` has fewer than two dimensions.

    Example:
        >>> import pytpu as torch
        >>> from pytpu.nn.attention.flex_attention import create_block_mask
        >>> def causal(b, h, q_idx, kv_idx):
        ...     return q_idx >= kv_idx
        >>> mask = create_block_mask(causal, None, None, 256, 256, device="cpu")
        >>> mask.shape, mask.sparsity()
        ((1, 1, 256, 256), 25.0)
    """

    _TENSORS = (
        "kv_num_blocks", "kv_indices", "full_kv_num_blocks", "full_kv_indices",
        "q_num_blocks", "q_indices", "full_q_num_blocks", "full_q_indices",
    )  # fmt: skip

    def __init__(
        self,
        seq_lengths: tuple[int, int],
        kv_num_blocks: Tensor,
        kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None,
        full_kv_indices: Tensor | None,
        q_num_blocks: Tensor | None,
        q_indices: Tensor | None,
        full_q_num_blocks: Tensor | None,
        full_q_indices: Tensor | None,
        BLOCK_SIZE: tuple[int, int],
        mask_mod: _mask_mod_signature,
    ) -> None:
        if kv_indices.dim() < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        self.seq_lengths = seq_lengths
        self.kv_num_blocks, self.kv_indices = kv_num_blocks, kv_indices
        self.full_kv_num_blocks, self.full_kv_indices = full_kv_num_blocks, full_kv_indices
        self.q_num_blocks, self.q_indices = q_num_blocks, q_indices
        self.full_q_num_blocks, self.full_q_indices = full_q_num_blocks, full_q_indices
        self.BLOCK_SIZE, self.mask_mod = BLOCK_SIZE, mask_mod

    @classmethod
    def from_kv_blocks(
        cls,
        kv_num_blocks: Tensor,
        kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None = None,
        full_kv_indices: Tensor | None = None,
        BLOCK_SIZE: int | tuple[int, int] = _DEFAULT_SPARSE_BLOCK_SIZE,
        mask_mod: _mask_mod_signature | None = None,
        seq_lengths: tuple[int, int] | None = None,
        compute_q_blocks: bool = True,
    ) -> Self:
        """Make a mask from the blocks of each row.

        Args:
            kv_num_blocks: Number of partial blocks of each row, `(B, H, rows)`.
            kv_indices: Columns of the partial blocks of each row, `(B, H, rows, columns)`, those that exist first.
            full_kv_num_blocks: The same for full blocks, or `None`.
            full_kv_indices: The same for full blocks, or `None`.
            BLOCK_SIZE: Numbers of queries and keys of a block. An integer stands for both.
            mask_mod: The mask function. `None` means `noop_mask`.
            seq_lengths: Numbers of queries and keys. `None` means whole blocks.
            compute_q_blocks: Whether to compute the blocks of each column.

        Returns:
            The mask.

        Raises:
            AssertionError: Only one of the two tensors of full blocks is given.
        """
        if (full_kv_num_blocks is None) != (full_kv_indices is None):
            raise AssertionError("full_kv_num_blocks and full_kv_indices must be both provided or omitted")
        if isinstance(BLOCK_SIZE, int):
            BLOCK_SIZE = (BLOCK_SIZE, BLOCK_SIZE)
        rows, columns = kv_indices.shape[-2:]
        if seq_lengths is None:
            seq_lengths = (rows * BLOCK_SIZE[0], columns * BLOCK_SIZE[1])
        q_num_blocks = q_indices = full_q_num_blocks = full_q_indices = None
        if compute_q_blocks:
            q_num_blocks, q_indices = _sort_blocks(_table(kv_num_blocks, kv_indices, columns).mT)
            if full_kv_num_blocks is not None:
                full_q_num_blocks, full_q_indices = _sort_blocks(
                    _table(full_kv_num_blocks, full_kv_indices, columns).mT
                )
        return cls(
            seq_lengths,
            kv_num_blocks,
            kv_indices,
            full_kv_num_blocks,
            full_kv_indices,
            q_num_blocks,
            q_indices,
            full_q_num_blocks,
            full_q_indices,
            BLOCK_SIZE,
            mask_mod or noop_mask,
        )

    def as_tuple(self, flatten: bool = True) -> tuple[Any, ...]:
        """Return sizes, tensors, block size and mask function.

        Args:
            flatten: Whether to return the numbers of the two pairs on their own.

        Returns:
            A tuple in the order of the constructor.
        """
        tensors = tuple(getattr(self, name) for name in self._TENSORS)
        if flatten:
            return (*self.seq_lengths, *tensors, *self.BLOCK_SIZE, self.mask_mod)
        return (self.seq_lengths, *tensors, self.BLOCK_SIZE, self.mask_mod)

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes `(B, H, queries, keys)`."""
        return (*self.kv_indices.shape[:-2], *self.seq_lengths)

    def numel(self) -> int:
        """Return the number of scores."""
        return math.prod(self.shape)

    def to_dense(self) -> Tensor:
        """Return which blocks the mask keeps.

        Returns:
            Tensor `(B, H, rows, columns)`, `int32`: 1 for a block that is kept in part or as a whole, else 0.
        """
        columns = self.kv_indices.shape[-1]
        table = _table(self.kv_num_blocks, self.kv_indices, columns)
        if self.full_kv_num_blocks is not None:
            table = table + _table(self.full_kv_num_blocks, self.full_kv_indices, columns)
        return table

    def sparsity(self) -> float:
        """Return the share of blocks that the mask leaves out.

        Returns:
            The share, in percent.
        """
        blocks = self.kv_num_blocks.sum().item()
        if self.full_kv_num_blocks is not None:
            blocks += self.full_kv_num_blocks.sum().item()
        there = math.prod(self.kv_num_blocks.shape) * self.kv_indices.shape[-1]
        return 100 - 100 * blocks / there

    def to(self, device: torch.device | str) -> BlockMask:
        """Return the mask on another device.

        Tensors that the mask function refers to stay where they are.

        Args:
            device: The device.

        Returns:
            A new mask.
        """
        return self._with(lambda t: t.to(device))

    def _with(self, change):
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        for name in self._TENSORS:
            tensor = getattr(self, name)
            setattr(made, name, None if tensor is None else change(tensor))
        return made

    def __getitem__(self, index: int | slice | Tensor | tuple[int | slice | Tensor, ...]) -> BlockMask:
        """Return the mask of some batches, heads and rows of blocks.

        With an index of rows, the result has no mask function: attention with it raises `RuntimeError`.

        Args:
            index: Up to three indices.

        Returns:
            A new mask.
        """
        index = index if isinstance(index, tuple) else (index,)
        index = tuple(slice(i, i + 1 or None) if isinstance(i, int) else i for i in index[:3])
        made = BlockMask.from_kv_blocks(
            self.kv_num_blocks[index],
            self.kv_indices[index],
            None if self.full_kv_num_blocks is None else self.full_kv_num_blocks[index],
            None if self.full_kv_indices is None else self.full_kv_indices[index],
            BLOCK_SIZE=self.BLOCK_SIZE,
            mask_mod=self.mask_mod,
            seq_lengths=self.seq_lengths,
            compute_q_blocks=self.q_indices is not None,
        )
        if len(index) == 3:
            rows = made.kv_indices.shape[-2] * self.BLOCK_SIZE[0]
            made.seq_lengths = (min(rows, self.seq_lengths[0]), self.seq_lengths[1])
            made.mask_mod = _unusable
        return made

    def to_string(self, grid_size: int = 20, limit: int = 4) -> str:
        """Return the blocks as characters: full, partial and empty.

        Args:
            grid_size: Largest number of characters down and across.
            limit: Largest number of batches and heads to show.

        Returns:
            Several lines.
        """
        table = self.to_dense()
        lines = []
        for place in list(_places(table.shape[:-2]))[:limit]:
            lines.append(str(place))
            grid = table[place].float()
            rows, columns = (max(1, -(-n // grid_size)) for n in grid.shape)
            for i in range(0, grid.shape[0], rows):
                row = ""
                for j in range(0, grid.shape[1], columns):
                    share = grid[i : i + rows, j : j + columns].mean().item()
                    row += "██" if share == 1 else "  " if share == 0 else "░░"
                lines.append(row)
        if math.prod(table.shape[:-2]) > limit:
            lines.append(f"... (showing {limit} of {math.prod(table.shape[:-2])})")
        return "\n".join(lines)

    def __str__(self) -> str:
        return f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%, \n{self.to_string()}\n)"

    def __repr__(self) -> str:
        def shown(value):
            return value.shape if isinstance(value, torch.Tensor) else getattr(value, "__name__", value)

        names = (*self._TENSORS, "BLOCK_SIZE")
        fields = [f"    {name}={shown(getattr(self, name))}" for name in names]
        fields += [f"    shape={self.shape}", f"    sparsity={self.sparsity():.2f}%"]
        fields += [f"    mask_mod={shown(self.mask_mod)}"]
        return "BlockMask(\n" + ",\n".join(fields) + "\n)"


def _unusable(b, h, q_idx, kv_idx):
    raise RuntimeError("Cannot use mask_mod from a sliced BlockMask")


def _places(sizes):
    import itertools

    return itertools.product(*map(range, sizes))


def create_block_mask(
    mask_mod: _mask_mod_signature,
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Device = None,
    BLOCK_SIZE: int | tuple[int, int] = _DEFAULT_SPARSE_BLOCK_SIZE,
    _compile: bool = False,
    separate_full_blocks: bool = True,
    **unused: Any,
) -> BlockMask:
    """Return the blocks that a mask function keeps.

    Args:
        mask_mod: `mask(b, h, q_idx, kv_idx)`. It is called once, with integer tensors that broadcast.
        B: Number of batches. `None` means 1.
        H: Number of heads. `None` means 1.
        Q_LEN: Number of queries.
        KV_LEN: Number of keys.
        device: Device of the result. `None` means the accelerator, or `cpu` without one.
        BLOCK_SIZE: Numbers of queries and keys of a block. An integer stands for both.
        _compile: Not used.
        separate_full_blocks: Whether to list full blocks apart from partial ones.
        **unused: Further arguments of PyTorch. Not used.

    Returns:
        The mask.

    Raises:
        AssertionError: `mask_mod` takes a score, or other than 4 arguments.
        NotImplementedError: The function gives more than one number for a place.

    Example:
        >>> import pytpu as torch
        >>> from pytpu.nn.attention.flex_attention import create_block_mask
        >>> def causal(b, h, q_idx, kv_idx):
        ...     return q_idx >= kv_idx
        >>> create_block_mask(causal, None, None, 256, 256, device="cpu").to_dense()[0, 0]
        tensor([[1, 0],
                [1, 1]], dtype=torch.int32)
    """
    if _takes_scores(mask_mod):
        raise AssertionError(f"create-block_mask requires a mask_mod function! Got {mask_mod}")
    if isinstance(BLOCK_SIZE, int):
        BLOCK_SIZE = (BLOCK_SIZE, BLOCK_SIZE)
    mask = create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device)
    rows, columns = -(-Q_LEN // BLOCK_SIZE[0]), -(-KV_LEN // BLOCK_SIZE[1])
    padding = (0, columns * BLOCK_SIZE[1] - KV_LEN, 0, rows * BLOCK_SIZE[0] - Q_LEN)
    mask = torch.nn.functional.pad(mask, padding, value=False)
    blocks = mask.reshape(*mask.shape[:2], rows, BLOCK_SIZE[0], columns, BLOCK_SIZE[1]).sum(dim=(3, 5))
    partial = blocks > 0
    full_num_blocks = full_indices = None
    if separate_full_blocks:
        full = blocks == math.prod(BLOCK_SIZE)
        partial = partial & ~full
        full_num_blocks, full_indices = _sort_blocks(full)
    num_blocks, indices = _sort_blocks(partial)
    return BlockMask.from_kv_blocks(
        num_blocks,
        indices,
        full_num_blocks,
        full_indices,
        BLOCK_SIZE=BLOCK_SIZE,
        mask_mod=mask_mod,
        seq_lengths=(Q_LEN, KV_LEN),
    )


def _check(query, key, value, enable_gqa, block_mask):
    if query.dtype != key.dtype or query.dtype != value.dtype:
        raise ValueError(
            f"Expected query, key, and value to have the same dtype, but got query.dtype: {query.dtype}, "
            f"key.dtype: {key.dtype}, and value.dtype: {value.dtype} instead."
        )
    if query.device != key.device or query.device != value.device:
        raise ValueError(
            f"Expected query, key, and value to have the same device type, but got query.device: {query.device}, "
            f"key.device: {key.device}, and value.device: {value.device} instead."
        )
    if query.dim() != 4 or key.dim() != 4 or value.dim() != 4:
        raise NotImplementedError("NYI: query, key, and value must be 4D tensors")
    if query.shape[-1] != key.shape[-1]:
        raise ValueError(
            f"Expect query and key/value to have the same embedding dimension but got E={query.shape[-1]} and "
            f"E={key.shape[-1]}."
        )
    heads, shared = query.shape[1], key.shape[1]
    if not enable_gqa and heads != shared:
        raise ValueError(
            f"Expect query and key/value to have the same number of heads but got Hq={heads} and Hkv={shared}. "
            "Try setting enable_gqa=True for GQA."
        )
    if enable_gqa and heads % shared:
        raise ValueError(
            f"Expect number of query heads to be a multiple of kv heads for GQA but got Hq={heads} and Hkv={shared}."
        )
    if query.shape[0] != key.shape[0] and key.shape[0] != 1:
        raise ValueError(f"Expect Bkv=Bq or Bkv=1, but got Bq={query.shape[0]} and Bkv={key.shape[0]}.")
    if block_mask is not None:
        q_len, kv_len = block_mask.seq_lengths
        if query.shape[-2] > q_len or key.shape[-2] > kv_len:
            raise RuntimeError(
                "block_mask was created for a smaller length than you're using it for, you likely need to create a "
                "new block mask."
            )


@overload
def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: _score_mod_signature | None = ...,
    block_mask: BlockMask | None = ...,
    scale: float | None = ...,
    enable_gqa: bool = ...,
    return_lse: Literal[False] = ...,
    kernel_options: FlexKernelOptions | None = ...,
    *,
    return_aux: None = ...,
) -> Tensor: ...


@overload
def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: _score_mod_signature | None = ...,
    block_mask: BlockMask | None = ...,
    scale: float | None = ...,
    enable_gqa: bool = ...,
    *,
    return_lse: Literal[True],
    kernel_options: FlexKernelOptions | None = ...,
    return_aux: None = ...,
) -> tuple[Tensor, Tensor]: ...


@overload
def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: _score_mod_signature | None = ...,
    block_mask: BlockMask | None = ...,
    scale: float | None = ...,
    enable_gqa: bool = ...,
    return_lse: bool = ...,
    kernel_options: FlexKernelOptions | None = ...,
    *,
    return_aux: AuxRequest,
) -> tuple[Tensor, AuxOutput]: ...


def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: _score_mod_signature | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: FlexKernelOptions | None = None,
    *,
    return_aux: AuxRequest | None = None,
) -> Tensor | tuple[Tensor, Tensor] | tuple[Tensor, AuxOutput]:
    """Apply attention with a function that changes the scores and a mask function.

    `y = softmax(score_mod(scale * Q K^T)) V`, where masked scores are negative infinity. Queries that may
    attend to nothing give zeros. All scores are computed.

    Args:
        query: Queries `(batch, heads, queries, size)`.
        key: Keys `(batch or 1, heads or a divisor of it, keys, size)`.
        value: Values, as the keys, with a last size of their own.
        score_mod: `score_mod(score, b, h, q_idx, kv_idx)`. It is called once, with tensors of four dimensions
            that broadcast, so that pointwise functions and tables such as `table[h, q_idx]` work. `None` keeps
            the scores.
        block_mask: Result of `create_block_mask`. `None` masks nothing.
        scale: Factor of the scores. `None` means `1 / sqrt(size)`.
        enable_gqa: Whether fewer heads of keys than of queries are allowed.
        return_lse: Whether to return the logarithms of the sums of exponentials too.
        kernel_options: Not used.
        return_aux: What to return besides. It takes the place of `return_lse`.

    Returns:
        Tensor `(batch, heads, queries, value size)`; with `return_lse` a pair of it and
        `(batch, heads, queries)`; with `return_aux` a pair of it and an `AuxOutput`.

    Raises:
        ValueError: Dtypes, devices or sizes do not fit.
        RuntimeError: The mask is for fewer queries or keys.
        NotImplementedError: An input has other than four dimensions, or a function gives more than one number
            for a place.

    Example:
        >>> import pytpu as torch
        >>> from pytpu.nn.attention.flex_attention import create_block_mask, flex_attention
        >>> def causal(b, h, q_idx, kv_idx):
        ...     return q_idx >= kv_idx
        >>> q = torch.randn(1, 2, 16, 8)
        >>> mask = create_block_mask(causal, None, None, 16, 16, device="cpu")
        >>> flex_attention(q, q, q, lambda score, b, h, i, j: score - (i - j).abs(), mask).shape
        torch.Size([1, 2, 16, 8])
    """
    _check(query, key, value, enable_gqa, block_mask)
    scale = 1.0 / math.sqrt(query.shape[-1]) if scale is None else scale
    batch, heads, q_len = query.shape[:3]
    kv_len = key.shape[-2]
    if enable_gqa and heads != key.shape[1]:
        key, value = (t.repeat_interleave(heads // t.shape[1], dim=1) for t in (key, value))
    wide = torch.float64 if query.dtype == torch.float64 else torch.float32
    scores = (query @ key.mT).to(wide) * scale
    scores = scores.expand(batch, heads, q_len, kv_len)
    if score_mod is not None:
        scores = _over_all(score_mod, scores, batch, heads, q_len, kv_len, query.device)
    if block_mask is not None and block_mask.mask_mod is not noop_mask:
        mask = _over_all(block_mask.mask_mod, None, batch, heads, q_len, kv_len, query.device)
        scores = torch.where(mask, scores, float("-inf"))
    # A query with all keys masked gives zeros, and gets gradients of zero.
    hidden = (scores == float("-inf")).all(dim=-1, keepdim=True)
    weights = torch.where(hidden, 0.0, torch.where(hidden, 0.0, scores).softmax(dim=-1))
    out = weights.to(query.dtype) @ value
    if return_aux is not None:
        lse = torch.logsumexp(scores, dim=-1) if return_aux.lse else None
        return out, AuxOutput(lse, scores.amax(dim=-1) if return_aux.max_scores else None)
    return (out, torch.logsumexp(scores, dim=-1)) if return_lse else out
