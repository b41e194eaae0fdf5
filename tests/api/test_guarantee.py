"""The guarantee in words: every public class with a `privacy` has it, its sentences are these, and the factor is never too small."""

from __future__ import annotations

import importlib
import inspect
import math
import pkgutil
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpcore
from dpcore import Privacy, local, mechanisms
from dpcore._amounts import factor, share_after
from dpcore._guarantee import sentences
from dpcore.mechanisms import RunningTotals
from dpcore.privacy import Guaranteed

PACKAGES = (
    "accounting",
    "audit",
    "distributions",
    "frames",
    "inference",
    "local",
    "mechanisms",
    "minimax",
    "planning",
    "selection",
    "spark",
)


def public_classes():
    """Every class that a public package names, and every class of their modules that one of them returns: those with a `privacy`."""
    found = {}
    for package in PACKAGES:
        module = importlib.import_module(f"dpcore.{package}")
        modules = [module]
        for info in pkgutil.iter_modules(getattr(module, "__path__", ()), f"dpcore.{package}."):
            if not info.ispkg:
                try:
                    modules.append(importlib.import_module(info.name))
                except ModuleNotFoundError:  # of an extra that is not installed
                    continue
        for each in modules:
            for name, value in vars(each).items():
                if (
                    inspect.isclass(value)
                    and value.__module__.startswith("dpcore.")
                    and not name.startswith("_")
                    and not getattr(value, "_is_protocol", False)
                ):
                    found[f"{value.__module__}.{value.__qualname__}"] = value
    return found


def has_privacy(cls):
    """Whether instances have a `privacy`; one that must be asked with a δ is a method and gives a `Privacy`, which has the words."""
    member = inspect.getattr_static(cls, "privacy", None)
    annotated = any("privacy" in getattr(each, "__annotations__", {}) for each in cls.__mro__)
    return annotated or (member is not None and not inspect.isfunction(member))


GUARANTEED = sorted(name for name, cls in public_classes().items() if has_privacy(cls))
INSIDE = {"Source", "NoisyColumn", "NoisePlan", "Session", "MeanLowerBound"}
"""Parts of an audit, of a job and of a table that no caller gets; and a bound, whose `privacy` is that of the estimators it is about."""


def test_there_are_many():
    assert len(GUARANTEED) > 30, GUARANTEED


@pytest.mark.parametrize("name", [name for name in GUARANTEED if name.rpartition(".")[2] not in INSIDE])
def test_everything_with_a_privacy_has_a_guarantee(name):
    cls = public_classes()[name]
    if cls is Guaranteed:
        return
    member = inspect.getattr_static(cls, "guarantee", None)
    assert isinstance(member, property), name
    assert member.__doc__


RECORD = "Whatever one record says, these results would be at most"
OTHER = "times as likely as with any other record in its place."
KNOWN = {
    (1.0, 0.0): f"{RECORD} 2.8 {OTHER} This is differential privacy with ε = 1 for data sets that differ by the value of one record.",
    (0.1, 1e-6): f"{RECORD} 1.11 {OTHER} δ = 1e-06 is a tiny probability with which the ε promise may fail. This is differential privacy "
    "with ε = 0.1 and δ = 1e-06 for data sets that differ by the value of one record.",
    (1.0, 0.2): f"{RECORD} 2.8 {OTHER} δ = 0.2 is the probability with which the ε promise may fail. This is differential privacy "
    "with ε = 1 and δ = 0.2 for data sets that differ by the value of one record.",
    (0.0, 0.0): "Whatever one record says, these results would be just as likely as with any other record in its place. This is "
    "differential privacy with ε = 0 for data sets that differ by the value of one record.",
    (
        math.inf,
        0.0,
    ): "These results carry no promise: with ε = ∞ they may show everything. This is differential privacy with ε = ∞ for data "
    "sets that differ by the value of one record.",
}


@pytest.mark.parametrize(("amounts", "said"), KNOWN.items())
def test_the_sentences_of_a_guarantee(amounts, said):
    assert Privacy(*amounts).guarantee == said


