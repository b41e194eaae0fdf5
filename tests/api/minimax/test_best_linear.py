"""The best linear estimator beside other programs, other channels, enumerations and simulations."""

from __future__ import annotations

import itertools
import math
import pickle
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import linprog

from dpcore import local, minimax
from dpcore.errors import DataError, ParameterError, ParameterTypeError
from dpcore.minimax import ChannelMean, Model, best_linear, best_values, clipped_response, truncated_moment
from dpcore.minimax.designs.dual import _Column, _Members, limits
from dpcore.minimax.designs.program import Design, best_channel
from dpcore.minimax.spaces import certified
from dpcore.testing import KeyedRandom
from support.minimax_models import model

KEY = bytes(range(32))


@pytest.fixture(scope="module")
def found():
    return best_linear(model("moment 2"), 2.0, n=1_000, outputs=15)


def twin(of: Model, vertices, epsilon: float, n: int, outputs, bias: float) -> float:
    """The least second moment with a bias of at most `bias`, by a linear program about all vertices of the model."""
    X, K, E = of.size, len(outputs), math.exp(epsilon)
    width = X * K + K + 2  # Q, w, center, V
    rows, right = [], []
    for x, k in itertools.product(range(X), range(K)):
        for sign, bound in ((1.0, -E), (-1.0, 1.0)):
            row = np.zeros(width)
            row[x * K + k], row[X * K + k] = sign, bound
            rows.append(row)
            right.append(0.0)
    for p in vertices:
        mean, square = np.zeros(width), np.zeros(width)
        mean[: X * K], square[: X * K] = np.outer(p, outputs).ravel(), np.outer(p, np.square(outputs)).ravel()
        mean[-2], square[-1] = 1.0, -1.0
        theta = float(p @ of.f)
        rows += [mean, -mean, square]
        right += [bias + theta, bias - theta, 0.0]
    sums = np.zeros((X, width))
    for x in range(X):
        sums[x, x * K : (x + 1) * K] = 1.0
    cost = np.zeros(width)
    cost[-1] = 1.0
    bounds = [(0, None)] * (X * K + K) + [(None, None), (0, None)]
    solved = linprog(cost, A_ub=np.array(rows), b_ub=right, A_eq=sums, b_eq=np.ones(X), bounds=bounds)
    return float(solved.fun) if solved.status == 0 else math.inf


@pytest.mark.some(2)
@pytest.mark.parametrize(("epsilon", "n"), [(0.3, 50), (1.0, 2_000), (3.0, 500), (6.0, 10_000)])
@pytest.mark.parametrize("seed", range(4))
def test_the_program_by_another_program(epsilon, n, seed):
    generator = np.random.default_rng(seed)
    vertices = generator.dirichlet(np.full(5, 0.5), size=4)
    of = Model.hull(generator.normal(size=5), vertices)
    reach = 2 * (of.theta_range[1] - of.theta_range[0]) / math.tanh(epsilon / 2)
    outputs = np.linspace(-reach, reach, 7)
    proved = best_linear(of, epsilon, n=n, outputs=outputs).certificate
    # A fine search over the bias: convex in it.
    bias = np.linspace(0.0, (of.theta_range[1] - of.theta_range[0]) / 2, 161)
    values = [b**2 + twin(of, vertices, epsilon, n, outputs, b) / n for b in bias]
    place = int(np.argmin(values))
    finer = np.linspace(bias[max(place - 1, 0)], bias[min(place + 1, 160)], 161)
    best = min(b**2 + twin(of, vertices, epsilon, n, outputs, b) / n for b in finer)
    assert proved.objective == pytest.approx(best, rel=2e-5)
    assert proved.on_outputs <= best * (1 + 1e-9)
    assert proved.on_outputs == pytest.approx(best, rel=2e-5)
    assert proved.everywhere <= proved.on_outputs * (1 + 1e-9)


