"""`dpcore completion`: the script with which a shell completes commands and options."""

from __future__ import annotations

import click
from click.shell_completion import ShellComplete, get_completion_class

from dpcore._commands import SHORT

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_DPCORE_COMPLETE"
"""Environment variable by which the script asks `dpcore` for completions."""

HELP = """Print a script that lets your shell complete dpcore's commands and options.

\b
    eval "$(dpcore completion bash)"       # in ~/.bashrc
    eval "$(dpcore completion zsh)"        # in ~/.zshrc
    dpcore completion fish > ~/.config/fish/completions/dpcore.fish

Start a new shell afterwards, and press Tab after dpcore.

\b
Exit codes: 0 printed; 2 the shell is unknown.
"""


@click.command("completion", help=HELP, short_help=SHORT["completion"])
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print the script that click has for the shell."""
    made = get_completion_class(shell)
    if made is None:
        raise click.UsageError(f"this click has no completion for {shell}")
    # The base class's text: that of bash would start bash to ask for its version.
    click.echo(ShellComplete.source(made(context.find_root().command, {}, "dpcore", VARIABLE)))
