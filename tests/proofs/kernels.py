"""The kernels as a whole: every lane of a block computes the same tree of its own words and values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pycparser import c_ast

from proofs.execute import DOUBLE, UINT64, Cell, Execution, Pointer, RefusedError, Type
from proofs.lemmas import Context, Lemma, ProofError, lane_call, operands_of, structure, word
from proofs.trees import Node, node, nodes_of, replaced, variable

GROUP, HALF = 128, 64
LANES = {
    "exponential_ratio": lane_call("exponential_ratio", "size", "power"),
    "exponential_from": lane_call("exponential_from"),
    "radius_ratio": lane_call("radius_ratio", "power", "rare"),
    "radius_from": lane_call("radius_from"),
    "radius_lane": lane_call("radius_lane", "rare"),
    "circle_lane": lane_call("circle_lane", "cosine", "sine"),
    "unless": lane_call("unless"),
    "nearest": lane_call("nearest"),
    "nearest_small": lane_call("nearest_small"),
    "to_int64": lane_call("to_int64"),
    "settled_int64": lane_call("settled_int64"),
}
"""Lanes with lemmas of their own, which the kernels' trees hold as one node each."""
PER_LANE = ("step", "grid", "inverse", "offset", "quick")


@dataclass
class Block:
    """One run of a kernel on a block of symbols.

    Attributes
    ----------
    outputs : list
        The tree of each lane.
    returned : node
        What says whether a lane is open.
    given : dict
        The variables of each lane, by what they are.
    """

    outputs: list[Any]
    returned: Any
    given: list[dict[str, Node]] = field(default_factory=list)


def numbers(name: str, n: int) -> list[Cell]:
    return [Cell(DOUBLE, variable(f"{name}{i}")) for i in range(n)]


def lanes_of(run: Execution, n: int, *, uniform: bool) -> Pointer:
    """The parameters of a block's lanes: one value each, or one for each lane."""
    size = 1 if uniform else n
    fields = {"step_scale": "step", "grid": "grid", "inverse_grid": "inverse", "offset": "offset", "quick": "quick"}
    arrays = {key: Pointer(numbers(name, size)) for key, name in fields.items()}
    constants = {name: variable(name) for name in ("slack", "alpha", "beta")}
    return structure(run, "dpk_lanes", **arrays, **constants, uniform=int(uniform))


def words_of(n: int) -> list[Cell]:
    return [Cell(UINT64, word(f"w{i}")) for i in range(n)]


def _lane(i: int, *, uniform: bool) -> dict[str, Node]:
    own = {name: variable(f"{name}{0 if uniform else i}") for name in PER_LANE}
    return own | {"x": variable(f"x{i}"), "low": variable(f"low{i}"), "w": word(f"w{i}"), "accept": variable(f"accept{i}", width=16)}


def float_block(context: Context, level: str, kernel: str, n: int, *, uniform: bool, with_low: bool) -> Block:
    """Run `laplace` or `gaussian`."""
    run = Execution(context.source(level), LANES)
    y = [Cell(DOUBLE) for _ in range(n)]
    low = Pointer(numbers("low", n)) if with_low else None
    returned = run.call(kernel, lanes_of(run, n, uniform=uniform), Pointer(words_of(n)), Pointer(numbers("x", n)), low, Pointer(y), n)
    return Block([cell.value for cell in y], returned, [_lane(i, uniform=uniform) for i in range(n)])


def discrete_block(context: Context, level: str, kernel: str, n: int, *, uniform: bool) -> Block:
    """Run `discrete_laplace` or `gaussian_rounded`."""
    run = Execution(context.source(level), LANES)
    z = [Cell(Type("int", 64, is_signed=True)) for _ in range(n)]
    accept = [Pointer([Cell(Type("int", 16), variable(f"accept{i}", width=16)) for i in range(n)])] if kernel == "gaussian_rounded" else []
    returned = run.call(kernel, lanes_of(run, n, uniform=uniform), Pointer(words_of(n)), *accept, Pointer(z), n)
    return Block([cell.value for cell in z], returned, [_lane(i, uniform=uniform) for i in range(n)])


