"""What a ledger promises, from its budget alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpcore.accounting import _calibration
from dpcore.accounting._checks import check_open_delta
from dpcore.accounting.concentrated import zcdp_epsilon
from dpcore.errors import ParameterError, ParameterTypeError
from dpcore.privacy import Privacy, as_written, written_down, written_up

if TYPE_CHECKING:
    from dpcore.accounting._ledger_rows import Header


def promise(header: Header, delta: object) -> Privacy:
    """Give (ε₀, δ₀) of a basic ledger, or the ε of a zCDP ledger at a δ."""
    if header.kind == "basic":
        if delta is not None:
            raise ParameterError(f"delta must be left out for a ledger of kind 'basic', which has one, got {delta!r}")
        return Privacy(written_up(header.budget.epsilon or as_written(0.0)), written_up(header.budget.delta), header.relation)
    if delta is None:
        raise ParameterTypeError("delta must be given for a ledger of kind 'zcdp', which has an epsilon for each")
    total = check_open_delta("delta", delta)
    for_conversion = as_written(total) - header.budget.delta
    rounded = written_down(for_conversion) if for_conversion > 0 else 0.0
    if not rounded:
        raise ParameterError(f"delta must be above the delta of failures, {written_up(header.budget.delta)!r}, got {total!r}")
    rho = written_up(header.budget.rho or as_written(0.0))
    return Privacy(zcdp_epsilon(rho, rounded), total, header.relation)


def keeps(rho: float, epsilon: float, delta: float) -> bool:
    """Whether ρ-zCDP is certainly (ε, δ)-private: by δ at ε, and by ε at δ, as `promise` gives it back."""
    return _calibration.zcdp_delta(rho, epsilon) <= delta and _calibration.zcdp_epsilon(rho, delta) <= epsilon


def largest_rho(epsilon: float, delta: float) -> float:
    """Find the largest ρ that keeps (ε, δ), within 10^−9 of it; 0 if none of float64 does."""
    low, high = 0.0, min(epsilon, 1.0)
    while keeps(high, epsilon, delta):
        low, high = high, 2 * high
    while not low and high > 0:
        low, high = (high / 4, high) if keeps(high / 4, epsilon, delta) else (0.0, high / 4)
    while high > low * (1 + 1e-10):
        middle = low + (high - low) / 2
        if not low < middle < high:
            break
        low, high = (middle, high) if keeps(middle, epsilon, delta) else (low, middle)
    return low
