"""No two outputs of a call depend on each other, judged from the outputs alone."""

from __future__ import annotations

import numpy as np
import pytest

from dpcore import noise
from dpcore.testing import KeyedRandom
from support.independence import WINDOW, examine

KEY = bytes(range(1, 33))
SMALL, LARGE = 2.0, 1000.0
MIXTURES = {
    "one table scale": [SMALL],
    "one rounded scale": [LARGE],
    "tables": [SMALL, 7.5],
    "rounded": [8.0, LARGE],
    "both, by columns of three": [1.0, 1.0, 1000.0],
    "both, in turn": [SMALL, LARGE],
    "both, by halves of a group": [SMALL] * 64 + [LARGE] * 64,
    "both, the other way round": [LARGE] * 64 + [SMALL] * 64,
}


@pytest.mark.parametrize("mixture", MIXTURES)
def test_discrete_gaussians_of_one_call(mixture: str) -> None:
    scales = np.resize(MIXTURES[mixture], WINDOW)
    drawn = noise.discrete_gaussian(np.zeros((2000, WINDOW), np.int64), scales, rng=KeyedRandom(KEY))
    verdict = examine(drawn)
    assert not verdict.is_rejected, verdict
