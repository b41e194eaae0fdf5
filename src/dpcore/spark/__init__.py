"""The same jobs on Apache Spark, for tables that outgrow one machine: each record published once, with one noise. Needs the extra `spark`.

>>> from dpcore.spark import make_session
>>> spark = make_session("local[2]")  # doctest: +SKIP

Names are imported when they are first used, so that Spark is not loaded by programs that only look.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpcore._extras import require
from dpcore._lazy import found_in
from dpcore.frames.source import ADAPTERS

require("dpcore.spark", "batch")  # that pyspark is absent is said where a session starts

if TYPE_CHECKING:
    from dpcore.spark.connect import Declared
    from dpcore.spark.estimating import estimate
    from dpcore.spark.noise_plans import Written
    from dpcore.spark.privatising import PendingWrite, privatize
    from dpcore.spark.releasing import release
    from dpcore.spark.session import make_session
else:
    __getattr__ = found_in(
        __name__,
        {
            "connect": "Declared",
            "estimating": "estimate",
            "noise_plans": "Written",
            "privatising": "PendingWrite privatize",
            "releasing": "release",
            "session": "make_session",
        },
    )

__all__ = ["Declared", "PendingWrite", "Written", "estimate", "make_session", "privatize", "release"]


def __dir__() -> list[str]:
    return __all__


def _source_of(frame: object, connect: object) -> Any:
    """The source of a Spark frame for `PrivateTable`; None for anything else."""
    if not type(frame).__module__.startswith("pyspark."):
        return None
    from dpcore.spark.table_source import adapted

    return adapted(frame, connect)


ADAPTERS.append(_source_of)
