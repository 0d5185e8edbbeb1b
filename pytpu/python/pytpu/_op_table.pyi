"""Types of `_C._ops`: every function of the op table. There is no such module when a program runs."""

from builtins import bool as _bool, complex as _complex, float as _float, int as _int, str as _str
from collections.abc import Sequence
from typing import overload

from pytpu import return_types
from pytpu._C import (
    Generator,
    Tensor,
    device as _device,
    dtype as _dtype,
    layout as _layout,
    memory_format as _memory_format,
)
from pytpu.types import Number

# From the op table, by `make generated`.
def _batch_norm_no_update(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    momentum: _float,
    eps: _float,
    *,
    out: tuple[Tensor, ...] | list[Tensor] | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]: ...
def _batch_norm_with_update(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    momentum: _float,
    eps: _float,
    *,
    out: tuple[Tensor, ...] | list[Tensor] | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]: ...
def _batch_norm_with_update_functional(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    momentum: _float,
    eps: _float,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]: ...
def _chunk_cat(tensors: Sequence[Tensor], dim: _int, num_chunks: _int, *, out: Tensor | None = None) -> Tensor: ...
def _conj(input: Tensor) -> Tensor: ...
def _dirichlet_grad(x: Tensor, alpha: Tensor, total: Tensor) -> Tensor: ...
def _foreach_abs(input: Sequence[Tensor]) -> tuple[Tensor, ...]: ...
def _foreach_abs_(input: Sequence[Tensor]) -> list[Tensor] | tuple[Tensor, ...]: ...
def _foreach_acos(input: Sequence[Tensor]) -> tuple[Tensor, ...]: ...
def _foreach_acos_(input: Sequence[Tensor]) -> list[Tensor] | tuple[Tensor, ...]: ...
@overload
def _foreach_add(input: Sequence[Tensor], scalar: Number | _complex) -> tuple[Tensor, ...]: ...
@overload
def _foreach_add(input: Sequence[Tensor], scalars: Sequence[Number | _complex]) -> tuple[Tensor, ...]: ...
@overload
def _foreach_add(
    input: Sequence[Tensor], other: Tensor | Sequence[Tensor], *, alpha: Number | _complex = 1
) -> tuple[Tensor, ...]: ...
@overload
def _foreach_add_(input: Sequence[Tensor], scalar: Number | _complex) -> list[Tensor] | tuple[Tensor, ...]: ...
@overload
def _foreach_add_(
    input: Sequence[Tensor], scalars: Sequence[Number | _complex]
) -> list[Tensor] | tuple[Tensor, ...]: ...
@overload
def _foreach_add_(
    input: Sequence[Tensor], other: Tensor | Sequence[Tensor], *, alpha: Number | _complex = 1
) -> list[Tensor] | tuple[Tensor, ...]: ...
@overload
def _foreach_addcdiv(
    input: Sequence[Tensor],
    tensor1: Sequence[Tensor],
    tensor2: Sequence[Tensor],
    scalars: Sequence[Number | _complex] | Tensor,
) -> tuple[Tensor, ...]: ...
@overload
def _foreach_addcdiv(
    input: Sequence[Tensor], tensor1: Sequence[Tensor], tensor2: Sequence[Tensor], value: Number | _complex = 1
) -> tuple[Tensor, ...]: ...
@overload
def _foreach_addcdiv_(
    input: Sequence[Tensor],
    tensor1: Sequence[Tensor],
    tensor2: Sequence[Tensor],
    scalars: Sequence[Number | _complex] | Tensor,
) -> list[Tensor] | tuple[Tensor, ...]: ...
@overload
def _foreach_addcdiv_(
    input: Sequence[Tensor], tensor1: Sequence[Tensor], tensor2: Sequence[Tensor], value: Number | _complex = 1
) -> list[Tensor] | tuple[Tensor, ...]: ...
@overload
def _foreach_addcmul(
    input: Sequence[Tensor],
    tensor1: Sequence[Tensor],
    tensor2: Sequence[Tensor],
    scalars: Sequence[Number | _complex] | Tensor,
) -> tuple[Tensor, ...]: ...
@overload
def _foreach_addcmul(
    input: Sequence[Tensor], tensor1: Sequence[Tensor], tensor2: Sequence[Tensor], value: Number | _complex = 1
) -> tuple[Tensor, ...]: ...
@overload
def _foreach_addcmul_(
    input: Sequence[Tensor],
    tensor1: Sequence[Tensor],
    tensor2: Sequence[Tensor],
    scalars: Sequence[Number | _complex] | Tensor,
) -> list[Tensor] | tuple[Tensor, ...]: ...
@overload
def _foreach_addcmul_(
    input: Sequence[Tensor], tensor1: Sequence[Tensor], tensor2: Sequence[Tensor], value: Number | _complex = 1
) -> list[Tensor] | tuple[Tensor, ...]: ...
def _foreach_asin(input: Sequence[Tensor]) -> tuple[Tensor, ...]: ...
def _foreach_asin_(input: Sequence[Tensor]) -> list[Tensor] | tuple[Tensor, ...]: ...
def _foreach_atan(input: Sequence[Tensor]) -> tuple[Tensor, ...]: ...
def _foreach_atan_(input: Sequence[Tensor]) -> list[Tensor] | tuple[Tensor, ...]: ...
def _foreach_ceil(input: Sequence[Tensor]) -> tuple[Tensor, ...]: ...
def _foreach_ceil_(input: Sequence[Tensor]) -> list[Tensor] | tuple[Tensor, ...]: ...
@overload
def _foreach_clamp_max(input: Sequence[Tensor], scalar: Number | _complex) -> tuple[Tensor, ...]: ...
@overload
def _foreach_clamp_max(input: Sequence[Tensor], scalars: Sequence[Number | _complex]) -> tuple[Tensor, ...]: ...
@overload
def _foreach_clamp_max(input: Sequence[Tensor], other: Sequence[Tensor]) -> tuple[Tensor, ...]: ...
@overload
def _foreach_clamp_max_(input: Sequence[Tensor], scalar: Number | _complex) -> list[Tensor] | tuple[Tensor, ...]: ...
@overload
def _foreach_clamp_max_(
    input: Sequence[Tensor], scalars: Sequence[Number | _complex]
) -> list[Tensor] | tuple[Tensor, ...]: ...
@overload
def _foreach_clamp_max_(input: Sequence[Tensor], other: Sequence[Tensor]) -> list[Tensor] | tuple[Tensor, ...]: ...
@overload
def _foreach_clamp_min(input: Sequence[Tensor], scalar: Number | _complex) -> tuple[Tensor, ...]: ...
@overload
def _foreach_clamp_min(input: Sequence[Tensor], scalars: Sequence[Number | _complex]) -> tuple[Tensor, ...]: ...
@overload
def _foreach_clamp_min(input: Sequence[Tensor], other: Sequence[Tensor]) -> tuple[Tensor, ...]: ...
@overload
def _foreach_clamp_min_(input: Sequence[Tensor], scalar: Number | _complex) -> list[Tensor] | tuple[Tensor, ...]: ...
@overload
def _foreach_clamp_min_(
    input: Sequence[Tensor], scalars: Sequence[Number | _complex]
) -> list[Tensor] | tuple[Tensor, ...]: ...
@overload
def _foreach_clamp_min_(input: Sequence[Tensor], other: Sequence[Tensor]) -> list[Tensor] | tuple[Tensor, ...]: ...
def _foreach_clone(input: Sequence[Tensor], *, memory_format: _memory_format | None = None) -> tuple[Tensor, ...]: ...
def _foreach_copy_(
    input: Sequence[Tensor], src: Sequence[Tensor], non_blocking: _bool = False
) -> tuple[Tensor, ...]: ...
def _foreach_cos(input: Sequence[Tensor]) -> tuple[Tensor, ...]: ...
def _foreach_cos_(input: Sequence[Tensor]) -> list[Tensor] | tuple[Tensor, ...]: ...
def _foreach_cosh(input: Sequence[Tensor]) -> tuple[Tensor, ...]: ...
def _foreach_cosh_(input: Sequence[Tensor]) -> list[Tensor] | tuple[Tensor, ...]: ...
@overload
def _foreach_div(input: Sequence[Tensor], scalars: Sequence[Number | _complex]) -> tuple[Tensor, ...]: ...
@overload
def _foreach_div(input: Sequence[Tensor], other: Tensor | Sequence[Tensor]) -> tuple[Tensor, ...]: ...
@overload
def _foreach_div(input: Sequence[Tensor], scalar: Number | _complex) -> tuple[Tensor, ...]: ...
@overload
def _foreach_div_(
    input: Sequence[Tensor], scalars: Sequence[Number | _complex]
) -> list[Tensor] | tuple[Tensor, ...]: ...
@overload
def _foreach_div_(input: Sequence[Tensor], other: Tensor | Sequence[Tensor]) -> list[Tensor] | tuple[Tensor, ...]: ...
@overload
def _foreach_div_(input: Sequence[Tensor], scalar: Number | _complex) -> list[Tensor] | tuple[Tensor, ...]: ...
def _foreach_erf(input: Sequence[Tensor]) -> tuple[Tensor, ...]: ...
def _foreach_erf_(input: Sequence[Tensor]) -> list[Tensor] | tuple[Tensor, ...]: ...
def _foreach_erfc(input: Sequence[Tensor]) -> tuple[Tensor, ...]: ...
def _foreach_erfc_(input: Sequence[Tensor]) -> list[Tensor] | tuple[Tensor, ...]: ...
def _foreach_exp(input: Sequence[Tensor]) -> tuple[Tensor, ...]: ...
def _foreach_exp_(input: Sequence[Tensor]) -> list[Tensor] | tuple[Tensor, ...]: ...
def _foreach_expm1(input: Sequence[Tensor]) -> tuple[Tensor, ...]: ...
def _foreach_expm1_(input: Sequence[Tensor]) -> list[Tensor] | tuple[Tensor, ...]: ...
def _foreach_floor(input: Sequence[Tensor]) -> tuple[Tensor, ...]: ...
def _foreach_floor_(input: Sequence[Tensor]) -> list[Tensor] | tuple[Tensor, ...]: ...
def _foreach_frac(input: Sequence[Tensor]) -> tuple[Tensor, ...]: ...
def _foreach_frac_(input: Sequence[Tensor]) -> list[Tensor] | tuple[Tensor, ...]: ...
@overload
def _foreach_lerp(
    input: Sequence[Tensor], tensors1: Sequence[Tensor], weight: Number | _complex | Sequence[Number | _complex]
) -> tuple[Tensor, ...]: ...
@overload
def _foreach_lerp(
    input: Sequence[Tensor], tensors1: Sequence[Tensor], weights: Sequence[Tensor]
) -> tuple[Tensor, ...]: ...
@overload
def _foreach_lerp_(
    input: Sequence[Tensor], tensors1: Sequence[Tensor], weight: Number | _complex | Sequence[Number | _complex]
) -> list[Tensor] | tuple[Tensor, ...]: ...
@overload
def _foreach_lerp_(
    input: Sequence[Tensor], tensors1: Sequence[Tensor], weights: Sequence[Tensor]
) -> list[Tensor] | tuple[Tensor, ...]: ...
def _foreach_lgamma(input: Sequence[Tensor]) -> tuple[Tensor, ...]: ...
def _foreach_lgamma_(input: Sequence[Tensor]) -> list[Tensor] | tuple[Tensor, ...]: ...
def _foreach_log(input: Sequence[Tensor]) -> tuple[Tensor, ...]: ...
def _foreach_log10(input: Sequence[Tensor]) -> tuple[Tensor, ...]: ...
def _foreach_log10_(input: Sequence[Tensor]) -> list[Tensor] | tuple[Tensor, ...]: ...
def _foreach_log1p(input: Sequence[Tensor]) -> tuple[Tensor, ...]: ...
def _foreach_log1p_(input: Sequence[Tensor]) -> list[Tensor] | tuple[Tensor, ...]: ...
def _foreach_log2(input: Sequence[Tensor]) -> tuple[Tensor, ...]: ...
def _foreach_log2_(input: Sequence[Tensor]) -> list[Tensor] | tuple[Tensor, ...]: ...
def _foreach_log_(input: Sequence[Tensor]) -> list[Tensor] | tuple[Tensor, ...]: ...
def _foreach_max(input: Sequence[Tensor]) -> tuple[Tensor, ...]: ...
@overload
def _foreach_maximum(input: Sequence[Tensor], scalar: Number | _complex) -> tuple[Tensor, ...]: ...
@overload
def _foreach_maximum(input: Sequence[Tensor], scalars: Sequence[Number | _complex]) -> tuple[Tensor, ...]: ...
@overload
def _foreach_maximum(input: Sequence[Tensor], other: Sequence[Tensor]) -> tuple[Tensor, ...]: ...
@overload
def _foreach_maximum_(input: Sequence[Tensor], scalar: Number | _complex) -> list[Tensor] | tuple[Tensor, ...]: ...
@overload
def _foreach_maximum_(
    input: Sequence[Tensor], scalars: Sequence[Number | _complex]
) -> list[Tensor] | tuple[Tensor, ...]: ...
@overload
def _foreach_maximum_(input: Sequence[Tensor], other: Sequence[Tensor]) -> list[Tensor] | tuple[Tensor, ...]: ...
@overload
def _foreach_minimum(input: Sequence[Tensor], scalar: Number | _complex) -> tuple[Tensor, ...]: ...
@overload
def _foreach_minimum(input: Sequence[Tensor], scalars: Sequence[Number | _complex]) -> tuple[Tensor, ...]: ...
@overload
def _foreach_minimum(input: Sequence[Tensor], other: Sequence[Tensor]) -> tuple[Tensor, ...]: ...
@overload
def _foreach_minimum_(input: Sequence[Tensor], scalar: Number | _complex) -> list[Tensor] | tuple[Tensor, ...]: ...
@overload
def _foreach_minimum_(
    input: Sequence[Tensor], scalars: Sequence[Number | _complex]
) -> list[Tensor] | tuple[Tensor, ...]: ...
@overload
def _foreach_minimum_(input: Sequence[Tensor], other: Sequence[Tensor]) -> list[Tensor] | tuple[Tensor, ...]: ...
def _foreach_mm(input: Sequence[Tensor], mat2: Sequence[Tensor]) -> tuple[Tensor, ...]: ...
@overload
def _foreach_mul(input: Sequence[Tensor], scalars: Sequence[Number | _complex]) -> tuple[Tensor, ...]: ...
@overload
def _foreach_mul(input: Sequence[Tensor], other: Tensor | Sequence[Tensor]) -> tuple[Tensor, ...]: ...
@overload
def _foreach_mul(input: Sequence[Tensor], scalar: Number | _complex) -> tuple[Tensor, ...]: ...
@overload
def _foreach_mul_(
    input: Sequence[Tensor], scalars: Sequence[Number | _complex]
) -> list[Tensor] | tuple[Tensor, ...]: ...
@overload
def _foreach_mul_(input: Sequence[Tensor], other: Tensor | Sequence[Tensor]) -> list[Tensor] | tuple[Tensor, ...]: ...
@overload
def _foreach_mul_(input: Sequence[Tensor], scalar: Number | _complex) -> list[Tensor] | tuple[Tensor, ...]: ...
def _foreach_neg(input: Sequence[Tensor]) -> tuple[Tensor, ...]: ...
def _foreach_neg_(input: Sequence[Tensor]) -> list[Tensor] | tuple[Tensor, ...]: ...
def _foreach_norm(
    input: Sequence[Tensor], ord: Number | _complex = 2, dtype: _dtype | None = None
) -> tuple[Tensor, ...]: ...
@overload
def _foreach_pow(input: Number | _complex | Sequence[Tensor], exponent: Sequence[Tensor]) -> tuple[Tensor, ...]: ...
@overload
def _foreach_pow(
    input: Sequence[Tensor], exponent: Number | _complex | Sequence[Number | _complex]
) -> tuple[Tensor, ...]: ...
def _foreach_pow_(
    input: Sequence[Tensor], exponent: Number | _complex | Sequence[Number | _complex] | Sequence[Tensor]
) -> list[Tensor] | tuple[Tensor, ...]: ...
def _foreach_powsum(
    input: Sequence[Tensor], ord: Number | _complex = 2, dtype: _dtype | None = None
) -> tuple[Tensor, ...]: ...
def _foreach_reciprocal(input: Sequence[Tensor]) -> tuple[Tensor, ...]: ...
def _foreach_reciprocal_(input: Sequence[Tensor]) -> list[Tensor] | tuple[Tensor, ...]: ...
def _foreach_round(input: Sequence[Tensor]) -> tuple[Tensor, ...]: ...
def _foreach_round_(input: Sequence[Tensor]) -> list[Tensor] | tuple[Tensor, ...]: ...
def _foreach_rsqrt(input: Sequence[Tensor]) -> tuple[Tensor, ...]: ...
def _foreach_rsqrt_(input: Sequence[Tensor]) -> list[Tensor] | tuple[Tensor, ...]: ...
def _foreach_sigmoid(input: Sequence[Tensor]) -> tuple[Tensor, ...]: ...
def _foreach_sigmoid_(input: Sequence[Tensor]) -> list[Tensor] | tuple[Tensor, ...]: ...
def _foreach_sign(input: Sequence[Tensor]) -> tuple[Tensor, ...]: ...
def _foreach_sign_(input: Sequence[Tensor]) -> list[Tensor] | tuple[Tensor, ...]: ...
def _foreach_sin(input: Sequence[Tensor]) -> tuple[Tensor, ...]: ...
def _foreach_sin_(input: Sequence[Tensor]) -> list[Tensor] | tuple[Tensor, ...]: ...
def _foreach_sinh(input: Sequence[Tensor]) -> tuple[Tensor, ...]: ...
def _foreach_sinh_(input: Sequence[Tensor]) -> list[Tensor] | tuple[Tensor, ...]: ...
def _foreach_sqrt(input: Sequence[Tensor]) -> tuple[Tensor, ...]: ...
def _foreach_sqrt_(input: Sequence[Tensor]) -> list[Tensor] | tuple[Tensor, ...]: ...
@overload
def _foreach_sub(input: Sequence[Tensor], scalar: Number | _complex) -> tuple[Tensor, ...]: ...
@overload
def _foreach_sub(input: Sequence[Tensor], scalars: Sequence[Number | _complex]) -> tuple[Tensor, ...]: ...
@overload
def _foreach_sub(
    input: Sequence[Tensor], other: Sequence[Tensor], *, alpha: Number | _complex = 1
) -> tuple[Tensor, ...]: ...
@overload
def _foreach_sub_(input: Sequence[Tensor], scalar: Number | _complex) -> list[Tensor] | tuple[Tensor, ...]: ...
@overload
def _foreach_sub_(
    input: Sequence[Tensor], scalars: Sequence[Number | _complex]
) -> list[Tensor] | tuple[Tensor, ...]: ...
@overload
def _foreach_sub_(
    input: Sequence[Tensor], other: Sequence[Tensor], *, alpha: Number | _complex = 1
) -> list[Tensor] | tuple[Tensor, ...]: ...
def _foreach_tan(input: Sequence[Tensor]) -> tuple[Tensor, ...]: ...
def _foreach_tan_(input: Sequence[Tensor]) -> list[Tensor] | tuple[Tensor, ...]: ...
def _foreach_tanh(input: Sequence[Tensor]) -> tuple[Tensor, ...]: ...
def _foreach_tanh_(input: Sequence[Tensor]) -> list[Tensor] | tuple[Tensor, ...]: ...
def _foreach_trunc(input: Sequence[Tensor]) -> tuple[Tensor, ...]: ...
def _foreach_trunc_(input: Sequence[Tensor]) -> list[Tensor] | tuple[Tensor, ...]: ...
def _foreach_zero_(input: Sequence[Tensor]) -> tuple[Tensor, ...]: ...
def _fused_adam_(
    input: Sequence[Tensor],
    grads: Sequence[Tensor],
    exp_avgs: Sequence[Tensor],
    exp_avg_sqs: Sequence[Tensor],
    max_exp_avg_sqs: Sequence[Tensor],
    state_steps: Sequence[Tensor],
    *,
    lr: _float,
    beta1: _float,
    beta2: _float,
    weight_decay: _float,
    eps: _float,
    amsgrad: _bool,
    maximize: _bool,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
) -> None: ...
def _fused_adamw_(
    input: Sequence[Tensor],
    grads: Sequence[Tensor],
    exp_avgs: Sequence[Tensor],
    exp_avg_sqs: Sequence[Tensor],
    max_exp_avg_sqs: Sequence[Tensor],
    state_steps: Sequence[Tensor],
    *,
    lr: _float,
    beta1: _float,
    beta2: _float,
    weight_decay: _float,
    eps: _float,
    amsgrad: _bool,
    maximize: _bool,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
) -> None: ...
def _fused_sgd_(
    input: Sequence[Tensor],
    grads: Sequence[Tensor],
    momentum_buffer_list: Sequence[Tensor],
    *,
    weight_decay: _float,
    momentum: _float,
    lr: _float,
    dampening: _float,
    nesterov: _bool,
    maximize: _bool,
    is_first_step: _bool,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
) -> None: ...
def _grouped_mm(
    input: Tensor, mat2: Tensor, offs: Tensor | None = None, bias: Tensor | None = None, out_dtype: _dtype | None = None
) -> Tensor: ...
def _histogramdd_bin_edges(
    input: Tensor,
    bins: Sequence[_int],
    *,
    range: Sequence[_float] | None = None,
    weight: Tensor | None = None,
    density: _bool = False,
) -> tuple[Tensor, ...]: ...
def _histogramdd_from_bin_cts(
    input: Tensor,
    bins: Sequence[_int],
    *,
    range: Sequence[_float] | None = None,
    weight: Tensor | None = None,
    density: _bool = False,
) -> Tensor: ...
def _histogramdd_from_bin_tensors(
    input: Tensor, bins: Sequence[Tensor], *, weight: Tensor | None = None, density: _bool = False
) -> Tensor: ...
def _log_softmax_backward_data(
    grad_output: Tensor, output: Tensor, dim: _int, input_dtype: _dtype, *, out: Tensor | None = None
) -> Tensor: ...
def _lu_with_info(input: Tensor, pivot: _bool = True, check_errors: _bool = True) -> return_types._lu_with_info: ...
@overload
def _native_batch_norm_legit(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    training: _bool,
    momentum: _float,
    eps: _float,
    *,
    out: tuple[Tensor, ...] | list[Tensor] | None = None,
) -> tuple[Tensor, Tensor, Tensor]: ...
@overload
def _native_batch_norm_legit(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    training: _bool,
    momentum: _float,
    eps: _float,
    *,
    out: tuple[Tensor, ...] | list[Tensor] | None = None,
) -> tuple[Tensor, Tensor, Tensor]: ...
def _native_batch_norm_legit_functional(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    training: _bool,
    momentum: _float,
    eps: _float,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]: ...
