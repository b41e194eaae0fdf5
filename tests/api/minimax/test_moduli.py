"""Moduli of continuity: known answers, Steinberger (2019), Aufgabe 3.5, and bounds that hold whatever the solver answers."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcore import local
from dpcore.errors import DpcoreError, ParameterError, ParameterTypeError
from dpcore.minimax import Model, apply, hellinger, lower_bound, modulus_hellinger, modulus_tv, optimal_channel, tv
from dpcore.minimax.programs.program import Program, Solution
from dpcore.minimax.spaces import moduli
from dpcore.minimax.spaces.certified import dual_bound, largest
from support.minimax_models import NAMES, model

RADII = [1.5, 0.4, 1e-3]
EXACT = {"rel": 1e-9, "abs": 1e-12}


def widest(of: Model) -> float:
    low, high = of.theta_range
    return high - low


@pytest.mark.some(5)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("radius", RADII)
def test_both_sides_of_the_tv_modulus_meet_and_the_pair_attains_it(name, radius):
    of = model(name)
    found = modulus_tv(of, radius)
    assert found.value <= found.upper * (1 + 1e-9)
    assert found.upper <= found.value * (1 + 1e-7)
    assert tv(found.p0, found.p1) <= radius * (1 + 1e-12)
    assert of.theta(found.p1) - of.theta(found.p0) == pytest.approx(found.value, rel=1e-12, abs=1e-13)
    assert of.contains(found.p0, tolerance=1e-9)
    assert of.contains(found.p1, tolerance=1e-9)
    assert found.value <= widest(of) * (1 + 1e-9)


@pytest.mark.some(6)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("radius", RADII)
@pytest.mark.parametrize("private", [False, True])
def test_both_sides_of_the_hellinger_modulus_meet_and_the_pair_attains_it(name, radius, private):
    of = model(name)
    channel = local.BinaryChannel(1.0, np.clip(of.f / np.abs(of.f).max() * 3, -1, 1)).channel() if private else None
    found = modulus_hellinger(of, radius, channel=channel)
    assert found.value <= found.upper * (1 + 1e-9)
    assert found.upper <= found.value * (1 + 1e-4)
    reports = (apply(np.eye(of.size) if channel is None else channel, p) for p in (found.p0, found.p1))
    assert hellinger(*reports) <= radius * (1 + 1e-9)
    assert of.theta(found.p1) - of.theta(found.p0) == pytest.approx(found.value, rel=1e-12, abs=1e-13)
    assert of.contains(found.p0, tolerance=1e-9)
    assert of.contains(found.p1, tolerance=1e-9)


@given(st.lists(st.floats(-5.0, 5.0), min_size=2, max_size=8), st.floats(0.0, 2.0))
@settings(max_examples=25)
def test_known_answer_all_distributions_tv(f, radius):
    length = max(f) - min(f)
    assert modulus_tv(Model(f), radius).value == pytest.approx(min(radius, 1.0) * length, **EXACT)


@pytest.mark.long
@given(st.lists(st.floats(-5.0, 5.0), min_size=2, max_size=8), st.floats(1e-6, 2.0))
@settings(max_examples=25)
def test_known_answer_all_distributions_hellinger(f, radius):
    # By tv ≤ √(1 − ρ²), and two points attain it.
    length = max(f) - min(f)
    radius = min(radius, math.sqrt(2))
    distance = radius * math.sqrt(1 - radius**2 / 4)
    assert modulus_hellinger(Model(f), radius).value == pytest.approx(distance * length, rel=1e-6, abs=1e-12)


@pytest.mark.some(6)
@pytest.mark.parametrize("kappa", [1.25, 2.0, 3.0])
@pytest.mark.parametrize("radius", [0.5, 0.1, 0.01])
def test_known_answer_moments_with_an_unbounded_functional(kappa, radius):
    C = 2.0
    reach = (C / (2 * radius)) ** (1 / kappa)
    of = Model.moment(np.array([-reach, -reach / 3, 0.0, reach / 2, reach]), kappa=kappa, C=C)
    assert modulus_tv(of, radius).value >= (C / 2) ** (1 / kappa) * radius ** ((kappa - 1) / kappa) * (1 - 1e-9)


@pytest.mark.parametrize("radius", [0.8, 0.25, 0.05])
def test_known_answer_moments_with_a_bounded_functional(radius):
    of = Model.moment(np.array([-1.0, 0.0, 1.0]), kappa=2.0, C=1.0)  # P(|f| ≤ 1) = 1: no condition at all
    assert modulus_tv(of, radius).value == pytest.approx(2 * radius, **EXACT)


@pytest.mark.parametrize("radius", [0.5, 0.1, 0.05])
def test_known_answer_uniform_distributions(radius):
    assert modulus_tv(Model.uniform_scale(2.0, cells=40), radius).value >= radius * (1 - 1e-9)


@pytest.mark.long
@pytest.mark.parametrize(("beta", "m"), [(1.0, 0), (2.0, 0), (2.0, 1)])
def test_known_answer_slopes_for_densities(beta, m):
    of = Model.hoelder_density(np.linspace(-2.0, 2.0, 401), smoothness=beta, C=2.0, x0=0.0, m=m)
    radii = np.array([1e-3, 1e-2])
    for modulus, power in ((modulus_tv, (beta - m) / (beta + 1)), (modulus_hellinger, (beta - m) / (beta + 0.5))):
        values = [modulus(of, radius).value for radius in (radii if modulus is modulus_tv else 20 * radii)]
        assert np.diff(np.log(values))[0] / np.diff(np.log(radii))[0] == pytest.approx(power, abs=0.1)


@pytest.mark.parametrize("radius", [1.0, 0.3, 0.02])
def test_a_binary_question_beside_all_pairs_of_a_grid(radius):
    channel = np.array([[0.2, 0.8], [0.65, 0.35]])
    found = modulus_hellinger(Model([0.0, 1.0]), radius, channel=channel)
    shares = np.linspace(0.0, 1.0, 801)
    q = apply(channel, np.column_stack([1 - shares, shares]))
    close = np.abs(shares[:, None] - shares) * (hellinger(q[:, None], q) <= radius)
    assert close.max() <= found.upper * (1 + 1e-9)
    assert close.max() >= found.value - 2 / 800


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_aufgabe_3_5_and_the_order_of_the_moduli(name):
    of = model(name)
    radii = [0.02, 0.05, 0.07, 0.2]
    distances = [modulus_tv(of, radius).value for radius in radii]
    roots = [modulus_hellinger(of, radius) for radius in radii]
    assert distances[0] + distances[1] >= distances[2] * (1 - 1e-7)  # (2): subadditive
    ratios = np.array(distances) / radii
    assert (np.diff(ratios) <= 1e-7 * ratios[:-1]).all()  # (1): ω(ε)/ε grows as ε → 0
    for radius, root in zip(radii, roots, strict=True):
        assert root.upper >= modulus_tv(of, radius**2 / 2).value * (1 - 1e-9)  # (1): ω_H(ε) ≥ ω_TV(ε²/2), from ½d_H² ≤ d_TV
        assert root.value <= modulus_tv(of, radius).upper * (1 + 1e-9)  # Bemerkung 3.5 c, from d_TV ≤ d_H
    squares = np.array([root.value for root in roots]) / np.square(radii)
    assert (np.diff(squares) <= 1e-5 * squares[:-1]).all()  # Lemma 3.18, for every real k ≥ 1


@pytest.mark.some(2)
@pytest.mark.parametrize("name", ["simplex", "moment 2", "hull"])
@pytest.mark.parametrize("k", [2, 3])
def test_lemma_3_18_with_a_channel(name, k):
    of = model(name)
    channel = local.KaryResponse(1.0, k=of.size)
    assert modulus_hellinger(of, k * 0.02, channel=channel).value <= k**2 * modulus_hellinger(of, 0.02, channel=channel).upper * (1 + 1e-9)


@pytest.mark.long
@given(st.integers(0, 2**32 - 1), st.sampled_from(["simplex", "hull", "moment 2", "polytope"]), st.floats(0.01, 1.0))
@settings(max_examples=30)
def test_no_two_members_differ_by_more(seed, name, radius):
    of = model(name)
    generator = np.random.default_rng(seed)
    p0, p1 = (of.extreme(generator.normal(size=of.size))[1] for _ in range(2))
    p1 = p0 + min(1.0, radius / max(tv(p0, p1), 1e-12)) * (p1 - p0)
    assert abs(of.theta(p1) - of.theta(p0)) <= modulus_tv(of, tv(p0, p1)).upper * (1 + 1e-9) + 1e-9
    assert abs(of.theta(p1) - of.theta(p0)) <= modulus_hellinger(of, hellinger(p0, p1)).upper * (1 + 1e-9) + 1e-9


@pytest.mark.some(3)
@pytest.mark.parametrize("factor", [1e-9, 1e9])
@pytest.mark.parametrize("name", ["simplex", "polytope", "hull"])
def test_the_unit_of_the_functional_does_not_matter(name, factor):
    of = model(name)
    scaled = type(of)._of_region(factor * (of.f + 1.0), of.region, None)
    for modulus in (modulus_tv, modulus_hellinger):
        plain, other = modulus(of, 0.1), modulus(scaled, 0.1)
        assert other.value == pytest.approx(factor * plain.value, rel=1e-6)
        assert other.upper == pytest.approx(factor * plain.upper, rel=1e-6)


def test_radius_zero():
    of = Model([0.0, 1.0, 5.0])
    assert modulus_tv(of, 0.0).value == pytest.approx(0.0, abs=1e-9)
    assert modulus_hellinger(of, 0.0).value == pytest.approx(0.0, abs=1e-9)
    # The channel does not tell the second point from the third.
    merged = modulus_hellinger(of, 0.0, channel=[[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    assert merged.value == pytest.approx(4.0)


def test_a_channel_for_the_points_of_the_model():
    of = Model.moment(np.linspace(-4.0, 4.0, 17), kappa=2.0, C=1.0)
    by_function = local.BinaryChannel(1.0, lambda x: np.clip(x, -2.0, 2.0), bound=2.0)
    by_table = local.BinaryChannel(1.0, np.clip(of.points, -2.0, 2.0))
    assert modulus_hellinger(of, 0.1, channel=by_function).value == modulus_hellinger(of, 0.1, channel=by_table).value
    bounded = modulus_hellinger(of, 0.1, channel=local.BoundedMean(1.0, -2.0, 2.0))
    assert bounded.value == pytest.approx(modulus_hellinger(of, 0.1, channel=by_table).value, rel=1e-6)


def broken_solver(seed: int, size: float):
    """Stands for `Program.maximise`: what the real one finds, and then noise on the point and on the multipliers."""
    generator, real = np.random.default_rng(seed), Program.maximise

    def noisy(array):
        return array + size * generator.normal(size=array.shape) * np.maximum(np.abs(array), 1e-3)

    def maximise(program, expression, *, refined=False):
        found = real(program, expression, refined=refined)
        return Solution(found.value, noisy(found.point), np.maximum(noisy(found.duals), 0.0), noisy(found.tilts))

    return maximise


@pytest.mark.some(2)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", [1e-6, 1e-2])
def test_the_bounds_do_not_trust_the_solver(name, size, monkeypatch):
    of = model(name)
    radius = 0.3
    true_tv, true_hellinger = modulus_tv(of, radius), modulus_hellinger(of, radius)
    extreme = of.extreme(of.f)[0]
    with monkeypatch.context() as patched:
        patched.setattr(Program, "maximise", broken_solver(7, size))
        found = [modulus_tv(of, radius), modulus_hellinger(of, radius)]
        highest = largest(of, of.f)
    assert highest >= extreme * (1 - 1e-9) - 1e-9
    for modulus, truth, distance in zip(found, (true_tv, true_hellinger), (tv, hellinger), strict=True):
        assert modulus.value <= truth.upper * (1 + 1e-9)
        assert modulus.upper >= truth.value * (1 - 1e-9)
        assert distance(modulus.p0, modulus.p1) <= radius * (1 + 1e-12)
        assert of.contains(modulus.p0, tolerance=1e-8)
        assert of.contains(modulus.p1, tolerance=1e-8)


@pytest.mark.some(2)
@pytest.mark.parametrize("name", NAMES)
@given(seed=st.integers(0, 2**32 - 1), size=st.sampled_from([0.0, 1e-3, 1.0, 30.0]))
@settings(max_examples=10)
def test_any_multipliers_prove_a_bound(name, seed, size):
    of = model(name)
    generator = np.random.default_rng(seed)
    duals = size * generator.exponential(size=of.region.below.shape[0])
    for direction in (of.f, -of.f):
        assert dual_bound(of.region, direction, duals) >= direction @ of.extreme(direction)[1] - 1e-7


def test_multipliers_that_leave_something_of_a_free_variable():
    # Differences of a density on a grid sum to 0, so constants may be shifted between the two rows of each; only the variable where their
    # interval begins, which has no sign, tells that this is no way to a smaller bound.
    of = model("hoelder 1")
    program = Program()
    p = program.member(of)
    duals = program.maximise(of.f @ p).duals
    rows = (len(duals) - 2) // 2
    shift = duals[rows : 2 * rows] - duals[:rows]
    tempting = np.concatenate([shift.max() - shift, np.zeros(rows + 2)])
    assert dual_bound(of.region, of.f, duals) == pytest.approx(of.theta_range[1], rel=1e-6)
    assert dual_bound(of.region, of.f, tempting) >= of.theta_range[1] * (1 - 1e-9)


def test_a_solver_that_gives_up_leaves_a_bound(monkeypatch):
    def gives_up(self, expression, *, refined=False):
        raise DpcoreError("no")

    of = model("moment 2")
    monkeypatch.setattr(Program, "maximise", gives_up)
    assert largest(of, of.f) >= 1.0  # √C is the largest mean


def test_small_radii_are_solved_at_larger_ones(monkeypatch):
    of, real = model("polytope"), moduli._within
    asked = []

    def within(of, radius, allowed, matrix):
        asked.append(radius)
        if len(asked) == 1:
            raise DpcoreError("too small")
        return real(of, radius, allowed, matrix)

    truth = modulus_hellinger(of, 1e-3)
    monkeypatch.setattr(moduli, "_within", within)
    found = modulus_hellinger(of, 1e-3)
    assert asked[1] == pytest.approx(1e-2)
    assert truth.value * (1 - 1e-3) <= found.value <= truth.upper * (1 + 1e-9)
    assert truth.value * (1 - 1e-9) <= found.upper <= 3 * truth.upper  # true, if not sharp
    assert hellinger(found.p0, found.p1) <= 1e-3 * (1 + 1e-9)


def test_no_weaker_method_is_fallen_back_to(monkeypatch):
    def within(of, radius, allowed, matrix):
        raise DpcoreError("the conic programme was not solved: Timeout")

    monkeypatch.setattr(moduli, "_within", within)
    for ask in (lambda: modulus_hellinger(model("simplex"), 0.1), lambda: lower_bound(model("simplex"), 1.0, n=100)):
        with pytest.raises(DpcoreError, match="Timeout"):
            ask()


def test_without_the_extra_its_name_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "clarabel", None)
    for ask in (lambda: modulus_hellinger(model("simplex"), 0.1), lambda: lower_bound(model("simplex"), 1.0, n=100)):
        with pytest.raises(ModuleNotFoundError, match=r"pip install '\S*\[minimax\]'"):
            ask()
    assert modulus_tv(model("simplex"), 0.1).value == pytest.approx(0.4)
    assert optimal_channel(model("simplex"), 1.0, n=100).certificate.holds


@pytest.mark.parametrize("radius", [-0.1, math.nan, math.inf, "1", True])
@pytest.mark.parametrize("modulus", [modulus_tv, modulus_hellinger])
def test_refused_radii(modulus, radius):
    with pytest.raises((ParameterError, ParameterTypeError), match="radius"):
        modulus(model("simplex"), radius)


def test_refused_models_and_channels():
    with pytest.raises(ParameterTypeError, match="model must be a Model"):
        modulus_tv([0.0, 1.0], 0.1)
    with pytest.raises(ParameterError, match="6 rows"):
        modulus_hellinger(model("simplex"), 0.1, channel=np.eye(3))
    with pytest.raises(ParameterError, match="channel"):
        modulus_hellinger(model("simplex"), 0.1, channel=np.ones((6, 2)))
