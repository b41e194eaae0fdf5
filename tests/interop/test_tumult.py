"""`dpcore.interop.tumult` without Spark: laws, scales, types, what is left to Tumult, installation, pickles, processes and threads."""

from __future__ import annotations

import copy
import math
import multiprocessing
import pickle
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcore import DataError
from dpcore._extras import BELOW, install
from dpcore.errors import ForeignPatchError, UntestedVersionWarning
from dpcore.interop import tumult
from support import laws
from support.distances import DRAWS, NUMPY, distance, keeps_distance, loss_bound, neighbours
from support.tumult import (
    MECHANISMS,
    WHOLE,
    WIDENS,
    AddNoiseToSeries,
    OutOfDomainError,
    attributes,
    fit,
    mechanism,
    noise_mechanisms,
    pd,
    series,
    served,
    zeros,
)

SECRET = 918273.25
"""A value that no message may show."""
PARAMETERS = ("1/3", "7/2", "250")


@pytest.fixture
def installed():
    with tumult.install() as found:
        yield found


# Laws


@pytest.mark.parametrize("parameter", PARAMETERS)
@pytest.mark.parametrize("name", MECHANISMS)
def test_the_law_of_a_series_is_exact_and_a_twin_of_another_scale_is_rejected(installed, monkeypatch, name, parameter):
    measurement, values = series(name, parameter), zeros(name, 400_000)
    assert fit(name, float(Fraction(parameter)), measurement(values).to_numpy()) > laws.ERROR_RATE
    law = tumult.law_of(measurement.noise_measurement)
    monkeypatch.setattr(tumult, "law_of", lambda _: tumult.Law(law.kind, 0.96 * law.scale))
    assert fit(name, float(Fraction(parameter)), measurement(values).to_numpy()) < laws.ERROR_RATE


@pytest.mark.parametrize("name", MECHANISMS)
def test_the_law_of_single_numbers_is_exact_and_one_noise_for_all_is_rejected(installed, name):
    measurement, value = mechanism(name, 2), np.int64(0) if name in WHOLE else np.float64(0.0)
    noise = np.array([measurement(value) for _ in range(20_000)])
    assert fit(name, 2.0, noise) > laws.ERROR_RATE
    assert fit(name, 2.0, np.full(20_000, noise[0])) < laws.ERROR_RATE


def test_noise_is_added_before_the_only_rounding(installed):
    """Tumult adds Gaussian noise in floats, so that low bits tell the value; here results lie on one grid, whatever the value."""
    noised = series("AddGaussianNoise", 1)(pd.Series(np.full(10_000, 1e-9))).to_numpy()
    assert np.array_equal(noised * 2**25, np.rint(noised * 2**25))


# Scales


@given(st.fractions(min_value=Fraction(1, 10**6), max_value=10**9))
def test_rational_scales_are_the_least_floats_above(parameter):
    for name in MECHANISMS:
        law = tumult.law_of(mechanism(name, parameter))
        power = 2 if "Gaussian" in name else 1
        assert Fraction(law.scale) ** power >= parameter
        assert Fraction(math.nextafter(law.scale, 0.0)) ** power < parameter


@pytest.mark.parametrize("parameter", ["sqrt(2)", "pi", "exp(3)/7", "log(5)", "2**(1/3)"])
@pytest.mark.parametrize("name", MECHANISMS)
def test_irrational_scales_are_rounded_up_too(name, parameter):
    import sympy

    measurement = mechanism(name, parameter)
    exact = sympy.parse_expr(parameter) if "Gaussian" not in name else sympy.sqrt(sympy.parse_expr(parameter))
    law = tumult.law_of(measurement)
    assert sympy.Rational(*law.scale.as_integer_ratio()) >= exact
    assert law.scale <= float(exact) * (1 + 3e-15)


