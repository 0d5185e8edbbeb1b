"""Names that libraries ask for at import. Names without an implementation raise errors that name them."""

import importlib.machinery
import pickle
import sys
import threading
import types
import warnings

import pytest

import pytpu as torch
from pytpu import nn

# Libraries import these names, and use little of them.
NAMES = """
AcceleratorError Event Future Stream SymBool SymFloat SymInt Tag TensorType __config__.parallel_info __config__.show
__future__.get_swap_module_params_on_conversion _assert _assert_async _check _check_is_size _check_value
_jit_internal.BroadcastingList2 _ops.OpOverload _ops.OpOverloadPacket _subclasses.fake_tensor.FakeTensor
_subclasses.fake_tensor.is_fake _tensor_str.PRINT_OPTS _utils _VF.lstm ao.quantization.DeQuantStub
ao.quantization.QuantStub autograd.is_multithreading_enabled backends.cuda.preferred_linalg_library classes
distributed.DeviceMesh distributed.ProcessGroup distributed.ReduceOp distributed._composable.fsdp
distributed._tensor.DTensor distributed._tensor.experimental.implicit_replication
distributed.algorithms._checkpoint.checkpoint_wrapper.checkpoint_wrapper distributed.checkpoint
distributed.device_mesh.init_device_mesh distributed.distributed_c10d.ProcessGroup
distributed.fsdp.FullyShardedDataParallel distributed.fsdp.wrap.transformer_auto_wrap_policy distributed.group
distributed.is_gloo_available distributed.is_nccl_available distributed.nn.all_reduce distributed.optim
distributed.rpc.RRef distributed.tensor.parallel.ColwiseParallel distributed.tensor.placement_types.Shard
distributions.constraints._GreaterThan _dynamo.utils.is_compile_supported fft.__all__ futures.Future futures.collect_all
fx.Interpreter fx.Tracer fx.experimental.proxy_tensor.get_proxy_mode fx.experimental.symbolic_shapes
fx.graph_module.GraphModule fx.node.Node fx.proxy.Proxy hub._get_torch_home jit._get_trace_graph jit._overload_method
jit._script_if_tracing jit.annotations.BroadcastingList2 library.opcheck nn.attention.bias.causal_lower_right
nn.functional.grad.conv2d_input nn.modules.instancenorm._InstanceNorm onnx.register_custom_op_symbolic
onnx.symbolic_helper.parse_args onnx.symbolic_opset11 ops.aten._convolution ops.aten._pin_memory ops.aten._sparse_addmm
ops.aten._sparse_mm_reduce_impl ops.aten._to_copy optim._functional optim.adam.adam optim.adamw.adamw
optim.optimizer.ParamsT optim.optimizer._get_scalar_dtype optim.optimizer._use_grad_for_differentiable optim.sgd.sgd
quantization.QuantStub quasirandom.SobolEngine serialization.DEFAULT_PROTOCOL serialization.MAP_LOCATION set_warn_always
torch utils._contextlib.context_decorator utils._foreach_utils._group_tensors_by_device_and_dtype
utils._python_dispatch.TorchDispatchMode utils.collect_env utils._python_dispatch.is_traceable_wrapper_subclass
utils.data._utils.collate.np_str_obj_array_pattern utils.data._utils.worker.get_worker_info
utils.data.dataloader._collate_fn_t utils.data.datapipes.datapipe.IterDataPipe utils.deterministic utils.model_zoo.tqdm
utils.weak.WeakIdKeyDictionary utils._typing_utils.not_none
""".split()


OF_C = """
DispatchKey DispatchKeySet DisableTorchFunctionSubclass Graph TensorBase _ExcludeDispatchKeyGuard _functorch
_get_privateuse1_backend_name _get_tracing_state _len_torch_dispatch_stack _nn _linalg _fft _special _VariableFunctions
""".split()


def _named(path):
    value, here = torch, "torch"
    for part in path.split("."):
        here += f".{part}"
        try:
            value = getattr(value, part)
        except AttributeError:
            value = importlib.import_module(here)
    return value


