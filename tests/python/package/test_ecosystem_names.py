"""The names that libraries ask for when they look for an accelerator, evaluated under ``python -m pytpu``."""

import importlib.metadata
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import textwrap

import pytest

import pytpu as torch

# A name for each call of a library, the call, and a condition on its result.
HOLDS = {
    "importlib.util.find_spec('torch')": (
        lambda: importlib.util.find_spec("torch"),
        lambda v: v.origin.endswith("__init__.py"),
    ),
    "importlib.metadata.version('torch')": (lambda: importlib.metadata.version("torch"), lambda v: v == "2.15.0+pytpu"),
    "importlib.util.find_spec('torch_tpu')": (
        lambda: importlib.util.find_spec("torch_tpu"),
        lambda v: v.origin.endswith("__init__.py"),
    ),
    "torch.__version__": (lambda: torch.__version__, lambda v: v.startswith("2.15.0")),
    "torch.accelerator.current_accelerator()": (
        lambda: torch.accelerator.current_accelerator(),
        lambda v: v == torch.device("tpu"),
    ),
    "torch.accelerator.is_available()": (lambda: torch.accelerator.is_available(), lambda v: v is True),
    "torch.accelerator.current_device_index()": (lambda: torch.accelerator.current_device_index(), lambda v: v == 0),
    "torch.accelerator.set_device_index(0)": (lambda: torch.accelerator.set_device_index(0), lambda v: v is None),
    "torch.accelerator.device_count()": (lambda: torch.accelerator.device_count(), lambda v: v >= 1),
    "torch.accelerator.synchronize()": (lambda: torch.accelerator.synchronize(), lambda v: v is None),
    "torch.accelerator.memory_allocated()": (lambda: torch.accelerator.memory_allocated(), lambda v: v >= 0),
    "torch.accelerator.get_memory_info()": (lambda: torch.accelerator.get_memory_info(), lambda v: 0 < v[0] <= v[1]),
    "torch.accelerator.max_memory_allocated()": (lambda: torch.accelerator.max_memory_allocated(), lambda v: v >= 0),
    "torch.accelerator.reset_peak_memory_stats()": (
        lambda: torch.accelerator.reset_peak_memory_stats(),
        lambda v: v is None,
    ),
    "torch.accelerator.empty_cache()": (lambda: torch.accelerator.empty_cache(), lambda v: v is None),
    "torch._C._get_accelerator()": (lambda: torch._C._get_accelerator(), lambda v: v == torch.device("tpu")),
    "torch._C._get_privateuse1_backend_name()": (
        lambda: torch._C._get_privateuse1_backend_name(),
        lambda v: v == "tpu",
    ),
    "torch.utils.backend_registration": (
        lambda: torch.utils.backend_registration,
        lambda v: v.rename_privateuse1_backend("tpu") is None,
    ),
    "hasattr(torch.backends, 'tpu')": (
        lambda: hasattr(torch.backends, "tpu"),
        lambda v: v and torch.backends.tpu.is_built(),
    ),
    "torch.get_device_module('tpu').__name__": (
        lambda: torch.get_device_module("tpu").__name__,
        lambda v: v == "torch.tpu",
    ),
    "torch.get_device_module().__name__": (lambda: torch.get_device_module().__name__, lambda v: v == "torch.tpu"),
    "torch.tpu.manual_seed(0)": (lambda: torch.tpu.manual_seed(0), lambda v: v is None),
    "torch.tpu.empty_cache()": (lambda: torch.tpu.empty_cache(), lambda v: v is None),
    "torch.tpu.Stream": (lambda: torch.tpu.Stream, lambda v: issubclass(v, torch.Stream)),
    "torch.tpu.Event": (lambda: torch.tpu.Event, lambda v: issubclass(v, torch.Event)),
    "torch.tpu.current_stream()": (lambda: torch.tpu.current_stream(), lambda v: v == torch.tpu.default_stream()),
    "torch.tpu.stream": (lambda: torch.tpu.stream, lambda v: callable(v)),
    "torch.tpu.mem_get_info()": (lambda: torch.tpu.mem_get_info(), lambda v: 0 < v[0] <= v[1]),
    "torch.tpu.get_device_properties(0)": (
        lambda: torch.tpu.get_device_properties(0),
        lambda v: v.name == torch.tpu.get_device_name() and v.total_memory > 0,
    ),
    "torch.tpu.get_device_capability()": (
        lambda: torch.tpu.get_device_capability(),
        lambda v: len(v) == 2 and (v > (0, 0)) == torch.tpu.get_device_name().startswith("TPU"),
    ),
    "torch.tpu.is_bf16_supported()": (lambda: torch.tpu.is_bf16_supported(), lambda v: v is True),
    "torch.tpu.get_rng_state()": (
        lambda: torch.tpu.get_rng_state(),
        lambda v: v.dtype == torch.uint8 and v.device.type == "cpu",
    ),
    "torch.tpu.set_rng_state": (lambda: torch.tpu.set_rng_state, lambda v: v(torch.tpu.get_rng_state()) is None),
    "torch.tpu.initial_seed()": (lambda: torch.tpu.initial_seed(), lambda v: v == 0),
    "torch.tpu.default_generators": (
        lambda: torch.tpu.default_generators,
        lambda v: v[0].device == torch.device("tpu", 0) and len(v) == torch.tpu.device_count(),
    ),
    "torch.tpu.compiler.custom_compiler_options": (
        lambda: torch.tpu.compiler.custom_compiler_options,
        lambda v: callable(v),
    ),
    "torch.tpu.precision": (lambda: torch.tpu.precision, lambda v: callable(v)),
    "torch.tpu.Precision": (
        lambda: torch.tpu.Precision,
        lambda v: [p.name for p in v] == ["DEFAULT", "HIGH", "HIGHEST"],
    ),
    "torch.tpu.optimizers.AdamW": (lambda: torch.tpu.optimizers.AdamW, lambda v: v(lr=0.5).defaults["lr"] == 0.5),
    "torch.tpu.ops.splash_sdpa": (lambda: torch.tpu.ops.splash_sdpa, lambda v: callable(v)),
    "torch.tpu.pallas.jax_op": (lambda: torch.tpu.pallas.jax_op, lambda v: callable(v)),
    "torch.tpu.profiler.TpuProfilerConfig": (
        lambda: torch.tpu.profiler.TpuProfilerConfig,
        lambda v: v(run_dir="x").run_dir == "x",
    ),
    "torch.tpu.eager_mode": (lambda: torch.tpu.eager_mode, lambda v: v().name == "DEFER_AND_FUSE"),
    "torch.Stream": (lambda: torch.Stream, lambda v: v("tpu").device.type == "tpu"),
    "torch.Event": (lambda: torch.Event, lambda v: v("tpu").device.type == "tpu"),
    "torch.compile(lambda x: x, backend='tpu', options={'debug_callback': print})": (
        lambda: torch.compile(lambda x: x, backend="tpu", options={"debug_callback": print}),
        lambda v: v(3) == 3,
    ),
    "torch.compiler.list_backends()": (
        lambda: torch.compiler.list_backends(),
        lambda v: "tpu" in v and "inductor" in v,
    ),
    "torch._dynamo.list_backends()": (lambda: torch._dynamo.list_backends(), lambda v: "tpu" in v and "inductor" in v),
    "torch._dynamo.mark_dynamic": (lambda: torch._dynamo.mark_dynamic, lambda v: v(torch.ones(2), 0) is None),
    "torch.randn(2, device='tpu').is_tpu": (lambda: torch.randn(2, device="tpu").is_tpu, lambda v: v is True),
    "torch.randn(2).tpu().device": (lambda: torch.randn(2).tpu().device, lambda v: v.type == "tpu"),
    "torch.nn.Linear(2, 2).tpu().weight.device": (
        lambda: torch.nn.Linear(2, 2).tpu().weight.device,
        lambda v: v.type == "tpu",
    ),
    "torch.amp.autocast('tpu').fast_dtype": (
        lambda: torch.amp.autocast("tpu").fast_dtype,
        lambda v: v == torch.bfloat16,
    ),
    "torch.get_autocast_dtype('tpu')": (lambda: torch.get_autocast_dtype("tpu"), lambda v: v == torch.bfloat16),
    "torch.library.custom_op": (lambda: torch.library.custom_op, lambda v: callable(v)),
    "torch.library.register_fake": (lambda: torch.library.register_fake, lambda v: callable(v)),
    "torch.profiler.ProfilerActivity.PrivateUse1": (
        lambda: torch.profiler.ProfilerActivity.PrivateUse1,
        lambda v: v is torch.profiler.ProfilerActivity.TPU,
    ),
    "torch.profiler.ProfilerActivity.TPU": (
        lambda: torch.profiler.ProfilerActivity.TPU,
        lambda v: v is not torch.profiler.ProfilerActivity.CPU,
    ),
    "torch.distributed.device_mesh.init_device_mesh": (
        lambda: torch.distributed.device_mesh.init_device_mesh,
        lambda v: callable(v),
    ),
    "torch.distributed.fsdp.fully_shard": (lambda: torch.distributed.fsdp.fully_shard, lambda v: callable(v)),
    "torch.distributed.tensor.DTensor": (lambda: torch.distributed.tensor.DTensor, lambda v: isinstance(v, type)),
    "torch.distributed.checkpoint": (
        lambda: torch.distributed.checkpoint,
        lambda v: v.__name__ == "torch.distributed.checkpoint",
    ),
    "torch.distributed.pipelining": (
        lambda: torch.distributed.pipelining,
        lambda v: v.__name__ == "torch.distributed.pipelining",
    ),
    "torch.distributed.is_backend_available('tpu_dist')": (
        lambda: torch.distributed.is_backend_available("tpu_dist"),
        lambda v: v is True,
    ),
    "torch.distributed.Backend.default_device_backend_map": (
        lambda: torch.distributed.Backend.default_device_backend_map,
        lambda v: v["cpu"] == "gloo" and "tpu" in v,
    ),
    "torch.nn.attention.flex_attention.flex_attention": (
        lambda: torch.nn.attention.flex_attention.flex_attention,
        lambda v: callable(v),
    ),
    "torch.backends.cuda.is_built()": (lambda: torch.backends.cuda.is_built(), lambda v: v is False),
    "torch.version.cuda": (lambda: torch.version.cuda, lambda v: v is None),
    "torch.export.export": (lambda: torch.export.export, callable),
}

