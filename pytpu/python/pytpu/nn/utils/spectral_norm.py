"""The older `spectral_norm`: a hook that computes the weight before each forward."""

import pytpu as torch

from .. import functional as F
from ..parameter import Parameter, UninitializedParameter
from .parametrizations import output_dim
from .weight_norm import find_hook


def _least_squares(a, b):
    """The shortest `x` that makes `|a x - b|` least, by conjugate gradients on the normal equations."""
    x = a.new_zeros(a.shape[1])
    rest, towards = b.clone(), a.t().mv(b)
    size = first = towards.dot(towards).item()
    direction = towards
    for _ in range(2 * min(a.shape)):
        if size <= 1e-30 * first:
            break
        image = a.mv(direction)
        step = size / image.dot(image).item()
        x = x + step * direction
        rest = rest - step * image
        towards = a.t().mv(rest)
        before, size = size, towards.dot(towards).item()
        direction = towards + (size / before) * direction
    return x


class SpectralNorm:
    """The hook: `name` is `name_orig` over its largest singular value, estimated with `name_u` and `name_v`."""

    # Of what state dictionaries hold: before 1 the weight, and no `v`.
    _version = 1

    def __init__(self, name="weight", n_power_iterations=1, dim=0, eps=1e-12):
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.name = name
        self.n_power_iterations = n_power_iterations
        self.dim = dim
        self.eps = eps

    def reshape_weight_to_matrix(self, weight):
        """The weight with `dim` as rows."""
        weight = weight.movedim(self.dim, 0)
        return weight.reshape(weight.shape[0], -1)

    def compute_weight(self, module, do_power_iteration):
        """The weight, after a step of the iteration or without."""
        weight, u, v = (getattr(module, f"{self.name}_{part}") for part in ("orig", "u", "v"))
        matrix = self.reshape_weight_to_matrix(weight)
        if do_power_iteration:
            with torch.no_grad():
                for _ in range(self.n_power_iterations):
                    v.copy_(F.normalize(matrix.t().mv(u), dim=0, eps=self.eps))
                    u.copy_(F.normalize(matrix.mv(v), dim=0, eps=self.eps))
                # A second forward before backward changes the vectors.
                u, v = u.clone(), v.clone()
        return weight / torch.dot(u, matrix.mv(v))

    def __call__(self, module, inputs):
        setattr(module, self.name, self.compute_weight(module, do_power_iteration=module.training))

    def vector_of(self, weight, u, sigma):
        """The `v` for which `u` is along `weight v`, and the two give the singular value `sigma`."""
        matrix = self.reshape_weight_to_matrix(weight).cpu().double()
        u = u.cpu().double()
        v = _least_squares(matrix, u)
        return (v * (sigma.cpu().double() / torch.dot(u, matrix.mv(v)))).to(weight)


class SpectralNormStateDictHook:
    """Notes in a state dictionary's metadata which form of it the hook wrote."""

    def __init__(self, fn):
        self.fn = fn

    def __call__(self, module, state_dict, prefix, local_metadata):
        versions, key = local_metadata.setdefault("spectral_norm", {}), f"{self.fn.name}.version"
        if key in versions:
            raise RuntimeError(f"Unexpected key in metadata['spectral_norm']: {key}")
        versions[key] = SpectralNorm._version


class SpectralNormLoadStateDictPreHook:
    """Makes of an older state dictionary, with the weight itself and without `v`, one of today."""

    def __init__(self, fn):
        self.fn = fn

    def __call__(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        weight = prefix + self.fn.name
        version = local_metadata.get("spectral_norm", {}).get(f"{self.fn.name}.version")
        if version is not None and version >= 1:
            return
        if (
            version is None
            and weight not in state_dict
            and all(f"{weight}_{s}" in state_dict for s in ("orig", "u", "v"))
        ):
            return
        missing = [key for key in (f"{weight}_orig", weight, f"{weight}_u") if key not in state_dict]
        if missing:
            if strict:
                missing_keys.extend(missing)
            return
        with torch.no_grad():
            orig = state_dict[f"{weight}_orig"]
            sigma = (orig / state_dict.pop(weight)).mean()
            state_dict[f"{weight}_v"] = self.fn.vector_of(orig, state_dict[f"{weight}_u"], sigma)


def spectral_norm(module, name="weight", n_power_iterations=1, eps=1e-12, dim=None):
    """Divides a weight by its largest singular value, as `n_power_iterations` steps of each forward in training estimate it.

    The weight is seen as a matrix whose rows are `dim`: 0, or 1 for transposed convolutions. Returns the module.
    `parametrizations.spectral_norm` is newer.
    """
    if find_hook(module, SpectralNorm, name) is not None:
        raise RuntimeError(f"Cannot register two spectral_norm hooks on the same parameter {name}")
    hook = SpectralNorm(name, n_power_iterations, output_dim(module) if dim is None else dim, eps)
    weight = module._parameters[name]
    if weight is None:
        raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
    if isinstance(weight, UninitializedParameter):
        raise ValueError(
            "The module passed to `SpectralNorm` can't have uninitialized parameters. Make sure to run the dummy forward "
            "before applying spectral normalization"
        )
    with torch.no_grad():
        sizes = hook.reshape_weight_to_matrix(weight).shape
        u, v = (F.normalize(weight.new_empty(n).normal_(0, 1), dim=0, eps=eps) for n in sizes)
    delattr(module, name)
    module.register_parameter(f"{name}_orig", weight)
    setattr(module, name, weight.data)
    module.register_buffer(f"{name}_u", u)
    module.register_buffer(f"{name}_v", v)
    module.register_forward_pre_hook(hook)
    module._register_state_dict_hook(SpectralNormStateDictHook(hook))
    module._register_load_state_dict_pre_hook(SpectralNormLoadStateDictPreHook(hook))
    return module


def remove_spectral_norm(module, name="weight"):
    """Makes `name` an ordinary parameter again; returns the module. Raises `ValueError` where it is one."""
    number = find_hook(module, SpectralNorm, name)
    if number is None:
        raise ValueError(f"spectral_norm of '{name}' not found in {module}")
    with torch.no_grad():
        weight = module._forward_pre_hooks.pop(number).compute_weight(module, do_power_iteration=False)
    for part in (name, f"{name}_u", f"{name}_v", f"{name}_orig"):
        delattr(module, part)
    module.register_parameter(name, Parameter(weight.detach()))
    for hooks, kind in (
        (module._state_dict_hooks, SpectralNormStateDictHook),
        (module._load_state_dict_pre_hooks, SpectralNormLoadStateDictPreHook),
    ):
        for key, hook in list(hooks.items()):
            hook = getattr(hook, "hook", hook)  # from a file of PyTorch, it is wrapped
            if isinstance(hook, kind) and hook.fn.name == name:
                del hooks[key]
    return module
