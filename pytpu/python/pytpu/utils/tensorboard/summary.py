"""Summaries, as messages of TensorBoard."""

import io
import json
import logging
import os
import struct
import tempfile

import numpy as np
from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto

import pytpu as torch

from ._convert_np import make_np
from ._utils import _prepare_video, convert_to_HWC

__all__ = [
    "audio",
    "compute_curve",
    "custom_scalars",
    "draw_boxes",
    "half_to_int",
    "histogram",
    "histogram_raw",
    "hparams",
    "image",
    "image_boxes",
    "int_to_half",
    "make_histogram",
    "make_image",
    "make_video",
    "mesh",
    "pr_curve",
    "pr_curve_raw",
    "scalar",
    "tensor_proto",
    "text",
    "video",
]

logger = logging.getLogger(__name__)


def _shape(sizes):
    return TensorShapeProto(dim=[TensorShapeProto.Dim(size=n) for n in sizes])


def _plugin(name, content=b""):
    return SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name=name, content=content))


def _calc_scale_factor(tensor):
    """Return 1 for `uint8` pixels and 255 for others, which go from 0 to 1."""
    return 1 if tensor.dtype == np.uint8 else 255


# ---- tensors


def half_to_int(f):
    """Return the bits of a number in float32 as an integer."""
    return struct.unpack("i", struct.pack("f", f))[0]


def int_to_half(i):
    """Return the float32 number with these bits."""
    return struct.unpack("f", struct.pack("i", i))[0]


def _tensor_to_half_val(t):
    # The 16 bits of each element, as TensorBoard reads them. (PyTorch writes the bits of float32, which TensorBoard
    # refuses.)
    return t.flatten().view(torch.int16).int().bitwise_and(0xFFFF).tolist()


def _tensor_to_complex_val(t):
    return torch.view_as_real(t).flatten().tolist()


def _tensor_to_list(t):
    return t.flatten().tolist()


# Per dtype: its name in TensorBoard, the field of the elements, and the function that lists them.
_TENSOR_TYPES = {
    torch.float16: ("DT_HALF", "half_val", _tensor_to_half_val),
    torch.bfloat16: ("DT_BFLOAT16", "half_val", _tensor_to_half_val),
    torch.float32: ("DT_FLOAT", "float_val", _tensor_to_list),
    torch.float64: ("DT_DOUBLE", "double_val", _tensor_to_list),
    torch.bool: ("DT_BOOL", "bool_val", _tensor_to_list),
    # The place where TensorBoard looks for them. (PyTorch writes `uint32_val`, which TensorBoard does not read.)
    torch.uint8: ("DT_UINT8", "int_val", _tensor_to_list),
    torch.int8: ("DT_INT8", "int_val", _tensor_to_list),
    torch.int16: ("DT_INT16", "int_val", _tensor_to_list),
    torch.int32: ("DT_INT32", "int_val", _tensor_to_list),
    torch.int64: ("DT_INT64", "int64_val", _tensor_to_list),
    torch.complex64: ("DT_COMPLEX64", "scomplex_val", _tensor_to_complex_val),
    torch.complex128: ("DT_COMPLEX128", "dcomplex_val", _tensor_to_complex_val),
}


def tensor_proto(tag, tensor):
    """Return the summary of a whole tensor.

    Raises `ValueError` for a dtype that TensorBoard lacks, and for more than 2 GiB.
    """
    if tensor.numel() * tensor.itemsize >= 1 << 31:
        raise ValueError("tensor is bigger than protocol buffer's hard limit of 2GB in size")
    if tensor.dtype not in _TENSOR_TYPES:
        raise ValueError(f"{tag} has unsupported tensor dtype {tensor.dtype}")
    name, field, listed = _TENSOR_TYPES[tensor.dtype]
    proto = TensorProto(dtype=name, tensor_shape=_shape(tensor.shape), **{field: listed(tensor.detach().cpu())})
    return Summary(value=[Summary.Value(tag=tag, metadata=_plugin("tensor"), tensor=proto)])


# ---- numbers