def _native_batch_norm_legit_no_training(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    momentum: _float,
    eps: _float,
    *,
    out: tuple[Tensor, ...] | list[Tensor] | None = None,
) -> tuple[Tensor, Tensor, Tensor]: ...
def _neg_view(input: Tensor) -> Tensor: ...
def _optimization_barrier(input: Tensor, after: Tensor | None = None) -> Tensor: ...
def _safe_softmax(input: Tensor, dim: _int, dtype: _dtype | None = None, *, out: Tensor | None = None) -> Tensor: ...
def _sample_dirichlet(input: Tensor, generator: Generator | None = None) -> Tensor: ...
def _scaled_dot_product_flash_attention_for_cpu(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    dropout_p: _float = 0.0,
    is_causal: _bool = False,
    *,
    attn_mask: Tensor | None = None,
    scale: _float | None = None,
    out: tuple[Tensor, ...] | list[Tensor] | None = None,
) -> tuple[Tensor, Tensor]: ...
def _scaled_mm(
    input: Tensor,
    mat2: Tensor,
    scale_a: Tensor,
    scale_b: Tensor,
    bias: Tensor | None = None,
    scale_result: Tensor | None = None,
    out_dtype: _dtype | None = None,
    use_fast_accum: _bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def _segment_reduce(
    data: Tensor,
    reduce: _str,
    *,
    lengths: Tensor | None = None,
    indices: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: _int = 0,
    unsafe: _bool = False,
    initial: Number | _complex | None = None,
) -> Tensor: ...
def _softmax_backward_data(
    grad_output: Tensor, output: Tensor, dim: _int, input_dtype: _dtype, *, out: Tensor | None = None
) -> Tensor: ...
def _standard_gamma(input: Tensor, generator: Generator | None = None) -> Tensor: ...
def _standard_gamma_grad(input: Tensor, output: Tensor) -> Tensor: ...
def _to(
    input: Tensor,
    device: _device | _str | _int | None = None,
    dtype: _dtype | None = None,
    non_blocking: _bool = False,
    copy: _bool = False,
    *,
    memory_format: _memory_format | None = None,
) -> Tensor: ...
def _unique2(
    input: Tensor, sorted: _bool = True, return_inverse: _bool = False, return_counts: _bool = False
) -> tuple[Tensor, Tensor, Tensor]: ...
def _unsafe_masked_index(
    input: Tensor, mask: Tensor, indices: Sequence[Tensor | None], fill: Number | _complex
) -> Tensor: ...
def _unsafe_masked_index_put_accumulate(
    input: Tensor, mask: Tensor, indices: Sequence[Tensor | None], values: Tensor
) -> Tensor: ...
@overload
def _upsample_bicubic2d_aa(
    input: Tensor,
    output_size: _int | Sequence[_int],
    align_corners: _bool,
    scales_h: _float | None = None,
    scales_w: _float | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def _upsample_bicubic2d_aa(
    input: Tensor,
    output_size: Sequence[_int] | None,
    align_corners: _bool,
    scale_factors: Sequence[_float] | None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def _upsample_bilinear2d_aa(
    input: Tensor,
    output_size: _int | Sequence[_int],
    align_corners: _bool,
    scales_h: _float | None = None,
    scales_w: _float | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def _upsample_bilinear2d_aa(
    input: Tensor,
    output_size: Sequence[_int] | None,
    align_corners: _bool,
    scale_factors: Sequence[_float] | None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def _upsample_lanczos2d_aa(
    input: Tensor,
    output_size: _int | Sequence[_int],
    align_corners: _bool,
    scales_h: _float | None = None,
    scales_w: _float | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def _upsample_lanczos2d_aa(
    input: Tensor,
    output_size: Sequence[_int] | None,
    align_corners: _bool,
    scale_factors: Sequence[_float] | None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def _upsample_nearest_exact1d(
    input: Tensor, output_size: _int | Sequence[_int], scales: _float | None = None, *, out: Tensor | None = None
) -> Tensor: ...
@overload
def _upsample_nearest_exact1d(
    input: Tensor,
    output_size: Sequence[_int] | None,
    scale_factors: Sequence[_float] | None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def _upsample_nearest_exact2d(
    input: Tensor,
    output_size: _int | Sequence[_int],
    scales_h: _float | None = None,
    scales_w: _float | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def _upsample_nearest_exact2d(
    input: Tensor,
    output_size: Sequence[_int] | None,
    scale_factors: Sequence[_float] | None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def _upsample_nearest_exact3d(
    input: Tensor,
    output_size: _int | Sequence[_int],
    scales_d: _float | None = None,
    scales_h: _float | None = None,
    scales_w: _float | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def _upsample_nearest_exact3d(
    input: Tensor,
    output_size: Sequence[_int] | None,
    scale_factors: Sequence[_float] | None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def abs(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def abs_(input: Tensor) -> Tensor: ...
def absolute(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def absolute_(input: Tensor) -> Tensor: ...
def acos(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def acos_(input: Tensor) -> Tensor: ...
def acosh(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def acosh_(input: Tensor) -> Tensor: ...
def adaptive_avg_pool1d(input: Tensor, output_size: _int | Sequence[_int], *, out: Tensor | None = None) -> Tensor: ...
def adaptive_avg_pool2d(input: Tensor, output_size: _int | Sequence[_int], *, out: Tensor | None = None) -> Tensor: ...
def adaptive_avg_pool3d(input: Tensor, output_size: _int | Sequence[_int], *, out: Tensor | None = None) -> Tensor: ...
def adaptive_max_pool1d(
    input: Tensor, output_size: _int | Sequence[_int], *, out: tuple[Tensor, ...] | list[Tensor] | None = None
) -> tuple[Tensor, Tensor]: ...
def adaptive_max_pool2d(
    input: Tensor, output_size: _int | Sequence[_int], *, out: tuple[Tensor, ...] | list[Tensor] | None = None
) -> tuple[Tensor, Tensor]: ...
def adaptive_max_pool3d(
    input: Tensor, output_size: _int | Sequence[_int], *, out: tuple[Tensor, ...] | list[Tensor] | None = None
) -> tuple[Tensor, Tensor]: ...
def add(
    input: Tensor | Number | _complex,
    other: Tensor | Number | _complex,
    *,
    alpha: Number | _complex = 1,
    out: Tensor | None = None,
) -> Tensor: ...
def add_(input: Tensor, other: Tensor | Number | _complex, *, alpha: Number | _complex = 1) -> Tensor: ...
def addbmm(
    input: Tensor,
    batch1: Tensor,
    batch2: Tensor,
    *,
    beta: Number | _complex = 1,
    alpha: Number | _complex = 1,
    out: Tensor | None = None,
) -> Tensor: ...
def addbmm_(
    input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Number | _complex = 1, alpha: Number | _complex = 1
) -> Tensor: ...
def addcdiv(
    input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Number | _complex = 1, out: Tensor | None = None
) -> Tensor: ...
def addcdiv_(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Number | _complex = 1) -> Tensor: ...
def addcmul(
    input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Number | _complex = 1, out: Tensor | None = None
) -> Tensor: ...
def addcmul_(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Number | _complex = 1) -> Tensor: ...
def addmm(
    input: Tensor,
    mat1: Tensor,
    mat2: Tensor,
    *,
    beta: Number | _complex = 1,
    alpha: Number | _complex = 1,
    out: Tensor | None = None,
) -> Tensor: ...
def addmm_(
    input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Number | _complex = 1, alpha: Number | _complex = 1
) -> Tensor: ...
def addmv(
    input: Tensor,
    mat: Tensor,
    vec: Tensor,
    *,
    beta: Number | _complex = 1,
    alpha: Number | _complex = 1,
    out: Tensor | None = None,
) -> Tensor: ...
def addmv_(
    input: Tensor, mat: Tensor, vec: Tensor, *, beta: Number | _complex = 1, alpha: Number | _complex = 1
) -> Tensor: ...
def addr(
    input: Tensor,
    vec1: Tensor,
    vec2: Tensor,
    *,
    beta: Number | _complex = 1,
    alpha: Number | _complex = 1,
    out: Tensor | None = None,
) -> Tensor: ...
def addr_(
    input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: Number | _complex = 1, alpha: Number | _complex = 1
) -> Tensor: ...
def adjoint(input: Tensor) -> Tensor: ...
def affine_grid_generator(theta: Tensor, size: Sequence[_int], align_corners: _bool) -> Tensor: ...
def alias(input: Tensor) -> Tensor: ...
def alias_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def all(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def all(input: Tensor, dim: _int, keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor: ...
@overload
def all(
    input: Tensor, dim: Sequence[_int] | None = None, keepdim: _bool = False, *, out: Tensor | None = None
) -> Tensor: ...
def allclose(
    input: Tensor, other: Tensor, rtol: _float = 1e-5, atol: _float = 1e-8, equal_nan: _bool = False
) -> _bool: ...
def alpha_dropout(input: Tensor, p: _float, train: _bool, *, out: Tensor | None = None) -> Tensor: ...
def alpha_dropout_(input: Tensor, p: _float, train: _bool) -> Tensor: ...
def amax(
    input: Tensor, dim: _int | Sequence[_int] = [], keepdim: _bool = False, *, out: Tensor | None = None
) -> Tensor: ...
def amin(
    input: Tensor, dim: _int | Sequence[_int] = [], keepdim: _bool = False, *, out: Tensor | None = None
) -> Tensor: ...
def aminmax(
    input: Tensor,
    *,
    dim: _int | None = None,
    keepdim: _bool = False,
    out: tuple[Tensor, ...] | list[Tensor] | None = None,
) -> return_types.aminmax: ...
def angle(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def any(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def any(input: Tensor, dim: _int, keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor: ...
@overload
def any(
    input: Tensor, dim: Sequence[_int] | None = None, keepdim: _bool = False, *, out: Tensor | None = None
) -> Tensor: ...
@overload
def arange(
    end: Number | _complex,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _device | _str | _int | None = None,
    pin_memory: _bool | None = None,
    out: Tensor | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
@overload
def arange(
    start: Number | _complex,
    end: Number | _complex,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _device | _str | _int | None = None,
    pin_memory: _bool | None = None,
    out: Tensor | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
@overload
def arange(
    start: Number | _complex,
    end: Number | _complex,
    step: Number | _complex = 1,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _device | _str | _int | None = None,
    pin_memory: _bool | None = None,
    out: Tensor | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
def arccos(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def arccos_(input: Tensor) -> Tensor: ...
def arccosh(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def arccosh_(input: Tensor) -> Tensor: ...
def arcsin(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def arcsin_(input: Tensor) -> Tensor: ...
def arcsinh(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def arcsinh_(input: Tensor) -> Tensor: ...
def arctan(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def arctan2(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def arctan2_(input: Tensor, other: Tensor) -> Tensor: ...
def arctan_(input: Tensor) -> Tensor: ...
def arctanh(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def arctanh_(input: Tensor) -> Tensor: ...
def argmax(input: Tensor, dim: _int | None = None, keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor: ...
def argmin(input: Tensor, dim: _int | None = None, keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor: ...
@overload
def argsort(input: Tensor, dim: _int = -1, descending: _bool = False) -> Tensor: ...
@overload
def argsort(
    input: Tensor, *, stable: _bool, dim: _int = -1, descending: _bool = False, out: Tensor | None = None
) -> Tensor: ...
def argwhere(input: Tensor) -> Tensor: ...
def as_strided(
    input: Tensor, size: Sequence[_int], stride: Sequence[_int], storage_offset: _int | None = None
) -> Tensor: ...
def as_strided_copy(
    input: Tensor,
    size: Sequence[_int],
    stride: Sequence[_int],
    storage_offset: _int | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def as_strided_scatter(
    input: Tensor,
    src: Tensor,
    size: Sequence[_int],
    stride: Sequence[_int],
    storage_offset: _int | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def asin(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def asin_(input: Tensor) -> Tensor: ...
def asinh(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def asinh_(input: Tensor) -> Tensor: ...
def atan(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def atan2(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def atan2_(input: Tensor, other: Tensor) -> Tensor: ...
def atan_(input: Tensor) -> Tensor: ...
def atanh(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def atanh_(input: Tensor) -> Tensor: ...
def atleast_1d(input: Tensor) -> Tensor: ...
def atleast_2d(input: Tensor) -> Tensor: ...
def atleast_3d(input: Tensor) -> Tensor: ...
def avg_pool1d(
    input: Tensor,
    kernel_size: _int | Sequence[_int],
    stride: _int | Sequence[_int] = [],
    padding: _int | Sequence[_int] = [0],
    ceil_mode: _bool = False,
    count_include_pad: _bool = True,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def avg_pool2d(
    input: Tensor,
    kernel_size: _int | Sequence[_int],
    stride: _int | Sequence[_int] = [],
    padding: _int | Sequence[_int] = [0, 0],
    ceil_mode: _bool = False,
    count_include_pad: _bool = True,
    divisor_override: _int | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def avg_pool3d(
    input: Tensor,
    kernel_size: _int | Sequence[_int],
    stride: _int | Sequence[_int] = [],
    padding: _int | Sequence[_int] = [0, 0, 0],
    ceil_mode: _bool = False,
    count_include_pad: _bool = True,
    divisor_override: _int | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def baddbmm(
    input: Tensor,
    batch1: Tensor,
    batch2: Tensor,
    *,
    beta: Number | _complex = 1,
    alpha: Number | _complex = 1,
    out: Tensor | None = None,
) -> Tensor: ...
def baddbmm_(
    input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Number | _complex = 1, alpha: Number | _complex = 1
) -> Tensor: ...
@overload
def bartlett_window(
    window_length: _int,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _device | _str | _int | None = None,
    pin_memory: _bool | None = None,
    out: Tensor | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
@overload
def bartlett_window(
    window_length: _int,
    periodic: _bool,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _device | _str | _int | None = None,
    pin_memory: _bool | None = None,
    out: Tensor | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
def batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: _bool,
    momentum: _float,
    eps: _float,
    cudnn_enabled: _bool,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def bernoulli(input: Tensor, *, generator: Generator | None = None, out: Tensor | None = None) -> Tensor: ...
@overload
def bernoulli(input: Tensor, p: _float, *, generator: Generator | None = None) -> Tensor: ...
@overload
def bernoulli_(input: Tensor, p: _float = 0.5, *, generator: Generator | None = None) -> Tensor: ...
@overload
def bernoulli_(input: Tensor, p: Tensor, *, generator: Generator | None = None) -> Tensor: ...
def bfloat16(input: Tensor, *, memory_format: _memory_format | None = None) -> Tensor: ...
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor: ...
def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, reduction: _int = 1, *, out: Tensor | None = None
) -> Tensor: ...
def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    pos_weight: Tensor | None = None,
    reduction: _int = 1,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def bincount(
    input: Tensor, weights: Tensor | None = None, minlength: _int = 0, *, out: Tensor | None = None
) -> Tensor: ...
def binomial(count: Tensor, prob: Tensor, generator: Generator | None = None) -> Tensor: ...
def bitwise_and(
    input: Tensor | Number | _complex, other: Tensor | Number | _complex, *, out: Tensor | None = None
) -> Tensor: ...
def bitwise_and_(input: Tensor, other: Tensor | Number | _complex) -> Tensor: ...
def bitwise_left_shift(
    input: Tensor | Number | _complex, other: Tensor | Number | _complex, *, out: Tensor | None = None
) -> Tensor: ...
def bitwise_left_shift_(input: Tensor, other: Tensor | Number | _complex) -> Tensor: ...
def bitwise_not(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def bitwise_not_(input: Tensor) -> Tensor: ...
def bitwise_or(
    input: Tensor | Number | _complex, other: Tensor | Number | _complex, *, out: Tensor | None = None
) -> Tensor: ...
def bitwise_or_(input: Tensor, other: Tensor | Number | _complex) -> Tensor: ...
def bitwise_right_shift(
    input: Tensor | Number | _complex, other: Tensor | Number | _complex, *, out: Tensor | None = None
) -> Tensor: ...
def bitwise_right_shift_(input: Tensor, other: Tensor | Number | _complex) -> Tensor: ...
def bitwise_xor(
    input: Tensor | Number | _complex, other: Tensor | Number | _complex, *, out: Tensor | None = None
) -> Tensor: ...
def bitwise_xor_(input: Tensor, other: Tensor | Number | _complex) -> Tensor: ...
@overload
def blackman_window(
    window_length: _int,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _device | _str | _int | None = None,
    pin_memory: _bool | None = None,
    out: Tensor | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
@overload
def blackman_window(
    window_length: _int,
    periodic: _bool,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _device | _str | _int | None = None,
    pin_memory: _bool | None = None,
    out: Tensor | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
def block_diag(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor: ...
def bmm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def bool(input: Tensor, *, memory_format: _memory_format | None = None) -> Tensor: ...
def broadcast_tensors(tensors: Sequence[Tensor]) -> tuple[Tensor, ...]: ...
def broadcast_to(input: Tensor, size: Sequence[_int]) -> Tensor: ...
def bucketize(
    input: Tensor | Number | _complex,
    boundaries: Tensor,
    *,
    out_int32: _bool = False,
    right: _bool = False,
    out: Tensor | None = None,
) -> Tensor: ...
def byte(input: Tensor, *, memory_format: _memory_format | None = None) -> Tensor: ...
def cat(tensors: Sequence[Tensor], dim: _int = 0, *, out: Tensor | None = None) -> Tensor: ...
def cauchy_(
    input: Tensor, median: _float = 0.0, sigma: _float = 1.0, *, generator: Generator | None = None
) -> Tensor: ...
def cdist(x1: Tensor, x2: Tensor, p: _float = 2.0, compute_mode: _int | None = None) -> Tensor: ...
def cdouble(input: Tensor, *, memory_format: _memory_format | None = None) -> Tensor: ...
def ceil(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def ceil_(input: Tensor) -> Tensor: ...
def celu(input: Tensor, alpha: Number | _complex = 1.0, *, out: Tensor | None = None) -> Tensor: ...
def celu_(input: Tensor, alpha: Number | _complex = 1.0) -> Tensor: ...
def cfloat(input: Tensor, *, memory_format: _memory_format | None = None) -> Tensor: ...
def chain_matmul(matrices: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor: ...
def channel_shuffle(input: Tensor, groups: _int) -> Tensor: ...
def char(input: Tensor, *, memory_format: _memory_format | None = None) -> Tensor: ...
def cholesky_inverse(input: Tensor, upper: _bool = False, *, out: Tensor | None = None) -> Tensor: ...
def cholesky_solve(input: Tensor, input2: Tensor, upper: _bool = False, *, out: Tensor | None = None) -> Tensor: ...
def chunk(input: Tensor, chunks: _int, dim: _int = 0) -> tuple[Tensor, ...]: ...
@overload
def clamp(
    input: Tensor, min: Tensor | None = None, max: Tensor | None = None, *, out: Tensor | None = None
) -> Tensor: ...
@overload
def clamp(
    input: Tensor,
    min: Number | _complex | None = None,
    max: Number | _complex | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def clamp_(input: Tensor, min: Tensor | None = None, max: Tensor | None = None) -> Tensor: ...
@overload
def clamp_(input: Tensor, min: Number | _complex | None = None, max: Number | _complex | None = None) -> Tensor: ...
def clamp_max(input: Tensor, max: Tensor | Number | _complex, *, out: Tensor | None = None) -> Tensor: ...
def clamp_max_(input: Tensor, max: Tensor | Number | _complex) -> Tensor: ...
def clamp_min(input: Tensor, min: Tensor | Number | _complex, *, out: Tensor | None = None) -> Tensor: ...
def clamp_min_(input: Tensor, min: Tensor | Number | _complex) -> Tensor: ...
@overload
def clip(
    input: Tensor, min: Tensor | None = None, max: Tensor | None = None, *, out: Tensor | None = None
) -> Tensor: ...
@overload
def clip(
    input: Tensor,
    min: Number | _complex | None = None,
    max: Number | _complex | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def clip_(input: Tensor, min: Tensor | None = None, max: Tensor | None = None) -> Tensor: ...
@overload
def clip_(input: Tensor, min: Number | _complex | None = None, max: Number | _complex | None = None) -> Tensor: ...
def clone(input: Tensor, *, memory_format: _memory_format | None = None) -> Tensor: ...
def col2im(
    input: Tensor,
    output_size: _int | Sequence[_int],
    kernel_size: _int | Sequence[_int],
    dilation: _int | Sequence[_int],
    padding: _int | Sequence[_int],
    stride: _int | Sequence[_int],
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def column_stack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor: ...
def complex(real: Tensor, imag: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def concat(tensors: Sequence[Tensor], dim: _int = 0, *, out: Tensor | None = None) -> Tensor: ...
def concatenate(tensors: Sequence[Tensor], dim: _int = 0, *, out: Tensor | None = None) -> Tensor: ...
def conj(input: Tensor) -> Tensor: ...
def conj_physical(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def conj_physical_(input: Tensor) -> Tensor: ...
def constant_pad_nd(
    input: Tensor, pad: Sequence[_int], value: Number | _complex = 0, *, out: Tensor | None = None
) -> Tensor: ...
def contiguous(input: Tensor, *, memory_format: _memory_format | None = None) -> Tensor: ...
@overload
def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: _int | Sequence[_int] = [1],
    padding: _int | Sequence[_int] = [0],
    dilation: _int | Sequence[_int] = [1],
    groups: _int = 1,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: _int | Sequence[_int] = [1],
    padding: _str = "valid",
    dilation: _int | Sequence[_int] = [1],
    groups: _int = 1,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: _int | Sequence[_int] = [1, 1],
    padding: _int | Sequence[_int] = [0, 0],
    dilation: _int | Sequence[_int] = [1, 1],
    groups: _int = 1,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: _int | Sequence[_int] = [1, 1],
    padding: _str = "valid",
    dilation: _int | Sequence[_int] = [1, 1],
    groups: _int = 1,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: _int | Sequence[_int] = [1, 1, 1],
    padding: _int | Sequence[_int] = [0, 0, 0],
    dilation: _int | Sequence[_int] = [1, 1, 1],
    groups: _int = 1,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: _int | Sequence[_int] = [1, 1, 1],
    padding: _str = "valid",
    dilation: _int | Sequence[_int] = [1, 1, 1],
    groups: _int = 1,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: _int = 0) -> Tensor: ...
def conv_transpose1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: _int | Sequence[_int] = [1],
    padding: _int | Sequence[_int] = [0],
    output_padding: _int | Sequence[_int] = [0],
    groups: _int = 1,
    dilation: _int | Sequence[_int] = [1],
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: _int | Sequence[_int] = [1, 1],
    padding: _int | Sequence[_int] = [0, 0],
    output_padding: _int | Sequence[_int] = [0, 0],
    groups: _int = 1,
    dilation: _int | Sequence[_int] = [1, 1],
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def conv_transpose3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: _int | Sequence[_int] = [1, 1, 1],
    padding: _int | Sequence[_int] = [0, 0, 0],
    output_padding: _int | Sequence[_int] = [0, 0, 0],
    groups: _int = 1,
    dilation: _int | Sequence[_int] = [1, 1, 1],
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def convolution(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[_int],
    padding: Sequence[_int],
    dilation: Sequence[_int],
    transposed: _bool,
    output_padding: Sequence[_int],
    groups: _int,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def copy_(input: Tensor, other: Tensor | Number | _complex, non_blocking: _bool = False) -> Tensor: ...
def copysign(input: Tensor, other: Tensor | Number | _complex, *, out: Tensor | None = None) -> Tensor: ...
def copysign_(input: Tensor, other: Tensor | Number | _complex) -> Tensor: ...
def corrcoef(input: Tensor) -> Tensor: ...
def cos(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def cos_(input: Tensor) -> Tensor: ...
def cosh(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def cosh_(input: Tensor) -> Tensor: ...
def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: _float = 0.0,
    reduction: _int = 1,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def cosine_similarity(
    x1: Tensor, x2: Tensor, dim: _int = 1, eps: _float = 1e-8, *, out: Tensor | None = None
) -> Tensor: ...
@overload
def count_nonzero(input: Tensor, dim: _int | None = None) -> Tensor: ...
@overload
def count_nonzero(input: Tensor, dim: Sequence[_int]) -> Tensor: ...
def cov(
    input: Tensor, *, correction: _int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None
) -> Tensor: ...
def cross(input: Tensor, other: Tensor, dim: _int | None = None, *, out: Tensor | None = None) -> Tensor: ...
def cross_entropy_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    reduction: _int = 1,
    ignore_index: _int = -100,
    label_smoothing: _float = 0.0,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Sequence[_int],
    target_lengths: Sequence[_int],
    blank: _int = 0,
    reduction: _int = 1,
    zero_infinity: _bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    blank: _int = 0,
    reduction: _int = 1,
    zero_infinity: _bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def cummax(
    input: Tensor, dim: _int, *, out: tuple[Tensor, ...] | list[Tensor] | None = None
) -> return_types.cummax: ...
def cummin(
    input: Tensor, dim: _int, *, out: tuple[Tensor, ...] | list[Tensor] | None = None
) -> return_types.cummin: ...
def cumprod(input: Tensor, dim: _int, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor: ...
def cumprod_(input: Tensor, dim: _int, *, dtype: _dtype | None = None) -> Tensor: ...
def cumsum(input: Tensor, dim: _int, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor: ...
def cumsum_(input: Tensor, dim: _int, *, dtype: _dtype | None = None) -> Tensor: ...
@overload
def cumulative_trapezoid(y: Tensor, x: Tensor, *, dim: _int = -1) -> Tensor: ...
@overload
def cumulative_trapezoid(y: Tensor, *, dx: Number | _complex = 1, dim: _int = -1) -> Tensor: ...
def deg2rad(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def deg2rad_(input: Tensor) -> Tensor: ...
def det(input: Tensor) -> Tensor: ...
def detach(input: Tensor) -> Tensor: ...
def detach_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def diag(input: Tensor, diagonal: _int = 0, *, out: Tensor | None = None) -> Tensor: ...
def diag_embed(
    input: Tensor, offset: _int = 0, dim1: _int = -2, dim2: _int = -1, *, out: Tensor | None = None
) -> Tensor: ...
def diagflat(input: Tensor, offset: _int = 0, *, out: Tensor | None = None) -> Tensor: ...
def diagonal(input: Tensor, offset: _int = 0, dim1: _int = 0, dim2: _int = 1) -> Tensor: ...
def diagonal_copy(
    input: Tensor, offset: _int = 0, dim1: _int = 0, dim2: _int = 1, *, out: Tensor | None = None
) -> Tensor: ...
def diagonal_scatter(
    input: Tensor, src: Tensor, offset: _int = 0, dim1: _int = 0, dim2: _int = 1, *, out: Tensor | None = None
) -> Tensor: ...
def diff(
    input: Tensor,
    n: _int = 1,
    dim: _int = -1,
    prepend: Tensor | None = None,
    append: Tensor | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def digamma(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def digamma_(input: Tensor) -> Tensor: ...
@overload
def div(
    input: Tensor | Number | _complex, other: Tensor | Number | _complex, *, out: Tensor | None = None
) -> Tensor: ...
@overload
def div(
    input: Tensor | Number | _complex,
    other: Tensor | Number | _complex,
    *,
    rounding_mode: _str | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def div_(input: Tensor, other: Tensor | Number | _complex) -> Tensor: ...
@overload
def div_(input: Tensor, other: Tensor | Number | _complex, *, rounding_mode: _str | None = None) -> Tensor: ...
@overload
def divide(
    input: Tensor | Number | _complex, other: Tensor | Number | _complex, *, out: Tensor | None = None
) -> Tensor: ...
@overload
def divide(
    input: Tensor | Number | _complex,
    other: Tensor | Number | _complex,
    *,
    rounding_mode: _str | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def divide_(input: Tensor, other: Tensor | Number | _complex) -> Tensor: ...
@overload
def divide_(input: Tensor, other: Tensor | Number | _complex, *, rounding_mode: _str | None = None) -> Tensor: ...
def dot(input: Tensor, tensor: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def double(input: Tensor, *, memory_format: _memory_format | None = None) -> Tensor: ...
def dropout(input: Tensor, p: _float, train: _bool, *, out: Tensor | None = None) -> Tensor: ...
def dropout_(input: Tensor, p: _float, train: _bool) -> Tensor: ...
@overload
def dsplit(input: Tensor, sections: _int) -> tuple[Tensor, ...]: ...
@overload
def dsplit(input: Tensor, indices: Sequence[_int]) -> tuple[Tensor, ...]: ...
def dstack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor: ...
def einsum(equation: _str, tensors: Sequence[Tensor], *, path: Sequence[_int] | None = None) -> Tensor: ...
def elu(
    input: Tensor,
    alpha: Number | _complex = 1,
    scale: Number | _complex = 1,
    input_scale: Number | _complex = 1,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def elu_(
    input: Tensor, alpha: Number | _complex = 1, scale: Number | _complex = 1, input_scale: Number | _complex = 1
) -> Tensor: ...
def embedding(
    weight: Tensor,
    indices: Tensor,
    padding_idx: _int = -1,
    scale_grad_by_freq: _bool = False,
    sparse: _bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: _bool = False,
    mode: _int = 0,
    sparse: _bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: _bool = False,
) -> tuple[Tensor, Tensor, Tensor, Tensor]: ...
@overload
def embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: _bool,
    mode: _int,
    sparse: _bool,
    per_sample_weights: Tensor | None,
    include_last_offset: _bool,
    padding_idx: _int | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]: ...
def embedding_renorm(
    input: Tensor, indices: Tensor, max_norm: _float, norm_type: _float, *, out: Tensor | None = None
) -> Tensor: ...
def embedding_renorm_(input: Tensor, indices: Tensor, max_norm: _float, norm_type: _float) -> Tensor: ...
@overload
def empty(
    size: Sequence[_int],
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _device | _str | _int | None = None,
    pin_memory: _bool | None = None,
    memory_format: _memory_format | None = None,
    out: Tensor | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
@overload
def empty(
    *size: _int,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _device | _str | _int | None = None,
    pin_memory: _bool | None = None,
    memory_format: _memory_format | None = None,
    out: Tensor | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
def empty_like(
    input: Tensor,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _device | _str | _int | None = None,
    pin_memory: _bool | None = None,
    memory_format: _memory_format | None = None,
    out: Tensor | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
def empty_permuted(
    size: Sequence[_int],
    physical_layout: Sequence[_int],
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _device | _str | _int | None = None,
    pin_memory: _bool | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
def empty_strided(
    size: Sequence[_int],
    stride: Sequence[_int],
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _device | _str | _int | None = None,
    pin_memory: _bool | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
def eq(input: Tensor, other: Tensor | Number | _complex, *, out: Tensor | None = None) -> Tensor: ...
def eq_(input: Tensor, other: Tensor | Number | _complex) -> Tensor: ...
def equal(input: Tensor, other: Tensor) -> _bool: ...
def erf(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def erf_(input: Tensor) -> Tensor: ...
def erfc(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def erfc_(input: Tensor) -> Tensor: ...
def erfinv(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def erfinv_(input: Tensor) -> Tensor: ...
def exp(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def exp2(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def exp2_(input: Tensor) -> Tensor: ...
def exp_(input: Tensor) -> Tensor: ...
def expand(input: Tensor, size: Sequence[_int], *, implicit: _bool = False) -> Tensor: ...
def expand_as(input: Tensor, other: Tensor) -> Tensor: ...
def expand_copy(
    input: Tensor, size: Sequence[_int], *, implicit: _bool = False, out: Tensor | None = None
) -> Tensor: ...
def expm1(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def expm1_(input: Tensor) -> Tensor: ...
def exponential_(input: Tensor, lambd: _float = 1.0, *, generator: Generator | None = None) -> Tensor: ...
@overload
def eye(
    n: _int,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _device | _str | _int | None = None,
    pin_memory: _bool | None = None,
    out: Tensor | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
@overload
def eye(
    n: _int,
    m: _int,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _device | _str | _int | None = None,
    pin_memory: _bool | None = None,
    out: Tensor | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
def fake_quantize_per_channel_affine(
    input: Tensor, scale: Tensor, zero_point: Tensor, axis: _int, quant_min: _int, quant_max: _int
) -> Tensor: ...
@overload
def fake_quantize_per_tensor_affine(
    input: Tensor, scale: Tensor, zero_point: Tensor, quant_min: _int, quant_max: _int
) -> Tensor: ...
@overload
def fake_quantize_per_tensor_affine(
    input: Tensor, scale: _float, zero_point: _int, quant_min: _int, quant_max: _int
) -> Tensor: ...
def feature_alpha_dropout(input: Tensor, p: _float, train: _bool, *, out: Tensor | None = None) -> Tensor: ...
def feature_alpha_dropout_(input: Tensor, p: _float, train: _bool) -> Tensor: ...
def feature_dropout(input: Tensor, p: _float, train: _bool, *, out: Tensor | None = None) -> Tensor: ...
def feature_dropout_(input: Tensor, p: _float, train: _bool) -> Tensor: ...
def fft_fft(
    input: Tensor, n: _int | None = None, dim: _int = -1, norm: _str | None = None, *, out: Tensor | None = None
) -> Tensor: ...
def fft_fft2(
    input: Tensor,
    s: _int | Sequence[_int] | None = None,
    dim: _int | Sequence[_int] = [-2, -1],
    norm: _str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def fft_fftfreq(
    n: _int,
    d: _float = 1.0,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _device | _str | _int | None = None,
    pin_memory: _bool | None = None,
    out: Tensor | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
def fft_fftn(
    input: Tensor,
    s: _int | Sequence[_int] | None = None,
    dim: _int | Sequence[_int] | None = None,
    norm: _str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def fft_fftshift(input: Tensor, dim: _int | Sequence[_int] | None = None) -> Tensor: ...
def fft_hfft(
    input: Tensor, n: _int | None = None, dim: _int = -1, norm: _str | None = None, *, out: Tensor | None = None
) -> Tensor: ...
def fft_hfft2(
    input: Tensor,
    s: _int | Sequence[_int] | None = None,
    dim: _int | Sequence[_int] = [-2, -1],
    norm: _str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def fft_hfftn(
    input: Tensor,
    s: _int | Sequence[_int] | None = None,
    dim: _int | Sequence[_int] | None = None,
    norm: _str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def fft_ifft(
    input: Tensor, n: _int | None = None, dim: _int = -1, norm: _str | None = None, *, out: Tensor | None = None
) -> Tensor: ...
def fft_ifft2(
    input: Tensor,
    s: _int | Sequence[_int] | None = None,
    dim: _int | Sequence[_int] = [-2, -1],
    norm: _str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def fft_ifftn(
    input: Tensor,
    s: _int | Sequence[_int] | None = None,
    dim: _int | Sequence[_int] | None = None,
    norm: _str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def fft_ifftshift(input: Tensor, dim: _int | Sequence[_int] | None = None) -> Tensor: ...
def fft_ihfft(
    input: Tensor, n: _int | None = None, dim: _int = -1, norm: _str | None = None, *, out: Tensor | None = None
) -> Tensor: ...
def fft_ihfft2(
    input: Tensor,
    s: _int | Sequence[_int] | None = None,
    dim: _int | Sequence[_int] = [-2, -1],
    norm: _str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def fft_ihfftn(
    input: Tensor,
    s: _int | Sequence[_int] | None = None,
    dim: _int | Sequence[_int] | None = None,
    norm: _str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def fft_irfft(
    input: Tensor, n: _int | None = None, dim: _int = -1, norm: _str | None = None, *, out: Tensor | None = None
) -> Tensor: ...
def fft_irfft2(
    input: Tensor,
    s: _int | Sequence[_int] | None = None,
    dim: _int | Sequence[_int] = [-2, -1],
    norm: _str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def fft_irfftn(
    input: Tensor,
    s: _int | Sequence[_int] | None = None,
    dim: _int | Sequence[_int] | None = None,
    norm: _str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def fft_rfft(
    input: Tensor, n: _int | None = None, dim: _int = -1, norm: _str | None = None, *, out: Tensor | None = None
) -> Tensor: ...
def fft_rfft2(
    input: Tensor,
    s: _int | Sequence[_int] | None = None,
    dim: _int | Sequence[_int] = [-2, -1],
    norm: _str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def fft_rfftfreq(
    n: _int,
    d: _float = 1.0,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _device | _str | _int | None = None,
    pin_memory: _bool | None = None,
    out: Tensor | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
def fft_rfftn(
    input: Tensor,
    s: _int | Sequence[_int] | None = None,
    dim: _int | Sequence[_int] | None = None,
    norm: _str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def fill(input: Tensor, value: Number | _complex | Tensor) -> Tensor: ...
def fill_(input: Tensor, value: Number | _complex | Tensor) -> Tensor: ...
def fix(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def fix_(input: Tensor) -> Tensor: ...
def flatten(input: Tensor, start_dim: _int = 0, end_dim: _int = -1) -> Tensor: ...
def flip(input: Tensor, dims: Sequence[_int], *, out: Tensor | None = None) -> Tensor: ...
def fliplr(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def flipud(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def float(input: Tensor, *, memory_format: _memory_format | None = None) -> Tensor: ...
def float_power(
    input: Tensor | Number | _complex, exponent: Tensor | Number | _complex, *, out: Tensor | None = None
) -> Tensor: ...
def floor(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def floor_(input: Tensor) -> Tensor: ...
def floor_divide(
    input: Tensor | Number | _complex, other: Tensor | Number | _complex, *, out: Tensor | None = None
) -> Tensor: ...
def floor_divide_(input: Tensor, other: Tensor | Number | _complex) -> Tensor: ...
def fmax(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def fmax_(input: Tensor, other: Tensor) -> Tensor: ...
def fmin(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def fmin_(input: Tensor, other: Tensor) -> Tensor: ...
def fmod(input: Tensor, other: Tensor | Number | _complex, *, out: Tensor | None = None) -> Tensor: ...
def fmod_(input: Tensor, other: Tensor | Number | _complex) -> Tensor: ...
def frac(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def frac_(input: Tensor) -> Tensor: ...
def fractional_max_pool2d(
    input: Tensor,
    kernel_size: _int | Sequence[_int],
    output_size: _int | Sequence[_int],
    random_samples: Tensor,
    *,
    out: tuple[Tensor, ...] | list[Tensor] | None = None,
) -> tuple[Tensor, Tensor]: ...
def fractional_max_pool3d(
    input: Tensor,
    kernel_size: _int | Sequence[_int],
    output_size: _int | Sequence[_int],
    random_samples: Tensor,
    *,
    out: tuple[Tensor, ...] | list[Tensor] | None = None,
) -> tuple[Tensor, Tensor]: ...
def frexp(input: Tensor, *, out: tuple[Tensor, ...] | list[Tensor] | None = None) -> return_types.frexp: ...
def frobenius_norm(
    input: Tensor, dim: _int | Sequence[_int], keepdim: _bool = False, *, out: Tensor | None = None
) -> Tensor: ...
def full(
    size: Sequence[_int],
    fill_value: Number | _complex,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _device | _str | _int | None = None,
    pin_memory: _bool | None = None,
    out: Tensor | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
def full_like(
    input: Tensor,
    fill_value: Number | _complex,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _device | _str | _int | None = None,
    pin_memory: _bool | None = None,
    memory_format: _memory_format | None = None,
    out: Tensor | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
def gather(
    input: Tensor, dim: _int, index: Tensor, *, sparse_grad: _bool = False, out: Tensor | None = None
) -> Tensor: ...
def gcd(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def gcd_(input: Tensor, other: Tensor) -> Tensor: ...
def ge(input: Tensor, other: Tensor | Number | _complex, *, out: Tensor | None = None) -> Tensor: ...
def ge_(input: Tensor, other: Tensor | Number | _complex) -> Tensor: ...
def gelu(input: Tensor, *, approximate: _str = "none", out: Tensor | None = None) -> Tensor: ...
def gelu_(input: Tensor, *, approximate: _str = "none") -> Tensor: ...
def geometric_(input: Tensor, p: _float, *, generator: Generator | None = None) -> Tensor: ...
def geqrf(input: Tensor, *, out: tuple[Tensor, ...] | list[Tensor] | None = None) -> return_types.geqrf: ...
def ger(input: Tensor, vec2: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def glu(input: Tensor, dim: _int = -1, *, out: Tensor | None = None) -> Tensor: ...
@overload
def gradient(
    input: Tensor, *, spacing: Number | _complex | None = None, dim: _int | None = None, edge_order: _int = 1
) -> tuple[Tensor, ...]: ...
@overload
def gradient(
    input: Tensor,
    *,
    spacing: Number | _complex | Sequence[Number | _complex] | Sequence[Tensor],
    dim: Sequence[_int],
    edge_order: _int = 1,
) -> tuple[Tensor, ...]: ...
@overload
def gradient(input: Tensor, *, dim: Sequence[_int], edge_order: _int = 1) -> tuple[Tensor, ...]: ...
@overload
def gradient(
    input: Tensor,
    *,
    spacing: Sequence[Number | _complex] | Sequence[Tensor],
    dim: _int | None = None,
    edge_order: _int = 1,
) -> tuple[Tensor, ...]: ...
def greater(input: Tensor, other: Tensor | Number | _complex, *, out: Tensor | None = None) -> Tensor: ...
def greater_(input: Tensor, other: Tensor | Number | _complex) -> Tensor: ...
def greater_equal(input: Tensor, other: Tensor | Number | _complex, *, out: Tensor | None = None) -> Tensor: ...
def greater_equal_(input: Tensor, other: Tensor | Number | _complex) -> Tensor: ...
def grid_sampler(
    input: Tensor, grid: Tensor, interpolation_mode: _int, padding_mode: _int, align_corners: _bool
) -> Tensor: ...
def grid_sampler_2d(
    input: Tensor, grid: Tensor, interpolation_mode: _int, padding_mode: _int, align_corners: _bool
) -> Tensor: ...
def grid_sampler_3d(
    input: Tensor, grid: Tensor, interpolation_mode: _int, padding_mode: _int, align_corners: _bool
) -> Tensor: ...
def group_norm(
    input: Tensor,
    num_groups: _int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: _float = 1e-5,
    cudnn_enabled: _bool = True,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def gru(
    input: Tensor,
    hx: Tensor,
    params: Sequence[Tensor],
    has_biases: _bool,
    num_layers: _int,
    dropout: _float,
    train: _bool,
    bidirectional: _bool,
    batch_first: _bool,
) -> tuple[Tensor, Tensor]: ...
@overload
def gru(
    data: Tensor,
    batch_sizes: Tensor,
    hx: Tensor,
    params: Sequence[Tensor],
    has_biases: _bool,
    num_layers: _int,
    dropout: _float,
    train: _bool,
    bidirectional: _bool,
) -> tuple[Tensor, Tensor]: ...
def gru_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Tensor: ...
def gt(input: Tensor, other: Tensor | Number | _complex, *, out: Tensor | None = None) -> Tensor: ...
def gt_(input: Tensor, other: Tensor | Number | _complex) -> Tensor: ...
def half(input: Tensor, *, memory_format: _memory_format | None = None) -> Tensor: ...
@overload
def hamming_window(
    window_length: _int,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _device | _str | _int | None = None,
    pin_memory: _bool | None = None,
    out: Tensor | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
@overload
def hamming_window(
    window_length: _int,
    periodic: _bool,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _device | _str | _int | None = None,
    pin_memory: _bool | None = None,
    out: Tensor | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
@overload
def hamming_window(
    window_length: _int,
    periodic: _bool,
    alpha: _float,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _device | _str | _int | None = None,
    pin_memory: _bool | None = None,
    out: Tensor | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
@overload
def hamming_window(
    window_length: _int,
    periodic: _bool,
    alpha: _float,
    beta: _float,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _device | _str | _int | None = None,
    pin_memory: _bool | None = None,
    out: Tensor | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
@overload
def hann_window(
    window_length: _int,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _device | _str | _int | None = None,
    pin_memory: _bool | None = None,
    out: Tensor | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
@overload
def hann_window(
    window_length: _int,
    periodic: _bool,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _device | _str | _int | None = None,
    pin_memory: _bool | None = None,
    out: Tensor | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
def hardshrink(input: Tensor, lambd: Number | _complex = 0.5, *, out: Tensor | None = None) -> Tensor: ...
def hardsigmoid(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def hardsigmoid_(input: Tensor) -> Tensor: ...
def hardswish(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def hardswish_(input: Tensor) -> Tensor: ...
def hardtanh(
    input: Tensor, min_val: Number | _complex = -1, max_val: Number | _complex = 1, *, out: Tensor | None = None
) -> Tensor: ...
def hardtanh_(input: Tensor, min_val: Number | _complex = -1, max_val: Number | _complex = 1) -> Tensor: ...
def hash_tensor(
    input: Tensor, dim: _int | Sequence[_int] = [], *, keepdim: _bool = False, mode: _int = 0, out: Tensor | None = None
) -> Tensor: ...
def heaviside(input: Tensor, values: Tensor | Number | _complex, *, out: Tensor | None = None) -> Tensor: ...
def heaviside_(input: Tensor, values: Tensor | Number | _complex) -> Tensor: ...
def hinge_embedding_loss(input: Tensor, target: Tensor, margin: _float = 1.0, reduction: _int = 1) -> Tensor: ...
def histc(
    input: Tensor,
    bins: _int = 100,
    min: Number | _complex = 0,
    max: Number | _complex = 0,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def histogram(
    input: Tensor,
    bins: Tensor,
    *,
    weight: Tensor | None = None,
    density: _bool = False,
    out: tuple[Tensor, ...] | list[Tensor] | None = None,
) -> return_types.histogram: ...
@overload
def histogram(
    input: Tensor,
    bins: _int = 100,
    *,
    range: Sequence[_float] | None = None,
    weight: Tensor | None = None,
    density: _bool = False,
    out: tuple[Tensor, ...] | list[Tensor] | None = None,
) -> return_types.histogram: ...
@overload
def hsplit(input: Tensor, sections: _int) -> tuple[Tensor, ...]: ...
@overload
def hsplit(input: Tensor, indices: Sequence[_int]) -> tuple[Tensor, ...]: ...
def hstack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor: ...
def huber_loss(
    input: Tensor, target: Tensor, reduction: _int = 1, delta: _float = 1.0, *, out: Tensor | None = None
) -> Tensor: ...
def hypot(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def hypot_(input: Tensor, other: Tensor) -> Tensor: ...
def i0(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def i0_(input: Tensor) -> Tensor: ...
def igamma(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def igamma_(input: Tensor, other: Tensor) -> Tensor: ...
def igammac(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def igammac_(input: Tensor, other: Tensor) -> Tensor: ...
def im2col(
    input: Tensor,
    kernel_size: _int | Sequence[_int],
    dilation: _int | Sequence[_int],
    padding: _int | Sequence[_int],
    stride: _int | Sequence[_int],
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def imag(input: Tensor) -> Tensor: ...
def index(input: Tensor, indices: Sequence[Tensor | None], *, out: Tensor | None = None) -> Tensor: ...
def index_add(
    input: Tensor, dim: _int, index: Tensor, source: Tensor, *, alpha: Number | _complex = 1, out: Tensor | None = None
) -> Tensor: ...
def index_add_(input: Tensor, dim: _int, index: Tensor, source: Tensor, *, alpha: Number | _complex = 1) -> Tensor: ...
def index_copy(input: Tensor, dim: _int, index: Tensor, source: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def index_copy_(input: Tensor, dim: _int, index: Tensor, source: Tensor) -> Tensor: ...
def index_fill(
    input: Tensor, dim: _int, index: Tensor, value: Tensor | Number | _complex, *, out: Tensor | None = None
) -> Tensor: ...
def index_fill_(input: Tensor, dim: _int, index: Tensor, value: Tensor | Number | _complex) -> Tensor: ...
def index_put(
    input: Tensor,
    indices: Sequence[Tensor | None],
    values: Tensor,
    accumulate: _bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def index_put_(
    input: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: _bool = False
) -> Tensor: ...
def index_reduce(
    input: Tensor,
    dim: _int,
    index: Tensor,
    source: Tensor,
    reduce: _str,
    *,
    include_self: _bool = True,
    out: Tensor | None = None,
) -> Tensor: ...
def index_reduce_(
    input: Tensor, dim: _int, index: Tensor, source: Tensor, reduce: _str, *, include_self: _bool = True
) -> Tensor: ...
def index_select(input: Tensor, dim: _int, index: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def inner(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def instance_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    use_input_stats: _bool,
    momentum: _float,
    eps: _float,
    cudnn_enabled: _bool,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def int(input: Tensor, *, memory_format: _memory_format | None = None) -> Tensor: ...
def inverse(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def isclose(
    input: Tensor, other: Tensor, rtol: _float = 1e-5, atol: _float = 1e-8, equal_nan: _bool = False
) -> Tensor: ...
def isfinite(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def isfinite_(input: Tensor) -> Tensor: ...
@overload
def isin(
    elements: Tensor | Number | _complex,
    test_elements: Tensor | Number | _complex,
    *,
    assume_unique: _bool = False,
    invert: _bool = False,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def isin(
    elements: Tensor | Number | _complex,
    test_element: Number | _complex,
    *,
    assume_unique: _bool = False,
    invert: _bool = False,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def isin(
    element: Number | _complex,
    test_elements: Tensor | Number | _complex,
    *,
    assume_unique: _bool = False,
    invert: _bool = False,
    out: Tensor | None = None,
) -> Tensor: ...
def isinf(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def isinf_(input: Tensor) -> Tensor: ...
def isnan(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def isnan_(input: Tensor) -> Tensor: ...
def isneginf(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def isposinf(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def isreal(input: Tensor) -> Tensor: ...
def istft(
    input: Tensor,
    n_fft: _int,
    hop_length: _int | None = None,
    win_length: _int | None = None,
    window: Tensor | None = None,
    center: _bool = True,
    normalized: _bool = False,
    onesided: _bool | None = None,
    length: _int | None = None,
    return_complex: _bool = False,
) -> Tensor: ...
def item(input: Tensor) -> Number: ...
@overload
def kaiser_window(
    window_length: _int,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _device | _str | _int | None = None,
    pin_memory: _bool | None = None,
    out: Tensor | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
@overload
def kaiser_window(
    window_length: _int,
    periodic: _bool,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _device | _str | _int | None = None,
    pin_memory: _bool | None = None,
    out: Tensor | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
@overload
def kaiser_window(
    window_length: _int,
    periodic: _bool,
    beta: _float,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _device | _str | _int | None = None,
    pin_memory: _bool | None = None,
    out: Tensor | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
def kl_div(
    input: Tensor, target: Tensor, reduction: _int = 1, *, log_target: _bool = False, out: Tensor | None = None
) -> Tensor: ...
def kron(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def kthvalue(
    input: Tensor,
    k: _int,
    dim: _int = -1,
    keepdim: _bool = False,
    *,
    out: tuple[Tensor, ...] | list[Tensor] | None = None,
) -> return_types.kthvalue: ...
def l1_loss(input: Tensor, target: Tensor, reduction: _int = 1, *, out: Tensor | None = None) -> Tensor: ...
def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[_int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: _float = 1e-5,
    cudnn_enable: _bool = True,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def lcm(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def lcm_(input: Tensor, other: Tensor) -> Tensor: ...
def ldexp(input: Tensor, other: Tensor | Number | _complex, *, out: Tensor | None = None) -> Tensor: ...
def ldexp_(input: Tensor, other: Tensor | Number | _complex) -> Tensor: ...
def le(input: Tensor, other: Tensor | Number | _complex, *, out: Tensor | None = None) -> Tensor: ...
def le_(input: Tensor, other: Tensor | Number | _complex) -> Tensor: ...
def leaky_relu(input: Tensor, negative_slope: Number | _complex = 0.01, *, out: Tensor | None = None) -> Tensor: ...
def leaky_relu_(input: Tensor, negative_slope: Number | _complex = 0.01) -> Tensor: ...
def lerp(input: Tensor, end: Tensor, weight: Number | _complex | Tensor, *, out: Tensor | None = None) -> Tensor: ...
def lerp_(input: Tensor, end: Tensor, weight: Number | _complex | Tensor) -> Tensor: ...
def less(input: Tensor, other: Tensor | Number | _complex, *, out: Tensor | None = None) -> Tensor: ...
def less_(input: Tensor, other: Tensor | Number | _complex) -> Tensor: ...
def less_equal(input: Tensor, other: Tensor | Number | _complex, *, out: Tensor | None = None) -> Tensor: ...
def less_equal_(input: Tensor, other: Tensor | Number | _complex) -> Tensor: ...
def lgamma(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def lgamma_(input: Tensor) -> Tensor: ...
def linalg_cholesky(input: Tensor, *, upper: _bool = False, out: Tensor | None = None) -> Tensor: ...
def linalg_cholesky_ex(
    input: Tensor,
    *,
    upper: _bool = False,
    check_errors: _bool = False,
    out: tuple[Tensor, ...] | list[Tensor] | None = None,
) -> return_types.linalg_cholesky_ex: ...
@overload
def linalg_cond(input: Tensor, p: Number | _complex | None = None, *, out: Tensor | None = None) -> Tensor: ...
@overload
def linalg_cond(input: Tensor, p: _str, *, out: Tensor | None = None) -> Tensor: ...
def linalg_cross(input: Tensor, other: Tensor, *, dim: _int = -1, out: Tensor | None = None) -> Tensor: ...
def linalg_det(A: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def linalg_diagonal(A: Tensor, *, offset: _int = 0, dim1: _int = -2, dim2: _int = -1) -> Tensor: ...
def linalg_eig(input: Tensor, *, out: tuple[Tensor, ...] | list[Tensor] | None = None) -> return_types.linalg_eig: ...
def linalg_eigh(
    input: Tensor, UPLO: _str = "L", *, out: tuple[Tensor, ...] | list[Tensor] | None = None
) -> return_types.linalg_eigh: ...
def linalg_eigvals(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def linalg_eigvalsh(input: Tensor, UPLO: _str = "L", *, out: Tensor | None = None) -> Tensor: ...
def linalg_householder_product(input: Tensor, tau: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def linalg_inv(A: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def linalg_inv_ex(
    A: Tensor, *, check_errors: _bool = False, out: tuple[Tensor, ...] | list[Tensor] | None = None
) -> return_types.linalg_inv_ex: ...
def linalg_ldl_factor(
    input: Tensor, *, hermitian: _bool = False, out: tuple[Tensor, ...] | list[Tensor] | None = None
) -> return_types.linalg_ldl_factor: ...
def linalg_ldl_factor_ex(
    input: Tensor,
    *,
    hermitian: _bool = False,
    check_errors: _bool = False,
    out: tuple[Tensor, ...] | list[Tensor] | None = None,
) -> return_types.linalg_ldl_factor_ex: ...
def linalg_ldl_solve(
    LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: _bool = False, out: Tensor | None = None
) -> Tensor: ...
def linalg_lstsq(
    input: Tensor,
    b: Tensor,
    rcond: _float | None = None,
    *,
    driver: _str | None = None,
    out: tuple[Tensor, ...] | list[Tensor] | None = None,
) -> return_types.linalg_lstsq: ...
def linalg_lu(
    A: Tensor, *, pivot: _bool = True, out: tuple[Tensor, ...] | list[Tensor] | None = None
) -> return_types.linalg_lu: ...
def linalg_lu_factor(
    A: Tensor, *, pivot: _bool = True, out: tuple[Tensor, ...] | list[Tensor] | None = None
) -> return_types.linalg_lu_factor: ...
def linalg_lu_factor_ex(
    A: Tensor, *, pivot: _bool = True, check_errors: _bool = False, out: tuple[Tensor, ...] | list[Tensor] | None = None
) -> return_types.linalg_lu_factor_ex: ...
def linalg_lu_solve(
    LU: Tensor, pivots: Tensor, B: Tensor, *, left: _bool = True, adjoint: _bool = False, out: Tensor | None = None
) -> Tensor: ...
def linalg_matmul(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def linalg_matrix_exp(input: Tensor) -> Tensor: ...
@overload
def linalg_matrix_norm(
    input: Tensor,
    ord: Number | _complex,
    dim: Sequence[_int] = [-2, -1],
    keepdim: _bool = False,
    *,
    dtype: _dtype | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def linalg_matrix_norm(
    input: Tensor,
    ord: _str = "fro",
    dim: Sequence[_int] = [-2, -1],
    keepdim: _bool = False,
    *,
    dtype: _dtype | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
def linalg_matrix_power(input: Tensor, n: _int, *, out: Tensor | None = None) -> Tensor: ...
@overload
def linalg_matrix_rank(
    input: Tensor,
    *,
    atol: Tensor | None = None,
    rtol: Tensor | None = None,
    hermitian: _bool = False,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def linalg_matrix_rank(
    input: Tensor,
    *,
    atol: _float | None = None,
    rtol: _float | None = None,
    hermitian: _bool = False,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def linalg_matrix_rank(
    input: Tensor, tol: _float | Tensor, hermitian: _bool = False, *, out: Tensor | None = None
) -> Tensor: ...
def linalg_matrix_sqrth(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def linalg_multi_dot(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor: ...
@overload
def linalg_norm(
    input: Tensor,
    ord: Number | _complex | None = None,
    dim: _int | Sequence[_int] | None = None,
    keepdim: _bool = False,
    *,
    dtype: _dtype | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def linalg_norm(
    input: Tensor,
    ord: _str,
    dim: _int | Sequence[_int] | None = None,
    keepdim: _bool = False,
    *,
    dtype: _dtype | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def linalg_pinv(
    input: Tensor,
    *,
    atol: Tensor | None = None,
    rtol: Tensor | None = None,
    hermitian: _bool = False,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def linalg_pinv(
    input: Tensor,
    *,
    atol: _float | None = None,
    rtol: _float | None = None,
    hermitian: _bool = False,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def linalg_pinv(
    input: Tensor, rcond: _float | Tensor, hermitian: _bool = False, *, out: Tensor | None = None
) -> Tensor: ...
def linalg_polar(A: Tensor, *, out: tuple[Tensor, ...] | list[Tensor] | None = None) -> return_types.linalg_polar: ...
def linalg_qr(
    A: Tensor, mode: _str = "reduced", *, out: tuple[Tensor, ...] | list[Tensor] | None = None
) -> return_types.linalg_qr: ...
def linalg_slogdet(
    A: Tensor, *, out: tuple[Tensor, ...] | list[Tensor] | None = None
) -> return_types.linalg_slogdet: ...
def linalg_solve(A: Tensor, B: Tensor, *, left: _bool = True, out: Tensor | None = None) -> Tensor: ...
def linalg_solve_ex(
    A: Tensor,
    B: Tensor,
    *,
    left: _bool = True,
    check_errors: _bool = False,
    out: tuple[Tensor, ...] | list[Tensor] | None = None,
) -> return_types.linalg_solve_ex: ...
def linalg_solve_triangular(
    input: Tensor,
    B: Tensor,
    *,
    upper: _bool,
    left: _bool = True,
    unitriangular: _bool = False,
    out: Tensor | None = None,
) -> Tensor: ...
def linalg_svd(
    A: Tensor,
    full_matrices: _bool = True,
    *,
    driver: _str | None = None,
    out: tuple[Tensor, ...] | list[Tensor] | None = None,
) -> return_types.linalg_svd: ...
def linalg_svdvals(A: Tensor, *, driver: _str | None = None, out: Tensor | None = None) -> Tensor: ...
def linalg_tensorinv(input: Tensor, ind: _int = 2, *, out: Tensor | None = None) -> Tensor: ...
def linalg_tensorsolve(
    input: Tensor, other: Tensor, dims: Sequence[_int] | None = None, *, out: Tensor | None = None
) -> Tensor: ...
def linalg_vander(x: Tensor, *, N: _int | None = None) -> Tensor: ...
def linalg_vecdot(x: Tensor, y: Tensor, *, dim: _int = -1, out: Tensor | None = None) -> Tensor: ...
def linalg_vector_norm(
    input: Tensor,
    ord: Number | _complex = 2,
    dim: _int | Sequence[_int] | None = None,
    keepdim: _bool = False,
    *,
    dtype: _dtype | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None, *, out: Tensor | None = None) -> Tensor: ...
@overload
def linspace(
    start: Number | _complex | Tensor,
    end: Number | _complex,
    steps: _int,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _device | _str | _int | None = None,
    pin_memory: _bool | None = None,
    out: Tensor | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
@overload
def linspace(
    start: Tensor | Number | _complex,
    end: Tensor,
    steps: _int,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _device | _str | _int | None = None,
    pin_memory: _bool | None = None,
    out: Tensor | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
def log(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def log10(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def log10_(input: Tensor) -> Tensor: ...
def log1p(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def log1p_(input: Tensor) -> Tensor: ...
def log2(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def log2_(input: Tensor) -> Tensor: ...
def log_(input: Tensor) -> Tensor: ...
def log_normal_(
    input: Tensor, mean: _float = 1.0, std: _float = 2.0, *, generator: Generator | None = None
) -> Tensor: ...
def log_sigmoid(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def log_softmax(input: Tensor, dim: _int, dtype: _dtype | None = None, *, out: Tensor | None = None) -> Tensor: ...
def logaddexp(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def logaddexp2(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def logcumsumexp(input: Tensor, dim: _int, *, out: Tensor | None = None) -> Tensor: ...
def logdet(input: Tensor) -> Tensor: ...
def logical_and(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def logical_and_(input: Tensor, other: Tensor) -> Tensor: ...
def logical_not(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def logical_not_(input: Tensor) -> Tensor: ...
def logical_or(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def logical_or_(input: Tensor, other: Tensor) -> Tensor: ...
def logical_xor(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def logical_xor_(input: Tensor, other: Tensor) -> Tensor: ...
def logit(input: Tensor, eps: _float | None = None, *, out: Tensor | None = None) -> Tensor: ...
def logit_(input: Tensor, eps: _float | None = None) -> Tensor: ...
@overload
def logspace(
    start: Number | _complex | Tensor,
    end: Number | _complex,
    steps: _int,
    base: _float = 10.0,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _device | _str | _int | None = None,
    pin_memory: _bool | None = None,
    out: Tensor | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
@overload
def logspace(
    start: Tensor | Number | _complex,
    end: Tensor,
    steps: _int,
    base: _float = 10.0,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _device | _str | _int | None = None,
    pin_memory: _bool | None = None,
    out: Tensor | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
def logsumexp(
    input: Tensor, dim: _int | Sequence[_int], keepdim: _bool = False, *, out: Tensor | None = None
) -> Tensor: ...
def long(input: Tensor, *, memory_format: _memory_format | None = None) -> Tensor: ...
@overload
def lstm(
    input: Tensor,
    hx: Sequence[Tensor],
    params: Sequence[Tensor],
    has_biases: _bool,
    num_layers: _int,
    dropout: _float,
    train: _bool,
    bidirectional: _bool,
    batch_first: _bool,
) -> tuple[Tensor, Tensor, Tensor]: ...
@overload
def lstm(
    data: Tensor,
    batch_sizes: Tensor,
    hx: Sequence[Tensor],
    params: Sequence[Tensor],
    has_biases: _bool,
    num_layers: _int,
    dropout: _float,
    train: _bool,
    bidirectional: _bool,
) -> tuple[Tensor, Tensor, Tensor]: ...
def lstm_cell(
    input: Tensor,
    hx: Sequence[Tensor],
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> tuple[Tensor, Tensor]: ...
def lt(input: Tensor, other: Tensor | Number | _complex, *, out: Tensor | None = None) -> Tensor: ...
def lt_(input: Tensor, other: Tensor | Number | _complex) -> Tensor: ...
def lu_solve(input: Tensor, LU_data: Tensor, LU_pivots: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def lu_unpack(
    LU_data: Tensor,
    LU_pivots: Tensor,
    unpack_data: _bool = True,
    unpack_pivots: _bool = True,
    *,
    out: tuple[Tensor, ...] | list[Tensor] | None = None,
) -> return_types.lu_unpack: ...
def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: _float = 0.0,
    reduction: _int = 1,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def masked_fill(
    input: Tensor, mask: Tensor, value: Tensor | Number | _complex, *, out: Tensor | None = None
) -> Tensor: ...
def masked_fill_(input: Tensor, mask: Tensor, value: Tensor | Number | _complex) -> Tensor: ...
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def masked_scatter_(input: Tensor, mask: Tensor, source: Tensor) -> Tensor: ...
def masked_select(input: Tensor, mask: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def matmul(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def matrix_exp(input: Tensor) -> Tensor: ...
def matrix_power(input: Tensor, n: _int, *, out: Tensor | None = None) -> Tensor: ...
@overload
def max(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def max(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def max(
    input: Tensor, dim: _int, keepdim: _bool = False, *, out: tuple[Tensor, ...] | list[Tensor] | None = None
) -> return_types.max: ...
def max_pool1d(
    input: Tensor,
    kernel_size: _int | Sequence[_int],
    stride: _int | Sequence[_int] = [],
    padding: _int | Sequence[_int] = [0],
    dilation: _int | Sequence[_int] = [1],
    ceil_mode: _bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def max_pool1d_with_indices(
    input: Tensor,
    kernel_size: _int | Sequence[_int],
    stride: _int | Sequence[_int] = [],
    padding: _int | Sequence[_int] = [0],
    dilation: _int | Sequence[_int] = [1],
    ceil_mode: _bool = False,
    *,
    out: tuple[Tensor, ...] | list[Tensor] | None = None,
) -> tuple[Tensor, Tensor]: ...
def max_pool2d(
    input: Tensor,
    kernel_size: _int | Sequence[_int],
    stride: _int | Sequence[_int] = [],
    padding: _int | Sequence[_int] = [0, 0],
    dilation: _int | Sequence[_int] = [1, 1],
    ceil_mode: _bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def max_pool2d_with_indices(
    input: Tensor,
    kernel_size: _int | Sequence[_int],
    stride: _int | Sequence[_int] = [],
    padding: _int | Sequence[_int] = [0, 0],
    dilation: _int | Sequence[_int] = [1, 1],
    ceil_mode: _bool = False,
    *,
    out: tuple[Tensor, ...] | list[Tensor] | None = None,
) -> tuple[Tensor, Tensor]: ...
def max_pool2d_with_indices_backward(
    grad_output: Tensor,
    self: Tensor,
    kernel_size: _int | Sequence[_int],
    stride: _int | Sequence[_int],
    padding: _int | Sequence[_int],
    dilation: _int | Sequence[_int],
    ceil_mode: _bool,
    indices: Tensor,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def max_pool3d(
    input: Tensor,
    kernel_size: _int | Sequence[_int],
    stride: _int | Sequence[_int] = [],
    padding: _int | Sequence[_int] = [0, 0, 0],
    dilation: _int | Sequence[_int] = [1, 1, 1],
    ceil_mode: _bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def max_pool3d_with_indices(
    input: Tensor,
    kernel_size: _int | Sequence[_int],
    stride: _int | Sequence[_int] = [],
    padding: _int | Sequence[_int] = [0, 0, 0],
    dilation: _int | Sequence[_int] = [1, 1, 1],
    ceil_mode: _bool = False,
    *,
    out: tuple[Tensor, ...] | list[Tensor] | None = None,
) -> tuple[Tensor, Tensor]: ...
def max_pool3d_with_indices_backward(
    grad_output: Tensor,
    self: Tensor,
    kernel_size: _int | Sequence[_int],
    stride: _int | Sequence[_int],
    padding: _int | Sequence[_int],
    dilation: _int | Sequence[_int],
    ceil_mode: _bool,
    indices: Tensor,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def max_unpool2d(
    input: Tensor, indices: Tensor, output_size: _int | Sequence[_int], *, out: Tensor | None = None
) -> Tensor: ...
def max_unpool3d(
    input: Tensor,
    indices: Tensor,
    output_size: _int | Sequence[_int],
    stride: _int | Sequence[_int],
    padding: _int | Sequence[_int],
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def maximum(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def maximum_(input: Tensor, other: Tensor) -> Tensor: ...
@overload
def mean(input: Tensor, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor: ...
@overload
def mean(
    input: Tensor,
    dim: _int | Sequence[_int] | None,
    keepdim: _bool = False,
    *,
    dtype: _dtype | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def median(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def median(
    input: Tensor, dim: _int, keepdim: _bool = False, *, out: tuple[Tensor, ...] | list[Tensor] | None = None
) -> return_types.median: ...
def meshgrid(tensors: Sequence[Tensor], *, indexing: _str = "ij") -> tuple[Tensor, ...]: ...
@overload
def min(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def min(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def min(
    input: Tensor, dim: _int, keepdim: _bool = False, *, out: tuple[Tensor, ...] | list[Tensor] | None = None
) -> return_types.min: ...
def minimum(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def minimum_(input: Tensor, other: Tensor) -> Tensor: ...
def mish(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def mish_(input: Tensor) -> Tensor: ...
def mm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def mode(
    input: Tensor, dim: _int = -1, keepdim: _bool = False, *, out: tuple[Tensor, ...] | list[Tensor] | None = None
) -> return_types.mode: ...
@overload
def moveaxis(input: Tensor, source: Sequence[_int], destination: Sequence[_int]) -> Tensor: ...
@overload
def moveaxis(input: Tensor, source: _int, destination: _int) -> Tensor: ...
@overload
def movedim(input: Tensor, source: Sequence[_int], destination: Sequence[_int]) -> Tensor: ...
@overload
def movedim(input: Tensor, source: _int, destination: _int) -> Tensor: ...
def mse_loss(input: Tensor, target: Tensor, reduction: _int = 1, *, out: Tensor | None = None) -> Tensor: ...
def msort(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def mul(
    input: Tensor | Number | _complex, other: Tensor | Number | _complex, *, out: Tensor | None = None
) -> Tensor: ...
def mul_(input: Tensor, other: Tensor | Number | _complex) -> Tensor: ...
def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: Number | _complex = 1,
    margin: Number | _complex = 1,
    weight: Tensor | None = None,
    reduction: _int = 1,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def multilabel_margin_loss(
    input: Tensor, target: Tensor, reduction: _int = 1, *, out: Tensor | None = None
) -> Tensor: ...
def multilabel_margin_loss_forward(
    input: Tensor, target: Tensor, reduction: _int, *, out: tuple[Tensor, ...] | list[Tensor] | None = None
) -> tuple[Tensor, Tensor]: ...
def multinomial(
    input: Tensor,
    num_samples: _int,
    replacement: _bool = False,
    *,
    generator: Generator | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
def multiply(
    input: Tensor | Number | _complex, other: Tensor | Number | _complex, *, out: Tensor | None = None
) -> Tensor: ...
def multiply_(input: Tensor, other: Tensor | Number | _complex) -> Tensor: ...
def mv(input: Tensor, vec: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def mvlgamma(input: Tensor, p: _int, *, out: Tensor | None = None) -> Tensor: ...
def mvlgamma_(input: Tensor, p: _int) -> Tensor: ...
def nan_to_num(
    input: Tensor,
    nan: _float | None = None,
    posinf: _float | None = None,
    neginf: _float | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def nan_to_num_(
    input: Tensor, nan: _float | None = None, posinf: _float | None = None, neginf: _float | None = None
) -> Tensor: ...
def nanmean(
    input: Tensor,
    dim: _int | Sequence[_int] | None = None,
    keepdim: _bool = False,
    *,
    dtype: _dtype | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def nanmedian(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def nanmedian(
    input: Tensor, dim: _int, keepdim: _bool = False, *, out: tuple[Tensor, ...] | list[Tensor] | None = None
) -> return_types.nanmedian: ...
def nanquantile(
    input: Tensor,
    q: Tensor | _float,
    dim: _int | None = None,
    keepdim: _bool = False,
    *,
    interpolation: _str = "linear",
    out: Tensor | None = None,
) -> Tensor: ...
def nansum(
    input: Tensor,
    dim: _int | Sequence[_int] | None = None,
    keepdim: _bool = False,
    *,
    dtype: _dtype | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
def narrow(input: Tensor, dim: _int, start: Tensor | _int, length: _int) -> Tensor: ...
def narrow_copy(input: Tensor, dim: _int, start: _int, length: _int, *, out: Tensor | None = None) -> Tensor: ...
def native_batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: _bool,
    momentum: _float,
    eps: _float,
    *,
    out: tuple[Tensor, ...] | list[Tensor] | None = None,
) -> tuple[Tensor, Tensor, Tensor]: ...
def native_channel_shuffle(input: Tensor, groups: _int) -> Tensor: ...
def native_dropout(
    input: Tensor, p: _float, train: _bool | None, *, out: tuple[Tensor, ...] | list[Tensor] | None = None
) -> tuple[Tensor, Tensor]: ...
def native_dropout_backward(
    grad_output: Tensor, mask: Tensor, scale: _float, *, out: Tensor | None = None
) -> Tensor: ...
def native_group_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    N: _int,
    C: _int,
    HxW: _int,
    group: _int,
    eps: _float,
    *,
    out: tuple[Tensor, ...] | list[Tensor] | None = None,
) -> tuple[Tensor, Tensor, Tensor]: ...
def native_layer_norm(
    input: Tensor,
    normalized_shape: Sequence[_int],
    weight: Tensor | None,
    bias: Tensor | None,
    eps: _float,
    *,
    out: tuple[Tensor, ...] | list[Tensor] | None = None,
) -> tuple[Tensor, Tensor, Tensor]: ...
def ne(input: Tensor, other: Tensor | Number | _complex, *, out: Tensor | None = None) -> Tensor: ...
def ne_(input: Tensor, other: Tensor | Number | _complex) -> Tensor: ...
def neg(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def neg_(input: Tensor) -> Tensor: ...
def negative(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def negative_(input: Tensor) -> Tensor: ...
def new_empty(
    input: Tensor,
    size: Sequence[_int],
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _device | _str | _int | None = None,
    pin_memory: _bool | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
def new_empty_strided(
    input: Tensor,
    size: Sequence[_int],
    stride: Sequence[_int],
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _device | _str | _int | None = None,
    pin_memory: _bool | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
def new_full(
    input: Tensor,
    size: Sequence[_int],
    fill_value: Number | _complex,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _device | _str | _int | None = None,
    pin_memory: _bool | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
def new_ones(
    input: Tensor,
    size: Sequence[_int],
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _device | _str | _int | None = None,
    pin_memory: _bool | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
def new_zeros(
    input: Tensor,
    size: Sequence[_int],
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _device | _str | _int | None = None,
    pin_memory: _bool | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
def nextafter(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def nextafter_(input: Tensor, other: Tensor) -> Tensor: ...
def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    reduction: _int = 1,
    ignore_index: _int = -100,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def nll_loss2d(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    reduction: _int = 1,
    ignore_index: _int = -100,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def nll_loss_nd(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    reduction: _int = 1,
    ignore_index: _int = -100,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def nonzero(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def nonzero_numpy(input: Tensor) -> tuple[Tensor, ...]: ...
def nonzero_static(input: Tensor, *, size: _int, fill_value: _int = -1, out: Tensor | None = None) -> Tensor: ...
@overload
def norm(input: Tensor, p: Number | _complex = 2, *, out: Tensor | None = None) -> Tensor: ...
@overload
def norm(
    input: Tensor,
    p: Number | _complex | None,
    dim: _int | Sequence[_int],
    keepdim: _bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def normal(
    mean: Tensor, std: _float = 1.0, *, generator: Generator | None = None, out: Tensor | None = None
) -> Tensor: ...
@overload
def normal(
    mean: _float | Tensor, std: Tensor, *, generator: Generator | None = None, out: Tensor | None = None
) -> Tensor: ...
@overload
def normal(
    mean: _float,
    std: _float,
    size: Sequence[_int],
    *,
    generator: Generator | None = None,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _device | _str | _int | None = None,
    pin_memory: _bool | None = None,
    out: Tensor | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
def normal_(input: Tensor, mean: _float = 0.0, std: _float = 1.0, *, generator: Generator | None = None) -> Tensor: ...
def not_equal(input: Tensor, other: Tensor | Number | _complex, *, out: Tensor | None = None) -> Tensor: ...
def not_equal_(input: Tensor, other: Tensor | Number | _complex) -> Tensor: ...
@overload
def nuclear_norm(input: Tensor, keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor: ...
@overload
def nuclear_norm(
    input: Tensor, dim: _int | Sequence[_int], keepdim: _bool = False, *, out: Tensor | None = None
) -> Tensor: ...
def one_hot(input: Tensor, num_classes: _int = -1) -> Tensor: ...
@overload
def ones(
    size: Sequence[_int],
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _device | _str | _int | None = None,
    pin_memory: _bool | None = None,
    out: Tensor | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
@overload
def ones(
    *size: _int,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _device | _str | _int | None = None,
    pin_memory: _bool | None = None,
    out: Tensor | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
def ones_like(
    input: Tensor,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _device | _str | _int | None = None,
    pin_memory: _bool | None = None,
    memory_format: _memory_format | None = None,
    out: Tensor | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
def orgqr(input: Tensor, input2: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def ormqr(
    input: Tensor,
    input2: Tensor,
    input3: Tensor,
    left: _bool = True,
    transpose: _bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def outer(input: Tensor, vec2: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def pad(
    input: Tensor,
    pad: Sequence[_int],
    mode: _str = "constant",
    value: _float | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def pairwise_distance(
    x1: Tensor, x2: Tensor, p: _float = 2.0, eps: _float = 1e-6, keepdim: _bool = False
) -> Tensor: ...
def pdist(input: Tensor, p: _float = 2.0) -> Tensor: ...
def permute(input: Tensor, dims: Sequence[_int]) -> Tensor: ...
def permute_copy(input: Tensor, dims: Sequence[_int], *, out: Tensor | None = None) -> Tensor: ...
def pinverse(input: Tensor, rcond: _float = 1e-15) -> Tensor: ...
def pixel_shuffle(input: Tensor, upscale_factor: _int) -> Tensor: ...
def pixel_unshuffle(input: Tensor, downscale_factor: _int) -> Tensor: ...
def poisson(input: Tensor, generator: Generator | None = None) -> Tensor: ...
def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: _bool, full: _bool, eps: _float, reduction: _int
) -> Tensor: ...
def polar(abs: Tensor, angle: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def polygamma(n: _int, self: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def positive(input: Tensor) -> Tensor: ...
def pow(
    input: Tensor | Number | _complex, exponent: Tensor | Number | _complex, *, out: Tensor | None = None
) -> Tensor: ...
def pow_(input: Tensor, exponent: Tensor | Number | _complex) -> Tensor: ...
def prelu(input: Tensor, weight: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def prod(input: Tensor, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor: ...
@overload
def prod(
    input: Tensor, dim: _int, keepdim: _bool = False, *, dtype: _dtype | None = None, out: Tensor | None = None
) -> Tensor: ...
def put(
    input: Tensor, index: Tensor, source: Tensor, accumulate: _bool = False, *, out: Tensor | None = None
) -> Tensor: ...
def put_(input: Tensor, index: Tensor, source: Tensor, accumulate: _bool = False) -> Tensor: ...
def quantile(
    input: Tensor,
    q: Tensor | _float,
    dim: _int | None = None,
    keepdim: _bool = False,
    *,
    interpolation: _str = "linear",
    out: Tensor | None = None,
) -> Tensor: ...
def rad2deg(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def rad2deg_(input: Tensor) -> Tensor: ...
@overload
def rand(
    size: Sequence[_int],
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _device | _str | _int | None = None,
    pin_memory: _bool | None = None,
    out: Tensor | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
@overload
def rand(
    *size: _int,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _device | _str | _int | None = None,
    pin_memory: _bool | None = None,
    out: Tensor | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
@overload
def rand(
    size: Sequence[_int],
    *,
    generator: Generator | None = None,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _device | _str | _int | None = None,
    pin_memory: _bool | None = None,
    out: Tensor | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
@overload
def rand(
    *size: _int,
    generator: Generator | None = None,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _device | _str | _int | None = None,
    pin_memory: _bool | None = None,
    out: Tensor | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
def rand_like(
    input: Tensor,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _device | _str | _int | None = None,
    pin_memory: _bool | None = None,
    memory_format: _memory_format | None = None,
    out: Tensor | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
@overload
def randint(
    high: _int,
    size: Sequence[_int],
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _device | _str | _int | None = None,
    pin_memory: _bool | None = None,
    out: Tensor | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
@overload
def randint(
    high: _int,
    size: Sequence[_int],
    *,
    generator: Generator | None = None,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _device | _str | _int | None = None,
    pin_memory: _bool | None = None,
    out: Tensor | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
@overload
def randint(
    low: _int,
    high: _int,
    size: Sequence[_int],
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _device | _str | _int | None = None,
    pin_memory: _bool | None = None,
    out: Tensor | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
@overload
def randint(
    low: _int,
    high: _int,
    size: Sequence[_int],
    *,
    generator: Generator | None = None,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _device | _str | _int | None = None,
    pin_memory: _bool | None = None,
    out: Tensor | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
@overload
def randint_like(
    input: Tensor,
    high: _int,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _device | _str | _int | None = None,
    pin_memory: _bool | None = None,
    memory_format: _memory_format | None = None,
    out: Tensor | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
@overload
def randint_like(
    input: Tensor,
    low: _int,
    high: _int,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _device | _str | _int | None = None,
    pin_memory: _bool | None = None,
    memory_format: _memory_format | None = None,
    out: Tensor | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
@overload
def randn(
    size: Sequence[_int],
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _device | _str | _int | None = None,
    pin_memory: _bool | None = None,
    out: Tensor | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
@overload
def randn(
    *size: _int,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _device | _str | _int | None = None,
    pin_memory: _bool | None = None,
    out: Tensor | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
@overload
def randn(
    size: Sequence[_int],
    *,
    generator: Generator | None = None,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _device | _str | _int | None = None,
    pin_memory: _bool | None = None,
    out: Tensor | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
@overload
def randn(
    *size: _int,
    generator: Generator | None = None,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _device | _str | _int | None = None,
    pin_memory: _bool | None = None,
    out: Tensor | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
def randn_like(
    input: Tensor,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _device | _str | _int | None = None,
    pin_memory: _bool | None = None,
    memory_format: _memory_format | None = None,
    out: Tensor | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
@overload
def random_(input: Tensor, from_: _int, /, to: _int | None, *, generator: Generator | None = None) -> Tensor: ...
@overload
def random_(input: Tensor, to: _int, *, generator: Generator | None = None) -> Tensor: ...
@overload
def random_(input: Tensor, *, generator: Generator | None = None) -> Tensor: ...
@overload
def randperm(
    n: _int,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _device | _str | _int | None = None,
    pin_memory: _bool | None = None,
    out: Tensor | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
@overload
def randperm(
    n: _int,
    *,
    generator: Generator | None = None,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _device | _str | _int | None = None,
    pin_memory: _bool | None = None,
    out: Tensor | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
@overload
def range(
    start: Number | _complex,
    end: Number | _complex,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _device | _str | _int | None = None,
    pin_memory: _bool | None = None,
    out: Tensor | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
@overload
def range(
    start: Number | _complex,
    end: Number | _complex,
    step: Number | _complex = 1,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _device | _str | _int | None = None,
    pin_memory: _bool | None = None,
    out: Tensor | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
def ravel(input: Tensor) -> Tensor: ...
def real(input: Tensor) -> Tensor: ...
def reciprocal(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def reciprocal_(input: Tensor) -> Tensor: ...
def relu(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def relu6(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def relu6_(input: Tensor) -> Tensor: ...
def relu_(input: Tensor) -> Tensor: ...
def remainder(
    input: Tensor | Number | _complex, other: Tensor | Number | _complex, *, out: Tensor | None = None
) -> Tensor: ...
def remainder_(input: Tensor, other: Tensor | Number | _complex) -> Tensor: ...
def renorm(
    input: Tensor, p: Number | _complex, dim: _int, maxnorm: Number | _complex, *, out: Tensor | None = None
) -> Tensor: ...
def renorm_(input: Tensor, p: Number | _complex, dim: _int, maxnorm: Number | _complex) -> Tensor: ...
def repeat(input: Tensor, repeats: Sequence[_int], *, out: Tensor | None = None) -> Tensor: ...
@overload
def repeat_interleave(
    input: Tensor,
    repeats: _int | Tensor,
    dim: _int | None = None,
    *,
    output_size: _int | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def repeat_interleave(repeats: Tensor, *, output_size: _int | None = None, out: Tensor | None = None) -> Tensor: ...
def requires_grad_(input: Tensor, requires_grad: _bool = True) -> Tensor: ...
def reshape(input: Tensor, shape: Sequence[_int]) -> Tensor: ...
def reshape_as(input: Tensor, other: Tensor) -> Tensor: ...
def resolve_conj(input: Tensor) -> Tensor: ...
def resolve_neg(input: Tensor) -> Tensor: ...
def rms_norm(
    input: Tensor,
    normalized_shape: Sequence[_int],
    weight: Tensor | None = None,
    eps: _float | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def rnn_relu(
    input: Tensor,
    hx: Tensor,
    params: Sequence[Tensor],
    has_biases: _bool,
    num_layers: _int,
    dropout: _float,
    train: _bool,
    bidirectional: _bool,
    batch_first: _bool,
) -> tuple[Tensor, Tensor]: ...
@overload
def rnn_relu(
    data: Tensor,
    batch_sizes: Tensor,
    hx: Tensor,
    params: Sequence[Tensor],
    has_biases: _bool,
    num_layers: _int,
    dropout: _float,
    train: _bool,
    bidirectional: _bool,
) -> tuple[Tensor, Tensor]: ...
def rnn_relu_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Tensor: ...
@overload
def rnn_tanh(
    input: Tensor,
    hx: Tensor,
    params: Sequence[Tensor],
    has_biases: _bool,
    num_layers: _int,
    dropout: _float,
    train: _bool,
    bidirectional: _bool,
    batch_first: _bool,
) -> tuple[Tensor, Tensor]: ...
@overload
def rnn_tanh(
    data: Tensor,
    batch_sizes: Tensor,
    hx: Tensor,
    params: Sequence[Tensor],
    has_biases: _bool,
    num_layers: _int,
    dropout: _float,
    train: _bool,
    bidirectional: _bool,
) -> tuple[Tensor, Tensor]: ...
def rnn_tanh_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Tensor: ...
def roll(
    input: Tensor, shifts: _int | Sequence[_int], dims: _int | Sequence[_int] | None = [], *, out: Tensor | None = None
) -> Tensor: ...
def rot90(input: Tensor, k: _int = 1, dims: Sequence[_int] = [0, 1], *, out: Tensor | None = None) -> Tensor: ...
@overload
def round(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def round(input: Tensor, *, decimals: _int, out: Tensor | None = None) -> Tensor: ...
@overload
def round_(input: Tensor) -> Tensor: ...
@overload
def round_(input: Tensor, *, decimals: _int) -> Tensor: ...
def rrelu(
    input: Tensor,
    lower: Number | _complex = 0.125,
    upper: Number | _complex = 0.3333333333333333,
    training: _bool = False,
    generator: Generator | None = None,
) -> Tensor: ...
def rrelu_(
    input: Tensor,
    lower: Number | _complex = 0.125,
    upper: Number | _complex = 0.3333333333333333,
    training: _bool = False,
    generator: Generator | None = None,
) -> Tensor: ...
def rsqrt(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def rsqrt_(input: Tensor) -> Tensor: ...
def rsub(
    input: Tensor, other: Tensor | Number | _complex, *, alpha: Number | _complex = 1, out: Tensor | None = None
) -> Tensor: ...
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: _float = 0.0,
    is_causal: _bool = False,
    *,
    scale: _float | None = None,
    enable_gqa: _bool = False,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def scatter(input: Tensor, dim: _int, index: Tensor, src: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def scatter(
    input: Tensor, dim: _int, index: Tensor, value: Number | _complex, *, out: Tensor | None = None
) -> Tensor: ...
@overload
def scatter(
    input: Tensor, dim: _int, index: Tensor, src: Tensor, *, reduce: _str, out: Tensor | None = None
) -> Tensor: ...
@overload
def scatter(
    input: Tensor, dim: _int, index: Tensor, value: Number | _complex, *, reduce: _str, out: Tensor | None = None
) -> Tensor: ...
@overload
def scatter_(input: Tensor, dim: _int, index: Tensor, src: Tensor) -> Tensor: ...
@overload
def scatter_(input: Tensor, dim: _int, index: Tensor, value: Number | _complex) -> Tensor: ...
@overload
def scatter_(input: Tensor, dim: _int, index: Tensor, src: Tensor, *, reduce: _str) -> Tensor: ...
@overload
def scatter_(input: Tensor, dim: _int, index: Tensor, value: Number | _complex, *, reduce: _str) -> Tensor: ...
def scatter_add(input: Tensor, dim: _int, index: Tensor, src: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def scatter_add_(input: Tensor, dim: _int, index: Tensor, src: Tensor) -> Tensor: ...
def scatter_reduce(
    input: Tensor,
    dim: _int,
    index: Tensor,
    src: Tensor,
    reduce: _str,
    *,
    include_self: _bool = True,
    out: Tensor | None = None,
) -> Tensor: ...
def scatter_reduce_(
    input: Tensor, dim: _int, index: Tensor, src: Tensor, reduce: _str, *, include_self: _bool = True
) -> Tensor: ...
def searchsorted(
    sorted_sequence: Tensor,
    self: Tensor | Number | _complex,
    *,
    out_int32: _bool = False,
    right: _bool = False,
    side: _str | None = None,
    sorter: Tensor | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
def segment_reduce(
    data: Tensor,
    reduce: _str,
    *,
    lengths: Tensor | None = None,
    indices: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: _int = 0,
    unsafe: _bool = False,
    initial: Number | _complex | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
def select(input: Tensor, dim: _int, index: _int) -> Tensor: ...
def select_copy(input: Tensor, dim: _int, index: _int, *, out: Tensor | None = None) -> Tensor: ...
def select_scatter(input: Tensor, src: Tensor, dim: _int, index: _int, *, out: Tensor | None = None) -> Tensor: ...
def selu(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def selu_(input: Tensor) -> Tensor: ...
def sgn(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def sgn_(input: Tensor) -> Tensor: ...
def short(input: Tensor, *, memory_format: _memory_format | None = None) -> Tensor: ...
def sigmoid(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def sigmoid_(input: Tensor) -> Tensor: ...
def sign(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def sign_(input: Tensor) -> Tensor: ...
def signbit(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def silu(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def silu_(input: Tensor) -> Tensor: ...
def sin(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def sin_(input: Tensor) -> Tensor: ...
def sinc(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def sinc_(input: Tensor) -> Tensor: ...
def sinh(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def sinh_(input: Tensor) -> Tensor: ...
def slice(
    input: Tensor, dim: _int = 0, start: _int | None = None, end: _int | None = None, step: _int = 1
) -> Tensor: ...
def slice_copy(
    input: Tensor,
    dim: _int = 0,
    start: _int | None = None,
    end: _int | None = None,
    step: _int = 1,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def slice_scatter(
    input: Tensor,
    src: Tensor,
    dim: _int = 0,
    start: _int | None = None,
    end: _int | None = None,
    step: _int = 1,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def slogdet(input: Tensor, *, out: tuple[Tensor, ...] | list[Tensor] | None = None) -> return_types.slogdet: ...
def smooth_l1_loss(
    input: Tensor, target: Tensor, reduction: _int = 1, beta: _float = 1.0, *, out: Tensor | None = None
) -> Tensor: ...
def soft_margin_loss(input: Tensor, target: Tensor, reduction: _int = 1, *, out: Tensor | None = None) -> Tensor: ...
def softmax(input: Tensor, dim: _int, dtype: _dtype | None = None, *, out: Tensor | None = None) -> Tensor: ...
def softmin(input: Tensor, dim: _int, dtype: _dtype | None = None, *, out: Tensor | None = None) -> Tensor: ...
def softplus(
    input: Tensor, beta: Number | _complex = 1, threshold: Number | _complex = 20, *, out: Tensor | None = None
) -> Tensor: ...
def softshrink(input: Tensor, lambd: Number | _complex = 0.5, *, out: Tensor | None = None) -> Tensor: ...
def softsign(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def sort(
    input: Tensor, dim: _int = -1, descending: _bool = False, *, out: tuple[Tensor, ...] | list[Tensor] | None = None
) -> return_types.sort: ...
@overload
def sort(
    input: Tensor,
    *,
    stable: _bool | None = None,
    dim: _int = -1,
    descending: _bool = False,
    out: tuple[Tensor, ...] | list[Tensor] | None = None,
) -> return_types.sort: ...
def special_airy_ai(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def special_bessel_j0(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def special_bessel_j1(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def special_bessel_y0(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def special_bessel_y1(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def special_chebyshev_polynomial_t(
    x: Tensor | Number | _complex, n: Tensor | Number | _complex, *, out: Tensor | None = None
) -> Tensor: ...
def special_chebyshev_polynomial_u(
    x: Tensor | Number | _complex, n: Tensor | Number | _complex, *, out: Tensor | None = None
) -> Tensor: ...
def special_chebyshev_polynomial_v(
    x: Tensor | Number | _complex, n: Tensor | Number | _complex, *, out: Tensor | None = None
) -> Tensor: ...
def special_chebyshev_polynomial_w(
    x: Tensor | Number | _complex, n: Tensor | Number | _complex, *, out: Tensor | None = None
) -> Tensor: ...
def special_digamma(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def special_entr(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def special_erf(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def special_erfc(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def special_erfcx(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def special_erfinv(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def special_exp2(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def special_expit(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def special_expm1(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def special_gammainc(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def special_gammaincc(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def special_gammaln(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def special_hermite_polynomial_h(
    x: Tensor | Number | _complex, n: Tensor | Number | _complex, *, out: Tensor | None = None
) -> Tensor: ...
def special_hermite_polynomial_he(
    x: Tensor | Number | _complex, n: Tensor | Number | _complex, *, out: Tensor | None = None
) -> Tensor: ...
def special_i0(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def special_i0e(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def special_i1(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def special_i1e(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def special_laguerre_polynomial_l(
    x: Tensor | Number | _complex, n: Tensor | Number | _complex, *, out: Tensor | None = None
) -> Tensor: ...
def special_legendre_polynomial_p(
    x: Tensor | Number | _complex, n: Tensor | Number | _complex, *, out: Tensor | None = None
) -> Tensor: ...
def special_log1p(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def special_log_ndtr(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def special_log_softmax(
    input: Tensor, dim: _int, dtype: _dtype | None = None, *, out: Tensor | None = None
) -> Tensor: ...
def special_logit(input: Tensor, eps: _float | None = None, *, out: Tensor | None = None) -> Tensor: ...
def special_logsumexp(
    input: Tensor, dim: _int | Sequence[_int], keepdim: _bool = False, *, out: Tensor | None = None
) -> Tensor: ...
def special_modified_bessel_i0(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def special_modified_bessel_i1(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def special_modified_bessel_k0(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def special_modified_bessel_k1(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def special_multigammaln(input: Tensor, p: _int, *, out: Tensor | None = None) -> Tensor: ...
def special_ndtr(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def special_ndtri(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def special_polygamma(n: _int, self: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def special_psi(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def special_round(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def special_round(input: Tensor, *, decimals: _int, out: Tensor | None = None) -> Tensor: ...
def special_scaled_modified_bessel_k0(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def special_scaled_modified_bessel_k1(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def special_shifted_chebyshev_polynomial_t(
    x: Tensor | Number | _complex, n: Tensor | Number | _complex, *, out: Tensor | None = None
) -> Tensor: ...
def special_shifted_chebyshev_polynomial_u(
    x: Tensor | Number | _complex, n: Tensor | Number | _complex, *, out: Tensor | None = None
) -> Tensor: ...
def special_shifted_chebyshev_polynomial_v(
    x: Tensor | Number | _complex, n: Tensor | Number | _complex, *, out: Tensor | None = None
) -> Tensor: ...
def special_shifted_chebyshev_polynomial_w(
    x: Tensor | Number | _complex, n: Tensor | Number | _complex, *, out: Tensor | None = None
) -> Tensor: ...
def special_sinc(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def special_softmax(input: Tensor, dim: _int, dtype: _dtype | None = None, *, out: Tensor | None = None) -> Tensor: ...
def special_spherical_bessel_j0(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def special_xlog1py(
    input: Tensor | Number | _complex, other: Tensor | Number | _complex, *, out: Tensor | None = None
) -> Tensor: ...
def special_xlogy(
    input: Tensor | Number | _complex, other: Tensor | Number | _complex, *, out: Tensor | None = None
) -> Tensor: ...
def special_zeta(
    input: Tensor | Number | _complex, other: Tensor | Number | _complex, *, out: Tensor | None = None
) -> Tensor: ...
def split(input: Tensor, split_size: _int | Sequence[_int], dim: _int = 0) -> tuple[Tensor, ...]: ...
def split_copy(input: Tensor, split_size: _int, dim: _int = 0, *, out: Tensor | None = None) -> tuple[Tensor, ...]: ...
def split_with_sizes(input: Tensor, split_sizes: Sequence[_int], dim: _int = 0) -> tuple[Tensor, ...]: ...
def split_with_sizes_copy(
    input: Tensor, split_sizes: Sequence[_int], dim: _int = 0, *, out: Tensor | None = None
) -> tuple[Tensor, ...]: ...
def sqrt(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def sqrt_(input: Tensor) -> Tensor: ...
def square(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def square_(input: Tensor) -> Tensor: ...
@overload
def squeeze(input: Tensor) -> Tensor: ...
@overload
def squeeze(input: Tensor, dim: _int | Sequence[_int]) -> Tensor: ...
@overload
def squeeze_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def squeeze_copy(input: Tensor, dim: _int, *, out: Tensor | None = None) -> Tensor: ...
def stack(tensors: Sequence[Tensor], dim: _int = 0, *, out: Tensor | None = None) -> Tensor: ...
@overload
def std(input: Tensor, unbiased: _bool = True, *, out: Tensor | None = None) -> Tensor: ...
@overload
def std(
    input: Tensor,
    dim: _int | Sequence[_int] | None = None,
    *,
    correction: Number | _complex | None = None,
    keepdim: _bool = False,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def std(
    input: Tensor,
    dim: _int | Sequence[_int] | None,
    unbiased: _bool = True,
    keepdim: _bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def std_mean(
    input: Tensor, unbiased: _bool = True, *, out: tuple[Tensor, ...] | list[Tensor] | None = None
) -> tuple[Tensor, Tensor]: ...
@overload
def std_mean(
    input: Tensor,
    dim: _int | Sequence[_int] | None,
    unbiased: _bool = True,
    keepdim: _bool = False,
    *,
    out: tuple[Tensor, ...] | list[Tensor] | None = None,
) -> tuple[Tensor, Tensor]: ...
@overload
def std_mean(
    input: Tensor,
    dim: _int | Sequence[_int] | None = None,
    *,
    correction: Number | _complex | None = None,
    keepdim: _bool = False,
    out: tuple[Tensor, ...] | list[Tensor] | None = None,
) -> tuple[Tensor, Tensor]: ...
def stft(
    input: Tensor,
    n_fft: _int,
    hop_length: _int | None = None,
    win_length: _int | None = None,
    window: Tensor | None = None,
    center: _bool = True,
    pad_mode: _str = "reflect",
    normalized: _bool = False,
    onesided: _bool | None = None,
    return_complex: _bool | None = None,
    align_to_window: _bool | None = None,
) -> Tensor: ...
def sub(
    input: Tensor | Number | _complex,
    other: Tensor | Number | _complex,
    *,
    alpha: Number | _complex = 1,
    out: Tensor | None = None,
) -> Tensor: ...
def sub_(input: Tensor, other: Tensor | Number | _complex, *, alpha: Number | _complex = 1) -> Tensor: ...
def subtract(
    input: Tensor | Number | _complex,
    other: Tensor | Number | _complex,
    *,
    alpha: Number | _complex = 1,
    out: Tensor | None = None,
) -> Tensor: ...
def subtract_(input: Tensor, other: Tensor | Number | _complex, *, alpha: Number | _complex = 1) -> Tensor: ...
@overload
def sum(input: Tensor, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor: ...
@overload
def sum(
    input: Tensor,
    dim: _int | Sequence[_int] | None,
    keepdim: _bool = False,
    *,
    dtype: _dtype | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
def svd(
    input: Tensor, some: _bool = True, compute_uv: _bool = True, *, out: tuple[Tensor, ...] | list[Tensor] | None = None
) -> return_types.svd: ...
def swapaxes(input: Tensor, axis0: _int, axis1: _int) -> Tensor: ...
def swapdims(input: Tensor, dim0: _int, dim1: _int) -> Tensor: ...
def t(input: Tensor) -> Tensor: ...
def t_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def take(input: Tensor, index: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def take_along_dim(input: Tensor, indices: Tensor, dim: _int | None = None, *, out: Tensor | None = None) -> Tensor: ...
def tan(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def tan_(input: Tensor) -> Tensor: ...
def tanh(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def tanh_(input: Tensor) -> Tensor: ...
def tanhshrink(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def tensor_split(input: Tensor, sections: _int, dim: _int = 0) -> tuple[Tensor, ...]: ...
@overload
def tensor_split(input: Tensor, indices: Sequence[_int], dim: _int = 0) -> tuple[Tensor, ...]: ...
@overload
def tensor_split(input: Tensor, tensor_indices_or_sections: Tensor, dim: _int = 0) -> tuple[Tensor, ...]: ...
def tensordot(
    input: Tensor, other: Tensor, dims_self: Sequence[_int], dims_other: Sequence[_int], *, out: Tensor | None = None
) -> Tensor: ...
def threshold(
    input: Tensor, threshold: Number | _complex, value: Number | _complex, *, out: Tensor | None = None
) -> Tensor: ...
def threshold_(input: Tensor, threshold: Number | _complex, value: Number | _complex) -> Tensor: ...
def tile(input: Tensor, dims: Sequence[_int], *, out: Tensor | None = None) -> Tensor: ...
def topk(
    input: Tensor,
    k: _int,
    dim: _int = -1,
    largest: _bool = True,
    sorted: _bool = True,
    *,
    out: tuple[Tensor, ...] | list[Tensor] | None = None,
) -> return_types.topk: ...
def trace(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def transpose(input: Tensor, dim0: _int, dim1: _int) -> Tensor: ...
def transpose_copy(input: Tensor, dim0: _int, dim1: _int, *, out: Tensor | None = None) -> Tensor: ...
@overload
def trapezoid(y: Tensor, x: Tensor, *, dim: _int = -1) -> Tensor: ...
@overload
def trapezoid(y: Tensor, *, dx: Number | _complex = 1, dim: _int = -1) -> Tensor: ...
@overload
def trapz(y: Tensor, x: Tensor, *, dim: _int = -1) -> Tensor: ...
@overload
def trapz(y: Tensor, *, dx: _float = 1.0, dim: _int = -1) -> Tensor: ...
def triangular_solve(
    input: Tensor,
    A: Tensor,
    upper: _bool = True,
    transpose: _bool = False,
    unitriangular: _bool = False,
    *,
    out: tuple[Tensor, ...] | list[Tensor] | None = None,
) -> return_types.triangular_solve: ...
def tril(input: Tensor, diagonal: _int = 0, *, out: Tensor | None = None) -> Tensor: ...
def tril_(input: Tensor, diagonal: _int = 0) -> Tensor: ...
def tril_indices(
    row: _int,
    col: _int,
    offset: _int = 0,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _device | _str | _int | None = None,
    pin_memory: _bool | None = None,
    out: Tensor | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: _float = 1.0,
    p: _float = 2.0,
    eps: _float = 1e-6,
    swap: _bool = False,
    reduction: _int = 1,
) -> Tensor: ...
def triu(input: Tensor, diagonal: _int = 0, *, out: Tensor | None = None) -> Tensor: ...
def triu_(input: Tensor, diagonal: _int = 0) -> Tensor: ...
def triu_indices(
    row: _int,
    col: _int,
    offset: _int = 0,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _device | _str | _int | None = None,
    pin_memory: _bool | None = None,
    out: Tensor | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
def true_divide(
    input: Tensor | Number | _complex, other: Tensor | Number | _complex, *, out: Tensor | None = None
) -> Tensor: ...
def true_divide_(input: Tensor, other: Tensor | Number | _complex) -> Tensor: ...
def trunc(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def trunc_(input: Tensor) -> Tensor: ...
def type_as(input: Tensor, other: Tensor) -> Tensor: ...
def unbind(input: Tensor, dim: _int = 0) -> tuple[Tensor, ...]: ...
def unbind_copy(input: Tensor, dim: _int = 0, *, out: Tensor | None = None) -> tuple[Tensor, ...]: ...
def unflatten(input: Tensor, dim: _int, sizes: Sequence[_int]) -> Tensor: ...
def unfold(input: Tensor, dimension: _int, size: _int, step: _int) -> Tensor: ...
def unfold_copy(input: Tensor, dimension: _int, size: _int, step: _int, *, out: Tensor | None = None) -> Tensor: ...
def uniform_(
    input: Tensor, from_: _float = 0.0, /, to: _float = 1.0, *, generator: Generator | None = None
) -> Tensor: ...
def unique_consecutive(
    input: Tensor, return_inverse: _bool = False, return_counts: _bool = False, dim: _int | None = None
) -> tuple[Tensor, Tensor, Tensor]: ...
def unique_dim(
    input: Tensor, dim: _int, sorted: _bool = True, return_inverse: _bool = False, return_counts: _bool = False
) -> tuple[Tensor, Tensor, Tensor]: ...
def unsafe_chunk(input: Tensor, chunks: _int, dim: _int = 0) -> tuple[Tensor, ...]: ...
def unsafe_split(input: Tensor, split_size: _int, dim: _int = 0) -> tuple[Tensor, ...]: ...
def unsafe_split_with_sizes(input: Tensor, split_sizes: Sequence[_int], dim: _int = 0) -> tuple[Tensor, ...]: ...
def unsqueeze(input: Tensor, dim: _int) -> Tensor: ...
def unsqueeze_copy(input: Tensor, dim: _int, *, out: Tensor | None = None) -> Tensor: ...
@overload
def upsample_bicubic2d(
    input: Tensor,
    output_size: _int | Sequence[_int],
    align_corners: _bool,
    scales_h: _float | None = None,
    scales_w: _float | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def upsample_bicubic2d(
    input: Tensor,
    output_size: Sequence[_int] | None,
    align_corners: _bool,
    scale_factors: Sequence[_float] | None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def upsample_bilinear2d(
    input: Tensor,
    output_size: _int | Sequence[_int],
    align_corners: _bool,
    scales_h: _float | None = None,
    scales_w: _float | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def upsample_bilinear2d(
    input: Tensor,
    output_size: Sequence[_int] | None,
    align_corners: _bool,
    scale_factors: Sequence[_float] | None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def upsample_linear1d(
    input: Tensor,
    output_size: _int | Sequence[_int],
    align_corners: _bool,
    scales: _float | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def upsample_linear1d(
    input: Tensor,
    output_size: Sequence[_int] | None,
    align_corners: _bool,
    scale_factors: Sequence[_float] | None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def upsample_nearest1d(
    input: Tensor, output_size: _int | Sequence[_int], scales: _float | None = None, *, out: Tensor | None = None
) -> Tensor: ...
@overload
def upsample_nearest1d(
    input: Tensor,
    output_size: Sequence[_int] | None,
    scale_factors: Sequence[_float] | None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def upsample_nearest2d(
    input: Tensor,
    output_size: _int | Sequence[_int],
    scales_h: _float | None = None,
    scales_w: _float | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def upsample_nearest2d(
    input: Tensor,
    output_size: Sequence[_int] | None,
    scale_factors: Sequence[_float] | None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def upsample_nearest3d(
    input: Tensor,
    output_size: _int | Sequence[_int],
    scales_d: _float | None = None,
    scales_h: _float | None = None,
    scales_w: _float | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def upsample_nearest3d(
    input: Tensor,
    output_size: Sequence[_int] | None,
    scale_factors: Sequence[_float] | None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def upsample_trilinear3d(
    input: Tensor,
    output_size: _int | Sequence[_int],
    align_corners: _bool,
    scales_d: _float | None = None,
    scales_h: _float | None = None,
    scales_w: _float | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def upsample_trilinear3d(
    input: Tensor,
    output_size: Sequence[_int] | None,
    align_corners: _bool,
    scale_factors: Sequence[_float] | None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def vander(x: Tensor, N: _int | None = None, increasing: _bool = False) -> Tensor: ...
@overload
def var(input: Tensor, unbiased: _bool = True, *, out: Tensor | None = None) -> Tensor: ...
@overload
def var(
    input: Tensor,
    dim: _int | Sequence[_int] | None = None,
    *,
    correction: Number | _complex | None = None,
    keepdim: _bool = False,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def var(
    input: Tensor,
    dim: _int | Sequence[_int] | None,
    unbiased: _bool = True,
    keepdim: _bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def var_mean(
    input: Tensor, unbiased: _bool = True, *, out: tuple[Tensor, ...] | list[Tensor] | None = None
) -> tuple[Tensor, Tensor]: ...
@overload
def var_mean(
    input: Tensor,
    dim: _int | Sequence[_int] | None,
    unbiased: _bool = True,
    keepdim: _bool = False,
    *,
    out: tuple[Tensor, ...] | list[Tensor] | None = None,
) -> tuple[Tensor, Tensor]: ...
@overload
def var_mean(
    input: Tensor,
    dim: _int | Sequence[_int] | None = None,
    *,
    correction: Number | _complex | None = None,
    keepdim: _bool = False,
    out: tuple[Tensor, ...] | list[Tensor] | None = None,
) -> tuple[Tensor, Tensor]: ...
def vdot(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def view(input: Tensor, size: Sequence[_int]) -> Tensor: ...
@overload
def view(input: Tensor, dtype: _dtype) -> Tensor: ...
def view_as(input: Tensor, other: Tensor) -> Tensor: ...
def view_as_complex(input: Tensor) -> Tensor: ...
def view_as_real(input: Tensor) -> Tensor: ...
@overload
def view_copy(input: Tensor, size: Sequence[_int], *, out: Tensor | None = None) -> Tensor: ...
@overload
def view_copy(input: Tensor, dtype: _dtype, *, out: Tensor | None = None) -> Tensor: ...
@overload
def vsplit(input: Tensor, sections: _int) -> tuple[Tensor, ...]: ...
@overload
def vsplit(input: Tensor, indices: Sequence[_int]) -> tuple[Tensor, ...]: ...
def vstack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor: ...
@overload
def where(
    condition: Tensor, self: Tensor | Number | _complex, other: Tensor | Number | _complex, *, out: Tensor | None = None
) -> Tensor: ...
@overload
def where(condition: Tensor) -> tuple[Tensor, ...]: ...
def xlogy(
    input: Tensor | Number | _complex, other: Tensor | Number | _complex, *, out: Tensor | None = None
) -> Tensor: ...
def xlogy_(input: Tensor, other: Tensor | Number | _complex) -> Tensor: ...
def zero_(input: Tensor) -> Tensor: ...
@overload
def zeros(
    size: Sequence[_int],
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _device | _str | _int | None = None,
    pin_memory: _bool | None = None,
    out: Tensor | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
@overload
def zeros(
    *size: _int,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _device | _str | _int | None = None,
    pin_memory: _bool | None = None,
    out: Tensor | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
def zeros_like(
    input: Tensor,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _device | _str | _int | None = None,
    pin_memory: _bool | None = None,
    memory_format: _memory_format | None = None,
    out: Tensor | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...

# End of what is from the op table.
