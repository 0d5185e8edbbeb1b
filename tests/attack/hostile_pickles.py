"""Pickles made by hand that ask `torch.load(weights_only=True)` for what it must refuse, or for too much.

`cases()` gives 309 checkpoints by name. `python hostile_pickles.py RECORD.json`, on a real PyTorch, writes how each one
ends there.
"""

import io
import json
import struct
import sys
import zipfile

# Names of functions that run code or read files, of what leads to them, and of parts of allowed classes.
GLOBALS = """
builtins eval, builtins exec, __builtin__ eval, builtins getattr, builtins __import__, builtins open, builtins compile,
builtins globals, builtins map, builtins object, builtins type, builtins dict, builtins list, functools partial,
operator attrgetter, operator methodcaller, subprocess Popen, subprocess check_output, pickle loads, _pickle loads,
copyreg _reconstructor, copy_reg _reconstructor, copyreg __newobj__, runpy run_path, code interact,
importlib import_module, torch.hub load, torch load, torch.serialization load, torch.utils.data.dataloader DataLoader,
torch classes, torch._C _from_bytes, torch from_file, torch.storage UntypedStorage,
torch.serialization add_safe_globals, torch save, torch.storage _load_from_bytes, torch._utils _rebuild_tensor_v3,
torch._utils _rebuild_wrapper_subclass, torch.jit load, torch.package PackageImporter,
torch._tensor _rebuild_from_type, torch.nn.modules.linear Linear, timeit timeit, cProfile run, pdb run, bdb Bdb.run,
webbrowser open, pip main, ctypes CDLL, socket create_connection, numpy.core.multiarray _reconstruct, numpy dtype,
_codecs decode, codecs open, torch Tensor.__reduce__, torch Size.__class__, collections OrderedDict.__init__,
torch Tensor.__class__.__base__, torch._utils _rebuild_tensor_v2.__globals__, collections namedtuple,
torch float32.__class__, - os.system, torch __builtins__, torch.os system, torch.serialization os.system,
torch.serialization.os system, torch\x00 Tensor, pytpu Tensor, pytpu.serialization os
"""
COMMAND = "touch canary"


