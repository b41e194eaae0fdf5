"""The most frequent values of each group with a δ: the hockey-stick divergence of all groups together, on neighbours of tiny tables."""

from __future__ import annotations

import dataclasses
import itertools
import math
import tomllib
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from dpcore.batch import parse_release_job
from dpcore.errors import JobError
from dpcore.query import plan as calibration
from dpcore.query.written_plans import make_release_plan
from support.jobs import write_table
from support.releases import release_text

EPSILON, DELTA, K = 0.5, 0.01, 3
KINDS = {
    "gumbel": {"s": 2},
    "peeling": {"s": 1, "method": "peeling"},
    "one-shot": {"s": 1, "method": "oneshot_laplace"},
}
PRIVACY = [
    {"relation": "replace"},
    {"relation": "add_remove"},
    {"relation": "replace", "unit": "person", "max_rows_per_unit": 2},
    {"relation": "add_remove", "unit": "person", "max_rows_per_unit": 2},
]
CELLS = [*itertools.product((0, 1), range(K)), (2, 0)]
"""The group of a row, 2 for none, and its candidate."""


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    table = pa.table({"g": ["a"], "v": pa.array([1], pa.int64()), "person": [1]})
    return write_table(table, tmp_path_factory.mktemp("tops") / "in.parquet")


def answer_of(source, privacy, **keys):
    """The answer for one of two groups, calibrated for both."""
    full = {"kind": "top_s", "column": "v", "k": K, "epsilon": EPSILON, "delta": DELTA, "group_by": "g", "groups": ["a", "b"], **keys}
    text = release_text(source, source.with_suffix(".json"), {"x": full}, privacy=privacy)
    (answer,) = make_release_plan(parse_release_job(tomllib.loads(text))).estimators
    return answer


def counts_of(rows):
    counts = np.zeros((3, K), np.int64)
    for group, candidate in rows:
        counts[group, candidate] += 1
    return tuple(map(tuple, counts[:2].tolist()))


def picks(answer, counts, known={}):  # noqa: B006
    """Probabilities of what is chosen from these counts."""
    scale, method, s = answer.trial.scale, answer.section.method, answer.section.s
    key = counts, scale, method, s
    if key not in known:
        known[key] = of_gumbel(counts, scale, s) if method == "gumbel" else of_laplace(counts, scale)
    return known[key]


def of_gumbel(counts, scale, s):
    weights = np.exp(np.array(counts) / scale)
    found = []
    for order in itertools.permutations(range(K), s):
        left, probability = weights.sum(), 1.0
        for pick in order:
            probability *= weights[pick] / left
            left -= weights[pick]
        found.append(probability)
    return np.array(found)


def of_laplace(counts, scale):
    """By a sum over a fine grid: the same sum for neighbours."""
    x = np.linspace(min(counts) - 40 * scale, max(counts) + 40 * scale, 20_001)
    z = (x[:, None] - np.array(counts)) / scale
    below = np.where(z < 0, 0.5 * np.exp(np.minimum(z, 0)), 1 - 0.5 * np.exp(-np.maximum(z, 0)))
    found = np.array([(np.exp(-np.abs(z[:, i])) * np.delete(below, i, 1).prod(1)).sum() for i in range(K)])
    return found / found.sum()


def divergence(answer, one, other):
    """Σ max(0, p − e^ε q) of both groups together."""
    p, q = (np.multiply.outer(*(picks(answer, counts) for counts in table)) for table in (one, other))
    return float(np.maximum(p - math.exp(EPSILON) * q, 0).sum())


def neighbours(privacy):
    """Pairs of the counts of tables that differ in one unit, in both directions."""
    most = privacy.get("max_rows_per_unit", 1)
    replaced = privacy["relation"] == "replace"
    owned = [rows for size in range(most + 1) for rows in itertools.combinations_with_replacement(CELLS, size)]
    owned = [rows for rows in owned if rows or not replaced or "unit" in privacy]
    pairs = itertools.permutations(owned, 2) if replaced else (pair for rows in owned if rows for pair in ((rows, ()), ((), rows)))
    for one, other in pairs:
        for rest in ((), (CELLS[0],), (CELLS[0], CELLS[4])):
            yield counts_of(rest + one), counts_of(rest + other)


