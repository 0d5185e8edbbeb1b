"""``torch.cuda``: there is none, and scripts that ask are told so. The accelerator is ``torch.tpu``."""


def is_available():
    return False


def device_count():
    return 0


def is_initialized():
    return False


def is_bf16_supported():
    return False


def manual_seed(seed):
    """Nothing to seed."""


manual_seed_all = manual_seed


def empty_cache():
    """Nothing to free."""


def _none(*_args, **_kwargs):
    raise AssertionError("Torch not compiled with CUDA enabled")


current_device = get_device_name = get_device_properties = set_device = synchronize = _none
