"""Runs of made-up benchmarks, and that the registry is complete. Nothing here depends on how long anything takes."""

from __future__ import annotations

import time
from collections import Counter

import numpy as np
import pytest

from dpcore import _backend, local, noise, selection
from dpcore.bench import GROUPS, Benchmark, Plan, Side, benchmarks
from dpcore.bench.benchmark import installed
from dpcore.bench.curve import sizes
from dpcore.bench.jobs import check_count
from dpcore.bench.pace import SIZES, items_and_seconds
from dpcore.bench.run import absent_packages, run
from dpcore.bench.scaling import ALONE, COPY, ONE_COPY, copy_on, thread_counts
from dpcore.bench.schedule import BLOCKS
from dpcore.bench.tables import Files
from dpcore.bench.timing import by_children, calls_of_a_turn, take_turns
from dpcore.errors import ParameterError

GRACE = 600.0
"""Everything is tried once, however slow the machine is."""
SMALL = Plan(size=2000, largest=64, cores=2, quick=False)


def nothing() -> None:
    pass


def fail() -> None:
    raise ValueError("a broken peer")


def wrong(_inputs: object, _result: object) -> None:
    raise AssertionError("a wrong answer")


def side(name: str = "a bound", work=nothing, **more) -> Side:
    return Side(name=name, prepare=lambda _inputs: work, **({"kind": "bound", "judges": True} | more))


def item(name: str = "an item", *sides: Side, work=nothing, **more) -> Benchmark:
    return Benchmark(group="noise", name=name, size=1, inputs=lambda: None, ours=lambda _inputs: work, sides=sides or (side(),), **more)


def ran(*items: Benchmark, **more):
    results, interruption = run(items, 0.05, **({"mode": "quick", "grace": GRACE} | more))
    assert interruption is None
    return results


# Turns


def test_works_take_turns_and_their_order_alternates():
    calls: list[str] = []
    found = take_turns([lambda: calls.append("a"), lambda: calls.append("b")], [1, 2], seconds=0.0)
    assert calls == ["a", "b", "b"]
    assert [len(turns) for turns in found] == [1, 1]
    calls.clear()
    take_turns([lambda: calls.append("a"), lambda: calls.append("b")], [1, 1], seconds=0.005)
    assert calls[:8] == ["a", "b", "b", "a", "a", "b", "b", "a"]


def test_a_slow_work_takes_one_turn():
    found = take_turns([nothing, nothing], [1, 1], seconds=0.005, once=[False, True])
    assert len(found[0]) > len(found[1]) == 1


def test_where_all_works_are_slow_no_time_passes_in_vain():
    before = time.perf_counter()
    assert [len(turns) for turns in take_turns([nothing, nothing], [1, 1], seconds=3600.0, once=[True, True], least=5)] == [1, 1]
    assert time.perf_counter() - before < 1800.0


def test_a_turn_has_as_many_calls_as_the_clock_needs():
    assert calls_of_a_turn(nothing, lambda _work, calls: 1e-6 if calls else 0.0)[0] >= 200
    assert calls_of_a_turn(nothing, lambda _work, _calls: 1.0) == (1, 1.0)
    assert calls_of_a_turn(nothing, lambda _work, _calls: 0.0)[0] == 1 << 16


def test_time_of_children_is_that_of_processes():
    assert by_children(nothing, 1) == 0.0


# Runs


def test_every_row_has_a_block_and_knows_its_sides():
    results = ran(item("one"), item("two", side("b", kind="peer"), side("c")))
    assert [row.name for row in results.rows] == ["one", "two"]
    for row in results.rows:
        assert 1 <= len(row.ours.known) <= BLOCKS
        assert all(len(other.blocks) == len(row.ours.blocks) for other in row.others)
    assert results.broken == ()
    assert not results.interrupted


@pytest.mark.parametrize(
    ("sides", "name", "why"),
    [
        ([side("bad", fail)], "bad", "ValueError: a broken peer"),
        ([side("bad", check=wrong)], "bad", "AssertionError: a wrong answer"),
        ([Side(name="bad", prepare=lambda _inputs: fail())], "bad", "ValueError: a broken peer"),
    ],
)
def test_a_broken_peer_is_named_and_the_others_go_on(sides, name, why):
    results = ran(item("an item", *sides, side("good")), item("another"))
    assert [(broken.row, broken.side, broken.why) for broken in results.broken] == [("an item", name, why)]
    assert [[other.name for other in row.others] for row in results.rows] == [["good"], ["a bound"]]


