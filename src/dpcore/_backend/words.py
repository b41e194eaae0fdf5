"""Random words by address, for the exact tier."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial

import numpy as np
import numpy.typing as npt

from dpcore._backend.levels import cipher_code
from dpcore._backend.memory import Key, os_key, wiped_empty
from dpcore._kernels import _dispatch
from dpcore.errors import ParameterError

Position = tuple[bytes | Key, int, int, bool]
"""Key, nonce, first element, secure: `rng.StreamPosition`, which this layer cannot import."""

GROUP = 128
"""Words of a group."""
BULK = 0
"""The domain of words that are numbered by element."""
DERIVED = 11
"""The domain of keys."""
MOST_DRAWS = 1 << 22


def next_secure() -> Position:
    """The next position of the secure source."""
    return os_key(), 0, 0, True


def uniform_words(position: Position, n: int) -> npt.NDArray[np.uint64]:
    """One uniform 64-bit word for each of n elements from the position's first on; n ≥ 0."""
    key, nonce, first, secure = position
    group = first // GROUP
    n_groups = (first + n + GROUP - 1) // GROUP - group
    data = _dispatch.bulk_words(key, nonce, cipher_code(secure=secure), BULK, group, n_groups)
    return np.frombuffer(data, np.uint64)[first - group * GROUP :][:n]


def derived_key(position: Position, draw: int) -> Key:
    """The key of a further draw of a call whose stream stands still: half a block of the first draw's; 1 ≤ draw < 2^22."""
    key, nonce, first, secure = position
    if draw >= MOST_DRAWS:
        raise ParameterError(
            f"a call under one position has at most {MOST_DRAWS} draws; use a stream whose position changes, such as KeyedRandom(key)"
        )
    words = _dispatch.more_words(key, nonce, cipher_code(secure=secure), DERIVED, first, draw & 0xFFF, draw >> 12)
    material = wiped_empty(4, "<u8")
    material[:] = words[:4]
    return Key(material)


def _group_words(address: tuple[bytes | Key, int, int], domain: int, group: int) -> tuple[int, ...]:
    words: list[int] = np.frombuffer(_dispatch.bulk_words(*address, domain, group, 1), np.uint64).tolist()
    return tuple(words)


class KernelWords:
    """Random words by address, from the same cipher and key as the call. The threads of a call share it."""

    def __init__(self, key: bytes | Key, nonce: int, cipher: int) -> None:
        self._address = (key, nonce, cipher)
        self._groups: Callable[[int, int], tuple[int, ...]] | None = None

    def group(self, domain: int, group: int) -> Sequence[int]:
        """The 128 words of one group."""
        groups = self._groups
        if groups is None:
            # Made on first use, for few calls need it. The cache locks itself, with the GIL and without; threads that come first together
            # make one each, and all but the last are forgotten: a word is the same in all of them.
            groups = self._groups = lru_cache(maxsize=64)(partial(_group_words, self._address))
        return groups(domain, group)

    def more(self, domain: int, element: int, attempt: int, chunk: int) -> list[int]:
        words: list[int] = _dispatch.more_words(*self._address, domain, element, attempt, chunk)
        return words


def call_words(position: Position) -> KernelWords:
    """Words of one call."""
    key, nonce, _, secure = position
    return KernelWords(key, nonce, cipher_code(secure=secure))
