"""The keystream: published vectors of both ciphers, and the address of every word, at every CPU level."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np
import pytest

from dpcore import local, noise
from dpcore._kernels import _dispatch, _noise
from support.kernels import AES_LEVELS, KEY, LEVELS, SecureCipher, at_level

GROUP, NONCE = 128, 0x89ABCDEF
BULK, ACCEPT, MORE, MORE_PARTNER, MORE_ACCEPT = range(5)
TABLE, MORE_TABLE, DERIVED = 9, 10, 11
GROUPS = [0, 1, 5, 2**28 - 2, 2**28, 2**32 + 3, 2**56 - 7]  # 2^28 - 2 + 4 groups pass the block index 2^32


@pytest.fixture(params=LEVELS)
def level(request: pytest.FixtureRequest) -> Iterator[str]:
    with at_level(request.param):
        yield request.param


@pytest.fixture(params=AES_LEVELS)  # where there is none, pytest reports an empty set as skipped
def aes_level(request: pytest.FixtureRequest) -> Iterator[str]:
    with at_level(request.param):
        yield request.param


def tag(domain: int, attempt: int = 0, chunk: int = 0) -> int:
    return domain << 24 | attempt << 12 | chunk


# ChaCha20

ZEROS = bytes(32)
RFC_8439 = {
    "2.3.2": (
        bytes(range(32)), 1, "000000090000004a00000000",
        "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4ed2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e",
    ),
    "A.1 #1": (
        ZEROS, 0, "000000000000000000000000",
        "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586",
    ),
    "A.1 #2": (
        ZEROS, 1, "000000000000000000000000",
        "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f",
    ),
    "A.1 #3": (
        bytes(31) + b"\x01", 1, "000000000000000000000000",
        "3aeb5224ecf849929b9d828db1ced4dd832025e8018b8160b82284f3c949aa5a8eca00bbb4a73bdad192b5c42f73f2fd4e273644c8b36125a64addeb006c13a0",
    ),
    "A.1 #4": (
        b"\x00\xff" + bytes(30), 2, "000000000000000000000000",
        "72d54dfbf12ec44b362692df94137f328fea8da73990265ec1bbbea1ae9af0ca13b25aa26cb4a648cb9b9d1be65b2c0924a66c54d545ec1b7374f4872e99f096",
    ),
    "A.1 #5": (
        ZEROS, 0, "000000000000000000000002",
        "c2c64d378cd536374ae204b9ef933fcd1a8b2288b3dfa49672ab765b54ee27c78a970e0e955c14f3a88e741b97c286f75f8fc299e8148362fa198a39531bed6d",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RFC_8439)
def test_block_function_gives_the_vectors_of_rfc_8439(name: str) -> None:
    key, counter, nonce, expected = RFC_8439[name]
    assert _dispatch.chacha20_block(key, counter, bytes.fromhex(nonce)).hex() == expected


def chacha20_group(domain: int, group: int) -> np.ndarray:
    """Group by its definition: row j holds word j of the sixteen blocks; block index in words 12 and 13, tag in 14, nonce in 15."""
    blocks = []
    for block in range(16 * group, 16 * group + 16):
        nonce = struct.pack("<3I", block >> 32, tag(domain), NONCE)
        blocks.append(np.frombuffer(_dispatch.chacha20_block(KEY, block & 0xFFFFFFFF, nonce), "<u4"))
    return np.stack(blocks, axis=1)


@pytest.mark.parametrize("domain", [BULK, ACCEPT])
@pytest.mark.parametrize("first", GROUPS)
def test_chacha20_groups_are_transposed_blocks(level: str, first: int, domain: int) -> None:
    words = np.frombuffer(_dispatch.bulk_words(KEY, NONCE, _noise.CHACHA20, domain, first, 4), "<u4").reshape(4, 16, 16)
    for i in range(4):
        assert np.array_equal(words[i], chacha20_group(domain, first + i))


@pytest.mark.parametrize("n", range(1, 10))
def test_number_of_groups_does_not_matter(level: str, n: int) -> None:
    whole = bytes(_dispatch.bulk_words(KEY, NONCE, _noise.CHACHA20, BULK, 7, 9))
    assert bytes(_dispatch.bulk_words(KEY, NONCE, _noise.CHACHA20, BULK, 7, n)) == whole[: 1024 * n]


@pytest.mark.parametrize("element", [0, 3, 2**32 - 1, 2**32, 2**63 + 17, 2**64 - 1])
@pytest.mark.parametrize(("attempt", "chunk"), [(0, 0), (1, 0), (4095, 4095), (0, 7)])
def test_further_words_are_one_block_each(level: str, element: int, attempt: int, chunk: int) -> None:
    words = _dispatch.more_words(KEY, NONCE, _noise.CHACHA20, MORE_ACCEPT, element, attempt, chunk)
    nonce = struct.pack("<3I", element >> 32, tag(MORE_ACCEPT, attempt, chunk), NONCE)
    assert struct.pack("<8Q", *words) == _dispatch.chacha20_block(KEY, element & 0xFFFFFFFF, nonce)


# AES-256

SP_800_38A_KEY = bytes.fromhex("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4")
SP_800_38A_PLAIN = [
    bytes.fromhex(block)
    for block in (
        "6bc1bee22e409f96e93d7e117393172a",
        "ae2d8a571e03ac9c9eb76fac45af8e51",
        "30c81c46a35ce411e5fbc1191a0a52ef",
        "f69f2445df4f9b17ad2b417be66c3710",
    )
]
ECB = [
    "f3eed1bdb5d2a03c064b5a7e3db181f8",
    "591ccb10d410ed26dc5ba74a31362870",
    "b6ed21b99ca6f4f9f153e7b1beafed1d",
    "23304b7a39f9f3ff067d8d8f9e24ecc7",
]
CTR = [
    "601ec313775789a5b7a7f504bbf3d228",
    "f443e3ca4d62b59aca84e990cacaf5c5",
    "2b0930daa23de94ce87017ba2d84988d",
    "dfc9c58db67aada613c2dd08457941a6",
]


def test_aes_block_gives_the_vector_of_fips_197(aes_level: str) -> None:
    block = _dispatch.aes256_block(bytes(range(32)), bytes.fromhex("00112233445566778899aabbccddeeff"))
    assert block.hex() == "8ea2b7ca516745bfeafc49904b496089"


def test_aes_blocks_give_the_vectors_of_sp_800_38a_f15(aes_level: str) -> None:
    assert [_dispatch.aes256_block(SP_800_38A_KEY, plain).hex() for plain in SP_800_38A_PLAIN] == ECB


def test_aes_counter_mode_gives_the_vectors_of_sp_800_38a_f55(aes_level: str) -> None:
    counter = int.from_bytes(bytes(range(0xF0, 0x100)), "big")
    for i, plain in enumerate(SP_800_38A_PLAIN):
        stream = _dispatch.aes256_block(SP_800_38A_KEY, (counter + i).to_bytes(16, "big"))
        assert bytes(a ^ b for a, b in zip(stream, plain, strict=True)).hex() == CTR[i]


@pytest.mark.parametrize("domain", [BULK, ACCEPT])
@pytest.mark.parametrize("first", GROUPS)
def test_aes_groups_are_blocks_in_order(aes_level: str, first: int, domain: int) -> None:
    stream = bytes(_dispatch.bulk_words(KEY, NONCE, _noise.AES256, domain, first, 3))
    for i, block in enumerate(range(64 * first, 64 * first + 192)):
        assert stream[16 * i : 16 * i + 16] == _dispatch.aes256_block(KEY, struct.pack("<Q2I", block, tag(domain), NONCE))


def test_aes_further_words_are_four_blocks(aes_level: str) -> None:
    words = _dispatch.more_words(KEY, NONCE, _noise.AES256, MORE, 2**40 + 1, 3, 5)
    blocks = [_dispatch.aes256_block(KEY, struct.pack("<Q2I", 2**40 + 1, tag(MORE, 3, 20 + i), NONCE)) for i in range(4)]
    assert struct.pack("<8Q", *words) == b"".join(blocks)


def test_a_level_without_aes_refuses_it() -> None:
    with at_level("baseline"):
        if _dispatch.has_aes():
            pytest.skip("the portable level of this platform has AES")
        with pytest.raises(ValueError, match="no AES"):
            _dispatch.bulk_words(KEY, 0, _noise.AES256, BULK, 0, 1)


# Addresses


@pytest.mark.parametrize("cipher", [_noise.CHACHA20, _noise.AES256])
def test_addresses_do_not_share_words(cipher: int) -> None:
    if cipher == _noise.AES256 and not _dispatch.has_aes():
        pytest.skip("the CPU level in use has no AES")
    streams = [_dispatch.bulk_words(KEY, 0, cipher, domain, group, 1) for domain in (BULK, ACCEPT, TABLE) for group in (0, 1, 2**28)]
    seen = [word for stream in streams for word in struct.unpack("<128Q", stream)]
    for domain in (MORE, MORE_PARTNER, MORE_ACCEPT, MORE_TABLE, DERIVED):
        for element in (0, 1, 2, 2**32):
            for attempt, chunk in ((0, 0), (0, 1), (1, 0), (1, 1)):
                seen += _dispatch.more_words(KEY, 0, cipher, domain, element, attempt, chunk)
    assert len(set(seen)) == len(seen)


@pytest.mark.parametrize("cipher", [_noise.CHACHA20, _noise.AES256])
def test_key_and_nonce_change_every_word(level: str, cipher: int) -> None:
    if cipher == _noise.AES256 and not _dispatch.has_aes():
        pytest.skip("this level has no AES")
    addresses = [(key, nonce) for key in (KEY, ZEROS, KEY[:-1] + b"\x00") for nonce in (0, 1, 2**32 - 1)]
    seen = [word for at in addresses for word in struct.unpack("<512Q", _dispatch.bulk_words(*at, cipher, BULK, 0, 4))]
    for at in addresses:
        for domain in (MORE, MORE_PARTNER, MORE_ACCEPT, MORE_TABLE):
            seen += _dispatch.more_words(*at, cipher, domain, 5, 0, 0)
    assert len(set(seen)) == len(seen)


@pytest.mark.parametrize("kind", ["laplace", "gaussian", "discrete_laplace", "discrete_gaussian"])
def test_nonces_separate_the_calls_of_an_aes_stream(aes_level: str, kind: str) -> None:
    """One key, two nonces, the cipher of the secure source: the noise is other noise, response bits are other bits."""
    values = np.zeros(600, np.int64 if kind.startswith("discrete") else np.float64)
    first, second = (getattr(noise, kind)(values, 50.0, rng=SecureCipher(nonce=nonce)) for nonce in (0, 1))
    assert np.count_nonzero(first == second) < 60
    responses = [local.BinaryResponse(0.1).privatize(np.zeros(600, bool), rng=SecureCipher(nonce=nonce)) for nonce in (0, 1)]
    assert np.count_nonzero(responses[0] != responses[1]) > 150


@pytest.mark.parametrize(("attempt", "chunk"), [(4096, 0), (0, 4096)])
def test_addresses_that_would_wrap_are_refused(attempt: int, chunk: int) -> None:
    with pytest.raises(ValueError, match="below 4096"):
        _dispatch.more_words(KEY, 0, _noise.CHACHA20, MORE, 0, attempt, chunk)


@pytest.mark.skipif(not _dispatch.has_aes(), reason="this machine has no AES instructions")
def test_aes_chunks_have_a_narrower_field() -> None:
    last = _dispatch.more_words(KEY, 0, _noise.AES256, MORE, 0, 0, 1023)
    assert last != _dispatch.more_words(KEY, 0, _noise.AES256, MORE, 0, 0, 0)
    with pytest.raises(ValueError, match="below 1024 for AES"):
        _dispatch.more_words(KEY, 0, _noise.AES256, MORE, 0, 0, 1024)
