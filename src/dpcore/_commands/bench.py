"""`dpcore bench` and `dpcore bench compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dpcore._commands import SHORT
from dpcore._disk.signals import Deferred
from dpcore._terminal import form_option

HELP = """Measure the speed of dpcore on this machine, beside other packages and beside bounds.

\b
    dpcore bench                            two minutes; prints a table
    dpcore bench --full --report out        20 minutes; also a page with plots
    dpcore bench --only noise --json a.json
    dpcore bench compare a.json b.json      what became slower from one run to the other

dpcore, the packages that are installed here, and the bounds take turns, so that other work on the machine affects all of them. Nine
blocks of turns are spread over the run. The run ends on time and names the rows that it had no time for. Of each block the fastest tenth
of the turns counts. Every ratio has a band that contains the true median with a probability of 95 %. "one block": measured once, so there
is no band. "too wide": other work disturbed the blocks, and only the lower end is certain. "no winner": the band comes within 2 % of 1.

A bound is the least that any program needs: making the random words (the keystream), copying the array, or finding a maximum. A package
whose numbers are not safe to release is marked †. The end of the output lists packages that are not installed, with the command that
installs them. Every answer is checked; a package that fails or gives a wrong answer is listed, and the run goes on without it.

\b
Groups for --only:
    calls           calls on few values, constructions and estimates, beside the key that a call takes
    noise           noise on large arrays, beside other generators, the keystream and a copy
    curve           noise against size, from one value on, beside NumPy
    local           local randomisers, beside other packages and a copy
    selection       selections, beside other packages and an argmax
    sums            exact sums and private means, beside NumPy and a copy
    distributions   releases of distributions and private tests, beside NumPy
    minimax         estimates of the minimax engine, beside NumPy
    threads         several threads, beside one and beside a copy by as many
    interactive     the first answer of a process, questions about small tables, new parameters, beside DuckDB and the key
    start           start-up of Python with dpcore and of the command, beside importing NumPy
    tables          jobs on files and questions about frames, beside pyarrow and DuckDB; only by --only tables
    interop         dpcore under other tools, beside what they do themselves; only by --only interop

Ctrl-C ends the run early and keeps what is done: the files are complete and say that the run was interrupted.

\b
Exit codes: 0 done; 2 a wrong option; 4 an error of the system (a file that cannot be written); 130, 143 interrupted;
1 a bug in dpcore, or an answer of dpcore's own that is wrong. `dpcore bench compare --help` has its own.
"""

COMPARE_HELP = """Compare the JSON files of two runs, and say which benchmarks became slower.

BEFORE and AFTER are files that `dpcore bench --json` wrote, of two commits or versions.

A benchmark is judged by the ratio of its time to that of a bound in the same run, never by the time itself, so that a slower moment
of the machine is no change. It is slower if the ratio rose by more than 10 % for calls on few values and work in the cache, or 30 %
for large arrays, several threads and whole jobs, and the bands of both runs do not meet. For files of two machines that says how close
each of them comes to its own bounds, and no more.

\b
Exit codes: 0 nothing became slower; 1 something did; 2 a file that is no JSON of dpcore bench, or two without a common row;
4 an error of the system.
"""


@click.group("bench", help=HELP, short_help=SHORT["bench"], invoke_without_command=True)
@click.option("--quick", is_flag=True, help="Arrays of 200,000 values, on threads 2 million; at most two minutes. This is the default.")
@click.option("--full", is_flag=True, help="Arrays of 10^7 values, every CPU level, curves from 1 to 10^8 values; at most 20 minutes.")
@click.option("--only", "groups", multiple=True, metavar="GROUP", help="Run this group; may be repeated. Default: all but tables.")
@click.option("--report", "folder", type=click.Path(path_type=Path), metavar="DIR", help="Also write a page, DIR/bench.html, and the JSON.")
@click.option("--json", "file", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Also write the JSON to this file.")
@click.option("--table", is_flag=True, help="Print the table also into a pipe or a file, where the default is JSON.")
@click.pass_context
def command(context: click.Context, /, **options: Any) -> int:
    """Run benchmarks; the entry point turns errors into exit codes."""
    if context.invoked_subcommand is not None:
        return 0
    if options["quick"] and options["full"]:
        raise click.UsageError("--quick and --full exclude each other")
    with Deferred():
        from dpcore.bench.command import run_command
    return run_command(**options)


@command.command("compare", help=COMPARE_HELP, short_help="Compare two runs: which rows became slower.")
@click.argument("before", type=click.Path(path_type=Path))
@click.argument("after", type=click.Path(path_type=Path))
@form_option
def compare_command(**options: Any) -> int:
    """Compare two runs; the entry point turns errors into exit codes."""
    with Deferred():
        from dpcore.bench.command import run_comparison
    return run_comparison(**options)
