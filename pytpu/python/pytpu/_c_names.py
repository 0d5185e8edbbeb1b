"""Names of `torch._C` that libraries use. They are looked up here if the extension does not have them."""

import enum
import importlib.machinery
import sys
import types

from . import _C
from ._as_torch import add_absent
from ._rare import StorageBase as StorageBase, Tag as Tag
from ._schema import Argument as Argument, FunctionSchema as FunctionSchema, parse_schema as parse_schema
from .futures import Future as Future

TensorBase = _TensorBase = _C.Tensor

_has_xpu = _has_mps = _has_kleidiai = False

has_mkl = has_mkldnn = has_openmp = has_cuda = has_mps = has_xpu = has_lapack = _has_cuda = False
_GLIBCXX_USE_CXX11_ABI = True

_DEVICES = "CPU CUDA HIP XLA MPS IPU XPU HPU VE Lazy MTIA MAIA PrivateUse1 PrivateUse2 PrivateUse3 Meta".split()
_KINDS = ("", "Quantized", "Sparse", "SparseCsr", "NestedTensor", "Autograd")
DispatchKey = enum.IntEnum(
    "DispatchKey",
    "Undefined Dense Quantized Sparse SparseCsr NestedTensor CompositeExplicitAutogradNonFunctional "
    "CompositeExplicitAutograd CompositeImplicitAutogradNestedTensor CompositeImplicitAutograd AutogradNestedTensor "
    "AutogradOther Autograd Conjugate ZeroTensor Negative BackendSelect ADInplaceOrView PythonTLSSnapshot Python "
    "FuncTorchDynamicLayerFrontMode FuncTorchDynamicLayerBackMode FuncTorchBatchedDecomposition FuncTorchBatched "
    "FuncTorchVmapMode FuncTorchGradWrapper PythonDispatcher PreDispatch Functionalize AutocastCPU AutocastMPS "
    "AutocastXPU AutocastHPU AutocastIPU AutocastCUDA AutocastPrivateUse1 AutogradFunctionality ".split()
    + [kind + device for kind in _KINDS for device in _DEVICES],
    module="torch._C",
)
DispatchKey.__doc__ = "Kinds of kernels in PyTorch's dispatcher. There is none here, but libraries name them."


class DispatchKeySet:
    """A set of `DispatchKey`."""

    def __init__(self, key=None):
        self._keys = frozenset() if key is None else frozenset([key])

    @classmethod
    def _of(cls, keys):
        new = cls()
        new._keys = frozenset(keys)
        return new

    def has(self, key):
        """Return whether a key is in the set."""
        return key in self._keys

    def add(self, key):
        """Return the set with one more key."""
        return self._of(self._keys | {key})

    def remove(self, key):
        """Return the set without a key."""
        return self._of(self._keys - {key})

    def __or__(self, other):
        return self._of(self._keys | other._keys)

    def __and__(self, other):
        return self._of(self._keys & other._keys)

    def __sub__(self, other):
        return self._of(self._keys - other._keys)

    def __eq__(self, other):
        return isinstance(other, DispatchKeySet) and self._keys == other._keys

    def __hash__(self):
        return hash(self._keys)


class _ExcludeDispatchKeyGuard:
    """A block that leaves out kernels of some kinds. It changes nothing: autocast is not a kind of kernel here."""

    def __init__(self, keys):
        self.keys = keys

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None


_IncludeDispatchKeyGuard = _ForceDispatchKeyGuard = _AutoDispatchBelowAutograd = _ExcludeDispatchKeyGuard


class DisableTorchFunctionSubclass:
    """A block in which types of arguments do not take calls over. Modes do."""

    _off = 1

    def __enter__(self):
        self._before = _C._set_torch_function_disabled(self._off)
        return self

    def __exit__(self, *error):
        _C._set_torch_function_disabled(self._before)


class DisableTorchFunction(DisableTorchFunctionSubclass):
    """A block in which neither types of arguments nor modes take calls over."""

    _off = 2


def _get_tracing_state():
    """Return `None`: nothing is traced."""
    return None


_get_dispatch_mode = _get_tracing_state


def _len_torch_dispatch_stack():
    """Return the number of modes below autograd of this thread."""
    return len(_C._torch_dispatch_modes())


def _get_dispatch_stack_at(i):
    """Return mode `i` below autograd of this thread, counted from the outermost."""
    return _C._torch_dispatch_modes()[i]


