"""`torch.hub`: downloads of weights."""

import hashlib
import os
import zipfile

import pytest

import pytpu as torch
from pytpu import nn


def test_weights_are_downloaded_once_and_checked(tmp_path, capsys):
    model = nn.Linear(2, 3)
    torch.save(model.state_dict(), tmp_path / "weights.pth")
    digest = hashlib.sha256((tmp_path / "weights.pth").read_bytes()).hexdigest()
    (tmp_path / "weights.pth").rename(tmp_path / f"weights-{digest[:8]}.pth")
    url = (tmp_path / f"weights-{digest[:8]}.pth").as_uri()
    before = torch.hub.get_dir()
    torch.hub.set_dir(tmp_path / "hub")
    try:
        for _ in range(2):
            state = torch.hub.load_state_dict_from_url(url, map_location="cpu", check_hash=True, weights_only=True)
            assert torch.equal(state["weight"], model.weight)
        shown = capsys.readouterr()
        assert shown.out.count("Downloading") == 1 and "Downloading" not in shown.err and "100" in shown.err
        file = tmp_path / "hub" / "checkpoints" / f"weights-{digest[:8]}.pth"
        assert file.stat().st_mode == (tmp_path / file.name).stat().st_mode  # not private to the user
        other = tmp_path / "weights-00000000.pth"
        other.write_bytes((tmp_path / f"weights-{digest[:8]}.pth").read_bytes())
        with pytest.raises(RuntimeError, match='invalid hash value .expected "00000000", got "' + digest):
            torch.hub.load_state_dict_from_url(other.as_uri(), check_hash=True)
        assert os.listdir(tmp_path / "hub" / "checkpoints") == [f"weights-{digest[:8]}.pth"]
        with zipfile.ZipFile(tmp_path / "old.zip", "w") as archive:
            archive.write(tmp_path / f"weights-{digest[:8]}.pth", "inner.pth")
        with pytest.warns(FutureWarning, match="Falling back to the old format"):
            state = torch.utils.model_zoo.load_url((tmp_path / "old.zip").as_uri(), progress=False)
        assert torch.equal(state["bias"], model.bias)
    finally:
        torch.hub.set_dir(before)


def test_models_of_a_folder(tmp_path):
    (tmp_path / "parts.py").write_text("def scaled(n):\n    return 2 * n\n")
    (tmp_path / "hubconf.py").write_text(
        "from parts import scaled\n\ndependencies = ['json']\n\n\n"
        "def model(n=1, *, more=0):\n    return scaled(n) + more\n"
    )
    assert torch.hub.load(tmp_path, "model", 3, more=1, source="local") == 7
    with pytest.raises(RuntimeError, match="Cannot find callable other in hubconf"):
        torch.hub.load(str(tmp_path), "other", source="local")
    with pytest.raises(ValueError, match='Unknown source: "x". Allowed values: "github" | "local".'):
        torch.hub.load(tmp_path, "model", source="x")
    with pytest.raises(NotImplementedError, match="Clone the repository"):
        torch.hub.load("owner/name", "model")
    (tmp_path / "hubconf.py").write_text("dependencies = ['no_such_package']\n")
    with pytest.raises(RuntimeError, match="Missing dependencies: no_such_package"):
        torch.hub.load(tmp_path, "model", source="local")
    with pytest.raises(FileNotFoundError):
        torch.hub.load(tmp_path / "missing", "model", source="local")
