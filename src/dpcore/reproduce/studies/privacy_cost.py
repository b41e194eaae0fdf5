"""Private inference (chapter 9), Section 9.2: the cost of privacy for means, and the rates of the theorems."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from dpcore import inference, selection, sums
from dpcore._dataclasses import dataclass
from dpcore.mechanisms import Gaussian
from dpcore.reproduce.draws import normals, signs
from dpcore.reproduce.estimates import Mean, compared, mean_of
from dpcore.reproduce.registry import Study
from dpcore.reproduce.results import Check, Figure, Panel, Role, Section, Series, Slope, floats
from dpcore.reproduce.setting import Setting
from dpcore.rng import Stream

TITLES = (
    "Private inference (chapter 9), Theorem 9.2.2, bounded values: risk of a private mean",
    "Private inference (chapter 9), Theorem 9.2.2, sub-Gaussian values: risk of a private mean",
    "Private inference (chapter 9), Theorem 9.2.4: risk of a private sparse mean",
)
NOISE_REMARK = (
    "The theorem holds up to constants: the sensitivity 2R√d/n and the Gaussian mechanism raise the privacy part above its line. Its slope "
    "in ε is less steep than −2, because the least noise for (ε, δ) falls more slowly than 1/ε unless ε is small; the column of the "
    "estimator's own slopes has the exact value."
)
LEVELS = 0.5, 0.75, 1.0
"""Heights of the non-zero means, in units of the height below which noise hides a coordinate."""

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Size:
    """Sizes of one measurement: records, coordinates, non-zero coordinates, and the guarantee."""

    n: int
    d: int
    s: int = 0
    epsilon: float = 0.5
    delta: float = 1e-6


@dataclass(frozen=True, slots=True)
class Risk:
    """Both parts of a mean squared error: that of the estimator without noise, and that of the noise."""

    statistical: Mean
    privacy: Mean


DRIFT = 3.0
"""Largest ratio of the constants of sparse rates between sizes, whose logarithms are not large."""
PARTS = "statistical", "privacy"
ROLES: tuple[tuple[Role, Role], ...] = (("measured", "theory"), ("second", "second theory"))
"""Roles of a part and its rate in plots."""
Rates = Mapping[Size, tuple[float, ...]]
"""Values of both parts, or of the first."""
Sweeps = dict[str, list[Size]]
"""For each variable, the sizes at which it varies and the others are constant."""


def sections(setting: Setting) -> Iterator[Section]:
    """Measure all sections."""
    yield _bounded(setting)
    yield _sub_gaussian(setting)
    yield _sparse(setting)


def _sweeps(base: Size, **values: Sequence[float]) -> Sweeps:
    def changed(**to: Any) -> Size:
        return replace(base, **to)

    return {name: [changed(**{name: value}) for value in column] for name, column in values.items()}


# Theorem 9.2.2


def _dense_risk(setting: Setting, size: Size, draw: Callable[..., Array], radius: float, replicates: int) -> Risk:
    """The two parts of the risk of `inference.mean`; the clipped mean without noise separates them."""
    stream, statistical, privacy = setting.stream(draw.__name__, size), [], []
    mean = 0.25
    for _ in range(replicates):
        x = draw((size.n, size.d), mean, stream)
        exact = np.asarray(sums.clipped_sum(x, radius).high) / size.n
        private = np.asarray(inference.mean(x, size.epsilon, size.delta, radius, rng=stream).value)
        statistical.append(float(np.square(exact - mean).sum()))
        privacy.append(float(np.square(private - exact).sum()))
    return Risk(mean_of(statistical), mean_of(privacy))


def _dense_rates(size: Size, log_factor: float = 1.0) -> tuple[float, float]:
    """d/n and d² ln(1/δ)/(n²ε²), the latter with its logarithmic factor."""
    return size.d / size.n, size.d**2 * math.log(1 / size.delta) * log_factor / (size.n * size.epsilon) ** 2


def _noise_of(size: Size, radius: float) -> float:
    """The privacy part exactly: d variances of the Gaussian noise."""
    mechanism = Gaussian(size.epsilon, size.delta, sensitivity=2 * radius * math.sqrt(size.d))
    return size.d * (mechanism.scale / size.n) ** 2


def _dense_sweeps(setting: Setting) -> Sweeps:
    return _sweeps(
        Size(4000, 16),
        n=setting.sized((500, 1000, 2000, 4000, 8000, 16000), (500, 1000, 2000)),
        d=setting.sized((4, 8, 16, 32, 64), (4, 8, 16)),
        epsilon=setting.sized((0.125, 0.25, 0.5, 1.0), (0.25, 0.5, 1.0)),
    )


def _bounded(setting: Setting) -> Section:
    sweeps, replicates = _dense_sweeps(setting), setting.sized(200, 20)
    risks = _measured(sweeps, lambda size: _dense_risk(setting, size, signs, 1.0, replicates))
    rates = {size: _dense_rates(size) for size in risks}
    exact = {size: (size.d * (1 - 0.25**2) / size.n, _noise_of(size, 1.0)) for size in risks}
    return Section(
        TITLES[0],
        "For values of size at most T, the clipped mean with R = T and Gaussian noise has a risk of order σ²(d/n + d² ln(1/δ)/(n²ε²)), and "
        "by Theorem 9.2.1 no (ε, δ)-private estimator has one of smaller order. The noise is that of the analytic Gaussian mechanism, "
        "because the variance in the document is too small for its guarantee.",
        f"{replicates} samples of n records of d independent ±1 with mean ¼ at each size, T = σ = 1; n = 4,000, d = 16, ε = ½ and "
        "δ = 10⁻⁶ where they do not vary.",
        _figures(sweeps, risks, rates, "σ²d/n", "σ²d² ln(1/δ)/(n²ε²)"),
        _slopes(sweeps, risks, rates, exact),
        _agreement(risks, exact),
        NOISE_REMARK,
    )


def _sub_gaussian(setting: Setting) -> Section:
    sweeps, replicates = _dense_sweeps(setting), setting.sized(60, 10)
    risks = _measured(sweeps, lambda size: _dense_risk(setting, size, normals, _radius(size.n), replicates))
    rates = {size: _dense_rates(size, math.log(size.n)) for size in risks}
    exact = {size: (size.d / size.n, _noise_of(size, _radius(size.n))) for size in risks}
    return Section(
        TITLES[1],
        "For sub-Gaussian values and R = Kσ√(ln n) the risk is of order σ²(d/n + d² ln(1/δ) ln n/(n²ε²)): a factor ln n more for privacy.",
        f"{replicates} samples of n records of d independent normal numbers with mean ¼ at each size, σ = 1, K = 2; n = 4,000, d = 16, "
        "ε = ½ and δ = 10⁻⁶ where they do not vary.",
        _figures(sweeps, risks, rates, "σ²d/n", "σ²d² ln(1/δ) ln n/(n²ε²)"),
        _slopes(sweeps, risks, rates, exact),
        _agreement(risks, exact),
        NOISE_REMARK,
    )


def _radius(n: int) -> float:
    """R = Kσ√(ln n) with K = 2, σ = 1."""
    return 2 * math.sqrt(math.log(n))


def _agreement(risks: dict[Size, Risk], exact: Rates) -> tuple[Check, ...]:
    """Whether both parts agree with the exact risk of this estimator, all constants included."""
    checks = []
    for index, part in enumerate(PARTS):
        means = {size: getattr(risk, part) for size, risk in risks.items()}
        worst = max(abs(mean.value - exact[size][index]) / mean.stderr for size, mean in means.items())
        claim = f"the {part} part agrees with the exact risk, constants included, at all {len(means)} sizes"
        checks.append(Check(claim, f"at most {worst:.1f} standard errors off", "5 standard errors", worst < 5))
    return tuple(checks)


# Theorem 9.2.4


def _scale(size: Size) -> float:
    """Scale b of Algorithm 9.2.2's Laplace noise, for the mean."""
    options: dict[str, Any] = {"delta": size.delta, "method": "peeling", "values": True}
    return selection.top_s(np.zeros(size.d), size.epsilon, 2 * _radius(size.n), s=size.s, **options).scale / size.n


