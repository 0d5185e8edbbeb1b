"""The reader of pickles for ``torch.load(weights_only=True)``.

A pickle is a program for a small stack machine. The machine of the standard library calls any function and changes any
object. The machine here knows the opcodes that ``torch.save`` writes and no others, and has an explicit list for each
opcode that could run code:

======== ==================================================================================================
GLOBAL   names in ``allowed`` or added by ``add_safe_globals``; nothing is imported, no attribute is looked up
REDUCE   calls what GLOBAL has pushed in this file, and nothing else
NEWOBJ   makes objects of the classes that GLOBAL has pushed
BUILD    sets the state of tensors, parameters, ordered dicts, and instances of those classes; never of a class
         or function
======== ==================================================================================================

Work and memory are bounded by a multiple of the size of the file: see ``_Budget``.
"""

import _compat_pickle
import collections
import itertools
import math
import pickle
import struct
import warnings

_BLOCKED_MODULES = ("sys", "os", "posix", "nt")


class Refused(pickle.UnpicklingError):
    """An error for an opcode, a name or a call that is not on a list.

    Its text is part of the error that the user sees.
    """


class Blocked(Refused):
    """An error for a name of a module that is always refused."""


class NotAllowed(Refused):
    """A name that the user may allow."""


def _file_name(lines):
    """Return the module and the full name of a global, with Python 2's names replaced by those of Python 3."""
    module, name = (line.decode("utf-8") for line in lines.split(b"\n"))
    if (module, name) in _compat_pickle.NAME_MAPPING:
        module, name = _compat_pickle.NAME_MAPPING[(module, name)]
    elif module in _compat_pickle.IMPORT_MAPPING:
        module = _compat_pickle.IMPORT_MAPPING[module]
    return module, f"{module}.{name}"


_CONTAINERS = (tuple, list, dict, set)


def _items(container):
    """Return the contents of a container, with the keys of a dict."""
    return itertools.chain(container, container.values()) if isinstance(container, dict) else container


def _shown(x):
    """Return `x` as errors show it. If the file determines the text, or the text is long, return only the type."""
    is_number = x is None or isinstance(x, float) or (isinstance(x, int) and x.bit_length() <= 64)
    is_short_text = isinstance(x, (str, bytes)) and len(x) <= 100
    return x if callable(x) or is_number or is_short_text else f"an instance of {type(x)}"


