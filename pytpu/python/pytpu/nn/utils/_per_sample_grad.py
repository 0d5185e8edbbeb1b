"""``torch.nn.utils._per_sample_grad``: gradients of each sample, which this package does not compute in one pass."""

from ..._absent import absent_function

call_for_per_sample_grads = absent_function(
    "torch.nn.utils._per_sample_grad.call_for_per_sample_grads",
    "gradients of each sample are not computed in one pass here. Call torch.func.grad for each sample, or use opacus "
    'with grad_sample_mode="hooks"',
)
