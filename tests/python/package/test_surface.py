"""Modules that scripts import for little: they are there, and say what is not."""

import hashlib
import os
import pickle
import re
import subprocess
import sys
import zipfile

import pytest

import pytpu as torch
from pytpu import nn

IMAGENET = """
import torch
import torch.backends.cudnn as cudnn
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.parallel
import torch.optim
import torch.utils.data
import torch.utils.data.distributed
from torch.nn.modules.utils import _pair
from torch.nn.common_types import _size_2_t
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import Subset
from torch.utils.data._utils.collate import default_collate
from torch.types import Device, Number

cudnn.benchmark = True
cudnn.deterministic = True
torch.backends.cuda.matmul.allow_tf32 = True
assert torch.backends.cudnn.benchmark and not dist.is_available()
model = nn.DataParallel(nn.Linear(2, 1)).to("tpu")
loss = model(torch.ones(4, 2, device="tpu")).sum()
loss.backward()
assert list(model.state_dict()) == ["module.weight", "module.bias"]
assert model.module.weight.grad.tolist() == [[4.0, 4.0]] and _pair(3) == (3, 3)
print("ran")
"""


def test_what_a_script_for_several_devices_imports_is_there(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(IMAGENET)
    out = subprocess.run([sys.executable, "-m", "pytpu", script], capture_output=True, text=True, timeout=120)
    assert out.stdout == "ran\n", out.stderr


def test_switches_of_backends_can_be_set_for_a_block():
    cudnn = torch.backends.cudnn
    assert cudnn.version() is None and not cudnn.is_available() and not torch.backends.mps.is_built()
    with cudnn.flags(benchmark=True, deterministic=True):
        assert cudnn.benchmark and cudnn.deterministic
    assert not cudnn.benchmark and not cudnn.deterministic
    torch.backends.cuda.enable_flash_sdp(False)
    assert not torch.backends.cuda.flash_sdp_enabled()
    torch.backends.cuda.enable_flash_sdp(True)


def test_flags_that_are_not_named_are_off_inside_of_a_block():
    cudnn = torch.backends.cudnn
    cudnn.deterministic = True
    try:
        with cudnn.flags(benchmark=True):
            assert (cudnn.enabled, cudnn.benchmark, cudnn.deterministic, cudnn.allow_tf32) == (False, True, False, True)
        assert (cudnn.enabled, cudnn.benchmark, cudnn.deterministic) == (True, False, True)
        assert cudnn.set_flags(_deterministic=False) == (True, False, 10, True, True)
    finally:
        cudnn.deterministic = False
    with pytest.raises(TypeError, match="unexpected keyword argument 'zzz'"):
        cudnn.flags(zzz=1)
    with pytest.raises(RuntimeError, match="set_enabled_cudnn expects a bool, but got int"):
        cudnn.enabled = 3
    assert cudnn.enabled is True


def test_switches_of_cuda_have_names_and_types():
    matmul = torch.backends.cuda.matmul
    for attempt in (lambda: matmul.zzz, lambda: setattr(matmul, "zzz", 3)):
        with pytest.raises(AttributeError, match="^Unknown attribute zzz$"):
            attempt()
    with pytest.raises(RuntimeError, match="set_allow_tf32_cublas expects a bool, but got str"):
        matmul.allow_tf32 = "ieee"
    with pytest.raises(
        TypeError, match="allow_fp16_reduced_precision_reduction expects a bool or a tuple/list of bools"
    ):
        matmul.allow_fp16_reduced_precision_reduction = "ieee"
    with (
        pytest.warns(FutureWarning, match="sdp_kernel.* is deprecated"),
        torch.backends.cuda.sdp_kernel(enable_flash=False),
    ):
        assert not torch.backends.cuda.flash_sdp_enabled()
    assert torch.backends.cuda.flash_sdp_enabled()


def test_wrappers_that_need_more_say_so():
    with pytest.raises(ValueError, match="Default process group has not been initialized"):
        nn.parallel.DistributedDataParallel(nn.Linear(2, 2))
    with pytest.raises(RuntimeError, match="2 devices were named"):
        nn.DataParallel(nn.Linear(2, 2), device_ids=[0, 1])


def test_a_module_is_a_function_of_its_parameters(device):
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)).to(device)
    weight = torch.ones(2, 2, device=device, requires_grad=True)
    mean = torch.zeros(2, device=device)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    x = torch.tensor([[1.0, 2.0], [3.0, 5.0]], device=device)
    y = torch.func.functional_call(model, ({"0.weight": weight}, {"1.running_mean": mean}), x)
    (y * y * torch.tensor([1.0, 3.0], device=device)).sum().backward()
    assert weight.grad is not None and model[0].weight.grad is None
    assert mean.tolist() != [0.0, 0.0]
    for name, value in model.state_dict().items():
        same = torch.equal(value, before[name])
        assert same == (name not in ("1.running_var", "1.num_batches_tracked")), name


