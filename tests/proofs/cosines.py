"""The lemma about the cosines of orthogonal series: whole steps of 2^-40 that are right up to one."""

from __future__ import annotations

from fractions import Fraction
from math import factorial

from proofs import gappa
from proofs.execute import Execution
from proofs.lemmas import Context, Lemma, ProofError
from proofs.polynomials import Polynomial, largest, negative, of_tree, pi_bounds, plus, root_bounds, spread
from proofs.radii import proved
from proofs.trees import node, operand_of, replaced, variable

TERMS = 20
QUARTER = Fraction(1, 4)


def sine_series() -> tuple[Polynomial, Fraction]:
    """√2·2^40·sin(2πs)/s in powers of s², and how far all of it may be off for s ≤ ¼."""
    low = [end * Fraction(2) ** 40 for end in root_bounds(Fraction(2), 300)]
    pi = pi_bounds()
    found, off = [], Fraction(0)
    for k in range(TERMS):
        ends = [root * (2 * p) ** (2 * k + 1) / factorial(2 * k + 1) for root, p in zip(low, pi, strict=True)]
        found.append((-1) ** k * sum(ends) / 2)
        off += (ends[1] - ends[0]) / 2 * QUARTER ** (2 * k)
    # Alternating, and terms fall: (2 pi s)^2 is below the next factor of a factorial.
    rest = low[1] * (2 * pi[1]) ** (2 * TERMS + 1) / factorial(2 * TERMS + 1) * QUARTER ** (2 * TERMS)
    return tuple(found), off + rest


def check_cosine(context: Context) -> None:
    """The error before it is cut to an integer is below what the comment states."""
    (most,) = context.stated("kernels/release.inc.c", r"by its series; the error is below ([\d.]+)\.")
    series, off = sine_series()
    for level in context.levels:
        s = variable("s")
        root = Execution(context.source(level)).call("scaled_sine", s)
        factor, tail = operand_of(root, "mul")
        if factor is not s:
            raise ProofError(f"{level}: the sine is not a multiple of its argument")
        z = node("mul", s, s)
        here = variable("z")
        polynomial = of_tree(replaced(tail, {z: here}), here)
        error = largest(spread(plus(polynomial, negative(series)), 2, 1), QUARTER) + off * QUARTER
        script = gappa.Script()
        script.float_variable(s, "s")
        n = script.computed(root)
        script.define("Z", "s * s")
        script.near(script.names[z], "Z")
        exact = script.without_roundings(tail, {z: "Z"})
        script.define("T", f"s * {exact}")
        script.near(n, "T")
        left = most - error - turned()
        if left <= 0:
            raise ProofError(f"{level}: the series alone is off by {float(error):.3g}")
        proved(f"{level}, scaled_sine", script, [gappa.within("s", 0, QUARTER)], gappa.within(f"{n} - T", -left, left))


def turned() -> Fraction:
    """What the twelve bits of a phase that are cut off change at most."""
    return root_bounds(Fraction(2))[1] * Fraction(2) ** 40 * 2 * pi_bounds()[1] / Fraction(2) ** 52


LEMMAS = (
    Lemma(
        "cosine",
        "√2·2⁴⁰·cos(2πt) is good to 0.1 before it is cut to an integer, the twelve bits of the phase that are not used included.",
        "machine",
        "Gappa, fractions",
        ("scaled_sine", "rounded_cosine", "next_cosines", "cosines"),
        check_cosine,
    ),
)
