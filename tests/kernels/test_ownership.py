"""Every random bit has one owner: bits of the keystream are flipped one by one, and no flip may move outputs of two owners.

Nothing here knows which words a call ought to read: which it reads is recorded at the ciphers, and whose they are is seen from what moves.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpcore import _backend, local, noise
from dpcore._exact import sampling
from dpcore._exact.probability import inclusion, logistic_complement, one_of
from dpcore.local._hypercube import law_of_signs
from dpcore.testing import KeyedRandom
from support.drawing import Drawing, alone, by_pairs, calls_of_several_draws, drawings, rows_of
from support.independence import WINDOW, examine
from support.kernels import AES_LEVELS, KEY, LEVELS, SecureCipher, at_level
from support.keystream import (
    ACCEPT,
    BULK,
    DERIVED,
    GROUP,
    IN_GROUPS,
    MORE,
    MORE_ACCEPT,
    MORE_PARTNER,
    MORE_RESPONSE,
    MORE_SELECTION,
    MORE_TABLE,
    RESPONSE,
    SELECTION,
    TABLE,
    Keystream,
    MarkedStream,
    Word,
    moved,
    watched,
)

pytestmark = pytest.mark.source_tree

CASES = {case.name: case for case in drawings() if case.is_local}
QUICK = [
    name
    for name in CASES
    if not name.startswith(("mechanism", "local Local"))
    and name.rpartition(", ")[2] not in {"large", "tables", "in turn", "halves of a group"}
]
"""One of each way to read: the other names take the same ways at other parameters."""
SEVERAL = calls_of_several_draws()
FULL = 2**64 - 1
FEW_BITS, MANY_BITS = (15, 31, 62, 63), range(64)
PLACES = [(1, 0), (63, 1), (64, 64), (65, 63), (127, 128), (128, 0), (129, 500), (200, 77), (257, 2**40 + 65)]
"""Lengths and first elements around groups (128), half groups, and groups of pieces (512, 1024)."""
LONG_PLACES = [*PLACES, (511, 1), (512, 512), (513, 0), (640, 448), (1024, 1000), (1025, 3), (2050, 2**63 - 4000)]

Array = np.ndarray[Any, Any]
Moved = dict[tuple[Word, int], Array]


@pytest.fixture
def keystream() -> Iterator[Keystream]:
    with watched() as found:
        yield found


def shared(found: Moved, owners: Array) -> list[tuple[Word, int, list[int]]]:
    """Bits that moved outputs of more than one owner."""
    return [(word, bit, places.tolist()) for (word, bit), places in found.items() if len(set(owners[places].tolist())) > 1]


def domains(found: Moved) -> set[int]:
    return {word.domain for word, _ in found}


def keystream_words(keystream: Keystream, run: Callable[[], Array]) -> set[Word]:
    keystream.clear()
    run()
    return keystream.words()


def spread(words: Iterable[Word], most: int | None) -> list[Word]:
    """At most so many words of each domain, evenly spread."""
    by_domain = defaultdict(list)
    for word in sorted(words):
        by_domain[word.domain].append(word)
    found = []
    for group in by_domain.values():
        places = np.linspace(0, len(group) - 1, min(most or len(group), len(group)))
        found += [group[i] for i in np.unique(places.astype(int))]
    return found


def check(keystream: Keystream, case: Drawing, n: int, element: int, bits: Iterable[int], *, most_words: int | None = None) -> Moved:
    """Flip bits of the words that a call reads: of each domain at most `most_words`, evenly spread."""
    element = element if case.places else 0

    def run() -> Array:
        return rows_of(case.draw(n, element, KeyedRandom(KEY).at(3, element)))

    # The few scores of a round lie in its first words; a derived key belongs to a whole draw, and every bit under it to one output.
    read = keystream_words(keystream, run)
    words = spread((word for word in read if word.domain != DERIVED and (word.domain != SELECTION or word.place < 2)), most_words)
    found = moved(keystream, run, bits, words)
    assert not shared(found, case.owner(n, element)), shared(found, case.owner(n, element))[:3]
    return found


@pytest.mark.parametrize("name", QUICK)
def test_no_bit_moves_two_owners(name: str, keystream: Keystream) -> None:
    case = CASES[name]
    # A discrete Gaussian of several scales goes lane by lane, and costs accordingly.
    found = check(keystream, case, 140, 77, FEW_BITS, most_words=(25 if name.startswith("discrete_gaussian") else 70) // case.cost)
    reached = {int(place) for places in found.values() for place in places}
    assert len(reached) > 1 or case.cost > 1  # the flips are seen


@pytest.mark.long
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", CASES)
def test_no_bit_moves_two_owners_at_any_length(name: str, level: str) -> None:
    with at_level(level), watched() as keystream:
        case, slow = CASES[name], name.startswith("discrete_gaussian")  # several scales go lane by lane
        for n, element in LONG_PLACES if level == LEVELS[-1] else PLACES[3:6]:
            bits = MANY_BITS if n == 65 and not slow and case.cost == 1 else FEW_BITS
            check(keystream, case, n, element, bits, most_words=(20 if slow else 80) // case.cost)


@pytest.mark.parametrize("name", ["discrete_gaussian, two of three small", "discrete_gaussian, halves of a group"])
def test_the_map_of_the_first_stream_is_caught(name: str, keystream: Keystream) -> None:
    keystream.alias(TABLE, BULK)
    keystream.alias(MORE_TABLE, MORE)
    with pytest.raises(AssertionError, match="Word"):
        check(keystream, CASES[name], 150, 77, (62, 63), most_words=70)


def test_the_net_rejects_the_map_of_the_first_stream(keystream: Keystream) -> None:
    """The check of distributions alone, which sees no keystream: windows of calls that share words, and of calls that do not."""
    case, key = CASES["discrete_gaussian, two of three small"], KeyedRandom(KEY)
    keystream.alias(TABLE, BULK)
    keystream.alias(MORE_TABLE, MORE)
    verdict = examine(np.stack([case.draw(WINDOW, 0, key) for _ in range(400)]))
    assert verdict.is_rejected
    assert abs(verdict.elements[0] - verdict.elements[1]) == 64


@pytest.mark.parametrize("level", AES_LEVELS)
@pytest.mark.parametrize("kind", ["laplace", "gaussian", "discrete_laplace", "discrete_gaussian"])
def test_aes(kind: str, level: str) -> None:
    """The other cipher: a bit has one owner, and one nonce."""
    scales, values = np.resize([1.0, 1.0, 1000.0], 130), np.zeros(130, np.int64 if kind.startswith("discrete") else np.float64)

    def run() -> Array:
        drawn = [getattr(noise, kind)(values, scales, rng=SecureCipher(5, nonce=nonce)) for nonce in (0, 1)]
        return np.concatenate(drawn)

    element, pairs = np.arange(5, 135), by_pairs(130, 5)
    own = pairs if kind == "gaussian" else np.where(scales < 8, -1 - element, pairs) if kind == "discrete_gaussian" else element
    with at_level(level), watched() as keystream:
        found = moved(keystream, run, (60, 63), spread(keystream_words(keystream, run), 40))
        assert {word.nonce for word, _ in found} == {0, 1}
        assert not shared(found, np.concatenate([own, own + 10**6]))


# What is read only now and then: made to be read by words that are stuck at values that decide nothing


def stuck(keystream: Keystream, domain: int, value: int, *, care: int = 0, places: Iterable[int] = range(GROUP)) -> None:
    """Hand out `value` in some places of each group; elsewhere the words are as they were."""
    places = set(places)
    keystream.stick(domain, [value if j in places else 0 for j in range(GROUP)], [care if j in places else FULL for j in range(GROUP)])


def continuations(
    keystream: Keystream,
    draw: Callable[[], Array],
    owners: Array,
    expected: set[int],
    bits: Iterable[int] = (62, 63),
    only: Callable[[Word], bool] = lambda word: True,
) -> Moved:
    """Flip the first words of chunks, and of groups some; `expected` are domains that must be seen to move something."""

    def run() -> Array:
        return rows_of(draw())

    words = keystream_words(keystream, run)
    chosen = spread((word for word in words if (word.domain in IN_GROUPS or word.place == 0) and only(word)), 60)
    found = moved(keystream, run, bits, chosen)
    assert not shared(found, owners), shared(found, owners)[:3]
    assert expected <= domains(found)
    return found


@pytest.mark.parametrize("kind", ["laplace", "discrete_laplace"])
def test_further_bits_of_an_exponential(kind: str, keystream: Keystream) -> None:
    rare = (7, 64, 71)  # the exact tier decides these
    stuck(keystream, BULK, 0, places=rare)
    values = np.zeros(70, np.int64 if kind.startswith("discrete") else np.float64)
    found = continuations(keystream, lambda: getattr(noise, kind)(values, 1e6, rng=KeyedRandom(KEY).at(0, 5)), alone(70, 5), {MORE})
    assert {word.index for word, _ in found if word.domain == MORE} == set(rare)


def test_further_bits_of_a_pair(keystream: Keystream) -> None:
    stuck(keystream, BULK, 0, places=(7, 63))  # U = 0.000…
    found = continuations(keystream, lambda: noise.gaussian(np.zeros(140), 1e3, rng=KeyedRandom(KEY).at(0, 5)), by_pairs(140, 5), {MORE})
    assert max(len(places) for places in found.values()) == 2  # both members of a pair


def test_further_bits_of_a_table_beside_pairs(keystream: Keystream) -> None:
    """An element of a table and its partner of a pair: their words, and the bits that follow them."""
    scale = 2.0
    _, long = sampling.threshold_integers(scale)
    stuck(keystream, TABLE, long[1] >> 64)
    stuck(keystream, BULK, 0, places=(7, 63))
    scales = np.resize([scale] * 64 + [1000.0] * 64, 140)
    owners = np.where(scales < 8, -1 - alone(140, 0), by_pairs(140, 0))

    def draw() -> Array:
        return noise.discrete_gaussian(np.zeros(140, np.int64), scales, rng=KeyedRandom(KEY).at(0))  # type: ignore[return-value]

    def near(word: Word) -> bool:
        return (word.place if word.domain in IN_GROUPS else word.index) % 64 in (6, 7, 62, 63)

    continuations(keystream, draw, owners, {MORE, MORE_TABLE}, (60, 62, 63), near)
    keystream.alias(TABLE, BULK)
    keystream.alias(MORE_TABLE, MORE)
    words = [word for word in keystream_words(keystream, lambda: rows_of(draw())) if near(word)]
    assert shared(moved(keystream, lambda: rows_of(draw()), (60, 62, 63), words), owners)


@pytest.mark.parametrize("mixture", [[8.0], [8.0, 9.0, 1000.0], [8.0, 2.0, 9.0]], ids=str)
def test_acceptance_and_retries(mixture: list[float], keystream: Keystream) -> None:
    """First proposals that are hardly ever taken: the acceptance's further bits, and both uniforms of later attempts."""
    stuck(keystream, ACCEPT, FULL)
    n = 130
    scales: Any = mixture[0] if len(mixture) == 1 else np.resize(mixture, n)
    pairs = np.broadcast_to(np.asarray(scales) >= 8, n)
    draw = lambda: noise.discrete_gaussian(np.zeros(n, np.int64), scales, rng=KeyedRandom(KEY).at(0))  # noqa: E731
    found = continuations(
        keystream, draw, np.where(pairs, by_pairs(n, 0), -1 - alone(n, 0)), {MORE, MORE_PARTNER, MORE_ACCEPT}, (57, 60, 62, 63)
    )
    retried = {word for word, _ in found if word.attempt}
    assert {word.domain for word in retried} >= {MORE, MORE_PARTNER}
    assert all(len(places) == 1 for (word, _), places in found.items() if word.attempt)


