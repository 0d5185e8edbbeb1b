"""``torch.distributed.algorithms.join``: names around uneven inputs."""

from . import Join, Joinable, JoinHook  # noqa: F401
