"""Mechanisms that are broken on purpose, each in a way that has been published or shipped, and what they claim."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpcore import Privacy, _backend, local, mechanisms, noise, selection
from dpcore.rng import Stream
from support.kernels import Array

Run = Callable[[Any, int, Stream], Array]


def generator(rng: Stream) -> np.random.Generator:
    """NumPy's generator, seeded from a stream."""
    position = rng.position()
    return np.random.default_rng([position.nonce, *bytes(position.key)])


@dataclass(frozen=True)
class Broken:
    """A broken mechanism, two neighbours that show it, and the claim."""

    name: str
    run: Run
    x0: Any
    x1: Any
    privacy: Privacy
    at_least: float
    """A loss that the audit must prove; the true one is larger."""
    n: int = 400_000

    def __str__(self) -> str:
        return self.name


def half_the_noise(x: float, size: int, rng: Stream) -> Array:
    """Scale Δ/2ε, from a sensitivity halved by mistake."""
    return noise.laplace(np.full(size, x), 0.5, rng=rng)


def largest_instead_of_sum(x: Any, size: int, rng: Stream) -> Array:
    """Sensitivity in ℓ∞ where Laplace noise needs ℓ1."""
    return mechanisms.Laplace(1.0, 1.0).release(np.broadcast_to(x, (size, 2)), rng=rng)


def truncated_towards_zero(x: int, size: int, rng: Stream) -> Array:
    """Discrete noise by int(): −1 < w < 1 all become 0, which is twice as probable as it should be."""
    return x + np.trunc(noise.laplace(np.zeros(size), 1.0, rng=rng)).astype(np.int64)


def numpys_laplace(x: float, size: int, rng: Stream) -> Array:
    """Floats all the way: low bits betray x (Mironov)."""
    return x + generator(rng).laplace(0.0, 1.0, size)


def numpys_gaussian(x: float, size: int, rng: Stream) -> Array:
    """The same with normal noise."""
    return x + generator(rng).normal(0.0, mechanisms.Gaussian(1.0, 1e-3, 1.0).scale, size)


def grid_of_the_noise(x: float, size: int, rng: Stream) -> Array:
    """Noise is put on a grid and then added: the sum keeps what x has below the grid."""
    return x + noise.laplace(np.zeros(size), 1.0, grid=2.0**-6, rng=rng)


def noise_that_is_missing(x: float, size: int, rng: Stream) -> Array:
    """A rare branch, say for cached answers, forgets the noise."""
    rare = generator(rng).random(size) < 1e-3
    return np.where(rare, x, noise.laplace(np.full(size, x), 1.0, rng=rng))


def one_noise_for_two_answers(x: Any, size: int, rng: Stream) -> Array:
    """A scalar is drawn where an array was meant, and broadcast."""
    return np.asarray(x) + noise.laplace(np.zeros((size, 1)), 2.0, grid=2.0**-20, rng=rng)


def coin_of_few_bits(x: bool, size: int, rng: Stream) -> Array:
    """The flip's probability 1/(1 + e^2) rounded down to sixty-fourths."""
    flip = math.floor(64 / (1 + math.exp(2))) / 64
    return (generator(rng).random(size) < flip) ^ x


def keeps_too_often(x: int, size: int, rng: Stream) -> Array:
    """k-ary response that keeps with the binary one's probability e^ε/(e^ε + 1)."""
    plain = generator(rng)
    other = (x + plain.integers(1, 8, size)) % 8
    return np.where(plain.random(size) < 1 / (1 + math.exp(-1.0)), x, other)


def printed_mean(x: float, size: int, rng: Stream) -> Array:
    """Private inference (chapter 9), Algorithm 9.2.1 as printed: σ² = 4R²d·ln(1/δ)/(n²ε²), for n = 1, R = ½, d = 1, ε = 3, δ = 10^-3."""
    return noise.gaussian(np.full(size, x), math.sqrt(math.log(1e3)) / 3, rng=rng)


def classical_beyond_one(x: float, size: int, rng: Stream) -> Array:
    """Private inference (chapter 9), Definition 9.1.4 at ε = 6, where its proof fails: σ = Δ√(2 ln(1.25/δ))/ε, δ = 0.2."""
    return noise.gaussian(np.full(size, x), math.sqrt(2 * math.log(6.25)) / 6, rng=rng)


def gaussian_sold_as_pure(x: float, size: int, rng: Stream) -> Array:
    """The δ of Gaussian noise left out of the claim."""
    return mechanisms.Gaussian(1.0, 0.1, 1.0).release(np.full(size, x), rng=rng)


def clipped_noise(x: float, size: int, rng: Stream) -> Array:
    """Noise cut at five scales, to please a dashboard: what lies beyond is reached from one input only."""
    return x + np.clip(noise.laplace(np.zeros(size), 1.0, grid=2.0**-20, rng=rng), -5.0, 5.0)


def clamped_afterwards(x: float, size: int, rng: Stream) -> Array:
    """The bounds are applied to the noisy number, not to the record."""
    return np.clip(noise.laplace(np.full(size, x), 1.0, rng=rng), -5.0, 5.0)