# Calls that fail, with the error. When a name is added, move it to the table above.
ABSENT = {
    "torch.randn(2, device='xla').device": (lambda: torch.randn(2, device="xla").device, RuntimeError),
    "torch.tpu.distributed.set_tpu_launch_env": (lambda: torch.tpu.distributed.set_tpu_launch_env, AttributeError),
    "torch.tpu.distributed.topology_aware_mesh": (lambda: torch.tpu.distributed.topology_aware_mesh, AttributeError),
}


def run(*arguments, **env):
    """Run ``python -m pytpu`` with these arguments, and return what it prints."""
    path = str(pathlib.Path(torch.__file__).parent.parent)
    environment = {**os.environ, "PYTHONPATH": path}
    environment.pop("ACCELERATE_TORCH_DEVICE", None)
    out = subprocess.run(
        [sys.executable, "-m", "pytpu", *arguments], capture_output=True, text=True, env={**environment, **env},
        timeout=300,
    )  # fmt: skip
    assert out.returncode == 0, out.stderr
    return out.stdout


@pytest.fixture(scope="module")
def found():
    """Return for each call whether its condition holds, or the name of its error. All run in one process."""
    return json.loads(run(__file__))


def test_the_table_has_all_seventy_two():
    assert len(HOLDS) + len(ABSENT) == 72


