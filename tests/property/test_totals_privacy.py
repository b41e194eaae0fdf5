"""Privacy of running totals: neighbours of short streams by enumeration, against the state machine itself; and adaptive adversaries.

What is released without its noise is what `add` returns for noise 0. All else is integers and fractions.
"""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcore.mechanisms import RunningTotals
from dpcore.mechanisms._totals import FINENESS, coefficients, nodes_moved, squared_norm

STEPS = 6


def exact(totals, entries):
    """What is released of a stream, without noise."""
    kept = totals.way.begin()
    return [kept.add(entry, 0) for entry in entries]


def moves(totals, change, base=0):
    """How far each released number moves if the entries change."""
    before, after = exact(totals, [base] * totals.steps), exact(totals, [base + each for each in change])
    return [b - a for a, b in zip(before, after, strict=True)]


def changes(steps, moved, reach):
    """All changes of at most so many entries by at most so much."""
    for places in itertools.combinations(range(steps), moved):
        for sizes in itertools.product(range(-reach, reach + 1), repeat=moved):
            change = [0] * steps
            for place, size in zip(places, sizes, strict=True):
                change[place] = size
            yield change


def worst_square(totals, reach=1):
    return max(sum(each * each for each in moves(totals, change)) for change in changes(totals.steps, totals.max_steps_per_unit, reach))


def worst_loss(totals, reach=1):
    """The largest log-ratio of the joint answers of a tree: losses of separate numbers add up, and are reached together."""
    found = (sum(map(abs, moves(totals, change))) for change in changes(totals.steps, totals.max_steps_per_unit, reach))
    return Fraction(max(found)) / Fraction(totals.scale)


@pytest.mark.parametrize("moved", range(1, STEPS + 1))
def test_the_first_columns_are_the_worst(moved):
    """B is reached, and no neighbour exceeds it."""
    totals = RunningTotals(STEPS, rho=0.5, max_steps_per_unit=moved)
    assert worst_square(totals) == squared_norm(STEPS, moved)
    assert squared_norm(STEPS, moved) <= moved**2 * squared_norm(STEPS, 1)
    assert Fraction(totals.scale) ** 2 >= squared_norm(STEPS, moved)
    assert Fraction(totals.scale) ** 2 <= squared_norm(STEPS, moved) * (1 + Fraction(1, 2**50))


@pytest.mark.parametrize("steps", range(1, 10))
@pytest.mark.parametrize("moved", [1, 2])
def test_no_neighbour_of_a_tree_loses_more_than_epsilon(steps, moved):
    if moved > steps:
        return
    totals = RunningTotals(steps, 0.75, sensitivity=2, max_steps_per_unit=moved)
    assert Fraction(3, 4) * (1 - Fraction(1, 2**50)) <= worst_loss(totals, reach=2) <= Fraction(3, 4)
    assert nodes_moved(steps, moved) <= moved * (steps.bit_length())


def test_laws_of_a_short_tree_by_enumeration():
    """All joint answers in a window: the log-ratio of their probabilities, from the law of the noise, is at most ε and reaches it."""
    totals = RunningTotals(3, 1.0)
    z = np.arange(-12, 13)
    log_law = -np.abs(z) / totals.scale
    found = 0.0
    for change in changes(3, 1, 1):
        ratio = np.zeros((1, 1, 1))
        for axis, move in enumerate(moves(totals, change)):
            shifted = -np.abs(z - move) / totals.scale
            ratio = ratio + np.moveaxis((log_law - shifted)[:, None, None], 0, axis)
        found = max(found, float(np.abs(ratio).max()))
    assert found == pytest.approx(1.0, abs=1e-12)
    assert found <= 1.0 + 1e-12


# Twins: sensitivities that are too small.


def truncated(steps):
    """The norm of a column without its second half."""
    return sum(each**2 for each in coefficients(steps)[: steps // 2])


def rounded_down(steps):
    """The norm of the column of reals that is rounded down to whole numbers of a coarse grid, in the units of the column."""
    return sum((each // FINENESS * FINENESS) ** 2 for each in coefficients(steps))


def of_the_last(steps):
    """The columns of the last entries."""
    return sum(each**2 for each in coefficients(steps)[: steps - 1])


@pytest.mark.parametrize("twin", [truncated, rounded_down, of_the_last])
def test_a_column_that_is_too_small_is_found(twin):
    assert worst_square(RunningTotals(STEPS, rho=0.5)) > twin(STEPS)


def test_levels_that_are_bounded_separately_are_found(monkeypatch):
    """Each level of the tree is ε-private by itself, and all of them together are not."""
    monkeypatch.setattr("dpcore.mechanisms.totals.nodes_moved", lambda _steps, moved: moved)
    assert worst_loss(RunningTotals(STEPS, 0.75)) > Fraction(9, 4) * (1 - Fraction(1, 2**50))


# Random neighbours in integers, and adversaries that see answers.


@given(st.integers(1, 40), st.data())
def test_random_neighbours_stay_within_the_bound(steps, data):
    moved = data.draw(st.integers(1, steps))
    places = data.draw(st.lists(st.integers(0, steps - 1), unique=True, max_size=moved))
    change = [0] * steps
    for place in places:
        change[place] = data.draw(st.integers(-3, 3))
    gauss = RunningTotals(steps, rho=0.5, sensitivity=3, max_steps_per_unit=moved)
    assert sum(each**2 for each in moves(gauss, change, base=data.draw(st.integers(-9, 9)))) <= 9 * squared_norm(steps, moved)
    tree = RunningTotals(steps, 1.0, sensitivity=3, max_steps_per_unit=moved)
    assert sum(map(abs, moves(tree, change))) <= Fraction(tree.scale)


@pytest.mark.parametrize("arguments", [{"epsilon": 0.5}, {"rho": 0.05}], ids=["tree", "factorisation"])
def test_an_adversary_that_follows_the_answers_gains_nothing(arguments):
    """The entry that differs, and its sign, depend on the answers so far; on each path the moves are within the bound, exactly."""
    steps, moved = 12, 3
    totals = RunningTotals(steps, **arguments, max_steps_per_unit=moved)
    bound = squared_norm(steps, moved) if "rho" in arguments else nodes_moved(steps, moved)
    generator, reached = np.random.default_rng(5), 0
    for _ in range(300):
        one, other, left, spent = totals.way.begin(), totals.way.begin(), moved, 0
        answer = 0
        for step in range(1, steps + 1):
            change = (1 if answer % 2 else -1) if left and (answer % 3 or step > steps - left) else 0
            left -= abs(change)
            entry, noise = int(generator.integers(0, 50)) + (answer % 7), int(generator.integers(-9, 10))
            answer = one.add(entry, noise)
            move = other.add(entry + change, noise) - answer
            spent += move * move if "rho" in arguments else abs(move)
        assert spent <= bound
        reached = max(reached, spent)
    assert reached > bound / 4
