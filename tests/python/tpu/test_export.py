"""`torch.tpu.export` and `torch.tpu.load_export`: a function as one portable program in a file."""

import json
import os
import zipfile

import pytest

import pytpu as torch
from pytpu import nn


@pytest.fixture
def model():
    return nn.Sequential(nn.Embedding(12, 8), nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 3)).to("tpu").eval()


def test_a_model_gives_the_same_from_its_file(model, tmp_path, close):
    exported = torch.tpu.export(model, torch.zeros(2, 5, dtype=torch.long))
    assert exported.inputs == [([2, 5], "int64")] and exported.outputs == [([2, 5, 3], "float32")]
    ids = torch.randint(0, 12, (2, 5))
    want = model(ids.to("tpu"))
    close(exported(ids.to("tpu")), want.detach().cpu().numpy())
    exported.save(tmp_path / "model.export")
    loaded = torch.tpu.load_export(tmp_path / "model.export")
    assert loaded.stablehlo == exported.stablehlo and [p.name for p in tmp_path.iterdir()] == ["model.export"]
    close(loaded(ids.to("tpu")), want.detach().cpu().numpy())
    on_cpu = loaded(ids)
    assert on_cpu.device.type == "cpu"
    close(on_cpu, want.detach().cpu().numpy())


def test_arguments_and_results_keep_their_structure():
    def f(x, *, more, scale=2, name="a"):
        table = torch.tensor([1.0, 10.0, 100.0], device=x.device)
        return {"sum": x + more["y"] * scale, "rest": [table * 2, (x, None)]}

    exported = torch.tpu.export(f, torch.zeros(3), more={"y": torch.zeros(3)}, scale=3)
    got = exported(torch.ones(3), more={"y": torch.full((3,), 2.0)}, scale=3)
    assert got["sum"].tolist() == [7, 7, 7] and got["rest"][0].tolist() == [2, 20, 200]
    assert isinstance(got["rest"][1], tuple) and got["rest"][1][0].tolist() == [1, 1, 1] and got["rest"][1][1] is None
    with pytest.raises(RuntimeError, match="other arguments that are not tensors"):
        exported(torch.ones(3), more={"y": torch.ones(3)}, scale=4)
    with pytest.raises(
        RuntimeError, match=r"takes \(float32\[3\], float32\[3\]\), but got \(float32\[4\], float32\[3\]\)"
    ):
        exported(torch.ones(4), more={"y": torch.ones(3)}, scale=3)


def test_one_tensor_given_twice_is_two_inputs():
    t = torch.ones(2)
    exported = torch.tpu.export(lambda x, y: x - 2 * y, t, t)
    assert exported(torch.ones(2), torch.full((2,), 3.0)).tolist() == [-5, -5]


def test_functions_that_need_several_programs_are_refused():
    with pytest.raises(RuntimeError, match="this value cannot be read"):
        torch.tpu.export(lambda x: x * x.sum().item(), torch.zeros(2))
    with pytest.raises(RuntimeError, match="holds no data"):
        torch.tpu.export(lambda x: [y := x + 1, torch.tpu.synchronize(), y * 2][2], torch.zeros(2))
    with pytest.raises(TypeError, match="cannot describe a value of type object"):
        torch.tpu.export(lambda x, y: x, torch.zeros(2), object())
    # The device works as before.
    assert (torch.ones(2, device="tpu") + 1).tolist() == [2, 2]


