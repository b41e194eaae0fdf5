"""A Series keeps its index. With pandas where it is installed, and with a stand-in everywhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dpcore
from dpcore import mechanisms, noise
from dpcore.testing import KeyedRandom
from support import series

try:
    import pandas as pd
except ModuleNotFoundError:
    pd = None

KINDS = [series.Series, *([pd.Series] if pd else [])]
each_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__module__.split(".")[0])
NAMES = ["north", "south", "west"]
DRAWS: dict[str, Any] = {
    "laplace": lambda x, **o: noise.laplace(x, 2.0, **o),
    "gaussian": lambda x, **o: noise.gaussian(x, 2.0, **o),
    "discrete_laplace": lambda x, **o: noise.discrete_laplace(x, 2.0, **o),
    "discrete_gaussian": lambda x, **o: noise.discrete_gaussian(x, 2.0, **o),
    "Laplace": lambda x, **o: mechanisms.Laplace(1.0, 1.0).release(x, **o),
    "Gaussian": lambda x, **o: mechanisms.Gaussian(1.0, 1e-6, 1.0).release(x, **o),
    "DiscreteLaplace": lambda x, **o: mechanisms.DiscreteLaplace(1.0, 1).release(x, **o),
    "DiscreteGaussian": lambda x, **o: mechanisms.DiscreteGaussian(1.0, 1e-6, 1).release(x, **o),
}


def keyed() -> Any:
    return KeyedRandom(bytes(32)).at(5)


@each_kind
@pytest.mark.parametrize("name", DRAWS)
def test_a_series_keeps_its_index_and_its_name(name: str, kind: Any) -> None:
    counts = np.array([10, 20, 30])
    released = DRAWS[name](kind(counts, index=NAMES, name="visits"), rng=keyed())
    assert type(released) is kind
    assert (list(released.index), released.name) == (NAMES, "visits")
    plain = DRAWS[name](counts, rng=keyed())
    assert type(plain) is np.ndarray
    assert np.asarray(released).tolist() == plain.tolist()
    assert np.asarray(released).dtype == plain.dtype


@each_kind
def test_a_subclass_says_what_is_made_of_it(kind: Any) -> None:
    class Places(kind):
        """Its constructor takes other arguments; pandas asks for `_constructor` instead."""

        def __init__(self, data: Any, system: str) -> None:
            super().__init__(data)
            self.attrs = {"system": system}

        @property
        def _constructor(self) -> Any:
            return kind

    released = noise.laplace(Places([1.0, 2.0], "WGS 84"), 1.0, rng=keyed())
    assert type(released) is kind
    assert np.asarray(released).tolist() == noise.laplace([1.0, 2.0], 1.0, rng=keyed()).tolist()


@each_kind
def test_an_output_array_is_returned_as_it_is(kind: Any) -> None:
    out = np.zeros(3)
    assert noise.laplace(kind([1.0, 2.0, 3.0], index=NAMES), 1.0, out=out) is out


@each_kind
def test_a_series_of_wrong_values_is_refused_as_an_array_is(kind: Any) -> None:
    with pytest.raises(dpcore.DataError, match=r"values must be finite; the number at index \(1,\) is not"):
        noise.laplace(kind([1.0, np.nan]), 1.0)
    with pytest.raises(dpcore.ParameterTypeError, match="values must"):
        noise.discrete_laplace(kind([1.5, 2.0]), 1.0)


@pytest.mark.parametrize("values", [[1.0, 2.0], (1.0, 2.0), np.array([1.0, 2.0]), range(2), np.float32([1, 2])], ids=repr)
def test_what_is_no_series_gives_an_array(values: Any) -> None:
    assert type(noise.laplace(values, 1.0)) is np.ndarray


@pytest.mark.skipif(pd is None, reason="needs pandas")
def test_tables_and_indexes_of_pandas_give_arrays() -> None:
    for values in (pd.DataFrame({"a": [1.0, 2.0]}), pd.Index([1.0, 2.0])):
        assert type(noise.laplace(values, 1.0)) is np.ndarray


@each_kind
def test_parameters_may_be_a_series(kind: Any) -> None:
    assert type(noise.laplace(np.zeros(3), kind([1.0, 2.0, 3.0]))) is np.ndarray
