"""The sensitivities of all kinds of queries beside enumerations of small tables."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from proofs.enumerations import RELATIONS, Numbers, Relation, Row, by_group, clamped, largest_moves
from proofs.lemmas import Context, Lemma, ProofError

GROUPS = ("a", "b", "c")
NAMES = (*GROUPS, None)
"""Groups that are declared, and none of them."""
LOWER, UPPER = Fraction(-2), Fraction(5)
NUMBERS = (Fraction(-9), Fraction(-2), Fraction(1), Fraction(5), Fraction(9), None)
"""Below the bounds, at both, inside and beyond, and missing."""
SIGNED = {
    "below 0": (Fraction(-5), Fraction(-1)),
    "around 0": (LOWER, UPPER),
    "above 0": (Fraction(1), Fraction(4)),
    "from 0": (Fraction(0), Fraction(3)),
}
"""Bounds of sums."""
G, X, C = 0, 1, 2
"""Columns of a row: its group, a number, a category."""


@dataclass(frozen=True)
class Case:
    """One query, and what it adds up, in plain Python.

    Attributes
    ----------
    query : dict
        The query of a job.
    rows : tuple
        What one row may hold.
    parts : callable
        Of the rows of others and of a unit, and the groups: the numbers of each draw of noise, in the order of the plan.
    fits : callable
        Whether the query can be asked under a relation.
    tight : bool
        Whether the claimed sensitivity is reached, in ℓ1 and in ℓ2.
    grouped : bool
        Whether it may be asked for groups.
    said : callable or None
        What the estimator says that each part moves by, where that is not the sensitivity of its noise.
    """

    query: dict[str, Any]
    rows: tuple[Row, ...]
    parts: Callable[[Sequence[Row], Sequence[Row], Sequence[str] | None, Relation], Sequence[Numbers]]
    fits: Callable[[Relation, bool], bool] = field(default=lambda relation, grouped: True)
    tight: bool = True
    grouped: bool = True
    said: Callable[[Any], list[Fraction]] | None = None


def rows_with(numbers: Sequence[Any] = (None,), categories: Sequence[Any] = (0,), groups: Sequence[Any] = NAMES) -> tuple[Row, ...]:
    return tuple(itertools.product(groups, numbers, categories))


def counts(match: Callable[[Row], bool]) -> Any:
    def parts(others: Sequence[Row], own: Sequence[Row], groups: Sequence[str] | None, relation: Relation) -> Sequence[Numbers]:
        return [by_group([*others, *own], groups, G, lambda row: int(match(row)))]

    return parts


def cells(size: int) -> Any:
    def parts(others: Sequence[Row], own: Sequence[Row], groups: Sequence[str] | None, relation: Relation) -> Sequence[Numbers]:
        everything = [*others, *own]
        return [[x for cell in range(size) for x in by_group(everything, groups, G, lambda row, cell=cell: int(row[C] == cell))]]

    return parts


def sums(lower: Fraction, upper: Fraction, missing: Fraction | None) -> Any:
    def parts(others: Sequence[Row], own: Sequence[Row], groups: Sequence[str] | None, relation: Relation) -> Sequence[Numbers]:
        return [by_group([*others, *own], groups, G, lambda row: clamped(row[X], lower, upper, missing))]

    return parts


def means(lower: Fraction, upper: Fraction, missing: Fraction | None) -> Any:
    """A sum over a public number of rows; else distances from the middle, and a count."""

    def parts(others: Sequence[Row], own: Sequence[Row], groups: Sequence[str] | None, relation: Relation) -> Sequence[Numbers]:
        everything = [*others, *own]
        if relation == Relation("replace") and groups is None and missing is not None:
            return [by_group(everything, groups, G, lambda row: clamped(row[X], lower, upper, missing))]
        middle = (lower + upper) / 2

        def off(row: Row) -> Fraction | None:
            x = clamped(row[X], lower, upper, missing)
            return None if x is None else x - middle

        return [by_group(everything, groups, G, off), by_group(everything, groups, G, lambda row: int(off(row) is not None))]

    return parts


def rates(others: Sequence[Row], own: Sequence[Row], groups: Sequence[str] | None, relation: Relation) -> Sequence[Numbers]:
    everything = [*others, *own]
    matching = by_group(everything, groups, G, lambda row: int(row[C] == 1))
    if relation == Relation("replace") and groups is None:
        return [matching]
    return [[*matching, *by_group(everything, groups, G, lambda row: int(row[C] != 1))]]


def different(others: Sequence[Row], own: Sequence[Row], groups: Sequence[str] | None, relation: Relation) -> Sequence[Numbers]:
    """Different values; of a unit at most two pairs of a group and a value take part."""
    if groups is None:
        return [[len({row[C] for row in others} | {row[C] for row in own})]]
    pairs = {(row[G], row[C]) for row in [*others, *own] if row[G] in groups}
    return [[len([1 for name, _ in pairs if name == group]) for group in groups]]


def units(others: Sequence[Row], own: Sequence[Row], groups: Sequence[str] | None, relation: Relation) -> Sequence[Numbers]:
    """Each row of others is a unit of its own."""
    if groups is None:
        return [[len(others) + bool(own)]]
    return [[sum(row[G] == group for row in others) + any(row[G] == group for row in own) for group in groups]]


def ranks(level: Fraction, points: Sequence[Fraction]) -> Any:
    """#{x ≤ p} − q·n at the point where it moves most."""

    def parts(others: Sequence[Row], own: Sequence[Row], groups: Sequence[str] | None, relation: Relation) -> Sequence[Numbers]:
        numbers = [row[X] for row in [*others, *own]]
        return [[sum(x <= point for x in numbers) - level * len(numbers)] for point in points]

    return parts


