"""The design of a private test of a distribution."""

from __future__ import annotations

import math
from dataclasses import field
from typing import TYPE_CHECKING

from dpcore._dataclasses import dataclass
from dpcore._error_curves import MOST_RECORDS, ErrorCurve
from dpcore._validation import check_integer, check_real
from dpcore.errors import ParameterError
from dpcore.inference._sample_size import error_bounds
from dpcore.inference._thresholds import LARGEST_EPSILON, check_budget
from dpcore.inference.distribution_tests import SMALLEST_ALPHA, sign_separation

if TYPE_CHECKING:
    from dpcore._error_curves import Aim


@dataclass(frozen=True)
class UniformityTest:
    r"""The test that `inference.uniformity_test` makes, for `sample_size(..., power=...)` and `epsilon_for(..., power=...)`.

    Parameters
    ----------
    alpha : float
        Separation ‖ν‖₂ at which the test shall have the power, in [2^-40, √d].
    d : int
        Number of signs of a record, in [1, 2^40].
    delta : float
        Total failure mass δ in [2^-900, 1/2].
    level : float, optional
        Size of the test, in (δ, 1), as in `inference.uniformity_test`. Without one, the size is at most 1 − power at the n that is found.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is out of range or of the wrong type.

    Notes
    -----
    The bounds are those of `inference.sample_size_needed`, which is the n for power=2/3. docs/exactness-tests.md derives them.

    Examples
    --------
    >>> from dpcore.planning import UniformityTest, sample_size
    >>> sample_size(UniformityTest(0.5, d=100, delta=1e-6), epsilon=1.0, power=2 / 3).n
    6987
    """

    alpha: float
    d: int = field(kw_only=True)
    delta: float = field(kw_only=True)
    level: float | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        d = check_integer("d", self.d, low=1, high=2**40)
        check_real("alpha", self.alpha, low=SMALLEST_ALPHA, high=math.sqrt(d))
        _, delta = check_budget(1.0, self.delta)
        if self.level is not None:
            check_real("level", self.level, low=delta, high=1.0, include_low=False, include_high=False)

    @classmethod
    def of_identity(cls, alpha: float, *, d: int, delta: float, level: float | None = None) -> UniformityTest:
        """The test of signs that `inference.identity_test` makes.

        Parameters
        ----------
        alpha : float
            Mahalanobis distance of the means, positive.
        d : int
            Coordinates of a record.
        delta : float
            Total failure mass δ.
        level : float, optional
            Size of the test.

        Returns
        -------
        UniformityTest
            With the separation `inference.sign_separation(alpha)`.
        """
        return cls(sign_separation(alpha), d=d, delta=delta, level=level)

    def error_curve(self, aim: Aim) -> ErrorCurve:
        """Return the probability of a miss as a function of n and ε.

        Parameters
        ----------
        aim : planning.Aim
            Power.

        Returns
        -------
        planning.ErrorCurve
            The larger of the bounds of both errors; with a level, that of a miss.

        Raises
        ------
        ParameterError
            For other measures.
        """
        aim.one_of("a test", "power")

        def error(n: int, epsilon: float) -> float:
            try:
                return min(1.0, max(error_bounds(n, self.d, self.alpha, epsilon, self.delta, self.level, aim.allowed)))
            except (ParameterError, OverflowError):  # the noise leaves its range
                return 1.0

        both = "of a false alarm and of a miss, the larger one" if self.level is None else f"of a miss, at level {self.level:g}"
        return ErrorCurve(
            error,
            what=f"test of {self.d} signs at a separation of {self.alpha:g}",
            formula=f"bound of the probability {both}",
            source="docs/exactness-tests.md; Private inference (chapter 9), Theorem 9.3.4",
            sizes=(2, MOST_RECORDS),
            epsilons=(2.0**-60, LARGEST_EPSILON),
            limit_in_n="the noise and the filter of Algorithm 9.3.3",
            limit_in_epsilon=f"the error of n records without noise; the algorithm is proved for ε of at most {LARGEST_EPSILON:g}",
            details=lambda n, epsilon: {"δ": self.delta},  # noqa: ARG005  the same for all
        )
