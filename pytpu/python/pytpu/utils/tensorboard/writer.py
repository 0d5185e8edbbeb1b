"""Writers of event files."""

import os
import time

from tensorboard.compat.proto import event_pb2
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.plugins.projector.projector_config_pb2 import ProjectorConfig
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from . import _embedding, summary
from ._convert_np import make_np
from ._utils import figure_to_image

__all__ = ["FileWriter", "SummaryWriter"]


class FileWriter:
    """A writer of events to a file in a folder, from a thread of its own.

    Args:
        log_dir: the folder.
        max_queue: number of events that wait before an `add_*` call blocks.
        flush_secs: seconds between writes to the disk.
        filename_suffix: end of the file's name.
    """

    def __init__(self, log_dir, max_queue=10, flush_secs=120, filename_suffix=""):
        self.event_writer = EventFileWriter(str(log_dir), max_queue, flush_secs, filename_suffix)

    def get_logdir(self):
        """Return the folder."""
        return self.event_writer.get_logdir()

    def add_event(self, event, step=None, walltime=None):
        """Write an event with a step and a time, in seconds since 1970. By default the time is now."""
        event.wall_time = time.time() if walltime is None else walltime
        if step is not None:
            event.step = int(step)
        self.event_writer.add_event(event)

    def add_summary(self, summary, global_step=None, walltime=None):
        """Write an event that holds a summary."""
        self.add_event(event_pb2.Event(summary=summary), global_step, walltime)

    def add_graph(self, graph_profile, walltime=None):
        """Write a graph and its statistics, both as messages of TensorBoard."""
        graph, stepstats = graph_profile
        self.add_event(event_pb2.Event(graph_def=graph.SerializeToString()), None, walltime)
        run = event_pb2.TaggedRunMetadata(tag="step1", run_metadata=stepstats.SerializeToString())
        self.add_event(event_pb2.Event(tagged_run_metadata=run), None, walltime)

    def add_onnx_graph(self, graph, walltime=None):
        """Write a graph as a message of TensorBoard."""
        self.add_event(event_pb2.Event(graph_def=graph.SerializeToString()), None, walltime)

    def flush(self):
        """Write everything to the disk."""
        self.event_writer.flush()

    def close(self):
        """Write everything to the disk and close the file."""
        self.event_writer.close()

    def reopen(self):
        """Continue after `close`, in a new file."""
        self.event_writer.reopen()


def _bins():
    """Return the limits of TensorFlow's histograms, each 1.1 times the one before."""
    positive = []
    v = 1e-12
    while v < 1e20:
        positive.append(v)
        v *= 1.1
    return [-v for v in reversed(positive)] + [0] + positive


def _caffe2(name):
    if isinstance(name, str):
        raise NotImplementedError(f"The name {name!r} of a Caffe2 blob cannot be logged: pass the value.")


