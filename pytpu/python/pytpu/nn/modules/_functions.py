"""`torch.nn.modules._functions`: a function that `spmd_types` looks for in graphs. Modules here do not use it."""

from __future__ import annotations

from ...autograd import Function

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class BackwardHookFunction(Function):
    """Return the arguments, and their gradients in backward."""

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Any:
        """Return `args`. Those without a gradient stay without one."""
        ctx.mark_non_differentiable(*[x for x in args if not x.requires_grad])
        return args

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Return `grad_outputs`."""
        return grad_outputs
