"""The value of an expression for a row depends on that row alone, and no row makes it fail: for all functions, on hostile values."""

from __future__ import annotations

import contextlib
import datetime as dt
import itertools
import random
import re
import struct
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dpcore.errors import JobError, StorageError
from dpcore.tables.formats import csv as csv_input
from dpcore.tables.sql import evaluation as evaluation_module
from dpcore.tables.sql import program as program_module
from dpcore.tables.sql.allowed import FUNCTIONS, OF_TIME
from dpcore.tables.sql.arrow_values import FIRST_DAY, LAST_DAY, NULLS, database_type, readable
from dpcore.tables.sql.evaluation import Evaluation
from dpcore.tables.sql.program import Compiler

BIG = 2**63 - 1
VALUES = {
    "a": [0, 1, -1, 2, 7, 63, 64, BIG, -BIG - 1, -BIG, 2**31, -(2**31), 10**18, None],
    "b": [0, 1, -1, 3, BIG, -BIG - 1, 5, 100, -100, None],
    "u": [0, 1, 2**64 - 1, 2**63, None],
    "x": [0.0, -0.0, 1.5, -1.5, 1e308, -1e308, 5e-324, float("inf"), float("-inf"), float("nan"), 2.0**63, 1e19, 0.1, None],
    "y": [0.0, 0.5, -0.5, 1e-308, 1e308, 3.0, 400.0, -400.0, float("nan"), None],
    "s": ["", "a", "A", "abc", "ß", "İ", "ǅ", "ɐ" * 50, "日本", "e\u0301", "\0",
          "a\0b", "%_%", "1", " 12 ", "1e400", "x" * 4096, "x" * 4097, "2024-02-30", "inf", None],
    "t": ["", "a", "b", "abc", "2024-02-29", "1.5", "true", "\U0001f600", "ﬁ", None],
    "d": [dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(2024, 2, 29), dt.date(1970, 1, 1), dt.date(1900, 3, 1), None],
    "ts": [dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999), dt.datetime(2024, 2, 29, 12),
           dt.datetime(1969, 12, 31, 23, 59, 59, 1), None],
    "f": [True, False, None],
    "c": [dt.time(0), dt.time(23, 59, 59, 999999), dt.time(12), dt.time(7, 30), None],
    "w": [dt.timedelta(0), dt.timedelta(hours=-1), dt.timedelta(days=2_932_895), dt.timedelta(microseconds=1), None],
    "n": [Decimal("0.00"), Decimal("99999999.99"), Decimal("-99999999.99"), Decimal("1.25"), None],
}  # fmt: skip
KINDS = {
    "a": pa.int64(), "b": pa.int64(), "u": pa.uint64(), "x": pa.float64(), "y": pa.float64(), "s": pa.string(), "t": pa.string(),
    "d": pa.date32(), "ts": pa.timestamp("us"), "f": pa.bool_(), "n": pa.decimal128(10, 2), "c": pa.time64("us"),
    "w": pa.duration("us"),
}  # fmt: skip
EXPRESSIONS = """
    a + b | a - b | a * b | a / b | a // b | a % b | a ** 3 | b ^ 2 | -a | x + y | x - y | x * y | x / y | x // y | x % y | x ** y
    | u + 1 | u - 1 | a & b | a << b | a >> b | xor(a, b) | abs(a) | abs(x) | abs(n) | ceil(x) | ceiling(n) | floor(x) | floor(n)
    | round(x, CAST(b AS INTEGER)) | round(x) | round(n, 1) | round_even(x, 2) | trunc(x) | sign(x) | sign(a) | sqrt(x) | cbrt(x)
    | exp(x) | ln(x) | log(x) | log2(x) | log10(x) | log(x, y) | pow(x, y) | power(a, b) | greatest(a, b, 3) | least(x, y) | isnan(x)
    | isinf(x) | isfinite(x) | pi() * x | sin(x) | cos(x) | tan(x) | asin(x) | acos(y) | atan(x) | atan2(x, y) | radians(x) | degrees(x)
    | add(a, b) | subtract(a, b) | multiply(a, b) | divide(a, b) | mod(a, b) | bit_count(a) | n * n | n + a | n / n | n % 2 | n - 0.01
    | n * 1000000000000 | a * 1.5 | n > x | u > a | trim(s) | ltrim(s, 'x') | rtrim(s, t) | left(s, b) | right(s, b) | substr(s, a, b)
    | substring(s, a) | reverse(s) | length(s) | len(t) | char_length(s) | character_length(s) | strlen(s) | strpos(s, t) | instr(s, t)
    | position('a' IN s) | contains(s, t) | starts_with(s, t) | ends_with(s, t) | prefix(s, t) | suffix(s, t) | s ^@ t | ascii(s)
    | unicode(s) | ord(s) | split_part(s, t, b) | split_part(s, '', b) | lower(s) | upper(s) | lcase(s) | ucase(s) | strip_accents(s)
    | translate(s, 'aé', 'xy') | s || t | concat(s, a, d, x) | concat_ws('-', s, t) | replace(s, 'ab', 'x') | lpad(s, 5, 'é')
    | rpad(s, 256, '日') | lpad(s, 4, '') | chr(CAST(a AS INTEGER)) | md5(s) | s LIKE '%a%' | s NOT LIKE 'a_c' | s ILIKE 'Ǆ%'
    | s NOT ILIKE '%x%x%x%x%x%x%' | s LIKE '%x%x%x%x%x%x%x%y' | s LIKE '%_x%' | regexp_matches(s, '^(x+x+)+y')
    | regexp_full_match(s, '[[:alpha:]]+') | regexp_extract(s, '(a)(b)?', 2) | regexp_matches(s, 'A', 'i') | s SIMILAR TO '.*x'
    | year(d) | month(ts) | day(d) | dayofmonth(d) | dayofweek(d) | weekday(ts) | isodow(d) | dayofyear(d) | week(d) | weekofyear(ts)
    | yearweek(d) | isoyear(d) | quarter(d) | hour(ts) | minute(ts) | second(ts) | millisecond(ts) | microsecond(ts) | epoch(ts)
    | epoch_ms(ts) | last_day(d) | make_date(a, b, 1) | make_date(CAST(a AS INTEGER)) | make_timestamp(a, b, 1, 1, 1, x)
    | make_timestamp(a) | date_add(d, to_days(CAST(b AS INTEGER))) | century(d) | decade(ts) | julian(ts) | dayname(d) | monthname(d)
    | d + to_years(CAST(a AS INTEGER)) | ts + to_quarters(1) | d - to_months(CAST(b AS INTEGER)) | ts - to_weeks(CAST(b AS INTEGER))
    | ts + to_hours(a) | ts - to_minutes(a) | ts + to_seconds(x) | d + INTERVAL (b) DAY | d + CAST(b AS INTEGER) | date_part('year', ts)
    | datepart('epoch', d) | date_trunc('month', ts) | datetrunc('millennium', d) | date_diff('microsecond', ts, d)
    | datediff('month', d, ts) | date_sub('day', d, ts) | datesub('year', ts, d) | strftime(ts, '%c %A %j %f') | strftime(d, '%Y-%m-%d')
    | try_strptime(s, '%Y-%m-%d') | try_strptime(t, '%d %B %Y') | d - DATE '2024-01-01' | ts > d | d >= '2024-02-29'
    | ts - INTERVAL 1 MONTH > d | CAST(s AS INTEGER) | CAST(s AS DOUBLE) | TRY_CAST(s AS DATE) | t::TIMESTAMP | t::BOOLEAN
    | CAST(s AS DECIMAL(5, 2)) | CAST(x AS BIGINT) | x::TINYINT | a::UTINYINT | a::FLOAT | x::FLOAT | x::VARCHAR | n::VARCHAR
    | ts::VARCHAR | ts::DATE | d::TIMESTAMP | f::INTEGER | a::BOOLEAN | n::INTEGER | u::BIGINT | x::DECIMAL(38, 10) | a::DECIMAL(38, 30)
    | CAST(CAST(a AS DECIMAL(38, 0)) * 1000 AS BIGINT) | f AND a // b > 0 | f OR a // b > 0 | TRUE OR CAST(s AS INTEGER) > 0
    | NOT (a + b > 0) | FALSE AND ln(x) > 0 | (a * b > 0) OR (b * a <= 0) | a = b | a <> x | a < u | x >= y | s = t | s > 'a' | d < ts
    | a IS DISTINCT FROM b | s IS NOT DISTINCT FROM t | x IS NULL | f IS NOT NULL | f IS TRUE | a IN (1, b, 7) | s IN ('a', 'abc')
    | a NOT IN (1, NULL) | a BETWEEN b AND 7 | x NOT BETWEEN y AND 1 | d BETWEEN '2000-01-01' AND ts
    | CASE WHEN a // b > 0 THEN a * b WHEN f THEN x ELSE 1 END | CASE a WHEN 1 THEN 'one' WHEN b THEN 'b' END
    | CASE WHEN f THEN s ELSE a::VARCHAR END | COALESCE(a // b, a * b, -1) | IFNULL(s, t) | NULLIF(a, b) | IF(a > b, s, t)
    | COALESCE(CAST(s AS INTEGER), CAST(t AS INTEGER), a)
    | hour(c) | minute(c) | second(c) | microsecond(c) | epoch(c) | date_part('hour', c) | date_diff('minute', c, TIME '12:00')
    | c > '08:00' | c BETWEEN TIME '07:00' AND TIME '19:00' | c + INTERVAL 30 MINUTE | c - to_hours(a) | c + w | d + c
    | ts::TIME | s::TIME | TRY_CAST(t AS TIME) | c::VARCHAR | make_time(a, b, x) | COALESCE(c, TIME '00:00') | c IN (TIME '12:00')
    | ts - ts | ts - d | w + w | w * 2 | w > INTERVAL 5 MINUTE | epoch(w) | to_months(a) | to_days(CAST(b AS INTEGER)) | -w
"""
ALLOWED = [each.strip() for each in " ".join(EXPRESSIONS.split()).split(" | ")]


