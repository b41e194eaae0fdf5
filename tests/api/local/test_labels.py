"""Strings, arrays of objects and categoricals of pandas give the reports of their codes, bit for bit; a Series keeps its index."""

from __future__ import annotations

import dataclasses
import enum
import pickle
from typing import Any

import numpy as np
import pytest

from dpcore import local
from dpcore.errors import DataError, ParameterError, ParameterTypeError
from dpcore.local import _labels
from dpcore.testing import KeyedRandom
from support import series
from support.kernels import same_bits

try:
    import pandas as pd
except ModuleNotFoundError:
    pd = None

LABELS = ("north", "süd", "ost", "", "west-by-west", "a label that is longer than all others")
K = len(LABELS)
PHI = (1.0, -1.0, 0.5, 0.25, 0.0, -0.75)
N = 40_000
CODES = np.random.default_rng(1).integers(0, K, N)
TEXTS = [LABELS[code] for code in CODES]
ORACLES = [
    (local.KaryResponse, {}),
    (local.UnaryEncoding, {}),
    (local.UnaryEncoding, {"method": "symmetric"}),
    (local.SubsetSelection, {}),
    (local.LocalHashing, {}),
    (local.HadamardResponse, {}),
]


def keyed() -> Any:
    return KeyedRandom(bytes(range(32))).at(3)


def labelled(kind: Any, options: dict[str, Any], unknown: str | None = None) -> tuple[Any, Any]:
    """The mechanism for labels, and its twin for codes."""
    code = None if unknown is None else LABELS.index(unknown)
    if kind is local.BinaryChannel:
        return kind.from_categories(1.0, LABELS, PHI, unknown=unknown), kind(1.0, PHI, unknown=code)
    return kind.from_categories(1.0, LABELS, unknown=unknown, **options), kind(1.0, k=K, unknown=code, **options)


every = pytest.mark.parametrize(("kind", "options"), [*ORACLES, (local.BinaryChannel, {})])


class Categorical:
    """The part of `pandas.Categorical` that dpcore uses."""

    def __init__(self, codes: Any, categories: Any) -> None:
        self.codes = np.asarray(codes, np.int8)
        self.dtype = type("CategoricalDtype", (), {"categories": categories})()


def forms(texts: list[str]) -> dict[str, Any]:
    found = {
        "list": texts,
        "tuple": tuple(texts),
        "array of strings": np.array(texts),
        "array of objects": np.array(texts, object),
        "every second item": np.repeat(np.array(texts), 2)[::2],
        "categorical": Categorical([LABELS[::-1].index(text) for text in texts], list(LABELS[::-1])),
        "series": series.Series(np.array(texts, object)),
    }
    if pd is not None:
        found |= {
            "pandas series": pd.Series(texts),
            "pandas strings": pd.Series(texts, dtype="string"),
            "pandas categorical": pd.Categorical(texts),
            "pandas categorical series": pd.Series(texts, dtype="category"),
            "pandas index": pd.Index(texts),
        }
    return found


@pytest.mark.some(2)
@every
def test_labels_give_the_reports_of_their_codes(kind, options):
    mechanism, twin = labelled(kind, options)
    wanted = twin.privatize(CODES, rng=keyed())
    for form, texts in forms(TEXTS).items():
        reports = mechanism.privatize(texts, rng=keyed())
        assert same_bits(np.asarray(reports), wanted), form
    assert same_bits(mechanism.privatize(CODES, rng=keyed()), wanted)
    out = np.empty_like(wanted)
    assert mechanism.privatize(TEXTS, rng=keyed(), out=out) is out
    assert same_bits(out, wanted)


@every
def test_a_single_label_gives_the_report_of_its_code(kind, options):
    mechanism, twin = labelled(kind, options)
    for code, label in enumerate(LABELS):
        one, other = mechanism.privatize(label, rng=keyed()), twin.privatize(code, rng=keyed())
        assert type(one) is type(other)
        assert np.array_equal(one, other)
    assert mechanism.privatize([], rng=keyed()).shape == twin.privatize(np.zeros(0, np.int64), rng=keyed()).shape


