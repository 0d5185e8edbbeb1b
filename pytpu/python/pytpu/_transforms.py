"""Functions that give derivatives of functions: what ``torch.func`` calls ``grad``, ``vjp``, ``jvp``, ``jacrev`` and so
on.

All of them run backward: ``jvp`` differentiates a backward pass by what went into it, and ``jacfwd`` is ``jacrev``.
Rows of a Jacobian are computed one by one. What a transform returns requires a gradient only where something outside of
it does.
"""

import functools

import pytpu as torch

from .utils import _pytree as pytree


def _tree(x):
    leaves, spec = pytree.tree_flatten(x)
    for leaf in leaves:
        if not isinstance(leaf, torch.Tensor):
            raise ValueError(f"Thing passed to transform API must be Tensor, got {type(leaf)}")
    return leaves, spec


def _stand_in(x):
    """What a tensor is replaced by: a view where something outside differentiates it, else a new leaf."""
    return x.view_as(x) if x.requires_grad else x.detach().requires_grad_()


def _chosen(argnums, args):
    """The places of the arguments to differentiate by, and whether they came as a tuple."""
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
    """Arguments, some of which stand-ins have replaced."""

    def __init__(self, args, places):
        trees = [_tree(args[i]) for i in places]
        self.given = [leaf for leaves, _ in trees for leaf in leaves]
        self.tensors = [_stand_in(x) for x in self.given]
        self._own = {id(t) for t, x in zip(self.tensors, self.given) if not x.requires_grad}
        self._specs = [spec for _, spec in trees]
        self.args = list(args)
        for i, tree in zip(places, self.trees(self.tensors)):
            self.args[i] = tree
        self._outside = torch.is_grad_enabled()

    def trees(self, tensors):
        """One value for each stand-in, in the form of the arguments."""
        rest = iter(tensors)
        return [spec.unflatten([next(rest) for _ in range(spec.num_leaves)]) for spec in self._specs]

    def grads(self, output, weight=None):
        """Gradients of an output by the stand-ins; zeros where it does not depend on one."""
        if not output.requires_grad:
            return [torch.zeros_like(t) for t in self.tensors]
        return torch.autograd.grad(
            output, self.tensors, weight, create_graph=True, allow_unused=True, materialize_grads=True
        )

    def released(self, tree):
        """The same, without history where it depends on nothing outside."""

        def release(x):
            if not isinstance(x, torch.Tensor) or not x.requires_grad:
                return x
            return x if self._outside and self._reaches_outside(x) else x.detach()

        return pytree.tree_map(release, tree)

    def _reaches_outside(self, x):
        if x.grad_fn is None:
            return id(x) not in self._own
        # Ids are good as long as the nodes are.
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
    with torch.enable_grad():
        return func(*args, **(kwargs or {}))


def _with_aux(result, has_aux, name):
    if not has_aux:
        return result, None
    if not (isinstance(result, tuple) and len(result) == 2):
        raise RuntimeError(f"{name}: output of function f should be a tuple: (output, aux) if has_aux is True")
    return result


def grad_and_value(func, argnums=0, has_aux=False):
    """A function that gives the gradient of a scalar function, and its value: ``(gradients, value)``, or ``(gradients,
    (value, aux))``.

    Args:
        func: gives a tensor of one element, or with ``has_aux`` a pair of it and anything.
        argnums: the arguments to differentiate by, trees of tensors; for a tuple of places gradients come in a tuple.
    """

    @functools.wraps(func)
    def wrapped(*args, **kwargs):
        name = "grad_and_value(f)(*args)"
        is_tuple, places = _chosen(argnums, args)
        inputs = _Inputs(args, places)
        output, aux = _with_aux(_run(func, inputs.args, kwargs), has_aux, name)
        if not isinstance(output, torch.Tensor):
            raise RuntimeError(f"{name}: Expected f(*args) to return a Tensor, got {type(output)}")
        if output.dim() != 0:
            raise RuntimeError(
                f"{name}: Expected f(*args) to return a scalar Tensor, got tensor with {output.dim()} dims. Maybe you "
                "wanted to use the vjp or jacrev APIs instead?"
            )
        with torch.enable_grad():
            found = inputs.trees(inputs.grads(output))
        value = (output, aux) if has_aux else output
        return inputs.released((tuple(found) if is_tuple else found[0], value))

    return wrapped


def grad(func, argnums=0, has_aux=False):
    """A function that gives the gradient of a scalar function, or with ``has_aux`` the pair ``(gradients, aux)``."""

    @functools.wraps(func)
    def wrapped(*args, **kwargs):
        found, value = grad_and_value(func, argnums, has_aux)(*args, **kwargs)
        return (found, value[1]) if has_aux else found

    return wrapped


def _outputs(result, name):
    """Tensors of what a function returned, and their form."""
    leaves, spec = pytree.tree_flatten(result)
    for leaf in leaves:
        if not isinstance(leaf, torch.Tensor):
            raise RuntimeError(
                f"{name}: expected f(*primals) to return only tensors, got unsupported type {type(leaf)}"
            )
    return leaves, spec


