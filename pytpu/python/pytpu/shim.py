"""Write the wheel `torch 2.15.0+pytpu`, with which `import torch` gives pytpu: `python -m pytpu.shim [FOLDER]`.

With this wheel, packages that require `torch` are installed without PyTorch. It holds metadata and two modules; see
`docs/being-torch.md`. `make torch-shim` runs this file from a clone, so it imports nothing of the package.
"""

import argparse
import base64
import hashlib
import pathlib
import zipfile

_SHIM = pathlib.Path(__file__).resolve().parent / "_shim"
_WHEEL = "Wheel-Version: 1.0\nGenerator: pytpu.shim\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def build(folder):
    """Write the wheel into a folder, which is made if it does not exist. Return the path of the wheel."""
    (info,) = _SHIM.glob("torch-*.dist-info")
    # Without `torch_tpu`, which would replace Google's package in the environment.
    paths = sorted(
        path for part in (info, _SHIM / "functorch", _SHIM / "torch") for path in part.rglob("*") if path.is_file()
    )
    files = {path.relative_to(_SHIM).as_posix(): path.read_bytes() for path in paths}
    files = {name: data for name, data in files.items() if "__pycache__" not in name}
    files[f"{info.name}/WHEEL"] = _WHEEL.encode()
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


def main():
    """Write the wheel into the folder of the command line, and print its path."""
    parser = argparse.ArgumentParser(
        prog="python -m pytpu.shim",
        description="Write the wheel torch 2.15.0+pytpu and print its path. After `pip install` of that file, "
        "`import torch` gives pytpu, and packages that require torch are installed without PyTorch.",
        epilog="See docs/being-torch.md. `pip uninstall torch` removes the wheel.",
    )
    parser.add_argument("folder", nargs="?", default="dist", help="where the wheel goes; dist by default")
    print(build(parser.parse_args().folder))


if __name__ == "__main__":
    main()
