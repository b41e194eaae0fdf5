"""Results are tables on a terminal and JSON elsewhere; each form can be asked for."""

from __future__ import annotations

import json
import re

import pytest

from dpcore._terminal import make_table, print_table, wants_json
from dpcore.jobs.commands.answers_text import answer_table
from support.jobs import Workplace, people, start, write_table
from support.releases import QUERIES, Counter, clinic


@pytest.fixture
def place(tmp_path, capsys):
    place = Workplace(tmp_path, capsys)
    write_table(people(20), place.source)
    place.write_job()
    return place


@pytest.fixture
def clinic_place(tmp_path, capsys):
    place = Counter(tmp_path, capsys)
    write_table(clinic(30), place.source)
    place.write_release()
    return place


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setattr("dpcore._terminal.on_terminal", lambda: True)


@pytest.mark.usefixtures("terminal")
def test_what_is_asked_for_wins():
    assert [wants_json(asked) for asked in (True, False, None)] == [True, False, False]


def test_a_pipe_gets_json():
    assert wants_json(None)


@pytest.mark.parametrize("arguments", [("--dry-run",), ()])
def test_a_pipe_gets_json_from_privatize(place, arguments):
    done = place.privatize(*arguments)
    assert done.code == 0, done.err
    document = json.loads(done.out)
    assert document.get("dry_run", False) == bool(arguments)
    assert document["output"] == {"path": str(place.target), "format": "parquet", "rows": None if arguments else 20}
    assert [column["name"] for column in document["columns"]] == ["visits", "age", "income", "cost"]


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize("arguments", [("--dry-run",), ()])
def test_a_terminal_gets_text_from_privatize(place, arguments):
    done = place.privatize(*arguments)
    assert done.code == 0, done.err
    assert not done.out.startswith("{")
    assert "\nRunning this job again on the same data spends this budget again.\n" in done.out
    assert json.loads(place.privatize("--json", "--overwrite", *arguments).out)["epsilon"] == 4.0


def test_a_plan_of_a_release_as_json(clinic_place):
    document = json.loads(clinic_place.release("--dry-run").out)
    assert document["dry_run"]
    assert (document["privacy"]["epsilon"], document["input"]["rows"]) == (8.0, 30)
    queries = {query["name"]: query for query in document["queries"]}
    assert list(queries) == list(QUERIES)
    assert queries["regions"]["noise"] == [{"law": "discrete_laplace", "sensitivity": 2, "scale": 2.0}]
    assert queries["quartiles"]["stderr"] is None


def test_a_plan_does_not_tell_a_private_number_of_rows(clinic_place):
    clinic_place.write_release(privacy={"relation": "add_remove"})
    assert "rows" not in json.loads(clinic_place.release("--dry-run").out)["input"]


@pytest.mark.usefixtures("terminal")
def test_a_terminal_gets_a_table_of_answers(clinic_place):
    done = clinic_place.release()
    assert done.code == 0, done.err
    assert re.search(r"^query +group +answer +error +noise *$", done.out, re.MULTILINE)
    for query in QUERIES:
        assert re.search(rf"^{query} ", done.out, re.MULTILINE), query
    assert "Intervals have confidence 99.9999 % (about one in 1,000,000 misses)." in done.out
    assert json.loads(clinic_place.target.read_text(encoding="utf-8"))["queries"]


def answers(query, capsys):
    print_table(answer_table({"queries": [{"name": "q", "confidence": 0.9, **query}]}))
    return [re.split(r" {2,}", line.rstrip()) for line in capsys.readouterr().out.splitlines()[1:]]