@pytest.mark.long
def test_a_peer_that_breaks_later_is_named_and_its_turns_are_not_kept():
    broken: list[bool] = []

    def tired() -> None:
        if broken:
            raise ValueError("tired")

    results, _ = run(
        [item("an item", side("tired", tired), side("good"))], 1.0, mode="quick", progress=lambda _done, _total: broken.append(True)
    )
    assert [(found.side, found.why) for found in results.broken] == [("tired", "ValueError: tired")]
    (row,) = results.rows
    assert [other.name for other in row.others] == ["good"]
    assert len(row.ours.known) > 1


def test_a_wrong_answer_of_ours_is_named_and_not_timed():
    results = ran(item("bad", check=wrong), item("good"))
    assert [(broken.row, broken.side) for broken in results.broken] == [("bad", "dpcore")]
    assert [row.name for row in results.rows] == ["good"]


def test_absent_packages_are_named_with_what_installs_them():
    missing = item("ours", package="no_such_package_a"), item("an item", side("a peer", package="no_such_package_b"), side("good"))
    results = ran(*missing)
    assert [(absent.package, absent.names) for absent in results.absent] == [
        ("no_such_package_a", ("ours",)),
        ("no_such_package_b", ("a peer",)),
    ]
    assert results.absent[0].pip == "pip install no_such_package_a"
    assert [[other.name for other in row.others] for row in results.rows] == [["good"]]
    assert absent_packages([item()]) == ()


@pytest.mark.parametrize("signal", [KeyboardInterrupt, SystemExit])
def test_what_is_done_before_an_interruption_is_kept(signal):
    def interrupt(done: int, _total: int) -> None:
        if done == 2:
            raise signal

    results, interruption = run([item("one"), item("two"), item("three")], 1.0, mode="quick", progress=interrupt)
    assert isinstance(interruption, signal)
    assert results.interrupted
    assert [row.name for row in results.rows] == ["one", "two"]


def test_an_error_of_the_run_itself_is_raised():
    def bug(_done: int, _total: int) -> None:
        raise RuntimeError("a bug")

    with pytest.raises(RuntimeError):
        run([item()], 1.0, mode="quick", progress=bug)


