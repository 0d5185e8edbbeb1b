"""Functions behind the modules, with PyTorch's signatures.

What is a single op of the table is that op itself, looked up on first use (see the end of the file); the functions
written out here only sort arguments or compose a few tensor methods.
"""

import math
import warnings

import pytpu as torch
from pytpu import _C

_ops = _C._ops

# aten's numbers for the `reduction` argument.
_REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}


def _reduction(reduction, size_average=None, reduce=None):
    if size_average is not None or reduce is not None:
        size_average = True if size_average is None else size_average
        reduce = True if reduce is None else reduce
        reduction = "none" if not reduce else "mean" if size_average else "sum"
        warnings.warn(
            f"size_average and reduce args will be deprecated, please use reduction='{reduction}' instead.",
            stacklevel=3,
        )
    if reduction not in _REDUCTIONS:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return reduction


def _reduced(loss, reduction):
    if reduction == "mean":
        return loss.mean()
    return loss.sum() if reduction == "sum" else loss


def _tuple(value, n):
    return (value,) * n if isinstance(value, int) else tuple(value)


def _probability(p):
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


# ---- activations


def _activation(name, inplace_name=None):
    inplace_name = inplace_name or name + "_"

    def activation(input, inplace=False):
        return getattr(_ops, inplace_name if inplace else name)(input)

    activation.__name__ = activation.__qualname__ = name
    activation.__doc__ = f"Applies `{name}` to every element."
    return activation


relu = _activation("relu")
relu6 = _activation("relu6")
selu = _activation("selu")
silu = _activation("silu")
mish = _activation("mish")
hardsigmoid = _activation("hardsigmoid")
hardswish = _activation("hardswish")


def threshold(input, threshold, value, inplace=False):
    """Keeps elements above `threshold` and replaces the others by `value`."""
    return (_ops.threshold_ if inplace else _ops.threshold)(input, threshold, value)


def hardtanh(input, min_val=-1.0, max_val=1.0, inplace=False):
    """Clamps to [min_val, max_val]."""
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    return (_ops.hardtanh_ if inplace else _ops.hardtanh)(input, min_val, max_val)


def elu(input, alpha=1.0, inplace=False):
    """x above zero, alpha * (exp(x) - 1) below."""
    return (_ops.elu_ if inplace else _ops.elu)(input, alpha)


def celu(input, alpha=1.0, inplace=False):
    """max(0, x) + min(0, alpha * (exp(x / alpha) - 1))."""
    return (_ops.celu_ if inplace else _ops.celu)(input, alpha)


def leaky_relu(input, negative_slope=0.01, inplace=False):
    """x above zero, negative_slope * x below."""
    return (_ops.leaky_relu_ if inplace else _ops.leaky_relu)(input, negative_slope)


def rrelu(input, lower=1.0 / 8, upper=1.0 / 3, training=False, inplace=False):
    """Leaky ReLU with a slope drawn from [lower, upper], or their mean outside training."""
    return (_ops.rrelu_ if inplace else _ops.rrelu)(input, lower, upper, training)


def glu(input, dim=-1):
    """First half times the sigmoid of the second half."""
    if input.dim() == 0:
        raise RuntimeError("glu does not support scalars because halving size must be even")
    return _ops.glu(input, dim)


def tanhshrink(input):
    """x - tanh(x)."""
    return input - input.tanh()


def softsign(input):
    """x / (1 + |x|)."""
    return input / (input.abs() + 1)


def tanh(input):
    """The hyperbolic tangent."""
    return input.tanh()


def sigmoid(input):
    """1 / (1 + exp(-x))."""
    return input.sigmoid()


def _softmax_dim(name, ndim, stacklevel):
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument.",
        stacklevel=stacklevel,
    )
    return 0 if ndim in (0, 1, 3) else 1


def softmax(input, dim=None, _stacklevel=3, dtype=None):
    """exp(x) over its sum along `dim`."""
    if dim is None:
        dim = _softmax_dim("softmax", input.dim(), _stacklevel)
    return input.softmax(dim) if dtype is None else input.softmax(dim, dtype=dtype)


def softmin(input, dim=None, _stacklevel=3, dtype=None):
    """The softmax of -x."""
    if dim is None:
        dim = _softmax_dim("softmin", input.dim(), _stacklevel)
    return (-input).softmax(dim) if dtype is None else (-input).softmax(dim, dtype=dtype)


def log_softmax(input, dim=None, _stacklevel=3, dtype=None):
    """The logarithm of the softmax along `dim`."""
    if dim is None:
        dim = _softmax_dim("log_softmax", input.dim(), _stacklevel)
    return input.log_softmax(dim) if dtype is None else input.log_softmax(dim, dtype=dtype)


def gumbel_softmax(logits, tau=1, hard=False, eps=1e-10, dim=-1):
    """A sample from the Gumbel-softmax distribution; with `hard` one-hot forward and soft backward."""
    if eps != 1e-10:
        warnings.warn("`eps` parameter is deprecated and has no effect.", stacklevel=2)
    noise = -torch.empty_like(logits).exponential_().log()
    soft = ((logits + noise) / tau).softmax(dim)
    if not hard:
        return soft
    index = soft.max(dim, keepdim=True)[1]
    one_hot = torch.zeros_like(logits).scatter_(dim, index, 1.0)
    return one_hot - soft.detach() + soft


# ---- dropout


def dropout(input, p=0.5, training=True, inplace=False):
    """Zeroes elements with probability p and scales the rest by 1 / (1 - p), in training."""
    _probability(p)
    return (_ops.dropout_ if inplace else _ops.dropout)(input, p, training)


def alpha_dropout(input, p=0.5, training=False, inplace=False):
    """Dropout that keeps the mean and variance of a SELU network."""
    _probability(p)
    return (_ops.alpha_dropout_ if inplace else _ops.alpha_dropout)(input, p, training)


def feature_alpha_dropout(input, p=0.5, training=False, inplace=False):
    """Alpha dropout of whole channels."""
    _probability(p)
    return (_ops.feature_alpha_dropout_ if inplace else _ops.feature_alpha_dropout)(input, p, training)


def dropout1d(input, p=0.5, training=True, inplace=False):
    """Dropout of whole channels of a (N, C, L) or (C, L) input."""
    _probability(p)
    ndim = input.dim()
    if ndim not in (2, 3):
        raise RuntimeError(
            f"dropout1d: Expected 2D or 3D input, but received a {ndim}D input. Note that dropout1d exists to provide "
            "channel-wise dropout on inputs with 1 spatial dimension, a channel dimension, and an optional batch "
            "dimension (i.e. 2D or 3D inputs)."
        )
    if ndim == 3:
        return (_ops.feature_dropout_ if inplace else _ops.feature_dropout)(input, p, training)
    batch = input.unsqueeze_(0) if inplace else input.unsqueeze(0)
    result = (_ops.feature_dropout_ if inplace else _ops.feature_dropout)(batch, p, training)
    return result.squeeze_(0) if inplace else result.squeeze(0)


