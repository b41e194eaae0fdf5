"""For all lengths: no two owners read the same bit. A solver proves it of the address map, and the map is what the kernels read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpcore.testing import KeyedRandom
from support.addresses import CALLS, FIRST_STREAM, READS, Read
from support.drawing import drawings, rows_of
from support.kernels import ACCURATE, EXACT, FAST, KEY, LAWS, Law, at_tier
from support.keystream import IN_GROUPS, Word, moved, watched

z3 = pytest.importorskip("z3")

BITS = 64


def proved(*claims: Any) -> bool:
    """Whether the claims cannot all be true; raises where the solver gives up."""
    solver = z3.Solver()
    solver.set("timeout", 60_000)
    solver.add(*claims)
    answer = solver.check()
    assert answer != z3.unknown, solver.reason_unknown()
    return bool(answer == z3.unsat)


def overlap(a: Read, b: Read) -> Any:
    """That two reads share a bit, in some attempt and chunk."""
    if a.domain != b.domain:
        return z3.BoolVal(False)
    same_place = z3.And(a.unit == b.unit, a.place == b.place)
    if a.attempts == "none":
        return z3.And(same_place, z3.ULT(a.first_bit, b.first_bit + b.n_bits), z3.ULT(b.first_bit, a.first_bit + a.n_bits))
    apart = {a.attempts, b.attempts} == {"first", "later"}
    return z3.And(same_place, not apart)


def as_vector(x: Any) -> Any:
    return z3.BitVecVal(x, BITS) if isinstance(x, int) else x


def vectors(reads: list[Read]) -> list[Read]:
    return [read._replace(unit=as_vector(read.unit), place=as_vector(read.place), first_bit=as_vector(read.first_bit)) for read in reads]


def conflict(a: Read, b: Read) -> Any:
    """That two reads share a bit though they are of two owners."""
    return z3.And(overlap(a, b), z3.BoolVal(True) if a.is_pair != b.is_pair else as_vector(a.owner) != as_vector(b.owner))


def is_disjoint(reads: Any, first: str, second: str) -> bool:
    x, y = z3.BitVecs("x y", BITS)
    pairs = [(a, b) for a in vectors(reads[first](x)) for b in vectors(reads[second](y))]
    # One element is of one kind.
    apart = x != y if first != second else z3.BoolVal(True)
    return proved(apart, z3.Or([conflict(a, b) for a, b in pairs]))


@pytest.mark.parametrize("kinds", CALLS, ids="+".join)
def test_owners_of_a_call_read_apart(kinds: tuple[str, ...]) -> None:
    assert all(is_disjoint(READS, a, b) for a in kinds for b in kinds)


def test_the_map_of_the_first_stream_is_refuted() -> None:
    assert not is_disjoint(FIRST_STREAM, "table", "rounded")
    assert is_disjoint(FIRST_STREAM, "table", "table")


# From words to blocks of a cipher


def test_words_of_groups_are_apart_in_chacha20() -> None:
    """Word w of group g is row ⌊w/8⌋ of blocks 16g + 2w mod 16 and the one after."""
    g, h, v, w, half, other = z3.BitVecs("g h v w half other", BITS)
    limits = [z3.ULT(group, 2**57) for group in (g, h)] + [z3.ULT(x, 128) for x in (v, w)] + [z3.ULT(x, 2) for x in (half, other)]
    same = [16 * g + ((2 * v) & 15) + half == 16 * h + ((2 * w) & 15) + other, z3.LShR(v, 3) == z3.LShR(w, 3)]
    assert proved(*limits, *same, z3.Or(g != h, v != w, half != other))


def test_words_of_groups_are_apart_in_aes() -> None:
    g, h, v, w = z3.BitVecs("g h v w", BITS)
    limits = [z3.ULT(group, 2**57) for group in (g, h)] + [z3.ULT(x, 128) for x in (v, w)]
    same = [64 * g + z3.LShR(v, 1) == 64 * h + z3.LShR(w, 1), v & 1 == w & 1]
    assert proved(*limits, *same, z3.Or(g != h, v != w))


def tag(domain: Any, attempt: Any, chunk: Any) -> Any:
    return domain << 24 | (attempt & 0xFFF) << 12 | (chunk & 0xFFF)


@pytest.mark.parametrize("blocks", [1, 4], ids=["chacha20", "aes"])
def test_tags_are_apart(blocks: int) -> None:
    """Domain, attempt and chunk; a chunk is one block of ChaCha20 and four of AES."""
    d, e, a, b, c, f, i, j = z3.BitVecs("d e a b c f i j", 32)
    limits = [z3.ULT(x, 256) for x in (d, e)] + [z3.ULT(x, 4096) for x in (a, b)]
    limits += [z3.ULT(x, 4096 // blocks) for x in (c, f)] + [z3.ULT(x, blocks) for x in (i, j)]
    same = tag(d, a, blocks * c + i) == tag(e, b, blocks * f + j)
    assert proved(*limits, same, z3.Or(d != e, a != b, c != f, i != j))
    assert not proved(same, z3.ULT(d, 256), d == e, a == b, c != f)  # without the limits they wrap


def test_upper_halves_of_aes_counters_are_apart() -> None:
    t, u, n, m = z3.BitVecs("t u n m", 32)
    upper = z3.Concat(n, t) == z3.Concat(m, u)
    assert proved(upper, z3.Or(t != u, n != m))


def test_numbers_of_draws_are_apart() -> None:
    """Draws of a subset, and keys of a call's further draws: d below 2^22 as attempt d mod 2^12 and chunk ⌊d/2^12⌋."""
    d, e = z3.BitVecs("d e", 32)
    limits = [z3.ULT(x, 1 << 22) for x in (d, e)]
    assert proved(*limits, d & 0xFFF == e & 0xFFF, z3.LShR(d, 12) == z3.LShR(e, 12), d != e)
    assert proved(limits[0], z3.UGE(z3.LShR(d, 12), 1024))  # within the chunks of AES