def test_levels_are_run_one_by_one_and_the_selected_one_comes_back(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("DPCORE_ISA", raising=False)
    before, seen = _backend.selected_level(), []
    every = _backend.available_levels()[::-1]
    results = ran(item("levelled", work=lambda: seen.append(_backend.selected_level()), levels=True, character="cache"), item("best"))
    assert [(row.name, row.level) for row in results.rows] == [*(("levelled", level) for level in every), ("best", every[0])]
    assert set(seen) == set(every)
    assert _backend.selected_level() == before


def test_a_level_that_the_environment_has_chosen_is_the_only_one(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DPCORE_ISA", _backend.selected_level())
    assert [row.level for row in ran(item(levels=True, character="cache")).rows] == [_backend.selected_level()]


def test_a_quick_run_has_other_levels_only_for_work_in_the_cache(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("DPCORE_ISA", raising=False)
    assert len(ran(item(levels=True, character="memory")).rows) == 1
    assert len(ran(item(levels=True, character="memory"), mode="full").rows) == len(_backend.available_levels())


def test_progress_goes_to_the_end():
    seen: list[tuple[int, int]] = []
    run([item(), item("two")], 0.01, mode="quick", grace=GRACE, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(i, 2 * BLOCKS) for i in range(1, 2 * BLOCKS + 1)]


# Registry


@pytest.fixture(scope="module")
def every() -> tuple[Benchmark, ...]:
    return benchmarks(SMALL)


def test_keys_are_unique(every):
    assert [key for key, count in Counter(item.key for item in every).items() if count > 1] == []


def test_a_group_that_does_not_exist_is_refused():
    with pytest.raises(ParameterError, match="there is no group 'nosie' of benchmarks; the groups are calls, noise"):
        benchmarks(SMALL, ("nosie",))


def test_every_group_has_benchmarks_and_tables_and_interop_run_only_if_named(every):
    assert {item.group for item in every} == set(GROUPS) - {"tables", "interop"}
    pytest.importorskip("pyarrow")
    for group in ("tables", "interop"):
        assert {item.group for item in benchmarks(SMALL, (group,))} == {group}


def test_every_public_randomiser_noise_and_selection_is_there(every):
    calls = " ".join(item.name for item in every if item.group == "calls")
    wanted = {
        name for name in (*noise.__all__, *selection.__all__) if name[0].islower() and name not in {"default_grid", "partition_probability"}
    }
    wanted |= {
        name for name in local.__all__ if hasattr(getattr(local, name), "privatize") and name not in {"BinaryChannel", "SequentialChannel"}
    }
    assert {name for name in wanted if name not in calls} <= {"SequentialQuantile"}


def test_every_row_has_one_bound_to_be_judged_by(every):
    for found in every:
        judges = [other.name for other in found.sides if other.judges]
        assert len(judges) <= 1, found.key
        if found.group in {"calls", "noise", "curve"}:
            assert len(judges) == 1 or "scales" in found.name, found.key


def test_on_one_core_no_row_has_several_threads():
    assert [item for item in benchmarks(Plan(2000, 64, 1, quick=False), ("threads",)) if item.group == "threads"] == []
    assert thread_counts(1) == []
    assert thread_counts(12) == [2, 3, 4, 8, 12]


def test_threads_work_on_arrays_that_are_large_enough_for_them():
    for mode in SIZES:
        for found in items_and_seconds(mode, ("threads",))[0]:
            assert found.size > 1 << 15, found.key
            assert found.threads > 1
    assert SIZES["quick"][2] >= 2 * 10**6


def test_rows_of_several_threads_say_what_binds_them_and_stand_beside_a_copy_by_as_many(every):
    rows = [found for found in every if found.group == "threads"]
    assert {found.character for found in rows} == {"compute", "memory"}
    memory = {found.name for found in rows if found.character == "memory"}
    assert "clipped_sum (n,)" in memory
    assert "UnaryEncoding k=128, reports counted" in memory
    assert {"laplace", "KaryResponse k=16, int64", "UnaryEncoding k=128", "top_s peeling, s=100"}.isdisjoint(memory)
    for found in rows:
        assert [other.name for other in found.sides] == [ALONE, COPY] + [ONE_COPY] * (found.character == "memory"), found.key


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_copy_everything(threads, monkeypatch: pytest.MonkeyPatch):
    seen = []
    monkeypatch.setattr(np, "ones_like", lambda values: seen.append(np.zeros(values.shape, values.dtype)) or seen[-1])
    source = np.arange(1.0, 101.0).reshape(10, 10)
    copy_on(threads)((source,))()
    assert np.array_equal(seen[0], source.reshape(-1))


def test_rows_of_several_threads_know_their_cpu_time():
    results = ran(item("two threads", threads=2), item("one"))
    assert [side.cpu_seconds is None for row in results.rows for side in (row.ours, *row.others)] == [False, False, True, True]


def test_benchmarks_of_several_threads_run_and_their_answers_are_right(every):
    chosen = [found for found in every if found.group == "threads"]
    results, _ = run(chosen, 0.01, mode="quick", grace=GRACE)
    assert results.broken == ()
    assert len(results.rows) == len(chosen)


def test_a_full_curve_has_every_power_of_two_and_the_largest():
    assert sizes(10**8, quick=False) == [2**i for i in range(27)] + [10**8]


def test_a_quick_curve_shows_where_dpcore_becomes_faster():
    assert {1, 16, 128, 1024, 1 << 14, 10**6} <= set(sizes(SIZES["quick"][1], quick=True))
    curves = [found for found in items_and_seconds("quick", ("curve",))[0] if found.size == 128]
    assert {found.name for found in curves} == {"laplace", "gaussian", "discrete_laplace", "discrete_gaussian σ=3"}


def test_rows_of_several_scales_are_long_enough_to_see_the_scales():
    for mode in SIZES:
        found = [point for point in items_and_seconds(mode, ("noise",))[0] if "scale" in point.name]
        assert {point.name.partition(", ")[2] for point in found} == {"64 scales in one call", "a scale for each value"}
        assert min(point.size for point in found) > 19_000


def test_several_scales_are_a_row_for_all_rows_or_a_full_array():
    row, full = (found for found in benchmarks(SMALL, ("noise",)) if found.name.startswith("laplace") and "scale" in found.name)
    values, out = row.inputs()
    assert values.shape == out.shape == (SMALL.size // 640, 64)
    assert row.ours((values, out)).args[1].shape == (64,)
    scales = full.ours((values, out)).args[1]
    assert scales.shape == values.shape
    assert len(np.unique(scales)) == 64
    assert not np.array_equal(scales[0], scales[1])


def test_float32_is_written_in_float32():
    found = next(found for found in benchmarks(SMALL, ("noise",)) if found.name == "laplace, float32 out=")
    values, out, *_ = found.inputs()
    assert values.dtype == out.dtype == np.float32
    found.ours((values, out))()
    assert out.std() > 0


def test_a_quick_run_fits_two_minutes_and_a_full_one_twenty():
    assert items_and_seconds("quick")[1] <= 110
    assert items_and_seconds("full")[1] <= 1150
    assert items_and_seconds("quick", ("tables",))[1] <= 110
    assert items_and_seconds("quick", ("start",))[1] < items_and_seconds("quick")[1]


CHEAP = ("calls", "noise", "selection", "sums")


@pytest.mark.long
@pytest.mark.parametrize("group", CHEAP)
def test_benchmarks_of_a_group_run_and_their_answers_are_right(group, every):
    chosen = [item for item in every if item.group == group]
    results, _ = run(chosen, 0.01, mode="quick", grace=GRACE)
    assert results.broken == ()
    assert len(results.rows) >= len(chosen)


@pytest.mark.long
def test_local_benchmarks_run_and_their_answers_are_right():
    chosen = benchmarks(Plan(20_000, 64, 2, quick=True), ("local", "distributions"))
    results, _ = run(chosen, 0.01, mode="quick", grace=GRACE)
    assert results.broken == ()


@pytest.mark.long
def test_jobs_run_and_their_answers_are_right():
    pytest.importorskip("pyarrow")
    results, _ = run(benchmarks(Plan(1000, 64, 2, quick=True), ("tables",)), 0.01, mode="quick", grace=GRACE)
    assert results.broken == ()
    assert [row.name for row in results.rows] == [
        "dpcore privatize, 4 columns", "dpcore release, 5 queries", "dpcore release, where, a mean by 2 columns",
        "dpcore estimate, 4 columns", "dpcore privatize, row groups of 1,000", "dpcore release, row groups of 1,000",
        "dpcore privatize, 10 columns", "dpcore release, 10 files", "dpcore release, 10 files, units", "dpcore privatize, shards = 2",
        *(f"dpcore release, units{groups}, {said} over the limit" for said in ("none", "all") for groups in ("", " with groups")),
        *(f"PrivateTable of {library}, 5 queries" for library in ("pyarrow", "pandas", "polars") if installed(library)),
        *(f"PrivateTable of polars, a mean by {groups:,} groups" for groups in (1000, 10_000) if installed("polars")),
    ]  # fmt: skip
    assert all(side.cpu_seconds for row in results.rows for side in (row.ours, *row.others))
    assert {other.name for row in results.rows if ", units" in row.name and "files" not in row.name for other in row.others} == {
        "DuckDB aggregates the units", "DuckDB aggregates the units and groups", "itself without groups",
    }  # fmt: skip


def test_wide_tables_have_5000_columns_where_something_is_measured():
    assert Files(10 * SIZES["quick"][0]).columns == Files(10 * SIZES["full"][0]).columns == 5000


def test_where_the_release_of_units_is_wrong_it_is_not_timed():
    check_count(1000, None, {"queries": [{"name": "rows", "value": 1050.0}]})
    with pytest.raises(AssertionError, match="number of rows is wrong"):
        check_count(1000, None, {"queries": [{"name": "rows", "value": 1150.0}]})


def test_a_curve_is_timed_beside_what_no_call_can_avoid(every):
    point = next(item for item in every if item.group == "curve")
    assert [other.name for other in point.sides] == ["NumPy, unsafe", "key: os.urandom(32)", "call: no values", "key + keystream + copy"]
    results, _ = run([point], 0.01, mode="quick", grace=GRACE)
    assert len(results.rows[0].others) == 4


def test_without_aes_the_bound_is_chacha20(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("dpcore._backend.secure_cipher", lambda: "chacha20")
    found = next(item for item in benchmarks(SMALL, ("noise",)) if item.name == "laplace")
    assert [other.name for other in found.sides if other.kind == "bound"] == ["keystream + copy", "copy"]
    assert run([found], 0.01, mode="quick", grace=GRACE)[0].broken == ()
