"""`accounting.shuffled`: against exact enumeration of shuffled mechanisms, against its own definition in rationals, and where it ends."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from itertools import permutations, product
from pathlib import Path

import mpmath
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.special import gammaln

from dpcore import ParameterError, ParameterTypeError, Privacy, accounting
from dpcore.accounting import _binomials, _shuffling

ZERO, ONE = Fraction(0), Fraction(1)


def log_up(value: Fraction) -> float:
    """A float that is certainly above ln(value)."""
    return math.log(value) * (1 + 1e-15) + 1e-300


def log_down(value: Fraction) -> float:
    return math.log(value) * (1 - 1e-15)


def bound(grown: Fraction, allowed: Fraction, n: int) -> float:
    """The bound of δ where e^ε₀ is `grown` and e^ε is `allowed`; ε₀ is rounded down and ε up, so that the bound has no head start."""
    return accounting.shuffled_delta(log_down(grown), log_up(allowed), n=n)


def fair(c: int, k: int) -> Fraction:
    return Fraction(math.comb(c, k), 2**c) if 0 <= k <= c else ZERO


def by_definition(grown: Fraction, allowed: Fraction, n: int, *, clone: Fraction | None = None, clones: int | None = None) -> Fraction:
    """The divergence of the two mixtures of binomials, in rationals; other weights and numbers of clones make broken twins."""
    clone, others = 2 / (grown + 1) if clone is None else clone, n - 1 if clones is None else clones
    total = ZERO
    for c in range(others + 1):
        weight = math.comb(others, c) * clone**c * (1 - clone) ** (others - c)
        for k in range(c + 2):
            p = (grown * fair(c, k - 1) + fair(c, k)) / (grown + 1)
            q = (fair(c, k - 1) + grown * fair(c, k)) / (grown + 1)
            total += weight * max(p - allowed * q, ZERO)
    return total


CASES = [
    (2, "3/2", 2),
    (2, "11/10", 3),
    (3, "3/2", 10),
    (20, 3, 12),
    (1000, 30, 7),
    (3, 1, 30),
    ("101/100", "1003/1000", 25),
    (3, "11/10", 40),
]


@pytest.mark.parametrize(("grown", "allowed", "n"), CASES)
def test_the_bound_is_just_above_its_definition(grown, allowed, n):
    grown, allowed = Fraction(grown), Fraction(allowed)
    exact = by_definition(grown, allowed, n)
    found = accounting.shuffled_delta(log_up(grown), log_down(allowed), n=n)
    assert exact <= Fraction(found) <= exact * (1 + Fraction(1, 10**8))


@pytest.mark.parametrize(("blocks", "left_out"), [(8192, 0.5), (3, 28.0), (2, 2.0)])
def test_wide_blocks_and_narrow_windows_leave_a_bound(blocks, left_out, monkeypatch):
    """A block counts as its first value, its probability is that below a geometric law, and what is outside of the window is charged."""
    monkeypatch.setattr(_shuffling, "BLOCKS", blocks)
    monkeypatch.setattr(_shuffling, "LEFT_OUT", left_out)
    for grown, allowed, n in CASES:
        found = accounting.shuffled_delta(log_up(Fraction(grown)), log_down(Fraction(allowed)), n=n)
        assert by_definition(Fraction(grown), Fraction(allowed), n) <= Fraction(found)


def test_rounding_inwards_would_be_noticed(monkeypatch):
    monkeypatch.setattr(_binomials, "RESERVE", -_binomials.RESERVE)
    monkeypatch.setattr(_shuffling, "RESERVE", -_shuffling.RESERVE)
    below = [
        Fraction(accounting.shuffled_delta(log_up(Fraction(g)), log_down(Fraction(a)), n=n)) < by_definition(Fraction(g), Fraction(a), n)
        for g, a, n in CASES
    ]
    assert sum(below) >= 5


# Mechanisms, enumerated


def counts_law(rows: list[list[Fraction]]) -> dict[tuple[int, ...], Fraction]:
    """The law of how many reports show each outcome: what is left of n shuffled reports of one randomiser."""
    law = {(0,) * len(rows[0]): ONE}
    for row in rows:
        longer: dict[tuple[int, ...], Fraction] = {}
        for counts, p in law.items():
            for outcome, share in enumerate(row):
                if share:
                    moved = (*counts[:outcome], counts[outcome] + 1, *counts[outcome + 1 :])
                    longer[moved] = longer.get(moved, ZERO) + p * share
        law = longer
    return law


def divergence(p: dict, q: dict, allowed: Fraction) -> Fraction:
    return sum((max(share - allowed * q.get(outcome, ZERO), ZERO) for outcome, share in p.items()), ZERO)


def worst(channel: list[list[Fraction]], allowed: Fraction, n: int) -> Fraction:
    """The largest divergence of neighbours, over the records of everybody else."""
    found = ZERO
    for one, other in permutations(range(len(channel)), 2):
        for rest in product(range(len(channel)), repeat=n - 1):
            if list(rest) != sorted(rest):
                continue
            laws = [counts_law([channel[x], *(channel[y] for y in rest)]) for x in (one, other)]
            found = max(found, divergence(*laws, allowed))
    return found


def kary(grown: Fraction, k: int) -> list[list[Fraction]]:
    return [[(grown if x == y else ONE) / (grown + k - 1) for y in range(k)] for x in range(k)]


MECHANISMS = [(2, 2, 4), (2, 3, 3), (20, 2, 3), (20, 3, 3), (20, 4, 2), ("3/2", 2, 6)]


@pytest.mark.parametrize(("grown", "k", "n"), MECHANISMS)
def test_shuffled_responses_never_exceed_the_bound(grown, k, n):
    grown = Fraction(grown)
    for share in (0, 1, 2, 3):
        allowed = 1 + (grown - 1) * Fraction(share, 4)
        assert worst(kary(grown, k), allowed, n) <= Fraction(accounting.shuffled_delta(log_up(grown), log_down(allowed), n=n))


def test_twins_with_more_clones_are_exceeded():
    """One clone too many; or clones with probability 2/E; or a bound without the person's own coin: each fails for some response."""

    def exceeded(**twin: object) -> bool:
        cases = [(Fraction(g), k, n) for g, k, n in MECHANISMS]
        return any(
            worst(kary(g, k), a, n) > by_definition(g, a, n, **twin(g, n))  # type: ignore[operator]
            for twin in [twin["made"]]
            for g, k, n in cases
            for a in (ONE, 1 + (g - 1) / 4)
        )

    assert not exceeded(made=lambda _, n: {"clones": n - 1})
    assert exceeded(made=lambda _, n: {"clones": n})
    assert exceeded(made=lambda g, _: {"clone": min(2 / g, ONE)})
    assert exceeded(made=lambda g, _: {"clone": min(3 / (g + 1), ONE)})


