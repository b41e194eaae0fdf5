"""Products of experiments that are too large."""

from __future__ import annotations

import numpy as np
import pytest

from dpcore.blackwell import Experiment
from dpcore.errors import ParameterError


def test_a_product_of_any_number_of_runs_is_refused_in_words():
    """The numbers of outcomes have thousands of digits and more, which Python does not print."""
    for m, uses in ((2, 20_000), (50, 2**26)):
        with pytest.raises(ParameterError, match=rf"the product must have at most 67108864 entries, got 1 × {m}\^{uses}$"):
            Experiment(np.full((1, m), 1 / m)).product(uses)
    with pytest.raises(ParameterError, match=r"entries, got 1 × more than 2\^\d+$"):
        Experiment(np.full((1, 2500), 1 / 2500)).product(2**26, ordered=False)
