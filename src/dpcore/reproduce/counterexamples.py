"""Mechanisms as experiments (2014), Theorem 4, Lemma 1 and Theorem 5: the direction that holds, and counterexamples to the other one."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np

from dpcore.blackwell import Experiment, Sufficiency, is_sufficient
from dpcore.reproduce.regions import ALARM, BLIND, MISSED, ROUNDING, apart, closed, random_experiment, scientific
from dpcore.reproduce.results import Check, Figure, Panel, Section, Series, Table, floats
from dpcore.reproduce.setting import Setting

THREE = (
    Experiment(np.array([[3, 3, 1, 1], [3, 1, 3, 1], [3, 1, 1, 3]]) / 8),
    Experiment(np.array([[1, 1, 3, 3], [1, 3, 1, 3], [1, 3, 3, 1]]) / 8),
)
"""Three data bases: all testing regions of the two are equal, and neither is a garbling of the other."""
ONE_SIDED = Experiment(np.array([[1.0, 0.0], [0.5, 0.5]])), Experiment(np.array([[0.5, 0.5], [1.0, 0.0]]))
"""Two data bases: the union of the testing regions over both orders is the same."""
STATES = 4
"""Data bases under the distributions of Lemma 1."""
COARSE = Experiment(np.array([[0.8, 0.2], [0.8, 0.2], [0.2, 0.8]]))
FINE = Experiment(np.array([[0.7, 0.1, 0.2], [0.1, 0.7, 0.2], [0.1, 0.1, 0.8]]))
PAIRS_APART = np.array([[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])
"""Two distributions on three data bases; the first one does not separate two of them."""


def _risks(answer: Sufficiency) -> str:
    """The risks in a separating decision problem."""
    return "equal" if answer.problem is None else f"{answer.problem.risk_P:.4f} > {answer.problem.risk_Q:.4f}"


def _region_panel(name: str, pair: tuple[Experiment, Experiment]) -> Panel:
    """Tests of the first state against the second."""
    first, second = (closed(each.power_region(0, 1).vertices) for each in pair)
    series = (
        Series("of M₁", *first, None, "measured"),
        Series("of M₂", *second, None, "second"),
        Series("tests that ignore the outcome", *BLIND, None, "theory"),
    )
    return Panel(MISSED, ALARM, series, "", (-0.02, 1.02), name)


# Theorem 4


def equal_regions(title: str, setting: Setting) -> Section:
    """Whether testing regions determine an experiment.

    Parameters
    ----------
    title : str
        Title of the section.
    setting : Setting
        Seed and size.
    """
    return Section(
        title,
        "R(M₁) ⊃ R(M₂) exactly if M₁ ≺ M₂. This is true for two data bases in one order. It is false for the union over all pairs in both "
        "orders, which is the R(M) of the document, and for three or more data bases, because a testing region compares only two.",
        "Left: two experiments on three data bases, M₁ = ⅛[[3,3,1,1], [3,1,3,1], [3,1,1,3]] and M₂ = ⅛[[1,1,3,3], [1,3,1,3], "
        "[1,3,3,1]]. Right: M₁ has the rows (1, 0) and (½, ½), and M₂ the same rows in the other order, so the region of one order for M₁ "
        "is that of the other order for M₂. The last check uses random experiments on two data bases, where the theorem holds.",
        (_equal_figure(),),
        (),
        (*_same_regions(), _two_data_bases(setting)),
        "",
        (_three_table(),),
    )


def _equal_figure() -> Figure:
    panels = _region_panel("three data bases, any pair", THREE), _region_panel("two data bases, one order", ONE_SIDED)
    return Figure("Testing regions that are equal for each pair (left), and only as a union over both orders (right).", panels, square=True)


def _three_table() -> Table:
    rows = []
    for name, pair in (("three data bases", THREE), ("two data bases", ONE_SIDED)):
        for direction, (p, q) in (("M₁ for M₂", pair), ("M₂ for M₁", pair[::-1])):
            rows.append((name, direction, _risks(is_sufficient(p, q))))
    caption = "Least expected losses with the first and with the second experiment, in a decision problem that separates them."
    return Table(caption, ("experiments", "not sufficient", "risks"), tuple(rows))


def _same_regions() -> tuple[Check, ...]:
    every = list(permutations(range(3), 2))
    off = apart(*THREE, every)
    mirrored = Experiment(ONE_SIDED[1].matrix[::-1].copy())
    union = apart(ONE_SIDED[0], mirrored, [(0, 1), (1, 0)])
    found = [is_sufficient(*pair).problem for pair in (THREE, THREE[::-1], ONE_SIDED, ONE_SIDED[::-1])]
    gains = [0.0 if problem is None else problem.risk_P - problem.risk_Q for problem in found]
    return (
        Check("the testing regions of all pairs are equal", f"corners at most {scientific(off)} apart", "0", off <= ROUNDING, "identity"),
        Check("the unions over both orders are equal", f"corners at most {scientific(union)} apart", "0", union <= ROUNDING, "identity"),
        Check(
            "no experiment is a garbling of the other one",
            f"risks differ by {min(gains):.4f} at least",
            "more than 0",
            min(gains) > 0,
            "identity",
        ),
    )


def _two_data_bases(setting: Setting) -> Check:
    """With two data bases in one order the theorem holds."""
    stream, count, differ, smaller = setting.stream("theorem 4"), setting.sized(150, 20), 0, 0
    for index in range(count):
        p = random_experiment(stream, 2, 4)
        q = random_experiment(stream, 2, 3, 0.3) if index % 2 else p.garble(random_experiment(stream, 4, 3).matrix)
        inside = bool(np.all(p.power_region(0, 1).contains(q.power_region(0, 1).vertices, tolerance=1e-10)))
        smaller += bool(inside)
        differ += bool(inside) != is_sufficient(p, q).holds
    promise = f"two data bases, one order: regions are contained exactly if there is a T, for {count} random pairs"
    return Check(promise, f"{differ} differ; contained in {smaller}", "0", differ == 0, "identity")


# Lemma 1


def distributions(title: str, setting: Setting) -> Section:
    """The order of mechanisms when data bases are drawn from distributions.

    Parameters
    ----------
    title : str
        Title of the section.
    setting : Setting
        Seed and size.
    """
    return Section(
        title,
        "Under a set of distributions of data bases with matrix P_D, a mechanism M becomes M′ = P_D M. By the lemma, "
        "M₁ ≺ M₂ exactly if M₁′ ≺ M₂′. If M₁ ≺ M₂, then M₁′ ≺ M₂′; the converse needs a P_D of full column rank.",
        f"The output of M₁ does not depend on which of {STATES} data bases it gets; the output of M₂ is the data base. Distribution i "
        "is a mixture of data base i with weight λ and of the uniform distribution. At λ = 0 all distributions are equal, and M₁′ is "
        "sufficient for M₂′ although M₁ carries no information.",
        (_mixing_figure(setting),),
        (),
        (*_uniform_checks(), _kept_under(setting)),
        "Le Cam's deficiency of M₁′ for M₂′ is λ(1 − 1/4): it is 0 only where the distributions coincide.",
    )


def _mixing(share: float) -> Any:
    return share * np.eye(STATES) + (1 - share) / STATES


def _constant() -> Experiment:
    return Experiment(np.ones((STATES, 1)))


def _open() -> Experiment:
    return Experiment(np.eye(STATES))


def _mixing_figure(setting: Setting) -> Figure:
    shares = floats(np.linspace(0.0, 1.0, setting.sized(11, 5)))
    found = floats(is_sufficient(_constant().under(_mixing(share)), _open().under(_mixing(share))).deficiency for share in shares)
    series = (
        Series("deficiency of M₁′ for M₂′", shares, found, None, "measured"),
        Series("λ(1 − 1/4)", shares, floats(share * (1 - 1 / STATES) for share in shares), None, "theory"),
    )
    caption = "Deficiency of a constant mechanism for one that shows the data base, under increasingly different distributions."
    return Figure(caption, (Panel("weight λ of the data base itself", "deficiency", series, ""),))


def _uniform_checks() -> tuple[Check, ...]:
    uniform = np.full((1, STATES), 1 / STATES)
    under, without = is_sufficient(_constant().under(uniform), _open().under(uniform)), is_sufficient(_constant(), _open())
    return (
        Check("under the uniform distribution alone M₁′ ≺ M₂′", f"deficiency {scientific(under.deficiency)}", "0", under.holds, "identity"),
        Check("and yet M₁ is not sufficient for M₂", f"risks {_risks(without)}", "a separating decision", not without.holds, "identity"),
    )


def _kept_under(setting: Setting) -> Check:
    """The direction that always holds, and the other one with linearly independent distributions."""
    stream, count, lost, made = setting.stream("lemma 1"), setting.sized(60, 10), 0, 0
    for _ in range(count):
        p = random_experiment(stream, 3, 4)
        q = p.garble(random_experiment(stream, 4, 3).matrix)
        few, full = random_experiment(stream, 2, 3).matrix, random_experiment(stream, 3, 3, 1.5).matrix
        lost += not is_sufficient(p.under(few), q.under(few)).holds
        made += is_sufficient(q, p).holds != is_sufficient(q.under(full), p.under(full)).holds
    promise = f"{count} random garblings: M₁ ≺ M₂ gives M₁′ ≺ M₂′ always; with full column rank M₂′ ≺ M₁′ holds exactly if M₂ ≺ M₁"
    return Check(promise, f"{lost} and {made} exceptions", "0", lost == made == 0, "identity")


# Theorem 5


def regions_of_distributions(title: str) -> Section:
    """Whether testing regions of distributions determine the order of mechanisms.

    Parameters
    ----------
    title : str
        Title of the section.
    """
    return Section(
        title,
        "R(M₁) ⊃ R(M₂) exactly if M₁ ≺ M₂, for the regions of the distributions. As in Lemma 1, M₁ ≺ M₂ implies R(M₁) ⊃ R(M₂), but "
        "the converse is false: the distributions can hide a difference between the mechanisms.",
        "There are three data bases and two distributions: ½ on each of the first two, and 1 on the third. M₁ does not separate the first "
        "two data bases, M₂ does. Left: tests of one distribution against the other. Right: tests of the first data base against the "
        "second.",
        (_distributions_figure(),),
        (),
        _distributions_checks(),
        "",
    )


def _distributions_figure() -> Figure:
    under = COARSE.under(PAIRS_APART), FINE.under(PAIRS_APART)
    panels = _region_panel("distributions", under), _region_panel("data bases", (COARSE, FINE))
    return Figure("Testing regions of two distributions of data bases, and of two data bases.", panels, square=True)


def _distributions_checks() -> tuple[Check, ...]:
    under = COARSE.under(PAIRS_APART), FINE.under(PAIRS_APART)
    outside = [not np.all(under[0].power_region(i, j).contains(under[1].power_region(i, j).vertices)) for i, j in ((0, 1), (1, 0))]
    answer = is_sufficient(COARSE, FINE)
    return (
        Check("under the distributions R(M₁) ⊃ R(M₂)", f"{sum(outside)} of 2 orders not contained", "0", not any(outside), "identity"),
        Check("and yet M₁ is not sufficient for M₂", f"risks {_risks(answer)}", "a separating decision", not answer.holds, "identity"),
    )
