"""Lemmas about the tables of small discrete Gaussians: how they are searched, and what their entries are."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

from proofs.bits import formula, holds, solver
from proofs.c_source import INCLUDED, read
from proofs.execute import UINT64, Cell, Execution, Pointer, Type, Unknown, Value
from proofs.kernels import GROUP
from proofs.lemmas import Context, Lemma, ProofError, structure, word
from proofs.reductions import definition
from proofs.trees import Node, node, nodes_of, replaced, variable

INT32 = Type("int", 32, is_signed=True)
ENTRIES = (1, 2, 3, 5)
"""Sizes of tables for which the search is proved; it is one loop over the entries."""
LANES = 4
BITS = 256
"""Of the enclosures of probabilities."""
SCALES = (
    *(0.05 * k for k in range(1, 41)),
    *(2.0 + 0.37 * k for k in range(16)),
    math.sqrt(2.0),
    math.pi,
    1 / 3,
    4.0,
    7.0,
    math.nextafter(8.0, 0.0),
)
"""Scales whose tables are computed anew."""


def check_search(context: Context) -> None:
    """The count of entries below, and whether an entry is met or the last one passed, for all magnitudes and sorted tables."""
    z3 = solver()
    for size in ENTRIES:
        run = Execution(context.source("portable"))
        names = [variable(f"t{k}", width=32) for k in range(size)]
        magnitudes = [variable(f"m{i}", width=32) for i in range(LANES)]
        table = structure(run, "dpk_table", n_short=size, short_=Pointer([Cell(Type("int", 32), name) for name in names]))
        count, tie = ([Cell(INT32) for _ in range(LANES)] for _ in range(2))
        run.call("search_table", table, Pointer([Cell(INT32, m) for m in magnitudes]), Pointer(count), Pointer(tie))
        given: dict[Node, object] = {each: z3.BitVec(str(each.args[0]), 32) for each in (*names, *magnitudes)}
        entries = [given[name] for name in names]
        sorted_entries = z3.And(*(z3.ULE(a, b) for a, b in itertools.pairwise(entries)), z3.ULT(entries[-1], 1 << 31))
        for m, c, t in zip(magnitudes, count, tie, strict=True):
            found, open_ = (formula(cell.value, given, 32) for cell in (c, t))
            is_open = open_ if z3.is_bool(open_) else open_ != 0
            below = [z3.UGT(given[m], entry) for entry in entries]
            met = z3.Or(*(given[m] == entry for entry in entries), below[-1])
            expected = sum(z3.If(each, z3.BitVecVal(1, 32), z3.BitVecVal(0, 32)) for each in below)
            if not holds(z3.And(found == expected, is_open == met), sorted_entries, z3.ULT(given[m], 1 << 31)):
                raise ProofError(f"a table of {size} entries is not searched as its law asks")


def exponential_bounds(x: Fraction) -> tuple[int, int]:
    """e^(−x) in units of 2^-BITS, from below and above: squares of a short series."""
    halvings = max(0, x.numerator.bit_length() - x.denominator.bit_length() + 9)
    guard = BITS + 2 * halvings + 32
    small = x / 2**halvings
    term, total, k = Fraction(1), Fraction(1), 0
    while term > Fraction(1, 1 << guard):
        k += 1
        term = Fraction((term * small / k * (1 << (guard + 8))).__ceil__(), 1 << (guard + 8))
        total += -term if k % 2 else term
    # Each term was rounded up by a unit of 2^-(guard + 8) at most, and what is left out is below the last.
    off = term + Fraction(k + 1, 1 << (guard + 8))
    low, high = math.floor((total - off) * (1 << guard)), math.ceil((total + off) * (1 << guard))
    for _ in range(halvings):
        low, high = (low * low) >> guard, -((-high * high) >> guard)
    return low >> (guard - BITS), -((-high) >> (guard - BITS))


def check_entries(context: Context) -> None:
    """⌊2³¹P(|Z| ≤ k)⌋ and ⌊2¹²⁷P(|Z| ≤ k)⌋ of the engine are those of an enclosure that shares nothing with it."""
    from dpcore._exact.sampling import threshold_integers

    for scale in SCALES:
        short, long = threshold_integers(scale)
        variance = Fraction(scale) ** 2
        weights = [exponential_bounds(k * k / (2 * variance)) for k in range(_last(scale) + 1)]
        ends = [weights[0][side] + 2 * sum(w[side] for w in weights[1:]) for side in (0, 1)]
        # The ratios of weights fall, so that what follows is below a geometric series with a ratio of at most 1/2.
        all_low, all_high = ends[0], ends[1] + 4 * weights[-1][1] + 4
        for k, entry in enumerate(long):
            low, high = (weights[0][side] + 2 * sum(w[side] for w in weights[1 : k + 1]) for side in (0, 1))
            p_low, p_high = Fraction(low, all_high), Fraction(high, all_low)
            if not entry <= 2**127 * p_high or (entry + 1 <= 2**127 * p_low and entry != 2**127 - 1):
                raise ProofError(f"entry {k} of the table of σ = {scale!r} is wrong")
            if k < len(short) and short[k] != entry >> 96:
                raise ProofError(f"the short entry {k} of σ = {scale!r} is wrong")


def _last(scale: float) -> int:
    """A k from which on weights are below 2^-200, each at most half of the one before."""
    return math.ceil(scale * math.sqrt(2 * 200 * math.log(2)) + 2 * scale * scale * math.log(2)) + 2


def check_lanes(context: Context) -> None:
    """Each lane searches for the magnitude of its own word, and has its sign."""
    z3 = solver()
    n = GROUP

    def search(run: Execution, given: list[Value]) -> None:
        _, magnitude, count, tie = (v.x for v in given)
        for i in range(LANES):
            found = magnitude.cells[magnitude.at + i].value
            count.cells[count.at + i].value = node("call:search_table.count", found)
            tie.cells[tie.at + i].value = node("call:search_table.tie", found)

    run = Execution(context.source("portable"), {"search_table": search})
    words = [word(f"w{i}") for i in range(n)]
    z = [Cell(Type("int", 64, is_signed=True)) for _ in range(n)]
    run.call("gaussian_table", structure(run, "dpk_table"), Pointer([Cell(UINT64, w) for w in words]), Pointer(z), n)
    for w, cell in zip(words, z, strict=True):
        if cell.value is not replaced(z[0].value, {words[0]: w}):
            raise ProofError("a lane of a table computes something else than the first")
    parts = {each.op: each for each in nodes_of(z[0].value) if each.op.startswith("call:")}
    count, tie = parts["call:search_table.count"], parts["call:search_table.tie"]
    W, c, t = z3.BitVec("w", 64), z3.BitVec("c", 32), z3.BitVec("t", 32)
    if not holds(formula(count.args[0], {words[0]: W}, 32) == z3.Extract(63, 32, z3.If(W < 0, ~W, W))):
        raise ProofError("a table is not searched for the upper bits of a magnitude")
    wide = z3.SignExt(32, c)
    opened = run.integer(definition(context, "DPK_OPEN")) % 2**64
    expected = z3.If(t != 0, z3.BitVecVal(opened, 64), z3.If(W < 0, -wide, wide))
    if not holds(formula(z[0].value, {words[0]: W, count: c, tie: t}) == expected):
        raise ProofError("a lane of a table is not what its search says")


def check_guides(context: Context) -> None:
    """What a guide decides is the count of entries below, and it leaves open what it does not know."""
    z3 = solver()
    for level in context.levels:
        run = Execution(context.source(level))
        w, other = word("w"), word("other")
        root = run.call("guided_lane", Pointer(Unknown("guide", UINT64)), w, other)
        (element,) = (each for each in nodes_of(root) if each.op == "element:guide")
        W, E, elsewhere = z3.BitVecs("w e other", 64)
        magnitude = z3.LShR(z3.If(W < 0, ~W, W), 32)
        if not holds(formula(element.args[0], {w: W}) == z3.LShR(magnitude, 23)):
            raise ProofError(f"{level}: a guide is not read at the eight leading bits of a magnitude")
        entry, below = E & 0xFFFFFFFF, z3.LShR(E, 32) & 0xFF
        count = below + z3.If(z3.UGT(magnitude, entry), z3.BitVecVal(1, 64), z3.BitVecVal(0, 64))
        opened = run.integer(definition(context, "DPK_OPEN")) % 2**64
        sample = z3.If(W < 0, -count, count)
        open_ = z3.Or(E & (1 << 40) != 0, entry == magnitude)
        expected = z3.If(E & (1 << 41) != 0, elsewhere, z3.If(open_, z3.BitVecVal(opened, 64), sample))
        if not holds(formula(root, {w: W, other: elsewhere, element: E}) == expected):
            raise ProofError(f"{level}: a guided lane is not what its guide says")
    _check_guides_of_tables(context)


def _check_guides_of_tables(context: Context) -> None:
    from dpcore._exact.sampling import threshold_integers

    source = read(context.kernels, "portable", (*INCLUDED, "noise.c"))
    for scale in SCALES[::6]:
        entries, _ = threshold_integers(scale)
        run = Execution(source)
        table = structure(run, "dpk_table", n_short=len(entries), short_=Pointer([Cell(Type("int", 32), x) for x in entries]))
        guide = [Cell(UINT64) for _ in range(256)]
        run.call("dpk_guide_set", table, Pointer(guide))
        for part, cell in enumerate(guide):
            first, last = part << 23, ((part + 1) << 23) - 1
            entry, below, several = cell.value & 0xFFFFFFFF, cell.value >> 32 & 0xFF, cell.value >> 40
            inside = [x for x in entries if first <= x <= last]
            known = inside in ([], [entry]) and below == sum(x < first for x in entries) and first <= entry and last <= entries[-1]
            if several == 0 and not known:
                raise ProofError(f"part {part} of the guide of σ = {scale!r} decides what it does not know")
            if several not in {0, 1}:
                raise ProofError(f"part {part} of the guide of σ = {scale!r} has marks that no table has")


LEMMAS = (
    Lemma(
        "table-search",
        "The search counts the entries below a magnitude; meeting one or passing the last leaves the lane open. For all magnitudes and all "
        "sorted tables of up to five entries.",
        "machine",
        "z3",
        ("search_table",),
        check_search,
    ),
    Lemma(
        "table-lanes",
        "Each lane of a table has the count of its own magnitude with the sign of its word, or is left open.",
        "machine",
        "symbolic execution, z3",
        ("gaussian_table",),
        check_lanes,
    ),
    Lemma(
        "guides",
        "A guided lane has the count of entries below its magnitude, or is left open: for all words, and guides as they are made.",
        "machine",
        "z3, enumeration",
        ("guided_lane", "table_magnitude", "signed_count", "dpk_guide_set"),
        check_guides,
    ),
    Lemma(
        "table-entries",
        f"The entries of the tables of {len(SCALES)} scales are ⌊2³¹P⌋ and ⌊2¹²⁷P⌋, by an enclosure that shares nothing with the engine.",
        "machine",
        "fractions",
        (),
        check_entries,
    ),
)
