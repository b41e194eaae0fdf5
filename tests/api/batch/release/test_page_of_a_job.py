"""The page of a release that the command has made: it shows what is printed."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")

from support.jobs import Workplace, people, start, write_table

JOB = """
version = 1
[input]
path = "people.parquet"
[output]
path = "out/numbers.json"
[privacy]
unit = "person"
max_rows_per_unit = 2
relation = "add_remove"
max_epsilon = 20.0
[ledger]
path = "people.ledger"
[testing]
key_hex = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
[[query]]
name = "all"
kind = "count"
epsilon = 1.0
[[query]]
name = "visits"
kind = "histogram"
column = "visits"
edges = { start = 0, stop = 30, step = 5 }
missing = 0
epsilon = 1.0
[[query]]
name = "states"
kind = "histogram"
column = "state"
categories = ["state 0", "state 1", "state 2", "state 3", "state 4"]
missing = "state 0"
unknown = "state 0"
epsilon = 1.0
[[query]]
name = "cost"
kind = "sum"
column = "cost"
lower = 0
upper = 70
missing = 0
epsilon = 1.0
[[query]]
name = "age by state"
kind = "mean"
column = "age"
lower = 0
upper = 100
missing = 0
group_by = "state"
groups = ["state 0", "state 3"]
epsilon = 2.0
[[query]]
name = "income"
kind = "quantile"
column = "income"
q = [0.25, 0.5]
grid = { start = 0, stop = 15000, step = 100 }
missing = 0
epsilon = 1.0
[[query]]
name = "frequent"
kind = "top_s"
column = "visits"
k = 30
s = 3
values = true
epsilon = 1.0
"""


@pytest.mark.long
def test_what_the_command_prints_is_on_the_page(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    place = Workplace(tmp_path, capsys)
    write_table(people(3000), tmp_path / "people.parquet")
    place.job.write_text("\n".join(line for line in JOB.splitlines() if line != "[testing]" and "key_hex" not in line))
    made = place.dpcore("ledger", "create", "people.ledger", "--epsilon", 32, "--relation", "add_remove", "--unit", "person")
    assert made.code == 0, made.err
    done = place.dpcore("release", place.job, "--report", "report")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert json.loads((tmp_path / "report/numbers.json").read_text(encoding="utf-8")) == found
    text = " ".join((tmp_path / "report/numbers.html").read_text(encoding="utf-8").split())
    answers = {query["name"]: query["value"] for query in found["queries"]}
    shown = [answers["all"], *answers["visits"], *answers["states"]]
    assert [number for number in shown if f">{number:,}<".replace("-", "−") not in text] == []
    assert all(f">{value:,.10g}<" in text for value in answers["income"])
    assert all(f'<td class="name whole">{label}</td>' in text for label in ["0 to below 5", "25 to 30", "state 3", *answers["frequent"]])
    assert "The mean of age, in each of 2 declared groups by state." in text
    # 8 of 32: nothing was spent before.
    assert 'class="earlier" style="width: 0.00%"' in text
    assert 'class="job" style="width: 25.00%"' in text
    assert "NOT PRIVATE" not in text
    assert text.count('<svg class="plot wide"') == 7


@pytest.mark.long
def test_the_page_is_written_though_nobody_reads_what_is_printed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_table(people(300), tmp_path / "people.parquet")
    lines = [line for line in JOB.splitlines() if line != "[ledger]" and "people.ledger" not in line]
    (tmp_path / "job.toml").write_text("\n".join(lines))
    with start("release", "job.toml", "--report", "report") as process:
        process.stdout.close()
        said = process.stderr.read()
    assert process.returncode == 5, said
    assert (tmp_path / "report/numbers.html").exists()
    assert (tmp_path / "report/numbers.json").exists()