def test_functional_call_ties_and_checks_names():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(2, 2, bias=False)
            self.b = nn.Linear(2, 2, bias=False)
            self.b.weight = self.a.weight
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x, scale=1):
            self.calls = self.calls + 1
            return self.b(self.a(x)) * scale

    model, call = Tied(), torch.func.functional_call
    x, two = torch.ones(1, 2), torch.eye(2) * 2
    own = model.a.weight
    given = {"a.weight": two, "calls": torch.tensor(5.0)}
    assert call(model, given, (x,), {"scale": 3}).tolist() == [[12.0, 12.0]]
    assert given["calls"].item() == 6 and model.calls.item() == 0
    assert model.a.weight is own and model.b.weight is own
    untied = call(model, {"a.weight": two}, x, tie_weights=False)
    assert torch.equal(untied, torch.nn.functional.linear(x * 2, own))
    with pytest.raises(ValueError, match="which are tied"):
        call(model, {"a.weight": two, "b.weight": two + 1}, x)
    with pytest.raises(RuntimeError, match=r"reparametrizing for Tied:\n\tUnexpected key\(s\): 'c'"):
        call(model, {"a.weight": two, "c": two}, x, strict=True)
    with pytest.raises(RuntimeError, match=r"Missing key\(s\): 'bias'"):
        call(nn.Linear(2, 2), {"weight": two}, x, strict=True)
    with pytest.raises(ValueError, match="appeared in multiple dictionaries"):
        call(model, ({"a.weight": two}, {"a.weight": two}), x)
    with pytest.raises(TypeError):
        call(model, {"a.weight": two}, x, {"unknown": 1})
    assert model.a.weight is own
    with pytest.warns(FutureWarning, match="is deprecated as of PyTorch 2.0"):
        from pytpu.nn.utils.stateless import functional_call

        assert functional_call(model, {"a.weight": two}, x).tolist() == [[4.0, 4.0]]


def test_functional_call_puts_what_is_given_where_the_name_says():
    call, x, ones = torch.func.functional_call, torch.ones(1, 2), torch.ones(2, 2)
    bare = nn.Linear(2, 2, bias=False)
    assert call(bare, {"weight": ones, "bias": torch.ones(2)}, x).tolist() == [[3.0, 3.0]]
    assert bare.bias is None and "bias" in bare._parameters
    plain = nn.Linear(2, 2)
    assert call(plain, {"weight": ones, "bias": None}, x).tolist() == [[2.0, 2.0]]
    assert isinstance(plain.bias, nn.Parameter)

    class Reads(nn.Module):
        def __init__(self):
            super().__init__()
            self.held = torch.ones(1)

        def forward(self, x):
            self.held = self.held * 3
            return getattr(self, "extra", None), self.held

    model, held = Reads(), {"held": torch.full((1,), 7.0)}
    extra, value = call(model, ({"extra": ones}, held), x)
    assert extra is ones and value.item() == 21 and held["held"].item() == 21
    assert model.held.item() == 1 and "extra" not in vars(model)

    class Halved(nn.Module):
        def forward(self, x):
            return 2 * x

        def right_inverse(self, x):
            return x / 2

    layer = nn.utils.parametrize.register_parametrization(nn.Linear(2, 2, bias=False), "weight", Halved())
    own = layer.weight.detach().clone()
    assert call(layer, {"weight": 3 * ones}, x).tolist() == [[6.0, 6.0]]
    assert torch.equal(layer.weight, own)


