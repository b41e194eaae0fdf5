"""Selection as its users meet it: what comes out, what is refused and how, and what each call costs."""

from __future__ import annotations

import dataclasses
import inspect
import math
import tracemalloc

import numpy as np
import pytest

import dpcore
from dpcore import Privacy, selection
from dpcore.errors import DataError, ParameterError, ParameterTypeError
from dpcore.testing import KeyedRandom
from support.kernels import KEY

SCORES = np.array([3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0])


def keyed(nonce: int = 0):
    return KeyedRandom(KEY).at(nonce)


ONE = {
    "noisy_argmax": lambda scores, epsilon=1.0, sensitivity=1.0, **o: selection.noisy_argmax(scores, epsilon, sensitivity, **o),
    "noisy_argmax-gumbel": lambda scores, epsilon=1.0, sensitivity=1.0, **o: selection.noisy_argmax(
        scores, epsilon, sensitivity, noise="gumbel", **o
    ),
    "noisy_argmax-exponential": lambda scores, epsilon=1.0, sensitivity=1.0, **o: selection.noisy_argmax(
        scores, epsilon, sensitivity, noise="exponential", **o
    ),
    "exponential_mechanism": lambda scores, epsilon=1.0, sensitivity=1.0, **o: selection.exponential_mechanism(
        scores, epsilon, sensitivity, **o
    ),
    "permute_and_flip": lambda scores, epsilon=1.0, sensitivity=1.0, **o: selection.permute_and_flip(scores, epsilon, sensitivity, **o),
}
TOP = {
    "gumbel": lambda scores, s=1, epsilon=1.0, sensitivity=1.0, **o: selection.top_s(scores, epsilon, sensitivity, s=s, **o),
    "peeling": lambda scores, s=1, epsilon=1.0, sensitivity=1.0, **o: selection.top_s(
        scores, epsilon, sensitivity, s=s, **{"method": "peeling", "delta": 1e-6, **o}
    ),
    "oneshot_laplace": lambda scores, s=1, epsilon=0.1, sensitivity=1.0, **o: selection.top_s(
        scores, epsilon, sensitivity, s=s, **{"method": "oneshot_laplace", "delta": 1e-6, **o}
    ),
}
ALL = {**ONE, **TOP}
each_one = pytest.mark.parametrize("name", ONE)
each_top = pytest.mark.parametrize("name", TOP)
each = pytest.mark.parametrize("name", ALL)


# What comes out


@each_one
def test_an_argmax_is_a_python_int(name):
    found = ONE[name](SCORES)
    assert type(found) is int
    assert 0 <= found < len(SCORES)
    assert ONE[name]([7.0]) == 0
    assert ONE[name]([7]) == 0


def test_repeated_draws_are_an_int64_array():
    drawn = selection.exponential_mechanism(SCORES, 1.0, 1.0, draws=5)
    assert drawn.dtype == np.int64
    assert drawn.shape == (5,)
    assert selection.exponential_mechanism(SCORES, 1.0, 1.0, draws=1).shape == (1,)
    assert selection.exponential_mechanism([7.0], 1.0, 1.0, draws=3).tolist() == [0, 0, 0]


@each_top
def test_a_selection_is_an_immutable_value(name):
    for s in (1, 3, len(SCORES)):
        found = TOP[name](SCORES, s)
        assert isinstance(found, selection.Selection)
        assert found.indices.dtype == np.int64
        assert found.indices.shape == (s,)
        assert len(set(found.indices.tolist())) == s
        assert found.values is None
        assert isinstance(found.privacy, Privacy)
        assert found.scale > 0
        with pytest.raises(dataclasses.FrozenInstanceError):
            found.indices = None


def test_the_method_of_top_s_is_gumbel_by_default():
    assert (
        selection.top_s(SCORES, 1.0, 1.0, s=3, rng=keyed()).indices.tolist()
        == selection.top_s(SCORES, 1.0, 1.0, s=3, method="gumbel", rng=keyed()).indices.tolist()
    )


