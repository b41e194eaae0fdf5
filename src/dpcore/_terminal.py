"""Output of the commands: tables for people at a terminal, JSON for programs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from dpcore.pages.printable import printable, printable_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence
    from typing import Any

    from rich.table import Table

    Command = Callable[..., Any]

WHOLE = 36
"""Letters of a number with its interval; the cells of the one column that is aligned to the right stay on one line up to this length."""
PIPE_WIDTH = 240
"""Columns of a table that goes into a pipe, which has no width of its own."""


def form_option(command: Command) -> Command:
    """Add the options `--json` and `--table` to a command.

    The command gets a keyword argument `as_json`, which is True, False, or None if neither was given.
    """
    text = "Print JSON, or a table. Default: a table on a terminal, JSON into a pipe or a file."
    return click.option("--json/--table", "as_json", default=None, help=text)(command)


def on_terminal() -> bool:
    """Whether standard output is a terminal."""
    return sys.stdout.isatty()


def wants_json(as_json: bool | None) -> bool:
    """Whether to print JSON on standard output.

    Parameters
    ----------
    as_json : bool or None
        Value of `form_option`.
    """
    return not on_terminal() if as_json is None else as_json


def make_table(headings: Sequence[str], rows: Iterable[Sequence[object]], *, right: Collection[str] = ()) -> Table:
    """Make a table without lines, safe to print.

    Parameters
    ----------
    headings : sequence of str
        One for each column.
    rows : iterable of sequence
        Cells. None is shown as a dash, and control characters as escapes.
    right : collection of str, default ()
        Headings of the columns that are aligned to the right.
    """
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    cells = [["–" if cell is None else printable(str(cell)) for cell in row] for row in rows]
    for place, heading in enumerate(headings):
        is_whole = tuple(right) == (heading,) and max((len(row[place]) for row in cells), default=0) <= WHOLE
        table.add_column(heading, overflow="fold", no_wrap=is_whole, justify="right" if heading in right else "left")
    for row in cells:
        table.add_row(*map(Text, row))  # Text, not markup: rich would take a range in brackets for a style.
    return table


def output_width() -> int:
    """Columns of standard output."""
    from rich.console import Console

    return Console(file=sys.stdout).width if on_terminal() else PIPE_WIDTH


def print_table(*parts: Table | str) -> None:
    """Print tables and lines of text on standard output.

    Parameters
    ----------
    *parts : Table or str
        What to print, in order.
    """
    from rich.console import Console
    from rich.table import Table

    # None is the width of the terminal; in a pipe no name is folded.
    console = Console(file=sys.stdout, width=None if on_terminal() else PIPE_WIDTH, highlight=False)
    for part in parts:
        if isinstance(part, Table):
            console.print(part)
        else:
            echo(part)


def echo(text: str, *, err: bool = False) -> None:
    """Print a text that may quote names of files, columns or data sets; control characters become escapes."""
    click.echo(printable_lines(text), err=err)
