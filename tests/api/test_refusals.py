"""What no function takes: masks wherever they hide, integers that would be rounded, budgets that would be rounded up, callers' channels."""

from __future__ import annotations

import collections
import decimal
import inspect
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpcore
from dpcore import accounting, distributions, inference, local, mechanisms, minimax, noise, selection
from dpcore._validation import REAL_DTYPES, check_array, check_real, check_scale, check_sensitivity
from dpcore.errors import DpcoreError, ParameterError, ParameterTypeError
from dpcore.testing import KeyedRandom

MASKED = np.ma.masked_array([1.0, 2.0, 3.0], mask=[False, True, False])


class Hidden:
    """An object whose array is a masked one."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return MASKED


class Interface:
    """An object whose array interface has a mask."""

    def __init__(self) -> None:
        self._values = np.ones(3)
        self.__array_interface__ = self._values.__array_interface__ | {"mask": np.ones(3, bool)}


class MaskedSubclass(np.ndarray):
    """An array class of somebody else's, with a mask of its own."""

    mask = np.ones(3, bool)


HIDING_PLACES: dict[str, Any] = {
    "an array": MASKED,
    "the constant": np.ma.masked,
    "a list of scalars": [1.0, np.ma.masked, 2.0],
    "what indexing gives": [MASKED[0], MASKED[1], 2.0],
    "a list of arrays": [MASKED, MASKED],
    "a tuple in a list": [(1.0, 2.0), (np.ma.masked, 3.0)],
    "deep down": [[[[np.ma.masked]]]],
    "a deque": collections.deque([1.0, np.ma.masked]),
    "a user's list": collections.UserList([1.0, np.ma.masked]),
    "an object": Hidden(),
    "a list of objects": [Hidden(), Hidden()],
    "an interface": Interface(),
    "a subclass": np.ones(3).view(MaskedSubclass),
    "integers": np.ma.masked_array([1, 2], mask=[True, False]),
    "no mask at all": np.ma.masked_array([1.0, 2.0]),
}
ENTRANCES = {
    "laplace": lambda x: noise.laplace(x, 1.0),
    "scale": lambda x: noise.laplace(np.ones(3), x),
    "discrete_laplace": lambda x: noise.discrete_laplace(x, 1.0),
    "LocalLaplace": local.LocalLaplace(1.0, 0.0, 5.0).privatize,
    "BoundedMean": local.BoundedMean(1.0, 0.0, 5.0).privatize,
    "BinaryResponse": local.BinaryResponse(1.0).privatize,
    "KaryResponse": local.KaryResponse(1.0, k=5).privatize,
    "BinaryChannel": local.BinaryChannel(1.0, np.tanh, bound=1.0).privatize,
    "aggregate": local.LocalHashing(1.0, k=5).aggregate,
    "noisy_argmax": lambda x: selection.noisy_argmax(x, 1.0, 1.0),
    "mean": lambda x: inference.mean(x, 1.0, 0.0, radius=1.0),
    "histogram": lambda x: distributions.perturbed_histogram(x, 1.0, (0, 1), bins=2),
}


@pytest.mark.parametrize("place", HIDING_PLACES)
@pytest.mark.parametrize("entrance", ENTRANCES)
def test_masks_are_refused_wherever_they_hide(place: str, entrance: str) -> None:
    with pytest.raises(ParameterTypeError):
        ENTRANCES[entrance](HIDING_PLACES[place])


class Stubborn(np.ndarray):
    """An array class of somebody else's that computes nothing."""

    def __array_ufunc__(self, *ignored: Any, **options: Any) -> Any:
        raise RuntimeError("no arithmetic")

    def __getitem__(self, index: Any) -> Any:
        raise RuntimeError("no items")