def objective(of: Model, vertices, rows, outputs, n: int) -> float:
    """Squared bias with the best center, and second moment, at the vertices of a model."""
    bias = vertices @ (rows @ outputs - of.f)
    return float(np.ptp(bias) ** 2 / 4 + (vertices @ (rows @ outputs**2)).max() / n)


@pytest.mark.some(1)
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_no_other_channel_is_better_on_the_same_outputs_or_on_others(epsilon):
    generator, n = np.random.default_rng(5), 400
    vertices = generator.dirichlet(np.full(6, 0.4), size=5)
    of, E = Model.hull(generator.normal(size=6), vertices), math.exp(epsilon)
    proved = best_linear(of, epsilon, n=n, outputs=21)
    certificate, outputs, center = proved.certificate, proved.mean.values, proved.mean.center
    patterns = np.array(list(itertools.product([1.0, E], repeat=6)))
    smallest = math.inf
    for trial in range(200):
        # One bit, three outcomes and more: random mixtures of extreme columns, on the same outputs and on any others.
        count = 2 if trial % 3 == 0 else 3 if trial % 3 == 1 else 7
        chosen = patterns[generator.permutation(len(patterns))[:count]]
        chosen = np.concatenate([chosen, 1 + E - chosen]) if count == 2 else chosen
        solved = linprog(generator.random(len(chosen)), A_eq=chosen.T, b_eq=np.ones(6), bounds=(0, None))
        if solved.status != 0:
            continue
        rows = chosen.T * solved.x
        on_grid = generator.choice(outputs, size=len(chosen))
        assert objective(of, vertices, rows, on_grid, n) >= certificate.on_outputs * (1 - 1e-6)
        fitted = generator.normal(size=len(chosen)) * np.abs(outputs).max() / 2
        assert objective(of, vertices, rows, fitted, n) >= certificate.everywhere * (1 - 1e-6)
        smallest = min(smallest, objective(of, vertices, rows, fitted, n))
    assert smallest < math.inf
    own = objective(of, vertices, proved.mean.channel.channel(), outputs, n)
    assert certificate.on_outputs * (1 - 1e-9) <= own <= certificate.objective * (1 + 1e-9)
    assert abs(center) < 10


def test_too_large_multipliers_prove_no_more(found):
    # Teeth of the dual bound: charges that are too high make h negative, which costs what they gain and more.
    of, n, outputs = found.model.standard, found.n, np.sort(found.mean.values) / 2.0**found.model.frame.exponent
    design = best_channel(of, 2.0, n, outputs, 1e-3)
    right = limits(of, 2.0, n, design)
    for factor in (0.5, 0.9, 1.1, 2.0, 30.0):
        for part in (None, slice(0, 20)):
            charges = design.charges.copy()
            charges[part] *= factor
            wrong = limits(of, 2.0, n, replace(design, charges=charges))
            assert wrong.on_outputs <= right.on_outputs * (1 + 1e-7)
            assert wrong.everywhere <= right.on_outputs * (1 + 1e-7)
    assert right.on_outputs == pytest.approx(design.objective, rel=1e-6)


def h(column, v):
    """The function of `dual` at an array of outputs."""
    terms = column._slopes * v[:, None] + column._squares * v[:, None] ** 2 - column._charges
    return np.where(terms < 0, (1 + column._grown) * terms, terms).sum(axis=1)