@pytest.mark.parametrize("name", MECHANISMS)
def test_no_noise_infinite_noise_and_scales_beyond_ours_are_tumults(installed, name):
    values = zeros(name, 5) + 3
    assert series(name, 0)(values).to_list() == [3] * 5
    assert mechanism(name, 0)(values[0]) == 3
    assert tumult.law_of(mechanism(name, "10**30")) is None or name not in WHOLE
    if name in WHOLE:
        assert np.abs(series(name, "10**30")(values[:1]).to_list()[0]) > 10**6
    else:
        infinite = series(name, float("inf"))(values)
        assert set(infinite) <= {math.inf, -math.inf}
        assert abs(mechanism(name, float("inf"))(3.0)) == math.inf


# Values


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("dtype", ["int32", "int64", "float32", "float64"])
def test_types_index_and_name_are_those_of_tumult(name, dtype):
    if name in WHOLE and dtype.startswith("f"):
        pytest.skip("the domain has integers only")
    values = pd.Series([1, 2, 3], index=list("abc"), name="count", dtype=dtype)
    if not WIDENS and name not in WHOLE and dtype.startswith("i"):
        pytest.skip("this Tumult takes floats only")
    native = series(name, 2)(values)
    with tumult.install():
        ours = series(name, 2)(values)
        assert series(name, 2)(values[:0]).dtype == native.dtype
        value = values.iloc[0] if WIDENS else values.to_list()[0]
        number = mechanism(name, 2)(value)
    assert ours.dtype == native.dtype
    assert list(ours.index) == list("abc")
    assert ours.name == "count"
    assert values.to_list() == [1, 2, 3]
    assert type(number) is type(mechanism(name, 2)(value))


@pytest.mark.skipif(WIDENS, reason="this Tumult takes them")
@pytest.mark.parametrize("name", MECHANISMS)
def test_numbers_of_other_types_are_refused_by_tumult(installed, name):
    """They are refused without dpcore, too; a Series in a task of Spark is of another type than its measurement in the same way."""
    others = [np.int32(3), np.uint64(3)] if name in WHOLE else [3, np.int64(3), np.float32(3)]
    for value in others:
        with pytest.raises(OutOfDomainError):
            mechanism(name, 2)(value)
    if name not in WHOLE:
        whole = pd.Series([1, 2, 3])
        with pytest.raises(OutOfDomainError):
            series(name, 2)(whole)
        law, _ = pickle.loads(pickle.dumps(series(name, 2).__reduce_ex__(4)[1]))
        assert not law.takes(whole.dtype)
        assert law.takes(np.dtype(np.float64))


def test_values_of_other_types_are_left_to_tumult(installed, monkeypatch):
    for name in MECHANISMS:
        monkeypatch.setattr(tumult.Law, "noised", None)
        numbers = [1, 2, 3] if WIDENS or name in WHOLE else [1.0, 2.0, 3.0]
        assert len(series(name, 2)(pd.Series(numbers, dtype=object))) == 3
        assert len(series(name, 2)(pd.Series(numbers, dtype="Int64" if WIDENS or name in WHOLE else "Float64"))) == 3
    if WIDENS:
        assert isinstance(mechanism("AddGeometricNoise", 2)(2.5), int)  # Tumult cuts the fraction off
    else:
        with pytest.raises(OutOfDomainError):
            mechanism("AddGeometricNoise", 2)(2.5)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_values_that_are_not_finite_are_refused_by_position(installed, bad):
    values = pd.Series([SECRET, bad, SECRET])
    for name in ("AddLaplaceNoise", "AddGaussianNoise"):
        with pytest.raises(DataError) as caught:
            series(name, 2)(values)
        assert "918273" not in str(caught.value)
    with pytest.raises((ValueError, OverflowError, OutOfDomainError), match=r"to integer|only accepts int"):  # Tumult's: no floats
        series("AddGeometricNoise", 2)(pd.Series([1.0, bad]))
    with pytest.raises(DataError):
        mechanism("AddLaplaceNoise", 2)(bad)


def test_sums_end_where_int64_does(installed):
    ends = pd.Series([2**63 - 1, -(2**63)] * 50)
    noised = series("AddGeometricNoise", 1000)(ends)
    assert noised.dtype == np.int64
    assert (noised[::2] > 2**62).all()
    assert (noised[1::2] < -(2**62)).all()


