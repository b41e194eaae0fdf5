"""Mechanisms as experiments (2014): Blackwell's order of mechanisms, and corrections of its theorems."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import permutations, product
from typing import Any

import numpy as np
import numpy.typing as npt

from dpcore import local, mechanisms, selection
from dpcore.audit import audit
from dpcore.blackwell import DecisionProblem, Experiment, Sufficiency, from_mechanism, is_sufficient
from dpcore.blackwell._plots import allowed_region
from dpcore.privacy import Privacy
from dpcore.reproduce.counterexamples import distributions, equal_regions, regions_of_distributions
from dpcore.reproduce.distributional import profiles_of_distributions, regions_inside
from dpcore.reproduce.draws import normals
from dpcore.reproduce.regions import ALARM, MISSED, ROUNDING, Pair, beyond, closed, random_experiment, scientific
from dpcore.reproduce.registry import Study
from dpcore.reproduce.results import Check, Figure, Panel, Role, Section, Series, Table, floats
from dpcore.reproduce.setting import Setting

TITLES = (
    "Mechanisms as experiments (2014), Theorem 1: an experiment is more informative exactly if the other one is a garbling of it",
    "Mechanisms as experiments (2014), Theorem 2: a mechanism is private exactly if no test is better than its profile allows",
    "Mechanisms as experiments (2014), Theorem 2, audited: what tests find in outputs stays below what is claimed",
    "Mechanisms as experiments (2014), Theorem 3: testing regions lie inside the region of the guarantee",
    "Mechanisms as experiments (2014), Theorem 4: equal testing regions do not make experiments equal",
    "Mechanisms as experiments (2014), Theorem 2, distributions: a mechanism is private for drawn data exactly if no test is better",
    "Mechanisms as experiments (2014), Theorem 3, distributions: testing regions of drawn data lie inside that of the guarantee",
    "Mechanisms as experiments (2014), Lemma 1: under distributions of data bases the order is kept, and may be made up",
    "Mechanisms as experiments (2014), Theorem 5: testing regions of distributions give no information about the mechanism",
)
Array = npt.NDArray[np.float64]
ROLES: tuple[Role, ...] = ("measured", "second", "third", "fourth")
EPSILON, DELTA = 1.0, 1e-3
"""ε and δ of the mechanisms, where they do not vary."""
CONFIDENCE = 1 - 1e-7
"""Confidence of one audit, so that a true claim is practically never refuted."""


def sections(setting: Setting) -> Iterator[Section]:
    """Measure all sections."""
    yield _order(setting)
    yield _profile()
    yield _audited(setting)
    yield _regions(setting)
    yield equal_regions(TITLES[4], setting)
    yield profiles_of_distributions(TITLES[5], setting)
    yield regions_inside(TITLES[6], setting)
    yield distributions(TITLES[7], setting)
    yield regions_of_distributions(TITLES[8])


# Theorem 1


def _four_states() -> dict[str, Experiment]:
    """Mechanisms on four data bases: a code in {0, 1, 2, 3}, or the candidate of four that has the one vote."""
    votes: dict[str, Any] = {"inputs": np.eye(4), "epsilon": EPSILON, "sensitivity": 1.0}
    return {
        "k-ary response": from_mechanism(local.KaryResponse(EPSILON, k=4)),
        "Hadamard response": from_mechanism(local.HadamardResponse(EPSILON, k=4)),
        "unary encoding": from_mechanism(local.UnaryEncoding(EPSILON, k=4)),
        "discrete Laplace": from_mechanism(mechanisms.DiscreteLaplace(EPSILON, 3), range(4)),
        "permute-and-flip": from_mechanism(selection.permute_and_flip, **votes),
        "noisy argmax": from_mechanism(selection.noisy_argmax, **votes),
        "exponential mechanism": from_mechanism(selection.exponential_mechanism, **votes),
    }


def _order(setting: Setting) -> Section:
    found = _four_states()
    answers = {(p, q): is_sufficient(found[p], found[q]) for p, q in product(found, repeat=2)}
    channel, problem = answers["k-ary response", "permute-and-flip"].T, answers["k-ary response", "discrete Laplace"].problem
    tables = [_order_table(found, answers)]
    tables += [] if channel is None else [_channel_table(channel)]
    tables += [] if problem is None else [_decision_table(problem)]
    return Section(
        TITLES[0],
        "P is more informative than Q if P attains every risk that Q attains in a decision problem. By Blackwell's theorem this holds "
        "exactly if there is a channel T with PT = Q. So there is always one of two proofs: T, or a decision problem in which Q has "
        "strictly less risk.",
        f"Seven mechanisms with ε = {EPSILON:g} on four data bases that are all neighbours. For each ordered pair, a linear program finds "
        "T, or its dual solution gives a decision problem. The plot has Le Cam's deficiency, the least error with which P can imitate Q, "
        "for pairs where a formula is known.",
        (_deficiency_figure(setting),),
        (),
        (_settled(found, answers), _transitive(list(found), answers), _never_worse(setting, found, answers)),
        "The k-ary response is sufficient for all three selections, permute-and-flip for noisy argmax, and noisy argmax for the "
        "exponential mechanism. No mechanism for codes is sufficient for another one.",
        tuple(tables),
    )


def _order_table(found: Mapping[str, Experiment], answers: Mapping[tuple[str, str], Sufficiency]) -> Table:
    def cell(p: str, q: str) -> str:
        answer = answers[p, q]
        if answer.problem is None:
            return "=" if p == q else "PT\u00a0=\u00a0Q"
        return f"{answer.problem.risk_P:.2f}\u202f>\u202f{answer.problem.risk_Q:.2f}"

    caption = (
        "Row: P, column: Q. PT = Q means that a channel T was found. Other entries are the least expected losses with P and with Q in a "
        "decision problem with losses in [0, 1] in which Q is better."
    )
    return Table(caption, ("P \\ Q", *found), tuple((p, *(cell(p, q) for q in found)) for p in found))


def _channel_table(channel: Array) -> Table:
    header = ("T", *(f"winner {y}" for y in range(channel.shape[1])))
    rows = tuple((f"reported {y}", *(f"{share:.4f}" for share in row)) for y, row in enumerate(channel))
    return Table(
        "The channel from the k-ary response to permute-and-flip: it draws the winner from the report, with the right probabilities.",
        header,
        rows,
    )


def _decision_table(problem: DecisionProblem) -> Table:
    header = ("state", "prior", *(f"loss of decision {k}" for k in range(problem.loss.shape[1])))
    rows = tuple(
        (f"code {i}", f"{prior:.4f}", *(f"{loss:.4f}" for loss in row))
        for i, (prior, row) in enumerate(zip(problem.prior, problem.loss, strict=True))
    )
    caption = (
        f"A decision for which discrete Laplace noise (expected loss {problem.risk_Q:.4f}) is better than the k-ary response "
        f"({problem.risk_P:.4f})."
    )
    return Table(caption, header, rows)


def _settled(found: Mapping[str, Experiment], answers: Mapping[tuple[str, str], Sufficiency]) -> Check:
    """Whether each answer has its proof, checked again without the solver."""
    residual, gain, wrong = 0.0, math.inf, 0
    for (p, q), answer in answers.items():
        if answer.T is not None:
            residual = max(residual, float(np.abs(found[p].matrix @ answer.T - found[q].matrix).max()))
        elif answer.problem is not None:
            loss, prior = answer.problem.loss, answer.problem.prior
            gain = min(gain, found[p].bayes_risk(loss, prior) - found[q].bayes_risk(loss, prior))
        else:
            wrong += 1
    measured = f"no entry of PT − Q beyond {scientific(residual)}; Q better by {gain:.3g} at least"
    holds = residual <= 1e-9 and gain > 0 and not wrong
    return Check(
        f"each of {len(answers)} ordered pairs has a T or a decision problem, never both",
        measured,
        "10⁻⁹; more than 0",
        holds,
        "identity",
    )


def _transitive(names: list[str], answers: Mapping[tuple[str, str], Sufficiency]) -> Check:
    chains = [(p, q, r) for p, q, r in permutations(names, 3) if answers[p, q].holds and answers[q, r].holds]
    broken = sum(not answers[p, r].holds for p, q, r in chains)
    return Check("a garbling of a garbling is a garbling", f"{broken} of {len(chains)} chains broken", "0", broken == 0, "identity")


def _never_worse(setting: Setting, found: Mapping[str, Experiment], answers: Mapping[tuple[str, str], Sufficiency]) -> Check:
    count, stream = setting.sized(200, 20), setting.stream("decisions")
    ordered = [(found[p], found[q]) for (p, q), answer in answers.items() if answer.holds and p != q]
    worst = -math.inf
    for loss, weights in zip(normals((count, 4, 5), 0.0, stream), np.abs(normals((count, 4), 0.0, stream)), strict=True):
        prior = weights / weights.sum()
        worst = max(worst, *(p.bayes_risk(loss, prior) - q.bayes_risk(loss, prior) for p, q in ordered))
    measured = f"risk of P − risk of Q at most {scientific(worst)}"
    promise = f"where PT = Q, P is never worse, in {count} random decision problems"
    return Check(promise, measured, "0, up to rounding", worst <= ROUNDING, "identity")


def _deficiency_figure(setting: Setting) -> Figure:
    """The deficiency between k-ary responses: a channel can make a response less truthful, not more."""
    epsilons = floats(np.linspace(0.25, 2.5, setting.sized(10, 4)))
    series: list[Series] = []
    for k, role, line in ((2, "measured", "theory"), (8, "second", "second theory")):
        fixed = from_mechanism(local.KaryResponse(EPSILON, k=k))
        measured = floats(is_sufficient(fixed, from_mechanism(local.KaryResponse(e, k=k))).deficiency for e in epsilons)
        exact = floats(max(0.0, _truth(e, k) - _truth(EPSILON, k)) for e in epsilons)
        series += [
            Series(f"k = {k}", epsilons, measured, None, role, "points"),  # type: ignore[arg-type]
            Series(f"k = {k}: growth of e^ε/(e^ε + k − 1)", epsilons, exact, None, line),  # type: ignore[arg-type]
        ]
    panel = Panel("ε of Q", "deficiency of P for Q", tuple(series), "")
    return Figure("Deficiency of the k-ary response P with ε = 1 for the one with another ε. Up to ε = 1 it is 0.", (panel,))


def _truth(epsilon: float, k: int) -> float:
    return math.exp(epsilon) / (math.exp(epsilon) + k - 1)


# Theorem 2


def _neighbours(states: int) -> list[Pair]:
    return [(i, i + 1) for i in range(states - 1)]


def _gaussian() -> tuple[mechanisms.DiscreteGaussian, Experiment]:
    """The discrete Gaussian mechanism on two neighbouring answers, clamped where the probabilities vanish."""
    mechanism = mechanisms.DiscreteGaussian(EPSILON, DELTA, 1)
    reach = math.ceil(9 * mechanism.scale)
    return mechanism, from_mechanism(mechanism, (0, 1), outputs=(-reach, reach + 1))


def _gaussian_profile(scale: float, epsilon: float) -> float:
    """P(Z > εσ² − ½) − e^ε P(Z > εσ² + ½)."""
    z = np.arange(-math.ceil(40 * scale), math.ceil(40 * scale) + 1)
    mass = np.exp(-((z / scale) ** 2) / 2)
    mass /= mass.sum()
    middle = epsilon * scale**2
    return float(mass[z > middle - 0.5].sum() - math.exp(epsilon) * mass[z > middle + 0.5].sum())


def _profile() -> Section:
    tested = _tested()
    return Section(
        TITLES[1],
        "M is (ε, δ)-private exactly if for all neighbours x₀, x₁ and all sets S of outputs, with P_FA = P(M(x₀) ∈ S) and P_MD = "
        "P(M(x₁) ∉ S), both P_FA + e^ε P_MD and e^ε P_FA + P_MD are at least 1 − δ.",
        "The profile δ(ε) of a mechanism is the largest of Σ_y (P_i(y) − e^ε P_j(y))_+ over neighbours. It is computed from matrices "
        "and compared with closed forms. For mechanisms with few outputs, every set S is checked.",
        (_profile_figure(),),
        (),
        (_all_sets(tested), _less_is_broken(tested), _profile_agrees(), _claim_covers()),
        "A discrete Gaussian mechanism has no ε without δ. Its profile at the claimed ε is below the claimed δ, because the scale comes "
        "from a bound.",
    )


def _pure_profiles() -> dict[str, tuple[Experiment, list[Pair] | str, Callable[[float], float]]]:
    steps = from_mechanism(mechanisms.DiscreteLaplace(EPSILON, 1), range(11))

    def of_response(k: int) -> Callable[[float], float]:
        return lambda e: max(0.0, math.exp(EPSILON) - math.exp(e)) / (math.exp(EPSILON) + k - 1)

    return {
        "discrete Laplace": (steps, _neighbours(11), of_response(2)),
        "k-ary response, k = 8": (from_mechanism(local.KaryResponse(EPSILON, k=8)), "all", of_response(8)),
    }


def _profile_figure() -> Figure:
    grid = np.linspace(0.0, 1.2, 7)
    series: list[Series] = []
    for (name, (experiment, pairs, exact)), role, line in zip(
        _pure_profiles().items(), ("measured", "second"), ("theory", "second theory"), strict=True
    ):
        series += [
            Series(name, floats(grid), floats(experiment.delta(grid, neighbours=pairs)), None, role, "points"),  # type: ignore[arg-type]
            Series(f"{name}: formula", floats(grid), floats(map(exact, grid)), None, line),  # type: ignore[arg-type]
        ]
    mechanism, experiment = _gaussian()
    wide = np.linspace(0.0, 1.5, 7)
    formula = floats(_gaussian_profile(mechanism.scale, float(e)) for e in wide)
    gaussian = (
        Series("discrete Gaussian", floats(wide), floats(experiment.delta(wide)), None, "measured", "points"),
        Series("formula", floats(wide), formula, None, "theory"),
        Series("δ claimed at ε = 1", (0.0, 1.5), (DELTA, DELTA), None, "second theory"),
    )
    panels = (Panel("ε", "profile δ", tuple(series), ""), Panel("ε", "profile δ, logarithmic", gaussian, "y"))
    return Figure("Profiles of mechanisms, from their matrices and by formula.", panels)


def _profile_agrees() -> Check:
    grid = np.linspace(0.0, 1.5, 31)
    worst = 0.0
    for experiment, pairs, exact in _pure_profiles().values():
        worst = max(worst, float(np.abs(experiment.delta(grid, neighbours=pairs) - [exact(float(e)) for e in grid]).max()))
    mechanism, experiment = _gaussian()
    worst = max(worst, float(np.abs(experiment.delta(grid) - [_gaussian_profile(mechanism.scale, float(e)) for e in grid]).max()))
    return Check("the profiles agree with the formulas", f"at most {scientific(worst)} off", "rounding", worst <= ROUNDING, "identity")


def _claim_covers() -> Check:
    delta = _gaussian()[1].delta(EPSILON)
    return Check(
        "the profile of the discrete Gaussian mechanism is at most its δ", f"{delta:.3g}", f"{DELTA:g}", delta <= DELTA, "identity"
    )


def _tested() -> dict[str, tuple[Experiment, list[Pair]]]:
    """Pure mechanisms with at most 16 outcomes, and their neighbours."""
    named = {name: (experiment, list(permutations(range(4), 2))) for name, experiment in _four_states().items()}
    return {**named, "discrete Laplace, 0 to 10": (_pure_profiles()["discrete Laplace"][0], _neighbours(11))}


def _least_sum(experiment: Experiment, pairs: Sequence[Pair], epsilon: float) -> float:
    """The least of P_FA + e^ε P_MD and e^ε P_FA + P_MD over all sets S and all pairs, by enumeration."""
    outcomes = experiment.matrix.shape[1]
    inside = (np.arange(2**outcomes)[:, None] >> np.arange(outcomes) & 1).astype(np.float64)
    chances = inside @ experiment.matrix.T
    least, factor = math.inf, math.exp(epsilon)
    for i, j in pairs:
        alarm, missed = chances[:, i], 1 - chances[:, j]
        least = min(least, float((alarm + factor * missed).min()), float((factor * alarm + missed).min()))
    return least


def _all_sets(tested: Mapping[str, tuple[Experiment, list[Pair]]]) -> Check:
    sets = sum(2 ** experiment.matrix.shape[1] * len(pairs) for experiment, pairs in tested.values())
    least = min(_least_sum(experiment, pairs, EPSILON) for experiment, pairs in tested.values())
    promise = f"{len(tested)} pure mechanisms satisfy both inequalities, for all {sets:,} sets and ordered neighbours"
    return Check(
        promise,
        f"the least sum is 1 {'+' if least >= 1 else '−'} {scientific(abs(least - 1))}",
        "at least 1, up to rounding",
        least >= 1 - ROUNDING,
        "identity",
    )


def _less_is_broken(tested: Mapping[str, tuple[Experiment, list[Pair]]]) -> Check:
    tight = {name: case for name, case in tested.items() if case[0].epsilon(neighbours=case[1]) > EPSILON - ROUNDING}
    largest = max(_least_sum(experiment, pairs, 0.99 * EPSILON) for experiment, pairs in tight.values())
    promise = f"the {len(tight)} of them that attain their ε violate the inequalities for an ε that is 1 % smaller"
    return Check(promise, f"the least sums are at most {largest:.5f}", "below 1", largest < 1 - ROUNDING, "identity")


# Theorem 2, audited


def _half_noise(epsilon: float) -> tuple[Any, Any, Any, Privacy]:
    return mechanisms.Laplace(epsilon, 0.5), 0.0, 1.0, Privacy(epsilon)


def _claims() -> dict[str, Callable[[float], tuple[Any, Any, Any, Privacy | None]]]:
    """Mechanisms, two neighbouring inputs, and the claim if it is not the mechanism's own."""
    return {
        "Laplace": lambda e: (mechanisms.Laplace(e, 1.0), 0.0, 1.0, None),
        "Gaussian, at its δ": lambda e: (mechanisms.Gaussian(e, DELTA, 1.0), 0.0, 1.0, None),
        "k-ary response, k = 8": lambda e: (local.KaryResponse(e, k=8), 0, 1, None),
        "Laplace with half the noise": _half_noise,
    }


