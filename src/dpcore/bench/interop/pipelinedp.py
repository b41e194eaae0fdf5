"""PipelineDP's noise on the arrays of `DPEngine.add_dp_noise`: on one of a million values, and on pipelines of small ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from dpcore.bench.benchmark import Benchmark, Plan, Side, Work
from dpcore.bench.interop._methods import method_of
from dpcore.interop import pipelinedp

EPSILON, DELTA, SENSITIVITY = 1.0, 1e-6, 1.0
KINDS = ("LAPLACE", "GAUSSIAN")
VALUES, FEW = 10**6, 10**4
"""Values in the array that dpcore gets in a call, and in the one that PipelineDP gets: its time a value does not depend on them."""
ARRAYS, LENGTH = 1000, 24
"""Arrays of a pipeline, and values in each."""


def mechanism(kind: str) -> Any:
    """A mechanism of PipelineDP.

    Parameters
    ----------
    kind : {"LAPLACE", "GAUSSIAN"}
        Of the noise.
    """
    computations = import_module(pipelinedp.MECHANISMS)
    if kind == "LAPLACE":
        return computations.LaplaceMechanism.create_from_epsilon(EPSILON, SENSITIVITY)
    return computations.GaussianMechanism.create_from_epsilon_delta(EPSILON, DELTA, SENSITIVITY)


def method(*, served: bool) -> Callable[[Any, Any], Any]:
    """``AdditiveMechanism.add_noise``: PipelineDP's own, or the one that `install` puts there.

    Parameters
    ----------
    served : bool
        Whether dpcore's is wanted.
    """
    owner = import_module(pipelinedp.MECHANISMS).AdditiveMechanism
    return method_of(owner, "add_noise", pipelinedp.install, served=served)


def pipeline(kind: str, *, served: bool) -> dict[int, Any]:
    """Run a pipeline on the local backend that adds noise to many small arrays, and return its collection.

    Parameters
    ----------
    kind : {"LAPLACE", "GAUSSIAN"}
        Of the noise.
    served : bool
        Whether dpcore is installed meanwhile.
    """
    peer = import_module("pipeline_dp")
    budget = peer.NaiveBudgetAccountant(total_epsilon=EPSILON, total_delta=DELTA)
    params = peer.AddDPNoiseParams(noise_kind=peer.NoiseKind[kind], l1_sensitivity=SENSITIVITY, l2_sensitivity=SENSITIVITY)
    column = list(enumerate(np.zeros((ARRAYS, LENGTH))))
    released = peer.DPEngine(budget, peer.LocalBackend()).add_dp_noise(column, params)
    budget.compute_budgets()
    if not served:
        return dict(released)
    with pipelinedp.install():
        return dict(released)


def _check(size: int, made: Any, result: Any) -> None:
    array = np.concatenate(list(result.values())) if isinstance(result, dict) else result
    if array.shape != (size,) or array.dtype != np.float64 or not 0.8 < float(array.std()) / made.std < 1.25:
        raise AssertionError("shape, type or spread of the result is wrong")


def _on_array(kind: str) -> Benchmark:
    def prepare(made: Any, *, served: bool) -> Work:
        return partial(method(served=served), made, np.zeros(VALUES if served else FEW))

    native = Side(
        name="PipelineDP's loop", prepare=partial(prepare, served=False), package="pipeline_dp", safe=True, size=FEW,
        check=partial(_check, FEW),
    )  # fmt: skip
    return Benchmark(
        group="interop", name=f"PipelineDP: {kind.capitalize()} noise on an array", size=VALUES, inputs=partial(mechanism, kind),
        package="pipeline_dp", ours=partial(prepare, served=True), sides=(native,), check=partial(_check, VALUES),
    )  # fmt: skip


def _on_pipeline(kind: str) -> Benchmark:
    def prepare(_made: Any, *, served: bool) -> Work:
        return partial(pipeline, kind, served=served)

    size = ARRAYS * LENGTH
    native = Side(
        name="PipelineDP alone", prepare=partial(prepare, served=False), package="pipeline_dp", safe=True, check=partial(_check, size)
    )
    return Benchmark(
        group="interop", name=f"PipelineDP: {kind.capitalize()} noise on {ARRAYS} arrays of {LENGTH}, the whole pipeline", size=size,
        inputs=partial(mechanism, kind), package="pipeline_dp", ours=partial(prepare, served=True), sides=(native,),
        check=partial(_check, size),
    )  # fmt: skip


def benchmarks(_plan: Plan) -> Iterator[Benchmark]:
    """Both kinds of noise, on a large array and in a pipeline of small ones.

    Parameters
    ----------
    _plan : Plan
        Not used.
    """
    for kind in KINDS:
        yield _on_array(kind)
        yield _on_pipeline(kind)
