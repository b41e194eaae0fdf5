r"""How far one privacy unit can move each answer of a release job: the one place where sensitivities are derived.

A unit owns at most m rows (m = 1 if the unit is the row; otherwise the excess was dropped before anything was computed). Neighbouring
tables differ

- under `add_remove` by the presence of one unit: its k ≤ m rows are there or not;
- under `replace` by what one unit's rows hold. If the unit is the row, one row turns into another and n is public. Otherwise the
  unit's k ≤ m rows turn into any k' ≤ m rows: some are taken away and others are put in their place, and n is private.

| answer | add_remove | replace, unit = row | replace, another unit |
|---|---|---|---|
| count of all rows | m | 1 (n is public: any noise would do) | m |
| count of some rows | m | 1 | m |
| histogram, ℓ1 | m | 2 | 2m |
| histogram, ℓ2 | m | √2 | √2·m |
| sum of x in [L, U] | m·max(\|L\|, \|U\|) | U − L | m·(max(U, 0) − min(L, 0)) |
| sum of x − c in [−h, h] | m·h | 2h | 2·m·h |
| rank #{x ≤ g} − q·n | m·max(q, 1−q) | 1 | m |
| one candidate's count | m | 1 | m |

Why. A histogram loses a vector a ≥ 0 of counts and gains b ≥ 0, ‖a‖₁, ‖b‖₁ ≤ m, and one of them is 0 under add_remove. So
‖b − a‖₁ ≤ 2m, ‖b − a‖₂² ≤ ‖a‖₂² + ‖b‖₂² ≤ 2m², reached when all rows of one cell move into another. **Under replacement the cells of
a histogram do not compose in parallel**: two of them change (document 001's convention; spec of `dpcore.accounting.parallel`), which
is what the factors 2 and √2 pay for. A sum of k ≤ m terms in [L, U] lies in [m·min(L, 0), m·max(U, 0)], and so does its replacement.
A rank loses c − q·k and gains c' − q·k', 0 ≤ c ≤ k ≤ m, terms in [−q·m, (1−q)·m]: apart by at most m, and one alone at most
m·max(q, 1−q). A count of one candidate changes by at most m, and by what another candidate loses it gains under replacement: only
under add_remove do all counts move the same way (`monotone`).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from dpcore._intervals import fraction_up

if TYPE_CHECKING:
    from dpcore.batch.release_job import ReleaseJob


@dataclass(frozen=True, slots=True)
class Contribution:
    """What one unit may do to a table.

    Attributes
    ----------
    rows : int
        Rows m that a unit owns at most.
    replaced : bool
        Whether a neighbour's unit is another one, and not absent.
    n_is_public : bool
        Whether neighbours have equally many rows.
    """

    rows: int
    replaced: bool
    n_is_public: bool

    @property
    def count(self) -> int:
        """Of the number of rows, or of some of them."""
        return self.rows

    @property
    def cells_l1(self) -> int:
        """Of a histogram, in ℓ1."""
        return 2 * self.rows if self.replaced else self.rows

    @property
    def cells_l2(self) -> float:
        """Of a histogram, in ℓ2, rounded up."""
        return fraction_up(self.rows * SQRT2_UP) if self.replaced else float(self.rows)

    def total(self, lower: float, upper: float) -> float:
        """Of a sum of numbers in [lower, upper], rounded up."""
        low, high = Fraction(lower), Fraction(upper)
        if self.n_is_public:
            return fraction_up(high - low)
        if self.replaced:
            return fraction_up(self.rows * (max(high, Fraction(0)) - min(low, Fraction(0))))
        return fraction_up(self.rows * max(abs(low), abs(high)))

    def centred_total(self, half_width: float) -> float:
        """Of a sum of numbers in [−half_width, half_width], rounded up."""
        return self.total(-half_width, half_width)

    def rank(self, numerator: int, denominator: int) -> int:
        """Of `denominator` times the rank #{x ≤ g} − q·n, q = numerator/denominator: an integer."""
        if self.replaced:
            return self.rows * denominator
        return self.rows * max(numerator, denominator - numerator)


SQRT2_UP = Fraction(6369051672525773, 2**52)
"""The smallest float64 ≥ √2, exactly."""


def contribution(job: ReleaseJob) -> Contribution:
    """What one unit of a job may do."""
    return Contribution(job.privacy.rows_per_unit, job.privacy.relation == "replace", job.n_is_public)
