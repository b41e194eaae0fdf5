r"""The budget of a job: how what its queries spend is added up, and what a query with a `weight` gets of it.

`[privacy] accounting` names the rule by which the answers of one job are together (`max_epsilon`, `max_delta`)-private:

- `"basic"`: Σε ≤ max_epsilon and Σδ ≤ max_delta.
- `"zcdp"`: an answer whose noise is ρ-zCDP costs ρ, any other the ρ of its ε and its δ as a failure. With δ₀ the sum of these failures,
  Σρ must be at most the largest ρ₀ that is (max_epsilon, max_delta − δ₀)-private.
- `"pld"`: the privacy loss distributions of all answers are composed by dp-accounting: continuous Gaussian noise as what it is, anything
  else as the worst mechanism of its (ε, δ).

All rules hold for answers that are computed together. Weights divide what the queries with an `epsilon` leave, in proportion: ε under
`"basic"`, ρ under `"zcdp"`; under `"pld"` they are in proportion to the ε of the queries, and the whole is as large as fits. Every rounding
is against the job: sums are exact fractions of numbers that were rounded up, and shares are rounded down.
"""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from typing import TYPE_CHECKING

from dpcore import accounting
from dpcore._exact.intervals import fraction_up
from dpcore.errors import BudgetError, JobError
from dpcore.privacy import Privacy, as_written, written_down, written_up
from dpcore.query.noise import check_share

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dpcore.accounting import Uses
    from dpcore.query.estimators import Estimator
    from dpcore.query.query_sections import QuerySection
    from dpcore.query.request import ReleaseJob

    AnswerOf = Callable[[int, ReleaseJob], Estimator]


ZERO = Fraction(0)
DIGITS = 32
"""The largest ε that fits is sought among the numbers of so many binary digits, of which there is one largest: its search goes by
logarithms, whose last bits machines compute differently, and its result is the same on all. A share loses less than 10^−9 of itself."""
SMALLEST = 2.0**-36
"""An ε below which no share is sought: the noise would be beyond what its mechanism can make."""
TINY = 5e-324
MARGIN = 1 - 2.0**-30
"""dp-accounting rounds to nearest: its sums must leave this room, of ε as of δ."""
LEAST_DELTA = 1e-10
"""dp-accounting's results below are rounding errors."""


def composed_by(job: ReleaseJob, answer_of: AnswerOf) -> tuple[ReleaseJob, tuple[Estimator, ...]]:
    """Return the job with the ε of each query and its total, and the answers.

    Parameters
    ----------
    job : ReleaseJob
        A job whose queries with a weight may have no ε yet.
    answer_of : callable
        The calibrated answer to the query at a place of a job.

    Raises
    ------
    BudgetError
        If the answers spend more than the job allows.
    JobError
        If privacy loss distributions are asked for and dp-accounting is not installed.
    """
    match job.privacy.accounting:
        case "zcdp":
            return _by_rho(job, answer_of)
        case "pld":
            return _by_losses(job, answer_of)
    shared = job.with_shares()
    return shared, tuple(answer_of(place, shared) for place in range(len(shared.query)))


def _by_rho(job: ReleaseJob, answer_of: AnswerOf) -> tuple[ReleaseJob, tuple[Estimator, ...]]:
    places, limits = job.weights, job.privacy
    estimators = {place: answer_of(place, job) for place in range(len(job.query)) if place not in places}
    spent = {place: rho_spent(estimator) for place, estimator in estimators.items()}
    trial = job.with_epsilons(dict.fromkeys(places, 1.0))
    failures = sum((_failure(each) for each in [*estimators.values(), *(answer_of(place, trial) for place in places)]), ZERO)
    if failures >= as_written(limits.max_delta):
        raise BudgetError(_too_little_delta(limits.max_delta, failures))
    allowed = Fraction(accounting.zcdp_rho(limits.max_epsilon, limits.max_delta, failure_delta=written_up(failures)))
    left = allowed - sum(spent.values(), ZERO)
    if left < 0 or (places and left == 0):
        raise BudgetError(_too_much(job, spent, allowed))
    whole = sum(map(Fraction, places.values()), ZERO)
    for place, weight in places.items():
        job = _with_share(job, place, left * Fraction(weight) / whole, answer_of)
        estimators[place] = answer_of(place, job)
        spent[place] = rho_spent(estimators[place])
    rho = fraction_up(sum(spent.values(), ZERO))
    reached = accounting.zcdp_epsilon(rho, written_down(as_written(limits.max_delta) - failures)) if rho else 0.0
    total = _total(job, reached)
    details = {"rho": rho, "rho_allowed": float(allowed), "failure_delta": written_up(failures)}
    return job.composed_as(total, details), tuple(estimators[place] for place in range(len(job.query)))


