"""Download weights and keep them in a folder, as `torch.hub` does. There are no models from repositories.

The folder is `$TORCH_HOME/hub`, or `$XDG_CACHE_HOME/torch/hub`, or `~/.cache/torch/hub`. PyTorch has the same folder,
so files that are in it already are used.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
import uuid
import warnings
from typing import TYPE_CHECKING
from urllib.parse import urlparse
from urllib.request import Request, urlopen

if TYPE_CHECKING:
    from typing import Any

    from pytpu.serialization import MAP_LOCATION


_dir = None

# The digits of a hash in the name of a file.
HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")


def get_dir() -> str:
    """Return the folder of downloaded files."""
    if _dir is not None:
        return _dir
    return os.path.join(_get_torch_home(), "hub")


def _get_torch_home():
    """Return the folder of everything that PyTorch keeps."""
    cache = os.getenv("XDG_CACHE_HOME", "~/.cache")
    return os.path.expanduser(os.getenv("TORCH_HOME", os.path.join(cache, "torch")))


def set_dir(d: str | os.PathLike[str]) -> None:
    """Set the folder of downloaded files.

    Args:
        d: The folder. `~` is expanded.
    """
    global _dir
    _dir = os.path.expanduser(d)


def download_url_to_file(url: str, dst: str, hash_prefix: str | None = None, progress: bool = True) -> None:
    """Download a file. The file is there as a whole, or not at all.

    Args:
        url: Address to download from.
        dst: Name of the file.
        hash_prefix: First digits of the SHA-256 of the file, in hexadecimal. `None` checks nothing.
        progress: If `True`, show the progress on stderr.

    Raises:
        RuntimeError: If the hash does not match.
        OSError: If the file cannot be downloaded or written.
    """
    dst = os.path.expanduser(dst)
    # The temporary file is in the same folder, with the permissions that the process gives to new files.
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
    """Replacement of `tqdm` if that is not installed. It shows nothing."""

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
    """Progress of a download on stderr: a bar of `tqdm` if that is installed, otherwise a number."""

    def __init__(self, total, wanted):
        self.total, self.wanted = total, wanted
        self.bar, self.done = None, 0

    def __enter__(self):
        if self.wanted:
            try:
                from tqdm.auto import tqdm  # type: ignore[import-untyped]
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
    url: str,
    model_dir: str | None = None,
    map_location: MAP_LOCATION = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = False,
) -> dict[str, Any]:
    """Load a file with `torch.load`, and download it first if it is not in the folder.

    A zip archive with one file in it, from before PyTorch 1.6, is unpacked.

    Args:
        url: Address of the file.
        model_dir: Folder of the file. `None` is `checkpoints` in `get_dir()`.
        map_location: Where tensors go, as for `torch.load`.
        progress: If `True`, show the progress on stderr.
        check_hash: If `True`, the name must end with `-` and the first eight or more digits of the SHA-256 of the file.
        file_name: Name of the file. `None` takes it from the address.
        weights_only: As for `torch.load`.

    Returns:
        The object in the file.

    Raises:
        RuntimeError: If the hash does not match.
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
                    "Falling back to the old format < 1.6. This support will be deprecated in favor of default "
                    "zipfile format "
                    "introduced in 1.6. Please redo torch.save() to save it in the new zipfile format.",
                    FutureWarning,
                    stacklevel=2,
                )
                path = archive.extract(members[0], folder)
    return torch.load(path, map_location=map_location, weights_only=weights_only)
