"""Expressions of sizes: what `torch.export` writes about a size that is not fixed, such as `2*s77 + 1`.

An expression is a polynomial of symbols and of calls, such as `s77//2`, with rational coefficients. It is kept
expanded, so that equal polynomials are equal objects.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import Any, Union

#: The text of an expression, and the depth of its calls, are limited: both come from files.
_LONGEST = 20_000
_DEEPEST = 60
_MOST_TERMS = 2_000

Number = Union[int, Fraction]  # noqa: UP007


class Atom:
    """A symbol, or a call of a function that polynomials do not have.

    Attributes:
        name: the name of the symbol or of the function.
        args: the operands of the function, or `None` for a symbol.
        assumptions: what is known of a symbol, such as `positive`.
    """

    __slots__ = ("args", "assumptions", "name")

    def __init__(self, name: str, args: tuple[Expr, ...] | None = None, assumptions: tuple[Any, ...] = ()) -> None:
        self.name, self.args, self.assumptions = name, args, assumptions

    def _key(self) -> tuple[Any, ...]:
        return self.name, self.args

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Atom) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def srepr(self) -> str:
        """Return the text that `parse` reads."""
        if self.args is None:
            return f"Symbol({', '.join([repr(self.name), *(f'{key}={value}' for key, value in self.assumptions)])})"
        return f"{self.name}({', '.join(arg.srepr() for arg in self.args)})"

    def __str__(self) -> str:
        if self.args is None:
            return self.name
        shown = [f"({arg})" if len(arg.terms) > 1 else str(arg) for arg in self.args]
        sign = _INFIX.get(self.name)
        if sign is not None and len(shown) == 2:
            return f"({shown[0]}{sign}{shown[1]})"
        return f"{self.name}({', '.join(map(str, self.args))})"


_INFIX = {"FloorDiv": "//", "Mod": "%", "PythonMod": "%"}
_Monomial = tuple[Atom, ...]


class Expr:
    """A polynomial: a coefficient for each product of atoms.

    Args:
        terms: the coefficients. Those that are zero are left out.
    """

    __slots__ = ("_hash", "terms")

    def __init__(self, terms: Mapping[_Monomial, Number]) -> None:
        self.terms = {
            key: int(value) if Fraction(value).denominator == 1 else Fraction(value)
            for key, value in terms.items()
            if value
        }
        if len(self.terms) > _MOST_TERMS:
            raise ValueError("an expression has too many terms")
        self._hash = hash(frozenset(self.terms.items()))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, (int, Fraction)):
            other = constant(other)
        return isinstance(other, Expr) and self.terms == other.terms

    def __hash__(self) -> int:
        return self._hash

    @property
    def is_constant(self) -> bool:
        """Whether no symbol is in it."""
        return not any(self.terms)

    @property
    def value(self) -> Number:
        """The number that a constant is."""
        return self.terms.get((), 0)

    @property
    def free_symbols(self) -> set[Expr]:
        """The symbols in it, each as an expression."""
        return {symbol(atom.name, atom.assumptions) for atom in self.atoms() if atom.args is None}

    def atoms(self) -> Iterable[Atom]:
        """Return all atoms, and those within the operands of calls."""
        for monomial in self.terms:
            for atom in monomial:
                yield atom
                for arg in atom.args or ():
                    yield from arg.atoms()

    def _ordered(self) -> list[tuple[_Monomial, Number]]:
        return sorted(self.terms.items(), key=lambda term: (-len(term[0]), [str(atom) for atom in term[0]]))

    def __str__(self) -> str:
        shown = ""
        for monomial, value in self._ordered():
            factors = []
            for atom in dict.fromkeys(monomial):
                power = monomial.count(atom)
                shown_atom = f"({atom})" if atom.name in _INFIX and len(self.terms) > 1 else str(atom)
                factors.append(shown_atom if power == 1 else f"{shown_atom}**{power}")
            size = abs(value)
            if size != 1 or not factors:
                factors.insert(0, str(size))
            sign = "-" if value < 0 else "+"
            shown += (f" {sign} " if shown else sign.replace("+", "")) + "*".join(factors)
        return shown or "0"

    __repr__ = __str__

    def srepr(self) -> str:
        """Return the text that `parse` reads."""
        terms = []
        for monomial, value in self._ordered():
            factors = [atom.srepr() for atom in monomial]
            if value != 1 or not factors:
                written = f"Integer({value})"
                if isinstance(value, Fraction):
                    written = f"Rational({value.numerator}, {value.denominator})"
                factors.insert(0, written)
            terms.append(factors[0] if len(factors) == 1 else f"Mul({', '.join(factors)})")
        return {0: "Integer(0)", 1: terms[0] if terms else ""}.get(len(terms), f"Add({', '.join(terms)})")

    def __add__(self, other: Any) -> Expr:
        terms = dict(self.terms)
        for monomial, value in of(other).terms.items():
            terms[monomial] = terms.get(monomial, 0) + value
        return Expr(terms)

    __radd__ = __add__

    def __neg__(self) -> Expr:
        return Expr({monomial: -value for monomial, value in self.terms.items()})

    def __sub__(self, other: Any) -> Expr:
        return self + -of(other)

    def __rsub__(self, other: Any) -> Expr:
        return of(other) + -self

    def __mul__(self, other: Any) -> Expr:
        terms: dict[_Monomial, Number] = {}
        for left, x in self.terms.items():
            for right, y in of(other).terms.items():
                monomial = tuple(sorted((*left, *right), key=str))
                terms[monomial] = terms.get(monomial, 0) + x * y
        return Expr(terms)

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> Expr:
        return call("FloorDiv", self, of(other))

    def __rfloordiv__(self, other: Any) -> Expr:
        return call("FloorDiv", of(other), self)

    def __mod__(self, other: Any) -> Expr:
        return call("Mod", self, of(other))

    def __rmod__(self, other: Any) -> Expr:
        return call("Mod", of(other), self)

    def evaluate(self, values: Mapping[str, Number]) -> Number:
        """Return the number that it is for given values of its symbols.

        Raises:
            KeyError: a symbol has no value.
            NotImplementedError: a function is not known.
        """
        total: Number = 0
        for monomial, value in self.terms.items():
            for atom in monomial:
                value = value * _value_of(atom, values)
            total = total + value
        return int(total) if isinstance(total, Fraction) and total.denominator == 1 else total

    def subs(self, values: Mapping[str, Any]) -> Expr:
        """Return the expression with other expressions or numbers in place of symbols."""
        total = constant(0)
        for monomial, value in self.terms.items():
            product = constant(value)
            for atom in monomial:
                if atom.args is not None:
                    product = product * call(atom.name, *(arg.subs(values) for arg in atom.args))
                else:
                    product = product * (of(values[atom.name]) if atom.name in values else Expr({(atom,): 1}))
            total = total + product
        return total


def constant(value: Number) -> Expr:
    """Return a number as an expression."""
    return Expr({(): value})


#: What `torch.export` knows of a size.
SIZE = (("positive", True), ("integer", True))


def symbol(name: str, assumptions: tuple[Any, ...] = SIZE) -> Expr:
    """Return a symbol."""
    return Expr({(Atom(name, None, assumptions),): 1})


def of(value: Any) -> Expr:
    """Return an expression, or a number or symbolic number as an expression."""
    if isinstance(value, Expr):
        return value
    node = getattr(value, "node", None)
    if node is not None and isinstance(getattr(node, "expr", None), Expr):
        return node.expr
    return constant(value)


def _exact_floor_div(x: Number, y: Number) -> Number:
    return x // y


def _exact_mod(x: Number, y: Number) -> Number:
    return x % y


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "FloorDiv": _exact_floor_div,
    "CleanDiv": _exact_floor_div,
    "CeilDiv": lambda x, y: -(-x // y),
    "Mod": _exact_mod,
    "PythonMod": _exact_mod,
    "ModularIndexing": lambda x, y, z: (x // y) % z,
    "Max": max,
    "Min": min,
    "Abs": abs,
    "FloorToInt": math.floor,
    "CeilToInt": math.ceil,
    "TruncToInt": math.trunc,
    "RoundToInt": round,
    "floor": math.floor,
    "ceiling": math.ceil,
    "ToFloat": Fraction,
    "IntTrueDiv": Fraction,
    "FloatTrueDiv": lambda x, y: Fraction(x) / Fraction(y),
    "LShift": lambda x, y: x << y,
    "RShift": lambda x, y: x >> y,
    "Identity": lambda x: x,
}


def _value_of(atom: Atom, values: Mapping[str, Number]) -> Number:
    if atom.args is None:
        return values[atom.name]
    function = _FUNCTIONS.get(atom.name)
    if function is None:
        raise NotImplementedError(f"the function {atom.name} of a size is not known")
    return function(*(arg.evaluate(values) for arg in atom.args))


def call(name: str, *args: Expr) -> Expr:
    """Return the call of a function. That of constants is a constant."""
    function = _FUNCTIONS.get(name)
    if function is not None and all(arg.is_constant for arg in args):
        return constant(function(*(arg.value for arg in args)))
    if name in ("FloorDiv", "CleanDiv", "Mod", "PythonMod") and args[1].is_constant and args[1].value > 0:
        by = args[1].value
        if all(Fraction(value / Fraction(by)).denominator == 1 for value in args[0].terms.values()):
            # Each coefficient is a multiple of the divisor.
            if name in ("Mod", "PythonMod"):
                return constant(0)
            return Expr({monomial: Fraction(value) / Fraction(by) for monomial, value in args[0].terms.items()})
    return Expr({(Atom(name, args),): 1})


def parse(text: str) -> Expr:
    """Return the expression that a text in the form of SymPy's `srepr` describes.

    The text may come from a file. No code in it runs.

    Raises:
        ValueError: it is no such text.

    Example:
        >>> from pytpu import _expressions
        >>> str(_expressions.parse("Add(Mul(Integer(2), Symbol('s0', integer=True)), Integer(1))"))
        '2*s0 + 1'
    """
    if not isinstance(text, str) or len(text) > _LONGEST:
        raise ValueError("an expression of a size is no text, or too long")
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, RecursionError, MemoryError, ValueError):
        raise ValueError(f"{text[:80]!r} is no expression of a size") from None
    return _parse(tree, 0)


def _parse(tree: ast.expr, depth: int) -> Expr:
    if depth > _DEEPEST:
        raise ValueError("an expression of a size is nested too deep")
    if isinstance(tree, ast.Constant) and type(tree.value) in (int, float):
        return constant(tree.value if isinstance(tree.value, int) else Fraction(tree.value))
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub):
        return -_parse(tree.operand, depth + 1)
    if not isinstance(tree, ast.Call) or not isinstance(tree.func, ast.Name):
        raise ValueError("an expression of a size has a form that is not known")
    name = tree.func.id
    if name == "Symbol":
        if len(tree.args) != 1 or not isinstance(tree.args[0], ast.Constant):
            raise ValueError("a symbol of a size has no name")
        known = tuple((k.arg, k.value.value) for k in tree.keywords if isinstance(k.value, ast.Constant) and k.arg)
        return symbol(str(tree.args[0].value), known)
    if name == "Float":
        # The digits stand in a text, with a precision behind them.
        first = tree.args[0] if tree.args else None
        if not isinstance(first, ast.Constant):
            raise ValueError("a number in an expression of a size is not written as one")
        return constant(Fraction(str(first.value)))
    args = [_parse(arg, depth + 1) for arg in tree.args]
    if name == "Integer" and len(args) == 1:
        return args[0]
    if name == "Rational" and len(args) == 2 and all(arg.is_constant for arg in args) and args[1].value:
        return constant(Fraction(args[0].value) / Fraction(args[1].value))
    if name == "Add":
        return sum(args, constant(0))
    if name == "Mul":
        product = constant(1)
        for arg in args:
            product = product * arg
        return product
    if name in ("Pow", "PowByNatural") and len(args) == 2 and args[1].is_constant and args[1].value in range(9):
        product = constant(1)
        for _ in range(int(args[1].value)):
            product = product * args[0]
        return product
    return call(name, *args)


class _Infinity(float):
    """No bound. It is greater than every number."""

    def __new__(cls) -> _Infinity:
        return float.__new__(cls, math.inf)

    def __repr__(self) -> str:
        return "int_oo"

    __str__ = __repr__

    def __reduce__(self) -> Any:
        return _infinity, ()


int_oo = _Infinity()


def _infinity() -> _Infinity:
    return int_oo


class ValueRanges:
    """The least and the greatest value of a size.

    Args:
        lower: the least value.
        upper: the greatest value, or `int_oo`.
    """

    __slots__ = ("lower", "upper")

    def __init__(self, lower: Any, upper: Any) -> None:
        self.lower, self.upper = lower, upper

    def __contains__(self, value: Any) -> bool:
        return self.lower <= value <= self.upper

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ValueRanges) and (self.lower, self.upper) == (other.lower, other.upper)

    def __hash__(self) -> int:
        return hash((self.lower, self.upper))

    def __and__(self, other: ValueRanges) -> ValueRanges:
        return ValueRanges(max(self.lower, other.lower), min(self.upper, other.upper))

    def __repr__(self) -> str:
        return f"VR[{self.lower}, {self.upper}]"