def is_by_row(relation: Relation) -> bool:
    return not relation.unit


def choice(query: dict[str, Any]) -> Case:
    """A selection by counts: each candidate's count is a part of its own."""
    return Case(
        query,
        rows_with(categories=(0, 1, 2)),
        lambda others, own, groups, relation: [[sum(row[C] == k for row in [*others, *own])] for k in range(3)],
        grouped=False,
        said=lambda estimator: [Fraction(estimator.terms.sensitivity)] * 3,
    )


CASES: dict[str, tuple[Case, ...]] = {
    "count": (
        Case(
            {"kind": "count"}, rows_with(), counts(lambda row: True), lambda relation, grouped: grouped or relation != Relation("replace")
        ),
        Case({"kind": "count", "column": "c", "categories": [1]}, rows_with(categories=(0, 1)), counts(lambda row: row[C] == 1)),
    ),
    "histogram": (Case({"kind": "histogram", "column": "c", "k": 3}, rows_with(categories=(0, 1, 2)), cells(3)),),
    "sum": tuple(
        Case(
            {
                "kind": "sum",
                "column": "x",
                "lower": float(low),
                "upper": float(high),
                "missing": missing if missing == "skip" else float(low),
            },
            rows_with((low - 3, low, high, high + 3, None), groups=("a", "b", None)),
            sums(low, high, None if missing == "skip" else low),
        )
        for low, high in SIGNED.values()
        for missing in ("skip", "lower")
    ),
    "mean": tuple(
        Case(
            {"kind": "mean", "column": "x", "lower": float(LOWER), "upper": float(UPPER), "missing": missing if missing == "skip" else 1.0},
            rows_with(NUMBERS, groups=("a", "b", None)),
            means(LOWER, UPPER, None if missing == "skip" else Fraction(1)),
        )
        for missing in ("skip", "inside")
    ),
    "rate": (Case({"kind": "rate", "column": "c", "categories": [1]}, rows_with(categories=(0, 1)), rates),),
    "count_distinct": (
        Case(
            {"kind": "count_distinct", "column": "c"},
            rows_with(categories=(0, 1, 2)),
            different,
            lambda relation, grouped: is_by_row(relation),
        ),
        Case(
            {"kind": "count_distinct", "column": "c", "max_values_per_unit": 2},
            rows_with(categories=(0, 1, 2, 3)),
            different,
            lambda relation, grouped: relation.unit and relation.most_groups is None,
        ),
        Case(
            {"kind": "count_distinct"},
            rows_with(),
            units,
            lambda relation, grouped: relation.unit and (grouped or relation.relation == "add_remove"),
        ),
    ),
    "quantile": (
        Case(
            {"kind": "quantile", "column": "x", "q": 0.3, "grid": [0.0, 1.0, 2.0, 3.0]},
            rows_with((Fraction(0), Fraction(2), Fraction(3))),
            ranks(Fraction(3, 10), (Fraction(1),)),
            grouped=False,
            # Whole numbers of steps: 1 over the denominator of q.
            said=lambda estimator: [Fraction(each, 10) for each in estimator.sensitivities],
        ),
    ),
    "median": (
        Case(
            {"kind": "median", "column": "x", "grid": [0.0, 1.0, 2.0, 3.0]},
            rows_with((Fraction(0), Fraction(2), Fraction(3))),
            ranks(Fraction(1, 2), (Fraction(1),)),
            grouped=False,
            said=lambda estimator: [Fraction(each, 2) for each in estimator.sensitivities],
        ),
    ),
    "top_s": (choice({"kind": "top_s", "column": "c", "k": 3, "s": 2}),),
    "mode": (choice({"kind": "mode", "column": "c", "k": 3}),),
    "groups": (
        Case(
            {"kind": "groups", "group_by": "g", "delta": 1e-6},
            rows_with(groups=tuple("abcdef")),
            lambda others, own, groups, relation: units(others, own, tuple("abcdef"), relation),
            grouped=False,
            said=lambda estimator: [Fraction(estimator.changed)],
        ),
    ),
}
"""For each kind its queries; every kind is here or in `BY_PARTS`."""
BY_PARTS = {
    "geometric_mean": "a mean of whole steps: the case of `mean`, and docs/exactness.md, Logarithms in steps",
    "var": "a mean, a count and `second moments`",
    "std": "as var",
    "covariance": "two means, a count, `second moments`, and `n·Σxy − Σx·Σy`",
    "running_total": "counts, or a histogram over steps: `counts`, `histograms`",
    "synthetic": "histograms of the same rows: `histograms`",
}
"""Kinds whose noise is calibrated by a bound of `Contribution` that the next lemma enumerates."""


