"""``torch.distributed.rpc``: names of calls in other processes. `is_available` returns ``False``."""

from ..._absent import absent_class, absent_function
from .. import _WHY


class RRef:
    """A value in another process. Making one raises ``NotImplementedError``."""

    def __init__(self, *args, **kwargs):
        raise NotImplementedError(f"torch.distributed.rpc.RRef: {_WHY}")

    def __class_getitem__(cls, item):
        return cls


RpcBackendOptions = absent_class("torch.distributed.rpc.RpcBackendOptions", _WHY)
TensorPipeRpcBackendOptions = absent_class("torch.distributed.rpc.TensorPipeRpcBackendOptions", _WHY, RpcBackendOptions)
WorkerInfo = absent_class("torch.distributed.rpc.WorkerInfo", _WHY)


def is_available():
    """Return ``False``."""
    return False


for _name in ("get_worker_info", "init_rpc", "remote", "rpc_async", "rpc_sync", "shutdown"):
    globals()[_name] = absent_function(f"torch.distributed.rpc.{_name}", _WHY)
del _name
