"""`dpcore.interop.smartnoise`: laws through queries, thresholds, scales, budgets and values."""

from __future__ import annotations

import contextlib
import math
import re
import sqlite3
import sys
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcore import noise
from dpcore.errors import DataError
from dpcore.interop import smartnoise
from support import laws
from support.distances import NUMPY, PYTHON, exact, excess_of_sums, loss_bound, neighbours, rows_whose_sums_round_apart
from support.smartnoise import (
    BY_EDUCATION,
    FEW_COLUMNS,
    KINDS,
    NATIVE,
    ONE_LINE,
    Laplace,
    Mechanism,
    Privacy,
    as_array,
    as_frame,
    asked,
    columns,
    connection,
    fit,
    native,
    noise_of,
    ours,
    people,
)


@pytest.fixture
def installed():
    with smartnoise.install() as found:
        yield found


# Queries


EXACT = 1e6
"""An ε for which noise hardly shows."""


def test_a_query_from_end_to_end(installed):
    reader, exact = connection(Privacy(epsilon=EXACT, delta=1e-6)), people().groupby("educ")
    answer = reader.execute(f"{BY_EDUCATION} ORDER BY educ")
    assert answer[0] == ["educ", "n", "years", "income"]
    for (educ, n, years, income), (group, rows) in zip(answer[1:], exact, strict=True):
        assert educ == group
        assert abs(n - len(rows)) <= 1
        assert abs(years - rows.age.sum()) <= 1
        assert abs(income - rows.income.sum()) < 50


