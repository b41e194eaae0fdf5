"""The ends of all ranges: bounds that stay bounds where float64 ends, records without a value, and arguments of a wrong kind."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from dpcore.errors import DataError, ParameterError, ParameterTypeError
from dpcore.local import Aggregate, BinaryChannel, BinaryResponse
from dpcore.minimax import (
    AdaptiveDensity,
    BinarySearchEstimator,
    LinearEstimator,
    Model,
    SeveralFunctionals,
    TwoStageMean,
    affinity_of_models,
    channel_densities,
    channel_lower_bound,
    channel_upper_bound,
    density_at,
    density_level,
    event_probability,
    indistinguishable_difference,
    indistinguishable_radius,
    minimax_test,
    reports_testing_affinity,
    truncated_moment,
    worst_distribution,
)
from dpcore.minimax.linear.counts import exact_difference
from dpcore.minimax.spaces.inversion import _p_values
from dpcore.minimax.spaces.products import power_up

pytest.importorskip("clarabel")
COIN, BIT = Model([0.0, 1.0]), BinaryResponse(1.0)
SIGN = LinearEstimator([-1.0, 1.0], 1.0, bias=0.0)


# Two stages


def test_the_page_of_a_mean_whose_first_stage_finds_nothing():
    """Its interval has no confidence; a page of 95 % says that it is of 95 %."""
    lost = TwoStageMean(1e-3, n=300, lower=-20.0, upper=20.0, kappa=2.0, C=1.0, tests=4, group=3)
    assert lost.failure == 1.0
    assert "interval" not in lost.estimate(np.zeros(300, np.bool_))._repr_html_()
    sure = TwoStageMean(2.0, n=30_000, lower=-20.0, upper=20.0, kappa=2.0, C=1.0)
    found = sure.estimate(np.zeros(30_000, np.bool_))
    low, high = found.interval(0.95)
    assert f"95 % interval</th><td>{low:.6g} to {high:.6g}" in found._repr_html_().replace(" style='text-align:left'", "")


@pytest.mark.parametrize("kappa", [1.0001, 2.0, 1024.0])
@pytest.mark.parametrize("C", [1e-307, 1e308])
@pytest.mark.filterwarnings("error")
def test_moments_of_any_size_leave_a_bound(kappa, C):
    for edge in (1.0, 2.0**400):
        mean = TwoStageMean(1.0, n=3000, lower=-edge, upper=edge, kappa=kappa, C=C)
        assert 0 < mean.risk_bound() <= 4 * edge**2 * (1 + 1e-9)
        assert mean.level <= 2.0**481


def test_a_range_of_a_few_floats():
    """Its middles are rounded by more than the margin: the radius holds for the middles that there are."""
    low = 1e9
    mean = TwoStageMean(20.0, n=1000, lower=low, upper=low + 2.0**-20, kappa=2.0, C=1e-30, tests=6, group=101)
    assert mean.failure < 1e-9
    for theta in low + 2.0**-23 * np.arange(9):
        reports = np.zeros(1000, np.bool_)
        for j in range(6):  # majorities of people who all hold θ and never lie
            part = slice(101 * j, 101 * (j + 1))
            reports[part] = theta > mean.question(reports[: 101 * j])
        middle = Fraction(mean.question(reports[:606]).center)
        assert abs(Fraction(float(theta)) - middle) <= Fraction(mean.radius)
        found = mean.estimate(reports).range
        assert found[0] <= theta - 1e-15 < theta + 1e-15 <= found[1] or found[0] < theta < found[1]
    assert mean.radius < 2.0**-20


# One record, one place in a message


@pytest.mark.parametrize("m", [0, 1, 2])
def test_a_window_has_no_value_for_nan(m):
    density = density_at(0.0, 1.0, n=100, smoothness=3.5, C=1.0, m=m)
    with pytest.raises(DataError, match=r"index \(1,\)"):
        density.privatize([0.0, math.nan, 9.0])
    assert np.isnan(density.ell(np.array([math.nan, 0.1]))).tolist() == [True, False]
    beyond = density.ell(np.array([math.inf, -math.inf, 1e308, density.h * 1.0001]))
    assert (beyond == -density.center).all()


@pytest.mark.parametrize("split", ["records", "vector"])
def test_a_message_names_the_place_among_all_records(split, monkeypatch):
    monkeypatch.setattr("dpcore.minimax.adaptive.several.BLOCK", 8)  # blocks of four
    tables = SeveralFunctionals([SIGN] * 2, 1.0, n=20, split="vector")
    with pytest.raises(DataError, match="index 13 is not"):
        tables.privatize(np.where(np.arange(20) == 13, 2, 0))
    functions = SeveralFunctionals([LinearEstimator(np.sin, 1.0, bound=1.0)] * 2, 1.0, n=20, split=split)
    place = {"records": r"index \(3,\)", "vector": "index 13"}[split]  # of the group that is asked, or of all
    with pytest.raises(DataError, match=place):
        functions.privatize(np.where(np.arange(20) == 13, np.nan, 0.5))


# Bounds


@pytest.mark.parametrize("eta", [5e-324, 1e-300, 1e-17, 2.0**-53, 0.49999, 0.5, 1 - 2.0**-53])
@pytest.mark.parametrize("n", [1, 10**12])
def test_sums_of_errors_of_any_size(eta, n):
    assert 0 < indistinguishable_radius(BIT, eta=eta, n=n) < 3
    found = indistinguishable_difference(COIN, BIT, eta=eta, n=n)
    assert 0 <= found.value <= found.upper <= 1 + 1e-9


def test_the_two_forms_of_a_radius_agree_where_they_meet():
    radii = [indistinguishable_radius(BIT, eta=eta, n=7) for eta in (0.5 - 2.0**-54, 0.5)]
    assert radii[0] == pytest.approx(radii[1], rel=1e-14)


def test_bounds_beyond_float64_are_rounded_their_own_way():
    huge, tiny = Model([0.0, 1e300]), Model([0.0, 1e-300])
    assert channel_lower_bound(huge, BIT, n=10).value < math.inf == channel_upper_bound(huge, BIT, n=10).value
    assert channel_lower_bound(tiny, BIT, n=10).value == 0.0 < channel_upper_bound(tiny, BIT, n=10).value
    assert 0 < reports_testing_affinity(COIN, BIT, difference=1.0, n=10**12).upper < 1e-300
    disjoint = Model.hull([0.0, 1.0], [[1.0, 0.0]]), Model.hull([0.0, 1.0], [[0.5, 0.5]])
    assert 0 < affinity_of_models(*disjoint).error_bound(2**53) < 1e-300
    assert power_up(1.0, 2**53) == 1.0
    assert Fraction(power_up(0.75, 3)) >= Fraction(27, 64)


def test_an_error_sum_is_that_of_the_test_that_is_returned():
    """Where nothing can be told, the errors of φ sum to 1 or, as they are rounded up, to slightly more."""
    found = minimax_test(COIN, COIN)
    assert found.value >= sum(map(Fraction, found.errors)) >= 1
    assert found.value == pytest.approx(1.0, abs=1e-12)


def test_a_bias_far_from_0_is_rounded_up():
    """center + ℓ − f in floats loses more than the bias itself."""
    rng = np.random.default_rng(2)
    for scale in (1.0, 1e9, 1e16):
        for _ in range(7):
            f = scale + rng.uniform(-0.5, 0.5, 4)
            ell, center = rng.uniform(-0.5, 0.5, 4), float(scale + rng.uniform(-1e-3, 1e-3))
            found = LinearEstimator(ell, 1.0, center=center).on(Model(f), n=10).bias
            exact = max(abs(Fraction(center) + Fraction(w) - Fraction(x)) for w, x in zip(ell.tolist(), f.tolist(), strict=True))
            assert exact <= Fraction(found) <= exact * (1 + Fraction(1, 10**9))
    assert exact_difference(1.0, np.array([-1.0, 0.25]), np.array([0.0, 1.25]))[1] == 0.0


def test_a_range_of_q_narrower_than_its_rounding():
    """The inner ends that p-values use lie inside by a rounding of q, however narrow the channel is."""
    search = BinarySearchEstimator(COIN, [[0.5, 0.5], [0.5 - 2.0**-50, 0.5 + 2.0**-50]], n=10, step=0.3)._search
    ends = np.linspace(*search.theta_range, 9)
    seen = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dpcore.minimax.spaces.inversion._too_many", lambda n, count, low, high, most: seen.setdefault("q", (low, high))[0])
        _p_values(search.polygon, 10, 5, ends)
    low, high = search.polygon.range_over(ends, ends)
    assert (seen["q"][0] >= np.maximum(low[:-1], low[1:]) + 2.0**-51).all()
    assert (seen["q"][1] <= np.minimum(high[:-1], high[1:]) - 2.0**-51).all()


@pytest.mark.filterwarnings("error")
def test_bandwidths_and_levels_beyond_float64():
    with pytest.raises(ParameterError, match=r"h must be in \[.*\] for m = 15, got 1e-30"):
        density_at(0.0, 1.0, n=10, smoothness=16.0, C=1.0, m=15, h=1e-30)
    with pytest.raises(ParameterError, match="h must be smaller"):
        density_at(0.0, 1.0, n=10, smoothness=16.0, C=1.0, h=1e290)
    with pytest.raises(ParameterError, match="h must be in"):
        AdaptiveDensity(0.0, 1.0, n=10, bandwidths=[1.0, 2.0**-100], smoothest=16.0, m=15)
    assert truncated_moment(1.0, n=10, kappa=1.0 + 1e-7, C=1e300).bias < 1e301
    assert truncated_moment(1.0, n=10, kappa=2.0, C=1.0, h=1e-300).risk_bound(n=10) == math.inf


def test_densities_beyond_float64_are_refused():
    with pytest.raises(ParameterError, match="that of input 1 at outcome 0 is not"):
        channel_densities([[5e-324, 1.0], [0.5, 0.5]])


# Arguments of another kind


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: SIGN.on("moment", n=3), ParameterTypeError, "model must be a Model, got str"),
        (lambda: worst_distribution(SIGN.on(COIN, n=3), "moment"), ParameterTypeError, "model must be a Model, got str"),
        (lambda: affinity_of_models(COIN, COIN).decide("ab"), ParameterTypeError, "counts must have one of the dtypes"),
        (lambda: affinity_of_models(COIN, COIN).decide([[1.0, 2.0], [math.nan, 1.0]]), DataError, r"index \(1, 0\) is not"),
        (lambda: COIN.contains([0.5, 0.5], tolerance="much"), ParameterTypeError, "tolerance must be"),
        (lambda: COIN.contains([0.5, 0.5], tolerance=math.nan), ParameterError, "tolerance must be"),
        (lambda: density_level(lambda z, x: ["a"] * len(z), inputs=[0.0], outputs=[0.0]), ParameterTypeError, "density must have"),
        (lambda: SeveralFunctionals([SIGN] * 2, 1.0, n=10).estimate([np.zeros((5, 3), np.bool_)] * 2), ParameterError, "5 reports, got 15"),
        (
            lambda: SeveralFunctionals([SIGN] * 2, 1.0, n=4).estimate([np.zeros(2, np.bool_)] * 2).interval(1 - 2.0**-53, joint=True),
            ParameterError,
            "lower for 2 joint intervals",
        ),
    ],
)
def test_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_counts_and_reports_are_not_mixed():
    adaptive = AdaptiveDensity(0.0, 2.0, n=60, bandwidths=[1.0, 0.5])
    counts = [Aggregate(each.channel, 30, np.array([3])) for each in adaptive.estimators]
    with pytest.raises((ParameterError, ParameterTypeError), match="reports"):
        adaptive.estimate([counts[0], np.zeros(30, np.bool_)])
    assert adaptive.estimate(tuple(counts)).value == adaptive.estimate(counts).value


def test_designs_with_weights_are_values():
    designs = [SeveralFunctionals([SIGN] * 2, 1.0, n=10, weights=weights) for weights in (np.array([1.0, 2.0]), [1, 2])]
    assert designs[0] == designs[1]
    assert hash(designs[0]) == hash(designs[1])
    assert designs[0].weights == (1.0, 2.0)


@pytest.mark.parametrize("n", [1, 10**12])
@pytest.mark.parametrize("model", [Model([3.0, 3.0, 3.0]), Model.hull([0.0, 1.0, 2.0], [[0.0, 1.0, 0.0]])], ids=["constant", "one member"])
def test_models_without_a_choice(model, n):
    theta = model.theta_range[0]
    for channel in (BinaryChannel(1.0, [-1.0, 0.0, 1.0]), np.full((3, 3), 1 / 3)):
        search = BinarySearchEstimator(model, channel, n=n)
        counts = [n, *[0] * (search.matrix.shape[1] - 1)]
        row = np.array([counts])
        assert search.estimate(row)[0] == pytest.approx(theta, abs=1e-12)
        low, high = search.interval(counts=row, confidence=0.9)[0]
        assert low <= theta <= high
        assert high - low < 1e-12
        assert search.risk_bound() < 1e-24
        assert search.margin() < 1e-12
    linear = LinearEstimator([-1.0, 0.0, 1.0], 1.0).on(model, n=n)
    assert np.all(np.abs(linear.interval([0, n]) - theta) < 1e-9)


def test_an_event_is_what_its_function_says_of_nan():
    assert event_probability(np.isnan, 30.0).privatize([math.nan, 0.0]).tolist() == [True, False]
