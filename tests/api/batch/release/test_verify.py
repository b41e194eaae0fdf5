"""Releases of all kinds are made again from their key files, and whatever is changed is noticed and never shown."""

from __future__ import annotations

import json
import re
import shutil

import pytest

pytest.importorskip("pyarrow")

import pyarrow.parquet as pq

from dpcore.batch import deposit, load_release_job, make_release_plan, release, verify
from dpcore.errors import JobError, ParameterTypeError, StorageError
from dpcore.query import verification
from kinds import ALONE, EXAMPLES
from support.commits import UNITS, WAYS, Kept, daily_job, every_job, folder_job, small_job, synthetic_job
from support.jobs import edit, write_table
from support.releases import clinic

ALL = [(unit, way) for unit in UNITS for way in WAYS if unit != "person of groups" or way == "listed"]
OTHERS = {
    "synthetic tables": synthetic_job,
    "a folder": folder_job,
    "dates, weights and a ledger": daily_job,
    "text": lambda place: small_job(place, ending="csv"),
    "arrow": lambda place: small_job(place, ending="arrow"),
}
HEX = "2cf24dba5fb0a30e26e83b2ac5b9e29e"


@pytest.fixture
def place(tmp_path, capsys):
    return Kept(tmp_path, capsys)


def test_there_are_enough_of_them():
    assert len(ALL) + len(OTHERS) >= 20


@pytest.mark.some(3)
@pytest.mark.parametrize(("unit", "way"), ALL)
def test_a_release_of_every_kind_is_made_again(place, unit, way):
    every_job(place, unit, way)
    done = place.commit()
    assert done.code == 0, done.err
    document = place.document
    asked = {query["name"].split(" / ")[0] for query in document["queries"]}
    wanted = EXAMPLES.keys() - ({name for name, keys in EXAMPLES.items() if "max_sum_per_unit" in keys} if unit == "row" else set())
    assert asked >= wanted - ({"units"} if unit == "row" else set())
    assert document["secure"] is True
    assert place.verdict() == []
    # With other threads, and by number of its queries: one answer is another one.
    at = len(document["queries"]) // 2
    changed = document["queries"][at]
    value = changed["value"]
    changed["value"] = [value, value] if not isinstance(value, list) else value[:-1]
    place.target.write_text(json.dumps(document), encoding="utf-8")
    assert place.verdict("--threads", "1") == [f"queries[{at}] ({changed['name']!r}): value"]


@pytest.mark.parametrize("name", OTHERS)
def test_other_releases_are_made_again(place, name):
    OTHERS[name](place)
    done = place.commit()
    assert done.code == 0, done.err
    assert place.verdict() == []
    assert ALONE.keys() == {"synthetic"}  # which is among them


def test_what_is_printed(place):
    small_job(place)
    done = place.commit()
    assert f"commitment {place.document['commitment']['hmac_sha256']}\n" in done.err
    assert f"{place.key} is as secret as the data" in done.err
    done = place.dpcore("verify", place.target, "--key", place.key, "--table")
    assert done.code == 0
    assert done.out == (
        f"match: all 9 answers of {place.target} follow from the key file and the input\n"
        "unchanged since the release, and not derived: time\n"
    )


def test_an_input_that_is_elsewhere_now(place):
    small_job(place)
    assert place.commit().code == 0
    moved = place.folder / "elsewhere" / "copy.parquet"
    moved.parent.mkdir()
    place.source.rename(moved)
    assert place.verify().code == 4
    assert place.verdict("--input", moved) == []


def test_tables_that_are_elsewhere_now(place):
    synthetic_job(place)
    assert place.commit().code == 0
    moved = place.folder / "elsewhere"
    place.target.parent.rename(moved)
    place.target = moved / place.target.name
    missing = place.verify()
    assert missing.code == 4
    assert "--file" in missing.err
    files = [f"{place.folder / 'out' / f'{ending}.{ending}'}={moved / f'{ending}.{ending}'}" for ending in ("parquet", "csv", "arrow")]
    assert place.verdict(*(part for file in files for part in ("--file", file))) == []
    for wrong in ("nothing", "=x", f"{place.folder}/other.parquet=x"):
        assert place.verify("--file", wrong).code == 2


