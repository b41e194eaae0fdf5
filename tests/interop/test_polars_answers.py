"""How often an answer is drawn in a plan of polars: once in a selection of aggregates, once for each group; beside rows, the page warns."""

from __future__ import annotations

import numpy as np
import pytest

pl = pytest.importorskip("polars", reason="make test runs it")

from dpcore import mechanisms  # noqa: E402
from dpcore.interop import polars as dp  # noqa: E402
from support.versions import only_tested  # noqa: E402

only_tested(dp.PEER, dp.ARROW)

ROWS = 300_000
LAPLACE = mechanisms.Laplace(1.0, 1.0)
ENGINES = pytest.mark.parametrize("engine", ["in-memory", "streaming"])


@pytest.fixture
def drawn(monkeypatch):
    """How many values each draw had."""
    seen = []
    original = mechanisms.Laplace.release

    def watched(mechanism, values, **options):
        seen.append(len(values))
        return original(mechanism, values, **options)

    with dp.install():
        monkeypatch.setattr(mechanisms.Laplace, "release", watched)
        yield seen


def plan():
    return pl.LazyFrame({"x": np.ones(ROWS), "g": np.arange(ROWS) % 3})


def total():
    return pl.col("x").sum().dp.release(LAPLACE, missing="refuse").alias("total")


ONCE = {
    "a selection": (lambda: plan().select(total()), 1),
    "two answers": (lambda: plan().select(total(), pl.col("x").mean().alias("mean")), 1),
    "a filter": (lambda: plan().filter(pl.col("g") == 1).select(total()), 1),
    "twice afterwards": (lambda: plan().select(total()).select("total", (pl.col("total") * 2).alias("twice")), 1),
    "groups": (lambda: plan().group_by("g").agg(total()), 3),
    "sorted groups": (lambda: plan().group_by("g").agg(total()).sort("total"), 3),
    "groups joined to rows": (lambda: plan().join(plan().group_by("g").agg(total()), on="g"), 3),
}


@pytest.mark.some(12)
@ENGINES
@pytest.mark.parametrize("name", ONCE)
def test_an_answer_is_drawn_once(name, engine, drawn):
    make, answers = ONCE[name]
    query = make()
    query.collect_schema()
    drawn.clear()
    found = query.collect(engine=engine)
    assert sum(drawn) == answers
    assert found["total"].n_unique() == answers


def test_an_answer_beside_rows_is_drawn_once_in_memory(drawn):
    """The streaming engine may draw it for each piece or each row, as the page warns."""
    assert plan().with_columns(total()).collect(engine="in-memory")["total"].n_unique() == 1
    assert plan().with_columns(total().over("g")).collect(engine="in-memory")["total"].n_unique() == 3
    assert plan().with_columns(total()).collect(engine="streaming")["total"].n_unique() >= 1
    assert drawn