def _audited(setting: Setting) -> Section:
    n, epsilons = setting.sized(400_000, 40_000), setting.sized((0.25, 0.5, 1.0, 2.0), (0.5, 1.0))
    lower: dict[str, list[float]] = {}
    for name, claim in _claims().items():
        lower[name] = []
        for epsilon in epsilons:
            mechanism, x0, x1, privacy = claim(epsilon)
            stream = setting.stream("audit", name, epsilon)
            result = audit(mechanism, x0, x1, runs=n, confidence=CONFIDENCE, privacy=privacy, rng=stream)
            lower[name].append(result.epsilon_lower)
    series = [Series(name, epsilons, floats(found), None, role) for (name, found), role in zip(lower.items(), ROLES, strict=True)]
    series.append(Series("as claimed", epsilons, epsilons, None, "theory"))
    figure = Figure(
        "Lower bounds of the privacy loss that audits find, from outputs alone.", (Panel("ε claimed", "ε at least", tuple(series)),)
    )
    return Section(
        TITLES[2],
        "P(M(x₀) ∈ S) ≤ e^ε P(M(x₁) ∈ S) + δ for every set S of outputs. One set that violates this refutes the guarantee.",
        f"Each mechanism runs {n:,} times on each of two neighbouring inputs. One half of the outputs chooses sets, the other half "
        "counts them. Bounds are those of Clopper & Pearson (1934), with an error probability of 10⁻⁷ for each audit. One mechanism has a "
        "deliberate mistake.",
        (figure,),
        (),
        _audit_checks(epsilons, lower),
        "The distance of a bound from the claim depends on the number of runs: for a large ε, the most informative outputs are rare.",
    )


