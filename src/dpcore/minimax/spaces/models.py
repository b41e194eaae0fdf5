"""Statistical models on finite sample spaces, and linear functionals of them."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dpcore._validation import REAL_DTYPES, check_array, check_finite, check_integer, check_positive, check_real
from dpcore.errors import DataError, ParameterError, ParameterTypeError
from dpcore.minimax.programs.frames import STANDARD, Frame, frame_of, possible_points
from dpcore.minimax.programs.linear_programs import InfeasibleError
from dpcore.minimax.programs.programs import Program, Region

Array = npt.NDArray[np.float64]
MOST_PAIRS = 100_000
"""Pairs of grid points that a Hölder condition with a fractional exponent may have."""
LEAST_BOUND = 2.0**-40
"""A condition's bound that is smaller than this share of its largest coefficient counts as this small."""


class Model:
    r"""A convex set of distributions on X points, and a linear functional: 𝒫 = {p ≥ 0, Σp = 1, A p ≤ b}, θ(p) = f·p.

    Parameters
    ----------
    f : array_like of float, shape (X,)
        The functional's value at each point, in any unit and from any origin; X ≥ 2.
    A : array_like or scipy.sparse array, shape (m, X), optional
        Rows of the conditions; none by default: all distributions on the points.
    b : array_like of float, shape (m,), optional
        Their bounds; required with `A`.
    points : array_like of float, shape (X,) or (X, d), optional
        Where the points lie, for `codes`.

    Attributes
    ----------
    f : ndarray of float64, shape (X,)
        The functional.
    points : ndarray of float64 or None
        Where the points lie.
    size : int
        X.

    Raises
    ------
    ParameterError, ParameterTypeError
        If shapes do not fit, a number is not finite, or no distribution satisfies the conditions.

    Notes
    -----
    Everything that `dpcore.minimax` certifies holds for the distributions of the model, that is on these points. Grids make continuous
    problems finite; the class methods build those of Steinberger (2019), Beispiele 3.6 to 3.8. Models are compared by identity.
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

    def __init__(self, f: Any, A: Any = None, b: Any = None, *, points: Any = None) -> None:
        values = _vector("f", f)
        if len(values) < 2:
            raise ParameterError(f"f must have at least two values, got {len(values)}")
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
            raise ParameterError("the conditions must be satisfied by some distribution on the points, and none does") from None

    @classmethod
    def _of_region(cls, f: Array, region: Region, points: Any) -> Model:
        model = cls.__new__(cls)
        model._settle(f, region, points)  # noqa: SLF001  its own class
        return model

    @classmethod
    def moment(cls, grid: Any, *, kappa: float, C: float, f: Any = None) -> Model:
        """All distributions on a grid with E|f|^κ ≤ C.

        Parameters
        ----------
        grid : array_like of float, shape (X,)
            The points.
        kappa : float
            κ > 1.
        C : float
            Bound of the moment, positive.
        f : array_like of float, shape (X,), optional
            The functional; by default the grid itself, whose mean is then estimated.

        Returns
        -------
        Model
            Steinberger (2019), Beispiel 3.6: case A where f is bounded, case B where the grid reaches beyond (C/2η)^{1/κ} for every modulus
            ω(η) that is asked of it.
        """
        points = _vector("grid", grid)
        values = points if f is None else _vector("f", f)
        kappa = check_real("kappa", kappa, low=1.0, high=1024.0, include_low=False)
        with np.errstate(over="ignore"):
            powers = np.abs(values) ** kappa
        check_finite("|f|^kappa", powers)
        return cls(values, powers[None], [check_positive("C", C)], points=points)

    @classmethod
    def hull(cls, f: Any, vertices: Any, *, points: Any = None) -> Model:
        """All mixtures of some distributions.

        Parameters
        ----------
        f : array_like of float, shape (X,)
            The functional.
        vertices : array_like or scipy.sparse array, shape (V, X)
            The distributions; each sums to 1 within 1e-9.
        points : array_like of float, shape (X,) or (X, d), optional
            Where the points lie.
        """
        values = _vector("f", f)
        rows = _matrix("vertices", vertices, len(values))
        sums = rows.sum(axis=1)
        if rows.shape[0] < 1 or (rows.data < 0).any() or np.abs(sums - 1).max() > 1e-9:
            raise ParameterError("vertices must be distributions: rows of numbers ≥ 0 that sum to 1, at least one")
        image = sp.csr_array(sp.diags_array(1 / sums) @ rows).T.tocsr()
        count = rows.shape[0]
        weights = sp.csr_array(np.ones((1, count)))
        region = Region(image, weights, np.ones(1), sp.csr_array((0, count)), np.zeros(0), np.zeros(count, np.bool_))
        return cls._of_region(values, region, points)

    @classmethod
    def uniform_scale(cls, M: float, *, cells: int) -> Model:
        """The uniform distributions on [0, ϑ], ϑ ≤ M, and their mixtures, on equal cells; θ = ϑ = E 2x.

        Parameters
        ----------
        M : float
            Largest ϑ, positive.
        cells : int
            X ≥ 2; ϑ runs over the multiples of M/X.

        Returns
        -------
        Model
            Points are the cells' middles. Mixtures of these uniform distributions are the distributions whose masses do not increase, and
            that is how they are described. Steinberger (2019), Beispiel 3.7.
        """
        M, cells = check_positive("M", M), check_integer("cells", cells, low=2)
        middles = (np.arange(cells) + 0.5) * (M / cells)
        step = sp.diags_array([-1.0, 1.0], offsets=[0, 1], shape=(cells - 1, cells), format="csr")
        return cls(2 * middles, step, np.zeros(cells - 1), points=middles)

    @classmethod
    def hoelder_density(cls, grid: Any, *, smoothness: float, C: float, x0: float, m: int = 0) -> Model:
        r"""Densities of the Hölder class H(β, C) on an equidistant grid; θ is the m-th derivative at x0.

        Parameters
        ----------
        grid : array_like of float, shape (X,)
            Equidistant, ascending middles of cells; the density is 0 outside.
        smoothness : float
            β > 0.
        C : float
            Hölder constant, positive.
        x0 : float
            Where the density is estimated, within the grid.
        m : int, default 0
            Order of the derivative, 0 ≤ m < smoothness.

        Returns
        -------
        Model
            p are the masses of the cells, density = p/spacing. With b = ⌊β⌋ and D^b the b-th difference quotient, continued by zeros beyond
            both ends, \|D^b(x) − D^b(y)\| ≤ C\|x − y\|^{β − b} for all pairs of the grid. θ is the central difference quotient of order m.

        Raises
        ------
        ParameterError
            If the grid is too short for any density of the class, or has too many pairs (10^5, where β is no integer).

        Notes
        -----
        Steinberger (2019), Beispiel 3.8, where the condition speaks of all of ℝ.
        """
        points = _equidistant(grid)
        beta, C = check_positive("smoothness", smoothness), check_positive("C", C)
        m = check_integer("m", m, low=0, high=math.ceil(beta) - 1)
        x0 = check_real("x0", x0, low=float(points[0]), high=float(points[-1]))
        spacing = float(points[-1] - points[0]) / (len(points) - 1)
        functional = _difference_quotient(points, x0, m) / spacing
        return cls._of_region(functional, _hoelder_region(len(points), spacing, beta, C), points)

    @property
    def size(self) -> int:
        """X, the number of points."""
        return len(self.f)

    @cached_property
    def possible(self) -> npt.NDArray[np.bool_]:
        """Points that no condition alone forbids any mass, shape (X,); what f is elsewhere does not matter."""
        return possible_points(self.region)

    @property
    def frame(self) -> Frame:
        """What brings results about `standard` back to the model's own units."""
        return self._standard[0]

    @property
    def standard(self) -> Model:
        """The same distributions with the functional moved and scaled to [−1, 1]: what programmes are solved for."""
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
        """The least and the largest θ of the model, by two linear programmes."""
        return 0.0 - self.extreme(-self.f)[0], self.extreme(self.f)[0]

    def theta(self, p: Any) -> Any:
        """θ(p) = f·p.

        Parameters
        ----------
        p : array_like of float, shape (..., X)
            Distributions.

        Returns
        -------
        float or ndarray of float64, shape (...)
        """
        result = self._distributions(p) @ self.f
        return float(result) if np.ndim(result) == 0 else result

    def extreme(self, direction: Any) -> tuple[float, Array]:
        """Give max direction·p over the model, and a p that attains it; one linear programme.

        Parameters
        ----------
        direction : array_like of float, shape (X,)

        Returns
        -------
        tuple of float and ndarray of float64, shape (X,)
        """
        row = _vector("direction", direction)
        if len(row) != self.size:
            raise ParameterError(f"direction must have {self.size} numbers, got {len(row)}")
        frame, shape = frame_of(row, self.possible)
        program = Program()
        p = program.member(self)
        found = program.maximise(shape @ p).value_of(p)
        return frame.point(float(shape @ found)), found

    def contains(self, p: Any, *, tolerance: float = 1e-9) -> bool:
        """Whether a distribution belongs to the model.

        Parameters
        ----------
        p : array_like of float, shape (X,)
            A distribution.
        tolerance : float, default 1e-9
            How far, in total variation, the nearest member may be.
        """
        target = self._distributions(p)
        if target.ndim != 1:
            raise ParameterError(f"p must be one distribution, got shape {target.shape}")
        if abs(target.sum() - 1) > tolerance:
            return False
        program = Program()
        member, more = program.member(self), program.variables(self.size)
        program.at_most(member - more, target)
        program.at_most(-1.0 * member - more, -target)
        return -program.maximise(-np.ones(self.size) @ more).value <= 2 * max(tolerance, 1e-9)

    def codes(self, records: Any) -> Any:
        """Find the nearest point of each number or vector: what a channel of this model privatises.

        Parameters
        ----------
        records : array_like of float, shape (...) or (..., d)
            Data; beyond the grid the nearest point is at its edge.

        Returns
        -------
        int or ndarray of int64, shape (...)
            Of two points that are equally near, the first.

        Raises
        ------
        ParameterError
            If the model has no points, or the data another dimension.
        DataError
            If a number is NaN.
        """
        if self.points is None:
            raise ParameterError("points must be given to the model before data can be brought to them")
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
    """The same conditions, each times a power of two that brings its bound, or else its largest coefficient, near 1.

    HiGHS takes coefficients below 1e-9 for zeros and refuses those above 1e15; and its tolerances are absolute.
    """
    largest = np.abs(rows).max(axis=1).toarray().ravel() if rows.shape[0] else np.zeros(0)
    sizes = np.where(bounds == 0, largest, np.maximum(np.abs(bounds), largest * LEAST_BOUND))
    powers = -np.frexp(np.where(sizes > 0, sizes, 1.0))[1]
    scaled = rows.copy()
    scaled.data = np.ldexp(rows.data, np.repeat(powers, np.diff(rows.indptr)))
    return scaled, np.ldexp(bounds, powers)


