"""Write the wheel ``torch 2.15.0+pytpu``, which lets ``import torch`` give pytpu: ``python torch_shim.py FOLDER``.

Other packages that need ``torch`` are then installed without PyTorch. The wheel holds metadata and one module; see
``docs/being-torch.md``.
"""

import base64
import hashlib
import pathlib
import sys
import zipfile

SHIM = pathlib.Path(__file__).parent / "python" / "pytpu" / "_shim"
WHEEL = "Wheel-Version: 1.0\nGenerator: pytpu/torch_shim.py\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def build(folder):
    """Write the wheel into a folder and return its path."""
    (info,) = SHIM.glob("torch-*.dist-info")
    # Without `torch_tpu`, which would replace Google's package in the environment.
    paths = sorted(path for folder in (info, SHIM / "torch") for path in folder.rglob("*") if path.is_file())
    files = {path.relative_to(SHIM).as_posix(): path.read_bytes() for path in paths}
    files = {name: data for name, data in files.items() if "__pycache__" not in name}
    files[f"{info.name}/WHEEL"] = WHEEL.encode()
    record = ""
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(data)}\n"
    files[f"{info.name}/RECORD"] = (record + f"{info.name}/RECORD,,\n").encode()
    wheel = pathlib.Path(folder) / f"{info.name.removesuffix('.dist-info')}-py3-none-any.whl"
    wheel.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            # A fixed date: the same text gives the same bytes.
            archive.writestr(zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0)), data)
    return wheel


if __name__ == "__main__":
    print(build(sys.argv[1] if len(sys.argv) > 1 else "dist"))