@pytest.mark.parametrize("path", NAMES + [f"_C.{name}" for name in OF_C])
def test_a_name_exists(path):
    assert _named(path) is not None


def test_unimplemented_names_raise_errors_that_name_them():
    for make in (
        torch.fx.experimental.symbolic_shapes.ShapeEnv,
        torch.distributed.Logger,
        torch.SymFloat,
        torch._C.Graph,
        torch.optim.adamw.adamw,
    ):
        with pytest.raises(NotImplementedError, match=f"^torch\\..*{make.__name__}: "):
            make()
    assert not isinstance(nn.Linear(2, 2), torch.distributed.fsdp.FullyShardedDataParallel)
    with pytest.raises(NotImplementedError, match="^torch.ops.aten._sparse_addmm: "):
        torch.ops.aten._sparse_addmm(torch.ones(2, 2))
    assert torch.ops.aten._to_copy(torch.ones(2), dtype=torch.float64).dtype == torch.float64


def test_libraries_in_cpp_are_refused_as_files_that_cannot_be_loaded():
    with pytest.raises(OSError, match="Could not load this library: /nothing.so"):
        torch.ops.load_library("/nothing.so")
    with pytest.raises(RuntimeError, match="Tried to instantiate class 'a.B', but it does not exist"):
        torch.classes.a.B


def test_operators_of_torchvision_are_declared():
    nms = torch.ops.torchvision.nms
    with pytest.raises(
        NotImplementedError, match="Could not run 'torchvision::nms' with arguments from the 'CPU' backend"
    ):
        nms(torch.ones(2, 4), torch.ones(2), 0.5)

    @torch.library.register_fake("torchvision::nms")
    def nms_on_meta(dets, scores, iou_threshold):
        return scores.new_empty(3, dtype=torch.long)

    assert nms(torch.ones(2, 4, device="meta"), torch.ones(2, device="meta"), 0.5).shape == (3,)
    with pytest.raises(AttributeError, match="has no attribute 'unknown'"):
        torch.ops.torchvision.unknown


def test_checks_raise_their_kinds_of_errors():
    torch._check(True)
    torch._assert(torch.tensor(1), "not raised")
    with pytest.raises(AssertionError, match="^words$"):
        torch._assert(False, "words")
    for check, kind in (
        (torch._check, RuntimeError), (torch._check_index, IndexError), (torch._check_value, ValueError),
        (torch._check_type, TypeError), (torch._check_not_implemented, NotImplementedError),
    ):  # fmt: skip
        with pytest.raises(kind, match="^three$"):
            check(False, lambda: "three")
    with pytest.raises(RuntimeError, match="Expected cond to be True, but got False"):
        torch._check_is_size(-1)
    with pytest.raises(TypeError, match="cond must be a bool, but got a Tensor"):
        torch._check(torch.tensor(True))
    with pytest.raises(RuntimeError, match="Expected Tensor with single nonzero value, but got zero"):
        torch._assert_async(torch.tensor(0))


def test_futures():
    future = torch.futures.Future()
    doubled = future.then(lambda f: f.value() * 2)
    threading.Timer(0.01, future.set_result, [3]).start()
    assert doubled.wait() == 6 and future.done()
    failing = torch.futures.Future()
    after = failing.then(lambda f: f.value())
    failing.set_exception(KeyError("no"))
    with pytest.raises(RuntimeError, match="Got the following error when running the callback: KeyError: 'no'"):
        after.wait()
    assert [f.value() for f in torch.futures.collect_all([future, doubled]).wait()] == [3, 6]
    assert torch.futures.wait_all([future]) == [3]
    with pytest.raises(RuntimeError, match="can only be marked completed once"):
        future.set_result(4)


def test_an_error_of_a_callback_does_not_reach_the_one_who_sets_the_result(caplog):
    future = torch.futures.Future()
    future.add_done_callback(lambda f: 1 / 0)
    late = future.then(lambda f: f.value() + 1)
    future.set_result(3)
    assert future.value() == 3 and late.wait() == 4
    future.add_done_callback(lambda f: [][0])
    assert "ZeroDivisionError: division by zero" in caplog.text and "IndexError" in caplog.text


