"""Images: grids, layouts, figures."""

import math

import numpy as np


def figure_to_image(figures, close=True):
    """Render a Matplotlib figure, or a list of figures of one size, as `uint8` array `(c, h, w)` or `(n, c, h, w)`."""
    import matplotlib.pyplot as plt
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    def render(figure):
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        width, height = figure.canvas.get_width_height()
        pixels = np.frombuffer(canvas.buffer_rgba(), dtype=np.uint8).reshape(height, width, 4)
        if close:
            plt.close(figure)
        return np.moveaxis(pixels[:, :, :3], 2, 0)

    return np.stack([render(f) for f in figures]) if isinstance(figures, list) else render(figures)


def make_grid(I, ncols=8):  # noqa: E741
    """Lay images `(n, c, h, w)` out in a grid `(3, rows * h, columns * w)`, row by row.

    Grey images become three equal channels.
    """
    if not isinstance(I, np.ndarray):
        raise AssertionError("plugin error, should pass numpy array here")
    if I.shape[1] == 1:
        I = np.concatenate([I, I, I], 1)  # noqa: E741
    if I.ndim != 4 or I.shape[1] != 3:
        raise AssertionError("Input should be a 4D numpy array with 3 channels")
    n, _, h, w = I.shape
    ncols = min(n, ncols)
    grid = np.zeros((3, h * math.ceil(n / ncols), w * ncols), dtype=I.dtype)
    for i, image in enumerate(I):
        y, x = i // ncols * h, i % ncols * w
        grid[:, y : y + h, x : x + w] = image
    return grid


def convert_to_HWC(tensor, input_format):
    """Bring an image of a named layout (`CHW`, `HW`, ...), or a batch of images as a grid, to `(h, w, c)`."""
    if len(set(input_format)) != len(input_format):
        raise AssertionError(
            f"You can not use the same dimension shorthand twice.             input_format: {input_format}"
        )
    if len(tensor.shape) != len(input_format):
        raise AssertionError(
            f"size of input tensor and input format are different.         tensor shape: {tensor.shape}, "
            f"input_format: {input_format}"
        )
    layout = input_format.upper()
    if len(layout) == 4:
        return make_grid(tensor.transpose([layout.find(c) for c in "NCHW"])).transpose(1, 2, 0)
    if len(layout) == 3:
        image = tensor.transpose([layout.find(c) for c in "HWC"])
        return np.concatenate([image, image, image], 2) if image.shape[2] == 1 else image
    if len(layout) == 2:
        image = tensor.transpose([layout.find(c) for c in "HW"])
        return np.stack([image, image, image], 2)
    return None


def _prepare_video(V):
    """Lay videos `(n, t, c, h, w)` out in a grid of two rows or more and a power of two of places.

    The result is `(t, rows * h, columns * w, c)`.
    """
    b, t, c, h, w = V.shape
    if V.dtype == np.uint8:
        V = np.float32(V) / 255.0
    places = 1 << (b - 1).bit_length() if b > 0 else 0
    if places > b:
        V = np.concatenate((V, np.zeros((places - b, t, c, h, w))), axis=0)
    rows = 2 ** ((places.bit_length() - 1) // 2)
    columns = places // rows
    V = V.reshape(rows, columns, t, c, h, w).transpose(2, 0, 4, 1, 5, 3)
    return V.reshape(t, rows * h, columns * w, c)
