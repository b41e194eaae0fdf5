"""Lemmas about the logarithm of the lanes: its polynomial, and unit samples of the Laplace kinds."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from proofs import gappa
from proofs.execute import INT, Cell, Execution, RefusedError
from proofs.lemmas import (
    Context,
    Lemma,
    ProofError,
    U,
    called,
    lane_call,
    muladd_of,
    number_cell,
    operands_of,
    pointer_to,
    same,
    word,
)
from proofs.polynomials import Polynomial, certified, enclosed, ln2_bounds, of_tree, stated
from proofs.reductions import FIRST, LAST, OPAQUE
from proofs.trees import Node, node, replaced, value_of, variable

SPARE = Fraction(1, 2**20)
"""Of a bound's terms in u: kept for products of two errors."""
CONVERTED = U * (1 + Fraction(1, 2**40))
"""How far rounding an integer once moves its logarithm, and what that changes in a bound."""
PIECES = 8
"""Into which the logarithm of m is cut."""


def largest_s() -> Fraction:
    """No |s| = |m − 1|/(m + 1) is larger, nor by a few roundings of m."""
    ends = (1 - Fraction(FIRST)) / (1 + Fraction(FIRST)), (Fraction(LAST) - 1) / (Fraction(LAST) + 1)
    return max(ends) * (1 + Fraction(1, 2**40))


def coefficients(context: Context, level: str, name: str) -> Polynomial:
    """What a polynomial of lanes.h computes if nothing is rounded."""
    z = variable("z")
    return of_tree(Execution(context.source(level)).call(name, z), z)


@functools.cache
def tail_error(polynomial: Polynomial) -> Fraction:
    """How far 2 + s²·q(s²) may be from 2 atanh(s)/s."""
    return enclosed("atanh_tail", polynomial, largest_s(), weight=2)


RANGES = {"atanh_tail": largest_s, "sin_over_r": lambda: Fraction(1, 2), "cos_tail": lambda: Fraction(1, 2)}


def check_polynomial(name: str, *, by_sollya: bool) -> Any:
    """The check of a polynomial's error, as the comment beside it states it."""

    def check(context: Context) -> None:
        most = stated(context.text("kernels/lanes.h"), name)
        for level in context.levels:
            polynomial = coefficients(context, level, name)
            if by_sollya:
                holds, said = certified(name, polynomial, RANGES[name](), most)
            else:
                found = enclosed(name, polynomial, RANGES[name]())
                holds, said = found <= most, f"it is at most {float(found):.4g}"
            if not holds:
                raise ProofError(f"{level}: the error of {name} is not below {float(most):.4g}: {said}")

    return check


# The logarithm of m


@dataclass(frozen=True)
class Logarithm:
    """The trees of one level's exponential.

    Attributes
    ----------
    m : Node
        The mantissa.
    small : Node
        What stands for −ln m.
    ratio, squared, tail, inner : Node
        s, z, q(z) and 2 + z·q(z).
    whole : Node
        −ln|X|.
    count : Node
        63 − k.
    """

    m: Node
    small: Node
    ratio: Node
    squared: Node
    tail: Node
    inner: Node
    whole: Node
    count: Node
    polynomial: Polynomial


@functools.lru_cache(maxsize=64)
def exponential(context: Context, level: str) -> Logarithm:
    """The trees of exponential_ratio and exponential_from, if they have the form that the lemmas are about."""
    run = Execution(context.source(level), OPAQUE)
    w, magnitude, power = word("w"), number_cell(), number_cell()
    ratio = run.call("exponential_ratio", w, pointer_to(magnitude), pointer_to(power))
    converted = node("call:from_int64", w)
    same(operands_of(magnitude.value, "abs")[0], converted, "the magnitude")
    bias = 2.0**52 + 1023 + 63
    m = node("call:reduce", magnitude.value, bias)
    count = node("call:reduce.power", magnitude.value, bias)
    same(power.value, count, "the count of powers of two")
    whole = run.call("exponential_from", ratio, count)
    known, _, small = muladd_of(whole)
    same(known, count, "what ln 2 is multiplied by")
    return _parts(context, level, run, m, small, ratio, whole, count)


def _parts(context: Context, level: str, run: Execution, m: Node, small: Node, ratio: Node, whole: Node, count: Node) -> Logarithm:
    tail = called(run, "atanh_tail")
    factor, inner = operands_of(small, "mul")
    same(factor, ratio, "what the bracket is multiplied by")
    squared, known, two = muladd_of(inner)
    same(known, tail, "the polynomial")
    same(two, 2.0, "what the polynomial is added to")
    same(operands_of(squared, "mul"), (ratio, ratio), "the square")
    return Logarithm(m, small, ratio, squared, tail, inner, whole, count, coefficients(context, level, "atanh_tail"))


