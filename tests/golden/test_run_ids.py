"""Ids of runs never change: those of the jobs beside this file are what dpcore 0.1 gave them, whatever the classes are called now."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import os
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pydantic")

from pydantic import BaseModel, create_model

from dpcore.jobs.privatize_job import Job, load_job
from dpcore.jobs.release_job import load_release_job, parse_release_job
from dpcore.jobs.settings import Settings
from dpcore.query.group_fields import Combinations, GroupColumn
from dpcore.query.kinds import QUERY_SECTIONS
from dpcore.query.kinds.synthetic import SyntheticColumn
from dpcore.query.request import ReleaseJob
from dpcore.query.units_of_answers import ColumnLabel
from dpcore.tables import run_ids as ids
from dpcore.tables.mistakes import sections_of
from dpcore.tables.randomise_fields import COLUMN_SECTIONS
from dpcore.tables.run_ids import run_ids
from support import every_query

pytestmark = pytest.mark.skipif(os.name == "nt", reason="an id holds absolute paths, and these are of POSIX")

FOLDER = Path(__file__).parent
JOBS = {path.stem: path for path in sorted((FOLDER / "jobs").glob("*.toml"))}
FROZEN: dict[str, str] = json.loads((FOLDER / "run_ids.json").read_text(encoding="utf-8"))
LATER = (
    "later-kinds",
    "later-nested",
    "later-per-unit",
    "later-joins",
    "later-projective",
    "later-skip",
    "later-synthetic-steps",
    *every_query.LATER_JOBS,
)
"""Jobs that 0.1 did not know."""
SETTINGS = {"example-daily": ("REGION=north", "DATE=2026-11-23")}
AnyJob = Job | ReleaseJob


@pytest.fixture(autouse=True)
def _files_of_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs name their files relative to the working directory."""
    monkeypatch.chdir(FOLDER / "jobs")


def job_named(name: str) -> AnyJob:
    if name in every_query.LATER_JOBS:
        return parse_release_job(every_query.LATER_JOBS[name])
    load: Callable[..., AnyJob] = load_release_job if "query" in tomllib.loads(JOBS[name].read_text(encoding="utf-8")) else load_job
    return load(JOBS[name], settings=Settings.read(SETTINGS.get(name, ())))


def test_at_least_forty_jobs_have_a_frozen_id():
    assert len(FROZEN) >= 40
    assert FROZEN.keys() == {*JOBS, *every_query.LATER_JOBS}, "python -m support.corpus --add"
    assert len(set(FROZEN.values())) == len(FROZEN)


@pytest.mark.parametrize("name", FROZEN)
def test_the_id_is_the_frozen_one(name):
    assert run_ids(job_named(name))[-1] == FROZEN[name]


# The jobs use what there is.


def sections_in(value: Any) -> Iterator[BaseModel]:
    """All tables of a job."""
    if isinstance(value, BaseModel):
        yield value
        value = [getattr(value, key) for key in type(value).model_fields]
    if isinstance(value, dict):
        value = list(value.values())
    for each in value if isinstance(value, list | tuple) else ():
        yield from sections_in(each)


def keys_of_0_1() -> set[str]:
    """Every key of every table, with the kind of the table where it has one."""
    parts = {"groups column": GroupColumn, "combinations": Combinations, "label": ColumnLabel, "synthetic column": SyntheticColumn}
    models = {f"{job.__name__} {table}": model for job in (Job, ReleaseJob) for table, model in sections_of(job).items()}
    models |= {f"query {kind}": model for kind, model in QUERY_SECTIONS.items()} | parts
    models |= {f"column {mechanism}": model for mechanism, model in COLUMN_SECTIONS.items()}
    return {
        f"{word}.{key}" for word, model in models.items() if word not in {"Job column", "ReleaseJob query"} for key in model.model_fields
    }


def keys_used(jobs: list[AnyJob]) -> set[str]:
    named = {GroupColumn: "groups column", Combinations: "combinations", ColumnLabel: "label", SyntheticColumn: "synthetic column"}
    found = set()
    for job in jobs:
        for table, section in [("", job), *((table, getattr(job, table)) for table in type(job).model_fields)]:
            for each in section if isinstance(section, list) else [section]:
                if isinstance(each, BaseModel):
                    found |= {f"{type(job).__name__} {table}.{key}" for key in each.model_fields_set}
        for section in sections_in(job):
            word = next(
                (f"{tag} {getattr(section, key)}" for tag, key in (("query", "kind"), ("column", "mechanism")) if hasattr(section, key)), ""
            )
            found |= {f"{word or named.get(type(section), '')}.{key}" for key in section.model_fields_set}
    return found


