"""Words for bit generators of NumPy. Imported by their module alone: most programs need neither it nor numpy.random."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpcore._backend.levels import cipher_code
from dpcore._backend.memory import Key
from dpcore._kernels import _bitgen
from dpcore.errors import ParameterError

POSITIONS = 1 << 96
"""Words of a key's stream."""


def _serve(bits: Any, generator: np.random.BitGenerator) -> None:
    try:
        bits.serve(generator, np.random.BitGenerator.__basicsize__)
    except ValueError as error:
        raise ParameterError(
            f"the bit generators of NumPy {np.__version__} are not as this version of dpcore knows them ({error}); "
            "use another version of NumPy or of dpcore"
        ) from error


class SecureBits:
    """Words of two keys that nobody else has, for one bit generator, which has to keep this object."""

    __slots__ = ("_bits",)

    def __init__(self, owned: bytes | Key, shared: bytes | Key) -> None:
        self._bits = _bitgen.SecureBits(owned, shared, cipher_code(secure=True))

    def serve(self, generator: np.random.BitGenerator) -> None:
        """Let the bit generator take its words here."""
        _serve(self._bits, generator)


class KeyedBits:
    """Words of a key's stream, for one bit generator, which has to keep this object. A position is a number below 2^96."""

    __slots__ = ("_bits",)

    def __init__(self) -> None:
        self._bits = _bitgen.KeyedBits()

    def serve(self, generator: np.random.BitGenerator) -> None:
        """Let the bit generator take its words here."""
        _serve(self._bits, generator)

    def move(self, key: bytes, position: int, half: int | None = None) -> None:
        """Go to a position in the stream of a key; `half` is the upper half of the word before, if only its lower half was used."""
        self._bits.start(key, position >> 64, position & 0xFFFFFFFFFFFFFFFF, half)

    def state(self) -> tuple[bytes, int, int | None]:
        """Key, position of the next word, and what is left of the one before."""
        nonce, base, used, half = self._bits.place()
        return self._bits.key(), ((nonce << 64 | base) + used) % POSITIONS, half