@pytest.mark.parametrize(
    "name, value, kind, words",
    [
        ("weight", 3, TypeError, "3 is not an instance of torch.Tensor"),
        ("training", torch.ones(1), TypeError, "attribute `training`: True is not an instance of torch.Tensor"),
        ("a.b", torch.ones(1), AttributeError, "Linear has no attribute `a`"),
        ("weight.b", torch.ones(1), TypeError, "submodule `weight`: Parameter containing:"),
        ("", torch.ones(1), KeyError, "tensor name can't be empty string"),
    ],
)
def test_functional_call_refuses_what_it_cannot_put_there(name, value, kind, words):
    model = nn.Linear(2, 2)
    own = model.bias
    with pytest.raises(kind, match=re.escape(words).replace("'", ".{1,2}")):
        torch.func.functional_call(model, {"bias": torch.zeros(2), name: value}, torch.ones(1, 2))
    assert model.bias is own


def test_states_of_modules_that_learn_in_part_are_not_stacked():
    models = [nn.Linear(2, 2), nn.Linear(2, 2).requires_grad_(False)]
    with pytest.raises(RuntimeError, match="Expected weight from each model to have the same .requires_grad"):
        torch.func.stack_module_state(models)
    assert not torch.func.stack_module_state(models[1:])[0]["weight"].requires_grad


def test_states_of_modules_are_stacked():
    models = [nn.Linear(2, 3) for _ in range(4)]
    parameters, buffers = torch.func.stack_module_state(models)
    assert parameters["weight"].shape == (4, 3, 2) and parameters["weight"].requires_grad and buffers == {}
    assert torch.equal(parameters["bias"][2], models[2].bias)
    with pytest.raises(RuntimeError, match="same training/eval mode"):
        torch.func.stack_module_state([models[0], nn.Linear(2, 3).eval()])


def test_decorators_of_torchscript_leave_things_as_they_are():
    @torch.jit.script
    def gelu(x):
        if torch.jit.is_scripting():
            return x
        return x * 2

    class Net(nn.Module):
        @torch.jit.ignore
        def a(self):
            return 1

        @torch.jit.ignore(drop=True)
        def b(self):
            return 2

    assert gelu(torch.ones(1)).item() == 2 and (Net().a(), Net().b()) == (1, 2)
    assert isinstance(torch.jit.script(Net()), Net) and torch.jit.annotate(int, 3) == 3
    assert torch.jit.isinstance([1], list[int]) and not torch.jit.isinstance([1], dict[int, int])


def test_prefixes_are_taken_off_the_names_of_a_state():
    model = nn.DataParallel(nn.Sequential(nn.Linear(1, 1)))
    state = model.state_dict()
    nn.modules.utils.consume_prefix_in_state_dict_if_present(state, "module.")
    assert list(state) == ["0.weight", "0.bias"] and set(state._metadata) == {"", "0"}
    nn.Sequential(nn.Linear(1, 1)).load_state_dict(state)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_forked_processes_write_to_shared_memory():
    import pytpu.multiprocessing as mp

    model = nn.Linear(3, 2).to(torch.float64)
    half = torch.zeros(2, 2, dtype=torch.bfloat16).t()
    assert not half.is_shared() and half.share_memory_() is half
    weight = model.weight
    assert model.share_memory() is model and model.weight is weight and weight.is_shared() and half.is_shared()
    before = weight.detach().clone()

    def work():
        with torch.no_grad():
            model.weight.add_(1)
            half[0, 1] = 3

    process = mp.get_context("fork").Process(target=work)
    process.start()
    process.join()
    assert process.exitcode == 0
    assert torch.equal(weight, before + 1) and half.tolist() == [[0, 3], [0, 0]]
    with torch.no_grad():
        weight.zero_()
    assert weight.sum().item() == 0 and weight.requires_grad and weight.is_leaf


def _add(i, value):
    if value + i == 4:
        raise KeyError("four")
    if value + i == 9:
        os._exit(7)


def _fail_at_length(i):
    raise ValueError("x" * 200_000)


def test_spawned_processes_tell_how_they_failed():
    import pytpu.multiprocessing as mp

    assert mp.spawn(_add, args=(0,), nprocs=2) is None
    with pytest.raises(mp.ProcessRaisedException, match=r"(?s)-- Process 1 terminated .*KeyError: 'four'") as e:
        mp.spawn(_add, args=(3,), nprocs=2)
    assert e.value.error_index == 1
    with pytest.raises(mp.ProcessExitedException, match="process 0 terminated with exit code 7"):
        mp.spawn(_add, args=(9,), nprocs=1)
    # What a process says may be more than a pipe holds.
    with pytest.raises(mp.ProcessRaisedException) as e:
        mp.spawn(_fail_at_length, nprocs=1)
    assert len(str(e.value)) > 200_000


