"""Every file of a command is a regular file of its own: what would be written over something else is refused before anything is read."""

from __future__ import annotations

import errno
import os
import socket
import stat
from pathlib import Path

import pytest

from dpcore.accounting import Ledger
from dpcore.batch import make_release_plan, parse_release_job
from dpcore.errors import JobError, StorageError
from dpcore.tables.places import check_distinct
from support.jobs import COLUMNS, people, start, write_table

posix = pytest.mark.skipif(os.name != "posix", reason="links, devices and named pipes of POSIX are the subject")
COUNT = {"n": {"kind": "count", "column": "visits", "lower": 0, "upper": 5}}


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(tmp_path / "budget.ledger", epsilon=10.0, delta=1e-4)


def refused(done, *words):
    assert done.code == 2, done.said
    for word in words:
        assert word in done.err, (word, done.err)
    assert "Traceback" not in done.err


def everything(folder):
    """What there is, and what is in it."""
    return {
        path.relative_to(folder): (stat.S_IFMT(path.lstat().st_mode), path.read_bytes() if path.is_file() else None)
        for path in folder.rglob("*")
    }


# Different files


@pytest.mark.parametrize("way", ["itself", "symbolic link", "hard link", "folder link", "journal"])
def test_an_output_that_is_the_ledger(place, ledger, way):
    """With --overwrite the ledger was replaced by the output, and with it every spend so far."""
    target = place.folder / "other.parquet"
    match way:
        case "itself":
            target = ledger.path
        case "journal":
            target = place.folder / "budget.ledger-journal"
        case "symbolic link":
            target.symlink_to(ledger.path)
        case "hard link":
            os.link(ledger.path, target)
        case "folder link":
            (place.folder / "way").symlink_to(place.folder)
            target = place.folder / "way" / "budget.ledger"
    place.target = target
    place.write_job(key=None, ledger=ledger.path, format="parquet")
    before = everything(place.folder)
    done = place.privatize("--overwrite")
    assert everything(place.folder) == before
    refused(done, {"symbolic link": "symbolic link", "hard link": ""}.get(way, "the same file"))


@pytest.mark.parametrize("way", ["job", "input", "categories"])
def test_an_output_that_is_another_file_of_the_job(place, way):
    (place.folder / "states.csv").write_text("state\n" + "".join(f"state {i}\n" for i in range(5)))
    columns = {"state": {"mechanism": "kary", "epsilon": 1.0, "categories_file": str(place.folder / "states.csv")}}
    place.target = {"job": place.job, "input": place.source, "categories": place.folder / "states.csv"}[way]
    place.write_job(columns, format="csv")
    before = everything(place.folder)
    refused(place.privatize("--overwrite"), str(place.target))
    assert everything(place.folder) == before


def test_a_sidecar_that_is_the_ledger(place):
    ledger = Ledger.create(place.folder / "table.csv.dpcore.json", epsilon=10.0, delta=1e-4)
    place.target = place.folder / "table.csv"
    place.write_job(key=None, ledger=ledger.path)
    refused(place.privatize("--overwrite"), "table.csv.dpcore.json", "the same file as ledger.path")
    assert Ledger(ledger.path).spent.epsilon == 0


@pytest.mark.parametrize("way", ["ledger", "output", "job"])
def test_a_report_that_is_another_file(place, ledger, way):
    """DIR/NAME.json and DIR/NAME.html, with the output's name."""
    place.target = place.folder / "out" / "budget.parquet"
    (place.folder / "budget.html").unlink(missing_ok=True)
    if way == "ledger":
        (place.folder / "budget.html").symlink_to(ledger.path)
    elif way == "job":
        place.job = place.folder / "budget.json"
    else:
        place.target = place.folder / "budget.json"
    place.write_job(key=None, ledger=ledger.path, format="parquet")
    before = everything(place.folder)
    refused(place.privatize("--report", place.folder), "a file of --report", "the same file")
    assert everything(place.folder) == before