def _largest(means: Array, s: int) -> Array:
    """The means with all but the s largest set to zero: Algorithm 9.2.2 without its noise."""
    kept = np.zeros_like(means)
    chosen = np.argpartition(np.abs(means), -s)[-s:]
    kept[chosen] = means[chosen]
    return kept


def _open_estimate(x: Array, size: Size) -> Array:
    return _largest(np.asarray(sums.clipped_sum(x, _radius(size.n)).high) / size.n, size.s)


def _set_height(x: Array, height: float, size: Size, stream: Stream) -> Array:
    """Draw the first s columns again with this mean, and return the vector of means; the other columns stay."""
    x[:, : size.s] = signs((size.n, size.s), height, stream)
    truth = np.zeros(size.d)
    truth[: size.s] = height
    return truth


def _statistical_error(x: Array, height: float, size: Size, stream: Stream) -> float:
    truth = _set_height(x, height, size, stream)
    return float(np.square(_open_estimate(x, size) - truth).sum())


def _privacy_error(x: Array, height: float, size: Size, stream: Stream) -> float:
    _set_height(x, height, size, stream)
    private = inference.sparse_mean(x, size.epsilon, size.delta, _radius(size.n), s=size.s, rng=stream).value.toarray()
    return float(np.square(private - _open_estimate(x, size)).sum())


