"""The analyst of Stemmer (lecture 6) who overfits: asks how well each feature predicts a label, then how accurate the majority vote is.

The data are noise: the label is independent of all features, so every query of this analyst has the population average ½.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from dpcore._dataclasses import dataclass
from dpcore.reproduce.draws import fair_bits
from dpcore.rng import Stream

Bits = npt.NDArray[np.bool_]
Query = Callable[[Any], Bits]
POPULATION = 0.5
"""Population average of every query of this analyst."""
BLOCK = 128
"""Features that are counted at a time; a byte can hold their number."""


def noise_data(n: int, features: int, rng: Stream) -> Bits:
    """Draw n records of independent fair bits; the last column is the label. Columns are contiguous: queries read columns.

    Parameters
    ----------
    n, features : int
        Number of records, and number of columns without the label.
    rng : Stream
        A keyed stream.
    """
    return fair_bits((features + 1, n), rng).T


@dataclass(frozen=True, slots=True)
class Agreement:
    """The query that asks how often a feature equals the label.

    Attributes
    ----------
    feature : int
        Column.
    """

    feature: int

    def __call__(self, records: Bits) -> Bits:
        """Return one value for each record."""
        agrees: Bits = records[:, self.feature] == records[:, -1]
        return agrees


@dataclass(frozen=True, slots=True)
class Vote:
    """The query that asks how often the majority of the features is right about the label.

    Attributes
    ----------
    agrees : ndarray of bool
        For each feature, whether it votes for its own value or for the opposite.
    """

    agrees: Bits

    def __call__(self, records: Bits) -> Bits:
        """Return one value for each record; a tie counts as a vote for False."""
        k, columns = self.agrees.size, records.T
        votes = np.zeros(len(records), np.int64)
        for start in range(0, k, BLOCK):
            part = columns[start : min(start + BLOCK, k)] == self.agrees[start : start + BLOCK, None]
            votes += np.add.reduce(part.view(np.uint8), axis=0, dtype=np.uint8)
        right: Bits = (2 * votes > k) == records[:, -1]
        return right


def exact_agreements(records: Bits) -> npt.NDArray[np.float64]:
    """The sample averages of all `Agreement` queries at once."""
    columns = records.T
    return np.array([np.count_nonzero(column == columns[-1]) for column in columns[:-1]]) / len(records)


def asked(answer: Callable[[Query], float], k: int) -> npt.NDArray[np.float64]:
    """Ask about the first k features, one after the other.

    Parameters
    ----------
    answer : callable
        Answers one query.
    k : int
        Number of features.
    """
    return np.array([answer(Agreement(feature)) for feature in range(k)])


def vote_of(answers: npt.NDArray[np.float64]) -> Vote:
    """The vote that the answers suggest: a feature that seems to be wrong more often than right votes for the opposite."""
    return Vote(answers > POPULATION)


def accuracy(query: Query, records: Bits) -> float:
    """Average of a query over records."""
    return int(np.count_nonzero(query(records))) / len(records)