def rho_spent(estimator: Estimator) -> Fraction:
    """The ρ that an answer costs, exactly a float that was rounded up."""
    return Fraction(accounting.rho_pure(estimator.section.epsilon) if estimator.rho is None else estimator.rho)


def _failure(estimator: Estimator) -> Fraction:
    """The δ with which an answer may fail: that of a query whose noise has no ρ."""
    return as_written(estimator.section.delta) if estimator.rho is None else ZERO


def _with_share(job: ReleaseJob, place: int, share: Fraction, answer_of: AnswerOf) -> ReleaseJob:
    """The job with the largest ε of one query whose answer costs no more ρ than its share."""

    def part(epsilon: float) -> Fraction:
        return rho_spent(answer_of(place, job.with_epsilons({place: epsilon}))) / share

    return job.with_epsilons({place: _largest(part)})


def _largest(part: Callable[[float], Fraction]) -> float:
    """The largest number of so many binary digits that costs at most the whole; `part` of the whole grows from nothing."""
    low, high, at_low, at_high = 1.0, 2.0, part(1.0), part(2.0)
    while at_high <= 1 and high < 2.0**20:
        low, high, at_low, at_high = high, 2 * high, at_high, part(2 * high)
    while at_low > 1:
        low, high, at_high = low / 2, low, at_low
        check_share(low if low > SMALLEST else 0.0)
        at_low = part(low)
    return low if at_high <= 1 else _narrowed(part, (low, _log(at_low)), (high, _log(at_high)))


def _narrowed(part: Callable[[float], Fraction], low: tuple[float, float], high: tuple[float, float]) -> float:
    """The largest that fits, between a power of two that does and the next one, which does not, each with the logarithm of its part.

    A cost is nearly a power, so a secant of logarithms meets it; after a trial that has not halved the interval, its middle is next.
    """
    step, secant = low[0] * 2.0 ** (1 - DIGITS), True
    while (width := high[0] - low[0]) > step:
        ahead = low[0] * math.expm1(math.log(high[0] / low[0]) * low[1] / (low[1] - high[1])) if secant else width / 2
        middle = low[0] + min(max(step * math.floor(ahead / step), step), width - step)
        found = part(middle)
        low, high = ((middle, _log(found)), high) if found <= 1 else (low, (middle, _log(found)))
        secant = high[0] - low[0] <= width / 2
    return low[0]


def _log(part: Fraction) -> float:
    """The logarithm of a part of the whole, not above 0 if it fits."""
    size = math.log(max(float(part), TINY))
    return min(size, 0.0) if part <= 1 else max(size, TINY)


def _total(job: ReleaseJob, reached: float) -> Privacy:
    """The guarantee of a job: what its answers reach, or its limit if that is as good as reached."""
    limits = job.privacy
    return Privacy(reached if reached < limits.max_epsilon * (1 - 1e-6) else limits.max_epsilon, limits.max_delta, limits.relation)


def _too_little_delta(limit: float, failures: Fraction) -> str:
    return f"privacy.max_delta = {limit!r} must be more than the delta of answers that may fail, {written_up(failures)!r}"


