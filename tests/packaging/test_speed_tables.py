"""Which runs the tables of speed are made from, and what they say of levels."""

from __future__ import annotations

import runpy
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from dpcore.bench import document
from dpcore.bench.results import Jitter, Row
from support.benchmarks import results, row, timed

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def program():
    return runpy.run_path(str(ROOT / "docs" / "speed_tables.py"))


NUMPY = "NumPy laplace (PCG64)"


def give(folder: Path, name: str, *rows: Row, slowest: float = 1.0) -> None:
    """Store a run in which the slower half of the copies took so many times as long."""
    document.write(folder / f"{name}.json", replace(results(*rows), noise=Jitter((1.0,) * 50 + (slowest,) * 50)))


def laplace(level: str, *, numpy: float = 8e-6, jitter: float = 0.0) -> Row:
    """The row of the README at a level."""
    made = row(level=level, size=10**6)
    return replace(
        made,
        others=(
            *made.others,
            timed(NUMPY, "peer", numpy, jitter=jitter, size=10**6),
            timed("MKL", "peer", 4e-6, size=10**6, package="mkl_random"),
        ),
    )


@pytest.mark.parametrize(("slowest", "kept"), [(1.24, True), (1.26, False)])
@pytest.mark.parametrize("name", ["speed-x86_v4", "speed-x86_v3", "jobs"])
def test_a_run_whose_copy_varied_is_refused(program, tmp_path, name, slowest, kept):
    for each, level in (("speed-x86_v4", "x86_v4"), ("speed-x86_v3", "x86_v3"), ("jobs", "x86_v4")):
        give(tmp_path, each, laplace(level), slowest=slowest if each == name else 1.0)
    if kept:
        assert list(program["stored"](tmp_path).runs) == ["x86_v4", "x86_v3"]
        return
    with pytest.raises(SystemExit, match=rf"{name}\.json: refused.*26%.*25%"):
        program["stored"](tmp_path)


def test_a_run_without_a_measured_copy_is_refused(program, tmp_path):
    document.write(tmp_path / "jobs.json", replace(results(laplace("x86_v4")), noise=Jitter(())))
    with pytest.raises(SystemExit, match="not measured"):
        program["stored"](tmp_path)


def test_a_run_under_the_name_of_another_level_is_refused(program, tmp_path):
    give(tmp_path, "speed-x86_v4", laplace("x86_v3"))
    shutil.copy(tmp_path / "speed-x86_v4.json", tmp_path / "jobs.json")
    with pytest.raises(SystemExit, match=r"speed-x86_v4\.json: measured at x86_v3"):
        program["stored"](tmp_path)


@pytest.mark.parametrize(("numpy", "shown"), [(4e-6, True), (2e-6, False)])
def test_the_readme_names_levels_and_only_winners(program, tmp_path, numpy, shown):
    for level, measured in (("x86_v4", laplace("x86_v4")), ("x86_v3", laplace("x86_v3", numpy=numpy))):
        give(tmp_path, f"speed-{level}", measured)
    give(tmp_path, "jobs", laplace("x86_v4"))
    heading, _, *lines = program["readme"](program["stored"](tmp_path)).splitlines()
    assert heading == "|  | dpcore, `x86_v4` / `x86_v3` | NumPy † | another library |"
    row = "| Laplace noise | 0.0020 / 0.0020 | 0.0080 (4.0 ×) / 0.0040 (2.0 ×) | MKL † 0.0040 (2.0 ×) / 0.0040 (2.0 ×) |"
    assert lines == ([row] if shown else [])  # beside 2 µs nobody wins


@pytest.mark.parametrize("numpy", [8e-6, 1e-6])
def test_where_a_band_is_too_wide_the_readme_has_its_lower_end(program, tmp_path, numpy):
    """NumPy's blocks are 4 to 16 times ours; or on both sides of it."""
    for level in ("x86_v4", "x86_v3"):
        give(tmp_path, f"speed-{level}", laplace(level, numpy=numpy, jitter=3.0))
    give(tmp_path, "jobs", laplace("x86_v4"))
    table = program["readme"](program["stored"](tmp_path))
    _, second, *_, eighth, _ = sorted(timed(NUMPY, "peer", numpy, jitter=3.0).blocks)
    assert eighth > 1.5 * second
    assert table.count(f"(≥ {second / 2e-6:.2g} ×)") == (2 if second > 2e-6 else 0)
    assert ("Laplace" in table) == (second > 2e-6) == (numpy > 1e-6)


def test_the_readme_has_no_row_without_a_winner():
    assert "winner" not in (ROOT / "README.md").read_text(encoding="utf-8")


def test_a_level_is_shown_from_its_own_run(program, tmp_path):
    give(tmp_path, "speed-x86_v4", laplace("x86_v4"), replace(laplace("x86_v3"), others=()), row(level="baseline", ours=5e-6, size=10**6))
    give(tmp_path, "speed-x86_v3", laplace("x86_v3"), row(level="baseline", ours=9e-6, size=10**6))
    shutil.copy(tmp_path / "speed-x86_v4.json", tmp_path / "jobs.json")
    rows = program["stored"](tmp_path).lines("noise")
    assert [(found.level, len(found.others), found.ours.seconds) for found in rows] == [
        ("x86_v4", 4, 2e-6),
        ("x86_v3", 4, 2e-6),
        ("baseline", 2, 5e-6),
    ]
