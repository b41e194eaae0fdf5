"""Prints the polynomial coefficients of lanes.h with the error each approximation has before rounding errors.

Chebyshev interpolation in 60 digits is within a factor of two of minimax here; the coefficients are then rounded to float64, and the
error printed is that of the rounded ones. Run by hand: python fit_polynomials.py
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mpmath import MPContext

mp = MPContext()
mp.prec = 240
mpf = mp.mpf
Function = Callable[[Any], Any]


def interpolate(f: Function, high: Any, degree: int) -> list[Any]:
    """Monomial coefficients of the Chebyshev interpolant of f on [0, high]."""
    n = degree + 1
    nodes = [high / 2 * (1 + mp.cos(mp.pi * (2 * i + 1) / (2 * n))) for i in range(n)]
    vandermonde = mp.matrix(n, n)
    values = mp.matrix(n, 1)
    for i, x in enumerate(nodes):
        values[i] = f(x)
        for j in range(n):
            vandermonde[i, j] = x**j
    return list(mp.lu_solve(vandermonde, values))


def worst(f: Function, coefficients: list[float], high: Any, weight: Function) -> Any:
    """Largest |weight·(f − polynomial)| on a dense grid."""
    grid = [high * (mpf(i) + mpf(1) / 2) / 4000 for i in range(4000)]
    return max(abs(weight(x) * (f(x) - sum(mpf(c) * x**k for k, c in enumerate(coefficients)))) for x in grid)


def report(name: str, f: Function, high: Any, degree: int, weight: Function) -> None:
    """Print one table."""
    coefficients = [float(c) for c in interpolate(f, high, degree)]
    error = worst(f, coefficients, high, weight)
    print(f"{name}: error 2^{float(mp.log(error, 2)):.2f}")
    for c in coefficients:
        print(f"    {c.hex()},")


if __name__ == "__main__":
    S2 = ((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)) ** 2

    def atanh_tail(z: Any) -> Any:
        """(2·atanh(s)/s − 2)/z with z = s²."""
        if z < mpf(10) ** -20:
            return mpf(2) / 3 + 2 * z / 5
        s = mp.sqrt(z)
        return (2 * mp.atanh(s) / s - 2) / z

    def sin_over_r(z: Any) -> Any:
        """sin(πr/2)/r with z = r²."""
        r = mp.sqrt(z)
        return mp.sin(mp.pi * r / 2) / r if r else mp.pi / 2

    def cos_tail(z: Any) -> Any:
        """(cos(πr/2) − 1)/z with z = r²."""
        return (mp.cos(mp.pi * mp.sqrt(z) / 2) - 1) / z if z > mpf(10) ** -30 else -(mp.pi**2) / 8

    report("LOG", atanh_tail, S2, 6, lambda z: mp.sqrt(z) * z)
    report("SIN", sin_over_r, mpf(1) / 4, 6, mp.sqrt)
    report("COS", cos_tail, mpf(1) / 4, 5, lambda z: z)
    report("COS, one more", cos_tail, mpf(1) / 4, 6, lambda z: z)
