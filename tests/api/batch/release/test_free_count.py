"""The number of rows is public where neighbours have equally many: a count of all rows is exact and costs nothing."""

from __future__ import annotations

import json

import pytest

from dpcore import accounting
from dpcore.batch.release.job import parse_release_job
from support.jobs import write_table
from support.releases import Counter, clinic

ROWS = {"rows": {"kind": "count", "epsilon": 0.25}}
SOME = {"some": {"kind": "count", "column": "visits", "lower": 2, "upper": 5, "epsilon": 0.25}}
NOT_PUBLIC = ({"relation": "add_remove"}, {"unit": "person", "max_rows_per_unit": 3})
NOT_ALL = (
    {"kind": "count", "column": "visits", "lower": 0, "upper": 100},
    {"kind": "count", "column": "region", "categories": ["north", "east", "south", "west", "abroad"]},
    {"kind": "count", "group_by": "region", "groups": ["north"]},
)


def parsed(queries, privacy):
    """A job of these queries."""
    limits = {"max_epsilon": 10.0, "max_delta": 0.1}
    listed = [{"name": name, "epsilon": 0.5} | query for name, query in queries.items()]
    places = {"input": {"path": "in.parquet"}, "output": {"path": "out.json"}}
    return parse_release_job({"version": 1, **places, "privacy": limits | privacy, "query": listed})


def test_only_the_number_of_all_rows_is_free():
    assert parsed(ROWS, {}).total.epsilon == 0.0
    assert parsed(ROWS | SOME, {}).total.epsilon == 0.25
    for privacy in NOT_PUBLIC:
        assert parsed(ROWS, privacy).total.epsilon == 0.25
    for query in NOT_ALL:
        assert parsed({"q": query}, {}).total.epsilon == 0.5


@pytest.fixture
def place(tmp_path, capsys):
    place = Counter(tmp_path, capsys)
    write_table(clinic(300), place.source)
    return place


def test_the_answer_says_that_it_is_free(place):
    place.write_release(ROWS | SOME, privacy={"max_epsilon": 0.25})
    assert "none: public" in place.release("--dry-run", "--table").out
    done = place.release("--report", place.folder / "report")
    assert done.code == 0, done.said
    document = json.loads(place.target.read_text(encoding="utf-8"))
    rows, some = document["queries"]
    assert (rows["value"], rows["interval"], rows["stderr"], rows["noise"]) == (300, [300, 300], 0.0, [])
    assert rows["privacy"] == {"epsilon": 0.0, "delta": 0.0}
    assert "costs nothing" in rows["note"]
    assert some["privacy"]["epsilon"] == document["privacy"]["epsilon"] == 0.25
    page = next((place.folder / "report").glob("*.html")).read_text(encoding="utf-8")
    assert "costs nothing" in page


@pytest.mark.parametrize("limits", [{"epsilon": 1.0}, {"rho": 0.5}])
def test_a_ledger_is_charged_for_the_others_only(place, limits):
    ledger = accounting.Ledger.create(place.folder / "a.ledger", **limits)
    place.write_release(ROWS, ledger=ledger.path)
    assert place.release().code == 0
    [entry] = ledger.entries()
    assert (entry.epsilon or 0.0, entry.rho or 0.0, entry.delta) == (0.0, 0.0, 0.0)
    place.write_release(ROWS | SOME, ledger=ledger.path)
    assert place.release("--overwrite").code == 0
    largest = max((entry.rho or 0.0) if "rho" in limits else (entry.epsilon or 0.0) for entry in ledger.entries())
    assert 0 < largest <= 0.25
