"""`functorch`, which PyTorch installs beside `torch`: older names of `torch.func`."""

from torch._functorch.make_functional import (
    FunctionalModule as FunctionalModule,
    FunctionalModuleWithBuffers as FunctionalModuleWithBuffers,
    combine_state_for_ensemble as combine_state_for_ensemble,
    make_functional as make_functional,
    make_functional_with_buffers as make_functional_with_buffers,
)
from torch.func import (
    grad as grad,
    grad_and_value as grad_and_value,
    hessian as hessian,
    jacfwd as jacfwd,
    jacrev as jacrev,
    jvp as jvp,
    vjp as vjp,
    vmap as vmap,
)
