"""`dpcore.audit.lower_bound`: what it takes, what it refuses, what it reports; blocks, threads, progress."""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpcore import DataError, ParameterError, ParameterTypeError, Privacy, local, mechanisms, noise
from dpcore._proportions import greatest_probability, least_probability
from dpcore.audit import AuditResult, audit, repeat
from dpcore.audit._runs import Substream
from dpcore.audit.lower_bound import loss_bound
from dpcore.testing import KeyedRandom
from support.kernels import KEY, Array

LAPLACE = mechanisms.Laplace(1.0, 1.0)


def keyed(**options: Any) -> dict[str, Any]:
    return {"rng": KeyedRandom(KEY), "runs": 20_000, **options}


def plain(x: float, size: int, rng: Any) -> Array:
    return noise.laplace(np.full(size, x), 1.0, rng=rng)


def same(a: AuditResult, b: AuditResult) -> bool:
    names = ("epsilon_lower", "epsilon_claimed", "delta", "event", "likelier", "counts", "counted", "runs", "confidence", "places")
    return all(getattr(a, name) == getattr(b, name) for name in names)


# Results


def test_what_a_result_says():
    found = audit(LAPLACE, 0.0, 1.0, **keyed())
    assert found.runs == 20_000
    assert found.counted == 10_000
    assert found.confidence == 0.95
    assert found.epsilon_claimed == 1.0
    assert 0.7 < found.epsilon_lower <= 1.0
    assert found.refuted is False
    assert found.likelier == ("x0" if found.counts[0] > found.counts[1] else "x1")
    assert str(found).startswith("The claim ε = 1, δ = 0 is not refuted. This is not a proof that the mechanism is private")
    assert found.event in str(found)


def test_a_violation_is_named():
    found = audit(plain, 0.0, 2.0, privacy=Privacy(1.0), **keyed())
    assert found.refuted is True
    assert str(found).startswith("The claim ε = 1, δ = 0 is refuted, with confidence 0.95.\nEvent in the values: the output ")
    assert f"ε of the mechanism is at least {found.epsilon_lower:.4f}" in str(found)


def test_without_a_claim_nothing_passes_or_fails():
    found = audit(plain, 0.0, 1.0, **keyed())
    assert found.epsilon_claimed is None
    assert found.refuted is None
    assert str(found).startswith("No claim at δ = 0, so nothing is refuted.")


def test_the_event_can_be_counted_again():
    """On fresh outputs the event has the probabilities that the counts say."""
    found = audit(LAPLACE, 0.0, 1.0, **keyed())
    fresh = KeyedRandom(KEY).at(77)
    for x, count in zip((0.0, 1.0), found.counts, strict=True):
        hits = int(found.contains(LAPLACE.release(np.full(100_000, x), rng=fresh)).sum())
        assert stats.fisher_exact([[hits, 100_000 - hits], [count, found.counted - count]]).pvalue > 1e-6


def test_the_bound_is_that_of_its_counts():
    """One event alone is chosen for a coin: the bound is Clopper and Pearson's at rate (1 − confidence)/2."""
    found = audit(local.BinaryResponse(1.0), False, True, **keyed(confidence=0.9))
    high, low = max(found.counts), min(found.counts)
    p = stats.binomtest(high, found.counted).proportion_ci(0.9).low
    q = stats.binomtest(low, found.counted).proportion_ci(0.9).high
    assert found.epsilon_lower == pytest.approx(math.log(p / q), rel=1e-5)
    assert found.epsilon_lower < math.log(p / q)


def float_noise(x: float, size: int, rng: Any) -> Array:
    return x + np.random.default_rng(7).laplace(0.0, 1.0, size)


def test_values_and_low_bits_are_told_apart():
    found = audit(float_noise, 0.0, 1.0, privacy=Privacy(1.2), **keyed())
    assert found.searched == ("values", "low_bits")
    values, low_bits = found.places
    assert (values.where, low_bits.where) == ("values", "low_bits")
    assert values.epsilon_lower < 1.05 < 5 < low_bits.epsilon_lower == found.epsilon_lower
    lines = str(found).splitlines()
    assert lines[1] == f"Event in the low bits: {low_bits.event}."
    assert "is exactly x0 plus a float" in low_bits.event
    assert lines[-1].startswith("Values: the output ")
    assert lines[-1].endswith(f"this proves ε ≥ {values.epsilon_lower:.4f}.")


