"""The privacy loss of an answer for each group, exactly: all tables of a few rows, and all of their neighbours."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import tomllib
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from dpcore.batch import parse_release_job
from dpcore.batch.release import calibration
from dpcore.batch.release.plan import make_release_plan
from support.jobs import write_table
from support.releases import release_text

EPSILON = 0.75
GROUPS = {"g": ["a", "b"], "h": {"edges": [0, 1]}}
"""Two groups: of the first column, where the second is inside of its bin."""
KINDS = {
    "count": {"kind": "count"},
    "count of some": {"kind": "count", "column": "v", "lower": 1, "upper": 2},
    "histogram": {"kind": "histogram", "column": "v", "k": 3},
    "sum": {"kind": "sum", "column": "v", "lower": 1, "upper": 2},
    "mean": {"kind": "mean", "column": "v", "lower": 0, "upper": 2},
    "median": {"kind": "median", "column": "v", "grid": [0, 1, 2]},
    "quantiles": {"kind": "quantile", "column": "v", "q": [0.2, 0.5], "grid": [0, 1, 2]},
    "top": {"kind": "top_s", "column": "v", "k": 3, "s": 1},
    "top two with values": {"kind": "top_s", "column": "v", "k": 3, "s": 2, "values": True},
    "peeled": {"kind": "top_s", "column": "v", "k": 3, "s": 1, "method": "peeling"},
}
ROWS = [*itertools.product((0, 1), (0, 2)), (2, 0)]
"""Code of a group, 2 for a row of none, and a value. (Values between these add no larger loss, and a third value takes longer.)"""


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    table = pa.table({"g": ["a"], "h": [0.5], "v": pa.array([1], pa.int64()), "person": [1]})
    return write_table(table, tmp_path_factory.mktemp("groups") / "in.parquet")


def answer_of(source, query, privacy):
    """The answer of a job, calibrated."""
    full = {"epsilon": EPSILON, "group_by": ["g", "h"], "groups": GROUPS, **query}
    text = release_text(source, source.with_suffix(".json"), {"x": full}, privacy=privacy)
    (answer,) = make_release_plan(parse_release_job(tomllib.loads(text))).answers
    return answer


def tally_of(answer, rows):
    codes = np.array([group for group, _ in rows], np.int32)
    values = np.array([value for _, value in rows], np.int64)
    read = [cells.read(pa.array(values)) for _, cells in answer.reads]
    return answer.tally(len(rows), [*read, codes])


def numbers_of(answer, tally):
    """The numbers that get noise, and the scale of each."""
    kind = answer.section.kind
    if kind in {"sum", "mean"}:
        sums = [total * Fraction(tally.sums.grid) for total in tally.sums.integers]
        if kind == "sum":
            return [(total, answer.each.mechanism.scale) for total in sums]
        counts = [(int(count), answer.each.count.scale) for count in tally.counts]
        return [*((total, answer.each.total.scale) for total in sums), *counts]
    return [
        (int(count), answer.each.mechanism.scale) for count in np.asarray(tally[:-1] if kind == "count" else tally[:-1, :-1]).reshape(-1)
    ]


def logs(weights):
    """Logarithms of probabilities that are proportional to e^weights."""
    largest = max(weights)
    total = largest + math.log(sum(math.exp(weight - largest) for weight in weights))
    return [weight - total for weight in weights]


def choices(answer, counts):
    """For each choice that is made on one group: the log-probability of each outcome, with what is noised after it, as (number, scale)."""
    each = answer.each
    if answer.section.kind == "top_s":
        scale, found = each.trial.scale, {}
        for picks in itertools.permutations(range(3), answer.section.s):
            log, left = 0.0, list(range(3))
            for pick in picks:
                log += one_pick(answer, [int(counts[i]) for i in left], scale)[left.index(pick)]
                left.remove(pick)
            values = [(int(counts[pick]), each.trial.value_scale) for pick in picks] if answer.section.values else []
            found[picks] = (log, values)
        return [found]
    levels = [Fraction(repr(q)) for q in answer.section.q]
    made = []
    for level, sensitivity in zip(levels, each.sensitivities, strict=True):
        utilities = each.utilities(counts, level).tolist()
        made.append({i: (log, []) for i, log in enumerate(logs([each.epsilon * u / (2 * sensitivity) for u in utilities]))})
    return made


def one_pick(answer, counts, scale):
    """Log-probabilities of the largest noisy count."""
    if answer.section.method == "gumbel":
        return logs([count / scale for count in counts])
    return laplace_argmax(tuple(counts), scale)


@functools.cache
def laplace_argmax(counts, scale):
    """Log-probabilities of an argmax with Laplace noise, by a sum over a fine grid: the same sum for neighbours, so good to 1e-6."""
    x = np.linspace(min(counts) - 40 * scale, max(counts) + 40 * scale, 40_001)

    def below(count):
        z = (x - count) / scale
        return np.where(z < 0, 0.5 * np.exp(np.minimum(z, 0)), 1 - 0.5 * np.exp(-np.maximum(z, 0)))

    found = []
    for i, count in enumerate(counts):
        density = np.exp(-abs(x - count) / scale)
        for j, other in enumerate(counts):
            if j != i:
                density = density * below(other)
        found.append(density.sum())
    return [math.log(each / sum(found)) for each in found]


def loss(answer, one, other):
    """The largest log-ratio of the probabilities of an answer on two tables."""
    if answer.section.kind not in {"top_s", "median", "quantile"}:
        pairs = zip(numbers_of(answer, one), numbers_of(answer, other), strict=True)
        return float(sum(abs(a - b) / Fraction(scale) for (a, scale), (b, _) in pairs))
    total = 0.0
    for group in range(2):
        if (one[group] == other[group]).all():
            continue
        for here, there in zip(choices(answer, one[group][:3]), choices(answer, other[group][:3]), strict=True):
            total += max(
                here[outcome][0] - there[outcome][0]
                + sum(abs(a - b) / scale for (a, scale), (b, _) in zip(here[outcome][1], there[outcome][1], strict=True))
                for outcome in here
            )  # fmt: skip
    return total


def multisets(most, least=0):
    return [rows for size in range(least, most + 1) for rows in itertools.combinations_with_replacement(ROWS, size)]


def neighbours(privacy):
    """Pairs of tables that differ in one unit; the others' rows come first."""
    most = privacy.get("max_rows_per_unit", 1)
    by_row = privacy.get("unit", "row") == "row"
    gone = privacy["relation"] == "add_remove"
    ends = multisets(most, 1 if by_row and not gone else 0)
    for rest in multisets(2 if most == 1 else 1):
        for one in ends:
            for other in [()] if gone else ends:
                yield rest + one, rest + other
                if gone:
                    yield rest, rest + one