def test_each_key_of_each_table_is_in_a_frozen_job():
    """Of a kind that is added later its examples are frozen. What all kinds of a family share is used with one of them at least."""
    used = keys_used([job_named(name) for name in FROZEN])
    shared = {"where", "weight", "confidence", "delta", "group_by", "groups", "missing", "epsilon"}
    used_of_any = {key.rpartition(".")[2] for key in used}
    missing = {key for key in keys_of_0_1() - used if key.rpartition(".")[2] not in shared & used_of_any}
    assert missing == set()


# What must not change an id: names of classes, order of fields, defaults that were written down, new keys that are not used.


def rebuilt(value: Any, default: Any = None) -> Any:
    """A job whose tables are of classes with other names, with fields in the reverse order and two keys more that are not used."""
    if isinstance(value, BaseModel):
        old = type(value)
        fields: dict[str, Any] = dict.fromkeys(reversed(["zz_new", "a_new", *old.model_fields]), (Any, None))
        new = create_model("Renamed", **fields)
        new.WORD = getattr(old, "WORD", None)
        return new.model_construct(**{key: rebuilt(getattr(value, key), default) for key in old.model_fields}, zz_new=default, a_new=())
    if isinstance(value, dict):
        return {key: rebuilt(each, default) for key, each in reversed(value.items())}
    if isinstance(value, list | tuple):
        return type(value)(rebuilt(each, default) for each in value)
    return value


@pytest.mark.parametrize("name", JOBS)
def test_names_of_classes_order_of_fields_and_unused_keys_do_not_enter(name):
    assert run_ids(rebuilt(job_named(name))) == run_ids(job_named(name))


def test_a_new_key_whose_default_is_a_number_is_found():
    """It would change the id of every job of 0.1; the frozen ids do not let it in."""
    assert run_ids(rebuilt(job_named("moments"), 0.95))[-1] != FROZEN["moments"]
    assert run_ids(rebuilt(job_named("moments"), False))[-1] == FROZEN["moments"]


def test_a_default_that_is_written_down_is_the_same_job():
    text = JOBS["moments"].read_text(encoding="utf-8")
    said = text.replace('kind = "sum"', 'kind = "sum"\nconfidence = 0.95\ndelta = 0').replace(
        "max_epsilon = 20", 'max_epsilon = 20.0\nunit = "row"'
    )
    parse = ReleaseJob.model_validate
    assert run_ids(parse(tomllib.loads(said))) == run_ids(parse(tomllib.loads(text)))


def test_the_order_of_keys_in_a_job_does_not_enter():
    document = tomllib.loads(JOBS["groups-of-columns"].read_text(encoding="utf-8"))
    turned = {key: document[key] for key in reversed(document)}
    turned["query"] = [{key: query[key] for key in reversed(query)} for query in document["query"]]
    assert run_ids(ReleaseJob.model_validate(turned)) == run_ids(ReleaseJob.model_validate(document))


def test_everything_that_a_job_says_enters():
    """The other way round: one key changed gives another id."""
    document = tomllib.loads(JOBS["moments"].read_text(encoding="utf-8"))
    seen = {run_ids(ReleaseJob.model_validate(document))}
    for position, query in enumerate(document["query"]):
        for key, value in (("epsilon", 7.5), ("confidence", 0.5), ("name", "another"), ("where", "cost > 0"), ("group_by", "g")):
            changed = {key: value} | ({"groups": ["a"]} if key == "group_by" else {})
            queries = [*document["query"][:position], query | changed, *document["query"][position + 1 :]]
            seen.add(run_ids(ReleaseJob.model_validate(document | {"query": queries})))
    for table, key, value in (
        ("input", "dataset", "d"),
        ("input", "path", "/srv/b.parquet"),
        ("output", "path", "/srv/b.json"),
        ("privacy", "max_epsilon", 21),
    ):
        seen.add(run_ids(ReleaseJob.model_validate(document | {table: document[table] | {key: value}})))
    seen.add(run_ids(ReleaseJob.model_validate(document | {"ledger": {"path": "/srv/l"}})))
    assert len(seen) == 1 + 5 * len(document["query"]) + 5