@pytest.mark.parametrize("command", ["privatize", "release"])
@pytest.mark.parametrize("way", ["itself", pytest.param("symbolic link", marks=posix), pytest.param("hard link", marks=posix), "folder"])
def test_an_input_that_is_the_file_of_categories(place, counter, ledger, command, way):
    """Which categories are listed twice, and how often, was said of the rows for nothing; those that are not, by what was published."""
    folder = place.folder / "rows"
    folder.mkdir()
    table = folder / "table.csv"
    categories = {"symbolic link": folder / "_link.csv", "hard link": folder / ".other.csv"}.get(way, table)
    table.write_text("place\nnorth\nnorth\n")
    if way == "symbolic link":
        categories.symlink_to(table)
    elif way == "hard link":
        os.link(table, categories)
    declared = {"categories_file": str(categories), "missing": "north", "unknown": "north"}
    place.source = counter.source = folder if way == "folder" else table
    if command == "release":
        counter.write_release({"x": {"kind": "histogram", "column": "place", **declared}}, key=None, ledger=ledger.path)
    else:
        place.write_job({"place": {"mechanism": "kary", "epsilon": 1.0, **declared}}, key=None, ledger=ledger.path)
    before = everything(place.folder)
    done = place.dpcore(command, place.job)
    refused(done, "input.path", "the same file as a file of categories")
    assert "north" not in done.said
    assert everything(place.folder) == before


@pytest.mark.parametrize("which", ["ledger", "job"])
def test_an_input_that_is_no_table(counter, ledger, which):
    """Both are text or bytes, which a reader of CSV takes for records."""
    counter.source = ledger.path if which == "ledger" else counter.job
    query = {"x": {"kind": "count", "column": "version = 1", "lower": 0, "upper": 1}}
    counter.write_release(query, key=None, ledger=ledger.path)
    text = counter.job.read_text(encoding="utf-8").replace("[output]", 'format = "csv"\n[output]')
    counter.job.write_text(text, encoding="utf-8")
    refused(counter.release(), "the same file as " + {"ledger": "ledger.path", "job": "the job file"}[which])


def test_a_release_whose_report_is_its_output(counter, ledger):
    """Both are the same JSON object, so that one file is both."""
    counter.write_release(COUNT, key=None, ledger=ledger.path)
    done = counter.release("--report", counter.target.parent)
    assert done.code == 0, done.said
    assert counter.left_behind() == ["answers.html", "answers.json"]


def test_synthetic_tables_that_are_other_files(counter, ledger):
    for path, other in ((counter.folder / "a.csv", "output.path"), (ledger.path, "ledger.path"), (counter.job, "the job file")):
        target = path
        if path == counter.folder / "a.csv":
            counter.target = path
        else:
            target = path.with_suffix(".csv")
            os.link(path, target)
        counter.write_release({"x": counter.synthetic(output=str(target))}, key=None, ledger=ledger.path)
        done = counter.release("--overwrite")
        target.unlink(missing_ok=True)
        refused(done, *(() if path == ledger.path else (other, "the same file")))  # a ledger with two names is refused first


def test_files_are_compared_as_files(tmp_path):
    """The class: any two of a few files, under any of their names."""
    files = []
    for name in ("a", "b"):
        path = tmp_path / name
        path.write_text(name)
        files.append({"itself": path, "dotted": tmp_path / "." / name, "not there": tmp_path / f"none {name}"})
        if os.name == "posix":
            (tmp_path / f"soft {name}").symlink_to(path)
            os.link(path, tmp_path / f"hard {name}")
            files[-1] |= {"soft": tmp_path / f"soft {name}", "hard": tmp_path / f"hard {name}"}
    names = [(i, way, path) for i, ways in enumerate(files) for way, path in ways.items()]
    for i, way, path in names:
        for j, other, there in names:
            same = i == j and (way == "not there") == (other == "not there")
            if same:
                with pytest.raises(JobError, match="the same file"):
                    check_distinct([("one", path)], [("other", there)])
                with pytest.raises(JobError, match="the same file"):
                    check_distinct([("one", path), ("other", there)], [])
            else:
                check_distinct([("one", path), ("other", there)], [])
    check_distinct([], [("one", files[0]["itself"]), ("other", files[0]["dotted"])])  # nothing is written


