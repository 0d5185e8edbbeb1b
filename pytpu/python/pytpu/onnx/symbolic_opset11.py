"""``torch.onnx.symbolic_opset11``: its functions can be named. Calling one raises an error."""

from .._absent import absent_function


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(f"module 'torch.onnx.symbolic_opset11' has no attribute '{name}'")
    return absent_function(f"torch.onnx.symbolic_opset11.{name}", "models are not exported to ONNX")