class _Budget:
    """A budget of a file for hashing, for calls and for memory that the file only claims, in proportion to its size.

    Hashing a tuple that contains another tuple twice takes twice the time with every level, and a deep one overflows
    the stack. Keys with equal hashes make each insertion take time in proportion to the number of keys. A class may be
    asked for any number of elements. If lists contain other lists ten times each, a function meets ten times as many
    items with every level.
    """

    _MAX_DEPTH = 500
    # The cost of a step of `_walk`, in comparisons of two numbers.
    _STEP = 16

    def __init__(self, size):
        self.work = 10_000_000 + 16 * size
        self.memory = (64 << 20) + 8 * size
        self._items = 100_000 + 4 * size
        self._crowds = {}

    def charge(self, amount):
        self.work -= amount
        if self.work < 0:
            raise pickle.UnpicklingError(
                "the keys and calls in this pickle take too much work for its size. The file might be corrupted."
            )

    def allocate(self, count):
        """Charge the bytes that a call asks for. Return whether there are enough."""
        self.memory -= max(count, 0)
        return self.memory >= 0

    def key(self, container, key):
        """Charge the insertion of a key that is neither a string nor a small number."""
        kind = type(key)
        if kind is str or kind is bytes or kind is bool or key is None:
            return
        if kind is int and -(1 << 60) < key < (1 << 60):
            return
        weight = self._walk(key) if isinstance(key, tuple) else 1
        h = hash(key)
        crowds = self._crowds.get(id(container))
        if crowds is None:
            # Keep the container, so that no other object gets its address.
            crowds = self._crowds[id(container)] = (container, {})
        n = crowds[1][h] = crowds[1].get(h, 0) + 1
        self.charge(n * weight)

    def call(self, args):
        """Charge a call for the items of its arguments. A container counts each time that it is met."""
        if not isinstance(args, _CONTAINERS) or not any(isinstance(a, _CONTAINERS) and a for a in args):
            return
        # The items of each container, once all of them are counted.
        counts, open_containers = {}, {id(args)}
        levels = [[args, iter(_items(args)), 1]]
        while levels:
            level = levels[-1]
            for item in level[1]:
                if not isinstance(item, _CONTAINERS):
                    level[2] += 1
                elif id(item) in counts:
                    level[2] += counts[id(item)]
                elif item is level[0]:
                    level[2] += 1
                elif id(item) in open_containers:
                    raise pickle.UnpicklingError(
                        "lists in this pickle contain each other. The file might be corrupted."
                    )
                else:
                    open_containers.add(id(item))
                    levels.append([item, iter(_items(item)), 1])
                    break
            else:
                container, _, count = levels.pop()
                counts[id(container)] = count
                open_containers.discard(id(container))
                if levels:
                    levels[-1][2] += count
        count = counts[id(args)]
        self.charge(count if count <= self._items else math.inf)

    def _walk(self, key):
        levels, weight = [iter(key)], 1
        while levels:
            for item in levels[-1]:
                self.charge(self._STEP)
                weight += 1
                if isinstance(item, tuple):
                    if len(levels) >= self._MAX_DEPTH:
                        raise pickle.UnpicklingError(
                            "a key in this pickle is nested too deeply. The file might be corrupted."
                        )
                    levels.append(iter(item))
                    break
            else:
                levels.pop()
        return weight


