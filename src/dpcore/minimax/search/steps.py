"""The choice of the step Δ of a binary search."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt

from dpcore._validation import check_choice, check_positive
from dpcore.errors import ParameterError
from dpcore.minimax._progress import Progress, Steps
from dpcore.minimax.search.count_tests import CountSearch
from dpcore.minimax.search.finite_tests import COARSE as DISTANCES
from dpcore.minimax.search.finite_tests import FiniteSearch, Projections, tuned_intervals
from dpcore.minimax.search.search import number_of_intervals
from dpcore.minimax.spaces.certified import Maximiser
from dpcore.minimax.spaces.moduli import modulus_hellinger
from dpcore.minimax.spaces.polygon import trace_polygon

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpcore.minimax.losses import Loss
    from dpcore.minimax.programs.frames import Frame
    from dpcore.minimax.search.search import Search
    from dpcore.minimax.spaces.models import Model

Array = npt.NDArray[np.float64]
Number = TypeVar("Number", int, float)
MOST_INTERVALS = 1 << 14
"""Largest N: all tests of a search behind a binary channel together take O(N²) time."""
MOST_TUNED, MOST_TUNED_FINITE = 4096, 256
"""Largest N that is tried, behind a binary channel and behind others."""
CONSTANT = 1e-9
"""θ counts as constant if its range is below this share of its size: the tolerance of the linear programs."""
COARSE, FINE = 0.05, 0.01
"""Relative gain that makes a finer step worth taking, in the first and in the second round."""
FURTHER = 2
"""Steps that are up to this many times finer than the best so far are tried."""
AT_LEAST = 32
"""N that is tried in any case: with few reports, small N gain nothing over a constant estimate."""
SHARES = (0.9, 0.7, 0.5, 0.3, 0.1)
"""Steps R/(N − share) that are tried for the best N."""
NEIGHBOURS = range(-4, 5)
"""Eighths of a power of two around the best N that are tried."""


def search_for(model: Model, matrix: Array, n: int, step: str | float, loss: Loss, *, progress: Progress | None = None) -> Search:
    """Make the search for a step, given as a number or by name."""
    make = _count_search if matrix.shape[1] == 2 else _finite_search
    return make(model, matrix, n, step, loss, progress)


def _count_search(model: Model, matrix: Array, n: int, step: str | float, loss: Loss, progress: Progress | None) -> CountSearch:
    frame, model = model.frame, model.standard
    trials = len(_few(2, MOST_TUNED)) + len(NEIGHBOURS) + len(SHARES)
    steps = Steps(progress, 1 + trials if step == "tuned" else 1)
    seen = trace_polygon(Maximiser(model), model.f, matrix[:, 1])
    polygon = seen if seen.rises else seen.mirrored()
    low, high = polygon.theta_range
    width = _width(model, matrix, n, step, loss, high - low, frame)
    steps.advance()

    def risk(trial: float) -> float:
        found = CountSearch(n, trial, polygon).risk_seen(loss)
        steps.advance()
        return found

    search = CountSearch(n, width or _tuned(risk, high - low), polygon, frame)
    steps.finish()
    return search


def _finite_search(model: Model, matrix: Array, n: int, step: str | float, loss: Loss, progress: Progress | None) -> FiniteSearch:
    frame, model = model.frame, model.standard
    steps = Steps(progress, 1 + DISTANCES + 1 if step == "tuned" else 1)
    projections = Projections(model, matrix)
    low, high = projections.theta_range
    width = _width(model, matrix, n, step, loss, high - low, frame)
    steps.advance()
    width = width or (high - low) / (tuned_intervals(projections, n, loss, MOST_TUNED_FINITE, steps) - 0.5)
    steps.finish()
    return FiniteSearch(projections, n, width, frame)


def _width(model: Model, matrix: Array, n: int, step: str | float, loss: Loss, reach: float, frame: Frame) -> float:
    """Return the step in the standard form of the model, or 0 if it must be tuned."""
    if not isinstance(step, str):
        width = frame.standard_difference(check_positive("step", step))
        if reach > MOST_INTERVALS * width:
            least = frame.difference(reach / MOST_INTERVALS)
            raise ParameterError(
                f"step must be at least {least!r}, which is the range of θ divided by {MOST_INTERVALS}, got {float(step)!r}"
            )
        return width
    check_choice("step", step, ("theory", "tuned"))
    low, high = model.theta_range
    if high - low <= CONSTANT * max(abs(low), abs(high)):
        return 2 * reach or 1.0  # θ is constant, up to the tolerance of the linear programs: N ≤ 2
    return theory_step(model, matrix, n, loss) if step == "theory" else 0.0


def theory_step(model: Model, matrix: Array, n: int, loss: Loss) -> float:
    """Return Δ = C̄²·ω_H(n^{−1/2}) with C̄ slightly larger than √(2 ln 2a) + 1.

    Source: Steinberger (2019), proof of Satz 3.10, with a misprint corrected.
    """
    constant = (math.sqrt(2 * math.log(2 * loss.constant)) + 1) * (1 + 1e-9)
    return constant**2 * modulus_hellinger(model, n**-0.5, channel=matrix).upper


def _tuned(risk: Callable[[float], float], reach: float) -> float:
    """Find the Δ with the smallest risk, up to the tolerances: first N on a coarse scale, then its neighbours, then Δ for that N."""

    def best(steps: list[float], tolerance: float) -> float:
        return _first_good({step: risk(step) for step in sorted(steps, reverse=True)}, tolerance)

    risks: dict[int, float] = {}
    centre = 2
    for count in _few(2, MOST_TUNED):
        risks[count] = risk(reach / (count - 0.5))
        centre = _first_good(risks, COARSE)
        if count >= max(FURTHER * centre, AT_LEAST):
            break
    step = best([reach / (count - 0.5) for count in {max(round(centre * 2 ** (i / 8)), 2) for i in NEIGHBOURS}], FINE)
    count = number_of_intervals(reach, step)
    return best([reach / (count - share) for share in SHARES], 0.0)


def _first_good(risks: dict[Number, float], tolerance: float) -> Number:
    """Return the first key, from coarse to fine, whose risk is within the tolerance of the smallest."""
    least = min(risks.values())
    return next(key for key, value in risks.items() if value <= least * (1 + tolerance))


def _few(first: int, last: int) -> list[int]:
    """Return integers about a factor √2 apart."""
    count = math.ceil(2 * math.log2(last / first)) + 1
    return sorted({min(round(first * 2 ** (i / 2)), last) for i in range(count)})
