"""Loads damaged checkpoints and looks for what must not happen.

`python files.py [FORMATS] [COUNT] [SEED]`, for example `files.py zip,legacy,pickle,safetensors 30000 1`. Every file is
a committed seed of `seeds/` after some random changes, which depend on the numbers alone: the same arguments give the
same files. A finding is a crash, a hang, an error that is no `Exception`, an internal error, code that ran, or a class
that changed. Children do the work, with a limit of memory. Ends in "N files, N findings", and with status 1 if there
are any.
"""

import codecs
import io
import json
import os
import pathlib
import pickletools
import random
import resource
import struct
import subprocess
import sys
import tempfile
import time
import warnings
import zipfile

FORMATS = ("zip", "legacy", "pickle", "safetensors")
SEEDS = pathlib.Path(__file__).parent / "seeds"
PIECE = 2000
NUMBERS = (0, 1, -1, 2, 255, 256, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1, 10**6, 10**9)
# Opcodes that the machine has and has not, with arguments that go beyond the end or name allowed and other things.
OPCODES = (
    *(bytes([b]) for b in b"0121(aetRbosuQN})].\x88\x89\x81\x85\x86\x87\x8f\x90\x91\x92\x93\x94\x97\x98"),
    *(b"J" + struct.pack("<i", n) for n in (-1, 2**31 - 1, -(2**31))),
    *(b"\x8a" + bytes([len(d)]) + d for d in (b"", b"\xff" * 8, b"\0" * 8 + b"\1", b"\xff" * 7 + b"\x7f")),
    *(
        b"c" + n.replace(b" ", b"\n") + b"\n"
        for n in (
            b"torch Tensor",
            b"torch Size",
            b"torch device",
            b"torch._utils _rebuild_tensor_v2",
            b"torch._tensor _rebuild_from_type_v2",
            b"torch._utils _rebuild_parameter_with_state",
            b"collections Counter",
            b"collections OrderedDict",
            b"__builtin__ set",
            b"builtins bytearray",
            b"_codecs encode",
            b"builtins complex",
            b"torch float32",
            b"torch FloatStorage",
            b"torch.storage TypedStorage",
            b"torch.nn.parameter Parameter",
            b"posix system",
            b"builtins eval",
        )
    ),
    *(b"X" + struct.pack("<I", len(t)) + t for t in (b"cpu", b"tpu:7", b"storage", b"")),
    b"G\x7f\xf0\0\0\0\0\0\0",
    b"C\2ab",
    b"icollections\nCounter\n",
    b"\x82\1",
    b"K\0",
    b"h\0",
    b"h\5",
    b"q\1",
    b"\x95" + b"\xff" * 8,
    b"B\xff\xff\xff\x7f",
    b"\x8d" + b"\xff" * 8,
    b"\x96" + b"\xff" * 6 + b"\0\0",
    b"r\xff\xff\xff\0",
    b"j\xff\xff\xff\x7f",
)


def make_seeds(folder=SEEDS):
    """Writes the committed files again."""
    import pytpu as torch
    from pytpu import safetensors

    torch.manual_seed(0)
    base = torch.arange(24.0)
    tensors = {
        "w": torch.randn(5, 7),
        "b": torch.arange(11),
        "h": torch.ones(3).to(torch.bfloat16),
        "v": base[3:9],
        "t": base.view(4, 6).t(),
        "c": torch.ones(2, dtype=torch.complex64),
        "e": torch.zeros(0, 3),
        "z": torch.tensor(2.5, dtype=torch.float64),
        "m": torch.tensor([True, False]),
    }
    mixed = {
        "a": [1, 2.5, "x", None, (True, b"ab")],
        "p": torch.nn.Parameter(torch.randn(3, 3)),
        "s": {1, 2},
        "n": {"q": torch.ones(2, 2)},
    }
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4)).state_dict()
    for name, made in (("tensors", tensors), ("mixed", mixed), ("module", module)):
        torch.save(made, folder / f"{name}.zip.pt")
        torch.save(made, folder / f"{name}.legacy.pt", _use_new_zipfile_serialization=False)
    flat = {k: v.contiguous().clone() for k, v in tensors.items()}
    safetensors.save_file(flat, folder / "tensors.safetensors", {"format": "pt"})
    safetensors.save_file(dict(module), folder / "module.safetensors")


def seeds(format):
    """The committed files of a format."""
    pattern = {"zip": "*.zip.pt", "pickle": "*.zip.pt", "legacy": "*.legacy.pt", "safetensors": "*.safetensors"}[format]
    return [path.read_bytes() for path in sorted(SEEDS.glob(pattern))]


