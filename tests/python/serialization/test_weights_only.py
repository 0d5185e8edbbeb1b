"""`torch.load(weights_only=True)`: hostile files fail, and `get_unsafe_globals_in_checkpoint` lists names."""

import collections
import copyreg
import importlib.util
import io
import json
import os
import pathlib
import pickle
import resource
import struct
import time
import warnings
import zipfile

import pytest

import pytpu as torch
from pytpu import serialization

HERE = pathlib.Path(__file__).parents[1]


def attack(name):
    """Import a program of `tests/attack`."""
    spec = importlib.util.spec_from_file_location(name, HERE.parent / "attack" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


hostile = attack("hostile_pickles")
ENDS = json.loads((HERE / "goldens" / "weights_only.json").read_text())
CASES = hostile.cases()


def load(pickle_, **kwargs):
    return torch.load(io.BytesIO(hostile.checkpoint(b"\x80\x02" + pickle_ + b".")), **kwargs)


def shared_state():
    """Return the state of classes and functions that no file may change."""
    classes = (
        torch.Tensor,
        torch.Size,
        torch.nn.Parameter,
        torch.device,
        torch.dtype,
        torch.UntypedStorage,
        torch.TypedStorage,
        collections.Counter,
        collections.OrderedDict,
        set,
    )
    functions = [f for f in serialization._SAFE.values() if hasattr(f, "__code__")]
    return (
        [dict(vars(c)) for c in classes],
        [(f.__code__, f.__defaults__, f.__kwdefaults__, dict(vars(f))) for f in functions],
        sorted(os.listdir()),
    )


@pytest.fixture
def bounded(tmp_path, monkeypatch):
    """Provide an empty folder, at most 8 GB of address space, and `os.system` registered with `copyreg`."""
    monkeypatch.chdir(tmp_path)
    torch.load(io.BytesIO(CASES["empty list"]))
    copyreg.add_extension("posix", "system", 0xF0)
    pickle.loads(pickle.dumps(os.system, 2))
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)
    copyreg.remove_extension("posix", "system", 0xF0)
    copyreg.clear_extension_cache()


def test_hostile_pickles_end_as_in_pytorch(bounded):
    assert set(ENDS) - {"made with"} == set(CASES)
    wrong = {}
    for name, data in CASES.items():
        state, start = shared_state(), time.process_time()
        end, want = hostile.ending(torch, data), ENDS[name]
        if name == "rebuild nine dimensions" and end == ["RuntimeError"]:
            # A build with at most eight dimensions refuses the file.
            assert "dims" in _message(data)
        elif end != want:
            wrong[name] = end, want
        assert shared_state() == state, name
        assert time.process_time() - start < 10, name
    assert wrong == {}


def _message(data):
    try:
        torch.load(io.BytesIO(data))
    except RuntimeError as error:
        return str(error)
    return None


def test_a_file_cannot_replace_methods_of_tensors():
    for name in ("backward", "__add__", "grad", "requires_grad", "shape", "__torch_function__"):
        before = torch.Tensor.__dict__.get(name)
        with pytest.raises(
            pickle.UnpicklingError, match="Can only build Tensor, Parameter, OrderedDict or types allowlisted"
        ):
            load(hostile.TENSOR + hostile.slots(name, hostile.SET) + b"b")
        assert torch.Tensor.__dict__.get(name) is before