def bracket(script: gappa.Script, tail: Node, squared: Node, inner: Node, error: Fraction, bottom: str) -> list[str]:
    """Write Z = S², the exact bracket B = 2 + Z·q(Z) + D of 2 atanh(S)/S, and what is known of D; `bottom` is what S divides by."""
    script.define("Z", "S * S")
    script.near(script.names[squared], "Z")
    exact = script.without_roundings(tail, {squared: "Z"})
    script.define("B0", f"Z * {exact} + 2")
    script.define("B", "B0 + D")
    script.near(script.names[inner], "B0")
    script.near(script.names[inner], "B")
    script.hints.append(f"B0 - B -> -D {{ {bottom} <> 0 }};")
    script.hints.append(f"{script.names[inner]} - B -> ({script.names[inner]} - B0) - D {{ {bottom} <> 0 }};")
    return [gappa.within("D", -error, error)]


SMALL = Fraction(145, 100) * U
"""Proved bound of the error of −ln m."""


def check_small(context: Context) -> None:
    """−ln m up to 1.45u, for all m of the reduction."""
    for level in context.levels:
        parts = exponential(context, level)
        if value_of(replaced(parts.small, {parts.m: variable("m")}), {"m": 1.0}) != 0.0:
            raise ProofError(f"{level}: the logarithm of 1 is not 0")
        for low, high in ((FIRST, 1 - 2.0**-53), (1 + 2.0**-52, LAST)):
            script = gappa.Script()
            script.float_variable(parts.m, "m")
            script.computed(parts.small)
            script.define("S", "(1 - m) / (m + 1)")
            script.near(script.names[parts.ratio], "S")
            known = bracket(script, parts.tail, parts.squared, parts.inner, tail_error(parts.polynomial), "m + 1")
            script.define("T", "S * B")
            script.near(script.names[parts.small], "T")
            goal = gappa.within(f"{script.names[parts.small]} - T", -SMALL, SMALL)
            said = gappa.failure(script.text([gappa.within("m", low, high), *known], goal))
            if said:
                raise ProofError(f"{level}: -ln m is not good to 1.45u for m in [{low}, {high}]: {said}")


# The sample


@dataclass(frozen=True)
class Piece:
    """Samples with one count K of powers of two, and −ln m between two numbers."""

    count: int
    low: Fraction
    high: Fraction

    @property
    def least(self) -> Fraction:
        """A number below all −ln|X|, and not below 0."""
        return max(self.count * ln2_bounds()[0] + self.low, Fraction(0))

    @property
    def most(self) -> Fraction:
        return self.count * ln2_bounds()[1] + self.high