def test_low_bits_that_show_nothing_more_are_told_so():
    assert str(audit(LAPLACE, 0.0, 1.0, **keyed())).splitlines()[-1] == "Low bits: no event promised more than those counted."


def test_an_audit_that_saw_nothing_says_so():
    found = audit(lambda x, size, rng: np.zeros(size), 0.0, 1.0, **keyed(privacy=Privacy(1.0)))
    assert "No event separates the inputs: 20,000 runs on each input prove no loss above ε = 0." in str(found)
    assert found.refuted is False


def test_a_notebook_shows_the_same_words_and_escapes_them():
    def markup(y: Array) -> Array:
        return y

    markup.__name__ = "<script>"
    found = audit(plain, 0.0, 2.0, events=["values", markup], **keyed(privacy=Privacy(1.0)))
    shown = found._repr_html_()
    assert "<strong>The claim ε = 1, δ = 0 is refuted, with confidence 0.95.</strong>" in shown
    assert "<td>Values</td>" in shown
    assert "<td>Statistics of your functions</td>" in shown
    assert "<script>" not in shown
    assert f"<td>{found.places[0].counts[0]:,} (" in shown


# Functions of one argument


def test_a_function_of_one_argument_makes_its_own_runs():
    found = audit(lambda x: noise.laplace(x, 0.5), 0.0, 1.0, privacy=Privacy(1.0), runs=2_000, confidence=1 - 1e-9)
    assert found.refuted is True
    assert audit(lambda x: noise.laplace(x, 1.0), 0.0, 1.0, privacy=Privacy(1.0), runs=500, confidence=1 - 1e-9).refuted is False
    rows = audit(lambda x: [x, x + 1.0], 0.0, 1.0, runs=500)
    assert rows.epsilon_lower > 2


@pytest.mark.parametrize(
    "kind", [local.KaryResponse, local.UnaryEncoding, local.SubsetSelection, local.LocalHashing, local.HadamardResponse]
)
def test_oracles_with_labels_run_on_labels_or_codes(kind):
    mechanism = kind.from_categories(1.0, ["north", "south", "other"], unknown="other")

    def found(x0: Any, x1: Any) -> float:
        return audit(mechanism, x0, x1, runs=2_000, rng=KeyedRandom(KEY)).epsilon_lower

    assert found("north", "elsewhere") == found("north", "other") == found(0, 2) > 0


def test_functions_that_do_not_fit_are_told_what_to_write():
    with pytest.raises(ParameterError, match=r"rng must be None for a function of one argument.*audit\(repeat\(lambda x, rng: \.\.\.\)"):
        audit(lambda x: x, 0.0, 1.0, **keyed())
    with pytest.raises(
        ParameterTypeError, match=r"run\(x, size, rng\) .* got <lambda>\(x, rng\); .* write audit\(repeat\(function\), x0, x1\)"
    ):
        audit(lambda x, rng: x, 0.0, 1.0, **keyed())  # type: ignore[misc]
    with pytest.raises(ParameterTypeError, match="pass a function of x alone to audit without repeat"):
        repeat(lambda x: x)  # type: ignore[arg-type, misc]
    assert audit(lambda x, size=1, rng=None: np.zeros(size), 0.0, 1.0, **keyed()).epsilon_lower == 0


# δ


def test_delta_is_that_of_the_claim_unless_given():
    gaussian = mechanisms.Gaussian(1.0, 1e-2, 1.0)
    assert audit(gaussian, 0.0, 1.0, **keyed()).delta == 1e-2
    assert audit(gaussian, 0.0, 1.0, delta=0.5, **keyed()).refuted is False
    smaller = audit(gaussian, 0.0, 1.0, delta=1e-3, **keyed())
    assert smaller.epsilon_claimed is None  # the claim is for a larger δ
    assert smaller.delta == 1e-3


