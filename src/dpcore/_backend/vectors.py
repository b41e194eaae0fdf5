"""Local randomisers of vectors: records of d numbers, reported by one of them or by a sign of each. Arguments are valid."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from dpcore._backend import threads as sizes
from dpcore._backend.hooks import Testing
from dpcore._backend.memory import wiped_empty
from dpcore._backend.response import NAN, VECTOR_REPORT, Law, bounded_law, check_lanes, is_below, new_array, refuse_nan, tilted_at
from dpcore._backend.threads import for_ranges
from dpcore._backend.words import Position, call_words
from dpcore._dataclasses import dataclass
from dpcore._exact.probability import Probability
from dpcore._kernels import _response

RESPONSE, PIECES = 5, 512
Array = npt.NDArray[Any]
Bound = float | tuple[float, ...]
Bounds = tuple[Bound, Bound, Bound | None]
"""Lower and upper bounds, and what stands for NaN: for all coordinates or for each."""


@dataclass(frozen=True, slots=True, eq=False)
class HypercubeLaw:
    """How far the signs of a report are from the corner.

    Attributes
    ----------
    d : int
        Number of coordinates.
    w : int
        Most coordinates that differ on the likely side.
    likely : Probability
        That at most w differ.
    table : tuple of Probability
        P(S ≤ s) for s = 0 … w − 1 given that at most w differ, then for s = w + 1 … d − 1 given that more do.
    """

    d: int
    w: int
    likely: Probability
    table: tuple[Probability, ...]


def at(bound: Bound | None, j: int) -> float:
    """The bound of coordinate j; NaN if there is none."""
    if bound is None:
        return NAN
    return bound[j] if isinstance(bound, tuple) else bound


@lru_cache(maxsize=256)
def _law(kind: int, d: int, bounds: Bounds, epsilon: float | None, hypercube: HypercubeLaw | None, factor: float) -> Any:
    """The kernels' law. `factor` is on the fast tier's error bound."""
    box = _response.Box(*(np.array(np.broadcast_to(NAN if bound is None else bound, d), np.float64) for bound in bounds))
    likely, table, w = ((hypercube.likely,), hypercube.table, hypercube.w) if hypercube is not None else ((), (), 0)
    # a corner's probability is the place between the bounds itself
    start, rise, q_high, q_low = (0.0, 2.0**16, 0.0, 0.0) if epsilon is None else bounded_law(epsilon)
    bounded = (0.0, 1.0, NAN, 2.0**-31 * factor, start, rise, q_high, q_low)
    return Law(kind, likely, table, d, None, w, 0, 0.0, bounded, box=box, refuses_nan=bounds[2] is None)


def sampling_law(d: int, bounds: Bounds, epsilon: float) -> Law:
    """A uniform coordinate, and a bit about its number."""
    law: Law = _law(_response.SAMPLE, d, bounds, epsilon, None, Testing.bound_factor)
    return law


def hypercube_law(d: int, bounds: Bounds, hypercube: HypercubeLaw) -> Law:
    """Signs of all coordinates."""
    law: Law = _law(_response.HYPERCUBE, d, bounds, None, hypercube, Testing.bound_factor)
    return law


def check_no_nan(records: Array, threads: int | None) -> None:
    """Raise at the first NaN."""
    if records.dtype.kind != "f":
        return
    found: list[int] = []

    def check(start: int, stop: int) -> None:
        position = int(_response.first_nan(records, start, stop))
        if position >= 0:
            found.append(position)

    if records.size <= sizes.SMALL:
        check(0, records.size)
    else:
        for_ranges(check, records.size, threads, elements_per_unit=8)
    if found:
        refuse_nan(records.shape, min(found))


def sampled_response(
    x: Array, bounds: Bounds, epsilon: float, position: Position, *, threads: int | None, out: Array | None = None
) -> Array:
    """A uniform coordinate of each record, and a bit about its number as `bounded_response` gives; the last axis holds the coordinates."""
    d = x.shape[-1]
    result = new_array(out, x.shape[:-1], VECTOR_REPORT)
    flat = result.reshape(-1)
    lower, upper, missing = bounds

    def resolve(fields: tuple[int, int, float, float, int, int]) -> None:
        index, element, high, low, piece, j = fields
        value = at(missing, j) if math.isnan(high) else high
        plus = tilted_at(value, low, at(lower, j), at(upper, j), epsilon)
        flat[index] = (j, is_below(plus, piece, call_words(position), element))

    sampling_law(d, bounds, epsilon).run(
        x, flat.view(np.uint8), position, size=flat.size, is_fresh=out is None, threads=threads, elements_per_unit=1, resolve=resolve
    )
    return result


def hypercube_response(
    x: Array, bounds: Bounds, law: HypercubeLaw, position: Position, *, threads: int | None, out: Array | None = None
) -> npt.NDArray[np.uint8]:
    """Packed signs of each record, which is rounded to a corner of its bounds at random first; the last axis holds the coordinates."""
    d = x.shape[-1]
    size = math.prod(x.shape[:-1])
    check_lanes(position, max(d, int(_response.vector_words(d))), size)
    result = new_array(out, (*x.shape[:-1], (d + 7) // 8), np.uint8)
    lower, upper, missing = bounds

    def corner(record: int) -> npt.NDArray[np.uint8]:
        signs, words = wiped_empty(d, np.uint8), call_words(position)
        for j in range(d):
            lane, value = (position[2] + record) * d + j, x.flat[record * d + j].item()
            piece = words.group(RESPONSE, lane // PIECES)[lane % PIECES // 4] >> (16 * (lane % 4)) & 0xFFFF
            value = at(missing, j) if math.isnan(value) else value
            signs[j] = is_below(_rounding_up(value, at(lower, j), at(upper, j)), piece, words, lane)
        return signs

    hypercube_law(d, bounds, law).run(
        x, result.reshape(-1), position, size=size, is_fresh=out is None, threads=threads, elements_per_unit=4 / (d + 16), corner=corner
    )
    return result


def _rounding_up(value: float, lower: float, upper: float) -> Probability:
    """The probability that a number becomes the upper one of its bounds."""
    low, high = Fraction(lower), Fraction(upper)
    place = Fraction(value > 0) if math.isinf(value) else (min(max(Fraction(value), low), high) - low) / (high - low)
    return Probability(place, Fraction(0), Fraction(1), Fraction(0), Fraction(1))
