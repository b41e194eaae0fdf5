"""The targets by their names."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fuzz.target import Target

CORPUS = Path(__file__).resolve().parent / "corpus"
TARGETS = {
    "jobs": "jobs:Jobs",
    "expressions": "expressions:Expressions",
    "csv": "csv_files:CsvFiles",
    "arrow": "typed_files:ArrowFiles",
    "parquet": "typed_files:ParquetFiles",
    "described": "described_files:DescribedFiles",
    "ledgers": "ledgers:Ledgers",
    "sealed": "sealed_runs:SealedRuns",
    "states": "states:States",
}


def target_class(name: str) -> type[Target]:
    """The class of a target."""
    module, _, kind = TARGETS[name].partition(":")
    found: type[Target] = getattr(import_module(f"fuzz.{module}"), kind)
    return found


def inputs(name: str) -> list[Path]:
    """The corpus of a target, in order."""
    folder = CORPUS / name
    return sorted(path for path in folder.iterdir() if path.is_file()) if folder.is_dir() else []