@pytest.mark.parametrize(
    ("query", "lines"),
    [
        ({"kind": "count", "column": None, "value": 1234, "stderr": 0.0, "interval": [1234, 1234]}, [["q", "1,234 (exact)"]]),
        ({"kind": "count", "column": "x", "value": -3, "stderr": 1.4, "interval": [-6.0, 0.0]}, [["q", "−3 ± 3", "100 %, too noisy"]]),
        ({"kind": "mean", "value": None, "stderr": None, "interval": None, "note": "no rows"}, [["q", "– (no rows)"]]),
        ({"kind": "mean", "value": 2.34567, "stderr": 0.1, "interval": [2.1, 2.6]}, [["q", "2.35 (2.10 to 2.60)", "11 %"]]),
        (
            {"kind": "quantile", "q": [0.5, 0.9], "value": [1, 2.5], "rank_error": [3.14159, 4], "stderr": None, "interval": None},
            [["q", "median", "1 (rank ± 4 rows)"], ["", "90 %", "2.5 (rank ± 4 rows)"]],
        ),
        ({"kind": "top_s", "value": ["a", 7], "stderr": None, "interval": None}, [["q", "place 1", "a"], ["", "place 2", "7"]]),
        (
            {"kind": "top_s", "value": ["a"], "counts": [10.25], "stderr": 1.5, "interval": [[8.0, 12.5]]},
            [["q", "a", "10.2 ± 2.2", "22 %"]],
        ),
        (
            {
                "kind": "count",
                "value": 5,
                "stderr": 2.0,
                "interval": [1, 9],
                "noise": [{"law": "discrete_laplace", "sensitivity": 1, "scale": 2.0}],
            },
            [["q", "5 ± 4", "80 %, too noisy", "discrete Laplace 2"]],
        ),
        ({"kind": "count", "value": 5, "stderr": 0.0, "interval": [5, 5], "noise": []}, [["q", "5 (exact)", "none"]]),
        ({"kind": "synthetic", "value": {"path": "made.csv", "rows": 2000}}, [["q", "rows in made.csv", "2,000"]]),
        (
            {"kind": "count", "groups": ["a", 2], "group_by": "g", "value": [5, 6], "stderr": [1.0, 1.0], "interval": [[3, 7], [4, 8]]},
            [["q", "a", "5 ± 2", "40 %"], ["", "2", "6 ± 2", "33 %"]],
        ),
    ],
)
def test_lines_of_answers(query, lines, capsys):
    assert answers(query, capsys) == lines


def test_long_answers_are_cut(capsys):
    size = 100
    query = {"kind": "histogram", "categories": list(range(size)), "value": [7] * size, "stderr": 2.0, "interval": [[3, 11]] * size}
    found = answers(query, capsys)
    assert found[0] == ["q", "0", "7 ± 4", "57 %, too noisy"]
    assert found[12:] == [["", "… 88 more"], ["", "the 5 largest:"], *(["", str(place), "7 ± 4", "57 %, too noisy"] for place in range(5))]


def test_a_list_that_is_cut_ends_with_its_largest_numbers(capsys):
    sizes = [(place * 37) % 100 for place in range(100)]
    query = {"kind": "count", "group_by": "word", "groups": [f"w{place}" for place in range(100)], "value": sizes, "stderr": [0.5] * 100}
    found = answers(query | {"interval": [[size - 1, size + 1] for size in sizes]}, capsys)
    assert found[13] == ["", "the 5 largest:"]
    assert [line[1] for line in found[14:]] == [f"w{sizes.index(size)}" for size in (99, 98, 97, 96, 95)]


def test_a_million_groups_are_cut(capsys):
    size = 10**6
    groups = {"a": [["x", "y"][place % 2] for place in range(size)], "b": list(range(size))}
    query = {"kind": "count", "group_by": ["a", "b"], "groups": groups, "value": [7] * size, "stderr": [2.0] * size}
    found = answers(query | {"interval": [[3, 11]] * size}, capsys)
    assert found[1] == ["", "y, 1", "7 ± 4", "57 %, too noisy"]
    assert found[12:14] == [["", "… 999,988 more"], ["", "the 5 largest:"]]
    assert len(found) == 19


def test_tables_show_no_control_character_and_no_markup(capsys):
    print_table(make_table(["a"], [["[red]x\x1b[1m"], [None]]), "line\x07")
    assert capsys.readouterr().out.split() == ["a", "[red]x\\x1b[1m", "–", "line\\x07"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell, place):
    done = place.dpcore("completion", shell)
    assert (done.code, done.err) == (0, "")
    assert f"_DPCORE_COMPLETE={shell}_complete" in done.out


def test_a_shell_is_told_what_completes():
    words = {"COMP_WORDS": "dpcore privatize --over", "COMP_CWORD": "2", "_DPCORE_COMPLETE": "bash_complete"}
    process = start(environment=words)
    out, err = process.communicate()
    assert (process.returncode, out.strip(), err) == (0, "plain,--overwrite", "")


def test_a_number_and_its_interval_stay_on_a_line_of_80_columns(capsys, monkeypatch):
    monkeypatch.setattr("dpcore._terminal.PIPE_WIDTH", 80)
    answer = "30,112 (29,732 to 30,490) USD"
    line = ["mean income of found codes", "The Ace company of many names", answer, "Gaussian 4,174,000, discrete Gaussian 63.37"]
    print_table(make_table(["query", "group", "answer", "noise"], [line], right=("answer",)))
    out = capsys.readouterr().out
    assert answer in out
    assert max(map(len, out.splitlines())) <= 80
    assert all(word in out for cell in line for word in cell.split())
    print_table(make_table(["answer"], [["x" * 100]], right=("answer",)))
    assert capsys.readouterr().out.count("x") == 100
