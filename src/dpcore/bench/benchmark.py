"""What a benchmark is: our work, the peers and bounds beside it, and how large a call is."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, Literal

from dpcore._dataclasses import dataclass

Work = Callable[[], object]
"""What is timed: a call without arguments."""
Prepare = Callable[[Any], Work]
"""From the inputs of a benchmark to the work on them."""
Kind = Literal["peer", "bound", "itself"]
"""Another program or method; the least that any program needs; dpcore itself, called in another way."""
Character = Literal["call", "cache", "compute", "memory", "whole"]
"""What the time depends on most: the call itself, computing in the cache, computing on several threads, the memory, or everything that a
whole program does."""
PIP = {
    "mkl_random": "mkl_random",
    "multi_freq_ldpy": "multi-freq-ldpy 'xxhash<4'",
    "pure_ldp": "pure-ldp statsmodels 'xxhash<4'",
    "pydp": "python-dp",
    "diffprivlib": "diffprivlib 'scikit-learn<1.8'",
    "tmlt": "tmlt.core",
}
"""What `pip install` calls a package, with what it needs and does not declare."""


def installed(package: str) -> bool:
    """Whether a package can be imported; this does not import it.

    Parameters
    ----------
    package : str
        Its name.
    """
    return find_spec(package) is not None


def pip_line(package: str) -> str:
    """The command that installs a package.

    Parameters
    ----------
    package : str
        Its name, as it is imported.
    """
    return f"pip install {PIP.get(package, package)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """A peer or a bound beside our work.

    Attributes
    ----------
    name : str
        Name in tables.
    prepare : callable
        From the inputs of the benchmark to the work that is timed.
    kind : {"peer", "bound", "itself"}
        What it is.
    package : str
        The package that it needs. Peers of absent packages are left out, and named.
    safe : bool
        Whether the numbers that it makes may be released: their law is exact, and their source is secure.
    size : int or None
        How many units one call handles, for peers that are too slow for all of them. None: as many as ours.
    check : callable or None
        From the inputs and the result of a call: raises `AssertionError` if the result is wrong.
    judges : bool
        Whether `dpcore bench compare` judges our time by its ratio to this one.
    """

    name: str
    prepare: Prepare
    kind: Kind = "peer"
    package: str = "numpy"
    safe: bool = False
    size: int | None = None
    check: Callable[[Any, Any], None] | None = None
    judges: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """Our work, and what is timed in turns with it.

    Attributes
    ----------
    group, name : str
        Both are in tables, and `--only` takes the group.
    size : int
        How many units one call handles.
    unit : str
        What a unit is: a value, a record, a call.
    threads : int
        Threads of dpcore.
    inputs : callable
        Makes what both sides work on.
    ours : callable
        From the inputs to our work.
    check : callable or None
        From the inputs and our result: raises `AssertionError` if the result is wrong.
    sides : tuple of Side
        What our work takes turns with.
    character : {"call", "cache", "compute", "memory", "whole"}
        What the time depends on most.
    levels : bool
        Whether it runs at every CPU level of the machine.
    quick : bool
        Whether `--quick` has it.
    weight : float
        Its share of the time of a run; most have 1.
    children : bool
        Whether the work runs in child processes, whose CPU time counts.
    package : str
        A package that our side needs.
    """

    group: str
    name: str
    size: int
    inputs: Callable[[], Any]
    ours: Prepare
    sides: tuple[Side, ...] = ()
    unit: str = "value"
    threads: int = 1
    check: Callable[[Any, Any], None] | None = None
    character: Character = "memory"
    levels: bool = False
    quick: bool = True
    weight: float = 1.0
    children: bool = False
    package: str = "numpy"

    @property
    def key(self) -> str:
        """What identifies it between runs, but for the CPU level."""
        return f"{self.group}/{self.name}/{self.size}/{self.threads}"


@dataclass(frozen=True, slots=True)
class Plan:
    """How much a run measures.

    Attributes
    ----------
    size : int
        Number of values of large arrays; other inputs are sized after it.
    largest : int
        Largest array of the curves.
    cores : int
        Most threads.
    quick : bool
        Whether only the benchmarks of a quick run are made.
    threaded : int or None
        Number of values of large arrays that several threads work on: below some size a call starts none. Default: `size`.
    """

    size: int
    largest: int
    cores: int
    quick: bool
    threaded: int | None = None
