"""`mode`: the most frequent of declared candidates, a label."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from dpcore._dataclasses import dataclass
from dpcore.pages.numbers import counted
from dpcore.query.fields import Confidence
from dpcore.query.kinds.top import CandidatesQuery, Top, TopEstimator
from dpcore.query.methods import Method
from dpcore.query.prose import of_column

if TYPE_CHECKING:
    from dpcore.privacy import Relation
    from dpcore.query.assumed import Assumed
    from dpcore.query.estimators import Estimator
    from dpcore.query.kinds.base import Columns, Entry
    from dpcore.query.sensitivity import Contribution
    from dpcore.rng import Stream


class ModeQuery(CandidatesQuery):
    """`kind = "mode"`: the most frequent of declared candidates. It is chosen as the first of a `top_s`."""

    kind: Literal["mode"]
    confidence: Annotated[Confidence, Field(description="Of what is said about other candidates, in (0, 1). Default: 0.95.")] = 0.95
    s: ClassVar[int] = 1
    method: ClassVar[str] = "gumbel"
    values: ClassVar[bool] = False


class Mode(Top):
    """The label of one candidate."""

    names, fields = ("mode",), (ModeQuery,)
    methods = (
        Method(
            "mode",
            "Choose the most frequent of declared candidates.",
            "The chosen candidate, for each group if there are groups; `behind` says by how many rows others may be ahead.",
            ("delta", "candidates", "candidates_file", "k"),
        ),
    )

    def calibrate(self, query: Any, columns: Columns, bound: Contribution, relation: Relation, groups: int) -> Estimator:
        cells: Any = columns[0][1]
        return ModeEstimator.calibrate(query, cells, bound, relation, groups)

    def question(self, query: Entry) -> str:
        return f"The most frequent of the declared values{of_column(query)}"

    def behind(self, query: Entry) -> int | None:
        return int(query["behind"])

    def _bound(self, query: Entry) -> str:
        return f"no other is ahead by more than {counted(query['behind'], 'row')}"

    def caveats(self, query: Entry) -> list[str]:  # noqa: ARG002
        return ["Of values with nearly the same frequency, noise decides which is chosen."]

    def heads(self, query: Entry) -> list[str]:  # noqa: ARG002
        return [""]


@dataclass(frozen=True, slots=True)
class ModeEstimator(TopEstimator):
    """The candidate whose count is the largest after Gumbel noise: the exponential mechanism."""

    @property
    def behind(self) -> int:
        r"""Rows that another candidate has more than the chosen one, at most, with the probability of the query's confidence.

        A candidate with t rows fewer than the most frequent one is chosen with e^(−t/b) times its probability, b the scale. So the k − 1
        others that are t rows behind or more together have at most (k − 1)·e^(−t/b) times the probability of the most frequent one:
        not more than β of the whole, if t ≥ b·ln((k − 1)(1 − β)/β).
        """
        odds = (self.cells.size - 1) * self.section.confidence / (1 - self.section.confidence)
        return math.floor(self.trial.scale * max(math.log(odds), 0.0) * (1 + 2.0**-40)) if odds > 0 else 0

    def half_width(self, assumed: Assumed) -> float | None:  # noqa: ARG002
        return float(self.behind)

    def parameters(self) -> dict[str, Any]:
        """The number of candidates, and how far the choice may be off."""
        return {"candidates": self.cells.size, "behind": self.behind}

    def release_each(self, total: Any, rng: Stream | None) -> dict[str, list[Any]]:
        """The chosen label of each group, by draws that no other group has."""
        said = TopEstimator.release_each(self, total, rng)
        return {**said, "value": [label for (label,) in said["value"]]}
