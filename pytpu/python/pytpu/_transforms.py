"""Transforms of functions to their derivatives: `grad`, `vjp`, `jvp`, `jacrev` and others of `torch.func`.

All of them run backward. `jvp` differentiates a backward pass by its input, and `jacfwd` is `jacrev`. Rows of a
Jacobian are computed one by one. A result requires gradients only if something outside of the transform does.
"""

from __future__ import annotations

import contextlib
import functools

import pytpu as torch

from .utils import _pytree as pytree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def _tree(x):
    leaves, spec = pytree.tree_flatten(x)
    for leaf in leaves:
        if not isinstance(leaf, torch.Tensor):
            raise ValueError(f"Thing passed to transform API must be Tensor, got {type(leaf)}")
    return leaves, spec


@contextlib.contextmanager
def _recording():
    """Record operations, whatever the mode is outside."""
    outside = torch.inference_mode(False) if torch.is_inference_mode_enabled() else contextlib.nullcontext()
    with outside, torch.enable_grad():
        yield


def _normal(tree):
    """Return the tree with copies of inference tensors, which cannot be saved for backward."""

    def copied(x):
        return x.clone() if isinstance(x, torch.Tensor) and x.is_inference() else x

    with _recording():
        return pytree.tree_map(copied, tree)


def _is_differentiated(x):
    """Whether something outside of the transform differentiates `x`."""
    return x.requires_grad and torch.is_grad_enabled()


def _stand_in(x):
    """Return the replacement of a tensor: a view if something outside differentiates it, otherwise a new leaf."""
    if _is_differentiated(x):
        return x.view_as(x)
    with _recording():
        return (x.clone() if x.is_inference() else x).detach().requires_grad_()


def _choose(argnums, args):
    """Return whether `argnums` is a tuple, and the positions of the arguments to differentiate by."""
    if (
        not isinstance(argnums, (int, tuple))
        or isinstance(argnums, tuple)
        and not all(isinstance(i, int) for i in argnums)
    ):
        raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}")
    is_tuple = isinstance(argnums, tuple)
    if is_tuple and not argnums:
        raise RuntimeError("argnums must be non-empty")
    places = []
    for i in argnums if is_tuple else (argnums,):
        if not -len(args) <= i < len(args):
            raise RuntimeError(f"Got argnum={i}, but only {len(args)} positional inputs")
        places.append(i % len(args))
    if len(set(places)) != len(places):
        raise RuntimeError(f"argnums elements must be unique, got {argnums}")
    return is_tuple, places


class _Inputs:
    """Arguments in which stand-ins replace the tensors to differentiate by."""

    def __init__(self, args, places):
        trees = [_tree(args[i]) for i in places]
        self.given = [leaf for leaves, _ in trees for leaf in leaves]
        self.tensors = [_stand_in(x) for x in self.given]
        self._own = {id(t) for t, x in zip(self.tensors, self.given) if not _is_differentiated(x)}
        self._specs = [spec for _, spec in trees]
        self.args = [None if i in places else _normal(a) for i, a in enumerate(args)]
        for i, tree in zip(places, self.trees(self.tensors)):
            self.args[i] = tree
        self._outside = torch.is_grad_enabled()

    def trees(self, tensors):
        """Return one value for each stand-in, in the structure of the arguments."""
        rest = iter(tensors)
        return [spec.unflatten([next(rest) for _ in range(spec.num_leaves)]) for spec in self._specs]

    def grads(self, output, weight=None):
        """Return the gradients of an output by the stand-ins, or zeros if it does not depend on one."""
        if not output.requires_grad:
            return [torch.zeros_like(t) for t in self.tensors]
        return torch.autograd.grad(
            output, self.tensors, weight, create_graph=True, allow_unused=True, materialize_grads=True
        )

    def released(self, tree):
        """Return the tree, with tensors detached that depend on nothing outside."""

        def release(x):
            if not isinstance(x, torch.Tensor) or not x.requires_grad:
                return x
            return x if self._outside and self._reaches_outside(x) else x.detach()

        return pytree.tree_map(release, tree)

    def _reaches_outside(self, x):
        if x.grad_fn is None:
            return id(x) not in self._own
        # Ids are valid as long as the nodes are kept.
        seen, kept, waiting = set(), [], [x.grad_fn]
        while waiting:
            node = waiting.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            kept.append(node)
            leaf = getattr(node, "variable", None)
            if leaf is not None and id(leaf) not in self._own:
                return True
            waiting += [n for n, _ in node.next_functions if n is not None]
        return False


