"""The joint law of running totals, over restarts too, at an error rate of 10^-6; each with a twin that is rejected."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from dpcore import noise
from dpcore.mechanisms import RunningTotals
from dpcore.mechanisms._totals import coefficients, tail
from dpcore.testing import KeyedRandom
from support.laws import ERROR_RATE, binomial_p_value, p_value

KEY = bytes(range(32))
ROUNDS = 20_000
STEPS = 4


def draws(totals, rounds=ROUNDS):
    """The noise of many streams, as `noise_of` draws it: a row each."""
    draw = noise.discrete_gaussian if totals.way.law == "discrete_gaussian" else noise.discrete_laplace
    return draw(np.zeros((rounds, totals.steps), np.int64), totals.scale, rng=KeyedRandom(KEY))


def released(totals, entries, noises, restart=None):
    """The totals of many streams of one row of entries; each state is written and read again after a step, if one is named."""
    rows = []
    for noise_of_row in noises.tolist():
        kept, row = totals.way.begin(), []
        for step, (entry, z) in enumerate(zip(entries, noise_of_row, strict=True), 1):
            kept.add(entry, z)
            row.append(kept.total())
            if step == restart:
                kept = totals.way.begin(kept.written())
        rows.append(row)
    return np.array(rows, float)


def joint_p_value(errors, matrix, unit):
    """Whether errors are `matrix` times independent noise of one normal law: χ² of whitened squares, and of all products of pairs."""
    white = errors @ np.linalg.inv(matrix).T / unit
    n, steps = white.shape
    found = [stats.kstest(white[:, step], "norm").pvalue for step in range(steps)]
    found += [2 * stats.norm.sf(abs(float(white[:, a] @ white[:, b])) / math.sqrt(n)) for a in range(steps) for b in range(a)]
    radius = stats.kstest((white**2).sum(axis=1), "chi2", args=(steps,)).pvalue
    return min(*found, radius) * (len(found) + 1)


def decoding(steps):
    column = np.array(coefficients(steps), float)
    factor = np.array([[column[i - j] if i >= j else 0.0 for j in range(steps)] for i in range(steps)])
    return np.tril(np.ones((steps, steps))) @ np.linalg.inv(factor)


ENTRIES = [5, 0, 17, 3]


@pytest.mark.parametrize("restart", [None, 2])
def test_the_joint_law_of_gaussian_totals(restart):
    totals = RunningTotals(STEPS, rho=0.5)
    errors = released(totals, ENTRIES, draws(totals), restart) - np.cumsum(ENTRIES)
    assert joint_p_value(errors, decoding(STEPS), totals.scale) > ERROR_RATE


def test_a_restart_that_draws_again_is_rejected():
    """After two steps the twin draws noise anew for the entries it has: two values of one step, and totals that do not fit together."""
    totals = RunningTotals(STEPS, rho=0.5)
    first = draws(totals)
    second = np.array(first)
    second[:, :2] = draws(totals, 2 * ROUNDS)[ROUNDS:, :2]
    errors = np.hstack([released(totals, ENTRIES, first)[:, :2], released(totals, ENTRIES, second)[:, 2:]]) - np.cumsum(ENTRIES)
    assert joint_p_value(errors, decoding(STEPS), totals.scale) < ERROR_RATE


def cells_p_value(noises, scale):
    """χ² of the joint cells of four noises of a tree."""
    z = np.clip(noises, -2, 2) + 2
    seen = np.bincount((z * 5 ** np.arange(STEPS)).sum(axis=1), minlength=5**STEPS)
    r = math.exp(-1 / scale)
    one = np.array([(1 - r) / (1 + r) * r ** abs(k) for k in range(-1, 2)])
    ends = r**2 / (1 + r)
    law = np.array([ends, *one, ends])
    return p_value(seen, np.einsum("a,b,c,d->dcba", law, law, law, law).reshape(-1))


def test_the_joint_law_of_a_tree():
    """Noise of its nodes is that of its totals, taken apart: t₁, t₂, t₃ − t₂, t₄."""
    totals = RunningTotals(STEPS, 2.0)
    errors = (released(totals, ENTRIES, draws(totals), restart=3) - np.cumsum(ENTRIES)).astype(int)
    nodes = np.stack([errors[:, 0], errors[:, 1], errors[:, 2] - errors[:, 1], errors[:, 3]], axis=1)
    assert cells_p_value(nodes, totals.scale) > ERROR_RATE
    again = np.array(nodes)
    again[:, 2] = errors[:, 2] - draws(totals, 2 * ROUNDS)[ROUNDS:, 1]  # as of a twin whose third step draws its second node again
    assert cells_p_value(again, totals.scale) < ERROR_RATE


# The privacy loss of what is drawn


def measured_rho(totals, entries, neighbour):
    """ρ of the joint answers of two neighbours in their worst direction, with its standard error: (shift)²/2·variance."""
    noises = draws(totals)
    kept, others = totals.way.begin(), totals.way.begin()
    centre = np.array([kept.add(entry, 0) for entry in entries], float)
    shift = np.array([others.add(entry, 0) for entry in neighbour], float) - centre
    along = (noises @ shift) / np.linalg.norm(shift)
    found = float(shift @ shift) / (2 * float(along.var()))
    return found, found * math.sqrt(2 / ROUNDS)


HALF = math.sqrt(sum(c**2 for c in coefficients(STEPS)[:2]) / sum(c**2 for c in coefficients(STEPS)))


@pytest.mark.parametrize(("smaller", "is_kept"), [(1.0, True), (0.9, False), (HALF, False)])
def test_the_loss_of_neighbours_is_rho_and_that_of_twins_is_more(smaller, is_kept):
    """The twins take nine tenths of the sensitivity, or a column without its second half."""
    totals = RunningTotals(STEPS, rho=0.5 if is_kept else 0.5 / smaller**2)
    found, error = measured_rho(totals, ENTRIES, [6, 0, 17, 3])
    quantile = stats.norm.isf(ERROR_RATE)
    assert bool(found - quantile * error <= 0.5) is is_kept
    assert not is_kept or found + quantile * error >= 0.5


# Intervals


@pytest.mark.parametrize("totals", [RunningTotals(13, 1.0), RunningTotals(13, rho=0.5), RunningTotals(13, rho=1e6)], ids=str)
def test_intervals_cover(totals):
    noises = draws(totals)
    errors = released(totals, [0] * 13, noises)
    for step in (1, 7, 13):
        misses = int((np.abs(errors[:, step - 1]) > totals.accuracy(0.05, step=step)).sum())
        assert stats.binom.sf(misses - 1, ROUNDS, 0.05) > ERROR_RATE, "more misses than are allowed"
        if totals.rho != 1e6:
            assert binomial_p_value(misses, ROUNDS, 0.05) > ERROR_RATE or totals.way.law == "discrete_laplace"


@pytest.mark.parametrize("scale", [0.3, 2.0, 7.5])
def test_tails_of_sums_are_those_of_the_convolution(scale):
    reach = int(60 * scale) + 30
    z = np.arange(-reach, reach + 1)
    r = math.exp(-1 / scale)
    one = (1 - r) / (1 + r) * r ** np.abs(z)
    law = np.array([1.0])
    for count in range(1, 6):
        law = np.convolve(law, one)
        places = np.arange(len(law)) - len(law) // 2
        for a in (0, 1, int(3 * scale), int(10 * scale)):
            assert tail(scale, count, a) == pytest.approx(float(law[np.abs(places) > a].sum()), rel=1e-9)
    twin = 2 * r**4 / (1 + r)
    assert abs(tail(scale, 2, 3) / twin - 1) > 0.1, "the tail of one number is not that of two"
