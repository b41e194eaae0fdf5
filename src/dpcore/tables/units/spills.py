"""Rows on disk for as long as a job runs, encrypted under a key that is in memory alone."""

from __future__ import annotations

import tempfile
import threading
import weakref
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from dpcore import _backend
from dpcore.rng import SecureRandom

if TYPE_CHECKING:
    from pathlib import Path

WORD = 8
"""Bytes of a word of the key stream."""


class Spill:
    """A file of batches that are written and read again, each by its number.

    The bytes are those of Arrow, combined with a key stream of dpcore's own source, of which no word is used twice. Who finds the file, or
    the blocks where it was, learns how much was written. Nothing protects it from being changed while the job runs.

    Parameters
    ----------
    folder : Path
        Where the file is; it has no name there, or one for a moment only, and goes however the process ends.
    schema : pyarrow.Schema
        Of all batches; without dictionaries, which a batch does not hold.
    """

    def __init__(self, folder: Path, schema: pa.Schema) -> None:
        self._schema = schema
        self._stream = SecureRandom().position()
        self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115 - closed by what follows
        self._closing = weakref.finalize(self, self._file.close)
        self._ends = [0]
        self._lock = threading.Lock()

    def write(self, batch: pa.RecordBatch) -> int:
        """Write a batch, and return its number."""
        plain = batch.serialize()
        words = -(-plain.size // WORD)
        padded = np.zeros(words, np.uint64)
        padded.view(np.uint8)[: plain.size] = np.frombuffer(plain, np.uint8)
        with self._lock:
            number, first = len(self._ends) - 1, self._ends[-1]
            self._ends.append(first + words)
            padded ^= self._words(first, words)
            self._file.seek(first * WORD)
            left = memoryview(padded.data).cast("B")
            while left:
                left = left[self._file.write(left) :]
        return number

    def read(self, number: int) -> pa.RecordBatch:
        """Read a batch."""
        first, end = self._ends[number : number + 2]
        found = np.empty(end - first, np.uint64)
        left = memoryview(found.data).cast("B")
        with self._lock:
            self._file.seek(first * WORD)
            while left:
                done = self._file.readinto(left)
                if not done:
                    raise OSError("a temporary file is shorter than what was written")
                left = left[done:]
        found ^= self._words(first, end - first)
        return pa.ipc.read_record_batch(pa.py_buffer(found), self._schema)

    def _words(self, first: int, count: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
        return _backend.uniform_words(self._stream._replace(first_element=first), count)

    def close(self) -> None:
        """Close the file, whose room is then free."""
        self._closing()
