"""Models, optimizers and steps of Opacus for the tests of dpcore.interop.opacus."""

from __future__ import annotations

import warnings

import torch
from opacus import PrivacyEngine
from opacus.optimizers import AdaClipDPOptimizer, DPOptimizer, DPPerLayerOptimizer

torch.set_num_threads(1)  # the models are small, and several processes share the tests
KINDS = ("flat", "per_layer", "adaptive")
RADII = (0.5, 1.25, 0.75)


def engine() -> PrivacyEngine:
    """An engine, without its advice to turn on what torch no longer has."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return PrivacyEngine()


def private(model, records, *, by=None, batch=8, noise=1.0, poisson=False, seed=None, loader=None, **options):
    """Model, optimizer and loader of `make_private` for records with a label each."""
    data = torch.utils.data.TensorDataset(*records)
    loader = loader or torch.utils.data.DataLoader(data, batch_size=batch)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    generator = None if seed is None else torch.Generator().manual_seed(seed)
    return (engine() if by is None else by).make_private(
        module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=noise, max_grad_norm=options.pop("radius", 1.0),
        poisson_sampling=poisson, noise_generator=generator, loss_reduction=options.pop("loss_reduction", "sum"), **options,
    )  # fmt: skip


def step(model, optimizer, loader):
    """One step on the first batch, with the sum of the outputs as loss."""
    optimizer.zero_grad()
    model(next(iter(loader))[0]).sum().backward()
    optimizer.step()


def optimizer_with(gradients, *, kind="flat", noise=1.0, radius=1.0, expected=None, seed=None, **options):
    """An optimizer of parameters whose per-sample gradients are given, and the parameters."""
    parameters = [torch.nn.Parameter(torch.zeros(each.shape[1:])) for each in gradients]
    for p, each in zip(parameters, gradients, strict=True):
        p.grad_sample = each
    generator = None if seed is None else torch.Generator().manual_seed(seed)
    common = {
        "noise_multiplier": noise,
        "expected_batch_size": len(gradients[0]) if expected is None else expected,
        "loss_reduction": "sum",
        "generator": generator,
    } | options
    wrapped = torch.optim.SGD(parameters, lr=1.0)
    if kind == "per_layer":
        return DPPerLayerOptimizer(wrapped, max_grad_norm=list(RADII[: len(parameters)]), **common), parameters
    if kind == "adaptive":
        adaptive = {
            "target_unclipped_quantile": 0.5, "clipbound_learning_rate": 0.2, "max_clipbound": 10.0, "min_clipbound": 0.01,
            "unclipped_num_std": 2.0,
        }  # fmt: skip
        return AdaClipDPOptimizer(wrapped, max_grad_norm=radius, **adaptive, **common), parameters
    return DPOptimizer(wrapped, max_grad_norm=radius, **common), parameters