@pytest.mark.parametrize("epsilon", [0.1, 2.0, 9.0])
@pytest.mark.parametrize("seed", range(3))
def test_the_least_of_h_over_all_outputs_beside_a_dense_grid(epsilon, seed):
    generator = np.random.default_rng(seed)
    of = Model(generator.normal(size=7)).standard
    members = [generator.dirichlet(np.full(7, 0.3)) * (generator.random(7) < 0.7) + 1e-3 for _ in range(3)]
    high, low, spread = (p / p.sum() for p in members)
    design = Design(np.zeros(1), np.ones((7, 1)), 0.1, high, low, spread, generator.normal(size=7) * 0.01, 0.02)
    column = _Column(of, epsilon, 50, design, _Members(high, low, spread))
    roots = np.concatenate([np.roots([a, b, -c]) for a, b, c in zip(column._squares, column._slopes, column._charges, strict=True)])
    wide = 2 * np.abs(roots).max()
    coarse = np.linspace(-wide, wide, 200_001)
    near = coarse[h(column, coarse).argmin()]
    fine = np.linspace(near - wide / 1e4, near + wide / 1e4, 200_001)
    least = column._least()
    assert least <= min(h(column, coarse).min(), h(column, fine).min())
    assert least == pytest.approx(h(column, fine).min(), rel=1e-6, abs=1e-9)


@pytest.mark.some(2)
@pytest.mark.parametrize("epsilon", [1.0, 3.0])
@pytest.mark.parametrize("n", [1, 4])
@pytest.mark.parametrize("of", [Model([0.0, 1.0]), Model([-1.0, 0.0, 1.0], A=[[1.0, 0.0, 1.0]], b=[0.5])], ids=["coin", "rare"])
def test_few_reports_are_used_as_well(of, n, epsilon):
    # The modulus is flat beyond the distance of the members, which says nothing about useful outputs.
    found = best_linear(of, epsilon, n=n, outputs=21).certificate
    given = best_linear(of, epsilon, n=n, outputs=np.linspace(-5.0, 5.0, 41)).certificate
    assert found.objective <= given.objective * 1.005
    assert found.lost < 0.01


def test_outputs_far_smaller_than_the_first_ones_are_found():
    # One report at ε = 0.2 about heavy tails: the first grid is so coarse that a constant is the best on it.
    of = Model.moment(np.concatenate([[-100.0, -30.0], np.linspace(-5.0, 5.0, 7), [300.0, 1000.0]]), kappa=1.5, C=500.0)
    found, bit = best_linear(of, 0.2, n=1, outputs=9), best_values(of, minimax.optimal_channel(of, 0.2, n=1), n=1)
    assert found.certificate.objective <= (bit.bias**2 + bit.second_moment) * 1.001


def test_points_of_almost_no_mass_cost_nothing():
    # The condition's bound is below the tolerance of the solver, which then reports no price for it.
    of = Model([0.0, 1.0, 2.0], A=[[0.0, 0.0, 1.0]], b=[1e-12])
    found, coin = (best_linear(each, 1.0, n=1_000, outputs=9) for each in (of, Model([0.0, 1.0])))
    assert found.certificate.risk == pytest.approx(coin.certificate.risk, rel=0.01)
    assert certified.largest(of.standard, np.array([0.1, -0.1, 2.0])) == pytest.approx(0.1, abs=1e-11)


@pytest.mark.parametrize("epsilon", [2.0**-20, 1e-3, 1.0, 700.0])
@pytest.mark.parametrize("n", [10, 10**12])
def test_the_bias_of_three_outcomes_in_rationals(epsilon, n):
    found = clipped_response(epsilon, n=n, kappa=2.0, C=1.0)
    level, values = Fraction(found.points[2]), [Fraction(v) for v in found.channel.values]
    means = [sum(Fraction(int(w), found.channel.denominator) * v for w, v in zip(row, values, strict=True)) for row in found.channel.rows]
    lost = max(abs(means[0] + level), abs(means[1]), abs(means[2] - level))
    clipping = 1 / (4 * level) if level > Fraction(1, 2) else 1 - level  # sup E(|x| − L)₊ under E x² ≤ 1
    assert Fraction(found.bias) >= (clipping + lost) * (1 - Fraction(1, 10**15))
    assert found.bias == pytest.approx(float(clipping), rel=1e-9)