# Regular files


@posix
@pytest.mark.parametrize("kind", ["fifo", "folder", "socket", "device", "link to a device", "link to itself"])
@pytest.mark.parametrize("overwrite", [(), ("--overwrite",)])
def test_an_output_that_is_no_regular_file(place, monkeypatch, kind, overwrite):
    """As root a device was replaced by a file."""
    path = place.target = place.folder / "strange.parquet"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "socket":
        monkeypatch.chdir(place.folder)  # names of sockets are short
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(path.name)
    elif kind == "device":
        try:
            os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        except PermissionError:
            pytest.skip("only root makes devices")
    else:
        path.symlink_to("/dev/null" if kind == "link to a device" else path)
    place.write_job()
    before = everything(place.folder)
    refused(place.privatize(*overwrite), "strange.parquet")
    assert everything(place.folder) == before
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


@pytest.mark.parametrize("name", ["new/", "new/.", "new/..", "."])
def test_an_output_that_is_named_like_a_folder(place, monkeypatch, name):
    """A file was written under the name without the slash."""
    monkeypatch.chdir(place.folder)
    place.target = name
    place.write_job(format="parquet")
    before = everything(place.folder)
    refused(place.dpcore("privatize", place.job), "is a folder; name a file")
    assert everything(place.folder) == before


@posix
@pytest.mark.parametrize("overwrite", [(), ("--overwrite",)])
@pytest.mark.parametrize("there", [True, False])
def test_a_symbolic_link_is_not_followed(place, overwrite, there):
    """With --overwrite it was replaced; without, a file beside what it points to would have been the sidecar of nothing."""
    real = place.folder / "real.parquet"
    if there:
        real.write_text("something")
    place.target.parent.mkdir()
    place.target.symlink_to(real)
    place.write_job()
    before = everything(place.folder)
    refused(place.privatize(*overwrite), "is a symbolic link; name the file itself")
    assert everything(place.folder) == before


@pytest.mark.parametrize("address", ["s3:/bucket/o.parquet", "file:///tmp/o.parquet", "hdfs://host/o.parquet", "gs:/bucket/o.parquet"])
def test_an_address_is_no_path(place, monkeypatch, address):
    """A file in a folder named "s3:" was written, and the job said that it was done."""
    monkeypatch.chdir(place.folder)
    place.target = address
    place.write_job()
    before = everything(place.folder)
    refused(place.dpcore("privatize", place.job), "addresses are not supported")
    assert everything(place.folder) == before


def test_an_address_as_a_synthetic_table(counter, monkeypatch):
    monkeypatch.chdir(counter.folder)
    counter.write_release({"x": counter.synthetic(output="hdfs://host/o.csv")})
    refused(counter.release(), "addresses are not supported")
    assert not (counter.folder / "hdfs:").exists()


# One output, two jobs


@pytest.mark.long
def test_of_two_jobs_with_one_output_one_wins(place, ledger):
    """The other one ends before it spends, whichever is faster."""
    write_table(people(60_000), place.source)
    place.write_job(COLUMNS, key=None, ledger=ledger.path)
    other = place.folder / "other.toml"
    other.write_text(place.job.read_text().replace("upper = 20\n", "upper = 21\n"))
    jobs = [start("privatize", job) for job in (place.job, other)]
    said = [job.communicate()[1] for job in jobs]
    codes = sorted(job.returncode for job in jobs)
    assert codes in ([0, 2], [0, 4]), said
    assert len(list(ledger.entries())) == 1
    assert place.left_behind() == ["private.parquet"]


@pytest.mark.long
def test_a_name_that_another_job_holds(place, ledger, monkeypatch):
    from dpcore.jobs import privatize as engine

    place.write_job(COLUMNS, key=None, ledger=ledger.path)
    stream, seen = engine._stream, []

    def meanwhile(*args, **kwargs):
        process = start("privatize", place.job, "--overwrite")
        seen.append((process.communicate()[1], process.returncode))
        return stream(*args, **kwargs)

    monkeypatch.setattr(engine, "_stream", meanwhile)
    assert place.privatize().code == 0
    ((err, code),) = seen
    assert code == 4, err
    assert "another job is writing" in err
    assert len(list(ledger.entries())) == 1
    assert place.left_behind() == ["private.parquet"]


