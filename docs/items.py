"""Write `docs/items.md` from the lists of `dpcore.reproduce.items`: `python docs/items.py`, with dpcore installed; a test compares."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

from dpcore.reproduce.items import Item, known_items
from dpcore.reproduce.sources import SOURCES, translated

PAGE = Path(__file__).resolve().parent / "items.md"
HEAD = """# Every item of the five sources

This page lists every definition, theorem, example, exercise, figure, table and algorithm of the
[five sources](literature.md#the-five-sources), in the order of each document. `python docs/items.py` writes it. Three words say what
dpcore does with an item:

- **complete**: you can run it, and a section of [`dpcore reproduce`](reproduce.md) or a test checks it;
- **limit**: a part of it cannot be done, and the last column says why;
- **text**: there is nothing to run.
"""
COLUMNS = "| item | what it says | state | where, or why not |\n|---|---|---|---|"


def row(item: Item) -> str:
    """One line of a table."""
    names = ", ".join(f"`{name}`" for name in item.where)
    checked = f"Study `{item.study}`." if item.study else f"Test `{item.test}`." if item.test else ""
    last = " ".join(part for part in (f"{names}." if names else "", checked, item.reason) if part)
    cells = (translated(item.number), item.title, item.state, last)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    for key, items in known_items().items():
        states = Counter(item.state for item in items)
        counts = ", ".join(f"{states[state]} {state}" for state in ("complete", "limit", "text") if states[state])
        title = SOURCES[key].title + (f" ({SOURCES[key].english})" if SOURCES[key].english else "")
        parts.append(f"## {key}\n\n*{title}*: {len(items)} items, {counts}.\n")
        parts.append(COLUMNS)
        parts.append("\n".join(map(row, items)) + "\n")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    sys.stdout.write(f"{PAGE.name}\n")