def test_the_relation_and_the_unit_decide_the_words():
    assert Privacy(1.0, relation="add_remove").guarantee == (
        "Whether or not one record is in the data, these results would be at most 2.8 times as likely as in the other case. This is "
        "differential privacy with ε = 1 for data sets that differ by the presence of one record."
    )
    assert local.KaryResponse(3.5, k=4).guarantee == (
        "Whatever one person answered, these results would be at most 34 times as likely as with any other answer. This is local "
        "differential privacy with ε = 3.5 for each report; k reports of one person together have k times that."
    )
    mechanism = local.BinaryResponse(3.5)
    assert mechanism.estimate(mechanism.privatize(np.zeros(9, bool))).guarantee == mechanism.guarantee
    assert sentences(1.0, unit="person").startswith(
        "Whatever the rows of one 'person' say, these results would be at most 2.8 times as likely as with any other rows in their place. "
        "This is differential privacy with ε = 1 for data sets that differ by the value of the rows of one 'person'."
    )
    assert sentences(1.0, unit="person", relation="add_remove").startswith("Whether or not the rows of one 'person' are in the data,")
    assert sentences(1.0, unit="row").startswith("Whatever one row says,")
    assert sentences(1.0, 1e-6, rho=0.01, mu=0.5).endswith(
        "It follows from ρ = 0.01, in terms of zero-concentrated differential privacy. It follows from μ = 0.5, in terms of Gaussian "
        "differential privacy."
    )


def test_mechanisms_and_totals_have_it():
    assert mechanisms.Laplace(1.0, 1.0).guarantee == Privacy(1.0).guarantee
    assert mechanisms.Gaussian(1.0, 1e-6, 1.0, relation="add_remove").guarantee == Privacy(1.0, 1e-6, "add_remove").guarantee
    totals = RunningTotals(52, rho=0.01)
    assert totals.privacy is None
    assert "δ = 1e-06 is a tiny probability" in totals.guarantee
    assert totals.guarantee.endswith("It follows from ρ = 0.01, in terms of zero-concentrated differential privacy.")


@given(st.floats(1e-12, 1999.0))
@settings(deadline=None)
def test_a_factor_is_never_too_small_and_not_much_too_large(epsilon):
    shown = factor(epsilon)
    with localcontext() as context:
        context.prec = 60
        exact = Decimal(epsilon).exp()
        value = Decimal(10) ** int(shown[3:]) if shown.startswith("10^") else Decimal(shown.replace(",", ""))
        assert value >= exact
        if shown.startswith("10^"):
            assert value < 10 * exact
        elif exact < 2:
            assert value - 1 <= max(Decimal("1.1") * (exact - 1) * Decimal("1.01"), Decimal("0.0001"))
        else:
            assert value <= exact * Decimal("1.1")


@given(st.floats(0.0, 50.0))
@settings(deadline=None)
def test_a_chance_of_one_per_cent_is_never_shown_too_small(epsilon):
    with localcontext() as context:
        context.prec = 60
        odds = Decimal(epsilon).exp() / 99
        assert Decimal(share_after(epsilon)) >= 100 * odds / (1 + odds) - Decimal(10) ** -40


def test_factors_as_they_are_read():
    assert [factor(each) for each in (0.0, 1e-17, 0.01, 0.5, 0.7, 2.0, 5.0, 10.0, 14.0, 40.0, 700.0, 1e300)] == [
        "1", "1.0001", "1.011", "1.65", "2.1", "7.4", "149", "22,100", "1,210,000", "10^18", "10^305", "e^1e+300",
    ]  # fmt: skip
    assert [share_after(each) for each in (0.0, 1.0, 3.5, 20.0)] == ["1", "2.7", "26", "100"]


def test_results_of_tables_have_it_with_their_unit():
    pandas = pytest.importorskip("pandas")
    from dpcore.frames import PrivateTable

    table = PrivateTable(pandas.DataFrame({"person": [1, 2, 3], "x": [1.0, 2.0, 3.0]}), unit="person", max_rows_per_unit=1)
    found = table.mean("x", epsilon=1.0, lower=0.0, upper=4.0)
    assert found.guarantee.startswith("Whatever the rows of one 'person' say, these results would be at most 2.8 times as likely")
    assert found.plan.guarantee == found.guarantee
    rows = PrivateTable(pandas.DataFrame({"x": [1.0, 2.0, 3.0]}), relation="add_remove")
    assert rows.count(epsilon=1.0).guarantee.startswith("Whether or not one row is in the data,")


def test_the_version_of_the_sentence_is_one():
    """Pages and classes have their sentences from one function."""
    from dpcore.pages.words import guarantee_shown

    assert Privacy(1.0).guarantee.startswith(guarantee_shown(1.0, 0.0, "record")["factor"])
    assert dpcore.Privacy is Privacy
