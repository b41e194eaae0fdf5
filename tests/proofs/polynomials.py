"""How far the polynomials of the lanes are from their functions: enclosed in exact fractions, and by Sollya's supremum norm."""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt

from proofs.execute import RefusedError
from proofs.gappa import NotInstalledError
from proofs.trees import Node, nodes_of

Polynomial = tuple[Fraction, ...]
"""Coefficients, the constant one first."""
PIECES = 256
"""Into which an interval is cut for the enclosure of a supremum."""
PLACES, BITS = 40, 320
"""Bits of places in it, and of coefficients."""


# Polynomials


def plus(a: Polynomial, b: Polynomial) -> Polynomial:
    size = max(len(a), len(b))
    return tuple((a[k] if k < len(a) else Fraction(0)) + (b[k] if k < len(b) else Fraction(0)) for k in range(size))


def times(a: Polynomial, b: Polynomial) -> Polynomial:
    found = [Fraction(0)] * (len(a) + len(b) - 1)
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            found[i + j] += x * y
    return tuple(found)


def negative(a: Polynomial) -> Polynomial:
    return tuple(-x for x in a)


def spread(a: Polynomial, by: int, shift: int) -> Polynomial:
    """a(s^by)·s^shift."""
    found = [Fraction(0)] * (by * (len(a) - 1) + shift + 1)
    for k, x in enumerate(a):
        found[by * k + shift] = x
    return tuple(found)


def of_tree(root: Node, x: Node) -> Polynomial:
    """The polynomial in x that a tree computes if nothing is rounded."""
    done: dict[Node, Polynomial] = {x: (Fraction(0), Fraction(1))}
    for each in nodes_of(root):
        if each in done:
            continue
        args = [done[a] if isinstance(a, Node) else (Fraction(a),) for a in each.args if each.op != "variable"]
        if each.op == "add":
            done[each] = plus(*args)
        elif each.op == "sub":
            done[each] = plus(args[0], negative(args[1]))
        elif each.op == "mul":
            done[each] = times(*args)
        elif each.op == "fma":
            done[each] = plus(times(args[0], args[1]), args[2])
        elif each.op == "neg":
            done[each] = negative(args[0])
        else:
            raise RefusedError(f"the operation {each.op} in a polynomial")
    return done[root]


