"""Each example of each kind: a frame gives what the job gives, terminal and page show it, and a mistake in its keys is refused."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("pyarrow")

from dpcore.batch import parse_release_job
from dpcore.errors import JobError
from dpcore.jobs.commands.answers_text import answer_table
from dpcore.query.kinds import FILES, KINDS, kind_at
from dpcore.query.page import ReleasePages
from dpcore.query.query_sections import QuerySection
from kinds import ALONE, ELSEWHERE, EXAMPLES, MODULES
from support.every_query import table
from support.frames import METHODS, answers_of_job, asked, keyed

GROUPS = {"all": {}, "by g": {"group_by": "g", "groups": ["a", "b"]}}
UNIT = {"unit": "person", "max_rows_per_unit": 3}
QUERIES = [{"name": f"{name}, {groups}", "epsilon": 10.0, **keys, **GROUPS[groups]} for name, keys in EXAMPLES.items() for groups in GROUPS]


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """What a job answers to all of them."""
    return answers_of_job(tmp_path_factory.mktemp("job"), table(400, 60), QUERIES, UNIT)


def test_every_kind_has_an_example():
    assert {keys["kind"] for keys in (EXAMPLES | ALONE).values()} == KINDS.keys() - ELSEWHERE.keys()
    assert MODULES.keys() == {path.partition(".")[0] for path in FILES}
    assert {query["kind"] for query in QUERIES} == METHODS.keys()


def test_the_registry_says_what_the_kinds_say():
    for path, words in FILES.items():
        kind = kind_at(path)
        methods = [method.name for method in kind.methods]
        assert kind.names == tuple(words)
        assert methods == [method for method in words.values() if method is not None]


def test_each_query_says_the_power_of_each_column():
    """Of a kind that forgot it, answers about decimals would fail after the charge."""
    job = {"version": 1, "input": {"path": "in.parquet"}, "output": {"path": "o.json"}, "privacy": {"max_epsilon": 1e4, **UNIT}}
    sections = parse_release_job(job | {"query": QUERIES}).query
    assert {section.kind: section.powers for section in sections if section.powers != (1,)} == {"var": (2,), "covariance": (1, 1)}
    assert all(len(section.powers) == max(len(section.column_names), 1) for section in sections)
    forgetful = type("Forgetful", (type(next(each for each in sections if each.kind == "covariance")),), {"powers": QuerySection.powers})
    with pytest.raises(NotImplementedError, match="in which powers"):
        _ = forgetful.model_construct(kind="covariance", columns=("v", "w")).powers


def test_a_frame_gives_the_answers_of_the_job(answers):
    with keyed(table(400, 60), **UNIT).batch(epsilon=1e6, delta=0.5) as batch:
        found = [asked(batch, query) for query in QUERIES]
    for result, answer in zip(found, answers, strict=True):
        assert json.loads(json.dumps(result.document)) == answer
        assert answer["name"] in repr(result)
        assert len(result.to_arrow()) >= 1


def test_terminal_and_page_show_each(answers, tmp_path):
    document = {"version": "0", "unit": "person", "relation": "replace", "privacy": {"epsilon": 1.0, "delta": 0.0}, "queries": answers}
    rows = [str(cell) for cell in answer_table(document).columns[0].cells]
    pages = ReleasePages(tmp_path, "examples")
    pages.write(document)
    html = (tmp_path / "examples.html").read_text(encoding="utf-8")
    for answer in answers:
        assert answer["name"] in rows
        assert answer["name"] in html


@pytest.mark.parametrize("query", QUERIES, ids=[query["name"] for query in QUERIES])
def test_an_unknown_key_and_a_negative_epsilon_are_refused(query, tmp_path):
    job = {"version": 1, "input": {"path": "in.parquet"}, "output": {"path": "o.json"}, "privacy": {"max_epsilon": 100, **UNIT}}
    parse_release_job(job | {"query": [query]})
    with pytest.raises(JobError, match=r"query\[0\]\.colour"):
        parse_release_job(job | {"query": [query | {"colour": 1}]})
    with pytest.raises(JobError, match=r"query\[0\]\.epsilon: epsilon must be positive, got -1"):
        parse_release_job(job | {"query": [query | {"epsilon": -1}]})
