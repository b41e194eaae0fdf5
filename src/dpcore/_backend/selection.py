"""Noisy selection: rounds over the scores, candidates merged, and close contenders handed to the exact tier."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from dpcore._backend import threads as sizes
from dpcore._backend.hooks import Testing
from dpcore._backend.levels import cipher_code, secure_cipher
from dpcore._backend.memory import wiped_empty
from dpcore._backend.threads import CHUNK, for_ranges
from dpcore._backend.words import KernelWords, Position, next_secure
from dpcore._exact.pending import SelectionNoise
from dpcore._kernels import _selection
from dpcore._validation import check_finite
from dpcore.errors import DataError, ParameterError

NOISES: dict[SelectionNoise, int] = {"gumbel": _selection.GUMBEL, "exponential": _selection.EXPONENTIAL, "laplace": _selection.TWO_SIDED}
CANDIDATE = np.dtype([("index", np.int64), ("high", np.float64), ("low", np.float64), ("error", np.float64)])
ELEMENTS_PER_UNIT = 8.0
"""Scores that cost as much as one noisy float64, for the chunks of `for_ranges`."""
LARGEST_SCORE = Fraction(2**1000)
"""Scores are clamped to this magnitude, so that no key overflows."""
_ROUND = 4096
"""Least cost of a round, in scores."""

_MOST_WORK = 8 * CHUNK
"""Scores times rounds of one call of the kernels, so that Ctrl-C takes effect soon."""

Threshold = tuple[float, float]


def _visiting_step(n_units: int) -> int:
    """A step near the golden section of the units and prime to their number, so that sorted scores are visited as if shuffled."""
    if n_units == 1:
        return 1
    step = max(1, round(n_units * 0.6180339887498949))
    while math.gcd(step, n_units) != 1:
        step += 1
    return step


def select_largest(
    noise: SelectionNoise, scores: npt.NDArray[Any], scale: float, keep: int, position: Position | None, *, threads: int | None
) -> npt.NDArray[np.int64]:
    """Elements with the `keep` largest keys, in descending order of their keys; the position None is the secure source's next one."""
    found = _short(noise, scores, scale, keep, 1, position)
    if isinstance(found, np.ndarray):
        return found
    call = Selection(noise, scores, scale, keep, found, threads=threads)
    return np.array([call.winner(0)]) if keep == 1 else call.largest(0)


def select_peeled(
    noise: SelectionNoise, scores: npt.NDArray[Any], scale: float, rounds: int, position: Position | None, *, threads: int | None
) -> npt.NDArray[np.int64]:
    """Winners of rounds, each without the winners of the rounds before; the position as in `select_largest`."""
    found = _short(noise, scores, scale, 1, rounds, position)
    return found if isinstance(found, np.ndarray) else Selection(noise, scores, scale, 1, found, threads=threads).peel(rounds)