def damaged(data, r, head=None):
    """Bytes after some changes, more often in the first `head` ones."""
    b = bytearray(data)

    def at():
        return r.randrange(min(head, len(b)) if head and r.random() < 0.7 else len(b))

    for _ in range(r.choice((1, 1, 1, 2, 3, 8))):
        if not b:
            break
        kind, i = r.randrange(9), at()
        if kind == 0:
            b[i] ^= 1 << r.randrange(8)
        elif kind == 1:
            b[i] = r.choice((0, 255, 0x2E, 0x52, 0x63, 0x30, 0x39, 0x22, 0x5B, r.randrange(256)))
        elif kind == 2:
            del b[r.randrange(len(b)) :]
        elif kind == 3:
            del b[i : i + r.choice((1, 2, 4, 8, 100))]
        elif kind == 4:
            b[i:i] = r.randbytes(r.choice((1, 2, 4, 8, 64)))
        elif kind == 5:
            width = r.choice((2, 4, 8))
            b[i : i + width] = (r.choice(NUMBERS) & (2 ** (8 * width) - 1)).to_bytes(width, r.choice(("little", "big")))
        elif kind == 6:
            j, n = at(), r.choice((4, 16, 64))
            b[i : i + n] = b[j : j + n]
        elif kind == 7:
            b += b[i:]
        else:
            digits = [k for k in range(min(len(b), 3000)) if 48 <= b[k] <= 57]
            if digits:
                k = r.choice(digits)
                b[k : k + 1] = r.choice(
                    (b"9", b"-1", b"99999999999999999999", b"0", b"1e5", b"18446744073709551615", b"4294967296")
                )
    return bytes(b)


def contents(data):
    """The files of an archive, as pairs of name and bytes."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return [(i.filename, archive.read(i)) for i in archive.infolist()]


def rewritten(data, r, change):
    """An archive with its `data.pkl` changed, and its files in another order, doubled or left out."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as new, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        entries = contents(data)
        if r.random() < 0.2:
            r.shuffle(entries)
        if r.random() < 0.1:
            entries.append(r.choice(entries))
        if r.random() < 0.1:
            del entries[r.randrange(len(entries))]
        for name, content in entries:
            compression = zipfile.ZIP_DEFLATED if r.random() < 0.1 else zipfile.ZIP_STORED
            new.writestr(name, change(content) if name.endswith("data.pkl") else content, compression)
    return out.getvalue()


def other_opcodes(pickle, r):
    """A pickle with opcodes swapped, inserted and taken out, so that the machine stays busy."""
    starts = [at for _, _, at in pickletools.genops(pickle)] + [len(pickle)]
    chunks = [pickle[a:b] for a, b in zip(starts, starts[1:])]
    for _ in range(r.choice((1, 1, 2, 3, 6))):
        i, kind = r.randrange(len(chunks)), r.random()
        if kind < 0.25:
            chunks[i] = r.choice(chunks)
        elif kind < 0.4:
            chunks.insert(i, r.choice(chunks))
        elif kind < 0.5 and len(chunks) > 1:
            del chunks[i]
        elif kind < 0.75:
            chunks.insert(i, r.choice(OPCODES))
        elif len(chunks[i]) > 1:
            c = bytearray(chunks[i])
            c[r.randrange(1, len(c))] = r.choice((0, 1, 2, 127, 128, 255, r.randrange(256)))
            chunks[i] = bytes(c)
    return b"".join(chunks)


def file_of(format, seed, number):
    """The damaged file of a number."""
    r = random.Random((seed << 32) + number)
    data = r.choice(seeds(format))
    if format == "pickle":
        return rewritten(data, r, lambda p: other_opcodes(p, r))
    if format == "zip" and r.random() < 0.5:
        return rewritten(data, r, lambda p: damaged(p, r))
    return damaged(data, r, 8 + int.from_bytes(data[:8], "little") if format == "safetensors" else None)


def _used(value, depth=0):
    """Reads what was loaded."""
    import pytpu as torch

    if isinstance(value, torch.Tensor) and value.device.type == "cpu" and 0 < value.numel() < 10**6:
        value.clone(), value.tolist(), repr(value) if value.numel() < 40 else None
    elif isinstance(value, dict) and depth < 4:
        for pair in list(value.items())[:50]:
            _used(pair, depth + 1)
    elif isinstance(value, (list, tuple, set)) and depth < 4:
        for item in list(value)[:50]:
            _used(item, depth + 1)


def _load(format, data, path, r):
    import pytpu as torch
    from pytpu import safetensors

    if r.random() < 0.5:
        return safetensors.load(data) if format == "safetensors" else torch.load(io.BytesIO(data))
    with open(path, "wb") as f:
        f.write(data)
    if format != "safetensors":
        return torch.load(path, map_location=r.choice((None, "cpu", "meta")))
    if r.random() < 0.5:
        return safetensors.load_file(path)
    with safetensors.safe_open(path, "pt") as f:
        return {k: f.get_tensor(k) for k in f.keys()}


