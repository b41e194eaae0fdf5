"""What tests of channel matrices share: exact values in 400 digits, the oracles in all sizes that can be listed, and log ratios."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from dpcore.local import HadamardResponse, KaryResponse, LocalHashing, SubsetSelection, UnaryEncoding

MP = mpmath.MPContext()
MP.dps = 400  # e^−700 and what is left of 1 beside it
EPSILONS = [0.01, 0.5, 1.0, 2.0, 5.0, 20.0, 50.0]
EXTREME = [2.0**-20, 200.0, 700.0]
SLACK = 1e-12


def symmetric(epsilon, k):
    return UnaryEncoding(epsilon, k=k, method="symmetric")


def optimal(epsilon, k):
    return UnaryEncoding(epsilon, k=k, method="optimal")


ENUMERABLE = [(KaryResponse, (2, 3, 7, 40)), (optimal, (2, 3, 6)), (symmetric, (2, 3, 6)), (SubsetSelection, (2, 3, 5, 9))]
ENUMERABLE += [(HadamardResponse, (2, 3, 5, 16))]
ORACLES = [(kind, k) for kind, ks in ENUMERABLE for k in ks]
HASHED = [(LocalHashing, k) for k in (2, 3, 30)]


def each(cases):
    return pytest.mark.parametrize(("kind", "k"), cases, ids=lambda value: getattr(value, "__name__", None))


def exact_exp(epsilon):
    return MP.exp(MP.mpf(epsilon))


def nearest(x):
    """The float64 nearest to a number of many digits."""
    sign, mantissa, exponent, _ = MP.mpf(x)._mpf_
    return float((-1) ** sign * Fraction(int(mantissa)) * Fraction(2) ** exponent)


def seed_of(a, b):
    return b << 31 | a


def channel_of(mechanism):
    """The channel; hashing's under h(v) = v mod g, which tells 0 from 1."""
    return mechanism.channel(seed_of(1, 0)) if isinstance(mechanism, LocalHashing) else mechanism.channel()


def log_ratio(channel):
    """max ln P(y|x)/P(y|x')."""
    return float(np.log(channel.max(axis=0) / channel.min(axis=0)).max())


def assert_stochastic(channel):
    assert channel.dtype == np.float64
    assert (channel > 0).all()
    assert all(abs(math.fsum(row) - 1) <= 2.0**-52 for row in channel.tolist())


# Rows of finite channels for the kernels: integers, and their sum


def dyadic(outcomes, inputs, bits=62):
    """Random rows over 2^bits, none of them private."""
    weights = np.random.default_rng(outcomes).exponential(1.0, (inputs, outcomes))
    rows = np.floor(weights / weights.sum(axis=1, keepdims=True) * 2.0**bits).astype(np.int64)
    rows[:, -1] += 2**bits - rows.sum(axis=1)
    return rows, 2**bits


def plain(outcomes, inputs):
    """Rows by a formula, which no version of a generator changes."""
    rows = np.array([[1 + (7 * x + 3 * z * z) % 11 for z in range(outcomes)] for x in range(inputs)])
    rows[:, 0] += 500 - rows.sum(axis=1)
    return rows, 500


def thirds(inputs):
    """Three outcomes over 3·7^20: no end but 0 and 1 has a finite expansion."""
    third = 7**20
    return np.array([[third + x, third - 2 * x, third + x] for x in range(inputs)]), 3 * third


def clustered(outcomes):
    """Nearly all outcomes are next to impossible, some are quite, and their ends meet in few cells."""
    rows = np.ones((3, outcomes), np.int64)
    rows[:, ::7] = 0
    rows[0, 5], rows[1, -1], rows[2, outcomes // 2] = 2**40, 2**40, 2**40
    rows[:, 1] += rows.sum(axis=1).max() - rows.sum(axis=1)
    return rows, int(rows[0].sum())


def big(inputs):
    """Integers beyond 64 bits, over 3^60."""
    rows = np.array([[3**59 + x, 7**10, 3**58, 0] for x in range(inputs)], object)
    rows[:, 3] = 3**60 - rows.sum(axis=1)
    return rows, 3**60
