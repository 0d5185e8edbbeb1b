"""The functions behind the modules, as in `torch.nn.functional`.

A function that is one op of the table is that op, found at the first use: see the end of the file. The other functions,
in `_functional`, check and convert arguments, or compose a few tensor methods.
"""

from pytpu import _C
from pytpu.overrides import _overridable

from ._functional.activation import (
    celu as celu,
    elu as elu,
    glu as glu,
    gumbel_softmax as gumbel_softmax,
    hardsigmoid as hardsigmoid,
    hardswish as hardswish,
    hardtanh as hardtanh,
    leaky_relu as leaky_relu,
    log_softmax as log_softmax,
    mish as mish,
    relu as relu,
    relu6 as relu6,
    rrelu as rrelu,
    selu as selu,
    sigmoid as sigmoid,
    silu as silu,
    softmax as softmax,
    softmin as softmin,
    softsign as softsign,
    tanh as tanh,
    tanhshrink as tanhshrink,
    threshold as threshold,
)
from ._functional.adaptive_pooling import (
    adaptive_avg_pool1d as adaptive_avg_pool1d,
    adaptive_avg_pool2d as adaptive_avg_pool2d,
    adaptive_avg_pool3d as adaptive_avg_pool3d,
    adaptive_max_pool1d as adaptive_max_pool1d,
    adaptive_max_pool1d_with_indices as adaptive_max_pool1d_with_indices,
    adaptive_max_pool2d as adaptive_max_pool2d,
    adaptive_max_pool2d_with_indices as adaptive_max_pool2d_with_indices,
    adaptive_max_pool3d as adaptive_max_pool3d,
    adaptive_max_pool3d_with_indices as adaptive_max_pool3d_with_indices,
    fractional_max_pool2d as fractional_max_pool2d,
    fractional_max_pool2d_with_indices as fractional_max_pool2d_with_indices,
    fractional_max_pool3d as fractional_max_pool3d,
    fractional_max_pool3d_with_indices as fractional_max_pool3d_with_indices,
)
from ._functional.attention import (
    _attention_mask,
    multi_head_attention_forward as multi_head_attention_forward,
)
from ._functional.dropout import (
    alpha_dropout as alpha_dropout,
    dropout as dropout,
    dropout1d as dropout1d,
    dropout2d as dropout2d,
    dropout3d as dropout3d,
    feature_alpha_dropout as feature_alpha_dropout,
)
from ._functional.embedding import (
    embedding as embedding,
    embedding_bag as embedding_bag,
)
from ._functional.grouped import (
    grouped_mm as grouped_mm,
)
from ._functional.loss import (
    _reduction,
    binary_cross_entropy as binary_cross_entropy,
    binary_cross_entropy_with_logits as binary_cross_entropy_with_logits,
    cosine_embedding_loss as cosine_embedding_loss,
    cross_entropy as cross_entropy,
    ctc_loss as ctc_loss,
    gaussian_nll_loss as gaussian_nll_loss,
    hinge_embedding_loss as hinge_embedding_loss,
    huber_loss as huber_loss,
    kl_div as kl_div,
    l1_loss as l1_loss,
    linear_cross_entropy as linear_cross_entropy,
    margin_ranking_loss as margin_ranking_loss,
    mse_loss as mse_loss,
    multi_margin_loss as multi_margin_loss,
    multilabel_margin_loss as multilabel_margin_loss,
    multilabel_soft_margin_loss as multilabel_soft_margin_loss,
    nll_loss as nll_loss,
    poisson_nll_loss as poisson_nll_loss,
    smooth_l1_loss as smooth_l1_loss,
    soft_margin_loss as soft_margin_loss,
    triplet_margin_loss as triplet_margin_loss,
    triplet_margin_with_distance_loss as triplet_margin_with_distance_loss,
)
from ._functional.normalization import (
    batch_norm as batch_norm,
    group_norm as group_norm,
    instance_norm as instance_norm,
    layer_norm as layer_norm,
    local_response_norm as local_response_norm,
    normalize as normalize,
    rms_norm as rms_norm,
)
from ._functional.pooling import (
    avg_pool1d as avg_pool1d,
    avg_pool2d as avg_pool2d,
    avg_pool3d as avg_pool3d,
    lp_pool1d as lp_pool1d,
    lp_pool2d as lp_pool2d,
    lp_pool3d as lp_pool3d,
    max_pool1d as max_pool1d,
    max_pool1d_with_indices as max_pool1d_with_indices,
    max_pool2d as max_pool2d,
    max_pool2d_with_indices as max_pool2d_with_indices,
    max_pool3d as max_pool3d,
    max_pool3d_with_indices as max_pool3d_with_indices,
)
from ._functional.scaled import ScalingType as ScalingType, SwizzleType as SwizzleType
from ._functional.unpooling import (
    max_unpool1d as max_unpool1d,
    max_unpool2d as max_unpool2d,
    max_unpool3d as max_unpool3d,
)
from ._functional.vision import (
    affine_grid as affine_grid,
    fold as fold,
    grid_sample as grid_sample,
    interpolate as interpolate,
    pad as pad,
    unfold as unfold,
    upsample as upsample,
    upsample_bilinear as upsample_bilinear,
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

TYPE_CHECKING = False
if TYPE_CHECKING:
    # With `__getattr__`, a type checker would take any name for one of this module.
    from pytpu._op_table import (
        bilinear as bilinear,
        celu_ as celu_,
        channel_shuffle as channel_shuffle,
        conv1d as conv1d,
        conv2d as conv2d,
        conv3d as conv3d,
        conv_tbc as conv_tbc,
        conv_transpose1d as conv_transpose1d,
        conv_transpose2d as conv_transpose2d,
        conv_transpose3d as conv_transpose3d,
        cosine_similarity as cosine_similarity,
        elu_ as elu_,
        gelu as gelu,
        hardshrink as hardshrink,
        hardtanh_ as hardtanh_,
        leaky_relu_ as leaky_relu_,
        linear as linear,
        log_sigmoid as _log_sigmoid,
        native_channel_shuffle as native_channel_shuffle,
        one_hot as one_hot,
        pairwise_distance as pairwise_distance,
        pdist as pdist,
        pixel_shuffle as pixel_shuffle,
        pixel_unshuffle as pixel_unshuffle,
        prelu as prelu,
        relu_ as relu_,
        rrelu_ as rrelu_,
        scaled_dot_product_attention as scaled_dot_product_attention,
        selu_ as selu_,
        softplus as softplus,
        softshrink as softshrink,
        threshold_ as threshold_,
    )

    from . import grad as grad

    logsigmoid = _log_sigmoid
else:

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
