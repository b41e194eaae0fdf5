"""Errors of running totals, measured, beside the theory of the factorisation and a plain binary tree with Gaussian noise at one ρ.

    python benchmarks/running_totals.py --runs 200

A row for each number of steps: the root mean square error over all totals and runs, what the theory of the square-root factorisation says,
that of the tree, and the time of the last step.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time

import numpy as np
import numpy.typing as npt

from dpcore import noise
from dpcore.mechanisms import RunningTotals
from dpcore.testing import KeyedRandom

KEY = bytes(range(32))
RHO = 0.5
STEPS = (16, 52, 365, 1000)


def theory(steps: int) -> float:
    """Of the factorisation by the square root, in real numbers."""
    squares = np.cumsum([math.exp(2 * (math.lgamma(2 * k + 1) - 2 * math.lgamma(k + 1) - k * math.log(4))) for k in range(steps)])
    return math.sqrt(squares[-1] * squares.mean() / (2 * RHO))


def of_tree(steps: int, runs: int) -> float:
    """Of a tree in which each node has Gaussian noise and each total the sum of its nodes; one entry is in a node of each level."""
    scale = math.sqrt(steps.bit_length() / (2 * RHO))
    drawn = noise.gaussian(np.zeros((runs, steps)), scale, rng=KeyedRandom(KEY).at(1))
    errors: npt.NDArray[np.float64] = np.zeros((runs, steps))
    for step in range(1, steps + 1):
        before = step - (step & -step)
        errors[:, step - 1] = drawn[:, step - 1] + (errors[:, before - 1] if before else 0.0)
    return float(np.sqrt((errors**2).mean()))


def of_factorisation(steps: int, runs: int) -> tuple[float, float]:
    """Of `RunningTotals`, and the seconds that the last step of a stream takes."""
    totals, key = RunningTotals(steps, rho=RHO), KeyedRandom(KEY)
    totals.stderr(step=steps)  # what is computed once
    entries = np.random.default_rng(1).integers(0, 100, steps)
    truth, squares, seconds = np.cumsum(entries), 0.0, []
    for _ in range(runs):
        stream = totals.start(rng=key)
        for entry, exact in zip(entries.tolist(), truth.tolist(), strict=True):
            began = time.perf_counter()
            squares += (stream.add(entry) - exact) ** 2
        seconds.append(time.perf_counter() - began)
    return math.sqrt(squares / (runs * steps)), statistics.median(seconds)


def main() -> None:
    """Print the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--steps", type=int, nargs="+", default=STEPS)
    arguments = parser.parse_args()
    print("  steps  measured    theory  ratio      tree  ratio  last step")
    for steps in arguments.steps:
        found, seconds = of_factorisation(steps, arguments.runs)
        best, tree = theory(steps), of_tree(steps, 20 * arguments.runs)
        print(f"{steps:7} {found:9.3f} {best:9.3f} {found / best:6.3f} {tree:9.3f} {found / tree:6.3f} {seconds * 1e6:7.0f} µs")


if __name__ == "__main__":
    main()
