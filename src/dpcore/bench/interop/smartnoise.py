"""SmartNoise SQL: its mechanisms, and whole answers to queries."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from dpcore.bench.benchmark import Benchmark, Plan, Side, Work
from dpcore.interop import smartnoise

KINDS = ("Laplace", "Gaussian")
GROUPS, FEW = 20_000, 200
"""Groups of a query here, and those that SmartNoise answers alone: its time for each does not depend on them."""
ONE_LINE = "SELECT COUNT(*) AS n, SUM(age) AS years FROM t.people"
BY_AREA = "SELECT area, COUNT(*) AS n, SUM(age) AS years FROM t.people GROUP BY area"
ANSWERED = {"area": 0, "count_star": 5, "sum_age": 200}
"""An exact aggregate of each column of `BY_AREA`."""


def _mechanism(kind: str, *, served: bool) -> Any:
    return getattr(smartnoise if served else import_module("snsql.sql._mechanisms"), kind)


def _construct(_inputs: Any, *, kind: str, served: bool) -> Work:
    return partial(_mechanism(kind, served=served), 1.0, delta=1e-6, sensitivity=1)


def _check_scale(_inputs: Any, result: Any) -> None:
    if not 0.9 < result.scale < 5:
        raise AssertionError("a mechanism has another scale")


def _release(_inputs: Any, *, kind: str, served: bool) -> Work:
    return partial(_mechanism(kind, served=served)(1.0, delta=1e-6, sensitivity=1).release, [3])


def _check_value(_inputs: Any, result: Any) -> None:
    if type(result) is not list or not 0 < abs(result[0] - 3) < 200:
        raise AssertionError("a number did not come back with noise")


def _call(what: str, native: str, prepare: Callable[..., Work], check: Callable[[Any, Any], None], kind: str) -> Benchmark:
    side = Side(name=native, prepare=partial(prepare, kind=kind, served=False), package="snsql", safe=True, check=check)
    return Benchmark(
        group="interop", name=f"SmartNoise: {what}", size=1, unit="call", character="call", inputs=lambda: None, package="snsql",
        ours=partial(prepare, kind=kind, served=True), sides=(side,), check=check,
    )  # fmt: skip


def connection(kind: str) -> Any:
    """A connection of SmartNoise to 1,000 people in 16 areas.

    Parameters
    ----------
    kind : {"Laplace", "Gaussian"}
        Of the noise.
    """
    snsql, pandas = import_module("snsql"), import_module("pandas")
    row = np.arange(1000)
    table = pandas.DataFrame({"age": row * 7 % 100, "area": row % 16})
    columns = {"age": {"type": "int", "lower": 0, "upper": 100}, "area": {"type": "int"}}
    options = {"row_privacy": True, "rows": 1000, "censor_dims": False}
    privacy = snsql.Privacy(epsilon=1.0, delta=1e-6)
    if kind == "Gaussian":
        privacy.mechanisms.map = dict.fromkeys(snsql.Stat, snsql.Mechanism.gaussian)
    return snsql.from_connection(table, privacy=privacy, metadata={"": {"t": {"people": options | columns}}})


def _answer(reader: Any, query: str, *, served: bool, groups: int = 0) -> list[Any]:
    exact = [tuple(ANSWERED), *[tuple(ANSWERED.values())] * groups] if groups else None
    if not served:
        return reader.execute(query, pre_aggregated=exact)  # type: ignore[no-any-return]
    with smartnoise.install():
        return reader.execute(query, pre_aggregated=exact)  # type: ignore[no-any-return]


def _ask(reader: Any, *, query: str, served: bool, groups: int = 0) -> Work:
    return partial(_answer, reader, query, served=served, groups=groups)


def _check_answer(_reader: Any, result: Any, *, rows: int) -> None:
    if len(result) != rows + 1 or result[0][-2:] != ["n", "years"]:
        raise AssertionError("an answer has another form")
    if rows > 1:
        spread = float(np.std([row[-2] for row in result[1:]]))
        if not 0.7 < spread < 200:
            raise AssertionError(f"equal counts of groups have noise of standard deviation {spread}")


def _on_one_line(kind: str) -> Benchmark:
    check = partial(_check_answer, rows=1)
    native = Side(name="SmartNoise alone", prepare=partial(_ask, query=ONE_LINE, served=False), package="snsql", safe=True, check=check)
    return Benchmark(
        group="interop", name=f"SmartNoise: a query with {kind} noise", size=1, unit="call", character="call",
        inputs=partial(connection, kind), package="snsql", ours=partial(_ask, query=ONE_LINE, served=True), sides=(native,), check=check,
    )  # fmt: skip


def _by_area(kind: str) -> Benchmark:
    native = Side(
        name="SmartNoise alone", prepare=partial(_ask, query=BY_AREA, served=False, groups=FEW), package="snsql", safe=True, size=FEW,
        check=partial(_check_answer, rows=FEW),
    )  # fmt: skip
    return Benchmark(
        group="interop", name=f"SmartNoise: a group of a query, {kind} noise", size=GROUPS, inputs=partial(connection, kind),
        package="snsql", ours=partial(_ask, query=BY_AREA, served=True, groups=GROUPS), sides=(native,),
        check=partial(_check_answer, rows=GROUPS),
    )  # fmt: skip


def benchmarks(_plan: Plan) -> Iterator[Benchmark]:
    """Mechanisms, and answers to queries, with either noise.

    Parameters
    ----------
    _plan : Plan
        Not used.
    """
    for kind in KINDS:
        yield _call(f"a {kind} mechanism", "SmartNoise's search", _construct, _check_scale, kind)
        yield _call(f"{kind} noise on a number", "OpenDP's sampler", _release, _check_value, kind)
        yield _on_one_line(kind)
        yield _by_area(kind)
