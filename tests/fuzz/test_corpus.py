"""The corpus of the fuzzer: no input of it breaks a promise. `make fuzz` looks for others."""

from __future__ import annotations

import os
import warnings

import pytest

from fuzz.registry import CORPUS, TARGETS, inputs, target_class
from fuzz.running import folder
from fuzz.target import attempt

pytestmark = pytest.mark.skipif(os.name != "posix", reason="links, named pipes and rights of files of POSIX are among the inputs")

MOST_BYTES = 1_000_000
NAMED = ("found-", "seed-")
"""Names of inputs that were a finding once, and of those that were written by hand; the fuzzer gives digests as names."""


def run(name, paths):
    """What became of each input, by its name."""
    outcomes = {}
    with folder() as place, warnings.catch_warnings():
        warnings.simplefilter("error")
        target = target_class(name)(place)
        for path in paths:
            outcomes[path.name] = attempt(target, path.read_bytes()).refusal
    return outcomes


def named(name):
    """The inputs that the default tests run."""
    return [path for path in inputs(name) if path.name.startswith(NAMED)]


@pytest.mark.parametrize("name", TARGETS)
def test_the_corpus_holds(name):
    outcomes = run(name, named(name))
    assert outcomes, "there are inputs"
    assert "" in outcomes.values(), "some are accepted"
    # A run that cannot be completed stays as it is, which is no error.
    assert any(outcomes.values()) or name == "sealed", "some are refused"


@pytest.mark.long
@pytest.mark.parametrize("name", TARGETS)
def test_all_of_the_corpus_holds(name):
    assert run(name, inputs(name))


def test_the_corpus_is_small_and_of_targets():
    assert {path.name for path in CORPUS.iterdir()} == set(TARGETS)
    assert sum(path.stat().st_size for path in CORPUS.rglob("*") if path.is_file()) <= MOST_BYTES