def plain_calls() -> dict[str, Any]:
    """Functions of an array of eight rows and two columns."""
    rng, kary, additive = KeyedRandom(bytes(32)).at(1), local.KaryResponse(1.0, k=5), local.LocalLaplace(1.0, 0.0, 5.0)
    y = np.linspace(0.0, 1.0, 8)
    return {
        "laplace": lambda x: noise.laplace(x, 1.0, rng=rng),
        "BinaryResponse": lambda x: local.BinaryResponse(1.0, unknown=True).privatize(x.astype(np.int64, subok=True), rng=rng),
        "KaryResponse": lambda x: kary.aggregate(x.astype(np.int64, subok=True)).counts,
        "LocalLaplace": lambda x: additive.estimate(x).value,
        "mean": lambda x: inference.mean(x, 1.0, 1e-6, 1.0, rng=rng).value,
        "regression": lambda x: inference.linear_regression(x, y, 1.0, 1e-6, x_radius=4.0, y_radius=1.0, rng=rng).value,
        "histogram": lambda x: distributions.perturbed_histogram(x, 1.0, (0, 1), bins=(2, 2), rng=rng).masses,
    }


@pytest.mark.parametrize("name", plain_calls())
@pytest.mark.parametrize("kind", [np.matrix, Stubborn, np.memmap, np.recarray])
def test_array_classes_are_arrays(name: str, kind: Any, tmp_path: Any) -> None:
    x = np.arange(16.0).reshape(8, 2) % 5
    if kind is np.memmap:
        given = np.memmap(tmp_path / "x", np.float64, "w+", shape=x.shape)
        given[...] = x
    else:
        given = x.view(kind)
    call = plain_calls()[name]
    assert np.asarray(call(given)).tobytes() == np.asarray(call(x)).tobytes()


def test_what_has_no_mask_is_taken() -> None:
    class Plain:
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return np.array([1.0, 2.0])

    for value in ([1.0, 2], (1, 2.5), [[1.0, 2.0], [3.0, 4.0]], collections.deque([1.0, 2.0]), range(5), Plain(), [], [np.float32(1), 2.0]):
        assert check_array("x", value, REAL_DTYPES).dtype.kind in "if"


def test_a_list_that_holds_itself_ends() -> None:
    circle: list[Any] = []
    circle.append(circle)
    with pytest.raises(ParameterTypeError):
        noise.laplace(circle, 1.0)


ROUNDED_LISTS: dict[str, Any] = {
    "beyond 64 bits": [2**64, 1],
    "beside a float": [2**64 + 1, 1.0],
    "two signs": [2**63 + 1, -1],
    "lost digits": [2**53 + 1, 0.5],
    "nested": [[2**63 + 1, -1], [0, 0]],
    "NumPy's": [np.uint64(2**63 + 1), np.int64(-1)],
    "arrays": [np.array([2**63 + 1], np.uint64), np.array([-1])],
    "huge": [10**400, 1.0],
    "alone": 2**64,
}


@pytest.mark.parametrize("name", ROUNDED_LISTS)
@pytest.mark.parametrize("function", [lambda x: noise.laplace(x, 1.0), local.LocalLaplace(1.0, 0.0, 2.0**60).privatize])
def test_integers_are_refused_rather_than_rounded(name: str, function: Any) -> None:
    with pytest.raises(ParameterTypeError) as caught:
        function(ROUNDED_LISTS[name])
    assert not any(str(number) in str(caught.value) for number in (2**64, 2**63 + 1, 2**53 + 1))


def test_integers_that_an_array_holds_are_taken() -> None:
    assert noise.laplace([2**62 + 1, -(2**63)], 1.0).shape == (2,)
    assert noise.laplace([2**53, 0.5, -(2**60)], 1.0).shape == (3,)
    assert local.LocalLaplace(1.0, 0.0, 1.0).privatize([2**64 - 1, 2**64 - 2]).shape == (2,)


# Roundings


def just_below(number: float) -> Fraction:
    """A number that the nearest float64 would round up to the one given."""
    return Fraction(number) - Fraction(math.ulp(math.nextafter(number, 0.0))) / 4


@pytest.mark.parametrize("make", [just_below, lambda x: Decimal(just_below(x).numerator) / Decimal(just_below(x).denominator)])
@pytest.mark.parametrize("name", ["epsilon", "delta", "rho", "target.epsilon", "epsilon_select", "delta_total"])
def test_a_budget_is_rounded_down_and_a_sensitivity_up(make: Any, name: str) -> None:
    number = make(0.7)
    assert check_real(name, number, low=0.0, high=1.0) == math.nextafter(0.7, 0.0) < number < 0.7
    above = Fraction(0.7) + Fraction(math.ulp(0.7)) / 4
    assert check_sensitivity(above) == math.nextafter(0.7, 1.0) > above > 0.7  # type: ignore[arg-type]