# Tampering


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    """A release to be tampered with, and one of another run."""
    folder = tmp_path_factory.mktemp("released")
    place = Kept(folder / "one", None)
    place.folder.mkdir()
    small_job(place, ledger=place.folder / "budget.ledger")
    from dpcore.accounting import Ledger

    Ledger.create(place.folder / "budget.ledger", epsilon=1e6, delta=0.01)
    job = load_release_job(place.job)
    release(make_release_plan(job, commit=place.key))
    edit(place, "answers.json", "others.json")
    release(make_release_plan(load_release_job(place.job), commit=place.key.with_name("other.key")))
    edit(place, "others.json", "answers.json")
    return place.folder


def in_document(change):
    def tampered(place):
        document = place.document
        change(document)
        place.target.write_text(json.dumps(document), encoding="utf-8")

    return tampered


def in_text(old, new):
    def tampered(place):
        text = place.target.read_text(encoding="utf-8")
        assert len(re.findall(old, text)) >= 1
        place.target.write_text(re.sub(old, new, text, count=1), encoding="utf-8")

    return tampered


def of_key(change):
    def tampered(place):
        content = place.key.read_bytes()
        place.key.write_bytes(change(content))

    return tampered


def other_input(place):
    write_table(clinic(121), place.source)


def one_cell(place):
    rows = clinic(120).to_pydict()
    rows["visits"][7] += 1
    write_table(clinic(120).set_column(1, "visits", [rows["visits"]]), place.source)


def in_query(at, key, value):
    return in_document(lambda document: document["queries"][at].update({key: value}))


NINE = "queries: 8 are there, and 9 were asked"
TAMPERED = {
    "an answer": (in_query(5, "value", 12345), ["queries[5] ('visits'): value"]),
    "an answer by the last digit": (
        in_document(lambda d: d["queries"][6].update(value=d["queries"][6]["value"] * (1 + 2**-52) + 2**-60)),
        ["queries[6] ('mean cost'): value"],
    ),
    "one cell of an answer": (in_document(lambda d: d["queries"][3]["value"].reverse()), ["queries[3] ('regions'): value"]),
    "a standard error": (in_query(5, "stderr", 0.0), ["queries[5] ('visits'): stderr"]),
    "an interval": (in_query(1, "interval", [0, 1]), ["queries[1] ('in the east'): interval"]),
    "the scale of noise": (
        in_document(lambda d: d["queries"][5]["noise"][0].update(scale=1.0)),
        ["queries[5] ('visits'): noise"],
    ),
    "the epsilon of a query": (
        in_document(lambda d: d["queries"][2]["privacy"].update(epsilon=0.1)),
        ["queries[2] ('a few visits'): privacy"],
    ),
    "a bound": (in_query(5, "upper", 21), ["queries[5] ('visits'): upper"]),
    "the name of a query": (in_query(4, "name", "costs!"), ["queries[4] ('costs'): name"]),
    "a query less": (in_document(lambda d: d["queries"].pop()), [NINE]),
    "two queries in another order": (in_document(lambda d: d["queries"].insert(0, d["queries"].pop(1))), None),
    "the total privacy": (in_document(lambda d: d["privacy"].update(epsilon=0.5)), ["privacy.epsilon"]),
    "the unit": (in_document(lambda d: d.update(unit="person")), ["unit"]),
    "that it is secure": (in_document(lambda d: d.update(secure=False)), ["secure"]),
    "true as 1": (in_text('"secure": true', '"secure": 1'), ["secure"]),
    "the guarantee in words": (in_document(lambda d: d.update(guarantee="All is well.")), ["guarantee"]),
    "the run": (in_document(lambda d: d.update(run="0" * 64)), ["run"]),
    "the number of rows": (in_document(lambda d: d.update(rows=121)), ["rows"]),
    "the path of the input": (in_document(lambda d: d["input"].update(path="better.parquet")), ["input.path"]),
    "the version": (in_document(lambda d: d.update(version="9.9")), ["version"]),
    "the time": (in_document(lambda d: d.update(time="2001-01-01T00:00:00Z")), ["the seal"]),
    "what the ledger has left": (in_document(lambda d: d["ledger"]["remaining"].update(epsilon=99.0)), ["the seal"]),
    "no time": (in_document(lambda d: d.pop("time")), ["time"]),
    "no ledger": (in_document(lambda d: d.pop("ledger")), ["ledger"]),
    "a key more": (in_document(lambda d: d.update({"a\nmatch: all": 1})), ["'a\\nmatch: all'"]),
    "the commitment": (in_document(lambda d: d["commitment"].update(hmac_sha256="0" * 64)), ["commitment.hmac_sha256"]),
    "no commitment": (in_document(lambda d: d.pop("commitment")), ["commitment: there is none"]),
    "public randomness": (in_document(lambda d: d["commitment"].update(public_randomness=HEX)), ["commitment.public_randomness"]),
    "a deposit": (in_document(lambda d: d["commitment"].update(deposited=True)), ["commitment.deposited"]),
    "the code": (in_document(lambda d: d["commitment"]["code"].update(version="9.9")), ["commitment.code"]),
    "no seal": (in_document(lambda d: d["commitment"].pop("seal")), ["the seal"]),
    "a seal of another type": (in_document(lambda d: d["commitment"].update(seal=["é"])), ["the seal"]),
    "half of the document": (lambda place: place.target.write_text(place.target.read_text()[:1000]), ["the document: not complete JSON"]),
    "a key twice": (in_text('"queries"', '"queries": [], "queries"'), ["the document: not complete JSON"]),
    "not a number": (in_text('"rows": 120', '"rows": NaN'), ["the document: not complete JSON"]),
    "a list": (lambda place: place.target.write_text("[]"), ["the document: not that of a release"]),
    "another input": (other_input, ["the input: not the one of the release"]),
    "one cell of the input": (one_cell, ["the input: not the one of the release"]),
    "the key of another run": (lambda place: shutil.copy(place.key.with_name("other.key"), place.key), ["commitment.hmac_sha256"]),
    "the document of another run": (
        lambda place: shutil.copy(place.target.with_name("others.json"), place.target),
        ["commitment.hmac_sha256"],
    ),
    "a bit of the key": (of_key(lambda c: c[:20] + bytes([c[20] ^ 1]) + c[21:]), ["commitment.hmac_sha256"]),
    "a bit of the blinder": (of_key(lambda c: c[:60] + bytes([c[60] ^ 1]) + c[61:]), ["commitment.hmac_sha256"]),
    "the job in the key file": (of_key(lambda c: c.replace(b'"upper": 20', b'"upper": 10', 1)), ["commitment.hmac_sha256"]),
    "the input in the key file": (
        of_key(lambda c: re.sub(rb'("input": \[")[0-9a-f]', rb"\1g", c)),
        ["the input: not the one of the release"],
    ),
    "a release that has not begun": (of_key(lambda c: b"\n".join(c.split(b"\n")[:-2]) + b"\n"), ["the key file: no release has begun"]),
}


