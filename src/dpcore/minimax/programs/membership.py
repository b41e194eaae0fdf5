"""How far a distribution lies outside of a region."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dpcore._exact.intervals import fraction_up
from dpcore.minimax.programs.program import HasRegion, Program

Array = npt.NDArray[np.float64]


def distance_to(model: HasRegion, p: Array) -> float:
    """Return the total variation distance of p to the nearest member, up to the tolerance of the solver."""
    program = Program()
    member, more = program.member(model), program.variables(len(p))
    program.at_most(member - more, p)
    program.at_most(-1.0 * member - more, -p)
    return max(-program.maximise(-np.ones(len(p)) @ more).value / 2, 0.0)


def excess(model: HasRegion, p: Array) -> float:
    """Return by how much p violates a condition at most, in units of its largest coefficient, exactly and rounded up; 0 for members.

    p is scaled to the sum 1. For mixtures and other models with more variables than points, the result is the distance to a member.
    """
    region = model.region
    if region.image.shape[1] != len(p) or (region.image - sp.eye_array(len(p))).nnz:
        return distance_to(model, p)
    masses = [max(Fraction(mass), Fraction(0)) for mass in p.tolist()]
    total, worst, rows = sum(masses, Fraction(0)), Fraction(0), region.below
    for row, bound in enumerate(region.at_most.tolist()):
        part = slice(rows.indptr[row], rows.indptr[row + 1])
        coefficients = list(zip(rows.indices[part].tolist(), map(Fraction, rows.data[part].tolist()), strict=True))
        size = max((abs(coefficient) for _, coefficient in coefficients), default=Fraction(0))
        reached = sum((coefficient * masses[column] for column, coefficient in coefficients), Fraction(0)) / total
        worst = max(worst, (reached - Fraction(bound)) / size if size else Fraction(0))
    return fraction_up(worst)
