"""The seed and the size of a run."""

from __future__ import annotations

import hashlib
from typing import TypeVar

from dpcore._dataclasses import dataclass
from dpcore._validation import check_integer
from dpcore.testing import KeyedRandom

T = TypeVar("T")
LARGEST_SEED = 2**64 - 1
SIMULATED = "SIMULATED: data and noise come from the seed, so nothing here is private (secure = false)."


@dataclass(frozen=True, slots=True)
class Setting:
    """Seed and size of a run.

    Parameters
    ----------
    seed : int, default 0
        Seed of all data and noise of the run, in [0, 2^64 − 1].
    quick : bool, default False
        Whether to use fewer replicates and smaller grids, for a first look and for tests.

    Raises
    ------
    ParameterError, ParameterTypeError
        If `seed` is not an integer in its range.

    Examples
    --------
    >>> from dpcore import noise
    >>> from dpcore.reproduce import Setting
    >>> streams = [Setting(seed=7).stream("overfitting", "data") for _ in range(2)]
    >>> noise.laplace(0.0, 1.0, rng=streams[0]) == noise.laplace(0.0, 1.0, rng=streams[1])
    True
    """

    seed: int = 0
    quick: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "seed", check_integer("seed", self.seed, low=0, high=LARGEST_SEED))

    def stream(self, *names: object) -> KeyedRandom:
        """Return the stream of one part of a run. Parts with different names are independent, so you can repeat a part alone.

        Parameters
        ----------
        *names : object
            Objects whose `str` together name the part.

        Returns
        -------
        KeyedRandom
            A stream with a key from the seed and the names.
        """
        return KeyedRandom(hashlib.sha256("\0".join(["dpcore.reproduce", str(self.seed), *map(str, names)]).encode()).digest())

    def sized(self, full: T, quick: T) -> T:
        """Return the size for this run.

        Parameters
        ----------
        full, quick : object
            The size of a full run, and that of a quick one.

        Returns
        -------
        object
            One of the two.
        """
        return quick if self.quick else full