def test_there_are_enough_tamperings():
    assert len(TAMPERED) >= 20


@pytest.mark.parametrize("name", TAMPERED)
def test_what_is_changed_is_named_and_not_shown(name, released, tmp_path, capsys):
    """Paths are a part of the run, so the release is changed where it is, and mended."""
    place = Kept(released, capsys)
    kept = {path: (path.read_bytes(), path.stat()) for path in (place.target, place.key, place.source)}
    change, wanted = TAMPERED[name]
    try:
        change(place)
        done = place.dpcore("verify", place.target, "--key", place.key, "--table")
    finally:
        for path, (content, _) in kept.items():
            path.write_bytes(content)
    assert done.code == 1, done.err
    first, *found = [line.strip() for line in done.out.splitlines()]
    assert first == f"mismatch: {place.target}"
    assert found
    if wanted is not None:
        assert len(found) == len(wanted)
        assert all(one.startswith(other) for one, other in zip(found, wanted, strict=True))
    # No digit of any answer, on either side: names have none of their own but positions.
    assert not re.search(r"\d{3}", done.out.replace(str(place.target), "").replace("sha256", ""))


def test_a_table_that_was_changed(place):
    synthetic_job(place)
    assert place.commit().code == 0
    out = place.target.parent
    kept = {path: path.read_bytes() for path in out.iterdir()}
    made = pq.read_table(out / "parquet.parquet")
    changes = {
        "parquet": lambda path: pq.write_table(made.set_column(2, "visits", [made.column(2).take(list(range(119, -1, -1)))]), path),
        "csv": lambda path: path.write_bytes(path.read_bytes().replace(b"north", b"south", 1)),
        "arrow": lambda path: path.write_bytes(path.read_bytes()[:-300]),
    }
    for place_of_query, (ending, change) in enumerate(changes.items()):
        path = out / f"{ending}.{ending}"
        change(path)
        assert place.verdict() == [f"the table of queries[{place_of_query}] ('made {ending}')"]
        path.write_bytes(kept[path])
    sidecar = out / "csv.csv.dpcore.json"
    sidecar.write_text(sidecar.read_text().replace('"epsilon": 1.0', '"epsilon": 0.1'))
    assert place.verdict() == ["the table of queries[1] ('made csv')"]
    sidecar.write_bytes(kept[sidecar])
    # The same rows as other bytes, as another version of Arrow may write them.
    pq.write_table(made, out / "parquet.parquet", compression="snappy")
    assert place.verdict() == []
    pq.write_table(made.replace_schema_metadata({b"dpcore": b"{}"}), out / "parquet.parquet")
    assert place.verdict() == ["the table of queries[0] ('made parquet')"]