def test_the_channel_keeps_its_level_exactly(found):
    rows, denominator = found.mean.channel.rows, found.mean.channel.denominator
    exact = [[Fraction(int(w), denominator) for w in row] for row in rows]
    assert all(sum(row) == 1 for row in exact)
    E = Fraction(738905609893065022723043, 10**23)  # e², rounded up at the 24th digit
    assert all(max(column) <= E * min(column) for column in zip(*exact, strict=True))
    assert found.mean.epsilon == 2.0


def test_risks_are_certified_and_attained(found):
    of, rows, values = found.model, found.channel, found.mean.values
    c, risk = found.mean.center, found.risk_bound()

    def error(p):
        mean, square = float(p @ rows @ values), float(p @ rows @ values**2)
        return (mean + c - float(p @ of.f)) ** 2 + (square - mean**2) / found.n

    assert error(found.worst) == pytest.approx(risk, rel=3e-6)
    assert of.contains(found.worst)
    generator = np.random.default_rng(3)
    for _ in range(60):
        p = of.extreme(generator.normal(size=of.size) + generator.choice([-3, 0, 3]) * of.f)[1]
        other = of.extreme(rows @ values**2 + generator.normal() * of.f)[1]
        share = generator.random()
        assert error(share * p + (1 - share) * other) <= risk * (1 + 1e-9)
    measured = minimax.simulate_risk(found, found.worst, replicates=200_000, rng=KeyedRandom(KEY))
    assert abs(measured.value - risk) < 5.5 * measured.stderr
    assert found.certificate.lower.value <= risk


@pytest.mark.long
def test_deviations_are_bounded_for_the_worst_distributions(found):
    generator = np.random.default_rng(4)
    for confidence in (0.5, 0.9, 0.999):
        margin = found.margin(confidence)
        for direction in (found.model.f, -found.model.f, found.channel @ found.mean.values**2):
            p = found.model.extreme(direction + 1e-3 * generator.normal(size=found.model.size))[1]
            measured = minimax.simulate_risk(found, p, replicates=100_000, rng=KeyedRandom(KEY))
            assert measured.tail(margin) <= 1 - confidence
    assert found.margin(0.5) < found.margin(0.9) < found.margin(0.999)
    # Within a factor of what a normal law with this error needs.
    assert found.margin(0.95) < 3.2 * math.sqrt(found.risk_bound())


@pytest.mark.parametrize("confidence", [pytest.param(0.6), pytest.param(0.99, marks=pytest.mark.long)])
def test_a_margin_is_chernoffs_with_half_of_the_error_on_each_side(confidence):
    n, rates, of = 200, np.geomspace(0.01, 50.0, 3_000), Model([0.0, 1.0])
    found = best_linear(of, 1.0, n=n, outputs=3)
    rows, values, center = found.channel, found.mean.values, found.mean.center
    needed = []
    for sign, p in itertools.product((-1.0, 1.0), np.linspace(0.0, 1.0, 21)):
        law = (1 - p) * rows[0] + p * rows[1]
        cumulants = np.log(np.exp(sign * rates[:, None] * (values + center - p)) @ law)
        needed.append(float(((cumulants + math.log(2 / (1 - confidence)) / n) / rates).min()))
    assert max(needed) * (1 - 1e-4) <= found.margin(confidence) <= 1.1 * max(needed)


def multinomial(n: int, q) -> list[tuple[tuple[int, ...], float]]:
    counts = [c for c in itertools.product(range(n + 1), repeat=len(q)) if sum(c) == n]

    def ways(c):
        return math.factorial(n) // math.prod(map(math.factorial, c))

    return [(c, ways(c) * math.prod(mass**k for mass, k in zip(q, c, strict=True))) for c in counts]