def test_weights_are_downloaded_once_and_checked(tmp_path, capsys):
    model = nn.Linear(2, 3)
    torch.save(model.state_dict(), tmp_path / "weights.pth")
    digest = hashlib.sha256((tmp_path / "weights.pth").read_bytes()).hexdigest()
    (tmp_path / "weights.pth").rename(tmp_path / f"weights-{digest[:8]}.pth")
    url = (tmp_path / f"weights-{digest[:8]}.pth").as_uri()
    before = torch.hub.get_dir()
    torch.hub.set_dir(tmp_path / "hub")
    try:
        for _ in range(2):
            state = torch.hub.load_state_dict_from_url(url, map_location="cpu", check_hash=True, weights_only=True)
            assert torch.equal(state["weight"], model.weight)
        shown = capsys.readouterr()
        assert shown.out.count("Downloading") == 1 and "Downloading" not in shown.err and "100" in shown.err
        file = tmp_path / "hub" / "checkpoints" / f"weights-{digest[:8]}.pth"
        assert file.stat().st_mode == (tmp_path / file.name).stat().st_mode  # not private to the user
        other = tmp_path / "weights-00000000.pth"
        other.write_bytes((tmp_path / f"weights-{digest[:8]}.pth").read_bytes())
        with pytest.raises(RuntimeError, match='invalid hash value .expected "00000000", got "' + digest):
            torch.hub.load_state_dict_from_url(other.as_uri(), check_hash=True)
        assert os.listdir(tmp_path / "hub" / "checkpoints") == [f"weights-{digest[:8]}.pth"]
        with zipfile.ZipFile(tmp_path / "old.zip", "w") as archive:
            archive.write(tmp_path / f"weights-{digest[:8]}.pth", "inner.pth")
        with pytest.warns(FutureWarning, match="Falling back to the old format"):
            state = torch.utils.model_zoo.load_url((tmp_path / "old.zip").as_uri(), progress=False)
        assert torch.equal(state["bias"], model.bias)
    finally:
        torch.hub.set_dir(before)


def test_isinstance_looks_into_containers():
    from typing import Dict, List, Optional, Tuple, Union

    of = torch.jit.isinstance
    x = torch.ones(1)
    for value, kind in (
        ([x], List[torch.Tensor]),
        ((1, "a"), Tuple[int, str]),
        ({"a": [1]}, Dict[str, List[int]]),
        (None, Optional[int]),
        ([None, 1], List[Optional[int]]),
        (1, Union[int, str]),
        (1, int | None),
        ([1], (List[str], List[int])),
        (1, int),
    ):
        assert of(value, kind), (value, kind)
    for value, kind in (
        ([1], List[float]),
        ((1, "a"), Tuple[int]),
        ({"a": ["b"]}, Dict[str, List[int]]),
        (["a"], Optional[List[int]]),
        ((1, 2), List[int]),
        ({1}, set[int]),
        ([1], (List[str], List[float])),
        (1.5, Union[int, str]),
    ):
        assert not of(value, kind), (value, kind)
    with pytest.warns(UserWarning, match="The inner type of a container is lost"):
        assert of([], List[int])
    with pytest.raises(
        RuntimeError, match=r"use List without a contained type. Please add a contained type, e.g. List\[int\]"
    ):
        of([1], List)
    with pytest.raises(
        RuntimeError, match=r"use dict without contained types. Please add contained type, e.g. dict\[int, int\]"
    ):
        of({}, (int, dict))
    with pytest.raises(RuntimeError, match="must be a type or a tuple of types"):
        of(1, "int")


def test_settings_of_old():
    torch.set_default_tensor_type("torch.DoubleTensor")
    try:
        assert torch.ones(1).dtype == torch.float64
    finally:
        torch.set_default_tensor_type(torch.FloatTensor)
    assert torch.ones(1).dtype == torch.float32
    with pytest.raises(TypeError, match="^only floating-point types are supported as the default type"):
        torch.set_default_tensor_type(torch.IntTensor)
    with pytest.raises(TypeError, match="invalid type object"):
        torch.set_default_tensor_type("DoubleTensor")
    assert torch.get_device_module("cpu") is torch.cpu and torch.get_device_module() is torch.tpu
    torch.set_num_interop_threads(2)
    assert torch.get_num_interop_threads() == 1 and not torch.set_flush_denormal(True)
    assert torch.GradScaler is torch.amp.GradScaler


