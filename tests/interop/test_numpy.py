"""The keyed bit generator: the words of an independent ChaCha20 at every CPU level, in the order of NumPy's own generators."""

from __future__ import annotations

import copy
import json
import multiprocessing
import pickle
import struct
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from dpcore._backend.bitgen import KeyedBits
from dpcore.errors import ParameterError, ParameterTypeError
from dpcore.interop.numpy import PEER, KeyedBitGenerator, SecureBitGenerator
from support.kernels import KEY, LEVELS, at_level

MASK = 0xFFFFFFFF
DOMAIN = 12


# An independent keystream


def block(key: bytes, counter: int, tag: int, nonce: int) -> list[int]:
    """ChaCha20's block function, by RFC 8439 with a 64-bit counter, a number at a time."""
    start = [*struct.unpack("<4I", b"expand 32-byte k"), *struct.unpack("<8I", key), counter & MASK, counter >> 32, tag, nonce]
    s = list(start)

    def quarter(a: int, b: int, c: int, d: int) -> None:
        for x, y, z, turn in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            s[x] = (s[x] + s[y]) & MASK
            s[z] = ((s[z] ^ s[x]) << turn | (s[z] ^ s[x]) >> 32 - turn) & MASK

    for _ in range(10):
        for i in range(4):
            quarter(i, 4 + i, 8 + i, 12 + i)
        for i in range(4):
            quarter(i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4)
    return [(a + b) & MASK for a, b in zip(s, start, strict=True)]


def stream(key: bytes, position: int, n: int) -> list[int]:
    """Words of a key from a position on: groups of 128 words, in which row j has word j of sixteen blocks."""
    words: list[int] = []
    at = position - position % 128
    while at < position + n:
        nonce, group = at >> 64 & MASK, (at & 2**64 - 1) // 128
        blocks = [block(key, 16 * group + i, DOMAIN << 24, nonce) for i in range(16)]
        halves = [blocks[i][j] for j in range(16) for i in range(16)]
        words += [halves[i] | halves[i + 1] << 32 for i in range(0, 256, 2)]
        at += 128
    return words[position % 128 :][:n]


def test_the_independent_block_function_is_that_of_the_rfc() -> None:
    found = struct.pack("<16I", *block(bytes(range(32)), 1 | 0x09000000 << 32, 0x4A000000, 0))
    assert found[:16].hex() == "10f1e7e4d13b5915500fdd1fa32071c4"


@pytest.fixture(params=LEVELS)
def level(request: pytest.FixtureRequest) -> Iterator[str]:
    with at_level(request.param):
        yield request.param


def keyed(position: int = 0) -> KeyedBitGenerator:
    return KeyedBitGenerator(key=KEY).advance(position)


# Words


@pytest.mark.parametrize("position", [0, 5, 511, 2**35 - 300, 2**64 - 200, 2**95 + 77, 2**96 - 100])
def test_words_are_those_of_the_key_at_every_level(level: str, position: int) -> None:
    n = 600 if position == 5 else 250
    assert keyed(position).random_raw(n).tolist() == stream(KEY, position, n)


def test_the_key_of_a_seed_is_the_state_of_its_sequence() -> None:
    for seed in (7, 2**100, [1, 2, 3], np.random.SeedSequence(3, spawn_key=(1,))):
        sequence = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
        key = sequence.generate_state(4, np.uint64).astype("<u8").tobytes()
        assert KeyedBitGenerator(seed).random_raw(3).tolist() == stream(key, 0, 3)


class Model:
    """What NumPy's bit generators do with their words: the upper half of one waits for the next half that is asked for."""

    def __init__(self, words: list[int]) -> None:
        self.words, self.half = iter(words), None

    def uint64(self) -> int:
        return next(self.words)

    def uint32(self) -> int:
        if self.half is None:
            word = next(self.words)
            self.half = word >> 32
            return word & MASK
        half, self.half = self.half, None
        return half

    def double(self) -> float:
        return (next(self.words) >> 11) * 2.0**-53


def draws(generator: np.random.BitGenerator, kinds: list[int]) -> list[float]:
    """One number of each kind, through the functions that NumPy calls."""
    interface: Any = generator.ctypes
    functions = interface.next_uint64, interface.next_uint32, interface.next_double
    return [functions[kind](interface.state) for kind in kinds]


def test_words_halves_and_doubles_take_turns_as_with_numpys_own() -> None:
    kinds = np.random.default_rng(5).integers(0, 3, 3000).tolist() + [1] * 1500 + [0] + [1] * 1100
    model = Model(stream(KEY, 0, 4000))
    assert draws(keyed(), kinds) == [(model.uint64, model.uint32, model.double)[kind]() for kind in kinds]


