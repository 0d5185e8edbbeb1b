"""Writing of files that keeps the old file until the new one is complete.

`replacing` writes a temporary file beside the target, flushes it to the disk and renames it. After a crash, or on a
full disk, the old file is unchanged. A killed process leaves its temporary file, which later calls remove.
"""

import contextlib
import errno
import hashlib
import os
import re
import secrets
import shutil
import socket
import stat
import time

_SECONDS_KEPT = 3600
_SUFFIX = ".torchtmp"
_PATTERN = re.compile(r"\..*\.([0-9a-f]{16})\.(\d+)\.[0-9a-f]{8}\.torchtmp", re.DOTALL)
_swept = {}


def _this_boot():
    """Return an identifier of this host, boot and process namespace, or `None` if it is unknown.

    Process numbers are unique within it.
    """
    try:
        with open("/proc/sys/kernel/random/boot_id") as f:
            boot = f.read()
        where = f"{socket.gethostname()}\n{boot}\n{os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return None
    return hashlib.sha256(where.encode()).hexdigest()[:16]


def _temporary_name(target):
    # Cut a long name, since the temporary name is longer still.
    name = os.path.basename(target)[:40]
    return os.path.join(
        os.path.dirname(target), f".{name}.{_this_boot() or '0' * 16}.{os.getpid()}.{secrets.token_hex(4)}{_SUFFIX}"
    )


def _is_running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True


def remove_leftovers(folder, now=None):
    """Remove temporary files in a folder that killed processes have left.

    A file is removed if its name has the identifier of this host and boot, its process has ended, it belongs to this
    user, and it is more than an hour old. Each folder is searched once an hour at most.
    """
    now = time.time() if now is None else now
    boot = _this_boot()
    if boot is None or now - _swept.get(folder, -_SECONDS_KEPT) < _SECONDS_KEPT:
        return
    _swept[folder] = now
    with contextlib.suppress(OSError), os.scandir(folder or ".") as entries:
        for entry in entries:
            found = _PATTERN.fullmatch(entry.name)
            if not found or found[1] != boot or _is_running(int(found[2])):
                continue
            with contextlib.suppress(OSError):
                status = entry.stat(follow_symlinks=False)
                if (
                    stat.S_ISREG(status.st_mode)
                    and status.st_uid == os.geteuid()
                    and now - status.st_mtime > _SECONDS_KEPT
                ):
                    os.unlink(entry.path)


def _sync(descriptor):
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some file systems cannot flush.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EROFS):
            raise


def _sync_folder(folder):
    with contextlib.suppress(OSError):
        descriptor = os.open(folder or ".", os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def replacing(path):
    """Open a binary file whose content replaces that of `path` if the `with` block ends without an error.

    Links are followed. An existing file keeps its permissions and, if this user may set them, its owner and group. A
    pipe or a device is written directly, and so is a file in a folder where no other file can be made.

    Raises:
        OSError: the file cannot be written; the old one is as it was.
    """
    target = os.path.realpath(os.fsdecode(path))
    try:
        before = os.stat(target)
    except FileNotFoundError:
        before = None
    if before is not None and not stat.S_ISREG(before.st_mode):
        # A folder raises an error here.
        with open(target, "wb") as file:
            yield file
        return
    if before is not None:
        # A file without write permission is not replaced either.
        os.close(os.open(target, os.O_WRONLY))
    folder = os.path.dirname(target)
    remove_leftovers(folder)
    temporary = _temporary_name(target)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
    try:
        descriptor = os.open(temporary, flags | getattr(os, "O_BINARY", 0), 0o666)
    except OSError as error:
        if before is not None and error.errno in (errno.EACCES, errno.EPERM):
            with open(target, "wb") as file:
                yield file
            return
        error.filename = os.fspath(path)
        raise
    try:
        with open(descriptor, "wb") as file:
            yield file
            file.flush()
            if before is not None:
                if (before.st_uid, before.st_gid) != (os.geteuid(), os.getegid()):
                    with contextlib.suppress(OSError):
                        os.chown(descriptor, before.st_uid, before.st_gid)
                os.chmod(descriptor, stat.S_IMODE(before.st_mode))
            _sync(descriptor)
        try:
            os.replace(temporary, target)
        except OSError as error:
            if before is None or error.errno not in (errno.EBUSY, errno.EXDEV):
                raise
            # The target is a mount point, such as a file of a container, and cannot be replaced.
            with open(temporary, "rb") as source, open(target, "wb") as file:
                shutil.copyfileobj(source, file, 1 << 20)
                file.flush()
                _sync(file.fileno())
            os.unlink(temporary)
        _sync_folder(folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
