"""Projective geometry response: fields and spaces by their axioms, the law by listing points, its privacy, and the choice of a space."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from dpcore import DataError, ParameterError, ParameterTypeError, _backend
from dpcore._exact.probability import inclusion
from dpcore.local import Aggregate, KaryResponse, ProjectiveGeometryResponse, SubsetSelection
from dpcore.local import projective as module
from dpcore.local._geometry import MOST_POINTS, Geometry, best_geometry, factors, incidence, is_order, points_of, space_of
from dpcore.testing import KeyedRandom
from support.channels import exact_exp, log_ratio, nearest
from support.kernels import ACCURATE, EXACT, KEY, LEVELS, Array, SecureCipher, at_level, at_tier, same_bits
from support.laws import ERROR_RATE, p_value
from support.responses import SmallField, Twin, projective_points

ORDERS = [2, 3, 4, 5, 7, 8, 9, 16, 25, 27]


def field_of(q: int) -> SmallField:
    """The tables of the package's field, as plain lists."""
    space = space_of(q, 3)
    sums = [[(a + b) % q if space.sums is None else int(space.sums[q * a + b]) for b in range(q)] for a in range(q)]
    products = [[int(space.exp[int(space.log[a]) + int(space.log[b])]) if a and b else 0 for b in range(q)] for a in range(q)]
    return SmallField(q, sums, products)


def lies(field: SmallField, t: int, category: int, y: tuple[int, ...]) -> bool:
    return field.inner(projective_points(field.q, t)[category][::-1], y) == 0


def with_space(epsilon: float, k: int, q: int, t: int, monkeypatch: pytest.MonkeyPatch) -> ProjectiveGeometryResponse:
    """A mechanism in a space that is not the best one."""
    monkeypatch.setattr(module, "best_geometry", lambda *_: Geometry.of(q, t))
    return ProjectiveGeometryResponse(epsilon, k=k)


# Fields and spaces


@pytest.mark.parametrize("q", ORDERS)
def test_tables_are_those_of_a_field(q: int) -> None:
    field, elements = field_of(q), range(q)
    for sums, neutral, some in ((field.sums, 0, elements), (field.products, 1, range(1, q))):
        assert all(sums[a][neutral] == a for a in elements)
        assert all(sums[a][b] == sums[b][a] for a, b in product(elements, repeat=2))
        assert all(sorted(sums[a][b] for b in some) == list(some) for a in some)  # each has an inverse
        triples = list(product(elements, repeat=3)) if q < 10 else np.random.default_rng(q).integers(0, q, (3000, 3)).tolist()
        assert all(sums[sums[a][b]][c] == sums[a][sums[b][c]] for a, b, c in triples)
    assert all(field.products[a][field.sums[b][c]] == field.sums[field.products[a][b]][field.products[a][c]] for a, b, c in triples)
    minus = {a: next(b for b in elements if field.sums[a][b] == 0) for a in elements}
    p, _ = factors(q) or (0, 0)
    assert all(minus[a] == field.products[p - 1][a] for a in elements)


def test_orders_are_powers_of_primes() -> None:
    assert [q for q in range(2, 33) if is_order(q)] == [2, 3, 4, 5, 7, 8, 9, 11, 13, 16, 17, 19, 23, 25, 27, 29, 31, 32]
    assert not is_order(2048)
    assert is_order(2053)
    assert factors(5791) == (5791, 1)


@pytest.mark.parametrize(("q", "t"), [(2, 3), (2, 5), (3, 4), (4, 3), (5, 3), (8, 3), (9, 3)])
def test_two_hyperplanes_meet_as_often_as_the_law_says(q: int, t: int) -> None:
    space, field, points = Geometry.of(q, t), field_of(q), projective_points(q, t)
    assert len(points) == space.points == points_of(q, t)
    found = np.array([[lies(field, t, category, y) for y in points] for category in range(space.points)])
    assert (incidence(space_of(q, t), 0, space.points) == found).all()
    meets = found.astype(int) @ found.T
    assert (np.diag(meets) == space.hyperplane).all()
    assert (meets[~np.eye(len(points), dtype=bool)] == space.common).all()
    counts = np.random.default_rng(q).integers(0, 2**40, space.points)
    for level in LEVELS:
        with at_level(level):
            for threads in (1, 3):
                assert _backend.hyperplane_counts(space_of(q, t), counts, threads=threads).tolist() == (found @ counts).tolist()


