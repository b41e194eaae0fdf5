"""Names of tests, the same in every process: workers that share a run must collect the same ones."""

import re


def shown(value: object) -> str:
    """A parameter without the addresses of what it holds."""
    return re.sub(r" at 0x[0-9A-Fa-f]+", "", str(value))
