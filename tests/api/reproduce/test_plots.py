"""Plots of studies: where they put panels and numbers, and what they leave out."""

from __future__ import annotations

import re

import pytest

from dpcore.reproduce import Figure, Panel, Series

pytest.importorskip("matplotlib")

from dpcore.reproduce.plots import figure_plot, short_number, with_scripts


def texts(svg: str) -> list[str]:
    """What is written in the drawing for wide screens, without its scripts' marks."""
    return [re.sub(r"<[^>]*>", "", text) for text in re.findall(r"<text[^>]*>(.*?)</text>", svg.split("</svg>", maxsplit=1)[0])]


def panel(*names: str, x: tuple[float, ...] = (1.0, 10.0), y: tuple[float, ...] = (1.0, 2.0), log: str = "xy", label: str = "y") -> Panel:
    return Panel("n", label, tuple(Series(name, x, y, tuple(0.1 for _ in y)) for name in names), log)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("<text>ω_TV</text>", '<text>ω<tspan dy=".3em" font-size="72%">TV</tspan></text>'),
        ("<text>sparse_mean</text>", "<text>sparse_mean</text>"),
        ("<text>√(2 ln d/n) &lt; 1</text>", "<text>√(2 ln d/n) &lt; 1</text>"),
        ("<title>a^b</title>", "<title>a^b</title>"),
    ],
)
def test_scripts_of_a_drawing(written, shown):
    assert with_scripts(written) == shown


def test_the_line_is_the_same_after_every_script():
    found = with_scripts("<text>d^⅓/(α^(4/3)ε_n) + 1</text>")
    size, place = 1.0, 0.0
    for dy, script, _ in re.findall(r'<tspan dy="(-?[.\d]+)em"( font-size="72%")?>([^<]*)', found):
        size = 0.72 if script else 1.0
        place += float(dy) * size
    assert place == pytest.approx(0.0, abs=0.01)


def test_panels_with_a_legend_each_stand_two_beside_each_other():
    heights = []
    for names in ("ab", "abc"):
        svg = figure_plot(Figure("c", tuple(panel(name, label=name) for name in names)))
        heights.append(float(re.search(r'viewBox="0 0 [\d.]+ ([\d.]+)"', svg)[1]))  # type: ignore[index]
    assert heights[1] == 2 * heights[0]


def test_numbers_below_a_panel_leave_room_between_them():
    tiny = tuple(4.0**-i for i in range(11, 4, -1))
    svg = figure_plot(Figure("c", tuple(panel("a", x=tiny, y=tuple(1.0 for _ in tiny)) for _ in range(4))))
    shown = [text for text in texts(svg) if text in {re.sub("[⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+", _plain, short_number(x)) for x in tiny}]
    assert 4 <= len(shown) <= 8


def _plain(found: re.Match[str]) -> str:
    return found[0].translate(str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789−"))


def test_a_share_of_none_has_no_place_on_a_logarithmic_axis():
    with_zero, without = (
        figure_plot(Figure("c", (panel("a", x=(1.0, 2.0, 4.0), y=y, log="y"),))) for y in ((1.0, 0.5, 0.0), (1.0, 0.5)) if y
    )
    assert with_zero.count("<use") == without.count("<use") > 0


def test_a_line_through_many_points_has_no_markers():
    def uses(count: int) -> int:
        x = tuple(float(i + 1) for i in range(count))
        return figure_plot(Figure("c", (Panel("x", "y", (Series("a", x, x),), ""),))).count("<use")

    assert uses(101) < uses(10)
