"""Stemmer (lecture 6): an adaptive analyst overfits a sample with exact answers, and does not overfit with `AdaptiveQueries`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from operator import attrgetter

import numpy as np
import numpy.typing as npt

from dpcore._dataclasses import dataclass
from dpcore.inference import AdaptiveQueries
from dpcore.reproduce.analyst import POPULATION, Agreement, Bits, accuracy, asked, exact_agreements, noise_data, vote_of
from dpcore.reproduce.estimates import Mean, compared, mean_of, share_check
from dpcore.reproduce.registry import Study
from dpcore.reproduce.results import Check, Figure, Panel, Role, Section, Series, floats
from dpcore.reproduce.setting import Setting
from dpcore.rng import Stream

TITLES = (
    "Stemmer (lecture 6), Claim 6: private answers stay near the sample's averages",
    "Stemmer (lecture 6), Claim 8: NoisyArgmax finds a query that is nearly the best",
    "Stemmer (lecture 6), Theorem 9: private answers stay near the population's averages",
    "Stemmer (lecture 6), Theorem 10: a query chosen by private answers does not overfit",
)
CLAIM_6 = (
    "Laplace noise of scale 1/(γn), γ = ε/√(8k ln(1/δ)), makes k adaptive answers (ε, δ)-private, and with probability 1 − β all of them "
    "are within α = ln(k/β)/(γn) of the sample's averages. The error grows with √k, not with k."
)
CLAIM_8 = (
    "To add Laplace noise of scale 2/(εn) to each of T averages and to release only the index of the largest sum is ε-private. With "
    "probability 1 − β the chosen average is at most O(ln(T/β)/(εn)) below the largest, so the cost is logarithmic in T."
)
THEOREM_9 = (
    "If a mechanism is (ε, δ)-private and (α, β)-accurate on its sample of n = Ω(ln(1/δ)/ε²) records, its answers to k adaptive queries "
    "are (α + 10ε, β + kδ/ε)-accurate for the population."
)
THEOREM_10 = (
    "If (ε, δ)-private answers about n = Ω(ln(1/δ)/ε²) records choose a query q, its average over the sample is within 10ε of its average "
    "over the population, except with a probability of δ/ε."
)
VOTES = 16
"""Number of answers about the vote in the long attacks; one answer shows little of the size of the noise."""
BETA = 0.05
"""Failure probability in the accuracies."""
USUAL = 0.9, 1e-4
"""Common values of ε and δ."""
SELECTION = 0.5
"""ε of a selection."""
STRICT = 0.04, 1e-3
"""ε and δ for which the theorem is not trivial: 10ε is below ½."""


def sections(setting: Setting) -> Iterator[Section]:
    """Measure all sections."""
    yield _near_the_sample(setting)
    yield _nearly_the_best(setting)
    attacks = [_attack(setting, replicate) for replicate in range(setting.sized(4, 2))]
    yield _near_the_population(setting, attacks)
    yield _no_overfitting(attacks)


# Claim 6: the error on the sample


def _largest_error(setting: Setting, n: int, k: int, replicate: int) -> float:
    """The largest difference between k private answers and the sample's averages."""
    stream = setting.stream("claim 6", n, k, replicate)
    records = noise_data(n, k, stream)
    queries = AdaptiveQueries(records, *USUAL, uses=k, rng=stream)
    return float(np.abs(asked(queries.answer, k) - exact_agreements(records)).max())


def _bound(n: int, k: int) -> float:
    """α of Claim 6."""
    return AdaptiveQueries(np.zeros((n, 1), np.bool_), *USUAL, uses=k).empirical_accuracy(BETA)


def _expected(n: int, k: int) -> float:
    """Expected largest of k noises: the scale times the harmonic number, the largest of k exponentials having that mean."""
    return _bound(n, k) / math.log(k / BETA) * float(np.sum(1 / np.arange(1, k + 1)))


