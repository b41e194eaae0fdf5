"""Reports follow their channel: χ² of 10^7 reports a mechanism, and a broken twin that the same test rejects.

Error rate: a right mechanism fails one test with probability 10^-6; the draws are keyed, so a run repeats its result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpcore import local
from dpcore.testing import KeyedRandom
from support.kernels import KEY, Array
from support.laws import ERROR_RATE, binomial_p_value, p_value

N = 10**7


@dataclass(frozen=True)
class Case:
    """A mechanism, how its reports are numbered as columns of its channel, and a twin whose channel is slightly another."""

    mechanism: Any
    twin: Any
    columns: Callable[[Any, Array], Array]

    def __str__(self) -> str:
        return repr(self.mechanism)


def as_codes(_mechanism: Any, reports: Array) -> Array:
    return reports.astype(np.int64)


def as_subsets(mechanism: Any, reports: Array) -> Array:
    numbers = np.full(256, -1)
    for column, members in enumerate(combinations(range(mechanism.k), mechanism.w)):
        numbers[sum(1 << m for m in members)] = column
    return numbers[reports[:, 0]]


def as_first_byte(_mechanism: Any, reports: Array) -> Array:
    return reports[:, 0].astype(np.int64)


def as_signs(_mechanism: Any, reports: Array) -> Array:
    return 2 * reports["row"].astype(np.int64) + reports["bit"]


def cases(kind: Callable[..., Any], columns: Callable[[Any, Array], Array], *parameters: Any, **sizes: Any) -> list[Case]:
    """The mechanism at two privacy losses; the twin's is a tenth more."""
    return [Case(kind(e, *parameters, **sizes), kind(1.1 * e, *parameters, **sizes), columns) for e in (0.5, 3.0)]


def staircase(epsilon: float) -> local.FiniteChannel:
    """Six inputs, nine outcomes; each input has a third of them e^ε times as often as the others."""
    likely = np.arange(54).reshape(6, 9) * 5 % 9 < 3
    rows = np.where(likely, 1.0, np.exp(-epsilon))
    return local.FiniteChannel.at_level(rows / rows.sum(axis=1, keepdims=True), epsilon)


CASES = [
    *cases(local.BinaryResponse, as_codes),
    *cases(local.BinaryChannel, as_codes, (0.5, -2.0, 1.0, 2.0)),
    *cases(staircase, as_codes),
    *cases(local.KaryResponse, as_codes, k=2),
    *cases(local.KaryResponse, as_codes, k=5),
    *cases(local.KaryResponse, as_codes, k=16),
    *cases(local.UnaryEncoding, as_first_byte, k=5),
    *cases(local.UnaryEncoding, as_first_byte, k=5, method="symmetric"),
    *cases(local.SubsetSelection, as_subsets, k=7),
    *cases(local.HadamardResponse, as_signs, k=6),
]


def histogram(case: Case) -> Array:
    """How often each input gave each output; inputs take turns."""
    channel = case.mechanism.channel()
    inputs, outputs = channel.shape
    x = np.arange(N) % inputs
    rng = KeyedRandom(KEY)
    reports = case.mechanism.privatize(x.astype(bool) if isinstance(case.mechanism, local.BinaryResponse) else x, rng=rng)
    columns = case.columns(case.mechanism, reports)
    assert columns.min() >= 0
    return np.bincount(x * outputs + columns, minlength=inputs * outputs).reshape(inputs, outputs)


def least_p_value(counts: Array, channel: Array) -> float:
    """The least over the inputs, times their number."""
    return len(channel) * min(p_value(row, law) for row, law in zip(counts, channel, strict=True))


@pytest.mark.long
@pytest.mark.parametrize("case", CASES, ids=str)
def test_reports_follow_the_channel(case):
    counts = histogram(case)
    assert least_p_value(counts, case.mechanism.channel()) > ERROR_RATE
    if case.twin.channel().shape == counts.shape:
        assert least_p_value(counts, case.twin.channel()) < ERROR_RATE


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
def test_a_bounded_mean_follows_its_probability(epsilon):
    mechanism, points = local.BoundedMean(epsilon, -1.0, 3.0), np.array([-5.0, -1.0, -0.3, 1.0, 2.999, 3.0, np.inf])
    reports = mechanism.privatize(np.tile(points, N // len(points)), rng=KeyedRandom(KEY)).reshape(-1, len(points))
    for hits, p in zip(reports.sum(axis=0), mechanism.channel(points)[:, 1], strict=True):
        assert binomial_p_value(int(hits), len(reports), p) > ERROR_RATE
        # a twin whose probability is half a percent of the range off
        assert binomial_p_value(int(hits), len(reports), p + 0.005 if p < 0.5 else p - 0.005) < ERROR_RATE


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_hashing_supports_as_often_as_it_says(epsilon):
    mechanism = local.LocalHashing(epsilon, k=50)
    reports = mechanism.privatize(np.full(N // 2, 7), rng=KeyedRandom(KEY))
    counts, (p, q, _) = mechanism.aggregate(reports).counts, mechanism.support
    for v, count in enumerate(counts.tolist()):
        assert binomial_p_value(count, N // 2, p if v == 7 else q) > ERROR_RATE
        assert binomial_p_value(count, N // 2, 1.01 * q) < ERROR_RATE
    a, b = (reports["seed"] & (2**31 - 1)).astype(np.int64), (reports["seed"] >> np.uint64(31)).astype(np.int64)
    for value, top in ((a, 2**31 - 1), (b, 2**31 - 1)):
        spread = np.bincount(value * 64 // top, minlength=64)
        assert p_value(spread, np.full(64, 1 / 64)) > ERROR_RATE


def test_lanes_are_independent():
    """Neighbours, and lanes a word, a group or a plane apart: the joint law of two flips is the product."""
    mechanism = local.BinaryResponse(1.0)
    flips = mechanism.privatize(np.zeros(N, bool), rng=KeyedRandom(KEY)).astype(np.int64)
    q = mechanism.support.q
    joint = np.array([(1 - q) ** 2, q * (1 - q), q * (1 - q), q * q])
    for distance in (1, 8, 63, 64, 128, 1023, 1024, 8192):
        blocks = flips[: N // (2 * distance) * 2 * distance].reshape(-1, 2, distance)
        counts = np.bincount((2 * blocks[:, 0] + blocks[:, 1]).ravel(), minlength=4)
        assert stats.chisquare(counts, joint * counts.sum()).pvalue > ERROR_RATE
    # a twin that gives every fourth lane the flip of its neighbour
    copied = np.bincount(2 * flips[::2] + np.where(np.arange(N // 2) % 4, flips[1::2], flips[::2]), minlength=4)
    assert stats.chisquare(copied, joint * copied.sum()).pvalue < ERROR_RATE


def test_bits_of_a_unary_report_are_independent():
    mechanism = local.UnaryEncoding(1.0, k=8)
    reports = mechanism.privatize(np.zeros(N // 4, np.int64), rng=KeyedRandom(KEY))[:, 0]
    counts = np.bincount(reports, minlength=256)
    assert p_value(counts, mechanism.channel()[0]) > ERROR_RATE
    assert p_value(counts, mechanism.channel()[1]) < ERROR_RATE
