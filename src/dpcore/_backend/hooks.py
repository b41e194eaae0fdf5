"""Switches for tests."""

from __future__ import annotations


class Testing:
    """Hooks that only tests set.

    The lowest tier used, a factor on the fast path's error bound, how many limbs a probability starts with (0: the default), and whether
    a selection evaluates every element.
    """

    tier = 0
    bound_factor = 1.0
    limbs = 0
    unpruned = False