@pytest.mark.parametrize("name", HOLDS)
def test_an_expression_holds(found, name):
    assert found[name] is True


@pytest.mark.parametrize("name", ABSENT)
def test_absent_names_raise(found, name):
    # A name that PyTorch has raises a kind of `AttributeError` that says what to use.
    assert found[name].replace("AbsentNameError", "AttributeError") == ABSENT[name][1].__name__


def test_torch_tpu_is_an_alias_of_torch_dot_tpu():
    out = run(
        "-c",
        "import importlib.metadata, torch_tpu, torch_tpu.ops, torch_tpu._internal.optimizers as optimizers, torch\n"
        "from torch_tpu import precision\n"
        "assert torch_tpu.ops is torch.tpu.ops and optimizers is torch.tpu.optimizers and precision is "
        "torch.tpu.precision\n"
        "for name in ('torch_tpu.nothing', 'torch_tpu._internal.nothing'):\n"
        "    try:\n        __import__(name)\n    except ModuleNotFoundError as error:\n        print(error)\n"
        "print(torch_tpu.__version__, importlib.metadata.version('torch_tpu'), "
        "importlib.metadata.version('torch-tpu'))\n",
    )
    assert out.splitlines() == [
        "No module named 'torch_tpu.nothing'", "No module named 'torch_tpu._internal.nothing'",
        "0.2.0+pytpu 0.2.0+pytpu 0.2.0+pytpu",
    ]  # fmt: skip


