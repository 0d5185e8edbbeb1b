"""Names of modules and classes in files, as PyTorch writes them."""

import io
import pickle
import zipfile

import pytest

import pytpu as torch
from pytpu import nn

HOMES = {
    "nn.modules": {
        "Flatten": "flatten",
        "Unflatten": "flatten",
        "Upsample": "upsampling",
        "InstanceNorm2d": "instancenorm",
        "Fold": "fold",
        "PixelShuffle": "pixelshuffle",
        "CosineSimilarity": "distance",
        "ChannelShuffle": "channelshuffle",
        "Linear": "linear",
        "BatchNorm2d": "batchnorm",
        "ReLU": "activation",
        "Sequential": "container",
        "Dropout": "dropout",
    },
    "optim": {
        "AdamW": "adamw",
        "Adagrad": "adagrad",
        "NAdam": "nadam",
        "RAdam": "radam",
        "Rprop": "rprop",
        "ASGD": "asgd",
        "Adamax": "adamax",
        "Adadelta": "adadelta",
        "SGD": "sgd",
        "Adam": "adam",
        "RMSprop": "rmsprop",
    },
}


@pytest.mark.parametrize("package, name, home", [(p, n, h) for p, names in HOMES.items() for n, h in names.items()])
def test_classes_are_in_the_modules_that_files_name(package, name, home):
    import importlib

    where = f"torch.{package}.{home}"
    kind = getattr(importlib.import_module(f"pytpu.{package}"), name)
    assert kind.__module__ == where and getattr(importlib.import_module(where), name) is kind
    assert pickle.loads(pickle.dumps(kind)) is kind


def test_a_file_names_modules_as_pytorch_does():
    model = nn.Sequential(nn.Upsample(scale_factor=2), nn.Flatten(), nn.InstanceNorm1d(2))
    file = io.BytesIO()
    torch.save(model, file)
    with zipfile.ZipFile(file) as archive:
        text = archive.read("archive/data.pkl")
    for name in (
        b"torch.nn.modules.upsampling\nUpsample",
        b"torch.nn.modules.flatten\nFlatten",
        b"torch.nn.modules.instancenorm",
    ):
        assert name in text
    file.seek(0)
    assert repr(torch.load(file, weights_only=False)) == repr(model)


def test_files_hold_the_entries_that_pytorch_reads():
    def state(module):
        file = io.BytesIO()
        torch.save(module, file)
        file.seek(0)
        return torch.load(file, weights_only=False), module.__getstate__()

    lstm, saved = state(nn.LSTM(2, 3))
    assert [w.shape for w in saved["_flat_weights"]] == [
        w.shape for w in lstm._flat_weights
    ] and "_flat_weights" not in vars(lstm)
    layers = [nn.TransformerEncoderLayer(4, 2, 8, activation=a) for a in ("relu", "gelu", torch.sin)]
    assert [layer.activation_relu_or_gelu for layer in layers] == [1, 2, 0]
    normed, saved = state(nn.utils.spectral_norm(nn.Linear(2, 2)))
    assert [type(h).__name__ for h in saved["_state_dict_hooks"].values()] == ["SpectralNormStateDictHook"]
    assert normed.state_dict()._metadata[""]["spectral_norm"] == {"weight.version": 1}
    nn.utils.remove_spectral_norm(normed)
    assert not normed._state_dict_hooks and not normed._load_state_dict_pre_hooks
    assert torch.optim.Adafactor.__module__ == torch.optim.Muon.__module__ == "torch.optim"
