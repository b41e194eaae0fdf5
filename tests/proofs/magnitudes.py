"""Rounding errors as polynomials of magnitudes: for lanes that are scaled by numbers of any size, where intervals say nothing.

Each value has a bound of its magnitude and one of its distance from the exact value, both polynomials with nonnegative coefficients in
the magnitudes of the leaves. An operation rounds by u times the magnitude of its result, and by half of the smallest subnormal number.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from proofs.execute import RefusedError
from proofs.trees import Node, nodes_of

U = Fraction(1, 2**53)
TINY = Fraction(1, 2**1075)
Monomial = tuple[str, ...]


@dataclass(frozen=True)
class Magnitude:
    """A polynomial with nonnegative coefficients in named magnitudes."""

    terms: Mapping[Monomial, Fraction]

    @staticmethod
    def constant(x: Fraction | int) -> Magnitude:
        """A number."""
        return Magnitude({(): Fraction(x)} if x else {})

    @staticmethod
    def of(*names: str) -> Magnitude:
        """A product of magnitudes."""
        return Magnitude({tuple(sorted(names)): Fraction(1)})

    def __add__(self, other: Magnitude) -> Magnitude:
        found = dict(self.terms)
        for name, x in other.terms.items():
            found[name] = found.get(name, Fraction(0)) + x
        return Magnitude(found)

    def __mul__(self, other: Magnitude | Fraction | int) -> Magnitude:
        if not isinstance(other, Magnitude):
            return Magnitude({name: x * other for name, x in self.terms.items()})
        found: dict[Monomial, Fraction] = {}
        for a, x in self.terms.items():
            for b, y in other.terms.items():
                name = tuple(sorted((*a, *b)))
                found[name] = found.get(name, Fraction(0)) + x * y
        return Magnitude(found)

    def at(self, given: Mapping[str, Fraction]) -> Fraction:
        """The value for magnitudes of at most these sizes."""
        return sum((x * math.prod(given[name] for name in names) for names, x in self.terms.items()), Fraction(0))


@dataclass(frozen=True)
class Bounds:
    """What is known of a value: its magnitude, and its distance from the exact one."""

    size: Magnitude
    error: Magnitude

    @staticmethod
    def exact(size: Magnitude) -> Bounds:
        return Bounds(size, Magnitude.constant(0))


def rounded(size: Magnitude, error: Magnitude) -> Bounds:
    """After one rounding of a result of this size."""
    step = size * U + Magnitude.constant(TINY)
    return Bounds(size + step, error + step)


def _product(a: Bounds, b: Bounds) -> tuple[Magnitude, Magnitude]:
    return a.size * b.size, a.error * b.size + (a.size + a.error) * b.error


def bounds_of(root: Node, leaves: Mapping[Node, Bounds]) -> Bounds:
    """Bounds of what a tree computes, given those of some nodes."""
    done: dict[Node, Bounds] = dict(leaves)

    def operand(x: object) -> Bounds:
        if isinstance(x, Node):
            return done[x]
        if isinstance(x, float):
            return Bounds.exact(Magnitude.constant(abs(Fraction(x))))
        raise RefusedError(f"an operand {x!r}")

    for each in _needed(root, leaves):
        args = [operand(a) for a in each.args]
        if each.op in {"add", "sub"}:
            done[each] = rounded(args[0].size + args[1].size, args[0].error + args[1].error)
        elif each.op == "mul":
            done[each] = rounded(*_product(args[0], args[1]))
        elif each.op == "fma":
            size, error = _product(args[0], args[1])
            done[each] = rounded(size + args[2].size, error + args[2].error)
        elif each.op in {"neg", "abs"}:
            done[each] = args[0]
        else:
            raise RefusedError(f"the operation {each.op}, of which no bound is proved")
    return done[root]


def _needed(root: Node, leaves: Mapping[Node, Bounds]) -> list[Node]:
    found: set[Node] = set()
    stack = [root]
    while stack:
        here = stack.pop()
        if here in found or here in leaves:
            continue
        if here.op == "variable":
            raise RefusedError(f"nothing is known of {here.args[0]}")
        found.add(here)
        stack.extend(a for a in here.args if isinstance(a, Node))
    return [each for each in nodes_of(root) if each in found]


def lacking(used: Magnitude, allowed: Magnitude, most: Mapping[str, Fraction]) -> dict[Monomial, Fraction]:
    """Coefficients by which `used` exceeds `allowed`, once small excesses of a coefficient are paid for by the constant.

    An excess is small if its monomial, for magnitudes of at most `most`, fits into what is left of the constant.
    """
    spare = allowed.terms.get((), Fraction(0)) - used.terms.get((), Fraction(0))
    found: dict[Monomial, Fraction] = {}
    for names, x in used.terms.items():
        excess = x - allowed.terms.get(names, Fraction(0))
        if names and excess > 0:
            cost = Magnitude({names: excess}).at(most)
            if cost <= spare:
                spare -= cost
            else:
                found[names] = excess
    if spare < 0:
        found[()] = -spare
    return found
