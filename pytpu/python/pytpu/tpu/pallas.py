"""`torch.tpu.pallas`: operators of JAX and Pallas functions, and of Mosaic kernels. See `docs/custom-kernels.md`."""

from __future__ import annotations

import functools
import inspect
import re

import pytpu as torch
from pytpu import _C

from . import _artefact, _identity
from ._custom import BodyOp, CustomOp, check_name, filled, on_meta, place_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence
    from typing import Any


__all__ = ["custom_jax_kernel", "jax_op", "load", "mosaic_op"]


class _FormOp(CustomOp):
    """An operator whose kernels are exports: dicts with the texts of a function and its gradient."""

    def _made(self, export, count, donated):
        """Return the kernel of an export, and the way to call it."""
        kernel = _C._CustomKernel(self._name, export["text"], self._place)
        if "backward" in export:
            gradient = _C._CustomKernel(self._name, export["backward"], self._place)
            kernel = kernel.with_gradient(
                export["text"],
                self._place,
                export["visible"],
                gradient,
                [tuple(i) for i in export["inputs"]],
                export["results"],
            )
        return kernel, list(range(count)), _form(export["form"]), donated


def _form(spec):
    """Return the form of the results: "one", "tuple", "list", or a function of their tuple."""
    if spec == 0:
        return "one"
    for kind in ("tuple", "list"):
        if isinstance(spec, dict) and spec.get(kind) == list(range(len(spec.get(kind, ())))):
            return kind
    return functools.partial(_build, spec)


def _build(spec, tensors):
    if spec is None:
        return None
    if isinstance(spec, int):
        return tensors[spec]
    ((kind, items),) = spec.items()
    if kind == "dict":
        return {k: _build(v, tensors) for k, v in items}
    made = [_build(v, tensors) for v in items]
    return made if kind == "list" else tuple(made)


def _leaves(value):
    """Return the positions of tensors in an argument."""
    if isinstance(value, _C._Place):
        return [value.index]
    if type(value) in (list, tuple):
        return [i for v in value for i in _leaves(v)]
    return [i for v in value.values() for i in _leaves(v)] if type(value) is dict else []


def _chip(platform):
    """Return the generation of the TPU that is here or planned, or any generation without one."""
    try:
        name = torch.tpu.get_device_name() if platform == "tpu" else ""
    except RuntimeError:
        name = ""
    found = re.match(r"(TPU[^(,]*) \(", name)
    return found[1] if found else "TPU v5 lite"


class _Taken(_C._CustomCall):
    """Flatten the arguments of a call."""

    def _resolve(self, args, kwargs, tensors, needs_grad):
        self.call = args, kwargs, tensors
        return lambda *args, **kwargs: None