def rows_of(count, seed):
    """Rows with hostile values in every column; each value occurs."""
    chosen = random.Random(seed)
    columns = {name: [chosen.choice(values) for _ in range(count)] for name, values in VALUES.items()}
    for name, values in VALUES.items():
        columns[name][: len(values)] = chosen.sample(values, len(values))
    return pa.record_batch({name: pa.array(column, KINDS[name]) for name, column in columns.items()})


def compiled(texts, columns=None):
    kinds = columns or {name: database_type(kind) for name, kind in KINDS.items()}
    with Compiler(dict(kinds)) as compiler:
        names = []
        for place, text in enumerate(texts):
            # What no query takes is seen through a cast.
            try:
                compiler.derive(("derive", place), f"v{place}", text)
            except Exception as error:
                if "which no query takes" not in str(error):
                    raise
                compiler.derive(("derive", place), f"v{place}", f"CAST({text} AS VARCHAR)")
            names.append(f"v{place}")
        return compiler.program(names, {"where": "f OR a // b > 0"})


def bits(values):
    """Values that are equal if and only if all their bits are."""
    if pa.types.is_temporal(values.type):
        values = values.view(pa.int32() if pa.types.is_date(values.type) else pa.int64())
    return [struct.pack("d", each) if isinstance(each, float) and each == each else repr(each) for each in values.to_pylist()]


