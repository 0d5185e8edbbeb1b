"""`torch._functorch.aot_autograd`: graphs of operators of a function and of its backward, for compilers."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import pytpu as torch

from ..utils import _pytree as pytree
from . import _vjp
from .partitioners import default_partition

__all__ = [
    "aot_function",
    "aot_module",
    "aot_module_simplified",
    "compiled_function",
    "compiled_module",
    "make_boxed_compiler",
    "make_boxed_func",
]


def make_boxed_func(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of a list of arguments that calls `f` with them."""

    def g(args: Sequence[Any]) -> Any:
        return f(*args)

    g._boxed_call = True  # type: ignore[attr-defined]
    return g


def make_boxed_compiler(compiler: Callable[..., Any]) -> Callable[..., Any]:
    """Return a compiler whose results take a list of arguments."""

    @functools.wraps(compiler)
    def f(fx_g: Any, inps: Any) -> Callable[..., Any]:
        return make_boxed_func(compiler(fx_g, inps))

    return f


def _call(fn: Callable[..., Any], args: Sequence[Any]) -> list[Any]:
    result = fn(list(args)) if getattr(fn, "_boxed_call", False) else fn(*args)
    return [result] if isinstance(result, torch.Tensor) else list(result)


def _log(name: str, module: Any) -> None:
    from .._logging import getArtifactLogger
    from .._logging._internal import is_artifact_on

    if is_artifact_on("aot_graphs"):
        text = module.print_readable(print_output=False)
        getArtifactLogger("torch._functorch.aot_autograd", "aot_graphs").debug(
            "TRACED GRAPH\n ===== %s =====\n %s", name, text
        )


def _examples(module: Any) -> list[Any]:
    return [node.meta.get("val") for node in module.graph.find_nodes(op="placeholder")]