@st.composite
def channels(draw: st.DrawFn) -> tuple[Fraction, list[list[Fraction]]]:
    """A random E-private channel of three inputs: outcomes with ratios between 1/E and E, and a last one that both neighbours share."""
    grown = Fraction(draw(st.integers(11, 60)), 10)
    patterns = draw(st.lists(st.tuples(*[st.integers(0, 6)] * 3), min_size=2, max_size=4))
    # 1 + (E−1)·i/6 for i in 0…6; the sums of rows are levelled by one more column each, which keeps the ratios of its rows
    columns = [[1 + (grown - 1) * Fraction(i, 6) for i in pattern] for pattern in patterns]
    columns += [[grown if i == j else ONE for i in range(3)] for j in range(3)]
    total = sum(sum(column) for column in columns)
    sums = [sum(column[i] for column in columns) for i in range(3)]
    # columns with ratio E at most, in amounts that make all rows equal: x_i·(E−1) is what row i lacks
    lacking = [(max(sums) - each) / (grown - 1) for each in sums]
    columns += [[(grown if i == j else ONE) * lacking[j] for i in range(3)] for j in range(3) if lacking[j]]
    total = sum(column[0] for column in columns)
    return grown, [[column[i] / total for column in columns] for i in range(3)]


@given(made=channels(), n=st.integers(1, 3), share=st.integers(0, 5))
def test_random_private_channels_never_exceed_the_bound(made, n, share):
    grown, channel = made
    assert all(sum(row) == 1 for row in channel)
    assert all(p <= grown * q for column in zip(*channel, strict=True) for p in column for q in column)
    allowed = 1 + (grown - 1) * Fraction(share, 6)
    laws = [counts_law([channel[x], *[channel[2]] * (n - 1)]) for x in (0, 1)]
    assert divergence(*laws, allowed) <= Fraction(accounting.shuffled_delta(log_up(grown), log_down(allowed), n=n))


