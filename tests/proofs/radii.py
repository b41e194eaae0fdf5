"""Lemmas about the radius of a Box-Muller pair: √(−2 ln U), in the three ways in which the lane comes to it."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from proofs import gappa
from proofs.execute import Execution, RefusedError
from proofs.lemmas import Context, Lemma, ProofError, U, called, muladd_of, number_cell, operands_of, pointer_to, same, word
from proofs.logarithms import Piece, _sum, bracket, coefficients, exponential_up, half_ln2, pieces, tail_error, truth_cell
from proofs.polynomials import Polynomial, root_bounds
from proofs.reductions import FIRST, LAST, OPAQUE
from proofs.trees import Node, node, nodes_of, replaced, variable

LOST = Fraction(1, 2**64)
"""The weight of the bits that are not seen."""


@dataclass(frozen=True)
class Radius:
    """The trees of one level's radius: a, d and m, what is divided, the ratio, the bracket, and the argument of the root."""

    a: Node
    d: Node
    one: Node
    m: Node
    count: Node
    f: Node
    ratio: Node
    squared: Node
    tail: Node
    inner: Node
    small: Node
    square: Node
    ln2: float
    fused: bool
    near: Fraction
    far: Fraction
    polynomial: Polynomial


@functools.lru_cache(maxsize=64)
def radius(context: Context, level: str) -> Radius:
    """The trees of radius_ratio and radius_from, if they have the form that the lemmas are about."""
    run = Execution(context.source(level), OPAQUE)
    w, power, rare = word("w"), number_cell(), truth_cell()
    ratio = run.call("radius_ratio", w, pointer_to(power), pointer_to(rare))
    a = node("call:fraction_from_int64", w)
    one = node("select", node("flt", a, 0.0), 1.0, 0.0)
    d = node("add", a, one)
    bias = 2.0**52 + 1023
    m, count = node("call:reduce", d, bias), node("call:reduce.power", d, bias)
    same(power.value, count, "the count of powers of two")
    f, _ = operands_of(ratio, "div")
    low, high = operands_of(rare.value, "both")
    near, far = operands_of(low, "fle"), operands_of(high, "flt")
    same(near[1], a, "what is compared")
    same(far[0], a, "what is compared")
    found = run.call("radius_from", ratio, count)
    square = operands_of(found, "sqrt")[0]
    known, ln2, small = muladd_of(square)
    same(known, count, "what 2 ln 2 is multiplied by")
    tail = called(run, "atanh_tail")
    doubled, inner = operands_of(small, "mul")
    same(operands_of(doubled, "mul"), (-2.0, ratio), "what the bracket is multiplied by")
    squared, polynomial, two = muladd_of(inner)
    same(polynomial, tail, "the polynomial")
    same(two, 2.0, "what the polynomial is added to")
    same(operands_of(squared, "mul"), (ratio, ratio), "the square")
    return Radius(
        a,
        d,
        one,
        m,
        count,
        f,
        ratio,
        squared,
        tail,
        inner,
        small,
        square,
        ln2,
        square.op == "fma",
        -Fraction(near[0]),
        Fraction(far[1]),
        coefficients(context, level, "atanh_tail"),
    )


def proved(where: str, script: gappa.Script, given: list[str], goal: str) -> None:
    """Raise ProofError unless Gappa proves it."""
    said = gappa.failure(script.text(given, goal))
    if said:
        raise ProofError(f"{where}: {goal}: {said}")


def finite(root: Node) -> Any:
    """The tree for finite numbers that are not −0: x + 0, x − 0 and x − x are simplified."""
    done: dict[Node, Any] = {}
    for each in nodes_of(root):
        args = [done[x] if isinstance(x, Node) else x for x in each.args]
        if each.op in {"add", "sub"} and args[1] == 0.0 and not isinstance(args[1], Node):
            done[each] = args[0]
        elif each.op == "sub" and args[0] is args[1]:
            done[each] = 0.0
        else:
            done[each] = each if each.op == "variable" else node(each.op, *args, width=each.width)
    return done[root]


# U above √½: f is a itself