class JaxOp(_FormOp):
    """An operator that is a JAX function. `jax_op` makes it."""

    def __init__(
        self,
        name: str,
        fn: Callable[..., Any] | str,
        donate_argnums: int | Sequence[int] = (),
        grad: str | None = "vjp",
        vmap: bool = True,
        cpu: str | Callable[..., Any] = "interpret",
    ) -> None:
        if grad not in ("vjp", "recompute", None):
            raise ValueError(f"{name}: expected `grad` to be 'vjp', 'recompute' or None, but got {grad!r}")
        if cpu not in ("interpret", "jax") and not callable(cpu):
            raise ValueError(f"{name}: expected `cpu` to be 'interpret', 'jax' or a callable, but got {cpu!r}")
        donate_argnums = (donate_argnums,) if isinstance(donate_argnums, int) else tuple(donate_argnums)
        super().__init__(name, None if isinstance(fn, str) else fn, cpu if callable(cpu) else None)
        self._fn, self._donate_argnums, self._grad, self._mode = fn, donate_argnums, grad, cpu
        self._place = fn if isinstance(fn, str) else place_of(fn)
        self._may_map = vmap
        self._cpu_has_gradient = callable(cpu) and grad is not None
        self._mapped: tuple[Any, ...] = ()
        self._exports: dict[Any, Any] = {}
        self._maps: dict[str, JaxOp] = {}
        self._asks_for_chip = False

    def _function(self):
        """Return the JAX function."""
        fn = self._fn
        if isinstance(fn, str):
            import importlib

            module, _, path = fn.partition(":")
            fn = functools.reduce(getattr, path.split("."), importlib.import_module(module))
        for dims in self._mapped:
            from . import _jax_export

            fn = _jax_export.mapped(fn, *dims)
        return fn

    def vmap(self, in_dims: int | tuple[int | None, ...] | None = 0, out_dims: int | tuple[int, ...] = 0) -> JaxOp:
        """Return the operator mapped over a dimension of its arguments, as `jax.vmap` maps the function.

        Args:
            in_dims: Dimension of each positional argument, or one for all. `None` for an argument that is not mapped.
            out_dims: Position of the dimension in the results.

        Raises:
            NotImplementedError: If the operator was made with `vmap=False`.
        """
        if not self._may_map:
            raise NotImplementedError(f"{self._name}: this operator was made with vmap=False")
        key = repr((in_dims, out_dims))
        if key in self._maps:
            return self._maps[key]
        name = f"{self._name}_vmap"
        made = self._maps[key] = JaxOp(
            name, self._fn, self._donate_argnums, self._grad, True, "interpret" if callable(self._mode) else self._mode
        )
        made._mapped = (*self._mapped, (in_dims, out_dims))
        return made

    def _serve(self, args, kwargs, tensors, platform, needs_grad):
        if platform == "cpu" and self._cpu is not None:
            return self._run_on_cpu
        grad = self._grad if needs_grad and self._backward is None else None
        if platform is None and not needs_grad:
            return self._fake(args, kwargs, tensors)
        if self._mode == "jax" and all(t.device.type == "cpu" for t in tensors) and not needs_grad:
            return self._run_by_jax(args, kwargs, tensors)
        donated = [] if needs_grad else [i for n in self._donate_argnums if n < len(args) for i in _leaves(args[n])]
        export = self._export(args, kwargs, tensors, platform or "tpu", donated, grad)
        if "why" in export:
            return self._differentiable(self._made(export, len(tensors), donated), export["why"])
        return self._made(export, len(tensors), donated)

    def _export(self, args, kwargs, tensors, platform, donated, grad):
        """Return the export for such a call, from disk if it is there."""
        made = _identity.of_call(self._name, self._fn, self._mapped, args, kwargs, tensors, platform, donated, grad)
        chip = _chip(platform)
        export = self._exports.get(made)
        if export is None:
            found = made and _C._custom_load(made)
            export = _artefact.parsed(bytes(found)) if found else None
        if export is not None and export.get("chip", chip) != chip:
            # It was made for another generation of TPUs, and depends on the generation.
            export = None
        if export is None:
            from . import _jax_export

            fn, metas = self._function(), on_meta(tensors)
            try:
                export = _jax_export.exported(fn, args, kwargs, metas, platform, donated, grad, chip)
            except Exception as error:
                if hasattr(error, "add_note"):
                    error.add_note(f"while exporting the operator {self._name}, defined at {self._place}")
                if grad is None:
                    raise
                # The function may work all the same: JAX differentiates a Pallas kernel only by an explicit rule.
                try:
                    export = _jax_export.exported(fn, args, kwargs, metas, platform, donated, chip=chip) | {
                        "why": str(error)
                    }
                except Exception:
                    raise error from None
            # JAX may know parts of the function from an earlier export, and not run them again.
            self._asks_for_chip |= "chip" in export
            if self._asks_for_chip:
                export["chip"] = chip
            if made:
                _C._custom_store(made, _artefact.written(export))
        if made:
            self._exports[made] = export
        return export

    def _fake(self, args, kwargs, tensors):
        from . import _jax_export

        shapes, spec = _jax_export.shapes(self._function(), args, kwargs, on_meta(tensors))
        form = _form(spec)

        def fake(*args, **kwargs):
            made = [torch.empty(shape, dtype=getattr(torch, dtype), device="meta") for shape, dtype in shapes]
            return _arrange(form, made)

        return fake

    def _run_by_jax(self, args, kwargs, tensors):
        from . import _jax_export

        on_cpu = _jax_export.OnCpu(self._function(), args, kwargs, tensors)

        def run(*args, **kwargs):
            found, spec = on_cpu(
                [t for t in torch.utils._pytree.tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
            )
            return _arrange(_form(spec), found)

        return run

    def save(self, file: str | os.PathLike[str], *args: Any, **kwargs: Any) -> None:
        """Write the operator, for arguments like these, to a file that `load` reads without JAX.

        The file has the programs for TPUs and for XLA:CPU, with the gradient.

        Args:
            file: Name of the file.
            args: Arguments of a call. The values of tensors do not matter.
            kwargs: Arguments by name.
        """
        taken = _Taken()
        taken(*args, **kwargs)
        marked_args, marked_kwargs, tensors = taken.call
        exports = {}
        for platform in ("tpu", "cpu"):
            exports[platform] = {"plain": self._export(marked_args, marked_kwargs, tensors, platform, [], None)}
            if self._grad is not None:
                exports[platform]["grad"] = self._export(marked_args, marked_kwargs, tensors, platform, [], self._grad)
        described = [[list(t.shape), str(t.dtype).removeprefix("torch.")] for t in tensors]
        _artefact.save(
            file,
            {
                "name": self._name,
                "args": described,
                "call": _artefact.call(marked_args, marked_kwargs),
                "exports": exports,
            },
        )


def _arrange(form, tensors):
    tensors = tuple(tensors)
    if form == "one":
        return tensors[0]
    return tensors if form == "tuple" else list(tensors) if form == "list" else form(tensors)


def _check_annotations(fn):
    """Raise an error for parameters without annotations, as `torch.library.infer_schema` does.

    Raises:
        ValueError: a parameter has none, or is one that operators cannot have.
    """
    signature = inspect.signature(fn)

    def refuse(what):
        raise ValueError(f"infer_schema(func): {what} Got func with signature {signature})")

    for name, p in signature.parameters.items():
        if p.kind not in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY):
            refuse("We do not support positional-only args, varargs, or varkwargs.")
        if p.annotation is p.empty:
            refuse(f"Parameter {name} must have a type annotation.")


