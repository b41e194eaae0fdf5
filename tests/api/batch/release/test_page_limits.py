"""What pages and terminals say of an answer that its interval does not: rows that were left out, and numbers that are of no use."""

from __future__ import annotations

import functools

import pytest

pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")

from dpcore.jobs.commands import answers_text
from dpcore.query.prose import limits_in_words
from dpcore.query.view import View
from support.releases import document, page_of
from support.releases import entry as query

COUNT = query("people", "count", 20187, stderr=2.5, column=None)
MEAN = query("mean visits", "mean", 2.86041, stderr=0.0035, lower=0, upper=50)


@pytest.fixture
def page(tmp_path):
    return functools.partial(page_of, tmp_path)


TOO_SMALL = "if there are any, are left out: sums and counts are too small, and means may differ, by an amount that is not shown."
LEFT_OUT = f"Rows beyond 3 of each patient, {TOO_SMALL}"
WIDER = "may be wider than the confidence says: at least that share of them holds the true value."


@pytest.mark.long
@pytest.mark.parametrize(
    ("queries", "keys", "left_out", "wider"),
    [
        ([COUNT, MEAN], {}, False, False),
        ([COUNT], {"unit": "patient", "max_rows_per_unit": 3}, True, False),
        ([MEAN | {"count": 20_190, "coverage": "at least"}], {"relation": "add_remove"}, False, True),
        ([MEAN | {"count": 20_190, "coverage": "at least"}], {"unit": "patient", "max_rows_per_unit": 3}, True, True),
    ],
)
def test_page_and_terminal_say_what_the_intervals_leave_out(page, queries, keys, left_out, wider):
    (note,) = answers_text.notes(document(*queries, **keys))
    assert "They cover the noise." in note
    for text in (page(*queries, **keys), note):
        assert (LEFT_OUT in text, WIDER in text) == (left_out, wider)
    assert ("at least 95 % interval" in page(*queries, **keys)) == wider
    assert "choice of the rows" not in note


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({}, None),
        (
            {"unit": "patient", "per_unit": {"columns": {"age": "max(age)"}}},
            "Each row is one patient, made of all its rows.",
        ),
        ({"unit": "patient", "max_rows_per_unit": 1}, "One row of each patient was used, chosen at random if there are more."),
        ({"unit": "patient", "max_rows_per_unit": 3}, "the answer is neither about all rows nor about one for each patient."),
    ],
)
def test_each_question_says_which_rows_it_is_about(page, keys, words):
    text = page(COUNT, MEAN, **keys)
    assert text.count(words or "were used, chosen at random") == (2 if words else 0)


INCOME = query(
    "mean income", "mean", 150_000, stderr=299_957.0, lower=0, upper=150_000, missing="skip", column="income", interval=[0, 150_000]
)
COUNTED = {"noise": [{"law": "laplace", "sensitivity": 150_000, "scale": 6e5}, {"law": "discrete_laplace", "sensitivity": 2, "scale": 8.0}]}


def test_an_interval_that_holds_all_that_is_possible_is_marked(page):
    """Its relative error is 50 %, at which the interval is not yet wider than the number is large."""
    assert View(INCOME).marked() == 1
    assert View(INCOME | {"interval": [1, 150_000]}).marked() == 0
    assert View(INCOME)[0].share_and_mark == "50 %, too noisy"
    assert (
        View(
            query("by town", "mean", [9.0, 10.0], groups=["a", "b"], group_by="town", lower=0, upper=10, interval=[[0, 10], [9, 10]])
        ).marked()
        == 1
    )


def test_the_summary_of_a_page_marks_what_is_too_noisy(page):
    assert "0 to 150,000; too noisy</td>" in page(INCOME)
    assert "; too noisy</td>" not in page(MEAN)


