"""What a refusal of a row may say, and to whom."""

from __future__ import annotations

import re
from collections.abc import Callable

from support.jobs import Finished, Workplace


def refused_row(place: Workplace, run: Callable[..., Finished], secret: str, *words: str) -> None:
    """Exit code 3 with a position and no value for a curator, with neither for anybody else; nothing is written."""
    before = place.source.read_bytes() if place.source.is_file() else None
    told = run("--curator")
    done = run()
    assert (told.code, done.code) == (3, 3), told.said + done.said
    for word in words:
        assert word in told.err, (word, told.err)
    assert "outside the guarantee" in told.err
    assert str(place.source) not in done.err
    assert re.search(r"\d", done.err.splitlines()[-1].replace("neither 0 nor 1", "")) is None, done.err
    for said in (told.said, done.said):
        assert secret not in said
        assert "Traceback" not in said
    assert told.out == done.out == ""
    assert place.left_behind() == []
    if before is not None:
        assert place.source.read_bytes() == before