class SummaryWriter:
    """A writer of TensorBoard's data to a folder: numbers, histograms, images and more.

    Args:
        log_dir: the folder; by default `runs/DATE_HOST` followed by `comment`.
        comment: end of the default folder's name.
        purge_step: step from which on TensorBoard hides events of an earlier run, one that crashed.
        max_queue: number of events that wait before an `add_*` call blocks.
        flush_secs: seconds between writes to the disk.
        filename_suffix: end of the names of event files.

    Every `add_*` method takes a `tag`, the name of the series, a `global_step` and a `walltime` in seconds since 1970.
    """

    def __init__(self, log_dir=None, comment="", purge_step=None, max_queue=10, flush_secs=120, filename_suffix=""):
        if not log_dir:
            import socket
            from datetime import datetime

            log_dir = os.path.join("runs", f"{datetime.now():%b%d_%H-%M-%S}_{socket.gethostname()}{comment}")
        self.log_dir = log_dir
        self.purge_step = purge_step
        self.max_queue = max_queue
        self.flush_secs = flush_secs
        self.filename_suffix = filename_suffix
        self.file_writer = self.all_writers = None
        self._get_file_writer()
        self.default_bins = _bins()

    def _get_file_writer(self):
        """Return the writer of the folder itself, opened anew after `close`."""
        if self.all_writers is None or self.file_writer is None:
            self.file_writer = FileWriter(self.log_dir, self.max_queue, self.flush_secs, self.filename_suffix)
            self.all_writers = {self.file_writer.get_logdir(): self.file_writer}
            if self.purge_step is not None:
                step = self.purge_step
                self.file_writer.add_event(Event(step=step, file_version="brain.Event:2"))
                self.file_writer.add_event(Event(step=step, session_log=SessionLog(status=SessionLog.START)))
                self.purge_step = None
        return self.file_writer

    def get_logdir(self):
        """Return the folder."""
        return self.log_dir

    def _add(self, what, global_step, walltime):
        self._get_file_writer().add_summary(what, global_step, walltime)

    def add_scalar(self, tag, scalar_value, global_step=None, walltime=None, new_style=False, double_precision=False):
        """Write a number. With `new_style`, as a tensor, in double precision if `double_precision`."""
        _caffe2(scalar_value)
        made = summary.scalar(tag, scalar_value, new_style=new_style, double_precision=double_precision)
        self._add(made, global_step, walltime)

    def add_scalars(self, main_tag, tag_scalar_dict, global_step=None, walltime=None):
        """Write several numbers of one chart, each to a folder of its own."""
        walltime = time.time() if walltime is None else walltime
        folder = self._get_file_writer().get_logdir()
        for tag, value in tag_scalar_dict.items():
            _caffe2(value)
            name = folder + "/" + main_tag.replace("/", "_") + "_" + tag
            if name not in self.all_writers:
                self.all_writers[name] = FileWriter(name, self.max_queue, self.flush_secs, self.filename_suffix)
            self.all_writers[name].add_summary(summary.scalar(main_tag, value), global_step, walltime)

    def add_tensor(self, tag, tensor, global_step=None, walltime=None):
        """Write a whole tensor."""
        _caffe2(tensor)
        self._add(summary.tensor_proto(tag, tensor), global_step, walltime)

    def add_histogram(self, tag, values, global_step=None, bins="tensorflow", walltime=None, max_bins=None):
        """Write the distribution of values. `bins` is an argument of `numpy.histogram`, or `"tensorflow"`."""
        _caffe2(values)
        bins = self.default_bins if isinstance(bins, str) and bins == "tensorflow" else bins
        self._add(summary.histogram(tag, values, bins, max_bins=max_bins), global_step, walltime)

    def add_histogram_raw(
        self, tag, min, max, num, sum, sum_squares, bucket_limits, bucket_counts, global_step=None, walltime=None
    ):
        """Write a histogram that the caller has made: `bucket_counts[i]` values are at most `bucket_limits[i]`."""
        if len(bucket_limits) != len(bucket_counts):
            raise ValueError("len(bucket_limits) != len(bucket_counts), see the document.")
        made = summary.histogram_raw(tag, min, max, num, sum, sum_squares, bucket_limits, bucket_counts)
        self._add(made, global_step, walltime)

    def add_image(self, tag, img_tensor, global_step=None, walltime=None, dataformats="CHW"):
        """Write an image: `uint8`, or numbers from 0 to 1, with the dimensions that `dataformats` names."""
        _caffe2(img_tensor)
        self._add(summary.image(tag, img_tensor, dataformats=dataformats), global_step, walltime)

    def add_images(self, tag, img_tensor, global_step=None, walltime=None, dataformats="NCHW"):
        """Write a batch of images as a grid."""
        self.add_image(tag, img_tensor, global_step, walltime, dataformats)

    def add_image_with_boxes(
        self, tag, img_tensor, box_tensor, global_step=None, walltime=None, rescale=1, dataformats="CHW", labels=None
    ):
        """Write an image with boxes `(n, 4)`: left, top, right and bottom in pixels. `labels` has one text a box."""
        _caffe2(img_tensor)
        _caffe2(box_tensor)
        if labels is not None:
            labels = [labels] if isinstance(labels, str) else labels
            labels = labels if len(labels) == box_tensor.shape[0] else None
        made = summary.image_boxes(tag, img_tensor, box_tensor, rescale=rescale, dataformats=dataformats, labels=labels)
        self._add(made, global_step, walltime)

    def add_figure(self, tag, figure, global_step=None, close=True, walltime=None):
        """Write a Matplotlib figure, or a list of figures, as an image, and close it."""
        layout = "NCHW" if isinstance(figure, list) else "CHW"
        self.add_image(tag, figure_to_image(figure, close), global_step, walltime, dataformats=layout)

    def add_video(self, tag, vid_tensor, global_step=None, fps=4, walltime=None):
        """Write videos `(n, t, c, h, w)`. This needs the package `moviepy`."""
        self._add(summary.video(tag, vid_tensor, fps), global_step, walltime)

    def add_audio(self, tag, snd_tensor, global_step=None, sample_rate=44100, walltime=None):
        """Write a sound, numbers from -1 to 1."""
        _caffe2(snd_tensor)
        self._add(summary.audio(tag, snd_tensor, sample_rate=sample_rate), global_step, walltime)

    def add_text(self, tag, text_string, global_step=None, walltime=None):
        """Write a text, which TensorBoard reads as Markdown."""
        self._add(summary.text(tag, text_string), global_step, walltime)

    def add_onnx_graph(self, prototxt):
        """Raise: graphs cannot be logged yet."""
        self.add_graph(None)

    def add_graph(self, model, input_to_model=None, verbose=False, use_strict_trace=True):
        """Raise: a graph is made by `torch.jit.trace`, which is not available."""
        raise NotImplementedError("add_graph needs torch.jit.trace, which is not available, so graphs cannot be logged")

    @staticmethod
    def _encode(rawstr):
        """Return a tag without the characters that a path cannot have."""
        for c in "%/\\":
            rawstr = rawstr.replace(c, f"%{ord(c):02x}")
        return rawstr

    def add_embedding(self, mat, metadata=None, label_img=None, global_step=None, tag="default", metadata_header=None):
        """Write points `(n, d)` for the projector, with a label and an image for each if given."""
        mat = make_np(mat)
        global_step = 0 if global_step is None else global_step
        subdir = f"{str(global_step).zfill(5)}/{self._encode(tag)}"
        folder = os.path.join(self._get_file_writer().get_logdir(), subdir)
        if os.path.isdir(folder):
            print("warning: Embedding dir exists, did you set global_step for add_embedding()?")
        else:
            os.makedirs(folder)
        if metadata is not None:
            if mat.shape[0] != len(metadata):
                raise AssertionError("#labels should equal with #data points")
            _embedding.make_tsv(metadata, folder, metadata_header=metadata_header)
        if label_img is not None:
            if mat.shape[0] != label_img.shape[0]:
                raise AssertionError("#images should equal with #data points")
            _embedding.make_sprite(label_img, folder)
        if mat.ndim != 2:
            raise AssertionError("mat should be 2D, where mat.size(0) is the number of data points")
        _embedding.make_mat(mat, folder)
        # The configuration holds all embeddings of the run so far.
        if not hasattr(self, "_projector_config"):
            self._projector_config = ProjectorConfig()
        info = _embedding.get_embedding_info(metadata, label_img, subdir, global_step, tag)
        self._projector_config.embeddings.extend([info])
        _embedding.write_pbtxt(self._get_file_writer().get_logdir(), self._projector_config)

    def add_pr_curve(self, tag, labels, predictions, global_step=None, num_thresholds=127, weights=None, walltime=None):
        """Write the precision-recall curve of labels, 0 or 1, and predictions from 0 to 1."""
        labels, predictions = make_np(labels), make_np(predictions)
        self._add(summary.pr_curve(tag, labels, predictions, num_thresholds, weights), global_step, walltime)

    def add_pr_curve_raw(
        self,
        tag,
        true_positive_counts,
        false_positive_counts,
        true_negative_counts,
        false_negative_counts,
        precision,
        recall,
        global_step=None,
        num_thresholds=127,
        weights=None,
        walltime=None,
    ):
        """Write a precision-recall curve that the caller has computed."""
        counts = true_positive_counts, false_positive_counts, true_negative_counts, false_negative_counts
        self._add(summary.pr_curve_raw(tag, *counts, precision, recall, num_thresholds, weights), global_step, walltime)

    def add_custom_scalars_multilinechart(self, tags, category="default", title="untitled"):
        """Arrange one chart of several series."""
        self.add_custom_scalars({category: {title: ["Multiline", tags]}})

    def add_custom_scalars_marginchart(self, tags, category="default", title="untitled"):
        """Arrange one chart of three series: a value, its lower and its upper bound."""
        if len(tags) != 3:
            raise AssertionError(f"Expected 3 tags, got {len(tags)}.")
        self.add_custom_scalars({category: {title: ["Margin", tags]}})

    def add_custom_scalars(self, layout):
        """Arrange charts: `{category: {chart: ["Multiline" or "Margin", tags]}}`. Call it once."""
        self._add(summary.custom_scalars(layout), None, None)

    def add_mesh(self, tag, vertices, colors=None, faces=None, config_dict=None, global_step=None, walltime=None):
        """Write meshes or clouds of points: vertices `(n, v, 3)`, colours `(n, v, 3)`, faces `(n, f, 3)`."""
        self._add(summary.mesh(tag, vertices, colors, faces, config_dict), global_step, walltime)

    def add_hparams(self, hparam_dict, metric_dict, hparam_domain_discrete=None, run_name=None, global_step=None):
        """Write hyperparameters and the metrics of their run, to a folder of their own."""
        if type(hparam_dict) is not dict or type(metric_dict) is not dict:
            raise TypeError("hparam_dict and metric_dict should be dictionary.")
        summaries = summary.hparams(hparam_dict, metric_dict, hparam_domain_discrete)
        folder = os.path.join(self._get_file_writer().get_logdir(), run_name or str(time.time()))
        with SummaryWriter(log_dir=folder) as writer:
            for made in summaries:
                writer.file_writer.add_summary(made, global_step)
            for tag, value in metric_dict.items():
                writer.add_scalar(tag, value, global_step)

    def flush(self):
        """Write everything to the disk."""
        for writer in (self.all_writers or {}).values():
            writer.flush()

    def close(self):
        """Write everything to the disk and close the files. A later `add_*` call opens new ones."""
        for writer in (self.all_writers or {}).values():
            writer.flush()
            writer.close()
        self.file_writer = self.all_writers = None

    def __enter__(self):
        return self

    def __exit__(self, exc_type, exc_val, exc_tb):
        self.close()
