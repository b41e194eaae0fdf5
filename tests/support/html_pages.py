"""HTML pages taken apart, for tests that know nothing of their design."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser

INLINE = {"a", "b", "code", "i", "span", "text", "time", "tspan"}
VOID = {"br", "hr", "img", "input", "link", "meta", "wbr"}
NUMBER = re.compile(r"−?\d[\d,]*(?:\.\d+)?(?:e[+-]\d+)?")


@dataclass
class Element:
    """An element with its attributes and the elements around it, the outermost first."""

    name: str
    attributes: dict[str, str | None]
    around: tuple[str, ...]
    text: list[str] = field(default_factory=list)

    @property
    def words(self) -> str:
        """The text in it, with single spaces."""
        return " ".join("".join(self.text).split())


class Page(HTMLParser):
    """The elements of a page, in order; raises `ValueError` if one is not closed, or closed in the wrong place."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[Element] = []
        self._open: list[Element] = []
        self.feed(source)
        self.close()
        if self._open:
            raise ValueError(f"not closed: {[element.name for element in self._open]}")

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep an element; a repeated attribute is an error."""
        if len({name for name, _ in attrs}) < len(attrs):
            raise ValueError(f"<{tag}> repeats an attribute")
        element = Element(tag, dict(attrs), tuple(each.name for each in self._open))
        self.elements.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An element of SVG that closes itself."""
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        """Only the innermost open element may end."""
        if not self._open or self._open[-1].name != tag:
            raise ValueError(f"</{tag}> closes {[element.name for element in self._open][-1:]}")
        self._open.pop()
        if tag not in INLINE:
            self.handle_data(" ")

    def handle_data(self, data: str) -> None:
        """Text belongs to every open element."""
        for element in self._open:
            element.text.append(data)

    def named(self, *names: str) -> list[Element]:
        """The elements of these names."""
        return [element for element in self.elements if element.name in names]

    @property
    def shown(self) -> str:
        """What a person reads, with single spaces."""
        (body,) = self.named("body")
        return body.words


@dataclass(frozen=True)
class Shown:
    """A number as a page writes it: its value, half a unit of its last digit, and whether it is a digit alone."""

    value: float
    half: float
    is_digit: bool = False

    def rounds(self, number: float, *, is_noisy: bool = False) -> bool:
        """Whether a number is written like that. A digit alone may count things, and for another number it stands only if that is noisy."""
        half = 0.0 if self.is_digit and not is_noisy else self.half
        return abs(self.value - number) <= half * (1 + 1e-9) + 1e-12 * abs(number)


def numbers(text: str) -> list[Shown]:
    """The numbers in a text; those before a per cent sign also as shares."""
    found = []
    for match in NUMBER.finditer(text):
        digits = match[0].replace("−", "-").replace(",", "")
        mantissa, _, exponent = digits.partition("e")
        decimals = len(mantissa.partition(".")[2])
        half = 0.5 * 10.0 ** (int(exponent or 0) - decimals)
        found.append(Shown(float(digits), half, is_digit=len(mantissa.lstrip("-")) == 1 and not exponent))
        if re.match(r"\s*(?:to −?[\d.]+\s*)?%", text[match.end() :]):
            found.append(Shown(float(digits) / 100, half / 100))
    return found
