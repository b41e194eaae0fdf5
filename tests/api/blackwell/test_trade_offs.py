"""Trade-off curves: against enumerated tests, against R(ε, δ), and against the exact curve of Gaussian privacy."""

from __future__ import annotations

import math
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcore import ParameterError, ParameterTypeError, Privacy, accounting, local, mechanisms
from dpcore.blackwell import Experiment, TradeOff, from_mechanism, is_sufficient, max_power

LEVELS = np.linspace(0, 1, 41)


def enumerated(p, q, level):
    """The least miss at a level, over all sets of outcomes and all mixtures of two sets."""
    sets = list(product((0, 1), repeat=len(p)))
    points = [(float(np.dot(chosen, p)), 1 - float(np.dot(chosen, q))) for chosen in sets]
    best = min(missed for alarm, missed in points if alarm <= level + 1e-15)
    for (a, b), (c, d) in product(points, repeat=2):
        if a <= level < c:
            best = min(best, b + (d - b) * (level - a) / (c - a))
    return best


@settings(max_examples=15)
@given(weights=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=2, max_size=4))
def test_the_curve_of_an_experiment_is_that_of_all_tests(weights):
    matrix = np.array(weights, dtype=float).T
    if (matrix.sum(axis=1) == 0).any():
        matrix += 1
    experiment = Experiment(matrix / matrix.sum(axis=1, keepdims=True))
    curve = TradeOff.of(experiment, 0, 1)
    for level in (0.0, 0.1, 0.35, 0.8, 1.0):
        assert curve.type_two(level) == pytest.approx(enumerated(*experiment.matrix, level), abs=1e-12)
    for epsilon in (0.0, 0.3, 1.0):
        assert curve.delta(epsilon) == pytest.approx(experiment.delta(epsilon), abs=1e-12)
    corners = experiment.power_region(0, 1).vertices
    assert np.all(curve.type_two(np.clip(corners[:, 1], 0, 1)) <= corners[:, 0] + 1e-12)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.0), (0.0, 0.3), (1.0, 0.0), (1.0, 0.1), (5.0, 1e-6), (700.0, 0.2)])
def test_the_curve_of_a_guarantee_is_the_border_of_its_region(epsilon, delta):
    curve = TradeOff.private(Privacy(epsilon, delta))
    assert np.allclose(curve.type_two(LEVELS), 1 - np.array(max_power(LEVELS, epsilon=epsilon, delta=delta)), atol=1e-12)
    assert curve.delta(epsilon) == pytest.approx(delta, abs=1e-12)


def test_far_corners_are_kept():
    """Edges of 10^-10 decide δ at a large ε; a curve without their corners would be above the true one."""
    rare = Experiment([[1e-10, 1e-10, 1 - 2e-10], [2e-9, 5e-9, 1 - 7e-9]])
    curve = TradeOff.of(rare, 0, 1)
    for epsilon in (1.0, 3.0, 3.5):
        assert curve.delta(epsilon) == pytest.approx(rare.delta(epsilon), rel=1e-6, abs=4e-16)
    assert len(curve.vertices) == 4
    # outcomes of one likelihood ratio still share an edge
    assert len(TradeOff.of(Experiment([[0.1, 0.2, 0.7], [0.2, 0.4, 0.4]]), 0, 1).vertices) == 3


def test_several_guarantees_are_one_curve():
    together = TradeOff.private(Privacy(0.5, 0.1), Privacy(1.5, 1e-3), Privacy(1.5, 0.2))
    alone = [TradeOff.private(Privacy(0.5, 0.1)), TradeOff.private(Privacy(1.5, 1e-3))]
    assert np.allclose(together.type_two(LEVELS), np.maximum(*(each.type_two(LEVELS) for each in alone)), atol=1e-12)
    assert all(together.is_above(each) and not each.is_above(together) for each in alone)
    # the convex hull of δ says more at an ε between: neither guarantee alone gives it
    assert together.delta(1.0) < 0.1


@pytest.mark.parametrize("mu", [0.0, 0.5, 3.0])
def test_the_gaussian_polygon_is_below_its_curve_and_close(mu):
    exact = np.array([accounting.GaussianPrivacy(mu).type_two(float(level)) for level in LEVELS[::4]])
    polygon = TradeOff.gaussian(mu)
    gaps = exact - polygon.type_two(LEVELS[::4])
    assert gaps.min() >= -1e-12
    assert gaps.max() <= 1e-3
    for epsilon in (0.1, 1.0):
        assert accounting.gdp_delta(mu, epsilon) * (1 - 1e-9) - 1e-12 <= polygon.delta(epsilon)


