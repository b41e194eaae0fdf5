"""Tables for notebooks: what they show, and that nothing in them is taken for markup."""

from __future__ import annotations

from dpcore._html import columns_table, facts_table


def test_texts_are_escaped():
    assert "<script>" not in facts_table("<script>", [("<script>", "<script>")])
    assert "<script>" not in columns_table("<script>", {"<script>": ["<script>"]})


def test_long_tables_are_cut():
    table = columns_table("numbers", {"i": list(range(25)), "x": [i / 3 for i in range(25)]})
    assert table.count("<tr>") == 22
    assert "… 5 more" in table
    assert "0.3333" in table
