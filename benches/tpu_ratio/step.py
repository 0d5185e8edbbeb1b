"""Steps of one of the models, for the command that plans scripts:

python -m pytpu.aot benches/tpu_ratio/step.py --topology v5e:2x2,v6e:2x2 --markdown -- gpt2_bf16
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import models

import pytpu as torch

run, precision = models.ROWS[sys.argv[1]]
torch.set_float32_matmul_precision(precision)
run()
