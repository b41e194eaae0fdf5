"""Lemmas about bits and conversions: what becomes of a word before the first rounding error counts."""

from __future__ import annotations

from fractions import Fraction
from math import isqrt
from typing import Any

from proofs import gappa
from proofs.bits import formula, holds, solver
from proofs.execute import Execution, RefusedError
from proofs.lemmas import CONVERSIONS, Context, Lemma, ProofError, lane_call, number_cell, operands_of, pointer_to, same, word
from proofs.trees import Node, bits_of, double_of, node, variable


def reduced_from() -> int:
    """The bits of the least float64 at or above √½, from integers alone."""
    mantissa = isqrt(1 << 105)  # of sqrt(1/2) 2^53
    while mantissa * mantissa < 1 << 105:
        mantissa += 1
    return (1022 << 52) + mantissa - (1 << 52)


FIRST = double_of(reduced_from())
"""The least m of the reduction: the double above √½."""
LAST = 2 * FIRST - 2.0**-52
"""The largest m, the double below 2·FIRST."""


def check_ends(context: Context) -> None:
    """The interval of m lies within [√½, √2)."""
    if not Fraction(FIRST) ** 2 >= Fraction(1, 2) or not Fraction(LAST) ** 2 < 2:
        raise ProofError("m leaves [sqrt(1/2), sqrt(2))")


def check_reduce(context: Context) -> None:
    """For all normal d: d = 2^k·m with m in [FIRST, LAST], and the other number is bias − k − 1023 exactly."""
    z3 = solver()
    for level in context.levels:
        run = Execution(context.source(level))
        d, bias, power = variable("d"), variable("bias"), number_cell()
        m = operands_of(run.call("reduce", d, bias, pointer_to(power)), "of_bits")[0]
        known, counted = operands_of(power.value, "sub")
        same(known, bias, "the bias")
        count = operands_of(counted, "of_bits")[0]
        b = z3.BitVec("d", 64)
        given = {node("to_bits", d): b}
        M, N = formula(m, given), formula(count, given)
        normal = z3.And(z3.UGE(b, 1 << 52), z3.ULT(b, 0x7FF << 52))
        first = reduced_from()
        mask = (1 << 52) - 1
        shift = z3.LShR(b, 52) - z3.LShR(M, 52) + 1023
        claims = {
            "m is in its interval": z3.And(z3.UGE(M, first), z3.ULE(M, bits_of(LAST))),
            "m has the mantissa of d": (M & mask) == (b & mask),
            "the count is 2^52 + k + 1023": (0x433 << 52) + shift == N,
            "k + 1023 is an integer below 2^12": z3.ULT(shift, 1 << 12),
        }
        for what, claim in claims.items():
            if not holds(claim, normal):
                raise ProofError(f"{level}: {what} does not hold for all d")


def _pattern(z3: Any, bits: Any, low: Any, base: int, assumed: Any) -> Fraction:
    """Of bits that are a double with its last bits replaced by a 32-bit number: the double; its last place counts that number."""
    if not holds(z3.And(bits == base + low, z3.ULT(low, 1 << 32)), assumed):
        raise ProofError("the bits are no sum of a power of two and 32 bits")
    return Fraction(double_of(base))


def _integer_and_fraction(context: Context, name: str, scale: Fraction) -> None:
    z3 = solver()
    for level in context.levels:
        run = Execution(context.source(level))
        v = word("v")
        root = run.call(name, v)
        if root.op == "mul":
            root, factor = root.args
            if Fraction(factor) != scale:
                raise ProofError(f"{level}: {name} multiplies by {factor!r}")
        elif root.op == "from_signed" and scale != 1:
            raise ProofError(f"{level}: {name} does not scale")
        if root.op == "from_signed":
            same(root.args[0], v, "what is converted")
            continue
        difference, lower = operands_of(root, "add")
        upper, constant = operands_of(difference, "sub")
        V = z3.BitVec("v", 64)
        high = z3.LShR(V ^ (1 << 63), 32)
        low = V & 0xFFFFFFFF
        places = []
        for part, number in ((upper, high), (lower, low)):
            bits = operands_of(part, "of_bits")[0]
            base = int(operands_of(bits, "or")[1])
            places.append((_pattern(z3, formula(bits, {v: V}), number, base, z3.BoolVal(val=True)), double_of(base + 1)))
        (first, first_next), (second, second_next) = places
        step, unit = Fraction(first_next) - first, Fraction(second_next) - second
        # v = 2^32 (high - 2^31) + low, as signed integers: the halves are read so.
        if not holds(((high - (1 << 31)) << 32) + low == V):
            raise ProofError("the halves do not make the word")
        if unit != scale or step != scale * 2**32 or first - Fraction(constant) + second != -scale * 2**63:
            raise ProofError(f"{level}: the sum of the parts of {name} is not the number")
        # Exact: a multiple of `step` below 2^53 of them.
        if Fraction(constant) % step or abs(first - Fraction(constant)) + step * 2**32 > step * 2**53:
            raise ProofError(f"{level}: the first difference of {name} rounds")