@pytest.mark.some(4)
@pytest.mark.parametrize("n", [1, 2, 5])
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 5.0])
@pytest.mark.parametrize(
    "of",
    [Model([0.0, 1.0]), Model([-1.0, 0.0, 1.0], A=[[0.0, -1.0, 0.0]], b=[-0.999]), Model([0.0, 1e-9, 1e9]), model("two points")],
    ids=["coin", "rare", "units", "two points"],
)
def test_coverage_of_intervals_by_enumeration(n, epsilon, of):
    found = best_linear(of, epsilon, n=n, outputs=5)
    generator = np.random.default_rng(0)
    laws = [of.extreme(generator.normal(size=of.size))[1] for _ in range(5)] + [found.certificate.lower.p0, found.certificate.lower.p1]
    every = np.array([counts for counts, _ in multinomial(n, found.channel[0])])
    estimates = np.asarray(found.estimate(every))
    for confidence in (0.6, 0.95):
        ends, size = found.interval(estimates, confidence), float(np.abs(of.f).max())
        for p in laws:
            masses = np.array([mass for _, mass in multinomial(n, p @ found.channel)])
            covered = (ends[:, 0] <= of.theta(p) + 1e-12 * size) & (of.theta(p) <= ends[:, 1] + 1e-12 * size)
            assert masses[covered].sum() >= confidence - 1e-9


def test_intervals_without_the_bias_or_of_half_the_width_do_not_cover():
    # Teeth of the enumeration: one report about a coin at ε = 0.05, where an estimate near the middle is mostly bias.
    of = Model([0.0, 1.0])
    found = best_linear(of, 0.05, n=5, outputs=5)
    every = multinomial(5, found.channel[0])
    estimates = np.asarray(found.estimate(np.array([counts for counts, _ in every])))
    margin = found.margin(0.6)

    def coverage(width: float) -> float:
        masses = np.array([mass for _, mass in multinomial(5, found.channel[0])])
        return float(masses[np.abs(estimates - of.f[0]) <= width].sum())

    assert coverage(margin) >= 0.6
    assert coverage(margin - found.bias) < 0.6
    assert coverage(margin / 2) < 0.6


@pytest.mark.some(2)
@pytest.mark.parametrize("kappa", [1.5, 2.0, 4.0])
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_bounds_on_the_line_hold_on_every_grid(kappa, epsilon):
    grid = np.sinh(np.linspace(-4.0, 4.0, 61)) / np.sinh(4.0) * 30.0
    found = best_linear(Model.moment(grid, kappa=kappa, C=1.0), epsilon, n=2_000, outputs=15)
    mean = found.for_records()
    for fine in (np.linspace(-60.0, 60.0, 2401), np.sort(np.concatenate([grid * 1.01, [-400.0, 400.0]])), grid):
        other = mean.on(Model.moment(fine, kappa=kappa, C=1.0), n=2_000)
        assert other.bias <= mean.bias * (1 + 1e-9)
        assert other.second_moment <= mean.second_moment * (1 + 1e-9)
    dense = mean.on(Model.moment(np.linspace(-60.0, 60.0, 2401), kappa=kappa, C=1.0), n=2_000)
    assert dense.bias >= 0.98 * mean.bias
    assert dense.second_moment >= 0.98 * mean.second_moment


def test_records_beyond_a_short_grid_cost_their_distance():
    # Unbiased up to 3, so the worst distribution has its mass at 0 and 6: sup E(|x| − 3)₊ = 1/12 under E x² ≤ 1.
    mean = best_linear(Model.moment(np.linspace(-3.0, 3.0, 13), kappa=2.0, C=1.0), 1.0, n=10**8, outputs=5).for_records()
    assert mean.bias == pytest.approx(1 / 12, rel=0.02)
    wide = mean.on(Model.moment(np.linspace(-12.0, 12.0, 97), kappa=2.0, C=1.0), n=10**8)
    assert 0.98 * mean.bias <= wide.bias <= mean.bias


