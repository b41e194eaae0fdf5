"""The face of `dpcore.planning`: what it takes and refuses, how it searches, and what its answers say."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest

from dpcore._error_curves import SIZE, ErrorCurve, grid
from dpcore.errors import ParameterError, ParameterTypeError
from dpcore.local import (
    BinaryResponse,
    BoundedMean,
    KaryResponse,
    LocalHashing,
    LocalLaplace,
    ProjectiveGeometryResponse,
    SubsetSelection,
    UnaryEncoding,
)
from dpcore.minimax import LinearEstimator, Model, truncated_moment
from dpcore.planning import AdaptiveAnswers, Aim, BinarySearch, Mean, Plan, Recipe, UniformityTest, epsilon_for, sample_size
from dpcore.planning.answers import BACK, LOOKED_BACK


@dataclasses.dataclass(frozen=True)
class Drawn:
    """An error that a test draws, as something that can be planned."""

    error: object
    falls: bool = False
    slow: bool = False

    def error_curve(self, aim: Aim, *, factor: float = 1.0) -> ErrorCurve:
        return ErrorCurve(
            lambda n, epsilon: factor * self.error(n, epsilon),
            what="a test",
            formula="a formula",
            source="a source",
            epsilon=1.0,
            sizes=(1, 10**6),
            falls_in_n=self.falls,
            falls_in_epsilon=self.falls,
            slow=self.slow,
        )


# The search


@pytest.mark.parametrize("target", [0.9, 0.1, 0.0314, 0.001001])
def test_n_is_the_least_of_a_falling_error_and_the_one_before_does_not_meet(target):
    plan = sample_size(Drawn(lambda n, _: 1 / math.sqrt(n), falls=True), rmse=target)
    assert plan.n == next(n for n in range(max(1, int(1 / target**2) - 3), 10**7) if 1 / math.sqrt(n) <= target)
    assert plan.least
    assert plan.error <= target < plan.error_at_less
    assert plan.less == plan.n - 1


@pytest.mark.parametrize("period", [3, 7, 10])
def test_an_error_that_rises_now_and_then_is_searched_below_the_first_answer(period):
    """The saw is met early in the teeth: a bisection alone stops at a later tooth, and is this test's broken twin."""

    def saw(n, _):
        return 1 / math.sqrt(n) * (1 + 0.2 * (n % period) / period)

    later = 0
    for target in np.linspace(0.02, 0.2, 60):
        plan = sample_size(Drawn(saw), rmse=float(target))
        least = next(n for n in range(1, 10**5) if saw(n, 1.0) <= target)
        alone = bisected(lambda n, target=target: saw(n, 1.0) <= target)
        later += alone > least
        assert plan.n == least
        assert not (plan.least and plan.n > 1)
    assert later > 10


