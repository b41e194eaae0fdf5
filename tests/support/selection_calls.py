"""Every way to select at a given scale of the noise, and its slow twin. The functions for several go in below the accounting of `top_s`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from dpcore import _backend, selection
from dpcore._backend.words import KernelWords
from dpcore.rng import StreamPosition
from dpcore.testing import KeyedRandom
from support.kernels import KEY, Array
from support.selection import Twin

Draw = Callable[..., list[int]]
"""(scores, s, scale, options) to the selected indices."""


def _argmax(noise: str) -> Draw:
    def draw(scores: Array, s: int, scale: float, **options: Any) -> list[int]:
        return [selection.noisy_argmax(scores, 2.0, scale, noise=noise, **options)]

    return draw


def _flip(scores: Array, s: int, scale: float, **options: Any) -> list[int]:
    return [selection.permute_and_flip(scores, 2.0, scale, **options)]


def _exponential(scores: Array, s: int, scale: float, **options: Any) -> list[int]:
    return [selection.exponential_mechanism(scores, 2.0, scale, **options)]


def _repeated(scores: Array, s: int, scale: float, **options: Any) -> list[int]:
    return selection.exponential_mechanism(scores, 2.0 * s, scale, draws=s, **options).tolist()


def _one_shot(noise: str) -> Draw:
    def draw(scores: Array, s: int, scale: float, **options: Any) -> list[int]:
        return _backend.select_largest(noise, scores, scale, s, options["rng"].position(), threads=options.get("threads")).tolist()

    return draw


def _peeling(scores: Array, s: int, scale: float, **options: Any) -> list[int]:
    return _backend.select_peeled("laplace", scores, scale, s, options["rng"].position(), threads=options.get("threads")).tolist()


@dataclass(frozen=True)
class Method:
    """One way to select: the call, the noise's kind, and which function of the twin it is."""

    name: str
    draw: Draw
    kind: str
    form: str
    """"argmax", "rounds", "one shot" or "peeling"."""

    def __str__(self) -> str:
        return self.name

    @property
    def several(self) -> bool:
        """Whether s matters."""
        return self.form != "argmax"

    def expected(self, twin: Twin, scores: Array, s: int) -> list[int]:
        """What the twin selects."""
        if self.form == "rounds":
            return twin.rounds(scores, s)
        return twin.peeling(scores, s) if self.form == "peeling" else twin.largest(scores, s if self.several else 1)

    def compare(self, scores: Array, s: int = 1, scale: float = 1.0, *, nonce: int = 3, first: int = 0, **options: Any) -> tuple[Any, Any]:
        """What the library and its twin select under the tests' key."""
        found = self.draw(scores, s, scale, rng=KeyedRandom(KEY).at(nonce, first), **options)
        return found, self.expected(self.twin(scale, nonce, first), scores, s)

    def twin(self, scale: float, nonce: int = 3, first: int = 0, **options: Any) -> Twin:
        """The twin at a scale."""
        return Twin(self.kind, Fraction(scale), KernelWords(KEY, nonce, 0), first, **options)


METHODS = (
    Method("noisy_argmax-laplace", _argmax("laplace"), "laplace", "argmax"),
    Method("noisy_argmax-gumbel", _argmax("gumbel"), "gumbel", "argmax"),
    Method("noisy_argmax-exponential", _argmax("exponential"), "exponential", "argmax"),
    Method("exponential_mechanism", _exponential, "gumbel", "argmax"),
    Method("permute_and_flip", _flip, "exponential", "argmax"),
    Method("exponential_mechanism-size", _repeated, "gumbel", "rounds"),
    Method("top_s-gumbel", _one_shot("gumbel"), "gumbel", "one shot"),
    Method("top_s-peeling", _peeling, "laplace", "peeling"),
    Method("top_s-oneshot_laplace", _one_shot("laplace"), "laplace", "one shot"),
)
BY_KIND = tuple(m for m in METHODS if m.name in ("noisy_argmax-laplace", "noisy_argmax-gumbel", "noisy_argmax-exponential"))
SEVERAL = tuple(m for m in METHODS if m.several)


@dataclass(frozen=True)
class SecureStream:
    """The secure source's cipher from a key that stands still."""

    element: int = 0
    secure: bool = True

    def position(self) -> StreamPosition:
        """The fixed position."""
        return StreamPosition(KEY, 0, self.element, self.secure)


def random_scores(d: int, seed: int = 5, spread: float = 1.0) -> Array:
    """Normal scores; the same for every call."""
    return np.random.default_rng(seed).standard_normal(d) * spread
