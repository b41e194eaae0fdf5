"""`quantile` and `median`."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from dpcore.query.kinds.quantile import QuantileEstimator
from kinds.tables import FOUND, GRID
from support.parts import Array, Part, softmax_logs

EXAMPLES = {
    "quantiles": {"kind": "quantile", **GRID, "q": [0.3, 0.75]},
    "median": {"kind": "median", **GRID},
    "found median": {"kind": "median", **FOUND},
}
DENSE = {"grid": [-1, *(place / 128 for place in range(385))]}
"""Of so many points that those far away weigh more than the best one: then their utilities decide, and a quantile loses what it may."""
SHARPER = {"quantiles": DENSE, "median": DENSE}
NO_DELTA = dict.fromkeys(("quantile", "median"), True)
LAWS = {
    "quantile": "test_release_law.py::test_quantiles",
    "median": "test_release_groups_law.py::test_quantiles_of_groups",
}


def one_after_the_other(answer: QuantileEstimator, total: Any) -> list[Part]:
    """The levels of each group."""
    return [part for counts in total[:-1, :-1] for part in choices(answer, counts)]


def choices(answer: QuantileEstimator, counts: Array) -> list[Part]:
    """One choice for each level."""
    levels = [Fraction(repr(q)) for q in answer.section.q]
    return [
        Part(softmax_logs(answer.epsilon * answer.utilities(counts, level) / (2 * sensitivity)), np.zeros((len(counts), 0)))
        for level, sensitivity in zip(levels, answer.sensitivities, strict=True)
    ]


RELEASED = {QuantileEstimator: one_after_the_other}