def vjp(func, *primals, has_aux=False):
    """The value of a function and a function of cotangents, which gives their products with the Jacobian.

    Returns:
        ``(output, vjp_fn)``, or ``(output, vjp_fn, aux)``; ``vjp_fn(cotangents)`` gives a tuple, with a value for each
        argument.
    """
    inputs = _Inputs(primals, range(len(primals)))
    result, aux = _with_aux(_run(func, inputs.args), has_aux, "vjp(f, *primals)")
    leaves, spec = _outputs(result, "vjp(f, *primals)")

    def vjp_fn(cotangents):
        weights, form = _tree(cotangents)
        if form != spec:
            raise RuntimeError(
                "Expected pytree structure of cotangents to be the same as pytree structure of outputs to the "
                f"function. cotangents: {form}, primal output: {spec}"
            )
        for i, (w, y) in enumerate(zip(weights, leaves)):
            if w.shape != y.shape:
                raise RuntimeError(
                    f"Mismatch in shape: grad_output[{i}] has a shape of {w.shape} and output[{i}] has a shape of "
                    f"{y.shape}."
                )
        used = [(y, w) for y, w in zip(leaves, weights) if y.requires_grad]
        with torch.enable_grad():
            found = [torch.zeros_like(t) for t in inputs.tensors]
            if used:
                found = torch.autograd.grad(
                    [y for y, _ in used], inputs.tensors, [w for _, w in used],
                    create_graph=True, allow_unused=True, materialize_grads=True,
                )  # fmt: skip
        return inputs.released(tuple(inputs.trees(found)))

    output = inputs.released(result)
    return (output, vjp_fn, inputs.released(aux)) if has_aux else (output, vjp_fn)


def jvp(func, primals, tangents, *, strict=False, has_aux=False):
    """The value of a function and the product of its Jacobian with tangents: ``(output, jvp)``, or ``(output, jvp,
    aux)``.

    Args:
        primals: a tuple of arguments, trees of tensors.
        tangents: what goes with each, of the same shapes.
    """
    name = "jvp(f, primals, tangents)"
    if not isinstance(primals, tuple):
        raise RuntimeError(f"{name}: Expected primals to be a tuple. E.g. it should be valid to call f(*primals).")
    directions, form = pytree.tree_flatten(tangents)
    spec = pytree.tree_structure(primals)
    if form != spec:
        raise RuntimeError(
            f"{name}: Expected primals and tangents to have the same python structure. For example, if primals is a "
            f"tuple of 3 tensors, tangents also must be. Got primals with structure {spec} and tangents with "
            f"structure {form}"
        )
    inputs = _Inputs(primals, range(len(primals)))
    for x, d in zip(inputs.given, directions):
        if x.shape != d.shape:
            raise RuntimeError(
                "Trying to set a forward gradient that has a different size than that of the original Tensor, this "
                f"is not supported. Tensor is of size {list(x.shape)} while the given forward gradient is of size "
                f"{list(d.shape)}."
            )
    result, aux = _with_aux(_run(func, inputs.args), has_aux, name)
    leaves, spec = _outputs(result, name)
    found = [inputs.released(_pushed(inputs, y, directions)) for y in leaves]
    output = inputs.released(result)
    tangent = spec.unflatten(found)
    return (output, tangent, inputs.released(aux)) if has_aux else (output, tangent)


def _pushed(inputs, output, directions):
    """The derivative of an output in a direction: of its backward pass, which is linear in its weight, by
    that weight.
    """
    if not output.requires_grad:
        return torch.zeros_like(output)
    with torch.enable_grad():
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


def linearize(func, *primals):
    """The value of a function, and a function of tangents: the product of its Jacobian at that place with them."""
    output, _ = vjp(func, *primals)
    return output, lambda *tangents: jvp(func, primals, tangents)[1]


def jacrev(func, argnums=0, *, has_aux=False, chunk_size=None, _preallocate_and_copy=False):
    """A function that gives Jacobians: for each output of shape ``A`` and argument of shape ``B`` a tensor of shape
    ``(*A, *B)``.

    Args:
        argnums: the arguments to differentiate by; for a tuple of places Jacobians come in a tuple.
        has_aux: the function gives a pair, whose second part is returned as it is.
        chunk_size: of no effect.
    """
    return _jacobian(func, argnums, has_aux, "vjp(f, *primals)")


def jacfwd(func, argnums=0, has_aux=False, *, randomness="error"):
    """``jacrev``."""
    return _jacobian(func, argnums, has_aux, "jvp(f, primals, tangents)")


def _jacobian(func, argnums, has_aux, name):
    @functools.wraps(func)
    def wrapped(*args, **kwargs):
        is_tuple, places = _chosen(argnums, args)
        inputs = _Inputs(args, places)
        result, aux = _with_aux(_run(func, inputs.args, kwargs), has_aux, name)
        leaves, spec = _outputs(result, name)
        with torch.enable_grad():
            found = [inputs.trees(_rows(inputs, y)) for y in leaves]
        form = (lambda trees: tuple(trees)) if is_tuple else (lambda trees: trees[0])
        # One tree of inputs in the place of each output.
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


def hessian(func, argnums=0):
    """A function that gives the second derivatives of a function: ``jacfwd(jacrev(func))``."""
    return jacfwd(jacrev(func, argnums), argnums)
