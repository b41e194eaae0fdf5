"""Draw the floors of `docs/architecture.md` from the import contracts in `pyproject.toml`: `python docs/floors.py`; a test compares.

Each contract of layers becomes a picture in `images/`: a row for each floor, a box for each module on it. A module may import what is
below it.
"""

from __future__ import annotations

import html
import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from pictures import COLOURS, FONT  # noqa: E402 - beside this file, also for a program that runs this one

sys.path.remove(str(HERE))

PICTURES = {"layers": "floors.svg", "query": "floors-engine.svg"}
"""The file of each contract, by its id."""
WIDTH, MARGIN, HEIGHT, GAP, BETWEEN = 720, 12, 30, 6, 8
"""Of a picture, its frame, a box, and between boxes and between floors, in pixels."""
DIGIT = 8.2
"""Width of a character, in pixels, at most."""


def floors(contract: str) -> list[list[str]]:
    """The modules of a contract, from the top floor down."""
    text = (HERE.parent / "pyproject.toml").read_text(encoding="utf-8")
    found = {each["id"]: each for each in tomllib.loads(text)["tool"]["importlinter"]["contracts"]}[contract]
    return [[name.strip(" ()") for name in floor.replace("|", ":").split(":")] for floor in found["layers"]]


def rows(names: list[str]) -> list[list[tuple[str, float]]]:
    """The boxes of a floor with their widths, in as many lines as they need."""
    lines: list[list[tuple[str, float]]] = [[]]
    for name in names:
        width = len(name) * DIGIT + 20
        if sum(each + GAP for _, each in lines[-1]) + width > WIDTH - 2 * MARGIN:
            lines.append([])
        lines[-1].append((name, width))
    return lines


def picture(contract: str) -> str:
    """A contract as an SVG file, in colours that follow the reader's."""
    parts, y = [], MARGIN
    for names in floors(contract):
        top = y
        for line in rows(names):
            x = MARGIN + GAP
            for name, width in line:
                parts.append(f'<rect class="box" x="{x:.1f}" y="{y + GAP / 2:g}" width="{width:.1f}" height="{HEIGHT - GAP}" rx="4"/>')
                parts.append(f'<text x="{x + width / 2:.1f}" y="{y + HEIGHT / 2 + 5:g}">{html.escape(name)}</text>')
                x += width + GAP
            y += HEIGHT
        parts.append(f'<path class="floor" d="M {MARGIN} {y + BETWEEN / 2:g} H {WIDTH - MARGIN}"/>' if y > top else "")
        y += BETWEEN
    light, dark = (
        "; ".join(f"--{name}: {(own, other)[is_dark]}" for own, (name, other) in COLOURS.items() if name in ("ink", "grid", "soft", "card"))
        for is_dark in (False, True)
    )
    style = (
        f"svg {{ {light} }} @media (prefers-color-scheme: dark) {{ svg {{ {dark} }} }} "
        f"text {{ font: 14px {FONT}; text-anchor: middle; fill: var(--ink) }} .box {{ fill: var(--soft) }} .floor {{ stroke: var(--grid) }}"
    )
    frame = f'<rect width="{WIDTH}" height="{y + MARGIN}" style="fill: var(--card)"/>'
    body = "\n ".join([f"<style>{style}</style>", frame, *filter(None, parts)])
    size = f'viewBox="0 0 {WIDTH} {y + MARGIN}" width="{WIDTH}" height="{y + MARGIN}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>\n {body}\n</svg>\n'


def main() -> int:
    """Draw all of them anew."""
    for contract, name in PICTURES.items():
        (HERE / "images" / name).write_text(picture(contract), encoding="utf-8")
        sys.stdout.write(f"{name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
