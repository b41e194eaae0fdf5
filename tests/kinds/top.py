"""`top_s`."""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import numpy as np

from dpcore.query.kinds.top import TopEstimator
from support.parts import Array, Part, softmax_logs

EXAMPLES = {
    "top": {"kind": "top_s", "column": "c", "k": 5, "s": 2},
    "top with counts": {"kind": "top_s", "column": "c", "k": 5, "s": 2, "values": True},
}
SHARPER = {"top": {"k": 3}, "top with counts": {"k": 3, "s": 1}}
LAWS = {"top_s": "test_release_law.py::test_the_most_frequent"}


def top(answer: TopEstimator, counts: Array) -> Part:
    """One pick after the other, and then the counts of the picked candidates."""
    scale, values = answer.trial.scale, answer.trial.value_scale
    logs, numbers = [], []
    for picks in itertools.permutations(range(len(counts)), answer.section.s):
        left, log = list(range(len(counts))), 0.0
        for pick in picks:
            log += one_pick(answer.section.method, tuple(int(counts[i]) for i in left), scale)[left.index(pick)]
            left.remove(pick)
        logs.append(log)
        numbers.append([] if values is None else [int(counts[pick]) / values for pick in picks])
    return Part(np.array(logs), np.array(numbers))


def each_group(answer: TopEstimator, total: Any) -> list[Part]:
    """The picks of each group."""
    return [top(answer, counts) for counts in total[:-1, :-1]]


RELEASED = {TopEstimator: each_group}


@functools.cache
def one_pick(method: str, counts: tuple[int, ...], scale: float) -> tuple[float, ...]:
    """Log-probabilities of the largest noisy count."""
    if method == "gumbel":
        return tuple(softmax_logs([count / scale for count in counts]).tolist())
    return laplace_argmax(counts, scale)


def laplace_argmax(counts: tuple[int, ...], scale: float) -> tuple[float, ...]:
    """Log-probabilities of an argmax with Laplace noise, by a sum over a fine grid: the same sum for neighbours, so good to 1e-6."""
    x = np.linspace(min(counts) - 40 * scale, max(counts) + 40 * scale, 40_001)

    def below(count: int) -> Array:
        z = (x - count) / scale
        return np.where(z < 0, 0.5 * np.exp(np.minimum(z, 0)), 1 - 0.5 * np.exp(-np.maximum(z, 0)))

    found = []
    for i, count in enumerate(counts):
        density = np.exp(-abs(x - count) / scale)
        for j, other in enumerate(counts):
            if j != i:
                density = density * below(other)
        found.append(density.sum())
    return tuple(math.log(each / sum(found)) for each in found)
