"""`dpcore info`."""

from __future__ import annotations

import json

import click

from dpcore._commands import SHORT
from dpcore._disk.signals import Deferred
from dpcore._terminal import form_option, wants_json
from dpcore._version import __version__


@click.command("info", short_help=SHORT["info"])
@form_option
@click.option("--java", is_flag=True, help="Print only the folder that JAVA_HOME must name so that Spark starts.")
def command(*, as_json: bool | None, java: bool) -> None:
    """Print version, CPU level, random source and build, and which Spark and Java are found."""
    with Deferred():
        from dpcore import _backend, _java, _spark_masters
        from dpcore.rng import STREAM_VERSION
    if java:
        click.echo(_java.home())
        return
    facts = {"version": __version__, "stream_version": STREAM_VERSION, **_backend.info(), **_java.facts()}
    warning = _spark_masters.warning_here()
    facts |= {} if warning is None else {"warning": warning}
    click.echo(json.dumps(facts, indent=2) if wants_json(as_json) else _lines(facts))


def _lines(facts: dict[str, object]) -> str:
    width = max(map(len, facts))
    shown = {key: ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value) for key, value in facts.items()}
    return "\n".join(f"{key.replace('_', ' '):<{width}}  {value}" for key, value in shown.items())
