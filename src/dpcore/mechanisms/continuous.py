"""Mechanisms for real numbers."""

from __future__ import annotations

from dataclasses import field
from typing import Any, Literal, overload

import numpy as np
import numpy.typing as npt

from dpcore import accounting, noise
from dpcore._dataclasses import dataclass
from dpcore._series import SeriesT
from dpcore._validation import check_beta, check_choice, check_positive, check_sensitivity
from dpcore.mechanisms._parameters import checked_budget, kept, settle, tail_probability
from dpcore.noise import Real
from dpcore.privacy import Guaranteed, Privacy, Relation
from dpcore.rng import Stream


@dataclass(frozen=True, slots=True)
class Laplace(Guaranteed):
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
        # Each number is read once, so that the scale follows from the numbers in `privacy`, for any types of the arguments.
        parameters = {"epsilon": check_positive("epsilon", self.epsilon), "sensitivity": check_sensitivity(self.sensitivity)}
        settle(self, parameters, kept(accounting.laplace_scale, **parameters), noise.FLOAT_SCALE)

    @overload
    def release(self, values: Real, *, rng: Stream | None = ..., out: None = ..., threads: int | None = ...) -> float: ...
    @overload
    def release(self, values: SeriesT, *, rng: Stream | None = ..., out: None = ..., threads: int | None = ...) -> SeriesT: ...
    @overload
    def release(  # type: ignore[overload-overlap]  # dtypes, which no array has both of
        self, values: npt.ArrayLike, *, rng: Stream | None = ..., out: npt.NDArray[np.float32], threads: int | None = ...
    ) -> npt.NDArray[np.float32]: ...
    @overload
    def release(
        self, values: npt.ArrayLike, *, rng: Stream | None = ..., out: npt.NDArray[np.float64] | None = ..., threads: int | None = ...
    ) -> npt.NDArray[np.float64]: ...
    def release(self, values: Any, *, rng: Stream | None = None, out: Any = None, threads: int | None = None) -> Any:
        """Add fresh noise to every answer and round to the default grid.

        Parameters
        ----------
        values : array_like
            Answers, of any shape; finite. A pandas Series is returned as a Series with the same index, which must not depend on the
            records.
        rng : Stream, optional
            None is the secure source.
        out : ndarray of float64 or float32, optional
            Written in place; may be `values` itself. Float32 rounds what is released, see `dpcore.noise`.
        threads : int, optional
            Number of threads; default min(CPU affinity, cgroup quota, DPCORE_NUM_THREADS).

        Returns
        -------
        float or ndarray of float64
            A Python float for a number, else an array of the shape of `values`.

        Raises
        ------
        ParameterError, ParameterTypeError, DataError, EntropyError
            As `dpcore.noise.laplace`.

        Notes
        -----
        Each call spends `privacy` again.
        """
        return noise.laplace(values, self.scale, rng=rng, out=out, threads=threads)

    def accuracy(self, beta: float | None = None, *, confidence: float | None = None, size: int = 1) -> float:
        r"""Return the half-width within which all k = `size` answers lie with probability ≥ 1 − β.

        Parameters
        ----------
        beta : float, optional
            Probability β that at least one answer is further off, in (0, 1). Exactly one of `beta` and `confidence` is required.
        confidence : float, optional
            1 − β, in (0, 1).
        size : int, default 1
            Number of answers k that the statement covers at once, ≥ 1.

        Returns
        -------
        float
            b·ln(1/p) + g/2 rounded up, p = 1 − (1−β)^(1/k): the quantile of the largest of k independent \|noise\| terms, plus the
            most that rounding to the grid g adds.

        Raises
        ------
        ParameterError, ParameterTypeError
            If a parameter is outside its range or of the wrong type, or not exactly one of `beta` and `confidence` is given.

        Notes
        -----
        Beyond 2^53 grid steps, float64 numbers are further apart than the grid; the rounding of such answers adds half of that distance.
        """
        from dpcore.accounting import _calibration

        return _calibration.laplace_width(
            self.scale, tail_probability(check_beta(beta, confidence), size), noise.default_grid(self.scale) / 2
        )


@dataclass(frozen=True, slots=True)
class Gaussian(Guaranteed):
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
        parameters = checked_budget(self.epsilon, self.delta) | {"sensitivity": check_sensitivity(self.sensitivity)}
        settle(self, parameters, kept(calibrate, **parameters), noise.FLOAT_SCALE)

    @overload
    def release(self, values: Real, *, rng: Stream | None = ..., out: None = ..., threads: int | None = ...) -> float: ...
    @overload
    def release(self, values: SeriesT, *, rng: Stream | None = ..., out: None = ..., threads: int | None = ...) -> SeriesT: ...
    @overload
    def release(  # type: ignore[overload-overlap]  # dtypes, which no array has both of
        self, values: npt.ArrayLike, *, rng: Stream | None = ..., out: npt.NDArray[np.float32], threads: int | None = ...
    ) -> npt.NDArray[np.float32]: ...
    @overload
    def release(
        self, values: npt.ArrayLike, *, rng: Stream | None = ..., out: npt.NDArray[np.float64] | None = ..., threads: int | None = ...
    ) -> npt.NDArray[np.float64]: ...
    def release(self, values: Any, *, rng: Stream | None = None, out: Any = None, threads: int | None = None) -> Any:
        """Add fresh noise to every answer and round to the default grid.

        Parameters
        ----------
        values : array_like
            Answers, of any shape; finite. A pandas Series is returned as a Series with the same index, which must not depend on the
            records.
        rng : Stream, optional
            None is the secure source.
        out : ndarray of float64 or float32, optional
            Written in place; may be `values` itself. Float32 rounds what is released, see `dpcore.noise`.
        threads : int, optional
            Number of threads; default min(CPU affinity, cgroup quota, DPCORE_NUM_THREADS).

        Returns
        -------
        float or ndarray of float64
            A Python float for a number, else an array of the shape of `values`.

        Raises
        ------
        ParameterError, ParameterTypeError, DataError, EntropyError
            As `dpcore.noise.gaussian`.

        Notes
        -----
        Each call spends `privacy` again.
        """
        return noise.gaussian(values, self.scale, rng=rng, out=out, threads=threads)

    def accuracy(self, beta: float | None = None, *, confidence: float | None = None, size: int = 1) -> float:
        r"""Return the half-width within which all k = `size` answers lie with probability ≥ 1 − β.

        Parameters
        ----------
        beta : float, optional
            Probability β that at least one answer is further off, in (0, 1). Exactly one of `beta` and `confidence` is required.
        confidence : float, optional
            1 − β, in (0, 1).
        size : int, default 1
            Number of answers k that the statement covers at once, ≥ 1.

        Returns
        -------
        float
            σ·z + g/2 rounded up, 2Φ(−z) = p = 1 − (1−β)^(1/k): the quantile of the largest of k independent \|noise\| terms, plus the
            most that rounding to the grid g adds.

        Raises
        ------
        ParameterError, ParameterTypeError
            If a parameter is outside its range or of the wrong type, or not exactly one of `beta` and `confidence` is given.

        Notes
        -----
        Beyond 2^53 grid steps, float64 numbers are further apart than the grid; the rounding of such answers adds half of that distance.
        """
        from dpcore.accounting import _calibration

        return _calibration.gaussian_width(
            self.scale, tail_probability(check_beta(beta, confidence), size), noise.default_grid(self.scale) / 2
        )
