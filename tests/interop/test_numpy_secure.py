"""The secure bit generator: what it refuses, its words, and that forks, threads and memory never give one of them twice."""

from __future__ import annotations

import contextlib
import copy
import ctypes
import multiprocessing
import os
import pickle
import platform
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpcore._backend.levels import AES256, CHACHA20
from dpcore._kernels import _bitgen, _dispatch
from dpcore.errors import EntropyError, ParameterError, ParameterTypeError
from dpcore.interop.numpy import KeyedBitGenerator, SecureBitGenerator, SecureRandomState
from support.kernels import AES_LEVELS, KEY, LEVELS, at_level
from support.laws import binomial_p_value, p_value

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")
RATE = 1e-6
DOMAIN, BUFFER, NEXT_KEY = 12, 512, 4


def words(bits: np.random.BitGenerator, n: int) -> list[int]:
    """Words as Python integers."""
    return [int(word) for word in bits.random_raw(n)]


# What is refused


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda bits: SecureBitGenerator(7), r"takes no seed.*KeyedBitGenerator\(seed\)"),
        (lambda bits: bits.state, "shows no state"),
        (lambda bits: setattr(bits, "state", {}), "takes no state"),
        (lambda bits: bits.seed_seq, "has no seed sequence"),
        (pickle.dumps, r"is not pickled.*rng\.spawn\(n\)"),
        (lambda bits: pickle.dumps(bits, protocol=2), "is not pickled"),
        (lambda bits: bits.__getstate__(), "is not pickled"),
        (lambda bits: pickle.dumps(np.random.Generator(bits)), "is not pickled"),
        (lambda bits: copy.copy(np.random.RandomState(bits)), r"shows no state.*SecureRandomState\(\)"),
        (lambda bits: copy.deepcopy(np.random.RandomState(bits)), "shows no state"),
        (lambda bits: pickle.dumps(SecureRandomState()), "is not pickled"),
        (lambda bits: SecureRandomState().get_state(), "shows no state"),
        (lambda bits: SecureRandomState().seed(5), "takes no seed"),
        (lambda bits: bits.__setstate__(({}, None)), "takes no state"),
        (lambda bits: bits.spawn(1.5), "n_children must be an integer"),
    ],
)
def test_what_would_repeat_words_is_refused(use: Callable[[Any], object], message: str) -> None:
    bits = SecureBitGenerator()
    with pytest.raises(ParameterTypeError, match=message):
        use(bits)
    assert len(set(words(bits, 100))) == 100


def test_a_negative_number_of_children_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"n_children must be in \[0, ∞\]"):
        SecureBitGenerator().spawn(-1)


@pytest.mark.parametrize("kind", [np.random.default_rng, np.random.Generator, np.random.RandomState])
def test_it_serves_what_numpy_has(kind: Callable[[Any], Any]) -> None:
    generator = kind(SecureBitGenerator())
    assert sorted(generator.permutation(50)) == list(range(50))
    assert generator.normal(size=(3, 4)).shape == (3, 4)


def test_children_are_independent() -> None:
    parent = np.random.default_rng(SecureBitGenerator())
    found = [words(one.bit_generator, 600) for one in (parent, *parent.spawn(3), *parent.spawn(2))]
    assert len({word for some in found for word in some}) == 6 * 600
    assert {type(child.bit_generator) for child in parent.spawn(2)} == {SecureBitGenerator}
    assert parent.spawn(0) == []


# Words