@every
def test_unknown_labels_are_replaced(kind, options):
    mechanism, twin = labelled(kind, options, unknown="ost")
    codes = np.array([0, 2, 1, 2, 5, 2, 2])
    texts = ["north", "elsewhere", "süd", None, LABELS[5], np.nan, "Ost"]
    wanted = twin.privatize(codes, rng=keyed())
    assert same_bits(mechanism.privatize(texts, rng=keyed()), wanted)
    assert same_bits(mechanism.privatize(np.array(texts, object), rng=keyed()), wanted)
    strings = np.array([text if isinstance(text, str) else "?" for text in texts])
    assert same_bits(mechanism.privatize(strings, rng=keyed()), wanted)
    other = Categorical([0, 1, 2, -1, 3, -1, 4], ["north", "elsewhere", "süd", LABELS[5], "Ost"])
    assert same_bits(mechanism.privatize(other, rng=keyed()), wanted)


@every
@pytest.mark.parametrize("form", ["list", "strings", "objects", "categorical"])
def test_an_unknown_label_is_refused_by_its_place_and_not_told(kind, options, form):
    mechanism, _ = labelled(kind, options)
    texts: Any = ["north", "ost", "secret", "ost"]
    if form == "strings":
        texts = np.array(texts).reshape(2, 2) if kind in (local.KaryResponse, local.LocalHashing) else np.array(texts)
    elif form == "objects":
        texts = np.array(["north", "ost", None, {"secret"}], object)
    elif form == "categorical":
        texts = Categorical([0, 1, 2, 1], ["north", "ost", "secret"])
    place = r"index \(1, 0\)" if np.ndim(getattr(texts, "codes", texts)) == 2 else r"index \(2,\)"
    with pytest.raises(DataError, match=rf"records must hold labels of the categories.*{place} is not") as raised:
        mechanism.privatize(texts)
    assert "secret" not in str(raised.value)
    out = np.zeros_like(mechanism.privatize(["north"] * 4))
    before = out.copy()
    if form == "list":
        with pytest.raises(DataError):
            mechanism.privatize(texts, out=out)
        assert same_bits(out, before)


@every
def test_codes_are_taken_from_lists_and_objects_as_well(kind, options):
    mechanism, twin = labelled(kind, options, unknown="ost")
    codes = CODES[:1000]
    wanted = twin.privatize(codes, rng=keyed())
    many = {
        "integers": codes.tolist(),
        "integers of NumPy": list(codes),
        "objects": codes.astype(object),
        "series of objects": series.Series(codes.astype(object)),
        "categorical of codes": Categorical(codes, list(range(K))),
    }
    for form, given in many.items():
        assert same_bits(np.asarray(mechanism.privatize(given, rng=keyed())), wanted), form


@every
def test_a_categorical_without_codes_is_read_as_an_array(kind, options):
    class Polars:  # its dtype has categories, but the codes cannot be had
        dtype = Categorical([], list(LABELS)).dtype
        cat = object()

        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return np.array(TEXTS, object)

    mechanism, twin = labelled(kind, options)
    assert same_bits(mechanism.privatize(Polars(), rng=keyed()), twin.privatize(CODES, rng=keyed()))


def test_labels_are_compared_as_python_does():
    """Arrays of strings drop null characters at the end."""
    mechanism, twin = labelled(local.KaryResponse, {}, unknown="ost")
    assert mechanism.privatize("north\0", rng=keyed()) == twin.privatize(2, rng=keyed())
    assert same_bits(mechanism.privatize(["north\0"] * 9, rng=keyed()), twin.privatize([2] * 9, rng=keyed()))
    with pytest.raises(ParameterError, match=r"categories must not end with a null character.*got one at position 1"):
        local.KaryResponse.from_categories(1.0, ["a", "a\0"])