class _Compiler:
    """The settings of compilers, and what is made of a function of tensors by them."""

    def __init__(
        self,
        fw_compiler: Callable[..., Any],
        bw_compiler: Callable[..., Any] | None,
        inference_compiler: Callable[..., Any] | None,
        partition_fn: Callable[..., Any],
        decompositions: Any,
    ) -> None:
        self.fw, self.bw = fw_compiler, bw_compiler or fw_compiler
        self.inference = inference_compiler or fw_compiler
        self.partition, self.decompositions = partition_fn, decompositions
        self.has_no_grad = False

    def __call__(self, f: Callable[..., Any], args: Sequence[Any]) -> Callable[..., Any]:
        """Return a function with the parameters of `f`, which returns a list of tensors."""
        if torch.is_grad_enabled() and any(isinstance(a, torch.Tensor) and a.requires_grad for a in args):
            return self._with_gradients(f, args)
        return self._plain(f, args)

    def _trace(self, f: Callable[..., Any], args: Sequence[Any], whole: bool = False) -> Any:
        """Return the graph of operators. With `whole`, operators that PyTorch composes of others are one node."""
        from ..fx.experimental.proxy_tensor import make_fx

        make = make_fx(
            f,
            self.decompositions,
            "fake",
            _allow_non_fake_inputs=True,
            pre_dispatch=whole,
            record_module_stack=whole,
        )
        return make(*args)

    def _forward(self, f: Callable[..., Any], args: Sequence[Any], whole: bool = False) -> Any:
        """Return the graph of operators of aten."""
        module = self._trace(f, args, whole)
        if _has_fake_constants(module):
            raise NotImplementedError("aot_autograd: a tensor of the function is the result of no operator of aten")
        missing = next((n.target for n in module.graph.nodes if getattr(n.target, "namespace", "") == "prims"), None)
        if missing is None:
            return module
        if not whole:
            return self._forward(f, args, True)
        raise NotImplementedError(f"aot_autograd: {missing} is no operator of aten")

    def _joint(self, f: Callable[..., Any], args: Sequence[Any]) -> Any:
        """Return the graph of forward and its gradients, or `None` where operators do not show the gradients."""
        try:
            module = self._trace(f, args)
        except Exception:
            return None
        for node in module.graph.nodes:
            if getattr(node.target, "namespace", "") == "prims":
                return None
        return None if _has_fake_constants(module) else module

    def _plain(self, f: Callable[..., Any], args: Sequence[Any]) -> Callable[..., Any]:
        def flat(*values: Any) -> Any:
            with torch.no_grad():
                return tuple(f(*values))

        module = self._forward(flat, [_leaf(a, False) for a in args])
        _log("Forward graph", module)
        compiled = self.inference(module, _examples(module))

        def run(*values: Any) -> list[Any]:
            with torch.no_grad():
                return _call(compiled, values)

        return run

    def _with_gradients(self, f: Callable[..., Any], args: Sequence[Any]) -> Callable[..., Any]:
        wanted = [i for i, a in enumerate(args) if isinstance(a, torch.Tensor) and a.requires_grad]
        leaves = [_leaf(a, None) for a in args]
        # Find out which results have gradients.
        functions: list[str] = []
        shapes = self._described(f, leaves, functions)
        if not any(has for _, has in shapes):
            return self._plain(f, args)
        differentiable = [i for i, (_, has) in enumerate(shapes) if has]
        tangents = [shapes[i][0] for i in differentiable]

        def joint(*values: Any) -> Any:
            primals, grads = values[: len(args)], values[len(args) :]
            results = list(f(*primals))
            # A result that is an operand as it came has no node of its own.
            found = torch.autograd.grad(
                [results[i] for i in differentiable], [primals[i] for i in wanted], grads, allow_unused=True
            )
            return (*results, *found)

        count = len(shapes)
        module = self._joint(joint, [*leaves, *tangents])
        if module is not None:
            forward, backward = self.partition(module, list(leaves), num_fwd_outputs=count)
        else:
            if functions:
                raise NotImplementedError(
                    f"aot_autograd: the backward of {functions[0]}, a torch.autograd.Function, cannot be in a graph "
                    "with the other operators of this function"
                )
            forward = self._forward(lambda *values: tuple(f(*values)), leaves, True)
            forward, backward = _vjp.graphs(forward, wanted, differentiable, self.has_no_grad)
        _log("Forward graph", forward)
        _log("Backward graph", backward)
        compiled_fw = self.fw(forward, _examples(forward))
        compiled_bw = self.bw(backward, _examples(backward))
        plain = [i for i in range(count) if i not in differentiable]

        class CompiledFunction(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Any, *values: Any) -> Any:
                results = _call(compiled_fw, values)
                outputs, saved = results[:count], results[count:]
                ctx.save_for_backward(*saved)
                # A tensor may not be result and operand at once.
                outputs = [o.view_as(o) if any(o is v for v in values) else o for o in outputs]
                ctx.mark_non_differentiable(*[outputs[i] for i in plain if isinstance(outputs[i], torch.Tensor)])
                return tuple(outputs)

            @staticmethod
            def backward(ctx: Any, *grads: Any) -> Any:
                if torch.is_grad_enabled():
                    raise RuntimeError("torch.compile with aot_autograd does not currently support double backward")
                given = [grads[i] for i in differentiable]
                found = _call(compiled_bw, [*ctx.saved_tensors, *given])
                by_place = dict(zip(wanted, found))
                return tuple(by_place.get(i) for i in range(len(args)))

        def run(*values: Any) -> list[Any]:
            return list(CompiledFunction.apply(*values))

        return run

    def _described(self, f: Callable[..., Any], args: Sequence[Any], functions: list[str]) -> list[tuple[Any, bool]]:
        """Return a description of each result, and whether it has gradients.

        The names of `torch.autograd.Function` that run are added to `functions`.
        """
        from .._dynamo._capture import noticing
        from .._subclasses.fake_tensor import FakeTensorMode

        mode = FakeTensorMode(allow_non_fake_inputs=True)
        fakes = [mode.from_tensor(a) if isinstance(a, torch.Tensor) else a for a in args]
        with mode, noticing(functions):
            results = f(*fakes)
        return [(r.detach(), r.requires_grad) if isinstance(r, torch.Tensor) else (r, False) for r in results]


def _has_fake_constants(module: Any) -> bool:
    """Return whether a graph reads a value that none of its nodes computes."""
    values = [getattr(module, str(node.target), None) for node in module.graph.find_nodes(op="get_attr")]
    return any(isinstance(value, torch.Tensor) and torch._C._is_fake(value) for value in values)


def _leaf(value: Any, requires_grad: bool | None) -> Any:
    """Return a leaf with the elements of a tensor."""
    if not isinstance(value, torch.Tensor):
        return value
    with torch.enable_grad():
        return value.detach().requires_grad_(value.requires_grad if requires_grad is None else requires_grad)


