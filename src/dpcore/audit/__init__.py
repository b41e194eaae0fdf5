"""Audits: how much a mechanism's outputs reveal at least, found by running it. docs/auditing.md."""

from dpcore.audit.lower_bound import AuditResult, audit, repeat

__all__ = ["AuditResult", "audit", "repeat"]


def __dir__() -> list[str]:
    return __all__
