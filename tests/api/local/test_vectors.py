"""Vectors of numbers: the law by enumeration, its privacy, its constants, intervals by exact sums, and arguments that are refused."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from dpcore import DataError, ParameterError, ParameterTypeError, _backend
from dpcore._exact.probability import logistic_complement
from dpcore.local import Aggregate, BoundedMean, VectorMean
from dpcore.local._hypercube import hypercube, law_of_signs
from dpcore.testing import KeyedRandom
from support.channels import MP, exact_exp, log_ratio, nearest
from support.kernels import KEY, Array
from support.laws import ERROR_RATE, p_value

SIGNS = (-1, 1)
Law = dict[tuple[int, ...], Any]


def cube(d: int) -> list[tuple[int, ...]]:
    """All vectors of signs; number i has sign j by bit j."""
    return [tuple(SIGNS[i >> j & 1] for j in range(d)) for i in range(2**d)]


def weights(corner: tuple[int, ...], least: int, e: Any) -> Law:
    """The law of the reports of a corner, by listing all of them."""
    raw = {z: e if sum(a == b for a, b in zip(z, corner, strict=True)) >= least else e**0 for z in cube(len(corner))}
    total = sum(raw.values())
    return {z: w / total for z, w in raw.items()}


def printed(corner: tuple[int, ...], e: Any) -> Law:
    """The source's law: a half is drawn, with probability e/(1 + e) the one that holds the corner; ties belong to both."""
    inner = {z: sum(a * b for a, b in zip(z, corner, strict=True)) for z in cube(len(corner))}
    near, far = [z for z in inner if inner[z] >= 0], [z for z in inner if inner[z] <= 0]
    return {z: (z in near) * e / (1 + e) / len(near) + (z in far) / (1 + e) / len(far) for z in inner}


def worst_ratio(laws: list[Law]) -> Any:
    return max(p[z] / q[z] for p, q in product(laws, repeat=2) for z in p)


def mean_sign(law: Law, corner: tuple[int, ...], j: int) -> Any:
    return sum(p * z[j] for z, p in law.items()) * corner[j]


# The law


@pytest.mark.parametrize("d", [1, 2, 3, 4])
@pytest.mark.parametrize("epsilon", [2.0**-20, 0.5, 2.5, 700.0])
def test_the_channel_of_a_hypercube_is_the_enumerated_law(d: int, epsilon: float) -> None:
    mechanism = VectorMean(epsilon, 1.0, 5.0, d=d, method="hypercube")
    e, corners = exact_exp(epsilon), cube(d)
    expected = [[nearest(p) for p in weights(v, mechanism.agreements, e).values()] for v in corners]
    assert mechanism.channel().tolist() == expected
    point = [1.5, 4.75, -9.0, 3.0][:d]
    chances = [min(max((x - 1) / 4, 0.0), 1.0) for x in point]  # exact: powers of two
    mixed = [MP.mpf(0)] * 2**d
    for v in corners:
        own = math.prod(Fraction(t) if s > 0 else 1 - Fraction(t) for s, t in zip(v, chances, strict=True))
        mixed = [
            m + MP.mpf(own.numerator) / own.denominator * p
            for m, p in zip(mixed, weights(v, mechanism.agreements, e).values(), strict=True)
        ]
    assert mechanism.channel([point]).tolist() == [[nearest(p) for p in mixed]]


@pytest.mark.parametrize("epsilon", [2.0**-20, 0.5, 2.5, 700.0])
def test_the_channel_of_a_sample_is_one_bit_about_each_coordinate(epsilon: float) -> None:
    lower, upper, points = [0.0, -1.0, 2.0], [1.0, 1.0, 10.0], [[0.25, 0.5, 8.0], [-5.0, 1.0, math.inf]]
    found = VectorMean(epsilon, lower, upper, d=3).channel(points)
    single = np.stack([BoundedMean(epsilon, lower[j], upper[j]).channel([row[j] for row in points]) for j in range(3)], axis=1)
    assert np.allclose(found.reshape(2, 3, 2) * 3, single, rtol=1e-15, atol=0)
    assert np.allclose(found.sum(axis=1), 1.0, atol=1e-15)


