"""The reference lists every option of every command, and every key of every job file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

click = pytest.importorskip("click")
pytest.importorskip("pydantic")

from dpcore.cli import command_group  # noqa: E402
from dpcore.jobs.privatize_job import Job  # noqa: E402
from dpcore.query.kinds import QUERY_SECTIONS  # noqa: E402
from dpcore.query.kinds.synthetic import SyntheticColumn  # noqa: E402
from dpcore.query.request import ReleaseJob  # noqa: E402
from dpcore.tables.mistakes import sections_of  # noqa: E402
from dpcore.tables.randomise_fields import COLUMN_SECTIONS  # noqa: E402

pytestmark = pytest.mark.source_tree

DOCS = Path(__file__).resolve().parents[2] / "docs"
WHOLE = "version"


def options_of(command, name="dpcore"):
    """Long options of each command that has some, its subcommands included."""
    commands = getattr(command, "commands", {})
    found = {name: {word for option in command.params for word in (*option.opts, *option.secondary_opts) if word.startswith("--")}}
    for subcommand in commands.values():
        found |= options_of(subcommand, f"{name} {subcommand.name}")
    return found


def documented(text):
    """Options in the tables below each heading that names a command."""
    parts = re.split(r"^#+ `(dpcore[a-z ]*?)(?: [A-Z]+)?`$", text, flags=re.MULTILINE)[1:]
    sections = dict(zip(parts[::2], parts[1::2], strict=True))
    return {
        name: {word for row in re.findall(r"^\| (`--.*?) \|", body, re.MULTILINE) for word in re.findall(r"`(--[a-z-]+)", row)}
        for name, body in sections.items()
    }


def test_every_option_is_documented():
    found = options_of(command_group())
    found.pop("dpcore")  # --version
    assert documented((DOCS / "reference" / "cli.md").read_text(encoding="utf-8")) == found


def test_an_option_that_is_not_documented_is_found():
    assert documented("## `dpcore a FILE`\n| `--b`, `--c` | text with `--d` |\n### `dpcore a b`\n") == {
        "dpcore a": {"--b", "--c"},
        "dpcore a b": set(),
    }


def keys_of_jobs():
    """Every key, as the tables of the reference write it."""
    keys = {key for model in (Job, ReleaseJob) for key, field in model.model_fields.items() if key not in sections_of(model)}
    for model in (Job, ReleaseJob):
        keys |= {f"{table}.{key}" for table, section in sections_of(model).items() if table for key in section.model_fields}
    for table, models in (("column", COLUMN_SECTIONS), ("query", QUERY_SECTIONS)):
        keys |= {f"{table}.{key}" for model in models.values() for key in model.model_fields}
    return (keys | {f"query.columns.{key}" for key in SyntheticColumn.model_fields}) - {"column", "query"}


def documented_keys(text):
    return {key for row in re.findall(r"^\| (`[a-z].*?) \|", text, re.MULTILINE) for key in re.findall(r"`([a-z_.]+)`", row)}


def test_every_key_of_a_job_is_documented():
    found = documented_keys("".join(page.read_text(encoding="utf-8") for page in (DOCS / "batch.md", *DOCS.glob("job-*.md"))))
    assert keys_of_jobs() - found == set()
    known = {key for key in found if key.partition(".")[0] in {"input", "output", "privacy", "ledger", "testing", "column", "query"}}
    assert {key for key in known if "." in key} - keys_of_jobs() == set()


def documented_kinds(text):
    """The kinds in the table that says what each needs."""
    table = text[text.index("| kind | needs | answer |") :].partition("\n\n")[0]
    return {kind for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE) for kind in re.findall(r"`(\w+)`", row)}


def test_every_kind_of_query_is_documented():
    text = (DOCS / "job-release.md").read_text(encoding="utf-8")
    assert documented_kinds(text) == set(QUERY_SECTIONS)
    assert documented_kinds(text.replace("| `mode` |", "| `modus` |")) != set(QUERY_SECTIONS)