def binades(low: Fraction, high: Fraction) -> Iterator[tuple[Fraction, Fraction]]:
    """Intervals between powers of two that cover [low, high]."""
    at = low
    while at < high:
        power = Fraction(1)
        while power > at:
            power /= 2
        end = min(2 * power, high)
        yield at, end
        at = end


def near_one(context: Context, level: str) -> tuple[Radius, dict[Node, Any]]:
    """The lane where a < 0 and d is not below FIRST, so that m = d."""
    parts = radius(context, level)
    a = variable("a")
    d = node("add", a, 1.0)
    return parts, {parts.a: a, parts.one: 1.0, parts.d: d, parts.m: d}


SQUARE = Fraction(51, 10) * U
"""Proved relative bound of E₂ where U ≥ √½."""


def check_near_one(context: Context) -> None:
    """f = a exactly, and E₂ is good to a relative 5.1u."""
    # a + 1 may have been rounded up to FIRST.
    far = 1 - Fraction(FIRST) + U / 2
    for level in context.levels:
        parts, here = near_one(context, level)
        f = replaced(parts.f, here)
        a, d = here[parts.a], here[parts.d]
        difference = node("sub", d, 1.0)
        rest = node("sub", a, difference)
        same(operands_of(f, "add"), (difference, rest), "f")
        for low, high in binades(parts.near, far):
            script = gappa.Script()
            script.float_variable(a, "a")
            script.computed(f)
            D, t, r, n = (script.names[each] for each in (d, difference, rest, f))
            script.hints += [
                f"a - {t} -> ((a + 1) - {D}) + (({D} - 1) - {t});",
                f"({t} + {r}) - a -> {r} - (a - {t});",
                f"{n} - a -> ({n} - ({t} + {r})) + (({t} + {r}) - a);",
            ]
            proved(f"{level}, f near 1", script, [gappa.within("a", -high, -low)], f"{n} - a in [0,0]")
        script = gappa.Script()
        g = variable("f")
        small = replaced(parts.small, {parts.f: g})
        ratio, inner, squared, tail = (replaced(x, {parts.f: g}) for x in (parts.ratio, parts.inner, parts.squared, parts.tail))
        script.float_variable(g, "f")
        script.near("f", "F")
        script.computed(small)
        script.define("G", "2 + F")
        script.near(script.names[operands_of(ratio, "div")[1]], "G")
        script.define("S", "F / G")
        script.near(script.names[ratio], "S")
        known = bracket(script, tail, squared, inner, tail_error(parts.polynomial), "G")
        script.define("T", "-2 * S * B")
        script.near(script.names[small], "T")
        given = [gappa.within("F", -far - U, -parts.near * (1 - 2 * U)), gappa.within("f -/ F", -U, U), *known]
        proved(f"{level}, U near 1", script, given, gappa.within(f"{script.names[small]} -/ T", -SQUARE, SQUARE))


# U below √½, the sum with 1 rounded: m = 2d


ROUNDED_F = Fraction(126, 100) * U
"""Proved bound of the error of f where U is in [½, √½)."""
SUM_OF_HALF = Fraction(62, 10) * U
"""Proved bound of the error of −2 ln(2U) there."""


def check_half(context: Context) -> None:
    """For U in [½, √½): f is within 1.26u of 2U − 1, and what stands for −2 ln(2U) within 6.2u."""
    for level in context.levels:
        parts = radius(context, level)
        a = variable("a")
        d = node("add", a, 1.0)
        f = replaced(parts.f, {parts.a: a, parts.one: 1.0, parts.d: d, parts.m: node("mul", 2.0, d)})
        first, rest = operands_of(f, "add")
        twice = operands_of(first, "sub")[0]
        difference = operands_of(rest, "sub")[1]
        same(operands_of(difference, "sub"), (d, 1.0), "what d was rounded by")
        script = gappa.Script()
        script.float_variable(a, "a")
        script.computed(f)
        D, M, s, t, r, n = (script.names[each] for each in (d, twice, first, difference, rest, f))
        script.define("F", "1 + 2 * A0")
        script.hints += [
            f"a - {t} -> ((a + 1) - {D}) + (({D} - 1) - {t});",
            f"({s} + {r}) - F -> ({s} - ({M} - 1)) + ({M} - 2 * {D}) + ({r} - (a - {t})) + (({D} - 1) - {t})"
            f" + ({D} - (a + 1)) + 2 * (a - A0);",
            f"{n} - F -> ({n} - ({s} + {r})) + (({s} + {r}) - F);",
        ]
        far = Fraction(FIRST) - 1
        given = [gappa.within("a", Fraction(-1, 2), far), gappa.within("a - A0", -U / 4, U / 4)]
        proved(f"{level}, f below sqrt(1/2)", script, given, gappa.within(f"{n} - F", -ROUNDED_F, ROUNDED_F))
        _check_sum_of_half(level, parts)


