"""Tables, metadata and mechanisms of SmartNoise SQL, and what every test of `dpcore.interop.smartnoise` needs of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpcore.interop import smartnoise
from support import laws
from support.kernels import Array

pytest.importorskip("snsql", reason="make test-interop PEER=smartnoise")

import snsql
from snsql import Privacy
from snsql.sql import PrivateReader
from snsql.sql._mechanisms import Gaussian, Laplace
from snsql.sql.privacy import Mechanism, Mechanisms, Stat

OPTIONS = {"row_privacy": True, "rows": 1000, "censor_dims": False, "clamp_counts": False}
COLUMNS = {
    "age": {"type": "int", "lower": 0, "upper": 100},
    "income": {"type": "float", "lower": 0.0, "upper": 500_000.0},
    "educ": {"type": "int", "lower": 1, "upper": 16},
}
BY_EDUCATION = "SELECT educ, COUNT(*) AS n, SUM(age) AS years, SUM(income) AS income FROM PUMS.PUMS GROUP BY educ"
ONE_LINE = "SELECT COUNT(*) AS n, SUM(age) AS years, SUM(income) AS income FROM PUMS.PUMS"
FEW_COLUMNS = "SELECT COUNT(*) AS n, SUM(age) AS years FROM PUMS.PUMS"
"""Columns for which SmartNoise finds a Gaussian scale; for that of incomes its search fails."""
NATIVE = {"laplace": Laplace, "gaussian": Gaussian}
KINDS = tuple(NATIVE)


def people(n: int = 1000) -> pd.DataFrame:
    """A table of persons, one row each, the same at every call."""
    row = np.arange(n)
    return pd.DataFrame({"age": row * 7 % 100, "income": row * 13.5, "educ": row % 16 + 1})


def connection(privacy: Any = None, data: pd.DataFrame | None = None, **options: Any) -> Any:
    """A connection to the table of persons, or to another one with the same columns."""
    metadata = {"": {"PUMS": {"PUMS": OPTIONS | COLUMNS | options}}}
    table = people() if data is None else data
    return snsql.from_connection(table, privacy=privacy or Privacy(epsilon=1.0, delta=1e-6), metadata=metadata)


def asked(kind: str, epsilon: float = 0.5, delta: float = 1e-6) -> Any:
    """Privacy whose columns all have noise of one kind."""
    privacy = Privacy(epsilon=epsilon, delta=delta)
    if kind == "gaussian":
        privacy.mechanisms.map = dict.fromkeys(Stat, Mechanism.gaussian)
    return privacy


def ours(kind: str, epsilon: float = 1.0, **parameters: Any) -> Any:
    """A mechanism of dpcore, as a query makes one."""
    owner = {"laplace": smartnoise.Laplace, "gaussian": smartnoise.Gaussian}[kind]
    return owner(epsilon, **({"delta": 1e-6, "sensitivity": 1} | parameters))


def native(kind: str, epsilon: float = 1.0, **parameters: Any) -> Any:
    """The same of SmartNoise."""
    return NATIVE[kind](epsilon, **({"delta": 1e-6, "sensitivity": 1} | parameters))


def columns(reader: Any, query: str) -> dict[str, Any]:
    """The mechanism of each column that SmartNoise computes for a query."""
    subquery, _ = reader._rewrite(query)
    return {symbol.name: symbol.mechanism for symbol in subquery._select_symbols}


def noise_of(reader: Any, n: int, query: str = ONE_LINE, form: Callable[[list[Any]], Any] = list) -> dict[str, Array]:
    """Noise of n answers to a query, by column: exact aggregates of 0 go through `execute`, which is SmartNoise's public way for them."""
    names = list(columns(reader, query))
    rows = reader.execute(query, pre_aggregated=form([tuple(names), *[(0,) * len(names)] * n]), postprocess=False)
    return dict(zip(names, np.array(list(rows), dtype=np.float64).T, strict=True))


def as_frame(rows: list[Any]) -> pd.DataFrame:
    """Exact aggregates as a DataFrame, which SmartNoise takes cell by cell."""
    return pd.DataFrame(rows[1:], columns=list(rows[0]))


def as_array(rows: list[Any]) -> Array:
    """Exact aggregates as an array without names, of floats."""
    return np.array(rows[1:], dtype=np.float64)


def fit(kind: str, scale: float, noise: Array) -> float:
    """p-value of the χ² test of noise against the exact law."""
    edges = np.concatenate([[-np.inf], np.linspace(-6, 6, 97), [np.inf]])
    counts = np.histogram(noise / scale, np.concatenate([[-1e300], edges[1:-1], [1e300]]))[0]
    return laws.p_value(counts, laws.interval_masses(edges, kind))


def attributes() -> Iterator[tuple[str, int]]:
    """Identities of all that SmartNoise's classes have themselves."""
    for owner in (Mechanisms, PrivateReader, Laplace, Gaussian, Privacy):
        yield from ((f"{owner.__name__}.{name}", id(value)) for name, value in vars(owner).items())


def served() -> bool:
    """Whether queries get dpcore's noise, in this process."""
    return {type(found) for found in columns(connection(), ONE_LINE).values()} == {smartnoise.Laplace}