class Machine:
    """A machine that runs one pickle.

    Args:
        data (bytes): the pickle; what follows its end is ignored.
        allowed: a function of a full name that returns the object for it, or ``None``.
        persistent_load: a function of a tuple that returns a storage.
        build: a function ``(machine, instance, state)`` that sets the state of an instance, or raises :class:`Refused`.
        calls: replacements for objects when they are called: ``{id(object): function(machine, *args)}``.
        encoding: of the byte strings of Python 2.
        protocol: the newest protocol whose opcodes are known: 2, or 5 for the file ``.metadata`` of a distributed
            checkpoint.
    """

    def __init__(self, data, allowed, persistent_load, build, calls, encoding="ASCII", protocol=2):
        self._data = data
        self._allowed = allowed
        self._persistent_load = persistent_load
        self._build = build
        self._calls = calls
        self._encoding = encoding
        self._protocol = protocol
        self._stack = []
        self._marks = []
        self._memo = {}
        # What GLOBAL has pushed: by the lines that name it, and by its identity.
        self._found = {}
        self._pushed = {}
        self.budget = _Budget(len(data))

    def is_pushed(self, kind):
        """Return whether a class or function was named by this pickle and is allowed."""
        return self._pushed.get(id(kind)) is kind

    def call(self, function, args):
        """Do what the opcode REDUCE does.

        Raises:
            Refused: the function was not pushed by GLOBAL.
        """
        if self._pushed.get(id(function)) is not function:
            raise Refused(f"Trying to call reduce for unrecognized function {_shown(function)}")
        self.budget.call(args)
        bounded = self._calls.get(id(function))
        return function(*args) if bounded is None else bounded(self, *args)

    def _new(self, kind, args):
        if self._pushed.get(id(kind)) is not kind:
            raise Refused(
                "Can only create new object for nn.Parameter or classes allowlisted via `add_safe_globals` but got "
                f"{_shown(kind)}"
            )
        self.budget.call(args)
        if id(kind) in self._calls:
            # The bounded form makes the same object.
            return self._calls[id(kind)](self, *args)
        return kind.__new__(kind, *args)

    def _find(self, module, name):
        if module in _BLOCKED_MODULES:
            raise Blocked(f"Trying to load unsupported GLOBAL {name} whose module {module} is blocked.")
        found = self._allowed(name)
        if found is None:
            shown = name.removeprefix("builtins.")
            raise NotAllowed(
                f"Unsupported global: GLOBAL {shown} was not an allowed global by default. Please use "
                f"`torch.serialization.add_safe_globals([{shown}])` or the "
                f"`torch.serialization.safe_globals([{shown}])` context manager to allowlist this global if you trust "
                "this class/function."
            )
        self._pushed[id(found)] = found
        return found

    def run(self):
        """Return the object that the pickle describes.

        Raises:
            Refused: something that is on no list.
            EOFError: the pickle has no end.
            pickle.UnpicklingError: it is damaged.
        """
        data, at, end = self._data, 0, len(self._data)
        opcodes = _OPCODES if self._protocol == 2 else _NEWER_OPCODES
        push = Machine._push
        try:
            while at < end:
                op = data[at]
                if op == _STOP:
                    return self._pop()
                try:
                    read, do = opcodes[op]
                except KeyError:
                    raise Refused(f"Unsupported operand {op}") from None
                at += 1
                argument = None
                if read is not None:
                    argument, at = read(data, at)
                if do is push:
                    self._stack.append(argument)
                else:
                    do(self, argument)
        except (struct.error, UnicodeDecodeError) as error:
            raise pickle.UnpicklingError(f"pickle data was truncated or damaged: {error}") from None
        raise EOFError("Ran out of input")

    # ---- the stack

    def _push(self, item):
        self._stack.append(item)

    def _pop(self):
        if not self._stack:
            raise pickle.UnpicklingError("unpickling stack underflow")
        return self._stack.pop()

    def _top(self, count=1):
        """Return the last item of a stack of at least `count` items."""
        if len(self._stack) < count:
            raise pickle.UnpicklingError("unpickling stack underflow")
        return self._stack[-1]

    def _mark(self, _):
        self._marks.append(self._stack)
        self._stack = []

    def _pop_mark(self):
        """Return the items since the last mark."""
        if not self._marks:
            raise pickle.UnpicklingError("could not find MARK")
        items, self._stack = self._stack, self._marks.pop()
        return items

    # ---- what opcodes do: each method takes the argument of the opcode

    def _ignore(self, _):
        pass

    def _check_protocol(self, protocol):
        if self._protocol > 2:
            if protocol > self._protocol:
                raise pickle.UnpicklingError(f"unsupported pickle protocol: {protocol}")
        elif protocol != 2:
            warnings.warn(
                f"Detected pickle protocol {protocol} in the checkpoint, which was not the default pickle "
                "protocol used by `torch.load` (2). The weights_only Unpickler might not support all "
                "instructions implemented by this protocol, please file an issue for adding support if you "
                "encounter this.",
                stacklevel=5,
            )

    def _get(self, index):
        try:
            self._stack.append(self._memo[index])
        except KeyError:
            raise pickle.UnpicklingError(f"Memo value not found at index {index}") from None

    def _put(self, index):
        self._memo[index] = self._top()

    def _memoize(self, _):
        self._memo[len(self._memo)] = self._top()

    def _push_text(self, text):
        self._stack.append(str(text, "utf-8", "surrogatepass"))

    def _push_old_text(self, text):
        self._stack.append(text if self._encoding == "bytes" else text.decode(self._encoding, "strict"))

    def _push_int(self, digits):
        self._stack.append(int.from_bytes(digits, "little", signed=True))

    def _push_tuple(self, count):
        self._top(count)
        self._stack[-count:] = [tuple(self._stack[-count:])]

    def _push_marked_tuple(self, _):
        items = tuple(self._pop_mark())
        self._stack.append(items)

    def _append(self, _):
        item = self._pop()
        self._list("append to").append(item)

    def _extend(self, _):
        items = self._pop_mark()
        self._list("extend").extend(items)

    def _list(self, verb):
        found = self._top()
        if type(found) is not list:
            raise Refused(f"Can only {verb} lists, but got {type(found)}")
        return found

    def _add_items(self, _):
        items = self._pop_mark()
        target = self._top()
        if type(target) is not set:
            raise Refused(f"Can only add to sets, but got {type(target)}")
        for item in items:
            self.budget.key(target, item)
            target.add(item)

    def _set_item(self, _):
        value, key = self._pop(), self._pop()
        self._insert(self._top(), (key, value), "SETITEM")

    def _set_items(self, _):
        items = self._pop_mark()
        self._insert(self._top(), items, "SETITEMS")

    def _insert(self, target, items, opcode):
        kind = type(target)
        if kind is not dict and kind is not collections.OrderedDict and kind is not collections.Counter:
            raise Refused(f"Can only {opcode} for dict, collections.OrderedDict, collections.Counter, but got {kind}")
        charge = self.budget.key
        if len(items) % 2:
            raise pickle.UnpicklingError("odd number of items for SETITEMS")
        for key, value in zip(itertools.islice(items, 0, None, 2), itertools.islice(items, 1, None, 2)):
            if type(key) is not str:
                charge(target, key)
            target[key] = value

    def _load_storage(self, _):
        saved = self._pop()
        if type(saved) is not tuple and type(saved) is not int:
            raise Refused(f"persistent_load id must be tuple or int, but got {type(saved)}")
        if type(saved) is tuple and saved and saved[0] != "storage" and saved[0] != b"storage":
            raise Refused(f"Only persistent_load of storage is allowed, but got {type(saved[0])}")
        self.budget.call(saved)
        self._stack.append(self._persistent_load(saved))

    def _push_global(self, lines):
        found = self._found.get(lines)
        if found is None:
            found = self._found[lines] = self._find(*_file_name(lines))
        self._stack.append(found)

    def _push_named(self, _):
        name, module = self._pop(), self._pop()
        if type(name) is not str or type(module) is not str:
            raise pickle.UnpicklingError("STACK_GLOBAL requires str")
        self._stack.append(self._find(module, f"{module}.{name}"))

    def _reduce(self, _):
        args = self._pop()
        function = self._pop()
        self._stack.append(self.call(function, args))

    def _new_object(self, _):
        args = self._pop()
        kind = self._pop()
        self._stack.append(self._new(kind, args))

    def _set_state(self, _):
        state = self._pop()
        self._build(self, self._top(), state)


