"""What somebody meets who comes from pandas or polars: their dates and categories, their words, and their mistakes."""

from __future__ import annotations

import datetime as dt
import json
import math
import uuid
from decimal import Decimal

import numpy as np
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pandas")
pytest.importorskip("pydantic")

import pandas as pd
import pyarrow as pa

from dpcore import BudgetError, ParameterError, PrivateTable
from dpcore.accounting import Ledger
from dpcore.errors import DataError, JobError
from dpcore.testing import KeyedRandom
from support.extras import evaluated

ROWS = 400
DAYS = [dt.date(2024, 1, 1), dt.date(2024, 7, 1), dt.date(2025, 1, 1)]


@pytest.fixture(scope="module")
def visits():
    made = np.random.default_rng(11)
    day = pd.Timestamp("2024-01-01") + pd.to_timedelta(made.integers(0, 366, ROWS), unit="D")
    return pd.DataFrame(
        {
            "person": pd.Categorical([f"p{number}" for number in made.integers(0, 90, ROWS)]),
            "ward": made.choice(["a", "b"], ROWS),
            "cost": np.where(made.random(ROWS) < 0.1, np.nan, made.gamma(2.0, 50.0, ROWS)),
            "smoker": made.random(ROWS) < 0.3,
            "day": day,
            "stay": pd.to_timedelta(made.integers(0, 600, ROWS), unit="min"),
        }
    )


def keyed(frame, **settings):
    return PrivateTable(frame, rng=KeyedRandom(bytes(32)), **settings)


def written(result):
    return json.dumps(result.document)


def test_a_unit_of_categories_is_that_of_its_texts(visits):
    pl = pytest.importorskip("polars")
    plain = visits.astype({"person": "str"})
    settings = {"unit": "person", "max_rows_per_unit": 2, "relation": "add_remove"}
    expected = written(keyed(plain, **settings).sum("cost", epsilon=1.0, lower=0, upper=500, missing="skip"))
    frames = [visits, pa.Table.from_pandas(visits), pl.from_pandas(visits), pl.from_pandas(visits).lazy()]
    for frame in frames:
        assert written(keyed(frame, **settings).sum("cost", epsilon=1.0, lower=0, upper=500, missing="skip")) == expected


def test_answers_about_days_are_days(visits):
    table = PrivateTable(visits)
    mean = table.mean("day", epsilon=5.0, lower="2024-01-01", upper="2024-12-31", missing="skip")
    assert type(mean.value) is dt.date
    assert all(type(end) is dt.date for end in mean.interval)
    assert mean.interval[0] <= mean.value <= mean.interval[1]
    assert type(mean.stderr) is dt.timedelta
    assert f"mean of day: {mean.value} in [{mean.interval[0]}, {mean.interval[1]}]" in repr(mean)
    assert str(mean.value) in mean._repr_html_()
    assert [field.type for field in mean.to_arrow().schema] == [pa.date32(), pa.duration("us"), pa.date32(), pa.date32()]
    quartiles = table.quantile("day", epsilon=5.0, q=[0.25, 0.75], grid={"start": DAYS[0], "stop": DAYS[-1], "step": "P7D"}, missing="skip")
    assert [type(value) for value in quartiles.value] == [dt.date, dt.date]
    assert quartiles.interval is None
    assert quartiles.to_pandas()["value"].tolist() == quartiles.value
    by_ward = table.group_by("ward", groups=["a", "b"]).mean("day", epsilon=5.0, lower=DAYS[0], upper=DAYS[-1], missing="skip")
    assert [len(pair) for pair in by_ward.interval] == [2, 2]
    assert by_ward.to_arrow().schema.field("value").type == pa.date32()
    halves = table.histogram("day", epsilon=5.0, edges=DAYS, missing="skip")
    assert halves.to_arrow().schema.field("left").type == pa.date32()
    assert len(halves.value) == 2


