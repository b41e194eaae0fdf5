"""The table of bounds on the page about minimax estimation, computed again."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import SimpleNamespace

import pytest

from dpcore.reproduce.meeting_bounds import EPSILONS, PROBLEMS, SIZES, meeting

ROOT = Path(__file__).resolve().parents[2]
GOAL = 4.5
_spec = importlib.util.spec_from_file_location("docs_meeting_bounds", ROOT / "docs" / "meeting_bounds.py")
script = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(script)
ROWS = script.TABLE.search(script.PAGE.read_text("utf-8"))[0].strip().splitlines()[2:]
CASES = [(name, epsilon, n) for name in PROBLEMS for epsilon in EPSILONS for n in SIZES]


def numbers(row: str) -> list[float]:
    return [float(cell) for cell in row.replace("\\|", "").split("|")[4:7]]


def test_every_pair_of_bounds_is_within_the_goal():
    assert len(ROWS) == len(CASES)
    for row, (name, epsilon, n) in zip(ROWS, CASES, strict=True):
        lower, upper, ratio = numbers(row)
        assert 0 < lower <= upper
        assert 1 <= ratio <= GOAL
        assert script.line(name, epsilon, n, type("Both", (), {"lower": lower, "upper": upper, "ratio": ratio})) == row + "\n"


def test_the_picture_shows_the_table(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    from pictures import alike

    found = {case: SimpleNamespace(lower=numbers(row)[0], upper=numbers(row)[1]) for case, row in zip(CASES, ROWS, strict=True)}
    drawn = (ROOT / "docs" / "images" / "meeting-bounds.svg").read_text(encoding="utf-8")
    now = script.picture(found)
    assert alike(now, drawn)
    found["moment-2", 1.0, 10**6].lower /= 2
    assert not alike(script.picture(found), now)


def check(case):
    found = meeting(*case)
    assert found.lower <= found.upper
    assert numbers(ROWS[CASES.index(case)]) == pytest.approx([found.lower, found.upper, found.ratio], rel=0.01)


@pytest.mark.parametrize("case", [("event", 1.0, 10**6), ("moment-2", 3.0, 10**4)], ids=str)
def test_rows_are_computed_again(case):
    check(case)


@pytest.mark.long
@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_row_is_computed_again(case):
    check(case)
