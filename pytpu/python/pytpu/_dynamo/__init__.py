"""``torch._dynamo``: the names that scripts and libraries use. This package does not trace Python code."""

from ..compiler import (
    allow_in_graph as allow_in_graph,
    assume_constant_result as assume_constant_result,
    disable as disable,
    is_compiling as is_compiling,
    list_backends as list_backends,
    nonstrict_trace as nonstrict_trace,
    reset as reset,
    set_stance as set_stance,
)
from ..functions import _once, compile as _compile
from . import config as config, eval_frame as eval_frame, exc as exc
from .eval_frame import OptimizedModule as OptimizedModule

disallow_in_graph = allow_in_graph


def graph_break(msg=""):
    """Do nothing: the hint is for tracing, and Python code is never traced here."""


def mark_static_address(t, guard=False):
    """A hint that is not needed."""


def mark_static(t, index=None):
    """Do nothing: sizes are part of each compiled program."""


def mark_dynamic(t, index, *, hint_override=None, min=None, max=None, specialize_on=None):
    """Warn once that marks have no effect: sizes are part of each compiled program, and ``torch.tpu.explain()`` lists
    changes of sizes.
    """
    _once(
        "torch._dynamo.mark_dynamic has no effect: sizes are part of each compiled program, so each size is a program. "
        "Pad inputs to a few sizes instead. torch.tpu.explain() lists the compilations."
    )


maybe_mark_dynamic = mark_dynamic


def optimize(backend="inductor", *, nopython=False, dynamic=None, **options):
    """Return ``torch.compile`` with these arguments as a decorator."""
    return lambda model: _compile(model, fullgraph=nopython, dynamic=dynamic, backend=backend)


def is_dynamo_supported():
    """Return ``True``: ``torch.compile`` may be used."""
    return True


is_inductor_supported = is_dynamo_supported


def explain(f, *extra_args, **extra_kwargs):
    """Raise ``NotImplementedError``: no graphs are made of Python code."""
    raise NotImplementedError(
        "torch._dynamo.explain: this package makes no graphs of Python code. torch.tpu.explain() lists the compilations"
    )
