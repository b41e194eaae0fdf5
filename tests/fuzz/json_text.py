"""Mutations of JSON that keep it JSON."""

from __future__ import annotations

import copy
import json
import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import random

SCALARS: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 3, 8, 255, 2**24, 2**31, 2**53 + 1, 2**63 - 1, -(2**63), 2**64, 10**400, 0.5, 1e-300, 1e308, -0.0,
    math.inf,
    -math.inf, math.nan, "", "a", "b", "row", "x" * 500, "\x00", "\x1b[31m", "é", "\ud800", "../x", "s3://bucket/key", [], {}, [[]], ["a",
    "a"],
    [1, 2], {"format": 1}, [[[[[[[[[[]]]]]]]]]], [1.5, "a", None], list(range(300)),
)  # fmt: skip


def parsed(data: bytes) -> Any:
    """A document; None if it is no JSON."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def mutated(document: Any, rng: random.Random, keys: tuple[str, ...] = (), values: tuple[Any, ...] = ()) -> Any:
    """The document with one to three changes."""
    document = copy.deepcopy(document)
    for _ in range(rng.choice((1, 1, 2, 3))):
        nodes = _nodes(document)
        if not nodes:
            return rng.choice(SCALARS)
        node = rng.choice(nodes)
        places = list(node) if isinstance(node, dict) else list(range(len(node)))
        chosen = rng.randrange(8)
        if not places or chosen == 0:
            if isinstance(node, dict):
                node[rng.choice(keys or ("a",))] = _value(rng, nodes, values)
            elif len(node) < 300:
                node.append(copy.deepcopy(rng.choice(node)) if node and rng.random() < 0.5 else _value(rng, nodes, values))
            continue
        place = rng.choice(places)
        if chosen == 1:
            del node[place]
        elif chosen == 2 and isinstance(node, dict) and keys:
            node[rng.choice(keys)] = node.pop(place)
        elif chosen == 3 and isinstance(node[place], int | float) and not isinstance(node[place], bool):
            node[place] = rng.choice((node[place] + 1, -node[place], node[place] * 2, node[place] - 1))
        elif chosen == 4 and isinstance(node[place], str):
            text = node[place]
            node[place] = rng.choice((text + "x", text[:-1], text.upper(), text * 2))
        else:
            node[place] = _value(rng, nodes, values)
    return document


def _value(rng: random.Random, nodes: list[Any], values: tuple[Any, ...]) -> Any:
    chosen = rng.random()
    if values and chosen < 0.4:
        return copy.deepcopy(rng.choice(values))
    return copy.deepcopy(rng.choice(nodes)) if chosen < 0.5 and len(repr(nodes)) < 20_000 else copy.deepcopy(rng.choice(SCALARS))


def _nodes(found: Any) -> list[Any]:
    if not isinstance(found, dict | list):
        return []
    inner = found.values() if isinstance(found, dict) else found
    return [found, *(node for each in inner for node in _nodes(each))]


def written(document: Any) -> bytes:
    """The document as bytes."""
    return json.dumps(document, ensure_ascii=False).encode(errors="surrogatepass")
