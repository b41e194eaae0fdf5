"""Measurements of dpcore.interop.opendp: forms of data, and what is refused."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

from dpcore.errors import ParameterError, ParameterTypeError
from dpcore.interop import opendp as fast
from support.distances import DRAWS, keeps_distance, neighbours
from support.opendp import FEATURES, SUMS, array_space, atoms, dp, features, list_space, number_space, score_space

MAKERS = {"laplace": fast.make_laplace, "gaussian": fast.make_gaussian}
DTYPES = {"f64": np.float64, "f32": np.float32, "i64": np.int64, "i32": np.int32, "u64": np.uint64, "u32": np.uint32, "usize": np.uint64}


@pytest.fixture(autouse=True)
def enabled():
    with features(*FEATURES):
        yield


# Data


@pytest.mark.parametrize("noise", MAKERS)
@pytest.mark.parametrize("kind", DTYPES)
def test_answers_have_the_form_and_the_type_of_the_data(noise, kind):
    make, metric = MAKERS[noise], SUMS[noise](T="f64")
    value = 1000.0 if kind.startswith("f") else 1000
    number = make(atoms(kind), dp.absolute_distance(T="f64"), 2.0)(value)
    assert type(number) is type(value)
    domain = dp.vector_domain(atoms(kind))
    for data in ([value] * 3, np.full(3, value, DTYPES[kind]), []):
        answer = make(domain, metric, 2.0)(data)
        assert [type(x) for x in answer] == [type(value)] * len(data)
        array = make(domain, metric, 2.0, as_array=True)(data)
        assert (array.dtype, array.shape) == (DTYPES[kind], (len(data),))
    given = np.full((2, 3, 4), value, DTYPES[kind])
    array = make(dp.numpy.arrayd_domain(shape=(2, 3, 4), T=kind), metric, 2.0)(given)
    assert (array.dtype, array.shape) == (DTYPES[kind], (2, 3, 4))
    assert np.all(given == value)
    assert not np.shares_memory(array, given)


@pytest.mark.parametrize("kind", DTYPES)
def test_arrays_of_any_strides(kind):
    whole = np.arange(240).reshape(4, 6, 10).astype(DTYPES[kind]) * 1000
    for given in (whole[:, ::2, ::-1], whole.transpose(2, 0, 1), np.asfortranarray(whole), np.broadcast_to(whole[:1], (3, 6, 10))):
        before = given.copy()
        domain = dp.numpy.arrayd_domain(shape=given.shape, T=kind)
        answer = fast.make_laplace(domain, dp.l1_distance(T="f64"), 2.0)(given)
        assert np.array_equal(given, before)
        noise = answer.astype(float) - given.astype(float)
        assert np.abs(noise).max() < 150
        assert len(np.unique(noise)) > 3
    empty = np.zeros(0, DTYPES[kind])
    assert len(fast.make_laplace(dp.vector_domain(atoms(kind)), dp.l1_distance(T="f64"), 2.0)(empty)) == 0


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("scale", [0.0, 1e-300, 2.0**-20])
def test_noise_that_is_almost_none(kind, scale):
    given = np.array([[1, 2], [3, 400]], DTYPES[kind])
    answer = fast.make_laplace(dp.numpy.arrayd_domain(shape=(2, 2), T=kind), dp.l1_distance(T="f64"), scale)(given)
    assert np.allclose(answer, given, atol=1e-3)
    assert not np.shares_memory(answer, given)
    value = given[1, 1].item()
    assert math.isclose(fast.make_laplace(atoms(kind), dp.absolute_distance(T="f64"), scale)(value), value, abs_tol=1e-3)


@pytest.mark.parametrize("kind", ["i64", "i32", "u64", "u32", "usize"])
def test_integers_end_at_the_bounds_of_their_type(kind):
    low, high = np.iinfo(DTYPES[kind]).min, np.iinfo(DTYPES[kind]).max
    for end in (low, high):
        for form in ("number", "list"):
            if form == "number":
                measurement = fast.make_laplace(atoms(kind), dp.absolute_distance(T="f64"), 50.0)
                answers = [measurement(end) for _ in range(60)]
            else:
                answers = fast.make_laplace(dp.vector_domain(atoms(kind)), dp.l1_distance(T="f64"), 50.0)([end] * 500)
            assert all(low <= x <= high for x in answers)
            assert all(abs(x - end) < 5000 for x in answers)
            assert 0.2 < answers.count(end) / len(answers) < 0.8  # half of the noise goes beyond


@pytest.mark.parametrize("noise", MAKERS)
def test_values_outside_the_domain_enter_as_in_opendp(noise):
    make, large = MAKERS[noise], np.finfo(np.float64).max
    native = {"laplace": dp.m.make_laplace, "gaussian": dp.m.make_gaussian}[noise]
    for data, enters in [(math.nan, 0.0), (math.inf, large), (-math.inf, -large)]:
        for maker in (make, native):
            assert math.isclose(maker(*number_space(), 1.0)(data), enters, abs_tol=60)
            assert math.isclose(maker(*list_space(noise), 1.0)([1.0, data])[1], enters, abs_tol=60)
    given = np.array([[1.0, math.nan], [math.inf, 2.0]])
    answer = make(*array_space((2, 2), noise), 1.0)(given)
    assert np.allclose(answer[[0, 0, 1], [0, 1, 1]], [1, 0, 2], atol=60)
    assert answer[1, 0] == large
    assert math.isnan(given[0, 1])


def test_infinite_float32_numbers_enter_as_the_largest_float32():
    space = dp.atom_domain(T="f32", nan=False), dp.absolute_distance(T="f32")
    assert fast.make_laplace(*space, 1.0)(math.inf) == np.finfo(np.float32).max == -fast.make_laplace(*space, 0.0)(-math.inf)


def test_arrays_other_than_the_domain_says_are_refused_without_their_values():
    measurement = fast.make_laplace(*array_space((2, 2)), 1.0)
    for data in (np.full((2, 2), 31337, np.int64), np.full((3,), 31337.0), [[31337.0]], None):
        with pytest.raises(dp.OpenDPException, match=r"must be a numpy array of float64|must have the shape \(2, 2\)") as caught:
            measurement(data)
        assert "31337" not in str(caught.value)


@pytest.mark.parametrize("p", [0.5, 0.75, 1.0])
def test_responses_have_the_form_of_the_data(p):
    one, many = dp.atom_domain(T=bool), dp.vector_domain(dp.atom_domain(T=bool))
    bools = np.array([[True, False], [False, True]])
    answers = [
        (fast.make_randomized_response_bool(one, dp.discrete_distance(), p)(True), True),
        (fast.make_randomized_response_bool(many, dp.hamming_distance(), p)([True, False]), [True, False]),
        (fast.make_randomized_response_bool(many, dp.hamming_distance(), p, as_array=True)([True, False]), bools[0]),
        (fast.make_randomized_response_bool(dp.numpy.arrayd_domain(shape=(2, 2), T=bool), dp.hamming_distance(), p)(bools), bools),
        (fast.make_randomized_response(dp.atom_domain(T=str), dp.discrete_distance(), ["a", "b"], p)("a"), "a"),
        (fast.make_randomized_response(dp.vector_domain(atoms("i32")), dp.hamming_distance(), [5, 7], p)([7, 5]), [7, 5]),
    ]
    codes = bools.astype(np.int32)
    array = dp.numpy.arrayd_domain(shape=(2, 2), T="i32"), dp.hamming_distance()
    answers.append((fast.make_randomized_response(*array, [0, 1], p)(codes), codes))
    for answer, truth in answers:
        assert type(answer) is type(truth)
        assert np.shape(answer) == np.shape(truth)
        assert np.asarray(answer).dtype == np.asarray(truth).dtype
        assert p < 1 or np.array_equal(answer, truth)
        assert not isinstance(answer, np.ndarray) or not np.shares_memory(answer, truth)


def test_scores_of_every_type():
    for kind, dtype in DTYPES.items():
        scores = np.array([3, 900, 5, 800], dtype)
        for measure in (dp.max_divergence(), dp.zero_concentrated_divergence()):
            domain = dp.vector_domain(atoms(kind))
            space = domain, dp.linf_distance(T="f64")
            assert fast.make_noisy_max(*space, measure, 1.0)(scores) == 1
            assert fast.make_noisy_max(*space, measure, 1.0, negate=True)(scores) in (0, 2)
            assert fast.make_noisy_top_k(*space, measure, 2, 0.0)(scores) == [1, 3]
            assert fast.make_noisy_top_k(*space, measure, 2, 0.0, negate=True)(scores) == [0, 2]
            assert sorted(fast.make_noisy_top_k(*space, measure, 9, 1.0)(scores)) == [0, 1, 2, 3]
            array = dp.numpy.arrayd_domain(shape=(4,), T=kind), dp.linf_distance(T="f64")
            assert fast.make_noisy_max(*array, measure, 1.0)(scores) == 1
    ends = [-(2**63), 2**63 - 1]
    space = score_space("i64")
    assert fast.make_noisy_max(*space, dp.max_divergence(), 1.0, negate=True)(ends) == 0
    large = [2**64 - 1, 2**63, 0]
    assert fast.make_noisy_max(*score_space("u64"), dp.max_divergence(), 1.0)(large) == 0
    assert fast.make_noisy_max(*score_space("u64"), dp.max_divergence(), 1.0, negate=True)(large) == 2
    assert fast.make_noisy_max(*score_space(), dp.max_divergence(), 1.0)([math.nan, 900.0, -math.inf]) == 1
    with pytest.raises(dp.OpenDPException, match="at least one score"):
        fast.make_noisy_max(*space, dp.max_divergence(), 1.0)([])


# Refused


@pytest.mark.parametrize("make", [fast.make_laplace, fast.make_gaussian])
def test_domains_that_are_not_served_are_refused(make):
    frame = dp.lazyframe_domain([dp.series_domain("x", dp.atom_domain(T="i32"))])
    for domain, advice in [
        (dp.atom_domain(T=str), "got AtomDomain"),
        (dp.option_domain(dp.atom_domain(T=int)), "got OptionDomain"),
        (dp.map_domain(dp.atom_domain(T=str), dp.atom_domain(T=int)), "got MapDomain"),
        (dp.user_domain("mine", lambda _: True), r"dpcore knows dp\.numpy\.arrayd_domain"),
        (frame, "their noise stays its own"),
        (dp.atom_domain(T=float), r"nan=False\) does"),
        (dp.vector_domain(dp.atom_domain(T=float)), r"nan=False\) does"),
    ]:
        with pytest.raises(ParameterError, match=advice):
            make(domain, dp.absolute_distance(T=float), 1.0)


def test_metrics_that_do_not_fit_are_refused():
    for make, right, wrong in [(fast.make_laplace, dp.l1_distance, dp.l2_distance), (fast.make_gaussian, dp.l2_distance, dp.l1_distance)]:
        domain = dp.vector_domain(atoms())
        assert make(domain, right(T=float), 1.0)
        for metric in (wrong(T=float), dp.absolute_distance(T=float), dp.symmetric_distance(), dp.discrete_distance()):
            with pytest.raises(ParameterError, match=r"input_metric must be L[12]Distance with VectorDomain"):
                make(domain, metric, 1.0)
        with pytest.raises(ParameterError, match="input_metric must be AbsoluteDistance"):
            make(atoms(), right(T=float), 1.0)
    yes_no = dp.vector_domain(dp.atom_domain(T=bool))
    for metric in (dp.change_one_distance(), dp.discrete_distance(), dp.symmetric_distance()):  # an order that counts, and as many records
        with pytest.raises(ParameterError, match="input_metric must be HammingDistance"):
            fast.make_randomized_response_bool(yes_no, metric, 0.75)
    with pytest.raises(ParameterError, match="where the domain has no size"):
        fast.make_ks_exponential(dp.vector_domain(atoms()), dp.symmetric_distance(), 1.0, bounds=(0, 1), draws=1, bins=2)


def test_arguments_that_are_nothing_of_opendp_are_refused():
    with pytest.raises(ParameterTypeError, match="input_domain must be a domain of OpenDP, got int"):
        fast.make_laplace(3, dp.absolute_distance(T=float), 1.0)
    with pytest.raises(ParameterTypeError, match="input_metric must be a metric of OpenDP, got str"):
        fast.make_laplace(atoms(), "l1", 1.0)
    for scale in (-1.0, math.nan, math.inf, 2.0**961):
        with pytest.raises(ParameterError, match=r"scale must be in \[0.0, "):
            fast.make_laplace(*number_space(), scale)
    for scale in ("1", None, True):
        with pytest.raises(ParameterTypeError, match="scale must be a real number"):
            fast.make_gaussian(*number_space(), scale)
    scores = score_space()
    with pytest.raises(ParameterError, match=r"output_measure must be max_divergence\(\) or"):
        fast.make_noisy_max(*scores, dp.approximate(dp.max_divergence()), 1.0)
    with pytest.raises(ParameterError, match=r"k must be in \[1, "):
        fast.make_noisy_top_k(*scores, dp.max_divergence(), 0, 1.0)
    with pytest.raises(ParameterTypeError, match="negate must be a bool"):
        fast.make_noisy_max(*scores, dp.max_divergence(), 1.0, "yes")
    with pytest.raises(ParameterError, match="one axis of scores"):
        fast.make_noisy_max(dp.numpy.arrayd_domain(shape=(2, 2), T=float), dp.linf_distance(T=float), dp.max_divergence(), 1.0)


def test_responses_refuse_what_has_no_meaning():
    one, words = (dp.atom_domain(T=bool), dp.discrete_distance()), (dp.atom_domain(T=str), dp.discrete_distance())
    for p in (0.3, 0.49, 1.1, math.nan):
        with pytest.raises(ParameterError, match="prob must be in"):
            fast.make_randomized_response_bool(*one, p)
    with pytest.raises(ParameterError, match=r"prob must be in \[1/3, 1\]"):
        fast.make_randomized_response(*words, ["a", "b", "c"], 0.3)
    for names in (["a"], ["a", "a"], []):
        with pytest.raises(ParameterError, match="categories must be two or more, all different"):
            fast.make_randomized_response(*words, names, 0.9)
    for names in ("ab", {"a", "b"}, 3):
        with pytest.raises(ParameterTypeError, match="categories must be a list"):
            fast.make_randomized_response(*words, names, 0.9)
    for names in ([1, 2], [True, False], ["a", None]):
        with pytest.raises(ParameterTypeError, match="categories must hold str"):
            fast.make_randomized_response(*words, names, 0.9)
    with pytest.raises(ParameterError, match="categories must hold numbers of"):
        fast.make_randomized_response(dp.atom_domain(T="u32"), dp.discrete_distance(), [-1, 1], 0.9)


def test_bounds_and_bins_are_checked_before_there_are_data():
    space = dp.vector_domain(atoms()), dp.change_one_distance()
    for wrong in ({"bounds": (1, 0)}, {"bins": 0}, {"draws": 0}, {"bounds": (0, math.nan)}):
        with pytest.raises(ParameterError):
            fast.make_ks_exponential(*space, 1.0, **{"bounds": (0, 1), "draws": 3, "bins": 4} | wrong)
    with pytest.raises(ParameterError, match="epsilon"):
        fast.make_ks_exponential(*space, 0.0, bounds=(0, 1), draws=3, bins=4)


@pytest.mark.parametrize("enabled_ones", [(), ("contrib",), ("honest-but-curious",)])
def test_features_are_asked_for_and_never_enabled(enabled_ones):
    from opendp.mod import GLOBAL_FEATURES

    calls = [
        lambda: fast.make_laplace(*number_space(), 1.0),
        lambda: fast.make_gaussian(*number_space(), 1.0),
        lambda: fast.make_noisy_max(*score_space(), dp.max_divergence(), 1.0),
        lambda: fast.make_noisy_top_k(*score_space(), dp.max_divergence(), 2, 1.0),
        lambda: fast.make_randomized_response_bool(dp.atom_domain(T=bool), dp.discrete_distance(), 0.75),
        lambda: fast.make_randomized_response(dp.atom_domain(T=str), dp.discrete_distance(), ["a", "b"], 0.75),
        lambda: fast.make_ks_exponential(dp.vector_domain(atoms()), dp.change_one_distance(), 1.0, bounds=(0, 1), draws=3, bins=4),
        lambda: number_space() >> fast.then_laplace(1.0),
    ]
    with features(*enabled_ones):
        for call in calls:
            with pytest.raises(ParameterError, match=r"call dp\.enable_features\('contrib', 'honest-but-curious'\) first"):
                call()
        with fast.install():
            pass
        assert set(enabled_ones) == GLOBAL_FEATURES


def test_measurements_are_not_saved():
    measurement = fast.make_laplace(*number_space(), 1.0)
    with pytest.raises(ParameterTypeError, match="save the parameters, and make dpcore's measurement again"):
        dp.serialize(measurement)
    with pytest.raises(ValueError, match="pointers cannot be pickled"):
        pickle.dumps(measurement)
    with pytest.raises(ValueError, match="pointers cannot be pickled"):
        pickle.dumps(dp.m.make_laplace(*number_space(), 1.0))  # nor are OpenDP's own


def test_an_interrupt_ends_the_call_and_not_the_process(monkeypatch):
    from dpcore import noise

    def interrupted(*_args, **_options):
        raise KeyboardInterrupt

    measurement = fast.make_laplace(*number_space(), 1.0)
    monkeypatch.setattr(noise, "laplace", interrupted)
    with pytest.raises(dp.OpenDPException, match="stopped by KeyboardInterrupt"):
        fast.make_laplace(*number_space(), 1.0)(5.0)
    monkeypatch.undo()
    assert isinstance(measurement(5.0), float)


# Types

ATOMS = ("f64", "f32", "i64", "i32", "u64", "u32", "usize")
"""OpenDP's types of numbers that noise takes; `DTYPES` has those of arrays."""