@pytest.mark.parametrize("target", ["parquet", "csv"])
def test_an_output_that_appears_while_the_job_runs(place, monkeypatch, target):
    """It is not ours to replace; nothing of it is lost."""
    from dpcore.jobs import privatize as engine

    place.target = place.folder / "out" / f"private.{target}"
    place.write_job()
    stream = engine._stream

    def meanwhile(*args, **kwargs):
        stream(*args, **kwargs)
        place.target.write_text("somebody else's")

    monkeypatch.setattr(engine, "_stream", meanwhile)
    done = place.privatize()
    assert done.code == 4, done.said
    assert place.target.read_text() == "somebody else's"
    assert place.left_behind() == [place.target.name]


def test_an_output_that_appears_costs_nothing_that_is_not_kept(place, ledger, monkeypatch):
    """With a ledger the finished output waits beside the name, and is published as soon as that is free."""
    from dpcore.jobs import privatize as engine

    place.write_job(COLUMNS, key=None, ledger=ledger.path)
    stream = engine._stream

    def meanwhile(*args, **kwargs):
        stream(*args, **kwargs)
        place.target.write_text("somebody else's")

    with monkeypatch.context() as patch:
        patch.setattr(engine, "_stream", meanwhile)
        done = place.privatize()
    assert (done.code, "sealed in the ledger" in done.err) == (4, True), done.said
    assert [entry.state for entry in ledger.entries()] == ["sealed"]
    assert place.privatize().code == 4
    assert place.target.read_text() == "somebody else's"
    place.target.unlink()
    done = place.privatize()
    assert (done.code, "already published" in done.err) == (0, True), done.said
    assert [entry.state for entry in ledger.entries()] == ["done"]
    assert place.left_behind() == ["private.parquet"]
    assert place.estimate().code == 0


@pytest.mark.long
def test_overlapping_jobs_never_leave_the_sidecar_of_another_table(place):
    """Without a lock the wrong sidecar stood beside a table in a third of the runs."""
    place.target = place.folder / "out" / "private.csv"
    place.write_job({"visits": COLUMNS["visits"]})
    jobs = [start("privatize", place.job, "--overwrite") for _ in range(3)]
    said = [job.communicate() for job in jobs]
    codes = [job.returncode for job in jobs]
    assert 0 in codes, said
    assert set(codes) <= {0, 4}
    assert place.left_behind() == ["private.csv", "private.csv.dpcore.json"]
    assert place.estimate().code == 0


@posix
@pytest.mark.parametrize("key", ["output.path", "ledger.path"])
def test_a_name_that_is_too_long_for_the_system(place, ledger, key):
    """The system's own error left the functions, which is none of dpcore."""
    job = parse_release_job(
        {
            "version": 1,
            "input": {"path": str(place.source)},
            "output": {"path": "x" * 300 if key == "output.path" else str(place.folder / "answers.json")},
            "ledger": {"path": "x" * 300 if key == "ledger.path" else str(ledger.path)},
            "privacy": {"max_epsilon": 1.0},
            "query": [{"name": "all", "kind": "count"}],
        }
    )
    with pytest.raises(StorageError, match=os.strerror(errno.ENAMETOOLONG)):
        make_release_plan(job)


def test_a_damaged_ledger_of_a_job(place, ledger):
    ledger.path.write_bytes(ledger.path.read_bytes()[:6000])
    job = parse_release_job(
        {
            "version": 1,
            "input": {"path": str(place.source)},
            "output": {"path": str(place.folder / "answers.json")},
            "ledger": {"path": str(ledger.path)},
            "privacy": {"max_epsilon": 1.0},
            "query": [{"name": "all", "kind": "count"}],
        }
    )
    with pytest.raises(StorageError, match="damaged"):
        make_release_plan(job)
