"""What `SecureRandom(constant_work=True)` promises, what it costs in δ, and what refuses it."""

from __future__ import annotations

import copy
import inspect
import math
import pickle
from fractions import Fraction

import mpmath
import numpy as np
import pandas as pd
import pytest

from dpcore import Privacy, SecureRandom, inference, local, mechanisms, noise, selection
from dpcore.errors import DataError, ParameterError, ParameterTypeError
from support.drawing import calls_of_several_draws

CONSTANT = SecureRandom(constant_work=True)
SCORES = np.array([1.0, 2.0, 3.0])
CODES = np.array([0, 1, 2, 1])


def test_the_source_says_what_it_is():
    assert CONSTANT.constant_work is True
    assert SecureRandom().constant_work is False
    assert CONSTANT.secure is True
    assert repr(CONSTANT) == "SecureRandom(constant_work=True)"
    assert repr(SecureRandom()) == "SecureRandom()"
    for twin in (pickle.loads(pickle.dumps(CONSTANT)), copy.copy(CONSTANT), copy.deepcopy(CONSTANT)):
        assert twin.constant_work is True
        assert isinstance(twin, SecureRandom)
    assert pickle.loads(pickle.dumps(SecureRandom())).constant_work is False


@pytest.mark.parametrize("value", [1, 0, None, "yes", np.True_])
def test_only_a_bool_chooses_it(value):
    with pytest.raises(ParameterTypeError, match="constant_work must be True or False"):
        SecureRandom(constant_work=value)


def test_a_subclass_does_not_get_it_without_noticing():
    class Own(SecureRandom):
        pass

    assert Own().constant_work is False
    with pytest.raises(ParameterTypeError, match="subclasses"):
        Own(constant_work=True)


@pytest.mark.parametrize("epsilon", [0.0, 1e-3, 1.0, 20.0])
@pytest.mark.parametrize("size", [1, 1000, 10**12])
def test_the_guarantee_is_the_formula_rounded_up(epsilon, size):
    found = CONSTANT.guarantee(Privacy(epsilon, 1e-9, "add_remove"), size=size)
    with mpmath.workdps(60):
        exact = mpmath.mpf(1e-9) + (1 + mpmath.exp(mpmath.mpf(epsilon))) * size / mpmath.mpf(2) ** 80
        assert exact <= mpmath.mpf(found.delta) <= exact * (1 + mpmath.mpf(2) ** -48)
    assert (found.epsilon, found.relation) == (epsilon, "add_remove")
    ordinary = Privacy(epsilon, 1e-9)
    assert SecureRandom().guarantee(ordinary, size=size) is ordinary


@pytest.mark.parametrize(("epsilon", "size"), [(710.0, 1), (math.inf, 1), (60.0, 10**9), (1.0, 2**80)])
def test_a_delta_of_one_is_no_guarantee(epsilon, size):
    with pytest.raises(ParameterError, match="privacy must leave a δ below 1"):
        CONSTANT.guarantee(Privacy(epsilon), size=size)


def test_a_guarantee_is_asked_for_something():
    with pytest.raises(ParameterError, match="size must be"):
        CONSTANT.guarantee(Privacy(1.0), size=0)
    with pytest.raises(ParameterTypeError, match="privacy must be a Privacy"):
        CONSTANT.guarantee(1.0, size=1)


def test_noise_takes_and_gives_what_it_always_does():
    assert type(noise.laplace(3, 1.0, rng=CONSTANT)) is float
    assert type(noise.discrete_gaussian(3, 1.0, rng=CONSTANT)) is int
    series = noise.gaussian(pd.Series([1.0, 2.0], index=["a", "b"]), 1.0, rng=CONSTANT)
    assert list(series.index) == ["a", "b"]
    assert noise.laplace([[1, 2], [3, 4]], [1.0, 5.0], rng=CONSTANT).shape == (2, 2)
    assert noise.laplace(np.zeros((0, 3)), 1.0, rng=CONSTANT).shape == (0, 3)
    out = np.zeros(3, np.float32)
    assert noise.gaussian(np.ones(3), 1e-3, rng=CONSTANT, out=out) is out
    assert np.all(np.abs(out - 1) < 0.1)
    places = np.arange(6)
    noise.discrete_laplace(places[::2], 1e-3, rng=CONSTANT, out=places[::2])
    assert places.tolist() == [0, 1, 2, 3, 4, 5]
    values = noise.laplace(np.full(1000, 0.1), 1.0, grid=0.5**20, rng=CONSTANT)
    assert np.all(values * 2**20 == np.round(values * 2**20))
    scales = np.repeat([1e-3, 1e3], 500)
    spread = noise.gaussian(np.zeros(1000), scales, rng=CONSTANT)
    assert np.abs(spread[:500]).max() < 0.01 < 100 < np.abs(spread[500:]).max()


@pytest.mark.parametrize(
    "draw",
    [
        lambda: mechanisms.Laplace(1.0, 1e-3).release(0.5, rng=CONSTANT),
        lambda: mechanisms.Gaussian(1.0, 1e-6, 1e-4).release(0.5, rng=CONSTANT),
        lambda: mechanisms.DiscreteLaplace(20.0, 1).release(1, rng=CONSTANT),
        lambda: mechanisms.DiscreteGaussian(500.0, 1e-6, 1).release(1, rng=CONSTANT),
        lambda: local.LocalLaplace(500.0, 0.0, 1.0).privatize(0.5, rng=CONSTANT),
        lambda: local.LocalLaplace(500.0, 0.0, 1.0, missing=0.5).privatize(math.nan, rng=CONSTANT),
        lambda: local.LocalDiscreteLaplace(50.0, 0, 1).privatize(1, rng=CONSTANT),
    ],
)
def test_mechanisms_have_it(draw):
    assert 0.4 <= draw() <= 1.6


