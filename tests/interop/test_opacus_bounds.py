"""The bound on the sensitivity of sums in float32, against exact arithmetic and with gradients that are made to break it."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

pytest.importorskip("opacus", reason="make test-interop PEER=opacus")

import torch

from dpcore.errors import ParameterError, ParameterTypeError
from dpcore.interop import opacus
from dpcore.interop.opacus import _bounds, _clipping
from support.opacus_steps import RADII, optimizer_with

U = 2.0**-24


def gradients(family, n, d, seed=0):
    """Per-sample gradients that are hard to clip or to add."""
    rng = np.random.default_rng(seed)
    if family == "normal":
        g = rng.normal(size=(n, d))
    elif family == "one direction":
        g = np.tile(rng.normal(size=d), (n, 1)) * rng.uniform(0.5, 2.0, (n, 1))
    elif family == "cancelling":
        g = rng.normal(size=(n, d)) * 2.0 ** rng.integers(0, 12, (n, 1))
        g[1::2] = -g[: 2 * (n // 2) : 2] * (1 + rng.normal(size=(n // 2, 1)) * 1e-4)
    elif family == "one large number":
        g = np.full((n, d), 2.0**-12.05)
        g[:, 0] = 1.0
    elif family == "exponents":
        g = rng.choice([-1, 1], (n, d)) * 2.0 ** rng.uniform(-60, 60, (n, d))
    elif family == "near the bound":
        g = rng.normal(size=(n, d))
        g /= np.linalg.norm(g, axis=1, keepdims=True) * (1 + rng.normal(size=(n, 1)) * 1e-6)
    elif family == "subnormal":
        g = rng.normal(size=(n, d)) * 2.0**-130
        g[:, 0] = 1.0
    else:
        raise AssertionError(family)
    return torch.from_numpy(g.astype(np.float32))


FAMILIES = ("normal", "one direction", "cancelling", "one large number", "exponents", "near the bound", "subnormal")
SHAPES = ((1, 1), (2, 3), (63, 17), (64, 5), (65, 4095), (130, 4097), (300, 40), (3, 10_000))


def exact_norm(row):
    """√Σx² of float32 numbers, whose squares float64 holds."""
    return math.sqrt(math.fsum(float(x) ** 2 for x in row))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_clipped_gradient_is_hardly_longer_than_its_bound(family, shape):
    n, d = shape
    g, radius = gradients(family, n, d), 1.0
    factor = _clipping.factors(_clipping.joined(_clipping.block_norms(g)), radius)
    allowed = radius * (1 + 2052 * U) * (1 + (d + 4) * 2.0**-53) * (1 + 2.0**-30)
    for c, row in zip(factor.tolist(), g.tolist(), strict=True):
        assert c * exact_norm(row) <= allowed


LAYOUTS = {
    "rows": torch.randn,
    "columns": lambda n, d: torch.randn(d, n).t(),
    "part of a row": lambda n, d: torch.randn(n, d + 5)[:, 2 : d + 2],
    "one row for all": lambda n, d: torch.randn(1, d).expand(n, d),
}


@pytest.fixture
def threads():
    """The number of threads as it was."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("d", [1, 2, 17, 1000, 4095, 4096, 4097, 12_288, 20_001])
def test_no_sample_changes_the_norm_of_another_one(layout, d, threads):
    """The proof needs it: where norms are rounded differently, all clipped gradients move."""

    def norms(rows):
        return _clipping.joined(_clipping.block_norms(_clipping.rows_of(rows)))

    g = LAYOUTS[layout](65, d)
    threads(1)
    alone = torch.cat([norms(row[None]) for row in g])
    for several in (1, 2):
        threads(several)
        for n in (1, 3, 64):
            assert torch.equal(norms(g[:n]), alone[:n])
            assert torch.equal(norms(g[65 - n :]), alone[65 - n :])


def test_in_columns_samples_change_the_norms_of_others():
    """The twin: what would happen if the layout were left as it comes."""
    g = torch.randn(1000, 64).t()
    alone = torch.cat([torch.linalg.vector_norm(row[None].contiguous(), dim=-1) for row in g])  # so is a batch of one laid out
    assert not torch.equal(torch.linalg.vector_norm(g, dim=-1), alone)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("batches", [1, 3])
def test_each_coordinate_of_the_sum_has_the_error_of_its_roundings(family, shape, batches):
    n, d = shape
    g = gradients(family, n, d)
    factor = _clipping.factors(_clipping.joined(_clipping.block_norms(g)), 1.0)
    total = None
    for rows in np.array_split(np.arange(n), batches):
        total = _clipping.add_clipped(total, factor[rows], g[rows], g.shape[1:])
    terms = factor.double()[:, None].numpy() * g.double().numpy()  # exact: 24 bits by 24 bits
    hu = _bounds.roundings(n) * U
    for j in np.random.default_rng(1).permutation(d)[:8]:
        error = abs(Fraction(float(total[j])) - sum(map(Fraction, terms[:, j].tolist())))
        assert error <= hu / (1 - hu) * math.fsum(np.abs(terms[:, j])) * (1 + 1e-9) + 2 * n * 2.0**-126


