"""Numbers of groups: they stay arrays until a document is wanted, because there may be a million of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping


def listed(value: Any) -> Any:
    """Numbers of Python in place of an array or of one of its elements; anything else as it is."""
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def with_lists(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document of a job with lists in place of the arrays of its answers: what is written.

    Parameters
    ----------
    document : mapping
        With `queries`, as `document_of` makes it.
    """
    return {**document, "queries": [{key: listed(each) for key, each in query.items()} for query in document["queries"]]}