def test_further_bits_of_a_response(keystream: Keystream) -> None:
    lead = logistic_complement(1.0).floor(8)
    keystream.stick(RESPONSE, [FULL * (lead >> (7 - j // 16) & 1) for j in range(GROUP)], [0] * GROUP)
    draw = lambda: local.BinaryResponse(1.0).privatize(np.zeros(300, bool), rng=KeyedRandom(KEY).at(0, 900))  # noqa: E731
    found = continuations(
        keystream, draw, alone(300, 900), {MORE_RESPONSE}, only=lambda word: word.domain == RESPONSE or 990 <= word.index < 1050
    )
    assert len({word.index for word, _ in found if word.domain == MORE_RESPONSE}) > 20


@pytest.mark.parametrize("variant", ["optimal", "symmetric"])
def test_further_bits_of_a_unary_report(variant: Any, keystream: Keystream) -> None:
    k, q = 12, logistic_complement(1.0 if variant == "optimal" else 0.5).floor(8)
    keystream.stick(RESPONSE, [FULL * (q >> (7 - j // 16) & 1) for j in range(GROUP)], [0] * GROUP)
    unary = local.UnaryEncoding(1.0, k=k, method=variant)

    def draw() -> Array:
        reports = unary.privatize(np.arange(20) % k, rng=KeyedRandom(KEY).at(0, 30))
        return np.unpackbits(reports, axis=1, bitorder="little").reshape(-1)

    continuations(keystream, draw, alone(20 * 16, 0), {MORE_RESPONSE})


@pytest.mark.parametrize("k", [2, 5])
def test_further_bits_of_a_category(k: int, keystream: Keystream) -> None:
    lead = one_of(1.0, k).floor(32)
    stuck(keystream, RESPONSE, lead << 32 | lead)
    draw = lambda: local.KaryResponse(1.0, k=k).privatize(np.zeros(300, np.int64), rng=KeyedRandom(KEY).at(0, 200))  # noqa: E731
    continuations(keystream, draw, alone(300, 200), {MORE_RESPONSE})


def test_further_bits_of_a_subset(keystream: Keystream) -> None:
    """One piece decides on the truth, the others on draws; all continue in places of their own."""
    case = local.SubsetSelection(0.5, k=8)
    lead = inclusion(0.5, 8, case.w).floor(32)
    domains_seen: set[int] = set()
    for piece in (0x55555555, 0x2AAAAAAA, 0x92492492, lead):
        keystream.reset()
        stuck(keystream, RESPONSE, piece << 32 | piece)
        draw = lambda: case.privatize(np.arange(60) % 8, rng=KeyedRandom(KEY).at(0, 9))  # noqa: E731
        domains_seen |= domains(continuations(keystream, draw, alone(60, 9), set()))
    assert domains_seen >= {RESPONSE, MORE_RESPONSE, MORE_ACCEPT}


def test_seeds_that_are_drawn_again(keystream: Keystream) -> None:
    stuck(keystream, BULK, 0)
    draw = lambda: local.LocalHashing(1.0, k=9).privatize(np.arange(140) % 9, rng=KeyedRandom(KEY).at(0, 100))  # noqa: E731
    continuations(keystream, draw, alone(140, 100), {MORE, RESPONSE}, (0, 61))


def test_further_bits_of_a_sign(keystream: Keystream) -> None:
    mechanism = local.HadamardResponse(1.0, k=9)
    lead = logistic_complement(1.0).floor(32)
    keystream.stick(BULK, [lead << 32] * GROUP, [2**32 - 1] * GROUP)
    draw = lambda: mechanism.privatize(np.arange(140) % 9, rng=KeyedRandom(KEY).at(0, 100))  # noqa: E731
    continuations(keystream, draw, alone(140, 100), {MORE})


def test_further_bits_of_a_point(keystream: Keystream) -> None:
    """The side and the point continue in places of their own."""
    mechanism = local.ProjectiveGeometryResponse(1.0, k=11)
    lead = inclusion(1.0, mechanism.points, len(mechanism.hyperplane(0))).floor(32)
    for word, domain in ((lead << 32, MORE), (0xFFFFFFFF << 32 | 2**32 // 9, MORE_ACCEPT)):
        keystream.reset()
        stuck(keystream, BULK, word)
        draw = lambda: mechanism.privatize(np.arange(60) % 11, rng=KeyedRandom(KEY).at(0, 9))  # noqa: E731
        continuations(keystream, draw, alone(60, 9), {domain})


@pytest.mark.parametrize("d", [2, 3])
def test_further_bits_of_a_vector(d: int, keystream: Keystream) -> None:
    """The coordinate and the bit of a sample, and all that makes signs, continue in places of their own."""
    sample, signs = (local.VectorMean(1.0, 0.0, 1.0, d=d, method=method) for method in ("sample", "hypercube"))  # type: ignore[arg-type]
    records = np.full((60, d), (2**15 + 0.5) / 2**16)  # what follows the first 16 bits decides
    lead = logistic_complement(1.0).floor(16)
    stuck(keystream, BULK, (2**32 // d << 32) | lead)
    flat = sample.privatize
    found = domains(continuations(keystream, lambda: flat(np.zeros((60, d)), rng=KeyedRandom(KEY).at(0, 9)), alone(60, 9), set()))
    assert found >= {BULK, MORE_RESPONSE}
    law, seen = law_of_signs(1.0, d), set()
    for word in (0, 2**64 - 1, law.likely.floor(32) << 32 | law.table[0].floor(32), law.likely.floor(32) << 32):
        keystream.reset()
        stuck(keystream, BULK, word)
        stuck(keystream, RESPONSE, 0x8000800080008000)
        draw = lambda: signs.privatize(records, rng=KeyedRandom(KEY).at(0, 9))  # noqa: E731
        seen |= domains(continuations(keystream, draw, alone(60, 9), set()))
    assert seen >= {MORE_RESPONSE, MORE_ACCEPT}


# Calls that are cut, threads, rounds, and the columns and rows of a table


CUTS = [0, 1, 63, 64, 65, 128, 129, 200, 511, 512, 513, 600]


@pytest.mark.parametrize("name", ["gaussian, small", "discrete_gaussian, small", "local BinaryResponse", "local KaryResponse"])
def test_pieces_of_a_call(name: str, keystream: Keystream) -> None:
    case, first = CASES[name], 70

    def run() -> Array:
        pieces = [case.draw(b - a, first + a, KeyedRandom(KEY).at(0, first + a)) for a, b in pairwise(CUTS)]
        return rows_of(np.concatenate(pieces))

    words = sorted({Word(*word[:-1], word.place) for word in keystream_words(keystream, run) if word.place % 16 in (0, 7)})
    found = moved(keystream, run, (60, 63), words)
    assert not shared(found, case.owner(CUTS[-1], first))


@pytest.mark.parametrize("name", ["laplace, small", "gaussian, small", "local BinaryResponse", "draw_codes"])
def test_threads(name: str, keystream: Keystream, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads, ranges of 1000 elements: the bits next to every cut."""
    monkeypatch.setattr(_backend.threads, "CHUNK", 1000)
    monkeypatch.setattr(_backend.threads, "SMALL", 1)
    monkeypatch.setattr(_backend.threads, "default_threads", lambda: 2)
    case, n = CASES[name], 5000

    def run() -> Array:
        return rows_of(case.draw(n, 0, KeyedRandom(KEY).at(0)))

    words = [word for word in sorted(keystream_words(keystream, run)) if abs((word.index * GROUP + word.place + 500) % 1000 - 500) < 20]
    assert not shared(moved(keystream, run, (60, 63), words[:150]), case.owner(n, 0))


def test_rounds_of_a_selection_read_apart(keystream: Keystream) -> None:
    """A peeling's rounds depend on each other by what they leave out; their words are seen at the ciphers."""
    from dpcore.selection import top_s

    scores, rounds = np.zeros(1300), 4
    keystream.clear()
    top_s(scores, 1.0, 1.0, s=rounds, method="peeling", rng=KeyedRandom(KEY).at(0))
    read = defaultdict(list)
    for word in keystream.words():
        if word.domain == MORE_SELECTION:
            read[word.index // 1536].append(word)
    assert set(read) == set(range(rounds))  # each round has 1536 elements of its own


def test_columns_of_a_job(tmp_path: Path, capsys: pytest.CaptureFixture[str], keystream: Keystream) -> None:
    """Under one key a column is a nonce, and its rows are elements: no two columns read a common word."""
    pa = pytest.importorskip("pyarrow")
    pytest.importorskip("duckdb")
    from support.jobs import KEY as JOB_KEY
    from support.jobs import Workplace, write_table

    rows, mechanisms = 700, ("laplace", "discrete_laplace", "binary", "bounded_mean")
    skipped = mechanisms[:2] + mechanisms[3:]  # whose cells have two draws, the second under a key of its own
    place = Workplace(tmp_path, capsys)
    names = [*mechanisms, *(f"{name}, skipped" for name in skipped)]
    write_table(pa.table({name: pa.array(np.arange(rows) % 2) for name in names}), place.source)
    columns: dict[str, dict[str, Any]] = {}
    for name in names:
        mechanism, _, skips = name.partition(", ")
        bounds = {"lower": 0, "upper": 10, "missing": "skip" if skips else 0} if mechanism != "binary" else {}
        columns[name] = {"mechanism": mechanism, "epsilon": 1.0, **bounds}
    place.write_job(columns, key=JOB_KEY, privacy={"max_epsilon": 100.0})
    keystream.clear()
    done = place.privatize()
    assert done.code == 0, done.err
    found = keystream.requests()
    pairs = set(zip(found["key"].tolist(), found["nonce"].tolist(), strict=True))
    root = int(found["key"][0])
    assert sorted(nonce for key, nonce in pairs if key == root) == list(range(len(names)))
    derived = [(key, nonce) for key, nonce in pairs if key != root]
    assert len({key for key, _ in derived}) == len(derived) == len(skipped)
    bulk = found[(found["tag"] >> 24 == BULK) & (found["in_groups"] == 1)]
    assert (bulk["index"] + bulk["n"]).max() == -(-rows // GROUP)


@pytest.mark.long
def test_cells_of_a_job(tmp_path: Path, capsys: pytest.CaptureFixture[str], keystream: Keystream) -> None:
    """Columns side by side, their rows in three pieces: a flip moves one cell, or the two of a pair in one column."""
    pa = pytest.importorskip("pyarrow")
    from dpcore.jobs.privatize import privatize_rows
    from dpcore.jobs.privatize_job import load_job
    from dpcore.jobs.privatize_plan import make_plan
    from support.jobs import Workplace, write_table

    bounds: dict[str, Any] = {"lower": 0, "upper": 1, "missing": 0}
    mechanisms: dict[str, dict[str, Any]] = {
        "laplace": bounds,
        "gaussian": bounds | {"delta": 1e-6},
        "discrete_laplace": bounds,
        "discrete_gaussian": bounds | {"delta": 1e-3, "epsilon": 3.0},
        "bounded_mean": bounds,
        "binary": {},
        "kary": {"k": 5, "missing": 0, "unknown": 0},
        "unary": {"categories": [0, 1, 2], "missing": 0, "unknown": 0},
    }
    columns = {name: {"mechanism": name, "epsilon": 1.0} | options for name, options in mechanisms.items()}
    skipped = ("laplace", "gaussian", "discrete_laplace", "bounded_mean", "unary")
    columns |= {f"{name}, skipped": columns[name] | {"missing": "skip"} for name in skipped}
    columns["discrete_laplace, skipped"]["upper"] = 10
    rows, cuts = 150, (0, 37, 101, 150)
    place, holed = Workplace(tmp_path, capsys), [None if i % 5 == 4 else i % 2 for i in range(rows)]
    table = pa.table({name: holed if name.endswith("skipped") else np.arange(rows) % 2 for name in columns})
    write_table(table, place.source)
    place.write_job(columns, privacy={"max_epsilon": 100.0, "max_delta": 0.1})
    plan = make_plan(load_job(place.job))
    batch = table.cast(pa.schema(plan.read_types.items())).to_batches()[0]

    def released() -> Any:
        """The table, with a column for each field of a report."""
        parts = [privatize_rows(plan.columns, plan.schema, batch.slice(a, b - a), KeyedRandom(KEY), a) for a, b in pairwise(cuts)]
        return pa.Table.from_batches(parts).flatten()

    def run() -> Array:
        return np.array([hash(str(cell)) for column in released().columns for cell in column.to_pylist()], np.int64)[:, None]

    pairs = {"gaussian", "gaussian, skipped.value"}
    owners = [1000 * i + (by_pairs if name in pairs else alone)(rows, 0) for i, name in enumerate(released().column_names)]
    draws = defaultdict(list)
    for word in keystream_words(keystream, run):
        if word.domain != DERIVED and (word.domain != RESPONSE or word.place % 16 < 3):  # 16 words have the same bit of 1024 answers
            draws[word.key, word.nonce].append(word)
    found = moved(keystream, run, (57, 60, 63), [word for words in draws.values() for word in spread(words, 12)])
    assert {word.nonce for word, _ in found} == set(range(len(columns)))
    assert not shared(found, np.concatenate(owners))


# Calls that draw several times


@pytest.mark.parametrize("name", SEVERAL)
def test_draws_of_a_call_read_apart(name: str, keystream: Keystream) -> None:
    """Under a stream that stands still: what one draw reads, no other draw of the call reads."""
    stream = MarkedStream(keystream, KeyedRandom(KEY).at(5).position())
    keystream.clear()
    SEVERAL[name](stream)
    readers = defaultdict(set)
    for request in keystream.requests():
        for index in range(int(request["index"]), int(request["index"]) + int(request["n"])):
            readers[int(request["key"]), int(request["nonce"]), int(request["tag"]), index].add(int(request["draw"]))
    assert len({draw for draws in readers.values() for draw in draws}) > 1
    assert [at for at, draws in readers.items() if len(draws) > 1] == []


def test_records_of_a_sequential_channel_have_noise_of_their_own() -> None:
    channel = local.SequentialChannel(1.0, lambda reports: local.BinaryResponse(1.0))
    reports = channel.privatize([True] * 100, rng=KeyedRandom(KEY).at(0))
    assert 10 < sum(map(bool, reports)) < 100


def test_a_call_repeats_itself_under_a_stream_that_stands_still() -> None:
    stream = KeyedRandom(KEY).at(3)
    channel = local.SequentialChannel(1.0, lambda reports: local.BinaryResponse(1.0))
    assert channel.privatize([True] * 100, rng=stream) == channel.privatize([True] * 100, rng=stream)