@given(st.fractions(min_value=Fraction(1, 10**6), max_value=10), st.booleans())
def test_roundings_are_directed_and_tight(exact: Fraction, decimal: bool) -> None:
    number: Any = Decimal(exact.numerator) / Decimal(exact.denominator) if decimal else exact
    down, up = check_real("epsilon", number, low=0.0, high=math.inf), check_real("scale", number, low=0.0, high=math.inf)
    assert Fraction(down) <= Fraction(number) <= Fraction(up)
    assert up in {down, math.nextafter(down, math.inf)}


@pytest.mark.parametrize(
    "bad",
    [
        Decimal("NaN"),
        Decimal("sNaN"),
        Decimal("Infinity"),
        Decimal("1e400"),
        Fraction(10**400),
        -Fraction(1, 3),
        "1",
        np.timedelta64(1, "s"),
    ],
)
def test_budgets_that_are_no_numbers_are_refused(bad: Any) -> None:
    with pytest.raises((ParameterError, ParameterTypeError), match="epsilon"):
        local.BinaryResponse(bad)


def test_a_span_of_time_is_no_number(tmp_path: Any) -> None:
    span = np.timedelta64(2, "s")  # NumPy has it among its integers
    for use in (lambda: local.KaryResponse(1.0, k=span), lambda: accounting.Ledger.create(tmp_path / "ledger", epsilon=span)):
        with pytest.raises(ParameterTypeError, match=r"must be (an integer|a real number)"):
            use()


# A value for each parameter that a constructor has besides its budget.
OTHERS: dict[str, Any] = {
    "delta": Fraction(1, 10**6), "sensitivity": 1, "lower": 0, "upper": 10, "k": 5, "phi": [0.0, 1.0], "tau": 0.5,
    "ell": [-1.0, 1.0], "bound": None, "choose": lambda reports: local.BinaryResponse(0.5),
}  # fmt: skip


def budgeted() -> list[Any]:
    """Public classes whose constructor takes ε and nothing that is not in OTHERS."""
    found = []
    for module in (mechanisms, local, minimax):
        for name, thing in vars(module).items():
            if thing is dpcore.Privacy:  # a loss, which is rounded up
                continue
            if name.startswith("_") or not inspect.isclass(thing) or inspect.isabstract(thing) or issubclass(thing, BaseException):
                continue
            needed = [p.name for p in inspect.signature(thing).parameters.values() if p.default is p.empty]
            if "epsilon" in needed and set(needed) - {"epsilon"} <= set(OTHERS):
                found.append(thing)
    return sorted(set(found), key=lambda c: c.__name__)


@pytest.mark.parametrize("make", budgeted())
@pytest.mark.parametrize("kind", [Fraction, lambda f: Decimal(f.numerator) / Decimal(f.denominator)])
def test_every_mechanism_spends_at_most_what_it_was_given(make: Any, kind: Any) -> None:
    needed = [p.name for p in inspect.signature(make).parameters.values() if p.default is p.empty]
    given_epsilon = kind(just_below(0.7))
    mechanism = make(**{name: given_epsilon if name == "epsilon" else OTHERS[name] for name in needed})
    assert mechanism.epsilon <= given_epsilon
    assert mechanism.epsilon >= math.nextafter(0.7, 0.0)
    privacy = getattr(mechanism, "privacy", None)
    assert privacy is None or privacy.epsilon <= given_epsilon
    if "delta" in needed:
        assert mechanism.delta <= OTHERS["delta"]


def test_many_mechanisms_have_a_budget() -> None:
    assert len(budgeted()) >= 15


def test_scales_are_made_of_the_rounded_budget() -> None:
    low = math.nextafter(0.7, 0.0)
    assert accounting.laplace_scale(just_below(0.7), 1.0) == accounting.laplace_scale(low, 1.0)  # type: ignore[arg-type]
    assert mechanisms.Laplace(just_below(0.7), 1.0).scale == mechanisms.Laplace(low, 1.0).scale  # type: ignore[arg-type]


def test_a_message_does_not_say_how_long_a_text_is() -> None:
    for texts in (["a", "bc"], ["a", "b" * 77], [b"a", b"b" * 77]):
        with pytest.raises(ParameterTypeError, match=r"got (str|bytes)$"):
            noise.laplace(texts, 1.0)  # type: ignore[arg-type]


