"""That a run ends when it should, on a clock that only works move. Nothing here is timed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dpcore.bench import Benchmark, Side, schedule, timing
from dpcore.bench import run as runner


class Clock:
    """Stands in for the module `time`; each reading takes a microsecond."""

    def __init__(self) -> None:
        self.now = 1000.0

    def perf_counter(self) -> float:
        self.now += 1e-6
        return self.now

    process_time = perf_counter

    def taking(self, seconds: float):
        def work() -> None:
            self.now += seconds

        return work


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    for module in (timing, runner, schedule):
        monkeypatch.setattr(module, "time", made)
    return made


def item(clock: Clock, name: str, ours: float, *others: float, inputs: float = 0.0, character: str = "memory", **more) -> Benchmark:
    sides = tuple(
        Side(name=f"side {i}", kind="bound", prepare=lambda _inputs, seconds=seconds: clock.taking(seconds))
        for i, seconds in enumerate(others)
    )
    return Benchmark(
        group="noise", name=name, size=1 << 20, inputs=clock.taking(inputs), ours=lambda _inputs: clock.taking(ours), sides=sides,
        character=character, **more,
    )  # fmt: skip


def ran(clock: Clock, items: list[Benchmark], seconds: float, **more):
    before = clock.now
    results, interruption = runner.run(items, seconds, mode="quick", **more)
    assert interruption is None
    return results, clock.now - before


ROWS = (
    ("fast", 0.02, 0.02),
    ("slow", 0.5, 0.2, 0.3),
    ("one slow side", 0.03, 3.0),
    ("inputs", 0.05, 0.05),
)


@pytest.mark.some(5)
@pytest.mark.parametrize("seconds", [0.5, 5.0, 20.0, 100.0])
@pytest.mark.parametrize("copies", [1, 7])
def test_a_run_takes_its_time_and_at_most_a_turn_more(clock, seconds, copies):
    items = [item(clock, f"{name} {i}", *times, inputs=0.1 * (name == "inputs")) for i in range(copies) for name, *times in ROWS]
    _, took = ran(clock, items, seconds)
    longest_turn = 3.0 + 0.03
    assert took <= seconds + longest_turn + 0.1


@pytest.mark.parametrize("copies", [1, 4])
def test_where_there_is_time_every_row_has_all_blocks_and_the_time_is_used(clock, copies):
    items = [item(clock, f"{name} {i}", *times) for i in range(copies) for name, *times in ROWS]
    results, took = ran(clock, items, 400.0 * copies)
    assert min(len(row.ours.known) for row in results.rows) >= schedule.BLOCKS - 1
    assert results.unreached == ()
    assert took > 200.0 * copies


def test_what_is_not_reached_is_named_and_has_no_row(clock):
    items = [item(clock, f"row {i}", 1.0, 1.0) for i in range(10)]
    results, took = ran(clock, items, 12.0)
    assert took <= 12.0 + 2.0 + 0.1
    assert 0 < len(results.rows) < 10
    assert list(results.unreached) == [f"row {i}" for i in range(len(results.rows), 10)]
    assert results.broken == ()


def test_a_row_whose_inputs_take_all_the_time_is_not_broken(clock):
    results, took = ran(clock, [item(clock, "a row", 1.0, 1.0, inputs=50.0)], 10.0)
    assert (results.rows, results.unreached, results.broken) == ((), ("a row",), ())
    assert took <= 51.0


def test_first_blocks_may_take_the_grace(clock):
    items = [item(clock, f"row {i}", 1.0, 1.0) for i in range(10)]
    results, _ = ran(clock, items, 0.01, grace=1000.0)
    assert len(results.rows) == 10


def test_a_row_that_is_too_slow_for_its_share_leaves_the_others_theirs(clock):
    items = [item(clock, "slow", 20.0, 20.0), *(item(clock, f"row {i}", 0.01, 0.01) for i in range(5))]
    results, took = ran(clock, items, 200.0)
    blocks = [len(row.ours.known) for row in results.rows]
    assert blocks[1:] == [schedule.BLOCKS] * 5
    assert 1 <= blocks[0] < schedule.BLOCKS
    assert took <= 240.1


def test_work_in_the_cache_leaves_most_of_the_time_to_large_arrays(clock):
    items = [item(clock, f"call {i}", 0.1, 0.1, character="cache") for i in range(3)]
    items += [item(clock, f"row {i}", 1.0, 1.0) for i in range(3)]
    results, _ = ran(clock, items, 200.0)
    assert {len(row.ours.known) for row in results.rows} == {schedule.BLOCKS}


def test_no_second_turn_begins_after_the_deadline(clock):
    turns = timing.take_turns([clock.taking(1.0)], [1], 100.0, least=50, deadline=clock.now + 3.5)
    assert len(turns[0]) == 4
    assert len(timing.take_turns([clock.taking(1.0)], [1], 100.0, deadline=clock.now - 1)[0]) == 1


def test_short_work_comes_first_and_rows_keep_their_order(clock):
    seen: list[str] = []

    def noted(name: str, seconds: float):
        def work() -> None:
            seen.append(name)
            clock.now += seconds

        return work

    large, small = item(clock, "large", 0.01, 0.01), item(clock, "small", 0.01, 0.01, character="cache")
    items = [replace(large, ours=lambda _inputs: noted("large", 0.01)), replace(small, ours=lambda _inputs: noted("small", 0.01))]
    results, _ = ran(clock, items, 20.0)
    assert seen.index("large") > len(seen) - seen[::-1].index("small") - 1
    assert [row.name for row in results.rows] == ["large", "small"]
