"""Tests that a package decides: without it they have no subject."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

evaluated = pytest.mark.skipif(find_spec("duckdb") is None, reason="needs DuckDB, which evaluates expressions and looks up public tables")
