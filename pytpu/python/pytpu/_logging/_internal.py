"""Settings of loggers: levels of components, and artifacts such as the code of graphs.

The environment variable `TORCH_LOGS` sets them where PyTorch is imported: `TORCH_LOGS=graph_code,+dynamo`.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import re
import sys

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


#: What artifacts hold that are written here. The others belong to parts of PyTorch's compiler that are not here.
_DESCRIPTIONS = {
    "aot_graphs": "The graphs of operators of forward and backward that a backend made.",
    "graph": "A table of the graph that a backend gets.",
    "graph_breaks": "Why the graph of a compiled function ended before the function, with the line.",
    "graph_code": "The code of the graph that a backend gets.",
    "recompiles": "Why a backend got another graph of a compiled function.",
}
_enabled: set[str] = set()
_handlers: dict[str, list[logging.Handler]] = {}


def _is_module(name):
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def is_artifact_on(name):
    """Return whether an artifact is written."""
    return name in _enabled


class _Format(logging.Formatter):
    """Lines with the place in the program, as PyTorch writes them."""

    def format(self, record):
        form = os.environ.get("TORCH_LOGS_FORMAT")
        if form:
            return logging.Formatter(form).format(record)
        artifact = record.name.rpartition(".__")[2] if ".__" in record.name else ""
        head = f"{record.levelname[0]}{self.formatTime(record, '%m%d %H:%M:%S')}.{int(record.msecs * 1000):06d}"
        head += f" {record.process} {record.module}.py:{record.lineno}]" + (f" [__{artifact}]" if artifact else "")
        return "\n".join(f"{head} {line}" for line in record.getMessage().split("\n"))


class _Errors(logging.StreamHandler):
    """Writes to `sys.stderr` as it is at the time."""

    def __init__(self):
        logging.Handler.__init__(self)

    @property
    def stream(self):
        return sys.stderr


def _handle(logger):
    """Write what a logger gets to the standard error output, and to the file `TORCH_LOGS_OUT`."""
    if logger.name in _handlers:
        return
    handlers: list[logging.Handler] = [_Errors()]
    path = os.environ.get("TORCH_LOGS_OUT")
    if path:
        handlers.append(logging.FileHandler(path))
    for handler in handlers:
        handler.setFormatter(_Format())
        logger.addHandler(handler)
    _handlers[logger.name] = handlers


def _set_artifact(logger):
    is_on = logger.name.rpartition(".__")[2] in _enabled
    logger.setLevel(logging.DEBUG if is_on else logging.CRITICAL + 1)
    if is_on:
        _handle(logger)
        logger.propagate = not logger.parent or not _is_handled(logger.parent)


def _is_handled(logger):
    while logger is not None:
        if logger.name in _handlers:
            return True
        logger = logger.parent
    return False


def _apply(chosen, artifacts):
    """Set the levels of components by logger, and the artifacts that are written."""
    for name, handlers in _handlers.items():
        for handler in handlers:
            logging.getLogger(name).removeHandler(handler)
    _handlers.clear()
    for logger in {name for names in _COMPONENTS.values() for name in names} | set(chosen):
        logging.getLogger(logger).setLevel(chosen.get(logger, logging.NOTSET))
    _enabled.clear()
    _enabled.update(artifacts)
    for logger in sorted(chosen):
        if not _is_handled(logging.getLogger(logger)):
            _handle(logging.getLogger(logger))
    for name in list(logging.Logger.manager.loggerDict):
        if name.startswith("torch") and ".__" in name:
            _set_artifact(logging.getLogger(name))


def help_message(verbose=False):
    """Return the text of `TORCH_LOGS=help`. With `verbose` it lists all artifacts."""
    shown = sorted(_ARTIFACTS) if verbose else sorted(_DESCRIPTIONS)
    rows = [*sorted(_COMPONENTS), *(f"{name:30}\t{_DESCRIPTIONS.get(name, '')}".rstrip() for name in shown)]
    heading = "All registered names" if verbose else "Visible registered names (use TORCH_LOGS='+help' for full list)"
    return f"""
