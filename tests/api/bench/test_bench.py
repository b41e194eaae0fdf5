"""The report of the benchmarks: its arithmetic and its formats. Nothing here depends on how long anything takes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from dpcore import _backend, local, minimax, sums
from dpcore.bench import Row, as_json, as_text, cases, check_answer, take_turns
from dpcore.bench.__main__ import main
from dpcore.bench.distributions import check_close
from dpcore.bench.means import SumCase, bandwidth_row, check_sum, plain_sum_row, sum_cases
from dpcore.bench.minimax import (
    binary_counts,
    binary_estimator,
    check_build,
    check_equal,
    end_to_end,
    look_up_rows,
    moment_model,
    numpy_look_up,
    numpy_walk,
    step_of,
)
from dpcore.bench.selection import SHAPES, check_choice, check_ours, selection_cases, unpruned, unpruned_row


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
    printed = capsys.readouterr().out
    for against in (
        "ChaCha20 keystream + copy",
        "copy of its input",
        "NumPy argmax, no noise",
        "its unpruned kernel",
        "np.sum, not clipped",
        "ks_exponential",
        "uniformity_test",
        "NumPy searchsorted",
        "copy of the bits",
    ):
        assert against in printed
    assert json.loads((tmp_path / "rows.json").read_text())["format"] == 1


def test_a_wrong_number_of_values_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--values", "0"])
    assert "--values must be at least 1, got 0" in capsys.readouterr().err


def test_answers_of_releases_that_are_too_far_apart_are_refused() -> None:
    check_close("codes", np.array([0.5, 0.5]), np.array([0.49, 0.51]), 0.011)
    with pytest.raises(AssertionError, match=r"codes: two ways differ by 0\.01, more than 0\.009"):
        check_close("codes", np.array([0.5, 0.5]), np.array([0.49, 0.51]), 0.009)


# Selection


each_selection = pytest.mark.parametrize("case", selection_cases(), ids=lambda case: case.name)


@each_selection
def test_a_right_choice_passes(case: object) -> None:
    check_ours(case)


@each_selection
def test_a_choice_that_misses_the_largest_scores_is_refused(case: object) -> None:
    with pytest.raises(AssertionError, match="scores far apart"):
        check_choice(case, lambda scores: np.argsort(scores)[: case.s], 1000)


@each_selection
def test_a_choice_that_breaks_ties_by_place_is_refused(case: object) -> None:
    with pytest.raises(AssertionError, match="mean index"):
        check_choice(case, lambda scores: np.argsort(-scores, kind="stable")[: case.s], 1000)


def test_a_choice_that_repeats_an_index_is_refused() -> None:
    case = selection_cases()[0]
    with pytest.raises(AssertionError, match="different indices"):
        check_choice(case, lambda scores: np.argsort(-scores)[: case.s] if scores.any() else np.full(case.s, 500), 1000)


def test_scores_have_their_shapes() -> None:
    case = selection_cases()[2]
    scores = {shape: case.scores(1000, shape) / case.scale for shape in SHAPES}
    assert 0 <= scores["near-tied"].min() < scores["near-tied"].max() <= 1
    assert not scores["tied"].any()
    assert np.array_equal(scores["ascending"], scores["descending"][::-1])
    assert np.array_equal(scores["ascending"], np.sort(scores["ascending"]))
    assert np.diff(np.sort(scores["separated"])).min() == pytest.approx(100)
    assert np.array_equal(case.scores(1000), case.scores(1000))


def test_the_unpruned_kernel_is_asked_for_and_left() -> None:
    with unpruned():
        assert _backend.Testing.unpruned
    assert not _backend.Testing.unpruned
    row = unpruned_row(selection_cases()[2], "tied", "x86_v4", 2000, 2)
    assert (row.ours, row.against, row.bound) == ("noisy_argmax laplace, d=2,000, tied", "its unpruned kernel", True)


# Sums


@pytest.mark.parametrize("case", sum_cases(), ids=lambda case: case.name)
def test_a_wrong_sum_is_refused(case: object, monkeypatch: pytest.MonkeyPatch) -> None:
    values = case.values(10_000)
    assert values.size == 10_000 - 10_000 % (case.columns or 1)
    check_sum(case, values)
    right = sums.clipped_sum
    monkeypatch.setattr(sums, "clipped_sum", lambda x, radius, **more: right(x[:-1], radius, **more))
    with pytest.raises(AssertionError, match="off"):
        check_sum(case, values)


def test_bandwidth_is_by_bytes() -> None:
    case = SumCase(3)
    row = bandwidth_row(case, case.values(3000), "x86_v4", 3)
    assert row.target == 0.6
    assert not row.bound
    assert plain_sum_row(case, case.values(3000), "x86_v4", 3).against == "np.sum, not clipped"


# The minimax engine


def test_both_look_ups_agree_and_a_wrong_one_is_refused() -> None:
    estimator, counts = binary_estimator(), binary_counts(1000)
    check_equal("K=2", estimator.estimate(counts), numpy_look_up(estimator, counts))
    with pytest.raises(AssertionError, match="estimates differ"):
        check_equal("K=2", estimator.estimate(counts), numpy_look_up(estimator, counts + 40))
    assert [row.against for row in look_up_rows("x86_v4", 1000, 2)] == ["20 ns a data set", "NumPy searchsorted"]


def test_both_walks_agree_and_a_wrong_one_is_refused() -> None:
    model = minimax.Model(np.linspace(0.0, 1.0, 4))
    estimator = minimax.BinarySearchEstimator(model, local.KaryResponse(1.0, k=4), n=500, step=step_of(model, 12))
    counts = np.random.default_rng(1).multinomial(500, np.array([0.4, 0.3, 0.2, 0.1]) @ estimator.matrix, size=300)
    ours = estimator.estimate(counts)
    assert len(set(ours)) > 2
    check_equal("K=4", ours, numpy_walk(estimator, estimator.tests, counts))
    with pytest.raises(AssertionError, match="estimates differ"):
        check_equal("K=4", ours, numpy_walk(estimator, estimator.tests, counts[::-1]))


def test_a_build_with_other_intervals_is_refused() -> None:
    check_build(binary_estimator())
    model = moment_model(21)
    with pytest.raises(AssertionError, match="N = 12"):
        check_build(minimax.BinarySearchEstimator(model, minimax.optimal_channel(model, 1.0, n=500), n=500, step=step_of(model, 12)))


def test_end_to_end_finds_the_mean() -> None:
    codes = np.repeat([38, 40, 42, 44], 50_000)  # means -0.5, 0, 0.5, 1
    assert abs(end_to_end(codes, 1) - 0.25) < 0.2
