"""Mechanisms for integers."""

from __future__ import annotations

from dataclasses import field
from typing import Any, Literal, overload

import numpy as np
import numpy.typing as npt

from dpcore import accounting, noise
from dpcore._dataclasses import dataclass
from dpcore._series import SeriesT
from dpcore._validation import INTEGER_DTYPES, check_array, check_beta, check_choice, check_integer, check_positive, check_sensitivity
from dpcore.errors import ParameterError
from dpcore.mechanisms._parameters import checked_budget, kept, settle, tail_probability
from dpcore.privacy import Guaranteed, Privacy, Relation
from dpcore.rng import Stream

Integer = int | np.integer[Any]


@dataclass(frozen=True, slots=True)
class DiscreteLaplace(Guaranteed):
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
        settle(self, parameters, kept(accounting.laplace_scale, **parameters), noise.DISCRETE_SCALE, include_low=False)

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
            Answers, of any shape. A pandas Series is returned as a Series with the same index, which must not depend on the records.
        rng : Stream, optional
            None is the secure source.
        out : ndarray of int64, optional
            Written in place; may be `values` itself.
        threads : int, optional
            Number of threads; default min(CPU affinity, cgroup quota, DPCORE_NUM_THREADS).

        Returns
        -------
        int or ndarray of int64
            A Python int for a number, else an array of the shape of `values`.

        Raises
        ------
        ParameterError, ParameterTypeError, EntropyError
            As `dpcore.noise.discrete_laplace`.

        Notes
        -----
        Each call spends `privacy` again.
        """
        return noise.discrete_laplace(values, self.scale, rng=rng, out=out, threads=threads)

    def accuracy(self, beta: float | None = None, *, confidence: float | None = None, size: int = 1) -> int:
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
        int
            The least a ≥ 0 with P(\|Z\| > a) = 2r^(a+1)/(1+r) ≤ 1 − (1−β)^(1/k), r = e^(−1/t).

        Raises
        ------
        ParameterError, ParameterTypeError
            If a parameter is outside its range or of the wrong type, or not exactly one of `beta` and `confidence` is given.
        """
        from dpcore.accounting import _calibration

        return _calibration.discrete_laplace_width(self.scale, tail_probability(check_beta(beta, confidence), size))


@dataclass(frozen=True, slots=True)
class DiscreteGaussian(Guaranteed):
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
        budget = checked_budget(self.epsilon, self.delta)
        sensitivity: float
        if self.method == "exact":
            sensitivity = check_integer("sensitivity", self.sensitivity, low=1, high=accounting.MAX_INTEGER_SENSITIVITY)
            scale = kept(accounting.exact_discrete_gaussian_scale, **budget, sensitivity=sensitivity)
        else:
            sensitivity = check_sensitivity(self.sensitivity)
            scale = kept(accounting.zcdp_discrete_gaussian_scale, **budget, sensitivity=sensitivity)
        parameters = {"sensitivity": sensitivity} | budget
        settle(self, parameters, scale, noise.DISCRETE_SCALE, include_low=False)

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
            Answers, of any shape; for `method="exact"` at most one. A pandas Series is returned as a Series with the same index, which
            must not depend on the records.
        rng : Stream, optional
            None is the secure source.
        out : ndarray of int64, optional
            Written in place; may be `values` itself.
        threads : int, optional
            Number of threads; default min(CPU affinity, cgroup quota, DPCORE_NUM_THREADS).

        Returns
        -------
        int or ndarray of int64
            A Python int for a number, else an array of the shape of `values`.

        Raises
        ------
        ParameterError
            If `method="exact"` and there is more than one answer: its δ is that of a single integer.
        ParameterError, ParameterTypeError, EntropyError
            As `dpcore.noise.discrete_gaussian`.

        Notes
        -----
        Each call spends `privacy` again.
        """
        if self.method == "exact" and (size := check_array("values", values, INTEGER_DTYPES).size) > 1:
            raise ParameterError(f"values must hold at most 1 answer for method='exact', got {size}; 'zcdp' takes arrays")
        return noise.discrete_gaussian(values, self.scale, rng=rng, out=out, threads=threads)

    def accuracy(self, beta: float | None = None, *, confidence: float | None = None, size: int = 1) -> int:
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
        int
            The least a ≥ 0 with P(\|Z\| > a) ≤ 1 − (1−β)^(1/k).

        Raises
        ------
        ParameterError, ParameterTypeError
            If a parameter is outside its range or of the wrong type, or not exactly one of `beta` and `confidence` is given.
        """
        from dpcore.accounting import _calibration

        return _calibration.discrete_gaussian_width(self.scale, tail_probability(check_beta(beta, confidence), size))
