"""Once an output is published, whatever fails then says so, with an exit code of its own; before, nothing is said that is not true."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading

import pytest

from dpcore import cli
from dpcore._disk import sealed_files
from dpcore._disk.sealed_files import move_into_place
from dpcore._disk.signals import Deferred
from dpcore.accounting import Ledger
from dpcore.tables.output import publication
from dpcore.tables.output.publication import Publication
from support.jobs import COLUMNS, people, start, write_table

posix = pytest.mark.skipif(os.name != "posix", reason="signals and descriptors of POSIX are the subject")
COUNT = {"n": {"kind": "count", "column": "visits", "lower": 0, "upper": 100}}
DECLARED = {"visits": {**COLUMNS["visits"], "missing": 0}}


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(tmp_path / "budget.ledger", epsilon=10.0)


def states(ledger):
    return [(entry.epsilon, entry.state, entry.reason) for entry in ledger.entries()]


# One charge for both commands


def test_privatize_is_charged_once_and_a_rerun_is_not(place, ledger):
    place.write_job(DECLARED, key=None, ledger=ledger.path)
    assert place.privatize().code == 0
    assert states(ledger) == [(1.0, "done", None)]
    before = place.target.read_bytes()
    done = place.privatize()
    assert (done.code, "already published" in done.err) == (0, True), done.said
    assert place.target.read_bytes() == before
    assert len(states(ledger)) == 1


def test_a_rerun_on_other_data_does_not_tell_that_they_differ(place, ledger):
    """Only what is declared makes another run: an answer that depends on the input would be one for nothing."""
    place.write_job(DECLARED, key=None, ledger=ledger.path)
    assert place.privatize().code == 0
    write_table(people(33), place.source)
    done = place.privatize()
    assert (done.code, "already published" in done.err) == (0, True), done.said
    place.write_job(DECLARED, key=None, ledger=ledger.path, dataset="visits of 2027")
    done = place.privatize()
    assert (done.code, "exists" in done.err) == (2, True), done.said
    assert len(states(ledger)) == 1


def test_another_run_on_the_same_name_and_an_overwrite(place, ledger):
    place.write_job(DECLARED, key=None, ledger=ledger.path)
    assert place.privatize().code == 0
    place.write_job({"visits": {**DECLARED["visits"], "upper": 21}}, key=None, ledger=ledger.path)
    done = place.privatize()
    assert (done.code, "exists" in done.err) == (2, True), done.said
    assert len(states(ledger)) == 1
    assert place.privatize("--overwrite").code == 0
    assert states(ledger) == [(1.0, "done", None)] * 2
    place.write_job(DECLARED, key=None, ledger=ledger.path)
    done = place.privatize()
    assert (done.code, "is not what is there now" in done.err) == (2, True), done.said
    assert len(states(ledger)) == 2


def test_other_categories_in_a_file_are_another_run(place, ledger):
    """A file that a job declares is a part of it: else the table of the old categories would pass for that of the new ones."""
    listed = place.folder / "states.csv"
    listed.write_text("state\nstate 0\nstate 1\n", encoding="utf-8")
    column = {"mechanism": "kary", "epsilon": 1.0, "categories_file": str(listed), "missing": "state 0", "unknown": "state 1"}
    place.write_job({"state": column}, key=None, ledger=ledger.path)
    assert place.privatize().code == 0
    done = place.privatize()
    assert (done.code, "already published" in done.err) == (0, True), done.said
    listed.write_text("state\nstate 0\nstate 1\nstate 2\n", encoding="utf-8")
    done = place.privatize()
    assert (done.code, "exists" in done.err) == (2, True), done.said
    assert len(states(ledger)) == 1


def test_a_charge_comes_before_the_first_row(place, ledger, monkeypatch):
    from dpcore.jobs import privatize as engine

    def failing(*_args, **_kwargs):
        assert states(ledger) == [(1.0, "reserved", None)]
        raise MemoryError

    place.write_job(DECLARED, key=None, ledger=ledger.path)
    monkeypatch.setattr(engine, "_stream", failing)
    assert place.privatize().code == 4
    assert states(ledger) == [(1.0, "failed", "memory")]
    assert place.left_behind() == []


def test_a_key_and_a_ledger_exclude_each_other(place, counter, ledger):
    place.write_job(DECLARED, ledger=ledger.path)
    done = place.privatize()
    assert (done.code, "noise from a [testing] key is not private; remove one of them" in done.err) == (2, True), done.said
    assert states(ledger) == []


@pytest.mark.parametrize("dataset", [None, "claims-2025"])
def test_the_name_of_a_data_set(place, dataset):
    ledger = Ledger.create(place.folder / "claims.ledger", epsilon=10.0, dataset="claims-2026")
    place.write_job(DECLARED, key=None, ledger=ledger.path, dataset=dataset)
    done = place.privatize()
    assert (done.code, "is for the data set 'claims-2026'" in done.err) == (2, True), done.said
    place.write_job(DECLARED, key=None, ledger=ledger.path, dataset="claims-2026")
    assert place.privatize().code == 0
    assert [entry.dataset for entry in ledger.entries()] == ["claims-2026"]


# Published, and then something failed


def published(done, target, *words):
    assert done.code == 5, done.said
    assert "published as" in done.err
    assert str(target) in done.err
    for word in words:
        assert word in done.err, (word, done.err)
    assert "nothing was left behind" not in done.err
    assert target.exists()


def test_a_report_that_fails(place, ledger, monkeypatch):
    from dpcore.jobs import privatize_page as report

    def failing(*_args):
        raise OSError(28, os.strerror(28), "page.html")

    place.write_job(DECLARED, key=None, ledger=ledger.path)
    monkeypatch.setattr(report.PrivatizePages, "write", failing)
    published(place.privatize("--report", place.folder / "reports"), place.target, os.strerror(28))
    assert states(ledger) == [(1.0, "done", None)]


@posix
@pytest.mark.parametrize("ending", ["parquet", "csv"])
@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("failing", [1, 2, 3])
def test_a_folder_that_cannot_be_synced_leaves_no_output_that_is_not_told_of(place, monkeypatch, ending, overwrite, failing):
    """Without a ledger nothing would publish it later: it goes, and so does no budget unnoticed."""
    place.target = place.target.with_suffix(f".{ending}")
    place.write_job(DECLARED, key=None)
    earlier = b""
    if overwrite:
        assert place.privatize().code == 0
        earlier = place.target.read_bytes()
    calls = []

    def sync(folder):
        calls.append(folder)
        if len(calls) == failing:
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(folder))

    monkeypatch.setattr(sealed_files, "sync_folder", sync)
    monkeypatch.setattr(publication, "sync_folder", sync)
    done = place.privatize("--overwrite") if overwrite else place.privatize()
    assert done.code == (4 if len(calls) == failing else 0), done.said
    if done.code == 4:
        assert "cannot complete" in done.err
        assert place.left_behind() == []
    else:
        assert place.target.read_bytes() != earlier


def test_an_old_output_stays_if_the_new_one_is_lost(place, monkeypatch):
    place.write_job(DECLARED)
    assert place.privatize().code == 0
    earlier = place.target.read_bytes()

    def lose(file, *, overwrite):
        file.temporary.unlink()
        move_into_place(file, overwrite=overwrite)

    monkeypatch.setattr(publication, "move_into_place", lose)
    done = place.privatize("--overwrite")
    assert (done.code, "cannot complete" in done.err) == (4, True), done.said
    assert place.target.read_bytes() == earlier


def test_a_ledger_that_cannot_be_told(place, ledger, monkeypatch):
    """The next command that opens it finishes the run."""

    def failing(_self):
        raise TimeoutError(110, "the ledger stayed locked by another process", str(ledger.path))

    place.write_job(DECLARED, key=None, ledger=ledger.path)
    with monkeypatch.context() as patch:
        patch.setattr("dpcore.tables.output.charge.Charge.published", failing)
        published(place.privatize(), place.target, "stayed locked")
    assert states(ledger) == [(1.0, "sealed", None)]
    done = place.privatize()
    assert (done.code, "already published" in done.err) == (0, True), done.said
    assert states(ledger) == [(1.0, "done", None)]
    assert place.left_behind() == ["private.parquet"]


@posix
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("moment", ["sealed", "moved"])
def test_a_burst_of_signals_inside_the_commit(place, ledger, monkeypatch, number, moment):
    """Whether it comes between two files or before the ledger knows: the commit is whole, and the message is true of it."""
    place.target = place.folder / "out" / "private.csv"
    place.write_job(DECLARED, key=None, ledger=ledger.path)
    show, move = Publication._show, publication.move_into_place

    def burst():
        for each in (number, signal.SIGTERM, number):
            signal.raise_signal(each)

    def shown(self, files):
        if moment == "sealed":
            burst()
        show(self, files)

    def moved(file, *, overwrite):
        move(file, overwrite=overwrite)
        if moment == "moved":
            burst()

    monkeypatch.setattr(Publication, "_show", shown)
    monkeypatch.setattr(publication, "move_into_place", moved)
    words = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated", signal.SIGHUP: "hung up"}
    published(place.privatize(), place.target, words[number])
    assert states(ledger) == [(1.0, "done", None)]
    assert place.left_behind() == ["private.csv", "private.csv.dpcore.json"]
    assert place.estimate().code == 0


@posix
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_burst_of_signals_before_the_commit(place, ledger, monkeypatch, number):
    from dpcore.jobs import privatize as engine

    def burst(*_args, **_kwargs):
        try:
            signal.raise_signal(number)
        finally:
            for each in (number, signal.SIGTERM, signal.SIGINT):
                signal.raise_signal(each)

    place.write_job(DECLARED, key=None, ledger=ledger.path)
    monkeypatch.setattr(engine, "_stream", burst)
    done = place.privatize()
    assert done.code == 128 + number, done.said
    assert "nothing was left behind" in done.err
    assert "stays charged" in done.err
    assert place.left_behind() == []
    assert states(ledger) == [(1.0, "failed", "interrupted")]


WHILE_LOADING = """
import os, sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r} and self in sys.meta_path:
            sys.meta_path.remove(self)
            for number in {numbers!r}:
                os.kill(os.getpid(), number)