def plan_of(query: dict[str, Any], relation: Relation, folder: Path, *, grouped: bool) -> Any:
    """The plan of a job with one query."""
    import pyarrow as pa

    from dpcore.batch import make_release_plan, parse_release_job
    from support.jobs import write_table

    table = pa.table({"g": ["a"], "x": [1.0], "c": [0], "unit": [1]})
    source = folder / "in.parquet"
    if not source.exists():
        write_table(table, source)
    unit = {"unit": "unit", "max_rows_per_unit": relation.rows, "null_unit": "drop"} if relation.unit else {}
    if relation.most_groups is not None:
        unit["max_groups_per_unit"] = relation.most_groups
    groups = {"group_by": "g", "groups": list(GROUPS)} if grouped else {}
    document = {
        "version": 1,
        "input": {"path": str(source)},
        "output": {"path": str(folder / "out.json")},
        "privacy": {"max_epsilon": 10.0, "max_delta": 0.1, "relation": relation.relation, **unit},
        "testing": {"key_hex": "16" * 32},
        "query": [{"name": "one", "epsilon": 1.0, **groups, **query}],
    }
    return make_release_plan(parse_release_job(document), overwrite=True)


def claimed(case: Case, relation: Relation, folder: Path, *, grouped: bool) -> list[tuple[Fraction, Fraction | None]]:
    """What the plan says that each draw's numbers move by: in ℓ1, and in ℓ2 where noise is calibrated by that."""
    (pure,) = plan_of(case.query, relation, folder, grouped=grouped).estimators
    if case.said is not None:
        return [(each, None) for each in case.said(pure)]
    l1 = [Fraction(noise.sensitivity) for noise in pure.noise]
    (other,) = plan_of({**case.query, "delta": 1e-6}, relation, folder, grouped=grouped).estimators
    return list(zip(l1, (Fraction(noise.sensitivity) for noise in other.noise), strict=True))


