"""Logarithms as whole steps: which step a number gets, beside mpmath, and what neighbours can do to sums of steps, in integers."""

from __future__ import annotations

import math
import pickle
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from dpcore.query.encoders import Clamped
from dpcore.query.kinds.geometric_mean import GeometricMean, GeometricMeanQuery, Logarithms, exponentials, log_steps
from dpcore.query.sensitivity import Contribution
from support.parts import exact_sums
from support.totals import total_of

mpmath = pytest.importorskip("mpmath")
cloudpickle = pytest.importorskip("pyspark.cloudpickle")

EPSILON = 0.75
BOUNDS = [
    (1.0, 2.0), (0.5, 3.0), (1e-3, 1e6), (2.0**-1022, 1.7e308), (1e300, 1e300 * (1 + 2.0**-19)), (1 - 2.0**-20, 1.0), (1.0, 1 + 2.0**-19),
]  # fmt: skip
UNITS = [
    (Contribution(1, replaced=True, n_is_public=True), 0),
    (Contribution(1, replaced=True, n_is_public=False), 0),
    (Contribution(3, replaced=True, n_is_public=False), 0),
    (Contribution(1, replaced=False, n_is_public=False), 0),
    (Contribution(3, replaced=False, n_is_public=False), 2),
    (Contribution(2, replaced=True, n_is_public=False), 2),
]
"""What a unit owns, and groups; 0 of the whole table."""


def exact_log(number):
    with mpmath.workprec(300):
        return mpmath.log(mpmath.mpf(number))


def nearest_step(number, unit):
    with mpmath.workprec(300):
        return int(mpmath.floor(exact_log(number) / unit + mpmath.mpf(0.5)))


def logarithms(lower, upper):
    return Logarithms(Clamped((lower, upper), lower, are_floats=True), log_steps(lower, upper))


def steps_of(logs, numbers):
    """The steps that numbers are read as, as integers."""
    read = logs.read(pa.array(numbers)) / logs.steps.unit
    steps = read.astype(np.int64)
    assert (steps == read).all()
    return steps


@pytest.mark.parametrize("bounds", BOUNDS, ids=str)
def test_each_number_has_the_nearest_step(bounds):
    rng = np.random.default_rng(7)
    lower, upper = bounds
    logs = logarithms(lower, upper)
    points, unit = logs.steps.points, logs.steps.unit
    assert 2**15 <= (math.log(upper) - math.log(lower)) / unit <= 2**16 + 1 or upper / lower - 1 < 2.0**-15
    chosen = rng.choice(points, 60)
    numbers = [*chosen, *(math.nextafter(point, 0) for point in chosen), *np.exp(rng.uniform(math.log(lower), math.log(upper), 60))]
    numbers = np.clip([*numbers, lower, upper], lower, upper)
    expected = [nearest_step(number, unit) for number in numbers]
    assert steps_of(logs, numbers).tolist() == expected
    below, above = expected[-2:]
    assert logs.steps.ends == (below * unit, above * unit)
    assert len(points) == above - below
    for pickled in (pickle.dumps(logs), cloudpickle.dumps(logs)):
        assert len(pickled) < 1000  # what is computed from the bounds is not sent
        assert steps_of(pickle.loads(pickled), numbers).tolist() == expected
    beyond = [-math.inf, -1.0, 0.0, math.nextafter(lower, 0), *([math.nextafter(upper, math.inf)] if upper < 1e308 else []), math.inf]
    assert set(steps_of(logs, beyond).tolist()) == {below, above}


def test_points_by_floats_would_not_do():
    """The broken twin: an exponential of floats is beside the point in some places, where numbers then get another step."""
    steps = log_steps(0.5, 3.0)
    places = np.arange(0, len(steps.points), 97)
    by_floats = np.exp((steps.first + places + 0.5) * steps.unit)
    exact = steps.points[places]
    assert (np.abs(by_floats / exact - 1) < 1e-15).all()
    assert (by_floats != exact).any()
    with mpmath.workprec(200):
        for place, point in zip(places.tolist(), exact.tolist(), strict=True):
            true = mpmath.exp((steps.first + place + mpmath.mpf(0.5)) * steps.unit)
            assert math.nextafter(point, 0) < true < point


def test_points_increase():
    for bounds in BOUNDS:
        points = np.array([bounds[0], *log_steps(*bounds).points])
        assert (np.diff(points) > 0).all()
        assert points[-1] <= bounds[1]


