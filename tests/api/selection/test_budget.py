"""What a selection costs and how much noise it has: composition, scales, refusals, and the values that it releases."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from dpcore import Privacy, accounting, noise, selection
from dpcore.errors import ParameterError
from dpcore.selection._plan import argmax_scale
from dpcore.testing import KeyedRandom
from support.kernels import KEY
from support.selection import rounded_up

SCORES = np.array([3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0])


def keyed(nonce: int = 0):
    return KeyedRandom(KEY).at(nonce)


def top(method: str, s: int = 1, scores: object = SCORES, **options: object) -> selection.Selection:
    """`top_s` with parameters that each method accepts."""
    epsilon = options.pop("epsilon", 0.1 if method == "oneshot_laplace" else 1.0)
    if method != "gumbel":
        options = {"delta": 1e-6, **options}
    return selection.top_s(scores, epsilon, options.pop("sensitivity", 1.0), s=s, method=method, **options)


METHODS = ("gumbel", "peeling", "oneshot_laplace")
each_method = pytest.mark.parametrize("method", METHODS)


@each_method
def test_privacy_is_that_of_the_call(method):
    for relation in ("replace", "add_remove"):
        for values in (False, True):
            found = top(method, 3, relation=relation, values=values)
            assert found.privacy.relation == relation
            assert found.privacy.epsilon <= (0.1 if method == "oneshot_laplace" else 1.0)
            assert found.privacy.delta <= (0.0 if method == "gumbel" else 1e-6)


def test_gumbel_shares_epsilon_over_the_picks():
    for s, epsilon, sensitivity in ((1, 1.0, 1.0), (3, 0.7, 2.0), (8, 4.0, 0.1)):
        found = selection.top_s(SCORES, epsilon, sensitivity, s=s)
        assert Fraction(found.scale) == rounded_up(2 * s * Fraction(sensitivity) / Fraction(epsilon))
        assert found.privacy == Privacy(epsilon)
        halved = selection.top_s(SCORES, epsilon, sensitivity, s=s, relation="add_remove", monotone=True)
        assert Fraction(halved.scale) == rounded_up(s * Fraction(sensitivity) / Fraction(epsilon))
        assert halved.privacy == Privacy(epsilon, relation="add_remove")


def test_only_scores_that_are_said_to_move_together_need_half_the_noise():
    """Also where a record is added or removed: it may raise one score and lower another."""
    needed = selection.top_s(SCORES, 1.0, 1.0, s=1).scale
    assert selection.top_s(SCORES, 1.0, 1.0, s=1, relation="add_remove").scale == needed == 2.0
    assert selection.top_s(SCORES, 1.0, 1.0, s=1, relation="add_remove", monotone=True).scale == needed / 2
    for relation in ("replace", "add_remove"):
        assert argmax_scale(1.0, 1.0, 1, relation, monotone=False) == needed


def gumbel_rules(s: int, epsilon: float, delta: float) -> dict[str, float]:
    """The largest ε of a pick that each rule of composition allows, by bisection on the textbook formulas."""

    def largest(spent):
        low, high = 0.0, epsilon
        if spent(high) <= epsilon:
            return high
        for _ in range(200):
            middle = (low + high) / 2
            low, high = (middle, high) if spent(middle) <= epsilon else (low, middle)
        return low

    return {
        "basic": epsilon / s,
        "advanced": largest(lambda e: e * math.sqrt(2 * s * math.log(1 / delta)) + s * e * math.expm1(e)),
        "zcdp": largest(lambda e: accounting.zcdp_epsilon(s * e * e / 8, delta) if e else 0.0),
    }


@pytest.mark.parametrize(
    ("s", "epsilon", "delta"),
    [(1, 1.0, 1e-6), (2, 1.0, 1e-6), (10, 1.0, 1e-6), (100, 1.0, 1e-6), (100, 0.1, 1e-9), (30, 20.0, 1e-3), (300, 5.0, 1e-12)],
)
def test_gumbel_takes_the_best_rule(s, epsilon, delta):
    scores = np.zeros(300)
    found = selection.top_s(scores, epsilon, 1.0, s=s, delta=delta)
    each_pick = 2 / found.scale
    best = max(gumbel_rules(s, epsilon, delta).values())
    assert each_pick >= best * (1 - 1e-6)
    # never more than composition of pure ε allows at all: the rule of bounded range is the strongest of those that are used
    assert each_pick <= best * 1.3
    assert found.privacy.epsilon <= epsilon
    assert found.privacy.delta <= delta
    assert isinstance(found.rule, str)


def peeling_b(s: int, epsilon: float, delta: float, sensitivity: float) -> float:
    return 2 * sensitivity * math.sqrt(3 * s * math.log(1 / delta)) / epsilon


@pytest.mark.parametrize("s", [1, 5, 100])
@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-12])
def test_the_printed_scale_of_peeling_is_accepted_where_it_holds(s, delta):
    for share in (0.01, 0.1, 0.418):
        epsilon = share * math.log(1 / delta)
        for values in (False, True):
            found = selection.top_s(np.zeros(200), epsilon, 2.0, s=s, delta=delta, method="peeling", values=values)
            assert math.isclose(found.scale, peeling_b(s, epsilon, delta, 2.0), rel_tol=1e-12)
            assert found.scale >= peeling_b(s, epsilon, delta, 2.0) * (1 - 1e-15)
            assert found.privacy.epsilon <= epsilon
            assert found.privacy.delta <= delta


def test_the_printed_scale_of_peeling_is_refused_where_it_does_not_hold():
    """Erratum of Private inference (chapter 9), Algorithm 9.2.2: many rounds at a large ε."""
    for s, delta, share in ((2000, 1e-3, 4.0), (2000, 1e-6, 4.0), (2000, 1e-12, 3.0)):
        epsilon = share * math.log(1 / delta)
        with pytest.raises(ValueError, match="scale"):
            selection.top_s(np.zeros(3000), epsilon, 1.0, s=s, delta=delta, method="peeling", values=True)
        calibrated = selection.top_s(np.zeros(3000), epsilon, 1.0, s=s, delta=delta, method="peeling", values=True, scale="calibrated")
        assert calibrated.scale > peeling_b(s, epsilon, delta, 1.0)


def spent_by_peeling(s: int, b: float, delta: float, *, values: bool) -> float:
    """Least ε at this δ that basic composition or zCDP shows for s rounds of 2λ/b and, with values, s releases of λ/b."""
    rounds, releases = 2 / b, 1 / b if values else 0.0
    basic = s * (rounds + releases)
    return min(basic, accounting.zcdp_epsilon(s * (rounds**2 + releases**2) / 2, delta)) if delta else basic


@pytest.mark.some(3)
@pytest.mark.parametrize(("s", "epsilon", "delta"), [(1, 1.0, 1e-6), (10, 1.0, 1e-6), (100, 1.0, 1e-6), (100, 3.0, 1e-3), (5, 0.1, 1e-9)])
def test_the_calibrated_scale_is_the_least_that_holds(s, epsilon, delta):
    for values in (False, True):
        options = {"delta": delta, "method": "peeling", "values": values}
        found = selection.top_s(np.zeros(200), epsilon, 1.0, s=s, scale="calibrated", **options)
        assert found.scale < peeling_b(s, epsilon, delta, 1.0)
        assert spent_by_peeling(s, found.scale * 1.6, delta, values=values) <= epsilon  # not absurdly small for what is known
        assert spent_by_peeling(s, found.scale * 0.999, delta, values=values) >= epsilon * 0.98 or found.rule not in ("basic", "zcdp")
        assert selection.top_s(np.zeros(200), epsilon, 1.0, s=s, scale=found.scale, **options).scale == found.scale
        with pytest.raises(ParameterError, match="scale"):
            selection.top_s(np.zeros(200), epsilon, 1.0, s=s, scale=found.scale * 0.99, **options)


def test_a_scale_of_ones_own_is_checked():
    options = {"method": "peeling", "delta": 1e-6}
    largest = selection.top_s(SCORES, 1.0, 1.0, s=3, scale=1e6, **options)
    assert largest.scale == 1e6
    with pytest.raises(ParameterError, match="scale"):
        selection.top_s(SCORES, 1.0, 1.0, s=3, scale=0.5, **options)
    # pure ε: s rounds of 2λ/b
    assert selection.top_s(SCORES, 1.0, 1.0, s=3, scale=6.0000001, method="peeling").privacy.delta == 0
    with pytest.raises(ParameterError, match="scale"):
        selection.top_s(SCORES, 1.0, 1.0, s=3, scale=5.999, method="peeling")


def test_peeling_without_delta_shares_epsilon_over_the_rounds():
    for scale in (None, "calibrated"):
        assert math.isclose(selection.top_s(SCORES, 1.0, 1.0, s=3, method="peeling", scale=scale).scale, 6.0, rel_tol=1e-12)
        both = selection.top_s(SCORES, 1.0, 1.0, s=3, method="peeling", scale=scale, values=True)
        assert math.isclose(both.scale, 9.0, rel_tol=1e-12)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.2, 1e-6), (1.0, 1e-6), (0.1, 0.05), (0.1, 0.2), (0.1, 0.0)])
def test_oneshot_laplace_is_refused_outside_its_theorem(epsilon, delta):
    with pytest.raises(ParameterError, match="epsilon" if epsilon >= 0.2 else "delta"):
        selection.top_s(SCORES, epsilon, 1.0, s=2, delta=delta, method="oneshot_laplace")


def test_oneshot_laplace_has_the_scale_of_its_theorem():
    for d, s, epsilon, delta, sensitivity in ((8, 2, 0.1, 1e-6, 1.0), (1000, 30, 0.19, 0.04, 3.0)):
        found = selection.top_s(np.zeros(d), epsilon, sensitivity, s=s, delta=delta, method="oneshot_laplace")
        printed = 8 * sensitivity * math.sqrt(s * math.log(d / delta)) / epsilon
        assert math.isclose(found.scale, printed, rel_tol=1e-12)
        assert found.scale >= printed * (1 - 1e-15)


def test_a_scale_for_gumbel_is_checked_too():
    assert selection.top_s(SCORES, 1.0, 1.0, s=3, scale=7.0).scale == 7.0
    with pytest.raises(ParameterError, match="scale"):
        selection.top_s(SCORES, 1.0, 1.0, s=3, scale=5.999)
    with pytest.raises(ParameterError, match="scale"):
        selection.top_s(SCORES, 1.0, 1.0, s=3, scale=7.0, values=True)
    assert selection.top_s(SCORES, 1.0, 1.0, s=3, scale=9.1, values=True).value_scale == 9.1


@pytest.mark.parametrize("scale", [100.0, "calibrated"])
def test_the_scale_of_oneshot_laplace_is_its_theorems(scale):
    with pytest.raises(ParameterError, match=r"^scale\b"):
        top("oneshot_laplace", 2, scale=scale)


def test_a_sensitivity_between_two_floats_counts_as_the_larger():
    for sensitivity in (2**53 + 1, Fraction(1, 3), np.int64(2**53 + 1)):
        found = selection.top_s(SCORES, 1.0, sensitivity, s=1)
        assert Fraction(found.scale) >= 2 * Fraction(int(sensitivity) if isinstance(sensitivity, np.int64) else sensitivity)


def test_oneshot_laplace_does_not_show_an_order():
    """Its theorem is about the set of indices: in their proof "only a subset of k elements, but not their ordering, is returned"."""
    rng = KeyedRandom(KEY)
    for values in (False, True):
        for _ in range(20):
            chosen = selection.top_s(np.zeros(50), 0.1, 1.0, s=5, delta=1e-6, method="oneshot_laplace", values=values, rng=rng)
            assert chosen.indices.tolist() == sorted(chosen.indices.tolist())
    signed = np.arange(50) * 1e6
    chosen = selection.top_s(signed, 0.1, 1.0, s=5, delta=1e-6, method="oneshot_laplace", values=True)
    assert np.abs(chosen.values - signed[chosen.indices]).max() < 1e5


# Values


@each_method
def test_values_are_fresh_noise_on_the_chosen_scores(method):
    found = top(method, 3, SCORES * 100, values=True, rng=KeyedRandom(KEY))
    assert found.values.dtype == np.float64
    assert found.values.shape == (3,)
    fresh = noise.laplace((SCORES * 100)[found.indices], found.value_scale, rng=keyed(1))
    assert found.values.tolist() == fresh.tolist()


@each_method
def test_other_values_than_the_scores_may_be_released(method):
    signed = np.array([-3.0, 1.0, 4.0, -1.0, -5.0, 9.0, 2.0, -6.0]) * 1e7
    found = top(method, 3, np.abs(signed), values=signed)
    assert sorted(found.indices.tolist()) == [4, 5, 7]
    assert np.abs(found.values - signed[found.indices]).max() < 1e6
    integers = top(method, 3, np.abs(signed), values=signed.astype(np.int64))
    assert np.abs(integers.values - signed[integers.indices]).max() < 1e6


def test_gumbel_values_share_the_budget():
    for share in (0.5, 0.1, 0.9):
        found = selection.top_s(SCORES, 2.0, 1.5, s=3, values=True, value_share=share)
        assert math.isclose(found.scale, 2 * 1.5 * 3 / (2.0 * (1 - share)), rel_tol=1e-9)
        assert math.isclose(found.value_scale, 1.5 * 3 / (2.0 * share), rel_tol=1e-9)
        spent = 3 * 2 * Fraction(1.5) / Fraction(found.scale) + 3 * Fraction(1.5) / Fraction(found.value_scale)
        assert spent <= Fraction(2.0)


def test_peeling_releases_with_the_scale_of_its_rounds():
    found = top("peeling", 3, values=True)
    assert found.value_scale == found.scale


def test_the_choice_does_not_depend_on_whether_values_are_released():
    """Same key, same scale: the noisy scores that choose are not the ones that are released."""
    plain, with_values = (top("peeling", 3, values=v, rng=KeyedRandom(KEY)) for v in (False, True))
    assert plain.indices.tolist() == with_values.indices.tolist()
    assert plain.value_scale is None