@pytest.mark.parametrize("kind", ["flat", "per_layer"])
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("shape", [(2, 3), (65, 50), (300, 40), (70, 4100)], ids=str)
def test_sums_of_neighbours_are_no_further_apart_than_the_bound(kind, family, shape):
    n, d = shape
    g = [gradients(family, n, d, seed=1), gradients(family, n, 7, seed=2)]

    def summed(rows):
        optimizer, parameters = optimizer_with([each[rows] for each in g], kind=kind, expected=n)
        with opacus.install():
            optimizer.clip_and_accumulate()
        return np.concatenate([p.summed_grad.double().numpy().ravel() for p in parameters])

    everyone = summed(np.arange(n))
    radius = 1.0 if kind == "flat" else math.hypot(*RADII[:2])
    for left_out in {0, 1, n // 2, n - 1}:
        distance = np.linalg.norm(everyone - summed(np.delete(np.arange(n), left_out)))
        assert distance <= radius * opacus.sensitivity_factor(d + 7, n)


def test_a_gradient_that_opacus_clips_too_little_is_clipped():
    """Squares that are too small for the sum so far are lost where float32 adds four million of them."""
    d = 1 << 22
    g = torch.full((1, d), 2.0**-11.05)
    g[0, :64] = 1.0
    wanted = exact_norm(g[0].tolist())
    native, parameters = optimizer_with([g.clone()])
    native.clip_and_accumulate()
    length = float(parameters[0].summed_grad.double().norm())
    assert length > 1.003, "the twin: Opacus' own clipping must be found out"
    ours, parameters = optimizer_with([g])
    with opacus.install():
        ours.clip_and_accumulate()
    assert wanted > 1
    assert float(parameters[0].summed_grad.double().norm()) <= opacus.sensitivity_factor(d, 1)


def test_the_factor_is_its_formula():
    for d, n in ((1, 1), (10**6, 64), (10**7, 158), (2**33, 2**24)):
        h = 66 + max(0, math.ceil(math.log2(math.ceil(n / 64))))
        factor = (1 + 2052 * U) * (1 + (d + 4) / 2**53) * (1 + 2 * n * h * U / (1 - h * U)) * (1 + 2**-28)
        assert opacus.sensitivity_factor(d, n) == pytest.approx(factor, rel=1e-14)
        assert opacus.sensitivity_factor(d, n) >= 1
    assert opacus.sensitivity_factor(10**7, 158) < 1.0015


def test_the_factor_grows():
    for smaller, larger in (((10, 64), (10, 65)), ((10, 64), (11, 64)), ((10**9, 64), (10**10 // 2, 64))):
        assert opacus.sensitivity_factor(*smaller) <= opacus.sensitivity_factor(*larger)


@pytest.mark.parametrize(("sizes", "error"), [((0, 1), ParameterError), ((1, 0), ParameterError), ((1, 2**24 + 1), ParameterError),
                                              ((2**33 + 1, 1), ParameterError), ((1.5, 1), ParameterTypeError)])  # fmt: skip
def test_sizes_out_of_range(sizes, error):
    with pytest.raises(error):
        opacus.sensitivity_factor(*sizes)


def test_roots_are_rounded_up():
    rng = np.random.default_rng(0)
    for _ in range(300):
        square = Fraction(float(rng.uniform(0.5, 2))) * Fraction(2) ** int(rng.integers(-200, 200)) / int(rng.integers(1, 10**6))
        root = Fraction(_bounds.root_up(square))
        assert root**2 >= square
        assert root <= Fraction(math.sqrt(square)) * (1 + Fraction(1, 2**50))


@pytest.mark.parametrize("expected", [1, 7, 64, 1000.5, 10_000])
def test_a_poisson_batch_exceeds_its_limit_hardly_ever(expected):
    """Chernoff's bound of the Poisson law, which is above that of every binomial law with the mean, at the limit."""
    mean = expected + 1
    limit = _bounds.samples_limit(expected, 1)
    log_tail = limit - mean - limit * math.log(limit / mean)
    assert log_tail <= -64 * math.log(2)
    assert _bounds.samples_limit(expected, 3) == 3 * limit


@pytest.mark.parametrize("kind", ["flat", "per_layer"])
def test_a_parameter_without_numbers_and_one_without_dimensions(kind):
    optimizer, parameters = optimizer_with([torch.ones(5, 0, 3), torch.ones(5)], kind=kind)
    with opacus.install():
        optimizer.step()
    assert [p.grad.shape for p in parameters] == [(0, 3), ()]
    assert parameters[1].grad.isfinite()


def test_a_batch_of_nobody_is_a_sum_of_zeros():
    optimizer, parameters = optimizer_with([torch.zeros(0, 3, 2), torch.zeros(0, 4)], expected=4)
    with opacus.install():
        optimizer.clip_and_accumulate()
    assert [p.summed_grad.shape for p in parameters] == [(3, 2), (4,)]
    assert not any(bool(p.summed_grad.any()) for p in parameters)
