"""Random words by address, for the exact tier."""

from __future__ import annotations

import numpy as np

from dpcore._kernels import _dispatch

Position = tuple[bytes, int, int]  # key, nonce, first element; rng.StreamPosition, which this layer must not import


class KernelWords:
    """Random words by address, from the same cipher and key as the call."""

    def __init__(self, key: bytes, nonce: int, cipher: int) -> None:
        self._address = (key, nonce, cipher)
        self._groups: dict[tuple[int, int], list[int]] = {}

    def group(self, domain: int, group: int) -> list[int]:
        found = self._groups.get((domain, group))
        if found is None:
            data = _dispatch.bulk_words(*self._address, domain, group, 1)
            found = self._groups[domain, group] = [int(w) for w in np.frombuffer(data, np.uint64)]
            if len(self._groups) > 64:
                self._groups.pop(next(iter(self._groups)), None)
        return found

    def more(self, domain: int, element: int, attempt: int, chunk: int) -> list[int]:
        words: list[int] = _dispatch.more_words(*self._address, domain, element, attempt, chunk)
        return words
