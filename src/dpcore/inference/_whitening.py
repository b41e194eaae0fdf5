"""Signs of whitened records: each record's signs are a function of that record alone, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dpcore import _backend
from dpcore._validation import REAL_DTYPES, check_array
from dpcore.errors import DataError, ParameterError
from dpcore.inference._signs import Packed
from dpcore.rng import Stream, resolve

Matrix = npt.NDArray[np.float64]

_BLOCK = 1 << 16
"""Numbers that are whitened together; they stay in the second-level cache."""


def check_mean(mean: npt.ArrayLike, d: int) -> Matrix:
    """Return a finite vector of d numbers, else raise."""
    vector = check_array("mean", mean, REAL_DTYPES).astype(np.float64)
    if vector.shape != (d,):
        raise ParameterError(f"mean must have the shape ({d},) of a record, got {vector.shape}")
    if not np.isfinite(vector).all():
        raise ParameterError(f"mean must be finite, got {float(vector[~np.isfinite(vector)][0])!r}")
    return vector


def whitening_matrix(cov: npt.ArrayLike, d: int) -> Matrix:
    """L⁻¹ of the Cholesky factor LL' = Σ; raises unless Σ is finite, symmetric and positive definite."""
    matrix = check_array("cov", cov, REAL_DTYPES).astype(np.float64)
    if matrix.shape != (d, d):
        raise ParameterError(f"cov must have the shape ({d}, {d}), got {matrix.shape}")
    if not np.isfinite(matrix).all():
        raise ParameterError(f"cov must be finite, got {float(matrix[~np.isfinite(matrix)][0])!r}")
    if (gap := np.abs(matrix - matrix.T)).max() > 1e-12 * np.abs(matrix).max():
        raise ParameterError(f"cov must be symmetric, got entries that differ by {float(gap.max())!r} from their mirror images")
    try:
        inverse = np.linalg.inv(np.linalg.cholesky((matrix + matrix.T) / 2))
    except np.linalg.LinAlgError:
        raise ParameterError("cov must be positive definite, got a matrix that has no Cholesky factor") from None
    if not np.isfinite(inverse).all():
        raise ParameterError("cov must be positive definite, got a matrix whose Cholesky factor has no finite inverse")
    return np.tril(inverse)


def whitened(x: npt.NDArray[Any], mean: Matrix, inverse: Matrix) -> Matrix:
    """L⁻¹(x − mean) of each row of x, transposed: shape (d, n).

    Column after column is multiplied and added, so that every number has the same sequence of roundings for any other rows. A matrix
    product of BLAS would not do: it blocks rows together, and its order of additions depends on how many there are.
    """
    centred = np.subtract(x.T, mean[:, None], dtype=np.float64)
    out, product = np.zeros((2, len(mean), len(x)))
    for k, column in enumerate(inverse.T):
        below = np.flatnonzero(column)  # a triangle at most; uncorrelated columns add no work
        rows = slice(k, int(below[-1]) + 1)
        out[rows] += np.multiply(column[rows, None], centred[k], out=product[rows])
    return out


def signs_of_whitened(records: npt.NDArray[Any], mean: Matrix, inverse: Matrix, *, rng: Stream | None) -> Packed:
    """Packed signs of whitened rows; a zero or a NaN from an overflow gets an independent fair random sign."""
    n, d = records.shape
    packed = np.empty((n, (d + 7) // 8), np.uint8)
    rows = max(1, _BLOCK // d)
    for start in range(0, n, rows):
        block = records[start : start + rows]
        if np.isnan(block).any():
            row, column = (int(i) for i in np.argwhere(np.isnan(block))[0])
            raise DataError(
                f"records must not hold NaN; the number at row {start + row}, column {column} is NaN: remove the record or fill it in"
            )
        with np.errstate(over="ignore", invalid="ignore"):
            y = whitened(block, mean, inverse)
        positive = y > 0
        undecided = np.flatnonzero(~(positive | (y < 0)))
        if len(undecided):
            positive.ravel()[undecided] = _coins(len(undecided), rng)
        packed[start : start + rows] = np.packbits(positive, axis=0, bitorder="little").T
    return packed


def _coins(n: int, rng: Stream | None) -> npt.NDArray[np.bool_]:
    stream = resolve(rng)
    words = _backend.uniform_words(stream.position(), n)
    return np.asarray(words >> np.uint64(63), np.bool_)