def test_signatures_are_those_of_the_contract():
    shown = {
        "noisy_argmax": "(scores, epsilon, sensitivity, *, noise='laplace', labels=None, relation='replace', monotone=False, "
        "rng=None, threads=None)",
        "exponential_mechanism": "(scores, epsilon, sensitivity, *, draws=None, labels=None, relation='replace', monotone=False, "
        "measure=None, rng=None, threads=None)",
        "permute_and_flip": "(scores, epsilon, sensitivity, *, labels=None, relation='replace', monotone=False, rng=None, threads=None)",
        "top_s": "(scores, epsilon, sensitivity, *, s, delta=0.0, method='gumbel', scale=None, values=False, value_share=0.5, "
        "labels=None, relation='replace', monotone=False, rng=None, threads=None)",
    }
    for name, expected in shown.items():
        signature = inspect.signature(getattr(selection, name))
        plain = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
        assert str(inspect.Signature(plain)) == expected


@each_one
def test_much_privacy_budget_finds_the_largest(name):
    assert ONE[name](SCORES * 1000, 500.0) == 5
    assert ONE[name](-SCORES * 1000, 500.0) in (1, 3)


@each_top
def test_clear_scores_are_selected_in_order(name):
    found = TOP[name](SCORES * 1e6, 4).indices.tolist()
    assert found == ([2, 4, 5, 7] if name == "oneshot_laplace" else [5, 7, 4, 2])


@each
def test_a_key_repeats_a_call_and_the_secure_source_does_not(name):
    scores = np.zeros(10_000)

    def call(**options):
        found = ALL[name](scores, **options)
        return int(found.indices[0]) if name in TOP else found

    assert call(rng=keyed()) == call(rng=keyed())
    assert len({call(rng=keyed(n)) for n in range(8)}) > 4
    assert len({call() for _ in range(8)}) > 4
    assert len({call(rng=dpcore.SecureRandom()) for _ in range(8)}) > 4


@each_one
def test_a_call_takes_one_position_of_the_stream(name):
    rng = KeyedRandom(KEY)
    for _ in range(3):
        ONE[name](SCORES, rng=rng)
    assert rng.position().nonce == 3


def test_the_scores_are_not_changed():
    scores = SCORES.copy()
    for name, call in ALL.items():
        call(scores)
        assert scores.tolist() == SCORES.tolist(), name


@each
def test_a_stream_that_is_not_at_a_block_is_refused(name):
    with pytest.raises(ParameterError, match="multiple of 512"):
        ALL[name](SCORES, rng=KeyedRandom(KEY).at(0, 100))
    ALL[name](SCORES, rng=KeyedRandom(KEY).at(0, 512))


@each
def test_scores_are_not_copied(name):
    """Not even once: extra memory is far below that of the scores."""
    scores = np.zeros(1_000_000)
    ALL[name](scores, threads=1)
    tracemalloc.start()
    try:
        ALL[name](scores, threads=1)
        assert tracemalloc.get_traced_memory()[1] < 200_000
    finally:
        tracemalloc.stop()


# Scores that are refused


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@each
def test_scores_are_finite(name, bad, dtype):
    for d, index in ((1, 0), (8, 3), (3000, 2999), (3000, 0), (3000, 1600)):
        scores = np.zeros(d, dtype)
        scores[index] = bad
        with pytest.raises(DataError, match=rf"\b{index}\b") as refused:
            ALL[name](scores)
        assert "nan" not in str(refused.value).lower().replace("nan or", "")
    strided = np.zeros((600, 2), dtype)
    strided[407, 1] = bad
    with pytest.raises(DataError, match=r"\b407\b"):
        ALL[name](strided[:, 1])
    assert strided[:, 0].any() == 0


@each
def test_the_first_bad_score_is_named_whatever_the_threads(name):
    scores = np.zeros(400_000)
    scores[[70_001, 399_000]] = math.nan
    for threads in (1, 3):
        with pytest.raises(DataError, match="70001"):
            ALL[name](scores, threads=threads)


