"""Private and small names that libraries call, with PyTorch's answers."""

import importlib
import logging
import typing
import warnings

import pytest

import pytpu as torch
from pytpu import nn

NAMES = """
DeviceObjType StorageBase StreamObjType _C._cpu _C._dynamo.eval_frame _C._functorch._add_batch_dim
_C._onnx.OperatorExportTypes _C.Tag.needs_fixed_stride_order _disable_dynamo _dynamo.utils.warn_once
_functorch.vmap.Tensor
_functorch.vmap._add_batch_dim _functorch.vmap.tree_flatten _guards.active_fake_mode _inductor.config.max_autotune
_inductor.decomposition.register_decomposition _library.infer_schema.infer_schema _ops._OpNamespace
_prims_common.suggest_memory_format _subclasses.meta_utils.is_sparse_any autograd._is_checkpoint_valid
cpu._is_vnni_supported cuda._lazy_call cuda.comm.broadcast distributions.kl._KL_REGISTRY
fx.node.Node fx.node.map_arg library.get_ctx nn.functional.ScalingType nn.modules.conv._ConvTransposeMixin
nn.modules.transformer._get_activation_fn nn.utils._named_member_accessor.NamedMemberAccessor
nn.utils._per_sample_grad.call_for_per_sample_grads onnx.TrainingMode ops._c10d_functional._wrap_tensor_autograd
serialization.normalize_storage_type sparse.SparseSemiStructuredTensor sparse._triton_ops_meta.get_meta
utils._device.DeviceContext utils._pytree.register_constant utils._triton.has_triton
utils.cpp_extension.CUDA_HOME xpu.get_device_name
""".split()


@pytest.mark.parametrize("path", NAMES)
def test_a_name_exists(path):
    found, here = torch, "torch"
    for part in path.split("."):
        here += f".{part}"
        found = getattr(found, part) if hasattr(found, part) else importlib.import_module(here)


def test_modules_of_the_extension_can_be_imported():
    from torch._C._functorch import get_unwrapped, is_batchedtensor
    from torch._C._onnx import TrainingMode

    assert get_unwrapped(3) == 3 and not is_batchedtensor(torch.ones(1)) and TrainingMode.EVAL == 0


def test_tensors_are_flattened_and_split_again(device):
    from pytpu._utils import _flatten_dense_tensors, _reorder_tensors_as, _take_tensors, _unflatten_dense_tensors

    tensors = [torch.arange(6.0, device=device).reshape(2, 3).T, torch.ones(2, device=device), torch.zeros(0, 2)]
    flat = _flatten_dense_tensors(tensors[:2])
    assert flat.tolist() == [0, 3, 1, 4, 2, 5, 1, 1]
    parts = _unflatten_dense_tensors(flat, tensors[:2])
    assert [p.tolist() for p in parts] == [t.tolist() for t in tensors[:2]]
    flat[0] = 7
    assert parts[0][0, 0] == 7
    mixed = [torch.ones(4), torch.ones(3).int(), torch.ones(5), torch.zeros(0), torch.ones(9)]
    assert [[len(t) for t in part] for part in _take_tensors(mixed, 40)] == [[4, 5, 0], [9], [3]]
    ordered = list(_reorder_tensors_as([mixed[1], mixed[0], mixed[2]], [mixed[0], mixed[1], mixed[2]]))
    assert [t.dtype for t in ordered] == [torch.float32, torch.int32, torch.float32]


def test_products_of_8_bit_integers():
    a, b = torch.full((2, 3), -128, dtype=torch.int8), torch.full((3, 2), 127, dtype=torch.int8)
    assert torch._int_mm(a, b).tolist() == [[-48768, -48768]] * 2
    assert torch.ops.aten._int_mm(a, b).dtype == torch.int32
    with pytest.raises(RuntimeError, match="Expected self dtype to be int8 or uint8 but got float"):
        torch._int_mm(a.float(), b)
    with pytest.raises(RuntimeError, match=r"mat1 and mat2 shapes cannot be multiplied \(2x3 and 2x3\)"):
        torch._int_mm(a, a)


def test_optional_scalars_are_in_schemas():
    def spelled(annotation):
        def f(x):
            pass

        f.__annotations__.update(x=annotation, **{"return": torch.Tensor})
        return torch.library.infer_schema(f, mutates_args=())

    number = typing.Union[int, float, bool]  # noqa: UP007
    for annotation, kind in {
        number: "Scalar",
        typing.Optional[number]: "Scalar?",  # noqa: UP045
        typing.Optional[torch.Tensor]: "Tensor?",  # noqa: UP045
        typing.Sequence[number]: "Scalar[]",
        list[typing.Optional[torch.Tensor]]: "Tensor?[]",  # noqa: UP045
        typing.Optional[list[int]]: "SymInt[]?",  # noqa: UP045
    }.items():
        assert spelled(annotation) == f"({kind} x) -> Tensor"
    for annotation in (typing.Optional[typing.Union[int, float]], typing.Any):  # noqa: UP007, UP045
        with pytest.raises(ValueError, match="unsupported type"):
            spelled(annotation)


