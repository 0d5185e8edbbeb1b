"""Zip archives as `torch.save` writes and `torch.load` reads them: files without compression in one folder."""

import os
import struct
import zipfile
import zlib


def memory_of(t):
    """Return the bytes of a flat tensor in the host's memory. The tensor must outlive them."""
    import ctypes

    from . import _C

    if not _C._in_memory(t):
        raise RuntimeError("a tensor without elements in host memory cannot be saved")
    n = t.numel() * t.element_size()
    return memoryview((ctypes.c_ubyte * n).from_address(t.data_ptr())).cast("B") if n else memoryview(b"")


def pieces(data, size=16 << 20):
    return (data[i : i + size] for i in range(0, len(data), size))


class ZipWriter:
    """A writer of zip archives of uncompressed files whose bytes begin at multiples of 64, so that they can be mapped.

    It needs only `write`, and never copies a file in memory. Positions count from the start of the archive.
    """

    _LARGE = 0xFFFFFFFF

    def __init__(self, file, has_crc=True):
        self._file = file
        self._has_crc = has_crc
        self._at = 0
        self._directory = []

    def _write(self, data):
        self._file.write(data)
        self._at += len(data)

    def add(self, name, data, size=None):
        """Add a file. `None` adds `size` bytes without contents."""
        size = len(data) if data is not None else size
        crc = 0
        if data is not None and self._has_crc:
            for piece in pieces(data):
                crc = zlib.crc32(piece, crc)
        encoded = name.encode()
        start = self._at
        is_large = size >= self._LARGE
        extra = struct.pack("<HHQQ", 1, 16, size, size) if is_large else b""
        padding = -(start + 30 + len(encoded) + len(extra) + 4) % 64
        extra += struct.pack("<HH", 0x4246, padding) + b"Z" * padding
        # Version 2.0 or 4.5, names in UTF-8, no compression, and the first date that the format has.
        about = (45 if is_large else 20, 0x800, 0, 0, 0x21, crc, *(min(size, self._LARGE),) * 2, len(encoded))
        self._write(struct.pack("<4s5H3L2H", b"PK\3\4", *about, len(extra)) + encoded + extra)
        if data is not None:
            for piece in pieces(data):
                self._file.write(piece)
        else:
            self._leave_out(size)
        self._at += size
        self._directory.append((encoded, crc, size, start))

    def _leave_out(self, size):
        if size and hasattr(self._file, "seekable") and self._file.seekable():
            # A hole, if the file system supports it.
            self._file.seek(size - 1, os.SEEK_CUR)
            self._file.write(b"\0")
            return
        for done in range(0, size, 1 << 20):
            self._file.write(bytes(min(1 << 20, size - done)))

    def close(self):
        """Write the directory. The file stays open."""
        start = self._at
        for name, crc, size, at in self._directory:
            large = [size, size] if size >= self._LARGE else []
            large += [at] if at >= self._LARGE else []
            extra = struct.pack(f"<HH{len(large)}Q", 1, 8 * len(large), *large) if large else b""
            version = 45 if large else 20
            about = (version, version, 0x800, 0, 0, 0x21, crc, *(min(size, self._LARGE),) * 2, len(name), len(extra))
            self._write(struct.pack("<4s6H3L5H2L", b"PK\1\2", *about, 0, 0, 0, 0, min(at, self._LARGE)) + name + extra)
        n, size = len(self._directory), self._at - start
        if n >= 0xFFFF or size >= self._LARGE or start >= self._LARGE:
            self._file.write(struct.pack("<4sQHHLLQQQQ", b"PK\6\6", 44, 45, 45, 0, 0, n, n, size, start))
            self._file.write(struct.pack("<4sLQL", b"PK\6\7", 0, start + size, 1))
        about = (min(n, 0xFFFF), min(n, 0xFFFF), min(size, self._LARGE), min(start, self._LARGE), 0)
        self._file.write(struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, *about))


def _fail(text):
    return RuntimeError(f"PytorchStreamReader failed {text}")