@pytest.mark.parametrize(("q", "t"), [(2, 12), (3, 7), (16, 4), (59, 3), (32, 3)])
def test_larger_spaces_by_some_hyperplanes(q: int, t: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_backend.threads, "SMALL", 0)
    monkeypatch.setattr(_backend.threads, "CHUNK", 1 << 12)
    space = space_of(q, t)
    counts = np.random.default_rng(q).integers(0, 2**40, points_of(q, t))
    found = _backend.hyperplane_counts(space, counts, threads=2)
    rows = incidence(space, 0, min(len(counts), 300))
    assert found[: len(rows)].tolist() == (rows @ counts).tolist()


def test_the_space_has_the_least_variance_of_all_small_ones() -> None:
    for epsilon, k in ((0.3, 20), (1.0, 100), (2.0, 30), (3.0, 200), (5.0, 50)):
        best = best_geometry(epsilon, k)
        others = [Geometry.of(q, t) for t in range(3, 9) for q in range(2, 200) if is_order(q) and k <= points_of(q, t) <= 10**6]
        line = Geometry(k - 1, 2, k, 1, 0)
        assert best.variance(epsilon) == min(space.variance(epsilon) for space in [line, *others])
    for epsilon, k in ((2.0**-20, 2), (2.0**-20, 2**24), (700.0, 2**24), (8.3, 2**24), (12.0, 2**20), (4.0, 3)):
        space = best_geometry(epsilon, k)
        assert k <= space.points <= MOST_POINTS


# The law


