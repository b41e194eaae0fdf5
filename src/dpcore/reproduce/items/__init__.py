"""Every definition, theorem, lemma, example, exercise, figure, table and algorithm of the five sources, and what dpcore does with it.

One TOML file for each document lists its items, in the order of the document::

    [[item]]
    number = "Satz 2.5"
    title = "product inequality over hulls"
    state = "complete"
    where = ["dpcore.minimax.hellinger_affinity"]
    section = "minimax-inequalities: Steinberger (2019), Satz 2.5"

The page of `dpcore reproduce --report` and docs/items.md show the list.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import fields
from functools import cache
from importlib.resources import files
from typing import Any, Literal, get_args

from dpcore._dataclasses import dataclass
from dpcore.errors import ParameterError
from dpcore.reproduce.registry import known_studies
from dpcore.reproduce.sources import SOURCES

__all__ = ["Item", "State", "known_items"]

State = Literal["complete", "limit", "text"]
"""Of an item: you can run it, and a study or a test checks it; a part cannot be done; or there is nothing to run."""
FILES = {
    "Steinberger (2019)": "steinberger.toml",
    "Wasserman & Zhou (2010)": "wasserman-zhou.toml",
    "Stemmer (lecture 6)": "stemmer.toml",
    "Mechanisms as experiments (2014)": "experiments.toml",
    "Private inference (chapter 9)": "private-inference.toml",
}
"""The file of each document."""
ENDS = (":", ",", " ")
"""What may follow the start of a title."""


@dataclass(frozen=True, slots=True)
class Item:
    """One numbered statement of a document, and what dpcore does with it.

    Attributes
    ----------
    number : str
        Label and number, as the document writes them: "Satz 2.5". A part of an item has a suffix: "Beispiel 3.6, case A".
    title : str
        What it says, in a few words.
    state : {"complete", "limit", "text"}
        Whether you can run it and a study or a test checks it ("complete"), a part of it cannot be done ("limit"), or it has nothing to
        run ("text").
    where : tuple of str
        Public names that do it.
    section : str
        A study, and the start of the title of its section, joined by ": "; empty if a test checks the item.
    test : str
        A test of the repository, as pytest names it; empty if a study checks the item.
    reason : str
        What cannot be done or is not there, and why. Never empty for "limit" and "text".

    Raises
    ------
    ParameterError
        If an attribute is missing where the state needs it.

    Examples
    --------
    >>> from dpcore.reproduce.items import Item
    >>> item = Item("Satz 2.5", "hulls", "complete", ("dpcore.minimax.tv",), section="minimax: Steinberger (2019), Satz 3.13")
    >>> item.study, item.titles()
    ('minimax', ('Steinberger (2019), Satz 3.13: the best bit of a record',))
    """

    number: str
    title: str
    state: State
    where: tuple[str, ...] = ()
    section: str = ""
    test: str = ""
    reason: str = ""

    def __post_init__(self) -> None:
        for name in ("number", "title"):
            if not getattr(self, name):
                raise ParameterError(f"{name} must not be empty")
        if self.state not in get_args(State):
            raise ParameterError(f"state must be one of {', '.join(get_args(State))}, got {self.state!r}")
        if self.state == "complete" and not (self.where and (self.section or self.test)):
            raise ParameterError(f"where and one of section and test must not be empty where an item is complete: {self.number}")
        if self.state != "complete" and not self.reason:
            raise ParameterError(f"reason must not be empty where the state of an item is {self.state}: {self.number}")
        if self.section and ": " not in self.section:
            raise ParameterError(f"section must be a study and the start of a title, joined by ': ', got {self.section!r}")

    @property
    def study(self) -> str:
        """Name of the study that checks the item; empty if none does."""
        return self.section.partition(": ")[0]

    def titles(self) -> tuple[str, ...]:
        """Return the titles of the sections that check the item.

        Returns
        -------
        tuple of str
            Full titles, in the order of the study; empty if no known study has one.
        """
        study = known_studies().get(self.study)
        return () if study is None else self.of(study.titles)

    def of(self, titles: Iterable[str]) -> tuple[str, ...]:
        """Return those of some titles that the item's section begins.

        Parameters
        ----------
        titles : iterable of str
            Titles of sections.

        Returns
        -------
        tuple of str
            The titles that begin with the item's section and go on with ":", "," or a space, so "Satz 3.1" is not "Satz 3.13".
        """
        start = self.section.partition(": ")[2]
        return tuple(title for title in titles if start and title.startswith(start) and f"{title}:"[len(start)] in ENDS)


@cache
def known_items() -> Mapping[str, tuple[Item, ...]]:
    """Return the items of all documents.

    Returns
    -------
    mapping
        From the document, as citations name it, to its items in the document's order.

    Raises
    ------
    ParameterError
        If a list has an unknown key or an item that misses something.

    Notes
    -----
    Cost: a few milliseconds, once.

    Examples
    --------
    >>> from dpcore.reproduce.items import known_items
    >>> known_items()["Steinberger (2019)"][0].number
    'Tabelle 1.1'
    """
    folder = files(__name__)
    return {key: parsed((folder / FILES[key]).read_text(encoding="utf-8")) for key in sorted(SOURCES) if (folder / FILES[key]).is_file()}


def parsed(text: str) -> tuple[Item, ...]:
    """Return the items of a TOML text.

    Parameters
    ----------
    text : str
        Tables `[[item]]` alone.

    Raises
    ------
    ParameterError
        If the text is no TOML, or has an unknown key, a value of a wrong type, or an item that misses something.
    """
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ParameterError(f"text must be TOML: {error}") from error
    if found.keys() - {"item"}:
        raise ParameterError(f"a list of items has [[item]] only, got {', '.join(found.keys() - {'item'})}")
    return tuple(_item(number, table) for number, table in enumerate(found.get("item", ()), 1))


def _item(position: int, table: Mapping[str, Any]) -> Item:
    known = {field.name: field.type for field in fields(Item)}
    if wrong := table.keys() - known.keys():
        raise ParameterError(f"item {position}: keys must be among {', '.join(known)}, got {', '.join(wrong)}")
    if lacking := {"number", "title", "state"} - table.keys():
        raise ParameterError(f"item {position}: {', '.join(sorted(lacking))} must not be missing")
    where = table.get("where", ())
    texts = [*where, *(value for key, value in table.items() if key != "where")] if isinstance(where, list | tuple) else [where, None]
    if not all(isinstance(value, str) for value in texts):
        raise ParameterError(f"item {position}: values must be texts, and where a list of texts")
    try:
        return Item(**{**table, "where": tuple(where)})
    except ParameterError as error:
        raise ParameterError(f"item {position}: {error}") from error