def test_another_torch_tpu_stays_with_another_torch(tmp_path):
    # A Python of another environment that inherits PYTHONPATH from `python -m pytpu`.
    for name in ("torch", "torch_tpu"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"__version__ = 'other {name}'\n")
    shim = pathlib.Path(torch.__file__).parent / "_shim"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(shim), str(tmp_path)]), "PYTPU_IS_TORCH_IN": "/elsewhere"}
    code = (
        "import torch_tpu, torch, sys; print(torch.__version__, torch_tpu.__version__, "
        "sys.modules['torch_tpu'].__file__)"
    )
    out = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stdout
    assert out == f"other torch other torch_tpu {tmp_path / 'torch_tpu' / '__init__.py'}\n"


def test_accelerate_gets_the_device_unless_it_is_set():
    code = "import os; print(os.environ.get('ACCELERATE_TORCH_DEVICE'))"
    assert run("-c", code) == "tpu\n"
    assert run("-c", code, ACCELERATE_TORCH_DEVICE="cpu") == "cpu\n"


def test_errors_are_pytorchs():
    with pytest.raises(
        RuntimeError, match=r"^torch.register_privateuse1_backend\(\) has already been set! Current backend: tpu$"
    ):
        torch.utils.backend_registration.rename_privateuse1_backend("npu")
    with pytest.raises(ValueError, match="^cpu doesn't match the current accelerator tpu.$"):
        torch.accelerator.get_memory_info("cpu")
    with pytest.raises(ValueError, match="expected to be one of 'Precision.DEFAULT'"):
        torch.tpu.precision("high").__enter__()
    with pytest.raises(ValueError, match=r"enable_gqa \(False\) does not match inputs: n_heads=4, n_kv_heads=2"):
        torch.tpu.ops.splash_sdpa(torch.ones(1, 4, 3, 8), torch.ones(1, 2, 3, 8), torch.ones(1, 2, 3, 8))
    with pytest.raises(ValueError, match="Experimental option key cannot clash with stable option: 'run_dir'"):
        torch.tpu.profiler.TpuProfilerConfig(experimental_options={"run_dir": "x"})


def test_the_accelerator_holds_the_dtypes_that_it_names():
    dtypes = torch.accelerator.get_device_capability()["supported_dtypes"]
    assert {torch.float32, torch.bfloat16, torch.int64, torch.bool} <= dtypes
    for dtype in dtypes:
        assert torch.ones(2, dtype=dtype, device="tpu")[1].item() == 1


def test_precision_holds_in_its_block():
    assert torch.get_float32_matmul_precision() == "highest"
    with torch.tpu.precision(torch.tpu.Precision.HIGH):
        assert torch.get_float32_matmul_precision() == "high"
        with pytest.raises(KeyError), torch.tpu.precision(torch.tpu.Precision.DEFAULT):
            assert torch.get_float32_matmul_precision() == "medium"
            raise KeyError
        assert torch.get_float32_matmul_precision() == "high"
    assert torch.get_float32_matmul_precision() == "highest"


def test_options_of_the_compiler_are_part_of_a_program():
    x = torch.arange(6.0).to("tpu")

    def compilations():
        before = torch.tpu.metrics()
        assert (x.sin() * 2).sum().item() == pytest.approx(
            sum(2 * torch.sin(torch.tensor(float(k))).item() for k in range(6))
        )
        after = torch.tpu.metrics()
        return sum(after[k] - before[k] for k in ("compilations", "disk_cache_hits"))

    assert compilations() == 1 and compilations() == 0
    options = torch.tpu.compiler.custom_compiler_options
    with options({"xla_cpu_enable_fast_math": "true"}):
        assert compilations() == 1 and compilations() == 0
        assert "other compiler options" in torch.tpu.explain()[-1]
        with options({"xla_cpu_enable_fast_math": False}):
            assert compilations() == 1
        assert compilations() == 0
    with pytest.raises(RuntimeError, match="xla_of_no_such_name"), options({"xla_of_no_such_name": True}):
        compilations()
    assert compilations() == 0


