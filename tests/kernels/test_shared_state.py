"""State that threads share: a switch between any two steps of a function changes nothing."""

from __future__ import annotations

import sys

import pytest
from mpmath import libmp

from dpcore._backend.words import KernelWords
from dpcore._exact import sampling
from dpcore._exact.intervals import Interval, exp, log, pi
from support.kernels import KEY
from support.schedules import Steps, every_switch, every_two_switches

HERE = (__file__,)
by_instruction = pytest.mark.skipif(
    sys.version_info >= (3, 12), reason="from CPython 3.12 on instructions of frames entered later are not traced"
)


class RacyMemo:
    """The mistake itself: a constant whose value and precision are stored one after the other."""

    def __init__(self) -> None:
        self.value, self.precision = 0, -1

    def third(self, precision: int) -> int:
        """⌊2^precision/3⌋."""
        if self.precision < precision:
            self.value = (1 << precision) // 3
            self.precision = precision
        return self.value >> (self.precision - precision)


class RacyCache:
    """The mistake itself: a dict that one thread iterates while another one changes it."""

    def __init__(self) -> None:
        self.kept = dict.fromkeys(range(4), 0)

    def square(self, n: int) -> int:
        """n²."""
        if n not in self.kept:
            self.kept[n] = n * n
            if len(self.kept) > 4:
                self.kept.pop(next(iter(self.kept)), None)
        return n * n


def test_every_switch_finds_a_memo_that_is_stored_in_two_steps() -> None:
    memos = [RacyMemo()]

    def reset() -> None:
        memos[0] = RacyMemo()

    results = every_switch(lambda: (memos[0].third(64), memos[0].third(32)), lambda: memos[0].third(256), reset, Steps(HERE))
    expected = (1 << 64) // 3, (1 << 32) // 3
    assert expected in results
    assert any(result != expected for result in results)


@pytest.mark.long
@by_instruction
def test_every_switch_finds_a_dict_that_changes_under_an_iterator() -> None:
    caches = [RacyCache()]

    def reset() -> None:
        caches[0] = RacyCache()

    with pytest.raises(RuntimeError, match="dictionary changed size during iteration"):
        every_two_switches(lambda: caches[0].square(5), lambda: caches[0].square(6), reset, Steps(HERE, opcodes=True))


@by_instruction
def test_threads_share_the_words_of_a_call() -> None:
    """With as many groups as are kept, so that each new one drops another."""
    kept: list[KernelWords] = []

    def fill() -> None:
        kept[:] = [KernelWords(KEY, 3, 0)]
        for group in range(64):
            kept[0].group(0, group)

    fill()
    expected = list(kept[0].group(0, 100))
    steps = Steps(("_backend/words.py",), opcodes=True, functions=("group",))
    results = every_two_switches(lambda: list(kept[0].group(0, 100)), lambda: kept[0].group(0, 101), fill, steps)
    assert len(results) > 10
    assert all(result == expected for result in results)


def exact_numbers(at_precision: int) -> tuple[object, ...]:
    """What the exact tier takes from constants: π, ln 2, logarithms, exponentials, the cosine."""
    one_third = Interval.of(1, at_precision) / 3
    words = KernelWords(KEY, 3, 0)
    normal = sampling.standard_normal(
        sampling.Uniform(words.group(0, 0)[0], 64, lambda chunk: words.more(2, 0, 0, chunk)),
        sampling.Uniform(words.group(0, 0)[64], 64, lambda chunk: words.more(2, 64, 0, chunk)),
        0,
    )
    intervals = (pi(at_precision), log(one_third), exp(-one_third), normal(at_precision))
    return tuple((x.lower(), x.upper()) for x in intervals)


def forget_constants() -> None:
    """Bring every memo of `mpmath.libmp` back to where import leaves it: what the exact tier used to share between threads."""
    for function in vars(libmp.libelefun).values():
        for cell in getattr(function, "__closure__", None) or ():
            if hasattr(cell.cell_contents, "memo_prec"):
                cell.cell_contents.memo_prec, cell.cell_contents.memo_val = -1, None


@pytest.mark.long
def test_threads_share_no_constant_of_the_exact_tier() -> None:
    """A thread of another precision at any line of another thread's first computation: neither it nor what follows is touched."""
    forget_constants()
    expected = exact_numbers(200), exact_numbers(120)
    results = every_switch(
        lambda: (exact_numbers(200), exact_numbers(120)),
        lambda: exact_numbers(900),
        forget_constants,
        Steps(("dpcore/_exact/elementary", "dpcore/_exact/intervals", "mpmath/libmp/libelefun", "mpmath/libmp/libmpi")),
        at_most=400,
    )
    assert len(results) > 100
    assert all(result == expected for result in results)