def test_words_of_refusals():
    with pytest.raises(pickle.UnpicklingError) as e:
        load(hostile.named("somewhere", "thing"))
    assert str(e.value) == (
        "Weights only load failed. This file can still be loaded, to do so you have two options, \033[1mdo those "
        "steps only if you trust the source of the checkpoint\033[0m. \n\t(1) In PyTorch 2.6, we changed the default "
        "value of the `weights_only` argument in `torch.load` from `False` to `True`. Re-running `torch.load` with "
        "`weights_only` set to `False` will likely succeed, but it can result in arbitrary code execution. Do it only "
        "if you got the file from a trusted source.\n\t(2) Alternatively, to load with `weights_only=True` please "
        "check the recommended steps in the following error message.\n\tWeightsUnpickler error: Unsupported global: "
        "GLOBAL somewhere.thing was not an allowed global by default. Please use "
        "`torch.serialization.add_safe_globals([somewhere.thing])` or the "
        "`torch.serialization.safe_globals([somewhere.thing])` context manager to allowlist this global if you trust "
        "this class/function.\n\nCheck the documentation of torch.load to learn more about types accepted by default "
        "with weights_only https://pytorch.org/docs/stable/generated/torch.load.html."
    )
    with pytest.raises(
        pickle.UnpicklingError, match="Trying to load unsupported GLOBAL sys.exit whose module sys is blocked."
    ):
        load(hostile.named("sys", "exit"))
    with pytest.raises(
        pickle.UnpicklingError, match="WeightsUnpickler error: \n\nUnsupported operand 105\n\nCheck the documentation"
    ):
        load(b"(ios\nsystem\n")
    with pytest.raises(pickle.UnpicklingError, match="Trying to call reduce for unrecognized function 5"):
        load(b"K\x05)R")
    with pytest.raises(
        pickle.UnpicklingError, match="Can only create new object for nn.Parameter or classes allowlisted .* but got 5"
    ):
        load(b"K\x05)\x81")
    with pytest.raises(pickle.UnpicklingError, match="Can only append to lists, but got <class 'dict'>"):
        load(b"}K\x05a")
    with pytest.raises(pickle.UnpicklingError, match="Can only extend lists, but got <class 'dict'>"):
        load(b"}(K\x05e")
    with pytest.raises(
        pickle.UnpicklingError, match="Can only SETITEM for dict, collections.OrderedDict, collections.Counter, but got"
    ):
        load(b"]K\x00K\x05s")


OPCODES = b"().GJKMNQRUX]abcehjqrstu}\x80\x81\x85\x86\x87\x88\x89\x8a\x8f"


def test_opcodes_are_those_of_pytorch():
    for op in range(256):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                load(bytes([op]) + b"N")
            text = ""
        except Exception as error:
            text = str(error)
        assert (f"Unsupported operand {op}\n" in text) == (op not in OPCODES), op


@pytest.mark.parametrize("cut", range(0, 60, 3))
def test_a_pickle_that_ends_early_is_refused(cut):
    pickle_ = b"\x80\x02" + hostile.rebuilt(0, (4,), (1,)) + b"."
    with pytest.raises((EOFError, pickle.UnpicklingError)):
        torch.load(io.BytesIO(hostile.checkpoint(pickle_[: len(pickle_) - 1 - cut])))


def test_unknown_protocols_warn():
    with pytest.warns(
        UserWarning,
        match="Detected pickle protocol 3 in the checkpoint, which was not the default pickle protocol used by",
    ):
        assert torch.load(io.BytesIO(hostile.checkpoint(b"\x80\x03N."))) is None


# ---- classes that the user allows


class Point:
    def __init__(self, *arguments):
        self.arguments = arguments


class Stateful:
    def __setstate__(self, state):
        self.state = state


class Slotted:
    __slots__ = ("x",)


def test_allowed_classes_are_made_and_built():
    def named(kind):
        return hostile.named(kind.__module__, kind.__qualname__)

    with torch.serialization.safe_globals([Point, Stateful, Slotted]):
        assert load(named(Point) + b"K\x01\x85R").arguments == (1,)
        made = load(named(Point) + b")\x81" + hostile.attributes("x", b"K\x05") + b"b")
        assert type(made) is Point and vars(made) == {"x": 5}
        assert load(named(Stateful) + b")\x81" + hostile.attributes("x", b"K\x05") + b"b").state == {"x": 5}
        assert load(named(Slotted) + b")\x81" + hostile.slots("x", b"K\x05") + b"b").x == 5
        for kind in (Point, Stateful):
            with pytest.raises(pickle.UnpicklingError, match="Can only build"):
                load(named(kind) + hostile.attributes("__init__", hostile.SET) + b"b")
    with pytest.raises(pickle.UnpicklingError, match="was not an allowed global by default"):
        load(named(Point) + b")R")