def test_which_curve_is_above_which():
    epsilon = 1.0
    pure, gaussian = TradeOff.private(Privacy(epsilon)), TradeOff.gaussian(accounting.mu_pure(epsilon))
    assert pure.is_above(gaussian)
    # the twin: the μ of the same ρ is too small
    assert not pure.is_above(TradeOff.gaussian(math.sqrt(2 * accounting.rho_pure(epsilon))))
    # discrete Gaussian noise is not μ-GDP with μ = Δ/σ
    noise = from_mechanism(mechanisms.DiscreteGaussian(2.0, 0.1, 1), (0, 1), outputs=(-30, 31))
    scale = mechanisms.DiscreteGaussian(2.0, 0.1, 1).scale
    curve = TradeOff.of(noise, 0, 1, name="discrete Gaussian")
    assert not curve.is_above(TradeOff.gaussian(1 / scale), tolerance=1e-3)
    assert curve.is_above(TradeOff.private(Privacy(2.0, 0.1)))
    # Blackwell: one curve below another one, and sufficiency
    fine, coarse = (from_mechanism(local.KaryResponse(e, k=2)) for e in (1.0, 0.5))
    assert TradeOff.of(coarse, 0, 1).is_above(TradeOff.of(fine, 0, 1))
    assert is_sufficient(fine, coarse).holds


def test_edges_of_experiments():
    same, apart = Experiment([[0.5, 0.5], [0.5, 0.5]]), Experiment([[1.0, 0.0], [0.0, 1.0]])
    assert TradeOff.of(same, 0, 1).vertices.tolist() == [[0, 1], [1, 0]]
    assert TradeOff.of(apart, 0, 1).vertices.tolist() == [[0, 0], [1, 0]]
    assert TradeOff.of(apart, 0, -1).type_two(0.0) == 0.0
    assert not TradeOff.of(same, 0, 1).vertices.flags.writeable


def test_curves_are_drawn(tmp_path: Path):
    pytest.importorskip("matplotlib")
    curve = TradeOff.private(Privacy(1.0, 0.01))
    text = curve.plot(TradeOff.private(Privacy(0.5), name="a half"), target=tmp_path / "curves.svg").read_text()
    assert text.startswith("<?xml")
    with pytest.raises(ParameterTypeError, match="target must be a path or matplotlib axes, got int"):
        curve.plot(target=3)
    with pytest.raises(ParameterTypeError, match=r"others\[0\] must be a TradeOff, got float"):
        curve.plot(0.5, target=tmp_path / "no.svg")
    assert not (tmp_path / "no.svg").exists()


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (TradeOff.private, ParameterError, "guarantees must have at least one Privacy, got none"),
        (lambda: TradeOff.private(1.0), ParameterTypeError, r"guarantees\[0\] must be a dpcore.Privacy, got 1.0"),
        (lambda: TradeOff.private(Privacy(math.inf)), ParameterError, r"guarantees\[0\] must have an epsilon of at most 700, got inf"),
        (
            lambda: TradeOff.private(Privacy(1.0), Privacy(1.0, relation="add_remove")),
            ParameterError,
            r"guarantees\[1\] must have the relation of the first, 'replace', got 'add_remove'",
        ),
        (lambda: TradeOff.of([[1.0], [1.0]], 0, 1), ParameterTypeError, "experiment must be an Experiment, got list"),
        (lambda: TradeOff.gaussian(26.0), ParameterError, r"mu must be in \[0.0, 25.0\], got 26.0"),
        (lambda: TradeOff.gaussian(math.nan), ParameterError, "mu must be"),
        (lambda: TradeOff.gaussian(1.0, tangents=1), ParameterError, "tangents must be in"),
        (lambda: TradeOff.of(Experiment([[1.0], [1.0]]), 0, 2), ParameterError, "j must be in"),
        (lambda: TradeOff.private(Privacy(1.0)).type_two([0.5, 1.5]), ParameterError, "level must be in"),
        (lambda: TradeOff.private(Privacy(1.0)).delta(-1.0), ParameterError, "epsilon must be in"),
        (lambda: TradeOff.private(Privacy(1.0)).is_above(1.0), ParameterTypeError, "other must be a TradeOff, got float"),
    ],
)
def test_what_is_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()
