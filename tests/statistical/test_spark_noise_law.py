"""The reports of small batches have exactly the law of their mechanisms, jointly over rows, columns and batches; error rate 10⁻⁶."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pyarrow as pa
import pytest

from dpcore.spark import noise_keys
from dpcore.spark.noise_tasks import NoiseTask
from dpcore.tables.output import metadata
from dpcore.tables.randomise import fitted, ready
from dpcore.tables.randomise_fields import COLUMN_SECTIONS
from dpcore.testing import KeyedJobKey
from support.laws import ERROR_RATE, p_value

KEY = bytes(range(7, 39))
BATCHES = 8_000
STAY = math.e / (1 + math.e)
ROWS = pa.RecordBatch.from_pydict({"one": [True, True], "two": [True, True]})


def task() -> NoiseTask:
    columns, fields = [], []
    for place, name in enumerate(("one", "two")):
        section = COLUMN_SECTIONS["binary"].model_validate({"name": name, "mechanism": "binary", "epsilon": 1.0})
        columns.append(fitted(place, ready(place, section), pa.bool_(), textual=False))
        fields.append(pa.field(name, pa.bool_(), nullable=False, metadata=metadata.encode(metadata.field_metadata(columns[-1]))))
    return NoiseTask(tuple(columns), pa.schema(fields), KeyedJobKey(KEY).carried(), 2)


def outcomes() -> np.ndarray:
    """How often each pattern of four reports occurs, over batches of one partition and of many: equal values in all of them."""
    made, seen = task(), np.zeros(16, np.int64)
    for partition in range(BATCHES // 4):
        for batch in made.noised([ROWS] * 4, partition):
            bits = [*batch.column("one").to_pylist(), *batch.column("two").to_pylist()]
            seen[sum(bit << place for place, bit in enumerate(bits))] += 1
    return seen


LAW = np.array([math.prod(STAY if pattern >> place & 1 else 1 - STAY for place in range(4)) for pattern in range(16)])


@pytest.mark.long
def test_reports_of_equal_rows_columns_and_batches_are_independent_and_have_the_law():
    assert p_value(outcomes(), LAW) > ERROR_RATE


@pytest.mark.long
@pytest.mark.parametrize("forgotten", ["the column", "the place"])
def test_keys_that_forget_something_are_rejected(forgotten, monkeypatch):
    """Without the number of the column both columns share their noise; without the place all batches do."""
    whole = noise_keys.batch_key

    def broken(key, mechanism, identity, cells, suppressed=None):
        return whole(key, [] if forgotten == "the column" else mechanism, [] if forgotten == "the place" else identity, cells, suppressed)

    monkeypatch.setattr(noise_keys, "batch_key", broken)
    assert p_value(outcomes(), LAW) < ERROR_RATE


def test_the_law_of_all_patterns_is_a_law():
    assert math.isclose(LAW.sum(), 1.0)
    assert len(LAW) == len(list(itertools.product((0, 1), repeat=4)))