def test_arrays_are_read_when_numpy_is_allowed():
    import numpy as np

    file = io.BytesIO()
    torch.save({"a": np.arange(3.0), "x": np.float64(2.5)}, file)
    core = np._core if hasattr(np, "_core") else np.core
    allowed = [core.multiarray._reconstruct, core.multiarray.scalar, np.ndarray, np.dtype, np.dtypes.Float64DType]
    file.seek(0)
    with torch.serialization.safe_globals(allowed):
        back = torch.load(file)
    assert back["a"].tolist() == [0, 1, 2] and back["x"] == 2.5 and type(back["x"]) is np.float64
    file.seek(0)
    with (
        torch.serialization.safe_globals(allowed[:-1]),
        pytest.raises(pickle.UnpicklingError, match="Can only build .*Float64DType"),
    ):
        torch.load(file)


def test_blocked_modules_cannot_be_allowed():
    with (
        torch.serialization.safe_globals([os.system]),
        pytest.raises(pickle.UnpicklingError, match="whose module posix is blocked"),
    ):
        load(hostile.named("posix", "system") + hostile.group(hostile.text("true")) + b"R")


def test_plain_containers_of_tensors_come_back(device):
    x = torch.arange(6.0, device=device).reshape(2, 3)
    made = {
        "tensor": x,
        "view": x[:, 1],
        "parameter": torch.nn.Parameter(x.clone()),
        "list": [1, -2, 3.5, "é\U0001f600", None, True, 2**70, -1],
        "bytes": b"\x00\xff",
        "array": bytearray(b"ab"),
        "set": {1, 2},
        "complex": 1 + 2j,
        "tuple": ((), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)),
        "counter": collections.Counter("aab"),
        "ordered": collections.OrderedDict(a=1),
        "size": x.shape,
        "dtype": torch.bfloat16,
        "device": torch.device("cpu"),
        (1, "key"): 0,
        2**65: 1,
    }
    file = io.BytesIO()
    torch.save(made, file)
    file.seek(0)
    back = torch.load(file)
    for key, value in made.items():
        if isinstance(value, torch.Tensor):
            assert torch.equal(back.pop(key), value) and value.device.type == device
    assert back == {k: v for k, v in made.items() if not isinstance(v, torch.Tensor)}
    assert type(back["size"]) is torch.Size and type(back["counter"]) is collections.Counter


# ---- the checker


def evasions():
    call = hostile.group(hostile.text("true")) + b"R"
    system, text = hostile.named("posix", "system"), hostile.text
    memoised = (
        text("posix") + b"\x940" + text("system") + b"\x940" + text("torch") + b"0" + text("Size") + b"0h\x00h\x01\x93"
    )
    return {
        "GLOBAL": system + call,
        "INST": b"(" + text("true") + b"iposix\nsystem\n",
        "memoised": memoised + call,
        "STACK_GLOBAL": text("posix") + text("system") + b"\x93" + call,
        "EXT": b"\x82\xf0" + call,
        "short strings": text("torch") + b"0" + text("Size") + b"0" + b"\x8c\x05posix\x8c\x06system\x93" + call,
    }


@pytest.mark.parametrize("has_decoy", [False, True])
@pytest.mark.parametrize("form", evasions())
def test_the_checker_is_not_evaded(form, has_decoy):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as z:
        if has_decoy:
            z.writestr("a/b/data.pkl", b"\x80\x02}.")
        z.writestr("a/data.pkl", b"\x80\x02" + evasions()[form] + b".")
        z.writestr("a/version", "3")
    file.seek(0)
    try:
        assert torch.serialization.get_unsafe_globals_in_checkpoint(file) == ["posix.system"] and form == "GLOBAL"
    except pickle.UnpicklingError as error:
        assert str(error).startswith("Unsupported operand") and form != "GLOBAL"


