"""The answers that benchmarks check before they time anything. Nothing here depends on how long anything takes."""

from __future__ import annotations

import numpy as np
import pytest

from dpcore import _backend, local, minimax, sums
from dpcore.bench import cases, check_answer
from dpcore.bench._peers.estimates import butterflies
from dpcore.bench.distributions import check_close
from dpcore.bench.means import check_mean, check_sum, sum_cases
from dpcore.bench.minimax import (
    binary_counts,
    binary_estimator,
    check_build,
    check_equal,
    end_to_end,
    moment_model,
    numpy_look_up,
    numpy_walk,
    step_of,
)
from dpcore.bench.selection import SHAPES, check_choice, check_ours, selection_cases, unpruned


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_a_wrong_answer_is_refused(case: object) -> None:
    out = np.zeros(20_000, case.dtype)
    case.work(out, out, 1)()
    check_answer(case, out)
    with pytest.raises(AssertionError, match="mean square"):
        check_answer(case, 2 * out)


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


def test_a_wrong_mean_is_refused() -> None:
    check_mean("mean", np.full(1000, 0.25), 0.25)
    with pytest.raises(AssertionError, match="noise scales off"):
        check_mean("mean", np.full(1000, 0.25), 0.35)


def test_butterflies_are_the_transform() -> None:
    values = np.random.default_rng(1).integers(-1000, 1000, 64)
    assert np.array_equal(butterflies(values)(), _backend.walsh_hadamard(values))


# The minimax engine


def test_both_look_ups_agree_and_a_wrong_one_is_refused() -> None:
    estimator, counts = binary_estimator(), binary_counts(1000)
    check_equal("K=2", estimator.estimate(counts), numpy_look_up(estimator, counts))
    with pytest.raises(AssertionError, match="estimates differ"):
        check_equal("K=2", estimator.estimate(counts), numpy_look_up(estimator, counts + 40))


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