def test_a_default_kernel_is_for_all_devices(device):
    torch.library.define("library_names::plus", "(Tensor x) -> Tensor")
    torch.library.register_kernel("library_names::plus", "default")(lambda x: x + 1)
    assert torch.ops.library_names.plus(torch.ones(2, device=device)).tolist() == [2, 2]
    torch.library.register_kernel("library_names::plus", "cpu")(lambda x: x + 2)
    assert torch.ops.library_names.plus(torch.ones(1)).tolist() == [3]
    with pytest.raises(RuntimeError, match="Expected one of cpu"):
        torch.library.register_kernel("library_names::plus", "gpu")(lambda x: x)


def test_mps_and_xpu_answer_as_on_a_machine_without_them():
    for name, text in {
        "current_allocated_memory": "getCurrentAllocatedMemory",
        "driver_allocated_memory": "getDriverAllocatedMemory",
        "synchronize": "deviceSynchronize",
        "get_rng_state": "getDefaultGenerator",
    }.items():
        with pytest.raises(RuntimeError, match=rf"^Cannot execute {text}\(\) without MPS backend\.$"):
            getattr(torch.mps, name)()
    with pytest.raises(TypeError, match="must be `float`"):
        torch.mps.set_per_process_memory_fraction(1)
    xpu = torch.xpu
    assert (xpu.memory_allocated(), xpu.is_bf16_supported(), xpu.get_arch_list(), xpu.seed()) == (0, False, [], None)
    for function in (xpu.get_device_name, xpu.synchronize, xpu.mem_get_info, xpu.current_device):
        with pytest.raises(AssertionError, match="Torch not compiled with XPU enabled"):
            function()
    with pytest.raises(RuntimeError, match="Tried to instantiate dummy base class Stream"):
        xpu.Stream()


def test_levels_of_loggers_are_set():
    level = logging.getLogger("torch._dynamo").level
    try:
        torch._logging.set_logs(dynamo=logging.DEBUG, graph_code=True)
        assert logging.getLogger("torch._dynamo").level == logging.DEBUG
        torch._logging.set_logs()
        assert logging.getLogger("torch._dynamo").level == logging.NOTSET
        for arguments, text in (
            ({"dynamo": 3}, "Unrecognized log level for log dynamo: 3"),
            ({"graph": 1}, "Expected bool to enable artifact graph, received 1"),
            ({"nothing": True}, "Unrecognized log or artifact name passed to set_logs: nothing"),
        ):
            with pytest.raises(ValueError, match=text):
                torch._logging.set_logs(**arguments)
    finally:
        logging.getLogger("torch._dynamo").setLevel(level)


def test_a_warning_is_given_once():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            torch._dynamo.utils.warn_once("test_library_names")
    assert [str(w.message) for w in caught] == ["test_library_names"]


def test_extensions_in_cpp_are_refused_with_a_page():
    extension = torch.utils.cpp_extension
    for refused in (extension.load, extension.load_inline, extension.CppExtension):
        with pytest.raises(RuntimeError, match="need the headers and libraries of PyTorch.*docs/custom-kernels.md"):
            refused("name", [])
    assert extension.CUDA_HOME is None and extension.include_paths() == []


def test_members_of_a_module_are_swapped_by_name():
    from pytpu.nn.utils._named_member_accessor import NamedMemberAccessor

    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    accessor = NamedMemberAccessor(model)
    assert accessor.check_keys(["0.weight", "x"])[1] == ["x"]
    new = torch.zeros(2, 2)
    old = accessor.swap_tensor("0.weight", new)
    assert model[0].weight is new and isinstance(old, nn.Parameter)
    accessor.set_tensor("0.weight", old)
    with pytest.raises(AttributeError, match="Linear has no attribute `none`"):
        accessor.swap_tensor("0.none", new)
    with pytest.raises(TypeError, match="submodule `0.weight`"):
        accessor.get_submodule("0.weight")


def test_modules_become_functions_of_their_parameters():
    from pytpu._functorch.make_functional import make_functional, make_functional_with_buffers

    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)).eval()
    function, params, buffers = make_functional_with_buffers(model)
    x = torch.ones(4, 2)
    assert torch.equal(function(params, buffers, x), model(x))
    assert next(function.stateless_model.parameters()).is_meta and len(buffers) == 3
    with pytest.raises(RuntimeError, match="`model` has buffers"):
        make_functional(model)


def test_a_graph_module_is_a_module():
    assert issubclass(torch.fx.GraphModule, nn.Module)


def test_dual_tensors_are_unpacked():
    x = torch.ones(2)
    with torch.autograd.forward_ad.dual_level():
        found = torch.autograd.forward_ad.unpack_dual(x)
    assert found.primal is x and found.tangent is None
    with pytest.raises(NotImplementedError, match=r"Use torch\.func\.jvp"):
        torch.autograd.forward_ad.make_dual(x, x)