def test_compiler_and_onnx_say_what_is_not_there():
    def double(x):
        return 2 * x

    for decorated in (torch.compiler.disable(double), torch.compiler.disable(recursive=False)(double)):
        assert decorated is double
    with torch.compiler.set_stance("force_eager"):
        assert not torch.compiler.is_compiling()
    with pytest.raises(RuntimeError, match="invalid torch.compile stance 'lazy'"):
        torch.compiler.set_stance("lazy")
    assert not torch.onnx.is_in_onnx_export()
    with pytest.raises(NotImplementedError, match="not exported to ONNX"):
        torch.onnx.export(nn.Linear(1, 1), torch.ones(1), "model.onnx")


@pytest.mark.parametrize("n", [1, 2, 3])
def test_gradients_of_convolutions(n, device):
    convolve = getattr(nn.functional, f"conv{n}d")
    x = torch.randn(2, 4, *[7] * n, device=device, requires_grad=True)
    w = torch.randn(6, 2, *[3] * n, device=device, requires_grad=True)
    y = convolve(x, w, None, 2, 1, 1, 2)
    g = torch.randn(y.shape, device=device)
    want = torch.autograd.grad(y, (x, w), g)
    got = (
        getattr(nn.grad, f"conv{n}d_input")(x.shape, w, g, 2, 1, 1, 2),
        getattr(nn.grad, f"conv{n}d_weight")(x, w.shape, g, 2, 1, 1, 2),
    )
    for a, b in zip(got, want):
        assert a.shape == b.shape and torch.allclose(a, b, atol=1e-4)


def test_what_needs_a_group_of_processes():
    from pytpu.distributed import destroy_process_group, get_rank, init_process_group

    with pytest.raises(RuntimeError, match="torch.distributed is not available"):
        init_process_group(backend="gloo")
    for call in (destroy_process_group, get_rank, torch.distributed.barrier, torch.distributed.all_reduce):
        with pytest.raises(ValueError, match="Default process group has not been initialized"):
            call()
    assert not torch.distributed.is_torchelastic_launched()


def test_names_of_devices_that_are_not_here():
    cuda = torch.device("cuda")
    assert (cuda.type, cuda.index, repr(torch.device("mps", 1))) == ("cuda", None, "device(type='mps', index=1)")
    assert cuda == torch.device("cuda") != torch.device("cpu") and torch.device("cuda:0") != torch.device("cpu:0")
    assert torch.ones(1).device != cuda and pickle.loads(pickle.dumps(cuda)) == cuda
    for use in (
        lambda: torch.ones(1, device=cuda),
        lambda: torch.ones(1).to(cuda),
        lambda: nn.Linear(1, 1).to("cuda"),
        lambda: torch.set_default_device(cuda),
        lambda: cuda.__enter__(),
    ):
        with pytest.raises(RuntimeError, match="Torch not compiled with CUDA enabled"):
            use()
    with pytest.raises(RuntimeError, match="Invalid device string: 'cuda:one'"):
        torch.device("cuda:one")
    with pytest.raises(RuntimeError, match="Expected one of cpu, tpu, meta device type at start of device string: gpu"):
        torch.device("gpu")


def test_marks_of_tracing():
    assert torch.fx.wrap(len) is len and torch.fx.wrap("len") == "len"
    assert not isinstance(torch.ones(1), torch.fx.Proxy)
    with pytest.raises(NotImplementedError, match="graphs of Python code are not made"):
        torch.fx.symbolic_trace(nn.Linear(1, 1))


def test_parts_of_data_parallel_for_the_one_device():
    from pytpu.nn.parallel import gather, parallel_apply, replicate, scatter

    x = torch.arange(6.0).view(3, 2)
    (args,) = scatter((x, {"n": [x, 3]}), [0])
    assert args[0].device.type == args[1]["n"][0].device.type == "tpu" and args[1]["n"][1] == 3
    model = nn.Sequential(nn.Linear(2, 1)).to("tpu")
    (replica,) = replicate(model, [0])
    assert replica is not model and replica[0] is not model[0] and replica[0].weight is model[0].weight
    outputs = parallel_apply([replica, replica], [(args[0],), args[0]])
    y = gather(outputs, "cpu")
    assert y.shape == (6, 1) and y.device.type == "cpu" and torch.equal(y[:3], model(args[0]).cpu())
    assert gather([(outputs[0], None)], -1)[0].device.type == "cpu"
    with pytest.raises(RuntimeError, match="2 devices were named"):
        scatter(x, [0, 1])
    with pytest.raises(AssertionError, match="Gather function not implemented for CPU tensors"):
        gather([x, x], "cpu")
    with pytest.raises(AssertionError, match="Broadcast function not implemented for CPU tensors"):
        replicate(nn.Linear(2, 1), [0])
    with pytest.raises(AssertionError, match="number of modules 2 is not equal to the number of inputs 1"):
        parallel_apply([model, model], [x])