def test_functions_of_numpy_draw_these_words() -> None:
    words = stream(KEY, 0, 512)
    assert np.random.Generator(keyed()).random(512).tolist() == [(word >> 11) * 2.0**-53 for word in words]
    assert np.random.RandomState(keyed()).random_sample(4).tolist() == [(word >> 11) * 2.0**-53 for word in words[:4]]
    halves = [half for word in words for half in (word & MASK, word >> 32)]
    assert np.random.default_rng(keyed()).integers(0, 2**32, 99, dtype=np.uint32).tolist() == halves[:99]
    assert np.random.default_rng(keyed()).bytes(40) == struct.pack("<10I", *halves[:10])


# State


@pytest.mark.parametrize("kinds", [[], [1], [0, 1], [1, 0], [1] * 1023, [1] * 1023 + [0], [0] * 512, [1, *[0] * 511], [1] * 1024])
def test_a_state_brings_everything_back(kinds: list[int]) -> None:
    rest = [1, 0, 2, 1, 1, 0] * 200
    one, two = keyed(), KeyedBitGenerator(1)
    draws(one, kinds)
    state = one.state
    assert state == json.loads(json.dumps(state))
    two.state = state
    assert two.state == state
    expected = draws(one, rest)
    assert draws(two, rest) == expected
    one.state = state
    assert draws(one, rest) == expected


def test_advancing_is_drawing() -> None:
    one = keyed()
    one.random_raw(1234, output=False)
    assert keyed(1234).state == one.state == keyed(1234).advance(2**96).state
    assert one.advance(-1234).state == keyed().state
    assert keyed().advance(-1).state["state"]["position"] == 2**96 - 1
    draws(one, [1])
    assert one.advance(0).state["has_uint32"] == 0


def test_jumps_are_far_and_keep_the_seed() -> None:
    one = KeyedBitGenerator(7)
    two = one.jumped().jumped(2)
    assert two.state["state"] == {"key": one.state["state"]["key"], "position": 3 * 2**64}
    assert two.seed_seq is one.seed_seq
    assert one.jumped(2**32).state == one.state
    assert two.jumped(-3).state == one.state