def winners(scores: Any, scale: float, size: int, rng: Stream, kind: str = "laplace") -> Array:
    """Noisy argmaxes at a scale of one's own."""
    return np.asarray(_backend.Selection(kind, np.asarray(scores), scale, 1, rng.position(), threads=1).winners(size))


def monotone_under_replacement(scores: Any, size: int, rng: Stream) -> Array:
    """Laplace(Δ/ε) for scores that move in opposite directions."""
    return winners(scores, 1.0, size, rng)


def exponential_without_two(scores: Any, size: int, rng: Stream) -> Array:
    """P(r) ∝ exp(εu_r/Δ), the 2 forgotten."""
    return selection.exponential_mechanism(scores, size * 1.0, 0.5, draws=size, rng=rng)


def every_round_spends_all(scores: Any, size: int, rng: Stream) -> Array:
    """Two picks, each at ε instead of ε/2."""
    plain = generator(rng)
    return np.argsort(-(np.asarray(scores) / 2 + plain.gumbel(size=(size, len(scores)))), axis=1)[:, :2]


def noisy_scores_released(scores: Any, size: int, rng: Stream) -> Array:
    """The largest noisy score beside its index: the noise that made the choice is not fresh."""
    noisy = noise.laplace(np.broadcast_to(scores, (size, len(scores))), 2.0, rng=rng)
    return np.stack([noisy.argmax(axis=1), noisy.max(axis=1)], axis=1)


def whole_budget_for_every_bit(x: int, size: int, rng: Stream) -> Array:
    """Symmetric unary encoding with e^ε where e^(ε/2) belongs."""
    return local.UnaryEncoding(2.0, k=8, method="symmetric").privatize(np.full(size, x), rng=rng)


def seed_from_the_record(x: int, size: int, rng: Stream) -> Array:
    """Local hashing whose hash function is derived from the record."""
    reports = local.LocalHashing(1.0, k=16).privatize(np.full(size, x), rng=rng)
    reports["seed"] = reports["seed"] // 16 * 16 + x
    return reports


def noise_from_the_value(x: float, size: int, rng: Stream) -> Array:
    """A generator seeded with the answer, so that equal queries get equal answers."""
    return x + np.full(size, np.random.default_rng(int(x * 1000)).laplace())


ONE = Privacy(1.0)
BROKEN = (
    Broken("half the noise", half_the_noise, 0.0, 1.0, ONE, 1.9),
    Broken("largest instead of sum", largest_instead_of_sum, [0.0, 0.0], [1.0, 1.0], ONE, 1.8),
    Broken("truncated towards zero", truncated_towards_zero, 0, 1, ONE, 1.6),
    Broken("NumPy's Laplace", numpys_laplace, 0.0, 1.0, ONE, 5.0),
    Broken("NumPy's normal", numpys_gaussian, 0.0, 1.0, Privacy(1.0, 1e-3), 5.0),
    Broken("grid of the noise", grid_of_the_noise, 0.0, 1 / 3, ONE, 5.0),
    Broken("noise that is missing", noise_that_is_missing, 0.0, 1.0, ONE, 2.0),
    Broken("one noise for two answers", one_noise_for_two_answers, [0.0, 0.0], [1.0, 0.0], ONE, 5.0),
    Broken("coin of few bits", coin_of_few_bits, False, True, Privacy(2.0), 2.04),
    Broken("keeps too often", keeps_too_often, 0, 5, ONE, 2.5),
    Broken("printed mean", printed_mean, 0.0, 1.0, Privacy(3.0, 1e-3), 3.05, 3_000_000),
    Broken("classical beyond one", classical_beyond_one, 0.0, 1.0, Privacy(6.0, 0.2), 6.1, 3_000_000),
    Broken("Gaussian sold as pure", gaussian_sold_as_pure, 0.0, 1.0, ONE, 1.5),
    Broken("clipped noise", clipped_noise, 0.0, 1.0, ONE, 2.0),
    Broken("clamped afterwards", clamped_afterwards, 0.0, 3.0, ONE, 2.5),
    Broken("monotone under replacement", monotone_under_replacement, (0.0, 8.0), (1.0, 7.0), ONE, 1.2, 600_000),
    Broken("exponential without the two", exponential_without_two, (0.0, 2.0, 2.0, 2.0), (1.0, 1.0, 1.0, 1.0), ONE, 1.3),
    Broken("every round spends all", every_round_spends_all, (0.0, 0.0, 2.0, 2.0, 2.0, 2.0), (1.0,) * 6, ONE, 1.2),
    Broken("noisy scores released", noisy_scores_released, (0.0,) * 5, (1.0,) * 5, ONE, 2.0),
    Broken("whole budget for every bit", whole_budget_for_every_bit, 1, 6, ONE, 1.8),
    Broken("seed from the record", seed_from_the_record, 3, 11, ONE, 5.0),
    Broken("noise from the value", noise_from_the_value, 0.0, 1.0, ONE, 5.0),
)
