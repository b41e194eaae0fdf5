"""Private inference (chapter 9), Theorems 9.3.2 and 9.3.3: how many records private tests need, from above and from below."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from dpcore._dataclasses import dataclass
from dpcore.inference import sample_size_lower_bound, sample_size_needed, sample_size_order
from dpcore.inference._lipschitz import least_sample_size
from dpcore.inference.record_bounds import divergence, moved_signs
from dpcore.reproduce.best_tests import least_records
from dpcore.reproduce.draws import normals, signs
from dpcore.reproduce.estimates import Mean, compared, mean_of
from dpcore.reproduce.lines import computed, measured
from dpcore.reproduce.registry import Study
from dpcore.reproduce.results import Check, Figure, Panel, Section
from dpcore.reproduce.setting import Setting
from dpcore.rng import Stream

TITLES = (
    "Private inference (chapter 9), Theorem 9.3.2, order: the records that the test by Lipschitz extension needs",
    "Private inference (chapter 9), Theorem 9.3.3: no private test needs fewer records",
)
DELTA = 1e-9

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Case:
    """Coordinates, separation, and privacy loss."""

    d: int = 2**12
    alpha: float = 0.25
    epsilon: float = 0.01

    @property
    def order(self) -> float:
        """√d/α² + d^⅓/(α^(4/3)ε^⅔) + 1/(αε)."""
        return sample_size_order(self.epsilon, d=self.d, alpha=self.alpha, method="optimal")

    @property
    def proved(self) -> int:
        """Records that every ε-private test needs."""
        return sample_size_lower_bound(self.epsilon, 0.0, d=self.d, alpha=self.alpha)

    @property
    def extension(self) -> int:
        """Records that the test by Lipschitz extension needs on data in every C(Δ)."""
        return least_sample_size(self.d, self.alpha, self.epsilon)

    @property
    def efficient(self) -> int:
        """Records that the efficient test needs."""
        return sample_size_needed(self.epsilon, DELTA, d=self.d, alpha=self.alpha)


def sections(setting: Setting) -> Iterator[Section]:
    """Measure all sections."""
    yield _order(setting)
    yield _below(setting)


def _sweeps(setting: Setting) -> dict[str, tuple[Sequence[float], list[Case]]]:
    base, some = Case(), setting.sized(1, 2)
    values: dict[str, tuple[Sequence[float], Callable[[float], Case]]] = {
        "d": ([4.0**i for i in range(3, 12)][::some], lambda v: replace(base, d=int(v))),
        "α": ([2.0**-i for i in range(7)][::some], lambda v: replace(base, alpha=v)),
        "ε": ([4.0**-i for i in range(9)][::some], lambda v: replace(base, epsilon=v)),
    }
    return {name: (x, [make(v) for v in x]) for name, (x, make) in values.items()}


LABELS = {"d": "coordinates d", "α": "separation α", "ε": "ε"}
BASE = f"d = {Case().d:,}, α = {Case().alpha:g}, ε = {Case().epsilon:g} where they do not vary."


MIDDLE, TINY = Case(2**12, 2.0**-8, 0.5), Case(2**8, 0.25, 4.0**-8)
"""Cases in which the second and the third term determine the number, with the constants of the algorithm."""


def _terms(case: Case) -> tuple[float, float, float]:
    """√d/α², d^⅓/(α^(4/3)ε^⅔) and 1/(αε)."""
    root = math.sqrt(case.d) / case.alpha**2
    return root, (root / case.epsilon) ** (2 / 3), 1 / (case.alpha * case.epsilon)


def _order(setting: Setting) -> Section:
    some = setting.sized(1, 2)
    sweeps: list[tuple[str, str, int, Sequence[float], list[Case]]] = [
        ("d", LABELS["d"], 1, x, [replace(MIDDLE, d=int(v)) for v in x]) for x in [[4.0**i for i in range(3, 10)][::some]]
    ]
    sweeps += [("α", LABELS["α"], 1, x, [replace(MIDDLE, alpha=v) for v in x]) for x in [[2.0**-i for i in range(5, 12)][::some]]]
    sweeps += [("ε", LABELS["ε"], 1, x, [replace(MIDDLE, epsilon=v) for v in x]) for x in [[2.0**-i for i in range(5)][::some]]]
    sweeps += [("tiny ε", "tiny ε", 2, x, [replace(TINY, epsilon=v) for v in x]) for x in [[4.0**-i for i in range(5, 12)][::some]]]
    panels, slopes, below = [], [], True
    for variable, label, term, x, cases in sweeps:
        needed, order = [case.extension for case in cases], [_terms(case)[term] for case in cases]
        scale = needed[len(needed) // 2] / order[len(order) // 2]
        series = (
            computed("test by Lipschitz extension", x, needed, "measured"),
            computed("its term of the order, moved to a point", x, [scale * each for each in order]),
            computed("efficient test", x, [case.efficient for case in cases], "second"),
            computed("no private test needs fewer", x, [case.proved for case in cases], "second theory"),
        )
        panels.append(Panel(label, "records n", series))
        slopes.append(compared("records of the extension", variable, x, [Mean(n, 0.0) for n in needed], order))
        below = below and all(case.proved <= min(case.extension, case.efficient) for case in cases)
    off = max(abs(slope.measured - slope.theory) for slope in slopes)
    few = Case(d=2**30, alpha=0.25, epsilon=1e-6)
    return Section(
        TITLES[0],
        "The test by Lipschitz extension needs Õ(√d/α² + d^⅓/(α^(4/3)ε^⅔) + 1/(αε)) records, fewer than the efficient one of "
        "Theorem 9.3.4.",
        "The number of records at which the comparisons of Algorithm 9.3.2, with the constants of the chapter, err with probability at "
        f"most ⅓ on data that lie in every C(Δ). d = {MIDDLE.d:,}, α = 1/256, ε = ½ where they do not vary, and d = {TINY.d}, α = ¼ for "
        f"tiny ε. δ = {DELTA:g} for the efficient test.",
        (Figure("Records that the tests need, a term of the order, and what no private test is below.", tuple(panels)),),
        tuple(slopes),
        (
            Check("no test needs fewer than the lower bound", f"{len(panels)} sweeps", "all", below, "identity"),
            Check("slopes agree with the term of the order up to its logarithms", f"at most {off:.2f} off", "0.3", off <= 0.3),
            Check(
                "for a tiny ε and many coordinates, the extension needs fewer than the efficient test",
                f"{few.extension / few.efficient:.3f} times as many", "1", few.extension < few.efficient, "identity",
            ),
        ),
        "Õ hides powers of ln n: the noise has the scale 4Δ/ε', with ε' = ε/ln n and a Δ with a factor ln n of its own, and the smallest Δ "
        "of the chapter is 1000 times its order. So each term is in the number with its own constant, the last two with some thousands, "
        "and the slopes are compared where one of them determines it. The test takes exponential time in any case.",
    )  # fmt: skip


# Theorem 9.3.3


def _below(setting: Setting) -> Section:
    panels, slopes, ratios = [], [], []
    for variable, (x, cases) in _sweeps(setting).items():
        proved, order = [case.proved for case in cases], [case.order for case in cases]
        normal = [sample_size_lower_bound(case.epsilon, 0.0, d=case.d, alpha=case.alpha, model="normal") for case in cases]
        series = (
            computed("proved, signs", x, proved, "measured"),
            computed("proved, normal records", x, normal, "second"),
            computed("√d/α² + d^⅓/(α^(4/3)ε^⅔) + 1/(αε)", x, order),
        )
        panels.append(Panel(LABELS[variable], "records n", series))
        slopes.append(compared("lower bound", variable, x, [Mean(n, 0.0) for n in proved], order))
        ratios += [each / bound for bounds in (proved, normal) for each, bound in zip(order, bounds, strict=True)]
    chapter = [case.order / sample_size_lower_bound(0.0, case.epsilon, d=case.d, alpha=case.alpha)
               for _, cases in _sweeps(setting).values() for case in cases if case.epsilon < 1]  # fmt: skip
    (best, factors), (coupled, points) = _best_panel(setting), _coupled_panel(setting)
    excess = max((mean.value - 5 * mean.stderr) / bound for mean, bound in points)
    return Section(
        TITLES[1],
        "Every (0, ε)-private test that separates the hypotheses needs Ω(√d/α² + d^⅓/(α^(4/3)ε^⅔) + 1/(αε)) records.",
        f"sample_size_lower_bound for ε-private tests. {BASE} For one coordinate and α = {ONE:g}, a linear program finds the best test of "
        "all, which depends on the number of +1 only. Last plot: the expected number of records in which a coupling of uniform records "
        f"with those of random means differs, measured, and its bound, for d = {COUPLED} and α = 1.",
        (
            Figure("Records that every private test needs.", tuple(panels)),
            Figure("Records that the best private test of one coordinate needs, exactly, and the bound.", (best,)),
            Figure("Records in which coupled samples differ.", (coupled,)),
        ),
        tuple(slopes),
        (
            Check("ε-private tests: order ÷ bound", f"{min(ratios):.2f} to {max(ratios):.2f}", "below 2.5", max(ratios) < 2.5, "identity"),
            Check(
                "(0, ε)-private tests, as in the chapter: order ÷ bound",
                f"{min(chapter):.2f} to {max(chapter):.2f}",
                "below 4",
                max(chapter) < 4,
                "identity",
            ),
            Check(
                "one coordinate: the best test needs at least as many as the bound, of either kind of privacy",
                f"{min(factors):.2f} to {max(factors):.2f} times as many",
                "1 or more, below 4",
                1 <= min(factors) <= max(factors) < 4,
                "identity",
            ),
            Check("coupled samples differ in no more records than the bound", f"at most {excess:.2f} of it", "1", excess <= 1),
        ),
        "The chapter proves this with the coupling of the source, and without constants. Here each constant is between ½ and 2: the "
        "printed order is close to the truth as it stands.",
    )


ONE = 0.5
"""Separation where the best test is found."""


def _best_panel(setting: Setting) -> tuple[Panel, list[float]]:
    """The least records of the best test of one sign, of pure ε and of (0, ε), beside the bounds; and the quotients."""
    levels, series, factors = setting.sized((0.03, 0.1, 0.3, 0.9), (0.03, 0.3)), [], []
    # At the largest pure ε the data decide; δ is below 1.
    kinds = (
        ("ε", (*levels, 5.0), lambda level: (level, 0.0), "measured", "theory"),
        ("(0, ε)", levels, lambda level: (0.0, level), "second", "second theory"),
    )
    for name, x, budget, role, line in kinds:
        best = [least_records(ONE, *budget(level)) for level in x]
        bounds = [sample_size_lower_bound(*budget(level), d=1, alpha=ONE) for level in x]
        series += [
            computed(f"best test, {name}-private", x, best, role),  # type: ignore[arg-type]
            computed(f"bound, {name}-private", x, bounds, line),  # type: ignore[arg-type]
        ]
        factors += [n / bound for n, bound in zip(best, bounds, strict=True)]
    return Panel("ε", "records n", tuple(series)), factors


COUPLED = 64


def _coupled_panel(setting: Setting) -> tuple[Panel, list[tuple[Mean, float]]]:
    """A coupling by blocks of signs: each record of the mixture is kept with the largest probability, given those before it."""
    sizes = setting.sized((4, 8, 16, 32, 64, 128), (4, 16, 64))
    b, runs = 1 / math.sqrt(COUPLED), setting.sized(400, 100)
    found = [_differences(max(sizes), b, setting.stream("coupled", run)) for run in range(runs)]
    means = [mean_of([float(each[:n].sum()) for each in found]) for n in sizes]
    bounds = [moved_signs(n, COUPLED, b) for n in sizes]
    one = [n * moved_signs(1, COUPLED, b) for n in sizes]
    limit = [0.5 * math.sqrt(math.expm1(divergence(n, COUPLED, b, "signs"))) for n in sizes]
    series = (
        measured("measured", sizes, means),
        computed("bound", sizes, bounds),
        computed("bound with one mean, ατ", sizes, one, "second theory"),
        computed("½√χ², for comparison", sizes, limit, "third"),
    )
    return Panel("records n", "records that differ", series, limits=(0.2, 500.0)), list(zip(means, bounds, strict=True))


def _differences(n: int, b: float, stream: Stream) -> Array:
    """For each record j, an estimate of the total variation between its law given those before it and the uniform law.

    ½ E|L − 1| under the uniform law, L the likelihood ratio of a record with the predicted means.
    """
    means, totals, out = signs((COUPLED,), 0.0, stream) * b, np.zeros(COUPLED), np.empty(n)
    thresholds = (1 + means) / 2
    uniform = signs((32, COUPLED), 0.0, stream)
    for j in range(n):
        predicted = b * np.tanh(totals * math.atanh(b))
        out[j] = 0.5 * float(np.abs(np.prod(1 + predicted * uniform, axis=1) - 1).mean())
        record = np.where(_uniform(COUPLED, stream) < thresholds, 1.0, -1.0)
        totals += record
    return out


def _uniform(size: int, stream: Stream) -> Array:
    from scipy import special

    numbers: Array = special.ndtr(normals((size,), 0.0, stream))
    return numbers


STUDY = Study("sample-sizes", "How many records private tests need: orders, and proved lower bounds.", TITLES, sections)
