"""Running totals: the total of a stream after each of its steps, under one budget for all of them."""

from __future__ import annotations

import math
import threading
from dataclasses import field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpcore import accounting, noise
from dpcore._dataclasses import dataclass
from dpcore._guarantee import sentences
from dpcore._processes import OneProcess
from dpcore._validation import (
    INTEGER_DTYPES,
    check_array,
    check_beta,
    check_choice,
    check_integer,
    check_positive,
    check_real,
    check_sensitivity,
)
from dpcore.errors import ParameterError, ParameterTypeError
from dpcore.mechanisms._totals import MOST_STEPS, Factorisation, Tree, nodes_moved, root_up, scale_of_rho, squared_norm
from dpcore.privacy import Privacy, Relation
from dpcore.rng import StreamPosition, resolve

if TYPE_CHECKING:
    from dpcore.mechanisms._totals import Kept
    from dpcore.rng import Stream

SHOWN_DELTA = 1e-6
"""The δ of the guarantee in words, where the noise has a ρ alone."""


@dataclass(frozen=True, slots=True)
class RunningTotals:
    r"""The totals of a stream of integers: x₁ + … + x_t after each step t ≤ T, all of them together under one budget.

    With a δ or a ρ the noise is Gaussian, and the error of a total grows with ln T. With an ε alone it is that of a binary tree of Laplace
    noise. Separate releases of T totals would need noise that grows with √T, or with T.

    Parameters
    ----------
    steps : int
        Steps T of the whole stream, in [1, 16384].
    epsilon : float, optional
        Privacy loss ε of all totals together, positive and finite. Give either `epsilon` or `rho`.
    delta : float, default 0.0
        Failure mass δ of all totals together, in [0, 1). A positive one gives Gaussian noise. With `rho`, the δ of `privacy`.
    sensitivity : float or int, default 1
        How much one entry may change: Δ, an integer in [1, 2^53] for Laplace noise. Several streams that are released together take their
        norm in one step, ℓ1 for Laplace and ℓ2 for Gaussian noise.
    rho : float, optional
        Zero-concentrated privacy ρ of all totals together, positive and finite.
    max_steps_per_unit : int, default 1
        In how many steps m two neighbouring streams differ at most, in [1, T]. **The default protects one event**: an entry of one step. To
        protect a person, claim in how many steps one person has entries. The mechanism sees sums only, so it cannot enforce what you claim.
    relation : {"replace", "add_remove"}, default "replace"
        The neighbours that `sensitivity` was computed for.

    Attributes
    ----------
    scale : float
        σ or t of the noise of each step, in (2^−20, 2^40].
    reach : float
        How far apart two neighbours are in all that is released together, at most: in ℓ2 for Gaussian and in ℓ1 for Laplace noise.
    zcdp : float
        ρ of zero-concentrated privacy of all totals together, rounded up.
    privacy : Privacy or None
        (ε, δ) of all totals together; None if only a ρ was given.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or of the wrong type, or the scale would be outside its range.

    Notes
    -----
    Guarantee: all T totals together have `privacy`, also if an adversary chooses each entry after the totals before it. Two neighbouring
    streams differ in at most m entries, each by at most Δ. `release` and each `start` spend `privacy` again.

    Gaussian noise: the released numbers are y = C̃x + z. C̃ has the integers round(64T·binom(2k, k)/4^k) k places below its diagonal, and
    σ² = Δ²·‖C̃₁ + … + C̃_m‖²/2ρ, because the first m columns are the worst. Totals are made of y alone. Laplace noise: the scale is Δ·w/ε,
    where w is in how many nodes of the tree m entries are together, at most.

    Memory: O(T) for Gaussian noise, O(log T) for Laplace noise. Cost: O(t) integer products at step t, and O(T²) once: 0.1 s for T = 1,000,
    half a minute for the largest T.

    Source: Fichtenberger, Henzinger & Upadhyay (2023); Chan, Shi & Song (2011) for the tree. Proofs are in docs/exactness-totals.md.

    Examples
    --------
    >>> totals = RunningTotals(52, epsilon=1.0, delta=1e-6)
    >>> visits = totals.start()
    >>> [isinstance(visits.add(count), float) for count in (118, 97)]
    [True, True]
    >>> round(totals.accuracy(0.05, step=52), 1)
    20.6
    """

    steps: int
    epsilon: float | None = None
    delta: float = 0.0
    sensitivity: float = 1
    rho: float | None = field(default=None, kw_only=True)
    max_steps_per_unit: int = field(default=1, kw_only=True)
    relation: Relation = field(default="replace", kw_only=True)
    scale: float = field(init=False, repr=False, compare=False)
    reach: float = field(init=False, repr=False, compare=False)
    zcdp: float = field(init=False, repr=False, compare=False)
    privacy: Privacy | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_choice("relation", self.relation, ("replace", "add_remove"))
        steps = check_integer("steps", self.steps, low=1, high=MOST_STEPS)
        moved = check_integer("max_steps_per_unit", self.max_steps_per_unit, low=1, high=steps)
        if (self.epsilon is None) == (self.rho is None):
            found = "neither was" if self.rho is None else "both were"
            raise ParameterError(f"give either epsilon or rho: {found} given")
        delta = check_real("delta", self.delta, low=0.0, high=1.0, include_high=False)
        settle = {"steps": steps, "max_steps_per_unit": moved, "delta": delta}
        settle |= self._by_tree(steps, moved) if self.epsilon is not None and not delta else self._by_factors(steps, moved, delta)
        low, high = noise.DISCRETE_SCALE
        if not low < settle["scale"] <= high:
            said = f"steps={steps}, sensitivity={settle['sensitivity']!r}, max_steps_per_unit={moved}"
            raise ParameterError(f"{said} must give a noise scale in (2**-20, 2**40], got scale {settle['scale']!r}")
        for name, value in settle.items():
            object.__setattr__(self, name, value)

    def _by_tree(self, steps: int, moved: int) -> dict[str, Any]:
        sensitivity = check_integer("sensitivity", self.sensitivity, low=1, high=accounting.MAX_INTEGER_SENSITIVITY)
        epsilon = check_positive("epsilon", self.epsilon)
        reach = sensitivity * nodes_moved(steps, moved)
        scale = accounting.laplace_scale(epsilon, reach)
        privacy = Privacy(epsilon, 0.0, self.relation)
        return {
            "sensitivity": sensitivity,
            "epsilon": epsilon,
            "scale": scale,
            "reach": reach,
            "zcdp": accounting.rho_pure(epsilon),
            "privacy": privacy,
        }

    def _by_factors(self, steps: int, moved: int, delta: float) -> dict[str, Any]:
        sensitivity = check_sensitivity(self.sensitivity)
        squared = Fraction(sensitivity) ** 2 * squared_norm(steps, moved)
        whole = root_up(squared)
        settled = {"sensitivity": sensitivity, "reach": whole}
        if self.epsilon is None:
            rho = check_positive("rho", self.rho)
            scale = scale_of_rho(rho, squared)
            privacy = Privacy(accounting.zcdp_epsilon(rho, delta), delta, self.relation) if delta else None
            return settled | {"rho": rho, "scale": scale, "zcdp": rho, "privacy": privacy}
        epsilon = check_positive("epsilon", self.epsilon)
        scale = accounting.zcdp_discrete_gaussian_scale(epsilon, delta, whole)
        zcdp = accounting.rho_gaussian(scale, whole) if math.isfinite(scale) else 0.0
        privacy = Privacy(epsilon, delta, self.relation)
        return settled | {"epsilon": epsilon, "scale": scale, "zcdp": zcdp, "privacy": privacy}

    @property
    def guarantee(self) -> str:
        """The guarantee in words, for a report or a publication; without a δ of its own, at δ = 10⁻⁶."""
        found = (
            Privacy(accounting.zcdp_epsilon(self.zcdp, SHOWN_DELTA), SHOWN_DELTA, self.relation) if self.privacy is None else self.privacy
        )
        rho = self.zcdp if found.delta else None
        return sentences(found.epsilon, found.delta, relation=found.relation, rho=rho)

    @property
    def way(self) -> Factorisation | Tree:
        """How totals are released: a factorisation or a tree."""
        return Factorisation(self.steps) if self.delta or self.rho is not None else Tree(self.steps)

    def start(self, *, rng: Stream | None = None) -> RunningTotal:
        """Begin a stream. Its entries come one by one.

        Parameters
        ----------
        rng : Stream, optional
            None is the secure source, of which each step takes a fresh key. A test key gives step t its t-th element at one position.

        Returns
        -------
        RunningTotal
            The stream, before its first step.

        Raises
        ------
        ParameterTypeError
            If `rng` is not a source.
        """
        return RunningTotal(self, rng)

    def release(self, values: npt.ArrayLike, *, rng: Stream | None = None) -> npt.NDArray[Any]:
        """Release the totals of entries that are all known.

        Parameters
        ----------
        values : array_like of int
            The entries x₁, …, x_t, t ≤ T.
        rng : Stream, optional
            None is the secure source. The totals are those of `start` and `add`, bit for bit under a test key.

        Returns
        -------
        ndarray
            The total after each of them: float64 for Gaussian noise; Python integers for Laplace noise, in an array of objects if they need
            more than 64 bits.

        Raises
        ------
        ParameterError, ParameterTypeError, EntropyError
            If `values` is not one row of at most T integers, or there is no randomness.

        Notes
        -----
        Each call spends `privacy` again.
        """
        entries = check_array("values", values, INTEGER_DTYPES)
        if entries.ndim != 1 or len(entries) > self.steps:
            raise ParameterError(f"values must be one row of at most steps = {self.steps} integers, got the shape {entries.shape}")
        stream = self.start(rng=rng)
        found = [stream.add(entry) for entry in entries.tolist()]
        return np.array(found, self._dtype(found))

    def _dtype(self, totals: list[float]) -> type:
        if isinstance(self.way, Factorisation):
            return np.float64
        return np.int64 if all(-(2**63) <= total < 2**63 for total in totals) else object

    def noise_of(self, step: int, position: StreamPosition) -> int:
        """Draw the noise of a step, given the position of the whole stream.

        Parameters
        ----------
        step : int
            t, in [1, T].
        position : StreamPosition
            Where the stream begins. Step t takes its element t − 1.

        Returns
        -------
        int
            The noise.
        """
        draw = noise.discrete_gaussian if isinstance(self.way, Factorisation) else noise.discrete_laplace
        at = position._replace(first_element=position.first_element + step - 1)
        return draw(0, self.scale, rng=_At(at), threads=1)

    def stderr(self, *, step: int) -> float:
        """Return the standard deviation of the noise of a total.

        Parameters
        ----------
        step : int
            t, in [1, T].

        Returns
        -------
        float
            σ‖b‖ for Gaussian noise, where a total is Σ b_k y_k; the root of the variances of its nodes for Laplace noise.

        Raises
        ------
        ParameterError, ParameterTypeError
            If `step` is not a step.
        """
        return self.way.deviation(self.scale, self._checked(step))

    def accuracy(self, beta: float | None = None, *, confidence: float | None = None, step: int) -> float:
        r"""Return the half-width within which the total of a step lies with probability ≥ 1 − β.

        Parameters
        ----------
        beta : float, optional
            Probability β that it is further off, in (0, 1). Exactly one of `beta` and `confidence` is required.
        confidence : float, optional
            1 − β, in (0, 1).
        step : int
            t, in [1, T].

        Returns
        -------
        float
            Laplace noise: the least integer a with P(\|noise\| > a) ≤ β. Gaussian noise: a little more than is needed, as a rule the width
            of a normal law with room for the difference.

        Raises
        ------
        ParameterError, ParameterTypeError
            If a parameter is outside its range or of the wrong type, or not exactly one of `beta` and `confidence` is given.
        """
        return self.way.width(self.scale, self._checked(step), check_beta(beta, confidence))

    def _checked(self, step: int) -> int:
        return check_integer("step", step, low=1, high=self.steps)


