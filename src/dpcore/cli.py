"""The `dpcore` command: its subcommands, and which exit code each kind of failure has."""

from __future__ import annotations

import importlib.util
import json
import signal
import sys
import traceback
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING

from dpcore import _backend
from dpcore._version import __version__
from dpcore.errors import BudgetError, DataError, DpcoreError, ParameterError, ParameterTypeError
from dpcore.rng import STREAM_VERSION

if TYPE_CHECKING:
    import click

DONE, BUG, REFUSED, BAD_ROWS, SYSTEM = 0, 1, 2, 3, 4
INTERRUPTED, TERMINATED = 128 + signal.SIGINT, 128 + signal.SIGTERM
BATCH_EXTRA = ("click", "duckdb", "pyarrow", "pydantic", "rich")


class Terminated(BaseException):
    """SIGTERM arrived; not an Exception, so that nothing takes it for a failure to recover from."""


def main() -> None:
    """Run the command line and leave the process with its exit code."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command.

    Parameters
    ----------
    arguments : list of str
        What follows `dpcore` on the command line.

    Returns
    -------
    int
        The exit code: 0 done; 1 a bug; 2 job file, schema, or installation; 3 found in rows; 4 the system; 130, 143 interrupted.
    """
    absent = [name for name in BATCH_EXTRA if importlib.util.find_spec(name) is None]
    if absent:
        print(f"dpcore: the command line needs the extra `batch` (not installed: {', '.join(absent)}):", file=sys.stderr)
        print("    pip install 'dpcore[batch]'", file=sys.stderr)
        return REFUSED
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        return _with_exit_code(lambda: command_group().main(arguments, prog_name="dpcore", standalone_mode=False))
    finally:
        signal.signal(signal.SIGTERM, before)


def _terminate(_number: int, _frame: FrameType | None) -> None:
    raise Terminated


def _with_exit_code(action: Callable[[], object]) -> int:
    import click

    try:
        result = action()
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except SystemExit:
        return SYSTEM  # click's way to say that nobody reads standard output any more
    except (KeyboardInterrupt, click.Abort):
        return _fail("interrupted; nothing was left behind", INTERRUPTED)
    except Terminated:
        return _fail("terminated; nothing was left behind", TERMINATED)
    except (BudgetError, ParameterError, ParameterTypeError) as error:
        return _fail(str(error), REFUSED)
    except DataError as error:
        return _fail(str(error), BAD_ROWS)
    except OSError as error:
        known = isinstance(error, DpcoreError)
        return _fail(str(error) if known else f"{error.filename or 'input or output'}: {error.strerror or type(error).__name__}", SYSTEM)
    except MemoryError:
        return _fail("out of memory", SYSTEM)
    except Exception as error:
        # The message of a stranger's exception may quote data: only its type and place are shown.
        print("".join(traceback.format_tb(error.__traceback__)), file=sys.stderr)
        return _fail(f"{type(error).__name__}: this is a bug in dpcore; please report the lines above", BUG)
    return result if isinstance(result, int) else DONE


def _fail(message: str, code: int) -> int:
    from dpcore.batch.printable import printable_lines

    # Names of files and columns are whoever's made them, and a terminal obeys some characters.
    print(f"dpcore: {printable_lines(message)}", file=sys.stderr)
    return code


def command_group() -> click.Group:
    """Make the command with its subcommands; made when called because click comes with the extra `batch`."""
    import click

    from dpcore.batch.command import command as privatize
    from dpcore.batch.estimate_command import command as estimate
    from dpcore.batch.ledger_command import command as ledger
    from dpcore.batch.release_command import command as release
    from dpcore.reproduce.command import command as experiment

    @click.group(context_settings={"help_option_names": ["-h", "--help"]})
    @click.version_option(__version__, prog_name="dpcore", message="%(prog)s %(version)s")
    def dpcore() -> None:
        """Exact differential privacy for tables.

        \b
        Start here:
            dpcore privatize --help               explains a job file, with an example
            dpcore privatize job.toml --dry-run   prints the plan and what it spends
            dpcore privatize job.toml             runs it
            dpcore estimate OUTPUT                what the private rows say, with intervals
            dpcore release --help                 noisy answers about a table that you are trusted with
            dpcore ledger --help                  a budget that no number of releases exceeds
            dpcore experiment all --report out    what the documents claim, measured again
        """

    @dpcore.command()
    @click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of lines.")
    def info(*, as_json: bool) -> None:
        """Print version, CPU level, random source and build."""
        facts = {"version": __version__, "stream_version": STREAM_VERSION, **_backend.info()}
        click.echo(json.dumps(facts, indent=2) if as_json else _lines(facts))

    dpcore.add_command(privatize)
    dpcore.add_command(estimate)
    dpcore.add_command(ledger)
    dpcore.add_command(release)
    dpcore.add_command(experiment)
    return dpcore


def _lines(facts: dict[str, object]) -> str:
    width = max(map(len, facts))
    shown = {key: ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value) for key, value in facts.items()}
    return "\n".join(f"{key.replace('_', ' '):<{width}}  {value}" for key, value in shown.items())


if __name__ == "__main__":
    main()
