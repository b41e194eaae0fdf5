"""All lemmas, in the order of the page that lists them, and how they are checked."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from proofs import circles, contributions, cosines, kernels, logarithms, radii, reductions, releases, selections, sensitivities, tables
from proofs.c_source import NoCompilerError
from proofs.execute import RefusedError
from proofs.gappa import NotInstalledError
from proofs.lemmas import Context, Lemma, ProofError

TESTS = Path(__file__).resolve().parents[1]


def check_addresses(context: Context) -> None:
    """The proofs of tests/kernels/test_address_proof.py, for all calls."""
    place = TESTS / "kernels" / "test_address_proof.py"
    found = importlib.util.spec_from_file_location("address_proof", place)
    assert found is not None
    assert found.loader is not None
    proof = importlib.util.module_from_spec(found)
    found.loader.exec_module(proof)
    try:
        for kinds in proof.CALLS:
            proof.test_owners_of_a_call_read_apart(kinds)
        for blocks in (1, 4):
            proof.test_tags_are_apart(blocks)
        proof.test_words_of_groups_are_apart_in_chacha20()
        proof.test_words_of_groups_are_apart_in_aes()
        proof.test_upper_halves_of_aes_counters_are_apart()
        proof.test_numbers_of_draws_are_apart()
        proof.test_records_of_several_words_are_apart()
        proof.test_nonces_of_a_job_are_apart()
        proof.test_the_map_of_the_first_stream_is_refuted()
    except AssertionError as error:
        raise ProofError(f"two owners may read one bit: {error}") from error


def all_lemmas() -> tuple[Lemma, ...]:
    return LEMMAS


BY_HAND = (
    Lemma(
        "tables",
        "Comparing 31 bits with ⌊2³¹P⌋ decides the discrete Gaussian below σ = 8; lanes that a guide leaves open are searched.",
        "hand",
        "docs/exactness.md, Discrete Gaussian; tests/kernels/test_tiers.py compares with the exact tier",
        ("gaussian_guided", "search_open"),
    ),
    Lemma("decompositions", "Samples have the laws of the ideal noise.", "hand", "docs/exactness.md, The decompositions are exact"),
    Lemma("last-rounding", "k₀ + n is rounded once, and times g is exact.", "hand", "docs/exactness.md, release_lane"),
    Lemma(
        "grids", "Grids are powers of two, so S, x/g and low/g are exact, and S is at most 2⁴⁰.", "hand", "docs/exactness.md, release_lane"
    ),
    Lemma("always-taken", "1 − y²/(24σ⁴) is below the probability of acceptance.", "hand", "docs/exactness.md, Discrete Gaussian"),
    Lemma(
        "accurate-tier",
        "The double-double tier is good to 2⁻⁶⁸ of a scale.",
        "hand",
        "docs/exactness.md, The accurate tier; tests/kernels/test_tail_series.py",
    ),
    Lemma(
        "exact-tier",
        "The enclosures of the exact tier hold.",
        "hand",
        "docs/exactness.md, The exact tier; tests/kernels/test_elementary.py",
    ),
    Lemma("exact-sums", "Sums of clamped numbers are exact.", "hand", "docs/exactness.md, Exact sums; tests/kernels/test_sums.py"),
    Lemma("local-randomisers", "Responses have their probabilities.", "hand", "docs/exactness-local.md"),
    Lemma("selections", "Selections have the laws of their noise.", "hand", "docs/exactness-selection.md"),
    Lemma(
        "compilers",
        "The compiled kernels perform the operations of the sources.",
        "measured",
        "tests/kernels/test_bounds.py; tests/proofs/test_translator.py",
    ),
    Lemma(
        "levels",
        "All CPU levels and aarch64 give the same bits.",
        "measured",
        "tests/kernels/test_one_answer.py, tests/kernels/test_platforms.py",
    ),
)
"""What is not proved by machine, so that the page says so."""
LEMMAS: tuple[Lemma, ...] = (
    *reductions.LEMMAS,
    *logarithms.LEMMAS,
    *radii.LEMMAS,
    *circles.LEMMAS,
    *kernels.LEMMAS,
    *releases.LEMMAS,
    *tables.LEMMAS,
    *cosines.LEMMAS,
    *selections.LEMMAS,
    Lemma(
        "coverage",
        "Every function that the fast tier of noise calls is in some lemma.",
        "machine",
        "call graph",
        (),
        kernels.check_coverage(all_lemmas),
    ),
    Lemma("addresses", "No two outputs read the same random bit, for all lengths.", "machine", "z3", (), check_addresses),
    *sensitivities.LEMMAS,
    *contributions.LEMMAS,
    *BY_HAND,
)
ABOUT_KERNELS = (
    *(
        lemma.name
        for part in (reductions, logarithms, radii, circles, kernels, releases, tables, cosines, selections)
        for lemma in part.LEMMAS
    ),
    "coverage",
)
"""Lemmas whose proofs read the kernels' sources."""


@dataclass(frozen=True)
class Outcome:
    """What became of a lemma: "proved", "failed", "not checked", or what it is instead of proved by machine."""

    lemma: Lemma
    status: str
    said: str
    seconds: float


def outcome(lemma: Lemma, context: Context) -> Outcome:
    """Check one lemma."""
    if lemma.check is None:
        return Outcome(lemma, "by hand" if lemma.how == "hand" else "measured", lemma.by, 0.0)
    start = time.perf_counter()
    try:
        lemma.check(context)
        status, said = "proved", ""
    except (NotInstalledError, NoCompilerError, ImportError) as error:
        status, said = "not checked", str(error)
    except (ProofError, RefusedError, ValueError) as error:
        status, said = "failed", f"{type(error).__name__}: {error}"
    return Outcome(lemma, status, said, time.perf_counter() - start)


def outcomes(context: Context, names: Iterable[str] | None = None) -> Iterator[Outcome]:
    """Check lemmas one after the other."""
    wanted = None if names is None else set(names)
    return (outcome(lemma, context) for lemma in LEMMAS if wanted is None or lemma.name in wanted)


def table() -> str:
    """The table of the page about what is proved, in Markdown."""
    words = {"machine": "by machine", "hand": "by hand", "measured": "measured"}
    lines = ["| lemma | statement | how | by |", "|---|---|---|---|"]
    lines += [f"| {lemma.name} | {_escaped(lemma.statement)} | {words[lemma.how]} | {_escaped(lemma.by)} |" for lemma in LEMMAS]
    return "\n".join(lines)


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")