def dropout2d(input, p=0.5, training=True, inplace=False):
    """Dropout of whole channels of a (N, C, H, W) input."""
    _probability(p)
    ndim = input.dim()
    if ndim not in (3, 4):
        warnings.warn(
            f"dropout2d: Received a {ndim}-D input to dropout2d, which is deprecated and will result in an error in a "
            "future release. To retain the behavior and silence this warning, please use dropout instead. Note that "
            "dropout2d exists to provide channel-wise dropout on inputs with 2 spatial dimensions, a channel dimension, "
            "and an optional batch dimension (i.e. 3D or 4D inputs).",
            stacklevel=2,
        )
    if ndim == 3:
        warnings.warn(
            "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout behavior is desired "
            "- input is interpreted as shape (N, C, L), where C is the channel dim. This behavior will change in a "
            "future release to interpret the input as one without a batch dimension, i.e. shape (C, H, W). To maintain "
            "the 1D channel-wise dropout behavior, please switch to using dropout1d instead.",
            stacklevel=2,
        )
    return (_ops.feature_dropout_ if inplace else _ops.feature_dropout)(input, p, training)


def dropout3d(input, p=0.5, training=True, inplace=False):
    """Dropout of whole channels of a (N, C, D, H, W) or (C, D, H, W) input."""
    _probability(p)
    ndim = input.dim()
    if ndim not in (4, 5):
        warnings.warn(
            f"dropout3d: Received a {ndim}-D input to dropout3d, which is deprecated and will result in an error in a "
            "future release. To retain the behavior and silence this warning, please use dropout instead. Note that "
            "dropout3d exists to provide channel-wise dropout on inputs with 3 spatial dimensions, a channel dimension, "
            "and an optional batch dimension (i.e. 4D or 5D inputs).",
            stacklevel=2,
        )
    if ndim != 4:
        return (_ops.feature_dropout_ if inplace else _ops.feature_dropout)(input, p, training)
    batch = input.unsqueeze_(0) if inplace else input.unsqueeze(0)
    result = (_ops.feature_dropout_ if inplace else _ops.feature_dropout)(batch, p, training)
    return result.squeeze_(0) if inplace else result.squeeze(0)


# ---- embedding


def _renorm_rows(weight, indices, max_norm, norm_type):
    with torch.no_grad():
        _ops.embedding_renorm_(weight, indices.contiguous(), max_norm, norm_type)


def embedding(
    input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False
):
    """Rows of `weight` by index."""
    if padding_idx is None:
        padding_idx = -1
    else:
        rows = weight.size(0)
        if not -rows <= padding_idx < rows:
            raise AssertionError("Padding_idx must be within num_embeddings")
        padding_idx %= rows
    if max_norm is not None:
        input = input.contiguous()
        _renorm_rows(weight, input, max_norm, norm_type)
    return _ops.embedding(weight, input, padding_idx, scale_grad_by_freq, sparse)


def embedding_bag(
    input,
    weight,
    offsets=None,
    max_norm=None,
    norm_type=2,
    scale_grad_by_freq=False,
    mode="mean",
    sparse=False,
    per_sample_weights=None,
    include_last_offset=False,
    padding_idx=None,
):
    """Sums, means or maxima of bags of rows of `weight`."""
    if weight.dtype in (torch.int64, torch.int32) and input.is_floating_point():
        warnings.warn(
            "Argument order of nn.functional.embedding_bag was changed. "
            "Usage `embedding_bag(weight, input, ...)` is deprecated, and should now be "
            "`embedding_bag(input, weight, ...)`.",
            stacklevel=2,
        )
        weight, input = input, weight
    if per_sample_weights is not None and input.size() != per_sample_weights.size():
        raise ValueError(
            f"embedding_bag: If per_sample_weights ({per_sample_weights.shape}) is not None, then it must have the "
            f"same shape as the input ({input.shape})"
        )
    if weight.dim() != 2:
        raise ValueError(f"weight has to be a 2D Tensor, but got Tensor of dimension {weight.dim()}")
    if input.dim() == 2:
        if offsets is not None:
            raise ValueError(
                "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length "
                f"sequences. However, found offsets of type {type(offsets)}"
            )
        offsets = torch.arange(0, input.numel(), input.size(1), dtype=input.dtype, device=input.device)
        input = input.reshape(-1)
        if per_sample_weights is not None:
            per_sample_weights = per_sample_weights.reshape(-1)
    elif input.dim() == 1:
        if offsets is None:
            raise ValueError("offsets has to be a 1D Tensor but got None")
        if offsets.dim() != 1:
            raise ValueError("offsets has to be a 1D Tensor")
    else:
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.dim()}")
    modes = {"sum": 0, "mean": 1, "max": 2}
    if mode not in modes:
        raise ValueError("mode has to be one of sum, mean or max")
    if mode == "max" and scale_grad_by_freq:
        raise ValueError("max mode does not support scaling the gradient by the frequency")
    if mode == "max" and sparse:
        raise ValueError("max mode does not support sparse weights")
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum' "
            f"(got mode='{mode}'). Please open a feature request on GitHub."
        )
    if max_norm is not None:
        _renorm_rows(weight, input, max_norm, norm_type)
    # aten takes the padding row as a position and -1 as "none" only where it is left out.
    extra = () if padding_idx is None else (padding_idx,)
    return _ops.embedding_bag(
        weight, input, offsets, scale_grad_by_freq, modes[mode], sparse, per_sample_weights, include_last_offset, *extra
    )[0]


# ---- normalisation


def _verify_batch_size(size):
    count = size[0]
    for n in size[2:]:
        count *= n
    if count == 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {size}")


def batch_norm(
    input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5
):
    """Normalises every channel over the batch and the spatial dimensions."""
    if training:
        _verify_batch_size(input.size())
        if eps <= 0.0:
            raise ValueError(f"batch_norm eps must be positive during training, but got {eps}")
    return _ops.batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, False)


def instance_norm(
    input, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1, eps=1e-5
):
    """Normalises every channel of every sample over the spatial dimensions."""
    if use_input_stats:
        count = 1
        for n in input.size()[2:]:
            count *= n
        if count == 1:
            raise ValueError(
                f"Expected more than 1 spatial element when training, got input size {input.size()}"
            )
    return _ops.instance_norm(
        input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, False
    )


def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    """Normalises over the trailing dimensions."""
    return _ops.layer_norm(input, normalized_shape, weight, bias, eps)


def rms_norm(input, normalized_shape, weight=None, eps=None):
    """Divides by the root mean square over the trailing dimensions."""
    return _ops.rms_norm(input, normalized_shape, weight, eps)


