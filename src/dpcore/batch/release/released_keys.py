"""The decision which keys are released, given how many distinct units have each, and the plan for the groups that they are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dpcore.batch.release.draws import Draw
from dpcore.batch.release.group_fields import MAX_GROUPS
from dpcore.batch.release.private_grouping import PrivateGrouping
from dpcore.batch.release.private_groups import Keys
from dpcore.batch.release.query_fields import MAX_CELLS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from dpcore.batch.release.answers import Answer
    from dpcore.batch.release.passes import Passes
    from dpcore.batch.release.plan import ReleasePlan
    from dpcore.batch.release.private_groups import KeysAnswer
    from dpcore.rng import Stream


def select_keys(plan: ReleasePlan, passes: Passes, stream: Callable[[int], Stream | None]) -> dict[int, Keys]:
    """The keys of each query that asks for them, by its place; each takes one pass over the columns of its groups.

    Parameters
    ----------
    plan : ReleasePlan
        The job.
    passes : Passes
        What counts the units of each key.
    stream : callable
        The stream of a query by its place.
    """
    found: dict[int, Keys] = {}
    for place, answer in enumerate(plan.answers):
        if answer.waits_for_keys:
            keyed: Any = answer
            decision = Decision(keyed, most_keys(plan.answers, keyed.private), Draw(stream(place)), passes.threads)
            found[place] = passes.count_units(plan, place, decision.of)
    return found


@dataclass(frozen=True, slots=True)
class Decision:
    """Which keys are released.

    Attributes
    ----------
    answer : KeysAnswer
        The query.
    most : int
        Keys that may be released.
    draw : Draw
        The noise of each key, by its place among all of them.
    threads : int
        Threads that draw.
    """

    answer: KeysAnswer
    most: int
    draw: Draw
    threads: int

    def of(self, counted: Iterable[pa.RecordBatch]) -> Keys:
        """The keys to release, given all keys in order, as `key`, and the number of units of each, as `n`."""
        keys = list(self._released(counted))
        return Keys(self.answer.private.released(keys[: self.most]), len(keys) > self.most)

    def _released(self, counted: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
        """The released keys, in order, and one more than are wanted if there are more."""
        first = found = 0
        for batch in counted:
            counts = batch.column("n").to_numpy()
            mask = self.answer.rule.release(counts, self.draw.at(first), self.threads)
            first += len(counts)
            keys = batch.column("key").take(pa.array(np.flatnonzero(mask))).to_pylist()
            yield from keys[: self.most + 1 - found]
            found += len(keys)
            if found > self.most:
                return


def most_keys(answers: Sequence[Answer], grouping: PrivateGrouping) -> int:
    """How many keys may be released, so that no answer has more cells than are allowed."""
    most = MAX_GROUPS
    for answer in answers:
        if answer.grouping is not None and answer.grouping.names == grouping.names:
            most = min(most, MAX_CELLS // answer.fewest_cells)
    return most


def with_keys(plan: ReleasePlan, tallies: Sequence[Any]) -> ReleasePlan:
    """The plan for the groups whose keys were released: those among the statistics of its queries."""
    found = {keys.grouping.names: keys.grouping for keys in tallies if isinstance(keys, Keys)}
    # Queries that share their groups go on to share them: the group of a row is then looked up once.
    both = {(names, listed): replace(grouping, listed=listed) for names, grouping in found.items() for listed in (False, True)}

    def known(answer: Any) -> Any:
        grouping = answer.grouping
        return replace(answer, grouping=both[grouping.names, grouping.listed]) if isinstance(grouping, PrivateGrouping) else answer

    return replace(plan, answers=tuple(map(known, plan.answers)))
