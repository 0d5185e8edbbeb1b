"""bitsandbytes: blocks of 8 and 4 bits, linear layers of 8 bits, an 8-bit optimizer, and rows of 4 bits."""

import bitsandbytes as bnb
import torch
from bitsandbytes import functional as BF
from reporting import device, report

where = device()
torch.manual_seed(0)
weight, x = torch.randn(64, 64).to(where), torch.randn(8, 64).to(where)
numbers = {}
quantized, state = BF.quantize_4bit(weight, blocksize=64, quant_type="nf4")
back = BF.dequantize_4bit(quantized, state)
numbers |= {"nf4 codes": quantized.to(torch.int64).sum(), "nf4 error": (back - weight).square().mean()}
quantized, state = BF.quantize_4bit(weight, blocksize=64, quant_type="fp4")
numbers["fp4 error"] = (BF.dequantize_4bit(quantized, state) - weight).square().mean()
quantized, state = BF.quantize_blockwise(weight, blocksize=256)
back = BF.dequantize_blockwise(quantized, state)
numbers |= {"block codes": quantized.to(torch.int64).sum(), "block error": (back - weight).square().mean()}

torch.manual_seed(1)
plain = torch.nn.Linear(64, 32)
layer = bnb.nn.Linear8bitLt(64, 32, has_fp16_weights=False)
layer.load_state_dict(plain.state_dict())
layer = layer.to(where)
numbers["linear 8 bits"] = layer(x).square().mean()
numbers["linear"] = plain.to(where)(x).square().mean()
report(numbers, {"linear 8 bits": (1e-3, "on devices other than cpu, the library rounds the input to float16")})
