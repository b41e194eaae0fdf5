"""Text that comes from files, made fit for terminals, pages and spreadsheets, which take some characters for commands."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dpcore.errors import JobError

if TYPE_CHECKING:
    from collections.abc import Iterable

UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
"""Control characters, the ends of lines among them; what turns the direction of text; halves of characters."""
FORMULA = re.compile(r"[=+\-@\t\r]")
LONGEST_WORD = 24
"""Letters of a word that a page never breaks."""
BREAKS = re.compile(r"(?<=[_./\\:;,@=&+])(?=[^\W\d_])|(?<=[a-z])(?=[A-Z])")
LONG_WORD = re.compile(rf"(\S{{{LONGEST_WORD}}})(?=\S)")
NUMBER = re.compile(r"[+-]?[0-9.,]+(?:[eE][+-]?[0-9]+)?%?")


def printable(text: str) -> str:
    """The text with escapes in place of characters that command a terminal or turn the direction of what is read."""
    return UNPRINTABLE.sub(_escape, text)


def printable_lines(text: str) -> str:
    """Return the same for each line."""
    return "\n".join(map(printable, text.split("\n")))


def breakable(text: str) -> list[str]:
    """The parts of a name between which a line may break: after punctuation, before a capital, and in a word too long for a line.

    Numbers, and words of up to `LONGEST_WORD` letters, stay whole.

    Examples
    --------
    >>> breakable("visits_per_year, 2024-2025"), breakable("selfRatedHealth"), breakable("a" * 30)
    (['visits_', 'per_', 'year, 2024-2025'], ['self', 'Rated', 'Health'], ['aaaaaaaaaaaaaaaaaaaaaaaa', 'aaaaaa'])
    """
    return [part for piece in BREAKS.split(text) for part in LONG_WORD.split(piece) if part]


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def json_escaped(text: str) -> str:
    """JSON that holds no unprintable character but the ends of its lines: inside of its strings JSON has escapes of its own."""
    return UNPRINTABLE.sub(lambda found: found[0] if found[0] == "\n" else f"\\u{ord(found[0]):04x}", text)


def check_no_formula(where: str, texts: Iterable[str]) -> None:
    """Raise `JobError` at a text that a spreadsheet which opens the CSV would run; numbers with a sign are none."""
    for text in texts:
        if FORMULA.match(text) and not NUMBER.fullmatch(text):
            raise JobError(
                f"{where} = {printable(text)!r}: a spreadsheet that opens the CSV takes text that starts with =, +, -, @ or a tab for a "
                "formula and runs it; rename it, or write .parquet or .arrow"
            )
