"""The subcommands of `dpcore`: their help, arguments and options. What they do is in `batch.commands` and in the packages that they run.

A command imports what it runs when it runs, so that its help and the completion of shells take no longer than Click does. Signals wait
meanwhile, because a half-loaded extension may abort the process.
"""

__all__: list[str] = []


def __dir__() -> list[str]:
    return __all__
