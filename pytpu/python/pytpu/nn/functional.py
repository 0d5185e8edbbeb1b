"""The functions behind the modules, as in `torch.nn.functional`.

A function that is one op of the table is that op, found at the first use: see the end of the file. The other functions,
in `_functional`, check and convert arguments, or compose a few tensor methods.
"""

from pytpu import _C
from pytpu.overrides import _overridable

from ._functional.activation import (
    celu as celu,
)
from ._functional.activation import (
    elu as elu,
)
from ._functional.activation import (
    glu as glu,
)
from ._functional.activation import (
    gumbel_softmax as gumbel_softmax,
)
from ._functional.activation import (
    hardsigmoid as hardsigmoid,
)
from ._functional.activation import (
    hardswish as hardswish,
)
from ._functional.activation import (
    hardtanh as hardtanh,
)
from ._functional.activation import (
    leaky_relu as leaky_relu,
)
from ._functional.activation import (
    log_softmax as log_softmax,
)
from ._functional.activation import (
    mish as mish,
)
from ._functional.activation import (
    relu as relu,
)
from ._functional.activation import (
    relu6 as relu6,
)
from ._functional.activation import (
    rrelu as rrelu,
)
from ._functional.activation import (
    selu as selu,
)
from ._functional.activation import (
    sigmoid as sigmoid,
)
from ._functional.activation import (
    silu as silu,
)
from ._functional.activation import (
    softmax as softmax,
)
from ._functional.activation import (
    softmin as softmin,
)
from ._functional.activation import (
    softsign as softsign,
)
from ._functional.activation import (
    tanh as tanh,
)
from ._functional.activation import (
    tanhshrink as tanhshrink,
)
from ._functional.activation import (
    threshold as threshold,
)
from ._functional.attention import (
    _attention_mask,
)
from ._functional.attention import (
    multi_head_attention_forward as multi_head_attention_forward,
)
from ._functional.dropout import (
    alpha_dropout as alpha_dropout,
)
from ._functional.dropout import (
    dropout as dropout,
)
from ._functional.dropout import (
    dropout1d as dropout1d,
)
from ._functional.dropout import (
    dropout2d as dropout2d,
)
from ._functional.dropout import (
    dropout3d as dropout3d,
)
from ._functional.dropout import (
    feature_alpha_dropout as feature_alpha_dropout,
)
from ._functional.embedding import (
    embedding as embedding,
)
from ._functional.embedding import (
    embedding_bag as embedding_bag,
)
from ._functional.grouped import (
    grouped_mm as grouped_mm,
)
from ._functional.loss import (
    _reduction,
)
from ._functional.loss import (
    binary_cross_entropy as binary_cross_entropy,
)
from ._functional.loss import (
    binary_cross_entropy_with_logits as binary_cross_entropy_with_logits,
)
from ._functional.loss import (
    cosine_embedding_loss as cosine_embedding_loss,
)
from ._functional.loss import (
    cross_entropy as cross_entropy,
)
from ._functional.loss import (
    ctc_loss as ctc_loss,
)
from ._functional.loss import (
    gaussian_nll_loss as gaussian_nll_loss,
)
from ._functional.loss import (
    hinge_embedding_loss as hinge_embedding_loss,
)
from ._functional.loss import (
    huber_loss as huber_loss,
)
from ._functional.loss import (
    kl_div as kl_div,
)
from ._functional.loss import (
    l1_loss as l1_loss,
)
from ._functional.loss import (
    linear_cross_entropy as linear_cross_entropy,
)
from ._functional.loss import (
    margin_ranking_loss as margin_ranking_loss,
)
from ._functional.loss import (
    mse_loss as mse_loss,
)
from ._functional.loss import (
    multi_margin_loss as multi_margin_loss,
)
from ._functional.loss import (
    multilabel_margin_loss as multilabel_margin_loss,
)
from ._functional.loss import (
    multilabel_soft_margin_loss as multilabel_soft_margin_loss,
)
from ._functional.loss import (
    nll_loss as nll_loss,
)
from ._functional.loss import (
    poisson_nll_loss as poisson_nll_loss,
)
from ._functional.loss import (
    smooth_l1_loss as smooth_l1_loss,
)
from ._functional.loss import (
    soft_margin_loss as soft_margin_loss,
)
from ._functional.loss import (
    triplet_margin_loss as triplet_margin_loss,
)
from ._functional.loss import (
    triplet_margin_with_distance_loss as triplet_margin_with_distance_loss,
)
from ._functional.normalization import (
    batch_norm as batch_norm,
)
from ._functional.normalization import (
    group_norm as group_norm,
)
from ._functional.normalization import (
    instance_norm as instance_norm,
)
from ._functional.normalization import (
    layer_norm as layer_norm,
)
from ._functional.normalization import (
    local_response_norm as local_response_norm,
)
from ._functional.normalization import (
    normalize as normalize,
)
from ._functional.normalization import (
    rms_norm as rms_norm,
)
from ._functional.pooling import (
    adaptive_avg_pool1d as adaptive_avg_pool1d,
)
from ._functional.pooling import (
    adaptive_avg_pool2d as adaptive_avg_pool2d,
)
from ._functional.pooling import (
    adaptive_avg_pool3d as adaptive_avg_pool3d,
)
from ._functional.pooling import (
    adaptive_max_pool1d as adaptive_max_pool1d,
)
from ._functional.pooling import (
    adaptive_max_pool1d_with_indices as adaptive_max_pool1d_with_indices,
)
from ._functional.pooling import (
    adaptive_max_pool2d as adaptive_max_pool2d,
)
from ._functional.pooling import (
    adaptive_max_pool2d_with_indices as adaptive_max_pool2d_with_indices,
)
from ._functional.pooling import (
    adaptive_max_pool3d as adaptive_max_pool3d,
)
from ._functional.pooling import (
    adaptive_max_pool3d_with_indices as adaptive_max_pool3d_with_indices,
)
from ._functional.pooling import (
    avg_pool1d as avg_pool1d,
)
from ._functional.pooling import (
    avg_pool2d as avg_pool2d,
)
from ._functional.pooling import (
    avg_pool3d as avg_pool3d,
)
from ._functional.pooling import (
    fractional_max_pool2d as fractional_max_pool2d,
)
from ._functional.pooling import (
    fractional_max_pool2d_with_indices as fractional_max_pool2d_with_indices,
)
from ._functional.pooling import (
    fractional_max_pool3d as fractional_max_pool3d,
)
from ._functional.pooling import (
    fractional_max_pool3d_with_indices as fractional_max_pool3d_with_indices,
)
from ._functional.pooling import (
    lp_pool1d as lp_pool1d,
)
from ._functional.pooling import (
    lp_pool2d as lp_pool2d,
)
from ._functional.pooling import (
    lp_pool3d as lp_pool3d,
)
from ._functional.pooling import (
    max_pool1d as max_pool1d,
)
from ._functional.pooling import (
    max_pool1d_with_indices as max_pool1d_with_indices,
)
from ._functional.pooling import (
    max_pool2d as max_pool2d,
)
from ._functional.pooling import (
    max_pool2d_with_indices as max_pool2d_with_indices,
)
from ._functional.pooling import (
    max_pool3d as max_pool3d,
)
from ._functional.pooling import (
    max_pool3d_with_indices as max_pool3d_with_indices,
)
from ._functional.pooling import (
    max_unpool1d as max_unpool1d,
)
from ._functional.pooling import (
    max_unpool2d as max_unpool2d,
)
from ._functional.pooling import (
    max_unpool3d as max_unpool3d,
)
from ._functional.vision import (
    affine_grid as affine_grid,
)
from ._functional.vision import (
    fold as fold,
)
from ._functional.vision import (
    grid_sample as grid_sample,
)
from ._functional.vision import (
    interpolate as interpolate,
)
from ._functional.vision import (
    pad as pad,
)
from ._functional.vision import (
    unfold as unfold,
)
from ._functional.vision import (
    upsample as upsample,
)
from ._functional.vision import (
    upsample_bilinear as upsample_bilinear,
)
from ._functional.vision import (
    upsample_nearest as upsample_nearest,
)

_ops = _C._ops

# Pickles and reprs name the module that users import.
for _name, _function in list(globals().items()):
    if getattr(_function, "__globals__", {}).get("__package__") == f"{__package__}._functional":
        if not _name.startswith("_"):
            globals()[_name] = _overridable(_function)
del _name, _function

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
    if name == "grad":
        from . import grad

        return grad
    op = _ALIASES.get(name)
    if op is None or not hasattr(_ops, op):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    function = globals()[name] = getattr(_ops, op)
    return function


def __dir__():
    return [*globals(), *_ALIASES]
