"""Audits: lower bounds of the privacy loss of a mechanism, found by running it. docs/auditing.md."""

from dpcore.audit._results import AuditEvent, AuditResult
from dpcore.audit.lower_bound import audit, repeat
from dpcore.audit.tracing import TracingAttack

__all__ = ["AuditEvent", "AuditResult", "TracingAttack", "audit", "repeat"]


def __dir__() -> list[str]:
    return __all__