def check_from_int64(context: Context) -> None:
    """One rounding of the integer."""
    _integer_and_fraction(context, "from_int64", Fraction(1))


def check_fraction(context: Context) -> None:
    """One rounding of the integer times 2^-64."""
    _integer_and_fraction(context, "fraction_from_int64", Fraction(1, 2**64))


ROUND = "call:nearest_small"


def check_nearest_small(context: Context) -> None:
    """An integer within ½ of x, for |x| < 2^51; x − n is exact."""
    for level in context.levels:
        run = Execution(context.source(level))
        x = variable("x")
        root = run.call("nearest_small", x)
        _prove_integer(level, root, x, Fraction(2) ** 51 - Fraction(1, 4))


def unrounded(script: gappa.Script, root: Node) -> str:
    """A hint for (x + c) − c: the sum rounds, and the difference does not."""
    total, c = operands_of(root, "sub")
    n, t = script.names[root], script.names[total]
    shift = script.names[c] if isinstance(c, Node) else gappa.number(c)
    return f"x - {n} -> ((x + {shift}) - {t}) + (({t} - {shift}) - {n});"


def _prove_integer(level: str, root: Node, x: Node, most: Fraction) -> None:
    half = Fraction(1, 2)
    for low, high in ((half, most), (-most, -half)):
        script = gappa.Script()
        script.float_variable(x, "x")
        n = script.computed(root)
        script.lines.append(f"d rnd= x - {n};")
        script.define("D", f"x - {n}")
        script.hints.append(unrounded(script, root))
        where = [gappa.within("x", low, high)]
        for goal in (f"@FIX({n},0)", "D in [-0.5,0.5]", "d - D in [0,0]"):
            said = gappa.failure(script.text(where, goal))
            if said:
                raise ProofError(f"{level}: {goal}: {said}")
    script = gappa.Script()
    script.float_variable(x, "x")
    n = script.computed(root)
    said = gappa.failure(script.text([gappa.within("x", -half, half)], f"{n} in [0,0]"))
    if said:
        raise ProofError(f"{level}: {n} is not 0 where |x| <= 1/2: {said}")


def check_nearest(context: Context) -> None:
    """The nearest integer of any x: as nearest_small below 2^52, x itself from there on, where floats are integers."""
    for level in context.levels:
        run = Execution(context.source(level))
        x = variable("x")
        root = run.call("nearest", x)
        if root.op == "rint":
            same(root.args[0], x, "what is rounded")
            continue
        condition, small, large = operands_of(root, "select")
        size, border = operands_of(condition, "flt")
        same(operands_of(size, "abs")[0], x, "what is compared")
        same(border, 2.0**52, "the border")
        same(large, x, "what large numbers become")
        total, big = operands_of(small, "sub")
        same(operands_of(total, "add")[0], x, "what is rounded")
        same(operands_of(total, "add")[1], big, "what is added and subtracted")
        z3 = solver()
        b = z3.BitVec("x", 64)
        copied = formula(operands_of(big, "of_bits")[0], {node("to_bits", x): b})
        if not holds(copied == (b & (1 << 63)) | bits_of(2.0**52)):
            raise ProofError(f"{level}: what is added is not 2^52 with the sign of x")
        half = Fraction(1, 2)
        for sign, low, high in ((1.0, Fraction(0), Fraction(2) ** 52 - half), (-1.0, half - Fraction(2) ** 52, Fraction(0))):
            script = gappa.Script()
            script.float_variable(x, "x")
            script.names[big] = gappa.number(sign * 2.0**52) if sign > 0 else f"({gappa.number(sign * 2.0**52)})"
            n = script.computed(small)
            script.hints.append(unrounded(script, small))
            for goal in (f"@FIX({n},0)", f"x - {n} in [-0.5,0.5]"):
                said = gappa.failure(script.text([gappa.within("x", low, high)], goal))
                if said:
                    raise ProofError(f"{level}: {goal}: {said}")


