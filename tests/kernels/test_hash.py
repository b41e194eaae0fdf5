"""The keyed hash of cells: the reference's vectors, a slow twin, and sums that do not depend on how rows are cut."""

from __future__ import annotations

import numpy as np
import pytest

from dpcore._backend import HASH_KEY_BYTES, add_row_hashes, add_text_hashes
from dpcore._kernels import _hash

KEY = bytes(range(16))
ONES = 2**64 - 1
VECTORS = [
    0x726FDB47DD0E0E31, 0x74F839C593DC67FD, 0x0D6C8009D9A94F5A, 0x85676696D7FB7E2D, 0xCF2794E0277187B7, 0x18765564CD99A68D,
    0xCBC9466E58FEE3CE, 0xAB0200F58B01D137, 0x93F5F5799A932462, 0x9E0082DF0BA9E4B0, 0x7A5DBBC594DDB9F3, 0xF4B32F46226BADA7,
    0x751E8FBC860EE5FB, 0x14EA5627C0843D90, 0xF723CA908E7AF2EE, 0xA129CA6149BE45E5, 0x3F2ACC7F57C29BDB, 0x699AE9F52CBE4794,
    0x4BC1B3F0968DD39C, 0xBB6DC91DA77961BD, 0xBED65CF21AA2EE98, 0xD0F2CBB02E3B67C7, 0x93536795E3A33E88, 0xA80C038CCD5CCEC8,
    0xB8AD50C6F649AF94, 0xBCE192DE8A85B8EA, 0x17D835B85BBB15F3, 0x2F2E6163076BCFAD, 0xDE4DAAACA71DC9A5, 0xA6A2506687956571,
    0xAD87A3535C49EF28, 0x32D892FAD841C342, 0x7127512F72F27CCE, 0xA7F32346F95978E3, 0x12E0B01ABB051238, 0x15E034D40FA197AE,
    0x314DFFBE0815A3B4, 0x027990F029623981, 0xCADCD4E59EF40C4D, 0x9ABFD8766A33735C, 0x0E3EA96B5304A7D0, 0xAD0C42D6FC585992,
    0x187306C89BC215A9, 0xD4A60ABCF3792B95, 0xF935451DE4F21DF2, 0xA9538F0419755787, 0xDB9ACDDFF56CA510, 0xD06C98CD5C0975EB,
    0xE612A3CB9ECBA951, 0xC766E62CFCADAF96, 0xEE64435A9752FE72, 0xA192D576B245165A, 0x0A8787BF8ECB74B2, 0x81B3E73D20B49B6F,
    0x7FA8220BA3B2ECEA, 0x245731C13CA42499, 0xB78DBFAF3A8D83BD, 0xEA1AD565322A1A0B, 0x60E61C23A3795013, 0x6606D7E446282B93,
    0x6CA4ECB15C5F91E1, 0x9F626DA15C9625F3, 0xE51B38608EF25F57, 0x958A324CEB064572,
]  # fmt: skip
"""SipHash-2-4 of the bytes 0, 1, …, n − 1 under the key 0, 1, …, 15, for n from 0 to 63: the vectors of the reference."""


def slow(key: bytes, data: bytes, rounds: tuple[int, int] = (2, 4)) -> int:
    """The hash by its definition, in Python's integers."""

    def turned(x: int, bits: int) -> int:
        return (x << bits | x >> (64 - bits)) & ONES

    def mix(times: int) -> None:
        a, b, c, d = state
        for _ in range(times):
            a = (a + b) & ONES
            b = turned(b, 13) ^ a
            a = turned(a, 32)
            c = (c + d) & ONES
            d = turned(d, 16) ^ c
            a = (a + d) & ONES
            d = turned(d, 21) ^ a
            c = (c + b) & ONES
            b = turned(b, 17) ^ c
            c = turned(c, 32)
        state[:] = [a, b, c, d]

    low, high = (int.from_bytes(key[place : place + 8], "little") for place in (0, 8))
    constants = (int.from_bytes(text, "big") for text in (b"somepseu", b"dorandom", b"lygenera", b"tedbytes"))
    state = [half ^ constant for half, constant in zip((low, high, low, high), constants, strict=True)]
    padded = data + bytes(7 - len(data) % 8) + bytes([len(data) % 256])
    for place in range(0, len(padded), 8):
        word = int.from_bytes(padded[place : place + 8], "little")
        state[3] ^= word
        mix(rounds[0])
        state[0] ^= word
    state[2] ^= 0xFF
    mix(rounds[1])
    return state[0] ^ state[1] ^ state[2] ^ state[3]


