"""Copies of secure generators are fresh ones: no word of a copy is one that the original draws, whoever makes the copy."""

from __future__ import annotations

import copy
import inspect
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpcore.errors import ParameterTypeError
from dpcore.interop.numpy import KeyedBitGenerator, SecureBitGenerator, SecureRandomState
from support.kernels import KEY

PAGE = Path(__file__).resolve().parents[2] / "docs" / "interop" / "numpy.md"
SOURCES: dict[str, Callable[[], Any]] = {
    "bit generator": SecureBitGenerator,
    "generator": lambda: np.random.default_rng(SecureBitGenerator()),
    "state": SecureRandomState,
}
COPIES: dict[str, Callable[[Any], Any]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "in a container": lambda source: copy.deepcopy({"a": [source]})["a"][0],
}


def words(source: Any, n: int = 1500) -> set[int]:
    """What a source draws next."""
    if isinstance(source, np.random.Generator):
        source = source.bit_generator
    drawn = source.randint(0, 2**63, n) if isinstance(source, np.random.RandomState) else source.random_raw(n)
    return {int(word) for word in drawn}


def repeated(first: Any, second: Any) -> int:
    """How many words two sources have in common."""
    return len(words(first) & words(second))


@pytest.mark.parametrize("used", [0, 1, 700])
@pytest.mark.parametrize("way", COPIES)
@pytest.mark.parametrize("kind", SOURCES)
def test_a_copy_is_fresh(kind: str, way: str, used: int) -> None:
    """Also the copy of one that has drawn: neither has words that the other draws."""
    first = SOURCES[kind]()
    if used:
        words(first, used)
    second = COPIES[way](first)
    assert type(first) is type(second)
    assert first is not second
    assert repeated(first, second) == 0


def test_a_copied_state_has_no_normal_number_of_the_original() -> None:
    state = SecureRandomState()
    state.standard_normal()  # the second number of the pair waits
    other = copy.deepcopy(state)
    assert state.standard_normal() != other.standard_normal()


def test_a_copy_that_has_the_key_stream_is_found() -> None:
    """The broken twin: a keyed generator, whose copy goes on with the same words."""
    bits = KeyedBitGenerator(key=KEY)
    assert repeated(bits, copy.deepcopy(bits)) == 1500


def test_a_generator_of_numpy_1_26_copies_what_reduce_gives() -> None:
    """It calls the function with its first argument, and gives no state."""
    function, (argument,), state = SecureBitGenerator().__reduce__()
    assert state is None
    assert repeated(function(argument), function(copy.deepcopy(copy.copy(argument)))) == 0
    with pytest.raises(ParameterTypeError, match="is not pickled"):
        pickle.dumps(argument)


def test_a_subclass_is_copied_to_its_own_kind() -> None:
    class Named(SecureBitGenerator):
        pass

    assert type(copy.deepcopy(Named())) is type(copy.deepcopy(np.random.Generator(Named())).bit_generator) is Named


@pytest.mark.parametrize("kind", ["state", "generator"])
def test_clones_of_scikit_learn_draw_words_of_their_own(kind: str) -> None:
    """`clone` and `cross_val_score` copy parameters: each fold has a generator of its own."""
    base = pytest.importorskip("sklearn.base")
    selection = pytest.importorskip("sklearn.model_selection")
    drawn: list[set[int]] = []

    class Drawing(base.BaseEstimator):  # type: ignore[misc, name-defined]
        def __init__(self, random_state: Any = None) -> None:
            self.random_state = random_state

        def fit(self, X: Any, y: Any = None) -> Any:
            drawn.append(words(self.random_state))
            return self

        def score(self, X: Any, y: Any = None) -> float:
            return 0.0

    original = SOURCES[kind]()
    model = Drawing(original)
    assert base.clone(model).random_state is not original
    selection.cross_val_score(model, np.zeros((20, 1)), cv=5)
    drawn.append(words(original))
    assert len(drawn) == 6
    assert len(set().union(*drawn)) == 6 * 1500


def test_children_that_scipy_makes_are_fresh() -> None:
    """It calls the class with what stands for the seed sequence, which holds nothing."""
    bits = SecureBitGenerator()
    children = [SecureBitGenerator(each) for each in bits._seed_seq.spawn(2)]  # type: ignore[attr-defined]
    assert repeated(*children) == repeated(bits, children[0]) == 0
    with pytest.raises(ParameterTypeError, match="takes no seed"):
        SecureBitGenerator(np.random.SeedSequence(5))


@pytest.mark.source_tree
def test_scipy_takes_a_secure_generator_for_its_sequences() -> None:
    """The program of the page: scrambled sequences under randomness that nobody foresees."""
    from scipy.stats import qmc

    programs = re.findall(r"^```py\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    (program,) = [each for each in programs if "qmc" in each]
    if "rng" not in inspect.signature(qmc.Sobol).parameters:
        program = program.replace("rng=", "seed=")
    found = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=True, timeout=100)
    assert found.stdout == "(256, 2) True\n"


def test_two_sequences_are_scrambled_differently_and_each_is_even() -> None:
    from scipy.stats import qmc

    name = "rng" if "rng" in inspect.signature(qmc.Sobol).parameters else "seed"
    rng = np.random.default_rng(SecureBitGenerator())
    first, second = (qmc.Sobol(2, **{name: rng}).random(256) for _ in range(2))
    assert not (first == second).any()
    for points in (first, second):
        for axis in points.T:  # each interval of length 1/256 has one point: that is what scrambling keeps
            assert sorted((axis * 256).astype(int)) == list(range(256))