def test_integer_scales_are_rounded_up_in_arrays_as_alone() -> None:
    large = [2**53 + 1, 2**53, 2**62 + 1, 2**63 - 1, 7]
    alone = [check_scale(number, low=1.0, high=2.0**63, shape=()) for number in large]
    assert all(Fraction(scale) >= number for scale, number in zip(alone, large, strict=True))  # type: ignore[arg-type]
    for several in (np.array(large), large, np.array(large)[:, None]):
        found = check_scale(several, low=1.0, high=2.0**63, shape=(5, 5))
        assert np.ravel(found).tolist() == alone


def test_decimals_are_compared_where_a_context_forbids_floats() -> None:
    with decimal.localcontext() as context:
        context.traps[decimal.FloatOperation] = context.traps[decimal.Inexact] = True
        context.prec = 1
        assert check_real("epsilon", Decimal("0.7"), low=0.0, high=1.0) <= 0.7
        assert dpcore.Privacy(Decimal("0.123")).epsilon >= 0.123
        with pytest.raises(ParameterError, match="representable"):
            check_real("epsilon", Decimal("-1.23e400"), low=0.0, high=1.0)


class Fickle(Fraction):
    """A number that is another one whenever it is read."""

    def __float__(self) -> float:
        self.reads = getattr(self, "reads", 0) + 1
        return float(Fraction(self) * self.reads)


@pytest.mark.parametrize(
    "make",
    [
        lambda epsilon: mechanisms.Laplace(epsilon, 1.0),
        lambda epsilon: mechanisms.DiscreteLaplace(epsilon, 1),
        lambda epsilon: mechanisms.Gaussian(epsilon, 1e-6, 1.0),
        lambda epsilon: mechanisms.DiscreteGaussian(epsilon, 1e-6, 1),
        lambda epsilon: mechanisms.DiscreteGaussian(epsilon, 1e-6, 1, method="exact"),
    ],
)
def test_a_budget_is_read_once(make: Any) -> None:
    mechanism = make(Fickle(1, 8))
    assert mechanism.scale == make(mechanism.privacy.epsilon).scale


def test_losses_that_are_there_already_are_rounded_up() -> None:
    above = Fraction(0.7) + Fraction(math.ulp(0.7)) / 4
    up = math.nextafter(0.7, 1.0)
    assert accounting.rho_pure(above) == accounting.rho_pure(up)  # type: ignore[arg-type]
    assert dpcore.Privacy(above).epsilon == up  # type: ignore[arg-type]


# Sequential channels


class Sloppy(local.BinaryResponse):
    """A subclass that lets the record through."""

    __slots__ = ()

    def privatize(self, x: Any, **_: Any) -> Any:
        return x


class Disguised(local.BinaryResponse):
    """The same, and it says that it is ours."""

    __slots__ = ()
    __module__ = "dpcore.local.binary"

    def privatize(self, x: Any, **_: Any) -> Any:
        return x


SEEN: list[Any] = []


def curious(x: Any) -> Any:
    """A function of the record that remembers it."""
    SEEN.append(x)
    return np.tanh(np.asarray(x, float))


@pytest.mark.parametrize(
    "mechanism",
    [Sloppy(0.5), Disguised(0.5), local.BinaryChannel(0.5, curious, bound=1.0), local.SequentialQuantile(0.5, 0.0, 1.0, q=0.5), object()],
)
def test_a_sequential_channel_takes_exact_types_only(mechanism: Any) -> None:
    SEEN.clear()
    channel = local.SequentialChannel(1.0, lambda reports: mechanism)
    with pytest.raises(ParameterTypeError, match="choose must return"):
        channel.privatize([1, 0, 1])
    assert SEEN == []


def test_a_sequential_channel_takes_a_table() -> None:
    channel = local.SequentialChannel(1.0, lambda reports: local.BinaryChannel(0.5, [0.0, 1.0]))
    assert len(channel.privatize([1, 0, 1], rng=KeyedRandom(bytes(32)))) == 3


# Buffers at odd addresses


