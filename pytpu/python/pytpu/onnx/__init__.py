"""``torch.onnx``: what scripts ask of it. There is no exporter: a graph of StableHLO is what this package writes."""

__all__ = ["export", "is_in_onnx_export"]


def is_in_onnx_export():
    """Whether an export is running; it never is."""
    return False


def export(*args, **kwargs):
    """Raises ``NotImplementedError``: models are not exported to ONNX. Save the ``state_dict`` instead."""
    raise NotImplementedError("torch.onnx.export: models are not exported to ONNX; save their state_dict instead")


def register_custom_op_symbolic(symbolic_name, symbolic_fn, opset_version):
    """Do nothing: there is no exporter that would ask for the symbol."""


def unregister_custom_op_symbolic(symbolic_name, opset_version):
    """Do nothing: nothing was registered."""
