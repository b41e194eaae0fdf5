"""What `dpcore rehearse` does."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from dpcore._terminal import make_table, print_table, wants_json
from dpcore.errors import BudgetError, JobError
from dpcore.jobs.commands.progress import shown_on
from dpcore.jobs.commands.words import write_reports
from dpcore.jobs.release_job import load_release_job
from dpcore.jobs.settings import Settings
from dpcore.pages.numbers import json_text, plain_name
from dpcore.query.rehearsal import (
    NOT_PUBLIC,
    Setting,
    Sweep,
    check_rehearsable,
    pages_of,
    public_tables,
    rehearsed,
)
from dpcore.query.rehearsal import rehearsal_words as words
from dpcore.tables.local_paths import check_local
from dpcore.tables.near_names import suggestion

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from rich.table import Table

    from dpcore.query.request import ReleaseJob

MOST_VALUES = 20
"""Values of a sweep."""
SHOWN = 40
"""Numbers of a query that a terminal shows; the page and the JSON have all."""
EXAMPLE = "--sweep upper=50000,100000,200000 or --sweep NAME.upper=50000,100000"


def run(
    job: Path,
    on: Sequence[str],
    given: Sequence[str],
    swept: str | None,
    folder: Path | None,
    *,
    public: bool,
    runs: int,
    threads: int | None,
    as_json: bool | None,
) -> None:
    """Rehearse a job; the entry point turns errors into exit codes."""
    if not public:
        raise JobError(NOT_PUBLIC)
    if folder is not None:
        check_local("--report", str(folder))
    loaded = load_release_job(job, settings=_settings(given))
    check_rehearsable(loaded)
    tables = public_tables(loaded, on, are_public=public)
    sweep, settings = None, [Setting(loaded)]
    if swept is not None:
        sweep, key, values = sweep_of(swept, loaded)
        settings = [Setting(_with(job, given, key, value), value) for value in values]
    pages = None if folder is None else pages_of(folder, job)
    with shown_on(sys.stderr, count_rows=False) as progress:
        report = rehearsed(settings, sweep, tables, runs=runs, progress=progress, threads=threads)
    if pages is not None:
        write_reports(pages, report)
    if wants_json(as_json):
        click.echo(json_text(report))
        return
    print_table(*parts_of(report))


def _settings(given: Sequence[str]) -> Settings:
    """Keys of the job; not those that would name another table as the one that the job protects."""
    settings = Settings.read(given)
    for key, value in settings.keys:
        if key.partition(".")[0] in {"input", "join"}:
            raise JobError(f"--set {key}={value}: a rehearsal reads the tables of --on in place of the job's own; leave it out")
    return settings


def _with(job: Path, given: Sequence[str], key: str, value: str) -> ReleaseJob:
    try:
        return load_release_job(job, settings=_settings([*given, f"{key}={value}"]))
    except BudgetError as error:
        raise BudgetError(
            f"with {value} in --sweep: {error}. A rehearsal spends nothing, so allow more: --set privacy.max_epsilon=1000"
        ) from None
    except JobError as error:
        raise JobError(f"with {value} in --sweep:\n{error}") from None


def sweep_of(text: str, job: ReleaseJob) -> tuple[Sweep, str, list[str]]:
    """What is swept, the key of the job that `--set` would take, and the values."""
    typed, equals, rest = text.partition("=")
    key, values = typed.strip(), values_of(rest)
    if not equals or not key or not all(values):
        raise JobError(f"--sweep must be KEY=VALUE,VALUE,… such as {EXAMPLE}, got {text!r}")
    if not 2 <= len(values) <= MOST_VALUES or len(set(values)) < len(values):
        raise JobError(f"--sweep {key}: must have from 2 to {MOST_VALUES} different values, got {rest!r}")
    names = [query.name for query in job.query]
    query, place = _place_of(key, job, names)
    return Sweep(key, query), place, values


def _place_of(key: str, job: ReleaseJob, names: list[str]) -> tuple[str | None, str]:
    """The query whose key it is, and the whole key; None for one of the job."""
    named, dot, own = key.rpartition(".")
    if dot and named in names:
        return named, _key_of(named, own)
    first = key.partition(".")[0]
    if dot and first in type(job).model_fields and first != "query":
        return None, key
    if dot:
        raise JobError(
            f"--sweep {key}: no query is named {named!r}; the queries are {', '.join(map(repr, names[:20]))}.{suggestion(named, names)}"
        )
    if key in type(job.privacy).model_fields:
        return None, f"privacy.{key}"
    setting = [query.name for query in job.query if key in query.model_fields_set]
    having = setting or [query.name for query in job.query if key in type(query).model_fields]
    if len(having) == 1:
        return having[0], _key_of(having[0], key)
    if having:
        raise JobError(
            f"--sweep {key}: {len(having)} queries have this key; write one of {', '.join(f'{name}.{key}' for name in having[:20])}"
        )
    known = sorted({each for query in job.query for each in type(query).model_fields} | set(type(job.privacy).model_fields))
    raise JobError(f"--sweep {key}: no query of the job has this key, and [privacy] has not.{suggestion(key, known)}")


def _key_of(name: str, key: str) -> str:
    """A key of a query as `--set` takes it."""
    return f"query.{json.dumps(name, ensure_ascii=False)}.{key}"


def values_of(text: str) -> list[str]:
    """The values of a sweep: commas inside of lists, tables and quotes belong to them."""
    found, depth, quote = [""], 0, ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        depth += (letter in "[{") - (letter in "]}") if not quote else 0
        if letter == "," and not depth and not quote:
            found.append("")
        else:
            found[-1] += letter
    return [value.strip() for value in found]


def parts_of(report: Mapping[str, Any]) -> list[Table | str]:
    """What a terminal shows."""
    parts: list[Table | str] = []
    for setting in report["settings"]:
        if report["sweep"] is not None:
            parts += [f"{report['sweep']['key']} = {setting['value']}", ""]
        for query in setting["queries"]:
            if report["sweep"] is not None and report["sweep"]["query"] not in {None, query["name"]}:
                continue
            parts += _parts_of_query(query)
    if report["sweep"] is not None:
        parts += [make_table(*words.compared(report)), ""]
    return [*parts, "\n".join(words.typed_lines(report) + words.NOTES)]


def _parts_of_query(query: Mapping[str, Any]) -> list[Table | str]:
    parts: list[Table | str] = []
    name = plain_name(query["name"])
    if query["labels"] is not None:
        heads = words.LABEL_HEADINGS
        parts.append(make_table((name, *heads), words.label_lines(query)[:SHOWN], right=heads[2:]))
    elif query["numbers"]:
        parts.append(make_table((name, *words.HEADINGS), words.lines(query)[:SHOWN], right=words.HEADINGS))
    many = max(len(query["numbers"]), len(query["labels"] or ())) - SHOWN
    more = [f"{many:,} more are in --json and --report."] if many > 0 else []
    why = [] if query["why"] is None else [f"No true answer: {query['why']}."]
    return [*parts, "\n".join([words.lost_in_words(query), *why, *more, ""])]