def scalar(name, tensor, collections=None, new_style=False, double_precision=False):
    """Return the summary of one number. `new_style` keeps it as a tensor, in double precision if `double_precision`."""
    number = make_np(tensor).squeeze()
    if number.ndim != 0:
        raise AssertionError(
            "Tensor should contain one element (0 dimensions).             "
            f"Was given size: {number.size} and {number.ndim} dimensions."
        )
    number = float(number)
    if not new_style:
        return Summary(value=[Summary.Value(tag=name, simple_value=number)])
    field = (
        {"double_val": [number], "dtype": "DT_DOUBLE"}
        if double_precision
        else {"float_val": [number], "dtype": "DT_FLOAT"}
    )
    return Summary(value=[Summary.Value(tag=name, tensor=TensorProto(**field), metadata=_plugin("scalars"))])


def histogram_raw(name, min, max, num, sum, sum_squares, bucket_limits, bucket_counts):
    """Return the summary of a histogram that the caller has made."""
    hist = HistogramProto(
        min=min, max=max, num=num, sum=sum, sum_squares=sum_squares, bucket_limit=bucket_limits, bucket=bucket_counts
    )
    return Summary(value=[Summary.Value(tag=name, histo=hist)])


def histogram(name, values, bins, max_bins=None):
    """Return the summary of the distribution of values."""
    return Summary(value=[Summary.Value(tag=name, histo=make_histogram(make_np(values).astype(float), bins, max_bins))])


def make_histogram(values, bins, max_bins=None):
    """Count values in bins, those of `numpy.histogram`, and leave out the empty bins at both ends."""
    if values.size == 0:
        raise ValueError("The input has no element.")
    values = values.reshape(-1)
    counts, limits = np.histogram(values, bins=bins)
    if max_bins is not None and len(counts) > max_bins:
        # Join neighbors until few enough are left.
        step = len(counts) // max_bins
        last = limits[-1:]
        missing = -len(counts) % step
        counts = np.pad(counts, (0, missing)).reshape(-1, step).sum(axis=-1)
        limits = np.concatenate([limits[:-1:step], last])
    filled = np.flatnonzero(counts)
    if filled.size == 0:
        raise ValueError("The histogram is empty, please file a bug report.")
    start, end = int(filled[0]), int(filled[-1]) + 1
    # The format has right ends only, so an empty bin before the first one holds the left end of that one.
    counts = counts[start - 1 : end] if start > 0 else np.concatenate([[0], counts[:end]])
    limits = limits[start : end + 1]
    return HistogramProto(
        min=values.min(),
        max=values.max(),
        num=len(values),
        sum=values.sum(),
        sum_squares=values.dot(values),
        bucket_limit=limits.tolist(),
        bucket=counts.tolist(),
    )


# ---- images, videos, sound


def image(tag, tensor, rescale=1, dataformats="NCHW"):
    """Return the summary of an image, or of a batch of images as a grid."""
    pixels = convert_to_HWC(make_np(tensor), dataformats)
    pixels = (pixels.astype(np.float32) * _calc_scale_factor(pixels)).clip(0, 255).astype(np.uint8)
    return Summary(value=[Summary.Value(tag=tag, image=make_image(pixels, rescale=rescale))])


def image_boxes(tag, tensor_image, tensor_boxes, rescale=1, dataformats="CHW", labels=None):
    """Return the summary of an image with boxes `(n, 4)`: left, top, right and bottom in pixels."""
    pixels = convert_to_HWC(make_np(tensor_image), dataformats)
    pixels = (pixels.astype(np.float32) * _calc_scale_factor(pixels)).clip(0, 255).astype(np.uint8)
    picture = make_image(pixels, rescale=rescale, rois=make_np(tensor_boxes), labels=labels)
    return Summary(value=[Summary.Value(tag=tag, image=picture)])


def draw_boxes(disp_image, boxes, labels=None):
    """Draw boxes, with their labels, on a PIL image."""
    for i in range(boxes.shape[0]):
        text = None if labels is None else labels[i]
        disp_image = _draw_single_box(disp_image, *boxes[i, :4], text, color="Red")
    return disp_image