@pytest.mark.parametrize(("hits", "other", "delta"), [(600, 100, 0.0), (600, 100, 0.3), (1000, 0, 0.0), (1000, 1000, 0.0), (3, 0, 0.0)])
def test_the_loss_bound_by_hand(hits, other, delta):
    low = stats.binomtest(hits, 1000).proportion_ci(0.98).low
    high = stats.binomtest(other, 1000).proportion_ci(0.98).high
    assert loss_bound(hits, other, 1000, delta, 0.01) == pytest.approx(math.log((low - delta) / high), abs=1e-5)


def test_no_bound_where_the_event_may_be_as_rare_as_delta():
    assert loss_bound(10, 0, 1000, 0.02, 0.01) == -math.inf
    assert loss_bound(0, 0, 1000, 0.0, 0.01) == -math.inf
    same_everywhere = audit(lambda x, size, rng: np.zeros(size), 0.0, 1.0, **keyed())
    assert same_everywhere.epsilon_lower == 0.0


@pytest.mark.parametrize("n", [1, 10, 400])
@pytest.mark.parametrize("rate", [0.3, 1e-3])
def test_proportion_bounds_cover_exactly(n, rate):
    """P(bound beyond p) ≤ rate for every p, by enumeration."""
    low = np.array([least_probability(k, n, rate) for k in range(n + 1)])
    high = np.array([greatest_probability(k, n, rate) for k in range(n + 1)])
    assert (np.diff(low) > 0).all()
    assert (np.diff(high) > 0).all()
    for p in np.concatenate([np.linspace(0, 1, 97), low[1:] * (1 - 1e-12), high[:-1] * (1 + 1e-12)]):
        mass = stats.binom.pmf(np.arange(n + 1), n, p)
        assert mass[low > p].sum() <= rate
        assert mass[high < p].sum() <= rate


# Blocks, threads, randomness


@pytest.mark.long
@pytest.mark.parametrize(
    "mechanism", [LAPLACE, plain, repeat(lambda x, rng: noise.laplace(x, 1.0, rng=rng))], ids=["ours", "runs", "single"]
)
def test_threads_do_not_change_the_result(mechanism):
    n = 300_000 if mechanism is LAPLACE else 4_000
    first, *others = (audit(mechanism, 0.0, 1.0, **keyed(runs=n, threads=threads)) for threads in (1, 2, 4))
    assert all(same(first, other) for other in others)


def test_keys_matter_and_secure_runs_differ():
    first, again = audit(LAPLACE, 0.0, 1.0, **keyed()), audit(LAPLACE, 0.0, 1.0, **keyed())
    assert same(first, again)
    assert not same(first, audit(LAPLACE, 0.0, 1.0, **keyed(rng=KeyedRandom(bytes(32)))))
    assert not same(audit(LAPLACE, 0.0, 1.0, runs=20_000), audit(LAPLACE, 0.0, 1.0, runs=20_000))


def test_a_stream_that_stands_still_serves_every_block_anew():
    fixed = KeyedRandom(KEY).at(3)
    blocks: list[Array] = []

    def run(x: float, size: int, rng: Any) -> Array:
        blocks.append(plain(x, size, rng))
        return blocks[-1]

    audit(run, 0.0, 0.0, rng=fixed, runs=1000)
    drawn = np.concatenate(blocks)
    assert len(np.unique(drawn)) > 0.999 * len(drawn)


def test_substreams_count_their_calls():
    stream = Substream(KEY)
    assert [stream.position().nonce for _ in range(3)] == [0, 1, 2]
    assert stream.secure is False


@pytest.mark.long
def test_functions_run_on_the_calling_thread_unless_threads_are_asked_for():
    names: set[str] = set()
    several = threading.Event()

    def run(x: float, size: int, rng: Any) -> Array:
        names.add(threading.current_thread().name)
        if len(names) > 1:
            several.set()
        several.wait(0.02)  # leaves the others time to start
        return plain(x, size, rng)

    audit(run, 0.0, 1.0, **keyed(runs=600_000))
    assert names == {threading.current_thread().name}
    audit(run, 0.0, 1.0, **keyed(runs=600_000, threads=3))
    assert len(names) > 1


