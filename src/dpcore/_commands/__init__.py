"""The subcommands of `dpcore`: their help, arguments and options. What they do is in `jobs.commands` and in the packages that they run.

A command imports what it runs when it runs, so that its help and the completion of shells take no longer than Click does. Signals wait
meanwhile, because a half-loaded extension may abort the process.
"""

SHORT = {
    "bench": "Measure the speed of dpcore beside other packages and bounds.",
    "completion": "Print a completion script for your shell.",
    "estimate": "Estimate from privatised tables, with confidence intervals.",
    "info": "Print version, CPU level, random source and build, and which Spark and Java are found.",
    "init": "Draft a job for a table, with comments.",
    "ledger": "Keep a privacy budget that cannot be overspent.",
    "plan": "Find the epsilon that the queries of a job need.",
    "privatize": "Randomise a table, row by row, as a job file says.",
    "rehearse": "Run a job many times on a public table, to see its errors.",
    "release": "Answer questions about a table with noise, as a job file says.",
    "reproduce": "Measure results of the literature again, on simulated data.",
    "verify": "Make a release again from its key file, and compare.",
}
"""What each command does in a line. The module of its name is imported when it is asked for, and not for the list of all."""

__all__: list[str] = []


def __dir__() -> list[str]:
    return __all__