def checkpoint(pickle, storage=bytes(16)):
    """A file with this pickle and one storage."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as z:
        z.writestr("archive/data.pkl", pickle)
        z.writestr("archive/byteorder", "little")
        z.writestr("archive/version", "3")
        z.writestr("archive/data/0", storage)
    return file.getvalue()


def text(s):
    """BINUNICODE."""
    return b"X" + struct.pack("<I", len(s.encode())) + s.encode()


def number(n):
    """BININT or LONG1."""
    if -(2**31) <= n < 2**31:
        return b"J" + struct.pack("<i", n)
    data = n.to_bytes((n.bit_length() + 8) // 8, "little", signed=True)
    return b"\x8a" + bytes([len(data)]) + data


def named(module, name):
    """GLOBAL."""
    return f"c{module}\n{name}\n".encode()


def group(*parts):
    """A tuple."""
    return b"(" + b"".join(parts) + b"t"


def numbers(*values):
    """A tuple of numbers."""
    return group(*map(number, values))


def storage(key="0", dtype="FloatStorage", count=4, location=None):
    """A persistent id."""
    location = text("cpu") if location is None else location
    return group(text("storage"), named("torch", dtype), text(key), location, number(count)) + b"Q"


REBUILD = named("torch._utils", "_rebuild_tensor_v2")
FROM_TYPE = named("torch._tensor", "_rebuild_from_type_v2")
TENSOR, SET, ENCODE = named("torch", "Tensor"), named("builtins", "set"), named("_codecs", "encode")
FOUR = group(storage(), number(0), numbers(4), numbers(1), b"\x89", b"}")


def rebuilt(offset, size, stride, memory=None):
    """A tensor on the storage."""
    offset = offset if isinstance(offset, bytes) else number(offset)
    size, stride = (x if isinstance(x, bytes) else numbers(*x) for x in (size, stride))
    return REBUILD + group(memory or storage(), offset, size, stride, b"\x89", b"}") + b"R"


def attributes(name, value):
    """The state of an object without slots."""
    return b"}" + text(name) + value + b"s"


def slots(name, value):
    """The state of an object with slots."""
    return b"N" + attributes(name, value) + b"\x86"


def _of_globals():
    call = group(text(COMMAND)) + b"R"
    for module in ("os", "posix", "nt"):
        yield f"GLOBAL {module} system", named(module, "system") + call
    for pair in GLOBALS.replace("\n", " ").split(", "):
        module, name = pair.split()
        module = module.replace("-", "")
        yield f"GLOBAL {module} {name}", named(module, name) + call
        yield f"STACK_GLOBAL {module} {name}", text(module) + text(name) + b"\x93" + call
        yield f"INST {module} {name}", b"(" + text(COMMAND) + f"i{module}\n{name}\n".encode()
    yield "OBJ os.system", b"(" + named("os", "system") + text(COMMAND) + b"o"
    yield "NEWOBJ subprocess", named("subprocess", "Popen") + group(text(COMMAND)) + b"\x81"
    yield "EXT1", b"\x82\xf0" + call


def _of_storages():
    yield "PERSID", b"Pos.system\n"
    yield "persistent id int", number(5) + b"Q"
    yield "persistent id none", b"NQ"
    yield "persistent id short", group(text("storage")) + b"Q"
    yield "persistent id kind", group(text("module"), text("os"), text("system"), text(""), number(1)) + b"Q"
    yield "storage key path", storage("../../../../etc/passwd")
    kind = named("torch._utils", "_rebuild_tensor")
    yield "storage dtype is function", group(text("storage"), kind, text("0"), text("cpu"), number(4)) + b"Q"
    yield "storage location none", storage(location=b"N")
    yield "storage location int", storage(location=number(3))
    yield "storage location tpu:99", rebuilt(0, (4,), (1,), storage(location=text("tpu:99")))
    yield "storage claims 2**62", rebuilt(0, (4,), (1,), storage(count=2**62))


def _of_sizes():
    double = b"G" + struct.pack(">d", 1.5)
    for name, arguments in {
        "beyond by size": (0, (5,), (1,)),
        "beyond by offset": (4, (1,), (1,)),
        "offset -1": (-1, (1,), (1,)),
        "offset -2**63": (-(2**63), (4,), (1,)),
        "size -1": (0, (-1,), (1,)),
        "stride -1": (3, (4,), (-1,)),
        "huge": (0, (2**62,), (1,)),
        "overflow": (0, (2**32, 2**32), (2**32, 1)),
        "overflow of stride": (2**62, (2,), (2**62,)),
        "wrap": (2**61, (4,), (2**61,)),
        "wrap of size": (0, (2**61 + 1,), (8,)),
        "wrap of offset": (2**64 - 4, (4,), (1,)),
        "empty beyond": (2**62, (0,), (1,)),
        "empty huge": (0, (0, 2**62), (1, 2**62)),
        "nine dimensions": (0, (1,) * 9, (1,) * 9),
        "lengths differ": (0, (2, 2), (1,)),
        "size is text": (0, text("ab"), numbers(1)),
        "offset is float": (double, (1,), (1,)),
        "offset is bool": (b"\x88", (1,), (1,)),
        "size holds itself": (0, b"]q\x05h\x05ah\x05", numbers(1)),
        "stride 0": (0, (2**40,), (0,)),
        "strides 0": (0, (2**31, 2**31), (0, 0)),
    }.items():
        yield f"rebuild {name}", rebuilt(*arguments)
    yield "rebuild not a storage", REBUILD + group(number(5), number(0), numbers(1), numbers(1), b"\x89", b"}") + b"R"
    yield (
        "rebuild requires_grad text",
        REBUILD + group(storage(), number(0), numbers(4), numbers(1), text("x"), b"}") + b"R",
    )
    yield "rebuild no arguments", REBUILD + b")R"
    yield "NEWOBJ_EX", REBUILD + b")}\x92"


def _of_types():
    def made(rebuild, kind, arguments, state=b"}"):
        return FROM_TYPE + group(rebuild, kind, arguments, state) + b"R"

    yield "from_type Tensor of 2**45", made(TENSOR, TENSOR, numbers(2**45))
    yield "from_type encode", made(ENCODE, TENSOR, group(text("a"), text("rot13")))
    yield "from_type kind int", made(REBUILD, number(5), FOUR)
    yield "from_type kind set", made(REBUILD, SET, FOUR)
    tensor = REBUILD + FOUR + b"R"
    for name, value in (
        ("__class__", named("torch", "Size")),
        ("__class__", named("collections", "Counter")),
        ("data", tensor),
        ("grad", tensor),
        ("requires_grad", b"\x88"),
        ("__dict__", b"}"),
        ("grad_fn", b"N"),
        ("shape", numbers(9)),
        ("_backward_hooks", b"}"),
        ("__torch_function__", ENCODE),
        ("__torch_function__", SET),
        ("numpy", named("builtins", "bytearray")),
    ):
        what = value.split(b"\n")[1].decode() if value[:1] == b"c" else ""
        yield f"from_type slot {name} {what}".strip(), made(REBUILD, TENSOR, FOUR, slots(name, value))
    yield "from_type attributes", made(REBUILD, TENSOR, FOUR, attributes("numpy", SET))


def _of_build():
    size, counter, ordered = (
        named("torch", "Size"),
        named("collections", "Counter"),
        named("collections", "OrderedDict"),
    )
    parameter = named("torch._utils", "_rebuild_parameter")
    tensor = REBUILD + FOUR + b"R"
    for name, target, state in (
        ("Tensor class", TENSOR, slots("__add__", SET)),
        ("Tensor class attributes", TENSOR, attributes("foo", number(1))),
        ("Counter class", counter, slots("update", SET)),
        ("OrderedDict class", ordered, slots("update", SET)),
        ("Size class", size, slots("numel", SET)),
        ("function defaults", REBUILD, slots("__defaults__", numbers(1))),
        ("function attributes", REBUILD, attributes("x", number(1))),
        ("function code", REBUILD, slots("__code__", number(1))),
        ("function kwdefaults", parameter, slots("__kwdefaults__", attributes("requires_grad", number(1)))),
        ("dtype", named("torch", "float32"), slots("itemsize", number(1))),
        ("storage", storage(), slots("tensor", tensor)),
        ("device", named("torch", "device") + group(text("cpu")) + b"R", slots("type", text("x"))),
        ("tensor", tensor, slots("data", tensor)),
        ("tensor by set_", tensor, numbers(1, 2, 3)),
        ("OrderedDict", ordered + b")R", attributes("update", SET)),
    ):
        yield f"BUILD {name}", target + state + b"b"
    changed = storage() + slots("tensor", number(5)) + b"b"
    yield "BUILD storage of a tensor", rebuilt(0, (4,), (1,), changed)
    yield "BUILD storage method", rebuilt(0, (4,), (1,), storage() + attributes("window", SET) + b"b")


def _of_work():
    yield "BINBYTES", ENCODE + group(b"B" + struct.pack("<I", 10**6) + bytes(10**6), text("zlib")) + b"R"
    yield "encode idna", ENCODE + group(text("\u0590" * 2000), text("idna")) + b"R"
    for name in ("os", "../x", "antigravity"):
        yield f"encode {name}", ENCODE + group(text("a"), text(name)) + b"R"
    yield "set of lists", SET + group(b"]]a") + b"R"
    yield "bytearray of 1 TB", named("builtins", "bytearray") + numbers(2**40) + b"R"
    yield "POP", b"]q\x01h\x01a0h\x01"
    yield "Tensor of 2**60", TENSOR + numbers(2**60) + b"R"
    yield "Tensor of 64 GB", TENSOR + numbers(2**34) + b"R"
    yield "Tensor of -1", TENSOR + numbers(-1) + b"R"
    yield "Counter of 2**60", named("collections", "Counter") + group(b"}" + text("a") + number(2**60) + b"s") + b"R"
    yield "LONG4", b"\x8b" + struct.pack("<i", 2**27) + b"\xff" * 10
    yield "nested lists", b"]" * 200_000 + b"a" * 199_999
    yield "nested tuples", b")" + b"\x85" * 300_000
    yield "memo 2**31 - 1", b"Nr\xff\xff\xff\x7f"
    yield "memo 2**32 - 1", b"Nr\xff\xff\xff\xff"
    yield "FRAME", b"\x95" + struct.pack("<Q", 2**60) + b"N"
    yield "equal hashes", b"}(" + b"".join(number(i * (2**61 - 1)) + b"N" for i in range(1, 3000)) + b"u"
    yield "empty list", b"]"
    laughs = b"]q\x00Na" + b"".join(b"]q" + bytes([i]) + (b"h" + bytes([i - 1]) + b"a") * 10 for i in range(1, 40))
    yield "lists ten times in lists", laughs


def cases():
    """Checkpoints by name."""
    found = {}
    for part in (_of_globals, _of_storages, _of_sizes, _of_types, _of_build, _of_work):
        for name, pickle in part():
            assert name not in found, name
            found[name] = checkpoint(b"\x80\x02" + pickle + b".")
    found["rebuild odd bytes"] = checkpoint(b"\x80\x02" + rebuilt(0, (1,), (1,)) + b".", bytes(7))
    return found


def ending(torch, data):
    """How loading ends: "loaded", or the kind of the error and, of those of the machine, the reason."""
    try:
        torch.load(io.BytesIO(data))
    except Exception as error:
        kind = next(k for k in type(error).__mro__ if k.__module__ in ("builtins", "_pickle", "struct")).__name__
        reason = str(error).partition("\n\nCheck the documentation")[0].rpartition("\n")[2].partition(". ")[0].strip()
        return [kind, reason] if kind == "UnpicklingError" else [kind]
    return ["loaded"]


if __name__ == "__main__":
    import torch

    ends = {"made with": f"torch {torch.__version__}"}
    ends.update((name, ending(torch, data)) for name, data in cases().items())
    with open(sys.argv[1], "w") as f:
        json.dump(ends, f, indent=0)