def _too_much(job: ReleaseJob, spent: Mapping[int, Fraction], allowed: Fraction) -> str:
    parts = " + ".join(f"{float(rho):.4g} ({job.query[place].name})" for place, rho in list(spent.items())[:10])
    limits = job.privacy
    return (
        f"the job spends rho = {float(sum(spent.values(), ZERO)):.6g}, but privacy.max_epsilon = {limits.max_epsilon!r} with max_delta = "
        f"{limits.max_delta!r} allows {float(allowed):.6g}: {parts}{' + …' if len(spent) > 10 else ''}"
    )


def _by_losses(job: ReleaseJob, answer_of: AnswerOf) -> tuple[ReleaseJob, tuple[Estimator, ...]]:
    places, limits = job.weights, job.privacy
    if limits.max_delta < LEAST_DELTA:
        raise JobError(f"privacy.max_delta = {limits.max_delta!r} must be at least {LEAST_DELTA!r} with accounting = 'pld'")
    fixed = {place: answer_of(place, job) for place in range(len(job.query)) if place not in places}

    trial = job.with_epsilons(dict.fromkeys(places, 1.0))
    uses = (_use_of(estimator, job) for estimator in [*fixed.values(), *(answer_of(place, trial) for place in places)])
    failures = sum((as_written(use[2]) for use in uses if use is not None), ZERO)
    if failures >= as_written(limits.max_delta):
        raise BudgetError(_too_little_delta(limits.max_delta, failures))

    def of(scale: float) -> tuple[ReleaseJob, dict[int, Estimator]]:
        tried = job.with_epsilons({place: written_down(Fraction(scale) * Fraction(weight)) for place, weight in places.items()})
        return tried, fixed | {place: answer_of(place, tried) for place in places}

    def reached(estimators: Mapping[int, Estimator]) -> float:
        return _epsilon_of(list(estimators.values()), limits.max_delta, job)

    if reached(fixed) > limits.max_epsilon * MARGIN:
        raise BudgetError(
            f"the privacy losses of the job's queries compose to epsilon = {reached(fixed):.6g} at delta = {limits.max_delta!r}, more than "
            f"privacy.max_epsilon = {limits.max_epsilon!r}"
        )
    scale = _largest(lambda tried: Fraction(reached(of(tried)[1])) / Fraction(limits.max_epsilon * MARGIN)) if places else 0.0
    job, estimators = of(scale)
    epsilon = reached(estimators)
    return job.composed_as(_total(job, epsilon / MARGIN), {}), tuple(estimators[place] for place in range(len(job.query)))


def _epsilon_of(estimators: Sequence[Estimator], delta: float, job: ReleaseJob) -> float:
    """The ε of all answers together, as dp-accounting bounds it."""
    uses = Counter(use for estimator in estimators if (use := _use_of(estimator, job)) is not None)
    if not uses:
        return 0.0
    try:
        found = accounting.pld([_times(*use, count) for use, count in uses.items()], sampling="none", relation=job.privacy.relation)
    except ModuleNotFoundError as error:
        raise JobError(f"privacy.accounting = 'pld': {error}") from None
    return found.epsilon(delta * MARGIN)


def _use_of(estimator: Estimator, job: ReleaseJob) -> tuple[str, float, float] | None:
    """An answer as the accountant knows it: mechanism, and ρ, or ε and δ; None if it costs nothing."""
    section: QuerySection = estimator.section
    if job.is_free(section):
        return None
    if estimator.rho is not None and estimator.noise and all(noise.law == "gaussian" for noise in estimator.noise):
        return "gaussian", estimator.rho, 0.0
    return ("approximate", section.epsilon, section.delta) if section.delta else ("pure", section.epsilon, 0.0)


def _times(mechanism: str, size: float, delta: float, count: int) -> Uses:
    if mechanism == "gaussian":
        return accounting.Uses("gaussian", rho=size, uses=count)
    return accounting.Uses("approximate" if delta else "pure", epsilon=size, delta=delta, uses=count)