def bisected(meets):
    high = 1
    while not meets(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if meets(middle) else (middle, high)
    return high


def test_a_slow_error_is_searched_among_numbers_of_three_digits_and_asked_less_often():
    asked = []

    def error(n, _):
        asked.append(n)
        return 1 / math.sqrt(n)

    plan = sample_size(Drawn(error, slow=True), rmse=0.00301)
    assert plan.n == 111_000
    assert plan.less == 110_000
    assert len(asked) < 40 < 2 * (LOOKED_BACK + BACK)
    assert sample_size(Drawn(error, slow=True), rmse=0.0316).n == 1010


def test_epsilon_is_the_least_of_the_grid_of_dpcore_plan():
    plan = epsilon_for(Drawn(lambda n, epsilon: 1 / (epsilon * n), falls=True), n=1000, rmse=0.0123)
    assert plan.epsilon == 0.0814
    assert plan.less == 0.0813
    assert plan.least
    assert plan.error <= 0.0123 < plan.error_at_less
    assert (grid(0), grid(SIZE - 1)) == (1e-6, 1000.0)


def test_an_error_with_a_best_epsilon_is_met_between_the_ends():
    valley = Drawn(lambda n, epsilon: abs(math.log(epsilon)) / n)
    plan = epsilon_for(valley, n=10, rmse=0.05)
    assert plan.epsilon == 0.607
    assert plan.error <= 0.05 < plan.error_at_less


def test_a_narrow_valley_is_found_between_the_places_that_are_tried_first():
    """The error falls steeply to ε = 0.3 and rises after it: within one per cent of the least at two places of the grid."""
    valley = Drawn(lambda n, epsilon: 1 + abs(math.log(epsilon / 0.3)))
    assert epsilon_for(valley, n=10, rmse=1.0001).epsilon == 0.3
    with pytest.raises(ParameterError, match=r"none that was tried of the epsilon from .*: the best is rmse 1 at epsilon = 0\.3\."):
        epsilon_for(valley, n=10, rmse=0.999)


def test_the_first_place_has_nothing_below_it():
    plan = sample_size(Drawn(lambda n, _: 0.1), rmse=1.0)
    assert plan.n == 1
    assert math.isnan(plan.less)
    assert math.isnan(plan.error_at_less)
    assert plan.least
    assert "nothing smaller" in repr(plan)
    assert "nothing smaller" in plan._repr_html_()


# What is said


def test_an_answer_states_the_bound_its_source_and_what_one_less_gives():
    plan = sample_size(KaryResponse(1.0, k=8), rmse=0.02, at=0.25)
    assert isinstance(plan, Plan)
    assert plan.exact
    assert plan.asked == "n"
    assert (
        repr(plan)
        == f"Plan(n={plan.n:,}, epsilon=1: root mean square error = {plan.error:.6g}, {plan.error_at_less:.6g} at n={plan.n - 1:,})"
    )
    page = plan._repr_html_()
    for part in (f"{plan.n:,}", "a frequency of 0.25", "docs/local.md", f"{plan.error_at_less:.6g}", "<td>yes</td>"):
        assert part in page, part
    bound = epsilon_for(truncated_moment(1.0, n=10**5, kappa=2.0, C=1.0), n=10**6, rmse=0.1)
    assert not bound.exact
    assert "≤" in repr(bound)
    assert repr(bound).startswith(f"Plan(epsilon={bound.epsilon:g}, n=1,000,000")


def test_words_of_others_are_escaped():
    class Hostile(Drawn):
        def __repr__(self):
            return "<script>"

    curve = Drawn(lambda n, _: 1 / n).error_curve(Aim("rmse", 1.0))
    plan = Plan("n", 1, 1.0, Aim("rmse", 1.0), 1.0, math.nan, math.nan, True, True, "<script>", curve.formula, curve.source)
    assert "<script>" not in plan._repr_html_()


# What is refused


@pytest.mark.parametrize("value", [0, 0.0, -1.0, math.nan, math.inf, "1", None, True])
@pytest.mark.parametrize("measure", ["rmse", "width"])
def test_targets_must_be_positive_numbers(measure, value):
    with pytest.raises((ParameterError, ParameterTypeError), match=rf"{measure}|exactly one"):
        sample_size(BinaryResponse(1.0), **{measure: value})


@pytest.mark.parametrize("arguments", [{}, {"rmse": 0.1, "width": 0.1}, {"rmse": 0.1, "power": 0.5}, {"power": 1.0}, {"power": 0.0}])
def test_one_target_is_given_and_power_is_a_probability(arguments):
    with pytest.raises(ParameterError, match=r"exactly one|power"):
        sample_size(BinaryResponse(1.0), **arguments)


@pytest.mark.parametrize("confidence", [0.0, 1.0, math.nan, 95])
def test_confidence_is_a_probability(confidence):
    with pytest.raises(ParameterError, match="confidence"):
        sample_size(BinaryResponse(1.0), width=0.1, confidence=confidence)


@pytest.mark.parametrize(
    ("thing", "arguments", "best", "why"),
    [
        (BinaryResponse(1.0), {"rmse": 1e-9}, "1.032e-06", "largest n"),
        (truncated_moment(1.0, n=10**6, kappa=2.0, C=1.0), {"rmse": 0.001}, "0.02326", "bias of 0.02326"),
        (truncated_moment(1.0, n=10**6, kappa=2.0, C=1.0), {"width": 0.04}, "0.0466", "bias"),
    ],
)
def test_a_target_that_no_n_meets_is_refused_with_the_best_and_the_reason(thing, arguments, best, why):
    with pytest.raises(ParameterError, match=why) as error:
        sample_size(thing, **arguments)
    assert f"the best is {next(iter(arguments))} {best}" in str(error.value)


@pytest.mark.parametrize(
    ("thing", "n", "arguments", "best", "why"),
    [
        (BinaryResponse(1.0), 100, {"rmse": 1e-3}, "0.05", "spread of the records"),
        (LocalLaplace(1.0, 0.0, 1.0), 10_000, {"rmse": 0.0049}, "0.005", "spread of the records"),
        (LinearEstimator([-1.0, 1.0], 1.0, bias=0.25), 10**6, {"rmse": 0.2}, "0.25", "bias"),
        (AdaptiveAnswers(100), 10**5, {"width": 0.1}, "0.23", "a best ε for each n"),
    ],
)
def test_a_target_that_no_epsilon_meets_is_refused_with_the_best_and_the_reason(thing, n, arguments, best, why):
    with pytest.raises(ParameterError, match=why) as error:
        epsilon_for(thing, n=n, **arguments)
    assert f"the best is {next(iter(arguments))} {best}" in str(error.value)


def test_a_target_about_which_nothing_is_proved_names_no_best():
    for thing, arguments in (
        (UniformityTest(0.5, d=10, delta=1e-6, level=0.05), {"n": 100, "power": 0.99}),
        (AdaptiveAnswers(10), {"n": 2, "width": 0.9}),
    ):
        with pytest.raises(ParameterError, match="nothing is proved for any of them"):
            epsilon_for(thing, **arguments)
    with pytest.raises(ParameterError, match="a miss with probability 1e-06, at n"):
        sample_size(UniformityTest(0.5, d=10, delta=1e-6), epsilon=1.0, power=1 - 1e-15)
    assert sample_size(UniformityTest(0.5, d=10, delta=1e-6, level=0.05), epsilon=1.0, power=1e-300).error_at_less <= 1.0


def test_a_range_without_an_epsilon_of_the_grid_is_refused():
    @dataclasses.dataclass(frozen=True)
    class Narrow(Drawn):
        def error_curve(self, aim: Aim) -> ErrorCurve:
            return dataclasses.replace(super().error_curve(aim), epsilons=(1.001, 1.002))

    with pytest.raises(ParameterError, match=r"epsilon must be in \[1\.001, 1\.002\], and no number of three digits"):
        epsilon_for(Narrow(lambda n, _: 1 / n), n=1, rmse=0.1)
    for ask in (sample_size, epsilon_for):
        with pytest.raises(ParameterError, match="delta must be at most"):
            ask(AdaptiveAnswers(10, delta=1 - 1e-9, about="records"), rmse=0.1, **({"n": 10} if ask is epsilon_for else {"epsilon": 0.1}))


def test_a_channel_that_claims_no_level_is_planned_at_its_own():
    identity = BinarySearch(Model([0.0, 1.0]), np.eye(2))
    plan = sample_size(identity, rmse=0.2)
    assert math.isinf(plan.epsilon)
    assert plan.error <= 0.2
    assert "inf" in plan._repr_html_()


def test_what_is_no_error_curve_is_refused():
    class Wrong:
        def error_curve(self, aim):
            return 0.1

    with pytest.raises(ParameterTypeError, match=r"Wrong\.error_curve must return a planning\.ErrorCurve, got float"):
        sample_size(Wrong(), rmse=0.1)


@pytest.mark.parametrize("n", [0, -1, 1.5, 2**41, "7"])
def test_numbers_of_records_are_checked(n):
    with pytest.raises((ParameterError, ParameterTypeError), match="n must"):
        epsilon_for(BinaryResponse(1.0), n=n, rmse=0.1)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, 701.0, math.nan])
