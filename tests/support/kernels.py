"""Levels, tiers and laws that the tests of the kernels share. Every change of a hook is undone on leaving its `with` block."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dpcore import _backend, noise
from dpcore._kernels import _dispatch
from dpcore.rng import StreamPosition
from dpcore.testing import KeyedRandom

KEY = bytes(range(32))
LEVELS = _backend.available_levels()
"""CPU levels of this machine, least first."""
FAST, ACCURATE, EXACT = range(3)
WITHOUT_VAES = " without VAES"

Array = npt.NDArray[Any]


@contextmanager
def at_level(name: str) -> Iterator[None]:
    """Run at one CPU level, or at one with `WITHOUT_VAES` after its name."""
    before, had_vaes = _backend.selected_level(), _dispatch.has_vaes()
    _backend.select_level(name.removesuffix(WITHOUT_VAES), vaes=False if name.endswith(WITHOUT_VAES) else None)
    try:
        yield
    finally:
        _backend.select_level(before, vaes=had_vaes)


@contextmanager
def at_tier(tier: int, bound_factor: float = 1.0) -> Iterator[None]:
    """Force the lowest tier used, and scale the fast path's error bound."""
    before = _backend.Testing.tier, _backend.Testing.bound_factor
    _backend.Testing.tier, _backend.Testing.bound_factor = tier, bound_factor
    try:
        yield
    finally:
        _backend.Testing.tier, _backend.Testing.bound_factor = before


@dataclass(frozen=True)
class SecureCipher:
    """A stream that is expanded as the secure source's are, from a key that stands still."""

    element: int = 0
    secure: bool = True
    nonce: int = 0

    def position(self) -> StreamPosition:
        """The fixed position."""
        return StreamPosition(KEY, self.nonce, self.element, self.secure)


@dataclass(frozen=True)
class Law:
    """One distribution at one scale; picklable, so that worker processes can be told what to draw."""

    kind: str
    scale: float
    grid: float | None = None

    @property
    def discrete(self) -> bool:
        """Whether values and results are integers."""
        return self.kind.startswith("discrete")

    @property
    def function(self) -> Callable[..., Any]:
        """The public function that draws from this law."""
        return getattr(noise, self.kind)  # type: ignore[no-any-return]

    def add(self, values: Any, element: int = 0, *, nonce: int = 0, secure: bool = False, **options: Any) -> Any:
        """Noisy values under the tests' key; `scale` in the options replaces the law's own, `secure` takes the secure source's cipher."""
        scale = options.pop("scale", self.scale)
        if not self.discrete:
            options.setdefault("grid", self.grid)
        rng = SecureCipher(element) if secure else KeyedRandom(KEY).at(nonce, element)
        return self.function(values, scale, rng=rng, **options)

    def zeros(self, shape: Any) -> Array:
        """Zeros of the dtype that comes out."""
        return np.zeros(shape, np.int64 if self.discrete else np.float64)

    def draw(self, n: int, element: int = 0, **options: Any) -> Array:
        """Noise of n zeros."""
        return self.add(self.zeros(n), element, **options)  # type: ignore[no-any-return]

    def values(self, shape: Any) -> Array:
        """Values with many bits, some large; the same for every call."""
        plain = np.random.default_rng(20240)
        if self.discrete:
            return plain.integers(-(2**40), 2**40, shape)
        return plain.standard_normal(shape) * 10.0 ** plain.integers(-3, 9, shape)

    def __str__(self) -> str:
        grid = "" if self.grid is None else f"-grid{self.grid:g}"
        return f"{self.kind}-{self.scale:g}{grid}"


LAWS = (
    Law("laplace", 1.7),
    Law("gaussian", 1.7),
    Law("discrete_laplace", 3.3),
    Law("discrete_gaussian", 3.3),  # inversion of a table
    Law("discrete_gaussian", 20.5),  # rounded normal with an acceptance step
)


def uses_aes(level: str) -> bool:
    """Whether the secure source expands its keys by AES-256 at this level."""
    with at_level(level):
        return _backend.levels._forced_cipher is None and _backend.secure_cipher() == "aes256"


def has_both_kinds(level: str) -> bool:
    """Whether AES-256 has a kernel on VAES and another one at this level."""
    with at_level(level):
        return _dispatch.has_vaes() and uses_aes(level + WITHOUT_VAES)


AES_LEVELS = (
    *(level + WITHOUT_VAES for level in LEVELS if has_both_kinds(level)),
    *(level for level in LEVELS if uses_aes(level)),
)


def same_bits(a: Any, b: Any) -> bool:
    """Whether two results are equal bit for bit; a NaN or a -0.0 where the other has a 0.0 is a difference."""
    a, b = np.asarray(a), np.asarray(b)
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def layouts(values: Array) -> Iterator[tuple[str, Array]]:
    """Give the same 12 × 90 × 7 array in many forms."""
    yield "Fortran", np.asfortranarray(values)
    for order in ((1, 0, 2), (2, 1, 0), (1, 2, 0)):
        yield f"transposed {order}", np.ascontiguousarray(values.transpose(order)).transpose(np.argsort(order))
    yield "reversed", values[::-1, ::-1, ::-1].copy()[::-1, ::-1, ::-1]
    yield "last axis reversed", values[..., ::-1].copy()[..., ::-1]
    wide = np.zeros((24, 270, 14), values.dtype)
    wide[1::2, ::3, ::2] = values
    yield "steps", wide[1::2, ::3, ::2]
    record = np.zeros(values.shape, [("gap", "i1"), ("value", values.dtype)])
    record["value"] = values
    yield "field of an unaligned record", record["value"]
    yield "more dimensions", values.reshape((12, 1, 2, 5, 1, 9, 7, 1))
    read_only = values.copy()
    read_only.flags.writeable = False
    yield "read-only", read_only