# ---- arguments of opcodes: functions of the pickle and a position, which return the argument and the position after it


def _byte(data, at):
    return (data[at] if at < len(data) else 0), at + 1


def _number(layout):
    """Return a reader of a number that has a layout of the module `struct`."""
    unpack, size = struct.Struct(layout).unpack_from, struct.calcsize(layout)
    return lambda data, at: (unpack(data, at)[0], at + size)


def _bytes(width):
    """Return a reader of bytes that follow their number, an integer of `width` bytes."""

    def read(data, at):
        start = at + width
        end = start + int.from_bytes(data[at:start], "little")
        return data[start:end], end

    return read


def _text(data, at):
    """Read bytes that follow their number. Unlike `_bytes`, raise an error if the number is not there in full."""
    n, at = _uint32(data, at)
    return data[at : at + n], at + n


def _lines(data, at):
    """Read the two lines that name a global."""
    middle = data.find(b"\n", at)
    end = data.find(b"\n", middle + 1) if middle >= 0 else -1
    if end < 0:
        raise EOFError("Ran out of input")
    return data[at:end], end + 1


def _fixed(value):
    """Return a reader of nothing whose argument is always `value`."""
    return lambda data, at: (value, at)


def _fresh(kind):
    """Return a reader of nothing whose argument is a new object."""
    return lambda data, at: (kind(), at)


_uint32 = _number("<I")
_STOP = pickle.STOP[0]

