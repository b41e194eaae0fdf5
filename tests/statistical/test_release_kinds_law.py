"""The laws of geometric means, modes and rates of whole jobs, and how often their intervals hold; twins with half the noise are rejected.

Error rate: `support.laws.ERROR_RATE` for each test. The draws are keyed, so a run repeats its result.
"""

from __future__ import annotations

import math
import tomllib

import numpy as np
import pyarrow as pa
import pytest

from dpcore.jobs.release_job import parse_release_job
from dpcore.query.written_plans import make_release_plan
from dpcore.testing import KeyedRandom
from support.jobs import write_table
from support.kernels import Law
from support.laws import ERROR_RATE, binomial_p_value, count, integers_law, mean_p_value, p_value
from support.releases import release_text
from support.totals import in_many_groups, total_of_cells

DRAWS, ROWS = 10_000, 400
TABLE = pa.table(
    {
        "x": np.exp(np.arange(ROWS) * 7919 % 1000 / 250.0),
        "c": pa.array([None if i % 19 == 7 else i * i % 7 for i in range(ROWS)]),
    }
)
GEOMETRIC = {"kind": "geometric_mean", "column": "x", "lower": 2.0, "upper": 40.0}
RATE = {"kind": "rate", "column": "c", "categories": [1, 2]}
EDGES = np.arange(-8, 9) / 2
LAPLACE = np.diff(np.concatenate([[0], np.where(EDGES < 0, np.exp(EDGES) / 2, 1 - np.exp(-EDGES) / 2), [1]]))
"""Masses of a Laplace law of scale 1 between the edges, and beyond them."""


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return write_table(TABLE, tmp_path_factory.mktemp("law") / "in.parquet")


def answer_of(source, query, **privacy):
    """The answer of a job, its exact statistic and a key."""
    text = release_text(source, source.with_suffix(".json"), {"x": query}, privacy=privacy)
    (answer,) = make_release_plan(parse_release_job(tomllib.loads(text))).estimators
    return answer, total_of_cells(answer, TABLE.combine_chunks().to_batches()[0]), KeyedRandom(b"laws of 3 kinds, for tests only!")


def released(source, query, draws=DRAWS, **privacy):
    """The answer of a job, and many documents of it under one key."""
    answer, total, rng = answer_of(source, query, **privacy)
    return answer, [answer.release(total, rng) for _ in range(draws)]


def released_at_once(source, query, draws=DRAWS, **privacy):
    """The document of a job with many groups, all with the same rows."""
    answer, total, rng = answer_of(source, query, **privacy)
    return answer.release_each(in_many_groups(total, draws), rng)


def each(documents, key):
    return np.array([document[key] for document in documents])


def is_laplace(noise):
    """Whether noise over its scale has the law of Laplace noise."""
    return p_value(np.bincount(np.searchsorted(EDGES, noise), minlength=len(LAPLACE)), LAPLACE) > ERROR_RATE


def holds_as_often(intervals, truth, confidence, *, at_least=False):
    """Whether intervals hold as often as they say, and, unless they may be wider, not far more often."""
    hits = int(((intervals[:, 0] <= truth) & (truth <= intervals[:, 1])).sum())
    enough = hits >= confidence * len(intervals) or binomial_p_value(hits, len(intervals), confidence) > ERROR_RATE
    return enough and (at_least or binomial_p_value(hits, len(intervals), confidence) > ERROR_RATE)


@pytest.mark.long
def test_a_geometric_mean_has_the_noise_of_a_mean_of_logarithms(source):
    answer, documents = released(source, GEOMETRIC | {"epsilon": 0.5})
    logs = np.log(np.clip(TABLE["x"].to_numpy(), 2.0, 40.0))
    nearest = np.rint(logs / answer.steps.unit) * answer.steps.unit
    scale = (answer.steps.ends[1] - answer.steps.ends[0]) / 0.5
    assert scale == pytest.approx(math.log(20) / 0.5, rel=1e-4)
    noise = np.log(each(documents, "value")) * ROWS - nearest.sum()
    assert is_laplace(noise / scale)
    assert not is_laplace(noise / scale / 2)
    stderr = each(documents, "stderr") / each(documents, "value")
    assert np.allclose(stderr, math.sqrt(2) * scale / ROWS)


@pytest.mark.long
@pytest.mark.parametrize(("privacy", "at_least"), [({}, False), ({"relation": "add_remove"}, True)])
def test_intervals_of_a_geometric_mean_hold_the_true_one(source, privacy, at_least):
    _, documents = released(source, GEOMETRIC | {"epsilon": 0.5, "confidence": 0.9}, 5000, **privacy)
    truth = np.exp(np.log(np.clip(TABLE["x"].to_numpy(), 2.0, 40.0)).mean())
    intervals = each(documents, "interval")
    assert holds_as_often(intervals, truth, 0.9, at_least=at_least)
    middle = np.sqrt(intervals[:, :1] * intervals[:, 1:])
    # The broken twin: a standard error where there should be a half-width.
    assert not holds_as_often(middle * (intervals / middle) ** 0.4, truth, 0.9)