@pytest.mark.parametrize(
    ("epsilon", "k", "q", "t"), [(1.0, 7, 2, 3), (0.1, 10, 3, 3), (2.0, 21, 4, 3), (700.0, 15, 2, 4), (2.0**-20, 9, 2, 4)]
)
def test_the_channel_is_the_listed_law(epsilon: float, k: int, q: int, t: int, monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism, field, e = with_space(epsilon, k, q, t, monkeypatch), field_of(q), exact_exp(epsilon)
    rows = []
    for category in range(k):
        weights = [e if lies(field, t, category, y) else e**0 for y in projective_points(q, t)]
        rows.append([nearest(w / sum(weights)) for w in weights])
    assert mechanism.channel().tolist() == rows
    inside = np.array(rows) == max(map(max, rows))
    p = nearest(e * inside[0].sum() / (e * inside[0].sum() + (~inside[0]).sum()))
    assert mechanism.support.p == p
    both = int((inside[0] & inside[1]).sum())
    assert mechanism.support.q == nearest((e * both + inside[0].sum() - both) / (e * inside[0].sum() + (~inside[0]).sum()))


@pytest.mark.parametrize(("epsilon", "k"), [(0.01, 5), (0.5, 30), (1.1, 13), (1.6, 60), (2.0, 200), (3.0, 60), (5.0, 4), (50.0, 9)])
def test_no_report_tells_more_than_epsilon(epsilon: float, k: int) -> None:
    channel = ProjectiveGeometryResponse(epsilon, k=k).channel()
    assert abs(log_ratio(channel) - epsilon) <= 1e-12
    assert np.allclose(channel.sum(axis=1), 1.0, atol=1e-14)


@pytest.mark.parametrize("q", [2, 3, 4, 7, 8, 9])
@pytest.mark.parametrize("factor", [Fraction(1), Fraction(13, 10), Fraction(7, 10)])
def test_variances_beside_subset_selection(q: int, factor: Fraction) -> None:
    """Equal where E + 1 = q, for k = K; else (1 + r)²/(4r) times it up to 1/K. E is a fraction here, which no e^ε is."""
    e, space = factor * (q - 1), Geometry.of(q, 4)
    if e <= 1:
        return
    total = e * space.hyperplane + space.points - space.hyperplane
    p, shared = e * space.hyperplane / total, (e * space.common + space.hyperplane - space.common) / total
    assert shared == (space.hyperplane - p) / (space.points - 1)
    mine, best = shared * (1 - shared) / (p - shared) ** 2, None
    for w in range(1, space.points):
        inside = w * e / (w * e + space.points - w)
        other = (w - inside) / (space.points - 1)
        variance = other * (1 - other) / (inside - other) ** 2
        best = variance if best is None else min(best, variance)
    r = e / (q - 1)
    if factor == 1:
        assert mine == best
        # with the field of another order the same ε has a larger variance
        assert Geometry.of(q + 1 if is_order(q + 1) else q + 2, 4).variance(math.log(e) if e > 1 else 1.0) > float(best) * 1.0001 or q == 2
    else:
        assert float(mine / best) == pytest.approx(float((1 + r) ** 2 / (4 * r)), abs=3 / space.points + 0.004)


def test_on_a_line_it_is_a_kary_response() -> None:
    for epsilon, k in ((3.0, 10), (700.0, 1000), (2.0, 2)):
        mine, kary = ProjectiveGeometryResponse(epsilon, k=k), KaryResponse(epsilon, k=k)
        assert (mine.dimension, mine.points, mine.q) == (2, k, k - 1)
        assert mine.support == pytest.approx(kary.support)
        if k < 100:
            assert np.allclose(mine.channel(), kary.channel(), rtol=1e-14)


@pytest.mark.parametrize(("epsilon", "k", "q", "t"), [(1.0, 13, 3, 3), (1.4, 20, 4, 3), (1.0, 15, 2, 4)])
def test_reports_follow_the_channel(epsilon: float, k: int, q: int, t: int, monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism, n = with_space(epsilon, k, q, t, monkeypatch), 100_000
    channel, field = mechanism.channel(), field_of(q)
    twin = with_space(1.1 * epsilon, k, q, t, monkeypatch).channel()
    swapped = SmallField(q, field.products if q > 2 else field.sums, field.sums)  # tables of no field
    wrong = np.array([[lies(swapped, t, x, y) for y in projective_points(q, t)] for x in range(k)])
    for x in (0, 1, k // 2, k - 1):
        counts = np.bincount(mechanism.privatize(np.full(n, x), rng=KeyedRandom(KEY)), minlength=mechanism.points)
        assert p_value(counts, channel[x]) > ERROR_RATE
        assert p_value(counts, twin[x]) < ERROR_RATE
        if 0 < wrong[x].sum() < mechanism.points and (wrong[x] != (channel[x] > channel.min())).any():
            law = np.where(wrong[x], channel.max(), channel.min())
            assert p_value(counts, law / law.sum()) < ERROR_RATE


# Kernels


LAWS = {
    "plane-3": (1.0, 13, 3, 3),
    "plane-4": (0.5, 21, 4, 3),
    "plane-27": (3.0, 700, 27, 3),
    "space-2": (0.3, 100, 2, 7),
    "space-5": (700.0, 600, 5, 5),
}
each = pytest.mark.parametrize("name", LAWS)


def answer(name: str, start: int = 0, stop: int = 3000, *, first: int = 0, threads: int = 1, rng: Any = None) -> Array:
    epsilon, k, q, t = LAWS[name]
    codes = np.random.default_rng(7).integers(0, k, 3000)
    space = Geometry.of(q, t)
    law = space_of(q, t).law(inclusion(epsilon, space.points, space.hyperplane), space.hyperplane, space.points, k, None)
    position = (KeyedRandom(KEY).at(3, first + start) if rng is None else rng).position()
    return _backend.projective_response(codes[start:stop], law, position, threads=threads)


@each
def test_the_twin_gives_the_same_reports(name: str) -> None:
    epsilon, k, q, t = LAWS[name]
    codes, field, space = np.random.default_rng(7).integers(0, k, 3000), field_of(q), Geometry.of(q, t)
    p, n = inclusion(epsilon, space.points, space.hyperplane), 60
    for first in (0, 2**40 + 77):
        assert answer(name, stop=n, first=first).tolist() == [
            Twin.keyed().projective(first + i, int(codes[i]), field, t, p) for i in range(n)
        ]


@each
def test_one_answer_at_every_level_cut_tier_and_thread(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = answer(name, first=11)
    for level in LEVELS:
        with at_level(level):
            assert same_bits(answer(name, first=11), whole)
            assert not same_bits(answer(name, first=11, rng=SecureCipher(11)), whole)
    pieces = [answer(name, a, b, first=11) for a, b in ((0, 1), (1, 64), (64, 129), (129, 3000))]
    assert same_bits(np.concatenate(pieces), whole)
    for tier in (ACCURATE, EXACT):
        with at_tier(tier):
            assert same_bits(answer(name, first=11), whole)
    monkeypatch.setattr(_backend.threads, "CHUNK", 97)
    monkeypatch.setattr(_backend.threads, "SMALL", 0)
    monkeypatch.setattr(_backend.Testing, "limbs", 3)
    assert same_bits(answer(name, first=11, threads=3), whole)


def test_ties_are_decided_by_further_bits() -> None:
    """A probability made from the bits of U itself; a twin that calls ties "below" is rejected."""
    from support.responses import MORE, Uniform, constant

    field, space, rejected = field_of(3), Geometry.of(3, 3), 0
    for element in (0, 129, 2**40 + 9):
        u = Uniform(Twin.keyed().words, element, Twin.keyed().word(element) >> 32, 32, MORE)
        for bits in (32, 33, 64, 96, 300, 2000):
            for offset in (0, 1):
                p = constant(Fraction(u.floor(bits) + offset, 2**bits))
                law = space_of(3, 3).law(p, space.hyperplane, space.points, 13, None)
                found = _backend.projective_response(np.array([5]), law, KeyedRandom(KEY).at(3, element).position(), threads=1)
                assert found.tolist() == [Twin.keyed().projective(element, 5, field, 3, p)]
                rejected += found.tolist() != [Twin.keyed(ties_below=True).projective(element, 5, field, 3, p)]
    assert rejected > 0


# The mechanism


@pytest.mark.parametrize(("epsilon", "k"), [(1.0, 40), (2.0, 300), (6.0, 20)])
def test_estimates_find_the_frequencies(epsilon: float, k: int) -> None:
    mechanism, n = ProjectiveGeometryResponse(epsilon, k=k), 100_000
    codes = np.minimum(*np.random.default_rng(3).integers(0, k, (2, n)))
    reports = mechanism.privatize(codes, rng=KeyedRandom(KEY))
    truth = np.bincount(codes, minlength=k) / n
    found = mechanism.estimate(reports, target="sample")
    assert (np.abs(found.value - truth) < 5.5 * found.stderr).all()
    assert found.value.shape == (k,)
    assert ((found.interval(1 - 1e-7)[:, 0] <= truth) & (truth <= found.interval(1 - 1e-7)[:, 1])).all()
    whole = mechanism.aggregate(reports)
    assert whole.counts.shape == (mechanism.points,)
    assert whole == mechanism.aggregate(reports[:77]) + mechanism.aggregate(reports[77:], threads=2)
    assert mechanism.variance() <= 1.2 * SubsetSelection(epsilon, k=k).variance()


def test_intervals_cover_by_the_exact_law() -> None:
    """Reports that support a category are a binomial count; the interval of each count, weighted by its probability."""
    from scipy import stats

    mechanism, n = ProjectiveGeometryResponse(1.0, k=13), 40
    for f in (0.0, 0.1, 0.5, 1.0):
        share = mechanism.support.q + f * (mechanism.support.p - mechanism.support.q)
        covered = 0.0
        for count in range(n + 1):
            counts = np.zeros(mechanism.points, np.int64)
            on = np.flatnonzero(mechanism.channel()[0] > mechanism.channel().min())
            off = np.setdiff1d(np.arange(mechanism.points), on)
            counts[on[0]], counts[off[0]] = count, n - count
            low, high = mechanism.estimate(Aggregate(mechanism, n, counts)).interval(0.9)[0]
            covered += stats.binom.pmf(count, n, share) * (low <= f <= high)
        assert covered >= 0.9


def test_hyperplanes_are_where_the_channel_is_large() -> None:
    for epsilon, k in ((1.0, 40), (6.0, 20)):
        mechanism = ProjectiveGeometryResponse(epsilon, k=k)
        channel = mechanism.channel()
        for category in (0, 7, k - 1):
            assert mechanism.hyperplane(category).tolist() == np.flatnonzero(channel[category] > channel.min()).tolist()
        for wrong in (-1, k):
            with pytest.raises(ParameterError, match="category"):
                mechanism.hyperplane(wrong)


def test_forms_of_records_and_reports() -> None:
    mechanism = ProjectiveGeometryResponse(1.0, k=30, unknown=29)
    one = mechanism.privatize(3, rng=KeyedRandom(KEY))
    assert type(one) is int
    assert mechanism.privatize([3], rng=KeyedRandom(KEY)).tolist() == [one]
    singles = [mechanism.privatize(code) for code in (3, 4, 5)]  # one a person
    assert mechanism.aggregate(singles) == mechanism.aggregate(np.array(singles, np.uint32))
    for wrong in (-1, mechanism.points):
        with pytest.raises(DataError, match="index 1"):
            mechanism.aggregate([one, wrong])
    codes = np.random.default_rng(1).integers(0, 30, (4, 5, 6))
    whole = mechanism.privatize(codes, rng=KeyedRandom(KEY))
    assert whole.dtype == np.uint32
    for form in (codes.astype(np.uint8), codes[::-1].copy()[::-1], np.asfortranarray(codes)):
        assert same_bits(mechanism.privatize(form, rng=KeyedRandom(KEY)), whole)
    out = np.zeros(codes.shape, np.uint32)
    assert mechanism.privatize(codes, rng=KeyedRandom(KEY), out=out) is out
    assert same_bits(out, whole)
    odd = codes.copy()
    odd[0, 0, 0], odd[3, 2, 1] = -5, 30
    replaced = np.where((odd < 0) | (odd >= 30), 29, odd)
    assert same_bits(mechanism.privatize(odd, rng=KeyedRandom(KEY)), mechanism.privatize(replaced, rng=KeyedRandom(KEY)))
    labelled = ProjectiveGeometryResponse.from_categories(1.0, ["a", "b", "c"])
    assert labelled.estimate(labelled.privatize(["a", "c", "c"])).categories == ("a", "b", "c")
    assert repr(mechanism) == "ProjectiveGeometryResponse(epsilon=1.0, k=30, unknown=29)"


def test_bad_input() -> None:
    for epsilon in (0.0, math.nan, 1e-7, 701.0):
        with pytest.raises(ParameterError, match="epsilon"):
            ProjectiveGeometryResponse(epsilon, k=5)
    for k in (1, 0, 2**24 + 1):
        with pytest.raises(ParameterError, match="k must"):
            ProjectiveGeometryResponse(1.0, k=k)
    with pytest.raises(ParameterTypeError):
        ProjectiveGeometryResponse(1.0, k=5.0)  # type: ignore[arg-type]
    mechanism = ProjectiveGeometryResponse(1.0, k=5)
    for codes in ([5], [-1], [0, 1, 2**40]):
        with pytest.raises(DataError, match="index"):
            mechanism.privatize(codes)
    with pytest.raises(DataError, match="index 1"):
        mechanism.aggregate(np.array([0, mechanism.points], np.uint32))
    for reports in (np.array([0.0]), np.array([True]), ["a"]):
        with pytest.raises(ParameterTypeError):
            mechanism.aggregate(reports)
    with pytest.raises(ParameterError, match="channel matrix"):
        ProjectiveGeometryResponse(1.0, k=20_000).channel()
    with pytest.raises(ParameterError, match="out"):
        mechanism.privatize([0, 1], out=np.zeros(4, np.uint32)[::2])
