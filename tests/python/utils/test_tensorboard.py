"""`torch.utils.tensorboard`: event files, as TensorBoard reads them."""

import subprocess
import sys

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.util import tensor_util

import pytpu as torch
from pytpu.utils.tensorboard import FileWriter, SummaryWriter, summary


@pytest.fixture
def written(tmp_path):
    """Write with `f(writer)`, and return what TensorBoard reads."""

    def run(f, folder=""):
        with SummaryWriter(tmp_path) as writer:
            f(writer)
        size_guidance = {"scalars": 0, "histograms": 0, "images": 0, "audio": 0, "tensors": 0}
        return EventAccumulator(str(tmp_path / folder), size_guidance).Reload()

    return run


def test_scalars_survive_a_round_trip_with_step_and_time(written, device):
    events = written(
        lambda w: [w.add_scalar("loss", torch.tensor(i / 2, device=device), i, walltime=100.0 + i) for i in range(3)]
    )
    assert [(e.step, e.wall_time, e.value) for e in events.Scalars("loss")] == [(0, 100, 0), (1, 101, 0.5), (2, 102, 1)]


def test_scalars_of_several_elements_are_refused(tmp_path):
    with SummaryWriter(tmp_path) as writer, pytest.raises(AssertionError, match="Was given size: 2"):
        writer.add_scalar("loss", torch.ones(2))


def test_new_style_scalars_keep_double_precision(written):
    events = written(lambda w: w.add_scalar("loss", 1 / 3, new_style=True, double_precision=True))
    assert tensor_util.make_ndarray(events.Tensors("loss")[0].tensor_proto) == 1 / 3


def test_scalars_of_one_chart_have_folders_of_their_own(written):
    events = written(lambda w: w.add_scalars("run/x", {"sin": 0.5, "cos": 1.0}, 7), "run_x_sin")
    assert [(e.step, e.value) for e in events.Scalars("run/x")] == [(7, 0.5)]


def test_histograms_count_every_value_once(written, device):
    x = torch.randn(1000, device=device)
    h = written(lambda w: w.add_histogram("x", x)).Histograms("x")[0].histogram_value
    assert h.num == sum(h.bucket) == 1000
    assert h.min == pytest.approx(x.min().item()) and h.max == pytest.approx(x.max().item())
    assert h.sum_squares == pytest.approx(x.square().sum().item(), rel=1e-4)
    assert h.bucket_limit[0] <= h.min and h.bucket_limit[-1] >= h.max


def test_histograms_join_bins_beyond_max_bins():
    h = summary.make_histogram(np.arange(10.0), bins=10, max_bins=4)
    assert list(h.bucket) == [0, 2, 2, 2, 2, 2]
    np.testing.assert_allclose(h.bucket_limit, [0, 1.8, 3.6, 5.4, 7.2, 9])


def test_histograms_of_empty_tensors_are_refused():
    with pytest.raises(ValueError, match="The input has no element"):
        summary.make_histogram(np.zeros(0), bins=10)


def _pixels(event):
    import io

    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(event.encoded_image_string)))


def test_images_keep_their_pixels_in_every_layout(written):
    x = torch.randint(0, 256, (3, 4, 5), dtype=torch.uint8)

    def write(w):
        w.add_image("chw", x)
        w.add_image("hwc", x.permute(1, 2, 0), dataformats="HWC")
        w.add_image("float", x / 255)
        w.add_image("grey", x[0], dataformats="HW")

    events = written(write)
    for tag in ("chw", "hwc", "float"):
        np.testing.assert_array_equal(_pixels(events.Images(tag)[0]), x.permute(1, 2, 0).numpy())
    np.testing.assert_array_equal(_pixels(events.Images("grey")[0])[:, :, 1], x[0].numpy())


def test_batches_of_images_are_grids_of_eight_columns(written):
    x = torch.randint(0, 256, (10, 3, 4, 5), dtype=torch.uint8)
    grid = _pixels(written(lambda w: w.add_images("x", x)).Images("x")[0])
    assert grid.shape == (8, 40, 3)
    np.testing.assert_array_equal(grid[4:, 5:10], x[9].permute(1, 2, 0).numpy())


def test_boxes_are_drawn(written):
    def write(w):
        w.add_image_with_boxes("x", torch.zeros(3, 40, 50), torch.tensor([[5.0, 6, 20, 30]]), labels="cat")

    assert _pixels(written(write).Images("x")[0])[6, 10].tolist() == [255, 0, 0]


def test_sounds_are_wav_files(written, capsys):
    events = written(lambda w: w.add_audio("x", torch.tensor([[0.0, 0.5, 2.0]]), sample_rate=8000))
    sound = events.Audio("x")[0]
    assert sound.sample_rate == 8000 and sound.length_frames == 3
    assert np.frombuffer(sound.encoded_audio_string[-6:], "<i2").tolist() == [0, 16383, 32767]
    assert "clipped" in capsys.readouterr().out


