"""Synthetic tables: privacy by exact enumeration of all small tables, the laws of noise and rows, and twins that are rejected.

Error rate: `support.laws.ERROR_RATE` for each test. The draws are keyed, so a run repeats its result.
"""

from __future__ import annotations

import itertools
import math
import tomllib

import numpy as np
import pyarrow as pa
import pytest

from dpcore.distributions._choices import draw_codes
from dpcore.jobs.release_job import parse_release_job
from dpcore.query.encoders import Bins, Categorical
from dpcore.query.kinds.synthetic import cut
from dpcore.query.made_rows import SyntheticTable, TableColumn
from dpcore.query.written_plans import make_release_plan
from dpcore.tables.types.categories import declared_by
from dpcore.testing import KeyedRandom
from support.jobs import write_table
from support.kernels import Law
from support.laws import ERROR_RATE, count, integers_law, p_value
from support.releases import release_text
from support.totals import total_of

KEY = b"laws of tables, for the tests!!!"
EPSILON = 0.7


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return write_table(pa.table({"a": [0, 1], "b": [0, 1]}), tmp_path_factory.mktemp("law") / "in.parquet")


def answer_of(source, columns, privacy=None, **query):
    """The answer of a job with one synthetic query."""
    made = {"kind": "synthetic", "columns": columns, "output": str(source.with_name("made.parquet")), "draws": 1, "epsilon": EPSILON}
    text = release_text(source, source.with_suffix(".json"), {"x": made | query}, privacy=privacy)
    (answer,) = make_release_plan(parse_release_job(tomllib.loads(text))).estimators
    return answer


# Privacy, exactly: all tables of at most four rows, all their neighbours, all outputs in a window


PAIR = [{"name": "a", "k": 2}, {"name": "b", "k": 2}]


def tables_of(size, cells):
    """Every table of so many rows; the order of rows matters to nobody."""
    return itertools.combinations_with_replacement(range(cells), size)


def neighbours(size, cells, relation):
    """Pairs of tables that differ by one row."""
    for rows in tables_of(size, cells):
        for place in range(size):
            rest = rows[:place] + rows[place + 1 :]
            if relation == "add_remove":
                yield rows, rest
            else:
                yield from ((rows, (*rest, other)) for other in range(cells) if other != rows[place])


