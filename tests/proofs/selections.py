"""The lemma about the logarithm of selections' noise, which has the polynomial and the reduction of the lanes."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from proofs import gappa
from proofs.execute import Execution
from proofs.lemmas import Context, Lemma, ProofError, U, called, lane_call, muladd_of, operands_of, same
from proofs.logarithms import SMALL, Piece, bracket, coefficients, half_ln2, tail_error
from proofs.polynomials import ln2_bounds
from proofs.reductions import FIRST, LAST
from proofs.trees import Node, node, variable

COUNTS = range(-7, 66)
"""−k for d = 2^k·m: uniform numbers from 2^-64 on, and exponential ones below 64."""


def trees(context: Context, level: str) -> tuple[Node, float, Node, Node, Any]:
    """m, ln 2 as the source has it, what stands for ln m, the whole, and the run."""
    run = Execution(context.source(level), {"reduce": lane_call("reduce", "power")})
    d = variable("d")
    whole = run.call("negative_log", d)
    bias = 2.0**52 + 1023
    m, count = node("call:reduce", d, bias), node("call:reduce.power", d, bias)
    power, small = operands_of(whole, "sub")
    known, ln2 = operands_of(power, "mul")
    same(known, count, "what ln 2 is multiplied by")
    return m, float(ln2), small, whole, run


def check_logarithm(context: Context) -> None:
    """−ln d up to what the comment states, by counts of powers of two."""
    (exponent,) = context.stated("core/unit_noise.h", r"-ln d for a positive normal d, good to 2\^-(\d+) \(1 \+ \|ln d\|\)")
    unit = Fraction(1, 2 ** int(exponent))
    for level in context.levels:
        m, ln2, small, _, run = trees(context, level)
        ratio, inner = operands_of(small, "mul")
        squared, tail, two = muladd_of(inner)
        same(tail, called(run, "atanh_tail"), "the polynomial")
        same(two, 2.0, "what the polynomial is added to")
        same(operands_of(squared, "mul"), (ratio, ratio), "the square")
        error = tail_error(coefficients(context, level, "atanh_tail"))
        for low, high in ((FIRST, 1 - 2.0**-53), (1 + 2.0**-52, LAST)):
            script = gappa.Script()
            script.float_variable(m, "m")
            script.computed(small)
            script.define("S", "(m - 1) / (m + 1)")
            script.near(script.names[ratio], "S")
            known = bracket(script, tail, squared, inner, error, "m + 1")
            script.define("T", "S * B")
            script.near(script.names[small], "T")
            goal = gappa.within(f"{script.names[small]} - T", -SMALL, SMALL)
            said = gappa.failure(script.text([gappa.within("m", low, high), *known], goal))
            if said:
                raise ProofError(f"{level}: ln m is not good to 1.45u: {said}")
        for count in COUNTS:
            _check_count(level, ln2, count, unit)


def _check_count(level: str, ln2: float, count: int, unit: Fraction) -> None:
    """−ln d = count·ln 2 − ln m, rounded product and difference."""
    half = half_ln2()
    for piece in (Piece(count, -half, Fraction(0)), Piece(count, Fraction(0), half)):
        ends = [count * end + part for end in ln2_bounds() for part in (piece.low, piece.high)]
        least = Fraction(0) if min(ends) < 0 < max(ends) else min(map(abs, ends))
        most = unit * (1 + least)
        script = gappa.Script()
        script.lines += [
            "A = rnd(A_);",
            f"p rnd= {count if count >= 0 else f'({count})'} * {gappa.number(ln2)};",
            "e rnd= p - A;",
            f"P = {count if count >= 0 else f'({count})'} * L;",
            "E = P - T;",
        ]
        script.hints += ["p ~ P;", "A ~ T;", "e ~ E;", "e - E -> (e - (p - A)) + ((p - P) - (A - T));"]
        given = [
            gappa.within("L", *ln2_bounds()),
            gappa.within("T", -piece.high, -piece.low),
            gappa.within("A - T", -SMALL, SMALL),
        ]
        said = gappa.failure(script.text(given, gappa.within("e - E", -most, most)))
        if said:
            raise ProofError(f"{level}: -ln d is not good to {float(most / U):.2f}u for d near 2^{-count}: {said}")


LEMMAS = (
    Lemma(
        "selection-logarithm",
        "negative_log is within 2⁻⁵⁰(1 + |ln d|) of −ln d, for every d from 2⁻⁶⁴ to 2⁷.",
        "machine",
        "Gappa",
        ("negative_log",),
        check_logarithm,
    ),
)