def test_a_label_from_an_enumeration_is_its_value():
    class Colour(str, enum.Enum):  # noqa: UP042  of which `str` gives "Colour.RED"
        RED = "red"
        GREEN = "green"

    mechanism = local.KaryResponse.from_categories(1.0, Colour, unknown=Colour.GREEN)
    assert (mechanism.categories, mechanism.unknown) == (("red", "green"), 1)
    wanted = local.KaryResponse(1.0, k=2).privatize([0, 1, 0] * 9, rng=keyed())
    assert same_bits(mechanism.privatize([Colour.RED, Colour.GREEN, "red"] * 9, rng=keyed()), wanted)


@every
def test_what_numpy_takes_for_one_item_is_no_label(kind, options):
    """Such records would be one unknown label, whatever they hold."""
    mechanism, twin = labelled(kind, options, unknown="ost")
    for several in ({"north", "süd"}, {"north": "süd"}, {"north": "süd"}.values(), (text for text in TEXTS)):
        with pytest.raises(ParameterTypeError, match="records must be a label, or a list or an array of labels, got"):
            mechanism.privatize(several)
    for single in (np.array("ost"), np.array("ost", object), None):
        assert np.array_equal(mechanism.privatize(single, rng=keyed()), twin.privatize(2, rng=keyed()))


def test_long_labels_are_found_without_an_array_of_them(monkeypatch):
    mechanism, twin = labelled(local.KaryResponse, {}, unknown="ost")
    monkeypatch.setattr(_labels, "LONG", 10)
    monkeypatch.setattr(_labels, "_of_strings", None)
    assert same_bits(mechanism.privatize(np.array(TEXTS), rng=keyed()), twin.privatize(CODES, rng=keyed()))


def test_a_message_does_not_tell_how_long_a_text_is():
    mechanism, _ = labelled(local.KaryResponse, {})
    with pytest.raises(ParameterTypeError, match=r"got bytes$"):
        mechanism.privatize(np.array([b"north", b"a secret"]))


@every
def test_what_are_no_labels_is_refused(kind, options):
    mechanism, twin = labelled(kind, options)
    for wrong in (np.array([0.5]), np.array([True]), np.array([b"north"]), np.ma.masked_array(["north"], [True])):
        with pytest.raises(ParameterTypeError, match="records must"):
            mechanism.privatize(wrong)
    for none in ([K], 1.0, [None], ["north", "elsewhere"]):
        with pytest.raises(DataError, match="records must hold labels"):
            mechanism.privatize(none)
    for texts in ("north", ["north"], np.array(["north"])):  # of a mechanism without labels
        with pytest.raises(ParameterTypeError, match="records must have one of the dtypes"):
            twin.privatize(texts)


@pytest.mark.parametrize(("kind", "options"), ORACLES)
def test_estimates_carry_the_labels(kind, options):
    mechanism, twin = labelled(kind, options)
    reports = mechanism.privatize(TEXTS, rng=keyed())
    found, plain = mechanism.estimate(reports), twin.estimate(reports)
    assert (found.categories, plain.categories) == (LABELS, None)
    assert same_bits(found.value, plain.value)
    assert same_bits(found.interval(0.9), plain.interval(0.9))
    assert abs(found.value[2] - np.count_nonzero(CODES == 2) / N) < 0.2
    with pytest.raises(ParameterError, match="different mechanisms"):
        mechanism.aggregate(reports) + twin.aggregate(reports)


def test_a_table_of_labels_is_escaped():
    mechanism = local.KaryResponse.from_categories(1.0, ["<script>alert(1)</script>", "a & b"])
    page = mechanism.estimate(np.array([0, 1, 1]))._repr_html_()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert "a &amp; b" in page


@every
def test_mechanisms_for_labels_are_values(kind, options):
    mechanism, twin = labelled(kind, options)
    assert mechanism == labelled(kind, options)[0]
    assert mechanism != twin
    assert hash(mechanism) == hash(labelled(kind, options)[0])
    assert pickle.loads(pickle.dumps(mechanism)) == mechanism
    assert dataclasses.replace(mechanism, epsilon=2.0).categories == LABELS


