"""Gappa scripts from trees: every operation with its rounding, the exact value beside it, hypotheses and a goal."""

from __future__ import annotations

import functools
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from proofs.execute import RefusedError
from proofs.trees import Node, nodes_of

INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
HARMLESS = ("relation already known", "no need for the rewriting")
"""Warnings about hints that Gappa does without; any other one may mean that a hint is wrong."""
SECONDS = 120
"""After which Gappa is taken to have failed."""


class NotInstalledError(Exception):
    """A program that a lemma needs is not on the path."""


@functools.cache
def version() -> str:
    """The version of Gappa; raises `NotInstalledError` without it."""
    if shutil.which("gappa") is None:
        raise NotInstalledError("gappa is not installed (apt-get install gappa sollya)")
    done = subprocess.run(["gappa", "--version"], capture_output=True, text=True, check=False)
    return (done.stdout or done.stderr).split()[-1]


def number(x: float | Fraction) -> str:
    """An exact number of the form that Gappa reads: an integer times a power of two."""
    exact = Fraction(x)
    power = exact.denominator.bit_length() - 1
    if exact.denominator != 1 << power:
        raise ValueError(f"{x} is no dyadic number")
    return f"{exact.numerator}b-{power}" if power else str(exact.numerator)


def outward(low: Fraction, high: Fraction, bits: int = 120) -> tuple[Fraction, Fraction]:
    """An interval with ends of about so many bits around another one."""
    return _cut(low, bits), -_cut(-high, bits)


def _cut(x: Fraction, bits: int) -> Fraction:
    """The number or a little less, with few bits."""
    if x.denominator & (x.denominator - 1) == 0 and x.denominator.bit_length() <= bits:
        return x
    shift = bits - (x.numerator.bit_length() - x.denominator.bit_length())
    scaled = x * Fraction(2) ** shift
    return Fraction(scaled.numerator // scaled.denominator) / Fraction(2) ** shift


def within(name: str, low: Fraction | float, high: Fraction | float) -> str:
    """The statement that an expression lies in an interval."""
    a, b = outward(Fraction(low), Fraction(high))
    return f"{name} in [{number(a)},{number(b)}]"


@dataclass
class Script:
    """A Gappa script that is being written.

    Attributes
    ----------
    lines : list
        Definitions.
    names : dict
        The name of each node's computed value.
    exact : dict
        The name of each node's value without roundings.
    hints : list
        What the proof may use; Gappa checks each of them.
    """

    lines: list[str] = field(default_factory=lambda: ["@rnd = float<ieee_64,ne>;"])
    names: dict[Node, str] = field(default_factory=dict)
    exact: dict[Node, str] = field(default_factory=dict)
    hints: list[str] = field(default_factory=list)

    def float_variable(self, node: Node, name: str) -> str:
        """Declare a variable that holds a float64."""
        self.lines.append(f"{name} = rnd({name}_);")
        self.names[node] = self.exact[node] = name
        return name

    def define(self, name: str, expression: str) -> str:
        """Name an expression that is not rounded."""
        self.lines.append(f"{name} = {expression};")
        return name

    def computed(self, root: Node, prefix: str = "t") -> str:
        """Write what the operations below a node compute; leaves must have names. Returns the name of its value."""
        for each in nodes_of(root):
            if each not in self.names and not self._is_below_named(each, root):
                name = f"{prefix}{len(self.names)}"
                self.lines.append(f"{name} {self._operation(each)};")
                self.names[each] = name
        return self.names[root]

    def _is_below_named(self, each: Node, root: Node) -> bool:
        """Whether a node is used by nothing but what has a name already."""
        return each not in self._needed(root)

    def _needed(self, root: Node) -> set[Node]:
        found: set[Node] = set()
        stack = [root]
        while stack:
            here = stack.pop()
            if here in found or here in self.names:
                continue
            found.add(here)
            stack.extend(a for a in here.args if isinstance(a, Node))
        return found

    def _operand(self, x: object) -> str:
        if isinstance(x, Node):
            return self.names[x]
        if isinstance(x, float):
            return f"({number(x)})" if x < 0 else number(x)
        raise RefusedError(f"an operand {x!r}")

    def _operation(self, each: Node) -> str:
        args = [self._operand(a) for a in each.args] if each.op != "variable" else []
        if each.op in INFIX:
            return f"rnd= {args[0]} {INFIX[each.op]} {args[1]}"
        if each.op == "fma":
            return f"rnd= {args[0]} * {args[1]} + {args[2]}"
        if each.op == "sqrt":
            return f"rnd= sqrt({args[0]})"
        if each.op == "neg":
            return f"= -{args[0]}"
        if each.op == "abs":
            return f"= |{args[0]}|"
        if each.op == "rint":
            return f"= int<ne>({args[0]})"
        raise RefusedError(f"the operation {each.op}, of which no bound is proved")

    def without_roundings(self, root: Node, given: Mapping[Node, str], prefix: str = "e") -> str:
        """Write the exact value of the operations below a node, and that each computed value is near to it."""
        self.exact.update(given)
        for each in nodes_of(root):
            if each in self.exact or each not in self._reached(root):
                continue
            args = [self.exact[a] if isinstance(a, Node) else self._operand(a) for a in each.args]
            if each.op in INFIX:
                text = f"{args[0]} {INFIX[each.op]} {args[1]}"
            elif each.op == "fma":
                text = f"{args[0]} * {args[1]} + {args[2]}"
            elif each.op == "neg":
                text = f"-{args[0]}"
            else:
                raise RefusedError(f"the operation {each.op}, of which no exact value is known")
            name = f"{prefix}{len(self.exact)}"
            self.define(name, text)
            self.exact[each] = name
            self.near(self.names[each], name)
        return self.exact[root]

    def _reached(self, root: Node) -> set[Node]:
        found: set[Node] = set()
        stack = [root]
        while stack:
            here = stack.pop()
            if here in found or here in self.exact:
                continue
            found.add(here)
            stack.extend(a for a in here.args if isinstance(a, Node))
        return found

    def near(self, computed: str, exact: str) -> None:
        """A hint: one expression approximates the other."""
        self.hints.append(f"{computed} ~ {exact};")

    def text(self, hypotheses: Iterable[str], goal: str) -> str:
        """The whole script."""
        claim = " /\\\n  ".join(hypotheses)
        return "\n".join([*self.lines, "{", f"  {claim}", f"  -> {goal}", "}", *self.hints, ""])


@functools.lru_cache(maxsize=4096)
def failure(script: str) -> str:
    """Let Gappa prove a script; returns what it says if it does not, else nothing."""
    version()
    try:
        done = subprocess.run(["gappa"], input=script, capture_output=True, text=True, check=False, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return f"no proof within {SECONDS} seconds"
    said = (done.stdout + done.stderr).strip()
    doubtful = [line for line in said.splitlines() if ("Warning" in line and not any(each in line for each in HARMLESS)) or "Error" in line]
    if done.returncode or doubtful:
        return " ".join(doubtful) or said or f"exit code {done.returncode}"
    return ""