def _draw_single_box(image, xmin, ymin, xmax, ymax, display_str, color="black", color_text="black", thickness=2):
    from PIL import ImageDraw, ImageFont

    draw = ImageDraw.Draw(image)
    draw.line([(xmin, ymin), (xmin, ymax), (xmax, ymax), (xmax, ymin), (xmin, ymin)], width=thickness, fill=color)
    if display_str:
        font = ImageFont.load_default()
        left, top, right, bottom = font.getbbox(display_str)
        width, height = right - left, bottom - top
        margin = np.ceil(0.05 * height)
        draw.rectangle([(xmin, ymax - height - 2 * margin), (xmin + width, ymax)], fill=color)
        draw.text((xmin + margin, ymax - height - margin), display_str, fill=color_text, font=font)
    return image


def make_image(tensor, rescale=1, rois=None, labels=None):
    """Encode pixels `(h, w, c)` of `uint8` as PNG."""
    from PIL import Image

    height, width, channel = tensor.shape
    picture = Image.fromarray(tensor)
    if rois is not None:
        picture = draw_boxes(picture, rois, labels=labels)
    picture = picture.resize((int(width * rescale), int(height * rescale)), Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    picture.save(buffer, format="PNG")
    return Summary.Image(height=height, width=width, colorspace=channel, encoded_image_string=buffer.getvalue())


def video(tag, tensor, fps=4):
    """Return the summary of videos `(n, t, c, h, w)` in a grid, as GIF."""
    frames = _prepare_video(make_np(tensor))
    scale = _calc_scale_factor(frames)
    frames = (frames.astype(np.float32) * scale).clip(0, 255).astype(np.uint8)
    return Summary(value=[Summary.Value(tag=tag, image=make_video(frames, fps))])


def make_video(tensor, fps):
    """Encode frames `(t, h, w, c)` as GIF with moviepy. Without it, print a message and return `None`."""
    try:
        try:
            from moviepy import ImageSequenceClip
        except ImportError:
            from moviepy.editor import ImageSequenceClip
    except ImportError:
        print("add_video needs package moviepy")
        return None
    _, h, w, c = tensor.shape
    clip = ImageSequenceClip(list(tensor), fps=fps)
    with tempfile.NamedTemporaryFile(suffix=".gif", delete=False) as file:
        name = file.name
    try:
        try:
            clip.write_gif(name, logger=None)
        except TypeError:
            # Versions before 1.0 have another name for it.
            clip.write_gif(name, verbose=False)
        with open(name, "rb") as file:
            encoded = file.read()
    finally:
        try:
            os.remove(name)
        except OSError:
            logger.warning("The temporary file used by moviepy cannot be deleted.")
    return Summary.Image(height=h, width=w, colorspace=c, encoded_image_string=encoded)


def audio(tag, tensor, sample_rate=44100):
    """Return the summary of a sound, one channel of numbers from -1 to 1, as 16-bit WAV."""
    import wave

    array = make_np(tensor).squeeze()
    if abs(array).max() > 1:
        print("warning: audio amplitude out of range, auto clipped.")
        array = array.clip(-1, 1)
    if array.ndim != 1:
        raise AssertionError("input tensor should be 1 dimensional.")
    array = (array * np.iinfo(np.int16).max).astype("<i2")
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(sample_rate)
        file.writeframes(array.data)
    sound = Summary.Audio(
        sample_rate=sample_rate,
        num_channels=1,
        length_frames=array.shape[-1],
        encoded_audio_string=buffer.getvalue(),
        content_type="audio/wav",
    )
    return Summary(value=[Summary.Value(tag=tag, audio=sound)])


# ---- data of plugins of TensorBoard


def text(tag, text):
    """Return the summary of a text, which TensorBoard reads as Markdown."""
    from tensorboard.plugins.text.plugin_data_pb2 import TextPluginData

    metadata = _plugin("text", TextPluginData(version=0).SerializeToString())
    proto = TensorProto(dtype="DT_STRING", string_val=[text.encode(encoding="utf_8")], tensor_shape=_shape([1]))
    return Summary(value=[Summary.Value(tag=tag + "/text_summary", metadata=metadata, tensor=proto)])


def custom_scalars(layout):
    """Return the summary that arranges charts: `{category: {chart: ["Multiline" or "Margin", tags]}}`."""
    from tensorboard.plugins.custom_scalar import layout_pb2

    categories = []
    for category, named in layout.items():
        charts = []
        for title, (kind, tags, *_) in named.items():
            tags = list(tags)
            if kind == "Margin":
                if len(tags) != 3:
                    raise AssertionError("Margin chart should have exactly 3 tags.")
                series = layout_pb2.MarginChartContent.Series(value=tags[0], lower=tags[1], upper=tags[2])
                content = {"margin": layout_pb2.MarginChartContent(series=[series])}
            else:
                content = {"multiline": layout_pb2.MultilineChartContent(tag=tags)}
            charts.append(layout_pb2.Chart(title=title, **content))
        categories.append(layout_pb2.Category(title=category, chart=charts))
    encoded = layout_pb2.Layout(category=categories).SerializeToString()
    proto = TensorProto(dtype="DT_STRING", string_val=[encoded], tensor_shape=TensorShapeProto())
    return Summary(
        value=[Summary.Value(tag="custom_scalars__config__", tensor=proto, metadata=_plugin("custom_scalars"))]
    )


def pr_curve_raw(tag, tp, fp, tn, fn, precision, recall, num_thresholds=127, weights=None):
    """Return the summary of a precision-recall curve that the caller has computed."""
    return _pr_curve(tag, np.stack((tp, fp, tn, fn, precision, recall)), min(num_thresholds, 127))


def pr_curve(tag, labels, predictions, num_thresholds=127, weights=None):
    """Return the summary of the precision-recall curve of labels and predictions."""
    num_thresholds = min(num_thresholds, 127)
    return _pr_curve(tag, compute_curve(labels, predictions, num_thresholds, weights), num_thresholds)


def _pr_curve(tag, data, num_thresholds):
    from tensorboard.plugins.pr_curve.plugin_data_pb2 import PrCurvePluginData

    content = PrCurvePluginData(version=0, num_thresholds=num_thresholds).SerializeToString()
    proto = TensorProto(dtype="DT_FLOAT", float_val=data.reshape(-1).tolist(), tensor_shape=_shape(data.shape))
    return Summary(value=[Summary.Value(tag=tag, metadata=_plugin("pr_curves", content), tensor=proto)])


def compute_curve(labels, predictions, num_thresholds=None, weights=None):
    """Return true and false positives, true and false negatives, precision and recall at each threshold.

    The result is `(6, num_thresholds)`.
    """
    weights = 1.0 if weights is None else weights
    positive = labels.astype(np.float64)
    buckets = np.int32(np.floor(predictions * (num_thresholds - 1)))

    def above(w):
        """Return the weight of the predictions at or above each threshold."""
        counts, _ = np.histogram(buckets, bins=num_thresholds, range=(0, num_thresholds - 1), weights=w)
        return np.cumsum(counts[::-1])[::-1]

    tp, fp = above(positive * weights), above((1.0 - positive) * weights)
    tn, fn = fp[0] - fp, tp[0] - tp
    # Avoid division by zero if nothing is predicted, or nothing is positive.
    least = 1e-7
    precision, recall = tp / np.maximum(least, tp + fp), tp / np.maximum(least, tp + fn)
    return np.stack((tp, fp, tn, fn, precision, recall))


def _get_tensor_summary(name, display_name, description, tensor, content_type, components, json_config):
    from tensorboard.plugins.mesh import metadata

    tensor = torch.as_tensor(tensor)
    its_metadata = metadata.create_summary_metadata(
        name, display_name, content_type, components, tensor.shape, description, json_config=json_config
    )
    proto = TensorProto(dtype="DT_FLOAT", float_val=tensor.reshape(-1).tolist(), tensor_shape=_shape(tensor.shape))
    return Summary.Value(tag=metadata.get_instance_name(name, content_type), tensor=proto, metadata=its_metadata)


def _get_json_config(config_dict):
    return "{}" if config_dict is None else json.dumps(config_dict, sort_keys=True)


def mesh(tag, vertices, colors, faces, config_dict, display_name=None, description=None):
    """Return the summary of meshes: vertices `(n, v, 3)`, colours of them, faces `(n, f, 3)`."""
    from tensorboard.plugins.mesh import metadata
    from tensorboard.plugins.mesh.plugin_data_pb2 import MeshPluginData

    config = _get_json_config(config_dict)
    given = [
        (tensor, content_type)
        for tensor, content_type in (
            (vertices, MeshPluginData.VERTEX),
            (faces, MeshPluginData.FACE),
            (colors, MeshPluginData.COLOR),
        )
        if tensor is not None
    ]
    components = metadata.get_components_bitmask([content_type for _, content_type in given])
    return Summary(
        value=[
            _get_tensor_summary(tag, display_name, description, tensor, content_type, components, config)
            for tensor, content_type in given
        ]
    )


def hparams(hparam_dict=None, metric_dict=None, hparam_domain_discrete=None):
    """Return three summaries: the hyperparameters and metrics, the values of a run, and the end of the run.

    Raise `TypeError` for an object that is not a dictionary, and `ValueError` for a value that is not a number, a
    string or a tensor.
    """
    from google.protobuf import struct_pb2
    from tensorboard.plugins.hparams.api_pb2 import DataType, Experiment, HParamInfo, MetricInfo, MetricName, Status
    from tensorboard.plugins.hparams.metadata import (
        EXPERIMENT_TAG,
        PLUGIN_DATA_VERSION,
        PLUGIN_NAME,
        SESSION_END_INFO_TAG,
        SESSION_START_INFO_TAG,
    )
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData, SessionEndInfo, SessionStartInfo

    domains = hparam_domain_discrete or {}
    for name, given in (("hparam_dict", hparam_dict), ("metric_dict", metric_dict)):
        if not isinstance(given, dict):
            raise TypeError(f"parameter: {name} should be a dictionary, nothing logged.")
    if not isinstance(domains, dict):
        raise TypeError("parameter: hparam_domain_discrete should be a dictionary, nothing logged.")
    for k, v in domains.items():
        same = (
            all(isinstance(d, type(hparam_dict[k])) for d in v) if k in hparam_dict and isinstance(v, list) else False
        )
        if not same:
            raise TypeError(
                f"parameter: hparam_domain_discrete[{k}] should be a list of same type as hparam_dict[{k}]."
            )

    start = SessionStartInfo()
    infos = []
    for k, v in hparam_dict.items():
        if v is None:
            continue
        if isinstance(v, str):
            field, kind = "string_value", "DATA_TYPE_STRING"
        elif isinstance(v, (int, float)):
            # Truth values are numbers here, as in PyTorch.
            field, kind = "number_value", "DATA_TYPE_FLOAT64"
        elif isinstance(v, torch.Tensor):
            field, kind, v = "number_value", "DATA_TYPE_FLOAT64", make_np(v)[0]
        else:
            raise ValueError("value should be one of int, float, str, bool, or torch.Tensor")
        setattr(start.hparams[k], field, v)
        domain = None
        if k in domains:
            domain = struct_pb2.ListValue(values=[struct_pb2.Value(**{field: d}) for d in domains[k]])
        infos.append(HParamInfo(name=k, type=DataType.Value(kind), domain_discrete=domain))

    def summary(tag, **content):
        data = HParamsPluginData(version=PLUGIN_DATA_VERSION, **content)
        return Summary(value=[Summary.Value(tag=tag, metadata=_plugin(PLUGIN_NAME, data.SerializeToString()))])

    metrics = [MetricInfo(name=MetricName(tag=k)) for k in metric_dict]
    end = SessionEndInfo(status=Status.Value("STATUS_SUCCESS"))
    return (
        summary(EXPERIMENT_TAG, experiment=Experiment(hparam_infos=infos, metric_infos=metrics)),
        summary(SESSION_START_INFO_TAG, session_start_info=start),
        summary(SESSION_END_INFO_TAG, session_end_info=end),
    )
