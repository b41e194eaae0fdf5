"""The private test of uniformity by Lipschitz extension, for data sets so small that all of them can be enumerated.

Private inference (chapter 9), Algorithms 9.3.1 and 9.3.2.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dpcore import noise
from dpcore._validation import check_integer, check_positive, check_real, check_threads
from dpcore.errors import ParameterError, ParameterTypeError
from dpcore.inference._lipschitz import DOCUMENT, Constants, Progress, States, Step, least_sample_size, steps
from dpcore.inference._signs import SignRows, check_signs
from dpcore.inference.distribution_tests import SMALLEST_ALPHA, TestOutcome
from dpcore.privacy import Privacy
from dpcore.rng import resolve

if TYPE_CHECKING:
    from dpcore.rng import Stream

MOST_STATES = 2**28


def lipschitz_uniformity_test(
    records: npt.ArrayLike,
    epsilon: float,
    *,
    alpha: float,
    max_states: int = 2**22,
    constants: Constants = DOCUMENT,
    progress: Progress | None = None,
    rng: Stream | None = None,
    threads: int | None = None,
) -> TestOutcome:
    r"""Test uniformity on {±1}^d with pure differential privacy, by enumerating all possible data sets.

    Parameters
    ----------
    records : array_like, shape (n, d)
        n ≥ 2 records of d signs: entries −1 and +1, or bool with True as +1.
    epsilon : float
        Total privacy loss ε in [2^-60, 2^60].
    alpha : float
        Separation ‖ν‖₂ in [2^-40, √d].
    max_states : int, default 2**22
        Largest number 2^(nd) of data sets to enumerate, at most 2^28.
    constants : tuple of three floats, default (1000, 11, 10)
        Factors of Δ*, of the next Δ and of n√d in the loop's limits, positive. With the default, which is that of the chapter, no loop
        runs on data that can be enumerated; smaller factors make it run. The guarantee does not depend on them.
    progress : callable, optional
        Called as ``progress(done, total)`` while data sets are enumerated, with the number that are done out of 2^(nd). The numbers do not
        depend on the data.
    rng : Stream, optional
        Source of randomness; None is the secure source.
    threads : int, optional
        Number of threads; None chooses.

    Returns
    -------
    TestOutcome
        The decision. `statistic` is the noisy T̂ of the comparison that decided, and `p_value` the probability, by the exact law of data
        and noise under uniformity, that it is so large or larger, or that an earlier comparison rejects. `sample_size_needed` is the n from
        which on the comparisons with the default constants err with probability at most 1/3 on data that lie in every C(Δ), as in Theorem
        9.3.2. Such an n is always too large to enumerate.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is out of range or of the wrong type, or 2^(nd) exceeds `max_states`.
    DataError
        If an entry is no sign; the message has its row and column.
    EntropyError
        If the operating system gives no randomness.

    Notes
    -----
    Guarantee: ε-differential privacy of decision and statistic. At most M = ⌈ln n⌉ comparisons are made, each with ε' = ε/M, of

    T̂(X) = min over X' in C(Δ) of T(X') + 4Δ·d_H(X, X'),  C(Δ) = {X: \|⟨X^(j), X̄⟩\| ≤ Δ for all j},

    with noise Lap(4Δ/ε'). T̂ moves by at most 4Δ with one record for any C(Δ), as every term of the minimum does. On C(Δ), T̂ = T for
    all n and d that can be enumerated here, but not for all n and d: docs/exactness-tests.md has a counterexample (n = 18, d = 16), which
    the chapter overlooks. If C(Δ) is empty, T̂ is 0.
    Cost: O(2^(nd)·nd) time and 24 bytes for every data set.

    References
    ----------
    Private inference (chapter 9), Algorithms 9.3.1 and 9.3.2, corrected: the absolute value in C(Δ), and ε' in the last noise.

    Examples
    --------
    >>> import numpy as np
    >>> signs = np.array([[1, -1], [-1, 1], [1, 1], [-1, 1]])
    >>> outcome = lipschitz_uniformity_test(signs, 1.0, alpha=0.5)
    >>> outcome.privacy
    Privacy(epsilon=1.0, delta=0.0, relation='replace')
    """
    epsilon = check_real("epsilon", epsilon, low=2.0**-60, high=2.0**60)
    max_states = check_integer("max_states", max_states, low=4, high=MOST_STATES)
    factors = _check_constants(constants)
    check_threads(threads)
    rng = resolve(rng)
    rows = check_signs(records, None)
    n, d = rows.n, rows.d
    alpha = check_real("alpha", alpha, low=SMALLEST_ALPHA, high=math.sqrt(d))
    if n * d >= max_states.bit_length():
        raise ParameterError(
            f"max_states={max_states} must be at least 2^(n·d), the number of all data sets, got n·d = {n}·{d}: this test enumerates them "
            "all; for data of this size use dpcore.inference.uniformity_test, which takes time n·d"
        )
    comparisons = steps(n, d, epsilon, alpha, factors)
    needed = least_sample_size(d, alpha, epsilon)
    states = States(n, d, progress)
    made, statistic = _compared(_codes(rows, threads), states, comparisons, rng)
    p_value = states.p_value(comparisons[:made], statistic)
    return TestOutcome(statistic > comparisons[made - 1].limit, statistic, Privacy(epsilon), needed, p_value)


def _check_constants(constants: object) -> Constants:
    if not isinstance(constants, (tuple, list)) or len(constants) != 3:
        raise ParameterTypeError(f"constants must be three positive numbers, got {constants!r}")
    first, second, third = (check_positive(f"constants[{i}]", c) for i, c in enumerate(constants))
    return first, second, third


def _codes(rows: SignRows, threads: int | None) -> npt.NDArray[np.int64]:
    """Each record as an integer: bit i is 1 if sign i is +1."""
    (packed,) = rows.blocks(threads)
    return packed.astype(np.int64) @ (1 << 8 * np.arange(packed.shape[1]))


def _compared(codes: npt.NDArray[np.int64], states: States, comparisons: list[Step], rng: Stream | None) -> tuple[int, float]:
    """Return how many comparisons were made, and the noisy statistic of the last one."""
    distances, statistics = states.distances(codes), []
    for step in comparisons:
        statistics.append(noise.laplace(states.extension(distances, step.width), step.scale, rng=rng))
        if statistics[-1] > step.limit:
            break
    return len(statistics), statistics[-1]
