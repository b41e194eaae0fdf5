"""Audits: lower bounds of the privacy loss of a mechanism, found by running it. docs/auditing.md."""

from dpcore.audit._results import AuditEvent, AuditResult
from dpcore.audit.lower_bound import audit, repeat

__all__ = ["AuditEvent", "AuditResult", "audit", "repeat"]


def __dir__() -> list[str]:
    return __all__
