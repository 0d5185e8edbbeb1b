"""Names of PyTorch that are not there, and the sentence that reading one raises: what to use, and where to read.

`_as_torch` asks here when a module has no attribute, and when a module cannot be imported. `absent_names.txt` lists the
public names that PyTorch has and this package lacks; `tests/python/goldens/record_absent_names.py` writes it.
"""

import re
from opcode import opmap
from pathlib import Path

_IMPORT_FROM = opmap["IMPORT_FROM"]

# A pattern of full names without "torch.", what is missing, what to use, and the section of docs/not-there.md.
_FAMILIES = [
    (
        r"distributed\.(_)?tensor\._(ops|op_schema|sharding_prop|dispatch|shards_wrapper)(\..*)?",
        "placements of results follow from the axes of ops here, and there is no table of sharding rules. Use "
        "DTensor.redistribute, or torch.distributed.tensor.experimental.local_map for a function of your own",
        "sharding-rules",
    ),
    (
        r"distributed\._tools(\..*)?",
        "costs of a step are estimated by torch.tpu.plan and python -m pytpu.advise, and MemTracker counts memory",
        "estimators-of-training",
    ),
    (
        r"vmap|func\.(vmap|functionalize|debug_unwrap|rearrange)|_vmap_internals.*|library\.register_vmap",
        "functions are not mapped over a dimension here. Write the function for a batch, or stack the results of a "
        "loop",
        "vmap",
    ),
    (
        r"autograd\.forward_ad\..*",
        "dual tensors are not there. Use torch.func.jvp or torch.func.jacfwd",
        "forward-mode",
    ),
    (
        r"onnx(\..*)?",
        "this part of torch.onnx is not there. torch.onnx.export writes models",
        "export-and-torchscript",
    ),
    (
        r"fx\..*",
        "this part of torch.fx needs sizes that are symbols, or type checkers. torch.fx.symbolic_trace and "
        "torch.fx.experimental.proxy_tensor.make_fx make graphs, and ShapeProp notes the sizes of their values",
        "graphs-of-operators",
    ),
    (
        r"(export|_export|package|utils\.mobile_optimizer)(\..*)?|while_loop",
        "this part of torch.export is not there. torch.export.export, save and load have programs in PyTorch's files",
        "export-and-torchscript",
    ),
    (
        r"jit\..*|\w*(Script|Type)\w*|import_ir_module\w*|parse_(ir|type_comment)|utils\.jit(\..*)?|"
        r"CompilationUnit|Code|Graph|Node|Value|Use|Block|ArgumentSpec|CallStack|Capsule|FileCheck|AliasDb|"
        r"ConcreteModuleTypeBuilder|ErrorReport|ExecutionPlan|Gradient|GraphExecutorState|IODescriptor|JITException|"
        r"LiteScriptModule|StaticModule|TracingState|merge_type_from_type_comment|unify_type_list",
        "TorchScript has no compiler here: torch.jit.script gives functions and modules back, and they run as Python. "
        "torch.jit.trace, save and load have archives of operators",
        "export-and-torchscript",
    ),
    (
        r"sparse\..*|sparse_\w+|(Tensor\.)?(to_sparse\w*|\w*(crow|ccol|col|row)_indices\w*|sparse_\w+|sspaddmm|smm|spmm|"
        r"saddmm|dsmm|hspmm|hsmm|resize_as_sparse_|indices_copy|values_copy)|cuda\.sparse(\..*)?",
        "sparse tensors are not there. Use dense tensors; index_add_, scatter_add_ and embedding_bag sum over indices",
        "sparse-tensors",
    ),
    (
        r"nested(\..*)?|Tensor\.to_padded_tensor",
        "nested tensors are not there. Pad the sequences and pass a mask, or use "
        "torch.nn.utils.rnn.pack_padded_sequence",
        "nested-tensors",
    ),
    (
        r"(ao|quantization)(\..*)?|nn\.(quantized|quantizable|qat|intrinsic)(\..*)?|backends\.quantized(\..*)?|"
        r"Q(U)?Int\w*Storage|(Tensor\.)?(\w*quantize\w*|int_repr|q_\w+|qscheme)|per_(tensor|channel)_\w+|"
        r"choose_qparams_optimized|fused_moving_avg_obs_fake_quant|bits\w*|bit",
        "tensors and models are not quantized here. Convert weights with model.to(torch.bfloat16)",
        "quantized-tensors",
    ),
    (
        r"hub\..*",
        "no code of repositories is downloaded. Clone the repository, and use torch.hub.load with source='local'; "
        "torch.hub.load_state_dict_from_url downloads weights",
        "models-from-repositories",
    ),
    (
        r"utils\.(cpp_extension|hipify|file_baton)(\..*)?|utils\.cmake_prefix_path",
        "C++ extensions need the libraries of PyTorch. Write the kernel in Python, JAX, Pallas or StableHLO",
        "compiled-extensions",
    ),
    (
        r"(cuda|mps|xpu|mtia|backends\.\w+)(\..*)?|(cudnn|miopen|mkldnn|fbgemm)_\w+|Tensor\.(ipu|xpu|mtia|to_mkldnn)|"
        r"is_vulkan_available|\w*autocast_(ipu|xla|gpu)_\w+|nn\.parallel\.comm|utils\.mkldnn(\..*)?",
        "this accelerator is not there. Use torch.tpu or torch.accelerator",
        "other-accelerators",
    ),
]
_FAMILIES = [(re.compile(pattern), text, section) for pattern, text, section in _FAMILIES]
_OTHER = "PyTorch has this name, and this package does not. docs/ops.md lists the functions that are there"

