"""``torch.onnx``: names that scripts use. There is no exporter: this package writes graphs of StableHLO."""

__all__ = ["export", "is_in_onnx_export"]


from .._c_names import _onnx as _names

OperatorExportTypes, TrainingMode = _names.OperatorExportTypes, _names.TrainingMode


def is_in_onnx_export():
    """Always return ``False``: no export is running."""
    return False


def export(*args, **kwargs):
    """Raise ``NotImplementedError``: models are not exported to ONNX. Save the ``state_dict`` instead."""
    raise NotImplementedError("torch.onnx.export: models cannot be exported to ONNX. Save their state_dict instead")


def register_custom_op_symbolic(symbolic_name, symbolic_fn, opset_version):
    """Do nothing: there is no exporter that could use the symbol."""


def unregister_custom_op_symbolic(symbolic_name, opset_version):
    """Do nothing: nothing was registered."""