def seen(values):
    """All that an evaluation gives, as values to compare."""
    return {key: bits(each) for key, each in values.columns.items()} | {key: each.tolist() for key, each in values.conditions.items()}


def test_dates_that_are_computed_stay_within_the_calendar():
    program = compiled(["d + CAST(b AS INTEGER)", "ts + to_seconds(x)"])
    with Evaluation(program) as evaluation:
        found = evaluation.of(rows_of(2000, seed=3)).columns
    assert found["v0"].type == pa.date32()
    days = found["v0"].view(pa.int32()).drop_null().to_numpy()
    ticks = found["v1"].view(pa.int64()).drop_null().to_numpy()
    assert FIRST_DAY <= days.min() < 0 < days.max() <= LAST_DAY
    assert FIRST_DAY * 86_400_000_000 <= ticks.min() < ticks.max() < (LAST_DAY + 1) * 86_400_000_000


def test_every_function_is_among_the_expressions():
    text = EXPRESSIONS.replace("position(", "position (")
    operators = {"~~": "LIKE", "!~~": "NOT LIKE", "~~*": "ILIKE", "!~~*": "NOT ILIKE", "|": None}
    for name in FUNCTIONS:
        wanted = operators.get(name, name)
        assert wanted is None or (wanted in text if not name.isidentifier() else re.search(rf"\b{name}\b", text)), name


