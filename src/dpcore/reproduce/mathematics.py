"""Formulas of plain text as HTML: variables in italics, exponents raised, indices lowered, roots with their bar."""

from __future__ import annotations

import re
from html import escape, unescape

RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ", "0123456789+−n"
LOWERED = "₀₁₂₃₄₅₆₇₈₉", "0123456789"
"""Characters above and below the line, and on it."""
WORDS = frozenset({"a", "I"})
"""Single letters that are words, or parts of labels."""
PRODUCTS = frozenset({"PT", "nd", "mk", "kC"})
"""Products of variables that could be words."""
LETTERS = r"[A-Za-zα-ωϕ]"
TOKEN = re.compile(
    rf"(?P<decimal>(?<![\w.])\d+(?:\.\d+)?e[−+-]?\d+(?!\w|\.\d))|"
    rf"(?P<raised>[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ]+)|(?P<lowered>[₀-₉]+)|(?P<script>[\^_])|(?P<root>√)|"
    rf"(?P<space>\bL[12]\b)|(?P<name>(?<!['’\-A-Za-zα-ω\u00c0-\u024f]){LETTERS}[\u0300-\u0304]?(?:{LETTERS})*(?![A-Za-z0-9\u00c0-\u024f]))"
)
SIMPLE = re.compile(r"[−+-]?(?:\d+(?:\.\d+)?|[½¼⅓⅔⅛⅜∞]|[A-Za-zα-ω][A-Za-zα-ω]*)|\+")
"""An exponent or index without parentheses."""
LABEL = re.compile(r"\d\.\d+ $")
"""Before the letter of a label, as in "3.6 B"."""
BEFORE_SIGN = re.compile(r" (?=[=≤≥≺⊃∈≈] )")
"""A line does not begin with a sign."""
CLOSING = {"(": ")", "{": "}"}
IDENTIFIER = re.compile(r"[A-Za-z]{2,}$")
"""Before an underscore that belongs to a name of Python, if a Latin letter follows."""
NEGATIVE = re.compile(r"(?<![\w)\]}.])-(?=\d)")
"""A hyphen that is a minus sign."""


def mathematics(text: str) -> str:
    r"""Set the formulas of a text as HTML.

    Parameters
    ----------
    text : str
        Words with formulas as in docstrings: "d² ln(1/δ)/(n²ε²)", "e^(−εn)", "P_i(y)", "√(2 ln d/n)".

    Returns
    -------
    str
        HTML in which everything else is escaped.

    Examples
    --------
    >>> mathematics("at most e^(−εn/2) & x₀ ∈ S")
    'at most <var>e</var><sup>−<var>εn</var>/2</sup> &amp; <var>x</var><sub>0</sub>\xa0∈ <var>S</var>'
    >>> mathematics("a sample's k-ary response, as in Steinberger (2019), Beispiel 3.6 B")
    'a sample&#x27;s <var>k</var>-ary response, as in Steinberger (2019), Beispiel 3.6 B'
    """
    text, done, place = NEGATIVE.sub("−", text), [], 0
    while (found := TOKEN.search(text, place)) is not None:
        done.append(escape(text[place : found.start()]))
        html, place = _token(text, found)
        done.append(html)
    return BEFORE_SIGN.sub("\u00a0", "".join([*done, escape(text[place:])]))


def raised_and_lowered(text: str) -> list[tuple[int, str]]:
    """Split a short text into parts on the line (0), above it (1) and below it (−1), for the text of a drawing.

    Parameters
    ----------
    text : str
        As for `mathematics`; only exponents, indices and numbers in decimal notation are set.

    Examples
    --------
    >>> raised_and_lowered("C_τ of n^(−1/2), δ = 1e-06")
    [(0, 'C'), (-1, 'τ'), (0, ' of n'), (1, '−1/2'), (0, ', δ = 10'), (1, '−6')]
    """
    levels = {"sub": -1, "sup": 1}
    parts: list[tuple[int, str]] = []
    level = 0
    # A drawing has no bar over a root, so its parentheses stay: nothing that is an operand follows the sign.
    for tag, content in re.findall(r"<(/?\w+)[^>]*>|([^<]+)", mathematics(text.replace("√", "√\u2060"))):
        if tag in levels:
            level = levels[tag]
        elif tag[1:] in levels:
            level = 0
        elif content:
            plain = unescape(content).replace("\u2060", "").replace("\xa0", " ")
            if parts and parts[-1][0] == level:
                parts[-1] = level, parts[-1][1] + plain
            else:
                parts.append((level, plain))
    return parts


def _token(text: str, found: re.Match[str]) -> tuple[str, int]:
    """HTML of one token, and where the text goes on."""
    written, end = found[0], found.end()
    if found["decimal"]:
        return _power_of_ten(written), end
    if found["raised"]:
        return f"<sup>{mathematics(written.translate(str.maketrans(*RAISED)))}</sup>", end
    if found["lowered"]:
        return f"<sub>{written.translate(str.maketrans(*LOWERED))}</sub>", end
    if found["space"]:
        return f"<var>L</var><sub>{written[1]}</sub>", end
    if found["script"]:
        return _script(text, found)
    if found["root"]:
        inside, after = _operand(text, end, index=False)
        return ("√", end) if inside is None else (f'√<span class="root">{inside}</span>', after)
    return (f"<var>{written}</var>" if _is_variable(text, found) else escape(written)), end


def _power_of_ten(written: str) -> str:
    """HTML of a number in decimal notation: 2.3e−16 as 2.3·10 with a raised −16, and 1.0e-6 without its 1."""
    digits, _, exponent = written.replace("−", "-").partition("e")
    if float(digits) == 0:
        return "0"
    power = f"10<sup>{int(exponent)}</sup>".replace("-", "−")
    return power if float(digits) == 1 else f"{digits}·{power}"


def _script(text: str, found: re.Match[str]) -> tuple[str, int]:
    index = found[0] == "_"
    inside, after = _operand(text, found.end(), index=index)
    if inside is None or (index and text[found.end()].isascii() and IDENTIFIER.search(text[: found.start()])):
        return found[0], found.end()
    name = "sub" if index else "sup"
    return f"<{name}>{inside}</{name}>", after


def _is_variable(text: str, found: re.Match[str]) -> bool:
    name = found[0]
    if any("α" <= letter <= "ω" for letter in name) or name in PRODUCTS:
        return True
    if name == "A":  # a word, or a random number
        return text[found.end() : found.end() + 1] in tuple("(|'⁻") or text[: found.start()].endswith(("E ", "|"))
    single = len(name) == 1 or (len(name) == 2 and "\u0300" <= name[1] <= "\u0304")
    return single and name not in WORDS and not LABEL.search(text[: found.start()])


def _operand(text: str, start: int, *, index: bool) -> tuple[str | None, int]:
    """Return the text that is raised, lowered or under a root: a group in parentheses or braces, without them, or a number or name."""
    opening = text[start : start + 1]
    if opening in CLOSING:
        depth = 0
        for place in range(start, len(text)):
            depth += (text[place] == opening) - (text[place] == CLOSING[opening])
            if depth == 0:
                return mathematics(text[start + 1 : place]), place + 1
        return None, start
    found = SIMPLE.match(text, start)
    if found is None or (not index and len(re.sub(r"[^A-Za-z]", "", found[0])) > 1):
        return None, start
    several = index and len(found[0]) > 1 and found[0].isalpha()
    return (escape(found[0]) if several else mathematics(found[0])), found.end()