def test_the_checker_names_globals(tmp_path):
    path = tmp_path / "a.pt"
    torch.save({"p": Point(), "o": collections.OrderedDict(), "f": len}, path)
    assert torch.serialization.get_unsafe_globals_in_checkpoint(path) == [f"{__name__}.Point", "builtins.len"]
    with torch.serialization.safe_globals([Point]):
        assert torch.serialization.get_unsafe_globals_in_checkpoint(path) == ["builtins.len"]
    torch.save(1, path, _use_new_zipfile_serialization=False)
    with pytest.raises(ValueError, match="Expected input to be a checkpoint returned by torch.save"):
        torch.serialization.get_unsafe_globals_in_checkpoint(path)


def test_two_files_of_one_name_are_refused():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as z, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for pickle_ in (b"\x80\x02}.", b"\x80\x02cposix\nsystem\n."):
            z.writestr("a/data.pkl", pickle_)
        z.writestr("a/version", "3")
    for call in (torch.load, torch.serialization.get_unsafe_globals_in_checkpoint):
        file.seek(0)
        with pytest.raises(RuntimeError, match="two files have the same name"):
            call(file)


# ---- the environment


@pytest.mark.parametrize("value", ["1", "y", "yes", "true", "TRUE"])
def test_the_environment_forces_weights_only(monkeypatch, value):
    file = io.BytesIO()
    torch.save(Point(), file)
    file.seek(0)
    monkeypatch.setenv("TORCH_FORCE_WEIGHTS_ONLY_LOAD", value)
    with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
        torch.load(file, weights_only=False)
    monkeypatch.setenv("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "0")
    file.seek(0)
    assert type(torch.load(file, weights_only=False)) is Point


def test_the_environment_changes_the_default(monkeypatch):
    file = io.BytesIO()
    torch.save(Point(), file)
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    file.seek(0)
    with pytest.warns(
        UserWarning,
        match="TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD detected, since the`weights_only` argument was not explicitly",
    ):
        assert type(torch.load(file)) is Point
    file.seek(0)
    with pytest.raises(pickle.UnpicklingError):
        torch.load(file, weights_only=True)
    monkeypatch.setenv("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "1")
    with pytest.raises(
        RuntimeError,
        match="Only one of `TORCH_FORCE_WEIGHTS_ONLY_LOAD` or `TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD` should be set",
    ):
        torch.load(file)


def test_a_pickle_module_needs_trust():
    file = io.BytesIO()
    torch.save({"a": torch.ones(2), "p": Point()}, file)
    file.seek(0)
    assert torch.load(file, pickle_module=pickle)["a"].tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="Can not safely load weights when explicit pickle_module is specified"):
        torch.load(file, pickle_module=pickle, weights_only=True)


# ---- bounded work


def keys():
    deep = b"})" + b"\x85" * 300_000 + b"Ns"
    doubled = b")q\x00" + b"".join(
        b"(h" + bytes([i - 1]) + b"h" + bytes([i - 1]) + b"tq" + bytes([i]) for i in range(1, 40)
    )
    equal = b"".join(hostile.number(i * (2**61 - 1)) for i in range(1, 70_000))
    pairs = b"".join(hostile.number(i * (2**61 - 1)) + b"N" for i in range(1, 70_000))
    return {
        "deep": deep,
        "doubled": doubled + b"}h\x27Ns",
        "doubled in a set": doubled + hostile.SET + b"]h\x27a\x85R",
        "equal hashes": b"}(" + pairs + b"u",
        "equal hashes in a set": hostile.SET + b"](" + equal + b"e\x85R",
    }


@pytest.mark.parametrize("form", keys())
def test_keys_cannot_take_all_time(form):
    start = time.process_time()
    with pytest.raises(pickle.UnpicklingError, match="nested too deeply|too much work for its size"):
        load(keys()[form])
    assert time.process_time() - start < 10


def test_calls_cannot_take_all_memory():
    many = b"(" + (hostile.named("builtins", "bytearray") + hostile.number(2**26) + b"\x85R") * 100 + b"t"
    with pytest.raises(MemoryError):
        load(many)
    with pytest.raises(RuntimeError, match="can't allocate memory"):
        load(b"(" + (hostile.TENSOR + hostile.numbers(2**24) + b"R") * 100 + b"t")
    doubling = (hostile.ENCODE + b"(") * 40 + hostile.text("a" * 1000) + hostile.text("latin1") + b"tR"
    with pytest.raises(pickle.UnpicklingError, match="characters are too many for the encoding"):
        load(doubling + (hostile.text("hex_codec") + b"tR") * 39)
    with pytest.raises(pickle.UnpicklingError, match="characters are too many for the encoding 'punycode'"):
        load(hostile.ENCODE + hostile.group(hostile.text("\u0590" * 300_000), hostile.text("punycode")) + b"R")


def _ten_times(opcode, levels):
    """Return a pickle of nested lists or tuples, each with ten references to the previous one, and the opcode that
    reads the last.
    """
    made = b"("
    for i in range(levels):
        items = (b"K\x01" if i == 0 else b"h" + bytes([i - 1])) * 10
        made += b"](" + items + b"eq" + bytes([i]) if opcode == "list" else b"(" + items + b"tq" + bytes([i])
    return made + b"t", b"h" + bytes([levels - 1])


@pytest.mark.parametrize("kind", ["list", "tuple"])
@pytest.mark.parametrize("levels", [8, 30])
def test_arguments_that_hold_one_another_cannot_take_all_time(kind, levels, bounded):
    made, bomb = _ten_times(kind, levels)
    cpu, float_storage = hostile.text("cpu"), hostile.named("torch", "FloatStorage")
    cases = {
        "function": bomb + b")R",
        "class": bomb + b")\x81",
        "function of a type": hostile.FROM_TYPE + hostile.group(bomb, hostile.TENSOR, hostile.FOUR, b"}") + b"R",
        "elements": hostile.TENSOR + hostile.group(bomb) + b"R",
        "new elements": hostile.named("torch", "FloatTensor") + hostile.group(bomb) + b"\x81",
        "elements of a storage": hostile.named("torch.storage", "TypedStorage") + hostile.group(bomb) + b"R",
        "encoding": hostile.ENCODE + hostile.group(hostile.text("a" * 20_000), bomb) + b"R",
        "layout": hostile.named("torch.serialization", "_get_layout") + hostile.group(bomb) + b"R",
        "storage type": hostile.group(hostile.text("storage"), bomb, hostile.text("0"), cpu, hostile.number(4)) + b"Q",
        "storage key": hostile.group(hostile.text("storage"), float_storage, bomb, cpu, hostile.number(4)) + b"Q",
        "storage size": hostile.group(hostile.text("storage"), float_storage, hostile.text("0"), cpu, bomb) + b"Q",
    }
    for name, case in cases.items():
        start = time.process_time()
        with pytest.raises(pickle.UnpicklingError) as error:
            load(made + case)
        assert time.process_time() - start < 5 and len(str(error.value)) < 10_000, name


def test_arguments_that_hold_one_another_in_a_circle_are_refused():
    circle = b"(]q\x00]q\x01h\x00aat"
    with pytest.raises(pickle.UnpicklingError, match="contain each other"):
        load(circle + hostile.TENSOR + hostile.group(b"h\x00") + b"R")


def test_compressed_bombs_are_refused(tmp_path):
    path = tmp_path / "bomb.pt"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as z:
        z.writestr("a/version", "3")
        z.writestr(
            "a/data.pkl", b"\x80\x02" + hostile.rebuilt(0, (100 << 20,), (1,), hostile.storage(count=100 << 20)) + b"."
        )
        with z.open("a/data/0", "w", force_zip64=True) as f:
            for _ in range(400):
                f.write(bytes(1 << 20))
    with pytest.raises(RuntimeError, match="compressed bytes become 419430400, which is refused"):
        torch.load(path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr("a/version", "3")
        z.writestr("a/data.pkl", b"\x80\x02(" + b"\x8f" * (20 << 20) + b"t.")
    with pytest.raises(RuntimeError, match="which is refused"):
        torch.load(path)


def test_compressed_checkpoints_are_read():
    x, plain, packed = torch.arange(1000.0), io.BytesIO(), io.BytesIO()
    torch.save({"x": x}, plain)
    with zipfile.ZipFile(plain) as z, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as other:
        for name in z.namelist():
            other.writestr(name, z.read(name))
    packed.seek(0)
    assert torch.equal(torch.load(packed)["x"], x)


def test_false_sizes_in_old_files_are_refused():
    head = b"".join(pickle.dumps(p, 2) for p in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}))
    for count in (2**31, 2**60, -1, 2**70):
        saved = (
            hostile.group(
                hostile.text("storage"),
                hostile.named("torch", "FloatStorage"),
                hostile.text("0"),
                hostile.text("cpu"),
                hostile.number(count),
                b"N",
            )
            + b"Q"
        )
        objects = b"\x80\x02" + hostile.rebuilt(0, (1,), (1,), saved) + b"."
        with pytest.raises((RuntimeError, TypeError), match="unexpected EOF|must be an int that is not negative"):
            torch.load(io.BytesIO(head + objects + pickle.dumps(["0"], 2) + struct.pack("<Q", 4)))


