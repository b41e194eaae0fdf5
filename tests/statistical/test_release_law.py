"""The laws of the answers of whole jobs, against the exact laws of the mechanisms; twins with half the noise are rejected.

Error rate: `support.laws.ERROR_RATE` for each test. The draws are keyed, so a run repeats its result.
"""

from __future__ import annotations

import itertools
import tomllib

import numpy as np
import pytest

from dpcore.accounting import analytic_gaussian_scale
from dpcore.jobs.release_job import parse_release_job
from dpcore.query.written_plans import make_release_plan
from dpcore.testing import KeyedRandom
from support.jobs import write_table
from support.kernels import Law
from support.laws import ERROR_RATE, binomial_p_value, count, integers_law, mean_p_value, p_value
from support.releases import clinic, release_text, truth
from support.totals import in_many_groups, total_of_cells

DRAWS = 10_000


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return write_table(clinic(500), tmp_path_factory.mktemp("law") / "in.parquet")


def answer_of(source, query, **privacy):
    """The one answer of a job, and its exact statistic on the table."""
    text = release_text(source, source.with_suffix(".json"), {"x": query}, privacy=privacy)
    (answer,) = make_release_plan(parse_release_job(tomllib.loads(text))).estimators
    return answer, total_of_cells(answer, clinic(500).combine_chunks().to_batches()[0])


def drawn(answer, tally, key="value", draws=DRAWS):
    """Many private answers under one key."""
    rng = KeyedRandom(b"laws of releases, for tests only")
    return np.array([answer.release(tally, rng)[key] for _ in range(draws)])


