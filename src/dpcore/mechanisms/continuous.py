"""Mechanisms: noise whose scale is calibrated to a guarantee.

Each is an immutable description that draws nothing until `release` is called. Sensitivities are of the whole array that is released
together: ℓ1 for the Laplace kinds, ℓ2 for the Gaussian kinds, over all pairs of neighbours in the sense of `relation`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal, overload

import numpy as np
import numpy.typing as npt

from dpcore import accounting, noise
from dpcore._series import SeriesT
from dpcore._validation import INTEGER_DTYPES, check_array, check_choice, check_integer, check_positive, check_real, check_sensitivity
from dpcore.errors import ParameterError
from dpcore.noise import Real
from dpcore.privacy import Privacy, Relation
from dpcore.rng import Stream

__all__ = ["DiscreteGaussian", "DiscreteLaplace", "Gaussian", "Laplace"]

Integer = int | np.integer[Any]


def _budget(epsilon: float, delta: float) -> dict[str, float]:
    """What was asked for, as floats: rounded down like what the scale was made of."""
    return {"epsilon": check_positive("epsilon", epsilon), "delta": check_real("delta", delta, low=0.0, high=1.0)}


def _settle(mechanism: Any, parameters: dict[str, float], scale: float, limits: tuple[float, float], *, include_low: bool = True) -> None:
    """Store the checked parameters of a frozen mechanism, and what follows from them."""
    low, high = limits
    if not (low <= scale <= high and (include_low or low < scale)):
        given = ", ".join(f"{name}={value!r}" for name, value in parameters.items())
        interval = f"{'[' if include_low else '('}2**{round(math.log2(low))}, 2**{round(math.log2(high))}]"
        raise ParameterError(f"{given} must give a noise scale in {interval}, got scale {scale!r}")
    privacy = Privacy(parameters["epsilon"], parameters.get("delta", 0.0), mechanism.relation)
    for name, value in {**parameters, "scale": scale, "privacy": privacy}.items():
        object.__setattr__(mechanism, name, value)


def _tail(beta: float, size: int) -> Any:
    from dpcore.accounting import _calibration

    beta = check_real("beta", beta, low=0.0, high=1.0, include_low=False, include_high=False)
    return _calibration.tail_probability(beta, check_integer("size", size, low=1))


@dataclass(frozen=True, slots=True)
class Laplace:
    r"""Laplace mechanism: adds noise with density e^(−\|w\|/b)/(2b), b = Δ₁/ε, to each answer.

    Parameters
    ----------
    epsilon : float
        Privacy loss ε, positive and finite.
    sensitivity : float
        ℓ1 sensitivity Δ₁ of the whole array of answers, positive and finite, in the answers' units.
    relation : {"replace", "add_remove"}, default "replace"
        The neighbours that `sensitivity` was computed for.

    Attributes
    ----------
    scale : float
        b: the smallest float64 ≥ Δ₁/ε, in [2^−960, 2^960].
    privacy : Privacy
        (ε, 0).

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or of the wrong type, or the scale would be outside its range.

    Notes
    -----
    Guarantee: P(M(x) ∈ A) ≤ e^ε P(M(x') ∈ A) for neighbours x, x' and all A, for the released floats and not only for ideal reals.
    Source: Private inference (chapter 9), Definition 9.1.3; Stemmer (lecture 6), Corollary 5; Steinberger (2019), Beispiel 1.7 (c, d).

    Examples
    --------
    >>> mechanism = Laplace(epsilon=0.5, sensitivity=1.0)
    >>> mechanism.scale
    2.0
    >>> mechanism.privacy
    Privacy(epsilon=0.5, delta=0.0, relation='replace')
    >>> round(mechanism.accuracy(0.05), 4)
    5.9915
    """

    epsilon: float
    sensitivity: float
    relation: Relation = field(default="replace", kw_only=True)
    scale: float = field(init=False, repr=False, compare=False)
    privacy: Privacy = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_choice("relation", self.relation, ("replace", "add_remove"))
        # Each number is read once: the scale is made of what `privacy` states, whatever object it was given as.
        parameters = {"epsilon": check_positive("epsilon", self.epsilon), "sensitivity": check_sensitivity(self.sensitivity)}
        _settle(self, parameters, accounting.laplace_scale(**parameters), noise.FLOAT_SCALE)

    @overload
    def release(self, values: Real, *, rng: Stream | None = ..., out: None = ..., threads: int | None = ...) -> float: ...
    @overload
    def release(self, values: SeriesT, *, rng: Stream | None = ..., out: None = ..., threads: int | None = ...) -> SeriesT: ...
    @overload
    def release(
        self, values: npt.ArrayLike, *, rng: Stream | None = ..., out: npt.NDArray[np.float64] | None = ..., threads: int | None = ...
    ) -> npt.NDArray[np.float64]: ...
    def release(self, values: Any, *, rng: Stream | None = None, out: Any = None, threads: int | None = None) -> Any:
        """Add fresh noise to every answer and round to the default grid.

        Parameters
        ----------
        values : array_like
            Answers, of any shape; finite.
        rng : Stream, optional
            None is the secure source.
        out : ndarray of float64, optional
            Written in place; may be `values` itself.
        threads : int, optional
            Number of threads; None picks.

        Returns
        -------
        float or ndarray of float64
            A Python float for a scalar, else an array of the shape of `values`.

        Raises
        ------
        ParameterError, ParameterTypeError, DataError, EntropyError
            As `dpcore.noise.laplace`, which does the work.

        Notes
        -----
        Each call spends `privacy` anew.
        """
        return noise.laplace(values, self.scale, rng=rng, out=out, threads=threads)

    def accuracy(self, beta: float, *, size: int = 1) -> float:
        r"""Give the half-width that all k = `size` answers meet with probability ≥ 1 − β.

        Parameters
        ----------
        beta : float
            Probability β that some answer misses, in (0, 1).
        size : int, default 1
            Number of answers k that the statement covers at once, ≥ 1.

        Returns
        -------
        float
            b·ln(1/p) + g/2 rounded up, p = 1 − (1−β)^(1/k): the quantile of the largest of k independent \|noise\| terms, plus what
            rounding to the grid g adds at most.

        Raises
        ------
        ParameterError, ParameterTypeError
            If a parameter is outside its range or of the wrong type.

        Notes
        -----
        Answers beyond 2^53 grid steps are spaced wider than the grid by float64 itself, which adds half of that spacing.
        """
        from dpcore.accounting import _calibration

        return _calibration.laplace_width(self.scale, _tail(beta, size), noise.default_grid(self.scale) / 2)


@dataclass(frozen=True, slots=True)
class Gaussian:
    r"""Gaussian mechanism: adds normal noise with standard deviation σ to each answer.

    Parameters
    ----------
    epsilon : float
        Privacy loss ε, positive and finite; at most 1 for `method="classical"`.
    delta : float
        Failure mass δ, in (0, 1).
    sensitivity : float
        ℓ2 sensitivity Δ of the whole array of answers, positive and finite, in the answers' units.
    method : {"analytic", "classical"}, default "analytic"
        "analytic": the least σ, from the exact δ(σ). "classical": σ = Δ√(2 ln(1.25/δ))/ε, larger and only proven for ε ≤ 1.
    relation : {"replace", "add_remove"}, default "replace"
        The neighbours that `sensitivity` was computed for.

    Attributes
    ----------
    scale : float
        σ, in [2^−960, 2^960], rounded up.
    privacy : Privacy
        (ε, δ).

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or of the wrong type, or the scale would be outside its range.

    Notes
    -----
    Guarantee: Φ(Δ/2σ − εσ/Δ) − e^ε Φ(−Δ/2σ − εσ/Δ) ≤ δ, the exact δ of the released floats, shown in interval arithmetic for this σ.
    Cost: tens of milliseconds for a new (ε, δ), then cached.
    Source: Balle & Wang (2018); Private inference (chapter 9), Definition 9.1.4 ("classical").

    Examples
    --------
    >>> Gaussian(epsilon=1.0, delta=1e-5, sensitivity=1.0).scale
    3.730631634815942
    >>> round(Gaussian(epsilon=1.0, delta=1e-5, sensitivity=1.0, method="classical").scale, 4)
    4.8448
    """

    epsilon: float
    delta: float
    sensitivity: float
    method: Literal["analytic", "classical"] = field(default="analytic", kw_only=True)
    relation: Relation = field(default="replace", kw_only=True)
    scale: float = field(init=False, repr=False, compare=False)
    privacy: Privacy = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_choice("method", self.method, ("analytic", "classical"))
        check_choice("relation", self.relation, ("replace", "add_remove"))
        calibrate = accounting.analytic_gaussian_scale if self.method == "analytic" else accounting.classical_gaussian_scale
        parameters = _budget(self.epsilon, self.delta) | {"sensitivity": check_sensitivity(self.sensitivity)}
        _settle(self, parameters, calibrate(**parameters), noise.FLOAT_SCALE)

    @overload
    def release(self, values: Real, *, rng: Stream | None = ..., out: None = ..., threads: int | None = ...) -> float: ...
    @overload
    def release(self, values: SeriesT, *, rng: Stream | None = ..., out: None = ..., threads: int | None = ...) -> SeriesT: ...
    @overload
    def release(
        self, values: npt.ArrayLike, *, rng: Stream | None = ..., out: npt.NDArray[np.float64] | None = ..., threads: int | None = ...
    ) -> npt.NDArray[np.float64]: ...
    def release(self, values: Any, *, rng: Stream | None = None, out: Any = None, threads: int | None = None) -> Any:
        """Add fresh noise to every answer and round to the default grid.

        Parameters
        ----------
        values : array_like
            Answers, of any shape; finite.
        rng : Stream, optional
            None is the secure source.
        out : ndarray of float64, optional
            Written in place; may be `values` itself.
        threads : int, optional
            Number of threads; None picks.

        Returns
        -------
        float or ndarray of float64
            A Python float for a scalar, else an array of the shape of `values`.

        Raises
        ------
        ParameterError, ParameterTypeError, DataError, EntropyError
            As `dpcore.noise.gaussian`, which does the work.

        Notes
        -----
        Each call spends `privacy` anew.
        """
        return noise.gaussian(values, self.scale, rng=rng, out=out, threads=threads)

    def accuracy(self, beta: float, *, size: int = 1) -> float:
        r"""Give the half-width that all k = `size` answers meet with probability ≥ 1 − β.

        Parameters
        ----------
        beta : float
            Probability β that some answer misses, in (0, 1).
        size : int, default 1
            Number of answers k that the statement covers at once, ≥ 1.

        Returns
        -------
        float
            σ·z + g/2 rounded up, 2Φ(−z) = p = 1 − (1−β)^(1/k): the quantile of the largest of k independent \|noise\| terms, plus
            what rounding to the grid g adds at most.

        Raises
        ------
        ParameterError, ParameterTypeError
            If a parameter is outside its range or of the wrong type.

        Notes
        -----
        Answers beyond 2^53 grid steps are spaced wider than the grid by float64 itself, which adds half of that spacing.
        """
        from dpcore.accounting import _calibration

        return _calibration.gaussian_width(self.scale, _tail(beta, size), noise.default_grid(self.scale) / 2)


@dataclass(frozen=True, slots=True)
class DiscreteLaplace:
    r"""Discrete Laplace mechanism: adds integer noise with P(z) ∝ e^(−\|z\|/t), t = Δ₁/ε, to each integer answer.

    Parameters
    ----------
    epsilon : float
        Privacy loss ε, positive and finite.
    sensitivity : int
        ℓ1 sensitivity Δ₁ of the whole array of answers, in [1, 2^53]. A counting query has 1, a histogram under replacement 2.
    relation : {"replace", "add_remove"}, default "replace"
        The neighbours that `sensitivity` was computed for.

    Attributes
    ----------
    scale : float
        t: the smallest float64 ≥ Δ₁/ε, in (2^−20, 2^40].
    privacy : Privacy
        (ε, 0).

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or of the wrong type, or the scale would be outside its range.

    Notes
    -----
    Guarantee: \|ln P(M(x) = y) − ln P(M(x') = y)\| ≤ Δ₁/t ≤ ε for neighbours x, x' and all y.
    Source: Ghosh, Roughgarden & Sundararajan (2009); Steinberger (2019), Beispiel 1.7 (d), for the counting query.

    Examples
    --------
    >>> mechanism = DiscreteLaplace(epsilon=0.5, sensitivity=1)
    >>> isinstance(mechanism.release(1204), int)
    True
    >>> mechanism.accuracy(0.05)
    6
    """

    epsilon: float
    sensitivity: int
    relation: Relation = field(default="replace", kw_only=True)
    scale: float = field(init=False, repr=False, compare=False)
    privacy: Privacy = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_choice("relation", self.relation, ("replace", "add_remove"))
        sensitivity = check_integer("sensitivity", self.sensitivity, low=1, high=accounting.MAX_INTEGER_SENSITIVITY)
        parameters: dict[str, float] = {"epsilon": check_positive("epsilon", self.epsilon), "sensitivity": sensitivity}
        _settle(self, parameters, accounting.laplace_scale(**parameters), noise.DISCRETE_SCALE, include_low=False)

    @overload
    def release(self, values: Integer, *, rng: Stream | None = ..., out: None = ..., threads: int | None = ...) -> int: ...
    @overload
    def release(self, values: SeriesT, *, rng: Stream | None = ..., out: None = ..., threads: int | None = ...) -> SeriesT: ...
    @overload
    def release(
        self, values: npt.ArrayLike, *, rng: Stream | None = ..., out: npt.NDArray[np.int64] | None = ..., threads: int | None = ...
    ) -> npt.NDArray[np.int64]: ...
    def release(self, values: Any, *, rng: Stream | None = None, out: Any = None, threads: int | None = None) -> Any:
        """Add fresh noise to every integer answer, saturating at the edges of int64.

        Parameters
        ----------
        values : array_like of int
            Answers, of any shape.
        rng : Stream, optional
            None is the secure source.
        out : ndarray of int64, optional
            Written in place; may be `values` itself.
        threads : int, optional
            Number of threads; None picks.

        Returns
        -------
        int or ndarray of int64
            A Python int for a scalar, else an array of the shape of `values`.

        Raises
        ------
        ParameterError, ParameterTypeError, EntropyError
            As `dpcore.noise.discrete_laplace`, which does the work.

        Notes
        -----
        Each call spends `privacy` anew.
        """
        return noise.discrete_laplace(values, self.scale, rng=rng, out=out, threads=threads)

    def accuracy(self, beta: float, *, size: int = 1) -> int:
        r"""Give the half-width that all k = `size` answers meet with probability ≥ 1 − β.

        Parameters
        ----------
        beta : float
            Probability β that some answer misses, in (0, 1).
        size : int, default 1
            Number of answers k that the statement covers at once, ≥ 1.

        Returns
        -------
        int
            The least a ≥ 0 with P(\|Z\| > a) = 2r^(a+1)/(1+r) ≤ 1 − (1−β)^(1/k), r = e^(−1/t).

        Raises
        ------
        ParameterError, ParameterTypeError
            If a parameter is outside its range or of the wrong type.
        """
        from dpcore.accounting import _calibration

        return _calibration.discrete_laplace_width(self.scale, _tail(beta, size))


@dataclass(frozen=True, slots=True)
class DiscreteGaussian:
    r"""Discrete Gaussian mechanism: adds integer noise with P(z) ∝ e^(−z²/2σ²) to each integer answer.

    Parameters
    ----------
    epsilon : float
        Privacy loss ε, positive and finite.
    delta : float
        Failure mass δ, in (0, 1).
    sensitivity : float or int
        ℓ2 sensitivity Δ of the whole array of answers, positive and finite; for `method="exact"` an integer in [1, 2^53].
    method : {"zcdp", "exact"}, default "zcdp"
        "zcdp": by ρ = Δ²/2σ², for arrays of any size. "exact": by the sum over all integers, a smaller σ, for one answer only.
    relation : {"replace", "add_remove"}, default "replace"
        The neighbours that `sensitivity` was computed for.

    Attributes
    ----------
    scale : float
        σ, in (2^−20, 2^40].
    privacy : Privacy
        (ε, δ).

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or of the wrong type, or the scale would be outside its range.

    Notes
    -----
    Guarantee: "exact": Σ_z (P(z) − e^ε P(z−Δ))₊ ≤ δ, shown in interval arithmetic for this very σ; the sum is not monotone in σ, so more
    noise can mean less privacy: do not change the scale by hand. "zcdp": the Rényi bound of every order, hence (ε, δ); monotone in σ.
    Cost: up to 0.3 s for new parameters with "exact", then cached.
    Source: Canonne, Kamath & Steinke (2020).

    Examples
    --------
    >>> round(DiscreteGaussian(epsilon=1.0, delta=1e-6, sensitivity=1).scale, 4)
    4.5309
    >>> round(DiscreteGaussian(epsilon=1.0, delta=1e-6, sensitivity=1, method="exact").scale, 4)
    4.2308
    """

    epsilon: float
    delta: float
    sensitivity: float
    method: Literal["zcdp", "exact"] = field(default="zcdp", kw_only=True)
    relation: Relation = field(default="replace", kw_only=True)
    scale: float = field(init=False, repr=False, compare=False)
    privacy: Privacy = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_choice("method", self.method, ("zcdp", "exact"))
        check_choice("relation", self.relation, ("replace", "add_remove"))
        budget = _budget(self.epsilon, self.delta)
        sensitivity: float
        if self.method == "exact":
            sensitivity = check_integer("sensitivity", self.sensitivity, low=1, high=accounting.MAX_INTEGER_SENSITIVITY)
            scale = accounting.exact_discrete_gaussian_scale(**budget, sensitivity=sensitivity)
        else:
            sensitivity = check_sensitivity(self.sensitivity)
            scale = accounting.zcdp_discrete_gaussian_scale(**budget, sensitivity=sensitivity)
        parameters = {"sensitivity": sensitivity} | budget
        _settle(self, parameters, scale, noise.DISCRETE_SCALE, include_low=False)

    @overload
    def release(self, values: Integer, *, rng: Stream | None = ..., out: None = ..., threads: int | None = ...) -> int: ...
    @overload
    def release(self, values: SeriesT, *, rng: Stream | None = ..., out: None = ..., threads: int | None = ...) -> SeriesT: ...
    @overload
    def release(
        self, values: npt.ArrayLike, *, rng: Stream | None = ..., out: npt.NDArray[np.int64] | None = ..., threads: int | None = ...
    ) -> npt.NDArray[np.int64]: ...
    def release(self, values: Any, *, rng: Stream | None = None, out: Any = None, threads: int | None = None) -> Any:
        """Add fresh noise to every integer answer, saturating at the edges of int64.

        Parameters
        ----------
        values : array_like of int
            Answers, of any shape; for `method="exact"` at most one.
        rng : Stream, optional
            None is the secure source.
        out : ndarray of int64, optional
            Written in place; may be `values` itself.
        threads : int, optional
            Number of threads; None picks.

        Returns
        -------
        int or ndarray of int64
            A Python int for a scalar, else an array of the shape of `values`.

        Raises
        ------
        ParameterError
            If `method="exact"` and there is more than one answer: its δ is that of a single integer.
        ParameterError, ParameterTypeError, EntropyError
            As `dpcore.noise.discrete_gaussian`, which does the work.

        Notes
        -----
        Each call spends `privacy` anew.
        """
        if self.method == "exact" and (size := check_array("values", values, INTEGER_DTYPES).size) > 1:
            raise ParameterError(f"values must hold at most 1 answer for method='exact', got {size}; 'zcdp' takes arrays")
        return noise.discrete_gaussian(values, self.scale, rng=rng, out=out, threads=threads)

    def accuracy(self, beta: float, *, size: int = 1) -> int:
        r"""Give the half-width that all k = `size` answers meet with probability ≥ 1 − β.

        Parameters
        ----------
        beta : float
            Probability β that some answer misses, in (0, 1).
        size : int, default 1
            Number of answers k that the statement covers at once, ≥ 1.

        Returns
        -------
        int
            The least a ≥ 0 with P(\|Z\| > a) ≤ 1 − (1−β)^(1/k).

        Raises
        ------
        ParameterError, ParameterTypeError
            If a parameter is outside its range or of the wrong type.
        """
        from dpcore.accounting import _calibration

        return _calibration.discrete_gaussian_width(self.scale, _tail(beta, size))


def __dir__() -> list[str]:
    return __all__