@functools.lru_cache(maxsize=64)
def largest(a: Polynomial, high: Fraction, pieces: int = PIECES) -> Fraction:
    """An upper bound of |a(x)| over [0, high], high ≤ 1: on each piece the sum of the magnitudes of Taylor's terms.

    Coefficients are integers in units of 2^-BITS. Taylor's shift floors a product for each pair of them. As the centre is at most 1, an
    error at most doubles in each of the len(a) rounds: all of them together are below len(a)²·2^len(a) units.
    """
    half = -(-high.numerator * (1 << PLACES) // high.denominator) // (2 * pieces) + 1  # in units of 2^-PLACES
    scaled = [(x.numerator << BITS) // x.denominator for x in a]
    most = 0
    for piece in range(pieces):
        shifted = list(scaled)
        centre = (2 * piece + 1) * half
        for i in range(len(a)):
            for k in range(len(a) - 2, i - 1, -1):
                shifted[k] += (centre * shifted[k + 1]) >> PLACES
        total = 0
        for x in reversed(shifted):
            total = ((total * half) >> PLACES) + 1 + abs(x)
        most = max(most, total)
    return Fraction(most + (len(a) ** 2 << len(a)), 1 << BITS)


def root_bounds(x: Fraction, bits: int = 128) -> tuple[Fraction, Fraction]:
    """Fractions below and above √x."""
    scaled = (x.numerator << (2 * bits)) // x.denominator
    found = isqrt(scaled)
    return Fraction(found, 1 << bits), Fraction(found + 1, 1 << bits)


@functools.cache
def pi_bounds(bits: int = 200) -> tuple[Fraction, Fraction]:
    """π by Machin's formula, with what the alternating series leave out."""

    def arctan_of_inverse(n: int) -> tuple[Fraction, Fraction]:
        total, k = Fraction(0), 0
        while True:
            term = Fraction(1, (2 * k + 1) * n ** (2 * k + 1))
            if term < Fraction(1, 1 << (bits + 8)):
                return total - term, total + term
            total += term if k % 2 == 0 else -term
            k += 1

    a, b = arctan_of_inverse(5), arctan_of_inverse(239)
    return _short(16 * a[0] - 4 * b[1], bits, up=False), _short(16 * a[1] - 4 * b[0], bits, up=True)


@functools.cache
def ln2_bounds(bits: int = 200) -> tuple[Fraction, Fraction]:
    """ln 2 = 2 atanh(1/3); what is left out is below a geometric series."""
    total, k = Fraction(0), 0
    while True:
        term = Fraction(2, (2 * k + 1) * 3 ** (2 * k + 1))
        if term < Fraction(1, 1 << (bits + 8)):
            return _short(total, bits, up=False), _short(total + 2 * term, bits, up=True)
        total += term
        k += 1


def _short(x: Fraction, bits: int, *, up: bool) -> Fraction:
    scaled = x * (1 << bits)
    floor = scaled.numerator // scaled.denominator
    return Fraction(floor + (1 if up else 0), 1 << bits)


# Functions


@dataclass(frozen=True)
class Function:
    """A function that a polynomial stands for, by its power series.

    Attributes
    ----------
    name : str
        The function of lanes.h.
    weight : int
        The power of the root s of the argument z with which errors count.
    around : str
        The function of s, in Sollya's language, that the weighted polynomial is a part of.
    lead : Polynomial
        The other part, in s.
    """

    name: str
    weight: int
    around: str
    lead: Polynomial

    def series(self, terms: int) -> tuple[Polynomial, Polynomial]:
        """The first coefficients in z and how far each may be off."""
        low, high = (end / 2 for end in pi_bounds())
        found, errors = [], []
        for k in range(terms):
            if self.name == "atanh_tail":
                found.append(Fraction(2, 2 * k + 3))
                errors.append(Fraction(0))
                continue
            power = 2 * k + 1 if self.name == "sin_over_r" else 2 * k + 2
            sign = (-1) ** (k if self.name == "sin_over_r" else k + 1)
            factorial = 1
            for i in range(2, power + 1):
                factorial *= i
            a, b = low**power / factorial, high**power / factorial
            found.append(sign * (a + b) / 2)
            errors.append((b - a) / 2)
        return tuple(found), tuple(errors)

    def rest(self, terms: int, z: Fraction) -> Fraction:
        """An upper bound of what the series lacks after so many terms."""
        if self.name == "atanh_tail":
            return Fraction(2, 2 * terms + 3) * z**terms / (1 - z)
        coefficients, errors = self.series(terms + 1)
        # Alternating, and terms fall: (pi/2)^2 z is below their quotient of factorials.
        return (abs(coefficients[-1]) + errors[-1]) * z**terms


FUNCTIONS = {
    "atanh_tail": Function("atanh_tail", 3, "2*atanh(x)", (Fraction(0), Fraction(2))),
    "sin_over_r": Function("sin_over_r", 1, "sin(pi*x/2)", (Fraction(0),)),
    "cos_tail": Function("cos_tail", 2, "cos(pi*x/2)", (Fraction(1),)),
}
TERMS = 24


def enclosed(name: str, coefficients: Polynomial, high: Fraction, weight: int | None = None) -> Fraction:
    """An upper bound of s^weight·|polynomial(s²) − function(s²)| for 0 ≤ s ≤ high, in exact fractions."""
    function = FUNCTIONS[name]
    power = function.weight if weight is None else weight
    series, errors = function.series(TERMS)
    difference = spread(plus(coefficients, negative(series)), 2, power)
    slack = sum((e * high ** (2 * k + power) for k, e in enumerate(errors)), Fraction(0))
    return largest(difference, high) + slack + function.rest(TERMS, high**2) * high**power


# Sollya


@functools.cache
def sollya_version() -> str:
    """The version of Sollya; raises `NotInstalledError` without it."""
    if shutil.which("sollya") is None:
        raise NotInstalledError("sollya is not installed (apt-get install gappa sollya)")
    done = subprocess.run(["sollya", "--version"], capture_output=True, text=True, check=False)
    found = re.search(r"\d+\.\d+", done.stdout + done.stderr)
    return found[0] if found else "unknown"


def in_sollya(a: Polynomial) -> str:
    """A polynomial with exact coefficients in Sollya's language."""
    return " + ".join(f"({x.numerator}/{x.denominator})*x^{k}" for k, x in enumerate(a) if x) or "0"


@functools.lru_cache(maxsize=256)
def supremum_norm(polynomial: Polynomial, function: str, low: Fraction, high: Fraction, most: Fraction) -> tuple[bool, str]:
    """Whether Sollya certifies that polynomial and function differ by at most `most` between the ends, and what it found."""
    sollya_version()
    script = [
        "prec = 400!;",
        f"p = {in_sollya(polynomial)};",
        f"f = {function};",
        f"d = [{low.numerator}/{low.denominator};{high.numerator}/{high.denominator}];",
        "n = supnorm(p, f, d, absolute, 1b-12);",
        "print(n);",
        f'if (sup(n) <= {most.numerator}/{most.denominator}) then print("certified") else print("larger");',
        "quit;",
    ]
    done = subprocess.run(
        ["sollya", "--nocolor", "--noprompt"], input="\n".join(script), capture_output=True, text=True, check=False, timeout=300
    )
    said = (done.stdout + done.stderr).strip()
    return said.splitlines()[-1:] == ["certified"], said


def certified(name: str, coefficients: Polynomial, high: Fraction, most: Fraction) -> tuple[bool, str]:
    """Whether Sollya certifies the weighted error on [0, high]."""
    function = FUNCTIONS[name]
    whole = plus(function.lead, spread(coefficients, 2, function.weight))
    return supremum_norm(whole, function.around, Fraction(0), high, most)


def stated(text: str, name: str) -> Fraction:
    """The error 2^-e that a comment of lanes.h states for a polynomial, as a fraction that is not above it."""
    found = re.findall(r"weighted errors? (2\^-\d+\.\d+(?: and 2\^-\d+\.\d+)?)", text)
    exponents: Sequence[str] = [e for group in found for e in re.findall(r"-(\d+\.\d+)", group)]
    named: Mapping[str, str] = dict(zip(FUNCTIONS, exponents, strict=True))
    return power_below(Fraction(named[name]))


def power_below(exponent: Fraction) -> Fraction:
    """A fraction just below 2^-exponent, for an exponent with one decimal: a tenth root in integers."""
    tenths = exponent * 10
    if tenths.denominator != 1:
        raise ValueError(f"{exponent} has more than one decimal")
    # x^10 <= 2^-tenths for x = n/2^bits
    bits = 128
    target = 1 << (10 * bits - tenths.numerator)
    low, high = 0, 1 << bits
    while high - low > 1:
        middle = (low + high) // 2
        if middle**10 <= target:
            low = middle
        else:
            high = middle
    return Fraction(low, 1 << bits)