def _sparse_risk(setting: Setting, size: Size, replicates: int) -> Risk:
    """The largest risks over the heights: for the statistical part near √(2 ln d/n), for the privacy part near b ln d."""
    stream, found = setting.stream("sparse", size), np.empty((replicates, 2, len(LEVELS)))
    parts = (
        (_statistical_error, math.sqrt(2 * math.log(size.d) / size.n)),
        (_privacy_error, _scale(size) * math.log(size.d)),
    )
    for replicate in found:
        # As float64: sums of the array are taken nine times, and another type would be converted every time.
        x = signs((size.n, size.d), 0.0, stream).astype(np.float64)
        for row, (error, unit) in zip(replicate, parts, strict=True):
            row[:] = [error(x, level * unit, size, stream) for level in LEVELS]
    statistical, privacy = (max(map(mean_of, found[:, part].T), key=lambda mean: mean.value) for part in (0, 1))
    return Risk(statistical, privacy)


def _sparse_rates(size: Size) -> tuple[float, float]:
    """s ln d/n and (s ln d)² ln(1/δ) ln n/(n²ε²)."""
    sparsity = size.s * math.log(size.d)
    return sparsity / size.n, sparsity**2 * math.log(1 / size.delta) * math.log(size.n) / (size.n * size.epsilon) ** 2


def _sparse(setting: Setting) -> Section:
    replicates = setting.sized(18, 6)
    sweeps = _sweeps(
        Size(8000, 512, 8, 0.9, 1e-5),
        n=setting.sized((4000, 8000, 16000, 32000), (4000, 8000)),
        d=setting.sized((128, 512, 2048), (128, 512)),
        s=setting.sized((2, 4, 8, 16), (4, 8)),
        epsilon=setting.sized((0.45, 0.6, 0.9), (0.6, 0.9)),
    )
    risks = _measured(sweeps, lambda size: _sparse_risk(setting, size, replicates))
    rates = {size: _sparse_rates(size) for size in risks}
    return Section(
        TITLES[2],
        "With at most s means that are not zero, Algorithm 9.2.2 (s rounds of noisy selection, then noise on the chosen) has a risk of "
        "order σ²(s ln d/n + (s ln d)² ln(1/δ) ln n/(n²ε²)): the number d of coordinates has only a logarithmic effect.",
        f"{replicates} samples of n records of d independent ±1 at each size, s of them with a mean that is not zero; R = 2√(ln n). The "
        "risk is the largest over several heights of these means, because the theorem is about the worst case. n = 8,000, d = 512, s = "
        "8, ε = 0.9 "
        "and δ = 10⁻⁵ where they do not vary.",
        _figures(sweeps, risks, rates, "σ²s ln d/n", "σ²(s ln d)² ln(1/δ) ln n/(n²ε²)"),
        _slopes(sweeps, risks, rates),
        (_constancy(risks, rates),),
        "The statistical part follows s ln(d/s), which is of the same order as s ln d if s = O(d^(1−ω)), as the theorem "
        "assumes. Here d is smaller, and the slopes in s and in ln d show the difference. The privacy part grows more slowly in s than its "
        "bound, because the noise does not hide the largest of many non-zero means.",
    )


