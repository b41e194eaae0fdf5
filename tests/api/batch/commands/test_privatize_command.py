"""What the command prints: the plan, the guarantee in words, progress, reports, facts about the installation."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys

import pytest

import dpcore
from dpcore import _backend
from dpcore.jobs.commands.progress import shown_on
from support.jobs import COLUMNS, FORMATS, Workplace, damage, job_text, people, start, write_table

WORDS = "the guarantee protects one row; a person with k rows is protected at k·ε"
SPENT_AGAIN = "Running this job again on the same data spends this budget again"


@pytest.fixture
def place(tmp_path, capsys):
    place = Workplace(tmp_path, capsys)
    write_table(people(20), place.source)
    return place


def test_the_result_says_where_it_is_what_it_spent_and_for_whom(place):
    place.write_job(key=None)
    done = place.privatize("--table")
    assert done.code == 0
    assert f"{place.target}: 20 rows, 4 columns randomised (visits, age, income, cost)" in done.out
    assert f"spent epsilon = 4.0, delta = 2e-06: {WORDS}" in done.out
    assert SPENT_AGAIN in done.out
    assert "100%  20 rows" in done.err
    assert "warning" not in done.err


def test_a_keyed_job_warns(place):
    place.write_job()
    done = place.privatize()
    assert done.err.startswith("warning: NOT PRIVATE: the noise comes from the key in [testing]")
    assert "secure = false" in done.err
    assert "000102" not in done.said


def test_kept_columns_are_named_as_unprotected(place):
    place.write_job(keep=["state"])
    assert "Kept columns are copied as they are and are not protected." in place.privatize("--table").out


@pytest.mark.parametrize("ending", FORMATS)
def test_a_dry_run_reads_the_schema_only_and_writes_nothing(place, ending):
    place.source = write_table(people(20), place.folder / f"in.{ending}")
    if ending == "csv":
        with place.source.open("a") as file:
            file.write("not,a,row\n")
    place.write_job({**COLUMNS, "visits": {**COLUMNS["visits"], "missing": 2}}, keep=["state"])
    before = sorted(place.folder.rglob("*"))
    done = place.privatize("--dry-run", "--table")
    assert done.code == 0, done.err
    assert sorted(place.folder.rglob("*")) == before
    rows = "20 rows" if ending == "parquet" else "rows unknown before reading"
    assert f"{place.source} ({ending}, 1 file, {rows})" in done.out
    assert f"output  {place.target} (parquet, compression zstd)" in done.out
    assert re.search(r"^visits +discrete_laplace +1 +0 +0 to 20 +2 +– +28\.2\d", done.out, re.MULTILINE)
    assert re.search(r"^state +kept as it is", done.out, re.MULTILINE)
    assert "budget  epsilon 4.0 of 4.0, delta 2e-06 of 2e-06" in done.out
    assert WORDS in done.out
    assert SPENT_AGAIN in done.out


def test_a_dry_run_of_unreadable_rows_succeeds(place):
    write_table(people(1000), place.source)
    damage(place.source, 0, "visits")
    place.write_job()
    assert place.privatize("--dry-run").code == 0
    assert place.privatize().code == 4


def test_overwriting_leaves_the_new_output_alone(place):
    place.target = place.folder / "out/private.csv"
    place.write_job(key=None)
    assert place.privatize().code == 0
    first = place.target.read_text()
    assert place.privatize("--overwrite").code == 0
    assert place.target.read_text() != first
    assert place.left_behind() == ["private.csv", "private.csv.dpcore.json"]


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_threads_do_not_matter(place, threads):
    place.write_job()
    assert place.privatize("--threads", threads).code == 0
    one = place.target.read_bytes()
    assert place.privatize("--threads", 3, "--overwrite").code == 0
    assert place.target.read_bytes() == one


def test_reports(place):
    place.write_job({**COLUMNS, "visits": {**COLUMNS["visits"], "missing": 2}}, keep=["state"])
    folder = place.folder / "deep/report"
    for arguments in ([], ["--overwrite"]):
        done = place.privatize("--report", folder, *arguments)
        assert done.code == 0, done.err
        assert sorted(path.name for path in folder.iterdir()) == ["private.html", "private.json"]
    document = json.loads((folder / "private.json").read_text(encoding="utf-8"))
    assert (document["epsilon"], document["delta"], document["max_epsilon"]) == (4.0, 2e-6, 4.0)
    assert (document["secure"], document["unit"], document["output"]["rows"]) == (False, "row", 20)
    assert WORDS in document["statement"]
    assert any("spends this budget again" in note for note in document["notes"])
    visits = document["columns"][0]
    assert (visits["name"], visits["mechanism"], visits["missing"], visits["scale"]) == ("visits", "discrete_laplace", 2, 20.0)
    assert visits["standard_deviation"] == pytest.approx(2**0.5 * 20, rel=1e-3)
    page = (folder / "private.html").read_text(encoding="utf-8")
    assert WORDS.removeprefix("t") in page
    assert "NOT PRIVATE" in page
    assert ">state</td>" in page
    assert "http" not in page.replace("http-equiv", "")


def test_names_are_escaped_in_reports(place):
    name = "<script>alert(1)</script>[red]"
    write_table(people(5).rename_columns(["person", name, "age", "income", "cost", "state", "note"]), place.source)
    place.write_job({name: COLUMNS["visits"]})
    done = place.privatize("--report", place.folder)
    assert done.code == 0
    assert "<script>" not in (place.folder / "private.html").read_text(encoding="utf-8")
    assert name in place.privatize("--dry-run", "--overwrite", "--table").out


def test_a_bar_on_a_terminal():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    stream = Terminal()
    with shown_on(stream) as progress:
        progress.begin("counting")
        progress.update(1000, 1.0)
        progress.begin("privatising")
        progress.update(500, 0.5)
        progress.update(1000, 1.0)
    shown = stream.getvalue()
    assert "1,000 rows" in shown
    assert "rows/s" in shown
    assert "left" in shown
    assert "privatising" in shown


TENTHS = "  10%  20%  30%  40%  50%  60%  70%  80%  90% 100%"


@pytest.mark.parametrize("steps", [[1.0], [0.05, 0.44, 0.999, 1.0], [step / 100 for step in range(101)]])
@pytest.mark.parametrize("count_rows", [True, False])
def test_a_plain_line_elsewhere_is_the_same_however_the_input_was_read(steps, count_rows):
    """How much of a file lies before a row is an answer about other rows, and shares of a private number tell the number."""
    stream = io.StringIO()
    with shown_on(stream, count_rows=count_rows) as progress:
        for stage in ("counting", "privatising"):
            progress.begin(stage)
            for step in steps:
                progress.update(int(1000 * step), step)
    rows = "  1,000 rows" if count_rows else ""
    assert stream.getvalue() == f"counting{TENTHS}{rows}\nprivatising{TENTHS}{rows}\n"


def test_a_plain_line_that_is_cut_off_ends():
    def fail(stream):
        with shown_on(stream) as progress:
            progress.begin("counting")
            progress.update(5, 0.25)
            raise MemoryError

    stream = io.StringIO()
    with pytest.raises(MemoryError):
        fail(stream)
    assert stream.getvalue() == "counting  10%  20%\n"


@pytest.mark.long
@pytest.mark.parametrize("command", ["privatize", "release"])
def test_progress_does_not_tell_how_long_the_text_before_a_row_is(place, monkeypatch, command):
    """A file that was read to its end is not one whose rows are all written, and a long cell puts the others elsewhere."""
    monkeypatch.setattr("dpcore.tables.pipeline.POLL_SECONDS", 0.0)
    monkeypatch.setattr("dpcore.tables.formats.csv.BLOCK_BYTES", 1 << 12)
    monkeypatch.setattr("dpcore.tables.rows.MAX_PIECE_ROWS", 64)
    source, said = place.folder / "in.csv", []
    text = job_text(source, place.target, {"visits": COLUMNS["visits"]}).partition("[[column]]")
    if command == "release":
        query = 'name = "n"\nkind = "sum"\ncolumn = "visits"\nlower = 0\nupper = 1\nmissing = 0\nepsilon = 1.0\n'
        text = (text[0].replace("keep = []", "").replace(str(place.target), str(place.folder / "out.json")), "[[query]]\n", query)
    place.job.write_text("".join(text), encoding="utf-8")
    for cell in ("x", "x" * 50_000):
        source.write_text("visits,note\n" + f"1,{cell}\n" + "1,x\n" * 5000, encoding="utf-8")
        done = place.dpcore(command, place.job, "--overwrite")
        assert done.code == 0, done.said
        said.append([line for line in done.err.splitlines() if "%" in line])
    stage = {"privatize": "privatising", "release": "adding up"}[command]
    assert said == [[f"{stage}{TENTHS}  5,001 rows"]] * 2


@pytest.mark.long
@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-16"])
def test_an_output_stream_that_cannot_write_every_character(place, encoding):
    write_table(people(5).rename_columns(["person", "größe 🙂", "age", "income", "cost", "state", "note"]), place.source)
    place.write_job({"größe 🙂": COLUMNS["visits"]})
    for options in (["--dry-run"], []):
        process = start("privatize", place.job, *options, environment={"PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}, text=False)
        out, err = process.communicate()
        assert process.returncode == 0, err
        assert "gr" in out.decode(encoding, errors="replace"), out


def test_info(place):
    done = place.dpcore("info", "--json")
    facts = json.loads(done.out)
    assert done.code == 0
    assert facts["version"] == dpcore.__version__
    assert facts.items() >= _backend.info().items()
    assert json.loads(place.dpcore("info").out) == facts
    lines = place.dpcore("info", "--table").out
    assert re.search(rf"^cpu level +{_backend.selected_level()}$", lines, re.MULTILINE)


def test_version_and_help(place):
    assert place.dpcore("--version").out.split() == ["dpcore", dpcore.__version__]
    top = place.dpcore("--help").out
    assert "privatize" in top
    assert "info" in top
    text = place.dpcore("privatize", "--help").out
    for word in (
        "[[column]]",
        "max_epsilon",
        "--dry-run",
        "--overwrite",
        "spends its budget again",
        "First check that your numbers parse",
        "Exit codes",
    ):
        assert word in text, word


def test_the_job_in_the_help_is_a_job(place):
    text = place.dpcore("privatize", "--help").out
    example = text[text.index("version = 1") : text.index("Mechanisms, by what")]
    place.job.write_text("\n".join(line.strip() for line in example.splitlines()), encoding="utf-8")
    from dpcore.batch import load_job

    job = load_job(place.job)
    assert [column.mechanism for column in job.column] == ["discrete_laplace", "gaussian", "binary", "kary"]


def test_a_closed_pipe_is_not_a_bug():
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-c", "from dpcore.cli import main; main()", "privatize", "--help"]
    process = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert process.returncode == 4
    assert "Traceback" not in process.stderr


def test_a_bug_shows_its_place_but_no_message(place, monkeypatch):
    secret = "12345"

    def broken(*_args, **_kwargs):
        raise ZeroDivisionError(secret)

    monkeypatch.setattr("dpcore.jobs.commands.privatize.make_plan", broken)
    place.write_job()
    done = place.privatize()
    assert done.code == 1
    assert "ZeroDivisionError: this is a bug in dpcore" in done.err
    assert "in broken" in done.err
    assert "12345" not in done.err