def test_splash_attention_sees_its_window(device, close):
    q, k, v = (torch.randn(2, 4, 7, 8, device=device) for _ in range(3))
    splash = torch.tpu.ops.splash_sdpa
    attention = torch.nn.functional.scaled_dot_product_attention
    close(splash(q, k, v), attention(q, k, v, is_causal=True).cpu().numpy())
    place = torch.arange(7)
    distance = place[:, None] - place
    for causal in (True, False):
        seen = (distance <= 2) & (distance >= (0 if causal else -2))
        close(
            splash(q, k, v, is_causal=causal, local_window_size=2),
            attention(q, k, v, attn_mask=seen.to(device)).cpu().numpy(),
        )
    shared = splash(q, k[:, :2], v[:, :2], enable_gqa=True, scale=0.5)
    close(shared, attention(q, k[:, :2], v[:, :2], is_causal=True, scale=0.5, enable_gqa=True).cpu().numpy())


@pytest.mark.parametrize("kind", ["AdamW", "Sgd", "nesterov"])
def test_optimizers_without_state_step_as_those_of_torch_optim(device, close, kind):
    make, reference = {
        "AdamW": (
            lambda: torch.tpu.optimizers.AdamW(
                lr=0.1, weight_decay=0.2, beta1=0.8, beta2=0.9, use_bfloat16_moments=False
            ),
            lambda p: torch.optim.AdamW(p, lr=0.1, weight_decay=0.2, betas=(0.8, 0.9)),
        ),
        "Sgd": (
            lambda: torch.tpu.optimizers.Sgd(lr=0.1, momentum=0.9, weight_decay=0.2),
            lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.2),
        ),
        "nesterov": (
            lambda: torch.tpu.optimizers.Sgd(lr=0.1, momentum=0.9, nesterov=True, maximize=True),
            lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, maximize=True),
        ),
    }[kind]
    ours, theirs = torch.nn.Linear(3, 2, device=device), torch.nn.Linear(3, 2, device=device)
    theirs.load_state_dict(ours.state_dict())
    optimizer, reference = make(), reference(theirs.parameters())
    group = optimizer.init_param_group(ours)
    x = torch.randn(4, 3, device=device)
    for _ in range(3):
        grads = torch.autograd.grad(ours(x).square().sum(), list(ours.parameters()))
        group = optimizer(group, dict(zip(group.params, grads)))
        reference.zero_grad()
        theirs(x).square().sum().backward()
        reference.step()
    for a, b in zip(ours.parameters(), theirs.parameters()):
        close(a, b.detach().cpu().numpy())
    assert group.opt_steps["weight"].item() == 3 and list(group.params) == ["weight", "bias"]


def test_adamw_without_state_keeps_averages_in_bfloat16():
    optimizer = torch.tpu.optimizers.AdamW()
    group = optimizer.init_param_group({"w": torch.ones(3)})
    group = optimizer(group, {"w": torch.tensor([1.0, 2.0, 3.0])})
    assert group.opt_state_m["w"].dtype == group.opt_state_v["w"].dtype == torch.bfloat16
    assert torch.allclose(group.params["w"], torch.full((3,), 1 - 1e-3 - 1e-5), atol=1e-5)
    leaves, spec = torch.utils._pytree.tree_flatten(group)
    assert len(leaves) == 4 and type(torch.utils._pytree.tree_unflatten(leaves, spec)) is type(group)