# Installation


def test_every_attribute_is_restored_by_identity():
    before = dict(attributes())
    with tumult.install():
        assert served()
        changed = {name for name, value in attributes() if before.get(name) != value}
        assert changed == {"AddNoiseToSeries.__reduce_ex__", *(f"{name}.__call__" for name in ("AddNoiseToSeries", *MECHANISMS))}
    assert dict(attributes()) == before
    tumult.uninstall()
    assert dict(attributes()) == before


def test_twice_from_two_threads_and_in_turn():
    before = dict(attributes())
    barrier = threading.Barrier(2)

    def work(_: int) -> bool:
        barrier.wait()
        with tumult.install():
            return served()

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(work, range(2))) == [True, True]
    with tumult.install(), tumult.install():
        pass
    assert dict(attributes()) == before


def test_somebody_elses_patch_is_kept(monkeypatch):
    def foreign(self, values):
        return values

    monkeypatch.setattr(AddNoiseToSeries, "__call__", foreign)
    with pytest.raises(ForeignPatchError, match=r"AddNoiseToSeries\.__call__"):
        tumult.install()
    monkeypatch.undo()
    with tumult.install() as found:
        monkeypatch.setattr(noise_mechanisms.AddLaplaceNoise, "__call__", foreign)
        with pytest.raises(ForeignPatchError, match=r"AddLaplaceNoise\.__call__"):
            tumult.uninstall()
        monkeypatch.undo()
        assert found
    assert not served()


def child(code: str) -> str:
    return subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_the_import_changes_nothing_and_needs_no_tumult():
    code = "import sys, dpcore.interop.tumult as t; print([m for m in ('tmlt', 'pandas', 'pyspark') if m in sys.modules], t.PEER.tested)"
    assert child(code) == "[] ('0.19.1', '0.20')"


def test_an_absent_tumult_and_an_untested_one(monkeypatch):
    code = (
        "import sys, importlib.util, dpcore.interop._peers as p, dpcore.interop.tumult as t\n"
        "p.find_spec = lambda name: None\n"
        "try: t.install()\n"
        "except ModuleNotFoundError as error: print(error)"
    )
    assert install("peer-tumult", gap=BELOW) in child(code)
    monkeypatch.setattr("importlib.metadata.version", lambda _: "0.99")
    with pytest.warns(UntestedVersionWarning, match=r"tmlt\.core 0\.99 was not tested"):
        tumult.PEER.require()


# Pickles, processes, threads


def test_a_pickle_is_tumults_own_measurement(installed):
    measurement = series("AddLaplaceNoise", "1/3")
    text = pickle.dumps(measurement)
    for found in (pickle.loads(text), copy.copy(measurement), copy.deepcopy(measurement)):
        assert type(found) is AddNoiseToSeries
        assert found.noise_measurement.scale == measurement.noise_measurement.scale
        assert found.input_domain == measurement.input_domain
        assert found.privacy_function(1) == 3
    tumult.uninstall()
    again = pickle.loads(text)
    assert type(again) is AddNoiseToSeries
    assert not served()
    assert len(again(pd.Series([1.0, 2.0]))) == 2


class Own(AddNoiseToSeries):
    """A subclass that adds no noise."""

    def __call__(self, values):
        return values


def test_a_subclass_with_a_call_of_its_own_is_left_alone(installed, monkeypatch):
    import pyspark

    own = Own(mechanism("AddGeometricNoise", 2))
    monkeypatch.setattr(pyspark.TaskContext, "get", classmethod(lambda _: object()))
    assert type(pickle.loads(pickle.dumps(own))) is Own


