"""Sources of randomness: the stream protocol and the secure source."""

from __future__ import annotations

import os
import threading
from typing import NamedTuple, NoReturn, Protocol, runtime_checkable

from dpcore._backend import Key, derived_key, fresh_key
from dpcore._validation import check_integer
from dpcore.errors import EntropyError, ParameterError, ParameterTypeError

__all__ = ["STREAM_VERSION", "SecureRandom", "Stream", "StreamPosition"]

KEY_BYTES = 32
STREAM_VERSION = 2
"""Version of the map from (key, nonce, domain, element, attempt) to random words."""


class StreamPosition(NamedTuple):
    """The position in a stream from which one kernel call takes its random words.

    Attributes
    ----------
    key : bytes or Key
        256-bit key. The secure source gives a `Key`, which is overwritten when its last reference goes; bytes are not.
    nonce : int
        32-bit number that separates the calls made under one key.
    first_element : int
        64-bit index of the call's first element.
    secure : bool
        Whether the key comes from the operating system, which decides the cipher. Public functions replace it with the `secure` of the
        stream that gave the position.
    """

    key: bytes | Key
    nonce: int = 0
    first_element: int = 0
    secure: bool = False


@runtime_checkable
class Stream(Protocol):
    """The protocol of the sources that every drawing function accepts as `rng`."""

    @property
    def secure(self) -> bool:
        """Whether the words come from the operating system's randomness."""

    def position(self) -> StreamPosition:
        """Position for one kernel call; a later call to this method gives a fresh one."""


def _os_key() -> Key:
    try:
        key = fresh_key(os.urandom)
    except (OSError, NotImplementedError) as error:
        raise EntropyError(f"the operating system's random source failed: {type(error).__name__}") from error
    if type(key) is not Key:
        raise EntropyError(f"the operating system's random source gave {len(key)} bytes instead of {KEY_BYTES}")
    return key


class SecureRandom:
    """The secure source: a fresh 256-bit key from the operating system for every kernel call.

    It has no seed and no state, so fork, threads and copies cannot repeat a stream. Each key is expanded by ChaCha20 (the block function of
    RFC 8439) or, where the CPU has AES instructions, by AES-256 in counter mode.

    Attributes
    ----------
    secure : bool
        Always True.

    Examples
    --------
    >>> import dpcore
    >>> dpcore.noise.laplace(0.0, 1.0, rng=dpcore.SecureRandom()) == dpcore.noise.laplace(0.0, 1.0)
    False
    """

    __slots__ = ()

    @property
    def secure(self) -> bool:
        """Always True."""
        return True

    def position(self) -> StreamPosition:
        """Take a fresh key from the operating system.

        Returns
        -------
        StreamPosition
            The start of the stream of this key.

        Raises
        ------
        EntropyError
            If the operating system gives no randomness.
        """
        # as StreamPosition(_os_key(), secure=True), but faster: a call on one number notices the difference
        return tuple.__new__(StreamPosition, (_os_key(), 0, 0, True))

    def __repr__(self) -> str:
        return "SecureRandom()"


class _CallStream:
    """The stream of one public call. Its draws never read the same words, even if the caller's stream always gives the same position."""

    __slots__ = ("_first", "_lock", "_repeats", "_stream")

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._first: StreamPosition | None = None
        self._repeats = 0
        self._lock = threading.Lock()

    @property
    def secure(self) -> bool:
        return self._stream.secure

    def position(self) -> StreamPosition:
        """The position of the stream; where it repeats the first of the call, one with a key derived from it and the number of the draw."""
        position = _checked(self._stream.position(), secure=bool(self._stream.secure))
        with self._lock:
            if self._first is None:
                self._first = position
                return position
            if position[:3] != self._first[:3]:  # without `secure`, because one cipher may serve both
                return position
            self._repeats += 1
            return _derived(position, self._repeats)


def _checked(position: object, *, secure: bool) -> StreamPosition:
    """The position that a stream gave, checked. Its `secure` is that of the stream, not of the position."""
    if not isinstance(position, tuple) or not 3 <= len(position) <= 4:
        raise ParameterTypeError(f"rng must give positions of a key, a nonce and a first element, got {type(position).__name__}")
    key, nonce, first = position[:3]
    if type(key) is Key and type(nonce) is int and type(first) is int and 0 <= nonce < 2**32 and 0 <= first < 2**64:
        if type(position) is StreamPosition and position.secure is secure:
            return position
        return StreamPosition(key, nonce, first, secure)
    if not isinstance(key, Key | bytes):
        raise ParameterTypeError(f"rng must give a key of bytes, got {type(key).__name__}")
    if isinstance(key, bytes) and len(key) != KEY_BYTES:
        raise ParameterError(f"rng must give a key of {KEY_BYTES} bytes, got {len(key)}")
    nonce = check_integer("the nonce of rng", nonce, low=0, high=2**32 - 1)
    return StreamPosition(key, nonce, check_integer("the first element of rng", first, low=0, high=2**64 - 1), secure)


def _derived(position: StreamPosition, draw: int) -> StreamPosition:
    return StreamPosition(derived_key(position, draw), position.nonce, secure=position.secure)


def resolve(rng: Stream | None) -> Stream:
    """Return the stream of one call, whose draws are independent; None is the secure source.

    A function that draws several times calls this once and passes the result on.
    """
    if rng is None:
        return _SECURE
    if type(rng) is SecureRandom or isinstance(rng, _CallStream):  # a subclass may repeat a position
        return rng
    # as isinstance(rng, Stream), which takes microseconds
    if isinstance(rng, type) or not (hasattr(rng, "secure") and callable(getattr(rng, "position", None))):
        _refuse(rng)
    return _CallStream(rng)


def _refuse(rng: object) -> NoReturn:
    raise ParameterTypeError(
        f"rng must be None, dpcore.SecureRandom() or dpcore.testing.KeyedRandom(key), got {type(rng).__name__}; "
        "generators of NumPy are not cryptographically secure"
    )


_SECURE = SecureRandom()


def __dir__() -> list[str]:
    return __all__