def _audit_checks(epsilons: Sequence[float], lower: Mapping[str, list[float]]) -> tuple[Check, ...]:
    *sound, broken = lower.values()
    above = max(found - claimed for row in sound for found, claimed in zip(row, epsilons, strict=True))
    near = min(found / claimed for row in sound for found, claimed in zip(row, epsilons, strict=True))
    caught = sum(found > claimed for found, claimed in zip(broken, epsilons, strict=True))
    bounds = f"{near:.2f} of the claim or more, and at most {above:+.3f} above it".replace("-", "−")
    return (
        Check("no bound exceeds the claim of a correct mechanism", bounds, "0 above it", above <= 0),
        Check(
            "the claim of the mechanism with half the noise is refuted",
            f"at {caught} of {len(epsilons)} claims",
            "all",
            caught == len(epsilons),
        ),
    )


# Theorem 3


def _regions(setting: Setting) -> Section:
    shown = _shown_regions()
    return Section(
        TITLES[3],
        "Let R(M, x₀, x₁) be the set of all (P_MD, P_FA) of tests, randomised ones included. M is (ε, δ)-private exactly if R(M, x₀, "
        "x₁) lies in R(ε, δ) = {P_FA + e^ε P_MD ≥ 1 − δ, e^ε P_FA + P_MD ≥ 1 − δ} for all neighbours.",
        "The corners of a region are the Neyman-Pearson tests, from the matrix of the mechanism. The plots have two codes of the k-ary "
        "response; three candidates, of which one or all three change their score by 1; and two answers with Gaussian noise.",
        (_regions_figure(shown),),
        (),
        (_inside(shown), _equivalent(setting)),
        "The upper halves mirror the lower ones, because each test has an opposite. R(ε, δ) is not bounded above; the plots have its "
        "intersection with its mirror image.",
    )