@pytest.fixture
def opt_einsum(monkeypatch):
    """Return a function that makes the package opt_einsum present, as a stand-in, or absent."""

    def make(present):
        package = types.ModuleType("opt_einsum")
        package.__spec__ = importlib.machinery.ModuleSpec("opt_einsum", None)
        package.asked = []

        def contract_path(equation, *given, shapes, optimize):
            package.asked.append((equation, given, optimize))
            return [(n - 2, n - 1) for n in range(len(given), 1, -1)], None

        package.contract_path = contract_path
        monkeypatch.setitem(sys.modules, "opt_einsum", package if present else None)
        torch.backends.opt_einsum.is_available.cache_clear()
        return importlib.reload(torch.backends.opt_einsum), package

    yield make
    monkeypatch.undo()
    torch.backends.opt_einsum.is_available.cache_clear()
    importlib.reload(torch.backends.opt_einsum)


def test_opt_einsum_has_the_switches_of_pytorch_without_the_package(opt_einsum):
    switches, _ = opt_einsum(present=False)
    assert not switches.is_available() and switches.get_opt_einsum() is None
    with switches.flags(enabled=False):
        assert switches.enabled is False and switches.strategy is None
    assert switches.set_flags() == (False, None)
    with pytest.raises(ValueError, match="opt_einsum is not available, so setting `enabled` to True"):
        switches.set_flags(True)
    with pytest.raises(ValueError, match="setting `strategy` to greedy will not be meaningful"):
        switches.set_flags(False, "greedy")
    switches.enabled = True
    assert torch.einsum("i,i,i", *[torch.ones(2)] * 3).item() == 2


def test_einsum_contracts_in_the_order_of_opt_einsum(opt_einsum):
    switches, package = opt_einsum(present=True)
    assert switches.is_available() and switches.enabled is True and switches.strategy == "auto"
    a, b, c = torch.randn(3, 4), torch.randn(4, 5), torch.randn(5, 2)
    want = a @ b @ c
    assert torch.allclose(torch.einsum("ij,jk,kl->il", a, b, c), want, atol=1e-5)
    with switches.flags(enabled=True, strategy="greedy"):
        assert torch.allclose(torch.einsum(a, [0, 1], b, [1, 2], c, [2, 3]), want, atol=1e-5)
    with switches.flags(enabled=False):
        torch.einsum("ij,jk,kl->il", a, b, c)
        with pytest.raises(ValueError, match="opt_einsum is not enabled, so setting a `strategy` to greedy"):
            switches.set_flags(None, "greedy")
    with pytest.raises(ValueError, match=r"`strategy` must be one of the following: \[auto, greedy, optimal\] but"):
        switches.set_flags(True, "best")
    assert (switches.enabled, switches.strategy) == (True, "auto")
    switches.strategy = "auto-hq"  # as timm does, which PyTorch does not check
    torch.einsum("ij,jk,kl->il", a, b, c)
    shapes = ((3, 4), (4, 5), (5, 2))
    asked = [("ij,jk,kl->il", "auto"), ("AB,BC,CD", "greedy"), ("ij,jk,kl->il", "auto-hq")]
    assert package.asked == [(equation, shapes, strategy) for equation, strategy in asked]


def test_events_measure_time_and_streams_wait(device):
    start, end = (torch.Event(device, enable_timing=True) for _ in range(2))
    start.record()
    x = torch.ones(64, 64, device=device)
    y = x @ x
    end.record()
    end.synchronize()
    assert 0 < start.elapsed_time(end) < 60e3 and end.query()
    with pytest.raises(ValueError, match="enable_timing=True"):
        torch.Event(device).elapsed_time(end)
    with torch.Stream(device) as stream:
        stream.wait_event(end)
        stream.synchronize()
    assert y[0, 0].item() == 64 and (stream == torch.Stream(device)) == (device == "cpu")


