"""Export JAX functions to StableHLO text. Importing this module imports JAX."""

import contextlib

try:
    import jax
except ImportError as error:
    raise ImportError("torch.tpu.pallas exports JAX functions and needs JAX: pip install jax") from error

import jax.export
import jax.numpy as jnp
import numpy as np

import pytpu as torch
from pytpu import _C

from ._custom import filled, on_meta

# Dtypes of values that a kernel may leave to its gradient.
_DTYPES = {
    "bool",
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "complex64",
    "complex128",
}


def _stay_on_cpu():
    """Keep JAX from starting a TPU that this library uses: tracing needs none."""
    from jax._src import xla_bridge

    if not xla_bridge.backends_are_initialized() and not jax.config.jax_platforms:
        jax.config.update("jax_platforms", "cpu")


def _name(dtype):
    return str(dtype).removeprefix("torch.")


class _Chip:
    """The generation of the TPU that kernels see."""

    def __init__(self):
        self.kind, self.is_asked = None, False

    def use(self, kind):
        """Use a generation from now on."""
        from jax._src.pallas.mosaic import tpu_info

        self.is_asked = False
        tpu_info.get_tpu_info.cache_clear()
        if self.kind == kind:
            return

        def info():
            self.is_asked = True
            return tpu_info._get_tpu_info_impl(tpu_info.chip_version_from_device_kind(kind), 1)

        # Forget the traces for another generation.
        jax.clear_caches()
        tpu_info.registry["cpu"] = info
        self.kind = kind


_chip = _Chip()


@contextlib.contextmanager
def _settings(tensors, platform, chip="TPU v5 lite"):
    """Keep 64-bit types if there are any, and interpret Pallas kernels if the platform is not a TPU."""
    _stay_on_cpu()
    _chip.use(chip)
    wide = any(_name(t.dtype) in ("int64", "float64", "complex128") for t in tensors)
    with contextlib.ExitStack() as stack:
        stack.enter_context(jax.enable_x64(wide))
        if platform != "tpu":
            from jax.experimental.pallas import tpu as pltpu

            # Interpret as ordinary operations: the simulation of a TPU's memory calls back into Python.
            stack.enter_context(pltpu.force_tpu_interpret_mode(True))
        yield


def _avals(tensors):
    return [jax.ShapeDtypeStruct(tuple(t.shape), jnp.dtype(_name(t.dtype))) for t in tensors]


def _spec(value, leaves):
    """Describe a result, and collect its arrays."""
    if value is None:
        return None
    if type(value) in (list, tuple):
        return {type(value).__name__: [_spec(v, leaves) for v in value]}
    if type(value) is dict:
        return {"dict": [[k, _spec(v, leaves)] for k, v in value.items()]}
    try:
        leaves.append(jnp.asarray(value))
    except TypeError:
        raise TypeError(
            f"results must be arrays in tuples, lists and dicts, but got a {type(value).__name__}"
        ) from None
    return len(leaves) - 1


def _for_jax(value):
    """Return static arguments in JAX's form, which differs for dtypes."""
    if isinstance(value, torch.dtype):
        return jnp.dtype(_name(value))
    if type(value) in (list, tuple):
        return type(value)(_for_jax(v) for v in value)
    return {k: _for_jax(v) for k, v in value.items()} if type(value) is dict else value


class _Flat:
    """A function of the arrays of a call, which returns the arrays of its result."""

    def __init__(self, fn, args, kwargs):
        self.fn, self.args, self.kwargs = fn, _for_jax(args), _for_jax(kwargs)
        self.spec = None

    def __call__(self, *arrays):
        leaves = []
        self.spec = _spec(self.fn(*filled(self.args, arrays), **filled(self.kwargs, arrays)), leaves)
        if not leaves:
            raise TypeError("a function must return at least one array")
        return tuple(leaves)


def _text(fn, avals, platform, donated=()):
    jitted = jax.jit(fn, keep_unused=True, donate_argnums=tuple(donated))
    # Exports use only features that older compilers also have.
    every_call = [jax.export.DisabledSafetyCheck.custom_call("ALL")]
    text = jax.export.export(jitted, platforms=(platform,), disabled_checks=every_call)(*avals).mlir_module()
    return _C._without_locations(text)


def shapes(fn, args, kwargs, tensors):
    """Return the shape and the name of the dtype of each result, and the form of the result."""
    flat = _Flat(fn, args, kwargs)
    with _settings(tensors, "cpu"):
        found = jax.eval_shape(flat, *_avals(tensors))
    return [(list(y.shape), str(y.dtype)) for y in found], flat.spec


def exported(fn, args, kwargs, tensors, platform, donated=(), grad=None, chip="TPU v5 lite"):
    """Export a function for one platform.

    Args:
        fn (callable): the function.
        args, kwargs: the arguments of a call, with places where tensors are.
        tensors (list of Tensor): those tensors; only their shapes and dtypes matter.
        platform (str): the platform.
        donated (list of int): the tensors that are given away.
        grad (str or None): `"vjp"`, `"recompute"`, or `None` for no gradient.
        chip (str): the generation of the TPU, for functions that ask for it.

    Returns:
        A dictionary of texts, numbers and lists, as it is kept on disk.
    """
    flat, avals = _Flat(fn, args, kwargs), _avals(tensors)
    with _settings(tensors, platform, chip):
        made = None
        if grad is None:
            text = _text(flat, avals, platform, donated)
            made = {"text": text, "form": flat.spec}
        elif grad == "vjp":
            try:
                made = _with_residuals(flat, avals, platform)
            except Exception:
                # A residual of forward may be an array that cannot leave a program, such as the state of a generator.
                made = None
        made = _recompute(flat, avals, platform) if made is None else made
        return made | {"chip": chip} if _chip.is_asked else made


