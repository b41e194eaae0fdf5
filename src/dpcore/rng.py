"""Sources of randomness: the stream protocol and the secure source."""

from __future__ import annotations

import hashlib
import math
import threading
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple, NoReturn, Protocol, Self, runtime_checkable

from dpcore._backend import Key, derived_key, fresh_key, os_key, secure_position
from dpcore._validation import check_integer
from dpcore.errors import ParameterError, ParameterTypeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import TracebackType

    from dpcore.privacy import Privacy

__all__ = ["STREAM_VERSION", "CarriedKey", "JobKey", "SecureRandom", "Stream", "StreamPosition"]

CONSTANT_WORK_LOSS = Fraction(1, 2**80)
"""Bound of the total variation between the law of one number, report or score that constant work makes, and the law that its name says."""

KEY_BYTES = 32
STREAM_VERSION = 3
"""Version of what a key produces: of the map from (key, nonce, domain, element, attempt) to random words, and of what is made of them."""


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


class Numbered(Protocol):
    """A source whose draws have numbers, by which each of them can be made again."""

    def at(self, nonce: int) -> Stream:
        """The stream of a number: every call with it sees the same random words."""


class SecureRandom:
    """The secure source: a fresh 256-bit key from the operating system for every kernel call.

    It has no seed and no state, so fork, threads and copies cannot repeat a stream. Each key is expanded by ChaCha20 (the block function of
    RFC 8439) or, where the CPU has AES instructions, by AES-256 in counter mode.

    Parameters
    ----------
    constant_work : bool, default False
        Whether calls do the same work whatever is drawn and whatever the data hold, given sizes and parameters: for servers whose clients
        measure the time of answers. It is 30 to 1000 times slower, `guarantee` says what it adds to δ, and functions that cannot work like
        this refuse it. The page on constant work says what is promised.

    Attributes
    ----------
    secure : bool
        Always True.
    constant_work : bool
        The parameter.

    Raises
    ------
    ParameterTypeError
        If `constant_work` is not a bool.

    Examples
    --------
    >>> import dpcore
    >>> dpcore.noise.laplace(0.0, 1.0, rng=dpcore.SecureRandom()) == dpcore.noise.laplace(0.0, 1.0)
    False
    """

    __slots__ = ()

    def __new__(cls, *, constant_work: bool = False) -> Self:
        """Make a source of one of two types, so that ordinary calls, which look at the type, pay nothing for the difference."""
        if constant_work is not False and constant_work is not True:
            raise ParameterTypeError(f"constant_work must be True or False, got {constant_work!r}")
        if constant_work and cls is not SecureRandom:
            raise ParameterTypeError(f"constant_work must be False for subclasses of SecureRandom, such as {cls.__name__}")
        return super().__new__(_ConstantWork if constant_work else cls)  # type: ignore[return-value]

    @property
    def secure(self) -> bool:
        """Always True."""
        return True

    @property
    def constant_work(self) -> bool:
        """Whether the work of a call depends on sizes and parameters alone."""
        return False

    def guarantee(self, privacy: Privacy, *, size: int) -> Privacy:
        """Return the guarantee of a release that draws from this source.

        Parameters
        ----------
        privacy : Privacy
            Guarantee of the release with ordinary noise.
        size : int
            How many numbers, reports or scores the release makes from the data of one person, at least 1. For the reports of a local
            randomiser it is 1; for a mechanism it is the number of values, and for a selection that of the scores.

        Returns
        -------
        Privacy
            `privacy` itself, but with `constant_work`, δ + (1 + e^ε)·size·2^−80 instead of δ, rounded up. It is what a ledger is charged.

        Raises
        ------
        ParameterError, ParameterTypeError
            If an argument is of the wrong type or outside its range, or the δ would be 1 or more, as for an ε above 55.

        Examples
        --------
        >>> import dpcore
        >>> dpcore.SecureRandom(constant_work=True).guarantee(dpcore.Privacy(1.0), size=1000).delta < 1e-20
        True
        """
        from dpcore.privacy import Privacy

        if not isinstance(privacy, Privacy):
            raise ParameterTypeError(f"privacy must be a Privacy, got {type(privacy).__name__}")
        size = check_integer("size", size, low=1)
        return self._guarantee(privacy, size)

    def _guarantee(self, privacy: Privacy, size: int) -> Privacy:  # noqa: ARG002
        return privacy

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
        return secure_position(StreamPosition)

    def __repr__(self) -> str:
        return f"SecureRandom({'constant_work=True' if self.constant_work else ''})"


