"""The positive part of 1 + Σ b_j √2 cos(πjx) on [0, 1], renormalised: its density, distribution function, quantiles and draws.

The interval is cut into 8m cells for m terms, on each of which the series is its Taylor polynomial of degree 10 to within 4·10^-16 of
Σ|b_j|√2; all of them come from a few fast cosine and sine transforms. So one value costs the same for 3 terms and for 3,000, and the
places where the sign changes are found cell by cell: a cell is halved until its polynomial has no root, or no turning point. This file
works on numbers that are released already.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from dpcore.distributions._boxes import Reals

CELLS_PER_TERM = 8
DEGREE = 10
_HALVINGS = 32
"""A cell halved so often is as narrow as float64 can resolve; what is undecided there only touches zero, and is left out."""
_BISECTIONS = 60
_NEWTON_STEPS = 64
_CHUNK = 1 << 15
_EXACT = 2.0**-50

Whole = npt.NDArray[np.int64]


class CosineDensity:
    """The density f₊/∫f₊ of f(x) = 1 + Σ_{j=1..m} b_j √2 cos(πjx) on [0, 1]; ∫f = 1, so the positive part is never empty.

    Parameters
    ----------
    coefficients : ndarray of float64, shape (m,)
        Finite numbers b.

    Attributes
    ----------
    mass : float
        ∫f₊ ≥ 1.
    breaks : ndarray of float64, shape (s + 1,)
        Ends of ascending segments, on each of which f has one sign.
    positive : ndarray of bool, shape (s,)
        Which of the segments f is positive on.
    """

    def __init__(self, coefficients: Reals) -> None:
        self._taylor = taylor_polynomials(coefficients)
        self._half = 0.5 / len(self._taylor)
        self._primitives = np.zeros((len(self._taylor), DEGREE + 2))
        self._primitives[:, 1:] = self._taylor / np.arange(1, DEGREE + 2) * self._half
        cells, places = sign_changes(self._taylor)
        self._cut(cells, places)

    def _cut(self, cells: Whole, places: Reals) -> None:
        """Segments between the ends of cells and the changes of sign, in local coordinates, and their masses."""
        n = len(self._taylor)
        owner = np.concatenate([np.arange(n), cells])
        left = np.concatenate([np.full(n, -1.0), places])
        order = np.lexsort((left, owner))
        self._cells, self._left = owner[order], left[order]
        self._right = np.append(np.where(self._cells[1:] == self._cells[:-1], self._left[1:], 1.0), 1.0)
        middle = (self._left + self._right) / 2
        masses = self._between(self._cells, self._left, self._right)
        self.positive = (horner(self._taylor[self._cells], middle) > 0) & (masses > 0)
        self._cumulative = np.concatenate([[0.0], np.cumsum(np.where(self.positive, masses, 0.0))])
        self.mass = float(self._cumulative[-1])
        self.breaks = np.append(self._to_unit(self._cells, self._left), 1.0)
        self._drawn = np.flatnonzero(np.diff(self._cumulative) > 0)

    def _to_unit(self, cells: Whole, places: Reals) -> Reals:
        points: Reals = (2 * cells + 1 + places) * self._half
        return points

    def _local(self, x: Reals) -> tuple[Whole, Reals]:
        """Cell and local coordinate in [−1, 1] of points of [0, 1]."""
        cells = np.minimum((x * len(self._taylor)).astype(np.int64), len(self._taylor) - 1)
        return cells, np.clip(x / self._half - (2 * cells + 1), -1.0, 1.0)

    def _between(self, cells: Whole, left: Reals, right: Reals) -> Reals:
        primitives = self._primitives[cells]
        return horner(primitives, right) - horner(primitives, left)

    def density(self, x: Reals) -> Reals:
        """f₊(x)/∫f₊ at points (q,) of [0, 1]."""
        return _in_chunks(self._density, x)

    def _density(self, x: Reals) -> Reals:
        cells, places = self._local(x)
        values: Reals = np.maximum(horner(self._taylor[cells], places), 0.0)
        return values / self.mass

    def cdf(self, x: Reals) -> Reals:
        """∫_0^x f₊/∫f₊ at points (q,) of [0, 1]."""
        return _in_chunks(self._cdf, x)

    def _cdf(self, x: Reals) -> Reals:
        cells, places = self._local(x)
        segments = np.clip(np.searchsorted(self.breaks, x, side="right") - 1, 0, len(self.positive) - 1)
        # rounding may put a point and its segment into neighbouring cells; the point is then at their common end
        places = np.where(cells == self._cells[segments], places, np.sign(cells - self._cells[segments]))
        inner = self._between(self._cells[segments], self._left[segments], places)
        room = self._cumulative[segments + 1] - self._cumulative[segments]
        return (self._cumulative[segments] + np.clip(inner, 0.0, room)) / self.mass

    def quantile(self, p: Reals) -> Reals:
        """The point below which a part p in [0, 1) of the mass lies, for each of (q,) parts."""
        return _in_chunks(self._quantile, p)

    def _quantile(self, p: Reals) -> Reals:
        wanted = p * self.mass
        # a segment without mass has no room between its neighbours' sums; a product rounded up to the whole mass is the last one's
        found = np.searchsorted(self._cumulative[self._drawn + 1], wanted, side="right")
        segments = self._drawn[np.minimum(found, len(self._drawn) - 1)]
        places = self._inverted(segments, wanted - self._cumulative[segments])
        return np.clip(self._to_unit(self._cells[segments], places), 0.0, 1.0)

    def _inverted(self, segments: Whole, wanted: Reals) -> Reals:
        """Local coordinates at which the mass from the left end of each segment is `wanted`: Newton's steps, kept inside a bracket."""
        cells, low, high = self._cells[segments], self._left[segments].copy(), self._right[segments].copy()
        primitives, slopes = self._primitives[cells], self._taylor[cells]
        target = wanted + horner(primitives, low)
        room = self._cumulative[segments + 1] - self._cumulative[segments]
        result: Reals = low + np.clip(wanted / room, 0.0, 1.0) * (high - low)
        open_, tolerance = np.arange(len(segments)), room * _EXACT
        for _ in range(_NEWTON_STEPS):
            at = result[open_]
            missing = target[open_] - horner(primitives[open_], at)
            low[open_], high[open_] = np.where(missing >= 0, at, low[open_]), np.where(missing >= 0, high[open_], at)
            open_, missing, at = _kept(np.abs(missing) > tolerance[open_], open_, missing, at)
            open_, missing, at = _kept(high[open_] - low[open_] > _EXACT, open_, missing, at)
            if not len(open_):
                break
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                step = at + missing / (horner(slopes[open_], at) * self._half)
            inside = (step > low[open_]) & (step < high[open_])
            result[open_] = np.where(inside, step, (low[open_] + high[open_]) / 2)
        return result


