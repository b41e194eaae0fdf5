"""Floating-point environments of a caller: directions of rounding, subnormals flushed, exceptions that trap. glibc on x86-64 only."""

from __future__ import annotations

import ctypes
import ctypes.util
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

libm = ctypes.CDLL(ctypes.util.find_library("m")) if platform.system() == "Linux" and ctypes.util.find_library("m") else None
X86_ROUNDING = {"down": 0x400, "up": 0x800, "toward zero": 0xC00}
on_x86_linux = pytest.mark.skipif(
    libm is None or platform.machine() != "x86_64" or platform.libc_ver()[0] != "glibc",
    reason="the environment's layout is known here for glibc on x86-64 only",
)
MXCSR_AT, FLUSH_TO_ZERO, DENORMALS_ARE_ZERO, DIVISIONS_TRAP = 28, 0x8000, 0x40, 0x200
FLAGS = 0x3F

Environment = ctypes.Array[ctypes.c_char]
Change = Callable[[Environment], None]


def control(env: Environment) -> int:
    """The control and status register of SSE in an environment."""
    return int.from_bytes(env.raw[MXCSR_AT : MXCSR_AT + 4], "little")


def set_control(env: Environment, value: int) -> None:
    """Replace it."""
    env[MXCSR_AT : MXCSR_AT + 4] = value.to_bytes(4, "little")


@contextmanager
def environment(change: Change) -> Iterator[None]:
    """A changed floating-point environment on this thread."""
    assert libm is not None
    before, changed = ctypes.create_string_buffer(64), ctypes.create_string_buffer(64)
    libm.fegetenv(before)
    libm.fegetenv(changed)
    change(changed)
    libm.fesetenv(changed)
    try:
        yield
    finally:
        libm.fesetenv(before)


def current_control() -> int:
    """Rounding, flushing and masks of this thread, without what has been raised."""
    assert libm is not None
    env = ctypes.create_string_buffer(64)
    libm.fegetenv(env)
    return control(env) & ~FLAGS


def flush_subnormals(env: Environment) -> None:
    """Take subnormals for 0, and make none."""
    set_control(env, control(env) | FLUSH_TO_ZERO | DENORMALS_ARE_ZERO)


def rounding(mode: int) -> Change:
    """Another direction of rounding."""

    def change(env: Environment) -> None:
        set_control(env, control(env) & ~0x6000 | mode << 3)

    return change


def hostile(mode: int) -> Change:
    """A direction of rounding, subnormals flushed, and divisions by zero that trap."""

    def change(env: Environment) -> None:
        rounding(mode)(env)
        flush_subnormals(env)
        set_control(env, control(env) & ~DIVISIONS_TRAP)

    return change


HOSTILE = {name: hostile(mode) for name, mode in {"nearest": 0, **X86_ROUNDING}.items()}
