"""Lemmas about the decision: a lane that is decided has the one integer that the real number rounds to."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from pycparser import c_parser

from proofs import gappa
from proofs.bits import formula, holds, solver
from proofs.execute import Cell, Execution, Pointer, Type, Value
from proofs.kernels import (
    GROUP,
    HALF,
    LANES,
    Block,
    discrete_block,
    exponential_of,
    float_block,
    is_arithmetic_of,
    normal_of,
    opened,
    radius_of,
)
from proofs.lemmas import Context, Lemma, ProofError, U, lane_call, muladd_of, operands_of, same, structure, word
from proofs.logarithms import SPARE, decided_from
from proofs.magnitudes import Bounds, Magnitude, bounds_of, lacking
from proofs.polynomials import ln2_bounds, root_bounds
from proofs.radii import allowed_radius, proved, radius
from proofs.trees import Node, node, replaced, variable

LARGEST_STEP = Fraction(2) ** 40
"""No scale is more units of its grid."""
LARGEST_SIZE = {"laplace": Fraction(91, 10), "gaussian": Fraction(47, 10)}
"""No unit sample that is decided is larger, E or R."""
LOW = Fraction(2) ** 52
"""No low part of a lane that is decided is more units of the grid, as |t| is below 2^51."""
S, R, L = "S", "R", "L"


@dataclass(frozen=True)
class Law:
    """What is known of a unit sample: the constants of its bound, as floats of the kernels."""

    alpha: Fraction
    beta: Fraction
    slack: Fraction

    @staticmethod
    def of(context: Context, level: str, kind: str) -> Law:
        found = context.constants(level)
        for text in (
            "p->alpha = f * ALPHA;",
            "p->beta = f * (call->kind == DPK_LAPLACE || call->kind == DPK_DISCRETE_LAPLACE ? BETA_LAPLACE : BETA_GAUSSIAN);",
            "p->slack = f * SLACK;",
        ):
            context.says("core/noise.c", text)
        return Law(found["ALPHA"], found["BETA_LAPLACE" if kind == "laplace" else "BETA_GAUSSIAN"], found["SLACK"])

    @property
    def error(self) -> Magnitude:
        """Of a unit sample before it is scaled: α + (β − 2u)·size, with a little less, as the lemmas about samples say."""
        return Magnitude({(): self.alpha - SPARE * U, (R,): self.beta - 2 * U - SPARE * U})

    @property
    def allowed(self) -> Magnitude:
        """What a decision leaves between t and a midpoint."""
        return Magnitude({(): self.slack, (S,): self.alpha, (R, S): self.beta})

    def given(self, root: Node) -> Node:
        """The tree with the constants in it."""
        values = {variable("alpha"): self.alpha, variable("beta"): self.beta, variable("slack"): self.slack}
        found: Node = replaced(root, {name: float(x) for name, x in values.items()})
        return found


def enough(where: str, used: Magnitude, allowed: Magnitude, kind: str) -> None:
    """Raise ProofError where errors are larger than what is left for them."""
    found = lacking(used, allowed, {S: LARGEST_STEP, R: LARGEST_SIZE[kind], L: LOW})
    if found:
        terms = ", ".join(f"{float(x / U):.3g}u·{'·'.join(names) or '1'}" for names, x in found.items())
        raise ProofError(f"{where}: the bound lacks {terms}")


def sample_of(root: Node, w: Node, unit: Node) -> Node:
    """A number with the sign of a word's first bit: `root` is `unit` but for its sign."""
    z3 = solver()
    bits = operands_of(root, "of_bits")[0]
    b, v = z3.BitVecs("b w", 64)
    found = formula(bits, {node("to_bits", unit): b, w: v})
    if not holds(found == b ^ (v & (1 << 63))):
        raise ProofError("the sign of a sample is not that of its word")
    return root


def largest_size(context: Context, level: str, kind: str) -> Fraction:
    """A number above all E or R of lanes that are decided, by the borders of the sources."""
    if kind == "laplace":
        return decided_from(context, level) * ln2_bounds()[1] + 64 * U
    power = radius(context, level).far.denominator.bit_length() - 1
    return root_bounds(2 * power * ln2_bounds()[1])[1] + 64 * U