def _near_the_sample(setting: Setting) -> Section:
    replicates, n, k = setting.sized(30, 8), 1000, 64
    sizes = {"k": [(n, 4**i) for i in range(1, setting.sized(6, 4))], "n": [(250 * 4**i, k) for i in range(4)]}
    errors = {size: [_largest_error(setting, *size, r) for r in range(replicates)] for size in {*sizes["k"], *sizes["n"]}}
    beyond = sum(bool(error > _bound(*size)) for size, found in errors.items() for error in found)
    runs = replicates * len(errors)
    panels, slopes = [], []
    for variable, label in (("k", "number of queries k"), ("n", "records n")):
        x = [size["nk".index(variable)] for size in sizes[variable]]
        means, expected = [mean_of(errors[size]) for size in sizes[variable]], [_expected(*size) for size in sizes[variable]]
        bounds = [_bound(*size) for size in sizes[variable]]
        lines = _series("expected: scale × H(k)", x, expected, role="theory"), _series("α of the claim", x, bounds, role="second theory")
        panels.append(Panel(label, "largest error on the sample", (_measured("measured", x, means), *lines)))
        slopes.append(compared("expected largest error", variable, x, means, expected))
    return Section(
        TITLES[0],
        CLAIM_6,
        f"{replicates} runs at each size of k queries about noise, ε = {USUAL[0]:g}, δ = {USUAL[1]:g}; left n = {n:,}, right k = {k}.",
        (Figure(f"Largest of k errors, with standard errors; α at β = {BETA:g}.", tuple(panels)),),
        tuple(slopes),
        (share_check("a run has an error beyond α with probability at most β", beyond, runs, BETA),),
    )


# Claim 8: the choice of a query


def _lost_by_choosing(setting: Setting, n: int, count: int, replicate: int) -> float:
    """How much smaller the chosen query's average is than the largest of `count`."""
    stream = setting.stream("claim 8", n, count, replicate)
    records = noise_data(n, count, stream)
    queries = AdaptiveQueries(records, *USUAL, uses=1, rng=stream)
    exact = exact_agreements(records)
    return float(exact.max() - exact[queries.best_of([Agreement(feature) for feature in range(count)], SELECTION)])


def _most_lost(n: int, count: int) -> float:
    """With probability 1 − β all noises are at most ln(T/β) scales 2/(εn), so that the choice loses at most twice that."""
    return 4 / (SELECTION * n) * math.log(count / BETA)


def _nearly_the_best(setting: Setting) -> Section:
    replicates, n, count = setting.sized(40, 8), 1000, 64
    sizes = {"T": [(n, 4**i) for i in range(1, setting.sized(6, 4))], "n": [(250 * 4**i, count) for i in range(4)]}
    lost = {size: [_lost_by_choosing(setting, *size, r) for r in range(replicates)] for size in {*sizes["T"], *sizes["n"]}}
    beyond, runs = sum(bool(loss > _most_lost(*size)) for size, found in lost.items() for loss in found), replicates * len(lost)
    panels = []
    for variable, label in (("T", "number of queries T"), ("n", "records n")):
        x = [size["nT".index(variable)] for size in sizes[variable]]
        bound = _series("4 ln(T/β)/(εn)", x, [_most_lost(*size) for size in sizes[variable]], role="theory")
        panels.append(Panel(label, "loss of the choice", (_measured("measured", x, [mean_of(lost[s]) for s in sizes[variable]]), bound)))
    return Section(
        TITLES[1],
        CLAIM_8,
        f"{replicates} choices at each size among T queries about noise, ε = {SELECTION:g}; left n = {n:,}, right T = {count}. All "
        "averages are near ½. With many records the noise hardly matters, and with few records the choice is almost uniform.",
        (
            Figure(
                f"Loss of the choice, with standard errors, and the bound at β = {BETA:g} with the constant of its proof.", tuple(panels)
            ),
        ),
        checks=(share_check("a choice loses more than the bound with probability at most β", beyond, runs, BETA, "choices"),),
    )


# The attack: without a mechanism, and with it


@dataclass(frozen=True, slots=True)
class _Outcome:
    """How well the vote does on the sample and on fresh records, and how far from ½ the answers about it are on average."""

    sample: float
    fresh: float
    error: float


Lines = tuple[Series, ...]
Numbers = npt.NDArray[np.float64]
_Attack = dict[str, list[_Outcome]]
"""Outcomes by mechanism, one for each number of queries."""


def _records() -> int:
    """Records that Theorem 10 needs, with the constant 1."""
    epsilon, delta = STRICT
    return math.ceil(math.log(1 / delta) / epsilon**2)


