"""Write `fx.json`: the graphs and the code of the programs in `fx_programs.py`. Run it with real PyTorch."""

import json
import pathlib

import fx_programs
import torch

if __name__ == "__main__":
    path = pathlib.Path(__file__).with_name("fx.json")
    path.write_text(json.dumps(fx_programs.texts(torch), indent=1) + "\n")