def test_epsilons_are_checked(epsilon):
    with pytest.raises(ParameterError, match="epsilon must"):
        sample_size(BinaryResponse(1.0), rmse=0.1, epsilon=epsilon)


@pytest.mark.parametrize("thing", [BinaryResponse, Mean, Model([0.0, 1.0]), 7, None, "mean", lambda n, epsilon: None])
def test_what_cannot_be_planned_is_refused_with_what_can(thing):
    with pytest.raises(ParameterTypeError, match=r"planning\.BinarySearch.*planning\.Recipe"):
        sample_size(thing, rmse=0.1)


def test_what_is_assumed_must_be_something_that_the_thing_takes():
    with pytest.raises(ParameterTypeError, match="BinaryResponse is planned with at, target besides n and epsilon, got f"):
        sample_size(BinaryResponse(1.0), rmse=0.1, f=0.1)
    with pytest.raises(ParameterError, match="at must"):
        sample_size(BinaryResponse(1.0), rmse=0.1, at=1.5)
    with pytest.raises(ParameterError, match="target must"):
        sample_size(BinaryResponse(1.0), rmse=0.1, target="people")
    assert sample_size(Drawn(lambda n, _: 1 / n), rmse=0.1, factor=3.0).n == 30


@pytest.mark.parametrize(
    ("thing", "measure", "message"),
    [
        (LocalLaplace(1.0, 0.0, 1.0), "width", "follow the spread of the reports"),
        (Mean(radius=1.0), "power", "planned for rmse or width, got power"),
        (UniformityTest(0.5, d=10, delta=1e-6), "rmse", "planned for power, got rmse"),
        (AdaptiveAnswers(10), "rmse", "planned for width, got rmse"),
        (BinaryResponse(1.0), "power", "planned for rmse or width"),
        (LinearEstimator([-1.0, 1.0], 1.0), "rmse", "bias is not known"),
    ],
)
def test_measures_that_a_thing_has_not_are_refused(thing, measure, message):
    with pytest.raises(ParameterError, match=message):
        sample_size(thing, epsilon=0.5, **{measure: 0.5})


