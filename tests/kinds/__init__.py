"""What tests ask of every kind of query: a file here for each file of `dpcore/query/kinds`.

A file says for its kinds

- `EXAMPLES`: queries on the table of `support.every_query`, by name. The golden documents, the matrix of proofs, the equality of jobs,
  frames and Spark, pages and terminals go through all of them.
- `SHARPER`: keys that an example has in the matrix of proofs instead, where only they come near ε.
- `MAY_SKIP`: examples that leave rows without a value out only if asked; others have a value for such rows, or cannot.
- `ORACLES`: queries on the tables of `kinds.tables` with the statement by which DuckDB answers them.
- `RELEASED`: for each class of answers what it releases, as parts whose privacy loss is a maximum and a sum.
- `WAYS`: the same for answers that are made in one of several ways.
- `NO_DELTA`: kinds without Gaussian noise.
- `NO_LOSS`: keys of its own that change no loss, for the matrix of proofs.
- `ALONE`: queries that no other one shares a job with; they take no groups.
- `ELSEWHERE`: kinds whose loss is not a matter of ε alone, and the files of `tests/property` that prove it.
- `LAWS`: where the law of each kind is tested at 10^-6, beside one that is rejected.
"""

from __future__ import annotations

import importlib
from typing import Any

from dpcore.query.kinds import FILES

MODULES = {name: importlib.import_module(f"kinds.{name}") for name in dict.fromkeys(path.partition(".")[0] for path in FILES)}


def merged(word: str) -> dict[Any, Any]:
    """One of the dictionaries above, of all files."""
    found = [item for module in MODULES.values() for item in getattr(module, word, {}).items()]
    if len(dict(found)) != len(found):
        raise AssertionError(f"two files have the same key of {word}")
    return dict(found)


EXAMPLES: dict[str, dict[str, Any]] = merged("EXAMPLES")
ALONE: dict[str, dict[str, Any]] = merged("ALONE")
NO_DELTA: dict[str, bool] = merged("NO_DELTA")
NO_LOSS: dict[str, bool] = merged("NO_LOSS")
MAY_SKIP: dict[str, bool] = merged("MAY_SKIP")
ELSEWHERE: dict[str, tuple[str, ...]] = merged("ELSEWHERE")
SHARPER: dict[str, dict[str, Any]] = merged("SHARPER")
ORACLES: dict[str, Any] = merged("ORACLES")
LAWS: dict[str, str] = merged("LAWS")