# The parts of accelerate and Lightning that matter here. The libraries themselves run in `make ecosystem`.
ACCELERATE = """
import enum
import os
import torch


class DistributedType(enum.Enum):
    NO = "NO"
    MULTI_CPU = "MULTI_CPU"
    MULTI_GPU = "MULTI_GPU"
    MULTI_NEURON = "MULTI_NEURON"


class PartialState:
    def __init__(self, cpu=False, **kwargs):
        name = os.environ.get("ACCELERATE_TORCH_DEVICE")
        self.device = torch.device(name or "cpu")
        self.job = self._prepare_backend(cpu, False, kwargs.pop("backend", None))
        self.kwargs = kwargs

    def _prepare_backend(self, cpu=False, sagemaker_dp=False, backend=None):
        if cpu and "LOCAL_RANK" in os.environ:
            return "gloo", DistributedType.MULTI_CPU
        return backend, DistributedType.NO
"""
CONNECTOR = """
import torch


class Accelerator:
    pass


class SingleDeviceStrategy:
    def __init__(self, device):
        self.device = device


class MixedPrecision:
    def __init__(self, precision, device):
        self.precision, self.device = precision, device


class _Registry(dict):
    def register(self, name, accelerator, description="", override=False):
        assert override or name not in self
        self[name] = accelerator


AcceleratorRegistry = _Registry(tpu=None, cpu=Accelerator)


class _AcceleratorConnector:
    def __init__(self, accelerator, devices=1, precision=None, plugin=None, strategy="auto"):
        self._precision_flag, self._precision_plugin_flag = precision, plugin
        if accelerator == "auto":
            accelerator = self._choose_auto_accelerator()
        self._accelerator_flag = accelerator
        if strategy != "auto":
            self._strategy_flag = strategy
            self._check_strategy_and_fallback()
        self.accelerator = AcceleratorRegistry[accelerator]()
        if accelerator == "tpu":
            self._parallel_devices = self.accelerator.get_parallel_devices(self.accelerator.parse_devices(devices))
        self.strategy = self._choose_strategy()
        self.precision = self._check_and_init_precision()

    @staticmethod
    def _choose_auto_accelerator():
        return "cpu"

    def _choose_strategy(self):
        return SingleDeviceStrategy("of the library")

    def _check_strategy_and_fallback(self):
        if self._strategy_flag == "fsdp" and self._accelerator_flag != "cuda":
            raise ValueError("only on CUDA")

    def _check_and_init_precision(self):
        return self._precision_plugin_flag or MixedPrecision(self._precision_flag, "cuda")
"""


def package(folder, name, text):
    """Write a module and the packages that it is in."""
    *packages, last = name.split(".")
    for part in packages:
        folder = folder / part
        folder.mkdir(exist_ok=True)
        (folder / "__init__.py").touch()
    (folder / f"{last}.py").write_text(text)


def test_cpu_can_be_chosen_in_accelerate(tmp_path):
    package(tmp_path, "accelerate.state", ACCELERATE)
    code = (
        f"import os, sys; sys.path.insert(1, {str(tmp_path)!r})\n"
        "import inspect\n"
        "from accelerate.state import PartialState\n"
        "print(PartialState().device, PartialState(cpu=True, a=1).device, PartialState(True).kwargs, "
        "PartialState(False, a=1).kwargs)\n"
        "print(os.environ['ACCELERATE_TORCH_DEVICE'], 'class PartialState' in "
        "inspect.getsource(sys.modules['accelerate.state']))\n"
    )
    assert run("-c", code).splitlines() == ["tpu cpu {} {'a': 1}", "tpu True"]


def test_accelerate_gets_the_device_with_the_shim(tmp_path):
    package(tmp_path, "accelerate.state", ACCELERATE)
    path = os.pathsep.join([str(pathlib.Path(torch.__file__).parent.parent), torch._as_torch.SHIM, str(tmp_path)])
    env = {name: value for name, value in os.environ.items() if name != "ACCELERATE_TORCH_DEVICE"}
    code = "import torch; from accelerate.state import PartialState; print(PartialState().device)"
    command = [sys.executable, "-c", code]
    out = subprocess.run(command, env={**env, "PYTHONPATH": path}, capture_output=True, text=True, check=True).stdout
    assert out == "tpu\n"


def test_ranks_on_tpu_are_one_job_in_accelerate(tmp_path):
    package(tmp_path, "accelerate.state", ACCELERATE)
    code = (
        f"import os, sys; sys.path.insert(1, {str(tmp_path)!r})\n"
        "from accelerate.state import PartialState\n"
        "states = [PartialState()]\n"
        "os.environ.update(LOCAL_RANK='1', LOCAL_WORLD_SIZE='2')\n"
        "states += [PartialState(), PartialState(backend='gloo'), PartialState(True)]\n"
        "for state in states: print(state.device, *state.job)\n"
    )
    assert run("-c", code).splitlines() == [
        "tpu None DistributedType.NO",
        "tpu:1 cpu:gloo,tpu:xla DistributedType.MULTI_NEURON",
        "tpu:1 gloo DistributedType.MULTI_NEURON",
        "cpu gloo DistributedType.MULTI_CPU",
    ]


