"""Statistical models on finite sample spaces, and linear functionals of them."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, overload

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dpcore._validation import REAL_DTYPES, check_array, check_finite, check_integer, check_positive, check_real
from dpcore.errors import DataError, ParameterError, ParameterTypeError
from dpcore.minimax.programs.frames import STANDARD, Frame, frame_of, possible_points
from dpcore.minimax.programs.linear_programs import InfeasibleError
from dpcore.minimax.programs.membership import distance_to
from dpcore.minimax.programs.program import Program, Region
from dpcore.minimax.spaces.hoelder import check_equidistant, difference_quotient, hoelder_region
from dpcore.minimax.spaces.line import MomentLine

Array = npt.NDArray[np.float64]
LEAST_BOUND = 2.0**-40
"""The bound of a condition counts as at least this share of its largest coefficient, when the condition is scaled."""


class Model:
    r"""Your assumption about the records, and the number that you want to estimate.

    A model is a convex set of distributions on X points, 𝒫 = {p ≥ 0, Σp = 1, A p ≤ b}, with a linear functional θ(p) = f·p.

    Parameters
    ----------
    f : array_like of float, shape (X,)
        The value of the functional at each point, in any unit; X ≥ 2.
    A : array_like or scipy.sparse array, shape (m, X), optional
        Left-hand sides of the conditions. By default there are none, and the model holds all distributions on the points.
    b : array_like of float, shape (m,), optional
        Right-hand sides of the conditions; required with `A`.
    points : array_like of float, shape (X,) or (X, d), optional
        The positions of the points; required for `codes`.

    Attributes
    ----------
    f : ndarray of float64, shape (X,)
        The functional.
    points : ndarray of float64 or None
        The positions of the points.
    size : int
        X, the number of points.

    Raises
    ------
    ParameterError, ParameterTypeError
        If shapes do not match, a number is not finite, or no distribution satisfies the conditions.

    Notes
    -----
    Every bound that `dpcore.minimax` proves holds for the distributions of the model, and these have all their mass on its points. A grid
    of points replaces a continuous sample space. The class methods build the models of Steinberger (2019), Beispiele 3.6 to 3.8. Two
    models are equal only if they are the same object.
    Cost: two linear programs.
    Source: Steinberger (2019), chapter 3.

    Examples
    --------
    >>> from dpcore.minimax import Model
    >>> model = Model([0.0, 1.0, 2.0], A=[[0.0, 1.0, 4.0]], b=[1.0])  # E x² ≤ 1
    >>> [round(end, 9) for end in model.theta_range], model.theta([0.5, 0.5, 0.0])
    ([0.0, 1.0], 0.5)
    """

    f: Array
    points: Array | None
    region: Region
    line: MomentLine | None = None
    """The distributions on all of ℝ that a grid stands for, if a proof covers them, too: those of `moment` without a functional."""

    def __init__(self, f: Any, A: Any = None, b: Any = None, *, points: Any = None) -> None:
        values = _vector("f", f)
        if len(values) < 2:
            raise ParameterError(f"f must have at least two values, one for each point, got {len(values)}")
        rows, bounds = _conditions(A, b, len(values))
        size = len(values)
        simplex = sp.csr_array(np.ones((1, size)))
        region = Region(sp.eye_array(size, format="csr"), simplex, np.ones(1), rows, bounds, np.zeros(size, np.bool_))
        self._settle(values, region, points)

    def _settle(self, f: Array, region: Region, points: Any) -> None:
        self.f = _frozen(f)
        self.region = region
        self.points = None if points is None else _frozen(_points(points, len(f)))
        try:
            _ = self.theta_range
        except InfeasibleError:
            raise ParameterError("A and b must leave at least one distribution: no distribution on the points satisfies them all") from None

    @classmethod
    def _of_region(cls, f: Array, region: Region, points: Any) -> Model:
        model = cls.__new__(cls)
        model._settle(f, region, points)  # noqa: SLF001  its own class
        return model

    @classmethod
    def moment(cls, grid: Any, *, kappa: float, C: float, f: Any = None) -> Model:
        """All distributions on a grid with E|f|^κ ≤ C: heavy tails, of which only a moment is bounded.

        Parameters
        ----------
        grid : array_like of float, shape (X,)
            The points.
        kappa : float
            Order of the moment, κ in (1, 1024].
        C : float
            Bound of the moment, positive.
        f : array_like of float, shape (X,), optional
            The functional; by default the grid itself, so that θ is the mean.

        Returns
        -------
        Model
            The model of Steinberger (2019), Beispiel 3.6. It is case A, a bounded f, if the grid ends before (C/(2η))^{1/κ}, where η is
            the radius of the modulus you compute, and case B if it reaches further.

        Raises
        ------
        ParameterError, ParameterTypeError
            If a parameter is outside its range or of the wrong type.

        Examples
        --------
        >>> import numpy as np
        >>> from dpcore.minimax import Model
        >>> Model.moment(np.linspace(-10.0, 10.0, 81), kappa=2.0, C=4.0)
        Model(81 points, θ in [-2, 2])
        """
        points = _vector("grid", grid)
        values = points if f is None else _vector("f", f)
        kappa = check_real("kappa", kappa, low=1.0, high=1024.0, include_low=False)
        with np.errstate(over="ignore"):
            powers = np.abs(values) ** kappa
        check_finite("|f|^kappa", powers)
        model = cls(values, powers[None], [check_positive("C", C)], points=points)
        model.line = MomentLine(kappa, float(C)) if f is None else None
        return model

    @classmethod
    def hull(cls, f: Any, vertices: Any, *, points: Any = None) -> Model:
        """All mixtures of a list of distributions.

        Parameters
        ----------
        f : array_like of float, shape (X,)
            The functional.
        vertices : array_like or scipy.sparse array, shape (V, X)
            The distributions, one a row; each sums to 1 within 1e-9.
        points : array_like of float, shape (X,) or (X, d), optional
            The positions of the points.

        Returns
        -------
        Model

        Raises
        ------
        ParameterError, ParameterTypeError
            If a row is not a distribution, or shapes do not match.

        Examples
        --------
        >>> from dpcore.minimax import Model
        >>> Model.hull([0.0, 1.0, 2.0], [[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]])
        Model(3 points, θ in [0.5, 1.5])
        """
        values = _vector("f", f)
        rows = _matrix("vertices", vertices, len(values))
        sums = rows.sum(axis=1)
        if rows.shape[0] < 1 or (rows.data < 0).any() or np.abs(sums - 1).max() > 1e-9:
            raise ParameterError("vertices must have at least one row, and each row must be numbers ≥ 0 that sum to 1 within 1e-9")
        image = sp.csr_array(sp.diags_array(1 / sums) @ rows).T.tocsr()
        count = rows.shape[0]
        weights = sp.csr_array(np.ones((1, count)))
        region = Region(image, weights, np.ones(1), sp.csr_array((0, count)), np.zeros(0), np.zeros(count, np.bool_))
        return cls._of_region(values, region, points)

    @classmethod
    def uniform_scale(cls, M: float, *, cells: int) -> Model:
        """The uniform distributions on [0, ϑ] with ϑ ≤ M and their mixtures, on equal cells; θ = ϑ = E 2x.

        Parameters
        ----------
        M : float
            Largest ϑ, positive.
        cells : int
            X ≥ 2; ϑ takes the multiples of M/X.

        Returns
        -------
        Model
            The points are the middles of the cells. The mixtures are exactly the distributions whose masses do not increase.

        Raises
        ------
        ParameterError, ParameterTypeError
            If a parameter is outside its range or of the wrong type.

        Notes
        -----
        Source: Steinberger (2019), Beispiel 3.7.

        Examples
        --------
        >>> from dpcore.minimax import Model
        >>> Model.uniform_scale(2.0, cells=16)
        Model(16 points, θ in [0.125, 2])
        """
        M, cells = check_positive("M", M), check_integer("cells", cells, low=2)
        middles = (np.arange(cells) + 0.5) * (M / cells)
        step = sp.diags_array([-1.0, 1.0], offsets=[0, 1], shape=(cells - 1, cells), format="csr")
        return cls(2 * middles, step, np.zeros(cells - 1), points=middles)

    @classmethod
    def hoelder_density(cls, grid: Any, *, smoothness: float, C: float, x0: float, m: int = 0) -> Model:
        r"""Densities of the Hölder class H(β, C) on an equidistant grid; θ is the density or its m-th derivative at x0.

        Parameters
        ----------
        grid : array_like of float, shape (X,)
            Middles of cells, ascending at equal distances. The density is 0 outside.
        smoothness : float
            β > 0.
        C : float
            Hölder constant, positive.
        x0 : float
            The point at which the density is estimated, within the grid.
        m : int, default 0
            Order of the derivative, 0 ≤ m < smoothness.

        Returns
        -------
        Model
            p holds the masses of the cells, so the density is p/spacing. With b = ⌊β⌋ and D^b the b-th difference quotient of the density,
            which is 0 beyond both ends, \|D^b(x) − D^b(y)\| ≤ C\|x − y\|^{β − b} for all pairs of points. θ is the central difference
            quotient of order m.

        Raises
        ------
        ParameterError, ParameterTypeError
            If a parameter is outside its range or of the wrong type, if no density of the class fits on the grid, or if the grid has more
            than 10^5 pairs of points and `smoothness` is not an integer.

        Notes
        -----
        Source: Steinberger (2019), Beispiel 3.8, which states the condition on all of ℝ.

        Examples
        --------
        >>> import numpy as np
        >>> from dpcore.minimax import Model
        >>> model = Model.hoelder_density(np.linspace(-3.0, 3.0, 61), smoothness=2.0, C=1.0, x0=0.0)
        >>> f"{model.theta_range[1]:.3f}"  # the largest density at 0
        '0.520'
        """
        points = check_equidistant(_vector("grid", grid))
        smoothness, C = check_positive("smoothness", smoothness), check_positive("C", C)
        m = check_integer("m", m, low=0, high=math.ceil(smoothness) - 1)
        x0 = check_real("x0", x0, low=float(points[0]), high=float(points[-1]))
        spacing = float(points[-1] - points[0]) / (len(points) - 1)
        functional = difference_quotient(points, x0, m) / spacing
        return cls._of_region(functional, hoelder_region(len(points), spacing, smoothness, C), points)

    @property
    def size(self) -> int:
        """X, the number of points."""
        return len(self.f)

    @cached_property
    def possible(self) -> npt.NDArray[np.bool_]:
        """Points that may have mass, shape (X,): no single condition forbids it. The values of f elsewhere do not matter."""
        return possible_points(self.region)

    @property
    def frame(self) -> Frame:
        """The conversion of results about `standard` to the units of this model."""
        return self._standard[0]

    @property
    def standard(self) -> Model:
        """The same distributions, with the functional shifted and scaled to [−1, 1]. All programs are solved in this form."""
        return self._standard[1]

    @cached_property
    def _standard(self) -> tuple[Frame, Model]:
        frame, values = frame_of(self.f, self.possible)
        model = Model.__new__(Model)
        model.f, model.region, model.points = _frozen(values), self.region, self.points
        vars(model).update(possible=self.possible, _standard=(STANDARD, model))
        return frame, model

    @cached_property
    def theta_range(self) -> tuple[float, float]:
        """The smallest and the largest θ of the model, from two linear programs."""
        return 0.0 - self.extreme(-self.f)[0], self.extreme(self.f)[0]

    def theta(self, p: npt.ArrayLike) -> float | Array:
        """Evaluate the functional, θ(p) = f·p.

        Parameters
        ----------
        p : array_like of float, shape (..., X)
            Distributions.

        Returns
        -------
        float or ndarray of float64, shape (...)
            A float for a single distribution.

        Raises
        ------
        ParameterError, ParameterTypeError
            If the last axis of `p` does not have X entries.
        """
        result: Array = self._distributions(p) @ self.f
        return float(result) if np.ndim(result) == 0 else result

    def extreme(self, direction: npt.ArrayLike) -> tuple[float, Array]:
        """Maximize direction·p over the model.

        Parameters
        ----------
        direction : array_like of float, shape (X,)
            A linear functional.

        Returns
        -------
        tuple of float and ndarray of float64, shape (X,)
            The maximum, and a distribution that attains it. Both are accurate to the tolerance of the solver, about 1e-10.

        Raises
        ------
        ParameterError, ParameterTypeError
            If `direction` does not have X finite entries.
        """
        row = _vector("direction", direction)
        if len(row) != self.size:
            raise ParameterError(f"direction must have {self.size} numbers, one for each point, got {len(row)}")
        frame, shape = frame_of(row, self.possible)
        program = Program()
        p = program.member(self)
        found = program.maximise(shape @ p).value_of(p)
        return frame.point(float(shape @ found)), found

    def contains(self, p: npt.ArrayLike, *, tolerance: float = 1e-9) -> bool:
        """Return whether a distribution belongs to the model.

        Parameters
        ----------
        p : array_like of float, shape (X,)
            A distribution.
        tolerance : float, default 1e-9
            The largest total variation distance to the nearest member that still counts as belonging, in [0, 1]; at least 1e-9 is
            allowed.

        Returns
        -------
        bool

        Raises
        ------
        ParameterError, ParameterTypeError
            If `p` is not one vector of X numbers, or `tolerance` is outside its range.
        """
        tolerance = max(check_real("tolerance", tolerance, low=0.0, high=1.0), 1e-9)
        target = self._distributions(p)
        if target.ndim != 1:
            raise ParameterError(f"p must be one distribution, got shape {target.shape}")
        if abs(target.sum() - 1) > tolerance:
            return False
        return distance_to(self, target) <= tolerance

    @overload
    def codes(self, records: float) -> int: ...
    @overload
    def codes(self, records: npt.ArrayLike) -> int | npt.NDArray[np.int64]: ...
    def codes(self, records: Any) -> Any:
        """Find the nearest point for each record. A channel of the model takes these codes.

        Parameters
        ----------
        records : array_like of float, shape (...) or (..., d)
            Numbers, or vectors if the points are vectors. A record beyond the grid gets the code of a point at its edge.

        Returns
        -------
        int or ndarray of int64, shape (...)
            The index of the nearest point; of two equally near points, the smaller one.

        Raises
        ------
        ParameterError
            If the model has no points, or they have another dimension than the records.
        DataError
            If a number is NaN.
        """
        if self.points is None:
            raise ParameterError("the model has no points: give it `points` before you ask for the nearest ones")
        values = check_array("records", records, REAL_DTYPES).astype(np.float64, copy=False)
        missing = np.isnan(values)
        if missing.any():
            raise DataError(f"records must not hold NaN; the number at index {np.unravel_index(int(missing.argmax()), values.shape)} is")
        found = _nearest(self.points, values)
        return int(found) if found.ndim == 0 else found

    def _distributions(self, p: Any) -> Array:
        values = check_array("p", p, REAL_DTYPES).astype(np.float64, copy=False)
        if values.ndim < 1 or values.shape[-1] != self.size:
            raise ParameterError(f"p must have {self.size} masses along its last axis, got shape {values.shape}")
        return values

    def __repr__(self) -> str:
        below, above = self.theta_range
        return f"Model({self.size} points, θ in [{below:.6g}, {above:.6g}])"


def _frozen(array: Array) -> Array:
    result = np.array(array, np.float64)
    result.flags.writeable = False
    return result


def _vector(name: str, value: Any) -> Array:
    array = check_array(name, value, REAL_DTYPES).astype(np.float64)
    if array.ndim != 1 or not np.isfinite(array).all():
        raise ParameterError(f"{name} must be a vector of finite numbers, got shape {array.shape}")
    return array


def _points(value: Any, size: int) -> Array:
    array = check_array("points", value, REAL_DTYPES).astype(np.float64)
    if array.ndim not in (1, 2) or len(array) != size or not np.isfinite(array).all():
        raise ParameterError(f"points must be {size} finite numbers or vectors, got shape {array.shape}")
    return array


def _matrix(name: str, value: Any, width: int) -> Any:
    if not sp.issparse(value):
        value = check_array(name, value, REAL_DTYPES)
        if value.ndim != 2:
            raise ParameterError(f"{name} must be a matrix, got shape {value.shape}")
    matrix = sp.csr_array(value, dtype=np.float64)
    if matrix.shape[1] != width or not np.isfinite(matrix.data).all():
        raise ParameterError(f"{name} must have {width} columns of finite numbers, got shape {matrix.shape}")
    return matrix


def _conditions(A: Any, b: Any, size: int) -> tuple[Any, Array]:
    if (A is None) != (b is None):
        raise ParameterTypeError("A and b must be given together")
    if A is None:
        return sp.csr_array((0, size)), np.zeros(0)
    rows, bounds = _matrix("A", A, size), _vector("b", b)
    if len(bounds) != rows.shape[0]:
        raise ParameterError(f"b must have {rows.shape[0]} bounds, one for each row of A, got {len(bounds)}")
    return _scaled(rows, bounds)


def _scaled(rows: Any, bounds: Array) -> tuple[Any, Array]:
    """Scale each condition by a power of two that brings its bound, or its largest coefficient if the bound is 0, near 1.

    HiGHS drops coefficients below 1e-9 and refuses those above 1e15, and its tolerances are absolute.
    """
    largest = np.abs(rows).max(axis=1).toarray().ravel() if rows.shape[0] else np.zeros(0)
    sizes = np.where(bounds == 0, largest, np.maximum(np.abs(bounds), largest * LEAST_BOUND))
    powers = -np.frexp(np.where(sizes > 0, sizes, 1.0))[1]
    scaled = rows.copy()
    scaled.data = np.ldexp(rows.data, np.repeat(powers, np.diff(rows.indptr)))
    return scaled, np.ldexp(bounds, powers)


def _nearest(points: Array, values: Array) -> npt.NDArray[np.int64]:
    if points.ndim == 1:
        order = np.argsort(points, kind="stable")
        ascending = points[order]
        middles = ascending[:-1] + (ascending[1:] - ascending[:-1]) / 2
        return np.asarray(order[np.searchsorted(middles, values, side="left")], np.int64)
    if values.ndim < 1 or values.shape[-1] != points.shape[1]:
        raise ParameterError(f"records must have {points.shape[1]} numbers along its last axis, got shape {values.shape}")
    from scipy.spatial import KDTree

    return np.asarray(KDTree(points).query(values)[1], np.int64)
