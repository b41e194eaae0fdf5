"""The subcommands by name, each of which is imported when it is looked up."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, MutableMapping

import click

from dpcore._commands import SHORT


class ByName(MutableMapping[str, click.Command]):
    """The commands; click may add others."""

    def __init__(self) -> None:
        self._found: dict[str, click.Command | None] = dict.fromkeys(SHORT)

    def __getitem__(self, name: str) -> click.Command:
        found = self._found[name]
        if found is None:
            found = self._found[name] = importlib.import_module(f"dpcore._commands.{name}").command
        return found

    def __setitem__(self, name: str, command: click.Command) -> None:
        self._found[name] = command

    def __delitem__(self, name: str) -> None:
        del self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


class Group(click.Group):
    """The command `dpcore`, whose help lists the subcommands without importing them."""

    def format_commands(self, _context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(sorted(SHORT.items()))