def aot_module_simplified(
    mod: Any,
    args: Sequence[Any],
    fw_compiler: Callable[..., Any],
    bw_compiler: Callable[..., Any] | None = None,
    partition_fn: Callable[..., Any] = default_partition,
    decompositions: Any = None,
    keep_inference_input_mutations: bool = False,
    inference_compiler: Callable[..., Any] | None = None,
    **_: Any,
) -> Callable[..., Any]:
    """Return a function that runs a graph by compilers of its operators, and of those of its backward.

    Args:
        mod: the graph of a compiled function, or a module, whose weights become inputs of the graphs.
        args: its inputs.
        fw_compiler: a function of a graph and a list of fake tensors, which returns a function.
        bw_compiler: the same, for backward. The default is `fw_compiler`.
        partition_fn: makes the two graphs of one.
        decompositions: functions by overload, whose operators take the place of a call of it.
        keep_inference_input_mutations: accepted for compatibility.
        inference_compiler: the same as `fw_compiler`, for calls without gradients.
    """
    weights = {**dict(mod.named_parameters()), **dict(mod.named_buffers())} if isinstance(mod, torch.nn.Module) else {}
    names = list(weights)

    def flat(*values: Any) -> Any:
        given = dict(zip(names, values))
        inputs = values[len(names) :]
        result = torch.func.functional_call(mod, given, inputs) if names else mod(*inputs)
        return (result,) if isinstance(result, torch.Tensor) else tuple(result)

    make = _Compiler(fw_compiler, bw_compiler, inference_compiler, partition_fn, decompositions)
    if isinstance(mod, torch.fx.GraphModule):
        make.has_no_grad = any(node.target is torch._C._set_grad_enabled for node in mod.graph.nodes)
    compiled = make(flat, [*weights.values(), *args])

    def forward(*runtime_args: Any) -> Any:
        return tuple(compiled(*weights.values(), *runtime_args))

    forward.zero_grad = getattr(mod, "zero_grad", None)  # type: ignore[attr-defined]
    forward.named_parameters = getattr(mod, "named_parameters", None)  # type: ignore[attr-defined]
    forward.named_buffers = getattr(mod, "named_buffers", None)  # type: ignore[attr-defined]
    return forward


def aot_function(
    fn: Callable[..., Any],
    fw_compiler: Callable[..., Any],
    bw_compiler: Callable[..., Any] | None = None,
    partition_fn: Callable[..., Any] = default_partition,
    decompositions: Any = None,
    num_params_buffers: int = 0,
    keep_inference_input_mutations: bool = False,
    inference_compiler: Callable[..., Any] | None = None,
    **_: Any,
) -> Callable[..., Any]:
    """Return a function that runs `fn` by compilers of its operators, and of those of its backward.

    The first call makes the graphs. A call with other sizes or dtypes makes others.

    Args:
        fn: a function of nested tensors.
        fw_compiler: a function of a graph and a list of fake tensors, which returns a function.
        bw_compiler: the same, for backward. The default is `fw_compiler`.
        partition_fn: makes the two graphs of one.
        decompositions: functions by overload, whose operators take the place of a call of it.
        num_params_buffers: accepted for compatibility.
        keep_inference_input_mutations: accepted for compatibility.
        inference_compiler: the same as `fw_compiler`, for calls without gradients.
    """
    make = _Compiler(fw_compiler, bw_compiler, inference_compiler, partition_fn, decompositions)
    known: dict[Any, tuple[Callable[..., Any], Any]] = {}

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        leaves, spec = pytree.tree_flatten((args, kwargs))
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        key = (
            torch.is_grad_enabled(),
            str(spec),
            tuple(
                (x.shape, x.dtype, x.device, x.requires_grad) if isinstance(x, torch.Tensor) else (type(x), repr(x))
                for x in leaves
            ),
        )
        if key not in known:
            specs: list[Any] = []

            def flat(*values: Any) -> Any:
                given = iter(values)
                full = [next(given) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
                a, k = pytree.tree_unflatten(full, spec)
                results, out_spec = pytree.tree_flatten(fn(*a, **k))
                specs.append(out_spec)
                return tuple(results)

            compiled = make(flat, tensors)
            known[key] = compiled, specs[-1]
        compiled, out_spec = known[key]
        return pytree.tree_unflatten(compiled(*tensors), out_spec)

    return call


compiled_function = aot_function


def aot_module(mod: torch.nn.Module, *args: Any, **kwargs: Any) -> torch.nn.Module:
    """Return a module that runs `mod` by compilers of its operators, and of those of its backward.

    Args:
        mod: the module. Its weights are those of the result.
        args: arguments of `aot_function` after the function.
        kwargs: the same, by name.
    """

    def functional(given: Any, call_args: Any, call_kwargs: Any) -> Any:
        return torch.func.functional_call(mod, given, call_args, call_kwargs)

    compiled = aot_function(functional, *args, **kwargs)

    class AOTModule(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.orig_module = mod

        def forward(self, *call_args: Any, **call_kwargs: Any) -> Any:
            weights = {**dict(mod.named_parameters()), **dict(mod.named_buffers())}
            return compiled(weights, call_args, call_kwargs)

    return AOTModule()


compiled_module = aot_module
