r"""How far one privacy unit can move each answer of a release job: all sensitivities are derived here.

A unit owns at most m rows (m = 1 if the unit is the row; otherwise the excess was dropped before anything was computed). Neighbouring
tables differ

- under `add_remove` by the presence of one unit: its k ≤ m rows are there or not;
- under `replace` by what one unit's rows hold. If the unit is the row, one row turns into another and n is public. Otherwise the
  unit's k ≤ m rows turn into any k' ≤ m rows: some are taken away and others are put in their place, and n is private.

| answer | add_remove | replace, unit = row | replace, another unit |
|---|---|---|---|
| one count | m | 1 | m |
| histogram, a count or a histogram for each group, ℓ1 | m | 2 | 2m |
| the same, ℓ2 | m | √2 | √2·m |
| G histograms of the same rows, ℓ1 | G·m | 2G | 2G·m |
| the same, ℓ2 | √G·m | √(2G) | √(2G)·m |
| sum of x in [L, U], M = max(\|L\|, \|U\|) | m·M | U − L | m·(max(U, 0) − min(L, 0)) |
| sum for each group, ℓ1 | m·M | 2M | 2m·M |
| the same, ℓ2 | m·M | max(√2·M, V), V = max(U, 0) − min(L, 0) | m·max(√2·M, V) |
| Σ(x − c)(y − d), terms in [P, Q], P ≤ 0 ≤ Q, given c and d | m·max(−P, Q) | Q − P | m·(Q − P) |
| the same for each group, over max(−P, Q) of the group, ℓ1; ℓ2 | m; m | 2m; √2·m (P = 0), 2m | 2m; √2·m (P = 0), 2m |
| n·Σxy − Σx·Σy, widths w and w' of the bounds | – | (n − 1)·w·w' | – |
| rank #{x ≤ g} − q·n | m·max(q, 1−q) | 1 | m |
| one candidate's count | m | 1 | m |
| different values, at most k of each unit | k | 1 | k |
| different values for each group, at most k pairs of both, ℓ1; ℓ2 | k; k | 2; √2 | 2k; √2·k |
| units | 1 | – | 1 |
| units for each group, of t touched groups, ℓ1; ℓ2 | t; √t | – | t; √t |
| sum of which each unit has at most C in absolute value | C | – | C if all x have one sign, else 2C |
| the same for each group, ℓ1; ℓ2 | C; C | – | 2C; √2·C if all x have one sign, else 2C |
| rows that a choice for each group pays for | m | 2 | 2m |
| groups that a unit touches, at most γ of G | min(G, m, γ) | min(G, 2) | min(G, 2·min(m, γ)) |

**Filters.** A condition on rows (`where`, on the job or on a query) is a function of one row, and so are derived columns and public
look-ups, whose keys are unique: a row stays one row, or none. Neighbours differ after them in the rows of one unit, as before, at most m
on either side; but if the unit is the row, the row may pass in one table and not in the other. It is then a unit that has k ≤ 1 rows in
one table and k' ≤ 1 in the other, and n is private: the last column holds, with m = 1. Only what used that n is public changes. The sum
of x in [L, U] may lose a row of value v and gain one of value w, v, w in [L, U] or no row, which is 0: it moves by at most the largest
difference within [min(L, 0), max(U, 0)], max(U, 0) − min(L, 0), in place of U − L. A mean divides by a count that is charged, and the
count of all rows is no longer free. The condition of the job is applied before rows of a unit are chosen, so that rows that do not pass
use up nothing of its m; the choice is still a function of the unit's rows and of words that do not depend on data. That of a query is
applied after it, to the k ≤ m rows that were chosen, of which it leaves k or fewer.

Why. A histogram loses a vector a ≥ 0 of counts and gains b ≥ 0, ‖a‖₁, ‖b‖₁ ≤ m, and one of them is 0 under add_remove. So
‖b − a‖₁ ≤ 2m and ‖b − a‖₂² ≤ ‖a‖₂² + ‖b‖₂² ≤ 2m², reached when all rows of one cell move into another. **Under replacement the cells of
a histogram do not compose in parallel**: two of them change, which is what the factors 2 and √2 pay for. Of G histograms
of the same rows, over other columns each, every one changes like that, and squares add up. A sum of k ≤ m terms in [L, U]
lies in [m·min(L, 0), m·max(U, 0)], and so does its replacement; with the number of rows fixed one term moves by U − L. Sums for groups
lose a and gain b, each in the convex hull of 0 and the vectors m·v·e_i, v ∈ {L, U}; a norm of b − a is largest at corners, where it is
m·|v − w| in one group or m·‖(v, w)‖ in two. Second moments
about given centres are such sums, of terms (x − c)(y − d) in [P, Q]: for a variance P = 0 and Q = max(U − c, c − L)², which is between a
quarter of (U − L)² and all of it. With a centre that is another one for each group the bounds differ between groups; divided by
max(−P, Q) of their group all terms lie in [−1, 1], or in [0, 1], and noise for these is multiplied again. n·Σxy − Σx·Σy, as a function of
one row with the sums X, Y of the other n − 1 rows, is (n − 1)·(x − X/(n−1))·(y − Y/(n−1)) plus what does not depend on that row. In
fractions a, b ∈ [0, 1] of the widths above the centres the products of a rectangle span max(ab, (1−a)(1−b)) + max(a(1−b), (1−a)b) ≤ 1
widths: say a ≥ b and a + b ≥ 1, then it is ab + a(1−b) = a, and the other cases are this one mirrored. It is (n − 1)·w·w' where all
others are at a corner. Where rows without a value are skipped, a row may also turn from one that counts into one that does not: the
number of the others is private, the columns for another unit hold with m = 1, and the sum of a row's term moves by max(U, 0) − min(L, 0)
where U − L was enough. A rank loses c − q·k and gains c' − q·k', 0 ≤ c ≤ k ≤ m, terms in [−q·m, (1−q)·m]: apart by at most m, and one
alone at most m·max(q, 1−q). A count of one candidate changes by at most m, and what one gains another may lose under replacement: only
under add_remove do all counts move the same way (`monotone`).

**Groups.** A row is in one declared group or in none, over one column or over several. Counts for groups are a histogram whose cells are
the groups, and histograms for groups are one whose cells are pairs of a group and a cell: the bounds above hold, whether or not rows are
in no group, since then the norm of a or b is less. The numbers of rows of the groups are private even where that of all rows is public.

An answer for each group that is a choice (a quantile, the top s) is not calibrated by norms. Let M_g be ε_g-private where one row is
added to group g or removed from it, and let the M_g draw independently. A unit's k ≤ m rows are taken away one by one, and its k' ≤ m new
ones put in one by one: k steps under add_remove, k + k' ≤ 2m under replace. Each step adds or removes one row of one group, or of none:
the data of all other groups stay as they are, their answers keep their laws, and the probability of any joint answer changes by a factor
of at most e^ε_g. So all groups together are (m·ε_g)-private under add_remove and (2m·ε_g)-private under replace, and ε_g = ε/m or ε/(2m).
This is never worse than to split ε over the groups that a unit touches, each of which might then hold all m rows. With a δ, let κ be the
number of steps. The top s of each group are s rounds (picks, and then values). In one round a pick of a group is ε₁-bounded-range or
ε₁-private for one row of it, given the rounds before, and the groups draw independently: of κ_g steps in group g, Σκ_g ≤ κ, the picks of
all groups together are κ·ε₁-bounded-range or private, since log-ratios and their ranges add up over steps and over independent draws. So s
rounds of all groups compose as s rounds of one selection of sensitivity κ do, by the same rules. Fresh values are taken as private uses
only, since Laplace noise that several groups draw apart is not one Laplace draw. The one-shot method is (ε₁, δ₁)-private for one row of a
group; κ steps make (κ·ε₁, δ₁·Σ_{i<κ} e^(i·ε₁)). (With one group no row
enters another: it is calibrated like a query without groups, whose bounds do not need that the number of rows is public.)
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

from dpcore._dataclasses import dataclass
from dpcore._exact.intervals import fraction_up

SQRT2_UP = Fraction(6369051672525773, 2**52)
"""The smallest float64 ≥ √2, exactly."""


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """The sensitivity of the numbers that are released together.

    Attributes
    ----------
    l1, l2 : float
        In each norm, rounded up; of counts an integer in ℓ1.
    alone : bool
        Whether it is a single number.
    """

    l1: float
    l2: float
    alone: bool


@dataclass(frozen=True, slots=True)
class Contribution:
    """The largest contribution of one unit to a table.

    Attributes
    ----------
    rows : int
        Rows m that a unit owns at most.
    replaced : bool
        Whether a neighbour's unit is another one, and not absent.
    n_is_public : bool
        Whether neighbours have equally many rows.
    groups : int or None
        Groups γ that a unit's rows are in at most; None if only their number m limits it.
    """

    rows: int
    replaced: bool
    n_is_public: bool
    groups: int | None = None

    def of_some_rows(self) -> Contribution:
        """The same for a statistic of those rows that have a value: how many there are is private."""
        return replace(self, n_is_public=False)

    @property
    def count(self) -> Sensitivity:
        """Sensitivity of the number of rows, of some of them, or of one candidate's."""
        return Sensitivity(self.rows, self.rows, alone=True)

    @property
    def cells(self) -> Sensitivity:
        """Sensitivity of a histogram, or of a count for each group."""
        return self.histograms(1)

    def histograms(self, count: int) -> Sensitivity:
        """Sensitivity of several histograms of the same rows together."""
        moved = 2 * count if self.replaced else count
        return Sensitivity(moved * self.rows, fraction_up(_root_up(moved * self.rows**2)), alone=False)

    def total(self, lower: float, upper: float) -> Sensitivity:
        """Sensitivity of a sum of numbers in [lower, upper]."""
        low, high = Fraction(lower), Fraction(upper)
        if self.n_is_public:
            exact = high - low
        elif self.replaced:
            exact = self.rows * _reach(low, high)
        else:
            exact = self.rows * max(abs(low), abs(high))
        return Sensitivity(fraction_up(exact), fraction_up(exact), alone=True)

    def totals(self, lower: float, upper: float) -> Sensitivity:
        """Sensitivity of a sum for each group."""
        low, high = Fraction(lower), Fraction(upper)
        most = max(abs(low), abs(high))
        if not self.replaced:
            return Sensitivity(fraction_up(self.rows * most), fraction_up(self.rows * most), alone=False)
        l2 = max(SQRT2_UP * most, _reach(low, high))
        return Sensitivity(fraction_up(2 * self.rows * most), fraction_up(self.rows * l2), alone=False)

    def rank(self, level: Fraction) -> int:
        """Sensitivity of the rank #{x ≤ g} − q·n, times the denominator of q: an integer."""
        if self.replaced:
            return self.rows * level.denominator
        return self.rows * max(level.numerator, level.denominator - level.numerator)

    def units(self, groups: int) -> Sensitivity:
        """Sensitivity of the number of units for each group."""
        touched = self.touched(groups)
        return Sensitivity(touched, fraction_up(_root_up(touched)), alone=False)

    @property
    def moved(self) -> int:
        """Rows that are taken away and put in their place, at most: each costs what one row does that is added or removed."""
        return 2 * self.rows if self.replaced else self.rows

    @property
    def of_one_row(self) -> Contribution:
        """The contribution of a single row that is added or removed."""
        return Contribution(1, replaced=False, n_is_public=False)

    def touched(self, groups: int) -> int:
        """Return how many of all groups may have other rows."""
        one = self.rows if self.groups is None else min(self.rows, self.groups)
        return min(groups, 2 * one if self.replaced else one)


def _root_up(square: int) -> Fraction:
    """√square, or a little more; exact for squares."""
    return Fraction(math.isqrt((square << 128) - 1) + 1, 1 << 64)


def _reach(low: Fraction, high: Fraction) -> Fraction:
    return max(high, Fraction(0)) - min(low, Fraction(0))
