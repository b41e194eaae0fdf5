"""An audit of a trained step: it agrees with the claim, and refutes it if the noise is half of what it should be."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("opacus", reason="make test-interop PEER=opacus")

import torch

from dpcore import Privacy
from dpcore.accounting import gaussian_delta
from dpcore.audit import audit
from dpcore.interop import opacus
from dpcore.interop.opacus import _optimizers
from support.opacus_steps import engine

MULTIPLIER, EPSILON = 2.0, 0.8
CLAIM = Privacy(EPSILON, gaussian_delta(EPSILON, MULTIPLIER, 1.0))
RUNS = 16_000
pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook")


def trained(with_the_record, size, rng):
    """The weight after one step, `size` times: seven records, and one whose gradient is as long as the clipping bound."""
    records = torch.full((8, 1), 0.01)
    records[7] = 5.0 if with_the_record else 0.0
    model = torch.nn.Linear(1, 1, bias=False)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(records), batch_size=8)
    model, optimizer, loader = engine().make_private(
        module=model, optimizer=torch.optim.SGD(model.parameters(), lr=1.0), data_loader=loader, noise_multiplier=MULTIPLIER,
        max_grad_norm=1.0, poisson_sampling=False,
    )  # fmt: skip
    (inputs,) = next(iter(loader))
    weight, weights = next(model.parameters()), np.empty(size)
    for i in range(size):
        with torch.no_grad():
            weight.zero_()
        optimizer.zero_grad()
        model(inputs).mean().backward()
        optimizer.step()
        weights[i] = weight.item()
    return weights


def test_a_trained_step_keeps_the_claim():
    with opacus.install():
        found = audit(trained, False, True, privacy=CLAIM, runs=RUNS, confidence=1 - 1e-6, events=["values"])
    assert not found.refuted
    assert found.epsilon_lower > 0.25, "the audit sees the record"


def test_a_trained_step_with_half_the_noise_is_refuted(monkeypatch):
    right = _optimizers.noise_scale
    monkeypatch.setattr(_optimizers, "noise_scale", lambda *arguments: right(*arguments) / 2)
    with opacus.install():
        found = audit(trained, False, True, privacy=CLAIM, runs=RUNS, confidence=1 - 1e-6, events=["values"])
    assert found.refuted