def test_questions_about_the_device_tpu():
    torch.ones(1, device="tpu").item()
    assert torch.tpu.is_initialized() and torch.tpu.is_bf16_supported()
    assert torch.tpu.get_device_properties().name == torch.tpu.get_device_name()
    assert isinstance(torch.tpu.Stream(), torch.Stream) and torch.tpu.Event().device.type == "tpu"
    assert torch.accelerator.current_stream().device.type == torch.tpu.current_stream().device.type == "tpu"
    if "cpu" in torch.tpu.get_device_name().lower():
        free, whole = torch.tpu.mem_get_info()
        assert 0 < free <= whole


def test_a_report_of_the_environment():
    text = torch.utils.collect_env.get_pretty_env_info()
    assert "PyTorch version: 2.15.0" in text and "Device tpu: " in text and "Python version: " in text
    assert "2.15.0" in torch.__config__.show() and "get_num_threads" in torch.__config__.parallel_info()


def test_settings_are_kept():
    try:
        torch.set_warn_always(True)
        assert torch.is_warn_always_enabled()
        with pytest.raises(RuntimeError, match="expects a bool, but got int"):
            torch.set_warn_always(1)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(2):
                torch.meshgrid(torch.ones(2), torch.ones(2))
        assert len(caught) == 2
    finally:
        torch.set_warn_always(False)
    with torch.autograd.set_multithreading_enabled(False):
        assert not torch.autograd.is_multithreading_enabled()
    assert torch.autograd.is_multithreading_enabled()
    torch.__future__.set_swap_module_params_on_conversion(True)
    assert torch.__future__.get_swap_module_params_on_conversion()
    torch.__future__.set_swap_module_params_on_conversion(False)
    assert torch._tensor_str.PRINT_OPTS.precision == 4
    with pytest.raises(RuntimeError, match="set_fill_uninitialized_memory expects a bool"):
        torch.utils.deterministic.fill_uninitialized_memory = 1


