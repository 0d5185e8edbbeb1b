"""``torch._dynamo.utils``: the names that libraries use. This package does not trace Python code."""

import collections


def is_compile_supported(device_type):
    """Return whether ``torch.compile`` may be used on a device: always."""
    return True


def is_dynamo_supported():
    """Return ``True``: ``torch.compile`` may be used."""
    return True


#: Counts that the tracer would keep.
counters = collections.defaultdict(collections.Counter)
