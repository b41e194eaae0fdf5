"""A budget in a file that cannot be overspent. `ledger` is the public face, and `decision` decides whether a spend is granted."""

from dpcore.accounting.ledger.ledger import Ledger
from dpcore.accounting.ledger.reservation import Reservation
from dpcore.accounting.ledger.spends import Budget, Entry

__all__ = ["Budget", "Entry", "Ledger", "Reservation"]