def test_other_times_of_answers(visits):
    table = PrivateTable(visits.assign(stamp=visits["day"].dt.tz_localize("Europe/Berlin"), clock=dt.time(9, 30)))
    ends = [pd.Timestamp(day, tz="Europe/Berlin") for day in DAYS[::2]]
    mean = table.mean("stamp", epsilon=5.0, lower=ends[0], upper=ends[1], missing="skip")
    assert mean.value.tzinfo is dt.UTC
    assert mean.to_arrow().schema.field("value").type == pa.timestamp("us", "UTC")
    stay = table.mean("stay", epsilon=5.0, lower=pd.Timedelta(0), upper=dt.timedelta(hours=10), missing="skip")
    assert dt.timedelta(0) <= stay.value <= dt.timedelta(hours=10)
    clock = table.median("clock", epsilon=5.0, grid=[dt.time(9), dt.time(9, 30), dt.time(10)], missing="skip")
    assert clock.value == dt.time(9, 30)
    absent = PrivateTable(visits[:0]).mean("day", epsilon=1.0, lower=DAYS[0], upper=DAYS[1], missing=DAYS[0])
    assert absent.value is absent.interval is None


@pytest.mark.parametrize(
    "grid",
    [
        {"start": dt.date(2024, 1, 1), "stop": np.datetime64("2025-01-01"), "step": dt.timedelta(days=1)},
        {"start": np.datetime64("2024-01-01"), "stop": dt.date(2025, 1, 1), "step": np.timedelta64(1, "D")},
        np.arange("2024-01-01", "2025-01-02", dtype="M8[D]"),
        [day.date() for day in pd.date_range("2024-01-01", "2025-01-01")],
    ],
)
def test_days_of_other_libraries(visits, grid):
    text = {"start": "2024-01-01", "stop": "2025-01-01", "step": "P1D"}
    expected = keyed(visits).median("day", epsilon=1.0, grid=text, missing="skip")
    assert written(keyed(visits).median("day", epsilon=1.0, grid=grid, missing="skip")) == written(expected)


def test_nanoseconds_of_numpy(visits):
    edges = np.array(["2024-01-01", "2024-07-01", "2025-01-01"], "M8[ns]")
    expected = keyed(visits).histogram("day", epsilon=1.0, edges=[f"{day}T00:00:00" for day in DAYS], missing="skip")
    assert written(keyed(visits).histogram("day", epsilon=1.0, edges=edges, missing="skip")) == written(expected)
    stay = keyed(visits).count("stay", epsilon=1.0, lower=np.timedelta64(0, "ns"), upper=np.timedelta64(3600 * 10**9, "ns"))
    assert written(stay) == written(keyed(visits).count("stay", epsilon=1.0, lower="PT0S", upper="PT1H"))


def test_days_as_groups_and_categories(visits):
    days = pd.date_range("2024-03-01", "2024-03-03")
    truth = [(visits["day"] == day).sum() for day in days]
    table = PrivateTable(visits)
    assert table.group_by("day", groups=days).count(epsilon=60.0).value.tolist() == truth
    assert table.histogram("day", categories=list(days), epsilon=60.0, missing="skip", unknown="skip").value.tolist() == truth
    public = pd.DataFrame({"day": days, "ward": ["a", "a", "b"]})
    assert len(table.group_by("day", "ward", groups=public).count(epsilon=1.0).value) == 3
    months = {"by": "month", "first": days[0], "last": dt.datetime(2024, 4, 1)}
    assert table.group_by("day", groups=months).count(epsilon=1.0).to_pandas()["day"].tolist() == ["2024-03", "2024-04"]