def largest_loss(answer, privacy):
    known = {}

    def tally(rows):
        key = tuple(sorted(rows))
        if key not in known:
            known[key] = tally_of(answer, rows)
        return known[key]

    return max(loss(answer, tally(one), tally(other)) for one, other in neighbours(privacy))


PRIVACY = [
    {"relation": "replace"},
    {"relation": "add_remove"},
    {"relation": "replace", "unit": "person", "max_rows_per_unit": 2},
    {"relation": "add_remove", "unit": "person", "max_rows_per_unit": 2},
]


@pytest.mark.parametrize("privacy", PRIVACY, ids=str)
@pytest.mark.parametrize("name", KINDS)
def test_the_loss_of_all_groups_together_is_within_epsilon(source, name, privacy):
    found = largest_loss(answer_of(source, KINDS[name], privacy), privacy)
    assert found <= EPSILON * (1 + 1e-6)
    if name in {"count", "histogram", "sum"}:
        assert found >= EPSILON * (1 - 1e-9)


@pytest.mark.parametrize("name", KINDS)
def test_noise_for_the_wrong_neighbours_is_found(source, name, monkeypatch):
    """The broken twin: noise for one row that is added or removed, where two rows are replaced."""
    privacy = PRIVACY[2]
    right = calibration.contribution

    def wrong(job, query):
        return dataclasses.replace(right(job, query), rows=1, replaced=False)

    monkeypatch.setattr(calibration, "contribution", wrong)
    assert largest_loss(answer_of(source, KINDS[name], privacy), privacy) > EPSILON * 1.01


@pytest.mark.parametrize("privacy", PRIVACY, ids=str)
@pytest.mark.parametrize("kind", ["median", "top"])
def test_rho_of_choices_covers_their_loss(source, kind, privacy):
    """ρ ≥ the loss in the mean, KL divergence, of every pair of neighbours: zCDP bounds it by ρ."""
    answer = answer_of(source, KINDS[kind], privacy)
    largest = 0.0
    for one, other in neighbours(privacy):
        here, there = tally_of(answer, one), tally_of(answer, other)
        divergence = 0.0
        for group in range(2):
            for mine, theirs in zip(choices(answer, here[group][:3]), choices(answer, there[group][:3]), strict=True):
                divergence += sum(math.exp(mine[i][0]) * (mine[i][0] - theirs[i][0]) for i in mine)
        largest = max(largest, divergence)
    assert 0 < largest <= answer.rho