# Floats on a grid


def check_release(context: Context) -> None:
    """A decided lane of `laplace` and `gaussian` has the integer next to Y/g, and NaN is never decided."""
    for level in context.levels:
        for kernel in ("laplace", "gaussian"):
            for uniform in (True, False):
                for with_low in (True, False):
                    block = float_block(context, level, kernel, GROUP, uniform=uniform, with_low=with_low)
                    opened(block, [_open_of(each) for each in block.outputs])
                    _check_lane(context, level, kernel, block, 0, with_low=with_low)
                    if kernel == "gaussian":
                        _check_lane(context, level, kernel, block, HALF, with_low=with_low)


def _open_of(root: Node) -> Node:
    found: Node = operands_of(operands_of(root, "add")[1], "of_bits")[0]
    return found


def _check_lane(context: Context, level: str, kind: str, block: Block, lane: int, *, with_low: bool) -> None:
    where = f"{level}, {kind}{', low parts' if with_low else ''}"
    if largest_size(context, level, kind) > LARGEST_SIZE[kind]:
        raise ProofError(f"{where}: samples may be larger than {float(LARGEST_SIZE[kind])}")
    law = Law.of(context, level, kind)
    own = block.given[lane]
    root = law.given(block.outputs[lane])
    y, _ = operands_of(root, "add")
    condition, decided, undecided = operands_of(_open_of(root), "select")
    if (decided, undecided) != (0, 2**64 - 1):
        raise ProofError(f"{where}: what is added to a decided lane is not 0")
    guarded, room = operands_of(condition, "flt")
    zero, product, uncertain = muladd_of(guarded)
    same(zero, 0.0, "what makes an overflow a NaN")
    same(product, y, "the result")
    total, grid = operands_of(y, "mul")
    same(grid, own["grid"], "the grid")
    whole, n = operands_of(total, "add")
    scaled = node("mul", own["x"], own["inverse"])
    same(whole, node("call:nearest", scaled), "the integer of x/g")
    t = operands_of(n, "call:nearest_small")[0]
    distance = node("abs", node("sub", t, n))
    # Leaves of t: the step, a unit sample, and what x/g leaves.
    if kind == "laplace":
        size = exponential_of(own["w"])
        sample = _sample_in(t, size, own["w"])
        unit = Magnitude.of(R)
    else:
        first, second = block.given[0]["w"], block.given[HALF]["w"]
        size = radius_of(first)
        sample = normal_of(first, second, is_first=lane < HALF)
        unit = Magnitude.of(R) * ((1 + 4 * U) * (1 + 2 * U))
    part = node("sub", scaled, whole)
    low = node("mul", own["low"], own["inverse"])
    half = Magnitude.constant(Fraction(1, 2))
    # Magnitudes: |x/g - whole| <= 1/2 and the difference is exact (lemma `nearest`); low/g is exact, its grid a power of two.
    leaves = {own["step"]: Bounds.exact(Magnitude.of(S)), sample: Bounds(unit, law.error), part: Bounds.exact(half)}
    leaves |= {low: Bounds.exact(Magnitude.of(L))} if with_low else {}
    moved = bounds_of(t, leaves)
    allowed = law.allowed
    extra = Magnitude.constant(0)
    if with_low:
        weight, rest, uncertain_or_open = muladd_of(uncertain)
        joined = node("add", part, low)
        same(operands_of(rest, "abs")[0], joined, "the part of x/g and its low part")
        same(weight, 2.0**-52, "the weight of the low part")
        is_small, uncertain, open_value = operands_of(uncertain_or_open, "select")
        size_of_t, most = operands_of(is_small, "flt")
        same(operands_of(size_of_t, "abs")[0], t, "what is compared with 2^51")
        same(most, 2.0**51, "the border of what is an exact integer")
        same(open_value, 1.0, "what a lane beyond it has")
        allowed = allowed + Magnitude({(L,): 2 * U})
        # |part| >= (L - 1/2)(1 - u), and the sum rounds by u of at most itself, which is below 1/2 where a lane is decided.
        extra = Magnitude({(): U * (1 + 2 * U) + U, (L,): 2 * U**2})
    elif moved.size.at({S: LARGEST_STEP, R: LARGEST_SIZE[kind], L: Fraction(0)}) >= Fraction(2) ** 51 - 1:
        raise ProofError(f"{where}: t may be too large to be rounded to an integer")
    compared = bounds_of(uncertain, {own["step"]: leaves[own["step"]], size: Bounds.exact(Magnitude.of(R)), distance: Bounds.exact(half)})
    left = bounds_of(room, {own["step"]: leaves[own["step"]]})
    _check_compared(where, uncertain, room, own["step"], size, distance, law)
    enough(where, moved.error + compared.error + left.error + extra, allowed, kind)
    for leaf in (size, scaled):
        if not is_arithmetic_of(guarded if not with_low else uncertain, leaf):
            raise ProofError(f"{where}: a NaN may be decided")