def test_three_outcomes_have_the_risk_of_their_formula():
    # κ = 2: 1/(16L²) + L²(E + 2)(2 + (E − 1)/L)/((E − 1)²n)
    for epsilon, n in itertools.product((0.5, 3.0), (10**3, 10**6)):
        E, found = math.exp(epsilon), clipped_response(epsilon, n=n, kappa=2.0, C=1.0)
        levels = np.geomspace(0.51, 1e4, 20_001)
        risks = 1 / (16 * levels**2) + levels**2 * (E + 2) * (2 + (E - 1) * np.minimum(1 / levels, 1)) / ((E - 1) ** 2 * n)
        assert found.risk_bound(n=n) == pytest.approx(float(risks.min()), rel=1e-5)
        assert found.points[2] == pytest.approx(float(levels[risks.argmin()]), rel=1e-2)
        grid = np.linspace(-40.0, 40.0, 201)
        on = found.on(Model.moment(grid, kappa=2.0, C=1.0), n=n)
        assert on.bias <= found.bias * (1 + 1e-9)
        assert on.risk_bound() <= found.risk_bound(n=n)
        one_bit = truncated_moment(epsilon, n=n, kappa=2.0, C=1.0).risk_bound(n=n)
        assert (found.risk_bound(n=n) < one_bit) == (epsilon > 1.0)


def test_reports_about_numbers_are_unbiased_and_private():
    mean = clipped_response(1.0, n=1_000, kappa=2.0, C=1.0, level=2.0)
    records = np.repeat([-5.0, -0.5, 0.0, 1.25, 2.0], 40_000)
    reports = mean.privatize(records, rng=KeyedRandom(KEY))
    assert reports.dtype == np.uint8
    for value in (-5.0, -0.5, 0.0, 1.25, 2.0):
        q = mean.matrix_at([value])[0]
        counts = np.bincount(reports[records == value], minlength=3)
        assert np.abs(counts / 40_000 - q).max() < 6 * math.sqrt(0.25 / 40_000)
        assert q @ mean.values == pytest.approx(np.clip(value, -2.0, 2.0), abs=1e-9)
    # Bit for bit, whatever the number of threads.
    again = mean.privatize(records, rng=KeyedRandom(KEY), threads=3)
    assert (again == reports).all()
    extreme = mean.matrix_at([-1e300, -2.0, 0.0, 0.3, 2.0, 1e300])
    assert np.log(extreme.max(axis=0) / extreme.min(axis=0)).max() <= 1.0 + 1e-12
    assert mean.privatize(-math.inf) in (0, 1, 2)
    assert pickle.loads(pickle.dumps(mean)).risk_bound(n=10) == mean.risk_bound(n=10)
    with pytest.raises(DataError, match="index \\(2,\\)"):
        mean.privatize([0.0, 1.0, math.nan])


@pytest.mark.parametrize(
    "mechanism", [local.BinaryChannel(1.0, [-1.0, -0.2, 0.2, 1.0]), local.KaryResponse(1.0, k=4)], ids=["bit", "k-ary"]
)
def test_best_values_of_given_channels(mechanism):
    of, n = Model([0.0, 1.0, 2.0, 4.0]), 5_000
    found, rows = best_values(of, mechanism, n=n), mechanism.channel()
    vertices = np.eye(4)
    own = objective(of, vertices, rows, found.mean.values, n)
    assert own == pytest.approx(found.bias**2 + found.second_moment / n, rel=1e-6)
    generator = np.random.default_rng(1)
    for size in (1e-3, 1e-2, 0.1, 1.0):
        for _ in range(50):
            other = found.mean.values * (1 + size * generator.normal()) + size * generator.normal(size=rows.shape[1])
            assert objective(of, vertices, rows, other, n) >= own * (1 - 1e-6)
    reports = mechanism.privatize(np.repeat([0, 3], 2_500), rng=KeyedRandom(KEY))
    assert abs(found.estimate_reports(np.asarray(reports, np.uint8)) - 2.0) < found.margin(0.999999)


