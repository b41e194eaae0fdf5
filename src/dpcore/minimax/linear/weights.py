"""Bounded functions of a record whose means are the functionals of the examples in Steinberger (2019), up to a known bias."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.polynomial import Polynomial, legendre

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Identity:
    """x itself."""

    def __call__(self, x: Any) -> Any:
        return x


@dataclass(frozen=True, slots=True)
class Product:
    """The product of the numbers of a record, which lie along the last axis."""

    def __call__(self, x: Any) -> Any:
        return np.prod(x, axis=-1)


@dataclass(frozen=True, slots=True)
class Centred:
    """2x − M."""

    M: float

    def __call__(self, x: Any) -> Any:
        return 2 * x - self.M


@dataclass(frozen=True, slots=True)
class Indicator:
    """½ where the event holds, −½ elsewhere."""

    event: Callable[[Any], Any]

    def __call__(self, x: Any) -> Any:
        return np.asarray(self.event(x), np.float64) - 0.5


@dataclass(frozen=True, slots=True)
class Kernel:
    r"""A function K on [−1, 1] with ∫K uʲ = m!·1{j = m} for j = 0 … ℓ, even or odd as m is.

    Attributes
    ----------
    m : int
        Order of the derivative.
    coefficients : tuple of float
        Those of the polynomial that K is on (0, 1]; on [−1, 0) it is continued as an even or odd function.
    """

    m: int
    coefficients: tuple[float, ...]

    def __call__(self, u: Any) -> Array:
        u = np.asarray(u, np.float64)
        distance = np.abs(u)
        values = np.where(distance <= 1, Polynomial(self.coefficients)(np.minimum(distance, 1.0)), 0.0)
        return values * np.sign(u) if self.m % 2 else values

    @property
    def extent(self) -> tuple[float, float]:
        """The middle and, rounded up, half the length of the range of K and 0."""
        polynomial = Polynomial(self.coefficients)
        values = polynomial(np.array([0.0, 1.0, *_roots(polynomial.deriv())]))
        if self.m % 2:
            return 0.0, float(np.abs(values).max()) * (1 + 1e-12)
        low, high = min(float(values.min()), 0.0), max(float(values.max()), 0.0)
        return (low + high) / 2, (high - low) / 2 * (1 + 1e-12)

    def moment(self, beta: float) -> float:
        r"""∫\|K\|\|u\|^β, rounded up."""
        polynomial = Polynomial(self.coefficients)
        ends = np.array([0.0, *_roots(polynomial), 1.0])
        powers = np.arange(len(self.coefficients)) + beta + 1
        integrals = (ends[:, None] ** powers) @ (np.array(self.coefficients) / powers)
        return 2 * float(np.abs(np.diff(integrals)).sum()) * (1 + 1e-12)


def _roots(polynomial: Polynomial) -> list[float]:
    """Real roots in (0, 1), ascending."""
    roots = np.asarray(polynomial.roots() if polynomial.degree() > 0 else [], np.complex128)
    return sorted(float(r.real) for r in roots if abs(r.imag) < 1e-9 and 0 < r.real < 1)


def kernel(beta: float, m: int) -> Kernel:
    """The kernel for derivatives of order m of densities of smoothness β > m; see `density_at`.

    Its moments up to ℓ, the largest integer below β, are those of the m-th derivative. Only powers of m's parity matter. If u^m is the only
    one, sign(u)^m (m + 1)!/2 has the least ∫|K||u|^β among all kernels whose range is not longer, as it is extreme wherever that is
    cheapest. Otherwise it is the orthogonal projection on polynomials, Σ (2j+1)/2·P_j^(m)(0)·P_j(u) with Legendre's P_j.
    """
    order = math.ceil(beta) - 1
    if m < 2 and order <= m + 1:
        return Kernel(m, (math.factorial(m + 1) / 2,))
    weights = np.zeros(order + 1)
    for j in range(m, order + 1):
        unit = np.zeros(j + 1)
        unit[j] = (2 * j + 1) / 2
        weights[j] = float(legendre.legval(0.0, legendre.legder(unit, m)))
    return Kernel(m, tuple(legendre.leg2poly(weights).tolist()))


@dataclass(frozen=True, slots=True)
class Window:
    """K((x − x0)/h)/h^{m+1}, less the middle of its range.

    Attributes
    ----------
    kernel : Kernel
        K.
    x0, h : float
        Place and width.
    """

    kernel: Kernel
    x0: float
    h: float

    @property
    def _unit(self) -> float:
        return float(self.h ** -(self.kernel.m + 1))

    @property
    def middle(self) -> float:
        """What is subtracted."""
        return self.kernel.extent[0] * self._unit

    @property
    def norm(self) -> float:
        """The largest magnitude of the rest."""
        return self.kernel.extent[1] * self._unit

    def __call__(self, x: Any) -> Array:
        return self.kernel((np.asarray(x, np.float64) - self.x0) / self.h) * self._unit - self.middle