def test_blocks_are_bounded():
    sizes: list[int] = []

    def run(x: Any, size: int, rng: Any) -> Array:
        sizes.append(size)
        return np.zeros((size, 32))

    audit(run, 0.0, 1.0, **keyed(runs=30_000))
    assert max(sizes) * 32 * 8 <= 2**19
    assert sum(sizes[2:]) == 60_000


def test_progress_is_reported():
    seen: list[tuple[int, int]] = []
    audit(LAPLACE, 0.0, 1.0, progress=lambda done, total: seen.append((done, total)), **keyed(runs=300_001, threads=2))
    assert seen[-1] == (600_002, 600_002)
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})


def test_what_progress_raises_ends_the_audit():
    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        audit(LAPLACE, 0.0, 1.0, progress=stop, **keyed())


# Refusals


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"runs": 63}, r"runs must be in \[64, ∞\], got 63"),
        ({"confidence": 1.0}, r"confidence must be in \(0.0, 1.0\), got 1.0"),
        ({"confidence": 0}, "confidence"),
        ({"delta": 1.0}, r"delta must be in \[0.0, 1.0\), got 1.0"),
        ({"threads": 0}, "threads"),
        ({"events": []}, "events must be a sequence"),
        ({"events": "values"}, "events must be a sequence"),
        ({"events": abs}, "events must be a sequence"),
        ({"events": ["thresholds"]}, "events must hold 'values'"),
        ({"events": [lambda y: y.sum()]}, "events must return a bool or a number for each run"),
        ({"runs": 1e6}, "runs must be an integer"),
        ({"privacy": 1.0}, "privacy must be a dpcore.Privacy"),
        ({"progress": 3}, "progress must be a function"),
        ({"rng": np.random.default_rng(1)}, "rng must be None"),
    ],
)
def test_wrong_parameters_are_refused(options, message):
    with pytest.raises((ParameterError, ParameterTypeError), match=message):
        audit(LAPLACE, 0.0, 1.0, **options)


@pytest.mark.parametrize(
    ("mechanism", "x0", "x1", "message"),
    [
        (3.0, 0.0, 1.0, "mechanism must be an object"),
        (mechanisms.Laplace, 0.0, 1.0, "got the class Laplace"),
        (LAPLACE, 0.0, [1.0], "x0 and x1 must have one shape"),
        (LAPLACE, 0.0, 1.1, r"within the mechanism's sensitivity 1.0 of each other in ℓ1, got distance 1.1"),
        (LAPLACE, [0.0, 0.0], [0.6, 0.6], "sensitivity"),
        (mechanisms.Gaussian(1.0, 1e-3, 1.0), [0.0, 0.0], [0.8, 0.8], "ℓ2"),
        (local.BinaryResponse(1.0), [False, True], [True, True], "x0 must be a single record"),
        (local.SequentialQuantile(1.0, 0.0, 1.0, q=0.5), 0.1, 0.2, "x0 and x1 must be vectors"),
        (local.SequentialQuantile(1.0, 0.0, 1.0, q=0.5), [0.1, 0.2], [0.2, 0.1], "must differ in at most one record, got 2"),
        (lambda x, size, rng: np.zeros(size - 1), 0.0, 1.0, "mechanism must return one output for each of"),
        (lambda x, size, rng: 0.0, 0.0, 1.0, "mechanism must return one output for each of"),
        (lambda x, size, rng: np.full(size, "a"), 0.0, 1.0, r"numbers or records of numbers, got dtype <U1; give .* labels\.index"),
        (lambda x, size, rng: np.ma.masked_array(np.zeros(size), np.full(size, bool(x))), 0.0, 1.0, "must not be a masked array"),
        (repeat(lambda x, rng: np.ma.masked_array([0.0], [bool(x)])), 0.0, 1.0, "must not be a masked array"),
        (lambda x, size, rng: np.zeros((size, 2 if size > 100 else 3)), 0.0, 1.0, "outputs of one shape"),
        (lambda x, size, rng: np.zeros((size, 40), np.uint8), 0.0, 1.0, "at most 32 numbers in a run, got 40"),
        (lambda x, size, rng: np.zeros((size, 40)), 0.0, 1.0, r"at most 32 numbers in a run, got 40; for more, give events=\[statistic\]"),
    ],
)
def test_what_cannot_be_run_is_refused(mechanism, x0, x1, message):
    with pytest.raises((ParameterError, ParameterTypeError), match=message):
        audit(mechanism, x0, x1, runs=400, rng=KeyedRandom(KEY))


