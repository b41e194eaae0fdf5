"""Fixtures of tests that make a command fail: a folder with a small table. Imports wait: without the extras such tests are left out."""

from __future__ import annotations

import pytest


@pytest.fixture
def place(tmp_path, capsys):
    """What privatises a table of twenty people."""
    from support.jobs import Workplace, people, write_table

    place = Workplace(tmp_path, capsys)
    write_table(people(20), place.source)
    return place


@pytest.fixture
def counter(tmp_path, capsys):
    """What counts in a table of twenty people."""
    from support.jobs import write_table
    from support.releases import Counter, clinic

    place = Counter(tmp_path, capsys)
    write_table(clinic(20), place.source)
    return place
