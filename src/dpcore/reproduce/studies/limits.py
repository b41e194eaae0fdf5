"""Steinberger (2019), Korollar 3.4 and 3.14: how close a lower bound for all private methods and a proved risk come."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dpcore.minimax import contraction_bound
from dpcore.reproduce.meeting_bounds import EPSILONS, PROBLEMS, SIZES, Meeting, meeting
from dpcore.reproduce.registry import Study
from dpcore.reproduce.results import Check, Figure, Panel, Section, Series, Table, floats
from dpcore.reproduce.setting import Setting

TITLES = (
    "Steinberger (2019), Korollar 3.4, certified: bounds that no private method goes below, beside the best linear estimator",
    "Steinberger (2019), Satz 2.9, sharpened: what a private channel leaves of a divergence",
)
GOAL = 4.5
"""The factor between the two bounds that must not be exceeded."""
Grid = dict[tuple[str, float, int], Meeting]


def sections(setting: Setting) -> Iterator[Section]:
    """Compute both sections."""
    yield _meetings(setting)
    yield _contraction()


def _meetings(setting: Setting) -> Section:
    epsilons, sizes = setting.sized(EPSILONS, (1.0, 3.0)), setting.sized(SIZES, (10**4,))
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


def _contraction() -> Section:
    epsilons = tuple(k / 20 for k in range(1, 101))
    ours, his = (floats(contraction_bound(e, 1.0, method=method) for e in epsilons) for method in ("chi2", "steinberger"))
    ratio = max(b / a for a, b in zip(ours, his, strict=True))
    smaller = all(a <= b for a, b in zip(ours, his, strict=True))
    lines = Series("of Satz 2.9", epsilons, his, None, "theory"), Series("by χ²", epsilons, ours, None, "measured")
    return Section(
        TITLES[1],
        "For every ε-private channel, the two divergences D of its reports about p and q add up to at most c·tv(p, q)², with "
        "c = min(4, e^{2ε})(e^ε − 1)².",
        "The same holds with c = (e^ε − 1)²·max(e^{−ε}, 2/(e^ε + 2)), which also bounds χ²; the proof is by two linear programs, whose "
        "dual solutions are checked in rationals for each ε.",
        (Figure("The constant c", (Panel("ε", "c", lines),)),),
        checks=(Check("the sharper constant is smaller", f"by up to {ratio:.0f} times", "≥ 1 everywhere", smaller, "identity"),),
    )


STUDY = Study(
    "limits",
    "Lower bounds for all private methods beside proved risks, within a small factor of each other.",
    TITLES,
    sections,
    ("minimax", "clarabel"),
)
