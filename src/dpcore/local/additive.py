"""Mechanisms that clamp a number and add noise to it."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from dpcore import mechanisms
from dpcore._dataclasses import dataclass
from dpcore.local._additive import Additive, calibrated
from dpcore.privacy import Privacy

if TYPE_CHECKING:
    from dpcore._exact.pending import Kind


@dataclass(frozen=True, slots=True)
class LocalLaplace(Additive[float]):
    r"""Laplace noise on every number: T(x) + Laplace((upper − lower)/ε), T clamping to [lower, upper].

    Parameters
    ----------
    epsilon : float
        Privacy loss ε of one report, positive and finite.
    lower, upper : float
        Bounds, lower < upper. Numbers outside are clamped. Choose them by what you know about the subject, never from the data.
    missing : float, optional
        Number to use for NaN, in [lower, upper]. By default NaN raises `DataError`.

    Attributes
    ----------
    scale, grid : float
        The noise's b, at least (upper − lower)/ε, and the grid of the reports.
    privacy : Privacy
        (ε, 0).

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or of the wrong type.

    Notes
    -----
    Guarantee: P(y ∈ A\|x) ≤ e^ε P(y ∈ A\|x') for the released floats.

    Cost: 2.5 to 4 ns a record.

    Source: Steinberger (2019), Beispiel 1.7 (c).

    Examples
    --------
    >>> import numpy as np
    >>> from dpcore.local import LocalLaplace
    >>> mechanism = LocalLaplace(epsilon=1.0, lower=0.0, upper=10.0)
    >>> mechanism.scale
    10.0
    >>> bool(abs(mechanism.estimate(mechanism.privatize(np.full(100_000, 4.0))).value - 4.0) < 0.4)
    True
    """

    epsilon: float
    lower: float
    upper: float
    missing: float | None = field(default=None, kw_only=True)
    scale: float = field(init=False, repr=False, compare=False)
    grid: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        width = self._settle_reals()
        noise = calibrated(mechanisms.Laplace, self.epsilon, width)
        object.__setattr__(self, "epsilon", noise.epsilon)
        self._settle(noise.scale)

    @property
    def kind(self) -> Kind:
        """Name of the noise function."""
        return "laplace"


@dataclass(frozen=True, slots=True)
class LocalGaussian(Additive[float]):
    r"""Gaussian noise on every number, calibrated exactly for sensitivity upper − lower.

    Parameters
    ----------
    epsilon, delta : float
        Guarantee of one report, ε positive and finite, δ in (0, 1).
    lower, upper : float
        Bounds, lower < upper. Numbers outside are clamped. Choose them by what you know about the subject, never from the data.
    missing : float, optional
        Number to use for NaN, in [lower, upper]. By default NaN raises `DataError`.

    Attributes
    ----------
    scale, grid : float
        The noise's σ, and the grid of the reports.
    privacy : Privacy
        (ε, δ).

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or of the wrong type.

    Notes
    -----
    Guarantee: as `dpcore.mechanisms.Gaussian`, for each report.

    Cost: 2.5 to 4 ns a record.

    Source: Balle & Wang (2018).

    Examples
    --------
    >>> from dpcore.local import LocalGaussian
    >>> round(LocalGaussian(1.0, 1e-5, 0.0, 1.0).scale, 4)
    3.7306
    """

    epsilon: float
    delta: float
    lower: float
    upper: float
    missing: float | None = field(default=None, kw_only=True)
    scale: float = field(init=False, repr=False, compare=False)
    grid: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        width = self._settle_reals()
        noise = calibrated(mechanisms.Gaussian, self.epsilon, self.delta, width)
        object.__setattr__(self, "epsilon", noise.epsilon)
        object.__setattr__(self, "delta", noise.delta)
        self._settle(noise.scale)

    @property
    def kind(self) -> Kind:
        """Name of the noise function."""
        return "gaussian"

    @property
    def privacy(self) -> Privacy:
        """Guarantee of one report: (ε, δ)."""
        return Privacy(self.epsilon, self.delta)


@dataclass(frozen=True, slots=True)
class LocalDiscreteLaplace(Additive[int]):
    r"""Integer Laplace noise on every integer, with ratio e^(−ε/(upper − lower)).

    Parameters
    ----------
    epsilon : float
        Privacy loss ε of one report, positive and finite.
    lower, upper : int
        Bounds, lower < upper. Integers outside are clamped. Choose them by what you know about the subject, never from the data.
    missing : int, optional
        Number that a caller uses for missing ones, in [lower, upper]. It is kept for jobs; integers are never NaN.

    Attributes
    ----------
    scale, grid : float
        The noise's t, at least (upper − lower)/ε, and 1.
    privacy : Privacy
        (ε, 0).

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or of the wrong type.

    Notes
    -----
    Guarantee: P(y\|x) ≤ e^ε P(y\|x').

    Cost: 2.5 to 4 ns a record.

    Source: Ghosh, Roughgarden & Sundararajan (2009).

    Examples
    --------
    >>> from dpcore.local import LocalDiscreteLaplace
    >>> LocalDiscreteLaplace(1.0, 0, 20).scale
    20.0
    """

    epsilon: float
    lower: int
    upper: int
    missing: int | None = field(default=None, kw_only=True)
    scale: float = field(init=False, repr=False, compare=False)
    grid: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        width = self._settle_integers()
        noise = calibrated(mechanisms.DiscreteLaplace, self.epsilon, width)
        object.__setattr__(self, "epsilon", noise.epsilon)
        self._settle(noise.scale)

    @property
    def kind(self) -> Kind:
        """Name of the noise function."""
        return "discrete_laplace"


def _exact_gaussian(epsilon: float, delta: float, width: int) -> mechanisms.DiscreteGaussian:
    return mechanisms.DiscreteGaussian(epsilon, delta, width, method="exact")


@dataclass(frozen=True, slots=True)
class LocalDiscreteGaussian(Additive[int]):
    r"""Integer Gaussian noise on every integer, calibrated exactly for sensitivity upper − lower.

    Parameters
    ----------
    epsilon, delta : float
        Guarantee of one report, ε positive and finite, δ in (0, 1).
    lower, upper : int
        Bounds, lower < upper. Integers outside are clamped. Choose them by what you know about the subject, never from the data.
    missing : int, optional
        Number that a caller uses for missing ones, in [lower, upper]. It is kept for jobs; integers are never NaN.

    Attributes
    ----------
    scale, grid : float
        The noise's σ, and 1.
    privacy : Privacy
        (ε, δ).

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or of the wrong type.

    Notes
    -----
    Guarantee: as `dpcore.mechanisms.DiscreteGaussian` with method="exact", for each report: one integer query.
    Source: Canonne, Kamath & Steinke (2020).

    Examples
    --------
    >>> from dpcore.local import LocalDiscreteGaussian
    >>> LocalDiscreteGaussian(1.0, 1e-6, 0, 1).privacy
    Privacy(epsilon=1.0, delta=1e-06, relation='replace')
    """

    epsilon: float
    delta: float
    lower: int
    upper: int
    missing: int | None = field(default=None, kw_only=True)
    scale: float = field(init=False, repr=False, compare=False)
    grid: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        width = self._settle_integers()
        noise = calibrated(_exact_gaussian, self.epsilon, self.delta, width)
        object.__setattr__(self, "epsilon", noise.epsilon)
        object.__setattr__(self, "delta", noise.delta)
        self._settle(noise.scale)

    @property
    def kind(self) -> Kind:
        """Name of the noise function."""
        return "discrete_gaussian"

    @property
    def privacy(self) -> Privacy:
        """Guarantee of one report: (ε, δ)."""
        return Privacy(self.epsilon, self.delta)
