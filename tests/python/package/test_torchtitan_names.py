"""Names that torchtitan and the package spmd_types import."""

import importlib

import pytest

import pytpu as torch

ABSENT = {
    "distributed._local_tensor": ["LocalTensor", "LocalTensorMode"],
    "distributed._local_tensor._c10d": ["_prepare_collective_groups"],
    "distributed._symmetric_memory": [
        "empty", "enable_symm_mem_for_group", "get_symm_mem_workspace", "rendezvous",
    ],
    "distributed.tensor._api": ["_FromTorchTensor", "_ToTorchTensor"],
    "distributed.tensor._ops._view_ops": ["InputDim", "Split", "infer_size", "view_groups"],
    "distributed.tensor._utils": ["ExplicitRedistributionContext"],
    "nn.attention": ["activate_flash_attention_impl"],
    "nn.attention.varlen": ["AuxRequest", "varlen_attn"],
    "utils.data.datapipes.iter.combinatorics": ["ShufflerIterDataPipe"],
    "_functorch.vmap": ["_flat_vmap"],
}  # fmt: skip


@pytest.mark.parametrize("module", ABSENT)
def test_names_without_a_function_say_so(module):
    found = importlib.import_module(f"pytpu.{module}")
    for name in ABSENT[module]:
        with pytest.raises(NotImplementedError, match=f"^torch.{module}.{name}: "):
            getattr(found, name)()


@pytest.mark.parametrize("indices, layout", [
    ([0], ((), ())), ([0, 1, 2, 3], ((4,), (1,))), ([0, 2, 4], ((3,), (2,))), ([5, 0, 4, 1], ((2, 2), (4, 1))),
    ([0, 1, 4, 5, 16, 17, 20, 21], ((2, 2, 2), (16, 4, 1))), ([0, 2, 4, 8, 10, 12], ((2, 3), (8, 2))),
])  # fmt: skip
def test_ranks_are_described_by_sizes_and_strides(indices, layout):
    of = importlib.import_module("pytpu.distributed._local_tensor._c10d")._indices_to_layout
    assert of(indices) == layout


@pytest.mark.parametrize("indices", [[0, 1, 3], [0, 1, 4, 8, 12]])
def test_ranks_that_form_no_grid_are_refused(indices):
    of = importlib.import_module("pytpu.distributed._local_tensor._c10d")._indices_to_layout
    with pytest.raises(AssertionError, match="Indices do not form a regular grid"):
        of(indices)


def test_no_mode_of_local_tensors_is_in_use():
    found = importlib.import_module("pytpu.distributed._local_tensor")
    assert found.local_tensor_mode() is None
    with found.maybe_disable_local_tensor_mode():
        assert torch.nn.attention.current_flash_attention_impl() is None


def test_the_module_of_a_device_is_found():
    assert torch._utils._get_available_device_type() == "tpu"
    assert torch._utils._get_device_module("tpu") is torch.tpu and torch._utils._get_device_module("cpu") is torch.cpu
    with pytest.raises(RuntimeError, match="Device 'no' does not have a corresponding module registered as 'torch.no'"):
        torch._utils._get_device_module("no")


def test_policies_of_checkpoints_find_expensive_ops():
    ops = importlib.import_module("pytpu._functorch.partitioners").get_default_op_list().compute_intensive_ops
    assert {torch.ops.aten.mm, torch.ops.aten.bmm, torch.ops.aten.convolution} <= ops
    assert torch.ops._c10d_functional.reduce_scatter_tensor.default.name() == "_c10d_functional::reduce_scatter_tensor"
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        torch.ops._c10d_functional.nothing
    assert torch._higher_order_ops.flex_attention is torch.nn.attention.flex_attention.flex_attention


def test_gradients_pass_the_function_of_hooks():
    apply = importlib.import_module("pytpu.nn.modules._functions").BackwardHookFunction.apply
    x, y = torch.ones(2, requires_grad=True), torch.ones(2)
    a, b = apply(x, y)
    (3 * a).sum().backward()
    assert x.grad.tolist() == [3, 3] and not b.requires_grad


def test_notes_for_graphs_do_not_change_values():
    with importlib.import_module("pytpu.fx.traceback").annotate({"a": 1}):
        assert torch.ones(1).item() == 1
    torch._C._dynamo.eval_frame._set_lru_cache(False)


def test_the_host_is_a_device_of_its_own():
    torch.cpu.set_device("cpu")
    assert torch.cpu.is_initialized() and torch.cpu.current_stream().device.type == "cpu"
    with torch.cpu.stream(torch.cpu.current_stream()):
        assert torch.cpu.current_device() == "cpu"
