"""Pipelines of PipelineDP on its local backend, and what every test of `dpcore.interop.pipelinedp` needs of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pipeline_dp
from pipeline_dp import dp_computations

from dpcore.interop import pipelinedp
from support import laws
from support.kernels import Array

KINDS = ("LAPLACE", "GAUSSIAN")
ACCOUNTANTS = ("NaiveBudgetAccountant", "PLDBudgetAccountant")
EPSILON, DELTA, SENSITIVITY = 0.7, 1e-6, 3.0


def parameters(kind: str, **more: Any) -> Any:
    """Noise of one kind, for arrays that a unit changes by at most `SENSITIVITY`."""
    norm = "l1_sensitivity" if kind == "LAPLACE" else "l2_sensitivity"
    return pipeline_dp.AddDPNoiseParams(noise_kind=pipeline_dp.NoiseKind[kind], **{norm: SENSITIVITY} | more)


def noised(kind: str, *values: Any, accountant: str = ACCOUNTANTS[0], **more: Any) -> list[Any]:
    """What `DPEngine.add_dp_noise` makes of values, each under a key of its own."""
    budget = getattr(pipeline_dp, accountant)(total_epsilon=EPSILON, total_delta=DELTA)
    engine = pipeline_dp.DPEngine(budget, pipeline_dp.LocalBackend())
    released = engine.add_dp_noise(list(enumerate(values)), parameters(kind, **more))
    budget.compute_budgets()
    return [value for _, value in released]


def mechanism(kind: str, *, epsilon: float = EPSILON, delta: float = DELTA, sensitivity: float = SENSITIVITY) -> Any:
    """PipelineDP's mechanism of a budget."""
    if kind == "LAPLACE":
        return dp_computations.LaplaceMechanism.create_from_epsilon(epsilon, sensitivity)
    return dp_computations.GaussianMechanism.create_from_epsilon_delta(epsilon, delta, sensitivity)


def fit(kind: str, scale: float, noise: Array) -> float:
    """p-value of the χ² test of noise against the exact law; the scale is b or σ."""
    edges = np.concatenate([[-np.inf], np.linspace(-6, 6, 97), [np.inf]])
    counts = np.histogram(noise / scale, np.concatenate([[-1e300], edges[1:-1], [1e300]]))[0]
    return laws.p_value(counts, laws.interval_masses(edges, kind.lower()))


def attributes() -> Iterator[tuple[str, int]]:
    """Identities of all that the classes concerned have themselves."""
    for owner in (dp_computations.AdditiveMechanism, dp_computations.LaplaceMechanism, dp_computations.GaussianMechanism):
        yield from ((f"{owner.__name__}.{name}", id(value)) for name, value in vars(owner).items())


def served() -> bool:
    """Whether dpcore's method is in place, in this process."""
    home = dp_computations.AdditiveMechanism.add_noise.__globals__["__name__"]
    return pipelinedp._INSTALLATION.active and home == "dpcore.interop.pipelinedp"