@pytest.mark.some(2)
@pytest.mark.parametrize("delta", [0.0, 1e-5])
@pytest.mark.parametrize(
    ("query", "privacy", "sensitivity"),
    [
        ({"kind": "count", "column": "visits", "lower": 0, "upper": 100}, {}, 1),
        ({"kind": "count"}, {"unit": "person", "max_rows_per_unit": 3}, 3),
        ({"kind": "histogram", "column": "visits", "k": 29}, {}, 2),
        ({"kind": "histogram", "column": "visits", "k": 29}, {"relation": "add_remove"}, 1),
    ],
)
def test_counts_and_histograms(source, query, privacy, sensitivity, delta):
    answer, tally = answer_of(source, {**query, "delta": delta, "epsilon": 0.5}, **privacy)
    exact = tally[0] if query["kind"] == "count" else tally[0, :-1]
    noise = (drawn(answer, tally, draws=DRAWS if query["kind"] == "count" else DRAWS // 20) - exact).reshape(-1)
    if delta == 0:
        law = Law("discrete_laplace", sensitivity / 0.5)
    else:
        law = Law("discrete_gaussian", answer.noise[0].scale)
        # About what the continuous Gaussian needs for the ℓ2 sensitivity.
        norm = sensitivity if query["kind"] == "count" or sensitivity == 1 else np.sqrt(2)
        assert 0.99 < law.scale / analytic_gaussian_scale(0.5, 1e-5, float(norm)) < 1.1
    counts = count(noise, 400)
    assert p_value(counts, integers_law(law, 400)) > ERROR_RATE
    assert p_value(counts, integers_law(Law(law.kind, law.scale / 2), 400)) < ERROR_RATE


@pytest.mark.long
@pytest.mark.parametrize("kind", ["sum", "mean"])
def test_sums_and_means(source, kind):
    query = {"kind": kind, "column": "cost", "lower": 10.0, "upper": 90.0, "missing": 20.0, "epsilon": 0.5}
    answer, tally = answer_of(source, query)
    exact = truth("mean cost", clinic(500)) * (500 if kind == "sum" else 1)
    scale = 160.0 / (1 if kind == "sum" else 500)
    noise = (drawn(answer, tally) - exact) / scale
    edges = np.arange(-8, 9) / 2
    masses = np.diff(np.concatenate([[0], np.where(edges < 0, np.exp(edges) / 2, 1 - np.exp(-edges) / 2), [1]]))
    binned = np.bincount(np.searchsorted(edges, noise), minlength=len(masses))
    assert p_value(binned, masses) > ERROR_RATE
    assert p_value(np.bincount(np.searchsorted(edges, noise / 2), minlength=len(masses)), masses) < ERROR_RATE


def test_a_mean_over_a_noisy_count(source):
    query = {"kind": "mean", "column": "cost", "lower": 10.0, "upper": 90.0, "missing": 20.0, "epsilon": 2.0}
    answer, tally = answer_of(source, query, relation="add_remove")
    released = answer.release_each(in_many_groups(tally, DRAWS), KeyedRandom(bytes(range(32))))
    counts = released["count"] - 500
    assert p_value(count(counts, 60), integers_law(Law("discrete_laplace", 1.0), 60)) > ERROR_RATE
    exact = truth("mean cost", clinic(500))
    # The distances from the middle have noise of scale 40/1; sum and count are independent.
    sums = (released["value"] - 50) * (counts + 500) - (exact - 50) * 500
    assert mean_p_value(sums**2, 2 * 40.0**2, 20 * 40.0**4) > ERROR_RATE
    assert mean_p_value(sums**2 / 4, 2 * 40.0**2, 20 * 40.0**4) < ERROR_RATE
    assert abs(np.mean((released["value"] - exact) ** 2) / np.mean(released["stderr"] ** 2) - 1) < 0.1


def test_intervals_hold_as_often_as_they_say(source):
    for name, query in {
        "visits": {"kind": "sum", "column": "visits", "lower": 0, "upper": 20},
        "mean cost": {"kind": "mean", "column": "cost", "lower": 10.0, "upper": 90.0, "missing": 20.0},
    }.items():
        answer, tally = answer_of(source, {**query, "confidence": 0.9, "epsilon": 0.5})
        intervals = drawn(answer, tally, "interval", draws=5000)
        exact = float(truth(name, clinic(500)))
        hits = int(((intervals[:, 0] <= exact) & (exact <= intervals[:, 1])).sum())
        assert binomial_p_value(hits, 5000, 0.9) > ERROR_RATE
        assert binomial_p_value(hits, 5000, 0.95) < ERROR_RATE


@pytest.mark.long
@pytest.mark.parametrize(
    ("privacy", "sensitivity"), [({}, 1.0), ({"relation": "add_remove"}, 0.75), ({"unit": "person", "max_rows_per_unit": 2}, 2.0)]
)
def test_quantiles(source, privacy, sensitivity):
    grid = [20, 25, 28, 30, 32, 35, 40]
    query = {"kind": "quantile", "column": "cost", "q": [0.25], "grid": grid, "missing": 0, "epsilon": 0.1}
    answer, tally = answer_of(source, query, **privacy)
    values = np.sort(np.clip(truth("quartiles", clinic(500)), None, 40))
    # Written anew: ranks of the values rounded up to the grid.
    upto = np.searchsorted(values, grid, "right")
    below = np.concatenate([[0], upto[:-1]])
    utility = -np.maximum(0, np.maximum(below - 125, 125 - upto))
    chosen = np.searchsorted(grid, drawn(answer, tally))
    for epsilon, is_right in ((0.1, True), (0.2, False)):
        weights = np.exp(epsilon * utility / (2 * sensitivity))
        fits = p_value(np.bincount(chosen, minlength=7), weights / weights.sum()) > ERROR_RATE
        assert fits == is_right


def test_the_most_frequent(source):
    """Gumbel noise of scale 2s/ε: the order of two is that of picking twice in proportion to e^(ε·count/2s)."""
    query = {"kind": "top_s", "column": "region", "candidates": ["north", "east", "south", "west"], "s": 2, "epsilon": 0.04}
    answer, tally = answer_of(source, query)
    released = drawn(answer, tally)
    pairs = list(itertools.permutations(range(4), 2))
    labels = query["candidates"]
    seen = np.array([((released[:, 0] == labels[i]) & (released[:, 1] == labels[j])).sum() for i, j in pairs])
    for epsilon, is_right in ((0.04, True), (0.08, False)):
        weights = np.exp(epsilon * (tally[0, :-1] - tally[0, :-1].max()) / 4)
        masses = np.array([weights[i] / weights.sum() * weights[j] / (weights.sum() - weights[i]) for i, j in pairs])
        order = np.argsort(-masses)
        assert (p_value(seen[order], masses[order]) > ERROR_RATE) == is_right


def test_groups_share_no_noise(source):
    query = {"kind": "count", "group_by": "region", "groups": ["north", "east", "south"], "epsilon": 0.5}
    answer, tally = answer_of(source, query)
    noise = drawn(answer, tally, draws=DRAWS // 4) - tally[:-1]
    # Under replacement a row leaves one group and enters another: scale 2/ε.
    assert p_value(count(noise.reshape(-1), 60), integers_law(Law("discrete_laplace", 4.0), 60)) > ERROR_RATE
    assert p_value(count(noise.reshape(-1), 60), integers_law(Law("discrete_laplace", 2.0), 60)) < ERROR_RATE
    assert mean_p_value(noise[:, 0] * noise[:, 1], 0.0, (2 * 4.0**2) ** 2) > ERROR_RATE
    assert mean_p_value(noise[:, 0] * noise[:, 0], 0.0, (2 * 4.0**2) ** 2) < ERROR_RATE
