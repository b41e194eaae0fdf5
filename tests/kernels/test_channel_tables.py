"""Finite channels have exactly the law of their rows: the tables by counting in integers, reports by slow twins, and ties.

A report is the number of ends that are at most U. Its first bits choose a cell, which decides by the next 15 bits or leaves the report
open; open ones are compared with 64 bits, and then with as many as it takes.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpcore import EntropyError, _backend
from dpcore.rng import StreamPosition
from support.channels import big, clustered, dyadic, thirds
from support.kernels import EXACT, FAST, KEY, LEVELS, at_level, at_tier
from support.responses import Twin

FARTHEST = 2**40 + 9
LOW = 15
CHANNELS: dict[str, tuple[Any, int]] = {
    "dyadic": dyadic(41, 7),
    "coarse": (np.array([[3, 0, 1], [0, 4, 0], [1, 1, 2]]), 4),
    "thirds": thirds(5),
    "clustered": clustered(300),
    "big": big(4),
    "identity": (np.eye(40, dtype=np.int64), 1),
    "one outcome": (np.ones((3, 1), np.int64), 1),
    "wide": dyadic(700, 1),
}
each = pytest.mark.parametrize("name", CHANNELS)
Slots = list[tuple[int, int, int]]


def tables(rows: Any, denominator: int) -> tuple[Any, Any, int]:
    """Ends and cells, made anew by the functions that a `ChannelTable` calls."""
    bits = _backend.guide_bits(rows.shape[1])
    ends = _backend.channels._scaled(np.cumsum(rows, axis=1)[:, :-1], denominator)
    return ends, _backend.channels._cells(ends, bits), bits


def decided(cells: Any) -> Slots:
    """Runs of slots that the cells of one input decide: the first, the one after the last, and the outcome. A cell has 2^15 slots."""
    runs: Slots = []
    for j, cell in enumerate(cells.tolist()):
        start, end, first = j << LOW, cell >> 16 & 0x7FFF, cell & 0xFFFF
        if not cell >> 31:
            runs += [(start, start + end, first), (start + end + 1, (j + 1) << LOW, first + 1)]
    return [run for run in runs if run[0] < run[1]]


def is_right(runs: Slots, row: list[int], denominator: int, bits: int) -> bool:
    """Whether every number of every decided slot lies in the outcome that was decided: in integers, slots 2^−(bits + 15) wide."""
    ends = [0]
    for weight in row:
        ends.append(ends[-1] + weight)
    slots = 1 << bits + LOW
    return all(ends[z] * slots <= first * denominator and last * denominator <= ends[z + 1] * slots for first, last, z in runs)


@each
def test_what_a_cell_decides_is_right_for_every_number(name: str) -> None:
    rows, denominator = CHANNELS[name]
    ends, cells, bits = tables(rows, denominator)
    for x, row in enumerate(rows.tolist()):
        total = 0
        for z, weight in enumerate(row[:-1]):
            total += weight
            assert int(ends[x, z]) == min(total * 2**64 // denominator, 2**64 - 1)
        assert is_right(decided(cells[x]), row, denominator, bits)


@pytest.mark.parametrize("name", [name for name in CHANNELS if name not in {"one outcome", "identity"}])
def test_tables_that_are_off_by_a_cell_or_do_not_refine_are_rejected(name: str) -> None:
    rows, denominator = CHANNELS[name]
    _, cells, bits = tables(rows, denominator)

    def passes(broken: Any) -> bool:
        return all(is_right(broken(row), weights, denominator, bits) for row, weights in zip(cells, rows.tolist(), strict=True))

    assert passes(decided)
    assert not passes(lambda row: decided(np.roll(row, -1)))
    if name in {"dyadic", "clustered", "wide"}:  # some cells have several ends
        assert not passes(lambda row: decided(row & np.uint32(0x7FFFFFFF)))
    if name in {"dyadic", "thirds", "big", "wide"}:  # a slot with an end inside
        assert not passes(lambda row: [(first, last + 1, z) for first, last, z in decided(row)])


def test_few_slots_stay_open() -> None:
    """Of a channel of the size that estimators use. That is what the speed rests on, and no part of the proof."""
    rows, denominator = CHANNELS["dyadic"]
    _, cells, bits = tables(rows, denominator)
    for x in range(len(rows)):
        share = 1 - sum(last - first for first, last, _ in decided(cells[x])) / 2 ** (bits + LOW)
        assert share < 0.05


def outcome(twin: Twin, element: int, row: list[int], denominator: int, bits: int = 544) -> int:
    """The number of ends that are at most U, with so many bits of U."""
    u, end = Fraction(twin.uniform(element, 32).floor(bits), 2**bits), 0
    for z, weight in enumerate(row):
        end += weight
        if u < Fraction(end, denominator):
            return z
    raise AssertionError("U < 1")


@each
@pytest.mark.parametrize("tier", [FAST, 1, EXACT])
def test_every_report_is_a_count_of_ends(name: str, tier: int) -> None:
    rows, denominator = CHANNELS[name]
    n = {"wide": 20, "clustered": 60}.get(name, 250)
    table, twin, x = _backend.ChannelTable(rows, denominator), Twin.keyed(), np.arange(n) % len(rows)
    for first in (0, FARTHEST):
        expected = [outcome(twin, first + i, rows[x[i]].tolist(), denominator) for i in range(n)]
        for level in LEVELS:
            with at_level(level), at_tier(tier):
                found = _backend.channel_response(x, table, None, StreamPosition(KEY, 3, first), threads=1)
            assert found.tolist() == expected


@pytest.mark.parametrize("bits", [18, 20, 31, 32, 33, 47, 63, 64, 65, 72, 96, 97, 128, 300, 1000])
def test_ends_made_of_the_bits_of_a_record(bits: int) -> None:
    """U cut after some bits, a unit of that place less and more, and a third of a unit above: the bits after it decide."""
    twin, rejected = Twin.keyed(), 0
    for element in (0, 255, 700, FARTHEST):
        u = twin.uniform(element, 32)
        for offset in (-1, 0, 1):
            for tail in (0, 1):
                end, denominator = 3 * (u.floor(bits) + offset) + tail, 3 << bits
                if not 0 < end < denominator:
                    continue
                row = [end, denominator - end]
                small = np.int64 if denominator < 2**63 else object
                expected = outcome(twin, element, row, denominator, bits + 512)
                rejected += (u.first > end * 2**32 // denominator) != expected  # a twin that takes 32 bits for all of them
                table = _backend.ChannelTable(np.array([[1, denominator - 1], row], small), denominator)
                for tier in (FAST, 1, EXACT):
                    codes = np.ones(3, np.uint8)
                    with at_tier(tier):
                        out = _backend.channel_response(codes, table, None, StreamPosition(KEY, 3, element), threads=1, out=codes)
                    assert out is codes
                    assert out[0] == expected
    assert rejected > 0 or bits < 32


def test_what_no_number_of_bits_decides_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream that gives an end's own bits without end is not random."""
    denominator = 3 << 40
    table = _backend.ChannelTable(np.array([[1 << 40, 2 << 40]]), denominator)

    class Thirds:
        def more(self, *_: int) -> list[int]:
            return [0x5555555555555555] * 8

    with pytest.raises(EntropyError, match="not random"):
        table.outcome(0, 0x55555555, Thirds(), 0)  # type: ignore[arg-type]
    assert table.outcome(0, 0x55555556, Thirds(), 0) == 1  # type: ignore[arg-type]
    assert table.outcome(0, 0x55555554, Thirds(), 0) == 0  # type: ignore[arg-type]


