"""The cost of a spend: a guarantee, uses of a mechanism, a ρ, or a sequence of these as one exact amount."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, TypeAlias

from dpcore._validation import NO_NUMBERS
from dpcore.accounting import _rules
from dpcore.accounting.concentrated import rho_pure
from dpcore.accounting.gaussian_privacy import GaussianPrivacy, mu_pure
from dpcore.accounting.ledger.amounts import ZERO, Amount, read_number, rho_of_mu
from dpcore.accounting.uses import Uses
from dpcore.errors import ParameterError, ParameterTypeError
from dpcore.privacy import Privacy, as_written, written_up

if TYPE_CHECKING:
    from dpcore.accounting.ledger.spends import Kind
    from dpcore.privacy import Relation

Spend: TypeAlias = "Privacy | Uses | GaussianPrivacy | float | Sequence[Spend]"


def cost_of(amount: object, kind: Kind, relation: Relation) -> Amount:
    """Return the cost of a spend in a ledger of this kind, else raise. A sequence costs the sum of its parts."""
    if isinstance(amount, Privacy):
        return _cost_of_guarantee(amount, kind, relation)
    if isinstance(amount, Uses):
        return _cost_of_uses(amount, kind)
    if isinstance(amount, GaussianPrivacy):
        return _cost_of_gaussian(amount, kind)
    if isinstance(amount, Sequence) and not isinstance(amount, (str, bytes)):
        if not amount:
            raise ParameterError("amount must have at least one part, got none")
        parts = [cost_of(part, kind, relation) for part in amount]
        return sum(parts[1:], parts[0])
    if isinstance(amount, NO_NUMBERS) or not isinstance(amount, (numbers.Real, Decimal)):
        raise ParameterTypeError(
            f"amount must be a Privacy, a Uses, a GaussianPrivacy, a number rho, or a sequence of these, got {amount!r}"
        )
    if kind == "basic":
        raise ParameterTypeError(
            f"amount must be a Privacy or Uses in a ledger of kind 'basic', got {amount!r}; for an epsilon write Privacy({amount!r})"
        )
    if kind == "gdp":
        raise ParameterTypeError(
            f"amount must be a GaussianPrivacy, a Privacy or Uses in a ledger of kind 'gdp', got {amount!r}: a rho does not show that "
            f"noise is normal; for a mu write GaussianPrivacy({amount!r})"
        )
    return Amount(None, ZERO, as_written(read_number("amount", amount, written_up)))


def _cost_of_guarantee(amount: Privacy, kind: Kind, relation: Relation) -> Amount:
    if amount.relation != relation:
        raise ParameterError(f"amount must have the relation of the ledger, {relation!r}, got {amount.relation!r}")
    if amount.epsilon == math.inf:
        raise ParameterError("amount must have a finite epsilon, got inf")
    rho = None if kind == "basic" else _rho_of_pure(amount.epsilon, kind)
    return Amount(as_written(amount.epsilon), as_written(amount.delta), rho)


def _rho_of_pure(epsilon: float, kind: Kind) -> Fraction:
    """ρ of an ε-private release; for kind "gdp" that of the μ whose trade-off curve is below that of every such release."""
    return rho_of_mu(written_up(Fraction(mu_pure(epsilon)))) if kind == "gdp" else Fraction(rho_pure(epsilon))


def _cost_of_gaussian(amount: GaussianPrivacy, kind: Kind) -> Amount:
    if kind == "basic":
        raise ParameterError(f"amount must have an epsilon in a ledger of kind 'basic', got {amount!r}; spend its privacy(delta)")
    return Amount(None, ZERO, rho_of_mu(amount.mu))


def _cost_of_uses(uses: Uses, kind: Kind) -> Amount:
    epsilon = None if uses.rho is not None else uses.uses * as_written(uses.epsilon)
    if kind == "gdp":
        if uses.mechanism == "concentrated":
            raise ParameterError(
                "amount must be noise that is exactly normal, or have an epsilon, in a ledger of kind 'gdp', but Uses with "
                "mechanism='concentrated' have only rho; discrete Gaussian noise is not mu-GDP with the mu of its rho: use a ledger of "
                "kind 'zcdp'"
            )
        rho = as_written(uses.rho) if uses.rho is not None else _rho_of_pure(uses.epsilon, kind)
        return Amount(epsilon, uses.uses * as_written(uses.delta), uses.uses * rho)
    if kind == "zcdp":
        rho = as_written(uses.rho) if uses.rho is not None else Fraction(_rules.rho_of(uses))
        return Amount(epsilon, uses.uses * as_written(uses.delta), uses.uses * rho)
    if epsilon is None:
        raise ParameterError(
            f"amount must have an epsilon in a ledger of kind 'basic', but Uses with mechanism={uses.mechanism!r} have only rho"
        )
    return Amount(epsilon, uses.uses * as_written(uses.delta), None)
