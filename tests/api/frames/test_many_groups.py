"""Answers of many groups are arrays inside; what comes out has the types of few, and nobody can change an answer."""

from __future__ import annotations

import copy
import json
import pickle

import numpy as np
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pandas")

import pandas as pd
import pyarrow as pa

from dpcore import PrivateTable
from dpcore.errors import JobError
from support.frames import keyed

FRAME = pd.DataFrame({"k": np.arange(900) % 300, "v": np.arange(900) % 7 * 1.5})
GROUPS = list(range(300))
NUMBERS = ("value", "stderr", "interval", "count")
KINDS = {
    "count": lambda table: table.count(epsilon=1.0),
    "mean": lambda table: table.mean("v", lower=0, upper=9, missing=0, epsilon=1.0),
    "sum": lambda table: table.sum("v", lower=0, upper=9, missing=0, epsilon=1.0),
    "rate": lambda table: table.rate("v", lower=0, upper=4, epsilon=1.0),
    "histogram": lambda table: table.histogram("v", bins=3, lower=0, upper=9, epsilon=1.0),
}


@pytest.fixture(params=KINDS)
def result(request):
    return KINDS[request.param](keyed(FRAME).group_by("k", groups=GROUPS))


def leaves(value):
    if isinstance(value, dict | list):
        yield from (leaf for each in (value.values() if isinstance(value, dict) else value) for leaf in leaves(each))
    else:
        yield value


def test_a_document_is_what_json_gives_back(result):
    assert {type(leaf) for leaf in leaves(result.document)} <= {int, float, str, bool, type(None)}
    assert json.loads(json.dumps(result.document)) == result.document
    assert result.document["groups"] == GROUPS


def test_all_ways_to_an_answer_say_the_same(result):
    frame = result.to_arrow()
    np.testing.assert_array_equal(result.value, np.array(result.document["value"]))
    np.testing.assert_array_equal(result.interval, np.array(result.document["interval"], np.float64))
    assert frame.column("value").to_pylist() == result.value.ravel().tolist()
    assert frame.column("upper").to_pylist() == result.interval[..., 1].ravel().tolist()
    assert frame.column("k").to_pylist() == np.repeat(GROUPS, frame.num_rows // len(GROUPS)).tolist()
    assert frame.num_rows == len(result.to_pandas()) == result.value.size


def test_what_a_caller_changes_is_his_own(result):
    before = {name: copy.deepcopy(getattr(result, name)) for name in ("value", "stderr", "interval")}
    for name in before:
        getattr(result, name)[...] = 77
    frame = result.to_pandas()
    frame.loc[:, "value"] = 77
    result.document["value"][0] = 77
    for name, each in before.items():
        np.testing.assert_array_equal(getattr(result, name), each)
    assert result.to_arrow().column("value").to_pylist() == before["value"].ravel().tolist()


def test_an_answer_is_pickled(result):
    again = pickle.loads(pickle.dumps(result))
    assert again.document == result.document
    np.testing.assert_array_equal(again.value, result.value)
    assert repr(again) == repr(result)


@pytest.mark.parametrize(
    ("columns", "groups", "words"),
    [
        ("region", ["x", "\ud800"], r"groups must be text that UTF-8 can hold; item 1 is '\\ud800'"),
        (["region", "code"], {"region": ["\ud800"], "code": [1]}, "groups: region must be text that UTF-8 can hold"),
        (["region", "code"], [{"region": "\ud800", "code": 1}], "groups: column 'region' must be text that UTF-8 can hold"),
    ],
)
def test_half_of_a_surrogate_pair_is_no_group(columns, groups, words):
    table = PrivateTable(pa.table({"region": ["x"], "code": [1]}))
    with pytest.raises(JobError, match=words):
        table.group_by(columns, groups=groups).count(epsilon=1.0)