@evaluated
def test_objects_of_python_are_their_text(visits):
    """Days, decimals and UUIDs in columns of objects, as `.dt.date`, databases and `uuid4` give them."""
    made = np.random.default_rng(4)
    cents = made.integers(0, 40_000, ROWS)
    objects = pd.DataFrame(
        {
            "person": [uuid.UUID(int=int(number)) for number in made.integers(0, 50, ROWS)],
            "day": visits["day"].dt.date,
            "price": [Decimal(int(cent)) / 100 for cent in cents],
        }
    )
    assert set(objects.dtypes) == {np.dtype(object)}
    people = PrivateTable(objects, unit="person", max_rows_per_unit=1, relation="add_remove")
    assert people.count_distinct(epsilon=60.0).value == len(set(objects["person"]))
    table = keyed(objects)
    grid = {"start": "2024-01-01", "stop": "2025-01-01", "step": "P1D"}
    days = table.median("day", epsilon=1.0, grid=grid, missing="skip")
    assert written(days) == written(keyed(visits).median("day", epsilon=1.0, grid=grid, missing="skip"))
    prices = PrivateTable(objects).derive(number="CAST(price AS DOUBLE)").sum("number", epsilon=60.0, lower=0, upper=400, missing=0)
    assert abs(prices.value - cents.sum() / 100) < 200


