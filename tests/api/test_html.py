"""Tables for notebooks: what they show, and that nothing in them is taken for markup."""

from __future__ import annotations

from dpcore import Privacy
from dpcore._html import columns_table, facts_table, guarantee


def test_texts_are_escaped():
    assert "<script>" not in facts_table("<script>", [("<script>", "<script>")])
    assert "<script>" not in columns_table("<script>", {"<script>": ["<script>"]})


def test_long_tables_are_cut():
    table = columns_table("numbers", {"i": list(range(25)), "x": [i / 3 for i in range(25)]})
    assert table.count("<tr>") == 22
    assert "… 5 more" in table
    assert "0.3333" in table


def test_guarantees_are_words():
    assert guarantee(Privacy(0.5)) == "ε = 0.5, for data sets that differ by the value of one record"
    assert guarantee(Privacy(2.0, 1e-6, "add_remove")) == "ε = 2, δ = 1e-06, for data sets that differ by the presence of one record"
