"""Schemas of operators: names, types, defaults and aliases of their arguments.

`torch.ops.aten.add.Tensor._schema` is one.
"""

from __future__ import annotations

import re
import typing

#: Numbers that stand for names in defaults.
_NAMED = {"Mean": 1, "Sum": 2, "contiguous_format": 0, "long": 4, "float": 6, "strided": 0}
_TYPE = re.compile(r"(?P<base>\w+)(?:\((?P<alias>[^)]*)\))?(?P<rest>(?:\[\d*\]|\?)*)")


class AliasInfo:
    """The aliases of an argument or of a result: `Tensor(a!)` is in set `a` and is written."""

    def __init__(self, text: str) -> None:
        before, _, after = text.replace("!", "").partition(" -> ")
        self.is_write = "!" in text
        self.before_set = {before}
        self.after_set = {after or before}

    def __str__(self) -> str:
        before, after = "|".join(sorted(self.before_set)), "|".join(sorted(self.after_set))
        return before + ("!" if self.is_write else "") + ("" if before == after else f" -> {after}")


class Argument:
    """An argument or a result of an operator.

    Attributes:
        name: its name, empty for most results.
        type: its type as a text, such as `Optional[List[int]]` for `int[1]?`.
        default_value: its default, or `None`.
        kwarg_only: whether it is given by name only.
        alias_info: its aliases, or `None`.
        N: the length of a list that a single number stands for, or `None`.
    """

    def __init__(self, text: str, *, kwarg_only: bool = False) -> None:
        found = _TYPE.match(text)
        if found is None:
            raise RuntimeError(f"{text!r} is no argument of a schema")
        rest = text[found.end() :].strip()
        self.name, has_default, default = rest.partition("=")
        self._written = found["base"] + found["rest"]
        self.type = _type_of(found["base"], found["rest"])
        self.kwarg_only = kwarg_only
        self.alias_info = AliasInfo(found["alias"]) if found["alias"] else None
        size = re.search(r"\[(\d+)\]", found["rest"])
        self.N = int(size[1]) if size else None
        self._has_default = bool(has_default)
        self.default_value = _value(default, self._written, self.N) if has_default else None

    def has_default_value(self) -> bool:
        """Return whether the argument may be left out."""
        return self._has_default

    @property
    def is_out(self) -> bool:
        """Whether a call writes its result into the argument, which is given by name."""
        return self.kwarg_only and self.alias_info is not None and self.alias_info.is_write

    @property
    def is_write(self) -> bool:
        """Whether a call writes into the argument."""
        return self.alias_info is not None and self.alias_info.is_write

    def __str__(self) -> str:
        head = _TYPE.match(self._written)
        assert head is not None  # it was built from a match
        alias = f"({self.alias_info})" if self.alias_info else ""
        text = f"{head['base']}{alias}{head['rest']}"
        text += f" {self.name}" if self.name else ""
        return text + (f"={_text_of(self.default_value)}" if self._has_default else "")

    __repr__ = __str__


#: Types that have another name in `Argument.type`.
_TYPES = {"Scalar": "number", "SymInt": "int", "ScalarType": "int", "Layout": "int", "MemoryFormat": "int"}


def _type_of(base: str, rest: str) -> str:
    name = _TYPES.get(base, base)
    for part in re.findall(r"\[\d*\]|\?", rest):
        name = f"Optional[{name}]" if part == "?" else f"List[{name}]"
    return name


def _value(text: str, kind: str, size: int | None) -> typing.Any:
    if text in ("None", "True", "False"):
        return {"None": None, "True": True, "False": False}[text]
    if text[:1] in "'\"":
        return text[1:-1]
    if text.startswith("["):
        return [_value(item.strip(), kind.partition("[")[0], None) for item in text[1:-1].split(",") if item.strip()]
    if text in _NAMED:
        return _NAMED[text]
    is_float = kind.startswith("float") or (not text.lstrip("-").isdigit() and kind.startswith("Scalar"))
    number: typing.Any = float(text) if is_float else int(text)
    return [number] * size if size else number


def _text_of(value: typing.Any) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, list):
        return f"[{', '.join(_text_of(v) for v in value)}]"
    if isinstance(value, float):
        # As C++ writes a number of 64 bits that must stay one.
        text = f"{value:.17g}"
        return text if set(text) & set(".en") else text + "."
    return str(value)


def _split(text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "([") - (c in ")]")
        if c == "," and not depth:
            parts.append(text[start:i].strip())
            start = i + 1
    return [p for p in (*parts, text[start:].strip()) if p]


class FunctionSchema:
    """The schema of an operator's overload.

    Attributes:
        name: the qualified name, such as `aten::add`.
        overload_name: the name of the overload, empty for `default`.
        arguments: the arguments in order, those by name last.
        returns: the results.
    """

    def __init__(self, text: str) -> None:
        head, _, rest = text.strip().partition("(")
        arguments, arrow, results = rest.rpartition(" -> ")
        if not arrow or not arguments.endswith(")"):
            raise RuntimeError(f"{text!r} is no schema")
        name, _, self.overload_name = head.strip().partition(".")
        self.name = name
        self.arguments: list[Argument] = []
        kwarg_only = False
        for argument in _split(arguments[:-1]):
            if argument == "*":
                kwarg_only = True
            else:
                self.arguments.append(Argument(argument, kwarg_only=kwarg_only))
        results = results.strip()
        if results.startswith("("):
            results = results[1:-1]
        self.returns = [Argument(result) for result in _split(results)]
        self.is_vararg = self.is_varret = False

    @property
    def is_mutable(self) -> bool:
        """Whether a call writes into an argument."""
        return any(a.is_write for a in self.arguments)

    def __str__(self) -> str:
        parts: list[str] = []
        for argument in self.arguments:
            if argument.kwarg_only and "*" not in parts:
                parts.append("*")
            parts.append(str(argument))
        results = ", ".join(map(str, self.returns))
        if len(self.returns) != 1 or self.returns[0].name:
            results = f"({results})"
        overload = f".{self.overload_name}" if self.overload_name else ""
        return f"{self.name}{overload}({', '.join(parts)}) -> {results}"

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FunctionSchema) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))