@pytest.mark.parametrize("code", [2, -1, 3, 2**24, 2**31, 2**62])
def test_codes_that_another_thread_changes_are_cut(code: int) -> None:
    """After the check of all codes the kernel reads them once more; those that are no inputs then must not lead out of the tables.

    The tables have one input more than the law says, so that a kernel which goes one too far still reads what is there.
    """
    rows, denominator = CHANNELS["coarse"]
    table, codes = _backend.ChannelTable(rows, denominator), np.arange(600) % 2
    table.rows = rows[:2]
    changed, cut = codes.copy(), codes.copy()
    changed[[0, 5, 300, 599]], cut[[0, 5, 300, 599]] = code, 0
    for level in LEVELS:
        for tier in (FAST, 1, EXACT):
            with at_level(level), at_tier(tier):
                found, expected = (_backend.channel_response(x, table, None, StreamPosition(KEY, 3, 7), threads=1) for x in (changed, cut))
            assert found.tolist() == expected.tolist()


def test_a_guide_is_checked_before_it_is_read() -> None:
    cells, ends = np.zeros((2, 8), np.uint32), np.zeros((2, 1), np.uint64)
    make = _backend.channels._response.Guide
    make(cells, ends, 3)
    for bad in ((cells, ends, 2), (cells, ends, 18), (cells, ends, 0), (cells, ends[:1], 3), (cells[:0], ends[:0], 3)):
        with pytest.raises(ValueError, match="cells"):
            make(*bad)