def test_other_names_of_a_target_and_what_is_found_are_refused():
    with pytest.raises(ParameterError, match=r"width \(twice a half-width\) and power must be given, got half_width"):
        sample_size(BinaryResponse(1.0), half_width=0.02)
    with pytest.raises(ParameterError, match="n is what sample_size finds"):
        sample_size(BinaryResponse(1.0), n=100, width=0.02)
    with pytest.raises(ParameterError, match="epsilon is what epsilon_for finds"):
        epsilon_for(BinaryResponse(1.0), n=100, epsilon=1.0, width=0.02)


def test_epsilon_is_required_where_the_thing_has_none():
    with pytest.raises(ParameterError, match="epsilon must be given"):
        sample_size(Mean(radius=1.0), rmse=0.1)
    assert sample_size(Mean(radius=1.0), rmse=0.1, epsilon=1.0).epsilon == 1.0
    assert sample_size(AdaptiveAnswers(100), width=0.5).epsilon > 0.1
    assert sample_size(BinaryResponse(2.0), rmse=0.1).epsilon == 2.0 != sample_size(BinaryResponse(2.0), rmse=0.1, epsilon=1.0).epsilon


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Mean(radius=0.0), "radius"),
        (lambda: Mean(radius="sqrt_log_n"), "sigma"),
        (lambda: Mean(radius=1.0, delta=1.0), "delta"),
        (lambda: Mean(radius=1.0, about="people"), "about"),
        (lambda: UniformityTest(11.0, d=100, delta=1e-6), "alpha"),
        (lambda: UniformityTest(0.5, d=100, delta=0.9), "delta"),
        (lambda: UniformityTest(0.5, d=100, delta=1e-3, level=1e-4), "level"),
        (lambda: AdaptiveAnswers(0), "uses"),
        (lambda: AdaptiveAnswers(10, delta=0.0), "delta"),
        (lambda: AdaptiveAnswers(10, about="records"), "delta must be given"),
        (lambda: BinarySearch([1.0, 2.0]), "model must be a Model"),
        (lambda: Recipe(7), "make must be a function"),
    ],
)
def test_designs_check_their_parameters(make, message):
    with pytest.raises((ParameterError, ParameterTypeError), match=message):
        make()