def _equidistant(grid: Any) -> Array:
    points = _vector("grid", grid)
    steps = np.diff(points)
    if len(points) < 3 or not steps.min() > 0 or np.ptp(steps) > 1e-6 * steps.max():
        raise ParameterError(f"grid must be at least three ascending, equidistant numbers, got {len(points)} numbers")
    return points


def _difference_quotient(points: Array, x0: float, m: int) -> Array:
    """Weights on the nearest m + 1 points (m + 2 if m is odd, so that they lie around x0) that are exact for polynomials."""
    nearest = np.sort(np.argsort(np.abs(points - x0), kind="stable")[: m + 1 + m % 2])
    spacing = points[1] - points[0]
    offsets = (points[nearest] - x0) / spacing
    right = np.zeros(len(nearest))
    right[m] = math.factorial(m)
    weights = np.zeros(len(points))
    weights[nearest] = np.linalg.solve(np.vander(offsets, increasing=True).T, right) / spacing**m
    return weights


def _hoelder_region(size: int, spacing: float, beta: float, C: float) -> Region:
    b = math.floor(beta)
    signs = [float((-1) ** (b - j) * math.comb(b, j)) for j in range(b + 1)]
    # Differences of order b that touch the grid, with zeros beyond its ends; one more on each side is 0.
    quotients: Any = sp.diags_array(signs[::-1], offsets=[-j for j in range(b + 1)], shape=(size + b, size), format="csr")
    # In units of C·spacing^(β − b), the bound between neighbours.
    quotients = sp.csr_array(quotients / (C * spacing ** (beta + 1)))
    if beta == b:
        # All lie in an interval of length 1 around 0: one more variable is where the interval begins.
        return _interval_region(size, quotients)
    count = size + b + 2
    if count * (count - 1) // 2 > MOST_PAIRS:
        raise ParameterError(f"grid must have at most {MOST_PAIRS} pairs of points where beta is no integer, got {size} points")
    padded = sp.vstack([sp.csr_array((1, size)), quotients, sp.csr_array((1, size))], format="csr")
    first, second = np.triu_indices(count, 1)
    differences = sp.csr_array(padded[first] - padded[second])
    bounds = (second - first).astype(np.float64) ** (beta - b)
    below = sp.vstack([differences, -differences], format="csr")
    simplex = sp.csr_array(np.ones((1, size)))
    return Region(sp.eye_array(size, format="csr"), simplex, np.ones(1), below, np.concatenate([bounds, bounds]), np.zeros(size, np.bool_))


def _interval_region(size: int, quotients: Any) -> Region:
    rows = quotients.shape[0]
    image = sp.hstack([sp.eye_array(size), sp.csr_array((size, 1))], format="csr")
    # start ≤ quotient ≤ start + 1, and the zeros beyond the ends: start ≤ 0 ≤ start + 1
    start = sp.csr_array(np.ones((rows, 1)))
    edges = sp.csr_array(np.concatenate([np.zeros((2, size)), [[1.0], [-1.0]]], axis=1))
    below = sp.vstack([sp.hstack([-quotients, start]), sp.hstack([quotients, -start]), edges], format="csr")
    at_most = np.concatenate([np.zeros(rows), np.ones(rows), [0.0, 1.0]])
    simplex = sp.csr_array(np.concatenate([np.ones((1, size)), [[0.0]]], axis=1))
    free = np.zeros(size + 1, np.bool_)
    free[-1] = True
    return Region(image, simplex, np.ones(1), below, at_most, free)


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
