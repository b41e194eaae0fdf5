"""Numbers are written one way, names wrap at sensible places, and the guarantee is said in words that hold."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest

from dpcore.pages.numbers import counted, percentage_of, plain_name, plain_number, plain_range, readable, rounded_down, rounded_up, written
from dpcore.pages.page import Provenance
from dpcore.pages.printable import LONGEST_WORD, breakable
from dpcore.pages.words import guarantee_shown, misses_in_words, odds_in_words, protection_in_words


def test_numbers_are_written_one_way():
    assert written(-1234.5, ",.1f") == plain_number(-1234.5) == "−1,234.5"
    assert readable([-1234.5], 0.31, percent=False) == ["−1,234.50"]
    assert plain_number(-1e-6) == "−1e-06"
    assert readable([-1.5e-14], 1e-15, percent=False) == ["−1.50e-14"]
    assert (rounded_up(1 / 3, 4), rounded_down(2 / 3, 4), rounded_down(0.3), rounded_down(0)) == ("0.3334", "0.6666", "0.3", "0")
    assert plain_range(-5, 12_000) == "−5 to 12,000"
    assert percentage_of(0.999) == "99.9 %"
    assert (plain_number(1234.5678, 4), plain_number(None), plain_number(True)) == ("1,235", "–", "true")


def test_codes_are_names():
    assert [plain_name(value) for value in (12345, -1, "a\x00", True)] == ["12345", "-1", "a\\x00", "true"]


def test_things_are_counted():
    assert [counted(n, "query", "queries") for n in (0, 1, 2500)] == ["0 queries", "1 query", "2,500 queries"]


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("", []),
        ("income", ["income"]),
        ("1,234.5 to 2,000", ["1,234.5 to 2,000"]),
        ("out/part_one.csv", ["out/", "part_", "one.", "csv"]),
        ("aVeryLongName", ["a", "Very", "Long", "Name"]),
        ("HTTP", ["HTTP"]),
        ("x" * 50, ["x" * 24, "x" * 24, "x" * 2]),
        ("x" * 24, ["x" * 24]),
    ],
)
def test_where_a_name_may_wrap(name, parts):
    assert breakable(name) == parts
    assert "".join(breakable(name)) == name


def test_no_word_of_a_language_is_broken():
    sentence = "Antidisestablishmentarian people with counterrevolutionary self-consciousness, of course"
    words = re.split(r"[\s-]", sentence)
    for part in breakable(sentence):
        assert set(re.split(r"[\s-]", part)) <= {*words, ""} or max(map(len, words)) > LONGEST_WORD


def test_what_epsilon_means():
    said = guarantee_shown(3.0, 0.0, "row")
    assert (said["epsilon"], said["delta"]) == ("3", "0")
    assert said["protection"].startswith("The guarantee protects one row; a person with k rows is protected at k·ε.")
    assert said["factor"] == "Whatever one row says, these results would be at most 21 times as likely as with any other row in its place."
    assert "by a factor of at most 21. A guess that had a chance of 1 % before has one of at most 17 % after." in said["odds"]
    assert "guesses the data of this one" in said["odds"]


def test_what_can_be_guessed_under_each_relation():
    assert "guesses whether this one is in the table" in odds_in_words(1.0, 0.0, "person", presence=True)
    assert "knows the rows of every other 'person'" in odds_in_words(1.0, 0.0, "person", presence=True)
    # With a δ a bound on the odds alone would not hold.
    assert odds_in_words(1.0, 1e-9, "row") == ""
    assert guarantee_shown(1.0, 1e-9, "row")["factor"].endswith("δ = 1e-09 is a tiny probability with which the ε promise may fail.")
    assert guarantee_shown(1.0, 0.0, "row", local=True)["factor"].startswith("Whatever one person answered in one row, these results")
    assert "k·e^((k−1)ε)·δ" in protection_in_words(1e-9, "row")
    assert "δ" not in protection_in_words(0.0, "row")


def test_how_many_intervals_miss():
    assert (
        misses_in_words([0.95])
        == "About one in twenty of the 95 % intervals does not contain the true value. The results do not show which."
    )
    assert misses_in_words([0.9, 0.99]).startswith(
        "About one in ten of the 90 % intervals and about one in a hundred of the 99 % intervals do "
    )


def test_a_page_can_be_made_again_with_its_date(monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    assert Provenance().date == "2023-11-14 22:13 UTC"
    for other in ("", "yesterday", "-5", "9" * 15, "9" * 20, "9" * 5000):
        monkeypatch.setenv("SOURCE_DATE_EPOCH", other)
        assert abs(Provenance().made - datetime.now(UTC)).total_seconds() < 60
