"""Reports of finite channels follow their rows: χ² of keyed reports, beside twins with broken tables that the same test rejects.

Error rate: a right channel fails one test with probability 10^-6; the draws are keyed, so a run repeats its result.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpcore import _backend
from dpcore.testing import KeyedRandom
from support.channels import dyadic, thirds
from support.kernels import KEY, Array
from support.laws import ERROR_RATE, p_value

N = 500_000
CHANNELS: dict[str, tuple[Any, int]] = {"dyadic": dyadic(41, 3), "thirds": thirds(3), "two": (np.array([[1, 3], [3, 1]]), 4)}


def least_p_value(table: Any, rows: Any, denominator: int) -> float:
    """The least over the inputs, times their number."""
    inputs, outcomes = rows.shape
    x = np.arange(N) % inputs
    reports = _backend.channel_response(x, table, None, KeyedRandom(KEY).position(), threads=1)
    counts = np.bincount(x * outcomes + reports, minlength=inputs * outcomes).reshape(inputs, outcomes)
    return inputs * min(p_value(row, law) for row, law in zip(counts, rows / denominator, strict=True))


def broken(rows: Any, denominator: int, change: Any) -> Any:
    """A table whose cells were changed."""
    table = _backend.ChannelTable(rows, denominator)
    ends = _backend.channels._scaled(np.cumsum(rows, axis=1)[:, :-1], denominator)
    bits = _backend.guide_bits(rows.shape[1])
    cells: Array = np.ascontiguousarray(change(_backend.channels._cells(ends, bits)))
    table.guide = _backend.channels._response.Guide(cells, ends, bits)
    return table


@pytest.mark.parametrize("name", CHANNELS)
def test_reports_follow_the_rows(name: str) -> None:
    rows, denominator = CHANNELS[name]
    assert least_p_value(_backend.ChannelTable(rows, denominator), rows, denominator) > ERROR_RATE
    shifted = broken(rows, denominator, lambda cells: np.concatenate([cells[:, 1:], cells[:, -1:]], axis=1))  # each row by one cell
    assert least_p_value(shifted, rows, denominator) < ERROR_RATE


def test_cells_with_several_ends_must_be_refined() -> None:
    rows, denominator = dyadic(41, 3)
    assert least_p_value(broken(rows, denominator, lambda cells: cells & np.uint32(0x7FFFFFFF)), rows, denominator) < ERROR_RATE


def test_outcomes_in_few_cells() -> None:
    """Thirty outcomes share a sixtieth of the mass; where they meet, a search decides."""
    rows = np.ones((2, 32), np.int64)
    rows[0, 3], rows[1, 20] = 2000, 2000
    table, denominator = _backend.ChannelTable(rows, 2031), 2031
    assert least_p_value(table, rows, denominator) > ERROR_RATE