def jax_op(
    name: str,
    fn: Callable[..., Any] | str | None = None,
    /,
    *,
    donate_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    grad: str | None = "vjp",
    vmap: bool = True,
    cpu: str | Callable[..., Any] = "interpret",
    mesh: None = None,
    input_partition_specs: None = None,
    output_partition_specs: None = None,
) -> Any:
    """Make an operator of a JAX function, which may call Pallas kernels. Without a function, return a decorator.

    The function is exported once for each set of shapes, dtypes and static arguments, and becomes part of the program
    around the call. The function gets tensors, also in lists, tuples and dicts, as arrays. All other arguments are
    static.

    Args:
        name: `"namespace::name"`. The operator is also `torch.ops.namespace.name`.
        fn: Function with annotated parameters. Or `"module:function"`, which is imported only to be exported.
        donate_argnums: Positional arguments whose memory may become that of results. They hold no data after the call.
        static_argnames: Parameters that are never tensors. The names are checked, and have no other effect.
        grad: With `"vjp"`, forward keeps what backward needs. With `"recompute"`, backward computes the function again.
            With `None`, the operator has no gradient until `register_autograd` sets one.
        vmap: Whether `op.vmap` may map the function.
        cpu: How to run on device `cpu` and on XLA:CPU. `"interpret"` makes a program that interprets Pallas kernels.
            `"jax"` calls JAX on device `cpu`, and interprets on XLA:CPU and with gradients. A function of tensors is
            called instead.
        mesh: Must be `None`: programs run on one device.
        input_partition_specs: Must be `None`.
        output_partition_specs: Must be `None`.

    Returns:
        The operator, a `JaxOp`, or a decorator that makes it.

    Raises:
        ValueError: If the name does not have this form, or a parameter has no annotation.
        NotImplementedError: If a mesh or partition specs are given.
        ImportError: In a call with a new set of shapes: if JAX is not installed.

    Example::

        @torch.tpu.pallas.jax_op("mine::scaled")
        def scaled(x: torch.Tensor, factor: float):
            return x * factor

        scaled(torch.ones(4, device="tpu"), 2.0)
    """
    check_name(name)
    if mesh is not None or input_partition_specs is not None or output_partition_specs is not None:
        raise NotImplementedError(f"{name}: meshes and partition specs are not supported: programs run on one device")
    names = (static_argnames,) if isinstance(static_argnames, str) else tuple(static_argnames)

    def make(fn):
        if not isinstance(fn, str):
            _check_annotations(fn)
            unknown = set(names) - set(inspect.signature(fn).parameters)
            if unknown:
                raise ValueError(
                    f"{name}: static_argnames names {sorted(unknown)}, which are not parameters of the function"
                )
        return JaxOp(name, fn, donate_argnums, grad, vmap, cpu)

    return make if fn is None else make(fn)


