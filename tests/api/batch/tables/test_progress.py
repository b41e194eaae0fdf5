"""What callers give for `progress`: nothing, a function, or an object that learns the stages."""

from __future__ import annotations

import pytest

from dpcore.accounting import Ledger
from dpcore.batch import estimate, load_job, make_plan, privatize
from dpcore.errors import ParameterTypeError
from dpcore.tables.progress import PARTS, shown_by
from support.jobs import COLUMNS, Workplace, people, write_table


@pytest.fixture
def place(tmp_path, capsys):
    place = Workplace(tmp_path, capsys)
    write_table(people(5000), place.source)
    place.write_job()
    return place


def test_a_function_is_called_with_what_is_done_and_the_total(place):
    told = []
    privatize(make_plan(load_job(place.job)), progress=lambda done, total: told.append((done, total)), piece_rows=500)
    assert (told[0], told[-1]) == ((0, PARTS), (PARTS, PARTS))
    assert told == sorted(told)
    told.clear()
    estimate(place.target, progress=lambda done, total: told.append((done, total)))
    assert (told[0], told[-1]) == ((0, PARTS), (PARTS, PARTS))


def test_a_function_is_called_once_for_each_thousandth():
    told = []
    shown = shown_by(lambda done, total: told.append((done, total)))
    shown.begin("first")
    for fraction in (0.0, 0.0001, 0.0011, 0.0012, 1.0, 1.0):
        shown.update(7, fraction)
    shown.begin("second")
    assert [done for done, _ in told] == [0, 1, PARTS, 0]


@pytest.mark.parametrize("progress", [True, 5, "bar", object()])
def test_what_shows_nothing_is_refused_before_a_ledger_is_charged(place, progress):
    ledger = Ledger.create(place.folder / "budget.ledger", epsilon=10)
    place.write_job({"visits": {**COLUMNS["visits"], "missing": 0}}, key=None, ledger=ledger.path)
    with pytest.raises(ParameterTypeError, match="progress must be a function"):
        privatize(make_plan(load_job(place.job)), progress=progress)
    assert ledger.spent.epsilon == 0
    place.write_job()
    privatize(make_plan(load_job(place.job)))
    with pytest.raises(ParameterTypeError, match="progress must be a function"):
        estimate(place.target, progress=progress)


def test_an_object_learns_the_stages(place):
    class Stages(list):
        def begin(self, stage):
            self.append(stage)

        def update(self, rows, fraction):
            assert rows >= 0
            assert 0 <= fraction <= 1

    stages = Stages()
    privatize(make_plan(load_job(place.job)), progress=stages)
    assert stages == ["privatising"]
