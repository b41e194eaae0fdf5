"""The keystream of this process, watched and changed by keystream.c: what each call reads, and which outputs a flipped bit moves."""

from __future__ import annotations

import ctypes
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest

from dpcore._kernels import _dispatch
from dpcore.rng import StreamPosition

GROUP, CHUNK_WORDS = 128, 8
BULK, ACCEPT, MORE, MORE_PARTNER, MORE_ACCEPT, RESPONSE, MORE_RESPONSE, SELECTION, MORE_SELECTION, TABLE, MORE_TABLE, DERIVED = range(12)
IN_GROUPS = frozenset({BULK, ACCEPT, RESPONSE, SELECTION, TABLE})
"""Domains that are read in groups of 128 words; the others give an element chunks of eight."""
REQUEST = np.dtype(
    [("key", "<u8"), ("index", "<u8"), ("nonce", "<u4"), ("tag", "<u4"), ("in_groups", "<u4"), ("n", "<u4"), ("draw", "<u4")], align=True
)
Array = npt.NDArray[Any]


class Word(NamedTuple):
    """A word of the keystream: a key (its digest) and nonce, a tag, a group or an element, and the place in it."""

    key: int
    nonce: int
    tag: int
    index: int
    place: int

    @property
    def domain(self) -> int:
        """The domain of the tag."""
        return self.tag >> 24

    @property
    def attempt(self) -> int:
        """Which attempt it belongs to."""
        return self.tag >> 12 & 0xFFF

    @property
    def chunk(self) -> int:
        """Which chunk of eight words it is in."""
        return self.tag & 0xFFF


@lru_cache(maxsize=1)
def _library() -> ctypes.CDLL:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or platform.system() != "Linux":
        pytest.skip("needs a C compiler on Linux")
    include = Path(__file__).parents[2] / "src" / "_kernels" / "include"
    if not include.is_dir():
        pytest.skip("needs the kernels' headers")
    target = Path(tempfile.mkdtemp(prefix="dpcore-keystream-")) / "keystream.so"
    source = Path(__file__).with_name("keystream.c")
    subprocess.run(
        [compiler, "-std=c11", "-O2", "-shared", "-fPIC", f"-I{include}", str(source), "-o", str(target)], check=True, timeout=300
    )
    library = ctypes.CDLL(str(target))
    shutil.rmtree(target.parent)
    library.probe_size.restype = ctypes.c_size_t
    library.probe_flip.argtypes = [
        ctypes.c_uint64,
        ctypes.c_uint32,
        ctypes.c_uint32,
        ctypes.c_uint32,
        ctypes.c_uint64,
        ctypes.c_uint32,
        ctypes.c_uint64,
    ]
    return library


def _current_level() -> ctypes.c_void_p:
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return ctypes.c_void_p(pointer(_dispatch.capsule, b"dpcore._kernels.level"))


class Keystream:
    """The watched keystream; made by `watched`."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library

    def clear(self) -> None:
        """Forget what was read."""
        self._library.probe_clear()

    def requests(self) -> Array:
        """What was asked for since `clear`, in order."""
        found = np.empty(self._library.probe_size(), REQUEST)
        self._library.probe_read(found.ctypes.data_as(ctypes.c_void_p))
        return found

    def words(self) -> set[Word]:
        """All words that could have been read since `clear`."""
        found = self.requests()
        assert all(bool(r["in_groups"]) == (int(r["tag"]) >> 24 in IN_GROUPS) for r in found), "a domain is read in two ways"
        units = {(int(r["key"]), int(r["nonce"]), int(r["tag"]), int(r["index"]) + i) for r in found for i in range(int(r["n"]))}
        return {Word(*unit, j) for unit in units for j in range(GROUP if unit[2] >> 24 in IN_GROUPS else CHUNK_WORDS)}

    def draw(self, number: int) -> None:
        """Mark what is read from now on."""
        self._library.probe_draw(number)

    def flip(self, word: Word, mask: int) -> None:
        """Hand out a word with some bits flipped; a mask of 0 ends it."""
        self._library.probe_flip(word.key, word.nonce, word.tag, int(word.domain in IN_GROUPS), word.index, word.place, mask)

    def stick(self, domain: int, values: Iterable[int], care: Iterable[int]) -> None:
        """Hand out (word & care) | value, by a word's place in its group; eight places for a chunk."""
        kept, stuck = (np.zeros(GROUP, np.uint64) for _ in range(2))
        kept[:] = np.array(list(care), np.uint64)
        stuck[:] = np.array(list(values), np.uint64)
        self._library.probe_stick(domain, kept.ctypes.data_as(ctypes.c_void_p), stuck.ctypes.data_as(ctypes.c_void_p))

    def alias(self, domain: int, other: int) -> None:
        """Serve requests for a domain from another one: the map of an older stream."""
        self._library.probe_alias(domain, other)

    def reset(self) -> None:
        """Undo all changes."""
        self._library.probe_reset()


@contextmanager
def watched() -> Iterator[Keystream]:
    """Watch the kernels of the level in use."""
    library = _library()
    library.probe_install(_current_level())
    try:
        yield Keystream(library)
    finally:
        library.probe_remove()


class MarkedStream:
    """A stream that stands still, and numbers its draws in the record of the keystream."""

    def __init__(self, keystream: Keystream, position: StreamPosition, *, secure: bool = False) -> None:
        self._keystream, self._position, self._draws = keystream, position, 0
        self.secure = secure

    def position(self) -> StreamPosition:
        """Where it stands; what is read from here on belongs to a further draw."""
        self._draws += 1
        self._keystream.draw(self._draws)
        return self._position


def moved(
    keystream: Keystream, run: Callable[[], Array], bits: Iterable[int], words: Iterable[Word] | None = None
) -> dict[tuple[Word, int], Array]:
    """Which outputs move when a bit is flipped, for every bit that moves any; `run` gives one row an output."""
    keystream.clear()
    base = run()
    found = {}
    for word in sorted(keystream.words() if words is None else words):
        for bit in bits:
            keystream.flip(word, 1 << bit)
            changed = np.flatnonzero((run() != base).reshape(len(base), -1).any(axis=1))
            if len(changed):
                found[word, bit] = changed
    keystream.flip(Word(0, 0, 0, 0, 0), 0)
    return found