@pytest.mark.some(2)
@pytest.mark.parametrize("start", range(0, len(ALLOWED), 40))
def test_a_value_depends_on_its_row_alone_and_no_row_fails(start):
    """However rows are cut, ordered and spread over threads, each has the same values, bit by bit; alone, too."""
    program = compiled(ALLOWED[start : start + 40])
    batch = rows_of(3000, seed=start)
    with Evaluation(program) as evaluation:
        whole = seen(evaluation.of(batch))
        for cut in (1999, 2048):
            parts = [seen(evaluation.of(batch.slice(at, cut))) for at in range(0, len(batch), cut)]
            for key, values in whole.items():
                assert list(itertools.chain.from_iterable(part[key] for part in parts)) == values, key
        order = np.random.default_rng(start).permutation(len(batch))
        shuffled = seen(evaluation.of(batch.take(pa.array(order))))
        for key, values in whole.items():
            assert shuffled[key] == [values[at] for at in order]
        for row in range(25):
            alone = seen(evaluation.of(batch.slice(row, 1)))
            for key, values in whole.items():
                assert alone[key] == [values[row]], (key, row)
        with ThreadPoolExecutor(3) as pool:
            for found in pool.map(lambda at: (at, seen(evaluation.of(batch.slice(at, 700)))), range(0, len(batch), 700)):
                at, part = found
                for key, values in whole.items():
                    assert part[key] == values[at : at + 700]


PARTS = [
    "century", "day", "decade", "doy", "dow", "epoch", "era", "hour", "isodow", "isoyear", "julian", "microseconds", "millennium",
    "milliseconds", "minute", "month", "nanoseconds", "quarter", "second", "timezone", "timezone_hour", "timezone_minute", "week", "year",
    "yearweek",
]  # fmt: skip
"""What the database has a name for; it has not made each for each type, and tells so with the first value that is not NULL."""
OF_PARTS = [
    *(f"{name}({column})" for name in OF_TIME for column in ("d", "ts", "c", "w", "a")),
    *(f"{name}('{part}', {column})" for name in ("date_part", "date_trunc") for part in PARTS for column in ("d", "ts", "c", "w")),
    *(f"{name}('{part}', {column}, {column})" for name in ("date_diff", "date_sub") for part in PARTS for column in ("d", "ts", "c")),
]


def without_refused(texts):
    """The expressions that are not refused before any row is read."""
    with Compiler({name: database_type(kind) for name, kind in KINDS.items()}) as compiler:
        for text in texts:
            with contextlib.suppress(JobError):
                compiler.condition(("where",), f"({text}) IS NULL")
                yield text


def check_no_value_ends(texts):
    program = compiled([f"({text}) IS NULL" for text in texts])
    rows = rows_of(30, seed=1)
    with Evaluation(program) as evaluation:
        assert len(evaluation.of(rows).columns) == len(texts)


@pytest.mark.long
def test_what_the_database_has_not_made_for_a_type_is_refused_and_fails_at_no_row():
    texts = list(without_refused(OF_PARTS))
    assert len(texts) > 150
    assert "dayofweek(d)" in texts
    assert "dayofweek(w)" not in texts
    check_no_value_ends(texts)


@pytest.fixture
def tried_with_null_alone(monkeypatch):
    """What the database has not made for a type then looks like NULL until a row has a value."""
    rows_of_samples = program_module._rows_of
    monkeypatch.setattr(program_module, "_rows_of", lambda kinds: rows_of_samples(kinds)[:1] * 3)


@pytest.mark.usefixtures("tried_with_null_alone")
def test_a_step_that_is_tried_with_null_alone_is_not_refused():
    assert list(without_refused(["dayofweek(w)"])) == ["dayofweek(w)"]


@pytest.mark.long
@pytest.mark.usefixtures("tried_with_null_alone")
@pytest.mark.parametrize("derived", [True, False])
def test_an_error_that_try_lets_through_costs_its_row_alone(derived):
    """No such error is known that depends on the value; one that depends on whether there is a value stands for it."""
    text = "dayofweek(CASE WHEN a > b THEN w END) IS NULL"
    with Compiler({name: database_type(kind) for name, kind in KINDS.items()}) as compiler:
        if derived:
            compiler.derive(("derive", 0), "v", text)
        program = compiler.program(["v"] if derived else [], {"where": text})
    rows = rows_of(200, seed=5)
    with Evaluation(program) as evaluation:
        whole = seen(evaluation.of(rows))
        alone = [seen(evaluation.of(rows.slice(row, 1))) for row in range(len(rows))]
    for key, values in whole.items():
        assert len(set(map(str, values))) == 2
        assert [each[key] for each in alone] == [[value] for value in values]


@pytest.mark.usefixtures("tried_with_null_alone")
def test_an_evaluation_without_that_is_rejected(monkeypatch):
    monkeypatch.setattr(evaluation_module, "OF_VALUES", ())
    with pytest.raises(StorageError):
        check_no_value_ends(["dayofweek(w)"])


