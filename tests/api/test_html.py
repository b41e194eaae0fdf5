"""Tables for notebooks: what they show, and that nothing in them is taken for markup."""

from __future__ import annotations

import numpy as np

from dpcore import Privacy
from dpcore._html import MOST, columns_table, escaped, facts_table, guarantee, matrix_table


def test_texts_are_escaped():
    assert "<script>" not in facts_table("<script>", [("<script>", "<script>")])
    assert "<script>" not in columns_table("<script>", {"<script>": ["<script>"]})
    assert "<script>" not in matrix_table("<script>", np.eye(1), ["<script>"], ["<script>"])
    assert escaped("\"<'&>") == "&quot;&lt;&#x27;&amp;&gt;"


def test_long_tables_are_cut():
    size = MOST + 5
    table = columns_table("numbers", {"i": list(range(size)), "x": [i / 3 for i in range(size)]})
    assert table.count("<tr>") == MOST + 2
    assert "… 5 more" in table
    assert "0.3333" in table


def test_guarantees_are_words():
    assert guarantee(Privacy(0.5)) == "ε = 0.5, for data sets that differ by the value of one record"
    assert guarantee(Privacy(2.0, 1e-6, "add_remove")) == "ε = 2, δ = 1e-06, for data sets that differ by the presence of one record"
