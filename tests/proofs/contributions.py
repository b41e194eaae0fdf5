"""The bounds that all kinds of queries are made of, beside enumerations of small tables, and the duals of private channels for every ε."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from proofs.bits import solver
from proofs.enumerations import RELATIONS, Numbers, Relation, Row, by_group, largest_moves
from proofs.lemmas import Context, Lemma, ProofError
from proofs.sensitivities import OTHERS, ROUNDED, SIGNED, C, G, X, ranks, rows_with


def contributions() -> Iterator[tuple[Relation, Any]]:
    """Relations, and what the engine counts on under each."""
    from dpcore.query.sensitivity import Contribution

    for relation in RELATIONS:
        replaced = relation.relation == "replace"
        yield relation, Contribution(relation.rows, replaced, replaced and not relation.unit, relation.most_groups)


def _compare(what: str, relation: Relation, rows: Sequence[Row], statistic: Any, said: Any, group: Any = None) -> None:
    ((l1, square),) = largest_moves(relation, rows, OTHERS, lambda others, own: [statistic([*others, *own])], group)
    claim, claim_l2 = Fraction(said.l1), Fraction(said.l2)
    if l1 != claim or not square <= claim_l2**2 <= square * ROUNDED:
        raise ProofError(f"{what}, {relation}: at most {l1} and √{square}, and the engine says {claim} and {float(claim_l2)}")


def check_contributions(context: Context) -> None:
    """Each bound of `Contribution` is the largest change of its statistic, exactly."""
    categories = rows_with(categories=(0, 1, 2), groups=("a",))
    for relation, bound in contributions():
        plain = Relation(relation.relation, relation.rows, relation.unit)
        _compare("histograms", plain, categories, lambda rows: [sum(row[C] == k for row in rows) for k in range(3)], bound.cells)
        two = tuple(("a", x, c) for x in (Fraction(0), Fraction(1)) for c in (0, 1))
        _compare(
            "two histograms",
            plain,
            two,
            lambda rows: [sum(row[place] == k for row in rows) for place in (X, C) for k in (0, 1)],
            bound.histograms(2),
        )
        some = bound.of_some_rows()
        _compare("counts", plain, rows_with(categories=(0, 1), groups=("a",)), lambda rows: [sum(row[C] for row in rows)], some.count)
        for low, high in SIGNED.values():
            _check_totals(plain, bound, low, high)
        _check_ranks(plain, bound)
        _check_moved(plain, bound)
        if relation.unit:
            _check_units(relation, bound)


def _check_totals(relation: Relation, bound: Any, low: Fraction, high: Fraction) -> None:
    numbers = tuple(("a", x, 0) for x in (low, (low + high) / 2, high))
    _compare(
        f"sums in [{low}, {high}]",
        relation,
        numbers,
        lambda rows: [sum((row[X] for row in rows if row[X] in (low, high, (low + high) / 2)), Fraction(0))],
        bound.total(low, high),
    )
    grouped = tuple((name, x, 0) for name in ("a", "b", None) for x in (low, high))
    _compare(
        f"sums for groups in [{low}, {high}]",
        relation,
        grouped,
        lambda rows: by_group(rows, ("a", "b"), G, lambda row: row[X]),
        bound.totals(low, high),
    )


def _check_ranks(relation: Relation, bound: Any) -> None:
    for level in (Fraction(1, 2), Fraction(3, 10), Fraction(9, 10)):
        rows = tuple(("a", Fraction(x), 0) for x in (0, 1))
        ((l1, _),) = largest_moves(relation, rows, OTHERS, functools.partial(_ranks, level))
        if l1 * level.denominator != bound.rank(level):
            raise ProofError(f"ranks at {level}, {relation}: at most {l1}, and the engine says {bound.rank(level)}/{level.denominator}")


def _ranks(level: Fraction, others: Sequence[Row], own: Sequence[Row]) -> Sequence[Numbers]:
    return ranks(level, (Fraction(0),))(others, own, None, Relation("replace"))


def _check_moved(relation: Relation, bound: Any) -> None:
    """Steps of one row: rows that are taken away, and put in their place."""
    rows = tuple(("a", None, c) for c in range(2 * relation.rows))
    most = 0
    for one, other in relation.pairs(rows, None):
        kept = sum(min(one.count(row), other.count(row)) for row in set(one))
        most = max(most, len(one) + len(other) - 2 * kept)
    if most != bound.moved:
        raise ProofError(f"rows that are moved, {relation}: {most}, and the engine says {bound.moved}")


def _check_units(relation: Relation, bound: Any) -> None:
    names = tuple("abcdefg")
    rows = tuple((name, None, 0) for name in names)
    for groups in (1, 2, 3, len(names)):
        declared = names[:groups]

        def statistic(others: Sequence[Row], own: Sequence[Row], declared: Sequence[str] = declared) -> Sequence[Numbers]:
            return [[int(any(row[G] == name for row in own)) for name in declared]]

        ((l1, square),) = largest_moves(relation, rows, [()], statistic, lambda row: row[G])
        said = bound.units(groups)
        if l1 != Fraction(said.l1) or not square <= Fraction(said.l2) ** 2 <= square * ROUNDED or l1 != bound.touched(groups):
            raise ProofError(
                f"units of {groups} groups, {relation}: at most {l1}, and the engine says {said.l1} and {bound.touched(groups)}"
            )


@dataclass(frozen=True)
class Whole:
    """A column of whole steps from 0 to `most`."""

    most: int


@dataclass(frozen=True)
class Columns:
    """What the engine's formulas ask of an estimator of moments."""

    steps: tuple[Whole, ...]
    whole: Any
    squared_step: Fraction = Fraction(1)

    @property
    def both(self) -> tuple[Whole, Whole]:
        return self.steps[0], self.steps[-1]