def taylor_polynomials(coefficients: Reals) -> Reals:
    """Coefficients of f on each of the cells, in t in [−1, 1] across the cell: shape (cells, DEGREE + 1), lowest first."""
    from scipy import fft

    m = len(coefficients)
    n = fft.next_fast_len(CELLS_PER_TERM * m, real=True)
    angles = np.arange(1, m + 1) * (math.pi / (2 * n))  # πjh for half a cell h
    terms = np.asarray(coefficients, np.float64) * math.sqrt(2)
    taylor = np.empty((n, DEGREE + 1))
    for order in range(DEGREE + 1):
        # the derivatives of cos are cos, −sin, −cos, sin; cells' centres are (k + ½)/n, the points of the transforms of type III
        padded = np.zeros(n)
        if order % 2:
            padded[:m] = terms
            values = fft.dst(padded, type=3) / 2
        else:
            padded[1 : m + 1] = terms
            values = fft.dct(padded, type=3) / 2
        taylor[:, order] = -values if order % 4 in {1, 2} else values
        terms = terms * angles / (order + 1)
    taylor[:, 0] += 1.0
    return taylor


def sign_changes(taylor: Reals) -> tuple[Whole, Reals]:
    """Cells and local coordinates at which the polynomials of the cells change sign."""
    orders = np.arange(taylor.shape[1])
    halves = _halving(taylor.shape[1])
    cells, low, width = np.arange(len(taylor)), np.full(len(taylor), -1.0), 2.0
    found_cells, found_places = [], []
    polynomials = taylor
    for halving in range(_HALVINGS + 1):
        if not len(cells):
            break
        sizes = np.abs(polynomials)
        maybe = sizes[:, 0] <= sizes[:, 1:].sum(axis=1)
        cells, low, polynomials, sizes = cells[maybe], low[maybe], polynomials[maybe], sizes[maybe]
        settled = sizes[:, 1] > sizes[:, 2:] @ orders[2:]
        if halving == _HALVINGS:
            settled[:] = True
        places = _bisected(polynomials[settled])
        changes = ~np.isnan(places)
        found_cells.append(cells[settled][changes])
        found_places.append(low[settled][changes] + (places[changes] + 1) / 2 * width)
        cells, low, polynomials = cells[~settled], low[~settled], polynomials[~settled]
        width /= 2
        cells, low = np.concatenate([cells, cells]), np.concatenate([low, low + width])
        polynomials = np.concatenate([polynomials @ half for half in halves])
    return np.concatenate(found_cells), np.concatenate(found_places)


def _halving(size: int) -> tuple[Reals, Reals]:
    """Matrices that turn p(t) into p((s − 1)/2) and p((s + 1)/2), as polynomials in s; rows of coefficients times them."""
    left, right = np.zeros((size, size)), np.zeros((size, size))
    for d in range(size):
        for e in range(d + 1):
            right[d, e] = math.comb(d, e) / 2.0**d
            left[d, e] = right[d, e] * (-1) ** (d - e)
    return left, right


def _bisected(polynomials: Reals) -> Reals:
    """A root in [−1, 1] of each polynomial that changes sign there, NaN for the others."""
    ends = np.ones(len(polynomials))
    starts_positive = horner(polynomials, -ends) > 0
    changes = np.flatnonzero(starts_positive != (horner(polynomials, ends) > 0))
    changing, positive = polynomials[changes], starts_positive[changes]
    low, high = -ends[changes], ends[changes]
    for _ in range(_BISECTIONS if len(changes) else 0):
        middle = (low + high) / 2
        before = (horner(changing, middle) > 0) == positive
        low, high = np.where(before, middle, low), np.where(before, high, middle)
    places = np.full(len(polynomials), np.nan)
    places[changes] = (low + high) / 2
    return places


def horner(polynomials: Reals, t: Reals) -> Reals:
    """Values of polynomials (q, D), lowest coefficient first, at t (q,)."""
    value: Reals = polynomials[:, -1] * 1.0
    for order in range(polynomials.shape[1] - 2, -1, -1):
        value *= t
        value += polynomials[:, order]
    return value


def _kept(keep: npt.NDArray[np.bool_], open_: Whole, missing: Reals, at: Reals) -> tuple[Whole, Reals, Reals]:
    return open_[keep], missing[keep], at[keep]


def _in_chunks(function: object, x: Reals) -> Reals:
    """Apply a function of arrays to pieces that fit into the cache."""
    result = np.empty(len(x))
    for start in range(0, len(x), _CHUNK):
        result[start : start + _CHUNK] = function(x[start : start + _CHUNK])  # type: ignore[operator]
    return result
