"""Measurements of Tumult Core, and what every test of `dpcore.interop.tumult` needs of it."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from dpcore.interop import tumult
from support import laws
from support.kernels import Array, Law

with warnings.catch_warnings():  # of distutils, of pandas and of pyspark, about each other
    warnings.simplefilter("ignore")
    import pandas as pd
    from tmlt.core import exceptions
    from tmlt.core.domains.numpy_domains import NumpyFloatDomain, NumpyIntegerDomain
    from tmlt.core.measurements import noise_mechanisms
    from tmlt.core.measurements.pandas_measurements.series import AddNoiseToSeries
    from tmlt.core.utils.exact_number import ExactNumber

WIDENS = version("tmlt.core").startswith("0.19.")
"""Whether numbers of another type than a mechanism's domain are taken: Tumult Core 0.20 refuses them."""
OutOfDomainError = exceptions.OutOfDomainError
MECHANISMS = ("AddLaplaceNoise", "AddGeometricNoise", "AddGaussianNoise", "AddDiscreteGaussianNoise")
WHOLE = {"AddGeometricNoise", "AddDiscreteGaussianNoise"}


def mechanism(name: str, parameter: Any, *, whole_input: bool = False) -> Any:
    """One of Tumult's noise measurements; the parameter is a scale, or a variance for Gaussians."""
    domain = NumpyIntegerDomain() if whole_input else NumpyFloatDomain()
    maker = getattr(noise_mechanisms, name)
    return maker(ExactNumber(parameter)) if name in WHOLE else maker(domain, ExactNumber(parameter))


def series(name: str, parameter: Any) -> Any:
    """The measurement on a Series."""
    return AddNoiseToSeries(mechanism(name, parameter))


def zeros(name: str, n: int) -> Any:
    """A Series of zeros of the type that the measurement takes."""
    return pd.Series(np.zeros(n, np.int64 if name in WHOLE else np.float64))


def fit(name: str, parameter: float, noise: Array) -> float:
    """p-value of the χ² test of noise against the exact law of a measurement."""
    scale = parameter if name in {"AddLaplaceNoise", "AddGeometricNoise"} else parameter**0.5
    if name in WHOLE:
        kind = "discrete_laplace" if name == "AddGeometricNoise" else "discrete_gaussian"
        reach = int(40 * scale) + 40
        return laws.p_value(laws.count(noise, reach), laws.integers_law(Law(kind, scale), reach))
    kind = "laplace" if name == "AddLaplaceNoise" else "gaussian"
    edges = np.concatenate([[-np.inf], np.linspace(-6, 6, 97), [np.inf]])
    counts = np.histogram(noise / scale, np.concatenate([[-1e300], edges[1:-1], [1e300]]))[0]
    return laws.p_value(counts, laws.interval_masses(edges, kind))


def attributes() -> Iterator[tuple[str, int]]:
    """Identities of all that the classes concerned have themselves."""
    for owner in (AddNoiseToSeries, *(getattr(noise_mechanisms, name) for name in MECHANISMS)):
        yield from ((f"{owner.__name__}.{name}", id(value)) for name, value in vars(owner).items())


def served() -> bool:
    """Whether dpcore's methods are in place, in this process."""
    return tumult._INSTALLATION.active and AddNoiseToSeries.__call__.__module__ == "dpcore.interop.tumult"


@contextlib.contextmanager
def spark_session(warehouse: Path) -> Iterator[Any]:
    """A session of Spark with two workers, with the settings that Tumult Analytics asks for."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    options = {
        "spark.ui.enabled": "false",
        "spark.sql.warehouse.dir": str(warehouse),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "4",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in options.items():
        builder = builder.config(name, value)
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("OFF")
    yield made
    made.stop()
