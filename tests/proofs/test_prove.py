"""`make prove`: the lemmas hold of the sources, and no planted change of them passes."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

pytest.importorskip("pycparser")
pytest.importorskip("z3")

from proofs.__main__ import main
from proofs.catalogue import ABOUT_KERNELS, LEMMAS, Outcome, outcomes, table
from proofs.changes import CHANGES, planted
from proofs.lemmas import Context

pytestmark = pytest.mark.source_tree
PAGE = Path(__file__).resolve().parents[2] / "docs" / "exactness-proved.md"
WITHOUT = shutil.which("gappa") is None or shutil.which("sollya") is None
needs_provers = pytest.mark.skipif(WITHOUT, reason="gappa or sollya is not installed (apt-get install gappa sollya)")


def test_the_page_lists_the_lemmas():
    assert table() in PAGE.read_text(encoding="utf-8"), "run PYTHONPATH=tests .venv/bin/python -m proofs --table"


def test_lemmas_are_told_apart_and_checked():
    names = [lemma.name for lemma in LEMMAS]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z0-9-]+", name) for name in names)
    assert all((lemma.check is not None) == (lemma.how == "machine") for lemma in LEMMAS)
    assert set(ABOUT_KERNELS) <= set(names)


def test_changes_are_ten_at_least_and_name_lemmas():
    assert len({change.name for change in CHANGES}) == len(CHANGES) >= 10
    assert {change.lemma for change in CHANGES} <= set(ABOUT_KERNELS)


def test_what_is_not_installed_is_said(monkeypatch, capsys):
    from proofs import gappa

    gappa.version.cache_clear()
    gappa.failure.cache_clear()
    monkeypatch.setenv("PATH", "/usr/bin/nowhere")
    monkeypatch.setattr(shutil, "which", lambda name: None if name in {"gappa", "sollya"} else f"/usr/bin/{name}")
    monkeypatch.setattr("proofs.c_source.preprocessor", lambda: "/usr/bin/cc")
    try:
        assert main(["part"]) == 0
        assert "not checked" in capsys.readouterr().out
        assert main(["part", "--require"]) == 2
        assert "apt-get install gappa sollya" in capsys.readouterr().out
    finally:
        gappa.version.cache_clear()
        gappa.failure.cache_clear()


FAST = (
    "reduction-ends",
    "from-int64",
    "fraction-from-int64",
    "to-int64",
    "unless",
    "coverage",
    "gaussian-sample",
    "quick-acceptance",
    "kinds",
    "staircase-duals",
)
"""Lemmas that need no prover of Debian, and little time."""


def assert_proved(found: list[Outcome], names: Sequence[str]) -> None:
    assert {each.lemma.name for each in found} == set(names)
    assert [
        f"{each.lemma.name}: {each.status}: {each.said}" for each in found if each.status not in {"proved", "by hand", "measured"}
    ] == []


def test_lemmas_that_need_no_prover_hold():
    assert_proved(list(outcomes(Context(), FAST)), FAST)


def test_shared_bounds_are_the_largest_changes():
    names = ("contributions", "second-moments", "sums-of-units")
    assert_proved(list(outcomes(Context(), names)), names)


@pytest.mark.long
@needs_provers
def test_all_lemmas_hold():
    assert_proved(list(outcomes(Context())), [lemma.name for lemma in LEMMAS])


@pytest.mark.long
@needs_provers
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.name.replace(" ", "-"))
def test_a_planted_change_is_noticed(change, tmp_path, capsys):
    assert main([change.lemma, "--kernels", str(planted(change, tmp_path))]) == 1
    assert re.search(rf"^{change.lemma} +failed", capsys.readouterr().out, re.MULTILINE)