def test_events_and_streams_of_cuda_can_be_named_but_not_made():
    cuda = torch.cuda
    for name in ("Event", "Stream", "CUDAGraph"):
        assert not isinstance(3, getattr(cuda, name))
        with pytest.raises(RuntimeError, match=f"^Tried to instantiate dummy base class {name}$"):
            getattr(cuda, name)()
    with cuda.device(None), cuda.stream(None), cuda.device_of(torch.ones(1)):
        pass
    for refused in (cuda.device(0).__enter__, cuda.current_stream, cuda.init):
        with pytest.raises(AssertionError, match="Torch not compiled with CUDA enabled"):
            refused()
    with pytest.raises(RuntimeError, match="NVTX functions not installed"):
        cuda.nvtx.range_push("step")
    with pytest.raises(RuntimeError, match="NVTX functions not installed"), cuda.nvtx.range("step"):
        pass


def test_functions_of_symbolic_sizes_are_those_of_numbers():
    assert (torch.sym_int(-3.7), torch.sym_float(3), torch.sym_not(True)) == (-3, 3.0, False)
    assert (torch.sym_sum([1, 2]), torch.sym_sqrt(4)) == (3, 2)
    assert type(torch.sym_max(3, 2.0)) is float and type(torch.sym_min(True, 2)) is int
    assert torch.sym_ite(False, 1, 2) == 2
    with pytest.raises(AssertionError, match="expected SymBool or bool, got <class 'int'>"):
        torch.sym_ite(1, 1, 2)


def test_a_condition_chooses_a_function(device):
    x = torch.ones(2, device=device)
    for pred, want in ((True, 2), (False, 0), (x.sum() > 1, 2), (x.sum() > 3, 0)):
        assert torch.cond(pred, lambda x: x + 1, lambda x: x - 1, (x,)).tolist() == [want, want]
    with pytest.raises(RuntimeError, match="Expected pred to be bool or single-element tensor, but got tensor"):
        torch.cond(x > 0, torch.sin, torch.cos, (x,))


def test_names_from_other_times(device):
    x = torch.arange(6.0, device=device).view(2, 3)
    assert torch.functional.einsum is torch.einsum and set(torch.functional.__all__) <= set(dir(torch))
    assert (
        x.to_dense() is x
        and x.to_dense(torch.float64).dtype == torch.float64
        and (x.sparse_dim(), x.dense_dim()) == (0, 2)
    )
    with pytest.raises(RuntimeError, match="coalesce expected sparse coordinate tensor layout but got Strided"):
        x.coalesce()
    with pytest.warns(UserWarning, match="non-inplace resize is deprecated"):
        assert x.resize(3, 2).shape == (3, 2)
    with (
        pytest.warns(UserWarning),
        pytest.raises(RuntimeError, match=r"requested resize to 5 \(5 elements in total\), but the given"),
    ):
        x.resize_as(torch.ones(5))
    assert x.__div__(2).tolist() == (x / 2).tolist() and x[0, 1].__nonzero__() is True
    assert torch.norm_except_dim(x, 1, 1).tolist() == [[3, 5, 7]] and torch.norm_except_dim(x, 2, -1).shape == ()
    z = torch.tensor([1 + 2j], device=device)
    pair = torch.view_as_real_copy(z).zero_()
    assert z.tolist() == [1 + 2j] and torch.view_as_complex_copy(pair).tolist() == [0j]


def test_batch_norms_without_statistics(device):
    model = nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 2)).to(device).eval()
    assert torch.func.replace_all_batch_norm_modules_(model) is model and model[0].running_mean is None
    x = torch.tensor([[1.0, 2.0], [3.0, 6.0]], device=device)
    assert torch.allclose(model[0](x), torch.tensor([[-1.0, -1.0], [1.0, 1.0]], device=device), atol=1e-4)
