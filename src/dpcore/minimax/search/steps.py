"""Which step Δ a binary search takes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt

from dpcore._validation import check_choice, check_positive
from dpcore.errors import ParameterError
from dpcore.minimax.search.count_tests import CountSearch
from dpcore.minimax.search.finite_tests import FiniteSearch, Projections, tuned_intervals
from dpcore.minimax.search.searched import number_of_intervals
from dpcore.minimax.spaces.certified import Maximiser
from dpcore.minimax.spaces.polygon import trace_polygon

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpcore.minimax.losses import Loss
    from dpcore.minimax.programs.frames import Frame
    from dpcore.minimax.search.searched import Searched
    from dpcore.minimax.spaces.models import Model

Array = npt.NDArray[np.float64]
Number = TypeVar("Number", int, float)
MOST_INTERVALS = 1 << 14
"""All tests of a binary channel's search together take O(N²) time."""
MOST_TUNED, MOST_TUNED_FINITE = 4096, 256
CONSTANT = 1e-9
COARSE, FINE = 0.05, 0.01
"""What a finer step has to gain, relatively."""
FURTHER = 2
"""How many times finer steps than the best so far are tried."""
AT_LEAST = 32
"""N up to which is tried in any case: with few reports the constant is hard to beat at first."""


def search_for(model: Model, matrix: Array, n: int, step: str | float, loss: Loss) -> Searched:
    """Make the search of a step, or of the step that a word stands for; a binary channel's polygon is found once."""
    frame, model = model.frame, model.standard
    if matrix.shape[1] == 2:
        seen = trace_polygon(Maximiser(model), model.f, matrix[:, 1])
        polygon = seen if seen.rises else seen.mirrored()
        low, high = polygon.theta_range
        width = _width(model, matrix, n, step, loss, high - low, frame)
        return CountSearch(n, width or _tuned(lambda trial: CountSearch(n, trial, polygon), high - low, loss), polygon, frame)
    projections = Projections(model, matrix)
    low, high = projections.theta_range
    width = _width(model, matrix, n, step, loss, high - low, frame)
    tuned = width or (high - low) / (tuned_intervals(projections, n, loss, MOST_TUNED_FINITE) - 0.5)
    return FiniteSearch(projections, n, tuned, frame)


def _width(model: Model, matrix: Array, n: int, step: str | float, loss: Loss, reach: float, frame: Frame) -> float:
    """The step, or 0 if it is still to be tuned."""
    if not isinstance(step, str):
        width = frame.standard_difference(check_positive("step", step))
        if reach > MOST_INTERVALS * width:
            least = frame.difference(reach / MOST_INTERVALS)
            raise ParameterError(f"step must be at least the range of θ divided by {MOST_INTERVALS}, {least!r}, got {float(step)!r}")
        return width
    check_choice("step", step, ("theory", "tuned"))
    low, high = model.theta_range
    if high - low <= CONSTANT * max(abs(low), abs(high)):
        return 2 * reach or 1.0  # θ is constant, up to the tolerance of the linear programmes
    return theory_step(model, matrix, n, loss) if step == "theory" else 0.0


def theory_step(model: Model, matrix: Array, n: int, loss: Loss) -> float:
    """Δ = C̄²·ω_H(n^{−1/2}), C̄ = √(2 ln 2a) + 1: the proof of Steinberger (2019), Satz 3.10, its misprint mended and C̄ strictly larger."""
    from dpcore.minimax.spaces.moduli import modulus_hellinger

    constant = (math.sqrt(2 * math.log(2 * loss.constant)) + 1) * (1 + 1e-9)
    return constant**2 * modulus_hellinger(model, n**-0.5, channel=matrix).upper


def _tuned(make: Callable[[float], CountSearch], reach: float, loss: Loss) -> float:
    """The Δ with the least risk, up to the tolerances: first N on a coarse scale, then its neighbours, then Δ for that N."""

    def best(steps: list[float], tolerance: float) -> float:
        return _first_good({step: make(step).risk_seen(loss) for step in sorted(steps, reverse=True)}, tolerance)

    risks: dict[int, float] = {}
    centre = 2
    for count in _few(2, MOST_TUNED):
        risks[count] = make(reach / (count - 0.5)).risk_seen(loss)
        centre = _first_good(risks, COARSE)
        if count >= max(FURTHER * centre, AT_LEAST):
            break
    step = best([reach / (count - 0.5) for count in {max(round(centre * 2 ** (i / 8)), 2) for i in range(-4, 5)}], FINE)
    count = number_of_intervals(reach, step)
    return best([reach / (count - share) for share in (0.9, 0.7, 0.5, 0.3, 0.1)], 0.0)


def _first_good(risks: dict[Number, float], tolerance: float) -> Number:
    """The first key, from coarse to fine, whose risk is within the tolerance of the least."""
    least = min(risks.values())
    return next(key for key, value in risks.items() if value <= least * (1 + tolerance))


def _few(first: int, last: int) -> list[int]:
    """Integers about a factor √2 apart."""
    count = math.ceil(2 * math.log2(last / first)) + 1
    return sorted({min(round(first * 2 ** (i / 2)), last) for i in range(count)})