def of_texts(texts: list[bytes], key: bytes = KEY, taken: np.ndarray | None = None) -> np.ndarray:
    """The hashes of texts."""
    sums = np.zeros(len(texts), np.uint64)
    ends = np.cumsum([0, *map(len, texts)])
    add_text_hashes(key, ends, np.frombuffer(b"".join(texts), np.uint8), taken, sums)
    return sums


def test_the_vectors_of_the_reference() -> None:
    texts = [bytes(range(n)) for n in range(64)]
    assert of_texts(texts).tolist() == VECTORS
    assert [slow(KEY, text) for text in texts] == VECTORS
    assert [slow(KEY, text, (1, 3)) for text in texts] != VECTORS


@pytest.mark.parametrize("seed", range(3))
def test_texts_of_all_lengths_are_hashed_as_by_definition(seed: int) -> None:
    source = np.random.default_rng(seed)
    texts = [source.bytes(int(n)) for n in source.integers(0, 600, 40)]
    key = source.bytes(16)
    assert of_texts(texts, key).tolist() == [slow(key, text) for text in texts]


@pytest.mark.parametrize("columns", [None, 1, 2, 3])
@pytest.mark.parametrize("kind", ["u8", "<i8", ">i8", "f8", "<u4", "u1"])
def test_rows_are_hashed_as_their_bytes_from_the_lowest_on(columns: int | None, kind: str) -> None:
    rows = np.random.default_rng(5).integers(0, 200, (30, columns or 1)).astype(kind)
    rows = rows[:, 0] if columns is None else rows
    sums = np.full(30, 7, np.uint64)
    add_row_hashes(KEY, rows, None, sums)
    little = rows.astype(rows.dtype.newbyteorder("<"))
    assert sums.tolist() == [(7 + slow(KEY, row.tobytes())) & ONES for row in little]


def test_only_what_is_taken_is_added() -> None:
    taken, numbers = np.arange(20) % 3 == 0, np.arange(20)
    sums = np.zeros(20, np.uint64)
    add_row_hashes(KEY, numbers, taken, sums)
    assert sums.tolist() == [slow(KEY, int(i).to_bytes(8, "little")) if i % 3 == 0 else 0 for i in numbers]
    assert of_texts([b"a"] * 20, taken=taken).tolist() == [slow(KEY, b"a") if each else 0 for each in taken]


def test_no_rows_are_no_work() -> None:
    assert HASH_KEY_BYTES == 16
    assert of_texts([]).tolist() == []
    add_row_hashes(KEY, np.empty(0, np.int64), None, np.empty(0, np.uint64))
    assert of_texts([b"", b""]).tolist() == [VECTORS[0]] * 2


def test_sums_turn_over_at_two_to_the_64() -> None:
    sums = np.full(1, ONES, np.uint64)
    add_row_hashes(KEY, np.zeros(1), None, sums)
    assert sums.tolist() == [slow(KEY, bytes(8)) - 1]


def test_what_lies_elsewhere_is_refused() -> None:
    sums, text, none = np.zeros(2, np.uint64), np.zeros(4, np.uint8), np.zeros((2, 0), np.uint8)
    for call in (
        lambda: _hash.add_texts(KEY, np.array([0, 2, 5]), text, None, sums),
        lambda: _hash.add_texts(KEY, np.array([0, 3, 2]), text, None, sums),
        lambda: _hash.add_texts(KEY, np.array([-1, 0, 2]), text, None, sums),
        lambda: _hash.add_texts(KEY, np.array([0, 2]), text, None, sums),
        lambda: _hash.add_texts(KEY[:8], np.array([0, 2, 4]), text, None, sums),
        lambda: _hash.add_rows(KEY[:8], text.reshape(2, 2), None, sums),
        lambda: _hash.add_rows(KEY, text.reshape(4, 1), None, sums),
        lambda: _hash.add_rows(KEY, text.reshape(2, 2), np.ones(3, np.uint8), sums),
        lambda: _hash.add_rows(KEY, none, None, sums),
    ):
        with pytest.raises(ValueError, match=r"key has another length|there must be|must lie in"):
            call()
