"""Arguments and options that several commands have in common."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpcore._terminal import form_option

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Command = Callable[..., Any]

MAX_THREADS = 4096
CURATOR = (
    "Let messages say which rows are at fault and which columns a CSV has. This is outside the guarantee: use it only if you may see the "
    "input. Not for jobs with a ledger."
)

SET = (
    "Set a key of the job, such as privacy.max_epsilon=2 or query[0].epsilon=0.5, or a word of its values, such as REGION=north for "
    "${REGION}. ${DATE} is the day in UTC. May be repeated."
)


class WithoutPandas:
    """Tells pyarrow once that pandas is absent, where the process is that of a command, in which nobody has a frame of pandas.

    Otherwise pyarrow imports pandas, if it is installed, with the first array that it makes of a list, to see whether the list is a frame.
    """

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> None:
        """Refuse pandas."""
        if name == "pandas":
            raise ModuleNotFoundError(name)

    def settle(self) -> None:
        """Let pyarrow ask."""
        if click.get_current_context().find_root().obj is not True or "pandas" in sys.modules:
            return
        import pyarrow as pa

        sys.meta_path.insert(0, self)
        try:
            pa.array([0])
        finally:
            sys.meta_path.remove(self)


def threads_option(verb: str) -> Callable[[Command], Command]:
    """Return the option `--threads`; the verb says what the threads do."""
    text = f"Threads that {verb}. Default: the CPUs that this process may use."
    return click.option("--threads", type=click.IntRange(1, MAX_THREADS), help=text)


def log_option(command: Command) -> Command:
    """`--log FILE`, to which lines of JSON about the run are added."""
    text = "Add lines of JSON to this file: what the run did and when, with the id of the run, and never anything about the data."
    return click.option("--log", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help=text)(command)


def report_option(files: str) -> Callable[[Command], Command]:
    """`--report DIR`, which writes these files as well."""
    return click.option("--report", "folder", type=click.Path(path_type=Path), metavar="DIR", help=f"Also write {files}.")


ENGINES = ("local", "spark")


def engine_options(command: Command) -> Command:
    """`--engine`, `--master` and `--conf`, which say where the work is done."""
    options = (
        click.option(
            "--engine",
            type=click.Choice(ENGINES),
            default=ENGINES[0],
            show_default=True,
            help="Do the work in this process, or on Apache Spark (extra `spark`).",
        ),
        click.option(
            "--master",
            metavar="URL",
            help="Where Spark runs: local[4], spark://host:7077, yarn, k8s://… Default: what spark-submit or Spark's own files say, and "
            "otherwise this machine.",
        ),
        click.option("--conf", "conf", multiple=True, metavar="KEY=VALUE", help="A setting of Spark. May be repeated."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def check_engine(engine: str, master: str | None, conf: Sequence[str]) -> bool:
    """Whether the work is Spark's; raises `click.UsageError` for its options without it."""
    if engine == "spark":
        return True
    for name, given in (("--master", master is not None), ("--conf", bool(conf))):
        if given:
            raise click.UsageError(f"{name} is for --engine spark")
    return False


def job_options(*, plan: str, verb: str, files: str) -> Callable[[Command], Command]:
    """The argument and the options of a command that runs a job file.

    Parameters
    ----------
    plan : str
        What `--dry-run` prints.
    verb : str
        What the threads do.
    files : str
        What `--report` writes.
    """
    options = (
        click.argument("job", type=click.Path(path_type=Path)),
        click.option(
            "--dry-run", is_flag=True, help=f"Read the schema only, print {plan}, and write nothing. Say if a run would be refused."
        ),
        click.option("--input", "source", metavar="PATH", help="Read this in place of the job's input.path."),
        click.option("--output", "target", metavar="PATH", help="Write this in place of the job's output.path."),
        click.option("--set", "given", multiple=True, metavar="KEY=VALUE", help=SET),
        form_option,
        report_option(files),
        log_option,
        click.option("--overwrite", is_flag=True, help="Replace an output that exists. This spends the budget again."),
        click.option("--curator", is_flag=True, help=CURATOR),
        threads_option(verb),
    )

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate
