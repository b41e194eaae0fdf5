"""`dpcore ledger show` on a narrow terminal."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("click")
pytest.importorskip("rich")

from dpcore import Privacy, __version__
from dpcore.accounting import Ledger
from support.jobs import Workplace


def test_a_narrow_terminal_has_a_narrow_table(tmp_path, capsys, monkeypatch):
    """80 columns: what has no room for a column stands below what was asked, and nothing is left out."""
    run = "40ffcd5ade1e5b5ded2bdb1b25acd1fda778cdf4"
    queries = [{"name": f"mean cost {i}", "kind": "mean", "columns": ["cost"]} for i in range(2)]
    monkeypatch.chdir(tmp_path)
    place = Workplace(tmp_path, capsys)
    ledger = Ledger.create("b.ledger", epsilon=0.5, delta=1e-6)
    ledger.spend(Privacy(0.1), what="[red]first", job="january").done()
    ledger.spend(Privacy(0.2, 1e-7), what="killed")
    ledger.spend(Privacy(0.05), what="release of 2 queries on visits.parquet", job="/data/answers.json", run=run, queries=queries).done()
    monkeypatch.setattr("dpcore._terminal.on_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    shown = place.dpcore("ledger", "show", "b.ledger", "--table").out
    table = shown[shown.index("when") :].splitlines()
    assert max(map(len, table)) <= 80
    assert re.search(r"^when +id +epsilon +delta +state +what", table[0])
    assert re.search(r"^\d{4}-\d\d-\d\d \d\d:\d\d +3 +0\.05 +0 +done +release of 2", shown, re.MULTILINE)
    joined = " ".join(shown.split())
    for said in ("[red]first", "mean cost 1: mean of cost", "job /data/answers.json", f"run {run[:12]}…", f"dpcore {__version__}"):
        assert said in joined
