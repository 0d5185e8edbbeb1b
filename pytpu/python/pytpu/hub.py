"""Weights from the network, kept in a folder: as `torch.hub`, without models from repositories.

The folder is ``$TORCH_HOME/hub``, or ``$XDG_CACHE_HOME/torch/hub``, or ``~/.cache/torch/hub``: that of PyTorch, so that what is there is
used.
"""

import hashlib
import os
import re
import shutil
import sys
import uuid
import warnings
from urllib.parse import urlparse
from urllib.request import Request, urlopen

_dir = None

# The digits of a hash in the name of a file.
HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")


def get_dir():
    """The folder."""
    if _dir is not None:
        return _dir
    return os.path.join(_get_torch_home(), "hub")


def _get_torch_home():
    """Return the folder of everything that PyTorch keeps."""
    cache = os.getenv("XDG_CACHE_HOME", "~/.cache")
    return os.path.expanduser(os.getenv("TORCH_HOME", os.path.join(cache, "torch")))


def set_dir(d):
    """Chooses the folder."""
    global _dir
    _dir = os.path.expanduser(d)


def download_url_to_file(url, dst, hash_prefix=None, progress=True):
    """Puts what is at `url` into the file `dst`, which is there as a whole or not at all.

    Raises `RuntimeError` when its SHA-256, in hexadecimal digits, does not begin with `hash_prefix`.
    """
    dst = os.path.expanduser(dst)
    # Beside it, and made as any file is: with the rights that the process gives.
    partial = f"{dst}.{uuid.uuid4().hex}.partial"
    try:
        with open(partial, "xb") as file, urlopen(Request(url, headers={"User-Agent": "torch.hub"})) as response:
            length = response.headers.get("Content-Length")
            with _Progress(None if length is None else int(length), progress) as shown:
                while block := response.read(128 << 10):
                    file.write(block)
                    shown.update(len(block))
        if hash_prefix is not None:
            digest = _digest(partial)
            if not digest.startswith(hash_prefix):
                raise RuntimeError(f'invalid hash value (expected "{hash_prefix}", got "{digest}")')
        shutil.move(partial, dst)
    finally:
        if os.path.exists(partial):
            os.remove(partial)


class _Bar:
    """Stands for ``tqdm`` where that is not installed: shows nothing."""

    def __init__(self, iterable=None, *args, **kwargs):
        self.iterable = iterable

    def __iter__(self):
        return iter(self.iterable)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None

    def update(self, n=1):
        """Do nothing."""

    close = set_description = set_postfix = update


class _Progress:
    """How much has come, on the error stream: tqdm's bar where that is installed, else a number."""

    def __init__(self, total, wanted):
        self.total, self.wanted = total, wanted
        self.bar, self.done = None, 0

    def __enter__(self):
        if self.wanted:
            try:
                from tqdm.auto import tqdm
            except ImportError:
                pass
            else:
                self.bar = tqdm(total=self.total, unit="B", unit_scale=True, unit_divisor=1024)
        return self

    def update(self, count):
        self.done += count
        if self.bar is not None:
            self.bar.update(count)
        elif self.wanted:
            sys.stderr.write(f"\r{100 * self.done / self.total:.1f}%" if self.total else f"\r{self.done:.1f} bytes")
            sys.stderr.flush()

    def __exit__(self, *_):
        if self.bar is not None:
            self.bar.close()
        elif self.wanted:
            sys.stderr.write("\n")


def _digest(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def load_state_dict_from_url(
    url, model_dir=None, map_location=None, progress=True, check_hash=False, file_name=None, weights_only=False
):
    """What `torch.load` makes of the file at `url`, downloaded unless it is in ``checkpoints`` of the folder.

    With `check_hash` the file's name has to end with ``-`` and the first eight or more digits of its SHA-256. A file that was zipped the
    old way, with one file in it, is unzipped.
    """
    import zipfile

    import pytpu as torch

    folder = os.path.join(get_dir(), "checkpoints") if model_dir is None else model_dir
    os.makedirs(folder, exist_ok=True)
    name = os.path.basename(urlparse(url).path) if file_name is None else file_name
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        sys.stdout.write(f'Downloading: "{url}" to {path}\n')
        found = HASH_REGEX.search(name) if check_hash else None
        download_url_to_file(url, path, found.group(1) if found else None, progress=progress)
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            if len(members) == 1 and not members[0].is_dir():
                warnings.warn(
                    "Falling back to the old format < 1.6. This support will be deprecated in favor of default zipfile format "
                    "introduced in 1.6. Please redo torch.save() to save it in the new zipfile format.",
                    FutureWarning,
                    stacklevel=2,
                )
                path = archive.extract(members[0], folder)
    return torch.load(path, map_location=map_location, weights_only=weights_only)