def test_the_home_of_a_path(visits, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    visits[["cost"]].to_parquet(tmp_path / "visits.parquet")
    assert PrivateTable("~/visits.parquet").count().value == ROWS


def test_a_list_of_columns_is_columns(visits):
    groups = {"ward": ["a", "b"], "smoker": [False, True]}
    listed, alone = (
        keyed(visits).group_by(*names, groups=groups).count(epsilon=1.0) for names in ([["ward", "smoker"]], ["ward", "smoker"])
    )
    assert written(listed) == written(alone)


def test_levels_that_are_computed(visits):
    table = PrivateTable(visits)
    grid = {"start": 0, "stop": 500, "step": 5}
    assert table.quantile("cost", epsilon=1.0, q=np.linspace(0.1, 0.9, 9), grid=grid, missing="skip").document["q"][2] == 0.3


def test_a_public_number_of_rows_needs_no_epsilon(visits):
    table = PrivateTable(visits, max_epsilon=1.0)
    assert table.count().value == ROWS
    assert table.spent.epsilon == 0.0
    for other in (table.where("cost > 5"), table.group_by("ward", groups=["a"]), PrivateTable(visits, relation="add_remove")):
        with pytest.raises(ParameterError, match="epsilon is required"):
            other.count()


@evaluated
def test_what_was_spent(visits, tmp_path):
    table = PrivateTable(visits, max_epsilon=1.0)
    free = PrivateTable(visits)
    for each in (table, free):
        each.where("cost > 5").count(epsilon=0.25)
        with each.batch(epsilon=0.5) as batch:
            batch.count("cost", epsilon=0.25, missing="skip")
        assert each.spent.epsilon == 0.5
    with pytest.raises(BudgetError, match=r"has spent epsilon 0\.5"):
        table.count("cost", epsilon=0.75, missing="skip")
    ledger = Ledger.create(tmp_path / "study.ledger", epsilon=1.0)
    PrivateTable(visits, ledger=ledger).count("cost", epsilon=0.25, missing="skip")
    assert Ledger(ledger.path).spent.epsilon == 0.25


def test_notebooks_say_whose_data_is_protected(visits):
    table = PrivateTable(visits, unit="person", max_rows_per_unit=2, relation="add_remove")
    top = table.median("cost", epsilon=1.0, grid=[0, 50, 100, 500], missing="skip")
    html = top._repr_html_()
    assert "differ by the presence of the rows of one person" in html
    assert "stderr" not in html  # there is none
    assert "None" not in html
    assert "count: stderr 2.79918" in repr(table.plan("count", epsilon=1.0))


MEAN = {"epsilon": 1.0, "lower": 0, "upper": 500, "missing": "skip"}
MISTAKES = {
    "word": (lambda t: t.mean("cost", eps=1.0), r"mean has no argument 'eps'\. Did you mean 'epsilon'\? It takes column, epsilon"),
    "slip": (lambda t: t.mean("cost", epsilonn=1.0), "Did you mean 'epsilon'?"),
    "place": (lambda t: t.mean("cost", 1.0, lower=0, upper=5), "mean takes column alone without a name"),
    "absent": (lambda t: t.top("ward", epsilon=1.0), "top needs s"),
    "label": (lambda t: t.mean(0, **MEAN), "column must be a str, got int; the column of pandas with the label 0 is '0'"),
    "epsilon": (lambda t: t.mean("cost", lower=0, upper=5), "epsilon is required"),
    "mask": (lambda t: t.where(pd.Series([True])), r"sql must be a str, got Series; .* as SQL: where\(.age >= 30.\)$"),
    "computed": (lambda t: t.derive(dear=pd.Series([1])), r"dear must be a str, got Series; write the column as SQL: derive\(dear="),
    "groups": (
        lambda t: t.group_by("ward"),
        r'groups is required, the values of ward that you know .* groups=\["a", "b"\]; or groups="private" with delta=1e-8',
    ),
    "range": (lambda t: t.mean("cost", **MEAN | {"epsilon": -1}), "^epsilon must be positive, got -1.0$"),
    "percent": (lambda t: t.quantile("cost", q=95, grid=[0, 1], epsilon=1.0), "got 95; the 95th percentile is q = 0.95"),
    "German date": (
        lambda t: t.mean("day", epsilon=1.0, lower="1.1.2024", upper="1.2.2024"),
        "got '1.1.2024' of type str; dates, .* 2013-01-31",
    ),
    "number of a date": (lambda t: t.mean("day", **MEAN), "bounds, edges or grid must be of its sort, like 2013-01-31T12:00:00"),
    "number of a text": (lambda t: t.mean("ward", **MEAN), r"as in CAST\(ward AS DOUBLE\)"),
    "yes": (
        lambda t: t.group_by("smoker", groups=["no", "yes"]).count(epsilon=1.0),
        r"group_by of 'count' takes .*; write .* \[false, true\]",
    ),
    "set": (lambda t: t.group_by("ward", groups={"a", "b"}), "values must be in a list, got a set"),
    "null": (lambda t: t.group_by("ward", groups=["a", None]).count(epsilon=1.0), "null = true"),
    "decimals": (lambda t: t.group_by("cost", groups=[0.5, 1.5]).count(epsilon=1.0), r"item 0 is 0.5; .* edges = \[...\]"),
    "auto": (
        lambda t: t.group_by("ward", groups="auto").count(epsilon=1.0),
        "a list of values, a table, \"private\", or the path .* got 'auto'",
    ),
    "delta": (lambda t: t.group_by("ward", groups="private"), "needs delta, such as 1e-8"),
    "Private": (lambda t: t.group_by("ward", groups="Private", delta=1e-8), "got 'Private'"),
    "key": (lambda t: t.lookup(pd.DataFrame({"ward": ["a"], "x": [1]}), "wart", ["x"]).mean("x", **MEAN), "Did you mean 'ward'?"),
    "dict": (lambda t: t.lookup({"ward": ["a"]}, "ward", ["x"]), r"^table must be .* got dict; .* pandas.DataFrame\(table\)"),
    "ampersand": (lambda t: t.where("(cost > 5) & smoker").count(epsilon=1.0), "conditions are joined with AND"),
    "quotes": (lambda t: t.where('ward = "a"').count(epsilon=1.0), "A text is written in single quotes: 'a'"),
    "isna": (lambda t: t.where("cost.isna()").count(epsilon=1.0), "write x IS NULL"),
    "brackets": (lambda t: t.where("ward in ['a']").count(epsilon=1.0), r"write x IN \('a', 'b'\)"),
    "WHERE": (lambda t: t.where("WHERE cost > 5").count(epsilon=1.0), "leave WHERE out"),
    "word of SQL": (
        lambda t: t.where("hour(at) > 5").count(epsilon=1.0),
        r'at is a word of SQL: if it is a column, write "at" in double quotes',
    ),
    "aggregate": (lambda t: t.where("cost > avg(cost)").count(epsilon=1.0), "aggregates are queries"),
    "constant": (
        lambda t: t.derive(one="1").sum("one", **MEAN),
        "the same for every row, which no query takes; for a number of each row, use CASE WHEN x IS NULL THEN 1 ELSE 1 END with a col",
    ),
    "cells": (
        lambda t: t.epsilon_for("count", half_width=9, cells="each"),
        "cells must be 1 .each number by itself., .* or 'all', got 'each'",
    ),
    "columns": (lambda _: PrivateTable(pd.DataFrame()).count(), "has no columns"),
    "threads": (lambda t: PrivateTable(t, threads=0), "threads must be in|frame must be"),
    "max_delta": (lambda _: PrivateTable(pd.DataFrame({"a": [1]}), max_delta=1e-6), "max_delta = 1e-06 belongs to max_epsilon"),
    "max_epsilon": (lambda _: PrivateTable(pd.DataFrame({"a": [1]}), max_epsilon=-1), "max_epsilon must be"),
}
EVALUATED = {"key", "ampersand", "quotes", "isna", "brackets", "WHERE", "word of SQL", "aggregate", "constant"}


@pytest.mark.parametrize("mistake", [pytest.param(name, marks=evaluated) if name in EVALUATED else name for name in MISTAKES])
def test_mistakes(visits, mistake):
    """Each message names the argument, the value, and what to write."""
    ask, said = MISTAKES[mistake]
    table = PrivateTable(visits, max_epsilon=10.0)
    with pytest.raises((ParameterError, TypeError), match=said) as caught:
        ask(table)
    assert "query[" not in str(caught.value)
    assert table.spent.epsilon == 0.0


def test_mistakes_in_a_batch_are_about_its_last_query(visits):
    table = PrivateTable(visits)
    with table.batch(epsilon=1.0) as batch:
        batch.count("cost", epsilon=0.1, missing="skip")
        with pytest.raises(JobError, match=r"^lower is required: [^\n]* bounds = .private.[^\n]*\nupper is required$"):
            batch.mean("cost", epsilon=0.1)
        with pytest.raises(JobError, match="a share of what is left of the budget"):
            batch.mean("cost", lower=0, upper=1)


def test_undeclared_cells_name_what_to_declare(visits):
    table = PrivateTable(visits)
    with pytest.raises(DataError, match='missing is not given; missing="skip" leaves such rows out'):
        table.mean("cost", epsilon=1.0, lower=0, upper=5)
    with pytest.raises(DataError, match='unknown is not given; unknown="skip" leaves such rows out'):
        table.histogram("ward", epsilon=1.0, categories=["a"])


@pytest.mark.parametrize(
    ("name", "advice"),
    [("filter", "use where"), ("groupby", "use group_by"), ("nunique", "use count_distinct"), ("max", "use quantile"), ("head", "no row")],
)
def test_words_of_other_libraries(visits, name, advice):
    table = PrivateTable(visits)
    with pytest.raises(AttributeError, match=advice):
        getattr(table, name)
    assert not hasattr(table, name)
    with pytest.raises(AttributeError, match="call it before group_by"):
        table.group_by("ward", groups=["a"]).where  # noqa: B018


def test_brackets_and_columns_lead_to_where(visits):
    table = PrivateTable(visits)
    with pytest.raises(TypeError, match=r'takes no index: .* where\("age > 40"\)'):
        table["cost"]
    with pytest.raises(AttributeError, match=r'has no attribute .cost.; .* where\("cost > 40"\)'):
        table[table.cost > 40]


def test_a_delta_of_a_table_without_one_names_max_delta(visits):
    table = PrivateTable(visits, max_epsilon=4.0)
    with pytest.raises(BudgetError, match=r"nothing is spent\. Allow the delta as well: PrivateTable\(…, max_delta=1e-06\), or more$"):
        table.group_by("ward", groups="private", delta=1e-6).count(epsilon=1.0)
    assert table.spent.epsilon == 0.0


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("cost => 4", "write >="),
        ("cost =< 4", "write <="),
        ("cost !== 4", "write <>"),
        ("!smoker", "write NOT"),
        ("cost > 4 && smoker", "conditions are joined with AND"),
        ("cost > 4 && cost < 9", "conditions are joined with AND"),
        ("cost > 4 || cost < 9", "conditions are joined with OR"),
        ("cost ≥ 4", "write >="),
    ],
)
def test_operators_of_other_languages(visits, condition, said):
    with pytest.raises(JobError, match=f"; {said}"):
        PrivateTable(visits).where(condition).count(epsilon=1.0)