sys.meta_path.insert(0, Finder())
from dpcore.cli import main
main()
"""


@pytest.mark.long
@posix
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("module", ["pyarrow.lib", "pydantic.fields", "dpcore.tables.output.output"])
def test_a_burst_of_signals_while_modules_are_loaded(place, number, module):
    """A module loaded by halves ended in lines of a traceback and exit code 1, or in an abort."""
    place.write_job()
    numbers = [int(each) for each in (number, signal.SIGTERM, signal.SIGINT)]
    job = start("privatize", place.job, script=WHILE_LOADING.format(module=module, numbers=numbers))
    out, err = job.communicate()
    assert (job.returncode, out) == (128 + number, ""), err
    if number == signal.SIGINT:
        err = err.removeprefix("\n")  # Click ends the line on which a terminal shows ^C
    assert err.startswith("dpcore: "), err
    assert err.endswith("; nothing was left behind\n"), err
    assert len(err.splitlines()) == 1
    assert place.left_behind() == []


@pytest.mark.long
@posix
def test_a_signal_while_the_interpreter_ends_changes_no_exit_code(place):
    script = "import atexit, os, signal\natexit.register(lambda: os.kill(os.getpid(), signal.SIGTERM))\nfrom dpcore.cli import main\nmain()"
    place.write_job()
    job = start("privatize", place.job, script=script)
    assert (job.communicate()[1].count("Traceback"), job.returncode) == (0, 0)


def test_a_command_in_another_thread(place):
    """Signals are the main thread's."""
    place.write_job()
    codes = []
    thread = threading.Thread(target=lambda: codes.append(cli.run(["privatize", str(place.job)])))
    thread.start()
    thread.join()
    assert codes == [0]