def test_records_of_several_words_are_apart() -> None:
    """Record r has places m·r + i, i < m: lanes of unary reports, words of subsets and data sets, rounds of a selection."""
    r, s, i, j, m = z3.Ints("r s i j m")
    limits = [m >= 1, i >= 0, i < m, j >= 0, j < m, r >= 0, s >= 0]
    assert proved(*limits, s >= r + 1, m * s >= m * r + m, m * r + i == m * s + j)
    assert proved(m >= 1, s >= r + 1, m * (s - r - 1) < 0)


def test_nonces_of_a_job_are_apart() -> None:
    """Draw i of query q has the nonce q + DRAWS·i; rows and groups have the last two. For a million draws a query."""
    pytest.importorskip("pyarrow")
    from dpcore.query.draws import DRAWS
    from dpcore.tables.units.row_random_bits import GROUP_NONCE, ROW_NONCE

    q, p, i, j = z3.Ints("q p i j")
    limits = [q >= 0, q < DRAWS, p >= 0, p < DRAWS, i >= 0, i < 10**6, j >= 0, j < 10**6]
    assert proved(*limits, q + DRAWS * i == p + DRAWS * j, z3.Or(q != p, i != j))
    assert proved(*limits, q + DRAWS * i >= min(GROUP_NONCE, ROW_NONCE))


# The map is what the kernels do


CASES = {case.name: case for case in drawings()}
KINDS = {
    "laplace, small": "laplace",
    "gaussian, small": "gaussian",
    "discrete_laplace, small": "laplace",
    "discrete_gaussian, small": "table",
    "discrete_gaussian, large": "rounded",
    "discrete_gaussian, two of three small": "",
    "local BinaryResponse": "flip",
    "local BoundedMean": "bounded",
    "local KaryResponse": "kary",
    "local FiniteChannel": "channel",
    "local LocalHashing": "hashing",
    "local HadamardResponse": "hadamard",
    "local VectorMean": "sampled",
    "local ProjectiveGeometryResponse": "projective",
    "draw_codes": "laplace",
}


