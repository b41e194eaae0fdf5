"""The subcommands of `dpcore` for jobs, and how they show progress."""
