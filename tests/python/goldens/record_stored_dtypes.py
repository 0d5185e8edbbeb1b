"""Writes `stored_dtypes.pt`, a file of dtypes that are only stored. Needs PyTorch:

python tests/python/goldens/record_stored_dtypes.py
"""

import pathlib

import torch

NAMES = "uint16 uint32 uint64 float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu".split()


def main():
    numbers = torch.tensor([[0.0, 1.0, 2.5], [3.0, 100.0, 448.0]])
    found = {name: numbers.to(getattr(torch, name)) for name in NAMES}
    found["largest"] = torch.tensor([2**64 - 1], dtype=torch.uint64)
    found["base"] = torch.arange(6).to(torch.uint16)
    found["view"] = found["base"][2:4]
    torch.save(found, pathlib.Path(__file__).parent / "stored_dtypes.pt")


if __name__ == "__main__":
    main()