@pytest.mark.parametrize("scores", [[], np.zeros(0), np.zeros((2, 2)), np.zeros((1, 3)), 3.0, np.float64(3), np.zeros((2, 0))], ids=repr)
@each
def test_scores_have_one_dimension_and_an_entry(name, scores):
    with pytest.raises((ParameterError, ParameterTypeError), match="scores"):
        ALL[name](scores)


@pytest.mark.parametrize(
    "scores",
    [
        ["a", "b"],
        [True, False],
        np.array([True, False]),
        [1j, 2.0],
        [None, 1.0],
        np.array([1, 2], object),
        np.ma.masked_array([1.0, 2.0], [True, False]),
        np.array([1.0, 2.0], ">f8"),
        np.array([1, 2], np.uint64),
        np.array([1.0, 2.0], np.longdouble),
        "12",
        None,
        {1.0, 2.0},
    ],
    ids=repr,
)
@each
def test_scores_are_real_numbers(name, scores):
    with pytest.raises((ParameterTypeError, ParameterError), match="scores"):
        ALL[name](scores)


# Parameters that are refused

WRONG_REALS = {
    "bool": (True, ParameterTypeError),
    "str": ("1", ParameterTypeError),
    "None": (None, ParameterTypeError),
    "complex": (1j, ParameterTypeError),
    "array": (np.ones(2), ParameterTypeError),
    "nan": (math.nan, ParameterError),
    "inf": (math.inf, ParameterError),
    "-inf": (-math.inf, ParameterError),
    "0": (0.0, ParameterError),
    "negative": (-1.0, ParameterError),
    "subnormal": (5e-324, ParameterError),
    "too large for a float": (10**400, ParameterError),
}


@pytest.mark.parametrize("wrong", WRONG_REALS)
@pytest.mark.parametrize("parameter", ["epsilon", "sensitivity"])
@each
def test_epsilon_and_sensitivity_are_positive_and_finite(name, parameter, wrong):
    value, error = WRONG_REALS[wrong]
    with pytest.raises(error, match=rf"^{parameter}\b"):
        ALL[name](SCORES, **{parameter: value})


@each
def test_a_scale_outside_the_range_is_refused(name):
    with pytest.raises(ParameterError):
        ALL[name](SCORES, sensitivity=1e308)
    with pytest.raises(ParameterError):
        ALL[name](SCORES, sensitivity=1e-307)


@pytest.mark.parametrize(("value", "error"), [("half", ParameterError), (None, ParameterTypeError), (1, ParameterTypeError)])
@each
def test_relations_are_known(name, value, error):
    with pytest.raises(error, match=r"^relation\b"):
        ALL[name](SCORES, relation=value)


@pytest.mark.parametrize("value", [1, 0, None, "yes", np.array([True])], ids=repr)
@each
def test_monotone_is_a_bool(name, value):
    with pytest.raises(ParameterTypeError, match=r"^monotone\b"):
        ALL[name](SCORES, monotone=value, relation="add_remove")


@each
def test_monotone_is_refused_under_replacement(name):
    with pytest.raises(ParameterError, match="monotone"):
        ALL[name](SCORES, monotone=True)
    with pytest.raises(ValueError, match="add_remove"):
        ALL[name](SCORES, monotone=True, relation="replace")
    if name == "oneshot_laplace":  # its theorem knows no such saving
        with pytest.raises(ParameterError, match="monotone"):
            ALL[name](SCORES, monotone=True, relation="add_remove")
    else:
        ALL[name](SCORES, monotone=True, relation="add_remove")


@pytest.mark.parametrize("value", [0, -1, 1.0, True, "2", "many"], ids=repr)
@each
def test_threads_are_checked(name, value):
    with pytest.raises((ParameterError, ParameterTypeError), match=r"^threads\b"):
        ALL[name](SCORES, threads=value)