def _sample_in(t: Node, size: Node, w: Node) -> Node:
    """The signed sample that t holds."""
    found = muladd_of(t)[1]
    return sample_of(found, w, size)


def _check_compared(where: str, uncertain: Node, room: Node, step: Node, size: Node, distance: Node, law: Law) -> None:
    """Without roundings the comparison is |t − n| + βS·size < ½ − slack − αS: shown at points, since both sides are polynomials."""
    for a, b, d in (
        (Fraction(3), Fraction(5), Fraction(1, 7)),
        (Fraction(11), Fraction(2), Fraction(1, 3)),
        (Fraction(1), Fraction(13), Fraction(2, 5)),
    ):
        left = exact_value(uncertain, {step: a, size: b, distance: d})
        right = exact_value(room, {step: a})
        if left != d + law.beta * a * b or right != Fraction(1, 2) - law.slack - law.alpha * a:
            raise ProofError(f"{where}: what is compared is not the bound")


def exact_value(root: Node, given: dict[Node, Fraction]) -> Fraction:
    """The value of a tree in fractions, as if nothing were rounded."""
    if root in given:
        return given[root]
    args = [exact_value(a, given) if isinstance(a, Node) else Fraction(a) for a in root.args]
    if root.op == "fma":
        return args[0] * args[1] + args[2]
    plain = {"add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b}
    if root.op not in plain:
        raise ProofError(f"the comparison has an operation {root.op}")
    return plain[root.op](*args)


def check_gaussian_sample(context: Context) -> None:
    """A member of a pair is good to α + (β − 2u)·R, with a little to spare."""
    fixed, grows = allowed_radius(context)
    (turned,) = context.stated("kernels/lanes.h", r"Post: cos and sin of 2 pi V up to ([\d.]+)u")
    largest = LARGEST_SIZE["gaussian"]
    for level in context.levels:
        law = Law.of(context, level, "gaussian")
        cosine = 1 + turned * U
        # |rc - RC| <= |c||r - R| + R|c - C|, and the product rounds; R <= r + |r - R|.
        off = U * (fixed + grows * largest * 2)
        constant = cosine * fixed * U + (cosine * grows * U + turned * U) * off + Fraction(1, 2**1074)
        slope = cosine * grows * U + turned * U + U * cosine
        if constant > law.alpha - SPARE * U or slope > law.beta - 2 * U - SPARE * U:
            raise ProofError(f"{level}: a member may be off by {float(constant / U):.2f}u + {float(slope / U):.2f}u·R before it is scaled")


def check_part(context: Context) -> None:
    """What x/g leaves beside its nearest integer is exact."""
    script = gappa.Script()
    script.lines += ["x = rnd(x_);", "w = int<ne>(x);", "p rnd= x - w;"]
    for low, high in ((Fraction(1, 2), Fraction(2) ** 53), (-(Fraction(2) ** 53), Fraction(-1, 2))):
        proved("what x/g leaves", script, [gappa.within("x", low, high)], "p - (x - w) in [0,0]")
        proved("what x/g leaves", script, [gappa.within("x", low, high)], "x - w in [-0.5,0.5]")
    proved("what x/g leaves", script, [gappa.within("x", Fraction(-1, 2), Fraction(1, 2))], "w in [0,0]")


# Integers


def check_discrete_laplace(context: Context) -> None:
    """A decided lane has the integer nearest to t(E + c) − ½."""
    for level in context.levels:
        law = Law.of(context, level, "laplace")
        for uniform in (True, False):
            block = discrete_block(context, level, "discrete_laplace", GROUP, uniform=uniform)
            own = block.given[0]
            root = law.given(block.outputs[0])
            t, decided = operands_of(root, "call:settled_int64")
            size = exponential_of(own["w"])
            above = _magnitude_below(t)
            sample_of(t, own["w"], above)
            uncertain, room = operands_of(decided, "flt")
            distance = node("abs", node("sub", t, node("call:nearest_small", t)))
            step = Bounds.exact(Magnitude.of(S))
            offset = offset_bounds(context, level)
            moved = bounds_of(above, {own["step"]: step, size: Bounds(Magnitude.of(R), law.error), own["offset"]: offset})
            half = Magnitude.constant(Fraction(1, 2))
            compared = bounds_of(uncertain, {own["step"]: step, size: Bounds.exact(Magnitude.of(R)), distance: Bounds.exact(half)})
            left = bounds_of(room, {own["step"]: step})
            _check_compared(f"{level}, discrete Laplace", uncertain, room, own["step"], size, distance, law)
            enough(f"{level}, discrete Laplace", moved.error + compared.error + left.error, law.allowed, "laplace")
            if moved.size.at({S: LARGEST_STEP, R: LARGEST_SIZE["laplace"]}) >= Fraction(2) ** 51 - 1:
                raise ProofError(f"{level}: t may be too large to be rounded to an integer")
            if exact_value(above, {own["step"]: Fraction(3), size: Fraction(5), own["offset"]: Fraction(7)}) != 22:
                raise ProofError(f"{level}: what is rounded is not t·E and the offset")
            if not is_arithmetic_of(uncertain, size):
                raise ProofError(f"{level}: a NaN may be decided")


def _magnitude_below(t: Node) -> Node:
    """The number whose sign is set."""
    for each in operands_of(operands_of(t, "of_bits")[0], "xor"):
        if isinstance(each, Node) and each.op == "to_bits":
            found: Node = each.args[0]
            return found
    raise ProofError("t is no number with a sign")


def offset_bounds(context: Context, level: str) -> Bounds:
    """Of t·c − ½ as core/noise.c computes it; c is the nearest float64 to its number, and t·c at most ½."""
    text = re.search(r"if \(law->kind == DPK_DISCRETE_LAPLACE\) \*second = ([^;]*);", context.text("core/noise.c"))
    if text is None:
        raise ProofError("core/noise.c does not compute the offset of a discrete Laplace law")
    run = Execution(context.source(level))
    expression = c_parser.CParser().parse(f"double x = {text[1]};").ext[0].init
    law = structure(run, "dpk_law", step_scale=variable("t"), offset_high=variable("c"))
    root = run.evaluate(expression, {"law": Cell(Type("pointer"), law)}).x
    if exact_value(root, {variable("t"): Fraction(3), variable("c"): Fraction(5)}) != Fraction(29, 2):
        raise ProofError("the offset is not t·c - 1/2")
    c = Magnitude.of("c")
    found = bounds_of(root, {variable("t"): Bounds.exact(Magnitude.of(S)), variable("c"): Bounds(c, c * U)})
    product = {("S", "c"): Fraction(1, 2)}

    def at_most(x: Magnitude) -> Magnitude:
        total = sum(
            (share * product.get(names, Fraction(1)) for names, share in x.terms.items() if names in product or not names), Fraction(0)
        )
        if any(names and names not in product for names in x.terms):
            raise ProofError("the offset depends on more than t·c")
        return Magnitude.constant(total)

    return Bounds(Magnitude.constant(1), at_most(found.error))


def check_rounded(context: Context) -> None:
    """A decided lane of rounded normals has the integer nearest to σN, and is accepted for sure."""
    for level in context.levels:
        law = Law.of(context, level, "gaussian")
        for uniform in (True, False):
            block = discrete_block(context, level, "gaussian_rounded", GROUP, uniform=uniform)
            for lane in (0, HALF):
                own = block.given[lane]
                t, decided = operands_of(law.given(block.outputs[lane]), "call:settled_int64")
                certain, taken = operands_of(decided, "both")
                uncertain, room = operands_of(certain, "flt")
                first, second = block.given[0]["w"], block.given[HALF]["w"]
                _check_scaled(
                    f"{level}, rounded normals", law, own["step"], t, uncertain, room, first, normal_of(first, second, is_first=lane < HALF)
                )
                _check_taken(level, taken, t, own)
                if uniform and not lane:
                    _check_settled(block)


def _check_settled(block: Block) -> None:
    """The kernel returns whether fewer lanes are settled than there are."""
    count, n = operands_of(operands_of(block.returned, "negation")[0], "eq")
    found, stack = set(), [count]
    while stack:
        here = stack.pop()
        if isinstance(here, Node) and here.op == "plus":
            stack.extend(here.args)
        elif here != 0:
            found.add(operands_of(here, "truth")[0])
    if n != len(block.outputs) or found != {operands_of(each, "call:settled_int64")[1] for each in block.outputs}:
        raise ProofError("what the kernel returns does not count the settled lanes")


def _check_scaled(where: str, law: Law, step: Node, t: Node, uncertain: Node, room: Node, first: Node, sample: Node) -> None:
    size = radius_of(first)
    distance = node("abs", node("sub", t, node("call:nearest_small", t)))
    S_ = Bounds.exact(Magnitude.of(S))
    moved = bounds_of(t, {step: S_, sample: Bounds(Magnitude.of(R) * (1 + 8 * U), law.error)})
    half = Magnitude.constant(Fraction(1, 2))
    compared = bounds_of(uncertain, {step: S_, size: Bounds.exact(Magnitude.of(R)), distance: Bounds.exact(half)})
    left = bounds_of(room, {step: S_})
    _check_compared(where, uncertain, room, step, size, distance, law)
    enough(where, moved.error + compared.error + left.error, law.allowed, "gaussian")
    if exact_value(t, {step: Fraction(3), sample: Fraction(5)}) != 15:
        raise ProofError(f"{where}: what is rounded is not the scaled normal")
    if not is_arithmetic_of(uncertain, size) or moved.size.at({S: LARGEST_STEP, R: LARGEST_SIZE["gaussian"]}) >= Fraction(2) ** 51 - 1:
        raise ProofError(f"{where}: t may be too large, or a NaN decided")


def _check_taken(level: str, taken: Node, t: Node, own: dict[str, Node]) -> None:
    """Taken implies a + 1 ≤ 2^16 − q·n², for the q of the law, which is not below 2^16/(24σ⁴)."""
    total, most = operands_of(taken, "fle")
    n = node("call:nearest_small", t)
    accept = node("from_signed", node("zero_extended", own["accept"], 16, width=32), width=32)
    a, q, square = Magnitude.of("a"), Magnitude.of("q"), Magnitude.of("n")
    found = bounds_of(total, {n: Bounds.exact(square), own["quick"]: Bounds.exact(q), accept: Bounds.exact(a)})
    if exact_value(total, {n: Fraction(3), own["quick"]: Fraction(5), accept: Fraction(7)}) != 52:
        raise ProofError(f"{level}: what is compared is not a + q·n²")
    # Both terms are positive and their sum is at most 2^16 where a lane is taken.
    off = found.error.at({"a": Fraction(2) ** 16, "q": Fraction(2) ** 17, "n": Fraction(1)})
    if Fraction(most) + off + 1 > 2**16:
        raise ProofError(f"{level}: a proposal may be taken that must be rejected")


def check_quick(context: Context) -> None:
    """The q of a law is at least 2^16/(24σ⁴): six roundings, against a factor of 1 + 2^-40."""
    from proofs.c_source import ROOT

    text = (ROOT / "src" / "dpcore" / "_backend" / "noise.py").read_text(encoding="utf-8")
    if "quick = 2.0**16 / 24 / scale / scale / scale / scale * (1 + 2.0**-40)" not in text:
        raise ProofError("the quick acceptance is not computed as the lemma has it")
    if (1 - U) ** 6 * (1 + Fraction(1, 2**40)) < 1:
        raise ProofError("six roundings may make it too small")


def check_retries(context: Context) -> None:
    """A retry decides by the same bound."""
    for level in context.levels:
        law = Law.of(context, level, "gaussian")
        for member in (0, 1):
            _check_retry(context, level, law, member)


def _check_retry(context: Context, level: str, law: Law, member: int) -> None:
    def words(run: Execution, given: list[Value]) -> Any:
        for value, name in zip(given[2:], ("u", "v"), strict=True):
            value.x.cells[value.x.at].value = word(name)
        return member

    opaque = LANES | {"proposal_words": words, "dpk_accepted": lambda run, given: 1, "nearest": lane_call("nearest")}
    run = Execution(context.source(level), opaque)
    step = variable("step")
    sample = structure(run, "dpk_sample", law=structure(run, "dpk_law", step_scale=step))
    lanes = structure(run, "dpk_lanes", **{name: variable(name) for name in ("slack", "alpha", "beta")})
    z = Cell(Type("int", 64, is_signed=True))
    run.call("dpk_retry_rounded", sample, lanes, Pointer([z]))
    n = operands_of(z.value, "call:to_int64")[0]
    t = law.given(operands_of(n, "call:nearest")[0])
    rare_or_open, too_large = operands_of(operands_of(law.given(run.assumed[0]), "negation")[0], "either")
    rare, open_ = operands_of(rare_or_open, "either")
    certain = operands_of(operands_of(open_, "negation")[0], "flt")
    size = node("call:radius_lane", word("u"))
    same(operands_of(operands_of(rare, "negation")[0], "eq")[0], node("call:radius_lane.rare", word("u")), "what is left to the next tier")
    border = operands_of(operands_of(too_large, "negation")[0], "flt")
    same(border[0], node("abs", t), "what is compared")
    if border[1] > 2.0**51:
        raise ProofError(f"{level}: a retry may round a number that is too large")
    normal = node("mul", size, node(f"call:circle_lane.{'sine' if member else 'cosine'}", word("v")))
    distance = node("abs", node("sub", t, node("call:nearest", t)))
    same(certain[0], distance, "the distance to the integer")
    S_ = Bounds.exact(Magnitude.of(S))
    moved = bounds_of(t, {step: S_, normal: Bounds(Magnitude.of(R) * (1 + 8 * U), law.error)})
    left = bounds_of(certain[1], {step: S_, size: Bounds.exact(Magnitude.of(R))})
    if exact_value(certain[1], {step: Fraction(3), size: Fraction(5)}) != Fraction(1, 2) - law.slack - 3 * law.alpha - 15 * law.beta:
        raise ProofError(f"{level}: what a retry compares with is not the bound")
    enough(f"{level}, retries", moved.error + left.error, law.allowed, "gaussian")


LEMMAS = (
    Lemma("part", "x/g minus its nearest integer is exact, and at most ½.", "machine", "Gappa", ("release_lane",), check_part),
    Lemma(
        "gaussian-sample",
        "The errors of the radius and of the circle and the rounding of their product are together at most α + (β − 2u)·R.",
        "machine",
        "fractions",
        ("normals", "radius_lane", "circle_lane"),
        check_gaussian_sample,
    ),
    Lemma(
        "release",
        "A lane that is decided has the integer nearest to Y/g: with and without low parts, for steps up to 2⁴⁰; a NaN is never decided.",
        "machine",
        "fractions, z3",
        ("release_lane", "scale_of", "laplace_body", "gaussian_body"),
        check_release,
    ),
    Lemma(
        "discrete-laplace",
        "A lane that is decided has the integer nearest to t(E + c) − ½, the errors of c and of the offset included.",
        "machine",
        "fractions, z3",
        ("discrete_laplace_body", "dpk_law_parameters"),
        check_discrete_laplace,
    ),
    Lemma(
        "rounded-normal",
        "A lane that is decided has the integer nearest to σN, and its first 16 bits accept it whatever follows.",
        "machine",
        "fractions",
        ("rounded_body",),
        check_rounded,
    ),
    Lemma("quick-acceptance", "q ≥ 2¹⁶/(24σ⁴) in spite of its six roundings.", "machine", "fractions", (), check_quick),
    Lemma(
        "retries", "A retry of a rounded normal decides by the same bound.", "machine", "fractions", ("dpk_retry_rounded",), check_retries
    ),
)