def raw_block(context: Context, level: str, kernel: str, n: int) -> Block:
    """Run `exponential_raw` or `normal_raw`."""
    run = Execution(context.source(level), LANES)
    y = [Cell(DOUBLE) for _ in range(n)]
    run.call(kernel, Pointer(words_of(n)), Pointer(y), n)
    return Block([cell.value for cell in y], None, [_lane(i, uniform=False) for i in range(n)])


def exponential_of(w: Node) -> Node:
    """The unit sample of a word: NaN where it is left to the next tier."""
    ratio, power, size = (node(f"call:exponential_ratio{part}", w) for part in ("", ".power", ".size"))
    known = node("select", node("fle", 2.0**50, size), 0, 2**64 - 1, width=64)
    return node("call:exponential_from", ratio, node("call:unless", known, power))


def radius_of(w: Node) -> Node:
    """The radius of a pair's first word: NaN where it is left to the next tier."""
    ratio, power, rare = (node(f"call:radius_ratio{part}", w) for part in ("", ".power", ".rare"))
    # The flag is an integer of 32 bits in the trees.
    known = node("select", node("negation", node("eq", rare, 0, width=32)), 2**64 - 1, 0, width=64)
    return node("call:radius_from", ratio, node("call:unless", known, power))


def normal_of(w: Node, v: Node, *, is_first: bool) -> Node:
    """A member of the pair of two words."""
    return node("mul", radius_of(w), node(f"call:circle_lane.{'cosine' if is_first else 'sine'}", v))


def pair(i: int) -> tuple[int, int]:
    """The two words of a lane of a Gaussian kind."""
    group, at = i // GROUP * GROUP, i % HALF
    return group + at, group + at + HALF


def opened(block: Block, opens: list[Node]) -> None:
    """The kernel's return value says whether any of these lanes is open."""
    total = operands_of(operands_of(block.returned, "negation")[0], "eq")[0]
    found: list[Any] = []
    stack = [total]
    while stack:
        here = stack.pop()
        if isinstance(here, Node) and here.op == "plus":
            stack.extend(here.args)
        elif here != 0:
            found.append(here)
    if sorted(map(id, found)) != sorted(map(id, opens)):
        raise ProofError("what the kernel returns does not count the open lanes")


def renamed(block: Block, template: Node, first: int, lane: int) -> Node:
    """The tree of one lane as another lane would have it."""
    return replaced(template, {block.given[first][name]: block.given[lane][name] for name in block.given[first]})


SIZES = (GROUP, 2 * GROUP)
"""Lengths of blocks: a group, and several."""


def check_blocks(context: Context) -> None:
    """All lanes of a block have one tree each, of their own words and values, for one scale and for many."""
    for level in context.levels:
        for n in SIZES:
            _check_raw(context, level, n)
            # The loops over groups do not depend on what a lane is: longer blocks have a scale for each lane.
            for uniform in (True, False) if n == GROUP else (False,):
                for with_low in (True, False) if n == GROUP else (False,):
                    block = float_block(context, level, "laplace", n, uniform=uniform, with_low=with_low)
                    _check_laplace_lanes(block, level)
                    _check_pairs(float_block(context, level, "gaussian", n, uniform=uniform, with_low=with_low), level)
                block = discrete_block(context, level, "discrete_laplace", n, uniform=uniform)
                _check_laplace_lanes(block, level)
                _check_pairs(discrete_block(context, level, "gaussian_rounded", n, uniform=uniform), level)


def _check_raw(context: Context, level: str, n: int) -> None:
    block = raw_block(context, level, "exponential_raw", n)
    for i, found in enumerate(block.outputs):
        if found is not exponential_of(block.given[i]["w"]):
            raise ProofError(f"{level}: lane {i} of exponentials is not the sample of its word")
    block = raw_block(context, level, "normal_raw", n)
    for i, found in enumerate(block.outputs):
        w, v = pair(i)
        expected = normal_of(block.given[w]["w"], block.given[v]["w"], is_first=i % GROUP < HALF)
        if found is not expected:
            raise ProofError(f"{level}: lane {i} of normals is not a member of the pair of its words")