@pytest.mark.parametrize("value", [7, np.random.default_rng(1), KeyedRandom, "secure"], ids=lambda v: type(v).__name__)
@each
def test_other_generators_are_refused(name, value):
    with pytest.raises(ParameterTypeError, match=r"^rng\b"):
        ALL[name](SCORES, rng=value)


def test_noise_is_known():
    for value, error in (("normal", ParameterError), (None, ParameterTypeError), (1, ParameterTypeError)):
        with pytest.raises(error, match=r"^noise\b"):
            selection.noisy_argmax(SCORES, 1.0, 1.0, noise=value)


@pytest.mark.parametrize(
    ("value", "error"),
    [(0, ParameterError), (-2, ParameterError), (1.0, ParameterTypeError), (True, ParameterTypeError), ("2", ParameterTypeError)],
)
def test_draws_is_a_positive_integer(value, error):
    with pytest.raises(error, match=r"^draws\b"):
        selection.exponential_mechanism(SCORES, 1.0, 1.0, draws=value)


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (0, ParameterError),
        (-1, ParameterError),
        (9, ParameterError),
        (10**30, ParameterError),
        (1.0, ParameterTypeError),
        (True, ParameterTypeError),
        (None, ParameterTypeError),
        ("1", ParameterTypeError),
    ],
)
@each_top
def test_s_is_between_one_and_the_number_of_scores(name, value, error):
    with pytest.raises(error, match=r"^s\b"):
        TOP[name](SCORES, value)


@each_top
def test_delta_is_checked(name):
    for value, error in (
        (-0.1, ParameterError),
        (1.0, ParameterError),
        (math.nan, ParameterError),
        (True, ParameterTypeError),
        ("0", ParameterTypeError),
    ):
        with pytest.raises(error, match=r"^delta\b"):
            TOP[name](SCORES, 2, delta=value)


def test_method_is_known():
    for value, error in (("laplace", ParameterError), (None, ParameterTypeError), (3, ParameterTypeError)):
        with pytest.raises(error, match=r"^method\b"):
            selection.top_s(SCORES, 1.0, 1.0, s=2, method=value)


def test_scale_is_checked():
    for value, error in (
        ("large", ParameterError),
        (0.0, ParameterError),
        (-1.0, ParameterError),
        (math.nan, ParameterError),
        (math.inf, ParameterError),
        (True, ParameterTypeError),
        ([1.0], ParameterTypeError),
    ):
        with pytest.raises(error, match=r"^scale\b"):
            TOP["peeling"](SCORES, 2, scale=value)


@each_top
def test_value_share_is_a_share(name):
    for value, error in (
        (0.0, ParameterError),
        (1.0, ParameterError),
        (-0.5, ParameterError),
        (math.nan, ParameterError),
        (True, ParameterTypeError),
    ):
        with pytest.raises(error, match=r"^value_share\b"):
            TOP[name](SCORES, 2, values=True, value_share=value)


@each_top
def test_values_are_a_bool_or_scores(name):
    for value in (np.zeros(7), np.zeros(9), np.zeros((8, 1)), 1, None, "yes", ["a"] * 8, np.zeros(8, bool), np.zeros(8, complex)):
        with pytest.raises((ParameterError, ParameterTypeError), match=r"^values\b"):
            TOP[name](SCORES, 2, values=value)
    bad = np.zeros(8)
    bad[6] = math.nan
    with pytest.raises(DataError, match=r"values.*\b6\b"):
        TOP[name](SCORES, 2, values=bad)


def test_parameters_are_refused_before_data_are_looked_at():
    bad = np.array([0.0, math.nan])
    for name, call in ALL.items():
        with pytest.raises(ParameterError, match="epsilon"):
            call(bad, epsilon=-1.0)
        with pytest.raises(ParameterTypeError, match="rng"):
            call(bad, rng=5)
        assert name


def test_refusals_of_data_do_not_show_them():
    scores = np.array([12345.678, math.inf])
    for call in ALL.values():
        with pytest.raises(DataError) as refused:
            call(scores)
        assert "12345" not in str(refused.value)
