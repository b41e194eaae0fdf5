"""What is replaced of diffprivlib, class by class."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial, wraps
from typing import Any

from dpcore.interop._installation import Replacement
from dpcore.interop.diffprivlib import _bounded, _checks, _choices, _models, _records, _tools
from dpcore.interop.diffprivlib import _numbers as numbers

Make = Callable[[Any], Any]
"""From the peer's own method to the one that replaces it."""


def replacements(*, vectorise: bool) -> Iterator[Replacement]:
    """Every method and function that is replaced; with `vectorise` those with loops, too. This imports diffprivlib."""
    from diffprivlib import mechanisms as peer
    from diffprivlib.mechanisms.base import TruncationAndFoldingMixin

    for owner, make in _draws(peer, vectorise=vectorise):
        yield _method(owner, "randomise", make)
    for owner, make in _checks_of_classes(peer):
        yield _method(owner, "_check_all", make)
    yield _method(TruncationAndFoldingMixin, "_fold", numbers.folding)
    yield _method(peer.GeometricFolded, "_fold", numbers.folding_to_integers)
    yield from _functions(vectorise=vectorise)


def _method(owner: type, name: str, make: Make) -> Replacement:
    """A method made from the peer's own, or from one that the class inherits: documented as that, and named so that pickles find it."""
    original = getattr(owner, name)
    method = wraps(original)(make(original))
    method.__module__, method.__qualname__ = owner.__module__, f"{owner.__qualname__}.{name}"
    return Replacement(owner, name, method)


def _draws(peer: Any, *, vectorise: bool) -> Iterator[tuple[type, Make]]:
    added, shaped = partial(numbers.added, vectorise=vectorise), partial(numbers.shaped, vectorise=vectorise)
    truncated = {False: (numbers.truncate, numbers.truncate_array), True: (numbers.truncate_whole, numbers.truncate_array)}
    folded = {False: (numbers.fold, numbers.fold_array), True: (numbers.fold_whole, numbers.fold_array)}
    yield peer.Laplace, partial(added, numbers.LAPLACE)
    yield peer.LaplaceTruncated, partial(shaped, numbers.LAPLACE, *truncated[False])
    yield peer.LaplaceFolded, partial(shaped, numbers.LAPLACE, *folded[False])
    yield peer.Geometric, partial(added, numbers.GEOMETRIC)
    yield peer.GeometricTruncated, partial(shaped, numbers.GEOMETRIC, *truncated[True])
    yield peer.GeometricFolded, partial(shaped, numbers.GEOMETRIC, *folded[True])
    yield peer.Gaussian, partial(added, numbers.GAUSSIAN)
    yield peer.GaussianAnalytic, partial(added, numbers.ANALYTIC)
    yield peer.GaussianDiscrete, partial(added, numbers.DISCRETE)
    yield peer.LaplaceBoundedDomain, partial(_bounded.in_domain, vectorise=vectorise)
    yield peer.LaplaceBoundedNoise, partial(_bounded.with_bound, vectorise=vectorise)
    yield peer.Binary, _choices.flipped
    yield peer.Exponential, partial(_choices.chosen, "gumbel")
    yield peer.PermuteAndFlip, partial(_choices.chosen, "exponential")
    yield peer.ExponentialCategorical, _choices.categorical
    yield peer.ExponentialHierarchical, _choices.categorical


def _checks_of_classes(peer: Any) -> Iterator[tuple[type, Make]]:
    for owner in (peer.Laplace, peer.LaplaceTruncated, peer.LaplaceFolded, peer.LaplaceBoundedDomain):
        yield owner, partial(_checks.of_reals, owner, bounded=owner is not peer.Laplace)
    yield peer.LaplaceBoundedNoise, partial(_checks.of_noise_bound, peer.LaplaceBoundedNoise)
    yield peer.Geometric, partial(_checks.of_integers, peer.Geometric, bounds=None)
    yield peer.GeometricTruncated, partial(_checks.of_integers, peer.GeometricTruncated, bounds=_checks.are_whole)
    yield peer.GeometricFolded, partial(_checks.of_integers, peer.GeometricFolded, bounds=_checks.are_halves)
    yield peer.Gaussian, partial(_checks.of_gaussian, peer.Gaussian, most=1.0, whole=False)
    yield peer.GaussianAnalytic, partial(_checks.of_gaussian, peer.GaussianAnalytic, most=math.inf, whole=False)
    yield peer.GaussianDiscrete, partial(_checks.of_gaussian, peer.GaussianDiscrete, most=math.inf, whole=True)
    yield peer.Binary, partial(_checks.of_binary, peer.Binary)
    for owner in (peer.Exponential, peer.PermuteAndFlip):
        yield owner, partial(_checks.of_candidates, owner)
    for owner in (peer.ExponentialCategorical, peer.ExponentialHierarchical):
        yield owner, partial(_checks.of_categories, owner)


def _functions(*, vectorise: bool) -> Iterator[Replacement]:
    from diffprivlib import mechanisms, tools
    from diffprivlib.models import linear_regression
    from diffprivlib.tools import histograms, utils
    from diffprivlib.validation import DiffprivlibMixin

    statistics = _tools.Statistics(utils, mechanisms)
    for name, function in statistics.functions():
        yield Replacement(utils, name, function)
    for owner, name, function in _models.functions(DiffprivlibMixin, linear_regression):
        yield Replacement(owner, name, function)
    counting = _tools.Histograms(histograms) if vectorise else None
    histogram = _tools.reading(counting.histogram() if counting else histograms.histogram, _records.records)
    histogramdd = _tools.reading(counting.histogramdd() if counting else histograms.histogramdd, _records.columns)
    count_nonzero = _tools.reading(utils.count_nonzero, _records.truths)
    for owner, name, function in (
        (histograms, "histogram", histogram), (histograms, "histogramdd", histogramdd), (utils, "count_nonzero", count_nonzero),
    ):  # fmt: skip
        yield Replacement(owner, name, function)
        yield Replacement(tools, name, function)
    if vectorise:
        yield Replacement(utils, "_wrap_axis", _tools.Axes(utils, statistics).wrap_axis())
