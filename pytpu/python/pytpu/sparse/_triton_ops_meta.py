"""``torch.sparse._triton_ops_meta``: names that torchao imports. There are no kernels in Triton to tune."""

from .._absent import absent_function

_WHY = "there are no kernels in Triton here"
get_meta = absent_function("torch.sparse._triton_ops_meta.get_meta", _WHY)
minimize = absent_function("torch.sparse._triton_ops_meta.minimize", _WHY)
update = absent_function("torch.sparse._triton_ops_meta.update", _WHY)
dump = absent_function("torch.sparse._triton_ops_meta.dump", _WHY)
