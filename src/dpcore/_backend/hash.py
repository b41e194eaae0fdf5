"""A keyed hash of cells, SipHash-2-4, added up over the columns of a row."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dpcore._kernels import _hash

HASH_KEY_BYTES = int(_hash.KEY_BYTES)

Words = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]


def add_row_hashes(key: bytes, rows: npt.NDArray[Any], taken: Mask | None, sums: Words) -> None:
    """Add the hash of each row of an array to its sum, modulo 2^64.

    Parameters
    ----------
    key : bytes
        16 bytes.
    rows : ndarray of shape (n,) or (n, m)
        Of numbers of one size, whose bytes are hashed from the lowest on.
    taken : ndarray of bool of shape (n,) or None
        Rows whose hash is added; None: all.
    sums : ndarray of uint64 of shape (n,)
        Changed in place.
    """
    little = np.ascontiguousarray(rows, rows.dtype.newbyteorder("<"))
    width = little.dtype.itemsize * (little.shape[1] if little.ndim > 1 else 1)
    _hash.add_rows(key, little.reshape(-1).view(np.uint8).reshape(len(rows), width), _bytes_of(taken), sums)


def add_text_hashes(key: bytes, ends: npt.NDArray[np.int64], text: npt.NDArray[np.uint8], taken: Mask | None, sums: Words) -> None:
    """The same for texts, of which number i is [ends[i], ends[i + 1]) of the bytes."""
    _hash.add_texts(key, ends, text, _bytes_of(taken), sums)


def _bytes_of(taken: Mask | None) -> npt.NDArray[np.uint8] | None:
    return None if taken is None else np.ascontiguousarray(taken).view(np.uint8)