@pytest.mark.parametrize(("share", "said"), [(5, "write 0.05 for 5 %"), (1.5, "write 0.015 for 1.5 %"), (500, "write 0.05 for 5 %")])
def test_a_share_in_per_cent_is_refused(visits, share, said):
    with pytest.raises(ParameterError, match=rf"relative\[0\], the share of the answer, must be in \(0\.0, 1\.0\], got .*: {said}$"):
        PrivateTable(visits).epsilon_for("count", relative=(share, 400))


def test_a_confidence_in_per_cent_is_refused(visits):
    with pytest.raises(ParameterError, match=r"got 95\.0: write 0\.95 for 95 %"):
        PrivateTable(visits).epsilon_for("count", half_width=20, confidence=95)


def test_a_ledger_for_others_names_its_own_setting_first(visits, tmp_path):
    """A second ledger for the same people would be a second budget; and a call has no job file."""
    ledger = Ledger.create(tmp_path / "study.ledger", epsilon=0.5, relation="add_remove", dataset="clinic")
    with pytest.raises(JobError) as found:
        PrivateTable(visits, ledger=ledger).histogram("ward", epsilon=0.1, categories=["a"], missing="skip", unknown="skip")
    said = str(found.value)
    assert said.startswith(f"relation = 'replace', but the budget of the ledger {ledger.path} is for 'add_remove'")
    assert 'give relation="add_remove" and dataset="clinic"; a second ledger would spend the budget of the same people twice' in said
    assert said.index("relation=") < said.index("accounting.Ledger.create")
    own = PrivateTable(visits, ledger=ledger, relation="add_remove", dataset="clinic")
    with pytest.raises(BudgetError) as over:
        own.count(epsilon=1.0)
    assert str(over.value) == (
        f"this needs epsilon 1.0, delta 0.0, but the ledger {ledger.path} has epsilon 0.5, delta 0.0 left; nothing is spent"
    )
    with pytest.raises(JobError) as open_cell:
        own.mean("cost", lower=0, upper=10, epsilon=0.1)
    assert "missing must be declared where a ledger pays: without, a row could end the run" in str(open_cell.value)
    assert not any(word in text for word in ("job", "dpcore ", "ledger.path") for text in (said, str(over.value), str(open_cell.value)))