def custom_jax_kernel(
    jax_fn: Callable[..., Any] | None = None,
    name: str | None = None,
    static_argnums: int | Sequence[int] = (),
    donate_argnums: int | Sequence[int] = (),
    input_output_aliases: dict[int, int] | None = None,
    mesh: None = None,
    input_partition_specs: None = None,
    output_partition_specs: None = None,
    *,
    static_argnames: str | Sequence[str] = (),
    warn_deprecated: bool = True,
) -> Any:
    """Make an operator of a JAX function, as torch_tpu's function of this name does.

    Without a function, return a decorator.

    This is `jax_op` for functions without annotations. The operator is `torch.ops.custom_jax.name`.

    Args:
        jax_fn: The function.
        name: Name of the operator, also with a namespace: `"namespace::name"`. `None` is the name of the function.
        static_argnums: Positions of parameters that are never tensors. All arguments that are not tensors are static.
        donate_argnums: Positional arguments whose memory may become that of results.
        input_output_aliases: Positional arguments, and the results that take their memory. Such arguments are donated.
        mesh: Must be `None`: programs run on one device.
        input_partition_specs: Must be `None`.
        output_partition_specs: Must be `None`.
        static_argnames: Names of parameters that are never tensors.
        warn_deprecated: Accepted for compatibility.

    Returns:
        The operator, a `JaxOp`, or a decorator that makes it.

    Raises:
        NotImplementedError: If a mesh or partition specs are given.
        ValueError: If the name does not have this form.
    """
    if jax_fn is None:
        return functools.partial(
            custom_jax_kernel, name=name, static_argnums=static_argnums, donate_argnums=donate_argnums,
            input_output_aliases=input_output_aliases, mesh=mesh, input_partition_specs=input_partition_specs,
            output_partition_specs=output_partition_specs, static_argnames=static_argnames,
        )  # fmt: skip
    if mesh is not None or input_partition_specs is not None or output_partition_specs is not None:
        raise NotImplementedError(
            "custom_jax_kernel: meshes and partition specs are not supported: programs run on one device"
        )
    if name is None:
        fn = jax_fn
        while isinstance(fn, functools.partial):
            fn = fn.func
        name = re.sub(r"\W", "_", getattr(fn, "__name__", type(fn).__name__)).lstrip("_0123456789") or "kernel"
    if "::" not in name:
        name = f"custom_jax::{name}"
    check_name(name)
    donated = (donate_argnums,) if isinstance(donate_argnums, int) else tuple(donate_argnums)
    donated += tuple(i for i in input_output_aliases or () if i not in donated)
    return JaxOp(name, jax_fn, donated)


class MosaicOp(BodyOp):
    """An operator that is a Mosaic program on TPUs. `mosaic_op` makes it."""

    def __init__(
        self,
        name: str,
        body: str | Callable[..., str],
        infer: Callable[..., Any],
        cpu: Callable[..., Any],
        cost: dict[str, int] | Callable[..., dict[str, int]] | None,
    ) -> None:
        super().__init__(name, body, infer, cpu)
        self._cost = cost

    def _module(self, args, kwargs, metas, found):
        body = super()._module(args, kwargs, metas, found)
        if not isinstance(body, str):
            raise TypeError(f"{self._name}: expected `body` to return a str, but got {type(body).__name__}")
        cost = self._cost(*filled(args, metas), **filled(kwargs, metas)) if callable(self._cost) else self._cost
        results = found if isinstance(found, (tuple, list)) else (found,)

        def described(tensors):
            return [(list(t.shape), t.dtype) for t in tensors]

        return _C._mosaic_module(self._name, body, described(metas), described(results), self._numbers(cost))

    def _numbers(self, cost):
        names = ("flops", "transcendentals", "bytes_accessed")
        if cost is None:
            return None
        if not isinstance(cost, dict) or not set(cost) <= set(names):
            raise TypeError(f"{self._name}: expected `cost` to be a dict with some of {names}, but got {cost!r}")
        return tuple(int(cost.get(n, 0)) for n in names)


