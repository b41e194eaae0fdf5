"""Labels and units of measure of columns, in tables and pages; and what a mistake suggests."""

from __future__ import annotations

import json
import re

import pytest

from dpcore.batch import parse_release_job
from dpcore.errors import JobError
from support.jobs import write_table
from support.releases import REGIONS, Counter, clinic

QUERIES = {
    "mean": {"kind": "mean", "column": "cost", "lower": 0.0, "upper": 100.0, "missing": 0.0, "group_by": "region", "groups": REGIONS},
    "median": {"kind": "median", "column": "cost", "grid": [0, 10, 50, 100], "missing": 0.0},
    "bins": {"kind": "histogram", "column": "cost", "edges": [0, 50, 100], "missing": 0},
    "total": {"kind": "sum", "column": "cost", "lower": 0, "upper": 100, "missing": 0},
}
LABELS = """
[[column]]
name = "cost"
label = "Price of a visit"
unit_of_measure = "EUR"
[[column]]
name = "region"
label = "Part of the country"
"""


@pytest.fixture
def place(tmp_path, capsys):
    place = Counter(tmp_path, capsys)
    write_table(clinic(200), place.source)
    place.write_release(QUERIES)
    return place


def test_labels_change_what_readers_see_and_no_number(place):
    plain = place.answers()
    place.job.write_text(place.job.read_text() + LABELS)
    document = place.answers("--report", place.folder / "report")
    assert document["queries"] == plain["queries"]
    assert document["columns"][0] == {"name": "cost", "label": "Price of a visit", "unit_of_measure": "EUR"}
    assert document["run"] != plain["run"]
    page = (place.folder / "report" / "answers.html").read_text(encoding="utf-8")
    assert "Price of a visit" in page
    assert "by Part of the country" in page
    assert "EUR" in page
    assert not re.search(r">[^<]*\bof cost\b", page)
    table = place.release("--overwrite", "--table").out
    assert re.search(r"^median +median +\S+\s*EUR \(rank ± ", table, re.MULTILINE), table
    assert re.search(r"^bins +0 to below 50 +[\d,−]+ ± [\d,]+ +[\d.]+ %.*discrete Laplace 2 *$", table, re.MULTILINE), table
    assert re.search(r"^total +[\d,.−]+ ± [\d,.]+\s*EUR +[\d.]+ %.* Laplace ", table, re.MULTILINE), table


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ([{"name": "coast"}], "no [[query]] names 'coast'"),
        ([{"name": "cost"}, {"name": "cost"}], "2 [[column]] entries have name = 'cost'"),
        ([{"name": "cost", "label": "x"}, {"name": "region", "label": "x"}], "2 [[column]] entries have label = 'x'"),
        ([{"name": "cost", "labl": "x"}], "column[0].labl: unknown key; allowed here: name, label, unit_of_measure; did you mean 'label'?"),
        ([{"label": "x"}], "column[0].name is required"),
        ([{"name": "cost", "unit": "x"}], "column[0].unit: unknown key"),
        ({"name": "cost"}, "[column] has single brackets; write [[column]] above each column"),
        ([{"name": "cost", "label": "a\x1bb"}], "must not hold control characters"),
    ],
)
def test_mistakes_in_labels_are_explained(labels, words):
    queries = [{"name": name, "epsilon": 1.0, **query} for name, query in QUERIES.items()]
    paths = {"input": {"path": "in.parquet"}, "output": {"path": "out.json"}, "privacy": {"max_epsilon": 9.0}}
    with pytest.raises(JobError) as caught:
        parse_release_job({"version": 1, **paths, "column": labels, "query": queries})
    assert words in str(caught.value)


def refusal(kind):
    paths = {"input": {"path": "in.parquet"}, "output": {"path": "out.json"}, "privacy": {"max_epsilon": 9.0}}
    with pytest.raises(JobError) as caught:
        parse_release_job({"version": 1, **paths, "query": [{"name": "q", "epsilon": 1.0, "kind": kind, "column": "x"}]})
    return str(caught.value).partition("must be one of")[2]


@pytest.mark.parametrize(
    "kind", ["men", "max", "min", "summary", "counts by", "mediate", "variation", "medoid", "mid", "start", "stop", "sd"]
)
def test_a_mistake_never_suggests_another_statistic(kind):
    said = refusal(kind)
    assert "did you mean" not in said
    assert "write" not in said


@pytest.mark.parametrize(
    ("kind", "meant"), [("meam", "mean"), ("Median", "median"), ("histgram", "histogram"), ("cuont", "count"), ("top-s", "top_s")]
)
def test_a_slip_suggests_the_word(kind, meant):
    assert f"did you mean {meant!r}?" in refusal(kind)


@pytest.mark.parametrize(("word", "meant"), [("average", "mean"), ("stdev", "std"), ("variance", "var"), ("quartile", "quantile")])
def test_another_word_for_the_same_statistic_is_known(word, meant):
    assert f'write kind = "{meant}"' in refusal(word)


def test_a_job_for_privatize_is_told_so():
    column = {"name": "x", "mechanism": "laplace", "epsilon": 1.0, "lower": 0, "upper": 1}
    paths = {"input": {"path": "in.parquet"}, "output": {"path": "out.json"}, "privacy": {"max_epsilon": 9.0}}
    with pytest.raises(JobError, match=r"\[\[query\]\] is required.*; a job with \[\[column\]\] alone is for dpcore privatize"):
        parse_release_job({"version": 1, **paths, "column": [column]})


def test_provenance_is_in_the_document_of_a_release(place):
    document = json.loads(place.release().out)
    assert document["job"]["path"] == str(place.job)
    assert document["guarantee"].startswith("epsilon = ")