# Names that libraries import at their head, and seldom call. `from torch.func import vmap` gives a function whose call
# raises an error.
_QUANTIZATION = (
    "convert default_qconfig fuse_modules fuse_modules_qat get_default_qat_qconfig get_default_qconfig "
    "get_default_qconfig_mapping prepare prepare_qat quantize quantize_dynamic quantize_qat swap_module"
)
IMPORTABLE = {
    "ao.quantization": _QUANTIZATION,
    "quantization": _QUANTIZATION,
    "func": "vmap",
}


# Modules that PyTorch keeps for itself, and that libraries import nevertheless. They are not listed as public names.
_PRIVATE = re.compile(
    r"distributed\.tensor\._(ops|op_schema|sharding_prop|dispatch|shards_wrapper)(\.\w+)*|"
    r"distributed\._tools\.\w+(\.\w+)*"
)


class AbsentNameError(AttributeError, NotImplementedError):
    """The error of reading a name that PyTorch has and this package lacks."""


def _listed():
    """Return the public names that are absent, by module. An absent module has no names."""
    global _names
    if _names is None:
        _names = {}
        for line in Path(__file__).with_name("absent_names.txt").read_text().splitlines():
            module, _, names = line.partition(":")
            _names[module] = set(names.split())
    return _names


_names = None


def sentence(full):
    """Return the sentence about a full name without "torch.", or `None` for a name that PyTorch lacks too."""
    module, _, last = full.rpartition(".")
    listed = _listed()
    if full not in listed and last not in listed.get(module, ()) and last not in IMPORTABLE.get(module, "").split():
        # Names within an absent module, and private ones of a family.
        is_within = any(full.startswith(name + ".") for name, names in listed.items() if not names)
        if not is_within and not _PRIVATE.fullmatch(full):
            return None
    for pattern, text, section in _FAMILIES:
        if pattern.fullmatch(full):
            return f"{text}. See docs/not-there.md#{section}"
    return f"{_OTHER}. See docs/not-there.md#all-other-names"


def _is_import(frame):
    code = frame.f_code.co_code
    return frame.f_lasti >= 0 and code[frame.f_lasti] == _IMPORT_FROM


def missing(said, module, name, frame):
    """Return the error of reading an attribute that a module of this package lacks, or the value for an import of it.

    Args:
        said: the name of the module, for the text.
        module: its name without the package, such as "nn.functional", or "" for the package itself.
        name: the attribute.
        frame: the frame that reads it. An import statement gets an `ImportError`, or the function of `IMPORTABLE`.
    """
    text = None if name[:1] == "_" else sentence(f"{module}.{name}" if module else name)
    if text is None:
        return AttributeError(f"module '{said}' has no attribute '{name}'")
    if _is_import(frame):
        if name in IMPORTABLE.get(module, "").split():
            from ._absent import absent_function

            return absent_function(f"{said}.{name}", text)
        return ImportError(f"cannot import name '{name}' from '{said}': {text}", name=said)
    return AbsentNameError(f"module '{said}' has no attribute '{name}': {text}")


def missing_module(full):
    """Return the error of importing a module that PyTorch has and this package lacks, or `None` for any other module.

    Args:
        full: its name without "torch.".
    """
    text = sentence(full)
    return text and ModuleNotFoundError(f"No module named 'torch.{full}': {text}", name=f"torch.{full}")
