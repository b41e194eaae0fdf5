"""Steinberger (2019), Korollar 3.4 and 3.14: how close a lower bound for all private methods and a proved risk come."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from dpcore.minimax import contraction_bound, dp_level, kl, tv
from dpcore.reproduce.meeting_bounds import EPSILONS, PROBLEMS, SIZES, Meeting, meeting
from dpcore.reproduce.regions import random_experiment
from dpcore.reproduce.registry import Study
from dpcore.reproduce.results import Check, Figure, Panel, Section, Series, Table, floats
from dpcore.reproduce.setting import Setting

TITLES = (
    "Steinberger (2019), Korollar 3.4, certified: bounds that no private method goes below, beside the best linear estimator",
    "Steinberger (2019), Satz 2.9, sharpened: what a private channel leaves of a divergence",
)
GOAL = 4.5
"""The factor between the two bounds that must not be exceeded."""
CLOSE = 2.0**-20
"""Total variation of two close distributions."""
SLACK = 1e-6
"""Rounding of differences of this size, relatively."""
Grid = dict[tuple[str, float, int], Meeting]


def sections(setting: Setting) -> Iterator[Section]:
    """Compute both sections."""
    yield _meetings(setting)
    yield _contraction(setting)


def _meetings(setting: Setting) -> Section:
    epsilons, sizes = setting.sized(EPSILONS, (1.0, 3.0)), setting.sized((SIZES[0], SIZES[-1]), (SIZES[0],))
    names = setting.sized(tuple(PROBLEMS), ("moment-2", "event"))
    found = {(name, epsilon, n): meeting(name, epsilon, n) for name in names for epsilon in epsilons for n in sizes}
    largest = max(each.ratio for each in found.values())
    return Section(
        TITLES[0],
        "No ε-private method, sequentially interactive or not, has a smaller worst-case risk than the lower bound; some method comes "
        "within a constant factor of it.",
        "The lower bound is the largest of two-point bounds with a sharp contraction and van Trees' inequality. The upper one is the "
        "proved risk of the best linear estimator over all private channels with up to 41 outcomes. For moments it holds for all "
        "distributions on the real line, for densities on the grid.",
        tuple(_figure(name, epsilons, sizes, found) for name in names),
        tables=(_table(found),),
        checks=(
            Check("both bounds are in order", "in all cases", "lower ≤ upper", all(m.lower <= m.upper for m in found.values()), "identity"),
            Check("upper bound ÷ lower bound", f"at most {largest:.2f}", f"≤ {GOAL}", largest <= GOAL, "identity"),
        ),
        remark="The document's own bounds are further apart by a factor of 10⁴ and more: they are for the rate, not for the constant.",
    )


def _table(found: Grid) -> Table:
    return Table(
        "Lower bound and proved risk of the mean square error, and their quotient",
        ("problem", "ε", "n", "lower bound", "proved risk", "quotient", "outcomes"),
        tuple(
            (
                PROBLEMS[name].name,
                f"{epsilon:g}",
                f"{n:,}",
                f"{each.lower:.3g}",
                f"{each.upper:.3g}",
                f"{each.ratio:.2f}",
                f"{each.outcomes}",
            )
            for (name, epsilon, n), each in found.items()
        ),
    )


def cells(found: Meeting) -> tuple[str, str, str, str]:
    """Return the cells of a row: lower bound, proved risk, quotient, number of outcomes."""
    return f"{found.lower:.3g}", f"{found.upper:.3g}", f"{found.ratio:.2f}", f"{found.outcomes}"


def _figure(name: str, epsilons: Sequence[float], sizes: Sequence[int], found: Grid) -> Figure:
    def panel(n: int) -> Panel:
        x = floats(epsilons)
        return Panel(
            "ε",
            "mean square error",
            (
                Series("proved risk", x, floats(found[name, epsilon, n].upper for epsilon in epsilons), None, "measured"),
                Series("lower bound", x, floats(found[name, epsilon, n].lower for epsilon in epsilons), None, "theory"),
            ),
            title=f"n = {n:,}",
        )

    return Figure(f"Both bounds for the {PROBLEMS[name].name}", tuple(panel(n) for n in sizes))


def _shares(epsilon: float) -> tuple[float, float]:
    """χ² and the sum of both divergences of the reports of two close distributions, ÷ tv²: of the channel that keeps the most of it."""
    # Three inputs, of which two are rare: the third has outcome 3 mostly, or up to e^ε = 2 is like the second one.
    level = math.exp(epsilon)
    channel = (
        (np.ones((3, 3)) + (level - 1) * np.eye(3)) / (level + 2)
        if level >= 2
        else np.array([[level, 1], [1, level], [1, level]]) / (level + 1)
    )
    p, q = np.array([CLOSE, 0.0, 1 - CLOSE]) @ channel, np.array([0.0, CLOSE, 1 - CLOSE]) @ channel
    return float(((p - q) ** 2 / q).sum()) / CLOSE**2, float((kl(p, q) + kl(q, p)) / CLOSE**2)


def _contraction(setting: Setting) -> Section:
    epsilons = tuple(k / 4 for k in range(1, 21))
    ours, his = (floats(contraction_bound(e, 1.0, method=method) for e in epsilons) for method in ("chi2", "steinberger"))
    found = [_shares(epsilon) for epsilon in epsilons]
    kept, divergences = (floats(column) for column in zip(*found, strict=True))
    above = max(each / bound for columns in (kept, divergences) for each, bound in zip(columns, ours, strict=True))
    sharp = min(each / bound for columns in (kept, divergences) for each, bound in zip(columns, ours, strict=True))
    familiar = max(each / (math.expm1(epsilon) ** 2 / math.exp(epsilon)) for each, epsilon in zip(kept, epsilons, strict=True))
    random = _largest_share(setting)
    ratio = max(b / a for a, b in zip(ours, his, strict=True))
    smaller = all(a <= b for a, b in zip(ours, his, strict=True))
    lines = (
        Series("c of Satz 2.9", epsilons, his, None, "theory"),
        Series("sharp c", epsilons, ours, None, "second theory"),
        Series("χ² ÷ tv² of a channel", epsilons, kept, None, "measured", "points"),
    )
    return Section(
        TITLES[1],
        "For every ε-private channel, the two divergences D of its reports about p and q add up to at most c·tv(p, q)², with "
        "c = min(4, e^(2ε))(e^ε − 1)².",
        "The same holds with c = (e^ε − 1)²·max(e^(−ε), 2/(e^ε + 2)), which also bounds χ²; the proof is by two linear programs, whose "
        "dual solutions are checked in rationals for each ε. Points: two distributions with tv = 2^−20 behind a binary response up to "
        "e^ε = 2, and behind a 3-ary response from there on.",
        (Figure("The constant c, and what is left of χ² behind one channel.", (Panel("ε", "÷ tv²", lines, "y"),)),),
        checks=(
            Check("χ² and both divergences are at most c·tv²", f"{above:.6f} of it or less", "1", above <= 1 + SLACK, "identity"),
            Check("and no smaller c would do", f"{sharp:.4f} of it or more", "0.99", sharp >= 0.99, "identity"),
            Check(
                "the familiar (e^ε − 1)²/e^ε is too small from ε = ln 2 on", f"exceeded {familiar:.3f} times", "more than once",
                familiar > 1.5, "identity",
            ),
            Check("random private channels and distributions obey it", f"{random:.4f} of it or less", "1", random <= 1, "identity"),
            Check("it is smaller than that of Satz 2.9", f"by up to {ratio:.0f} times", "≥ 1 everywhere", smaller, "identity"),
        ),
    )  # fmt: skip


def _largest_share(setting: Setting) -> float:
    """The largest χ² or sum of divergences ÷ c·tv² of random channels, at their own ε, and random pairs of distributions."""
    stream, largest = setting.stream("limits", "contraction"), 0.0
    for _ in range(setting.sized(400, 100)):
        channel = random_experiment(stream, 4, 4, 1.0).matrix
        p, q = random_experiment(stream, 2, 4, 1.0).matrix
        bound = float(contraction_bound(dp_level(channel), float(tv(p, q))))
        reports, others = p @ channel, q @ channel
        both = float(kl(reports, others) + kl(others, reports))
        largest = max(largest, both / bound, float(((reports - others) ** 2 / others).sum()) / bound)
    return largest


STUDY = Study(
    "limits",
    "Lower bounds for all private methods beside proved risks, within a small factor of each other.",
    TITLES,
    sections,
    ("minimax", "clarabel"),
)
