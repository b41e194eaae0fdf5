"""A cluster in one process: tasks with retries, speculation and lost executors, and a driver that accepts answers. No Spark, no time.

It has the parts of the protocol that decide what is published: the key of a batch, the file of each attempt, and the driver that takes one
answer a partition. Everything random comes from one seed.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from dpcore.spark.folders import AcceptedAttempts
from dpcore.spark.noise_keys import Identity, batch_key
from dpcore.testing import KeyedJobKey

ROWS = 3
"""Of a partition: one batch."""
MECHANISM = [b"column 0", b"laplace"]
EXECUTORS = 64


@dataclass
class Attempt:
    """One attempt at a partition.

    Attributes
    ----------
    partition, number, executor : int
        Which partition, which attempt at it, and where.
    order : tuple of int
        The order in which the rows came.
    fails : bool
        Whether it fails, behind its last row.
    """

    partition: int
    number: int
    executor: int
    order: tuple[int, ...]
    fails: bool


@dataclass
class Cluster:
    """The run of one job.

    Attributes
    ----------
    tasks : int
        Partitions.
    seed : int
        Of all chances.
    failing, speculated, lost, shuffled : float
        Chances: that an attempt fails, that a second one is started beside it, that an executor is lost when an attempt ends, and that an
        attempt gets its rows in another order than the first.
    named : bool
        Whether the source names its rows.
    """

    tasks: int
    seed: int
    failing: float = 0.05
    speculated: float = 0.05
    lost: float = 0.002
    shuffled: float = 0.3
    named: bool = True
    key: Any = field(default_factory=lambda: KeyedJobKey(bytes(range(32))).carried())
    accepts_all: bool = False
    """A broken driver: every attempt that ends well is published."""

    def __post_init__(self) -> None:
        self._chance = np.random.default_rng(self.seed)
        self.files: dict[str, tuple[int, tuple[int, ...], Any]] = {}
        self.drawn: dict[int, list[tuple[tuple[int, ...], Any]]] = {}
        self.counts = dict.fromkeys(("failed", "speculated", "lost", "ignored"), 0)

    def noise(self, attempt: Attempt) -> Any:
        """The key of the noise that an attempt draws: it stands for the noise, which is a function of it."""
        rows = np.array(attempt.order)
        files, indices = (np.full(ROWS, attempt.partition), rows) if self.named else (None, None)
        identity = Identity(attempt.partition, 0, ROWS, files, indices)
        cells = pa.array(self.values(attempt.partition)[rows])
        return bytes(batch_key(self.key, MECHANISM, identity.encoded(), cells))

    def values(self, partition: int) -> np.ndarray:
        """The records of a partition; equal ones in many partitions, and in some all are equal."""
        return np.array([1.0, 1.0, 1.0]) if partition % 5 == 0 else np.array([0.0, 1.0, partition % 3])

    def run(self) -> AcceptedAttempts:
        """Run all tasks; return what the driver has accepted."""
        waiting = list(range(self.tasks))[::-1]
        running: list[tuple[float, int, Attempt]] = []
        attempts: dict[int, int] = {}
        accepted: dict[int, dict[str, Any]] = {}
        answers: list[dict[str, Any]] = []
        clock, ticket = 0.0, 0
        while waiting or running:
            while waiting and len(running) < EXECUTORS:
                partition = waiting.pop()
                if partition in accepted:
                    continue
                for _ in range(2 if self._chance.random() < self.speculated else 1):
                    ticket += 1
                    heapq.heappush(running, (clock + self._chance.exponential(), ticket, self._begun(partition, attempts)))
            if not running:
                break
            clock, _, attempt = heapq.heappop(running)
            answer = self._ended(attempt)
            if answer is None:
                waiting.append(attempt.partition)
            elif attempt.partition not in accepted:
                accepted[attempt.partition] = answer
                answers.append(answer)
            else:
                self.counts["ignored"] += 1
                answers += [answer] if self.accepts_all else []
            running = self._after_losses(running, waiting)
        return AcceptedAttempts(answers)

    def _begun(self, partition: int, attempts: dict[int, int]) -> Attempt:
        number = attempts[partition] = attempts.get(partition, -1) + 1
        self.counts["speculated"] += number > 0
        moved = number > 0 and self._chance.random() < self.shuffled
        order = tuple(self._chance.permutation(ROWS).tolist()) if moved else tuple(range(ROWS))
        return Attempt(partition, number, int(self._chance.integers(EXECUTORS)), order, bool(self._chance.random() < self.failing))

    def _ended(self, attempt: Attempt) -> dict[str, Any] | None:
        """An attempt has drawn and written; its answer, unless it fails."""
        noise = self.noise(attempt)
        self.drawn.setdefault(attempt.partition, []).append((attempt.order, noise))
        name = f"{attempt.partition}-{attempt.number}"
        self.files[name] = (attempt.partition, attempt.order, noise)
        if attempt.fails:
            self.counts["failed"] += 1
            return None
        return {"partition": attempt.partition, "name": name, "rows": ROWS, "bytes": 0, "sha256": ""}

    def _after_losses(self, running: list[Any], waiting: list[int]) -> list[Any]:
        """An executor may be lost, with all that runs on it."""
        if self._chance.random() >= self.lost:
            return running
        victim = int(self._chance.integers(EXECUTORS))
        self.counts["lost"] += 1
        gone = [each for each in running if each[2].executor == victim]
        for _, _, attempt in gone:
            self.drawn.setdefault(attempt.partition, []).append((attempt.order, self.noise(attempt)))
            waiting.append(attempt.partition)
        rest = [each for each in running if each[2].executor != victim]
        heapq.heapify(rest)
        return rest


def problems(cluster: Cluster, answers: AcceptedAttempts) -> list[str]:
    """What is wrong with a run: nothing, if each record is published once and with one noise, and no noise is on two values."""
    found = []
    files = [cluster.files[row["name"]] for row in answers.accepted]
    if sorted(partition for partition, _, _ in files) != list(range(cluster.tasks)):
        found.append("a record is missing, or published twice")
    published = [noise for _, _, noise in files]
    if len(set(published)) != len(published):
        found.append("two batches share their noise")
    for partition, drawn in cluster.drawn.items():
        values = cluster.values(partition)
        by_noise: dict[Any, set[tuple[float, ...]]] = {}
        by_order: dict[tuple[int, ...], set[Any]] = {}
        for order, noise in drawn:
            by_noise.setdefault(noise, set()).add(tuple(values[list(order)].tolist()))
            by_order.setdefault(order, set()).add(noise)
        if any(len(each) > 1 for each in by_noise.values()):
            found.append("one noise on two values")
        if any(len(each) > 1 for each in by_order.values()):
            found.append("two noises for the same rows in the same order")
    return sorted(set(found))