# Extremes


@pytest.mark.parametrize("epsilon", [2.0**-20, 1e-3, 1.0, 50.0, 700.0])
@pytest.mark.parametrize(
    "make",
    [
        BinaryResponse,
        lambda epsilon: KaryResponse(epsilon, k=1000),
        lambda epsilon: UnaryEncoding(epsilon, k=5, method="symmetric"),
        lambda epsilon: SubsetSelection(epsilon, k=30),
        lambda epsilon: LocalHashing(epsilon, k=30),
        lambda epsilon: BoundedMean(epsilon, -1e-100, 1e-100),
        lambda epsilon: BoundedMean(epsilon, 1e9, 1e9 + 1),
        lambda epsilon: LocalLaplace(epsilon, -1e6, 1e6),
    ],
)
def test_every_epsilon_has_a_plan_or_a_reason(make, epsilon):
    mechanism = make(epsilon)
    unit = math.sqrt(mechanism._spread(None, "population").variance)
    plan = sample_size(mechanism, rmse=unit / 100)
    assert plan.n in (10_000, 10_001)
    assert plan.error <= unit / 100
    with pytest.raises(ParameterError, match="is met by no n"):
        sample_size(mechanism, rmse=unit / 2**21)


def test_only_mechanisms_that_prove_it_claim_the_least_epsilon():
    """Their variance falls over the grid; those that choose a number anew for each ε claim nothing."""
    proved = (KaryResponse(1.0, k=9), UnaryEncoding(1.0, k=9), BinaryResponse(1.0), BoundedMean(1.0, 0.0, 1.0), LocalLaplace(1.0, 0.0, 1.0))
    for mechanism in (*proved, SubsetSelection(1.0, k=9), LocalHashing(1.0, k=9), ProjectiveGeometryResponse(1.0, k=9)):
        assert epsilon_for(mechanism, n=10**5, rmse=0.02).least == (mechanism in proved)
        if mechanism in proved:
            errors = [mechanism.error_curve(Aim("rmse", 1.0)).error(100, grid(place)) for place in range(500, SIZE - 901, 97)]
            assert all(later <= earlier * (1 + 1e-12) for earlier, later in itertools.pairwise(errors))


def test_a_radius_that_grows_with_n_claims_no_least():
    """The error about the population rises from n = 2 to 3, where the noise is small."""
    curve = Mean(radius="sqrt_log_n", sigma=1.0, constant=0.1, about="population").error_curve(Aim("rmse", 1.0))
    assert curve.error(3, 700.0) > curve.error(2, 700.0)
    assert not curve.falls_in_n
    assert Mean(radius=1.0, about="population").error_curve(Aim("rmse", 1.0)).falls_in_n


def test_bounds_of_a_mechanism_that_does_not_exist_for_some_epsilon_are_infinite_there():
    huge = BoundedMean(1.0, -1e152, 1e152)
    assert math.isinf(huge.error_curve(Aim("rmse", 1.0)).error(10, 2.0**-20))
    assert 1e-3 < epsilon_for(huge, n=10**6, rmse=1e151).epsilon < 1.0


def test_a_matrix_has_one_epsilon():
    model = Model([0.0, 1.0])
    matrix = np.array([[0.75, 0.25], [0.25, 0.75]])
    plan = sample_size(BinarySearch(model, matrix), rmse=0.2)
    assert plan.epsilon == pytest.approx(math.log(3))
    assert plan.error <= 0.2
    with pytest.raises(ParameterError, match="epsilon is that of the channel matrix"):
        epsilon_for(BinarySearch(model, matrix), n=100, rmse=0.2)
