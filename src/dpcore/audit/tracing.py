"""The tracing attack on released means: was this record among the data? Private inference (chapter 9), Theorems 9.2.1 and 9.2.3."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from dpcore._validation import REAL_DTYPES, check_array, check_beta, check_finite, check_integer, check_real
from dpcore.errors import ParameterError

Array = npt.NDArray[np.float64]


class TracingAttack:
    r"""Scores ⟨(x − μ)_S, M − μ⟩ of records x against a released mean M: records that were averaged have larger ones.

    Parameters
    ----------
    mean : array_like
        (d,) finite numbers: the mean μ of the population, which the attacker knows.
    support : sequence of int, optional
        Coordinates S that count, in [0, d) and distinct; all by default. For sparse means, those with μ ≠ 0.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is out of range or of the wrong type.
    DataError
        If `mean` is not finite.

    Notes
    -----
    A record that is independent of the release has a score of mean 0. If M is the mean of n records, one of these has the score
    Σ (x_j − μ_j)²/n on average. Differential privacy bounds the difference, and from this bound follow lower bounds of the error:
    `dpcore.inference.mean_lower_bound`. Use the attack to see how much a release tells. With `audit` it gives a proved lower bound of ε.

    References
    ----------
    Private inference (chapter 9), proof of Theorem 9.2.3; Dwork et al. (2015), for the attack.

    Examples
    --------
    Half of these people are in the data. Without noise the attack finds nearly all of them, and accuses one in a hundred of the others:

    >>> import numpy as np
    >>> from dpcore import inference
    >>> from dpcore.audit import TracingAttack
    >>> signs = np.random.default_rng(1).choice([-1.0, 1.0], (200, 4000))
    >>> inside, outside = signs[:100], signs[100:]
    >>> attack = TracingAttack(np.zeros(4000))
    >>> [int(attack.accused(people, inside.mean(axis=0), radius=1.0, beta=0.01).sum()) for people in (inside, outside)]
    [100, 0]
    >>> private = inference.mean(inside, epsilon=1.0, delta=1e-6, radius=1.0).value
    >>> int(attack.accused(inside, private, radius=1.0, beta=0.01).sum()) < 15
    True
    """

    def __init__(self, mean: npt.ArrayLike, *, support: npt.ArrayLike | None = None) -> None:
        self.mean = _numbers("mean", mean, 1)
        self.support = None if support is None else _support(support, len(self.mean))

    def scores(self, records: npt.ArrayLike, released: npt.ArrayLike) -> Array:
        """Return the score of each record.

        Parameters
        ----------
        records : array_like
            (n, d) finite numbers.
        released : array_like
            (d,) finite numbers: the released mean M.

        Returns
        -------
        ndarray of float64, shape (n,)
            ⟨(x − μ)_S, M − μ⟩.

        Raises
        ------
        ParameterError, ParameterTypeError, DataError
            If the shapes do not fit, or a number is not finite.
        """
        rows, direction = self._rows(records), self._direction(released)
        centred: Array = rows - self._part(self.mean)
        scores: Array = centred @ direction
        return scores

    def accused(self, records: npt.ArrayLike, released: npt.ArrayLike, *, radius: float, beta: float) -> npt.NDArray[np.bool_]:
        r"""Return which records the attack takes for members of the data.

        Parameters
        ----------
        records, released : array_like
            As in `scores`.
        radius : float
            R: coordinates of records are in [−R, R]. Positive and finite.
        beta : float
            Probability β of a false accusation, in (0, 1).

        Returns
        -------
        ndarray of bool, shape (n,)
            Whether a score exceeds R‖(M − μ)_S‖₂√(2 ln(1/β)).

        Raises
        ------
        ParameterError, ParameterTypeError, DataError
            As in `scores`.

        Notes
        -----
        Guarantee: a record with independent coordinates of mean μ in [−R, R] that is independent of the release is accused with probability
        at most β, by Hoeffding's inequality.
        """
        radius = check_real("radius", radius, low=0.0, high=2.0**900, include_low=False)
        beta = check_beta(beta)
        scores, length = self.scores(records, released), float(np.linalg.norm(self._direction(released)))
        accused: npt.NDArray[np.bool_] = scores > radius * length * math.sqrt(-2 * math.log(beta))
        return accused

    def statistic(self, record: npt.ArrayLike) -> Callable[[Any], Array]:
        """Return the score of one record as a statistic for `audit`, whose inputs are data sets with and without this record.

        Parameters
        ----------
        record : array_like
            (d,) finite numbers.

        Returns
        -------
        callable
            Takes released means of shape (runs, d), and returns a score for each.

        Raises
        ------
        ParameterError, ParameterTypeError, DataError
            As in `scores`.

        Examples
        --------
        This mean has a tenth of the noise that its claim needs:

        >>> import numpy as np
        >>> from dpcore import Privacy, noise
        >>> from dpcore.audit import TracingAttack, audit
        >>> from dpcore.testing import KeyedRandom
        >>> data = np.ones((50, 40))
        >>> def broken(x, size, rng):
        ...     return noise.gaussian(np.tile(x.mean(axis=0), (size, 1)), 0.1, rng=rng)
        >>> one, other = data.copy(), data.copy()
        >>> other[0] = -1.0
        >>> score = TracingAttack(np.zeros(40)).statistic(one[0])
        >>> options = {"privacy": Privacy(1.0, 1e-6), "events": [score], "runs": 20_000, "rng": KeyedRandom(bytes(32))}
        >>> audit(broken, one, other, **options).refuted
        True
        """
        row = self._rows(np.asarray(check_array("record", record, REAL_DTYPES))[None])[0] - self._part(self.mean)
        middle = self._part(self.mean)

        def score(outputs: Any) -> Array:
            found: Array = (self._part(np.asarray(outputs, np.float64)) - middle) @ row
            return found

        return score

    def _part(self, values: Array) -> Array:
        return values if self.support is None else values[..., self.support]

    def _direction(self, released: npt.ArrayLike) -> Array:
        mean = _numbers("released", released, 1)
        if mean.shape != self.mean.shape:
            raise ParameterError(f"released must have {len(self.mean)} coordinates, as mean has, got shape {mean.shape}")
        return self._part(mean) - self._part(self.mean)

    def _rows(self, records: npt.ArrayLike) -> Array:
        rows = _numbers("records", records, 2)
        if rows.shape[1] != len(self.mean):
            raise ParameterError(f"records must have {len(self.mean)} columns, as mean has, got shape {rows.shape}")
        return self._part(rows)

    def __repr__(self) -> str:
        counted = "all" if self.support is None else str(len(self.support))
        return f"TracingAttack(<{len(self.mean)} coordinates, {counted} counted>)"


def _numbers(name: str, values: npt.ArrayLike, dimensions: int) -> Array:
    array: Array = check_array(name, values, REAL_DTYPES).astype(np.float64)
    if array.ndim != dimensions or 0 in array.shape[dimensions - 1 :]:
        shape = "(d,)" if dimensions == 1 else "(n, d)"
        raise ParameterError(f"{name} must have shape {shape} with d ≥ 1, got shape {array.shape}")
    check_finite(name, array.ravel())
    return array


def _support(support: npt.ArrayLike, d: int) -> npt.NDArray[np.int64]:
    array = check_array("support", support, REAL_DTYPES)
    if array.ndim != 1 or not array.size:
        raise ParameterError(f"support must have shape (s,) with s ≥ 1, got shape {array.shape}")
    places = [check_integer("support", place, low=0, high=d - 1) for place in array.tolist()]
    if len(set(places)) < len(places):
        raise ParameterError(f"support must not hold a coordinate twice, got {len(places)} of which {len(set(places))} differ")
    return np.array(places, np.int64)
