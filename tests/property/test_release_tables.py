"""Synthetic rows are a function of weights and key alone, and every value lies in a cell that noise has left something in."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcore.query.encoders import Bins, Categorical
from dpcore.query.made_rows import SyntheticTable, TableColumn
from dpcore.tables.types.categories import declared_by
from dpcore.testing import KeyedRandom

KEY = b"properties of tables, for tests!"


@st.composite
def columns(draw):
    """A column of categories, or of bins of real or whole numbers."""
    kind = draw(st.sampled_from(["text", "codes", "real", "whole"]))
    if kind in {"text", "codes"}:
        size = draw(st.integers(1, 6))
        return Categorical(declared_by(tuple(f"c{i}" for i in range(size)) if kind == "text" else tuple(range(10, 10 + size)))), False
    wide = st.integers(-(2**53), 2**53).map(float)
    edges = draw(st.lists(wide if kind == "whole" else st.floats(-1e300, 1e300), min_size=2, max_size=6, unique=True))
    return Bins.between(tuple(sorted(edges)), None), kind == "whole"


@st.composite
def tables(draw):
    """Columns, groups of them, and weights of each group."""
    made = [TableColumn(f"c{i}", *each) for i, each in enumerate(draw(st.lists(columns(), min_size=1, max_size=4)))]
    order = draw(st.permutations(range(len(made))))
    first = draw(st.integers(1, len(made)))
    joint = [tuple(order[:first]), *((place,) for place in order[first:])]
    weights = []
    for group in joint:
        shape = [made[place].cells.size for place in group]
        size = int(np.prod(shape))
        drawn = draw(st.lists(st.one_of(st.just(0), st.integers(1, 2**50)), min_size=size, max_size=size))
        weights.append(np.array(drawn if any(drawn) else [1] * size, np.int64).reshape(shape))
    return made, joint, weights


def rows_of(table, batch_rows):
    """All rows, so many at a time."""
    return pa.Table.from_batches(list(table.batches(batch_rows)))


@pytest.mark.long
@given(tables(), st.integers(1, 60), st.integers(1, 60), st.integers(1, 60))
def test_rows_do_not_depend_on_batches_or_on_how_many_follow(drawn, rows, batch_rows, more):
    made, joint, weights = drawn
    whole = rows_of(SyntheticTable(made, joint, weights, rows, KeyedRandom(KEY)), 1000)
    assert rows_of(SyntheticTable(made, joint, weights, rows, KeyedRandom(KEY)), batch_rows) == whole
    assert rows_of(SyntheticTable(made, joint, weights, rows + more, KeyedRandom(KEY)), 1000).slice(0, rows) == whole


@given(tables())
def test_every_row_lies_in_cells_with_a_weight(drawn):
    made, joint, weights = drawn
    table = rows_of(SyntheticTable(made, joint, weights, 50, KeyedRandom(KEY)), 1000)
    codes = [column.cells.read(table[column.name].combine_chunks()) for column in made]
    for group, each in zip(joint, weights, strict=True):
        assert (each[tuple(codes[place] for place in group)] > 0).all()
