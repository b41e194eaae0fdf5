"""`dpcore.interop.pipelinedp` beneath `DPEngine.add_dp_noise`: laws, scales, values, and what is left to PipelineDP."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pipeline_dp", reason="make test-interop PEER=pipelinedp")

import pipeline_dp
from pipeline_dp import dp_computations

from dpcore import DataError, accounting
from dpcore.errors import ParameterTypeError
from dpcore.interop import pipelinedp
from support import laws
from support.distances import DRAWS, NUMPY, keeps_distance, neighbours
from support.pipelinedp import ACCOUNTANTS, DELTA, EPSILON, KINDS, SENSITIVITY, fit, mechanism, noised

SECRET = 918273.25
"""A value that no message may show."""
SCALES = {"LAPLACE": pipelinedp.laplace_scale, "GAUSSIAN": pipelinedp.gaussian_scale}


@pytest.fixture
def installed():
    with pipelinedp.install() as found:
        yield found


# Laws


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_law_of_an_array_is_exact_and_a_twin_of_another_scale_is_rejected(installed, monkeypatch, kind, accountant):
    zeros = np.zeros((400, 1000))
    (answer,) = noised(kind, zeros, accountant=accountant, output_noise_stddev=True)
    scale = answer.noise_stddev / (math.sqrt(2) if kind == "LAPLACE" else 1)
    assert fit(kind, scale, answer.noised_value) > laws.ERROR_RATE
    name = f"{kind.lower()}_scale"
    native = getattr(pipelinedp, name)
    monkeypatch.setattr(pipelinedp, name, lambda made: 0.96 * native(made))
    pipelinedp.uninstall()
    with pipelinedp.install():
        (answer,) = noised(kind, zeros, accountant=accountant)
    assert fit(kind, scale, answer) < laws.ERROR_RATE


@pytest.mark.parametrize("kind", KINDS)
def test_the_law_of_many_small_arrays_is_exact_and_one_noise_for_all_is_rejected(installed, kind):
    noise = np.concatenate(noised(kind, *np.zeros((20_000, 3))))
    scale = SCALES[kind](mechanism(kind))
    assert fit(kind, scale, noise) > laws.ERROR_RATE
    assert fit(kind, scale, np.repeat(noise[:3], 20_000)) < laws.ERROR_RATE


@pytest.mark.parametrize("kind", KINDS)
def test_the_noise_does_not_depend_on_the_values(installed, kind):
    scale = SCALES[kind](mechanism(kind))
    values = np.array([2**30, -(2**25), 0, 1, -1, 77, 10**6, -3])[:, None] + np.zeros((1, 50_000), np.int64)
    (answer,) = noised(kind, values)
    noise = answer - values
    assert fit(kind, scale, noise.ravel()) > laws.ERROR_RATE
    assert fit(kind, scale, (noise * (1 + 0.2 * (values > 10))).ravel()) < laws.ERROR_RATE


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", [0.0, 1e-9, 0.1, 12345.678])
def test_results_lie_on_a_grid_of_the_scale_alone(installed, kind, value):
    (answer,) = noised(kind, np.full(2000, value))
    steps = answer / 2.0 ** (math.floor(math.log2(SCALES[kind](mechanism(kind)))) - 25)
    assert np.array_equal(steps, np.rint(steps))


# Scales

positive = st.floats(1e-9, 1e6)


@given(epsilon=st.floats(1e-9, 1e6), sensitivity=positive)
def test_laplace_scales_are_at_least_the_quotient(epsilon, sensitivity):
    scale = pipelinedp.laplace_scale(mechanism("LAPLACE", epsilon=epsilon, sensitivity=sensitivity))
    exact = Fraction(sensitivity) / Fraction(epsilon)
    assert exact <= Fraction(scale) <= exact * (1 + Fraction(2, 10**15))


@given(deviation=positive, sensitivity=positive)
def test_scales_from_a_standard_deviation_are_at_least_that(deviation, sensitivity):
    made = dp_computations.LaplaceMechanism.create_from_std_deviation(deviation, sensitivity)
    exact, wanted = 2 * Fraction(pipelinedp.laplace_scale(made)) ** 2, (Fraction(deviation) * Fraction(sensitivity)) ** 2
    assert wanted <= exact <= wanted * (1 + Fraction(1, 10**14))
    made = dp_computations.GaussianMechanism.create_from_std_deviation(deviation, sensitivity)
    scale, wanted = Fraction(pipelinedp.gaussian_scale(made)), Fraction(deviation) * Fraction(sensitivity)
    assert wanted <= scale <= wanted * (1 + Fraction(1, 10**14))


@pytest.mark.parametrize("delta", [1e-300, 1e-15, 1e-6, 0.1, 0.999])
@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1, 20, 700])
def test_gaussian_scales_are_those_reported_where_these_are_private(epsilon, delta):
    made = mechanism("GAUSSIAN", epsilon=epsilon, delta=delta)
    scale = pipelinedp.gaussian_scale(made)
    assert scale == made.std
    assert accounting.gaussian_delta(epsilon, scale, SENSITIVITY) <= delta


@pytest.mark.parametrize("epsilon", [720.0, 1e4])
def test_a_reported_scale_without_privacy_is_replaced_by_the_least_private_one(installed, epsilon):
    made = mechanism("GAUSSIAN", epsilon=epsilon)
    assert made.std < 1e-300
    assert pipelinedp.gaussian_scale(made) == accounting.analytic_gaussian_scale(epsilon, DELTA, SENSITIVITY)
    assert np.std(made.add_noise(np.zeros(1000))) > 1e-3


def test_reported_scales_at_the_ends_of_floats():
    assert pipelinedp._private_scale(math.inf, EPSILON, DELTA, SENSITIVITY) == math.inf
    assert pipelinedp._private_scale(0.0, EPSILON, DELTA, SENSITIVITY) == accounting.analytic_gaussian_scale(EPSILON, DELTA, SENSITIVITY)


@pytest.mark.parametrize("kind", KINDS)
def test_scales_beyond_ours_are_pipelinedps(installed, kind):
    made = mechanism(kind, sensitivity=1e-300)
    if kind == "GAUSSIAN":
        made = dp_computations.GaussianMechanism.create_from_std_deviation(1e-300, 1.0)
    assert made.add_noise(np.ones(3)).tolist() == [1.0] * 3


def test_the_scales_of_the_engine_are_those_of_its_budget(installed, monkeypatch):
    seen = []
    for kind in KINDS:
        native = SCALES[kind]
        monkeypatch.setattr(pipelinedp, f"{kind.lower()}_scale", lambda made, native=native: seen.append(native(made)) or seen[-1])
    pipelinedp.uninstall()
    with pipelinedp.install():
        noised("LAPLACE", np.zeros(3))
        noised("GAUSSIAN", np.zeros(3), l2_sensitivity=None, l0_sensitivity=4, linf_sensitivity=1.5)
    assert seen[0] == pytest.approx(SENSITIVITY / EPSILON)
    assert seen[1] == pytest.approx(accounting.analytic_gaussian_scale(EPSILON, DELTA, 3.0), rel=2e-3)


# Values

WHOLE = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


@pytest.mark.parametrize("dtype", [*WHOLE, "float16", "float32", "float64", ">f8", ">i4", ">i8"])
@pytest.mark.parametrize("kind", KINDS)
def test_arrays_of_all_real_types_become_float64_of_the_same_shape(installed, kind, dtype):
    values = np.zeros((2, 3, 4), dtype)
    values[1] = 1
    for given_ in (values, values.T, values[:, ::-2], values[0, 0], values[:0], np.asfortranarray(values)):
        copied = given_.copy()
        (answer,) = noised(kind, given_)
        assert type(answer) is np.ndarray
        assert (answer.dtype, answer.shape) == (np.float64, given_.shape)
        assert np.array_equal(given_, copied)
    (answer,) = noised(kind, np.array(5, dtype))
    assert (type(answer), answer.shape, answer.dtype) == (np.ndarray, (), np.float64)


TYPES = [np.dtype(kind) for kind in NUMPY if np.dtype(kind).kind in "biuf"] + [np.dtype(name) for name in (">i8", ">u8", ">f8", ">f4")]


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_neighbours_of_every_type_keep_their_distance_or_are_refused(installed, dtype):
    """`_is_plain` takes arrays of bools, integers and floats. As float64, 2^63 + 1 and the next integer are equal or 2,048 apart."""

    def release(value, scale):
        return mechanism("LAPLACE", epsilon=1 / scale).add_noise(np.full(DRAWS, value, dtype))

    if dtype == np.longdouble:
        with pytest.raises(ParameterTypeError, match="value must not have the dtype"):
            release(1.0, 1.0)
        return
    for v, w in neighbours(dtype.newbyteorder("=").type):
        assert keeps_distance(release, v, w)


def test_a_twin_that_makes_floats_of_integers_is_rejected(installed):
    def release(value, scale):
        return mechanism("LAPLACE", epsilon=1 / scale).add_noise(np.full(DRAWS, value).astype(np.float64))

    assert not all(keeps_distance(release, v, w) for v, w in neighbours(np.uint64))


def test_fractions_of_float32_are_kept(installed):
    """PipelineDP cuts them off: its float32 arrays become integers with integer noise."""
    assert mechanism("LAPLACE", epsilon=1e6).add_noise(np.array([0.75, 1.9], np.float32)) == pytest.approx([0.75, 1.9], abs=1e-3)
    (answer,) = noised("LAPLACE", np.full(400_000, 0.75, np.float32))
    assert fit("LAPLACE", SENSITIVITY / EPSILON, answer - 0.75) > laws.ERROR_RATE
    pipelinedp.uninstall()
    native = mechanism("LAPLACE", epsilon=1e6).add_noise(np.array([0.75, 1.9], np.float32))
    assert (native.dtype, native.tolist()) == (np.int64, [0, 1])


def test_arrays_on_disk_are_served(installed, tmp_path):
    mapped = np.memmap(tmp_path / "values", np.float32, "w+", shape=(3, 4))
    (answer,) = noised("GAUSSIAN", mapped)
    assert type(answer) is np.ndarray
    assert answer.shape == (3, 4)
    assert not mapped.any()


class Own(dp_computations.LaplaceMechanism):
    """A mechanism of a user."""


@pytest.mark.parametrize("kind", KINDS)
def test_everything_else_is_left_to_pipelinedp(installed, monkeypatch, kind):
    monkeypatch.setattr(pipelinedp, "_entering", None)
    for number in (3, 3.0, np.float64(3), np.int64(3), True):
        (answer,) = noised(kind, number)
        assert type(answer) is float
    (answer,) = noised(kind, np.ma.array([1.0, 2.0], mask=[False, True]))
    assert answer.mask.tolist() == [False, True]
    (answer,) = noised(kind, np.array([1, 2], object))
    assert answer.dtype == np.float64
    assert isinstance(Own(mechanism("LAPLACE")._mechanism).add_noise(np.zeros(3)), np.ndarray)


@pytest.mark.parametrize(
    "bad", [np.array([1 + 2j]), np.array(["a"]), np.array([3], "m8[s]"), np.array([None]), np.zeros(2, "i4,f4"), [1.0]]
)
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_not_a_number_gets_the_error_of_pipelinedp(kind, bad):
    with pytest.raises(TypeError) as native:
        noised(kind, bad)
    with pipelinedp.install(), pytest.raises(type(native.value)):
        noised(kind, bad)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("kind", KINDS)
def test_values_that_are_not_finite_are_refused_by_position(installed, kind, bad):
    with pytest.raises(DataError, match=r"\(1, 2\)") as caught:
        noised(kind, np.array([[SECRET] * 3, [SECRET, SECRET, bad]]))
    assert "918273" not in str(caught.value)


def test_what_pipelinedp_refuses_stays_refused(installed):
    with pytest.raises(ValueError, match="must be positive"):
        pipeline_dp.AddDPNoiseParams(noise_kind=pipeline_dp.NoiseKind.LAPLACE, l1_sensitivity=0)
    for epsilon in (0.0, math.inf, math.nan):
        with pytest.raises(RuntimeError, match="Epsilon"):
            mechanism("LAPLACE", epsilon=epsilon)
