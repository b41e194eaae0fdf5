"""The translator's trees are what the compiled kernels compute, and it refuses what it does not know."""

from __future__ import annotations

import math

import numpy as np
import pytest

pytest.importorskip("pycparser")

from dpcore._kernels import _dispatch
from proofs.c_source import KERNELS, NATIVE, NoCompilerError, levels, preprocessor, read
from proofs.execute import Execution, RefusedError
from proofs.lemmas import number_cell, pointer_to, word
from proofs.logarithms import truth_cell
from proofs.trees import node, value_of, variable
from support.kernels import LEVELS, at_level

pytestmark = pytest.mark.source_tree
N = 128


@pytest.fixture(scope="module", autouse=True)
def compiler():
    try:
        preprocessor()
    except NoCompilerError as error:
        pytest.skip(str(error))


def hard_words(seed):
    plain = np.random.default_rng(seed)
    words = plain.integers(0, 2**64, N, dtype=np.uint64)
    words[:16] = np.uint64(1) << np.arange(48, 64, dtype=np.uint64)
    words[16:32] = ~words[:16]
    return words


@pytest.mark.parametrize("level", LEVELS)
def test_trees_of_the_exponential_are_the_kernel(level):
    run = Execution(read(KERNELS, NATIVE if level == "baseline" else level))
    w, size, power = word("w"), number_cell(), number_cell()
    ratio = run.call("exponential_ratio", w, pointer_to(size), pointer_to(power))
    root = run.call("exponential_from", ratio, power.value)
    words = hard_words(1)
    found = np.empty(N)
    with at_level(level):
        _dispatch.exponential_raw(words, found)
    decided = ~np.isnan(found)
    assert decided.sum() > 100
    for x, y in zip(words[decided].tolist(), found[decided].tolist(), strict=True):
        assert value_of(root, {"w": x}) == y


@pytest.mark.parametrize("level", LEVELS)
def test_trees_of_the_normal_are_the_kernel(level):
    run = Execution(read(KERNELS, NATIVE if level == "baseline" else level))
    u, v, rare, cosine, sine = word("u"), word("v"), truth_cell(), number_cell(), number_cell()
    radius = run.call("radius_lane", u, pointer_to(rare))
    run.call("circle_lane", v, pointer_to(cosine), pointer_to(sine))
    words = hard_words(2)
    found = np.empty(N)
    with at_level(level):
        _dispatch.normal_raw(words, found)
    assert np.isfinite(found).sum() > 100
    for i in range(N // 2):
        given = {"u": int(words[i]), "v": int(words[i + N // 2])}
        for part, y in ((cosine.value, found[i]), (sine.value, found[i + N // 2])):
            assert math.isnan(y) or value_of(node("mul", radius, part), given) == y


def test_all_levels_of_the_build_are_read():
    assert set(LEVELS) <= set(levels())
    assert any(read(KERNELS, level).functions["muladd"] is not None for level in levels())


def test_other_c_is_refused():
    run = Execution(read(KERNELS, "baseline"))
    with pytest.raises(RefusedError, match="not in the sources"):
        run.call("no_such_lane", variable("x"))
    with pytest.raises(RefusedError):
        run.call("choose", None, None, None, 1)