def test_a_joined_table_that_was_changed(place):
    every_job(place, "joined", "one")
    assert place.commit().code == 0
    joined = place.folder / "others.parquet"
    rows = pq.read_table(joined)
    pq.write_table(rows.slice(1), joined)
    assert place.verdict() == ["a table that the job joins: not the one of the release, so nothing was computed from it"]
    elsewhere = place.folder / "copy.parquet"
    pq.write_table(rows, elsewhere)
    assert place.verdict("--file", f"{joined}={elsewhere}") == []


def test_a_public_file_that_was_changed(place):
    daily_job(place)
    assert place.commit().code == 0
    (place.folder / "regions.txt").write_text("region\nr0\nr2\nr1\n", encoding="utf-8")
    assert place.verdict() == [f"{str(place.folder / 'regions.txt')!r}, which the job names: not the file of the release"]
    (place.folder / "regions.txt").unlink()
    assert place.verify().code == 4


def test_other_code_cannot_tell(place, monkeypatch):
    small_job(place)
    assert place.commit().code == 0
    monkeypatch.setattr(verification, "code", lambda: {"version": "9.9", "stream_version": 4, "sha256": "f" * 64})
    done = place.verify()
    assert (done.code, done.out) == (2, "")
    assert "cannot verify: the release was made by dpcore" in done.err
    assert "this is dpcore 9.9 (stream 4, code ffffffffffff)" in done.err


def test_other_libraries_are_named_beside_a_mismatch(place, monkeypatch):
    small_job(place)
    assert place.commit().code == 0
    now = verification.libraries()
    monkeypatch.setattr(verification, "libraries", lambda: now | {"duckdb": "9.9"})
    assert place.verdict() == []
    document = place.document
    document["unit"] = "person"
    place.target.write_text(json.dumps(document), encoding="utf-8")
    done = place.dpcore("verify", place.target, "--key", place.key, "--table")
    assert f"note: the release ran with duckdb {now['duckdb']}, and this is duckdb 9.9" in done.out


def test_nothing_is_computed_from_another_input(released, monkeypatch, capsys):
    """Whether answers differ would be a bit about the other input."""
    place = Kept(released, capsys)
    content = place.source.read_bytes()
    monkeypatch.setattr(verification, "measured", lambda *_: pytest.fail("a row was read"))
    try:
        one_cell(place)
        assert place.verdict() == ["the input: not the one of the release, so nothing was computed from it"]
    finally:
        place.source.write_bytes(content)


# In Python


def test_in_python(place):
    small_job(place)
    job = load_release_job(place.job)
    plan = make_release_plan(job, commit=place.key)
    assert not place.key.exists()  # until it runs
    release(plan)
    found = verify(place.target, place.key)
    assert (found.matches, found.mismatches, found.queries, found.not_derived) == (True, (), 9, ("time",))
    assert found.commitment == place.document["commitment"]["hmac_sha256"] == plan.commitment.digest
    with pytest.raises(ParameterTypeError, match="key must be a str or Path"):
        verify(place.target, b"x")
    with pytest.raises(StorageError, match="no such file"):
        verify(place.target, place.folder / "none.key")
    with pytest.raises(StorageError, match=r"cannot read .*No such file"):
        verify(place.target.with_name("none.json"), place.key)


