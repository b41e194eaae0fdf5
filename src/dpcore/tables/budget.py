"""Checks what a job spends against its own limits, before anything is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpcore.errors import BudgetError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpcore.privacy import Privacy
    from dpcore.tables.sections import PrivacySection


def refuse_overspending(
    total: Privacy, limits: PrivacySection, spends: Sequence[tuple[str, Privacy]], entries: str, note: str = ""
) -> None:
    """Raise `BudgetError` if `total` is beyond the limits, naming the first ten entries that it is made of."""
    for key, spent, limit in (("epsilon", total.epsilon, limits.max_epsilon), ("delta", total.delta, limits.max_delta)):
        if spent > limit:
            parts = " + ".join(f"{getattr(privacy, key)!r} ({name})" for name, privacy in spends[:10])
            more = f" + … ({len(spends) - 10} more {entries})" if len(spends) > 10 else ""
            way = f". Allow it: max_delta = {spent!r} in [privacy], or more" if key == "delta" and limit == 0 else ""
            raise BudgetError(f"the job spends {key} = {spent!r}, but privacy.max_{key} = {limit!r}: {parts}{more}{note}{way}")