class Archive:
    """The files in an archive that `save` has written, by their names without the folder.

    Stored files are read once, so they cannot have more bytes than the archive. Compressed files, which `save` does not
    write, may grow by a factor.
    """

    _EXPANDED = 256 << 20
    _FACTOR = 32
    _MOST = 1000

    def __init__(self, file):
        if not hasattr(file, "seekable"):
            file = _Seekable(file)
        self._file = file
        self.end = None
        at = file.tell()
        infos = self._open(file)
        # A reader of ZIP files finds the last archive of a file. Several objects saved one after the other are read in
        # this order.
        for _ in range(self._MOST):
            start = min((i.header_offset for i in infos), default=at)
            if start <= at:
                break
            self.end = start
            infos = self._open(_Part(file, start))
        else:
            raise _fail(f"reading zip archive: the file has more than {self._MOST} archives.")
        if not infos or "/" not in infos[0].filename:
            first = infos[0].filename if infos else ""
            raise RuntimeError(f"file in archive is not in a subdirectory: {first}")
        self._root = infos[0].filename.partition("/")[0] + "/"
        self._infos = {i.filename: i for i in infos}
        if len(self._infos) != len(infos):
            raise _fail("reading zip archive: two files have the same name. The file might be corrupted.")
        size = file.seek(0, os.SEEK_END)
        size = file.tell() if size is None else size
        file.seek(at)
        self._stored, self._expanded = size, self._EXPANDED + self._FACTOR * size

    def _open(self, file):
        try:
            self._zip = zipfile.ZipFile(file)
        except (zipfile.BadZipFile, struct.error, ValueError, OverflowError, NotImplementedError, EOFError) as error:
            raise _fail(f"reading zip archive: {error or 'not a ZIP archive'}. The file might be corrupted.") from None
        return self._zip.infolist()

    def names(self):
        """All names."""
        return [name.removeprefix(self._root) for name in self._infos]

    def __contains__(self, name):
        return self._root + name in self._infos

    def _info(self, name):
        try:
            return self._infos[self._root + name]
        except KeyError:
            raise _fail(f"locating file {name}: file not found") from None

    def size(self, name):
        """Return the number of bytes of a file."""
        return self._info(name).file_size

    def start(self, name):
        """Return the position of the bytes of a stored file, or `None` if it is compressed."""
        info = self._info(name)
        if info.flag_bits & 1:
            raise _fail(f"reading file {name}: it is encrypted")
        if info.compress_type != zipfile.ZIP_STORED:
            return None
        if info.file_size != info.compress_size:
            raise _fail(f"reading file {name}: its sizes differ. The file might be corrupted.")
        self._stored -= info.file_size
        if self._stored < 0:
            raise _fail(f"reading file {name}: it is larger than the archive. The file might be corrupted.")
        try:
            self._file.seek(info.header_offset)
            header = self._file.read(30)
        except (OSError, ValueError, OverflowError):
            header = b""
        if len(header) < 30 or header[:4] != b"PK\3\4":
            raise _fail(f"reading file {name}: its header is damaged. The file might be corrupted.")
        return info.header_offset + 30 + sum(struct.unpack("<2H", header[26:]))

    def read(self, name):
        """The bytes of a file.

        Raises:
            RuntimeError: there is none, it is damaged, or it is compressed and too large for the size of the archive.
        """
        info = self._info(name)
        start = self.start(name)
        if start is None:
            return self._decompress(info, name)
        self._file.seek(start)
        data = self._file.read(info.file_size)
        self._check(info, name, data, len(data))
        return data

    def can_read_into(self, name):
        """Return whether `read_into` works for a file."""
        return self._info(name).compress_type == zipfile.ZIP_STORED and hasattr(self._file, "readinto")

    def read_into(self, name, memory):
        """Read a stored file into memory of its size. Raise the errors of `read`."""
        self._file.seek(self.start(name))
        count = 0
        while count < len(memory):
            n = self._file.readinto(memory[count:])
            if not n:
                break
            count += n
        self._check(self._info(name), name, memory, count)

    @staticmethod
    def _check(info, name, data, count):
        if count != info.file_size:
            raise _fail(f"reading file {name}: file read failed. The file might be corrupted.")
        # `set_crc32_options(False)` leaves the checksum out.
        if info.CRC and zlib.crc32(data) != info.CRC:
            raise _fail(f"reading file {name}: its checksum is wrong. The file might be corrupted.")

    def _decompress(self, info, name):
        # Every byte of a pickle can become an object.
        limit = (4 << 20) + self._FACTOR * info.compress_size if name == "data.pkl" else self._expanded
        if info.file_size > limit:
            raise _fail(
                f"reading file {name}: {info.compress_size} compressed bytes become {info.file_size}, which is "
                "refused. Store the archive without compression to load it."
            )
        self._expanded -= info.file_size
        try:
            return self._zip.read(info)
        except (zipfile.BadZipFile, zlib.error, ValueError, EOFError, OSError, NotImplementedError) as error:
            raise _fail(f"reading file {name}: {error}. The file might be corrupted.") from None
        except Exception as error:
            if type(error).__name__ != "LZMAError":
                raise
            raise _fail(f"reading file {name}: {error}. The file might be corrupted.") from None


class _Part:
    """The first `size` bytes of a file, for `zipfile`."""

    def __init__(self, file, size):
        self._file, self._size = file, size
        self.tell = file.tell

    def seekable(self):
        """Always `True`."""
        return True

    def seek(self, offset, whence=os.SEEK_SET):
        """Move to a position, which counts from the end of the part with `os.SEEK_END`."""
        if whence == os.SEEK_END:
            offset, whence = self._size + offset, os.SEEK_SET
        return self._file.seek(offset, whence)

    def read(self, n=-1):
        """Return at most `n` bytes, up to the end of the part."""
        left = max(0, self._size - self._file.tell())
        return self._file.read(left if n is None or n < 0 else min(n, left))


class _Seekable:
    """A file object with only `read`, `seek` and `tell`, for `zipfile`."""

    def __init__(self, file):
        self.read, self.seek, self.tell = file.read, file.seek, file.tell

    def seekable(self):
        """Always `True`."""
        return True


def opened_archive(f):
    """Return the archive, after a check that it has the files that `save` always writes."""
    archive = Archive(f)
    # Archives of TorchScript with newer operators have their version in another place.
    name = ".data/version" if ".data/version" in archive else "version"
    if name not in archive:
        raise RuntimeError(
            'Expected hasRecord("version") to be true, but got false.  (Could this error message be improved?  If so, '
            "please report an "
            "enhancement request to PyTorch.)"
        )
    text = archive.read(name).strip()
    if not text.isdigit() or len(text) > 9:
        raise RuntimeError(f"the version of the file is not a number, but {text[:20]!r}")
    if int(text) > 10:
        raise RuntimeError(
            f"Attempted to read a PyTorch file with version {int(text)}, but the maximum supported version for "
            "reading is 10. The version of your PyTorch installation may be too old, please upgrade PyTorch to "
            "latest version to mitigate this issue."
        )
    return archive


def is_archive(f):
    """Return whether an archive starts here."""
    at = f.tell()
    head = f.read(4)
    f.seek(at)
    return head == b"PK\3\4"
