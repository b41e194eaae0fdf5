"""One condition after another: the rows of both, whatever the texts look like; what cannot stand beside another is refused by itself."""

from __future__ import annotations

import itertools

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcore import PrivateTable
from dpcore.errors import JobError
from dpcore.frames.question import View
from dpcore.query.prose import spaced
from dpcore.tables.sql.database import opened
from dpcore.tables.sql.evaluation import Evaluation
from dpcore.tables.sql.program import Compiler
from dpcore.tables.sql.syntax import SyntaxRefusedError, parsed

pd = pytest.importorskip("pandas")

ROWS = pa.record_batch(
    {
        "x": pa.array([-2, -1, 0, 1, 2, 3, None, 7] * 4, pa.int64()),
        "s": pa.array(["a", "--", "/* a */", "a;", "') OR (true", None, "\\", 'a"', "-- a\n", "$$"] * 3 + ["a", "b"], pa.string()),
    }
)
TYPES = {"x": "BIGINT", "s": "VARCHAR"}
PARTS = [
    "x > 0", "x < 3", "x IS NULL", "NOT x = 1", "s = 'a'", "s = '--'", "s = '/* a */'", "s <> 'a;'", "s = ''') OR (true'",
    "s = '\\'", "s LIKE '%--%'", "s = E'a\\x22'", "s = $$--$$", "x > 0 OR s = 'a'", "x > 0 AND s = '--'", "true", "false", "NULL",
    "(x > 0)", "x > 0 /* -- */", "/* a /* b */ c */ x > 0", "x > 0 -- a\n", "x > 0 -- a\n AND x < 3",
    "\"x\" > 0", "x > 0 AND x < 3 OR x = 7",
]  # fmt: skip
"""Conditions that can be used."""
ALONE = [
    "x > 0 -- ", "x > 0 --", "x > 0 -- AND x < 3", "x > 0;", "x > 0 ; ", "x > 0 -- a\n;", "x > 0 /* a */ -- b", "true --", "x > 0 -- )",
    "x > 0; -- a",
    "x > 0 --\\", "s = '--' -- '", "s = $$a$$ -- $$",
]  # fmt: skip
"""Conditions that the database reads by themselves, and in brackets not at all, or as something else."""
BROKEN = [
    "x > 0 /*",
    "x > 0 */",
    "/* a /* b */ x > 0",
    "x > 0 \\",
    "s = 'a",
    's = "a',
    "x > 0)",
    "(x > 0",
    "x) > 0 OR (x",
    "s = $$a",
    "x > 0 -- a\n)",
    "",
    " ",
]
ALPHABET = [
    "x",
    "s",
    " ",
    ">",
    "=",
    "0",
    "'a'",
    "'",
    '"',
    "--",
    "\n",
    "/*",
    "*/",
    ";",
    "(",
    ")",
    "AND",
    "OR",
    "NOT",
    "\\",
    "$$",
    "E'",
    "NULL",
    "true",
    ",",
]


def accepted(text):
    try:
        with Compiler(dict(TYPES)) as compiler:
            compiler.condition(("where",), text)
    except JobError:
        return False
    return True


def truths(text):
    """The rows that dpcore leaves for a condition."""
    with Compiler(dict(TYPES)) as compiler:
        compiler.condition(("where",), text)
        program = compiler.program([], {"where": text})
    with Evaluation(program) as evaluation:
        return evaluation.of(ROWS).conditions["where"]


def alone(text):
    """The rows for which a condition is true by itself, as the database says, which knows nothing of other conditions."""
    database = duckdb.connect(config={"threads": 1})
    database.register("rows", pa.Table.from_batches([ROWS]))
    found = database.sql(f"SELECT coalesce(CAST((\n{text}\n) AS BOOLEAN), false) AS holds FROM rows").fetchnumpy()["holds"]
    return np.asarray(found, bool)


def joined(*texts):
    view = View()
    for text in texts:
        view = view.of_rows(text)
    return view.condition


@pytest.mark.parametrize("text", [*ALONE, *BROKEN])
def test_what_cannot_stand_in_brackets_is_no_condition_and_no_expression(text):
    assert not accepted(text)
    with Compiler(dict(TYPES)) as compiler, pytest.raises(JobError, match=r"derive\[0\]\.sql"):
        compiler.derive(("derive", 0), "v", text)


@pytest.mark.some(4)
@pytest.mark.parametrize("text", ALONE)
def test_the_first_condition_of_a_table_is_refused_and_not_the_next(text):
    table = PrivateTable(pd.DataFrame({"x": [1, 2], "s": ["a", "b"]}))
    with pytest.raises(JobError, match="leave out a comment or a ; at its end"):
        table.where(text).count(epsilon=1.0)
    with table.batch(epsilon=1.0) as batch, pytest.raises(JobError, match="leave out a comment or a ; at its end"):
        batch.where(text).count(epsilon=0.5)
    for first, second in ((text, "x > 0"), ("x > 0", text)):
        with pytest.raises(JobError, match="leave out a comment or a ; at its end"):
            table.where(first).where(second)


@pytest.mark.long
def test_the_rows_of_two_conditions_are_those_of_both():
    alike = {text: alone(text) for text in PARTS}
    for first, second in itertools.product(PARTS, PARTS):
        found = truths(joined(first, second))
        assert np.array_equal(found, alike[first] & alike[second]), (first, second)
    assert any(rows.any() and not rows.all() for rows in alike.values())


@pytest.mark.long
def test_the_rows_of_three_conditions_are_those_of_all():
    for texts in itertools.permutations(["x > 0 -- a\n", "s = '--' OR x < 3", "x IS NULL OR x > 0 /* ) */", "s <> 'a;'"], 3):
        assert np.array_equal(truths(joined(*texts)), np.logical_and.reduce([alone(text) for text in texts])), texts


@pytest.mark.long
@given(st.tuples(*[st.lists(st.sampled_from(ALPHABET), min_size=1, max_size=8).map(" ".join)] * 2))
def test_any_two_conditions_that_are_accepted_are_accepted_together(texts):
    first, second = texts
    if not (accepted(first) and accepted(second)):
        return
    found = truths(joined(first, second))
    assert np.array_equal(found, alone(first) & alone(second))


def test_brackets_around_the_text_alone_do_not_join_two_conditions():
    """The broken twin: what stood here before, of which the second condition is lost in a comment."""
    with opened() as database:
        text = "(x > 0 -- \n) AND (x < 3)".replace("\n", "")
        with pytest.raises(SyntaxRefusedError):
            parsed(text, database)


def test_a_comment_is_not_shown_as_if_it_went_on():
    assert spaced("x > 0\n  AND  x < 3") == "x > 0 AND x < 3"
    assert spaced("x > 0 -- positive\nAND x < 3") == "x > 0 -- positive\\x0aAND x < 3"