def _shown_regions() -> dict[str, tuple[Experiment, list[Pair], float, float]]:
    """Experiment, pairs of states, ε and δ."""
    scores = np.array(list(product((0.0, 1.0), repeat=3)))
    chosen = from_mechanism(selection.permute_and_flip, scores, epsilon=EPSILON, sensitivity=1.0)
    response = from_mechanism(local.KaryResponse(EPSILON, k=4))
    return {
        f"k-ary response, ε = {EPSILON:g}": (response, [(0, 1), (1, 0)], EPSILON, 0.0),
        f"permute-and-flip, ε = {EPSILON:g}": (chosen, [(0, 1), (1, 0), (1, 6), (6, 1)], EPSILON, 0.0),
        "discrete Gaussian, δ = 0.05": (*_wide_gaussian(), EPSILON, 0.05),
    }


def _wide_gaussian() -> tuple[Experiment, list[Pair]]:
    mechanism = mechanisms.DiscreteGaussian(EPSILON, 0.05, 1)
    return from_mechanism(mechanism, (0, 1), outputs=(-20, 21)), [(0, 1), (1, 0)]


def _regions_figure(shown: Mapping[str, tuple[Experiment, list[Pair], float, float]]) -> Figure:
    panels = []
    for name, (experiment, pairs, epsilon, delta) in shown.items():
        regions = dict.fromkeys(tuple(map(tuple, experiment.power_region(i, j).vertices.round(12).tolist())) for i, j in pairs)
        allowed = closed(allowed_region(epsilon, delta))
        series = [Series("R(ε, δ)", *allowed, None, "theory", "area"), Series("its border", *allowed, None, "theory")]
        series += [Series("tests of x₀ against x₁", *closed(np.array(corners)), None, "measured") for corners in regions]
        panels.append(Panel(MISSED, ALARM, tuple(series), "", (-0.02, 1.02), name))
    return Figure("Error probabilities of all tests between neighbours, inside the region of the guarantee.", tuple(panels), square=True)


def _inside(shown: Mapping[str, tuple[Experiment, list[Pair], float, float]]) -> Check:
    worst = max(beyond(*case) for case in shown.values())
    return Check(
        "all regions lie inside R(ε, δ)", f"at most {scientific(worst)} beyond", "0, up to rounding", worst <= ROUNDING, "identity"
    )


def _equivalent(setting: Setting) -> Check:
    """Both directions of the theorem, on random experiments and guarantees on either side of their profile."""
    stream, count, differ = setting.stream("regions"), setting.sized(200, 30), 0
    pairs = list(permutations(range(3), 2))
    for index in range(count):
        experiment = random_experiment(stream, 3, 5)
        epsilon = 0.1 * (index % 8)
        delta = experiment.delta(epsilon) * (1.001 if index % 2 else 0.999)
        differ += experiment.satisfies(epsilon, delta) != (beyond(experiment, pairs, epsilon, delta) <= ROUNDING)
    promise = f"private exactly if inside, at guarantees 0.1 % on either side of the profiles of {count} random experiments"
    return Check(promise, f"{differ} of {count} differ", "0", differ == 0, "identity")


STUDY = Study("blackwell", "Mechanisms as experiments: their order, profiles, testing regions and audits.", TITLES, sections)