@pytest.mark.parametrize("root", ["lightning.pytorch", "pytorch_lightning"])
def test_lightning_finds_the_accelerator(tmp_path, root):
    package(tmp_path, f"{root}.trainer.connectors.accelerator_connector", CONNECTOR)
    code = (
        f"import sys; sys.path.insert(1, {str(tmp_path)!r})\n"
        "import importlib\n"
        f"m = importlib.import_module('{root}.trainer.connectors.accelerator_connector')\n"
        "make = m._AcceleratorConnector\n"
        "on_tpu = make('tpu', precision='16-mixed')\n"
        "print(on_tpu.strategy.device, on_tpu.precision.device, on_tpu.precision.precision, "
        "on_tpu.accelerator.name())\n"
        "on_cpu, given = make('cpu', precision='bf16-mixed'), m.MixedPrecision('bf16-mixed', 'mine')\n"
        "print(on_cpu.strategy.device, on_cpu.precision.device, make('tpu', precision='bf16-mixed', "
        "plugin=given).precision.device)\n"
        "print(*(make('tpu', devices).strategy.device for devices in (1, '1', -1, '-1', [0], '0,')))\n"
        "accelerator = on_tpu.accelerator\n"
        "print(accelerator.is_available(), accelerator.auto_device_count(), "
        "sorted(accelerator.get_device_stats('tpu:0')))\n"
        "try:\n    make('tpu', 2)\nexcept ValueError as error:\n    print(error)\n"
    )
    assert run("-c", code).splitlines() == [
        "tpu:0 tpu 16-mixed tpu", "of the library cuda mine", "tpu:0 " * 5 + "tpu:0",
        "True 1 ['allocated_bytes.all.current', 'allocated_bytes.all.peak', 'reserved_bytes.all.current']",
        "You requested tpu: [0, 1]", " But your machine only has: [0]",
        "note: if Lightning starts the processes itself, set LOCAL_WORLD_SIZE to their number",
    ]  # fmt: skip


@pytest.mark.parametrize("said, chosen", [("1", "tpu"), ("0", "cpu")])
def test_mmengine_chooses_the_current_accelerator(tmp_path, said, chosen):
    package(tmp_path, "mmengine.device.utils", "DEVICE = 'cpu'\n\ndef get_device():\n    return DEVICE\n")
    code = (
        f"import sys; sys.path.insert(1, {str(tmp_path)!r})\n"
        "from mmengine.device.utils import get_device\n"
        "print(get_device())\n"
    )
    assert run("-c", code, TORCHTPU_STANDIN_IS_ACCELERATOR=said).split() == [chosen]


@pytest.mark.parametrize("said, chosen", [("1", "tpu"), ("0", "cpu")])
def test_lightning_chooses_the_current_accelerator(tmp_path, said, chosen):
    package(tmp_path, "lightning.pytorch.trainer.connectors.accelerator_connector", CONNECTOR)
    code = (
        f"import sys; sys.path.insert(1, {str(tmp_path)!r})\n"
        "from lightning.pytorch.trainer.connectors.accelerator_connector import _AcceleratorConnector as make\n"
        "print(make('auto')._accelerator_flag)\n"
    )
    assert run("-c", code, TORCHTPU_STANDIN_IS_ACCELERATOR=said).split() == [chosen]


def test_lightning_lets_ranks_use_tpu(tmp_path):
    package(tmp_path, "lightning.pytorch.trainer.connectors.accelerator_connector", CONNECTOR)
    strategy = """
        class DDPStrategy:
            def __init__(self, device):
                self.root_device = device

            def determine_ddp_device_ids(self):
                return [self.root_device.index]
    """
    package(tmp_path, "lightning.pytorch.strategies.ddp", textwrap.dedent(strategy))
    code = (
        f"import sys; sys.path.insert(1, {str(tmp_path)!r})\n"
        "import torch\n"
        "from lightning.pytorch.strategies.ddp import DDPStrategy\n"
        "from lightning.pytorch.trainer.connectors.accelerator_connector import _AcceleratorConnector as make\n"
        "print(DDPStrategy(torch.device('tpu', 0)).determine_ddp_device_ids())\n"
        "print(DDPStrategy(torch.device('cuda', 3)).determine_ddp_device_ids())\n"
        "print(make('tpu', 2).strategy, make('tpu', 2, strategy='fsdp')._accelerator_flag)\n"
        "try:\n    make('cpu', strategy='fsdp')\nexcept ValueError as error:\n    print(error)\n"
    )
    assert run("-c", code, LOCAL_WORLD_SIZE="2").splitlines() == ["None", "[3]", "ddp tpu", "only on CUDA"]


