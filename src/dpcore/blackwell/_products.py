"""Independent runs on the same data: probabilities of sequences of outcomes, or of how often each outcome occurs."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcore.blackwell._checks import check_entries

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    Matrix = npt.NDArray[np.float64]

Labels = tuple[Any, ...]


def sequences(matrix: Matrix, uses: int, labels: Labels) -> tuple[Matrix, Labels]:
    """Return the probabilities of all m^uses sequences of outcomes, and the sequences."""
    n, m = matrix.shape
    check_entries("the product", n, m, uses)
    product = matrix
    for _ in range(uses - 1):
        product = (product[:, :, None] * matrix[:, None, :]).reshape(n, -1)
    return product, tuple(itertools.product(labels, repeat=uses))


def counts(matrix: Matrix, uses: int) -> tuple[Matrix, Labels]:
    """Return multinomial probabilities, as products of binomial ones, and the counts of the outcomes that they belong to."""
    n, m = matrix.shape
    check_entries("the product", n, math.comb(m + uses - 1, uses))
    log_factorials = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, uses + 1)))])
    every = np.array(list(_compositions(m, uses)))
    with np.errstate(divide="ignore"):
        logs = np.log(matrix)
    terms = np.zeros((n, len(every)))
    for y in range(m):
        seen = every[:, y]
        terms += np.where(seen > 0, seen * np.where(seen > 0, logs[:, y, None], 0.0), 0.0) - log_factorials[seen]
    return np.exp(terms + log_factorials[uses]), tuple(map(tuple, every.tolist()))


def _compositions(m: int, total: int) -> Iterator[list[int]]:
    """All m counts that add up to a total."""
    for bars in itertools.combinations(range(m + total - 1), m - 1):
        ends = (-1, *bars, m + total - 1)
        yield [b - a - 1 for a, b in itertools.pairwise(ends)]