# They are in `torch`, as in PyTorch.
Argument.__module__ = FunctionSchema.__module__ = "torch"


def parse_schema(text: str) -> FunctionSchema:
    """Return the schema that `text` writes.

    Raises:
        RuntimeError: If it is none.
    """
    return FunctionSchema(text)


def of_aten(name: str, schemas: typing.Sequence[str]) -> dict[str, str]:
    """Return the schemas of PyTorch's overloads of `name` by their names, from those of the op table."""
    found: dict[str, str] = {}
    for text in schemas:
        if name.endswith("_") and not name.endswith("__") and "!" not in text.partition(" -> ")[0]:
            text = _in_place(text, name)
        elif text.startswith(f"{name}(Tensor(a!)[]"):
            text = f"{text.rpartition(' -> ')[0]} -> ()"
        elif text.endswith("Tensor(a)[]"):
            text = text.replace("Tensor(a) ", "Tensor(a -> *) ", 1)
        head, _, rest = text.partition("(")
        overload = head.partition(".")[2] or "default"
        overload = _OTHER_NAMES.get(name, {}).get(overload, overload)
        found[overload] = f"{name}{'' if overload == 'default' else '.' + overload}({rest}"
    base = name.removesuffix("_")
    for names, own, overload, position in _NUMBERS:
        if base in names and overload not in found and own in found and (position or base == name):
            found[overload] = _with_number(found[own], name, overload, position)
    return found


#: Overloads of the op table that PyTorch calls otherwise.
_OTHER_NAMES = {
    "floor_divide_": {"default": "Tensor"},
    "ldexp_": {"Tensor": "default"},
    "pow_": {"Tensor_Tensor": "Tensor", "Tensor_Scalar": "Scalar"},
    "special_log_softmax": {"int": "default"},
    "special_softmax": {"int": "default"},
    "special_xlogy": {"Tensor": "default"},
}

_SHIFTS = ("bitwise_left_shift", "bitwise_right_shift")
_LOGIC = ("bitwise_and", "bitwise_or", "bitwise_xor")
_OF_TWO = """add copysign div divide eq floor_divide fmod ge greater greater_equal gt le less less_equal lt mul multiply
ne not_equal remainder rsub sub subtract true_divide""".split()
_POLYNOMIALS = [
    f"special_{kind}"
    for kind in """chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w
    hermite_polynomial_h hermite_polynomial_he laguerre_polynomial_l legendre_polynomial_p
    shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v
    shifted_chebyshev_polynomial_w""".split()
]
_OF_SPECIAL = ("special_xlog1py", "special_xlogy", "special_zeta")
#: Overloads that take a number in place of a tensor, which is one function here: names of operators, the overload of
#: tensors, that with a number, and the position of the number.
_NUMBERS = (
    ((*_OF_TWO, *_LOGIC), "Tensor", "Scalar", 1),
    (("floor_divide",), "default", "Scalar", 1),
    (("div", "divide"), "Tensor_mode", "Scalar_mode", 1),
    (_SHIFTS, "Tensor", "Tensor_Scalar", 1),
    (("float_power", "pow"), "Tensor_Tensor", "Tensor_Scalar", 1),
    (("pow",), "Tensor", "Scalar", 1),
    ((*_SHIFTS, *_LOGIC, "remainder"), "Tensor", "Scalar_Tensor", 0),
    (_POLYNOMIALS, "default", "x_scalar", 0),
    (_POLYNOMIALS, "default", "n_scalar", 1),
    (_OF_SPECIAL, "default", "self_scalar", 0),
    (_OF_SPECIAL, "default", "other_scalar", 1),
)


def _in_place(text: str, name: str) -> str:
    """Return the schema of the method `name`, which writes its result over the first argument of `text`."""
    head, _, rest = text.partition("(")
    arguments, _, _ = rest.rpartition(") -> ")
    first, *others = _split(arguments)
    is_list = "[]" in first
    first = f"Tensor(a!){'[]' if is_list else ''} self"
    overload = head.partition(".")[2]
    head = f"{name}.{overload}" if overload else name
    return f"{head}({', '.join((first, *others))}) -> {'()' if is_list else 'Tensor(a!)'}"


def _with_number(text: str, name: str, overload: str, position: int) -> str:
    """Return the schema of the overload that takes a number in place of a tensor."""
    arguments, _, results = text.partition("(")[2].rpartition(") -> ")
    parts = _split(arguments)
    parts[position] = parts[position].replace("Tensor", "Scalar", 1)
    if parts[2:4] == ["*", "Scalar alpha=1"]:
        del parts[2]
    return f"{name}.{overload}({', '.join(parts)}) -> {results}"