@pytest.mark.parametrize(
    ("categories", "error", "words"),
    [
        ("abc", ParameterTypeError, "categories must be a sequence of strings, got str"),
        (3, ParameterTypeError, "categories must be a sequence of strings, got int"),
        (["a", 1], ParameterTypeError, "categories must be strings, got int at position 1"),
        (["a"], ParameterError, "categories must be between 2 and"),
        (["a", "b", "a"], ParameterError, "categories must be distinct, got 2 different ones of 3"),
    ],
)
def test_categories_are_checked(categories, error, words):
    with pytest.raises(error, match=words):
        local.KaryResponse.from_categories(1.0, categories)
    with pytest.raises(error, match=words):
        local.BinaryChannel.from_categories(1.0, categories, [1.0, 2.0])


def test_the_label_for_others_must_be_a_category():
    with pytest.raises(ParameterError, match="unknown must be one of the categories, got 'c'"):
        local.KaryResponse.from_categories(1.0, ["a", "b"], unknown="c")
    with pytest.raises(ParameterTypeError, match="unknown must be one of the categories, got 1 of type int"):
        local.KaryResponse.from_categories(1.0, ["a", "b"], unknown=1)
    with pytest.raises(ParameterError, match="categories must be k = 3, got 2"):
        local.KaryResponse(1.0, k=3, categories=("a", "b"))
    with pytest.raises(ParameterError, match="unknown and categories are for a table phi"):
        local.BinaryChannel(1.0, np.sin, bound=1.0, categories=("a", "b"))


KINDS = [series.Series, *([pd.Series] if pd else [])]
NUMBERS = np.array([0.0, 1.0, 2.0])
ONE_EACH = {
    "kary": (local.KaryResponse(1.0, k=3), np.arange(3)),
    "labels": (local.KaryResponse.from_categories(1.0, ["a", "b", "c"]), np.array(["a", "b", "c"], object)),
    "binary": (local.BinaryResponse(1.0), np.array([True, False, True])),
    "bounded mean": (local.BoundedMean(1.0, 0.0, 2.0), NUMBERS),
    "table": (local.BinaryChannel(1.0, (1.0, 0.0, -1.0)), np.arange(3)),
    "function": (local.BinaryChannel(1.0, np.sin, bound=1.0), NUMBERS),
    "laplace": (local.LocalLaplace(1.0, 0.0, 2.0), NUMBERS),
    "gaussian": (local.LocalGaussian(1.0, 1e-6, 0.0, 2.0), NUMBERS),
    "discrete laplace": (local.LocalDiscreteLaplace(1.0, 0, 2), np.arange(3)),
    "discrete gaussian": (local.LocalDiscreteGaussian(1.0, 1e-6, 0, 2), np.arange(3)),
}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__module__.split(".")[0])
@pytest.mark.parametrize("name", ONE_EACH)
def test_a_series_keeps_its_index_and_its_name(name, kind):
    mechanism, values = ONE_EACH[name]
    given = kind(values, index=["x", "y", "z"], name="visits")
    reports = mechanism.privatize(given, rng=keyed())
    assert type(reports) is kind
    assert (list(reports.index), reports.name) == (["x", "y", "z"], "visits")
    plain = mechanism.privatize(values, rng=keyed())
    assert type(plain) is np.ndarray
    assert same_bits(np.asarray(reports), plain)
    assert np.array_equal(mechanism.estimate(reports).value, mechanism.estimate(plain).value)
    out = np.empty_like(plain)
    assert mechanism.privatize(given, rng=keyed(), out=out) is out


def test_texts_for_yes_and_no_lead_to_what_takes_them():
    with pytest.raises(
        ParameterTypeError, match=r'got str; np.asarray\(x\) == "yes" makes booleans \(False of an empty answer\); KaryResponse.from_cat'
    ):
        local.BinaryResponse(1.0).privatize(["yes", "no"])
    assert local.KaryResponse.from_categories(1.0, ["yes", "no", "none"]).privatize(["yes", "none"]).shape == (2,)
