"""Which libraries are run, which of them are quick, and what of `requirements.txt` the quick ones need."""

import importlib.metadata
import json
import pathlib

FOLDER = pathlib.Path(__file__).resolve().parent

# Name of the program (`programs/use_NAME.py`) to the distribution whose version is recorded. Programs `ranks_NAME.py`
# run in two processes.
LIBRARIES = {
    "torchvision": "torchvision",
    "timm": "timm",
    "transformers": "transformers",
    "accelerate": "accelerate",
    "peft": "peft",
    "diffusers": "diffusers",
    "sentence_transformers": "sentence-transformers",
    "lightning": "lightning",
    "torchmetrics": "torchmetrics",
    "torch_geometric": "torch_geometric",
    "pyro": "pyro-ppl",
    "gpytorch": "gpytorch",
    "monai": "monai",
    "einops": "einops",
    "x_transformers": "x-transformers",
    "stable_baselines3": "stable_baselines3",
    "captum": "captum",
    "pytorch_optimizer": "pytorch_optimizer",
    "segmentation_models_pytorch": "segmentation_models_pytorch",
    "open_clip": "open_clip_torch",
    "botorch": "botorch",
    "trl": "trl",
    "opacus": "opacus",
    "kornia": "kornia",
    "whisper": "openai-whisper",
    "ultralytics": "ultralytics",
    "torchaudio": "torchaudio",
    "speechbrain": "speechbrain",
    "bitsandbytes": "bitsandbytes",
    "litgpt": "litgpt",
    "transformers_batch": "transformers",
    "transformers_serve": "transformers",
    "vit_pytorch": "vit-pytorch",
    "denoising_diffusion": "denoising-diffusion-pytorch",
    "pykeen": "pykeen",
    "chemprop": "chemprop",
    "gluonts": "gluonts",
    "neuralforecast": "neuralforecast",
    "skorch": "skorch",
    "torchsde": "torchsde",
    "mmengine": "mmengine",
    "demucs": "demucs",
    "torchdiffeq": "torchdiffeq",
    "entmax": "entmax",
    "beside": "deepspeed",
    "defaults": "speechbrain",
    "ranks_accelerate": "accelerate",
    "ranks_transformers": "transformers",
    "ranks_lightning": "lightning",
    "ranks_torchdata": "torchdata",
}

# The six that `make test` runs, with the packages that they import.
QUICK = {
    "einops": "einops numpy",
    "pytorch_optimizer": "pytorch_optimizer numpy",
    "torchmetrics": "torchmetrics lightning-utilities packaging typing_extensions numpy",
    "pyro": "pyro-ppl pyro-api opt_einsum tqdm numpy",
    "gpytorch": "gpytorch linear_operator mpmath scipy scikit-learn joblib threadpoolctl numpy",
    "timm": (
        "timm torchvision pillow PyYAML huggingface_hub hf-xet httpx2 httpcore2 h11 anyio idna certifi truststore "
        "filelock fsspec packaging tqdm typer click shellingham rich annotated-doc typing_extensions safetensors numpy"
    ),
}


def normal(name):
    """Return the name of a distribution as package indexes compare it."""
    return name.lower().replace("_", "-").replace(".", "-")


def requirements(names):
    """Return the lines of `requirements.txt` that `names` need: all lines, unless each name is a quick one."""
    lines = (FOLDER / "requirements.txt").read_text().splitlines()
    lines = [line for line in lines if line and not line.startswith("#")]
    if names is None or not set(names) <= set(QUICK):
        return lines
    wanted = {normal(package) for name in names for package in QUICK[name].split()}
    return [line for line in lines if normal(line.split("==")[0]) in wanted]


def program(name):
    """Return the path of the program of a library."""
    return FOLDER / "programs" / (f"{name}.py" if has_ranks(name) else f"use_{name}.py")


def has_ranks(name):
    """Return whether a program runs in two processes, which a launcher starts."""
    return name.startswith("ranks_")


def command(name):
    """Return the arguments of a Python with `torch` that run a program."""
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"] if has_ranks(name) else []
    return [*launcher, str(program(name))]


def last_line(output):
    """Return the numbers that a program has printed, with what it says about itself."""
    # Ranks share the output. One of them reports.
    return json.loads([line for line in output.splitlines() if line.startswith('{"numbers"')][-1])


def expected(name):
    """Return the path of the recorded numbers of a library."""
    return FOLDER / "expected" / f"{name}.json"


def version(name):
    """Return the version of a library in this interpreter."""
    return importlib.metadata.version(LIBRARIES[name])
