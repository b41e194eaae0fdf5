"""A real table in the package: visits to a doctor in the RAND Health Insurance Experiment, in the public domain.

`visits.npz` has ten columns of examples/randhie.parquet, whose page, examples/randhie.md, says where the table comes from. A test compares
the two.
"""

from __future__ import annotations

import math
from functools import cache
from importlib.resources import files

import numpy as np
import numpy.typing as npt

from dpcore._dataclasses import dataclass

Array = npt.NDArray[np.float64]

COLUMNS = (
    "constant", "coinsurance", "individual deductible", "participation payment", "maximum expenditure", "physical limitation",
    "chronic diseases", "health good", "health fair", "health poor",
)  # fmt: skip
"""Columns of `x`."""


@dataclass(frozen=True, slots=True, eq=False)
class Visits:
    """A regression of visits to a doctor on the insurance and the health of a person.

    Attributes
    ----------
    x : ndarray of float64, shape (20190, 10)
        The columns of `COLUMNS`, in public units that keep them within [0, 1]; at most one
        of the last three is not 0, so rows have an ℓ2 norm of at most `x_radius` = √8.
    y : ndarray of float64, shape (20190,)
        ln(1 + visits in the year) − 1, within ±`y_radius` up to 89 visits.
    any_visit : ndarray of bool, shape (20190,)
        Whether there was a visit.
    """

    x: Array
    y: Array
    any_visit: npt.NDArray[np.bool_]
    x_radius: float = math.sqrt(8)
    y_radius: float = 3.5


@cache
def visits() -> Visits:
    """Return the table, one row for a person and a year.

    Returns
    -------
    Visits
        20,190 rows. A person has several, so a guarantee for a row is not one for a person.

    Notes
    -----
    Cost: some milliseconds, once.

    Examples
    --------
    >>> from dpcore.reproduce.real_data import visits
    >>> table = visits()
    >>> table.x.shape, round(float(table.any_visit.mean()), 3)
    ((20190, 10), 0.688)
    """
    with (files("dpcore.reproduce") / "data" / "visits.npz").open("rb") as file:
        stored = {name: np.asarray(column) for name, column in np.load(file, allow_pickle=False).items()}
    scaled = (
        np.ones(len(stored["mdvis"])), np.log1p(stored["coins"].astype(np.float64)) / math.log(101.0), stored["idp"], stored["lpi"] / 8.0,
        stored["fmde"] / 9.0, stored["physlm"], stored["disea"] / 60.0, stored["hlthg"], stored["hlthf"], stored["hlthp"],
    )  # fmt: skip
    x = np.column_stack([np.asarray(column, np.float64) for column in scaled])
    counts = stored["mdvis"].astype(np.float64)
    found = Visits(x, np.log1p(counts) - 1.0, counts > 0)
    for column in (found.x, found.y, found.any_visit):
        column.flags.writeable = False
    return found