def erased(cipher: int, n_buffers: int) -> list[int]:
    """The words of a source that starts with KEY, from the keystream that the tests of the ciphers know."""
    key, found = KEY, []
    for _ in range(n_buffers):
        buffer = np.frombuffer(_dispatch.bulk_words(key, 0, cipher, DOMAIN, 0, BUFFER // 128), np.uint64)
        key, found = buffer[:NEXT_KEY].tobytes(), found + buffer[NEXT_KEY:].tolist()
    return found


@pytest.mark.parametrize(("level", "cipher"), [(level, CHACHA20) for level in LEVELS] + [(level, AES256) for level in AES_LEVELS])
def test_each_key_makes_one_buffer_and_the_next_key(level: str, cipher: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpcore._backend.bitgen.cipher_code", lambda *, secure: cipher)
    monkeypatch.setattr(os, "urandom", lambda n: KEY)
    with at_level(level):
        expected, bits = erased(cipher, 3), SecureBitGenerator()
        assert words(bits, len(expected)) == expected
        halves = [half for word in expected for half in (word & 0xFFFFFFFF, word >> 32)]
        drawn = np.random.default_rng(SecureBitGenerator()).integers(0, 2**32, len(halves), dtype=np.uint32)
        assert drawn.tolist() == halves


def test_halves_wait_for_the_next_half(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over the end of a buffer, too, and with doubles between."""
    monkeypatch.setattr(os, "urandom", lambda n: KEY)
    monkeypatch.setattr("dpcore._backend.bitgen.cipher_code", lambda *, secure: CHACHA20)
    expected, bits = erased(CHACHA20, 2), SecureBitGenerator()
    interface: Any = bits.ctypes
    for word in expected[: BUFFER - NEXT_KEY - 1]:
        assert interface.next_uint64(interface.state) == word
    last, first, second = expected[BUFFER - NEXT_KEY - 1 :][:3]
    assert interface.next_uint32(interface.state) == last & 0xFFFFFFFF
    assert interface.next_double(interface.state) == (first >> 11) * 2.0**-53
    assert interface.next_uint32(interface.state) == last >> 32
    assert interface.next_uint32(interface.state) == second & 0xFFFFFFFF


def sixes(rng: Any) -> Any:
    return np.bincount(rng.integers(0, 6, 60_000), minlength=6), np.full(6, 1 / 6)


def hundredths(rng: Any) -> Any:
    return np.bincount((rng.random(60_000) * 100).astype(int), minlength=100), np.full(100, 0.01)


def orders(rng: Any) -> Any:
    return np.bincount(np.argsort(rng.permuted(np.tile(np.arange(3), (20_000, 1)), axis=1)) @ [9, 3, 1])[[5, 7, 11, 15, 19, 21]], np.full(
        6, 1 / 6
    )


SET = 1 << 63 | 1 << 32 | 1 << 31 | 1
LAWS: dict[str, Callable[[Any], Any]] = {"integers": sixes, "random": hundredths, "permuted": orders}


@pytest.mark.parametrize("kind", [SecureBitGenerator, lambda: KeyedBitGenerator(key=KEY)], ids=["secure", "keyed"])
@pytest.mark.parametrize("law", LAWS)
def test_what_numpy_draws_has_its_law(law: str, kind: Callable[[], Any]) -> None:
    assert p_value(*LAWS[law](np.random.default_rng(kind()))) > RATE


@pytest.mark.parametrize("law", LAWS)
def test_a_generator_with_a_bit_that_is_too_often_set_is_found(law: str) -> None:
    """The highest and the lowest bit of the halves of every fifth word are always 1: the broken twin."""

    class Broken:
        def __init__(self) -> None:
            self.lock, self.bits = threading.Lock(), np.random.PCG64(5)
            interface: Any = self.bits.ctypes
            self.turn = 0

            def next64(state: Any) -> int:
                self.turn += 1
                word = interface.next_uint64(interface.state)
                return int(word | (SET if self.turn % 5 == 0 else 0))

            types = [ctypes.CFUNCTYPE(t, ctypes.c_void_p) for t in (ctypes.c_uint64, ctypes.c_uint32, ctypes.c_double, ctypes.c_uint64)]
            functions = [next64, lambda s: next64(s) >> 32, lambda s: (next64(s) >> 11) * 2.0**-53, next64]
            self.kept = [t(f) for t, f in zip(types, functions, strict=True)]
            self.table = (ctypes.c_void_p * 5)(None, *[ctypes.cast(f, ctypes.c_void_p) for f in self.kept])
            new = ctypes.pythonapi.PyCapsule_New
            new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
            self.capsule = new(ctypes.addressof(self.table), b"BitGenerator", None)

    assert p_value(*LAWS[law](np.random.Generator(Broken()))) < RATE  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [SecureBitGenerator, lambda: KeyedBitGenerator(key=KEY)], ids=["secure", "keyed"])
def test_every_bit_of_a_word_is_fair(kind: Callable[[], Any]) -> None:
    drawn = kind().random_raw(40_000)
    for bit in range(64):
        assert binomial_p_value(int((drawn >> np.uint64(bit) & np.uint64(1)).sum()), len(drawn), 0.5) > RATE / 64


# Forks


def child_of(task: Callable[[], list[int]], fork: Callable[[], int] | None = None) -> list[int]:
    """What a task returns in a forked child."""
    reader, writer = os.pipe()
    child = (fork or os.fork)()
    if child == 0:
        try:
            os.close(reader)
            with os.fdopen(writer, "wb") as pipe:
                pickle.dump(task(), pipe)
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        found: list[int] = pickle.loads(pipe.read())
    os.waitpid(child, 0)
    return found


def system_call() -> int:
    """The bare system call, of which neither Python nor the C library hears."""
    number = {"x86_64": 57}.get(platform.machine())
    if sys.platform != "linux" or number is None:
        pytest.skip("knows this call on Linux for x86_64 only")
    return int(ctypes.PyDLL(None).syscall(number))  # which keeps the GIL: no other thread of the parent has it


WAYS: dict[str, Callable[[Any], list[int]]] = {
    "uint64": lambda bits: words(bits, 700),
    "raw": lambda bits: [bits.ctypes.next_uint64(bits.ctypes.state) for _ in range(700)],
    "double": lambda bits: [int(x * 2**53) for x in np.random.Generator(bits).random(700)],
    "uint32": lambda bits: [int(x) for x in np.random.Generator(bits).integers(0, 2**64, 701, dtype=np.uint64)],
    "bytes": lambda bits: np.frombuffer(np.random.Generator(bits).bytes(8 * 701), np.uint64).tolist(),
}


@pytest.mark.some(2)
@needs_fork
@pytest.mark.parametrize("fork", [None, system_call], ids=["fork", "system call"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("used", [0, 1, 300, 507, 508, 512])
def test_parent_and_children_share_no_word(way: str, used: int, fork: Callable[[], int] | None) -> None:
    bits, draw = SecureBitGenerator(), WAYS[way]
    np.random.Generator(bits).bytes(4)  # half a word
    words(bits, used)
    children = [child_of(lambda: draw(bits), fork) for _ in range(2)]
    found = [*children, draw(bits), draw(bits)]
    assert len({word for some in found for word in some}) == sum(map(len, found))


@needs_fork
def test_the_half_of_a_word_stays_with_the_parent() -> None:
    bits = SecureBitGenerator()
    interface: Any = bits.ctypes
    interface.next_uint32(interface.state)
    found = [child_of(lambda: [interface.next_uint32(interface.state)])[0] for _ in range(4)]
    assert interface.next_uint32(interface.state) not in found
    assert len(set(found)) == 4


@needs_fork
def test_grandchildren_share_no_word() -> None:
    bits = SecureBitGenerator()
    words(bits, 100)

    def task() -> list[int]:
        return words(bits, 50) + child_of(lambda: words(bits, 50) + child_of(lambda: words(bits, 600))) + words(bits, 50)

    found = child_of(task) + words(bits, 600)
    assert len(set(found)) == len(found)


@needs_fork
def test_a_keyed_generator_goes_on_in_a_child_as_its_copy() -> None:
    bits = KeyedBitGenerator(3)
    words(bits, 100)
    assert child_of(lambda: words(bits, 600)) == words(bits, 600)


def unlocked(bits: Any) -> np.random.Generator:
    """A generator on the same functions that takes no lock."""

    class Bits:
        capsule, lock = bits.capsule, contextlib.nullcontext()

    generator = np.random.Generator(Bits())  # type: ignore[arg-type]
    UNLOCKED.append(bits)
    return generator


UNLOCKED: list[Any] = []
"""What unlocked generators draw from, which they do not keep alive themselves."""


def numbers(generator: np.random.Generator, n: int) -> Any:
    return generator.integers(0, 2**64, n, dtype=np.uint64)


@pytest.mark.long
@needs_fork
def test_a_fork_while_other_threads_draw_shares_no_word_and_waits_for_nobody() -> None:
    bits = SecureBitGenerator()
    words(bits, 10)
    stop, drawn = threading.Event(), []

    def draw() -> None:
        while not stop.is_set():
            found = numbers(unlocked(bits), 2000)
            if len(drawn) < 500:  # of a machine that is busy with the children there would be many more
                drawn.append(found)

    threads = [threading.Thread(target=draw) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        # a thread of the child finds the source that threads of the parent share, perhaps held by one of them
        def task() -> list[int]:
            with ThreadPoolExecutor(2) as executor:
                parts = executor.map(lambda _: numbers(unlocked(bits), 600).tolist(), range(2))
                return [word for part in parts for word in part] + numbers(unlocked(bits), 600).tolist()

        children = [word for _ in range(4) for word in child_of(task)]
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    every = np.concatenate([np.array(children, np.uint64), *drawn])
    assert len(np.unique(every)) == len(every)


# Threads


def in_threads(generators: list[np.random.Generator], n: int) -> list[Any]:
    """What threads draw that start together, several calls each."""
    barrier = threading.Barrier(len(generators))

    def draw(generator: np.random.Generator) -> Any:
        barrier.wait()
        return np.concatenate([numbers(generator, n) for _ in range(5)])

    with ThreadPoolExecutor(len(generators)) as executor:
        return list(executor.map(draw, generators))


@pytest.mark.long
@pytest.mark.parametrize("locked", [True, False])
def test_threads_share_no_word_with_the_lock_and_without(locked: bool) -> None:
    bits = SecureBitGenerator()
    drawn = np.concatenate(in_threads([np.random.Generator(bits) if locked else unlocked(bits) for _ in range(6)], 20_000))
    assert len(np.unique(drawn)) == len(drawn) == 600_000
    assert drawn.all()


def test_the_keyed_one_without_its_lock_stays_inside_its_buffer() -> None:
    """Threads may get words twice then, as from every generator of NumPy that is seeded; but no others than those of the stream."""
    bits = KeyedBitGenerator(key=KEY)
    drawn = np.concatenate(in_threads([unlocked(bits) for _ in range(4)], 1000))
    assert np.isin(drawn, KeyedBitGenerator(key=KEY).random_raw(200_000)).all()


def test_threads_with_the_lock_draw_the_keyed_stream() -> None:
    bits = KeyedBitGenerator(key=KEY)
    drawn = np.concatenate(in_threads([np.random.Generator(bits) for _ in range(4)], 5000))
    assert np.array_equal(np.sort(drawn), np.sort(KeyedBitGenerator(key=KEY).random_raw(100_000)))


# Memory


def memory_of(bits: Any) -> bytes:
    """The memory of a generator, from where its functions find it on."""
    state = ctypes.cast(bits.ctypes.state, ctypes.c_void_p).value
    assert state is not None
    return ctypes.string_at(state, _bitgen.SecureBits.__basicsize__ - 32)


@pytest.mark.parametrize("used", [1, 300, 508, 509, 1200])
def test_used_words_and_keys_are_wiped(used: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "urandom", lambda n: KEY)
    bits = SecureBitGenerator()
    assert memory_of(bits).count(KEY) >= 2
    drawn = [word.to_bytes(8, "little") for word in words(bits, used)]
    memory = memory_of(bits)
    assert not any(word in memory for word in drawn)
    following = words(bits, -used % (BUFFER - NEXT_KEY))
    assert all(word.to_bytes(8, "little") in memory for word in following)  # so this is the memory that they come from
    assert KEY in memory  # of the source of the other threads, until one of them draws
    with ThreadPoolExecutor(1) as executor:
        executor.submit(words, bits, 1).result()
    assert KEY not in memory_of(bits)


def test_used_halves_are_wiped() -> None:
    bits = SecureBitGenerator()
    interface: Any = bits.ctypes
    interface.next_uint64(interface.state)
    before = memory_of(bits)
    drawn = [interface.next_uint32(interface.state).to_bytes(4, "little") for _ in range(21)]
    assert b"".join(drawn) in before
    assert not any(half in memory_of(bits) for half in drawn)


# Entropy


def test_without_entropy_there_is_no_generator(monkeypatch: pytest.MonkeyPatch) -> None:
    bits = SecureBitGenerator()

    def fail(n: int) -> bytes:
        raise OSError("no device")

    monkeypatch.setattr(os, "urandom", fail)
    for make in (SecureBitGenerator, lambda: bits.spawn(1)):
        with pytest.raises(EntropyError, match="random source failed"):
            make()
    monkeypatch.setattr(os, "urandom", lambda n: bytes(5))
    with pytest.raises(EntropyError, match="gave 5 bytes"):
        SecureBitGenerator()
    assert len(set(words(bits, 2000))) == 2000  # it has its own


NO_ENTROPY = """
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>
static pid_t first;
__attribute__((constructor)) static void start(void) { first = getpid(); }
ssize_t getrandom(void *to, size_t n, unsigned flags) {
    const char *how = getenv("HOW");
    if (getpid() != first && how[0] != 'y') { errno = how[0] == 'n' ? EIO : ENOSYS; return -1; }
    return syscall(SYS_getrandom, to, n, flags);
}
"""
FORKING = """
import os, sys
from dpcore.interop.numpy import SecureBitGenerator
bits = SecureBitGenerator()
bits.random_raw(100)
child = os.fork()
if child == 0:
    print(bits.random_raw(), flush=True)
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.long
@needs_fork
@pytest.mark.source_tree
@pytest.mark.parametrize(("how", "status"), [("yes", 0), ("device", 0), ("no", -6)])
def test_a_child_without_entropy_ends_and_says_so(how: str, status: int, tmp_path: Path) -> None:
    """NumPy cannot be told, and a word that is no random one must not come; where only the system call fails, the device serves."""
    compiler = shutil.which("cc")
    if compiler is None or sys.platform != "linux":
        pytest.skip("needs a C compiler on Linux")
    (tmp_path / "no.c").write_text(NO_ENTROPY)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(tmp_path / "no.so"), str(tmp_path / "no.c")], check=True)
    preloaded = " ".join([os.environ.get("LD_PRELOAD", ""), str(tmp_path / "no.so")])  # the runtime of a sanitizer stays the first
    environment = os.environ | {"LD_PRELOAD": preloaded, "HOW": how}
    done = subprocess.run([sys.executable, "-c", FORKING], env=environment, capture_output=True, text=True, check=True)
    *drawn, last = done.stdout.split()
    assert int(last) == status
    assert (len(drawn), "gave a forked process no randomness" in done.stderr) == ((1, False) if status == 0 else (0, True))


# Processes


def draw_one(_: int) -> int:
    return int(GENERATOR.random_raw())


GENERATOR: Any = SecureBitGenerator()
START_METHODS = [method for method in ("fork", "spawn") if method in multiprocessing.get_all_start_methods()]


@pytest.mark.parametrize("method", [pytest.param(m, marks=pytest.mark.long if m == "spawn" else ()) for m in START_METHODS])
def test_workers_that_use_a_generator_of_a_module_share_no_word(method: str) -> None:
    GENERATOR.random_raw(77)
    with multiprocessing.get_context(method).Pool(3) as pool:
        found = pool.map(draw_one, range(60), chunksize=1)
        with pytest.raises(ParameterTypeError, match="Make one in each process"):
            pool.map(words, [GENERATOR])
    assert len({*found, *words(GENERATOR, 600)}) == 660


@pytest.fixture(autouse=True)
def nothing_kept() -> Iterator[None]:
    """Forget what unlocked generators drew from."""
    yield
    UNLOCKED.clear()
