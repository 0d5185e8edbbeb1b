"""Parts that the modules of `torch.distributed.elastic` share."""

from .api import get_env_variable_or_raise, get_socket_with_port, macros