def check_moments(context: Context) -> None:
    """Second moments about given centres, and n·Σxy − Σx·Σy, in whole steps."""
    from dpcore.mechanisms import Laplace
    from dpcore.query.kinds.moments import MomentEstimator

    most, other = 3, 2
    columns: Any = Columns((Whole(most), Whole(other)), Laplace(1.0, 1.0))
    for c, d in itertools.product(range(most + 1), range(other + 1)):
        terms = [(x - c) * (y - d) for x in range(most + 1) for y in range(other + 1)]
        low, high = MomentEstimator._terms(columns, (c, d))
        if (low, high) != (min(terms), max(terms)):
            raise ProofError(f"products about {c} and {d} are in [{min(terms)}, {max(terms)}], and the engine says [{low}, {high}]")
        rows = tuple(("a", Fraction(x), 0) for x in dict.fromkeys((low, high, 0)))
        for relation, bound in contributions():
            if relation.rows == 1:
                _compare(f"second moments about {c}, {d}", relation, rows, _sum_of, bound.total(low, high))
    for n in (1, 2, 3, 4):
        found, said = _largest_centred(n, most, other), MomentEstimator._whole_noise(columns, n).sensitivity
        if found > said or (n > 1 and found != said):
            raise ProofError(f"n·Σxy − Σx·Σy of {n} rows moves by {found}, and the engine says {said}")


def _sum_of(rows: Sequence[Row]) -> Numbers:
    """The sum of the products that rows hold; those of others hold something else."""
    return [sum((row[X] for row in rows), Fraction(0))]


def _largest_centred(n: int, most: int, other: int) -> int:
    corners = list(itertools.product(range(most + 1), range(other + 1)))
    ends = [(x, y) for x in (0, most) for y in (0, other)]
    found = 0
    for rest in itertools.combinations_with_replacement(ends if n > 3 else corners, n - 1):
        values = []
        for row in corners:
            rows = [*rest, row]
            values.append(n * sum(x * y for x, y in rows) - sum(x for x, _ in rows) * sum(y for _, y in rows))
        found = max(found, max(values) - min(values))
    return found


