"""OpenMP, which is not here: kernels run on a thread pool of their own, see ``torch.set_num_threads``."""

from ._absent import is_available  # noqa: F401