def test_archives_with_overlapping_members_are_refused():
    n, names = 1 << 16, [f"a/data/{i}" for i in range(40)]
    file = io.BytesIO()
    storages = b"".join(hostile.storage(str(i), count=n // 4) for i in range(40))
    with zipfile.ZipFile(file, "w") as z:
        z.writestr("a/version", "3")
        z.writestr("a/data.pkl", b"\x80\x02(" + storages + b"t.")
        z.writestr(names[0], bytes(n))
        for name in names[1:]:
            info = zipfile.ZipInfo(name)
            first = z.getinfo(names[0])
            info.header_offset, info.file_size, info.compress_size, info.CRC = first.header_offset, n, n, first.CRC
            z.filelist.append(info)
            z.NameToInfo[name] = info
    file.seek(0)
    with pytest.raises(RuntimeError, match="it is larger than the archive"):
        torch.load(file)


def test_a_large_state_dict_is_read_in_time():
    file = io.BytesIO()
    torch.save({f"layer.{i}.weight": torch.ones(4, 4) for i in range(5000)}, file)
    file.seek(0)
    start = time.process_time()
    assert len(torch.load(file)) == 5000
    # It takes 0.3 s, and the C unpickler 0.27 s.
    assert time.process_time() - start < 5


def test_numbers_of_conjugated_views_are_not_lost():
    # PyTorch keeps the bits of such views in the file.
    for bit, want in (("conj", [1 - 2j]), ("neg", [-1 - 2j])):
        memory = hostile.storage(dtype="ComplexFloatStorage", count=1)
        tensor = (
            hostile.REBUILD
            + hostile.group(
                memory,
                hostile.number(0),
                hostile.numbers(1),
                hostile.numbers(1),
                b"\x89",
                b"}",
                hostile.attributes(bit, b"\x88"),
            )
            + b"R"
        )
        data = struct.pack("<2f", 1, 2)
        got = torch.load(io.BytesIO(hostile.checkpoint(b"\x80\x02" + tensor + b".", data)))
        assert got.tolist() == want


def test_odd_arguments_of_parameters_are_refused():
    tensor = hostile.REBUILD + hostile.FOUR + b"R"
    for requires_grad in (tensor, b"K\x01", b"N"):
        with pytest.raises(RuntimeError, match="requires_grad must be a bool"):
            load(
                hostile.named("torch._utils", "_rebuild_parameter") + hostile.group(tensor, requires_grad, b"}") + b"R"
            )


def test_sizes_of_text_in_old_files_are_not_believed(tmp_path):
    head = b"".join(pickle.dumps(p, 2) for p in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}))
    path = tmp_path / "old"
    path.write_bytes(head + b"\x80\x02X\xff\xff\xff\x7fabc.")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(EOFError):
        torch.load(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000
    path.write_bytes(head + b"\x80\x02(ios\nsystem\n.")
    with pytest.raises(pickle.UnpicklingError, match="Weights only load failed(.|\n)*Unsupported operand 105"):
        torch.load(path)


def test_an_old_file_larger_than_the_first_read_is_read():
    file, made = io.BytesIO(), {f"name {i}": torch.tensor(i) for i in range(3000)}
    torch.save(made, file, _use_new_zipfile_serialization=False)
    file.seek(0)
    assert torch.load(file) == made
