"""`mode`, whose answers are those of a selection."""

from __future__ import annotations

from dpcore.query.kinds.mode import ModeEstimator
from kinds.tables import LIST, WHERE, Oracle
from kinds.top import each_group

EXAMPLES = {"mode": {"kind": "mode", "column": "c", "k": 5}}
SHARPER = {"mode": {"k": 3}}
ORACLES = {
    "modes": Oracle(
        {"kind": "mode", "column": "code", "k": 6, "where": WHERE, **LIST},
        "SELECT region, list(code) FROM (SELECT region, code, rank() OVER (PARTITION BY region ORDER BY count(*) DESC) place FROM t "
        f"WHERE code < 6 AND ({WHERE}) GROUP BY region, code) WHERE place = 1 GROUP BY 1",
        is_choice=True,
    )
}
RELEASED = {ModeEstimator: each_group}
LAWS = {"mode": "test_release_kinds_law.py::test_a_mode_is_chosen_in_proportion_to_exponentials_of_counts"}
