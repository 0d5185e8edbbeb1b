"""``torch.onnx``: names that scripts use. There is no exporter: this package writes graphs of StableHLO."""

__all__ = ["is_in_onnx_export"]


from .._c_names import _onnx as _names

OperatorExportTypes, TrainingMode = _names.OperatorExportTypes, _names.TrainingMode


def is_in_onnx_export():
    """Always return ``False``: no export is running."""
    return False


def register_custom_op_symbolic(symbolic_name, symbolic_fn, opset_version):
    """Do nothing: there is no exporter that could use the symbol."""


def unregister_custom_op_symbolic(symbolic_name, opset_version):
    """Do nothing: nothing was registered."""