def test_a_condition_is_true_false_or_not_and_never_null():
    program = compiled(["a"])
    batch = rows_of(3000, seed=7)
    with Evaluation(program) as evaluation:
        found = evaluation.of(batch).conditions["where"]
    assert found.dtype == np.bool_
    rows = zip(batch["f"].to_pylist(), batch["a"].to_pylist(), batch["b"].to_pylist(), strict=True)
    for value, (f, a, b) in zip(found.tolist(), rows, strict=True):
        fails = a is None or b is None or b == 0 or (a == -BIG - 1 and b == -1)
        assert value == (bool(f) or (not fails and abs(a) // abs(b) > 0 and (a > 0) == (b > 0)))


THREE = st.sampled_from([True, False, None])


def larger(each):
    """Conditions made of others."""
    return st.one_of(st.tuples(st.sampled_from(["AND", "OR"]), each, each), st.tuples(st.just("NOT"), each))


FAILING = {"zero": "(1 // z > 0)", "error": "(ln(z) > 0)", "overflow": "(9223372036854775807 + (z + 1) > 0)"}
"""Conditions that have no value for any row: NULL by themselves, or an error of the database."""
CONDITIONS = st.recursive(st.sampled_from(["p", "q", *FAILING, "TRUE", "FALSE"]), larger, max_leaves=12)


@example(("OR", "p", "error"), [(True, True), (False, True)])
@given(CONDITIONS, st.lists(st.tuples(THREE, THREE), min_size=1, max_size=8))
def test_conditions_have_the_three_values_of_sql_whatever_fails(tree, rows):
    """What fails for every row is NULL; AND, OR and NOT follow Kleene, wherever it stands."""

    def text(node):
        if isinstance(node, str):
            return FAILING.get(node, node)
        return f"({text(node[1])} {node[0]} {text(node[2])})" if len(node) == 3 else f"(NOT {text(node[1])})"

    def meaning(node, p, q):
        if isinstance(node, str):
            return {"p": p, "q": q, "TRUE": True, "FALSE": False}.get(node)
        parts = [meaning(each, p, q) for each in node[1:]]
        if node[0] == "NOT":
            return None if parts[0] is None else not parts[0]
        decisive = node[0] == "OR"
        return decisive if decisive in parts else None if None in parts else not decisive

    with Compiler({"p": "BOOLEAN", "q": "BOOLEAN", "z": "BIGINT"}) as compiler:
        program = compiler.program([], {"where": text(tree)})
    p, q = (pa.array(list(each), pa.bool_()) for each in zip(*rows, strict=True))
    batch = pa.record_batch({"p": p, "q": q, "z": pa.array([0] * len(rows))})
    with Evaluation(program) as evaluation:
        assert evaluation.of(batch).conditions["where"].tolist() == [bool(meaning(tree, p, q)) for p, q in rows]


# Columns of Arrow


def test_cells_that_are_missing_in_a_csv_are_null():
    assert NULLS == csv_input.NULLS
    cells = pa.array([*(each.encode() for each in NULLS), b"x", b"\xff\xfe", "é".encode(), b"y" * 5000], pa.binary())
    assert readable(cells, "VARCHAR").to_pylist() == [None] * len(NULLS) + ["x", None, "é", None]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())], ids=str)
def test_text_that_is_not_utf8_is_null(kind):
    offsets, content = np.array([0, 1, 3, 3, 5], np.int32), b"a\xff\xfe\xc3\xa9"
    text = pa.Array.from_buffers(pa.string(), 4, [None, pa.py_buffer(offsets), pa.py_buffer(content)])
    if pa.types.is_dictionary(kind):
        cells = pa.DictionaryArray.from_arrays(pa.array([3, 1, 0, None], pa.int8()), text)
        assert readable(cells, "VARCHAR").cast(pa.string()).to_pylist() == ["é", None, "a", None]
        return
    if kind == pa.string_view():
        cells = text.view(pa.binary()).cast(pa.binary_view()).view(pa.string_view())
    else:
        cells = text if kind == pa.string() else text.view(pa.binary()).cast(pa.large_binary()).view(pa.large_string())
    assert readable(cells, "VARCHAR").to_pylist() == ["a", None, "", "é"]


