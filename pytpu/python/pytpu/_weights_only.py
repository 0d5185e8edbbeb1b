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

# Opcodes with an argument, for the reader of names: the number of bytes that follow, or the width of the size before
# the argument.
_FIXED = {0x47: 8, 0x4A: 4, 0x4B: 1, 0x4D: 2, 0x68: 1, 0x6A: 4, 0x71: 1, 0x72: 4, 0x80: 1}
_SIZED = {0x55: 1, 0x58: 4, 0x8A: 1}
_BARE = frozenset(b"().NQR]abestu}\x81\x85\x86\x87\x88\x89\x8f")
_GLOBAL = 0x63
_STOP = 0x2E


class Refused(pickle.UnpicklingError):
    """An error for an opcode, a name or a call that is not on a list.

    Its text is part of the error that the user sees.
    """


class Blocked(Refused):
    """An error for a name of a module that is always refused."""


class NotAllowed(Refused):
    """A name that the user may allow."""


def _file_name(module, name):
    """Return the full name of a global, with Python 2's names replaced by those of Python 3."""
    if (module, name) in _compat_pickle.NAME_MAPPING:
        module, name = _compat_pickle.NAME_MAPPING[(module, name)]
    elif module in _compat_pickle.IMPORT_MAPPING:
        module = _compat_pickle.IMPORT_MAPPING[module]
    return module, f"{module}.{name}"


def _line(data, start):
    end = data.find(b"\n", start)
    if end < 0:
        raise EOFError("Ran out of input")
    return data[start:end].decode("utf-8"), end + 1


def _global(data, start):
    """Return the module and the full name after a GLOBAL opcode, and the position of the next opcode."""
    module, start = _line(data, start)
    name, start = _line(data, start)
    return *_file_name(module, name), start