def pieces(first: int, last: int, half: Fraction) -> Iterator[Piece]:
    """All samples of these counts; of the last one only those of at most a whole number of powers of two."""
    for count in range(first, last + 1):
        for i in range(-PIECES // 2, PIECES // 2):
            low, high = (half * 2 * i / PIECES, half * 2 * (i + 1) / PIECES)
            # |X| ≤ 1, and |X| is not below the power of two from which lanes are decided.
            if (count > 0 or high > 0) and (count < last or low < 0):
                yield Piece(count, low, high)


@functools.lru_cache(maxsize=64)
def decided_from(context: Context, level: str) -> int:
    """The K from which on samples are left to the next tier: |w| ≥ 2^(63 − K) is what exponential_start decides."""
    run = Execution(
        context.source(level),
        OPAQUE | {"unless": lane_call("unless"), "exponential_ratio": lane_call("exponential_ratio", "size", "power")},
    )
    w, ratio, count = word("w"), number_cell(), number_cell()
    run.call("exponential_start", w, pointer_to(ratio), pointer_to(count))
    same(ratio.value, node("call:exponential_ratio", w), "the ratio")
    mask, power = operands_of(count.value, "call:unless")
    same(power, node("call:exponential_ratio.power", w), "the count of powers of two")
    condition, kept, lost = operands_of(mask, "select")
    least, size = operands_of(condition, "fle")
    same(size, node("call:exponential_ratio.size", w), "what is compared")
    if (kept, lost) != (0, 2**64 - 1):
        raise RefusedError("the mask of a lane that is not decided")
    exact = Fraction(least)
    power_of_two = exact.numerator.bit_length() - 1
    if exact != 2**power_of_two:
        raise RefusedError(f"the border {least!r}, which is no power of two")
    return 63 - power_of_two


def half_ln2() -> Fraction:
    """No |ln m| is larger, m in [√½, √2)."""
    return ln2_bounds()[1] / 2 * (1 + Fraction(1, 2**40))


def allowed_exponential(context: Context) -> tuple[Fraction, Fraction]:
    """The constants of exponential_from's own comment."""
    return context.stated("kernels/lanes.h", r"Post: -ln\|X\| up to u\(([\d.]+) \+ ([\d.]+) E\)")


def check_exponential(context: Context) -> None:
    """−ln|X| up to u(3 + 2.3E), as exponential_from states, for every sample that is decided."""
    fixed, grows = allowed_exponential(context)
    for level in context.levels:
        parts = exponential(context, level)
        _, ln2, _ = muladd_of(parts.whole)
        fused = parts.whole.op == "fma"
        for piece in pieces(0, decided_from(context, level), half_ln2()):
            most = U * (fixed + grows * piece.least) - CONVERTED
            _sum(f"{level}, K = {piece.count}", float(ln2), piece, Fraction(1), SMALL, most, fused=fused)


def _sum(where: str, constant: float, piece: Piece, factor: Fraction, small: Fraction, most: Fraction, *, fused: bool) -> None:
    """K·c + A is within `most` of K·factor·ln 2 + T, for A within `small` of T in the piece."""
    low, high = (factor * end for end in ln2_bounds())
    script = gappa.Script()
    script.lines += [
        "A = rnd(A_);",
        f"p {'' if fused else 'rnd'}= {piece.count} * {gappa.number(constant)};",
        "e rnd= p + A;",
        f"P = {piece.count} * L;",
        "E = P + T;",
    ]
    script.hints += ["p ~ P;", "A ~ T;", "e ~ E;", "e - E -> (e - (p + A)) + ((p - P) + (A - T));"]
    given = [gappa.within("L", low, high), gappa.within("T", piece.low, piece.high), gappa.within("A - T", -small, small)]
    said = gappa.failure(script.text(given, gappa.within("e - E", -most, most)))
    if said:
        between = f"[{float(piece.low):.3f}, {float(piece.high):.3f}]"
        raise ProofError(f"{where}: the sum is not good to {float(most / U):.2f}u where -ln m is in {between}: {said}")


def exponential_up(x: Fraction) -> Fraction:
    """A number at or above e^x for |x| ≤ 1, by its series."""
    total, term = Fraction(1), Fraction(1)
    for k in range(1, 30):
        term = term * x / k
        total += term
    return total + Fraction(1, 2**90)


def check_laplace_sample(context: Context) -> None:
    """The bound of a unit sample, α + βE, is large enough: what was not seen, arithmetic, and 2u·E for scaling and adding."""
    fixed, grows = allowed_exponential(context)
    for level in context.levels:
        alpha, beta = (context.constants(level)[name] / U for name in ("ALPHA", "BETA_LAPLACE"))
        for piece in pieces(0, decided_from(context, level), half_ln2()):
            share = Fraction(2) ** (piece.count - 63) * exponential_up(piece.high)
            unseen = share / (1 - share) / U
            for E in (piece.least, piece.most):
                needed = fixed + grows * E + unseen
                if needed > alpha - 2 * SPARE + (beta - 2 - 2 * SPARE) * E:
                    raise ProofError(f"{level}: a sample of {float(E):.3f} may be off by {float(needed):.2f}u before it is scaled")


def truth_cell() -> Cell:
    return Cell(INT)


LEMMAS = (
    *(
        Lemma(
            f"polynomial-{name.split('_')[0]}{'-by-fractions' if not by_sollya else ''}",
            f"The weighted error of {name} is at most what the comment beside it states, over the whole reduced interval.",
            "machine",
            "Sollya" if by_sollya else "fractions",
            (name,),
            check_polynomial(name, by_sollya=by_sollya),
        )
        for name in RANGES
        for by_sollya in (True, False)
    ),
    Lemma(
        "logarithm",
        "For every m of the reduction, s·(2 + z·q(z)) is within 1.45u of −ln m.",
        "machine",
        "Gappa",
        ("exponential_ratio", "exponential_from", "atanh_tail", "muladd"),
        check_small,
    ),
    Lemma(
        "exponential",
        "For |X| ≥ 2⁻¹³, exponential_from is within u(3 + 2.3E) of E = −ln|X|, X without the bits that were not seen.",
        "machine",
        "Gappa",
        ("exponential_ratio", "exponential_from", "exponential_start"),
        check_exponential,
    ),
    Lemma(
        "laplace-sample",
        "u(3 + 2.3E), the bits that were not seen and 2u·E for scaling and adding are together at most α + βE.",
        "machine",
        "fractions",
        ("exponential_start",),
        check_laplace_sample,
    ),
)