@pytest.mark.parametrize("form", ["list", "array"])
@pytest.mark.parametrize("kind", ATOMS)
def test_neighbours_of_every_type_keep_their_distance(kind, form):
    for v, w in neighbours(DTYPES[kind])[:12]:
        base = int(v) if kind[0] != "f" else 0

        def release(value, scale, base=base):
            data = np.full(DRAWS, value, DTYPES[kind])
            domain = dp.numpy.arrayd_domain(shape=(DRAWS,), T=kind) if form == "array" else dp.vector_domain(atoms(kind))
            found = fast.make_laplace(domain, dp.l1_distance(T="f64"), scale)(data if form == "array" else data.tolist())
            return [int(x) - base for x in found] if kind[0] != "f" else found

        assert keeps_distance(release, v, w), (v, w)


def test_types_of_opendp_are_served_or_refused():
    for kind in ("i8", "i16", "u8", "u16", "i128", "u128", "bool", "String"):
        with pytest.raises(ParameterError if kind in {"bool", "String"} else dp.OpenDPException):
            fast.make_laplace(dp.vector_domain(dp.atom_domain(T=kind)), dp.l1_distance(T="f64"), 1.0)


@pytest.mark.parametrize("kind", ["u64", "usize"])
def test_synthetic_samples_take_unsigned_integers(kind):
    for domain in (dp.vector_domain(atoms(kind)), dp.numpy.arrayd_domain(shape=(3,), T=kind)):
        measurement = fast.make_ks_exponential(domain, dp.change_one_distance(), 0.5, bounds=(0, 10), draws=5, bins=4)
        records = np.array([1, 2**63 + 5, 2**64 - 1], np.uint64)
        assert len(measurement(records)) == 5