class _At:
    """A stream with one position."""

    def __init__(self, position: StreamPosition) -> None:
        self._position, self.secure = position, position.secure

    def position(self) -> StreamPosition:
        return self._position


class RunningTotal(OneProcess):
    """One stream of running totals. `RunningTotals.start` makes it.

    It keeps the entries, or sums of them, in memory. It is neither copied nor pickled nor used after a fork, because two copies could
    release one step with two noises.

    Parameters
    ----------
    mechanism : RunningTotals
        The mechanism.
    rng : Stream, optional
        None is the secure source.

    Attributes
    ----------
    mechanism : RunningTotals
        The mechanism.

    Raises
    ------
    ParameterTypeError
        If `rng` is not a source.

    Examples
    --------
    >>> visits = RunningTotals(12, epsilon=1.0).start()
    >>> total = visits.add(118)
    >>> visits.step, visits.total == total
    (1, True)
    >>> low, high = visits.interval(0.95)
    >>> low < total < high
    True
    """

    WORDS = "a RunningTotal releases each step once, and two of it would release it twice"

    def __init__(self, mechanism: RunningTotals, rng: Stream | None = None) -> None:
        super().__init__()
        self.mechanism, self._lock = mechanism, threading.Lock()
        self._stream = resolve(rng)
        self._first = None if self._stream.secure else self._stream.position()
        self._kept: Kept = mechanism.way.begin()
        self._total: float | None = None

    @property
    def step(self) -> int:
        """Steps that were made."""
        return self._kept.step

    @property
    def total(self) -> float | None:
        """The total of the last step; None before the first."""
        return self._total

    def add(self, entry: int) -> float:
        """Make the next step.

        Parameters
        ----------
        entry : int
            x_t, an integer of 64 bits.

        Returns
        -------
        float or int
            The noisy total x₁ + … + x_t: a float for Gaussian noise, an integer for Laplace noise.

        Raises
        ------
        ParameterError
            If all T steps were made, or the entry needs more than 64 bits. Nothing is drawn.
        ParameterTypeError
            If the entry is not an integer.
        BudgetError
            In a process that was forked from the one that began.
        EntropyError
            If there is no randomness. The step was not made.
        """
        self.refuse_elsewhere()
        number = _checked_entry(entry)
        with self._lock:
            step = self._kept.step + 1
            if step > self.mechanism.steps:
                raise ParameterError(f"all steps = {self.mechanism.steps} were made; begin another stream, which spends its budget again")
            first = self._stream.position() if self._first is None else self._first
            self._kept.add(number, self.mechanism.noise_of(step, first))
            self._total = self._kept.total()
        return self._total

    @property
    def stderr(self) -> float | None:
        """The standard deviation of the noise of the last total; None before the first."""
        return self.mechanism.stderr(step=self.step) if self.step else None

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Return an interval that holds the true total of the last step with this probability at least.

        Parameters
        ----------
        confidence : float, default 0.95
            In (0, 1).

        Returns
        -------
        tuple of float
            Its ends.

        Raises
        ------
        ParameterError, ParameterTypeError
            If no step was made, or the confidence is outside its range or of the wrong type.
        """
        if self._total is None:
            raise ParameterError("no step was made: there is no total yet")
        confidence = check_real("confidence", confidence, low=0.0, high=1.0, include_low=False, include_high=False)
        return around_total(self._total, self.mechanism, self.step, confidence)

    def __repr__(self) -> str:
        return f"RunningTotal(step={self.step} of {self.mechanism.steps}, total={self._total!r})"


def _checked_entry(entry: object) -> int:
    """An entry as an integer of Python; messages never show it."""
    if isinstance(entry, bool | np.bool_) or not isinstance(entry, int | np.integer):
        raise ParameterTypeError(f"entry must be an integer, got {type(entry).__name__}")
    if not -(2**63) <= int(entry) < 2**63:
        raise ParameterError("entry must be an integer of 64 bits")
    return int(entry)


def around_total(total: float, mechanism: RunningTotals, step: int, confidence: float) -> tuple[float, float]:
    """The interval around a total, with room for the rounding of a float."""
    width = mechanism.accuracy(confidence=confidence, step=step)
    if isinstance(total, int):
        return total - math.ceil(width), total + math.ceil(width)
    low, high = total - width, total + width
    for _ in range(2):
        low, high = math.nextafter(low, -math.inf), math.nextafter(high, math.inf)
    return low, high
