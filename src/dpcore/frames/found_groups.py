"""Groups that only the data know: the query that names their keys goes before the first one about them, and later ones know the keys."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dpcore.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dpcore.frames.question import FoundGroups, Question


def with_keys(questions: Sequence[Question]) -> tuple[list[Question], list[int]]:
    """The questions of a job, with those that name keys before the first that needs them; and the place of each that was asked."""
    found: list[Question] = []
    places: list[int] = []
    named: list[FoundGroups] = []
    for question in questions:
        keys, asked = question.view.found, question
        if keys is not None and keys.records is not None:
            asked = _about(question, keys)
        elif keys is not None and keys not in named:
            named.append(keys)
            naming, asked = _first(question, keys)
            found.append(naming)
        places.append(len(found))
        found.append(asked)
    return found, places


def share_of(question: Question) -> float:
    """The part of a question's ε that its answer gets: half, if the other half names its groups."""
    keys = question.view.found
    return 0.5 if keys is not None and keys.records is None and keys.epsilon is None else 1.0


def remember(questions: Sequence[Question], queries: Sequence[Mapping[str, Any]]) -> None:
    """Keep the keys that a job has named, given its questions and its answers."""
    from dpcore.query.kinds import KINDS

    for question, answer in zip(questions, queries, strict=True):
        keys = question.view.found
        if keys is not None and KINDS[answer["kind"]].names_groups:
            value = answer["value"]
            columns = [value[name] for name in keys.columns] if isinstance(value, dict) else [value]
            keys.records = [dict(zip(keys.columns, key, strict=True)) for key in zip(*columns, strict=True)]


def _about(question: Question, keys: FoundGroups) -> Question:
    """A question about keys that are known."""
    if not keys.records:
        raise ParameterError(f"no group of {', '.join(keys.columns)} was named, so there is none to ask about")
    query = {**question.view.query, "group_by": list(keys.columns), "groups": keys.records}
    return replace(question, view=replace(question.view, query=query))


def _first(question: Question, keys: FoundGroups) -> tuple[Question, Question]:
    """The question that names the keys, and the first one about them."""
    view, entry = question.view, question.entry
    epsilon = keys.epsilon
    if epsilon is None and isinstance(entry.get("epsilon"), int | float):
        epsilon = entry["epsilon"] * share_of(question)
        entry = {**entry, "epsilon": epsilon}
    naming = {"kind": "groups", "epsilon": epsilon, **({} if keys.delta is None else {"delta": keys.delta})}
    query = {key: value for key, value in view.query.items() if key != "groups"}
    return replace(question, entry=naming, view=replace(view, query=query)), replace(question, entry=entry)
