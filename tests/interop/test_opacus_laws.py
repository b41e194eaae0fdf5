"""The law of the noise in the gradients that Opacus' optimizers release, against exact probabilities; error rate 10^-6 a test."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("opacus", reason="make test-interop PEER=opacus")

import torch

from dpcore import noise
from dpcore.interop import opacus
from dpcore.interop._seeds import stream_of
from dpcore.interop.opacus import _optimizers
from support import laws
from support.opacus_steps import KINDS, engine, optimizer_with, private, step

WIDTH = 1500
"""Inputs and outputs of the layer: 2.25·10^6 released numbers."""
EDGES = np.linspace(-5, 5, 81)
pytestmark = [pytest.mark.filterwarnings("ignore:noise of a torch.Generator"), pytest.mark.filterwarnings("ignore:Full backward hook")]


def scale_of(optimizer):
    """What the noise of the optimizer's step must have: worked out without the code that it checks."""
    radius = np.sqrt(np.sum(np.square(getattr(optimizer, "max_grad_norms", [optimizer.max_grad_norm]))))
    multiplier = optimizer.noise_multiplier
    if hasattr(optimizer, "unclipped_num_std"):
        multiplier = (multiplier**-2 - (2 * optimizer.unclipped_num_std) ** -2) ** -0.5
    return multiplier * radius


def released(kind, *, seed=5, noise_multiplier=0.8):
    """The noisy gradient of a step that `make_private` was asked for, without the gradient; and the scale that it must have."""
    ones = torch.full((4, WIDTH), 1.0)
    options = {}
    if kind == "adaptive":
        options = {"clipping": "adaptive", "target_unclipped_quantile": 0.5, "clipbound_learning_rate": 0.0, "max_clipbound": 10.0}
        options |= {"min_clipbound": 0.01, "unclipped_num_std": 3.0}
    elif kind == "per_layer":
        options = {"clipping": "per_layer", "radius": [0.6]}
    model = torch.nn.Linear(WIDTH, WIDTH, bias=False)
    model, optimizer, loader = private(model, (ones,), noise=noise_multiplier, seed=seed, **options)
    scale = scale_of(optimizer)
    step(model, optimizer, loader)
    # four gradients of equal numbers, each as long as its bound
    radius = getattr(optimizer, "max_grad_norms", [1.0])[0]
    return next(model.parameters()).grad.numpy().ravel() - 4 * radius / WIDTH, scale * opacus.sensitivity_factor(WIDTH**2, 46)


def fits(values, scale):
    counts = np.histogram(np.clip(values / scale, -7, 7), np.concatenate([[-8], EDGES, [8]]))[0]
    masses = laws.interval_masses(np.concatenate([[-np.inf], EDGES, [np.inf]]), "gaussian")
    return laws.p_value(counts, masses)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_have_gaussian_noise_of_the_stated_scale(kind):
    with opacus.install():
        values, scale = released(kind)
    assert fits(values, scale) > laws.ERROR_RATE


@pytest.mark.parametrize("kind", KINDS)
def test_a_twin_with_one_percent_too_little_noise_is_rejected(kind, monkeypatch):
    right = _optimizers.noise_scale
    monkeypatch.setattr(_optimizers, "noise_scale", lambda *arguments: 0.99 * right(*arguments))
    with opacus.install():
        values, scale = released(kind)
    assert fits(values, scale) < laws.ERROR_RATE


def test_the_engine_of_secure_has_the_same_law():
    model = torch.nn.Linear(WIDTH, WIDTH, bias=False)
    secured = opacus.secure(engine())
    model, optimizer, loader = private(model, (torch.zeros(4, WIDTH),), by=secured)
    step(model, optimizer, loader)
    assert fits(next(model.parameters()).grad.numpy().ravel(), opacus.sensitivity_factor(WIDTH**2, 46)) > laws.ERROR_RATE


def test_ghost_clipping_has_its_nominal_law():
    model = torch.nn.Linear(WIDTH, WIDTH, bias=False)
    records = torch.zeros(4, WIDTH), torch.zeros(4, dtype=torch.long)
    with opacus.install(sensitivity="nominal"):
        model, optimizer, criterion, loader = private(
            model, records, noise=0.7, grad_sample_mode="ghost", criterion=torch.nn.CrossEntropyLoss(reduction="sum")
        )
        inputs, labels = next(iter(loader))
        criterion(model(inputs), labels).backward()
        optimizer.step()
    assert fits(next(model.parameters()).grad.numpy().ravel(), 0.7) > laws.ERROR_RATE


def with_key(seed):
    """What the optimizer's stream is for a generator with this seed."""
    drawn = torch.randint(0, 256, (32,), dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))
    return stream_of(bytes(drawn.tolist()))


@pytest.mark.parametrize("kind", KINDS)
def test_released_numbers_are_the_sums_with_noise_rounded_once(kind):
    rng = np.random.default_rng(3)
    each = [torch.from_numpy(rng.normal(size=(70, *shape)).astype(np.float32)) for shape in ((40, 3), (70, 60), (7,))]
    with opacus.install():
        optimizer, parameters = optimizer_with(each, kind=kind, seed=11)
        optimizer.clip_and_accumulate()
        sums = [p.summed_grad.double().numpy() for p in parameters]
        unclipped = getattr(optimizer, "unclipped_num", None)
        scale = _optimizers.noise_scale(optimizer, _optimizers.Options("proved", None))
        optimizer.add_noise()
    assert scale == pytest.approx(scale_of(optimizer) * opacus.sensitivity_factor(4327, 167), rel=1e-12)
    stream = with_key(11)
    small = noise.gaussian(np.concatenate([sums[0].ravel(), sums[2]]), scale, rng=stream).astype(np.float32)
    large = noise.gaussian(sums[1], scale, rng=stream).astype(np.float32)
    for p, expected in zip(parameters, (small[:120].reshape(40, 3), large, small[120:]), strict=True):
        assert p.grad.dtype == torch.float32
        assert np.array_equal(p.grad.numpy(), expected)
        assert p.summed_grad.data_ptr() == p.grad.data_ptr()
    if unclipped is not None:
        assert float(optimizer.unclipped_num) == np.float32(noise.gaussian(int(unclipped), 2.0, rng=stream))


def test_scales_are_rounded_up():
    from fractions import Fraction

    rng = np.random.default_rng(0)
    for _ in range(100):
        multiplier, radius = float(rng.uniform(0.1, 3)), float(np.float32(rng.uniform(0.1, 3)))
        least = Fraction(multiplier) * Fraction(radius)
        assert least <= Fraction(_optimizers._scale(multiplier, None, (radius,), None)) <= least * (1 + Fraction(1, 2**51))
        both = _optimizers._scale(multiplier, 2.0, (radius, 1.5), None)
        square = 1 / (1 / Fraction(multiplier) ** 2 - Fraction(1, 16)) * (Fraction(radius) ** 2 + Fraction(9, 4))
        assert square <= Fraction(both) ** 2 <= square * (1 + Fraction(1, 2**50))
