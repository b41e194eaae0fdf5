"""Checks of matrices, priors and pairs of states."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcore._validation import INTEGER_DTYPES, REAL_DTYPES, check_array, check_integer
from dpcore.errors import ParameterError, ParameterTypeError

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

SUM_TOLERANCE = 1e-12
MAX_ENTRIES = 2**26


def check_real_matrix(name: str, value: object, *, rows: int | None = None, columns: int | None = None) -> npt.NDArray[np.float64]:
    """Return `value` as a finite float64 matrix with at least one entry and the given numbers of rows and columns."""
    matrix: npt.NDArray[np.float64] = check_array(name, value, REAL_DTYPES).astype(np.float64)
    fits = matrix.ndim == 2 and matrix.size > 0 and rows in {None, matrix.shape[0]} and columns in {None, matrix.shape[1]}
    if not fits:
        asked = f"({'rows' if rows is None else rows}, {'columns' if columns is None else columns})"
        raise ParameterError(f"{name} must be a matrix of shape {asked}, got shape {matrix.shape}")
    _check_entries(name, matrix, np.isfinite(matrix), "finite")
    return matrix


def check_stochastic(name: str, value: object, *, rows: int | None = None, columns: int | None = None) -> npt.NDArray[np.float64]:
    """Return `value` as a matrix whose rows are probability distributions: sums within 1e-12 of 1."""
    matrix = check_real_matrix(name, value, rows=rows, columns=columns)
    _check_entries(name, matrix, matrix >= 0, "non-negative")
    sums = matrix.sum(axis=1)
    for i in np.flatnonzero(np.abs(sums - 1) > SUM_TOLERANCE / 2).tolist():
        # the rounding error of a plain sum of many terms may exceed the tolerance
        total = math.fsum(matrix[i])
        if abs(total - 1) > SUM_TOLERANCE:
            raise ParameterError(f"{name} must have rows that sum to 1 within {SUM_TOLERANCE:g}; row {i} sums to {total!r}")
    return matrix


def _check_entries(name: str, matrix: npt.NDArray[np.float64], good: npt.NDArray[np.bool_], words: str) -> None:
    if not good.all():
        i, j = np.argwhere(~good)[0].tolist()
        raise ParameterError(f"{name} must have {words} entries, got {float(matrix[i, j])!r} in row {i}, column {j}")


def check_prior(value: object, states: int) -> npt.NDArray[np.float64]:
    """Return `value` as a probability distribution on the states."""
    prior = check_array("prior", value, REAL_DTYPES)
    if prior.shape != (states,):
        raise ParameterError(f"prior must have shape ({states},), one probability for each state, got {prior.shape}")
    distribution: npt.NDArray[np.float64] = check_stochastic("prior", prior.reshape(1, -1))[0]
    return distribution


def check_labels(name: str, labels: Iterable[Any] | None, count: int) -> tuple[Any, ...] | None:
    """Return labels as a tuple if their number is right."""
    if labels is None:
        return None
    try:
        made = tuple(labels)
    except TypeError:
        raise ParameterTypeError(f"{name} must be a sequence of labels or None, got {type(labels).__name__}") from None
    if len(made) != count:
        raise ParameterError(f"{name} must have {count} labels, got {len(made)}")
    return made


def check_pairs(neighbours: object, states: int) -> npt.NDArray[np.intp] | None:
    """Return the ordered pairs of neighbouring states, each in both orders; None stands for all pairs."""
    if isinstance(neighbours, str):
        if neighbours != "all":
            raise ParameterError(f"neighbours must be 'all' or pairs of states, got {neighbours!r}")
        return None
    pairs = check_array("neighbours", neighbours, INTEGER_DTYPES)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or not len(pairs):
        raise ParameterError(f"neighbours must be 'all' or pairs of states, of shape (pairs, 2), got shape {pairs.shape}")
    outside = (pairs < 0) | (pairs >= states)
    if outside.any():
        row = int(outside.any(axis=1).argmax())
        raise ParameterError(f"neighbours must be states in [0, {states - 1}], got {tuple(pairs[row].tolist())} in row {row}")
    pairs = pairs.astype(np.intp)
    return np.concatenate([pairs, pairs[:, ::-1]])


def check_state(name: str, value: object, states: int) -> int:
    """Return the position of a state."""
    return check_integer(name, value, low=0, high=states - 1)


def check_entries(what: str, rows: int, columns: int, power: int = 1) -> None:
    """Raise if a matrix with `columns`^`power` columns would have too many entries."""
    enough = min(power, MAX_ENTRIES.bit_length())  # a larger power of 2 or more is too much as well, and takes long
    if rows * columns**enough > MAX_ENTRIES:
        number = f"{columns}^{power}" if power > 1 else columns if columns < 2**64 else f"more than 2^{columns.bit_length() - 1}"
        raise ParameterError(f"{what} must have at most {MAX_ENTRIES} entries, got {rows} × {number}")


def scaled_rows(matrix: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Divide every row by its sum, because products of stochastic matrices are stochastic only up to rounding."""
    scaled: npt.NDArray[np.float64] = matrix / matrix.sum(axis=1, keepdims=True)
    return scaled