def adaptive_law(data: tuple[int, ...], grown: Fraction, weights: tuple[int, ...]) -> dict[tuple[int, ...], Fraction]:
    """Records in random order; the response of a position has the ε and the direction that the reports before it choose."""
    law: Counter[tuple[int, ...]] = Counter()
    orders = list(permutations(data))
    for order in orders:
        paths: dict[tuple[int, ...], Fraction] = {(): ONE}
        for position, record in enumerate(order):
            longer: dict[tuple[int, ...], Fraction] = {}
            for path, p in paths.items():
                choice = weights[(sum(path) + 2 * position) % len(weights)]
                strength = 1 + (grown - 1) * Fraction(choice % 4, 3) if choice % 4 < 3 else grown
                for report in (0, 1):
                    agrees = report == (record + choice // 4) % 2
                    longer[(*path, report)] = p * (strength if agrees else ONE) / (strength + 1)
            paths = longer
        for path, p in paths.items():
            law[path] += p / len(orders)
    return dict(law)


@given(
    data=st.lists(st.integers(0, 1), min_size=1, max_size=3), weights=st.tuples(*[st.integers(0, 7)] * 3), share=st.integers(0, 5),
    grown=st.sampled_from([Fraction(2), Fraction(5), Fraction(30)]),
)  # fmt: skip
def test_adaptive_randomisers_never_exceed_the_bound(data, weights, share, grown):
    allowed = 1 + (grown - 1) * Fraction(share, 6)
    laws = [adaptive_law((x, *data), grown, weights) for x in (0, 1)]
    limit = Fraction(accounting.shuffled_delta(log_up(grown), log_down(allowed), n=len(data) + 1))
    assert max(divergence(*laws, allowed), divergence(*reversed(laws), allowed)) <= limit


# Large n


@pytest.mark.parametrize(("local", "epsilon", "n"), [(1.0, 0.1, 500), (3.0, 0.4, 500), (0.2, 0.01, 500), (6.0, 2.0, 500)])
def test_a_sum_over_both_counts_agrees(local, epsilon, n):
    """Another formula: δ = E(Σ Z)₊/n for n reports that are worth E − e', 1 − e'E or 0 each."""
    grown, allowed = math.exp(local), math.exp(epsilon)
    share = 1 / (grown + 1)
    ones, zeros = np.meshgrid(np.arange(n + 1.0), np.arange(n + 1.0))
    rest = n - ones - zeros
    possible = rest >= 0
    rest = np.where(possible, rest, 0)
    logs = gammaln(n + 1) - gammaln(ones + 1) - gammaln(zeros + 1) - gammaln(rest + 1)
    law = np.where(possible, np.exp(logs + (ones + zeros) * math.log(share) + rest * math.log1p(-2 * share)), 0)
    worth = ones * (grown - allowed) + zeros * (1 - allowed * grown)
    expected = float((law * np.maximum(worth, 0)).sum()) / n
    assert accounting.shuffled_delta(local, epsilon, n=n) == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("n", [10**6, pytest.param(10**9, marks=pytest.mark.long)])
def test_blocks_cost_next_to_nothing(n, monkeypatch):
    local, epsilon = 2.0, 5.0 / math.sqrt(n)
    coarse = _shuffling.Shuffle(local, n).delta(epsilon)
    monkeypatch.setattr(_shuffling, "BLOCKS", 2**16)
    fine = _shuffling.Shuffle(local, n).delta(epsilon)
    assert fine <= coarse <= fine * (1 + 2e-4)


@pytest.mark.parametrize("trials", [1, 2, 7, 40, 10**3, 10**6, 10**12])
def test_binomial_probabilities_are_bounds_and_close(trials):
    context = mpmath.MPContext()
    context.dps = 60
    rng = np.random.default_rng(trials)
    for success in (0.5, 2**-20, 0.3, 1 - 2**-11):
        spread = math.sqrt(trials * success * (1 - success)) + 1
        counts = np.unique(np.clip(np.floor(trials * success + spread * rng.uniform(-20, 20, 12)), 0, trials))
        found = _binomials.probability(np.full_like(counts, trials), counts, success)
        for count, value in zip(counts.tolist(), found.tolist(), strict=True):
            logs = context.loggamma(trials + 1) - context.loggamma(count + 1) - context.loggamma(trials - count + 1)
            exact = context.exp(logs + count * context.log(success) + (trials - count) * context.log(1 - context.mpf(success)))
            assert exact <= value <= exact * (1 + 1e-9) + 2e-300


def test_tail_ratios_are_bounds_and_exact_in_the_end():
    """Cut off after an odd number of terms the fraction is below the ratio; carried to its end it is the ratio, for all small counts."""
    for trials in range(1, 30):
        for count in range(trials // 2 + 1, trials + 1):
            exact = Fraction(sum(math.comb(trials, k) for k in range(count, trials + 1)), math.comb(trials, count))
            arguments = np.array([float(trials)]), np.array([float(count)])
            values = [_binomials.fair_tail_ratio(*arguments, terms).item() for terms in (1, 3, 5, 31)]
            assert all(Fraction(value) <= exact for value in values)
            assert values[-1] == pytest.approx(float(exact), rel=1e-12)


@pytest.mark.parametrize("trials", [10**3, 10**7, 10**12])
def test_tail_ratios_of_many_trials(trials):
    """Against Mills' ratio of the normal law, with the first correction, and never above the exact tail where that can be summed."""
    counts = np.floor(trials / 2 + np.array([0.05, 0.3, 1.0, 4.0, 9.0]) * math.sqrt(trials) / 2)
    values = [_shuffling._tails(np.array([float(trials)]), np.array([count])).item() for count in counts.tolist()]
    for count, value in zip(counts.tolist(), values, strict=True):
        if trials > 10**6:
            sigma = math.sqrt(trials) / 2
            away = (count - 0.5 - trials / 2) / sigma
            at = math.exp(-(((count - trials / 2) / sigma) ** 2) / 2) / math.sqrt(2 * math.pi) / sigma
            assert value == pytest.approx(math.erfc(away / math.sqrt(2)) / 2 / at, rel=1e-3 if trials < 10**9 else 2e-5)
        else:
            exact = Fraction(sum(math.comb(trials, k) for k in range(int(count), trials + 1)), math.comb(trials, int(count)))
            assert exact * (1 - Fraction(1, 10**4)) <= Fraction(value) <= exact


# Its shape


@given(
    local=st.floats(1e-6, 12.0), n=st.integers(2, 500), share=st.floats(0.0, 1.1), further=st.integers(1, 2000), more=st.floats(1.001, 2.0)
)
@example(local=700.0, n=2, share=0.5, further=10**12 - 2, more=1.5)
@example(local=1e-6, n=2, share=0.5, further=100, more=1.5)
@example(local=5e-324, n=2, share=0.0, further=100, more=2.0)
def test_delta_is_monotone_in_every_argument(local, n, share, further, more):
    found = accounting.shuffled_delta(local, share * local, n=n)
    assert 0 <= found <= 1
    assert found == 0 or share < 1
    slack = 1 + 1e-4
    assert accounting.shuffled_delta(local, share * local, n=n + further) <= found * slack + 1e-290
    assert accounting.shuffled_delta(local * more, share * local, n=n) * slack + 1e-290 >= found
    assert accounting.shuffled_delta(local, share * local * more, n=n) <= found * slack + 1e-290


@settings(max_examples=8)
@given(local=st.floats(1e-6, 12.0), delta=st.floats(-30, -0.1).map(lambda x: 10**x), n=st.integers(1, 400))
def test_the_two_directions_agree_and_nothing_exceeds_one_report(local, delta, n):
    found = accounting.shuffled(local, delta, n=n)
    assert found.delta == delta
    assert found.relation == "replace"
    assert 0 <= found.epsilon <= local
    assert accounting.shuffled_delta(local, found.epsilon, n=n) <= delta
    if found.epsilon > 1e-9 * local:
        assert accounting.shuffled_delta(local, found.epsilon * (1 - 1e-8), n=n) > delta * (1 - 1e-12)


@pytest.mark.some(4)
@pytest.mark.parametrize("n", [100, 10**3, 10**4, 10**6, 10**9, 10**12])
@pytest.mark.parametrize("local", [1e-6, 0.1, 1.0, 4.0, 8.0, 12.0])
@pytest.mark.parametrize("delta", [0.5, 1e-3, 1e-6, 1e-12])
def test_never_above_the_closed_form(local, delta, n):
    found = accounting.shuffled(local, delta, n=n)
    if local > math.log(n / (16 * math.log(2 / delta))):
        with pytest.raises(ParameterError, match=r"epsilon must be at most ln\(n/\(16 ln\(2/delta\)\)\)"):
            accounting.shuffled(local, delta, n=n, method="closed")
    else:
        assert found.epsilon <= accounting.shuffled(local, delta, n=n, method="closed").epsilon


def test_the_closed_form_is_rounded_up():
    context = mpmath.MPContext()
    context.dps = 50
    grown, n, delta = context.exp(1), 10**4, context.mpf(1e-6)
    exact = context.log1p((grown - 1) / (grown + 1) * (8 * context.sqrt(grown * context.log(4 / delta) / n) + 8 * grown / n))
    found = accounting.shuffled(1.0, 1e-6, n=n, method="closed").epsilon
    assert exact <= found <= math.nextafter(float(exact), 1)


def test_corners():
    assert accounting.shuffled(1.0, 0.0, n=10**12) == Privacy(1.0)
    assert accounting.shuffled(0.0, 1e-9, n=5) == Privacy(0.0, 1e-9)
    assert accounting.shuffled(700.0, 1e-9, n=10**12).epsilon <= 700.0
    assert accounting.shuffled_delta(math.log(3), 0.0, n=1) == pytest.approx(0.5)
    assert accounting.shuffled_delta(1.0, 2.0, n=1) == 0
    assert accounting.shuffled_delta(1e300, 1.0, n=10) <= 1
    # δ so small that nothing is proved about it
    assert accounting.shuffled(1.0, 5e-324, n=100).epsilon == 1.0


@pytest.fixture
def evaluated(monkeypatch):
    """The ε of every evaluation of δ; an endless search ends in an error."""
    found: list[float] = []
    evaluate = _shuffling.Shuffle.delta

    def counted(self, epsilon):
        found.append(epsilon)
        assert len(found) < 60
        return evaluate(self, epsilon)

    monkeypatch.setattr(_shuffling.Shuffle, "delta", counted)
    _shuffling.least_epsilon.cache_clear()
    return found


@pytest.mark.parametrize(
    ("local", "delta", "n"),
    [(1.5e-323, 5e-324, 1), (1e-320, 5e-324, 100), (1e-310, 5e-324, 10**4), (1.0, 1e-290, 10**6), (1e-6, 1e-250, 10**6)],
)
def test_searches_end(local, delta, n, evaluated):
    """Between two floats that are neighbours, and where ln δ is far from linear."""
    assert accounting.shuffled_delta(local, accounting.shuffled(local, delta, n=n).epsilon, n=n) <= delta
    evaluated.clear()


@pytest.mark.parametrize(("epsilon", "delta", "n"), [(5e-324, 1e-6, 2), (1e-300, 0.5, 20), (1e-160, 1 - 2.0**-53, 5), (1.7e308, 0.5, 9)])
def test_searches_for_a_report_end(epsilon, delta, n, evaluated):
    local = accounting.shuffled_local_epsilon(epsilon, delta, n=n) if epsilon > 1e-307 else _shuffling.largest_local(epsilon, n, delta)
    assert local >= epsilon
    assert accounting.shuffled_delta(local, epsilon, n=n) <= delta
    evaluated.clear()


@settings(max_examples=4)
@given(epsilon=st.floats(1e-3, 3.0), n=st.integers(1, 300))
def test_the_largest_epsilon_of_a_report(epsilon, n):
    local = accounting.shuffled_local_epsilon(epsilon, 1e-6, n=n)
    assert local >= epsilon
    assert accounting.shuffled_delta(local, epsilon, n=n) <= 1e-6
    assert accounting.shuffled_delta(local * (1 + 1e-8), epsilon, n=n) > 1e-6 * (1 - 1e-9)


@pytest.mark.parametrize(
    ("error", "words", "arguments", "sizes"),
    [
        (ParameterError, r"epsilon must be .* got -0.5", (-0.5, 1e-6), {"n": 10}),
        (ParameterError, "epsilon must be .* got nan", (math.nan, 1e-6), {"n": 10}),
        (ParameterError, "epsilon must be .* got inf", (math.inf, 1e-6), {"n": 10}),
        (ParameterTypeError, "epsilon must be a real number", ("1", 1e-6), {"n": 10}),
        (ParameterError, "delta must be .* got 1.0", (1.0, 1.0), {"n": 10}),
        (ParameterError, "delta must be .* got -1e-09", (1.0, -1e-9), {"n": 10}),
        (ParameterError, r"n must be in \[1, 1000000000000\], got 0", (1.0, 1e-6), {"n": 0}),
        (ParameterError, r"n must be in .* got 1000000000001", (1.0, 1e-6), {"n": 10**12 + 1}),
        (ParameterTypeError, "n must be an integer", (1.0, 1e-6), {"n": 10.0}),
        (ParameterTypeError, "n must be an integer", (1.0, 1e-6), {"n": True}),
        (ParameterError, "method must be one of 'numeric', 'closed', got 'open'", (1.0, 1e-6), {"n": 10, "method": "open"}),
        (ParameterError, "delta must be", (1.0, 0.0), {"n": 10, "method": "closed"}),
        (ParameterError, r"epsilon must be at most ln\(n/\(16 ln\(2/delta\)\)\) = 0 ", (1.0, 5e-324), {"n": 10, "method": "closed"}),
    ],
)
def test_what_is_refused(error, words, arguments, sizes):
    with pytest.raises(error, match=words):
        accounting.shuffled(*arguments, **sizes)


def test_tables_and_plots(tmp_path: Path):
    reports = accounting.ShuffledReports(1.0, n=40)
    assert [each.delta for each in reports.table()] == [1e-4, 1e-6, 1e-8, 1e-10, 1e-12]
    assert reports.privacy(1e-6) == accounting.shuffled(1.0, 1e-6, n=40)
    assert reports.delta(0.05) == accounting.shuffled_delta(1.0, 0.05, n=40)
    assert "40 shuffled reports with ε₀ = 1" in reports._repr_html_()
    small = accounting.ShuffledReports(1.0, n=5)
    assert small.plot(target=tmp_path / "curve.svg", smallest_delta=1e-6).read_text().startswith("<?xml")
    with pytest.raises(ParameterTypeError, match="target must be a path or matplotlib axes, got int"):
        small.plot(target=3)
    with pytest.raises(ParameterError, match="smallest_delta must be"):
        small.plot(target=tmp_path / "no.svg", smallest_delta=0.0)
    assert not (tmp_path / "no.svg").exists()
