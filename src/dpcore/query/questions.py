"""What documents say about queries, in words and with the labels of columns: shared by pages and terminals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpcore.query.kinds import KINDS
from dpcore.query.prose import groups_in_words, release_protection, spaced, used_in_words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def asked(query: Mapping[str, Any]) -> str:
    """The question of a query in words."""
    rows = f", where {spaced(query['where'])}" if query.get("where") else ""
    question = KINDS[query["kind"]].question(query)
    return f"{question}{rows}" if query.get("groups") is None else f"{question}, {groups_in_words(query)}{rows}"


def declared(query: Mapping[str, Any]) -> str:
    """What the job declares about the values of a query, as sentences."""
    return KINDS[query["kind"]].declared(query)


def names_of_whole(document: Mapping[str, Any]) -> list[str]:
    """The names of the queries for which no row of a unit is left out."""
    return [query["name"] for query in document["queries"] if KINDS[query["kind"]].uses_all_rows(query)]


def used(document: Mapping[str, Any], query: Mapping[str, Any], whole: Sequence[str]) -> str:
    """Which rows of each unit an answer is about; the queries `whole` are about all of them."""
    return used_in_words(document, query, whole=query["name"] in whole, cut=KINDS[query["kind"]].cut(query))


def protection(document: Mapping[str, Any], queries: Sequence[Mapping[str, Any]], delta: float) -> str:
    """Whom the guarantee of some queries of a document protects, and which rows of each were used, as a sentence."""
    whole = names_of_whole({"queries": queries})
    if len(whole) == len(queries):
        document = {key: value for key, value in document.items() if key not in ("max_rows_per_unit", "max_groups_per_unit")}
    said = release_protection({**document, "privacy": {"delta": delta}}, whole)
    return said[:1].upper() + said[1:]


def in_text(query: Mapping[str, Any]) -> bool:
    """Whether the answers are dates or times, which are text."""
    value = query["value"]
    while isinstance(value, list) and value:
        value = next((each for each in value if each is not None), None)
    return isinstance(value, str) and not KINDS[query["kind"]].has_labels


def labelled(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the document of a release with labels in place of the names of columns.

    Queries whose answers are in the unit of measure of their column get it as `unit_of_measure`, those whose bins are as `unit_of_bins`.
    """
    columns = {column["name"]: column for column in document.get("columns", ())}
    if not columns:
        return document
    return {**document, "queries": [_labelled(query, columns) for query in document["queries"]]}


def _labelled(query: Mapping[str, Any], columns: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    def label(name: Any) -> Any:
        return columns.get(name, {}).get("label", name) if isinstance(name, str) else name

    shown: dict[str, Any] = dict(query)
    for key in ("column", "columns", "group_by"):
        value = query.get(key)
        if value is not None:
            shown[key] = [label(each) for each in value] if isinstance(value, list | tuple) else label(value)
    unit = columns.get(query.get("column") or "", {}).get("unit_of_measure")
    measured = KINDS[query["kind"]].measured
    if unit is not None and measured is not None:
        shown[measured] = unit
    if isinstance(query.get("groups"), dict):
        groups = {label(name): keys for name, keys in query["groups"].items()}
        shown["groups"] = groups if len(groups) == len(query["groups"]) else query["groups"]
    return shown
