"""The report of the benchmarks: its arithmetic and its formats. Nothing here depends on how long anything takes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from dpcore.bench import Row, as_json, as_text, cases, check_answer, take_turns
from dpcore.bench.__main__ import main


def test_work_takes_turns() -> None:
    calls: list[str] = []
    timing = take_turns(lambda: calls.append("ours"), lambda: calls.append("other"), rounds=4)
    assert calls == ["ours", "other"] * 5
    assert min(timing.ours, timing.other, timing.ratio) > 0


@pytest.mark.parametrize(
    ("ratio", "target", "bound", "met"),
    [(6.0, 6.0, False, True), (5.9, 6.0, False, False), (1.6, 1.6, True, True), (1.7, 1.6, True, False)],
)
def test_a_target_is_met_from_the_right_side(ratio: float, target: float, *, bound: bool, met: bool) -> None:
    row = Row("laplace", "peer", "x86_v4", 1, 2.0, 12.0, ratio, target, bound)
    assert row.met is met
    assert row.cells()[-2:] == (("≤ " if bound else "≥ ") + f"{target:g}", "met" if met else "not met")


def test_the_table_has_a_line_for_each_row_and_fits_its_columns() -> None:
    rows = [Row("laplace", "peer", "x86_v4", 1, 2.0, 12.0, 6.0, 6.0), Row("gaussian", "a longer name", "baseline", 4, 20.0, 3.0, 0.15)]
    lines = as_text(rows).splitlines()
    assert len(lines) == 3
    assert len({line.index("level" if i == 0 else rows[i - 1].level) for i, line in enumerate(lines)}) == 1
    report = json.loads(as_json(rows, {"cpu_level": "x86_v4"}))
    assert [row["met"] for row in report["rows"]] == [True, None]


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_a_wrong_answer_is_refused(case: object) -> None:
    out = np.zeros(20_000, case.dtype)
    case.work(out, out, 1)()
    check_answer(case, out)
    with pytest.raises(AssertionError, match="mean square"):
        check_answer(case, 2 * out)


def test_the_command_writes_both_forms(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--values", "2000", "--json", str(tmp_path / "rows.json")]) == 0
    assert "ChaCha20 keystream + copy" in capsys.readouterr().out
    assert json.loads((tmp_path / "rows.json").read_text())["format"] == 1


def test_a_wrong_number_of_values_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--values", "0"])
    assert "--values must be at least 1, got 0" in capsys.readouterr().err