def model_bits(kind: str, element: int) -> set[tuple[int, int, int, int]]:
    """The bits in groups that an element reads: (domain, group, place, bit)."""
    return {
        (read.domain, read.unit, read.place, read.first_bit + bit)
        for read in READS[kind](element)
        if read.domain in IN_GROUPS
        for bit in range(read.n_bits)
    }


@pytest.mark.source_tree
@pytest.mark.parametrize("name", KINDS)
def test_what_moves_an_output_is_in_the_map(name: str) -> None:
    """Every bit whose flip is seen is one that the map gives the output; words that follow are addressed by its element or its pair."""
    n, first, case = 140, 77, CASES[name]
    kinds = [KINDS[name] or ("rounded" if i % 3 == 2 else "table") for i in range(first, first + n)]
    with watched() as keystream:

        def run() -> Any:
            return rows_of(case.draw(n, first, KeyedRandom(KEY).at(0, first)))

        keystream.clear()
        run()
        words = [word for word in sorted(keystream.words()) if word.domain in IN_GROUPS or word.place == 0]
        chosen = [words[i] for i in np.unique(np.linspace(0, len(words) - 1, 130).astype(int))]
        found = moved(keystream, run, (0, 13, 20, 45, 61, 62, 63), chosen)
    assert len(found) > 10
    for (word, bit), places in found.items():
        for place in places.tolist():
            assert is_in_map(word, bit, kinds[place], first + place), (word, bit, place)


def is_in_map(word: Word, bit: int, kind: str, element: int) -> bool:
    if word.domain in IN_GROUPS:
        return (word.domain, word.index, word.place, bit) in model_bits(kind, element)
    later = {"first": word.attempt == 0, "later": word.attempt > 0, "all": True}
    return any(
        read.domain == word.domain and read.unit == word.index and later[read.attempts]
        for read in READS[kind](element)
        if read.attempts != "none"
    )


def test_pieces_of_the_map_lie_where_arrays_have_them() -> None:
    """The formulas against NumPy's own layout of a group's bytes."""
    for bits, dtype in ((16, "<u2"), (32, "<u4")):
        kind = {16: "bounded", 32: "kary"}[bits]
        marked = np.zeros(128, "<u8")
        for element in (0, 1, 5, 128 * 64 // bits - 1):
            marked[:] = 0
            marked.view(dtype)[element] = 2**bits - 1
            expected = {(j, b) for j in range(128) for b in range(64) if int(marked[j]) >> b & 1}
            assert {(place, bit) for _, _, place, bit in model_bits(kind, element)} == expected


@pytest.mark.some(6)
@pytest.mark.source_tree
@pytest.mark.parametrize("tier", [FAST, ACCURATE, EXACT])
@pytest.mark.parametrize("element", [0, 63, 64, 77, 2**40 + 127])
@pytest.mark.parametrize("law", [*LAWS, Law("discrete_gaussian", 8.0), Law("discrete_gaussian", 0.4)], ids=str)
def test_every_tier_reads_what_the_map_gives_the_element(law: Law, element: int, tier: int) -> None:
    """One output: all that is asked for is its own, and so must be in the map; groups are asked for whole."""
    kind = {"discrete_laplace": "laplace", "discrete_gaussian": "table" if law.scale < 8 else "rounded"}.get(law.kind, law.kind)
    reads = READS[kind](element)
    with watched() as keystream, at_tier(tier):
        for nonce in range(40):
            law.add(law.zeros(1), element, nonce=nonce)
        found = keystream.words()
    for word in found:
        if word.domain in IN_GROUPS:
            assert any(read.domain == word.domain and read.unit == word.index for read in reads), word
        else:
            assert is_in_map(word, 0, kind, element), word
    assert tier == FAST or {word.domain for word in found} > {reads[0].domain}
