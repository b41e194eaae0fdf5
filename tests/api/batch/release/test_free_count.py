"""The number of rows is public where neighbours have equally many: a count of all rows is exact and costs nothing."""

from __future__ import annotations

import json

import pytest

from dpcore import PrivateTable, accounting
from dpcore.errors import JobError, ParameterError, UnusedEpsilonWarning
from dpcore.jobs.release_job import parse_release_job
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


# An ε for a free answer: it is not used, and that is said


def without_epsilon(place):
    """A job with a count of all rows, without an ε."""
    place.write_release({"rows": {"kind": "count", "epsilon": 0.125}}, privacy={"max_epsilon": 0.25})
    text = place.job.read_text(encoding="utf-8")
    assert "epsilon = 0.125\n" in text
    place.job.write_text(text.replace("epsilon = 0.125\n", ""), encoding="utf-8")


UNUSED = "epsilon = 0.25 was given and is not used"


def test_an_epsilon_that_is_not_used_is_warned_about(place):
    place.write_release(ROWS | SOME, privacy={"max_epsilon": 0.25})
    assert "warning: epsilon = 0.25 of 'rows' is not used" in place.release("--dry-run", "--table").said
    done = place.release("--report", place.folder / "report")
    assert "warning: epsilon = 0.25 of 'rows' is not used" in done.said
    assert "'some' is not used" not in done.said
    rows, some = json.loads(place.target.read_text(encoding="utf-8"))["queries"]
    assert UNUSED in rows["note"]
    assert "note" not in some
    page = next((place.folder / "report").glob("*.html")).read_text(encoding="utf-8")
    assert "was given and is not used" in page
    assert "Noise was added on purpose" in page


def test_a_page_without_noise_does_not_say_that_there_is_some(place):
    without_epsilon(place)
    done = place.release("--report", place.folder / "report", "--table")
    assert "is not used" not in done.said
    assert "No noise was added" in done.out
    assert "They cover the noise" not in done.out
    page = next((place.folder / "report").glob("*.html")).read_text(encoding="utf-8")
    assert "Noise was added" not in page
    assert "costs nothing" in page
    assert "300 to 300" not in page


UNIT = {"lower": 0, "upper": 1}


def test_a_weight_for_a_free_count_is_not_used_either():
    job = parse_release_job(
        {
            "version": 1, "input": {"path": "in.parquet"}, "output": {"path": "out.json"}, "privacy": {"max_epsilon": 1.0},
            "query": [{"name": "n", "kind": "count", "weight": 2.0}, {"name": "sum", "kind": "sum", "column": "v", "weight": 1.0, **UNIT}],
        }
    )  # fmt: skip
    assert job.unused == {"n": "weight = 2.0"}
    assert job.query[1].epsilon == 1.0


@pytest.mark.parametrize(
    ("privacy", "query", "others"),
    [
        ({"relation": "add_remove"}, {}, {}),
        ({"unit": "person", "max_rows_per_unit": 3}, {}, {}),
        ({}, {"column": "visits", "lower": 0, "upper": 1}, {}),
        ({}, {"group_by": "region", "groups": ["north"]}, {}),
        ({}, {"where": "visits > 1"}, {}),
        ({}, {}, {"where": "visits > 1"}),
    ],
)
def test_a_count_that_is_not_free_needs_an_epsilon(privacy, query, others):
    places = {"version": 1, "input": {"path": "in.parquet"}, "output": {"path": "out.json"}}
    queries = [{"name": "n", "kind": "count", **query}]
    with pytest.raises(JobError, match=r"query\[0\].*epsilon, or in its place weight"):
        parse_release_job({**places, "privacy": {"max_epsilon": 1.0, **privacy}, "query": queries, **others})


def test_a_count_without_an_epsilon_is_free_in_every_door(place):
    frame = clinic(300).to_pandas()
    table = PrivateTable(frame)
    found = table.count()
    assert (found.value, found.privacy.epsilon, table.spent.epsilon) == (300, 0.0, 0.0)
    assert repr(found) == "TableResult(count: 300 (exact), epsilon=0)"
    with table.batch(epsilon=1.0) as batch:
        several = batch.count()
        batch.sum("visits", epsilon=1.0, lower=0, upper=9, missing=0)
    assert several.value == 300
    with table.batch(epsilon=1.0) as batch, pytest.raises(ParameterError, match="epsilon, or in its place weight"):
        batch.where("visits > 1").count()
    without_epsilon(place)
    assert place.release().code == 0
    assert json.loads(place.target.read_text(encoding="utf-8"))["queries"][0]["value"] == 300


def test_a_frame_warns_of_an_epsilon_that_is_not_used(recwarn):
    table = PrivateTable(clinic(300).to_pandas())
    with pytest.warns(UnusedEpsilonWarning, match=r"epsilon = 1\.0 of 'count' is not used") as caught:
        found = table.count(epsilon=1.0)
    assert caught[0].filename == __file__
    assert "epsilon = 1.0 was given and is not used" in found.document["note"]
    assert found.interval == (300, 300)
    batch = table.batch(epsilon=1.0).__enter__()
    batch.count(weight=2.0)
    batch.sum("visits", weight=1.0, lower=0, upper=9, missing=0)
    with pytest.warns(UnusedEpsilonWarning, match=r"weight = 2\.0") as caught:
        batch.__exit__(None, None, None)
    assert caught[0].filename == __file__
    table.where("visits > 1").count(epsilon=1.0)
    PrivateTable(clinic(300).to_pandas(), relation="add_remove").count(epsilon=1.0)
    assert not [each for each in recwarn if issubclass(each.category, UnusedEpsilonWarning)]
