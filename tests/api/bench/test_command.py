"""`dpcore bench` on made-up benchmarks: what it prints and writes, and how it ends. Nothing here depends on how long anything takes."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

pytest.importorskip("click")
pytest.importorskip("jinja2")

from dpcore import cli
from dpcore._commands.bench import HELP
from dpcore.bench import GROUPS, Benchmark, Side, document
from dpcore.bench.page import break_even
from dpcore.bench.run import run
from dpcore.bench.scaling import ALONE, COPY, ONE_COPY
from support.benchmarks import MACHINE, results, row, timed
from support.html_pages import Page


def nothing() -> None:
    pass


def interrupt() -> None:
    raise KeyboardInterrupt


def fail() -> None:
    raise ValueError("a broken <b>peer</b>")


def item(name: str, work=nothing, peer=nothing, package: str = "numpy") -> Benchmark:
    sides = (
        Side(name="a bound", prepare=lambda _inputs: nothing, kind="bound", judges=True),
        Side(name="a peer", prepare=lambda _inputs: peer, package=package),
    )
    return Benchmark(group="noise", name=name, size=1, inputs=lambda: None, ours=lambda _inputs: work, sides=sides)


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch):
    """Let the command run these benchmarks."""

    def give(*items: Benchmark) -> None:
        monkeypatch.setattr("dpcore.bench.command.items_and_seconds", lambda _mode, _groups: (items, 0.02))
        monkeypatch.setattr("dpcore.bench.command.run", partial(run, grace=600.0))  # everything once, however slow the machine is

    return give


# The run


def test_a_pipe_gets_json_and_files_are_the_same(given, tmp_path: Path, capsys):
    given(item("one"), item("two"))
    assert cli.run(["bench", "--json", str(tmp_path / "a.json"), "--report", str(tmp_path / "out")]) == 0
    printed = json.loads(capsys.readouterr().out)
    files = tmp_path / "a.json", tmp_path / "out" / "bench.json"
    assert all(json.loads(file.read_text()) == printed for file in files)
    assert [entry["extra_info"]["side"] for entry in printed["benchmarks"]] == ["dpcore", "a bound", "a peer"] * 2
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["bench.html", "bench.json"]


def test_a_table_names_what_is_absent_and_broken(given, capsys):
    given(item("one", peer=fail), item("two", package="no_such_package"))
    assert cli.run(["bench", "--table"]) == 0
    printed = capsys.readouterr().out
    for words in ("one", "a bound", "not installed: no_such_package (a peer): pip install no_such_package",
                  "broken: a peer, in one: ValueError: a broken <b>peer</b>", "not safe to release"):  # fmt: skip
        assert words in printed


def test_a_wrong_answer_of_dpcore_fails_the_command(given, capsys):
    given(item("bad", work=fail), item("good"))
    assert cli.run(["bench", "--table"]) == 1
    assert "broken: dpcore, in bad" in capsys.readouterr().out


@pytest.mark.parametrize("files", [("a.json",), ("out/bench.json", "out/bench.html")])
def test_an_interrupted_run_keeps_what_is_done_in_complete_files(given, files, tmp_path: Path, capsys):
    given(item("one"), item("two"), item("three", work=interrupt), item("four"))
    option = ["--json", str(tmp_path / files[0])] if len(files) == 1 else ["--report", str(tmp_path / "out")]
    assert cli.run(["bench", *option]) == 130
    found = document.read(tmp_path / files[0])
    assert found.interrupted
    assert [row.name for row in found.rows] == ["one", "two"]
    assert "interrupted; 2 benchmarks that were done are kept" in capsys.readouterr().err
    written = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    assert written == set(files)


def test_an_interruption_before_the_first_row_writes_nothing(given, tmp_path: Path, capsys):
    given(item("one", work=interrupt))
    assert cli.run(["bench", "--json", str(tmp_path / "a.json")]) == 130
    assert list(tmp_path.iterdir()) == []
    assert "interrupted" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--quick", "--full"], "exclude each other"),
        (["--only", "nosie"], "there is no group 'nosie' of benchmarks; the groups are calls"),
        (["--json", "."], "directory"),
    ],
)
def test_wrong_options_are_refused_before_anything_runs(options, words, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("dpcore.bench.command.run", fail)
    assert cli.run(["bench", *options]) == 2
    assert words in capsys.readouterr().err


def test_a_folder_that_cannot_be_written_is_found_before_anything_runs(given, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("dpcore.bench.command.run", fail)
    given(item("one"))
    assert cli.run(["bench", "--json", str(tmp_path / "none" / "a.json")]) == 4


def test_help_lists_the_groups():
    for name, what in GROUPS.items():
        assert f"    {name:<13}   {what}" in HELP


# Comparison


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str, str]:
    """A run, one whose kernel is slower, and one of another machine."""
    slower = results(row("laplace", ours=2.4e-6, jitter=0.01), row("gaussian", jitter=0.01))
    other = results(row("laplace", jitter=0.01), machine=MACHINE | {"cpu": {"brand_raw": "Another CPU", "count": 64}})
    made = {"a": results(row("laplace", jitter=0.01), row("gaussian", jitter=0.01)), "b": slower, "c": other}
    for name, found in made.items():
        document.write(tmp_path / f"{name}.json", found)
    return tuple(str(tmp_path / f"{name}.json") for name in made)


def test_nothing_changed(files, capsys):
    assert cli.run(["bench", "compare", files[0], files[0], "--table"]) == 0
    assert "0 slower, 0 faster, 2 no change, 0 too noisy, of 2 benchmarks" in capsys.readouterr().out


def test_what_became_slower_is_named_and_the_exit_code_is_1(files, capsys):
    assert cli.run(["bench", "compare", files[0], files[1], "--table"]) == 1
    printed = capsys.readouterr().out
    assert "slower" in printed.splitlines()[1]
    assert "laplace, 1,000 values" in printed
    assert "× 1.2" in printed
    assert "gaussian" not in printed
    assert cli.run(["bench", "compare", files[1], files[0]]) == 0
    assert [found["outcome"] for found in json.loads(capsys.readouterr().out)["rows"]] == ["faster", "no change"]


def test_another_machine_is_said(files, capsys):
    assert cli.run(["bench", "compare", files[0], files[2], "--table"]) == 0
    printed = capsys.readouterr().out
    assert "two machines; only ratios to bounds are compared" in printed
    assert "A CPU; Another CPU" in printed


def test_a_file_that_is_none_is_refused(files, tmp_path: Path, capsys):
    (tmp_path / "other.json").write_text("{}")
    assert cli.run(["bench", "compare", files[0], str(tmp_path / "other.json")]) == 2
    assert "is not a JSON file of dpcore bench" in capsys.readouterr().err
    assert cli.run(["bench", "compare", files[0], str(tmp_path / "none.json")]) == 4


# The page


def on_a_curve(size: int, ours: float, peer: float):
    made = row("laplace", group="curve", size=size, ours=ours)
    bounds = {"key: os.urandom(32)": 5e-7, "call: no values": 8e-7, "key + keystream + copy": 9e-7 + 1e-9 * size}
    drawn = (timed(name, "bound", seconds, size=size, judges="+" in name) for name, seconds in bounds.items())
    return replace(made, others=(timed("NumPy, unsafe", "peer", peer, size=size), *drawn))


def on_threads(name: str, character: str, threads: int, ours: float):
    others = [timed(ALONE, "itself", 7e-6, cpu_seconds=7e-6), timed(COPY, "bound", 2e-6)]
    others += [timed(ONE_COPY, "bound", 3e-6)] if character == "memory" else []
    made = row(name, group="threads", threads=threads, character=character)
    return replace(made, ours=timed("dpcore", "ours", ours, cpu_seconds=7.25e-6), others=tuple(others))


def a_full_run():
    return results(
        row("laplace", level="x86_v4"),
        row("laplace"),
        row("noisy", jitter=2.0),
        *(on_a_curve(size, 1e-6 + 2e-9 * size, 2e-7 + 2e-8 * size) for size in (1, 64, 4096)),
        *(on_threads("laplace", "compute", threads, 7e-6 / threads) for threads in (2, 4)),
        on_threads("clipped_sum (n,)", "memory", 2, 5e-6),
        row("laplace, a scalar", group="calls", size=1, unit="call"),
        row("dpcore privatize", group="tables", unit="row"),
        mode="full",
    )


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> str:
    from dpcore.bench.page import BenchPages

    folder = tmp_path_factory.mktemp("page")
    BenchPages(folder, "bench").write(a_full_run())
    return (folder / "bench.html").read_text(encoding="utf-8")


@pytest.mark.long
def test_the_page_has_every_part(page):
    for name in ("headline", "curves", "bound", "calls", "threads", "levels", "memory", "jobs", "machine", "every"):
        assert f'id="{name}"' in page
    assert "no winner" in page
    assert "NumPy †" in page
    # Words that cells have are explained, and groups are folded.
    for word in ("block", "band", "one block", "too wide", "no winner"):
        assert f"<dt>{word}</dt>" in page
    assert page.count("<details>") >= 10
    assert "times as fast as the fastest package" in page
    assert page.count("<svg") >= 2 * 3


def test_threads_are_told_apart_by_what_binds_them_with_wall_and_cpu_time(page):
    part = page[page.index('id="threads"') : page.index('id="levels"')]
    for words in (
        "Gain against threads, bound by computing",
        "Gain against threads, bound by memory",
        "7.25 ns",
        "3.50 ns",
        "2.00 ×",
        "1.75 ×",
    ):
        assert words in part
    assert "as many times as threads" in part
    assert "gain of a copy" in part


def test_bounds_of_a_curve_are_drawn(page):
    part = page[page.index('id="curves"') : page.index('id="bound"')]
    for words in ("NumPy (not safe to release)", "bound: the key", "bound: the call without values", "bound: key + keystream + copy"):
        assert words in part


def test_the_page_is_sound_and_needs_no_other_file(page):
    found = Page(page)
    assert found is not None
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "https://" not in page
    assert "<script" not in page


def test_the_break_even_is_in_words():
    slow, even, fast = on_a_curve(1, 2.0, 1.0), on_a_curve(64, 2.0, 1.0), on_a_curve(128, 1.0, 2.0)
    assert break_even([slow, even, fast]).startswith("It is faster than NumPy from 128 values on; the size measured before is 64.")
    assert break_even([fast]) == "It is faster than NumPy at every size."
    assert break_even([slow, even]) == "At the largest size it is not clearly faster than NumPy."