# OpenDP's argument MO


@pytest.mark.parametrize(
    ("make", "options", "measures"),
    [
        (fast.make_laplace, {}, ["MaxDivergence", dp.max_divergence]),
        (fast.make_gaussian, {}, ["ZeroConcentratedDivergence", dp.zero_concentrated_divergence]),
        (fast.make_gaussian, {"delta": 1e-6}, ["Approximate<MaxDivergence>", lambda: dp.approximate(dp.max_divergence())]),
    ],
    ids=["laplace", "gaussian", "gaussian with delta"],
)
def test_the_measure_of_the_noise_may_be_named_and_no_other(make, options, measures):
    name = "laplace" if make is fast.make_laplace else "gaussian"
    for measure in (None, *(each() if callable(each) else each for each in measures)):
        made = make(*list_space(name), 2.0, MO=measure, **options)
        assert str(made.output_measure.type) == measures[0]
        assert made.map(1.0) == make(*list_space(name), 2.0, **options).map(1.0)
        assert len(made([1.0, 2.0])) == 2
    then = fast.then_laplace if make is fast.make_laplace else fast.then_gaussian
    assert (list_space(name) >> then(2.0, MO=measures[0], **options)).map(1.0) == made.map(1.0)
    for other in ("SmoothedMaxDivergence", "RenyiDivergence", "MaxDivergences", dp.renyi_divergence(), 1.0, float):
        with pytest.raises(ParameterError, match="MO must be '"):
            make(*list_space(name), 2.0, MO=other, **options)


def test_a_program_with_opendps_measure_is_served_by_another_module_name():
    """The call of OpenDP's own constructor, with its argument MO, and ours: same map."""
    for name, measure in (("laplace", "MaxDivergence"), ("gaussian", "ZeroConcentratedDivergence")):
        own = getattr(dp.m, f"make_{name}")(*list_space(name), scale=2.0, MO=measure)
        ours = getattr(fast, f"make_{name}")(*list_space(name), scale=2.0, MO=measure)
        assert ours.map(1.5) == own.map(1.5)
