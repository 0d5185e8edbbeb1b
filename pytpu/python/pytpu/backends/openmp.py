"""OpenMP, which is absent: kernels run on a thread pool of their own. See `torch.set_num_threads`."""

from ._absent import is_available  # noqa: F401
