"""``torch.onnx.symbolic_helper``: names that extensions use to declare symbols. No exporter uses these here."""

from .._absent import absent_function


def parse_args(*arg_types):
    """Return the function itself, as a decorator."""
    return lambda fn: fn


quantized_args = parse_args


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(f"module 'torch.onnx.symbolic_helper' has no attribute '{name}'")
    return absent_function(f"torch.onnx.symbolic_helper.{name}", "models are not exported to ONNX")
