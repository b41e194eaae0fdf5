"""Bounded functions of a record whose means estimate the functionals of Steinberger (2019), Beispiele 3.6 to 3.8, up to a known bias."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.polynomial import Polynomial, legendre

from dpcore._dataclasses import dataclass
from dpcore.errors import ParameterError

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[np.float64]


LARGEST_EXPONENT = 1000.0
"""1/h^{m+1} is within 2^±1000, so that it is a number of float64."""


@dataclass(frozen=True, slots=True)
class Identity:
    """x ↦ x."""

    def __call__(self, x: Any) -> Any:
        return x


@dataclass(frozen=True, slots=True)
class Shifted:
    """x ↦ x − c."""

    c: float

    def __call__(self, x: Any) -> Any:
        return np.asarray(x, np.float64) - self.c


@dataclass(frozen=True, slots=True)
class Product:
    """The product of the numbers of a record, along the last axis."""

    def __call__(self, x: Any) -> Any:
        return np.prod(x, axis=-1)


@dataclass(frozen=True, slots=True)
class Centred:
    """x ↦ 2x − M."""

    M: float

    def __call__(self, x: Any) -> Any:
        return 2 * x - self.M


@dataclass(frozen=True, slots=True)
class Indicator:
    """½ for records of the event, −½ for others."""

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
        Coefficients of the polynomial that K is on (0, 1]. On [−1, 0) it is continued as an even or odd function.
    """

    m: int
    coefficients: tuple[float, ...]

    def __call__(self, u: Any) -> Array:
        u = np.asarray(u, np.float64)
        distance = np.abs(u)
        # NaN is not beyond 1, and stays NaN
        values = np.where(distance > 1, 0.0, Polynomial(self.coefficients)(np.minimum(distance, 1.0)))
        return values * np.sign(u) if self.m % 2 else values

    @property
    def extent(self) -> tuple[float, float]:
        """The middle of the range of K (including 0), and half its length, rounded up."""
        polynomial = Polynomial(self.coefficients)
        values = polynomial(np.array([0.0, 1.0, *_roots(polynomial.deriv())]))
        if self.m % 2:
            return 0.0, float(np.abs(values).max()) * (1 + 1e-12)
        low, high = min(float(values.min()), 0.0), max(float(values.max()), 0.0)
        return (low + high) / 2, (high - low) / 2 * (1 + 1e-12)

    def moment(self, smoothness: float) -> float:
        r"""Return ∫\|K\|\|u\|^β, rounded up, for β = smoothness."""
        polynomial = Polynomial(self.coefficients)
        ends = np.array([0.0, *_roots(polynomial), 1.0])
        powers = np.arange(len(self.coefficients)) + smoothness + 1
        integrals = (ends[:, None] ** powers) @ (np.array(self.coefficients) / powers)
        return 2 * float(np.abs(np.diff(integrals)).sum()) * (1 + 1e-12)


def _roots(polynomial: Polynomial) -> list[float]:
    """Return the real roots in (0, 1), ascending."""
    roots = np.asarray(polynomial.roots() if polynomial.degree() > 0 else [], np.complex128)
    return sorted(float(r.real) for r in roots if abs(r.imag) < 1e-9 and 0 < r.real < 1)


def kernel(smoothness: float, m: int) -> Kernel:
    """Return the kernel for derivatives of order m of densities of smoothness β > m; see `density_at`.

    Its moments up to ℓ, the largest integer below β, are those of the m-th derivative. Only powers with the parity of m matter. If u^m is
    the only one, sign(u)^m (m + 1)!/2 has the smallest ∫|K||u|^β among all kernels whose range is not longer. Otherwise the kernel is the
    orthogonal projection on polynomials, Σ (2j+1)/2·P_j^(m)(0)·P_j(u) with Legendre's P_j.
    """
    order = math.ceil(smoothness) - 1
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
    """x ↦ K((x − x0)/h)/h^{m+1}, minus the middle of its range.

    Attributes
    ----------
    kernel : Kernel
        K.
    x0, h : float
        Position and width.

    Raises
    ------
    ParameterError
        If h is so small or so large that the window leaves the range of float64.
    """

    kernel: Kernel
    x0: float
    h: float

    def __post_init__(self) -> None:
        if abs(math.log2(self.h)) * (self.kernel.m + 1) > LARGEST_EXPONENT:
            end = 2.0 ** (LARGEST_EXPONENT / (self.kernel.m + 1))
            raise ParameterError(f"h must be in [{1 / end:.3g}, {end:.3g}] for m = {self.kernel.m}, got {self.h!r}")

    @property
    def _unit(self) -> float:
        return float(self.h ** -(self.kernel.m + 1))

    @property
    def middle(self) -> float:
        """The middle of the range, which is subtracted."""
        return self.kernel.extent[0] * self._unit

    @property
    def norm(self) -> float:
        """The largest magnitude after the subtraction."""
        return self.kernel.extent[1] * self._unit

    def __call__(self, x: Any) -> Array:
        return self.kernel((np.asarray(x, np.float64) - self.x0) / self.h) * self._unit - self.middle