def group_norm(input, num_groups, weight=None, bias=None, eps=1e-5):
    """Normalises groups of channels of every sample."""
    if input.dim() < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {input.dim()}")
    size = input.size()
    _verify_batch_size([size[0] * size[1] // num_groups, num_groups, *size[2:]])
    return _ops.group_norm(input, num_groups, weight, bias, eps)


def local_response_norm(input, size, alpha=1e-4, beta=0.75, k=1.0):
    """Divides by a power of the mean square of neighbouring channels."""
    ndim = input.dim()
    if ndim < 3:
        raise ValueError(f"Expected 3D or higher dimensionality                          input (got {ndim} dimensions)")
    if input.numel() == 0:
        return input
    square = (input * input).unsqueeze(1)
    if ndim == 3:
        square = pad(square, (0, 0, size // 2, (size - 1) // 2))
        mean = avg_pool2d(square, (size, 1), stride=1).squeeze(1)
    else:
        shape = input.size()
        square = square.reshape(shape[0], 1, shape[1], shape[2], -1)
        square = pad(square, (0, 0, 0, 0, size // 2, (size - 1) // 2))
        mean = avg_pool3d(square, (size, 1, 1), stride=1).squeeze(1).reshape(shape)
    return input / (mean * alpha + k) ** beta


def normalize(input, p=2.0, dim=1, eps=1e-12, out=None):
    """Divides by the p-norm along `dim`."""
    norm = input.norm(p, dim, keepdim=True).clamp_min(eps).expand_as(input)
    return input / norm if out is None else torch.div(input, norm, out=out)


# ---- pooling


def _max_pool(n):
    plain, indexed = f"max_pool{n}d", f"max_pool{n}d_with_indices"

    def with_indices(
        input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False
    ):
        stride = [] if stride is None else stride
        return getattr(_ops, indexed)(input, kernel_size, stride, padding, dilation, ceil_mode)

    def pool(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
        stride = [] if stride is None else stride
        return getattr(_ops, indexed if return_indices else plain)(
            input, kernel_size, stride, padding, dilation, ceil_mode
        )

    pool.__name__ = pool.__qualname__ = plain
    pool.__doc__ = f"The maximum of every window of {n} spatial dimensions."
    with_indices.__name__ = with_indices.__qualname__ = indexed
    with_indices.__doc__ = "The maximum of every window, and where in its channel it was."
    return pool, with_indices


max_pool1d, max_pool1d_with_indices = _max_pool(1)
max_pool2d, max_pool2d_with_indices = _max_pool(2)
max_pool3d, max_pool3d_with_indices = _max_pool(3)


def avg_pool1d(input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True):
    """The mean of every window of the last dimension."""
    return _ops.avg_pool1d(
        input, kernel_size, [] if stride is None else stride, padding, ceil_mode, count_include_pad
    )


def avg_pool2d(
    input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None
):
    """The mean of every window of the last two dimensions."""
    return _ops.avg_pool2d(
        input, kernel_size, [] if stride is None else stride, padding, ceil_mode, count_include_pad, divisor_override
    )


def avg_pool3d(
    input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None
):
    """The mean of every window of the last three dimensions."""
    return _ops.avg_pool3d(
        input, kernel_size, [] if stride is None else stride, padding, ceil_mode, count_include_pad, divisor_override
    )


def _spatial(input, output_size):
    """`output_size` with its `None`s replaced by the input's own sizes."""
    if isinstance(output_size, int):
        return output_size
    size = input.size()
    if len(size) <= len(output_size):
        raise ValueError(f"Input dimension should be at least {len(output_size) + 1}")
    tail = size[len(size) - len(output_size):]
    return [n if want is None else want for n, want in zip(tail, output_size)]


def _adaptive(n):
    def average(input, output_size):
        size = _spatial(input, (None,) * n if output_size is None else output_size)
        return getattr(_ops, f"adaptive_avg_pool{n}d")(input, _tuple(size, n))

    def maximum_with_indices(input, output_size, return_indices=False):
        size = _spatial(input, (None,) * n if output_size is None else output_size)
        return getattr(_ops, f"adaptive_max_pool{n}d")(input, _tuple(size, n))

    def maximum(input, output_size, return_indices=False):
        pooled = maximum_with_indices(input, output_size)
        return pooled if return_indices else pooled[0]

    for function, name in (
        (average, f"adaptive_avg_pool{n}d"),
        (maximum, f"adaptive_max_pool{n}d"),
        (maximum_with_indices, f"adaptive_max_pool{n}d_with_indices"),
    ):
        function.__name__ = function.__qualname__ = name
        function.__doc__ = "Pools to a given output size."
    return average, maximum, maximum_with_indices


adaptive_avg_pool1d, adaptive_max_pool1d, adaptive_max_pool1d_with_indices = _adaptive(1)
adaptive_avg_pool2d, adaptive_max_pool2d, adaptive_max_pool2d_with_indices = _adaptive(2)
adaptive_avg_pool3d, adaptive_max_pool3d, adaptive_max_pool3d_with_indices = _adaptive(3)


def _fractional(n):
    plain, indexed = f"fractional_max_pool{n}d", f"fractional_max_pool{n}d_with_indices"

    def with_indices(
        input, kernel_size, output_size=None, output_ratio=None, return_indices=False, _random_samples=None
    ):
        if output_size is None and output_ratio is None:
            raise ValueError(f"{plain} requires specifying either an output_size or an output_ratio")
        if output_size is None:
            ratio = output_ratio if isinstance(output_ratio, (tuple, list)) else (output_ratio,) * n
            output_size = [int(size * r) for size, r in zip(input.size()[-n:], ratio)]
        if _random_samples is None:
            batch = 1 if input.dim() == n + 1 else input.size(0)
            _random_samples = torch.rand(
                batch, input.size(-n - 1), n, dtype=input.dtype, device=input.device
            )
        return getattr(_ops, plain)(input, _tuple(kernel_size, n), _tuple(output_size, n), _random_samples)

    def pool(input, kernel_size, output_size=None, output_ratio=None, return_indices=False, _random_samples=None):
        pooled = with_indices(input, kernel_size, output_size, output_ratio, return_indices, _random_samples)
        return pooled if return_indices else pooled[0]

    pool.__name__ = pool.__qualname__ = plain
    pool.__doc__ = "Maxima of windows whose places are drawn at random."
    with_indices.__name__ = with_indices.__qualname__ = indexed
    with_indices.__doc__ = "Maxima of windows whose places are drawn at random, and where they were."
    return pool, with_indices


fractional_max_pool2d, fractional_max_pool2d_with_indices = _fractional(2)
fractional_max_pool3d, fractional_max_pool3d_with_indices = _fractional(3)


def _lp_pool(n):
    def pool(input, norm_type, kernel_size, stride=None, ceil_mode=False):
        kernel = _tuple(kernel_size, n)
        average = (avg_pool1d, avg_pool2d, avg_pool3d)[n - 1]
        mean = average(input.pow(norm_type), kernel, stride, 0, ceil_mode)
        return (torch.sign(mean) * relu(torch.abs(mean)) * math.prod(kernel)).pow(1.0 / norm_type)

    pool.__name__ = pool.__qualname__ = f"lp_pool{n}d"
    pool.__doc__ = "The p-norm of every window."
    return pool


lp_pool1d, lp_pool2d, lp_pool3d = _lp_pool(1), _lp_pool(2), _lp_pool(3)


def _unpool_output_size(input, kernel_size, stride, padding, output_size):
    n = len(kernel_size)
    spatial = input.size()[-n:]
    default = [(spatial[d] - 1) * stride[d] + kernel_size[d] - 2 * padding[d] for d in range(n)]
    if output_size is None:
        return default
    if len(output_size) == n + 2:
        output_size = output_size[2:]
    if len(output_size) != n:
        raise ValueError(
            "output_size should be a sequence containing "
            f"{n} or {n + 2} elements, but it has a length of '{len(output_size)}'"
        )
    for d in range(n):
        if not default[d] - stride[d] < output_size[d] < default[d] + stride[d]:
            raise ValueError(
                f'invalid output_size "{output_size}" (dim {d} must be between '
                f"{default[d] - stride[d]} and {default[d] + stride[d]})"
            )
    return list(output_size)


def _max_unpool(n):
    def unpool(input, indices, kernel_size, stride=None, padding=0, output_size=None):
        kernel = _tuple(kernel_size, n)
        steps = kernel if stride is None else _tuple(stride, n)
        padding = _tuple(padding, n)
        size = _unpool_output_size(input, kernel, steps, padding, output_size)
        if n == 1:
            return _ops.max_unpool2d(input.unsqueeze(-1), indices.unsqueeze(-1), [*size, 1]).squeeze(-1)
        if n == 2:
            return _ops.max_unpool2d(input, indices, size)
        return _ops.max_unpool3d(input, indices, size, steps, padding)

    unpool.__name__ = unpool.__qualname__ = f"max_unpool{n}d"
    unpool.__doc__ = "Puts pooled maxima back where they were; zero elsewhere."
    return unpool


max_unpool1d, max_unpool2d, max_unpool3d = _max_unpool(1), _max_unpool(2), _max_unpool(3)


# ---- images and padding


def pad(input, pad, mode="constant", value=None):
    """Pads the trailing dimensions, last first: (left, right, top, bottom, ...)."""
    return _ops.pad(input, pad, mode, value)


def unfold(input, kernel_size, dilation=1, padding=0, stride=1):
    """The sliding blocks of an image as columns."""
    return _ops.im2col(
        input, _tuple(kernel_size, 2), _tuple(dilation, 2), _tuple(padding, 2), _tuple(stride, 2)
    )


def fold(input, output_size, kernel_size, dilation=1, padding=0, stride=1):
    """Adds columns back into an image; the opposite of `unfold`."""
    return _ops.col2im(
        input,
        _tuple(output_size, 2),
        _tuple(kernel_size, 2),
        _tuple(dilation, 2),
        _tuple(padding, 2),
        _tuple(stride, 2),
    )


_INTERPOLATE = {
    (3, "nearest"): "upsample_nearest1d",
    (4, "nearest"): "upsample_nearest2d",
    (5, "nearest"): "upsample_nearest3d",
    (3, "nearest-exact"): "_upsample_nearest_exact1d",
    (4, "nearest-exact"): "_upsample_nearest_exact2d",
    (5, "nearest-exact"): "_upsample_nearest_exact3d",
    (3, "linear"): "upsample_linear1d",
    (4, "bilinear"): "upsample_bilinear2d",
    (5, "trilinear"): "upsample_trilinear3d",
    (4, "bicubic"): "upsample_bicubic2d",
    (4, "lanczos"): "_upsample_lanczos2d",
}


def interpolate(
    input,
    size=None,
    scale_factor=None,
    mode="nearest",
    align_corners=None,
    recompute_scale_factor=None,
    antialias=False,
):
    """Resizes the spatial dimensions."""
    if mode in ("nearest", "area", "nearest-exact"):
        if align_corners is not None:
            raise ValueError(
                "align_corners option can only be set with the interpolating modes: "
                "linear | bilinear | bicubic | trilinear"
            )
    elif align_corners is None:
        align_corners = False
    n = input.dim() - 2
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    if size is None and scale_factor is None:
        raise ValueError("either size or scale_factor should be defined")
    output_size = scale_factors = None
    if size is not None:
        if isinstance(size, (list, tuple)):
            if len(size) != n:
                raise ValueError(
                    "Input and output must have the same number of spatial dimensions, but got input with spatial "
                    f"dimensions of {list(input.shape[2:])} and output size of {size}. Please provide input tensor in "
                    "(N, C, d1, d2, ...,dK) format and output size in (o1, o2, ...,oK) format."
                )
            output_size = list(size)
        else:
            output_size = [size] * n
    else:
        if isinstance(scale_factor, (list, tuple)):
            if len(scale_factor) != n:
                raise ValueError(
                    "Input and scale_factor must have the same number of spatial dimensions, but got input with spatial "
                    f"dimensions of {list(input.shape[2:])} and scale_factor of shape {scale_factor}. Please provide "
                    "input tensor in (N, C, d1, d2, ...,dK) format and scale_factor in (s1, s2, ...,sK) format."
                )
            scale_factors = list(scale_factor)
        else:
            scale_factors = [scale_factor] * n
    if recompute_scale_factor and size is not None:
        raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
    if mode == "area" and output_size is None:
        recompute_scale_factor = True
    if recompute_scale_factor:
        output_size = [math.floor(float(input.size(i + 2)) * scale_factors[i]) for i in range(n)]
        scale_factors = None
    if antialias and not (mode in ("bilinear", "bicubic", "lanczos") and input.dim() == 4):
        raise ValueError(
            "Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and requires a 4-D tensor as input"
        )
    if mode == "area" and n in (1, 2, 3):
        return (adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d)[n - 1](input, output_size)
    name = _INTERPOLATE.get((input.dim(), mode))
    if name is None:
        expected = {"linear": "3D", "bilinear": "4D", "trilinear": "5D"}
        if input.dim() in (3, 4, 5) and mode in expected:
            raise NotImplementedError(f"Got {input.dim()}D input, but {mode} mode needs {expected[mode]} input")
        raise NotImplementedError(
            "Input Error: Only 3D, 4D and 5D input Tensors supported "
            f"(got {input.dim()}D) for the modes: nearest | linear | bilinear | bicubic | trilinear | lanczos | "
            f"area | nearest-exact (got {mode})"
        )
    if mode == "lanczos":
        if align_corners:
            raise ValueError("Lanczos mode does not support align_corners=True")
        if not antialias:
            raise ValueError("Lanczos mode requires antialias=True")
    if antialias:
        name = f"_{name.lstrip('_')}_aa"
    corners = () if mode in ("nearest", "nearest-exact") else (align_corners,)
    return getattr(_ops, name)(input, output_size, *corners, scale_factors)


def upsample(input, size=None, scale_factor=None, mode="nearest", align_corners=None):
    """The older name of `interpolate`."""
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input, size=None, scale_factor=None):
    """`interpolate` with mode nearest."""
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(input, size=None, scale_factor=None):
    """`interpolate` with mode bilinear and aligned corners."""
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


def grid_sample(input, grid, mode="bilinear", padding_mode="zeros", align_corners=None):
    """Samples an image at the points of a grid."""
    modes = {"bilinear": 0, "nearest": 1, "bicubic": 2}
    paddings = {"zeros": 0, "border": 1, "reflection": 2}
    if mode not in modes:
        raise ValueError(
            "nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', "
            f"but got: '{mode}'"
        )
    if padding_mode not in paddings:
        raise ValueError(
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', "
            f"but got: '{padding_mode}'"
        )
    if align_corners is None:
        warnings.warn(
            "Default grid_sample and affine_grid behavior has changed to align_corners=False since 1.3.0. Please "
            "specify align_corners=True if the old behavior is desired. See the documentation of grid_sample for "
            "details.",
            stacklevel=2,
        )
        align_corners = False
    return _ops.grid_sampler(input, grid, modes[mode], paddings[padding_mode], align_corners)


def affine_grid(theta, size, align_corners=None):
    """The sampling grid of a batch of affine maps."""
    if align_corners is None:
        warnings.warn(
            "Default grid_sample and affine_grid behavior has changed to align_corners=False since 1.3.0. Please "
            "specify align_corners=True if the old behavior is desired. See the documentation of grid_sample for "
            "details.",
            stacklevel=2,
        )
        align_corners = False
    if not theta.is_floating_point():
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    want = {4: (2, 3), 5: (3, 4)}.get(len(size))
    if want is None:
        raise NotImplementedError(
            "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively. "
            f"Got size {size}."
        )
    if theta.dim() != 3 or tuple(theta.shape[-2:]) != want:
        raise ValueError(
            f"Expected a batch of {want[0]}D affine matrices of shape Nx{want[0]}x{want[1]} for size {size}. "
            f"Got {theta.shape}."
        )
    if min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {size}")
    return _ops.affine_grid_generator(theta, list(size), align_corners)


# ---- losses


def _paired(input, target):
    """Broadcasts a loss's operands, with PyTorch's warning that they differ."""
    if target.size() != input.size():
        warnings.warn(
            f"Using a target size ({target.size()}) that is different to the input size ({input.size()}). This will "
            "likely lead to incorrect results due to broadcasting. Please ensure they have the same size.",
            stacklevel=3,
        )
        return torch.broadcast_tensors(input, target)
    return input, target


def _weighted(loss, weight, reduction):
    if weight is None:
        return _reduced(loss, reduction)
    if weight.size() != loss.size():
        raise ValueError("Weights and input must have the same size.")
    loss = loss * weight
    return loss.sum() / weight.sum() if reduction == "mean" else _reduced(loss, reduction)


def mse_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    """The mean squared difference."""
    reduction = _reduction(reduction, size_average, reduce)
    input, target = _paired(input, target)
    if weight is not None:
        return _weighted(_ops.mse_loss(input, target, 0), weight, reduction)
    return _ops.mse_loss(input, target, _REDUCTIONS[reduction])


def l1_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    """The mean absolute difference."""
    reduction = _reduction(reduction, size_average, reduce)
    input, target = _paired(input, target)
    return _weighted((input - target).abs(), weight, reduction)


def smooth_l1_loss(input, target, size_average=None, reduce=None, reduction="mean", beta=1.0):
    """Squared below `beta`, absolute above."""
    reduction = _reduction(reduction, size_average, reduce)
    input, target = _paired(input, target)
    if beta < 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
    gap = (input - target).abs()
    if beta == 0.0:
        return _reduced(gap, reduction)
    return _reduced(torch.where(gap < beta, 0.5 * gap * gap / beta, gap - 0.5 * beta), reduction)


def huber_loss(input, target, reduction="mean", delta=1.0, weight=None):
    """Half the square below `delta`, linear above."""
    reduction = _reduction(reduction)
    input, target = _paired(input, target)
    if delta <= 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")
    gap = (input - target).abs()
    return _weighted(torch.where(gap < delta, 0.5 * gap * gap, delta * (gap - 0.5 * delta)), weight, reduction)


def cross_entropy(
    input,
    target,
    weight=None,
    size_average=None,
    ignore_index=-100,
    reduce=None,
    reduction="mean",
    label_smoothing=0.0,
):
    """The cross entropy of logits with class indices or class probabilities."""
    reduction = _reduction(reduction, size_average, reduce)
    return _ops.cross_entropy_loss(input, target, weight, _REDUCTIONS[reduction], ignore_index, label_smoothing)


def nll_loss(
    input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean"
):
    """The negative log likelihood of class indices."""
    reduction = _reduction(reduction, size_average, reduce)
    return _ops.nll_loss_nd(input, target, weight, _REDUCTIONS[reduction], ignore_index)


def binary_cross_entropy(input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    """The cross entropy of probabilities with targets between 0 and 1."""
    reduction = _reduction(reduction, size_average, reduce)
    if target.size() != input.size():
        raise ValueError(
            f"Using a target size ({target.size()}) that is different to the input size ({input.size()}) is "
            "deprecated. Please ensure they have the same size."
        )
    if weight is not None:
        weight = weight.expand(torch.broadcast_shapes(target.size(), weight.size()))
    return _ops.binary_cross_entropy(input, target, weight, _REDUCTIONS[reduction])


def binary_cross_entropy_with_logits(
    input, target, weight=None, size_average=None, reduce=None, reduction="mean", pos_weight=None
):
    """The cross entropy of sigmoid(input) with targets between 0 and 1, without overflow."""
    reduction = _reduction(reduction, size_average, reduce)
    if target.size() != input.size():
        raise ValueError(f"Target size ({target.size()}) must be the same as input size ({input.size()})")
    log_sigmoid = _ops.log_sigmoid(input)
    if pos_weight is not None:
        log_sigmoid = ((pos_weight - 1) * target + 1) * log_sigmoid
    loss = (1 - target) * input - log_sigmoid
    if weight is not None:
        loss = loss * weight
    return _reduced(loss, reduction)


def kl_div(input, target, size_average=None, reduce=None, reduction="mean", log_target=False):
    """The Kullback-Leibler divergence of log-probabilities from a target distribution."""
    batchmean = reduction == "batchmean"
    if batchmean:
        if size_average is not None or reduce is not None:
            reduction = _reduction("sum", size_average, reduce)
        else:
            reduction = "sum"
    else:
        reduction = _reduction(reduction, size_average, reduce)
        if reduction == "mean":
            warnings.warn(
                "reduction: 'mean' divides the total loss by both the batch size and the support size."
                "'batchmean' divides only by the batch size, and aligns with the KL div math definition."
                "'mean' will be changed to behave the same as 'batchmean' in the next major release.",
                stacklevel=2,
            )
    if log_target:
        loss = target.exp() * (target - input)
    else:
        loss = torch.xlogy(target, target) - target * input
    loss = _reduced(loss, reduction)
    return loss / input.size(0) if batchmean and input.dim() != 0 else loss


def poisson_nll_loss(
    input, target, log_input=True, full=False, size_average=None, eps=1e-8, reduce=None, reduction="mean"
):
    """The negative log likelihood of counts under a Poisson distribution."""
    reduction = _reduction(reduction, size_average, reduce)
    loss = input.exp() - target * input if log_input else input - target * (input + eps).log()
    if full:
        stirling = target * target.log() - target + 0.5 * (2 * math.pi * target).log()
        loss = loss + stirling.masked_fill(target <= 1, 0)
    return _reduced(loss, reduction)


def gaussian_nll_loss(input, target, var, full=False, eps=1e-6, reduction="mean"):
    """The negative log likelihood under Gaussians of the given variances."""
    if isinstance(var, (int, float)):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        var = var * torch.ones_like(input)
    elif (var < 0).any():
        raise ValueError("var has negative entry/entries")
    if var.size() != input.size():
        if input.size()[:-1] == var.size():
            var = var.unsqueeze(-1)
        elif input.dim() == var.dim() and all(a == b or 1 in (a, b) for a, b in zip(input.size(), var.size())):
            pass
        else:
            raise ValueError("var is of incorrect size")
    if reduction not in _REDUCTIONS:
        raise ValueError(reduction + " is not valid")
    # The floor of the variance is not part of the function that is differentiated.
    var = var.clone()
    with torch.no_grad():
        var.clamp_(min=eps)
    loss = 0.5 * (var.log() + (input - target) ** 2 / var)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return _reduced(loss, reduction)


def soft_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    """log(1 + exp(-target * input))."""
    reduction = _reduction(reduction, size_average, reduce)
    return _reduced((-target * input).exp().log1p(), reduction)


def multilabel_soft_margin_loss(
    input, target, weight=None, size_average=None, reduce=None, reduction="mean"
):
    """The mean over classes of the binary cross entropy of logits."""
    reduction = _reduction(reduction, size_average, reduce)
    loss = -(target * _ops.log_sigmoid(input) + (1 - target) * _ops.log_sigmoid(-input))
    if weight is not None:
        loss = loss * weight
    return _reduced(loss.sum(dim=input.dim() - 1) / input.size(input.dim() - 1), reduction)


def multilabel_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    """The margin loss over several target classes a sample."""
    reduction = _reduction(reduction, size_average, reduce)
    return _ops.multilabel_margin_loss(input, target, _REDUCTIONS[reduction])


def multi_margin_loss(
    input, target, p=1, margin=1.0, weight=None, size_average=None, reduce=None, reduction="mean"
):
    """The multi-class margin loss."""
    reduction = _reduction(reduction, size_average, reduce)
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight.dim() != 1:
        raise ValueError("weight must be one-dimensional")
    return _ops.multi_margin_loss(input, target, p, margin, weight, _REDUCTIONS[reduction])


def hinge_embedding_loss(input, target, margin=1.0, size_average=None, reduce=None, reduction="mean"):
    """x where the target is 1, max(0, margin - x) where it is -1."""
    reduction = _reduction(reduction, size_average, reduce)
    zero = torch.zeros_like(input)
    far = torch.where(target == 1, zero, (margin - input).clamp_min(0))
    near = torch.where(target == -1, zero, input)
    return _reduced(far + near, reduction)


def margin_ranking_loss(
    input1, input2, target, margin=0, size_average=None, reduce=None, reduction="mean"
):
    """max(0, -target * (input1 - input2) + margin)."""
    reduction = _reduction(reduction, size_average, reduce)
    if input1.dim() != input2.dim() or input1.dim() != target.dim():
        raise RuntimeError(
            f"margin_ranking_loss : All input tensors should have same dimension but got sizes: input1: "
            f"{input1.size()}, input2: {input2.size()}, target: {target.size()} "
        )
    return _reduced((-target * (input1 - input2) + margin).clamp_min(0), reduction)


def cosine_embedding_loss(
    input1, input2, target, margin=0, size_average=None, reduce=None, reduction="mean"
):
    """1 - cos where the target is 1, max(0, cos - margin) where it is -1."""
    reduction = _reduction(reduction, size_average, reduce)
    if not (
        target.dim() == 0 and input1.dim() == input2.dim() == 1 or target.dim() == 1 and input1.dim() == input2.dim() == 2
    ):
        if target.dim() == 0:
            raise RuntimeError("0D target tensor expects 1D input tensors, but found inputs with sizes "
                               f"{list(input1.size())} and {list(input2.size())}.")
        if target.dim() == 1:
            raise RuntimeError("1D target tensor expects 2D input tensors, but found inputs with sizes "
                               f"{list(input1.size())} and {list(input2.size())}.")
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    eps = 1e-12
    product = (input1 * input2).sum(-1)
    cosine = product / (((input1 * input1).sum(-1) + eps) * ((input2 * input2).sum(-1) + eps)).sqrt()
    zero = torch.zeros_like(cosine)
    near = torch.where(target == 1, 1 - cosine, zero)
    far = torch.where(target == -1, (cosine - margin).clamp_min(0), zero)
    return _reduced(near + far, reduction)


def triplet_margin_loss(
    anchor,
    positive,
    negative,
    margin=1.0,
    p=2,
    eps=1e-6,
    swap=False,
    size_average=None,
    reduce=None,
    reduction="mean",
):
    """max(0, d(anchor, positive) - d(anchor, negative) + margin)."""
    reduction = _reduction(reduction, size_average, reduce)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")

    def distance(a, b):
        return _ops.pairwise_distance(a, b, p, eps)

    return _triplet(anchor, positive, negative, distance, margin, swap, reduction, "triplet_margin_loss")


def _triplet(anchor, positive, negative, distance, margin, swap, reduction, name):
    dims = anchor.dim(), positive.dim(), negative.dim()
    if len(set(dims)) != 1:
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: "
            f"anchor {dims[0]}D, positive {dims[1]}D, and negative {dims[2]}D inputs"
        )
    near = distance(anchor, positive)
    far = distance(anchor, negative)
    if swap:
        far = torch.minimum(far, distance(positive, negative))
    return _reduced((margin + near - far).clamp_min(0), reduction)


def triplet_margin_with_distance_loss(
    anchor, positive, negative, *, distance_function=None, margin=1.0, swap=False, reduction="mean"
):
    """The triplet loss with any distance."""
    reduction = _reduction(reduction)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    distance = _ops.pairwise_distance if distance_function is None else distance_function
    return _triplet(
        anchor, positive, negative, distance, margin, swap, reduction, "triplet_margin_with_distance_loss"
    )


def ctc_loss(
    log_probs, targets, input_lengths, target_lengths, blank=0, reduction="mean", zero_infinity=False
):
    """The connectionist temporal classification loss."""
    return _ops.ctc_loss(
        log_probs, targets, input_lengths, target_lengths, blank, _REDUCTIONS[_reduction(reduction)], zero_infinity
    )


def linear_cross_entropy(
    input,
    linear_weight,
    target,
    *,
    linear_bias=None,
    weight=None,
    reduction="mean",
    ignore_index=None,
    label_smoothing=0.0,
    options=None,
):
    """The cross entropy of `linear(input)`."""
    if input.dim() not in (1, 2):
        raise RuntimeError(f"expected input with dimensionality 1 or 2, got {input.dim()}")
    if linear_weight.dim() < 2:
        raise RuntimeError(f"expected linear_weight with dimensionality at least 2, got {linear_weight.dim()}")
    if input.size(-1) != linear_weight.size(-1):
        raise RuntimeError(
            "expected equal input and linear_weight last dimensions (in_features), got "
            f"{input.size(-1)} and {linear_weight.size(-1)}, respectively"
        )
    rows = tuple(linear_weight.shape[:-1])
    if linear_bias is not None and tuple(linear_bias.shape) != rows:
        raise RuntimeError(f"expected linear_bias shape {rows}, got {tuple(linear_bias.shape)}")
    if linear_weight.dim() > 2 and input.dim() == 1:
        raise RuntimeError(
            f"K-dimensional loss defined by linear_weight shape {tuple(linear_weight.shape)} requires batched input, "
            f"(N, {input.size(-1)}), got unbatched input with shape {tuple(input.shape)}"
        )
    if ignore_index is not None and tuple(target.shape) == (*input.shape[:-1], *rows):
        raise RuntimeError("ignore_index cannot be specified when target contains probabilities")
    logits = _ops.linear(input, linear_weight.flatten(0, -2), None if linear_bias is None else linear_bias.flatten())
    if linear_weight.dim() > 2:
        logits = logits.unflatten(-1, rows)
    return cross_entropy(
        logits,
        target,
        weight=weight,
        reduction=reduction,
        ignore_index=-100 if ignore_index is None else ignore_index,
        label_smoothing=label_smoothing,
    )


# ---- attention


def _attention_mask(mask, name, dtype, other=None, check_other=True):
    """A boolean mask as additive floats; anything else must be floating already."""
    if mask is None:
        return None
    if mask.dtype != torch.bool and not mask.is_floating_point():
        raise AssertionError(f"only bool and floating types of {name} are supported")
    if check_other and other is not None and mask.dtype != other.dtype:
        warnings.warn(
            f"Support for mismatched {name} and attn_mask is deprecated. Use same type for both instead.", stacklevel=3
        )
    if mask.dtype == torch.bool:
        return torch.zeros_like(mask, dtype=dtype).masked_fill_(mask, float("-inf"))
    return mask


def _project_packed(q, k, v, w, b):
    e = q.size(-1)
    if k is v:
        if q is k:
            # One product for all three, laid out so that each part is contiguous afterwards.
            packed = _ops.linear(q, w, b)
            packed = packed.unflatten(-1, (3, e)).unsqueeze(0).transpose(0, -2).squeeze(-2).contiguous()
            return packed[0], packed[1], packed[2]
        w_q, w_kv = w.split([e, e * 2])
        b_q, b_kv = (None, None) if b is None else b.split([e, e * 2])
        query = _ops.linear(q, w_q, b_q)
        packed = _ops.linear(k, w_kv, b_kv)
        packed = packed.unflatten(-1, (2, e)).unsqueeze(0).transpose(0, -2).squeeze(-2).contiguous()
        return query, packed[0], packed[1]
    w_q, w_k, w_v = w.chunk(3)
    b_q, b_k, b_v = (None, None, None) if b is None else b.chunk(3)
    return _ops.linear(q, w_q, b_q), _ops.linear(k, w_k, b_k), _ops.linear(v, w_v, b_v)


def multi_head_attention_forward(
    query,
    key,
    value,
    embed_dim_to_check,
    num_heads,
    in_proj_weight,
    in_proj_bias,
    bias_k,
    bias_v,
    add_zero_attn,
    dropout_p,
    out_proj_weight,
    out_proj_bias,
    training=True,
    key_padding_mask=None,
    need_weights=True,
    attn_mask=None,
    use_separate_proj_weight=False,
    q_proj_weight=None,
    k_proj_weight=None,
    v_proj_weight=None,
    static_k=None,
    static_v=None,
    average_attn_weights=True,
    is_causal=False,
):
    """Attention of several heads over (length, batch, features) inputs, with its projections."""
    batched = query.dim() == 3
    if query.dim() not in (2, 3):
        raise AssertionError(f"query should be unbatched 2D or batched 3D tensor but received {query.dim()}-D query tensor")
    kind, n = ("batched (3-D)", 3) if batched else ("unbatched (2-D)", 2)
    if key.dim() != n or value.dim() != n:
        raise AssertionError(
            f"For {kind} `query`, expected `key` and `value` to be {n}-D but found {key.dim()}-D and {value.dim()}-D "
            "tensors respectively"
        )
    if key_padding_mask is not None and key_padding_mask.dim() != n - 1:
        raise AssertionError(
            f"For {kind} `query`, expected `key_padding_mask` to be `None` or {n - 1}-D but found "
            f"{key_padding_mask.dim()}-D tensor instead"
        )
    if attn_mask is not None and attn_mask.dim() not in (2, 3):
        raise AssertionError(
            f"For {kind} `query`, expected `attn_mask` to be `None`, 2-D or 3-D but found {attn_mask.dim()}-D tensor instead"
        )
    if not batched:
        query, key, value = query.unsqueeze(1), key.unsqueeze(1), value.unsqueeze(1)
        if key_padding_mask is not None:
            key_padding_mask = key_padding_mask.unsqueeze(0)

    tgt_len, bsz, embed_dim = query.shape
    src_len = key.shape[0]
    dtype = query.dtype
    if is_causal and attn_mask is None:
        raise RuntimeError(
            "Need attn_mask if specifying the is_causal hint. You may use the Transformer module method "
            "`generate_square_subsequent_mask` to create this mask."
        )
    # A causal hint saves building the mask, but only where nothing else has to be combined with it.
    use_causal_hint = is_causal and key_padding_mask is None and not need_weights
    key_padding_mask = _attention_mask(key_padding_mask, "key_padding_mask", dtype, attn_mask)
    if use_causal_hint:
        attn_mask = None
    else:
        attn_mask = _attention_mask(attn_mask, "attn_mask", dtype, check_other=False)
        if key_padding_mask is not None:
            is_causal = False
    if embed_dim != embed_dim_to_check:
        raise AssertionError(f"was expecting embedding dimension of {embed_dim_to_check}, but got {embed_dim}")
    head_dim = embed_dim // num_heads
    if head_dim * num_heads != embed_dim:
        raise AssertionError(f"embed_dim {embed_dim} not divisible by num_heads {num_heads}")
    if use_separate_proj_weight:
        if key.shape[:2] != value.shape[:2]:
            raise AssertionError(
                f"key's sequence and batch dims {key.shape[:2]} do not match value's {value.shape[:2]}"
            )
    elif key.shape != value.shape:
        raise AssertionError(f"key shape {key.shape} does not match value shape {value.shape}")

    if use_separate_proj_weight:
        if q_proj_weight is None or k_proj_weight is None or v_proj_weight is None:
            raise AssertionError("use_separate_proj_weight is True but a projection weight is None")
        b_q, b_k, b_v = (None, None, None) if in_proj_bias is None else in_proj_bias.chunk(3)
        q = _ops.linear(query, q_proj_weight, b_q)
        k = _ops.linear(key, k_proj_weight, b_k)
        v = _ops.linear(value, v_proj_weight, b_v)
    else:
        if in_proj_weight is None:
            raise AssertionError("use_separate_proj_weight is False but in_proj_weight is None")
        q, k, v = _project_packed(query, key, value, in_proj_weight, in_proj_bias)

    if attn_mask is not None:
        if attn_mask.dim() == 2:
            if tuple(attn_mask.shape) != (tgt_len, src_len):
                raise RuntimeError(
                    f"The shape of the 2D attn_mask is {attn_mask.shape}, but should be {(tgt_len, src_len)}."
                )
            attn_mask = attn_mask.unsqueeze(0)
        elif tuple(attn_mask.shape) != (bsz * num_heads, tgt_len, src_len):
            raise RuntimeError(
                f"The shape of the 3D attn_mask is {attn_mask.shape}, but should be "
                f"{(bsz * num_heads, tgt_len, src_len)}."
            )

    if (bias_k is None) != (bias_v is None):
        raise AssertionError("bias_k and bias_v must be given together")
    if bias_k is not None:
        if static_k is not None or static_v is not None:
            raise AssertionError("bias cannot be added to static key or value.")
        k = torch.cat([k, bias_k.repeat(1, bsz, 1)])
        v = torch.cat([v, bias_v.repeat(1, bsz, 1)])
        attn_mask = None if attn_mask is None else pad(attn_mask, (0, 1))
        key_padding_mask = None if key_padding_mask is None else pad(key_padding_mask, (0, 1))

    heads = bsz * num_heads
    q = q.reshape(tgt_len, heads, head_dim).transpose(0, 1)
    k = k.reshape(k.shape[0], heads, head_dim).transpose(0, 1) if static_k is None else static_k
    v = v.reshape(v.shape[0], heads, head_dim).transpose(0, 1) if static_v is None else static_v
    for name, static in (("static_k", static_k), ("static_v", static_v)):
        if static is not None and (static.size(0) != heads or static.size(2) != head_dim):
            raise AssertionError(f"expecting {name} of shape ({heads}, *, {head_dim}), but got {tuple(static.shape)}")
    if add_zero_attn:
        zeros = torch.zeros((heads, 1, head_dim), dtype=k.dtype, device=k.device)
        k, v = torch.cat([k, zeros], dim=1), torch.cat([v, zeros], dim=1)
        attn_mask = None if attn_mask is None else pad(attn_mask, (0, 1))
        key_padding_mask = None if key_padding_mask is None else pad(key_padding_mask, (0, 1))
    src_len = k.size(1)

    if key_padding_mask is not None:
        if tuple(key_padding_mask.shape) != (bsz, src_len):
            raise AssertionError(
                f"expecting key_padding_mask shape of {(bsz, src_len)}, but got {key_padding_mask.shape}"
            )
        key_padding_mask = (
            key_padding_mask.view(bsz, 1, 1, src_len).expand(-1, num_heads, -1, -1).reshape(heads, 1, src_len)
        )
        attn_mask = key_padding_mask if attn_mask is None else attn_mask + key_padding_mask
    if not training:
        dropout_p = 0.0

    if need_weights:
        q = q * math.sqrt(1.0 / head_dim)
        scores = torch.bmm(q, k.transpose(-2, -1))
        if attn_mask is not None:
            scores = scores + attn_mask
        weights = scores.softmax(-1)
        if dropout_p > 0.0:
            weights = dropout(weights, p=dropout_p)
        output = torch.bmm(weights, v).transpose(0, 1).reshape(tgt_len * bsz, embed_dim)
        output = _ops.linear(output, out_proj_weight, out_proj_bias).view(tgt_len, bsz, -1)
        weights = weights.view(bsz, num_heads, tgt_len, src_len)
        if average_attn_weights:
            weights = weights.mean(dim=1)
        if not batched:
            output, weights = output.squeeze(1), weights.squeeze(0)
        return output, weights

    if attn_mask is not None:
        if attn_mask.size(0) == 1:
            attn_mask = attn_mask.unsqueeze(0)
        else:
            attn_mask = attn_mask.view(bsz, num_heads, -1, src_len)
    q = q.reshape(bsz, num_heads, tgt_len, head_dim)
    k = k.reshape(bsz, num_heads, src_len, head_dim)
    v = v.reshape(bsz, num_heads, src_len, head_dim)
    output = _ops.scaled_dot_product_attention(q, k, v, attn_mask, dropout_p, use_causal_hint)
    output = output.permute(2, 0, 1, 3).reshape(bsz * tgt_len, embed_dim)
    output = _ops.linear(output, out_proj_weight, out_proj_bias).view(tgt_len, bsz, -1)
    return (output if batched else output.squeeze(1)), None


# ---- functions that are ops of the table

_ALIASES = {
    name: name
    for name in (
        "bilinear celu_ channel_shuffle native_channel_shuffle conv1d conv2d conv3d conv_tbc conv_transpose1d "
        "conv_transpose2d conv_transpose3d cosine_similarity elu_ gelu hardshrink hardtanh_ leaky_relu_ linear one_hot "
        "pairwise_distance pdist pixel_shuffle pixel_unshuffle prelu relu_ rrelu_ scaled_dot_product_attention selu_ "
        "softplus softshrink threshold_"
    ).split()
}
_ALIASES["logsigmoid"] = "log_sigmoid"


def __getattr__(name):
    op = _ALIASES.get(name)
    if op is None or not hasattr(_ops, op):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    function = globals()[name] = getattr(_ops, op)
    return function


def __dir__():
    return [*globals(), *_ALIASES]