def worst(answer, privacy):
    return max(divergence(answer, *pair) for pair in set(neighbours(privacy)))


@pytest.mark.some(7)
@pytest.mark.parametrize("privacy", PRIVACY, ids=str)
@pytest.mark.parametrize("name", KINDS)
def test_all_groups_together_are_within_epsilon_and_delta(source, name, privacy):
    keys = KINDS[name] | ({"epsilon": 0.15} if name == "one-shot" else {})
    assert 0 <= worst(answer_of(source, privacy, **keys), privacy) <= DELTA


@pytest.mark.parametrize("name", ["gumbel", "peeling"])
def test_noise_for_one_row_is_found(source, name, monkeypatch):
    """The broken twin: noise for one row that is added or removed, where two rows are replaced."""
    privacy, right = PRIVACY[2], calibration.contribution
    monkeypatch.setattr(calibration, "contribution", lambda job, query: dataclasses.replace(right(job, query), rows=1, replaced=False))
    assert worst(answer_of(source, privacy, **KINDS[name]), privacy) > 1.1 * DELTA


@pytest.mark.parametrize("method", ["gumbel", "peeling"])
def test_values_of_several_groups_are_within_epsilon_and_delta(source, method):
    """A pick and its value in each of two groups, by a sum over a grid of both values; and their ρ is not that of one Laplace draw."""
    privacy = PRIVACY[2]
    answer = answer_of(source, privacy, s=1, values=True, method=method)
    scale = answer.trial.value_scale
    x = np.linspace(-40 * scale, 40 * scale, 601)

    def densities(counts):
        values = np.exp(-np.abs(x - np.array(counts)[:, None]) / scale)
        return picks(answer, counts)[:, None] * values / values.sum(1, keepdims=True)

    rows = [((0, 0), (1, 1)), ((0, 0), (0, 0)), ((0, 2), (1, 2))]
    for one, other in itertools.permutations(rows, 2):
        p, q = (np.multiply.outer(*map(densities, counts_of(each))) for each in (one, other))
        assert np.maximum(p - math.exp(EPSILON) * q, 0).sum() <= DELTA
    assert answer.rho >= float(Fraction(4 / scale) ** 2 / 2) * (1 - 1e-9)


def test_a_delta_needs_less_noise_where_there_are_many_rounds(source):
    many = {"k": 200, "s": 100}
    for privacy, keys in itertools.product(PRIVACY, ({}, {"values": True}, {"method": "peeling"})):
        pure, with_delta = (answer_of(source, privacy, **many, **keys, delta=delta).trial for delta in (0.0, 1e-6))
        assert with_delta.scale < 0.7 * pure.scale, (privacy, keys)
        assert pure.value_scale is None or with_delta.value_scale < 0.9 * pure.value_scale


@pytest.mark.parametrize("moved", [1, 2, 4, 40])
def test_the_delta_of_one_step_adds_up_to_that_of_the_query(source, moved):
    """Exactly but for e^ε, of which an upper bound is taken."""
    privacy = {"relation": "replace", "unit": "person", "max_rows_per_unit": moved // 2} if moved > 1 else {"relation": "add_remove"}
    answer = answer_of(source, privacy, s=1, method="oneshot_laplace", epsilon=0.1)
    terms = answer.terms
    assert terms.moved == moved
    assert Fraction(terms.epsilon) * moved <= Fraction(0.1)
    steps = [Fraction(math.exp(step * terms.epsilon)) * (1 + Fraction(1, 2**50)) for step in range(1, moved)]
    total = Fraction(terms.delta) * (1 + sum(steps))
    assert Fraction(DELTA) * (1 - Fraction(1, 2**30)) < total <= Fraction(DELTA)


def test_the_one_shot_method_needs_a_small_epsilon_for_each_row(source):
    answer_of(source, PRIVACY[2], s=1, method="oneshot_laplace", epsilon=0.7)
    with pytest.raises(JobError, match=r"epsilon must be in \(0, 0\.2\)"):
        answer_of(source, PRIVACY[2], s=1, method="oneshot_laplace", epsilon=0.81)
    with pytest.raises(JobError, match=r"delta must be in \(0, 0\.05\)"):
        answer_of(source, PRIVACY[2], s=1, method="oneshot_laplace", delta=0.0)