def test_texts_survive_a_round_trip(written):
    events = written(lambda w: w.add_text("note", "*ça va*"))
    assert tensor_util.make_ndarray(events.Tensors("note/text_summary")[0].tensor_proto)[0].decode() == "*ça va*"


@pytest.mark.parametrize(
    "dtype", ["float16", "float32", "float64", "uint8", "int8", "int32", "int64", "complex64", "bool"]
)
def test_tensors_survive_a_round_trip_in_their_dtype(written, dtype):
    x = (torch.rand(2, 3) * 5).to(getattr(torch, dtype))
    read = tensor_util.make_ndarray(written(lambda w: w.add_tensor("x", x)).Tensors("x")[0].tensor_proto)
    np.testing.assert_array_equal(read, x.numpy())


def test_precision_recall_curves_are_exact():
    labels, predictions = np.array([1, 1, 0, 0]), np.array([0.9, 0.4, 0.6, 0.1])
    tp, fp, tn, fn, precision, recall = summary.compute_curve(labels, predictions, num_thresholds=3)
    assert (
        tp.tolist() == [2, 1, 0] and fp.tolist() == [2, 1, 0] and tn.tolist() == [0, 1, 2] and fn.tolist() == [0, 1, 2]
    )
    assert precision[:2].tolist() == [0.5, 0.5] and recall.tolist() == [1, 0.5, 0]


def test_plugins_are_named(written):
    v = torch.rand(1, 4, 3)

    def write(w):
        w.add_pr_curve("pr", torch.tensor([0, 1]), torch.tensor([0.2, 0.7]))
        w.add_custom_scalars({"all": {"two": ["Multiline", ["a", "b"]], "band": ["Margin", ["m", "l", "h"]]}})
        w.add_mesh("mesh", v, faces=torch.tensor([[[0, 1, 2]]]), config_dict={"camera": {"fov": 75}})

    events = written(write)
    plugins = {tag: events.SummaryMetadata(tag).plugin_data.plugin_name for tag in events.Tags()["tensors"]}
    assert plugins == {
        "pr": "pr_curves",
        "custom_scalars__config__": "custom_scalars",
        "mesh_VERTEX": "mesh",
        "mesh_FACE": "mesh",
    }
    np.testing.assert_array_equal(tensor_util.make_ndarray(events.Tensors("mesh_VERTEX")[0].tensor_proto), v.numpy())


def test_hyper_parameters_have_a_folder_of_their_own(written):
    def write(w):
        w.add_hparams({"lr": 0.1, "kind": "adam", "wide": True}, {"accuracy": 0.5}, run_name="trial")

    assert written(write, "trial").Scalars("accuracy")[0].value == 0.5


def test_hyper_parameters_that_are_lists_are_refused():
    with pytest.raises(ValueError, match="value should be one of int, float, str, bool, or torch.Tensor"):
        summary.hparams({"sizes": [1, 2]}, {})


def test_embeddings_are_files_for_the_projector(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_embedding(torch.eye(2), ["a", "b"], torch.rand(2, 3, 4, 4), global_step=3, tag="words/en")
    folder = tmp_path / "00003" / "words%2fen"
    assert (folder / "tensors.tsv").read_text() == "1.0\t0.0\n0.0\t1.0\n"
    assert (folder / "metadata.tsv").read_text() == "a\nb\n"
    assert (folder / "sprite.png").exists()
    assert 'tensor_path: "00003/words%2fen/tensors.tsv"' in (tmp_path / "projector_config.pbtxt").read_text()


def test_writers_continue_after_close(tmp_path):
    writer = SummaryWriter(tmp_path, filename_suffix=".mine")
    writer.add_scalar("x", 1, 0)
    writer.close()
    writer.close()
    writer.add_scalar("x", 2, 1)
    writer.flush()
    assert [e.value for e in EventAccumulator(str(tmp_path)).Reload().Scalars("x")][-1] == 2
    writer.close()
    assert all(p.name.endswith(".mine") for p in tmp_path.iterdir())


def test_purged_steps_are_marked(tmp_path):
    from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
    from tensorboard.compat.proto.event_pb2 import Event, SessionLog

    SummaryWriter(tmp_path, purge_step=5).close()
    (file,) = tmp_path.iterdir()
    last = [Event.FromString(raw) for raw in RawEventFileLoader(str(file)).Load()][-1]
    assert last.step == 5 and last.session_log.status == SessionLog.START


def test_file_writers_take_summaries(tmp_path):
    writer = FileWriter(str(tmp_path))
    writer.add_summary(summary.scalar("x", 3), 4)
    writer.close()
    assert EventAccumulator(str(tmp_path)).Reload().Scalars("x")[0].step == 4


def test_graphs_are_refused(tmp_path):
    with SummaryWriter(tmp_path) as writer, pytest.raises(NotImplementedError, match="graphs cannot be logged"):
        writer.add_graph(torch.nn.Linear(1, 1), torch.ones(1, 1))


def test_a_missing_package_is_named():
    code = "import sys; sys.modules['tensorboard'] = None; import pytpu.utils.tensorboard"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1 and "pip install tensorboard" in done.stderr
