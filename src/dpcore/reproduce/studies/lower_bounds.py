"""Private inference (chapter 9), Theorems 9.2.1 and 9.2.3 with their lemmas: what no private mean can do, and tracing."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from dpcore import inference
from dpcore._dataclasses import dataclass
from dpcore.audit import TracingAttack
from dpcore.inference import mean_lower_bound
from dpcore.mechanisms import Gaussian
from dpcore.reproduce.draws import normals, signs
from dpcore.reproduce.estimates import Mean, compared, mean_of, proportion, share_check
from dpcore.reproduce.lines import computed, measured
from dpcore.reproduce.registry import Study
from dpcore.reproduce.results import Check, Figure, Panel, Section
from dpcore.reproduce.setting import Setting

TITLES = (
    "Private inference (chapter 9), Theorem 9.2.1: no private mean has a smaller risk than d²ln(1/δ)/(n²ε²)",
    "Private inference (chapter 9), Lemma A.3: an accurate mean betrays its records",
    "Private inference (chapter 9), Theorem 9.2.3: no private sparse mean has a risk that does not depend on d",
    "Private inference (chapter 9), Lemma A.4: scores of records in the data, and of others",
    "Private inference (chapter 9), Lemma A.5: privacy bounds the scores of records in the data",
)
DELTA = 1e-9

Array = npt.NDArray[Any]


def sections(setting: Setting) -> Iterator[Section]:
    """Measure all sections."""
    yield _dense(setting)
    yield _betrayed(setting)
    yield _sparse(setting)
    yield _scores(setting)
    yield _transferred(setting)


# Theorem 9.2.1


@dataclass(frozen=True, slots=True)
class Size:
    """Records, coordinates, and the guarantee."""

    n: int = 16_000
    d: int = 1024
    epsilon: float = 0.2
    delta: float = DELTA

    @property
    def order(self) -> float:
        """The privacy part of the theorem: d² ln(1/δ)/(n²ε²)."""
        return self.d**2 * math.log(1 / self.delta) / (self.n * self.epsilon) ** 2

    @property
    def proved(self) -> float:
        """The proved privacy part."""
        return mean_lower_bound(self.epsilon, self.delta, n=self.n, d=self.d, radius=1.0).privacy

    @property
    def exact(self) -> float:
        """The risk of `inference.mean` at the mean 0."""
        scale = Gaussian(self.epsilon, self.delta, sensitivity=2 * math.sqrt(self.d)).scale
        return self.d / self.n + self.d * (scale / self.n) ** 2


def _risk(setting: Setting, size: Size, replicates: int) -> Mean:
    """Measured squared error of a private mean of fair signs."""
    stream, errors = setting.stream("dense", size), []
    for _ in range(replicates):
        x = signs((size.n, size.d), 0.0, stream)
        found = np.asarray(inference.mean(x, size.epsilon, size.delta, 1.0, rng=stream).value)
        errors.append(float(np.square(found).sum()))
    return mean_of(errors)


def _dense(setting: Setting) -> Section:
    sweeps = {
        "n": [Size(n=n) for n in setting.sized((1000, 4000, 16_000, 64_000), (1000, 4000))],
        "d": [Size(d=d) for d in setting.sized((256, 1024, 4096, 16_384), (256, 1024))],
        "ε": [Size(epsilon=e) for e in setting.sized((0.05, 0.2, 0.8), (0.2, 0.8))],
    }
    measurable = {size for sizes in sweeps.values() for size in sizes if size.n * size.d <= 2**25}
    risks = {size: _risk(setting, size, setting.sized(6, 3)) for size in sorted(measurable, key=str)}
    off = max(abs(mean.value / size.exact - 1) for size, mean in risks.items())
    panels, slopes, ratios = [], [], []
    for variable, sizes in sweeps.items():
        x: list[float] = [{"n": size.n, "d": size.d, "ε": size.epsilon}[variable] for size in sizes]
        at = [(value, risks[size]) for value, size in zip(x, sizes, strict=True) if size in risks]
        proved = [size.proved for size in sizes]
        series = (
            measured("risk of inference.mean", [value for value, _ in at], [mean for _, mean in at]),
            computed("its exact risk", x, [size.exact for size in sizes], "second theory"),
            computed("d² ln(1/δ)/(n²ε²)", x, [size.order for size in sizes]),
            computed("proved: no private mean is below", x, proved, "second"),
            computed("d/(1 + √n)²: not without privacy either", x, [size.d / (1 + math.sqrt(size.n)) ** 2 for size in sizes], "third"),
        )
        panels.append(Panel({"n": "records n", "d": "coordinates d", "ε": "ε"}[variable], "squared error", series))
        slopes.append(compared("proved bound", variable, x, [Mean(p, 0.0) for p in proved], [size.order for size in sizes]))
        ratios += [size.exact / max(p, size.d / (1 + math.sqrt(size.n)) ** 2) for size, p in zip(sizes, proved, strict=True)]
    below = all(size.proved <= size.exact for sizes in sweeps.values() for size in sizes)
    return Section(
        TITLES[0],
        "For 0 < ε < 1, δ < n^(−1−ω), d ≳ ln(1/δ) and n ≳ √(d ln(1/δ))/ε, every (ε, δ)-private estimator of the mean of sub-Gaussian "
        "records has a largest risk of at least the order σ²(d/n + d² ln(1/δ)/(n²ε²)).",
        f"Fair signs, n = {Size().n:,}, d = {Size().d:,}, ε = {Size().epsilon:g}, δ = {DELTA:g} where they do not vary. The proved bound "
        "is the privacy part of mean_lower_bound, which holds for every private estimator with all constants.",
        (Figure("Risk of the private mean, and what no private estimator can be below.", tuple(panels)),),
        tuple(slopes),
        (
            Check("no risk is below the bound", f"{min(ratios):.1f} times it or more", "1", below and min(ratios) >= 1, "identity"),
            Check("measured risks agree with the exact ones", f"at most {100 * off:.1f} % off", "40 %", off < 0.4),
        ),
        f"Risk and bound are a factor of {min(ratios):.0f} to {max(ratios):.0f} apart, and have the same exponents where d is much larger "
        "than ln(1/δ). The proof is for bounded records. The one in the chapter takes a law on few points, which is sub-Gaussian in each "
        "coordinate, and not in every direction as the chapter defines it.",
    )


# Lemma A.3


def _betrayed(setting: Setting) -> Section:
    n, d, runs, beta = 100, setting.sized(4096, 2048), setting.sized(20, 6), 0.01
    levels = (0.5, 2.0, 8.0, 32.0, 128.0)
    inside = {level: _accused(setting, n, d, level, runs, beta) for level in levels}
    exact = _accused(setting, n, d, math.inf, runs, beta)
    strangers, total = sum(found[2] for found in (*inside.values(), exact)), runs * n * (len(levels) + 1)
    caught = [proportion(found[0], runs * n) for found in inside.values()]
    sums = [found[1] for found in inside.values()]
    allowed = [min(1.0, math.exp(level) * beta + DELTA) for level in levels]
    panels = (
        Panel(
            "ε of the mean", "share of records accused", (
                measured("of the data", levels, caught),
                computed("of the data, without noise", (levels[0], levels[-1]), (exact[0] / (runs * n),) * 2, "third"),
                computed("allowed by privacy: e^ε β + δ", levels, allowed),
                computed("β: of others, at most", (levels[0], levels[-1]), (beta, beta), "second theory"),
            ), "x", (-0.02, 1.02),
        ),
        Panel(
            "ε of the mean", "sum of the scores of the data", (
                measured("measured", levels, sums),
                computed("2d/3, of an exact mean", (levels[0], levels[-1]), (2 * d / 3,) * 2),
            ), "x",
        ),
    )  # fmt: skip
    off = max(abs(each.value - 2 * d / 3) / each.stderr for each in (*sums, exact[1]))
    over = sum(found[0] > runs * n * limit for found, limit in zip(inside.values(), allowed, strict=True))
    return Section(
        TITLES[1],
        "Draw n records with replacement from m = c√(d/ln(1/δ)) points of {−σ, σ}^d. For some points every (ε, δ)-private estimator of "
        "their mean has an error of the order σ√d. The reason: an accurate mean gives each of its records a score that is larger than that "
        "of others, and privacy does not allow this.",
        f"{n} records of d = {d:,} signs with means that are uniform on [−1, 1]; scores ⟨x − p, M − p⟩ of TracingAttack; {runs} samples. A "
        f"record is accused if its score is above the limit that a stranger exceeds with probability at most β = {beta:g}.",
        (Figure("Accused records, and the sum of the scores of the data, by the ε of the mean.", panels),),
        (),
        (
            Check("without noise, most records of the data are accused", f"{exact[0]:,} of {runs * n:,}", "half", 2 * exact[0] > runs * n),
            share_check("others are accused with probability at most β", strangers, total, beta, "records"),
            Check("no more are accused than e^ε β + δ allows", f"{over} of {len(levels)} levels", "0", over == 0),
            Check("sums of scores agree with 2d/3", f"at most {off:.1f} standard errors off", "5 standard errors", off < 5),
        ),
        "The sum of the scores is 2d/3 for every unbiased mean, whatever its noise. What noise changes is the length of M − p, against "
        "which each score is judged: an accurate M makes scores large, and so privacy makes M inaccurate.",
    )  # fmt: skip


def _accused(setting: Setting, n: int, d: int, epsilon: float, runs: int, beta: float) -> tuple[int, Mean, int]:
    """Accused records of the data, the mean sum of their scores, and accused records of as many others."""
    from scipy import special

    caught, strangers, sums = 0, 0, []
    for run in range(runs):
        stream = setting.stream("betrayed", run)
        # Uniform numbers are those of normal ones; the records are the same for every ε.
        p = 2 * special.ndtr(normals((d,), 0.0, stream)) - 1
        people = np.where(special.ndtr(normals((2 * n, d), 0.0, stream)) < (1 + p) / 2, 1.0, -1.0)
        inside, outside = people[:n], people[n:]
        released = inside.mean(axis=0)
        if epsilon < math.inf:
            noisy = setting.stream("betrayed", run, epsilon)
            released = np.asarray(inference.mean(inside, epsilon, DELTA, 1.0, rng=noisy).value)
        attack = TracingAttack(p)
        caught += int(attack.accused(inside, released, radius=1.0, beta=beta).sum())
        strangers += int(attack.accused(outside, released, radius=1.0, beta=beta).sum())
        sums.append(float(attack.scores(inside, released).sum()))
    return caught, mean_of(sums), strangers


# Theorem 9.2.3


def _sparse(setting: Setting) -> Section:
    n, epsilon, s = 8000, 0.5, 4
    dimensions = setting.sized((64, 256, 1024, 4096), (64, 256))
    bounds = [mean_lower_bound(epsilon, DELTA, n=n, d=d, radius=1.0, s=s) for d in dimensions]
    dense = [mean_lower_bound(epsilon, DELTA, n=n, d=d, radius=1.0).value for d in dimensions]
    risks = [_sparse_risk(setting, n, d, s, epsilon, setting.sized(4, 2)) for d in dimensions]
    order = [s * math.log(d) / n + (s * math.log(d)) ** 2 / (n * epsilon) ** 2 for d in dimensions]
    blocks = [s * math.log(d / s) ** 2 / (n * epsilon) ** 2 for d in dimensions]
    series = (
        measured("risk of sparse_mean, its best height", dimensions, risks),
        computed("s ln d/n + (s ln d)²/(n²ε²)", dimensions, order),
        computed("proved for all sparse means", dimensions, [bound.value for bound in bounds], "second"),
        computed("its privacy part", dimensions, [bound.privacy for bound in bounds], "third"),
        computed("s ln²(d/s)/(n²ε²)", dimensions, blocks, "second theory"),
        computed("proved for all dense means", dimensions, dense, "fourth"),
    )
    ratio = min(risk.value / bound.value for risk, bound in zip(risks, bounds, strict=True))
    parts = [Mean(bound.privacy, 0.0) for bound in bounds]
    return Section(
        TITLES[2],
        "For s = o(d^(1−ω)), 0 < ε < 1 and δ < n^(−1−ω), every (ε, δ)-private estimator of a mean with s coordinates other than 0 has a "
        "largest risk of at least the order σ²(s ln d/n + (s ln d)²/(n²ε²)).",
        f"n = {n:,}, s = {s}, ε = {epsilon:g}, δ = {DELTA:g}: signs, s coordinates with a mean at which the risk is large. The bound is "
        "mean_lower_bound with s.",
        (
            Figure(
                "Risk of a private sparse mean, and what no private estimator can be below.",
                (Panel("coordinates d", "squared error", series),),
            ),
        ),
        (compared("proved privacy part", "ln(d/s)", [math.log(d / s) for d in dimensions], parts, blocks),),
        (Check("no risk is below the bound", f"{ratio:.1f} times it or more", "1", ratio >= 1),),
        "The order (s ln d)² of the privacy part is not proved: the proof in the chapter needs Lemma A.4 (2), which is false (next "
        "sections). dpcore proves s² ln(1/δ) and s ln²(d/s) over n²ε², each with its constants. The statistical part is proved in full.",
    )


def _sparse_risk(setting: Setting, n: int, d: int, s: int, epsilon: float, replicates: int) -> Mean:
    """The largest mean squared error over a few heights of the non-zero means."""
    found = []
    for height in (0.5, 1.0, 2.0):
        stream, errors, mean = setting.stream("sparse", d, height), [], height * 8 * math.log(d) * math.sqrt(s) / (n * epsilon)
        for _ in range(replicates):
            # Columns beyond 512 repeat others: the choice has separate noise for each.
            x = signs((n, min(d, 512)), 0.0, stream).astype(np.float64)
            if d > x.shape[1]:
                x = np.concatenate([x] * (d // x.shape[1]), axis=1)
            x[:, :s] = signs((n, s), mean, stream)
            truth = np.zeros(d)
            truth[:s] = mean
            value = inference.sparse_mean(x, epsilon, DELTA, 1.0, s=s, rng=stream).value.toarray()
            errors.append(float(np.square(value - truth).sum()))
        found.append(mean_of(errors))
    return max(found, key=lambda mean: mean.value)


# Lemma A.4


def _scores(setting: Setting) -> Section:
    n, d, s, epsilon, runs = 400, 64, 4, 8.0, setting.sized(400, 60)
    heights = (0.0, 0.1, 0.2, 0.3, 0.5, 0.8)
    found = {height: _sums_of_scores(setting, n, d, s, epsilon, height, runs) for height in heights}
    dense, sparse, others, length = ([mean_of(found[h][:, i]) for h in heights] for i in range(4))
    off = max(abs(each.value - s) / each.stderr for each in dense)
    null = max(abs(each.value) / each.stderr for each in others)
    kept = all(share.value <= 1 + 5 * share.stderr for share in length)
    panels = (
        Panel(
            "height of the non-zero means", "sum of scores of the data", (
                measured("mean, private", heights, dense),
                measured("sparse mean, private", heights, sparse, "second"),
                computed("σ²s", (heights[0], heights[-1]), (s, s)),
                computed("σ²s ln d", (heights[0], heights[-1]), (s * math.log(d),) * 2, "second theory"),
            ), "",
        ),
        Panel(
            "height of the non-zero means", "score of a replaced record", (
                measured("mean score", heights, others),
                computed("0", (heights[0], heights[-1]), (0.0, 0.0)),
            ), "",
        ),
    )  # fmt: skip
    return Section(
        TITLES[3],
        "Let A(x, M) = ⟨(x − μ)_S, M − μ⟩, S the support of μ, and X'_i the data with record i replaced. (1) E A(x_i, M(X'_i)) = 0 and "
        "E|A(x_i, M(X'_i))| ≤ σ√(E‖M − μ‖²). (2) For some prior of μ, the sum of E A over the records is at least of the order σ²s ln d.",
        f"n = {n} normal records with σ = 1 and d = {d}, s = {s} means that are not 0; inference.mean and sparse_mean with ε = "
        f"{epsilon:g}, δ = {DELTA:g}; {runs} samples.",
        (Figure("Scores of the records of the data, and of a record that was replaced.", panels),),
        (),
        (
            Check("(1) scores of replaced records have mean 0", f"at most {null:.1f} standard errors off", "5 standard errors", null < 5),
            Check("(1) E|A| ÷ √(E‖M − μ‖²) is at most σ", f"at most {max(each.value for each in length):.3f}", "1", kept),
            Check("(2) fails: for the private mean the sum is σ²s", f"at most {off:.1f} standard errors off", "5 standard errors", off < 5),
        ),
        "The chapter prints M(X'_i) in (2), where by (1) the sum is 0; with M(X) it is false, too. For any unbiased M the sum is σ²s by "
        "Stein's identity, for every μ, n and d, and a mean with noise is private and consistent. A sparse mean can exceed σ²s near the "
        "height where its choice begins to succeed, because it grows faster than μ there. See docs/exactness-lower-bounds.md.",
    )  # fmt: skip


def _sums_of_scores(setting: Setting, n: int, d: int, s: int, epsilon: float, height: float, runs: int) -> Array:
    """For each run: sums of scores under a mean and a sparse mean, the score of a record not in the data, and |A| over its bound."""
    stream, rows = setting.stream("scores", height), np.empty((runs, 4))
    mu = np.zeros(d)
    mu[:s] = height
    attack = TracingAttack(mu, support=range(s))
    risk = math.sqrt(d / n + d * (Gaussian(epsilon, DELTA, sensitivity=2 * 6.0 * math.sqrt(d)).scale / n) ** 2)
    for row in rows:
        x = normals((n, d), 0.0, stream) + mu
        dense = np.asarray(inference.mean(x, epsilon, DELTA, 6.0, rng=stream).value)
        sparse = inference.sparse_mean(x, epsilon, DELTA, 6.0, s=s, rng=stream).value.toarray()
        other = float(attack.scores(normals((1, d), 0.0, stream) + mu, dense)[0])
        row[:] = attack.scores(x, dense).sum(), attack.scores(x, sparse).sum(), other, abs(other) / risk
    return rows


# Lemma A.5

Law = dict[Fraction, Fraction]
"""Exact probabilities of values."""


def transferred(inside: Law, outside: Law, epsilon: float, delta: Fraction, limit: Fraction, *, printed: bool) -> float:
    """Right side of the lemma less E A: E A' + 2ε E|A'| + 2δT + ∫_T^∞ P(|A| > t) dt − E A, and ∫_T^∞ P(|A'| > t) dt unless printed."""
    right = float(_mean(outside)) + 2 * epsilon * float(_mean(_absolute(outside))) + float(2 * delta * limit)
    right += float(_tail(inside, limit)) + (0.0 if printed else float(_tail(outside, limit)))
    return right - float(_mean(inside))


def _mean(law: Law) -> Fraction:
    return sum((value * p for value, p in law.items()), Fraction(0))


def _absolute(law: Law) -> Law:
    out: Law = {}
    for value, p in law.items():
        out[abs(value)] = out.get(abs(value), Fraction(0)) + p
    return out


def _tail(law: Law, limit: Fraction) -> Fraction:
    """∫_T^∞ P(|A| > t) dt = E (|A| − T)_+ ."""
    return sum((max(Fraction(0), abs(value) - limit) * p for value, p in law.items()), Fraction(0))


def counterexample(ratio: int) -> tuple[Law, Law, Fraction, Fraction]:
    """A = 1, and A' = 1 except that it is −ratio with probability δ = 1/100: (0, δ)-close, with T = 1."""
    delta = Fraction(1, 100)
    return {Fraction(1): Fraction(1)}, {Fraction(1): 1 - delta, Fraction(-ratio): delta}, delta, Fraction(1)


def _response_scores(level: int, d: int) -> tuple[Law, Law]:
    """Scores of d independent signs and their binary responses of e^(ε/d) = level, exactly: of the own reports, and of others'."""
    right = Fraction(level, level + 1)
    inside: Law = {Fraction(0): Fraction(1)}
    outside: Law = {Fraction(0): Fraction(1)}
    for _ in range(d):
        inside = _sum(inside, {Fraction(1): right, Fraction(-1): 1 - right})
        outside = _sum(outside, {Fraction(1): Fraction(1, 2), Fraction(-1): Fraction(1, 2)})
    return inside, outside


def _sum(one: Law, other: Law) -> Law:
    out: Law = {}
    for a, p in one.items():
        for b, q in other.items():
            out[a + b] = out.get(a + b, Fraction(0)) + p * q
    return out


def _transferred(setting: Setting) -> Section:
    runs, epsilon, delta, n, d = setting.sized(4000, 500), 0.5, 1e-3, 50, 32
    found = _pairs_of_scores(setting, n, d, epsilon, delta, runs)
    limits = np.linspace(0.1, 12.0, 9)
    bounds = []
    for limit in limits:
        tails = [np.maximum(np.abs(found[:, i]) - limit, 0.0).mean() for i in (0, 1)]
        outside = found[:, 1]
        bounds.append(float(outside.mean() + 2 * epsilon * np.abs(outside).mean() + 2 * delta * limit + sum(tails)))
    mean = mean_of(found[:, 0])
    ratios = (1, 2, 5, 10, 50, 100, 200, 500)
    printed = [transferred(*counterexample(ratio)[:2], 1e-3, *counterexample(ratio)[2:], printed=True) for ratio in ratios]
    corrected = [transferred(*counterexample(ratio)[:2], 1e-3, *counterexample(ratio)[2:], printed=False) for ratio in ratios]
    responses = min(
        transferred(*_response_scores(level, 1), math.log(level), Fraction(0), Fraction(limit), printed=False)
        for level in (2, 3) for limit in (1, 2, 4)
    )  # fmt: skip
    panels = (
        Panel(
            "T", "mean score of a record of the data", (
                measured("E A, measured", limits, [mean] * len(limits)),
                computed("right side, with both tails", limits, bounds),
            ), "",
        ),
        Panel(
            "L: A' is −L with probability 1/100", "right side less E A", (
                computed("as printed", ratios, printed, "measured"),
                computed("with the tail of A'", ratios, corrected, "second"),
                computed("0", (ratios[0], ratios[-1]), (0.0, 0.0)),
            ), "x",
        ),
    )  # fmt: skip
    return Section(
        TITLES[4],
        "If M is (ε, δ)-private with 0 < ε < 1, the scores A of a record of the data and A' of a record that was replaced satisfy, for "
        "every T > 0, E A ≤ E A' + 2ε E|A'| + 2δT + ∫_T^∞ P(|A| > t) dt.",
        f"Left: {runs:,} samples of n = {n} records of d = {d} fair signs, inference.mean with ε = {epsilon:g}, δ = {delta:g}. Right: two "
        "laws that are (0, 1/100)-close, T = 1, ε = 10⁻³, in exact rationals.",
        (Figure("Both sides of the lemma.", panels),),
        (),
        (
            Check(
                "private mean: E A is at most the right side", f"{min(bounds) - mean.value:.3g} less", "0",
                mean.value - 5 * mean.stderr <= min(bounds),
            ),
            Check(
                "as printed, it fails for L = 200", f"right side less E A: {printed[ratios.index(200)]:.3f}", "negative",
                printed[ratios.index(200)] < 0, "identity",
            ),
            Check(
                "with ∫_T^∞ P(|A'| > t) dt as well, it holds", f"at least {min(*corrected, responses):.3f}", "0",
                min(*corrected, responses) >= 0, "identity",
            ),
        ),
        "The proof bounds E A⁻ from below by P(A⁻ > t) up to T only, so that the tail of A'⁻ beyond T is lost. Where the chapter uses the "
        "lemma, both tails have one bound, which doubles a constant.",
    )  # fmt: skip


def _pairs_of_scores(setting: Setting, n: int, d: int, epsilon: float, delta: float, runs: int) -> Array:
    """Scores of the first record under a mean that has it, and under one in which it was replaced."""
    stream, rows, attack = setting.stream("transferred"), np.empty((runs, 2)), TracingAttack(np.zeros(d))
    for row in rows:
        x = signs((n + 1, d), 0.0, stream).astype(np.float64)
        for column, data in enumerate((x[:n], x[1:])):
            released = np.asarray(inference.mean(data, epsilon, delta, 1.0, rng=stream).value)
            row[column] = attack.scores(x[:1], released)[0]
    return rows


STUDY = Study("lower-bounds", "What no private mean can do, and the tracing attack that shows it.", TITLES, sections)