def tallied(answer, rows):
    """The counts of a table whose rows are numbers of joint cells of `PAIR`, or of cells of its first column."""
    codes = np.array(rows, np.int64).reshape(-1)
    read = [codes // 2, codes % 2] if len(answer.columns) == 2 else [codes]
    return total_of(answer.measure, read).all()


def log_law(counts, scale, window):
    """ln P(noisy counts = y) for every y of the window, which is the same for all tables."""
    r = math.exp(-1 / scale)
    distances = np.abs(np.arange(*window)[:, None] - counts)  # values × cells
    axes = np.ix_(*[distances[:, cell] for cell in range(len(counts))])
    return len(counts) * math.log((1 - r) / (1 + r)) + sum(axes) * math.log(r)


def worst(answer, relation, scale=None):
    """The largest |ln P(M(x) = y) − ln P(M(x') = y)| over neighbours of at most 4 rows, and outputs of −1 … 5 in each cell."""
    scale = answer.noise[0].scale if scale is None else scale
    window, found = (-1, 6), 0.0
    for size in range(1, 5):
        for one, other in neighbours(size, 4 if len(answer.columns) == 2 else 2, relation):
            laws = [log_law(tallied(answer, rows), scale, window) for rows in (one, other)]
            found = max(found, float(np.abs(laws[0] - laws[1]).max()))
    return found


@pytest.mark.parametrize("relation", ["replace", "add_remove"])
@pytest.mark.parametrize(("columns", "method"), [(PAIR, "joint"), (PAIR, "marginals"), (PAIR[:1], "joint")], ids=["joint", "two", "one"])
def test_no_neighbours_are_further_apart_than_epsilon(source, columns, method, relation):
    answer = answer_of(source, columns, {"relation": relation}, method=method)
    assert worst(answer, relation) == pytest.approx(EPSILON, abs=1e-12)
    assert worst(answer, relation) <= EPSILON + 1e-12


@pytest.mark.parametrize("relation", ["replace", "add_remove"])
def test_noise_for_one_histogram_does_not_do_for_two(source, relation):
    """Each row is in both histograms: their ε adds up."""
    answer = answer_of(source, PAIR, {"relation": relation}, method="marginals")
    assert worst(answer, relation, answer.noise[0].scale / 2) == pytest.approx(2 * EPSILON, abs=1e-12)


def test_units_of_two_rows(source):
    """Two rows of a unit turn into any two others."""
    write_table(pa.table({"a": [0, 1], "b": [0, 1], "person": [0, 1]}), source.with_name("people.parquet"))
    people = source.with_name("people.parquet")
    answer = answer_of(people, PAIR, {"unit": "person", "max_rows_per_unit": 2}, method="joint")
    apart = 0.0
    for fixed in tables_of(2, 4):
        for one, other in itertools.product(itertools.chain(*(tables_of(size, 4) for size in range(3))), repeat=2):
            laws = [log_law(tallied(answer, fixed + rows), answer.noise[0].scale, (-1, 6)) for rows in (one, other)]
            apart = max(apart, float(np.abs(laws[0] - laws[1]).max()))
    assert apart == pytest.approx(EPSILON, abs=1e-12)
    assert apart <= EPSILON + 1e-12


def test_a_row_of_the_table_tells_no_more_than_the_counts(source):
    """The law of one made-up row, summed over all noisy counts: cutting and drawing look at those alone."""
    answer = answer_of(source, PAIR[:1], method="joint")
    window = (-60, 65)
    y = np.array(list(itertools.product(range(*window), repeat=2)))
    weights = np.array([cut(each) for each in y], np.float64)
    shares = weights / weights.sum(axis=1, keepdims=True)
    laws = {}
    for rows in itertools.chain(*(tables_of(size, 2) for size in range(1, 5))):
        law = np.exp(log_law(tallied(answer, rows), answer.noise[0].scale, window)).reshape(-1)
        assert law.sum() == pytest.approx(1, abs=1e-6)
        laws[rows] = shares.T @ law
    ratios = [
        np.abs(np.log(laws[one] / laws[tuple(sorted(other))])).max()
        for size in range(1, 5)
        for one, other in neighbours(size, 2, "replace")
    ]
    assert 0.05 < max(ratios) <= EPSILON


@pytest.mark.parametrize(("privacy", "sizes"), [({"relation": "replace"}, (9, 9)), ({"relation": "add_remove"}, (9, 7))])
@pytest.mark.parametrize("method", ["joint", "marginals"])
def test_after_the_noise_nobody_looks_at_the_rows(source, monkeypatch, method, privacy, sizes):
    """Unlike tables with the same noisy counts have the same rows, shares, pairs and, where it is private, number of rows."""
    answer = answer_of(source, PAIR, privacy, method=method, draws=200)
    noisy = np.array([5, -2, 0, 11])
    monkeypatch.setattr(type(answer.mechanism), "release", lambda self, values, **options: noisy.copy())
    found = []
    for size, start in zip(sizes, (0, 1), strict=True):
        read = [np.full(size, start), (np.arange(size) + start) % 2]
        made = answer.synthesis(total_of(answer.measure, read), KeyedRandom(KEY))
        found.append((made.document(), [batch.to_pydict() for batch in made.table.batches()]))
    assert found[0] == found[1]


# The law of what is drawn


@pytest.mark.parametrize(("delta", "method"), [(0.0, "joint"), (0.0, "marginals"), (1e-5, "marginals")])
def test_the_noise_of_the_cells(source, delta, method):
    answer = answer_of(source, [{"name": "a", "k": 40}, {"name": "b", "k": 30}], method=method, delta=delta)
    read = [np.arange(500) % 40, np.arange(500) % 30]
    tally, rng = total_of(answer.measure, read), KeyedRandom(KEY)
    draws = 20 if method == "joint" else 250
    noise = np.concatenate([answer.synthesis(tally, rng).noisy - tally.all() for _ in range(draws)])
    law = Law("discrete_gaussian" if delta else "discrete_laplace", answer.noise[0].scale)
    if not delta:
        assert law.scale == pytest.approx((2 if method == "joint" else 4) / EPSILON)
    assert answer.release(tally, KeyedRandom(KEY)) == answer.synthesis(tally, KeyedRandom(KEY)).document()
    counts = count(noise, 400)
    assert p_value(counts, integers_law(law, 400)) > ERROR_RATE
    assert p_value(counts, integers_law(Law(law.kind, law.scale / 2), 400)) < ERROR_RATE


def test_standard_errors_are_those_of_sums_of_cells(source):
    answer = answer_of(source, [{"name": "a", "k": 40}, {"name": "b", "k": 10}])
    tally, rng = total_of(answer.measure, [np.arange(400) % 40, np.arange(400) // 40]), KeyedRandom(KEY)
    columns = [answer.release(tally, rng)["value"]["columns"] for _ in range(200)]
    for place, (size, summed) in enumerate([(40, 10), (10, 40)]):
        noise = np.array([each[place]["counts"] for each in columns]) - 400 / size
        stderr = columns[0][place]["stderr"]
        assert stderr == pytest.approx(answer.expected_error(None) * np.sqrt(summed))
        # 2,000 squares or more: 20 per cent are 5 standard errors.
        assert np.mean(noise**2) == pytest.approx(stderr**2, rel=0.2)


def coded(k):
    """A column whose values are its codes."""
    return TableColumn(f"codes of {k}", Categorical(declared_by(tuple(range(k)))))


def drawn(columns, joint, weights, rows, **cut_into):
    """The columns of a table as arrays."""
    table = SyntheticTable(columns, joint, [np.asarray(each, np.int64) for each in weights], rows, KeyedRandom(KEY))
    batches = pa.Table.from_batches(list(table.batches(**cut_into)))
    return [column.to_numpy() for column in batches.columns]


@pytest.mark.parametrize("weights", [[[3, 0, 1], [5, 2, 1]], [[10**9, 1, 10**8], [0, 0, 2**40]], [[2**61, 2**61, 0], [2**60, 7, 2**62]]])
def test_rows_have_the_released_shares(weights):
    one, other = drawn([coded(2), coded(3)], [(0, 1)], [weights], 30_000)
    found = np.bincount(3 * one + other, minlength=6)
    shares = np.array(weights, object).reshape(-1) / sum(itertools.chain(*weights))
    order = np.argsort(shares.astype(np.float64))[::-1]
    assert p_value(found[order], shares[order].astype(np.float64)) > ERROR_RATE
    wrong = np.roll(shares, 1)[order].astype(np.float64)
    assert (found[wrong == 0] > 0).any() or p_value(found[order][wrong > 0], wrong[wrong > 0]) < ERROR_RATE


def test_rows_are_those_of_the_exact_choice_among_weights():
    """Looked up in running sums they are what thresholds in exact rational numbers make of the same words."""
    for weights in ([1], [1, 0, 2, 0], [7] * 1000, [i % 5 for i in range(100_000)], [2**60, 1, 0, 2**59], [10**17 + i for i in range(9)]):
        (codes,) = drawn([coded(len(weights))], [(0,)], [weights], 2000)
        assert (codes == draw_codes(weights, 2000, rng=KeyedRandom(KEY))).all()


def test_groups_are_drawn_independently():
    columns, weights = [coded(2), coded(2)], [[3, 1], [2, 5]]
    one, other = drawn(columns, [(0,), (1,)], weights, 30_000)
    masses = np.outer(weights[0], weights[1]).reshape(-1) / 28
    assert p_value(np.bincount(2 * one + other, minlength=4), masses) > ERROR_RATE
    # The twin reads the same words for both.
    twin = draw_codes(weights[1], 30_000, rng=KeyedRandom(KEY))
    assert p_value(np.bincount(2 * one + twin, minlength=4), masses) < ERROR_RATE


def test_values_are_uniform_inside_of_bins():
    edges = (0.0, 1.0, 4.0, 4.5)
    columns = [TableColumn("x", Bins.between(edges, None)), TableColumn("n", Bins.between((0.0, 2.5, 9.0), None), integers=True)]
    x, n = drawn(columns, [(0,), (1,)], [[2, 1, 1], [3, 7]], 40_000)
    inside = (x[x < 1], (x[(x >= 1) & (x < 4)] - 1) / 3, (x[x >= 4] - 4) * 2)
    for values in inside:
        cells = np.bincount((values * 20).astype(int), minlength=20)
        assert p_value(cells, np.full(20, 0.05)) > ERROR_RATE
        assert p_value(np.bincount((values**1.1 * 20).astype(int), minlength=20), np.full(20, 0.05)) < ERROR_RATE
    whole = np.array([0.1] * 3 + [0.1] * 7)
    assert p_value(np.bincount(n, minlength=10), whole) > ERROR_RATE
    assert (
        p_value(np.bincount(n, minlength=10), np.array([0.3 / 2.5 * (1, 1, 0.5)[i] if i < 3 else 0.7 / 6.5 for i in range(10)]))
        < ERROR_RATE
    )


def test_every_point_falls_into_its_bin_again():
    edges = tuple(np.cumsum([0.1, 1e-17, 0.3, 1e-300, 5.0, 1e16, 2.0, 1e300]).tolist())
    edges = tuple(dict.fromkeys((-1e308, -1.0, -5e-324, 0.0, 5e-324, *edges, 1.7e308)))
    cells = Bins.between(edges, None)
    (x,) = drawn([TableColumn("x", cells)], [(0,)], [[1] * cells.size], 40_000)
    codes = draw_codes([1] * cells.size, 40_000, rng=KeyedRandom(KEY))
    assert (cells.read(pa.array(x)) == codes).all()
    assert np.isfinite(x).all()


@pytest.mark.parametrize("batch_rows", [1, 7, 1000])
def test_rows_do_not_depend_on_batches(batch_rows):
    columns = [
        coded(3),
        TableColumn("x", Bins.between((0.0, 1.0, 3.0), None)),
        TableColumn("n", Bins.between((0.0, 9.0), None), integers=True),
    ]
    weights = [np.arange(6).reshape(3, 2), [4]]
    for whole, parts in zip(drawn(columns, [(0, 1), (2,)], weights, 500), drawn(columns, [(0, 1), (2,)], weights, 500, batch_rows=batch_rows), strict=True):  # fmt: skip  # noqa: E501
        assert (whole == parts).all()
