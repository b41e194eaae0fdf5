"""What a process keeps in its memory after the owner is gone, looked for from outside: keys, key schedules, records.

Another process fills memory, does its work, drops what it holds and waits. This one reads all its memory through the kernel and knows
nothing of how it is laid out. What is looked for is never written down in the child: it makes it from two halves.
"""

from __future__ import annotations

import errno
import os
import struct
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pytest

from dpcore import _backend, noise

pytestmark = pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="memory is read through /proc")

HALVES = (
    0x7A31F2C40D9B8E6655AA1F73C6E0948B2D1C7F60A9E34B58F0D3926C81E75A4F,
    0x1B6D90E83FA2C574D81E2B09F7635CA44E0B5D97A86C31F2097FE4B35D28C061,
)
KEY = (HALVES[0] ^ HALVES[1]).to_bytes(32, "little")

PRELUDE = f"""
import os, sys
import numpy as np
import dpcore
from dpcore import noise, local, selection
from dpcore.testing import KeyedRandom

def read(n):
    return ({HALVES[0]} ^ {HALVES[1]}).to_bytes(32, "little")

os.urandom = read
N = 5000

def records():
    x = np.arange(N, dtype=np.float64)
    x *= 1.0 / 3
    x += 1e7
    return x

def rest():
    # what allocators and later frames would do to the memory anyhow is not what is tested: nothing is done here
    print("ready", flush=True)
    sys.stdin.readline()
"""
RECORDS = np.arange(5000) * (1.0 / 3) + 1e7

HOLD_KEY = "held = dpcore.SecureRandom().position()"
USES = {
    "secure array": "noise.laplace(np.zeros(1000), 1.0)",
    "secure scalars": "[noise.gaussian(0.0, 1.0) for _ in range(50)]",
    "secure integers": "noise.discrete_gaussian(np.zeros(1000, int), 20.0)",
    "secure bits": "local.BinaryResponse(1.0).privatize(np.zeros(1000, bool))",
    "secure categories": "local.KaryResponse(1.0, k=5).privatize(np.zeros(1000, int))",
    "secure selection": "selection.top_s(np.arange(1000.0), 1.0, 1.0, s=3, values=True)",
    "secure threads": "noise.laplace(np.zeros(600_000), 1.0, threads=3)",
    "constant work": """
rng = dpcore.SecureRandom(constant_work=True)
noise.laplace(np.zeros(300), 1.0, rng=rng)
selection.noisy_argmax(np.arange(30.0), 1.0, 1.0, rng=rng)
""",
    "keyed": """
import ctypes
key = read(32)
noise.laplace(np.zeros(1000), 1.0, rng=KeyedRandom(key))
ctypes.memset(id(key) + bytes.__basicsize__ - 1, 0, 32)  # these bytes are the caller's
""",
}


PAGE = 4096
KEPT = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(1 << 30)}
"""The C library gives no memory back: what was freed lies there until something else is written to it."""


def area_of(memory: BinaryIO, start: int, stop: int) -> bytes:
    """One mapping, from which pages are left out that hold no memory, as those beyond the end of a file."""
    parts, size = [], stop - start
    while start < stop:
        memory.seek(start)
        try:
            part = memory.read(min(stop - start, size))
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            if size > PAGE:
                size = PAGE
                continue
            part = bytes(PAGE)
        parts.append(part)
        start += len(part)
        if not part:
            break
    return b"".join(parts)


