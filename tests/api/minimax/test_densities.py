"""Densities of private channels: Steinberger (2019), Satz 1.12, in exact rationals, and densities that fail."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcore import local
from dpcore.errors import ParameterError, ParameterTypeError
from dpcore.minimax import apply, channel_densities, density_level, dp_level

CHANNELS = [
    local.BinaryResponse(0.7),
    local.KaryResponse(1.3, k=4),
    local.SubsetSelection(1.0, k=5),
    local.BinaryChannel(0.5, (-1.0, 0.2, 1.0)),
    np.array([[0.5, 0.5, 0.0], [0.3, 0.7, 0.0]]),
]


@pytest.mark.parametrize("channel", CHANNELS, ids=lambda each: type(each).__name__)
def test_densities_of_every_reference_obey_the_bound_everywhere(channel):
    epsilon = dp_level(channel)
    matrix = channel if isinstance(channel, np.ndarray) else channel.channel()
    for reference in range(len(matrix)):
        q = channel_densities(channel, reference=reference)
        assert (q[:, None, :] <= math.exp(epsilon) * (1 + 1e-12) * q[None, :, :]).all()
        assert q * matrix[reference] == pytest.approx(matrix, abs=1e-15)  # they are densities of the channel
        assert (q[reference] == 1).all()
        assert (q >= math.exp(-epsilon) * (1 - 1e-12)).all()


@given(st.lists(st.lists(st.integers(1, 9), min_size=3, max_size=3), min_size=2, max_size=4))
@settings(max_examples=30, deadline=None)
def test_the_direction_of_the_proof_in_rationals(rows):
    """Densities within e^ε at every report give events within e^ε, and e^ε is the largest ratio of an event."""
    channel = [[Fraction(k, sum(row)) for k in row] for row in rows]
    densities = channel_densities([[float(x) for x in row] for row in channel])
    exact = [[x / y for x, y in zip(row, channel[0], strict=True)] for row in channel]
    assert densities == pytest.approx(np.array(exact, float), rel=1e-14)
    pointwise = max(a / b for first in exact for second in exact for a, b in zip(first, second, strict=True))
    events = [[z for z in range(3) if mask >> z & 1] for mask in range(1, 8)]
    by_events = max(sum(p[z] for z in event) / sum(q[z] for z in event) for p in channel for q in channel for event in events)
    assert pointwise == by_events
    assert dp_level([[float(x) for x in row] for row in channel]) == pytest.approx(math.log(pointwise), abs=1e-12)


def test_densities_that_differ_on_a_null_set_fail():
    """The twin that leaves 0 at a report that nobody makes: a density of the same law, which breaks the bound there."""
    matrix = CHANNELS[-1]
    with np.errstate(invalid="ignore"):
        twin = np.where(matrix[0] > 0, matrix / np.where(matrix[0] > 0, matrix[0], 1), [[0.0], [1.0]])
    assert twin * matrix[0] == pytest.approx(matrix)
    assert not (twin[1] <= math.exp(dp_level(matrix)) * twin[0]).all()


def test_reports_of_all_distributions_have_one_support():
    # Aufgabe 2.4: m_j = Σ q(·|x) P_j(x) is a density of Q P_j, and positive exactly where q(·|x) is.
    channel = local.KaryResponse(1.0, k=3)
    q = channel_densities(channel, reference=1)
    for p in ([1.0, 0.0, 0.0], [0.2, 0.3, 0.5]):
        m = np.array(p) @ q
        assert m * channel.channel()[1] == pytest.approx(apply(channel, p))
        assert (m > 0).all()


def test_channels_that_are_not_private_have_none():
    with pytest.raises(ParameterError, match="possible for one input and impossible for another"):
        channel_densities(np.eye(2))
    with pytest.raises(ParameterError, match="reference must be"):
        channel_densities(CHANNELS[0], reference=2)


# Densities of real numbers


def laplace(scale):
    return lambda z, x: -np.abs(z - np.clip(x, -1.0, 1.0)) / scale


Z = np.linspace(-30.0, 30.0, 601)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_laplace_noise_on_clamped_numbers_is_private(epsilon):
    found = density_level(laplace(2 / epsilon), inputs=[-5.0, -1.0, 0.3, 1.0], outputs=Z, slope=epsilon)
    assert found.value == pytest.approx(epsilon, rel=1e-12)
    assert epsilon <= found.upper <= epsilon * 1.051
    assert {float(found.x), float(found.other)} <= {-5.0, -1.0, 1.0}
    assert laplace(2 / epsilon)(found.z, found.x) - laplace(2 / epsilon)(found.z, found.other) == pytest.approx(found.value)


def test_a_ratio_may_be_largest_between_two_reports():
    peak = lambda z, x: x * (1 - np.abs(z - 0.5))  # noqa: E731
    found = density_level(peak, inputs=[0.0, 1.0], outputs=[0.0, 1.0], slope=1.0)
    assert (found.value, found.upper) == (0.5, 1.0)
    assert density_level(peak, inputs=[0.0, 1.0], outputs=[0.5]).value == 1.0


def test_laplace_noise_on_unclamped_numbers_is_not():
    # Beispiel 1.7 (c)
    unclamped = lambda z, x: -0.5 * np.abs(z - x)  # noqa: E731
    levels = [density_level(unclamped, inputs=[0.0, x], outputs=Z).value for x in (2.0, 4.0, 20.0)]
    assert levels == pytest.approx([1.0, 2.0, 10.0])


@pytest.mark.parametrize("sigma", [0.5, 3.0, 100.0])
def test_normal_noise_is_private_for_no_scale(sigma):
    # Aufgabe 1.3
    normal = lambda z, x: -(((z - np.clip(x, -1, 1)) / sigma) ** 2) / 2  # noqa: E731
    for epsilon in (0.1, 1.0, 10.0):
        beyond = sigma**2 * epsilon / 2 * 1.01
        found = density_level(normal, inputs=[-1.0, 1.0], outputs=[0.0, beyond])
        assert found.value > epsilon
        assert found.z == beyond
        assert found.value == pytest.approx(2 * beyond / sigma**2)


def test_reports_that_one_input_excludes():
    box = lambda z, x: np.where(np.abs(z - x) <= 1, 0.0, -np.inf)  # noqa: E731
    assert density_level(box, inputs=[0.0, 0.5], outputs=[0.0]).value == 0.0
    assert density_level(box, inputs=[0.0, 0.5], outputs=[0.0, 1.2]).value == math.inf
    assert density_level(box, inputs=[0.0, 0.5], outputs=[9.0]).value == 0.0  # excluded by all
    assert density_level(box, inputs=[0.0, 0.5], outputs=[0.0]).upper == math.inf  # nothing is said between reports


@pytest.mark.parametrize(
    ("density", "inputs", "outputs", "message"),
    [
        (lambda z, x: np.zeros(3), [0.0], [0.0, 1.0], "one logarithm for each report"),
        (lambda z, x: z * math.nan, [0.0], [0.0, 1.0], "below infinity"),
        (lambda z, x: z + math.inf, [0.0], [0.0, 1.0], "below infinity"),
        (lambda z, x: z, [], [0.0], "inputs must have at least one input"),
        (lambda z, x: z, [0.0], [], "outputs must be a vector"),
        (lambda z, x: z, [0.0], [math.inf], "outputs must be a vector of at least one finite number"),
        (lambda z, x: z, [0.0], [[0.0]], "outputs must be a vector"),
    ],
)
def test_refused_densities(density, inputs, outputs, message):
    with pytest.raises(ParameterError, match=message):
        density_level(density, inputs=inputs, outputs=outputs)


def test_refused_types():
    with pytest.raises(ParameterTypeError, match="density must be a function"):
        density_level(3, inputs=[0.0], outputs=[0.0])
    with pytest.raises(ParameterError, match="slope must be"):
        density_level(laplace(1.0), inputs=[0.0], outputs=[0.0], slope=-1.0)