def shifted(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The same numbers, one byte further than the processor wants them."""
    room = np.zeros(array.nbytes + 1, np.uint8)
    moved = room[1:].view(array.dtype).reshape(array.shape)
    moved[...] = array
    assert array.dtype.itemsize == 1 or not moved.flags.aligned
    return moved


def in_a_record(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The same numbers as a field of packed records."""
    table = np.zeros(array.shape, [("other", np.uint8), ("numbers", array.dtype)])
    table["numbers"] = array
    return table["numbers"]


REALS = np.random.default_rng(3).normal(3.0, 2.0, 1000)
CODES = np.random.default_rng(3).integers(0, 5, 1000)
UNALIGNED: dict[str, tuple[Any, np.ndarray[Any, Any]]] = {
    "laplace": (lambda x, r: noise.laplace(x, 1.0, rng=r), REALS),
    "laplace of float32": (lambda x, r: noise.laplace(x, 1.0, rng=r), REALS.astype(np.float32)),
    "discrete": (lambda x, r: noise.discrete_laplace(x, 1.0, rng=r), CODES),
    "scales": (lambda x, r: noise.laplace(REALS, x, rng=r), 1.0 + np.abs(REALS)),
    "LocalLaplace": (lambda x, r: local.LocalLaplace(1.0, 0.0, 5.0).privatize(x, rng=r), REALS),
    "LocalLaplace in place": (
        lambda x, r: local.LocalLaplace(1.0, 0.0, 5.0).privatize(x.copy() if x.flags.aligned else x, out=None, rng=r),
        REALS,
    ),
    "BoundedMean": (lambda x, r: local.BoundedMean(1.0, 0.0, 5.0).privatize(x, rng=r), REALS),
    "KaryResponse": (lambda x, r: local.KaryResponse(1.0, k=5).privatize(x, rng=r), CODES),
    "KaryResponse of int16": (lambda x, r: local.KaryResponse(1.0, k=5).privatize(x, rng=r), CODES.astype(np.int16)),
    "KaryResponse.aggregate": (lambda x, r: local.KaryResponse(1.0, k=5).aggregate(x).counts, CODES),
    "LocalLaplace.aggregate": (lambda x, r: local.LocalLaplace(1.0, 0.0, 8.0).aggregate(x).counts, np.arange(8.0)),
    "SequentialQuantile": (lambda x, r: local.SequentialQuantile(1.0, 0.0, 5.0, q=0.5).privatize(x, rng=r).reports, REALS),
    "top_s": (lambda x, r: selection.top_s(x, 1.0, 1.0, s=3, rng=r).indices, REALS),
    "clipped_sum": (lambda x, r: dpcore.sums.clipped_sum(x, radius=4.0).high, REALS),
    "clipped_sum of columns": (lambda x, r: dpcore.sums.clipped_sum(x.reshape(-1, 10), radius=4.0).high, REALS),
}


@pytest.mark.parametrize("move", [shifted, in_a_record])
@pytest.mark.parametrize("name", UNALIGNED)
def test_numbers_at_odd_addresses_are_the_same_numbers(name: str, move: Any) -> None:
    function, array = UNALIGNED[name]
    expected, found = (function(x, KeyedRandom(bytes(32))) for x in (array, move(array)))
    assert np.array_equal(expected, found)


def test_reports_and_bits_may_lie_anywhere() -> None:
    hashing, response = local.LocalHashing(1.0, k=5), local.BinaryResponse(1.0)
    reports, bits = hashing.privatize(CODES), np.packbits(CODES > 2)
    room = np.zeros(reports.nbytes + 1, np.uint8)
    room[1:] = reports.view(np.uint8)
    assert np.array_equal(hashing.aggregate(room[1:].view(reports.dtype)).counts, hashing.aggregate(reports).counts)
    expected, found = (response.privatize_packed(b, n=8 * len(bits), rng=KeyedRandom(bytes(32))) for b in (bits, shifted(bits)))
    assert np.array_equal(expected, found)


def test_outputs_at_odd_addresses_are_written_item_by_item() -> None:
    out = shifted(np.zeros(1000))
    noise.laplace(REALS, 1.0, out=out, rng=KeyedRandom(bytes(32)))
    assert np.array_equal(out, noise.laplace(REALS, 1.0, rng=KeyedRandom(bytes(32))))


def test_an_error_is_one_of_ours() -> None:
    with pytest.raises(DpcoreError):
        noise.laplace([np.ma.masked, 1.0], 1.0)
