"""Lemmas about bits, proved by a solver for all values: trees of integer operations as formulas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from proofs.execute import RefusedError
from proofs.trees import Node, nodes_of

MILLISECONDS = 60_000


def solver() -> Any:
    """The module of the solver; an ImportError where it is not installed."""
    import z3

    return z3


def formula(root: Any, given: Mapping[Node, Any], width: int = 64) -> Any:
    """The formula of a tree of so many bits.

    `given` has one for each variable, and for each number whose bits the tree reads, that of its bits.
    """
    z3 = solver()
    done: dict[Node, Any] = dict(given)
    for each in _needed(root, given):
        w = each.width
        args = [done[a] if isinstance(a, Node) else a for a in each.args]
        if each.op in {"of_bits", "to_bits"}:
            # The solver sees numbers as their bits.
            done[each] = args[0]
            continue
        if each.op in {"both", "either"}:
            done[each] = (z3.And if each.op == "both" else z3.Or)(*args)
            continue
        if each.op == "negation":
            done[each] = z3.Not(args[0])
            continue
        if each.op == "truth":
            done[each] = z3.If(args[0], z3.BitVecVal(1, w), z3.BitVecVal(0, w))
            continue
        if each.op == "select":
            size = next((a.size() for a in args[1:] if hasattr(a, "size")), w or 64)
            done[each] = z3.If(args[0], *(_vector(a, size) for a in args[1:]))
            continue
        if each.op == "cut":
            done[each] = z3.Extract(w - 1, 0, args[0])
            continue
        if each.op in {"zero_extended", "sign_extended"}:
            extend = z3.ZeroExt if each.op == "zero_extended" else z3.SignExt
            done[each] = extend(w - args[1], args[0])
            continue
        done[each] = _integer(z3, each, [_vector(a, w) for a in args])
    return _vector(done[root] if isinstance(root, Node) else root, width)


def _needed(root: Any, given: Mapping[Node, Any]) -> list[Node]:
    """The nodes that must be translated, operands first."""
    found: set[Node] = set()
    stack = [root]
    while stack:
        here = stack.pop()
        if not isinstance(here, Node) or here in given or here in found:
            continue
        found.add(here)
        stack.extend(here.args)
    return [each for each in nodes_of(root) if each in found]


def _vector(x: Any, width: int) -> Any:
    if isinstance(x, float):
        from proofs.trees import bits_of

        x = bits_of(x)
    return solver().BitVecVal(x, width) if isinstance(x, int) and not isinstance(x, bool) else x


def _integer(z3: Any, each: Node, args: list[Any]) -> Any:
    plain = {
        "plus": lambda a, b: a + b,
        "minus": lambda a, b: a - b,
        "times": lambda a, b: a * b,
        "and": lambda a, b: a & b,
        "or": lambda a, b: a | b,
        "xor": lambda a, b: a ^ b,
        "not": lambda a: ~a,
        "left": lambda a, b: a << b,
        "right": z3.LShR,
        "arithmetic_right": lambda a, b: a >> b,
        "eq": lambda a, b: a == b,
        "below": z3.ULT,
        "less": lambda a, b: a < b,
    }
    if each.op not in plain:
        raise RefusedError(f"the operation {each.op} on bits")
    return plain[each.op](*args)


def holds(claim: Any, *assumed: Any) -> bool:
    """Whether the claim follows; raises where the solver gives up."""
    z3 = solver()
    found = z3.Solver()
    found.set("timeout", MILLISECONDS)
    found.add(*assumed, z3.Not(claim))
    answer = found.check()
    if answer == z3.unknown:
        raise RefusedError(f"the solver gives up: {found.reason_unknown()}")
    return bool(answer == z3.unsat)
