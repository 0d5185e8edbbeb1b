"""Schemas of operators that are written in Python."""

from __future__ import annotations

import inspect
import typing

import pytpu as torch


class _Argument(typing.NamedTuple):
    name: str
    type: str
    default: object
    keyword_only: bool
    mutated: bool


class _Schema:
    """Schema of an operator: `(Tensor x, int k=2, *, Tensor? m=None) -> (Tensor, Tensor)`."""

    def __init__(self, text):
        self.text = text.strip()
        head, arrow, returns = self.text.rpartition("->")
        head, returns = head.strip(), returns.strip()
        if not arrow or not head.startswith("(") or not head.endswith(")"):
            raise RuntimeError(f"not a schema: {text!r}; expected (Tensor x, ...) -> Tensor")
        self.arguments, keyword_only = [], False
        for part in _split(head[1:-1]):
            if part == "*":
                keyword_only = True
                continue
            declared, equals, default = part.partition("=")
            kind, _, name = declared.strip().rpartition(" ")
            if not kind:
                raise RuntimeError(f"not a schema: {text!r}; expected a type and a name in place of {part!r}")
            base, alias, rest = kind.partition("(")
            mutated = alias and "!" in rest
            kind = base + rest.partition(")")[2] if alias else kind
            value = _default(default.strip()) if equals else inspect.Parameter.empty
            self.arguments.append(_Argument(name, kind, value, keyword_only, bool(mutated)))
        self.returns = _split(returns[1:-1]) if returns.startswith("(") else [returns]
        self.mutates = any(a.mutated for a in self.arguments)

    def bind(self, name, args, kwargs):
        """One value for each argument.

        Raises:
            RuntimeError: too many, too few, of another name or of another type.
        """
        declaration = f"{name}{self.text}"
        positional = [a for a in self.arguments if not a.keyword_only]
        if len(args) > len(positional):
            raise RuntimeError(
                f"{name}() expected at most {len(positional)} argument(s) but received {len(args)} argument(s). "
                f"Declaration: {declaration}"
            )
        unknown = kwargs.keys() - {a.name for a in self.arguments}
        if unknown:
            raise RuntimeError(
                f"Unknown keyword argument '{unknown.pop()}' for operator '{name}'. Schema: {declaration}"
            )
        values = []
        for i, a in enumerate(self.arguments):
            if not a.keyword_only and i < len(args):
                if a.name in kwargs:
                    raise RuntimeError(
                        f"{name}() got multiple values for argument '{a.name}'. Declaration: {declaration}"
                    )
                value = args[i]
            elif a.name in kwargs:
                value = kwargs[a.name]
            elif a.default is not inspect.Parameter.empty:
                value = a.default
            else:
                raise RuntimeError(f"{name}() is missing value for argument '{a.name}'. Declaration: {declaration}")
            if not _fits(value, a.type):
                kind = a.type.replace("SymInt", "int")
                raise RuntimeError(
                    f"{name}() Expected a value of type '{kind}' for argument '{a.name}' but instead found type "
                    f"'{type(value).__name__}'.\nPosition: {i}\nValue: {value!r}\nDeclaration: {declaration}"
                )
            values.append(value)
        return values


def _split(text):
    """Return the parts between commas that are outside of brackets and quotes."""
    parts, depth, quote, start = [], 0, "", 0
    for i, c in enumerate(text):
        if quote:
            quote = "" if c == quote else quote
        elif c in "\"'":
            quote = c
        elif c in "([":
            depth += 1
        elif c in ")]":
            depth -= 1
        elif c == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    return [p.strip() for p in (*parts, text[start:]) if p.strip()]


def _default(text):
    words = {"None": None, "True": True, "False": False}
    if text in words:
        return words[text]
    if text[:1] in "\"'":
        return text[1:-1]
    if text.startswith("["):
        return [_default(t) for t in _split(text[1:-1])]
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            pass
    return getattr(torch, text)


def _fits(value, kind):
    if kind.endswith("?"):
        return value is None or _fits(value, kind[:-1])
    if kind.endswith("]"):
        item = kind[: kind.rindex("[")]
        return isinstance(value, (list, tuple)) and all(_fits(v, item) for v in value)
    if kind == "Tensor":
        return isinstance(value, torch.Tensor)
    if kind in ("int", "SymInt"):
        return isinstance(value, int)
    if kind in ("float", "Scalar", "bool"):
        return isinstance(value, {"float": (int, float), "Scalar": (int, float, complex), "bool": int}[kind])
    return not isinstance(value, str) or kind == "str" or kind == "Device"
