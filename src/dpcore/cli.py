"""The `dpcore` command: its subcommands, and which exit code each kind of failure has."""

from __future__ import annotations

import contextlib
import gc
import io
import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Self, TextIO

from dpcore._extras import advice, lacking
from dpcore._version import __version__
from dpcore.errors import BudgetError, DataError, DpcoreError, ParameterError, ParameterTypeError

if TYPE_CHECKING:
    import click

__all__ = ["command_group", "main", "run"]


def __dir__() -> list[str]:
    return __all__


DONE, BUG, REFUSED, BAD_ROWS, SYSTEM, PUBLISHED = 0, 1, 2, 3, 4, 5
INTERRUPTED, TERMINATED, HUNG_UP = 128 + signal.SIGINT, 128 + signal.SIGTERM, 129
LOADED_OBJECTS = 250_000
"""New objects before the collector of cyclic garbage looks at them: loading modules makes as many that stay, and it looks in vain."""
STANDARD = (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w"))


class Terminated(BaseException):
    """SIGTERM or SIGHUP arrived; not an Exception, so that nothing takes it for a failure to recover from."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(number)


class _Signals:
    """Lets the first signal end the command, and ignores further ones while it cleans up.

    While modules are loaded a signal waits: a half-loaded extension may abort the process.
    """

    def __init__(self) -> None:
        self._arrived = False
        self._is_held = True
        self._held: int | None = None
        self._before: dict[int, object] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is not threading.main_thread():
            return self  # signals are the main thread's
        for name, ours in (("SIGINT", signal.default_int_handler), ("SIGTERM", signal.SIG_DFL), ("SIGHUP", signal.SIG_DFL)):
            number = getattr(signal, name, None)
            # What a shell or nohup ignores stays ignored, and what the caller handles stays the caller's.
            if number is not None and signal.getsignal(number) == ours:
                self._before[number] = signal.signal(number, self._take)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._arrived = True
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def let_through(self) -> None:
        """Let signals end the command from here on; raises if one has arrived."""
        self._is_held = False
        if self._held is not None and not self._arrived:
            self._take(self._held, None)

    def settle(self) -> None:
        """Ignore signals from here on: the result of the command is known."""
        self._arrived = True

    def end(self) -> None:
        """Ignore signals from here on, also while the interpreter ends."""
        self.settle()
        for number in self._before:
            signal.signal(number, signal.SIG_IGN)
        self._before.clear()

    def _take(self, number: int, _frame: FrameType | None) -> None:
        if self._arrived:
            return
        if self._is_held:
            self._held = number if self._held is None else self._held
            return
        self._arrived = True
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise Terminated(number)


def main() -> None:
    """Run the command line and leave the process with its exit code."""
    gc.set_threshold(LOADED_OBJECTS, 10, 10)
    _open_closed_streams()
    # A character that the environment's encoding cannot write must not end a command.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    with _Signals() as signals:
        code = _run(sys.argv[1:], signals, is_process=True)
        signals.end()
        for stream in (sys.stdout, sys.stderr):
            _flush(stream)
        gc.freeze()  # The interpreter looks for cyclic garbage twice when it ends, and the system takes all memory back.
        sys.exit(code)


def _open_closed_streams() -> None:
    """Open a descriptor for streams that were closed at the start, on which reading and writing fail.

    Otherwise the next file that is opened, a ledger or an output, would get the descriptor of a stream, and what is printed.
    """
    for name, number, mode in STANDARD:
        try:
            os.fstat(number)
        except OSError:
            taken = os.open(os.devnull, os.O_WRONLY if mode == "r" else os.O_RDONLY)
            if taken != number:
                os.dup2(taken, number)
                os.close(taken)
            setattr(sys, name, io.open(number, mode, closefd=False, encoding="utf-8"))  # noqa: SIM115, UP020


def _flush(stream: TextIO) -> None:
    """Flush the streams; an error was already reported, and must not be raised again when the interpreter ends."""
    try:
        stream.flush()
    except (OSError, ValueError):
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def run(arguments: list[str]) -> int:
    """Run one command.

    Parameters
    ----------
    arguments : list of str
        What follows `dpcore` on the command line.

    Returns
    -------
    int
        The exit code: 0 done; 1 a bug; 2 job file, schema, or installation; 3 found in rows; 4 the system; 5 published, and then
        something failed; 129, 130, 143 interrupted.
    """
    with _Signals() as signals:
        return _run(arguments, signals)


def _run(arguments: list[str], signals: _Signals, *, is_process: bool = False) -> int:
    missing = lacking("batch")
    if missing:
        print(f"dpcore: {advice('the command line', 'batch', missing)}", file=sys.stderr)
        return REFUSED

    def action() -> object:
        try:
            group = command_group()
            signals.let_through()
            return group.main(arguments, prog_name="dpcore", standalone_mode=False, obj=is_process)
        finally:
            signals.settle()  # in here a signal still ends in a message

    return _with_exit_code(action)


def _with_exit_code(action: Callable[[], object]) -> int:
    import click

    from dpcore.errors import PublishedError

    try:
        result = action()
    except click.ClickException as error:
        _say(error.show)
        return error.exit_code
    except SystemExit as error:
        if not error.code:  # how click ends after it has printed completions for a shell
            return DONE
        return _fail(*_judged(error))
    except PublishedError as error:
        message, code = _judged(error.__cause__ or error)
        if code == BUG:
            _show_place(error.__cause__ or error)
        return _fail(f"{error}; then: {message}", PUBLISHED)
    except BaseException as error:
        message, code = _judged(error)
        if code == BUG:
            _show_place(error)
        return _fail(f"{message}; nothing was left behind" if code in {INTERRUPTED, TERMINATED, HUNG_UP} else message, code)
    return result if isinstance(result, int) else DONE


def _judged(error: BaseException) -> tuple[str, int]:
    """Return the message of an error, and its exit code."""
    import click

    match error:
        case KeyboardInterrupt() | click.Abort():
            return "interrupted", INTERRUPTED
        case Terminated():
            return ("terminated", TERMINATED) if error.number == signal.SIGTERM else ("the terminal hung up", HUNG_UP)
        case SystemExit():
            return "standard output is closed", SYSTEM  # how click reports a broken pipe
        case BudgetError() | ParameterError() | ParameterTypeError():
            return str(error), REFUSED
        case DataError():
            return str(error), BAD_ROWS
        case OSError() if isinstance(error, DpcoreError):
            return str(error), SYSTEM
        case OSError():
            return f"{error.filename or 'input or output'}: {error.strerror or type(error).__name__}", SYSTEM
        case MemoryError():
            return "out of memory", SYSTEM
    return f"{type(error).__name__}: this is a bug in dpcore; please report the lines above", BUG


def _show_place(error: BaseException) -> None:
    import traceback

    # The message of a foreign exception may quote data: only its type and place are shown.
    _say(lambda: print("".join(traceback.format_tb(error.__traceback__)), file=sys.stderr))


def _fail(message: str, code: int) -> int:
    from dpcore.pages.printable import printable_lines

    # Names of files and columns are untrusted, and a terminal obeys some characters.
    _say(lambda: print(f"dpcore: {printable_lines(message)}", file=sys.stderr, flush=True))
    return code


def _say(words: Callable[[], object]) -> None:
    """Print a message if the stream can still be written."""
    with contextlib.suppress(OSError, ValueError):
        words()


def command_group() -> click.Group:
    """Make the command with its subcommands. It is not a constant because click comes with the extra `batch`.

    Returns
    -------
    click.Group
        The command `dpcore`.
    """
    import click

    from dpcore._commands.named import ByName, Group

    @click.group(cls=Group, commands=ByName(), context_settings={"help_option_names": ["-h", "--help"]})
    @click.version_option(__version__, prog_name="dpcore", message="%(prog)s %(version)s")
    def dpcore() -> None:
        """Exact differential privacy for tables.

        \b
        Start here:
            dpcore init FILE                      drafts a job for a table
            dpcore privatize --help               explains a job file, with an example
            dpcore privatize job.toml --dry-run   prints the plan and what it spends
            dpcore privatize job.toml             randomises the table
            dpcore estimate OUTPUT                computes means and shares from it, with intervals
            dpcore release --help                 answers questions about a table, with noise on the answers
            dpcore plan job.toml                  says how far the answers may be off, and how much epsilon they need
            dpcore ledger --help                  keeps a budget over many releases
            dpcore reproduce all --report out     measures results of the literature again
            dpcore bench                          measures the speed on this machine, beside other packages
        """

    return dpcore


if __name__ == "__main__":
    main()
