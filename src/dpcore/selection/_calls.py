"""Code that all selections share: checks of scores and labels, and the call with its noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from dpcore import _backend
from dpcore._exact.pending import SelectionNoise
from dpcore._series import is_series
from dpcore._validation import REAL_DTYPES, check_array, check_finite, check_threads
from dpcore.errors import ParameterError, ParameterTypeError
from dpcore.rng import Stream, is_constant_work, resolve

Noise = SelectionNoise
Label = TypeVar("Label")


def check_scores(scores: object) -> npt.NDArray[Any]:
    """Return the scores as a vector with at least one entry; whether they are finite is checked later, in the pass over them."""
    array = check_array("scores", scores, REAL_DTYPES)
    if array.ndim != 1 or array.size == 0:
        raise ParameterError(f"scores must be one-dimensional with at least one score, got shape {array.shape}")
    return array


def check_labels(labels: object, scores: object, size: int) -> Sequence[Any] | None:
    """Return the names of the scores by position: `labels`, or the index of a Series of scores, or None."""
    if labels is None and type(scores) is np.ndarray:
        return None
    given: Any = scores.index if labels is None and is_series(scores) else labels  # type: ignore[attr-defined]
    if given is None:
        return None
    if is_series(given):
        given = given.iloc
        length = len(labels)  # type: ignore[arg-type]
    else:
        length = _length(given)
    if length != size:
        raise ParameterError(f"labels must have one label for each of the {size} scores, got {length}")
    return given  # type: ignore[no-any-return]


def _length(labels: Any) -> int:
    is_vector = getattr(labels, "ndim", 1) == 1 and hasattr(labels, "__len__") and hasattr(labels, "__getitem__")
    if not is_vector or isinstance(labels, (str, bytes, Mapping)):
        raise ParameterTypeError(f"labels must be a sequence with one label for each score, got {type(labels).__name__}")
    return len(labels)


def named(indices: npt.NDArray[np.int64], labels: Sequence[Label]) -> tuple[Label, ...]:
    """Return the labels at these positions."""
    return tuple(labels[index] for index in indices.tolist())


def select(noise: Noise, scores: npt.NDArray[Any], scale: float, rng: Stream | None, threads: int | None) -> int:
    """Check the other parameters, take a position of the stream, and find the element with the largest key."""
    check_threads(threads)
    if rng is not None and is_constant_work(rng):
        return _constant_choice(noise, scores, scale, rng)
    position = None if rng is None else resolve(rng).position()
    return int(_backend.select_largest(noise, scores, scale, 1, position, threads=threads)[0])


def _constant_choice(noise: Noise, scores: npt.NDArray[Any], scale: float, rng: Stream) -> int:
    if noise == "gumbel":
        raise ParameterError(
            "rng must not have constant_work=True for Gumbel noise, which is no sum of digits with public probabilities; "
            "permute_and_flip has constant work, and an expected error that is never larger"
        )
    _backend.check_constant_dtype("scores", scores)
    is_exact = scores.dtype in (np.int64, np.float64)
    array = scores if is_exact else _backend.wiped_copy(scores, np.int64)
    check_finite("scores", array)
    return _backend.constant_choice(noise, array, scale, rng.position())


def open_selection(
    noise: Noise, scores: npt.NDArray[Any], scale: float, keep: int, rng: Stream | None, threads: int | None
) -> _backend.Selection:
    """Check the other parameters, take a position of the stream, and set up the kernels' call for several rounds."""
    check_threads(threads)
    return _backend.Selection(noise, scores, scale, keep, resolve(rng).position(), threads=threads)
