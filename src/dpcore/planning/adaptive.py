"""The design of answers to adaptive queries."""

from __future__ import annotations

import math
from dataclasses import field
from typing import TYPE_CHECKING, Any, Literal

from dpcore._dataclasses import dataclass
from dpcore._error_curves import MOST_RECORDS, OUTWARDS, ErrorCurve
from dpcore._validation import check_choice, check_integer, check_real
from dpcore.errors import ParameterError
from dpcore.inference._population import GRIDS, SUMS, best_deviation, scale_factor, split_size
from dpcore.inference.adaptive import MOST_QUERIES

if TYPE_CHECKING:
    from dpcore._error_curves import Aim

ABOUT = ("population", "records")
SMALLEST_EPSILON = 1e-6
LARGEST_EPSILON = math.nextafter(1.0, 0.0)


@dataclass(frozen=True)
class AdaptiveAnswers:
    r"""The answers of `inference.AdaptiveQueries`, for `sample_size` and `epsilon_for`.

    Parameters
    ----------
    uses : int
        Number k of queries, in [1, 10^9].
    delta : float, optional
        Failure mass δ in (0, 1). By default the one with the smallest error, for answers about the population; required for records.
    about : {"population", "records"}, default "population"
        What the answers are compared with: means over the distribution that the records were drawn from, or over these records.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is out of range or of the wrong type.

    Notes
    -----
    A width is twice the accuracy α, with all k answers within α of what they are about at once, at the confidence 1 − β.

    About the records α = s·ln(k/β), with s = √(8k·ln(1/δ))/(εn) the scale of the noise (Claim 6), and the root mean square error of an
    answer is √2·s. About the population

        α = s(1 + ln(2k/(sβ))) + tanh(ε/4) + 2δ/β,

    with all constants proved (docs/exactness-adaptive.md). Without ε, `sample_size` takes the ε and δ with the smallest α: then privacy is
    only the means. So n·α²/√k is a constant times logarithms, as the corollary of Theorem 9 says; `details` has it, and the number of
    records needed if each query had its own.

    References
    ----------
    Stemmer (lecture 6), Corollary 5, Claim 6, Theorem 9 and its corollary; Jung et al. (2020), for the proof.

    Examples
    --------
    >>> from dpcore.planning import AdaptiveAnswers, sample_size
    >>> plan = sample_size(AdaptiveAnswers(uses=1_000_000), width=0.2)
    >>> f"{plan.n:.3g} {plan.epsilon:.2g}", f"{plan.details['n with separate records']:.3g}"
    ('2.29e+07 0.19', '8.76e+08')
    """

    uses: int
    delta: float | None = field(default=None, kw_only=True)
    about: Literal["population", "records"] = field(default="population", kw_only=True)

    def __post_init__(self) -> None:
        check_integer("uses", self.uses, low=1, high=MOST_QUERIES)
        check_choice("about", self.about, ABOUT)
        if self.delta is not None:
            check_real("delta", self.delta, low=0.0, high=1.0, include_low=False, include_high=False)
        elif self.about == "records":
            raise ParameterError("delta must be given for answers about the records, got None")

    def error_curve(self, aim: Aim) -> ErrorCurve:
        """Return the error of the answers as a function of n and ε.

        Parameters
        ----------
        aim : planning.Aim
            Width, twice the accuracy of all answers at once; or, about the records, the root mean square error of an answer.

        Returns
        -------
        planning.ErrorCurve
            The error.

        Raises
        ------
        ParameterError
            If the measure is another one.
        """
        return self._about_population(aim) if self.delta is None or self.about == "population" else self._about_records(aim, self.delta)

    def _about_records(self, aim: Aim, delta: float) -> ErrorCurve:
        aim.one_of("answers about the records", "rmse", "width")
        proved = 2 * -math.log(delta) * (1 - 2.0**-50)
        if proved < SMALLEST_EPSILON:
            raise ParameterError(f"delta must be at most e^(−{SMALLEST_EPSILON / 2:g}), as ε is at most 2·ln(1/δ), got {delta!r}")
        beta = 1 - aim.confidence
        factor = math.sqrt(2.0) if aim.measure == "rmse" else 2 * (math.log(self.uses / beta) + GRIDS)

        def error(n: int, epsilon: float) -> float:
            if epsilon > proved:
                return math.inf
            return float(factor * scale_factor(self.uses, delta) / (epsilon * n) * OUTWARDS + SUMS * (aim.measure == "width"))

        return ErrorCurve(
            error,
            what=f"{self.uses:,} adaptive answers about the records",
            formula="√2·s" if aim.measure == "rmse" else "2s·ln(k/β), s = √(8k·ln(1/δ))/(εn)",
            source="Stemmer (lecture 6), Corollary 5 and Claim 6",
            exact=aim.measure == "rmse",
            sizes=(1, MOST_RECORDS),
            epsilons=(SMALLEST_EPSILON, min(LARGEST_EPSILON, proved)),
            falls_in_n=True,
            falls_in_epsilon=True,
            limit_in_epsilon="ε must be below 1 and at most 2·ln(1/δ)",
        )

    def _about_population(self, aim: Aim) -> ErrorCurve:
        aim.one_of("answers about the population", "width")
        beta = 1 - aim.confidence

        def best(n: int, epsilon: float | None) -> tuple[float, float, float]:
            return best_deviation(n, self.uses, beta, epsilon, self.delta)

        def details(n: int, epsilon: float) -> dict[str, Any]:
            accuracy, _, delta = best(n, epsilon)
            return {
                "δ": delta,
                "accuracy α": accuracy,
                "n·α²/√k": n * accuracy**2 / math.sqrt(self.uses),
                "n with separate records": split_size(self.uses, aim.target / 2, beta),
            }

        return ErrorCurve(
            lambda n, epsilon: 2 * best(n, epsilon)[0],
            what=f"{self.uses:,} adaptive answers about the population",
            formula="2α, α = s(1 + ln(2k/(sβ))) + tanh(ε/4) + 2δ/β, s = √(8k·ln(1/δ))/(εn)",
            source="docs/exactness-adaptive.md; Stemmer (lecture 6), corollary of Theorem 9",
            best_epsilon=lambda n: best(n, None)[1],
            sizes=(1, MOST_RECORDS),
            epsilons=(SMALLEST_EPSILON, LARGEST_EPSILON),
            falls_in_n=True,
            limit_in_n="tanh(ε/4) + 2δ/β, which no n makes smaller",
            limit_in_epsilon="the noise falls with ε and tanh(ε/4) grows: there is a best ε for each n",
            details=details,
        )
