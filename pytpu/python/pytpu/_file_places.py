"""Devices of the storages of a file that is read: `map_location`, and registered packages for other devices."""

from . import _C

_packages = []


def register_package(priority, tagger, deserializer):
    """Register functions for storages of another device.

    Args:
        priority (int): functions of lower numbers are asked first.
        tagger: a function of a storage that returns the location to write into the file, or `None`.
        deserializer: a function of a storage and a location that returns the storage there, or `None`.
    """
    _packages.append((priority, tagger, deserializer))
    _packages.sort(key=lambda package: package[0])


def location_tag(storage):
    """Return the location that a file names for a storage, such as "cpu"."""
    for _, tagger, _ in _packages:
        location = tagger(storage)
        if location:
            return location
    device = storage.device
    return "cpu" if device.type == "cpu" else str(device)


def tag(t):
    if not _packages:
        return "cpu" if t.is_cpu else str(t.device)
    from .storage import UntypedStorage

    return location_tag(UntypedStorage._of(t))


def default_restore_location(storage, location):
    """Return the storage at the location that a file names for it."""
    for _, _, deserializer in _packages:
        found = deserializer(storage, location)
        if found is not None:
            return found
    target = _target(location)
    return storage if target is None else storage.to(device=target)


def _target(location):
    """Return the device of a location, or `None` for the host.

    Raises:
        RuntimeError: there is no such device.
    """
    if isinstance(location, bytes):
        location = location.decode("ascii")
    if not isinstance(location, str):
        raise TypeError(f"expected string or bytes-like object, got {type(location).__name__!r}")
    if location == "cpu":
        return None
    if location.startswith("cuda"):
        raise RuntimeError(
            "Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False. If you are "
            "running on a CPU-only machine, please use torch.load with map_location=torch.device('cpu') to map your "
            "storages to the CPU."
        )
    kind, _, index = location.partition(":")
    if kind == "tpu" and (not index or index.isdecimal()):
        # What the process of another device has written goes to the device of this process.
        return "tpu" if index and int(index) < _C._tpu_device_count() else location
    if kind == "meta":
        return "meta"
    raise RuntimeError(
        f"don't know how to restore data location of torch.storage.UntypedStorage (tagged with {location})"
    )


def placement(map_location):
    """Return a function of a loaded storage and its location in the file, which returns the device of its tensors."""
    if isinstance(map_location, _C.device):
        map_location = "cpu" if map_location.type == "cpu" else str(map_location)
    if map_location is None or isinstance(map_location, dict):
        moved = map_location or {}

        def place(storage, location):
            _restore(storage, moved.get(location, location) if isinstance(location, str) else location)

    elif isinstance(map_location, (str, bytes)):

        def place(storage, location):
            _restore(storage, map_location)

    elif callable(map_location):

        def place(storage, location):
            untyped = storage.untyped()
            found = map_location(untyped, location)
            if found is None:
                _restore(storage, location)
            elif found is not untyped:
                _put(storage, found)

    else:
        raise TypeError(f"{type(map_location).__name__!r} object is not callable")
    return place


def _restore(storage, location):
    if _packages:
        untyped = storage.untyped()
        found = default_restore_location(untyped, location)
        if found is not untyped:
            _put(storage, found)
        return
    storage._target = _target(location)


def _put(storage, found):
    """Give the memory of another storage, or of a tensor, to a storage."""
    flat = found.reshape(-1) if isinstance(found, _C.Tensor) else found._flat()
    if flat.is_cpu:
        storage._tensor = flat.view(storage.dtype)
    else:
        # The new memory has the same elements. Tensors are moved one by one: see `window` in `_file_globals.py`.
        storage._target = str(flat.device)


class Storages:
    """The storages of a file while it is read.

    Args:
        read: a function of a key, a dtype and a number of elements that returns a flat tensor.
        place: see `placement`.
    """

    def __init__(self, read, place):
        self._read = read
        self._place = place
        self.by_key = {}

    def load(self, saved):
        """Return the storage for a persistent id of the file."""
        if not isinstance(saved, tuple):
            raise AssertionError(f"saved_id must be a tuple, got {type(saved).__name__}")
        typename = as_text(saved[0]) if saved else None
        if typename != "storage":
            raise AssertionError(f"Unknown typename for persistent_load, expected 'storage' but got '{typename}'")
        kind, key, location, count = saved[1:]
        return self.get(kind, as_text(key), as_text(location), count)

    def get(self, kind, key, location, count):
        """Return the storage of a key. The first call reads it."""
        storage = self.by_key.get(key)
        if storage is not None:
            return storage
        from .storage import TypedStorage, UntypedStorage

        dtype = _C.uint8 if kind is UntypedStorage else kind.dtype
        if not isinstance(dtype, _C.dtype):
            raise TypeError(f"expected the class of a storage, but got {kind}")
        if type(count) is not int or not 0 <= count * dtype.itemsize < 1 << 63:
            raise TypeError(
                f"the number of elements of a storage must be an int that is not negative, but got {count!r:.40}"
            )
        storage = TypedStorage._of(self._read(key, dtype, count))
        self._place(storage, location)
        self.by_key[key] = storage
        return storage

    def finish(self):
        """Move storages that no tensor has moved."""
        for storage in self.by_key.values():
            target = vars(storage).pop("_target", None)
            if target is not None:
                storage._tensor = storage._tensor.to(target)


def as_text(value):
    return value.decode("ascii") if isinstance(value, bytes) else value
