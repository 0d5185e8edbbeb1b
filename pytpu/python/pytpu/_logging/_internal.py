"""Settings of the loggers of PyTorch's compiler, which is not here. The level of a component is set with `logging`."""

import importlib.util
import logging

_DYNAMIC = "torch.fx.experimental.symbolic_shapes"
# Names of components, and the loggers whose levels they set.
_COMPONENTS = {
    "all": ["torch"],
    "aot": ["torch._functorch"],
    "async_compile": ["torch._inductor.async_compile"],
    "autograd": ["torch.autograd"],
    "c10d": ["torch.distributed.distributed_c10d", "torch.distributed.rendezvous"],
    "cache": ["torch._inductor.remote_cache"],
    "ddp": ["torch.nn.parallel.distributed"],
    "distributed": ["torch.distributed", "torch.nn.parallel.distributed"],
    "dtensor": ["torch.distributed._tensor", "torch.distributed.tensor"],
    "dynamic": [_DYNAMIC],
    "dynamo": ["torch._dynamo", _DYNAMIC],
    "export": ["torch.export", _DYNAMIC],
    "fake_tensor": ["torch._subclasses.fake_tensor"],
    "fsdp": ["torch.distributed.fsdp"],
    "inductor": ["torch._inductor"],
    "onnx": ["torch.onnx"],
    "pp": ["torch.distributed.pipelining"],
    "torch": ["torch"],
}
_ARTIFACTS = frozenset(
    "annotation aot_graphs aot_graphs_effects aot_joint_graph auto_chunker autotuning autotuning_inputs benchmarking "
    "bytecode caching compiled_autograd compiled_autograd_verbose compute_dependencies cudagraph_static_inputs "
    "cudagraphs ddp_graphs fusion graph graph_breaks graph_code graph_code_verbose graph_region_expansion graph_sizes "
    "guards hierarchical_compile incremental inductor_metrics ir_post_fusion ir_pre_fusion kernel_code loop_ordering "
    "loop_tiling native_dsl_compile node_runtime_estimation not_implemented onnx_diagnostics output_code overlap "
    "overlap_scheduling partitioned_scatter perf_hints post_grad_graphs pre_grad_graphs recompiles recompiles_verbose "
    "schedule side_effects sym_node trace_bytecode trace_call trace_shape_events trace_source verbose_guards".split()
)


def _is_module(name):
    try:
        return importlib.util.find_spec(name) is not None
    except ImportError:
        return False


def set_logs(*, modules=None, **levels):
    """Set the levels of components. A later call begins anew: components that it does not name have no level.

    Args:
        modules: levels by the names of components or modules.
        levels: a level of `logging` for each component, such as ``dynamo=logging.DEBUG``, and a `bool` for each
            artifact, such as ``graph_code=True``. Artifacts have no effect: the compiler that would log them is not
            here.

    Raises:
        ValueError: If there is no such component or artifact, or a value is neither a level nor a `bool`.
    """
    chosen = {}
    for name, value in {**levels, **(modules or {})}.items():
        if value is None:
            continue
        if name in _ARTIFACTS:
            if type(value) is not bool:
                raise ValueError(f"Expected bool to enable artifact {name}, received {value}")
        elif name in _COMPONENTS or (name not in levels and _is_module(name)):
            if value not in logging._levelToName:
                raise ValueError(
                    f"Unrecognized log level for log {name}: {value}, valid level values are: "
                    f"{','.join(str(k) for k in logging._levelToName)}"
                )
            chosen.update(dict.fromkeys(_COMPONENTS.get(name, [name]), value))
        else:
            raise ValueError(f"Unrecognized log or artifact name passed to set_logs: {name}")
    for logger in {name for names in _COMPONENTS.values() for name in names} | set(chosen):
        logging.getLogger(logger).setLevel(chosen.get(logger, logging.NOTSET))


def getArtifactLogger(module_qname, artifact_name):
    """Return the logger of an artifact."""
    return logging.getLogger(f"{module_qname}.__{artifact_name}")


def trace_structured(name, *args, **kwargs):
    """Do nothing: no compiler of Python code writes a log."""
