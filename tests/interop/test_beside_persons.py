"""Programs of the page about other tools that ask about persons answer where their tool is installed, with the noise of the others."""

from __future__ import annotations

import collections
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.source_tree

BESIDE = Path(__file__).resolve().parents[2] / "benchmarks/beside"
EDGES, UPPER = [1, 2, 3, 5, 2**40], 40
SCALES = [2, 4, UPPER / 2 / 0.25]
"""Half of ε = 1 for the bins, a quarter for the number of persons, a quarter for the distances of what they cost from the middle."""
VISITS = [(person, person % 8, 3 * visit) for person in range(6000) for visit in range(person % 6 + 1)]
"""Persons with one to six visits."""


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """The visits in a file, without any order."""
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path_factory.mktemp("beside") / "visits.parquet"
    columns = zip(*(VISITS[i * 7919 % len(VISITS)] for i in range(len(VISITS))), strict=True)
    parquet.write_table(pa.table(dict(zip(("person", "ward", "cost"), map(pa.array, columns), strict=True))), path)
    return path


def truth():
    """Persons in each bin, and the mean of what they cost at most, counted by hand."""
    visits, costs = collections.Counter(), collections.Counter()
    for person, _, cost in VISITS:
        visits[person] += 1
        costs[person] += cost
    bins = {(low,): sum(low <= n < high for n in visits.values()) for low, high in itertools.pairwise(EDGES)}
    return bins | {("cost",): sum(min(cost, UPPER) for cost in costs.values()) / len(costs)}


def wrong(program, table):
    """What a program declares or answers otherwise than the page says."""
    command = [sys.executable, str(BESIDE / "turn.py"), str(program), str(table), json.dumps([EDGES, UPPER])]
    variables = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"}
    # In a process of its own, as the page runs it: a session of Spark is one for a process.
    ended = subprocess.run(command, input="scales\nrelease\n", capture_output=True, text=True, check=True, cwd="/", env=variables)
    scales, found = [json.loads(line) for line in ended.stdout.splitlines()]
    if errors := [answer["error"] for answer in (scales, found) if "error" in answer]:
        return errors
    answers, wanted = {tuple(key): number for key, (number,) in found["found"]}, truth()
    assert answers.keys() == wanted.keys()
    # Noise is 30 times its scale in one of 10¹³ numbers: 60 of a bin; of 6,000 persons 120, and of their distances, at most 20 each, 2,400.
    far = {key: 60 if key != ("cost",) else (2400 + 20 * 120) / (6000 - 120) for key in wanted}
    kept = sorted(scales["found"]) == pytest.approx(SCALES)
    return ([] if kept else ["scales"]) + [key for key, true in wanted.items() if abs(answers[key] - true) > far[key]]


@pytest.mark.parametrize(
    ("tool", "packages"),
    [
        ("dpcore", ["duckdb"]),
        ("opendp", ["opendp", "polars"]),
        pytest.param("tumult", ["tmlt.analytics", "pyspark"], marks=pytest.mark.long),
    ],
)
def test_persons_are_counted_with_the_scales_of_the_page(tool, packages, table):
    for package in packages:
        pytest.importorskip(package, reason=f"make test-interop PEER={tool}" if tool != "dpcore" else "dpcore[batch]")
    assert wrong(BESIDE / f"{tool}_persons.py", table) == []


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("right", "broken", "complaint"),
    [
        ('per_unit(visits="count(*)", cost="sum(cost)")', 'per_unit(visits="count(*)", cost="max(cost)")', ("cost",)),
        ('per_unit(visits="count(*)"', 'per_unit(visits="count(DISTINCT ward)"', (5,)),
        ('"visits", epsilon=0.5', '"visits", epsilon=0.25', "scales"),
    ],
)
def test_programs_that_ask_something_else_are_found(right, broken, complaint, table, tmp_path):
    pytest.importorskip("duckdb", reason="dpcore[batch]")
    text = (BESIDE / "dpcore_persons.py").read_text(encoding="utf-8")
    assert right in text
    (tmp_path / "twin.py").write_text(text.replace(right, broken), encoding="utf-8")
    assert complaint in wrong(tmp_path / "twin.py", table)
