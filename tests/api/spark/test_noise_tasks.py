"""The noise of a partition: the same for a second attempt at the same rows, independent for everything else."""

from __future__ import annotations

import itertools
import os
import pickle
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcore.rng import JobKey
from dpcore.spark.noise_keys import Identity, batch_key, mechanism_parts
from dpcore.spark.noise_tasks import FILE, HIDDEN, INDEX, NoiseTask, cut
from dpcore.tables.output import metadata
from dpcore.tables.randomise import fitted, ready
from dpcore.tables.randomise_fields import COLUMN_SECTIONS
from dpcore.tables.types.values import CellError
from dpcore.testing import KeyedJobKey

KEY = bytes(range(32))
DEFAULTS = {
    "age": {"mechanism": "laplace", "epsilon": 1.0, "lower": 0.0, "upper": 100.0, "missing": 50.0},
    "smoker": {"mechanism": "binary", "epsilon": 1.0, "missing": False},
    "city": {"mechanism": "kary", "epsilon": 1.0, "categories": ["a", "b", "c"], "missing": "a", "unknown": "b"},
}
TYPES = {"age": pa.float64(), "smoker": pa.bool_(), "city": pa.string()}


def columns_of(sections):
    made = []
    for place, (name, said) in enumerate(sections.items()):
        section = COLUMN_SECTIONS[said["mechanism"]].model_validate(said | {"name": name})
        made.append(fitted(place, ready(place, section), TYPES[name], textual=False))
    return tuple(made)


def task(key=None, rows=64, sections=DEFAULTS):
    columns = columns_of(sections)
    fields = [pa.field("id", pa.int64())]
    for column in columns:
        said = metadata.encode(metadata.field_metadata(column))
        fields += [pa.field(name, kind, nullable=False, metadata=said) for name, kind in column.reports.types(column.name).items()]
    return NoiseTask(columns, pa.schema(fields), (key or KeyedJobKey(KEY)).carried(), rows)


def table(n=200, shift=0) -> pa.RecordBatch:
    places = np.arange(n) + shift
    return pa.RecordBatch.from_pydict(
        {
            "id": places,
            "age": (places % 90).astype(np.float64),
            "smoker": places % 3 == 0,
            "city": ["abc"[place % 3] for place in places],
        }
    )


def noised(made, batches, partition=0) -> pa.Table:
    return pa.Table.from_batches(list(made.noised(batches, partition)), schema=made.schema)


NOISY = list(DEFAULTS)


def cut_at(batch, places) -> list[pa.RecordBatch]:
    ends = [0, *sorted(places), len(batch)]
    return [batch.slice(start, stop - start) for start, stop in itertools.pairwise(ends)]


@given(st.lists(st.integers(0, 200), max_size=12), st.integers(1, 70))
def test_rows_are_cut_into_batches_of_one_length(places, rows):
    found = list(cut(cut_at(table(), places), rows))
    assert [len(batch) for batch in found[:-1]] == [rows] * (len(found) - 1)
    assert 0 < len(found[-1]) <= rows
    assert pa.Table.from_batches(found).equals(pa.Table.from_batches([table()]))


@given(st.lists(st.integers(0, 200), max_size=12))
def test_how_arrow_cuts_the_rows_makes_no_difference(places):
    assert noised(task(), cut_at(table(), places)).equals(noised(task(), [table()]))


def test_a_second_attempt_in_another_process_draws_the_same_noise():
    with JobKey() as key:
        made = task(key)
        again = pickle.loads(pickle.dumps(made))
        one, other = noised(made, [table()], 3), noised(again, [table()], 3)
    assert one.equals(other)
    with JobKey() as key:
        assert not noised(task(key), [table()], 3).equals(one)


ATTEMPT = """
import pickle, sys
task, batch = pickle.load(sys.stdin.buffer)
pickle.dump(list(task.noised([batch], 3)), sys.stdout.buffer)
"""


def test_an_attempt_of_a_new_interpreter_draws_the_same_noise():
    """Neither the number of a process nor what Python hashes by a seed of its own is in a key."""
    made = task()
    sent, other = pickle.dumps((made, table())), os.environ | {"PYTHONHASHSEED": "7"}
    done = subprocess.run([sys.executable, "-c", ATTEMPT], input=sent, capture_output=True, check=True, env=other)
    assert pa.Table.from_batches(pickle.loads(done.stdout)).equals(noised(made, [table()], 3))


def test_another_partition_draws_other_noise_for_the_same_values():
    one, other = (noised(task(), [table()], partition) for partition in (0, 1))
    for name in NOISY:
        assert not one[name].equals(other[name])


def test_equal_batches_of_one_partition_draw_other_noise():
    same = pa.RecordBatch.from_pydict({"id": np.arange(128), "age": np.full(128, 7.0), "smoker": [True] * 128, "city": ["a"] * 128})
    found = noised(task(rows=64), [same])
    for name in NOISY:
        assert not found[name].slice(0, 64).equals(found[name].slice(64))


