"""Download weights and keep them in a folder, as `torch.hub` does, and load models from folders of this machine.

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
from urllib.parse import urlparse
from urllib.request import Request, urlopen

TYPE_CHECKING = False
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


_CONF = "hubconf.py"


def load(
    repo_or_dir: str | os.PathLike[str],
    model: str,
    *args: Any,
    source: str = "github",
    trust_repo: Any = None,
    force_reload: bool = False,
    verbose: bool = True,
    skip_validation: bool = False,
    **kwargs: Any,
) -> Any:
    """Return what a function of a folder's `hubconf.py` returns. The code of the folder runs.

    Args:
        repo_or_dir: The folder.
        model: The name of the function.
        args: Arguments of the function.
        source: `local`. Nothing is downloaded from `github`.
        trust_repo: Accepted for compatibility.
        force_reload: Accepted for compatibility.
        verbose: Accepted for compatibility.
        skip_validation: Accepted for compatibility.
        kwargs: Arguments of the function by keyword.

    Raises:
        ValueError: If there is no such source.
        NotImplementedError: If the source is `github`.
        RuntimeError: If there is no such function, or a package that the folder names is missing.
    """
    source = source.lower()
    if source not in ("github", "local"):
        raise ValueError(f'Unknown source: "{source}". Allowed values: "github" | "local".')
    if source == "github":
        raise NotImplementedError(
            "torch.hub.load: no code is downloaded from repositories. Clone the repository, and pass its folder with "
            "source='local'"
        )
    return _load_local(repo_or_dir, model, *args, **kwargs)


def _load_local(hubconf_dir: str | os.PathLike[str], model: str, *args: Any, **kwargs: Any) -> Any:
    """Call a function of the file `hubconf.py` in a folder."""
    import importlib.util

    folder = os.fspath(hubconf_dir)
    sys.path.insert(0, folder)
    try:
        spec = importlib.util.spec_from_file_location(_CONF, os.path.join(folder, _CONF))
        assert spec is not None and spec.loader is not None  # the path ends in .py
        conf = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(conf)
        missing = [name for name in getattr(conf, "dependencies", None) or () if not importlib.util.find_spec(name)]
        if missing:
            raise RuntimeError(f"Missing dependencies: {', '.join(missing)}")
        entry = getattr(conf, model, None)
        if entry is None or not callable(entry):
            raise RuntimeError(f"Cannot find callable {model} in hubconf")
        return entry(*args, **kwargs)
    finally:
        sys.path.remove(folder)
