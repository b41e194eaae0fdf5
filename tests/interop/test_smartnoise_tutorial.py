"""A program in the manner of SmartNoise SQL's user guide: with two lines more it prints what it prints without."""

from __future__ import annotations

import pytest

pytest.importorskip("snsql", reason="make test-interop PEER=smartnoise")

from support.tutorials import said

LINES = ("from dpcore.interop import smartnoise", "smartnoise.install()")
PEOPLE = """
import pandas as pd
import snsql
from snsql import Mechanism, Privacy, Stat

row = pd.RangeIndex(1000)
people = pd.DataFrame({"age": row * 7 % 80 + 18, "sex": row % 2, "income": row * 13 % 500 * 100, "married": row % 3 == 0})
people["sex"] = people["sex"].astype(str)
columns = {
    "age": {"type": "int", "lower": 0, "upper": 100},
    "sex": {"type": "string"},
    "income": {"type": "int", "lower": 0, "upper": 50_000},
    "married": {"type": "boolean"},
}
metadata = {"": {"PUMS": {"PUMS": {"row_privacy": True, "rows": 1000, **columns}}}}
"""
PROGRAM = """
reader = snsql.from_df(people, privacy=Privacy(epsilon=1.0, delta=0.01), metadata=metadata)
by_sex = "SELECT sex, AVG(age) AS age FROM PUMS.PUMS GROUP BY sex ORDER BY sex"
names, *rows = reader.execute(by_sex)
print(names, [(sex, abs(age - 57) < 8) for sex, age in rows], [float(spent) for spent in reader.odometer.spent])

queries = ["SELECT sex, COUNT(*) AS n FROM PUMS.PUMS GROUP BY sex", "SELECT COUNT(*) AS n FROM PUMS.PUMS", by_sex]
careful = snsql.from_df(people, privacy=Privacy(epsilon=0.5, delta=0.001), metadata=metadata)
print([float(cost) for cost in careful.get_privacy_cost(queries)])
reader.odometer = careful.odometer
for query in queries:
    frame = careful.execute_df(query)
    print(list(frame.columns), list(frame.dtypes), len(frame), [float(spent) for spent in reader.odometer.spent])

pre_aggregated = [["keycount", "sex", "sum_age", "count_age"], [510, "1", 23500, 510], [490, "0", 21000, 490], [1, "x", 50, 1]]
for _ in range(2):
    names, *rows = reader.execute(by_sex, pre_aggregated=pre_aggregated)
    print(names, [(sex, abs(age - 45) < 8) for sex, age in rows[:2]])
noisy = list(reader.execute(by_sex, pre_aggregated=pre_aggregated, postprocess=False))
print([[type(cell) for cell in row] for row in noisy[:2]])

privacy = Privacy(epsilon=1.0, delta=1e-5)
privacy.mechanisms.map[Stat.count] = privacy.mechanisms.map[Stat.threshold] = Mechanism.gaussian
reader = snsql.from_connection(people, privacy=privacy, metadata=metadata)
answer = "SELECT TOP 1 married, COUNT(*) AS n, VAR(age) AS v, STDDEV(age) AS s FROM PUMS.PUMS GROUP BY married ORDER BY n DESC"
names, (married, n, v, s) = reader.execute(answer)
print(names, married, abs(n - 666) < 60, type(v), type(s))
print([round(half, 4) for half in reader.get_simple_accuracy("SELECT COUNT(*) AS n, SUM(age) AS age FROM PUMS.PUMS", 0.05)])
"""


def test_a_program_prints_the_same_with_two_lines_more():
    before, after = said(PEOPLE + PROGRAM), said(PEOPLE + PROGRAM, *LINES)
    assert len(before) == 10
    assert before == after


def test_lines_may_stand_after_the_connection_was_made():
    program = """
reader = snsql.from_df(people, privacy=Privacy(epsilon=1.0, delta=0.01), metadata=metadata)

def shown():
    symbols = reader._rewrite("SELECT COUNT(*) AS n FROM PUMS.PUMS")[0]._select_symbols
    return type(symbols[0].mechanism)

print(shown())
from dpcore.interop import smartnoise

print(smartnoise.install())
print(smartnoise.install())  # the cell is run again
print(shown())
smartnoise.uninstall()
print(shown())
"""
    own, installed, again, served, last = said(PEOPLE + program)
    assert installed == again
    assert installed == "<Installed in snsql, random_state=None: 4 attributes replaced>"
    assert served == "<class 'dpcore.interop.smartnoise.Laplace'>"
    assert own == last == "<class 'snsql.sql._mechanisms.laplace.Laplace'>"