class _DisableTorchDispatch:
    """A block in which no class and no mode answers calls below autograd."""

    def __enter__(self):
        self._before = _C._set_torch_dispatch_disabled(True)
        return self

    def __exit__(self, *error):
        _C._set_torch_dispatch_disabled(self._before)


def _is_tracing():
    """Return `False`: nothing is traced."""
    return False


def _are_functorch_transforms_active():
    """Return `False`: transforms of functions are calls of Python functions here."""
    return False


_dispatch_isTensorSubclassLike = _is_functional_tensor = _is_torch_function_mode_enabled = lambda *args: False


def _get_privateuse1_backend_name():
    """Return the name of the backend that PyTorch does not have: the accelerator."""
    return "tpu"


def _get_accelerator(check_available=False):
    """Return the device of the accelerator without an index, or `cpu` without an accelerator."""
    from .accelerator import current_accelerator

    return current_accelerator(check_available) or _C.device("cpu")


def _accelerator_getMemoryInfo(device_index):
    """Return the free and the total memory of the accelerator in bytes."""
    from .tpu import mem_get_info

    return mem_get_info(device_index)


def _get_default_device():
    """Return the name of the default device."""
    return str(_C.get_default_device())


def _cuda_getDeviceCount():
    """Return 0: this build has no CUDA."""
    return 0


def _set_nothing(*args):
    """Accept a setting of TorchScript's compiler. It has no effect."""


_jit_set_profiling_executor = _jit_set_profiling_mode = _jit_override_can_fuse_on_cpu = (
    _jit_override_can_fuse_on_gpu
) = _set_nothing
_jit_set_texpr_fuser_enabled = _jit_set_nvfuser_enabled = _jit_set_bailout_depth = _jit_set_inline_everything_mode = (
    _set_nothing
)
_jit_set_num_profiled_runs = _jit_set_fusion_strategy = _debug_set_fusion_group_inlining = (
    _debug_set_autodiff_subgraph_inlining
) = _set_nothing


def _module(name, **names):
    """Make a module, which can also be imported: `_as_torch` lists its name. The table may have absent names of it."""
    module = types.ModuleType(f"torch._C.{name}")
    module.__dict__.update(names)
    full = f"{__package__}._C.{name}"
    module.__spec__ = importlib.machinery.ModuleSpec(full, None)
    sys.modules[full] = module
    add_absent(module, f"_C.{name}")
    return module


_functorch = _module(
    "_functorch",
    is_batchedtensor=lambda x: False,
    is_gradtrackingtensor=lambda x: False,
    is_functorch_wrapped_tensor=lambda x: False,
    is_legacy_batchedtensor=lambda x: False,
    is_functionaltensor=lambda x: False,
    maybe_get_bdim=lambda x: -1,
    maybe_get_level=lambda x: -1,
    maybe_current_level=lambda: None,
    peek_interpreter_stack=lambda: None,
    get_unwrapped=lambda x: x,
    is_batchedtensor_at_level=lambda x, level: False,
)
# `torch.distributed.rpc` has no references to remote values. tensordict asks with `isinstance`.
_distributed_rpc = _module("_distributed_rpc")


class _TrainingMode(enum.IntEnum):
    """Mode in which an ONNX exporter would run a model."""

    EVAL, PRESERVE, TRAINING = range(3)


class _OperatorExportTypes(enum.IntEnum):
    """Kinds of operators that an ONNX exporter would write."""

    ONNX, ONNX_ATEN, ONNX_ATEN_FALLBACK, ONNX_FALLTHROUGH = range(4)


for _enum in (_TrainingMode, _OperatorExportTypes):
    _enum.__name__ = _enum.__qualname__ = _enum.__name__[1:]
    _enum.__module__ = "torch._C._onnx"
del _enum
_onnx = _module(
    "_onnx", TrainingMode=_TrainingMode, OperatorExportTypes=_OperatorExportTypes, PRODUCER_VERSION="2.15.0"
)
_cpu = _module("_cpu", _get_cpu_capability=_C._cpu_capability if hasattr(_C, "_cpu_capability") else lambda: "DEFAULT")
# torchtitan turns off a cache of compiled functions, which `torch.compile` does not have here.
_dynamo = _module("_dynamo", eval_frame=_module("_dynamo.eval_frame", _set_lru_cache=lambda is_on: None))