def _check_laplace_lanes(block: Block, level: str) -> None:
    for i, found in enumerate(block.outputs):
        if found is not renamed(block, block.outputs[0], 0, i):
            raise ProofError(f"{level}: lane {i} of {len(block.outputs)} computes something else than lane 0")


def _check_pairs(block: Block, level: str) -> None:
    """Lanes of one half have one tree; those of the other half have the sine where the first have the cosine."""
    for i, found in enumerate(block.outputs):
        w, v = pair(i)
        expected = block.outputs[0]
        names: dict[Any, Any] = {block.given[0][name]: block.given[i][name] for name in block.given[0] if name != "w"}
        names |= {block.given[0]["w"]: block.given[w]["w"], block.given[HALF]["w"]: block.given[v]["w"]}
        if i % GROUP >= HALF:
            cosine = node("call:circle_lane.cosine", block.given[HALF]["w"])
            names[cosine] = node("call:circle_lane.sine", block.given[v]["w"])
        if found is not replaced(expected, names):
            raise ProofError(f"{level}: lane {i} of {len(block.outputs)} is not the release of its pair's member")


# Which functions there are


ENTRIES = (
    "laplace",
    "gaussian",
    "discrete_laplace",
    "gaussian_table",
    "gaussian_guided",
    "gaussian_rounded",
    "exponential_raw",
    "normal_raw",
    "dpk_retry_rounded",
    "cosines",
)
"""The kernels of the fast tier of noise, the retries, and the cosines of series."""
OUTSIDE = {"proposal_words", "dpk_accepted", "dpk_more_words"}
"""What the retries call to read words and to accept: no rounding errors of samples."""


def reached(context: Context, level: str) -> set[str]:
    """All functions of the sources that the fast tier calls, itself included."""
    functions = context.source(level).functions

    class Calls(c_ast.NodeVisitor):  # type: ignore[misc]
        def __init__(self) -> None:
            self.found: set[str] = set()

        def visit_FuncCall(self, each: Any) -> None:
            if isinstance(each.name, c_ast.ID):
                self.found.add(each.name.name)
            self.generic_visit(each)

    found: set[str] = set()
    stack = [name for name in ENTRIES if name in functions]
    while stack:
        name = stack.pop()
        if name in found or name not in functions or name in OUTSIDE:
            continue
        found.add(name)
        calls = Calls()
        calls.visit(functions[name])
        stack.extend(calls.found)
    missing = [name for name in ENTRIES if name not in functions]
    if missing:
        raise RefusedError(f"the sources have no {', '.join(missing)}")
    return found


def check_coverage(lemmas: Callable[[], tuple[Lemma, ...]]) -> Callable[[Context], None]:
    """The check that every function of the fast tier is in some lemma."""

    def check(context: Context) -> None:
        known = {name for lemma in lemmas() for name in lemma.functions}
        for level in context.levels:
            without = reached(context, level) - known
            if without:
                raise ProofError(f"{level}: no lemma is about {', '.join(sorted(without))}")

    return check


def is_arithmetic_of(root: Node, leaf: Node) -> bool:
    """Whether a NaN in the leaf makes a NaN of the root: some path between them has operations on numbers only."""
    passes = {"add", "sub", "mul", "div", "fma", "abs", "neg", "sqrt"} | {"call:nearest", "call:nearest_small"}
    spoiled: set[Node] = set()
    for each in nodes_of(root):
        if each is leaf or (each.op in passes and any(isinstance(a, Node) and a in spoiled for a in each.args)):
            spoiled.add(each)
    return root in spoiled


LEMMAS = (
    Lemma(
        "blocks",
        "Each lane of a block is one function of its own words, value and scale, for one scale and for many, with and without low parts.",
        "machine",
        "symbolic execution",
        (
            "laplace",
            "laplace_body",
            "gaussian",
            "gaussian_body",
            "discrete_laplace",
            "discrete_laplace_body",
            "gaussian_rounded",
            "rounded_body",
            "exponentials",
            "exponential_start",
            "normals",
            "exponential_raw",
            "normal_raw",
        ),
        check_blocks,
    ),
)
