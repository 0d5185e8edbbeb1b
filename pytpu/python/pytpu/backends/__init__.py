"""Switches of backends. Those of libraries that are not here can be set, and change nothing."""


class _Switches:
    def __init__(self, **values):
        self.__dict__.update(values)

    def is_available(self):
        return False


cudnn = _Switches(enabled=False, benchmark=False, deterministic=True, allow_tf32=False)
cuda = _Switches(matmul=_Switches(allow_tf32=False))
mps = _Switches()
mkldnn = _Switches(enabled=False)