def check_bounded_sums(context: Context) -> None:
    """A sum to which each unit adds at most C in absolute value: C, or 2C where signs differ and units are replaced."""
    from dpcore.query.sensitivity import Contribution

    most = Fraction(6)
    for relation in ("replace", "add_remove"):
        for low, high in ((-most, most), (Fraction(0), most), (-most, Fraction(0))):
            bound = Contribution(1, relation == "replace", n_is_public=False)
            one = [(x,) for x in (low, Fraction(0), high)]
            two = [pair for pair in itertools.product((low, Fraction(0), high, high / 2, low / 2), repeat=2) if sum(map(abs, pair)) <= most]
            for totals, said in ((one, bound.total(low, high)), (two, bound.totals(low, high))):
                moved = [
                    [abs(a - b) for a, b in zip(x, y, strict=True)]
                    for x in totals
                    for y in (totals if relation == "replace" else [(Fraction(0),) * len(x)])
                ]
                l1, square = max(map(sum, moved)), max(sum(x * x for x in each) for each in moved)
                if l1 != Fraction(said.l1) or not square <= Fraction(said.l2) ** 2 <= square * ROUNDED:
                    raise ProofError(f"sums of units, {relation}, [{low}, {high}]: at most {l1}, and the engine says {said.l1}")


# Duals of private channels


def check_duals(context: Context) -> None:
    """For every E > 1 the multipliers charge each column of a private channel at least what it gains."""
    from dpcore.minimax.spaces.contraction import _multipliers

    z3 = solver()
    E = z3.Real("E")
    unit = 1 / ((E + 2) * (E - 1))
    low, high = (1 / E, 1 / E, -1 / E), (E * unit, E * unit, -2 * unit)
    claims = []
    for y, where in ((low, z3.And(E > 1, E <= 2)), (high, E > 2)):
        for column in itertools.product((z3.RealVal(1), E), repeat=3):
            gain = z3.RealVal(0) if column[0] is column[1] else 1 / column[2]
            claims.append(z3.Implies(where, sum(a * b for a, b in zip(y, column, strict=True)) >= gain))
        total = sum(y)
        claims.append(z3.Implies(where, total <= z3.If(1 / E > 2 / (E + 2), 1 / E, 2 / (E + 2))))
    for a, b in itertools.product((z3.RealVal(1), E), repeat=2):
        gain = z3.RealVal(0) if a is b else 1 / b
        claims.append(z3.Implies(E > 1, a / E >= gain))
    for claim in claims:
        found = z3.Solver()
        found.set("timeout", 60_000)
        found.add(E > 1, z3.Not(claim))
        if found.check() != z3.unsat:
            raise ProofError(f"the multipliers are not feasible: {claim}")
    for value in (Fraction(9, 8), Fraction(2), Fraction(17, 8), Fraction(40)):
        step = 1 / ((value + 2) * (value - 1))
        expected = (1 / value, 1 / value, -1 / value) if value <= 2 else (value * step, value * step, -2 * step)
        if _multipliers(value) != expected:
            raise ProofError(f"the engine has other multipliers at E = {value}")


LEMMAS = (
    Lemma(
        "contributions",
        "Each bound of counts, histograms, sums, ranks, units, touched groups and moved rows is the largest change, exactly.",
        "machine",
        "enumeration",
        (),
        check_contributions,
    ),
    Lemma(
        "second-moments",
        "Products about given centres lie between the engine's ends, and n·Σxy − Σx·Σy moves by (n − 1)·w·w′.",
        "machine",
        "enumeration",
        (),
        check_moments,
    ),
    Lemma("sums-of-units", "A sum to which each unit adds at most C moves by C or 2C.", "machine", "enumeration", (), check_bounded_sums),
    Lemma(
        "staircase-duals",
        "For every ε > 0 the multipliers of the contraction constant are feasible for all columns with entries 1 and e^ε.",
        "machine",
        "z3",
        (),
        check_duals,
    ),
)