def _query_counts() -> list[int]:
    return [_records() * 4**i // 16 for i in range(4)]


def _private_answers(records: Bits, budget: tuple[float, float], k: int, stream: Stream, votes: int = 1) -> tuple[Numbers, Numbers]:
    """Return answers about k features, and `votes` answers about the vote that they suggest."""
    queries = AdaptiveQueries(records, *budget, uses=k + votes, rng=stream)
    answers = asked(queries.answer, k)
    vote = vote_of(answers)
    return answers, np.array([queries.answer(vote) for _ in range(votes)])


def _attack(setting: Setting, replicate: int) -> _Attack:
    """One sample, attacked with exact answers and with the answers of two mechanisms."""
    counts, stream = _query_counts(), setting.stream("attack", replicate)
    draw = partial(noise_data, _records(), counts[-1])
    records, fresh = draw(stream), draw(stream)
    exact = exact_agreements(records)

    def outcome(answers: Numbers, about_vote: Numbers | None = None) -> _Outcome:
        vote = vote_of(answers)
        on_sample = accuracy(vote, records)
        found = on_sample if about_vote is None else about_vote
        return _Outcome(on_sample, accuracy(vote, fresh), float(np.mean(np.abs(found - POPULATION))))

    private = {
        name: [outcome(*_private_answers(records, budget, k, stream, VOTES)) for k in counts]
        for name, budget in (("usual", USUAL), ("strict", STRICT))
    }
    return {"exact": [outcome(exact[:k]) for k in counts], **private}


def _over(attacks: list[_Attack], mechanism: str, what: Callable[[_Outcome], float]) -> list[Mean]:
    """Mean over the attacks, for each number of queries."""
    columns = zip(*(attack[mechanism] for attack in attacks), strict=True)
    return [mean_of([what(outcome) for outcome in column]) for column in columns]


def _accuracies(attacks: list[_Attack]) -> Lines:
    counts, n = _query_counts(), _records()
    return (
        _measured("on the sample, exact answers", counts, _over(attacks, "exact", attrgetter("sample"))),
        _measured("on the sample, private answers", counts, _over(attacks, "strict", attrgetter("sample")), role="second"),
        _measured("on fresh records, exact answers", counts, _over(attacks, "exact", attrgetter("fresh")), role="third"),
        _measured("on fresh records, private answers", counts, _over(attacks, "strict", attrgetter("fresh")), role="fourth"),
        _series("½ + 10ε", counts, [POPULATION + 10 * STRICT[0]] * len(counts), role="theory"),
        _series("expected without a mechanism", counts, [_open_accuracy(k / n) for k in counts], role="second theory"),
    )


def _no_overfitting(attacks: list[_Attack]) -> Section:
    epsilon, delta = STRICT
    private = [abs(outcome.sample - POPULATION) > 10 * epsilon for attack in attacks for outcome in attack["strict"]]
    beyond, runs = sum(attack["exact"][-1].sample > POPULATION + 10 * epsilon for attack in attacks), len(attacks)
    promise = "private: the sample's average differs from the population's by more than 10ε with probability below δ/ε"
    figure = Figure(
        "Accuracy of the majority vote against the number of queries before it, with standard errors. The constant in the Ω is 1.",
        (Panel("number of queries k", "accuracy", _accuracies(attacks), "x", (0.4, 1.0)),),
    )
    return Section(
        TITLES[3],
        THEOREM_10,
        f"n = {_records():,} records of fair bits and a fair label, {runs} runs, ε = {epsilon:g}, δ = {delta:g}. The analyst asks how "
        "often each of k features equals the label, inverts those that seem wrong, and asks how often their majority is right. The true "
        "answer is ½.",
        (figure,),
        checks=(
            share_check(promise, sum(private), len(private), delta / epsilon, "votes"),
            Check("exact: the last vote is more than 10ε off in every run", f"{beyond} of {runs} votes", "all votes", beyond == runs),
        ),
    )


def _open_accuracy(queries_per_record: float) -> float:
    """Expected accuracy on the sample of the vote made from exact answers, in the limit of many records: Φ(√(2k/(πn)))."""
    return 0.5 * math.erfc(-math.sqrt(queries_per_record / math.pi))


# Theorem 9: the error on the population


def _promising(k: int) -> tuple[float, float]:
    """ε and δ for which α + 10ε becomes small and the theorem's kδ/ε is a fifth of β."""
    return 0.01, 0.01 * BETA / (5 * k)


def _errors_in_population(setting: Setting, n: int, k: int, replicate: int) -> tuple[float, float]:
    """Largest difference from ½ of k answers, the last of them about a vote: private answers, and exact ones."""
    stream = setting.stream("theorem 9", n, replicate)
    records = noise_data(n, k - 1, stream)
    answers, last = _private_answers(records, _promising(k), k - 1, stream)
    exact = exact_agreements(records)
    exact_last = accuracy(vote_of(exact), records)
    return float(np.abs(np.append(answers, last) - POPULATION).max()), float(np.abs(np.append(exact, exact_last) - POPULATION).max())


def _near_the_population(setting: Setting, attacks: list[_Attack]) -> Section:
    k, replicates, sizes = 32, setting.sized(24, 4), [130_000 * 2**i for i in range(setting.sized(4, 2))]
    epsilon, delta = _promising(k)
    errors = [[_errors_in_population(setting, n, k, r) for r in range(replicates)] for n in sizes]
    private, exact = ([mean_of([found[i] for found in row]) for row in errors] for i in (0, 1))
    promises, alphas = zip(*(_promises(n, k) for n in sizes), strict=True)
    beyond = sum(found[0] > promise for row, promise in zip(errors, promises, strict=True) for found in row)
    promise = "a run has an error beyond α + 10ε with probability at most β + kδ/ε"
    panels = (
        Panel("records n", "largest error", _by_records(sizes, private, exact, alphas, promises)),
        Panel("number of queries k", "error of the answer about the vote", _by_queries(attacks)),
    )
    return Section(
        TITLES[2],
        THEOREM_9,
        f"Left: {replicates} runs of {k} queries at each n, the last query a majority vote chosen by the answers before it; "
        f"ε = {epsilon:g}, δ = {delta:.2g}, and the theorem needs about {math.log(1 / delta) / epsilon**2:,.0f} records. Right: the "
        f"runs of the next section, {_records():,} records, ε = {USUAL[0]:g} and δ = {USUAL[1]:g}, the mean error of {VOTES} answers "
        "about the vote; there α + 10ε is above 1 and so no bound.",
        (Figure(f"Errors against the population, with standard errors; accuracies at β = {BETA:g}.", panels),),
        (compared("largest error of private answers", "n", sizes, private, alphas),),
        (share_check(promise, beyond, replicates * len(sizes), BETA + k * delta / epsilon),),
        "With few queries for many records, exact answers are better, as on the left. With many queries they overfit by more than the "
        "noise costs, as on the right.",
    )


def _promises(n: int, k: int) -> tuple[float, float]:
    """α + 10ε, and α alone."""
    queries = AdaptiveQueries(np.zeros((n, 1), np.bool_), *_promising(k), uses=k)
    return queries.statistical_accuracy(BETA)[0], queries.empirical_accuracy(BETA)


def _by_records(sizes: list[int], private: list[Mean], exact: list[Mean], alphas: tuple[float, ...], promises: tuple[float, ...]) -> Lines:
    return (
        _measured("private answers", sizes, private, role="second"),
        _measured("exact answers", sizes, exact),
        _series("α: error on the sample", sizes, alphas, role="second theory"),
        _series("α + 10ε", sizes, promises, role="theory"),
    )


def _by_queries(attacks: list[_Attack]) -> Lines:
    counts, n = _query_counts(), _records()
    errors = {name: _over(attacks, name, attrgetter("error")) for name in ("exact", "usual")}
    scales = [AdaptiveQueries(np.zeros((n, 1), np.bool_), *USUAL, uses=k + VOTES).scale for k in counts]
    return (
        _measured("private answers", counts, errors["usual"], role="second"),
        _measured("exact answers", counts, errors["exact"]),
        _series("expected with the mechanism", counts, scales, role="second theory"),
        _series("expected without it", counts, [_open_accuracy(k / n) - POPULATION for k in counts], role="theory"),
    )


# Series


def _measured(name: str, x: Sequence[float], means: Sequence[Mean], role: Role = "measured") -> Series:
    return Series(name, floats(x), floats(mean.value for mean in means), floats(mean.stderr for mean in means), role)


def _series(name: str, x: Sequence[float], y: Sequence[float], role: Role) -> Series:
    return Series(name, floats(x), floats(y), None, role)


STUDY = Study("overfitting", "An adaptive analyst overfits a sample, and does not overfit one behind private answers.", TITLES, sections)