def memory_of(program: str, *, cipher: str | None = None) -> bytes:
    """All writable memory of a process that has run the program and waits."""
    environment = {"PATH": "/usr/bin:/bin", **KEPT} | ({} if cipher is None else {"DPCORE_CIPHER": cipher})
    command = [sys.executable, "-c", PRELUDE + program + "\nrest()\n"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        areas = []
        try:
            with Path(f"/proc/{child.pid}/mem").open("rb", buffering=0) as memory:
                for line in Path(f"/proc/{child.pid}/maps").read_text().splitlines():
                    area, permissions, *rest = line.split()
                    if permissions.startswith("rw") and not rest[-1].startswith("[v"):
                        start, stop = (int(end, 16) for end in area.split("-"))
                        areas.append(area_of(memory, start, stop))
        except PermissionError:
            pytest.skip("this system forbids reading another process's memory")
        finally:
            child.communicate(b"\n")
    return b"".join(areas)


def expand(key: bytes) -> list[bytes]:
    """The round keys of AES-256, by FIPS 197 word by word."""
    inverse, box = [0] * 256, [0] * 256
    power = [1]
    for _ in range(254):
        power.append((power[-1] << 1 ^ power[-1]) ^ (0x11B if power[-1] & 0x80 else 0))
    for i, value in enumerate(power):
        inverse[value] = power[-i % 255]
    for value in range(256):
        b = inverse[value]
        spread = b ^ b << 1 ^ b << 2 ^ b << 3 ^ b << 4
        box[value] = (spread ^ spread >> 8) & 0xFF ^ 0x63
    words, constant = [key[i : i + 4] for i in range(0, 32, 4)], 1
    for i in range(8, 60):
        word = words[-1]
        if i % 8 == 0:
            word = bytes(box[b] for b in word[1:] + word[:1])
            word = bytes([word[0] ^ constant]) + word[1:]
            constant <<= 1
        elif i % 8 == 4:
            word = bytes(box[b] for b in word)
        words.append(bytes(a ^ b for a, b in zip(words[i - 8], word, strict=True)))
    return [b"".join(words[i : i + 4]) for i in range(0, 60, 4)]


def secrets() -> dict[str, bytes]:
    """What must not be found: the key, by halves too, as ciphers lay it out, and every round key but the two that are the key itself."""
    return {"key": KEY, "first half": KEY[:16], "second half": KEY[16:]} | {f"round key {i}": k for i, k in enumerate(expand(KEY)) if i > 1}


def found_in(memory: bytes) -> list[str]:
    """Names of the secrets that lie there."""
    return [name for name, secret in secrets().items() if secret in memory]


def test_the_schedule_is_the_standards() -> None:
    key = bytes.fromhex("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4")
    assert expand(key)[14].hex() == "fe4890d1e6188d0b046df344706c631e"  # FIPS 197, A.3


def test_a_key_that_is_held_is_found() -> None:
    assert "key" in found_in(memory_of(HOLD_KEY))


CIPHERS = ["chacha20", *(["aes256"] if _backend.secure_cipher() == "aes256" else [])]


def test_a_schedule_that_is_held_is_found() -> None:
    if "aes256" not in CIPHERS:
        pytest.skip("the CPU level in use has no AES")
    program = (
        "from dpcore._kernels import _noise\n"
        "held = _noise.Call(0, (_noise.Law(0, 1.0),), np.zeros(9), np.zeros(9), read(32), 0, 0, _noise.AES256)"
    )
    assert {"round key 2", "round key 14"} <= set(found_in(memory_of(program, cipher="aes256")))


@pytest.mark.long
@pytest.mark.parametrize("cipher", CIPHERS)
def test_keys_and_schedules_go_with_their_owners(cipher: str) -> None:
    assert found_in(memory_of("\n".join(USES.values()), cipher=cipher)) == []


@pytest.mark.parametrize("cipher", CIPHERS)
@pytest.mark.parametrize("use", USES)
@pytest.mark.long
def test_no_use_of_a_key_leaves_it(use: str, cipher: str) -> None:
    assert found_in(memory_of(USES[use], cipher=cipher)) == []


def test_the_bytes_of_the_system_are_overwritten(monkeypatch: pytest.MonkeyPatch) -> None:
    """At their old address, before another object takes it; bytes that were only dropped still lie there."""
    given, left, offset = bytearray(KEY), bytearray(32), bytes.__basicsize__ - 1
    places: list[int] = []

    def read(size: int) -> bytes:
        made = bytes(given)
        places.append(id(made) + offset)
        return made

    with Path("/proc/self/mem").open("rb", buffering=0) as memory:

        def is_left() -> bool:
            memory.seek(places[-1])
            memory.readinto(left)
            return given[16:] in left

        tries = 0
        while not (read(32) and is_left()):  # some versions of Python put another object there at times
            assert (tries := tries + 1) < 100
        places.clear()
        monkeypatch.setattr(os, "urandom", read)
        for use in (partial(noise.laplace, 1.0, 1.0), partial(noise.gaussian, 2.0, 1.0), _backend.os_key):
            use()
            assert not is_left()
    assert len(places) == 3


# Releases that can be replayed

REPLAYED = """
from pathlib import Path
from tempfile import TemporaryDirectory
import pyarrow as pa
import pyarrow.parquet as pq
from dpcore.batch import make_release_plan, parse_release_job, release, verify
from dpcore.tables.output.key_file import KeyFile

folder = TemporaryDirectory()
source = Path(folder.name, "in.parquet")
pq.write_table(pa.table({"x": list(range(100))}), source)
job = {
    "version": 1,
    "input": {"path": str(source)},
    "output": {"path": f"{folder.name}/out/answers.json"},
    "privacy": {"max_epsilon": 1.0},
    "query": [{"name": "n", "kind": "mean", "column": "x", "lower": 0, "upper": 100, "epsilon": 1.0}],
}
keys = Path(folder.name, "keys", "release.key")
plan = make_release_plan(parse_release_job(job), commit=keys)
release(plan)
"""
AGAIN = """
assert verify(f"{folder.name}/out/answers.json", keys).matches
"""


@pytest.mark.long
def test_the_key_of_a_release_goes_with_its_run() -> None:
    """The plan is kept, and has forgotten it; so has who read the key file again."""
    pytest.importorskip("pyarrow")
    assert "key" in found_in(memory_of(REPLAYED + "held = KeyFile(keys).read()"))
    assert found_in(memory_of(REPLAYED + AGAIN)) == []


# Records

RECORD_USES = {
    "laplace": "noise.laplace(x, 1e3)",
    "with an output": "out = np.zeros(N); local.LocalLaplace(1.0, 0.0, 2e7).privatize(x, out=out)",
    "gaussian": "local.LocalGaussian(1.0, 1e-6, 0.0, 2e7).privatize(x)",
    "bounded mean": "local.BoundedMean(1.0, 0.0, 2e7).privatize(x)",
    "strided": "noise.laplace(x[::-1], 1e3)",
    "overlapping": "y = np.zeros(N + 1); y[1:] = x; noise.laplace(y[1:], 1e3, out=y[:-1]); y[:] = 0",
    "threads": "noise.laplace(np.broadcast_to(x, (100, N)), 1e3, threads=2)",
    "constant work": "local.LocalLaplace(1.0, 0.0, 2e7).privatize(x, rng=dpcore.SecureRandom(constant_work=True))",
    "constant work, scales": "noise.laplace(x, np.resize([1.0, 2.0], N), rng=dpcore.SecureRandom(constant_work=True))",
    "constant choice": "selection.noisy_argmax(x, 1.0, 1.0, rng=dpcore.SecureRandom(constant_work=True))",
    "sums": "dpcore.sums.clipped_sum(x, radius=2e7)",
    "interrupted": """
class Broken:
    secure = True
    def position(self):
        raise ZeroDivisionError
try:
    local.LocalLaplace(1.0, 0.0, 2e7).privatize(x, rng=Broken())
except ZeroDivisionError:
    pass
""",
}


def records_in(memory: bytes) -> int:
    """How many of the records lie there."""
    return sum(struct.pack("<d", value) in memory for value in RECORDS[25::50].tolist())


@pytest.mark.long
def test_records_that_are_held_are_found() -> None:
    assert records_in(memory_of("x = records()")) == len(RECORDS[25::50])


@pytest.mark.long
def test_records_go_with_the_callers_array() -> None:
    program = "x = records()\n" + "\n".join(RECORD_USES.values()) + "\nx[:] = 0"
    assert records_in(memory_of(program)) == 0


@pytest.mark.parametrize("use", RECORD_USES)
@pytest.mark.long
def test_no_use_of_records_leaves_them(use: str) -> None:
    assert records_in(memory_of("x = records()\n" + RECORD_USES[use] + "\nx[:] = 0")) == 0


@pytest.mark.long
def test_phases_of_cosines_go_with_the_records() -> None:
    """The kernel makes integers of the records of a block, which say as much as they do."""
    program = "from dpcore import _backend\nx = records()\nx /= 2e7\n_backend.rounded_cosines(x, 3)\nx[:] = 0"
    memory = memory_of(program)
    assert [value for value in (RECORDS / 2e7)[-400::8].tolist() if struct.pack("<Q", int(value * 2.0**63)) in memory] == []


@pytest.mark.long
def test_records_that_are_clamped_into_a_failed_result_are_found() -> None:
    """The old way: a result of clamped records that a failure leaves behind is freed and not wiped."""
    program = "x = records()\ny = np.clip(x, 0.0, 2e7)\ndel y\nx[:] = 0"
    assert records_in(memory_of(program)) > 0


# Labels

LABELLED = """
labels = [f"label {i:04d}" for i in range(1000)]
mechanism = local.KaryResponse.from_categories(1.0, labels)
codes = np.arange(N)
codes *= 7919
codes %= 1000
table = np.array(labels)
"""
CODES = np.arange(5000) * 7919 % 1000
LABEL_USES = {
    "strings": "texts = table[codes]; mechanism.privatize(texts); texts[:] = ''",
    "strings that are shorter than the labels": """
labels.append("a label that none of the records has")
mechanism = local.KaryResponse.from_categories(1.0, labels)
texts = table[codes]; mechanism.privatize(texts); texts[:] = ''
""",
    "objects": "texts = np.array(labels, object)[codes]; mechanism.privatize(texts); texts[:] = None",
    "a categorical": """
class Categorical:
    dtype = type("Dtype", (), {"categories": labels})
Categorical.codes = codes
mechanism.privatize(Categorical())
""",
}


def codes_in(memory: bytes) -> int:
    """How many runs of four codes lie there."""
    return sum(CODES[i : i + 4].astype("<i8").tobytes() in memory for i in range(500, 5000, 1000))


def test_codes_that_are_held_are_found() -> None:
    assert codes_in(memory_of(LABELLED)) == 5


@pytest.mark.some(1)
@pytest.mark.parametrize("use", LABEL_USES)
def test_codes_of_labels_go_with_the_callers_array(use: str) -> None:
    memory = memory_of(LABELLED + LABEL_USES[use] + "\ncodes[:] = 0")
    assert codes_in(memory) == 0
    assert "".join(f"label {code:04d}" for code in CODES[200:203]).encode("utf-32-le") not in memory
