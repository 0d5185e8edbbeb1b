"""The files of TensorBoard's projector."""

import math
import os

import numpy as np
from google.protobuf import text_format
from tensorboard.plugins.projector.projector_config_pb2 import EmbeddingInfo

from ._convert_np import make_np
from ._utils import make_grid


def make_tsv(metadata, save_path, metadata_header=None):
    """Write a label for each point. With a header, a row of several labels."""
    if not metadata_header:
        lines = [str(x) for x in metadata]
    else:
        if len(metadata_header) != len(metadata[0]):
            raise AssertionError("len of header must be equal to the number of columns in metadata")
        lines = ["\t".join(str(e) for e in row) for row in [metadata_header, *metadata]]
    with open(os.path.join(save_path, "metadata.tsv"), "wb") as file:
        file.write(("\n".join(lines) + "\n").encode("utf8"))


def make_sprite(label_img, save_path):
    """Write the images of all points as one square image."""
    from PIL import Image

    from .summary import _calc_scale_factor

    columns = math.ceil(label_img.size(0) ** 0.5)
    grid = make_grid(make_np(label_img), ncols=columns)
    # The projector needs a square, even if the last rows are empty.
    square = np.ndarray((3, columns * label_img.size(2), columns * label_img.size(3)), dtype=grid.dtype)
    square.fill(0)
    square[:, : grid.shape[1], : grid.shape[2]] = grid
    pixels = np.float32(square.transpose(1, 2, 0)) * _calc_scale_factor(grid)
    Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(os.path.join(save_path, "sprite.png"))


def get_embedding_info(metadata, label_img, subdir, global_step, tag):
    """Return the entry of an embedding for the projector's configuration."""
    info = EmbeddingInfo()
    info.tensor_name = f"{tag}:{str(global_step).zfill(5)}"
    info.tensor_path = f"{subdir}/tensors.tsv"
    if metadata is not None:
        info.metadata_path = f"{subdir}/metadata.tsv"
    if label_img is not None:
        info.sprite.image_path = f"{subdir}/sprite.png"
        info.sprite.single_image_dim.extend([label_img.size(3), label_img.size(2)])
    return info


def write_pbtxt(save_path, contents):
    """Write the configuration, a `ProjectorConfig`, as text."""
    with open(os.path.join(save_path, "projector_config.pbtxt"), "wb") as file:
        file.write(text_format.MessageToString(contents).encode("utf8"))


def make_mat(matlist, save_path):
    """Write the points, one a line."""
    with open(os.path.join(save_path, "tensors.tsv"), "wb") as file:
        for row in matlist:
            file.write(("\t".join(str(x.item()) for x in row) + "\n").encode("utf8"))
