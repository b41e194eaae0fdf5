"""`dpcore reproduce`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dpcore._commands import SHORT
from dpcore._disk.signals import Deferred

HELP = """Measure figures, tables and theorems of the literature again, on simulated data.

NAME is one of the studies below, or `all`.

\b
    blackwell             Mechanisms as experiments: their order, profiles, testing regions and audits.
    exercises             The functional mechanism, private regression on real data, and accuracy against privacy.
    lemmas                Lemmas of the chapter with their constants: peeling, Laplace tails, product distributions.
    lower-bounds          What no private mean can do, and the tracing attack that shows it.
    privacy-cost          The cost of privacy for the mean, and the rates of the theorems.
    tests                 How often private tests of distributions reject, and how many records they need.
    sample-sizes          How many records private tests need: orders, and proved lower bounds.
    minimax               Estimation under local privacy: bounds, risks and the binary search of tests.
    limits                Lower bounds for all private methods beside proved risks, within a small factor of each other.
    minimax-channels      Densities of private channels, and several functionals.
    minimax-bounds        Bounds for a given channel and for open records.
    minimax-tests         Tests between models, products and the chain rule.
    privacy-loss          The privacy loss of an output as a random number, and why k answers cost √k.
    overfitting           An adaptive analyst overfits a sample, and does not overfit one behind private answers.
    generalization        How many records adaptive queries need, and how far a private query can be off.
    figure1               The error of perturbed histograms against their number of cells.
    rates                 How fast the errors of releases fall, and both tables of rates.
    information           What releases tell about one record and about the distribution, in several distances.

\b
    dpcore reproduce all --report out
    dpcore reproduce overfitting --seed 7 > overfitting.json

The command writes JSON to standard output, with one section for each figure, table or theorem: the statement of the document, the
measurements with standard errors, slopes beside those of the theory, identities and findings. An identity holds for every data set,
exactly or up to rounding. A finding is measured, with a statistical error. The page of --report also has the plots.

Data and noise come from the seed. The same seed gives the same result on every machine, and nothing here is private.

\b
Exit codes: 0 done; 2 an unknown study, or a missing extra; 4 an error of the system (a report that cannot be written);
130, 143 interrupted; 1 a bug in dpcore.
"""


@click.command("reproduce", help=HELP, short_help=SHORT["reproduce"])
@click.argument("name")
@click.option(
    "--report",
    "folder",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Also write a page with plots, DIR/NAME.html (reproduced.html for all), and the JSON.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**64 - 1),
    metavar="INTEGER",
    default=0,
    show_default=True,
    help="Seed of all data and noise.",
)
@click.option("--quick", is_flag=True, help="Use fewer replicates and smaller grids.")
def command(**options: Any) -> None:
    """Run studies and print the result; the entry point turns errors into exit codes."""
    with Deferred():
        from dpcore.reproduce.command import run_command
    run_command(**options)