TORCH_LOGS Info

The value is a list with commas. A name is written at level INFO, +name at DEBUG, and -name at ERROR.
The name of an artifact, such as a graph, switches it on.

Examples:
  TORCH_LOGS="+dynamo,aot"
  TORCH_LOGS="-dynamo,graph_code"
  TORCH_LOGS="torch.optim"

TORCH_LOGS_FORMAT is a format of Python's logging, such as "%(levelname)s: %(message)s".
TORCH_LOGS_OUT is the path of a file that gets the lines too.


{heading}
  {(chr(10) + "  ").join(rows)}
"""


def _invalid(settings):
    valid = ", ".join(sorted([*_COMPONENTS, *_ARTIFACTS]))
    return f"""
Invalid log settings: {settings}, must be a comma separated list of fully
qualified module names, registered log names or registered artifact names.
For more info on various settings, try TORCH_LOGS="help"
Valid settings:
{valid}
"""


def init_logs():
    """Set levels and artifacts as the environment variable `TORCH_LOGS` says.

    Raises:
        ValueError: If it has another form, or asks for help.
    """
    settings = os.environ.get("TORCH_LOGS", "")
    if not settings:
        return
    if settings in ("help", "+help"):
        raise ValueError(help_message(settings == "+help"))
    if not re.fullmatch(r"\s*[+-]?[\w.]+\s*(,\s*[+-]?[\w.]+\s*)*", settings):
        raise ValueError(_invalid(settings))
    chosen, artifacts = {}, set()
    for item in re.sub(r"\s+", "", settings).split(","):
        name = item.lstrip("+-")
        level = {"+": logging.DEBUG, "-": logging.ERROR}.get(item[0], logging.INFO)
        if name in _COMPONENTS:
            chosen.update(dict.fromkeys(_COMPONENTS[name], level))
        elif name in _ARTIFACTS:
            artifacts.add(name)
        elif _is_module(name):
            chosen[name] = level
        else:
            raise ValueError(_invalid(settings))
    _apply(chosen, artifacts)


def set_logs(*, modules=None, **levels):
    """Set the levels of components. A later call begins anew: components that it does not name have no level.

    Args:
        modules: levels by the names of components or modules.
        levels: a level of `logging` for each component, such as `dynamo=logging.DEBUG`, and a `bool` for each
            artifact, such as `graph_code=True`.

    Raises:
        ValueError: If there is no such component or artifact, or a value is neither a level nor a `bool`.
    """
    if "TORCH_LOGS" in os.environ:
        logging.getLogger("torch._logging").warning(
            "Using TORCH_LOGS environment variable for log settings, ignoring call to set_logs"
        )
        return
    chosen, artifacts = {}, set()
    for name, value in {**levels, **(modules or {})}.items():
        if value is None:
            continue
        if name in _ARTIFACTS:
            if type(value) is not bool:
                raise ValueError(f"Expected bool to enable artifact {name}, received {value}")
            if value:
                artifacts.add(name)
        elif name in _COMPONENTS or (name not in levels and _is_module(name)):
            if value not in logging._levelToName:
                raise ValueError(
                    f"Unrecognized log level for log {name}: {value}, valid level values are: "
                    f"{','.join(str(k) for k in logging._levelToName)}"
                )
            chosen.update(dict.fromkeys(_COMPONENTS.get(name, [name]), value))
        else:
            raise ValueError(f"Unrecognized log or artifact name passed to set_logs: {name}")
    _apply(chosen, artifacts)


def getArtifactLogger(module_qname, artifact_name):
    """Return the logger of an artifact."""
    logger = logging.getLogger(f"{module_qname}.__{artifact_name}")
    _set_artifact(logger)
    return logger


def trace_structured(name, *args, **kwargs):
    """Do nothing: no compiler of Python code writes a log."""
