"""Mechanisms as experiments (2014), Section 2.2: Theorems 2 and 3 where data bases are drawn from distributions (DDP, CW-P)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from dpcore import local, mechanisms
from dpcore.blackwell import Experiment, from_mechanism
from dpcore.blackwell._plots import allowed_region
from dpcore.reproduce.regions import ALARM, MISSED, ROUNDING, Pair, beyond, closed, random_experiment, scientific
from dpcore.reproduce.results import Check, Figure, Panel, Role, Section, Series, Table, floats
from dpcore.reproduce.setting import Setting

Array = npt.NDArray[np.float64]
EPSILON = 1.0
RECORDS = 3
"""Records of a data base that is enumerated; each is 0 or 1."""
ONE = 0.3
"""Probability of 1 of a record that is drawn."""
DATA_BASES = tuple(product((0, 1), repeat=RECORDS))
NEIGHBOURS: tuple[Pair, ...] = tuple((2 * i, 2 * i + 1) for i in range(RECORDS))
"""Distributions that differ in what they fix one record to: 0, or 1."""
TESTED = (0.0, 0.3, 0.7, 1.0)
"""ε of the guarantees that tests are compared with."""


def independent(data_base: Sequence[int], record: int, value: int) -> float:
    """Return the probability of a data base if one record is fixed and the others are independent draws.

    Parameters
    ----------
    data_base : sequence of int
        Its records, 0 or 1.
    record, value : int
        Which record is fixed, and to what.

    Examples
    --------
    >>> independent((1, 0, 0), 0, 1), independent((1, 0, 0), 0, 0)
    (0.48999999999999994, 0.0)
    """
    others = [each for place, each in enumerate(data_base) if place != record]
    return float(data_base[record] == value) * math.prod(ONE if each else 1 - ONE for each in others)


def contagious(data_base: Sequence[int], record: int, value: int) -> float:
    """Return the probability of a data base whose records all have the value of one.

    Parameters
    ----------
    data_base : sequence of int
        Its records, 0 or 1.
    record, value : int
        Which record is fixed, and to what.

    Examples
    --------
    >>> contagious((1, 1, 1), 0, 1), contagious((1, 0, 0), 0, 1)
    (1.0, 0.0)
    """
    return float(all(each == value for each in data_base) and data_base[record] == value)


Law = Callable[[Sequence[int], int, int], float]
LAWS: Mapping[str, Law] = {"independent records": independent, "equal records": contagious}


def distributions(law: Law) -> Array:
    """Return P_D: one row for each record and value, in the order of `NEIGHBOURS`; one column for each data base.

    Parameters
    ----------
    law : callable
        Takes a data base, a record and a value; returns a probability.

    Examples
    --------
    >>> distributions(contagious).sum(axis=1)
    array([1., 1., 1., 1., 1., 1.])
    """
    return np.array([[law(each, i, value) for each in DATA_BASES] for i in range(RECORDS) for value in (0, 1)])


def mechanisms_on_data_bases() -> dict[str, Experiment]:
    """Return mechanisms on all data bases: one for each record, one for their sum, and the sum itself.

    Examples
    --------
    >>> mechanisms_on_data_bases()["exact count"]
    Experiment(8 states, 4 outcomes)
    """
    sums = [sum(each) for each in DATA_BASES]
    noisy = from_mechanism(mechanisms.DiscreteLaplace(EPSILON, 1), range(RECORDS + 1)).matrix[sums]
    response = from_mechanism(local.BinaryResponse(EPSILON)).matrix
    reports = np.array([[math.prod(response[x, y] for x, y in zip(each, seen, strict=True)) for seen in DATA_BASES] for each in DATA_BASES])
    return {
        "responses": Experiment(reports / reports.sum(axis=1, keepdims=True)),
        "noisy count": Experiment(noisy),
        "exact count": Experiment(np.eye(RECORDS + 1)[sums]),
    }


def least_sum(law: Law, mechanism: Experiment, epsilon: float) -> float:
    """Return the least of P_FA + e^ε P_MD and e^ε P_FA + P_MD over all sets S and neighbours, from the definition.

    Data bases are drawn from the law and given to the mechanism; the matrix of `Experiment.under` is not used.

    Parameters
    ----------
    law : callable
        Of data bases.
    mechanism : Experiment
        On `DATA_BASES`.
    epsilon : float
        Privacy loss.
    """
    outcomes, factor, least = mechanism.matrix.shape[1], math.exp(epsilon), math.inf
    inside = (np.arange(2**outcomes)[:, None] >> np.arange(outcomes) & 1).astype(np.float64)
    # P(M(x) ∈ S) for each S and x, and from these P(M(X) ∈ S) for X drawn from each law
    chances = inside @ mechanism.matrix.T
    for record in range(RECORDS):
        of_law = [_drawn([law(each, record, value) for each in DATA_BASES], chances) for value in (0, 1)]
        for null, other in (of_law, of_law[::-1]):
            alarm, missed = null, 1 - other
            least = min(least, float((alarm + factor * missed).min()), float((factor * alarm + missed).min()))
    return least


def _drawn(law: Sequence[float] | Array, chances: Array) -> Array:
    """The chances of sets of outcomes, the columns of which are those of data bases, where data bases have a law."""
    total = np.zeros(len(chances))
    for share, column in zip(law, chances.T, strict=True):
        total += share * column
    return total


# Theorem 2


def profiles_of_distributions(title: str, setting: Setting) -> Section:
    """Theorem 2 for distributions of data bases.

    Parameters
    ----------
    title : str
        Title of the section.
    setting : Setting
        Seed and size.
    """
    cases = [(name, law, kind, mechanism) for name, law in LAWS.items() for kind, mechanism in mechanisms_on_data_bases().items()]
    return Section(
        title,
        "In distributional privacy a data base X_i is drawn from a distribution D_i, and P_FA = P(M(X₀) ∈ S), P_MD = P(M(X₁) ∉ S). M is "
        "(ε, δ)-private for neighbouring distributions exactly if P_FA + e^ε P_MD and e^ε P_FA + P_MD are at least 1 − δ for all sets S.",
        f"Data bases of {RECORDS} records that are 0 or 1. Neighbouring distributions fix one record, to 0 or to 1. The other records are "
        f"independent and 1 with probability {ONE:g}, or they all equal the fixed one. P_FA and P_MD are summed over data bases, for all "
        "sets S. The profile is that of the experiment P_D·P_M. The plot has the exact count of many records, which is not private for any "
        "one data base.",
        (_counts_figure(setting),),
        (),
        (*_exactly_if(cases), _kept(cases), _lost(), _counts_agree()),
        "Records that follow from each other add their losses up. Where the others are independent, the person hides among them: the exact "
        "count has a δ below 1, which falls as records are added, and no noise is drawn.",
        (_losses_table(cases),),
    )


def count_under(records: int, one: float) -> Experiment:
    """Return the exact count of records under two distributions: the first record is 0, or 1, the others are drawn.

    Parameters
    ----------
    records : int
        Number of records.
    one : float
        Probability of 1 of the records that are drawn.

    Examples
    --------
    >>> count_under(3, 0.5).matrix
    array([[0.25, 0.5 , 0.25, 0.  ],
           [0.  , 0.25, 0.5 , 0.25]])
    """
    others = np.array([math.comb(records - 1, k) * one**k * (1 - one) ** (records - 1 - k) for k in range(records)])
    drawn = np.zeros((2, records + 1))
    drawn[0, :-1] = drawn[1, 1:] = others / others.sum()
    return Experiment(np.eye(records + 1)).under(drawn)


def count_profile(records: int, one: float, epsilon: float) -> float:
    """Return Σ_k (b(k) − e^ε b(k−1))₊ for the binomial law b of the other records, in the worse of both orders.

    Parameters
    ----------
    records : int
        Number of records.
    one : float
        Probability of 1 of the records that are drawn.
    epsilon : float
        Privacy loss.

    Examples
    --------
    >>> count_profile(3, 0.5, 0.0)
    0.5
    """

    def law(k: int) -> float:
        inside = 0 <= k <= records - 1
        return math.comb(records - 1, k) * one**k * (1 - one) ** (records - 1 - k) if inside else 0.0

    factor = math.exp(epsilon)
    ways = ((law(k), law(k - 1)) for k in range(records + 1)), ((law(k - 1), law(k)) for k in range(records + 1))
    return max(sum(max(p - factor * q, 0.0) for p, q in pairs) for pairs in ways)


def _counts_figure(setting: Setting) -> Figure:
    grid, roles = np.linspace(0.0, 1.5, setting.sized(16, 6)), ("measured", "second", "third")
    series: list[Series] = []
    for records, role in zip((10, 30, 100), roles, strict=True):
        measured = count_under(records, ONE).delta(grid)
        named: Role = role  # type: ignore[assignment]
        series.append(Series(f"{records} records", floats(grid), floats(measured), None, named, "points"))
        exact = floats(count_profile(records, ONE, float(epsilon)) for epsilon in grid)
        series.append(Series("by formula", floats(grid), exact, None, "theory"))
    return Figure(
        f"Profile of an exact count if all records but one are drawn, each 1 with probability {ONE:g}.",
        (Panel("ε", "δ", tuple(series), "y"),),
    )


Case = tuple[str, Law, str, Experiment]


def _exactly_if(cases: Sequence[Case]) -> tuple[Check, Check]:
    worst, broken, tight = math.inf, -math.inf, 0
    for _, law, _, mechanism in cases:
        under = mechanism.under(distributions(law))
        for epsilon in TESTED:
            delta = under.delta(epsilon, neighbours=NEIGHBOURS)
            least = least_sum(law, mechanism, epsilon)
            worst = min(worst, least - (1 - delta))
            if delta > ROUNDING:
                tight += 1
                broken = max(broken, least - (1 - 0.99 * delta))
    sets = sum(2 ** mechanism.matrix.shape[1] for *_, mechanism in cases)
    promise = f"{len(cases)} cases satisfy both inequalities with the profile of P_D·P_M, for all {sets:,} sets, at {len(TESTED)} ε each"
    return (
        Check(promise, f"the least sum exceeds 1 − δ by {scientific(worst)}", "0, up to rounding", worst >= -ROUNDING, "identity"),
        Check(
            f"with a δ that is 1 % smaller a test breaks them, wherever δ > 0 ({tight} times)",
            f"the least sums are below 1 − 0.99·δ by {scientific(-broken)} at least",
            "more than 0",
            broken < 0,
            "identity",
        ),
    )


def _loss(law: Law, mechanism: Experiment) -> float:
    return mechanism.under(distributions(law)).epsilon(neighbours=NEIGHBOURS)


def _kept(cases: Sequence[Case]) -> Check:
    most = max(_loss(law, mechanism) for _, law, kind, mechanism in cases if law is independent and kind != "exact count")
    return Check(
        "with independent records a private mechanism keeps its ε",
        f"ε at most {most:.4f}",
        f"{EPSILON:g}, up to rounding",
        most <= EPSILON + ROUNDING,
        "identity",
    )


def _lost() -> Check:
    found = _loss(contagious, mechanisms_on_data_bases()["responses"])
    return Check(
        f"where {RECORDS} records are equal, {RECORDS} responses of ε = {EPSILON:g} lose the sum",
        f"ε = {found:.6f}",
        f"{RECORDS * EPSILON:g}",
        abs(found - RECORDS * EPSILON) <= 1e-9,
        "identity",
    )


def _counts_agree() -> Check:
    grid = np.linspace(0.0, 1.5, 7)
    settings = [(records, one) for records in (2, 10, 100) for one in (0.1, ONE, 0.5)]
    off = max(
        float(np.abs(count_under(*each).delta(grid) - [count_profile(*each, float(epsilon)) for epsilon in grid]).max())
        for each in settings
    )
    return Check("profiles of exact counts agree with the formula", f"at most {scientific(off)} off", "rounding", off <= 1e-10, "identity")


def _losses_table(cases: Sequence[Case]) -> Table:
    rows = []
    for name, law, kind, mechanism in cases:
        under = mechanism.under(distributions(law))
        loss = under.epsilon(neighbours=NEIGHBOURS)
        half = under.delta(0.5, neighbours=NEIGHBOURS)
        rows.append((name, kind, f"{loss:.4f}" if math.isfinite(loss) else "none", f"{half:.4f}"))
    return Table("What distributions of data bases lose.", ("other records", "mechanism", "ε at δ = 0", "δ at ε = 0.5"), tuple(rows))


# Theorem 3


def regions_inside(title: str, setting: Setting) -> Section:
    """Theorem 3 for distributions of data bases.

    Parameters
    ----------
    title : str
        Title of the section.
    setting : Setting
        Seed and size.
    """
    shown = _shown()
    return Section(
        title,
        "R(M, X₀, X₁) is the set of all (P_MD, P_FA) of tests of one distribution against the other. M is (ε, δ)-private for the "
        "distributions exactly if R(M, X₀, X₁) lies in R(ε, δ) for all neighbours. It is the risk region of M′ = P_D·P_M for the actions "
        "conv{(1, 0), (0, 1)}.",
        f"Left and middle: a count of {RECORDS} records with discrete Laplace noise of ε = {EPSILON:g}, where the other records are drawn, "
        "or equal the fixed one. Right: the exact count of ten records of which nine are drawn. The last checks use random mechanisms "
        "and random distributions.",
        (_shown_figure(shown),),
        (),
        (_all_inside(shown), _equivalent(setting), _risk_regions(setting)),
        "With equal records the region is larger than R(ε, 0) of one record, and inside that of three.",
    )


def _shown() -> dict[str, tuple[Experiment, float, float]]:
    noisy = mechanisms_on_data_bases()["noisy count"]
    exact = count_under(10, ONE)
    return {
        f"noisy count, others drawn, ε = {EPSILON:g}": (_pair(noisy, independent), EPSILON, 0.0),
        f"noisy count, records equal, ε = {RECORDS * EPSILON:g}": (_pair(noisy, contagious), RECORDS * EPSILON, 0.0),
        f"exact count of ten, ε = {EPSILON:g}": (exact, EPSILON, exact.delta(EPSILON)),
    }


def _pair(mechanism: Experiment, law: Law) -> Experiment:
    """M′ on the two distributions that fix the first record."""
    return Experiment(mechanism.under(distributions(law)).matrix[:2].copy())


def _shown_figure(shown: Mapping[str, tuple[Experiment, float, float]]) -> Figure:
    panels = []
    for name, (experiment, epsilon, delta) in shown.items():
        allowed = closed(allowed_region(epsilon, delta))
        series = (
            Series("R(ε, δ)", *allowed, None, "theory", "area"),
            Series("its border", *allowed, None, "theory"),
            Series("tests of X₀ against X₁", *closed(experiment.power_region(0, 1).vertices), None, "measured"),
        )
        panels.append(Panel(MISSED, ALARM, series, "", (-0.02, 1.02), name))
    return Figure("Error probabilities of all tests of one distribution against a neighbour.", tuple(panels), square=True)


def _all_inside(shown: Mapping[str, tuple[Experiment, float, float]]) -> Check:
    worst = max(beyond(experiment, [(0, 1), (1, 0)], epsilon, delta) for experiment, epsilon, delta in shown.values())
    wrong = beyond(shown[f"noisy count, records equal, ε = {RECORDS * EPSILON:g}"][0], [(0, 1), (1, 0)], EPSILON, 0.0)
    return Check(
        "all regions lie inside R(ε, δ), and that of equal records is not inside R(1, 0)",
        f"at most {scientific(worst)} beyond; {wrong:.3f} beyond R(1, 0)",
        "0, up to rounding; more than 0",
        worst <= ROUNDING < wrong,
        "identity",
    )


def _random_case(stream: Any) -> tuple[Experiment, Array]:
    return random_experiment(stream, 4, 5), random_experiment(stream, 3, 4, 1.5).matrix


def _equivalent(setting: Setting) -> Check:
    """Both directions, at guarantees on either side of the profile; regions are made of tests of P_D·P_M by the definition."""
    stream, count, differ = setting.stream("regions under distributions"), setting.sized(200, 30), 0
    for index in range(count):
        mechanism, drawn = _random_case(stream)
        under = mechanism.under(drawn)
        epsilon = 0.1 * (index % 6)
        delta = under.delta(epsilon) * (1.001 if index % 2 else 0.999)
        missed, alarm = _tests(mechanism, drawn)
        factor = math.exp(epsilon)
        inside = min((alarm + factor * missed).min(), (factor * alarm + missed).min()) >= 1 - delta - ROUNDING
        differ += under.satisfies(epsilon, delta) != bool(inside)
    promise = (
        f"private exactly if inside, at guarantees 0.1 % on either side of the profiles of {count} random mechanisms and distributions"
    )
    return Check(promise, f"{differ} of {count} differ", "0", differ == 0, "identity")


def _tests(mechanism: Experiment, drawn: Array) -> tuple[Array, Array]:
    """P_MD and P_FA of all sets of outcomes, for all ordered pairs of distributions."""
    outcomes = mechanism.matrix.shape[1]
    inside = (np.arange(2**outcomes)[:, None] >> np.arange(outcomes) & 1).astype(np.float64)
    chances = [_drawn(law, inside @ mechanism.matrix.T) for law in drawn]
    pairs = [(one, other) for one in chances for other in chances if one is not other]
    return np.array([1 - other for _, other in pairs]), np.array([one for one, _ in pairs])


def _risk_regions(setting: Setting) -> Check:
    """R(M, X₀, X₁) = B(M′, conv{(1, 0), (0, 1)}): the same support function in all directions."""
    stream, count, off = setting.stream("risk regions"), setting.sized(60, 10), 0.0
    turns = np.linspace(0.0, 2 * math.pi, 32, endpoint=False)
    for _ in range(count):
        mechanism, drawn = _random_case(stream)
        under = Experiment(mechanism.under(drawn).matrix[:2].copy())
        region = under.risk_region([[1.0, 0.0], [0.0, 1.0]])
        missed, alarm = (each[0] for each in _tests(mechanism, drawn[:2]))
        for turn in turns:
            direction = np.array([math.cos(turn), math.sin(turn)])
            # the risk at the first distribution is a false alarm, at the second a miss
            off = max(off, float(np.abs(region.support(direction) - (direction[0] * alarm + direction[1] * missed).max())))
    promise = f"R(M, X₀, X₁) = B(M′, conv{{(1, 0), (0, 1)}}) for {count} random mechanisms, in {len(turns)} directions"
    return Check(promise, f"support functions differ by {scientific(off)}", "0, up to rounding", off <= ROUNDING, "identity")