def test_what_the_mechanism_raises_passes_through():
    with pytest.raises(DataError):
        audit(local.KaryResponse(1.0, k=4), 0, 4, runs=400)
    with pytest.raises(ParameterTypeError, match="release"):
        repeat(3)  # type: ignore[arg-type]


def test_rounded_inputs_are_neighbours():
    assert audit(mechanisms.Laplace(1.0, 0.2), 0.1, 0.1 + 0.2, **keyed()).refuted is False


def test_a_stated_claim_may_be_about_inputs_further_apart():
    assert audit(LAPLACE, 0.0, 2.0, privacy=Privacy(2.0), **keyed()).refuted is False
    assert audit(LAPLACE, 0.0, 2.0, privacy=Privacy(1.0), **keyed()).refuted is True


# Where it looks


def test_wide_outputs_need_a_statistic():
    def run(x: float, size: int, rng: Any) -> Array:
        return noise.laplace(np.full((size, 100), x), 100.0, rng=rng)

    found = audit(run, 0.0, 1.0, events=[lambda rows: rows.sum(axis=1)], **keyed(privacy=Privacy(1.0)))
    assert found.refuted is False
    assert audit(run, 0.0, 1.0, events=["values", lambda rows: rows[:, 0]], **keyed()).epsilon_lower < 0.5


def test_user_given_events_are_named():
    def is_large(y: Array) -> Array:
        return y > 0.5

    found = audit(plain, 0.0, 1.0, events=[is_large], **keyed())
    assert found.event.startswith("is_large(output) is ")
    assert found.epsilon_lower > 0.6


def test_objects_with_the_same_methods_are_run():
    class Halved:
        privacy = Privacy(1.0)

        def release(self, values: Any, *, rng: Any, threads: Any) -> Array:
            return noise.laplace(values, 0.5, rng=rng, threads=threads)

    class Lying:
        privacy = Privacy(1.0)

        def privatize(self, x: Any, *, rng: Any, threads: Any) -> Array:
            return local.BinaryResponse(2.0).privatize(x, rng=rng, threads=threads)

    assert audit(Halved(), 0.0, 1.0, **keyed()).refuted is True
    assert audit(Lying(), False, True, **keyed()).refuted is True


def test_records_with_fields_are_looked_at_field_by_field():
    def run(x: int, size: int, rng: Any) -> Array:
        rows = np.zeros(size, [("seed", "<u8"), ("value", "<f8")])
        rows["value"] = plain(x, size, rng)
        return rows

    found = audit(run, 0, 3, **keyed())
    assert found.event.startswith("the field 'value' of the output ")
    assert found.epsilon_lower > 2


def test_integers_at_the_edges_of_their_type():
    high = 2**63 - 1
    found = audit(mechanisms.DiscreteLaplace(1.0, 1), high - 1, high, **keyed(runs=200_000))
    assert found.refuted is False
    assert found.epsilon_lower > 0.8
    unsigned = audit(lambda x, size, rng: np.full(size, x, np.uint64), 1, 2**64 - 1, **keyed())
    assert unsigned.epsilon_lower > 5


@pytest.mark.parametrize("dtype", ["float16", "float32", "int8", "uint8", "bool", "longdouble"])
def test_small_and_wide_numbers_are_taken(dtype):
    def run(x: float, size: int, rng: Any) -> Array:
        return (plain(x, size, rng) > 0.5).astype(dtype)

    assert audit(run, 0.0, 1.0, **keyed()).epsilon_lower > 0.6


def test_lists_are_taken():
    assert audit(lambda x, size, rng: plain(x, size, rng).tolist(), 0.0, 1.0, **keyed()).epsilon_lower > 0.6
