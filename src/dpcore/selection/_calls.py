"""What all selections share: their scores, and the noise that is put on them."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from dpcore import _backend
from dpcore._exact.pending import SelectionNoise
from dpcore._validation import (
    REAL_DTYPES,
    check_array,
    check_threads,
)
from dpcore.errors import ParameterError
from dpcore.rng import Stream, resolve

Noise = SelectionNoise


def check_scores(scores: npt.ArrayLike) -> npt.NDArray[Any]:
    array = check_array("scores", scores, REAL_DTYPES)
    if array.ndim != 1 or array.size == 0:
        raise ParameterError(f"scores must be one-dimensional with at least one score, got shape {array.shape}")
    return array


def open_selection(
    noise: Noise, scores: npt.NDArray[Any], scale: float, keep: int, rng: Stream | None, threads: int | None
) -> _backend.Selection:
    check_threads(threads)
    stream = resolve(rng)
    return _backend.Selection(noise, scores, scale, keep, stream.position(), threads=threads)