def test_files_that_a_job_names_enter_by_their_content(tmp_path, monkeypatch):
    for name in (path.name for path in (FOLDER / "jobs" / "files").iterdir()):
        (tmp_path / "files").mkdir(exist_ok=True)
        (tmp_path / "files" / name).write_bytes((FOLDER / "jobs" / "files" / name).read_bytes())
    monkeypatch.chdir(tmp_path)
    assert run_ids(job_named("histogram"))[-1] == FROZEN["histogram"]
    (tmp_path / "files" / "towns.csv").write_text("town\nBern\nChur\n", encoding="utf-8")
    assert run_ids(job_named("histogram"))[-1] != FROZEN["histogram"]


def test_paths_enter_as_absolute_ones(tmp_path, monkeypatch):
    document = tomllib.loads(JOBS["ledger"].read_text(encoding="utf-8"))
    monkeypatch.chdir(tmp_path)
    tables = {table: document[table] | {"path": Path(document[table]["path"]).name} for table in ("input", "output", "ledger")}
    whole = {table: document[table] | {"path": str(tmp_path / tables[table]["path"])} for table in tables}
    assert run_ids(ReleaseJob.model_validate(document | tables)) == run_ids(ReleaseJob.model_validate(document | whole))
    assert run_ids(ReleaseJob.model_validate(document | tables))[-1] != FROZEN["ledger"]


def test_a_value_without_a_form_that_stays_the_same_is_a_mistake_of_ours():
    with pytest.raises(AssertionError, match="no form that stays the same"):
        ids.plain({"a": [1 + 2j]}, "query.groups")
    assert ids.plain(dt.date(2024, 2, 29), "query.groups") == "datetime.date(2024, 2, 29)"


# The stream


def test_a_job_has_the_ids_of_all_streams_since_0_1(monkeypatch):
    monkeypatch.setattr(ids, "STREAM_VERSION", 2)
    (first,) = run_ids(job_named("moments"))
    monkeypatch.setattr(ids, "STREAM_VERSION", 4)
    newest, between, last = run_ids(job_named("moments"))
    assert last == first == FROZEN["moments"]
    assert len({newest, between, last}) == 3


# Twins


def _without_steps(query: dict[str, Any]) -> None:
    """Remove a key of synthetic columns that came later, where it is not used."""
    for column in query["columns"] if query["kind"] == "synthetic" else ():
        if column["step"] is None:
            del column["step"]


def id_of_class_names(job: Any) -> str:
    """As 0.1 computed it: from all fields of all classes, and from the name of one."""

    def settings_of(value: Any) -> Any:
        if isinstance(value, BaseModel):
            return {name: settings_of(getattr(value, name)) for name in type(value).model_fields}
        if isinstance(value, dict):
            return {str(key): settings_of(each) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return [settings_of(each) for each in value]
        return value if value is None or isinstance(value, str | int | float) else repr(value)

    settings = settings_of(job)
    if settings.get("output", {}).get("shards", 0) is None:
        del settings["output"]["shards"]
    for section in (settings, *settings.get("query", [])):
        for key in ("where", "derive", "lookup", "max_sum_per_unit", "bounds", "bounds_epsilon", "consistent", "per_unit", "join"):
            if not section.get(key, True):
                del section[key]
    later = {"accounting": "basic", "unit_name": None}
    settings["privacy"] = {key: each for key, each in settings["privacy"].items() if key not in later or each != later[key]}
    if not settings.get("column", True):
        del settings["column"]
    for query in settings.get("query", ()):
        del query["weight" if query.get("weight") is None else "epsilon"]
        _without_steps(query)
    files = [hashlib.sha256(Path(path).read_bytes()).hexdigest() for path in ids.declared_files(settings)]
    known = {"kind": type(job).__name__, "stream_version": 2, "job": settings, "files": files}
    return hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()


@pytest.mark.parametrize("name", [name for name in JOBS if name not in LATER])
def test_the_old_way_gave_the_frozen_ids_and_would_lose_them(name):
    """It agrees on the jobs of 0.1, in which it was the definition, and is rejected by what the tests above ask for."""
    job = job_named(name)
    assert id_of_class_names(job) == FROZEN[name]
    assert id_of_class_names(rebuilt(job)) != FROZEN[name]
