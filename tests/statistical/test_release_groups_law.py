"""The laws of answers about groups, whole units, rows with a value, and found bounds; twins with half the noise are rejected.

Error rate: `support.laws.ERROR_RATE` for each test. The draws are keyed, so a run repeats its result.
"""

from __future__ import annotations

import tomllib
from fractions import Fraction

import numpy as np
import pytest

from dpcore.jobs.release_job import parse_release_job
from dpcore.query.kinds.sum import UnitSumEstimator
from dpcore.query.written_plans import make_release_plan
from dpcore.testing import KeyedRandom
from support.jobs import write_table
from support.kernels import Law
from support.laws import ERROR_RATE, binomial_p_value, count, integers_law, interval_masses, p_value
from support.releases import clinic, release_text
from support.totals import total_of, total_of_cells

REGIONS = ["north", "east", "south"]
LIST = {"group_by": "region", "groups": REGIONS}
BY_PERSON = {"unit": "person", "max_rows_per_unit": 2}
COSTS = {"column": "cost", "lower": 10.0, "upper": 90.0, "missing": "skip"}
DRAWS = 2400


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return write_table(clinic(500), tmp_path_factory.mktemp("law") / "in.parquet")


def answer_of(source, query, privacy):
    """The one answer of a job, for ε = ½."""
    text = release_text(source, source.with_suffix(".json"), {"x": {"epsilon": 0.5, **query}}, privacy=privacy)
    (answer,) = make_release_plan(parse_release_job(tomllib.loads(text))).estimators
    return answer


def tally_of(answer, rows=500):
    """The exact statistic of the table."""
    return total_of_cells(answer, clinic(rows).combine_chunks().to_batches()[0])


def drawn(answer, tally, key="value", draws=DRAWS):
    """Many private answers under one key."""
    rng = KeyedRandom(b"laws of releases, for tests only")
    return np.array([answer.release(tally, rng)[key] for _ in range(draws)])


def fits_integers(noise, scale):
    return p_value(count(noise, 200), integers_law(Law("discrete_laplace", scale), 200)) > ERROR_RATE


def fits_numbers(noise, scale):
    edges = np.concatenate([[-np.inf], np.arange(-8, 9) / 2, [np.inf]])
    seen = np.bincount(np.searchsorted(edges[1:-1], noise / scale), minlength=len(edges) - 1)
    return p_value(seen, interval_masses(edges, "laplace")) > ERROR_RATE


PEOPLE = {
    "units": ({"kind": "count_distinct"}, {"unit": "person"}, 1),
    "units by group": ({"kind": "count_distinct", **LIST}, BY_PERSON, 3),
    "values": ({"kind": "count_distinct", "column": "region", "max_values_per_unit": 3}, {"unit": "person"}, 3),
    "values by group": ({"kind": "count_distinct", "column": "visits", "max_values_per_unit": 3, **LIST}, {"unit": "person"}, 6),
    "values of rows": ({"kind": "count_distinct", "column": "region", "relation": "add_remove"}, {}, 1),
    "rows with a value": ({"kind": "count", "column": "cost", "missing": "skip"}, BY_PERSON, 2),
    "sum of units": ({"kind": "sum", "column": "cost", "missing": 0, "max_sum_per_unit": 8}, {"unit": "person"}, 16),
    "sum of units by group": ({"kind": "sum", "column": "cost", "missing": 0, "max_sum_per_unit": 8, **LIST}, {"unit": "person"}, 16),
}