def scan(data):
    """Return the full names of all globals in a pickle, which is not run, and the position of its end.

    Raises:
        Refused: an opcode that ``load`` refuses.
        EOFError: the pickle has no end here.
    """
    names, at, end = {}, 0, len(data)
    while at < end:
        op = data[at]
        at += 1
        if op in _FIXED:
            at += _FIXED[op]
        elif op in _SIZED:
            width = _SIZED[op]
            at += width + int.from_bytes(data[at : at + width], "little")
        elif op == _GLOBAL:
            _, name, at = _global(data, at)
            names[name] = None
        elif op == _STOP:
            return list(names), at
        elif op not in _BARE:
            raise Refused(f"Unsupported operand {op}")
    raise EOFError("Ran out of input")


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

    def _set_items(self, target, items, opcode):
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

    def run(self):
        """Return the object that the pickle describes.

        Raises:
            Refused: something that is on no list.
            EOFError: the pickle has no end.
            pickle.UnpicklingError: it is damaged.
        """
        try:
            return self._run()
        except (struct.error, UnicodeDecodeError) as error:
            raise pickle.UnpicklingError(f"pickle data was truncated or damaged: {error}") from None

    def _run(self):
        data, end, at = self._data, len(self._data), 0
        unpack, from_bytes = struct.unpack_from, int.from_bytes
        memo, stack, marks = {}, [], []
        names = {}

        def pop():
            if not stack:
                raise pickle.UnpicklingError("unpickling stack underflow")
            return stack.pop()

        def pop_mark():
            nonlocal stack
            if not marks:
                raise pickle.UnpicklingError("could not find MARK")
            items, stack = stack, marks.pop()
            return items

        def top(n=1):
            if len(stack) < n:
                raise pickle.UnpicklingError("unpickling stack underflow")
            return stack[-1]

        while True:
            if at >= end:
                raise EOFError("Ran out of input")
            op = data[at]
            at += 1
            # Ordered by frequency in files.
            if op == 0x68 or op == 0x6A:  # BINGET, LONG_BINGET
                if op == 0x68:
                    key = data[at] if at < end else 0
                    at += 1
                else:
                    key = unpack("<I", data, at)[0]
                    at += 4
                try:
                    stack.append(memo[key])
                except KeyError:
                    raise pickle.UnpicklingError(f"Memo value not found at index {key}") from None
            elif op == 0x71:  # BINPUT
                memo[data[at] if at < end else 0] = stack[-1] if stack else top()
                at += 1
            elif op == 0x72:  # LONG_BINPUT
                memo[unpack("<I", data, at)[0]] = stack[-1] if stack else top()
                at += 4
            elif op == 0x4B:  # BININT1
                stack.append(data[at] if at < end else 0)
                at += 1
            elif op == 0x58:  # BINUNICODE
                n = unpack("<I", data, at)[0]
                at += 4
                stack.append(str(data[at : at + n], "utf-8", "surrogatepass"))
                at += n
            elif op == 0x28:  # MARK
                marks.append(stack)
                stack = []
            elif op == 0x74:  # TUPLE
                items = tuple(pop_mark())
                stack.append(items)
            elif op == 0x51:  # BINPERSID
                saved = pop()
                if type(saved) is not tuple and type(saved) is not int:
                    raise Refused(f"persistent_load id must be tuple or int, but got {type(saved)}")
                if type(saved) is tuple and saved and saved[0] != "storage" and saved[0] != b"storage":
                    raise Refused(f"Only persistent_load of storage is allowed, but got {type(saved[0])}")
                self.budget.call(saved)
                stack.append(self._persistent_load(saved))
            elif op == 0x52:  # REDUCE
                args = pop()
                function = pop()
                stack.append(self.call(function, args))
            elif op == 0x85:  # TUPLE1
                stack.append((pop(),))
            elif op == 0x86:  # TUPLE2
                top(2)
                stack[-2:] = [(stack[-2], stack[-1])]
            elif op == 0x87:  # TUPLE3
                top(3)
                stack[-3:] = [(stack[-3], stack[-2], stack[-1])]
            elif op == 0x4A:  # BININT
                stack.append(unpack("<i", data, at)[0])
                at += 4
            elif op == 0x4D:  # BININT2
                stack.append(unpack("<H", data, at)[0])
                at += 2
            elif op == 0x89:  # NEWFALSE
                stack.append(False)
            elif op == 0x88:  # NEWTRUE
                stack.append(True)
            elif op == 0x4E:  # NONE
                stack.append(None)
            elif op == 0x29:  # EMPTY_TUPLE
                stack.append(())
            elif op == 0x7D:  # EMPTY_DICT
                stack.append({})
            elif op == 0x5D:  # EMPTY_LIST
                stack.append([])
            elif op == 0x8F:  # EMPTY_SET
                stack.append(set())
            elif op == 0x75:  # SETITEMS
                items = pop_mark()
                self._set_items(top(), items, "SETITEMS")
            elif op == 0x73:  # SETITEM
                value, key = pop(), pop()
                self._set_items(top(), (key, value), "SETITEM")
            elif op == 0x61:  # APPEND
                item = pop()
                if type(top()) is not list:
                    raise Refused(f"Can only append to lists, but got {type(stack[-1])}")
                stack[-1].append(item)
            elif op == 0x65:  # APPENDS
                items = pop_mark()
                if type(top()) is not list:
                    raise Refused(f"Can only extend lists, but got {type(stack[-1])}")
                stack[-1].extend(items)
            elif op == _GLOBAL:
                start, at = at, data.find(b"\n", data.find(b"\n", at) + 1) + 1
                found = names.get(data[start:at])
                if found is None:
                    module, name, at = _global(data, start)
                    found = names[data[start:at]] = self._find(module, name)
                stack.append(found)
            elif op == 0x47:  # BINFLOAT
                stack.append(unpack(">d", data, at)[0])
                at += 8
            elif op == 0x8A:  # LONG1
                n = data[at] if at < end else 0
                at += 1
                stack.append(from_bytes(data[at : at + n], "little", signed=True))
                at += n
            elif op == 0x55:  # SHORT_BINSTRING
                n = data[at] if at < end else 0
                at += 1
                text = data[at : at + n]
                stack.append(text if self._encoding == "bytes" else text.decode(self._encoding, "strict"))
                at += n
            elif op == 0x62:  # BUILD
                state = pop()
                self._build(self, top(), state)
            elif op == 0x81:  # NEWOBJ
                args = pop()
                kind = pop()
                stack.append(self._new(kind, args))
            elif op == 0x80:  # PROTO
                protocol = data[at] if at < end else 0
                at += 1
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
            elif op == _STOP:
                if at > end:
                    raise EOFError("Ran out of input")
                return pop()
            elif self._protocol == 2:
                raise Refused(f"Unsupported operand {op}")
            elif op == 0x94:  # MEMOIZE
                memo[len(memo)] = top()
            elif op == 0x8C or op == 0x8D:  # SHORT_BINUNICODE, BINUNICODE8
                width = 1 if op == 0x8C else 8
                n = from_bytes(data[at : at + width], "little")
                at += width
                stack.append(str(data[at : at + n], "utf-8", "surrogatepass"))
                at += n
            elif op == 0x93:  # STACK_GLOBAL
                name, module = pop(), pop()
                if type(name) is not str or type(module) is not str:
                    raise pickle.UnpicklingError("STACK_GLOBAL requires str")
                stack.append(self._find(module, f"{module}.{name}"))
            elif op == 0x95:  # FRAME
                at += 8
            elif op == 0x43 or op == 0x42 or op == 0x8E:  # SHORT_BINBYTES, BINBYTES, BINBYTES8
                width = {0x43: 1, 0x42: 4, 0x8E: 8}[op]
                n = from_bytes(data[at : at + width], "little")
                at += width
                stack.append(bytes(data[at : at + n]))
                at += n
            elif op == 0x90:  # ADDITEMS
                items = pop_mark()
                if type(top()) is not set:
                    raise Refused(f"Can only add to sets, but got {type(stack[-1])}")
                for item in items:
                    self.budget.key(stack[-1], item)
                    stack[-1].add(item)
            else:
                raise Refused(f"Unsupported operand {op}")
