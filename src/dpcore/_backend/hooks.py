"""What tests may turn."""

from __future__ import annotations


class Testing:
    """Hooks that only tests set: the lowest tier used, and a factor on the fast path's error bound."""

    tier = 0
    bound_factor = 1.0