def _constancy(risks: dict[Size, Risk], rates: Rates) -> Check:
    """Whether the constants of the rates are nearly constant."""
    ratios = [[getattr(risk, part).value / rates[size][index] for size, risk in risks.items()] for index, part in enumerate(PARTS)]
    shown = " and ".join(f"{min(found):.3g} to {max(found):.3g}" for found in ratios)
    drift = max(max(found) / min(found) for found in ratios)
    return Check(f"both parts ÷ their rates stay within a factor of {DRIFT:g}", shown, f"a factor of {DRIFT:g} each", drift <= DRIFT)


# What the sections share

LABELS = {"n": "records n", "d": "coordinates d", "s": "non-zero means s", "epsilon": "ε"}


def _measured(sweeps: Sweeps, risk: Callable[[Size], Risk]) -> dict[Size, Risk]:
    """The risk at each size, once."""
    every = dict.fromkeys(size for sizes in sweeps.values() for size in sizes)
    return {size: risk(size) for size in every}


def _figures(sweeps: Sweeps, risks: dict[Size, Risk], rates: Rates, statistical: str, privacy: str) -> tuple[Figure, ...]:
    def panel(variable: str, sizes: list[Size]) -> Panel:
        x, series = floats(getattr(size, variable) for size in sizes), []
        for index, (part, name, (role, line)) in enumerate(zip(PARTS, (statistical, privacy), ROLES, strict=True)):
            means = [getattr(risks[size], part) for size in sizes]
            measured = floats(mean.value for mean in means), floats(mean.stderr for mean in means)
            series += [
                Series(f"{part} part", x, *measured, role),
                Series(name, x, floats(rates[size][index] for size in sizes), None, line),
            ]
        return Panel(LABELS[variable], "squared error", tuple(series))

    caption = "Mean squared error by its two parts, with standard errors; lines are the rates with the constant 1."
    return (Figure(caption, tuple(panel(variable, sizes) for variable, sizes in sweeps.items())),)


def _slopes(sweeps: Sweeps, risks: dict[Size, Risk], rates: Rates, exact: Rates | None = None) -> tuple[Slope, ...]:
    def slope(index: int, variable: str, x: Sequence[float], sizes: Sequence[Size], theory: Rates) -> Slope:
        means, part = [getattr(risks[size], PARTS[index]) for size in sizes], f"{PARTS[index]} part"
        own = None if exact is None else [exact[size][index] for size in sizes]
        return compared(part, variable, x, means, [theory[size][index] for size in sizes], own)

    slopes = []
    for index, variable in product((0, 1), sweeps):
        sizes = sweeps[variable]
        if variable == "d" and sizes[0].s:
            # A rate in ln d is judged in ln d: in d it has no exponent.
            slopes.append(slope(index, "ln d", [math.log(size.d) for size in sizes], sizes, rates))
        elif (index, variable) != (0, "epsilon"):
            slopes.append(slope(index, variable.replace("epsilon", "ε"), [getattr(size, variable) for size in sizes], sizes, rates))
    if "s" in sweeps:
        sizes = list(dict.fromkeys([*sweeps["d"], *sweeps["s"]]))
        complexity = {size: (size.s * math.log(size.d / size.s),) for size in sizes}
        slopes.append(slope(0, "s ln(d/s)", [x for (x,) in complexity.values()], sizes, complexity))
    return tuple(slopes)


STUDY = Study("privacy-cost", "The cost of privacy for the mean, and the rates of the theorems.", TITLES, sections)