def _is_inexact(x):
    return jnp.issubdtype(x.dtype, jnp.inexact)


def _conjugate(x):
    # The gradient of a complex number is the conjugate of JAX's.
    return jnp.conj(x) if jnp.issubdtype(x.dtype, jnp.complexfloating) else x


def _merge(arrays, at, parts):
    whole = list(arrays)
    for i, part in zip(at, parts):
        whole[i] = part
    return whole


def _cotangents(outs, given):
    """Return a cotangent for each result. Results that are floating-point numbers get the given ones."""
    rest = iter(given)
    return tuple(_conjugate(next(rest)) if _is_inexact(y) else np.zeros(y.shape, jax.dtypes.float0) for y in outs)


def _results(count, at):
    """Return the number of the gradient's result for each input."""
    return [at.index(i) if i in at else None for i in range(count)]


def _with_residuals(flat, avals, platform):
    """Split the function and its gradient.

    Forward returns the values that backward needs in addition to inputs and outputs.
    """
    at = [i for i, x in enumerate(avals) if _is_inexact(x)]
    traced = {}

    def forward(*arrays):
        outs, pull = jax.vjp(lambda *parts: flat(*_merge(arrays, at, parts)), *(arrays[i] for i in at))
        leaves, tree = jax.tree.flatten(pull)
        inputs = {id(x): i for i, x in enumerate(arrays)}
        outputs = {id(y): i for i, y in enumerate(outs)}
        residuals, sources = [], []
        for leaf in leaves:
            if not isinstance(leaf, jax.core.Tracer):
                sources.append(("constant", leaf))
            elif id(leaf) in inputs:
                sources.append(("input", inputs[id(leaf)]))
            else:
                if id(leaf) not in outputs:
                    outputs[id(leaf)] = len(outs) + len(residuals)
                    residuals.append(leaf)
                sources.append(("output", outputs[id(leaf)]))
        everything = (*outs, *residuals)
        traced.update(
            sources=sources,
            tree=tree,
            visible=len(outs),
            outs=[jax.ShapeDtypeStruct(y.shape, y.dtype) for y in everything],
        )
        return everything

    text = _text(forward, avals, platform)
    outs, visible = traced["outs"], traced["visible"]
    if not at or any(str(y.dtype) not in _DTYPES for y in outs):
        return None
    saved = list(dict.fromkeys(s for s in traced["sources"] if s[0] != "constant"))
    cotangents = [i for i in range(visible) if _is_inexact(outs[i])]

    def backward(*arrays):
        kept = dict(zip(saved, arrays))
        leaves = [leaf if kind == "constant" else kept[kind, leaf] for kind, leaf in traced["sources"]]
        pull = jax.tree.unflatten(traced["tree"], leaves)
        return tuple(_conjugate(g) for g in pull(_cotangents(outs[:visible], arrays[len(saved) :])))

    of = {"input": avals, "output": outs}
    given = [of[kind][i] for kind, i in saved] + [outs[i] for i in cotangents]
    return {
        "text": text,
        "form": flat.spec,
        "visible": visible,
        "backward": _text(backward, given, platform),
        "inputs": [list(s) for s in saved] + [["cotangent", i] for i in cotangents],
        "results": _results(len(avals), at),
    }


def _recompute(flat, avals, platform):
    """Export the function, and a gradient that computes the function again."""
    at = [i for i, x in enumerate(avals) if _is_inexact(x)]
    outs = jax.eval_shape(flat, *avals)
    cotangents = [i for i, y in enumerate(outs) if _is_inexact(y)]

    def backward(*arrays):
        inputs, given = arrays[: len(avals)], arrays[len(avals) :]
        _, pull = jax.vjp(lambda *parts: flat(*_merge(inputs, at, parts)), *(inputs[i] for i in at))
        return tuple(_conjugate(g) for g in pull(_cotangents(outs, given)))

    text = _text(flat, avals, platform)
    made = {"text": text, "form": flat.spec}
    if not at or not cotangents:
        return made
    return made | {
        "visible": len(outs),
        "backward": _text(backward, [*avals, *(outs[i] for i in cotangents)], platform),
        "inputs": [["input", i] for i in range(len(avals))] + [["cotangent", i] for i in cotangents],
        "results": _results(len(avals), at),
    }


def mapped(fn, in_dims, out_dims):
    """Return the function mapped over a dimension of its arguments."""
    return jax.vmap(fn, in_axes=in_dims, out_axes=out_dims)


class OnCpu:
    """Return a function that runs a JAX function on the processor, by DLPack, for calls with arguments like these."""

    def __init__(self, fn, args, kwargs, tensors):
        self._flat, self._tensors = _Flat(fn, args, kwargs), on_meta(tensors)
        self._jitted = jax.jit(self._flat)

    def __call__(self, tensors):
        """Return the tensors of the result, and its form."""
        with _settings(self._tensors, "cpu"):
            found = self._jitted(*(jnp.from_dlpack(t.detach().contiguous()) for t in tensors))
        return [torch.from_dlpack(y) for y in found], self._flat.spec