def _check_sum_of_half(level: str, parts: Radius) -> None:
    script = gappa.Script()
    g = variable("f")
    small, ratio, inner, squared, tail = (
        replaced(x, {parts.f: g}) for x in (parts.small, parts.ratio, parts.inner, parts.squared, parts.tail)
    )
    script.float_variable(g, "f")
    script.near("f", "F")
    script.computed(small)
    bottom = operands_of(ratio, "div")[1]
    d = script.names[bottom]
    script.define("G", "2 + F")
    script.define("S", "F / G")
    script.near(d, "G")
    script.near(script.names[ratio], "S")
    script.hints.append(f"f / {d} - F / G -> ((f - F) + F / G * (G - {d})) / {d} {{ {d} <> 0, G <> 0 }};")
    known = bracket(script, tail, squared, inner, tail_error(parts.polynomial), "G")
    script.define("T", "-2 * S * B")
    script.near(script.names[small], "T")
    given = [gappa.within("F", -2 * ROUNDED_F, Fraction(LAST) - 1 + 2 * ROUNDED_F), gappa.within("f - F", -ROUNDED_F, ROUNDED_F), *known]
    proved(f"{level}, U below sqrt(1/2)", script, given, gappa.within(f"{script.names[small]} - T", -SUM_OF_HALF, SUM_OF_HALF))


# U below ½: m is exact


SUM_OF_SMALL = Fraction(29, 10) * U
"""Proved bound of the error of −2 ln m."""


def check_small_u(context: Context) -> None:
    """For U < ½: −2 ln m up to 2.9u."""
    for level in context.levels:
        parts = radius(context, level)
        a, m = variable("a"), variable("m")
        f = finite(replaced(parts.f, {parts.one: 0.0, parts.d: a, parts.a: a, parts.m: m}))
        same(operands_of(f, "sub"), (m, 1.0), "f")
        for low, high in ((FIRST, 1 - 2.0**-53), (1 + 2.0**-52, LAST)):
            script = gappa.Script()
            small, ratio, inner, squared, tail = (
                replaced(x, {parts.f: f}) for x in (parts.small, parts.ratio, parts.inner, parts.squared, parts.tail)
            )
            script.float_variable(m, "m")
            script.computed(small)
            script.define("F", "m - 1")
            script.define("G", "2 + F")
            script.near(script.names[f], "F")
            script.near(script.names[operands_of(ratio, "div")[1]], "G")
            script.define("S", "F / G")
            script.near(script.names[ratio], "S")
            known = bracket(script, tail, squared, inner, tail_error(parts.polynomial), "G")
            script.define("T", "-2 * S * B")
            script.near(script.names[small], "T")
            goal = gappa.within(f"{script.names[small]} - T", -SUM_OF_SMALL, SUM_OF_SMALL)
            proved(f"{level}, m in [{low}, {high}]", script, [gappa.within("m", low, high), *known], goal)


# The root


def allowed_radius(context: Context) -> tuple[Fraction, Fraction]:
    """The constants of radius_lane's own comment."""
    return context.stated("kernels/lanes.h", r"Post: sqrt\(-2 ln U\) up to u\(([\d.]+) \+ ([\d.]+) R\) unless \*rare")