def _fingerprint():
    import collections

    import pytpu as torch
    from pytpu import serialization

    classes = (
        torch.Tensor,
        torch.Size,
        torch.nn.Parameter,
        collections.Counter,
        collections.OrderedDict,
        torch.dtype,
        torch.device,
    )
    functions = [f for f in serialization._SAFE.values() if hasattr(f, "__code__")]
    # Python adds names of slots to classes that are pickled.
    state = [
        sorted((k, id(v)) for k, v in vars(c).items() if k != "__slotnames__" and not k.startswith("_abc"))
        for c in classes
    ]
    return state + [(id(f.__code__), f.__defaults__, f.__kwdefaults__, sorted(vars(f))) for f in functions]


FORBIDDEN = (
    "os.system",
    "subprocess.Popen",
    "os.exec",
    "os.posix_spawn",
    "exec",
    "compile",
    "os.remove",
    "os.rename",
    "socket.connect",
    "os.mkdir",
    "ctypes.dlopen",
    "os.putenv",
    "os.chmod",
)


class Watch:
    """Looks at loads in this process, one at a time."""

    def __init__(self):
        import pytpu as torch
        from pytpu import safetensors

        # Modules that are imported late are imported now, before code that runs is a finding.
        codecs.lookup("idna")
        torch.load(io.BytesIO(seeds("zip")[0]))
        safetensors.load(seeds("safetensors")[0])
        self._watched, self._executed = False, []
        self._state = _fingerprint()
        sys.addaudithook(self._audit)

    def _audit(self, event, arguments):
        if self._watched and event in FORBIDDEN and "encodings" not in str(arguments):
            self._executed.append(f"{event} {arguments!r}"[:200])

    def findings(self, load):
        """Calls `load`, uses what it returns, and gives the texts of what must not happen."""
        found, began = [], time.monotonic()
        try:
            self._watched = True
            try:
                loaded = load()
            finally:
                self._watched = False
            _used(loaded)
        except Exception as error:
            if isinstance(error, SystemError) or any(
                word in str(error) for word in ("internal error", "panick", "index out of bounds: the len")
            ):
                found.append(f"internal error: {error}"[:300])
        except BaseException as error:
            found.append(f"{type(error).__name__}: {error}"[:300])
        if self._executed:
            found.append(f"ran {self._executed[:3]}")
            self._executed.clear()
        if time.monotonic() - began > 10:
            found.append(f"took {time.monotonic() - began:.0f} s")
        state = _fingerprint()
        if state != self._state:
            found.append("a class or a function changed")
            self._state = state
        return found


def run(format, count, seed, start, progress):
    """Loads files `start` to `start + count`; returns findings as `(number, text)`."""
    warnings.simplefilter("ignore")
    watch, findings = Watch(), []
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "file")
        for number in range(start, start + count):
            os.pwrite(progress, b"%12d" % number, 0)
            data, r = file_of(format, seed, number), random.Random(number)
            findings += [(number, text) for text in watch.findings(lambda: _load(format, data, path, r))]
    return findings


def _limited():
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def supervise(format, count, seed):
    """Runs children until all files are loaded; returns findings."""
    findings, start = [], 0
    with tempfile.NamedTemporaryFile() as progress:
        while start < count:
            n = min(PIECE, count - start)
            command = [sys.executable, __file__, "--child", format, str(n), str(seed), str(start), progress.name]
            child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=_limited)
            seen, since = None, time.monotonic()
            while child.poll() is None:
                time.sleep(0.05)
                with open(progress.name) as f:
                    now = f.read()
                if now != seen:
                    seen, since = now, time.monotonic()
                elif time.monotonic() - since > 60:
                    child.kill()
            output = child.communicate()[0]
            if child.returncode == 0:
                findings += json.loads(output.splitlines()[-1])
                start += n
                continue
            at = int(seen or start)
            findings.append((at, f"the process ended with {child.returncode}"))
            start = at + 1
    return findings


def main(arguments):
    if arguments[:1] == ["--make-seeds"]:
        make_seeds()
        return 0
    if arguments[:1] == ["--child"]:
        format, count, seed, start, progress = arguments[1:]
        with open(progress, "r+b") as f:
            print(json.dumps(run(format, int(count), int(seed), int(start), f.fileno())))
        return 0
    formats = arguments[0].split(",") if arguments else FORMATS
    count, seed = (int(a) for a in (arguments[1:3] + ["200", "1"][len(arguments[1:3]) :]))
    found = 0
    for format in formats:
        for number, text in supervise(format, count, seed):
            found += 1
            print(f"{format} seed {seed} file {number}: {text}")
    print(f"{count * len(formats)} files, {found} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
