"""Exceptions of dpcore.

Parameters appear in messages by value; data only by position (row, column, index).
"""

from __future__ import annotations


class DpcoreError(Exception):
    """Base class of every error that dpcore raises on purpose."""


class ParameterError(DpcoreError, ValueError):
    """A parameter has the right type but a value outside its range."""


class ParameterTypeError(DpcoreError, TypeError):
    """A parameter has the wrong type."""


class DataError(DpcoreError, ValueError):
    """Data do not fit the declaration; the message names a position, never a value."""


class BudgetError(DpcoreError):
    """A release would spend more than the budget that was declared for it."""


class EntropyError(DpcoreError, OSError):
    """The operating system did not deliver the randomness it was asked for."""
