"""Run the programs of a page and keep the pictures they draw: `python docs/pictures.py` draws all pictures of these pages anew.

The ```python blocks of a page are one program. The ```text block after a program shows what it prints. If noise is part of that, its first
line is `one run:` and only the words are compared, since the numbers differ from run to run. Each SVG file that the program writes is in
`images/`, under the same name. The tests run every page and compare.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).resolve().parent
BLOCK = re.compile(r"^```python\n(?P<program>.*?)^```$(?:\n\n```text\n(?P<shown>.*?)^```$)?", re.MULTILINE | re.DOTALL)
VERSION = re.compile(r"Matplotlib v\d+\.\d+")
ONE_RUN = "one run:\n"
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")
# The light colours of the pages that `dpcore estimate --report` writes, what they are called there, and what they are in the dark.
COLOURS = {
    "#1a2029": ("ink", "#e6eaf0"),
    "#5c6675": ("muted", "#97a3b4"),
    "#e8ebf0": ("grid", "#242c36"),
    "#1f5fb8": ("accent", "#7fb2f7"),
    "#bcd3f2": ("soft", "#2c4a73"),
    "#a3241c": ("alarm", "#ff9c94"),
    "#ffffff": ("card", "#181e26"),
}
# What `plot_trace` draws with.
SAME = {"#22262a": "#1a2029", "#2a6f97": "#1f5fb8", "#c9ced3": "#e8ebf0"}
FONT = "system-ui, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"


@dataclass(frozen=True)
class Program:
    """One block of a page.

    Attributes
    ----------
    line : int
        Lines of the page above it.
    text : str
        The block.
    shown : str or None
        What the page says that it prints.
    """

    line: int
    text: str
    shown: str | None


def programs(page: Path) -> list[Program]:
    """All ```python blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    return [Program(text.count("\n", 0, found.start("program")), found["program"], found["shown"]) for found in BLOCK.finditer(text)]


def run(page: Path) -> list[tuple[Program, str]]:
    """Run a page in the current folder; gives what each block printed."""
    names: dict[str, object] = {}
    printed = []
    with own_settings():
        for program in programs(page):
            with contextlib.redirect_stdout(io.StringIO()) as output:
                exec(compile("\n" * program.line + program.text, str(page), "exec"), names)  # noqa: S102  the page's own code
            printed.append((program, output.getvalue()))
    return printed


@contextlib.contextmanager
def own_settings() -> Iterator[None]:
    """Settings of matplotlib are those of the process: what a page sets does not outlive it."""
    try:
        from matplotlib import rc_context
    except ImportError:
        yield
        return
    with rc_context():
        yield


def words_of(text: str) -> list[str]:
    """What two runs have in common: the words, and where numbers stand."""
    text = re.sub(r"-?\d[\d,]*(?:\.\d*)?(?:e[-+]?\d+)?", "0", text)
    return re.sub(r"\[ +| +(?=\])", lambda found: found[0].strip(), text).split()  # NumPy pads within brackets


def prints(shown: str, printed: str) -> bool:
    """Whether a program printed what its page shows; of one run with noise, the same but for the numbers."""
    if shown.startswith(ONE_RUN):
        return words_of(shown.removeprefix(ONE_RUN)) == words_of(printed)
    return doctest.OutputChecker().check_output(shown, printed, doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)


def for_page(svg: str) -> str:
    """A picture of matplotlib's with colours that follow the reader's: light or dark."""
    made_by = VERSION.search(svg)
    svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->|<!DOCTYPE.*?>", "", svg, flags=re.DOTALL)
    for colour, name in SAME.items():
        svg = svg.replace(colour, name)
    for colour, (name, _) in COLOURS.items():
        svg = svg.replace(colour, f"var(--{name})")
    svg = re.sub(r"(font(?:-family)?: (?:[\d.]+px )?)'DejaVu Sans'[^;\"]*", rf"\1{FONT}", svg)
    light = "; ".join(f"--{name}: {colour}" for colour, (name, _) in COLOURS.items())
    dark = "; ".join(f"--{name}: {colour}" for name, colour in COLOURS.values())
    style = f"<style>svg {{ {light} }} @media (prefers-color-scheme: dark) {{ svg {{ {dark} }} }}</style>"
    comment = f"<!-- {made_by[0]} -->" if made_by else ""
    svg = re.sub(r"(<svg[^>]*>)", rf"\1\n{comment}\n {style}", svg, count=1)
    return "\n".join(line.rstrip() for line in svg.splitlines() if line.strip()) + "\n"


def drawn(folder: Path) -> dict[str, str]:
    """The pictures that a page left in a folder, by name."""
    return {file.name: for_page(file.read_text(encoding="utf-8")) for file in sorted(folder.glob("*.svg"))}


def alike(first: str, second: str, tolerance: float = 0.75) -> bool:
    """Whether two pictures are the same but for coordinates that differ by less than a point, and the names that these give to parts.

    Of pictures by different versions of matplotlib only the words are compared.
    """
    pair = [re.sub(r'id="[^"]*"|url\(#[^)]*\)|href="#[^"]*"', "", svg) for svg in (first, second)]
    if VERSION.findall(first) != VERSION.findall(second):
        pair = [" ".join(sorted(re.findall(r">([^<>]*)</(?:text|tspan)>", svg))) for svg in pair]
    words = [NUMBER.sub("0", svg).split() for svg in pair]
    numbers = [[float(number) for number in NUMBER.findall(svg)] for svg in pair]
    return words[0] == words[1] and all(abs(a - b) <= tolerance for a, b in zip(*numbers, strict=True))


def main() -> int:
    """Draw all pictures anew."""
    for page in sorted(HERE.glob("*.md")):
        if "](images/" not in page.read_text(encoding="utf-8"):
            continue
        here = Path.cwd()
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            try:
                for _, output in run(page):
                    sys.stdout.write(output)
                found = drawn(Path(folder))
            finally:
                os.chdir(here)
        for name, svg in found.items():
            (HERE / "images" / name).write_text(svg, encoding="utf-8")
            sys.stdout.write(f"{name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
