"""What the modules of accelerators that are not here share: answers to scripts that ask."""


def is_available():
    return False


def device_count():
    return 0


def is_initialized():
    return False


def manual_seed(seed):
    """Nothing to seed."""


manual_seed_all = manual_seed


def empty_cache():
    """Nothing to free."""


def no_memory(device=None):
    """Bytes that were allocated: none."""
    return 0