@pytest.mark.parametrize("offset", [0, 3])
def test_times_beyond_the_calendar_are_null(offset):
    edges = [0, FIRST_DAY, FIRST_DAY - 1, LAST_DAY, LAST_DAY + 1, -(2**31), 2**31 - 1, None]
    days = pa.array(edges, pa.int32()).view(pa.date32())[offset:]
    expected = [each if each is not None and FIRST_DAY <= each <= LAST_DAY else None for each in edges][offset:]
    assert readable(days, "DATE").view(pa.int32()).to_pylist() == expected
    for unit, a_day in {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000}.items():
        ticks = pa.array([None if each is None else max(min(each * a_day, BIG), -BIG - 1) for each in edges], pa.int64())[offset:]
        found = readable(ticks.view(pa.timestamp(unit, "Europe/Berlin")), "TIMESTAMP")
        assert found.view(pa.int64()).to_pylist() == [None if each is None else each * 86_400_000_000 for each in expected]
    for ticks in (BIG, -BIG - 1, 0, -1, 999, -999):
        assert readable(pa.array([ticks]).view(pa.timestamp("ns")), "TIMESTAMP").view(pa.int64()).to_pylist() == [ticks // 1000]
    milliseconds = [0, -1, 86_399_999, 86_400_000, BIG, -BIG - 1, None]
    found = readable(pa.array(milliseconds, pa.int64()).view(pa.date64()), "DATE").view(pa.int32()).to_pylist()
    assert found == [0, -1, 0, 1, None, None, None]


def test_lengths_of_time_are_compared_with_intervals():
    longest = LAST_DAY * 86_400
    seconds = [0, 1, -1, 300, 301, longest, longest + 1, -longest, BIG, -BIG - 1, None]
    with Compiler({"wait": database_type(pa.duration("s")), "ts": "TIMESTAMP"}) as compiler:
        compiler.derive(("derive", 0), "seconds", "epoch(wait)")
        compiler.derive(("derive", 1), "end", "ts + wait")
        program = compiler.program(["seconds", "end"], {"long": "wait > INTERVAL 5 MINUTE"})
    start = pa.array([dt.datetime(2024, 1, 1)] * len(seconds), pa.timestamp("s"))
    batch = pa.record_batch({"wait": pa.array(seconds, pa.int64()).view(pa.duration("s")), "ts": start})
    with Evaluation(program) as evaluation:
        found = evaluation.of(batch)
    kept = [each if each is not None and abs(each) <= longest else None for each in seconds]
    assert found.columns["seconds"].to_pylist() == kept
    assert found.conditions["long"].tolist() == [each is not None and each > 300 for each in kept]
    assert found.columns["end"].to_pylist()[:4] == [dt.datetime(2024, 1, 1) + dt.timedelta(seconds=each) for each in (0, 1, -1, 300)]
    for unit, each in {"ms": 1000, "us": 10**6, "ns": 10**9}.items():
        ticks = pa.array([7 * each, -7 * each, None], pa.int64()).view(pa.duration(unit))
        assert readable(ticks, "INTERVAL").view(pa.int64()).to_pylist() == [7_000_000, -7_000_000, None]


def test_decimals_with_too_many_digits_are_null():
    raw = np.array([5, 0, 10**10, 0, 0, 2**62], np.int64)
    cells = pa.Array.from_buffers(pa.decimal128(5, 2), 3, [None, pa.py_buffer(raw)])
    assert readable(cells, database_type(cells.type)).to_pylist() == [Decimal("0.05"), None, None]


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [(pa.int8(), "BIGINT"), (pa.uint32(), "BIGINT"), (pa.uint64(), "UBIGINT"), (pa.float16(), "DOUBLE"), (pa.float32(), "DOUBLE"),
     (pa.bool_(), "BOOLEAN"), (pa.null(), "NULL"), (pa.date64(), "DATE"), (pa.timestamp("ns", "UTC"), "TIMESTAMP"),
     (pa.decimal128(9, 3), "DECIMAL(9,3)"), (None, "VARCHAR"), (pa.dictionary(pa.int32(), pa.large_string()), "VARCHAR"),
     (pa.binary(), None), (pa.list_(pa.int8()), None), (pa.struct([("k", pa.int8())]), None),
     (pa.time64("us"), "TIME"), (pa.time32("ms"), "TIME"), (pa.duration("s"), "INTERVAL"), (pa.decimal256(50, 2), None),
     (pa.decimal256(38, 2), "DECIMAL(38,2)"), (pa.decimal128(5, -2), None)],
)  # fmt: skip
def test_the_types_that_an_expression_can_use(kind, wanted):
    assert database_type(kind) == wanted
