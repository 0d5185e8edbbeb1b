"""`torch.ao.quantization`: marks for parts of a model to quantize. They do nothing. Quantizing itself is refused."""

from ...nn import Module


class QuantStub(Module):
    """A mark where values are quantized. It returns its input."""

    def __init__(self, qconfig=None):
        super().__init__()
        if qconfig:
            self.qconfig = qconfig

    def forward(self, x):
        """Return the input."""
        return x


class DeQuantStub(QuantStub):
    """A mark where values are dequantized. It returns its input."""


class QuantWrapper(Module):
    """A module between a `QuantStub` and a `DeQuantStub`."""

    def __init__(self, module):
        super().__init__()
        self.quant, self.module, self.dequant = QuantStub(), module, DeQuantStub()
        self.train(module.training)

    def forward(self, x):
        """Run the module."""
        return self.dequant(self.module(self.quant(x)))