def check_to_int64(context: Context) -> None:
    """The integer whose float nearest_small gives, for |x| < 2^51, and DPK_OPEN where a lane is not decided."""
    for level in context.levels:
        run = Execution(context.source(level))
        x, decided = variable("x"), variable("decided", width=32)
        shift = bits_of(1.5 * 2.0**52)
        bits, base = operands_of(run.call("to_int64", x), "minus")
        total, constant = operands_of(operands_of(bits, "to_bits")[0], "add")
        same(total, x, "what is rounded")
        if Fraction(constant) != Fraction(3, 2) * 2**52 or base != shift:
            raise ProofError(f"{level}: the bits of {constant!r} are not subtracted")
        bits, base = operands_of(run.call("settled_int64", x, decided), "minus")
        _, then, otherwise = operands_of(operands_of(bits, "to_bits")[0], "select")
        same(operands_of(then, "add")[0], x, "what is rounded")
        same(operands_of(then, "add")[1], constant, "what is added")
        opened = run.integer(definition(context, "DPK_OPEN"))
        if base != shift or (bits_of(otherwise) - base - opened) % 2**64:
            raise ProofError(f"{level}: an open lane is not DPK_OPEN")
        # Doubles in [2^52, 2^53] are integers n + 1.5 2^52, and their bits grow by one with each: the ends show it.
        for n in (-(2**51), -1, 0, 1, 2**51):
            if bits_of(float(n + 3 * 2**51)) - shift != n:
                raise ProofError("bits do not count integers")


def definition(context: Context, name: str) -> Any:
    """The expression of a macro."""
    import re

    from pycparser import c_parser

    for file in ("include/dpk_noise.h", "kernels/lanes.h"):
        found = re.search(rf"^#define {name} (.*?)(?:/\*.*)?$", (context.kernels / file).read_text(encoding="utf-8"), re.MULTILINE)
        if found:
            text = found[1].replace("int64_t", "long")
            return c_parser.CParser().parse(f"long x = {text};").ext[0].init
    raise RefusedError(f"the macro {name} is not defined")


def check_rare(context: Context) -> None:
    """`unless` keeps a number, or makes a NaN of it."""
    for level in context.levels:
        run = Execution(context.source(level))
        x, mask = variable("x"), word("mask")
        kept, added = operands_of(run.call("unless", mask, x), "add")
        same(kept, x, "what is kept")
        same(operands_of(added, "of_bits")[0], mask, "what is added")
    if double_of(0) != 0.0 or double_of(2**64 - 1) == double_of(2**64 - 1):
        raise ProofError("the mask of all bits is no NaN")


OPAQUE = CONVERSIONS | {"reduce": lane_call("reduce", "power")}

LEMMAS = (
    Lemma(
        "reduction-ends",
        "The least double above √½ is c = 0x1.6a09e667f3bcdp-1, and the double below 2c is below √2.",
        "machine",
        "exact integers",
        (),
        check_ends,
    ),
    Lemma(
        "reduce",
        "For every normal d > 0: d = 2ᵏ·m with m ∈ [c, 2c), and the count that is returned is bias − 1023 − k, exactly.",
        "machine",
        "z3",
        ("reduce", "bits_of", "double_of"),
        check_reduce,
    ),
    Lemma("from-int64", "A word becomes a double with one rounding.", "machine", "z3, exact integers", ("from_int64",), check_from_int64),
    Lemma(
        "fraction-from-int64",
        "A word times 2⁻⁶⁴ becomes a double with one rounding.",
        "machine",
        "z3, exact integers",
        ("fraction_from_int64",),
        check_fraction,
    ),
    Lemma(
        "nearest-small",
        "For |x| < 2⁵¹ the result n is an integer, |x − n| ≤ ½, and x − n is computed exactly.",
        "machine",
        "Gappa",
        ("nearest_small",),
        check_nearest_small,
    ),
    Lemma("nearest", "n is an integer and |x − n| ≤ ½, for every finite x.", "machine", "Gappa, z3", ("nearest",), check_nearest),
    Lemma(
        "to-int64",
        "The integer that nearest_small finds becomes an int64; an undecided lane becomes DPK_OPEN.",
        "machine",
        "exact integers",
        ("to_int64", "settled_int64"),
        check_to_int64,
    ),
    Lemma("unless", "A lane that is left to the next tier becomes NaN, and no other does.", "machine", "IEEE 754", ("unless",), check_rare),
)
