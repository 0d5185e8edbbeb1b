"""``torch.compiler``: what scripts ask of it. On ``tpu`` every op is compiled, in blocks of ``torch.compile`` and outside."""

from .functions import compile as compile

__all__ = [
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "cudagraph_mark_step_begin",
    "disable",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "list_backends",
    "nonstrict_trace",
    "reset",
    "set_stance",
]


def is_compiling():
    """Whether Python runs only to be traced: no, it always runs for its results."""
    return False


is_dynamo_compiling = is_exporting = is_compiling


def disable(fn=None, recursive=True, *, reason=None):
    """The function itself, or a decorator that gives it: what Python does is never replaced, so there is nothing to keep out."""
    return fn if fn is not None else lambda f: f


def allow_in_graph(fn):
    """The function, or list of functions, itself."""
    return fn


assume_constant_result = nonstrict_trace = allow_in_graph


def list_backends(exclude_tags=("debug", "experimental")):
    """What ``torch.compile(backend=...)`` may be told; all names mean the same here."""
    return ["inductor", "tpu"]


def reset():
    """Forgets what was compiled: nothing here depends on what is kept, see ``torch.tpu`` for limits of the caches."""


def cudagraph_mark_step_begin():
    """A hint that is not needed."""


class set_stance:
    """A setting of the compiler, in a ``with``, as a decorator or for good; it changes nothing."""

    def __init__(self, stance="default", *, skip_guard_eval_unsafe=False, force_backend=None):
        known = (
            "default",
            "eager_on_recompile",
            "fail_on_recompile",
            "force_eager",
            "aot_eager_then_compile",
            "eager_then_compile",
        )
        if stance not in known:
            raise RuntimeError(f"invalid torch.compile stance '{stance}'")

    def __call__(self, fn):
        return fn

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None
