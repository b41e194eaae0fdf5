"""Slow twins of the local randomisers: the random bits by their documented addresses, compared as exact integers and nothing else.

No twin shares code with the kernels but the block cipher (which has its own tests). `ties_below` makes a twin wrong on purpose: it takes
the bits of U that a kernel reads first for all of them, and calls a tie "below".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import product
from math import comb
from typing import Any

import numpy as np

from dpcore._backend.words import KernelWords
from dpcore._exact.probability import Probability, tilted
from support.kernels import KEY, Array

BULK, MORE, MORE_PARTNER, MORE_ACCEPT, RESPONSE, MORE_RESPONSE, MORE_TABLE = 0, 2, 3, 4, 5, 6, 10
PRIME = 2**31 - 1
PIECE_BITS, LANES = 64 * 128, 1024


def constant(value: Fraction | int) -> Probability:
    """A probability that is a rational number."""
    return Probability(Fraction(value), Fraction(0), Fraction(1), Fraction(0), Fraction(1))


@dataclass(frozen=True)
class Uniform:
    """One random number: its first bits as an integer, and the address of the ones after them."""

    words: KernelWords
    element: int
    first: int
    n_first: int
    domain: int = MORE_RESPONSE
    draw: int = 0
    ties_below: bool = False

    def floor(self, bits: int) -> int:
        """⌊U·2^bits⌋."""
        value, known, chunk = self.first, self.n_first, self.draw >> 12
        while known < bits:
            for word in self.words.more(self.domain, self.element, self.draw & 0xFFF, chunk):
                value, known = value << 64 | word, known + 64
            chunk += 1
        return value >> (known - bits)

    def below(self, p: Probability, multiple: int = 1) -> bool:
        """Whether U < multiple·p."""
        if self.ties_below:
            return self.first <= p.floor(self.n_first + 32) * multiple >> 32
        value, bits = p.constant, self.n_first + 128
        while bits < 5000:
            shown = self.floor(bits)  # U lies in [shown, shown + 1)·2^-bits
            if value is not None:
                low = high = value * multiple * 2**bits
            else:
                low, high = (Fraction((p.floor(bits + 64) + end) * multiple, 2**64) for end in (0, 1))
            if shown + 1 <= low or shown >= high:
                return shown < low
            bits += 640
        raise AssertionError("5000 bits do not decide")

    def multiples(self, q: Probability, most: int) -> int:
        """How many of q, 2q … most·q are at most U."""
        least = 0
        while least < most:
            middle = (least + most + 1) // 2
            least, most = (least, middle - 1) if self.below(q, middle) else (middle, most)
        return least

    def times(self, bound: int) -> int:
        """⌊U·bound⌋."""
        return self.floor(self.n_first + 512) * bound >> (self.n_first + 512)


@dataclass(frozen=True)
class Twin:
    """Every randomiser under one key, nonce and cipher; positions are the stream's elements."""

    words: KernelWords
    ties_below: bool = False

    @staticmethod
    def keyed(nonce: int = 3, *, ties_below: bool = False) -> Twin:
        """The tests' key under ChaCha20."""
        return Twin(KernelWords(KEY, nonce, 0), ties_below)

    @staticmethod
    def aes() -> Twin:
        """The tests' key as the secure source's cipher expands it; the level in use must have AES."""
        return Twin(KernelWords(KEY, 0, 1))

    def lane(self, lane: int) -> Uniform:
        """The uniform of a lane of bit planes: bit j is bit lane % 64 of word 16 j + (lane % 1024)/64 of its group."""
        group = self.words.group(RESPONSE, lane // LANES)
        first = 0
        for j in range(8):
            first = first << 1 | group[16 * j + lane % LANES // 64] >> (lane % 64) & 1
        return Uniform(self.words, lane, first, 8, ties_below=self.ties_below)

    def piece(self, index: int, bits: int) -> int:
        """One of the pieces of 16 or 32 bits that follow each other."""
        group, place = divmod(index * bits, PIECE_BITS)
        return self.words.group(RESPONSE, group)[place // 64] >> (place % 64) & (2**bits - 1)

    def uniform(self, element: int, bits: int) -> Uniform:
        """The uniform of an element that starts with a piece."""
        return Uniform(self.words, element, self.piece(element, bits), bits, ties_below=self.ties_below)

    def word(self, element: int) -> int:
        """The element's bulk word."""
        return self.words.group(BULK, element // 128)[element % 128]

    # Randomisers: one record each

    def flip(self, element: int, x: object, p: Probability) -> bool:
        """X, flipped with probability p."""
        return bool(x) ^ self.lane(element).below(p)

    def bounded(self, element: int, x: float, lower: float, upper: float, epsilon: float) -> bool:
        """A bounded mean's bit."""
        low, high = Fraction(lower), Fraction(upper)
        inside = low if x <= lower else high if x >= upper else Fraction(x)
        return self.uniform(element, 16).below(tilted(epsilon, (2 * inside - low - high) / (high - low)))

    def table(self, element: int, code: int, epsilon: float, phi: tuple[Fraction, ...]) -> bool:
        """A bit whose probability is tilted by a table."""
        return self.uniform(element, 16).below(tilted(epsilon, phi[code]))

    def kary(self, element: int, code: int, q: Probability, k: int) -> int:
        """The floor(U/q)-th of the other codes, or the code."""
        other = self.uniform(element, 32).multiples(q, k - 1)
        return code if other == k - 1 else other + (other >= code)

    def unary(self, record: int, code: int, k: int, p: Probability, q: Probability) -> list[int]:
        """The bytes of a unary report; lane 8⌈k/8⌉·record + j is bit j."""
        width = (k + 7) // 8
        bits = [self.lane(8 * width * record + j).below(p if j == code else q) for j in range(k)]
        return pack(bits, width)

    def subset(self, record: int, code: int, k: int, w: int, inclusion: Probability) -> list[int]:
        """The bytes of a subset; Floyd's algorithm over the categories other than the code."""
        words = max(1, (w + 2) // 2)
        words = 1 << (words - 1).bit_length() if words <= 128 else (words + 127) // 128 * 128
        first = 2 * words * record
        own = Uniform(self.words, record, self.piece(first, 32), 32, MORE_ACCEPT, ties_below=self.ties_below)
        included = own.below(inclusion)
        size, members = w - included, set()
        for draw in range(size):
            bound = k - 1 - size + draw + 1
            chosen = Uniform(self.words, record, self.piece(first + draw + 1, 32), 32, draw=draw).times(bound)
            members.add(bound - 1 if chosen in members else chosen)
        held = {m + (m >= code) for m in members} | ({code} if included else set())
        return pack([j in held for j in range(k)], (k + 7) // 8)

    def seed(self, element: int) -> int:
        """A hash function: the bulk word's two halves of 31 bits, or those of the first further word that has a and b in range."""
        word, i = self.word(element), 0
        while True:
            a, b = word & PRIME, word >> 31 & PRIME
            if 0 < a < PRIME and b < PRIME:
                return b << 31 | a
            word, i = self.words.more(MORE, element, 0, i // 8)[i % 8], i + 1

    def hashing(self, element: int, code: int, q: Probability, g: int) -> tuple[int, int]:
        """A seed, and the k-ary response of the hashed code."""
        seed = self.seed(element)
        hashed = ((seed & PRIME) * code + (seed >> 31)) % PRIME % g
        return seed, self.kary(element, hashed, q, g)

    def hadamard(self, element: int, code: int, k: int, p_flip: Probability) -> tuple[int, bool]:
        """A row, and its sign in the code's column, flipped with probability p_flip."""
        word = self.word(element)
        row = word & ((1 << (k - 1).bit_length()) - 1)
        flipped = Uniform(self.words, element, word >> 32, 32, MORE, ties_below=self.ties_below).below(p_flip)
        return row, ((row & code).bit_count() % 2 == 0) ^ flipped

    def projective(self, element: int, code: int, field: SmallField, t: int, p: Probability) -> int:
        """The number of a point: a side by the upper half of the word, its point by the lower half, from the equation by trial."""
        points, q, word = projective_points(field.q, t), field.q, self.word(element)
        inside = Uniform(self.words, element, word >> 32, 32, MORE, ties_below=self.ties_below).below(p)
        bound = (q ** (t - 1) - 1) // (q - 1) if inside else q ** (t - 1)
        choice = Uniform(self.words, element, word & 0xFFFFFFFF, 32, MORE_ACCEPT).times(bound)
        equation = points[code][::-1]
        solved = next(i for i in range(t) if equation[i])
        others = projective_points(q, t - 1)[choice] if inside else tuple(choice // q**i % q for i in range(t - 1))
        for own in range(q):
            y = (*others[:solved], own, *others[solved:])
            if field.inner(equation, y) == (0 if inside else 1):
                break
        last = next(a for a in reversed(y) if a)
        scale = next(a for a in range(q) if field.times(a, last) == 1)
        return points.index(tuple(field.times(scale, a) for a in y))

    # Vectors

    def sample(self, element: int, x: list[Any], bounds: list[tuple[float, float]], epsilon: float) -> tuple[int, bool]:
        """A coordinate by the upper half of the word, and a bit about it that starts with the lowest sixteen bits."""
        word = self.word(element)
        j = Uniform(self.words, element, word >> 32, 32, MORE).times(len(x))
        plus = tilted(epsilon, 2 * place(x[j], *bounds[j]) - 1)
        return j, Uniform(self.words, element, word & 0xFFFF, 16, ties_below=self.ties_below).below(plus)

    def hypercube(self, element: int, x: list[Any], bounds: list[tuple[float, float]], epsilon: float, least: int) -> list[int]:
        """The bytes of signs: a corner, and as many positions turned as the law of distances says, by a list of positions."""
        d = len(x)
        n_bits, n_draws = (d + 63) // 64, next(r for r in range(1, d + 1) if r * r >= d)
        first = element * (n_bits + 1 + n_draws)
        both = self.word(first + n_bits)
        masses = [Fraction(comb(d, s)) for s in range(d + 1)]
        likely = sum(masses[: d - least + 1])
        side = Uniform(self.words, element, both >> 32, 32, MORE_ACCEPT, ties_below=self.ties_below)
        is_likely = side.below(Probability(Fraction(0), likely, 2**d - likely, likely, Fraction(epsilon)))
        own = {s: masses[s] for s in range(d + 1) if (s <= d - least) == is_likely}
        u, total, distance = Uniform(self.words, element, both & 0xFFFFFFFF, 32, MORE_TABLE, ties_below=self.ties_below), Fraction(0), -1
        side_mass, last = sum(own.values()), max(own)
        for distance, mass in own.items():
            total += mass
            if distance == last or u.below(constant(total / side_mass)):
                break
        turned = [j for j in range(d) if self.word(first + j // 64) >> (j % 64) & 1]
        grows, draw = len(turned) < distance, 0
        others = sorted(set(range(d)).difference(turned)) if grows else turned
        while len(others) != (d - distance if grows else distance):
            others.pop(
                Uniform(self.words, element, self._draw_piece(first + n_bits + 1, element, 2 * n_draws, draw), 32, MORE, draw).times(
                    len(others)
                )
            )
            draw += 1
        held = set(others)
        signs = [self.uniform(element * d + j, 16).below(constant(place(x[j], *bounds[j]))) ^ ((j in held) != grows) for j in range(d)]
        return pack(signs, (d + 7) // 8)

    def _draw_piece(self, first: int, element: int, kept: int, draw: int) -> int:
        if draw < kept:
            return self.word(first + draw // 2) >> (32 * (draw % 2)) & 0xFFFFFFFF
        later = draw - kept
        return self.words.more(MORE_PARTNER, element, 0, later // 16)[later % 16 // 2] >> (32 * (later % 2)) & 0xFFFFFFFF


@dataclass(frozen=True)
class SmallField:
    """A field by its tables of sums and products."""

    q: int
    sums: list[list[int]]
    products: list[list[int]]

    def times(self, a: int, b: int) -> int:
        return self.products[a][b]

    def inner(self, a: tuple[int, ...], b: tuple[int, ...]) -> int:
        total = 0
        for x, y in zip(a, b, strict=True):
            total = self.sums[total][self.products[x][y]]
        return total


@lru_cache
def projective_points(q: int, t: int) -> list[tuple[int, ...]]:
    """Vectors whose last element but zeros is 1, ordered by the place of that one, then with the first element changing fastest."""
    return [(*reversed(before), 1, *[0] * (t - 1 - m)) for m in range(t) for before in product(range(q), repeat=m)]


def place(x: Any, lower: float, upper: float) -> Fraction:
    """Where a number lies between its bounds, clamped."""
    if x in {float("inf"), float("-inf")}:
        return Fraction(x > 0)
    return (min(max(Fraction(x), Fraction(lower)), Fraction(upper)) - Fraction(lower)) / (Fraction(upper) - Fraction(lower))


def pack(bits: Iterable[bool], width: int) -> list[int]:
    """Bits to bytes, the least significant first, by sums of powers of two."""
    number = sum(1 << j for j, bit in enumerate(bits) if bit)
    return list(number.to_bytes(width, "little"))


def codes(k: int, n: int, dtype: str = "int64", seed: int = 7) -> Array:
    """Codes in [0, k); the same for every call."""
    return np.random.default_rng(seed).integers(0, k, n).astype(dtype)
