"""The benchmarks of columns check their answers: those of each library pass, and answers without noise do not."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="make test runs it")

from dpcore.bench import Plan
from dpcore.bench.interop.columns import PATHS, benchmarks
from dpcore.interop import arrow, duckdb, pandas, polars
from support.versions import only_tested

PEERS = {module.PEER.module: module.PEER for module in (arrow, duckdb, pandas, polars)}

ITEMS = list(benchmarks(Plan(size=2000, largest=2000, cores=1, quick=True)))


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: item.name)
def test_answers_are_checked(item):
    only_tested(arrow.PEER, PEERS[item.package])
    made = item.inputs()
    item.check(made, item.ours(made)())
    for side in item.sides:
        answer = side.prepare(made)()
        if side.check is not None:
            side.check(made, answer)
    for wrong in (made[0], made[0] + 100.0, np.full(len(made[0]), np.nan)):
        with pytest.raises(AssertionError, match="noise of scale 1"):
            item.check(made, wrong)


def test_every_path_has_a_benchmark():
    assert [item.name for item in ITEMS] == [path.name for path in PATHS]
