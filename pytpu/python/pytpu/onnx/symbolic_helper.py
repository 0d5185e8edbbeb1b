"""``torch.onnx.symbolic_helper``: what extensions use to declare symbols, which no exporter asks for here."""

from .._absent import absent_function


def parse_args(*arg_types):
    """A decorator that gives the function itself."""
    return lambda fn: fn


quantized_args = parse_args


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(f"module 'torch.onnx.symbolic_helper' has no attribute '{name}'")
    return absent_function(f"torch.onnx.symbolic_helper.{name}", "models are not exported to ONNX")