def test_accelerate_has_no_float16_on_tpu(tmp_path):
    package(tmp_path, "accelerate.utils.imports", "def is_fp16_available():\n    return True\n")
    code = (
        f"import sys; sys.path.insert(1, {str(tmp_path)!r})\n"
        "from accelerate.utils.imports import is_fp16_available\n"
        "print(is_fp16_available())"
    )
    assert run("-c", code) == "False\n"
    assert run("-c", code, ACCELERATE_TORCH_DEVICE="cpu") == "True\n"


def test_grouped_products_are_those_of_each_group(device, close):
    def grouped(*args, **kwargs):
        return torch.nn.functional.grouped_mm(*args, **kwargs)

    # More rows than a tile, an empty group, and rows after the last group.
    ends, m, k, n = [70, 70, 250, 290], 300, 5, 6
    offs = torch.tensor(ends, dtype=torch.int32, device=device)
    parts = list(zip([0, *ends[:-1]], ends))
    a, b = torch.randn(m, k), torch.randn(4, k, n)
    want = torch.cat([a[i:j] @ b[g] for g, (i, j) in enumerate(parts)] + [torch.zeros(m - 290, n)])
    x, w = a.to(device, copy=True).requires_grad_(), b.to(device, copy=True).requires_grad_()
    y = grouped(x, w, offs=offs)
    close(y, want.numpy(), atol=1e-5)
    g = torch.randn(m, n)
    gx, gw = torch.autograd.grad(y, [x, w], g.to(device))
    close(gw, torch.stack([a[i:j].t() @ g[i:j] for i, j in parts]).numpy(), rtol=1e-4, atol=1e-4)
    close(
        gx,
        torch.cat([g[i:j] @ b[e].t() for e, (i, j) in enumerate(parts)] + [torch.zeros(m - 290, k)]).numpy(),
        atol=1e-5,
    )
    close(grouped(w.detach().transpose(1, 2), x.detach().t(), offs=offs), want.t().numpy(), atol=1e-5)
    sums = grouped(x.detach().t(), g.to(device), offs=offs, out_dtype=torch.float32)
    close(sums, gw.detach().cpu().numpy(), rtol=1e-4, atol=1e-4)
    close(grouped(w.detach(), w.detach().transpose(1, 2)), (b @ b.transpose(1, 2)).numpy(), atol=1e-5)


def test_grouped_products_refuse_with_pytorchs_messages(device):
    a, b = torch.ones(8, 8, device=device), torch.ones(3, 8, 16, device=device)
    offs = torch.tensor([2, 5, 8], dtype=torch.int32, device=device)
    for message, args, options in (
        ("Have to provide offsets if there is a 2d matrix, or no offset if both matrices are 3d", (a, b), {}),
        ("matrix batch sizes have to match", (a, b), {"offs": offs[:2]}),
        ("Offsets have to be int32", (a, b), {"offs": offs.long()}),
        ("offs has to be 1D", (a, b), {"offs": offs[None]}),
        ("contraction dimension of mat_a and mat_b must match", (a[:, :4], b), {"offs": offs}),
        ("batched dimension has to match", (b[:2].transpose(1, 2), b), {}),
        ("mat_a has to be 2 or 3d", (a[0], b), {"offs": offs}),
        ("Bias not supported yet", (a, b), {"offs": offs, "bias": a}),
        ("Grouped gemm output dtype must match `mat_a` dtype", (a, b), {"offs": offs, "out_dtype": torch.float16}),
        ("Expected mat_a to be Float32, BFloat16 or Float16 matrix, got Int", (a.int(), b.int()), {"offs": offs}),
        ("Expected mat_a and mat_b to have the same dtype, got Float and BFloat16", (a, b.bfloat16()), {"offs": offs}),
    ):
        with pytest.raises(RuntimeError) as error:
            torch.nn.functional.grouped_mm(*args, **options)
        assert str(error.value).splitlines()[0] == message
    for ends in ([2, 5, 9], [5, 2, 8], [-1, 2, 8]):
        with pytest.raises(RuntimeError, match="the ends of groups must ascend from 0 to at most 8, but one is"):
            torch._grouped_mm(a, b, torch.tensor(ends, dtype=torch.int32, device=device)).sum().item()


def ask(call, condition=lambda v: "no error"):
    """Return the condition on the result of a call, or the name of its error."""
    try:
        value = call()
    except Exception as error:
        return type(error).__name__
    return condition(value)


if __name__ == "__main__":
    answers = {name: ask(*pair) for name, pair in HOLDS.items()}
    print(json.dumps(answers | {name: ask(call) for name, (call, _) in ABSENT.items()}))
