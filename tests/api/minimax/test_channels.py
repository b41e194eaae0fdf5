"""The optimal binary channel: its certificate on every kind of model, checked by other programmes, and refused where it would not hold."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcore.errors import DpcoreError, ParameterError, ParameterTypeError
from dpcore.minimax import Certificate, Model, dp_level, modulus_hellinger, modulus_tv, optimal_channel
from dpcore.minimax.programs.program import Program
from dpcore.minimax.spaces import channels
from support.minimax_models import NAMES, model

SETTINGS = [(1, 1.0), (20, 1.0), (5_000, 1.0), (5_000, 0.05), (10**6, 4.0), (10**9, 1.0)]


def attained_by_the_other_programme(of: Model, phi: np.ndarray, radius: float) -> float:
    """Φ_φ(2η) as spec: max θ(p1) − θ(p0), |E_p1 φ − E_p0 φ| ≤ 2η, from the primal side."""
    program = Program()
    p0, p1 = program.member(of), program.member(of)
    program.at_most(phi @ (p1 - p0), 2 * radius)
    program.at_most(-phi @ (p1 - p0), 2 * radius)
    return program.maximise(of.f @ (p1 - p0)).value


@pytest.mark.some(3)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("n", "epsilon"), SETTINGS)
def test_the_certificate_holds_on_every_kind_of_model(name, n, epsilon):
    of = model(name)
    found = optimal_channel(of, epsilon, n=n)
    certificate = found.certificate
    assert certificate.holds
    assert certificate.ratio <= 1 + 1e-6
    assert certificate.attained >= certificate.modulus * (1 - 1e-9)
    assert certificate.radius == pytest.approx((math.exp(epsilon) + 1) / (math.exp(epsilon) - 1) / math.sqrt(n), rel=1e-12)
    phi = np.array(found.channel.phi)
    assert phi.shape == (of.size,)
    assert np.abs(phi).max() == 1.0
    # What the certificate says, by programmes that it did not use.
    assert certificate.modulus == pytest.approx(modulus_tv(of, certificate.radius).value, rel=1e-9)
    assert attained_by_the_other_programme(of, phi, certificate.radius) <= certificate.attained * (1 + 1e-7)
    assert dp_level(found.channel) == pytest.approx(epsilon, abs=1e-9)


@pytest.mark.some(2)
@pytest.mark.parametrize("name", ["simplex", "moment 2", "moment 1.5", "hoelder 1", "polytope", "hull", "uniform"])
@pytest.mark.parametrize("n", [30, 10_000])
def test_satz_3_13_the_reports_tell_as_much_apart_as_privacy_allows(name, n):
    of = model(name)
    found = optimal_channel(of, 1.0, n=n)
    reports = modulus_hellinger(of, 1 / math.sqrt(n), channel=found.channel)
    assert reports.upper <= found.certificate.modulus * (1 + 1e-5)
    # The estimator gets the object itself.
    assert modulus_hellinger(of, 1 / math.sqrt(n), channel=found).value == reports.value


@pytest.mark.some(4)
@pytest.mark.parametrize("name", ["simplex", "moment 2", "moment 1.5", "hoelder 1", "polytope", "uniform"])
def test_another_function_has_no_certificate(name):
    # Teeth: the certificate is a property of φ, not of the arithmetic that computes it.
    of = model(name)
    found = optimal_channel(of, 1.0, n=5_000)
    phi = np.array(found.channel.phi)
    for other in (np.where(np.arange(of.size) == of.f.argmax(), 1.0, -1.0), np.roll(phi, of.size // 3)):
        assert attained_by_the_other_programme(of, other, found.certificate.radius) > found.certificate.modulus * (1 + 1e-3)


def test_known_answer_all_distributions():
    f = np.array([3.0, -1.0, 0.5, 2.0])
    found = optimal_channel(Model(f), 0.5, n=1000)
    assert found.channel.phi == pytest.approx(2 * (f + 1) / 4 - 1, abs=1e-9)


def test_known_answer_moments_a_clipped_line():
    of = model("moment 2")
    phi = np.array(optimal_channel(of, 1.0, n=5_000).channel.phi)
    line = np.polyfit(of.points[np.abs(phi) < 1], phi[np.abs(phi) < 1], 1)
    assert phi == pytest.approx(np.clip(np.polyval(line, of.points), -1, 1), abs=1e-6)
    assert line[1] == pytest.approx(0.0, abs=1e-6)
    assert 1 < np.sum(np.abs(phi) < 1) < of.size


@pytest.mark.long
@given(st.integers(0, 2**32 - 1), st.integers(1, 10**6), st.floats(0.01, 5.0))
@settings(max_examples=30)
def test_certificates_of_random_polytopes(seed, n, epsilon):
    generator = np.random.default_rng(seed)
    size, rows = int(generator.integers(2, 15)), int(generator.integers(0, 8))
    conditions = generator.normal(size=(rows, size))
    bounds = conditions @ generator.dirichlet(np.ones(size)) + generator.uniform(1e-3, 0.5, size=rows)
    of = Model(generator.normal(size=size), conditions, bounds)
    found = optimal_channel(of, epsilon, n=n)
    assert found.certificate.holds
    assert attained_by_the_other_programme(of, np.array(found.channel.phi), found.certificate.radius) <= found.certificate.attained * (
        1 + 1e-6
    )


@pytest.mark.long
@given(st.integers(0, 2**32 - 1), st.integers(1, 10**6))
@settings(max_examples=20)
def test_certificates_of_random_hulls(seed, n):
    generator = np.random.default_rng(seed)
    size = int(generator.integers(2, 15))
    vertices = generator.dirichlet(np.full(size, 0.3), size=int(generator.integers(2, 8)))
    assert optimal_channel(Model.hull(generator.normal(size=size), vertices), 1.0, n=n).certificate.holds


def test_a_model_of_size_500():
    assert optimal_channel(Model.moment(np.linspace(-20.0, 20.0, 500), kappa=2.0, C=1.0), 1.0, n=10_000).certificate.holds


@pytest.mark.some(2)
@pytest.mark.parametrize("n", [100, 10**6])
@pytest.mark.parametrize(
    "of",
    [
        lambda: Model.moment(np.concatenate([-np.geomspace(1e6, 1e-2, 100), np.geomspace(1e-2, 1e6, 100)]), kappa=2.0, C=1.0),
        lambda: Model.hoelder_density(np.linspace(-2.0, 2.0, 301), smoothness=2.0, C=2.0, x0=0.0, m=1),
        lambda: Model.hoelder_density(np.linspace(-2.0, 2.0, 81), smoothness=3.0, C=20.0, x0=0.0),
    ],
    ids=["moment", "hoelder 2", "hoelder 3"],
)
def test_badly_scaled_conditions(of, n):
    # Coefficients up to 1e12: masses of 1e-10, the solver's tolerance, are not small there.
    assert optimal_channel(of(), 1.0, n=n).certificate.holds


@pytest.mark.parametrize("f", [1e6 + np.linspace(0.0, 1.0, 9), 1e-12 * np.arange(4.0), 1e200 * np.array([-1.0, 0.5, 1.0])])
def test_badly_scaled_functionals(f):
    assert optimal_channel(Model(f), 1.0, n=10**6).certificate.holds


def test_models_whose_conditions_are_equations():
    # No inside: A p ≤ b and −A p ≤ −b.
    of = Model([0.0, 1.0, 2.0, 5.0], [[1.0, 0.0, 1.0, 1.0], [-1.0, 0.0, -1.0, -1.0]], [0.5, -0.5])
    found = optimal_channel(of, 1.0, n=400)
    assert found.certificate.holds
    assert modulus_tv(of, 0.1).value == pytest.approx(0.5)


def test_a_constant_functional_is_refused():
    with pytest.raises(ParameterError, match="constant"):
        optimal_channel(Model([2.0, 2.0, 2.0]), 1.0, n=100)
    with pytest.raises(ParameterError, match="constant"):
        optimal_channel(Model.hull([0.0, 1.0, 2.0], [[0.5, 0.0, 0.5], [0.0, 1.0, 0.0]]), 1.0, n=100)
    with pytest.raises(ParameterError, match="constant"):
        optimal_channel(Model.hull([0.1, 0.3, 0.7, 0.4], [[0.1, 0.6, 0.3, 0.0], [0.0, 0.0, 0.0, 1.0]]), 1.0, n=100)


def test_a_channel_without_a_certificate_is_not_given_out(monkeypatch):
    monkeypatch.setattr(channels, "_directions", lambda of, own, pair: [np.where(np.arange(of.size) % 2 == 0, 1.0, -1.0)])
    with pytest.raises(DpcoreError, match="no channel could be proved optimal"):
        optimal_channel(model("moment 2"), 1.0, n=5_000)


def test_the_middle_is_tried_first_and_the_vertex_is_the_way_out(monkeypatch):
    monkeypatch.setattr(channels, "_in_the_middle", lambda of, own, pair, phi: np.roll(phi, 1))
    assert optimal_channel(model("moment 2"), 1.0, n=5_000).certificate.holds


@pytest.mark.parametrize(
    ("attained", "holds"), [(1.0, True), (1.0 + 9e-7, True), (1.0 + 1.1e-6, False), (0.9, True), (math.nan, False), (math.inf, False)]
)
def test_a_certificate_holds_to_a_millionth(attained, holds):
    assert Certificate(0.1, 1.0, attained).holds is holds


@pytest.mark.parametrize("n", [0, -1, 1.5, True, 2**54, "3"])
def test_refused_numbers_of_records(n):
    with pytest.raises((ParameterError, ParameterTypeError), match=r"\bn\b"):
        optimal_channel(model("simplex"), 1.0, n=n)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, 701.0, math.nan, "1", True])
def test_refused_epsilons(epsilon):
    with pytest.raises((ParameterError, ParameterTypeError), match="epsilon"):
        optimal_channel(model("simplex"), epsilon, n=10)


def test_refused_models():
    with pytest.raises(ParameterTypeError, match="model must be a Model"):
        optimal_channel(np.eye(3), 1.0, n=10)


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("n", [10_000, 2_000_000])
def test_the_question_does_not_turn_back_beyond_the_hard_members(sign, n):
    grid = sign * np.linspace(0.0, 40.0, 161) ** 2
    found = optimal_channel(Model.moment(grid, kappa=1.5, C=4.0), 1.0, n=n)
    phi = np.array(found.channel.phi)[np.argsort(grid)]
    assert found.certificate.holds
    assert (np.diff(phi) >= 0).all()
    assert phi[0] < -0.9
    assert phi[-1] > 0.9


# Records as they are, progress, and notebooks


def test_a_channel_for_records_is_the_channel_at_the_points_and_a_line_between_them():
    model = Model.moment(np.array([3.0, -2.0, 0.0, 1.0, -1.0]), kappa=2.0, C=1.0)  # in no order
    optimal = optimal_channel(model, 0.8, n=50)
    channel = optimal.for_records()
    assert channel.privacy == optimal.privacy == optimal.channel.privacy
    assert channel.channel(model.points).tolist() == optimal.channel.channel().tolist()
    ends = optimal.channel.channel()[[2, 3]]
    assert channel.channel([0.25])[0] == pytest.approx(0.75 * ends[0] + 0.25 * ends[1], rel=1e-14)
    assert channel.channel([1e9, -1e9]).tolist() == optimal.channel.channel()[[0, 1]].tolist()
    assert channel == optimal.for_records()
    for texts in (["a secret"], np.array(["a secret"], object)):
        with pytest.raises(ParameterTypeError, match=r"records must have one of the dtypes .* got (str|object)$"):
            channel.privatize(texts)


@pytest.mark.parametrize("points", [None, np.zeros((3, 2))])
def test_a_channel_for_records_needs_points_that_are_numbers(points):
    optimal = optimal_channel(Model([0.0, 1.0, 2.0], points=points), 1.0, n=50)
    with pytest.raises(ParameterError, match="points that are numbers"):
        optimal.for_records()


def test_finding_a_channel_reports_its_progress():
    seen: list[tuple[int, int]] = []
    optimal_channel(model("moment 2"), 1.0, n=100, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 6), (2, 6), (3, 6), (6, 6)]


def test_notebooks_see_what_is_proved():
    shown = optimal_channel(model("moment 2"), 1.0, n=12_345)._repr_html_()
    assert "12,345" in shown
    assert "<td>yes</td>" in shown
