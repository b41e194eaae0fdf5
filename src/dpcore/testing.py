"""Keyed randomness for tests and studies. Nothing made with it is private."""

from __future__ import annotations

import threading
from typing import NoReturn

from dpcore._validation import check_integer
from dpcore.errors import ParameterError, ParameterTypeError
from dpcore.rng import CarriedKey, JobKey, StreamPosition, given_key

__all__ = ["KeyedJobKey", "KeyedRandom", "PositionedRandom"]


class KeyedRandom:
    """A reproducible stream under a 32-byte key: call number c of this object uses nonce c.

    Anyone who knows the key can remove the noise. Use it for tests, and for experiments that must repeat bit for bit. Every report made
    with it says `secure = false`.

    Parameters
    ----------
    key : bytes
        32 bytes.

    Raises
    ------
    ParameterTypeError, ParameterError
        If `key` is not bytes, or not 32 of them.

    Examples
    --------
    >>> from dpcore import noise
    >>> from dpcore.testing import KeyedRandom
    >>> noise.laplace(0.0, 1.0, rng=KeyedRandom(bytes(32))) == noise.laplace(0.0, 1.0, rng=KeyedRandom(bytes(32)))
    True
    """

    __slots__ = ("_calls", "_key", "_lock")

    def __init__(self, key: bytes) -> None:
        self._key = given_key(key)
        self._calls = 0
        self._lock = threading.Lock()

    @property
    def secure(self) -> bool:
        """Always False."""
        return False

    def position(self) -> StreamPosition:
        """Return the position of the next call: nonce c for the c-th call, element 0.

        Returns
        -------
        StreamPosition
            A position that this object has not given before.

        Raises
        ------
        ParameterError
            If all 2**32 nonces are used up.
        """
        with self._lock:
            nonce = self._calls
            if nonce >= 2**32:
                raise ParameterError("a KeyedRandom serves 2**32 calls, and this one has served them all; make one with another key")
            self._calls = nonce + 1
        return StreamPosition(self._key, nonce)

    def at(self, nonce: int, element: int = 0) -> PositionedRandom:
        """Return a stream that stays at one nonce and first element, for work that is cut into pieces.

        Parameters
        ----------
        nonce : int
            In [0, 2**32 − 1].
        element : int, default 0
            Index of the first element, in [0, 2**63 − 1].

        Returns
        -------
        PositionedRandom
            A stream of which every call sees the same random words.
        """
        nonce = check_integer("nonce", nonce, low=0, high=2**32 - 1)
        element = check_integer("element", element, low=0, high=2**63 - 1)
        return PositionedRandom(StreamPosition(self._key, nonce, element))

    def __reduce__(self) -> NoReturn:
        raise ParameterTypeError(
            "a KeyedRandom is not copied or pickled because two copies would repeat calls; pass on `.at(nonce)` instead"
        )

    def __repr__(self) -> str:
        return f"KeyedRandom(<key>, calls={self._calls})"


class PositionedRandom:
    """A keyed stream with one position: every call with it sees the same words. Each draw within a call has separate words.

    Use `KeyedRandom.at` to make one.

    Parameters
    ----------
    position : StreamPosition
        Where every call begins.

    Raises
    ------
    ParameterTypeError, ParameterError
        In the function that draws, if `position` is not a valid position.

    Examples
    --------
    >>> from dpcore import noise
    >>> rng = KeyedRandom(bytes(32)).at(7)
    >>> noise.laplace(0.0, 1.0, rng=rng) == noise.laplace(0.0, 1.0, rng=rng)
    True
    """

    __slots__ = ("_position",)

    def __init__(self, position: StreamPosition) -> None:
        self._position = position

    @property
    def secure(self) -> bool:
        """Always False."""
        return False

    def position(self) -> StreamPosition:
        """Return the fixed position.

        Returns
        -------
        StreamPosition
            The same at every call.
        """
        return self._position

    def __repr__(self) -> str:
        return f"PositionedRandom(<key>, nonce={self._position.nonce}, element={self._position.first_element})"


class KeyedJobKey(JobKey):
    """A `dpcore.rng.JobKey` that is known: the noise of a job under it can be repeated, and is not private.

    Parameters
    ----------
    key : bytes
        32 bytes.

    Raises
    ------
    ParameterTypeError, ParameterError
        If `key` is not bytes, or not 32 of them.

    Examples
    --------
    >>> KeyedJobKey(bytes(32)).derived("noise", [b"batch"]) == KeyedJobKey(bytes(32)).derived("noise", [b"batch"])
    True
    """

    __slots__ = ()

    def __init__(self, key: bytes) -> None:
        self._carried = CarriedKey(key, secure=False)


def __dir__() -> list[str]:
    return __all__