def test_a_deposit(place):
    small_job(place)
    content = place.source.read_bytes()
    place.source.unlink()  # before any data are read
    done = place.commit("--commit-only")
    assert done.code == 0, done.err
    said = json.loads(done.out)
    assert said.keys() == {"commitment", "run", "code"}
    assert "Deposit the commitment" in done.err
    assert not place.target.exists()
    place.source.write_bytes(content)
    assert "--public-randomness is required" in place.commit().err
    done = place.commit("--public-randomness", HEX)
    assert done.code == 0, done.err
    document = place.document
    assert document["commitment"]["hmac_sha256"] == said["commitment"]
    assert document["commitment"]["deposited"] is True
    assert document["commitment"]["public_randomness"] == HEX
    assert document["run"] == said["run"]
    assert place.verdict() == []
    document["commitment"]["public_randomness"] = HEX[::-1]
    place.target.write_text(json.dumps(document), encoding="utf-8")
    assert place.verdict() == ["commitment.public_randomness"]


def test_the_noise_of_a_deposit_follows_from_both(place):
    """Of one key file, copied before its run: other public randomness makes other answers."""
    small_job(place)
    deposit(load_release_job(place.job), place.key)
    before = place.key.read_bytes()
    answers = []
    for digits in (HEX, HEX, HEX[::-1]):
        place.key.write_bytes(before)
        assert place.commit("--public-randomness", digits).code == 0
        answers.append([query["value"] for query in place.document["queries"]])
        place.target.unlink()
    assert answers[0] == answers[1]
    # a whole number may come out the same twice
    assert sum(one != other for one, other in zip(answers[0], answers[2], strict=True)) > len(answers[0]) // 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--commit-only"], "--commit-only is for a release with --commit"),
        (["--public-randomness", HEX], "--public-randomness is for a release with --commit"),
        (["--commit", "KEY", "--commit-only", "--dry-run"], "cannot be combined with --dry-run"),
        (["--commit", "KEY", "--commit-only", "--overwrite"], "cannot be combined with --overwrite"),
        (["--commit", "KEY", "--commit-only", "--public-randomness", HEX], "cannot be combined with --public-randomness"),
        (["--commit", "KEY", "--commit-only", "--report", "DIR"], "cannot be combined with --report"),
        (["--commit", "KEY", "--overwrite"], "--overwrite another one"),
        (["--commit", "KEY", "--engine", "spark"], "--commit is for the local engine"),
        (["--commit", "KEY", "--public-randomness", HEX], "was deposited before: there is no key file"),
        (["--commit", "KEY", "--public-randomness", "12"], "must have 32 to 2048 hexadecimal digits"),
        (["--commit", "KEY", "--public-randomness", "g" * 32], "must have 32 to 2048 hexadecimal digits"),
        (["--commit", "s3://bucket/key"], "addresses are not supported"),
        (["--commit", "OUT/key"], "a folder of outputs is shown to others"),
    ],
)
def test_options_that_are_refused(place, options, words):
    small_job(place)
    places = {"KEY": str(place.key), "DIR": str(place.folder / "pages"), "OUT/key": str(place.target.parent / "key")}
    done = place.release(*(places.get(option, option) for option in options))
    assert done.code == 2, done.err
    assert words in done.err
    assert not place.key.exists()
    assert not place.target.exists()


def test_jobs_that_cannot_be_replayed(place):
    small_job(place)
    text = place.job.read_text(encoding="utf-8")
    place.write_release()  # with a test key
    assert "[testing] gives one" in place.commit().err
    state = place.folder / "state" / "n.state"
    place.write_release({"n": {"kind": "running_total", "steps": 3, "step": 1, "state": str(state)}}, key=None)
    for options in ((), ("--commit-only",)):
        done = place.commit(*options)
        assert done.code == 2
        assert "a running_total goes on from the noise of the steps before it" in done.err
    place.job.write_text(text, encoding="utf-8")
    job = load_release_job(place.job)
    changed = job.model_copy(update={"query": job.query[:2]})
    with pytest.raises(JobError, match="this one was changed afterwards"):
        make_release_plan(changed, commit=place.key)
    assert not place.key.exists()


def test_a_key_file_inside_the_input_is_refused(place):
    folder_job(place)
    place.key = place.source / "release.parquet"
    for options in ((), ("--commit-only",)):
        done = place.commit(*options)
        assert done.code == 2
        assert "is inside the input" in done.err


def test_a_dry_run_makes_no_key(place):
    small_job(place)
    done = place.commit("--dry-run")
    assert done.code == 0, done.err
    assert not place.key.exists()


def test_a_pipe_is_refused_as_input(place):
    import os

    small_job(place)
    os.mkfifo(place.folder / "pipe.csv")
    done = place.commit("--input", place.folder / "pipe.csv")
    assert done.code == 2
    assert "a pipe" in done.err
