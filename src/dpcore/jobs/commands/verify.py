"""What `dpcore verify` does."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click
import pyarrow as pa

from dpcore._terminal import echo, wants_json
from dpcore.errors import JobError
from dpcore.jobs.commands.progress import shown_on
from dpcore.pages.numbers import json_text
from dpcore.query.verification import verify

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpcore.query.verification import Verification

MISMATCH = 1
"""Exit code if something differs."""


def run(document: str, key: str, source: str | None, files: Sequence[str], threads: int | None, *, as_json: bool | None) -> int:
    """Verify and print; the exit code says whether everything matches."""
    if threads is not None:
        pa.set_cpu_count(threads)
    with shown_on(sys.stderr, count_rows=False) as progress:
        found = verify(document, key, input=source, files=_moved(files), threads=threads, progress=progress)
    if wants_json(as_json):
        click.echo(json_text(found.as_document()))
    else:
        _show(found)
    return 0 if found.matches else MISMATCH


def _moved(given: Sequence[str]) -> dict[str, str]:
    """Where tables are now, by the paths of the job."""
    found: dict[str, str] = {}
    for text in given:
        name, equals, path = text.partition("=")
        if not (name and equals and path):
            raise JobError(f"--file {text!r} must be JOBPATH=PATH: the path that the job has for a table, and where that is now")
        if found.setdefault(name, path) != path:
            raise JobError(f"--file {name!r} is given twice, with two paths")
    return found


def _show(found: Verification) -> None:
    if found.matches:
        answers = f"all {found.queries} answers" if found.queries != 1 else "the answer"
        echo(f"match: {answers} of {found.document} follow{'s' if found.queries == 1 else ''} from the key file and the input")
        if found.not_derived:
            echo(f"unchanged since the release, and not derived: {', '.join(found.not_derived)}")
        return
    echo(f"mismatch: {found.document}")
    for name in found.mismatches:
        echo(f"    {name}")
    for name, (then, now) in (found.libraries or {}).items():
        echo(f"    note: the release ran with {name} {then}, and this is {name} {now}")