OTHERS: tuple[tuple[Row, ...], ...] = ((), (("a", Fraction(1), 1),), (("a", Fraction(5), 0), ("b", Fraction(-2), 2)))
ROUNDED = 1 + Fraction(1, 2**50)


def check_kind(name: str) -> Callable[[Context], None]:
    """The check of one kind: no pair of neighbours is farther apart than the plan says, and some are as far."""

    def check(context: Context) -> None:
        with tempfile.TemporaryDirectory() as folder:
            for case in CASES[name]:
                for relation, grouped in itertools.product(RELATIONS, (False, True)):
                    if case.fits(relation, grouped) and (case.grouped or not grouped) and (grouped or relation.most_groups is None):
                        _check_case(case, relation, Path(folder), grouped=grouped)

    return check


def _check_case(case: Case, relation: Relation, folder: Path, *, grouped: bool) -> None:
    where = f"{case.query}, {relation}{', groups' if grouped else ''}"
    groups = GROUPS if grouped else None
    # Without groups the group of a row does not matter.
    rows = case.rows if grouped or "group_by" in case.query else tuple(dict.fromkeys(("a", *row[1:]) for row in case.rows))
    own = Relation(relation.relation, min(relation.rows, 2), relation.unit, relation.most_groups)
    if own.rows < relation.rows and len(rows) <= 4:
        own = relation

    def statistic(others: Sequence[Row], mine: Sequence[Row]) -> Sequence[Numbers]:
        return case.parts(others, mine, groups, relation)

    found = largest_moves(own, rows, OTHERS, statistic, lambda row: row[G] if row[G] in GROUPS else None)
    said = claimed(case, relation, folder, grouped=grouped)
    if len(found) != len(said):
        raise ProofError(f"{where}: {len(said)} draws of noise, and {len(found)} numbers that need it")
    for (l1, square), (claim, in_l2) in zip(found, said, strict=True):
        if l1 > claim or (in_l2 is not None and square > in_l2**2):
            raise ProofError(f"{where}: neighbours are {l1} apart, and the plan says {claim}")
        full = own == relation
        if case.tight and full and (l1 != claim or (in_l2 is not None and in_l2**2 > square * ROUNDED)):
            raise ProofError(
                f"{where}: the plan says {claim} and {float(in_l2 or 0)}, and neighbours are at most {l1} and {float(square) ** 0.5} apart"
            )


def check_all_kinds(context: Context) -> None:
    """Every kind of the registry is enumerated, or made of what is."""
    from dpcore.query.kinds import KINDS

    names = set(KINDS)
    known = set(CASES) | set(BY_PARTS)
    if names != known or set(CASES) & set(BY_PARTS):
        raise ProofError(f"no lemma is about the kinds {sorted(names - known)}, or there are none of {sorted(known - names)}")


LEMMAS = (
    Lemma(
        "kinds", "Every kind of query is enumerated below, or calibrated by bounds that are.", "machine", "enumeration", (), check_all_kinds
    ),
    *(
        Lemma(
            f"sensitivity-{name.replace('_', '-')}",
            f"All neighbours of small tables move a {name} by at most what its plan says, and some by as much.",
            "machine",
            "enumeration",
            (),
            check_kind(name),
        )
        for name in CASES
    ),
)
