"""The base of all releases of distributions: synthetic records, a density, a distribution function, and a guarantee."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from dpcore._dataclasses import dataclass
from dpcore._extras import needs
from dpcore._validation import REAL_DTYPES, check_array, check_integer, check_threads
from dpcore.distributions._boxes import Box, Reals
from dpcore.distributions._plots import density_html, draw_density
from dpcore.distributions._records import columns_of
from dpcore.errors import ParameterError, ParameterTypeError
from dpcore.privacy import Guaranteed, Privacy
from dpcore.rng import resolve

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.axes import Axes

    from dpcore.rng import Stream

MOST_DRAWS = 2**40

Real: TypeAlias = float | np.floating[Any] | np.integer[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Release(Guaranteed, ABC):
    """A released distribution. Anything you compute from it is post-processing and costs no privacy.

    Attributes
    ----------
    privacy : Privacy
        Guarantee of everything in it, for data sets that differ by the value of one record.
    n : int
        Number of records it was made from, which is public.
    box : Box
        Bounds of the records.
    """

    privacy: Privacy
    n: int
    box: Box

    @property
    def dimension(self) -> int:
        """Number r of coordinates of a record."""
        return self.box.dimension

    def sample(self, draws: int, *, rng: Stream | None = None, threads: int | None = None) -> Reals:
        """Draw synthetic records from the released density.

        Parameters
        ----------
        draws : int
            Number of records, ≥ 0.
        rng : Stream, optional
            Source of randomness; None is the secure source.
        threads : int, optional
            Number of threads; None chooses. The records do not depend on it.

        Returns
        -------
        ndarray of float64
            Shape (draws,) if r = 1, else (draws, r).

        Notes
        -----
        Guarantee: that of the release; any number of records costs no more privacy.
        """
        draws = check_draws(draws)
        check_threads(threads)
        return self._sample(draws, resolve(rng), threads)

    @overload
    def density(self, x: Real) -> float: ...
    @overload
    def density(self, x: npt.ArrayLike) -> float | Reals: ...
    def density(self, x: npt.ArrayLike) -> float | Reals:
        """Evaluate the released density.

        Parameters
        ----------
        x : array_like
            Points: any shape if r = 1, else (..., r); in the units of the bounds.

        Returns
        -------
        float or ndarray of float64
            One number for each point; 0 outside the bounds.
        """
        rows, shape = check_points(x, self.dimension)
        return shaped(np.where(self.box.contains(rows), self._density(rows), 0.0), shape)

    @overload
    def cdf(self, x: Real) -> float: ...
    @overload
    def cdf(self, x: npt.ArrayLike) -> float | Reals: ...
    def cdf(self, x: npt.ArrayLike) -> float | Reals:
        """Evaluate the released distribution function P(X₁ ≤ x₁, …, X_r ≤ x_r).

        Parameters
        ----------
        x : array_like
            Points: any shape if r = 1, else (..., r); in the units of the bounds.

        Returns
        -------
        float or ndarray of float64
            One number for each point.
        """
        rows, shape = check_points(x, self.dimension)
        return shaped(self._cdf(rows), shape)

    def table(
        self, draws: int | None = None, *, names: Sequence[str] | None = None, rng: Stream | None = None, threads: int | None = None
    ) -> pa.Table:
        """Return synthetic records as an Arrow table.

        Parameters
        ----------
        draws : int, optional
            Number of records to draw. None gives the draws that the release consists of, if it has any.
        names : sequence of str, optional
            Names of the r columns; None is x, or x1, x2, ….
        rng : Stream, optional
            Source of randomness; None is the secure source.
        threads : int, optional
            Number of threads; None chooses.

        Returns
        -------
        pyarrow.Table
            One float64 column for each coordinate.

        Raises
        ------
        ParameterError, ParameterTypeError
            If `draws` is None and the release has no draws, or there is not one name for each column.
        ModuleNotFoundError
            If pyarrow is not installed.

        Notes
        -----
        Guarantee: that of the release, as for `sample`.
        """
        labels = _names(names, self.dimension)
        made = self._made()
        try:
            import pyarrow as pa
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(needs("table needs", "batch"), name=error.name) from error
        if draws is not None:
            made = self.sample(draws, rng=rng, threads=threads)
        elif made is None:
            raise ParameterError("draws must be the number of records to draw, as this release is a density and holds no draws; got None")
        rows = columns_of(made)
        return pa.table({label: pa.array(np.ascontiguousarray(rows[:, axis])) for axis, label in enumerate(labels)})

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the released density: a line or steps for r = 1, an image for r = 2.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; None makes a separate figure.

        Returns
        -------
        matplotlib axes
            What was drawn on; its `figure` has `savefig`.

        Raises
        ------
        ParameterError
            If r > 2.
        ModuleNotFoundError
            If matplotlib is not installed.
        """
        return draw_density(self, ax)

    def _repr_html_(self) -> str:
        return density_html(self, self._facts())

    @abstractmethod
    def _sample(self, draws: int, stream: Stream, threads: int | None) -> Reals:
        """Draw records from a resolved stream."""

    @abstractmethod
    def _density(self, rows: Reals) -> Reals:
        """Density (q,) at points (q, r). What it gives outside the bounds does not count."""

    @abstractmethod
    def _cdf(self, rows: Reals) -> Reals:
        """Distribution function (q,) at points (q, r)."""

    def _facts(self) -> list[tuple[str, str]]:
        """Facts that a notebook shows in addition to privacy, n and bounds."""
        return []

    def _made(self) -> Reals | None:
        """The draws that the release holds, or None."""
        return None


def check_points(x: npt.ArrayLike, dimension: int) -> tuple[Reals, tuple[int, ...]]:
    """Return points as rows (q, r) of float64, and the shape that one number a point has; else raise."""
    array = check_array("x", x, REAL_DTYPES).astype(np.float64)
    shape = array.shape
    if dimension > 1:
        if array.ndim < 1 or shape[-1] != dimension:
            raise ParameterError(f"x must have shape (..., {dimension}), got {shape}")
        shape = shape[:-1]
    rows = array.reshape(-1, dimension)
    bad = np.flatnonzero(np.isnan(rows).any(axis=1))
    if len(bad):
        raise ParameterError(f"x must not hold NaN; point {int(bad[0])} does")
    return rows, shape


def shaped(values: Reals, shape: tuple[int, ...]) -> float | Reals:
    """One number a point, in the shape of the points; a Python float for a single one."""
    return float(values[0]) if shape == () else values.reshape(shape)


def check_draws(draws: object, *, low: int = 0) -> int:
    """Return a number of draws, else raise."""
    return check_integer("draws", draws, low=low, high=MOST_DRAWS)


def _names(names: Sequence[str] | None, dimension: int) -> list[str]:
    """Names of the columns of a table."""
    if names is None:
        return ["x"] if dimension == 1 else [f"x{axis + 1}" for axis in range(dimension)]
    given: Any = names  # whose type may be another one
    if isinstance(given, str) or not isinstance(given, Sequence) or not all(isinstance(name, str) for name in given):
        raise ParameterTypeError(f"names must be a sequence of str, got {names!r}")
    labels = list(names)
    if len(labels) != dimension or len(set(labels)) != dimension:
        raise ParameterError(f"names must be {dimension} different names, got {labels!r}")
    return labels