class _ConstantWork(SecureRandom):
    __slots__ = ()

    @property
    def constant_work(self) -> bool:
        return True

    def _guarantee(self, privacy: Privacy, size: int) -> Privacy:
        from dpcore.privacy import Privacy

        return Privacy(privacy.epsilon, constant_work_delta(privacy, size), privacy.relation)


def constant_work_delta(privacy: Privacy, size: int) -> float:
    """δ + (1 + e^ε)·size·2^−80, rounded up: what laws within a total variation of size·2^−80 guarantee."""
    if privacy.epsilon < 80:
        factor = 1 + Fraction(math.exp(privacy.epsilon)) * (1 + Fraction(1, 2**50))  # exp errs by less than a unit or two
        total = Fraction(privacy.delta) + factor * size * CONSTANT_WORK_LOSS
        nearest = float(total) if total < 1 else 1.0
        delta = nearest if Fraction(nearest) >= total else math.nextafter(nearest, math.inf)
        if delta < 1:
            return delta
    raise ParameterError(
        f"privacy must leave a δ below 1 for constant work, where it is δ + (1 + e^ε)·size·2^-80, got {privacy!r} and size = {size}"
    )


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


class CarriedKey:
    """The key of one job, in a form that can be sent to the processes that work for the job.

    `JobKey.carried` makes it. A pickle holds the key, so it may only go where the data of the job go: never into a setting, a log or a
    file that outlives the job.

    Parameters
    ----------
    key : bytes or Key
        32 bytes.
    secure : bool
        Whether they come from the operating system.

    Raises
    ------
    ParameterTypeError, ParameterError
        If `key` is not bytes, or not 32 of them.

    Examples
    --------
    >>> import pickle
    >>> from dpcore.rng import JobKey
    >>> sent = JobKey().carried()
    >>> pickle.loads(pickle.dumps(sent)).derived("noise", [b"batch"]) == sent.derived("noise", [b"batch"])
    True
    """

    __slots__ = ("_key", "_secure")

    def __init__(self, key: bytes | Key, *, secure: bool) -> None:
        self._key = Key(key) if isinstance(key, Key) else given_key(key)
        self._secure = secure

    @property
    def secure(self) -> bool:
        """Whether the key comes from the operating system's randomness."""
        return self._secure

    def derived(self, purpose: str, parts: Iterable[bytes | memoryview]) -> Key:
        """Return the key of one piece of work: BLAKE2b-256 under this key of the purpose and the parts.

        Parameters
        ----------
        purpose : str
            What the key is for; different purposes have independent keys.
        parts : iterable of bytes
            What the key depends on. `framed` writes them down injectively.

        Returns
        -------
        Key
            32 bytes, which are wiped with their last reference.

        Notes
        -----
        Guarantee: equal arguments give equal keys, in any process. Keys of different arguments are those of a pseudorandom function:
        nothing tells them from independent ones without the key of the job.

        Cost: one pass over the parts, about 1 GB/s.

        Source: BLAKE2b with a key, RFC 7693, section 2.9.
        """
        state = hashlib.blake2b(key=self._key, digest_size=KEY_BYTES, person=_PERSON)
        for piece in framed([purpose.encode(), *parts]):
            state.update(piece)
        derived: Key = fresh_key(lambda _: state.digest())
        return derived

    def __reduce__(self) -> tuple[object, tuple[bytes, bool]]:
        return _carried, (bytes(self._key), self._secure)

    def __repr__(self) -> str:
        return f"CarriedKey(<key>, secure={self._secure})"


_PERSON = b"dpcore-job-key-1"


def given_key(key: bytes) -> Key:
    """Return the key that somebody gives as 32 bytes."""
    if not isinstance(key, bytes):
        raise ParameterTypeError(f"key must be bytes, got {type(key).__name__}")
    if len(key) != KEY_BYTES:
        raise ParameterError(f"key must have {KEY_BYTES} bytes, got {len(key)}")
    return Key(key)


def _carried(key: bytes, secure: bool) -> CarriedKey:  # a pickle calls it
    return CarriedKey(key, secure=secure)


