"""Processes, threads and copies never share a stream, and the caller's floating-point environment does not matter."""

from __future__ import annotations

import copy
import ctypes
import ctypes.util
import multiprocessing
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from support.kernels import KEY, LAWS, Law, same_bits

import dpcore
from dpcore import noise
from dpcore.testing import KeyedRandom

N = 1 << 18
"""Enough that several threads take part."""


def secure_bytes(_: object = None) -> bytes:
    return noise.laplace(np.zeros(64), 1.0).tobytes()


def send_noise(connection: object) -> None:
    # the pool must work in the child too
    whole = noise.laplace(np.zeros(N), 1.0, threads=2)
    connection.send_bytes(whole[:64].tobytes())  # type: ignore[attr-defined]


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="the platform has no fork")
def test_forked_children_have_streams_of_their_own() -> None:
    noise.laplace(np.zeros(N), 1.0, threads=2)  # the parent's pool has threads
    fork = multiprocessing.get_context("fork")
    pipes = [fork.Pipe(duplex=False) for _ in range(8)]
    children = [fork.Process(target=send_noise, args=(sender,)) for _, sender in pipes]
    for child in children:
        child.start()
    seen = {receiver.recv_bytes() for receiver, _ in pipes}
    for child in children:
        child.join(60)
        assert child.exitcode == 0
    assert len(seen | {secure_bytes()}) == 9
    noise.laplace(np.zeros(N), 1.0, threads=2)  # and the parent's still work


def test_threads_have_streams_of_their_own() -> None:
    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(secure_bytes, range(64)))) == 64


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda r: pickle.loads(pickle.dumps(r))])
def test_copies_of_the_secure_source_are_fresh(duplicate: object) -> None:
    source = dpcore.SecureRandom()
    twin = duplicate(source)  # type: ignore[operator]
    first, second = (noise.gaussian(np.zeros(16), 1.0, rng=rng) for rng in (source, twin))
    assert not np.array_equal(first, second)
    assert twin.secure


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_keyed_source_is_not_copied(duplicate: object) -> None:
    with pytest.raises(dpcore.ParameterTypeError, match="two copies would repeat calls"):
        duplicate(KeyedRandom(KEY))  # type: ignore[operator]


def test_a_positioned_source_is_copied_as_it_is() -> None:
    here = KeyedRandom(KEY).at(3, 40)
    there = pickle.loads(pickle.dumps(here))
    assert same_bits(noise.laplace(np.zeros(9), 1.0, rng=here), noise.laplace(np.zeros(9), 1.0, rng=there))


def test_concurrent_keyed_calls_take_each_nonce_once() -> None:
    rng = KeyedRandom(KEY)
    with ThreadPoolExecutor(8) as pool:
        drawn = list(pool.map(lambda _: noise.laplace(np.zeros(8), 1.0, rng=rng).tobytes(), range(400)))
    alone = KeyedRandom(KEY)
    assert set(drawn) == {noise.laplace(np.zeros(8), 1.0, rng=alone).tobytes() for _ in range(400)}


@pytest.fixture
def rounding() -> object:
    """C's fesetround, and the default restored afterwards."""
    name = ctypes.util.find_library("m")
    if name is None:
        pytest.skip("the C library's floating-point environment cannot be reached here")
    library = ctypes.CDLL(name)
    yield library.fesetround
    library.fesetround(0)


@pytest.mark.parametrize("direction", [0x400, 0x800, 0xC00], ids=["down", "up", "zero"])
@pytest.mark.parametrize("law", LAWS, ids=str)
def test_the_callers_rounding_direction_does_not_matter(law: Law, direction: int, rounding: object) -> None:
    values = law.values(5000)
    expected = law.add(values, threads=1)
    assert rounding(direction) == 0  # type: ignore[operator]
    try:
        actual = law.add(values, threads=1)
        assert rounding(0) == 0  # type: ignore[operator]
    finally:
        rounding(0)  # type: ignore[operator]
    assert same_bits(expected, actual)
