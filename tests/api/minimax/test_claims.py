"""What a certificate does not say: a channel with three outcomes does better than every channel with two, and no page denies it."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest

from dpcore import local
from dpcore.minimax import BinarySearchEstimator, Certificate, Model, OptimalChannel, dp_level, modulus_hellinger, optimal_channel

ROOT = Path(__file__).parents[3]
N, EPSILON = 100_000, 2.0


@pytest.fixture(scope="module")
def rare() -> Model:
    """Three points, the third of which holds at least 99 % of the mass; θ is the difference of the others."""
    return Model([1.0, -1.0, 0.0], A=[[0.0, 0.0, -1.0]], b=[-0.99])


def worst_risk(channel: np.ndarray, worth: np.ndarray, f: np.ndarray) -> float:
    """The largest mean square error of the mean of `worth` of the reports, over the vertices and a fine grid of the model."""
    shares = np.linspace(0.0, 0.01, 41)
    members = np.array([(a, b, 1 - a - b) for a in shares for b in shares if a + b <= 0.01 + 1e-15])
    first, second = members @ channel @ worth, members @ channel @ worth**2
    assert np.allclose(first, members @ f, atol=1e-15)  # unbiased
    return float((second - first**2).max()) / N


def test_three_outcomes_do_better_than_what_is_certified_for_one_bit(rare):
    optimal, three = optimal_channel(rare, EPSILON, n=N), local.KaryResponse(EPSILON, k=3)
    assert dp_level(three) <= EPSILON + 1e-12
    assert optimal.certificate.holds
    assert optimal.certificate.modulus == pytest.approx(0.00830, abs=5e-6)
    resolved = modulus_hellinger(rare, N**-0.5, channel=three)
    assert resolved.upper == pytest.approx(0.00436, abs=5e-6)
    assert resolved.upper < 0.53 * optimal.certificate.modulus
    e = math.exp(EPSILON)
    keep, lie = e / (e + 2), 1 / (e + 2)
    f = np.array([1.0, -1.0, 0.0])
    risk_of_three = worst_risk(three.channel(), f / (keep - lie), f)
    z0 = (e + 1) / (e - 1)
    phi = np.array(optimal.channel.phi)
    risk_of_one_bit = worst_risk(np.stack([(1 - phi / z0) / 2, (1 + phi / z0) / 2], axis=1), np.array([-z0, z0]), f)
    assert risk_of_one_bit / risk_of_three == pytest.approx(3.63, abs=0.01)
    assert risk_of_three == pytest.approx(4.75e-6, abs=5e-9)
    assert BinarySearchEstimator(rare, optimal, n=N).risk_bound() > 3 * risk_of_three


@pytest.mark.parametrize(("epsilon", "better"), [(math.log(3) / 2 - 0.05, False), (math.log(3) / 2 + 0.05, True)])
def test_one_bit_loses_from_the_root_of_three_on(epsilon, better):
    """With all but a millionth of the mass at the third point: the moduli of the best one-bit channel and of three outcomes."""
    nearly = Model([1.0, -1.0, 0.0], A=[[0.0, 0.0, -1.0]], b=[1e-6 - 1.0])
    n = 10**14  # at the radius, the mass that moves is a tenth of the millionth
    one_bit = optimal_channel(nearly, epsilon, n=n).certificate.modulus
    three = modulus_hellinger(nearly, n**-0.5, channel=local.KaryResponse(epsilon, k=3))
    e = math.exp(epsilon)
    assert one_bit == pytest.approx(2 * (e + 1) / (e - 1) * n**-0.5, rel=1e-6)
    assert three.value == pytest.approx(2 * math.sqrt(2 * (e + 2)) / (e - 1) * n**-0.5, rel=1e-3)
    assert (three.upper < one_bit) is (three.value < one_bit) is better


FALSE = re.compile(
    r"any number of outcomes|no ε-private channel resolves|no private channel resolves"
    r"|no ε-private report, of any\s+kind|one bit a record is enough\.|no private channel can\s+resolve",
    re.IGNORECASE,
)


def test_no_page_or_docstring_compares_with_channels_of_more_outcomes():
    texts = {
        path: path.read_text("utf-8")
        for folder in ("docs", "src/dpcore")
        for ext in ("md", "py")
        for path in (ROOT / folder).rglob(f"*.{ext}")
    }
    assert len(texts) > 300
    assert [str(path) for path, text in texts.items() if FALSE.search(text)] == []
    assert FALSE.search("as those of any private channel with any number of outcomes. The proof")
    assert FALSE.search("No ε-private channel resolves less.")
    for words in (Certificate.__doc__, OptimalChannel.__doc__):
        assert words is not None
        assert "among binary channels" in words


def test_the_page_of_a_channel_speaks_of_one_bit(rare):
    shown = optimal_channel(rare, EPSILON, n=N)._repr_html_()
    assert "no private one-bit channel resolves differences" in shown
    assert "proved optimal among one-bit channels" in shown