def framed(parts: Iterable[bytes | memoryview]) -> Iterator[bytes | memoryview]:
    """Write parts down one after the other, each behind its length in 8 bytes, and their number at the end.

    Two different sequences of parts have different bytes: read from the front, a length says where its part ends.
    """
    count = 0
    for part in parts:
        view = memoryview(part)
        view = view.cast("B") if view.nbytes else memoryview(b"")
        yield len(view).to_bytes(8, "little")
        yield view
        count += 1
    yield count.to_bytes(8, "little")


class JobKey:
    """The key of one job whose pieces run in many processes: 32 bytes of the operating system, made once, where the job starts.

    A piece of work draws from a key that is derived from this one and from the piece (`derived`). A second attempt at the same piece
    therefore draws the same noise, and every other piece draws independent noise. The key is overwritten when the last reference to it
    goes: call `wipe`, or use the object in a `with` statement. It has no pickle, so that it gets into no other process by accident;
    `carried` makes the copy that is sent.

    Attributes
    ----------
    secure : bool
        True, but for the twin in `dpcore.testing`.

    Raises
    ------
    EntropyError
        If the operating system gives no randomness.

    Examples
    --------
    >>> from dpcore.rng import JobKey
    >>> with JobKey() as key:
    ...     one, same = (key.derived("noise", [b"batch 1"]) for _ in range(2))
    ...     other = key.derived("noise", [b"batch 2"])
    >>> one == same, one == other
    (True, False)
    """

    __slots__ = ("_carried",)

    def __init__(self) -> None:
        self._carried: CarriedKey | None = CarriedKey(os_key(), secure=True)

    @property
    def secure(self) -> bool:
        """Whether the key comes from the operating system's randomness."""
        return self.carried().secure

    def carried(self) -> CarriedKey:
        """Return the form that can be sent to the processes of the job.

        Returns
        -------
        CarriedKey
            Its pickle holds the key.

        Raises
        ------
        ParameterError
            If the key has been wiped.
        """
        if self._carried is None:
            raise ParameterError("the key of the job has been wiped: its noise is published, and cannot be drawn again; start another job")
        return self._carried

    def derived(self, purpose: str, parts: Iterable[bytes | memoryview]) -> Key:
        """Return the key of one piece of work: see `CarriedKey.derived`.

        Parameters
        ----------
        purpose : str
            What the key is for.
        parts : iterable of bytes
            What it depends on.

        Returns
        -------
        Key
            32 bytes.
        """
        return self.carried().derived(purpose, parts)

    def wipe(self) -> None:
        """Forget the key. What is still in use keeps its own reference."""
        self._carried = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.wipe()

    def __reduce__(self) -> NoReturn:
        raise ParameterTypeError("a JobKey is not copied or pickled, so that no other process gets it by accident; send `.carried()`")

    def __repr__(self) -> str:
        return "JobKey(<wiped>)" if self._carried is None else f"{type(self).__name__}(<key>)"


def resolve(rng: Stream | None, *, constant_work: bool = False) -> Stream:
    """Return the stream of one call, whose draws are independent; None is the secure source.

    Only functions that have it ask for `constant_work`; for others a source with constant work is refused.

    A function that draws several times calls this once and passes the result on.
    """
    if rng is None:
        return _SECURE
    if type(rng) is SecureRandom or isinstance(rng, _CallStream):  # a subclass may repeat a position
        return rng
    if isinstance(rng, _ConstantWork):
        if constant_work:
            return rng
        raise ParameterError(
            "rng must not have constant_work=True for this function, whose work depends on what is drawn; noise on numbers, the mechanisms "
            "Laplace, Gaussian, DiscreteLaplace and DiscreteGaussian, noisy_argmax, permute_and_flip and some randomisers of dpcore.local "
            "have constant work, see docs/constant-work.md"
        )
    # as isinstance(rng, Stream), which takes microseconds
    if isinstance(rng, type) or not (hasattr(rng, "secure") and callable(getattr(rng, "position", None))):
        _refuse(rng)
    return _CallStream(rng)


def is_constant_work(rng: Stream | None) -> bool:
    """Whether a call with this source does constant work."""
    return isinstance(rng, _ConstantWork)


def _refuse(rng: object) -> NoReturn:
    raise ParameterTypeError(
        f"rng must be None, dpcore.SecureRandom() or dpcore.testing.KeyedRandom(key), got {type(rng).__name__}; "
        "generators of NumPy are not cryptographically secure"
    )


_SECURE = SecureRandom()


def __dir__() -> list[str]:
    return __all__
