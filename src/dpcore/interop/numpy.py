"""Bit generators for NumPy: one from the operating system's randomness, one from a key.

Give one to `numpy.random.Generator`, `numpy.random.default_rng` or `numpy.random.RandomState`, and everything that they draw comes from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn, Self, SupportsIndex

import numpy as np

from dpcore._backend.bitgen import POSITIONS, KeyedBits, SecureBits
from dpcore._validation import check_integer
from dpcore.errors import ParameterError, ParameterTypeError
from dpcore.interop._peers import Peer
from dpcore.rng import KEY_BYTES, SecureRandom

__all__ = ["PEER", "KeyedBitGenerator", "SecureBitGenerator", "SecureRandomState"]

PEER = Peer(module="numpy", distribution="numpy", tested=("1.26", "2"), extra="all")
"""NumPy, and the versions that the tests ran with."""

_JUMP = 1 << 64
NOT_PICKLED = (
    "is not pickled, because two generators would draw the same words. Make one in each process: SecureBitGenerator(), or rng.spawn(n) for "
    "several. A copy in this process is a fresh one"
)


class SecureBitGenerator(np.random.BitGenerator):
    """A bit generator of NumPy that has no seed: its words are random bits of the operating system, expanded by a cipher.

    Use it where others must not foresee or repeat what NumPy draws: for samples, shuffles, permutations, folds and bootstraps. **Do not use
    NumPy's samplers for noise that you release**, not with this source either: they compute with rounded numbers, and such noise tells more
    about the data than ε says. `dpcore.mechanisms` and `dpcore.noise` make noise for releases.

    Parameters
    ----------
    seed : None
        There is no seed. NumPy's own classes have the parameter, so that it is here to be refused. What a `SecureBitGenerator` has in the
        place of a seed sequence is taken, as SciPy makes children of it: it holds nothing, and the child is a fresh generator.

    Raises
    ------
    ParameterTypeError
        If `seed` is a seed.
    EntropyError
        If the operating system gives no randomness.

    Notes
    -----
    Guarantee: the words are those of AES-256 in counter mode or ChaCha20 under keys from the operating system. Each key makes 512 words, of
    which the first four are the next key. A key is overwritten when its words are made, and a word when it is used, so that memory never
    leads back to what was drawn. A forked process shares no word with its parent, even if the fork comes in the middle of a buffer: it
    takes keys of its own from the operating system before its first word. If there are none, it ends with a message (`abort`), because
    NumPy has no way to report an error there. Threads never share a word, with NumPy's lock and without. A copy, shallow or deep, is a new
    generator with keys of its own: it never draws the words of the original. There is no pickle.

    Cost: 9 KiB of memory, two keys of the operating system when it is made, and about 3 ns a word in the thread that draws first. Other
    threads need about 3 ns more.

    Source: Bernstein (2017).

    Examples
    --------
    >>> import numpy as np
    >>> from dpcore.interop.numpy import SecureBitGenerator
    >>> rng = np.random.default_rng(SecureBitGenerator())
    >>> sorted(rng.permutation(5).tolist())
    [0, 1, 2, 3, 4]
    """

    __slots__ = ("_bits",)

    _bits: SecureBits

    def __init__(self, seed: Any = None) -> None:
        if seed is not None and not isinstance(seed, np.random.bit_generator.SeedlessSeedSequence):
            _refuse("takes no seed: its words come from the operating system. For draws that repeat, use KeyedBitGenerator(seed)")
        super().__init__(np.random.bit_generator.SeedlessSeedSequence())  # type: ignore[arg-type]
        if not hasattr(self, "_bits"):  # a second call of __init__ has nothing to change
            source = SecureRandom()
            self._bits = SecureBits(source.position().key, source.position().key)
        self._bits.serve(self)

    @property
    def state(self) -> NoReturn:
        """Refused: a state tells what will be drawn."""
        _refuse(
            "shows no state, because anyone who has it can foresee what is drawn. For a state, use KeyedBitGenerator(seed); for a "
            "RandomState that can be copied, use SecureRandomState()"
        )

    @state.setter
    def state(self, value: Mapping[str, Any]) -> NoReturn:  # noqa: ARG002
        _refuse("takes no state, because its words would repeat. For a state, use KeyedBitGenerator(seed)")

    @property
    def seed_seq(self) -> NoReturn:
        """Refused: there is no seed."""
        _refuse("has no seed sequence: its words come from the operating system. For seeds, use KeyedBitGenerator(seed)")

    def spawn(self, n_children: SupportsIndex) -> list[SecureBitGenerator]:
        """Make further generators, each with keys of its own from the operating system.

        Parameters
        ----------
        n_children : int
            How many, at least 0.

        Returns
        -------
        list of SecureBitGenerator
            They are independent of this one and of each other.

        Raises
        ------
        ParameterError, ParameterTypeError
            If `n_children` is not such a number.
        EntropyError
            If the operating system gives no randomness.
        """
        return [type(self)() for _ in range(check_integer("n_children", n_children, low=0))]

    def __copy__(self) -> Self:
        return type(self)()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return type(self)()

    def __reduce__(self) -> tuple[Callable[..., SecureBitGenerator], tuple[_Unpickled], None]:  # type: ignore[override]
        # what a Generator of NumPy 1.26 takes apart to copy itself; a pickle of it fails at its only argument
        return _fresh, (_Unpickled(type(self)),), None

    def __getstate__(self) -> NoReturn:
        _refuse(NOT_PICKLED)


class _Unpickled:
    """The class of a generator, which can be copied and not pickled."""

    __slots__ = ("kind",)

    def __init__(self, kind: type[SecureBitGenerator]) -> None:
        self.kind = kind

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> NoReturn:
        _refuse(NOT_PICKLED)


def _fresh(made_from: _Unpickled) -> SecureBitGenerator:
    return made_from.kind()


class SecureRandomState(np.random.RandomState):
    """A `numpy.random.RandomState` that draws from a `SecureBitGenerator`, and whose copies draw from others.

    Libraries that know no `Generator`, such as scikit-learn, take it as a `random_state`: `clone`, `cross_val_score` and `copy.deepcopy`
    get a fresh one. It has no seed, no state and no pickle. **Do not use its samplers for noise that you release.**

    Raises
    ------
    ParameterTypeError
        If it is asked for a state, given one, or pickled.
    EntropyError
        If the operating system gives no randomness.

    Notes
    -----
    Guarantee: that of `SecureBitGenerator`, but for one number: a RandomState keeps every second normal number, and a forked child has the
    same one. Make a new one in the child.

    Cost: that of a `SecureBitGenerator`.

    Examples
    --------
    >>> import copy
    >>> from dpcore.interop.numpy import SecureRandomState
    >>> state = SecureRandomState()
    >>> copy.deepcopy(state).randint(2**62) == state.randint(2**62)
    False
    """

    def __init__(self) -> None:
        super().__init__(SecureBitGenerator())

    def __copy__(self) -> Self:
        return type(self)()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return type(self)()

    def __reduce__(self) -> NoReturn:
        raise ParameterTypeError(
            "a SecureRandomState is not pickled, because two would draw the same words. Make one in each process; a copy is a fresh one"
        )

    def seed(self, seed: Any = None) -> NoReturn:  # noqa: ARG002
        """Refused: there is no seed."""
        raise ParameterTypeError("a SecureRandomState takes no seed. For draws that repeat, use RandomState(KeyedBitGenerator(seed))")


class KeyedBitGenerator(np.random.BitGenerator):
    """A bit generator of NumPy whose words follow from a seed or a key: ChaCha20, the same on every machine.

    Anyone who knows the seed knows all words, so nothing made with it is private. Use it for tests and experiments that have to repeat.

    Parameters
    ----------
    seed : None, int, array_like of int or numpy.random.SeedSequence, optional
        As for NumPy's own bit generators. None takes a seed from the operating system.
    key : bytes, optional
        The 32 bytes of the key, in place of a seed.

    Raises
    ------
    ParameterTypeError, ParameterError
        If `key` is not bytes, or not 32 of them, or if there is a seed as well.

    Notes
    -----
    Guarantee: none; what is drawn is reproducible. Word i is word i of the ChaCha20 stream of the key (block counter from 0, 64-bit words,
    in `dpcore`'s order of groups). The stream has 2⁹⁶ words and then starts again. A copy, a pickle, and the child of a fork go on with the
    same words as the original, as with every generator of NumPy that is seeded.

    Cost: 4.5 KiB of memory, and a few nanoseconds a word.

    Examples
    --------
    >>> import numpy as np
    >>> from dpcore.interop.numpy import KeyedBitGenerator
    >>> one, two = (np.random.default_rng(KeyedBitGenerator(7)) for _ in range(2))
    >>> one.integers(1000, size=3).tolist() == two.integers(1000, size=3).tolist()
    True
    """

    __slots__ = ("_bits",)

    _bits: KeyedBits

    def __init__(self, seed: Any = None, *, key: bytes | None = None) -> None:
        if key is not None:
            if seed is not None:
                raise ParameterTypeError("KeyedBitGenerator takes a seed or a key, not both")
            seed = np.random.SeedSequence(int.from_bytes(_checked_key(key), "little"))  # what spawn() derives from
        super().__init__(seed)
        if not hasattr(self, "_bits"):
            self._bits = KeyedBits()
        if key is None:
            key = self.seed_seq.generate_state(KEY_BYTES // 8, np.uint64).astype("<u8").tobytes()
        self._bits.serve(self)
        self._bits.move(key, 0)

    @property
    def state(self) -> dict[str, Any]:
        """Everything that decides the words to come, as a dict of integers.

        Keys are "bit_generator" (the name of the class), "state" (with "key", an integer of 256 bits, and "position", the index of the next
        word), "has_uint32" and "uinteger" (the half that is left of the word before).
        """
        with self.lock:
            key, position, half = self._bits.state()
        return {
            "bit_generator": type(self).__name__,
            "state": {"key": int.from_bytes(key, "little"), "position": position},
            "has_uint32": int(half is not None),
            "uinteger": half or 0,
        }

    @state.setter
    def state(self, value: Mapping[str, Any]) -> None:
        key, position, half = self._checked_state(value)
        with self.lock:
            self._bits.move(key, position, half)

    def _checked_state(self, value: Mapping[str, Any]) -> tuple[bytes, int, int | None]:
        if not isinstance(value, Mapping):
            raise ParameterTypeError(f"state must be a dict, got {type(value).__name__}")
        name = value.get("bit_generator")
        if name != type(self).__name__:
            raise ParameterError(f"state must be of a {type(self).__name__}, got one of {name!r}")
        try:
            inner, has_half, half = value["state"], value["has_uint32"], value["uinteger"]
            if not isinstance(inner, Mapping):
                raise ParameterTypeError(f"the entry 'state' of state must be a dict, got {type(inner).__name__}")
            key, position = inner["key"], inner["position"]
        except KeyError as error:
            raise ParameterError(f"state has no {error.args[0]!r}") from None
        key = check_integer("the key of state", key, low=0, high=(1 << 256) - 1)
        position = check_integer("the position of state", position, low=0, high=POSITIONS - 1)
        has_half = check_integer("has_uint32 of state", has_half, low=0, high=1)
        half = check_integer("uinteger of state", half, low=0, high=(1 << 32) - 1 if has_half else 0)
        return key.to_bytes(KEY_BYTES, "little"), position, half if has_half else None

    def advance(self, delta: int) -> KeyedBitGenerator:
        """Move on by so many words, as if they had been drawn.

        Parameters
        ----------
        delta : int
            Number of 64-bit words, in [−2⁹⁶, 2⁹⁶]; negative to go back. A half that is left of a word is dropped.

        Returns
        -------
        KeyedBitGenerator
            This one.

        Raises
        ------
        ParameterTypeError, ParameterError
            If `delta` is not such a number.

        Notes
        -----
        Cost: under 10 µs, whatever `delta` is.
        """
        delta = check_integer("delta", delta, low=-POSITIONS, high=POSITIONS)
        with self.lock:
            key, position, _ = self._bits.state()
            self._bits.move(key, (position + delta) % POSITIONS)
        return self

    def jumped(self, jumps: int = 1) -> KeyedBitGenerator:
        """Return a generator that stands 2⁶⁴ words further on for each jump. This one stays where it is.

        Parameters
        ----------
        jumps : int, default 1
            How many jumps.

        Returns
        -------
        KeyedBitGenerator
            Its words and those of this one meet after 2⁶⁴ draws, and again every 2³² jumps.

        Raises
        ------
        ParameterTypeError, ParameterError
            If `jumps` is not an integer, or beyond 2⁹⁶.
        """
        jumps = check_integer("jumps", jumps, low=-POSITIONS, high=POSITIONS)
        state = self.state
        state["state"]["position"] = (state["state"]["position"] + jumps * _JUMP) % POSITIONS
        other = _seeded((type(self), self.seed_seq))
        other.state = state | {"has_uint32": 0, "uinteger": 0}
        return other

    def __reduce__(self) -> tuple[Callable[..., KeyedBitGenerator], tuple[Any, ...], dict[str, Any]]:  # type: ignore[override]
        # one argument, then a dict: what generators of NumPy 1.26 take apart to pickle themselves
        return _seeded, ((type(self), self.seed_seq),), self.state


def _seeded(made_from: tuple[type[KeyedBitGenerator], Any]) -> KeyedBitGenerator:
    kind, seed_seq = made_from
    return kind(seed_seq)


def _checked_key(key: object) -> bytes:
    if not isinstance(key, bytes):
        raise ParameterTypeError(f"key must be bytes, got {type(key).__name__}")
    if len(key) != KEY_BYTES:
        raise ParameterError(f"key must have {KEY_BYTES} bytes, got {len(key)}")
    return key


def _refuse(what: str) -> NoReturn:
    raise ParameterTypeError(f"a SecureBitGenerator {what}")


def __dir__() -> list[str]:
    return __all__
