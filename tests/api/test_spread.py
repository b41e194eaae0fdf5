"""Half-widths of intervals against SciPy's laws: they cover, and no smaller ones would."""

from __future__ import annotations

import math

import pytest
from scipy import stats

from dpcore import ParameterError
from dpcore._spread import check_confidence, half_width, standard_deviation
from dpcore.noise import default_grid

SCALES = [2.0**-19, 0.3, 1.0, 7.5, 1e6]
CONFIDENCES = [1e-3, 0.5, 0.95, 1 - 1e-9]


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("confidence", CONFIDENCES)
@pytest.mark.parametrize(("law", "ideal"), [("laplace", stats.laplace), ("gaussian", stats.norm)])
def test_real_noise(law, ideal, scale, confidence):
    half = half_width(law, scale, confidence)
    grid = default_grid(scale)
    assert 2 * ideal.sf((half - grid / 2) / scale) <= (1 - confidence) * (1 + 1e-9)
    assert half == pytest.approx(scale * ideal.isf((1 - confidence) / 2), rel=1e-6, abs=0.51 * grid)
    assert standard_deviation(law, scale) == pytest.approx(ideal.std(scale=scale))


@pytest.mark.parametrize("scale", SCALES[1:])
@pytest.mark.parametrize("confidence", CONFIDENCES)
def test_whole_noise(scale, confidence):
    half, law = half_width("discrete_laplace", scale, confidence), stats.dlaplace(1 / scale)
    assert half == int(half) >= 0
    assert 2 * law.sf(half) <= (1 - confidence) * (1 + 1e-9)
    if half:
        assert 2 * law.sf(half - 1) >= (1 - confidence) * (1 - 1e-6)
    assert standard_deviation("discrete_laplace", scale) == pytest.approx(law.std(), rel=1e-6)


def test_the_least_whole_noise_has_a_standard_deviation():
    assert 0 <= standard_deviation("discrete_laplace", 2.0**-19) < 1e-300
    assert half_width("discrete_laplace", 2.0**-19, 0.95) == 0.0


@pytest.mark.parametrize("confidence", [0.0, 1.0, math.nan, -0.1])
def test_confidences_that_are_refused(confidence):
    with pytest.raises(ParameterError, match="confidence must be in"):
        check_confidence(confidence)