QUESTIONS = {
    "SELECT AVG(income) AS x FROM PUMS.PUMS": lambda rows: rows.income.mean(),
    "SELECT VAR(age) AS x FROM PUMS.PUMS": lambda rows: rows.age.var(ddof=0),
    "SELECT STDDEV(age) AS x FROM PUMS.PUMS": lambda rows: rows.age.std(ddof=0),
    "SELECT COUNT(DISTINCT age) AS x FROM PUMS.PUMS": lambda rows: rows.age.nunique(),
    "SELECT SUM(age) AS x FROM PUMS.PUMS WHERE educ > 8": lambda rows: rows.age[rows.educ > 8].sum(),
    "SELECT educ, AVG(age) AS x FROM PUMS.PUMS GROUP BY educ HAVING educ = 3": lambda rows: rows.age[rows.educ == 3].mean(),
    "SELECT TOP 1 educ, SUM(age) AS x FROM PUMS.PUMS GROUP BY educ ORDER BY x DESC": lambda rows: rows.groupby("educ").age.sum().max(),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("query", QUESTIONS)
def test_statistics_come_out_right(installed, query, kind):
    answer = connection(asked(kind, EXACT)).execute(query)
    assert answer[1][-1] == pytest.approx(QUESTIONS[query](people()), rel=1e-3, abs=1)


def test_averages_and_variances_follow_from_noisy_sums_and_counts():
    query = "SELECT AVG(age) AS a, VAR(age) AS v FROM PUMS.PUMS"
    found = []
    for postprocess in (False, True):
        with smartnoise.install(random_state=7):
            found.append(list(connection().execute(query, postprocess=postprocess)))
    cells = dict(zip(columns(connection(), query), found[0][0], strict=True))
    count, total = cells["count_age"], cells["sum_age"]
    (squares,) = (value for name, value in cells.items() if name not in {"count_age", "sum_age"})
    assert found[1][1] == pytest.approx([total / count, squares / count - (total / count) ** 2], rel=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_persons_with_many_rows_and_nulls(installed, kind):
    rows = people()
    rows["pid"] = rows.index // 4
    rows.loc[::5, "age"] = np.nan
    options = {"row_privacy": False, "max_ids": 3, "sample_max_ids": True, "pid": {"type": "int", "private_id": True}}
    reader = connection(asked(kind, EXACT), rows, **options)
    assert {found.max_contrib for found in columns(reader, FEW_COLUMNS).values()} == {3}
    names, (n, years) = reader.execute("SELECT COUNT(DISTINCT pid) AS n, SUM(age) AS years FROM PUMS.PUMS")
    assert names == ["n", "years"]
    assert abs(n - 250) <= 1
    assert 0 < years < rows.age.sum()


@pytest.mark.parametrize("form", [list, as_frame, as_array])
@pytest.mark.parametrize("kind", KINDS)
def test_laws_of_answers_are_exact_and_a_twin_of_another_scale_is_rejected(installed, monkeypatch, kind, form):
    reader, n = connection(asked(kind)), 60_000
    scales = {name: found.scale for name, found in columns(reader, ONE_LINE).items()}
    assert len(set(scales.values())) == 3
    for name, drawn in noise_of(reader, n, form=form).items():
        assert fit(kind, scales[name], drawn) > laws.ERROR_RATE
    with_wrong_scale(monkeypatch, kind)
    for name, drawn in noise_of(reader, n, form=form).items():
        assert fit(kind, scales[name], drawn) < laws.ERROR_RATE


@pytest.mark.parametrize("kind", KINDS)
def test_laws_of_groups_that_sqlite_has_counted(installed, monkeypatch, kind):
    rows, query = people(30_000), "SELECT educ, COUNT(*) AS n, SUM(age) AS years FROM PUMS.PUMS GROUP BY educ"
    rows["educ"] = rows.index
    reader = connection(asked(kind), rows)
    found = {name: mechanism for name, mechanism in columns(reader, query).items() if mechanism is not None}
    exact = {"count_star": 1.0, "sum_age": rows.age.to_numpy()}
    assert set(found) == set(exact)

    def fits() -> list[float]:
        answer = list(reader.execute(query, postprocess=False))
        cells = dict(zip(columns(reader, query), zip(*answer, strict=True), strict=True))
        assert cells["educ"] == tuple(rows.educ)
        return [fit(kind, found[name].scale, np.array(cells[name]) - exact[name]) for name in exact]

    assert min(fits()) > laws.ERROR_RATE
    with_wrong_scale(monkeypatch, kind)
    assert max(fits()) < laws.ERROR_RATE


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("values", [[0] * 60_000, [0.0] * 60_000, np.zeros(60_000), [0, 0.0] * 30_000])
def test_laws_of_lists_are_exact_and_one_noise_for_all_is_rejected(kind, values):
    mechanism = ours(kind, 0.3)
    drawn = mechanism.release(values)
    assert type(drawn) is list
    assert {type(value) for value in drawn} == {float}
    assert fit(kind, mechanism.scale, np.array(drawn)) > laws.ERROR_RATE
    assert fit(kind, mechanism.scale, np.full(60_000, drawn[0])) < laws.ERROR_RATE


def with_wrong_scale(monkeypatch, kind):
    """Let queries draw noise of 90 % of its scale."""
    owner = smartnoise.LaplaceNoise if kind == "laplace" else smartnoise.GaussianNoise
    draw, cell = owner.draw, smartnoise._cell
    monkeypatch.setattr(owner, "draw", staticmethod(lambda values, scale, rng: draw(values, 0.9 * scale, rng=rng)))
    monkeypatch.setattr(smartnoise, "_cell", lambda name, scale: cell(name, 0.9 * scale))


def test_a_cell_gets_noise_once_and_only_from_mechanisms_of_dpcore(installed):
    class Half(Laplace):
        def release(self, vals):
            return [value / 2 for value in vals]

    privacy = asked("laplace")
    privacy.mechanisms.classes[Mechanism.laplace] = Half
    reader = connection(privacy)
    names = list(columns(reader, ONE_LINE))
    header, row = tuple(names), (0, None, 8.0)
    noised = smartnoise._with_noise([header, row], reader._rewrite(ONE_LINE)[0])
    assert noised[0] == header
    assert [type(cell) for cell in noised[1]] == [smartnoise.Drawn, smartnoise.Drawn, float]
    found = list(reader.execute(ONE_LINE, pre_aggregated=[header, row], postprocess=False))
    assert found[0][2] == 4.0
    assert 0.0 not in found[0][:2]
    for other in (np.array([row]), [header], [header, (1, 2)]):
        assert smartnoise._with_noise(other, reader._rewrite(ONE_LINE)[0]) is other


def test_noise_is_added_before_the_only_rounding():
    drawn = np.array(ours("laplace").release([1e-9] * 10_000))
    assert np.array_equal(drawn * 2**25, np.rint(drawn * 2**25))


@pytest.mark.parametrize("kind", KINDS)
def test_the_budget_of_a_query_is_the_same(kind):
    readers = [connection(asked(kind)) for _ in range(2)]
    costs = readers[0].get_privacy_cost([FEW_COLUMNS, FEW_COLUMNS])
    readers[0].execute(FEW_COLUMNS)
    with smartnoise.install():
        assert readers[1].get_privacy_cost([FEW_COLUMNS, FEW_COLUMNS]) == costs
        readers[1].execute(FEW_COLUMNS)
    assert readers[1].odometer.spent == readers[0].odometer.spent


@pytest.mark.parametrize("kind", KINDS)
def test_accuracies_are_those_of_smartnoise_and_of_the_rounding(kind):
    reader = connection(asked(kind))
    before = reader.get_simple_accuracy(FEW_COLUMNS, 0.05)
    with smartnoise.install():
        after = reader.get_simple_accuracy(FEW_COLUMNS, 0.05)
        drawn = noise_of(reader, 40_000, FEW_COLUMNS).values()
    inside = [np.mean(np.abs(noises) <= half) for noises, half in zip(drawn, after, strict=True)]
    assert all(old < new < old * (1 + 2**-24) for old, new in zip(before, after, strict=True))
    assert all(laws.binomial_p_value(round(share * 40_000), 40_000, 0.95) > laws.ERROR_RATE for share in inside)
    for alpha in (0.0, 1.5, -1.0):
        assert outcome(ours(kind), alpha) == outcome(native(kind), alpha)


def outcome(mechanism, alpha):
    """What a mechanism answers for an accuracy: a number, or the type of what it raises."""
    try:
        return round(mechanism.accuracy(alpha), 6)
    except Exception as error:  # whatever it is
        return type(error)


COUNTED = "SELECT educ, COUNT(*) AS n FROM PUMS.PUMS GROUP BY educ"


@pytest.mark.parametrize("kind", KINDS)
def test_rare_groups_stay_unnamed(kind):
    reader = connection(asked(kind, 5.0), censor_dims=True)
    theirs = columns(reader, COUNTED)["keycount"].threshold
    with smartnoise.install():
        mechanism = columns(reader, COUNTED)["keycount"]
        assert theirs < mechanism.threshold < theirs * (1 + 2**-20)
        assert mechanism.delta == 1e-6
        assert len(reader.execute(COUNTED)) == 17
        alone = "SELECT educ, COUNT(*) AS n FROM PUMS.PUMS WHERE age > 98 AND income < 1000 GROUP BY educ"
        assert reader.execute(alone) == [["educ", "n"]]
        assert reader.tau == mechanism.threshold


@pytest.mark.parametrize("kind", KINDS)
def test_a_group_of_one_person_is_named_as_often_as_delta_allows(installed, monkeypatch, kind):
    n, delta = 100_000, 0.05
    reader = connection(asked(kind, 1.0, delta), censor_dims=True)
    mechanism = columns(reader, COUNTED)["keycount"]
    upper = laws.laplace_upper if kind == "laplace" else laws.gaussian_upper
    likely = float(upper((mechanism.threshold - 1) / mechanism.scale))
    assert likely == pytest.approx(delta if kind == "laplace" else delta / 2, rel=1e-6)
    header = tuple(columns(reader, COUNTED))
    ones = [header, *[tuple(1 if name == "keycount" else row for name in header) for row in range(n)]]

    def named() -> int:
        return len(list(reader.execute(COUNTED, pre_aggregated=ones, postprocess=False)))

    assert laws.binomial_p_value(named(), n, likely) > laws.ERROR_RATE
    lower = mechanism.threshold - 0.1 * mechanism.scale
    monkeypatch.setattr(smartnoise.LaplaceNoise, "threshold", lower)
    monkeypatch.setattr(smartnoise.GaussianNoise, "threshold", lower)
    assert laws.binomial_p_value(named(), n, likely) < laws.ERROR_RATE


def test_the_threshold_keeps_delta_in_spite_of_the_grid():
    """P(R(1 + W) > threshold) ≤ δ/c: what rounds to a number above it is above it less half a step of the grid."""
    for epsilon, delta, most in ((1.0, 1e-6, 1), (0.1, 1e-9, 1), (3.0, 1e-3, 7)):
        mechanism = ours("laplace", epsilon, max_contrib=most)
        mechanism.delta = delta
        reached = mechanism.threshold - noise.default_grid(mechanism.scale) / 2
        assert most * math.exp(-(reached - 1) / mechanism.scale) / 2 <= delta


# Scales


@settings(max_examples=40)
@given(st.floats(0.1, 20), st.floats(1e-3, 1e4), st.integers(1, 50))
def test_laplace_scales_are_the_least_floats_above(epsilon, sensitivity, most):
    found = ours("laplace", epsilon, sensitivity=sensitivity, max_contrib=most)
    assert found.scale <= smartnoise.LARGEST_SCALE * (1 + 1e-6)
    exact = Fraction(smartnoise.sensitivity_of_sum(0.0, sensitivity, most)) / Fraction(epsilon)
    assert Fraction(math.nextafter(found.scale, 0.0)) < exact <= Fraction(found.scale)
    assert exact >= Fraction(sensitivity) * most / Fraction(epsilon)


@pytest.mark.parametrize("parameters", [{}, {"max_contrib": 5}, {"sensitivity": None, "lower": -10, "upper": 5.5}, {"sensitivity": 10}])
@pytest.mark.parametrize("kind", KINDS)
def test_scales_are_those_that_smartnoise_finds(kind, parameters):
    found, theirs = ours(kind, 0.7, **parameters), native(kind, 0.7, **parameters)
    assert found.scale == pytest.approx(theirs.scale, rel=1e-14)
    assert (found.epsilon, found.delta, found.lower, found.upper) == (theirs.epsilon, theirs.delta, theirs.lower, theirs.upper)
    assert (found.mechanism, found.max_contrib, found.bit_depth) == (theirs.mechanism, theirs.max_contrib, theirs.bit_depth)
    assert isinstance(found, NATIVE[kind])


@pytest.mark.long  # SmartNoise searches for a minute
def test_a_scale_that_smartnoise_does_not_find():
    with pytest.raises(ValueError, match="Unable to find"):
        native("gaussian", sensitivity=500_000)
    assert ours("gaussian", sensitivity=500_000).scale == pytest.approx(500_000 * ours("gaussian").scale, rel=1e-6)


@pytest.mark.parametrize(
    ("epsilon", "parameters"),
    [
        (math.inf, {}), (1.0, {"sensitivity": 0}), (0.0, {}), (-1.0, {}), (math.nan, {}), (1e-9, {}), (1.0, {"sensitivity": -1}),
        (1.0, {"max_contrib": 0}), (1.0, {"max_contrib": 1.5}), (1.0, {"sensitivity": math.inf}), (1.0, {"sensitivity": None}),
        (1e6, {"max_contrib": 2**33}),
    ],
)  # fmt: skip
def test_what_smartnoise_refuses_is_refused_in_its_words(epsilon, parameters):
    with pytest.raises(Exception) as theirs:  # noqa: PT011  # whatever it is
        native("laplace", epsilon, **parameters)
    with pytest.raises(type(theirs.value), match=re.escape(str(theirs.value).strip().partition("\n")[0])):
        ours("laplace", epsilon, **parameters)


@pytest.mark.parametrize("delta", [0.0, 1.5, -1.0])
def test_a_delta_that_is_none_is_smartnoises_to_refuse(delta):
    with pytest.raises(ValueError, match=r"greater than 0|Unable to find|math domain|expected a"):
        ours("gaussian", delta=delta)


@pytest.mark.parametrize(("epsilon", "sensitivity"), [(1.0, 1e-300), (1.0, 5e-324), (1e300, 1)])
def test_scales_below_dpcores_are_left_to_smartnoise(epsilon, sensitivity):
    found = ours("laplace", epsilon, sensitivity=sensitivity)
    assert found.scale == native("laplace", epsilon, sensitivity=sensitivity).scale
    assert found.release([3, 4]) == [3.0, 4.0]


def test_a_scale_of_zero_is_left_to_smartnoise(monkeypatch):
    mechanism = ours("laplace")
    mechanism.scale = 0.0
    monkeypatch.setattr(Laplace, "release", lambda _, values: values)
    assert mechanism.release([3]) == [3]


# Values

NOT_TAKEN = {
    complex, np.complex64, np.complex128, np.clongdouble, np.bytes_, np.void, np.datetime64, np.timedelta64,
}  # fmt: skip


def test_values_are_converted_as_smartnoise_does():
    mechanism = ours("laplace", 1000.0)
    values = [3, True, np.int32(4), np.float32(0.5), Decimal("2.5"), "12", math.nan]
    found = mechanism.release(values)
    assert np.abs(np.array(found) - [3, 1, 4, 0.5, 2.5, 12, 0]).max() < 1
    for value, entered in zip(values, (3, 1, 4, 0.5, 2.5, 12, 0), strict=True):
        assert abs(mechanism.release([value])[0] - entered) < 1
    assert mechanism.release([math.inf, -math.inf]) == [sys.float_info.max, -sys.float_info.max]
    assert mechanism.release([2**70])[0] == 2.0**70
    assert mechanism.release([]) == []
    assert mechanism.release(iter([1, 2]))[0] < 2


def test_integers_of_64_bits_enter_exactly():
    """As floats, 2^53 + 1 and 2^53 would be the same number: a person more would make a difference of 0 or 2."""
    for rows in ([2**53 + 1], [2**53 + 1, 2**53 + 1], [2**53 + 1, 0.5]):
        keyed = [ours("laplace", 1e-3).release(rows) for _ in range(3000)]
        assert len({first % 2 for first, *_ in keyed}) <= 2
    assert smartnoise._entered(np.int64(2**53 + 1)) == 2**53 + 1
    assert smartnoise._entered(2**63) == Fraction(2**63)


TAKEN = [*(kind for kind in (*PYTHON, *NUMPY) if kind not in NOT_TAKEN | {np.str_}), str]


@pytest.mark.parametrize("kind", TAKEN, ids=lambda kind: kind.__name__)
def test_neighbours_of_every_type_keep_their_distance(kind):
    """OpenDP takes whatever `float` takes. Floats of Python, and lists of one type, have ways of their own."""
    pairs = [tuple(map(str, pair)) for pair in neighbours(Decimal)] if kind is str else neighbours(kind)
    draws = 150 if any(type(smartnoise._entered(each)) is Fraction for pair in pairs for each in pair) else 600
    for v, w in pairs[:: 3 if kind is int else 1]:
        apart = abs(exact(Decimal(v) if kind is str else v) - exact(Decimal(w) if kind is str else w))
        for several in (1, 2):

            def release(value, several=several, apart=apart):
                served = ours("laplace", 1.0)
                served.scale = float(apart)
                return [served.release([value] * several)[-1] for _ in range(draws)]

            assert loss_bound(release(v), release(w)) <= 1.0, (v, w)


@pytest.mark.parametrize("kind", sorted(NOT_TAKEN, key=str), ids=lambda kind: kind.__name__)
def test_types_that_are_no_numbers_are_refused(kind):
    value = np.datetime64("2026-01-01") if kind is np.datetime64 else np.void(b"1") if kind is np.void else kind(1)
    with pytest.raises(DataError, match="vals must be numbers"):
        ours("laplace").release([value])


def test_a_twin_that_makes_floats_of_integers_is_rejected(monkeypatch):
    monkeypatch.setattr(smartnoise, "_entered", float)
    served = ours("laplace", 1.0)
    served.scale = 2.0
    near = ([served.release([value])[0] for _ in range(400)] for value in (2**63 + 1023, 2**63 + 1025))
    assert loss_bound(*near) > 1.0


def test_decimals_of_any_size_are_numbers():
    served = ours("laplace", 1.0)
    huge = sys.float_info.max
    sizes = {"1e999999999": huge, "-1e999999999": -huge, "1e-999999999": 0, "NaN": 0, "sNaN": 0, "Infinity": huge, "1e400": huge}
    for text, wanted in sizes.items():
        assert served.release([Decimal(text)])[0] == pytest.approx(wanted, abs=1e4)


@pytest.mark.parametrize("values", [["secret"], [None], [object()], [1, "secret"], [1.0, [2]]])
def test_what_is_no_number_is_refused_without_showing_it(values):
    with pytest.raises(DataError, match="vals must be numbers, got one of type") as refused:
        ours("laplace").release(values)
    assert "secret" not in str(refused.value)


def test_the_sum_of_floats_in_a_database_moves_further_than_opendp_allows():
    """What the page says of `SUM` of floats: a row of at most 1 more, and SQLite's sums are further apart than the sensitivity."""
    allowed = smartnoise.sensitivity_of_sum(0.0, 1.0, 1)
    totals = []
    for rows in rows_whose_sums_round_apart(100_000):
        with contextlib.closing(sqlite3.connect(":memory:")) as database:
            database.execute("CREATE TABLE t (x REAL)")
            database.executemany("INSERT INTO t VALUES (?)", ([row] for row in rows))
            ((total,),) = database.execute("SELECT SUM(CASE WHEN x < 0 THEN 0 WHEN x > 1 THEN 1 ELSE x END) FROM t")
        totals.append(Fraction(total))
    moved = totals[1] - totals[0]
    if sqlite3.sqlite_version_info >= (3, 43):  # compensates the error of each addition
        assert abs(moved) <= allowed
    else:
        assert moved == 1 + excess_of_sums(100_000)
        assert moved > allowed


def test_a_frame_of_aggregates_keeps_its_integers():
    """SmartNoise makes one array of a frame, in which integers beside floats are floats."""
    frame = pd.DataFrame({"n": [2**53 + 1, 2**53 + 3], "x": [0.5, 1.5]})
    assert smartnoise._rows(frame) == [("n", "x"), (2**53 + 1, 0.5), (2**53 + 3, 1.5)]
