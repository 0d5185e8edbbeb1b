"""`torch.utils._dtype_abbrs`: short names of dtypes, for texts of graphs."""

import pytpu as torch

_LETTERS = {"uint": "u", "int": "i", "float": "f", "complex": "c", "bfloat": "bf"}
_NAMES = (
    "uint8 int8 int16 int32 int64 float16 float32 float64 complex32 complex64 complex128 bfloat16 float8_e5m2 "
    "float8_e4m3fn float8_e5m2fnuz float8_e4m3fnuz float8_e8m0fnu uint16 uint32 uint64"
).split()


def _abbreviation(name):
    letters = name.rstrip("0123456789") if "_" not in name else name.partition("8_")[0]
    return _LETTERS[letters] + name[len(letters) :].replace("_", "")


dtype_abbrs = {getattr(torch, name): _abbreviation(name) for name in _NAMES if hasattr(torch, name)}
dtype_abbrs[torch.bool] = "b8"
