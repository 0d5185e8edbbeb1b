"""``torch._dynamo.utils``: what libraries ask of PyTorch's tracer of Python, of which there is none here."""

import collections


def is_compile_supported(device_type):
    """Return whether ``torch.compile`` may be used on a device: always."""
    return True


def is_dynamo_supported():
    """Return ``True``: ``torch.compile`` may be used."""
    return True


#: Counts that the tracer would keep.
counters = collections.defaultdict(collections.Counter)
