"""Wasserman & Zhou (2010), Figure 1.

The mean integrated squared error of histograms against their number of cells, without and with privacy.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from dpcore._dataclasses import dataclass
from dpcore.distributions._choices import unit_floats
from dpcore.distributions.perturbed import perturbed_masses
from dpcore.reproduce.densities import Betas, Density
from dpcore.reproduce.estimates import Mean, mean_of
from dpcore.reproduce.registry import Study
from dpcore.reproduce.results import Check, Figure, Panel, Role, Section, Series, floats
from dpcore.reproduce.setting import Setting

TITLES = (
    "Wasserman & Zhou (2010), Figure 1: error of original and of perturbed histograms of Beta(10, 10)",
    "Wasserman & Zhou (2010), Figure 1, bimodal: error of original and of perturbed histograms of a mixture",
)
STATEMENTS = (
    "The lower line of each plot is the mean integrated squared error of the histogram of the original data, the upper one that of the "
    "perturbed histogram. Smaller ε induce a larger error; the error is substantially inflated by the perturbation, and much more "
    "sensitive to the number of cells.",
    "With a bimodal density, an equal mixture of Beta(10, 3) and Beta(3, 10), the results are nearly identical.",
)
DENSITIES: tuple[Density, Density] = Betas(((10.0, 10.0),)), Betas(((10.0, 3.0), (3.0, 10.0)))
NAMES = "Beta(10, 10)", "½ Beta(10, 3) + ½ Beta(3, 10)"
RECORDS = 100, 1000
EPSILONS = 0.1, 0.01
"""From top to bottom, and from left to right."""
CELLS = 1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50
CLEAR = 3.0
"""Standard errors from which a difference counts."""

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Errors:
    """Integrated squared errors: one row for each data set, one column for each number of cells."""

    original: Array
    perturbed: dict[float, Array]


def sections(setting: Setting) -> Iterator[Section]:
    """Measure both sections."""
    for title, statement, name, density in zip(TITLES, STATEMENTS, NAMES, DENSITIES, strict=True):
        yield _section(title, statement, name, density, setting)


def _errors(density: Density, n: int, setting: Setting) -> Errors:
    """Draw data sets and perturb their histograms."""
    stream = setting.stream("figure1", density, n)
    # A record is in a cell exactly if the uniform number that it comes from by inversion is in the cell's image under F.
    sets = np.sort(unit_floats((setting.sized(1000, 200), n), rng=stream), axis=1)
    counts = [_counts(sets, density.cdf(np.arange(1, m) / m)) for m in CELLS]
    original = [density.squared_error(column / n) for column in counts]
    perturbed = {
        epsilon: [density.squared_error(perturbed_masses(column, epsilon, rng=stream)[1]) for column in counts] for epsilon in EPSILONS
    }
    return Errors(np.stack(original, 1), {epsilon: np.stack(columns, 1) for epsilon, columns in perturbed.items()})


def _counts(sets: Array, images: Array) -> npt.NDArray[np.int64]:
    """Numbers of each ascending row between the images of the ends of cells."""
    below = np.zeros((len(sets), len(images) + 2), np.int64)
    below[:, 1:-1] = [np.searchsorted(row, images) for row in sets]
    below[:, -1] = sets.shape[1]
    return np.diff(below, axis=1)


def _section(title: str, statement: str, name: str, density: Density, setting: Setting) -> Section:
    errors = {n: _errors(density, n, setting) for n in RECORDS}
    simulations = len(errors[RECORDS[0]].original)
    best = {
        n: [CELLS[int(np.argmin(each.mean(axis=0)))] for each in (found.original, *found.perturbed.values())] for n, found in errors.items()
    }
    return Section(
        title,
        statement,
        f"{simulations:,} data sets of n records from {name}, r = 1, and the same data sets for every number m of cells. Each count gets "
        "noise of scale 2/ε, negative counts become 0, and the counts are normalised. The integral of the squared error is computed "
        "from the cells' "
        "probabilities, without discretisation.",
        tuple(_figure(density, n, errors[n]) for n in RECORDS),
        (),
        tuple(check for n in RECORDS for check in _checks(density, n, errors[n])),
        "The least error is at "
        + "; ".join(
            f"m = {cells[0]} for n = {n:,}, with noise at {cells[1]} (ε = 0.1) and {cells[2]} (ε = 0.01)" for n, cells in best.items()
        )
        + ". If noise hides all counts, as at n = 100 and ε = 0.01, hardly any m is better than one cell.",
    )


def _means(columns: Array) -> list[Mean]:
    return [mean_of(column) for column in columns.T]


def _figure(density: Density, n: int, errors: Errors) -> Figure:
    x, exact = floats(CELLS), floats(density.histogram_risk(m, n) for m in CELLS)

    def series(name: str, columns: Array, role: Role) -> Series:
        means = _means(columns)
        return Series(name, x, floats(mean.value for mean in means), floats(mean.stderr for mean in means), role)

    panels = tuple(
        Panel(
            "cells m",
            "mean integrated squared error",
            (
                series("perturbed", columns, "measured"),
                series("original", errors.original, "second"),
                Series("original, exact expectation", x, exact, None, "theory"),
            ),
            "y",
            title=f"n = {n:,}, ε = {epsilon:g}",
        )
        for epsilon, columns in errors.perturbed.items()
    )
    return Figure(f"Mean integrated squared error against the number of cells, n = {n:,}.", panels)


# What the figure shows


def _checks(density: Density, n: int, errors: Errors) -> tuple[Check, ...]:
    return (
        _as_computed(density, n, errors.original),
        *(_never_better(n, epsilon, errors.original, columns) for epsilon, columns in errors.perturbed.items()),
        _larger_error(n, errors),
        _fewer_cells(n, errors),
        _more_sensitive(n, errors),
    )


def _as_computed(density: Density, n: int, original: Array) -> Check:
    off = [abs(mean.value - density.histogram_risk(m, n)) / mean.stderr for m, mean in zip(CELLS[1:], _means(original[:, 1:]), strict=True)]
    return Check(
        f"n = {n:,}: the original line agrees with its exact expectation", f"at most {max(off):.1f} standard errors off", "5", max(off) < 5
    )


def _never_better(n: int, epsilon: float, original: Array, perturbed: Array) -> Check:
    """The perturbed line is nowhere below the original one, and both are equal at m = 1, where noise changes nothing."""
    below = [_excess(original[:, i], perturbed[:, i]) for i in range(1, len(CELLS))]
    same = bool((original[:, 0] == perturbed[:, 0]).all())
    return Check(
        f"n = {n:,}, ε = {epsilon:g}: original ≤ perturbed, and equal at m = 1",
        f"at most {max(*below, 0.0):.1f} standard errors above; {'equal' if same else 'not equal'} at 1",
        f"{CLEAR:g} standard errors",
        max(below) <= CLEAR and same,
    )


def _excess(first: Array, second: Array) -> float:
    """By how many standard errors the first of two paired columns is larger on average."""
    mean = mean_of(first - second)
    return mean.value / mean.stderr if mean.stderr else math.copysign(math.inf, mean.value) if mean.value else 0.0


def _larger_error(n: int, errors: Errors) -> Check:
    weaker, stronger = (errors.perturbed[epsilon] for epsilon in EPSILONS)
    below = max(_excess(weaker[:, i], stronger[:, i]) for i in range(len(CELLS)))
    promise = f"n = {n:,}: a smaller ε has a larger error, at every m"
    return Check(promise, f"at most {max(below, 0.0):.1f} standard errors below", f"{CLEAR:g} standard errors", below <= CLEAR)


def _more_sensitive(n: int, errors: Errors) -> Check:
    """By how much the error rises from the best number of cells to the largest, without and with noise."""
    every = [errors.original, *errors.perturbed.values()]
    rises = [float(means[-1] - means.min()) for means in (columns.mean(axis=0) for columns in every)]
    return Check(
        f"n = {n:,}: with noise the error depends more on m",
        f"at m = {CELLS[-1]} it is {rises[1]:.3g} and {rises[2]:.3g} above its least",
        f"more than {rises[0]:.3g}, as without noise",
        min(rises[1:]) > rises[0],
    )


def _fewer_cells(n: int, errors: Errors) -> Check:
    """Whether the best number of cells for one ε is enough for the next smaller ε."""
    every = [errors.original, *errors.perturbed.values()]
    best = [int(np.argmin(columns.mean(axis=0))) for columns in every]
    gains = [_gain(columns, limit) for columns, limit in zip(every[1:], best, strict=False)]
    return Check(
        f"n = {n:,}: the best m does not grow as ε falls",
        " ≥ ".join(str(CELLS[index]) for index in best) + f"; more cells gain at most {max(gains):.1f} standard errors",
        f"{CLEAR:g} standard errors",
        max(gains) <= CLEAR,
    )


def _gain(columns: Array, limit: int) -> float:
    """By how many standard errors the best column beyond the limit is better than the best one up to it; 0 if it is not."""
    means: Sequence[float] = columns.mean(axis=0).tolist()
    within, best = (min(range(stop), key=means.__getitem__) for stop in (limit + 1, len(means)))
    return max(0.0, _excess(columns[:, within], columns[:, best])) if best > limit else 0.0


STUDY = Study("figure1", "The error of perturbed histograms against their number of cells.", TITLES, sections)
