"""What studies are made of: testing regions, searches, pictures; each check refuses a broken twin.

The studies of Steinberger (2019) and Mechanisms as experiments (2014).
"""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np
import pytest

from dpcore.blackwell import Experiment, is_sufficient
from dpcore.reproduce import Figure, Panel, Series, Setting, searches
from dpcore.reproduce import counterexamples as counter
from dpcore.reproduce.regions import ALARM, MISSED, apart, beyond, closed, random_experiment, scientific
from dpcore.reproduce.studies import blackwell
from dpcore.testing import KeyedRandom

pytest.importorskip("matplotlib")

RESPONSE = Experiment([[0.75, 0.25], [0.25, 0.75]])


@pytest.fixture
def stream():
    return KeyedRandom(bytes(range(32)))


# Testing regions


def test_random_experiments_have_rows_that_sum_to_one(stream):
    first, second = random_experiment(stream, 3, 5), random_experiment(stream, 3, 5)
    assert first.matrix.shape == (3, 5)
    assert np.abs(first.matrix.sum(axis=1) - 1).max() < 1e-12
    assert (first.matrix != second.matrix).all()


@pytest.mark.parametrize("epsilon", [0.0, 0.4, 1.0])
def test_regions_lie_beyond_the_guarantee_exactly_if_it_is_not_kept(stream, epsilon):
    for _ in range(20):
        experiment = random_experiment(stream, 2, 6)
        delta = experiment.delta(epsilon)
        assert beyond(experiment, [(0, 1), (1, 0)], epsilon, delta) == pytest.approx(0.0, abs=1e-12)
        assert beyond(experiment, [(0, 1), (1, 0)], epsilon, 0.9 * delta) == pytest.approx(0.1 * delta)


def test_regions_are_told_apart():
    assert apart(RESPONSE, RESPONSE, [(0, 1)]) == 0.0
    assert apart(RESPONSE, Experiment([[0.7, 0.3], [0.25, 0.75]]), [(0, 1)]) == pytest.approx(0.05)
    assert apart(RESPONSE, Experiment([[1.0], [1.0]]), [(0, 1)]) == math.inf


def test_polygons_end_where_they_begin():
    x, y = closed(RESPONSE.power_region(0, 1).vertices)
    assert (x[0], y[0]) == (x[-1], y[-1])
    assert len(x) == 5
    assert scientific(-2.34e-16) == "−2.3e−16"


# Mechanisms as experiments (2014)


def test_all_sets_are_tried():
    sums = [
        min(alarm + math.e**0.5 * missed, math.e**0.5 * alarm + missed)
        for inside in ((0, 0), (0, 1), (1, 0), (1, 1))
        for alarm, missed in [(RESPONSE.matrix[0] @ inside, 1 - RESPONSE.matrix[1] @ inside)]
    ]
    assert blackwell._least_sum(RESPONSE, [(0, 1)], 0.5) == pytest.approx(min(sums))
    assert blackwell._least_sum(RESPONSE, [(0, 1)], math.log(3)) == pytest.approx(1.0)


def test_the_profile_of_gaussian_noise_is_that_of_the_sum():
    scale, epsilon = 2.5, 0.3
    z = np.arange(-100, 101)
    mass = np.exp(-((z / scale) ** 2) / 2)
    mass /= mass.sum()
    shifted = np.concatenate([[0.0], mass[:-1]])
    assert blackwell._gaussian_profile(scale, epsilon) == pytest.approx(np.maximum(mass - math.exp(epsilon) * shifted, 0).sum())


def test_a_wrong_channel_is_noticed():
    found = {"fine": RESPONSE, "coarse": RESPONSE.garble([[0.9, 0.1], [0.1, 0.9]])}
    answers = {(p, q): is_sufficient(found[p], found[q]) for p in found for q in found}
    assert blackwell._settled(found, answers).holds
    wrong = replace(answers["fine", "coarse"], T=np.eye(2))
    assert not blackwell._settled(found, {**answers, ("fine", "coarse"): wrong}).holds
    assert not blackwell._settled(found, {**answers, ("fine", "coarse"): replace(wrong, T=None)}).holds
    reversed_answers = {(p, q): answers[q, p] for p, q in answers}
    assert not blackwell._never_worse(Setting(1, quick=True), _on_four(found), reversed_answers).holds
    assert blackwell._never_worse(Setting(1, quick=True), _on_four(found), answers).holds


def _on_four(found):
    return {name: Experiment(np.repeat(each.matrix, 2, axis=0)) for name, each in found.items()}


def test_an_order_that_is_none_is_noticed():
    found = {name: RESPONSE.garble([[1 - flip, flip], [flip, 1 - flip]]) for name, flip in (("a", 0.0), ("b", 0.1), ("c", 0.2))}
    answers = {(p, q): is_sufficient(found[p], found[q]) for p in found for q in found}
    assert blackwell._transitive(list(found), answers).holds
    assert not blackwell._transitive(list(found), {**answers, ("a", "c"): answers["c", "a"]}).holds


