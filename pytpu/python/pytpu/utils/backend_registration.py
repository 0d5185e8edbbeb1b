"""Names of backends that PyTorch does not have. There is one here, and its name is fixed: `tpu`."""

__all__ = ["rename_privateuse1_backend", "generate_methods_for_privateuse1_backend"]


def rename_privateuse1_backend(backend_name):
    """Do nothing if the name is `tpu`, the fixed name of the backend.

    Raises:
        RuntimeError: the name is another.
    """
    if backend_name != "tpu":
        raise RuntimeError("torch.register_privateuse1_backend() has already been set! Current backend: tpu")


def generate_methods_for_privateuse1_backend(
    for_tensor=True, for_module=True, for_packed_sequence=True, for_storage=False, unsupported_dtype=None
):
    """Do nothing: `Tensor.tpu`, `Tensor.is_tpu` and `Module.tpu` always exist."""