def test_in_a_task_of_spark_a_pickle_is_the_law_and_tumults_measurement_on_demand(installed, monkeypatch):
    import pyspark

    text = pickle.dumps(series("AddGeometricNoise", 7))
    tumult.uninstall()
    monkeypatch.setattr(pyspark.TaskContext, "get", classmethod(lambda _: object()))
    found = pickle.loads(text)
    assert type(found) is tumult.InTask
    noised = found(pd.Series([0] * 100_000, index=range(5, 100_005), name="x"))
    assert fit("AddGeometricNoise", 7.0, noised.to_numpy()) > laws.ERROR_RATE
    assert (noised.index[0], noised.name, noised.dtype) == (5, "x", np.int64)
    assert found._measurement is None
    assert found.privacy_function(1) == mechanism("AddGeometricNoise", 7).privacy_function(1)
    assert type(pickle.loads(pickle.dumps(found))) is tumult.InTask
    assert len(found(pd.Series([1, 2], dtype=object))) == 2
    assert not hasattr(found, "__wrapped__")


def first(name: str) -> tuple[bool, list[float]]:
    return served(), series(name, 1000)(pd.Series(np.zeros(50, np.int64))).to_list()


@pytest.mark.parametrize(("method", "expected"), [("fork", True), ("spawn", False)])
def test_forked_processes_are_served_and_spawned_ones_install_for_themselves(installed, method, expected):
    context = multiprocessing.get_context(method)
    with context.Pool(2) as pool:
        found = pool.map(first, ["AddGeometricNoise"] * 4, chunksize=1)
    assert [active for active, _ in found] == [expected] * 4
    draws = [tuple(values) for _, values in [*found, first("AddGeometricNoise")]]
    assert len(set(draws)) == 5


def test_threads_draw_apart(installed):
    measurement = series("AddGaussianNoise", 4)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: measurement(pd.Series(np.zeros(1000))).to_numpy(), range(64)))
    together = np.concatenate(found)
    assert len({part.tobytes() for part in found}) == 64
    assert fit("AddGaussianNoise", 4.0, together) > laws.ERROR_RATE


# Types

REALS = (
    int,
    float,
    np.float16,
    np.float32,
    np.float64,
    np.longdouble,
    np.int8,
    np.int16,
    np.int32,
    np.int64,
    np.uint8,
    np.uint16,
    np.uint32,
    np.uint64,
)
SERIES = (np.float32, np.float64, np.int8, np.int16, np.int32, np.int64)


@pytest.mark.parametrize("kind", REALS, ids=lambda kind: kind.__name__)
def test_neighbours_of_every_type_of_numbers_keep_their_distance(kind):
    """Numbers that `__call__` of a measurement takes. As floats, 2^63 + 1024 and the next integer are 2,048 apart."""
    draws = 150 if kind in {int, np.uint64, np.longdouble} else 600
    for v, w in neighbours(kind)[:: 3 if kind is int else 1]:
        law = tumult.Law("laplace", distance(v, w))
        assert loss_bound(*([law.number(value) for _ in range(draws)] for value in (v, w))) <= 1.0, (v, w)


@pytest.mark.parametrize("kind", SERIES, ids=lambda kind: kind.__name__)
def test_neighbours_in_a_series_keep_their_distance(kind):
    for v, w in neighbours(kind):
        assert keeps_distance(lambda value, scale: tumult.Law("laplace", scale).noised(np.full(DRAWS, value)), v, w)


def test_types_of_series_are_served_or_left_to_tumult():
    for kind in NUMPY:
        assert tumult.Law("laplace", 1.0).takes(np.dtype(kind)) == (kind in {*SERIES, np.longlong})


def test_integer_noise_ends_at_int64(installed):
    for name in WHOLE:
        for value in (2**63 - 1, 2**63, 2**64, 2**70):
            assert 2**63 - 400 <= mechanism(name, "2")(value) <= 2**63 - 1


@pytest.mark.skipif(not WIDENS, reason="this Tumult takes floats only")
def test_a_twin_that_makes_floats_of_integers_is_rejected(installed, monkeypatch):
    served = mechanism("AddLaplaceNoise", "2")
    near = [[served(value) for _ in range(150)] for value in (2**63 + 1023, 2**63 + 1025)]
    assert loss_bound(*near) <= 1.0
    monkeypatch.setattr(tumult._entering, "number", float)
    near = [[served(value) for _ in range(150)] for value in (2**63 + 1023, 2**63 + 1025)]
    assert loss_bound(*near) > 1.0
