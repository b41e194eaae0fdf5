"""Lemmas about the circle: cosine and sine of 2πV from a word."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from proofs import gappa
from proofs.bits import formula, holds, solver
from proofs.execute import Execution
from proofs.lemmas import Context, Lemma, ProofError, U, called, lane_call, number_cell, operands_of, pointer_to, same, word
from proofs.polynomials import pi_bounds, stated
from proofs.radii import proved
from proofs.reductions import OPAQUE
from proofs.trees import Node, node, replaced, variable


def circle(context: Context, level: str, *, inlined: bool) -> tuple[Execution, Node, Node, Node]:
    """One run of circle_lane: the word, and the trees of cosine and sine; the polynomials as calls or with their operations."""
    opaque = dict(OPAQUE)
    if not inlined:
        opaque |= {name: lane_call(name) for name in ("sin_over_r", "cos_tail")}
    run = Execution(context.source(level), opaque)
    v, cosine, sine = word("v"), number_cell(), number_cell()
    run.call("circle_lane", v, pointer_to(cosine), pointer_to(sine))
    return run, v, cosine.value, sine.value


def check_octants(context: Context) -> None:
    """For all words: 4V = j + r modulo 4, and cosine and sine are ± the two values as π/2·(j + r) asks for."""
    z3 = solver()
    for level in context.levels:
        run, v, cosine, sine = circle(context, level, inlined=False)
        same(called(run, "fraction_from_int64"), node("call:fraction_from_int64", node("left", v, 2, width=64)), "r")
        zero, one = values(run, v)
        V, near_zero, near_one = z3.BitVecs("v zero one", 64)
        given = {v: V, node("to_bits", zero): near_zero, node("to_bits", one): near_one}
        found = {"cosine": cosine, "sine": sine}
        bits = {name: formula(operands_of(x, "of_bits")[0], given) for name, x in found.items()}
        # 4V 2^62 = j 2^62 + (v << 2 as a signed number)/4, modulo 2^64.
        rest = (V << 2) >> 2
        minus = 1 << 63
        expected = {
            0: (near_one, near_zero),
            1: (near_zero ^ minus, near_one),
            2: (near_one ^ minus, near_zero ^ minus),
            3: (near_zero, near_one ^ minus),
        }
        for j, (c, s) in expected.items():
            here = (j << 62) + rest == V
            for name, x in (("cosine", c), ("sine", s)):
                if not holds(bits[name] == x, here):
                    raise ProofError(f"{level}: the {name} of quarter {j} is wrong for some word")
        if not holds(z3.Or(*((j << 62) + rest == V for j in expected))):
            raise ProofError("some word is in no quarter")


def values(run: Execution, v: Node) -> tuple[Node, Node]:
    """The trees of sin(πr/2) and cos(πr/2), if they have the form that the lemmas are about."""
    r = node("call:fraction_from_int64", node("left", v, 2, width=64))
    z = node("mul", r, r)
    zero = node("mul", r, called(run, "sin_over_r"))
    tail = called(run, "cos_tail")
    one = node("fma", z, tail, 1.0)
    if called_with(run, "sin_over_r") != (z,) or called_with(run, "cos_tail") != (z,):
        raise ProofError("the polynomials are not taken at r²")
    unfused = node("add", node("mul", z, tail), 1.0)
    return zero, unfused if _is_there(run, unfused) else one


def called_with(run: Execution, name: str) -> tuple[Any, ...]:
    """What a function was called with."""
    return next(tuple(given) for each, given, _ in reversed(run.called) if each == name)


def _is_there(run: Execution, wanted: Node) -> bool:
    return any(value is wanted for name, _, value in run.called if name == "muladd")


SINE, COSINE = Fraction(27, 10) * U, Fraction(33, 10) * U
"""Proved bounds of the errors of sin(πr/2) and cos(πr/2), r as a float64."""


def check_values(context: Context) -> None:
    """sin(πr/2) and cos(πr/2) for every float64 r in [−½, ½]."""
    half = Fraction(1, 2)
    for level in context.levels:
        run, v, _, _ = circle(context, level, inlined=True)
        zero, one = values(run, v)
        r = variable("r")
        word_r = node("call:fraction_from_int64", node("left", v, 2, width=64))
        for root, name, bound in ((zero, "sin_over_r", SINE), (one, "cos_tail", COSINE)):
            here = replaced(root, {word_r: r})
            tail = replaced(called(run, name), {word_r: r})
            error = stated(context.text("kernels/lanes.h"), name)
            script = gappa.Script()
            script.float_variable(r, "r")
            n = script.computed(here)
            z = node("mul", r, r)
            script.define("Z", "r * r")
            script.near(script.names[z], "Z")
            exact = script.without_roundings(tail, {z: "Z"})
            script.define("T0", f"r * {exact}" if name == "sin_over_r" else f"Z * {exact} + 1")
            script.define("T", "T0 + D")
            script.near(n, "T0")
            script.hints.append(f"{n} - T -> ({n} - T0) - D;")
            given = [gappa.within("r", -half, half), gappa.within("D", -error, error)]
            proved(f"{level}, {name}", script, given, gappa.within(f"{n} - T", -bound, bound))


def check_circle(context: Context) -> None:
    """What the conversion and the bits that were not seen turn the angle by, beside the errors of the values: below what is stated."""
    (most,) = context.stated("kernels/lanes.h", r"Post: cos and sin of 2 pi V up to ([\d.]+)u")
    script = gappa.Script()
    script.define("r", "rnd(x)")
    quarter = U / 4
    proved("the angle", script, [gappa.within("x", Fraction(-1, 2), Fraction(1, 2))], gappa.within("r - x", -quarter, quarter))
    high = pi_bounds()[1]
    turned = high / 2 * quarter + 2 * high / 2**64
    for bound in (SINE, COSINE):
        if bound + turned > most * U:
            raise ProofError(f"the circle is good to {float((bound + turned) / U):.2f}u only, not to {float(most)}u")


LEMMAS = (
    Lemma(
        "octants",
        "For every word, r and the two exchanged values with their signs are those of the angle 2πV = π/2·(j + r).",
        "machine",
        "z3",
        ("circle_lane",),
        check_octants,
    ),
    Lemma(
        "circle-values",
        "For |r| ≤ ½, r·P(r²) is within 2.7u of sin(πr/2) and 1 + r²·Q(r²) within 3.3u of cos(πr/2).",
        "machine",
        "Gappa",
        ("circle_lane", "sin_over_r", "cos_tail", "muladd"),
        check_values,
    ),
    Lemma(
        "circle",
        "cos 2πV and sin 2πV are good to 4u, conversion and the bits that were not seen included.",
        "machine",
        "Gappa, fractions",
        ("circle_lane",),
        check_circle,
    ),
)
