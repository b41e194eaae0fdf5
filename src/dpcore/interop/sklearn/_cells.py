"""Columns cut into cells of declared bounds."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpcore._validation import check_integer
from dpcore.distributions._boxes import Box
from dpcore.distributions._cells import MOST_CELLS, Cells
from dpcore.errors import ParameterTypeError
from dpcore.interop.sklearn._base import per_column


def sides(bounds: Any, d: int) -> list[tuple[Any, Any]]:
    """The bounds (low, high) of each of d columns."""
    if isinstance(bounds, str) or not isinstance(bounds, list | tuple | np.ndarray) or len(bounds) != 2:
        raise ParameterTypeError(
            f"bounds must be a pair (low, high), each a number or a sequence with one number for each feature, got {bounds!r}"
        )
    low, high = (per_column("bounds", side, d) for side in bounds)
    return list(zip(low, high, strict=True))


def numbers_of_bins(bins: Any, d: int) -> tuple[int, ...]:
    """The number of bins of each of d columns."""
    return tuple(check_integer("bins", each, low=1, high=MOST_CELLS) for each in per_column("bins", bins, d))


def cells_of_columns(bounds: Any, bins: Any, d: int) -> list[Cells]:
    """The cells of each of d columns."""
    return [Cells.of((each,), Box.of(side)) for each, side in zip(numbers_of_bins(bins, d), sides(bounds, d), strict=True)]
