"""Formulas and documents on the page of `dpcore reproduce --report`."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpcore.reproduce.mathematics import mathematics
from dpcore.reproduce.sources import SOURCES, place_and_claim, source_of

LITERATURE = Path(__file__).resolve().parents[3] / "docs" / "literature.md"


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("10⁻⁶ of n²", "10<sup>−6</sup> of <var>n</var><sup>2</sup>"),
        ("P_FA + e^ε P_MD", "<var>P</var><sub>FA</sub> + <var>e</var><sup><var>ε</var></sup> <var>P</var><sub>MD</sub>"),
        ("n^(−2/5)", "<var>n</var><sup>−2/5</sup>"),
        ("d^¼/(αε)", "<var>d</var><sup>¼</sup>/(<var>αε</var>)"),
        ("2^−20", "2<sup>−20</sup>"),
        ("√(2 ln d/n)", '√<span class="root">2 ln <var>d</var>/<var>n</var></span>'),
        ("√ln n", "√ln <var>n</var>"),
        ("‖ν‖₂ in L2", "‖<var>ν</var>‖<sub>2</sub> in <var>L</var><sub>2</sub>"),
        ("(P − Q)_+", "(<var>P</var> − <var>Q</var>)<sub>+</sub>"),
        ("T̂ of F̂", "<var>T̂</var> of <var>F̂</var>"),
        ("Σ_y", "Σ<sub><var>y</var></sub>"),
        ("Σ_{k > l} ρⁿ", "Σ<sub><var>k</var> &gt; <var>l</var></sub> <var>ρ</var><sup><var>n</var></sup>"),
        ("at most 2.3e−16 off", "at most 2.3·10<sup>−16</sup> off"),
        ("1e-06 of 1e+06", "10<sup>−6</sup> of 10<sup>6</sup>"),
        ("n = 3.25e5.", "<var>n</var>\u00a0= 3.25·10<sup>5</sup>."),
        ("ε = ½", "<var>ε</var>\u00a0= ½"),
    ],
)
def test_formulas_are_set(text, html):
    assert mathematics(text) == html


@pytest.mark.parametrize(
    "text",
    [
        "a sample of words",
        "uniformity_test",
        "Beispiel 3.6 B",
        "Rényi",
        "A mean, in [0, 1]",
        "KS and DDP",
        "an open (parenthesis",
        "x.y_",
    ],
)
def test_words_stay_words(text):
    assert mathematics(text).replace("<var>x</var>", "x").replace("<var>y</var>", "y") == text


def test_an_open_exponent_is_left_alone():
    assert mathematics("2^(n") == "2^(<var>n</var>"


def test_everything_else_is_escaped():
    assert mathematics("<script>&'") == "&lt;script&gt;&amp;&#x27;"
    assert "<b>" not in mathematics("x^(<b>)_(<b>)√(<b>)")


def test_names_between_backticks_are_code():
    pytest.importorskip("markupsafe")
    from dpcore.reproduce.page import formulas

    assert str(formulas("take `risk_bound` of <n>")) == "take <code>risk_bound</code> of &lt;<var>n</var>&gt;"
    assert str(formulas("`<b>`")) == "<code>&lt;b&gt;</code>"
    assert str(formulas("5` of n")) == "5` of <var>n</var>"


def test_places_have_english_words():
    assert place_and_claim("Steinberger (2019), Abbildung 3.1: the intervals") == ("Abbildung (figure) 3.1", "the intervals")
    assert place_and_claim("Stemmer (lecture 6), Theorem 9: private answers") == ("Theorem 9", "private answers")
    unknown = "Unknown" + " (2000)"
    assert place_and_claim(f"{unknown}, Lemma 1: a claim") == ("Lemma 1", "a claim")
    assert source_of(f"{unknown}, Lemma 1: a claim").title == unknown


@pytest.mark.source_tree
def test_documents_are_those_of_the_literature():
    text = " ".join(LITERATURE.read_text(encoding="utf-8").split())
    for source in SOURCES.values():
        entry = text[text.index(f"**{source.key}.**") :][:600]
        assert source.title.replace("‘", "'").replace("’", "'") in entry
        assert source.english in entry
        for author in filter(None, source.authors.split(" and ")):
            assert author in entry
