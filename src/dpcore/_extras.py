"""Check which optional packages are installed, and advise how to install the others."""

from __future__ import annotations

import importlib.util

PACKAGES = {"batch": ("click", "duckdb", "pyarrow", "pydantic", "rich")}
"""The packages that each extra must install before its modules can be imported."""


def absent(extra: str) -> list[str]:
    """Names of the packages of an extra that are not installed."""
    return [name for name in PACKAGES[extra] if importlib.util.find_spec(name) is None]


def advice(what: str, extra: str, missing: list[str]) -> str:
    """Return two lines that say what to install."""
    return f"{what} needs the extra `{extra}` (not installed: {', '.join(missing)}):\n    pip install 'dpcore[{extra}]'"


def require(what: str, extra: str) -> None:
    """Raise `ModuleNotFoundError` with the pip line if a package of the extra is not installed."""
    missing = absent(extra)
    if missing:
        raise ModuleNotFoundError(advice(what, extra, missing), name=missing[0])