def test_deferred_signals_come_at_the_end_and_once():
    seen = []
    before = signal.signal(signal.SIGINT, lambda number, _frame: seen.append(number))
    try:
        with Deferred():
            signal.raise_signal(signal.SIGINT)
            with Deferred():
                signal.raise_signal(signal.SIGINT)
            assert seen == []
        assert seen == [signal.SIGINT]
        signal.raise_signal(signal.SIGINT)
        assert len(seen) == 2
    finally:
        signal.signal(signal.SIGINT, before)


CLOSED = {"stdin": "<&-", "stdout": ">&-", "stderr": "2>&-", "all": "<&- >&- 2>&-", "full": ">/dev/full", "full errors": "2>/dev/full"}


@pytest.mark.some(2)
@posix
@pytest.mark.parametrize(
    ("command", "streams"),
    [
        (command, streams)
        if (command, streams) in {("privatize", "all"), ("privatize", "stderr"), ("release", "stdout"), ("release", "full")}
        else pytest.param(command, streams, marks=pytest.mark.long)
        for command in ("privatize", "release")
        for streams in CLOSED
    ],
)
def test_streams_that_are_closed_or_full(place, counter, ledger, command, streams):
    """A stream that is closed at the start leaves its descriptor to the next file that is opened: what is printed went there."""
    used = place if command == "privatize" else counter
    if command == "privatize":
        write_table(people(20), place.source)
        place.write_job(DECLARED, key=None, ledger=ledger.path)
    else:
        counter.write_release(COUNT, key=None, ledger=ledger.path)
    line = f'exec "{sys.executable}" -c "from dpcore.cli import main; main()" {command} "{used.job}" {CLOSED[streams]}'
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False, timeout=120)
    silent = streams == "stdin" or (command == "privatize" and streams in {"stderr", "full errors"})
    assert done.returncode == (0 if silent else 5), done
    if done.returncode == 5 and streams in {"stdout", "full"}:
        assert "published as" in done.stderr
    assert states(ledger) == [(1.0, "done", None)]
    assert used.left_behind() == [used.target.name]