# The argument of each opcode, if it has one, and what the machine does.
_OPCODES = {
    opcode[0]: (argument, do)
    for opcode, argument, do in (
        (pickle.PROTO, _byte, Machine._check_protocol),
        (pickle.MARK, None, Machine._mark),
        (pickle.BINGET, _byte, Machine._get),
        (pickle.LONG_BINGET, _uint32, Machine._get),
        (pickle.BINPUT, _byte, Machine._put),
        (pickle.LONG_BINPUT, _uint32, Machine._put),
        (pickle.NONE, _fixed(None), Machine._push),
        (pickle.NEWTRUE, _fixed(True), Machine._push),
        (pickle.NEWFALSE, _fixed(False), Machine._push),
        (pickle.BININT, _number("<i"), Machine._push),
        (pickle.BININT1, _byte, Machine._push),
        (pickle.BININT2, _number("<H"), Machine._push),
        (pickle.LONG1, _bytes(1), Machine._push_int),
        (pickle.BINFLOAT, _number(">d"), Machine._push),
        (pickle.BINUNICODE, _text, Machine._push_text),
        (pickle.SHORT_BINSTRING, _bytes(1), Machine._push_old_text),
        (pickle.EMPTY_TUPLE, _fixed(()), Machine._push),
        (pickle.TUPLE1, _fixed(1), Machine._push_tuple),
        (pickle.TUPLE2, _fixed(2), Machine._push_tuple),
        (pickle.TUPLE3, _fixed(3), Machine._push_tuple),
        (pickle.TUPLE, None, Machine._push_marked_tuple),
        (pickle.EMPTY_LIST, _fresh(list), Machine._push),
        (pickle.APPEND, None, Machine._append),
        (pickle.APPENDS, None, Machine._extend),
        (pickle.EMPTY_DICT, _fresh(dict), Machine._push),
        (pickle.SETITEM, None, Machine._set_item),
        (pickle.SETITEMS, None, Machine._set_items),
        (pickle.EMPTY_SET, _fresh(set), Machine._push),
        (pickle.GLOBAL, _lines, Machine._push_global),
        (pickle.REDUCE, None, Machine._reduce),
        (pickle.NEWOBJ, None, Machine._new_object),
        (pickle.BUILD, None, Machine._set_state),
        (pickle.BINPERSID, None, Machine._load_storage),
    )
}
# Those of protocols 3 to 5 too.
_NEWER_OPCODES = _OPCODES | {
    opcode[0]: (argument, do)
    for opcode, argument, do in (
        (pickle.FRAME, lambda data, at: (None, at + 8), Machine._ignore),
        (pickle.MEMOIZE, None, Machine._memoize),
        (pickle.SHORT_BINUNICODE, _bytes(1), Machine._push_text),
        (pickle.BINUNICODE8, _bytes(8), Machine._push_text),
        (pickle.SHORT_BINBYTES, _bytes(1), Machine._push),
        (pickle.BINBYTES, _bytes(4), Machine._push),
        (pickle.BINBYTES8, _bytes(8), Machine._push),
        (pickle.ADDITEMS, None, Machine._add_items),
        (pickle.STACK_GLOBAL, None, Machine._push_named),
    )
}


def scan(data):
    """Return the full names of all globals in a pickle, which is not run, and the position of its end.

    Raises:
        Refused: an opcode that ``load`` refuses.
        EOFError: the pickle has no end here.
    """
    names, at, end = {}, 0, len(data)
    while at < end:
        op = data[at]
        if op == _STOP:
            return list(names), at + 1
        if op not in _OPCODES:
            raise Refused(f"Unsupported operand {op}")
        at += 1
        read = _OPCODES[op][0]
        if read is None:
            continue
        try:
            argument, at = read(data, at)
        except struct.error:
            break
        if op == pickle.GLOBAL[0]:
            names[_file_name(argument)[1]] = None
    raise EOFError("Ran out of input")