@pytest.mark.parametrize(("count", "is_said"), [(-3, True), (34, True), (80, True), (81, False), (19_000, False)])
def test_hardly_any_cell_that_could_be_read_is_said(page, count, is_said):
    answer = INCOME | {"count": count, "coverage": "at least"} | COUNTED
    (note,) = answers_text.notes(document(answer))
    for text in (page(answer), note):
        assert ("hardly any cell may have been readable" in text) == is_said
    assert "readable" not in page(answer | {"missing": 0})
    assert "It is of 20 rows.</p>" in page(INCOME | {"count": 20, "missing": 0})
    assert (f"It is of {max(count, 0):,} rows with a value, a number with noise, too." in page(answer)) == (not is_said)


def test_of_many_wide_intervals_some_are_named():
    wide = MEAN | {"coverage": "at least"}
    (words,) = limits_in_words(document(*(wide | {"name": f"m{i}"} for i in range(30))))
    assert words.startswith("The intervals of “m0”, “m1”, “m2”, “m3”, “m4” and 25 others may be wider than the confidence says")
    (words,) = limits_in_words(document(wide | {"name": "m"}))
    assert words.startswith("The interval of “m” may be wider")


def test_one_row_of_each_unit_is_no_defect():
    (words,) = limits_in_words(document(COUNT, unit="patient", max_rows_per_unit=1))
    assert words.startswith("One row of each patient is used, chosen at random if there are more: counts are of units, not of rows, and")
    assert words.endswith("sums and means are of that one row.")


def test_groups_beyond_the_bound_are_left_out_too():
    words = limits_in_words(document(COUNT, unit="patient", max_rows_per_unit=3000, max_groups_per_unit=2))
    assert words == [f"Rows beyond 3,000 and groups beyond 2 of each patient, {TOO_SMALL}"]


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        (
            {"max_rows_per_unit": 20, "max_groups_per_unit": 5},
            "At most 20 rows of each patient, in at most 5 groups, were used, chosen at random: one with more is missing from some",
        ),
        ({"max_groups_per_unit": 1}, "Each patient counts in at most 1 group, chosen at random."),
    ],
)
def test_a_count_of_units_by_group_names_the_bound_that_cuts(page, keys, words):
    counted = query("persons", "count_distinct", [40, 3], column=None, group_by="town", groups=["a", "b"], stderr=[1.0] * 2)
    text = page(counted | {"interval": [[38, 42], [1, 5]]}, unit="patient", **keys)
    assert words in text
    assert "nor about one for each" not in text
    assert "How many units there are, each of them one &#39;patient&#39;" in text
    assert "of None" not in text
    named = query("towns", "groups", ["a", "b"], column=None, group_by="town", half_released_at=9)
    said = page(named, unit="patient", **keys)
    assert ("so fewer groups may be named" in said) == ("max_rows_per_unit" in keys)
    assert "nor about one for each" not in said


def test_no_row_is_left_out_for_queries_that_bound_units_themselves(page):
    """What a page says of a limit of rows holds for the queries that it concerns, and they only."""
    spent = query("spent", "sum", 500.0, column="cost", max_sum_per_unit=40.0, interval=[480.0, 520.0])
    people = query("persons", "count_distinct", 40, interval=[37, 43])
    keys = {"unit": "patient", "max_rows_per_unit": 3}
    text = page(COUNT, spent, people, **keys)
    assert text.count("All rows of each patient were used.") == 2
    cut = "All rows of each patient were used. One whose values sum to more than 40 counts as that, so the answer may be too small."
    assert text.count(cut) == 1
    assert text.count("At most 3 rows of each patient were used, chosen at random: the answer is neither") == 1
    assert "at most 3 rows of each were used, chosen at random, except in “spent” and “persons”." in text
    (note,) = answers_text.notes(document(COUNT, spent, people, **keys))
    for said in (text, note):
        assert "Rows beyond 3 of each patient, if there are any, are left out, except in “spent” and “persons”: other sums and" in said
    (note,) = answers_text.notes(document(spent, people, **keys))
    for said in (page(spent, people, **keys), note):
        assert "are left out" not in said
