"""Distances between distributions, small ball probabilities, and how a mechanism's error falls with the number of records."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy import stats

from dpcore._validation import REAL_DTYPES, check_array, check_integer, check_positive, check_real
from dpcore.distributions._bands import Sums
from dpcore.distributions._cells import Bounds, Box, Cells
from dpcore.distributions._choices import unit_floats
from dpcore.distributions._results import DrawsRelease, Release
from dpcore.errors import DataError, ParameterError, ParameterTypeError
from dpcore.rng import resolve

if TYPE_CHECKING:
    from dpcore.rng import Stream

Reals = npt.NDArray[np.float64]
Function = Callable[[Any], Any]
Distribution = Release | Function | npt.ArrayLike
Density = Release | Function

MOST_POINTS = 2**22
"""Largest number of points where distances are evaluated."""
NODES = 8
"""Gauss-Legendre nodes of a piece and axis: polynomials of degree 15 are integrated exactly."""
MOST_DRAWS = 2**20
_BLOCK = 1 << 20
"""Numbers simulated together."""


def ks_distance(first: Distribution, second: Distribution, *, points: int = 4096) -> float:
    r"""Give the Kolmogorov-Smirnov distance sup_x \|F(x) − G(x)\|.

    Parameters
    ----------
    first, second : Release, array_like or callable
        A release; draws or records, (k,) or (k, r); or a distribution function that takes an array of points, (q,) or (q, r).
    points : int, default 4096
        Number of points where two distribution functions without steps are compared, in [2, 2^22].

    Returns
    -------
    float
        In [0, 1].

    Raises
    ------
    ParameterError, ParameterTypeError
        If `points` is out of range, dimensions differ, there is no release and no array among the two, or more than 2^22 points are needed.
    DataError
        If an array holds NaN.

    Notes
    -----
    Exact up to the rounding of the functions where one of the two is draws (an array or a `DrawsRelease`): between steps the other one is
    monotone, so the largest difference is at a step or just before it, where functions are evaluated at the next smaller float64. For r
    coordinates that is the grid of all coordinates, (k + 1)^r points. Two histograms are compared exactly at the ends of their
    bins. Anything else is compared at evenly spaced points, below the supremum by at most the mass between two of them.
    Cost: one sort and two evaluations a point.

    References
    ----------
    Wasserman & Zhou (2010), Section 3.

    Examples
    --------
    >>> import numpy as np
    >>> round(ks_distance([0.1, 0.4, 0.7], lambda x: np.clip(x, 0, 1)), 4)
    0.3
    """
    points = check_integer("points", points, low=2, high=MOST_POINTS)
    curves = (_Curve.of("first", first), _Curve.of("second", second))
    dimension = _common_dimension(curves)
    steps = [curve.steps for curve in curves if curve.steps is not None]
    if steps:
        axes = [np.unique(np.concatenate([s[:, axis] for s in steps])) for axis in range(dimension)]
    else:
        axes = _even_axes(curves, dimension, points)
    if dimension > 1:  # above the last step on one axis the functions still differ on the others
        axes = [np.append(axis, np.inf) for axis in axes]
    if math.prod(map(len, axes)) > MOST_POINTS:
        raise ParameterError(f"first and second must take at most 2^22 points to compare, got {' × '.join(str(len(a)) for a in axes)}")
    before = [np.nextafter(axis, -np.inf) for axis in axes]
    return max(_largest_difference(curves, axes), _largest_difference(curves, before))


@dataclass(frozen=True, slots=True)
class _Curve:
    """A distribution function of rows (q, r), and where its steps are, or its box."""

    values: Function
    dimension: int | None
    steps: Reals | None = None
    box: Box | None = None
    edges: tuple[Reals, ...] = ()

    @classmethod
    def of(cls, name: str, value: Distribution) -> _Curve:
        if isinstance(value, DrawsRelease):
            return cls(value.cdf, value.dimension, value.draws.reshape(len(value.draws), -1), value.box)
        if isinstance(value, Release):
            cells = getattr(value, "cells", None)
            edges = tuple(cells.edges(axis) for axis in range(value.dimension)) if isinstance(cells, Cells) else ()
            return cls(value.cdf, value.dimension, None, value.box, edges)
        if callable(value):
            return cls(value, None)
        array = check_array(name, value, REAL_DTYPES).astype(np.float64)
        if array.ndim not in {1, 2} or array.size == 0:
            raise ParameterError(f"{name} must be a release, a function, or an array of shape (k,) or (k, r), got shape {array.shape}")
        if np.isnan(array).any():
            raise DataError(f"{name} must not hold NaN; the number at index {int(np.isnan(array).ravel().argmax())} is NaN")
        rows = array.reshape(len(array), -1)
        return cls(_empirical(rows), rows.shape[1], rows)


def _empirical(rows: Reals) -> Function:
    """The empirical distribution function of rows (k, r)."""
    if rows.shape[1] == 1:
        ordered = np.sort(rows[:, 0])
        return lambda x: np.searchsorted(ordered, x, side="right") / len(ordered)
    return lambda x: np.array([np.mean((rows <= point).all(axis=1)) for point in x])


def _common_dimension(curves: Sequence[_Curve]) -> int:
    found = {curve.dimension for curve in curves if curve.dimension is not None}
    if not found:
        raise ParameterTypeError("first or second must be a release or an array: two functions do not say where to compare them")
    if len(found) > 1:
        raise ParameterError(f"first and second must have as many coordinates, got {min(found)} and {max(found)}")
    return found.pop()


def _even_axes(curves: Sequence[_Curve], dimension: int, points: int) -> list[Reals]:
    """Evenly spaced points of every axis, and the ends of the bins."""
    boxes = [curve.box for curve in curves if curve.box is not None]
    each = max(2, int(points ** (1 / dimension)))
    axes = []
    for axis in range(dimension):
        low, high = min(box.low[axis] for box in boxes), max(box.high[axis] for box in boxes)
        edges = [curve.edges[axis] for curve in curves if curve.edges]
        axes.append(np.unique(np.concatenate([np.linspace(low, high, each), *edges])))
    return axes


def _grid(axes: Sequence[Reals]) -> Reals:
    """All points with these coordinates, the last one changing fastest: (q,) for one axis, else (q, r)."""
    return axes[0] if len(axes) == 1 else np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))


def _largest_difference(curves: Sequence[_Curve], axes: Sequence[Reals]) -> float:
    grid = _grid(axes)
    first, second = (_values(name, curve.values, grid) for name, curve in zip(("first", "second"), curves, strict=True))
    return float(np.abs(first - second).max())


def _values(name: str, function: Function, points: Reals) -> Reals:
    """What a function says of q points, (q,); a constant stands for all of them."""
    values = np.asarray(function(points), np.float64)
    if values.shape not in {(), (len(points),)}:
        raise ParameterError(f"{name} must give one number for each point of an array of shape {points.shape}, got shape {values.shape}")
    return np.broadcast_to(values, (len(points),))


def squared_l2_distance(first: Density, second: Density, *, bounds: Bounds = None, pieces: int | None = None) -> float:
    r"""Give the squared L2 distance ∫ (f(x) − g(x))² dx of two densities, by Gauss-Legendre quadrature.

    Parameters
    ----------
    first, second : Release or callable
        A release, or a density that takes an array of points, (q,) or (q, r), in the units of the bounds.
    bounds : pair of float, or r pairs, optional
        Where to integrate; None is the box of the first release among the two, or [0, 1].
    pieces : int, optional
        Number of pieces of each axis, ≥ 1; cells of histograms are pieces of their own. None is 256, or as many as 2^22 nodes allow.

    Returns
    -------
    float
        ≥ 0, in units of 1/volume.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is out of range or of the wrong type, dimensions differ, or more than 2^22 nodes are needed.

    Notes
    -----
    Eight nodes a piece and axis. Exact up to rounding for polynomials of degree 7 on the pieces; two histograms are compared exactly. The
    error for a density with kinks inside pieces falls with the square of their number or faster.
    Cost: 8·pieces evaluations of each density for each axis, multiplied over the axes.

    References
    ----------
    Wasserman & Zhou (2010), Section 3 and Eq. 8.

    Examples
    --------
    >>> round(squared_l2_distance(lambda x: 2 * x, lambda x: 0 * x + 1), 6)
    0.333333
    """
    if pieces is not None:
        pieces = check_integer("pieces", pieces, low=1, high=MOST_POINTS)
    releases = [value for value in (first, second) if isinstance(value, Release)]
    if len({release.dimension for release in releases}) > 1:
        raise ParameterError("first and second must have as many coordinates")
    box = releases[0].box if releases and bounds is None else Box.of(bounds, releases[0].dimension if releases else _n_pairs(bounds))
    rules = [_rule(axis, box, releases, pieces or _default_pieces(axis, box, releases)) for axis in range(box.dimension)]
    if math.prod(len(nodes) for nodes, _ in rules) > MOST_POINTS:
        raise ParameterError(
            f"pieces (and cells of histograms) must give at most 2^22 nodes, got {' × '.join(str(len(nodes)) for nodes, _ in rules)}"
        )
    f, g = (_density(name, value, rules) for name, value in (("first", first), ("second", second)))
    squares = (f - g) ** 2
    for _, weights in reversed(rules):
        squares = squares @ weights
    return float(squares)


def _n_pairs(bounds: Bounds) -> int:
    return 1 if bounds is None or np.ndim(bounds) < 2 else len(bounds)


def _cells(releases: Sequence[Release]) -> list[Cells]:
    return [cells for release in releases if isinstance(cells := getattr(release, "cells", None), Cells)]


def _default_pieces(axis: int, box: Box, releases: Sequence[Release]) -> int:
    """256 on a line; on more axes as many as leave room for the cells of the releases."""
    if box.dimension == 1:
        return 256
    room = int(MOST_POINTS ** (1 / box.dimension)) // NODES
    return max(1, min(256, room - sum(cells.shape[axis] - 1 for cells in _cells(releases))))


def _rule(axis: int, box: Box, releases: Sequence[Release], pieces: int) -> tuple[Reals, Reals]:
    """Nodes and weights of an axis; no piece reaches over an end of a bin."""
    low, high = box.low[axis], box.high[axis]
    ends = np.unique(np.concatenate([np.linspace(low, high, pieces + 1), *(cells.edges(axis) for cells in _cells(releases))]))
    ends = ends[(ends >= low) & (ends <= high)]
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    half = np.diff(ends)[:, None] / 2
    return ((ends[:-1, None] + half) + half * nodes).ravel(), (half * weights).ravel()


def _density(name: str, value: Density, rules: Sequence[tuple[Reals, Reals]]) -> Reals:
    function = value.density if isinstance(value, Release) else value
    if not callable(function):
        raise ParameterTypeError(f"{name} must be a release or a function, got {type(value).__name__}")
    return _values(name, function, _grid([nodes for nodes, _ in rules])).reshape([len(nodes) for nodes, _ in rules])


def small_ball_probability(k: int, radius: float, *, bins: int | None = None, n_sim: int | None = None, rng: Stream | None = None) -> float:
    r"""Give R(k, ε) = P(sup_x \|F(x) − F_k(x)\| ≤ ε), F_k the empirical distribution function of k draws from F.

    Parameters
    ----------
    k : int
        Number of draws, in [1, 2^20].
    radius : float
        ε of the ball, ≥ 0.
    bins : int, optional
        The supremum is over the ends of this many bins that are equally likely under F. None is the whole line, for a continuous F.
    n_sim : int, optional
        Number of simulated samples; None computes the probability instead.
    rng : Stream, optional
        For simulations; None is the secure source.

    Returns
    -------
    float
        The probability; with `n_sim` the share of the simulated samples, whose standard error is √(R(1 − R)/n_sim).

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is out of range or of the wrong type.

    Notes
    -----
    The same for every continuous F. With bins, distances are multiples of 1/(k·bins), and one that is ε but for rounding counts as inside.
    Computed by `scipy.stats.kstwo`; with bins by the table of paths inside a band that the sampler of
    `ks_exponential` uses, to a relative 10^-8 or better.
    Cost: with bins, a table of bins·(k + 1) entries at most.

    References
    ----------
    Wasserman & Zhou (2010), Definition 5.2. Simard & L'Ecuyer (2011), for the whole line.

    Examples
    --------
    >>> small_ball_probability(1, 0.75)
    0.5
    >>> round(small_ball_probability(2, 0.0, bins=2), 12)
    0.5
    """
    k = check_integer("k", k, low=1, high=MOST_DRAWS)
    radius = check_real("radius", radius, low=0.0, high=math.inf)
    if bins is not None:
        bins = check_integer("bins", bins, low=1, high=2**24 // (k + 1))
    if n_sim is not None:
        return _simulated_ball(k, min(radius, 1.0), bins, check_integer("n_sim", n_sim, low=1), rng)
    if radius >= 1:
        return 1.0
    if bins is None:
        return float(stats.kstwo.cdf(radius, k))
    band = Sums.of(np.ones(bins, np.int64), k).within(_reach(k, radius, bins))
    return min(1.0, math.exp(band.log2_weight * math.log(2) + math.lgamma(k + 1) - k * math.log(bins)))


def _reach(k: int, radius: float, bins: int) -> int:
    """The largest integer |bins·C − k·i| inside the ball; one that is equal to it but for rounding of the radius is inside."""
    return math.floor(Fraction(radius) * (1 + Fraction(1, 2**50)) * k * bins)


def _simulated_ball(k: int, radius: float, bins: int | None, n_sim: int, rng: Stream | None) -> float:
    inside, block, stream = 0, max(1, _BLOCK // max(k, bins or 1)), resolve(rng)
    for start in range(0, n_sim, block):
        u = unit_floats((min(block, n_sim - start), k), rng=stream)
        if bins is None:
            u.sort(axis=1)
            steps = np.arange(k + 1) / k
            distances = np.maximum(steps[1:] - u, u - steps[:-1]).max(axis=1)
        else:
            codes = (u * bins).astype(np.int64) + bins * np.arange(len(u))[:, None]
            sums = np.bincount(codes.ravel(), minlength=bins * len(u)).reshape(len(u), bins).cumsum(axis=1)
            distances = np.abs(bins * sums - k * np.arange(1, bins + 1)).max(axis=1)
        inside += int(np.count_nonzero(distances <= (radius if bins is None else _reach(k, radius, bins))))
    return inside / n_sim


def ks_accuracy_bound(n: int, k: int, epsilon: float, radius: float, *, largest_density: float, bins: int | None = None) -> float:
    r"""Bound P(sup_x \|F(x) − F_Z(x)\| > r) for k draws Z of `ks_exponential` from n records of a distribution with a bounded density.

    Parameters
    ----------
    n : int
        Number of records, ≥ 1.
    k : int
        Number of draws, in [1, 2^20].
    epsilon : float
        Privacy loss ε, positive and finite.
    radius : float
        r, in (0, 1].
    largest_density : float
        sup p of the density p on [0, 1], ≥ 1.
    bins : int, optional
        Number m of bins. None is the mechanism without bins, as Wasserman & Zhou (2010) state it.

    Returns
    -------
    float
        2e^(−n·r²/128) + (sup p)^k·e^(−3εrn/16)/R(k, r/2), at most 1.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is out of range or of the wrong type.

    Notes
    -----
    Theorem 5.3 with Δ = 1/n and R = `small_ball_probability`; its O(n^(−c)) is P(sup\|F − F_n\| > r/16), bounded by the inequality of
    Dvoretzky, Kiefer, Wolfowitz and Massart (1990). With m bins distances are taken at the ends of bins, where they are within (sup p)/m of
    the supremum, and the score is rounded up to whole records: r becomes r − (sup p)/m, and the second term is multiplied by e^(ε/2).
    docs/exactness-ks.md.
    Theorem 5.4: with k = (3ε/B)^(2/3) n^(2/3)/16 and r = 2(B/3ε)^(1/3) n^(−1/3), B = ln sup p, the bound falls to 0.

    References
    ----------
    Wasserman & Zhou (2010), Theorems 5.3 and 5.4.

    Examples
    --------
    >>> ks_accuracy_bound(10**6, 50, 1.0, 0.05, largest_density=2.0) < 0.01
    True
    """
    n, k = check_integer("n", n, low=1), check_integer("k", k, low=1, high=MOST_DRAWS)
    epsilon, radius = check_positive("epsilon", epsilon), check_real("radius", radius, low=0.0, high=1.0, include_low=False)
    largest = check_real("largest_density", largest_density, low=1.0, high=math.inf, include_high=False)
    rounding = 0.0
    if bins is not None:
        radius -= largest / check_integer("bins", bins, low=1)
        rounding = epsilon / 2
    inside = small_ball_probability(k, radius / 2) if radius > 0 else 0.0
    if inside <= 0:
        return 1.0
    exponent = k * math.log(largest) - 3 * epsilon * radius * n / 16 + rounding - math.log(inside)
    return min(1.0, 2 * math.exp(-2 * n * (radius / 16) ** 2) + math.exp(min(exponent, 0.0)))


@dataclass(frozen=True, slots=True, eq=False)
class Consistency:
    """Distances of released distributions from the true one, at several numbers of records.

    Attributes
    ----------
    sizes : tuple of int
        Numbers n of records.
    distances : ndarray of float64, shape (len(sizes), repeats)
        KS distances of the repeated releases.
    """

    sizes: tuple[int, ...]
    distances: Reals

    @property
    def mean(self) -> Reals:
        """Mean distance at each size."""
        return np.asarray(self.distances.mean(axis=1))

    @property
    def stderr(self) -> Reals:
        """Standard error of each mean."""
        repeats = self.distances.shape[1]
        return np.asarray(self.distances.std(axis=1, ddof=1) / math.sqrt(repeats)) if repeats > 1 else np.full(len(self.sizes), np.inf)

    def exceeding(self, delta: float) -> Reals:
        """Share of the releases at each size whose distance is larger than δ: goes to 0 for every δ > 0 if the mechanism is consistent."""
        return np.asarray((self.distances > delta).mean(axis=1))


def consistency(
    mechanism: Callable[[Any], Distribution],
    draw: Callable[[int], npt.ArrayLike],
    cdf: Distribution,
    sizes: Sequence[int],
    *,
    repeats: int = 20,
) -> Consistency:
    r"""Measure how far releases are from the distribution that their records come from, as the number of records grows.

    Parameters
    ----------
    mechanism : callable
        Takes n records; gives a release, or draws.
    draw : callable
        Takes n; gives n records of the distribution.
    cdf : callable, Release or array_like
        Distribution function F of the records.
    sizes : sequence of int
        Numbers n of records, ≥ 1 each.
    repeats : int, default 20
        Releases at each n, each from records of its own.

    Returns
    -------
    Consistency
        Distances ρ(F, F_Z), their means, and how many exceed a δ.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is out of range or of the wrong type.

    Notes
    -----
    Consistent (Wasserman & Zhou, 2010, Definition 3.1) is what has ρ(F, F_Z) → 0 in probability. By Theorem 3.2 no private mechanism is, at
    a point mass: its draws hit no point with positive probability unless the point was known before.

    References
    ----------
    Wasserman & Zhou (2010), Definition 3.1 and Theorem 3.2.

    Examples
    --------
    >>> import numpy as np
    >>> from dpcore.distributions import smoothed_histogram
    >>> curve = consistency(
    ...     lambda x: smoothed_histogram(x, 1.0, 20, bins=10),
    ...     lambda n: np.full(n, 0.5),
    ...     lambda x: np.where(x >= 0.5, 1.0, 0.0),
    ...     sizes=[100, 10_000],
    ... )
    >>> bool((curve.mean > 0.2).all())
    True
    """
    sizes = tuple(check_integer("sizes", n, low=1) for n in sizes)
    if not sizes:
        raise ParameterError("sizes must hold at least one number of records, got none")
    repeats = check_integer("repeats", repeats, low=1)
    distances = np.array([[ks_distance(mechanism(draw(n)), cdf) for _ in range(repeats)] for n in sizes])
    return Consistency(sizes, distances)
