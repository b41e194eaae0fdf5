"""Where a study's randomness comes from, and how much of it there is."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TypeVar

from dpcore._validation import check_integer
from dpcore.testing import KeyedRandom

T = TypeVar("T")
LARGEST_SEED = 2**64 - 1
SIMULATED = "SIMULATED: data and noise come from the seed, and nothing here protects anybody (secure = false)."


@dataclass(frozen=True, slots=True)
class Setting:
    """Seed and size of a run.

    Parameters
    ----------
    seed : int, default 0
        In [0, 2^64 − 1]. Every stream of the run comes from it.
    quick : bool, default False
        Fewer replicates and smaller grids: for a first look and for tests.

    Raises
    ------
    ParameterError, ParameterTypeError
        If `seed` is not such an integer.

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
        """Give the stream of one part of a run: parts of other names are independent, so a part can be repeated alone.

        Parameters
        ----------
        *names : object
            Whose `str` together name the part.
        """
        return KeyedRandom(hashlib.sha256("\0".join(["dpcore.reproduce", str(self.seed), *map(str, names)]).encode()).digest())

    def sized(self, full: T, quick: T) -> T:
        """Choose between the size of a full run and that of a quick one."""
        return quick if self.quick else full