def test_audits_are_judged_by_the_claims():
    sound, broken = blackwell._audit_checks([0.5, 1.0], {"a": [0.4, 0.9], "broken": [0.6, 1.2]})
    assert sound.holds
    assert broken.holds
    sound, broken = blackwell._audit_checks([0.5, 1.0], {"a": [0.4, 1.1], "broken": [0.6, 0.8]})
    assert not sound.holds
    assert not broken.holds


def test_the_counterexamples_are_what_they_are_said_to_be():
    for pair in (counter.THREE, counter.ONE_SIDED):
        assert not is_sufficient(*pair).holds
        assert not is_sufficient(*pair[::-1]).holds
    assert apart(*counter.THREE, [(0, 1), (0, 2), (1, 2), (2, 0)]) < 1e-12
    assert apart(*counter.ONE_SIDED, [(0, 1)]) > 0.4
    assert not is_sufficient(counter.COARSE, counter.FINE).holds
    under = counter.COARSE.under(counter.PAIRS_APART), counter.FINE.under(counter.PAIRS_APART)
    assert is_sufficient(*under).holds


# Steinberger (2019)


def test_the_first_error_of_a_course_is_where_theta_is_removed(stream):
    course = searches._Course.drawn(searches._heavy(400, 0.27), stream)
    for plus in (0, course.plus, 400):
        level = searches._first_error(course, plus)
        steps = course.estimator.trace(plus).intervals
        kept = [(step.a, step.upper) if step.outcome else (step.lower, step.b) for step in steps]
        inside = [low <= course.theta < high for low, high in kept]
        assert level == (None if all(inside) else 1 + inside.index(False))
    assert searches._first_error(course, 0) == 1 + min(
        index for index, step in enumerate(course.estimator.trace(0).intervals) if course.theta >= step.b
    )


@pytest.mark.long
def test_members_are_of_the_model(stream):
    estimator = searches._heavy(400, 0.27)
    members = searches._members(estimator.model, estimator.matrix, searches._ends(estimator), stream)
    assert all(estimator.model.contains(p, tolerance=1e-7) for p in members)
    thetas = members @ estimator.model.f
    for end in searches._ends(estimator):
        assert np.abs(thetas - end).min() < 1e-9 or not estimator.theta_range[0] < end < estimator.theta_range[1]


def test_bounds_that_are_too_low_are_noticed():
    found = searches._frequencies(searches._heavy(400, 0.27), 20_000, Setting(2))
    assert searches._never_above([found]).holds
    assert searches._tight(found).holds
    halved = [replace(tail, bound=0.5 * tail.bound) for tail in found]
    assert not searches._never_above([halved]).holds
    assert not searches._tight(halved).holds
    assert not searches._tight([replace(tail, bound=2 * tail.bound) for tail in found]).holds


# Pictures


def _figure(**options):
    from dpcore.reproduce.plots import figure_plot

    area = Series("area", (0.0, 1.0, 0.0), (0.0, 0.0, 1.0), None, "theory", "area")
    pairs = Series("pairs", (0.0, 1.0, 0.5, 0.7), (0.2, 0.2, 0.4, 0.4), None, "measured", "pairs")
    points = Series("points", (0.0, 1.0), (0.3, 0.5), None, "second", "points")
    panels = tuple(
        Panel(MISSED, label, (area, pairs, points), "", title=f"{label} of both") for label in (ALARM, options.pop("other", ALARM))
    )
    return figure_plot(Figure("A caption.", panels, **options))


def test_every_form_is_drawn_and_named():
    drawn = re.sub(r"</?tspan[^>]*>", "", _figure())
    for name in ("area", "pairs", "points", "false alarm, PFA of both"):
        assert f">{name}<" in drawn
    assert "nan" not in drawn.lower().replace("nans", "")
    assert "opacity: 0.14" in drawn


@pytest.mark.long
def test_one_legend_is_enough_for_panels_with_the_same_series():
    """One in the drawing for wide screens, and one in that for narrow ones."""
    for other in (ALARM, "something else"):
        assert len(re.findall(">pairs<", _figure(other=other))) == 2


@pytest.mark.long
def test_squares_have_one_scale():
    from dpcore.pages.plots import picture
    from dpcore.reproduce import plots

    seen = []

    def remember(draw, height, title, *, narrow):
        def both(canvas):
            draw(canvas)
            seen.append([axes.get_aspect() for axes in canvas.axes])

        return picture(both, height, title, narrow=narrow)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plots, "picture", remember)
        _figure(square=True)
        _figure()
    assert seen == [[1.0, 1.0]] * 2 + [["auto", "auto"]] * 2
