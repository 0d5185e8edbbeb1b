"""`torch.utils._triton`: there is no Triton compiler here. Write kernels in Pallas or StableHLO."""


def has_triton_package():
    """Always return `False`: PyTorch's kernels in Triton are not used, also where the package is installed."""
    return False


has_triton = has_triton_tma = has_triton_tma_device = has_triton_stable_tma_api = has_triton_package
has_triton_experimental_host_tma = has_triton_tensor_descriptor_host_tma = has_triton_package