@pytest.mark.some(3)
@pytest.mark.parametrize("name", PEOPLE)
def test_people(source, name):
    query, privacy, sensitivity = PEOPLE[name]
    privacy = privacy | ({"relation": query["relation"]} if "relation" in query else {})
    answer = answer_of(source, {key: value for key, value in query.items() if key != "relation"}, privacy)
    groups = 3 if "group_by" in query else 1
    sums = isinstance(answer, UnitSumEstimator)
    exact = [2**45 + place for place in range(groups)] if sums else np.arange(groups) + 70
    tally = np.append(exact, 0) if query["kind"] == "count" else exact
    noise = drawn(answer, tally, draws=DRAWS // groups).reshape(-1, groups)
    noise = (noise - np.array([float(each * Fraction(answer.step)) for each in exact]) if sums else noise - exact).reshape(-1)
    fits = fits_numbers if sums else fits_integers
    assert fits(noise, sensitivity / 0.5)
    assert not fits(noise, sensitivity / 0.5 / 2)


@pytest.mark.parametrize(("privacy", "moved"), [({}, 2), ({"relation": "add_remove", **BY_PERSON}, 2), (BY_PERSON, 4)], ids=str)
def test_sums_and_means_of_groups_and_of_rows_with_a_value(source, privacy, moved):
    """By so many rows: 90 each, or 40 from the middle of the bounds for half of ε, and a count for the other half."""
    sums = answer_of(source, {"kind": "sum", **COSTS, **LIST}, privacy)
    tally = tally_of(sums)
    exact = np.array([float(Fraction(total) * Fraction(tally.sums.grid)) for total in tally.sums.integers])
    noise = (drawn(sums, tally, draws=DRAWS // 3) - exact).reshape(-1)
    assert fits_numbers(noise, moved * 90 / 0.5)
    assert not fits_numbers(noise, moved * 45 / 0.5)
    means = answer_of(source, {"kind": "mean", **COSTS, **LIST}, privacy)
    tally = tally_of(means)
    noise = (drawn(means, tally, "count", draws=DRAWS // 3) - tally.counts).reshape(-1)
    assert fits_integers(noise, moved / 0.25)
    assert not fits_integers(noise, moved / 0.5)
    assert (means.total.scale, means.count.scale) == (moved * 40 / 0.25, moved / 0.25)


def test_quantiles_of_groups(source):
    """Each group's point has the law of the exponential mechanism for its share of ε, and groups do not know of each other."""
    grid = [20, 30, 40, 50, 60]
    answer = answer_of(source, {"kind": "median", "column": "cost", "grid": grid, "missing": "skip", **LIST, "epsilon": 0.2}, BY_PERSON)
    tally = tally_of(answer)
    chosen = np.searchsorted(grid, drawn(answer, tally, draws=1500))
    laws = []
    for group, counts in enumerate(tally[:2, :-1]):  # nobody is in the third one
        upto, half = np.cumsum(counts), counts.sum() / 2
        utility = -np.maximum(0, np.maximum(upto - counts - half, half - upto))
        seen = np.bincount(chosen[:, group], minlength=len(grid))
        # Two rows leave a group and two enter another; ε over twice the sensitivity, which is ½ for one row.
        for epsilon in (0.2, 0.4):
            weights = np.exp(epsilon / 4 * utility)
            laws.append(weights / weights.sum())
            assert (p_value(seen, laws[-1]) > ERROR_RATE) == (epsilon == 0.2)
    both = np.histogram2d(chosen[:, 0], chosen[:, 1], bins=[range(len(grid) + 1)] * 2)[0].reshape(-1)
    independent = np.outer(laws[0], laws[2]).reshape(-1)
    order = np.argsort(-independent)
    assert p_value(both[order], independent[order]) > ERROR_RATE
    same = np.diag(laws[0]).reshape(-1)  # the broken twin: two groups that draw the same words
    assert p_value(both[order], (0.5 * same + 0.5 * independent)[order]) < ERROR_RATE


def test_bounds_are_found_as_often_as_the_noise_of_their_bins_lets_them(source):
    """One bin, with eight rows less than its threshold: it passes if its noise is above 8. With half of the noise it would more seldom."""
    answer = answer_of(source, {"kind": "sum", "column": "cost", "bounds": "private", "bounds_epsilon": 0.25, "missing": 0}, {})
    scale = 2 / 0.25
    assert answer.bins.scale == scale
    rows = answer.threshold - 8
    bins = total_of(answer.measure_of_bins, [np.full(rows, 3.0)])
    rng = KeyedRandom(b"laws of releases, for tests only")
    found = sum(bool(answer.ends(bins, rng)) for _ in range(DRAWS))
    r = np.exp(-1 / scale)
    assert binomial_p_value(found, DRAWS, r**9 / (1 + r)) > ERROR_RATE
    assert binomial_p_value(found, DRAWS, r**18 / (1 + r**2)) < ERROR_RATE