@pytest.mark.long
@posix
def test_a_pipe_that_nobody_reads(counter, ledger):
    counter.write_release(COUNT, key=None, ledger=ledger.path)
    process = start("release", counter.job)
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    assert process.wait() == 5, err
    assert "published as" in err
    assert states(ledger) == [(1.0, "done", None)]


@pytest.mark.long
@posix
@pytest.mark.parametrize("form", ["--json", "--table"])
def test_a_report_is_written_before_a_pipe_that_nobody_reads(place, counter, form):
    commands = (
        (lambda: place.write_job(DECLARED), ["privatize", place.job], place.target.stem, 5),
        (lambda: counter.write_release(COUNT), ["release", counter.job], counter.target.stem, 5),
        (lambda: None, ["estimate", place.target], f"{place.target.stem}-estimate", 4),
    )
    for write, arguments, name, code in commands:
        write()  # both jobs have one file
        process = start(*arguments, form, "--report", place.folder / "reports")
        process.stdout.close()
        err = process.stderr.read()
        process.stderr.close()
        assert process.wait() == code, err
        written = {path.name for path in (*(place.folder / "reports").iterdir(), *place.target.parent.iterdir())}
        assert {f"{name}.html", f"{name}.json"} <= written, err


@pytest.mark.long
@posix
def test_a_report_of_an_earlier_run_is_written_before_a_pipe_that_nobody_reads(place, ledger):
    place.write_job(DECLARED, key=None, ledger=ledger.path)
    for folder, code in (("first", 5), ("second", 4)):
        process = start("privatize", place.job, "--report", place.folder / folder)
        process.stdout.close()
        err = process.stderr.read()
        process.stderr.close()
        assert process.wait() == code, err
        name = place.target.stem
        assert {f"{name}.html", f"{name}.json"} == {path.name for path in (place.folder / folder).iterdir()}, err
    assert states(ledger) == [(1.0, "done", None)]


LIMITED = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))
from dpcore.cli import main
main()
"""


@pytest.mark.long
@posix
@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="the system allocates no room ahead")
def test_without_room_for_the_output_nothing_is_spent(place, ledger):
    write_table(people(20_000), place.source)
    place.write_job({"income": {**COLUMNS["income"], "missing": 0}}, key=None, ledger=ledger.path)
    process = start("privatize", place.job, script=LIMITED)
    _, err = process.communicate()
    assert process.returncode == 4, err
    assert "there is no space for about" in err
    assert states(ledger) == []
    assert place.left_behind() == []
