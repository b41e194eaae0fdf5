"""Reports of points of a projective space, and the counts of all its hyperplanes. Arguments are valid."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dpcore._backend.response import Law, new_array
from dpcore._backend.threads import for_ranges
from dpcore._backend.words import Position
from dpcore._exact.probability import Probability
from dpcore._kernels import _response

Counts = npt.NDArray[np.int64]
Table = npt.NDArray[np.uint16]


class ProjectiveSpace:
    """The vectors of t elements of a field of q, and what the kernels need of both.

    Parameters
    ----------
    q, t : int
        q ≥ 2, t ≥ 3, with fewer than 2^31 points.
    minus_one : int
        The element −1.
    log, exp : ndarray of uint16, shapes (q,) and (2q,)
        Logarithms, of 0 anything, and powers of the element whose logarithm is 1.
    sums : ndarray of uint16, shape (q·q,), or None
        a + b at qa + b; None for integers modulo q.
    """

    def __init__(self, q: int, t: int, minus_one: int, log: Table, exp: Table, sums: Table | None) -> None:
        self.q, self.t, self.log, self.exp, self.sums = q, t, log, exp, sums
        self.field = _response.Field(q, t, minus_one, log, exp, sums)
        for table in (log, exp, sums):
            if table is not None:
                table.flags.writeable = False

    def law(self, inclusion: Probability, hyperplane: int, points: int, k: int, unknown: int | None) -> Law:
        """The law of a randomiser."""
        return Law(_response.PROJECTIVE, (inclusion,), (), k, unknown, hyperplane, points, 0.0, None, field=self.field)


def projective_response(
    codes: npt.NDArray[Any], law: Law, position: Position, *, threads: int | None, out: npt.NDArray[np.uint32] | None = None
) -> npt.NDArray[np.uint32]:
    """Numbers of points: one of the code's hyperplane with the law's probability, else another one; any shape."""
    result = new_array(out, codes.shape, np.uint32)
    law.run(
        codes, result.reshape(-1).view(np.uint8), position, size=codes.size, is_fresh=out is None, threads=threads, elements_per_unit=0.1
    )
    return result


def line_law(inclusion: Probability, k: int, unknown: int | None) -> Law:
    """The law of k points without a field, each of which is a hyperplane."""
    return Law(_response.PROJECTIVE, (inclusion,), (), k, unknown, 1, k, 0.0, None)


def hyperplane_counts(space: ProjectiveSpace, counts: Counts, *, threads: int | None) -> Counts:
    """For each hyperplane the sum of the counts of its points. Source: docs/exactness-local.md, "Projective geometry"."""
    q, sums, known = space.q, counts, counts[None]
    for _ in range(2, space.t + 1):
        sums = sums[1:].reshape(-1, q).sum(axis=1)  # over the first coordinate of those left
        found = np.empty((1 + q * len(known), len(sums)), np.int64)
        found[0] = sums
        _add_lines(space, known, found[1:], threads)
        known = found
    return counts.sum() - known[:, 0]  # type: ignore[no-any-return]


def _add_lines(space: ProjectiveSpace, known: Counts, found: Counts, threads: int | None) -> None:
    def work(start: int, stop: int) -> None:
        _response.line_sums(space.field, known, start, stop, found)

    for_ranges(work, len(found), threads, elements_per_unit=4 / known.shape[1])