def test_exponentials_are_right_to_two_bits():
    logs = np.concatenate([np.random.default_rng(3).uniform(-708, 709, 3000), [0.0, -0.0, 1.0, -1.0, 2.0**-40, 709.7]])
    with mpmath.workprec(120):
        for log, number in zip(logs.tolist(), exponentials(logs).tolist(), strict=True):
            assert abs(number / mpmath.exp(mpmath.mpf(log)) - 1) < 2.0**-51
    assert exponentials(np.zeros(1))[0] == 1.0


def answer_of(bounds, bound, groups):
    query = GeometricMeanQuery(name="g", kind="geometric_mean", column="x", lower=bounds[0], upper=bounds[1], epsilon=EPSILON)
    kind = GeometricMean()
    return kind.calibrate(query, kind.columns(0, query), bound, "replace" if bound.replaced else "add_remove", groups)


def tables_at_random(rng, bound, groups, ends):
    """Neighbours: (number, group) of each row."""

    def rows(n):
        wild = [0.0, -5.0, *ends, math.sqrt(ends[0]) * math.sqrt(ends[1]), math.inf, 5e-324]
        numbers = np.where(rng.random(n) < 0.6, rng.choice(wild, n), np.exp(rng.uniform(math.log(ends[0]) - 1, math.log(ends[1]) + 1, n)))
        return list(zip(numbers.tolist(), rng.integers(0, max(groups, 1) + 1, n).tolist(), strict=True))

    others = rows(rng.integers(0, 5))
    own = rows(1 if bound.n_is_public else rng.integers(0 if bound.replaced else 1, bound.rows + 1))
    new = rows(len(own) if bound.n_is_public else rng.integers(0, bound.rows + 1)) if bound.replaced else []
    return [*others, *own], [*others, *new]


def loss(answer, bound, logs, tables, groups):
    """What the sums and the counts of both tables lose together."""
    totals = []
    for table in tables:
        numbers, codes = [number for number, _ in table], [code for _, code in table]
        cells = logs.read(pa.array(numbers, pa.float64()))
        totals.append(total_of(answer.measure, [cells], [min(code, groups) for code in codes] if groups else None, rows=len(table)))
    sums = sum(abs(one - other) for one, other in zip(*map(exact_sums, totals), strict=True))
    if bound.n_is_public and not groups:
        return sums / Fraction(answer.mean.mechanism.scale), sums
    counts = sum(abs(int(one) - int(other)) for one, other in zip(*(total.counts for total in totals), strict=True))
    return sums / Fraction(answer.mean.total.scale) + counts / Fraction(answer.mean.count.scale), sums


@pytest.mark.long
@pytest.mark.parametrize("times", [300, pytest.param(10**5, marks=pytest.mark.long)])
def test_no_random_neighbours_lose_more(times):
    rng = np.random.default_rng(52)
    ends = [(math.nextafter(math.exp(a), math.inf), math.exp(a + w)) for a in (-3.0, 0.0, 5.0) for w in (0.01, 1.0, 9.0)]
    made = {
        (bounds, place): (answer_of(bounds, bound, groups), logarithms(*bounds))
        for bounds in ends
        for place, (bound, groups) in enumerate(UNITS)
    }
    worst = dict.fromkeys(range(len(UNITS)), Fraction(0))
    for _ in range(times):
        bounds, place = ends[rng.integers(len(ends))], int(rng.integers(len(UNITS)))
        bound, groups = UNITS[place]
        answer, logs = made[bounds, place]
        if groups:
            answer = replace(answer, grouping=SimpleNamespace(size=groups))
        tables = tables_at_random(rng, bound, groups, bounds)
        found, sums = loss(answer, bound, logs, tables, groups)
        assert found <= Fraction(EPSILON) * (1 + Fraction(1, 2**40))
        if bound.n_is_public:  # in whole steps the difference is at most that of the ends, and no more is paid for
            first, last = answer.steps.ends
            assert sums / Fraction(answer.steps.unit) == int(sums / Fraction(answer.steps.unit))
            assert sums <= Fraction(last) - Fraction(first) == Fraction(answer.mean.mechanism.sensitivity)
        worst[place] = max(worst[place], found)
    # The broken twin has half the noise.
    assert all(2 * each > Fraction(EPSILON) for each in worst.values())