def test_disabled_overrides_see_no_calls():
    class Loud(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return "taken over"

    x = torch.ones(2).as_subclass(Loud)
    assert torch.add(x, 1) == "taken over"
    with torch._C.DisableTorchFunctionSubclass():
        assert torch.add(x, 1).tolist() == [2.0, 2.0]
    assert torch.add(x, 1) == "taken over"


def test_functions_that_can_be_overridden_are_listed():
    overrides = torch.overrides
    functions = overrides.get_overridable_functions()
    assert torch.add in functions[torch] and torch.nn.functional.relu in functions[torch.nn.functional]
    assert torch.Tensor.add in functions[torch.Tensor] and torch.ones not in functions[torch]
    assert torch.ones in overrides.get_ignored_functions() and torch.ones not in overrides.get_testing_overrides()
    assert overrides.get_testing_overrides()[torch.add](1, other=2) == -1
    assert overrides.is_tensor_method_or_property(torch.Tensor.add) and not overrides.is_tensor_method_or_property(
        torch.add
    )
    assert overrides.is_tensor_method_or_property(torch.Tensor.shape.__get__)
    names = [
        overrides.resolve_name(f)
        for f in (torch.add, torch.Tensor.add, torch.nn.functional.relu, torch.linalg.inv, torch.ones, len)
    ]
    assert names == [
        "torch.add",
        "torch.Tensor.add",
        "torch.nn.functional.relu",
        "torch.linalg.inv",
        "torch.ones",
        None,
    ]


def test_operators_of_a_library_by_a_decorator():
    lib = torch.library.Library("names_impl", "DEF")
    lib.define("f(Tensor x) -> Tensor")

    @torch.library.impl(lib, "f", "CPU")
    def f(x):
        return x + 1

    assert torch.ops.names_impl.f(torch.zeros(1)).item() == 1
    with pytest.raises(NotImplementedError):
        torch.ops.names_impl.f(torch.zeros(1, device="tpu"))


def test_opcheck_finds_what_is_wrong_with_an_operator():
    @torch.library.custom_op("names_opcheck::double", mutates_args=())
    def double(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    x = torch.ones(3)
    found = torch.library.opcheck(double, (x,), raise_exception=False)
    assert found["test_schema"] == found["test_aot_dispatch_dynamic"] == "SUCCESS" and "no fake impl" in str(
        found["test_faketensor"]
    )
    double.register_fake(lambda x: torch.empty_like(x))
    assert set(torch.library.opcheck(double, (x,)).values()) == {"SUCCESS"}
    with pytest.raises(torch.library.OpCheckError, match="test_autograd_registration failed with .* has no gradient"):
        torch.library.opcheck(double, (torch.ones(3, requires_grad=True),))

    @torch.library.custom_op("names_opcheck::writes", mutates_args=())
    def writes(x: torch.Tensor) -> torch.Tensor:
        return x.add_(1).clone()

    with pytest.raises(torch.library.OpCheckError, match="Argument x is not defined as mutable but was mutated"):
        torch.library.opcheck(writes, (x,), test_utils="test_schema")


def test_flops_of_custom_operators():
    from pytpu.utils.flop_counter import FlopCounterMode, flop_registry, register_flop_formula

    @torch.library.custom_op("names_flops::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @register_flop_formula(torch.ops.names_flops.twice)
    def count(shape, *, out_shape=None):
        return shape.numel() + out_shape.numel()

    try:
        with FlopCounterMode(display=False) as counter:
            assert twice(torch.ones(2, 3)).sum().item() == 12
        assert counter.get_total_flops() == 12
    finally:
        flop_registry.clear()
    with pytest.raises(ValueError, match="expected each target to be OpOverloadPacket"):
        register_flop_formula(len)(count)


def test_torchscript_is_named_where_a_member_is_missing():
    scripted = torch.jit.script(nn.Linear(2, 2))
    for name in ("save", "graph", "code"):
        with pytest.raises(
            AttributeError, match=f"'Linear' object has no attribute '{name}': TorchScript is not supported"
        ):
            getattr(scripted, name)
    with pytest.raises(AttributeError, match="has no attribute 'other'$"):
        scripted.other
    with pytest.raises(AttributeError, match="has no attribute 'save'$"):
        nn.Linear(2, 2).save

    @torch.jit.script
    def function(x):
        return x + 1

    assert function(1) == 2
    for use in (lambda: function.save("file"), lambda: str(function.graph), lambda: print(function.code)):
        with pytest.raises(NotImplementedError, match="TorchScript is not supported"):
            use()
    assert pickle.loads(pickle.dumps(scripted)).weight.shape == (2, 2)


def test_bounds_of_constraints_have_names():
    constraints = torch.distributions.constraints

    class Softplus(type(constraints.positive)):
        def __init__(self):
            super().__init__(lower_bound=0.0)

    assert Softplus().lower_bound == 0.0 and repr(constraints.positive) == "GreaterThan(lower_bound=0.0)"
    assert constraints.interval(0.0, upper_bound=1.0).upper_bound == 1.0
    with pytest.raises(TypeError, match="lower_bound"):
        constraints.greater_than()


def test_masks_of_attention_by_corner():
    from pytpu.nn.attention.bias import causal_lower_right, causal_upper_left

    q, k = torch.randn(1, 1, 2, 4), torch.randn(1, 1, 3, 4)
    attention = nn.functional.scaled_dot_product_attention
    assert torch.equal(attention(q, k, k, attn_mask=causal_upper_left(2, 3)), attention(q, k, k, is_causal=True))
    lower = torch.tensor([[True, True, False], [True, True, True]])
    torch.testing.assert_close(
        attention(q, k, k, attn_mask=causal_lower_right(2, 3)), attention(q, k, k, attn_mask=lower)
    )


def test_checkpoint_wrappers_keep_names_and_gradients():
    from pytpu.distributed.algorithms._checkpoint.checkpoint_wrapper import (
        apply_activation_checkpointing,
        checkpoint_wrapper,
    )

    plain = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 1))
    wrapped = checkpoint_wrapper(nn.Sequential(*plain))
    assert list(wrapped.state_dict()) == list(plain.state_dict()) == [n for n, _ in wrapped.named_parameters()]
    wrapped.load_state_dict(plain.state_dict())
    x = torch.ones(2, 3)
    wrapped(x).sum().backward()
    assert plain[0].weight.grad is not None
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    apply_activation_checkpointing(model, check_fn=lambda m: isinstance(m, nn.Linear))
    assert type(model[0]).__name__ == "CheckpointWrapper" and list(model.state_dict()) == ["0.weight", "0.bias"]


def test_statistics_of_a_batch():
    x, mean, var = torch.randn(3, 4, 5), torch.zeros(4), torch.ones(4)
    m, v = torch.batch_norm_update_stats(x, mean, var, 0.1)
    torch.testing.assert_close(m, x.mean((0, 2)))
    torch.testing.assert_close(v, x.var((0, 2), correction=0))
    torch.testing.assert_close(mean, 0.1 * m)
    torch.testing.assert_close(var, 0.9 + 0.1 * x.var((0, 2)))


def test_decorators_of_blocks():
    from pytpu.utils._contextlib import _DecoratorContextManager

    entered = []

    class Block(_DecoratorContextManager):
        def __enter__(self):
            entered.append("in")

        def __exit__(self, *error):
            entered.append("out")

    @Block()
    def f():
        entered.append("f")
        return 1

    @Block()
    def g():
        got = yield 1
        yield got

    assert f() == 1 and entered == ["in", "f", "out"]
    steps = g()
    assert next(steps) == 1 and steps.send(5) == 5 and list(steps) == []


def test_weak_dictionaries_compare_by_identity():
    x, y = torch.ones(1), torch.ones(1)
    table = torch.utils.weak.WeakIdKeyDictionary()
    table[x] = "x"
    assert x in table and y not in table and table[x] == "x" and len(table) == 1
    del x
    assert len(table) == 0


def test_operators_by_namespace_and_overload():
    x = torch.tensor([1.0, -2.0])
    assert torch.ops.aten.add.Tensor(x, x).tolist() == [2, -4]
    assert torch.ops.aten.relu.default(x).tolist() == [1, 0]
    assert "Tensor" in torch.ops.aten.add.overloads()
    assert str(torch.ops.aten.add.Tensor) == "aten.add.Tensor"
    with pytest.raises(AttributeError, match="has no overload name 'Other'"):
        torch.ops.aten.add.Other
    with pytest.raises(AttributeError, match="no attribute 'no_such_op'"):
        torch.ops.aten.no_such_op


def test_not_none_returns_values():
    not_none = torch.utils._typing_utils.not_none
    assert not_none(0) == 0
    with pytest.raises(TypeError, match="value was None when it should not be"):
        not_none(None)


def test_divmod_of_a_tensor_is_refused():
    x = torch.ones(2)
    for a, b in ((x, 3), (3, x), (x, x)):
        with pytest.raises(TypeError, match=r"unsupported operand type\(s\) for divmod\(\)"):
            divmod(a, b)


def test_new_takes_the_size_by_its_name():
    x = torch.ones(2, dtype=torch.float64)
    assert x.new(size=(2, 3)).shape == (2, 3) and x.new(size=(2,)).dtype == torch.float64
    with pytest.raises(TypeError):
        x.new(2, size=(3,))


def test_weight_norm_gives_the_directions_other_norms():
    v, g = torch.tensor([[3.0, 4.0], [6.0, 8.0]]), torch.tensor([[5.0], [20.0]])
    assert torch._weight_norm(v, g).tolist() == [[3, 4], [12, 16]]
    assert torch._weight_norm(v, torch.tensor([[1.0, 2.0]]), 1).shape == (2, 2)
    assert torch._weight_norm(v, v.norm() * 2, -1).allclose(2 * v)