COPIES = {
    "pickle": lambda x: pickle.loads(pickle.dumps(x)),
    "protocol 2": lambda x: pickle.loads(pickle.dumps(x, protocol=2)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}


@pytest.mark.parametrize("how", COPIES)
def test_copies_go_on_with_the_same_words(how: str) -> None:
    bits = KeyedBitGenerator(11)
    generator = np.random.default_rng(bits)
    generator.integers(0, 9, 5, dtype=np.uint32)
    other = COPIES[how](bits)
    assert type(other) is KeyedBitGenerator
    assert other.state == bits.state
    again = pickle.loads(pickle.dumps(generator))
    legacy = pickle.loads(pickle.dumps(np.random.RandomState(bits)))
    assert other.random_raw(700).tolist() == bits.random_raw(700).tolist()
    assert again.random() != generator.random()
    assert legacy.random_sample() != generator.random()
    assert [x.state for x in other.spawn(2)] == [x.state for x in KeyedBitGenerator(11).spawn(2)]


class Named(KeyedBitGenerator):
    """A subclass, as users write them."""


def test_a_subclass_keeps_its_type() -> None:
    named = Named(3)
    assert {type(x) for x in (pickle.loads(pickle.dumps(named)), named.jumped(), *named.spawn(2))} == {Named}
    with pytest.raises(ParameterError, match="state must be of a Named, got one of 'KeyedBitGenerator'"):
        named.state = KeyedBitGenerator(3).state


def test_children_have_streams_of_their_own() -> None:
    for parent in (KeyedBitGenerator(5), KeyedBitGenerator(key=KEY)):
        children = np.random.default_rng(parent).spawn(3)
        words = [set(child.bit_generator.random_raw(600).tolist()) for child in children] + [set(parent.random_raw(600).tolist())]
        assert len(set.union(*words)) == 2400
    one, two = (KeyedBitGenerator(key=KEY).spawn(1)[0].random_raw() for _ in range(2))
    assert one == two


def first_words(bits: KeyedBitGenerator) -> list[int]:
    return bits.random_raw(600).tolist()


@pytest.mark.parametrize("method", [m for m in ("fork", "spawn") if m in multiprocessing.get_all_start_methods()])
def test_workers_get_the_stream_that_they_are_given(method: str) -> None:
    """Forked and spawned, and the copy that a fork makes goes on as any seeded generator of NumPy does."""
    bits = KeyedBitGenerator(5)
    bits.random_raw(10, output=False)
    with multiprocessing.get_context(method).Pool(1) as pool:
        assert pool.map(first_words, [bits]) == [first_words(copy.copy(bits))]


# What is refused


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"key": "a" * 32}, ParameterTypeError, "key must be bytes, got str"),
        ({"key": bytes(31)}, ParameterError, "key must have 32 bytes, got 31"),
        ({"key": bytes(32), "seed": 1}, ParameterTypeError, "a seed or a key, not both"),
        ({"seed": -1}, ValueError, None),
        ({"seed": "abc"}, (TypeError, ValueError), None),
    ],
)
def test_what_is_no_seed_is_refused(arguments: dict[str, Any], error: Any, message: str | None) -> None:
    with pytest.raises(error, match=message):
        KeyedBitGenerator(**arguments)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: 3, "state must be a dict, got int"),
        (lambda s: np.random.PCG64(1).state, "state must be of a KeyedBitGenerator, got one of 'PCG64'"),
        (lambda s: {k: v for k, v in s.items() if k != "uinteger"}, "state has no 'uinteger'"),
        (lambda s: s | {"state": {"key": 1}}, "state has no 'position'"),
        (lambda s: s | {"state": {"key": 2**256, "position": 0}}, "the key of state must be in"),
        (lambda s: s | {"state": {"key": 1, "position": 2**96}}, "the position of state must be in"),
        (lambda s: s | {"has_uint32": 1, "uinteger": 2**32}, "uinteger of state must be in"),
        (lambda s: s | {"has_uint32": 0, "uinteger": 1}, "uinteger of state must be in"),
        (lambda s: s | {"has_uint32": 2, "uinteger": 1}, r"has_uint32 of state must be in \[0, 1\], got 2"),
        (lambda s: s | {"has_uint32": -1}, "has_uint32 of state must be in"),
        (lambda s: s | {"has_uint32": True}, "has_uint32 of state must be an integer"),
        (lambda s: s | {"has_uint32": "no"}, "has_uint32 of state must be an integer"),
        (lambda s: s | {"has_uint32": None}, "has_uint32 of state must be an integer"),
        (lambda s: s | {"state": 3}, "the entry 'state' of state must be a dict, got int"),
        (lambda s: s | {"state": np.zeros(2)}, "the entry 'state' of state must be a dict, got ndarray"),
        (lambda s: s | {"state": {"key": 1.0, "position": 0}}, "the key of state must be an integer"),
        (lambda s: s | {"state": {"key": "1", "position": 0}}, "the key of state must be an integer"),
    ],
)
def test_what_is_no_state_is_refused_and_changes_nothing(change: Any, message: str) -> None:
    bits = keyed(3)
    with pytest.raises((ParameterError, ParameterTypeError), match=message):
        bits.state = change(bits.state)
    assert bits.state == keyed(3).state


@pytest.mark.parametrize("kind", [KeyedBitGenerator, SecureBitGenerator])
def test_objects_of_another_form_are_not_written_to(kind: type[np.random.BitGenerator]) -> None:
    used = np.random.PCG64(1)
    expected = np.random.PCG64(1).random_raw()
    with pytest.raises(ParameterError, match="are not as this version of dpcore knows them"):
        KeyedBits().serve(used)
    assert used.random_raw() == expected

    class Elsewhere:
        capsule = kind().capsule

    with pytest.raises(ParameterError, match="does not point into its bit generator"):
        KeyedBits().serve(Elsewhere())  # type: ignore[arg-type]


def test_init_may_be_called_again() -> None:
    """Generators that were made before go on with what is there then; nothing points to memory that is gone."""
    bits = KeyedBitGenerator(1)
    generator = np.random.default_rng(bits)
    for seed in range(50):
        bits.__init__(seed)  # type: ignore[misc]
    assert generator.bit_generator.state == KeyedBitGenerator(49).state
    assert generator.random() == np.random.default_rng(KeyedBitGenerator(49)).random()
    secure = SecureBitGenerator()
    generator = np.random.default_rng(secure)
    secure.__init__()  # type: ignore[misc]
    assert len(set(generator.random(99).tolist())) == 99


def test_a_generator_keeps_what_it_draws_from() -> None:
    generators = [np.random.default_rng(KeyedBitGenerator(i)) for i in range(200)]
    assert len({generator.random() for generator in generators}) == 200


def test_versions_are_named_and_importing_costs_nothing_else() -> None:
    assert PEER.require() is np
    assert "dpcore.testing" not in sys.modules["dpcore.interop.numpy"].__dict__
