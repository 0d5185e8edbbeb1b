"""Splitting batches into microbatches, and merging results."""

import pytest

import pytpu as torch
from pytpu.distributed.pipelining.microbatch import (
    TensorChunkSpec,
    _Replicate,
    merge_chunks,
    split_args_kwargs_into_chunks,
    sum_reducer,
)
from pytpu.nn.attention.flex_attention import create_block_mask


def test_tensors_are_split_along_the_batch_and_others_are_given_whole():
    x, y = torch.arange(6).reshape(3, 2), torch.arange(3)
    args, kwargs = split_args_kwargs_into_chunks((x, [y, "mode"]), {"scale": 2, "bias": {"b": y}}, 2)
    assert [chunk[0].tolist() for chunk in args] == [[[0, 1], [2, 3]], [[4, 5]]]
    assert [(chunk[1][0].tolist(), chunk[1][1]) for chunk in args] == [([0, 1], "mode"), ([2], "mode")]
    assert [(chunk["scale"], chunk["bias"]["b"].tolist()) for chunk in kwargs] == [(2, [0, 1]), (2, [2])]
    assert all(isinstance(chunk, tuple) for chunk in args)


def test_specs_say_the_dimension_of_each_argument():
    x = torch.arange(6).reshape(3, 2)
    args, kwargs = split_args_kwargs_into_chunks(
        (x, x), {"mask": x}, 2, TensorChunkSpec.from_tuple((0, 1)), TensorChunkSpec.from_dict({"mask": 1})
    )
    assert [chunk[1].tolist() for chunk in args] == [[[0], [2], [4]], [[1], [3], [5]]]
    assert [tuple(chunk["mask"].shape) for chunk in kwargs] == [(3, 1), (3, 1)]
    args, _ = split_args_kwargs_into_chunks((x, x), None, 2, (TensorChunkSpec(0), _Replicate()))
    assert [tuple(chunk[1].shape) for chunk in args] == [(3, 2), (3, 2)]
    assert str(TensorChunkSpec(1)) == "TensorChunkSpec(1)"
    assert repr(TensorChunkSpec(1)).endswith(".microbatch.TensorChunkSpec(1)")


def test_small_tensors_make_fewer_microbatches():
    args, kwargs = split_args_kwargs_into_chunks((torch.zeros(5),), {"y": torch.zeros(2)}, 4)
    assert len(args) == len(kwargs) == 2
    args, kwargs = split_args_kwargs_into_chunks((1,), {}, 4)
    assert args == [(1,)] * 4 and kwargs == [{}] * 4


def test_wrong_specs_are_refused():
    x = torch.zeros(4)
    with pytest.raises(ValueError, match="Unsupported chunk spec: TensorChunkSpec.0. and value: 3 combination"):
        split_args_kwargs_into_chunks((3,), {}, 2, (TensorChunkSpec(0),))
    with pytest.raises(AssertionError, match="args has 1 values, but args_chunk_spec has 2"):
        split_args_kwargs_into_chunks((x,), {}, 2, (TensorChunkSpec(0), TensorChunkSpec(0)))
    with pytest.raises(AssertionError, match="Expected TensorChunkSpec, got <class 'int'>"):
        split_args_kwargs_into_chunks((x,), {}, 2, (0,))


def test_pieces_of_a_leaf_keep_their_gradients():
    x = torch.ones(4, requires_grad=True)
    args, _ = split_args_kwargs_into_chunks((x,), None, 2)
    (args[0][0] * 3).sum().backward()
    assert args[0][0].grad.tolist() == [3, 3]
    assert x.grad.tolist() == [3, 3, 0, 0]


def test_results_are_merged_as_they_were_split():
    chunks = [{"y": torch.tensor([[1, 2]]), "n": 3}, {"y": torch.tensor([[4, 5]]), "n": 3}]
    merged = merge_chunks(chunks, {"y": TensorChunkSpec(1), "n": _Replicate()})
    assert merged["y"].tolist() == [[1, 2, 4, 5]] and merged["n"] == 3
    with pytest.raises(AssertionError, match="Expected 3, got 4"):
        merge_chunks([chunks[0], {**chunks[1], "n": 4}], {"y": TensorChunkSpec(1), "n": _Replicate()})
    with pytest.raises(ValueError, match="did not match chunk spec"):
        merge_chunks(chunks, (TensorChunkSpec(0),))
    assert merge_chunks([torch.tensor(1.0), torch.tensor(2.5)], sum_reducer).item() == 3.5
    assert merge_chunks([(torch.tensor([1]),), (torch.tensor([2]),)], None)[0].tolist() == [1, 2]


def test_block_masks_are_split_along_the_batch():
    def mask(b, h, q, k):
        return (q >= k) & (k > 10 * b)

    whole = create_block_mask(mask, 4, 1, 128, 128, device="cpu", BLOCK_SIZE=64)
    args, _ = split_args_kwargs_into_chunks((whole,), None, 2)
    places = torch.arange(128)
    for index, (piece,) in enumerate(args):
        assert piece.kv_num_blocks.size(0) == 2
        for b in range(2):
            got = piece.mask_mod(torch.tensor(b), torch.tensor(0), places[:, None], places)
            want = mask(torch.tensor(2 * index + b), torch.tensor(0), places[:, None], places)
            assert torch.equal(got, want)
    shared = create_block_mask(mask, 1, 1, 128, 128, device="cpu", BLOCK_SIZE=64)
    args, _ = split_args_kwargs_into_chunks((shared, torch.zeros(6)), None, 3)
    assert all(chunk[0] is shared for chunk in args)
    with pytest.raises(AssertionError, match="BlockMask only supports split_dim=0"):
        split_args_kwargs_into_chunks((whole,), None, 2, (TensorChunkSpec(1),))
