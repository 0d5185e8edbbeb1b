"""`python -m torch.utils.collect_env`: print the facts about the machine for a defect report."""

import os
import platform
import subprocess
import sys
from collections import namedtuple
from importlib import metadata

SystemEnv = namedtuple(
    "SystemEnv",
    "torch_version is_debug_build cuda_compiled_version gcc_version clang_version cmake_version os libc_version "
    "python_version python_platform is_cuda_available tpu_device cpu_info pip_version pip_packages",
)
_WANTED = (
    "numpy",
    "torch",
    "pytpu",
    "xla-cpu-pjrt",
    "libtpu",
    "jax-cuda13-pjrt",
    "onnx",
    "triton",
    "mypy",
    "flake8",
    "optree",
)


def run(command):
    """Run a command and return its exit code, output and errors as text."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, shell=isinstance(command, str), timeout=30)
    except (OSError, subprocess.TimeoutExpired) as error:
        return 127, "", str(error)
    return done.returncode, done.stdout.strip(), done.stderr.strip()


def _version(program):
    code, out, _ = run([program, "--version"])
    return out.splitlines()[0] if code == 0 and out else "Could not collect"


def get_os():
    """Return the name and version of the system."""
    try:
        with open("/etc/os-release") as file:
            entries = dict(line.rstrip().split("=", 1) for line in file if "=" in line)
        return f"{entries.get('PRETTY_NAME', 'Linux').strip(chr(34))} ({platform.machine()})"
    except OSError:
        return f"{platform.system()} {platform.release()} ({platform.machine()})"


def get_cpu_info():
    """Return what `lscpu` says."""
    code, out, _ = run(["lscpu"])
    return out if code == 0 else platform.processor() or "None"


def get_env_info():
    """Return all entries as a named tuple."""
    import pytpu as torch

    try:
        tpu = torch.tpu.get_device_name() if torch.tpu.is_available() else "not available"
    except RuntimeError as error:
        tpu = f"not available: {str(error).splitlines()[0]}"
    packages = []
    for name in _WANTED:
        try:
            packages.append(f"[pip3] {name}=={metadata.version(name)}")
        except metadata.PackageNotFoundError:
            pass
    try:
        pip = f"pip {metadata.version('pip')}"
    except metadata.PackageNotFoundError:
        pip = "Could not collect"
    return SystemEnv(
        torch_version=f"{torch.__version__} (pytpu)",
        is_debug_build="False",
        cuda_compiled_version="None",
        gcc_version=_version("gcc"),
        clang_version=_version("clang"),
        cmake_version=_version("cmake"),
        os=get_os(),
        libc_version="-".join(platform.libc_ver()),
        python_version=f"{sys.version.replace(os.linesep, ' ')} ({sys.maxsize.bit_length() + 1}-bit runtime)",
        python_platform=platform.platform(),
        is_cuda_available="False",
        tpu_device=tpu,
        cpu_info=get_cpu_info(),
        pip_version=pip,
        pip_packages="\n".join(packages),
    )


def pretty_str(envinfo):
    """Return the entries as text."""
    e = envinfo
    return (
        f"PyTorch version: {e.torch_version}\nIs debug build: {e.is_debug_build}\nCUDA used to build PyTorch: "
        f"{e.cuda_compiled_version}\n"
        f"ROCM used to build PyTorch: N/A\n\nOS: {e.os}\nGCC version: {e.gcc_version}\nClang version: "
        f"{e.clang_version}\n"
        f"CMake version: {e.cmake_version}\nLibc version: {e.libc_version}\n\nPython version: {e.python_version}\n"
        f"Python platform: {e.python_platform}\nIs CUDA available: {e.is_cuda_available}\nDevice tpu: "
        f"{e.tpu_device}\n\n"
        f"CPU:\n{e.cpu_info}\n\nVersions of relevant libraries:\n{e.pip_packages}"
    )


def get_pretty_env_info():
    """Return all entries as text."""
    return pretty_str(get_env_info())


def main():
    """Print all entries."""
    print("Collecting environment information...")
    print(get_pretty_env_info())


if __name__ == "__main__":
    main()
