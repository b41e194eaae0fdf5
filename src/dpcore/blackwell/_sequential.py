"""Experiments of sequentially interactive protocols: a tree of reports, where each branch has the channel that the protocol chose."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcore import local
from dpcore.blackwell._checks import check_entries
from dpcore.errors import ParameterError, ParameterTypeError

if TYPE_CHECKING:
    import numpy.typing as npt

    Matrix = npt.NDArray[np.float64]


Path = tuple[Any, ...]


def sequential_rows(protocol: local.SequentialChannel, values: list[Any], n: int) -> tuple[Matrix, list[Path], list[Path]]:
    """Return a matrix with a row for each sequence of n records and a column for each sequence of reports, and both lists."""
    branches: list[tuple[Path, Matrix]] = [((), np.ones(1))]
    for i in range(n):
        longer: list[tuple[Path, Matrix]] = []
        for reports, chance in branches:
            rows, possible = _conditional(protocol.channel(reports), values)
            check_entries("the experiment", len(values) ** (i + 1), max(len(branches), len(longer)) * len(possible))
            longer += [((*reports, report), np.outer(chance, rows[:, y]).ravel()) for y, report in enumerate(possible)]
        branches = longer
    return np.stack([chance for _, chance in branches], axis=1), list(itertools.product(values, repeat=n)), [path for path, _ in branches]


def _conditional(mechanism: Any, values: list[Any]) -> tuple[Matrix, list[Any]]:
    """Return the rows of a channel for these values, and its reports as a caller sees them."""
    if isinstance(mechanism, local.KaryResponse):
        return mechanism.channel()[_codes(values, mechanism.k)], list(range(mechanism.k))
    if isinstance(mechanism, local.BinaryResponse):
        return mechanism.channel()[_codes(values, 2)], [False, True]
    if isinstance(mechanism, local.BoundedMean) or (isinstance(mechanism, local.BinaryChannel) and callable(mechanism.phi)):
        return mechanism.channel(values), [False, True]
    if isinstance(mechanism, local.BinaryChannel):
        table = mechanism.channel()
        return table[_codes(values, len(table))], [False, True]
    raise ParameterTypeError(f"choose must return mechanisms whose reports are bits or codes, got {type(mechanism).__name__}")


def _codes(values: list[Any], k: int) -> list[int]:
    codes = [int(value) for value in values]
    if not all(0 <= code < k and code == value for code, value in zip(codes, values, strict=True)):
        raise ParameterError(f"inputs must be codes in [0, {k - 1}] for the mechanism that `choose` returned, got {values}")
    return codes
