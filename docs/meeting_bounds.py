"""Compute the table and the picture of `minimax.md`: `python docs/meeting_bounds.py`; a test computes rows again and compares."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from dpcore.reproduce.meeting_bounds import EPSILONS, PROBLEMS, SIZES, Meeting, meeting

HERE = Path(__file__).resolve().parent
PAGE = HERE / "minimax.md"
TABLE = re.compile(r"(?<=<!-- meeting bounds: begin -->\n).*?(?=<!-- meeting bounds: end -->)", re.DOTALL)
HEAD = "| problem | ε | n | lower bound | proved risk | quotient |\n|---|---|---|---|---|---|\n"
Found = dict[tuple[str, float, int], Meeting]


def line(name: str, epsilon: float, n: int, found: Meeting) -> str:
    """One row of the table."""
    power = f"10{str(len(str(n)) - 1).translate(str.maketrans('0123456789', '⁰¹²³⁴⁵⁶⁷⁸⁹'))}"
    return f"| {PROBLEMS[name].name} | {epsilon:g} | {power} | {found.lower:.3g} | {found.upper:.3g} | {found.ratio:.2f} |\n".replace(
        "|x|³", "\\|x\\|³"
    )


def computed() -> Iterator[tuple[tuple[str, float, int], Meeting]]:
    """All rows, one after the other."""
    for name in PROBLEMS:
        for epsilon in EPSILONS:
            for n in SIZES:
                yield (name, epsilon, n), meeting(name, epsilon, n)


def picture(found: Found) -> str:
    """Both bounds for the mean under E x² ≤ 1, against ε and against n, as SVG."""
    from matplotlib.figure import Figure

    sys.path.insert(0, str(HERE))
    from pictures import for_page

    sys.path.remove(str(HERE))
    import io

    figure = Figure(figsize=(7.2, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for n, width in zip(SIZES, (0.9, 1.5, 2.1), strict=True):
        both(left, EPSILONS, [found["moment-2", epsilon, n] for epsilon in EPSILONS], width)
        left.annotate(
            f"n = {n:,}",
            (EPSILONS[-1], found["moment-2", EPSILONS[-1], n].upper),
            (-4, 6),
            textcoords="offset points",
            ha="right",
            fontsize=8,
        )
    for epsilon, width in zip(EPSILONS, (0.6, 0.9, 1.2, 1.6, 2.1), strict=True):
        both(right, SIZES, [found["moment-2", epsilon, n] for n in SIZES], width)
        right.annotate(
            f"ε = {epsilon:g}", (SIZES[-1], found["moment-2", epsilon, SIZES[-1]].upper), (4, -2), textcoords="offset points", fontsize=8
        )
    left.set(xscale="log", yscale="log", xlabel="ε", ylabel="mean square error")
    right.set(xscale="log", xlabel="n")
    right.set_xlim(SIZES[0] / 1.5, SIZES[-1] * 8)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    file = io.StringIO()
    figure.savefig(file, format="svg")
    return for_page(file.getvalue())


def both(axes: object, x: object, found: list[Meeting], width: float) -> None:
    """The proved risk as a line, the lower bound below it in another colour, and what lies between them."""
    upper, lower = [each.upper for each in found], [each.lower for each in found]
    axes.fill_between(x, lower, upper, color="#bcd3f2", linewidth=0)  # type: ignore[attr-defined]
    axes.plot(x, upper, color="#1f5fb8", linewidth=width)  # type: ignore[attr-defined]
    axes.plot(x, lower, color="#a3241c", linewidth=width)  # type: ignore[attr-defined]


def main() -> int:
    """Compute everything, and write the table and the picture."""
    found: Found = {}
    for key, each in computed():
        found[key] = each
        sys.stdout.write(line(*key, each))
        sys.stdout.flush()
    rows = HEAD + "".join(line(*key, each) for key, each in found.items())
    PAGE.write_text(TABLE.sub(lambda _: f"\n{rows}\n", PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    (HERE / "images" / "meeting-bounds.svg").write_text(picture(found), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