def check_radius(context: Context) -> None:
    """R = √(−2 ln U) up to u(7.2 + 2.2R) with the bits that were not seen, as radius_lane states."""
    fixed, grows = allowed_radius(context)
    for level in context.levels:
        parts = radius(context, level)
        last = _largest_count(parts.far)
        _check_relative(level, parts.near, fixed, grows)
        halves = [(piece, SUM_OF_HALF, Fraction(0)) for piece in pieces(1, 1, 2 * half_ln2())]
        smaller = [(piece, SUM_OF_SMALL, 2 * U * (1 + Fraction(1, 2**50))) for piece in pieces(1, last, 2 * half_ln2())]
        for piece, small, converted in [*halves, *smaller]:
            _check_piece(level, parts, piece, small, converted, fixed, grows)


def _largest_count(least: Fraction) -> int:
    """K for U ≥ 2^−K, where samples are not rare any more."""
    power = least.denominator.bit_length() - 1
    if least != Fraction(1, 2**power):
        raise RefusedError(f"the border {least}, which is no power of two")
    return power


def _check_relative(level: str, near: Fraction, fixed: Fraction, grows: Fraction) -> None:
    """U ≥ √½, by powers of two of x = 1 − U: R is good to half of 5.1u and a rounding."""
    relative = SQUARE / 2 * (1 + SQUARE) + U * (1 + SQUARE)
    for low, high in binades(near * (1 - 2 * U), 1 - Fraction(FIRST) + U):
        # 2x ≤ −2 ln(1 − x) ≤ 2x/(1 − x)
        least, most = root_bounds(2 * (low - LOST))[0], root_bounds(2 * high / (1 - high))[1]
        unseen = LOST / ((1 - high) * least)
        for R in (least, most):
            if relative * R + unseen > U * (fixed + grows * R):
                raise ProofError(f"{level}: the radius near {float(R):.4g} may be off by {float((relative * R + unseen) / U):.2f}u")


def _scaled(piece: Piece) -> Piece:
    return Piece(2 * piece.count, piece.low, piece.high)


def _check_piece(level: str, parts: Radius, piece: Piece, small: Fraction, converted: Fraction, fixed: Fraction, grows: Fraction) -> None:
    """One count of powers of two: E₂ = 2K·ln 2 + T with T in the piece."""
    twice = _scaled(piece)
    least, most = twice.least, twice.most
    # A bound of the sum that Gappa can prove: T's own, and relative roundings of what is at most E₂ + ln 2.
    sum_error = small + U * Fraction(23, 10) * (most + 1)
    _sum(f"{level}, radius, K = {piece.count}", parts.ln2, piece, Fraction(2), small, sum_error, fused=parts.fused)
    error = sum_error + converted
    if least <= 0:
        raise ProofError(f"{level}: the argument of the root may be negative")
    low, high = root_bounds(least - error)[0], root_bounds(most)[1]
    off = error / (2 * low) + U * high * (1 + Fraction(1, 2**40))
    unseen = LOST * 2**piece.count * exponential_up(piece.high / 2) / low
    if off + unseen > U * (fixed + grows * low):
        raise ProofError(f"{level}: a radius from {float(low):.4f} on may be off by {float((off + unseen) / U):.2f}u")


LEMMAS = (
    Lemma(
        "radius-near-one",
        "For U ≥ √½ the sum f is U − 1 with the one rounding of its conversion, and −2 ln U is good to a relative 5.1u.",
        "machine",
        "Gappa",
        ("radius_ratio", "radius_from", "atanh_tail", "muladd"),
        check_near_one,
    ),
    Lemma(
        "radius-half",
        "For ½ ≤ U < √½ the sum f is within 1.26u of 2U − 1, and what stands for −2 ln 2U is good to 6.2u.",
        "machine",
        "Gappa",
        ("radius_ratio", "radius_from", "atanh_tail", "muladd"),
        check_half,
    ),
    Lemma(
        "radius-small",
        "For 2⁻¹⁵ ≤ U < ½ what stands for −2 ln m is good to 2.9u.",
        "machine",
        "Gappa",
        ("radius_ratio", "radius_from", "atanh_tail", "muladd"),
        check_small_u,
    ),
    Lemma(
        "radius",
        "√(−2 ln U) is good to u(7.2 + 2.2R), unless it is left to the next tier; the bits that were not seen are in it.",
        "machine",
        "Gappa, fractions",
        ("radius_ratio", "radius_from", "radius_lane"),
        check_radius,
    ),
)