@pytest.mark.some(9)
@pytest.mark.parametrize("d", [1, 2, 3, 5])
@pytest.mark.parametrize("method", ["sample", "hypercube"])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 4.0, 50.0])
def test_no_report_tells_more_than_epsilon(d: int, method: Any, epsilon: float) -> None:
    assert abs(log_ratio(VectorMean(epsilon, -1.0, 1.0, d=d, method=method).channel()) - epsilon) <= 1e-12


@pytest.mark.parametrize("e", [Fraction(3, 2), Fraction(3), Fraction(20)])
def test_ties_in_both_halves_are_not_private(e: Fraction) -> None:
    """The source's law of even d exceeds ε; that of odd d is ours; ours keeps ε exactly, for any threshold."""
    assert worst_ratio([printed(v, e) for v in cube(2)]) == e + 1
    assert worst_ratio([printed(v, e) for v in cube(4)]) == e + 1
    for v in cube(3):
        assert printed(v, e) == weights(v, 2, e)
    for d in (1, 2, 3, 4):
        for least in range(1, d + 1):
            assert worst_ratio([weights(v, least, e) for v in cube(d)]) == e


@pytest.mark.some(9)
@pytest.mark.parametrize("d", [1, 2, 3, 4, 5, 6, 7])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0, 8.0])
def test_the_constant_makes_signs_unbiased_and_is_the_least(d: int, epsilon: float) -> None:
    law, q = hypercube(epsilon, d), Fraction(logistic_complement(epsilon).floor(1280), 2**1280)
    e, corner = (1 - q) / q, cube(d)[-1]
    gains = {least: mean_sign(weights(corner, least, e), corner, d - 1) for least in range(1, d + 1)}
    assert law.gain == gains[law.agreements] == max(gains.values())
    chances = list(weights(corner, law.agreements, e).values())
    assert law.likely == chances.count(max(chances))
    if d % 2 == 0:  # constants of ties given to both halves, or to one, would be biased
        both = mean_sign(printed(corner, e), corner, 0)
        assert law.gain not in {both, mean_sign(weights(corner, d // 2, e), corner, 0)}
    mechanism = VectorMean(epsilon, -1.0, 1.0, d=d, method="hypercube")
    assert mechanism.z0 == float(1 / law.gain)
    assert mechanism.variance() == pytest.approx(float(1 / law.gain**2), rel=1e-15)


def test_the_law_of_distances_is_counted() -> None:
    for d, epsilon in ((1, 1.0), (2, 0.5), (5, 1.0), (6, 3.0)):
        law = law_of_signs(epsilon, d)
        distances = [sum(a != b for a, b in zip(z, cube(d)[0], strict=True)) for z in cube(d)]
        near, far = [s for s in distances if s <= law.w], [s for s in distances if s > law.w]
        expected = [Fraction(sum(s <= cut for s in near), len(near)) for cut in range(law.w)]
        expected += [Fraction(sum(s <= cut for s in far), len(far)) for cut in range(law.w + 1, d)]
        assert [p.constant for p in law.table] == expected
        e = exact_exp(epsilon)
        assert float(law.likely) == nearest(e * len(near) / (e * len(near) + len(far)))


@pytest.mark.parametrize(("d", "epsilon"), [(3, 1.0), (4, 1.0), (4, 3.5)])
def test_reports_follow_the_channel(d: int, epsilon: float) -> None:
    point = np.array([0.3, -0.7, 1.0, -1.0])[:d]
    mechanism, n = VectorMean(epsilon, -1.0, 1.0, d=d, method="hypercube"), 200_000
    counts = np.bincount(mechanism.privatize(np.tile(point, (n, 1)), rng=KeyedRandom(KEY))[:, 0], minlength=2**d)
    assert p_value(counts, mechanism.channel(point)[0]) > ERROR_RATE
    e, twins = math.exp(epsilon), []
    for law in (
        lambda v: printed(v, e),
        lambda v: weights(v, mechanism.agreements - 1, e),
        lambda v: weights(v, mechanism.agreements, 1.1 * e),
    ):
        chance = lambda v: math.prod((1 + s * x) / 2 for s, x in zip(v, point, strict=True))  # noqa: E731
        twins.append(np.array([sum(chance(v) * law(v)[z] for v in cube(d)) for z in cube(d)]))
    if mechanism.agreements == (d + 1) // 2:
        twins = twins[1:]  # for odd d the printed law is this one
    for twin in twins:
        assert p_value(counts, twin) < ERROR_RATE
    sample = VectorMean(epsilon, -1.0, 1.0, d=d)
    reports = sample.privatize(np.tile(point, (n, 1)), rng=KeyedRandom(KEY))
    pairs = np.bincount(2 * reports["index"].astype(int) + reports["bit"], minlength=2 * d)
    assert p_value(pairs, sample.channel(point)[0]) > ERROR_RATE
    assert p_value(pairs, VectorMean(1.1 * epsilon, -1.0, 1.0, d=d).channel(point)[0]) < ERROR_RATE


# What the documentation says of variances


def test_variances_beside_each_other() -> None:
    def ratio(d: int, epsilon: float) -> float:
        made = [VectorMean(epsilon, 0.0, 1.0, d=d, method=method).variance() for method in ("hypercube", "sample")]  # type: ignore[arg-type]
        return float(made[0] / made[1])

    assert ratio(3, 0.01) == pytest.approx(4 / 3)
    assert ratio(2, 1e-5) == pytest.approx(2, rel=1e-4)
    assert ratio(1001, 0.01) == pytest.approx(math.pi / 2, rel=2e-3)
    assert ratio(1000, 0.01) == pytest.approx(math.pi / 2, rel=2e-3)
    assert all(4 / 3 - 1e-9 <= ratio(d, 0.01) < 2 for d in range(3, 40))
    # as long as the majority is best, the ratio does not depend on ε for odd d
    assert [ratio(3, epsilon) for epsilon in (0.1, 0.5, 1.0, 1.5)] == pytest.approx([4 / 3] * 4)
    assert ratio(2, 1.3) > 1 > ratio(2, 1.4)
    assert all(ratio(d, 1.5) > 1 > ratio(d, 2.0) for d in (3, 4, 5, 8, 16, 64, 65, 200))
    assert all(abs(ratio(d, 4.0) - 0.4) < 0.08 for d in (3, 4, 5, 8, 16, 64, 65, 200))
    assert all(abs(ratio(d, 8.0) - 0.135) < 0.01 for d in (16, 64, 65, 200))
    for d in (2, 10, 100):
        split = BoundedMean(0.01 / d, 0.0, 1.0).variance() / VectorMean(0.01, 0.0, 1.0, d=d).variance()
        assert split == pytest.approx(d, rel=1e-4)


@pytest.mark.parametrize("method", ["sample", "hypercube"])
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_the_variance_is_that_of_the_channel(method: Any, epsilon: float) -> None:
    mechanism, point = VectorMean(epsilon, [0.0, -2.0, 5.0], [1.0, 2.0, 6.0], d=3, method=method), np.array([0.5, 1.5, 5.125])
    row, middle, half = mechanism.channel(point)[0], np.array([0.5, 0.0, 5.5]), np.array([0.5, 2.0, 0.5])
    for j in range(3):
        if method == "hypercube":
            signs = np.array([z[j] for z in cube(3)])
            values = middle[j] + half[j] * mechanism.z0 * signs
            mean = row @ values
            spread = row @ values**2 - mean**2
        else:  # given that j is asked; a third of the records are
            plus = row[2 * j + 1] * 3
            mean = middle[j] + half[j] * mechanism.z0 * (2 * plus - 1)
            spread = 3 * (2 * half[j] * mechanism.z0) ** 2 * plus * (1 - plus)
        assert mean == pytest.approx(point[j], rel=1e-12)
        assert mechanism.variance(point)[j] == pytest.approx(spread, rel=1e-9)
    assert mechanism.variance().tolist() == mechanism.variance(middle).tolist()


def test_a_vector_of_one_number_is_a_bounded_mean() -> None:
    one = BoundedMean(1.3, -1.0, 4.0)
    for method in ("sample", "hypercube"):
        vectors = VectorMean(1.3, -1.0, 4.0, d=1, method=method)  # type: ignore[arg-type]
        assert vectors.z0 == pytest.approx(one.z0, rel=1e-15)
        assert np.allclose(vectors.channel([[0.3]]), one.channel([0.3]), rtol=1e-15)
        assert vectors.variance(0.3) == pytest.approx(one.variance(0.3), rel=1e-14)


# Intervals, by exact sums


def counts_law(chances: list[float], asked: float) -> Array:
    """P(n records are asked, of which k say True), records one after the other."""
    law = np.zeros((len(chances) + 1, len(chances) + 1))
    law[0, 0] = 1.0
    for p in chances:
        moved = law * (1 - asked)
        moved[1:, 1:] += law[:-1, :-1] * asked * p
        moved[1:, :] += law[:-1, :] * asked * (1 - p)
        law = moved
    return law


def coverage(mechanism: VectorMean, records: list[float], truth: float, confidence: float) -> float:
    """The probability that the interval of coordinate 0, whose records these are, holds the truth."""
    z0 = mechanism.z0
    chances = [(1 + (2 * x - 1) / z0) / 2 for x in records]
    law = counts_law(chances, 1 / mechanism.d if mechanism.method == "sample" else 1.0)
    total = 0.0
    for n, k in np.argwhere(law > 1e-12):
        counts = np.zeros((2, mechanism.d), np.int64)
        counts[:, 0] = n - k, k
        counts[0, 1] = len(records) - n
        shown = Aggregate(mechanism, len(records), counts if mechanism.method == "sample" else counts[1])
        low, high = mechanism.estimate(shown).interval(confidence)[0]
        total += law[n, k] * (low <= truth <= high)
    return total


@pytest.mark.some(3)
@pytest.mark.parametrize("method", ["sample", "hypercube"])
@pytest.mark.parametrize("epsilon", [0.3, 2.0, 20.0])
@pytest.mark.parametrize("records", [[0.5], [1.0] * 12, [0.0] * 3 + [1.0] * 9, [0.1, 0.9, 0.4, 1.0, 0.0, 0.7, 0.7, 0.2]], ids=len)
def test_intervals_cover(method: Any, epsilon: float, records: list[float]) -> None:
    """For records that differ, whose mean is the truth, and so for a population of which every record is the same."""
    mechanism = VectorMean(epsilon, 0.0, 1.0, d=2, method=method)
    for confidence in (0.5, 0.95, 0.999):
        found = coverage(mechanism, records, float(np.mean(records)), confidence)
        assert found >= confidence
    assert coverage(mechanism, records, float(np.mean(records)), 1e-9) < 0.95 or epsilon == 20.0 or len(records) == 1


@pytest.mark.parametrize("method", ["sample", "hypercube"])
def test_few_signs_that_agree_are_not_certain(method: Any) -> None:
    mechanism = VectorMean(3.0, 0.0, 2.0, d=3, method=method)
    counts = np.array([[0, 3, 5], [5, 2, 0]])
    found = mechanism.estimate(Aggregate(mechanism, 15 if method == "sample" else 5, counts if method == "sample" else counts[1]))
    least = mechanism.variance([0.0, 0.0, 0.0])  # of a coordinate that is certain
    asked = 15 if method == "sample" else 5
    assert found.stderr[[0, 2]] == pytest.approx(np.sqrt(least[[0, 2]] / asked), rel=1e-12)
    assert found.stderr[1] > found.stderr[0]


def test_a_coordinate_that_nobody_was_asked_about_can_be_anywhere() -> None:
    mechanism = VectorMean(1.0, 0.0, 2.0, d=3)
    found = mechanism.estimate(Aggregate(mechanism, 5, np.array([[2, 0, 1], [1, 0, 1]])))
    assert found.value[1] == 1.0
    assert found.stderr[1] == math.inf
    assert found.interval()[1].tolist() == [1 - mechanism.z0, 1 + mechanism.z0]
    assert np.isfinite(found.stderr[[0, 2]]).all()


@pytest.mark.parametrize("method", ["sample", "hypercube"])
def test_estimates_find_the_means(method: Any) -> None:
    lower, upper, d = [0.0, -10.0, 1e6], [1.0, 10.0, 2e6], 3
    plain = np.random.default_rng(4)
    records = plain.uniform(lower, upper, (100_000, d))
    mechanism = VectorMean(2.0, lower, upper, d=d, method=method)
    found = mechanism.estimate(mechanism.privatize(records, rng=KeyedRandom(KEY)))
    assert (np.abs(found.value - records.mean(axis=0)) < 5 * found.stderr).all()
    assert np.allclose(found.stderr, np.sqrt(mechanism.variance(records.mean(axis=0)) / 1e5), rtol=0.05)
    assert found.interval().shape == (d, 2)
    assert ((found.interval()[:, 0] < found.value) & (found.value < found.interval()[:, 1])).all()
    assert found.privacy == mechanism.privacy
    assert "3" in found._repr_html_()


# Reports


@pytest.mark.parametrize("method", ["sample", "hypercube"])
def test_aggregates_of_parts_add_up(method: Any) -> None:
    mechanism = VectorMean(1.0, 0.0, 1.0, d=11, method=method)
    reports = mechanism.privatize(np.random.default_rng(1).random((999, 11)), rng=KeyedRandom(KEY))
    whole = mechanism.aggregate(reports)
    assert whole == mechanism.aggregate(reports[:100]) + mechanism.aggregate(reports[100:], threads=2)
    assert whole.n == 999
    if method == "sample":
        expected = np.array([[((reports["index"] == j) & (reports["bit"] == bit)).sum() for j in range(11)] for bit in (False, True)])
        assert mechanism.aggregate(reports.reshape(9, 111)) == whole
    else:
        expected = np.unpackbits(reports, axis=1, bitorder="little")[:, :11].sum(axis=0)
        assert mechanism.aggregate(reports.reshape(9, 111, 2)) == whole
        assert not (reports[:, 1] >> 3).any()
    assert whole.counts.tolist() == expected.tolist()
    with pytest.raises(ParameterError, match="different mechanisms"):
        whole + VectorMean(1.0, 0.0, 2.0, d=11, method=method).aggregate(reports)
    with pytest.raises(ParameterError, match="at least one"):
        mechanism.estimate(reports[:0])


def test_reports_that_cannot_be_are_refused() -> None:
    sample, cube_ = VectorMean(1.0, 0.0, 1.0, d=3), VectorMean(1.0, 0.0, 1.0, d=3, method="hypercube")
    reports = sample.privatize(np.zeros((5, 3)))
    reports["index"][3] = 3
    with pytest.raises(DataError, match="index 3"):
        sample.aggregate(reports)
    with pytest.raises(DataError, match="row 1"):
        cube_.aggregate(np.array([[1], [8]], np.uint8))
    for wrong in (np.zeros((4, 2), np.uint8), np.zeros(4), [[1]], reports, np.zeros((2, 3, 0), np.uint8), np.zeros((2, 3, 2), np.uint8)):
        with pytest.raises((ParameterError, ParameterTypeError), match="reports must"):
            cube_.aggregate(wrong)
    with pytest.raises(ParameterError, match="for d = 3"):
        cube_.aggregate(np.zeros((4, 2), np.uint8))
    with pytest.raises(ParameterTypeError):
        sample.aggregate(np.zeros(4, _backend.HADAMARD_REPORT)["row"])


# Arguments


@pytest.mark.parametrize(
    ("change", "error"),
    [
        *(({"epsilon": value}, ParameterError) for value in (0.0, -1.0, math.nan, math.inf, 1e-7, 701.0)),
        ({"epsilon": "1"}, ParameterTypeError),
        *(({"d": value}, ParameterError) for value in (0, -1, 2**16 + 1)),
        *(({"d": value}, ParameterTypeError) for value in (2.0, True, None)),
        ({"d": 4097, "method": "hypercube"}, ParameterError),
        ({"method": "signs"}, ParameterError),
        ({"method": None}, ParameterTypeError),
        ({"lower": 1.0}, ParameterError),
        ({"lower": math.nan}, ParameterError),
        ({"upper": math.inf}, ParameterError),
        ({"upper": [1.0, 2.0]}, ParameterError),
        ({"upper": [[1.0, 2.0, 3.0]]}, ParameterError),
        ({"upper": [[1.0], [1.0, 2.0], 3.0]}, ParameterTypeError),
        ({"upper": np.ones((3, 1))}, ParameterError),
        ({"upper": np.array(1.0)}, ParameterTypeError),
        ({"upper": [1.0, 0.0, 1.0]}, ParameterError),
        ({"upper": [1.0, math.nan, 1.0]}, ParameterError),
        ({"upper": "high"}, ParameterTypeError),
        ({"upper": None}, ParameterTypeError),
        ({"missing": 2.0}, ParameterError),
        ({"missing": [0.5, 0.5, 1.5]}, ParameterError),
        ({"missing": math.nan}, ParameterError),
        ({"upper": 1e308, "lower": -1e308}, ParameterError),
        ({"upper": [1.0, 1.0, 1e300], "epsilon": 2.0**-20, "d": 3, "lower": [0.0, 0.0, -(2.0**1020)]}, ParameterError),
    ],
)  # fmt: skip
def test_bad_parameters(change: dict[str, Any], error: type[Exception]) -> None:
    arguments = {"epsilon": 1.0, "lower": 0.0, "upper": 1.0, "d": 3} | change
    with pytest.raises(error) as caught:
        VectorMean(arguments.pop("epsilon"), arguments.pop("lower"), arguments.pop("upper"), **arguments)
    assert any(name in str(caught.value) for name in [*change, "bounds"])


@pytest.mark.parametrize("method", ["sample", "hypercube"])
def test_bad_records(method: Any) -> None:
    mechanism = VectorMean(1.0, 0.0, 1.0, d=3, method=method)
    for wrong in (1.0, [1.0, 2.0], np.zeros((3, 4)), np.zeros((3, 0))):
        with pytest.raises(ParameterError, match=r"shape \(..., d\) with d = 3"):
            mechanism.privatize(wrong)
    for wrong in (["a", "b", "c"], np.ma.masked_array([0.0, 1.0, 2.0]), [None, 1.0, 2.0], np.zeros(3, complex), np.zeros(3, bool)):
        with pytest.raises((ParameterTypeError, DataError)):
            mechanism.privatize(wrong)
    with pytest.raises(DataError, match=r"index \(1, 2\) is NaN"):
        mechanism.privatize([[0.0, 1.0, 2.0], [0.123, 0.0, math.nan]])
    for out in (np.zeros(2), np.zeros((5, 1), np.uint8), np.zeros(4, _backend.VECTOR_REPORT)[::2]):
        with pytest.raises((ParameterError, ParameterTypeError), match="out"):
            mechanism.privatize(np.zeros((2, 3)), out=out)
    with pytest.raises(ParameterTypeError):
        mechanism.privatize(np.zeros((2, 3)), rng=np.random.default_rng())  # type: ignore[arg-type]
    for wrong, words in (
        (2.0, r"in \[0.0, 1.0\], got 2.0 for coordinate 0"),
        ([0.1, 0.2, math.nan], "got nan for coordinate 2"),
        ([0.5, 0.5], r"d = 3 of them, got shape \(2,\)"),
    ):
        with pytest.raises(ParameterError, match=f"mean must be.*{words}"):
            mechanism.variance(wrong)


def test_channels_that_are_too_large_are_refused() -> None:
    for d in (13, 64):
        with pytest.raises(ParameterError, match="too many"):
            VectorMean(1.0, 0.0, 1.0, d=d, method="hypercube").channel(np.zeros((1, d)))
        with pytest.raises(ParameterError, match="too many"):
            VectorMean(1.0, 0.0, 1.0, d=d).channel()
    assert VectorMean(1.0, 0.0, 1.0, d=100).channel(np.zeros((1, 100))).shape == (1, 200)
    with pytest.raises(DataError, match="NaN"):
        VectorMean(1.0, 0.0, 1.0, d=2).channel([[0.0, math.nan]])
    with pytest.raises(ParameterError, match="points"):
        VectorMean(1.0, 0.0, 1.0, d=2).channel([0.0, 0.0, 0.0])


def test_bounds_may_be_of_any_kind_of_sequence() -> None:
    made = [VectorMean(1.0, low, 2.0, d=2) for low in ([0, 1], (0.0, 1.0), np.array([0.0, 1.0]))]
    assert made[0] == made[1] == made[2]
    assert hash(made[0]) == hash(made[2])
    assert made[0].lower == (0.0, 1.0)
    assert made[0] != VectorMean(1.0, (0.0, 1.0), 2.0, d=2, method="hypercube")