def _short(
    noise: SelectionNoise, scores: npt.NDArray[Any], scale: float, keep: int, rounds: int, position: Position | None
) -> npt.NDArray[np.int64] | Position:
    """The elements on this thread, in one call of the kernels; where only a `Selection` can tell them, the position that it is under."""
    size = scores.size
    if 0 < size <= sizes.SMALL * ELEMENTS_PER_UNIT and size * rounds <= _MOST_WORK:
        step = 1 if size <= _selection.UNIT else _visiting_step(-(-size // _selection.UNIT))
        found = _selection.short(NOISES[noise], scores, scale, keep, rounds, step, position, size, Testing, secure_cipher)
        if found is not None:
            return found
    return next_secure() if position is None else position


class Selection:
    """One call: an array of scores, a scale, a position in the keystream."""

    def __init__(
        self,
        noise: SelectionNoise,
        scores: npt.NDArray[Any],
        scale: float,
        keep: int,
        position: Position,
        *,
        threads: int | None,
    ) -> None:
        key, nonce, first, secure = position
        if first % _selection.BLOCK:
            raise ParameterError(f"rng must be at an element that is a multiple of {_selection.BLOCK} for a selection, got {first}")
        cipher = cipher_code(secure=secure)
        self._call = _selection.Call(
            NOISES[noise], scores, scale, keep, _visiting_step(-(-scores.size // _selection.UNIT)), key, nonce, first, cipher,
            Testing.tier, Testing.unpruned, Testing.bound_factor,
        )  # fmt: skip
        self._noise, self._scores, self._scale, self._keep, self._threads = noise, scores, scale, keep, threads
        self._first, self._source = first, (key, nonce, cipher)
        self._excluded: npt.NDArray[np.int64]  # ascending; room for every round of a peeling
        self.evaluated = 0  # elements that pruning did not exclude in `largest`

    def largest(self, round_: int) -> npt.NDArray[np.int64]:
        """Elements with the `keep` largest keys of a round, in descending order of their keys."""
        self._check_room(round_ + 1)
        found = _Candidates(self._keep)

        def visit(start: int, stop: int) -> None:
            spare = 0
            while True:
                status, candidates, threshold, evaluated, _ = self._call.run(round_, start, stop, found.threshold, spare)
                if status == _selection.NONFINITE:
                    self._refuse()
                if status == _selection.DONE:
                    found.add(candidates, threshold, evaluated)
                    return
                spare = max(2 * spare, (stop - start) * _selection.UNIT)

        for_ranges(visit, self._call.n_units, self._threads, elements_per_unit=ELEMENTS_PER_UNIT / _selection.UNIT)
        self.evaluated += found.evaluated
        return self._ranked(found.all(), round_)

    def _check_room(self, rounds: int) -> None:
        if self._first + rounds * self._call.stride > 2**64:
            raise ParameterError(f"rng at element {self._first} has no room for {rounds} rounds over {self._scores.size} scores")

    def winners(self, rounds: int) -> npt.NDArray[np.int64]:
        """Elements with the largest key of each of the rounds 0, 1, …, `rounds` − 1."""
        self._check_room(rounds)
        out = np.empty(rounds, np.int64)
        self.find_bounds()

        def visit(start: int, stop: int) -> None:
            self._call.winners(0, out, start, stop)

        for_ranges(visit, rounds, self._threads, elements_per_unit=ELEMENTS_PER_UNIT / max(_ROUND, self._scores.size))
        for round_ in np.flatnonzero(out < 0):
            out[round_] = self.largest(int(round_))[0]
        return out

    def peel(self, rounds: int) -> npt.NDArray[np.int64]:
        """Winners of rounds, each without the winners of the rounds before."""
        self._check_room(rounds)
        out = np.empty(rounds, np.int64)
        self.find_bounds()
        self._excluded = np.empty(rounds, np.int64)
        for round_ in range(rounds):
            out[round_] = self.winner(round_)
            self._exclude(int(out[round_]), round_)
        return out

    def winner(self, round_: int) -> int:
        """The element with the largest key of a round, for keep = 1."""
        self._check_room(round_ + 1)
        if self._scores.size <= 2 * ELEMENTS_PER_UNIT * CHUNK or self._threads == 1:
            found = np.empty(1, np.int64)
            if self._call.winners(round_, found, 0, 1) >= 0:
                self._refuse()
            if found[0] >= 0:
                return int(found[0])
        return int(self.largest(round_)[0])

    def find_bounds(self) -> None:
        """Store the largest score of each block for all rounds, and refuse scores that are not finite."""
        n_blocks = -(-self._scores.size // _selection.BLOCK)
        self._call.use_bounds(wiped_empty(n_blocks, np.float64))

        def check(start: int, stop: int) -> None:
            if self._call.find_bounds(start, stop) >= 0:
                self._refuse()

        for_ranges(check, n_blocks, self._threads, elements_per_unit=ELEMENTS_PER_UNIT / _selection.BLOCK)

    def _refuse(self) -> NoReturn:
        check_finite("scores", self._scores)
        raise DataError("scores must not be changed by another thread during the call")

    def _exclude(self, winner: int, before: int) -> None:
        """Leave out one element more than the `before` first winners."""
        excluded = self._excluded
        place = int(np.searchsorted(excluded[:before], winner))
        excluded[place + 1 : before + 1] = excluded[place:before]
        excluded[place] = winner
        self._call.exclude(excluded[: before + 1], winner)

    def _ranked(self, candidates: npt.NDArray[np.void], round_: int) -> npt.NDArray[np.int64]:
        """The `keep` largest of the candidates; runs that their errors leave in doubt are ranked by the exact tier."""
        order = np.lexsort((-candidates["low"], -candidates["high"]))
        ranked = candidates[order]
        result = ranked["index"].copy()
        for start, stop in _doubtful_runs(ranked):
            if start < self._keep:
                result[start:stop] = self._rank_exactly(result[start:stop].tolist(), round_)
        return result[: self._keep]

    def _rank_exactly(self, elements: Sequence[int], round_: int) -> list[int]:
        from dpcore._exact.handover import rank_contenders  # the exact tier, which most processes do not need

        first = self._first + round_ * self._call.stride
        scores = {index: _clamped(self._scores[index].item()) for index in elements}
        return rank_contenders(self._noise, KernelWords(*self._source), first, scores, self._scale)


class _Candidates:
    """The candidates that the threads have found so far, and the threshold that they share."""

    def __init__(self, keep: int) -> None:
        self.threshold: Threshold | None = None
        self.evaluated = 0
        self._keep = keep
        self._found: list[npt.NDArray[np.void]] = []
        self._lock = threading.Lock()

    def add(self, candidates: bytes, threshold: Threshold | None, evaluated: int) -> None:
        """Merge one range's candidates."""
        with self._lock:
            self.evaluated += evaluated
            self._found.append(np.frombuffer(candidates, CANDIDATE))
            if threshold is not None and (self.threshold is None or threshold > self.threshold):
                self.threshold = threshold

    def all(self) -> npt.NDArray[np.void]:
        """Everything found, in no order."""
        return np.concatenate(self._found)


def _doubtful_runs(ranked: npt.NDArray[np.void]) -> list[tuple[int, int]]:
    """Maximal runs of neighbours in a descending ranking whose intervals key ± error overlap."""
    error = ranked["error"]
    if not np.isfinite(error).all():
        return [(0, len(ranked))]
    # Neighbours do not suffice where errors differ: an interval reaches as far as the widest one around it.
    gap = (ranked["high"][:-1] - ranked["high"][1:]) + (ranked["low"][:-1] - ranked["low"][1:])
    doubtful = np.flatnonzero(gap <= 2.0 * error.max(initial=0.0))
    runs: list[tuple[int, int]] = []
    for i in doubtful.tolist():
        if runs and runs[-1][1] == i + 1:
            runs[-1] = (runs[-1][0], i + 2)
        else:
            runs.append((i, i + 2))
    return runs


def _clamped(score: float) -> Fraction:
    return min(max(Fraction(score), -LARGEST_SCORE), LARGEST_SCORE)
