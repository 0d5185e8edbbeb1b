"""Variables of the environment and macros in the arguments of workers."""

from __future__ import annotations

import os
import socket
from string import Template
from typing import Any


def get_env_variable_or_raise(env_name: str) -> str:
    """Return the value of an environment variable.

    Args:
        env_name: name of the variable.

    Raises:
        ValueError: if the variable is not set.
    """
    value = os.environ.get(env_name)
    if value is None:
        raise ValueError(f"Environment variable {env_name} expected, but not set")
    return value


def get_socket_with_port() -> socket.socket:
    """Return a socket that is bound to a free port, which stays reserved until the socket is closed."""
    from .distributed import get_socket_with_port

    return get_socket_with_port()


class macros:
    """Names in arguments of workers that stand for a value of each worker."""

    local_rank = "${local_rank}"

    @staticmethod
    def substitute(args: list[Any], local_rank: str) -> list[Any]:
        """Replace the macros in the texts of `args`.

        Args:
            args: arguments of a worker. Arguments that are not texts stay as they are.
            local_rank: the rank of the worker on its node.
        """
        return [Template(x).safe_substitute(local_rank=local_rank) if isinstance(x, str) else x for x in args]