def test_a_changed_order_never_puts_one_noise_on_two_values():
    """Two rows change places on a retry: with keys of positions alone, the difference of the reports would be that of the values."""
    made = task(rows=1 << 10)
    first = table()
    order = [1, 0, *range(2, 200)]
    second = first.take(pa.array(order))
    one, other = (noised(made, [batch])["age"].to_numpy() for batch in (first, second))
    noise, later = one - first["age"].to_numpy(), other - second["age"].to_numpy()
    assert not np.isin(noise.round(9), later.round(9)).any()

    broken = _PositionsAlone(made)
    one, other = (broken.noised(batch) for batch in (first, second))
    assert (one - first["age"].to_numpy()).round(9).tolist() == (other - second["age"].to_numpy()).round(9).tolist()


class _PositionsAlone:
    """The broken twin: the key of a batch follows from its place, and not from its values."""

    def __init__(self, made) -> None:
        self._made = made

    def noised(self, batch):
        from dpcore.spark.noise_keys import BatchStream

        key = self._made.key.derived("noise", [b"partition 0"])
        (column,) = [each for each in self._made.columns if each.name == "age"]
        return column.privatize(batch.column("age"), BatchStream(key))[0].to_numpy()


def key_of(made, position=0, identity=None, cells=None, hidden=None, sections=DEFAULTS):
    column = columns_of(sections)[position]
    identity = identity or Identity(0, 0, 3)
    cells = pa.array([1.0, 2.0, 3.0]) if cells is None else cells
    return bytes(batch_key(made.key, mechanism_parts(position, column), identity.encoded(), cells, hidden))


def changed(name, **said):
    return DEFAULTS | {name: DEFAULTS[name] | said}


def test_everything_that_noise_may_depend_on_is_in_the_key():
    made = task()
    rows = np.arange(3)
    found = [
        key_of(made),
        key_of(task(KeyedJobKey(bytes(32)))),
        key_of(made, sections=changed("age", epsilon=2.0)),
        key_of(made, sections=changed("age", upper=99.0)),
        key_of(made, sections=changed("age", missing=51.0)),
        key_of(made, identity=Identity(1, 0, 3)),
        key_of(made, identity=Identity(0, 3, 3)),
        key_of(made, identity=Identity(0, 0, 3, rows * 0, rows)),
        key_of(made, identity=Identity(0, 0, 3, rows * 0 + 1, rows)),
        key_of(made, identity=Identity(0, 0, 3, rows * 0, rows + 1)),
        key_of(made, identity=Identity(0, 0, 3, rows * 0, rows[::-1])),
        key_of(made, cells=pa.array([1.0, 2.0, 4.0])),
        key_of(made, cells=pa.array([1.0, 3.0, 2.0])),
        key_of(made, cells=pa.array([1.0, 2.0, None])),
        key_of(made, cells=pa.array([1.0, 2.0, 3.0], pa.float32())),
        key_of(made, hidden=np.array([False, False, False])),
        key_of(made, hidden=np.array([False, True, False])),
        key_of(made, position=1),
    ]
    assert len(set(found)) == len(found)


PLACES = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 4)), max_size=8)


@given(PLACES, PLACES)
def test_two_sequences_of_rows_have_one_encoding_only_if_they_are_equal(one, other):
    def encoded(rows):
        files, indices = (np.array([row[place] for row in rows], np.int64) for place in (0, 1))
        return Identity(0, 0, len(rows), files, indices).encoded()

    assert (encoded(one) == encoded(other)) == (one == other)


def test_rows_that_follow_each_other_in_a_file_are_one_run():
    n = 1 << 14
    identity = Identity(5, 0, n, np.full(n, 9), np.arange(n) + 100)
    assert sum(map(len, identity.encoded())) < 100


def test_names_of_rows_and_hidden_rows_are_read_beside_the_columns():
    batch = table(50)
    named = batch.append_column(FILE, pa.array(np.full(50, 4))).append_column(INDEX, pa.array(np.arange(50)))
    one, other = noised(task(), [named]), noised(task(), [batch])
    assert not one["age"].equals(other["age"])
    assert one["id"].equals(other["id"])
    hidden = named.append_column(HIDDEN, pa.array(np.arange(50) < 25))
    made = task(sections=changed("city", epsilon=300.0))
    found = noised(made, [hidden])["city"].to_pylist()
    assert found[:25] == ["a"] * 25
    assert found[25:] == batch["city"].to_pylist()[25:]


def test_a_cell_that_nothing_stands_for_is_refused_by_its_place():
    made = task(sections={"age": {key: value for key, value in DEFAULTS["age"].items() if key != "missing"}})
    with pytest.raises(CellError) as caught:
        noised(made, [pa.RecordBatch.from_pydict({"id": [1, 2], "age": [3.25, None]})])
    assert (caught.value.row, caught.value.column) == (1, "age")
    assert "3.25" not in str(caught.value)


def test_an_empty_partition_has_no_rows():
    assert noised(task(), []).num_rows == 0
    assert noised(task(), [table(0)]).num_rows == 0


def test_the_task_has_no_text_with_the_key():
    assert KEY.hex() not in repr(task())
    assert repr(KEY)[2:-1] not in repr(task())