def test_damaged_files_are_refused(model, tmp_path):
    path = tmp_path / "model.export"
    torch.tpu.export(model, torch.zeros(1, 2, dtype=torch.long)).save(path)
    whole = path.read_bytes()
    for data in (b"", b"nonsense", whole[: len(whole) // 2], whole[:200] + bytes([whole[200] ^ 1]) + whole[201:]):
        path.write_bytes(data)
        with pytest.raises(ValueError, match="is not a file of torch.tpu.export, or it is damaged"):
            torch.tpu.load_export(path)
    with pytest.raises(FileNotFoundError):
        torch.tpu.load_export(tmp_path / "none")
    with pytest.raises(OSError):
        torch.tpu.export(model, torch.zeros(1, 2, dtype=torch.long)).save(tmp_path / "no" / "folder")


def rewritten(path, change):
    """Change the parts of a file by a function of the dict of their bytes."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    change(parts)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)


def with_manifest(**changes):
    def change(parts):
        manifest = json.loads(parts["manifest.json"]) | changes
        parts["manifest.json"] = json.dumps({k: v for k, v in manifest.items() if v != "absent"}).encode()

    return change


def put(name, data):
    return lambda parts: parts.update({name: data})


DEEP = b'{"list": [' * 2000 + b"]}" * 2000
NESTED = json.loads('{"list": [' * 300 + "]}" * 300)


@pytest.mark.parametrize(
    "change",
    [
        with_manifest(inputs=None),
        with_manifest(inputs=[[[2, 5]]]),
        with_manifest(inputs=[[[2, -5], "int64"]]),
        with_manifest(inputs=[[[2, 5], "nan"]]),
        with_manifest(inputs=[[[2, 5], "float32"]]),
        with_manifest(outputs=[]),
        with_manifest(outputs=[[[2, 5, 3], "float64"]]),
        with_manifest(call={}),
        with_manifest(call={"tensor": 7}),
        with_manifest(call={"object": 1}),
        with_manifest(call=NESTED),
        with_manifest(results={"tensor": -1}),
        with_manifest(results={"value": [1]}),
        with_manifest(arguments=[5]),
        with_manifest(arguments=["none"]),
        with_manifest(arguments=[True]),
        with_manifest(places=[99]),
        with_manifest(places="absent"),
        put("manifest.json", b"[]"),
        put("manifest.json", b"5"),
        put("manifest.json", DEEP),
        put("manifest.json", b'{"format": "torchtpu export 1", "inputs": "\\ud800"}'),
        put("program.mlir", b"nonsense"),
        put("program.mlir", b"\xff"),
        put("constants.safetensors", b""),
        lambda parts: parts.pop("program.mlir"),
    ],
)
def test_parts_that_do_not_fit_together_are_refused(model, tmp_path, change):
    path = tmp_path / "model.export"
    torch.tpu.export(model, torch.zeros(2, 5, dtype=torch.long)).save(path)
    rewritten(path, change)
    with pytest.raises(ValueError, match="is not a file of torch.tpu.export, or it is damaged"):
        torch.tpu.load_export(path)


def test_a_small_file_cannot_fill_the_memory(model, tmp_path):
    path = tmp_path / "model.export"
    torch.tpu.export(model, torch.zeros(2, 5, dtype=torch.long)).save(path)
    rewritten(path, put("program.mlir", bytes(300 << 20)))
    assert path.stat().st_size < 1 << 20
    with pytest.raises(ValueError, match="which is refused for a file of this size"):
        torch.tpu.load_export(path)


def test_large_constants_of_zeros_can_be_loaded(tmp_path):
    path, zeros = tmp_path / "zeros.export", torch.zeros(80 << 20, device="tpu")
    torch.tpu.export(lambda x: x + zeros[:2], torch.zeros(2)).save(path)
    assert torch.tpu.load_export(path)(torch.ones(2)).tolist() == [1, 1]


def test_links_and_permissions_of_an_export_stay(model, tmp_path):
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "real").chmod(0o640)
    (tmp_path / "link").symlink_to("real")
    torch.tpu.export(model, torch.zeros(2, 5, dtype=torch.long)).save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real").stat().st_mode & 0o777 == 0o640
    assert torch.tpu.load_export(tmp_path / "real").inputs == [([2, 5], "int64")]


@pytest.mark.skipif(
    not torch.tpu.aot.is_available() and os.environ.get("CI") != "true", reason="libtpu is not installed"
)
def test_an_exported_program_compiles_for_tpus(model, tmp_path):
    torch.tpu.export(model, torch.zeros(2, 5, dtype=torch.long)).save(tmp_path / "x")
    report = torch.tpu.load_export(tmp_path / "x").compile("v6e:2x2")
    assert report.cycles > 0 and report.topology == "v6e:2x2"