def test_the_rounding_of_logarithms_is_in_the_interval(source):
    """All values lie where rounding to steps errs most, and nearly no noise is left."""
    answer, _ = released(source, GEOMETRIC | {"epsilon": 0.5}, 1)
    worst = [np.nextafter(point, 0) for point in answer.steps.points[1000:1002]]
    (answer,) = make_release_plan(parse_release_job(tomllib.loads(release_text(
        source, source.with_suffix(".json"), {"x": GEOMETRIC | {"epsilon": 1e6, "confidence": 0.5}}
    )))).estimators  # fmt: skip
    for value in worst:
        batch = pa.record_batch({"x": np.full(ROWS, value)})
        document = answer.release(total_of_cells(answer, batch), KeyedRandom(bytes(32)))
        low, high = document["interval"]
        assert low <= value <= high
        assert abs(document["value"] - value) > 0.4 * answer.steps.unit * value  # which an interval of noise alone would miss
        assert high - low < 1.1 * answer.steps.unit * value


def test_a_mode_is_chosen_in_proportion_to_exponentials_of_counts(source):
    answer, documents = released(source, {"kind": "mode", "column": "c", "k": 7, "epsilon": 0.06, "confidence": 0.5})
    exact = np.bincount([each for each in TABLE["c"].to_pylist() if each is not None], minlength=7)
    seen = np.bincount(each(documents, "value"), minlength=7)
    for epsilon, is_right in ((0.06, True), (0.12, False)):
        weights = np.exp(epsilon * (exact - exact.max()) / 2)
        order = np.argsort(-weights)
        assert (p_value(seen[order], (weights / weights.sum())[order]) > ERROR_RATE) == is_right
    behind = exact.max() - exact[each(documents, "value")]
    assert 0 < (behind > answer.behind).mean() <= 0.5


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.99])
def test_a_mode_is_behind_by_no_more_than_it_says(source, confidence):
    """By the exact law, for counts that make it worst: all others equally far behind."""
    query = {"kind": "mode", "column": "c", "k": 7, "epsilon": 0.1, "confidence": confidence}
    answer, _ = released(source, query, 1)
    for gap in range(4 * answer.behind + 2):
        wrong = 6 * math.exp(-gap / answer.trial.scale)
        if gap > answer.behind:
            assert wrong / (1 + wrong) <= (1 - confidence) * (1 + 1e-9)
    closer = 6 * math.exp(-answer.behind / 2 / answer.trial.scale)
    assert closer / (1 + closer) > 1 - confidence  # half of it would not do


def test_a_rate_is_made_of_two_counts_with_noise_of_one_scale(source):
    document = released_at_once(source, RATE | {"epsilon": 0.25}, relation="add_remove")
    known = np.isin([-1 if each is None else each for each in TABLE["c"].to_pylist()], [1, 2]).sum()
    match = document["matching"] - known
    other = document["count"] - ROWS - match
    for noise in (match, other):
        assert p_value(count(noise, 80), integers_law(Law("discrete_laplace", 4.0), 80)) > ERROR_RATE
        assert p_value(count(noise, 80), integers_law(Law("discrete_laplace", 2.0), 80)) < ERROR_RATE
    assert mean_p_value((match * other).astype(float), 0.0, (2 * 4.0**2) ** 2) > ERROR_RATE
    errors = document["value"] - known / ROWS
    assert abs(np.mean(errors**2) / np.mean(document["stderr"] ** 2) - 1) < 0.1


@pytest.mark.long
def test_a_rate_of_a_public_number_of_rows_has_one_noise(source):
    _, documents = released(source, RATE | {"epsilon": 0.25})
    known = np.isin([-1 if each is None else each for each in TABLE["c"].to_pylist()], [1, 2]).sum()
    assert set(each(documents, "count").tolist()) == {ROWS}
    noise = each(documents, "matching") - known
    assert p_value(count(noise, 80), integers_law(Law("discrete_laplace", 4.0), 80)) > ERROR_RATE
    assert p_value(count(noise, 80), integers_law(Law("discrete_laplace", 2.0), 80)) < ERROR_RATE
    assert np.array_equal(each(documents, "value"), np.clip(each(documents, "matching") / ROWS, 0, 1))


@pytest.mark.some(2)
@pytest.mark.parametrize("categories", [[1, 2], [0], [3]], ids=["some", "rare", "none"])
@pytest.mark.parametrize("privacy", [{}, {"relation": "add_remove"}])
def test_intervals_of_a_rate_hold_the_true_one(source, privacy, categories):
    query = RATE | {"epsilon": 0.1, "confidence": 0.9, "categories": categories}
    document = released_at_once(source, query, 5000, **privacy)
    truth = np.isin([-1 if each is None else each for each in TABLE["c"].to_pylist()], categories).mean()
    intervals = document["interval"]
    assert holds_as_often(intervals, truth, 0.9, at_least=True)
    assert ((intervals >= 0) & (intervals <= 1)).all()
    middle = document["value"][:, None]
    # The broken twin: a standard error where there should be a half-width; at an end of [0, 1] half of its intervals still hold.
    assert not holds_as_often(middle + 0.4 * (intervals - middle), truth, 0.9, at_least=True) or truth in {0, 1}
