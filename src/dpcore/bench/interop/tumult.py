"""Tumult Core's noise on a Series, as its pandas UDFs call it in Spark's workers, and on a number."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from dpcore.bench.benchmark import Benchmark, Plan, Side, Work
from dpcore.bench.interop._methods import method_of
from dpcore.interop import tumult

PARAMETER = 3
VALUES, FEW = 10**6, 300
"""Values that a call handles here, and those that Tumult's loop gets: its time per value does not depend on them."""
KINDS = tuple(tumult.KINDS)


def measurement(name: str) -> Any:
    """A noise measurement of Tumult.

    Parameters
    ----------
    name : str
        Its class.
    """
    maker = getattr(import_module(tumult.MECHANISMS), name)
    domains = import_module("tmlt.core.domains.numpy_domains")
    return maker(PARAMETER) if _is_whole(name) else maker(domains.NumpyFloatDomain(), PARAMETER)


def method(name: str, *, served: bool) -> Callable[[Any, Any], Any]:
    """``__call__`` of one of Tumult's classes: its own, or the one that `install` puts there.

    Parameters
    ----------
    name : str
        Of the class.
    served : bool
        Whether dpcore's is wanted.
    """
    return method_of(getattr(import_module(tumult.MECHANISMS), name), "__call__", tumult.install, served=served)


def _is_whole(name: str) -> bool:
    return tumult.KINDS[name][0].startswith("discrete")


def _zeros(name: str, size: int) -> Any:
    return import_module("pandas").Series(np.zeros(size, np.int64 if _is_whole(name) else np.float64))


def _check_series(name: str, size: int, _inputs: Any, result: Any) -> None:
    wanted = np.int64 if _is_whole(name) else np.float64
    spread = float(result.std())
    likely = {"AddLaplaceNoise": 18.0, "AddGeometricNoise": 17.8}.get(name, 3.0) ** 0.5
    if len(result) != size or result.dtype != wanted or not 0.5 < spread / likely < 2:
        raise AssertionError(f"{name}: length, type or spread of the result is wrong")


def _ours_on_series(made: Any, *, name: str) -> Work:
    law = tumult.law_of(made)
    if law is None:
        raise AssertionError(f"{name}: not served")
    return partial(tumult.InTask(law, b""), _zeros(name, VALUES))


def _tumults_on_series(made: Any, *, name: str) -> Work:
    return partial(import_module(tumult.SERIES).AddNoiseToSeries(made), _zeros(name, FEW))


def _on_series(name: str) -> Benchmark:
    native = Side(
        name="Tumult's loop", prepare=partial(_tumults_on_series, name=name), package="tmlt", safe=True, size=FEW,
        check=partial(_check_series, name, FEW),
    )  # fmt: skip
    return Benchmark(
        group="interop", name=f"Tumult: {name} on a Series", size=VALUES, inputs=partial(measurement, name), package="tmlt",
        ours=partial(_ours_on_series, name=name), sides=(native,), check=partial(_check_series, name, VALUES),
    )  # fmt: skip


def _on_number(name: str) -> Benchmark:
    value = 3 if _is_whole(name) else 3.0

    def check(_made: Any, result: Any) -> None:
        if type(result) is not type(value):
            raise AssertionError(f"{name}: a number became {type(result).__name__}")

    def prepare(made: Any, *, served: bool) -> Work:
        return partial(method(name, served=served), made, value)

    native = Side(name="Tumult's sampler", prepare=partial(prepare, served=False), package="tmlt", safe=True, check=check)
    return Benchmark(
        group="interop", name=f"Tumult: {name} on a number", size=1, unit="call", character="call", inputs=partial(measurement, name),
        package="tmlt", ours=partial(prepare, served=True), sides=(native,), check=check,
    )  # fmt: skip


def benchmarks(_plan: Plan) -> Iterator[Benchmark]:
    """Each of Tumult's four noise measurements.

    Parameters
    ----------
    _plan : Plan
        Not used.
    """
    for name in KINDS:
        yield _on_series(name)
        yield _on_number(name)