def _run(func, args, kwargs=None):
    kwargs = _normal(kwargs or {})
    with _recording():
        return func(*args, **kwargs)


def _with_aux(result, has_aux, name):
    if not has_aux:
        return result, None
    if not (isinstance(result, tuple) and len(result) == 2):
        raise RuntimeError(f"{name}: output of function f should be a tuple: (output, aux) if has_aux is True")
    return result


def grad_and_value(
    func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """Return a function that computes the gradient and the value of a scalar function.

    Args:
        func: Function that returns a tensor without dimensions, or with `has_aux` a pair of that and any value.
        argnums: Positions of the arguments to differentiate by, which are trees of tensors. A tuple gives a tuple.
        has_aux: Whether `func` returns a pair.

    Returns:
        A function of the same arguments that returns `(gradients, value)`, or `(gradients, (value, aux))`.

    Raises:
        RuntimeError: In a call: if `argnums` does not fit, or the result is not a tensor without dimensions.

    Example:
        >>> import pytpu as torch
        >>> torch.func.grad_and_value(lambda x: x**3)(torch.tensor(2.0))
        (tensor(12.), tensor(8.))
    """

    @functools.wraps(func)
    def wrapped(*args, **kwargs):
        name = "grad_and_value(f)(*args)"
        is_tuple, places = _choose(argnums, args)
        inputs = _Inputs(args, places)
        output, aux = _with_aux(_run(func, inputs.args, kwargs), has_aux, name)
        if not isinstance(output, torch.Tensor):
            raise RuntimeError(f"{name}: Expected f(*args) to return a Tensor, got {type(output)}")
        if output.dim() != 0:
            raise RuntimeError(
                f"{name}: Expected f(*args) to return a scalar Tensor, got tensor with {output.dim()} dims. Maybe you "
                "wanted to "
                "use the vjp or jacrev APIs instead?"
            )
        with _recording():
            found = inputs.trees(inputs.grads(output))
        value = (output, aux) if has_aux else output
        return inputs.released((tuple(found) if is_tuple else found[0], value))

    return wrapped


def grad(func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """Return a function that computes the gradient of a scalar function.

    Args:
        func: Function that returns a tensor without dimensions, or with `has_aux` a pair of that and any value.
        argnums: Positions of the arguments to differentiate by, which are trees of tensors. A tuple gives a tuple.
        has_aux: Whether `func` returns a pair.

    Returns:
        A function of the same arguments that returns the gradients, or `(gradients, aux)`.

    Raises:
        RuntimeError: In a call: if `argnums` does not fit, or the result is not a tensor without dimensions.

    Example:
        >>> import pytpu as torch
        >>> torch.func.grad(torch.func.grad(lambda x: x**3))(torch.tensor(2.0))
        tensor(12.)
    """

    @functools.wraps(func)
    def wrapped(*args, **kwargs):
        found, value = grad_and_value(func, argnums, has_aux)(*args, **kwargs)
        return (found, value[1]) if has_aux else found

    return wrapped


def _outputs(result, name):
    """Return the tensors in the result of a function, and its structure."""
    leaves, spec = pytree.tree_flatten(result)
    for leaf in leaves:
        if not isinstance(leaf, torch.Tensor):
            raise RuntimeError(
                f"{name}: expected f(*primals) to return only tensors, got unsupported type {type(leaf)}"
            )
    return leaves, spec


def vjp(
    func: Callable[..., Any], *primals: Any, has_aux: bool = False
) -> tuple[Any, Callable[..., Any]] | tuple[Any, Callable[..., Any], Any]:
    """Return the value of a function, and a function that computes vector-Jacobian products.

    Args:
        func: Function of trees of tensors that returns a tree of tensors, or with `has_aux` a pair of that and any
            value.
        primals: Arguments of `func`.
        has_aux: Whether `func` returns a pair.

    Returns:
        `(output, vjp_fn)`, or `(output, vjp_fn, aux)`. `vjp_fn(cotangents)` returns a tuple with one tree for each
        argument.

    Raises:
        RuntimeError: If `func` returns something that is not a tensor. In `vjp_fn`: if the cotangents do not fit the
            output.

    Example:
        >>> import pytpu as torch
        >>> output, vjp_fn = torch.func.vjp(lambda x: x**2, torch.tensor([1.0, 2.0]))
        >>> vjp_fn(torch.ones(2))
        (tensor([2., 4.]),)
    """
    inputs = _Inputs(primals, range(len(primals)))
    result, aux = _with_aux(_run(func, inputs.args), has_aux, "vjp(f, *primals)")
    leaves, spec = _outputs(result, "vjp(f, *primals)")

    def vjp_fn(cotangents):
        weights, form = _tree(_normal(cotangents))
        if form != spec:
            raise RuntimeError(
                "Expected pytree structure of cotangents to be the same as pytree structure of outputs to the "
                "function. "
                f"cotangents: {form}, primal output: {spec}"
            )
        for i, (w, y) in enumerate(zip(weights, leaves)):
            if w.shape != y.shape:
                raise RuntimeError(
                    f"Mismatch in shape: grad_output[{i}] has a shape of {w.shape} and output[{i}] has a shape of "
                    f"{y.shape}."
                )
        used = [(y, w) for y, w in zip(leaves, weights) if y.requires_grad]
        with _recording():
            found = [torch.zeros_like(t) for t in inputs.tensors]
            if used:
                found = torch.autograd.grad(
                    [y for y, _ in used], inputs.tensors, [w for _, w in used],
                    create_graph=True, allow_unused=True, materialize_grads=True,
                )  # fmt: skip
        return inputs.released(tuple(inputs.trees(found)))

    output = inputs.released(result)
    return (output, vjp_fn, inputs.released(aux)) if has_aux else (output, vjp_fn)


def jvp(
    func: Callable[..., Any], primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False
) -> tuple[Any, Any] | tuple[Any, Any, Any]:
    """Return the value of a function, and the product of its Jacobian with tangents.

    Args:
        func: Function of trees of tensors that returns a tree of tensors, or with `has_aux` a pair of that and any
            value.
        primals: Tuple of the arguments.
        tangents: Tuple of the same structure and shapes.
        strict: Accepted for compatibility.
        has_aux: Whether `func` returns a pair.

    Returns:
        `(output, product)`, or `(output, product, aux)`.

    Raises:
        RuntimeError: If the tangents do not fit the arguments, or `func` returns something that is not a tensor.

    Example:
        >>> import pytpu as torch
        >>> x = torch.tensor([1.0, 2.0])
        >>> torch.func.jvp(lambda x: x**2, (x,), (torch.ones(2),))
        (tensor([1., 4.]), tensor([2., 4.]))
    """
    name = "jvp(f, primals, tangents)"
    if not isinstance(primals, tuple):
        raise RuntimeError(f"{name}: Expected primals to be a tuple. E.g. it should be valid to call f(*primals).")
    directions, form = pytree.tree_flatten(_normal(tangents))
    spec = pytree.tree_structure(primals)
    if form != spec:
        raise RuntimeError(
            f"{name}: Expected primals and tangents to have the same python structure. For example, if primals is a "
            "tuple of 3 "
            f"tensors, tangents also must be. Got primals with structure {spec} and tangents with structure {form}"
        )
    inputs = _Inputs(primals, range(len(primals)))
    for x, d in zip(inputs.given, directions):
        if x.shape != d.shape:
            raise RuntimeError(
                "Trying to set a forward gradient that has a different size than that of the original Tensor, this is "
                "not "
                f"supported. Tensor is of size {list(x.shape)} while the given forward gradient is of size "
                f"{list(d.shape)}."
            )
    result, aux = _with_aux(_run(func, inputs.args), has_aux, name)
    leaves, spec = _outputs(result, name)
    found = [inputs.released(_push(inputs, y, directions)) for y in leaves]
    output = inputs.released(result)
    tangent = spec.unflatten(found)
    return (output, tangent, inputs.released(aux)) if has_aux else (output, tangent)


def _push(inputs, output, directions):
    """Return the derivative of an output in a direction.

    It is the derivative of the backward pass, which is linear in its weight, by that weight.
    """
    if not output.requires_grad:
        return torch.zeros_like(output)
    with _recording():
        weight = torch.zeros_like(output).requires_grad_()
        pulled = inputs.grads(output, weight)
        total = [(p, d) for p, d in zip(pulled, directions) if p.requires_grad]
        if not total:
            return torch.zeros_like(output)
        (found,) = torch.autograd.grad(
            [p for p, _ in total], weight, [d.to(p.dtype) for p, d in total],
            create_graph=True, allow_unused=True, materialize_grads=True,
        )  # fmt: skip
    return found


def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """Return the value of a function, and its derivative there as a linear function.

    Args:
        func: Function of trees of tensors that returns a tree of tensors.
        primals: Arguments of `func`.

    Returns:
        `(output, jvp_fn)`, where `jvp_fn(*tangents)` returns the product of the Jacobian with the tangents.

    Example:
        >>> import pytpu as torch
        >>> output, jvp_fn = torch.func.linearize(lambda x: x**2, torch.tensor(3.0))
        >>> jvp_fn(torch.tensor(1.0))
        tensor(6.)
    """
    output = vjp(func, *primals)[0]
    return output, lambda *tangents: jvp(func, primals, tangents)[1]


def jacrev(
    func: Callable[..., Any],
    argnums: int | tuple[int, ...] = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Callable[..., Any]:
    """Return a function that computes Jacobians, row by row.

    Args:
        func: Function that returns a tree of tensors, or with `has_aux` a pair of that and any value.
        argnums: Positions of the arguments to differentiate by, which are trees of tensors. A tuple gives a tuple.
        has_aux: Whether `func` returns a pair.
        chunk_size: Accepted for compatibility.

    Returns:
        A function of the same arguments. For an output of shape `a` and an argument of shape `b`, the Jacobian has
        shape `a + b`. With `has_aux` it returns `(jacobians, aux)`.

    Example:
        >>> import pytpu as torch
        >>> torch.func.jacrev(lambda x: x**2)(torch.tensor([1.0, 2.0]))
        tensor([[2., 0.],
                [0., 4.]])
    """
    return _jacobian(func, argnums, has_aux, "vjp(f, *primals)")


def jacfwd(
    func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False, *, randomness: str = "error"
) -> Callable[..., Any]:
    """Return a function that computes Jacobians. It does the same as `jacrev`.

    Args:
        func: Function that returns a tree of tensors, or with `has_aux` a pair of that and any value.
        argnums: Positions of the arguments to differentiate by, which are trees of tensors. A tuple gives a tuple.
        has_aux: Whether `func` returns a pair.
        randomness: Accepted for compatibility.

    Returns:
        A function of the same arguments, as that of `jacrev`.
    """
    return _jacobian(func, argnums, has_aux, "jvp(f, primals, tangents)")


def _jacobian(func, argnums, has_aux, name):
    @functools.wraps(func)
    def wrapped(*args, **kwargs):
        is_tuple, places = _choose(argnums, args)
        inputs = _Inputs(args, places)
        result, aux = _with_aux(_run(func, inputs.args, kwargs), has_aux, name)
        leaves, spec = _outputs(result, name)
        with _recording():
            found = [inputs.trees(_rows(inputs, y)) for y in leaves]
        form = (lambda trees: tuple(trees)) if is_tuple else (lambda trees: trees[0])
        # Put a tree of inputs in the place of each output.
        jacobians = inputs.released(spec.unflatten([form(trees) for trees in found]))
        return (jacobians, inputs.released(aux)) if has_aux else jacobians

    return wrapped


def _rows(inputs, output):
    flat = output.reshape(-1)
    rows = [inputs.grads(y) for y in flat.unbind()]
    shape = tuple(output.shape)
    if not rows:
        return [t.new_zeros(shape + tuple(t.shape)) for t in inputs.tensors]
    return [torch.stack(parts).reshape(shape + tuple(parts[0].shape)) for parts in zip(*rows)]


def hessian(func: Callable[..., Any], argnums: int | tuple[int, ...] = 0) -> Callable[..., Any]:
    """Return a function that computes second derivatives: `jacfwd(jacrev(func))`.

    Args:
        func: Function that returns a tensor.
        argnums: Positions of the arguments to differentiate by, which are trees of tensors. A tuple gives a tuple.

    Returns:
        A function of the same arguments. For an output of shape `a` and an argument of shape `b`, the Hessian has shape
        `a + b + b`.

    Example:
        >>> import pytpu as torch
        >>> torch.func.hessian(lambda x: (x**3).sum())(torch.tensor([1.0, 2.0]))
        tensor([[ 6.,  0.],
                [ 0., 12.]])
    """
    return jacfwd(jacrev(func, argnums), argnums)