@pytest.mark.parametrize(
    ("unit", "keys"), [("person", 'unit="person"'), ("person, or one row without", 'unit="person" and null_unit="own"')]
)
def test_a_ledger_of_units_names_the_keys_that_make_them(visits, tmp_path, unit, keys):
    ledger = Ledger.create(tmp_path / "study.ledger", epsilon=0.5, unit=unit)
    with pytest.raises(JobError, match=f"If the data are those of the ledger, give {keys}; a second"):
        PrivateTable(visits, ledger=ledger).count("cost", epsilon=0.25, missing="skip")


def test_a_ledger_of_a_column_and_a_table_whose_unit_has_a_name(visits, tmp_path):
    """The key that says so is named, and an empty ledger may be made again; one that has spent may not."""
    ledger = Ledger.create(tmp_path / "study.ledger", epsilon=0.5, unit="person", relation="add_remove")
    named = {"unit": "person", "unit_name": "patient", "max_rows_per_unit": 1, "relation": "add_remove", "ledger": ledger}
    with pytest.raises(JobError) as found:
        PrivateTable(visits, **named).count(epsilon=0.25)
    said = str(found.value)
    assert said.startswith(f"unit_name = 'patient', but the budget of the ledger {ledger.path} is for 'person'")
    assert 'give unit_name="person"; a second' in said
    assert "It has no entries yet, so it can also be deleted and made again for this." in said
    PrivateTable(visits, **named | {"unit_name": "person"}).count(epsilon=0.25)
    with pytest.raises(JobError) as found:
        PrivateTable(visits, **named).count(epsilon=0.25)
    assert "deleted" not in str(found.value)