def mosaic_op(
    name: str,
    body: str | Callable[..., str],
    infer: Callable[..., Any],
    *,
    cpu: Callable[..., Any],
    cost: dict[str, int] | Callable[..., dict[str, int]] | None = None,
) -> MosaicOp:
    """Make an operator of a kernel in Mosaic, the language of the compiler of TPUs. JAX is not needed.

    Args:
        name: `"namespace::name"`. The operator is also `torch.ops.namespace.name`.
        body: The kernel as MLIR text in generic form, with operations of the dialect `stable_mosaic`. Or a function of
            the arguments, with tensors on device `meta`, that returns the text.
        infer: Shape rule: function of the same arguments that returns a tensor, or a tuple or list of tensors, on
            device `meta`.
        cpu: Function of tensors that computes the same. It is called on device `cpu`, and on `tpu` if that is XLA:CPU.
        cost: `"flops"`, `"transcendentals"` and `"bytes_accessed"` of a call, or a function of the arguments that
            returns them. The compiler uses them for its schedule, and `torch.tpu.plan` reports them.

    Returns:
        The operator.

    Raises:
        ValueError: If the name does not have this form.
        TypeError: If `infer` or `cpu` is not a function.
    """
    for role, fn in (("infer", infer), ("cpu", cpu)):
        if not callable(fn):
            raise TypeError(f"{name}: expected `{role}` to be a callable, but got {type(fn).__name__}")
    return MosaicOp(name, body, infer, cpu, cost)


class _LoadedOp(_FormOp):
    """An operator from files, each of which is for one set of arguments."""

    def __init__(self, files, contents):
        super().__init__(contents[0]["name"])
        self._contents, self._place = contents, ", ".join(files)

    def _serve(self, args, kwargs, tensors, platform, needs_grad):
        given = [[list(t.shape), str(t.dtype).removeprefix("torch.")] for t in tensors]
        alike = [c for c in self._contents if c["args"] == given]
        found = next((c for c in alike if c["call"] == _artefact.call(args, kwargs)), None)
        if found is None:
            raise RuntimeError(
                f"{self._name}: {self._place} has no kernel for the arguments {_show_all(given)}, "
                f"but for {', '.join(_show_all(c['args']) for c in self._contents)}"
                + (", called in another way or with other static arguments" if alike else "")
            )
        exports = found["exports"].get(platform or "tpu")
        if exports is None:
            there = sorted(found["exports"])
            raise NotImplementedError(
                f"{self._name}: {self._place} has no kernel for the platform {platform}, but for {there}"
            )
        export = exports.get("grad" if needs_grad else "plain", exports["plain"])
        served = self._made(export, len(tensors), [])
        return self._differentiable(served, export["why"]) if "why" in export else served


def _show_all(described):
    return "(" + ", ".join(f"{dtype}{shape}" for shape, dtype in described) + ")"


def load(file: str | os.PathLike[str], *more: str | os.PathLike[str]) -> _LoadedOp:
    """Return the operator of a file that `op.save(file, *example)` wrote. JAX is not needed.

    Args:
        file: Name of the file.
        more: Names of files of the same operator for other arguments.

    Raises:
        ValueError: If a file is not such a file or is damaged, or the files are of different operators.
        RuntimeError: In a call: if no kernel was made for such arguments.
    """
    files = [str(f) for f in (file, *more)]
    contents = [_artefact.load(f) for f in files]
    names = sorted({c["name"] for c in contents})
    if len(names) > 1:
        raise ValueError(f"torch.tpu.pallas.load: the files are of different operators: {', '.join(names)}")
    return _LoadedOp(files, contents)