def test_more_outputs_help_and_one_bit_is_a_special_case():
    of, n = model("moment 2"), 2_000
    one_bit = best_linear(of, 3.0, n=n, outputs=2)
    many = best_linear(of, 3.0, n=n, outputs=21)
    assert one_bit.mean.channel.outcomes == 2
    assert many.certificate.risk < one_bit.certificate.risk / 1.5
    # Never worse than the channel that is optimal among one-bit channels for the search.
    given = best_values(of, minimax.optimal_channel(of, 3.0, n=n), n=n)
    assert one_bit.certificate.objective <= (given.bias**2 + given.second_moment / n) * (1 + 1e-3)


@pytest.mark.some(4)
@pytest.mark.parametrize(
    ("of", "epsilon", "n"),
    [
        (Model([0.0, 1e-12, 2e-12]), 1.0, 100),
        (Model([-1e12, 1e12, 3e11]), 1.0, 100),
        (Model([1e12, 1e12 + 1, 1e12 + 2]), 1.0, 100),
        (Model([0.0, 1.0, 2.0], A=[[0.0, 0.0, 1.0]], b=[1e-12]), 1.0, 1_000),
        (Model([0.0, 1.0]), 1e-6, 1),
        (Model([0.0, 1.0]), 1e-6, 10**12),
        (Model([0.0, 1.0]), 700.0, 10**12),
        (model("moment 1.5"), 1e-6, 1),
    ],
    ids=["tiny", "huge", "far", "rare", "no privacy left", "many", "open", "solver"],
)
def test_extreme_problems(of, epsilon, n):
    found = best_linear(of, epsilon, n=n, outputs=9)
    low, high = of.theta_range
    assert 0 < found.certificate.lower.value <= found.certificate.risk <= ((high - low) / 2) ** 2 * (1 + 1e-3)
    assert found.mean.epsilon == epsilon
    assert math.isfinite(found.margin(0.9))


def test_refused_problems():
    of = model("two points")
    with pytest.raises(ParameterError, match="constant"):
        best_linear(Model([2.0, 2.0]), 1.0, n=10)
    for outputs in (1, 0, 1002, [1.0], [1.0, 1.0], [0.0, math.nan], "many", True):
        with pytest.raises((ParameterError, ParameterTypeError), match="outputs"):
            best_linear(of, 1.0, n=10, outputs=outputs)
    for n in (0, 2**40 + 1, 1.0):
        with pytest.raises((ParameterError, ParameterTypeError), match=r"\bn\b"):
            best_linear(of, 1.0, n=n)
    with pytest.raises(ParameterError, match="epsilon"):
        best_linear(of, 0.0, n=10)
    with pytest.raises(ParameterTypeError, match="model"):
        best_linear([0.0, 1.0], 1.0, n=10)
    for unit in (1e-300, 1e300):
        with pytest.raises(ParameterError, match="express f in another"):
            best_linear(Model([0.0, unit]), 1.0, n=10)
    with pytest.raises(ParameterError, match="level"):
        clipped_response(1.0, n=10, kappa=2.0, C=1.0, level=1e300)
    with pytest.raises(ParameterError, match="points that are numbers"):
        best_linear(of, 1.0, n=10, outputs=3).for_records()
    with pytest.raises(ParameterError, match="values"):
        ChannelMean(local.FiniteChannel([[1, 2], [2, 1]]))
    valued = local.FiniteChannel([[1, 2], [2, 1]], values=[0.0, 1.0])
    for wrong in ({"points": [1.0, 0.0]}, {"points": [1.0]}, {"bias": -1.0}, {"center": math.nan}):
        with pytest.raises(ParameterError, match=next(iter(wrong))):
            ChannelMean(valued, **wrong)
    with pytest.raises(ParameterError, match="bias is not known"):
        ChannelMean(valued).risk_bound(n=5)
    found = ChannelMean(valued).on(of, n=4)
    with pytest.raises(DataError, match="sum to 4"):
        found.estimate([[1, 2], [4, 0]])
    with pytest.raises(ParameterError, match="2 numbers"):
        found.estimate([4])
    with pytest.raises(ParameterError, match="model must have 2 points"):
        ChannelMean(valued).on(Model([0.0, 1.0, 2.0]), n=4)
