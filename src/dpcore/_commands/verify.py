"""`dpcore verify`."""

from __future__ import annotations

import click

from dpcore._commands import SHORT
from dpcore._commands.options import WithoutPandas, threads_option
from dpcore._disk.signals import Deferred
from dpcore._terminal import form_option

HELP = """Make a release again from its key file and its input, and compare it with DOCUMENT, the JSON that it wrote.

\b
    dpcore release visits.toml --commit keys/visits.key
    dpcore verify out/visits.json --key keys/visits.key
    dpcore verify visits.json --key visits.key --input "copy/visits.parquet"

It prints "match", or "mismatch" with the names of what differs. It never prints a value: the same noise on other data gives exact
differences. If the input is not, byte by byte, the one of the release, nothing is computed from it.

Everything is derived again except the time and the state of the ledger; of these it says whether they were changed after the release.

What a match shows: the answers follow from the key that was committed to, from the job and from the input, by this version of dpcore.
What it does not show: that the data are true, or were not chosen; and that several keys were not tried until one pleased, unless the
commitment was deposited before the run and public randomness came after it (release --commit-only, then --public-randomness).

The key file is as secret as the data: with the answers it gives the exact statistics. It must have the rights 0600. Who may verify
learns whether a guess of the whole input is right, so verify only for people who may see the data. Destroying every copy of the key
file ends verification for good; the release stays as private as any other.

Relative paths of the job are those of the working directory, as for the release.

\b
Exit codes: 0 match; 1 mismatch; 2 no verdict: another version of dpcore, no key file, or one that others may read;
4 the system (unreadable file); 130, 143 interrupted. A bug in dpcore exits with 1, too, and says so.
"""


@click.command("verify", help=HELP, short_help=SHORT["verify"])
@click.argument("document")
@click.option("--key", required=True, metavar="KEYFILE", help="The key file that release --commit has made.")
@click.option("--input", "source", metavar="PATH", help="Where the input is now. Default: the job's input.path.")
@click.option(
    "--file",
    "files",
    multiple=True,
    metavar="JOBPATH=PATH",
    help="Where a table is now that the job joins, or that it wrote (kind synthetic), by the path that the job has. May be repeated.",
)
@form_option
@threads_option("compute")
def command(*, document: str, key: str, source: str | None, files: tuple[str, ...], threads: int | None, as_json: bool | None) -> int:
    """Verify and print; the entry point turns errors into exit codes."""
    with Deferred():
        from dpcore.jobs.commands.verify import run

        WithoutPandas().settle()
    return run(document, key, source, files, threads, as_json=as_json)
