"""Counts of reports are exact at every level, on any number of threads and for arrays of every make."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import hadamard

from dpcore import DataError, _backend
from support.kernels import LEVELS, at_level

PRIME = 2**31 - 1
at_each_level = pytest.mark.parametrize("level", LEVELS)


def random() -> np.random.Generator:
    return np.random.default_rng(5)


@pytest.mark.some(101)
@at_each_level
@pytest.mark.parametrize("width", [1, 2, 3, 5, 8, 16, 31, 32, 33, 63, 64, 65, 100, 128, 200, 600])
@pytest.mark.parametrize("rows", [0, 1, 15, 16, 17, 4081, 9000])
def test_columns(level, width, rows):
    packed = random().integers(0, 256, (rows, width), dtype=np.uint8)
    expected = np.unpackbits(packed, axis=1, bitorder="little").sum(axis=0, dtype=np.int64)
    with at_level(level):
        assert np.array_equal(_backend.column_counts(packed, 8 * width, threads=1), expected)
        assert np.array_equal(_backend.column_counts(packed, 8 * width - 3, threads=3), expected[:-3])


@at_each_level
def test_full_columns_do_not_wrap(level):
    ones = np.full((70_000, 16), 255, np.uint8)
    with at_level(level):
        assert np.array_equal(_backend.column_counts(ones, 128, threads=1), np.full(128, 70_000))


@at_each_level
def test_rows_of_every_make(level):
    packed = random().integers(0, 256, (501, 40), dtype=np.uint8)
    read_only = packed.copy()
    read_only.flags.writeable = False
    with at_level(level):
        for rows in (packed[::2], packed[::-1], packed[:, ::-1], packed[:, 3:9], np.asfortranarray(packed), read_only, packed[:0]):
            expected = np.unpackbits(np.ascontiguousarray(rows), axis=1, bitorder="little").sum(axis=0, dtype=np.int64)
            assert np.array_equal(_backend.column_counts(rows, 8 * rows.shape[1], threads=1), expected)


@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 63, 64, 65, 1000, 100_003])
def test_packed_ones(n):
    packed = random().integers(0, 256, (n + 7) // 8 + 1, dtype=np.uint8)
    assert _backend.count_packed(packed, n) == int(np.unpackbits(packed, bitorder="little")[:n].sum())


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.int16, np.int8, np.uint32, np.uint16, np.uint8])
def test_codes(dtype):
    codes = random().integers(0, 100, 300_000).astype(dtype)
    expected = np.bincount(codes, minlength=100)
    assert np.array_equal(_backend.code_counts(codes, 100, threads=1), expected)
    assert np.array_equal(_backend.code_counts(codes, 100, threads=4), expected)
    codes[271_828] = 100
    with pytest.raises(DataError, match="index 271828 "):
        _backend.code_counts(codes, 100, threads=1)


@at_each_level
@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.int16, np.int8, np.uint32, np.uint16, np.uint8])
def test_the_first_code_outside(level, dtype):
    with at_level(level):
        for n in (0, 1, 300, 20_000):
            codes = random().integers(0, 100, n).astype(dtype)
            for threads in (1, 3):
                assert _backend.first_outside(codes, 100, threads) == -1
            for place in {0, n // 2, n - 1} - {-1} if n else ():
                for wrong in (100, 127, -1 if np.issubdtype(dtype, np.signedinteger) else 101):
                    changed = codes.copy()
                    changed[place:] = wrong
                    assert _backend.first_outside(changed, 100) == place
                    assert _backend.first_outside(changed[::-1], 100) == 0
        assert _backend.first_outside(np.arange(128, dtype=dtype), 2**24) == -1


def reports(n: int, g: int) -> np.ndarray:
    made = np.empty(n, _backend.HASHING_REPORT)
    made["seed"] = random().integers(0, PRIME, n) << 31 | random().integers(1, PRIME, n)
    made["code"] = random().integers(0, g, n)
    return made


@pytest.mark.some(14)
@at_each_level
@pytest.mark.parametrize("g", [2, 3, 4, 6, 7, 8, 12, 100, 2**20, 1_000_003])
def test_supports(level, g):
    made, k = reports(1031, g), 77
    a, b = (made["seed"] & PRIME).astype(object), (made["seed"] >> 31).astype(object)
    expected = [int(((a * v + b) % PRIME % g == made["code"].astype(object)).sum()) for v in range(k)]
    with at_level(level):
        assert _backend.support_counts(made, g, k, threads=1).tolist() == expected
        assert _backend.support_counts(made[::-1], g, k, threads=3).tolist() == expected
        assert _backend.hash_codes(int(made["seed"][0]), k, g).tolist() == [int((a[0] * v + b[0]) % PRIME % g) for v in range(k)]


@at_each_level
def test_supports_at_the_ends_of_the_seeds(level):
    made = reports(6, 5)
    made["seed"] = [1, PRIME - 1, (PRIME - 1) << 31 | 1, (PRIME - 1) << 31 | (PRIME - 1), 2, 1 << 31 | 1]
    a, b = (made["seed"] & PRIME).astype(object), (made["seed"] >> 31).astype(object)
    expected = [int(((a * v + b) % PRIME % 5 == made["code"].astype(object)).sum()) for v in range(3000)]
    with at_level(level):
        assert _backend.support_counts(made, 5, 3000, threads=1).tolist() == expected


@pytest.mark.parametrize(("field", "value"), [("code", 4), ("seed", 0), ("seed", PRIME), ("seed", PRIME << 31 | 1), ("seed", 2**63 | 1)])
def test_an_impossible_hash_is_refused(field, value):
    made = reports(600, 4)
    made[field][577] = value
    with pytest.raises(DataError, match="index 577 "):
        _backend.support_counts(made, 4, 10, threads=1)


def test_signs():
    made = np.empty(50_000, _backend.HADAMARD_REPORT)
    made["row"], made["bit"] = random().integers(0, 64, 50_000), random().integers(0, 2, 50_000)
    expected = np.bincount(made["row"], np.where(made["bit"], 1, -1), 64).astype(np.int64)
    assert np.array_equal(_backend.sign_sums(made, 64, threads=2), expected)
    made["row"][40_000] = 64
    with pytest.raises(DataError, match="index 40000 "):
        _backend.sign_sums(made, 64, threads=1)


@at_each_level
@pytest.mark.parametrize("log2", [0, 1, 2, 5, 10, 11])
def test_walsh_hadamard_is_the_matrix_product(level, log2):
    x = random().integers(-(2**40), 2**40, 2**log2)
    with at_level(level):
        assert np.array_equal(_backend.walsh_hadamard(x), hadamard(2**log2).astype(np.int64) @ x)


@at_each_level
def test_a_long_walsh_hadamard_is_its_own_inverse(level):
    x = random().integers(-(2**30), 2**30, 2**17)
    with at_level(level):
        assert np.array_equal(_backend.walsh_hadamard(_backend.walsh_hadamard(x)), x << 17)
