"""The types of the methods of tables, for type checkers and editors: `make stubs` writes them."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

from dpcore.frames.signatures import Described
from dpcore.query.kinds import METHODS

HEAD = '''"""The methods that ask queries, as their kinds describe them. `make stubs` writes this file; do not edit it."""

from collections.abc import Sequence
from typing import Literal

from dpcore.frames.results import TableResult
from dpcore.query.methods import Bound, Listed, Points

class Methods:
    """The queries that a table answers."""
'''


def stub() -> str:
    """The whole file."""
    return "\n".join([HEAD, *(_method(Described.of(name)) for name in METHODS)])


def _method(described: Described) -> str:
    column, *others = (
        f"{each.name}: {each.annotation}{'' if each.is_required else ' = None'}".replace("'", '"') for each in described.arguments
    )
    first, *lines = f'"""{described.docstring}"""'.split("\n")
    body = [first, *(line and f"        {line}" for line in lines[:-1]), f"        {lines[-1]}"]
    parameters = textwrap.indent("".join(f"{each},\n" for each in ("self", column, "*", *others)), "        ")
    return f"    def {described.method.name}(\n{parameters}    ) -> TableResult:\n        " + "\n".join(body) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(stub(), encoding="utf-8")
