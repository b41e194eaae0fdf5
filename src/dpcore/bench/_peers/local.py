"""The peers of the local randomisers, each with the same law as ours and in the fastest form its users write.

None of NumPy's forms has exact probabilities, and none uses a CSPRNG. `numpy.random` is PCG64 unless SFC64, its fastest generator, is
named. A block is small enough to stay in the cache: few users write that loop.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dpcore import local
from dpcore._dataclasses import dataclass
from dpcore.bench._peers.sources import PCG64, SFC64
from dpcore.bench.benchmark import Work

Array = npt.NDArray[Any]
Prepare = Callable[[Any, Array], Callable[[], Any]]
"""Takes our mechanism, for its k alone, and the records; returns the work that is timed. The work returns reports."""

EPSILON = 1.0
BOUNDS = 0.0, 8.0
"""Bounds of the mean; a fifth of the values is above them."""
E = math.exp(EPSILON)
FLIP = 1 / (1 + E)
BLOCK = 2**17
PRIME = 2**31 - 1


def as_they_are(mechanism: Any, reports: Any) -> Any:
    """Reports of our form already."""
    return reports


@dataclass(frozen=True)
class LocalPeer:
    """A peer of one case.

    `reports` turns what the peer returns into reports or an aggregate of dpcore, so that dpcore's estimator judges them. `records` is how
    many records a slow peer gets; its time is scaled.
    """

    ours: str
    name: str
    prepare: Prepare
    package: str = "numpy"
    safe: bool = False
    records: int | None = None
    reports: Callable[[Any, Any], Any] = as_they_are


# Binary response


def flip(mechanism: Any, x: Array) -> Work:
    return lambda: x ^ (PCG64.random(x.size) < FLIP)


def words16(generator: np.random.Generator, n: int) -> Array:
    """Uniform 16-bit words, cut from the generator's own 64-bit words: nothing in NumPy makes them faster."""
    return generator.bit_generator.random_raw(-(-n // 4)).view(np.uint16)[:n]


def quantised(p: float) -> np.uint16:
    """p as a multiple of 2^-16."""
    return np.uint16(round(p * 65536))


def flip_16_bits(mechanism: Any, x: Array) -> Work:
    threshold = quantised(FLIP)
    return lambda: x ^ (words16(SFC64, x.size) < threshold)


def flip_in_blocks(x: Array, words: Callable[[int], Array]) -> Callable[[], Array]:
    """Compares 16-bit words block by block, everything in place."""
    threshold, flips, out = quantised(FLIP), np.empty(BLOCK, np.bool_), np.ones_like(x)

    def work() -> Array:
        for start in range(0, x.size, BLOCK):
            part = x[start : start + BLOCK]
            np.less(words(part.size), threshold, out=flips[: part.size])
            np.bitwise_xor(part, flips[: part.size], out=out[start : start + BLOCK])
        return out

    return work


def flip_16_bits_in_blocks(mechanism: Any, x: Array) -> Work:
    return flip_in_blocks(x, lambda n: words16(SFC64, n))


def flip_by_aes(key_bits: int) -> Prepare:
    """16-bit words of AES-CTR: the best CSPRNG route of today."""

    def prepare(mechanism: Any, x: Array) -> Work:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        encryptor = Cipher(algorithms.AES(os.urandom(key_bits // 8)), modes.CTR(os.urandom(16))).encryptor()
        zeros, words = memoryview(bytes(2 * BLOCK)), np.empty(2 * BLOCK + 16, np.uint8)

        def draw(n: int) -> Array:
            encryptor.update_into(zeros[: 2 * n], words)
            return words[: 2 * n].view(np.uint16)

        return flip_in_blocks(x, draw)

    return prepare


def one_by_one(make: Callable[[Any], Callable[[Any], Any]], item: Callable[[Any], Any] = int) -> Prepare:
    """A package's client, which takes one record a call."""

    def prepare(mechanism: Any, x: Array) -> Callable[[], list[Any]]:
        client, records = make(mechanism), [item(v) for v in x]
        return lambda: [client(record) for record in records]

    return prepare


def as_array(dtype: Any) -> Callable[[Any, Any], Array]:
    return lambda mechanism, reports: np.array([int(r) for r in reports]).astype(dtype)


def opendp_bool(mechanism: Any) -> Any:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    return dp.m.make_randomized_response_bool(1 - FLIP)


def diffprivlib_binary(mechanism: Any) -> Any:
    from diffprivlib.mechanisms import Binary

    return Binary(epsilon=EPSILON, value0="0", value1="1").randomise


# Bounded mean


def slope_and_start() -> tuple[float, float]:
    """P(True) = start + slope·(the value cut to its bounds)."""
    low, high = BOUNDS
    slope = (E - 1) / (E + 1) / (high - low)
    return slope, 0.5 - slope * (low + high) / 2


def mean_bit(mechanism: Any, x: Array) -> Work:
    slope, start = slope_and_start()
    return lambda: PCG64.random(x.size) < start + slope * np.clip(x, *BOUNDS)


def mean_bit_in_blocks(mechanism: Any, x: Array) -> Work:
    slope, start = slope_and_start()
    size = BLOCK // 4
    chances, uniforms, out = np.empty(size), np.empty(size), np.ones(x.size, np.bool_)

    def work() -> Array:
        for first in range(0, x.size, size):
            part = x[first : first + size]
            chance, uniform = chances[: part.size], uniforms[: part.size]
            np.clip(part, *BOUNDS, out=chance)
            chance *= slope
            chance += start
            SFC64.random(out=uniform)
            np.less(uniform, chance, out=out[first : first + size])
        return out

    return work


# Categories


def kary(mechanism: Any, x: Array) -> Work:
    """The record with probability (e^ε − 1)/(e^ε + k − 1), else uniform over all: the same law in fewer passes."""
    keep = (E - 1) / (E + mechanism.k - 1)

    def work() -> Array:
        out = PCG64.integers(0, mechanism.k, x.size, x.dtype)
        np.copyto(out, x, where=PCG64.random(x.size) < keep)
        return out

    return work


def kary_over_others(mechanism: Any, x: Array) -> Work:
    """The law as it is written: the record, or uniform over the others."""
    keep = E / (E + mechanism.k - 1)

    def work() -> Array:
        other = PCG64.integers(0, mechanism.k - 1, x.size, x.dtype)
        other += other >= x
        return np.where(PCG64.random(x.size) < keep, x, other)

    return work


def unary(draw: Callable[[tuple[int, int]], Array]) -> Prepare:
    """One-hot rows against `draw(shape)`, true with the probability of a wrong bit; a thousand rows at a time."""

    def prepare(mechanism: Any, x: Array) -> Work:
        out = np.empty((x.size, -(-mechanism.k // 8)), np.uint8)

        def work() -> Array:
            for start in range(0, x.size, 1000):
                part = x[start : start + 1000]
                bits = draw((part.size, mechanism.k))
                bits[np.arange(part.size), part] = PCG64.random(part.size) < 0.5
                out[start : start + 1000] = np.packbits(bits, axis=1, bitorder="little")
            return out

        return work

    return prepare


def uniforms_below(shape: tuple[int, int]) -> Array:
    return PCG64.random(shape) < FLIP


def words_below(shape: tuple[int, int]) -> Array:
    return (words16(SFC64, math.prod(shape)) < quantised(FLIP)).reshape(shape)


def packed(rows: Array) -> Array:
    return np.packbits(rows.astype(np.bool_), axis=1, bitorder="little")


def subset(mechanism: Any, x: Array) -> Work:
    """The w smallest of k uniforms, where the record's is below or above all others; 500 rows at a time."""
    k, w = mechanism.k, mechanism.w
    inclusion = w * E / (w * E + k - w)
    out = np.empty((x.size, -(-k // 8)), np.uint8)

    def work() -> Array:
        for start in range(0, x.size, 500):
            part = x[start : start + 500]
            rows = np.arange(part.size)
            scores = PCG64.random((part.size, k))
            scores[rows, part] = np.where(PCG64.random(part.size) < inclusion, -1.0, 2.0)
            bits = np.zeros((part.size, k), np.bool_)
            np.put_along_axis(bits, np.argpartition(scores, w, axis=1)[:, :w], values=True, axis=1)
            out[start : start + 500] = np.packbits(bits, axis=1, bitorder="little")
        return out

    return work


def report_type(mechanism: Any) -> Any:
    return mechanism.privatize(np.zeros(1, np.int64)).dtype


def hadamard(mechanism: Any, x: Array) -> Work:
    rows = 1 << (mechanism.k - 1).bit_length()

    def work() -> Array:
        out = np.empty(x.size, report_type(mechanism))
        row = PCG64.integers(0, rows, x.size, np.uint32)
        out["row"] = row
        out["bit"] = (np.bitwise_count(row & x.astype(np.uint32)) & 1 == 0) ^ (PCG64.random(x.size) < FLIP)
        return out

    return work


def hashing(mechanism: Any, x: Array) -> Work:
    """Our hash family, so that our estimator can read the reports."""
    g = mechanism.g
    keep = (E - 1) / (E + g - 1)

    def work() -> Array:
        out = np.empty(x.size, report_type(mechanism))
        a, b = PCG64.integers(1, PRIME, x.size), PCG64.integers(0, PRIME, x.size)
        code = PCG64.integers(0, g, x.size)
        np.copyto(code, (a * x + b) % PRIME % g, where=PCG64.random(x.size) < keep)
        out["seed"] = b << 31 | a
        out["code"] = code
        return out

    return work


# multi-freq-ldpy and pure-ldp take one record a call and return one report


def grr_client(mechanism: Any) -> Callable[[int], Any]:
    from multi_freq_ldpy.pure_frequency_oracles.GRR import GRR_Client

    return lambda v: GRR_Client(v, mechanism.k, EPSILON)


def ue_client(mechanism: Any) -> Callable[[int], Any]:
    from multi_freq_ldpy.pure_frequency_oracles.UE import UE_Client

    return lambda v: UE_Client(v, mechanism.k, EPSILON)


def ss_client(mechanism: Any) -> Callable[[int], Any]:
    from multi_freq_ldpy.pure_frequency_oracles.SS import SS_Client

    return lambda v: SS_Client(v, mechanism.k, EPSILON)


def lh_client(mechanism: Any) -> Callable[[int], Any]:
    from multi_freq_ldpy.pure_frequency_oracles.LH import LH_Client

    return lambda v: LH_Client(v, mechanism.k, EPSILON)


def pure(client: str, **parameters: Any) -> Callable[[Any], Callable[[int], Any]]:
    """A client of pure-ldp that takes codes from 0."""

    def make(mechanism: Any) -> Any:
        from pure_ldp import frequency_oracles

        return getattr(frequency_oracles, client)(EPSILON, mechanism.k, index_mapper=int, **parameters).privatise

    return make


def opendp_kary(mechanism: Any) -> Any:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    return dp.m.make_randomized_response(list(range(mechanism.k)), E / (E + mechanism.k - 1))


def as_bits(mechanism: Any, reports: Sequence[Array]) -> Array:
    return packed(np.array(reports))


def as_members(mechanism: Any, reports: Sequence[Array]) -> Array:
    members = np.zeros((len(reports), mechanism.k), np.bool_)
    np.put_along_axis(members, np.array(reports), values=True, axis=1)
    return packed(members)


def as_rows(mechanism: Any, reports: Sequence[Any]) -> Array:
    """Each is an iterable of one (row, ±1)."""
    return np.array([(row, sign > 0) for ((row, sign),) in map(list, reports)], report_type(mechanism))


def as_supports(mechanism: Any, reports: Sequence[Any]) -> local.Aggregate:
    """Each is (code, seed of the packages' hash). They take as many hash values as we do, at the ε of these benchmarks."""
    import xxhash

    if mechanism.g != round(E) + 1:
        raise AssertionError("the packages hash to another number of values")
    names = [str(v) for v in range(mechanism.k)]
    hashes = np.array([[xxhash.xxh32(name, seed=seed).intdigest() for name in names] for _, seed in reports])
    codes = np.array([code for code, _ in reports])
    return local.Aggregate(mechanism, len(reports), (hashes % mechanism.g == codes[:, None]).sum(axis=0))


BINARY, MEAN, UNARY, HASHING, HADAMARD = (
    "BinaryResponse",
    "BoundedMean",
    "UnaryEncoding k=128",
    "LocalHashing k=1024",
    "HadamardResponse k=1024",
)
LDPY, PURE, OPENDP, CRYPTOGRAPHY = "multi_freq_ldpy", "pure_ldp", "opendp", "cryptography"
PEERS = (
    LocalPeer(BINARY, "NumPy x ^ (random(n) < p)", flip),
    LocalPeer(BINARY, "NumPy, 16-bit words (SFC64)", flip_16_bits),
    LocalPeer(BINARY, "NumPy, 16-bit words (SFC64), in blocks", flip_16_bits_in_blocks),
    LocalPeer(BINARY, "cryptography AES-256-CTR, 16-bit words, in blocks", flip_by_aes(256), CRYPTOGRAPHY),
    LocalPeer(BINARY, "cryptography AES-128-CTR, 16-bit words, in blocks", flip_by_aes(128), CRYPTOGRAPHY),
    LocalPeer(BINARY, "OpenDP", one_by_one(opendp_bool, bool), OPENDP, safe=True, records=500, reports=as_array(np.bool_)),
    LocalPeer(
        BINARY,
        "diffprivlib Binary",
        one_by_one(diffprivlib_binary, lambda v: "01"[int(v)]),
        "diffprivlib",
        records=5000,
        reports=as_array(np.bool_),
    ),
    LocalPeer(MEAN, "NumPy random(n) < a + b·clip(x)", mean_bit),
    LocalPeer(MEAN, "NumPy in blocks (SFC64)", mean_bit_in_blocks),
    *(
        LocalPeer(f"KaryResponse k={k}, {dtype}", name, prepare)
        for k in (16, 1024)
        for dtype in ("int64", "uint16")
        for name, prepare in (
            ("NumPy, uniform over all k", kary),
            ("NumPy, uniform over the others", kary_over_others),
        )
    ),
    *(
        LocalPeer(
            f"KaryResponse k={k}, int64", name, one_by_one(client), package, name == "OpenDP", records=records, reports=as_array(np.int64)
        )
        for k in (16, 1024)
        for name, client, package, records in (
            ("multi-freq-ldpy", grr_client, LDPY, 20_000),
            ("pure-ldp", pure("DEClient"), PURE, 20_000),
            ("OpenDP", opendp_kary, OPENDP, 500),
        )
    ),
    LocalPeer(UNARY, "NumPy random((n, k)) < q, packed", unary(uniforms_below)),
    LocalPeer(UNARY, "NumPy, 16-bit words (SFC64)", unary(words_below)),
    LocalPeer(UNARY, "multi-freq-ldpy", one_by_one(ue_client), LDPY, records=2000, reports=as_bits),
    LocalPeer(UNARY, "pure-ldp", one_by_one(pure("UEClient", use_oue=True)), PURE, records=1000, reports=as_bits),
    *(
        peer
        for k in (128, 1024)
        for peer in (
            LocalPeer(f"SubsetSelection k={k}", "NumPy argpartition", subset, records=10_000),
            LocalPeer(f"SubsetSelection k={k}", "multi-freq-ldpy", one_by_one(ss_client), LDPY, records=1000, reports=as_members),
        )
    ),
    LocalPeer(HASHING, "NumPy, our hash family", hashing),
    LocalPeer(HASHING, "multi-freq-ldpy", one_by_one(lh_client), LDPY, records=1000, reports=as_supports),
    LocalPeer(HASHING, "pure-ldp", one_by_one(pure("LHClient", use_olh=True)), PURE, records=1000, reports=as_supports),
    LocalPeer(HADAMARD, "NumPy", hadamard),
    LocalPeer(HADAMARD, "pure-ldp", one_by_one(pure("HadamardMechClient", t=1)), PURE, records=2000, reports=as_rows),
)
