"""Arrow files whose dictionaries grow from batch to batch: no label ends the reading, whether or not it is UTF-8."""

from __future__ import annotations

import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa
from pyarrow import ipc

from dpcore import PrivateTable
from dpcore.errors import StorageError
from dpcore.tables.formats import arrow as arrow_input

COUNT = {"epsilon": 1e6, "missing": "skip"}
NOT_UTF8 = b"caf\xe9"


def text_of(cells, kind):
    made = pa.array(cells, pa.large_binary() if pa.types.is_large_string(kind) else pa.binary())
    return made.view(kind) if pa.types.is_string(kind) or pa.types.is_large_string(kind) else made.cast(pa.binary_view()).view(kind)


def written(path, batches, kind, *, nested=False):
    """A file with a batch for each list of labels; each label is new."""
    labels = text_of([], kind)
    made = []
    for cells in batches:
        first = len(labels)
        labels = pa.concat_arrays([labels, text_of(cells, kind)])
        column = pa.DictionaryArray.from_arrays(pa.array(range(first, len(labels)), pa.int32()), labels)
        inner = pa.StructArray.from_arrays([column], ["inner"]) if nested else column
        made.append(pa.record_batch({"n": pa.array(range(len(cells))), "x": inner}))
    with ipc.new_file(path, made[0].schema, options=ipc.IpcWriteOptions(emit_dictionary_deltas=True)) as file:
        for batch in made:
            file.write_batch(batch)
    return str(path)


@pytest.mark.some(2)
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
@pytest.mark.parametrize("last", [b"c", NOT_UTF8])
def test_a_label_that_is_not_utf8_is_read_like_any_other(tmp_path, kind, last):
    table = PrivateTable(written(tmp_path / "a.arrow", [[b"a"], [b"b", b"a2"], [last]], kind))
    assert table.count("x", **COUNT).value == 4
    assert table.histogram("x", categories=["a", "b", "c"], unknown="skip", **COUNT).value.tolist() == [1, 1, int(last == b"c")]
    assert table.where("x IS NULL").count(epsilon=1e6).value == int(last != b"c")


def test_a_column_that_is_not_read_does_not_end_it_either(tmp_path):
    table = PrivateTable(written(tmp_path / "a.arrow", [[b"a"], [NOT_UTF8]], pa.string(), nested=True))
    assert table.count("n", **COUNT).value == 2


def test_the_reader_of_arrow_alone_is_rejected(tmp_path, monkeypatch):
    monkeypatch.setattr(arrow_input, "texts_of_growing_labels", lambda _: {})
    assert PrivateTable(written(tmp_path / "a.arrow", [[b"a"], [b"b"]], pa.string())).count("x", **COUNT).value == 2
    with pytest.raises(StorageError, match="unreadable"):
        PrivateTable(written(tmp_path / "b.arrow", [[b"a"], [NOT_UTF8]], pa.string())).count("x", **COUNT)