def test_randomisers_follow_their_channels():
    assert local.BinaryResponse(500.0).privatize(np.array([True, False, True]), rng=CONSTANT).tolist() == [True, False, True]
    assert type(local.BinaryResponse(500.0).privatize(1, rng=CONSTANT)) is bool
    out = np.zeros(3, np.bool_)
    assert local.BinaryResponse(500.0, unknown=True).privatize(np.array([7, 0, 1]), rng=CONSTANT, out=out) is out
    assert out.tolist() == [True, False, True]
    kary = local.KaryResponse(500.0, k=4, unknown=3)
    assert kary.privatize(np.array([0, 2, 9], np.uint8), rng=CONSTANT).tolist() == [0, 2, 3]
    assert kary.privatize(2, rng=CONSTANT) == 2
    one_hot = local.UnaryEncoding(500.0, k=11, method="symmetric")
    assert np.unpackbits(one_hot.privatize([0, 9], rng=CONSTANT), axis=1, bitorder="little")[:, :11].argmax(axis=1).tolist() == [0, 9]
    labelled = local.KaryResponse.from_categories(500.0, ["north", "south"])
    assert labelled.privatize(["south", "north"], rng=CONSTANT).tolist() == [1, 0]


def test_selections_have_it():
    far = np.array([0.0, 1e6, -1e6, 3.0])
    assert selection.noisy_argmax(far, 1.0, 1.0, rng=CONSTANT) == 1
    assert selection.permute_and_flip(far.astype(np.int64), 1.0, 1.0, rng=CONSTANT) == 1


REFUSED = {
    "exponential_mechanism": lambda: selection.exponential_mechanism(SCORES, 1.0, 1.0, rng=CONSTANT),
    "BoundedMean": lambda: local.BoundedMean(1.0, 0.0, 1.0).privatize(SCORES, rng=CONSTANT),
    "packed": lambda: local.BinaryResponse(1.0).privatize_packed(np.zeros(1, np.uint8), n=8, rng=CONSTANT),
    "SubsetSelection": lambda: local.SubsetSelection(1.0, k=4).privatize(CODES, rng=CONSTANT),
    "LocalHashing": lambda: local.LocalHashing(1.0, k=4).privatize(CODES, rng=CONSTANT),
    "HadamardResponse": lambda: local.HadamardResponse(1.0, k=4).privatize(CODES, rng=CONSTANT),
    "mean": lambda: inference.mean(SCORES.reshape(-1, 1), 1.0, 1e-6, 1.0, rng=CONSTANT),
    **{name: (lambda call=call: call(CONSTANT)) for name, call in calls_of_several_draws().items()},
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_constant_work_refuses_it(name):
    with pytest.raises(ParameterError, match=r"constant.work"):
        REFUSED[name]()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: noise.laplace(1.0, 1.0, grid=2.0**-17, rng=CONSTANT), ParameterError, r"grid must be at most scale·2\^-18"),
        (lambda: noise.laplace(1.0, 2.0**950, rng=CONSTANT), ParameterError, r"scale must be in \[2\^-900, 2\^900\]"),
        (lambda: noise.laplace(np.ones(2, np.float32), 1.0, rng=CONSTANT), ParameterTypeError, "values must be of float64 .* got float32"),
        (lambda: local.LocalDiscreteLaplace(1.0, 0, 9).privatize(np.ones(2, np.uint64), rng=CONSTANT), ParameterTypeError, "got uint64"),
        (
            lambda: selection.noisy_argmax(np.ones(2, np.float16), 1.0, 1.0, rng=CONSTANT),
            ParameterTypeError,
            "scores must be .* got float16",
        ),
        (lambda: noise.gaussian([1.0, math.inf], 1.0, rng=CONSTANT), DataError, r"index \(1,\)"),
        (lambda: local.LocalLaplace(1.0, 0, 1).privatize([0.0, math.nan], rng=CONSTANT), DataError, "missing"),
        (lambda: selection.noisy_argmax([1.0, math.nan], 1.0, 1.0, rng=CONSTANT), DataError, "finite"),
        (lambda: local.KaryResponse(1.0, k=5000).privatize([1], rng=CONSTANT), ParameterError, "k must be at most 4096"),
    ],
)
def test_wrong_arguments_are_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_delta_is_charged_for_what_the_laws_are_off():
    """2^-80 is above the distance of each law: of the fine grid, the digits' thresholds, and the geometric tail."""
    fine, thresholds = Fraction(1, 2**80), 120 * 512 * Fraction(1, 2**127)
    laplace = fine / 2 + thresholds + 2 * Fraction(1, 2**115)
    gaussian = fine * Fraction(2, 5) + 40 * Fraction(1, 2**95) + thresholds
    assert max(laplace, gaussian) < Fraction(1, 2**80)
    assert "2^−80" in inspect.getdoc(SecureRandom.guarantee)