@evaluated
def test_a_table_says_what_is_left(visits):
    """As decimal numbers: 1 − 0.7 is 0.3, of which nothing is left when it is spent."""
    table = PrivateTable(visits, max_epsilon=1.0, max_delta=1e-6)
    assert "max_epsilon=1.0, max_delta=1e-06" in repr(table)
    table.where("cost > 5").count(epsilon=0.7)
    assert (table.remaining.epsilon, table.remaining.delta) == (0.3, 1e-6)
    with pytest.raises(BudgetError, match=r"epsilon 0\.3, delta 1e-06 are left, and nothing is spent"):
        table.where("cost > 5").count(epsilon=math.nextafter(0.3, 1))
    table.where("cost > 5").count(epsilon=table.remaining.epsilon)
    assert table.remaining.epsilon == 0
    free = PrivateTable(visits)
    assert free.remaining is None
    assert "max_epsilon" not in repr(free)


@evaluated
def test_no_report_replaces_that_of_another_answer(visits, tmp_path):
    pytest.importorskip("jinja2")
    pytest.importorskip("matplotlib")
    table = PrivateTable(visits)
    whole, again = (table.sum("cost", epsilon=1.0, lower=0, upper=9, missing=0) for _ in range(2))
    grouped = table.group_by("ward", groups=["a", "b"]).sum("cost", epsilon=1.0, lower=0, upper=9, missing=0)
    stems = [each.report(tmp_path)[0].stem for each in (whole, again, grouped, whole)]
    assert stems == ["sum-of-cost", "sum-of-cost-2", "sum-of-cost-by-ward", "sum-of-cost"]
    (tmp_path / "sum-of-cost.json").unlink()
    assert whole.report(tmp_path)[0].stem == "sum-of-cost-3"  # a page that may be of another answer is there


@evaluated
def test_what_is_left_of_a_ledger_and_of_a_limit(visits, tmp_path):
    ledger = Ledger.create(tmp_path / "study.ledger", epsilon=1.0, delta=1e-6)
    charged, limited = PrivateTable(visits, ledger=ledger), PrivateTable(visits, ledger=ledger, max_epsilon=0.5)
    charged.count("cost", epsilon=0.75, missing="skip")
    assert (charged.remaining.epsilon, charged.remaining.delta, limited.remaining.epsilon) == (0.25, 1e-6, 0.25)
    assert (limited.remaining.delta, limited.spent.epsilon) == (0, 0)
    limited.count("cost", epsilon=0.25, missing="skip")
    assert (charged.remaining.epsilon, limited.remaining.epsilon, limited.spent.epsilon) == (0, 0, 0.25)
    by_rho = Ledger.create(tmp_path / "rho.ledger", rho=0.5)
    assert PrivateTable(visits, ledger=by_rho).remaining is None
    assert PrivateTable(visits, ledger=by_rho, max_epsilon=0.5).remaining.epsilon == 0.5


@evaluated
def test_the_guarantee_of_an_answer_says_which_rows_were_used(visits):
    table = PrivateTable(visits, unit="person", max_rows_per_unit=2, relation="add_remove")
    with table.batch(epsilon=2.0) as batch:
        rows, people = batch.count(epsilon=1.0), batch.count_distinct(epsilon=1.0)
    used = "The guarantee protects one 'person', with all its rows; at most 2 rows of each were used, chosen at random"
    assert rows.guarantee.endswith(f"{used}.")
    assert people.guarantee.endswith("The guarantee protects one 'person', with all its rows.")
    assert rows.plan.guarantee.endswith(f"{used}, except in “count_distinct”.")
    assert (
        PrivateTable(visits)
        .where("cost > 5")
        .count(epsilon=1.0)
        .guarantee.endswith("protects one row; a person with k rows is protected at k·ε.")
    )
