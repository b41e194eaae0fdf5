"""The guarantee of a ledger, which follows from its budget."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpcore.accounting._checks import check_open_delta
from dpcore.accounting.concentrated import zcdp_epsilon
from dpcore.accounting.gaussian_privacy import gdp_epsilon
from dpcore.accounting.ledger.amounts import mu_of
from dpcore.errors import ParameterError, ParameterTypeError
from dpcore.privacy import Privacy, as_written, written_down, written_up

if TYPE_CHECKING:
    from dpcore.accounting.ledger.rows import Header


def promise(header: Header, delta: object) -> Privacy:
    """Return (ε₀, δ₀) of a ledger of kind "basic", or the ε of one of kind "zcdp" or "gdp" at a δ."""
    if header.kind == "basic":
        if delta is not None:
            raise ParameterError(f"delta must be left out for a ledger of kind 'basic', whose budget fixes it, got {delta!r}")
        return Privacy(written_up(header.budget.epsilon or as_written(0.0)), written_up(header.budget.delta), header.relation)
    if delta is None:
        raise ParameterTypeError(f"delta must be given for a ledger of kind {header.kind!r}, which has another epsilon for every delta")
    total = check_open_delta("delta", delta)
    for_conversion = as_written(total) - header.budget.delta
    rounded = written_down(for_conversion) if for_conversion > 0 else 0.0
    if not rounded:
        raise ParameterError(f"delta must be above the failure_delta of the ledger, {written_up(header.budget.delta)!r}, got {total!r}")
    if header.kind == "gdp":
        return Privacy(gdp_epsilon(mu_of(header.budget.rho or as_written(0.0), up=True), rounded), total, header.relation)
    rho = written_up(header.budget.rho or as_written(0.0))
    return Privacy(zcdp_epsilon(rho, rounded), total, header.relation)
